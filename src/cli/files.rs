//! Files that commands write: `-o`, `--save`, snapshots, `fmt`, reports and profiles.
//!
//! A regular file is replaced whole or not at all. What is written goes to a temporary file of a random name in the same
//! folder, is synced, takes over the permissions of the file that it replaces, and is then renamed over it. Links are
//! followed first, so that a link stays a link. A device or a pipe is opened and
//! written to.
//!
//! Temporary files are removed when writing fails, and when the command is interrupted or terminated.

use super::interrupt::Temporary;
use super::{Failure, input, sources};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Most symbolic links followed, as on Linux.
const MOST_LINKS: usize = 40;

/// Target of a path.
enum Target {
    /// A regular file, or a missing one.
    File(PathBuf),
    /// A stream: a pipe or a device.
    Stream(Box<dyn Write>),
}

/// Writes the result of a command, but not over a file that it has read.
pub(super) fn write_result(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    if sources::has(path) {
        let shown = input::shown(path);
        return Err(Failure::Call(format!("`{shown}` is an input of this command; the output needs another name")));
    }
    write(path, content)
}

/// Writes a file. A regular file is replaced atomically.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    super::effort::is_done();
    let content = content.as_ref();
    let written = target(path).and_then(|target| match target {
        Target::File(path) => replace(&path, content),
        Target::Stream(mut stream) => {
            let written = stream.write_all(content).and_then(|()| stream.flush());
            // A reader that has gone away wants no more.
            written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
        }
    });
    written.map_err(|error| failed("write", path, &error))
}

/// Writes a new folder of files atomically. An empty folder is replaced.
pub(super) fn write_folder<'f>(path: &Path, files: impl Iterator<Item = (String, &'f [u8])>) -> Result<(), Failure> {
    super::effort::is_done();
    let fill = || {
        let Target::File(path) = target_of_folder(path)? else {
            return Err(io::Error::from(ErrorKind::NotADirectory));
        };
        let temporary = Temporary::folder(folder_of(&path))?;
        for (name, bytes) in files {
            let mut file = File::create_new(temporary.path().join(name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        sync_folder(temporary.path());
        temporary.commit(&path)?;
        sync_folder(folder_of(&path));
        Ok(())
    };
    fill().map_err(|error| failed("write", path, &error))
}

/// Whether a path leads to a regular file that can be replaced.
pub(super) fn is_regular(path: &Path) -> bool {
    matches!(resolved(path), Ok(Resolved::There(_, kind)) if kind.is_file())
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    std::fs::remove_file(path).map_err(|error| failed("remove", path, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Call(format!("cannot {what} `{}`: {error}", input::shown(path)))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = match std::fs::metadata(path) {
        Ok(old) if old.permissions().readonly() => {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only"));
        }
        Ok(old) => Some(old),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut temporary = Temporary::file(folder_of(path))?;
    let file = temporary.as_file_mut()?;
    file.write_all(content)?;
    if let Some(old) = &old {
        take_over(file, old)?;
    }
    file.sync_all()?;
    temporary.commit(path)?;
    sync_folder(folder_of(path));
    Ok(())
}

/// Copies permissions to a file, and the owner where allowed.
fn take_over(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            // Only a privileged user may give files away.
            fchown(file, Some(old.uid()), Some(old.gid())).ok();
        }
    }
    file.set_permissions(old.permissions())
}

/// Syncs a folder, so a rename survives a crash. Not every system supports it; the file is complete either way.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Resolves the links of a path to a file, which may be missing.
fn target(path: &Path) -> io::Result<Target> {
    match resolved(path)? {
        Resolved::There(path, kind) if kind.is_file() => Ok(Target::File(path)),
        Resolved::There(_, kind) if kind.is_dir() => Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder")),
        Resolved::There(path, _) => Ok(Target::Stream(Box::new(OpenOptions::new().write(true).open(path)?))),
        Resolved::Missing(path) => Ok(Target::File(path)),
        Resolved::Descriptor(path) => Ok(Target::Stream(descriptor(&path)?)),
    }
}

/// Resolves the links of a path to a folder, which may be missing.
fn target_of_folder(path: &Path) -> io::Result<Target> {
    match resolved(path)? {
        Resolved::There(path, _) | Resolved::Missing(path) => Ok(Target::File(path)),
        Resolved::Descriptor(_) => Err(io::Error::from(ErrorKind::NotADirectory)),
    }
}

enum Resolved {
    There(PathBuf, std::fs::FileType),
    Missing(PathBuf),
    /// An open file of a process, `/proc/self/fd/1`. It is opened by this path; resolving it would open another file.
    Descriptor(PathBuf),
}

fn resolved(path: &Path) -> io::Result<Resolved> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let kind = match std::fs::symlink_metadata(&path) {
            Ok(entry) => entry.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Resolved::Missing(path)),
            Err(error) => return Err(error),
        };
        if !kind.is_symlink() {
            return Ok(Resolved::There(path, kind));
        }
        let folder = std::fs::canonicalize(folder_of(&path))?;
        if folder.starts_with("/proc") && folder.ends_with("fd") {
            return Ok(Resolved::Descriptor(path));
        }
        path = folder.join(std::fs::read_link(&path)?);
    }
    Err(io::Error::other("too many links"))
}

/// Writes at the position of the open descriptor; existing content stays.
fn descriptor(path: &Path) -> io::Result<Box<dyn Write>> {
    match path.file_name().and_then(|number| number.to_str()) {
        Some("1") => Ok(Box::new(io::stdout())),
        Some("2") => Ok(Box::new(io::stderr())),
        _ => Ok(Box::new(OpenOptions::new().append(true).open(path)?)),
    }
}
