//! Rotations: shifts by 1, 2, .., n-1, each directly from source to destination. Furiosa's algorithms, and direct
//! exchange on a switch.
//!
//! Vectors are in gather form: in step k the device of rank d receives from the one of rank (d + k) mod n.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::ordered::{Term, combine};
use super::place::{Place, length};
use crate::mesh::Axes;
use crate::operator::Operator;

/// The value of the device k further up; k = 0 moves nothing.
pub(super) fn shift(builder: &mut Builder<'_>, axes: Axes, value: OpId, k: i64) -> OpId {
    if k == 0 {
        return value;
    }
    builder.shuffle(value, Sources::Shift { axes, by: k, wrap: true }, Route::Shortest)
}

/// Shard k further up goes into slot (c + k) mod n.
pub(super) fn all_gather(builder: &mut Builder<'_>, place: Place, shard: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let mut extents = builder.extents(shard).to_vec();
    let mut pieces = Vec::new();
    for k in 0..length(builder, place.axes) {
        let slot = place.region(&extents, CoordMap::along(builder.mesh(), place.axes, k, true), None);
        pieces.push((shift(builder, place.axes, shard, k), slot));
    }
    extents[place.dim] *= n;
    let view = place.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// In step k the device at c keeps block (c - k) mod n, which is shifted to its owner; all are added at the end.
pub(super) fn reduce_scatter(builder: &mut Builder<'_>, place: Place, value: OpId, operator: Operator) -> OpId {
    let mut terms = Vec::new();
    for k in 0..length(builder, place.axes) {
        let diagonal = place.slot(builder, value, CoordMap::along(builder.mesh(), place.axes, -k, true), None);
        terms.push(shift(builder, place.axes, diagonal, k));
    }
    builder.add(&terms, operator)
}

/// Whole values, each shifted from the original one; all are added at the end.
pub(super) fn all_reduce(builder: &mut Builder<'_>, axes: Axes, value: OpId, operator: Operator) -> OpId {
    let mut terms = Vec::new();
    for from in 0..length(builder, axes) {
        terms.push(Term { value: shift(builder, axes, value, from), from, wrap: true });
    }
    combine(builder, axes, &terms, operator)
}
