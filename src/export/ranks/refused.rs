//! Why a schedule is no collective that the formats of ranks know.

use crate::operator::Operator;
use crate::schedule::OpId;
use thiserror::Error;

/// So many chunks, of all values on all devices, are looked at.
pub(super) const MOST_CHUNKS: u64 = 1 << 24;

/// Why a schedule is no collective that the formats know.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("not-exported"))]
pub enum Refused {
    /// It is about several arrays.
    #[error("a schedule of {0} arrays is more than one collective")]
    #[diagnostic(help("export the steps of the plan one by one"))]
    NotOneArray(usize),
    /// It has several results or inputs.
    #[error("a collective has one input and one output, and this schedule has {inputs} and {outputs}")]
    NotOneValue {
        /// So many inputs.
        inputs: usize,
        /// So many outputs.
        outputs: usize,
    },
    /// It computes something.
    #[error("%{} is {what}, which is no part of a collective", id.index())]
    Operation {
        /// The operation.
        id: OpId,
        /// What it is.
        what: &'static str,
    },
    /// Its layouts are those of no collective over all devices.
    #[error("from `{from}` to `{to}` is no collective over all devices that the format knows")]
    #[diagnostic(help(
        "known are AllGather, ReduceScatter, AllReduce, AllToAll and Broadcast over all axes of the mesh, along one dim"
    ))]
    Layouts {
        /// The layout before.
        from: String,
        /// The layout after.
        to: String,
    },
    /// It adds by an operator that the formats have no word for.
    #[error("open sums are combined by {0}, and the format knows sums only")]
    Operator(Operator),
    /// There are too many chunks.
    #[error("the schedule has more than {MOST_CHUNKS} chunks")]
    TooLarge,
}
