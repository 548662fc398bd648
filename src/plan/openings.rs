//! Sums to which closed terms are added: which terms are opened.
//!
//! A closed term may be opened, so that the sum is closed after the addition. Mostly this saves something only if a single
//! user goes on with the partial results, and only there the first search looks for it. Where it has ended, but a lower
//! bound over all openings is below its plan, a second search looks for openings everywhere. What that leaves out is in the
//! lower bound of the plan.

use super::floor;
use super::prices::Prices;
use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::score::figure;
use super::{Budget, LowerBound, Plan, Stop};
use crate::program::Definition;

/// Plans a program; closed terms are opened wherever that is cheaper.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Problem { program, costs, options } = problem;
    let first = solve(problem)?;
    let adds = |definition: &Definition| matches!(definition, Definition::Map { operands, .. } if operands.len() > 1);
    let is_by_cost = options.penalty.0 == 0 && options.rent.0 == 0;
    if !is_by_cost || options.budget.is_over() || !program.values.iter().any(|value| adds(&value.definition)) {
        return Ok(first);
    }
    let objective = costs.objective();
    let found = figure(&first, objective);
    let Some(least) = floor::least_in_sequence(program, &Prices::new(costs, false), options.budget) else {
        return Ok(first);
    };
    if least >= found {
        return Ok(first);
    }
    let bounded = |first: Plan, bound: LowerBound| {
        let bound = bound.better(LowerBound::of(objective, least));
        Plan { lower_bound: first.lower_bound.of_both(bound), stop: first.stop.unless_optimal(Stop::Work), ..first }
    };
    let least_saving = match first.stop {
        // A larger search would not end either.
        Stop::Work | Stop::Time | Stop::Memory => return Ok(bounded(first, LowerBound::default())),
        // The search ended, but kernels take longer than it has counted, so a small saving may be none.
        Stop::Gap if first.steps.node_count() > Budget::MOST_STEPS_OPENED_IN_A_GAP => {
            return Ok(bounded(first, LowerBound::default()));
        }
        Stop::Gap => found / Budget::LEAST_SAVING,
        _ => 0,
    };
    let wider = SearchOptions { opens_all: true, most: found.min(options.most), ..options };
    match solve(problem.with(wider)) {
        Ok(other) if figure(&other, objective) < found - least_saving => Ok(other),
        Ok(other) if other.is_optimal() && figure(&other, objective) >= found => Ok(first),
        Ok(other) => Ok(bounded(first, other.lower_bound)),
        // With pins, the bound is that of all plans.
        Err(Unplanned { left_out: None, .. }) if first.stop == Stop::Pins => Ok(bounded(first, LowerBound::default())),
        Err(Unplanned { left_out: None, .. }) => Ok(first),
        Err(Unplanned { left_out: Some(left_out), .. }) => Ok(bounded(first, left_out)),
    }
}
