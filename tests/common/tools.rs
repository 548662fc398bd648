//! Tools that tests use where they are there, and that have to be there with `SHARDC_TOOLS=required`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that a test is skipped for want of a tool.
///
/// # Panics
/// With `SHARDC_TOOLS=required`.
pub fn skipped(tool: &str) {
    assert!(std::env::var_os("SHARDC_TOOLS").is_none_or(|wish| wish != "required"), "{tool} is required");
    println!("skipped: there is no {tool}; `.ci/install` brings it");
}

/// Whether a tool is there, and prints its version when it is asked so.
///
/// # Panics
/// If it is not, with `SHARDC_TOOLS=required`.
pub fn there(tool: &str, version: &str) -> bool {
    let is_there = Command::new(tool).arg(version).output().is_ok_and(|output| output.status.success());
    if !is_there {
        skipped(tool);
    }
    is_there
}

/// Python that has JAX: the one that `.ci/install` makes, or `SHARDC_PYTHON`.
///
/// # Panics
/// If there is none and `SHARDC_TOOLS=required`.
pub fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let named = std::env::var_os("SHARDC_PYTHON").map(PathBuf::from);
    let has_jax = |python: &PathBuf| {
        Command::new(python).args(["-c", "import jax"]).output().is_ok_and(|output| output.status.success())
    };
    let found = named.into_iter().chain([own, PathBuf::from("python3")]).find(has_jax);
    if found.is_none() {
        skipped("Python with JAX");
    }
    found
}
