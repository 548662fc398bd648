//! The basis of both simulators: agents that take turns in any order, the callers of ranks, and the definitions of
//! collectives.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use shardc::export::ranks::Kind;

/// Number of consecutive launches per run.
pub(crate) const LAUNCHES: u64 = 2;
/// Number of elements per chunk, which different threads may handle.
pub(crate) const HALVES: usize = 2;

/// A system whose agents execute steps in any order.
pub(crate) trait World: Clone {
    /// Number of agents.
    fn agents(&self) -> usize;
    /// Whether an agent can take a step.
    fn is_ready(&self, agent: usize) -> bool;
    /// Executes a step of an agent that is ready.
    ///
    /// # Errors
    /// A description of the failure.
    fn step(&mut self, agent: usize) -> Result<(), String>;
    /// Whether all work is done.
    fn is_over(&self) -> bool;
    /// A hash of the whole state.
    fn state(&self) -> u64;
}

pub(crate) fn hash(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// One run in a random order.
///
/// Agents have random priorities, and the ready agent with the highest priority continues; at a few points its
/// priority becomes the lowest. Orders in which one agent is far behind all others, which uniform choices hardly
/// find, are as likely as any.
pub(crate) fn one_run<W: World>(mut world: W, random: &mut fastrand::Rng) -> Result<(), String> {
    let mut order: Vec<usize> = (0..world.agents()).collect();
    random.shuffle(&mut order);
    let is_even = random.u8(..4) == 0;
    let mut changes: Vec<usize> = (0..random.usize(..5)).map(|_| random.usize(..60 * order.len())).collect();
    changes.sort_unstable();
    for step in 0.. {
        let ready = |agent: &&usize| world.is_ready(**agent);
        let next = match is_even {
            true => {
                let start = random.usize(..order.len());
                order[start..].iter().chain(&order[..start]).find(ready).copied()
            }
            false => order.iter().find(ready).copied(),
        };
        let Some(agent) = next else { break };
        if changes.first().is_some_and(|change| *change <= step) {
            changes.remove(0);
            order.retain(|other| *other != agent);
            order.push(agent);
        }
        world.step(agent)?;
    }
    if world.is_over() { Ok(()) } else { Err("deadlock, or messages left over".to_owned()) }
}

/// Explores all runs, up to this number of states. Returns whether the exploration was complete.
pub(crate) fn all_runs<W: World>(world: &W, most: usize) -> Result<bool, String> {
    let mut seen: HashSet<u64> = HashSet::from([world.state()]);
    let mut waiting = vec![world.clone()];
    while let Some(world) = waiting.pop() {
        if seen.len() > most {
            return Ok(false);
        }
        let mut stuck = true;
        for agent in 0..world.agents() {
            if world.is_ready(agent) {
                stuck = false;
                let mut next = world.clone();
                next.step(agent)?;
                if seen.insert(next.state()) {
                    waiting.push(next);
                }
            }
        }
        if stuck && !world.is_over() {
            return Err("deadlock, or messages left over".to_owned());
        }
    }
    Ok(true)
}

/// The value that a caller writes to an input element.
pub(crate) fn input(launch: u64, rank: usize, chunk: usize, half: usize) -> i64 {
    hash(&(launch, rank, chunk, half)).cast_signed()
}

/// Initial memory contents before the first launch.
pub(crate) fn garbage(rank: usize, buffer: usize, chunk: usize, half: usize) -> i64 {
    hash(&("garbage", rank, buffer, chunk, half)).cast_signed()
}

/// The expected value of an output element after a launch of a collective over `n` ranks with `i` input chunks and
/// `o` output chunks each. Derived from the book, not from the crate.
pub(crate) fn output(
    kind: Kind,
    (n, i, o): (usize, usize, usize),
    launch: u64,
    rank: usize,
    chunk: usize,
    half: usize,
) -> i64 {
    let sum = |place: usize| (0..n).fold(0i64, |sum, from| sum.wrapping_add(input(launch, from, place, half)));
    match kind {
        Kind::AllGather => input(launch, chunk / i, chunk % i, half),
        Kind::ReduceScatter => sum(rank * o + chunk),
        Kind::AllReduce => sum(chunk),
        Kind::AllToAll => {
            let each = o / n;
            input(launch, chunk / each, rank * each + chunk % each, half)
        }
        Kind::Broadcast => input(launch, 0, chunk, half),
    }
}

/// The next action of a rank's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Write the input and launch.
    Launches,
    /// Wait for the end of the rank's kernel, and read the output.
    Reads,
    /// None.
    Done,
}

/// The buffers of all ranks, and their callers.
#[derive(Clone, Hash)]
pub(crate) struct Memory {
    pub(crate) kind: Kind,
    /// Numbers of ranks, input chunks and output chunks.
    pub(crate) shape: (usize, usize, usize),
    /// Values by rank, buffer, chunk and half.
    pub(crate) buffers: Vec<[Vec<i64>; 3]>,
    pub(crate) callers: Vec<Caller>,
    pub(crate) launches: Vec<u64>,
}

impl Memory {
    /// - `chunks`: numbers of input, output and scratch chunks, by rank.
    pub(crate) fn new(kind: Kind, chunks: &[[u64; 3]]) -> Option<Memory> {
        let [i, o, _] = *chunks.first()?;
        if chunks.iter().any(|[input, output, _]| (*input, *output) != (i, o)) {
            return None;
        }
        let size = |count: u64| usize::try_from(count).expect("small");
        let all = chunks.iter().enumerate().map(|(rank, chunks)| {
            [0, 1, 2].map(|buffer| {
                let places = (0..size(chunks[buffer])).flat_map(|chunk| (0..HALVES).map(move |half| (chunk, half)));
                places.map(|(chunk, half)| garbage(rank, buffer, chunk, half)).collect()
            })
        });
        let n = chunks.len();
        Some(Memory {
            kind,
            shape: (n, size(i), size(o)),
            buffers: all.collect(),
            callers: vec![Caller::Launches; n],
            launches: vec![0; n],
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.callers.iter().all(|caller| *caller == Caller::Done)
    }

    /// Whether the kernel of a rank is running.
    pub(crate) fn runs(&self, rank: usize) -> bool {
        self.callers[rank] == Caller::Reads
    }

    /// Writes the input or reads the output. Returns whether a kernel starts.
    pub(crate) fn call(&mut self, rank: usize) -> Result<bool, String> {
        let (launch, (_, i, o)) = (self.launches[rank], self.shape);
        if self.callers[rank] == Caller::Launches {
            for (chunk, half) in (0..i).flat_map(|chunk| (0..HALVES).map(move |half| (chunk, half))) {
                self.buffers[rank][0][chunk * HALVES + half] = input(launch, rank, chunk, half);
            }
            self.callers[rank] = Caller::Reads;
            return Ok(true);
        }
        for (chunk, half) in (0..o).flat_map(|chunk| (0..HALVES).map(move |half| (chunk, half))) {
            let wanted = output(self.kind, self.shape, launch, rank, chunk, half);
            if self.buffers[rank][1][chunk * HALVES + half] != wanted {
                return Err(format!("launch {launch}, rank {rank}: output chunk {chunk} is wrong"));
            }
        }
        self.launches[rank] += 1;
        self.callers[rank] = if self.launches[rank] < LAUNCHES { Caller::Launches } else { Caller::Done };
        Ok(false)
    }

    pub(crate) fn holds(&self, rank: usize, buffer: usize, start: usize, count: usize) -> bool {
        self.buffers.get(rank).is_some_and(|buffers| (start + count) * HALVES <= buffers[buffer].len())
    }
}
