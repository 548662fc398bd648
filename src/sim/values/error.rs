//! Why a schedule cannot be run.

use crate::mesh::DeviceId;
use crate::schedule::OpId;

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
    /// An operation or an array has no meaning.
    #[error("{place}: {problem}")]
    #[diagnostic(code("schedule-malformed"))]
    Malformed {
        /// The operation or the array.
        place: String,
        /// What is wrong with it.
        problem: String,
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

impl RunError {
    /// An operation that has no meaning.
    pub(crate) fn operation(op: OpId, problem: impl Into<String>) -> RunError {
        RunError::Malformed { place: format!("%{}", op.index()), problem: problem.into() }
    }

    /// An array that has no meaning.
    pub(super) fn array(name: &str, problem: impl Into<String>) -> RunError {
        RunError::Malformed { place: format!("array `{name}`"), problem: problem.into() }
    }
}
