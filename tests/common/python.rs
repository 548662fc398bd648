//! Python with JAX, where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

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
        assert!(std::env::var_os("SHARDC_TOOLS").is_none_or(|wish| wish != "required"), "the tools are required");
        println!("skipped: there is no Python with JAX");
    }
    found
}
