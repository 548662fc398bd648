//! `shardc snapshot` stores the lowered form of programs beside them, and reports changes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program whose single collective depends on the sharding of its weight.
const PROGRAM: &str = "\
mesh {X: 4 ring} on tpu_v5e
dims {B: 64, D: 256, F: 1024}
In: bf16[B, D_X]
W: bf16[D_X, F]
Out[B, F] = In * W
";

/// A separate folder for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("shardc-snapshot-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("deep/er")).expect("a folder");
        Folder(path)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("a file");
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(name)).ok()
    }

    /// All files, sorted.
    fn files(&self) -> Vec<String> {
        fn below(folder: &Path, files: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { below(&path, files) } else { files.push(path) }
            }
        }
        let mut files = Vec::new();
        below(&self.0, &mut files);
        let name = |path: &PathBuf| path.strip_prefix(&self.0).expect("below").to_string_lossy().into_owned();
        let mut names: Vec<String> = files.iter().map(name).collect();
        names.sort();
        names
    }

    /// Runs `shardc snapshot`. Returns exit code, standard output and standard error.
    fn snapshot(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
        let output: Output = command.current_dir(&self.0).arg("snapshot").args(arguments).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn new_ones_are_kept_and_then_as_kept() {
    let folder = Folder::new("new");
    folder.put("a.shard", PROGRAM);
    folder.put("deep/er/b.shard", PROGRAM);
    folder.put("deep/notes.txt", "not a program");
    let (code, text, _) = folder.snapshot(&["--check", "."]);
    assert_eq!((code, text.as_str()), (1, "./a.shard: missing\n./deep/er/b.shard: missing\n"));
    assert_eq!(folder.files(), ["a.shard", "deep/er/b.shard", "deep/notes.txt"], "a check writes nothing");
    let (code, text, _) = folder.snapshot(&["."]);
    assert_eq!((code, text.as_str()), (0, "./a.shard: created\n./deep/er/b.shard: created\n"));
    let kept = folder.read("a.shard.snapshot").expect("a snapshot");
    insta::with_settings!({snapshot_path => "../../snapshots/show", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("snapshot", kept);
    });
    for arguments in [&["--check", "."][..], &["."], &["--accept", "."], &["a.shard", "deep", "./a.shard"]] {
        let (code, text, _) = folder.snapshot(arguments);
        assert!(code == 0 && text.lines().all(|line| line.ends_with(": unchanged")), "{text}");
    }
    // Line ends depend on version control settings, so they are ignored.
    folder.put("a.shard.snapshot", &kept.replace('\n', "\r\n"));
    assert_eq!(folder.snapshot(&["--check", "a.shard"]).0, 0);
    // The schedule below the header can be proven.
    folder.put("a.schedule", kept.split_once("\n\n").expect("a head").1);
    let mut prove = Command::new(env!("CARGO_BIN_EXE_shardc"));
    let proven = prove.current_dir(&folder.0).args(["prove", "a.schedule"]).output().expect("it runs");
    assert!(proven.status.success(), "{}", String::from_utf8_lossy(&proven.stderr));
}

/// A changed layout: the report lists removed and added collectives and the change in time.
#[test]
fn a_change_is_told_and_taken() {
    let folder = Folder::new("change");
    folder.put("a.shard", PROGRAM);
    assert_eq!(folder.snapshot(&["a.shard"]).0, 0);
    let kept = folder.read("a.shard.snapshot");
    folder.put("a.shard", &PROGRAM.replace("Out[B, F]", "Out[B, F_X]"));
    for arguments in [&["--check", "a.shard"][..], &["a.shard"]] {
        let (code, text, error) = folder.snapshot(arguments);
        assert_eq!(code, 1, "{text}");
        insta::with_settings!({snapshot_path => "../../snapshots/show", prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!("snapshot_change", text);
        });
        assert!(error.contains("--accept"), "{error}");
        assert_eq!(folder.read("a.shard.snapshot"), kept);
    }
    let (code, text, _) = folder.snapshot(&["--check", "--format", "json", "a.shard"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &document["schema"], &document["state"]), (1, &"shardc.snapshot/1".into(), &"changed".into()));
    assert!(document["went"][0].as_str().is_some_and(|line| line.contains("AllReduce_X")), "{document}");
    assert!(document["came"][0].as_str().is_some_and(|line| line.contains("ReduceScatter_{X,F}")), "{document}");
    assert!(document["time_before_ps"].as_u64() > document["time_after_ps"].as_u64(), "{document}");
    assert_eq!(folder.snapshot(&["--accept", "a.shard"]).0, 0);
    assert_eq!(folder.snapshot(&["--check", "a.shard"]).0, 0);
    assert_ne!(folder.read("a.shard.snapshot"), kept);
}

/// A snapshot names the options that it was made with.
#[test]
fn other_options_are_other_snapshots() {
    let folder = Folder::new("options");
    folder.put("a.shard", PROGRAM);
    assert_eq!(folder.snapshot(&["a.shard", "--set", "B=128", "--costs", "book"]).0, 0);
    let (code, text, _) = folder.snapshot(&["--check", "a.shard"]);
    assert!(code == 1 && text.contains("- options     --costs book --set B=128"), "{text}");
    assert_eq!(folder.snapshot(&["--check", "a.shard", "--set", "B=128", "--costs", "book"]).0, 0);
}

#[test]
fn one_that_has_lost_its_program_is_found() {
    let folder = Folder::new("stale");
    folder.put("a.shard", PROGRAM);
    folder.put("b.shard", PROGRAM);
    assert_eq!(folder.snapshot(&["."]).0, 0);
    std::fs::remove_file(folder.0.join("b.shard")).expect("the file");
    for arguments in [&["--check", "."][..], &["."], &["--check", "b.shard"]] {
        let (code, text, _) = folder.snapshot(arguments);
        assert!(code == 1 && text.contains("b.shard: snapshot without a program"), "{text}");
    }
    assert_eq!(folder.snapshot(&["--accept", "."]).0, 0);
    assert_eq!(folder.files(), ["a.shard", "a.shard.snapshot"]);
    assert_eq!(folder.snapshot(&["no/such.shard"]).0, 2);
    assert_eq!(folder.snapshot(&["--check", "--accept", "."]).0, 2);
}

/// If any program is wrong or breaks an expectation, no snapshot is changed.
#[test]
fn a_wrong_program_leaves_everything_as_it_is() {
    let folder = Folder::new("wrong");
    folder.put("a.shard", PROGRAM);
    for (wrong, says) in [
        (PROGRAM.replace("W: bf16[D_X, F]", "W: bf16[D_X, F_X]"), "axis-reused"),
        (format!("{PROGRAM}expect no communication\n"), "expect"),
    ] {
        folder.put("b.shard", &wrong);
        for arguments in [&["."][..], &["--accept", "."], &["--check", "."]] {
            let (code, _, error) = folder.snapshot(arguments);
            assert!(code == 1 && error.contains(says), "{error}");
            assert_eq!(folder.files(), ["a.shard", "b.shard"]);
        }
    }
    // A file that is not a snapshot counts as different.
    std::fs::remove_file(folder.0.join("b.shard")).expect("the file");
    std::fs::write(folder.0.join("a.shard.snapshot"), [0, 159, 146, 150]).expect("a file");
    let (code, text, _) = folder.snapshot(&["--check", "."]);
    assert!(code == 1 && text.contains("a.shard: changed"), "{text}");
}
