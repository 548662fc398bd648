//! Simulated times: each collective is lowered by its best methods and run on the clock.

use super::{limited, roofline, traffic};
use crate::bounds;
use crate::collective::Collective;
use crate::layout::{Dim, Layout, Sharding};
use crate::lower::{Lowerer, Lowering, simulate};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::topology::Topology;
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

    /// Lowers and runs the collective on the axes that take part; along all others the same happens side by
    /// side. Groups along a part of an axis share its links, so of that all devices take part.
    fn simulated(&self, collective: &Collective, from: &Layout) -> Option<Time> {
        let part = Part::new(self.topology, collective.axes(&from.sharding));
        let (collective, from) = (part.collective(collective), part.layout(from, &self.topology.mesh));
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

/// The machine with only some of its axes, and how their ids change.
struct Part {
    topology: Topology,
    kept: Vec<AxisId>,
}

impl Part {
    fn new(topology: &Topology, axes: AxisSet) -> Part {
        let (topology, kept) = topology.only(axes);
        Part { topology, kept }
    }

    fn axis(&self, axis: AxisId) -> Option<AxisId> {
        self.kept.iter().position(|kept| *kept == axis).map(AxisId::new)
    }

    fn axes(&self, axes: Axes) -> Axes {
        axes.iter().filter_map(|axis| self.axis(axis)).collect()
    }

    fn set(&self, axes: AxisSet) -> AxisSet {
        axes.iter().filter_map(|axis| self.axis(axis)).collect()
    }

    fn sharding(&self, sharding: &Sharding) -> Sharding {
        let mut part = sharding.clone();
        part.dims.iter_mut().for_each(|axes| *axes = self.axes(*axes));
        part.set_open(self.set(sharding.open));
        part
    }

    /// The array that the axes left out have cut already.
    fn layout(&self, layout: &Layout, mesh: &Mesh) -> Layout {
        let sharding = self.sharding(&layout.sharding);
        let local = layout.local_extents(mesh);
        let whole = |((dim, axes), local): ((&Dim, &Axes), u64)| Dim {
            id: dim.id,
            size: local * axes.group_size(&self.topology.mesh),
        };
        let dims = layout.dims.iter().zip(&sharding.dims).zip(local).map(whole).collect();
        Layout { dtype: layout.dtype, dims, sharding }
    }

    fn collective(&self, collective: &Collective) -> Collective {
        match collective {
            Collective::AllGather { axes } => Collective::AllGather { axes: self.set(*axes) },
            Collective::AllReduce { axes } => Collective::AllReduce { axes: self.set(*axes) },
            Collective::ReduceScatter { axes, dim } => Collective::ReduceScatter { axes: self.axes(*axes), dim: *dim },
            Collective::AllToAll { axes, from, to } => {
                Collective::AllToAll { axes: self.axes(*axes), from: *from, to: *to }
            }
            Collective::Slice { axes, dim } => Collective::Slice { axes: self.axes(*axes), dim: *dim },
            Collective::Permute { to } => Collective::Permute { to: self.sharding(to) },
        }
    }
}
