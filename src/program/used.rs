//! The part of a value that may differ from 0: `where(iota_C < load, x, 0)`.

use super::{Definition, Program, ValueId};
use crate::function::{Function, Relation, Scalar};
use crate::layout::Dim;
use crate::layout::Used;
use crate::supply::{Supply, Table};

impl Program {
    /// The part of a value that may differ from 0, if it is known: it is masked by positions below those of a table. Moves
    /// and functions of one operand that map 0 to 0 keep it.
    pub fn used(&self, id: ValueId) -> Option<Used> {
        let mut id = id;
        loop {
            match &self.value(id).definition {
                _ if self.is_carried(id) => return None,
                Definition::Move { operand, .. } | Definition::Collective { operand, .. } => id = *operand,
                Definition::Map { function: Function::Masked(Scalar(0.0)), operands } => {
                    return self.masked(*operands.first()?);
                }
                Definition::Map { function, operands } if operands.len() == 1 && keeps_zeros(*function) => {
                    id = operands[0];
                }
                Definition::Rename { operand } => return self.used_as(self.used(*operand)?, *operand, id),
                Definition::Map { .. }
                | Definition::Input { .. }
                | Definition::Product { .. }
                | Definition::Reduce { .. }
                | Definition::Kernel { .. } => return None,
            }
        }
    }

    /// The same part in renamed dims.
    fn used_as(&self, used: Used, from: ValueId, to: ValueId) -> Option<Used> {
        let pairs = || self.value(from).dims.iter().zip(&self.value(to).dims);
        let new = |dim: &Dim| pairs().find(|(old, _)| *old == dim).map(|(_, new)| *new);
        let over = used.over.iter().map(new).collect::<Option<_>>()?;
        Some(Used { along: new(&used.along)?, over, ..used })
    }

    /// What a mask leaves, if it compares positions with a table.
    fn masked(&self, mask: ValueId) -> Option<Used> {
        let Definition::Map { function: Function::Is(relation), operands } = &self.value(self.moved(mask)).definition
        else {
            return None;
        };
        let [left, right] = operands[..] else { return None };
        let (relation, along, (over, table)) = match (self.counts(left), self.counts(right)) {
            (Some(along), None) => (*relation, along, self.table(right)?),
            (None, Some(along)) => (relation.turned(), along, self.table(left)?),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        let plus = match relation {
            Relation::Less => 0,
            Relation::LessOrEqual => 1,
            _ => return None,
        };
        let is_padded = |dim: &Dim| dim.size != self.dims.size(dim.id);
        let used = Used { along, over: over.to_vec(), table: table.clone(), plus };
        if used.over.iter().chain([&along]).any(is_padded) { None } else { Some(used) }
    }

    /// The value that moves begin with.
    fn moved(&self, mut id: ValueId) -> ValueId {
        while let Definition::Move { operand, .. } | Definition::Collective { operand, .. } = &self.value(id).definition
            && !self.is_carried(id)
        {
            id = *operand;
        }
        id
    }

    /// Whether a value is another one in later iterations.
    fn is_carried(&self, id: ValueId) -> bool {
        self.carried().any(|carried| carried.first == id)
    }

    /// The dim along which a value has the positions.
    fn counts(&self, id: ValueId) -> Option<Dim> {
        let value = self.value(self.moved(id));
        let is_counted = value.definition == Definition::Input { supply: Supply::Counted };
        if is_counted { value.dims.first().copied() } else { None }
    }

    /// The dims and elements of a table.
    fn table(&self, id: ValueId) -> Option<(&[Dim], &Table)> {
        let value = self.value(self.moved(id));
        match &value.definition {
            Definition::Input { supply: Supply::Table(table) } => Some((&value.dims, table)),
            _ => None,
        }
    }
}

/// Whether a function of one operand maps 0 to 0, in place.
fn keeps_zeros(function: Function) -> bool {
    !matches!(function, Function::Softmax { .. } | Function::Shift(_) | Function::Fill { .. })
        && function.facts().keeps_zero
}
