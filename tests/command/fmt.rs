//! `shardc fmt` on files: changed files, unchanged files, and exit codes.

use crate::common::process::{fed, shardc, text};
use std::path::{Path, PathBuf};
use std::process::Output;

const UGLY: &str = "mesh{X:4}\ndims {I:8}\nA:bf16[I_{X}] # in\nA→B[I]\n";
const CLEAN: &str = "mesh {X: 4}\ndims {I: 8}\nA: bf16[I_X]  # in\nA -> B[I]\n";

fn fmt(folder: &Path, arguments: &[&str], input: &str) -> Output {
    fed(shardc(folder, &["fmt"]).args(arguments), input)
}

/// An empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn examples_are_formatted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("examples")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "shard") {
                let source = std::fs::read_to_string(&path).expect("text");
                assert_eq!(shardc::syntax::format(&source), Ok(source), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn files_are_rewritten_and_standard_input_is_passed_on() {
    let folder = folder("fmt_writes");
    std::fs::write(folder.join("a.shard"), UGLY).expect("a file");
    std::fs::write(folder.join("b.shard"), CLEAN).expect("a file");
    let output = fmt(&folder, &["a.shard", "b.shard"], "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(folder.join("a.shard")).expect("a file"), CLEAN);
    assert_eq!(names(&folder), ["a.shard", "b.shard"]);
    let output = fmt(&folder, &["-"], UGLY);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), CLEAN.to_owned()));
}

#[test]
fn check_names_what_would_change_and_writes_nothing() {
    let folder = folder("fmt_check");
    std::fs::write(folder.join("a.shard"), UGLY).expect("a file");
    std::fs::write(folder.join("b.shard"), CLEAN).expect("a file");
    let output = fmt(&folder, &["--check", "b.shard", "a.shard"], "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "a.shard\n".to_owned()));
    assert_eq!(std::fs::read_to_string(folder.join("a.shard")).expect("a file"), UGLY);
    assert_eq!(fmt(&folder, &["--check", "b.shard"], "").status.code(), Some(0));
    let output = fmt(&folder, &["--check", "-"], UGLY);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "<stdin>\n".to_owned()));
    let output = fmt(&folder, &["--check", "--format", "json", "a.shard"], "");
    let document: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(document, serde_json::json!({"schema": "shardc.fmt/1", "file": "a.shard", "changed": true}));
}

#[test]
fn a_file_with_syntax_errors_is_told_and_left_alone() {
    let folder = folder("fmt_wrong");
    let wrong = "A:bf16[I\nB  =  A\n";
    std::fs::write(folder.join("wrong.shard"), wrong).expect("a file");
    std::fs::write(folder.join("ugly.shard"), UGLY).expect("a file");
    let output = fmt(&folder, &["wrong.shard", "ugly.shard"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unclosed-bracket"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(folder.join("wrong.shard")).expect("a file"), wrong);
    assert_eq!(std::fs::read_to_string(folder.join("ugly.shard")).expect("a file"), CLEAN);
    let output = fmt(&folder, &["-"], wrong);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert_eq!(fmt(&folder, &["no.shard"], "").status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder("fmt_links");
    let file = folder.join("a.shard");
    std::fs::write(&file, UGLY).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("permissions");
    symlink("a.shard", folder.join("link.shard")).expect("a link");
    assert_eq!(fmt(&folder, &["link.shard"], "").status.code(), Some(0));
    assert!(std::fs::symlink_metadata(folder.join("link.shard")).expect("a link").is_symlink());
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), CLEAN);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    std::fs::write(folder.join("b.shard"), UGLY).expect("a file");
    std::fs::set_permissions(folder.join("b.shard"), std::fs::Permissions::from_mode(0o440)).expect("permissions");
    assert_eq!(fmt(&folder, &["b.shard"], "").status.code(), Some(2));
}
