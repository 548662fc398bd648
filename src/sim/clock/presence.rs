//! On which devices a slice keeps something.

use crate::mesh::{DeviceId, Mesh};
use crate::schedule::{CoordMap, Cut};

/// The cuts of a region that can miss the block on some device, each with the length of its dim.
pub(super) struct MayMiss<'a> {
    mesh: &'a Mesh,
    cuts: Vec<(&'a CoordMap, u64)>,
}

impl<'a> MayMiss<'a> {
    /// Of a region in this view.
    pub(super) fn new(mesh: &'a Mesh, view: &[u64], region: &'a [Cut]) -> MayMiss<'a> {
        let cuts = view.iter().zip(region).filter_map(|(length, cut)| match cut {
            Cut::Whole | Cut::Range { .. } => None,
            Cut::At(map) => Some((map, *length)),
        });
        MayMiss { mesh, cuts: cuts.collect() }
    }

    /// Whether the device keeps nothing.
    pub(super) fn at(&self, device: DeviceId) -> bool {
        self.cuts.iter().any(|(map, length)| map.at(self.mesh, device).is_none_or(|index| index >= *length))
    }
}
