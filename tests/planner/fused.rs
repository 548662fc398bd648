//! Kernels: no written layouts of a program are cheaper than the plan with free ones, and no plan takes longer than
//! one on a machine without fusion.

use crate::common::{programs, short_name};
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::fusion::Fusion;
use shardc::plan::{Plan, StepOp};
use shardc::topology::Hardware;
use shardc::units::Time;

fn plan(source: &str, fusion: Fusion) -> Option<Plan> {
    let program = compiler::check(source).0.expect("a right program");
    let named = program.hardware.as_ref().map_or(Hardware::DEFAULT, |name| name.node.as_str());
    let hardware = Hardware { fusion, ..Hardware::named(named).expect("a shipped profile") };
    let options = Options {
        hardware: Some(hardware),
        overlap: Overlapping::None,
        reshard: Resharding::Chains,
        ..Options::default()
    };
    let topology = compiler::machine(&program, &options).expect("it has rates");
    compiler::plan(&program, &topology, &options).ok()
}

fn time(source: &str) -> Option<Time> {
    plan(source, Fusion::Elementwise).map(|plan| plan.totals().time())
}

/// All layouts of the named arrays between inputs and output, on one axis.
#[test]
fn no_written_layouts_take_less() {
    let programs = [
        ("x: bf16[B, D_X]\nW: bf16[D, F]\nb: bf16[F]", "h@ = x * W;g@ = h + b;y@ = relu(g)", ["B", "F"]),
        ("x: f32[B, F_X]\nr: f32[B_X, F]", "h@ = relu(x);g@ = exp(h);y@ = g + r", ["B", "F"]),
        (
            "x: bf16[B, D_X]\nW: bf16[D, F_X]\nr: bf16[B_X, F]",
            "h@ = relu(x * W);g@ = h + r;y@ = exp(g) + r",
            ["B", "F"],
        ),
        ("x: f32[B, F_X]", "h@ = softmax_F(x);g@ = h + x;y@ = relu(g)", ["B", "F"]),
        ("x: f32[B, F_X]\nm: f32[B]", "h@ = exp(x - m);g@ = relu(h);y@ = g + h", ["B", "F"]),
    ];
    let mut compared = 0;
    for (inputs, body, dims) in programs {
        for (rows, columns, devices) in [(64, 64, 2), (4096, 8192, 4), (1 << 17, 512, 4)] {
            let ground =
                format!("mesh {{X: {devices} ring}} on tpu_v5p\ndims {{B: {rows}, D: 1024, F: {columns}}}\n{inputs}\n");
            let [first, second] = dims;
            let layouts =
                [format!("[{first}, {second}]"), format!("[{first}_X, {second}]"), format!("[{first}, {second}_X]")];
            let statements: Vec<&str> = body.split(';').collect();
            let last = format!("[{first}_X, {second}]");
            let source = |written: &[&str]| {
                let lines = statements.iter().zip(written).map(|(line, layout)| line.replacen('@', layout, 1));
                format!("{ground}{}\n", lines.collect::<Vec<_>>().join("\n"))
            };
            let free = source(&["", "", &last]);
            let choices = layouts.iter().map(String::as_str);
            let written = choices.clone().cartesian_product(choices.collect::<Vec<_>>());
            let times: Vec<(Time, String)> = written
                .map(|(one, two)| source(&[one, two, &last]))
                .filter_map(|text| Some((time(&text)?, text)))
                .collect();
            let (least, text) = times.into_iter().min().expect("one of them has a plan");
            let found = plan(&free, Fusion::Elementwise).expect("a plan");
            assert!(found.totals().time() <= least, "{free}\ntakes longer than\n{text}");
            assert!(!found.is_optimal() || found.lower_bound.time == found.totals().time(), "{free}");
            compared += 9;
        }
    }
    assert_eq!(compared, 135);
}

/// A further name of an array changes neither what is fused nor the plan: a move that changes nothing, or an open sum
/// over an axis of one device.
#[test]
fn further_names_change_no_plan() {
    let ground = "mesh {X: 2, Y: 1} on tpu_v5e\ndims {I: 4}\nA: f32[I]\nB[] = A * A\nr[I] = relu(A)\n";
    let programs = [
        ("C[] = B + B", "N[] = B\nC[] = B + N"),
        ("C[] = B + B", "C[] = B + open_Y(B)"),
        ("C[] = B + B", "N[] = open_Y(B)\nM[] = N\nC[] = B + M"),
        ("C[I] = r + B", "C[I] = r + open_Y(B)"),
        ("C[I] = exp(r) + B", "N[I] = r\nC[I] = exp(N) + B"),
        ("C[I] = exp(r)\noutput r", "N[I] = r\nC[I] = exp(N)\noutput N"),
        ("C[I] = exp(r)", "N[I_Y] = r\nC[I] = exp(N)"),
    ];
    for (plain, named) in programs {
        let [one, other] = [plain, named].map(|body| {
            let source = format!("{ground}{body}\nD[] = C * C\n");
            let plan = plan(&source, Fusion::Elementwise).expect("a plan");
            (plan.totals().time(), plan.lower_bound.time, plan.steps.node_count(), plan.kernels)
        });
        assert_eq!(one, other, "{named}");
    }
}

/// What is only read by a move to a written layout is planned as if it were in that layout already: it is fused with what
/// reads the result of the move, if it is not moved.
#[test]
fn a_move_that_leaves_its_operand_in_place_ends_no_kernel() {
    let programs = [
        ("I: 4", "A: f32[I]\nF: f32[I]", "B@ = var_I(relu(A))", "C[]", "D[I] = C * F"),
        ("I: 4096", "A: f32[I]\nF: f32[I]", "B@ = exp(A)", "C[I]", "D[] = C * F"),
        ("I: 4096, J: 64", "A: f32[I_X, J]", "B@ = relu(A)", "C[I_X, J]", "D[I_X] = sum_J(C)"),
        ("I: 4096, J: 64, K: 64", "A: f32[I, J]\nW: f32[J, K]", "B@ = A * W", "C[I_X, K]", "D[I_X, K] = relu(C)"),
    ];
    let ground = "mesh {X: 2 over dcn} on tpu_v5e\n";
    for (dims, inputs, value, moved, user) in programs {
        let layout = moved.trim_start_matches('C');
        let [free, written] = ["", layout].map(|layout| {
            let value = value.replace('@', layout);
            let source = format!("{ground}dims {{{dims}}}\n{inputs}\n{value}\nB -> {moved}\n{user}\n");
            let plan = plan(&source, Fusion::Elementwise).expect("a plan");
            let operations: Vec<_> = plan.ids().map(|id| (plan.step(id).op.clone(), plan.operands(id))).collect();
            (plan.totals().time(), plan.lower_bound.time, operations, plan.kernels)
        });
        assert_eq!(free, written, "{value}; B -> {moved}");
        assert!(free.3.iter().any(|kernel| kernel.len() > 1), "{value}; B -> {moved}");
    }
}

/// What is moved after all is moved by the statement of the move.
#[test]
fn an_array_is_moved_where_it_is_written() {
    let source = "mesh {X: 2} on tpu_v5e\ndims {I: 4096}\nA: f32[I_X]\nB = relu(A)\nB -> C[I]\nD[] = C * C\n";
    for fusion in [Fusion::None, Fusion::Elementwise] {
        let plan = plan(source, fusion).expect("a plan");
        let moves = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
        let users: Vec<String> = moves.map(|id| plan.program.label(plan.step(id).user)).collect();
        assert_eq!(users, ["C"]);
    }
}

/// Plans of the examples and the corpus: never slower with fusion, and optimal nearly as often. The additional cost
/// of a move between two members of a kernel is sometimes known only as a bound.
#[test]
fn fusion_makes_no_program_slower() {
    let (mut proven, mut faster, mut count) = ([0, 0], 0, 0);
    for path in [programs("examples"), programs("tests/corpus")].concat() {
        let source = std::fs::read_to_string(&path).expect("a program");
        let Some(program) = compiler::check(&source).0 else { continue };
        if program.hardware.as_ref().is_some_and(|name| Hardware::named(&name.node).is_none()) {
            continue;
        }
        let [Some(apart), Some(fused)] = [Fusion::None, Fusion::Elementwise].map(|fusion| plan(&source, fusion)) else {
            continue;
        };
        assert!(apart.kernels.is_empty());
        let [before, after] = [&apart, &fused].map(|plan| plan.totals().time());
        assert!(after <= before, "{}: {after:?}, {before:?} without", short_name(&path));
        assert!(fused.lower_bound.time <= after, "{}", short_name(&path));
        proven[0] += u32::from(apart.is_optimal());
        proven[1] += u32::from(fused.is_optimal());
        faster += u32::from(after < before);
        count += 1;
        if apart.is_optimal() && !fused.is_optimal() {
            assert!(after.ratio(fused.lower_bound.time) < 1.005, "{}", short_name(&path));
        }
    }
    assert!(faster > 25 && proven[1] + 3 >= proven[0], "{faster} of {count}, proven {proven:?}");
}
