//! Errors of running a schedule on numbers.

use crate::mesh::DeviceId;
use crate::schedule::{Malformed, OpId};

/// The reason why a schedule cannot be run on numbers.
#[derive(Clone, Debug, PartialEq, thiserror::Error, miette::Diagnostic)]
pub enum RunError {
    /// The run needs too much memory or time.
    #[error("the computation needs {need}; the limit is {most}")]
    #[diagnostic(
        code("too-large-to-compute"),
        help("`shardc time` proves and times a program of any size without computing it")
    )]
    TooLarge {
        /// The requirement, with its unit.
        need: String,
        /// The limit, with its unit.
        most: String,
    },
    /// A declared kernel is known by its costs only.
    #[error("the kernel `{kernel}` has no definition to compute its numbers with")]
    #[diagnostic(code("kernel-without-numbers"), help("`shardc time` proves and times a program without computing it"))]
    NoNumbers {
        /// The name of the kernel.
        kernel: String,
    },
    /// A required input is missing.
    #[error("no data for input `{array}`")]
    #[diagnostic(code("input-missing"))]
    MissingInput {
        /// Its name.
        array: String,
    },
    /// An input has another dtype or other extents than declared.
    #[error("the data for `{array}` are {found}, expected {wanted}")]
    #[diagnostic(code("input-mismatch"))]
    WrongInput {
        /// Its name.
        array: String,
        /// Dtype and extents of the data.
        found: String,
        /// Dtype and extents of the declaration.
        wanted: String,
    },
    /// The schedule is malformed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// An input is declared as a sum of squares, but its data cannot be written as one.
    #[error("array `{array}`: some elements are not sums of {count} squares")]
    #[diagnostic(code("input-mismatch"))]
    NoSquares {
        /// Name of the array.
        array: String,
        /// Number of devices that hold a root.
        count: usize,
    },
    /// An operation lacks a block on some device.
    #[error("%{} on {device}: {problem}", .op.index())]
    #[diagnostic(code("block-missing"))]
    OnDevice {
        /// The operation.
        op: OpId,
        /// The device.
        device: DeviceId,
        /// Description of the error.
        problem: &'static str,
    },
    /// A device has no shard of an output at the end.
    #[error("{device} lacks its shard of `{array}` at the end")]
    #[diagnostic(code("block-missing"))]
    MissingShard {
        /// The array.
        array: String,
        /// The device.
        device: DeviceId,
    },
    /// Replicas of a shard hold different integers.
    #[error("the replicas of `{array}` on {first} and {second} differ")]
    #[diagnostic(code("replicas-differ"))]
    ReplicasDiffer {
        /// The array.
        array: String,
        /// A device with a replica.
        first: DeviceId,
        /// Another device whose replica differs.
        second: DeviceId,
    },
}
