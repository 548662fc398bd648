//! What a file does, on symbols, against the collective that it claims to be.
//!
//! The ranks are run once, in some order, and each chunk is known by what has been added up in it. One run stands for
//! all if no two steps that touch the same chunk, one of them writing, can come in either order; that they cannot is
//! shown from the order in the thread blocks, from what waits, and from what is received after it was sent.
//!
//! # Deadlocks
//! A connection has few slots, and a send waits for a free one. One run decides whether all thread blocks come to their
//! end. What a thread block waits for next is fixed: a message, a free slot, or a step of another block. Only one block
//! sends on a connection and only one receives, so that nothing that others do takes a message or a slot away again:
//! a step that can be done stays so until it is done. Hence two runs can be brought into the same order, and all runs
//! that go as far as they can do the same steps.
//!
//! How many chunks go into one message depends on the size of the call. With one chunk in each, a step of several takes
//! most slots: whatever can be done then can be done with fewer and longer messages. So a step is run chunk by chunk.
//!
//! # Launches
//! A block writes to buffers of its own rank only: what is sent lies in the connection until its receiver fetches it.
//! So all that changes the output of a rank has been done when its own kernel ends, whatever other ranks do. A rank that
//! has begun the next launch can only fill the slots behind the messages of this one. As no messages are left over, the
//! launches one after the other are one of the possible runs, and all others end like it.

use super::{Dialect, MOST_AWAITED, Op, Place, Program, SLOTS, Step};
use crate::export::ranks::order::Accesses;
use crate::export::ranks::state::{Content, Slot, name, shape, slot, sum, wrong};
use crate::export::ranks::{Buffer, Kind, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use thiserror::Error;

/// A step by its rank, thread block and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The rank.
    pub rank: usize,
    /// Its thread block.
    pub block: usize,
    /// The step of the block.
    pub step: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, thread block {}, step {}", self.rank, self.block, self.step)
    }
}

/// What a thread block waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A message from a rank.
    Message(u32),
    /// A free slot of the connection to a rank.
    Slot(u32),
    /// A step of another thread block.
    Step(usize, usize),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Message(from) => write!(f, "a message from rank {from}"),
            Wait::Slot(to) => write!(f, "a free slot to rank {to}"),
            Wait::Step(block, step) => write!(f, "thread block {block}, step {step}"),
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-wrong"))]
pub enum Flaw {
    /// It does not say what it is for.
    #[error("the file is `custom`: say with `--collective` what it should do")]
    Custom,
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
    /// A step reads what nobody has written.
    #[error("{at}: chunk {chunk} of {buffer} is read before anything was written to it")]
    Unwritten {
        /// Where.
        at: At,
        /// The buffer.
        buffer: &'static str,
        /// The chunk.
        chunk: u64,
    },
    /// A message has another length than its receiver wants.
    #[error("{at}: {received} chunks are received, and {sent} were sent")]
    Length {
        /// Where.
        at: At,
        /// So many.
        received: u64,
        /// So many.
        sent: u64,
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
    /// Some steps wait for each other.
    #[error("deadlock: {at} waits for {wait}, and {more} other thread blocks wait too")]
    #[diagnostic(help(
        "connections have {slots} slots, and a chunk takes {per_chunk}: a send waits while they are full"
    ))]
    Deadlock {
        /// The first of them.
        at: At,
        /// What it waits for.
        wait: Wait,
        /// How many more.
        more: usize,
        /// Slots of a connection.
        slots: u32,
        /// Slots that a chunk takes.
        per_chunk: u32,
    },
    /// A thread block has more steps than the runtime has room for.
    #[error("rank {rank}, thread block {block} has {steps} steps, and there is room for {most}")]
    Steps {
        /// The rank.
        rank: usize,
        /// The thread block.
        block: usize,
        /// Its steps.
        steps: usize,
        /// As many as there may be.
        most: usize,
    },
    /// A step waits for a thread block whose number the runtime cannot keep.
    #[error("{at} waits for thread block {block}, and only the first {MOST_AWAITED} can be waited for")]
    #[diagnostic(help("runtimes keep `depid` in 8 bits with a sign: 128 becomes -128"))]
    Awaited {
        /// Where.
        at: At,
        /// The thread block for which it waits.
        block: usize,
    },
    /// Messages that nobody receives.
    #[error("{messages} messages from rank {from} to rank {to} on channel {channel} are never received")]
    Unreceived {
        /// The sender.
        from: usize,
        /// To whom.
        to: usize,
        /// On which channel.
        channel: u32,
        /// How many.
        messages: usize,
    },
    /// Two steps touch a chunk in either order.
    #[error("{first} and {second} touch chunk {chunk} of {buffer} in either order")]
    #[diagnostic(help("let one of them wait for the other"))]
    Race {
        /// One.
        first: At,
        /// The other.
        second: At,
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

impl Flaw {
    /// The step to look at first, and the other one, if there are two.
    pub fn steps(&self) -> Vec<At> {
        match self {
            Flaw::Unwritten { at, .. }
            | Flaw::Length { at, .. }
            | Flaw::Doubled { at, .. }
            | Flaw::Awaited { at, .. }
            | Flaw::Deadlock { at, .. } => {
                vec![*at]
            }
            Flaw::Steps { rank, block, most, .. } => vec![At { rank: *rank, block: *block, step: *most }],
            Flaw::Race { first, second, .. } => vec![*second, *first],
            Flaw::Custom | Flaw::Shape { .. } | Flaw::Unreceived { .. } | Flaw::Wrong { .. } => Vec::new(),
        }
    }
}

/// What has been shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// What it does.
    pub kind: Kind,
    /// How many ranks and chunks.
    pub shape: Shape,
    /// Steps of all ranks.
    pub steps: usize,
    /// Messages of all ranks.
    pub messages: usize,
    /// The first step whose result nobody uses, and how many there are.
    pub unused: Option<(At, usize)>,
    /// All steps in an order in which they can be done; each with the one that sent what it receives.
    pub order: Vec<(At, Option<At>)>,
}

/// What a runtime has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Slots of a connection between two ranks, of which a chunk takes [`Protocol::slots`](super::Protocol::slots).
    pub slots: u32,
    /// Steps of a thread block.
    pub steps: usize,
}

impl Room {
    /// What the runtimes of a dialect have if nothing else is said when they are built.
    pub fn of(dialect: Dialect) -> Room {
        Room { slots: SLOTS, steps: dialect.most_steps() }
    }
}

/// Proves a file for runtimes with so much room.
///
/// # Errors
/// The first flaw.
pub fn prove(program: &Program, kind: Option<Kind>, room: Room) -> Result<Proven, Flaw> {
    let kind = kind.or(program.kind).ok_or(Flaw::Custom)?;
    limits(program, room)?;
    let chunks = program.gpus.iter().map(|gpu| [gpu.chunks[0], gpu.chunks[1]]);
    let shape = shape(kind, program.in_place, chunks).map_err(|Shape { ranks, input, output }| Flaw::Shape {
        kind,
        ranks,
        inputs: input,
        outputs: output,
    })?;
    let mut machine = Machine::new(program, (kind, shape), room.slots);
    machine.run()?;
    machine.order()?;
    machine.result()?;
    let steps = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).sum();
    let unused = machine.unused();
    Ok(Proven { kind, shape, steps, messages: machine.sent, unused, order: machine.done })
}

/// That the runtime can load the file, and reads in it what it says.
fn limits(program: &Program, room: Room) -> Result<(), Flaw> {
    for (rank, gpu) in program.gpus.iter().enumerate() {
        for (block, steps) in gpu.blocks.iter().map(|block| &block.steps).enumerate() {
            if steps.len() > room.steps {
                return Err(Flaw::Steps { rank, block, steps: steps.len(), most: room.steps });
            }
            let after = steps.iter().enumerate().filter_map(|(step, what)| Some((step, what.after?.0)));
            if let Some((step, other)) = after.into_iter().find(|(_, other)| *other >= MOST_AWAITED) {
                return Err(Flaw::Awaited { at: At { rank, block, step }, block: other });
            }
        }
    }
    Ok(())
}

/// A chunk on its way, which step sent it, and how many chunks that step sends.
type Message = (Content, At, u64);

struct Machine<'p> {
    program: &'p Program,
    kind: Kind,
    shape: Shape,
    chunks: BTreeMap<Slot, Content>,
    /// By rank and thread block: the next step.
    next: Vec<Vec<usize>>,
    /// By rank and thread block: the chunks of this step that have been done.
    part: Vec<Vec<u64>>,
    slots: u32,
    /// By sender, receiver and channel: what is on its way, and which step sent it.
    wires: BTreeMap<(usize, usize, u32), VecDeque<Message>>,
    /// Which step sent what a step receives.
    sender: BTreeMap<At, At>,
    /// Who touched each chunk, in the order of the run, and whether it wrote.
    touched: BTreeMap<Slot, Vec<(At, bool)>>,
    sent: usize,
    /// In the order of the run, each with who sent what it received.
    done: Vec<(At, Option<At>)>,
}

impl<'p> Machine<'p> {
    fn new(program: &'p Program, (kind, shape): (Kind, Shape), slots: u32) -> Machine<'p> {
        let mut machine = Machine {
            program,
            kind,
            shape,
            chunks: BTreeMap::new(),
            next: program.gpus.iter().map(|gpu| vec![0; gpu.blocks.len()]).collect(),
            part: program.gpus.iter().map(|gpu| vec![0; gpu.blocks.len()]).collect(),
            slots,
            wires: BTreeMap::new(),
            sender: BTreeMap::new(),
            touched: BTreeMap::new(),
            sent: 0,
            done: Vec::new(),
        };
        for rank in 0..program.gpus.len() {
            for chunk in 0..shape.input {
                let slot = machine.slot(rank, Buffer::Input, chunk);
                let number = u32::try_from(rank).unwrap_or(u32::MAX);
                machine.chunks.insert(slot, Rc::new([(number, chunk)]));
            }
        }
        machine
    }

    fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot(self.program.in_place, self.kind, self.shape, (rank, buffer, chunk))
    }

    fn step(&self, at: At) -> Option<Step> {
        self.program.gpus[at.rank].blocks[at.block].steps.get(at.step).copied()
    }

    /// Runs all thread blocks as far as they come, again and again.
    fn run(&mut self) -> Result<(), Flaw> {
        let mut waiting: VecDeque<(usize, usize)> = self
            .program
            .gpus
            .iter()
            .enumerate()
            .flat_map(|(rank, gpu)| (0..gpu.blocks.len()).map(move |block| (rank, block)))
            .collect();
        let mut idle = 0;
        while let Some((rank, block)) = waiting.pop_front() {
            let before = (self.next[rank][block], self.part[rank][block]);
            let mut blocked = None;
            while let Some(step) = self.step(At { rank, block, step: self.next[rank][block] }) {
                let at = At { rank, block, step: self.next[rank][block] };
                blocked = self.wait(at, step);
                if blocked.is_some() {
                    break;
                }
                let part = self.part[rank][block];
                self.take(at, step, part)?;
                if part + 1 < step.count {
                    self.part[rank][block] += 1;
                } else {
                    self.part[rank][block] = 0;
                    self.next[rank][block] += 1;
                    self.done.push((at, self.sender.get(&at).copied()));
                    self.sent += usize::from(step.op.sends());
                }
            }
            idle = if (self.next[rank][block], self.part[rank][block]) > before { 0 } else { idle + 1 };
            if let Some(wait) = blocked {
                waiting.push_back((rank, block));
                if idle > waiting.len() {
                    let at = At { rank, block, step: self.next[rank][block] };
                    let (more, per_chunk) = (waiting.len() - 1, self.program.protocol.slots());
                    return Err(Flaw::Deadlock { at, wait, more, slots: self.slots, per_chunk });
                }
            }
        }
        let left = self.wires.iter().find(|(_, wire)| !wire.is_empty());
        match left {
            Some(((from, to, channel), wire)) => {
                Err(Flaw::Unreceived { from: *from, to: *to, channel: *channel, messages: wire.len() })
            }
            None => Ok(()),
        }
    }

    /// What has to come before the next chunk of a step.
    fn wait(&self, at: At, step: Step) -> Option<Wait> {
        if let Some((block, place)) = step.after.filter(|(block, place)| self.next[at.rank][*block] <= *place) {
            return Some(Wait::Step(block, place));
        }
        let block = &self.program.gpus[at.rank].blocks[at.block];
        let chunks = |from: usize, to: usize| self.wires.get(&(from, to, block.channel)).map_or(0, VecDeque::len);
        if let Some(from) = block.receive.filter(|_| step.op.receives())
            && chunks(from as usize, at.rank) == 0
        {
            return Some(Wait::Message(from));
        }
        let room = (self.slots / self.program.protocol.slots()) as usize;
        let to = block.send.filter(|_| step.op.sends());
        to.filter(|to| chunks(at.rank, *to as usize) >= room).map(Wait::Slot)
    }

    /// Does one chunk of a step.
    fn take(&mut self, at: At, step: Step, part: u64) -> Result<(), Flaw> {
        let (send, receive, channel) = {
            let block = &self.program.gpus[at.rank].blocks[at.block];
            (block.send, block.receive, block.channel)
        };
        let message = receive.filter(|_| step.op.receives()).and_then(|from| {
            let wire = self.wires.entry((from as usize, at.rank, channel)).or_default();
            wire.pop_front()
        });
        if let Some((_, sender, sent)) = &message {
            if *sent != step.count {
                return Err(Flaw::Length { at, received: step.count, sent: *sent });
            }
            self.sender.insert(at, *sender);
        }
        let received = message.map(|(content, ..)| content);
        let source = step.op.reads_source().then(|| self.read(at, step.source, part)).transpose()?;
        let doubled = |(rank, chunk)| Flaw::Doubled { at, rank, chunk };
        let result = match step.op {
            Op::Nop => return Ok(()),
            Op::Send | Op::Copy => source,
            Op::Receive | Op::ReceiveCopySend => received,
            Op::ReceiveReduceSend | Op::ReceiveReduceCopy | Op::ReceiveReduceCopySend => {
                Some(sum(received.iter().chain(&source)).map_err(doubled)?)
            }
            Op::Reduce => {
                let target = self.read(at, step.target, part)?;
                Some(sum(source.iter().chain([&target])).map_err(doubled)?)
            }
        };
        let Some(result) = result else { return Ok(()) };
        if let Some(to) = send.filter(|_| step.op.sends()) {
            let wire = self.wires.entry((at.rank, to as usize, channel)).or_default();
            wire.push_back((result.clone(), at, step.count));
        }
        if step.op.writes_target() {
            let slot = self.slot(at.rank, step.target.buffer, step.target.chunk + part);
            self.touched.entry(slot).or_default().push((at, true));
            self.chunks.insert(slot, result);
        }
        Ok(())
    }

    fn read(&mut self, at: At, place: Place, part: u64) -> Result<Content, Flaw> {
        let slot = self.slot(at.rank, place.buffer, place.chunk + part);
        let content = self.chunks.get(&slot).cloned();
        let content = content.ok_or_else(|| Flaw::Unwritten { at, buffer: name(slot.1), chunk: slot.2 })?;
        self.touched.entry(slot).or_default().push((at, false));
        Ok(content)
    }

    /// That steps which touch the same chunk come in the order of the run.
    fn order(&self) -> Result<(), Flaw> {
        let clocks = self.clocks();
        let mut known: BTreeSet<(At, At)> = BTreeSet::new();
        for (slot, touched) in &self.touched {
            let mut accesses: Accesses<At> = Accesses::default();
            for (at, writes) in touched {
                for first in accesses.conflicting(*writes).filter(|first| **first != *at) {
                    let inside = clocks[first.rank].get(at).is_some_and(|clock| clock[first.block] > first.step);
                    if !inside && known.insert((*first, *at)) && !self.leads(*first, *at) {
                        return Err(Flaw::Race { first: *first, second: *at, buffer: name(slot.1), chunk: slot.2 });
                    }
                }
                accesses.push(*at, *writes);
            }
        }
        Ok(())
    }

    /// By rank and step, how many steps of each thread block of the rank are done before it, from the order in the
    /// blocks and from what waits.
    fn clocks(&self) -> Vec<BTreeMap<At, Vec<usize>>> {
        let of_rank = |(rank, gpu): (usize, &super::Gpu)| {
            let mut clocks: BTreeMap<At, Vec<usize>> = BTreeMap::new();
            let mut next = vec![0; gpu.blocks.len()];
            let mut moved = true;
            while moved {
                moved = false;
                for block in 0..gpu.blocks.len() {
                    while let Some(step) = gpu.blocks[block].steps.get(next[block]) {
                        let at = At { rank, block, step: next[block] };
                        let mut clock = match next[block].checked_sub(1) {
                            Some(last) => clocks.get(&At { step: last, ..at }).cloned().unwrap_or_default(),
                            None => vec![0; gpu.blocks.len()],
                        };
                        if let Some((other, place)) = step.after {
                            let Some(more) = clocks.get(&At { rank, block: other, step: place }) else { break };
                            clock.iter_mut().zip(more).for_each(|(own, more)| *own = (*own).max(*more));
                        }
                        clock[block] = next[block] + 1;
                        clocks.insert(at, clock);
                        next[block] += 1;
                        moved = true;
                    }
                }
            }
            clocks
        };
        self.program.gpus.iter().enumerate().map(of_rank).collect()
    }

    /// Whether one step is done before another because of messages through other ranks.
    fn leads(&self, first: At, second: At) -> bool {
        let mut seen: BTreeSet<At> = BTreeSet::new();
        let mut waiting = vec![second];
        while let Some(at) = waiting.pop() {
            if (at.rank, at.block) == (first.rank, first.block) && at.step >= first.step {
                return at != second || first.step < second.step;
            }
            let before = at.step.checked_sub(1).map(|step| At { step, ..at });
            let after = self.step(at).and_then(|step| step.after).map(|(block, step)| At { block, step, ..at });
            let sender = self.sender.get(&at).copied();
            waiting.extend([before, after, sender].into_iter().flatten().filter(|at| seen.insert(*at)));
        }
        false
    }

    /// That all outputs are what they should be.
    fn result(&self) -> Result<(), Flaw> {
        for rank in 0..self.program.gpus.len() {
            for chunk in 0..self.shape.output {
                let found = self.chunks.get(&self.slot(rank, Buffer::Output, chunk));
                if let Some(what) = wrong(self.kind, self.shape, (rank, chunk), found) {
                    return Err(Flaw::Wrong { rank, chunk, what });
                }
            }
        }
        Ok(())
    }

    /// The first step that writes what is neither read later nor a result, and how many there are.
    fn unused(&self) -> Option<(At, usize)> {
        let mut unused: BTreeSet<At> = BTreeSet::new();
        let mut used: BTreeSet<At> = BTreeSet::new();
        for (slot, touched) in &self.touched {
            let is_output = slot.1 == Buffer::Output
                && (0..self.shape.output).any(|chunk| self.slot(slot.0, Buffer::Output, chunk) == *slot);
            let mut writer: Option<At> = None;
            for (at, writes) in touched {
                if *writes {
                    unused.extend(writer);
                    writer = Some(*at);
                } else if writer.is_some_and(|writer| writer != *at) {
                    used.extend(writer.take());
                }
            }
            if is_output { used.extend(writer) } else { unused.extend(writer) }
        }
        // What is sent on is used, whatever becomes of the copy.
        unused.retain(|at| !used.contains(at) && !self.step(*at).is_some_and(|step| step.op.sends()));
        unused.iter().next().map(|first| (*first, unused.len()))
    }
}
