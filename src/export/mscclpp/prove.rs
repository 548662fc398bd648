//! Proves that a plan implements the collective that it claims, by symbolic execution.
//!
//! The ranks are run in one order. The content of a chunk is the set of input chunks that have been added up in it.
//! Vector clocks track the happens-before order. One run represents all if accesses to a chunk, one of which writes,
//! are ordered, and signals and waits on each channel are ordered. Then the nth wait always corresponds to the nth
//! signal, no thread block can prevent another from continuing, and every run does the same.
//!
//! # Threads
//! The threads of a block execute its operations in order, but independently of each other: all threads move data,
//! one thread handles a signal, wait or semaphore, and the kth thread handles the kth channel of an operation. Only
//! `nop` and `barrier` synchronize the threads. In this model, an operation that waits stops the whole block: a plan
//! in which other threads must pass it is refused. Without a `nop` between them, a signal may be sent before its
//! `put` is done, and data may be read before the preceding `wait` has ended.
//!
//! # Launches
//! A rank's kernel ends when its own thread blocks have ended. Its caller then reads the output, may write a new
//! input, and launches the plan again, while other ranks may still be in the previous launch. So the caller is
//! modelled as a thread: a write to an output must happen before the end of the rank that owns it, and writes and
//! fetches of the next launch must happen after that rank has begun it. Signals and semaphores keep their counts.
//!
//! Two launches are sufficient. In each, as many signals are sent as are waited for, so an order shown between an
//! operation in the first launch and one in the second holds for every pair of consecutive launches. An operation
//! precedes itself in the next launch, as its rank's launches are sequential. So it precedes conflicting operations
//! in all later launches.

use super::{
    Block, Chunks, MOST_AT_ONCE, MOST_BARRIERS, MOST_CHANNELS, MOST_CHUNKS, MOST_OPERATIONS, MOST_RANKS, Operation,
    Plan,
};
use crate::export::ranks::machine::{Content, Lists, Machine, Move, Slot, Turn, in_turns};
use crate::export::ranks::order::{Accesses, Clock, merge};
use crate::export::ranks::{Access, At, Buffer, Flaw, Format, Kind, Proven};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of consecutive launches that are run.
const LAUNCHES: u32 = 2;
/// Maximum number of clock entries held at once, for thread blocks and for signals in flight.
const MOST_ENTRIES: usize = 1 << 27;

/// Proves a plan.
///
/// # Errors
/// The first flaw.
pub fn prove(plan: &Plan, kind: Option<Kind>) -> Result<Proven, Flaw> {
    let unnamed = || Flaw::Unnamed(format!("unsupported collective `{}`", plan.collective), "the plan");
    let kind = kind.or(Kind::of(&plan.collective)).ok_or_else(unnamed)?;
    limits(plan)?;
    let chunks = plan.gpus.iter().map(|gpu| [gpu.input_chunks, gpu.output_chunks]);
    let machine = Machine::new(Format::Mscclpp, (kind, plan.inplace), chunks)?;
    let mut run = Run::new(plan, machine)?;
    run.all()?;
    run.balance()?;
    let operations = plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).map(|block| block.ops.len()).sum();
    let unused = run.unused();
    Ok(run.machine.proven(operations, run.signals / LAUNCHES as usize, unused))
}

fn limits(plan: &Plan) -> Result<(), Flaw> {
    let limit = |is_kept: bool, rank, block, what: &dyn Fn() -> String| match is_kept {
        true => Ok(()),
        false => Err(Flaw::Limit { rank, block, what: what() }),
    };
    let ranks = plan.gpus.len();
    limit(ranks <= MOST_RANKS, 0, None, &|| format!("{ranks} ranks; the limit is {MOST_RANKS}"))?;
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        limit(gpu.id as usize == rank, rank, None, &|| format!("its id is {}", gpu.id))?;
        let start = gpu.semaphores.iter().map(|semaphore| semaphore.init_value).find(|start| *start > 1 << 10);
        limit(start.is_none(), rank, None, &|| format!("a semaphore that starts at {}", start.unwrap_or_default()))?;
        let most = gpu.input_chunks.max(gpu.output_chunks).max(gpu.scratch_chunks);
        limit(most <= MOST_CHUNKS, rank, None, &|| format!("a buffer of more than {MOST_CHUNKS} chunks"))?;
        for (number, block) in gpu.threadblocks.iter().enumerate() {
            limit(block.id as usize == number, rank, Some(number), &|| format!("its id is {}", block.id))?;
            let channels = block.channels.iter().map(|refs| refs.channel_ids.len()).sum();
            let remotes = block.remote_buffer_refs.iter().map(|refs| refs.remote_buffer_ids.len()).sum();
            for (count, what, room) in [
                (block.ops.len(), "operations", MOST_OPERATIONS),
                (channels, "channels", MOST_CHANNELS),
                (remotes, "remote buffers", MOST_CHANNELS),
            ] {
                limit(count <= room, rank, Some(number), &|| format!("{count} {what}; the limit is {room}"))?;
            }
        }
    }
    Ok(())
}

/// An event of an agent. It is over for all whose clock has reached this count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    agent: usize,
    time: u32,
}

impl Event {
    fn is_before(self, clock: &[u32]) -> bool {
        clock[self.agent] >= self.time
    }
}

/// An operation of a thread on a counter.
#[derive(Clone, Copy, Debug)]
struct Act {
    at: At,
    lane: usize,
    event: Event,
}

impl Act {
    /// Whether `next` happens after it: by the clock, or by the order of one thread.
    fn is_before(self, next: Act, clock: &[u32]) -> bool {
        let same = |act: Act| (act.at.rank, act.at.block, act.lane);
        same(self) == same(next) || self.event.is_before(clock)
    }
}

/// A counter. Its increments must be ordered, and so must its waits.
#[derive(Default)]
struct Counter {
    /// The clock of each sender; `None` for initial counts.
    events: VecDeque<Option<Clock>>,
    /// The last send and the last wait.
    last: [Option<Act>; 2],
}

impl Counter {
    fn push(&mut self, turn: Act, clock: &[u32]) -> Result<(), Flaw> {
        self.events.push_back(Some(clock.to_vec()));
        self.turn(0, turn, clock)
    }

    fn pop(&mut self, turn: Act, clock: &mut [u32]) -> Result<(), Flaw> {
        self.turn(1, turn, clock)?;
        self.events.pop_front().flatten().iter().for_each(|event| merge(clock, event));
        Ok(())
    }

    fn turn(&mut self, side: usize, next: Act, clock: &[u32]) -> Result<(), Flaw> {
        match self.last[side].replace(next) {
            Some(last) if !last.is_before(next, clock) => {
                Err(Flaw::Unordered { first: last.at, second: next.at, what: ["signal", "wait"][side] })
            }
            _ => Ok(()),
        }
    }
}

/// The agent that transfers the data of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    /// The threads themselves.
    Memory,
    /// A proxy, which executes requests in order, at some later time.
    Port,
}

impl Carrier {
    fn of(channel_type: &str) -> Option<Carrier> {
        match channel_type {
            "memory" => Some(Carrier::Memory),
            "port" => Some(Carrier::Port),
            _ => None,
        }
    }
}

/// A channel: signalling rank, waiting rank, carrier, and index among equal channels.
type Wire = (usize, usize, Carrier, usize);

/// The channels of a rank by carrier, in the direction of its signals; `None` for a channel without a peer.
fn wires(plan: &Plan, rank: usize) -> BTreeMap<Carrier, Vec<Option<Wire>>> {
    let mut all: BTreeMap<Carrier, Vec<Option<Wire>>> = BTreeMap::new();
    let mut count: BTreeMap<(Carrier, usize), usize> = BTreeMap::new();
    for channels in &plan.gpus[rank].channels {
        let Some(carrier) = Carrier::of(&channels.channel_type) else { continue };
        for peer in channels.connected_to.iter().map(|peer| *peer as usize) {
            // The nth channel from one rank to another is paired with the nth channel in the opposite direction.
            let twin = count.entry((carrier, peer)).or_default();
            let wire = (rank, peer, carrier, *twin);
            *twin += 1;
            all.entry(carrier).or_default().push((peer < plan.gpus.len() && peer != rank).then_some(wire));
        }
    }
    all
}

/// A counted entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    /// Signals on a channel.
    Channel(Wire),
    /// A semaphore of a rank.
    Semaphore(usize, usize),
}

/// Clocks of the threads of a block.
#[derive(Default)]
struct Threads {
    /// The next operation.
    next: usize,
    /// Clock of all threads, as of their last synchronization.
    all: Clock,
    /// Clocks of individual threads that have waited since then.
    lanes: BTreeMap<usize, Clock>,
}

impl Threads {
    fn lane(&mut self, lane: usize) -> &mut Clock {
        self.lanes.entry(lane).or_insert_with(|| self.all.clone())
    }
}

/// A run. The agents of the clocks are: all threads of each block together, the first thread of each block, the
/// caller of each rank, and the proxy of each port channel.
struct Run<'p> {
    plan: &'p Plan,
    machine: Machine,
    accesses: BTreeMap<Slot, Accesses<(Access, Event)>>,
    /// The first thread block of each rank, as a clock index.
    first: Vec<usize>,
    /// The first caller, as a clock index.
    callers: usize,
    agents: usize,
    /// By rank: number of completed launches.
    launches: Vec<u32>,
    threads: Vec<Vec<Threads>>,
    /// Channels by rank and carrier, in the rank's order.
    channels: Vec<BTreeMap<Carrier, Vec<Option<Wire>>>>,
    counters: BTreeMap<Count, Counter>,
    /// Thread blocks that have reached a barrier.
    barriers: BTreeMap<(usize, usize), BTreeSet<usize>>,
    /// Agent and clock of each port channel.
    ports: BTreeMap<Wire, (usize, Clock)>,
    signals: usize,
    /// Signals in flight, of channels and semaphores.
    pending: usize,
}

impl<'p> Run<'p> {
    fn new(plan: &'p Plan, machine: Machine) -> Result<Run<'p>, Flaw> {
        let mut first = Vec::new();
        let mut blocks = 0;
        for gpu in &plan.gpus {
            first.push(blocks);
            blocks += gpu.threadblocks.len();
        }
        let channels: Vec<_> = (0..plan.gpus.len()).map(|rank| wires(plan, rank)).collect();
        let ports: usize = channels.iter().filter_map(|all| all.get(&Carrier::Port)).map(Vec::len).sum();
        let agents = 2 * blocks + plan.gpus.len() + ports;
        if agents.saturating_mul(blocks + ports) > MOST_ENTRIES {
            let what = format!("{blocks} thread blocks of all ranks are too many to prove");
            return Err(Flaw::Limit { rank: 0, block: None, what });
        }
        let threads = |gpu: &super::Gpu| gpu.threadblocks.iter().map(|_| Threads::default()).collect();
        let mut run = Run {
            plan,
            machine,
            accesses: BTreeMap::new(),
            first,
            callers: 2 * blocks,
            agents,
            launches: vec![0; plan.gpus.len()],
            threads: plan.gpus.iter().map(threads).collect(),
            channels,
            counters: BTreeMap::new(),
            barriers: BTreeMap::new(),
            ports: BTreeMap::new(),
            signals: 0,
            pending: 0,
        };
        for (rank, gpu) in plan.gpus.iter().enumerate() {
            for (id, semaphore) in gpu.semaphores.iter().enumerate() {
                let counter = run.counters.entry(Count::Semaphore(rank, id)).or_default();
                counter.events.extend(std::iter::repeat_n(None, semaphore.init_value as usize));
            }
            run.launch(rank, vec![0; agents])?;
        }
        Ok(run)
    }

    /// The caller writes the input, and the thread blocks start.
    fn launch(&mut self, rank: usize, mut clock: Clock) -> Result<(), Flaw> {
        let caller = self.called(rank, &mut clock);
        for slot in self.machine.inputs(rank) {
            self.access(caller, slot, true, &clock)?;
        }
        self.machine.fill(rank);
        for threads in &mut self.threads[rank] {
            *threads = Threads { all: clock.clone(), ..Threads::default() };
        }
        Ok(())
    }

    fn called(&self, rank: usize, clock: &mut [u32]) -> (Access, Event) {
        let agent = self.callers + rank;
        clock[agent] += 1;
        (Access::Caller(rank), Event { agent, time: clock[agent] })
    }

    /// Ends a rank's launch: the caller reads the output, which the next launch must not use.
    fn end(&mut self, rank: usize) -> Result<(), Flaw> {
        (0..self.threads[rank].len()).for_each(|block| self.meet(rank, block));
        let joined = self.threads[rank].iter().map(|threads| threads.all.clone()).reduce(|mut all, more| {
            merge(&mut all, &more);
            all
        });
        // A rank without thread blocks is never synchronized.
        let none = || Flaw::Limit { rank, block: None, what: "no thread blocks".to_owned() };
        let mut clock = joined.ok_or_else(none)?;
        let caller = self.called(rank, &mut clock);
        for (slot, chunk) in self.machine.outputs(rank).into_iter().zip(0..) {
            self.access(caller, slot, false, &clock)?;
            self.machine.check(rank, chunk)?;
            self.machine.chunks.remove(&slot);
        }
        self.launches[rank] += 1;
        if self.launches[rank] < LAUNCHES { self.launch(rank, clock) } else { Ok(()) }
    }

    /// The next operation of a thread block.
    fn next(&self, rank: usize, block: usize) -> Option<(At, &'p Operation)> {
        let step = self.threads[rank][block].next;
        let operation = self.plan.gpus[rank].threadblocks[block].ops.get(step)?;
        Some((self.machine.at((rank, block), step), operation))
    }

    /// Runs all thread blocks until none can continue. A kernel ends only when nothing else can run, so that an
    /// access that comes too late is reported as unordered rather than as missing.
    fn all(&mut self) -> Result<(), Flaw> {
        let ranks = self.plan.gpus.len();
        let blocks: Vec<(usize, usize)> =
            (0..ranks).flat_map(|rank| (0..self.threads[rank].len()).map(move |block| (rank, block))).collect();
        loop {
            in_turns(blocks.len(), |agent| {
                let (rank, block) = blocks[agent];
                let mut turn = Turn { moved: false, waits: false };
                while let Some((at, operation)) = self.next(rank, block) {
                    turn.waits = !self.take(at, operation)?;
                    if turn.waits {
                        break;
                    }
                    self.threads[rank][block].next += 1;
                    turn.moved = true;
                }
                Ok(turn)
            })?;
            // Blocks that are not done prevent the kernels from ending.
            let waiting: Vec<At> =
                blocks.iter().filter_map(|(rank, block)| Some(self.next(*rank, *block)?.0)).collect();
            let waiting: Vec<At> = waiting.into_iter().filter(|at| self.launches[at.rank] < LAUNCHES).collect();
            let is_over = |rank: &usize| self.launches[*rank] < LAUNCHES && waiting.iter().all(|at| at.rank != *rank);
            let ended: Vec<usize> = (0..ranks).filter(is_over).collect();
            ended.iter().try_for_each(|rank| self.end(*rank))?;
            match waiting.first() {
                _ if !ended.is_empty() => {}
                Some(at) => {
                    return Err(Flaw::Deadlock { at: *at, wait: None, more: waiting.len() - 1, help: None });
                }
                None => return Ok(()),
            }
        }
    }

    /// Checks that the next launch finds all counters as the first one did.
    fn balance(&self) -> Result<(), Flaw> {
        let left = |what: String, help: &'static str| Err(Flaw::Left { what, help: Some(help) });
        for (count, after) in self.counters.iter().map(|(count, counter)| (count, counter.events.len())) {
            match *count {
                Count::Channel((from, to, ..)) if after > 0 => {
                    let signals = after.div_ceil(LAUNCHES as usize);
                    let what = format!("{signals} signals from rank {from} to rank {to} are never waited for");
                    return left(what, "the next launch would consume them");
                }
                Count::Semaphore(rank, semaphore) => {
                    let before = self.plan.gpus[rank].semaphores[semaphore].init_value as usize;
                    let more = after.saturating_sub(before) / LAUNCHES as usize;
                    let after = if more > 0 { before + more } else { after };
                    if after != before {
                        let what = format!(
                            "rank {rank}: a launch starts with semaphore {semaphore} at {before} and ends with {after}"
                        );
                        return left(what, "the next launch would start with a different count");
                    }
                }
                Count::Channel(_) => {}
            }
        }
        Ok(())
    }

    /// Executes an operation, unless it must wait.
    fn take(&mut self, at: At, operation: &Operation) -> Result<bool, Flaw> {
        let is_port = operation.channel_type.as_deref().and_then(Carrier::of) == Some(Carrier::Port);
        let wrong = |what: String| Err(Flaw::Step { at, what });
        match operation.name.as_str() {
            "nop" => self.meet(at.rank, at.block),
            "flush" if is_port => {
                for (lane, wire) in self.wires(at, operation)?.into_iter().enumerate() {
                    self.flush(at, lane, wire);
                }
            }
            "signal" | "sem_release" => {
                for (lane, count) in self.counts(at, operation)?.into_iter().enumerate() {
                    self.signal(at, lane, count)?;
                }
            }
            "wait" | "sem_acquire" => {
                let counts = self.counts(at, operation)?;
                if counts.iter().any(|count| self.counters.get(count).is_none_or(|counter| counter.events.is_empty())) {
                    return Ok(false);
                }
                for (lane, count) in counts.into_iter().enumerate() {
                    let act = self.act(at, lane);
                    let clock = self.threads[at.rank][at.block].lane(lane);
                    self.counters.entry(count).or_default().pop(act, clock)?;
                    self.pending = self.pending.saturating_sub(1);
                    self.tick(act);
                }
            }
            "barrier" => {
                let (Some(id), Some(count)) = (operation.barrier_id, operation.num_threadblocks) else {
                    return wrong("a barrier without `barrier_id` or `num_threadblocks`".to_owned());
                };
                return self.barrier(at, id, count);
            }
            "put" | "pws" | "pwsf" if is_port => self.port_put(at, operation)?,
            "put" | "get" | "copy" | "re" | "res" | "rre" | "rres" if !is_port => {
                // The executor looks up the channels, although only signals use them.
                if !operation.channel_ids.is_empty() {
                    self.wires(at, operation)?;
                }
                let (sources, targets) = self.operands(at, operation)?;
                let clock = std::mem::take(&mut self.threads[at.rank][at.block].all);
                // All threads take part.
                let event = Event { agent: 2 * self.block(at), time: self.time(at) };
                let reduces = operation.name.starts_with('r');
                let done = self.apply(event, &clock, Move { at, reduces, sources, targets });
                self.threads[at.rank][at.block].all = clock;
                done?;
            }
            "pws" | "pwsf" => return wrong(format!("`{}` signals on port channels only", operation.name)),
            other => return wrong(format!("unsupported operation `{other}`")),
        }
        Ok(true)
    }

    fn block(&self, at: At) -> usize {
        self.first[at.rank] + at.block
    }

    /// Number of operations of this block that have been executed up to this one, over all launches.
    fn time(&self, at: At) -> u32 {
        let length = self.plan.gpus[at.rank].threadblocks[at.block].ops.len();
        u32::try_from(at.step + 1).unwrap_or(u32::MAX)
            + self.launches[at.rank] * u32::try_from(length).unwrap_or(u32::MAX)
    }

    /// The operation as an act of one thread. All threads but the first are represented by the block's agent.
    fn act(&self, at: At, lane: usize) -> Act {
        let event = Event { agent: 2 * self.block(at) + usize::from(lane == 0), time: self.time(at) };
        Act { at, lane, event }
    }

    fn tick(&mut self, act: Act) {
        if act.lane == 0 {
            self.threads[act.at.rank][act.at.block].lane(0)[act.event.agent] = act.event.time;
        }
    }

    /// Synchronizes the threads of a block: all earlier operations are done.
    fn meet(&mut self, rank: usize, block: usize) {
        let next = self.threads[rank][block].next;
        let at = self.machine.at((rank, block), next);
        let (agent, time) = (2 * self.block(at), self.time(at) - 1);
        let Threads { all, lanes, .. } = &mut self.threads[rank][block];
        std::mem::take(lanes).into_values().for_each(|lane| merge(all, &lane));
        all[agent..agent + 2].fill(time);
    }

    /// Whether all blocks have reached a barrier; then all continue with the same clock.
    fn barrier(&mut self, at: At, id: usize, count: usize) -> Result<bool, Flaw> {
        let meets = |block: &Block| block.ops.iter().any(|op| op.name == "barrier" && op.barrier_id == Some(id));
        let users = self.plan.gpus[at.rank].threadblocks.iter().filter(|block| meets(block)).count();
        if id >= MOST_BARRIERS || count != users {
            let what = if id >= MOST_BARRIERS {
                format!("barrier {id}; the limit is {MOST_BARRIERS}")
            } else {
                format!("barrier {id} expects {count} thread blocks, but {users} use it")
            };
            return Err(Flaw::Step { at, what });
        }
        self.meet(at.rank, at.block);
        let here = self.barriers.entry((at.rank, id)).or_default();
        here.insert(at.block);
        if here.len() < count {
            return Ok(false);
        }
        // The last block releases the others, which wait at the same barrier.
        let here = std::mem::take(here);
        let mut all = self.threads[at.rank][at.block].all.clone();
        here.iter().for_each(|block| merge(&mut all, &self.threads[at.rank][*block].all));
        for block in here {
            let threads = &mut self.threads[at.rank][block];
            threads.all.clone_from(&all);
            threads.next += usize::from(block != at.block);
        }
        Ok(true)
    }

    fn signal(&mut self, at: At, lane: usize, count: Count) -> Result<(), Flaw> {
        let act = self.act(at, lane);
        self.tick(act);
        let mut clock = self.threads[at.rank][at.block].lane(lane).clone();
        if let Count::Channel(wire @ (_, _, carrier, _)) = count {
            self.signals += 1;
            if carrier == Carrier::Port {
                // The proxy sends the signal after the preceding puts.
                let (_, port) = self.port(wire);
                merge(port, &clock);
                clock.clone_from(port);
            }
        }
        self.pending += 1;
        if self.pending.saturating_mul(self.agents) > MOST_ENTRIES {
            let what = format!("{} signals on their way are too many to prove", self.pending);
            return Err(Flaw::Step { at, what });
        }
        self.counters.entry(count).or_default().push(act, &clock)
    }

    fn port(&mut self, wire: Wire) -> (usize, &mut Clock) {
        let next = self.callers + self.plan.gpus.len() + self.ports.len();
        let (agent, clock) = self.ports.entry(wire).or_insert_with(|| (next, vec![0; self.agents]));
        (*agent, clock)
    }

    /// A thread waits until the puts on a port channel are done.
    fn flush(&mut self, at: At, lane: usize, wire: Wire) {
        let clock = self.port(wire).1.clone();
        merge(self.threads[at.rank][at.block].lane(lane), &clock);
    }

    /// Records puts by a proxy, which complete before the next signal or flush on the channel.
    fn port_put(&mut self, at: At, operation: &Operation) -> Result<(), Flaw> {
        let wires = self.wires(at, operation)?;
        let (sources, targets) = self.operands(at, operation)?;
        if wires.len() != targets.len() {
            return Err(Flaw::Step { at, what: "a put takes a channel for each target".to_owned() });
        }
        for (lane, (wire, (source, target))) in wires.into_iter().zip(sources.into_iter().zip(targets)).enumerate() {
            if target.first().is_none_or(|slot| slot.rank() != wire.1) {
                let what = format!("a put on a channel to rank {} writes into a buffer of another rank", wire.1);
                return Err(Flaw::Step { at, what });
            }
            let known = self.threads[at.rank][at.block].lane(lane).clone();
            let (agent, clock) = self.port(wire);
            merge(clock, &known);
            clock[agent] += 1;
            let (event, clock) = (Event { agent, time: clock[agent] }, clock.clone());
            self.apply(event, &clock, Move { at, reduces: false, sources: vec![source], targets: vec![target] })?;
            if operation.name != "put" {
                self.signal(at, lane, Count::Channel(wire))?;
            }
            if operation.name == "pwsf" {
                self.flush(at, lane, wire);
            }
        }
        Ok(())
    }

    /// The counters that an operation changes.
    fn counts(&self, at: At, operation: &Operation) -> Result<Vec<Count>, Flaw> {
        let ids = &operation.semaphore_ids;
        match operation.name.as_str() {
            "signal" => Ok(self.wires(at, operation)?.into_iter().map(Count::Channel).collect()),
            "wait" => {
                let back = |(from, to, carrier, twin): Wire| Count::Channel((to, from, carrier, twin));
                Ok(self.wires(at, operation)?.into_iter().map(back).collect())
            }
            _ => {
                let here = self.plan.gpus[at.rank].semaphores.len();
                if let Some(id) = ids.iter().find(|id| **id >= here) {
                    return Err(Flaw::Step { at, what: format!("unknown semaphore {id}") });
                }
                distinct(at, ids)?;
                Ok(ids.iter().map(|id| Count::Semaphore(at.rank, *id)).collect())
            }
        }
    }

    /// The channels of an operation, in the direction of its rank's signals.
    fn wires(&self, at: At, operation: &Operation) -> Result<Vec<Wire>, Flaw> {
        let kind = operation.channel_type.as_deref().unwrap_or_default();
        let refs = self.plan.gpus[at.rank].threadblocks[at.block].channels.iter();
        let own = || refs.clone().filter(|refs| refs.channel_type == kind).flat_map(|refs| &refs.channel_ids);
        let all = Carrier::of(kind).and_then(|carrier| self.channels[at.rank].get(&carrier));
        let wire = |id: &usize| {
            let wire = own().nth(*id).and_then(|place| *all?.get(*place)?);
            let what = || format!("channel {id} of type `{kind}` has no peer");
            wire.ok_or_else(|| Flaw::Step { at, what: what() })
        };
        let wires: Vec<Wire> = operation.channel_ids.iter().map(wire).collect::<Result<_, _>>()?;
        if wires.is_empty() || wires.len() > MOST_AT_ONCE {
            let what = format!("`{}` on {} channels; it takes 1 to {MOST_AT_ONCE}", operation.name, wires.len());
            return Err(Flaw::Step { at, what });
        }
        distinct(at, &wires)?;
        Ok(wires)
    }

    /// The chunks that an operation refers to, on this rank or on another.
    fn slots(&self, at: At, operation: &Operation, chunks: &Chunks) -> Result<Vec<Slot>, Flaw> {
        let wrong = |what: String| Flaw::Step { at, what };
        let gpu = &self.plan.gpus[at.rank];
        let (rank, kind) = match (&chunks.kind, chunks.buffer_id) {
            (Some(kind), None) => (at.rank, kind.as_str()),
            (None, Some(id)) => {
                let types = operation.channel_type.as_deref().unwrap_or_default();
                let refs = gpu.threadblocks[at.block].remote_buffer_refs.iter();
                let refs = refs.filter(|refs| refs.access_channel_type == types);
                let own: Vec<usize> = refs.flat_map(|refs| refs.remote_buffer_ids.iter().copied()).collect();
                let remote = own.get(id).and_then(|id| gpu.remote_buffers.get(*id));
                let remote = remote.filter(|remote| (remote.rank as usize) < self.plan.gpus.len());
                let remote = remote.ok_or_else(|| wrong(format!("unknown remote buffer {id}")))?;
                (remote.rank as usize, remote.kind.as_str())
            }
            _ => {
                return Err(wrong(
                    "chunks need either `type` (local buffer) or `buffer_id` (remote buffer)".to_owned(),
                ));
            }
        };
        let buffer = Buffer::of(kind).ok_or_else(|| wrong(format!("unknown buffer `{kind}`")))?;
        let whose = &self.plan.gpus[rank];
        let room = match buffer {
            Buffer::Input => whose.input_chunks.max(if self.plan.inplace { self.machine.shape.input } else { 0 }),
            Buffer::Output => whose.output_chunks.max(if self.plan.inplace { self.machine.shape.output } else { 0 }),
            Buffer::Scratch => whose.scratch_chunks,
        };
        let end = chunks.index.checked_add(chunks.size).filter(|end| *end <= room && chunks.size > 0);
        let end = end.ok_or_else(|| {
            wrong(format!("{} chunks from {} exceed the buffer of {room}", chunks.size, chunks.index))
        })?;
        Ok((chunks.index..end).map(|chunk| self.machine.slot(rank, buffer, chunk)).collect())
    }

    /// The chunks of a data operation, checked to have lists of equal length.
    fn operands(&self, at: At, operation: &Operation) -> Result<(Lists, Lists), Flaw> {
        let wrong = |what: String| Flaw::Step { at, what };
        let all = |list: &[Chunks]| -> Result<Lists, Flaw> {
            list.iter().map(|chunks| self.slots(at, operation, chunks)).collect()
        };
        let (sources, targets) = (all(&operation.src_buff)?, all(&operation.dst_buff)?);
        let length = sources.first().map_or(0, Vec::len);
        let same = sources.iter().chain(&targets).all(|slots| slots.len() == length);
        let remote = |list: &[Chunks], (from, to): (usize, usize)| {
            list.iter().enumerate().all(|(place, chunks)| chunks.buffer_id.is_some() == (from..to).contains(&place))
        };
        let (src, dst) = (&operation.src_buff, &operation.dst_buff);
        let (here, there, rest) = ((0, 0), (0, usize::MAX), (1, usize::MAX));
        // Which sources and targets are remote, whether they are paired, and their maximum number: the executor uses
        // only the first target of a copy or sum, and the first buffer of a put.
        let (from, to, pairs, single) = match operation.name.as_str() {
            "put" | "pws" | "pwsf" => (here, there, true, src.iter().all(|chunks| chunks.kind == src[0].kind)),
            "get" => (there, here, true, true),
            "copy" => (here, here, true, dst.len() == 1),
            "re" => (here, here, false, dst.len() == 1),
            "rre" => (rest, here, false, dst.len() == 1),
            "res" => (here, rest, false, true),
            _ => (rest, rest, false, true),
        };
        if !remote(src, from) || !remote(dst, to) {
            let what = format!("`{}` mixes up local and remote chunks", operation.name);
            return Err(wrong(what));
        }
        let fits = !sources.is_empty() && !targets.is_empty() && same && single;
        if !fits || pairs && sources.len() != targets.len() {
            return Err(wrong(format!("the chunks of `{}` differ in number", operation.name)));
        }
        // Threads do not synchronize inside an operation.
        let place = |list: usize, chunk: usize| (if pairs { list } else { 0 }, chunk);
        let placed = |lists: &Lists| -> Vec<(Slot, (usize, usize))> {
            let chunks = |(list, slots): (usize, &Vec<Slot>)| -> Vec<(Slot, (usize, usize))> {
                slots.iter().enumerate().map(|(chunk, slot)| (*slot, place(list, chunk))).collect()
            };
            lists.iter().enumerate().flat_map(chunks).collect()
        };
        let written: BTreeMap<Slot, (usize, usize)> = placed(&targets).into_iter().collect();
        if written.len() < targets.iter().map(Vec::len).sum() {
            return Err(wrong(format!("`{}` writes a chunk twice", operation.name)));
        }
        if placed(&sources).iter().any(|(slot, read)| written.get(slot).is_some_and(|written| written != read)) {
            return Err(wrong(format!("`{}` reads a chunk that it also overwrites", operation.name)));
        }
        Ok((sources, targets))
    }

    /// Reads, optionally adds, and writes.
    fn apply(&mut self, event: Event, clock: &[u32], step: Move) -> Result<(), Flaw> {
        let at = step.at;
        let access = (Access::Step(at), event);
        let mut contents: Vec<Vec<Content>> = Vec::new();
        for slots in &step.sources {
            let mut read = Vec::with_capacity(slots.len());
            for slot in slots {
                self.access(access, *slot, false, clock)?;
                let unwritten = || Flaw::Step { at, what: "a chunk is read before it is written".to_owned() };
                read.push(self.machine.chunks.get(slot).cloned().ok_or_else(unwritten)?);
            }
            contents.push(read);
        }
        if step.reduces {
            let length = contents.first().map_or(0, Vec::len);
            let sum = |chunk| Machine::sum(at, contents.iter().map(|chunks: &Vec<Content>| &chunks[chunk]));
            contents = vec![(0..length).map(sum).collect::<Result<_, _>>()?; step.targets.len()];
        }
        for (slots, result) in step.targets.iter().zip(contents) {
            for (slot, content) in slots.iter().zip(result) {
                self.access(access, *slot, true, clock)?;
                self.machine.chunks.insert(*slot, content);
            }
        }
        if self.launches[at.rank] == 0 {
            self.machine.moves.push(step);
        }
        Ok(())
    }

    /// Checks that all conflicting earlier accesses to a chunk are done.
    fn access(&mut self, next: (Access, Event), slot: Slot, writes: bool, clock: &[u32]) -> Result<(), Flaw> {
        let accesses = self.accesses.entry(slot).or_default();
        let early = accesses.conflicting(writes).find(|(_, event)| *event != next.1 && !event.is_before(clock));
        if let Some((first, _)) = early {
            return Err(self.machine.race(*first, next.0, slot));
        }
        accesses.push(next, writes);
        Ok(())
    }

    /// Works back from the results: finds steps whose results are overwritten, or left, without being read for a
    /// result.
    fn unused(&self) -> BTreeSet<At> {
        let mut needed: BTreeSet<Slot> =
            (0..self.plan.gpus.len()).flat_map(|rank| self.machine.outputs(rank)).collect();
        let mut unused: BTreeSet<At> = BTreeSet::new();
        for step in self.machine.moves.iter().rev() {
            // This step writes all of them, so all are removed.
            let is_needed = |slots: &Vec<Slot>| slots.iter().filter(|slot| needed.remove(slot)).count() > 0;
            let wanted: Vec<bool> = step.targets.iter().map(is_needed).collect();
            if !wanted.contains(&true) {
                unused.insert(step.at);
            }
            // A sum reads all sources; a copy, those whose target is needed.
            let is_read = |place: usize| if step.reduces { wanted.contains(&true) } else { wanted[place] };
            let read = step.sources.iter().enumerate().filter(|(place, _)| is_read(*place));
            needed.extend(read.flat_map(|(_, slots)| slots));
        }
        unused
    }
}

/// Checks that a list of concurrent accesses has no duplicates.
fn distinct<T: Ord>(at: At, all: &[T]) -> Result<(), Flaw> {
    if all.iter().collect::<BTreeSet<_>>().len() == all.len() {
        return Ok(());
    }
    Err(Flaw::Step { at, what: "a channel or semaphore is used twice in one operation".to_owned() })
}
