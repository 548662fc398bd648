//! Chunks that flow along a tree, one behind the other.
//!
//! Where sums rise, in step t a device at height h adds up chunk t - h and sends it to its parent; the root has one
//! more chunk complete in each step. Where values fall, a device at depth d has chunk t - d and sends it to its
//! children. So all chunks are on the way at once, and there are as many steps as chunks and levels together. Each
//! step is a few operations for the whole tree: the map of chunks says which devices take part.

use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use crate::mesh::AxisId;
use crate::operator::Operator;

/// A rooted tree over the devices of a group, or some trees that begin at devices with the same value.
pub(super) struct Tree {
    /// The parent of each device, none of a root.
    parents: Vec<Option<usize>>,
    /// The children of each device.
    children: Vec<Vec<usize>>,
    /// How far each device is from the root.
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

    /// How many children a device can have.
    fn width(&self) -> usize {
        self.children.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Each device receives from its child of that place.
    fn up(&self, axes: &[AxisId], place: usize) -> Sources {
        let entries = self.children.iter().map(|children| children.get(place).map(|child| number(*child)));
        Sources::Table { axes: axes.to_vec(), entries: entries.collect() }
    }

    /// The children of that place receive from their parents.
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

/// The part of a block that flows along a tree: one dim of a view counts its chunks.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The block's extents, refined.
    pub(super) view: Vec<u64>,
    /// What is taken of it; what is said of the chunks is not looked at.
    pub(super) region: Region,
    /// The dim of the view that counts chunks.
    pub(super) chunk: usize,
}

impl Window {
    /// How many chunks there are.
    fn chunks(&self) -> u64 {
        self.view[self.chunk]
    }

    /// A chunk for each device.
    fn region(&self, chunk: CoordMap) -> Region {
        let mut region = self.region.clone();
        region[self.chunk] = Cut::At(chunk);
        region
    }
}

/// Which way chunks flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// From the root to all.
    Fall,
    /// From all to the root, combined.
    Rise(Operator),
    /// To the root, combined, and back.
    RiseAndFall(Operator),
}

/// The chunks of one tree on their way.
pub(super) struct Wave<'a> {
    tree: &'a Tree,
    axes: &'a [AxisId],
    course: Course,
    value: OpId,
    /// Where the chunks are in the value.
    from: Window,
    /// Where they stand in the result.
    to: Window,
    /// What came from the children in the step before.
    risen: Vec<OpId>,
    /// What came from the parents in the step before.
    fallen: Vec<OpId>,
    /// Pieces of the result.
    pieces: Vec<(OpId, Region)>,
}

impl<'a> Wave<'a> {
    /// A wave over groups that the axes span; the tree numbers their ranks.
    pub(super) fn new(
        (tree, axes): (&'a Tree, &'a [AxisId]),
        course: Course,
        value: OpId,
        from: Window,
        to: Window,
    ) -> Wave<'a> {
        let (risen, fallen, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Wave { tree, axes, course, value, from, to, risen, fallen, pieces }
    }

    fn steps(&self) -> u64 {
        let ways = match self.course {
            Course::Fall | Course::Rise(_) => 1,
            Course::RiseAndFall(_) => 2,
        };
        self.from.chunks() + ways * self.tree.height()
    }

    /// The chunk that each device has to do with in a step, if its turn comes `delay` steps after the start.
    fn chunk(&self, step: u64, delay: impl Fn(u64) -> Option<u64>) -> CoordMap {
        let chunks = self.from.chunks();
        let entry = |depth: &u64| step.checked_sub(delay(*depth)?).filter(|chunk| *chunk < chunks);
        CoordMap::Table { axes: self.axes.to_vec(), entries: self.tree.depths.iter().map(entry).collect() }
    }

    /// Whether somebody at a depth of this kind has a chunk in a step.
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

    /// Adds what came up to the own chunk, and sends it on; the sum, if the root has it complete.
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

    /// Keeps what came down, or what the root has, and sends it on.
    fn fall(&mut self, builder: &mut Builder<'_>, step: u64, complete: Option<OpId>, delay: u64) {
        let fallen = std::mem::take(&mut self.fallen);
        let here: Vec<OpId> = complete.into_iter().chain(fallen).collect();
        if here.is_empty() {
            return;
        }
        let here = either(builder, here);
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

/// The values as one, of which no device has more than one.
pub(super) fn either(builder: &mut Builder<'_>, values: Vec<OpId>) -> OpId {
    if let [only] = values[..] {
        return only;
    }
    let extents = builder.extents(values[0]).to_vec();
    let whole = vec![Cut::Whole; extents.len()];
    builder.assemble(extents.clone(), extents, values.into_iter().map(|value| (value, whole.clone())).collect())
}

/// All waves side by side, step by step; the pieces of each.
pub(super) fn flow(builder: &mut Builder<'_>, mut waves: Vec<Wave<'_>>) -> Vec<Vec<(OpId, Region)>> {
    for step in 0..waves.iter().map(Wave::steps).max().unwrap_or(0) {
        for wave in waves.iter_mut().filter(|wave| step < wave.steps()) {
            wave.advance(builder, step);
        }
    }
    waves.into_iter().map(|wave| wave.pieces).collect()
}
