//! Further names of an array, as `C[I] = B` with `B[I]`: programs are planned as if the array itself were read, so that
//! a name changes no plan. So are values that are moved once, `B -> C[I]`, if they may stay where they are.

use super::fused::Structure;
use super::goal::rank;
use super::problem::{Problem, Solve, Unplanned};
use super::{Plan, StepOp};
use crate::layout::Sharding;
use crate::program::{ValueId, Wanted};

/// Plans a program in which each array is read under one name.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let early = fused_through_moves(problem);
    if early.is_empty() {
        return plan_as_written(problem, solve);
    }
    let laid_out = |early: &[(ValueId, &Sharding)]| -> Result<Plan, Unplanned> {
        let program = problem.program.with_layouts(early.iter().copied());
        let mut plan = plan_as_written(Problem { program: &program, ..problem }, solve)?;
        early.iter().for_each(|(id, _)| plan.program.values[id.index()].wanted = Wanted::Free);
        Ok(plan)
    };
    let best = laid_out(&early)?;
    // What is moved after all is moved by the statement of the move.
    let is_moved = |id: &ValueId| {
        let steps = best.ids().map(|step| best.step(step));
        steps.filter(|step| step.value == *id).any(|step| matches!(step.op, StepOp::Collective(_)))
    };
    let (moved, staying): (Vec<_>, Vec<_>) = early.into_iter().partition(|(id, _)| is_moved(id));
    if moved.is_empty() {
        return Ok(best);
    }
    let objective = problem.costs.objective();
    let is_as_good = |same: &Plan| same.in_parts == best.in_parts && rank(same, objective) <= rank(&best, objective);
    Ok(match laid_out(&staying).ok().filter(is_as_good) {
        // The bounds of the first search are over these plans, too.
        Some(same) => {
            Plan { lower_bound: best.lower_bound, with_split_axes: best.with_split_axes, stop: best.stop, ..same }
        }
        None => best,
    })
}

/// The values that are moved once, with their layouts, of which a user could be fused with them if they were not moved.
fn fused_through_moves<'a>(Problem { program, costs, .. }: Problem<'a>) -> Vec<(ValueId, &'a Sharding)> {
    let moved = program.moved_once();
    if moved.is_empty() {
        return moved;
    }
    let laid_out = program.with_layouts(moved.iter().copied());
    let Some(resolved) = laid_out.with_names_resolved() else { return Vec::new() };
    let kernels = Structure::new(&resolved, costs.fusion());
    let is_passed_on = |(id, _): &(ValueId, &Sharding)| {
        let users = resolved.value_ids().filter(|user| resolved.value(*user).definition.operands().contains(id));
        users.into_iter().any(|user| kernels.is_passed_on(*id, user))
    };
    moved.into_iter().filter(is_passed_on).collect()
}

/// Plans a program in which each array is read under one name, and moved where it is written.
///
/// # Errors
/// If planning fails.
pub(super) fn plan_as_written(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Some(resolved) = problem.program.with_names_resolved() else { return solve(problem) };
    let mut plan = solve(Problem { program: &resolved, ..problem })?;
    // A move is of the array that its user names.
    for step in plan.steps.node_weights_mut().filter(|step| matches!(step.op, StepOp::Collective(_))) {
        step.value = plan.program.name_read(step.user, step.value);
    }
    plan.program = plan.program.with_names_restored();
    Ok(plan)
}
