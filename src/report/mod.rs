//! What people and scripts read: text for a terminal, JSON for everything else.
//!
//! Reads every stage; nothing reads it. Figures and sentences are found once, and then written in each form:
//!
//! ```text
//! findings   of a plan: its steps (step), its products (why), what it comes to and how good it is (totals)
//! run        of a schedule: its proof, its time, its numbers
//! text       for people             document   for scripts             html   a page
//! given      schedules that are given             measured   runs on ranks             snapshot   kept beside programs
//! ```

pub mod diff;
pub mod document;
pub mod findings;
pub mod given;
pub mod html;
pub mod measured;
pub mod run;
pub mod seconds;
pub mod snapshot;
pub mod step;
pub mod sweep;
pub mod text;
mod totals;
pub mod why;

pub use findings::Findings;
pub use step::{step_bound, step_method_times};
