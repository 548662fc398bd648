//! Which method: the one whose operations take the least simulated time on the axis by itself.

use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId};
use crate::schedule::methods::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, OpId, Schedule};
use crate::sim::{clock, proof};
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;
use std::collections::BTreeSet;

/// The part of the machine along some runs of axes, and the runs there: all groups that share its links are in it.
pub(super) fn along(topology: &Topology, runs: &[Axes]) -> (Topology, Vec<Axes>) {
    let axes: Axes = runs.iter().flat_map(|run| run.iter()).collect();
    let (part, kept) = topology.only(axes.set());
    let place = |axis| kept.iter().position(|kept| *kept == axis).map(AxisId::new);
    (part, runs.iter().map(|run| run.iter().filter_map(place).collect()).collect())
}

/// The most operations and operands, times the devices that are followed, of a schedule that is proven or timed.
pub(super) const MOST_WORK: usize = 1 << 25;

/// Whether a schedule is more than the proof takes. Along which axes one device stands for all is looked up only where
/// it matters.
pub(super) fn is_larger_than_proven(schedule: &Schedule) -> bool {
    is_larger(schedule, || proof::followed(schedule))
}

fn is_larger(schedule: &Schedule, followed: impl FnOnce() -> usize) -> bool {
    let work = schedule.operations.node_count() + schedule.operations.edge_count();
    let is_more = |devices: usize| work.saturating_mul(devices) > MOST_WORK;
    is_more(schedule.mesh.device_count()) && is_more(followed())
}

/// What the clock says of the operations of one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// When the last device has its value.
    pub time: Time,
    /// How long the busiest link is busy: in however many chunks, it takes no less.
    pub load: Time,
}

/// The simulated time of some operations on a value of these extents that all devices have; `None` if there are too
/// many, or a message has no way.
pub fn simulate(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    build: impl FnOnce(&mut Builder<'_>, OpId),
) -> Option<Trial> {
    simulate_below(topology, dtype, extents, Time::MAX, build)
}

/// The same; `None` as well if it takes the time of the limit or more.
pub(super) fn simulate_below(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    limit: Time,
    build: impl FnOnce(&mut Builder<'_>, OpId),
) -> Option<Trial> {
    let mut schedule = Schedule::new(topology.mesh.clone());
    schedule.arrays.push(Array {
        name: String::new(),
        dtype,
        dims: vec![String::new(); extents.len()],
        extents: extents.to_vec(),
        valid: extents.to_vec(),
        definition: Dense::Input,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), Sharding::replicated(extents.len()));
    build(&mut builder, input);
    let followed = || {
        let collapsed = clock::collapsed(&schedule, topology).group_size(&schedule.mesh);
        schedule.mesh.device_count() / usize::try_from(collapsed).unwrap_or(1).max(1)
    };
    if is_larger(&schedule, followed) {
        return None;
    }
    let timing = clock::run_below(&schedule, topology, limit).ok()??;
    Some(Trial { time: timing.makespan, load: timing.busiest_link_time() })
}

/// The fastest of the candidates, the first of equals, and its number of chunks. `run` tries a number of chunks, and
/// may give up at the limit.
pub(super) fn fastest(
    candidates: &[Method],
    extents: &[u64],
    run: impl Fn(Method, u64, Time) -> Option<Trial>,
) -> Option<(Method, u64)> {
    if let [only] = candidates
        && !only.in_chunks()
    {
        return Some((*only, 1));
    }
    let mut best: Option<(Time, (Method, u64))> = None;
    for method in candidates {
        // What is slow in one chunk may be fast in many.
        let least = best.filter(|_| !method.in_chunks()).map_or(Time::MAX, |(least, _)| least);
        let Some(trial) = run(*method, 1, least) else { continue };
        let slower = |time: Time| best.is_some_and(|(least, _)| time >= least);
        let (time, chunks) = match method.in_chunks() {
            // What is too much for a link in one chunk is so in many.
            true if slower(trial.load) => continue,
            true => best_chunks(extents, trial.time, |chunks| Some(run(*method, chunks, Time::MAX)?.time)),
            false => (trial.time, 1),
        };
        if !slower(time) {
            best = Some((time, (*method, chunks)));
        }
    }
    best.map(|(_, way)| way)
}

/// A good number of chunks, of those into which some dim divides, and its time; `whole` is that of one chunk.
pub(super) fn best_chunks(extents: &[u64], whole: Time, time: impl Fn(u64) -> Option<Time>) -> (Time, u64) {
    let counts: BTreeSet<u64> = extents.iter().flat_map(|extent| divisors(*extent)).chain([1]).collect();
    let time = |chunks| if chunks == 1 { Some(whole) } else { time(chunks) };
    more_chunks(LEAST_SAVING, |chunks| counts.range(chunks..).next().copied(), time).unwrap_or((whole, 1))
}

/// What is saved by chunks that follow each other along a tree should be 1 part in so many: their operations are many.
pub(super) const LEAST_SAVING: u128 = 128;

/// Goes to twice as many chunks or more as long as each time that saves a little: 1 part in `least_saving`.
///
/// More chunks take less time until their latencies do not hide any more; but each makes operations, so what saves
/// next to nothing is not worth it. `next` is the first number of chunks that is possible from a number on.
pub(super) fn more_chunks(
    least_saving: u128,
    next: impl Fn(u64) -> Option<u64>,
    time: impl Fn(u64) -> Option<Time>,
) -> Option<(Time, u64)> {
    let mut best: Option<(Time, u64)> = None;
    // One step may bring nothing, where the next one does.
    let mut idle = 0;
    let mut chunks = next(1);
    while let Some(count) = chunks
        && idle < 2
        && let Some(time) = time(count)
    {
        let saves = best.is_none_or(|(least, _)| time.ticks() < least.ticks() - least.ticks() / least_saving);
        idle = if saves { 0 } else { idle + 1 };
        best = if saves { Some((time, count)) } else { best };
        chunks = next(2 * count);
    }
    best
}

/// All numbers up to 2^16 that divide a size.
fn divisors(size: u64) -> impl Iterator<Item = u64> {
    (1..=size.min(1 << 16)).filter(move |divisor| size.is_multiple_of(*divisor))
}
