//! Open sums of every operator and reductions over dims, from program text to numbers.
#![allow(clippy::cast_possible_truncation)]

use crate::common::{collectives, compile};
use itertools::Itertools;
use shardc::compiler::Compiled;
use shardc::dtype::DType;
use shardc::function::Function;
use shardc::schedule::OpKind;
use shardc::sim::values;

/// Compiles and proves a program, and compares it with the dense result; for i64 also with an independent interpreter.
#[track_caller]
fn equal(source: &str) -> Compiled {
    let compiled = compile(source);
    for seed in 0..2 {
        let inputs = values::inputs(&compiled.schedule, seed).expect("small");
        let dense = values::dense(&compiled.schedule, &inputs).expect("small");
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal, "{source}\n{numerics:?}\n{}", compiled.schedule);
    }
    compiled
}

const GROUND: &str = "mesh {X: 2 ring, Y: 3 ring}\ndims {I: 6, J: 12, K: 6}\n";

/// Every layout of a small array, every set of dims and several results, compared with an independent interpreter.
#[test]
fn reductions_of_every_layout() {
    let lists = ["", "_X", "_Y", "_XY", "_YX"];
    let mut count = 0;
    for (i, j) in lists.iter().cartesian_product(lists) {
        if i.len() > 1 && j.len() > 1 && (i.len() > 2 || j.len() > 2 || *i == j) {
            continue;
        }
        let words = [("sum", "U"), ("max", "MAX"), ("min", "MIN")];
        for (word, operator) in words {
            let open = if j.is_empty() {
                String::new()
            } else {
                format!("{{{operator}_{}}}", j[1..].chars().sorted().collect::<String>())
            };
            let results = ["I".to_owned(), "I_X".to_owned(), "I_YX".to_owned(), format!("I{i}")];
            let closed = results.iter().map(|result| format!("R[{result}] = {word}_J(A)"));
            let left = format!("R[I{i}]{open} = {word}_J(A)");
            let all = format!("R = {word}_{{I,J}}(A)");
            for body in closed.chain([left, all]) {
                let source = format!("{GROUND}A: i64[I{i}, J{j}]\n{body}");
                let compiled = compile(&source);
                assert!(crate::common::numeric::computes(&compiled.schedule, 5), "{source}\n{}", compiled.schedule);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// Reducing a sharded dim leaves an open sum; the layout of the result determines how it is closed.
#[test]
fn a_sharded_dim_leaves_an_open_sum() {
    let of = |body: &str| {
        collectives(&equal(&format!("mesh {{X: 4 ring}}\ndims {{I: 8192, J: 64, K: 4}}\nA: f32[I, J_X]\n{body}")))
    };
    assert_eq!(of("R[I] = sum_J(A)"), ["AllReduce_X -> R[I]"]);
    assert_eq!(of("R[I_X] = max_J(A)"), ["ReduceScatter_{X,I} -> R[I_X]"]);
    assert_eq!(of("R[I]{MAX_X} = max_J(A)"), Vec::<String>::new());
    assert_eq!(of("R[I] = relu(max_J(A))").len(), 1);
    assert_eq!(of("R[I] = mean_J(A)").len(), 1);
}

/// Every operator: closed completely, in part, and scattered.
#[test]
fn every_operator_is_closed() {
    let operators = [
        ("U", "f32"),
        ("U", "i8"),
        ("MAX", "bf16"),
        ("MIN", "i32"),
        ("MUL", "f32"),
        ("MUL", "i64"),
        ("AND", "bool"),
        ("LOGICAL_OR", "bool"),
        ("MEAN", "f32"),
        ("MEAN", "f64"),
        ("SQUARE_ADD", "f32"),
        ("SQUARE_ADD", "i32"),
        ("U", "f8e4m3"),
        ("MAX", "f8e4m3"),
        ("MIN", "f8e5m2"),
        ("MAX", "u64"),
        ("MIN", "u8"),
        ("MUL", "i16"),
    ];
    for (operator, dtype) in operators {
        let input = format!("{GROUND}A: {dtype}[I, J]{{{operator}_XY}}\n");
        let rest = if operator == "SQUARE_ADD" { "U" } else { operator };
        for body in [
            "A -> R[I, J]".to_owned(),
            "A -> R[I_X, J_Y]".to_owned(),
            "A -> R[I_YX, J]".to_owned(),
            format!("A -> R[I, J]{{{operator}_XY}}"),
            format!("A -> R[I, J]{{{rest}_Y}}"),
            format!("A -> R[I_X, J]{{{rest}_Y}}"),
            format!("P[I, J]{{{rest}_Y}} = AllReduce_X(A)\nR[I, J] = AllReduce_Y(P)"),
            format!("P[I, J]{{{rest}_X}} = AllReduce_Y(A)\nR[I, J_X] = ReduceScatter_{{X,J}}(P)"),
        ] {
            equal(&format!("{input}{body}"));
        }
    }
}

/// Axes of size 1 are reduced like others: squares are squared.
#[test]
fn groups_of_one() {
    for (operator, dtype) in [("SQUARE_ADD", "i32"), ("MEAN", "f32"), ("MUL", "f32")] {
        let ground = "mesh {X: 1, Y: 2}\ndims {I: 4}\n";
        let rest = if operator == "SQUARE_ADD" { "U" } else { operator };
        compile(&format!("{ground}A: {dtype}[I]{{{operator}_X}}\nAllReduce_X(A) -> A[I]"));
        compile(&format!(
            "{ground}A: {dtype}[I]{{{operator}_XY}}\nAllReduce_X(A) -> A[I]{{{rest}_Y}}\nAllReduce_Y(A) -> A[I]"
        ));
    }
}

/// Functions that may be applied to an open sum leave it open in the plan: nothing moves if the result may stay open.
#[test]
fn functions_pass_their_operators() {
    for (inputs, result, value, open) in [
        ("A: f32[I]{MAX_X}", "[I]", "relu(A)", "MAX"),
        ("A: f32[I]{MAX_X}", "[I]", "-A", "MIN"),
        ("A: bf16[I]{MIN_X}", "[I]", "f32(A)", "MIN"),
        ("A: f32[I]{MAX_X}", "[I]", "2 * A + 1", "MAX"),
        ("A: f32[I]{MUL_X}", "[I]", "abs(A)", "MUL"),
        ("A: i64[I]{MUL_X}\nB: i64[I]{MUL_X}", "[I]", "A * B", "MUL"),
        ("A: bool[I]{AND_X}", "[I]", "not(A)", "OR"),
        ("A: f32[I]{MEAN_X}", "[I]", "A + 3", "MEAN"),
        ("A: f32[I]{MEAN_X}\nB: f32[I]", "[I]", "A - B", "MEAN"),
        ("A: f32[I]{MEAN_X}\nB: f32[I]", "[I]", "B - A", "MEAN"),
        ("A: f32[I]{MEAN_X}\nB: f32[I]{MEAN_X}", "[I]", "A + B", "MEAN"),
        ("A: f32[I, J]{MEAN_X}\nB: f32[J]", "[I]", "2 * (A *_J B)", "MEAN"),
        ("A: f32[I, J]{MEAN_X}\nB: f32[I]", "[J, I]", "A / (B * B + 1)", "MEAN"),
        ("A: f32[I]{U_X}\nB: f32[I]{U_X}", "[I]", "A - B", "U"),
        ("A: f32[I]{U_X}\nB: f32[I]", "[I]", "A / (B * B + 1)", "U"),
        ("A: f32[I, J]{U_X}", "[I]", "sum_J(A)", "U"),
        ("A: f32[I, J]{MAX_X}", "[I]", "max_J(A)", "MAX"),
        ("A: f32[J, I]{SQUARE_ADD_X}", "[I, J]", "A", "SQUARE_ADD"),
    ] {
        let ground = format!("mesh {{X: 4 ring}}\ndims {{I: 16, J: 8}}\n{inputs}\n");
        let compiled = equal(&format!("{ground}R{result}{{{open}_X}} = {value}"));
        assert_eq!(collectives(&compiled), Vec::<String>::new(), "{value}");
        // The same with a closed result, or reduced and scattered.
        equal(&format!("{ground}R{result} = {value}"));
        equal(&format!("{ground}R{} = {value}", result.replacen('I', "I_X", 1)));
    }
}

/// Means over two axes, reduced in two steps with a number added between them.
#[test]
fn a_mean_of_means() {
    let of = |steps: &str| {
        equal(&format!("mesh {{X: 2, Y: 4}}\ndims {{I: 8}}\nA: f32[I]{{MEAN_XY}}\nB: f32[I]\n{steps}"));
    };
    of("P[I]{MEAN_Y} = AllReduce_X(A)\nR[I] = P + 1");
    of("P[I]{MEAN_Y} = AllReduce_X(A)\nQ[I]{MEAN_Y} = P - B\nR[I] = Q + P");
    of("P[I]{MEAN_X} = AllReduce_Y(A)\nR[I_Y] = -P");
}

/// Both paths of an adapter stay open until they are added.
#[test]
fn an_adapter_needs_one_all_reduce() {
    let source =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/lora.shard")).expect("an example");
    assert_eq!(collectives(&compile(&source)), ["AllReduce_Y -> y[B, F]"]);
}

/// Calls of several arguments, with a number in each position, on operands with different layouts and missing dims.
#[test]
fn calls_of_several_arguments() {
    let ground = "mesh {X: 2 ring, Y: 2 ring}\ndims {I: 4, J: 8}\nA: i64[I_X, J]\nB: i64[I, J_XY]\nV: i64[J_Y]\n\
                  M: bool[I_Y, J]\nN: bool[J_X]\n";
    let calls = [
        "max(A, B)",
        "min(B, A)",
        "max(A, V)",
        "min(V, A)",
        "max(A, 1)",
        "min(-1, B)",
        "max(min(A, 2), -2)",
        "where(M, A, B)",
        "where(N, A, V)",
        "where(M, V, V)",
        "where(N, V, A)",
        "where(M, A, 0)",
        "where(M, 3, A)",
        "where(N, A, -5)",
        "where(not(M), B, A * 2)",
        "where(M, max(A, B), min(A, B))",
        "where(or(M, N), A, 7)",
        "where(and(M, not(N)), A, B)",
        "max(A, B) + where(M, 1, A)",
    ];
    for (call, layout) in calls.into_iter().cartesian_product(["[I, J]", "[I_X, J_Y]", "[J_YX, I]", ""]) {
        // Missing dims are broadcast.
        equal(&format!("{ground}R{layout} = {call} + 0 * A\noutput R"));
    }
    for (call, layout) in ["and(M, N)", "or(N, M)", "not(and(M, M))", "where(N, M, N)"].into_iter().cartesian_product([
        "[I, J]",
        "[J_X, I_Y]",
        "",
    ]) {
        equal(&format!("{ground}R{layout} = {call}\noutput R"));
    }
}

/// Functions of open sums with each operator, and the communication that they save.
#[test]
fn calls_pass_their_operators() {
    let ground = "mesh {X: 4 ring}\ndims {I: 8, J: 16}\nM: bool[I, J]\nB: f32[I, J]\n";
    for (operator, dtype, call) in [
        ("MAX", "f32", "max(A, C)"),
        ("MAX", "f32", "max(A, B)"),
        ("MAX", "f32", "min(B, A)"),
        ("MIN", "f32", "min(A, C)"),
        ("MIN", "f32", "max(A, B)"),
        ("MAX", "f32", "max(A, 3)"),
        ("MIN", "f32", "max(A, -3)"),
        ("MAX", "f32", "where(M, A, C)"),
        ("MAX", "f32", "where(M, A, B)"),
        ("MIN", "f32", "where(M, B, A)"),
        ("MIN", "f32", "where(M, A, 5)"),
        ("U", "f32", "where(M, A, C)"),
        ("U", "f32", "where(M, A, 0)"),
        ("U", "f32", "where(M, 0, A)"),
        ("MEAN", "f32", "where(M, A, C)"),
        ("MEAN", "f32", "where(M, A, 5)"),
        ("MUL", "f32", "where(M, A, C)"),
        ("MUL", "f32", "where(M, A, 1)"),
        ("AND", "bool", "and(A, C)"),
        ("AND", "bool", "or(A, M)"),
        ("OR", "bool", "or(A, C)"),
        ("OR", "bool", "and(M, A)"),
        ("OR", "bool", "where(M, A, C)"),
        ("AND", "bool", "where(M, A, M)"),
    ] {
        let open = format!("{{{operator}_X}}");
        let inputs = format!("A: {dtype}[I, J]{open}\nC: {dtype}[I, J]{open}\n");
        let left = equal(&format!("{ground}{inputs}R[I, J]{open} = {call}\nS[I, J] = R\noutput S"));
        assert_eq!(collectives(&left), ["AllReduce_X -> S[I, J]"], "{operator} {call}");
        let closed = equal(&format!("{ground}{inputs}R[I_X, J] = {call}\noutput R"));
        assert_eq!(collectives(&closed).len(), 1, "{operator} {call}");
    }
}

const FLOATS: &[&str] = &["f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"];
const NUMBERS: &[&str] = &[
    "i4", "i8", "i16", "i32", "i64", "u4", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64",
];

/// The operators of the collectives library with their element types. Types that it lacks are tested with the others
/// of their kind.
const TABLE: [(&str, &[&str]); 8] = [
    ("U", NUMBERS),
    ("MUL", NUMBERS),
    ("MEAN", FLOATS),
    ("MIN", NUMBERS),
    ("MAX", NUMBERS),
    ("SQUARE_ADD", NUMBERS),
    ("LOGICAL_AND", &["bool"]),
    ("LOGICAL_OR", &["bool"]),
];

/// A device's local functions, and its combining operations.
fn work(compiled: &Compiled) -> (Vec<String>, Vec<String>) {
    let kinds = || compiled.schedule.ids().map(|id| &compiled.schedule.operation(id).kind);
    let maps = kinds().filter_map(|kind| match kind {
        OpKind::Map { function, .. } if *function != Function::Identity => Some(function.to_string()),
        _ => None,
    });
    let adds = kinds().filter_map(|kind| match kind {
        OpKind::Add { operator } => Some(operator.to_string()),
        _ => None,
    });
    (maps.collect(), adds.sorted().dedup().collect())
}

/// The whole table: each operator on each element type, over all devices and over consecutive and orthogonal groups
/// of a ring, whole and scattered, with sizes that divide and one that does not. Means and sums of squares take one
/// map, one kind of combination and one final function, for any groups. Padding is never an operand, because all
/// results equal the dense ones.
#[test]
fn the_whole_table() {
    let mut legal = 0;
    for ((operator, dtypes), dtype) in TABLE.into_iter().cartesian_product(DType::ALL) {
        let ground = |size: u32, axes: &str| {
            format!(
                "mesh {{R: 4 ring}}\naxis R = {{Q: 2, P: 2}}\ndims {{I: {size}, J: 2}}\n\
                 A: {dtype}[I, J]{{{operator}_{axes}}}\n"
            )
        };
        if !dtypes.contains(&dtype.to_string().as_str()) {
            assert_eq!(
                crate::common::errors(&format!("{}A -> R[I, J]", ground(8, "P"))),
                ["operator-dtype"],
                "{operator} {dtype}"
            );
            continue;
        }
        legal += 1;
        // All devices, consecutive groups, orthogonal groups. The scattered result has the axes of the group.
        for (axes, size) in ["QP", "P", "Q"].into_iter().cartesian_product([8, 5]) {
            for result in ["R[I, J]".to_owned(), format!("R[I_{axes}, J]")] {
                let compiled = equal(&format!("{}A -> {result}", ground(size, axes)));
                let (maps, adds) = work(&compiled);
                let members = 2u32.pow(u32::try_from(axes.len()).expect("short"));
                let (map, add) = match operator {
                    "MEAN" => (vec![format!("over({members})")], "sum"),
                    "SQUARE_ADD" => (vec!["square".to_owned()], "sum"),
                    "U" => (vec![], "sum"),
                    "LOGICAL_AND" => (vec![], "and"),
                    "LOGICAL_OR" => (vec![], "or"),
                    "MUL" => (vec![], "mul"),
                    "MIN" => (vec![], "min"),
                    _ => (vec![], "max"),
                };
                assert_eq!((maps, adds), (map, vec![add.to_owned()]), "{operator} {dtype} {axes} {size} {result}");
            }
        }
    }
    assert_eq!(legal, 5 * 16 + 6 + 2);
}
