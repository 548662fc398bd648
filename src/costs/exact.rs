//! Simulated times: each collective is lowered by its best methods and run on the clock.

use super::{limited, roofline, traffic};
use crate::bounds;
use crate::collective::Collective;
use crate::layout::{Dim, Layout, Sharding};
use crate::lower::{Lowerer, Lowering, simulate};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::topology::{Part, Topology};
use crate::units::Time;
use std::cell::RefCell;
use std::collections::HashMap;

/// The time on the simulated links of one machine.
pub(super) struct Exact<'a> {
    topology: &'a Topology,
    lowering: Lowering,
    known: RefCell<HashMap<(Collective, Layout), Cost>>,
}

impl<'a> Exact<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> Exact<'a> {
        Exact { topology, lowering, known: RefCell::new(HashMap::new()) }
    }

    /// Lowers and runs the collective on the axes that take part; along all others the same happens side by side.
    fn simulated(&self, collective: &Collective, from: &Layout) -> Option<Time> {
        let axes: Vec<AxisId> = collective.axes(&from.sharding).iter().collect();
        let part = self.topology.part(&axes);
        let (collective, from) = (collective_in(&part, collective), layout_in(&part, from, &self.topology.mesh));
        let extents = from.local_extents(&part.topology.mesh);
        let mut lowerer = Lowerer::new(&part.topology, self.lowering);
        simulate(&part.topology, from.dtype, &extents, |builder, input| {
            lowerer.collective(builder, &collective, &from, input, None);
        })
    }
}

impl Costs for Exact<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        let key = (collective.clone(), from.clone());
        if let Some(cost) = self.known.borrow().get(&key) {
            return *cost;
        }
        let bound = bounds::collective(collective, from, self.topology);
        let time = match collective {
            Collective::Slice { .. } => Time::ZERO,
            _ => self.simulated(collective, from).unwrap_or_else(|| bound.time()),
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

    fn name(&self) -> &'static str {
        "exact"
    }
}

/// Axes as they are numbered in a part of the machine; those that it lacks are left out.
fn axes_in(part: &Part, axes: Axes) -> Axes {
    axes.iter().filter_map(|axis| part.axis(axis)).collect()
}

fn set_in(part: &Part, axes: AxisSet) -> AxisSet {
    axes.iter().filter_map(|axis| part.axis(axis)).collect()
}

fn sharding_in(part: &Part, sharding: &Sharding) -> Sharding {
    let mut inside = sharding.clone();
    inside.dims.iter_mut().for_each(|axes| *axes = axes_in(part, *axes));
    inside.set_open(set_in(part, sharding.open));
    inside
}

/// The array that the axes left out have cut already.
fn layout_in(part: &Part, layout: &Layout, mesh: &Mesh) -> Layout {
    let sharding = sharding_in(part, &layout.sharding);
    let local = layout.local_extents(mesh);
    let whole = |((dim, axes), local): ((&Dim, &Axes), u64)| Dim {
        id: dim.id,
        size: local * axes.group_size(&part.topology.mesh),
    };
    let dims = layout.dims.iter().zip(&sharding.dims).zip(local).map(whole).collect();
    Layout { dtype: layout.dtype, dims, sharding }
}

fn collective_in(part: &Part, collective: &Collective) -> Collective {
    match collective {
        Collective::AllGather { axes } => Collective::AllGather { axes: set_in(part, *axes) },
        Collective::AllReduce { axes } => Collective::AllReduce { axes: set_in(part, *axes) },
        Collective::ReduceScatter { axes, dim } => {
            Collective::ReduceScatter { axes: axes_in(part, *axes), dim: *dim }
        }
        Collective::AllToAll { axes, from, to } => {
            Collective::AllToAll { axes: axes_in(part, *axes), from: *from, to: *to }
        }
        Collective::Slice { axes, dim } => Collective::Slice { axes: axes_in(part, *axes), dim: *dim },
        Collective::Permute { to } => Collective::Permute { to: sharding_in(part, to) },
    }
}
