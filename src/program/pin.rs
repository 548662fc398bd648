//! `by gather(A)`: the requested strategy of a product.

use super::checker::{Checker, quoted};
use super::error::{CheckError, Checked};
use super::{Definition, Program, ValueId};
use crate::diag::{did_you_mean, nearest};
use crate::syntax::PinRef;
use itertools::Itertools;
use std::ops::Range;

/// Strategies of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Gather an operand before the product.
    Gather,
    /// Leave the sum open, and reduce the result.
    Reduce,
    /// Slice an operand that holds more than it needs.
    Slice,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 3] = [Strategy::Gather, Strategy::Reduce, Strategy::Slice];

    /// The word after `by`.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Gather => "gather",
            Strategy::Reduce => "reduce",
            Strategy::Slice => "slice",
        }
    }

    /// Whether the strategy names operands.
    fn has_operands(self) -> bool {
        match self {
            Strategy::Gather | Strategy::Slice => true,
            Strategy::Reduce => false,
        }
    }
}

/// A strategy and its operands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin {
    /// The strategy.
    pub strategy: Strategy,
    /// The operands of the product, 0 and 1; empty for a reduction.
    pub operands: Vec<usize>,
}

impl Pin {
    /// Every pin of a product of two operands.
    pub fn all() -> impl Iterator<Item = Pin> + Clone {
        let operands = |strategy: Strategy| match strategy.has_operands() {
            true => vec![vec![0], vec![1], vec![0, 1]],
            false => vec![Vec::new()],
        };
        let of = move |strategy| operands(strategy).into_iter().map(move |operands| Pin { strategy, operands });
        Strategy::ALL.into_iter().flat_map(of)
    }
}

impl Program {
    /// Parses the pin of a product: `by gather(A)`, or `gather(A)`; the inverse of [`Program::pin_text`].
    pub fn pin_of(&self, product: ValueId, text: &str) -> Option<Pin> {
        let text = text.trim();
        let text = text.strip_prefix("by ").unwrap_or(text).trim();
        let (word, names) = text.split_once('(').unwrap_or((text, ")"));
        let strategy = Strategy::ALL.into_iter().find(|strategy| strategy.name() == word.trim())?;
        let names: Vec<&str> =
            names.strip_suffix(')')?.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let operands = self.value(product).definition.operands();
        let place = |name: &&str| operands.iter().position(|operand| self.name(*operand) == **name);
        let operands: Option<Vec<usize>> = names.iter().map(place).collect();
        operands
            .filter(|operands| strategy.has_operands() != operands.is_empty())
            .map(|operands| Pin { strategy, operands })
    }

    /// Formats the pin of a product: `by gather(A)`.
    pub fn pin_text(&self, product: ValueId, pin: &Pin) -> String {
        let names = pin.operands.iter().map(|place| self.name(self.operand_as_read(product, *place))).join(", ");
        let names = if names.is_empty() { names } else { format!("({names})") };
        format!("by {}{names}", pin.strategy.name())
    }
}

impl Checker {
    /// Pins the product among the values of a statement.
    pub(super) fn pin(&mut self, written: &PinRef, values: Range<usize>) -> Checked<()> {
        let at = written.strategy.span;
        let word = &written.strategy.node;
        let strategy = Strategy::ALL.into_iter().find(|strategy| strategy.name() == word).ok_or_else(|| {
            let known = || Strategy::ALL.into_iter().map(Strategy::name);
            let help = match nearest(word, known()) {
                Some(near) => did_you_mean(near),
                None => "write `by gather(A)`, `by reduce` or `by slice(A)`".to_owned(),
            };
            CheckError::UnknownStrategy { name: word.clone(), at, help }
        })?;
        let products: Vec<usize> =
            values.filter(|value| matches!(self.values[*value].definition, Definition::Product { .. })).collect();
        let [product] = products[..] else {
            let help = match products.len() {
                0 => "remove it; a strategy applies to a product",
                _ => "write each product as its own statement",
            };
            return Err(CheckError::PinProduct { found: products.len(), help, at }.into());
        };
        let operands = self.values[product].definition.operands().to_vec();
        if strategy.has_operands() == written.operands.is_empty() {
            let name = |id: &ValueId| self.values[id.index()].name.clone().unwrap_or_else(|| "..".to_owned());
            let help = match strategy.has_operands() {
                true => format!("name the operand: `by {word}({})`", name(&operands[0])),
                false => format!("write `by {word}`; it applies to the result"),
            };
            return Err(CheckError::PinOperand { what: format!("`{word}`"), at, help }.into());
        }
        let mut places = Vec::new();
        for name in &written.operands {
            let meant = self.lookup(name, "a pin must name an operand of the product")?;
            let found = operands.iter().positions(|operand| *operand == meant).collect_vec();
            if found.is_empty() {
                let known = operands.iter().filter_map(|id| self.values[id.index()].name.as_deref()).map(quoted);
                let known = known.unique().join(" and ");
                let help = match known.is_empty() {
                    true => "name the operands in statements of their own".to_owned(),
                    false => format!("operands are {known}"),
                };
                return Err(CheckError::PinOperand { what: quoted(&name.node), at: name.span, help }.into());
            }
            places.extend(found);
        }
        let operands = places.into_iter().sorted().dedup().collect();
        self.values[product].pin = Some(Pin { strategy, operands });
        Ok(())
    }
}
