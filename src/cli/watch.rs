//! `--watch`: runs a command again whenever one of the files that it reads changes.
//!
//! Each run is a process of its own, so limits on time and memory hold for each, and an edit never meets what an earlier
//! run left behind.

use super::defaults::Words;
use super::{Cli, Failure, folders, input};
use clap::CommandFactory;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Interval between looks at the files.
const TICK: Duration = Duration::from_millis(200);
/// The flag itself.
const FLAG: &str = "--watch";
/// Arguments that name files which a command writes.
const WRITTEN: [&str; 3] = ["output", "save", "save_shards"];
/// Commands that change the files that they read, or read none.
const EXCLUDED: [&str; 8] = ["fmt", "snapshot", "calibrate", "hardware", "explain", "completions", "man", "init"];

/// Modification times and sizes of the files; `None` for a missing one.
type State = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// Runs the command until the process is interrupted.
///
/// # Errors
/// If the command cannot be watched or started.
pub(super) fn forever(words: &Words) -> Result<(), Failure> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(&words.all).ok();
    let (name, matches) =
        matches.as_ref().and_then(|matches| matches.subcommand()).ok_or_else(|| no_files("shardc"))?;
    if EXCLUDED.contains(&name) {
        return Err(no_files(name));
    }
    let ids = matches.ids().filter(|id| !WRITTEN.contains(&id.as_str()));
    let values = ids.filter_map(|id| matches.try_get_raw(id.as_str()).ok().flatten()).flatten();
    // A value may have a name before it: `A=a.npy`.
    let paths = values.flat_map(|value| {
        let text = value.to_string_lossy().into_owned();
        let behind = text.split_once('=').map(|(_, path)| PathBuf::from(path));
        [Some(PathBuf::from(value)), behind]
    });
    let paths: Vec<PathBuf> = paths.flatten().chain(words.file.clone()).filter(|path| path.exists()).collect();
    if paths.is_empty() {
        return Err(no_files(name));
    }
    let again: Vec<OsString> = words.given().iter().skip(1).filter(|word| *word != FLAG).cloned().collect();
    let this = std::env::current_exe()?;
    loop {
        let before = state(&paths);
        if std::io::stdout().is_terminal() {
            // Clears the screen, and what was scrolled out of it.
            std::io::stdout().write_all(b"\x1b[2J\x1b[3J\x1b[H").ok();
        }
        std::io::stdout().flush().ok();
        Command::new(&this).args(&again).status()?;
        let count = before.len();
        input::say(&format!("watching {count} file{}\n", if count == 1 { "" } else { "s" }));
        while state(&paths) == before {
            std::thread::sleep(TICK);
        }
    }
}

fn no_files(name: &str) -> Failure {
    Failure::Call(format!("`{name}` reads no files that could be watched; `{FLAG}` is for commands that read programs"))
}

/// The files, and the programs of folders, as they are now.
fn state(paths: &[PathBuf]) -> State {
    let below = |path: &PathBuf| match path.is_dir() {
        true => folders::files(path).unwrap_or_default().into_iter().filter(|file| folders::is_program(file)).collect(),
        false => vec![path.clone()],
    };
    let stamp = |path: &Path| {
        let entry = std::fs::metadata(path).ok()?;
        Some((entry.modified().ok()?, entry.len()))
    };
    paths.iter().flat_map(below).map(|path| (path.clone(), stamp(&path))).collect()
}
