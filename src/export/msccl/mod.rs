//! MSCCL XML files, as loaded by the runtimes of microsoft/msccl, Azure's executor and RCCL.
//!
//! A rank's work is done by *thread blocks*. Each sends to at most one rank and receives from at most one, step by
//! step. A step may wait for one step of another block of its rank. Messages on a channel between two ranks arrive in
//! the order in which they are sent. A message is not written to the receiver's buffers: it stays in a slot of its
//! connection until the receiver takes it, and a send waits for a free slot.
//!
//! Based on the parsers' sources: <https://github.com/microsoft/msccl> (`src/graph/` and `src/misc/`),
//! <https://github.com/Azure/msccl-executor-nccl>. The parsers accept no XML declaration and no tabs, and require
//! exactly one space between attributes; files are written accordingly.

mod build;
mod prove;
mod read;
mod write;

pub use build::{Unsaid, build};
pub use prove::{Room, prove};
pub use read::{Unreadable, Written, is_msccl, read};
pub use write::write;

use crate::export::ranks::{Buffer, Kind};

/// Maximum steps per thread block of any runtime.
pub const MOST_STEPS: usize = 256;
/// Only thread blocks with smaller numbers can be waited for: `depid` is stored in a signed byte.
pub const MOST_AWAITED: usize = 128;
/// Maximum offset of a step in a buffer, in chunks: `srcoff` and `dstoff` are stored in 16 signed bits.
pub const MOST_OFFSET: u64 = (1 << 15) - 1;
/// Slots of a connection: NCCL's `NCCL_STEPS`.
pub const SLOTS: u32 = 8;
/// Maximum thread blocks per rank.
pub const MOST_BLOCKS: usize = 216;
/// Maximum thread blocks per rank that send, or receive, on one channel.
pub const MOST_ON_CHANNEL: usize = 32;
/// Maximum channels.
pub const MOST_CHANNELS: usize = 32;
/// Maximum chunks per step.
pub const MOST_COUNT: u64 = 71;
/// Maximum chunks per buffer.
pub const MOST_CHUNKS: u64 = 1 << 24;
/// Maximum ranks of a file that is read.
pub const MOST_RANKS: usize = 1 << 12;

/// Calls of a collective for which a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// The input is a part of the output, or the same buffer.
    InPlace,
    /// Input and output are two buffers.
    OutOfPlace,
    /// Both.
    Both,
}

/// Target runtime of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Dialect {
    /// microsoft/msccl
    #[default]
    Msccl,
    /// Azure's executor, and RCCL
    Azure,
}

impl Dialect {
    /// Default maximum of steps per thread block; runtimes can be built with another `MSCCL_MAX_NUM_STEPS`.
    pub fn most_steps(self) -> usize {
        match self {
            Dialect::Msccl => MOST_STEPS,
            Dialect::Azure => 64,
        }
    }
}

/// Protocol of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Protocol {
    /// Large messages, with barriers
    #[default]
    Simple,
    /// Small messages, a flag beside every 4 bytes
    Ll,
    /// Small messages over NVLink, a flag beside every 120 bytes
    Ll128,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];

    /// Slots of a connection that a chunk takes: `MSCCL_CHUNKSTEPS` for the simple protocol, otherwise one.
    pub fn slots(self) -> u32 {
        match self {
            Protocol::Simple => SLOTS / 2,
            Protocol::Ll | Protocol::Ll128 => 1,
        }
    }

    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "Simple",
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
        }
    }
}

/// Options of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Target runtime.
    pub dialect: Dialect,
    /// Protocol.
    pub protocol: Protocol,
    /// Minimum and maximum bytes for which the runtime selects the file.
    pub sizes: Option<(u64, u64)>,
    /// Maximum steps per thread block; by default that of the dialect.
    pub steps: Option<usize>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Display name.
    pub name: String,
    /// The collective that it claims to implement; `None` if it is `custom`.
    pub kind: Option<Kind>,
    /// Target runtime: Azure if the file has the attributes that Azure requires.
    pub dialect: Dialect,
    /// Protocol.
    pub protocol: Protocol,
    /// Number of channels.
    pub channels: u32,
    /// Chunks of the whole collective per loop iteration.
    pub chunks_per_loop: u64,
    /// Calls that it is for.
    pub calls: Calls,
    /// Minimum and maximum bytes for which the runtime selects the file.
    pub sizes: Option<(u64, u64)>,
    /// Programs of the ranks.
    pub gpus: Vec<Gpu>,
}

/// The program of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Chunks of the input, output and scratch buffers.
    pub chunks: [u64; 3],
    /// Thread blocks by id.
    pub blocks: Vec<Block>,
}

impl Gpu {
    /// Number of chunks of a buffer.
    pub fn size(&self, buffer: Buffer) -> u64 {
        match buffer {
            Buffer::Input => self.chunks[0],
            Buffer::Output => self.chunks[1],
            Buffer::Scratch => self.chunks[2],
        }
    }
}

/// A thread block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The rank that it sends to.
    pub send: Option<u32>,
    /// The rank that it receives from.
    pub receive: Option<u32>,
    /// Channel of both connections.
    pub channel: u32,
    /// Steps, executed in order.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Operation.
    pub op: Op,
    /// Chunks read, or a placeholder.
    pub source: Place,
    /// Chunks written.
    pub target: Place,
    /// Number of chunks.
    pub count: u64,
    /// The step (thread block of this rank, and number) for which it waits.
    pub after: Option<(usize, usize)>,
    /// Whether other steps wait for it.
    pub awaited: bool,
}

/// The first chunk of a range; the step's `count` gives its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: Buffer,
    /// The chunk, from 0.
    pub chunk: u64,
}

/// Operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `s`: sends the source.
    Send,
    /// `r`: receives into the target.
    Receive,
    /// `rcs`: receives into the target and sends it on.
    ReceiveCopySend,
    /// `rrs`: receives, adds the source and sends the sum on; nothing is stored.
    ReceiveReduceSend,
    /// `rrc`: receives, adds the source, and stores into the target.
    ReceiveReduceCopy,
    /// `rrcs`: as `rrc`, and sends the sum on.
    ReceiveReduceCopySend,
    /// `cpy`: copies the source to the target.
    Copy,
    /// `re`: adds the source to the target.
    Reduce,
    /// `nop`: only waits.
    Nop,
}

impl Op {
    /// All operations.
    pub const ALL: [Op; 9] = [
        Op::Send,
        Op::Receive,
        Op::ReceiveCopySend,
        Op::ReceiveReduceSend,
        Op::ReceiveReduceCopy,
        Op::ReceiveReduceCopySend,
        Op::Copy,
        Op::Reduce,
        Op::Nop,
    ];

    /// The word in files, and whether the operation sends, receives, reads its source and writes its target.
    fn facts(self) -> (&'static str, [bool; 4]) {
        match self {
            Op::Send => ("s", [true, false, true, false]),
            Op::Receive => ("r", [false, true, false, true]),
            Op::ReceiveCopySend => ("rcs", [true, true, false, true]),
            Op::ReceiveReduceSend => ("rrs", [true, true, true, false]),
            Op::ReceiveReduceCopy => ("rrc", [false, true, true, true]),
            Op::ReceiveReduceCopySend => ("rrcs", [true, true, true, true]),
            Op::Copy => ("cpy", [false, false, true, true]),
            Op::Reduce => ("re", [false, false, true, true]),
            Op::Nop => ("nop", [false; 4]),
        }
    }

    /// The word in files.
    pub fn word(self) -> &'static str {
        self.facts().0
    }

    /// Whether it sends.
    pub fn sends(self) -> bool {
        self.facts().1[0]
    }

    /// Whether it receives.
    pub fn receives(self) -> bool {
        self.facts().1[1]
    }

    /// Whether it reads its source.
    pub fn reads_source(self) -> bool {
        self.facts().1[2]
    }

    /// Whether it writes its target.
    pub fn writes_target(self) -> bool {
        self.facts().1[3]
    }
}
