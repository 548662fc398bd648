//! Recomputing a product for each of its users, instead of computing it once and moving it.

use super::draft::Draft;
use super::{Definition, Program, Rewritten, ValueId};
use itertools::Itertools;

impl Program {
    /// Unconstrained products with several users.
    pub fn shared_products(&self) -> Vec<ValueId> {
        let users = self.users();
        let is_shared = |id: &ValueId| {
            matches!(self.value(*id).definition, Definition::Product { local: false, .. })
                && self.is_free(*id)
                && users[id.index()].len() > 1
        };
        self.value_ids().filter(is_shared).collect()
    }

    /// The program with a product recomputed for each user but the first.
    pub fn with_computed_anew(&self, product: ValueId) -> Rewritten {
        let mut draft = Draft::new(self);
        let users = self.users()[product.index()].iter().copied().unique().skip(1).collect_vec();
        let again: Vec<ValueId> =
            users.into_iter().filter(|user| self.body_of(*user) == self.body_of(product)).collect();
        for user in again.iter().copied() {
            let copy = draft.add(self.value(product).clone(), self.body_of(product));
            draft.insert_before(user, copy);
            let operands = draft.values[user.index()].definition.operands_mut();
            operands.iter_mut().filter(|operand| **operand == product).for_each(|operand| *operand = copy);
        }
        let summary = format!("`{}` is computed {} times, once per user", self.expression(product), again.len() + 1);
        Rewritten { program: draft.finish(), summary }
    }
}
