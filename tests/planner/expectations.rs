//! `expect` lines test a plan and never change it.

use crate::common::{compile, programs, sets, short_name};
use itertools::Itertools;
use shardc::compiler::{self, Options};
use shardc::expect;
use shardc::plan::Plan;

/// The steps of a plan with their layouts, methods and times.
fn steps(plan: &Plan) -> Vec<String> {
    let step = |id| format!("{} {} {:?}", plan.op_name(id), plan.array_label(id), plan.step(id).cost.time);
    plan.ids().map(step).collect()
}

fn is_expectation(line: &str) -> bool {
    line.trim_start().starts_with("expect ")
}

/// Programs with expectations have the plans that they have without.
#[test]
fn expectations_change_no_plan() {
    let (mut found, mut compared) = (0, 0);
    for path in [programs("examples"), programs("tests/corpus")].concat() {
        let source = std::fs::read_to_string(&path).expect("a program");
        if !source.lines().any(is_expectation) {
            continue;
        }
        found += 1;
        // Every fourth one unless the run is full.
        if found % 4 > 0 && !sets::are_full() {
            continue;
        }
        // Line numbers name values, so lines are emptied.
        let without = source.lines().map(|line| if is_expectation(line) { "" } else { line }).join("\n");
        let (with, without) = (compile(&source), compile(&without));
        assert_eq!(steps(&with.plan), steps(&without.plan), "{}", short_name(&path));
        compared += 1;
    }
    assert!(compared > 5, "{compared}");
}

/// A `Reshard` may be expected by itself or as the chain that it replaces, and as no other chain.
#[test]
fn a_routed_move_is_the_chain_that_it_replaces() {
    let program = |expected: &str| {
        format!(
            "mesh {{X: 4 ring, Y: 4 ring}} on tpu_v5p\ndims {{I: 8192, J: 8192}}\nA: bf16[I_X, J_Y]\nB[I_Y, J_X] = A\n\
             expect collectives B = [{expected}]\n"
        )
    };
    for (expected, holds) in [
        ("Reshard_XY", true),
        ("AllToAll, AllToAll, AllToAll", true),
        ("AllToAll_{X,J}, AllToAll, AllToAll", false),
        ("AllToAll, AllToAll", false),
        ("AllGather, AllToAll, AllToAll", false),
        ("Reshard, AllToAll", false),
    ] {
        let (checked, _) = compiler::check(&program(expected));
        let checked = checked.expect("a right program");
        let topology = compiler::machine(&checked, &Options::default()).expect("a machine");
        let plan = compiler::plan(&checked, &topology, &Options::default()).expect("a plan");
        let found = expect::judge(&plan, &topology, None);
        assert_eq!(found.iter().next().is_none(), holds, "{expected}: {found:?}");
    }
}
