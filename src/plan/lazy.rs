//! Lazy pricing: expensive prices, such as simulated ones, are computed only when a plan uses them.
//!
//! A program is planned with lower bounds instead of prices. If the plan has a move with a bound, the price is computed
//! and the program is replanned. A plan whose prices are all known is optimal, because bounds never exceed prices.
//!
//! In a large program most prices are found by short searches. The full search follows once the plan of a short one has
//! no bounds left.

use super::branch::{self, Effort, Solved};
use super::prices::Prices;
use super::problem::Problem;
use super::reshard::Score;
use super::search::{Search, Settled};
use super::{Budget, Costs, Plan, PlanError, Stop};
use itertools::Itertools;

/// The cheapest plan under some options.
///
/// # Errors
/// If planning fails.
pub(super) fn solve(Problem { program, costs, options }: Problem<'_>) -> Result<Plan, PlanError> {
    // Pins are checked on the cheapest paths, which requires all prices.
    let is_eager = program.values.iter().any(|value| value.pin.is_some());
    let prices = Prices::new(costs, is_eager);
    let mut search = Search::new(program, &prices, options);
    // First the likely moves are priced, by searches that are cut short.
    let mut effort = if is_eager { Effort::Full } else { Effort::Look };
    // In a large program each round is expensive, so similar moves are priced with those of a plan.
    let mut is_large = false;
    // The best plan so far and its decisions; later rounds start with them.
    let mut best: Option<(Score, Settled)> = None;
    let mut round = 0;
    loop {
        round += 1;
        let is_look = effort == Effort::Look && !options.budget.is_over();
        let known = best.as_ref().map(|(_, settled)| settled);
        let Solved { built, settled, least, stop, work } = match branch::solve(search, effort, known) {
            Ok(solved) => solved,
            Err(unsolved) if is_look && unsolved.is_cut_short => {
                effort = Effort::Full;
                search = Search::new(program, &prices, options);
                continue;
            }
            Err(unsolved) => return Err(unsolved.error),
        };
        let is_cut_short = is_look && stop == Stop::Work;
        is_large |= is_cut_short;
        let wanted = built.moves().filter(|(moved, from)| prices.at_least(moved, from).is_some());
        let wanted: Vec<_> = wanted.unique().collect();
        wanted.iter().for_each(|(moved, from)| {
            prices.learn(moved, from);
        });
        // A plan that costs what its bounds say is as good under all prices. Memory is learned as well.
        let score = built.score();
        let built = built.repriced();
        let is_known = wanted.is_empty() || built.score() == score && options.memory_limit == u64::MAX;
        if is_known && !is_cut_short {
            return Ok(built.finish(least, stop, &prices));
        }
        if is_large && best.as_ref().is_none_or(|(best, _)| built.score() < *best) {
            best = Some((built.score(), settled));
        }
        effort = if is_known || is_eager { Effort::Full } else { Effort::Look };
        if round == Budget::MOST_ROUNDS || work > options.budget.most_work_of_rounds() || options.budget.is_over() {
            let known = prices.only_known();
            let settled = best.as_ref().map(|(_, settled)| settled);
            let again = || branch::solve(Search::new(program, &known, options), Effort::Full, settled).ok();
            let other = if options.budget.is_over() { None } else { again() };
            return Ok(match other.map(|solved| solved.built).filter(|other| other.score() < built.score()) {
                Some(other) => other.finish(least, Stop::Work, &prices),
                None => built.finish(least, Stop::Work, &prices),
            });
        }
        search = built.into_search();
        let alike =
            wanted.iter().flat_map(|(moved, from)| if is_large { search.alike(moved, from) } else { Vec::new() });
        let alike: Vec<_> = alike.unique().filter(|(moved, from)| prices.at_least(moved, from).is_some()).collect();
        for (moved, from) in &alike {
            prices.learn(moved, from);
        }
        wanted.iter().chain(&alike).for_each(|(moved, from)| search.reprice(moved, from));
    }
}
