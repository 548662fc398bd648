//! What can be wrong with a schedule, and where.

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
    /// `%7 on d5 (X 1, Y 2)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coordinates: Vec<String> = self.coordinates.iter().map(|(axis, at)| format!("{axis} {at}")).collect();
        write!(f, "%{} on {} ({})", self.operation.index(), self.device, coordinates.join(", "))
    }
}

/// The first thing that is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum Flaw {
    /// The schedule is none.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// The definition of an array reads padding, or is too large to be followed.
    #[error("the definition of array `{array}` is malformed: {what}")]
    #[diagnostic(code("proof-malformed-array"))]
    MalformedArray {
        /// Its name.
        array: String,
        /// What is wrong.
        what: String,
    },
    /// A message to a device cannot go as it is told to.
    #[error("{site}: the message has no way: {why}")]
    #[diagnostic(code("proof-no-way"), help("write the schedule for the links that the machine has"))]
    NoWay {
        /// Where it should arrive.
        site: Site,
        /// What is in its way.
        why: String,
    },
    /// A contribution would be there twice.
    #[error("{site}: {slot} is counted twice: operands {} and {} share a contribution", operands.0, operands.1)]
    #[diagnostic(code("proof-counted-twice"), help("each contribution to a sum must be added once"))]
    CountedTwice {
        /// Where.
        site: Site,
        /// What.
        slot: Slot,
        /// The first two operands that have it, by their place from 0.
        operands: (usize, usize),
    },
    /// Elements of different places of an array are combined, or an output has an element of another place.
    #[error("{site}: {found} stands where {expected} belongs")]
    #[diagnostic(code("proof-wrong-place"))]
    WrongPlace {
        /// Where.
        site: Site,
        /// What should be there.
        expected: Slot,
        /// What is there.
        found: Slot,
    },
    /// Elements of different arrays are combined, or an output is another array.
    #[error("{site}: {found} of another array stands where {expected} belongs")]
    #[diagnostic(code("proof-wrong-array"))]
    WrongArray {
        /// Where.
        site: Site,
        /// What should be there.
        expected: Slot,
        /// What is there.
        found: Slot,
    },
    /// Open pieces are combined with an operator that is not theirs.
    #[error("{site}: pieces of {slot} are combined with {used}, and must be with {needed}")]
    #[diagnostic(code("proof-wrong-operator"))]
    WrongOperator {
        /// Where.
        site: Site,
        /// What.
        slot: Slot,
        /// The operator of the operation or declaration.
        used: Operator,
        /// That of the pieces.
        needed: Operator,
    },
    /// A value that the operation needs is not there.
    #[error("{site}: the value of {missing} is read where it is absent")]
    #[diagnostic(code("proof-read-absent"))]
    ReadAbsent {
        /// Where.
        site: Site,
        /// On which device there is nothing.
        missing: DeviceId,
    },
    /// A part of a block gets no value.
    #[error("{site}: nothing fills the block at {}", ranges(gap))]
    #[diagnostic(code("proof-unfilled"))]
    Unfilled {
        /// Where.
        site: Site,
        /// First and one past the last in each dim of the result's view.
        gap: Vec<(u64, u64)>,
    },
    /// A part of a block gets two values.
    #[error("{site}: operands {} and {} both fill the block at {}", operands.0, operands.1, ranges(overlap))]
    #[diagnostic(code("proof-filled-twice"))]
    FilledTwice {
        /// Where.
        site: Site,
        /// First and one past the last in each dim of the result's view.
        overlap: Vec<(u64, u64)>,
        /// The operands, by their place from 0.
        operands: (usize, usize),
    },
    /// The elements of an operand are no region of one array in its order, or they are summed unequally far.
    #[error("{site}: operand {operand} is no region of one array: it has {first} and also {other}")]
    #[diagnostic(code("proof-scattered-operand"))]
    ScatteredOperand {
        /// Where.
        site: Site,
        /// Its place, from 0.
        operand: usize,
        /// The first piece.
        first: Slot,
        /// One that does not continue it.
        other: Slot,
    },
    /// The ranges of operands differ in an index that they share.
    #[error("{site}: operands do not meet: {left} with {right}")]
    #[diagnostic(
        code("proof-operands-do-not-meet"),
        help("along a shared index both operands must hold the same range of the same length")
    )]
    DoNotMeet {
        /// Where.
        site: Site,
        /// One operand.
        left: Slot,
        /// Another.
        right: Slot,
    },
    /// A function needs more than a device has of it.
    #[error("{site}: {function} needs all of dim {dim}, and has {slot}")]
    #[diagnostic(code("proof-partial-dim"))]
    PartialDim {
        /// Where.
        site: Site,
        /// The function.
        function: String,
        /// The place of the dim.
        dim: usize,
        /// What is there.
        slot: Slot,
    },
    /// A filler takes lanes for padding by their place, and they stand elsewhere.
    #[error("{site}: the filler takes {slot} for another block of dim {dim}")]
    #[diagnostic(code("proof-filler-place"))]
    FillerPlace {
        /// Where.
        site: Site,
        /// The place of the dim.
        dim: usize,
        /// What is there.
        slot: Slot,
    },
    /// A function of an open sum that is not that of its pieces.
    #[error("{site}: {function} of {slot}, whose sum is open: {missing} is missing")]
    #[diagnostic(code("proof-open-operand"), help("close the sum before this operation"))]
    OpenOperand {
        /// Where.
        site: Site,
        /// The function.
        function: String,
        /// Of what.
        slot: Slot,
        /// The first contribution that it lacks.
        missing: String,
    },
    /// An output has nothing on a device.
    #[error("{site}: {slot} is missing: the output is absent")]
    #[diagnostic(code("proof-missing"))]
    Missing {
        /// Where.
        site: Site,
        /// What should be there.
        slot: Slot,
    },
    /// An output lacks contributions.
    #[error("{site}: the sum of {slot} is not complete: {missing} is missing")]
    #[diagnostic(code("proof-missing-contribution"))]
    MissingContribution {
        /// Where.
        site: Site,
        /// Of what.
        slot: Slot,
        /// The first contribution that it lacks.
        missing: String,
    },
    /// The proof would take too much time or memory.
    #[error("the schedule is too large to be proven: {what}")]
    #[diagnostic(code("proof-too-large"))]
    TooLarge {
        /// What there is too much of.
        what: String,
    },
}

impl Flaw {
    /// The operation where it shows first.
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
            | Flaw::OpenOperand { site, .. }
            | Flaw::Missing { site, .. }
            | Flaw::MissingContribution { site, .. } => Some(site.operation),
        }
    }

    /// The operands of that operation that it is about, by their place from 0.
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
