//! What is busy when: a lane for each engine and each link, from the record of the clock.

use crate::plan::{Plan, StepOp};
use crate::schedule::{OpId, Schedule};
use crate::sim::clock::{Record, Resource, Timing};
use crate::topology::{LinkSide, Topology};
use crate::units::Time;
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is busy when, until everything is done.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When the last device has its last block.
    pub makespan: Time,
    /// The engines, then the links.
    pub lanes: Vec<Lane>,
    /// Whether one device stands for all along some axes, or the busiest lane for those of its kind.
    pub scope: Scope,
    /// What the steps are called, by their number.
    pub steps: Vec<String>,
}

/// Which lanes a timeline has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of each engine and each direction of links the busiest one.
    Kinds,
    /// All that are ever busy; where devices do alike, those of one.
    All,
}

/// Something that is busy with one thing at a time.
#[derive(Clone, Debug)]
pub struct Lane {
    /// What it is: an engine, or a direction of links, `X up`.
    pub kind: String,
    /// Which one it is: `(0,1)`, `X: (0,1)->(1,1)`.
    pub name: String,
    /// How many of its kind are ever busy.
    pub alike: usize,
    /// How long it is busy.
    pub busy: Time,
    /// With what, in order.
    pub bars: Vec<Bar>,
}

/// A time in which something is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// With this operation.
    pub operation: OpId,
    /// Of this step.
    pub step: u32,
    /// From when.
    pub start: Time,
    /// Until when.
    pub finish: Time,
}

impl Timeline {
    /// The timeline of a schedule.
    ///
    /// - `steps`: what its steps are called.
    pub fn new(
        schedule: &Schedule,
        topology: &Topology,
        (timing, record): (&Timing, &Record),
        steps: Vec<String>,
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
        Timeline { makespan: timing.makespan, lanes, scope, steps }
    }

    /// The steps that something is busy with, in the order in which they begin.
    pub fn used(&self) -> Vec<u32> {
        let bars = self.lanes.iter().flat_map(|lane| &lane.bars);
        bars.sorted_by_key(|bar| (bar.start, bar.step)).map(|bar| bar.step).unique().collect()
    }

    /// What a step is called.
    pub fn step(&self, step: u32) -> String {
        step_label(&self.steps, step)
    }
}

/// What a step is called: by its name, or by its number.
pub(super) fn step_label(steps: &[String], step: u32) -> String {
    steps.get(step as usize).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| format!("step {step}"))
}

/// The lane that is busy for longest, the first of several.
fn busiest(lanes: Vec<Lane>) -> Option<Lane> {
    let alike = lanes.len();
    let busiest = lanes.into_iter().enumerate().max_by_key(|(place, lane)| (lane.busy, Reverse(*place)));
    busiest.map(|(_, lane)| Lane { alike, ..lane })
}

/// What a resource is, and which one.
fn words(topology: &Topology, resource: Resource) -> (String, String) {
    match resource {
        Resource::Engine(device, engine) => {
            let name = topology.hardware.engines.names().get(engine.index());
            (name.cloned().unwrap_or_default(), topology.mesh.place(device))
        }
        Resource::Link(id) => {
            let link = topology.link(id);
            let side = match link.side {
                LinkSide::Up => "up",
                LinkSide::Down => "down",
                LinkSide::Out => "out",
                LinkSide::In => "in",
            };
            let axis = &topology.machine.axis(link.axis).name;
            (format!("{axis} {side}"), topology.show_link(id).to_string())
        }
    }
}

/// The order of the kinds: engines, then links by axis and side.
fn rank(topology: &Topology, resource: Resource) -> (usize, usize) {
    match resource {
        Resource::Engine(_, engine) => (0, engine.index()),
        Resource::Link(id) => {
            let link = topology.link(id);
            (1 + link.axis.index(), link.side as usize)
        }
    }
}

/// What the steps of a plan are called, by their number: `AllReduce_Y Out`, `product T`, `relu(T)`.
pub fn step_names(plan: &Plan) -> Vec<String> {
    let name = |id| {
        let (value, op) = (plan.program.name(plan.step(id).value), plan.op_name(id));
        match plan.step(id).op {
            StepOp::Input | StepOp::Carry => value,
            StepOp::Product { .. } => format!("product {value}"),
            StepOp::Collective(_) => format!("{op} {value}"),
            StepOp::Reduce { .. } | StepOp::Map { .. } if value.starts_with(&op) => value,
            StepOp::Reduce { .. } | StepOp::Map { .. } => format!("{op} {value}"),
        }
    };
    plan.ids().map(name).collect()
}
