//! Chakra execution traces, one file per rank, as read by ASTRA-sim; also usable as a custom collective.
//!
//! A file is a sequence of length-prefixed protobuf messages: metadata, then nodes. The nodes of a collective send,
//! receive and compute. There are no buffers, so a trace can be checked only as far as `messages.rs` does.
//!
//! The fields are those of `et_def.proto`, <https://github.com/mlcommons/chakra>. The attributes and their types are
//! those that ASTRA-sim's feeder reads.

use super::messages::{Messages, Node, What};
use prost::Message;
use std::collections::BTreeMap;
use thiserror::Error;

/// The metadata at the start of a file. Without a version the message would be empty, at which readers stop.
#[derive(Clone, PartialEq, Message)]
struct GlobalMetadata {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    attr: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    /// See [`Value::Int32`].
    #[prost(int64, tag = "3")]
    kind: i64,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Value", tags = "7, 9, 13, 27, 29")]
    value: Option<Value>,
}

/// The value types that are written here.
#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    /// Declared with 64 bits, which have the same encoding: a longer number would otherwise be truncated unnoticed.
    #[prost(int64, tag = "7")]
    Int32(i64),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

const METADATA: i64 = 1;
const COMPUTE: i64 = 4;
const SEND: i64 = 5;
const RECEIVE: i64 = 6;

/// Maximum number of nodes read per rank.
const MOST_NODES: usize = 1 << 22;

/// Traces, and the time lost by rounding to whole microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// Files of each rank.
    pub files: Vec<Vec<u8>>,
    /// Nanoseconds of computation missing in the durations, summed over all ranks.
    pub lost: u64,
}

/// Writes the files of messages.
///
/// - `memory`: nanoseconds for reading and writing a number of bytes.
pub fn write(messages: &Messages, memory: impl Fn(u64) -> u64) -> Traces {
    let mut lost = 0u64;
    let mut files = Vec::with_capacity(messages.ranks.len());
    for (rank, nodes) in messages.ranks.iter().enumerate() {
        let mut file =
            GlobalMetadata { version: "0.0.4".to_owned(), attr: Vec::new() }.encode_length_delimited_to_vec();
        for (number, node) in nodes.iter().enumerate() {
            let text = |name: &str, value| Attribute { name: name.to_owned(), value: Some(value) };
            // `messages::check` refuses larger numbers, and so do readers.
            let small = |number: u32| Value::Int32(i64::from(number));
            let large = |bytes: u64| Value::Int64(bytes.cast_signed());
            let own = u32::try_from(rank).unwrap_or(u32::MAX);
            let message = |source: u32, target: u32, tag: u32, bytes: u64| {
                vec![
                    text("is_cpu_op", Value::Bool(false)),
                    text("comm_size", large(bytes)),
                    text("comm_src", small(source)),
                    text("comm_dst", small(target)),
                    text("comm_tag", small(tag)),
                ]
            };
            let mut duration_micros = 0;
            let (name, kind, attr) = match node.what {
                What::Send { to, tag, bytes } => (format!("send {tag} to {to}"), SEND, message(own, to, tag, bytes)),
                What::Receive { from, tag, bytes } => {
                    (format!("receive {tag} from {from}"), RECEIVE, message(from, own, tag, bytes))
                }
                What::Compute { bytes } => {
                    let nanos = memory(bytes);
                    duration_micros = nanos / 1000 + u64::from(nanos % 1000 >= 500);
                    lost = lost.saturating_add(nanos.abs_diff(duration_micros.saturating_mul(1000)));
                    let attr = vec![
                        text("is_cpu_op", Value::Bool(false)),
                        text("num_ops", large(bytes)),
                        text("tensor_size", Value::Uint64(bytes)),
                    ];
                    ("local".to_owned(), COMPUTE, attr)
                }
            };
            let entry = Entry {
                id: number as u64,
                name,
                kind,
                ctrl_deps: Vec::new(),
                data_deps: node.after.iter().map(|before| *before as u64).collect(),
                start_time_micros: 0,
                duration_micros,
                attr,
            };
            file.extend(entry.encode_length_delimited_to_vec());
        }
        files.push(file);
    }
    Traces { files, lost }
}

/// The reason why the file of a rank cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("rank {rank}: {what}")]
#[diagnostic(code("algorithm-unreadable"))]
pub struct Unreadable {
    rank: usize,
    what: String,
}

/// Reads the files of all ranks.
///
/// # Errors
/// The first error that a feeder would fail on.
pub fn read(files: &[Vec<u8>]) -> Result<Messages, Unreadable> {
    let ranks = files.iter().enumerate().map(|(rank, file)| read_rank(rank, file)).collect::<Result<_, _>>()?;
    Ok(Messages { ranks })
}

fn read_rank(rank: usize, file: &[u8]) -> Result<Vec<Node>, Unreadable> {
    let wrong = |what: String| Unreadable { rank, what };
    let mut rest = file;
    let metadata = GlobalMetadata::decode_length_delimited(&mut rest).map_err(|error| wrong(error.to_string()))?;
    if metadata.version.is_empty() {
        return Err(wrong("the version is missing".to_owned()));
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    while !rest.is_empty() {
        let entry = Entry::decode_length_delimited(&mut rest).map_err(|error| wrong(error.to_string()))?;
        if entry.kind == METADATA {
            continue;
        }
        if places.insert(entry.id, entries.len()).is_some() {
            return Err(wrong(format!("two nodes have the id {}", entry.id)));
        }
        entries.push(entry);
        if entries.len() > MOST_NODES {
            return Err(wrong(format!("more than {MOST_NODES} nodes")));
        }
    }
    let node = |entry: &Entry| {
        let wrong = |what: &str| Unreadable { rank, what: format!("node {}: {what}", entry.id) };
        let value = |name: &str| entry.attr.iter().find(|attribute| attribute.name == name)?.value.clone();
        let number = |name: &str| match value(name) {
            Some(Value::Int32(number)) => i32::try_from(number).ok()?.try_into().ok(),
            _ => None,
        };
        let small = |name: &str| number(name).ok_or_else(|| wrong(&format!("missing `{name}`, a non-negative int32")));
        let size = || match value("comm_size") {
            Some(Value::Int64(bytes)) => u64::try_from(bytes).ok(),
            _ => None,
        };
        let size = || size().ok_or_else(|| wrong("missing `comm_size`, a non-negative int64"));
        let what = match entry.kind {
            SEND => What::Send { to: small("comm_dst")?, tag: small("comm_tag")?, bytes: size()? },
            RECEIVE => What::Receive { from: small("comm_src")?, tag: small("comm_tag")?, bytes: size()? },
            COMPUTE => What::Compute {
                bytes: match value("tensor_size") {
                    Some(Value::Uint64(bytes)) => bytes,
                    _ => 0,
                },
            },
            other => return Err(wrong(&format!("unsupported node type {other}"))),
        };
        let deps = entry.data_deps.iter().chain(&entry.ctrl_deps);
        let after = deps.map(|id| {
            places.get(id).copied().ok_or_else(|| wrong(&format!("it waits for node {id}, which does not exist")))
        });
        Ok(Node { what, after: after.collect::<Result<_, _>>()? })
    };
    entries.iter().map(node).collect()
}
