//! Timelines of engines and links, from the record of the clock.

use super::palette::{self, Color, Kind};
use crate::plan::{Plan, StepOp};
use crate::schedule::{OpId, Schedule};
use crate::sim::clock::{Record, Resource, Timing};
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The activity of engines and links over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The time at which the last device has its last block.
    pub makespan: Time,
    /// Engines, then links.
    pub lanes: Vec<Lane>,
    /// Which lanes it has.
    pub scope: Scope,
    /// The names of the steps, by their number.
    pub steps: Vec<String>,
    /// The kinds of the steps, by their number.
    pub kinds: Vec<Kind>,
}

/// A selection of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The busiest lane of each engine and each direction of links.
    Kinds,
    /// All lanes that are ever busy; symmetric devices are drawn once.
    All,
}

/// An engine or a link.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its kind: an engine, or a direction of links such as `X up`.
    pub kind: String,
    /// Its name: `(0,1)`, `X: (0,1)->(1,1)`.
    pub name: String,
    /// The number of its kind that are ever busy.
    pub alike: usize,
    /// Its busy time.
    pub busy: Time,
    /// Its bars, in order.
    pub bars: Vec<Bar>,
}

/// A busy interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The operation.
    pub operation: OpId,
    /// The step of the operation.
    pub step: u32,
    /// The start.
    pub start: Time,
    /// The end.
    pub finish: Time,
}

impl Timeline {
    /// The timeline of a schedule.
    ///
    /// - `plan`: the plan that was lowered to the schedule, if there is one.
    pub fn new(
        schedule: &Schedule,
        topology: &Topology,
        (timing, record): (&Timing, &Record),
        plan: Option<&Plan>,
        scope: Scope,
    ) -> Timeline {
        let mut bars: BTreeMap<Resource, Vec<Bar>> = BTreeMap::new();
        for used in record.uses.iter().filter(|used| used.finish > used.start) {
            let (operation, step) = (used.operation, schedule.operation(used.operation).step);
            let bar = Bar { operation, step, start: used.start, finish: used.finish };
            bars.entry(used.resource).or_default().push(bar);
        }
        let lane = |(resource, bars): (Resource, Vec<Bar>)| {
            let (kind, name) = words(topology, resource);
            let busy = bars.iter().map(|bar| bar.finish - bar.start).sum();
            (rank(topology, resource), Lane { kind, name, alike: 1, busy, bars })
        };
        let lanes = bars.into_iter().map(lane).collect_vec();
        let lanes = match scope {
            Scope::All => lanes.into_iter().map(|(_, lane)| lane).collect(),
            Scope::Kinds => {
                let mut kinds: BTreeMap<(usize, usize), Vec<Lane>> = BTreeMap::new();
                lanes.into_iter().for_each(|(rank, lane)| kinds.entry(rank).or_default().push(lane));
                kinds.into_values().filter_map(busiest).collect()
            }
        };
        let (steps, kinds) = (plan.map(step_names).unwrap_or_default(), palette::kinds(schedule, plan));
        Timeline { makespan: timing.makespan, lanes, scope, steps, kinds }
    }

    /// The colour of each step, by its number.
    pub fn colors(&self) -> Vec<Color> {
        palette::shades(&self.kinds)
    }

    /// The steps that have bars, ordered by their start.
    pub fn used(&self) -> Vec<u32> {
        let bars = self.lanes.iter().flat_map(|lane| &lane.bars);
        bars.sorted_by_key(|bar| (bar.start, bar.step)).map(|bar| bar.step).unique().collect()
    }

    /// The name of a step.
    pub fn step(&self, step: u32) -> String {
        step_label(&self.steps, step)
    }
}

/// The name of a step, or its number.
pub(super) fn step_label(steps: &[String], step: u32) -> String {
    steps.get(step as usize).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| format!("step {step}"))
}

/// The busiest lane, the first of several.
fn busiest(lanes: Vec<Lane>) -> Option<Lane> {
    let alike = lanes.len();
    let busiest = lanes.into_iter().enumerate().max_by_key(|(place, lane)| (lane.busy, Reverse(*place)));
    busiest.map(|(_, lane)| Lane { alike, ..lane })
}

/// The kind and the name of a resource.
fn words(topology: &Topology, resource: Resource) -> (String, String) {
    match resource {
        Resource::Engine(device, engine) => {
            let name = topology.hardware.engines.names().get(engine.index());
            (name.cloned().unwrap_or_default(), topology.mesh.place(device))
        }
        Resource::Link(id) => {
            let link = topology.link(id);
            let axis = &topology.machine.axis(link.axis).name;
            (format!("{axis} {}", link.side), topology.show_link(id).to_string())
        }
    }
}

/// The order of the lanes: engines, then links by axis and side.
fn rank(topology: &Topology, resource: Resource) -> (usize, usize) {
    match resource {
        Resource::Engine(_, engine) => (0, engine.index()),
        Resource::Link(id) => (1, topology.row(id) as usize),
    }
}

/// The names of the steps of a plan: `AllReduce_Y Out`, `product T`, `relu(T)`.
pub fn step_names(plan: &Plan) -> Vec<String> {
    let name = |id| {
        let (value, op) = (plan.program.label(plan.step(id).value), plan.op_label(id));
        match plan.step(id).op {
            StepOp::Input | StepOp::Carry => value,
            StepOp::Product { .. } => format!("product {value}"),
            StepOp::Collective(_) => format!("{op} {value}"),
            StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) if value.starts_with(&op) => value,
            StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) => format!("{op} {value}"),
        }
    };
    plan.ids().map(name).collect()
}
