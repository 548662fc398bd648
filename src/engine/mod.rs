//! Schedules on real processes: the very operations of a schedule, in their order, one process for each device.
//!
//! Each process is a rank and computes what its device has, with the kernels of [`crate::sim::values`]; every other
//! device's block is absent to it. Only shuffles and gathers are different: they are messages. Which messages there
//! are follows from the schedule alone ([`messages`]), so no rank has to ask.
//!
//! The engine of MPI is behind the feature `mpi`.

pub mod calibrate;
pub mod measured;
pub mod messages;
#[cfg(feature = "mpi")]
pub mod mpi;
