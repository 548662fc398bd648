//! Assigns the actions of ranks to thread blocks.
//!
//! Each block sends to one rank, receives from one, or works locally, on one channel. Actions of a rank that touch
//! the same chunks stay in order: a step waits for the last such step in each other block, unless that follows from
//! other waits of its block.

use super::{
    Block, Calls, Dialect, Gpu, MOST_AWAITED, MOST_BLOCKS, MOST_CHANNELS, MOST_COUNT, MOST_OFFSET, MOST_ON_CHANNEL,
    MOST_STEPS, Op, Options, Place, Program, Step,
};
use crate::export::ranks::order::History;
use crate::export::ranks::{Action, Algorithm, Kind, Rank, Span};
use std::collections::BTreeMap;
use thiserror::Error;

/// A limit of the format that an algorithm exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("not-exported"))]
pub enum Unsaid {
    /// A rank needs more thread blocks than a runtime has.
    #[error("rank {rank} needs {blocks} thread blocks; the limit of MSCCL is {MOST_BLOCKS}")]
    #[diagnostic(help("use a method with fewer messages, such as a ring"))]
    Blocks {
        /// The rank.
        rank: usize,
        /// Number of thread blocks.
        blocks: usize,
    },
    /// More thread blocks are waited for than a runtime can number.
    #[error("rank {rank} waits for steps of {blocks} thread blocks; the limit of MSCCL is {MOST_AWAITED}")]
    #[diagnostic(help("use a method with fewer messages, such as a ring"))]
    Awaited {
        /// The rank.
        rank: usize,
        /// Number of thread blocks that are waited for.
        blocks: usize,
    },
    /// More channels than a runtime has.
    #[error("the collective needs {0} channels; the limit of MSCCL is {MOST_CHANNELS}")]
    #[diagnostic(help("use a method with fewer messages, such as a ring"))]
    Channels(usize),
    /// More chunks than a runtime can address.
    #[error("a step of rank {rank} has offset {offset}; the limit of MSCCL is {MOST_OFFSET}")]
    #[diagnostic(help("use a method with fewer chunks"))]
    Offset {
        /// The rank.
        rank: usize,
        /// The offset, in chunks.
        offset: u64,
    },
    /// A thread block exceeds the runtime's step limit.
    #[error("a thread block of rank {rank} has {steps} steps; the limit of the runtime is {most}")]
    #[diagnostic(help("use a method with fewer messages or fewer chunks"))]
    Steps {
        /// The rank.
        rank: usize,
        /// Number of steps.
        steps: usize,
        /// The limit.
        most: usize,
    },
}

/// Default maximum size of microsoft/msccl in bytes.
const MOST_BYTES: u64 = 1 << 27;

/// The peer of a block, and its index among the blocks with this peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Local(usize),
    Send(u32, usize),
    Receive(u32, usize),
}

/// The file of an algorithm.
///
/// # Errors
/// If the algorithm exceeds a limit of the format.
pub fn build(algorithm: &Algorithm, name: &str, options: &Options) -> Result<Program, Unsaid> {
    // Number of messages per block before the next block takes over. Waiting takes steps, too.
    let room = options.steps.unwrap_or(options.dialect.most_steps()).min(MOST_STEPS);
    let mut most = room.max(1);
    loop {
        match attempt(algorithm, name, options, (most, room)) {
            Err(Unsaid::Steps { .. }) if most > 1 => most /= 2,
            other => return other,
        }
    }
}

fn attempt(
    algorithm: &Algorithm,
    name: &str,
    options: &Options,
    (most, room): (usize, usize),
) -> Result<Program, Unsaid> {
    let n = algorithm.ranks.len();
    let mut channels = 1;
    let mut gpus = Vec::with_capacity(n);
    for (number, rank) in algorithm.ranks.iter().enumerate() {
        let gpu = Writer::new(algorithm, number, most).write(rank);
        let longest = gpu.blocks.iter().map(|block| block.steps.len()).max();
        if let Some(steps) = longest.filter(|steps| *steps > room) {
            return Err(Unsaid::Steps { rank: number, steps, most: room });
        }
        let places = gpu.blocks.iter().flat_map(|block| &block.steps).flat_map(|step| [step.source, step.target]);
        if let Some(offset) = places.map(|place| place.chunk).max().filter(|offset| *offset > MOST_OFFSET) {
            return Err(Unsaid::Offset { rank: number, offset });
        }
        let gpu = awaited_first(gpu).map_err(|blocks| Unsaid::Awaited { rank: number, blocks })?;
        let last = gpu.blocks.iter().map(|block| block.channel + 1).max().unwrap_or(1);
        channels = channels.max(last);
        if gpu.blocks.len() > MOST_BLOCKS {
            return Err(Unsaid::Blocks { rank: number, blocks: gpu.blocks.len() });
        }
        gpus.push(gpu);
    }
    if channels as usize > MOST_CHANNELS {
        return Err(Unsaid::Channels(channels as usize));
    }
    let shape = algorithm.shape;
    let chunks_per_loop = match algorithm.kind {
        Kind::AllGather => shape.output,
        Kind::ReduceScatter | Kind::AllReduce | Kind::AllToAll | Kind::Broadcast => shape.input,
    };
    Ok(Program {
        name: name.to_owned(),
        kind: Some(algorithm.kind),
        dialect: options.dialect,
        protocol: options.protocol,
        channels,
        chunks_per_loop,
        calls: Calls::OutOfPlace,
        // The Azure dialect requires sizes.
        sizes: options.sizes.or((options.dialect == Dialect::Azure).then_some((0, MOST_BYTES))),
        gpus,
    })
}

struct Writer<'a> {
    algorithm: &'a Algorithm,
    rank: usize,
    most: usize,
    blocks: Vec<(Work, Block)>,
    by_work: BTreeMap<Work, usize>,
    /// The number of messages to and from each rank so far.
    messages: [BTreeMap<u32, usize>; 2],
    local: usize,
    history: History<At>,
    /// The steps known to be done after a step: by block, the number of its steps.
    known: BTreeMap<At, Vec<usize>>,
    /// The steps known to be done before the next step of a block.
    ahead: Vec<Vec<usize>>,
}

/// Renumbers thread blocks so that those that others wait for come first.
///
/// # Errors
/// The number of such blocks, if it exceeds the limit of a runtime.
fn awaited_first(gpu: Gpu) -> Result<Gpu, usize> {
    let is_awaited = |block: &Block| block.steps.iter().any(|step| step.awaited);
    let (first, others): (Vec<usize>, Vec<usize>) =
        (0..gpu.blocks.len()).partition(|number| is_awaited(&gpu.blocks[*number]));
    if first.len() > MOST_AWAITED {
        return Err(first.len());
    }
    let order: Vec<usize> = first.into_iter().chain(others).collect();
    let mut number = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, old)| number[*old] = new);
    let mut blocks: Vec<Block> = order.iter().map(|old| gpu.blocks[*old].clone()).collect();
    for step in blocks.iter_mut().flat_map(|block| &mut block.steps) {
        step.after = step.after.map(|(block, step)| (number[block], step));
    }
    Ok(Gpu { blocks, ..gpu })
}

/// A block and one of its steps.
type At = (usize, usize);

impl<'a> Writer<'a> {
    fn new(algorithm: &'a Algorithm, rank: usize, most: usize) -> Writer<'a> {
        Writer {
            algorithm,
            rank,
            most,
            blocks: Vec::new(),
            by_work: BTreeMap::new(),
            messages: [BTreeMap::new(), BTreeMap::new()],
            local: 0,
            history: History::default(),
            known: BTreeMap::new(),
            ahead: Vec::new(),
        }
    }

    fn write(mut self, rank: &Rank) -> Gpu {
        for action in &rank.actions {
            for piece in pieces(*action) {
                self.action(&piece);
            }
        }
        let shape = self.algorithm.shape;
        let chunks = [shape.input, shape.output, rank.scratch];
        let blocks: Vec<Block> = self.blocks.into_iter().map(|(_, block)| block).collect();
        Gpu { chunks, blocks }
    }

    /// The block that executes an action.
    fn block(&mut self, action: &Action) -> usize {
        let most = self.most;
        let mut next = |side: usize, peer: u32| {
            let count = self.messages[side].entry(peer).or_default();
            *count += 1;
            (*count - 1) / most
        };
        let work = match *action {
            Action::Send { to, .. } => Work::Send(to, next(0, to)),
            Action::Receive { from, .. } | Action::ReceiveAdd { from, .. } => Work::Receive(from, next(1, from)),
            Action::Copy { .. } | Action::Add { .. } => {
                self.local += 1;
                Work::Local((self.local - 1) / most)
            }
        };
        if let Some(block) = self.by_work.get(&work) {
            return *block;
        }
        let n = self.algorithm.ranks.len();
        // Both ends compute the distance from sender to receiver.
        let lanes = (n - 1).div_ceil(MOST_ON_CHANNEL).max(1);
        let channel = |distance: usize, turn: usize| {
            u32::try_from(turn * lanes + distance.saturating_sub(1) / MOST_ON_CHANNEL).unwrap_or(u32::MAX)
        };
        let away = |from: usize, to: usize| (to + n - from) % n;
        let (send, receive, distance, turn) = match work {
            Work::Local(turn) => (None, None, 0, turn),
            Work::Send(to, turn) => (Some(to), None, away(self.rank, to as usize), turn),
            Work::Receive(from, turn) => (None, Some(from), away(from as usize, self.rank), turn),
        };
        let block = Block { send, receive, channel: channel(distance, turn), steps: Vec::new() };
        self.blocks.push((work, block));
        self.ahead.push(Vec::new());
        self.by_work.insert(work, self.blocks.len() - 1);
        self.blocks.len() - 1
    }

    fn action(&mut self, action: &Action) {
        let block = self.block(action);
        let (reads, writes): (Vec<Span>, Option<Span>) = (action.reads().collect(), action.writes());
        // For each block, the last step that must be done before.
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        for (other, step) in self.history.before(&reads, writes) {
            before.entry(other).and_modify(|last| *last = step.max(*last)).or_insert(step);
        }
        before.remove(&block);
        let mut ahead = std::mem::take(&mut self.ahead[block]);
        // Later steps imply most others, so waits for them are added first.
        let mut waits: Vec<At> = Vec::new();
        let mut order: Vec<At> = before.into_iter().collect();
        let weight = |at: &At| self.known[at].iter().sum::<usize>();
        order.sort_by_key(|at| std::cmp::Reverse(weight(at)));
        for at in order {
            if ahead.get(at.0).is_none_or(|done| *done <= at.1) {
                waits.push(at);
                merge(&mut ahead, &self.known[&at]);
            }
        }
        let step = step(action);
        let last = waits.pop();
        for wait in waits {
            self.push(block, Step { op: Op::Nop, after: Some(wait), count: 0, ..step });
        }
        self.push(block, Step { after: last, ..step });
        let at = (block, self.blocks[block].1.steps.len() - 1);
        set(&mut ahead, block, at.1 + 1);
        self.known.insert(at, ahead.clone());
        self.ahead[block] = ahead;
        self.history.push(at, &reads, writes);
    }

    fn push(&mut self, block: usize, step: Step) {
        if let Some((other, place)) = step.after {
            self.blocks[other].1.steps[place].awaited = true;
        }
        self.blocks[block].1.steps.push(step);
    }
}

fn set(done: &mut Vec<usize>, block: usize, count: usize) {
    if done.len() <= block {
        done.resize(block + 1, 0);
    }
    done[block] = done[block].max(count);
}

fn merge(done: &mut Vec<usize>, more: &[usize]) {
    more.iter().enumerate().for_each(|(block, count)| set(done, block, *count));
}

/// Splits an action so that no part exceeds the maximum chunks per step.
fn pieces(action: Action) -> Vec<Action> {
    let count = action.writes().or_else(|| action.reads().next()).map_or(0, |span| span.count);
    let piece = |start: u64| {
        let part = |span: Span| Span { start: span.start + start, count: (count - start).min(MOST_COUNT), ..span };
        match action {
            Action::Send { to, from } => Action::Send { to, from: part(from) },
            Action::Receive { from, into } => Action::Receive { from, into: part(into) },
            Action::ReceiveAdd { from, with, into } => Action::ReceiveAdd { from, with: part(with), into: part(into) },
            Action::Copy { from, into } => Action::Copy { from: part(from), into: part(into) },
            Action::Add { from, into } => Action::Add { from: part(from), into: part(into) },
        }
    };
    (0..count.div_ceil(MOST_COUNT)).map(|number| piece(number * MOST_COUNT)).collect()
}

fn step(action: &Action) -> Step {
    let (op, source, target) = match *action {
        // An operand that the operation does not use repeats the other one.
        Action::Send { from, .. } => (Op::Send, from, from),
        Action::Receive { into, .. } => (Op::Receive, into, into),
        Action::ReceiveAdd { with, into, .. } => (Op::ReceiveReduceCopy, with, into),
        Action::Copy { from, into } => (Op::Copy, from, into),
        Action::Add { from, into } => (Op::Reduce, from, into),
    };
    let place = |span: Span| Place { buffer: span.buffer, chunk: span.start };
    Step { op, source: place(source), target: place(target), count: target.count, after: None, awaited: false }
}
