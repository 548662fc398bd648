//! A compiler for the sharding notation of *How To Scale Your Model*.
//!
//! ```text
//! text ─► syntax ─► program ─► plan ─► schedule ─► { values | proof | clock } ─► reports
//! ```
//!
//! | stage | data | idea |
//! | --- | --- | --- |
//! | [`syntax`] | [`syntax::Ast`] | the program as written, without interpretation |
//! | [`program`] | [`program::Program`] | typed values; all user errors are reported before this stage ends |
//! | [`topology`] | [`topology::Topology`] | links are the only shared resource between devices |
//! | [`recipe`] | [`recipe::Recipe`] | the lowering of a collective is chosen once, by timing candidates |
//! | [`plan`] | [`plan::Plan`] | each mesh axis has a role in a product; resharding is a shortest path |
//! | [`schedule`] | [`schedule::Schedule`] | one operation for the whole mesh, parameterized by maps of the coordinates |
//! | [`sim`] | blocks, symbols, ticks | one DAG, interpreted numerically, symbolically, in time, and by counting |
//!
//! [`compiler`] connects the stages. A *layout* is the type of an array: dtype, dims with sizes, the ordered mesh axes of
//! each dim (major first), and the open sum. A *block* is the part of a value that one device holds, row-major; it may be
//! absent. An operation is ready on a device when its operands are available; links serve messages in list order.
//! [`sim::clock`] documents what the clock does not model.
//!
//! From text to time; `examples/*.rs` show comparisons, hand-written schedules and other hardware:
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
//! // Plan, lower and prove.
//! let compiled = compiler::compile(&program, &Options::default()).expect("a schedule");
//! assert_eq!(compiled.proof.devices, 4);
//!
//! // Each device receives three quarters of the array.
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
pub mod kernel;
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
pub mod shift;
pub mod span;
pub mod supply;
pub mod units;

pub mod advice;
pub mod arrays;
pub mod bounds;
pub mod costs;
pub mod import;
pub mod lower;
pub mod plan;
pub mod program;
pub mod recipe;
pub mod schedule;
pub mod sim;
pub mod syntax;
pub mod topology;

pub mod audit;
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
pub mod tune;
