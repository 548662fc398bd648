//! Temporary files and folders that are gone when the command is, whether it ends, fails, is interrupted or terminated.
//!
//! A list has all temporaries that there are. A thread waits for signals; when one comes it takes the list, removes what
//! is on it and lets the signal end the process. It keeps the list, so that meanwhile no other temporary is made and
//! none is renamed: what was asked for is there whole, or is not there. Only a `SIGKILL` leaves a temporary behind.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{Builder, NamedTempFile, TempDir};

static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder with a random name, removed unless [committed](Temporary::commit).
pub(super) struct Temporary {
    path: PathBuf,
    /// `None` once committed.
    made: Option<Entry>,
}

enum Entry {
    File(NamedTempFile),
    Folder(TempDir),
}

impl Temporary {
    /// Creates a file in this folder, with default permissions.
    pub(super) fn file(folder: &Path) -> io::Result<Temporary> {
        Temporary::made(0o666, |builder| Ok(Entry::File(builder.tempfile_in(folder)?)))
    }

    /// Creates a folder in this folder.
    pub(super) fn folder(folder: &Path) -> io::Result<Temporary> {
        Temporary::made(0o777, |builder| Ok(Entry::Folder(builder.tempdir_in(folder)?)))
    }

    fn made(mode: u32, make: impl FnOnce(&Builder<'_, '_>) -> io::Result<Entry>) -> io::Result<Temporary> {
        signals::watch()?;
        let mut builder = Builder::new();
        builder.prefix(".shardc-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(mode));
        }
        #[cfg(not(unix))]
        let _ = mode;
        let mut temporaries = temporaries();
        let made = make(&builder)?;
        let path = match &made {
            Entry::File(file) => file.path().to_owned(),
            Entry::Folder(folder) => folder.path().to_owned(),
        };
        temporaries.push(path.clone());
        Ok(Temporary { path, made: Some(made) })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its open file.
    pub(super) fn as_file_mut(&mut self) -> io::Result<&mut File> {
        match &mut self.made {
            Some(Entry::File(file)) => Ok(file.as_file_mut()),
            Some(Entry::Folder(_)) | None => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        }
    }

    /// Renames it. A file replaces a file, a folder replaces an empty folder.
    pub(super) fn commit(mut self, path: &Path) -> io::Result<()> {
        let mut temporaries = temporaries();
        match self.made.take() {
            Some(Entry::File(file)) => {
                if let Err(error) = file.persist(path) {
                    self.made = Some(Entry::File(error.file));
                    return Err(error.error);
                }
            }
            Some(Entry::Folder(folder)) => match std::fs::rename(&self.path, path) {
                Ok(()) => drop(folder.keep()),
                Err(error) => {
                    self.made = Some(Entry::Folder(folder));
                    return Err(error);
                }
            },
            None => {}
        }
        temporaries.retain(|own| *own != self.path);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(made) = self.made.take() {
            let mut temporaries = temporaries();
            drop(made);
            temporaries.retain(|own| *own != self.path);
        }
    }
}

/// From now on, the first interrupt (Ctrl-C) sets this flag, so that the command prints what it has found; the second one
/// ends the command.
pub(super) fn flag() -> io::Result<&'static AtomicBool> {
    signals::watch()?;
    IS_GENTLE.store(true, Ordering::Relaxed);
    Ok(&IS_INTERRUPTED)
}

/// Whether the command was interrupted and prints what it has found.
pub(super) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

static IS_GENTLE: AtomicBool = AtomicBool::new(false);
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the process from any thread, after removing temporary files.
pub(super) fn exit(code: i32) -> ! {
    let temporaries = temporaries();
    temporaries.iter().for_each(|path| remove(path));
    std::process::exit(code)
}

fn remove(path: &Path) {
    if path.is_dir() {
        // Under another name, nothing is written into it any more.
        let aside = path.with_extension("gone");
        std::fs::rename(path, &aside).and_then(|()| std::fs::remove_dir_all(&aside)).ok();
    } else {
        std::fs::remove_file(path).ok();
    }
}

#[cfg(unix)]
mod signals {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    /// Starts the thread that waits for signals, once.
    pub(super) fn watch() -> io::Result<()> {
        static WATCHED: Mutex<bool> = Mutex::new(false);
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if *watched {
            return Ok(());
        }
        // A file that gets too large is an error of writing then, and not the end of the process.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        let ignored = ignored();
        let ending = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = Signals::new(ending)?;
        // Where no thread can be started, an interrupted command leaves its temporaries.
        let wait = move || {
            for signal in &mut signals.forever() {
                let is_first = !super::IS_INTERRUPTED.swap(signal == SIGINT, Ordering::Relaxed);
                if signal == SIGINT && is_first && super::IS_GENTLE.load(Ordering::Relaxed) {
                    continue;
                }
                let temporaries = super::temporaries();
                temporaries.iter().for_each(|path| super::remove(path));
                signal_hook::low_level::emulate_default_handler(signal).ok();
                std::process::exit(128 + signal);
            }
        };
        std::thread::Builder::new().spawn(wait).ok();
        *watched = true;
        Ok(())
    }

    /// The signals that the process was started to ignore, as by `nohup`, as a bit mask; they stay ignored. `None` if the
    /// system does not report them.
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod signals {
    /// Does nothing: only Unix has signals. Elsewhere an interrupted command leaves its temporary files.
    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}
