//! Dtype mismatches: each array of a wrong dtype is reported once.

use super::checker::Checker;
use super::error::{CheckError, Failure};
use super::{Definition, ValueId};
use crate::dtype::DType;
use crate::function::Function;
use crate::span::Span;
use std::collections::BTreeSet;

/// Reported dtype errors, by the array that has the dtype as declared or computed.
#[derive(Debug, Default)]
pub(super) struct ReportedDTypes {
    /// Arrays whose dtype does not match another's.
    differ: BTreeSet<(ValueId, DType)>,
    /// Arrays that should be floats.
    no_floats: BTreeSet<ValueId>,
}

impl Checker {
    /// Reports two arrays of different dtypes.
    pub(super) fn dtypes_differ(&mut self, operation: &'static str, operands: [ValueId; 2], at: Span) -> Failure {
        let [left, right] = operands.map(|id| self.value(id).dtype);
        let of = operands.map(|id| self.typed_by(id));
        let pairs = [(of[0], right), (of[1], left)];
        let reported = pairs.iter().any(|pair| self.reported_dtypes.differ.contains(pair))
            || of.iter().any(|id| self.reported_dtypes.no_floats.contains(id));
        self.reported_dtypes.differ.extend(pairs);
        if reported { Failure::Reported } else { CheckError::DTypeMismatch { operation, left, right, at }.into() }
    }

    /// Reports an integer array where floats are required.
    pub(super) fn no_float(&mut self, operand: ValueId, operation: String, at: Span) -> Failure {
        let (of, dtype) = (self.typed_by(operand), self.value(operand).dtype);
        let reported =
            !self.reported_dtypes.no_floats.insert(of) || self.reported_dtypes.differ.iter().any(|(id, _)| *id == of);
        if reported { Failure::Reported } else { CheckError::NeedsFloat { operation, dtype, at }.into() }
    }

    /// The origin of a value's dtype: moves, renames and elementwise functions keep it.
    fn typed_by(&self, mut id: ValueId) -> ValueId {
        loop {
            id = match &self.value(id).definition {
                Definition::Move { operand, .. }
                | Definition::Rename { operand }
                | Definition::Collective { operand, .. }
                | Definition::Reduce { operand, .. } => *operand,
                Definition::Map { function: Function::Cast(_), .. }
                | Definition::Product { .. }
                | Definition::Kernel { .. }
                | Definition::Input { .. } => {
                    return id;
                }
                // The first operand that is not a mask.
                Definition::Map { function, operands } => {
                    let masks = usize::from(matches!(function, Function::Where | Function::Masked(_)));
                    match operands.get(masks) {
                        Some(operand) => *operand,
                        None => return id,
                    }
                }
            };
        }
    }
}
