//! `by gather(A)`, `by reduce`, `by slice(B)`: for all 27 single-axis layouts of `A`, `B` and `C`, each pin is
//! satisfied at minimum cost, or refused if it is impossible.
#![allow(missing_docs)]

use itertools::{Itertools, iproduct};
use miette::Diagnostic as _;
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::plan::{self, Costs, Plan, Request, StepOp};
use shardc::program::Program;
use shardc::recipe::Lowering;
use shardc::topology::Topology;
use shardc::units::Time;
use std::collections::BTreeSet;

const PINS: [&str; 7] = ["gather(A)", "gather(B)", "gather(A, B)", "reduce", "slice(A)", "slice(B)", "slice(A, B)"];

fn checked(source: &str) -> Program {
    let (program, diagnostics) = compiler::check(source);
    program.unwrap_or_else(|| panic!("{diagnostics:?}\n{source}"))
}

fn machine(source: &str) -> Topology {
    compiler::machine(&checked(source), &Options::default()).expect("a machine")
}

/// The plan, or the code of the error. All programs share one cost model, which prices each move once.
fn planned(source: &str, costs: &dyn Costs) -> Result<Plan, String> {
    plan::plan_as(&checked(source), costs, Request { alternatives: true, ..Request::default() })
        .map_err(|error| error.code().expect("a code").to_string())
}

fn source(layouts: (&str, &str, &str), size: u64, pin: &str) -> String {
    let (a, b, c) = layouts;
    let dims = format!("dims {{I: {size}, J: 2*{size}, K: 4*{size}}}");
    format!("mesh {{X: 4 ring}} on tpu_v5e\n{dims}\nA: bf16[{a}]\nB: bf16[{b}]\nC[{c}] = A * B {pin}\n")
}

/// The steps of a plan, in the terms of pins.
fn done(plan: &Plan) -> BTreeSet<(&'static str, String)> {
    let mut done = BTreeSet::new();
    for id in plan.ids() {
        let StepOp::Collective(collective) = &plan.step(id).op else { continue };
        let what = match collective.kind() {
            CollectiveKind::AllGather => "gather",
            CollectiveKind::ReduceScatter | CollectiveKind::AllReduce => "reduce",
            CollectiveKind::Slice | CollectiveKind::Open => "slice",
            CollectiveKind::AllToAll
            | CollectiveKind::Permute
            | CollectiveKind::Reshard
            | CollectiveKind::Shift
            | CollectiveKind::Broadcast => "move",
        };
        done.insert((what, plan.program.name(plan.step(id).value)));
    }
    done
}

/// The same for the moves of an alternative, parsed from their names: `AllGather_X(A[I, J_X])`.
fn told(moves: &[String]) -> BTreeSet<(&'static str, String)> {
    let one = |text: &String| {
        let (head, array) = text.split_once('(').expect("a move of an array");
        let what = match head.split('_').next() {
            Some("AllGather") => "gather",
            Some("ReduceScatter" | "AllReduce") => "reduce",
            Some("Slice") => "slice",
            _ => "move",
        };
        (what, array[..1].to_owned())
    };
    moves.iter().map(one).collect()
}

fn obeys(done: &BTreeSet<(&'static str, String)>, pin: &str) -> bool {
    match pin.split_once('(') {
        None => done.contains(&("reduce", "C".to_owned())),
        Some((strategy, names)) => {
            let mut names = names.trim_end_matches(')').split(", ");
            names.all(|name| done.iter().any(|(what, array)| *what == strategy && array == name))
        }
    }
}

/// Whether some array is sent twice, or sliced twice.
fn moves_twice(plan: &Plan) -> bool {
    let moves = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
    !moves.map(|id| (plan.communicates(id), plan.step(id).value)).all_unique()
}

fn time(plan: &Plan) -> Time {
    plan.totals().time()
}

#[test]
fn every_pin_is_obeyed_at_the_least_cost_or_refused() {
    let layouts =
        || iproduct!(["I, J", "I_X, J", "I, J_X"], ["J, K", "J_X, K", "J, K_X"], ["I, K", "I_X, K", "I, K_X"]);
    let (mut obeyed, mut refused, mut equal) = (0, 0, 0);
    let topology = machine(&source(("I, J", "J, K", "I, K"), 16, ""));
    let models = [CostModel::Book, CostModel::Exact].map(|model| model.on(&topology, Lowering::default()));
    for (layouts, size, costs) in iproduct!(layouts(), [16, 4096], &models) {
        let costs = costs.as_ref();
        let free = planned(&source(layouts, size, ""), costs).expect("a plan");
        let ways = &free.choices[0].alternatives;
        assert!(ways.len() < 8, "all ways are listed");
        for pin in PINS {
            let source = source(layouts, size, &format!("by {pin}"));
            let least = ways.iter().filter(|way| obeys(&told(&way.moves), pin)).map(|way| way.time).min();
            match (planned(&source, costs), least) {
                (Ok(plan), Some(least)) => {
                    assert!(obeys(&done(&plan), pin), "{source}{plan}");
                    // The listed alternative is the written one, with each array moved once; a plan is faster only if
                    // it moves some array twice.
                    assert!(time(&plan) == least || time(&plan) < least && moves_twice(&plan), "{source}{plan}");
                    equal += usize::from(time(&plan) == least);
                    let least = time(&plan);
                    let pinned = plan.choices[0].pinned.as_ref().expect("a pinned choice");
                    assert_eq!((pinned.text.as_str(), pinned.best.time), (&*format!("by {pin}"), time(&free)));
                    assert_eq!(plan.is_optimal(), least == time(&free), "{source}{plan}");
                    assert!(plan.lower_bound.time <= least);
                    obeyed += 1;
                }
                (Err(codes), None) => {
                    assert_eq!(codes, "pin-impossible", "{source}");
                    refused += 1;
                }
                (Ok(plan), None) => assert!(obeys(&done(&plan), pin), "{source}{plan}"),
                (Err(codes), Some(_)) => panic!("{codes}\n{source}"),
            }
        }
    }
    assert!(obeyed > 200 && refused > 200 && 10 * equal > 9 * obeyed, "{obeyed} {refused} {equal}");
}

/// Other branches of a search may fail for other reasons.
#[test]
fn what_no_branch_can_obey_is_an_impossible_pin() {
    let source = "mesh {X: 4} on tpu_v5e\ndims {I: 4, J: 4}\nA: bf16[I_X, J]\nB = sum_I(bf16[I])\n\
                  repeat 2 {\nC[I, J] = B * A by reduce\nB = tanh(B)\n}\noutput B";
    let topology = machine(source);
    for model in [CostModel::Book, CostModel::Exact, CostModel::Bytes] {
        let found = planned(source, model.on(&topology, Lowering::default()).as_ref());
        assert_eq!(found.map(|plan| plan.to_string()).as_ref().map_err(String::as_str), Err("pin-impossible"));
    }
}

/// A pin that all of very many branches violate is not searched for to the end. Sums are kept in order, so that a slice of
/// `c` does not help, but layouts differ in whether `c` is sliced along `H`.
#[test]
fn the_search_for_a_plan_with_a_pin_ends() {
    let source = "mesh {X: 3 switch, Y: 2 ring, Z: 2 full} on b200\ndims {K: 4, T: 1, H: 8, N: 7}\n\
                  A: f8e4m3[H_Y, T]\nB[H_XZ, T_Y] = f8e4m3(softmax_T(1 * A))\nc[T, H_X] = B\n\
                  repeat 1 {\nD[] = logsumexp_H(min_T(A)) ** 4\nc = min(max(c - c, -1), 1)\n}\n\
                  E[T] = c * A by slice(c)\nG[H, T_Z] = B[H_XZ, T_Y]\n\
                  L[K, H_Z] = concat_{T,N->H}(take_H(relu(c), i32[K, T_Y]), f8e4m3[K, N])\noutput B, c, E, G, L\n";
    let topology = machine(source);
    let costs = CostModel::Bytes.on(&topology, Lowering { bitwise: true, ..Lowering::default() });
    let error = plan::plan(&checked(source), costs.as_ref()).expect_err("no layout obeys the pin");
    assert!(matches!(error, plan::PlanError::PinNotFound { .. }), "{error}");
}

/// The alternatives given in the error are possible.
#[test]
fn what_is_offered_instead_is_possible() {
    for pin in PINS {
        let source = |pin: &str| source(("I, J", "J, K_X", "I, K"), 64, &format!("by {pin}"));
        let topology = machine(&source(pin));
        let costs = CostModel::Book.on(&topology, Lowering::default());
        let Err(error) = plan::plan(&checked(&source(pin)), costs.as_ref()) else { continue };
        let help = error.help().expect("a help").to_string();
        let offered: Vec<&str> = help.split('`').filter_map(|part| part.strip_prefix("by ")).collect();
        assert!(!offered.is_empty(), "{help}");
        for other in offered.into_iter().filter(|other| !other.is_empty()) {
            assert!(planned(&source(other), costs.as_ref()).is_ok(), "{pin}: {help}");
        }
    }
}

/// A product of an array with itself, a product inside a function, and one whose result is moved.
#[test]
fn pins_in_larger_programs() {
    let head = "mesh {X: 4 ring, Y: 2} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J_Y]\nB: bf16[J_Y, K]\n";
    for (text, wanted) in [
        ("C[I_X, K] = relu(A * B) by gather(A)", ("gather", "A")),
        ("C[I_X, K] = relu(A * B) by gather(B)", ("gather", "B")),
        ("T = A * B by gather(A)\nC[I_X, K_Y] = T + T", ("gather", "A")),
        ("A * B -> C[I_X, K_Y] by reduce using line", ("reduce", "C")),
        ("repeat 3 {\nW: bf16[J, K_X]\nA = rename_{K->J}(A * W)\n}\nC[I_X, K] = A * B by gather(B)", ("gather", "B")),
    ] {
        let source = format!("{head}{text}\noutput C\n");
        let topology = machine(&source);
        let plan = planned(&source, CostModel::Book.on(&topology, Lowering::default()).as_ref()).expect("a plan");
        assert!(done(&plan).contains(&(wanted.0, wanted.1.to_owned())), "{text}\n{plan}");
    }
}

/// Of alternatives that differ only in the order of axes, the cheapest one is listed.
#[test]
fn the_order_of_axes_is_told_once() {
    let head = "mesh {X: 2 ring, Y: 2 ring} on tpu_v5e\ndims {I: 64, J: 128, K: 256}\n";
    let sorted = |text: &String| {
        let is_axis = |letter: &char| "XY".contains(*letter);
        let runs = text.chars().chunk_by(is_axis);
        runs.into_iter().map(|(axes, run)| if axes { run.sorted().collect() } else { run.collect::<String>() }).join("")
    };
    let mut ways = 0;
    for (a, b, c) in
        [("I_XY, J", "J, K", "I, K_XY"), ("I, J_XY", "J_YX, K", "I, K"), ("I_X, J_Y", "J_X, K_Y", "I_X, K_Y")]
    {
        let source = format!("{head}A: bf16[{a}]\nB: bf16[{b}]\nC[{c}] = A * B\n");
        let topology = machine(&source);
        let plan = planned(&source, CostModel::Book.on(&topology, Lowering::default()).as_ref()).expect("a plan");
        let told: Vec<Vec<String>> =
            plan.choices[0].alternatives.iter().map(|way| way.moves.iter().map(sorted).collect()).collect();
        assert!(told.iter().all_unique(), "{source}{told:#?}");
        ways += told.len();
    }
    assert!(ways >= 15, "{ways}");
}
