//! Runs a schedule on numbers, and checks the outputs.
//!
//! [`inputs`] generates data, [`dense`] computes the arrays without a mesh, [`run`] executes the operations on every
//! device, and [`compare`] compares both, with error bounds for each element on either side.
//!
//! A block is a strided view of a shared buffer, so input shards, slices and messages are free, and buffers are freed
//! after their last use. A block that is [absent](crate::schedule::CoordMap) is `None`. Products and functions of
//! absent blocks are absent, and so is the result of a gather if no member of the group has a block.

mod bound;
mod bytes;
mod combine;
mod compare;
mod defer;
mod dense;
mod difference;
mod element;
mod enclose;
mod error;
mod factor;
mod float8;
mod gemm;
mod guard;
mod input;
mod integer4;
mod kernel;
mod late;
mod map;
mod pad;
mod parallel;
mod product;
mod reduce;
mod roles;
mod rounding;
mod run;
mod step;
mod tensor;
mod term;
mod unary;
mod view;

#[cfg(test)]
mod tests;

pub use compare::{Numerics, compare};
pub use dense::dense;
pub use element::Element;
pub use error::RunError;
pub use guard::{MOST_BLOCKS, MOST_BYTES, MOST_FLOPS, Need, check as affordable, need};
pub use input::{Inputs, inputs, inputs_beside, parts_of_input};
pub use parallel::Here;
pub use run::{Execution, Gathered, Run, run};
pub use step::Blocks;
pub use tensor::Tensor;
