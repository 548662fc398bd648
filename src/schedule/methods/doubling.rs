//! Gathers in about log2 n rounds: in each, every device copies blocks held by another one.
//!
//! A round gives the source of each device and the number of its first held blocks to copy. The number of blocks at least
//! doubles per round, except in the last. A reduction is the same reversed in time.
//!
//! Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005);
//! Bruck et al. (1997); De Sensi et al., "Swing" (2024).

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::Method;
use super::place::{Part, Place, halves, range_region};
use crate::mesh::Axes;
use crate::method::{Doubling, Family};
use crate::operator::Operator;

/// Limit on the axis length; the tables grow with its square.
pub(super) const LONGEST: u64 = 1024;

/// The device from which each one takes the first `count` blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Round {
    sources: Vec<u64>,
    count: u64,
}

/// The rounds of a method, for the shard or for each of its halves.
pub(super) struct Rounds(Vec<Vec<Round>>);

/// The rounds of a method, on an axis of at least 2; `None` for other methods.
pub(super) fn rounds(method: Method, n: u64) -> Option<Rounds> {
    let exchanges = |distances: Vec<u64>| {
        let round = |(distance, held): (u64, u32)| Round {
            sources: (0..n).map(|at| at ^ distance).collect(),
            count: 1 << held,
        };
        distances.into_iter().zip(0..).map(round).collect::<Vec<_>>()
    };
    let steps = n.ilog2();
    let Family::Doubling(way) = method.family() else { return None };
    match way {
        _ if n > LONGEST => None,
        Doubling::NearestFirst if n.is_power_of_two() => {
            Some(Rounds(vec![exchanges((0..steps).map(|step| 1 << step).collect())]))
        }
        Doubling::FarthestFirst if n.is_power_of_two() => {
            Some(Rounds(vec![exchanges((0..steps).rev().map(|step| 1 << step).collect())]))
        }
        Doubling::Swing if n.is_power_of_two() => {
            Some(Rounds([false, true].map(|mirrored| swing(n, mirrored)).to_vec()))
        }
        Doubling::Bruck => {
            let powers = (0..n.next_power_of_two().ilog2()).map(|step| 1u64 << step);
            let round = |distance: u64| Round {
                sources: (0..n).map(|at| (at + distance) % n).collect(),
                count: distance.min(n - distance),
            };
            Some(Rounds(vec![powers.map(round).collect()]))
        }
        Doubling::NearestFirst | Doubling::FarthestFirst | Doubling::Swing => None,
    }
}

/// The farthest peer first, while messages are small: distances .., 11, 5, 3, 1, 1; even devices one way, odd ones the
/// other.
/// ones the other.
fn swing(n: u64, mirrored: bool) -> Vec<Round> {
    let steps = n.ilog2();
    let signed = i64::try_from(n).expect("at most the longest");
    let round = |(step, held): (u32, u32)| {
        // 1, -1, 3, -5, 11, ..: the sum of the powers of -2.
        let distance = (1 - (-2i64).pow(step + 1)) / 3;
        let peer = |at: i64| if (at % 2 == 0) != mirrored { at + distance } else { at - distance };
        let sources = (0..signed).map(|at| peer(at).rem_euclid(signed).unsigned_abs()).collect();
        Round { sources, count: 1 << held }
    };
    (0..steps).rev().zip(0..).map(round).collect()
}

/// The blocks of each device after all rounds, in order.
fn held(rounds: &[Round], n: u64) -> Vec<Vec<u64>> {
    let mut held: Vec<Vec<u64>> = (0..n).map(|at| vec![at]).collect();
    for round in rounds {
        let before = held.clone();
        for (blocks, source) in held.iter_mut().zip(&round.sources) {
            blocks.extend(before[index(*source)].iter().copied().take(index(round.count)));
        }
    }
    held
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("at most the longest")
}

/// The rounds for one part of each shard.
struct Lane<'a> {
    place: Place,
    rounds: &'a [Round],
    part: Option<Part>,
    held: Vec<Vec<u64>>,
}

impl Rounds {
    /// The parts of a shard; a shard of one element uses the first half's rounds only.
    fn lanes(&self, place: Place, n: u64, shard: &[u64]) -> Vec<Lane<'_>> {
        let parts = match (&self.0[..], halves(&place.shard_view(shard))) {
            ([_, _], Some(parts)) => parts.map(Some).to_vec(),
            _ => vec![None],
        };
        let lane = |(rounds, part)| Lane { place, rounds, part, held: held(rounds, n) };
        self.0.iter().map(Vec::as_slice).zip(parts).map(lane).collect()
    }

    fn most(&self) -> usize {
        self.0.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// Runs the rounds; at the end each held block goes into its slot.
pub(super) fn all_gather(builder: &mut Builder<'_>, rounds: &Rounds, place: Place, shard: OpId) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let mut extents = builder.extents(shard).to_vec();
    let lanes = rounds.lanes(place, n, &extents);
    let mut values: Vec<OpId> = Vec::new();
    for lane in &lanes {
        values.push(place.cut(builder, shard, lane.part.as_ref()));
    }
    for round in 0..rounds.most() {
        for (lane, value) in lanes.iter().zip(&mut values) {
            *value = lane.take_over(builder, round, *value);
        }
    }
    let mut pieces = Vec::new();
    for (lane, value) in lanes.iter().zip(values) {
        for position in 0..n {
            let block = lane.blocks(builder, value, n, position, position + 1);
            pieces.push((block, place.region(&extents, lane.slot(position), lane.part.as_ref())));
        }
    }
    extents[place.dim] *= n;
    let view = place.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// Runs the rounds backwards: each device gives away the sums that it would have received in a gather.
pub(super) fn reduce_scatter(
    builder: &mut Builder<'_>,
    rounds: &Rounds,
    place: Place,
    value: OpId,
    operator: Operator,
) -> OpId {
    let n = place.axes.group_size(builder.mesh());
    let mut extents = builder.extents(value).to_vec();
    extents[place.dim] /= n;
    let lanes = rounds.lanes(place, n, &extents);
    let mut values: Vec<OpId> = Vec::new();
    for lane in &lanes {
        let mut blocks = Vec::new();
        for position in 0..n {
            blocks.push(place.slot(builder, value, lane.slot(position), lane.part.as_ref()));
        }
        values.push(lane.joined(builder, &blocks.iter().map(|block| (*block, 1)).collect::<Vec<_>>()));
    }
    for round in (0..rounds.most()).rev() {
        for (lane, value) in lanes.iter().zip(&mut values) {
            *value = lane.give_away(builder, round, *value, operator);
        }
    }
    let view = place.shard_view(&extents);
    let pieces: Vec<_> =
        lanes.iter().zip(&values).filter_map(|(lane, value)| Some((*value, lane.part.as_ref()?))).collect();
    match pieces[..] {
        [] => values[0],
        _ => {
            let pieces = pieces.into_iter().map(|(value, part)| (value, range_region(view.len(), part)));
            builder.assemble(extents, view.clone(), pieces.collect())
        }
    }
}

/// Combines whole values: in each round two devices exchange and add their values.
pub(super) fn all_reduce(builder: &mut Builder<'_>, axes: Axes, value: OpId, operator: Operator) -> OpId {
    let n = axes.group_size(builder.mesh());
    let mut value = value;
    for step in 0..n.ilog2() {
        let sources = (0..n).map(|at| at ^ (1 << step)).collect::<Vec<_>>();
        let other = builder.shuffle(value, table(axes, &sources), Route::Shortest);
        value = builder.add(&[value, other], operator);
    }
    value
}

/// The source of each device of a group.
fn table(axes: Axes, sources: &[u64]) -> Sources {
    let entries = sources.iter().map(|source| u32::try_from(*source).ok()).collect();
    Sources::Table { axes: axes.iter().collect(), entries }
}

impl Lane<'_> {
    /// The number of blocks a device holds before a round.
    fn before(&self, round: usize) -> u64 {
        1 + self.rounds[..round].iter().map(|round| round.count).sum::<u64>()
    }

    fn take_over(&self, builder: &mut Builder<'_>, round: usize, value: OpId) -> OpId {
        let (Round { sources, count }, before) = (&self.rounds[round], self.before(round));
        let sent = self.blocks(builder, value, before, 0, *count);
        let taken = builder.shuffle(sent, table(self.place.axes, sources), Route::Shortest);
        self.joined(builder, &[(value, before), (taken, *count)])
    }

    fn give_away(&self, builder: &mut Builder<'_>, round: usize, value: OpId, operator: Operator) -> OpId {
        let (Round { sources, count }, before) = (&self.rounds[round], self.before(round));
        let mut takers = vec![0; sources.len()];
        for (at, source) in (0..).zip(sources) {
            takers[index(*source)] = at;
        }
        let sent = self.blocks(builder, value, before + count, before, before + count);
        let given = builder.shuffle(sent, table(self.place.axes, &takers), Route::Shortest);
        let own = self.blocks(builder, value, before + count, 0, *count);
        let sum = builder.add(&[own, given], operator);
        if *count == before {
            return sum;
        }
        let rest = self.blocks(builder, value, before + count, *count, before);
        self.joined(builder, &[(sum, *count), (rest, before - count)])
    }

    /// A range of the held blocks.
    fn blocks(&self, builder: &mut Builder<'_>, value: OpId, held: u64, start: u64, end: u64) -> OpId {
        if (start, end) == (0, held) {
            return value;
        }
        let view = split(builder.extents(value), self.place.dim, held);
        let mut region = vec![Cut::Whole; view.len()];
        region[self.place.dim] = Cut::Range { start, end };
        builder.slice(value, view, region)
    }

    /// The concatenation of values of this many blocks each.
    fn joined(&self, builder: &mut Builder<'_>, values: &[(OpId, u64)]) -> OpId {
        let dim = self.place.dim;
        let mut extents = builder.extents(values[0].0).to_vec();
        extents[dim] /= values[0].1;
        let count = values.iter().map(|(_, count)| count).sum();
        extents[dim] *= count;
        let view = split(&extents, dim, count);
        let mut pieces = Vec::new();
        let mut start = 0;
        for (value, count) in values {
            let mut region = vec![Cut::Whole; view.len()];
            region[dim] = Cut::Range { start, end: start + count };
            pieces.push((*value, region));
            start += count;
        }
        builder.assemble(extents, view, pieces)
    }

    /// The owner of the block at a position.
    fn slot(&self, position: u64) -> CoordMap {
        let entries = self.held.iter().map(|blocks| Some(blocks[index(position)])).collect();
        CoordMap::Table { axes: self.place.axes.iter().collect(), entries }
    }
}
