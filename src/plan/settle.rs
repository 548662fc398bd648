//! Values with several users, which are settled in one sharding each.
//!
//! The search settles such a value where it is made most cheaply and cannot know what its users will pay. So if it is
//! moved for them, others are tried in turn: the shardings into which it is moved, and the next cheapest to make.
//! What makes the whole plan cheaper is kept.

use super::build::{Built, build};
use super::search::{Search, Settled};
use super::{Allowed, Costs, PlanError};
use crate::program::Program;
use std::collections::VecDeque;

/// So many values are looked at by all trials together: programs of thousands of values are not tried again.
const MOST_WORK: usize = 4096;

/// So many trials at most.
const MOST_TRIALS: usize = 32;

/// The cheapest plan that was found.
pub(super) fn settle<'a>(program: &'a Program, costs: &'a dyn Costs, allowed: Allowed) -> Result<Built<'a>, PlanError> {
    let mut settled = Settled::new();
    let mut best = build(Search::run(program, costs, allowed, &settled)?);
    let mut trials = MOST_TRIALS.min(MOST_WORK / program.values.len().max(1));
    let mut waiting = VecDeque::from(best.elsewhere());
    while let Some((values, sharding)) = waiting.pop_front().filter(|_| trials > 0) {
        trials -= 1;
        let mut tried = settled.clone();
        tried.extend(values.into_iter().map(|value| (value, sharding.clone())));
        // A sharding that leads nowhere is not one to settle in.
        let Ok(search) = Search::run(program, costs, allowed, &tried) else { continue };
        let built = build(search);
        if built.score() < best.score() {
            (best, settled) = (built, tried);
            waiting = best.elsewhere().into();
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use crate::compiler::{self, Options};
    use crate::costs::CostModel;
    use crate::units::Time;

    /// The time of the plan of a program, which may have no plan.
    fn time(source: &str, costs: CostModel) -> Option<Time> {
        let options = Options { costs, ..Options::default() };
        let program = compiler::check(source).0?;
        let topology = compiler::machine(&program, &options).ok()?;
        let plan = compiler::plan(&program, &topology, &options).ok()?;
        Some(plan.totals().time())
    }

    /// With each layout of the shared value written out, no plan is cheaper than with none written.
    #[test]
    fn no_written_layout_of_a_shared_value_is_cheaper() {
        let loss = "x: bf16[B, D]\nW: bf16[D, V_Y]\nlogits[B, V_Y] = x * W\n\
                    m@ = max_V(logits)\nz = sum_V(exp(logits - m))\nloss[B] = log(z) + m";
        let twice = "A: bf16[B, D_Y]\nW: bf16[D_Y, V]\nm@ = A * W\nC[B_Y, V] = relu(m)\nE[B_Y, V] = exp(m)";
        let apart = "A: bf16[B, D_Y]\nW: bf16[D_Y, V]\nm@ = A * W\nC[B_Y, V] = relu(m)\nE[B, V_Y] = exp(m)";
        let slices = ["[B]", "[B_Y]"].as_slice();
        let blocks = ["[B, V]", "[B_Y, V]", "[B, V_Y]"].as_slice();
        for (body, layouts) in [(loss, slices), (twice, blocks), (apart, blocks)] {
            for (rows, costs) in [(8, CostModel::Book), (8, CostModel::Exact), (65536, CostModel::Book)] {
                let ground = format!("mesh {{Y: 8 ring}} on tpu_v5p\ndims {{B: {rows}, D: 4096, V: 8192}}\n");
                let source = |layout: &str| format!("{ground}{}", body.replace('@', layout));
                let free = time(&source(""), costs).expect("a plan");
                let written: Vec<Time> = layouts.iter().filter_map(|layout| time(&source(layout), costs)).collect();
                assert_eq!(Some(&free), written.iter().min(), "{costs:?}\n{}", source(""));
            }
        }
    }
}
