//! Reports on schedule files: the proof, or the first flaw in terms of the file.

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
use itertools::Itertools;
use serde::Serialize;
use std::fmt::Write as _;

/// A schedule file.
#[derive(Clone, Debug)]
pub struct Given {
    /// The schedule; it has passed [`verify`].
    pub schedule: Schedule,
    /// Source locations of its parts; `None` for JSON.
    pub places: Option<Places>,
}

/// Results for a schedule file.
#[derive(Debug, Default)]
pub struct Outcome<'a> {
    /// The proof; `None` if the schedule is wrong.
    pub proof: Option<&'a Proof>,
    /// The simulated times, if requested.
    pub timing: Option<&'a Timing>,
    /// The comparison with the dense result, if requested.
    pub numerics: Option<&'a Numerics>,
    /// Errors.
    pub diagnostics: Diagnostics,
}

impl Given {
    /// The name of a value in the file, or its number.
    fn name(&self, id: OpId) -> String {
        let place = self.places.as_ref().and_then(|places| places.operations.get(id.index()));
        place.map_or_else(|| format!("%{}", id.index()), |place| place.name.clone())
    }

    /// The statement of an operation on one line; its number, if the schedule has no text.
    pub fn statement(&self, id: OpId, source: &str) -> String {
        let place = self.places.as_ref().and_then(|places| places.operations.get(id.index()));
        let text = place.and_then(|place| source.get(place.span.range()));
        let lines = |text: &str| text.lines().map(|line| line.split('#').next().unwrap_or_default()).join(" ");
        text.map_or_else(|| self.name(id), |text| lines(text).split_whitespace().join(" "))
    }

    /// The operation whose value has this name, with or without `%`.
    pub fn named(&self, name: &str) -> Option<OpId> {
        let name = name.trim_start_matches('%');
        self.schedule.ids().find(|id| self.name(*id).trim_start_matches('%') == name)
    }

    /// Names of all values.
    pub fn names(&self) -> Vec<String> {
        self.schedule.ids().map(|id| self.name(id)).collect()
    }

    /// Reports a flaw with the names and locations of the file.
    pub fn flaw(&self, flaw: &Flaw) -> Diagnostics {
        self.placed(flaw, flaw.operation(), &flaw.operands())
    }

    /// Reports a clock error with the names and locations of the file.
    pub fn untimed(&self, error: &ClockError) -> Diagnostics {
        self.placed(error, error.operation(), &[])
    }

    fn placed(&self, error: &dyn miette::Diagnostic, operation: Option<OpId>, operands: &[usize]) -> Diagnostics {
        let mut found = Diagnostic::new(error);
        if let Some(id) = operation {
            // Messages about an operation begin with its number.
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
        let name = Label { span: Span { end, ..place.span }, text: "first error here".to_owned(), primary: true };
        let operand = |at: &usize| {
            let span = *place.operands.get(*at)?;
            Some(Label { span, text: format!("operand {at}"), primary: false })
        };
        std::iter::once(name).chain(operands.iter().filter_map(operand)).collect()
    }

    /// Formats the proof: its size, and the definition of each output.
    pub fn proof_text(&self, proof: &Proof) -> String {
        let mut report = run::proof(proof, &self.schedule.mesh);
        for output in &self.schedule.outputs {
            let (array, definition) = self.schedule.show_output(output);
            let what = match &self.schedule.array(output.array).definition {
                Dense::Input { .. } => format!("{array}, an input"),
                Dense::Product { .. } | Dense::Reduce { .. } | Dense::Map { .. } | Dense::Kernel { .. } => {
                    format!("{array} = {definition}")
                }
            };
            writeln!(report, "         {} is {what}", self.name(output.value)).expect("a string");
        }
        report
    }

    /// Formats the simulated time and the busiest link or engine.
    pub fn timing_text(&self, timing: &Timing, topology: &Topology) -> String {
        let time = Makespan::new(timing, load(timing), topology);
        let (makespan, ratio, bound) = (time.makespan_s, time.ratio, time.bound_s);
        let mut report = match makespan.time > bound.time * MOST_RATIO {
            true => format!("time     {makespan} simulated, latency-bound\n"),
            false => format!(
                "time     {makespan} simulated, {ratio:.2}x the busy time {bound} of the busiest link or engine\n"
            ),
        };
        report.push_str(&time.link());
        if let Ok(verified) = verify(&self.schedule) {
            writeln!(report, "         {}", run::usage(&usage::of(verified))).expect("a string");
        }
        report + &time.service()
    }

    /// Converts the results to JSON.
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

/// A time above this multiple of the busiest unit's busy time is called latency-bound.
const MOST_RATIO: u64 = 10;

/// Lower bound over all orders of the same operations: the busy time of the busiest link or engine.
fn load(timing: &Timing) -> Time {
    timing.busiest_link_time().max(timing.busiest_engine_time())
}

/// JSON document `shardc.prove/1`.
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

/// Traffic and memory of devices.
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
