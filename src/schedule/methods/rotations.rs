//! Shifts by 1, 2, .., n-1, each straight from source to destination: Furiosa's algorithms, and the one hop of a
//! switch.
//!
//! Vectors are in gather form: in step k the device at coordinate d receives from the one at (d + k) mod n.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use crate::mesh::AxisId;
use crate::operator::Operator;

/// What the device k further up holds; k = 0 moves nothing.
pub(super) fn shift(builder: &mut Builder<'_>, axis: AxisId, value: OpId, k: i64) -> OpId {
    if k == 0 {
        return value;
    }
    builder.shuffle(value, Sources::Shift { axis, by: k, wrap: true }, Route::Shortest)
}

/// The length of an axis, as coordinates are counted in maps.
pub(super) fn length(builder: &Builder<'_>, axis: AxisId) -> i64 {
    i64::from(builder.mesh().axis(axis).size)
}

/// Shard k further up goes into slot (c + k) mod n.
pub(super) fn all_gather(builder: &mut Builder<'_>, axis: AxisId, shard: OpId, dim: usize) -> OpId {
    let n = builder.mesh().size(axis);
    let mut extents = builder.extents(shard).to_vec();
    extents[dim] *= n;
    let view = split(&extents, dim, n);
    let mut pieces = Vec::new();
    for k in 0..length(builder, axis) {
        let mut place = vec![Cut::Whole; view.len()];
        place[dim] = Cut::At(CoordMap::rotated(axis, k, n));
        pieces.push((shift(builder, axis, shard, k), place));
    }
    builder.assemble(extents, view, pieces)
}

/// In step k the device at c keeps block (c - k) mod n, which is shifted to its owner; all are added at the end.
pub(super) fn reduce_scatter(
    builder: &mut Builder<'_>,
    axis: AxisId,
    value: OpId,
    dim: usize,
    operator: Operator,
) -> OpId {
    let n = builder.mesh().size(axis);
    let mut terms = Vec::new();
    for k in 0..length(builder, axis) {
        let diagonal = builder.slice_block(value, dim, n, CoordMap::rotated(axis, -k, n));
        terms.push(shift(builder, axis, diagonal, k));
    }
    builder.add(&terms, operator)
}

/// Whole values, each shifted from the original one; all are added at the end.
pub(super) fn all_reduce(builder: &mut Builder<'_>, axis: AxisId, value: OpId, operator: Operator) -> OpId {
    let mut terms = Vec::new();
    for k in 0..length(builder, axis) {
        terms.push(shift(builder, axis, value, k));
    }
    builder.add(&terms, operator)
}
