//! `shardc prove`, `shardc run` and `shardc time` of the files of other tools.

use super::Failure;
use super::input::{self, Source};
use super::{Format, Output};
use crate::compiler;
use crate::diag::{Diagnostic, Diagnostics, Label, Severity};
use crate::dtype::DType;
use crate::export::msccl::{self, At, Program, Proven, Room, Written};
use crate::export::ranks::{Kind, Shape};
use crate::export::{chakra, messages, mscclpp};
use crate::mesh::{Axis, Mesh};
use crate::schedule::Schedule;
use crate::span::Span;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt::Display;
use std::path::Path;

/// The most bytes of a buffer: as many as an array may have elements.
const MOST_BYTES: u64 = 1 << 60;

/// What can be said of a file of another tool.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Foreign {
    /// What the file of another tool should do, if it does not say so itself
    #[arg(long, value_enum)]
    collective: Option<Collective>,
    /// Slots of a connection of MSCCL's runtime; a chunk takes 4 with the protocol Simple, 1 with LL and LL128
    #[arg(long, default_value_t = msccl::SLOTS, value_parser = clap::value_parser!(u32).range(4..))]
    slots: u32,
    /// Steps of a thread block that MSCCL's runtime has room for [default: 256; of a file for Azure's and RCCL 64]
    #[arg(long, value_name = "STEPS")]
    max_steps: Option<usize>,
    /// The mesh of its ranks, `X: 4 ring, Y: 2`; without, one axis
    #[arg(long)]
    mesh: Option<String>,
    /// Bytes of the larger of the two buffers of a rank
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=MOST_BYTES))]
    bytes: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Collective {
    Allgather,
    Reducescatter,
    Allreduce,
    Alltoall,
    Broadcast,
}

impl Collective {
    fn kind(self) -> Kind {
        match self {
            Collective::Allgather => Kind::AllGather,
            Collective::Reducescatter => Kind::ReduceScatter,
            Collective::Allreduce => Kind::AllReduce,
            Collective::Alltoall => Kind::AllToAll,
            Collective::Broadcast => Kind::Broadcast,
        }
    }
}

/// What was shown of a file, for scripts.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    file: &'a str,
    collective: &'static str,
    ranks: u64,
    input_chunks: u64,
    output_chunks: u64,
    steps: usize,
    messages: usize,
    unused: usize,
    /// Of MSCCL's connections; none in plans of MSCCL++.
    slots: Option<u32>,
    proven: bool,
}

/// What was shown of a folder, for scripts.
#[derive(Serialize)]
struct TracesDocument<'a> {
    schema: &'static str,
    folder: &'a str,
    ranks: usize,
    nodes: usize,
    messages: usize,
    matched: bool,
}

/// Whether a text is the file of another tool.
pub(super) fn is_foreign(text: &str) -> bool {
    msccl::is_msccl(text) || mscclpp::is_mscclpp(text)
}

/// Proves a file and says what was shown.
pub(super) fn prove(source: &Source, foreign: &Foreign, output: Output) -> Result<(), Failure> {
    if mscclpp::is_mscclpp(&source.text) {
        return prove_plan(source, foreign, output);
    }
    let (written, proof) = proven(source, foreign, output.format)?;
    match output.format {
        Format::Text => input::print(&shown(&written.program, &proof, foreign.slots)),
        Format::Json => input::print_json(&Document {
            schema: "shardc.algorithm/1",
            file: &source.name,
            collective: proof.kind.name(),
            ranks: proof.shape.ranks,
            input_chunks: proof.shape.input,
            output_chunks: proof.shape.output,
            steps: proof.steps,
            messages: proof.messages,
            unused: proof.unused.map_or(0, |(_, count)| count),
            slots: Some(foreign.slots),
            proven: true,
        }),
    }
}

/// The same of a plan of MSCCL++.
fn prove_plan(source: &Source, foreign: &Foreign, output: Output) -> Result<(), Failure> {
    let (plan, proof) = proven_plan(source, foreign, output.format)?;
    let shape = proof.shape;
    match output.format {
        Format::Text => {
            let blocks: usize = plan.gpus.iter().map(|gpu| gpu.threadblocks.len()).sum();
            input::print(&format!(
                "proven   {} over {} ranks, of {} input and {} output chunks each\n         {} operations in {blocks} \
                 thread blocks send {} signals; in every order, and in any number of launches in a row, the result is \
                 right\n{}",
                proof.kind,
                shape.ranks,
                shape.input,
                shape.output,
                proof.operations,
                proof.signals,
                unneeded(proof.unused, "operations"),
            ))
        }
        Format::Json => input::print_json(&Document {
            schema: "shardc.algorithm/1",
            file: &source.name,
            collective: proof.kind.name(),
            ranks: shape.ranks,
            input_chunks: shape.input,
            output_chunks: shape.output,
            steps: proof.operations,
            messages: proof.signals,
            unused: proof.unused.map_or(0, |(_, count)| count),
            slots: None,
            proven: true,
        }),
    }
}

fn proven_plan(
    source: &Source,
    foreign: &Foreign,
    format: Format,
) -> Result<(mscclpp::Plan, mscclpp::Proven), Failure> {
    let plan = mscclpp::read(&source.text)
        .map_err(|error| Failure::Call(format!("`{}` is no plan of MSCCL++: {error}", source.name)))?;
    let wrong = |flaw: mscclpp::Flaw| input::fault(source, &Diagnostics::of(&flaw), format);
    let proof = mscclpp::prove(&plan, foreign.collective.map(Collective::kind)).map_err(wrong)?;
    Ok((plan, proof))
}

/// Checks a folder of traces and says what was shown.
pub(super) fn prove_traces(folder: &str, foreign: &Foreign, output: Output) -> Result<(), Failure> {
    let files = input::numbered(Path::new(folder))?;
    // There is no text that a finding could point into.
    let source = Source::nowhere(folder);
    let wrong = |found: Diagnostics| input::fault(&source, &found, output.format);
    let messages = chakra::read(&files).map_err(|error| wrong(Diagnostics::of(&error)))?;
    let kind = foreign.collective.map(Collective::kind);
    messages::check(&messages, kind).map_err(|flaw| wrong(Diagnostics::of(&flaw)))?;
    let nodes = || messages.ranks.iter().flatten();
    let sent = nodes().filter(|node| matches!(node.what, messages::What::Send { .. })).count();
    match output.format {
        Format::Text => {
            let heard = match kind {
                Some(kind) => format!("each rank hears of all that {kind} needs; that it gets the right data"),
                None => "what is sent, and to what end,".to_owned(),
            };
            input::print(&format!(
                "matched  {} nodes of {} ranks send {sent} messages, all received, and nothing waits for ever\n         \
                 {heard} is not in such files\n",
                nodes().count(),
                messages.ranks.len(),
            ))
        }
        Format::Json => input::print_json(&TracesDocument {
            schema: "shardc.traces/1",
            folder,
            ranks: messages.ranks.len(),
            nodes: nodes().count(),
            messages: sent,
            matched: true,
        }),
    }
}

/// A proven file as a schedule on a mesh of its ranks.
pub(super) fn schedule(source: &Source, foreign: &Foreign, format: Format) -> Result<Schedule, Failure> {
    if mscclpp::is_mscclpp(&source.text) {
        let (plan, proof) = proven_plan(source, foreign, format)?;
        let mesh = foreign.mesh(plan.gpus.len())?;
        let elements = foreign.elements(proof.shape)?;
        return Ok(mscclpp::schedule(&plan, &proof, mesh, DType::F32, elements));
    }
    let (written, proof) = proven(source, foreign, format)?;
    let mesh = foreign.mesh(written.program.gpus.len())?;
    let elements = foreign.elements(proof.shape)?;
    Ok(msccl::schedule(&written.program, &proof, mesh, DType::F32, elements))
}

impl Foreign {
    /// What MSCCL's runtime has room for.
    fn room(&self, program: &Program) -> Room {
        let usual = Room::of(program.dialect);
        Room { slots: self.slots, steps: self.max_steps.unwrap_or(usual.steps) }
    }

    /// How long a chunk is.
    fn elements(&self, shape: Shape) -> Result<u64, Failure> {
        let chunks = shape.input.max(shape.output).max(1);
        let least = chunks.saturating_mul(DType::F32.size());
        match self.bytes / least {
            0 => Err(Failure::Call(format!(
                "`--bytes {}` is too few: one f32 in each chunk of a buffer takes {least} bytes",
                self.bytes
            ))),
            elements => Ok(elements),
        }
    }

    /// A device for each rank.
    fn mesh(&self, ranks: usize) -> Result<Mesh, Failure> {
        let mesh = self.written_mesh(ranks)?;
        match mesh.device_count() {
            count if count == ranks => Ok(mesh),
            count => Err(Failure::Call(format!("the file has {ranks} ranks, and the mesh {count} devices"))),
        }
    }

    fn written_mesh(&self, ranks: usize) -> Result<Mesh, Failure> {
        let Some(text) = &self.mesh else {
            let size = u32::try_from(ranks).unwrap_or(u32::MAX);
            let axis = Axis { name: "X".to_owned(), size, wiring: None, over: None };
            return Mesh::new(vec![axis]).ok_or_else(|| Failure::Call(format!("{ranks} ranks are too many")));
        };
        let body = text.trim().trim_start_matches('{').trim_end_matches('}');
        let (program, found) = compiler::check(&format!("mesh {{{body}}}\nA: f32[1]\nB = relu(A)\n"));
        let error = || found.iter().find(|found| found.severity == Severity::Error);
        let wrong = || error().map_or_else(String::new, |found| format!(": {}", found.message));
        program.map(|program| program.mesh).ok_or_else(|| Failure::Call(format!("`{text}` is no mesh{}", wrong())))
    }
}

fn proven(source: &Source, foreign: &Foreign, format: Format) -> Result<(Written, Proven), Failure> {
    let wrong = |found: Diagnostics| input::fault(source, &found, format);
    let written = msccl::read(&source.text).map_err(|error| wrong(Diagnostics::of(&error)))?;
    let room = foreign.room(&written.program);
    let proof = msccl::prove(&written.program, foreign.collective.map(Collective::kind), room).map_err(|flaw| {
        let mut found = Diagnostic::new(&flaw);
        let label = |(place, at): (usize, At)| {
            let range = written.place(at)?;
            let text = if place == 0 { "here".to_owned() } else { "and here".to_owned() };
            Some(Label { span: Span::new(range.start, range.end), text, primary: place == 0 })
        };
        found.labels = flaw.steps().into_iter().enumerate().filter_map(label).collect();
        let mut all = Diagnostics::default();
        all.push(&found);
        wrong(all)
    })?;
    Ok((written, proof))
}

/// What was shown, for people.
fn shown(program: &Program, proof: &Proven, slots: u32) -> String {
    let shape = proof.shape;
    let blocks: usize = program.gpus.iter().map(|gpu| gpu.blocks.len()).sum();
    let mut text = format!(
        "proven   {} over {} ranks, of {} input and {} output chunks each\n         {} steps in {blocks} thread \
         blocks send {} messages; in every order the result is right\n         no deadlock with {slots} slots a \
         connection, of which a chunk takes {}\n",
        proof.kind,
        shape.ranks,
        shape.input,
        shape.output,
        proof.steps,
        proof.messages,
        program.protocol.slots(),
    );
    text.push_str(&unneeded(proof.unused, "steps"));
    text
}

/// A note on what is done for nothing.
fn unneeded(unused: Option<(impl Display, usize)>, what: &str) -> String {
    let Some((first, count)) = unused else { return String::new() };
    let rest = if count > 1 { format!(", as for {} more {what}", count - 1) } else { String::new() };
    format!("note     nobody needs the result of {first}{rest}\n")
}
