//! Plans within the limits that a program sets: `limit memory 300MB`, `limit flops 4e12`.
//!
//! The cheapest plan of all is the answer if it keeps them. Otherwise what no plan within them does is left out: a
//! product that takes more operations than the others leave it, a step that takes and makes more than the memory. If
//! that is not enough, operations get a price beside their time, and steps less memory, until a plan fits.

use super::beside::beside;
use super::reshard::SearchOptions;
use super::score::figure;
use super::{Costs, Plan, PlanError, StepOp, Stop, lazy};
use crate::program::Program;
use crate::recipe::Tuner;
use crate::syntax::Measure;

/// So many times the terms are made harder.
const MOST_ROUNDS: u32 = 24;
/// Most rounds in which only what steps hold is learned, before the terms are made harder.
const MOST_LEARNED: u32 = 48;
/// From this round on a step counts as if what was taken before it for the same statement were there as it came.
const CAUTIOUS_ROUND: u32 = 12;

/// The cheapest plan within the limits, or, if none was found, the one that breaks them least.
///
/// # Errors
/// If there is no plan on these terms.
pub(super) fn plan(program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
    let limits = Limits::of(program);
    let solved = |terms: SearchOptions| limits.solved(program, costs, terms);
    let free =
        if limits.are_none() { return solved(terms) } else { solved(SearchOptions { most: u128::MAX, ..terms })? };
    if limits.over(&free) == 0 {
        return Ok(free);
    }
    let figure = |plan: &Plan| figure(plan, costs.objective());
    let (cost, flops) = (figure(&free).max(1), free.totals().flops.max(1));
    let within = SearchOptions { held: limits.memory, flops: limits.flops, most: u128::MAX, ..terms };
    let (mut harder, mut best, mut bound) = (within, free, None);
    let (mut round, mut learned, mut known) = (0, 0, costs.tuner().map_or(0, Tuner::counted));
    while round < MOST_ROUNDS && !terms.budget.is_over() {
        if round == CAUTIOUS_ROUND {
            harder = SearchOptions { cautious: true, ..within };
        }
        let Ok(found) = solved(harder) else {
            if harder.cautious {
                break;
            }
            round = CAUTIOUS_ROUND;
            continue;
        };
        // What all plans within the limits do is all that the first round asks for.
        let lower_bound = *bound.get_or_insert(found.lower_bound);
        let stop = if round == 0 { found.stop } else { found.stop.unless_optimal(Stop::Limits) };
        let found = Plan { stop, lower_bound, ..found };
        let totals = found.totals();
        let counted = costs.tuner().map_or(0, Tuner::counted);
        let has_learned = std::mem::replace(&mut known, counted) < counted && learned < MOST_LEARNED;
        if u128::from(totals.peak().0) > u128::from(limits.memory) {
            // A step that turns out to hold more than it must at the least may be left out by that alone.
            if has_learned {
                learned += 1;
                if limits.over(&found) < limits.over(&best) {
                    best = Plan { stop: found.stop.unless_optimal(Stop::Limits), ..found };
                }
                continue;
            }
            harder.held = fullest_step(&found).saturating_sub(1).min(harder.held);
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
        round += 1;
    }
    if limits.over(&best) > 0 {
        best = limits.approached(best, &|terms| solved(terms).ok(), SearchOptions { most: u128::MAX, ..terms }, cost);
    }
    let lower_bound = bound.unwrap_or(best.lower_bound);
    Ok(Plan { lower_bound, ..best })
}

/// The cheapest plan, whatever the limits.
///
/// # Errors
/// If there is no plan on these terms.
pub(super) fn free(program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
    Limits::of(program).solved(program, costs, terms)
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

    /// The cheapest plan on some terms; with its recipes where memory is limited, of which its memory is known.
    fn solved(&self, program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
        let plan = lazy::solve(program, costs, terms)?;
        Ok(match costs.tuner().filter(|_| self.memory < u64::MAX) {
            Some(tuner) => plan.with_recipes(tuner, costs.is_by_clock()),
            None => plan,
        })
    }

    fn are_none(&self) -> bool {
        self.memory == u64::MAX && self.flops == u128::MAX
    }

    /// The plan that breaks the limits least, where none was found within them: operations cost more than anything,
    /// and steps get less memory until there is no plan.
    fn approached(
        &self,
        mut best: Plan,
        solved: &dyn Fn(SearchOptions) -> Option<Plan>,
        mut terms: SearchOptions,
        cost: u128,
    ) -> Plan {
        let totals = best.totals();
        if totals.flops > self.flops {
            terms.toll = (cost.saturating_mul(1 << 20), totals.flops.max(1));
        }
        if u128::from(totals.peak().0) > u128::from(self.memory) {
            terms.held = fullest_step(&best).saturating_sub(1);
        }
        for _ in 0..MOST_ROUNDS {
            if terms.budget.is_over() {
                break;
            }
            let Some(found) = solved(terms) else { break };
            terms.held = fullest_step(&found).saturating_sub(1);
            if self.over(&found) < self.over(&best) {
                best = Plan { stop: found.stop.unless_optimal(Stop::Limits), ..found };
            }
            if u128::from(best.totals().peak().0) <= u128::from(self.memory) {
                break;
            }
        }
        best
    }

    /// In millionths, rounded up; 0 if they are kept.
    fn over(&self, plan: &Plan) -> u128 {
        let totals = plan.totals();
        let part =
            |value: u128, limit: u128| value.saturating_sub(limit).saturating_mul(1_000_000).div_ceil(limit.max(1));
        part(u128::from(totals.peak().0), u128::from(self.memory)).saturating_add(part(totals.flops, self.flops))
    }
}

/// The most bytes that a device holds for one step: what it takes and what it makes, and what waits [`beside`] it.
fn fullest_step(plan: &Plan) -> u64 {
    let mesh = &plan.program.mesh;
    let beside = beside(&plan.program, false);
    let held = |id| {
        let ids = plan.operands(id).into_iter();
        let waits = beside[plan.step(id).value.index()].of(&plan.step(id).op);
        let operands = ids.map(|id| plan.step(id).layout.local_bytes(mesh).0).fold(0, u64::saturating_add);
        plan.step(id).usage.of_first().with_operands(operands).saturating_add(waits)
    };
    let done = plan.ids().filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry));
    done.map(held).max().unwrap_or_default()
}
