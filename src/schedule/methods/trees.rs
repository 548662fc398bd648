//! Sums that flow up a tree and back down, chunk after chunk.
//!
//! In step t a device at height h (the root highest) adds up chunk t - h and sends it to its parent; as soon as the
//! root has a chunk, it flows back. So all chunks are on the way at once, and there are as many steps as chunks and
//! levels together. Each step is a few operations for the whole tree: the map of chunks says which devices take part.
//!
//! Source of the binary trees: Sanders, Speck and Träff, "Two-Tree Algorithms for Full Bandwidth Broadcast, Reduction
//! and Scan" (2009), as NCCL numbers them.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::Method;
use super::place::{Part, halves, range_region};
use crate::mesh::Axes;
use crate::operator::Operator;

/// A rooted tree over the devices of a run.
struct Tree {
    /// The parent of each device, none of the root.
    parents: Vec<Option<usize>>,
    /// The children of each device.
    children: Vec<Vec<usize>>,
    /// How far each device is from the root.
    depths: Vec<u64>,
}

/// The trees of a method that has some: one for the array, or one for each half.
fn trees(method: Method, n: usize) -> Vec<Tree> {
    let binary = || Tree::new((0..n).map(|at| binary_parent(at, n)).collect());
    match method {
        Method::Tree => vec![binary()],
        Method::DoubleBinaryTree if n.is_multiple_of(2) => vec![binary(), binary().renamed(|at| n - 1 - at)],
        Method::DoubleBinaryTree => vec![binary(), binary().renamed(|at| (at + 1) % n)],
        Method::Chain => {
            let middle = n / 2;
            let parent = |at: usize| (at != middle).then_some(if at < middle { at + 1 } else { at.wrapping_sub(1) });
            vec![Tree::new((0..n).map(parent).collect())]
        }
        Method::ClockwiseRing
        | Method::AnticlockwiseRing
        | Method::BidirectionalRingPair
        | Method::MeetInMiddleRing
        | Method::BalancedMeetInMiddleRing
        | Method::Line
        | Method::OneHop
        | Method::Broadcast
        | Method::RecursiveDoubling
        | Method::RecursiveHalving
        | Method::Bruck
        | Method::Swing
        | Method::FuriosaRotation
        | Method::FuriosaDiagonal
        | Method::Direct
        | Method::DirectHalves
        | Method::ScatterGather
        | Method::Multiport => Vec::new(),
    }
}

/// Odd devices are leaves; a device 2^k·odd is the parent of those 2^(k-1) away.
fn binary_parent(at: usize, n: usize) -> Option<usize> {
    if at == 0 {
        return None;
    }
    let bit = at & at.wrapping_neg();
    let up = (at ^ bit) | (bit << 1);
    Some(if up < n { up } else { at ^ bit })
}

impl Tree {
    fn new(parents: Vec<Option<usize>>) -> Tree {
        let n = parents.len();
        let mut children = vec![Vec::new(); n];
        for (at, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(at);
            }
        }
        let depth = |at: usize| (1..).zip(std::iter::successors(parents[at], |up| parents[*up])).last();
        let depths = (0..n).map(|at| depth(at).map_or(0, |(depth, _)| depth)).collect();
        Tree { parents, children, depths }
    }

    fn renamed(&self, name: impl Fn(usize) -> usize) -> Tree {
        let mut parents = vec![None; self.parents.len()];
        for (at, parent) in self.parents.iter().enumerate() {
            parents[name(at)] = parent.map(&name);
        }
        Tree::new(parents)
    }

    fn height(&self) -> u64 {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// How many children a device can have.
    fn width(&self) -> usize {
        self.children.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Each device receives from its child of that place.
    fn up(&self, axes: Axes, place: usize) -> Sources {
        let entries = self.children.iter().map(|children| children.get(place).map(|child| number(*child)));
        Sources::Table { axes: axes.iter().collect(), entries: entries.collect() }
    }

    /// The children of that place receive from their parents.
    fn down(&self, axes: Axes, place: usize) -> Sources {
        let entry = |(at, parent): (usize, &Option<usize>)| {
            parent.filter(|parent| self.children[*parent].get(place) == Some(&at)).map(number)
        };
        Sources::Table { axes: axes.iter().collect(), entries: self.parents.iter().enumerate().map(entry).collect() }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("axes are shorter")
}

/// A sum by trees, each for a part of the value, in up to `chunks` chunks: as many as divide some dim.
///
/// `None` for a method without trees.
pub(super) fn all_reduce(
    builder: &mut Builder<'_>,
    method: Method,
    axes: Axes,
    value: OpId,
    operator: Operator,
    chunks: u64,
) -> Option<OpId> {
    let n = usize::try_from(axes.group_size(builder.mesh())).ok()?;
    let trees = trees(method, n);
    let extents = builder.extents(value).to_vec();
    let parts: Vec<Option<Part>> = match (trees.len(), halves(&extents)) {
        (0, _) => return None,
        (2, Some(parts)) => parts.map(Some).to_vec(),
        _ => vec![None],
    };
    let mut waves = Vec::new();
    for (tree, part) in trees.iter().zip(&parts) {
        let value = match part {
            Some(part) => builder.slice_range(value, part.dim, part.range.clone()),
            None => value,
        };
        waves.push(Wave::new(builder, tree, axes, value, operator, chunks));
    }
    for step in 0..waves.iter().map(Wave::steps).max().unwrap_or(0) {
        for wave in waves.iter_mut().filter(|wave| step < wave.steps()) {
            wave.reduce(builder, step);
            wave.broadcast(builder, step);
        }
    }
    let mut pieces = Vec::new();
    for (wave, part) in waves.into_iter().zip(&parts) {
        let whole = wave.finish(builder);
        match part {
            Some(part) => pieces.push((whole, range_region(extents.len(), part))),
            None => return Some(whole),
        }
    }
    Some(builder.assemble(extents.clone(), extents, pieces))
}

/// The chunks of one tree on their way.
struct Wave<'a> {
    tree: &'a Tree,
    axes: Axes,
    value: OpId,
    operator: Operator,
    dim: usize,
    chunks: u64,
    /// What came from the children in the step before.
    risen: Vec<OpId>,
    /// The chunk that the root has completed in this step.
    complete: Option<OpId>,
    /// What came from the parents in the step before.
    fallen: Vec<OpId>,
    /// Pieces of the result, with the step in which they are there.
    pieces: Vec<(OpId, u64)>,
}

impl<'a> Wave<'a> {
    fn new(
        builder: &Builder<'_>,
        tree: &'a Tree,
        axes: Axes,
        value: OpId,
        operator: Operator,
        chunks: u64,
    ) -> Wave<'a> {
        let dim = builder.extents(value).iter().position(|extent| extent.is_multiple_of(chunks));
        let (dim, chunks) = dim.map_or((0, 1), |dim| (dim, chunks));
        let (risen, fallen, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Wave { tree, axes, value, operator, dim, chunks, risen, complete: None, fallen, pieces }
    }

    fn steps(&self) -> u64 {
        self.chunks + 2 * self.tree.height()
    }

    /// The chunk that each device has to do with in a step, if its turn comes `delay` steps after the start.
    fn chunk(&self, step: u64, delay: impl Fn(u64) -> u64) -> CoordMap {
        let entry = |depth: &u64| step.checked_sub(delay(*depth)).filter(|chunk| *chunk < self.chunks);
        CoordMap::Table { axes: self.axes.iter().collect(), entries: self.tree.depths.iter().map(entry).collect() }
    }

    /// Adds what came up to the own chunk, and sends it on.
    fn reduce(&mut self, builder: &mut Builder<'_>, step: u64) {
        let height = self.tree.height();
        self.complete = None;
        if step >= self.chunks + height {
            return;
        }
        let own = self.chunk(step, |depth| height - depth);
        let own = builder.slice_block(self.value, self.dim, self.chunks, own);
        let sum = builder.add(&[&[own], &self.risen[..]].concat(), self.operator);
        self.risen.clear();
        if step < self.chunks + height - 1 {
            for place in 0..self.tree.width() {
                self.risen.push(builder.shuffle(sum, self.tree.up(self.axes, place), Route::Shortest));
            }
        }
        if step >= height {
            let root = self.tree.depths.iter().map(|depth| (*depth == 0).then_some(0)).collect();
            let root = CoordMap::Table { axes: self.axes.iter().collect(), entries: root };
            self.complete = Some(builder.slice_block(sum, self.dim, 1, root));
        }
    }

    /// Keeps what came down, or what the root has completed, and sends it on.
    fn broadcast(&mut self, builder: &mut Builder<'_>, step: u64) {
        let fallen = std::mem::take(&mut self.fallen);
        let here: Vec<OpId> = self.complete.into_iter().chain(fallen).collect();
        if here.is_empty() {
            return;
        }
        // No device has more than one of them, so nothing is added.
        let here = builder.add(&here, self.operator);
        self.pieces.push((here, step));
        if step + 1 < self.steps() {
            for place in 0..self.tree.width() {
                self.fallen.push(builder.shuffle(here, self.tree.down(self.axes, place), Route::Shortest));
            }
        }
    }

    /// All chunks, each in its place.
    fn finish(self, builder: &mut Builder<'_>) -> OpId {
        let extents = builder.extents(self.value).to_vec();
        let view = split(&extents, self.dim, self.chunks);
        let height = self.tree.height();
        let mut pieces = Vec::new();
        for (value, step) in &self.pieces {
            let mut region = vec![Cut::Whole; view.len()];
            region[self.dim] = Cut::At(self.chunk(*step, |depth| height + depth));
            pieces.push((*value, region));
        }
        builder.assemble(extents, view, pieces)
    }
}
