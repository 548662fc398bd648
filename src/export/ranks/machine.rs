//! Symbolic execution of ranks: the part that the provers of all formats share.
//!
//! The content of a chunk is the set of input chunks that have been added up in it. A prover runs the steps of the
//! thread blocks in some order, describes what each step reads, writes and waits for, and shows that this order
//! represents all others. At the end, each output chunk must have the content that the collective defines.

use super::flaw::{Access, At, Flaw, Format};
use super::{Buffer, Kind, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Content of a chunk: the input chunks that were added up, as sorted, disjoint ranges of ranks.
pub(in crate::export) type Content = Rc<[Inputs]>;

/// The chunks at one position of the inputs of a range of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::export) struct Inputs {
    chunk: u64,
    /// The first rank, and one past the last.
    ranks: (u64, u64),
}

impl Inputs {
    fn one((rank, chunk): (u64, u64)) -> Inputs {
        Inputs { chunk, ranks: (rank, rank + 1) }
    }

    /// The chunks one by one, by rank and position.
    fn each(self) -> impl Iterator<Item = (u64, u64)> {
        (self.ranks.0..self.ranks.1).map(move |rank| (rank, self.chunk))
    }
}

/// The union of parts.
///
/// # Errors
/// A rank and a position that two parts have in common.
fn union(parts: impl Iterator<Item = Inputs>) -> Result<Vec<Inputs>, (u64, u64)> {
    let mut parts: Vec<Inputs> = parts.collect();
    parts.sort_unstable();
    let mut all: Vec<Inputs> = Vec::with_capacity(parts.len());
    for part in parts {
        match all.last_mut().filter(|last| last.chunk == part.chunk && last.ranks.1 >= part.ranks.0) {
            Some(last) if last.ranks.1 > part.ranks.0 => return Err((part.ranks.0, part.chunk)),
            Some(last) => last.ranks.1 = part.ranks.1,
            None => all.push(part),
        }
    }
    Ok(all)
}

/// Location of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::export) enum Slot {
    /// In a buffer of a rank.
    Held(usize, Buffer, u64),
    /// In flight from a rank; chunks are numbered in the order of sending.
    Sent(usize, usize),
}

impl Slot {
    /// The rank that holds the chunk.
    pub(in crate::export) fn rank(self) -> usize {
        match self {
            Slot::Held(rank, ..) | Slot::Sent(rank, _) => rank,
        }
    }

    /// Display name: `chunk 3 of the scratch`.
    pub(in crate::export) fn name(self) -> String {
        match self {
            Slot::Held(_, buffer, chunk) => format!("chunk {chunk} of {}", buffer.name()),
            Slot::Sent(..) => "a message".to_owned(),
        }
    }
}

/// Lists of chunks, on any ranks.
pub(in crate::export) type Lists = Vec<Vec<Slot>>;

/// Chunks that are read, optionally added up, and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::export) struct Move {
    /// The step that executes the move.
    pub(in crate::export) at: At,
    /// Whether the sources are added up for all targets; otherwise each source is copied to the target at its position.
    pub(in crate::export) reduces: bool,
    /// Chunks read.
    pub(in crate::export) sources: Lists,
    /// Chunks written.
    pub(in crate::export) targets: Lists,
}

/// A successful proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The collective.
    pub kind: Kind,
    /// Numbers of ranks and chunks.
    pub shape: Shape,
    /// Number of steps, summed over ranks.
    pub steps: usize,
    /// Number of messages, summed over ranks; signals for MSCCL++.
    pub messages: usize,
    /// The first step whose result is unused, and the number of such steps.
    pub unused: Option<(At, usize)>,
    pub(super) format: Format,
    pub(super) in_place: bool,
    /// The moves, in a possible order.
    pub(super) moves: Vec<Move>,
}

/// The buffers of all ranks, and their contents.
pub(in crate::export) struct Machine {
    format: Format,
    in_place: bool,
    kind: Kind,
    pub(in crate::export) shape: Shape,
    pub(in crate::export) chunks: BTreeMap<Slot, Content>,
    pub(in crate::export) moves: Vec<Move>,
}

impl Machine {
    /// Empty buffers.
    ///
    /// - `chunks`: sizes of the input and output of each rank. In-place files may declare only one of the two.
    ///
    /// # Errors
    /// If the sizes do not fit the collective.
    pub(in crate::export) fn new(
        format: Format,
        (kind, in_place): (Kind, bool),
        chunks: impl ExactSizeIterator<Item = [u64; 2]>,
    ) -> Result<Machine, Flaw> {
        let ranks = chunks.len() as u64;
        let largest = |most: [u64; 2], next: [u64; 2]| [most[0].max(next[0]), most[1].max(next[1])];
        let [mut input, mut output] = chunks.fold([0, 0], largest);
        if in_place {
            match kind {
                Kind::AllGather if output == 0 => output = input.saturating_mul(ranks),
                Kind::AllGather => input = output / ranks.max(1),
                Kind::ReduceScatter if input == 0 => input = output.saturating_mul(ranks),
                Kind::ReduceScatter => output = input / ranks.max(1),
                Kind::AllReduce | Kind::AllToAll | Kind::Broadcast => {
                    (input, output) = (input.max(output), input.max(output))
                }
            }
        }
        let shape = Shape { ranks, input, output };
        if ranks == 0 || input == 0 || output == 0 || kind.wanted(shape, 0, 0).is_none() {
            return Err(Flaw::Shape { kind, shape });
        }
        Ok(Machine { format, in_place, kind, shape, chunks: BTreeMap::new(), moves: Vec::new() })
    }

    /// The current step of a thread block.
    pub(in crate::export) fn at(&self, (rank, block): (usize, usize), step: usize) -> At {
        At { rank, block, step, format: self.format }
    }

    /// The location of a chunk.
    pub(in crate::export) fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot((self.kind, self.in_place), self.shape, (rank, buffer, chunk))
    }

    /// Input chunks of a rank.
    pub(in crate::export) fn inputs(&self, rank: usize) -> Vec<Slot> {
        (0..self.shape.input).map(|chunk| self.slot(rank, Buffer::Input, chunk)).collect()
    }

    /// Output chunks of a rank.
    pub(in crate::export) fn outputs(&self, rank: usize) -> Vec<Slot> {
        (0..self.shape.output).map(|chunk| self.slot(rank, Buffer::Output, chunk)).collect()
    }

    /// Writes the input of a rank.
    pub(in crate::export) fn fill(&mut self, rank: usize) {
        let filled = self.inputs(rank).into_iter().zip(0..);
        self.chunks.extend(filled.map(|(slot, chunk)| (slot, Rc::from([Inputs::one((rank as u64, chunk))]))));
    }

    /// The union of the parts.
    ///
    /// # Errors
    /// If two parts have an element in common.
    pub(in crate::export) fn sum<'c>(at: At, parts: impl Iterator<Item = &'c Content>) -> Result<Content, Flaw> {
        let parts: Vec<&Content> = parts.collect();
        if let [only] = parts[..] {
            return Ok(only.clone());
        }
        let doubled = |(rank, chunk)| Flaw::Doubled { at, rank: u32::try_from(rank).unwrap_or(u32::MAX), chunk };
        union(parts.iter().flat_map(|content| content.iter().copied())).map(Rc::from).map_err(doubled)
    }

    /// Checks that an output chunk has the content that the collective defines.
    pub(in crate::export) fn check(&self, rank: usize, chunk: u64) -> Result<(), Flaw> {
        let found = self.chunks.get(&self.slot(rank, Buffer::Output, chunk)).map_or(&[][..], |content| content);
        let wanted = self.kind.wanted(self.shape, rank as u64, chunk).unwrap_or_default();
        if union(wanted.iter().copied().map(Inputs::one)).is_ok_and(|wanted| wanted == found) && !found.is_empty() {
            return Ok(());
        }
        let found: BTreeSet<(u64, u64)> = found.iter().flat_map(|inputs| inputs.each()).collect();
        let wanted: BTreeSet<(u64, u64)> = wanted.into_iter().collect();
        let of = |(rank, at): &(u64, u64)| format!("chunk {at} of rank {rank}");
        let what = match (found.is_empty(), wanted.difference(&found).next(), found.difference(&wanted).next()) {
            (true, ..) => "is never written".to_owned(),
            (false, Some(missing), _) => format!("lacks {}", of(missing)),
            (false, None, Some(more)) => format!("also contains {}", of(more)),
            (false, None, None) => return Ok(()),
        };
        Err(Flaw::Wrong { rank, chunk, what })
    }

    /// The flaw for two unordered accesses to a chunk.
    pub(in crate::export) fn race(&self, first: Access, second: Access, slot: Slot) -> Flaw {
        let (what, help) = match self.format {
            Format::Msccl => (format!("touch {}", slot.name()), "make one of them wait for the other"),
            Format::Mscclpp => (
                format!("access {} of rank {}", slot.name(), slot.rank()),
                "a signal and a wait order ranks, a semaphore thread blocks, and a `nop` the threads of a block; the \
                 caller of a rank uses its buffers between two launches, whatever other ranks are doing",
            ),
        };
        Flaw::Race { first, second, what, help }
    }

    /// The proof, when all steps are done.
    pub(in crate::export) fn proven(self, steps: usize, messages: usize, unused: BTreeSet<At>) -> Proven {
        let Machine { format, in_place, kind, shape, moves, .. } = self;
        let unused = unused.first().map(|first| (*first, unused.len()));
        Proven { kind, shape, steps, messages, unused, format, in_place, moves }
    }
}

/// The canonical location of a chunk: in place, input and output share one buffer, one possibly as a part of the other.
pub(super) fn slot((kind, in_place): (Kind, bool), shape: Shape, at: (usize, Buffer, u64)) -> Slot {
    let (rank, buffer, chunk) = at;
    if !in_place {
        return Slot::Held(rank, buffer, chunk);
    }
    let offset = |each: u64| rank as u64 * each;
    match (buffer, kind) {
        (Buffer::Input, Kind::AllGather) => Slot::Held(rank, Buffer::Output, offset(shape.input) + chunk),
        (Buffer::Output, Kind::ReduceScatter) => Slot::Held(rank, Buffer::Output, offset(shape.output) + chunk),
        (Buffer::Input | Buffer::Output, _) => Slot::Held(rank, Buffer::Output, chunk),
        (Buffer::Scratch, _) => Slot::Held(rank, Buffer::Scratch, chunk),
    }
}

/// Result of an agent's turn: whether it made progress, and whether it still has work.
pub(in crate::export) struct Turn {
    pub(in crate::export) moved: bool,
    pub(in crate::export) waits: bool,
}

/// Runs agents in turns, each as far as possible, until none can continue. Returns those that still have work, in
/// turn order.
///
/// # Errors
/// The first error of a turn.
pub(in crate::export) fn in_turns<E>(
    agents: usize,
    mut go: impl FnMut(usize) -> Result<Turn, E>,
) -> Result<VecDeque<usize>, E> {
    let mut waiting: VecDeque<usize> = (0..agents).collect();
    let mut idle = 0;
    while let Some(agent) = waiting.pop_front() {
        let Turn { moved, waits } = go(agent)?;
        idle = if moved { 0 } else { idle + 1 };
        if waits {
            waiting.push_back(agent);
            if idle > waiting.len() {
                waiting.rotate_right(1);
                break;
            }
        }
    }
    Ok(waiting)
}
