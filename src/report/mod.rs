//! Reports: text, JSON and HTML.
//!
//! Depends on every stage; only the command line depends on it. Each figure is computed once:
//!
//! ```text
//! findings   of a plan: its steps (step), its products (why), totals and optimality (totals)
//! run        of a schedule: proof, time, numeric comparison
//! text       text       document   JSON       html   a page
//! given      schedule files       measured   runs on ranks       snapshot   snapshot files
//! contents   of the devices
//! ```

pub mod audit;
pub mod contents;
pub mod diff;
pub mod document;
pub mod findings;
mod fold;
pub mod given;
pub mod html;
pub mod measured;
pub mod run;
pub mod seconds;
pub mod snapshot;
pub mod step;
pub mod sweep;
pub(crate) mod table;
pub mod text;
mod totals;
pub mod tune;
pub mod why;

pub use findings::Findings;
pub use step::{step_bound, step_method_times};
