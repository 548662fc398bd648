//! Positions of the shards of a run in a block, and parts of shards.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Region};
use crate::mesh::Axes;
use std::ops::Range;

/// The number of devices along the axes, as maps count ranks.
pub(super) fn length(builder: &Builder<'_>, axes: Axes) -> i64 {
    i64::try_from(axes.group_size(builder.mesh())).expect("fewer than 2^20 devices")
}

/// The slots of a run: the positions of its shards in a gathered block.
///
/// With `major` blocks of more major runs on the dim already gathered, `[major, rest]` becomes `[major, n, rest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) axes: Axes,
    pub(super) dim: usize,
    pub(super) major: u64,
}

impl Place {
    /// Slots at the front of a dim.
    pub(super) fn new(axes: Axes, dim: usize) -> Place {
        Place { axes, dim, major: 1 }
    }

    /// The dim of the slots in a gathered block's view.
    pub(super) fn slot_dim(&self) -> usize {
        self.dim + usize::from(self.major > 1)
    }

    /// A shard's extents, with the major blocks apart.
    pub(super) fn shard_view(&self, shard: &[u64]) -> Vec<u64> {
        if self.major > 1 { split(shard, self.dim, self.major) } else { shard.to_vec() }
    }

    /// A gathered block's extents, with the major blocks and `n` slots apart.
    pub(super) fn view(&self, extents: &[u64], n: u64) -> Vec<u64> {
        split(&self.shard_view(extents), self.slot_dim(), n)
    }

    /// One slot of a gathered block, or a part of it; the part is in dims of the shard's view.
    pub(super) fn region(&self, shard: &[u64], slot: CoordMap, part: Option<&Part>) -> Region {
        region(self.shard_view(shard).len(), self.slot_dim(), slot, part)
    }

    /// A part of a shard.
    pub(super) fn cut(&self, builder: &mut Builder<'_>, shard: OpId, part: Option<&Part>) -> OpId {
        let Some(part) = part else { return shard };
        let view = self.shard_view(builder.extents(shard));
        let region = range_region(view.len(), part);
        builder.slice(shard, view, region)
    }

    /// The block in one slot of a gathered value, or a part of it: `[major, n, rest] -> [major, rest]`.
    pub(super) fn slot(&self, builder: &mut Builder<'_>, value: OpId, slot: CoordMap, part: Option<&Part>) -> OpId {
        let n = self.axes.group_size(builder.mesh());
        let view = self.view(builder.extents(value), n);
        let region = region(view.len() - 1, self.slot_dim(), slot, part);
        builder.slice(value, view, region)
    }
}

/// A range of one dim of a shard.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) dim: usize,
    pub(super) range: Range<u64>,
}

/// The two halves of a block along its longest dim, the smaller first; `None` of a single element.
pub(super) fn halves(extents: &[u64]) -> Option<[Part; 2]> {
    // Of equal dims the first: there the halves lie together in memory.
    let (dim, extent) = extents.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent)?;
    let part = |range| Part { dim, range };
    (extent > 1).then(|| [part(0..extent / 2), part(extent / 2..extent)])
}

/// One slot of a dim split into slots, or a part of it; the part is in dims of the shard.
pub(super) fn region(rank: usize, dim: usize, slot: CoordMap, part: Option<&Part>) -> Region {
    let mut region = vec![Cut::Whole; rank + 1];
    region[dim] = Cut::At(slot);
    if let Some(part) = part {
        let place = if part.dim < dim { part.dim } else { part.dim + 1 };
        region[place] = Cut::Range { start: part.range.start, end: part.range.end };
    }
    region
}

/// A part of a block as a region.
pub(super) fn range_region(rank: usize, part: &Part) -> Region {
    let mut region = vec![Cut::Whole; rank];
    region[part.dim] = Cut::Range { start: part.range.start, end: part.range.end };
    region
}
