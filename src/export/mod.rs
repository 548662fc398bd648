//! Exports schedules and plans to the formats of other runtimes, simulators and languages.
//!
//! A schedule of one collective becomes an [`Algorithm`](ranks::Algorithm): each rank's sends, receives and
//! reductions, chunk by chunk. Each format has a module that writes it from the algorithm and reads it. Files that
//! are read are executed symbolically and compared with the collective that they claim to implement. Files that are
//! written are checked in the same way first.
//!
//! A plan becomes a program of an array language: the computation of each device on its shards, with the plan's own
//! collectives.

pub mod chakra;
mod functions;
pub mod goal;
pub mod jax;
pub mod messages;
pub mod msccl;
pub mod mscclpp;
pub mod ranks;
mod source;
pub mod stablehlo;
pub mod words;
