//! A product that is computed for each of its users, instead of once and moved.

use super::draft::Draft;
use super::{Definition, Program, Rewritten, ValueId};
use itertools::Itertools;

impl Program {
    /// The products that have several users, and of which nothing is said.
    pub fn shared_products(&self) -> Vec<ValueId> {
        let users = self.users();
        let is_shared = |id: &ValueId| {
            matches!(self.value(*id).definition, Definition::Product { local: false, .. })
                && self.is_free(*id)
                && users[id.index()].len() > 1
        };
        self.value_ids().filter(is_shared).collect()
    }

    /// With a product computed once more for each user but the first.
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
        let told = format!("`{}` computed {} times, where it is taken", self.expression(product), again.len() + 1);
        Rewritten { program: draft.finish(), told }
    }
}
