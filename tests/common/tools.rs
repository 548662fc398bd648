//! External tools: tests that need them are skipped without them, but fail with `SHARDC_TOOLS=required`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Reports that a test is skipped because a tool is missing.
///
/// # Panics
/// With `SHARDC_TOOLS=required`.
pub fn skipped(tool: &str) {
    assert!(std::env::var_os("SHARDC_TOOLS").is_none_or(|wish| wish != "required"), "{tool} is required");
    println!("skipped: there is no {tool}; `.ci/install` brings it");
}

/// Whether a tool is installed and prints its version on request.
///
/// # Panics
/// If it is missing, with `SHARDC_TOOLS=required`.
pub fn there(tool: &str, version: &str) -> bool {
    let is_there = Command::new(tool).arg(version).output().is_ok_and(|output| output.status.success());
    if !is_there {
        skipped(tool);
    }
    is_there
}

/// Python interpreters with JAX: `SHARDC_PYTHON` or the one installed by `.ci/install`, then one with a newer JAX if
/// `.ci/install` found a Python version for it.
///
/// # Panics
/// If there is none, with `SHARDC_TOOLS=required`.
pub fn pythons() -> Vec<PathBuf> {
    let own = |folder: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(folder).join("bin/python");
    let has_jax = |python: &PathBuf| {
        Command::new(python).args(["-c", "import jax"]).output().is_ok_and(|output| output.status.success())
    };
    let named = std::env::var_os("SHARDC_PYTHON").map(PathBuf::from);
    let Some(first) = named.into_iter().chain([own("python"), PathBuf::from("python3")]).find(has_jax) else {
        skipped("Python with JAX");
        return Vec::new();
    };
    let newer = Some(own("python-3.12")).filter(|newer| *newer != first && has_jax(newer));
    if newer.is_none() {
        println!("skipped for JAX 0.12: `.ci/install` found no Python 3.12, or no package for it");
    }
    [first].into_iter().chain(newer).collect()
}
