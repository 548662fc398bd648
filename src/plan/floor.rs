//! What no plan takes less of, by any costs: the relaxed search alone, without the limits and pins of the program.

use super::reshard::SearchOptions;
use super::search::{Search, Settled};
use super::{Allowed, Budget, Costs, Plan, StepOp, parts, unit_axes};
use crate::program::{Program, Wanted};
use crate::units::Time;

/// The least total time of all plans, and how many moves were looked at for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// No plan takes less, whatever it is chosen by.
    pub time: Time,
    /// A measure of the work.
    pub work: u64,
}

/// What no plan of a program takes less than by these costs, over all layouts that its text leaves open.
///
/// - `in_parts`: whether plans with axes in parts count.
///
/// `None` where not all layouts can be looked at within the budget, so that nothing is known.
pub fn least(program: &Program, costs: &dyn Costs, in_parts: bool, budget: Budget) -> Option<Least> {
    let reduced = unit_axes::without(program);
    let program = reduced.as_ref().unwrap_or(program);
    match parts::in_parts(program).filter(|_| in_parts) {
        Some(program) => search(&program, costs.seen_as(&program.mesh)?.as_ref(), budget),
        None => search(program, costs, budget),
    }
}

fn search(program: &Program, costs: &dyn Costs, budget: Budget) -> Option<Least> {
    let mut search = Search::new(program, costs, SearchOptions { budget, ..SearchOptions::new(Allowed::Moves) });
    search.heeds_pins = false;
    search.opens_all = true;
    search.run(&Settled::new(), true, &[]).ok()?;
    let least = Least { time: Time::from_ticks(search.total().first()), work: search.work() };
    (!search.budget.is_restricted()).then_some(least)
}

impl Plan {
    /// The program without the layouts that the plan has chosen for its inputs.
    pub fn unfilled(&self) -> Program {
        let mut program = self.program.clone();
        for id in &self.filled {
            debug_assert_eq!(self.step(*id).op, StepOp::Input, "only inputs are filled");
            program.values[self.step(*id).value.index()].wanted = Wanted::Free;
        }
        program
    }
}
