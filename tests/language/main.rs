//! Language tests: meaning, errors and suggested fixes.

#[path = "../common/mod.rs"]
mod common;

mod book;
mod checker_laws;
mod explain;
mod foreign;
mod imported;
mod lenient;
mod mutations;
mod names;
mod opaque;
mod positions;
mod reference;
mod refused;
mod repeat;
mod right;
mod soak;
mod strict;
mod wrong;
