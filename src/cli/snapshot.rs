//! `shardc snapshot`: writes and checks a snapshot file next to each program.

use super::progress::Progress;
use super::{Common, Failure, Format, files, folders, input};
use crate::compiler;
use crate::expect;
use crate::report::snapshot::{self, Change, SUFFIX, Side};
use crate::sim::clock;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    /// Programs, or folders to search for `.shard` files; missing snapshots are created
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write nothing; exit 1 if a snapshot is missing, changed, or without a program
    #[arg(long, conflicts_with = "accept")]
    check: bool,
    /// Also overwrite changed snapshots, and remove snapshots without a program
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    common: Common,
}

/// A program and the state of its snapshot.
struct Found {
    program: PathBuf,
    snapshot: PathBuf,
    state: State,
}

enum State {
    /// The snapshot is up to date.
    Same,
    /// The snapshot is missing.
    New { text: String },
    /// The snapshot differs.
    Changed { text: String, change: Change },
    /// The snapshot has no program.
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

/// JSON document `shardc.snapshot/1`.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    file: String,
    snapshot: String,
    state: &'static str,
    /// Whether the snapshot was written or removed.
    accepted: bool,
    went: Vec<String>,
    came: Vec<String>,
    time_before_ps: Option<u64>,
    time_after_ps: Option<u64>,
}

impl Snapshot {
    /// Lowers all programs before anything is written; if one of them is wrong, nothing is.
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
                Err(failure @ (Failure::Call(_) | Failure::Interrupted | Failure::Reported(_))) => return Err(failure),
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
            input::say("no snapshot was written, because a program has errors\n");
        }
        if open > 0 && !wrong && self.common.output.format == Format::Text {
            let plural = if open == 1 { " is" } else { "s are" };
            input::say(&format!("{open} snapshot{plural} out of date; run `shardc snapshot --accept` to update\n"));
        }
        if wrong || open > 0 { Err(Failure::Program) } else { Ok(()) }
    }

    /// Whether a snapshot in this state is written or removed.
    fn takes(&self, state: &State) -> bool {
        match state {
            State::Same => false,
            State::New { .. } => true,
            State::Changed { .. } | State::Stale => self.accept,
        }
    }

    /// The programs in order, without duplicates, including missing programs that have a snapshot.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                files.extend(folders::files(path)?.into_iter().filter_map(program_of));
            } else {
                files.push(path.clone());
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Lowers a program and compares with its snapshot.
    fn look(&self, program: PathBuf, progress: &Progress) -> Result<Found, Failure> {
        let snapshot = beside(&program);
        // A file that is not UTF-8 differs from every snapshot.
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
            (State::Same, _) => "unchanged",
            (State::New { .. }, true) => "created",
            (State::New { .. }, false) => "missing",
            (State::Changed { .. }, true) => "updated",
            (State::Changed { .. }, false) => "changed",
            (State::Stale, true) => "removed (no program)",
            (State::Stale, false) => "snapshot without a program",
        };
        input::print(&format!("{name}: {verdict}\n{}", change.map(Change::text).unwrap_or_default()))
    }
}

/// The snapshot path, `mlp.shard.snapshot` for `mlp.shard`.
fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// The program of a file: itself, or the one that it is the snapshot of.
fn program_of(file: PathBuf) -> Option<PathBuf> {
    let is_snapshot = file.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".shard.snapshot"));
    match is_snapshot {
        true => Some(file.with_extension("")),
        false => Some(file).filter(|file| folders::is_program(file)),
    }
}

/// Writes or removes a snapshot atomically.
fn take(found: &Found) -> Result<(), Failure> {
    match &found.state {
        State::Same => Ok(()),
        State::New { text } | State::Changed { text, .. } => files::write(&found.snapshot, text),
        State::Stale => files::remove(&found.snapshot),
    }
}
