//! Prices that take long to find, such as those of a simulation, are asked for only where a plan wants them.
//!
//! A program is planned with bounds in the place of prices. If the plan has a move of which only the bound is known, its
//! price is found, and the program is planned again. A plan all of whose prices are known is the cheapest: every other
//! costs no less than by bounds.

use super::prices::Prices;
use super::reshard::SearchOptions;
use super::search::Search;
use super::{Budget, Costs, Plan, PlanError, Stop, branch};
use crate::program::Program;

/// The cheapest plan on some terms.
///
/// # Errors
/// If there is none.
pub(super) fn solve(program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
    // What a pin asks for is seen on the cheapest ways, which are those by price.
    let is_eager = program.values.iter().any(|value| value.pin.is_some());
    let prices = Prices::new(costs, is_eager);
    let mut search = Search::new(program, &prices, terms);
    let mut round = 0;
    loop {
        round += 1;
        let branch::Solved { built, least, stop, work } = branch::solve(search)?;
        let wanted: Vec<_> = built.moves().filter(|(moved, from)| prices.at_least(moved, from).is_some()).collect();
        if wanted.is_empty() {
            return Ok(built.finish(least, stop, &prices));
        }
        wanted.iter().for_each(|(moved, from)| {
            prices.learn(moved, from);
        });
        if round == Budget::MOST_ROUNDS || work > terms.budget.most_work_of_rounds() || terms.budget.is_over() {
            let known = prices.only_known();
            let last = built.repriced();
            let again = || branch::solve(Search::new(program, &known, terms)).ok();
            let best = if terms.budget.is_over() { None } else { again() };
            return Ok(match best.map(|solved| solved.built).filter(|best| best.score() < last.score()) {
                Some(best) => best.finish(least, Stop::Work, &prices),
                None => last.finish(least, Stop::Work, &prices),
            });
        }
        search = built.into_search();
        wanted.iter().for_each(|(moved, from)| search.reprice(moved, from));
    }
}
