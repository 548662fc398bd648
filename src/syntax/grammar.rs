//! The parser that pest makes of `grammar/shard.pest`.
#![allow(missing_docs, unreachable_pub)] // Written by the derive.

/// Reads one statement.
#[derive(pest_derive::Parser)]
#[grammar = "../grammar/shard.pest"]
pub(super) struct ShardParser;
