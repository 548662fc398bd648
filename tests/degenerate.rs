//! Collectives where little is left of them: axes of one and of two, sizes that do not divide, one element, and none.
#![allow(missing_docs)]

mod common;

use common::{compile, errors};
use itertools::iproduct;
use shardc::sim::{proof, values};

/// A collective by hand: the declaration of its operand, and the statement.
const COLLECTIVES: [(&str, &str); 5] = [
    ("A: i8[I_X, J]", "AllGather_X(A[I_X, J]) -> B[I, J]"),
    ("A: i8[I, J]{U_X}", "ReduceScatter_{X,I}(A[I, J]{U_X}) -> B[I_X, J]"),
    ("A: i8[I, J]{U_X}", "AllReduce_X(A[I, J]{U_X}) -> B[I, J]"),
    ("A: i8[I_X, J]", "AllToAll_{X,J}(A[I_X, J]) -> B[I, J_X]"),
    ("A: i8[I, J]{ROOT_X}", "Broadcast_X(A[I, J]{ROOT_X}) -> B[I, J]"),
];

fn program(mesh: &str, [rows, columns]: [u64; 2], (input, line): (&str, &str)) -> String {
    format!("mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\n{input}\n{line}\n")
}

#[test]
fn little_is_left_and_right() {
    let meshes =
        ["X: 1", "X: 2 ring", "X: 2 line", "X: 2 switch", "X: 3 ring", "X: 4 ring", "X: 4 line", "X: 5 switch"];
    let sizes = [[1, 1], [1, 6], [6, 1], [5, 7], [4, 4]];
    for (mesh, sizes, collective) in iproduct!(meshes, sizes, COLLECTIVES) {
        let source = program(mesh, sizes, collective);
        let schedule = compile(&source).schedule;
        proof::prove(&schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
        let inputs = values::inputs(&schedule, 3).expect("small");
        let dense = values::dense(&schedule, &inputs).expect("small");
        let run = values::run(&schedule, &inputs).expect("small");
        assert!(values::compare(&schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
    }
}

#[test]
fn nothing_is_refused() {
    for (sizes, collective) in iproduct!([[0, 4], [4, 0]], COLLECTIVES) {
        let found = errors(&program("X: 4", sizes, collective));
        assert!(!found.is_empty() && found.iter().all(|code| found[0] == *code), "{found:?}");
    }
    assert!(!errors(&program("X: 0", [4, 4], COLLECTIVES[0])).is_empty());
}
