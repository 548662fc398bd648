//! Products that look up rows, written as `jnp.take`: the one-hot array of a whole vocabulary would not fit in memory.

use crate::einsum::Index;
use crate::function::{Function, Relation};
use crate::plan::{Plan, StepId, StepOp};
use crate::program::Definition;
use crate::supply::Supply;
use std::collections::HashMap;

/// A row lookup.
pub(super) struct Rows {
    /// The array that contains the rows.
    pub(super) table: StepId,
    /// The row numbers to look up.
    pub(super) numbers: StepId,
    /// The numbers of the rows that the device holds.
    pub(super) places: StepId,
    /// The dim of the table that contains the rows.
    pub(super) axis: usize,
    /// Indices of the lookup's result, in the numbering of the product's einsum.
    pub(super) order: Vec<Index>,
}

/// The products of a plan that are row lookups. Similar products, such as sums of rows, stay products.
pub(super) fn rows(plan: &Plan) -> HashMap<StepId, Rows> {
    let accesses = plan.accesses();
    let found = plan.ids().filter_map(|id| {
        let lookup = accesses[id.index()].lookup?;
        let StepOp::Product { einsum } = &plan.step(id).op else { return None };
        let operands = plan.operands(id);
        let (table, mut hot) = (operands[1 - lookup.factor], operands[lookup.factor]);
        let axis = einsum.operands[1 - lookup.factor].iter().position(|index| *index == lookup.index)?;
        let others = |factor: usize| einsum.operands[factor].iter().copied().filter(|index| *index != lookup.index);
        let (by, of): (Vec<Index>, Vec<Index>) = (others(lookup.factor).collect(), others(1 - lookup.factor).collect());
        let is_plain = !einsum.result.contains(&lookup.index) && by.iter().all(|index| !of.contains(index));
        let is_whole = by.iter().chain(&of).all(|index| einsum.result.contains(index));
        let (dim, dims) = (plan.step(table).layout.dims[axis], &plan.program.dims);
        // Padding rows are 0 only while nothing has been computed from them.
        let is_padded = dim.size != dims.size(dim.id) && !matches!(plan.step(source(plan, table)).op, StepOp::Input);
        if !is_plain || !is_whole || is_padded {
            return None;
        }
        let (numbers, places) = loop {
            let operands = plan.operands(hot);
            match &plan.step(hot).op {
                StepOp::Map { function: Function::Cast(_), einsum } if einsum.operands[0] == einsum.result => {
                    hot = operands[0];
                }
                StepOp::Map { function: Function::Fill { .. }, .. } => hot = operands[0],
                StepOp::Map { function: Function::Is(Relation::Equal), einsum } => {
                    let own = usize::from(!is_places(plan, operands[0]));
                    // The dims of the row numbers have the same order in the one-hot array.
                    let place = einsum.operands[own].first()?;
                    let rest: Vec<Index> = einsum.result.iter().copied().filter(|index| index != place).collect();
                    if einsum.operands[1 - own] != rest {
                        return None;
                    }
                    break (operands[1 - own], operands[own]);
                }
                _ => return None,
            }
        };
        let is_integer = !plan.step(numbers).layout.dtype.is_float();
        let order = [&of[..axis], &by, &of[axis..]].concat();
        is_integer.then_some((id, Rows { table, numbers, places, axis, order }))
    });
    found.collect()
}

/// Whether a step holds the positions along a dim, or a slice of them.
fn is_places(plan: &Plan, id: StepId) -> bool {
    let value = plan.step(source(plan, id)).value;
    plan.program.value(value).definition == Definition::Input { supply: Supply::Counted }
}

/// The step from which a value originates, before all moves.
fn source(plan: &Plan, mut id: StepId) -> StepId {
    while let (StepOp::Collective(_), Some(operand)) = (&plan.step(id).op, plan.operands(id).first()) {
        id = *operand;
    }
    id
}
