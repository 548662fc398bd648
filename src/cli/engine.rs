//! `--engine`: where the operations of a run are done.

use super::Failure;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Options of the engine that runs a schedule.
#[derive(Clone, Debug, Args)]
pub(super) struct Engine {
    /// Engine that runs the schedule
    #[arg(long = "engine", value_enum, default_value_t)]
    kind: Kind,
    /// Print the measured time of each operation next to the predicted one (with `--engine mpi`)
    #[arg(long)]
    times: bool,
    /// Number of timed runs (with `--engine mpi`)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// Seconds that a rank waits for a message before all ranks abort (with `--engine mpi`)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Simulated mesh in this process
    #[default]
    Sim,
    /// MPI ranks, one per device: `mpirun -n 8 shardc run FILE --engine mpi`
    Mpi,
}

/// Parses `60`, `0.5` or `60s`.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim().parse::<f64>();
    let positive =
        number.ok().filter(|number| *number > 0.0).and_then(|number| Duration::try_from_secs_f64(number).ok());
    positive.ok_or_else(|| format!("`{text}` is not a number of seconds"))
}

impl Engine {
    /// The selected engine.
    ///
    /// # Errors
    /// If options for MPI are given without `--engine mpi`.
    pub(super) fn kind(&self) -> Result<Kind, Failure> {
        if self.kind == Kind::Sim && (self.times || self.repetitions > 1) {
            return Err(Failure::Call("`--times` and `--repetitions` need `--engine mpi`".to_owned()));
        }
        Ok(self.kind)
    }

    /// Whether to print the time of each operation.
    pub(super) fn times(&self) -> bool {
        self.times
    }

    /// Number of timed runs.
    pub(super) fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Longest wait for a message.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }
}
