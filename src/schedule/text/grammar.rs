//! The parser that pest makes of `grammar/schedule.pest`.
#![allow(missing_docs, unreachable_pub)] // Written by the derive.

/// Reads one statement.
#[derive(pest_derive::Parser)]
#[grammar = "../grammar/schedule.pest"]
pub(super) struct ScheduleParser;
