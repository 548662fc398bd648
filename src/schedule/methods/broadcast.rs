//! Broadcasts from one device of a group: pipelined trees.
//!
//! In step t a device at depth d of a tree receives chunk t - d from its parent, and forwards it in the next step. With
//! several trees each carries a part of the value; trees without shared links run concurrently.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::nodes;
use super::place::Place;
use super::rooted::rooted;
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
        Wiring::Switch | Wiring::Full | Wiring::Fabric if n == 2 => vec![Method::Line],
        Wiring::Switch | Wiring::Full | Wiring::Fabric => {
            [vec![Method::Line, Method::Tree], few(&[Method::ScatterGather, Method::Direct])].concat()
        }
    }
}

/// Whether the method can pipeline chunks.
pub fn broadcasts_in_chunks(method: Method) -> bool {
    !matches!(method, Method::ScatterGather | Method::Direct)
}

/// Broadcasts the value of the device with rank `root` along a run of this wiring, in up to `chunks` chunks; the extents
/// stay.
///
/// On the other devices the operand is absent.
pub fn broadcast(
    builder: &mut Builder<'_>,
    method: Method,
    (axes, wiring): (Axes, Wiring),
    root: u64,
    value: OpId,
    chunks: u64,
) -> OpId {
    let n = axes.group_size(builder.mesh());
    if n == 1 {
        return value;
    }
    let by = &mut builder.by(method.name());
    let size = usize::try_from(n).expect("axes are shorter");
    let dim = by.extents(value).iter().position(|extent| extent.is_multiple_of(n));
    match (method, dim) {
        (Method::ScatterGather, Some(dim)) => {
            let shard = scatter(by, Place::new(axes, dim), wiring == Wiring::Ring, root, value);
            let gather = gathers(wiring, n)[0];
            all_gather(builder, gather, axes, shard, dim)
        }
        _ => {
            let trees = rooted(along(method, size), &[(size, wiring)], root);
            spread(by, axes, &equal(trees), 1, value, chunks)
        }
    }
}

/// Broadcasts along several runs of these wirings at once, by trees without shared links.
///
/// - `root`: the rank of the device that has the value along all runs, the first of them major.
pub fn broadcast_over(builder: &mut Builder<'_>, runs: &[(Axes, Wiring)], root: u64, value: OpId, chunks: u64) -> OpId {
    let size = |run: Axes| usize::try_from(run.group_size(builder.mesh())).expect("axes are shorter");
    let lengths: Vec<_> = runs.iter().map(|(run, wiring)| (size(*run), *wiring)).filter(|side| side.0 > 1).collect();
    let axes = runs.iter().flat_map(|(run, _)| run.iter()).collect();
    let trees = equal(rooted(spanning::trees(&sides(&lengths)), &lengths, root));
    spread(&mut builder.by(Method::Multiport.name()), axes, &trees, 1, value, chunks)
}

/// Broadcasts where `inner` is a switch in each node: every device of a node sends a part to the other nodes, which keeps
/// all ports between nodes busy, and forwards it within its node.
///
/// `outer` are the runs between the nodes; `root` is the rank along these and `inner`, the first of them major.
pub fn broadcast_over_nodes(
    builder: &mut Builder<'_>,
    outer: &[(Axes, Wiring)],
    inner: Axes,
    root: u64,
    value: OpId,
    chunks: u64,
) -> OpId {
    let size = |run: Axes| usize::try_from(run.group_size(builder.mesh())).expect("axes are shorter");
    let mut lengths: Vec<_> = outer.iter().map(|(run, wiring)| (size(*run), *wiring)).collect();
    let node = size(inner);
    let (trees, weights): (Vec<_>, Vec<_>) = nodes::trees(&spanning::trees(&sides(&lengths)), node).into_iter().unzip();
    lengths.push((node, Wiring::Switch));
    let trees: Vec<_> = rooted(trees, &lengths, root).into_iter().zip(weights).collect();
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

/// The sides of a mesh with these lengths and wirings.
fn sides(lengths: &[(usize, Wiring)]) -> Vec<Side> {
    lengths.iter().map(|(size, wiring)| Side { size: *size, ring: *wiring == Wiring::Ring }).collect()
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

/// The device with rank `root` of each group sends each device its block of the value, the farthest first: `[.., n·e, ..]
/// -> [.., e, ..]`. `wraps` marks a ring.
pub(super) fn scatter(builder: &mut Builder<'_>, place: Place, wraps: bool, root: u64, value: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let list: Vec<AxisId> = place.axes.iter().collect();
    let at_root = |block: u64| CoordMap::Table {
        axes: list.clone(),
        entries: (0..n).map(|rank| (rank == root).then_some(block)).collect(),
    };
    let far = |block: u64| {
        let hops = block.abs_diff(root);
        if wraps { hops.min(n - hops) } else { hops }
    };
    let sender = u32::try_from(root).expect("axes are shorter");
    let mut blocks: Vec<OpId> = Vec::new();
    for block in (0..n).sorted_by_key(|block| std::cmp::Reverse(far(*block))) {
        let own = place.slot(builder, value, at_root(block), None);
        let entries = (0..n).map(|rank| (rank == block).then_some(sender)).collect();
        let sources = Sources::Table { axes: list.clone(), entries };
        blocks.push(if block == root { own } else { builder.shuffle(own, sources, Route::Shortest) });
    }
    merged(builder, &blocks)
}
