//! Plans without implicit communication: only written collectives and moves communicate.

use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::{Allowed, Plan};

/// The cheapest plan, if all its communication is written; else the cheapest one in which unwritten moves are slices.
///
/// # Errors
/// If planning fails, or there is no such plan.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let plan = solve(problem)?;
    if plan.ids().all(|id| !plan.is_unwritten(id)) {
        return Ok(plan);
    }
    solve(problem.with(SearchOptions { allowed: Allowed::Slices, ..problem.options }))
}
