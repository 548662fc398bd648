//! The lower bound over all plans and schedules: never above a plan or its simulated time, and reached where possible.
#![allow(missing_docs)]

use crate::common::{programs, sets};
use shardc::bounds::crossing::crossing;

use shardc::compiler::{self, Compiled, Options};
use shardc::costs::{CostModel, Unit, floor, units};

use shardc::mesh::AxisSet;
use shardc::plan::Plan;
use shardc::sim::clock;
use shardc::topology::Topology;
use shardc::units::Time;
use std::path::Path;

/// Minimum busy time of a unit in the collectives of a plan.
fn load(plan: &Plan, topology: &Topology, axes: AxisSet) -> Time {
    let steps = plan.ids().filter_map(|id| {
        let collective = plan.step(id).op.collective()?;
        Some(crossing(collective, &plan.step(plan.operands(id)[0]).layout, topology, axes) * plan.times(id))
    });
    steps.sum()
}

/// Asserts that neither a plan nor its simulated time is below the lower bound, nor below the plan's own link loads.
fn holds(path: &Path, costs: CostModel) -> f64 {
    holds_for(&path.display().to_string(), &std::fs::read_to_string(path).expect("a program"), costs)
}

pub(crate) fn holds_for(whole: &str, source: &str, costs: CostModel) -> f64 {
    let program = compiler::check(source).0.unwrap_or_else(|| panic!("{whole}"));
    let options = Options { costs, reshard: compiler::Resharding::Chains, ..Options::default() };
    let Compiled { topology, plan, schedule, .. } =
        compiler::preview(&program, &options).unwrap_or_else(|found| panic!("{whole}: {found:?}"));
    let (total, show) = (plan.totals().time(), |time| topology.scale.show(time));
    let makespan = clock::run(&schedule, &topology).expect("a time").makespan;
    for unit in units(&topology) {
        let Unit::Links(axes) = unit else { continue };
        let load = load(&plan, &costs.machine(&topology), axes);
        if plan.carried.is_empty() {
            assert!(load <= makespan, "{whole} {}: {} > {}", unit.name(&topology), show(load), show(makespan));
        }
        assert!(load <= total, "{whole} {}: {} > {}\n{plan}", unit.name(&topology), show(load), show(total));
    }
    let Some(floor) = floor(&plan, &topology) else { return 1.0 };
    let name = floor.unit.name(&topology);
    assert!(floor.time <= total, "{whole} {name}: {} > {}", show(floor.time), show(total));
    if plan.carried.is_empty() {
        assert!(floor.time <= makespan, "{whole} {name}: {} > {}", show(floor.time), show(makespan));
    }
    total.ratio(floor.time)
}

#[test]
fn no_plan_of_the_corpus_is_below_its_floor() {
    for (costs, folder, most) in [
        (CostModel::Exact, "tests/corpus/small", 5),
        (CostModel::Exact, "tests/corpus/scale", 9),
        (CostModel::Book, "tests/corpus/scale", 8),
        (CostModel::Bytes, "tests/corpus/small", 2),
    ] {
        let ratios: Vec<f64> = programs(folder).iter().map(|path| holds(path, costs)).collect();
        assert_eq!(ratios.len(), 70);
        let at = ratios.iter().filter(|ratio| **ratio < 1.005).count();
        assert!(at >= most, "{costs:?} {folder}: {at} at the floor");
    }
}

#[test]
fn no_plan_of_an_example_is_below_its_floor() {
    for path in programs("examples") {
        holds(&path, CostModel::Exact);
    }
}

/// A kernel behind a move reads the moved array once for all its members, and starts once. Every fifth case on each of two
/// machines unless the run is full.
#[test]
fn no_plan_of_kernels_with_many_readers_is_below_its_floor() {
    for (turn, machine) in ["tpu_v5p", "h100"].into_iter().enumerate() {
        let mut number = turn;
        let mut on = || {
            number += 1;
            (sets::are_full() || number % 5 == 0).then_some(machine)
        };
        for (pick, most) in
            [("best = top_{V->K}(logits)", 8), ("ids = argtop_{V->K}(logits)\nbest = top_{V->K}(logits)", 5)]
        {
            for length in [2, 3, most] {
                let Some(hardware) = on() else { continue };
                let source = format!(
                    "mesh {{X: 4, Y: 2}} on {hardware}\ndims {{B: 128, D: 8192, V: 128256, K: {length}}}\n\
                     h: bf16[B_X, D]\nW: bf16[D, V_Y]\nlogits = f32(h * W)\n{pick}\noutput best"
                );
                holds_for(&source, &source, CostModel::Exact);
            }
        }
        for users in ["exp(y) + sqrt(y)", "y .* sum_F(y)", "(y - max_F(y)) .* exp(y) .* y", "exp(y) * V"] {
            for layouts in ["[B_X, F]", "[B, F_X]", "[B_X, F_Y]", ""] {
                let Some(hardware) = on() else { continue };
                let source = format!(
                    "mesh {{X: 4, Y: 2}} on {hardware}\ndims {{B: 8192, D: 128, F: 8192, G: 64}}\nx: bf16[B_X, D]\n\
                     W: bf16[D, F_Y]\nV: bf16[F, G]\ny{layouts} = x * W\nz = {users}\noutput z"
                );
                holds_for(&source, &source, CostModel::Exact);
            }
        }
    }
}
