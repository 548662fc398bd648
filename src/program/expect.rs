//! What a program expects of its plan, with names resolved.

use super::ValueId;
use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::names::nearest;
use crate::layout::DimId;
use crate::mesh::AxisSet;
use crate::span::Span;
use crate::syntax::{self, Amount, Measure, Name, NamedMove};

/// The moves that can be expected.
const KINDS: [&str; 7] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute", "Reshard", "Broadcast"];

/// What one line expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// What that is.
    pub kind: ExpectationKind,
    /// The line, as it prints: `time < 500us`.
    pub text: String,
    /// The statement.
    pub span: Span,
}

/// What can be expected of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectationKind {
    /// So much at most.
    Bound {
        /// Of what.
        measure: Measure,
        /// The amount itself is too much.
        strict: bool,
        /// How much.
        amount: Amount,
    },
    /// No device sends anything.
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

/// A move that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMove {
    /// `AllGather`
    pub kind: String,
    /// Over which axes; `None` for any.
    pub axes: Option<AxisSet>,
    /// Which of them go to which dim, or to the dims that it is made of; empty for any.
    pub onto: Vec<(AxisSet, Vec<DimId>)>,
}

/// What no plan may exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Of what.
    pub measure: Measure,
    /// How much.
    pub amount: Amount,
    /// The statement.
    pub span: Span,
}

impl Checker {
    /// Resolves the names of an `expect` line; those are names as they stand at its place.
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

    /// The array of that name; to expect something of it is no use of it.
    fn expected_array(&mut self, name: &Name) -> Checked<ValueId> {
        let used = self.binding(&name.node).is_some_and(|binding| binding.used);
        let id = self.lookup(name, "an array is declared or computed above")?;
        if let Some(place) = self.scope.get(&name.node) {
            self.bindings[*place].used = used;
        }
        Ok(id)
    }

    /// The statements that make an array: every one that has bound its name so far.
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
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a plan moves by {}", KINDS.join(", ")),
            };
            return Err(CheckError::UnknownMove { name: kind.to_owned(), at, help }.into());
        }
        let words = expected.subscript.as_slice();
        let (mut axes, mut onto, mut start) = (AxisSet::NONE, Vec::new(), 0);
        for (at, word) in words.iter().enumerate() {
            let is_last = at + 1 == words.len();
            let is_known = self.named_dims.contains_key(&word.node) || self.parts.contains_key(&word.node);
            let may_be_dim = at > start && self.axes_named(&word.node).is_none();
            // A dim stands behind its axes; of several, those in between are told from axes by being known.
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
