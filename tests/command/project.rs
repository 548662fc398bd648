//! Program folders: `shardc init`, defaults in `shardc.toml`, folders as arguments, `check --fix` and `--watch`.

use crate::common::process::{fed, shardc, text};
use crate::common::programs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    fed(&mut shardc(folder, arguments), "")
}

/// The standard output of a successful command.
fn told(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The standard error and the exit code of a command.
fn error(folder: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = run(folder, arguments);
    (text(&output.stderr), output.status.code())
}

fn write(folder: &Path, name: &str, content: &str) {
    std::fs::write(folder.join(name), content).expect("a file");
}

const PROGRAM: &str = "mesh {X: 4} on tpu_v5e\ndims {I: 4096}\nA: bf16[I_X]\nA -> B[I]\n";

/// The files of `init` are formatted, check, satisfy their own `expect` line, and are never overwritten.
#[test]
fn init_begins_a_folder() {
    let place = folder();
    let said = told(place.path(), &["init", "demo"]);
    let demo = place.path().join("demo");
    assert!(said.starts_with("created demo/mlp.shard\ncreated demo/shardc.toml\n"), "{said}");
    for arguments in [&["check"][..], &["fmt", "--check"], &["plan", "mlp.shard"], &["time", "mlp.shard"]] {
        told(&demo, arguments);
    }
    let line = "./mlp.shard: no errors or warnings; 1 expect line not tested (plan, time and run test them)\n";
    assert_eq!(told(&demo, &["check"]), line);
    write(&demo, "mlp.shard", PROGRAM);
    std::fs::remove_file(demo.join("shardc.toml")).expect("a file");
    let (said, code) = error(&demo, &["init"]);
    assert_eq!((said.as_str(), code), ("error: `mlp.shard` already exists; nothing was written\n", Some(2)));
    assert!(!demo.join("shardc.toml").exists());
    assert_eq!(std::fs::read_to_string(demo.join("mlp.shard")).expect("a program"), PROGRAM);
}

/// A default has the effect of the command-line option, and options on the command line take precedence.
#[test]
fn defaults_are_options() {
    let place = folder();
    let here = place.path();
    write(here, "a.shard", PROGRAM);
    let plain = told(here, &["plan", "a.shard"]);
    for (defaults, words) in [
        ("hardware = \"h100\"", &["--hardware", "h100"][..]),
        ("costs = \"bytes\"\nset = [\"I=8192\"]", &["--costs", "bytes", "--set", "I=8192"]),
        ("[plan]\nmethods = true\nlatency = 0", &["--methods", "--latency", "0"]),
        ("width = 60", &["--width", "60"]),
        // A command's table may follow other entries in any order.
        ("costs = \"book\"\n[plan]\ncosts = \"bytes\"", &["--costs", "bytes"]),
        ("methods = false\n[time]\ncosts = \"book\"", &[]),
    ] {
        std::fs::remove_file(here.join("shardc.toml")).ok();
        let given = told(here, &[&["plan", "a.shard"], words].concat());
        write(here, "shardc.toml", defaults);
        assert_eq!(told(here, &["plan", "a.shard"]), given, "{defaults}");
        assert_eq!(told(here, &["plan", "a.shard", "--no-config"]), plain, "{defaults}");
    }
    // The nearest file is used; another one can be named.
    write(here, "shardc.toml", "hardware = \"h100\"");
    let below = here.join("below");
    std::fs::create_dir(&below).expect("a folder");
    assert!(told(&below, &["plan", "../a.shard"]).contains("on h100"));
    assert!(told(&below, &["plan", "../a.shard", "--hardware", "a100"]).contains("on a100"));
    write(&below, "shardc.toml", "hardware = \"tpu_v5p\"");
    assert!(told(&below, &["plan", "../a.shard"]).contains("on tpu_v5p"));
    assert!(told(&below, &["plan", "../a.shard", "--config", "../shardc.toml"]).contains("on h100"));
    // Relative paths are relative to the file that contains them.
    let profile = told(here, &["hardware", "a100"]);
    write(here, "mine.toml", &profile.replace("name = \"a100\"", "name = \"mine\""));
    write(here, "shardc.toml", "hardware = \"mine.toml\"");
    assert!(told(here, &["plan", "a.shard"]).contains("on mine"));
    std::fs::remove_file(below.join("shardc.toml")).expect("a file");
    assert!(told(&below, &["plan", "../a.shard"]).contains("on mine"));
    let (said, _) = error(&below, &["plan", "../a.shard", "--verbose"]);
    assert!(said.starts_with("defaults of ../shardc.toml: --hardware=../mine.toml\nchecked in 0."), "{said}");
}

#[test]
fn wrong_defaults_are_told() {
    let place = folder();
    let here = place.path();
    write(here, "a.shard", PROGRAM);
    for (defaults, wanted) in [
        ("hardwre = \"h100\"", "unknown option `hardwre`; did you mean `hardware`?"),
        ("[plam]\ncosts = \"book\"", "unknown command `plam`; did you mean `plan`?"),
        ("[plan]\ncheck = true", "unknown option of `plan` `check`"),
        ("methods = \"yes\"", "`methods` is `true` or `false`"),
        ("costs = [[1]]", "`costs` is a string, a number or a list of those"),
        ("costs = ", "TOML parse error at line 1"),
        ("watch = true", "unknown option `watch`"),
        ("costs = \"cheap\"", "error in `shardc.toml`, which adds `--costs=cheap`"),
    ] {
        write(here, "shardc.toml", defaults);
        let (said, code) = error(here, &["plan", "a.shard"]);
        assert!(said.contains(wanted) && said.contains("`shardc.toml`") && code == Some(2), "{defaults}: {said}");
    }
    let (said, code) = error(here, &["plan", "a.shard", "--config", "none.toml"]);
    assert!(said.contains("cannot read `none.toml`") && code == Some(2), "{said}");
    // Commands that plan nothing work despite a wrong file if it is ignored.
    told(here, &["hardware", "--no-config"]);
}

/// A folder stands for its programs, sorted; hidden folders are skipped.
#[test]
fn folders_stand_for_their_programs() {
    let place = folder();
    let here = place.path();
    for folder in ["b", "b/.hidden", "empty"] {
        std::fs::create_dir(here.join(folder)).expect("a folder");
    }
    for name in ["b/two.shard", "b/.hidden/no.shard", "one.shard"] {
        write(here, name, PROGRAM);
    }
    write(here, "b/ugly.shard", "mesh{X:4}\ndims {I: 8}\nA: bf16[I_X]\nA -> B[I]\n");
    assert_eq!(told(here, &["check", "one.shard", "b", "-q"]), "");
    let (said, code) = error(here, &["check", "empty"]);
    assert_eq!((said.as_str(), code), ("error: `empty` has no `.shard` files\n", Some(2)));
    let output = run(here, &["fmt", "--check", "."]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("./b/ugly.shard\n", Some(1)));
    write(here, "shardc.toml", "paths = [\"one.shard\", \"b\"]");
    assert_eq!(told(here, &["check"]).lines().count(), 3 + told(here, &["check", "b/ugly.shard"]).lines().count() - 1);
    told(here, &["snapshot"]);
    assert_eq!(told(here, &["snapshot", "--check"]).lines().count(), 3);
}

/// A result is not written over the program that it comes from.
#[test]
fn results_do_not_overwrite_their_sources() {
    let place = folder();
    let here = place.path();
    write(here, "a.shard", PROGRAM);
    for arguments in [
        &["compile", "a.shard", "-o", "a.shard"][..],
        &["report", "a.shard", "-o", "./a.shard"],
        &["export", "a.shard", "--to", "jax", "-o", "a.shard"],
    ] {
        let (said, code) = error(here, arguments);
        assert!(said.contains("is an input of this command") && code == Some(2), "{said}");
    }
    assert_eq!(std::fs::read_to_string(here.join("a.shard")).expect("a program"), PROGRAM);
}

/// Rows of `--moves` are rows of the whole table, and all that communicate.
#[test]
fn moves_are_the_rows_that_communicate() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/megatron_mlp.shard");
    let place = folder();
    let [all, moves] = [&["plan", file][..], &["plan", file, "--moves"]].map(|arguments| told(place.path(), arguments));
    let is_move = |line: &&str| line.contains("AllReduce_Y  Out");
    assert!(moves.lines().any(|line| is_move(&line)) && !moves.contains("product"), "{moves}");
    assert!(all.contains("product") && all.lines().any(|line| is_move(&line)), "{all}");
}

/// `--quiet` prints only results and errors.
#[test]
fn quiet_commands_print_results_only() {
    let place = folder();
    write(place.path(), "a.shard", &PROGRAM.replace(" on tpu_v5e", ""));
    let output = run(place.path(), &["plan", "a.shard", "--quiet"]);
    assert!(output.stderr.is_empty() && !output.stdout.is_empty(), "{}", text(&output.stderr));
    let (loud, _) = error(place.path(), &["plan", "a.shard"]);
    assert!(loud.contains("default-hardware"), "{loud}");
    // The note concerns an assumption that is not made here.
    let (said, _) = error(place.path(), &["plan", "a.shard", "--hardware", "h100"]);
    assert_eq!(said, "");
    write(place.path(), "a.shard", "mesh {X: 4}\nA -> B\n");
    let output = run(place.path(), &["check", "a.shard", "--quiet"]);
    assert!(text(&output.stderr).contains("unknown-array") && output.status.code() == Some(1));
}

/// Fixes for misspelled words, for a layout mismatch with a single solution, and for the lines that `--strict`
/// requires.
#[test]
fn fixes_are_applied() {
    let place = folder();
    let here = place.path();
    let fixed = |program: &str, arguments: &[&str]| {
        write(here, "a.shard", program);
        let output = run(here, &[&["check", "--fix", "a.shard"], arguments].concat());
        let read = std::fs::read_to_string(here.join("a.shard")).expect("a program");
        (read, text(&output.stdout), output.status.code())
    };
    let head = "mesh {X: 4} on tpu_v5e\ndims {Batch: 4096, D: 64}\n";
    // Three words; the second is only checked once the first is corrected.
    let (read, said, code) = fixed(&format!("{head}A: bf16[Bacth_X, D]\nB = rleu(A)\nC = exp(B)\noutput CC\n"), &[]);
    assert_eq!(read, format!("{head}A: bf16[Batch_X, D]\nB = relu(A)\nC = exp(B)\noutput C\n"));
    assert_eq!((said.as_str(), code), ("a.shard: 3 fixes applied\n", Some(0)));
    // A second run has nothing to fix.
    assert_eq!(fixed(&read, &[]), (read.clone(), "a.shard: no errors or warnings\n".to_owned(), Some(0)));
    // With several possible fixes, none is applied.
    let open = format!("{head}A: bf16[Batch_X, D]\nC = relu(A[Batch, D])\n");
    let (read, said, code) = fixed(&open, &[]);
    assert_eq!((read, code), (open, Some(1)), "{said}");
    // Lenient syntax, including LaTeX, is converted to strict syntax.
    let (read, _, code) =
        fixed(&format!("{head}A: bf16[BatchX, D]\n$AllGather_X(A) \\to B[Batch, D]$\n"), &["--lenient"]);
    assert!(code == Some(0) && read.contains("A: bf16[Batch_X, D]\n") && !read.contains('$'), "{read}");
    // The lines required by `--strict`.
    let (read, _, code) = fixed(&format!("{head}A: bf16[Batch_X, D]\nC[Batch, D] = relu(A)\n"), &["--strict"]);
    assert_eq!(code, Some(0), "{read}");
    told(here, &["check", "--strict", "a.shard"]);
    let (said, code) = error(here, &["check", "--fix", "-"]);
    assert!(said.contains("cannot fix `<stdin>`") && code == Some(2), "{said}");
}

/// `--fix` never makes a program worse: errors never increase, and correct programs are unchanged.
#[test]
fn fixes_make_no_program_worse() {
    let place = folder();
    let mut fixed = 0;
    for path in programs("tests/cases/wrong") {
        let source = std::fs::read_to_string(&path).expect("a case");
        write(place.path(), "a.shard", &source);
        let before = run(place.path(), &["check", "a.shard"]);
        let output = run(place.path(), &["check", "--fix", "a.shard"]);
        let now = std::fs::read_to_string(place.path().join("a.shard")).expect("a program");
        let after = run(place.path(), &["check", "a.shard"]);
        if before.status.success() {
            assert_eq!(now, source, "{}", path.display());
        }
        assert_eq!(after.status.code(), output.status.code(), "{}", path.display());
        fixed += usize::from(!before.status.success() && after.status.success());
    }
    assert!(fixed >= 15, "{fixed} programs are fixed");
}

/// A watched program is checked again when it changes.
#[test]
fn watched_programs_are_run_again() {
    let place = folder();
    write(place.path(), "a.shard", "mesh {X: 4}\nA -> B\n");
    let mut command = shardc(place.path(), &["check", "a.shard", "--watch"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("a line"));
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("a.shard: 1 error"));
    assert!(errors.any(|line| line == "watching 1 file"));
    write(place.path(), "a.shard", PROGRAM);
    assert_eq!(lines.next().as_deref(), Some("a.shard: no errors or warnings"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let (said, code) = error(place.path(), &["fmt", "a.shard", "--watch"]);
    assert!(said.contains("`fmt` reads no files that could be watched") && code == Some(2), "{said}");
}
