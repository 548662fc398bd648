//! Schedules for other tools: the programs that their runtimes and simulators read.
//!
//! A schedule of one collective becomes an [`Algorithm`](ranks::Algorithm): what each rank sends, receives and combines,
//! chunk by chunk. From that each format is written by a module of its own, which also reads it. What is read is
//! interpreted on symbols and held against the collective that it claims to be; so is everything that is written,
//! before it leaves.
//!
//! A plan becomes a program of an array language: what each device does with its shards, with the plan's own collectives.

pub mod chakra;
pub mod goal;
pub mod jax;
pub mod messages;
pub mod msccl;
pub mod mscclpp;
pub mod ranks;
pub mod stablehlo;
mod told;
pub mod words;
