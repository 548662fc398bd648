//! Runs schedules on real processes, one per device: the operations of a schedule in list order.
//!
//! Each process is a rank and computes the blocks of its device with the kernels of [`crate::sim::values`]; the
//! blocks of all other devices are absent. Only shuffles and gathers differ: they are messages. The messages follow
//! from the schedule alone ([`messages`]), so ranks need not negotiate.
//!
//! The MPI engine requires the feature `mpi`.

pub mod calibrate;
pub mod measured;
pub mod messages;
#[cfg(feature = "mpi")]
pub mod mpi;
