//! Limits on time, memory and search: `--time-limit 10s`, `--max-memory 2GB`, `--effort 10`.
//!
//! The planner stops early and returns the best plan found so far. Lowering, proof and clock cannot stop early, so a
//! watchdog thread ends the command with an error once a limit is exceeded. It checks one last time
//! just before a result is written, so a command either writes its result or ends with an error.

use super::Failure;
use crate::amount;
use crate::plan::Budget;
use crate::units::Bytes;
use clap::Args;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The planner gets `1 / PLANNING` of the time; lowering, proof and clock need the rest.
const PLANNING: u32 = 2;
/// The share of the time for many plans, of which nothing is lowered.
const PLANNING_MANY: [u32; 2] = [3, 4];
/// The planner gets `1 / PLANNING_MEMORY` of the memory.
const PLANNING_MEMORY: u64 = 4;
/// Largest factor of `--effort`: a search of days.
const MOST_EFFORT: i64 = 100_000;
/// Polling interval of the watchdog.
const TICK: Duration = Duration::from_millis(20);

/// Limits on time, memory and search.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Effort {
    /// Time limit, such as `10s`: the planner uses half of it and returns the best plan found
    #[arg(long, value_name = "TIME", value_parser = time)]
    time_limit: Option<Duration>,
    /// Memory limit, such as `2GB`: the planner uses a quarter of it and returns the best plan found
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_memory: Option<Bytes>,
    /// Search up to N times as long for a better plan, or the proof that there is none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_EFFORT))]
    effort: Option<u32>,
}

fn time(text: &str) -> Result<Duration, String> {
    let picoseconds = amount::read(text, &amount::TIME).filter(|time| *time > 0);
    let nanoseconds = picoseconds.and_then(|time| u64::try_from(time.div_ceil(1000)).ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| "expected a time with a unit, such as `10s` or `500ms`".to_owned())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    let bytes =
        amount::read(text, &amount::BYTES).and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    bytes.map(Bytes).ok_or_else(|| "expected bytes with a unit, such as `2GB` or `512MiB`".to_owned())
}

impl Effort {
    /// Starts the watchdog and returns the planner's budget.
    ///
    /// # Errors
    /// If memory cannot be watched on this system, or no thread can be started.
    pub(super) fn start(self) -> Result<Budget, Failure> {
        let budget = self.begin()?;
        Ok(self.time_limit.map_or(budget, |limit| budget.within_time(limit / PLANNING)))
    }

    /// For a command that makes many plans: the budget without the time limit, and the time for all plans together.
    ///
    /// # Errors
    /// As [`Effort::start`].
    pub(super) fn start_many(self) -> Result<(Budget, Option<Duration>), Failure> {
        let budget = self.begin()?.until(super::interrupt::flag()?);
        let [part, parts] = PLANNING_MANY;
        Ok((budget, self.time_limit.map(|limit| limit * part / parts)))
    }

    /// Starts the watchdog and returns the budget of memory.
    fn begin(self) -> Result<Budget, Failure> {
        let mut budget = Budget::default().times(self.effort.unwrap_or(1));
        if let Some(limit) = self.max_memory {
            resident().ok_or_else(|| Failure::Call("`--max-memory` needs /proc/self/status".to_owned()))?;
            budget = budget.within_memory(Bytes(limit.0 / PLANNING_MEMORY));
        }
        if self.time_limit.is_some() || self.max_memory.is_some() {
            *watched() = Some(Watched { effort: self, begin: Instant::now() });
            let watch = std::thread::Builder::new().name("limits".to_owned()).spawn(watch);
            watch.map_err(|error| Failure::Call(format!("cannot start a thread for the limits: {error}")))?;
        }
        Ok(budget)
    }

    /// The limits as command-line arguments.
    pub(super) fn words(self) -> Vec<String> {
        let time = self.time_limit.map(|limit| format!("--time-limit {}ns", limit.as_nanos()));
        let memory = self.max_memory.map(|limit| format!("--max-memory {}B", limit.0));
        let effort = self.effort.map(|times| format!("--effort {times}"));
        time.into_iter().chain(memory).chain(effort).collect()
    }
}

/// A running command and its limits.
#[derive(Clone, Copy, Debug)]
struct Watched {
    effort: Effort,
    begin: Instant,
}

/// Limits of the running command, until its result is written. The watchdog holds the lock while it ends the process,
/// so nothing is written meanwhile.
static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

fn watched() -> MutexGuard<'static, Option<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Ends the process if a limit is exceeded.
    fn look(self) {
        let Effort { time_limit, max_memory, .. } = self.effort;
        if let Some(limit) = time_limit.filter(|limit| self.begin.elapsed() >= *limit) {
            end("time-limit", &format!("not finished after {limit:?}; raise `--time-limit`"));
        }
        let memory = resident().zip(max_memory).filter(|(resident, limit)| resident > limit);
        if let Some((resident, limit)) = memory {
            end("memory-limit", &format!("{resident} of memory in use, limit {limit}; raise `--max-memory`"));
        }
    }
}

/// Polls until a result is written.
fn watch() {
    loop {
        match *watched() {
            Some(watched) => watched.look(),
            None => return,
        }
        std::thread::sleep(TICK);
    }
}

/// Checks the limits one last time and stops the watchdog. Called before a result is written.
pub(super) fn is_done() {
    if let Some(watched) = watched().take() {
        watched.look();
    }
}

fn end(limit: &str, message: &str) -> ! {
    std::io::stderr().write_all(format!("error: {limit}: {message}\n").as_bytes()).ok();
    super::interrupt::exit(1)
}

/// Resident memory of this process; `None` without `/proc`.
fn resident() -> Option<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(Bytes(kibibytes.trim().parse::<u64>().ok()?.saturating_mul(1024)))
}
