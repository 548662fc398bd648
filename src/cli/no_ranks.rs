//! What stands for the ranks of MPI in a build without them.

use super::Failure;
use super::computed::{Computed, Data};
use crate::engine::measured::{Measured, Spread};
use crate::schedule::Schedule;
use std::time::Duration;

/// Stands in for the ranks of MPI in builds without it; has no values.
pub(super) enum Ranks {}

impl Ranks {
    /// Fails with a hint on how to build with MPI.
    pub(super) fn start(_program: Option<&str>, _repetitions: u32, _timeout: Duration) -> Result<Ranks, Failure> {
        let how = "build it with `cargo build --release --features mpi` (needs Open MPI or MPICH)";
        Err(Failure::Call(format!("this `shardc` was built without MPI; {how}")))
    }

    pub(super) fn lead(&self, _: Data<'_>, _: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        match *self {}
    }

    pub(super) fn compute(&self, _: &Schedule, _: Data<'_>) -> Result<Computed, Failure> {
        match *self {}
    }

    pub(super) fn size(&self) -> u32 {
        match *self {}
    }

    pub(super) fn measure(&self, _: &Schedule) -> Result<Measured, Failure> {
        match *self {}
    }

    pub(super) fn native(&self, _: &str, _: u64) -> Result<Spread, Failure> {
        match *self {}
    }
}
