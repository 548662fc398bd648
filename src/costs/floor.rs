//! Lower bound for all plans of collectives of a program, and their schedules: the load of the unit that is busiest in
//! every plan.
//!
//! A unit is an engine of a device, or all links along some axes of the machine. For each unit, the planner searches
//! for the plan that keeps it busy for the shortest time. With any overlap of steps, a plan takes at least as long as
//! its busiest unit is busy, so at least the maximum of these times. Routed moves, and layouts that pad a dim where the
//! program does not, are outside of this bound.

use super::book::Book;
use super::{CostModel, limited, roofline, traffic};
use crate::bounds::crossing::{Crossing, Links};
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::mesh::{AxisSet, Mesh};
use crate::plan::{self, Budget, Cost, Costs, Limit, LocalWork, Plan};
use crate::program::{Program, Wanted};
use crate::recipe::Lowering;
use crate::topology::{EngineId, Topology, Work};
use crate::units::Time;
use itertools::Itertools;
use std::borrow::Cow;
use std::rc::Rc;

/// A resource whose load bounds the time of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// One of the engines of a device.
    Engine(EngineId),
    /// All links along these axes of the machine.
    Links(AxisSet),
}

impl Unit {
    /// Minimum time of a message over one of the links.
    fn one_hop(self, topology: &Topology) -> Time {
        match self {
            Unit::Engine(_) => Time::ZERO,
            Unit::Links(axes) => {
                axes.iter().map(|axis| topology.axes[axis.index()].hop_latency).min().unwrap_or_default()
            }
        }
    }

    /// Name for display and JSON: `links of X and Y`, `compute`.
    pub fn name(self, topology: &Topology) -> String {
        match self {
            Unit::Engine(engine) => match topology.hardware.engines.names() {
                [_] => "compute".to_owned(),
                names => names[engine.index()].clone(),
            },
            Unit::Links(axes) => {
                let names: Vec<&str> = axes.iter().map(|axis| topology.machine.axis(axis).name.as_str()).collect();
                format!("links of {}", names.join(" and "))
            }
        }
    }
}

/// A lower bound for all plans of collectives, and their schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Minimum busy time of the unit in any plan.
    pub time: Time,
    /// The unit.
    pub unit: Unit,
}

/// With more axes, only all links together and those of single axes are considered.
const MOST_AXES: usize = 3;

/// The lower bound for the program of a plan, on the axes that the plan uses; with too many layouts, the time of its products.
/// `None` if the minimum is 0, or arrays have different roots.
///
/// Local computations have their costs in the plan.
///
/// # Panics
/// If the topology is not the machine of the plan.
pub fn floor(plan: &Plan, topology: &Topology) -> Option<Floor> {
    let model = CostModel::named(plan.costs).unwrap_or_default();
    let topology = &topology.seen_as(&plan.program.mesh);
    heaviest(&plan.unfilled(), topology, model, plan.in_parts, plan.budget, Some(plan))
}

/// The lower bound for a program; `None` as for [`floor`].
///
/// - `in_parts`: whether plans may split axes into parts.
pub fn floor_of(
    program: &Program,
    topology: &Topology,
    model: CostModel,
    in_parts: bool,
    budget: Budget,
) -> Option<Floor> {
    heaviest(program, topology, model, in_parts, budget, None)
}

/// The unit with the largest minimum.
///
/// - `known`: a plan of the program; its load of a unit is at least the minimum.
fn heaviest(
    program: &Program,
    topology: &Topology,
    model: CostModel,
    in_parts: bool,
    budget: Budget,
    known: Option<&Plan>,
) -> Option<Floor> {
    let mut roots = program.values.iter().filter_map(|value| match &value.wanted {
        Wanted::Exact(sharding) if sharding.operator.is_root() => Some(sharding.operator),
        Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free => None,
    });
    // Devices that hold the arrays of different roots work at the same time.
    if !roots.all_equal() {
        return None;
    }
    let topology = &model.machine(topology);
    let mut work = 0;
    let mut heaviest: Option<Floor> = None;
    for unit in units(topology) {
        // Any load takes at least one hop.
        let with_hop = |load: Time| if load == Time::ZERO { load } else { load.max(unit.one_hop(topology)) };
        let so_far = heaviest.map_or(Time::ZERO, |floor| floor.time);
        let loads = Loads::new(Cow::Borrowed(topology), model, unit);
        if known.is_some_and(|plan| with_hop(loads.busy(plan)) <= so_far) {
            continue;
        }
        let least = plan::least(program, &loads, in_parts, budget)?;
        let time = with_hop(least.time);
        if time > so_far {
            heaviest = Some(Floor { time, unit });
        }
        work += least.work;
        // Products occupy no links.
        let is_vain = !least.is_complete && matches!(unit, Unit::Links(_));
        if work > Budget::MOST_WORK_OF_A_BOUND || is_vain {
            break;
        }
    }
    heaviest
}

impl CostModel {
    /// The machine with the links that the model assumes: in the book's formulas, a ring of two has one cable.
    pub fn machine(self, topology: &Topology) -> Topology {
        let mut machine = topology.clone();
        match self {
            CostModel::Exact | CostModel::Bytes => {}
            CostModel::Book => {
                machine.axes.iter_mut().for_each(|links| links.wiring = links.declared);
            }
        }
        machine
    }
}

/// Minimum busy time of a unit over all plans.
///
/// - `topology`: the result of [`CostModel::machine`].
pub fn least_load(
    program: &Program,
    topology: &Topology,
    (model, unit): (CostModel, Unit),
    in_parts: bool,
    budget: Budget,
) -> Option<plan::Least> {
    let loads = Loads::new(Cow::Borrowed(topology), model, unit);
    plan::least(program, &loads, in_parts, budget)
}

/// The units of a machine, the simplest first.
pub fn units(topology: &Topology) -> Vec<Unit> {
    let wired: AxisSet = topology.machine.axis_ids().filter(|axis| topology.machine.size(*axis) > 1).collect();
    let sets = wired.subsets().filter(|axes| wired.len() <= MOST_AXES || axes.len() == 1 || *axes == wired);
    let mut sets: Vec<AxisSet> = sets.filter(|axes| !axes.is_empty()).collect();
    // All links first, then sets with few axes.
    sets.sort_by_key(|axes| (*axes != wired, axes.len(), *axes));
    topology.hardware.engines.ids().map(Unit::Engine).chain(sets.into_iter().map(Unit::Links)).collect()
}

/// Minimum busy time of a unit in each step.
pub(super) struct Loads<'a> {
    topology: Cow<'a, Topology>,
    model: CostModel,
    unit: Unit,
    /// Those of the unit.
    links: Option<Links>,
}

impl<'a> Loads<'a> {
    pub(super) fn new(topology: Cow<'a, Topology>, model: CostModel, unit: Unit) -> Loads<'a> {
        let links = match unit {
            Unit::Engine(_) => None,
            Unit::Links(axes) => Some(Links::along(&topology, axes)),
        };
        Loads { topology, model, unit, links }
    }

    /// The time that a plan occupies the unit.
    pub(super) fn busy(&self, plan: &Plan) -> Time {
        let costs = plan.costs_by(self);
        plan.ids().zip(costs).filter(|(id, _)| plan.is_done(*id)).map(|(id, cost)| cost.time * plan.times(id)).sum()
    }

    /// The time that a collective occupies the unit.
    pub(super) fn of(&self, crossing: &Crossing<'_>) -> Time {
        self.links.map_or(Time::ZERO, |links| crossing.time(links))
    }

    /// The machine.
    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The cost if all of these kinds of work use the unit, otherwise 0; the planner does not tell which of them
    /// occurs.
    fn counted(&self, works: &[Work], cost: impl FnOnce() -> Cost) -> Cost {
        let engines = &self.topology.hardware.engines;
        let is_its = |engine| works.iter().all(|work| engines.of(*work) == Some(engine));
        match self.unit {
            Unit::Engine(engine) if is_its(engine) => cost(),
            Unit::Engine(_) | Unit::Links(_) => limited(Time::ZERO, Limit::Free),
        }
    }
}

impl Costs for Loads<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        let links = self.links.and_then(|_| Crossing::of(collective, from, &self.topology));
        limited(links.map_or(Time::ZERO, |crossing| self.of(&crossing)), Limit::Bandwidth)
    }

    fn product(&self, work: &LocalWork) -> Cost {
        self.counted(&[Work::MatMul], || match self.model {
            CostModel::Exact | CostModel::Bytes => roofline(work, &self.topology),
            CostModel::Book => Book::new(&self.topology, Lowering::default()).product(work),
        })
    }

    fn map(&self, work: &LocalWork) -> Cost {
        self.counted(&[Work::Map, Work::Reduce, Work::Fill], || match self.model {
            CostModel::Exact | CostModel::Bytes => traffic(work, &self.topology),
            CostModel::Book => Book::new(&self.topology, Lowering::default()).map(work),
        })
    }

    fn fusion(&self) -> Fusion {
        self.topology.hardware.fusion
    }

    fn seen_as(&self, mesh: &Mesh) -> Option<Rc<dyn Costs + '_>> {
        Some(Rc::new(Loads::new(Cow::Owned(self.topology.seen_as(mesh)), self.model, self.unit)))
    }

    fn name(&self) -> &'static str {
        "load"
    }
}
