//! What a module that XLA has partitioned communicates, beside a plan of the same program.
//!
//! ```text
//! HLO text ─► hlo ─► moves ─► prices on the links of the program ─┐
//! program  ─► plan ─► its collectives ────────────────────────────┴─► lines of the model's source
//! ```

mod hlo;
mod price;

pub use hlo::{Module, read};
pub use price::{Paid, planned, priced};

use crate::span::Span;

/// Why a module is not audited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum AuditError {
    /// The text is not an HLO module.
    #[error("this is not a partitioned HLO module")]
    #[diagnostic(
        code("audit-unreadable"),
        help("expected the text that `jax.jit(f).lower(..).compile().as_text()` prints")
    )]
    NoModule {
        /// The first line.
        #[label(primary, "expected `HloModule` and an `ENTRY` computation")]
        at: Span,
    },
    /// A collective cannot be read.
    #[error("this collective cannot be read: {why}")]
    #[diagnostic(code("audit-unreadable"))]
    Unreadable {
        /// What is wrong.
        why: String,
        /// The line.
        #[label(primary, "this instruction")]
        at: Span,
    },
}

/// The kind of a collective of HLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `all-gather`
    AllGather,
    /// `all-reduce`
    AllReduce,
    /// `reduce-scatter`
    ReduceScatter,
    /// `all-to-all`, ragged ones too
    AllToAll,
    /// `collective-permute`
    Permute,
    /// `collective-broadcast`
    Broadcast,
}

impl Kind {
    /// The kind of an opcode.
    fn of(opcode: &str) -> Option<Kind> {
        Some(match opcode {
            "all-gather" => Kind::AllGather,
            "all-reduce" => Kind::AllReduce,
            "reduce-scatter" => Kind::ReduceScatter,
            "all-to-all" | "ragged-all-to-all" => Kind::AllToAll,
            "collective-permute" => Kind::Permute,
            "collective-broadcast" => Kind::Broadcast,
            _ => return None,
        })
    }

    /// The name in the notation.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllGather => "AllGather",
            Kind::AllReduce => "AllReduce",
            Kind::ReduceScatter => "ReduceScatter",
            Kind::AllToAll => "AllToAll",
            Kind::Permute => "Permute",
            Kind::Broadcast => "Broadcast",
        }
    }

    /// Bytes that a device of a group of `n` receives at the least, if the local result has `bytes`.
    pub fn received(self, bytes: u64, n: u64) -> u64 {
        let others = n.saturating_sub(1);
        let share = |bytes: u128| u64::try_from(bytes / u128::from(n.max(1))).unwrap_or(u64::MAX);
        match self {
            Kind::AllGather | Kind::AllToAll => share(u128::from(bytes) * u128::from(others)),
            Kind::AllReduce => share(2 * u128::from(bytes) * u128::from(others)),
            Kind::ReduceScatter => bytes.saturating_mul(others),
            Kind::Permute | Kind::Broadcast => bytes,
        }
    }
}

/// A line of the model's source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// File name, without its folder.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
}

impl std::fmt::Display for Place {
    /// `model.py:12`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A collective of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its kind.
    pub kind: Kind,
    /// Bytes of its result on one device.
    pub bytes: u64,
    /// Bytes of an element of its widest array.
    pub width: u64,
    /// Groups of devices; for a permute, pairs of source and target.
    pub groups: Vec<Vec<u64>>,
    /// How often it is done, by the trip counts of the loops around it; a loop of unknown length counts once.
    pub times: u64,
    /// The line that it comes from.
    pub place: Option<Place>,
}

#[cfg(test)]
mod tests;
