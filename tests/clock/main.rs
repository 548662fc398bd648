//! Simulated times against closed forms and bounds.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod closed_forms;
mod fabrics;
mod laws;
mod measured;
mod method_table;
mod mixed;
mod order;
