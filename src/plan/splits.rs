//! Split softmaxes, if they give a cheaper plan than whole ones.
//!
//! A softmax needs its whole dim. Split into max, sum and quotient it keeps the dim sharded and combines two small
//! arrays. So a program is planned again with one softmax after the other split; each improvement is kept. Softmaxes
//! that are spread over all devices without communication around them are not tried.

use super::goal::Goal;
use super::problem::{Problem, Solve, Unplanned};
use super::{Plan, StepOp};
use crate::mesh::AxisSet;
use crate::program::{Definition, Program, ValueId};
use std::collections::BTreeSet;

/// Plans a program; softmaxes are split where that is cheaper.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Problem { program, costs, options } = problem;
    let mut best = solve(problem)?;
    let mut split: BTreeSet<ValueId> = BTreeSet::new();
    let promising: Vec<ValueId> = program.softmaxes().filter(|id| may_save(&best, *id)).collect();
    for id in promising {
        if options.budget.is_over() {
            break;
        }
        split.insert(id);
        // A split turns one step into many, so it has to save something.
        let goal = Goal::beyond(&best, costs.objective());
        let split_program = program.with_softmaxes_split(&split);
        let found = solve(Problem { program: &split_program, costs, options: goal.bounding(options) }).ok();
        match found.filter(|found| goal.is_met_by(found)) {
            Some(found) => best = Plan { split: split.iter().map(|id| program.label(*id)).collect(), ..found },
            None => drop(split.remove(&id)),
        }
    }
    Ok(best)
}

/// Whether splitting a softmax may save time: it is computed redundantly, or something around it is moved.
fn may_save(plan: &Plan, softmax: ValueId) -> bool {
    let mesh = &plan.program.mesh;
    let around = around(&plan.program, softmax);
    let spread: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
    plan.ids().any(|id| {
        let step = plan.step(id);
        match &step.op {
            StepOp::Collective(collective) => collective.kind().sends() && around.contains(&step.value),
            StepOp::Map { .. } => {
                step.value == softmax
                    && !spread.is_subset(step.layout.sharding.dim_axes().union(step.layout.sharding.open))
            }
            StepOp::Input | StepOp::Carry | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Kernel(_) => false,
        }
    })
}

/// A value, its neighbourhood up to the nearest products, and their operands. Results of the next products are
/// excluded: split, they would be open sums, which are no cheaper to move.
fn around(program: &Program, softmax: ValueId) -> BTreeSet<ValueId> {
    let is_product = |id: ValueId| matches!(program.value(id).definition, Definition::Product { .. });
    let operands = |id: ValueId| program.value(id).definition.operands().iter().copied();
    let mut before = vec![softmax];
    let mut around = BTreeSet::from([softmax]);
    while let Some(id) = before.pop() {
        for operand in operands(id) {
            if around.insert(operand) && !is_product(id) {
                before.push(operand);
            }
        }
    }
    let mut behind = BTreeSet::from([softmax]);
    for id in program.value_ids() {
        if operands(id).any(|operand| behind.contains(&operand)) {
            around.extend(operands(id));
            if !is_product(id) {
                behind.insert(id);
                around.insert(id);
            }
        }
    }
    around
}
