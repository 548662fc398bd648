//! Sizes that do not divide: with padding, the results are those of the computation without a mesh.
//!
//! Every program is compiled, which proves its schedule, and run. The dense result for comparison is computed on
//! arrays without padding.
#![allow(missing_docs)]

use crate::common::numeric::Reference;
use crate::common::{compile, mutants::mutants};
use itertools::Itertools;
use shardc::compiler::{self, Compiled};
use shardc::diag::Severity;
use shardc::schedule::{OpKind, from_json, to_json};
use shardc::sim::{proof, values};

/// Compiles, runs and compares a program. With `exact`, results must be equal.
fn check(source: &str, exact: bool) -> Compiled {
    let compiled = compile(source);
    let schedule = &compiled.schedule;
    for seed in 0..2 {
        let inputs = values::inputs(schedule, seed).expect("small");
        let dense = values::dense(schedule, &inputs).expect("small");
        let run = values::run(schedule, &inputs).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let numerics = values::compare(schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal || !exact && numerics.within, "{numerics:?}\n{source}\n{schedule}");
        assert!(!numerics.max_abs_error.is_nan() && numerics.max_abs_error.is_finite(), "{source}");
        for (place, output) in schedule.outputs.iter().enumerate() {
            let gathered = run.gather(place).expect("every shard is there");
            assert_eq!(gathered.array.extents(), schedule.array(output.array).valid, "{source}");
        }
    }
    compiled
}

fn fillers(compiled: &Compiled) -> usize {
    let operations = compiled.schedule.operations.node_weights();
    operations.filter(|operation| matches!(operation.kind, OpKind::Fill { .. })).count()
}

/// Programs over I, J and K; `exact` if all numbers are integers.
const BODIES: [(&str, bool); 14] = [
    ("A: i32[I_X, J]\nB: i32[J, K]\nC[I_X, K] = A * B", true),
    ("A: i32[I, J_X]\nB: i32[J_X, K]\nC[I, K] = A * B", true),
    ("A: i32[I, J_X]\nB: i32[J, K]\nC[I, K_X] = A * B", true),
    ("A: i32[I_X, J]\nB: i32[J, K_X]\nC[I_X, K] = A * B", true),
    (
        "A: i32[I, J_X]\nB: i32[J_X, K]\nA *_LOCAL B -> C[I, K]{U_X}\nReduceScatter_{X,K}(C[I, K]{U_X}) -> C[I, K_X]",
        true,
    ),
    ("A: i32[I_X, J]\nAllToAll_{X,J}(A[I_X, J]) -> A[I, J_X]", true),
    ("A: i32[I, J]{U_X}\nC[I_X, J] = A", true),
    // Values that are not 0 in the padding, and then summed.
    ("A: i32[I, J_X]\nB: i32[J_X, K]\nC[I, K] = (A + 1) * (B + 2)", true),
    ("A: i32[I, J_X]\nB: i32[J_X, K]\n(A + 1) *_J B -> T[I, K]\nC[I, K_X] = relu(T + 1)\nD[I] = C * i32[K]", true),
    ("A: i32[J_X]\nB: i32[K_X]\nT = A + 1\nU = B + 1\nO[J, K] = T + U\nR[J] = O * i32[K_X]\nS[K] = O * i32[J_X]", true),
    ("A: f32[I, J_X]\nB: f32[J_X, K]\nC[I, K] = exp(A) * B", false),
    ("A: f32[I_X, J]\nS[I_X, J] = softmax_J(A)\nC[I, K] = S * f32[J_X, K]", false),
    ("A: f32[I, J_X]\nS[I, J_X] = softmax_J(exp(A))\nC[J] = S * f32[I_X]", false),
    ("A: f64[I, J_X]\nT = exp(A)\nkT = rename_{J->K}(T)\nC[I] = (T * f64[J]) + (exp(kT) * f64[K_X])", false),
];

#[test]
fn every_small_size_on_axes_of_2_3_and_4() {
    for (n, size) in (2..=4).cartesian_product(1..=9) {
        for (body, exact) in BODIES {
            let k = if body.contains("rename") { size } else { 5 };
            let source = format!("mesh {{X: {n} ring}} on tpu_v5e\ndims {{I: 3, J: {size}, K: {k}}}\n{body}\n");
            check(&source, exact);
        }
    }
}

#[test]
fn two_axes_that_do_not_fit() {
    let bodies = [
        "A: i32[I_XY, J]\nC[I_Y, J] = A\nD[I_X, J] = A\noutput C, D",
        "A: i32[I_X, J_Y]\nB: i32[J_Y, K_X]\nC[I_X, K] = (A + 1) * B",
        "A: i32[I_X, J]\nB: i32[J, K]\nT[I_Y, J] = A + 3\nC[I, K_XY] = T * B",
        "A: i32[I_YX, J]\nAllGather_X(A[I_YX, J]) -> A[I_Y, J]\nC[I, J_X] = A",
    ];
    for (size, body) in (1..=9).cartesian_product(bodies) {
        let source = format!("mesh {{X: 2, Y: 3}} on tpu_v5e\ndims {{I: {size}, J: 4, K: 7}}\n{body}\n");
        check(&source, true);
    }
}

/// Reductions over I and J of values whose padding is not a neutral element.
const REDUCTIONS: [(&str, bool); 20] = [
    ("A: i32[I, J_X]\nR[I] = sum_J(A + 1)", true),
    ("A: i32[I, J_X]\nR[I] = max_J(A - 10)", true),
    ("A: i32[I, J_X]\nR[I] = min_J(A + 10)", true),
    ("A: i64[I_X, J]\nR[I_X] = max_J(A - 10)\nS = min_I(R)", true),
    ("A: i8[I, J_X]\nR[I_X] = sum_J(relu(A) + 1)", true),
    ("A: i8[I, J_X]\nR[I_X] = min_J(relu(A) + 1)", true),
    ("A: i32[I, J_X]\nR = sum_{I,J}(A + 1)", true),
    ("A: i32[I_X, J]\nR = max_{I,J}(A - 10)", true),
    ("A: i32[I_X, J]\nR = min_{J,I}(A + 10)", true),
    ("A: i32[I_X, J]\nR[J] = sum_I(A)\nT = R - max_J(R - 9)\nU[J_X] = T\nV = min_J(U + 30)", true),
    ("A: i32[I, J_X]\nT = A + 1\nR[I] = max_J(T) + min_J(T) + sum_J(T)", true),
    ("A: i32[I, J_X]\nR[I]{U_X} = sum_J(A + 1)", true),
    ("A: i32[I, J_X]\nR[I]{MAX_X} = max_J(A - 10)", true),
    ("A: i32[I_X, J]\nR[J]{MIN_X} = min_I(A + 10)\nS[J_X] = R", true),
    ("A: f64[I, J_X]\nR[I] = mean_J(A + 1)", false),
    ("A: bf16[I, J_X]\nR[I] = max_J(A - 10)", true),
    ("A: f16[I, J_X]\nR[I_X] = min_J(A + 10)", true),
    ("A: f32[I, J_X]\nM[I] = max_J(A)\nE = exp(A - M)\nR[I, J_X] = E / sum_J(E)", false),
    ("A: bool[I, J_X]\nR[I] = sum_J(i32(not(A)))", true),
    ("A: i32[I_X, J]\nB: i32[I_X, J]\nP[I, J] = A * B\nR[J] = sum_I(P)\nS[J_X] = R\nT = sum_J(S)", true),
];

#[test]
fn reductions_of_every_small_size() {
    for (n, size, i) in itertools::iproduct!(2..=4, 1..=7, [3, 4]) {
        for (body, exact) in REDUCTIONS {
            check(&format!("mesh {{X: {n} ring}} on tpu_v5e\ndims {{I: {i}, J: {size}}}\n{body}\n"), exact);
        }
    }
}

/// Fillers are applied to the pieces of an open sum where that is correct, and otherwise after the sum is closed.
#[test]
fn open_sums_with_padding() {
    let bodies = [
        ("A: f32[I, J]{MAX_X}\nT[I, J_Y] = A\nR[I] = max_J(A - 10) + max_J(T)", true),
        ("A: f32[I, J]{MIN_X}\nT[I, J_Y] = A\nR[I] = min_J(A + 10) + sum_J(T)", true),
        (
            "A: i32[I, J]{MUL_X}\nB: i32[I, J]{MUL_X}\nT[I, J_Y] = A\nP[I, J]{MUL_X} = A * B\nQ[I, J] = P\nR[I] = sum_J(Q) + max_J(T)",
            true,
        ),
        ("A: f32[I, J]{MEAN_X}\nT[I, J_Y] = A + 3\nR[I] = sum_J(T)", false),
        ("A: f32[I, J]{MEAN_X}\nT[I, J_Y] = A\nB[I, J] = A + 9\nR[I] = max_J(T) + min_J(B)", false),
        ("A: bool[I, J]{AND_X}\nT[I, J_Y] = not(A)\nR[I] = sum_J(i32(T))", true),
        ("A: bool[I, J]{OR_X}\nT[I, J_Y] = not(A)\nR[I] = min_J(i32(T))", true),
        ("A: i32[I, J]{SQUARE_ADD_X}\nT[I, J_Y] = A\nR[I] = sum_J(T + 1) + max_J(T)", true),
        ("A: i32[I, J]{U_X}\nT[I, J_Y] = A\nB[I, J] = A\nR[I] = max_J(B - 10) + min_J(T + 10)\nS[I] = sum_J(A)", true),
        ("A: i32[I_Y, J_X]\nB: i32[J_X, K]\nC[I, K] = A * B\nR[I] = max_K(C - 100)\nS = sum_I(R + 1)", true),
    ];
    for (size, (body, exact)) in (1..=7).cartesian_product(bodies) {
        check(&format!("mesh {{X: 2, Y: 3}} on tpu_v5e\ndims {{I: 4, J: {size}, K: 5}}\n{body}\n"), exact);
    }
}

/// The padding of a softmax is 0, and functions of it may be infinite or NaN there; a sum reads neither.
#[test]
fn every_function_of_zeros_in_the_padding() {
    let ground = "mesh {X: 4 ring} on tpu_v5e\ndims {I: 3, J: 6}\nA: f32[I, J_X]\nS[I, J_X] = softmax_J(A)\n\
                  M: bool[I, J]\nN: bool[I]\n";
    let words = [
        "relu",
        "gelu",
        "exp",
        "tanh",
        "sin",
        "cos",
        "sigmoid",
        "silu",
        "sqrt",
        "rsqrt",
        "abs",
        "log",
        "square",
        "recip",
        "-1 *",
        "A /",
        "max(A, ",
        "min(A, ",
        "max(2, ",
        "max(-2, ",
        "min(2, ",
        "min(-2, ",
        "where(M, A, ",
        "where(N, 1, ",
        "where(N, 0, ",
        "where(N, A, ",
    ];
    for word in words {
        let value = if word == "A /" { "A / S".to_owned() } else { format!("{word}(S)") };
        let value = if word.contains('(') { format!("{word}S)") } else { value };
        for rest in ["sum_J(F)", "min_J(F) + max_J(F)", "sum_J(P)", "F *_J A", "sum_J(A + F)", "softmax_J(F)"] {
            check(&format!("{ground}F = {value}\nP[I, J] = F * A\nR = {rest}\noutput R\n"), false);
        }
    }
}

/// Every iteration but the first starts with the carried values of the previous one, including padding.
#[test]
fn padding_in_repeats() {
    let bodies = [
        "x: i32[I, J_X]\nrepeat 3 { x = x + sum_J(x) }\noutput x",
        "x: i32[I, J_X]\nrepeat 3 { W: i32[J, K_X]\n V: i32[K_X, J]\n x[I, J_X] = relu(x * W) * V }\noutput x",
        "x: i32[I, J_X]\nrepeat 3 { s = sum_J(x)\n x = x + 1\n x = x - s }\ny[I] = max_J(x)",
        "x: i32[I, J_X]\nc: i32[I, J_X]\nb = c + 1\nrepeat 2 { x = x - max_J(b) }\ny[I] = max_J(b) + max_J(x)",
        "a: i32[I, J_X]\nb: i32[I, J_X]\nrepeat 3 { s = sum_J(a)\n t = a\n a = b\n b = t + 1 - s }\ny[I] = sum_J(a)",
    ];
    for (size, body) in [4, 5, 6].into_iter().cartesian_product(bodies) {
        check(
            &format!(
                "mesh {{X: 4}} on tpu_v5e\ndims {{I: 3, J: {size}, K: 5}}\n{}\n",
                body.replace(" }", "\n}").replace("{ ", "{\n").replace("\n ", "\n")
            ),
            true,
        );
    }
}

/// A merged dim is padded in its last part.
#[test]
fn the_last_part_of_a_dim_is_padded() {
    let ground = "mesh {X: 2, Y: 4} on tpu_v5e\ndims {K: 2, M: 6, D: 5, N = K*M}\n";
    check(&format!("{ground}A: i32[D, N_XY]\nB: i32[N_XY, D]\nC[D, K_X, M_Y] = A + 1\nR[D] = C * B"), true);
    check(&format!("{ground}A: i32[D, N_XY]\nC[D, N] = relu(A)\nR[D] = max_{{K,M}}(A - 10)"), true);
}

#[test]
fn products_of_inputs_need_no_filler() {
    let ground = "mesh {X: 4} on tpu_v5e\ndims {I: 5, J: 6, K: 7}\n";
    let count = |body: &str, exact| fillers(&check(&format!("{ground}{body}"), exact));
    assert_eq!(count("A: i32[I_X, J]\nB: i32[J, K_X]\nC[I, K] = relu(A * B)", true), 0);
    assert_eq!(count("A: i32[I, J_X]\nB: i32[J_X, K]\nC[I, K] = 2 * A * B - A * B", true), 0);
    assert_eq!(count("A: i32[I, J_X]\nB: i32[J_X, K]\nC[I, K] = (A + 1) * B", true), 1);
    assert_eq!(count("A: f32[I, J_X]\nC[I, J_X] = exp(A)", false), 0);
    assert_eq!(count("A: i32[I, J_X]\nR[I] = sum_J(abs(A) + A)", true), 0);
    assert_eq!(count("A: i32[I, J_X]\nR[I] = max_J(A)", true), 1);
}

#[test]
fn a_warning_names_sizes_and_waste() {
    let (program, diagnostics) = compiler::check("mesh {X: 4} on tpu_v5e\ndims {I: 6}\nA: bf16[I_X]\nC = relu(A)\n");
    let warnings: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Warning).collect();
    assert!(program.is_some());
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].code, "padded");
    assert_eq!(warnings[0].message, "dim `I` of size 6 is padded to 8 (25.0 % padding)");
}

/// Received bytes and computation are those of the padded sizes.
#[test]
fn costs_count_the_padding() {
    let totals = |size: u64| {
        let dims = format!("mesh {{X: 4}} on tpu_v5e\ndims {{I: {size}, J: 64, K: 32}}\n");
        check(&format!("{dims}A: i32[I_X, J]\nB: i32[J, K]\nC[I, K] = A * B"), true).plan.totals()
    };
    assert_eq!(totals(13), totals(16));
    assert_ne!(totals(12), totals(16));
}

/// A schedule with padding is proven from its JSON form, and its wrong mutants are refused.
#[test]
fn padded_schedules_are_proven_as_they_are_written() {
    let ground = "mesh {X: 3 ring} on tpu_v5e\ndims {I: 2, J: 4, K: 2}\n";
    let bodies = [
        "A: f32[I, J_X]\nB: f32[J_X, K]\nC[I, K] = exp(A) * B",
        "A: f32[I, J_X]\nS[I, J_X] = softmax_J(A)\nC[I, K] = S * f32[J, K_X]",
        "A: i64[I, J_X]\nR[I] = min_J(A + 9)",
        "A: i64[I, J_X]\nR[I] = max_J(A) - sum_J(A + 1)",
    ];
    for body in bodies {
        let compiled = compile(&format!("{ground}{body}"));
        let again = from_json(&to_json(&compiled.schedule)).expect("it reads back");
        assert_eq!(to_json(&again), to_json(&compiled.schedule));
        proof::prove(&again).expect("it is proven again");
        let references: Vec<Reference> = (0..3).map(|seed| Reference::new(&compiled.schedule, seed)).collect();
        assert!(references.iter().all(|reference| reference.is_met_by(&compiled.schedule)));
        for (change, mutant) in mutants(&compiled.schedule) {
            let proven = proof::prove(&mutant).is_ok();
            assert!(!proven || references.iter().all(|reference| reference.is_met_by(&mutant)), "{change} is proven");
        }
    }
}

/// Reads of padding are found from the arrays alone: without its filler a sum is refused.
#[test]
fn a_sum_over_padding_is_refused() {
    let source = "mesh {X: 3} on tpu_v5e\ndims {I: 2, J: 4, K: 2}\nA: f32[I, J_X]\nC[I, K] = exp(A) * f32[J_X, K]\n";
    let mut schedule = compile(source).schedule;
    for array in &mut schedule.arrays {
        use shardc::function::Function;
        use shardc::schedule::Dense;
        if let Dense::Map { function: function @ Function::Fill { .. }, .. } = &mut array.definition {
            *function = Function::Identity;
        }
    }
    let flaw = proof::prove(&schedule).expect_err("the padding is read").to_string();
    assert!(flaw.contains("padding"), "{flaw}");
}
