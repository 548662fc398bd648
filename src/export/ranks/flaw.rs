//! Flaws of MSCCL and MSCCL++ files.

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
    /// Its name in schedules.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msccl => "msccl",
            Format::Mscclpp => "mscclpp",
        }
    }

    /// Its term for a step of a thread block.
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
    /// The format of the file.
    pub format: Format,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, thread block {}, {} {}", self.rank, self.block, self.format.step(), self.step)
    }
}

/// An access to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A step.
    Step(At),
    /// The caller of a rank, which reads its output and writes its input before and after each launch.
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

/// The condition that an MSCCL thread block waits for.
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

/// A flaw of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-wrong"))]
pub enum Flaw {
    /// The collective is not named: the reason, and the file or plan in question.
    #[error("{0}; use `--collective` to name the collective of {1}")]
    Unnamed(String, &'static str),
    /// The buffers are not those of the collective.
    #[error("{} input and {} output chunks do not match {kind} over {} ranks", shape.input, shape.output, shape.ranks)]
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
        /// Description of the flaw.
        what: String,
    },
    /// A thread block has more steps than the runtime has room for.
    #[error("rank {}, thread block {} has {steps} steps; the limit is {most}", first.rank, first.block)]
    Steps {
        /// The first step beyond the limit.
        first: At,
        /// Steps of the thread block.
        steps: usize,
        /// The limit.
        most: usize,
    },
    /// A step waits for a thread block whose number the runtime cannot keep.
    #[error("{at} waits for thread block {block}; only the first {MOST_AWAITED} can be waited for")]
    #[diagnostic(help("runtimes store `depid` as a signed 8-bit integer: 128 becomes -128"))]
    Awaited {
        /// The step.
        at: At,
        /// The thread block for which it waits.
        block: usize,
    },
    /// An invalid step.
    #[error("{at}: {what}")]
    Step {
        /// The step.
        at: At,
        /// Description of the flaw.
        what: String,
    },
    /// A contribution is added twice.
    #[error("{at}: the input of rank {rank} is added twice to chunk {chunk}")]
    Doubled {
        /// The step that adds.
        at: At,
        /// The rank whose input is added twice.
        rank: u32,
        /// The chunk of its input.
        chunk: u64,
    },
    /// A deadlock.
    #[error("deadlock: {at} waits{}", wait.map_or_else(
        || format!(", and so do {more} other thread blocks"),
        |wait| format!(" for {wait}, and {more} other thread blocks wait too"),
    ))]
    Deadlock {
        /// The first waiting step.
        at: At,
        /// The condition it waits for, if there is a single one.
        wait: Option<Wait>,
        /// Number of other waiting thread blocks.
        more: usize,
        /// Available slots.
        #[help]
        help: Option<String>,
    },
    /// Left over at the end: messages never received, signals never waited for, or a semaphore with another
    /// count than at the start.
    #[error("{what}")]
    Left {
        /// Description of the flaw.
        what: String,
        /// The consequence.
        #[help]
        help: Option<&'static str>,
    },
    /// Two signals, or two waits, that have no order.
    #[error("{first} and {second} {what} in no defined order")]
    #[diagnostic(help("signals are only counted; a wait cannot distinguish them"))]
    Unordered {
        /// The first one.
        first: At,
        /// The second one.
        second: At,
        /// What both do to the shared state.
        what: &'static str,
    },
    /// Two accesses to a chunk that have no order.
    #[error("{first} and {second} {what} in no defined order")]
    Race {
        /// The first one.
        first: Access,
        /// The second one.
        second: Access,
        /// What both do to the shared state.
        what: String,
        /// How to order accesses.
        #[help]
        help: &'static str,
    },
    /// An output chunk has the wrong content.
    #[error("rank {rank}: output chunk {chunk} {what}")]
    Wrong {
        /// The rank.
        rank: usize,
        /// The chunk.
        chunk: u64,
        /// Description of the flaw.
        what: String,
    },
}

impl Flaw {
    /// The steps involved, the primary one first.
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
            Flaw::Unnamed(..) | Flaw::Shape { .. } | Flaw::Limit { .. } | Flaw::Left { .. } | Flaw::Wrong { .. } => {
                Vec::new()
            }
        }
    }
}
