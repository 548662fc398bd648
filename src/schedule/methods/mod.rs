//! Methods: how collectives become slices, shuffles and sums.
//!
//! Each function works in the replica groups of one run: an axis, or neighbouring parts of one. A collective over
//! several runs goes stage by stage, for a gather the minor run first. A run of length 1 costs nothing: the value
//! itself is the answer.

mod exchange;
mod flows;
mod rotations;

pub use exchange::{all_to_all, all_to_all_over, permute};

use super::{Builder, OpId};
use crate::collective::CollectiveKind;
use crate::mesh::{Axes, Wiring};
pub use crate::method::Method;
use crate::operator::Operator;

/// The methods for a collective along a run of this wiring and length, the usual one first.
///
/// A run of length 2 is one cable, hence a line even where rings are asked for; length 1 needs no method.
pub fn candidates(kind: CollectiveKind, wiring: Wiring, n: u64) -> Vec<Method> {
    let wiring = if n == 2 && wiring == Wiring::Ring { Wiring::Line } else { wiring };
    if n < 2 {
        return Vec::new();
    }
    match kind {
        CollectiveKind::AllGather => gathers(wiring, n),
        CollectiveKind::ReduceScatter => [gathers(wiring, n), vec![Method::FuriosaDiagonal]].concat(),
        CollectiveKind::AllReduce => {
            [gathers(wiring, n), vec![Method::FuriosaDiagonal, Method::FuriosaRotation]].concat()
        }
        CollectiveKind::AllToAll => match wiring {
            Wiring::Ring if n.is_multiple_of(2) => vec![Method::DirectHalves, Method::Direct],
            Wiring::Ring | Wiring::Line | Wiring::Switch => vec![Method::Direct],
        },
        CollectiveKind::Permute => vec![Method::Direct],
        CollectiveKind::Slice => Vec::new(),
    }
}

/// The methods that gather, and reduce by the same way.
fn gathers(wiring: Wiring, n: u64) -> Vec<Method> {
    match wiring {
        Wiring::Ring => {
            let mut methods = vec![
                Method::BidirectionalRingPair,
                Method::MeetInMiddleRing,
                Method::ClockwiseRing,
                Method::AnticlockwiseRing,
            ];
            // On an odd ring there is no antipode to share.
            if n.is_multiple_of(2) {
                methods.insert(0, Method::BalancedMeetInMiddleRing);
            }
            methods
        }
        Wiring::Line => vec![Method::Line],
        Wiring::Switch => vec![Method::OneHop],
    }
}

/// The shards of a group, concatenated along `dim` in the order of ranks: `[.., e, ..] -> [.., n·e, ..]`.
pub fn all_gather(builder: &mut Builder<'_>, method: Method, axes: impl Into<Axes>, shard: OpId, dim: usize) -> OpId {
    let axes = axes.into();
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return shard;
    }
    let builder = &mut builder.by(method.name());
    match flows::flow(method, n) {
        Some(flow) => flows::all_gather(builder, flow, axes, shard, dim),
        None => rotations::all_gather(builder, axes, shard, dim),
    }
}

/// The device of rank c in a group gets block c along `dim` of the combination: `[.., e, ..] -> [.., e/n, ..]`.
///
/// The extent must divide by the length of the run.
pub fn reduce_scatter(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    value: OpId,
    dim: usize,
    operator: Operator,
) -> OpId {
    let axes = axes.into();
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    let builder = &mut builder.by(method.name());
    match flows::flow(method, n) {
        Some(flow) => flows::reduce_scatter(builder, flow, axes, value, dim, operator),
        None => rotations::reduce_scatter(builder, axes, value, dim, operator),
    }
}

/// Every device of a group gets the combination of their values; the extents stay.
///
/// A scatter and a gather by the same method along the first dim that divides by the length of the run. Where no dim
/// does, and by [`Method::FuriosaRotation`], whole values are shifted and added.
pub fn all_reduce(builder: &mut Builder<'_>, method: Method, axes: impl Into<Axes>, value: OpId, operator: Operator) -> OpId {
    let axes = axes.into();
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    let dim = builder.extents(value).iter().position(|extent| extent.is_multiple_of(n));
    match dim {
        Some(dim) if method != Method::FuriosaRotation => {
            let part = reduce_scatter(builder, method, axes, value, dim, operator);
            all_gather(builder, method, axes, part, dim)
        }
        Some(_) | None => rotations::all_reduce(&mut builder.by(Method::FuriosaRotation.name()), axes, value, operator),
    }
}
