//! Broadcasts down several trees, each with a part of the value in pipelined chunks.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::place::{Part, range_region};
use super::spanning::Parents;
use crate::mesh::{Axes, AxisId};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Blocks of which each device has at most one.
pub(super) fn merged(builder: &mut Builder<'_>, blocks: &[OpId]) -> OpId {
    if let [only] = blocks {
        return *only;
    }
    let extents = builder.extents(blocks[0]).to_vec();
    let place = vec![Cut::Whole; extents.len()];
    builder.assemble(extents.clone(), extents, blocks.iter().map(|block| (*block, place.clone())).collect())
}

/// Broadcasts down trees, each with a part of the value by its weight.
///
/// `node` is the number of consecutive devices on one switch, 1 without a switch.
pub(super) fn spread(
    builder: &mut Builder<'_>,
    axes: Axes,
    trees: &[(Parents, u64)],
    node: usize,
    value: OpId,
    chunks: u64,
) -> OpId {
    let extents = builder.extents(value).to_vec();
    let weights: Vec<u64> = trees.iter().map(|(_, weight)| *weight).collect();
    let cut = Cuts::new(&extents, &weights, chunks);
    let mut pipelines: Vec<PipelinedTree> = Vec::new();
    for ((tree, _), part) in trees.iter().zip(&cut.parts) {
        let value = match part {
            Some(part) => builder.slice_range(value, part.dim, part.range.clone()),
            None => value,
        };
        pipelines.push(PipelinedTree::new((axes, tree, node), value, cut.dim, cut.chunks));
    }
    for step in 0..pipelines.iter().map(PipelinedTree::steps).max().unwrap_or(0) {
        pipelines.iter_mut().for_each(|pipeline| pipeline.receive(builder, step));
        // In one round the devices of a node send to different ones: no port has to wait for another.
        for round in 0..node {
            pipelines.iter_mut().for_each(|pipeline| pipeline.send(builder, step, round));
        }
    }
    let mut pieces = Vec::new();
    for (pipeline, part) in pipelines.into_iter().zip(&cut.parts) {
        let whole = pipeline.finish(builder);
        match part {
            Some(part) => pieces.push((whole, range_region(extents.len(), part))),
            None => return whole,
        }
    }
    builder.assemble(extents.clone(), extents, pieces)
}

/// The split of a value: into parts for the trees, and each part into chunks along a dim.
struct Cuts {
    parts: Vec<Option<Part>>,
    dim: usize,
    chunks: u64,
}

impl Cuts {
    /// Parts by weight, rounded to chunks; one part if the value is too small, one chunk if no dim divides.
    fn new(extents: &[u64], weights: &[u64], chunks: u64) -> Cuts {
        let total: u64 = weights.iter().sum();
        let divides = |chunks: u64| {
            let dims = extents.iter().copied().enumerate();
            dims.filter(|(_, extent)| extent.is_multiple_of(chunks)).max_by_key(|(_, extent)| *extent)
        };
        let (dim, chunks) = divides(chunks).map_or((0, 1), |(dim, _)| (dim, chunks));
        // Along the chunks' own dim a part has whole chunks.
        let unit = |at: usize| if at == dim { chunks } else { 1 };
        let counts = extents.iter().enumerate().map(|(at, extent)| (at, extent / unit(at)));
        match counts.max_by_key(|(_, count)| *count).filter(|(_, count)| weights.len() > 1 && *count >= total) {
            Some((at, count)) => {
                let bound = |weight: u64| {
                    let whole = u128::from(count) * u128::from(weight) / u128::from(total);
                    u64::try_from(whole).expect("at most the extent") * unit(at)
                };
                let part =
                    |(start, weight): (u64, &u64)| Some(Part { dim: at, range: bound(start)..bound(start + weight) });
                let starts = weights.iter().scan(0, |sum, weight| {
                    let start = *sum;
                    *sum += weight;
                    Some(start)
                });
                Cuts { parts: starts.zip(weights).map(part).collect(), dim, chunks }
            }
            None => Cuts { parts: vec![None], dim, chunks },
        }
    }
}

/// A value travelling down a tree.
struct PipelinedTree {
    axes: Vec<AxisId>,
    value: OpId,
    dim: usize,
    chunks: u64,
    /// The distance of each device from the root.
    depths: Vec<u64>,
    /// The source of each device, and its round within a step.
    down: Vec<(usize, Sources)>,
    /// The chunks of each device by step.
    here: Vec<OpId>,
    /// Data for the next step.
    fallen: Vec<OpId>,
}

impl PipelinedTree {
    fn new((axes, parents, node): (Axes, &Parents, usize), value: OpId, dim: usize, chunks: u64) -> PipelinedTree {
        let axes: Vec<AxisId> = axes.iter().collect();
        let depth = |at: usize| (1..).zip(std::iter::successors(parents[at], |up| parents[*up])).last();
        let depths = (0..parents.len()).map(|at| depth(at).map_or(0, |(depth, _)| depth)).collect();
        let (here, fallen) = (Vec::new(), Vec::new());
        PipelinedTree { down: down(&axes, parents, node), axes, value, dim, chunks, depths, here, fallen }
    }

    fn steps(&self) -> u64 {
        self.chunks + self.depths.iter().max().unwrap_or(&0)
    }

    /// Receives the data for a step; at the root, the next chunk.
    fn receive(&mut self, builder: &mut Builder<'_>, step: u64) {
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
    }

    /// Sends to the children of this round.
    fn send(&mut self, builder: &mut Builder<'_>, step: u64, round: usize) {
        let Some(here) = self.here.last().filter(|_| step + 1 < self.steps()) else { return };
        let sent = self.down.iter().filter(|(own, _)| *own == round);
        self.fallen.extend(sent.map(|(_, sources)| builder.shuffle(*here, sources.clone(), Route::Shortest)));
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

/// The source of each device: of one device's children, the one with the largest subtree first.
///
/// A child at another position of its node than its parent has its round by the distance between positions.
fn down(axes: &[AxisId], parents: &[Option<usize>], node: usize) -> Vec<(usize, Sources)> {
    let mut below = vec![0usize; parents.len()];
    for at in 0..parents.len() {
        std::iter::successors(Some(at), |at| parents[*at]).for_each(|at| below[at] += 1);
    }
    let mut children = vec![Vec::new(); parents.len()];
    for (at, parent) in parents.iter().enumerate() {
        parent.iter().for_each(|parent| children[*parent].push(at));
    }
    let mut rounds: BTreeMap<(usize, usize), Vec<Option<u32>>> = BTreeMap::new();
    for (parent, children) in children.into_iter().enumerate() {
        let mut places = vec![0; node];
        for child in children.into_iter().sorted_by_key(|at| usize::MAX - below[*at]) {
            let round = (child % node + node - parent % node) % node;
            let entries = rounds.entry((round, places[round])).or_insert_with(|| vec![None; parents.len()]);
            entries[child] = Some(u32::try_from(parent).expect("axes are shorter"));
            places[round] += 1;
        }
    }
    let sources = |entries| Sources::Table { axes: axes.to_vec(), entries };
    rounds.into_iter().map(|((round, _), entries)| (round, sources(entries))).collect()
}
