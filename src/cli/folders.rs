//! Programs in folders: `check`, `fmt` and `snapshot` take folders too.

use super::{Failure, input};
use std::path::{Path, PathBuf};

/// File extension of programs.
const PROGRAM: &str = "shard";

/// Whether a file is a program by its name.
pub(super) fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == PROGRAM)
}

/// The files of a command line in their order; a folder stands for the programs below it.
///
/// # Errors
/// If a folder cannot be read, or has no programs.
pub(super) fn programs(paths: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if path == "-" || !Path::new(path).is_dir() {
            all.push(path.clone());
            continue;
        }
        let mut found: Vec<PathBuf> = files(Path::new(path))?.into_iter().filter(|file| is_program(file)).collect();
        if found.is_empty() {
            return Err(Failure::Call(format!("`{}` has no `.shard` files", input::shown(Path::new(path)))));
        }
        found.sort();
        all.extend(found.into_iter().map(|file| file.to_string_lossy().into_owned()));
    }
    Ok(all)
}

/// The files below a folder. Only regular files and links to them count; hidden folders and links to folders are
/// skipped, so there are no loops.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let call = |error: std::io::Error| input::unread(&folder, &error);
        for entry in std::fs::read_dir(&folder).map_err(call)? {
            let entry = entry.map_err(call)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(call)?);
            if kind.is_dir() {
                if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                    folders.push(path);
                }
            } else if std::fs::metadata(&path).map_or(true, |file| file.is_file()) {
                // A dangling link is reported when it is read.
                files.push(path);
            }
        }
    }
    Ok(files)
}
