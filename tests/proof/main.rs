//! Tests the proof with mutants of schedules and a naive interpreter.

#[path = "../common/mod.rs"]
mod common;

mod example_mutants;
mod proof_flaws;
mod proof_mutants;
mod segments;
mod symmetry;
mod zeros;
