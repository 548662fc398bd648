//! On which devices an operation has a result.

use crate::mesh::{DeviceId, Mesh};
use crate::schedule::{CoordMap, Cut, OpKind};

/// Whether an operation within a device has a result where so many of its operands are there.
pub(in crate::sim) fn makes_result(kind: &OpKind, present: usize, operands: usize) -> bool {
    match kind {
        OpKind::Input { .. } => true,
        OpKind::Slice { .. } | OpKind::Shuffle { .. } | OpKind::AllGather { .. } => present == 1,
        OpKind::Add { .. } | OpKind::Assemble { .. } => present > 0,
        OpKind::MatMul { .. }
        | OpKind::Reduce { .. }
        | OpKind::Map { .. }
        | OpKind::Fill { .. }
        | OpKind::Mask { .. } => present == operands,
    }
}

/// The cuts of a region that can miss the block on some device, each with the length of its dim.
pub(in crate::sim) struct MayMiss<'a> {
    mesh: &'a Mesh,
    cuts: Vec<(&'a CoordMap, u64)>,
}

impl<'a> MayMiss<'a> {
    /// Of a region in this view.
    pub(in crate::sim) fn new(mesh: &'a Mesh, view: &[u64], region: &'a [Cut]) -> MayMiss<'a> {
        let cuts = view.iter().zip(region).filter_map(|(length, cut)| match cut {
            Cut::Whole | Cut::Range { .. } => None,
            Cut::At(map) => Some((map, *length)),
        });
        MayMiss { mesh, cuts: cuts.collect() }
    }

    /// Whether the device keeps nothing.
    pub(in crate::sim) fn at(&self, device: DeviceId) -> bool {
        self.cuts.iter().any(|(map, length)| map.at(self.mesh, device).is_none_or(|index| index >= *length))
    }
}
