//! Other programs that compute the same, but for rounding, and may be cheaper.
//!
//! | | written | done |
//! | --- | --- | --- |
//! | `shared.rs` | `relu(x * W) + exp(x * W)` | `x * W` once |
//! | | `repeat 8 { y = y * (W * V) }` | `W * V` once, before the repeat |
//! | `chains.rs` | `x * (A * B)` | `(x * A) * B` |
//! | `anew.rs` | `y = x * W`, taken in two layouts | `x * W` twice, each time in the layout that is taken |
//!
//! Only what has no layout, no method and no pin of its own is touched, and the values that statements name stay.

mod anew;
mod chains;
mod draft;
mod shared;

use super::{Definition, Program, ValueId, Wanted};

/// Another program that computes the same.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The program.
    pub program: Program,
    /// What is done otherwise, with names and expressions quoted.
    pub told: String,
}

impl Program {
    /// Whether nothing is said of how a value is made, kept or handed on.
    fn is_free(&self, id: ValueId) -> bool {
        let value = self.value(id);
        let is_carried = self.carried().any(|carried| [carried.entry, carried.first, carried.last].contains(&id));
        value.wanted == Wanted::Free
            && value.method.is_none()
            && value.pin.is_none()
            && !is_carried
            && !self.outputs.contains(&id)
    }

    /// Whether a value is computed by each device from its blocks, in a way that can be had again elsewhere.
    fn is_computed(&self, id: ValueId) -> bool {
        match &self.value(id).definition {
            Definition::Product { local, .. } => !local,
            Definition::Reduce { .. } | Definition::Map { .. } => true,
            Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => false,
        }
    }

    /// The values that take each value, once for each time.
    fn users(&self) -> Vec<Vec<ValueId>> {
        let mut users = vec![Vec::new(); self.values.len()];
        for id in self.value_ids() {
            self.value(id).definition.operands().iter().for_each(|operand| users[operand.index()].push(id));
        }
        users
    }
}
