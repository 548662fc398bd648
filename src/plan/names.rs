//! Further names of an array, as `C[I] = B` with `B[I]`: programs are planned as if the array itself were read, so that
//! a name changes no plan. A value that is only read by a move, `B -> C[I]`, may be in the layout of the move from the
//! beginning; then what reads `C` may be fused with it.

use super::fused::Structure;
use super::goal::rank;
use super::problem::{Problem, Solve, Unplanned};
use super::{Costs, LowerBound, Plan, StepOp, Stop};
use crate::program::{Program, ValueId, Wanted};

/// Plans a program in which each array is read under one name, also with values that are moved once in the layout of the
/// move.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let plan = plan_as_written(problem, solve);
    let Some(laid_out) = laid_out(problem.program, problem.costs) else { return plan };
    // Other functions may then be fused, so neither program has all plans of the other one.
    let other = plan_as_written(Problem { program: &laid_out, ..problem }, solve).map(|mut plan| {
        for id in laid_out.value_ids().filter(|id| laid_out.value(*id).wanted != problem.program.value(*id).wanted) {
            plan.program.values[id.index()].wanted = Wanted::Free;
        }
        plan
    });
    match (plan, other) {
        (Ok(plan), Ok(other)) => {
            let objective = problem.costs.objective();
            let is_better = rank(&other, objective) < rank(&plan, objective);
            let (best, worse) = if is_better { (other, plan) } else { (plan, other) };
            let (lower_bound, with_split_axes) = worse.bounds_on(&best);
            Ok(Plan {
                lower_bound: best.lower_bound.of_both(lower_bound),
                with_split_axes: best.with_split_axes.zip(with_split_axes).map(|(one, two)| one.of_both(two)),
                stop: best.stop.unless_optimal(worse.stop),
                ..best
            })
        }
        (Ok(plan), Err(Unplanned { left_out: None, .. })) | (Err(Unplanned { left_out: None, .. }), Ok(plan)) => {
            Ok(plan)
        }
        (Ok(plan), Err(Unplanned { left_out: Some(bound), .. }))
        | (Err(Unplanned { left_out: Some(bound), .. }), Ok(plan)) => {
            let lower_bound = plan.lower_bound.of_both(bound);
            Ok(Plan { lower_bound, with_split_axes: None, stop: plan.stop.unless_optimal(Stop::Work), ..plan })
        }
        (Err(one), Err(other)) => {
            let left_out = one.left_out.into_iter().chain(other.left_out).reduce(LowerBound::of_both);
            Err(Unplanned { left_out, ..one })
        }
    }
}

/// The program in which values that are moved once have the layout of the move, if a user could be fused with one of them.
pub(super) fn laid_out(program: &Program, costs: &dyn Costs) -> Option<Program> {
    let moved = program.moved_once();
    if moved.is_empty() {
        return None;
    }
    let laid_out = program.with_layouts(moved.iter().copied());
    let resolved = laid_out.with_names_resolved()?;
    let kernels = Structure::new(&resolved, costs.fusion());
    let is_passed_on = |id: ValueId| {
        let operands = |user: &ValueId| resolved.value(*user).definition.operands();
        resolved.value_ids().any(|user| operands(&user).contains(&id) && kernels.is_passed_on(id, user))
    };
    moved.into_iter().any(|(id, _)| is_passed_on(id)).then_some(laid_out)
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
