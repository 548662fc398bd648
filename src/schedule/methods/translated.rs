//! Collectives along paths and their translations, for networks that look the same from every device.
//!
//! A step of a path is one operation: every device sends at once, each to the device a step further. A gather and a sum
//! split the array into parts, each with a tree of its own, so that all links carry the same. In an exchange, the blocks
//! that go the same way at the same time are one message.

use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::exchange::Destination;
use super::{Method, longest};
use crate::mesh::{Axes, DeviceId};
use crate::operator::Operator;
use crate::packing::{Branch, Translations};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A network that looks the same from every device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The axes that span the nodes: numbered by rank, major first, dim after dim.
    pub axes: Axes,
    /// The axes on each dim of the array.
    pub dims: Vec<Axes>,
    /// The translations.
    pub translations: Arc<Translations>,
}

impl Translated {
    /// Gathers the shards of the group, each axis concatenated along its dim: `[.., e, ..] -> [.., n·e, ..]`.
    ///
    /// - `trees`: the tree from node 0 of each part.
    pub fn all_gather(&self, builder: &mut Builder<'_>, shard: OpId, trees: &[Vec<Branch>]) -> OpId {
        let builder = &mut builder.by(Method::TreePacking.name());
        let extents = builder.extents(shard).to_vec();
        let ranks = self.ranks(builder, extents.len());
        let cut = longest(&extents);
        let parts = cut_in(trees.len() as u64, &extents);
        let own = |builder: &mut Builder<'_>, part: &Range<u64>| match part.end - part.start < extents[cut] {
            true => builder.slice_range(shard, cut, part.clone()),
            false => shard,
        };
        let mut values: Vec<Vec<OpId>> =
            parts.iter().map(|part| vec![own(builder, part); self.translations.nodes()]).collect();
        for (part, Branch { parent, node, step }) in self.by_distance(&trees[..parts.len()]) {
            let sources = self.sources(|device| self.translations.difference(device, step));
            values[part][node] = builder.shuffle(values[part][parent], sources, Route::Shortest);
        }
        self.gathered(builder, (&extents, &ranks), values.into_iter().zip(parts))
    }

    /// Reduces and scatters: `[.., n·e, ..] -> [.., e, ..]`.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    ///
    /// - `trees`: as for [`Translated::all_gather`], in reverse.
    pub fn reduce_scatter(
        &self,
        builder: &mut Builder<'_>,
        value: OpId,
        operator: Operator,
        trees: &[Vec<Branch>],
    ) -> OpId {
        let builder = &mut builder.by(Method::TreePacking.name());
        let ranks = self.ranks(builder, builder.extents(value).len());
        let extents: Vec<u64> = builder.extents(value).iter().zip(&ranks).map(|(extent, n)| extent / n).collect();
        let parts = cut_in(trees.len() as u64, &extents);
        // What a device adds up for the one from which it is a node away.
        let mut own = |part: &Range<u64>, node: usize| {
            let slot = self.slot(&extents, &ranks, part, |device| self.translations.difference(device, node));
            vec![builder.slice(value, view(&extents, &ranks), slot)]
        };
        let nodes = self.translations.nodes();
        let mut terms: Vec<Vec<Vec<OpId>>> =
            parts.iter().map(|part| (0..nodes).map(|node| own(part, node)).collect()).collect();
        for (part, Branch { parent, node, step }) in self.by_distance(&trees[..parts.len()]).into_iter().rev() {
            let sum = builder.add(&terms[part][node], operator);
            let sources = self.sources(|device| self.translations.sum(device, step));
            let received = builder.shuffle(sum, sources, Route::Shortest);
            terms[part][parent].push(received);
        }
        let mut pieces = Vec::new();
        for (terms, part) in terms.iter().zip(parts) {
            let mut region = vec![Cut::Whole; extents.len()];
            region[longest(&extents)] = Cut::Range { start: part.start, end: part.end };
            pieces.push((builder.add(&terms[0], operator), region));
        }
        builder.assemble(extents.clone(), extents, pieces)
    }

    /// All-reduces over the group: scatters and gathers.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn all_reduce(
        &self,
        builder: &mut Builder<'_>,
        value: OpId,
        operator: Operator,
        trees: &[Vec<Branch>],
    ) -> OpId {
        let scattered = self.reduce_scatter(builder, value, operator, trees);
        self.all_gather(builder, scattered, trees)
    }

    /// Moves the axes from their dim to another one: `[.., e, .., n·t, ..] -> [.., n·e, .., t, ..]`.
    ///
    /// - `paths`: from node 0 to each node, as steps.
    /// - `parts`: parts of each block that follow one another.
    pub fn all_to_all(
        &self,
        builder: &mut Builder<'_>,
        value: OpId,
        (paths, parts): (&[Vec<usize>], u64),
        to: Destination,
    ) -> OpId {
        let builder = &mut builder.by(Method::Routed.name());
        let nodes = self.translations.nodes();
        let mut block = builder.extents(value).to_vec();
        block[to.dim] /= nodes as u64;
        let mesh = builder.mesh();
        let rank_after = |node: usize| {
            let device = mesh.with_rank(DeviceId(0), self.axes.iter(), node as u64);
            usize::try_from(mesh.rank(device, to.order.iter())).expect("a device of the mesh")
        };
        let after: Vec<usize> = (0..nodes).map(rank_after).collect();
        let on = |dim: usize| -> Vec<u64> {
            (0..block.len()).map(|other| if other == dim { nodes as u64 } else { 1 }).collect()
        };
        let from = self.dims.iter().position(|axes| !axes.is_empty()).unwrap_or_default();
        let (sent, received) = (on(to.dim), on(from));
        let parts = cut_in(parts, &block);
        let mut own = |part: &Range<u64>, node: usize| {
            let slot = |device| after[self.translations.sum(device, node)];
            builder.slice(value, view(&block, &sent), self.slot(&block, &sent, part, slot))
        };
        let mut values: Vec<Vec<OpId>> =
            parts.iter().map(|part| (0..nodes).map(|node| own(part, node)).collect()).collect();
        for place in 0..paths.iter().map(Vec::len).max().unwrap_or_default() {
            for values in &mut values {
                let mut bundles: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
                for (node, path) in paths.iter().enumerate() {
                    if let Some(step) = path.get(place) {
                        bundles.entry(*step).or_default().push(node);
                    }
                }
                for (step, bundle) in bundles {
                    let sources = self.sources(|device| self.translations.difference(device, step));
                    let tied = tied(builder, bundle.iter().map(|node| values[*node]).collect());
                    let moved = builder.shuffle(tied, sources, Route::Shortest);
                    for (at, node) in bundle.iter().enumerate() {
                        values[*node] = untied(builder, moved, at, bundle.len());
                    }
                }
            }
        }
        self.gathered(builder, (&block, &received), values.into_iter().zip(parts))
    }

    /// The shards of all devices together.
    ///
    /// - `shard`, `ranks`: the extents of a shard, and the number of shards along each dim.
    /// - `parts`: of each part the values that came along the paths to all nodes.
    fn gathered(
        &self,
        builder: &mut Builder<'_>,
        (shard, ranks): (&[u64], &[u64]),
        parts: impl Iterator<Item = (Vec<OpId>, Range<u64>)>,
    ) -> OpId {
        let mut pieces = Vec::new();
        for (values, part) in parts {
            pieces.extend(values.into_iter().enumerate().map(|(node, value)| {
                (value, self.slot(shard, ranks, &part, |device| self.translations.difference(device, node)))
            }));
        }
        let extents = shard.iter().zip(ranks).map(|(extent, n)| extent * n).collect();
        builder.assemble(extents, view(shard, ranks), pieces)
    }

    /// The number of shards along each dim.
    fn ranks(&self, builder: &Builder<'_>, dims: usize) -> Vec<u64> {
        (0..dims).map(|dim| self.dims.get(dim).map_or(1, |axes| axes.group_size(builder.mesh()))).collect()
    }

    /// The links of the tree of each part, by their distance from node 0: a part moves on while others follow it.
    fn by_distance(&self, trees: &[Vec<Branch>]) -> Vec<(usize, Branch)> {
        let mut links = Vec::new();
        for (part, tree) in trees.iter().enumerate() {
            let mut distances = vec![0usize; self.translations.nodes()];
            for branch in tree {
                distances[branch.node] = distances[branch.parent] + 1;
                links.push((distances[branch.node], part, *branch));
            }
        }
        links.sort_by_key(|(distance, ..)| *distance);
        links.into_iter().map(|(_, part, branch)| (part, branch)).collect()
    }

    /// A shuffle in which each device receives from another one.
    fn sources(&self, source: impl Fn(usize) -> usize) -> Sources {
        let entry = |device| Some(u32::try_from(source(device)).expect("a device of the mesh"));
        let entries = (0..self.translations.nodes()).map(entry).collect();
        Sources::Table { axes: self.axes.iter().collect(), entries }
    }

    /// A part of the shard of a device, another one on each device.
    fn slot(&self, shard: &[u64], ranks: &[u64], part: &Range<u64>, of: impl Fn(usize) -> usize) -> Region {
        let slots: Vec<u64> = (0..self.translations.nodes()).map(|device| of(device) as u64).collect();
        let mut region = Vec::new();
        for dim in 0..shard.len() {
            let minor: u64 = ranks[dim + 1..].iter().product();
            if ranks[dim] > 1 {
                let entries = slots.iter().map(|slot| Some(slot / minor % ranks[dim])).collect();
                region.push(Cut::At(CoordMap::Table { axes: self.axes.iter().collect(), entries }));
            }
            region.push(match dim == longest(shard) {
                true => Cut::Range { start: part.start, end: part.end },
                false => Cut::Whole,
            });
        }
        region
    }
}

/// The parts of a shard along its longest dim: this number, or fewer if it is short.
fn cut_in(count: u64, shard: &[u64]) -> Vec<Range<u64>> {
    let length = shard[longest(shard)];
    let count = length.min(count).max(1);
    let at = |part: u64| {
        let at = u128::from(length) * u128::from(part) / u128::from(count);
        u64::try_from(at).expect("at most the length")
    };
    (0..count).map(|part| at(part)..at(part + 1)).collect()
}

/// The extents of the gathered value, with the shards apart.
fn view(shard: &[u64], ranks: &[u64]) -> Vec<u64> {
    let apart = |(extent, n): (&u64, &u64)| if *n > 1 { vec![*n, *extent] } else { vec![*extent] };
    shard.iter().zip(ranks).flat_map(apart).collect()
}

/// Blocks of equal extents as one, along the first dim.
fn tied(builder: &mut Builder<'_>, blocks: Vec<OpId>) -> OpId {
    if let [only] = blocks[..] {
        return only;
    }
    let count = blocks.len() as u64;
    let block = builder.extents(blocks[0]).to_vec();
    let mut extents = block.clone();
    extents[0] *= count;
    let place = |at: usize| place(at, block.len());
    let pieces = blocks.into_iter().enumerate().map(|(at, value)| (value, place(at))).collect();
    builder.assemble(extents, [vec![count], block.clone()].concat(), pieces)
}

/// One of the blocks that were tied.
fn untied(builder: &mut Builder<'_>, value: OpId, at: usize, count: usize) -> OpId {
    if count == 1 {
        return value;
    }
    let mut block = builder.extents(value).to_vec();
    block[0] /= count as u64;
    let region = place(at, block.len());
    builder.slice(value, [vec![count as u64], block].concat(), region)
}

/// A block among those that are tied.
fn place(at: usize, dims: usize) -> Region {
    let at = i64::try_from(at).expect("fewer than there are devices");
    [vec![Cut::At(CoordMap::constant(at))], vec![Cut::Whole; dims]].concat()
}
