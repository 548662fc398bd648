//! `shardc calibrate`: a profile of the machine that this runs on, and what profiles are worth there.

use super::arrays::Arrays;
use super::computed::Data;
use super::engine::Kind;
use super::ranks::Ranks;
use super::{Failure, files, input};
use crate::compiler::{self, Options};
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::engine::calibrate::{Calibration, MESSAGES, local_work, shifts};
use crate::engine::measured::{Measured, Spread};
use crate::schedule::{OpKind, Schedule};
use crate::sim::clock;
use crate::topology::{Hardware, Topology};
use crate::units::{Bytes, show_seconds};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct Calibrate {
    /// What is measured: `mpirun -n 8 shardc calibrate --engine mpi`
    #[arg(long, value_enum)]
    engine: Kind,
    /// The profile to write; without it, it is printed
    #[arg(short, long, value_name = "OUT.toml")]
    output: Option<PathBuf>,
    /// Instead of a profile, a table: collectives as this profile predicts them and as they are measured
    #[arg(long, value_name = "FILE.toml", conflicts_with = "output")]
    against: Option<String>,
    /// Bytes of the arrays of the table
    #[arg(long, value_name = "BYTES,BYTES,..", value_delimiter = ',', default_values_t = SIZES, requires = "against", value_parser = clap::value_parser!(u64).range(4..=1 << 34))]
    bytes: Vec<u64>,
    /// How often each thing is measured
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
}

/// How long a message may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of the arrays of the table.
const SIZES: [u64; 3] = [1 << 13, 1 << 18, 1 << 22];
/// A collective of the table.
struct Row {
    name: &'static str,
    program: &'static str,
    /// With the wiring that each is for.
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

impl Calibrate {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.engine == Kind::Sim {
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
            Some(path) => files::write(path, &text),
            None => input::put(&text),
        }
    }

    /// Collectives as a profile predicts them and as they are, beside those of MPI.
    fn compare(&self, ranks: &Ranks, hardware: &Hardware) -> Result<(), Failure> {
        let size = u64::from(ranks.size());
        let mut text = "| collective | bytes | MPI's own | method | predicted | measured | measured / predicted | measured / MPI's |\n\
             | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n"
            .to_owned();
        for Row { name, program: body, methods } in COLLECTIVES {
            for bytes in &self.bytes {
                let elements = (bytes / DType::F32.size()).max(1).next_multiple_of(size * size);
                let own = ranks.native(name, elements)?.median;
                for (method, wiring) in methods {
                    let program = format!(
                        "mesh {{X: {size} {wiring}}} on h100\ndims {{I: {size}, J: {}}}\n{body} using {method}\noutput B\n",
                        elements / size
                    );
                    // Some methods take only some numbers of ranks.
                    let Some((schedule, topology)) = compiled(&program, hardware)? else { continue };
                    let timing = clock::run(&schedule, &topology).map_err(|error| Failure::Call(error.to_string()))?;
                    let predicted = topology.scale.seconds(timing.makespan);
                    let took = ranks.measure(&schedule)?.makespan.median;
                    text.push_str(&format!(
                        "| {name} | {} | {} | {method} | {} | {} | {:.2} | {:.2} |\n",
                        Bytes(elements * DType::F32.size()),
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

/// The schedule of a program, proven, on this hardware; none if a method that it asks for is not for its mesh.
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

/// A product in this type, and a sum of f32.
fn local(ranks: &Ranks, size: u32, dtype: DType) -> Result<(Spread, Spread), Failure> {
    let hardware = Hardware::named("h100").ok_or_else(|| Failure::Call("there is no profile `h100`".to_owned()))?;
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

/// Bytes of memory of this machine; a gigabyte where it does not tell.
fn memory() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(1 << 30, |kibibytes: u64| kibibytes << 10)
}
