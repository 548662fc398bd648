//! Findings about a plan, each computed once. Text, JSON and HTML only format them.

use super::seconds::Seconds;
use super::step::Step;
use super::why::Product;
use crate::bounds::crossing::crossing;
use crate::collective::Collective;
use crate::costs::{self, Floor, Unit};
use crate::mesh::{AxisSet, DeviceId};
use crate::plan::{Bundle, Division, Pipeline, Plan, StepId, StepOp, Totals};
use crate::program::ValueId;
use crate::recipe::Lowering;
use crate::topology::{Topology, Work};
use crate::units::Time;
use std::cell::OnceCell;

/// The findings about a plan.
#[derive(Debug)]
pub struct Findings<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The topology that the plan refers to.
    pub topology: &'a Topology,
    /// The executed steps in order, without inputs and carried values.
    pub steps: Vec<Step>,
    /// The products and their alternatives.
    pub products: Vec<Product>,
    /// Totals over the steps.
    pub totals: Totals,
    /// Lower bound over all schedules of the plan: the work of one engine of a device, the load of the links along some
    /// axes, or the slowest collective.
    pub bound: Seconds,
    /// The links that set the bound, if links do.
    pub bound_links: Option<Unit>,
    floor: OnceCell<Option<Floor>>,
}

impl<'a> Findings<'a> {
    /// Evaluates a plan on its machine.
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

    /// Adds the methods that apply to each collective; each is simulated.
    pub fn with_methods(mut self, lowering: Lowering) -> Findings<'a> {
        for step in &mut self.steps {
            step.find_methods(self.plan, self.topology, lowering);
        }
        self
    }

    /// Lower bound over all plans of collectives, computed on first use by a search.
    pub fn floor(&self) -> Option<Floor> {
        // The search covers chains of collectives only.
        let is_reshard = |id| matches!(self.plan.step(id).op, StepOp::Collective(Collective::Reshard { .. }));
        let is_searched = !self.plan.ids().any(is_reshard);
        *self.floor.get_or_init(|| if is_searched { costs::floor(self.plan, self.topology) } else { None })
    }

    /// A time of the machine.
    pub fn seconds(&self, time: Time) -> Seconds {
        Seconds::new(time, self.topology)
    }

    /// The runs of steps that are split into pieces: dim, division of its shards, and indices of the steps.
    pub fn pipelines(&self) -> Vec<(String, Division, Vec<usize>)> {
        let place = |id| self.steps.iter().position(|step| step.id == id);
        let of = |pipeline: &Pipeline| {
            let dim = self.plan.program.dims.name(pipeline.dim);
            (dim, pipeline.division, pipeline.steps.keys().filter_map(|id| place(*id)).collect())
        };
        self.plan.overlap.pipelines.iter().map(of).collect()
    }

    /// The collectives that are done as one: indices of the steps.
    pub fn bundles(&self) -> Vec<Vec<usize>> {
        let place = |id: StepId| self.steps.iter().position(|step| step.id == id);
        let of = |bundle: &Bundle| bundle.steps().filter_map(place).collect();
        self.plan.overlap.bundles.iter().map(of).collect()
    }

    /// The product that computes a value.
    pub fn product(&self, value: ValueId) -> Option<&Product> {
        self.products.iter().find(|product| product.value == value)
    }
}

/// A device for each way in which devices differ: arrays of a root are on some of them only.
fn differing(plan: &Plan) -> impl Iterator<Item = DeviceId> + '_ {
    let (mesh, steps) = (&plan.program.mesh, plan.ids().map(|id| &plan.step(id).layout.sharding));
    let rooted = steps.filter(|sharding| sharding.operator.is_root());
    let apart = rooted.fold(AxisSet::NONE, |all, sharding| all.union(sharding.open)).in_order();
    (0..apart.group_size(mesh)).map(move |rank| mesh.with_rank(DeviceId(0), apart.iter(), rank))
}

/// Busy time of the busiest engine of a device. What is computed from the array of a root is computed there alone.
fn busiest_engine(plan: &Plan, topology: &Topology) -> Time {
    let (engines, mesh) = (&topology.hardware.engines, &plan.program.mesh);
    let of_device = |device: DeviceId| {
        let mut busy = vec![Time::ZERO; engines.names().len()];
        for id in plan.ids().filter(|id| plan.step(*id).layout.sharding.is_on(device, mesh)) {
            let step = plan.step(id);
            let work = step.op.work().filter(|work| *work != Work::Shuffle);
            if let Some(engine) = work.and_then(|work| engines.of(work)) {
                busy[engine.index()] += step.cost.time * plan.times_at_the_least(id);
            }
        }
        busy.into_iter().max().unwrap_or_default()
    };
    differing(plan).map(of_device).max().unwrap_or_default()
}

/// Lower bound on the busy time of the busiest links, and these links. Arrays of different roots use different links.
fn busiest_links(plan: &Plan, topology: &Topology) -> (Time, Unit) {
    let mesh = &plan.program.mesh;
    let of = |unit: Unit| {
        let Unit::Links(axes) = unit else { return (Time::ZERO, unit) };
        let of_device = |device: DeviceId| {
            let of_move = |id| Some((id, plan.step(id).op.collective()?, &plan.step(plan.operands(id)[0]).layout));
            let moves = plan.ids().filter_map(of_move).filter(|(_, _, from)| from.sharding.is_on(device, mesh));
            moves.map(|(id, collective, from)| crossing(collective, from, topology, axes) * plan.times(id)).sum()
        };
        (differing(plan).map(of_device).max().unwrap_or_default(), unit)
    };
    let none = (Time::ZERO, Unit::Links(AxisSet::NONE));
    costs::units(topology).into_iter().map(of).fold(none, |most, next| if next.0 > most.0 { next } else { most })
}
