//! How the pieces of an open sum are combined.

use std::fmt;

/// The operator of an open sum and of an `Add`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The sum; integers wrap. Written `U`.
    #[default]
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Operator {
    /// The word inside open-sum braces: `{U_X}`, `{MAX_X}`.
    pub fn word(self) -> &'static str {
        match self {
            Operator::Sum => "U",
            Operator::Max => "MAX",
            Operator::Min => "MIN",
        }
    }

    /// The operator written with this word.
    pub fn from_word(word: &str) -> Option<Operator> {
        [Operator::Sum, Operator::Max, Operator::Min].into_iter().find(|operator| operator.word() == word)
    }

    /// Whether combining a contribution twice changes nothing.
    pub fn is_idempotent(self) -> bool {
        match self {
            Operator::Sum => false,
            Operator::Max | Operator::Min => true,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operator::Sum => "sum",
            Operator::Max => "max",
            Operator::Min => "min",
        })
    }
}
