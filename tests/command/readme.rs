//! What the README shows is what happens.

use std::process::{Command, Output};

const README: &str = include_str!("../../README.md");

/// The text of the code block that follows `marker`.
fn block(marker: &str) -> &'static str {
    let after = README.split_once(marker).unwrap_or_else(|| panic!("the README has no `{marker}`")).1;
    let body = after.split_once("```").expect("a code block").1.split_once('\n').expect("its first line").1;
    body.split_once("```").expect("its end").0
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let example = include_str!("../../examples/megatron_mlp.shard");
    assert_eq!(block("<!-- examples/megatron_mlp.shard -->"), example);
}

#[test]
fn the_output_of_the_readme_is_real() {
    let output = Command::new(env!("CARGO_BIN_EXE_shardc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "examples/megatron_mlp.shard"])
        .output()
        .expect("the command runs");
    assert_eq!(block("<!-- run -->"), String::from_utf8_lossy(&output.stdout));
}

/// Runs the command on a block that is written to a file of its name.
fn shardc(command: &str, name: &str) -> Output {
    let folder = std::env::temp_dir().join("shardc-readme");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), block(&format!("<!-- {name} -->"))).expect("a file");
    let mut run = Command::new(env!("CARGO_BIN_EXE_shardc"));
    run.current_dir(folder).args([command, name]).output().expect("the command runs")
}

#[test]
fn the_error_of_the_readme_is_real() {
    let output = shardc("check", "wrong.shard");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(block("<!-- check -->").trim(), String::from_utf8_lossy(&output.stderr).trim());
}

#[test]
fn the_notation_of_the_readme_is_legal() {
    let output = shardc("run", "notation.shard");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
