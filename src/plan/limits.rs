//! Plans within the limits that a program sets: `limit memory 300MB`, `limit flops 4e12`.
//!
//! The cheapest plan of all is the answer if it keeps them. Otherwise what no plan within them does is left out: a
//! product that takes more operations than the others leave it, a step that takes and makes more than the memory. If
//! that is not enough, operations get a price beside their time, and steps less memory, until a plan fits.

use super::reshard::Terms;
use super::{Costs, Plan, PlanError, StepOp, holes, lazy};
use crate::program::Program;
use crate::syntax::Measure;

/// So many times the terms are made harder.
const MOST_ROUNDS: u32 = 24;

/// The cheapest plan within the limits, or, if none was found, the one that breaks them least.
///
/// # Errors
/// If there is no plan on these terms.
pub(super) fn plan(program: &Program, costs: &dyn Costs, terms: Terms) -> Result<Plan, PlanError> {
    let solved = |terms: Terms| lazy::solve(program, costs, terms);
    let limits = Limits::of(program);
    let free = if limits.are_none() { return solved(terms) } else { solved(Terms { most: u128::MAX, ..terms })? };
    if limits.over(&free) == 0 {
        return Ok(free);
    }
    let figure = |plan: &Plan| holes::figure(plan, costs.objective());
    let (cost, flops) = (figure(&free).max(1), free.totals().flops.max(1));
    let mut harder = Terms { held: limits.memory, flops: limits.flops, most: u128::MAX, ..terms };
    let (mut best, mut bound) = (free, None);
    for round in 0..MOST_ROUNDS {
        let Ok(found) = solved(harder) else { break };
        // What all plans within the limits do is all that the first round asks for.
        let lower_bound = *bound.get_or_insert(found.lower_bound);
        let found = Plan { exact: found.exact && round == 0, lower_bound, ..found };
        let totals = found.totals();
        if u128::from(totals.peak.0) > u128::from(limits.memory) {
            harder.held = largest_step(&found).saturating_sub(1).min(harder.held);
        }
        if totals.flops > limits.flops {
            // A sixteenth of what the plan costs in all, and twice as much in each round.
            harder.toll = (cost << round.min(64), 16 * flops);
        }
        let fits = limits.over(&found) == 0;
        if (limits.over(&found), figure(&found)) < (limits.over(&best), figure(&best)) {
            best = found;
        }
        if fits {
            break;
        }
    }
    let lower_bound = bound.unwrap_or(best.lower_bound);
    Ok(Plan { lower_bound, ..best })
}

/// By how much a plan breaks the limits of its program, as a part of them.
pub(super) fn over(plan: &Plan) -> u128 {
    Limits::of(&plan.program).over(plan)
}

/// The least memory and the fewest operations that a program sets.
struct Limits {
    memory: u64,
    flops: u128,
}

impl Limits {
    fn of(program: &Program) -> Limits {
        let least = |measure| {
            let limits = program.limits.iter().filter(|limit| limit.measure == measure);
            limits.map(|limit| limit.amount.value).min()
        };
        let memory = least(Measure::Memory).and_then(|bytes| u64::try_from(bytes).ok());
        Limits { memory: memory.unwrap_or(u64::MAX), flops: least(Measure::Flops).unwrap_or(u128::MAX) }
    }

    fn are_none(&self) -> bool {
        self.memory == u64::MAX && self.flops == u128::MAX
    }

    /// In millionths, rounded up; 0 if they are kept.
    fn over(&self, plan: &Plan) -> u128 {
        let totals = plan.totals();
        let part =
            |value: u128, limit: u128| value.saturating_sub(limit).saturating_mul(1_000_000).div_ceil(limit.max(1));
        part(u128::from(totals.peak.0), u128::from(self.memory)).saturating_add(part(totals.flops, self.flops))
    }
}

/// The most bytes that a device holds for one step: what it takes and what it makes.
fn largest_step(plan: &Plan) -> u64 {
    let mesh = &plan.program.mesh;
    let held = |id| {
        let ids = plan.operands(id).into_iter().chain([id]);
        ids.map(|id| plan.step(id).layout.local_bytes(mesh).0).fold(0, u64::saturating_add)
    };
    let done = plan.ids().filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry));
    done.map(held).max().unwrap_or_default()
}
