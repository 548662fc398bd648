//! One collective as programs of ranks over buffers of chunks: what all formats of runtimes have in common.

mod flaw;
pub(in crate::export) mod machine;
pub(in crate::export) mod order;
mod place;
mod refused;
mod replay;
mod units;

pub use flaw::{Access, At, Flaw, Format, Wait};
pub use machine::Proven;
pub use place::algorithm;
pub use refused::Refused;

use std::fmt;

/// A collective between all ranks, over whole buffers.
///
/// With n ranks and buffers in the order of the ranks: output chunk `k * c + j` of a gather is input chunk j of rank k,
/// with c chunks in each input; the others likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Every rank gets the inputs of all.
    AllGather,
    /// Rank r gets the sum of the r-th parts of all inputs.
    ReduceScatter,
    /// Every rank gets the sum of all inputs.
    AllReduce,
    /// Rank r gets the r-th part of each input.
    AllToAll,
    /// Every rank gets the input of rank 0.
    Broadcast,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::AllGather, Kind::ReduceScatter, Kind::AllReduce, Kind::AllToAll, Kind::Broadcast];

    /// The book's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllGather => "AllGather",
            Kind::ReduceScatter => "ReduceScatter",
            Kind::AllReduce => "AllReduce",
            Kind::AllToAll => "AllToAll",
            Kind::Broadcast => "Broadcast",
        }
    }

    /// As the formats spell it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::AllGather => "allgather",
            Kind::ReduceScatter => "reducescatter",
            Kind::AllReduce => "allreduce",
            Kind::AllToAll => "alltoall",
            Kind::Broadcast => "broadcast",
        }
    }

    /// The collective that is spelled so.
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The input chunks whose sum a rank must have in an output chunk, as a rank and a place in its input; without a
    /// sum it is one. `None` where the buffers do not fit the collective.
    pub fn wanted(self, shape: Shape, rank: u64, chunk: u64) -> Option<Vec<(u64, u64)>> {
        let Shape { ranks: n, input, output } = shape;
        let all = |place: u64| (0..n).map(|rank| (rank, place)).collect();
        match self {
            Kind::AllGather => (input.checked_mul(n)? == output).then(|| vec![(chunk / input, chunk % input)]),
            Kind::ReduceScatter => (output.checked_mul(n)? == input).then(|| all(rank * output + chunk)),
            Kind::AllReduce => (input == output).then(|| all(chunk)),
            Kind::AllToAll => {
                let each = input / n;
                (input == output && each * n == input).then(|| vec![(chunk / each, rank * each + chunk % each)])
            }
            Kind::Broadcast => (input == output).then(|| vec![(0, chunk)]),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many ranks there are, and how many chunks are in the buffers of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Numbered from 0.
    pub ranks: u64,
    /// What each rank gives.
    pub input: u64,
    /// What each rank gets.
    pub output: u64,
}

/// The buffers of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What it gives; it stays as it is.
    Input,
    /// What it gets.
    Output,
    /// What it needs on the way.
    Scratch,
}

impl Buffer {
    /// As the formats spell it.
    pub fn letter(self) -> &'static str {
        match self {
            Buffer::Input => "i",
            Buffer::Output => "o",
            Buffer::Scratch => "s",
        }
    }

    /// The buffer that is spelled so.
    pub fn of(letter: &str) -> Option<Buffer> {
        [Buffer::Input, Buffer::Output, Buffer::Scratch].into_iter().find(|buffer| buffer.letter() == letter)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Buffer::Input => "the input",
            Buffer::Output => "the output",
            Buffer::Scratch => "the scratch",
        }
    }
}

/// Neighbouring chunks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Of the rank whose action it is.
    pub buffer: Buffer,
    /// The first.
    pub start: u64,
    /// How many; at least 1.
    pub count: u64,
}

impl Span {
    /// The chunks one by one.
    pub fn chunks(self) -> impl Iterator<Item = (Buffer, u64)> {
        (self.start..self.start + self.count).map(move |chunk| (self.buffer, chunk))
    }
}

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends chunks. The messages between two ranks arrive in the order in which they are sent.
    Send {
        /// To another rank.
        to: u32,
        /// These.
        from: Span,
    },
    /// Receives chunks.
    Receive {
        /// From another rank.
        from: u32,
        /// Puts them here.
        into: Span,
    },
    /// Receives chunks and adds them to others.
    ReceiveAdd {
        /// From another rank.
        from: u32,
        /// To these.
        with: Span,
        /// Puts the sums here; the same chunks as `with`, or others.
        into: Span,
    },
    /// Copies chunks.
    Copy {
        /// These.
        from: Span,
        /// To here.
        into: Span,
    },
    /// Adds chunks to others.
    Add {
        /// These.
        from: Span,
        /// To these, which change.
        into: Span,
    },
}

impl Action {
    /// What it reads of the rank's own buffers.
    pub fn reads(&self) -> impl Iterator<Item = Span> + use<> {
        let spans = match *self {
            Action::Send { from, .. } | Action::Copy { from, .. } => [Some(from), None],
            Action::Receive { .. } => [None, None],
            Action::ReceiveAdd { with, .. } => [Some(with), None],
            Action::Add { from, into } => [Some(from), Some(into)],
        };
        spans.into_iter().flatten()
    }

    /// What it writes.
    pub fn writes(&self) -> Option<Span> {
        match *self {
            Action::Send { .. } => None,
            Action::Receive { into, .. }
            | Action::ReceiveAdd { into, .. }
            | Action::Copy { into, .. }
            | Action::Add { into, .. } => Some(into),
        }
    }
}

/// What one rank does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Chunks that it needs on the way.
    pub scratch: u64,
    /// In an order in which all ranks together can do them one by one.
    pub actions: Vec<Action>,
}

/// A collective, done by all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Which one.
    pub kind: Kind,
    /// How many ranks and chunks.
    pub shape: Shape,
    /// As many as the shape has.
    pub ranks: Vec<Rank>,
    /// Elements of a chunk in the schedule that it was made of.
    pub chunk: u64,
    /// Whether the chunks of input and output lie in memory as the blocks of the arrays do, row by row. Where an array
    /// is cut along another dim than its first they have to be packed.
    pub contiguous: bool,
}
