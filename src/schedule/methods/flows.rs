//! Gathers and reductions that go from neighbour to neighbour.
//!
//! A gather is told by how far each shard flows up (towards higher coordinates) and down. Every step forwards what
//! arrived in the step before. A reduction is the same turned round in time: partial sums flow towards their owner
//! and take up one contribution at each device on the way, so that each contribution travels once. What flows up in
//! the one flows up in the other: a method uses the same links in both.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::Method;
use crate::mesh::{Axes, Mesh};
use crate::operator::Operator;
use std::ops::Range;

/// How far shards flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Links up.
    up: i64,
    /// Links down.
    down: i64,
    /// Whether coordinates wrap; without, nothing passes the ends.
    wrap: bool,
    /// What happens to halves.
    halves: Halves,
}

/// Which shards are cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halves {
    /// None.
    Never,
    /// All: one half flows up, the other down.
    Always,
    /// After the last step, one half flows one link further up and the other one link further down.
    AtAntipode,
}

/// The flow of a method that has one, on an axis of at least 2.
///
/// An axis of 2 is one cable: there each ring is the line.
pub(super) fn flow(method: Method, n: u64) -> Option<Flow> {
    let n = i64::try_from(n).ok()?;
    let ring = |up, down, halves| Some(Flow { up, down, wrap: true, halves });
    let line = Some(Flow { up: n - 1, down: n - 1, wrap: false, halves: Halves::Never });
    match method {
        Method::ClockwiseRing
        | Method::AnticlockwiseRing
        | Method::BidirectionalRingPair
        | Method::MeetInMiddleRing
        | Method::BalancedMeetInMiddleRing
            if n == 2 =>
        {
            line
        }
        Method::ClockwiseRing => ring(n - 1, 0, Halves::Never),
        Method::AnticlockwiseRing => ring(0, n - 1, Halves::Never),
        Method::BidirectionalRingPair => ring(n - 1, n - 1, Halves::Always),
        Method::BalancedMeetInMiddleRing if n % 2 == 0 => ring(n / 2 - 1, n / 2 - 1, Halves::AtAntipode),
        Method::MeetInMiddleRing | Method::BalancedMeetInMiddleRing => ring(n / 2, (n - 1) / 2, Halves::Never),
        Method::Line => line,
        Method::OneHop | Method::FuriosaRotation | Method::FuriosaDiagonal | Method::Direct | Method::DirectHalves => {
            None
        }
    }
}

/// A range of one dim of a shard.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) dim: usize,
    pub(super) range: Range<u64>,
}

/// The two halves of a block along its longest dim, the first the smaller one; `None` of a single element.
pub(super) fn halves(extents: &[u64]) -> Option<[Part; 2]> {
    // Of equal dims the first: there the halves lie together in memory.
    let (dim, extent) = extents.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent)?;
    let part = |range| Part { dim, range };
    (extent > 1).then(|| [part(0..extent / 2), part(extent / 2..extent)])
}

/// What flows in one direction.
#[derive(Clone, Debug)]
struct Stream {
    /// 1 for up, -1 for down.
    sign: i64,
    /// Links.
    steps: i64,
    /// The part of each shard that flows, if not all.
    part: Option<Part>,
    /// The part that flows one link more.
    last: Option<Part>,
}

impl Stream {
    fn total(&self) -> i64 {
        self.steps + i64::from(self.last.is_some())
    }

    /// What of a shard is still there after so many links.
    fn part_after(&self, links: i64) -> Option<&Part> {
        if links > self.steps { self.last.as_ref() } else { self.part.as_ref() }
    }
}

impl Flow {
    /// The streams for shards of these extents. A shard of one element cannot be cut and goes the first way.
    fn streams(&self, extents: &[u64]) -> Vec<Stream> {
        let stream = |sign, steps| Stream { sign, steps, part: None, last: None };
        let (mut up, mut down) = (stream(1, self.up), stream(-1, self.down));
        match (self.halves, halves(extents)) {
            (Halves::Never, _) => {}
            (Halves::Always, Some([first, second])) => (up.part, down.part) = (Some(first), Some(second)),
            (Halves::Always, None) => down.steps = 0,
            (Halves::AtAntipode, Some([first, second])) => (up.last, down.last) = (Some(first), Some(second)),
            (Halves::AtAntipode, None) => up.steps += 1,
        }
        [up, down].into_iter().filter(|stream| stream.total() > 0).collect()
    }

    /// The slot `shift` further up.
    fn slot(&self, mesh: &Mesh, axes: Axes, shift: i64) -> CoordMap {
        CoordMap::along(mesh, axes, shift, self.wrap)
    }

    /// One rank on.
    fn forward(&self, builder: &mut Builder<'_>, axes: Axes, value: OpId, sign: i64) -> OpId {
        builder.shuffle(value, Sources::Shift { axes, by: -sign, wrap: self.wrap }, Route::Hops(sign))
    }
}

/// One slot of a dim that is cut in slots, and a part of what is there; the part counts the dims of the shard.
pub(super) fn region(rank: usize, dim: usize, slot: CoordMap, part: Option<&Part>) -> Region {
    let mut region = vec![Cut::Whole; rank + 1];
    region[dim] = Cut::At(slot);
    if let Some(part) = part {
        let place = if part.dim < dim { part.dim } else { part.dim + 1 };
        region[place] = Cut::Range { start: part.range.start, end: part.range.end };
    }
    region
}

/// Both directions step by step; the shard that came s links up goes into slot c - s.
pub(super) fn all_gather(builder: &mut Builder<'_>, flow: Flow, axes: Axes, shard: OpId, dim: usize) -> OpId {
    let n = axes.group_size(builder.mesh());
    let rank = builder.extents(shard).len();
    let mut extents = builder.extents(shard).to_vec();
    let streams = flow.streams(&extents);
    let mut moving: Vec<OpId> = Vec::new();
    for stream in &streams {
        moving.push(cut(builder, shard, stream.part.as_ref()));
    }
    let mut pieces = vec![(shard, region(rank, dim, CoordMap::along(builder.mesh(), axes, 0, false), None))];
    for s in 1..=streams.iter().map(Stream::total).max().unwrap_or(0) {
        for (stream, value) in streams.iter().zip(&mut moving).filter(|(stream, _)| s <= stream.total()) {
            if s > stream.steps {
                *value = cut(builder, *value, stream.last.as_ref());
            }
            *value = flow.forward(builder, axes, *value, stream.sign);
            let slot = flow.slot(builder.mesh(), axes, -stream.sign * s);
            pieces.push((*value, region(rank, dim, slot, stream.part_after(s))));
        }
    }
    extents[dim] *= n;
    let view = split(&extents, dim, n);
    builder.assemble(extents, view, pieces)
}

fn cut(builder: &mut Builder<'_>, value: OpId, part: Option<&Part>) -> OpId {
    match part {
        Some(part) => builder.slice_range(value, part.dim, part.range.clone()),
        None => value,
    }
}

/// The state of a reduction.
struct Reduction<'a, 'b> {
    builder: &'a mut Builder<'b>,
    flow: Flow,
    axes: Axes,
    value: OpId,
    dim: usize,
    operator: Operator,
}

/// Partial sums start where the gather would end and take up a contribution at each device.
pub(super) fn reduce_scatter(
    builder: &mut Builder<'_>,
    flow: Flow,
    axes: Axes,
    value: OpId,
    dim: usize,
    operator: Operator,
) -> OpId {
    let mut block = builder.extents(value).to_vec();
    block[dim] /= axes.group_size(builder.mesh());
    let streams = flow.streams(&block);
    let mut reduction = Reduction { builder, flow, axes, value, dim, operator };
    let mut arrived: Vec<Option<OpId>> = vec![None; streams.len()];
    for t in 0..streams.iter().map(Stream::total).max().unwrap_or(0) {
        for (stream, partial) in streams.iter().zip(&mut arrived) {
            let links = stream.total() - t;
            if links > 0 {
                *partial = Some(reduction.advance(stream, links, *partial));
            }
        }
    }
    let arrived: Vec<OpId> = arrived.into_iter().flatten().collect();
    reduction.finish(&streams, &arrived, &block)
}

impl Reduction<'_, '_> {
    /// The own contribution to the block of the device `links` further on.
    fn own(&mut self, links: i64, part: Option<&Part>) -> OpId {
        let n = self.axes.group_size(self.builder.mesh());
        let extents = self.builder.extents(self.value);
        let (rank, view) = (extents.len(), split(extents, self.dim, n));
        let slot = self.flow.slot(self.builder.mesh(), self.axes, links);
        self.builder.slice(self.value, view, region(rank, self.dim, slot, part))
    }

    /// Adds the own contribution to what arrived, and sends the sum on: it has `links` to go yet.
    fn advance(&mut self, stream: &Stream, links: i64, arrived: Option<OpId>) -> OpId {
        let owner = stream.sign * links;
        let sum = match (arrived, &stream.last) {
            (Some(half), Some(part)) if links == stream.steps => self.complete(owner, half, part),
            (Some(partial), _) => {
                let own = self.own(owner, stream.part_after(links));
                self.builder.add(&[partial, own], self.operator)
            }
            (None, _) => self.own(owner, stream.part_after(links)),
        };
        self.flow.forward(self.builder, self.axes, sum, stream.sign)
    }

    /// A whole partial sum, of which one half has a contribution already.
    fn complete(&mut self, owner: i64, half: OpId, part: &Part) -> OpId {
        let whole = self.own(owner, None);
        let extents = self.builder.extents(whole).to_vec();
        let parts = halves(&extents).expect("one half has arrived");
        let mut pieces = Vec::new();
        for other in &parts {
            let own = self.builder.slice_range(whole, other.dim, other.range.clone());
            let sum = if other.range == part.range { self.builder.add(&[half, own], self.operator) } else { own };
            pieces.push((sum, range_region(extents.len(), other)));
        }
        self.builder.assemble(extents.clone(), extents, pieces)
    }

    /// The owner adds its own contribution to what came from both sides.
    fn finish(&mut self, streams: &[Stream], arrived: &[OpId], block: &[u64]) -> OpId {
        let mut pieces = Vec::new();
        for (stream, partial) in streams.iter().zip(arrived) {
            if let Some(part) = &stream.part {
                let own = self.own(0, Some(part));
                let sum = self.builder.add(&[own, *partial], self.operator);
                pieces.push((sum, range_region(block.len(), part)));
            }
        }
        if pieces.is_empty() {
            let own = self.own(0, None);
            return self.builder.add(&[&[own], arrived].concat(), self.operator);
        }
        self.builder.assemble(block.to_vec(), block.to_vec(), pieces)
    }
}

/// A part of a block as a region of it.
pub(super) fn range_region(rank: usize, part: &Part) -> Region {
    let mut region = vec![Cut::Whole; rank];
    region[part.dim] = Cut::Range { start: part.range.start, end: part.range.end };
    region
}
