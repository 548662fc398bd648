//! The files that a command has read, so that no result is written over them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Remembers a file that is read.
pub(super) fn remember(path: &Path) {
    if let Ok(path) = std::fs::canonicalize(path) {
        READ.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }
}

/// Whether a path is a regular file that was read.
pub(super) fn has(path: &Path) -> bool {
    let read = |path: PathBuf| path.is_file() && READ.lock().unwrap_or_else(PoisonError::into_inner).contains(&path);
    std::fs::canonicalize(path).is_ok_and(read)
}
