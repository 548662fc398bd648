//! Random meshes of rings, lines and switches: how close each collective over all axes comes to its bound.

use crate::common::first_collective;
use crate::laws::collective_over;
use itertools::Itertools as _;
use shardc::compiler::{self, Options, Overlapping};
use shardc::report::step_bound;
use shardc::sim::clock;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const KINDS: [&str; 4] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"];

/// Sizes in bytes of the array in full form: from the first on messages are long, below it hops count.
const LONG: u64 = 128 << 10;

/// A collective over all axes of a random mesh of one to three axes and at most 600 devices.
struct Sample {
    kind: &'static str,
    mesh: String,
    devices: u64,
    /// Bytes of the array in full form.
    bytes: u64,
}

impl Sample {
    fn of_seed(seed: u64) -> Sample {
        let mut random = fastrand::Rng::with_seed(seed);
        let sizes = loop {
            let sizes: Vec<u64> = (0..random.usize(1..=3)).map(|_| random.u64(2..=16)).collect();
            if sizes.iter().product::<u64>() <= 600 {
                break sizes;
            }
        };
        let wirings = ["ring", "line", "switch"];
        let axes = sizes.iter().zip(["X", "Y", "Z"]);
        let mesh = axes.map(|(size, name)| format!("{name}: {size} {}", wirings[random.usize(0..3)])).join(", ");
        let kind = KINDS[random.usize(0..4)];
        let devices = sizes.iter().product();
        Sample { kind, mesh, devices, bytes: 1 << random.u32(12..=28) }
    }

    /// The program, whose array is as large as asked where shards are whole bytes.
    fn source(&self) -> String {
        let n = self.devices;
        let columns = match self.kind {
            "AllToAll" => n * (self.bytes / (n * n)).max(1),
            _ => (self.bytes / n).max(1),
        };
        let collective = collective_over(self.kind, &self.mesh);
        format!("mesh {{{}}} on tpu_v5p\ndims {{I: {n}, J: {columns}}}\n{collective}\n", self.mesh)
    }

    /// Simulated time over bound.
    fn ratio(&self) -> f64 {
        let program = compiler::check(&self.source()).0.expect("a right program");
        let options = Options { overlap: Overlapping::None, ..Options::default() };
        let compiled = compiler::compile(&program, &options).expect("a schedule");
        let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
        let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
        assert!(time >= bound, "{} on {} beats its bound", self.kind, self.mesh);
        time.ratio(bound)
    }
}

/// Meshes of the document.
const FIXED: u64 = 400;

/// Times over bounds by size and kind, in ascending order, each with its seed.
type Ratios = BTreeMap<(bool, &'static str), Vec<(f64, u64)>>;

/// The ratios of the first seeds.
fn ratios(count: u64) -> Ratios {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Ratios::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return;
            }
            let sample = Sample::of_seed(seed);
            let ratio = sample.ratio();
            let key = (sample.bytes < LONG, sample.kind);
            found.lock().expect("an unpoisoned lock").entry(key).or_default().push((ratio, seed));
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().expect("an unpoisoned lock");
    found.values_mut().for_each(|ratios| ratios.sort_by(|one, other| one.0.total_cmp(&other.0)));
    found
}

/// The value below which a part of the ratios is.
fn percentile(ratios: &[(f64, u64)], percent: usize) -> f64 {
    ratios[(ratios.len() - 1) * percent / 100].0
}

fn size(is_short: bool) -> &'static str {
    if is_short { "below 128 KiB" } else { "from 128 KiB" }
}

/// The section of the document.
fn section(ratios: &Ratios) -> String {
    let mut text = format!(
        "{TITLE}\n\nTime over bound of {FIXED} random collectives over meshes of one to three axes, each a ring, a line or a \
         switch of 2 to\n16 devices, with at most 600 devices. `SHARDC_MESHES=10000 cargo test --release --test clock mixed -- \
         --nocapture` tries\nmore and prints the worst.\n\n{REASONS}\n\n\
         | V | collective | meshes | median | 90th percentile | 95th percentile | worst |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    for ((is_short, kind), ratios) in ratios {
        let at = [50, 90, 95, 100].map(|percent| format!("{:.2}", percentile(ratios, percent))).join(" | ");
        writeln!(text, "| {} | {kind} | {} | {at} |", size(*is_short), ratios.len()).expect("a string");
    }
    text
}

const TITLE: &str = "## Mixed meshes";

const REASONS: &str = "\
Where bytes and hops take about as long, a collective takes at least a part of their sum. The bound has it only for the
data of distant devices, and where all devices are one hop apart. A sum over lines is scattered and gathered, and so pays the hops
twice. An exchange over lines sends axis after axis.";

/// The document with this section, or with the one that it has.
pub(crate) fn with_section(document: &str, written: &str, is_asked: bool) -> String {
    let known = written.find(TITLE).map(|at| written[at..].to_owned()).filter(|_| !is_asked);
    let section = known.unwrap_or_else(|| section(&ratios(FIXED)));
    format!("{document}\n{section}")
}

/// The rows of the document that are about machines with a name.
pub(crate) fn without_section(document: &str) -> &str {
    document.find(TITLE).map_or(document, |at| &document[..at])
}

/// At most these ratios, at the 95th percentile and at worst: from 128 KiB on, and below.
const MOST: [(&str, [(f64, f64); 2]); 4] = [
    ("AllGather", [(1.6, 2.0), (1.1, 1.5)]),
    ("ReduceScatter", [(1.55, 2.0), (1.1, 1.6)]),
    ("AllReduce", [(2.1, 2.4), (1.65, 2.2)]),
    ("AllToAll", [(1.9, 2.7), (1.1, 1.6)]),
];

/// The meshes of the document; `SHARDC_MESHES=10000` tries as many instead and prints the worst.
#[test]
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn collectives_on_mixed_meshes() {
    let asked = std::env::var("SHARDC_MESHES").ok().map(|count| count.parse().expect("a number of meshes"));
    let found = ratios(asked.unwrap_or(FIXED));
    for ((is_short, kind), ratios) in &found {
        let at = [50, 90, 95, 100].map(|percent| format!("{:.3}", percentile(ratios, percent))).join(" ");
        println!("{} {kind}: {at} of {}", size(*is_short), ratios.len());
        for (ratio, seed) in ratios.iter().rev().take(6) {
            let sample = Sample::of_seed(*seed);
            println!("    {ratio:.3} {} bytes on {}", sample.bytes, sample.mesh);
        }
    }
    for ((kind, most), is_short) in MOST.into_iter().cartesian_product([false, true]) {
        let (percentile_95, worst) = most[usize::from(is_short)];
        let ratios = &found[&(is_short, kind)];
        let [reached, last] = [95, 100].map(|percent| percentile(ratios, percent));
        assert!(reached <= percentile_95, "{} {kind}: {reached}", size(is_short));
        assert!(asked.is_some() || last <= worst, "{} {kind}: {last}", size(is_short));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/methods.md");
    let written = std::fs::read_to_string(path).expect("docs/methods.md");
    let is_true = asked.is_some() || written.ends_with(&section(&found));
    assert!(is_true, "write docs/methods.md anew with `SHARDC_METHODS=mixed`: {}", section(&found));
}
