//! Methods: lowering of collectives to slices, shuffles and sums.
//!
//! Each function works in the replica groups of one run: an axis, or adjacent parts of one. A collective over several
//! runs goes stage by stage, for a gather the minor run first. A run of length 1 is free: the result is the value itself.

mod broadcast;
mod bruck;
mod bundles;
mod doubling;
mod exchange;
mod hamiltonian;
mod idle;
mod multiport;
mod nodes;
mod ordered;
mod packed;
mod pipelined;
mod place;
mod quad;
mod ring;
mod rooted;
mod rotations;
mod routed;
mod shift;
mod spanning;
mod spread;
mod translated;
mod trees;

pub use broadcast::{broadcast, broadcast_over, broadcast_over_nodes, broadcast_packed, broadcasts_in_chunks};
pub use exchange::{Destination, all_to_all, all_to_all_at_once, all_to_all_over, permute};
pub use idle::Borrowed;
pub use multiport::{AxisOrder, Multiport, Stage};
pub use packed::Packed;
pub use quad::Quad;
pub(crate) use routed::longest;
pub use routed::{Pieces, Routed, Slot, Slots};
pub use shift::Shifted;
pub use translated::Translated;

use super::{Builder, OpId};
use crate::collective::CollectiveKind;
use crate::mesh::{Axes, Wiring};
use crate::method::Family;
pub use crate::method::Method;
use crate::operator::Operator;
use place::Place;

/// The methods for a collective along a run of this wiring and length, the default first.
///
/// A run of length 2 is one cable, so a line even in a ring or a full mesh; length 1 needs no method.
pub fn candidates(kind: CollectiveKind, wiring: Wiring, n: u64) -> Vec<Method> {
    let wiring = if n == 2 && matches!(wiring, Wiring::Ring | Wiring::Full) { Wiring::Line } else { wiring };
    if n < 2 {
        return Vec::new();
    }
    match kind {
        CollectiveKind::AllGather => {
            // Over a switch and in a full mesh that is the one hop.
            let direct = if n > 2 && !wiring.is_one_hop() { vec![Method::Broadcast] } else { Vec::new() };
            [gathers(wiring, n), doublings(wiring, n), direct].concat()
        }
        CollectiveKind::ReduceScatter => {
            let furiosa = vec![Method::FuriosaDiagonal];
            let balanced = balanced(wiring, n, &[Method::BalancedFuriosaDiagonal]);
            [gathers(wiring, n), doublings(wiring, n), furiosa, balanced, wholes(wiring, n)].concat()
        }
        CollectiveKind::AllReduce => {
            let furiosa = vec![Method::FuriosaDiagonal, Method::FuriosaRotation];
            let balanced = balanced(wiring, n, &[Method::BalancedFuriosaDiagonal, Method::BalancedFuriosaRotation]);
            [gathers(wiring, n), doublings(wiring, n), trees(wiring, n), furiosa, balanced].concat()
        }
        CollectiveKind::AllToAll => match wiring {
            Wiring::Ring => exchange::on_ring(n),
            Wiring::Line if n > 2 => vec![Method::Line, Method::LineBundled, Method::Direct],
            // With three as many rounds as messages.
            Wiring::Switch | Wiring::Full | Wiring::Fabric if n > 3 && n <= bruck::LONGEST => {
                vec![Method::Direct, Method::Bruck]
            }
            Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => vec![Method::Direct],
        },
        CollectiveKind::Permute | CollectiveKind::Shift => vec![Method::Direct],
        CollectiveKind::Reshard => vec![Method::Routed],
        CollectiveKind::Broadcast => broadcast::candidates(wiring, n),
        CollectiveKind::Slice | CollectiveKind::Open => Vec::new(),
    }
}

/// Whether a collective supports a method outside its [`candidates`]: a ring over a switch or in a full mesh, whose messages
/// are not faster than others, as libraries use it.
pub fn takes(method: Method, kind: CollectiveKind, wiring: Wiring, n: u64) -> bool {
    let gathers = [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce];
    method == Method::ClockwiseRing && wiring.is_one_hop() && gathers.contains(&kind) && n >= 2
}

/// The methods for gathers, and for reductions along the same paths.
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
        Wiring::Switch | Wiring::Full => vec![Method::OneHop],
        // Around a ring few messages share the links between switches at once.
        Wiring::Fabric if n > 2 => vec![Method::OneHop, Method::ClockwiseRing],
        Wiring::Fabric => vec![Method::OneHop],
    }
}

/// The methods of about log2 n rounds. With two devices there is only one round.
fn doublings(wiring: Wiring, n: u64) -> Vec<Method> {
    let mut methods = Vec::new();
    if n > 2 && n <= doubling::LONGEST {
        methods.push(Method::Bruck);
        if n.is_power_of_two() {
            methods.extend([Method::RecursiveDoubling, Method::RecursiveHalving]);
        }
        if n.is_power_of_two() && wiring == Wiring::Ring {
            methods.push(Method::Swing);
        }
    }
    methods
}

/// The methods that send whole values from all to all. Over a switch that is the rotation.
fn wholes(wiring: Wiring, n: u64) -> Vec<Method> {
    match wiring {
        Wiring::Ring if n > 2 => vec![Method::Broadcast],
        Wiring::Line if n > 2 => vec![Method::LineBroadcast],
        Wiring::Ring | Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => Vec::new(),
    }
}

/// The methods that combine whole values along the way.
fn trees(wiring: Wiring, n: u64) -> Vec<Method> {
    let trees = match wiring {
        _ if n == 2 => Vec::new(),
        Wiring::Line => vec![Method::Chain, Method::Tree, Method::DoubleBinaryTree],
        Wiring::Ring | Wiring::Switch | Wiring::Full | Wiring::Fabric => vec![Method::Tree, Method::DoubleBinaryTree],
    };
    [trees, wholes(wiring, n)].concat()
}

/// These methods on an even ring; elsewhere there is no antipode, or it is a neighbour.
fn balanced(wiring: Wiring, n: u64, methods: &[Method]) -> Vec<Method> {
    if wiring == Wiring::Ring && n > 2 && n.is_multiple_of(2) { methods.to_vec() } else { Vec::new() }
}

/// Gathers the shards of a group along `dim` in rank order: `[.., e, ..] -> [.., n·e, ..]`.
pub fn all_gather(builder: &mut Builder<'_>, method: Method, axes: impl Into<Axes>, shard: OpId, dim: usize) -> OpId {
    gather_stage(&mut builder.by(method.name()), method, Place::new(axes.into(), dim), shard)
}

/// Reduces and scatters: the device of rank c in a group gets block c along `dim`: `[.., e, ..] -> [.., e/n, ..]`.
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
    scatter_stage(&mut builder.by(method.name()), method, Place::new(axes.into(), dim), value, operator)
}

/// Gathers into the slots of one run.
fn gather_stage(builder: &mut Builder<'_>, method: Method, place: Place, shard: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    if n == 1 {
        return shard;
    }
    match (ring::flow(method, n), doubling::rounds(method, n)) {
        (Some(flow), _) => ring::all_gather(builder, flow, place, shard),
        (None, Some(rounds)) => doubling::all_gather(builder, &rounds, place, shard),
        (None, None) => rotations::all_gather(builder, method, place, shard),
    }
}

/// Reduces to the own slot of one run.
fn scatter_stage(builder: &mut Builder<'_>, method: Method, place: Place, value: OpId, operator: Operator) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    if method.family() == Family::Whole {
        return ring::reduce_scatter_whole(builder, method, place, value, operator);
    }
    match (ring::flow(method, n), doubling::rounds(method, n)) {
        (Some(flow), _) => ring::reduce_scatter(builder, flow, place, value, operator),
        (None, Some(rounds)) => doubling::reduce_scatter(builder, &rounds, place, value, operator),
        (None, None) => rotations::reduce_scatter(builder, method, place, value, operator),
    }
}

/// All-reduces: every device of a group gets the combination of their values; the extents stay.
///
/// A scatter and a gather by the same method along the first dim that divides by the length of the run, except for
/// methods that combine whole values. Where no dim divides, whole values are shifted and added.
pub fn all_reduce(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    value: OpId,
    operator: Operator,
) -> OpId {
    all_reduce_in_chunks(builder, method, axes, value, operator, 1)
}

/// All-reduces; a method that [works in chunks](Method::in_chunks) uses this many, if some dim divides.
pub fn all_reduce_in_chunks(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    value: OpId,
    operator: Operator,
    chunks: u64,
) -> OpId {
    let axes = axes.into();
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    let by = &mut builder.by(method.name());
    if method == Method::SwitchSum {
        return by.switch_sum(axes.iter().collect(), value, operator);
    }
    if let Some(sum) = trees::all_reduce(by, method, axes, value, operator, chunks) {
        return sum;
    }
    let dim = by.extents(value).iter().position(|extent| extent.is_multiple_of(n));
    let rotation = match method {
        Method::BalancedFuriosaRotation | Method::BalancedFuriosaDiagonal => Method::BalancedFuriosaRotation,
        _ => Method::FuriosaRotation,
    };
    match (method, dim) {
        (Method::Broadcast | Method::LineBroadcast, _) => ring::all_reduce(by, method, axes, value, operator),
        (Method::RecursiveDoubling, _) if n.is_power_of_two() => doubling::all_reduce(by, axes, value, operator),
        (_, Some(dim)) if method != rotation => {
            let part = reduce_scatter(builder, method, axes, value, dim, operator);
            all_gather(builder, method, axes, part, dim)
        }
        // To keep their order takes n places for each of n terms.
        _ if by.keeps_order(value) && n > ordered::MOST_TERMS && method != rotation => {
            let tree = trees::all_reduce(&mut builder.by(Method::Tree.name()), Method::Tree, axes, value, operator, 1);
            tree.unwrap_or_else(|| {
                rotations::all_reduce(&mut builder.by(rotation.name()), rotation, axes, value, operator)
            })
        }
        _ => rotations::all_reduce(&mut builder.by(rotation.name()), rotation, axes, value, operator),
    }
}
