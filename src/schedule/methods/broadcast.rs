//! Broadcasts from the first device of a group: pipelined trees.
//!
//! In step t a device at depth d of a tree receives chunk t - d from its parent, and forwards it in the next step. With
//! several trees each carries a part of the value; trees without shared links run concurrently.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::nodes;
use super::place::Place;
use super::spanning::{self, Parents, Side};
use super::spread::{merged, spread};
use super::{Method, all_gather, gathers};
use crate::mesh::{Axes, AxisId, Wiring};
use itertools::Itertools;

/// Limit on the run length; on longer runs the first device would send too many messages itself.
const MOST_DIRECT: u64 = 64;

/// The broadcast methods for a run of this wiring and length, the default first.
pub(super) fn candidates(wiring: Wiring, n: u64) -> Vec<Method> {
    let direct = n <= MOST_DIRECT && n > 2;
    let few = |methods: &[Method]| if direct { methods.to_vec() } else { Vec::new() };
    match wiring {
        Wiring::Ring => {
            [vec![Method::BidirectionalRingPair, Method::MeetInMiddleRing], few(&[Method::ScatterGather])].concat()
        }
        Wiring::Line => [vec![Method::Line], few(&[Method::ScatterGather])].concat(),
        Wiring::Switch | Wiring::Full if n == 2 => vec![Method::Line],
        Wiring::Switch | Wiring::Full => {
            [vec![Method::Line, Method::Tree], few(&[Method::ScatterGather, Method::Direct])].concat()
        }
    }
}

/// Whether the method can pipeline chunks.
pub fn broadcasts_in_chunks(method: Method) -> bool {
    !matches!(method, Method::ScatterGather | Method::Direct)
}

/// Broadcasts the first device's value along `axes`, in up to `chunks` chunks; the extents stay.
///
/// On the other devices the operand is absent. `wiring` is that of the run.
pub fn broadcast(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    wiring: Wiring,
    value: OpId,
    chunks: u64,
) -> OpId {
    let axes = axes.into();
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    let by = &mut builder.by(method.name());
    let size = usize::try_from(n).expect("axes are shorter");
    let dim = by.extents(value).iter().position(|extent| extent.is_multiple_of(n));
    match (method, dim) {
        (Method::ScatterGather, Some(dim)) => {
            let shard = scatter(by, Place::new(axes, dim), wiring == Wiring::Ring, value);
            let gather = gathers(wiring, n)[0];
            all_gather(builder, gather, axes, shard, dim)
        }
        _ => spread(by, axes, &equal(along(method, size)), 1, value, chunks),
    }
}

/// Broadcasts along several runs at once, by trees without shared links: `closes` marks the runs that are rings.
pub fn broadcast_over(builder: &mut Builder<'_>, runs: &[(Axes, bool)], value: OpId, chunks: u64) -> OpId {
    let side = |(run, ring): &(Axes, bool)| {
        let size = usize::try_from(run.group_size(builder.mesh())).expect("axes are shorter");
        Side { size, ring: *ring }
    };
    let sides: Vec<Side> = runs.iter().map(side).filter(|side| side.size > 1).collect();
    let axes = runs.iter().flat_map(|(run, _)| run.iter()).collect();
    let trees = equal(spanning::trees(&sides));
    spread(&mut builder.by(Method::Multiport.name()), axes, &trees, 1, value, chunks)
}

/// Broadcasts where `inner` is a switch in each node: every device of a node sends a part to the other nodes, which keeps
/// all ports between nodes busy, and forwards it within its node.
///
/// `outer` are the runs between the nodes; `closes` marks those that are rings.
pub fn broadcast_over_nodes(
    builder: &mut Builder<'_>,
    outer: &[(Axes, bool)],
    inner: Axes,
    value: OpId,
    chunks: u64,
) -> OpId {
    let size = |run: Axes| usize::try_from(run.group_size(builder.mesh())).expect("axes are shorter");
    let sides: Vec<Side> = outer.iter().map(|(run, ring)| Side { size: size(*run), ring: *ring }).collect();
    let node = size(inner);
    let trees = nodes::trees(&spanning::trees(&sides), node);
    let axes = outer.iter().flat_map(|(run, _)| run.iter()).chain(inner.iter()).collect();
    spread(&mut builder.by(Method::Multiport.name()), axes, &trees, node, value, chunks)
}

/// Broadcasts down given trees with weights; devices are numbered by rank along the axes.
pub fn broadcast_packed(
    builder: &mut Builder<'_>,
    axes: Axes,
    trees: &[(Vec<Option<usize>>, u64)],
    value: OpId,
    chunks: u64,
) -> OpId {
    spread(&mut builder.by(Method::TreePacking.name()), axes, trees, 1, value, chunks)
}

/// Gives trees equal parts.
fn equal(trees: Vec<Parents>) -> Vec<(Parents, u64)> {
    trees.into_iter().map(|tree| (tree, 1)).collect()
}

/// The trees of a method along one run.
fn along(method: Method, n: usize) -> Vec<Parents> {
    let tree = |parent: &dyn Fn(usize) -> usize| -> Parents { (0..n).map(|at| (at > 0).then(|| parent(at))).collect() };
    let before = |at: usize| at - 1;
    let behind = |at: usize| (at + 1) % n;
    match method {
        // Around both ways, a half each.
        Method::BidirectionalRingPair => vec![tree(&before), tree(&behind)],
        Method::MeetInMiddleRing => vec![tree(&|at| if at <= n / 2 { before(at) } else { behind(at) })],
        Method::Tree => vec![tree(&|at| at & (at - 1))],
        Method::Direct => vec![tree(&|_| 0)],
        Method::Line
        | Method::ClockwiseRing
        | Method::AnticlockwiseRing
        | Method::BalancedMeetInMiddleRing
        | Method::OneHop
        | Method::Broadcast
        | Method::LineBroadcast
        | Method::RecursiveDoubling
        | Method::RecursiveHalving
        | Method::Bruck
        | Method::Swing
        | Method::DoubleBinaryTree
        | Method::Chain
        | Method::FuriosaRotation
        | Method::FuriosaDiagonal
        | Method::BalancedFuriosaRotation
        | Method::BalancedFuriosaDiagonal
        | Method::DirectHalves
        | Method::DirectParity
        | Method::LinkByLink
        | Method::Bundled
        | Method::LineBundled
        | Method::ScatterGather
        | Method::Multiport
        | Method::QuadDirectionalRing
        | Method::IdleAxis
        | Method::TreePacking
        | Method::Routed
        | Method::SwitchSum => vec![tree(&before)],
    }
}

/// The first device of each group sends each device its block of the value, the farthest first: `[.., n·e, ..] ->
/// [.., e, ..]`. `wraps` marks a ring.
pub(super) fn scatter(builder: &mut Builder<'_>, place: Place, wraps: bool, value: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let list: Vec<AxisId> = place.axes.iter().collect();
    let at_root = |block: u64| CoordMap::Table {
        axes: list.clone(),
        entries: (0..n).map(|rank| (rank == 0).then_some(block)).collect(),
    };
    let far = |block: u64| if wraps { block.min(n - block) } else { block };
    let mut blocks: Vec<OpId> = Vec::new();
    for block in (0..n).sorted_by_key(|block| std::cmp::Reverse(far(*block))) {
        let own = place.slot(builder, value, at_root(block), None);
        let entries = (0..n).map(|rank| (rank == block).then_some(0)).collect();
        let sources = Sources::Table { axes: list.clone(), entries };
        blocks.push(if block == 0 { own } else { builder.shuffle(own, sources, Route::Shortest) });
    }
    merged(builder, &blocks)
}
