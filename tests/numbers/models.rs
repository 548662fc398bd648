//! Model programs in `tests/models`: checked, planned, proven, run, and compared with `tests/models/reference.py`,
//! which implements each of them in NumPy.

use crate::common::{sets, tools};
use std::path::Path;
use std::process::Command;

/// Every fourth program is run, unless whole sets are tested.
const EVERY: usize = 4;

#[test]
fn every_model_computes_what_its_reference_does() {
    let Some(python) = tools::pythons().into_iter().next() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the models")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "shard"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 60, "{}", names.len());
    let every = if sets::are_full() { 1 } else { EVERY };
    let some: Vec<&String> = names.iter().step_by(every).collect();
    let mut check = Command::new(python);
    check.arg("-B").arg(folder.join("check.py")).arg(env!("CARGO_BIN_EXE_shardc")).args(&some);
    let output = check.output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains(&format!("{0} of {0} programs agree", some.len())), "{told}");
}
