//! Degenerate collectives: axes of size 1 and 2, sizes that do not divide, one element, and none.
#![allow(missing_docs)]

use crate::common::{compile, compile_lowered, errors, first_collective, programs, small_examples, step_methods};
use itertools::{Itertools, iproduct};
use shardc::collective::CollectiveKind;
use shardc::mesh::Wiring;
use shardc::recipe::Lowering;
use shardc::report::step_bound;
use shardc::schedule::methods;
use shardc::sim::{clock, proof, values};

/// A handwritten collective: the declaration of its operand, and the statement.
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

/// Axes of size 1 between others, in collectives over several axes, have no effect.
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

/// If a group divides no dim, the largest divisible part of a sum is scattered: this loses at most a twentieth, and
/// requested methods are used.
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
        let bound = step_bound(&compiled.plan, step, &compiled.topology).bound.time();
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

/// Scalars have no dim to split: every collective of a sum and of a root, with every method, with and without bitwise
/// equality.
#[test]
fn scalars_have_no_dim() {
    let meshes = ["1", "2 ring", "3 ring", "4 ring", "5 line", "6 line", "3 switch", "7 switch", "8 switch"];
    let operators = ["U", "MAX", "MIN", "MUL", "MEAN", "SQUARE_ADD", "ROOT"];
    for (mesh, operator, dtype, bitwise) in iproduct!(meshes, operators, ["f32", "i32"], [false, true]) {
        if dtype == "i32" && (operator == "MEAN" || bitwise) {
            continue;
        }
        let (kind, word) = match operator {
            "ROOT" => (CollectiveKind::Broadcast, "Broadcast"),
            _ => (CollectiveKind::AllReduce, "AllReduce"),
        };
        let source = |mesh: &str, using: &str| {
            format!(
                "mesh {{X: {mesh}}} on tpu_v5p\nA: {dtype}[]{{{operator}_X}}\n{word}_X(A[]{{{operator}_X}}) -> B[]{using}\n"
            )
        };
        let (size, wiring) = mesh.split_once(' ').unwrap_or((mesh, "line"));
        let wiring = match wiring {
            "ring" => Wiring::Ring,
            "line" => Wiring::Line,
            _ => Wiring::Switch,
        };
        let methods = methods::candidates(kind, wiring, size.parse().expect("a size"));
        let using = methods.iter().map(|method| format!(" using {}", method.name()));
        for using in using.chain([String::new()]) {
            is_right(&source(mesh, &using), bitwise);
        }
    }
    // Several axes at once, products without a dim, and degraded links.
    let several = [
        "mesh {X: 2 x 3} on h100\ndims {I: 6}\nA: bf16[I_X]\nB: bf16[I_X]\nA * B -> C[]\n",
        "mesh {X: 3 ring, Y: 5 line} on tpu_v5p\nA: f32[]{U_XY}\nB[] = A\n",
        "mesh {X: 3 ring, Y: 4 ring} on tpu_v5p\nA: f32[]{ROOT_XY}\nB[] = A\n",
        "mesh {X: 3, Y: 4} on h100\nA: f32[]{ROOT_XY}\nB[] = A\n",
        "mesh {X: 3 ring, Y: 3 ring} on tpu_v5p\nlink (0,0)->(1,0) down\nA: f32[]{ROOT_XY}\nB[] = A\n",
        "mesh {X: 3 ring, Y: 3 ring} on tpu_v5p\nlink (0,0)->(1,0) down\nA: f32[]{U_XY}\nB[] = A\n",
        "mesh {X: 6 line} on tpu_v5p\nA: f32[]{U_X}\nB = A\nC[]{U_X} = 2 * B\nD[] = B + C\n",
        "mesh {Y: 2} on tpu_v5e\ndims {J: 4}\nA: i32[J]\nB: i32[J]{ROOT_Y}\nC[] = A * B\n",
    ];
    for (source, bitwise) in iproduct!(several, [false, true]) {
        is_right(source, bitwise);
    }
}

fn is_right(source: &str, bitwise: bool) {
    let schedule = compile_lowered(source, Lowering { bitwise, ..Lowering::default() }).schedule;
    proof::prove(&schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    let inputs = values::inputs(&schedule, 3).expect("small");
    let dense = values::dense(&schedule, &inputs).expect("small");
    let run = values::run(&schedule, &inputs).expect("small");
    assert!(values::compare(&schedule, &inputs, &dense, &run).expect("comparable").within, "{source}");
}

/// Any axis of any program may have size 1: there is a plan, and it is correct.
#[test]
fn any_axis_may_have_one_device() {
    let files = programs("tests/corpus/small").into_iter().chain(small_examples());
    let mut tried = 0;
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a program");
        let Some(mesh) = source.lines().find(|line| line.starts_with("mesh {")) else { continue };
        let inside = mesh.split_once('{').and_then(|(_, rest)| rest.split_once('}')).expect("a mesh").0;
        let says_more = |line: &str| line.starts_with("axis ") || line.starts_with("link ");
        if inside.contains(" x ") || inside.contains("over") || source.lines().any(says_more) {
            continue;
        }
        for axis in inside.split(',') {
            let name = axis.split_once(':').expect("a size").0;
            let smaller = mesh.replacen(axis, &format!("{name}: 1"), 1);
            // Expectations apply to the larger mesh.
            let kept = |line: &&str| !["expect ", "limit "].iter().any(|word| line.starts_with(word));
            let source = source.replacen(mesh, &smaller, 1).lines().filter(kept).join("\n");
            let source = without_methods(&source);
            is_right(&(source + "\n"), false);
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

/// The program without `using`: with one device no method applies.
fn without_methods(source: &str) -> String {
    source.lines().map(|line| line.split_once(" using ").map_or(line, |(line, _)| line)).join("\n")
}

/// Layouts may name axes of size 1 wherever they are legal; these cost nothing and are preserved.
#[test]
fn axes_of_one_device_are_labels() {
    let mesh = "mesh {D: 1, X: 4 ring, E: 1} on tpu_v5p\ndims {I: 64, J: 32, K: 16}\n";
    // Declarations and statements, the layout of the last value, and the communication.
    let cases = [
        ("A: f32[I, J]\nB[I_D, J] = A", "[I_D, J]", ""),
        ("A: f32[I_D, J]\nB[I, J] = A", "[I_D, J]", ""),
        ("A: f32[I, J]\nB[I_D, J_E] = A", "[I_D, J_E]", ""),
        ("A: f32[I_XD, J]\nB[I, J] = A", "[I, J]", "AllGather_DX"),
        ("A: f32[I_XD, J]\nB[I, J_X] = A", "[I, J_X]", "AllToAll_{XD,J}"),
        ("A: f32[I, J]{U_D}\nB[I, J] = A", "[I, J]", ""),
        ("A: f32[I, J]{U_DX}\nB[I_D, J_X] = A", "[I_D, J_X]", "ReduceScatter_{XD,J}"),
        ("A: f32[I, J]{SQUARE_ADD_D}\nB[J, I] = A", "[J, I]", ""),
        ("A: f32[I_?, J_D]\nB[I, J] = A\nlimit memory 1GiB", "[I, J_D]", ""),
        ("A: f32[I, J]{ROOT_D}\nB[I_E, J] = A", "[I_E, J]", ""),
        ("A: bf16[I_D, J]\nB: bf16[J_X, K]\nC[I_D, K] = A * B", "[I_D, K]", "AllReduce_X"),
        ("A: bf16[I_D, J]\nB: bf16[J, K_X]\nC = A * B", "[I_D, K_X]", ""),
        ("A: bf16[I_D, J]\nB: bf16[J, K_X]\nC = relu(A * B)", "[I_D, K_X]", ""),
        ("A: f32[I_D, J]\nAllGather_D(A[I_D, J]) -> B[I, J]", "[I_D, J]", ""),
    ];
    for (lines, layout, sent) in cases {
        let source = format!("{mesh}{lines}\n");
        is_right(&source, false);
        let compiled = compile(&source);
        let plan = &compiled.plan;
        let moves = plan.ids().filter(|id| plan.communicates(*id)).map(|id| plan.op_name(id)).join(", ");
        let last = &plan.step(*plan.outputs.last().expect("an output")).layout;
        let found = last.brackets(&plan.program.mesh, &plan.program.dims);
        assert_eq!((found.as_str(), moves.as_str()), (layout, sent), "{source}");
    }
}

/// Closing a sum of squares over one device takes a root, so such an axis is part of the layouts; other sums may then
/// be open over it as well.
#[test]
fn sums_stay_open_over_one_device_beside_squares() {
    for body in [
        "B: f32[I_Y, J]\nC[I]{U_X} = sum_J(open_X(B))\n",
        "B: f32[I_Y, J]\nC[J]{U_XY} = sum_I(B)\n",
        "B: f32[I, J_X]\nC[J]{U_X} = sum_I(B)\n",
        "B: f32[I, J]\nC[J]{MAX_X} = max_I(B)\n",
    ] {
        let source = format!(
            "mesh {{X: 1, Y: 4}} on tpu_v5e\ndims {{I: 4, J: 4}}\nA: f32[I]{{SQUARE_ADD_X}}\n{body}output A, C\n"
        );
        proof::prove(&compile(&source).schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    }
}
