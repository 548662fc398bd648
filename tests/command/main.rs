//! The command `shardc`: output, exit codes, files and faults.

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod book;
mod circles;
mod cli;
mod examples;
mod fmt;
mod limits;
mod outside;
mod project;
mod prose;
mod readme;
mod snapshot;
mod sources;
mod structure;
mod sweep;
