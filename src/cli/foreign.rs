//! `shardc prove`, `shardc run` and `shardc time` for MSCCL and MSCCL++ files and traces.

use super::Failure;
use super::input::{self, Source};
use super::{Format, Output};
use crate::compiler;
use crate::diag::{Diagnostic, Diagnostics, Label, Severity};
use crate::dtype::DType;
use crate::export::msccl::{self, Room};
use crate::export::ranks::{At, Flaw, Kind, Proven, Shape};
use crate::export::{chakra, messages, mscclpp};
use crate::mesh::{Axis, Mesh};
use crate::schedule::Schedule;
use crate::span::Span;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;

/// Upper limit on `--bytes`, as many as an array may have elements.
const MOST_BYTES: u64 = 1 << 60;

/// Options for MSCCL and MSCCL++ files and traces.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Foreign {
    /// Collective that an MSCCL, MSCCL++ or trace file implements, if the file does not name it
    #[arg(long, value_parser = collective())]
    collective: Option<Kind>,
    /// MSCCL slots per connection; a chunk takes 4 with protocol Simple, 1 with LL and LL128
    #[arg(long, default_value_t = msccl::SLOTS, value_parser = clap::value_parser!(u32).range(4..))]
    slots: u32,
    /// MSCCL steps per thread block [default: 256, or 64 for files of Azure's executor and RCCL]
    #[arg(long, value_name = "STEPS")]
    max_steps: Option<usize>,
    /// Mesh of the file's ranks, such as `X: 4 ring, Y: 2`; by default one axis
    #[arg(long)]
    mesh: Option<String>,
    /// Size in bytes of the larger buffer of a rank of the file
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=MOST_BYTES))]
    bytes: u64,
}

fn collective() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::word)).map(|word| Kind::of(&word).expect("one of these words"))
}

/// JSON document about a proven file.
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
    /// Slots per connection of MSCCL; `None` for MSCCL++.
    slots: Option<u32>,
    proven: bool,
}

/// JSON document about a folder of traces.
#[derive(Serialize)]
struct TracesDocument<'a> {
    schema: &'static str,
    folder: &'a str,
    ranks: usize,
    nodes: usize,
    messages: usize,
    matched: bool,
}

/// A proven file.
struct File {
    proof: Proven,
    /// Number of thread blocks of all ranks.
    blocks: usize,
    /// MSCCL slots that a chunk takes; `None` for MSCCL++.
    per_chunk: Option<u32>,
}

/// Proves a file and prints the result.
pub(super) fn prove(source: &Source, foreign: &Foreign, output: Output) -> Result<(), Failure> {
    let File { proof, blocks, per_chunk } = proven(source, foreign, output.format)?;
    let Proven { kind, shape, steps, messages, unused, .. } = proof;
    if output.format == Format::Json {
        return input::print_json(&Document {
            schema: "shardc.algorithm/1",
            file: &source.name,
            collective: kind.name(),
            ranks: shape.ranks,
            input_chunks: shape.input,
            output_chunks: shape.output,
            steps,
            messages,
            unused: unused.map_or(0, |(_, count)| count),
            slots: per_chunk.map(|_| foreign.slots),
            proven: true,
        });
    }
    let (what, sent, always) = match per_chunk {
        Some(_) => ("steps", "messages", "in every execution order"),
        None => ("operations", "signals", "in every execution order, for any number of consecutive launches"),
    };
    let mut text = format!(
        "proven   {kind} over {} ranks, {} input and {} output chunks per rank\n         {steps} {what} and {messages} {sent} in {blocks} \
         thread blocks; correct {always}\n",
        shape.ranks, shape.input, shape.output,
    );
    if let Some(per_chunk) = per_chunk {
        let slots = foreign.slots;
        text += &format!("         no deadlock with {slots} slots per connection, {per_chunk} per chunk\n");
    }
    if let Some((first, count)) = unused {
        let rest = if count > 1 { format!(", nor those of {} more {what}", count - 1) } else { String::new() };
        text += &format!("note     the result of {first} is not used{rest}\n");
    }
    input::print(&text)
}

fn proven(source: &Source, foreign: &Foreign, format: Format) -> Result<File, Failure> {
    let fault = |found: Diagnostics| input::fault(source, &found, format);
    let wrong = |flaw: Flaw, place: &dyn Fn(At) -> Option<Range<usize>>| {
        let mut found = Diagnostic::new(&flaw);
        let label = |(number, at): (usize, At)| {
            let range = place(at)?;
            let text = if number == 0 { "here" } else { "also here" }.to_owned();
            Some(Label { span: Span::new(range.start, range.end), text, primary: number == 0 })
        };
        found.labels = flaw.steps().into_iter().enumerate().filter_map(label).collect();
        let mut all = Diagnostics::default();
        all.push(&found);
        fault(all)
    };
    if mscclpp::is_mscclpp(&source.text) {
        let plan = mscclpp::read(&source.text)
            .map_err(|error| Failure::Call(format!("`{}` is not an MSCCL++ plan: {error}", source.name)))?;
        let proof = mscclpp::prove(&plan, foreign.collective).map_err(|flaw| wrong(flaw, &|_| None))?;
        let blocks = plan.gpus.iter().map(|gpu| gpu.threadblocks.len()).sum();
        return Ok(File { proof, blocks, per_chunk: None });
    }
    let written = msccl::read(&source.text).map_err(|error| fault(Diagnostics::of(&error)))?;
    let program = &written.program;
    let steps = foreign.max_steps.unwrap_or(program.dialect.most_steps());
    let room = Room { slots: foreign.slots, steps };
    let proof = msccl::prove(program, foreign.collective, room).map_err(|flaw| wrong(flaw, &|at| written.place(at)))?;
    let blocks = program.gpus.iter().map(|gpu| gpu.blocks.len()).sum();
    Ok(File { proof, blocks, per_chunk: Some(program.protocol.slots()) })
}

/// Checks a folder of traces and prints the result.
pub(super) fn prove_traces(folder: &str, foreign: &Foreign, output: Output) -> Result<(), Failure> {
    let files = input::numbered(Path::new(folder))?;
    // There is no text that a finding could point into.
    let source = Source::nowhere(folder);
    let wrong = |found: Diagnostics| input::fault(&source, &found, output.format);
    let messages = chakra::read(&files).map_err(|error| wrong(Diagnostics::of(&error)))?;
    let kind = foreign.collective;
    messages::check(&messages, kind).map_err(|flaw| wrong(Diagnostics::of(&flaw)))?;
    let nodes = || messages.ranks.iter().flatten();
    let sent = nodes().filter(|node| matches!(node.what, messages::What::Send { .. })).count();
    match output.format {
        Format::Text => {
            let heard = match kind {
                Some(kind) => format!(
                    "each rank hears from all ranks that {kind} needs; traces carry no data, so contents are not checked"
                ),
                None => "traces carry no data, so contents are not checked".to_owned(),
            };
            input::print(&format!(
                "matched  {} nodes of {} ranks send {sent} messages; all are received, no deadlock\n         \
                 {heard}\n",
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

/// Converts a proven file to a schedule on a mesh of its ranks.
pub(super) fn schedule(source: &Source, foreign: &Foreign, format: Format) -> Result<Schedule, Failure> {
    let File { proof, .. } = proven(source, foreign, format)?;
    let mesh = foreign.mesh(usize::try_from(proof.shape.ranks).unwrap_or(usize::MAX))?;
    Ok(proof.schedule(mesh, DType::F32, foreign.elements(proof.shape)?))
}

impl Foreign {
    /// Elements of a chunk.
    fn elements(&self, shape: Shape) -> Result<u64, Failure> {
        let chunks = shape.input.max(shape.output).max(1);
        let least = DType::F32.bytes(chunks);
        match self.bytes / least {
            0 => Err(Failure::Call(format!(
                "`--bytes {}` is too small: one f32 per chunk of a buffer takes {least} bytes",
                self.bytes
            ))),
            elements => Ok(elements),
        }
    }

    /// A mesh with one device per rank.
    fn mesh(&self, ranks: usize) -> Result<Mesh, Failure> {
        let mesh = self.written_mesh(ranks)?;
        match mesh.device_count() {
            count if count == ranks => Ok(mesh),
            count => Err(Failure::Call(format!("the file has {ranks} ranks, but the mesh has {count} devices"))),
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
        program.map(|program| program.mesh).ok_or_else(|| Failure::Call(format!("`{text}` is not a mesh{}", wrong())))
    }
}
