//! Which method: the one whose operations take the least simulated time on the axis by itself.

use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId};
use crate::schedule::methods::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, OpId, Schedule};
use crate::sim::clock;
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

/// Operations of one collective times devices: what is larger is too much to be tried on the clock.
const MOST_WORK: usize = 1 << 24;

/// The simulated time of some operations on a value of these extents that all devices have; `None` if there are too
/// many, or a message has no way.
pub fn simulate(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    build: impl FnOnce(&mut Builder<'_>, OpId),
) -> Option<Time> {
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
    if schedule.operations.node_count().saturating_mul(topology.mesh.device_count()) > MOST_WORK {
        return None;
    }
    clock::run(&schedule, topology).ok().map(|timing| timing.makespan)
}

/// The fastest of the candidates, the first of equals, and its number of chunks.
pub(super) fn fastest(
    candidates: &[Method],
    extents: &[u64],
    time: impl Fn(Method, u64) -> Option<Time>,
) -> Option<(Method, u64)> {
    if let [only] = candidates
        && !only.in_chunks()
    {
        return Some((*only, 1));
    }
    let timed = candidates.iter().filter_map(|method| {
        let (time, chunks) = if method.in_chunks() {
            best_chunks(extents, |chunks| time(*method, chunks))?
        } else {
            (time(*method, 1)?, 1)
        };
        Some((time, (*method, chunks)))
    });
    timed.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, way)| way)
}

/// The number of chunks with the least time, of those into which some dim divides.
///
/// More chunks take less time until their latencies do not hide any more, so the search goes up in steps of at least
/// two, and then looks between the neighbours of the best.
fn best_chunks(extents: &[u64], time: impl Fn(u64) -> Option<Time>) -> Option<(Time, u64)> {
    let counts: BTreeSet<u64> = extents.iter().flat_map(|extent| divisors(*extent)).chain([1]).collect();
    let mut tried: Vec<(Time, u64)> = Vec::new();
    let mut next = counts.first().copied();
    while let Some(chunks) = next {
        let Some(time) = time(chunks) else { break };
        tried.push((time, chunks));
        if tried.len() > 2 && tried[tried.len() - 3..].is_sorted() {
            break;
        }
        next = counts.range(2 * chunks..).next().copied();
    }
    let best = (0..tried.len()).min_by_key(|place| tried[*place])?;
    let low = tried[best.saturating_sub(1)].1;
    let high = tried.get(best + 1).map_or(tried[best].1, |(_, chunks)| *chunks);
    let between: Vec<u64> = counts.range(low + 1..high.max(low + 1)).copied().collect();
    let stride = between.len().div_ceil(MOST_BETWEEN).max(1);
    let more = between.into_iter().step_by(stride).filter_map(|chunks| Some((time(chunks)?, chunks)));
    more.chain([tried[best]]).min()
}

/// So many numbers of chunks are tried around the best power of two.
const MOST_BETWEEN: usize = 8;

/// All numbers up to 2^16 that divide a size.
fn divisors(size: u64) -> impl Iterator<Item = u64> {
    (1..=size.min(1 << 16)).filter(move |divisor| size.is_multiple_of(*divisor))
}
