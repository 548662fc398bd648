//! Lower bounds over all plans for any costs: the relaxed search without the limits and pins of the program.

use super::reshard::SearchOptions;
use super::search::{Search, Settled};
use super::{Allowed, Budget, Costs, Filled, Plan, StepOp, names, parts, unit_axes};
use crate::program::Program;
use crate::units::Time;

/// The lower bound, and the number of moves examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Lower bound over all plans.
    pub time: Time,
    /// Number of moves examined.
    pub work: u64,
    /// Whether all layouts were examined.
    pub is_complete: bool,
}

/// Lower bound over all plans of a program under these costs, for all layouts that its text leaves open. Where the budget is not
/// sufficient to examine all layouts, the time of its products, spread evenly over all devices.
///
/// - `in_parts`: whether plans with split axes are included.
///
/// `None` if there is no plan.
pub fn least(program: &Program, costs: &dyn Costs, in_parts: bool, budget: Budget) -> Option<Least> {
    let reduced = unit_axes::without(program);
    let program = reduced.as_ref().unwrap_or(program);
    let own = least_as_written(program, costs, in_parts, budget)?;
    let laid_out = names::laid_out(program, costs);
    let other = laid_out.and_then(|program| least_as_written(&program, costs, in_parts, budget));
    Some(other.map_or(own, |other| Least {
        time: own.time.min(other.time),
        work: own.work.saturating_add(other.work),
        is_complete: own.is_complete && other.is_complete,
    }))
}

/// The lower bound for values in the layouts that are written.
fn least_as_written(program: &Program, costs: &dyn Costs, in_parts: bool, budget: Budget) -> Option<Least> {
    let resolved = program.with_names_resolved();
    let program = resolved.as_ref().unwrap_or(program);
    match parts::in_parts(program).filter(|_| in_parts) {
        Some(program) => search(&program, costs.seen_as(&program.mesh)?.as_ref(), budget),
        None => search(program, costs, budget),
    }
}

fn search(program: &Program, costs: &dyn Costs, budget: Budget) -> Option<Least> {
    let mut search = relaxed(program, costs, budget);
    if !budget.is_spent() {
        search.run(&Settled::new(), true, None).ok()?;
    }
    let (is_complete, work) = (!budget.is_spent() && !search.budget.is_restricted(), search.work());
    let products = || program.value_ids().map(|id| search.least_product(id).1).sum();
    let time = if is_complete { Time::from_ticks(search.total().first()) } else { products() };
    Some(Least { time, work, is_complete })
}

/// Lower bound on the objective over all plans with whole axes; `None` if the budget is not sufficient.
pub(super) fn least_in_sequence(program: &Program, costs: &dyn Costs, budget: Budget) -> Option<u128> {
    let mut search = relaxed(program, costs, budget);
    search.run(&Settled::new(), true, None).ok()?;
    (!search.budget.is_restricted()).then(|| search.total().first())
}

/// The relaxed search over all plans, before it is run.
fn relaxed<'a>(program: &'a Program, costs: &'a dyn Costs, budget: Budget) -> Search<'a> {
    let options = SearchOptions { budget, opens_all: true, ..SearchOptions::new(Allowed::Moves) };
    let mut search = Search::new(program, costs, options);
    search.heeds_pins = false;
    search
}

impl Plan {
    /// The program without the layouts that the planner chose for its inputs.
    pub fn unfilled(&self) -> Program {
        let mut program = self.program.clone();
        for Filled { input, asked } in &self.filled {
            debug_assert_eq!(self.step(*input).op, StepOp::Input, "only inputs are filled");
            program.values[self.step(*input).value.index()].wanted = asked.clone();
        }
        program
    }
}
