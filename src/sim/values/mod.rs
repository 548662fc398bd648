//! Runs a schedule on numbers: what each device holds after each operation, and whether it is what it should be.
//!
//! [`inputs`] makes data, [`dense`] computes the arrays without any mesh, [`run`] goes through the operations on every
//! device, [`compare`] holds the two together, with a bound for the rounding of each element on either side.
//!
//! A block is a strided view of a shared buffer, so a shard of an input, a slice and a message cost nothing, and
//! buffers are free as soon as nothing needs them. A block that is [absent](crate::schedule::CoordMap) is `None`. A
//! product or a function of an absent block is absent; so is what a group gathers of which no member has a block.

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
mod gemm;
mod guard;
mod input;
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
mod view;

#[cfg(test)]
mod tests;

pub use compare::{Numerics, compare};
pub use dense::dense;
pub use element::Element;
pub use error::RunError;
pub use guard::{MOST_BLOCKS, MOST_BYTES, MOST_FLOPS, Need, check as affordable, need};
pub use input::{Inputs, inputs, inputs_beside};
pub use parallel::Here;
pub use run::{Execution, Gathered, Run, run};
pub use step::Blocks;
pub use tensor::Tensor;
