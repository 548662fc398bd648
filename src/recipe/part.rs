//! The submesh of a collective; all other axes repeat it.

use crate::collective::Collective;
use crate::layout::{Dim, Layout, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::sim::clock::AxisLoad;
use crate::topology::Topology;

/// The submachine of some axes, with their new ids. It contains all groups that share its links.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) topology: Topology,
    kept: Vec<AxisId>,
    /// The whole mesh.
    mesh: Mesh,
    /// The axes of the whole machine that it has, in order.
    wired: AxisSet,
}

impl Part {
    pub(crate) fn new(topology: &Topology, axes: AxisSet) -> Part {
        let (part, kept) = topology.only(axes);
        let wired = kept.iter().map(|axis| topology.mesh.physical(*axis)).collect();
        Part { topology: part, kept, mesh: topology.mesh.clone(), wired }
    }

    /// The id of an axis in the submachine, if it is included.
    fn known(&self, axis: AxisId) -> Option<AxisId> {
        self.kept.iter().position(|kept| *kept == axis).map(AxisId::new)
    }

    /// The id of an axis of the submachine in the whole machine.
    pub(crate) fn whole(&self, axis: AxisId) -> AxisId {
        self.kept[axis.index()]
    }

    /// Loads by axis of the whole machine.
    pub(crate) fn on_whole(&self, mut loads: Vec<AxisLoad>) -> Vec<AxisLoad> {
        let wired: Vec<AxisId> = self.wired.iter().collect();
        loads.iter_mut().for_each(|load| load.axis = wired[load.axis.index()]);
        loads
    }

    /// All its axes, as in the whole machine.
    pub(crate) fn all(&self) -> Axes {
        self.kept.iter().copied().collect()
    }

    /// Converts an axis that takes part.
    pub(crate) fn axis(&self, axis: AxisId) -> AxisId {
        self.known(axis).expect("axes that take part are kept")
    }

    pub(crate) fn axes(&self, axes: Axes) -> Axes {
        axes.iter().filter_map(|axis| self.known(axis)).collect()
    }

    pub(crate) fn set(&self, axes: AxisSet) -> AxisSet {
        axes.iter().filter_map(|axis| self.known(axis)).collect()
    }

    /// The sharding of a block in the submachine; axes that it lacks are left out.
    pub(crate) fn sharding(&self, sharding: &Sharding) -> Sharding {
        let mut part = sharding.clone();
        part.dims.iter_mut().for_each(|axes| *axes = self.axes(*axes));
        let open: Axes = sharding.open.iter().filter(|axis| self.known(*axis).is_some()).collect();
        if let Some(root) = sharding.root_along(open, &self.mesh) {
            let rooted = sharding.operator.with_root(root, self.axes(open), &self.topology.mesh);
            part.operator = rooted.expect("a rank along the same axes");
        }
        part.set_open(self.set(sharding.open));
        part
    }

    /// The array, already sharded by the excluded axes.
    pub(crate) fn layout(&self, layout: &Layout, mesh: &Mesh) -> Layout {
        let sharding = self.sharding(&layout.sharding);
        let local = layout.local_extents(mesh);
        let whole = |((dim, axes), local): ((&Dim, &Axes), u64)| Dim {
            id: dim.id,
            size: local * axes.group_size(&self.topology.mesh),
        };
        let dims = layout.dims.iter().zip(&sharding.dims).zip(local).map(whole).collect();
        Layout { dtype: layout.dtype, dims, sharding, used: layout.used.clone() }
    }

    pub(crate) fn collective(&self, collective: &Collective) -> Collective {
        collective.mapped(&|axes| self.axes(axes), &|sharding| self.sharding(sharding))
    }
}
