//! Gathers and reductions over a torus of two axes by four rings: two edge-disjoint Hamiltonian cycles in both directions.
//!
//! A quarter of each shard goes round each ring, so every link of the torus has the same load. N devices take N - 1 hops,
//! where axis after axis takes half a ring each; but no stage waits for another one.

use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::Method;
use super::hamiltonian::cycles;
use super::place::{Part, range_region};
use crate::mesh::{Axes, AxisId, Mesh};
use crate::operator::Operator;
use std::ops::Range;

/// A collective around the Hamiltonian rings of two axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quad {
    /// Both axes, major first, in rank order.
    axes: Vec<AxisId>,
    /// The axes on each dim.
    dims: Vec<Axes>,
    /// The devices in the order of each cycle.
    cycles: [Vec<u32>; 2],
}

/// A quarter of each shard.
struct Stream<'a> {
    cycle: &'a [u32],
    /// The position of each device in the cycle.
    places: Vec<usize>,
    /// Whether it travels against the order of the cycle.
    back: bool,
    dim: usize,
    range: Range<u64>,
}

impl Quad {
    /// Limit on devices; the tables grow too long above it.
    pub const MOST_DEVICES: u32 = 256;

    /// Creates the collective over two whole rings: each run and its length. `dims` has the axes of both on the dims of the
    /// array, in the same order.
    ///
    /// `None` without two such cycles, or with too many devices.
    pub fn new(mesh: &Mesh, rings: [Axes; 2], dims: Vec<Axes>) -> Option<Quad> {
        let [first, second] = rings.map(|ring| u32::try_from(ring.group_size(mesh)));
        let lengths = [first.ok()?, second.ok()?];
        lengths[0].checked_mul(lengths[1]).filter(|devices| *devices <= Quad::MOST_DEVICES)?;
        let axes = rings.iter().flat_map(|ring| ring.iter()).collect();
        Some(Quad { axes, dims, cycles: cycles(lengths)? })
    }

    /// The collective with renumbered axes.
    pub fn renumbered(&self, axis: &dyn Fn(AxisId) -> AxisId) -> Quad {
        let axes = self.axes.iter().map(|id| axis(*id)).collect();
        let dims = self.dims.iter().map(|on| on.iter().map(axis).collect()).collect();
        Quad { axes, dims, cycles: self.cycles.clone() }
    }

    /// Gathers the shards of the group, each axis concatenated along its dim: `[.., e, ..] -> [.., n·e, ..]`.
    pub fn all_gather(&self, builder: &mut Builder<'_>, shard: OpId) -> OpId {
        let builder = &mut builder.by(Method::QuadDirectionalRing.name());
        let extents = builder.extents(shard).to_vec();
        let ranks = self.ranks(builder.mesh(), extents.len());
        let streams = self.streams(&extents);
        let own = |stream: &Stream<'_>| range_region(extents.len(), &stream.part());
        let mut moving: Vec<OpId> =
            streams.iter().map(|stream| builder.slice(shard, extents.clone(), own(stream))).collect();
        let mut pieces = Vec::new();
        for hops in 0..self.devices() {
            for (stream, value) in streams.iter().zip(&mut moving) {
                if hops > 0 {
                    *value = self.forward(builder, stream, *value);
                }
                pieces.push((*value, self.slot(&ranks, stream, stream.before(hops))));
            }
        }
        let gathered = extents.iter().zip(&ranks).map(|(extent, n)| extent * n).collect();
        builder.assemble(gathered, view(&extents, &ranks), pieces)
    }

    /// Reduces and scatters: `[.., n·e, ..] -> [.., e, ..]`. Partial sums start after their owner and add a contribution at
    /// each device.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn reduce_scatter(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let builder = &mut builder.by(Method::QuadDirectionalRing.name());
        let ranks = self.ranks(builder.mesh(), builder.extents(value).len());
        let extents: Vec<u64> = builder.extents(value).iter().zip(&ranks).map(|(extent, n)| extent / n).collect();
        let streams = self.streams(&extents);
        let mut sums: Vec<Option<OpId>> = vec![None; streams.len()];
        for hops in (0..self.devices()).rev() {
            for (stream, sum) in streams.iter().zip(&mut sums) {
                let owner = self.slot(&ranks, stream, stream.after(hops));
                let own = builder.slice(value, view(&extents, &ranks), owner);
                *sum = Some(match *sum {
                    None => own,
                    Some(partial) => {
                        let arrived = self.forward(builder, stream, partial);
                        builder.add(&[arrived, own], operator)
                    }
                });
            }
        }
        let places = streams.iter().map(|stream| range_region(extents.len(), &stream.part()));
        let pieces = sums.into_iter().flatten().zip(places).collect();
        builder.assemble(extents.clone(), extents.clone(), pieces)
    }

    /// All-reduces: scatters, and gathers along the same paths.
    ///
    /// Every extent must divide by the lengths of the axes on its dim.
    pub fn all_reduce(&self, builder: &mut Builder<'_>, value: OpId, operator: Operator) -> OpId {
        let part = self.reduce_scatter(builder, value, operator);
        self.all_gather(builder, part)
    }

    fn devices(&self) -> usize {
        self.cycles[0].len()
    }

    /// Quarters of the longest dim; with fewer than four elements, empty ones are dropped.
    fn streams(&self, shard: &[u64]) -> Vec<Stream<'_>> {
        let longest = shard.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent);
        let (dim, extent) = longest.unwrap_or((0, 1));
        let at = |quarter: u64| {
            let at = u128::from(extent) * u128::from(quarter) / 4;
            u64::try_from(at).expect("at most the extent")
        };
        let ways = self.cycles.iter().flat_map(|cycle| [false, true].map(|back| (cycle, back)));
        let mut streams = Vec::new();
        for (quarter, (cycle, back)) in (0..).zip(ways) {
            let mut places = vec![0; cycle.len()];
            cycle.iter().zip(0..).for_each(|(device, place)| places[*device as usize] = place);
            streams.push(Stream { cycle, places, back, dim, range: at(quarter)..at(quarter + 1) });
        }
        streams.retain(|stream| !stream.range.is_empty());
        streams
    }

    /// Sends over one hop.
    fn forward(&self, builder: &mut Builder<'_>, stream: &Stream<'_>, value: OpId) -> OpId {
        let entries = stream.before(1).into_iter().map(Some).collect();
        builder.shuffle(value, Sources::Table { axes: self.axes.clone(), entries }, Route::Shortest)
    }

    /// The quarter in another device's block, for each device: `of[rank]`.
    fn slot(&self, ranks: &[u64], stream: &Stream<'_>, of: Vec<u32>) -> Region {
        let mut region = Vec::new();
        for (dim, n) in ranks.iter().enumerate() {
            if *n > 1 {
                let minor: u64 = ranks[dim + 1..].iter().product();
                let entries = of.iter().map(|device| Some(u64::from(*device) / minor % n)).collect();
                region.push(Cut::At(CoordMap::Table { axes: self.axes.clone(), entries }));
            }
            region.push(match dim == stream.dim {
                true => Cut::Range { start: stream.range.start, end: stream.range.end },
                false => Cut::Whole,
            });
        }
        region
    }

    /// The number of shards gathered along each dim.
    fn ranks(&self, mesh: &Mesh, dims: usize) -> Vec<u64> {
        (0..dims).map(|dim| self.dims.get(dim).map_or(1, |axes| axes.group_size(mesh))).collect()
    }
}

impl Stream<'_> {
    fn part(&self) -> Part {
        Part { dim: self.dim, range: self.range.clone() }
    }

    /// The source of each device at this many hops.
    fn before(&self, hops: usize) -> Vec<u32> {
        self.away(hops, !self.back)
    }

    /// The destination of each device at this many hops.
    fn after(&self, hops: usize) -> Vec<u32> {
        self.away(hops, self.back)
    }

    fn away(&self, hops: usize, back: bool) -> Vec<u32> {
        let n = self.cycle.len();
        let by = if back { n - hops } else { hops };
        self.places.iter().map(|place| self.cycle[(place + by) % n]).collect()
    }
}

/// The extents of a gathered block, with the shards apart.
fn view(shard: &[u64], ranks: &[u64]) -> Vec<u64> {
    let apart = |(extent, n): (&u64, &u64)| if *n > 1 { vec![*n, *extent] } else { vec![*extent] };
    shard.iter().zip(ranks).flat_map(apart).collect()
}
