//! Rotations: shifts by 1, 2, .., n-1, each directly from source to destination. Furiosa's algorithms, and direct
//! exchange on a switch.
//!
//! Vectors are in gather form: in step k the device of rank d receives from the one of rank (d + k) mod n.
//!
//! On an even ring the antipode is as far either way. One way, its messages load the links of that direction with n²/8 + n/4
//! blocks and the others with n²/8 - n/4; the balanced methods send a half each way, which loads all links with n²/8.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::Method;
use super::ordered::{Term, combine};
use super::place::{Place, halves, length, range_region};
use crate::mesh::Axes;
use crate::operator::Operator;
use itertools::Itertools;

/// The values of the devices 0, 1, .., n-1 further up, where `value` makes what is shifted by k.
///
/// The balanced methods send the farthest first, so that no link waits for them at the end.
fn shifted(
    builder: &mut Builder<'_>,
    method: Method,
    axes: Axes,
    mut value: impl FnMut(&mut Builder<'_>, i64) -> OpId,
) -> Vec<OpId> {
    let n = length(builder, axes);
    let is_balanced = matches!(method, Method::BalancedFuriosaRotation | Method::BalancedFuriosaDiagonal);
    let far = |k: &i64| if is_balanced { -(*k).min(n - k) } else { *k };
    let mut values = Vec::new();
    for k in (0..n).sorted_by_key(far) {
        let sent = value(builder, k);
        let at_antipode = is_balanced && n > 2 && 2 * k == n;
        let arrived = if at_antipode { both_ways(builder, axes, sent, k) } else { shift(builder, axes, sent, k) };
        values.push((k, arrived));
    }
    values.into_iter().sorted_by_key(|(k, _)| *k).map(|(_, arrived)| arrived).collect()
}

/// The value of the device k further up; k = 0 moves nothing.
fn shift(builder: &mut Builder<'_>, axes: Axes, value: OpId, k: i64) -> OpId {
    if k == 0 {
        return value;
    }
    builder.shuffle(value, Sources::Shift { axes, by: k, wrap: true }, Route::Shortest)
}

/// The value of the antipode, k links away: one half from each side. A single element comes one way.
fn both_ways(builder: &mut Builder<'_>, axes: Axes, value: OpId, k: i64) -> OpId {
    let extents = builder.extents(value).to_vec();
    let Some(parts) = halves(&extents) else { return shift(builder, axes, value, k) };
    let mut pieces = Vec::new();
    for (part, hops) in parts.iter().zip([k, -k]) {
        let half = builder.slice_range(value, part.dim, part.range.clone());
        let sources = Sources::Shift { axes, by: -hops, wrap: true };
        let arrived = builder.shuffle(half, sources, Route::Hops(hops));
        pieces.push((arrived, range_region(extents.len(), part)));
    }
    builder.assemble(extents.clone(), extents, pieces)
}

/// Shard k further up goes into slot (c + k) mod n.
pub(super) fn all_gather(builder: &mut Builder<'_>, method: Method, place: Place, shard: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let mut extents = builder.extents(shard).to_vec();
    let mut pieces = Vec::new();
    for (k, value) in (0..).zip(shifted(builder, method, place.axes, |_, _| shard)) {
        let slot = place.region(&extents, CoordMap::along(builder.mesh(), place.axes, k, true), None);
        pieces.push((value, slot));
    }
    extents[place.dim] *= n;
    let view = place.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// In step k the device at c keeps block (c - k) mod n, which is shifted to its owner; all are added at the end.
pub(super) fn reduce_scatter(
    builder: &mut Builder<'_>,
    method: Method,
    place: Place,
    value: OpId,
    operator: Operator,
) -> OpId {
    let terms = shifted(builder, method, place.axes, |builder, k| {
        place.slot(builder, value, CoordMap::along(builder.mesh(), place.axes, -k, true), None)
    });
    builder.add(&terms, operator)
}

/// Whole values, each shifted from the original one; all are added at the end.
pub(super) fn all_reduce(
    builder: &mut Builder<'_>,
    method: Method,
    axes: Axes,
    value: OpId,
    operator: Operator,
) -> OpId {
    let values = shifted(builder, method, axes, |_, _| value);
    let terms: Vec<Term> = (0..).zip(values).map(|(from, value)| Term { value, from, wrap: true }).collect();
    combine(builder, axes, &terms, operator)
}
