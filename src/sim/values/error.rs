//! Why a schedule cannot be run.

use crate::mesh::DeviceId;
use crate::schedule::{Malformed, OpId};

/// Why a schedule cannot be run on numbers.
#[derive(Clone, Debug, PartialEq, thiserror::Error, miette::Diagnostic)]
pub enum RunError {
    /// Memory or time would run out.
    #[error("computing this takes {need}, more than the {most} that are allowed")]
    #[diagnostic(
        code("too-large-to-compute"),
        help("`shardc time` proves and times a program of any size without computing it")
    )]
    TooLarge {
        /// What it takes, with its unit.
        need: String,
        /// What there may be, with its unit.
        most: String,
    },
    /// An array that must be given is not.
    #[error("there are no data for the input `{array}`")]
    #[diagnostic(code("input-missing"))]
    MissingInput {
        /// Its name.
        array: String,
    },
    /// An array is given with another dtype or other extents.
    #[error("the data for `{array}` are {found}, it is declared as {wanted}")]
    #[diagnostic(code("input-mismatch"))]
    WrongInput {
        /// Its name.
        array: String,
        /// dtype and extents of the data.
        found: String,
        /// dtype and extents of the declaration.
        wanted: String,
    },
    /// The schedule is none.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// Data that are no sum of squares, of which the devices should hold the roots.
    #[error("array `{array}`: not every element is a sum of {count} squares")]
    #[diagnostic(code("input-mismatch"))]
    NoSquares {
        /// Its name.
        array: String,
        /// How many devices hold a root.
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
        /// What is wrong there.
        problem: &'static str,
    },
    /// A device ends without its shard of an output.
    #[error("{device} ends without its shard of `{array}`")]
    #[diagnostic(code("block-missing"))]
    MissingShard {
        /// The array.
        array: String,
        /// The device.
        device: DeviceId,
    },
    /// Devices that should hold the same shard hold different integers.
    #[error("the replicas of `{array}` on {first} and {second} differ")]
    #[diagnostic(code("replicas-differ"))]
    ReplicasDiffer {
        /// The array.
        array: String,
        /// A device.
        first: DeviceId,
        /// Another one that should hold the same.
        second: DeviceId,
    },
}
