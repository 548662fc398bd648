//! A compiler for the sharding notation of *How To Scale Your Model*.
#![cfg_attr(test, allow(clippy::print_stdout))]

pub mod collective;
pub mod diag;
pub mod dtype;
pub mod einsum;
pub mod function;
pub mod layout;
pub mod mesh;
pub mod operator;
pub mod plan;
pub mod program;
pub mod schedule;
pub mod sim;
pub mod span;
pub mod syntax;
pub mod topology;
pub mod units;
