//! Checks the examples of the README.

use crate::common::page;
use std::process::{Command, Output};

const README: &str = include_str!("../../README.md");

/// The text of the code block below `<!-- marker -->`.
fn block(marker: &str) -> &'static str {
    page::block(README, marker)
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let example = include_str!("../../examples/megatron_mlp.shard");
    assert_eq!(block("examples/megatron_mlp.shard"), example);
}

#[test]
fn the_output_of_the_readme_is_real() {
    let output = Command::new(env!("CARGO_BIN_EXE_shardc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "examples/megatron_mlp.shard"])
        .output()
        .expect("the command runs");
    assert_eq!(block("run"), String::from_utf8_lossy(&output.stdout));
}

/// Runs the command on a block that is written to a file with its name.
fn shardc(command: &str, name: &str) -> Output {
    let folder = std::env::temp_dir().join("shardc-readme");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), block(name)).expect("a file");
    let mut run = Command::new(env!("CARGO_BIN_EXE_shardc"));
    run.current_dir(folder).args([command, name]).output().expect("the command runs")
}

#[test]
fn the_error_of_the_readme_is_real() {
    let output = shardc("check", "wrong.shard");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(block("check").trim(), String::from_utf8_lossy(&output.stderr).trim());
}
