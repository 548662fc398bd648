//! What the README shows is what happens.

use std::process::Command;

const README: &str = include_str!("../README.md");

/// The text of the code block that follows `marker`.
fn block(marker: &str) -> &'static str {
    let after = README.split_once(marker).unwrap_or_else(|| panic!("the README has no `{marker}`")).1;
    let body = after.split_once("```").expect("a code block").1.split_once('\n').expect("its first line").1;
    body.split_once("```").expect("its end").0
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    let example = include_str!("../examples/megatron_mlp.shard");
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

#[test]
fn the_error_of_the_readme_is_real() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
    let file = std::env::temp_dir().join("shardc-readme").join("wrong.shard");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(&file, block("<!-- wrong.shard -->")).expect("a file");
    let output = command.current_dir(file.parent().expect("a folder")).args(["check", "wrong.shard"]).output();
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(block("<!-- check -->").trim(), String::from_utf8_lossy(&output.stderr).trim());
}
