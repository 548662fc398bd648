//! The command `shardc`: output, exit codes, files and faults.

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod book;
mod circles;
mod cli;
mod empty;
mod examples;
mod fmt;
mod limits;
mod mpi_page;
mod outside;
mod page_figures;
mod project;
mod prose;
mod readme;
mod reference_pages;
mod snapshot;
mod sources;
mod structure;
mod sweep;
