//! `shardc run` and `shardc time`

use super::arrays::Arrays;
use super::engine::{Engine, Kind};
use super::foreign::{self, Foreign, is_foreign};
use super::progress::during;
use super::ranks::Ranks;
use super::schedule::{self, Data, Place, Question};
use super::{Common, Failure, Format, Pictures, input};
use crate::compiler::{self, Compiled};
use crate::expect;
use crate::report::document::{self, PlanDocument};
use crate::report::given::Given;
use crate::report::text;
use crate::schedule::is_schedule;
use crate::sim::clock::{self, Order, Timing};
use crate::sim::values::Numerics;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(super) struct Run {
    /// A program, a schedule, or a file of MSCCL or MSCCL++; `-` is standard input
    file: String,
    /// Which small integers the inputs are made of
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    arrays: Arrays,
    #[command(flatten)]
    engine: Engine,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Time {
    /// A program, a schedule, or a file of MSCCL or MSCCL++; `-` is standard input
    file: String,
    /// In which order links and engines serve
    #[arg(long, value_enum, default_value_t)]
    order: Served,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    common: Common,
}

/// In which order links and engines serve.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Served {
    /// As the schedule lists what they do
    #[default]
    Listed,
    /// First come, first served
    Arrival,
}

impl From<Served> for Order {
    fn from(served: Served) -> Order {
        match served {
            Served::Listed => Order::Listed,
            Served::Arrival => Order::Arrival,
        }
    }
}

impl Run {
    pub(super) fn run(&self) -> Result<(), Failure> {
        match self.engine.kind()? {
            Kind::Sim => self.report(self.data(Place::Simulator)),
            Kind::Mpi => {
                let ranks = Ranks::start(Some(&self.file), self.engine.repetitions(), self.engine.timeout())?;
                let data = self.data(Place::Ranks(&ranks));
                ranks.lead(data, || self.report(data))
            }
        }
    }

    fn data<'a>(&'a self, place: Place<'a>) -> Data<'a> {
        Data { seed: self.seed, arrays: &self.arrays, place, times: self.engine.times() }
    }

    fn report(&self, data: Data<'_>) -> Result<(), Failure> {
        report(&self.file, &self.common, self.pictures, &self.foreign, Question::Run(data))
    }
}

impl Time {
    pub(super) fn run(&self) -> Result<(), Failure> {
        report(&self.file, &self.common, self.pictures, &self.foreign, Question::Time(self.order.into()))
    }
}

/// Proves and times a program; computes it if that is asked for.
fn report(
    file: &str,
    common: &Common,
    pictures: Pictures,
    foreign: &Foreign,
    question: Question<'_>,
) -> Result<(), Failure> {
    let format = common.output.format;
    let source = input::source(file)?;
    if is_foreign(&source.text) {
        let schedule = foreign::schedule(&source, foreign, format)?;
        let given = Given { schedule, places: None };
        return schedule::answer_of(&given, &source, &common.options_of_schedule()?, question, pictures, format);
    }
    if is_schedule(&source.text) {
        return schedule::answer(&source, &common.options_of_schedule()?, question, pictures, format);
    }
    let options = common.options()?;
    let source = source.with(&common.sizes.set).leniently(common.lenient);
    let (program, diagnostics) = input::checked(&source, &options, format)?;
    let fault = |found| input::fault(&source, &found, format);
    let compiled = during("planning and proving", || compiler::compile(&program, &options)).map_err(fault)?;
    let order = question.order();
    let timing = clock::run_in(&compiled.schedule, &compiled.topology, order)
        .map_err(|error| Failure::Call(error.to_string()))?;
    let breaches = expect::judge(&compiled.plan, &compiled.topology, Some(timing.makespan));
    let mut diagnostics = diagnostics;
    diagnostics.extend(breaches.clone());
    let data = question.data();
    let computed = data.map(|data| during("computing", || schedule::compute(&compiled.schedule, data))).transpose()?;
    let numerics = computed.as_ref().map(|computed| computed.numerics);
    match format {
        Format::Text => {
            let measured = data
                .zip(computed.as_ref())
                .map(|(data, computed)| computed.text(data, &compiled.schedule, &timing, &compiled.topology));
            let assumed = program.hardware.is_none() && options.hardware.is_none();
            input::print(&show(&compiled, &timing, numerics.as_ref(), assumed))?;
            input::print(&measured.unwrap_or_default())?;
            input::print_painted(&pictures.of(&compiled, order)?)?;
        }
        Format::Json => {
            let (plan, topology) = (&compiled.plan, &compiled.topology);
            let document = document::plan(&source.name, &source.text, plan, topology, &diagnostics);
            let document = document.timed(&compiled, &timing);
            let document = numerics.iter().fold(document, PlanDocument::ran);
            input::print_json(&document)?;
        }
    }
    input::judged(&source, &breaches, format)?;
    match numerics {
        Some(numerics) if !numerics.equal && !numerics.within => Err(Failure::Program),
        _ => Ok(()),
    }
}

fn show(compiled: &Compiled, timing: &Timing, numerics: Option<&Numerics>, assumed: bool) -> String {
    let plan = text::steps(&compiled.plan, &compiled.topology);
    [
        text::machine(&compiled.topology, assumed),
        "\n".to_owned(),
        plan,
        "\n".to_owned(),
        text::proof(compiled),
        numerics.map(text::numerics).unwrap_or_default(),
        text::timing(compiled, timing),
    ]
    .concat()
}
