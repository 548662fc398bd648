//! One collective as programs of ranks over buffers of chunks: the common basis of all runtime formats.

pub(in crate::export) mod cells;
mod chunks;
pub(in crate::export) mod collective;
mod flaw;
pub(in crate::export) mod machine;
pub(in crate::export) mod order;
pub(in crate::export) mod place;
mod refused;
mod replay;

pub use flaw::{Access, At, Flaw, Format, Wait};
pub use machine::Proven;
pub use place::algorithm;
pub use refused::Refused;

use std::fmt;

/// A collective between all ranks, over whole buffers.
///
/// Buffers are ordered by rank. For example, with c chunks in each input, output chunk `k * c + j` of a gather is
/// input chunk j of rank k.
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
    /// All collectives.
    pub const ALL: [Kind; 5] = [Kind::AllGather, Kind::ReduceScatter, Kind::AllReduce, Kind::AllToAll, Kind::Broadcast];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllGather => "AllGather",
            Kind::ReduceScatter => "ReduceScatter",
            Kind::AllReduce => "AllReduce",
            Kind::AllToAll => "AllToAll",
            Kind::Broadcast => "Broadcast",
        }
    }

    /// Name in the formats.
    pub fn word(self) -> &'static str {
        match self {
            Kind::AllGather => "allgather",
            Kind::ReduceScatter => "reducescatter",
            Kind::AllReduce => "allreduce",
            Kind::AllToAll => "alltoall",
            Kind::Broadcast => "broadcast",
        }
    }

    /// The collective with this name in the formats.
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The input chunks whose sum an output chunk of a rank must hold, as ranks and positions; a single one if the
    /// collective does not sum. `None` if the buffers do not fit the collective.
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

/// Number of ranks, and sizes of their buffers in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of ranks.
    pub ranks: u64,
    /// Input chunks per rank.
    pub input: u64,
    /// Output chunks per rank.
    pub output: u64,
}

/// The buffers of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// The rank's contribution; not modified.
    Input,
    /// The rank's result.
    Output,
    /// Temporary storage.
    Scratch,
}

impl Buffer {
    /// Letter in the formats.
    pub fn letter(self) -> &'static str {
        match self {
            Buffer::Input => "i",
            Buffer::Output => "o",
            Buffer::Scratch => "s",
        }
    }

    /// The buffer with this letter.
    pub fn of(letter: &str) -> Option<Buffer> {
        [Buffer::Input, Buffer::Output, Buffer::Scratch].into_iter().find(|buffer| buffer.letter() == letter)
    }

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Buffer::Input => "the input",
            Buffer::Output => "the output",
            Buffer::Scratch => "the scratch",
        }
    }
}

/// A range of chunks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// A buffer of the rank that executes the action.
    pub buffer: Buffer,
    /// First chunk.
    pub start: u64,
    /// Number of chunks; at least 1.
    pub count: u64,
}

impl Span {
    /// The individual chunks.
    pub fn chunks(self) -> impl Iterator<Item = (Buffer, u64)> {
        (self.start..self.start + self.count).map(move |chunk| (self.buffer, chunk))
    }
}

/// An action of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends chunks. The messages between two ranks arrive in the order in which they are sent.
    Send {
        /// Receiver.
        to: u32,
        /// Source chunks.
        from: Span,
    },
    /// Receives chunks.
    Receive {
        /// Sender.
        from: u32,
        /// Destination.
        into: Span,
    },
    /// Receives chunks and adds them to others.
    ReceiveAdd {
        /// Sender.
        from: u32,
        /// The chunks added to.
        with: Span,
        /// Destination of the sums; may equal `with`.
        into: Span,
    },
    /// Copies chunks.
    Copy {
        /// Source chunks.
        from: Span,
        /// Destination.
        into: Span,
    },
    /// Adds chunks to others.
    Add {
        /// Source chunks.
        from: Span,
        /// Destination, which is modified.
        into: Span,
    },
}

impl Action {
    /// The chunks of the rank's own buffers that it reads.
    pub fn reads(&self) -> impl Iterator<Item = Span> + use<> {
        let spans = match *self {
            Action::Send { from, .. } | Action::Copy { from, .. } => [Some(from), None],
            Action::Receive { .. } => [None, None],
            Action::ReceiveAdd { with, .. } => [Some(with), None],
            Action::Add { from, into } => [Some(from), Some(into)],
        };
        spans.into_iter().flatten()
    }

    /// The chunks that it writes.
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

/// The program of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Number of scratch chunks.
    pub scratch: u64,
    /// Actions, in the order of the schedule. All ranks together can execute them if messages are buffered.
    pub actions: Vec<Action>,
}

/// An implementation of a collective for all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The collective.
    pub kind: Kind,
    /// Numbers of ranks and chunks.
    pub shape: Shape,
    /// One program per rank.
    pub ranks: Vec<Rank>,
    /// Whether the chunks of each block have exactly its size; otherwise they are within 1 % of it.
    pub exact: bool,
    /// Whether the chunks of input and output have the memory order of the arrays' blocks (row-major). If an array is
    /// cut along a dim other than its first, they must be packed.
    pub contiguous: bool,
}
