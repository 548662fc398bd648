//! Inputs with layout holes: `W: bf16[D_?, F_?]`, `W: bf16[D_X, F_?]`.
//!
//! An input that is used once offers all its layouts to its user, at no cost. If that exceeds a memory limit, the layouts of
//! such inputs are tried one by one with a plan each, if they are few. Otherwise bytes of these inputs get a price, a
//! *rent*, at which the layouts come close to the limit; then one or two layouts at a time are changed for better ones.

use super::goal::{Rank, rank};
use super::layouts::layouts;
use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::score::figure;
use super::{Budget, Filled, LowerBound, Objective, Plan, PlanError, StepId, StepOp, Stop, limits};
use crate::layout::Sharding;
use crate::program::{Definition, Program, ValueId, Wanted};
use crate::supply::Supply;
use crate::syntax::Measure;
use itertools::Itertools;
use std::cmp::Ordering;

/// The first rent is the one at which all of the memory costs this fraction of the plan.
const FIRST_RENT: u128 = 16;

/// Plans a program and fills the layout holes of its inputs.
///
/// # Errors
/// If planning fails, or an input has too many layouts.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let program = problem.program;
    let limit = memory_limit(program);
    let mut tried: Vec<(ValueId, Vec<Sharding>)> = Vec::new();
    for id in program.value_ids().filter(|id| has_hole(program, *id)) {
        let value = program.value(id);
        let layouts = layouts(&value.dims, &value.wanted, &program.mesh).ok_or_else(|| too_many(program, id))?;
        if limit.is_some() {
            tried.push((id, layouts.list));
        }
    }
    let Some(limit) = limit.filter(|_| !tried.is_empty()) else {
        return Ok(filled(program, solve(problem)?));
    };
    let count = tried.iter().try_fold(1usize, |count, (_, layouts)| count.checked_mul(layouts.len()));
    // The best plan of all may be within the limit.
    let free = solve(problem.with(problem.options.without_limits()));
    let holes = Holes { problem, solve, tried };
    match free {
        Ok(free) if limits::over(&free) == 0 => Ok(filled(program, free)),
        _ if count.is_some_and(|count| count <= Budget::MOST_PLANS) => holes.one_by_one(),
        free => holes.by_rent(&free?, limit),
    }
}

/// The inputs with layout holes of a program with a memory limit.
struct Holes<'a> {
    problem: Problem<'a>,
    solve: Solve<'a>,
    /// The possible layouts of each input.
    tried: Vec<(ValueId, Vec<Sharding>)>,
}

impl Holes<'_> {
    /// The program with a layout for each hole.
    fn written<'s>(&self, choice: impl IntoIterator<Item = &'s Sharding>) -> Program {
        let mut program = self.problem.program.clone();
        for ((id, _), sharding) in self.tried.iter().zip(choice) {
            program.values[id.index()].wanted = Wanted::Exact(sharding.clone());
        }
        program
    }

    fn objective(&self) -> Objective {
        self.problem.costs.objective()
    }

    fn rank(&self, plan: &Plan) -> Rank {
        rank(plan, self.objective())
    }

    /// Tries all combinations of layouts.
    fn one_by_one(&self) -> Result<Plan, Unplanned> {
        let mut best: Option<Plan> = None;
        let (mut bound, mut failure, mut stop): (Option<LowerBound>, _, _) = (None, None, Stop::Optimal);
        let mut all_tried = true;
        for choice in self.tried.iter().map(|(_, layouts)| layouts.iter()).multi_cartesian_product() {
            if self.problem.options.budget.is_over() && best.is_some() {
                (all_tried, stop) = (false, Stop::Time);
                break;
            }
            match (self.solve)(Problem { program: &self.written(choice), ..self.problem }) {
                Ok(plan) => {
                    bound = bound.into_iter().chain([plan.lower_bound]).reduce(LowerBound::of_both);
                    let fits = limits::over(&plan) == 0;
                    stop = stop.unless_optimal(if fits { plan.stop } else { plan.stop.unless_optimal(Stop::Limits) });
                    if best.as_ref().is_none_or(|best| self.rank(&plan) < self.rank(best)) {
                        best = Some(plan);
                    }
                }
                Err(error) => {
                    if let Some(left_out) = error.left_out {
                        bound = bound.into_iter().chain([left_out]).reduce(LowerBound::of_both);
                        stop = stop.unless_optimal(Stop::Work);
                    }
                    failure = Some(error);
                }
            }
        }
        match (best, failure) {
            // No bound is known for combinations that were not tried.
            (Some(plan), _) => Ok(self.bounded(plan, stop, bound.filter(|_| all_tried).unwrap_or_default())),
            (None, Some(error)) => Err(error),
            (None, None) => unreachable!("every input has the layout in which its holes are whole, and that was tried"),
        }
    }

    /// Layouts found by planning at a rent, improved by local search.
    ///
    /// At a rent `r`, the cost of the cheapest plan with rent, minus `r` for all of the memory, is a lower bound.
    ///
    /// - `free`: the plan without the limit, which exceeds it.
    fn by_rent(&self, free: &Plan, limit: u128) -> Result<Plan, Unplanned> {
        let memory = limit.saturating_sub(self.elsewhere()).max(1);
        let cheap = SearchOptions {
            budget: self.problem.options.budget.divided_by(Budget::SHARE_OF_A_CHANGE),
            ..self.problem.options
        };
        let first = (figure(free, self.objective()) / FIRST_RENT).max(1);
        let (mut bound, mut best) = (free.lower_bound, self.within(free, cheap)?);
        let mut seen = vec![self.choice(free)];
        // Layouts begin to fit between these rents, which are fractions of `first` with a power of two as denominator.
        let parts = 1u128 << Budget::MOST_HALVED;
        let (mut low, mut high, mut rent) = (0, None, parts);
        for _ in 0..Budget::MOST_DOUBLED {
            if self.problem.options.budget.is_over() {
                break;
            }
            let rented = (first.saturating_mul(rent), memory.saturating_mul(parts));
            let options = SearchOptions { rent: rented, most: u128::MAX, ..cheap };
            let Ok(plan) = (self.solve)(self.problem.with(options.without_limits())) else { break };
            let paid = first.saturating_mul(rent).div_ceil(parts);
            bound = bound.better(plan.lower_bound.without(self.objective(), paid));
            let choice = self.choice(&plan);
            let fits = if seen.contains(&choice) {
                limits::over(&plan) == 0
            } else {
                let found = self.within(&plan, cheap)?;
                let fits = limits::over(&found) == 0;
                if self.rank(&found) < self.rank(&best) {
                    best = found;
                }
                seen.push(choice);
                fits
            };
            if fits {
                high = Some(rent)
            } else {
                low = rent
            }
            rent = match high {
                Some(high) if high - low <= 1 => break,
                Some(high) => (low + high) / 2,
                None => rent.saturating_mul(2),
            };
        }
        let best = self.changed(best, limit);
        let thorough = self.within(&best, self.problem.options)?;
        let best = if self.rank(&thorough) < self.rank(&best) { thorough } else { best };
        Ok(self.bounded(best, Stop::Limits, bound))
    }

    /// Memory of the other inputs of a device, which is always in use.
    fn elsewhere(&self) -> u128 {
        let held = |id: &ValueId| {
            let is_held = self.problem.program.value(*id).definition == Definition::Input { supply: Supply::Held };
            is_held && !has_hole(self.problem.program, *id)
        };
        let bytes = |id: ValueId| match &self.problem.program.value(id).wanted {
            Wanted::Exact(sharding) => {
                let layout = self.problem.program.layout(id, sharding.clone());
                u128::from(layout.local_bytes(&self.problem.program.mesh).0)
                    * u128::from(self.problem.program.times(id))
            }
            Wanted::Partly(_) | Wanted::Free => 0,
        };
        self.problem.program.value_ids().filter(held).map(bytes).sum()
    }

    /// The layouts that a plan has chosen.
    fn choice(&self, plan: &Plan) -> Vec<Sharding> {
        let chosen = |id: &ValueId| {
            let mut inputs = plan.ids().filter(|step| plan.step(*step).op == StepOp::Input);
            let step = inputs.find(|step| plan.step(*step).value == *id);
            step.map(|step| plan.step(step).layout.sharding.clone())
        };
        let smallest = |layouts: &[Sharding]| layouts.first().cloned().unwrap_or_default();
        self.tried.iter().map(|(id, layouts)| chosen(id).unwrap_or_else(|| smallest(layouts))).collect()
    }

    /// Plans with the layouts of another plan, within the limits.
    fn within(&self, plan: &Plan, options: SearchOptions) -> Result<Plan, Unplanned> {
        (self.solve)(Problem { program: &self.written(&self.choice(plan)), ..self.problem.with(options) })
    }

    /// Local search: changes one layout at a time while that improves the plan, then two at a time, where one makes
    /// room for the other.
    fn changed(&self, mut best: Plan, limit: u128) -> Plan {
        let mut left = Budget::MOST_CHANGED;
        let elsewhere = self.elsewhere();
        loop {
            let before = self.rank(&best);
            for others in [false, true] {
                for change in self.changes(&self.choice(&best), others) {
                    let choice = self.choice(&best);
                    let changed = choice.iter().enumerate().map(|(place, old)| {
                        let new = change.iter().find(|(at, _)| *at == place);
                        new.map_or(old, |(at, layout)| &self.tried[*at].1[*layout])
                    });
                    let changed: Vec<&Sharding> = changed.collect();
                    let bytes = changed.iter().enumerate().map(|(place, sharding)| self.bytes(place, sharding));
                    if elsewhere.saturating_add(bytes.sum()) > limit {
                        continue;
                    }
                    if left == 0 || self.problem.options.budget.is_over() {
                        return best;
                    }
                    left -= 1;
                    best = self.better(&self.written(changed), &best).unwrap_or(best);
                }
                if self.rank(&best) != before {
                    break;
                }
            }
            if self.rank(&best) == before {
                return best;
            }
        }
    }

    /// Neighbouring choices: other layouts of one input, or of two inputs, one with more bytes and one with fewer.
    /// Each entry is the index of an input and of a layout.
    fn changes(&self, choice: &[Sharding], of_two: bool) -> Vec<Vec<(usize, usize)>> {
        let all = |place: usize| (0..self.tried[place].1.len()).map(move |layout| (place, layout));
        let singles = (0..self.tried.len()).flat_map(all);
        let is_other = |(place, layout): &(usize, usize)| self.tried[*place].1[*layout] != choice[*place];
        let singles: Vec<(usize, usize)> = singles.filter(is_other).collect();
        if !of_two {
            return singles.into_iter().map(|single| vec![single]).collect();
        }
        let grown = |(place, layout): (usize, usize)| {
            (self.bytes(place, &self.tried[place].1[layout])).cmp(&self.bytes(place, &choice[place]))
        };
        let larger = singles.iter().copied().filter(|single| grown(*single) == Ordering::Greater);
        let smaller = || singles.iter().copied().filter(|single| grown(*single) == Ordering::Less);
        let pairs = larger.flat_map(|one| smaller().map(move |other| vec![one, other]));
        pairs.filter(|pair| pair[0].0 != pair[1].0).collect()
    }

    /// Bytes of an input in a layout, by the index of the layout.
    fn bytes(&self, place: usize, sharding: &Sharding) -> u128 {
        let id = self.tried[place].0;
        let layout = self.problem.program.layout(id, sharding.clone());
        u128::from(layout.local_bytes(&self.problem.program.mesh).0) * u128::from(self.problem.program.times(id))
    }

    /// Plans a program with fixed layouts and keeps the plan if it is the best so far.
    fn better(&self, program: &Program, best: &Plan) -> Option<Plan> {
        let fits = limits::over(best) == 0;
        let most = if fits { figure(best, self.objective()) } else { u128::MAX };
        let options = SearchOptions {
            most,
            budget: self.problem.options.budget.divided_by(Budget::SHARE_OF_A_CHANGE),
            ..self.problem.options
        };
        let is_better = |plan: &Plan| self.rank(plan) < self.rank(best);
        let solved = |options| (self.solve)(Problem { program, ..self.problem.with(options) }).ok();
        let free = solved(options.without_limits())?;
        if limits::over(&free) == 0 {
            return Some(free).filter(is_better);
        }
        // A choice that is no better without limits is no better within them.
        if fits && figure(&free, self.objective()) >= most {
            return None;
        }
        solved(options).filter(is_better)
    }

    fn bounded(&self, plan: Plan, stop: Stop, lower_bound: LowerBound) -> Plan {
        // By time, a plan is the best if the bounds of all others are not below it.
        let by_bound = self.objective() == Objective::Time && plan.totals().time() <= lower_bound.time;
        let stop = if by_bound && limits::over(&plan) == 0 { Stop::Optimal } else { stop };
        filled(self.problem.program, Plan { stop, lower_bound, ..plan })
    }
}

/// The best plan, with the layouts of the original program restored.
pub(super) fn filled(program: &Program, mut plan: Plan) -> Plan {
    let is_hole = |id: &StepId| plan.step(*id).op == StepOp::Input && has_hole(program, plan.step(*id).value);
    let asked = |input: StepId| Filled { input, asked: program.value(plan.step(input).value).wanted.clone() };
    let filled: Vec<Filled> = plan.ids().filter(is_hole).map(asked).collect();
    for Filled { input, .. } in &filled {
        let (value, sharding) = (plan.step(*input).value, plan.step(*input).layout.sharding.clone());
        plan.program.values[value.index()].wanted = Wanted::Exact(sharding);
    }
    Plan { filled, ..plan }
}

fn has_hole(program: &Program, id: ValueId) -> bool {
    let value = program.value(id);
    value.definition.is_input() && value.wanted.is_open()
}

/// The lowest memory limit, in bytes.
fn memory_limit(program: &Program) -> Option<u128> {
    let limits = program.limits.iter().filter(|limit| limit.measure == Measure::Memory);
    limits.map(|limit| limit.amount.value).min()
}

fn too_many(program: &Program, id: ValueId) -> PlanError {
    let value = program.value(id);
    let name = value.name.clone().unwrap_or_else(|| "the unnamed array".to_owned());
    PlanError::Holes { name, span: value.span.into() }
}
