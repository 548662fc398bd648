//! Collectives where little is left of them: axes of one and of two, sizes that do not divide, one element, and none.
#![allow(missing_docs)]

mod common;

use common::{compile, errors, first_collective};
use itertools::iproduct;
use shardc::report::{step_bound, step_methods};
use shardc::sim::{clock, proof, values};

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

/// Axes of one device between others, over several axes at once: they change nothing.
#[test]
fn axes_of_one_device_change_nothing() {
    let meshes = [
        ("B: 4 switch, C: 2 switch", "A: 1, B: 4 switch, C: 2 switch", "B: 4 switch, A: 1, C: 2 switch"),
        ("B: 2 ring, C: 16 ring", "A: 1 ring, B: 2 ring, C: 16 ring", "B: 2 ring, C: 16 ring, A: 1"),
        ("B: 3 ring, C: 4 line", "A: 1 line, B: 3 ring, C: 4 line", "B: 3 ring, A: 1 ring, C: 4 line"),
    ];
    let collectives = [
        ("D: i8[I_BC, J]", "AllGather_{BC}(D[I_BC, J]) -> E[I, J]"),
        ("D: i8[I, J]{U_BC}", "ReduceScatter_{BC,I}(D[I, J]{U_BC}) -> E[I_BC, J]"),
        ("D: i8[I, J]{U_BC}", "AllReduce_{BC}(D[I, J]{U_BC}) -> E[I, J]"),
        ("D: i8[I_BC, J]", "AllToAll_{BC,J}(D[I_BC, J]) -> E[I, J_BC]"),
    ];
    for ((plain, first, inside), sizes, collective) in iproduct!(meshes, [[96, 96], [7, 96]], collectives) {
        let fits =
            |extent: u64| extent.is_multiple_of(if plain.contains("16") { 32 } else { 8 }) && extent.is_multiple_of(12);
        if !fits(sizes[0]) && !collective.1.starts_with("AllReduce")
            || collective.1.starts_with("AllToAll") && sizes[1] != 96
        {
            continue;
        }
        let times = [plain, first, inside].map(|mesh| {
            let source = program(mesh, sizes, collective);
            let compiled = compile(&source);
            let schedule = &compiled.schedule;
            proof::prove(schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
            let inputs = values::inputs(schedule, 3).expect("small");
            let dense = values::dense(schedule, &inputs).expect("small");
            let run = values::run(schedule, &inputs).expect("small");
            assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
            clock::run(schedule, &compiled.topology).expect("a time").makespan
        });
        assert!(times.iter().all(|time| *time == times[0]), "{plain} {sizes:?} {collective:?}: {times:?}");
    }
}

/// Where the devices of a group divide no dim, the most of a sum that they divide is scattered: no more than a twentieth is
/// lost, and what is asked for is done.
#[test]
fn sums_that_do_not_divide_are_near_their_bound() {
    let meshes = ["X: 3 ring", "X: 7 ring", "X: 16 ring", "X: 9 switch", "X: 3 ring, Y: 5 ring"];
    for (mesh, using) in iproduct!(meshes, ["", " using bidirectional_ring_pair"]) {
        if !using.is_empty() && (mesh.contains("switch") || mesh.contains('Y')) {
            continue;
        }
        let axes = if mesh.contains('Y') { "XY" } else { "X" };
        let source = program(mesh, [1031, 8209], ("A: i32[I, J]{U_W}", "AllReduce_{W}(A[I, J]{U_W}) -> B[I, J]"))
            .replace("{U_W}", &format!("{{U_{axes}}}"))
            .replace("{W}", &format!("{{{axes}}}"))
            .replace("B[I, J]\n", &format!("B[I, J]{using}\n"));
        let compiled = compile(&source);
        proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
        let step = first_collective(&compiled);
        let bound = step_bound(&compiled.plan, step, &compiled.topology).time();
        let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
        assert!(time >= bound && time.ratio(bound) < 1.05, "{}\n{source}", time.ratio(bound));
        assert!(step_methods(&compiled.schedule, step).contains(using.trim_start_matches(" using ")), "{source}");
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
