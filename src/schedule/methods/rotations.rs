//! Shifts by 1, 2, .., n-1, each straight from source to destination: Furiosa's algorithms, and the one hop of a
//! switch.
//!
//! Vectors are in gather form: in step k the device at coordinate d receives from the one at (d + k) mod n.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::place::Place;
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
pub(super) fn all_gather(builder: &mut Builder<'_>, place: Place, shard: OpId) -> OpId {
    let n = builder.mesh().size(place.axis);
    let mut extents = builder.extents(shard).to_vec();
    let mut pieces = Vec::new();
    for k in 0..length(builder, place.axis) {
        let slot = place.region(&extents, CoordMap::rotated(place.axis, k, n), None);
        pieces.push((shift(builder, place.axis, shard, k), slot));
    }
    extents[place.dim] *= n;
    let view = place.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// In step k the device at c keeps block (c - k) mod n, which is shifted to its owner; all are added at the end.
pub(super) fn reduce_scatter(builder: &mut Builder<'_>, place: Place, value: OpId, operator: Operator) -> OpId {
    let n = builder.mesh().size(place.axis);
    let mut terms = Vec::new();
    for k in 0..length(builder, place.axis) {
        let diagonal = place.slot(builder, value, CoordMap::rotated(place.axis, -k, n), None);
        terms.push(shift(builder, place.axis, diagonal, k));
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
