//! What a run computes with, and what it has given.

use super::arrays::Arrays;
use crate::engine::measured::Measured;
use crate::report::measured;
use crate::schedule::Schedule;
use crate::sim::clock::Timing;
use crate::sim::values::Numerics;
use crate::topology::Topology;

/// Inputs and options of a run.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    /// Seed of the inputs without a file.
    pub(super) seed: u64,
    /// Array files.
    pub(super) arrays: &'a Arrays,
    /// Whether to print the time of each operation.
    pub(super) times: bool,
}

/// Result of a run.
pub(super) struct Computed {
    pub(super) numerics: Numerics,
    /// Measured times, on real processes.
    pub(super) measured: Option<Measured>,
    /// Whether to print the time of each operation.
    pub(super) times: bool,
}

impl Computed {
    /// Formats the measured times.
    pub(super) fn text(&self, schedule: &Schedule, timing: &Timing, topology: &Topology) -> String {
        let Some(measured) = &self.measured else { return String::new() };
        let table = if self.times { measured::operations(measured, timing, schedule, topology) } else { String::new() };
        measured::measured(measured, timing, topology, schedule.mesh.device_count()) + &table
    }
}
