//! `--engine`: where the operations of a run are done.

use super::Failure;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// How a schedule is computed.
#[derive(Clone, Debug, Args)]
pub(super) struct Engine {
    /// Where the operations are done
    #[arg(long = "engine", value_enum, default_value_t)]
    kind: Kind,
    /// Tell what each operation took, beside what was predicted; with `--engine mpi`
    #[arg(long)]
    times: bool,
    /// How often the schedule is run for its times; with `--engine mpi`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// How many seconds a rank waits for a message before all give up; with `--engine mpi`
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// In this process, on a simulated mesh
    #[default]
    Sim,
    /// On the ranks of MPI, one for each device: `mpirun -n 8 shardc run FILE --engine mpi`
    Mpi,
}

/// `60`, `0.5` or `60s`
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim().parse::<f64>();
    let positive =
        number.ok().filter(|number| *number > 0.0).and_then(|number| Duration::try_from_secs_f64(number).ok());
    positive.ok_or_else(|| format!("`{text}` is no number of seconds"))
}

impl Engine {
    /// What is asked for, with what only ranks can be told.
    pub(super) fn kind(&self) -> Result<Kind, Failure> {
        if self.kind == Kind::Sim && (self.times || self.repetitions > 1) {
            return Err(Failure::Call("`--times` and `--repetitions` are for `--engine mpi`".to_owned()));
        }
        Ok(self.kind)
    }

    /// Whether each operation's time is told.
    pub(super) fn times(&self) -> bool {
        self.times
    }

    /// How often a schedule is run.
    pub(super) fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// How long a message may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }
}
