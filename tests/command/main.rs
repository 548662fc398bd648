//! The command `shardc`: output, exit codes, files and faults.

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod circles;
mod cli;
mod examples;
mod fmt;
mod limits;
mod outside;
mod readme;
mod snapshot;
mod structure;
mod sweep;
