//! Gathers that use the links of a replicated axis: proven, correct on numbers, and at the bound.
#![allow(missing_docs)]

use crate::common::{compile_with, first_collective, step_methods};
use itertools::iproduct;
use shardc::compiler::{self, Compiled, Options};
use shardc::costs::CostModel;
use shardc::dtype::DType;
use shardc::layout::Sharding;
use shardc::mesh::{Axes, Axis, AxisId, Mesh, Wiring};
use shardc::method::Method;
use shardc::recipe::Lowering;
use shardc::report::{Findings, step_bound, step_method_times, text};
use shardc::schedule::methods::Borrowed;
use shardc::schedule::{Array, ArrayId, Builder, Dense, Output, Schedule};
use shardc::sim::{clock, proof, values};
use shardc::span::Span;
use shardc::topology::{Hardware, HopRule, Topology};
use shardc::units::Time;

fn program(mesh: &str, [rows, columns]: [u64; 2]) -> Compiled {
    let gather = "A: i32[I_X, J]\nAllGather_X(A[I_X, J]) -> B[I, J] using idle_axis";
    compile_with(&format!("mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {columns}}}\n{gather}\n"), CostModel::Book)
}

/// Axes of every wiring and length, and sizes without common divisors.
#[test]
fn borrowed_gathers_are_right() {
    let wirings = ["ring", "line", "switch", "full"];
    for (x, y, along, idle) in iproduct!(2..=5u64, 2..=5u64, wirings, wirings) {
        for columns in [1, 7, 24] {
            let compiled = program(&format!("X: {x} {along}, Y: {y} {idle}"), [3 * x, columns]);
            let schedule = &compiled.schedule;
            let name = format!("{x} {along} beside {y} {idle}, {columns} columns");
            assert_eq!(step_methods(schedule, first_collective(&compiled)), "idle_axis", "{name}");
            proof::prove(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            let inputs = values::inputs(schedule, 1).expect("small");
            let dense = values::dense(schedule, &inputs).expect("small");
            let run = values::run(schedule, &inputs).expect("small");
            assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal, "{name}");
        }
    }
}

/// A device receives what it lacks over the links of both axes, in half the time of a gather along one ring.
#[test]
fn borrowed_gathers_reach_the_bound() {
    let meshes = [
        "X: 4 ring, Y: 4 ring",
        "X: 3 ring, Y: 5 ring",
        "X: 8 ring, Y: 2",
        "X: 4 ring, Y: 4 line",
        "X: 16 ring, Y: 16 ring",
        "X: 4 ring, Y: 3, Z: 6 ring",
        "X: 4 full, Y: 4 ring",
        "X: 8, Y: 5 full",
    ];
    for mesh in meshes {
        let compiled = program(mesh, [64 * 15, 1 << 20]);
        let step = first_collective(&compiled);
        let bound = step_bound(&compiled.plan, step, &compiled.topology).bound;
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
        assert!(timing.makespan >= bound.time(), "{mesh} beats its bound");
        // Only one of two idle axes is used.
        let most = if mesh.contains('Z') { 1.26 } else { 1.05 };
        assert!(timing.makespan.ratio(bound.time()) < most, "{mesh}: {}", timing.makespan.ratio(bound.time()));
        let times = step_method_times(&compiled.plan, step, &compiled.topology, Lowering::default()).expect("small");
        assert_eq!(times.chosen.name, "idle_axis");
        assert!(times.others.iter().all(|other| other.time > times.chosen.time), "{mesh}: {times:?}");
    }
}

/// One chunk on even rings, half of the data along each axis: ⌊X/2⌋ + ⌊Y/2⌋ hops, with the stages one after the other.
#[test]
fn one_chunk_takes_its_closed_form() {
    for (x, y) in iproduct!([4u32, 6, 8], [4u32, 6, 8]) {
        let ring = |(name, size): (&str, u32)| Axis { name: name.into(), size, wiring: Some(Wiring::Ring), over: None };
        let mesh = Mesh::new([("X", x), ("Y", y)].map(ring).to_vec()).expect("a small mesh");
        let extents = [u64::from(x), 2 * 2 * 3 * 5 * 7 * 8 * u64::from(y) * 1000];
        let ring = Method::BalancedMeetInMiddleRing;
        let schedule = gather(&mesh, extents, DType::I8, &borrowed((ring, ring), (1, 2), 1));
        let hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("tpu_v5e").expect("shipped") };
        let topology = Topology::new(mesh, hardware).expect("a common tick");
        let timing = clock::run(&schedule, &topology).expect("a time");
        let [n, m] = [u64::from(x), u64::from(y)];
        let links = topology.axes[0];
        let bytes = |bytes: u64| topology.scale.at_rate(u128::from(bytes), links.one_way);
        // Of the part that is split over Y, all but one of Y pieces arrive along Y.
        let piece = extents[1] / (2 * (m - 1));
        let along_y = bytes((n - 1) * piece * (m - 1) / 2);
        let expected: Time = links.hop_latency * (n / 2 + m / 2) + bytes((n - 1) * piece / 2) + along_y;
        assert_eq!(timing.makespan, expected, "{x}x{y}");
        // The links of both axes carry the same load.
        assert!(timing.links.iter().all(|link| link.busy == along_y), "{x}x{y}");
    }
}

/// It is used on request only, although it is known to be faster: by default, a gather over one axis uses that axis
/// only.
#[test]
fn idle_axes_are_borrowed_on_request() {
    let source = "mesh {X: 4 ring, Y: 4 ring} on tpu_v5p\ndims {I: 960, J: 1048576}\nA: i32[I_X, J]\nAllGather_X(A[I_X, J]) -> B[I, J]\n";
    let compiled = compile_with(source, CostModel::Exact);
    let step = first_collective(&compiled);
    let times = step_method_times(&compiled.plan, step, &compiled.topology, Lowering::default()).expect("small");
    assert_eq!(times.chosen.name, "balanced_meet_in_middle_ring");
    assert_eq!(times.chosen.time, compiled.plan.step(step).cost.time);
    let [first, ..] = &times.others[..] else { panic!("{times:?}") };
    assert!(first.name == "idle_axis" && first.time < times.chosen.time, "{times:?}");
    let findings = Findings::new(&compiled.plan, &compiled.topology).with_methods(Lowering::default());
    let text = text::methods(&findings);
    assert!(text.contains("idle_axis (only with `using`)"), "{text}");
}

/// It requires a replicated axis.
#[test]
fn an_idle_axis_is_needed() {
    let refused = |head: &str, input: &str, line: &str| {
        let source = format!("{head}\ndims {{I: 64, J: 64}}\nA: i8{input}\n{line} using idle_axis\n");
        let program = compiler::check(&source).0.expect("right");
        let found = compiler::compile(&program, &Options::default()).expect_err("refused");
        format!("{found:?}").contains("method-not-applicable") || format!("{found:?}").contains("does not support")
    };
    let two = "mesh {X: 4 ring, Y: 4 ring} on tpu_v5p";
    assert!(refused("mesh {X: 4 ring} on tpu_v5p", "[I_X, J]", "AllGather_X(A[I_X, J]) -> B[I, J]"));
    assert!(refused(two, "[I_X, J_Y]", "AllGather_X(A[I_X, J_Y]) -> B[I, J_Y]"));
    assert!(refused(two, "[I, J]{U_X}", "AllReduce_X(A[I, J]{U_X}) -> B[I, J]"));
}

fn borrowed((along, idle): (Method, Method), share: (u64, u64), chunks: u64) -> Borrowed {
    let [x, y] = [0, 1].map(|axis| Axes::one(AxisId::new(axis)));
    Borrowed { run: (x, along), idle: (y, idle), share, chunks }
}

/// A gather of rows sharded over X and replicated along Y.
fn gather(mesh: &Mesh, extents: [u64; 2], dtype: DType, way: &Borrowed) -> Schedule {
    let mut schedule = Schedule::new(mesh.clone());
    schedule.arrays.push(Array {
        name: "A".into(),
        dtype,
        dims: vec!["I".to_owned(), "J".to_owned()],
        valid: extents.to_vec(),
        extents: extents.to_vec(),
        definition: Dense::INPUT,
    });
    let rows = Sharding { dims: vec![Axes::one(AxisId::new(0)), Axes::NONE], ..Sharding::default() };
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let given = builder.input(ArrayId(0), rows);
    let value = way.all_gather(&mut builder, given, 0);
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: Sharding::replicated(2) });
    schedule
}

/// A collective over a slow network, written on an array that is replicated within a fast one: each replica moves a part,
/// and the parts are gathered within the fast network. In sequence, so a broadcast takes up to 1.8 times its bound.
#[test]
fn replicas_share_a_slow_network() {
    let meshes = ["S: 4 over dcn, X: 4, Y: 4", "S: 2 over dcn, X: 2, Y: 3", "X: 4, S: 3 over dcn"];
    let kinds = [
        ("[I_S, J, K]", "AllGather_S(A)", "[I, J, K]"),
        ("[I, J, K]{U_S}", "AllReduce_S(A)", "[I, J, K]"),
        ("[I, J, K]{U_S}", "ReduceScatter_{S,I}(A)", "[I_S, J, K]"),
        ("[I_S, J, K]", "AllToAll_{S,J}(A)", "[I, J_S, K]"),
        ("[I, J, K]{ROOT_S}", "Broadcast_S(A)", "[I, J, K]"),
    ];
    let mut shared = 0;
    for ((from, collective, to), mesh) in iproduct!(kinds, meshes) {
        let source = |[i, j, k]: [u64; 3]| {
            format!(
                "mesh {{{mesh}}} on tpu_v5p\ndims {{I: {i}, J: {j}, K: {k}}}\nA: i32{from}\n{collective} -> C{to}\n"
            )
        };
        // The gather comes after the move, and an exchange needs a dim of its own.
        let compiled = compile_with(&source([48 * 64, 48 * 8, 48]), CostModel::Exact);
        let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound;
        let ratio = compiled.plan.time().ratio(bound.time());
        assert!((1.0..1.8).contains(&ratio), "{mesh}: {collective} {ratio}");
        for sizes in [[48, 48, 240], [12, 12, 4800], [240, 240, 5], [60, 12, 1]] {
            let compiled = compile_with(&source(sizes), CostModel::Exact);
            let schedule = &compiled.schedule;
            shared += u32::from(step_methods(schedule, first_collective(&compiled)).contains(" + "));
            proof::prove(schedule).unwrap_or_else(|flaw| panic!("{mesh}: {collective}: {flaw}"));
            let inputs = values::inputs(schedule, 1).expect("small");
            let dense = values::dense(schedule, &inputs).expect("small");
            let run = values::run(schedule, &inputs).expect("small");
            assert!(
                values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal,
                "{mesh}: {collective}"
            );
        }
    }
    assert!(shared > 20, "{shared}");
}
