//! A compiler for the sharding notation of *How To Scale Your Model*.
//!
//! ```text
//! text ─► syntax ─► program ─► plan ─► schedule ─► { values | proof | clock } ─► reports
//! ```
//!
//! | stage | its data | its one idea |
//! | --- | --- | --- |
//! | [`syntax`] | [`syntax::Ast`] | what was written, nothing interpreted |
//! | [`program`] | [`program::Program`] | typed values; after it no user mistake is possible |
//! | [`topology`] | [`topology::Topology`] | a link is the only thing between devices that is ever busy |
//! | [`recipe`] | [`recipe::Recipe`] | how a collective becomes operations is decided once, on the clock |
//! | [`plan`] | [`plan::Plan`] | a product is a choice of what each mesh axis does, resharding a shortest path |
//! | [`schedule`] | [`schedule::Schedule`] | one operation for the whole mesh, with parameters that are maps of the coordinates |
//! | [`sim`] | blocks, symbols, ticks | one DAG, interpreted on numbers, on symbols, on time and by counting |
//!
//! [`compiler`] wires the stages. A *layout* is the type of an array: dtype, dims with sizes, the ordered mesh axes on
//! each dim (major first), and the open sum. A *block* is what one device holds of a value, row-major; it may be
//! absent. An operation is ready on a device when its operands are there; links serve messages in the order of the
//! schedule's list. What the clock leaves out is told in [`sim::clock`].
//!
//! From text to time; `examples/*.rs` go on from here, to comparisons, schedules by hand and other hardware:
//!
//! ```
//! use shardc::compiler::{self, Options};
//! use shardc::sim::clock;
//!
//! let source = "
//! mesh {X: 4 ring} on tpu_v5e
//! dims {I: 64, J: 32}
//! A: bf16[I_X, J]
//! C[I, J] = A
//! ";
//! let (program, diagnostics) = compiler::check(source);
//! let program = program.unwrap_or_else(|| panic!("{diagnostics:?}"));
//!
//! // Planned, lowered and proven.
//! let compiled = compiler::compile(&program, &Options::default()).expect("a schedule");
//! assert_eq!(compiled.proof.devices, 4);
//!
//! // Three quarters of the array arrive on each device.
//! assert_eq!(compiled.plan.usage().received.most, 64 * 32 * 2 * 3 / 4);
//!
//! let timing = clock::run(&compiled.schedule, &compiled.topology).expect("every message has a way");
//! assert_eq!(compiled.topology.scale.show(timing.makespan), "2.00 us");
//! ```

mod amount;
pub mod cells;
pub mod characters;
pub mod collective;
pub mod diag;
pub mod dtype;
pub mod einsum;
pub mod escape;
pub mod fit;
mod flow;
pub mod function;
pub mod fusion;
pub mod layout;
pub mod link;
mod memory;
pub mod mesh;
pub mod method;
pub mod operator;
pub mod overlap;
pub mod packing;
mod parallel;
pub mod passes;
pub mod route;
pub mod routing;
pub mod span;
pub mod supply;
pub mod units;

pub mod advice;
pub mod arrays;
pub mod bounds;
pub mod costs;
pub mod lower;
pub mod plan;
pub mod program;
pub mod recipe;
pub mod schedule;
pub mod sim;
pub mod syntax;
pub mod topology;

#[cfg(feature = "cli")]
pub mod cli;
pub mod compiler;
pub mod engine;
pub mod expect;
pub mod explain;
pub mod export;
pub mod picture;
pub mod report;
pub mod sweep;
