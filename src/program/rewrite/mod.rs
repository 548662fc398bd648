//! Rewrites: programs that are equal up to rounding and may be cheaper.
//!
//! | file | written | rewritten |
//! | --- | --- | --- |
//! | `shared.rs` | `relu(x * W) + exp(x * W)` | `x * W` once |
//! | | `repeat 8 { y = y * (W * V) }` | `W * V` once, before the repeat |
//! | `chains.rs` | `x * (A * B)` | `(x * A) * B` |
//! | `anew.rs` | `y = x * W`, used in two layouts | `x * W` twice, once in each layout |
//! | `names.rs` | `C[I] = B`, with `B[I]`, and `C + B` | `B + B` |
//! | | `B -> C[I]`, the only user of `B` | `B[I] -> C[I]` |
//!
//! Only values without a layout, method or pin of their own are rewritten, and named values stay.

mod anew;
mod chains;
mod draft;
mod names;
mod shared;

pub(super) use draft::Draft;

use super::{Definition, Program, Using, ValueId, Wanted};

/// A rewritten program.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The program.
    pub program: Program,
    /// A description of the change, with names and expressions quoted.
    pub summary: String,
}

impl Program {
    /// Whether a value is unconstrained: without layout, method, pieces, pin or carried name.
    fn is_free(&self, id: ValueId) -> bool {
        let value = self.value(id);
        let is_carried = self.carried().any(|carried| [carried.entry, carried.first, carried.last].contains(&id));
        value.wanted == Wanted::Free
            && value.using == Using::default()
            && value.pin.is_none()
            && !is_carried
            && !self.outputs.contains(&id)
    }

    /// Whether a value is computed locally from blocks, so it can be recomputed elsewhere.
    fn is_computed(&self, id: ValueId) -> bool {
        match &self.value(id).definition {
            Definition::Product { local, .. } => !local,
            Definition::Reduce { .. } | Definition::Map { .. } | Definition::Kernel { .. } => true,
            Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => false,
        }
    }

    /// The users of each value, one entry per use.
    fn users(&self) -> Vec<Vec<ValueId>> {
        let mut users = vec![Vec::new(); self.values.len()];
        for id in self.value_ids() {
            self.value(id).definition.operands().iter().for_each(|operand| users[operand.index()].push(id));
        }
        users
    }
}
