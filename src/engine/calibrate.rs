//! Measures a machine to create its hardware profile.
//!
//! All measurements run as schedules in the engine, on all ranks at once, so that contention for cores and memory is
//! included.

use super::measured::Spread;
use crate::dtype::DType;
use crate::escape::toml_value;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Dense, OpKind, Operation, Output, Route, Schedule, Sources};
use crate::span::Span;
use crate::topology::Work;
use itertools::Itertools;
use std::fmt::Write as _;

/// Sizes of the timed messages in bytes.
pub const MESSAGES: [u64; 8] = [4, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 19, 1 << 20, 1 << 22];
/// Rows and columns of the multiplied matrices.
pub const MATRIX: u64 = 384;
/// Elements of the added f32 arrays.
pub const ELEMENTS: u64 = 1 << 20;

/// A schedule in which every device sends `bytes` bytes to the next one, repeated until all blocks are back.
pub fn shifts(ranks: u32, bytes: u64) -> Schedule {
    let mesh = Mesh::of(&[("X", ranks)]);
    let (axis, extent) = (AxisId::new(0), bytes / DType::F32.bytes(1));
    let dims = vec![Axes::one(axis)];
    let sharding = Sharding { dims, open: Axes::default().set(), operator: Operator::Sum };
    let mut schedule = Schedule::new(mesh);
    let extents = vec![extent * u64::from(ranks)];
    schedule.arrays.push(Array {
        name: "A".to_owned(),
        dtype: DType::F32,
        dims: vec!["I".to_owned()],
        extents: extents.clone(),
        valid: extents,
        definition: Dense::INPUT,
    });
    let operation = |kind| Operation {
        kind,
        dtype: DType::F32,
        extents: vec![extent],
        step: 0,
        method: None,
        span: Span::default(),
    };
    let array = ArrayId(0);
    let mut value = schedule.push(operation(OpKind::Input { array, sharding: sharding.clone() }), &[]);
    for _ in 0..ranks {
        let sources = Sources::Shift { axes: Axes::one(axis), by: 1, wrap: true };
        value = schedule.push(operation(OpKind::Shuffle { sources, route: Route::Shortest }), &[value]);
    }
    schedule.outputs.push(Output { value, array, sharding });
    schedule
}

/// A program in which every device multiplies matrices of this type and adds arrays.
pub fn local_work(ranks: u32, dtype: DType) -> String {
    format!(
        "mesh {{X: {ranks}}} on h100_book\ndims {{I: {MATRIX}, J: {MATRIX}, K: {MATRIX}, L: {ELEMENTS}}}\n\
         A: {dtype}[I, J]\nB: {dtype}[J, K]\nC = A * B\nD: f32[L]\nE: f32[L]\nF = D + E\noutput C\noutput F\n"
    )
}

/// The measurements of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Number of concurrent processes.
    pub ranks: u32,
    /// Number of cores that they share.
    pub cores: usize,
    /// Bytes of memory of each rank.
    pub memory: u64,
    /// Bytes and seconds of a message while all ranks send, sorted by size.
    pub messages: Vec<(u64, Spread)>,
    /// Seconds of a product of two square bf16 matrices of size [`MATRIX`].
    pub bf16: Spread,
    /// Seconds of the same product in i8.
    pub int8: Spread,
    /// Seconds of a sum of two arrays of [`ELEMENTS`] f32.
    pub sum: Spread,
}

/// The time of a message as a line: an overhead, and its bytes over a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Seconds of a message independent of its length.
    pub overhead: f64,
    /// Bytes per second.
    pub rate: f64,
}

impl Line {
    /// Seconds of a message.
    pub fn time(self, bytes: u64) -> f64 {
        self.overhead + bytes as f64 / self.rate
    }

    /// By which factor it is off, in either direction.
    fn off(self, bytes: u64, took: f64) -> f64 {
        let ratio = self.time(bytes) / took.max(1e-12);
        ratio.max(1.0 / ratio)
    }
}

impl Calibration {
    /// The line through two of the measured messages from which the others are off by the smallest factors: the geometric
    /// mean decides. A size at which other processes took the cores has no more weight than the others, however late it is.
    pub fn line(&self) -> Line {
        let taken = |number: usize| (self.messages[number].0, self.messages[number].1.median);
        let through = |(one, other): (usize, usize)| {
            let ((short, first), (long, last)) = (taken(one), taken(other));
            let rate = (long - short) as f64 / (last - first).max(1e-12);
            // No message is free.
            let overhead = (first - short as f64 / rate).max(1e-9);
            Line { overhead, rate }
        };
        let off =
            |line: &Line| -> f64 { self.messages.iter().map(|(bytes, took)| line.off(*bytes, took.median).ln()).sum() };
        let pairs = (0..self.messages.len()).array_combinations().map(|[one, other]| through((one, other)));
        let best = pairs.min_by(|one, other| off(one).total_cmp(&off(other)));
        best.unwrap_or(Line { overhead: 1e-6, rate: 1e9 })
    }

    /// The profile, with the spread of each measurement.
    pub fn to_toml(&self) -> String {
        let Calibration { ranks, cores, memory, messages, bf16, int8, sum } = self;
        let operations = 2.0 * (MATRIX as f64).powi(3);
        let traffic = 3.0 * DType::F32.bytes(ELEMENTS) as f64;
        let mut text = format!(
            "# Measured by `shardc calibrate --engine mpi`: medians, and in brackets the least and the most.\n\
             name = \"mpi_{ranks}\"\n\
             description = \"{ranks} ranks of MPI on {cores} cores, all at work at once; measured\"\n\n\
             # Products of {MATRIX} x {MATRIX} x {MATRIX}, operations a second of one rank.\n"
        );
        let mut line = |text_line: String| writeln!(text, "{text_line}").expect("a string");
        let rates = |amount: f64, took: &Spread| {
            let (least, most) = (two_digits(amount / took.most), two_digits(amount / took.least));
            (two_digits(amount / took.median), format!("({least} to {most})"))
        };
        for (name, took) in [("bf16_flops", bf16), ("int8_flops", int8)] {
            let (rate, spread) = rates(operations, took);
            line(format!("{name} = {rate}  # {spread}"));
        }
        let (rate, spread) = rates(traffic, sum);
        line(format!(
            "\n# Memory of one rank; bytes a second of a sum of two arrays of {ELEMENTS} f32.\nhbm_bytes = {memory}"
        ));
        line(format!("hbm_bandwidth = {rate}  # {spread}"));
        line("\n# A message takes its overhead and its bytes. What a rank does, it does with one core.".to_owned());
        line("hop_rule = \"sum\"\nlocal_moves = \"memory\"\n".to_owned());
        line("[engines]".to_owned());
        let all = Work::ALL.map(|work| toml_value(&work)).join(", ");
        line(format!("core = [{all}]\n"));
        line("# All ranks send to the next one at once. The figures are the line that fits all sizes best:".to_owned());
        let fitted = self.line();
        for (bytes, took) in messages {
            let [median, least, most] = [took.median, took.least, took.most].map(crate::units::show_seconds);
            let (predicted, off) = (crate::units::show_seconds(fitted.time(*bytes)), fitted.off(*bytes, took.median));
            line(format!(
                "# {bytes:>8} bytes in {median} ({least} to {most}), by the figures {predicted}: off by {off:.2}"
            ));
        }
        line("[network]\nname = \"shared_memory\"".to_owned());
        line(format!("one_way = {}  # bytes a second, after the overhead", two_digits(fitted.rate)));
        line(format!("hop_latency = \"{}\"  # of a message without bytes", nanoseconds(fitted.overhead)));
        line("message_overhead = \"0us\"\nwiring = \"switch\"\nswitch = \"cut_through\"".to_owned());
        text
    }
}

/// A rate with two significant digits, so that all rates of a profile have a common tick.
fn two_digits(rate: f64) -> String {
    let rate = if rate.is_finite() { rate.clamp(1e3, 1e18) } else { 1e18 };
    format!("{rate:.1e}")
}

/// A time in whole nanoseconds.
fn nanoseconds(seconds: f64) -> String {
    format!("{:.0}ns", (seconds * 1e9).clamp(1.0, 1e12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::proof::prove;
    use crate::topology::{Hardware, Topology};

    fn machine(overhead: f64, rate: f64) -> Calibration {
        let spread = |median: f64| Spread { median, least: median * 0.9, most: median * 1.5 };
        let messages = MESSAGES.iter().map(|bytes| (*bytes, spread(overhead + *bytes as f64 / rate)));
        let (messages, memory) = (messages.collect(), 1 << 30);
        Calibration { ranks: 8, cores: 2, memory, messages, bf16: spread(1e-3), int8: spread(2e-3), sum: spread(5e-3) }
    }

    #[test]
    fn a_profile_has_the_figures_of_its_machine() {
        for (overhead, rate) in [(3e-6, 1e9), (1e-4, 4.2e8), (5e-7, 2e10)] {
            let text = machine(overhead, rate).to_toml();
            let hardware = Hardware::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let near = |found: u64, expected: f64| (found as f64 / expected - 1.0).abs() < 0.06;
            assert!(near(hardware.network.one_way.per_second(), rate), "{text}");
            assert!(near(hardware.network.hop_latency, overhead * 1e12), "{text}");
            assert!(near(hardware.bf16_flops.per_second(), 2.0 * 384f64.powi(3) / 1e-3), "{text}");
            assert!(near(hardware.hbm_bandwidth.per_second(), 12.0 * (1 << 20) as f64 / 5e-3), "{text}");
            assert!(Topology::new(Mesh::of(&[("X", 8)]), hardware).is_ok(), "{text}");
        }
    }

    /// Sizes that took fifty times as long, because other processes had the cores, do not change the line.
    #[test]
    fn late_messages_have_no_weight() {
        let late = Spread { median: 1.0, least: 0.9, most: 2.0 };
        for places in [[0, 1], [2, 5], [6, 7], [0, 7]] {
            let mut machine = machine(3e-6, 1e9);
            for place in places {
                machine.messages[place].1 = late;
            }
            let Line { overhead, rate } = machine.line();
            assert!((overhead / 3e-6 - 1.0).abs() < 1e-6 && (rate / 1e9 - 1.0).abs() < 1e-6, "{places:?}");
        }
    }

    #[test]
    fn what_is_measured_is_right() {
        for ranks in [2, 5, 8] {
            prove(&shifts(ranks, 1 << 10)).expect("all blocks come home");
            for dtype in [DType::Bf16, DType::I8] {
                let (program, found) = crate::compiler::check(&local_work(ranks, dtype));
                assert!(program.is_some(), "{found:?}");
            }
        }
    }
}
