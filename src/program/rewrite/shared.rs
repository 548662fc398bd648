//! Common subexpression elimination, and hoisting of loop-invariant values.

use super::draft::Draft;
use super::{Definition, Program, Rewritten, ValueId};
use std::collections::BTreeMap;

impl Program {
    /// The program with common subexpressions computed once; `None` if there are none.
    ///
    /// - `products`: whether to share products only, so that elementwise values stay next to their users.
    pub fn with_equals_merged(&self, products: bool) -> Option<Rewritten> {
        let mut draft = Draft::new(self);
        let mut known: BTreeMap<Vec<ValueId>, Vec<ValueId>> = BTreeMap::new();
        let mut merged = Vec::new();
        for id in self.value_ids().filter(|id| self.is_computed(*id) && self.is_free(*id)) {
            if products && !matches!(self.value(id).definition, Definition::Product { .. }) {
                continue;
            }
            let with_taken = |id: ValueId| {
                let mut value = self.value(id).clone();
                value.definition.operands_mut().iter_mut().for_each(|operand| *operand = draft.taken(*operand));
                value
            };
            let own = with_taken(id);
            let same = |other: &ValueId| {
                let other_value = with_taken(*other);
                other_value.definition == own.definition
                    && (other_value.dtype, &other_value.dims) == (own.dtype, &own.dims)
                    && self.body_of(*other) == self.body_of(id)
            };
            let alike = known.entry(own.definition.operands().to_vec()).or_default();
            match alike.iter().copied().find(same).filter(|_| own.name.is_none()) {
                Some(first) => {
                    merged.push(self.expression(id));
                    draft.replace(id, first);
                }
                None => alike.push(id),
            }
        }
        let summary = format!("common subexpression {} is computed once", first_of(&merged)?);
        Some(Rewritten { program: draft.finish(), summary })
    }

    /// The program with loop-invariant values of a body computed before it; `None` if there are none.
    pub fn with_invariants_brought_out(&self) -> Option<Rewritten> {
        let mut out = vec![false; self.values.len()];
        for id in self.value_ids().filter(|id| self.is_computed(*id) && self.is_free(*id)) {
            let body = self.body_of(id);
            let mut operands = self.value(id).definition.operands().iter();
            out[id.index()] =
                body.is_some() && operands.all(|operand| self.body_of(*operand) != body || out[operand.index()]);
        }
        let mut draft = Draft::new(self);
        let mut hoisted = Vec::new();
        for repeat in &self.repeats {
            // A body in which nothing else is done is left as it is.
            if repeat.body.clone().all(|place| out[place]) {
                continue;
            }
            for id in self.value_ids().filter(|id| repeat.body.contains(&id.index()) && out[id.index()]) {
                draft.bring_out(id);
                if matches!(self.value(id).definition, Definition::Product { .. }) {
                    hoisted.push(self.expression(id));
                }
            }
        }
        // An elementwise result alone is computed again as fast as it is read.
        let summary = format!("loop-invariant {} is computed before the repeat", first_of(&hoisted)?);
        Some(Rewritten { program: draft.finish(), summary })
    }

    /// The name of a value, or its expression.
    pub(super) fn expression(&self, id: ValueId) -> String {
        let value = self.value(id);
        match (&value.name, &value.definition) {
            (None, Definition::Product { operands: [left, right], .. }) => {
                format!("{} * {}", self.factor(*left), self.factor(*right))
            }
            _ => self.label(id),
        }
    }

    /// The expression of a value as a factor.
    pub(super) fn factor(&self, id: ValueId) -> String {
        let text = self.expression(id);
        let is_product = matches!(self.value(id).definition, Definition::Product { .. });
        if is_product && self.value(id).name.is_none() { format!("({text})") } else { text }
    }
}

/// Formats `` `x * W` and 2 more ``; `None` if empty.
fn first_of(expressions: &[String]) -> Option<String> {
    let (first, others) = expressions.split_first()?;
    Some(match others.len() {
        0 => format!("`{first}`"),
        more => format!("`{first}` and {more} more"),
    })
}
