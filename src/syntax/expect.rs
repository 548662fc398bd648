//! Expectations and limits: `expect time < 500us`, `expect collectives C = [AllGather_X]`, `limit memory 300MB`.

use super::Name;
use super::build::{Builder, Result, find};
use super::error::SyntaxError;
use super::grammar::Rule;
use crate::amount;
use crate::span::Span;
use itertools::Itertools;
use pest::iterators::Pair;
use std::fmt::{self, Display, Formatter};

/// The content of an `expect` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// `time < 500us`, `memory <= 2GiB`.
    Bound {
        /// The measure.
        measure: Measure,
        /// Whether the amount itself is excluded (`<`).
        strict: bool,
        /// The upper limit.
        amount: Amount,
    },
    /// `no communication`.
    NoCommunication,
    /// `collectives C = [AllGather_X, ReduceScatter_{X,K}]`.
    Collectives {
        /// The array.
        array: Name,
        /// The moves in order.
        moves: Vec<NamedMove>,
    },
}

/// Measures with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time of the whole program.
    Time,
    /// Peak memory of a device.
    Memory,
    /// Bytes received by the busiest device, or the time of the moves.
    Communication,
    /// Floating-point operations of one device.
    Flops,
}

/// An amount: its text and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The text, `500us`.
    pub text: String,
    /// Picoseconds, bytes or floating-point operations.
    pub value: u128,
    /// The unit kind.
    pub unit: Unit,
    /// Its place.
    pub span: Span,
}

/// Unit kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole picoseconds.
    Picoseconds,
    /// Bytes.
    Bytes,
    /// A bare number.
    Operations,
}

/// An expected move: `AllGather_X`, `ReduceScatter_{X,K}`; without a subscript, any of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMove {
    /// The kind, such as `AllGather`.
    pub kind: Name,
    /// The items after `_`, split at commas and arrows.
    pub subscript: Vec<Name>,
}

impl Unit {
    /// Unit suffixes and their values in picoseconds, bytes or operations.
    fn words(self) -> &'static [amount::Unit] {
        match self {
            Unit::Picoseconds => &amount::TIME,
            Unit::Bytes => &amount::BYTES,
            Unit::Operations => &[("FLOPs", 1), ("", 1)],
        }
    }
}

impl Measure {
    const ALL: [Measure; 4] = [Measure::Time, Measure::Memory, Measure::Communication, Measure::Flops];

    /// The keyword of a measure.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Memory => "memory",
            Measure::Communication => "communication",
            Measure::Flops => "flops",
        }
    }

    /// The unit kind of a measure.
    fn units(self) -> &'static [Unit] {
        match self {
            Measure::Time => &[Unit::Picoseconds],
            Measure::Memory => &[Unit::Bytes],
            Measure::Communication => &[Unit::Picoseconds, Unit::Bytes],
            Measure::Flops => &[Unit::Operations],
        }
    }

    fn words(self) -> impl Iterator<Item = (Unit, amount::Unit)> {
        self.units().iter().flat_map(|unit| unit.words().iter().map(|word| (*unit, *word)))
    }
}

impl Builder {
    pub(super) fn expectation(&self, pair: Pair<'_, Rule>) -> Result<Expectation> {
        let said = pair.into_inner().find(|part| part.as_rule() != Rule::expect_word).expect("something is expected");
        match said.as_rule() {
            Rule::no_communication => Ok(Expectation::NoCommunication),
            Rule::expect_collectives => {
                let array = find(said.clone(), Rule::array_name).expect("the moves of an array");
                let moves = said.into_inner().filter(|part| part.as_rule() == Rule::named_move);
                Ok(Expectation::Collectives {
                    array: self.name(&array),
                    moves: moves.map(|m| self.named_move(m)).collect(),
                })
            }
            _ => {
                let strict = find(said.clone(), Rule::less).is_some_and(|sign| sign.as_str() == "<");
                let (measure, amount) = self.bound(said)?;
                Ok(Expectation::Bound { measure, strict, amount })
            }
        }
    }

    fn named_move(&self, pair: Pair<'_, Rule>) -> NamedMove {
        let mut parts = pair.into_inner();
        let kind = self.name(&parts.next().expect("a move has its word"));
        NamedMove { kind, subscript: parts.next().map(|items| self.items(items)).unwrap_or_default() }
    }

    /// A measure and its amount.
    pub(super) fn bound(&self, pair: Pair<'_, Rule>) -> Result<(Measure, Amount)> {
        let word = find(pair.clone(), Rule::measure).expect("a bound is on something");
        let measure = Measure::ALL.into_iter().find(|measure| measure.name() == word.as_str());
        let measure = measure.expect("the grammar has the words");
        let amount = find(pair, Rule::amount).expect("a bound has an amount");
        let span = self.span(&amount);
        let number = find(amount.clone(), Rule::quantity).expect("an amount is a number");
        let unit = find(amount, Rule::unit).map(|unit| unit.as_str().to_owned()).unwrap_or_default();
        let text = format!("{}{unit}", number.as_str());
        let wrong = |why: &str| SyntaxError::BadAmount {
            text: text.clone(),
            measure: measure.name(),
            why: why.to_owned(),
            units: match measure {
                Measure::Flops => "numbers such as `4e12`".to_owned(),
                Measure::Time | Measure::Memory | Measure::Communication => {
                    measure.words().map(|(_, (name, _))| format!("`{name}`")).join(", ")
                }
            },
            at: span.into(),
        };
        let known = measure.words().find(|(_, (name, _))| *name == unit);
        let (kind, (_, factor)) =
            known.ok_or_else(|| wrong(if unit.is_empty() { "the unit is missing" } else { "unknown unit" }))?;
        let value = amount::scaled(number.as_str(), factor).ok_or_else(|| wrong("not representable"))?;
        Ok((measure, Amount { text, value, unit: kind, span }))
    }
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Bound { measure, strict, amount } => {
                let sign = if *strict { "<" } else { "<=" };
                write!(f, "{} {sign} {}", measure.name(), amount.text)
            }
            Expectation::NoCommunication => f.write_str("no communication"),
            Expectation::Collectives { array, moves } => {
                write!(f, "collectives {} = [{}]", array.node, moves.iter().format(", "))
            }
        }
    }
}

impl Display for NamedMove {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = self.subscript.iter().map(|word| &word.node);
        match self.subscript.len() {
            0 => f.write_str(&self.kind.node),
            1 => write!(f, "{}_{}", self.kind.node, words.format(",")),
            _ => write!(f, "{}_{{{}}}", self.kind.node, words.format(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse;

    #[test]
    fn what_is_expected_prints_as_it_reads() {
        for text in [
            "expect time < 500us",
            "expect memory <= 2GiB",
            "expect communication < 1MB",
            "expect communication <= 3.5us",
            "expect no communication",
            "expect collectives C = [AllGather_X, ReduceScatter_{X,K}, AllReduce]",
            "expect collectives C = []",
            "limit memory 300MB",
            "limit flops 4e12",
        ] {
            let (ast, diagnostics) = parse(text);
            assert_eq!(ast.to_string(), format!("{text}\n"), "{diagnostics:?}");
        }
        for (text, code) in [
            ("expect time < 5MB", "bad-amount"),
            ("expect memory < 5parsecs", "bad-amount"),
            ("limit memory 0.1B", "bad-amount"),
            ("expect time", "unexpected-end"),
            ("expect speed < 5us", "unexpected-text"),
            ("expect collectives C = [AllGather_X", "unclosed-bracket"),
        ] {
            let (_, diagnostics) = parse(text);
            let codes: Vec<&str> = diagnostics.iter().map(|found| found.code.as_str()).collect();
            assert_eq!(codes, [code], "{text}");
        }
        // They are no reserved words.
        assert!(parse("expect = limit + A").1.is_empty());
    }
}
