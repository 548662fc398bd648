//! Lazy pricing: expensive prices, such as simulated ones, are computed only when a plan uses them.
//!
//! A program is planned with lower bounds instead of prices. If the plan has a move with a bound, the price is computed
//! and the program is replanned. A plan whose prices are all known is optimal, because bounds never exceed prices.
//!
//! In a large program most prices are found by short searches. The full search follows once the plan of a short one has
//! no bounds left.

use super::branch::{self, Effort, Solved};
use super::prices::Prices;
use super::problem::{Problem, Unplanned};
use super::reshard::Score;
use super::search::{Search, Settled};
use super::{Budget, Costs, LowerBound, Plan, Stop};
use itertools::Itertools;

/// The cheapest plan under some options.
///
/// # Errors
/// If planning fails.
pub(super) fn solve(Problem { program, costs, options }: Problem<'_>) -> Result<Plan, Unplanned> {
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
            Err(unsolved) => match unsolved.cut_short {
                // A plan below a given limit may be hard to find.
                Some(cut_short) if is_look => {
                    effort = Effort::Full;
                    search = *cut_short;
                    continue;
                }
                _ => {
                    let left_out = unsolved.left_out.map(|least| LowerBound::of(costs.objective(), least));
                    return Err(Unplanned { error: unsolved.error, left_out });
                }
            },
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
        let is_last = round >= Budget::MOST_ROUNDS || work > options.budget.most_work_of_rounds();
        // In a large program, a full search is the last one.
        let is_done = is_last && (!is_large || effort == Effort::Full);
        effort = if is_known || is_last { Effort::Full } else { Effort::Look };
        if is_done || options.budget.is_over() {
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
        let mut priced = wanted;
        if is_large {
            let alike = priced.iter().flat_map(|(moved, from)| search.alike(moved, from)).unique();
            let alike: Vec<_> = alike.filter(|(moved, from)| prices.at_least(moved, from).is_some()).collect();
            for (moved, from) in &alike {
                prices.learn(moved, from);
            }
            priced.extend(alike);
        }
        priced.iter().for_each(|(moved, from)| search.reprice(moved, from));
    }
}

#[cfg(test)]
mod tests {
    use crate::compiler::{self, Options, Overlapping, Resharding};
    use crate::plan::{Budget, Plan, Stop};
    use itertools::Itertools;

    /// A plan in sequence with a part of the work limit.
    fn planned(source: &str, parts: u64) -> Plan {
        let budget = Budget::default().divided_by(parts);
        let (overlap, reshard) = (Overlapping::None, Resharding::Chains);
        let options = Options { budget, overlap, reshard, ..Options::default() };
        let program = compiler::check(source).0.expect("a program");
        let topology = compiler::machine(&program, &options).expect("a machine");
        compiler::plan(&program, &topology, &options).expect("a plan")
    }

    /// With small limits, the first searches are cut short even in small programs. What is then called optimal takes as
    /// long as the optimal plan under the default limit, and no bound is above that.
    #[test]
    fn short_searches_change_no_optimum() {
        let mut stops = Vec::new();
        for (mesh, rows) in [("X: 4, Y: 2", 512), ("X: 4, Y: 4", 8192), ("X: 2, Y: 8 line", 65536)] {
            let source = format!(
                "mesh {{{mesh}}} on tpu_v5p\ndims {{B: {rows}, D: 4096, F: 16384}}\nx: bf16[B_X, D_Y]\n\
                 V1: bf16[D_X, F_Y]\nW1: bf16[F_Y, D_X]\nV2: bf16[D_Y, F_X]\nW2: bf16[F_X, D_Y]\n\
                 g = relu(x * V1)\ny = g * W1 + x\nh = relu(y * V2)\nz = h * W2 + y\nu = exp(z)\nl[B] = sum_D(u .* y)\n\
                 output z\n"
            );
            let best = planned(&source, 1);
            assert_eq!(best.stop, Stop::Optimal, "{source}");
            for parts in [10, 30, 100, 300, 1_000, 3_000] {
                let plan = planned(&source, parts);
                assert!(plan.lower_bound.time <= best.time(), "{parts}: a bound above the optimum\n{source}");
                assert!(plan.time() >= best.time(), "{parts}: a plan below the optimum\n{source}");
                assert!(plan.stop != Stop::Optimal || plan.time() == best.time(), "{parts}: no optimum\n{source}");
                stops.push(plan.stop);
            }
        }
        // Full searches follow some of the short ones, and some are cut short themselves.
        assert!(stops.contains(&Stop::Optimal) && stops.contains(&Stop::Work), "{stops:?}");
    }

    /// Moves of a renamed array are priced under its new name: plans are as good as if it had been declared so. On an
    /// H100, the ring of the library takes several times the lower bound that a search begins with.
    #[test]
    fn renamed_arrays_move_like_others() {
        for (mesh, size) in ["X: 2, Y: 4", "X: 4, Y: 8", "Y: 8, X: 2"].into_iter().cartesian_product([8, 64, 4096]) {
            let program = |dim: &str, array: &str| {
                let head = format!("mesh {{{mesh}}} on h100\ndims {{I: {size}, J: {size}, K: {size}, L: {size}}}\n");
                let body = format!("W: bf16[L_X, K]\nB: bf16[{dim}_Y, I]\nC[L_X, I] = W * {array}\n");
                planned(&format!("{head}{body}"), 1)
            };
            let (renamed, declared) = (program("J", "rename_{J->K}(B)"), program("K", "B"));
            assert_eq!(renamed.time(), declared.time(), "{mesh}, {size}\n{renamed}\n{declared}");
            assert_eq!(renamed.stop, declared.stop, "{mesh}, {size}");
            assert_eq!(renamed.lower_bound, declared.lower_bound, "{mesh}, {size}");
        }
    }
}
