//! Methods: how collectives become slices, shuffles and sums.
//!
//! Each function works in the replica groups of one axis; a collective over several axes goes stage by stage, for a
//! gather the minor axis first. An axis of length 1 costs nothing: the value itself is the answer.

mod exchange;
mod flows;
mod rotations;

pub use exchange::{all_to_all, all_to_all_over, permute};

use super::{Builder, OpId};
use crate::collective::CollectiveKind;
use crate::mesh::{AxisId, Wiring};
use crate::operator::Operator;

/// How a collective is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Whole shards, one link a step towards higher coordinates, all the way round.
    ClockwiseRing,
    /// The same towards lower coordinates.
    AnticlockwiseRing,
    /// One half of each shard goes clockwise, the other anticlockwise, both all the way round.
    BidirectionalRingPair,
    /// Whole shards both ways, until they meet half-way round.
    MeetInMiddleRing,
    /// The same, but the shard of the antipode comes in two halves, one from each side.
    BalancedMeetInMiddleRing,
    /// Whole shards both ways, up to the ends.
    Line,
    /// Every device sends to every other one directly, over a switch.
    OneHop,
    /// Whole values are shifted by 1, 2, .. and all added at once.
    FuriosaRotation,
    /// Each device slices its value along a diagonal; the slices are shifted and all added at once.
    FuriosaDiagonal,
    /// Each message goes straight from its source to its destination, the shorter way.
    Direct,
    /// The same, but what goes to the antipode of a ring goes in two halves, one each way.
    DirectHalves,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 11] = [
        Method::ClockwiseRing,
        Method::AnticlockwiseRing,
        Method::BidirectionalRingPair,
        Method::MeetInMiddleRing,
        Method::BalancedMeetInMiddleRing,
        Method::Line,
        Method::OneHop,
        Method::FuriosaRotation,
        Method::FuriosaDiagonal,
        Method::Direct,
        Method::DirectHalves,
    ];

    /// As it is written after `using`.
    pub fn name(self) -> &'static str {
        match self {
            Method::ClockwiseRing => "clockwise_ring",
            Method::AnticlockwiseRing => "anticlockwise_ring",
            Method::BidirectionalRingPair => "bidirectional_ring_pair",
            Method::MeetInMiddleRing => "meet_in_middle_ring",
            Method::BalancedMeetInMiddleRing => "balanced_meet_in_middle_ring",
            Method::Line => "line",
            Method::OneHop => "one_hop",
            Method::FuriosaRotation => "furiosa_rotation",
            Method::FuriosaDiagonal => "furiosa_diagonal",
            Method::Direct => "direct",
            Method::DirectHalves => "direct_halves",
        }
    }

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// The methods for a collective on an axis of this wiring and length, the usual one first.
///
/// An axis of length 2 is one cable, hence a line even where rings are asked for; length 1 needs no method.
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

/// The shards of a group, concatenated along `dim` in the order of coordinates: `[.., e, ..] -> [.., n·e, ..]`.
pub fn all_gather(builder: &mut Builder<'_>, method: Method, axis: AxisId, shard: OpId, dim: usize) -> OpId {
    let n = builder.mesh().size(axis);
    if n == 1 {
        return shard;
    }
    let builder = &mut builder.by(method.name());
    match flows::flow(method, n) {
        Some(flow) => flows::all_gather(builder, flow, axis, shard, dim),
        None => rotations::all_gather(builder, axis, shard, dim),
    }
}

/// Device c of a group gets block c along `dim` of the combination: `[.., e, ..] -> [.., e/n, ..]`.
///
/// The extent must divide by the length of the axis.
pub fn reduce_scatter(
    builder: &mut Builder<'_>,
    method: Method,
    axis: AxisId,
    value: OpId,
    dim: usize,
    operator: Operator,
) -> OpId {
    let n = builder.mesh().size(axis);
    if n == 1 {
        return value;
    }
    let builder = &mut builder.by(method.name());
    match flows::flow(method, n) {
        Some(flow) => flows::reduce_scatter(builder, flow, axis, value, dim, operator),
        None => rotations::reduce_scatter(builder, axis, value, dim, operator),
    }
}

/// Every device of a group gets the combination of their values; the extents stay.
///
/// A scatter and a gather by the same method along the first dim that divides by the length of the axis. Where no dim
/// does, and by [`Method::FuriosaRotation`], whole values are shifted and added.
pub fn all_reduce(builder: &mut Builder<'_>, method: Method, axis: AxisId, value: OpId, operator: Operator) -> OpId {
    let n = builder.mesh().size(axis);
    if n == 1 {
        return value;
    }
    let dim = builder.extents(value).iter().position(|extent| extent.is_multiple_of(n));
    match dim {
        Some(dim) if method != Method::FuriosaRotation => {
            let part = reduce_scatter(builder, method, axis, value, dim, operator);
            all_gather(builder, method, axis, part, dim)
        }
        Some(_) | None => rotations::all_reduce(&mut builder.by(Method::FuriosaRotation.name()), axis, value, operator),
    }
}
