//! Shifts along a dim: each device gets the rows before its own from its neighbours.
//!
//! A distance of q blocks and r rows takes the last r rows of the block q + 1 before, and the others of the block q before.
//! The assembled window holds something on all devices; the last operation replaces by 0 what has no source.

use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::place::length;
use crate::mesh::Axes;
use crate::shift::{Part, Shift};

/// A shift of blocks along a dim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shifted {
    /// The axes of the dim.
    pub axes: Axes,
    /// The dim and the distance.
    pub shift: Shift,
    /// Whether the last devices send to the first ones in any case, although it becomes 0 there: all devices do the same.
    pub closed: bool,
}

impl Shifted {
    /// Adds the operations.
    pub fn emit(&self, builder: &mut Builder<'_>, value: OpId) -> OpId {
        let extents = builder.extents(value).to_vec();
        let dim = self.shift.dim();
        let mut pieces = Vec::new();
        for part in self.shift.parts(extents[dim]) {
            let mut region = vec![Cut::Whole; extents.len()];
            region[dim] = Cut::Range { start: part.to.start, end: part.to.end };
            pieces.extend(self.rows(builder, value, &part).into_iter().map(|rows| (rows, region.clone())));
        }
        let window = match pieces[..] {
            [(only, _)] => only,
            _ => builder.assemble(extents.clone(), extents, pieces),
        };
        let axes: Vec<_> = self.axes.iter().collect();
        let length = builder.extents(value)[dim] * self.axes.group_size(builder.mesh());
        builder.shift(window, self.shift, length, &axes)
    }

    /// The rows of another block. Devices without one have their own rows, of which nothing remains.
    fn rows(&self, builder: &mut Builder<'_>, value: OpId, part: &Part) -> Vec<OpId> {
        let n = length(builder, self.axes);
        let dim = self.shift.dim();
        let own = match part.from == (0..builder.extents(value)[dim]) {
            true => value,
            false => builder.slice_range(value, dim, part.from.clone()),
        };
        // At the distance of all devices there is the own block, or none.
        let Some(blocks) = i64::try_from(part.blocks).ok().filter(|blocks| (1..n).contains(blocks)) else {
            return vec![own];
        };
        let by = -self.shift.by.signum() * blocks;
        let wrap = self.closed || self.shift.wraps;
        let arrived = builder.shuffle(own, Sources::Shift { axes: self.axes, by, wrap }, Route::Shortest);
        if wrap {
            return vec![arrived];
        }
        let entries = (0..n).map(|rank| if (0..n).contains(&(rank + by)) { None } else { Some(0) }).collect();
        let first = CoordMap::Table { axes: self.axes.iter().collect(), entries };
        vec![arrived, builder.slice_block(own, dim, 1, first)]
    }
}
