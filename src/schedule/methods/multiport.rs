//! Collectives over several axes at once.
//!
//! The array is split into parts. Each part gathers axis after axis, in its own axis order, so the links of all axes are
//! busy at the same time; shares are chosen to balance the links. Each part is split again into chunks, so that one chunk
//! is in its second stage while the next one is in its first. In the list all first stages precede all second stages,
//! chunk after chunk: links serve messages in this order. Links of a single axis order wait for its hops, so two chunks
//! take turns there.
//!
//! Source: the bucket algorithm on all ports, Sack and Gropp, "Collective Algorithms for Multiported Torus Networks"
//! (2015); unequal shares for unequal axes are the general form.

use super::super::builder::split;
use super::super::{Builder, OpId, Region};
use super::broadcast;
use super::exchange::{Destination, Exchange};
use super::place::{Part, Place, range_region};
use super::{Method, gather_stage, scatter_stage};
use crate::mesh::Axes;
use crate::operator::Operator;

/// A collective over several axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiport {
    /// The axes; those of one dim major first.
    pub stages: Vec<Stage>,
    /// The axis orders of the gather, and the share of each.
    pub axis_orders: Vec<AxisOrder>,
    /// Number of chunks per axis order, at least 1.
    pub chunks: u64,
}

/// One axis of a collective over several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The axis, or the run of its parts.
    pub axes: Axes,
    /// The dim on which it is gathered.
    pub dim: usize,
    /// The gather method along this axis.
    pub method: Method,
}

/// A part of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisOrder {
    /// The stages in gather order; a reduction reverses them.
    pub order: Vec<usize>,
    /// Its relative share.
    pub weight: u64,
}

/// A chunk of one axis order.
struct Portion<'a> {
    order: &'a [usize],
    /// Its range in each shard.
    part: Part,
    value: OpId,
}

impl Multiport {
    /// Gathers the shards of the group, each axis concatenated along its dim: `[.., e, ..] -> [.., n·e, ..]`.
    pub fn all_gather(&self, builder: &mut Builder<'_>, shard: OpId) -> OpId {
        let builder = &mut builder.by(Method::Multiport.name());
        let extents = builder.extents(shard).to_vec();
        let mut portions = self.portions(&extents, shard);
        for portion in &mut portions {
            let region = range_region(extents.len(), &portion.part);
            portion.value = builder.slice(shard, extents.clone(), region);
        }
        self.gather(builder, &mut portions);
        self.joined(builder, &extents, &portions)
    }

    /// Reduces and scatters: `[.., n·e, ..] -> [.., e, ..]`.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn reduce_scatter(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let builder = &mut builder.by(Method::Multiport.name());
        let extents = self.shard_extents(builder, value);
        let mut portions = self.portions(&extents, value);
        self.scatter(builder, &extents, &mut portions, operator);
        let pieces = portions.iter().map(|portion| (portion.value, range_region(extents.len(), &portion.part)));
        builder.assemble(extents.clone(), extents.clone(), pieces.collect())
    }

    /// All-reduces: each chunk is scattered and gathered again along the same paths.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn all_reduce(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let builder = &mut builder.by(Method::Multiport.name());
        let extents = self.shard_extents(builder, value);
        let mut portions = self.portions(&extents, value);
        self.scatter(builder, &extents, &mut portions, operator);
        self.gather(builder, &mut portions);
        self.joined(builder, &extents, &portions)
    }

    /// Broadcasts from one device of the group: each chunk is scattered axis by axis, and gathered again. The extents
    /// stay; each must divide by the lengths of the axes on its dim.
    ///
    /// - `root`: the rank of the device along the axes of each stage.
    pub fn broadcast(&self, builder: &mut Builder<'_>, root: &[u64], value: OpId) -> OpId {
        let builder = &mut builder.by(Method::Multiport.name());
        let extents = self.shard_extents(builder, value);
        let mut portions = self.portions(&extents, value);
        for portion in &mut portions {
            let (view, region) = self.whole(builder, &extents, &portion.part);
            portion.value = builder.slice(value, view, region);
        }
        for step in (0..self.stages.len()).rev() {
            for portion in &mut portions {
                let (place, method) = self.place(builder, portion.order, step);
                let wraps = !matches!(method, Method::Line | Method::OneHop);
                let root = root[portion.order[step]];
                portion.value = broadcast::scatter(builder, place, wraps, root, portion.value);
            }
        }
        self.gather(builder, &mut portions);
        self.joined(builder, &extents, &portions)
    }

    /// Moves the axes from the dim of the stages to another one: `[.., e, .., n·t, ..] -> [.., n·e, .., t, ..]`.
    ///
    /// All stages are on one dim, and the extent of the other divides by the lengths of the axes.
    pub fn all_to_all(&self, builder: &mut Builder<'_>, value: OpId, to: Destination) -> OpId {
        let builder = &mut builder.by(Method::Multiport.name());
        let stages = self.stages.iter().map(|stage| Stage { dim: to.dim, ..*stage }).collect();
        let leaving = Multiport { stages, ..self.clone() };
        let extents = leaving.shard_extents(builder, value);
        let mut portions = self.portions(&extents, value);
        for portion in &mut portions {
            let (view, region) = leaving.whole(builder, &extents, &portion.part);
            portion.value = builder.slice(value, view, region);
        }
        for step in 0..self.stages.len() {
            for portion in &mut portions {
                let (from, method) = self.place(builder, portion.order, step);
                let Stage { axes, dim, .. } = leaving.stages[portion.order[step]];
                let later = portion.order[step..].iter().map(|other| leaving.stages[*other].axes);
                let before = later.filter(|other| to.rank(*other) < to.rank(axes));
                let major = before.map(|other| other.group_size(builder.mesh())).product();
                let to = Place { axes, dim, major };
                portion.value = Exchange { method, from, to }.build(builder, portion.value);
            }
        }
        self.joined(builder, &extents, &portions)
    }

    /// The chunks in order, each with its axis orders: non-empty ranges of the longest dim of a shard.
    fn portions(&self, shard: &[u64], value: OpId) -> Vec<Portion<'_>> {
        let longest = shard.iter().enumerate().rev().max_by_key(|(_, extent)| **extent);
        let (dim, extent) = longest.map_or((0, 1), |(dim, extent)| (dim, *extent));
        let total: u128 = self.axis_orders.iter().map(|axis_order| u128::from(axis_order.weight)).sum();
        let mut ends = vec![0];
        let mut weight = 0;
        for axis_order in &self.axis_orders {
            weight += u128::from(axis_order.weight);
            // The nearest whole element.
            let end = (2 * u128::from(extent) * weight + total) / (2 * total);
            ends.push(u64::try_from(end).expect("at most the extent"));
        }
        let mut portions = Vec::new();
        for chunk in 0..self.chunks {
            for (axis_order, ends) in self.axis_orders.iter().zip(ends.windows(2)) {
                let length = u128::from(ends[1] - ends[0]);
                let offset = |chunk: u64| {
                    let offset = length * u128::from(chunk) / u128::from(self.chunks);
                    ends[0] + u64::try_from(offset).expect("at most the extent")
                };
                let part = Part { dim, range: offset(chunk)..offset(chunk + 1) };
                if !part.range.is_empty() {
                    portions.push(Portion { order: &axis_order.order, part, value });
                }
            }
        }
        portions
    }

    /// Runs all portions through all stages.
    fn gather(&self, builder: &mut Builder<'_>, portions: &mut [Portion<'_>]) {
        for step in 0..self.stages.len() {
            self.in_turn(builder, portions, |builder, portion| {
                let (place, method) = self.place(builder, portion.order, step);
                gather_stage(builder, method, place, portion.value)
            });
        }
    }

    /// Cuts the portions out of the whole value and runs them backwards through all stages.
    fn scatter(&self, builder: &mut Builder<'_>, shard: &[u64], portions: &mut [Portion<'_>], operator: Operator) {
        for portion in &mut *portions {
            let (view, region) = self.whole(builder, shard, &portion.part);
            portion.value = builder.slice(portion.value, view, region);
        }
        for step in (0..self.stages.len()).rev() {
            self.in_turn(builder, portions, |builder, portion| {
                let (place, method) = self.place(builder, portion.order, step);
                scatter_stage(builder, method, place, portion.value, operator)
            });
        }
    }

    /// Runs all portions through one stage. The links of an axis are idle between two hops of a portion; the other axis
    /// orders fill that time, or, where there are none, the next chunk.
    fn in_turn(
        &self,
        builder: &mut Builder<'_>,
        portions: &mut [Portion<'_>],
        stage: impl Fn(&mut Builder<'_>, &Portion<'_>) -> OpId,
    ) {
        let at_once = if self.axis_orders.len() == 1 { 2 } else { 1 };
        for portions in portions.chunks_mut(at_once) {
            let first = builder.count();
            for portion in &mut *portions {
                portion.value = stage(builder, portion);
            }
            if let [_, _, ..] = portions {
                builder.list_by_start(first, portions.iter_mut().map(|portion| &mut portion.value));
            }
        }
    }

    /// The slots of an axis after the axes before it are gathered.
    fn place(&self, builder: &Builder<'_>, order: &[usize], step: usize) -> (Place, Method) {
        let (stage, others) = (order[step], &order[..step]);
        let Stage { axes, dim, method } = self.stages[stage];
        let before = others.iter().filter(|other| **other < stage && self.stages[**other].dim == dim);
        let major = before.map(|other| self.stages[*other].axes.group_size(builder.mesh())).product();
        (Place { axes, dim, major }, method)
    }

    /// The gathered value, assembled from all portions.
    fn joined(&self, builder: &mut Builder<'_>, shard: &[u64], portions: &[Portion<'_>]) -> OpId {
        let mut extents = shard.to_vec();
        for stage in &self.stages {
            extents[stage.dim] *= stage.axes.group_size(builder.mesh());
        }
        let view = self.view(builder, shard);
        let pieces: Vec<(OpId, Region)> =
            portions.iter().map(|portion| (portion.value, self.whole(builder, shard, &portion.part).1)).collect();
        builder.assemble(extents, view, pieces)
    }

    /// A part of every shard as a region of the gathered value.
    fn whole(&self, builder: &Builder<'_>, shard: &[u64], part: &Part) -> (Vec<u64>, Region) {
        let view = self.view(builder, shard);
        let shift = (0..=part.dim).filter(|dim| self.count(builder, *dim) > 1).count();
        let region = range_region(view.len(), &Part { dim: part.dim + shift, range: part.range.clone() });
        (view, region)
    }

    /// The extents of the gathered value, with the shards apart.
    fn view(&self, builder: &Builder<'_>, shard: &[u64]) -> Vec<u64> {
        let mut view = shard.to_vec();
        for dim in (0..shard.len()).rev() {
            let count = self.count(builder, dim);
            if count > 1 {
                view[dim] *= count;
                view = split(&view, dim, count);
            }
        }
        view
    }

    /// The number of shards gathered along a dim.
    fn count(&self, builder: &Builder<'_>, dim: usize) -> u64 {
        let stages = self.stages.iter().filter(|stage| stage.dim == dim);
        stages.map(|stage| stage.axes.group_size(builder.mesh())).product()
    }

    /// The extents of the shards after a scatter.
    fn shard_extents(&self, builder: &Builder<'_>, value: OpId) -> Vec<u64> {
        let mut extents = builder.extents(value).to_vec();
        for stage in &self.stages {
            extents[stage.dim] /= stage.axes.group_size(builder.mesh());
        }
        extents
    }
}
