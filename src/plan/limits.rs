//! Plans within the limits of a program: `limit memory 300MB`, `limit flops 4e12`.
//!
//! The unrestricted plan is used if it satisfies the limits. Otherwise infeasible choices are excluded: a product
//! that takes more operations than the others leave, a step that needs more memory than the limit. If this is not
//! sufficient, operations get a penalty, and steps less memory, until a plan fits.

use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::resident::resident;
use super::score::figure;
use super::{Budget, Plan, StepOp, Stop};
use crate::mesh::DeviceId;
use crate::program::Program;
use crate::recipe::Tuner;
use crate::syntax::Measure;

/// From this round on, the memory of a step includes all operands of its statement as they came.
const CAUTIOUS_ROUND: u32 = 12;

/// The cheapest plan within the limits, or, if none was found, the one with the smallest violation.
///
/// # Errors
/// If planning fails under these options.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Problem { program, costs, options } = problem;
    let limits = Limits::of(program);
    let solved = |options: SearchOptions| {
        let plan = solve(problem.with(options))?;
        Ok(match costs.tuner().filter(|_| limits.memory < u64::MAX) {
            // The recipes determine the memory.
            Some(tuner) => plan.with_recipes(tuner, costs.is_by_clock()),
            None => plan,
        })
    };
    if limits.are_none() || options.ignores_limits {
        return solved(options);
    }
    let free = solved(SearchOptions { most: u128::MAX, ..options })?;
    if limits.over(&free) == 0 {
        return Ok(free);
    }
    let figure = |plan: &Plan| figure(plan, costs.objective());
    let (cost, flops) = (figure(&free).max(1), free.totals().flops.max(1));
    let within = SearchOptions { memory_limit: limits.memory, flops: limits.flops, most: u128::MAX, ..options };
    let (mut harder, mut best, mut bound) = (within, free, None);
    let (mut round, mut learned, mut known) = (0, 0, costs.tuner().map_or(0, Tuner::counted));
    while round < Budget::MOST_TIGHTENED && !options.budget.is_over() {
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
        // The bound of the first round holds for all plans within the limits.
        let lower_bound = *bound.get_or_insert(found.lower_bound);
        let stop = if round == 0 { found.stop } else { found.stop.unless_optimal(Stop::Limits) };
        let found = Plan { stop, lower_bound, ..found };
        let totals = found.totals();
        let counted = costs.tuner().map_or(0, Tuner::counted);
        let has_learned = std::mem::replace(&mut known, counted) < counted && learned < Budget::MOST_LEARNED;
        if u128::from(totals.peak().0) > u128::from(limits.memory) {
            // A step that turns out to need more than its minimum memory may be excluded for that reason alone.
            if has_learned {
                learned += 1;
                if limits.over(&found) < limits.over(&best) {
                    best = Plan { stop: found.stop.unless_optimal(Stop::Limits), ..found };
                }
                continue;
            }
            harder.memory_limit = fullest_step(&found).saturating_sub(1).min(harder.memory_limit);
        }
        if totals.flops > limits.flops {
            // A sixteenth of the cost of the plan for all operations, doubled in each round.
            harder.penalty = (cost << round.min(64), 16 * flops);
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
        best = limits.approached(
            best,
            &|options| solved(options).ok(),
            SearchOptions { most: u128::MAX, ..options },
            cost,
        );
    }
    let lower_bound = bound.unwrap_or(best.lower_bound);
    Ok(Plan { lower_bound, ..best })
}

/// The largest relative violation of the limits of a plan.
pub(super) fn over(plan: &Plan) -> u128 {
    Limits::of(&plan.program).over(plan)
}

/// The lowest limits on memory and operations of a program.
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

    /// The plan with the smallest violation, if none is within the limits: operations get a dominating penalty, and
    /// steps less memory until planning fails.
    fn approached(
        &self,
        mut best: Plan,
        solved: &dyn Fn(SearchOptions) -> Option<Plan>,
        mut options: SearchOptions,
        cost: u128,
    ) -> Plan {
        let totals = best.totals();
        if totals.flops > self.flops {
            options.penalty = (cost.saturating_mul(1 << 20), totals.flops.max(1));
        }
        if u128::from(totals.peak().0) > u128::from(self.memory) {
            options.memory_limit = fullest_step(&best).saturating_sub(1);
        }
        for _ in 0..Budget::MOST_TIGHTENED {
            if options.budget.is_over() {
                break;
            }
            let Some(found) = solved(options) else { break };
            options.memory_limit = fullest_step(&found).saturating_sub(1);
            if self.over(&found) < self.over(&best) {
                best = Plan { stop: found.stop.unless_optimal(Stop::Limits), ..found };
            }
            if u128::from(best.totals().peak().0) <= u128::from(self.memory) {
                break;
            }
        }
        best
    }

    /// The violation in millionths, rounded up; 0 if the limits are satisfied.
    fn over(&self, plan: &Plan) -> u128 {
        let totals = plan.totals();
        let part =
            |value: u128, limit: u128| value.saturating_sub(limit).saturating_mul(1_000_000).div_ceil(limit.max(1));
        part(u128::from(totals.peak().0), u128::from(self.memory)).saturating_add(part(totals.flops, self.flops))
    }
}

/// Peak memory of a step: its operands, its result, and the [`resident`] inputs.
fn fullest_step(plan: &Plan) -> u64 {
    let mesh = &plan.program.mesh;
    let resident = resident(&plan.program, false);
    let held = |id| {
        // A device that has the operands.
        let holder = plan.operands(id).into_iter().map(|id| plan.step(id).layout.sharding.holder()).max();
        let ids = plan.operands(id).into_iter();
        let waits = resident[plan.step(id).value.index()].of(&plan.step(id).op);
        let operands = ids.map(|id| plan.step(id).layout.local_bytes(mesh).0).fold(0, u64::saturating_add);
        plan.step(id)
            .usage
            .working
            .of(mesh, holder.unwrap_or(DeviceId(0)))
            .with_operands(operands)
            .saturating_add(waits)
    };
    let done = plan.ids().filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry));
    done.map(held).max().unwrap_or_default()
}
