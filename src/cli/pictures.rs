//! Pictures below a report.

use super::{Failure, input, terminal};
use crate::compiler::Compiled;
use crate::picture::lanes::lanes;
use crate::picture::terminal::blocks;
use crate::picture::timeline::{Scope, Timeline};
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::sim::clock::{self, Order};
use crate::topology::Topology;
use clap::Args;

/// Pictures drawn below a text report.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Pictures {
    /// Draw the arrays as the shards that devices hold
    #[arg(long)]
    blocks: bool,
    /// Draw a timeline with a lane for each engine and each link direction
    #[arg(long)]
    timeline: bool,
}

impl Pictures {
    /// Pictures of a program, each after an empty line.
    pub(super) fn of(self, compiled: &Compiled, order: Order) -> Result<String, Failure> {
        let Compiled { topology, plan, schedule, .. } = compiled;
        let mut text = String::new();
        if self.blocks {
            for id in plan.own_layouts() {
                let (name, layout) = (plan.array(id), &plan.step(id).layout);
                text.push('\n');
                text += &blocks(
                    &name,
                    layout,
                    &plan.program.mesh,
                    &plan.program.dims,
                    (input::paint(), terminal::picture_width()),
                );
            }
        }
        if self.timeline {
            text.push('\n');
            text += &drawn(schedule, topology, Some(plan), order)?;
        }
        Ok(text)
    }

    /// Pictures of a schedule; it has layouts only for inputs and outputs.
    pub(super) fn of_schedule(self, schedule: &Schedule, topology: &Topology, order: Order) -> Result<String, Failure> {
        if self.blocks {
            return Err(Failure::Call("`--blocks` applies to programs; the input is a schedule".to_owned()));
        }
        match self.timeline {
            true => Ok(format!("\n{}", drawn(schedule, topology, None, order)?)),
            false => Ok(String::new()),
        }
    }
}

fn drawn(schedule: &Schedule, topology: &Topology, plan: Option<&Plan>, order: Order) -> Result<String, Failure> {
    let (timing, record) =
        clock::run_recorded_in(schedule, topology, order).map_err(|error| Failure::Call(error.to_string()))?;
    let timeline = Timeline::new(schedule, topology, (&timing, &record), plan, Scope::Kinds);
    Ok(lanes(&timeline, topology.scale, input::paint(), terminal::picture_width()))
}
