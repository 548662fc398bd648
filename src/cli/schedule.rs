//! `shardc prove`, and `shardc run` and `shardc time` of a schedule that is given.

use super::computed::{Computed, Data};
use super::foreign::{self, Foreign};
use super::input::{self, Source};
use super::ranks::Ranks;
use super::{Failure, Format, Output, Pictures};
use crate::compiler::{self, Options};
use crate::diag::{Diagnostic, Diagnostics, Label};
use crate::report::contents::{self, MOST_DEVICES};
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
    /// A schedule as text or JSON, an MSCCL or MSCCL++ file, or a folder of traces; `-` is standard input
    file: String,
    /// Hardware profile or TOML file
    #[arg(long, value_name = "NAME|FILE.toml")]
    hardware: Option<String>,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    output: Output,
}

/// What to do with a schedule.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    /// Prove it.
    Proof,
    /// Prove and time it, with this service order of links and engines.
    Time(Order),
    /// Prove, time and compute it.
    Run(Data<'a>, Place<'a>),
}

impl<'a> Question<'a> {
    /// Service order of links and engines.
    pub(super) fn order(self) -> Order {
        match self {
            Question::Proof | Question::Run(..) => Order::Listed,
            Question::Time(order) => order,
        }
    }

    /// Inputs and engine of a run, if it is computed.
    pub(super) fn data(self) -> Option<(Data<'a>, Place<'a>)> {
        match self {
            Question::Proof | Question::Time(_) => None,
            Question::Run(data, place) => Some((data, place)),
        }
    }
}

/// Engine that computes a schedule.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Simulated mesh in this process.
    Simulator,
    /// MPI ranks.
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
        if input::is_foreign(&source.text) {
            return foreign::prove(&source, &self.foreign, self.output);
        }
        answer(&source, &options, Question::Proof, Pictures::default(), self.output.format)
    }
}

/// Proves a schedule; times and computes it if requested.
pub(super) fn answer(
    source: &Source,
    options: &Options,
    question: Question<'_>,
    pictures: Pictures,
    format: Format,
) -> Result<(), Failure> {
    answer_of(&read(source, format)?, source, options, question, pictures, format)
}

/// Answers for a schedule that has been read.
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

/// Prints what each device holds of each value, or of one.
pub(super) fn contents(source: &Source, name: Option<&str>, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return Err(Failure::Call("the contents of devices have no JSON form".to_owned()));
    }
    let given = read(source, format)?;
    let schedule = &given.schedule;
    let count = schedule.mesh.device_count();
    if count > MOST_DEVICES {
        let call = format!("the contents of {count} devices are too many to list; the limit is {MOST_DEVICES}");
        return Err(Failure::Call(call));
    }
    let values = match name {
        None => schedule.ids().collect(),
        Some(name) => vec![given.named(name).ok_or_else(|| {
            let names = given.names();
            input::unknown("value", name, names.iter().map(String::as_str))
        })?],
    };
    let text = contents::contents(&given, &source.text, &values);
    input::print(&text.map_err(|flaw| input::fault(source, &given.flaw(&flaw), format))?)
}

/// Fails if a computed result differs from the dense result.
pub(super) fn is_right(numerics: Option<&Numerics>) -> Result<(), Failure> {
    match numerics {
        Some(numerics) if !numerics.equal && !numerics.within => Err(Failure::Program),
        _ => Ok(()),
    }
}

/// The topology of a schedule; errors point at its mesh.
fn machine(given: &Given, source: &Source, options: &Options, format: Format) -> Result<Topology, Failure> {
    compiler::machine_of(&given.schedule, options).map_err(|mut error| {
        error.set_place(given.places.as_ref().map(|places| places.mesh.into()));
        input::fault(source, &Diagnostics::of(&error), format)
    })
}

/// Reads and proves a schedule.
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

/// Reads a schedule, as JSON if it begins like JSON, else as text. An unreadable file is a call error, a malformed
/// schedule a program error.
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

/// A diagnostic at the place where the JSON reader stopped.
fn document_error(error: &DocumentError, source: &str) -> Diagnostics {
    let mut found = Diagnostic::new(error);
    if let DocumentError::Syntax(error) = error {
        let start: usize = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = (start + error.column().saturating_sub(1)).min(source.len());
        found.labels = vec![Label { span: Span::new(at, at), text: "invalid from here".to_owned(), primary: true }];
    }
    let mut all = Diagnostics::default();
    all.push(&found);
    all
}
