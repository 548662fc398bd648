//! `expect` and `limit` lines with resolved names.

use super::ValueId;
use super::checker::Checker;
use super::error::{CheckError, Checked};
use crate::diag::{did_you_mean, nearest};
use crate::layout::DimId;
use crate::mesh::AxisSet;
use crate::span::Span;
use crate::syntax::{self, Amount, Measure, Name, NamedMove};

/// The moves that can be expected.
const KINDS: [&str; 8] =
    ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute", "Reshard", "Shift", "Broadcast"];

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The expectation.
    pub kind: ExpectationKind,
    /// The line as printed: `time < 500us`.
    pub text: String,
    /// The statement.
    pub span: Span,
}

/// Kinds of expectations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectationKind {
    /// An upper limit.
    Bound {
        /// The measure.
        measure: Measure,
        /// Whether the amount itself is excluded (`<`).
        strict: bool,
        /// The amount.
        amount: Amount,
    },
    /// No communication.
    NoCommunication,
    /// These moves, in this order, in the statements that make an array.
    Collectives {
        /// The array's name.
        array: String,
        /// The statements.
        statements: Vec<Span>,
        /// The moves.
        moves: Vec<ExpectedMove>,
    },
}

/// An expected move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMove {
    /// The kind, such as `AllGather`.
    pub kind: String,
    /// The axes; `None` for any.
    pub axes: Option<AxisSet>,
    /// The axes by destination dim, or by the parts of that dim; empty for any.
    pub onto: Vec<(AxisSet, Vec<DimId>)>,
}

/// A hard limit on the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The measure.
    pub measure: Measure,
    /// The amount.
    pub amount: Amount,
    /// The statement.
    pub span: Span,
}

impl Checker {
    /// Resolves the names of an `expect` line in the scope of the line.
    pub(super) fn expect(&mut self, said: &syntax::Expectation, span: Span) -> Checked<()> {
        let kind = match said {
            syntax::Expectation::Bound { measure, strict, amount } => {
                ExpectationKind::Bound { measure: *measure, strict: *strict, amount: amount.clone() }
            }
            syntax::Expectation::NoCommunication => ExpectationKind::NoCommunication,
            syntax::Expectation::Collectives { array, moves } => {
                let id = self.expected_array(array)?;
                let moves = moves.iter().map(|expected| self.expected_move(expected)).collect::<Checked<_>>()?;
                ExpectationKind::Collectives { array: array.node.clone(), statements: self.makers(array, id), moves }
            }
        };
        self.expectations.push(Expectation { kind, text: said.to_string(), span });
        Ok(())
    }

    /// The array of a name; an expectation does not count as a use.
    fn expected_array(&mut self, name: &Name) -> Checked<ValueId> {
        let used = self.binding(&name.node).is_some_and(|binding| binding.used);
        let id = self.lookup(name, "an array must be declared or computed above")?;
        if let Some(place) = self.scope.get(&name.node) {
            self.bindings[*place].used = used;
        }
        Ok(id)
    }

    /// The statements that have bound the array's name so far.
    fn makers(&self, name: &Name, id: ValueId) -> Vec<Span> {
        let same = |value: &&super::Value| value.name.as_deref() == Some(&name.node);
        let made = self.values.iter().filter(same).filter(|value| !value.definition.is_input());
        let mut spans: Vec<Span> = made.map(|value| value.span).chain([self.value(id).span]).collect();
        spans.sort_unstable();
        spans.dedup();
        spans
    }

    fn expected_move(&mut self, expected: &NamedMove) -> Checked<ExpectedMove> {
        let (kind, at) = (expected.kind.node.as_str(), expected.kind.span);
        if !KINDS.contains(&kind) {
            let help = match nearest(kind, KINDS.into_iter()) {
                Some(near) => did_you_mean(near),
                None => {
                    let words = expected.subscript.iter().map(|item| item.node.as_str());
                    let whole: String = std::iter::once(kind).chain(words).collect();
                    let is_near = |near: &&&str| whole.to_lowercase().starts_with(&near.to_lowercase());
                    match KINDS.iter().find(is_near) {
                        Some(near) => format!("write `{near}`, and its axes after `_`"),
                        None => format!("collectives are {}", KINDS.join(", ")),
                    }
                }
            };
            return Err(CheckError::UnknownMove { name: kind.to_owned(), at, help }.into());
        }
        let words = expected.subscript.as_slice();
        let (mut axes, mut onto, mut start) = (AxisSet::NONE, Vec::new(), 0);
        for (at, word) in words.iter().enumerate() {
            let is_last = at + 1 == words.len();
            let is_known = self.named_dims.contains_key(&word.node) || self.parts.contains_key(&word.node);
            let may_be_dim = at > start && self.axes_named(&word.node).is_none();
            // A dim stands behind its axes; of several, those in between are dims if such dims are declared.
            let ends = match kind {
                "ReduceScatter" => may_be_dim && (is_last || is_known),
                "AllToAll" => may_be_dim && is_last,
                _ => false,
            };
            if ends {
                let own: AxisSet = self.axes(&words[start..at])?.into_iter().map(|(axis, _)| axis).collect();
                let dims = self.dims_named(&word.node, word.span)?.into_iter().map(|dim| dim.id).collect();
                onto.push((own, dims));
                axes = axes.union(own);
                start = at + 1;
            }
        }
        let rest: AxisSet = self.axes(&words[start..])?.into_iter().map(|(axis, _)| axis).collect();
        let axes = (!words.is_empty()).then_some(axes.union(rest));
        Ok(ExpectedMove { kind: kind.to_owned(), axes, onto })
    }
}
