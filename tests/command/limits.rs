//! System limits: without threads, a run has the same results on one thread; without memory, it ends with a message.

use std::process::{Command, Output};

/// A stack size that no machine supports, so that starting any thread fails.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "1152921504606846976");

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn program(name: &str, source: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("limits_{name}.shard"));
    std::fs::write(&path, source).expect("a file");
    path.display().to_string()
}

#[test]
fn without_threads_every_command_does_the_same() {
    let large = "mesh {X: 4 ring} on tpu_v5e\ndims {I: 256, J: 256, K: 256}\nA: f32[I, J_X]\nB: f32[J_X, K]\n\
                 C[I_X, K] = A * B\noutput C\n";
    let (file, example) = (program("threads", large), "examples/megatron_mlp.shard");
    for arguments in [vec!["run", &file], vec!["time", &file], vec!["run", example], vec!["plan", "--methods", example]]
    {
        let run = |threads: bool| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
            command.args(&arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
            if !threads {
                command.env(NO_THREADS.0, NO_THREADS.1);
            }
            command.output().expect("it ends")
        };
        let (with, without) = (run(true), run(false));
        assert!(without.status.success(), "{arguments:?}: {}", text(&without));
        assert_eq!(text(&with), text(&without), "{arguments:?}");
    }
}

/// An address space of 2 GB, for a run that needs 3 GiB of an allowed 8.
#[test]
#[cfg(target_os = "linux")]
fn a_run_that_does_not_fit_the_address_space_ends_in_words() {
    let file =
        program("memory", "mesh {X: 2}\ndims {I: 8000, J: 8000}\nA: f32[I_X, J]\nB[I_X, J] = relu(A)\noutput B\n");
    let run = |limit: &str, file: &str| {
        let script = format!("ulimit -v {limit}; exec \"$0\" run \"$1\"");
        Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_shardc"), file]).output().expect("it ends")
    };
    let output = run("2000000", &file);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let words = text(&output);
    assert!(words.contains("GiB; the limit is") && !words.contains("limit is 8.0 GiB"), "{words}");
    let small = program("little", "mesh {X: 2}\ndims {I: 8}\nA: f32[I_X]\nB[I] = A\noutput B\n");
    let output = run("2000000", &small);
    assert!(output.status.success(), "{}", text(&output));
}
