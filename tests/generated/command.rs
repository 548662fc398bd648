//! Runs the command on generated programs: checks its exit codes, and that the printed schedules can be proven, timed
//! and run.

use super::machine::Size;
use super::of_seed;
use super::properties::Outcome;
use super::watch::{EVERY_STAGE, watched};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Number of programs; each takes about twenty calls.
const SAMPLE: u64 = 3;

/// Runs the command with this standard input.
fn call(words: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shardc"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that needs no input may end before reading it.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the command ends")
}

/// The output, if the exit code is one of these.
fn ends(words: &[&str], input: &str, codes: &[i32]) -> String {
    let output = call(words, input);
    let said = String::from_utf8_lossy(&output.stderr);
    let right = output.status.code().is_some_and(|code| codes.contains(&code)) && !said.contains("panicked");
    assert!(right, "shardc {}: {}\n{input}\n{said}", words.join(" "), output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_command_says_what_the_library_says() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut called = 0;
    for seed in (0..).map(|seed| seed + 1_000_000) {
        if called == SAMPLE {
            break;
        }
        let (case, made) = of_seed(seed, Size::SMALL);
        // Failures of the library are found by the other test.
        match watched(EVERY_STAGE, &case, &made.0, Size::SMALL) {
            Ok(Outcome::Complete) => called += 1,
            Ok(Outcome::Refused(_)) => continue,
            Err(failure) => panic!("seed {seed}: {}\n{}", failure.class, case.source),
        }
        let strict = case.modes.strict;
        let mut modes = case.modes.clone();
        modes.strict = false;
        // The command ends when it exceeds a limit.
        if modes.is_restricted() {
            modes.limit = None;
        }
        let words = modes.words().join(" ");
        let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        let source = &case.source;
        let program =
            |name: &str, more: &[&str], codes: &[i32]| ends(&[&[name, "-"], more, &words].concat(), source, codes);
        let looked: Vec<&str> = words.iter().copied().filter(|word| *word == "--lenient").collect();
        ends(&[&["check", "-"], looked.as_slice()].concat(), source, &[0, 1]);
        program("plan", &["--format", "json"], &[0]);
        program("plan", &["--methods", "--timeline", "--blocks"], &[0]);
        program("run", &[], &[0]);
        program("time", &["--order", "arrival"], if modes.keep_allgather { &[0, 2] } else { &[0] });
        if strict {
            ends(&[&["plan", "-", "--strict"], words.as_slice()].concat(), source, &[0, 1]);
        }
        for format in ["text", "json"] {
            let schedule = program("compile", &["--format", format], &[0]);
            let profile =
                source.lines().next().and_then(|line| line.rsplit(' ').next()).expect("the mesh is on hardware");
            let hardware = ["--hardware", case.modes.hardware.unwrap_or(profile)];
            // A schedule does not contain link states, and messages are rerouted around failed links.
            let codes: &[i32] = if case.degraded { &[0, 1, 2] } else { &[0] };
            for name in ["prove", "time", "run"] {
                ends(&[&[name, "-"], hardware.as_slice()].concat(), &schedule, codes);
            }
        }
        for format in ["dot", "mermaid", "schedule-dot", "schedule-mermaid", "layouts", "timeline", "trace", "jax"] {
            program("export", &["--to", format], &[0]);
        }
        program("export", &["--to", "stablehlo", "--manual"], &[0]);
        for format in ["msccl", "mscclpp", "goal"] {
            program("export", &["--to", format], &[0, 1, 2]);
        }
        let traces = folder.join(seed.to_string());
        program("export", &["--to", "chakra", "-o", traces.to_str().expect("a path in UTF-8")], &[0, 1, 2]);
    }
}
