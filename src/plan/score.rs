//! The objective of the planner.

use super::{Objective, Plan};

/// The objective for choosing a plan.
pub(super) fn figure(plan: &Plan, objective: Objective) -> u128 {
    score(plan, objective).0
}

/// The objective, with memory as a tie breaker.
///
/// Bytes are those of the cost model, summed over the steps, as in the search: before steps have recipes, their traffic is
/// a lower bound.
pub(super) fn score(plan: &Plan, objective: Objective) -> (u128, u128, u64) {
    let totals = plan.totals();
    let received = u128::from(plan.received().0);
    match objective {
        Objective::Time => (totals.time().ticks(), received, totals.peak().0),
        Objective::Bytes => (received, totals.flops, totals.peak().0),
    }
}
