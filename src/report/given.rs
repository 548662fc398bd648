//! Reports on a schedule that is given, not compiled: what was proven of it, or its first flaw in the words of its text.

use super::document::{self, DiagnosticDocument, MeshDocument};
use super::run::{self, Makespan, NumericsDocument, ProofDocument, Traffic};
use crate::diag::{Diagnostic, Diagnostics, Label};
use crate::schedule::{Dense, OpId, Places, Schedule, verify};
use crate::sim::clock::{ClockError, Timing};
use crate::sim::proof::{Flaw, Proof};
use crate::sim::usage::{self, Usage};
use crate::sim::values::Numerics;
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;
use serde::Serialize;
use std::fmt::Write as _;

/// A schedule, and where it is written if that is a text.
#[derive(Clone, Debug)]
pub struct Given {
    /// The schedule; it has passed [`verify`].
    pub schedule: Schedule,
    /// Where its parts stand; none in a document.
    pub places: Option<Places>,
}

/// What was found of a schedule that is given.
#[derive(Debug, Default)]
pub struct Outcome<'a> {
    /// That it is right; none if it is not.
    pub proof: Option<&'a Proof>,
    /// When everything happens, if that was asked for.
    pub timing: Option<&'a Timing>,
    /// The comparison with the dense result, if that was asked for.
    pub numerics: Option<&'a Numerics>,
    /// What is wrong.
    pub diagnostics: Diagnostics,
}

impl Given {
    /// The name of a value: as it is written, or by its number.
    fn name(&self, id: OpId) -> String {
        let place = self.places.as_ref().and_then(|places| places.operations.get(id.index()));
        place.map_or_else(|| format!("%{}", id.index()), |place| place.name.clone())
    }

    /// A flaw in the names of the text, at its place.
    pub fn flaw(&self, flaw: &Flaw) -> Diagnostics {
        self.placed(flaw, flaw.operation(), &flaw.operands())
    }

    /// Why the schedule has no time, in the names of the text, at its place.
    pub fn untimed(&self, error: &ClockError) -> Diagnostics {
        self.placed(error, error.operation(), &[])
    }

    fn placed(&self, error: &dyn miette::Diagnostic, operation: Option<OpId>, operands: &[usize]) -> Diagnostics {
        let mut found = Diagnostic::new(error);
        if let Some(id) = operation {
            // All that is said of an operation begins with its number.
            if let Some(rest) = found.message.strip_prefix(&format!("%{}", id.index())) {
                found.message = format!("{}{rest}", self.name(id));
            }
            found.labels = self.labels(id, operands);
        }
        let mut all = Diagnostics::default();
        all.push(&found);
        all
    }

    fn labels(&self, id: OpId, operands: &[usize]) -> Vec<Label> {
        let Some(place) = self.places.as_ref().and_then(|places| places.operations.get(id.index())) else {
            return Vec::new();
        };
        let end = place.span.start + u32::try_from(place.name.len()).unwrap_or_default();
        let name = Label { span: Span { end, ..place.span }, text: "first wrong here".to_owned(), primary: true };
        let operand = |at: &usize| {
            let span = *place.operands.get(*at)?;
            Some(Label { span, text: format!("operand {at}"), primary: false })
        };
        std::iter::once(name).chain(operands.iter().filter_map(operand)).collect()
    }

    /// What the proof shows: its size, and what each output is.
    pub fn proof_text(&self, proof: &Proof) -> String {
        let mut report = run::proof(proof, &self.schedule.mesh);
        for output in &self.schedule.outputs {
            let (array, definition) = self.schedule.show_output(output);
            let what = match &self.schedule.array(output.array).definition {
                Dense::Input { .. } => format!("{array}, which is an input"),
                Dense::Product { .. } | Dense::Reduce { .. } | Dense::Map { .. } => format!("{array} = {definition}"),
            };
            writeln!(report, "         {} is {what}", self.name(output.value)).expect("a string");
        }
        report
    }

    /// The simulated time, and how long what is busiest is busy.
    pub fn timing_text(&self, timing: &Timing, topology: &Topology) -> String {
        let time = Makespan::new(timing, load(timing), topology);
        let (makespan, ratio, bound) = (time.makespan_s, time.ratio, time.bound_s);
        let mut report = match makespan.time > bound.time * MOST_RATIO {
            true => format!("time     {makespan} on the simulated links, most of it latency\n"),
            false => format!(
                "time     {makespan} on the simulated links, {ratio:.2}x the {bound} of the busiest link or engine\n"
            ),
        };
        report.push_str(&time.link());
        if let Ok(verified) = verify(&self.schedule) {
            writeln!(report, "         {}", run::usage(&usage::of(verified))).expect("a string");
        }
        report + &time.service()
    }

    /// All of it, for scripts.
    pub fn document(&self, file: &str, source: &str, topology: &Topology, outcome: &Outcome<'_>) -> GivenDocument {
        let output = |output: &crate::schedule::Output| {
            let (array, definition) = self.schedule.show_output(output);
            OutputDocument { value: self.name(output.value), array, definition }
        };
        GivenDocument {
            schema: "shardc.prove/1",
            file: file.to_owned(),
            mesh: document::mesh(&self.schedule.mesh, topology),
            outputs: self.schedule.outputs.iter().map(output).collect(),
            proof: ProofDocument::new(outcome.proof, &self.schedule.mesh),
            time: outcome.timing.map(|timing| Makespan::new(timing, load(timing), topology)),
            usage: verify(&self.schedule).ok().map(|verified| UsageDocument::new(&usage::of(verified))),
            numerics: outcome.numerics.map(NumericsDocument::from),
            diagnostics: document::list(source, &outcome.diagnostics),
        }
    }
}

/// Where a time is more than so many times what anything is busy for, it is latency.
const MOST_RATIO: u64 = 10;

/// What no order of the same operations can beat: the busiest link or engine.
fn load(timing: &Timing) -> Time {
    timing.busiest_link_time().max(timing.busiest_engine_time())
}

/// `shardc.prove/1`
#[derive(Debug, Serialize)]
pub struct GivenDocument {
    schema: &'static str,
    file: String,
    mesh: MeshDocument,
    outputs: Vec<OutputDocument>,
    proof: ProofDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Makespan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numerics: Option<NumericsDocument>,
    diagnostics: Vec<DiagnosticDocument>,
}

/// What devices send, receive and hold.
#[derive(Debug, Serialize)]
struct UsageDocument {
    #[serde(flatten)]
    traffic: Traffic,
    peak_bytes_per_device: u64,
}

impl UsageDocument {
    fn new(usage: &Usage) -> UsageDocument {
        UsageDocument { traffic: Traffic::new(usage), peak_bytes_per_device: usage.peak.0 }
    }
}

#[derive(Debug, Serialize)]
struct OutputDocument {
    value: String,
    array: String,
    definition: String,
}
