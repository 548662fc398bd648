//! Ring and line gathers and reductions, from neighbour to neighbour.
//!
//! A gather is described by how far each shard travels up (towards higher coordinates) and down. Every step forwards the
//! data of the previous step. A reduction is the same reversed in time: partial sums travel towards their owner and add
//! one contribution at each device, so each contribution travels once. A method uses the same links in the same
//! directions for both.

use super::super::{Builder, CoordMap, OpId, Route, Sources};
use super::Method;
use super::ordered::{Term, combine};
use super::place::{Part, Place, halves, range_region};
use crate::mesh::{Axes, Mesh};
use crate::method::{self, Family};
use crate::operator::Operator;

/// Distances that shards travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Links up.
    up: i64,
    /// Links down.
    down: i64,
    /// Whether coordinates wrap; without, nothing passes the ends.
    wrap: bool,
    /// The treatment of halves.
    halves: Halves,
}

/// Which shards are halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halves {
    /// No shard is halved.
    Never,
    /// All are halved: one half goes up, the other down.
    Always,
    /// After the last step, one half goes one link further up and the other one link further down.
    AtAntipode,
}

/// The distances of a method, on an axis of at least 2; `None` for other methods.
///
/// An axis of 2 is one cable, where a ring equals a line.
pub(super) fn flow(method: Method, n: u64) -> Option<Flow> {
    let n = i64::try_from(n).ok()?;
    let Family::Flow(way) = method.family() else { return None };
    let line = Flow { up: n - 1, down: n - 1, wrap: false, halves: Halves::Never };
    let ring = |up, down, halves| Flow { up, down, wrap: true, halves };
    Some(match way {
        _ if n == 2 => line,
        method::Flow::Clockwise => ring(n - 1, 0, Halves::Never),
        method::Flow::Anticlockwise => ring(0, n - 1, Halves::Never),
        method::Flow::Pair => ring(n - 1, n - 1, Halves::Always),
        method::Flow::Balanced if n % 2 == 0 => ring(n / 2 - 1, n / 2 - 1, Halves::AtAntipode),
        method::Flow::MeetInMiddle | method::Flow::Balanced => ring(n / 2, (n - 1) / 2, Halves::Never),
        method::Flow::Line => line,
    })
}

/// The stream in one direction.
#[derive(Clone, Debug)]
struct Stream {
    /// 1 for up, -1 for down.
    sign: i64,
    /// Links.
    steps: i64,
    /// The part of each shard that travels, if not all.
    part: Option<Part>,
    /// The part that travels one more link.
    last: Option<Part>,
}

impl Stream {
    fn total(&self) -> i64 {
        self.steps + i64::from(self.last.is_some())
    }

    /// The part of a shard that still travels after this many links.
    fn part_after(&self, links: i64) -> Option<&Part> {
        if links > self.steps { self.last.as_ref() } else { self.part.as_ref() }
    }
}

impl Flow {
    /// The streams for shards of these extents. A shard of one element is not halved and goes the first way.
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

    /// Sends by one rank.
    fn forward(&self, builder: &mut Builder<'_>, axes: Axes, value: OpId, sign: i64) -> OpId {
        builder.shuffle(value, Sources::Shift { axes, by: -sign, wrap: self.wrap }, Route::Hops(sign))
    }
}

/// Runs both directions step by step; the shard that came s links up goes into slot c - s.
pub(super) fn all_gather(builder: &mut Builder<'_>, flow: Flow, place: Place, shard: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let mut extents = builder.extents(shard).to_vec();
    let whole = place.shard_view(&extents);
    let streams = flow.streams(&whole);
    let mut moving: Vec<OpId> = Vec::new();
    for stream in &streams {
        moving.push(place.cut(builder, shard, stream.part.as_ref()));
    }
    let mut pieces = vec![(shard, place.region(&extents, CoordMap::along(builder.mesh(), place.axes, 0, false), None))];
    for s in 1..=streams.iter().map(Stream::total).max().unwrap_or(0) {
        for (stream, value) in streams.iter().zip(&mut moving).filter(|(stream, _)| s <= stream.total()) {
            if s > stream.steps {
                *value = place.cut(builder, *value, stream.last.as_ref());
            }
            *value = flow.forward(builder, place.axes, *value, stream.sign);
            let slot = flow.slot(builder.mesh(), place.axes, -stream.sign * s);
            pieces.push((*value, place.region(&extents, slot, stream.part_after(s))));
        }
    }
    extents[place.dim] *= n;
    let view = place.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// The state of a reduction.
struct Reduction<'a, 'b> {
    builder: &'a mut Builder<'b>,
    flow: Flow,
    place: Place,
    value: OpId,
    operator: Operator,
}

/// Partial sums start where the gather would end and add a contribution at each device.
pub(super) fn reduce_scatter(
    builder: &mut Builder<'_>,
    flow: Flow,
    place: Place,
    value: OpId,
    operator: Operator,
) -> OpId {
    let mut block = builder.extents(value).to_vec();
    block[place.dim] /= place.axes.group_size(builder.mesh());
    let streams = flow.streams(&place.shard_view(&block));
    let mut reduction = Reduction { builder, flow, place, value, operator };
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
    reduction.finish(&streams, &arrived, block)
}

impl Reduction<'_, '_> {
    /// The device's contribution to the block of the device `links` further on.
    fn own(&mut self, links: i64, part: Option<&Part>) -> OpId {
        let slot = self.flow.slot(self.builder.mesh(), self.place.axes, links);
        self.place.slot(self.builder, self.value, slot, part)
    }

    /// Adds the device's contribution to the received sum and sends it on, with `links` to go.
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
        self.flow.forward(self.builder, self.place.axes, sum, stream.sign)
    }

    /// A whole partial sum, one half of which already has a contribution.
    fn complete(&mut self, owner: i64, half: OpId, part: &Part) -> OpId {
        let whole = self.own(owner, None);
        let extents = self.builder.extents(whole).to_vec();
        let view = self.place.shard_view(&extents);
        let parts = halves(&view).expect("one half has arrived");
        let mut pieces = Vec::new();
        for other in &parts {
            let own = self.place.cut(self.builder, whole, Some(other));
            let sum = if other.range == part.range { self.builder.add(&[half, own], self.operator) } else { own };
            pieces.push((sum, range_region(view.len(), other)));
        }
        self.builder.assemble(extents, view, pieces)
    }

    /// The owner adds its own contribution to the sums from both sides.
    fn finish(&mut self, streams: &[Stream], arrived: &[OpId], block: Vec<u64>) -> OpId {
        let view = self.place.shard_view(&block);
        let mut pieces = Vec::new();
        for (stream, partial) in streams.iter().zip(arrived) {
            if let Some(part) = &stream.part {
                let own = self.own(0, Some(part));
                let sum = self.builder.add(&[own, *partial], self.operator);
                pieces.push((sum, range_region(view.len(), part)));
            }
        }
        if pieces.is_empty() {
            let own = self.own(0, None);
            return self.builder.add(&[&[own], arrived].concat(), self.operator);
        }
        self.builder.assemble(block, view, pieces)
    }
}

/// Whole values travel both ways, round a ring until they meet or up to the ends of a line.
fn whole_values(builder: &mut Builder<'_>, method: Method, axes: Axes, value: OpId) -> Vec<Term> {
    let n = axes.group_size(builder.mesh());
    let like = if method == Method::LineBroadcast { Method::Line } else { Method::MeetInMiddleRing };
    let mut terms = vec![Term { value, from: 0, wrap: false }];
    let Some(flow) = flow(like, n) else { return terms };
    let (mut up, mut down) = (value, value);
    for step in 1..=flow.up.max(flow.down) {
        if step <= flow.up {
            up = flow.forward(builder, axes, up, 1);
            terms.push(Term { value: up, from: -step, wrap: flow.wrap });
        }
        if step <= flow.down {
            down = flow.forward(builder, axes, down, -1);
            terms.push(Term { value: down, from: step, wrap: flow.wrap });
        }
    }
    terms
}

/// Each device combines all whole values.
pub(super) fn all_reduce(
    builder: &mut Builder<'_>,
    method: Method,
    axes: Axes,
    value: OpId,
    operator: Operator,
) -> OpId {
    let terms = whole_values(builder, method, axes, value);
    combine(builder, axes, &terms, operator)
}

/// Each device combines its block of all whole values.
pub(super) fn reduce_scatter_whole(
    builder: &mut Builder<'_>,
    method: Method,
    place: Place,
    value: OpId,
    operator: Operator,
) -> OpId {
    let here = CoordMap::along(builder.mesh(), place.axes, 0, false);
    let mut blocks = Vec::new();
    for term in whole_values(builder, method, place.axes, value) {
        blocks.push(place.slot(builder, term.value, here.clone(), None));
    }
    builder.add(&blocks, operator)
}
