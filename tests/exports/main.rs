//! Documents, pictures and exported files, read back and passed to their tools.

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
mod sweep_html;
mod thread_blocks;
mod widths;
