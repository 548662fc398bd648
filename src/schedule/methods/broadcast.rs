//! The first device of a group gives what it has to all others: down trees, in chunks that follow each other.
//!
//! In step t a device at depth d of a tree gets chunk t - d from its parent, and sends it on in the next step. Several
//! trees each carry a part of the value; trees that share no link do so all at once.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::place::{Part, range_region};
use super::spanning::{self, Parents, Side};
use super::{Method, all_gather, gathers};
use crate::mesh::{Axes, AxisId, Wiring};
use itertools::Itertools;

/// On longer runs the first device would send too many messages of its own.
const MOST_DIRECT: u64 = 64;

/// The methods for a broadcast along a run of this wiring and length, the usual one first.
pub(super) fn candidates(wiring: Wiring, n: u64) -> Vec<Method> {
    let direct = n <= MOST_DIRECT && n > 2;
    let few = |methods: &[Method]| if direct { methods.to_vec() } else { Vec::new() };
    match wiring {
        Wiring::Ring => {
            [vec![Method::BidirectionalRingPair, Method::MeetInMiddleRing], few(&[Method::ScatterGather])].concat()
        }
        Wiring::Line => [vec![Method::Line], few(&[Method::ScatterGather])].concat(),
        Wiring::Switch if n == 2 => vec![Method::Line],
        Wiring::Switch => [vec![Method::Line, Method::Tree], few(&[Method::ScatterGather, Method::Direct])].concat(),
    }
}

/// Whether a broadcast by it may be cut in chunks that follow each other.
pub fn broadcasts_in_chunks(method: Method) -> bool {
    !matches!(method, Method::ScatterGather | Method::Direct)
}

/// What the first device along `axes` has, on all of them, in up to `chunks` chunks; the extents stay.
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
            let shard = scatter(by, axes, value, dim);
            let gather = gathers(wiring, n)[0];
            all_gather(builder, gather, axes, shard, dim)
        }
        _ => spread(by, axes, &along(method, size), value, chunks),
    }
}

/// The same along several runs at once, by trees that share no link: `closes` says which of the runs are rings.
pub fn broadcast_over(builder: &mut Builder<'_>, runs: &[(Axes, bool)], value: OpId, chunks: u64) -> OpId {
    let side = |(run, ring): &(Axes, bool)| {
        let size = usize::try_from(run.group_size(builder.mesh())).expect("axes are shorter");
        Side { size, ring: *ring }
    };
    let sides: Vec<Side> = runs.iter().map(side).filter(|side| side.size > 1).collect();
    let axes = runs.iter().flat_map(|(run, _)| run.iter()).collect();
    let trees = spanning::trees(&sides);
    spread(&mut builder.by(Method::Multiport.name()), axes, &trees, value, chunks)
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
        | Method::DirectHalves
        | Method::ScatterGather
        | Method::Multiport
        | Method::TreePacking => vec![tree(&before)],
    }
}

/// The first device sends to each other one its block of the value.
fn scatter(builder: &mut Builder<'_>, axes: Axes, value: OpId, dim: usize) -> OpId {
    let n = axes.group_size(builder.mesh());
    let list: Vec<AxisId> = axes.iter().collect();
    let at_root = |block: u64| CoordMap::Table {
        axes: list.clone(),
        entries: (0..n).map(|rank| (rank == 0).then_some(block)).collect(),
    };
    let blocks: Vec<OpId> = (0..n)
        .map(|block| {
            let own = builder.slice_block(value, dim, n, at_root(block));
            let entries = (0..n).map(|rank| (rank == block).then_some(0)).collect();
            let sources = Sources::Table { axes: list.clone(), entries };
            if block == 0 { own } else { builder.shuffle(own, sources, Route::Shortest) }
        })
        .collect();
    merged(builder, &blocks)
}

/// Blocks of which each device has at most one.
fn merged(builder: &mut Builder<'_>, blocks: &[OpId]) -> OpId {
    if let [only] = blocks {
        return *only;
    }
    let extents = builder.extents(blocks[0]).to_vec();
    let place = vec![Cut::Whole; extents.len()];
    builder.assemble(extents.clone(), extents, blocks.iter().map(|block| (*block, place.clone())).collect())
}

/// Down trees, each with a part of the value.
fn spread(builder: &mut Builder<'_>, axes: Axes, trees: &[Parents], value: OpId, chunks: u64) -> OpId {
    let extents = builder.extents(value).to_vec();
    let cut = Cuts::new(&extents, trees.len() as u64, chunks);
    let mut waves: Vec<Wave> = Vec::new();
    for (tree, part) in trees.iter().zip(&cut.parts) {
        let value = match part {
            Some(part) => builder.slice_range(value, part.dim, part.range.clone()),
            None => value,
        };
        waves.push(Wave::new(axes, tree, value, cut.dim, cut.chunks));
    }
    for step in 0..waves.iter().map(Wave::steps).max().unwrap_or(0) {
        waves.iter_mut().for_each(|wave| wave.step(builder, step));
    }
    let mut pieces = Vec::new();
    for (wave, part) in waves.into_iter().zip(&cut.parts) {
        let whole = wave.finish(builder);
        match part {
            Some(part) => pieces.push((whole, range_region(extents.len(), part))),
            None => return whole,
        }
    }
    builder.assemble(extents.clone(), extents, pieces)
}

/// How a value is cut: in parts for the trees, and each of these in chunks along a dim.
struct Cuts {
    parts: Vec<Option<Part>>,
    dim: usize,
    chunks: u64,
}

impl Cuts {
    /// Parts as equal as chunks allow; one part where the value is too small, one chunk where no dim divides.
    fn new(extents: &[u64], trees: u64, chunks: u64) -> Cuts {
        let divides = |chunks: u64| {
            let dims = extents.iter().copied().enumerate();
            dims.filter(|(_, extent)| extent.is_multiple_of(chunks)).max_by_key(|(_, extent)| *extent)
        };
        let (dim, chunks) = divides(chunks).map_or((0, 1), |(dim, _)| (dim, chunks));
        // Along the chunks' own dim a part has whole chunks.
        let unit = |at: usize| if at == dim { chunks } else { 1 };
        let counts = extents.iter().enumerate().map(|(at, extent)| (at, extent / unit(at)));
        match counts.max_by_key(|(_, count)| *count).filter(|(_, count)| trees > 1 && *count >= trees) {
            Some((at, count)) => {
                let bound = |tree: u64| count * tree / trees * unit(at);
                let part = |tree: u64| Some(Part { dim: at, range: bound(tree)..bound(tree + 1) });
                Cuts { parts: (0..trees).map(part).collect(), dim, chunks }
            }
            None => Cuts { parts: vec![None], dim, chunks },
        }
    }
}

/// A value on its way down a tree.
struct Wave {
    axes: Vec<AxisId>,
    value: OpId,
    dim: usize,
    chunks: u64,
    /// How far each device is from the root.
    depths: Vec<u64>,
    /// By place among the children of a device: from whom each device receives.
    down: Vec<Sources>,
    /// What each device has of each step.
    here: Vec<OpId>,
    /// What is on its way to the next step.
    fallen: Vec<OpId>,
}

impl Wave {
    fn new(axes: Axes, parents: &[Option<usize>], value: OpId, dim: usize, chunks: u64) -> Wave {
        let axes: Vec<AxisId> = axes.iter().collect();
        let depth = |at: usize| (1..).zip(std::iter::successors(parents[at], |up| parents[*up])).last();
        let depths = (0..parents.len()).map(|at| depth(at).map_or(0, |(depth, _)| depth)).collect();
        let (here, fallen) = (Vec::new(), Vec::new());
        Wave { down: down(&axes, parents), axes, value, dim, chunks, depths, here, fallen }
    }

    fn steps(&self) -> u64 {
        self.chunks + self.depths.iter().max().unwrap_or(&0)
    }

    /// Gets what has come down, at the root the next chunk, and sends it on.
    fn step(&mut self, builder: &mut Builder<'_>, step: u64) {
        if step >= self.steps() {
            return;
        }
        let mut arrived = std::mem::take(&mut self.fallen);
        if step < self.chunks {
            let entries = self.depths.iter().map(|depth| (*depth == 0).then_some(step)).collect();
            let root = CoordMap::Table { axes: self.axes.clone(), entries };
            arrived.push(builder.slice_block(self.value, self.dim, self.chunks, root));
        }
        let here = merged(builder, &arrived);
        self.here.push(here);
        if step + 1 < self.steps() {
            let sent = self.down.iter().map(|sources| builder.shuffle(here, sources.clone(), Route::Shortest));
            self.fallen = sent.collect();
        }
    }

    /// All chunks, each in its place.
    fn finish(self, builder: &mut Builder<'_>) -> OpId {
        let extents = builder.extents(self.value).to_vec();
        let view = split(&extents, self.dim, self.chunks);
        let mut pieces = Vec::new();
        for (step, here) in (0..).zip(&self.here) {
            let chunk = |depth: &u64| u64::checked_sub(step, *depth).filter(|chunk| *chunk < self.chunks);
            let entries = self.depths.iter().map(chunk).collect();
            let mut region = vec![Cut::Whole; view.len()];
            region[self.dim] = Cut::At(CoordMap::Table { axes: self.axes.clone(), entries });
            pieces.push((*here, region));
        }
        builder.assemble(extents, view, pieces)
    }
}

/// From whom each device receives, by its place among the children of its parent: who has most below it first.
fn down(axes: &[AxisId], parents: &[Option<usize>]) -> Vec<Sources> {
    let mut below = vec![0usize; parents.len()];
    for at in 0..parents.len() {
        std::iter::successors(Some(at), |at| parents[*at]).for_each(|at| below[at] += 1);
    }
    let children = |parent: usize| {
        let children = (0..parents.len()).filter(move |at| parents[*at] == Some(parent));
        children.sorted_by_key(|at| usize::MAX - below[*at])
    };
    let mut places: Vec<Vec<Option<u32>>> = Vec::new();
    for parent in 0..parents.len() {
        for (place, child) in children(parent).enumerate() {
            if places.len() == place {
                places.push(vec![None; parents.len()]);
            }
            places[place][child] = Some(u32::try_from(parent).expect("axes are shorter"));
        }
    }
    places.into_iter().map(|entries| Sources::Table { axes: axes.to_vec(), entries }).collect()
}
