//! Further names of an array, as `C[I] = B` with `B[I]`: programs are planned as if the array itself were read, so that
//! a name changes no plan.

use super::problem::{Problem, Solve, Unplanned};
use super::{Plan, StepOp};

/// Plans a program in which each array is read under one name.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Some(resolved) = problem.program.with_names_resolved() else { return solve(problem) };
    let mut plan = solve(Problem { program: &resolved, ..problem })?;
    // A move is of the array that its user names.
    for step in plan.steps.node_weights_mut().filter(|step| matches!(step.op, StepOp::Collective(_))) {
        step.value = plan.program.name_read(step.user, step.value);
    }
    plan.program = plan.program.with_names_restored();
    Ok(plan)
}
