//! What a run computes with, and what it has given.

use super::arrays::Arrays;
use crate::engine::measured::Measured;
use crate::report::measured;
use crate::schedule::Schedule;
use crate::sim::clock::Timing;
use crate::sim::values::Numerics;
use crate::topology::Topology;

/// What a run computes with.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    /// Of the inputs that are not given.
    pub(super) seed: u64,
    /// Files of arrays.
    pub(super) arrays: &'a Arrays,
    /// Whether to print the time of each operation.
    pub(super) times: bool,
}

/// What a run has given.
pub(super) struct Computed {
    pub(super) numerics: Numerics,
    /// What it took, where that was measured.
    pub(super) measured: Option<Measured>,
    /// Whether to print the time of each operation.
    pub(super) times: bool,
}

impl Computed {
    /// What was measured, for people.
    pub(super) fn text(&self, schedule: &Schedule, timing: &Timing, topology: &Topology) -> String {
        let Some(measured) = &self.measured else { return String::new() };
        let table = if self.times { measured::operations(measured, timing, schedule, topology) } else { String::new() };
        measured::measured(measured, timing, topology, schedule.mesh.device_count()) + &table
    }
}
