//! What a plan does, on symbols, against the collective that it claims to be.
//!
//! The ranks are run once, and of each chunk it is known what has been added up in it. Each operation carries a clock:
//! how many operations of every thread block are done before it, because of the order in the blocks, of signals,
//! barriers and semaphores. Operations that touch the same chunk, one of them writing, must be one before the other.
//! Signals are only counted, so that a wait tells of one of them only where they, and those who wait, have one order.

use super::{Chunks, Gpu, MOST_CHANNELS, MOST_CHUNKS, MOST_OPERATIONS, MOST_RANKS, Operation, Plan, buffer, word};
use crate::export::ranks::state::{Content, Slot, name, shape, slot, wrong};
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
        /// Where.
        at: At,
        /// In words.
        what: String,
    },
    /// A contribution is added twice.
    #[error("{at}: the input of rank {rank} is added twice to chunk {chunk}")]
    Doubled {
        /// Where.
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
    #[diagnostic(help("the next execution would take them for its own"))]
    Unheard {
        /// The sender.
        from: usize,
        /// To whom.
        to: usize,
        /// How many.
        signals: usize,
    },
    /// Two operations touch a chunk in either order.
    #[error("{first} and {second} touch chunk {chunk} of {buffer} of rank {rank} in either order")]
    Race {
        /// One.
        first: At,
        /// The other.
        second: At,
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

/// Chunks that are read, added up if several go to one place, and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// Who does it, and where.
    pub(super) at: At,
    /// Whether the sources are added up; if not, each goes to the target in its place.
    pub(super) reduces: bool,
    /// What is read, of whichever ranks.
    pub(super) sources: Vec<Vec<Slot>>,
    /// What is written.
    pub(super) targets: Vec<Vec<Slot>>,
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

/// By thread block of all ranks: how many operations are done.
type Clock = Rc<[u32]>;

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
    let mut machine = Machine::new(plan, kind, shape);
    machine.run()?;
    machine.result()?;
    let operations = plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).map(|block| block.ops.len()).sum();
    let unused = machine.unused();
    Ok(Proven { kind, shape, operations, signals: machine.signals, unused, moves: machine.moves })
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
        }
    }
    Ok(())
}

/// Who touched a chunk last.
#[derive(Default)]
struct Touched {
    writer: Option<(At, usize, u32)>,
    readers: Vec<(At, usize, u32)>,
}

/// Counted events. A waiter knows which of them it has waited for as long as they, and the waiters, come in one order.
#[derive(Default)]
struct Counter {
    events: VecDeque<Clock>,
    /// Of the last event, and of the last waiter.
    last: [Option<Clock>; 2],
    is_disordered: bool,
}

impl Counter {
    fn push(&mut self, clock: &[u32]) {
        self.follow(0, clock);
        self.events.push_back(Rc::from(clock));
    }

    /// What is known to be done before a waiter goes on.
    fn pop(&mut self, waiter: &[u32], own: usize) -> Option<Clock> {
        self.follow(1, waiter);
        // Who waits next has to come after this wait.
        let mut after = waiter.to_vec();
        after[own] += 1;
        self.last[1] = Some(Rc::from(after));
        self.events.pop_front().filter(|_| !self.is_disordered)
    }

    fn follow(&mut self, side: usize, clock: &[u32]) {
        let follows = |last: &Clock| last.iter().zip(clock).all(|(last, clock)| last <= clock);
        self.is_disordered |= !self.last[side].as_ref().is_none_or(follows);
        self.last[side] = Some(Rc::from(clock));
    }
}

struct Machine<'p> {
    plan: &'p Plan,
    kind: Kind,
    shape: Shape,
    chunks: BTreeMap<Slot, Content>,
    touched: BTreeMap<Slot, Touched>,
    /// The first thread block of each rank in the clocks.
    first: Vec<usize>,
    next: Vec<Vec<usize>>,
    clocks: Vec<Vec<u32>>,
    /// By sender, receiver and type of the channel.
    wires: BTreeMap<(usize, usize, String), Counter>,
    semaphores: BTreeMap<(usize, usize), Counter>,
    /// Who has come to a barrier.
    barriers: BTreeMap<(usize, usize), BTreeSet<usize>>,
    signals: usize,
    moves: Vec<Move>,
}

impl<'p> Machine<'p> {
    fn new(plan: &'p Plan, kind: Kind, shape: Shape) -> Machine<'p> {
        let mut first = Vec::new();
        let mut blocks = 0;
        for gpu in &plan.gpus {
            first.push(blocks);
            blocks += gpu.threadblocks.len();
        }
        let mut machine = Machine {
            plan,
            kind,
            shape,
            chunks: BTreeMap::new(),
            touched: BTreeMap::new(),
            first,
            next: plan.gpus.iter().map(|gpu| vec![0; gpu.threadblocks.len()]).collect(),
            clocks: vec![vec![0; blocks]; blocks],
            wires: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            barriers: BTreeMap::new(),
            signals: 0,
            moves: Vec::new(),
        };
        for (rank, gpu) in plan.gpus.iter().enumerate() {
            for chunk in 0..shape.input {
                let slot = machine.slot(rank, Buffer::Input, chunk);
                machine.chunks.insert(slot, Rc::new([(gpu.id, chunk)]));
            }
            for (id, semaphore) in gpu.semaphores.iter().enumerate() {
                let start: Clock = Rc::from(vec![0; blocks]);
                let counter = machine.semaphores.entry((rank, id)).or_default();
                counter.events.extend(std::iter::repeat_n(start, semaphore.init_value.min(1 << 16) as usize));
            }
        }
        machine
    }

    fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot(self.plan.inplace, self.kind, self.shape, (rank, buffer, chunk))
    }

    fn run(&mut self) -> Result<(), Flaw> {
        let blocks = |(rank, gpu): (usize, &Gpu)| (0..gpu.threadblocks.len()).map(move |block| (rank, block));
        let mut waiting: VecDeque<(usize, usize)> = self.plan.gpus.iter().enumerate().flat_map(blocks).collect();
        let mut idle = 0;
        let plan = self.plan;
        while let Some((rank, block)) = waiting.pop_front() {
            let before = self.next[rank][block];
            let operations = &plan.gpus[rank].threadblocks[block].ops;
            while let Some(operation) = operations.get(self.next[rank][block]) {
                let at = At { rank, block, operation: self.next[rank][block] };
                if !self.take(at, operation)? {
                    break;
                }
                self.next[rank][block] += 1;
            }
            let at = At { rank, block, operation: self.next[rank][block] };
            idle = if at.operation > before { 0 } else { idle + 1 };
            if at.operation < operations.len() {
                waiting.push_back((rank, block));
                if idle > waiting.len() {
                    return Err(Flaw::Deadlock { at, more: waiting.len() - 1 });
                }
            }
        }
        let left = self.wires.iter().find(|(_, counter)| !counter.events.is_empty());
        left.map_or(Ok(()), |((from, to, _), counter)| {
            Err(Flaw::Unheard { from: *from, to: *to, signals: counter.events.len() })
        })
    }

    /// Does an operation, unless it has to wait.
    fn take(&mut self, at: At, operation: &Operation) -> Result<bool, Flaw> {
        let own = self.first[at.rank] + at.block;
        let peers = || self.peers(at, operation);
        match operation.name.as_str() {
            "nop" | "flush" => {}
            "signal" | "wait" => {
                let kind = operation.channel_type.clone().unwrap_or_default();
                let peers = peers()?;
                if operation.name == "wait" {
                    let wire = |peer: &usize| (*peer, at.rank, kind.clone());
                    let is_empty = |peer| self.wires.get(&wire(peer)).is_none_or(|wire| wire.events.is_empty());
                    if peers.iter().any(is_empty) {
                        return Ok(false);
                    }
                    for peer in &peers {
                        self.heard(wire(peer), own);
                    }
                } else {
                    self.tick(own);
                    peers.iter().for_each(|peer| self.signal((at.rank, *peer, kind.clone()), own));
                    return Ok(true);
                }
            }
            "sem_acquire" => {
                let is_empty =
                    |id: &usize| self.semaphores.get(&(at.rank, *id)).is_none_or(|counter| counter.events.is_empty());
                if operation.semaphore_ids.iter().any(is_empty) {
                    return Ok(false);
                }
                for id in &operation.semaphore_ids {
                    let counter = self.semaphores.entry((at.rank, *id)).or_default();
                    let clock = counter.pop(&self.clocks[own], own);
                    clock.iter().for_each(|clock| merge(&mut self.clocks[own], clock));
                }
            }
            "sem_release" => {
                self.tick(own);
                for id in &operation.semaphore_ids {
                    if *id >= self.plan.gpus[at.rank].semaphores.len() {
                        return Err(Flaw::Operation { at, what: format!("there is no semaphore {id}") });
                    }
                    self.semaphores.entry((at.rank, *id)).or_default().push(&self.clocks[own]);
                }
                return Ok(true);
            }
            "barrier" => {
                let (Some(id), Some(count)) = (operation.barrier_id, operation.num_threadblocks) else {
                    return Err(Flaw::Operation {
                        at,
                        what: "a barrier without `barrier_id` or `num_threadblocks`".to_owned(),
                    });
                };
                if !self.meet(at, id, count) {
                    return Ok(false);
                }
            }
            "put" | "pws" | "pwsf" | "get" | "copy" | "re" | "res" | "rre" | "rres" => {
                let reduces = operation.name.starts_with('r');
                self.moved(at, operation, reduces)?;
                if operation.name.starts_with("pws") {
                    let kind = operation.channel_type.clone().unwrap_or_default();
                    let peers = self.peers(at, operation)?;
                    self.tick(own);
                    peers.iter().for_each(|peer| self.signal((at.rank, *peer, kind.clone()), own));
                    return Ok(true);
                }
            }
            other => return Err(Flaw::Operation { at, what: format!("`{other}` is not read here") }),
        }
        self.tick(own);
        Ok(true)
    }

    fn tick(&mut self, own: usize) {
        self.clocks[own][own] += 1;
    }

    fn signal(&mut self, wire: (usize, usize, String), own: usize) {
        self.wires.entry(wire).or_default().push(&self.clocks[own]);
        self.signals += 1;
    }

    fn heard(&mut self, wire: (usize, usize, String), own: usize) {
        let clock = self.wires.entry(wire).or_default().pop(&self.clocks[own], own);
        clock.iter().for_each(|clock| merge(&mut self.clocks[own], clock));
    }

    /// Whether all that meet at a barrier have come; then they go on from the same clock.
    fn meet(&mut self, at: At, id: usize, count: usize) -> bool {
        let here = self.barriers.entry((at.rank, id)).or_default();
        here.insert(at.block);
        if here.len() < count {
            return false;
        }
        // The last to come lets all others through: they stand at the same barrier.
        let here = std::mem::take(here);
        let mut all = vec![0; self.clocks.len()];
        let first = self.first[at.rank];
        here.iter().for_each(|block| merge(&mut all, &self.clocks[first + block]));
        for block in here {
            self.clocks[first + block].clone_from(&all);
            if block != at.block {
                self.tick(first + block);
                self.next[at.rank][block] += 1;
            }
        }
        true
    }

    /// The ranks on the channels of an operation.
    fn peers(&self, at: At, operation: &Operation) -> Result<Vec<usize>, Flaw> {
        let gpu = &self.plan.gpus[at.rank];
        let kind = operation.channel_type.as_deref().unwrap_or_default();
        let refs = gpu.threadblocks[at.block].channels.iter().filter(|refs| refs.channel_type == kind);
        let own: Vec<usize> = refs.flat_map(|refs| refs.channel_ids.iter().copied()).collect();
        let of_type = gpu.channels.iter().filter(|channels| channels.channel_type == kind);
        let all: Vec<u32> = of_type.flat_map(|channels| channels.connected_to.iter().copied()).collect();
        let peer = |id: &usize| {
            let peer = own.get(*id).and_then(|id| all.get(*id)).map(|peer| *peer as usize);
            let peer = peer.filter(|peer| *peer < self.plan.gpus.len() && *peer != at.rank);
            peer.ok_or_else(|| Flaw::Operation { at, what: format!("channel {id} of type `{kind}` leads to no rank") })
        };
        if operation.channel_ids.is_empty() {
            return Err(Flaw::Operation { at, what: format!("`{}` without a channel", operation.name) });
        }
        operation.channel_ids.iter().map(peer).collect()
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

    /// Reads, adds if that is asked for, and writes.
    fn moved(&mut self, at: At, operation: &Operation, reduces: bool) -> Result<(), Flaw> {
        let all = |list: &[Chunks]| -> Result<Vec<Vec<Slot>>, Flaw> {
            list.iter().map(|chunks| self.slots(at, operation, chunks)).collect()
        };
        let (sources, targets) = (all(&operation.src_buff)?, all(&operation.dst_buff)?);
        let fits = !sources.is_empty() && !targets.is_empty();
        let length = sources.first().map_or(0, Vec::len);
        let same = sources.iter().chain(&targets).all(|slots| slots.len() == length);
        if !fits || !same || !reduces && sources.len() != targets.len() {
            return Err(Flaw::Operation {
                at,
                what: format!("the chunks of `{}` do not fit each other", operation.name),
            });
        }
        let mut contents: Vec<Vec<Option<Content>>> = Vec::new();
        for slots in &sources {
            for slot in slots {
                self.touch(at, *slot, false)?;
            }
            contents.push(slots.iter().map(|slot| self.chunks.get(slot).cloned()).collect());
        }
        if contents.iter().flatten().any(Option::is_none) {
            return Err(Flaw::Operation { at, what: "a chunk is read before anything was written to it".to_owned() });
        }
        let results: Vec<Vec<Content>> = match reduces {
            false => contents.into_iter().map(|chunks| chunks.into_iter().flatten().collect()).collect(),
            true => {
                let mut sums: Vec<Content> = Vec::new();
                for chunk in 0..length {
                    let parts = contents.iter().filter_map(|chunks| chunks[chunk].as_ref());
                    sums.push(sum(at, parts)?);
                }
                vec![sums; targets.len()]
            }
        };
        for (slots, result) in targets.iter().zip(results) {
            for (slot, content) in slots.iter().zip(result) {
                self.touch(at, *slot, true)?;
                self.chunks.insert(*slot, content);
            }
        }
        self.moves.push(Move { at, reduces, sources, targets });
        Ok(())
    }

    /// That whoever touched a chunk before is done.
    fn touch(&mut self, at: At, slot: Slot, writes: bool) -> Result<(), Flaw> {
        let own = self.first[at.rank] + at.block;
        let clock = &self.clocks[own];
        let touched = self.touched.entry(slot).or_default();
        let before = touched.writer.iter().chain(touched.readers.iter().filter(|_| writes));
        for (first, block, time) in before {
            if *block != own && clock[*block] < *time {
                let (rank, buffer, chunk) = slot;
                return Err(Flaw::Race { first: *first, second: at, rank, buffer: name(buffer), chunk });
            }
        }
        let own = (at, own, clock[own] + 1);
        if writes {
            *touched = Touched { writer: Some(own), readers: Vec::new() };
        } else {
            touched.readers.push(own);
        }
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

    fn result(&self) -> Result<(), Flaw> {
        for rank in 0..self.plan.gpus.len() {
            for chunk in 0..self.shape.output {
                let found = self.chunks.get(&self.slot(rank, Buffer::Output, chunk));
                if let Some(what) = wrong(self.kind, self.shape, (rank, chunk), found) {
                    return Err(Flaw::Wrong { rank, chunk, what });
                }
            }
        }
        Ok(())
    }
}

fn merge(clock: &mut [u32], other: &[u32]) {
    clock.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// What is in any of the parts.
fn sum<'c>(at: At, parts: impl Iterator<Item = &'c Content>) -> Result<Content, Flaw> {
    let mut all: Vec<(u32, u64)> = parts.flat_map(|content| content.iter().copied()).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Flaw::Doubled { at, rank: pair[0].0, chunk: pair[0].1 }),
        None => Ok(Rc::from(all)),
    }
}
