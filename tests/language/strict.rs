//! `--strict`: only written collectives and moves communicate, and the missing lines are suggested.

use crate::common::{programs, short_name};
use shardc::advice;
use shardc::compiler::{self, Options, Overlapping, Resharding, Spelling};
use shardc::costs::CostModel;
use shardc::plan::Plan;
use shardc::program::Program;

fn checked(source: &str) -> Program {
    let (program, diagnostics) = compiler::check(source);
    program.unwrap_or_else(|| panic!("{source}\n{diagnostics:?}"))
}

fn planned(program: &Program, strict: bool) -> Result<Plan, shardc::diag::Diagnostics> {
    let options = Options { strict, overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let topology = compiler::machine(program, &options)?;
    compiler::plan(program, &topology, &options)
}

/// The collectives of a plan by name, with their count and the bytes that the busiest device receives.
fn communication(plan: &Plan) -> Vec<(String, u64, u64)> {
    let moves = plan.ids().filter(|id| plan.communicates(*id));
    let mut moves: Vec<_> =
        moves.map(|id| (plan.op_name(id), plan.times(id), plan.step(id).usage.received().0)).collect();
    moves.sort();
    moves
}

/// With the suggested lines, each program contains all of its communication, and communicates the same.
#[test]
fn the_lines_that_are_offered_make_programs_strict() {
    let mut offered = 0;
    let mut failures = Vec::new();
    let wrong = programs("tests/cases/wrong").into_iter().filter(|path| short_name(path).contains("/strict_"));
    let folders = ["examples", "tests/corpus/small", "tests/corpus/scale"];
    for path in folders.into_iter().flat_map(programs).chain(wrong) {
        let source = std::fs::read_to_string(&path).expect("a program");
        let program = checked(&source);
        let plan = planned(&program, false).expect("a plan");
        let unwritten = plan.ids().any(|id| plan.is_unwritten(id));
        let found = match compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default()) {
            Ok(()) => continue,
            Err(found) => found,
        };
        assert!(unwritten, "{}", short_name(&path));
        if found.iter().any(|found| found.fixes.is_empty()) {
            let changed = advice::apply_all(&source, &advice::unwritten(&plan));
            failures.push(format!("{}\n{changed}\n{:?}", short_name(&path), compiler::check(&changed).1));
            continue;
        }
        let changed = advice::apply_all(&source, &found);
        let strict = planned(&checked(&changed), true).expect("a strict plan");
        if communication(&strict) != communication(&plan) {
            let (a, b) = (communication(&strict), communication(&plan));
            failures.push(format!("{}\n{changed}\n{a:?}\n{b:?}", short_name(&path)));
        }
        for found in found.iter() {
            let help = found.help.as_deref().unwrap_or_default();
            assert!(help.contains("write"), "{help}");
            offered += found.fixes.len();
        }
    }
    assert!(failures.is_empty(), "{} {}", failures.len(), failures.join("\n\n"));
    assert!(offered >= 50, "{offered} changes");
}

/// Functions of several arguments, in all forms, are written as they are parsed.
#[test]
fn every_form_is_spelled() {
    let ground =
        "mesh {X: 4} on tpu_v5e\ndims {I: 16, J: 32, S: 32}\nA: f32[I_X, J]\nB: f32[I, J_X]\nM: bool[I, J_X]\n";
    for value in [
        "max(A, B)",
        "min(A, -2) + B",
        "max(2, B) - A",
        "where(M, A, B)",
        "where(M, A, 0.5)",
        "where(M, -1, A)",
        "where(or(M, not(M)), A, 1e-9)",
        "2 * A - B",
        "softmax_J(B) / A",
        "1 / (square(A) + 1) + bf16(B)",
        "-A - 3 + B",
        "A + sum_I(B)",
        "max_J(A) + min_J(B)",
        "mean_J(A) - B",
        "rename_{J->S}(A) - B",
        "gelu(A) + rsqrt(square(B) + 1)",
        "A - AllToAll_{X,I}(B) + B",
    ] {
        let source = format!("{ground}R = {value}\nT = relu(R)\noutput T\n");
        let program = checked(&source);
        let Err(found) = compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default()) else {
            panic!("{value} needs no communication")
        };
        assert!(found.iter().all(|found| !found.fixes.is_empty()), "{source}");
        let changed = advice::apply_all(&source, &found);
        let (strict, plan) = (planned(&checked(&changed), true), planned(&program, false));
        assert_eq!(communication(&strict.expect("strict")), communication(&plan.expect("a plan")), "{changed}");
    }
}

/// Programs in which names need care: their meaning changes from line to line.
const NAMES: &[(&str, &str)] = &[
    ("a hole in what is gathered", "A: i32[I, J, K]\nB[K_?, J, I] = A * i32[J_X, I]\nC[K, J] = B * i32[I]\n"),
    ("a hole beside what is gathered", "A: f32[J, K, I_X]\nB[J_?, K] = A * A\nC[I] = A * B\n"),
    ("a hole in an input", "A: f32[I_?, J]\nB: f32[J_X, K]\nC[I, K] = A * B\nD[I_X, K] = C\n"),
    (
        "an array that a later line takes in its old layout",
        "A: f32[J, K]{U_X}\nC[J, K]{U_X} = -A\nD[J, K] = relu(sum_J(-C) + C)\nE[J, K] = C[J, K]{U_X}\n",
    ),
    ("an array that is moved already", "A: f32[I_X]\nB[I] = relu(A)\nC[I] = tanh(A)\nD[I] = A[I_X]\noutput B, C, D\n"),
    (
        "an array that is moved already under a later name",
        "A: f32[I_X]\nA -> A[I_X]\nB[I] = tanh(A)\nA[I] = A[I_X]\nD[] = A * B\noutput A, D\n",
    ),
    ("an output that is closed, and used open", "A: i8[]{U_X}\nE = -A\nM[]{U_X} = -E\noutput E, M\n"),
    ("a pin", "A: f32[I_X]\nB[] = A * A by gather(A)\n"),
    (
        "two pins of one gather",
        "A: f32[I_X]\nB[] = A * A by gather(A)\nC[] = A * A by gather(A)\nE[I] = tanh(A)\noutput B, C, E\n",
    ),
    ("pins of all kinds", "A: f32[I, J_X]\nW: f32[J_X, I]\nC[I] = A * W by reduce\nE[I] = A * W by gather(A, W)\n"),
    ("a name that a body hands on", "A: f32[I_X]\nB[I] = relu(A)\nrepeat 2 {\n  A[I_X] = tanh(A)\n}\noutput B, A\n"),
    ("an input without a declaration", "B = f32[I_X]\nC[I] = relu(B)\n"),
    ("a second name", "A: f32[I_X]\nB = A\nC[I] = relu(B)\nA = tanh(A)\nD[I] = exp(B) + A\n"),
    ("an output between holes", "A: f32[J, K_X]\nB[J, I_?] = A * f32[K, I]\nC[J_?, I] = B\nD[J, I] = C\noutput B\n"),
    ("an output before a hole", "A: f32[J, K_X]\nB = A * f32[K, I]\nC[J_?, I] = B\noutput B\n"),
    ("axes of one device", "A: i32[I, J_X]{MIN_Y}\nB[I, J_X] = AllReduce_Y(A)\nC[] = B * B by reduce\noutput B, C\n"),
    ("axes of one device behind a gather", "A: f32[K_X, J]\nC[K_Y, J] = relu(A)\n"),
    (
        "a block inside of a body",
        "A: f32[I_X, J]\nrepeat 2 {\n  A = relu(A)\n  repeat 2 {\n    W: f32[J_X, K]\n    B[I, K] = A * W\n    \
         A[I_X, J] = B * f32[K_X, J]\n  }\n}\n",
    ),
    (
        "a block that is left as it is",
        "A: f32[I_X]\nrepeat 2 {\n  B[I] = tanh(A)\n  repeat 2 { A[I_X] = relu(A) }\n  A[I_X] = B + A\n}\n",
    ),
    (
        "padded sums under other names",
        "dims {S: 3, T: 3, R: 3}\nA: f32[S_X, J]\nB[J] = sum_T(rename_{S->T}(exp(A)))\nC = A *_J f32[J_X]\n\
         D[R] = softmax_R(rename_{S->R}(C))\noutput B, D\n",
    ),
    ("a name that is open over one device", "A: f32[I_X]\nB[I_X]{U_Y} = open_Y(A)\nC[I] = -B\n"),
    ("a root over one device", "A: f32[I_X]{ROOT_Y}\nB = A + A\nC[K_X]{ROOT_Y} = B * f32[I_X, K]\n"),
    ("axes of one device that are open", "A: f32[K_X]{U_Y}\nB[K, J] = A * f32[K, J]\n"),
];

#[test]
fn names_mean_the_same_in_the_lines_that_are_offered() {
    for (what, body) in NAMES {
        let source = format!("mesh {{X: 2, Y: 1}} on tpu_v5e\ndims {{I: 4, J: 4, K: 4}}\n{body}");
        let program = checked(&source);
        let plan = planned(&program, false).expect("a plan");
        let found = compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default());
        let found = found.expect_err("something communicates");
        let tried = advice::apply_all(&source, &advice::unwritten(&plan));
        let is_offered = found.iter().all(|found| !found.fixes.is_empty());
        assert!(is_offered, "{what}\n{tried}\n{:?}", compiler::check(&tried).1);
        let changed = advice::apply_all(&source, &found);
        let strict = planned(&checked(&changed), true).expect("strict");
        assert_eq!(communication(&strict), communication(&plan), "{what}\n{changed}");
    }
}

/// The lines name parts of an axis that the plan has split, so they declare them.
#[test]
fn the_parts_of_axes_are_declared() {
    let options = Options { costs: CostModel::Bytes, ..Options::default() };
    let body = "dims {I: 24, J: 24}\nA: bf16[I_Y, J_X]\nB[I_X, J_Y] = relu(A)\n";
    for (mesh, lines) in [
        ("mesh {X: 8, Y: 2} on tpu_v5e\n", "axis X = {X1: 2, X2: 2, X3: 2}"),
        ("mesh {W: 6, Y: 2} on tpu_v5e\naxis W = {V: 1, X: 6} # V is major\n", "axis X = {X1: 2, X2: 3}"),
    ] {
        let source = format!("{mesh}{body}");
        let program = checked(&source);
        let found = compiler::check_strict(&source, &[], Spelling::Exact, &program, &options);
        let found = found.expect_err("something communicates");
        let help = found.iter().find_map(|found| found.help.clone()).expect("lines");
        let last = mesh.trim_end().lines().last().and_then(|line| line.split(" #").next()).expect("a line");
        assert!(help.contains(&format!("write below `{last}`\n  {lines}")), "{help}");
        let changed = advice::apply_all(&source, &found);
        compiler::check_strict(&changed, &[], Spelling::Exact, &checked(&changed), &options).expect("strict");
    }
}

/// An array that is padded under one name is padded under the others as well, so a sum over any of them may be left
/// open.
#[test]
fn a_padded_sum_of_another_name_is_left_open() {
    let ground = "mesh {X: 5} on tpu_v5e\ndims {I: 8, K: 8}\n";
    checked(&format!("{ground}A: i8[I_X]\nB[]{{MIN_X}} = min_K(rename_{{I->K}}(A))\noutput B\n"));
}

/// Changes of other statements are reported with the diagnostic that requires them.
#[test]
fn the_lines_of_other_statements_are_worded() {
    let source = "mesh {X: 2} on tpu_v5e\ndims {J: 4, K: 4}\nA: f32[J, K]{U_X}\nC[J, K]{U_X} = -A\n\
                  D[J, K] = relu(sum_J(-C) + C)\nE[J, K] = C[J, K]{U_X}\n";
    let found = compiler::check_strict(source, &[], Spelling::Exact, &checked(source), &Options::default());
    let found = found.expect_err("something communicates");
    let help: Vec<_> = found.iter().filter_map(|found| found.help.as_deref()).collect();
    let lines = "write\n  AllReduce_X(C[J, K]{U_X}) -> C'[J, K]\n  T[J, K] = -C'\n  T'[K] = sum_{J}(T)\n  \
                 T''[J, K] = T' + C'\n  D[J, K] = relu(T'')\n\
                 and replace `E[J, K] = C[J, K]{U_X}` by\n  E[J, K] = C'";
    assert_eq!(help, [lines]);
}
