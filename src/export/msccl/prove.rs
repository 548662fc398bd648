//! Proves that a file implements the collective that it claims, by symbolic execution.
//!
//! The ranks are run once, in some order. The content of a chunk is the set of input chunks that have been added up
//! in it. One run represents all if no two accesses to the same chunk, one of them a write, can occur in either
//! order. Order is derived from three facts:
//!
//! - A step of a thread block begins after the previous one has ended.
//! - A step begins after the step for which it waits has ended.
//! - A step handles its n-th chunk after the step that sent this chunk has handled its own n-th. Nothing is known
//!   about later chunks of that step: they may not have been sent yet.
//!
//! Within a step nothing orders the chunks, since a message may hold one of them or all. A step that reads a chunk as
//! one of its chunks and writes it as another is refused.
//!
//! # Deadlocks
//! A connection has few slots, and a send waits for a free one. One run decides whether all thread blocks finish. The
//! next condition that a thread block waits for is fixed: a message, a free slot, or a step of another block. Only
//! one block sends on a connection and only one receives, so no other block can take away a message or a slot: a step
//! that can run stays runnable until it has run. Hence two runs can be brought into the same order, and all maximal
//! runs execute the same steps.
//!
//! The number of chunks per message depends on the size of the call. One chunk per message takes the most slots: a
//! step that can run then can also run with fewer, longer messages. So steps are run chunk by chunk.
//!
//! # Launches
//! A block writes only to buffers of its own rank: data stays in the connection until its receiver fetches it. So all
//! changes to a rank's output are done when its own kernel ends, independent of other ranks. A rank that has begun
//! the next launch can only fill the slots behind the messages of this one. As no messages are left over, running the
//! launches one after the other is one of the possible runs, and all others have the same result.

use super::{Calls, Dialect, Gpu, MOST_AWAITED, MOST_CHUNKS, MOST_OFFSET, Op, Place, Program, SLOTS, Step};
use crate::export::ranks::machine::{Content, Lists, Machine, Move, Slot, Turn, in_turns};
use crate::export::ranks::order::{Accesses, Clock, merge};
use crate::export::ranks::{Access, At, Flaw, Format, Kind, Proven, Wait};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Capacity of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Slots of a connection between two ranks. A chunk takes [`Protocol::slots`](super::Protocol::slots).
    pub slots: u32,
    /// Steps per thread block.
    pub steps: usize,
}

impl Room {
    /// Default capacity of the runtimes of a dialect.
    pub fn of(dialect: Dialect) -> Room {
        Room { slots: SLOTS, steps: dialect.most_steps() }
    }
}

/// Proves a file for runtimes with this capacity, for all calls that it is for.
///
/// # Errors
/// The first flaw.
pub fn prove(program: &Program, kind: Option<Kind>, room: Room) -> Result<Proven, Flaw> {
    let unnamed = || Flaw::Unnamed("the collective is `custom`".to_owned(), "the file");
    let kind = kind.or(program.kind).ok_or_else(unnamed)?;
    limits(program, room)?;
    match program.calls {
        Calls::InPlace => prove_call(program, kind, room, true),
        Calls::OutOfPlace => prove_call(program, kind, room, false),
        Calls::Both => {
            prove_call(program, kind, room, false)?;
            prove_call(program, kind, room, true)
        }
    }
}

/// Proves calls whose input is a part of the output or the same buffer, or others.
fn prove_call(program: &Program, kind: Kind, room: Room, in_place: bool) -> Result<Proven, Flaw> {
    let chunks = program.gpus.iter().map(|gpu| [gpu.chunks[0], gpu.chunks[1]]);
    let machine = Machine::new(Format::Msccl, (kind, in_place), chunks)?;
    let mut run = Run {
        program,
        machine,
        slots: room.slots,
        progress: program.gpus.iter().map(|gpu| gpu.blocks.iter().map(|_| Progress::default()).collect()).collect(),
        wires: BTreeMap::new(),
        sender: BTreeMap::new(),
        clocks: BTreeMap::new(),
        touched: BTreeMap::new(),
        chunks: 0,
        messages: 0,
    };
    run.all()?;
    run.order()?;
    for rank in 0..program.gpus.len() {
        (0..run.machine.shape.output).try_for_each(|chunk| run.machine.check(rank, chunk))?;
    }
    let steps = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).sum();
    let unused = run.unused();
    Ok(run.machine.proven(steps, run.messages, unused))
}

/// Checks that the runtime can load the file without misreading it.
fn limits(program: &Program, room: Room) -> Result<(), Flaw> {
    for (rank, gpu) in program.gpus.iter().enumerate() {
        if let Some(chunks) = gpu.chunks.into_iter().find(|chunks| *chunks > MOST_CHUNKS) {
            let what = format!("a buffer of {chunks} chunks; the limit is {MOST_CHUNKS}");
            return Err(Flaw::Limit { rank, block: None, what });
        }
        for (block, steps) in gpu.blocks.iter().map(|block| &block.steps).enumerate() {
            let at = |step| At { rank, block, step, format: Format::Msccl };
            if steps.len() > room.steps {
                return Err(Flaw::Steps { first: at(room.steps), steps: steps.len(), most: room.steps });
            }
            let mut after = steps.iter().enumerate().filter_map(|(step, what)| Some((step, what.after?.0)));
            if let Some((step, block)) = after.find(|(_, other)| *other >= MOST_AWAITED) {
                return Err(Flaw::Awaited { at: at(step), block });
            }
            for (step, what) in steps.iter().enumerate() {
                exists(gpu, what).map_err(|what| Flaw::Step { at: at(step), what })?;
            }
        }
    }
    Ok(())
}

/// Checks that the steps and chunks that a step refers to exist. Files read from text have been checked already.
///
/// # Errors
/// The missing entity.
fn exists(gpu: &Gpu, step: &Step) -> Result<(), String> {
    if let Some((block, place)) = step.after
        && gpu.blocks.get(block).is_none_or(|block| block.steps.len() <= place)
    {
        return Err(format!("it waits for step {place} of thread block {block}, which does not exist"));
    }
    let places = [(step.source, step.op.reads_source()), (step.target, step.op.writes_target())];
    for Place { buffer, chunk } in places.into_iter().filter_map(|(place, is_used)| is_used.then_some(place)) {
        let size = gpu.size(buffer);
        if chunk > MOST_OFFSET {
            return Err(format!("offset {chunk} in {}; runtimes store offsets up to {MOST_OFFSET}", buffer.name()));
        }
        if chunk.checked_add(step.count).is_none_or(|end| end > size) {
            return Err(format!("{} chunks from {chunk} exceed {} of size {size}", step.count, buffer.name()));
        }
    }
    Ok(())
}

/// Progress of a thread block.
#[derive(Default)]
struct Progress {
    /// The next step.
    next: usize,
    /// Number of chunks of this step that are done.
    part: u64,
    /// The chunks that these have read and written.
    sources: Lists,
    targets: Lists,
}

/// A connection: sender, receiver, channel.
type Wire = (usize, usize, u32);

/// An access of a step to a chunk of a buffer of its rank. There are millions.
#[derive(Clone, Copy)]
struct Touch {
    block: u32,
    step: u32,
    /// The chunk's number within the step, from 0.
    part: u32,
    writes: bool,
}

impl Touch {
    fn new(at: At, part: u64, writes: bool) -> Touch {
        // The limits are far smaller.
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Touch { block: small(at.block as u64), step: small(at.step as u64), part: small(part), writes }
    }

    fn at(self, rank: usize) -> At {
        At { rank, block: self.block as usize, step: self.step as usize, format: Format::Msccl }
    }
}

/// The part of a step known to be done when another step handles a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    /// The chunks up to the one with the same number.
    UpToPart,
    All,
}

/// A chunk in flight, the step that sent it, and the number of chunks that step sends.
type Message = (Slot, At, u64);

struct Run<'p> {
    program: &'p Program,
    machine: Machine,
    slots: u32,
    /// Progress by rank and thread block.
    progress: Vec<Vec<Progress>>,
    wires: BTreeMap<Wire, VecDeque<Message>>,
    /// The sending step of each receiving step.
    sender: BTreeMap<At, At>,
    /// For each step, the number of steps of each thread block of its rank that are done when it is done, by block
    /// order and waits.
    clocks: BTreeMap<At, Clock>,
    /// The accesses to each chunk, in run order.
    touched: BTreeMap<Slot, Vec<Touch>>,
    /// Number of chunks sent.
    chunks: usize,
    messages: usize,
}

impl Run<'_> {
    fn step(&self, at: At) -> Option<Step> {
        self.program.gpus[at.rank].blocks[at.block].steps.get(at.step).copied()
    }

    /// The next step of a thread block.
    fn next(&self, (rank, block): (usize, usize)) -> At {
        self.machine.at((rank, block), self.progress[rank][block].next)
    }

    /// Runs all thread blocks until none can continue.
    fn all(&mut self) -> Result<(), Flaw> {
        (0..self.program.gpus.len()).for_each(|rank| self.machine.fill(rank));
        let blocks = |(rank, gpu): (usize, &Gpu)| (0..gpu.blocks.len()).map(move |block| (rank, block));
        let blocks: Vec<(usize, usize)> = self.program.gpus.iter().enumerate().flat_map(blocks).collect();
        let waiting = in_turns(blocks.len(), |agent| {
            let mut turn = Turn { moved: false, waits: false };
            while let Some(step) = self.step(self.next(blocks[agent])) {
                let at = self.next(blocks[agent]);
                turn.waits = self.wait(at, step).is_some();
                if turn.waits {
                    break;
                }
                self.take(at, step)?;
                turn.moved = true;
            }
            Ok(turn)
        })?;
        if let Some(first) = waiting.front() {
            let at = self.next(blocks[*first]);
            let help = format!(
                "connections have {} slots and a chunk takes {}; a send waits while they are full",
                self.slots,
                self.program.protocol.slots()
            );
            let wait = self.step(at).and_then(|step| self.wait(at, step));
            return Err(Flaw::Deadlock { at, wait, more: waiting.len() - 1, help: Some(help) });
        }
        match self.wires.iter().find(|(_, wire)| !wire.is_empty()) {
            Some(((from, to, channel), wire)) => {
                let count = wire.len();
                let what =
                    format!("{count} messages from rank {from} to rank {to} on channel {channel} are never received");
                Err(Flaw::Left { what, help: None })
            }
            None => Ok(()),
        }
    }

    /// The connections on which a step receives and sends.
    fn wires(&self, at: At, step: Step) -> [Option<Wire>; 2] {
        let block = &self.program.gpus[at.rank].blocks[at.block];
        let receive = block.receive.filter(|_| step.op.receives());
        let send = block.send.filter(|_| step.op.sends());
        [
            receive.map(|from| (from as usize, at.rank, block.channel)),
            send.map(|to| (at.rank, to as usize, block.channel)),
        ]
    }

    /// The condition that the next chunk of a step waits for.
    fn wait(&self, at: At, step: Step) -> Option<Wait> {
        if let Some((block, place)) = step.after.filter(|(block, place)| self.progress[at.rank][*block].next <= *place)
        {
            return Some(Wait::Step(block, place));
        }
        let [receive, send] = self.wires(at, step);
        let chunks = |wire: &Wire| self.wires.get(wire).map_or(0, VecDeque::len);
        if let Some(wire) = receive.filter(|wire| chunks(wire) == 0) {
            return Some(Wait::Message(wire.0));
        }
        let room = (self.slots / self.program.protocol.slots()) as usize;
        send.filter(|wire| chunks(wire) >= room).map(|wire| Wait::Slot(wire.1))
    }

    /// Executes the next chunk of a step.
    fn take(&mut self, at: At, step: Step) -> Result<(), Flaw> {
        let part = self.progress[at.rank][at.block].part;
        let own = |run: &Self, place: Place| run.machine.slot(at.rank, place.buffer, place.chunk + part);
        let [receive, send] = self.wires(at, step);
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        if let Some((slot, sender, sent)) = receive.and_then(|wire| self.wires.get_mut(&wire)?.pop_front()) {
            if sent != step.count {
                let what = format!("{} chunks are received, but {sent} were sent", step.count);
                return Err(Flaw::Step { at, what });
            }
            self.sender.insert(at, sender);
            sources.push(slot);
        }
        if step.op == Op::Reduce {
            sources.push(own(self, step.target));
        }
        if step.op.reads_source() {
            sources.push(own(self, step.source));
        }
        let contents =
            sources.iter().rev().map(|slot| self.read((at, part), *slot)).collect::<Result<Vec<Content>, _>>()?;
        if !contents.is_empty() {
            let result = Machine::sum(at, contents.iter())?;
            if let Some(wire) = send {
                let slot = Slot::Sent(at.rank, self.chunks);
                self.chunks += 1;
                self.wires.entry(wire).or_default().push_back((slot, at, step.count));
                targets.push(slot);
            }
            if step.op.writes_target() {
                let slot = own(self, step.target);
                // In place, a rank's own chunk is copied to itself, which changes nothing.
                let changes = step.op != Op::Copy || sources.first() != Some(&slot);
                self.touched.entry(slot).or_default().push(Touch::new(at, part, changes));
                targets.push(slot);
            }
            self.machine.chunks.extend(targets.iter().map(|slot| (*slot, result.clone())));
        }
        let progress = &mut self.progress[at.rank][at.block];
        append(&mut progress.sources, sources);
        append(&mut progress.targets, targets);
        progress.part += 1;
        if progress.part >= step.count {
            let done = std::mem::replace(progress, Progress { next: at.step + 1, ..Progress::default() });
            self.done(at, step, done);
        }
        Ok(())
    }

    /// Completes a step.
    fn done(&mut self, at: At, step: Step, Progress { sources, targets, .. }: Progress) {
        let blocks = self.progress[at.rank].len();
        let last = at.step.checked_sub(1).and_then(|step| self.clocks.get(&At { step, ..at }));
        let mut clock = last.cloned().unwrap_or_else(|| vec![0; blocks]);
        let after = step.after.and_then(|(block, step)| self.clocks.get(&At { block, step, ..at }));
        after.into_iter().for_each(|known| merge(&mut clock, known));
        clock[at.block] += 1;
        self.clocks.insert(at, clock);
        self.messages += usize::from(step.op.sends());
        self.machine.moves.push(Move { at, reduces: true, sources, targets });
    }

    fn read(&mut self, (at, part): (At, u64), slot: Slot) -> Result<Content, Flaw> {
        let content = match slot {
            Slot::Held(..) => {
                self.touched.entry(slot).or_default().push(Touch::new(at, part, false));
                self.machine.chunks.get(&slot).cloned()
            }
            Slot::Sent(..) => self.machine.chunks.remove(&slot),
        };
        let unwritten = || format!("{} is read before it is written", slot.name());
        content.ok_or_else(|| Flaw::Step { at, what: unwritten() })
    }

    /// Checks that the run order of accesses to each chunk is the only possible one.
    fn order(&self) -> Result<(), Flaw> {
        let mut known: BTreeMap<(At, At), Done> = BTreeMap::new();
        let mut last = 0;
        for (slot, touched) in &self.touched {
            // Slots are sorted by rank, and so are the steps that use them.
            let rank = slot.rank();
            if rank != std::mem::replace(&mut last, rank) {
                known.clear();
            }
            let mut accesses: Accesses<Touch> = Accesses::default();
            for next in touched {
                for first in accesses.conflicting(next.writes) {
                    let (before, after) = (first.at(rank), next.at(rank));
                    let is_ordered = if before == after {
                        first.part == next.part
                    } else {
                        match *known.entry((before, after)).or_insert_with(|| self.done_before(before, after)) {
                            Done::Nothing => false,
                            Done::UpToPart => first.part <= next.part,
                            Done::All => true,
                        }
                    };
                    if !is_ordered {
                        return Err(self.race(before, after, *slot));
                    }
                }
                accesses.push(*next, next.writes);
            }
        }
        Ok(())
    }

    fn race(&self, first: At, second: At, slot: Slot) -> Flaw {
        if first == second {
            let what = format!("{} is both read and written as different chunks of the step", slot.name());
            return Flaw::Step { at: first, what };
        }
        self.machine.race(Access::Step(first), Access::Step(second), slot)
    }

    /// The part of a step that is done before another step of its rank handles a chunk.
    fn done_before(&self, first: At, second: At) -> Done {
        if self.clocks.get(&second).is_some_and(|clock| clock[first.block] as usize > first.step) {
            return Done::All;
        }
        // Steps known to be done: completely (`true`), or, if only messages lead to them, up to the chunk.
        let mut seen: BTreeSet<(At, bool)> = BTreeSet::new();
        let mut waiting = vec![(second, false)];
        let mut done = Done::Nothing;
        while let Some((at, all)) = waiting.pop() {
            if (at.rank, at.block) == (first.rank, first.block) && at.step >= first.step {
                if all || at.step > first.step {
                    return Done::All;
                }
                done = Done::UpToPart;
                continue;
            }
            let before = at.step.checked_sub(1).map(|step| (At { step, ..at }, true));
            let after = self.step(at).and_then(|step| step.after);
            let after = after.map(|(block, step)| (At { block, step, ..at }, true));
            let sender = self.sender.get(&at).map(|sender| (*sender, all));
            waiting.extend([before, after, sender].into_iter().flatten().filter(|step| seen.insert(*step)));
        }
        done
    }

    /// The steps whose writes are neither read later nor part of a result.
    fn unused(&self) -> BTreeSet<At> {
        let outputs: BTreeSet<Slot> =
            (0..self.program.gpus.len()).flat_map(|rank| self.machine.outputs(rank)).collect();
        let (mut writers, mut used): (BTreeSet<At>, BTreeSet<At>) = (BTreeSet::new(), BTreeSet::new());
        for (slot, touched) in &self.touched {
            let mut last: Option<At> = None;
            for touch in touched {
                let at = touch.at(slot.rank());
                if touch.writes {
                    last = Some(at);
                    writers.extend(last);
                } else {
                    used.extend(last.filter(|writer| *writer != at));
                }
            }
            used.extend(last.filter(|_| outputs.contains(slot)));
        }
        // Data that is sent on is used, even if the copy is not.
        writers.retain(|at| !used.contains(at) && !self.step(*at).is_some_and(|step| step.op.sends()));
        writers
    }
}

/// Appends one chunk to each list.
fn append(lists: &mut Lists, slots: Vec<Slot>) {
    lists.resize_with(slots.len(), Vec::new);
    lists.iter_mut().zip(slots).for_each(|(list, slot)| list.push(slot));
}
