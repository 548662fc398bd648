//! One collective by itself, on the axes that take part.

use crate::collective::Collective;
use crate::layout::{Dim, Layout, Sharding};
use crate::lower::{Lowerer, Lowering};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::method::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, Output, Schedule};
use crate::span::Span;
use crate::topology::Topology;

/// One collective as a schedule of its own, on the part of the machine along the axes that take part.
///
/// - `array`: the name of the array and of its dims.
/// - `method`: what is asked for.
pub fn alone(
    topology: &Topology,
    lowering: Lowering,
    (collective, from): (&Collective, &Layout),
    (name, dims): (&str, Vec<String>),
    method: Option<Method>,
) -> Option<(Schedule, Topology)> {
    let part = Part::new(topology, collective.axes(&from.sharding, &topology.mesh));
    let (collective, from) = (part.collective(collective), part.layout(from, &topology.mesh));
    let to = collective.apply(&from.sharding, &part.topology.mesh)?;
    let extents: Vec<u64> = from.dims.iter().map(|dim| dim.size).collect();
    let mut schedule = Schedule::new(part.topology.mesh.clone());
    schedule.arrays.push(Array {
        name: name.to_owned(),
        dtype: from.dtype,
        dims,
        valid: extents.clone(),
        extents,
        definition: Dense::Input,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), from.sharding.clone());
    let mut lowerer = Lowerer::new(&part.topology, lowering);
    let value = lowerer.collective(&mut builder, &collective, &from, input, method);
    if lowerer.is_too_large() {
        return None;
    }
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: to });
    Some((schedule, part.topology))
}

/// The machine with only some of its axes, and how their ids change.
pub(super) struct Part {
    pub(super) topology: Topology,
    kept: Vec<AxisId>,
}

impl Part {
    pub(super) fn new(topology: &Topology, axes: AxisSet) -> Part {
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
    pub(super) fn layout(&self, layout: &Layout, mesh: &Mesh) -> Layout {
        let sharding = self.sharding(&layout.sharding);
        let local = layout.local_extents(mesh);
        let whole = |((dim, axes), local): ((&Dim, &Axes), u64)| Dim {
            id: dim.id,
            size: local * axes.group_size(&self.topology.mesh),
        };
        let dims = layout.dims.iter().zip(&sharding.dims).zip(local).map(whole).collect();
        Layout { dtype: layout.dtype, dims, sharding }
    }

    pub(super) fn collective(&self, collective: &Collective) -> Collective {
        match collective {
            Collective::AllGather { axes } => Collective::AllGather { axes: self.set(*axes) },
            Collective::AllReduce { axes } => Collective::AllReduce { axes: self.set(*axes) },
            Collective::Broadcast { axes } => Collective::Broadcast { axes: self.set(*axes) },
            Collective::Open { axes } => Collective::Open { axes: self.set(*axes) },
            Collective::ReduceScatter { dims } => {
                Collective::ReduceScatter { dims: dims.iter().map(|axes| self.axes(*axes)).collect() }
            }
            Collective::AllToAll { axes, from, to } => {
                Collective::AllToAll { axes: self.axes(*axes), from: *from, to: *to }
            }
            Collective::Slice { axes, dim } => Collective::Slice { axes: self.axes(*axes), dim: *dim },
            Collective::Permute { to } => Collective::Permute { to: self.sharding(to) },
        }
    }
}
