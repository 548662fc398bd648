//! What a file does, on symbols, against the collective that it claims to be.
//!
//! The ranks are run once, in some order, and each chunk is known by what has been added up in it. One run stands for
//! all if no two steps that touch the same chunk, one of them writing, can come in either order; that they cannot is
//! shown from the order in the thread blocks, from what waits, and from what is received after it was sent.

use super::{Op, Place, Program, Step};
use crate::export::ranks::state::{Content, Slot, name, shape, slot, wrong};
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
        rank: u64,
        /// Which chunk of its input.
        chunk: u64,
    },
    /// Some steps wait for each other.
    #[error("deadlock: {at} waits, and so do {more} other thread blocks")]
    Deadlock {
        /// The first of them.
        at: At,
        /// How many more.
        more: usize,
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
            | Flaw::Deadlock { at, .. } => {
                vec![*at]
            }
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

/// Proves a file.
///
/// # Errors
/// The first flaw.
pub fn prove(program: &Program, kind: Option<Kind>) -> Result<Proven, Flaw> {
    let kind = kind.or(program.kind).ok_or(Flaw::Custom)?;
    let chunks = program.gpus.iter().map(|gpu| [gpu.chunks[0], gpu.chunks[1]]);
    let shape = shape(kind, program.in_place, chunks).map_err(|Shape { ranks, input, output }| Flaw::Shape {
        kind,
        ranks,
        inputs: input,
        outputs: output,
    })?;
    let mut machine = Machine::new(program, kind, shape);
    machine.run()?;
    machine.order()?;
    machine.result()?;
    let steps = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).sum();
    let unused = machine.unused();
    Ok(Proven { kind, shape, steps, messages: machine.sent, unused, order: machine.done })
}

/// What is in a message, and which step sent it.
type Message = (Vec<Content>, At);

struct Machine<'p> {
    program: &'p Program,
    kind: Kind,
    shape: Shape,
    chunks: BTreeMap<Slot, Content>,
    /// By rank and thread block: the next step.
    next: Vec<Vec<usize>>,
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
    fn new(program: &'p Program, kind: Kind, shape: Shape) -> Machine<'p> {
        let mut machine = Machine {
            program,
            kind,
            shape,
            chunks: BTreeMap::new(),
            next: program.gpus.iter().map(|gpu| vec![0; gpu.blocks.len()]).collect(),
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

    fn slots(&self, rank: usize, place: Place, count: u64) -> Vec<Slot> {
        (place.chunk..place.chunk + count).map(|chunk| self.slot(rank, place.buffer, chunk)).collect()
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
            let before = self.next[rank][block];
            while let Some(step) = self.step(At { rank, block, step: self.next[rank][block] }) {
                let at = At { rank, block, step: self.next[rank][block] };
                if !self.is_ready(at, step) {
                    break;
                }
                self.take(at, step)?;
                self.done.push((at, self.sender.get(&at).copied()));
                self.next[rank][block] += 1;
            }
            idle = if self.next[rank][block] > before { 0 } else { idle + 1 };
            let at = At { rank, block, step: self.next[rank][block] };
            if self.step(at).is_some() {
                waiting.push_back((rank, block));
                if idle > waiting.len() {
                    return Err(Flaw::Deadlock { at, more: waiting.len() - 1 });
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

    fn is_ready(&self, at: At, step: Step) -> bool {
        let waits = step.after.is_some_and(|(block, place)| self.next[at.rank][block] <= place);
        let block = &self.program.gpus[at.rank].blocks[at.block];
        let wire = block.receive.map(|from| (from as usize, at.rank, block.channel));
        let empty = || wire.and_then(|wire| self.wires.get(&wire)).is_none_or(VecDeque::is_empty);
        let starves = step.op.receives() && empty();
        !waits && !starves
    }

    fn take(&mut self, at: At, step: Step) -> Result<(), Flaw> {
        let (send, receive, channel) = {
            let block = &self.program.gpus[at.rank].blocks[at.block];
            (block.send, block.receive, block.channel)
        };
        let received = match receive.filter(|_| step.op.receives()) {
            Some(from) => {
                let wire = self.wires.entry((from as usize, at.rank, channel)).or_default();
                let (contents, sender) = wire.pop_front().unwrap_or((Vec::new(), at));
                if contents.len() as u64 != step.count {
                    return Err(Flaw::Length { at, received: step.count, sent: contents.len() as u64 });
                }
                self.sender.insert(at, sender);
                Some(contents)
            }
            None => None,
        };
        let source = match step.op.reads_source() {
            true => Some(self.read(at, step.source, step.count)?),
            false => None,
        };
        let result = match step.op {
            Op::Nop => return Ok(()),
            Op::Send | Op::Copy => source.unwrap_or_default(),
            Op::Receive | Op::ReceiveCopySend => received.unwrap_or_default(),
            Op::ReceiveReduceSend | Op::ReceiveReduceCopy | Op::ReceiveReduceCopySend => {
                added(at, &received.unwrap_or_default(), &source.unwrap_or_default())?
            }
            Op::Reduce => {
                let target = self.read(at, step.target, step.count)?;
                added(at, &source.unwrap_or_default(), &target)?
            }
        };
        if let Some(to) = send.filter(|_| step.op.sends()) {
            self.wires.entry((at.rank, to as usize, channel)).or_default().push_back((result.clone(), at));
            self.sent += 1;
        }
        if step.op.writes_target() {
            for (slot, content) in self.slots(at.rank, step.target, step.count).into_iter().zip(result) {
                self.touched.entry(slot).or_default().push((at, true));
                self.chunks.insert(slot, content);
            }
        }
        Ok(())
    }

    fn read(&mut self, at: At, place: Place, count: u64) -> Result<Vec<Content>, Flaw> {
        let mut contents = Vec::new();
        for slot in self.slots(at.rank, place, count) {
            let content = self.chunks.get(&slot).cloned();
            let unwritten = || Flaw::Unwritten { at, buffer: name(slot.1), chunk: slot.2 };
            contents.push(content.ok_or_else(unwritten)?);
            self.touched.entry(slot).or_default().push((at, false));
        }
        Ok(contents)
    }

    /// That steps which touch the same chunk come in the order of the run.
    fn order(&self) -> Result<(), Flaw> {
        let clocks = self.clocks();
        let mut known: BTreeSet<(At, At)> = BTreeSet::new();
        for (slot, touched) in &self.touched {
            let mut writer: Option<At> = None;
            let mut readers: Vec<At> = Vec::new();
            for (at, writes) in touched {
                let before = writer.iter().chain(readers.iter().filter(|_| *writes));
                for first in before.filter(|first| **first != *at) {
                    let inside = clocks[first.rank].get(at).is_some_and(|clock| clock[first.block] > first.step);
                    if !inside && known.insert((*first, *at)) && !self.leads(*first, *at) {
                        return Err(Flaw::Race { first: *first, second: *at, buffer: name(slot.1), chunk: slot.2 });
                    }
                }
                if *writes {
                    writer = Some(*at);
                    readers.clear();
                } else {
                    readers.push(*at);
                }
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

/// Chunk by chunk, what is in either.
fn added(at: At, left: &[Content], right: &[Content]) -> Result<Vec<Content>, Flaw> {
    let sum = |(left, right): (&Content, &Content)| {
        let mut all = Vec::with_capacity(left.len() + right.len());
        let (mut a, mut b) = (left.iter().peekable(), right.iter().peekable());
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            match one.cmp(two) {
                std::cmp::Ordering::Less => all.extend(a.next()),
                std::cmp::Ordering::Greater => all.extend(b.next()),
                std::cmp::Ordering::Equal => {
                    return Err(Flaw::Doubled { at, rank: u64::from(one.0), chunk: one.1 });
                }
            }
        }
        all.extend(a.chain(b));
        Ok(Rc::from(all))
    };
    left.iter().zip(right).map(sum).collect()
}
