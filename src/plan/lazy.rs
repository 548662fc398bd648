//! Lazy pricing: expensive prices, such as simulated ones, are computed only when a plan uses them.
//!
//! A program is planned with lower bounds instead of prices. If the plan has a move with a bound, the price is computed
//! and the program is replanned. A plan whose prices are all known is optimal, because bounds never exceed prices.

use super::prices::Prices;
use super::problem::Problem;
use super::search::Search;
use super::{Budget, Costs, Plan, PlanError, Stop, branch};

/// The cheapest plan under some options.
///
/// # Errors
/// If planning fails.
pub(super) fn solve(Problem { program, costs, options }: Problem<'_>) -> Result<Plan, PlanError> {
    // Pins are checked on the cheapest paths, which requires all prices.
    let is_eager = program.values.iter().any(|value| value.pin.is_some());
    let prices = Prices::new(costs, is_eager);
    let mut search = Search::new(program, &prices, options);
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
        // A plan that costs what its bounds say is as good under all prices. Memory is learned as well.
        let score = built.score();
        let built = built.repriced();
        if built.score() == score && options.memory_limit == u64::MAX {
            return Ok(built.finish(least, stop, &prices));
        }
        if round == Budget::MOST_ROUNDS || work > options.budget.most_work_of_rounds() || options.budget.is_over() {
            let known = prices.only_known();
            let again = || branch::solve(Search::new(program, &known, options)).ok();
            let best = if options.budget.is_over() { None } else { again() };
            return Ok(match best.map(|solved| solved.built).filter(|best| best.score() < built.score()) {
                Some(best) => best.finish(least, Stop::Work, &prices),
                None => built.finish(least, Stop::Work, &prices),
            });
        }
        search = built.into_search();
        wanted.iter().for_each(|(moved, from)| search.reprice(moved, from));
    }
}
