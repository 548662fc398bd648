//! Softmaxes in parts, where a plan with whole ones is not the best.
//!
//! A softmax needs its dim whole. In parts, as a largest element, a sum and a quotient, it leaves the dim sharded and
//! combines two small arrays instead. So a program that communicates is planned again with one softmax after the other in
//! parts; each that makes the plan cheaper stays so.

use super::reshard::SearchOptions;
use super::score::score;
use super::{Objective, Plan, PlanError, StepOp, limits};
use crate::program::{Program, ValueId};
use std::collections::BTreeSet;

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
    let figure = |plan: &Plan| (limits::over(plan), score(plan, objective));
    let mut split: BTreeSet<ValueId> = BTreeSet::new();
    let softmaxes: Vec<ValueId> = program.softmaxes().take_while(|_| communicates(&best)).collect();
    for id in softmaxes {
        if terms.budget.is_over() {
            break;
        }
        split.insert(id);
        let (over, (first, ..)) = figure(&best);
        let most = if over > 0 { u128::MAX } else { first };
        let variant = program.with_softmaxes_split(&split);
        match solve(&variant, SearchOptions { most, ..terms }) {
            Ok(found) if figure(&found) < figure(&best) => {
                best = Plan { split: split.iter().map(|id| program.name(*id)).collect(), ..found };
            }
            Ok(_) | Err(_) => drop(split.remove(&id)),
        }
    }
    Ok(best)
}

/// Whether a plan sends anything.
fn communicates(plan: &Plan) -> bool {
    plan.ids().any(|id| matches!(&plan.step(id).op, StepOp::Collective(collective) if collective.kind().sends()))
}
