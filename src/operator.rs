//! Operators that combine the partial results of open sums.

use crate::dtype::DType;
use std::fmt;

/// The operator of an open sum.
///
/// An `Add` and a reduction over dims combine pairwise and need an operator that [folds](Operator::folds). The others
/// consist of a map, a fold, and a final step: see [`Operator::combiner`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The sum; integers wrap. Written `U`.
    #[default]
    Sum,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// The product; integers wrap.
    Mul,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// The sum, divided by the size of the group.
    Mean,
    /// The sum of squares: each contribution is squared once; partial sums are added.
    SquareAdd,
    /// The block of the first device of the group; absent on the others. A broadcast closes it.
    Root,
}

impl Operator {
    /// All operators.
    pub const ALL: [Operator; 9] = [
        Operator::Sum,
        Operator::Max,
        Operator::Min,
        Operator::Mul,
        Operator::And,
        Operator::Or,
        Operator::Mean,
        Operator::SquareAdd,
        Operator::Root,
    ];

    /// The name in open-sum braces: `{U_X}`, `{MAX_X}`.
    pub fn word(self) -> &'static str {
        match self {
            Operator::Sum => "U",
            Operator::Max => "MAX",
            Operator::Min => "MIN",
            Operator::Mul => "MUL",
            Operator::And => "AND",
            Operator::Or => "OR",
            Operator::Mean => "MEAN",
            Operator::SquareAdd => "SQUARE_ADD",
            Operator::Root => "ROOT",
        }
    }

    /// Parses the name; `LOGICAL_AND` and `LOGICAL_OR` are `AND` and `OR`, `ADD` is `U`.
    pub fn from_word(word: &str) -> Option<Operator> {
        let word = word.strip_prefix("LOGICAL_").filter(|rest| matches!(*rest, "AND" | "OR")).unwrap_or(word);
        let word = if word == "ADD" { "U" } else { word };
        Operator::ALL.into_iter().find(|operator| operator.word() == word)
    }

    /// Parses the displayed name.
    pub fn from_name(name: &str) -> Option<Operator> {
        Operator::ALL.into_iter().find(|operator| operator.name() == name)
    }

    /// The displayed name.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Sum => "sum",
            Operator::Max => "max",
            Operator::Min => "min",
            Operator::Mul => "mul",
            Operator::And => "and",
            Operator::Or => "or",
            Operator::Mean => "mean",
            Operator::SquareAdd => "square_add",
            Operator::Root => "root",
        }
    }

    /// Whether it is idempotent.
    pub fn is_idempotent(self) -> bool {
        match self {
            Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root => true,
            Operator::Sum | Operator::Mul | Operator::Mean | Operator::SquareAdd => false,
        }
    }

    /// Whether it combines pairwise in any order, without a map or a final step.
    pub fn folds(self) -> bool {
        self.combiner() == self && self != Operator::Root
    }

    /// The operator that combines mapped contributions.
    pub fn combiner(self) -> Operator {
        match self {
            Operator::Mean | Operator::SquareAdd => Operator::Sum,
            Operator::Sum
            | Operator::Max
            | Operator::Min
            | Operator::Mul
            | Operator::And
            | Operator::Or
            | Operator::Root => self,
        }
    }

    /// The operator of the remaining open sum after a part of the axes is reduced: squares are squared once.
    pub fn after_part(self) -> Operator {
        match self {
            Operator::SquareAdd => Operator::Sum,
            Operator::Sum
            | Operator::Max
            | Operator::Min
            | Operator::Mul
            | Operator::And
            | Operator::Or
            | Operator::Mean
            | Operator::Root => self,
        }
    }

    /// The dtype of a reduction: sums of 8-bit numbers are widened, like their products.
    pub fn reduced(self, dtype: DType) -> DType {
        if self == Operator::Sum { dtype.widened() } else { dtype }
    }

    /// Whether it supports this dtype.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Operator::And | Operator::Or => dtype == DType::Bool,
            Operator::Mean => dtype.is_float(),
            Operator::Root => true,
            Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => dtype != DType::Bool,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_types() {
        for operator in Operator::ALL {
            assert_eq!(Operator::from_word(operator.word()), Some(operator));
            assert_eq!(Operator::from_name(operator.name()), Some(operator));
        }
        assert_eq!(Operator::from_word("LOGICAL_AND"), Some(Operator::And));
        assert_eq!(Operator::from_word("LOGICAL_OR"), Some(Operator::Or));
        assert_eq!(Operator::from_word("LOGICAL_MAX"), None);
        let takes = |dtype| Operator::ALL.into_iter().filter(|operator| operator.takes(dtype)).count();
        let counts = DType::ALL.map(takes);
        assert_eq!(counts, [3, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7]);
    }
}
