//! The comparison of plans under the limits of a program.

use super::reshard::SearchOptions;
use super::score::{figure, score};
use super::{Budget, Objective, Plan, limits};

/// Quality of a plan: first the violation of limits, then the score.
pub(super) type Rank = (u128, (u128, u128, u64));

/// The quality of a plan.
pub(super) fn rank(plan: &Plan, objective: Objective) -> Rank {
    (limits::over(plan), score(plan, objective))
}

/// What the plan of a changed program has to be better than.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    objective: Objective,
    /// The violation of limits of the best plan.
    over: u128,
    /// The objective of a plan that saves enough; without bound if the best plan violates limits.
    most: u128,
}

impl Goal {
    /// - `best`: the best plan so far.
    pub(super) fn beyond(best: &Plan, objective: Objective) -> Goal {
        let (over, first) = (limits::over(best), figure(best, objective));
        let most = if over > 0 { u128::MAX } else { first - first / Budget::LEAST_SAVING };
        Goal { objective, over, most }
    }

    /// Options under which worse plans are discarded.
    pub(super) fn bounding(self, options: SearchOptions) -> SearchOptions {
        SearchOptions { most: self.most, ..options }
    }

    /// Whether a plan violates limits less, or equally and saves enough.
    pub(super) fn is_met_by(self, plan: &Plan) -> bool {
        let over = limits::over(plan);
        over < self.over || over == self.over && figure(plan, self.objective) < self.most
    }
}
