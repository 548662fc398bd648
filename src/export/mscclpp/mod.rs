//! MSCCL++ execution plans: JSON files for its executor.
//!
//! A rank's work is done by thread blocks, each with a list of operations. Data is *put* into buffers of other ranks,
//! or fetched from them. A receiver waits for a *signal* on a channel that follows the put. Signals are only counted.
//! Nothing else orders ranks: the plan's author is responsible for all other ordering.
//!
//! Based on the sources of the executor: <https://github.com/microsoft/mscclpp> (`src/executor/`).

mod build;
mod handshake;
mod prove;

pub use build::{Unsaid, build};
pub use prove::prove;

use crate::escape;
use serde::{Deserialize, Serialize};

/// Maximum operations per thread block.
pub const MOST_OPERATIONS: usize = 64;
/// Maximum channels, and maximum remote buffers, per thread block.
pub const MOST_CHANNELS: usize = 16;
/// Maximum channels per operation.
pub const MOST_AT_ONCE: usize = 8;
/// Maximum barriers.
pub const MOST_BARRIERS: usize = 16;
/// Maximum ranks of a file that is read.
pub const MOST_RANKS: usize = 1 << 12;
/// Maximum chunks per buffer of a file that is read.
pub const MOST_CHUNKS: u64 = 1 << 24;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Display name.
    pub name: String,
    /// Name of the collective: `allgather`, ..
    pub collective: String,
    /// Protocol: `Simple` or `LL`.
    pub protocol: String,
    /// Whether input and output share one buffer, or one is a part of the other.
    pub inplace: bool,
    /// Whether the next execution reuses the channels.
    #[serde(default)]
    pub reuse_resources: bool,
    /// Programs of the ranks.
    pub gpus: Vec<Gpu>,
    /// Threads per block.
    #[serde(default)]
    pub num_threads_per_block: u32,
    /// Whether executions alternate between two scratch buffers.
    #[serde(default)]
    pub use_double_scratch_buffer: bool,
    /// Buffer alignment in bytes.
    #[serde(default = "alignment")]
    pub buffer_alignment: u32,
    /// Minimum bytes for which the plan is selected.
    #[serde(default)]
    pub min_message_size: u64,
    /// Maximum bytes for which the plan is selected.
    #[serde(default = "largest")]
    pub max_message_size: u64,
}

fn alignment() -> u32 {
    16
}

fn largest() -> u64 {
    u64::MAX
}

/// The program of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The rank.
    pub id: u32,
    /// Number of input chunks.
    pub input_chunks: u64,
    /// Number of output chunks.
    pub output_chunks: u64,
    /// Number of scratch chunks.
    pub scratch_chunks: u64,
    /// Thread blocks by id.
    pub threadblocks: Vec<Block>,
    /// Channels to other ranks.
    #[serde(default)]
    pub channels: Vec<Channels>,
    /// Buffers of other ranks.
    #[serde(default)]
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Semaphores between its thread blocks.
    #[serde(default)]
    pub semaphores: Vec<Semaphore>,
}

/// Channels of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Channel type: `memory` or `port`.
    pub channel_type: String,
    /// Ranks at the other end, one per channel.
    #[serde(default)]
    pub connected_to: Vec<u32>,
}

/// A buffer of another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteBuffer {
    /// Rank of the buffer.
    pub rank: u32,
    /// Buffer: `i`, `o` or `s`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Channel types by which it is accessed.
    pub access_channel_types: Vec<String>,
}

/// A counter between thread blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Semaphore {
    /// Initial value.
    pub init_value: u32,
}

/// A thread block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Id, from 0.
    pub id: u32,
    /// Operations, in order.
    pub ops: Vec<Operation>,
    /// Channels that it uses, by type. Operations refer to them by index.
    #[serde(default)]
    pub channels: Vec<ChannelRefs>,
    /// Remote buffers that it uses, by channel type.
    #[serde(default)]
    pub remote_buffer_refs: Vec<RemoteRefs>,
}

/// Channels of a type that a thread block uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRefs {
    /// See [`Channels`].
    pub channel_type: String,
    /// Indices into the rank's list.
    pub channel_ids: Vec<usize>,
}

/// Remote buffers that a thread block accesses by a channel type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRefs {
    /// See [`Channels`].
    pub access_channel_type: String,
    /// Indices into the rank's list.
    pub remote_buffer_ids: Vec<usize>,
}

/// An operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Name: `put`, `signal`, `wait`, `copy`, `re`, ..
    pub name: String,
    /// Chunks read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub src_buff: Vec<Chunks>,
    /// Chunks written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dst_buff: Vec<Chunks>,
    /// Channels, as indices into the thread block's list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel_ids: Vec<usize>,
    /// Channel type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<String>,
    /// Operator of a sum; readers ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_op: Option<String>,
    /// Id of a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier_id: Option<usize>,
    /// Number of thread blocks that meet at a barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_threadblocks: Option<usize>,
    /// Ids of semaphores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub semaphore_ids: Vec<usize>,
}

/// A range of chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    /// For a buffer of this rank: `i`, `o` or `s`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// For a remote buffer: index into the thread block's list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_id: Option<usize>,
    /// First chunk.
    pub index: u64,
    /// Number of chunks.
    pub size: u64,
}

/// Whether a text looks like such a file.
pub fn is_mscclpp(text: &str) -> bool {
    let start = text.trim_start();
    start.starts_with('{') && text.contains("\"gpus\"") && text.contains("\"threadblocks\"")
}

/// The text of a file.
pub fn write(plan: &Plan) -> String {
    escape::json(&serde_json::to_string_pretty(plan).expect("numbers, texts and lists")).into_owned() + "\n"
}

/// Reads a file. [`prove`] checks its contents.
///
/// # Errors
/// If the text is not JSON, or a field is missing.
pub fn read(text: &str) -> Result<Plan, serde_json::Error> {
    serde_json::from_str(text)
}
