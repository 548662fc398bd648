//! File handling and faults: full disks, read-only folders, interrupts, closed pipes, and paths that lead to links,
//! devices, pipes or nowhere.
#![cfg(unix)]
#![allow(clippy::print_stderr, missing_docs)]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = "\
mesh {X: 4 ring} on tpu_v5e
dims {B: 64, D: 256, F: 1024}
In: bf16[B, D_X]
W:  bf16[D_X, F]
Out[B, F] = In * W
";

/// Time limit for every command of this file.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a program.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.shard"), PROGRAM).expect("a file");
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command to its end, within the time limit.
fn shardc(folder: &Path, arguments: &[&str]) -> Output {
    ended(command(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
}

/// The same for a shell command line, in which `$SHARDC` is the command.
fn shell(folder: &Path, line: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.current_dir(folder).args(["-c", line]).env("SHARDC", env!("CARGO_BIN_EXE_shardc")).stdin(Stdio::null());
    ended(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell"))
}

fn ended(mut child: Child) -> Output {
    // The output is read concurrently; otherwise the command would block.
    let out = reading(child.stdout.take());
    let err = reading(child.stderr.take());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().ok();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Output { status, stdout: out.join().expect("read"), stderr: err.join().expect("read") }
}

fn reading(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.map(|mut from| from.read_to_end(&mut bytes));
        bytes
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts success without warnings. Returns the output.
fn fine(output: &Output) -> String {
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Asserts a usage error with this message.
fn refused(output: &Output, words: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(words) && !told.contains("panicked"), "{words}: {told}");
}

/// The names in a folder, including hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| text(entry.expect("an entry").file_name().as_encoded_bytes()))
        .collect();
    names.sort();
    names
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// Every command that writes a file. The path is the last word, unless it is part of another one.
fn writers(out: &str) -> Vec<Vec<String>> {
    let save = format!("Out={out}");
    let calls: [&[&str]; 7] = [
        &["compile", "a.shard", "-o", out],
        &["compile", "a.shard", "--emit", "plan", "--format", "json", "-o", out],
        &["export", "a.shard", "--to", "jax", "-o", out],
        &["export", "a.shard", "--to", "timeline", "-o", out],
        &["export", "a.shard", "--to", "msccl", "-o", out],
        &["report", "a.shard", "-o", out],
        &["run", "a.shard", "--save", &save],
    ];
    calls.iter().map(|call| call.iter().map(|word| (*word).to_owned()).collect()).collect()
}

fn words(call: &[String]) -> Vec<&str> {
    call.iter().map(String::as_str).collect()
}

/// Symbolic links are kept: their target is written, even if it does not exist yet.
#[test]
fn links_are_written_through() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("real")).expect("a folder");
    for (number, call) in writers("link.npy").into_iter().enumerate() {
        for before in [None, Some("before")] {
            let target = format!("real/{number}");
            if let Some(before) = before {
                fs::write(path(&target), before).expect("a file");
            }
            // Two links, one of them relative to another folder.
            symlink(format!("{number}"), path("real/second")).expect("a link");
            symlink("real/second", path("link.npy")).expect("a link");
            fine(&shardc(folder.path(), &words(&call)));
            assert!(path("link.npy").is_symlink() && path("real/second").is_symlink(), "{call:?}");
            let written = fs::metadata(path(&target)).expect("it is there");
            assert!(written.is_file() && written.len() > 100, "{call:?}");
            for name in ["link.npy", "real/second"] {
                fs::remove_file(path(name)).expect("a link");
            }
            if before.is_some() {
                fs::remove_file(path(&target)).expect("a file");
            }
        }
    }
    // Snapshots and programs may be links as well, and so may the folder for several files.
    fs::write(path("real/b.shard"), PROGRAM.replace(" = ", "   =   ")).expect("a file");
    symlink("real/b.shard", path("b.shard")).expect("a link");
    symlink("real/kept", path("b.shard.snapshot")).expect("a link");
    fine(&shardc(folder.path(), &["fmt", "b.shard"]));
    fine(&shardc(folder.path(), &["snapshot", "b.shard"]));
    assert_eq!(fs::read_to_string(path("real/b.shard")).expect("a file"), PROGRAM);
    assert!(fs::read_to_string(path("real/kept")).expect("a file").contains("`b.shard`"));
    symlink("real/traces", path("traces")).expect("a link");
    fine(&shardc(folder.path(), &["export", "a.shard", "--to", "chakra", "-o", "traces"]));
    assert_eq!(names(&path("real/traces")).len(), 4);
    assert!(["b.shard", "b.shard.snapshot", "traces"].into_iter().all(|name| path(name).is_symlink()));
    // Links that form a cycle cannot be resolved.
    symlink("y", path("x")).expect("a link");
    symlink("x", path("y")).expect("a link");
    refused(&shardc(folder.path(), &["compile", "a.shard", "-o", "x"]), "too many links");
    assert!(!names(folder.path()).iter().chain(&names(&path("real"))).any(|name| name.starts_with(".shardc")));
}

/// Targets that are not regular files receive the text and are not replaced.
#[test]
fn devices_pipes_and_descriptors_are_written_to() {
    let folder = folder();
    let wanted = fine(&shardc(folder.path(), &["compile", "a.shard"]));
    // The target of `/dev/stdout`, under another name.
    symlink("/proc/self/fd/1", folder.path().join("stdout")).expect("a link");
    symlink("/proc/self/fd/2", folder.path().join("stderr")).expect("a link");
    let piped = shell(folder.path(), "\"$SHARDC\" compile a.shard -o stdout");
    assert_eq!(fine(&piped), wanted);
    assert_eq!(text(&shell(folder.path(), "\"$SHARDC\" compile a.shard -o stderr").stderr), wanted);
    fine(&shell(folder.path(), "{ echo before; \"$SHARDC\" compile a.shard -o stdout; echo after; } > out"));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert_eq!(read("out"), format!("before\n{wanted}after\n"));
    fine(&shell(folder.path(), "echo before > out; \"$SHARDC\" compile a.shard -o stdout >> out"));
    assert_eq!(read("out"), format!("before\n{wanted}"));
    fine(&shell(folder.path(), "\"$SHARDC\" compile a.shard -o /dev/fd/3 3> out"));
    assert_eq!(read("out"), wanted);
    assert_eq!(fine(&shell(folder.path(), "\"$SHARDC\" compile a.shard -o >(cat) | cat")), wanted);
    fifo(&folder.path().join("fifo"));
    assert_eq!(fine(&shell(folder.path(), "cat fifo & \"$SHARDC\" compile a.shard -o fifo; wait")), wanted);
    // A reader that stops reading early.
    fine(&shell(folder.path(), "head -c 1 fifo > first & \"$SHARDC\" report a.shard -o fifo; wait"));
    fine(&shardc(folder.path(), &["compile", "a.shard", "-o", "/dev/null"]));
    assert!(fs::metadata("/dev/null").expect("it is there").file_type().is_char_device());
    for name in ["stdout", "stderr"] {
        assert!(folder.path().join(name).is_symlink());
    }
    assert!(fs::metadata(folder.path().join("fifo")).expect("it is there").file_type().is_fifo());
    refused(&shardc(folder.path(), &["compile", "a.shard", "-o", "."]), "it is a folder");
    // Files that cannot be rewritten are not formatted in place.
    for line in ["\"$SHARDC\" fmt /dev/stdin < a.shard", "\"$SHARDC\" fmt <(cat a.shard)"] {
        fs::write(folder.path().join("a.shard"), PROGRAM.replace(" = ", "=")).expect("a file");
        refused(&shell(folder.path(), line), "not a regular file");
        assert_eq!(read("a.shard"), PROGRAM.replace(" = ", "="));
    }
}

/// A file keeps its permissions, a new file gets the default ones, and a read-only file is not changed.
#[test]
fn permissions_stay_as_they_were() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let mode = |name: &str| fs::metadata(path(name)).expect("it is there").mode() & 0o7777;
    for wanted in [0o600, 0o640, 0o755, 0o666] {
        fs::write(path("out"), "before").expect("a file");
        fs::set_permissions(path("out"), fs::Permissions::from_mode(wanted)).expect("it is ours");
        fine(&shardc(folder.path(), &["compile", "a.shard", "-o", "out"]));
        assert_eq!(mode("out"), wanted);
    }
    for (mask, file, directory) in [("022", 0o644, 0o755), ("077", 0o600, 0o700), ("002", 0o664, 0o775)] {
        let line = format!(
            "umask {mask}; \"$SHARDC\" compile a.shard -o new{mask} && \"$SHARDC\" export a.shard --to chakra -o folder{mask}"
        );
        fine(&shell(folder.path(), &line));
        assert_eq!((mode(&format!("new{mask}")), mode(&format!("folder{mask}"))), (file, directory), "{mask}");
        assert_eq!(mode(&format!("folder{mask}/trace.0.et")), file);
    }
    fs::set_permissions(path("out"), fs::Permissions::from_mode(0o444)).expect("it is ours");
    let before = fs::read(path("out")).expect("a file");
    refused(&shardc(folder.path(), &["export", "a.shard", "--to", "jax", "-o", "out"]), "it is read-only");
    assert_eq!((fs::read(path("out")).expect("a file"), mode("out")), (before, 0o444));
}

/// A full disk, simulated by a limit on file sizes: old files are kept, and no partial files are left.
#[test]
fn what_does_not_fit_is_not_written() {
    let folder = folder();
    let mut calls = writers("out.npy");
    let more: [&[&str]; 5] = [
        &["snapshot", "--accept", "a.shard"],
        &["fmt", "b.shard"],
        &["export", "a.shard", "--to", "chakra", "-o", "traces"],
        &["run", "a.shard", "--save-shards", "Out=shards"],
        &["run", "a.shard", "--save", "Out=out.safetensors"],
    ];
    calls.extend(more.map(|call| call.iter().map(|word| (*word).to_owned()).collect()));
    for before in [false, true] {
        for name in ["out.npy", "out.safetensors", "a.shard.snapshot"].into_iter().filter(|_| before) {
            fs::write(folder.path().join(name), "before").expect("a file");
        }
        fs::write(folder.path().join("b.shard"), PROGRAM.replace(" = ", "=")).expect("a file");
        let there = |path: &Path| -> Vec<(String, Option<String>)> {
            names(path).into_iter().map(|name| (name.clone(), fs::read_to_string(path.join(name)).ok())).collect()
        };
        let wanted = there(folder.path());
        for call in &calls {
            let output = shell(folder.path(), &format!("ulimit -f 0; \"$SHARDC\" {}", call.join(" ")));
            refused(&output, "cannot write");
            assert_eq!(there(folder.path()), wanted, "{call:?}");
        }
    }
    // Standard output is treated like a file.
    for line in ["plan a.shard", "plan a.shard --format json", "check a.shard", "compile a.shard", "explain", "man"] {
        refused(&shell(folder.path(), &format!("\"$SHARDC\" {line} > /dev/full")), "cannot write to standard output");
    }
    refused(&shardc(folder.path(), &["compile", "a.shard", "-o", "/dev/full"]), "cannot write");
}

/// A folder that is read-only or missing.
#[test]
fn where_nothing_can_be_written_nothing_is() {
    let folder = folder();
    for out in ["/proc/out.npy", "missing/out.npy", "a.shard/out.npy"] {
        for call in writers(out) {
            refused(&shardc(folder.path(), &words(&call)), "cannot write");
        }
    }
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::copy(folder.path().join("a.shard"), closed.join("a.shard")).expect("a file");
    fs::write(closed.join("out.npy"), "before").expect("a file");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("it is ours");
    if fs::write(closed.join("try"), "").is_ok() {
        eprintln!("skipped: this user may write to read-only folders");
        return;
    }
    for call in writers("out.npy").into_iter().chain(writers("new.npy")) {
        refused(&shardc(&closed, &words(&call)), "cannot write");
    }
    refused(&shardc(&closed, &["snapshot", "a.shard"]), "cannot write");
    assert_eq!(fs::read_to_string(closed.join("out.npy")).expect("a file"), "before");
    assert_eq!(names(&closed), ["a.shard", "out.npy"]);
}

/// A run that writes 32 MB, which takes a while.
const LARGE: &str = "mesh {X: 2 ring} on tpu_v5e\ndims {N: 8388608}\nA: f32[N_X]\nB = relu(A)\noutput B\n";

/// Waits for a temporary file or folder and returns its name; `None` if the command ends before.
fn begun(folder: &Path, child: &mut Child) -> Option<String> {
    loop {
        let found = names(folder).into_iter().find(|name| name.starts_with(".shardc-"));
        if found.is_some() || child.try_wait().expect("a status").is_some() {
            return found;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Sends a signal as soon as the command has begun to write. Returns whether it had begun.
fn interrupted(folder: &Path, mut child: Child, signal: &str) -> (bool, Output) {
    // The shell waits for the end of its input, so it is running when the time starts.
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("read; kill -s {signal} {}", child.id())]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().expect("a shell");
    let begun = begun(folder, &mut child).is_some();
    drop(shell.stdin.take());
    shell.wait().expect("it ends");
    (begun, ended(child))
}

/// Interrupting a write leaves the old file or the new one, and no other files.
#[test]
fn an_interrupted_command_leaves_nothing_half_written() {
    let folder = folder();
    fs::write(folder.path().join("large.shard"), LARGE).expect("a file");
    let mut caught = 0;
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        for (option, out) in [("--save", "out.npy"), ("--save-shards", "out")] {
            let path = folder.path().join(out);
            if option == "--save" {
                fs::write(&path, "before").expect("a file");
            }
            let mut command = command(folder.path(), &["run", "large.shard", option, &format!("B={out}")]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            let (begun, output) = interrupted(folder.path(), child, signal);
            caught += usize::from(begun && output.status.signal() == Some(number));
            let left: Vec<String> =
                names(folder.path()).into_iter().filter(|name| name.starts_with(".shardc")).collect();
            assert!(left.is_empty(), "{signal} {option}: {left:?}");
            match (option, output.status.code()) {
                ("--save", None) => {
                    let size = fs::metadata(&path).expect("it is there").len();
                    assert!(size == 6 || size == 8_388_608 * 4 + 128, "{signal}: {size}");
                }
                (_, None) => assert!(!path.exists() || names(&path).len() == 2, "{signal}"),
                (_, code) => assert_eq!(code, Some(0), "{}", text(&output.stderr)),
            }
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.ok();
        }
    }
    assert!(caught > 0, "none was caught in the middle");
    // A process started with an ignored signal keeps ignoring it.
    let line = "trap '' INT; exec \"$SHARDC\" run large.shard --save B=out.npy";
    let mut shell = Command::new("bash");
    shell.current_dir(folder.path()).args(["-c", line]).env("SHARDC", env!("CARGO_BIN_EXE_shardc"));
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    fine(&interrupted(folder.path(), child, "INT").1);
    assert_eq!(fs::metadata(folder.path().join("out.npy")).expect("it is there").len(), 8_388_608 * 4 + 128);
}

/// The first interrupt of a command that makes many plans prints what it has found.
#[test]
fn an_interrupted_sweep_prints_what_it_has_found() {
    let folder = folder();
    for command_line in
        [&["sweep", "a.shard", "--set", "B=64..60000+8"][..], &["tune", "t.shard", "--devices", "720", "--every"]]
    {
        fs::write(folder.path().join("t.shard"), MANY_MESHES).expect("a file");
        // On a slow machine, the first plan takes longer.
        let found = (1..25).any(|tenths| {
            // Tests that run in the background of a shell ignore the signal, and their children would.
            let mut command = Command::new("env");
            command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_shardc")]).args(command_line);
            command.current_dir(folder.path()).stdin(Stdio::null());
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            std::thread::sleep(std::time::Duration::from_millis(200 * tenths));
            Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("a signal");
            let output = child.wait_with_output().expect("it ends");
            match output.status.code() {
                Some(130) => {
                    let told = text(&output.stdout);
                    assert!(told.lines().count() > 3, "{told}");
                    true
                }
                // Nothing was found yet, or everything.
                Some(0 | 1) => false,
                code => panic!("{code:?} {}", text(&output.stderr)),
            }
        });
        assert!(found, "{command_line:?} was never interrupted");
    }
}

/// A program with 270 meshes of 720 devices.
const MANY_MESHES: &str =
    "mesh {X: 2, Y: 2, Z: 2} on tpu_v5p\ndims {I: 720, J: 720}\nA: bf16[I_X, J_Y]\nB[I_Y, J_Z] = A\n";

/// Readers that close the pipe before or after the first line.
#[test]
fn closed_pipes_end_commands_quietly() {
    let folder = folder();
    for arguments in [
        &["explain"][..],
        &["explain", "axis-reused", "--format", "json"],
        &["plan", "a.shard", "--methods"],
        &["run", "a.shard", "--timeline"],
        &["check", "a.shard"],
        &["show", "a.shard"],
        &["compile", "a.shard"],
        &["export", "a.shard", "--to", "trace"],
        &["hardware"],
        &["snapshot", "--check", "."],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["frobnicate"],
    ] {
        for which in 0..3 {
            let mut child = command(folder.path(), arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            if which != 1 {
                drop(child.stdout.take());
            }
            if which != 0 {
                drop(child.stderr.take());
            }
            let output = ended(child);
            let code = output.status.code();
            assert!(matches!(code, Some(0..=2)), "{arguments:?}: {:?}", output.status);
            let told = text(&output.stderr);
            assert!(!told.contains("panicked") && !told.contains("pipe"), "{arguments:?}: {told}");
        }
        let line = format!("set -o pipefail; \"$SHARDC\" {} 2>&1 | head -c 1", arguments.join(" "));
        assert!(!text(&shell(folder.path(), &line).stderr).contains("panicked"), "{arguments:?}");
    }
}

/// Concurrent runs write complete files, and no others.
#[test]
fn snapshots_may_be_taken_at_the_same_time() {
    let folder = folder();
    for name in ["b.shard", "c.shard"] {
        fs::write(folder.path().join(name), PROGRAM).expect("a file");
    }
    fine(&shardc(folder.path(), &["snapshot", "."]));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a snapshot");
    let wanted = ["a", "b", "c"].map(|name| read(&format!("{name}.shard.snapshot")));
    for old in [None, Some("old")] {
        for name in ["a", "b", "c"] {
            let path = folder.path().join(format!("{name}.shard.snapshot"));
            match old {
                None => fs::remove_file(path).expect("it is there"),
                Some(old) => fs::write(path, old).expect("a file"),
            }
        }
        let start = |_| {
            let mut command = command(folder.path(), &["snapshot", "--accept", "."]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        };
        let all: Vec<Child> = (0..6).map(start).collect();
        for child in all {
            fine(&ended(child));
        }
        assert_eq!(["a", "b", "c"].map(|name| read(&format!("{name}.shard.snapshot"))), wanted);
        assert_eq!(names(folder.path()).len(), 6);
    }
}

/// Searched folders may contain anything: files that are not regular are neither read nor waited for.
#[test]
fn folders_with_pipes_sockets_and_circles_are_walked() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("sub/empty.shard")).expect("a folder");
    fifo(&path("pipe.shard"));
    let _socket = std::os::unix::net::UnixListener::bind(path("socket.shard")).expect("a socket");
    symlink("pipe.shard", path("link_to_pipe.shard")).expect("a link");
    symlink("/dev/zero", path("link_to_device.shard")).expect("a link");
    symlink("../a.shard", path("sub/link.shard")).expect("a link");
    symlink("..", path("sub/circle")).expect("a link");
    let told = fine(&shardc(folder.path(), &["snapshot", "."]));
    assert_eq!(told, "./a.shard: created\n./sub/link.shard: created\n");
    fine(&shardc(folder.path(), &["snapshot", "--check", "."]));
    // A dangling link counts as a missing program, which is reported.
    symlink("nowhere", path("sub/lost.shard")).expect("a link");
    refused(&shardc(folder.path(), &["snapshot", "."]), "cannot read `./sub/lost.shard`");
    fs::remove_file(path("sub/lost.shard")).expect("a link");
    // Snapshots that are pipes or devices.
    fs::remove_file(path("a.shard.snapshot")).expect("it is there");
    fifo(&path("a.shard.snapshot"));
    refused(&shardc(folder.path(), &["snapshot", "a.shard"]), "not a regular file");
    refused(&shardc(folder.path(), &["snapshot", "--check", "."]), "not a regular file");
    // Traces.
    fine(&shardc(folder.path(), &["export", "a.shard", "--to", "chakra", "-o", "traces"]));
    fine(&shardc(folder.path(), &["prove", "traces"]));
    fs::remove_file(path("traces/trace.2.et")).expect("it is there");
    fifo(&path("traces/trace.2.et"));
    refused(&shardc(folder.path(), &["prove", "traces"]), "not a regular file");
    fs::remove_file(path("traces/trace.2.et")).expect("it is there");
    symlink("/dev/zero", path("traces/trace.2.et")).expect("a link");
    refused(&shardc(folder.path(), &["prove", "traces"]), "not a regular file");
}

/// Programs are found at any depth.
#[test]
fn deep_folders_are_walked_to_their_end() {
    let folder = folder();
    for depth in [63, 64, 65, 66, 300] {
        let mut path = folder.path().join(format!("{depth}"));
        path.extend(std::iter::repeat_n("d", depth));
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("deep.shard"), PROGRAM).expect("a file");
    }
    let output = shardc(folder.path(), &["snapshot", "--check", "."]);
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 6));
    fine(&shardc(folder.path(), &["snapshot", "."]));
    fine(&shardc(folder.path(), &["snapshot", "--check", "."]));
}

/// Pipes and devices that are named are read as by `cat`.
#[test]
fn what_is_named_is_read_whatever_it_is() {
    let folder = folder();
    let wanted = fine(&shardc(folder.path(), &["plan", "a.shard"]));
    fine(&shell(folder.path(), "\"$SHARDC\" hardware tpu_v5e > p.toml"));
    fifo(&folder.path().join("fifo"));
    fifo(&folder.path().join("f.toml"));
    for line in [
        "\"$SHARDC\" plan - < a.shard",
        "cat a.shard | \"$SHARDC\" plan -",
        "\"$SHARDC\" plan /dev/stdin < a.shard",
        "cat a.shard | \"$SHARDC\" plan /dev/stdin",
        "\"$SHARDC\" plan <(cat a.shard)",
        "cat a.shard > fifo & \"$SHARDC\" plan fifo",
        "cat p.toml > f.toml & \"$SHARDC\" plan a.shard --hardware f.toml",
    ] {
        assert_eq!(fine(&shell(folder.path(), line)), wanted, "{line}");
    }
    let proven = "\"$SHARDC\" compile a.shard > s; \"$SHARDC\" prove";
    assert_eq!(
        fine(&shell(folder.path(), &format!("{proven} <(cat s)"))),
        fine(&shell(folder.path(), &format!("{proven} s")))
    );
    assert!(fine(&shell(folder.path(), "\"$SHARDC\" snapshot <(cat a.shard) --check || true")).contains("missing"));
    // Endless input is not read to its end.
    refused(&shardc(folder.path(), &["check", "/dev/zero"]), "larger than");
    refused(&shardc(folder.path(), &["plan", "a.shard", "--hardware", "missing.toml"]), "cannot read `missing.toml`");
    for command in ["check", "plan", "run", "fmt", "prove", "snapshot", "show"] {
        refused(&shardc(folder.path(), &[command, "missing"]), "cannot read `missing`");
    }
    for command in ["plan", "run", "show"] {
        refused(&shardc(folder.path(), &[command, "."]), "cannot read `.`");
    }
    for command in ["check", "fmt"] {
        fine(&shardc(folder.path(), &[command, "."]));
    }
    let closed = folder.path().join("closed.shard");
    fs::write(&closed, PROGRAM).expect("a file");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("it is ours");
    match File::open(&closed) {
        Ok(_) => eprintln!("skipped: this user may read all files"),
        Err(_) => refused(&shardc(folder.path(), &["check", "closed.shard"]), "cannot read `closed.shard`"),
    }
}

/// Line ends and byte order marks are irrelevant; input that is not text is refused.
#[test]
fn texts_of_other_editors_are_read() {
    let folder = folder();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("a file");
    let wanted = fine(&shardc(folder.path(), &["plan", "a.shard"]));
    put("crlf.shard", PROGRAM.replace('\n', "\r\n").as_bytes());
    put("bom.shard", format!("\u{FEFF}{PROGRAM}").as_bytes());
    put("both.shard", format!("\u{FEFF}{}", PROGRAM.replace('\n', "\r\n")).as_bytes());
    for name in ["crlf.shard", "bom.shard", "both.shard"] {
        assert_eq!(fine(&shardc(folder.path(), &["plan", name])), wanted);
        fine(&shardc(folder.path(), &["fmt", name]));
        assert_eq!(fine(&shardc(folder.path(), &["plan", name])), wanted);
        fine(&shardc(folder.path(), &["fmt", "--check", name]));
    }
    // A snapshot with other line ends counts as equal.
    fine(&shardc(folder.path(), &["snapshot", "a.shard"]));
    let kept = fs::read_to_string(folder.path().join("a.shard.snapshot")).expect("a snapshot");
    put("a.shard.snapshot", kept.replace('\n', "\r\n").as_bytes());
    fine(&shardc(folder.path(), &["snapshot", "--check", "a.shard"]));
    put("nul.shard", format!("{PROGRAM}\0").as_bytes());
    put("utf16.shard", &PROGRAM.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    put("latin.shard", b"# caf\xe9\n");
    for (name, code) in [("nul.shard", 1), ("utf16.shard", 1), ("latin.shard", 2)] {
        for command in ["check", "fmt", "run"] {
            let output = shardc(folder.path(), &[command, name]);
            assert_eq!(output.status.code(), Some(code), "{command} {name}");
            assert!(!text(&output.stderr).contains('\0'), "{command} {name}");
        }
    }
}

/// File names are bytes, not necessarily text.
#[test]
fn names_that_are_no_text_are_found() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(b"caf\xe9.shard"));
    if fs::write(folder.path().join(&name), PROGRAM).is_err() {
        eprintln!("skipped: file names are text here");
        return;
    }
    fine(&shardc(folder.path(), &["snapshot", "."]));
    assert_eq!(names(folder.path()).len(), 4);
    fine(&shardc(folder.path(), &["snapshot", "--check", "."]));
    let mut command = command(folder.path(), &["compile", "a.shard", "-o"]);
    let out = command.arg(name.with_extension("out")).stdout(Stdio::piped()).stderr(Stdio::piped());
    fine(&ended(out.spawn().expect("it starts")));
    assert!(folder.path().join(name.with_extension("out")).is_file());
    // Arguments that must be text are refused with a message.
    let mut command = self::command(folder.path(), &["check"]);
    let output = ended(command.arg(&name).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
    assert_eq!(output.status.code(), Some(2));
}

/// Output paths that cannot be files are refused before anything is computed or written.
#[test]
fn places_that_cannot_be_are_refused() {
    let folder = folder();
    for (save, told) in [
        (&["Out=x.safetensors:__metadata__"][..], "`__metadata__`"),
        (&["Out=x.npy", "Out=x.npy"], "`--save` writes two arrays to"),
        (&["Out=x.safetensors", "Out=x.safetensors:Out"], "`--save` writes two arrays to"),
        (&["Out=x.txt"], "neither the extension `.npy`"),
    ] {
        let mut arguments = vec!["run", "a.shard"];
        arguments.extend(save.iter().flat_map(|save| ["--save", *save]));
        refused(&shardc(folder.path(), &arguments), told);
        assert_eq!(names(folder.path()), ["a.shard"]);
    }
}

/// Numbers of devices that no mesh has are refused at once, not after a walk over their divisors.
#[test]
fn tune_refuses_numbers_of_devices_that_no_mesh_has() {
    let folder = folder();
    for devices in ["0", "1048577", "8,1000000000000"] {
        let done = shardc(folder.path(), &["tune", "a.shard", "--devices", devices]);
        refused(&done, "a mesh has 1 to 1048576 devices");
    }
}

/// Invalid buffer sizes are refused where they are given.
#[test]
fn buffers_of_no_bytes_and_of_too_many_are_refused() {
    let folder = folder();
    fine(&shardc(folder.path(), &["export", "a.shard", "--to", "msccl", "-o", "a.xml"]));
    let most = (1u64 << 60).to_string();
    for (bytes, told) in [
        ("0", "0 is not in 1..=1152921504606846976"),
        ("1", "one f32 per chunk"),
        ("1152921504606846977", "is not in 1..="),
        ("18446744073709551615", "is not in 1..="),
        ("18446744073709551616", "too large"),
        ("-1", "--bytes"),
    ] {
        for command in ["time", "run"] {
            refused(&shardc(folder.path(), &[command, "a.xml", &format!("--bytes={bytes}")]), told);
        }
    }
    fine(&shardc(folder.path(), &["time", "a.xml", "--bytes", &most]));
    refused(&shardc(folder.path(), &["run", "a.xml", "--bytes", &most]), "the limit is 8.0 GiB");
    fine(&shardc(folder.path(), &["run", "a.xml", "--bytes", "4096"]));
}

/// The temporary file has an unpredictable name, and is in the folder of the file.
#[test]
fn temporaries_have_random_names() {
    let folder = folder();
    fs::write(folder.path().join("large.shard"), LARGE).expect("a file");
    let mut seen = Vec::new();
    for _ in 0..10 {
        let mut command = command(folder.path(), &["run", "large.shard", "--save", "B=out.npy"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let found = begun(folder.path(), &mut child);
        fine(&ended(child));
        // The file may be gone before it is observed.
        seen.extend(found);
        if seen.len() == 2 {
            break;
        }
    }
    assert!(seen.len() == 2 && seen[0] != seen[1], "{seen:?}");
}
