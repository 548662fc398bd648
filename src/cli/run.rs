//! `shardc run` and `shardc time`

use super::arrays::Arrays;
use super::computed::Data;
use super::engine::{Engine, Kind};
use super::foreign::{self, Foreign};
use super::input::Source;
use super::program::Checked;
use super::progress::during;
use super::ranks::Ranks;
use super::schedule::{self, Place, Question};
use super::{Common, Failure, Format, Pictures, input, terminal};
use crate::compiler::{self, Compiled};
use crate::report::document::{self, PlanDocument};
use crate::report::given::Given;
use crate::report::{Findings, run, text};
use crate::schedule::is_schedule;
use crate::sim::clock::{self, Order};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// A program, a schedule, or a file of MSCCL or MSCCL++; `-` is standard input
    file: String,
    /// Seed for generated inputs
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
    /// Order in which links and engines serve
    #[arg(long, value_enum, default_value_t)]
    order: Order,
    #[command(flatten)]
    pictures: Pictures,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    common: Common,
}

impl Run {
    pub(super) fn run(&self) -> Result<(), Failure> {
        match self.engine.kind()? {
            Kind::Sim => self.report(Place::Simulator),
            Kind::Mpi => {
                let ranks = Ranks::start(Some(&self.file), self.engine.repetitions(), self.engine.timeout())?;
                ranks.lead(self.data(), || self.report(Place::Ranks(&ranks)))
            }
        }
    }

    fn data(&self) -> Data<'_> {
        Data { seed: self.seed, arrays: &self.arrays, times: self.engine.times() }
    }

    fn report(&self, place: Place<'_>) -> Result<(), Failure> {
        report(&self.file, &self.common, self.pictures, &self.foreign, Question::Run(self.data(), place))
    }
}

impl Time {
    pub(super) fn run(&self) -> Result<(), Failure> {
        report(&self.file, &self.common, self.pictures, &self.foreign, Question::Time(self.order))
    }
}

/// Operations on all devices from which on computing takes minutes.
const MANY: u128 = 200_000_000_000;

/// Says that computing takes long.
fn warn_of(operations: u128) {
    if operations > MANY && !terminal::is_quiet() {
        let count = operations as f64;
        input::say(&format!(
            "computing {count:.1e} operations takes minutes; `shardc time` does not compute, `--set` makes sizes smaller\n"
        ));
    }
}

/// Proves and times a program; computes it if requested.
fn report(
    file: &str,
    common: &Common,
    pictures: Pictures,
    foreign: &Foreign,
    question: Question<'_>,
) -> Result<(), Failure> {
    let format = common.output.format;
    let source = input::source(file)?;
    if input::is_foreign(&source.text) {
        let schedule = foreign::schedule(&source, foreign, format)?;
        let given = Given { schedule, places: None };
        return schedule::answer_of(&given, &source, &common.options_of_schedule()?, question, pictures, format);
    }
    if is_schedule(&source.text) {
        return schedule::answer(&source, &common.options_of_schedule()?, question, pictures, format);
    }
    let options = common.options()?;
    let mut checked = Checked::new(source, common, options)?;
    let compiled = checked.compiled(compiler::compile)?;
    let Compiled { topology, plan, schedule, proof } = &compiled;
    let order = question.order();
    let timing = clock::run_in(schedule, topology, order).map_err(|error| Failure::Call(error.to_string()))?;
    checked.judge(&compiled, Some(timing.makespan));
    if question.data().is_some() && format == Format::Text {
        warn_of(plan.totals().flops.saturating_mul(topology.mesh.device_count() as u128));
    }
    let computed = question
        .data()
        .map(|(data, place)| during("computing", || schedule::compute(schedule, data, place)))
        .transpose()?;
    let numerics = computed.as_ref().map(|computed| &computed.numerics);
    let findings = Findings::new(plan, topology);
    match format {
        Format::Text => {
            let steps = text::steps(&findings, terminal::width());
            let parts = [
                format!("{}\n{steps}\n{}", checked.machine(topology), run::proof(proof, &topology.mesh)),
                numerics.map(run::numerics).unwrap_or_default(),
                text::pieces(&findings),
                text::bundles(&findings),
                text::timing(&findings, &timing),
                computed.as_ref().map(|computed| computed.text(schedule, &timing, topology)).unwrap_or_default(),
            ];
            input::print(&text::fit(&parts.concat(), terminal::width()))?;
            input::print_painted(&pictures.of(&compiled, order)?)?;
        }
        Format::Json => {
            let Source { name, text, .. } = &checked.source;
            let document = document::plan(name, text, &findings, &checked.diagnostics);
            let document = document.timed(&findings, &timing, proof);
            input::print_json(&numerics.into_iter().fold(document, PlanDocument::ran))?;
        }
    }
    checked.judged()?;
    schedule::is_right(numerics)
}
