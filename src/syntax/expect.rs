//! What a program expects of its plan: `expect time < 500us`, `expect collectives C = [AllGather_X]`, `limit memory 300MB`.

use super::Name;
use super::build::{Builder, Result, find};
use super::error::SyntaxError;
use super::grammar::Rule;
use crate::span::Span;
use itertools::Itertools;
use pest::iterators::Pair;
use std::fmt::{self, Display, Formatter};

/// What an `expect` line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// `time < 500us`, `memory <= 2GiB`
    Bound {
        /// What is measured.
        measure: Measure,
        /// `<`: the amount itself is too much.
        strict: bool,
        /// At most this.
        amount: Amount,
    },
    /// `no communication`
    NoCommunication,
    /// `collectives C = [AllGather_X, ReduceScatter_{X,K}]`
    Collectives {
        /// The array whose statements are meant.
        array: Name,
        /// The moves in order.
        moves: Vec<NamedMove>,
    },
}

/// What can be bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Of the whole program.
    Time,
    /// The most bytes that one device holds at once.
    Memory,
    /// The bytes that the fullest device receives, or the time of the moves.
    Communication,
    /// Floating-point operations of one device.
    Flops,
}

/// An amount as it was written, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// `500us`
    pub text: String,
    /// Picoseconds, bytes or floating-point operations.
    pub value: u128,
    /// What it counts.
    pub unit: Unit,
    /// Its place.
    pub span: Span,
}

/// What an amount counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole picoseconds.
    Picoseconds,
    /// Bytes.
    Bytes,
    /// A bare number.
    Operations,
}

/// `AllGather_X`, `ReduceScatter_{X,K}`; without a subscript, any of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMove {
    /// `AllGather`
    pub kind: Name,
    /// The items after `_`, cut at commas and arrows.
    pub subscript: Vec<Name>,
}

/// The units, what they count, and how much of it: a power of ten, or of 1024.
const UNITS: [(&str, Unit, u128); 16] = [
    ("ps", Unit::Picoseconds, 1),
    ("ns", Unit::Picoseconds, 1_000),
    ("us", Unit::Picoseconds, 1_000_000),
    ("ms", Unit::Picoseconds, 1_000_000_000),
    ("s", Unit::Picoseconds, 1_000_000_000_000),
    ("B", Unit::Bytes, 1),
    ("kB", Unit::Bytes, 1_000),
    ("MB", Unit::Bytes, 1_000_000),
    ("GB", Unit::Bytes, 1_000_000_000),
    ("TB", Unit::Bytes, 1_000_000_000_000),
    ("KiB", Unit::Bytes, 1 << 10),
    ("MiB", Unit::Bytes, 1 << 20),
    ("GiB", Unit::Bytes, 1 << 30),
    ("TiB", Unit::Bytes, 1 << 40),
    ("FLOPs", Unit::Operations, 1),
    ("", Unit::Operations, 1),
];

impl Measure {
    const ALL: [Measure; 4] = [Measure::Time, Measure::Memory, Measure::Communication, Measure::Flops];

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Memory => "memory",
            Measure::Communication => "communication",
            Measure::Flops => "flops",
        }
    }

    fn takes(self, unit: Unit) -> bool {
        match self {
            Measure::Time => unit == Unit::Picoseconds,
            Measure::Memory => unit == Unit::Bytes,
            Measure::Communication => unit != Unit::Operations,
            Measure::Flops => unit == Unit::Operations,
        }
    }

    fn units(self) -> String {
        let units = UNITS.iter().filter(|(name, unit, _)| !name.is_empty() && self.takes(*unit));
        units.map(|(name, ..)| format!("`{name}`")).join(", ")
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

    /// A measure and an amount of it.
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
            units: if measure == Measure::Flops { "numbers such as `4e12`".to_owned() } else { measure.units() },
            at: span.into(),
        };
        let known = UNITS.iter().find(|(name, kind, _)| *name == unit && measure.takes(*kind));
        let (_, kind, factor) = known.ok_or_else(|| wrong("the unit does not fit"))?;
        let value = scaled(number.as_str(), *factor).ok_or_else(|| wrong("it is too large or too fine"))?;
        Ok((measure, Amount { text, value, unit: *kind, span }))
    }
}

/// An amount of a measure, `10s`, `2GB`, in its smallest unit: picoseconds, bytes, operations. `None` if it is none.
pub fn quantity(measure: Measure, text: &str) -> Option<u128> {
    let text = text.trim();
    let unit = UNITS.iter().filter(|(name, kind, _)| text.ends_with(name) && measure.takes(*kind));
    let (name, _, factor) = unit.max_by_key(|(name, ..)| name.len())?;
    scaled(text[..text.len() - name.len()].trim_end(), *factor)
}

/// A decimal number times a factor; `None` if that is no whole number below 2^100.
fn scaled(number: &str, factor: u128) -> Option<u128> {
    const MOST: u128 = 1 << 100;
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok().filter(|value| *value < MOST)?;
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let power = 10u128.checked_pow(u32::try_from(exponent.unsigned_abs()).ok()?);
    let value = mantissa.checked_mul(factor)?;
    if value == 0 {
        return Some(0);
    }
    let value = match exponent < 0 {
        true => power.filter(|power| value.is_multiple_of(*power)).map(|power| value / power)?,
        false => value.checked_mul(power?)?,
    };
    (value < MOST).then_some(value)
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
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn amounts_are_exact() {
        for (number, factor, value) in [
            ("500", 1_000_000, Some(500_000_000)),
            ("2.5", 1_000, Some(2_500)),
            ("4e12", 1, Some(4_000_000_000_000)),
            ("0.1", 1 << 30, None),
            ("1.50", 2, Some(3)),
            ("1e-3", 1_000, Some(1)),
            ("1e99", 1, None),
            ("1e99999999999999999999", 1, None),
        ] {
            assert_eq!(scaled(number, factor), value, "{number}");
        }
    }

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
