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
    Plan, buffer, word,
};
use crate::export::ranks::order::{Accesses, Clock, merge};
use crate::export::ranks::state::{Content, Slot, name, shape, slot, sum, wrong};
use crate::export::ranks::{Buffer, Kind, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use thiserror::Error;

/// An operation by its rank, thread block and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The rank.
    pub rank: usize,
    /// Its thread block.
    pub block: usize,
    /// The operation of the block.
    pub operation: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, thread block {}, operation {}", self.rank, self.block, self.operation)
    }
}

/// Who uses a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An operation.
    Operation(At),
    /// The caller of a rank, who reads its output and writes its input before and after each launch.
    Caller(usize),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Operation(at) => at.fmt(f),
            Access::Caller(rank) => write!(f, "the caller of rank {rank}"),
        }
    }
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-wrong"))]
pub enum Flaw {
    /// It does not say what it is for.
    #[error("`{0}` is no collective that can be proven: say with `--collective` what the plan should do")]
    Collective(String),
    /// The buffers are not those of the collective.
    #[error("{inputs} input and {outputs} output chunks are not those of a {kind} over {ranks} ranks")]
    Shape {
        /// The collective.
        kind: Kind,
        /// How many ranks.
        ranks: u64,
        /// Chunks of the input.
        inputs: u64,
        /// Chunks of the output.
        outputs: u64,
    },
    /// The executor would not load it, or read something else.
    #[error("rank {rank}{}: {what}", block.map_or_else(String::new, |block| format!(", thread block {block}")))]
    Limit {
        /// The rank.
        rank: usize,
        /// Its thread block.
        block: Option<usize>,
        /// In words.
        what: String,
    },
    /// An operation that cannot be read.
    #[error("{at}: {what}")]
    Operation {
        /// Rank, thread block and place of the operation.
        at: At,
        /// In words.
        what: String,
    },
    /// A contribution is added twice.
    #[error("{at}: the input of rank {rank} is added twice to chunk {chunk}")]
    Doubled {
        /// Rank, thread block and place of the operation.
        at: At,
        /// Whose.
        rank: u32,
        /// Which chunk of its input.
        chunk: u64,
    },
    /// Some operations wait for each other.
    #[error("deadlock: {at} waits, and so do {more} other thread blocks")]
    Deadlock {
        /// The first of them.
        at: At,
        /// How many more.
        more: usize,
    },
    /// Signals that nobody waits for.
    #[error("{signals} signals from rank {from} to rank {to} are never waited for")]
    #[diagnostic(help("the next launch would take them for its own"))]
    Unheard {
        /// The sender.
        from: usize,
        /// To whom.
        to: usize,
        /// How many.
        signals: usize,
    },
    /// A semaphore that is not at the end of a launch what it was at the start.
    #[error("rank {rank}: a launch starts with semaphore {semaphore} at {before} and ends with it at {after}")]
    #[diagnostic(help("the next launch would start with another count"))]
    Unbalanced {
        /// The rank.
        rank: usize,
        /// The semaphore.
        semaphore: usize,
        /// Its count at the start.
        before: usize,
        /// Its count at the end.
        after: usize,
    },
    /// Two signals, or two waits, that have no order.
    #[error("{first} and {second} {what} in either order")]
    #[diagnostic(help("signals are only counted: a wait cannot tell which of the two it was for"))]
    Unordered {
        /// One.
        first: At,
        /// The other.
        second: At,
        /// What both do.
        what: String,
    },
    /// Two accesses to a chunk that have no order.
    #[error("{first} and {second} access chunk {chunk} of {buffer} of rank {rank} in either order")]
    #[diagnostic(help(
        "a signal and a wait order ranks, a semaphore thread blocks, and a `nop` the threads of a block; the caller of a rank uses its buffers between two launches, whatever other ranks are doing"
    ))]
    Race {
        /// One.
        first: Access,
        /// The other.
        second: Access,
        /// Whose buffer.
        rank: usize,
        /// The buffer.
        buffer: &'static str,
        /// The chunk.
        chunk: u64,
    },
    /// A chunk of the output is not what it should be.
    #[error("rank {rank}: output chunk {chunk} {what}")]
    Wrong {
        /// The rank.
        rank: usize,
        /// The chunk.
        chunk: u64,
        /// In words.
        what: String,
    },
}

/// Lists of chunks, of whichever ranks.
type Lists = Vec<Vec<Slot>>;

/// Chunks that are read, added up if several go to one place, and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// Who does it, and where.
    pub(super) at: At,
    /// Whether the sources are added up; if not, each goes to the target in its place.
    pub(super) reduces: bool,
    /// What is read, of whichever ranks.
    pub(super) sources: Lists,
    /// What is written.
    pub(super) targets: Lists,
}

/// What has been shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// What it does.
    pub kind: Kind,
    /// How many ranks and chunks.
    pub shape: Shape,
    /// Operations of all ranks.
    pub operations: usize,
    /// Signals of all ranks.
    pub signals: usize,
    /// The first of the operations whose result nobody needs, and how many there are.
    pub unused: Option<(At, usize)>,
    /// What is moved, in an order in which it may happen.
    pub(super) moves: Vec<Move>,
}

/// How many launches in a row are run.
const LAUNCHES: u32 = 2;
/// Entries of clocks that are kept at once, of thread blocks and of signals on their way.
const MOST_ENTRIES: usize = 1 << 27;

/// Proves a plan.
///
/// # Errors
/// The first flaw.
pub fn prove(plan: &Plan, kind: Option<Kind>) -> Result<Proven, Flaw> {
    let named = Kind::ALL.into_iter().find(|kind| word(*kind) == plan.collective);
    let kind = kind.or(named).ok_or_else(|| Flaw::Collective(plan.collective.clone()))?;
    limits(plan)?;
    let chunks = plan.gpus.iter().map(|gpu| [gpu.input_chunks, gpu.output_chunks]);
    let shape = shape(kind, plan.inplace, chunks).map_err(|Shape { ranks, input, output }| Flaw::Shape {
        kind,
        ranks,
        inputs: input,
        outputs: output,
    })?;
    let mut machine = Machine::new(plan, kind, shape)?;
    machine.run()?;
    machine.balance()?;
    let operations = plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).map(|block| block.ops.len()).sum();
    let unused = machine.unused();
    Ok(Proven { kind, shape, operations, signals: machine.signals / LAUNCHES as usize, unused, moves: machine.moves })
}

fn limits(plan: &Plan) -> Result<(), Flaw> {
    let limit = |rank, block, what: String| Err(Flaw::Limit { rank, block, what });
    if plan.gpus.len() > MOST_RANKS {
        return limit(0, None, format!("{} ranks; at most {MOST_RANKS} are read", plan.gpus.len()));
    }
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        if gpu.id as usize != rank {
            return limit(rank, None, format!("its id is {}", gpu.id));
        }
        let many = gpu.semaphores.iter().find(|semaphore| semaphore.init_value > 1 << 10);
        if let Some(semaphore) = many {
            return limit(rank, None, format!("a semaphore that starts at {}", semaphore.init_value));
        }
        if gpu.input_chunks.max(gpu.output_chunks).max(gpu.scratch_chunks) > MOST_CHUNKS {
            return limit(rank, None, format!("a buffer of more than {MOST_CHUNKS} chunks"));
        }
        for (number, block) in gpu.threadblocks.iter().enumerate() {
            if block.id as usize != number {
                return limit(rank, Some(number), format!("its id is {}", block.id));
            }
            if block.ops.len() > MOST_OPERATIONS {
                return limit(
                    rank,
                    Some(number),
                    format!("{} operations; there is room for {MOST_OPERATIONS}", block.ops.len()),
                );
            }
            let channels: usize = block.channels.iter().map(|refs| refs.channel_ids.len()).sum();
            if channels > MOST_CHANNELS {
                return limit(rank, Some(number), format!("{channels} channels; there is room for {MOST_CHANNELS}"));
            }
            let remotes: usize = block.remote_buffer_refs.iter().map(|refs| refs.remote_buffer_ids.len()).sum();
            if remotes > MOST_CHANNELS {
                let what = format!("{remotes} remote buffers; there is room for {MOST_CHANNELS}");
                return limit(rank, Some(number), what);
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
struct Turn {
    at: At,
    lane: usize,
    event: Event,
}

impl Turn {
    /// Whether the next one comes after it: by the clock, or in the order of one thread.
    fn is_before(self, next: Turn, clock: &[u32]) -> bool {
        let same = |turn: Turn| (turn.at.rank, turn.at.block, turn.lane);
        same(self) == same(next) || self.event.is_before(clock)
    }
}

/// Counted events, which come in one order, as do those that wait for them.
#[derive(Default)]
struct Counter {
    /// What was known to who sent it; nothing of what was there at the start.
    events: VecDeque<Option<Clock>>,
    /// The last to send, and to wait.
    last: [Option<Turn>; 2],
}

impl Counter {
    fn push(&mut self, turn: Turn, clock: &[u32]) -> Result<(), Flaw> {
        self.events.push_back(Some(clock.to_vec()));
        self.turn(0, turn, clock)
    }

    fn pop(&mut self, turn: Turn, clock: &mut [u32]) -> Result<(), Flaw> {
        self.turn(1, turn, clock)?;
        self.events.pop_front().flatten().iter().for_each(|event| merge(clock, event));
        Ok(())
    }

    fn turn(&mut self, side: usize, next: Turn, clock: &[u32]) -> Result<(), Flaw> {
        match self.last[side].replace(next) {
            Some(last) if !last.is_before(next, clock) => {
                let what = ["signal", "wait"][side].to_owned();
                Err(Flaw::Unordered { first: last.at, second: next.at, what })
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

/// What the threads of a block know.
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
        let all = &self.all;
        self.lanes.entry(lane).or_insert_with(|| all.clone())
    }

    fn meet(&mut self) {
        for lane in std::mem::take(&mut self.lanes).into_values() {
            merge(&mut self.all, &lane);
        }
    }
}

/// The agents of the clocks are: the threads of each block together, the first thread of each block, the caller of each
/// rank, and each port channel, whose puts are done by a proxy.
struct Machine<'p> {
    plan: &'p Plan,
    kind: Kind,
    shape: Shape,
    chunks: BTreeMap<Slot, Content>,
    accesses: BTreeMap<Slot, Accesses<(Access, Event)>>,
    /// The first thread block of each rank in the clocks.
    first: Vec<usize>,
    /// The first agent that is a caller.
    callers: usize,
    /// By rank: how many launches are over.
    launches: Vec<u32>,
    threads: Vec<Vec<Threads>>,
    /// By rank and carrier, in the order of the rank.
    channels: Vec<BTreeMap<Carrier, Vec<Option<Wire>>>>,
    wires: BTreeMap<Wire, Counter>,
    semaphores: BTreeMap<(usize, usize), Counter>,
    /// Who has come to a barrier.
    barriers: BTreeMap<(usize, usize), BTreeSet<usize>>,
    /// The agent and the clock of each port channel.
    ports: BTreeMap<Wire, (usize, Clock)>,
    signals: usize,
    /// Signals on their way, of channels and semaphores.
    pending: usize,
    moves: Vec<Move>,
}

impl<'p> Machine<'p> {
    fn new(plan: &'p Plan, kind: Kind, shape: Shape) -> Result<Machine<'p>, Flaw> {
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
        let threads = |block: &Block| (Threads { next: 0, all: vec![0; agents], lanes: BTreeMap::new() }, block).0;
        let mut machine = Machine {
            plan,
            kind,
            shape,
            chunks: BTreeMap::new(),
            accesses: BTreeMap::new(),
            first,
            callers: 2 * blocks,
            launches: vec![0; plan.gpus.len()],
            threads: plan.gpus.iter().map(|gpu| gpu.threadblocks.iter().map(threads).collect()).collect(),
            channels,
            wires: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            barriers: BTreeMap::new(),
            ports: BTreeMap::new(),
            signals: 0,
            pending: 0,
            moves: Vec::new(),
        };
        for (rank, gpu) in plan.gpus.iter().enumerate() {
            for (id, semaphore) in gpu.semaphores.iter().enumerate() {
                let counter = machine.semaphores.entry((rank, id)).or_default();
                counter.events.extend(std::iter::repeat_n(None, semaphore.init_value as usize));
            }
            machine.launch(rank, vec![0; agents])?;
        }
        Ok(machine)
    }

    fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot(self.plan.inplace, self.kind, self.shape, (rank, buffer, chunk))
    }

    /// The caller writes the input, and the thread blocks start.
    fn launch(&mut self, rank: usize, mut clock: Clock) -> Result<(), Flaw> {
        let event = self.called(rank, &mut clock);
        for chunk in 0..self.shape.input {
            let slot = self.slot(rank, Buffer::Input, chunk);
            self.access((Access::Caller(rank), event), slot, true, &clock)?;
            self.chunks.insert(slot, Rc::new([(self.plan.gpus[rank].id, chunk)]));
        }
        for threads in &mut self.threads[rank] {
            *threads = Threads { next: 0, all: clock.clone(), lanes: BTreeMap::new() };
        }
        Ok(())
    }

    fn called(&self, rank: usize, clock: &mut [u32]) -> Event {
        let agent = self.callers + rank;
        clock[agent] += 1;
        Event { agent, time: clock[agent] }
    }

    /// A rank has ended: the caller reads the output, which is of no use to the next launch.
    fn end(&mut self, rank: usize) -> Result<(), Flaw> {
        let mut clock: Option<Clock> = None;
        for block in 0..self.threads[rank].len() {
            self.meet(rank, block);
            let threads = &self.threads[rank][block];
            clock = Some(clock.map_or_else(
                || threads.all.clone(),
                |mut clock| {
                    merge(&mut clock, &threads.all);
                    clock
                },
            ));
        }
        // A rank without thread blocks learns nothing.
        let Some(mut clock) = clock else {
            return Err(Flaw::Limit { rank, block: None, what: "no thread blocks".to_owned() });
        };
        let event = self.called(rank, &mut clock);
        for chunk in 0..self.shape.output {
            let slot = self.slot(rank, Buffer::Output, chunk);
            self.access((Access::Caller(rank), event), slot, false, &clock)?;
            let found = self.chunks.remove(&slot);
            if let Some(what) = wrong(self.kind, self.shape, (rank, chunk), found.as_ref()) {
                return Err(Flaw::Wrong { rank, chunk, what });
            }
        }
        self.launches[rank] += 1;
        if self.launches[rank] < LAUNCHES { self.launch(rank, clock) } else { Ok(()) }
    }

    /// Runs all thread blocks as far as they come, again and again. A kernel ends when nothing else can be done, so that
    /// what comes too late for it is found to have no order, rather than to be missing.
    fn run(&mut self) -> Result<(), Flaw> {
        let plan = self.plan;
        loop {
            let mut moved = false;
            for (rank, gpu) in plan.gpus.iter().enumerate() {
                for (block, operations) in gpu.threadblocks.iter().enumerate() {
                    while let Some(operation) = operations.ops.get(self.threads[rank][block].next) {
                        let at = At { rank, block, operation: self.threads[rank][block].next };
                        if !self.take(at, operation)? {
                            break;
                        }
                        self.threads[rank][block].next += 1;
                        moved = true;
                    }
                }
            }
            if moved {
                continue;
            }
            let waits: Vec<Vec<At>> = (0..plan.gpus.len()).map(|rank| self.waits(rank)).collect();
            let ends = |rank: &usize| waits[*rank].is_empty() && self.launches[*rank] < LAUNCHES;
            let ended: Vec<usize> = (0..plan.gpus.len()).filter(ends).collect();
            for rank in &ended {
                self.end(*rank)?;
            }
            match waits.iter().flatten().next() {
                Some(at) if ended.is_empty() => {
                    return Err(Flaw::Deadlock { at: *at, more: waits.iter().flatten().count() - 1 });
                }
                None if ended.is_empty() => return Ok(()),
                Some(_) | None => {}
            }
        }
    }

    /// The operations for which a rank waits before its kernel can end.
    fn waits(&self, rank: usize) -> Vec<At> {
        if self.launches[rank] == LAUNCHES {
            return Vec::new();
        }
        let blocks = self.threads[rank].iter().zip(&self.plan.gpus[rank].threadblocks).enumerate();
        let left = blocks.filter(|(_, (threads, block))| threads.next < block.ops.len());
        left.map(|(block, (threads, _))| At { rank, block, operation: threads.next }).collect()
    }

    /// That the next launch finds all counters as the first one did.
    fn balance(&self) -> Result<(), Flaw> {
        if let Some(((from, to, ..), wire)) = self.wires.iter().find(|(_, counter)| !counter.events.is_empty()) {
            return Err(Flaw::Unheard { from: *from, to: *to, signals: wire.events.len().div_ceil(LAUNCHES as usize) });
        }
        for ((rank, semaphore), counter) in &self.semaphores {
            let before = self.plan.gpus[*rank].semaphores[*semaphore].init_value as usize;
            let more = counter.events.len().saturating_sub(before) / LAUNCHES as usize;
            if counter.events.len() != before {
                let after = if more > 0 { before + more } else { counter.events.len() };
                return Err(Flaw::Unbalanced { rank: *rank, semaphore: *semaphore, before, after });
            }
        }
        Ok(())
    }

    /// Does an operation, unless it has to wait.
    fn take(&mut self, at: At, operation: &Operation) -> Result<bool, Flaw> {
        let is_port = operation.channel_type.as_deref().and_then(Carrier::of) == Some(Carrier::Port);
        let wrong = |what: String| Err(Flaw::Operation { at, what });
        match operation.name.as_str() {
            "nop" => self.meet(at.rank, at.block),
            "flush" if is_port => {
                for (lane, wire) in self.wires(at, operation)?.into_iter().enumerate() {
                    let (_, clock) = self.port(wire);
                    let clock = clock.clone();
                    merge(self.threads[at.rank][at.block].lane(lane), &clock);
                }
            }
            "signal" => {
                for (lane, wire) in self.wires(at, operation)?.into_iter().enumerate() {
                    self.signal(at, lane, wire, is_port)?;
                }
            }
            "wait" => {
                let wires =
                    self.wires(at, operation)?.into_iter().map(|(from, to, carrier, twin)| (to, from, carrier, twin));
                let wires: Vec<Wire> = wires.collect();
                let is_empty = |wire: &Wire| self.wires.get(wire).is_none_or(|counter| counter.events.is_empty());
                if wires.iter().any(is_empty) {
                    return Ok(false);
                }
                for (lane, wire) in wires.into_iter().enumerate() {
                    let turn = self.turn(at, lane);
                    let clock = self.threads[at.rank][at.block].lane(lane);
                    self.wires.entry(wire).or_default().pop(turn, clock)?;
                    self.pending = self.pending.saturating_sub(1);
                    self.tick(turn);
                }
            }
            "sem_acquire" | "sem_release" => {
                let ids = &operation.semaphore_ids;
                let here = self.plan.gpus[at.rank].semaphores.len();
                if let Some(id) = ids.iter().find(|id| **id >= here) {
                    return wrong(format!("there is no semaphore {id}"));
                }
                distinct(at, ids)?;
                let is_empty =
                    |id: &usize| self.semaphores.get(&(at.rank, *id)).is_none_or(|counter| counter.events.is_empty());
                let acquires = operation.name == "sem_acquire";
                if acquires && ids.iter().any(is_empty) {
                    return Ok(false);
                }
                for (lane, id) in ids.iter().enumerate() {
                    let turn = self.turn(at, lane);
                    let clock = self.threads[at.rank][at.block].lane(lane);
                    let clock_length = clock.len();
                    let counter = self.semaphores.entry((at.rank, *id)).or_default();
                    if acquires {
                        counter.pop(turn, clock)?;
                        self.pending = self.pending.saturating_sub(1);
                        self.tick(turn);
                    } else {
                        self.tick(turn);
                        self.room(at, clock_length)?;
                        let clock = self.threads[at.rank][at.block].lane(lane);
                        self.semaphores.entry((at.rank, *id)).or_default().push(turn, clock)?;
                    }
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
                self.moved(at, operation, operation.name.starts_with('r'))?;
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
        u32::try_from(at.operation + 1).unwrap_or(u32::MAX)
            + self.launches[at.rank] * u32::try_from(length).unwrap_or(u32::MAX)
    }

    /// The event of an operation that all threads do.
    fn event(&self, at: At) -> Event {
        Event { agent: 2 * self.block(at), time: self.time(at) }
    }

    /// The event of an operation that one thread does. All but the first count as all threads together.
    fn turn(&self, at: At, lane: usize) -> Turn {
        let event = Event { agent: 2 * self.block(at) + usize::from(lane == 0), time: self.time(at) };
        Turn { at, lane, event }
    }

    fn tick(&mut self, turn: Turn) {
        if turn.lane == 0 {
            self.threads[turn.at.rank][turn.at.block].lane(0)[turn.event.agent] = turn.event.time;
        }
    }

    /// That there is room for the clock of one more signal.
    fn room(&mut self, at: At, entries: usize) -> Result<(), Flaw> {
        self.pending += 1;
        if self.pending.saturating_mul(entries) > MOST_ENTRIES {
            let what = format!("{} signals on their way are too many to prove", self.pending);
            return Err(Flaw::Operation { at, what });
        }
        Ok(())
    }

    /// The threads of a block wait for each other: all is done that stands before.
    fn meet(&mut self, rank: usize, block: usize) {
        let length = u32::try_from(self.plan.gpus[rank].threadblocks[block].ops.len()).unwrap_or(u32::MAX);
        let agent = 2 * (self.first[rank] + block);
        let launches = self.launches[rank];
        let threads = &mut self.threads[rank][block];
        threads.meet();
        let time = launches * length + u32::try_from(threads.next).unwrap_or(u32::MAX);
        threads.all[agent..agent + 2].fill(time);
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
            return Err(Flaw::Operation { at, what });
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

    fn signal(&mut self, at: At, lane: usize, wire: Wire, is_port: bool) -> Result<(), Flaw> {
        let turn = self.turn(at, lane);
        self.tick(turn);
        let mut clock = self.threads[at.rank][at.block].lane(lane).clone();
        if is_port {
            // The proxy sends it when the puts before it have been done.
            let (_, port) = self.port(wire);
            merge(port, &clock);
            clock.clone_from(port);
        }
        self.signals += 1;
        self.room(at, clock.len())?;
        self.wires.entry(wire).or_default().push(turn, &clock)
    }

    fn port(&mut self, wire: Wire) -> (usize, &mut Clock) {
        let agents = self.threads.iter().flatten().map(|threads| threads.all.len()).next().unwrap_or(0);
        let next = self.callers + self.plan.gpus.len() + self.ports.len();
        let (agent, clock) = self.ports.entry(wire).or_insert_with(|| (next, vec![0; agents]));
        (*agent, clock)
    }

    /// Puts that a proxy does, some time before the next signal or flush on the channel is over.
    fn port_put(&mut self, at: At, operation: &Operation) -> Result<(), Flaw> {
        let wires = self.wires(at, operation)?;
        let (sources, targets) = self.operands(at, operation)?;
        if wires.len() != targets.len() {
            return Err(Flaw::Operation { at, what: "a put takes a channel for each target".to_owned() });
        }
        for (lane, wire) in wires.into_iter().enumerate() {
            if targets[lane].first().is_none_or(|(rank, ..)| *rank != wire.1) {
                let what = format!("a put on a channel to rank {} into a buffer of another", wire.1);
                return Err(Flaw::Operation { at, what });
            }
            let known = self.threads[at.rank][at.block].lane(lane).clone();
            let (agent, clock) = self.port(wire);
            merge(clock, &known);
            clock[agent] += 1;
            let (event, clock) = (Event { agent, time: clock[agent] }, clock.clone());
            self.apply(at, event, &clock, (&sources[lane..=lane], &targets[lane..=lane]), false)?;
            if operation.name != "put" {
                self.signal(at, lane, wire, true)?;
            }
            if operation.name == "pwsf" {
                let clock = self.port(wire).1.clone();
                merge(self.threads[at.rank][at.block].lane(lane), &clock);
            }
        }
        Ok(())
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
            wire.ok_or_else(|| Flaw::Operation { at, what: what() })
        };
        let wires: Vec<Wire> = operation.channel_ids.iter().map(wire).collect::<Result<_, _>>()?;
        if wires.is_empty() || wires.len() > MOST_AT_ONCE {
            let what = format!("`{}` on {} channels; it takes 1 to {MOST_AT_ONCE}", operation.name, wires.len());
            return Err(Flaw::Operation { at, what });
        }
        distinct(at, &wires)?;
        Ok(wires)
    }

    /// The chunks that an operation speaks of, here or on another rank.
    fn slots(&self, at: At, operation: &Operation, chunks: &Chunks) -> Result<Vec<Slot>, Flaw> {
        let wrong = |what: String| Flaw::Operation { at, what };
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
        let buffer = buffer(kind).ok_or_else(|| wrong(format!("`{kind}` is no buffer")))?;
        let whose = &self.plan.gpus[rank];
        let room = match buffer {
            Buffer::Input => whose.input_chunks.max(if self.plan.inplace { self.shape.input } else { 0 }),
            Buffer::Output => whose.output_chunks.max(if self.plan.inplace { self.shape.output } else { 0 }),
            Buffer::Scratch => whose.scratch_chunks,
        };
        let end = chunks.index.checked_add(chunks.size).filter(|end| *end <= room && chunks.size > 0);
        let end = end.ok_or_else(|| {
            wrong(format!("chunks {} and {} more are not in a buffer of {room}", chunks.index, chunks.size))
        })?;
        Ok((chunks.index..end).map(|chunk| self.slot(rank, buffer, chunk)).collect())
    }

    /// Reads, adds if that is asked for, and writes, by all threads of the block.
    fn moved(&mut self, at: At, operation: &Operation, reduces: bool) -> Result<(), Flaw> {
        let (sources, targets) = self.operands(at, operation)?;
        let clock = std::mem::take(&mut self.threads[at.rank][at.block].all);
        let done = self.apply(at, self.event(at), &clock, (&sources, &targets), reduces);
        self.threads[at.rank][at.block].all = clock;
        done
    }

    /// The chunks of an operation that moves them, each list as long as the others.
    fn operands(&self, at: At, operation: &Operation) -> Result<(Lists, Lists), Flaw> {
        let wrong = |what: String| Flaw::Operation { at, what };
        let all = |list: &[Chunks]| -> Result<Lists, Flaw> {
            list.iter().map(|chunks| self.slots(at, operation, chunks)).collect()
        };
        let (sources, targets) = (all(&operation.src_buff)?, all(&operation.dst_buff)?);
        let length = sources.first().map_or(0, Vec::len);
        let same = sources.iter().chain(&targets).all(|slots| slots.len() == length);
        let is_remote = |chunks: &Chunks| chunks.buffer_id.is_some();
        let remote = |list: &[Chunks], from: usize, to: usize| {
            list.iter().enumerate().all(|(place, chunks)| is_remote(chunks) == (from..to).contains(&place))
        };
        let (src, dst) = (&operation.src_buff, &operation.dst_buff);
        let (here, there, rest) = ((0, 0), (0, usize::MAX), (1, usize::MAX));
        let (from, to) = match operation.name.as_str() {
            "put" | "pws" | "pwsf" => (here, there),
            "get" => (there, here),
            "res" => (here, rest),
            "rre" => (rest, here),
            "rres" => (rest, rest),
            _ => (here, here),
        };
        if !remote(src, from.0, from.1) || !remote(dst, to.0, to.1) {
            return Err(wrong(format!(
                "`{}` with chunks here that should be elsewhere, or the other way",
                operation.name
            )));
        }
        // The executor looks at the first target of a copy and of a sum, and the first buffer that is put.
        let (pairs, single) = match operation.name.as_str() {
            "put" | "pws" | "pwsf" => (true, src.iter().all(|chunks| chunks.kind == src[0].kind)),
            "get" => (true, true),
            "copy" => (true, dst.len() == 1),
            "re" | "rre" => (false, dst.len() == 1),
            _ => (false, true),
        };
        let fits = !sources.is_empty() && !targets.is_empty() && same && single;
        if !fits || pairs && sources.len() != targets.len() {
            return Err(wrong(format!("the chunks of `{}` do not fit each other", operation.name)));
        }
        // Threads do not wait for each other inside an operation.
        let mut written: BTreeMap<Slot, (usize, usize)> = BTreeMap::new();
        let place = |list: usize, chunk: usize| (if pairs { list } else { 0 }, chunk);
        for (list, slots) in targets.iter().enumerate() {
            for (chunk, slot) in slots.iter().enumerate() {
                if written.insert(*slot, place(list, chunk)).is_some() {
                    return Err(wrong(format!("`{}` writes a chunk twice", operation.name)));
                }
            }
        }
        for (list, slots) in sources.iter().enumerate() {
            for (chunk, slot) in slots.iter().enumerate() {
                if written.get(slot).is_some_and(|written| *written != place(list, chunk)) {
                    return Err(wrong(format!("`{}` reads a chunk that it also overwrites", operation.name)));
                }
            }
        }
        Ok((sources, targets))
    }

    fn apply(
        &mut self,
        at: At,
        event: Event,
        clock: &[u32],
        (sources, targets): (&[Vec<Slot>], &[Vec<Slot>]),
        reduces: bool,
    ) -> Result<(), Flaw> {
        let access = (Access::Operation(at), event);
        let mut contents: Vec<Vec<Content>> = Vec::new();
        for slots in sources {
            let mut read = Vec::with_capacity(slots.len());
            for slot in slots {
                self.access(access, *slot, false, clock)?;
                let unwritten =
                    || Flaw::Operation { at, what: "a chunk is read before anything was written to it".to_owned() };
                read.push(self.chunks.get(slot).cloned().ok_or_else(unwritten)?);
            }
            contents.push(read);
        }
        if reduces {
            let length = contents.first().map_or(0, Vec::len);
            let doubled = |(rank, chunk)| Flaw::Doubled { at, rank, chunk };
            let sum = |chunk| sum(contents.iter().map(|chunks: &Vec<Content>| &chunks[chunk])).map_err(doubled);
            contents = vec![(0..length).map(sum).collect::<Result<_, _>>()?; targets.len()];
        }
        for (slots, result) in targets.iter().zip(contents) {
            for (slot, content) in slots.iter().zip(result) {
                self.access(access, *slot, true, clock)?;
                self.chunks.insert(*slot, content);
            }
        }
        if self.launches[at.rank] == 0 {
            self.moves.push(Move { at, reduces, sources: sources.to_vec(), targets: targets.to_vec() });
        }
        Ok(())
    }

    /// That whoever used a chunk before is done.
    fn access(&mut self, next: (Access, Event), slot: Slot, writes: bool, clock: &[u32]) -> Result<(), Flaw> {
        let accesses = self.accesses.entry(slot).or_default();
        let early = accesses.conflicting(writes).find(|(_, event)| *event != next.1 && !event.is_before(clock));
        if let Some((first, _)) = early {
            let (rank, buffer, chunk) = slot;
            return Err(Flaw::Race { first: *first, second: next.0, rank, buffer: name(buffer), chunk });
        }
        accesses.push(next, writes);
        Ok(())
    }

    /// From the results back: what is overwritten, or left, without having been read for one of them.
    fn unused(&self) -> Option<(At, usize)> {
        let outputs = |rank| (0..self.shape.output).map(move |chunk| (rank, chunk));
        let outputs = (0..self.plan.gpus.len()).flat_map(outputs);
        let mut needed: BTreeSet<Slot> = outputs.map(|(rank, chunk)| self.slot(rank, Buffer::Output, chunk)).collect();
        let mut unused: BTreeSet<At> = BTreeSet::new();
        for step in self.moves.iter().rev() {
            let wanted: Vec<bool> = step
                .targets
                .iter()
                // All of them are written here, so all are taken out.
                .map(|slots| slots.iter().filter(|slot| needed.remove(slot)).count() > 0)
                .collect();
            if !wanted.contains(&true) {
                unused.insert(step.at);
            }
            // Of a sum all is read, of copies what goes to a place that is needed.
            let is_read = |place: usize| if step.reduces { wanted.contains(&true) } else { wanted[place] };
            let read = step.sources.iter().enumerate().filter(|(place, _)| is_read(*place));
            needed.extend(read.flat_map(|(_, slots)| slots));
        }
        unused.first().map(|first| (*first, unused.len()))
    }
}

/// That nothing stands twice in a list of what threads do side by side.
fn distinct<T: Ord>(at: At, all: &[T]) -> Result<(), Flaw> {
    if all.iter().collect::<BTreeSet<_>>().len() == all.len() {
        return Ok(());
    }
    Err(Flaw::Operation { at, what: "a channel or semaphore stands twice in one operation".to_owned() })
}
