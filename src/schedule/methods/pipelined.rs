//! Pipelined trees.
//!
//! Upwards, in step t a device at height h adds chunk t - h and sends it to its parent; the root completes one chunk per
//! step. Downwards, a device at depth d has chunk t - d and sends it to its children. All chunks are in flight
//! concurrently, and the number of steps is the number of chunks plus levels. Each step is a few operations for the whole
//! tree: the map of chunks decides which devices take part.

use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use crate::mesh::AxisId;
use crate::operator::Operator;

/// A rooted tree over the devices of a group, or several trees whose roots hold the same value.
pub(super) struct Tree {
    /// The parent of each device, `None` at a root.
    parents: Vec<Option<usize>>,
    /// The children of each device.
    children: Vec<Vec<usize>>,
    /// The distance of each device from the root.
    depths: Vec<u64>,
}

impl Tree {
    pub(super) fn new(parents: Vec<Option<usize>>) -> Tree {
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

    pub(super) fn renamed(&self, name: impl Fn(usize) -> usize) -> Tree {
        let mut parents = vec![None; self.parents.len()];
        for (at, parent) in self.parents.iter().enumerate() {
            parents[name(at)] = parent.map(&name);
        }
        Tree::new(parents)
    }

    fn height(&self) -> u64 {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// The maximum number of children.
    fn width(&self) -> usize {
        self.children.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Each device receives from its n-th child.
    fn up(&self, axes: &[AxisId], place: usize) -> Sources {
        let entries = self.children.iter().map(|children| children.get(place).map(|child| number(*child)));
        Sources::Table { axes: axes.to_vec(), entries: entries.collect() }
    }

    /// The n-th children receive from their parents.
    fn down(&self, axes: &[AxisId], place: usize) -> Sources {
        let entry = |(at, parent): (usize, &Option<usize>)| {
            parent.filter(|parent| self.children[*parent].get(place) == Some(&at)).map(number)
        };
        Sources::Table { axes: axes.to_vec(), entries: self.parents.iter().enumerate().map(entry).collect() }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("axes are shorter")
}

/// The part of a block that travels along a tree: one dim of a view counts its chunks.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The block's extents, refined.
    pub(super) view: Vec<u64>,
    /// The region of the part; the chunk dim's range is ignored.
    pub(super) region: Region,
    /// The dim of the view that counts chunks.
    pub(super) chunk: usize,
}

impl Window {
    /// Number of chunks.
    fn chunks(&self) -> u64 {
        self.view[self.chunk]
    }

    /// The region of one chunk per device.
    fn region(&self, chunk: CoordMap) -> Region {
        let mut region = self.region.clone();
        region[self.chunk] = Cut::At(chunk);
        region
    }
}

/// The direction of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Down: from the root to all.
    Fall,
    /// Up: from all to the root, combined.
    Rise(Operator),
    /// Up to the root, combined, and back down.
    RiseAndFall(Operator),
}

/// The state of one tree.
pub(super) struct PipelinedTree<'a> {
    tree: &'a Tree,
    axes: &'a [AxisId],
    course: Course,
    value: OpId,
    /// The chunks in the value.
    from: Window,
    /// The chunks in the result.
    to: Window,
    /// Data received from the children in the previous step.
    risen: Vec<OpId>,
    /// Data received from the parents in the previous step.
    fallen: Vec<OpId>,
    /// Pieces of the result.
    pieces: Vec<(OpId, Region)>,
}

impl<'a> PipelinedTree<'a> {
    /// A pipelined tree over the groups of the axes; the tree numbers their ranks.
    pub(super) fn new(
        (tree, axes): (&'a Tree, &'a [AxisId]),
        course: Course,
        value: OpId,
        from: Window,
        to: Window,
    ) -> PipelinedTree<'a> {
        let (risen, fallen, pieces) = (Vec::new(), Vec::new(), Vec::new());
        PipelinedTree { tree, axes, course, value, from, to, risen, fallen, pieces }
    }

    fn steps(&self) -> u64 {
        let ways = match self.course {
            Course::Fall | Course::Rise(_) => 1,
            Course::RiseAndFall(_) => 2,
        };
        self.from.chunks() + ways * self.tree.height()
    }

    /// The chunk each device handles in a step, if it starts `delay` steps after the beginning.
    fn chunk(&self, step: u64, delay: impl Fn(u64) -> Option<u64>) -> CoordMap {
        let chunks = self.from.chunks();
        let entry = |depth: &u64| step.checked_sub(delay(*depth)?).filter(|chunk| *chunk < chunks);
        CoordMap::Table { axes: self.axes.to_vec(), entries: self.tree.depths.iter().map(entry).collect() }
    }

    /// Whether any device at such a depth has a chunk in a step.
    fn is_busy(&self, step: u64, delay: impl Fn(u64) -> Option<u64>, depths: impl Iterator<Item = u64>) -> bool {
        let busy = |depth| Some(step.checked_sub(delay(depth)?)? < self.from.chunks());
        depths.into_iter().any(|depth| busy(depth) == Some(true))
    }

    fn advance(&mut self, builder: &mut Builder<'_>, step: u64) {
        let height = self.tree.height();
        let root = |delay| move |depth| (depth == 0).then_some(delay);
        let (complete, delay) = match self.course {
            Course::Fall => {
                let begun = self.is_busy(step, root(0), std::iter::once(0));
                let region = self.from.region(self.chunk(step, root(0)));
                (begun.then(|| builder.slice(self.value, self.from.view.clone(), region)), 0)
            }
            Course::Rise(operator) => {
                if let Some(sum) = self.rise(builder, step, operator) {
                    self.pieces.push((sum, self.to.region(self.chunk(step, root(height)))));
                }
                return;
            }
            Course::RiseAndFall(operator) => {
                let sum = self.rise(builder, step, operator);
                // The others have a part of the sum, which does not fall.
                let kept = CoordMap::Table {
                    axes: self.axes.to_vec(),
                    entries: self.tree.depths.iter().map(|depth| (*depth == 0).then_some(0)).collect(),
                };
                (sum.map(|sum| builder.slice_block(sum, 0, 1, kept)), height)
            }
        };
        self.fall(builder, step, complete, delay);
    }

    /// Adds received data to the device's own chunk, and sends it on; returns the sum once complete at the root.
    fn rise(&mut self, builder: &mut Builder<'_>, step: u64, operator: Operator) -> Option<OpId> {
        let height = self.tree.height();
        let risen = std::mem::take(&mut self.risen);
        if step >= self.from.chunks() + height {
            return None;
        }
        let delay = |depth| Some(height - depth);
        let region = self.from.region(self.chunk(step, delay));
        let own = builder.slice(self.value, self.from.view.clone(), region);
        let sum = builder.add(&[&[own], &risen[..]].concat(), operator);
        for place in 0..self.tree.width() {
            let children = self.tree.children.iter().filter_map(|children| children.get(place));
            if self.is_busy(step, delay, children.map(|child| self.tree.depths[*child])) {
                self.risen.push(builder.shuffle(sum, self.tree.up(self.axes, place), Route::Shortest));
            }
        }
        (step >= height).then_some(sum)
    }

    /// Keeps received data, or the root's, and sends it on.
    fn fall(&mut self, builder: &mut Builder<'_>, step: u64, complete: Option<OpId>, delay: u64) {
        let fallen = std::mem::take(&mut self.fallen);
        let here: Vec<OpId> = complete.into_iter().chain(fallen).collect();
        if here.is_empty() {
            return;
        }
        let here = builder.either(here);
        let delay = |depth| Some(delay + depth);
        self.pieces.push((here, self.to.region(self.chunk(step, delay))));
        for place in 0..self.tree.width() {
            let parents = (0..).zip(&self.tree.children).filter(|(_, children)| children.len() > place);
            if self.is_busy(step, delay, parents.map(|(parent, _): (usize, _)| self.tree.depths[parent])) {
                self.fallen.push(builder.shuffle(here, self.tree.down(self.axes, place), Route::Shortest));
            }
        }
    }
}

/// Advances all pipelined trees in lockstep; returns the pieces of each.
pub(super) fn flow(builder: &mut Builder<'_>, mut pipelines: Vec<PipelinedTree<'_>>) -> Vec<Vec<(OpId, Region)>> {
    for step in 0..pipelines.iter().map(PipelinedTree::steps).max().unwrap_or(0) {
        for pipeline in pipelines.iter_mut().filter(|pipeline| step < pipeline.steps()) {
            pipeline.advance(builder, step);
        }
    }
    pipelines.into_iter().map(|pipeline| pipeline.pieces).collect()
}
