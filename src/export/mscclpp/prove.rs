//! What a plan does, on symbols, against the collective that it claims to be.
//!
//! The ranks are run in one order, and of each chunk it is known what has been added up in it. Beside that, vector
//! clocks say what happens before what. One run stands for all of them: accesses to a chunk, one of which writes, must
//! have an order, and so must the signals and the waits on a channel. Then the nth wait is always for the nth signal,
//! nothing that can go on is ever stopped by another thread block, and every run does the same.
//!
//! # Threads
//! The threads of a block do its operations one after the other, but each for itself: data is moved by all threads, a
//! signal, wait or semaphore is the affair of one, the kth channel of an operation that of the kth thread. Only `nop`
//! and `barrier` bring the threads together. An operation that waits stops the whole block here: a plan in which other
//! threads have to go past it is refused. Without a `nop` between them, a signal may come before its `put` is done,
//! and data may be read before the `wait` above is over.
//!
//! # Launches
//! A rank's kernel ends when its own thread blocks have ended. Its caller then reads the output, may write a new input,
//! and launches the plan again, while other ranks are still in the launch before. So the caller is a thread like the
//! others: what is written to an output must happen before the end of the rank that has it, and what is written, or
//! fetched, in the next launch must come after that rank has begun it. Signals and semaphores go on counting.
//!
//! Two launches are enough. As many signals are sent as are waited for in each, so that the order that was shown
//! of an operation in the first launch and one in the second holds in every launch and the next. An operation comes
//! before itself in the next launch, as its rank's launches come one after the other. So it comes before all later
//! launches of what it conflicts with.

use super::{
    Block, Chunks, MOST_AT_ONCE, MOST_BARRIERS, MOST_CHANNELS, MOST_CHUNKS, MOST_OPERATIONS, MOST_RANKS, Operation,
    Plan,
};
use crate::export::ranks::machine::{Content, Lists, Machine, Move, Slot, Turn, in_turns};
use crate::export::ranks::order::{Accesses, Clock, merge};
use crate::export::ranks::{Access, At, Buffer, Flaw, Format, Kind, Proven};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many launches in a row are run.
const LAUNCHES: u32 = 2;
/// Entries of clocks that are kept at once, of thread blocks and of signals on their way.
const MOST_ENTRIES: usize = 1 << 27;

/// Proves a plan.
///
/// # Errors
/// The first flaw.
pub fn prove(plan: &Plan, kind: Option<Kind>) -> Result<Proven, Flaw> {
    let untold = || Flaw::Untold(format!("`{}` is no collective that can be proven", plan.collective), "the plan");
    let kind = kind.or(Kind::of(&plan.collective)).ok_or_else(untold)?;
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
    limit(ranks <= MOST_RANKS, 0, None, &|| format!("{ranks} ranks; at most {MOST_RANKS} are read"))?;
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
                limit(count <= room, rank, Some(number), &|| format!("{count} {what}; there is room for {room}"))?;
            }
        }
    }
    Ok(())
}

/// An event of an agent: it is over for all whose clock counts this far.
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

/// What a thread of a block does on a counter.
#[derive(Clone, Copy, Debug)]
struct Act {
    at: At,
    lane: usize,
    event: Event,
}

impl Act {
    /// Whether the next one comes after it: by the clock, or in the order of one thread.
    fn is_before(self, next: Act, clock: &[u32]) -> bool {
        let same = |act: Act| (act.at.rank, act.at.block, act.lane);
        same(self) == same(next) || self.event.is_before(clock)
    }
}

/// Counted events, which come in one order, as do those that wait for them.
#[derive(Default)]
struct Counter {
    /// What was known to who sent it; nothing of what was there at the start.
    events: VecDeque<Option<Clock>>,
    /// The last to send, and to wait.
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

/// Who carries what a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    /// The threads themselves.
    Memory,
    /// A proxy, which does what it is asked for in order, some time later.
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

/// A channel by who signals, who waits, the carrier, and which it is of those that are alike.
type Wire = (usize, usize, Carrier, usize);

/// The channels of a rank by carrier, as it signals on them; none where a channel leads nowhere.
fn wires(plan: &Plan, rank: usize) -> BTreeMap<Carrier, Vec<Option<Wire>>> {
    let mut all: BTreeMap<Carrier, Vec<Option<Wire>>> = BTreeMap::new();
    let mut count: BTreeMap<(Carrier, usize), usize> = BTreeMap::new();
    for channels in &plan.gpus[rank].channels {
        let Some(carrier) = Carrier::of(&channels.channel_type) else { continue };
        for peer in channels.connected_to.iter().map(|peer| *peer as usize) {
            // The first channel to a rank is the first one that this rank has in turn, and so on.
            let twin = count.entry((carrier, peer)).or_default();
            let wire = (rank, peer, carrier, *twin);
            *twin += 1;
            all.entry(carrier).or_default().push((peer < plan.gpus.len() && peer != rank).then_some(wire));
        }
    }
    all
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    /// The signals on a channel.
    Channel(Wire),
    /// A semaphore of a rank.
    Semaphore(usize, usize),
}

/// What the threads of a block know.
#[derive(Default)]
struct Threads {
    /// The next operation.
    next: usize,
    /// All of them, since they met last.
    all: Clock,
    /// Some of them, by what they waited for since.
    lanes: BTreeMap<usize, Clock>,
}

impl Threads {
    fn lane(&mut self, lane: usize) -> &mut Clock {
        self.lanes.entry(lane).or_insert_with(|| self.all.clone())
    }
}

/// The agents of the clocks are: the threads of each block together, the first thread of each block, the caller of each
/// rank, and each port channel, whose puts are done by a proxy.
struct Run<'p> {
    plan: &'p Plan,
    machine: Machine,
    accesses: BTreeMap<Slot, Accesses<(Access, Event)>>,
    /// The first thread block of each rank in the clocks.
    first: Vec<usize>,
    /// The first agent that is a caller.
    callers: usize,
    agents: usize,
    /// By rank: how many launches are over.
    launches: Vec<u32>,
    threads: Vec<Vec<Threads>>,
    /// By rank and carrier, in the order of the rank.
    channels: Vec<BTreeMap<Carrier, Vec<Option<Wire>>>>,
    counters: BTreeMap<Count, Counter>,
    /// Who has come to a barrier.
    barriers: BTreeMap<(usize, usize), BTreeSet<usize>>,
    /// The agent and the clock of each port channel.
    ports: BTreeMap<Wire, (usize, Clock)>,
    signals: usize,
    /// Signals on their way, of channels and semaphores.
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

    /// A rank has ended: the caller reads the output, which is of no use to the next launch.
    fn end(&mut self, rank: usize) -> Result<(), Flaw> {
        (0..self.threads[rank].len()).for_each(|block| self.meet(rank, block));
        let joined = self.threads[rank].iter().map(|threads| threads.all.clone()).reduce(|mut all, more| {
            merge(&mut all, &more);
            all
        });
        // A rank without thread blocks learns nothing.
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

    /// The operation that a thread block does next.
    fn next(&self, rank: usize, block: usize) -> Option<(At, &'p Operation)> {
        let step = self.threads[rank][block].next;
        let operation = self.plan.gpus[rank].threadblocks[block].ops.get(step)?;
        Some((self.machine.at((rank, block), step), operation))
    }

    /// Runs all thread blocks as far as they come. A kernel ends when nothing else can be done, so that what comes too
    /// late for it is found to have no order, rather than to be missing.
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
            // What is left before the kernels can end.
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

    /// That the next launch finds all counters as the first one did.
    fn balance(&self) -> Result<(), Flaw> {
        let left = |what: String, help: &'static str| Err(Flaw::Left { what, help: Some(help) });
        for (count, after) in self.counters.iter().map(|(count, counter)| (count, counter.events.len())) {
            match *count {
                Count::Channel((from, to, ..)) if after > 0 => {
                    let signals = after.div_ceil(LAUNCHES as usize);
                    let what = format!("{signals} signals from rank {from} to rank {to} are never waited for");
                    return left(what, "the next launch would take them for its own");
                }
                Count::Semaphore(rank, semaphore) => {
                    let before = self.plan.gpus[rank].semaphores[semaphore].init_value as usize;
                    let more = after.saturating_sub(before) / LAUNCHES as usize;
                    let after = if more > 0 { before + more } else { after };
                    if after != before {
                        let what = format!(
                            "rank {rank}: a launch starts with semaphore {semaphore} at {before} and ends with it at {after}"
                        );
                        return left(what, "the next launch would start with another count");
                    }
                }
                Count::Channel(_) => {}
            }
        }
        Ok(())
    }

    /// Does an operation, unless it has to wait.
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
                let (sources, targets) = self.operands(at, operation)?;
                let clock = std::mem::take(&mut self.threads[at.rank][at.block].all);
                // All threads do it.
                let event = Event { agent: 2 * self.block(at), time: self.time(at) };
                let reduces = operation.name.starts_with('r');
                let done = self.apply(event, &clock, Move { at, reduces, sources, targets });
                self.threads[at.rank][at.block].all = clock;
                done?;
            }
            "pws" | "pwsf" => return wrong(format!("`{}` gives no signal but on port channels", operation.name)),
            other => return wrong(format!("`{other}` is not read here")),
        }
        Ok(true)
    }

    fn block(&self, at: At) -> usize {
        self.first[at.rank] + at.block
    }

    /// How often operations of this block have been done up to this one, in all launches.
    fn time(&self, at: At) -> u32 {
        let length = self.plan.gpus[at.rank].threadblocks[at.block].ops.len();
        u32::try_from(at.step + 1).unwrap_or(u32::MAX)
            + self.launches[at.rank] * u32::try_from(length).unwrap_or(u32::MAX)
    }

    /// What one thread does. All but the first count as all threads together.
    fn act(&self, at: At, lane: usize) -> Act {
        let event = Event { agent: 2 * self.block(at) + usize::from(lane == 0), time: self.time(at) };
        Act { at, lane, event }
    }

    fn tick(&mut self, act: Act) {
        if act.lane == 0 {
            self.threads[act.at.rank][act.at.block].lane(0)[act.event.agent] = act.event.time;
        }
    }

    /// The threads of a block wait for each other: all is done that stands before.
    fn meet(&mut self, rank: usize, block: usize) {
        let next = self.threads[rank][block].next;
        let at = self.machine.at((rank, block), next);
        let (agent, time) = (2 * self.block(at), self.time(at) - 1);
        let Threads { all, lanes, .. } = &mut self.threads[rank][block];
        std::mem::take(lanes).into_values().for_each(|lane| merge(all, &lane));
        all[agent..agent + 2].fill(time);
    }

    /// Whether all that meet at a barrier have come; then they go on from the same clock.
    fn barrier(&mut self, at: At, id: usize, count: usize) -> Result<bool, Flaw> {
        let meets = |block: &Block| block.ops.iter().any(|op| op.name == "barrier" && op.barrier_id == Some(id));
        let users = self.plan.gpus[at.rank].threadblocks.iter().filter(|block| meets(block)).count();
        if id >= MOST_BARRIERS || count != users {
            let what = if id >= MOST_BARRIERS {
                format!("barrier {id}; there are {MOST_BARRIERS}")
            } else {
                format!("{count} thread blocks are to meet at barrier {id}, which {users} have")
            };
            return Err(Flaw::Step { at, what });
        }
        self.meet(at.rank, at.block);
        let here = self.barriers.entry((at.rank, id)).or_default();
        here.insert(at.block);
        if here.len() < count {
            return Ok(false);
        }
        // The last to come lets all others through: they stand at the same barrier.
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
                // The proxy sends it when the puts before it have been done.
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

    /// Puts that a proxy does, some time before the next signal or flush on the channel is over.
    fn port_put(&mut self, at: At, operation: &Operation) -> Result<(), Flaw> {
        let wires = self.wires(at, operation)?;
        let (sources, targets) = self.operands(at, operation)?;
        if wires.len() != targets.len() {
            return Err(Flaw::Step { at, what: "a put takes a channel for each target".to_owned() });
        }
        for (lane, (wire, (source, target))) in wires.into_iter().zip(sources.into_iter().zip(targets)).enumerate() {
            if target.first().is_none_or(|slot| slot.rank() != wire.1) {
                let what = format!("a put on a channel to rank {} into a buffer of another", wire.1);
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

    /// What an operation counts up or down.
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
                    return Err(Flaw::Step { at, what: format!("there is no semaphore {id}") });
                }
                distinct(at, ids)?;
                Ok(ids.iter().map(|id| Count::Semaphore(at.rank, *id)).collect())
            }
        }
    }

    /// The channels of an operation, as its rank signals on them.
    fn wires(&self, at: At, operation: &Operation) -> Result<Vec<Wire>, Flaw> {
        let kind = operation.channel_type.as_deref().unwrap_or_default();
        let refs = self.plan.gpus[at.rank].threadblocks[at.block].channels.iter();
        let own = || refs.clone().filter(|refs| refs.channel_type == kind).flat_map(|refs| &refs.channel_ids);
        let all = Carrier::of(kind).and_then(|carrier| self.channels[at.rank].get(&carrier));
        let wire = |id: &usize| {
            let wire = own().nth(*id).and_then(|place| *all?.get(*place)?);
            let what = || format!("channel {id} of type `{kind}` leads to no rank");
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

    /// The chunks that an operation speaks of, here or on another rank.
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
                let remote = remote.ok_or_else(|| wrong(format!("there is no remote buffer {id}")))?;
                (remote.rank as usize, remote.kind.as_str())
            }
            _ => return Err(wrong("chunks are of a buffer here, by `type`, or elsewhere, by `buffer_id`".to_owned())),
        };
        let buffer = Buffer::of(kind).ok_or_else(|| wrong(format!("`{kind}` is no buffer")))?;
        let whose = &self.plan.gpus[rank];
        let room = match buffer {
            Buffer::Input => whose.input_chunks.max(if self.plan.inplace { self.machine.shape.input } else { 0 }),
            Buffer::Output => whose.output_chunks.max(if self.plan.inplace { self.machine.shape.output } else { 0 }),
            Buffer::Scratch => whose.scratch_chunks,
        };
        let end = chunks.index.checked_add(chunks.size).filter(|end| *end <= room && chunks.size > 0);
        let end = end.ok_or_else(|| {
            wrong(format!("chunks {} and {} more are not in a buffer of {room}", chunks.index, chunks.size))
        })?;
        Ok((chunks.index..end).map(|chunk| self.machine.slot(rank, buffer, chunk)).collect())
    }

    /// The chunks of an operation that moves them, each list as long as the others.
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
        // Which sources and targets are on other ranks, whether they go together in pairs, and how many there can be:
        // the executor looks at the first target of a copy and of a sum, and the first buffer that is put.
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
            let what = format!("`{}` with chunks here that should be elsewhere, or the other way", operation.name);
            return Err(wrong(what));
        }
        let fits = !sources.is_empty() && !targets.is_empty() && same && single;
        if !fits || pairs && sources.len() != targets.len() {
            return Err(wrong(format!("the chunks of `{}` do not fit each other", operation.name)));
        }
        // Threads do not wait for each other inside an operation.
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

    /// Reads, adds if that is asked for, and writes.
    fn apply(&mut self, event: Event, clock: &[u32], step: Move) -> Result<(), Flaw> {
        let at = step.at;
        let access = (Access::Step(at), event);
        let mut contents: Vec<Vec<Content>> = Vec::new();
        for slots in &step.sources {
            let mut read = Vec::with_capacity(slots.len());
            for slot in slots {
                self.access(access, *slot, false, clock)?;
                let unwritten =
                    || Flaw::Step { at, what: "a chunk is read before anything was written to it".to_owned() };
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

    /// That whoever used a chunk before is done.
    fn access(&mut self, next: (Access, Event), slot: Slot, writes: bool, clock: &[u32]) -> Result<(), Flaw> {
        let accesses = self.accesses.entry(slot).or_default();
        let early = accesses.conflicting(writes).find(|(_, event)| *event != next.1 && !event.is_before(clock));
        if let Some((first, _)) = early {
            return Err(self.machine.race(*first, next.0, slot));
        }
        accesses.push(next, writes);
        Ok(())
    }

    /// From the results back: what is overwritten, or left, without having been read for one of them.
    fn unused(&self) -> BTreeSet<At> {
        let mut needed: BTreeSet<Slot> =
            (0..self.plan.gpus.len()).flat_map(|rank| self.machine.outputs(rank)).collect();
        let mut unused: BTreeSet<At> = BTreeSet::new();
        for step in self.machine.moves.iter().rev() {
            // All of them are written here, so all are taken out.
            let is_needed = |slots: &Vec<Slot>| slots.iter().filter(|slot| needed.remove(slot)).count() > 0;
            let wanted: Vec<bool> = step.targets.iter().map(is_needed).collect();
            if !wanted.contains(&true) {
                unused.insert(step.at);
            }
            // Of a sum all is read, of copies what goes to a place that is needed.
            let is_read = |place: usize| if step.reduces { wanted.contains(&true) } else { wanted[place] };
            let read = step.sources.iter().enumerate().filter(|(place, _)| is_read(*place));
            needed.extend(read.flat_map(|(_, slots)| slots));
        }
        unused
    }
}

/// That nothing stands twice in a list of what threads do side by side.
fn distinct<T: Ord>(at: At, all: &[T]) -> Result<(), Flaw> {
    if all.iter().collect::<BTreeSet<_>>().len() == all.len() {
        return Ok(());
    }
    Err(Flaw::Step { at, what: "a channel or semaphore stands twice in one operation".to_owned() })
}
