//! Pictures below a report.

use super::{Failure, input};
use crate::compiler::Compiled;
use crate::picture::timeline::{Scope, Timeline, step_names};
use crate::picture::{lanes, terminal};
use crate::schedule::Schedule;
use crate::sim::clock::{self, Order};
use crate::topology::Topology;
use clap::Args;

/// What is drawn below a report for people.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Pictures {
    /// Draw the arrays as the blocks that devices hold
    #[arg(long)]
    blocks: bool,
    /// Draw what is busy when, a lane for each engine and each direction of links
    #[arg(long)]
    timeline: bool,
}

impl Pictures {
    /// What is asked for of a program, with an empty line before each picture.
    pub(super) fn of(self, compiled: &Compiled, order: Order) -> Result<String, Failure> {
        let Compiled { topology, plan, schedule, .. } = compiled;
        let mut text = String::new();
        if self.blocks {
            for id in plan.own_layouts() {
                let (name, layout) = (plan.array(id), &plan.step(id).layout);
                text.push('\n');
                text += &terminal::blocks(&name, layout, &plan.program.mesh, &plan.program.dims, input::paint());
            }
        }
        if self.timeline {
            text.push('\n');
            text += &drawn(schedule, topology, step_names(plan), order)?;
        }
        Ok(text)
    }

    /// What is asked for of a schedule, which has no layouts but those of its inputs and outputs.
    pub(super) fn of_schedule(self, schedule: &Schedule, topology: &Topology, order: Order) -> Result<String, Failure> {
        if self.blocks {
            return Err(Failure::Call("`--blocks` is for programs, and this is a schedule".to_owned()));
        }
        match self.timeline {
            true => Ok(format!("\n{}", drawn(schedule, topology, Vec::new(), order)?)),
            false => Ok(String::new()),
        }
    }
}

fn drawn(schedule: &Schedule, topology: &Topology, steps: Vec<String>, order: Order) -> Result<String, Failure> {
    let (timing, record) =
        clock::run_recorded_in(schedule, topology, order).map_err(|error| Failure::Call(error.to_string()))?;
    let timeline = Timeline::new(schedule, topology, (&timing, &record), steps, Scope::Kinds);
    Ok(lanes::lanes(&timeline, topology.scale, input::paint()))
}
