//! Documents, pictures and files of other tools, read back and passed to those tools.

#[path = "../common/mod.rs"]
mod common;

mod escaping;
mod export;
mod jax;
mod pictures;
mod replay;
mod report_html;
mod schemas;
mod show;
mod thread_blocks;
mod widths;
