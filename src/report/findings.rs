//! What is found of a plan, each figure once. Text, JSON and the page of a report only write it.

use super::seconds::Seconds;
use super::step::Step;
use super::why::Product;
use crate::bounds::crossing::crossing;
use crate::collective::Collective;
use crate::costs::{self, Floor, Unit};
use crate::function::Function;
use crate::mesh::AxisSet;
use crate::plan::{Pipeline, Plan, StepOp, Totals};
use crate::program::ValueId;
use crate::recipe::Lowering;
use crate::topology::{Topology, Work};
use crate::units::Time;
use std::cell::OnceCell;

/// All that reports say of a plan.
#[derive(Debug)]
pub struct Findings<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The machine, as the plan speaks of it.
    pub topology: &'a Topology,
    /// What is done, in order: inputs and carried values are there without being done.
    pub steps: Vec<Step>,
    /// The products and the ways to do them.
    pub products: Vec<Product>,
    /// Sums over the steps.
    pub totals: Totals,
    /// A time that no schedule of the plan beats: what one engine of a device computes, what all links along some axes
    /// carry, or the slowest collective, however well they overlap.
    pub bound: Seconds,
    /// The links, where the bound is theirs.
    pub bound_links: Option<Unit>,
    floor: OnceCell<Option<Floor>>,
}

impl<'a> Findings<'a> {
    /// What is found of a plan on its machine.
    pub fn new(plan: &'a Plan, topology: &'a Topology) -> Findings<'a> {
        let steps: Vec<Step> =
            plan.ids().filter(|id| plan.is_done(*id)).map(|id| Step::new(plan, id, topology)).collect();
        let collectives = steps.iter().filter(|step| matches!(plan.step(step.id).op, StepOp::Collective(_)));
        let slowest = collectives.map(|step| step.bound_s.time).max().unwrap_or_default();
        let alone = busiest_engine(plan, topology).max(slowest);
        let (busy, links) = busiest_links(plan, topology);
        let bound = Seconds::new(alone.max(busy), topology);
        let bound_links = (busy > alone).then_some(links);
        let products = plan.choices.iter().map(|choice| Product::new(plan, choice, topology)).collect();
        Findings { plan, topology, steps, products, totals: plan.totals(), bound, bound_links, floor: OnceCell::new() }
    }

    /// The same with the methods that could do each collective; each of them is simulated.
    pub fn with_methods(mut self, lowering: Lowering) -> Findings<'a> {
        for step in &mut self.steps {
            step.find_methods(self.plan, self.topology, lowering);
        }
        self
    }

    /// A time that no plan of the program beats. It takes a search, which is made when it is first asked for.
    pub fn floor(&self) -> Option<Floor> {
        // The search behind it knows chains of collectives alone.
        let is_reshard = |id| matches!(self.plan.step(id).op, StepOp::Collective(Collective::Reshard { .. }));
        let is_searched = !self.plan.ids().any(is_reshard);
        *self.floor.get_or_init(|| if is_searched { costs::floor(self.plan, self.topology) } else { None })
    }

    /// A time on the clock of the machine.
    pub fn seconds(&self, time: Time) -> Seconds {
        Seconds::new(time, self.topology)
    }

    /// The runs of steps that are done in pieces: the dim, how many pieces, and the places of the steps.
    pub fn pipelines(&self) -> Vec<(String, u64, Vec<usize>)> {
        let place = |id| self.steps.iter().position(|step| step.id == id);
        let of = |pipeline: &Pipeline| {
            let dim = self.plan.program.dims.name(pipeline.dim);
            (dim, pipeline.pieces, pipeline.steps.keys().filter_map(|id| place(*id)).collect())
        };
        self.plan.overlap.pipelines.iter().map(of).collect()
    }

    /// The ways to do the product that makes a value.
    pub fn product(&self, value: ValueId) -> Option<&Product> {
        self.products.iter().find(|product| product.value == value)
    }
}

/// The computation of the engine that has most to do, on one device.
fn busiest_engine(plan: &Plan, topology: &Topology) -> Time {
    let engines = &topology.hardware.engines;
    let mut busy = vec![Time::ZERO; engines.names().len()];
    for id in plan.ids() {
        let step = plan.step(id);
        let work = match &step.op {
            StepOp::Product { .. } => Work::MatMul,
            StepOp::Reduce { .. } => Work::Reduce,
            StepOp::Map { function: Function::Fill { .. }, .. } => Work::Fill,
            StepOp::Map { .. } => Work::Map,
            StepOp::Input | StepOp::Carry | StepOp::Collective(_) => continue,
        };
        if let Some(engine) = engines.of(work) {
            busy[engine.index()] += step.cost.time * plan.times_at_the_least(id);
        }
    }
    busy.into_iter().max().unwrap_or_default()
}

/// The links along some axes that carry collectives for longest, and how long that is at the least.
fn busiest_links(plan: &Plan, topology: &Topology) -> (Time, Unit) {
    let of = |unit: Unit| {
        let Unit::Links(axes) = unit else { return (Time::ZERO, unit) };
        let moves = plan.ids().filter_map(|id| match &plan.step(id).op {
            StepOp::Collective(collective) => Some((id, collective, plan.operands(id)[0])),
            StepOp::Input | StepOp::Carry | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => None,
        });
        let busy = moves.map(|(id, collective, operand)| {
            crossing(collective, &plan.step(operand).layout, topology, axes) * plan.times(id)
        });
        (busy.sum(), unit)
    };
    let none = (Time::ZERO, Unit::Links(AxisSet::NONE));
    costs::units(topology).into_iter().map(of).fold(none, |most, next| if next.0 > most.0 { next } else { most })
}
