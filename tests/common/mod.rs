//! What several integration tests share: schedules written by hand, ways to break them, and a naive interpreter.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod mutants;
pub mod numeric;
pub mod schedules;
