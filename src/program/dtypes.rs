//! Element types that do not go together: an array of a wrong type is told of once, however often it is used.

use super::checker::Checker;
use super::error::{CheckError, Failure};
use super::{Definition, ValueId};
use crate::dtype::DType;
use crate::function::Function;
use crate::span::Span;
use std::collections::BTreeSet;

/// What was told of element types, by the arrays that have them as they were declared or made.
#[derive(Debug, Default)]
pub(super) struct ToldDTypes {
    /// Arrays that do not go with another type.
    differ: BTreeSet<(ValueId, DType)>,
    /// Arrays that should be floats.
    no_floats: BTreeSet<ValueId>,
}

impl Checker {
    /// Two arrays that do not go together.
    pub(super) fn dtypes_differ(&mut self, operation: &'static str, operands: [ValueId; 2], at: Span) -> Failure {
        let [left, right] = operands.map(|id| self.value(id).dtype);
        let of = operands.map(|id| self.typed_by(id));
        let pairs = [(of[0], right), (of[1], left)];
        let told = pairs.iter().any(|pair| self.told_dtypes.differ.contains(pair))
            || of.iter().any(|id| self.told_dtypes.no_floats.contains(id));
        self.told_dtypes.differ.extend(pairs);
        if told { Failure::Told } else { CheckError::DTypeMismatch { operation, left, right, at }.into() }
    }

    /// An array of whole numbers where floats are needed.
    pub(super) fn no_float(&mut self, operand: ValueId, operation: String, at: Span) -> Failure {
        let (of, dtype) = (self.typed_by(operand), self.value(operand).dtype);
        let told = !self.told_dtypes.no_floats.insert(of) || self.told_dtypes.differ.iter().any(|(id, _)| *id == of);
        if told { Failure::Told } else { CheckError::NeedsFloat { operation, dtype, at }.into() }
    }

    /// The array that gave a value its type: what only moves, renames or changes each element keeps it.
    fn typed_by(&self, mut id: ValueId) -> ValueId {
        loop {
            id = match &self.value(id).definition {
                Definition::Move { operand, .. }
                | Definition::Rename { operand }
                | Definition::Collective { operand, .. }
                | Definition::Reduce { operand, .. } => *operand,
                Definition::Map { function: Function::Cast(_), .. }
                | Definition::Product { .. }
                | Definition::Input { .. } => {
                    return id;
                }
                // Of several the first that is no mask.
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
