//! `shardc calibrate`: a profile of the machine that this runs on, or from a table of measurements of any machine, and
//! what profiles are worth.

use super::arrays::Arrays;
use super::computed::Data;
use super::engine::Kind;
use super::ranks::Ranks;
use super::{Failure, files, input};
use crate::collective::CollectiveKind;
use crate::compiler::{self, Options};
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::engine::calibrate::{Calibration, MESSAGES, local_work, shifts};
use crate::engine::measured::{Measured, Spread};
use crate::fit::experts::Way;
use crate::fit::products::Peaks;
use crate::fit::table::{Product, TableError};
use crate::fit::{self, Errors};
use crate::schedule::{OpKind, Schedule};
use crate::sim::clock;
use crate::topology::{Hardware, Topology, Unit};
use crate::units::{Bytes, counted, show_seconds};
use clap::{Args, ValueEnum};
use itertools::Itertools;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["engine", "table"])))]
pub(super) struct Calibrate {
    /// Measure this machine: `mpirun -n 8 shardc calibrate --engine mpi`
    #[arg(long, value_enum)]
    engine: Option<Kind>,
    /// Read measurements from a table instead: CSV or the output of nccl-tests; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "fit")]
    table: Option<String>,
    /// What the table measures
    #[arg(long, value_enum, requires = "table")]
    fit: Option<Fitted>,
    /// Use only rows with this value in a column, such as `system=h100_sxm`
    #[arg(long, value_name = "COLUMN=VALUE", requires = "table", value_parser = only)]
    only: Vec<(String, String)>,
    /// Base profile for all figures that are not fitted
    #[arg(long, value_name = "NAME|FILE.toml", requires = "table", default_value = "h100")]
    hardware: String,
    /// With `--fit products` or `attention`: number of compute units per device, such as the 132 multiprocessors of an H100
    #[arg(long, value_name = "COUNT", requires = "table", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    units: Option<u32>,
    /// The measured network of the profile; by default the first
    #[arg(long, value_name = "NAME", requires = "table")]
    network: Option<String>,
    /// Profile to write; by default it is printed
    #[arg(short, long, value_name = "OUT.toml")]
    output: Option<PathBuf>,
    /// Compare this profile's predictions with measured collectives, and print a table
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["output", "table"])]
    against: Option<String>,
    /// Array sizes of the table, in bytes
    #[arg(long, value_name = "BYTES,BYTES,..", value_delimiter = ',', default_values_t = SIZES, requires = "against", value_parser = clap::value_parser!(u64).range(4..=1 << 34))]
    bytes: Vec<u64>,
    /// Number of repetitions of each measurement
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
}

/// Longest wait for a message.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Array sizes of the table, in bytes.
const SIZES: [u64; 3] = [1 << 13, 1 << 18, 1 << 22];
/// A collective of the table.
struct Row {
    name: &'static str,
    program: &'static str,
    /// Methods, each with the wiring it is for.
    methods: [(&'static str, &'static str); 3],
}

const COLLECTIVES: [Row; 4] = [
    Row {
        name: "AllGather",
        program: "A: f32[I_X, J]\nAllGather_X(A[I_X, J]) -> B[I, J]",
        methods: [("recursive_doubling", "switch"), ("one_hop", "switch"), ("clockwise_ring", "ring")],
    },
    Row {
        name: "ReduceScatter",
        program: "A: f32[I, J]{U_X}\nReduceScatter_{X,I}(A[I, J]{U_X}) -> B[I_X, J]",
        methods: [("recursive_halving", "switch"), ("one_hop", "switch"), ("clockwise_ring", "ring")],
    },
    Row {
        name: "AllReduce",
        program: "A: f32[I, J]{U_X}\nAllReduce_X(A[I, J]{U_X}) -> B[I, J]",
        methods: [("recursive_doubling", "switch"), ("one_hop", "switch"), ("clockwise_ring", "ring")],
    },
    Row {
        name: "AllToAll",
        program: "A: f32[I_X, J]\nAllToAll_{X,J}(A[I_X, J]) -> B[I, J_X]",
        methods: [("direct", "switch"), ("bundled", "ring"), ("direct_halves", "ring")],
    },
];

/// What a table measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fitted {
    /// Collectives; columns `collective`, `devices`, `bytes`, `us`
    Collectives,
    /// Matrix products of one dtype; columns `m`, `n`, `k`, `dtype`, `us`; select with `--only dtype=bf16`
    Products,
    /// Causal attention in one kernel, on bf16; columns `batch`, `seq`, `heads`, `kv_heads`, `head_dim`, `us`
    Attention,
    /// Exchanges of tokens with their experts; columns `devices`, `tokens`, `hidden`, `topk`, `experts`, `dispatch_us`,
    /// `combine_us`
    Experts,
}

fn only(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(column, _)| !column.is_empty());
    let (column, value) = parts.ok_or_else(|| "write a column and its value, such as `system=h100_sxm`".to_owned())?;
    Ok((column.to_owned(), value.to_owned()))
}

impl Calibrate {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if let Some((table, fit)) = self.table.as_ref().zip(self.fit) {
            return self.fit_table(table, fit);
        }
        if self.engine == Some(Kind::Sim) {
            return Err(Failure::Call("the simulator takes its times from a profile: write `--engine mpi`".to_owned()));
        }
        let ranks = Ranks::start(None, self.repetitions, TIMEOUT)?;
        let arrays = Arrays::default();
        let data = Data { seed: 0, arrays: &arrays, times: false };
        ranks.lead(data, || match &self.against {
            Some(profile) => self.compare(&ranks, &input::hardware(profile)?),
            None => self.measure(&ranks),
        })
    }

    /// Fits the constants of a profile to a table.
    fn fit_table(&self, table: &str, fitted: Fitted) -> Result<(), Failure> {
        let input::Source { name, text, .. } = input::source(table)?;
        let unread = |error: TableError| Failure::Call(format!("{name}: {error}"));
        let mut hardware = input::hardware(&self.hardware)?;
        let comments = match fitted {
            Fitted::Collectives => {
                let fit = fit::collectives::fit(&fit::table::collectives(&text, &self.only).map_err(unread)?);
                let network = match &self.network {
                    None => &mut hardware.network,
                    Some(name) => {
                        let mut all = std::iter::once(&mut hardware.network).chain(&mut hardware.beyond);
                        let found = all.find(|network| network.name == *name);
                        found.ok_or_else(|| Failure::Call(format!("`{}` has no network `{name}`", self.hardware)))?
                    }
                };
                network.measured = fit.measured;
                let key = |(kind, devices): (CollectiveKind, u32)| format!("{} on {devices} devices", kind.name());
                errors(&fit.errors, &fit.left_out, "where their size is left out of the fit", key)
            }
            Fitted::Products => {
                let rows = fit::table::products(&text, &self.only).map_err(unread)?;
                let operands = |row: &Product| match (row.is_float, row.element) {
                    (true, 1) => DType::F8E4M3,
                    (true, _) => DType::Bf16,
                    (false, _) => DType::I8,
                };
                let dtypes: Vec<DType> = rows.iter().map(operands).dedup().collect();
                let [dtype] = dtypes[..] else {
                    let wanted = "the table has products of several types; choose one, such as `--only dtype=bf16`";
                    return Err(Failure::Call(wanted.to_owned()));
                };
                let peaks =
                    Peaks { flops: hardware.flops(dtype), memory: hardware.hbm_bandwidth, units: self.units()? };
                let fit = fit::products::fit(&rows, peaks);
                let fit = fit.ok_or_else(|| Failure::Call("the table has no products".to_owned()))?;
                hardware.products.set(Unit::of(dtype), fit.products);
                let key = |rows: u32| format!("{} rows and more", 1u64 << rows);
                errors(&fit.errors, &fit.left_out, "of every fifth, left out of the fit", key)
            }
            Fitted::Attention => {
                let rows = fit::table::attention(&text, &self.only).map_err(unread)?;
                let units = self.units()?;
                let peaks = Peaks { flops: hardware.bf16_flops, memory: hardware.hbm_bandwidth, units };
                let fit = fit::attention::fit(&rows, peaks).ok_or_else(|| {
                    Failure::Call("fewer than two measurements are slower than `bf16_flops` of the profile".to_owned())
                })?;
                hardware.attention = Some(fit.attention);
                let faster = match fit.faster {
                    0 => String::new(),
                    some => format!("# without {} faster than `bf16_flops`\n", counted(some as u64, "measurement")),
                };
                let key = |tokens: u32| format!("{} tokens and more", 4u64.pow(tokens));
                faster + &errors(&fit.errors, &fit.left_out, "of every fifth, left out of the fit", key)
            }
            Fitted::Experts => {
                let fit = fit::experts::fit(&fit::table::experts(&text, &self.only).map_err(unread)?);
                let fit = fit.ok_or_else(|| Failure::Call("the table has no exchanges".to_owned()))?;
                hardware.experts = Some(fit.experts);
                let key = |way: Way| way.name().to_owned();
                errors(&fit.errors, &fit.left_out, "of every fifth, left out of the fit", key)
            }
        };
        let text = format!("{comments}{}", hardware.to_toml());
        match &self.output {
            Some(path) => files::write_result(path, &text),
            None => input::put(&text),
        }
    }

    /// The compute units of a device.
    fn units(&self) -> Result<u32, Failure> {
        let missing = || Failure::Call("say how many units compute side by side, such as `--units 132`".to_owned());
        self.units.ok_or_else(missing)
    }

    fn measure(&self, ranks: &Ranks) -> Result<(), Failure> {
        let size = ranks.size();
        if size < 2 {
            return Err(Failure::Call(
                "one rank sends no messages: start `mpirun -n 8 shardc calibrate ..`".to_owned(),
            ));
        }
        let message = |bytes: &u64| -> Result<(u64, Spread), Failure> {
            let took = ranks.measure(&shifts(size, *bytes))?.makespan;
            let each = |seconds: f64| seconds / f64::from(size);
            Ok((*bytes, Spread { median: each(took.median), least: each(took.least), most: each(took.most) }))
        };
        let messages = MESSAGES.iter().map(message).collect::<Result<Vec<_>, Failure>>()?;
        let [bf16, int8] = [DType::Bf16, DType::I8].map(|dtype| local(ranks, size, dtype));
        let ((bf16, sum), (int8, _)) = (bf16?, int8?);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let memory = memory() / u64::from(size);
        let text = Calibration { ranks: size, cores, memory, messages, bf16, int8, sum }.to_toml();
        match &self.output {
            Some(path) => files::write_result(path, &text),
            None => input::put(&text),
        }
    }

    /// Compares predicted and measured collectives, next to those of the MPI library.
    fn compare(&self, ranks: &Ranks, hardware: &Hardware) -> Result<(), Failure> {
        let size = u64::from(ranks.size());
        let mut text = "| collective | bytes | MPI's own | method | predicted | measured | measured / predicted | measured / MPI's |\n\
             | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n"
            .to_owned();
        for Row { name, program: body, methods } in COLLECTIVES {
            for bytes in &self.bytes {
                let elements = (bytes / DType::F32.bytes(1)).max(1).next_multiple_of(size * size);
                let own = ranks.native(name, elements)?.median;
                for (method, wiring) in methods {
                    let program = format!(
                        "mesh {{X: {size} {wiring}}} on h100_book\ndims {{I: {size}, J: {}}}\n{body} using {method}\noutput B\n",
                        elements / size
                    );
                    // Some methods take only some numbers of ranks.
                    let Some((schedule, topology)) = compiled(&program, hardware)? else { continue };
                    let timing = clock::run(&schedule, &topology).map_err(|error| Failure::Call(error.to_string()))?;
                    let predicted = topology.scale.seconds(timing.makespan);
                    let took = ranks.measure(&schedule)?.makespan.median;
                    text.push_str(&format!(
                        "| {name} | {} | {} | {method} | {} | {} | {:.2} | {:.2} |\n",
                        Bytes(DType::F32.bytes(elements)),
                        show_seconds(own),
                        show_seconds(predicted),
                        show_seconds(took),
                        took / predicted,
                        took / own,
                    ));
                }
            }
        }
        input::print(&text)
    }
}

/// Formats the errors of the fitted constants as comments of a profile.
///
/// - `how`: which measurements were held out of the fit.
fn errors<K: Copy + Ord>(
    all: &BTreeMap<K, Errors>,
    left_out: &BTreeMap<K, Errors>,
    how: &str,
    name: impl Fn(K) -> String,
) -> String {
    let none = Errors::default();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let line = |(key, errors): (&K, &Errors)| {
        let left_out = left_out.get(key).unwrap_or(&none);
        format!(
            "# {}: {} times, half within {}, nine of ten within {}, the worst {} off; half within {} {how}\n",
            name(*key),
            errors.count(),
            percent(errors.percentile(50)),
            percent(errors.percentile(90)),
            percent(errors.worst()),
            percent(left_out.percentile(50)),
        )
    };
    all.iter().map(line).collect()
}

/// Compiles a program for this hardware; `None` if a method it names does not support its mesh.
fn compiled(program: &str, hardware: &Hardware) -> Result<Option<(Schedule, Topology)>, Failure> {
    let wrong = |found: &Diagnostics| {
        let found: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
        Failure::Call(format!("{}; in\n{program}", found.join("; ")))
    };
    let (checked, found) = compiler::check(program);
    let Some(checked) = checked else { return Err(wrong(&found)) };
    let options = Options { hardware: Some(hardware.clone()), ..Options::default() };
    match compiler::compile(&checked, &options) {
        Ok(compiled) => Ok(Some((compiled.schedule, compiled.topology))),
        Err(found) if found.iter().any(|found| found.code == "method-not-applicable") => Ok(None),
        Err(found) => Err(wrong(&found)),
    }
}

/// A product in this dtype, and a sum of f32.
fn local(ranks: &Ranks, size: u32, dtype: DType) -> Result<(Spread, Spread), Failure> {
    let hardware =
        Hardware::named("h100_book").ok_or_else(|| Failure::Call("missing profile `h100_book`".to_owned()))?;
    let compiled = compiled(&local_work(size, dtype), &hardware)?;
    let (schedule, _) = compiled.ok_or_else(|| Failure::Call("what is to be measured has no schedule".to_owned()))?;
    let measured: Measured = ranks.measure(&schedule)?;
    let of = |wanted: fn(&OpKind) -> bool| {
        let mut taken = schedule.ids().zip(&measured.operations);
        let own = taken.find(|(id, _)| wanted(&schedule.operation(*id).kind)).map(|(_, took)| *took);
        own.ok_or_else(|| Failure::Call("what is to be measured was not done".to_owned()))
    };
    Ok((of(|kind| matches!(kind, OpKind::MatMul { .. }))?, of(|kind| matches!(kind, OpKind::Map { .. }))?))
}

/// Memory of this machine in bytes; 1 GB if unknown.
fn memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(1 << 30, |kibibytes: u64| kibibytes << 10)
}
