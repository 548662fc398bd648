//! Simulated times: each collective is lowered by its best methods and run on the clock.

use super::part::Part;
use super::{limited, roofline, traffic};
use crate::bounds::Bounds;
use crate::collective::Collective;
use crate::layout::Layout;
use crate::lower::{Lowerer, Lowering, Memory, idle_runs, simulate};
use crate::mesh::AxisSet;
use crate::method::Method;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::topology::Topology;
use crate::units::Time;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The time on the simulated links of one machine.
pub(super) struct Exact<'a> {
    topology: &'a Topology,
    lowering: Lowering,
    bounds: Bounds<'a>,
    known: RefCell<FxHashMap<(Collective, Layout), Cost>>,
    /// What lowering found out about the part of the machine along some axes.
    memories: RefCell<FxHashMap<AxisSet, Memory>>,
}

impl<'a> Exact<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> Exact<'a> {
        let (known, memories) = (RefCell::default(), RefCell::default());
        Exact { topology, lowering, bounds: Bounds::new(topology), known, memories }
    }

    /// Lowers and runs the collective on the axes that take part; along all others the same happens side by
    /// side. Groups along a part of an axis share its links, so of that all devices take part.
    fn simulated(&self, collective: &Collective, from: &Layout, method: Option<Method>) -> Option<Time> {
        let mesh = &self.topology.mesh;
        let borrowed = idle_runs(mesh, &from.sharding).into_iter().flat_map(|run| run.iter());
        let borrowed: AxisSet = borrowed.filter(|_| method == Some(Method::IdleAxis)).collect();
        let axes = collective.axes(&from.sharding, mesh).union(borrowed);
        let part = Part::new(self.topology, axes);
        let (collective, from) = (part.collective(collective), part.layout(from, &self.topology.mesh));
        let extents = from.local_extents(&part.topology.mesh);
        let memory = self.memories.borrow_mut().remove(&axes).unwrap_or_default();
        let mut lowerer = Lowerer::with(&part.topology, self.lowering, memory);
        let trial = simulate(&part.topology, from.dtype, &extents, |builder, input| {
            lowerer.collective(builder, &collective, &from, input, method);
        });
        let trial = trial.filter(|_| lowerer.applies());
        self.memories.borrow_mut().insert(axes, lowerer.into_memory());
        trial.map(|trial| trial.time)
    }
}

impl Costs for Exact<'_> {
    fn by_method(&self, collective: &Collective, from: &Layout, method: Method) -> Cost {
        let usual = self.collective(collective, from);
        let asked = self.simulated(collective, from, Some(method));
        Cost { time: asked.unwrap_or(usual.time), ..usual }
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        let key = (collective.clone(), from.clone());
        if let Some(cost) = self.known.borrow().get(&key) {
            return *cost;
        }
        let bound = self.bounds.collective(collective, from);
        let time = match collective {
            Collective::Slice { .. } => Time::ZERO,
            _ => self.simulated(collective, from, None).unwrap_or_else(|| bound.time()),
        };
        let limit = if bound.latency > bound.bandwidth { Limit::Latency } else { Limit::Bandwidth };
        let cost = limited(time, limit);
        self.known.borrow_mut().insert(key, cost);
        cost
    }

    fn product(&self, work: &LocalWork) -> Cost {
        roofline(work, self.topology)
    }

    fn map(&self, work: &LocalWork) -> Cost {
        traffic(work, self.topology)
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Time> {
        let is_slice = matches!(collective, Collective::Slice { .. });
        (!is_slice).then(|| self.bounds.collective(collective, from).time())
    }

    fn name(&self) -> &'static str {
        "exact"
    }
}
