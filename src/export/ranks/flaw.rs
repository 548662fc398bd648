//! What can be wrong with a file, in the words of its format.

use super::{Kind, Shape};
use crate::export::msccl::MOST_AWAITED;
use std::fmt;
use thiserror::Error;

/// A format whose files can be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// See [`msccl`](crate::export::msccl).
    Msccl,
    /// See [`mscclpp`](crate::export::mscclpp).
    Mscclpp,
}

impl Format {
    /// As it is called in schedules.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msccl => "msccl",
            Format::Mscclpp => "mscclpp",
        }
    }

    /// Its word for what a thread block does.
    pub fn step(self) -> &'static str {
        match self {
            Format::Msccl => "step",
            Format::Mscclpp => "operation",
        }
    }
}

/// A step by its rank, thread block and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// The rank.
    pub rank: usize,
    /// Its thread block.
    pub block: usize,
    /// The step of the block.
    pub step: usize,
    /// Whose words are spoken.
    pub format: Format,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, thread block {}, {} {}", self.rank, self.block, self.format.step(), self.step)
    }
}

/// Who uses a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A step.
    Step(At),
    /// The caller of a rank, who reads its output and writes its input before and after each launch.
    Caller(usize),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Step(at) => at.fmt(f),
            Access::Caller(rank) => write!(f, "the caller of rank {rank}"),
        }
    }
}

/// What a thread block of MSCCL waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A message from a rank.
    Message(usize),
    /// A free slot of the connection to a rank.
    Slot(usize),
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
    /// It does not say what it is for: why not, and who should do what is asked for.
    #[error("{0}: say with `--collective` what {1} should do")]
    Untold(String, &'static str),
    /// The buffers are not those of the collective.
    #[error("{} input and {} output chunks are not those of a {kind} over {} ranks", shape.input, shape.output, shape.ranks)]
    Shape {
        /// The collective.
        kind: Kind,
        /// The largest buffers.
        shape: Shape,
    },
    /// The runtime would not load it, or read something else.
    #[error("rank {rank}{}: {what}", block.map_or_else(String::new, |block| format!(", thread block {block}")))]
    Limit {
        /// The rank.
        rank: usize,
        /// Its thread block.
        block: Option<usize>,
        /// In words.
        what: String,
    },
    /// A thread block has more steps than the runtime has room for.
    #[error("rank {}, thread block {} has {steps} steps, and there is room for {most}", first.rank, first.block)]
    Steps {
        /// The first for which there is no room.
        first: At,
        /// Steps of the thread block.
        steps: usize,
        /// As many as there may be.
        most: usize,
    },
    /// A step waits for a thread block whose number the runtime cannot keep.
    #[error("{at} waits for thread block {block}, and only the first {MOST_AWAITED} can be waited for")]
    #[diagnostic(help("runtimes keep `depid` in 8 bits with a sign: 128 becomes -128"))]
    Awaited {
        /// The step.
        at: At,
        /// The thread block for which it waits.
        block: usize,
    },
    /// A step that cannot be done as it stands.
    #[error("{at}: {what}")]
    Step {
        /// The step.
        at: At,
        /// In words.
        what: String,
    },
    /// A contribution is added twice.
    #[error("{at}: the input of rank {rank} is added twice to chunk {chunk}")]
    Doubled {
        /// The step that adds.
        at: At,
        /// Whose.
        rank: u32,
        /// Which chunk of its input.
        chunk: u64,
    },
    /// Some steps wait for each other.
    #[error("deadlock: {at} waits{}", wait.map_or_else(
        || format!(", and so do {more} other thread blocks"),
        |wait| format!(" for {wait}, and {more} other thread blocks wait too"),
    ))]
    Deadlock {
        /// The first of them.
        at: At,
        /// What it waits for, where that is one thing.
        wait: Option<Wait>,
        /// How many more.
        more: usize,
        /// What room there is.
        #[help]
        help: Option<String>,
    },
    /// What is left at the end: messages that nobody receives, signals that nobody waits for, a semaphore with another
    /// count than at the start.
    #[error("{what}")]
    Left {
        /// In words.
        what: String,
        /// What comes of it.
        #[help]
        help: Option<&'static str>,
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
        what: &'static str,
    },
    /// Two accesses to a chunk that have no order.
    #[error("{first} and {second} {what} in either order")]
    Race {
        /// One.
        first: Access,
        /// The other.
        second: Access,
        /// What both do.
        what: String,
        /// What orders accesses.
        #[help]
        help: &'static str,
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
        let step = |access: &Access| match access {
            Access::Step(at) => Some(*at),
            Access::Caller(_) => None,
        };
        match self {
            Flaw::Steps { first: at, .. }
            | Flaw::Awaited { at, .. }
            | Flaw::Step { at, .. }
            | Flaw::Doubled { at, .. }
            | Flaw::Deadlock { at, .. } => vec![*at],
            Flaw::Unordered { first, second, .. } => vec![*second, *first],
            Flaw::Race { first, second, .. } => [second, first].into_iter().filter_map(step).collect(),
            Flaw::Untold(..) | Flaw::Shape { .. } | Flaw::Limit { .. } | Flaw::Left { .. } | Flaw::Wrong { .. } => {
                Vec::new()
            }
        }
    }
}
