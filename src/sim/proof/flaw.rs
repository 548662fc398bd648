//! Flaws of a schedule, with their locations.

use super::terms::Slot;
use crate::mesh::{DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Malformed, OpId};
use miette::Diagnostic;
use std::fmt;
use thiserror::Error;

/// An operation on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The operation.
    pub operation: OpId,
    /// The device.
    pub device: DeviceId,
    /// Name and coordinate along each axis of the mesh.
    pub coordinates: Box<[(String, u32)]>,
}

impl Site {
    /// An operation on a device of this mesh.
    pub(super) fn new(mesh: &Mesh, operation: OpId, device: DeviceId) -> Site {
        let coordinates =
            mesh.axis_ids().map(|axis| (mesh.axis(axis).name.clone(), mesh.coordinate(device, axis))).collect();
        Site { operation, device, coordinates }
    }
}

impl fmt::Display for Site {
    /// Formats as `%7 on d5 (X 1, Y 2)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coordinates: Vec<String> = self.coordinates.iter().map(|(axis, at)| format!("{axis} {at}")).collect();
        write!(f, "%{} on {} ({})", self.operation.index(), self.device, coordinates.join(", "))
    }
}

/// The first error found in a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum Flaw {
    /// The schedule is malformed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// The definition of an array reads padding, or is too large to be followed.
    #[error("the definition of array `{array}` is malformed: {what}")]
    #[diagnostic(code("proof-malformed-array"))]
    MalformedArray {
        /// Name of the array.
        array: String,
        /// Description of the error.
        what: String,
    },
    /// A message cannot be routed as the schedule prescribes.
    #[error("{site}: the message has no route: {why}")]
    #[diagnostic(code("proof-no-way"), help("write the schedule for the links of this machine"))]
    NoWay {
        /// Operation and receiving device.
        site: Site,
        /// The obstacle.
        why: String,
    },
    /// A contribution would be counted twice.
    #[error("{site}: {slot} is counted twice: operands {} and {} share a contribution", operands.0, operands.1)]
    #[diagnostic(code("proof-counted-twice"), help("each contribution to a sum must be added once"))]
    CountedTwice {
        /// Operation and device.
        site: Site,
        /// The elements concerned.
        slot: Slot,
        /// The first two operands that hold it, numbered from 0.
        operands: (usize, usize),
    },
    /// Elements of different positions of an array are combined, or an output has an element of another position.
    #[error("{site}: expected {expected}, found {found}")]
    #[diagnostic(code("proof-wrong-place"))]
    WrongPlace {
        /// Operation and device.
        site: Site,
        /// Expected elements.
        expected: Slot,
        /// Found elements.
        found: Slot,
    },
    /// Elements of different arrays are combined, or an output is another array.
    #[error("{site}: expected {expected}, found {found} of another array")]
    #[diagnostic(code("proof-wrong-array"))]
    WrongArray {
        /// Operation and device.
        site: Site,
        /// Expected elements.
        expected: Slot,
        /// Found elements.
        found: Slot,
    },
    /// Open pieces are combined with the wrong operator.
    #[error("{site}: partial results of {slot} are combined with {used}, expected {needed}")]
    #[diagnostic(code("proof-wrong-operator"))]
    WrongOperator {
        /// Operation and device.
        site: Site,
        /// The elements concerned.
        slot: Slot,
        /// Operator of the operation or declaration.
        used: Operator,
        /// Operator of the pieces.
        needed: Operator,
    },
    /// A device does not have a value that the operation reads.
    #[error("{site}: the value is absent on {missing}")]
    #[diagnostic(code("proof-read-absent"))]
    ReadAbsent {
        /// Operation and device.
        site: Site,
        /// The device without the value.
        missing: DeviceId,
    },
    /// A part of a block is never written.
    #[error("{site}: the block has a gap at {}", ranges(gap))]
    #[diagnostic(code("proof-unfilled"))]
    Unfilled {
        /// Operation and device.
        site: Site,
        /// First and one past the last index in each dim of the result's view.
        gap: Vec<(u64, u64)>,
    },
    /// A part of a block is written twice.
    #[error("{site}: operands {} and {} overlap at {}", operands.0, operands.1, ranges(overlap))]
    #[diagnostic(code("proof-filled-twice"))]
    FilledTwice {
        /// Operation and device.
        site: Site,
        /// First and one past the last index in each dim of the result's view.
        overlap: Vec<(u64, u64)>,
        /// The operands, numbered from 0.
        operands: (usize, usize),
    },
    /// The elements of an operand are not an in-order region of one array, or hold different contributions.
    #[error("{site}: operand {operand} is not one region of an array: it holds {first} and {other}")]
    #[diagnostic(code("proof-scattered-operand"))]
    ScatteredOperand {
        /// Operation and device.
        site: Site,
        /// The operand, numbered from 0.
        operand: usize,
        /// The first piece.
        first: Slot,
        /// A piece that does not continue it.
        other: Slot,
    },
    /// Operands have different ranges of an index that they share.
    #[error("{site}: operands do not match: {left} and {right}")]
    #[diagnostic(code("proof-operands-do-not-meet"), help("both operands must hold the same range of a shared index"))]
    DoNotMeet {
        /// Operation and device.
        site: Site,
        /// One operand.
        left: Slot,
        /// The other operand.
        right: Slot,
    },
    /// A function needs a whole dim, but the device has only a part of it.
    #[error("{site}: {function} needs all of dim {dim}, found {slot}")]
    #[diagnostic(code("proof-partial-dim"))]
    PartialDim {
        /// Operation and device.
        site: Site,
        /// The function.
        function: String,
        /// The dim, numbered from 0.
        dim: usize,
        /// The elements held.
        slot: Slot,
    },
    /// A filler selects padding lanes by position, and the block is at another position.
    #[error("{site}: the filler expects another block of dim {dim}, found {slot}")]
    #[diagnostic(code("proof-filler-place"))]
    FillerPlace {
        /// Operation and device.
        site: Site,
        /// The dim, numbered from 0.
        dim: usize,
        /// The elements held.
        slot: Slot,
    },
    /// A shift takes elements from the distance before, and the block holds others.
    #[error("{site}: the shift expects other elements of dim {dim}, found {slot}")]
    #[diagnostic(code("proof-shift-place"))]
    ShiftPlace {
        /// Operation and device.
        site: Site,
        /// The dim, numbered from 0.
        dim: usize,
        /// The elements held.
        slot: Slot,
    },
    /// A function is applied to an open sum, although it cannot be applied piece by piece.
    #[error("{site}: {function} of {slot} before its sum is complete: {missing} is missing")]
    #[diagnostic(code("proof-open-operand"), help("close the sum before this operation"))]
    OpenOperand {
        /// Operation and device.
        site: Site,
        /// The function.
        function: String,
        /// The elements concerned.
        slot: Slot,
        /// The first missing contribution.
        missing: String,
    },
    /// A device has no part of an output.
    #[error("{site}: the output is absent, expected {slot}")]
    #[diagnostic(code("proof-missing"))]
    Missing {
        /// Operation and device.
        site: Site,
        /// Expected elements.
        slot: Slot,
    },
    /// An output lacks contributions.
    #[error("{site}: the sum of {slot} is incomplete: {missing} is missing")]
    #[diagnostic(code("proof-missing-contribution"))]
    MissingContribution {
        /// Operation and device.
        site: Site,
        /// The elements concerned.
        slot: Slot,
        /// The first missing contribution.
        missing: String,
    },
    /// The proof would take too much time or memory.
    #[error("the schedule is too large to prove: {what}")]
    #[diagnostic(code("proof-too-large"))]
    TooLarge {
        /// The quantity that is too large.
        what: String,
    },
}

impl Flaw {
    /// The operation at which the flaw first shows.
    pub fn operation(&self) -> Option<OpId> {
        match self {
            Flaw::Malformed(malformed) => malformed.operation(),
            Flaw::MalformedArray { .. } | Flaw::TooLarge { .. } => None,
            Flaw::NoWay { site, .. }
            | Flaw::CountedTwice { site, .. }
            | Flaw::WrongPlace { site, .. }
            | Flaw::WrongArray { site, .. }
            | Flaw::WrongOperator { site, .. }
            | Flaw::ReadAbsent { site, .. }
            | Flaw::Unfilled { site, .. }
            | Flaw::FilledTwice { site, .. }
            | Flaw::ScatteredOperand { site, .. }
            | Flaw::DoNotMeet { site, .. }
            | Flaw::PartialDim { site, .. }
            | Flaw::FillerPlace { site, .. }
            | Flaw::ShiftPlace { site, .. }
            | Flaw::OpenOperand { site, .. }
            | Flaw::Missing { site, .. }
            | Flaw::MissingContribution { site, .. } => Some(site.operation),
        }
    }

    /// The operands of that operation that are involved, numbered from 0.
    pub fn operands(&self) -> Vec<usize> {
        match self {
            Flaw::CountedTwice { operands, .. } | Flaw::FilledTwice { operands, .. } => vec![operands.0, operands.1],
            Flaw::ScatteredOperand { operand, .. } => vec![*operand],
            Flaw::Malformed(_)
            | Flaw::MalformedArray { .. }
            | Flaw::TooLarge { .. }
            | Flaw::NoWay { .. }
            | Flaw::WrongPlace { .. }
            | Flaw::WrongArray { .. }
            | Flaw::WrongOperator { .. }
            | Flaw::ReadAbsent { .. }
            | Flaw::Unfilled { .. }
            | Flaw::DoNotMeet { .. }
            | Flaw::PartialDim { .. }
            | Flaw::FillerPlace { .. }
            | Flaw::ShiftPlace { .. }
            | Flaw::OpenOperand { .. }
            | Flaw::Missing { .. }
            | Flaw::MissingContribution { .. } => Vec::new(),
        }
    }
}

fn ranges(ranges: &[(u64, u64)]) -> String {
    let ranges: Vec<String> = ranges.iter().map(|(start, end)| format!("{start}..{end}")).collect();
    format!("[{}]", ranges.join(", "))
}
