//! Programs of `tests/cases/found` through every stage, and compared with equivalent ones: the smallest programs of defects
//! that were found.
//!
//! A line `# shardc run --bitwise --overlap none` gives the options.

use super::equivalents::compared;
use super::machine::Size;
use super::modes::Modes;
use super::program::Case;
use super::properties::Outcome;
use super::watch::{EVERY_STAGE, watched};
use std::process::Command;
use std::time::Instant;

/// The program of a file, with its options, without its comment.
fn case(source: String) -> Case {
    let words = source.lines().find_map(|line| line.strip_prefix("# shardc run")).unwrap_or_default();
    let modes = Modes::of_words(words);
    let degraded = source.lines().any(|line| line.starts_with("link "));
    // Equivalent programs are made of the line of the mesh, which is the first one.
    let lines = source.lines().skip_while(|line| line.starts_with('#'));
    let source = lines.map(|line| format!("{line}\n")).collect();
    Case { source, modes, degraded, thorough: true, statements: 0, devices: 0 }
}

#[test]
fn programs_of_former_defects_go_through_every_stage() {
    let mut count = 0;
    for entry in std::fs::read_dir("tests/cases/found").expect("the folder exists") {
        let path = entry.expect("it can be listed").path();
        let case = case(std::fs::read_to_string(&path).expect("a program"));
        let result = watched(EVERY_STAGE, &case, &[], Size::SMALL);
        assert!(matches!(result, Ok(Outcome::Complete)), "{}: {result:?}", path.display());
        let result = watched(compared, &case, &[], Size::SMALL);
        assert!(result.is_ok(), "{}: {result:?}", path.display());
        count += 1;
    }
    assert!(count > 0, "there are some");
}

#[test]
fn the_largest_mesh_is_planned_or_refused_at_once() {
    for wiring in ["line", "ring", "switch"] {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("largest_{wiring}.shard"));
        let program = format!(
            "mesh {{X: 1048576 {wiring}}} on tpu_v5e\ndims {{I: 1M, J: 1M, K: 128}}\nA: bf16[I, J_X]\nB: bf16[J_X, K]\n\
             C[I_X, K] = A * B\n"
        );
        std::fs::write(&path, program).expect("a file");
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_shardc"))
            .args(["plan", path.to_str().expect("a path in UTF-8"), "--max-memory", "1GB"])
            .output()
            .expect("the command starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let planned = output.status.success() || said.contains("proof-too-large");
        assert!(planned && !said.contains("memory-limit"), "{wiring}: {said}");
        // A second; tests run beside each other on busy machines, and without optimisation.
        assert!(start.elapsed().as_secs() < 30, "{wiring}: {:?}", start.elapsed());
    }
}
