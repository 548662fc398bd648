//! Reasons why a schedule is not a supported collective.

use crate::operator::Operator;
use crate::schedule::OpId;
use thiserror::Error;

/// Maximum number of chunks, over all values and devices.
pub(super) const MOST_CHUNKS: u64 = 1 << 24;

/// The reason why a schedule is not a supported collective.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("not-exported"))]
pub enum Refused {
    /// The schedule has several arrays.
    #[error("a schedule of {0} arrays is not a single collective")]
    #[diagnostic(help("export the steps of the plan one by one"))]
    NotOneArray(usize),
    /// The schedule has several results or inputs.
    #[error("a collective has one input and one output; this schedule has {inputs} and {outputs}")]
    NotOneValue {
        /// Number of inputs.
        inputs: usize,
        /// Number of outputs.
        outputs: usize,
    },
    /// The schedule computes something.
    #[error("%{} is {what}, which is not part of a collective", id.index())]
    Operation {
        /// The operation.
        id: OpId,
        /// Description of the operation.
        what: &'static str,
    },
    /// The layouts are not those of a collective over all devices.
    #[error("the format supports no collective over all devices from `{from}` to `{to}`")]
    #[diagnostic(help(
        "supported are AllGather, ReduceScatter, AllReduce, AllToAll and Broadcast from the first device, over all axes of the mesh, along one dim"
    ))]
    Layouts {
        /// Layout of the input.
        from: String,
        /// Layout of the output.
        to: String,
    },
    /// The formats do not support the reduction operator.
    #[error("the format supports sums only; this open sum is combined by {0}")]
    Operator(Operator),
    /// There are too many chunks.
    #[error("the schedule has more than {MOST_CHUNKS} chunks")]
    TooLarge,
}
