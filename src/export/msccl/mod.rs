//! MSCCL's XML: what the runtimes of microsoft/msccl, of Azure's executor and of RCCL load.
//!
//! A rank's work is done by *thread blocks*, each of which sends to one rank and receives from one at most, step after
//! step. A step may wait for one step of another block of its rank. Messages on a channel between two ranks arrive in
//! the order in which they are sent. Nothing is written to buffers of another rank: a message lies in one of the slots
//! of its connection until the receiver takes it from there, and a send waits for a free slot.
//!
//! Read in the sources of the parsers: <https://github.com/microsoft/msccl> (`src/graph/` and `src/misc/`),
//! <https://github.com/Azure/msccl-executor-nccl>. They are written by hand and take no XML declaration, no tabs, and
//! exactly one space between attributes; so that is what is written.

mod build;
mod prove;
mod read;
mod write;

pub use build::{Unsaid, build};
pub use prove::{Room, prove};
pub use read::{Unreadable, Written, is_msccl, read};
pub use write::write;

use crate::export::ranks::{Buffer, Kind};

/// The most steps in a thread block that any runtime has room for.
pub const MOST_STEPS: usize = 256;
/// Thread blocks with smaller numbers than this can be waited for: `depid` is kept in 8 bits with a sign.
pub const MOST_AWAITED: usize = 128;
/// Slots of a connection: NCCL's `NCCL_STEPS`.
pub const SLOTS: u32 = 8;
/// The most thread blocks of a rank.
pub const MOST_BLOCKS: usize = 216;
/// The most thread blocks of a rank that send, or receive, on one channel.
pub const MOST_ON_CHANNEL: usize = 32;
/// The most channels.
pub const MOST_CHANNELS: usize = 32;
/// The most chunks in one step.
pub const MOST_COUNT: u64 = 71;
/// Chunks of a buffer.
pub const MOST_CHUNKS: u64 = 1 << 24;
/// The most ranks that are read.
pub const MOST_RANKS: usize = 1 << 12;

/// Who is to read the file.
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
    /// Steps of a thread block for which its runtimes have room, unless they are built with `MSCCL_MAX_NUM_STEPS`.
    pub fn most_steps(self) -> usize {
        match self {
            Dialect::Msccl => MOST_STEPS,
            Dialect::Azure => 64,
        }
    }
}

/// How data is sent.
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
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];

    /// Slots of a connection that a chunk takes: `MSCCL_CHUNKSTEPS` of the simple protocol, one of the others.
    pub fn slots(self) -> u32 {
        match self {
            Protocol::Simple => SLOTS / 2,
            Protocol::Ll | Protocol::Ll128 => 1,
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "Simple",
            Protocol::Ll => "LL",
            Protocol::Ll128 => "LL128",
        }
    }
}

/// What can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Who is to read the file.
    pub dialect: Dialect,
    /// How data is sent.
    pub protocol: Protocol,
    /// The least and the most bytes for which the runtime takes it.
    pub sizes: Option<(u64, u64)>,
    /// The most steps in a thread block; without, those of the dialect.
    pub steps: Option<usize>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A name for people.
    pub name: String,
    /// What it claims to do; none if it is `custom`.
    pub kind: Option<Kind>,
    /// Who is to read it: Azure's, if it says what that one demands.
    pub dialect: Dialect,
    /// How data is sent.
    pub protocol: Protocol,
    /// How many channels there are.
    pub channels: u32,
    /// Chunks of the whole collective that are done in one loop.
    pub chunks_per_loop: u64,
    /// Whether the input is a part of the output, or the same buffer.
    pub in_place: bool,
    /// The least and the most bytes for which the runtime takes it.
    pub sizes: Option<(u64, u64)>,
    /// By rank.
    pub gpus: Vec<Gpu>,
}

/// What one rank does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Chunks of its buffers: input, output, scratch.
    pub chunks: [u64; 3],
    /// By id.
    pub blocks: Vec<Block>,
}

impl Gpu {
    /// The chunks of a buffer.
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
    /// To whom it sends.
    pub send: Option<u32>,
    /// From whom it receives.
    pub receive: Option<u32>,
    /// On which channel.
    pub channel: u32,
    /// One after the other.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// What is read, or is in the place of it.
    pub source: Place,
    /// What is written.
    pub target: Place,
    /// So many chunks.
    pub count: u64,
    /// The step, of a thread block of this rank, for which it waits.
    pub after: Option<(usize, usize)>,
    /// Whether others wait for it.
    pub awaited: bool,
}

/// A chunk of a buffer; a step speaks of `count` of them from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the rank.
    pub buffer: Buffer,
    /// From 0.
    pub chunk: u64,
}

/// What a step does.
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
    /// `rrcs`: the same, and sends the sum on.
    ReceiveReduceCopySend,
    /// `cpy`: copies the source to the target.
    Copy,
    /// `re`: adds the source to the target.
    Reduce,
    /// `nop`: only waits.
    Nop,
}

impl Op {
    /// All of them.
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

    /// The word, and whether it sends, receives, reads its source and writes its target.
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

    /// As it is written.
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
