//! Collectives around four rings through all devices of a torus: proven, correct on numbers, and with the time of
//! their closed form.
#![allow(missing_docs)]

use crate::common::{compile, compile_with, first_collective, step_methods};
use itertools::iproduct;
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::recipe::Lowering;
use shardc::report::{step_bound, step_method_times};
use shardc::sim::{clock, proof, values};
use shardc::topology::{HopRule, Topology};

/// Over both axes, on one dim in either order, and on two dims.
const COLLECTIVES: [(&str, &str); 7] = [
    ("A: i32[I_XY, J]", "AllGather_XY(A[I_XY, J]) -> B[I, J]"),
    ("A: i32[I_YX, J]", "AllGather_{YX}(A[I_YX, J]) -> B[I, J]"),
    ("A: i32[I_X, J_Y]", "AllGather_XY(A[I_X, J_Y]) -> B[I, J]"),
    ("A: i32[I, J]{U_XY}", "ReduceScatter_{XY,I}(A[I, J]{U_XY}) -> B[I_XY, J]"),
    ("A: i32[I, J]{U_XY}", "ReduceScatter_{YX,I}(A[I, J]{U_XY}) -> B[I_YX, J]"),
    ("A: i32[I, J]{U_XY}", "AllReduce_XY(A[I, J]{U_XY}) -> B[I, J]"),
    ("A: i32[I, J]{MAX_XY}", "AllReduce_XY(A[I, J]{MAX_XY}) -> B[I, J]"),
];

fn program(mesh: &str, [rows, columns]: [u64; 2], (input, line): (&str, &str)) -> String {
    format!(
        "mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\n{input}\n{line} using quad_directional_ring\n"
    )
}

#[test]
fn they_are_right_on_every_small_torus() {
    for (x, y) in iproduct!(3..=6u64, 3..=6u64).filter(|(x, y)| x % 2 == y % 2) {
        for (collective, share) in iproduct!(COLLECTIVES, [[1, 1], [1, 3], [3, 7]]) {
            let sizes = [share[0] * x * y, share[1] * x * y];
            let source = program(&format!("X: {x} ring, Y: {y} ring"), sizes, collective);
            let compiled = compile_with(&source, CostModel::Book);
            let schedule = &compiled.schedule;
            assert_eq!(step_methods(schedule, first_collective(&compiled)), "quad_directional_ring", "{source}");
            proof::prove(schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
            let inputs = values::inputs(schedule, 1).expect("small");
            let dense = values::dense(schedule, &inputs).expect("small");
            let run = values::run(schedule, &inputs).expect("small");
            assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
        }
    }
}

/// N - 1 hops of a quarter of a shard with all links always busy: the bandwidth bound plus a hop latency per step.
#[test]
fn they_take_their_closed_form() {
    for ((x, y), columns) in iproduct!([(3, 3), (3, 5), (4, 4), (4, 6), (6, 4), (8, 4), (8, 8)], [64u64, 1 << 20]) {
        for (number, collective) in COLLECTIVES.iter().enumerate() {
            // A quarter of a shard, in elements of four bytes.
            let sizes = [4 * x * y, columns * if number == 2 { x * y } else { 1 }];
            let compiled = compile(&program(&format!("X: {x} ring, Y: {y} ring"), sizes, *collective));
            let mut hardware = compiled.topology.hardware.clone();
            hardware.hop_rule = HopRule::Sum;
            let topology = Topology::new(compiled.topology.mesh.clone(), hardware).expect("a common tick");
            let timing = clock::run(&compiled.schedule, &topology).expect("a time");
            let links = topology.axes[0];
            let shard = u128::from(sizes[0] * sizes[1] * 4 / (x * y));
            let phases = if number > 4 { 2 } else { 1 };
            let hops = phases * (x * y - 1);
            let quarter = topology.scale.at_rate(shard / 4, links.one_way);
            let name = format!("{} on {x}x{y}", collective.1);
            assert_eq!(timing.makespan, (links.hop_latency + quarter) * hops, "{name}");
            assert!(timing.links.iter().all(|link| link.busy == quarter * hops), "{name}");
            let bound = step_bound(&compiled.plan, first_collective(&compiled), &topology).bound;
            assert_eq!(bound.bandwidth, quarter * hops, "{name}");
        }
    }
}

/// If it is not chosen, it is listed with its time.
#[test]
fn it_is_listed_beside_the_others() {
    let listed = |mesh: &str| {
        let source = format!(
            "mesh {{{mesh}}} on tpu_v5p\ndims {{I: 64, J: 4096}}\nA: i32[I_XY, J]\nAllGather_XY(A[I_XY, J]) -> B[I, J]\n"
        );
        let compiled = compile(&source);
        let step = first_collective(&compiled);
        let times = step_method_times(&compiled.plan, step, &compiled.topology, Lowering::default()).expect("small");
        times.others.iter().any(|other| other.name == "quad_directional_ring")
    };
    assert!(listed("X: 4 ring, Y: 4 ring"));
    assert!(!listed("X: 4 ring, Y: 4 line"));
}

/// It requires two whole rings of at least three devices, both even or both odd.
#[test]
fn it_needs_a_torus_of_two_axes() {
    let gather = ("A: i32[I_XY, J]", "AllGather_XY(A[I_XY, J]) -> B[I, J]");
    let meshes = [
        "X: 4 ring, Y: 4 line",
        "X: 4 ring, Y: 5 ring",
        "X: 4 ring, Y: 2 ring",
        "X: 4 switch, Y: 4 switch",
        "X: 20 ring, Y: 16 ring",
    ];
    for mesh in meshes {
        assert!(refused(&program(mesh, [320, 4], gather)), "{mesh}");
    }
    let two = "X: 4 ring, Y: 4 ring";
    assert!(!refused(&program(two, [32, 16], gather)));
    assert!(refused(&program(two, [32, 16], ("A: i32[I_X, J]", "AllGather_X(A[I_X, J]) -> B[I, J]"))));
    let three = "X: 4 ring, Y: 4 ring, Z: 4 ring";
    assert!(refused(&program(three, [64, 16], ("A: i32[I_XYZ, J]", "AllGather_XYZ(A[I_XYZ, J]) -> B[I, J]"))));
    assert!(!refused(&program(three, [64, 16], gather)));
    assert!(refused(&program(two, [16, 16], ("A: i32[I_XY, J]", "AllToAll_{XY,J}(A[I_XY, J]) -> B[I, J_XY]"))));
    // No dim is divisible, so the sum cannot be scattered.
    assert!(refused(&program(two, [5, 3], ("A: i32[I, J]{U_XY}", "AllReduce_XY(A[I, J]{U_XY}) -> B[I, J]"))));
}

fn refused(source: &str) -> bool {
    let program = compiler::check(source).0.unwrap_or_else(|| panic!("{source}"));
    match compiler::compile(&program, &Options::default()) {
        Ok(_) => false,
        Err(found) => {
            assert!(format!("{found:?}").contains("method-not-applicable"), "{found:?}\n{source}");
            true
        }
    }
}
