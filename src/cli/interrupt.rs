//! Temporary files and folders that are gone when the command is, whether it ends, fails, is interrupted or terminated.
//!
//! A list has all temporaries that there are. A thread waits for signals; when one comes it takes the list, removes what
//! is on it and lets the signal end the process. It keeps the list, so that meanwhile no other temporary is made and
//! none is renamed: what was asked for is there whole, or is not there. Only a `SIGKILL` leaves a temporary behind.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{Builder, NamedTempFile, TempDir};

static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or a folder of a random name that is removed unless it is [committed](Temporary::commit).
pub(super) struct Temporary {
    path: PathBuf,
    /// None once it is committed.
    made: Option<Made>,
}

enum Made {
    File(NamedTempFile),
    Folder(TempDir),
}

impl Temporary {
    /// A new file in this folder. Its permissions are those of any new file.
    pub(super) fn file(folder: &Path) -> io::Result<Temporary> {
        Temporary::made(0o666, |builder| Ok(Made::File(builder.tempfile_in(folder)?)))
    }

    /// A new folder in this folder.
    pub(super) fn folder(folder: &Path) -> io::Result<Temporary> {
        Temporary::made(0o777, |builder| Ok(Made::Folder(builder.tempdir_in(folder)?)))
    }

    fn made(mode: u32, make: impl FnOnce(&Builder<'_, '_>) -> io::Result<Made>) -> io::Result<Temporary> {
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
            Made::File(file) => file.path().to_owned(),
            Made::Folder(folder) => folder.path().to_owned(),
        };
        temporaries.push(path.clone());
        Ok(Temporary { path, made: Some(made) })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that it is.
    pub(super) fn as_file_mut(&mut self) -> io::Result<&mut File> {
        match &mut self.made {
            Some(Made::File(file)) => Ok(file.as_file_mut()),
            Some(Made::Folder(_)) | None => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        }
    }

    /// Renames it. A file takes the place of another, a folder that of an empty one.
    pub(super) fn commit(mut self, path: &Path) -> io::Result<()> {
        let mut temporaries = temporaries();
        match self.made.take() {
            Some(Made::File(file)) => {
                if let Err(error) = file.persist(path) {
                    self.made = Some(Made::File(error.file));
                    return Err(error.error);
                }
            }
            Some(Made::Folder(folder)) => match std::fs::rename(&self.path, path) {
                Ok(()) => drop(folder.keep()),
                Err(error) => {
                    self.made = Some(Made::Folder(folder));
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

/// Ends the process from any thread, with no temporary left behind.
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
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex, PoisonError};

    /// Begins to wait for signals that end the process, once.
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
            if let Some(signal) = signals.forever().next() {
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

    /// The signals that the process was started to ignore, as by `nohup`, a bit for each; they stay ignored. None where
    /// the system does not tell.
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod signals {
    /// Only Unix has signals; elsewhere an interrupted command leaves its temporaries.
    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}
