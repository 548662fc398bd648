//! `shardc export`

use super::progress::during;
use super::{Common, Failure, input, schedule as given};
use crate::compiler;
use crate::picture::graph::Graph;
use crate::picture::svg::{self, Named};
use crate::picture::timeline::{Scope, Timeline, step_names};
use crate::picture::trace;
use crate::plan::Plan;
use crate::schedule::{Schedule, is_schedule};
use crate::sim::clock;
use crate::topology::Topology;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// A program or a schedule; `-` is standard input
    file: String,
    /// What to write
    #[arg(long, value_enum)]
    to: To,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// The steps of the plan as a graph, for Graphviz
    Dot,
    /// The steps of the plan as a graph, for Mermaid
    Mermaid,
    /// The operations of the schedule as a graph, for Graphviz
    ScheduleDot,
    /// The operations of the schedule as a graph, for Mermaid
    ScheduleMermaid,
    /// Arrays as the blocks that devices hold, as SVG
    Layouts,
    /// What is busy when, as SVG
    Timeline,
    /// What every engine and link does, as a trace for Perfetto
    Trace,
}

/// A schedule on its machine, and the plan that it was made of, if it was.
struct Made {
    schedule: Schedule,
    topology: Topology,
    plan: Option<Plan>,
}

impl Export {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let text = self.text(&self.made()?)?;
        match &self.output {
            Some(path) => input::write(path, &text),
            None => input::print(&text),
        }
    }

    fn made(&self) -> Result<Made, Failure> {
        let format = self.common.output.format;
        let source = input::source(&self.file)?;
        if is_schedule(&source.text) {
            let (schedule, topology) = given::proven(&source, &self.common.options_of_schedule()?, format)?;
            return Ok(Made { schedule, topology, plan: None });
        }
        let options = self.common.options()?;
        let source = source.with(&self.common.sizes.set).leniently(self.common.lenient);
        let (program, _) = input::checked(&source, &options, format)?;
        let compiled = during("planning and proving", || compiler::preview(&program, &options))
            .map_err(|found| input::fault(&source, &found, format))?;
        Ok(Made { schedule: compiled.schedule, topology: compiled.topology, plan: Some(compiled.plan) })
    }

    fn text(&self, made: &Made) -> Result<String, Failure> {
        let (schedule, topology) = (&made.schedule, &made.topology);
        let plan = || {
            made.plan.as_ref().ok_or_else(|| {
                Failure::Call("a schedule has no plan; of a schedule there are schedule-dot, schedule-mermaid, timeline and trace".to_owned())
            })
        };
        let steps = made.plan.as_ref().map(step_names).unwrap_or_default();
        let recorded = || clock::run_recorded(schedule, topology).map_err(|error| Failure::Call(error.to_string()));
        Ok(match self.to {
            To::Dot => Graph::of_plan(plan()?).dot(),
            To::Mermaid => Graph::of_plan(plan()?).mermaid(),
            To::ScheduleDot => Graph::of_schedule(schedule, &steps).dot(),
            To::ScheduleMermaid => Graph::of_schedule(schedule, &steps).mermaid(),
            To::Layouts => {
                let plan = plan()?;
                let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
                let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
                let arrays: Vec<Named<'_>> =
                    names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
                svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims)
            }
            To::Timeline => {
                let (timing, record) = recorded()?;
                let timeline = Timeline::new(schedule, topology, (&timing, &record), steps, Scope::Kinds);
                svg::timeline(&timeline, topology.scale)
            }
            To::Trace => trace::trace(schedule, topology, &recorded()?.1, &steps),
        })
    }
}
