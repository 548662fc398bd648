//! Compares computed arrays with the dense result, within bounds of rounding errors.

#[path = "../common/mod.rs"]
mod common;

mod dtypes;
mod elements;
mod gcl;
mod models;
mod operators;
mod oracle;
mod padding;
mod passes;
mod relations;
mod replicas;
mod roots;
mod rounding;
mod shifts;
mod softmax;
