//! `shardc snapshot`: programs under test, each with a file beside it that says what it is lowered to.

use super::progress::Progress;
use super::{Common, Failure, Format, files, input};
use crate::compiler;
use crate::expect;
use crate::report::snapshot::{self, Change, SUFFIX, Side};
use crate::sim::clock;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What a program's file ends with.
const PROGRAM: &str = "shard";

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    /// Programs, or folders that are searched for `.shard` files; new snapshots are written
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write nothing; exit 1 if a snapshot is missing, differs, or has lost its program
    #[arg(long, conflicts_with = "accept")]
    check: bool,
    /// Write those that differ as well, and remove those that have lost their program
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    common: Common,
}

/// A program's file and what came of it.
struct Found {
    program: PathBuf,
    snapshot: PathBuf,
    state: State,
}

enum State {
    /// The snapshot says what the program is lowered to.
    Same,
    /// There is none yet.
    New { text: String },
    /// It says something else.
    Changed { text: String, change: Change },
    /// There is one, and no program.
    Stale,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Same => "same",
            State::New { .. } => "new",
            State::Changed { .. } => "changed",
            State::Stale => "stale",
        }
    }
}

/// `shardc.snapshot/1`
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    file: String,
    snapshot: String,
    state: &'static str,
    /// Whether the snapshot was written, or removed.
    accepted: bool,
    went: Vec<String>,
    came: Vec<String>,
    time_before_ps: Option<u64>,
    time_after_ps: Option<u64>,
}

impl Snapshot {
    /// All programs are lowered before anything is written: if one of them is wrong, nothing is.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let files = self.files()?;
        let mut wrong = false;
        let mut found = Vec::new();
        let progress = Progress::of(files.len());
        for file in files {
            progress.begin(&input::shown(&file));
            let looked = self.look(file, &progress);
            progress.done();
            match looked {
                Ok(one) => found.push(one),
                Err(Failure::Program) => wrong = true,
                Err(failure @ (Failure::Call(_) | Failure::Told(_))) => return Err(failure),
            }
        }
        drop(progress);
        if !wrong && !self.check {
            found.iter().filter(|one| self.takes(&one.state)).try_for_each(take)?;
        }
        let mut open = 0;
        for one in &found {
            let accepted = !wrong && !self.check && self.takes(&one.state);
            open += usize::from(!accepted && !matches!(one.state, State::Same));
            self.tell(one, accepted)?;
        }
        if wrong && !self.check {
            input::say("nothing was written, because a program is wrong\n");
        }
        if open > 0 && !wrong && self.common.output.format == Format::Text {
            input::say(&format!("{open} not as kept; `shardc snapshot --accept` takes what there is now\n"));
        }
        if wrong || open > 0 { Err(Failure::Program) } else { Ok(()) }
    }

    /// Whether a snapshot is written, or removed.
    fn takes(&self, state: &State) -> bool {
        match state {
            State::Same => false,
            State::New { .. } => true,
            State::Changed { .. } | State::Stale => self.accept,
        }
    }

    /// The programs, each once, in order; and those that are missing while their snapshots are there.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                search(path, &mut files)?;
            } else {
                files.push(path.clone());
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Lowers a program and compares with what is kept.
    fn look(&self, program: PathBuf, progress: &Progress) -> Result<Found, Failure> {
        let snapshot = beside(&program);
        // What is no text is no snapshot either: it differs from every one.
        let before = input::text_beside(&snapshot)?;
        if before.is_some() && !program.exists() {
            return Ok(Found { program, snapshot, state: State::Stale });
        }
        let text = self.text(&program, progress)?;
        let state = match before {
            None => State::New { text },
            Some(before) => match snapshot::compare(&before, &text) {
                None => State::Same,
                Some(change) => State::Changed { text, change },
            },
        };
        Ok(Found { program, snapshot, state })
    }

    fn text(&self, program: &Path, progress: &Progress) -> Result<String, Failure> {
        let format = self.common.output.format;
        let options = self.common.options()?;
        let source = self.common.read(input::source_at(program)?);
        let fault = |found| progress.aside(|| input::fault(&source, &found, format));
        let (checked, _) = progress.aside(|| input::quietly(&source, &options, format))?;
        let compiled = compiler::compile(&checked, &options).map_err(fault)?;
        let timing =
            clock::run(&compiled.schedule, &compiled.topology).map_err(|error| Failure::Call(error.to_string()))?;
        let breaches = expect::judge(&compiled.plan, &compiled.topology, Some(timing.makespan));
        if !breaches.is_empty() {
            return Err(fault(breaches));
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Ok(snapshot::snapshot(&name, &self.common.words(), &compiled, &timing))
    }

    fn tell(&self, found: &Found, accepted: bool) -> Result<(), Failure> {
        let name = input::shown(&found.program);
        let (change, state) = match &found.state {
            State::Changed { change, .. } => (Some(change), &found.state),
            State::Same | State::New { .. } | State::Stale => (None, &found.state),
        };
        if self.common.output.format == Format::Json {
            let lines = |wanted: Side| {
                let head = change.iter().flat_map(|change| &change.head);
                head.filter(|(side, _)| *side == wanted).map(|(_, line)| line.clone()).collect()
            };
            return input::print_json(&Document {
                schema: "shardc.snapshot/1",
                file: found.program.to_string_lossy().into_owned(),
                snapshot: found.snapshot.to_string_lossy().into_owned(),
                state: state.name(),
                accepted,
                went: lines(Side::Went),
                came: lines(Side::Came),
                time_before_ps: change.and_then(|change| change.time.0),
                time_after_ps: change.and_then(|change| change.time.1),
            });
        }
        let verdict = match (state, accepted) {
            (State::Same, _) => "as kept",
            (State::New { .. }, true) => "new, kept",
            (State::New { .. }, false) => "no snapshot",
            (State::Changed { .. }, true) => "changed, taken",
            (State::Changed { .. }, false) => "changed",
            (State::Stale, true) => "no program, snapshot removed",
            (State::Stale, false) => "no program, but a snapshot",
        };
        input::print(&format!("{name}: {verdict}\n{}", change.map(Change::text).unwrap_or_default()))
    }
}

/// `mlp.shard.snapshot` for `mlp.shard`
fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// Writes a snapshot whole, or removes it.
fn take(found: &Found) -> Result<(), Failure> {
    match &found.state {
        State::Same => Ok(()),
        State::New { text } | State::Changed { text, .. } => files::write(&found.snapshot, text),
        State::Stale => files::remove(&found.snapshot),
    }
}

/// The programs below a folder, and those that only a snapshot remembers. Only regular files and links to such are
/// programs; hidden folders and links to folders are passed by, so that there are no loops.
fn search(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let call = |error: std::io::Error| input::unread(&folder, &error);
        for entry in std::fs::read_dir(&folder).map_err(call)? {
            let entry = entry.map_err(call)?;
            let (path, kind, name) = (entry.path(), entry.file_type().map_err(call)?, entry.file_name());
            let name = name.as_encoded_bytes();
            if kind.is_dir() {
                if !name.starts_with(b".") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == PROGRAM) {
                // A link that leads nowhere is told when it is read.
                if std::fs::metadata(&path).map_or(true, |file| file.is_file()) {
                    files.push(path);
                }
            } else if name.ends_with(b".shard.snapshot") {
                files.push(path.with_extension(""));
            }
        }
    }
    Ok(())
}
