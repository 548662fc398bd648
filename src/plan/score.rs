//! What plans are compared by.

use super::{Objective, Plan};

/// The figure that a plan is chosen by.
pub(super) fn figure(plan: &Plan, objective: Objective) -> u128 {
    score(plan, objective).0
}

/// What a plan is chosen by; of equal ones the one that holds least.
pub(super) fn score(plan: &Plan, objective: Objective) -> (u128, u128, u64) {
    let totals = plan.totals();
    let received = u128::from(totals.received().0);
    match objective {
        Objective::Time => (totals.time().ticks(), received, totals.peak().0),
        Objective::Bytes => (received, totals.flops, totals.peak().0),
    }
}
