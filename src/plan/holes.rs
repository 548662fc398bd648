//! Inputs whose layout, or a part of it, is left to the compiler: `W: bf16[D_?, F_?]`, `W: bf16[D_X, F_?]`.
//!
//! An input that is used once offers all its layouts to its user, at no cost. Where it is used several times, or the
//! program limits its memory, the layouts of such inputs are tried one by one, each with a plan of its own.

use super::layouts::layouts;
use super::reshard::SearchOptions;
use super::score::score;
use super::{Budget, Costs, Objective, Plan, PlanError, StepOp, Stop, limits};
use crate::layout::Sharding;
use crate::program::{Program, ValueId, Wanted};
use crate::syntax::Measure;
use crate::units::Time;
use itertools::Itertools;

/// Plans a program, and fills the holes of its inputs.
///
/// # Errors
/// If there is no plan, or there are too many to try.
pub(super) fn plan(program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
    let limit = memory_limit(program);
    let mut tried: Vec<(ValueId, Vec<Sharding>)> = Vec::new();
    for id in program.value_ids().filter(|id| has_hole(program, *id)) {
        let value = program.value(id);
        let layouts = layouts(&value.dims, &value.wanted, &program.mesh).ok_or_else(|| too_many(program, id))?;
        if limit.is_some() {
            tried.push((id, layouts));
        }
    }
    let count = tried.iter().try_fold(1usize, |count, (_, layouts)| count.checked_mul(layouts.len()));
    if let (true, Some((id, _))) = (count.is_none_or(|count| count > Budget::MOST_PLANS), tried.last()) {
        return Err(too_many(program, *id));
    }
    if tried.is_empty() {
        return Ok(filled(program, limits::plan(program, costs, terms)?));
    }
    let mut best: Option<Plan> = None;
    let (mut bound, mut failure, mut stop) = (None, None, Stop::Optimal);
    let mut all_tried = true;
    for choice in tried.iter().map(|(_, layouts)| layouts.iter()).multi_cartesian_product() {
        if terms.budget.is_over() && best.is_some() {
            (all_tried, stop) = (false, Stop::Time);
            break;
        }
        let mut chosen = program.clone();
        for ((id, _), sharding) in tried.iter().zip(choice) {
            chosen.values[id.index()].wanted = Wanted::Exact(sharding.clone());
        }
        match limits::plan(&chosen, costs, terms) {
            Ok(plan) => {
                bound = bound.into_iter().chain([plan.lower_bound]).min();
                let fits = limits::over(&plan) == 0;
                stop = stop.unless_optimal(if fits { plan.stop } else { plan.stop.unless_optimal(Stop::Limits) });
                let score = |plan: &Plan| (limits::over(plan), score(plan, costs.objective()));
                if best.as_ref().is_none_or(|best| score(&plan) < score(best)) {
                    best = Some(plan);
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    match (best, failure) {
        (Some(plan), _) => {
            // Nothing is known of what was not tried.
            let lower_bound = bound.filter(|_| all_tried).unwrap_or(Time::ZERO);
            // By time, a plan is the best if none of the others can be below it.
            let by_bound = costs.objective() == Objective::Time && plan.totals().time() <= lower_bound;
            let stop = if by_bound && limits::over(&plan) == 0 { Stop::Optimal } else { stop };
            Ok(filled(program, Plan { stop, lower_bound, ..plan }))
        }
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("every input has the layout in which its holes are whole, and that was tried"),
    }
}

/// The plan, with the layouts that it chose written into its program.
pub(super) fn filled(program: &Program, mut plan: Plan) -> Plan {
    let holes: Vec<_> =
        plan.ids().filter(|id| plan.step(*id).op == StepOp::Input && has_hole(program, plan.step(*id).value)).collect();
    for id in &holes {
        let (value, sharding) = (plan.step(*id).value, plan.step(*id).layout.sharding.clone());
        plan.program.values[value.index()].wanted = Wanted::Exact(sharding);
    }
    plan.filled = holes;
    plan
}

fn has_hole(program: &Program, id: ValueId) -> bool {
    let value = program.value(id);
    value.definition.is_input() && value.wanted.is_open()
}

/// The least limit on memory, in bytes.
fn memory_limit(program: &Program) -> Option<u128> {
    let limits = program.limits.iter().filter(|limit| limit.measure == Measure::Memory);
    limits.map(|limit| limit.amount.value).min()
}

fn too_many(program: &Program, id: ValueId) -> PlanError {
    let value = program.value(id);
    let name = value.name.clone().unwrap_or_else(|| "the unnamed array".to_owned());
    PlanError::Holes { name, most: Budget::MOST_PLANS, span: value.span.into() }
}
