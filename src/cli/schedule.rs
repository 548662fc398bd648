//! `shardc prove`, and `shardc run` and `shardc time` of a schedule that is given.

use super::computed::{Computed, Data};
use super::foreign::{self, Foreign, is_foreign};
use super::input::{self, Source};
use super::ranks::Ranks;
use super::{Failure, Format, Output, Pictures};
use crate::compiler::{self, Options};
use crate::diag::{Diagnostic, Diagnostics, Label};
use crate::report::given::{Given, Outcome};
use crate::report::{run, text};
use crate::schedule::{DocumentError, Schedule, Unread, from_json, from_text};
use crate::sim::clock::{self, Order};
use crate::sim::values::{self, Numerics};
use crate::span::Span;
use crate::topology::Topology;
use clap::Args;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct Prove {
    /// A schedule in its text or its JSON form, a file of MSCCL or MSCCL++, or a folder of traces; `-` is standard input
    file: String,
    /// The machine that it is for: a profile's name, or a TOML file
    #[arg(long, value_name = "NAME|FILE.toml")]
    hardware: Option<String>,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    output: Output,
}

/// What is asked of a schedule.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    /// Whether it is right.
    Proof,
    /// And how long it takes, where links and engines serve in this order.
    Time(Order),
    /// And what it computes.
    Run(Data<'a>, Place<'a>),
}

impl<'a> Question<'a> {
    /// In which order links and engines serve.
    pub(super) fn order(self) -> Order {
        match self {
            Question::Proof | Question::Run(..) => Order::Listed,
            Question::Time(order) => order,
        }
    }

    /// With what it computes, if it does.
    pub(super) fn data(self) -> Option<(Data<'a>, Place<'a>)> {
        match self {
            Question::Proof | Question::Time(_) => None,
            Question::Run(data, place) => Some((data, place)),
        }
    }
}

/// Where a schedule is computed.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Here, on a simulated mesh.
    Simulator,
    /// On the ranks of MPI.
    Ranks(&'a Ranks),
}

impl Prove {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let hardware = self.hardware.as_deref().map(input::hardware).transpose()?;
        let options = Options { hardware, ..Options::default() };
        if Path::new(&self.file).is_dir() {
            return foreign::prove_traces(&self.file, &self.foreign, self.output);
        }
        let source = input::source(&self.file)?;
        if is_foreign(&source.text) {
            return foreign::prove(&source, &self.foreign, self.output);
        }
        answer(&source, &options, Question::Proof, Pictures::default(), self.output.format)
    }
}

/// Proves a schedule; times and computes it if that is asked for.
pub(super) fn answer(
    source: &Source,
    options: &Options,
    question: Question<'_>,
    pictures: Pictures,
    format: Format,
) -> Result<(), Failure> {
    answer_of(&read(source, format)?, source, options, question, pictures, format)
}

/// The same of a schedule that has been read.
pub(super) fn answer_of(
    given: &Given,
    source: &Source,
    options: &Options,
    question: Question<'_>,
    pictures: Pictures,
    format: Format,
) -> Result<(), Failure> {
    let topology = machine(given, source, options, format)?;
    let schedule = &given.schedule;
    let refused = |diagnostics: Diagnostics| {
        if format == Format::Text {
            return input::fault(source, &diagnostics, format);
        }
        let outcome = Outcome { diagnostics, ..Outcome::default() };
        let document = given.document(&source.name, &source.text, &topology, &outcome);
        input::print_json(&document).err().unwrap_or(Failure::Program)
    };
    let proof = compiler::prove(schedule, &topology).map_err(|flaw| refused(given.flaw(&flaw)))?;
    let timing = match question {
        Question::Proof => None,
        Question::Time(_) | Question::Run(..) => {
            Some(clock::run_in(schedule, &topology, question.order()).map_err(|error| refused(given.untimed(&error)))?)
        }
    };
    let computed = question.data().map(|(data, place)| compute(schedule, data, place)).transpose()?;
    let numerics = computed.as_ref().map(|computed| &computed.numerics);
    match format {
        Format::Text => {
            let measured = computed.as_ref().zip(timing.as_ref());
            let measured = measured.map(|(computed, timing)| computed.text(schedule, timing, &topology));
            let assumed = options.hardware.is_none();
            let parts = [
                text::machine(&topology, assumed),
                "\n".to_owned(),
                given.proof_text(&proof),
                numerics.map(run::numerics).unwrap_or_default(),
                timing.as_ref().map(|timing| given.timing_text(timing, &topology)).unwrap_or_default(),
                measured.unwrap_or_default(),
            ];
            input::print(&parts.concat())?;
            input::print_painted(&pictures.of_schedule(schedule, &topology, question.order())?)?;
        }
        Format::Json => {
            let outcome =
                Outcome { proof: Some(&proof), timing: timing.as_ref(), numerics, diagnostics: Diagnostics::default() };
            input::print_json(&given.document(&source.name, &source.text, &topology, &outcome))?;
        }
    }
    is_right(numerics)
}

/// Whether what was computed, if anything was, is the dense result.
pub(super) fn is_right(numerics: Option<&Numerics>) -> Result<(), Failure> {
    match numerics {
        Some(numerics) if !numerics.equal && !numerics.within => Err(Failure::Program),
        _ => Ok(()),
    }
}

/// The machine of a schedule; what is wrong with it is shown where the mesh is written.
fn machine(given: &Given, source: &Source, options: &Options, format: Format) -> Result<Topology, Failure> {
    compiler::machine_of(&given.schedule, options).map_err(|mut error| {
        error.set_place(given.places.as_ref().map(|places| places.mesh.into()));
        input::fault(source, &Diagnostics::of(&error), format)
    })
}

/// A schedule that is right, and its machine.
pub(super) fn proven(source: &Source, options: &Options, format: Format) -> Result<(Schedule, Topology), Failure> {
    let given = read(source, format)?;
    let fault = |found: Diagnostics| input::fault(source, &found, format);
    let topology = machine(&given, source, options, format)?;
    compiler::prove(&given.schedule, &topology).map_err(|flaw| fault(given.flaw(&flaw)))?;
    Ok((given.schedule, topology))
}

/// Runs a schedule on numbers and compares with the dense result. Results are saved unless they are wrong.
pub(super) fn compute(schedule: &Schedule, data: Data<'_>, place: Place<'_>) -> Result<Computed, Failure> {
    match place {
        Place::Simulator => simulate(schedule, data),
        Place::Ranks(ranks) => ranks.compute(schedule, data),
    }
}

fn simulate(schedule: &Schedule, data: Data<'_>) -> Result<Computed, Failure> {
    let call = |error: values::RunError| Failure::Call(format!("{error}; `shardc time` works for any size"));
    values::affordable(schedule).map_err(call)?;
    data.arrays.check(schedule)?;
    let inputs = values::inputs_beside(schedule, data.seed, data.arrays.read(schedule)?).map_err(call)?;
    let dense = values::dense(schedule, &inputs).map_err(call)?;
    let run = values::run(schedule, &inputs).map_err(call)?;
    let numerics = values::compare(schedule, &inputs, &dense, &run).map_err(call)?;
    if numerics.equal || numerics.within {
        data.arrays.write(schedule, &run)?;
    }
    Ok(Computed { numerics, measured: None, times: data.times })
}

/// A document if it begins like one, else a text. What cannot be read is the call's fault, what is malformed the
/// schedule's.
fn read(source: &Source, format: Format) -> Result<Given, Failure> {
    let unreadable = |found: &Diagnostics| {
        input::fault(source, found, format);
        Failure::Call(format!("`{}` is not a schedule", source.name))
    };
    if source.text.trim_start().starts_with('{') {
        return match from_json(&source.text) {
            Ok(schedule) => Ok(Given { schedule, places: None }),
            Err(DocumentError::Malformed(malformed)) => Err(input::fault(source, &Diagnostics::of(&malformed), format)),
            Err(error) => Err(unreadable(&document_error(&error, &source.text))),
        };
    }
    match from_text(&source.text) {
        Ok(written) => Ok(Given { schedule: written.schedule, places: Some(written.places) }),
        Err(Unread::Malformed(found)) => Err(input::fault(source, &found, format)),
        Err(Unread::Text(found)) => Err(unreadable(&found)),
    }
}

/// What is wrong with a document, where the reader of JSON stopped.
fn document_error(error: &DocumentError, source: &str) -> Diagnostics {
    let mut found = Diagnostic::new(error);
    if let DocumentError::Syntax(error) = error {
        let start: usize = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = (start + error.column().saturating_sub(1)).min(source.len());
        found.labels = vec![Label { span: Span::new(at, at), text: "read up to here".to_owned(), primary: true }];
    }
    let mut all = Diagnostics::default();
    all.push(&found);
    all
}
