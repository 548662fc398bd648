//! Collectives along packed trees, for networks that are not products of rings and lines.
//!
//! A shard, or the whole value of a sum, is split into chunks, and each chunk into a range per tree, by weight. All trees
//! run concurrently.

use super::super::{Builder, CoordMap, Cut, OpId, Region};
use super::Method;
use super::pipelined::{Course, PipelinedTree, Tree, Window, flow};
use crate::mesh::{Axes, AxisId};
use crate::operator::Operator;
use crate::packing::Branching;
use std::collections::BTreeMap;

/// A collective along trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The axes that span the nodes of the trees: nodes are numbered by rank, major first.
    pub axes: Axes,
    /// The axes of the collective on each dim of the array; a subset of the above. The sources of a gather and the roots of a
    /// scatter are numbered by rank in all of them, dim after dim.
    pub dims: Vec<Axes>,
    /// The trees. Those of a scatter are rooted at the destination of its blocks and used in reverse.
    pub trees: Vec<Branching>,
    /// Number of chunks, if the longest dim divides by it.
    pub chunks: u64,
}

impl Packed {
    /// Gathers the shards of the group, each axis concatenated along its dim: `[.., e, ..] -> [.., n·e, ..]`.
    pub fn all_gather(&self, builder: &mut Builder<'_>, shard: OpId) -> OpId {
        let extents = builder.extents(shard).to_vec();
        let ranks = self.ranks(builder, shard);
        let window = |slot: Option<u64>, range| self.window(&extents, slot.map(|slot| (slot, &ranks[..])), range);
        let gathered = extents.iter().zip(&ranks).map(|(extent, n)| extent * n).collect();
        self.flow(builder, Course::Fall, shard, gathered, |source, range| {
            (window(None, range), window(Some(source), range))
        })
    }

    /// Reduces and scatters: `[.., n·e, ..] -> [.., e, ..]`.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn reduce_scatter(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let ranks = self.ranks(builder, value);
        let extents: Vec<u64> = builder.extents(value).iter().zip(&ranks).map(|(extent, n)| extent / n).collect();
        let window = |slot: Option<u64>, range| self.window(&extents, slot.map(|slot| (slot, &ranks[..])), range);
        self.flow(builder, Course::Rise(operator), value, extents.clone(), |source, range| {
            (window(Some(source), range), window(None, range))
        })
    }

    /// All-reduces over the group.
    pub fn all_reduce(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let extents = builder.extents(value).to_vec();
        let window = |_, range| {
            let window = self.window(&extents, None, range);
            (window.clone(), window)
        };
        self.flow(builder, Course::RiseAndFall(operator), value, extents.clone(), window)
    }

    /// Runs all trees; `windows` gives, for a tree's source and range, where it reads and writes.
    fn flow(
        &self,
        builder: &mut Builder<'_>,
        course: Course,
        value: OpId,
        result: Vec<u64>,
        windows: impl Fn(u64, (u64, u64)) -> (Window, Window),
    ) -> OpId {
        let builder = &mut builder.by(Method::TreePacking.name());
        let axes: Vec<AxisId> = self.axes.iter().collect();
        let trees: Vec<Tree> = self.trees.iter().map(|tree| Tree::new(tree.parents.clone())).collect();
        let mut total: BTreeMap<usize, u64> = BTreeMap::new();
        self.trees.iter().for_each(|tree| *total.entry(tree.source).or_default() += tree.weight);
        let mut before: BTreeMap<usize, u64> = BTreeMap::new();
        let mut pipelines = Vec::new();
        let mut view = Vec::new();
        for (tree, branching) in trees.iter().zip(&self.trees) {
            let start = before.entry(branching.source).or_default();
            let end = *start + branching.weight;
            let (from, to) = windows(branching.source as u64, (0, 0));
            let length = from.view[from.chunk + 1];
            // The nearest whole elements.
            let at = |weight: u64| {
                let total = u128::from(total[&branching.source]);
                let at = (2 * u128::from(length) * u128::from(weight) + total) / (2 * total);
                u64::try_from(at).expect("at most the length")
            };
            let range = (at(*start), at(end));
            *start = end;
            view = to.view;
            if range.0 < range.1 {
                let (from, to) = windows(branching.source as u64, range);
                pipelines.push(PipelinedTree::new((tree, &axes), course, value, from, to));
            }
        }
        let pieces: Vec<(OpId, Region)> = flow(builder, pipelines).into_iter().flatten().collect();
        builder.assemble(result, view, pieces)
    }

    /// The number of shards gathered along each dim of a value.
    fn ranks(&self, builder: &Builder<'_>, value: OpId) -> Vec<u64> {
        let on = |dim: usize| self.dims.get(dim).map_or(1, |axes| axes.group_size(builder.mesh()));
        (0..builder.extents(value).len()).map(on).collect()
    }

    /// A range of each chunk of a block, or of one shard in a gathered block.
    fn window(&self, shard: &[u64], slot: Option<(u64, &[u64])>, (start, end): (u64, u64)) -> Window {
        let longest = shard.iter().enumerate().rev().max_by_key(|(_, extent)| **extent).map_or(0, |(dim, _)| dim);
        let chunks = if shard[longest].is_multiple_of(self.chunks) { self.chunks } else { 1 };
        let (mut view, mut region, mut chunk) = (Vec::new(), Vec::new(), 0);
        for (dim, extent) in shard.iter().enumerate() {
            if let Some((slot, ranks)) = slot {
                let minor: u64 = ranks[dim + 1..].iter().product();
                let slot = i64::try_from(slot / minor % ranks[dim]).expect("a rank");
                view.push(ranks[dim]);
                region.push(Cut::At(CoordMap::constant(slot)));
            }
            if dim == longest {
                chunk = view.len();
                view.extend([chunks, extent / chunks]);
                region.extend([Cut::Whole, Cut::Range { start, end }]);
            } else {
                view.push(*extent);
                region.push(Cut::Whole);
            }
        }
        Window { view, region, chunk }
    }
}
