//! Softmaxes in parts, where a plan with whole ones is not the best.
//!
//! A softmax needs its dim whole. In parts, as a largest element, a sum and a quotient, it leaves the dim sharded and
//! combines two small arrays instead. So a program is planned again with one softmax after the other in parts; each that
//! makes the plan cheaper stays so.

use super::reshard::SearchOptions;
use super::score::score;
use super::{Objective, Plan, PlanError, limits};
use crate::program::{Program, ValueId};
use std::collections::BTreeSet;

/// A split makes many steps of one, so it has to save this part of what the plan takes.
const LEAST_SAVING: u128 = 100;

/// Plans a program with `solve`; softmaxes are split where that makes it cheaper.
///
/// # Errors
/// If there is no plan.
pub(super) fn plan(
    program: &Program,
    objective: Objective,
    terms: SearchOptions,
    solve: impl Fn(&Program, SearchOptions) -> Result<Plan, PlanError>,
) -> Result<Plan, PlanError> {
    let mut best = solve(program, terms)?;
    let mut split: BTreeSet<ValueId> = BTreeSet::new();
    for id in program.softmaxes().filter(|_| program.mesh.device_count() > 1) {
        if terms.budget.is_over() {
            break;
        }
        split.insert(id);
        let (over, (first, ..)) = (limits::over(&best), score(&best, objective));
        let most = if over > 0 { u128::MAX } else { first - first / LEAST_SAVING };
        let found = solve(&program.with_softmaxes_split(&split), SearchOptions { most, ..terms }).ok();
        let is_better = |found: &Plan| {
            let found = (limits::over(found), score(found, objective).0);
            found.0 < over || found.0 == over && found.1 < most
        };
        match found.filter(is_better) {
            Some(found) => best = Plan { split: split.iter().map(|id| program.name(*id)).collect(), ..found },
            None => drop(split.remove(&id)),
        }
    }
    Ok(best)
}
