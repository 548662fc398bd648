//! MSCCL++'s execution plans: JSON that its executor loads.
//!
//! A rank's work is done by thread blocks, each a list of operations. Data is *put* into buffers of other ranks, or
//! fetched from there; a receiver knows of it because a *signal* on a channel follows, for which it waits. Signals are
//! only counted. Nothing else orders ranks, so that the order is the author's affair.
//!
//! Read in the sources of the executor: <https://github.com/microsoft/mscclpp> (`src/executor/`).

mod build;
mod handshake;
mod prove;

pub use build::{Unsaid, build};
pub use prove::prove;

use crate::escape;
use serde::{Deserialize, Serialize};

/// The most operations of a thread block.
pub const MOST_OPERATIONS: usize = 64;
/// The most channels of a thread block, and the most remote buffers.
pub const MOST_CHANNELS: usize = 16;
/// The most channels of an operation.
pub const MOST_AT_ONCE: usize = 8;
/// The most barriers.
pub const MOST_BARRIERS: usize = 16;
/// The most ranks that are read.
pub const MOST_RANKS: usize = 1 << 12;
/// The most chunks of a buffer that are read.
pub const MOST_CHUNKS: u64 = 1 << 24;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// For people.
    pub name: String,
    /// `allgather`, ..
    pub collective: String,
    /// `Simple` or `LL`
    pub protocol: String,
    /// Whether input and output are one buffer, or one a part of the other.
    pub inplace: bool,
    /// Whether channels are used again by the next execution.
    #[serde(default)]
    pub reuse_resources: bool,
    /// By rank.
    pub gpus: Vec<Gpu>,
    /// Threads of each block.
    #[serde(default)]
    pub num_threads_per_block: u32,
    /// Whether executions take turns with two scratch buffers.
    #[serde(default)]
    pub use_double_scratch_buffer: bool,
    /// Bytes.
    #[serde(default = "alignment")]
    pub buffer_alignment: u32,
    /// The least bytes for which it is taken.
    #[serde(default)]
    pub min_message_size: u64,
    /// The most bytes for which it is taken.
    #[serde(default = "largest")]
    pub max_message_size: u64,
}

fn alignment() -> u32 {
    16
}

fn largest() -> u64 {
    u64::MAX
}

/// What one rank does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The rank.
    pub id: u32,
    /// Chunks of its input.
    pub input_chunks: u64,
    /// Chunks of its output.
    pub output_chunks: u64,
    /// Chunks of its scratch.
    pub scratch_chunks: u64,
    /// By id.
    pub threadblocks: Vec<Block>,
    /// To other ranks.
    #[serde(default)]
    pub channels: Vec<Channels>,
    /// Buffers of other ranks.
    #[serde(default)]
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Between its thread blocks.
    #[serde(default)]
    pub semaphores: Vec<Semaphore>,
}

/// Channels of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// `memory` or `port`
    pub channel_type: String,
    /// One to each of these ranks.
    #[serde(default)]
    pub connected_to: Vec<u32>,
}

/// A buffer of another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteBuffer {
    /// Whose.
    pub rank: u32,
    /// `i`, `o` or `s`
    #[serde(rename = "type")]
    pub kind: String,
    /// By which types of channels it is reached.
    pub access_channel_types: Vec<String>,
}

/// A counter between thread blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semaphore {
    /// At the start.
    pub init_value: u32,
}

/// A thread block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// From 0.
    pub id: u32,
    /// One after the other.
    pub ops: Vec<Operation>,
    /// Those that it uses, by type; operations count in these lists.
    #[serde(default)]
    pub channels: Vec<ChannelRefs>,
    /// The same of remote buffers.
    #[serde(default)]
    pub remote_buffer_refs: Vec<RemoteRefs>,
}

/// Channels of a type that a thread block uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRefs {
    /// See [`Channels`].
    pub channel_type: String,
    /// Places in the list of the rank.
    pub channel_ids: Vec<usize>,
}

/// Remote buffers that a thread block reaches by a type of channels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRefs {
    /// See [`Channels`].
    pub access_channel_type: String,
    /// Places in the list of the rank.
    pub remote_buffer_ids: Vec<usize>,
}

/// An operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// `put`, `signal`, `wait`, `copy`, `re`, ..
    pub name: String,
    /// What is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub src_buff: Vec<Chunks>,
    /// What is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dst_buff: Vec<Chunks>,
    /// On which channels, by the list of the thread block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel_ids: Vec<usize>,
    /// Of which type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<String>,
    /// Of sums; no reader looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_op: Option<String>,
    /// Of a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier_id: Option<usize>,
    /// How many thread blocks meet at a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_threadblocks: Option<usize>,
    /// Which semaphores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub semaphore_ids: Vec<usize>,
}

/// Neighbouring chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    /// Of the rank itself: `i`, `o` or `s`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of another rank: a place in the list of the thread block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_id: Option<usize>,
    /// The first.
    pub index: u64,
    /// How many.
    pub size: u64,
}

/// Whether a text is to be read as such a file.
pub fn is_mscclpp(text: &str) -> bool {
    let start = text.trim_start();
    start.starts_with('{') && text.contains("\"gpus\"") && text.contains("\"threadblocks\"")
}

/// The text of a file.
pub fn write(plan: &Plan) -> String {
    escape::json(&serde_json::to_string_pretty(plan).expect("numbers, texts and lists")).into_owned() + "\n"
}

/// Reads a file. Whether its numbers fit is seen by [`prove`].
///
/// # Errors
/// Where the JSON is none, or lacks something.
pub fn read(text: &str) -> Result<Plan, serde_json::Error> {
    serde_json::from_str(text)
}
