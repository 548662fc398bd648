//! The golden cases, from program text to figures. Each test is named after its case.

use crate::common::{collectives, compile_with, errors, first_collective, single};
use shardc::collective::{Collective, CollectiveKind};
use shardc::compiler::Compiled;
use shardc::costs::CostModel;
use shardc::dtype::DType;
use shardc::layout::{Dims, Layout, Sharding};
use shardc::mesh::{Axes, AxisId, AxisSet, Mesh, Wiring};
use shardc::method::Method;
use shardc::operator::Operator;
use shardc::plan::StepOp;
use shardc::recipe::{Lowering, Tuner};
use shardc::schedule::{Array, ArrayId, Builder, CoordMap, Cut, Dense, Output, Route, Schedule, Sources};
use shardc::sim::values::Tensor;
use shardc::sim::{clock, proof, values};
use shardc::span::Span;
use shardc::topology::{Hardware, LinkSide, Topology};
use shardc::units::Bytes;
use std::borrow::Cow;

/// Compiles with the book's cost model, which the golden cases use.
fn compile(source: &str) -> Compiled {
    compile_with(source, CostModel::Book)
}

/// The layout of the first input.
fn input(compiled: &Compiled) -> &Layout {
    let plan = &compiled.plan;
    let id = plan.ids().find(|id| plan.step(*id).op == StepOp::Input).expect("an input");
    &plan.step(id).layout
}

/// Time of the first collective under the book's closed forms, in microseconds.
fn book_us(compiled: &Compiled) -> f64 {
    let time = compiled.plan.step(first_collective(compiled)).cost.time;
    compiled.topology.scale.seconds(time) * 1e6
}

/// Simulated time of the whole program, in microseconds.
fn simulated_us(compiled: &Compiled) -> f64 {
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    compiled.topology.scale.seconds(timing.makespan) * 1e6
}

#[track_caller]
fn close(figure: f64, expected: f64) {
    assert!((figure - expected).abs() <= expected * 0.002, "{figure} is not {expected}");
}

#[test]
fn g1_local_shape() {
    let compiled = compile("mesh {X: 2, Y: 2}\ndims {I: 4, J: 128}\nA: bf16[I_X, J_Y]\noutput A");
    assert_eq!(input(&compiled).local_extents(&compiled.topology.mesh), [2, 64]);
}

#[test]
fn g2_bytes_of_a_partly_replicated_array() {
    let compiled = compile("mesh {X: 2, Y: 8, Z: 2}\ndims {I: 128, J: 2048}\nA: int8[I_{XY}, J]\noutput A");
    let (layout, mesh) = (input(&compiled), &compiled.topology.mesh);
    assert_eq!(layout.local_extents(mesh), [8, 2048]);
    assert_eq!(layout.local_bytes(mesh), Bytes(16_384));
    assert_eq!(layout.local_bytes(mesh).0 * mesh.device_count() as u64, 524_288);
}

#[test]
fn g3_total_over_one_copy() {
    let compiled = compile("mesh {X: 4, Y: 8, Z: 2}\ndims {I: 8, J: 3, K: 5}\nA: bf16[I_X, J, K]\noutput A");
    let (layout, mesh) = (input(&compiled), &compiled.topology.mesh);
    assert_eq!(layout.local_bytes(mesh).0 * mesh.device_count() as u64 / layout.global_bytes().0, 16);
}

#[test]
fn g4_local_shapes_of_the_book_s_code() {
    let shapes = |x: u64| {
        let source = format!(
            "mesh {{X: {x}, Y: 2}}\ndims {{B: 8, D: 2048, F: 8192}}\n\
             P: bf16[B_X, D_Y]\nQ: bf16[D, F_Y]\noutput P, Q"
        );
        let compiled = compile(&source);
        let plan = &compiled.plan;
        let local = |id| plan.step(id).layout.local_extents(&compiled.topology.mesh);
        plan.ids().map(local).collect::<Vec<_>>()
    };
    assert_eq!(shapes(4), [[2, 1024], [2048, 4096]]);
    assert_eq!(shapes(2)[0], [4, 1024]);
}

#[test]
fn g5_an_axis_is_spent_once() {
    assert_eq!(errors("mesh {X: 2}\ndims {I: 4, J: 4}\nA: bf16[I_X, J_X]\noutput A"), ["axis-reused"]);
}

/// The elements of the first output on each device, if the input holds 0, 1, 2, ..
fn held(source: &str) -> Vec<Vec<i64>> {
    let compiled = compile(source);
    let schedule = &compiled.schedule;
    let mut inputs = values::inputs(schedule, 0).expect("small");
    for (array, tensor) in &mut inputs {
        let extents = schedule.array(*array).extents.clone();
        let count = i64::try_from(extents.iter().product::<u64>()).expect("small");
        let elements: Vec<i64> = (0..count).collect();
        *tensor = values::Tensor::from_integers(DType::I32, &extents, &elements).expect("as many as there are");
    }
    let run = values::run(schedule, &inputs).expect("small");
    run.blocks(0).iter().map(|block| block.as_ref().expect("a shard").to_i64s()).collect()
}

const TWO_BY_THREE: &str = "mesh {X: 2, Y: 3}\ndims {I: 12}\n";

#[test]
fn g6_g7_the_first_axis_is_major() {
    let xy = held(&format!("{TWO_BY_THREE}A: i32[I_XY]\noutput A"));
    assert_eq!(xy, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]);
    let yx = held(&format!("{TWO_BY_THREE}A: i32[I_YX]\noutput A"));
    assert_eq!(yx, [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7], [10, 11]]);
}

#[test]
fn g8_gathering_the_minor_axis() {
    let x = held(&format!("{TWO_BY_THREE}A: i32[I_XY]\nAllGather_Y(A[I_XY]) -> A[I_X]"));
    let (low, high): (Vec<i64>, Vec<i64>) = ((0..6).collect(), (6..12).collect());
    assert_eq!(x, [low.clone(), low.clone(), low, high.clone(), high.clone(), high]);
}

#[test]
fn g9_gathering_the_major_axis_needs_a_permute() {
    let source = format!("{TWO_BY_THREE}A: i32[I_XY]\nA[I_XY] -> A[I_Y]");
    let thirds: Vec<Vec<i64>> = vec![(0..4).collect(), (4..8).collect(), (8..12).collect()];
    assert_eq!(held(&source), [thirds.clone(), thirds].concat());
    let by_hand = format!("{TWO_BY_THREE}A: i32[I_XY]\nAllGather_X(A[I_XY]) -> A[I_Y]");
    assert_eq!(errors(&by_hand), ["gather-major"]);
}

/// The maximum number of blocks over a link up, and over a link down.
fn over_links(schedule: &Schedule, block: u64) -> [u64; 2] {
    proof::prove(schedule).expect("right");
    let topology =
        Topology::new(schedule.mesh.clone(), Hardware::named("tpu_v5e").expect("a profile")).expect("a machine");
    let timing = clock::run(schedule, &topology).expect("a time");
    [LinkSide::Up, LinkSide::Down].map(|side| {
        let on_side = topology.all_links().filter(|id| topology.link(*id).side == side);
        on_side.map(|id| timing.links[id.index()].bytes.0).max().unwrap_or_default() / block
    })
}

/// An exchange in which every message goes up, even if down is shorter.
fn one_way_exchange(n: u32, extents: [u64; 2]) -> Schedule {
    let x = AxisId::new(0);
    single::schedule(single::axis(Wiring::Ring, n), CollectiveKind::AllToAll, extents, DType::I8, |builder, given| {
        let devices = u64::from(n);
        let whole = vec![extents[0], extents[1] / devices];
        let view = vec![devices, extents[0] / devices, extents[1] / devices];
        let at = |shift| vec![Cut::At(CoordMap::rotated(x, shift, devices)), Cut::Whole, Cut::Whole];
        let mut pieces = vec![(builder.slice_block(given, 1, devices, CoordMap::rotated(x, 0, devices)), at(0))];
        for distance in 1..i64::from(n) {
            let block = builder.slice_block(given, 1, devices, CoordMap::rotated(x, distance, devices));
            let sources = Sources::Shift { axes: x.into(), by: -distance, wrap: true };
            pieces.push((builder.shuffle(block, sources, Route::Hops(distance)), at(-distance)));
        }
        builder.assemble(whole, view, pieces)
    })
}

#[test]
fn g14_an_exchange_on_four_devices() {
    let by = |method| {
        let mesh = single::axis(Wiring::Ring, 4);
        single::one_axis(CollectiveKind::AllToAll, method, mesh, [8, 8], DType::I8, 1)
    };
    assert_eq!(over_links(&by(Method::Direct), 4), [3, 1]);
    assert_eq!(over_links(&by(Method::DirectHalves), 4), [2, 2]);
    assert_eq!(over_links(&by(Method::DirectParity), 4), [2, 2]);
    assert_eq!(over_links(&one_way_exchange(4, [8, 8]), 4), [6, 0]);
}

#[test]
fn g15_one_way_an_exchange_is_half_of_a_gather() {
    for devices in 3..=9u32 {
        let n = 2 * u64::from(devices);
        let exchange = over_links(&one_way_exchange(devices, [n, n]), 1);
        // N²/2 (1 - 1/D) and N² (1 - 1/D).
        assert_eq!(exchange, [n * n / 2 - n * n / 2 / u64::from(devices), 0]);
        let mesh = single::axis(Wiring::Ring, devices);
        let gather = single::one_axis(CollectiveKind::AllGather, Method::ClockwiseRing, mesh, [n, n], DType::I8, 1);
        assert_eq!(over_links(&gather, 1), [2 * exchange[0], 0]);
    }
}

#[test]
fn g23_the_largest_shard_whose_hop_takes_a_microsecond() {
    for (profile, bytes) in [("tpu_v4p", 45_000), ("tpu_v5e", 45_000), ("tpu_v5p", 90_000), ("tpu_v6e", 90_000)] {
        let time = |bytes: u64| {
            let compiled = compile(&format!(
                "mesh {{X: 2}} on {profile}\ndims {{I: {}}}\nA: i8[I_X]\nAllGather_X(A[I_X]) -> A[I]",
                2 * bytes
            ));
            let latency = compiled.topology.axes[0].hop_latency;
            assert_eq!(compiled.topology.scale.show(latency), "1.00 us", "{profile}");
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            (timing.makespan, latency)
        };
        let (largest, microsecond) = time(bytes);
        assert_eq!(largest, microsecond, "{profile}");
        assert!(time(bytes + 1).0 > microsecond, "{profile}");
    }
}

#[test]
fn g17_a_gather_on_a_ring_and_on_the_line_it_really_is() {
    let program = |y: &str| {
        format!(
            "mesh {{X: 8, Y: 4{y}}} on tpu_v5e\ndims {{E: 2048, F: 8192}}\nA: bf16[E_Y, F]\nAllGather_Y(A[E_Y, F]) -> A[E, F]"
        )
    };
    close(book_us(&compile(&program(" ring"))), 372.8);
    let line = compile(&program(""));
    close(book_us(&line), 559.2);
    close(simulated_us(&line), 559.2);
}

#[test]
fn g18_hops_take_the_time_of_a_small_gather() {
    let source =
        "mesh {X: 8, Y: 4} on tpu_v5e\ndims {E: 256, F: 256}\nA: bf16[E_Y, F]\nAllGather_Y(A[E_Y, F]) -> A[E, F]";
    let compiled = compile(source);
    close(book_us(&compiled), 3.0);
    close(simulated_us(&compiled), 3.0);
}

const CUBE: &str = "mesh {X: 4, Y: 4, Z: 4} on tpu_v4p\ndims {B: 1024, D: 4096}\n";

#[test]
fn g19_a_gather_over_one_axis_of_a_cube() {
    let compiled = compile(&format!("{CUBE}A: bf16[B_X, D_Y]\nAllGather_X(A[B_X, D_Y]) -> A[B, D_Y]"));
    close(book_us(&compiled), 23.3);
    // Half shards, or the antipode's shard in halves, are faster than the book's whole shards.
    close(simulated_us(&compiled), 17.5);
}

#[test]
fn g20_a_gather_over_two_axes() {
    let compiled = compile(&format!("{CUBE}A: bf16[B_X, D_Y]\nAllGather_{{XY}}(A[B_X, D_Y]) -> A[B, D]"));
    close(book_us(&compiled), 46.6);
}

#[test]
fn g21_reductions_over_an_idle_axis() {
    let open = format!("{CUBE}A: bf16[B_X, D_Y]{{U_Z}}\n");
    close(book_us(&compile(&format!("{open}AllReduce_Z(A[B_X, D_Y]{{U_Z}}) -> A[B_X, D_Y]"))), 11.65);
    close(book_us(&compile(&format!("{open}ReduceScatter_{{Z,B}}(A[B_X, D_Y]{{U_Z}}) -> A[B_XZ, D_Y]"))), 5.83);
}

#[test]
fn g22_a_gather_of_a_few_bytes() {
    let source = "mesh {X: 4, Y: 4, Z: 4} on tpu_v4p\ndims {B: 128}\nA: bf16[B_X]\nAllGather_X(A[B_X]) -> A[B]";
    let compiled = compile(source);
    assert_eq!(input(&compiled).local_bytes(&compiled.topology.mesh), Bytes(64));
    close(book_us(&compiled), 2.0);
    close(simulated_us(&compiled), 2.0);
}

#[test]
fn g27_the_four_cases() {
    let plan = |mesh: &str, line: &str| {
        compile(&format!("mesh {{{mesh}}} on tpu_v5e\ndims {{I: 4096, J: 4096, K: 4096}}\n{line}"))
    };
    let of = |mesh: &str, line: &str| {
        let compiled = plan(mesh, line);
        (compiled.plan.choices[0].case, collectives(&compiled))
    };
    let (one, two) = ("X: 4 ring", "X: 4 ring, Y: 2");
    assert_eq!(of(two, "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]"), (1, vec![]));
    assert_eq!(of(one, "A[I, J_X] * B[J_X, K] -> C[I, K]"), (3, vec!["AllReduce_X -> C[I, K]".to_owned()]));
    assert_eq!(of(one, "A[I_X, J] * B[J, K_X] -> C[I_X, K]"), (4, vec!["AllGather_X -> B[J, K]".to_owned()]));
    assert_eq!(of(one, "A[I_X, J] * B[J, K_X] -> C[I, K_X]"), (4, vec!["AllGather_X -> A[I, J]".to_owned()]));
    // Case 2 has two alternatives: gather A, or slice B for free and reduce. Both are listed with their costs.
    let choice = &plan(one, "A[I, J_X] * B[J, K] -> C[I, K]").plan.choices[0];
    let offers = |moves: &[&str]| choice.alternatives.iter().any(|way| way.moves == moves);
    assert_eq!(choice.case, 2);
    assert!(offers(&["AllGather_X(A[I, J_X])"]), "{choice:?}");
    assert!(offers(&["Slice_X(B[J, K])", "AllReduce_X(C[I, K]{U_X})"]), "{choice:?}");
}

#[test]
fn g28_a_reduce_scatter_is_half_an_all_reduce() {
    let of = |result: &str| {
        compile(&format!(
            "mesh {{X: 4 ring}} on tpu_v5e\ndims {{I: 4096, J: 4096, K: 4096}}\nA[I, J_X] * B[J_X, K] -> C[{result}]"
        ))
    };
    let (scattered, whole) = (of("I, K_X"), of("I, K"));
    assert_eq!(collectives(&scattered), ["ReduceScatter_{X,K} -> C[I, K_X]"]);
    assert_eq!(scattered.plan.totals().communication * 2, whole.plan.totals().communication);
    let received = |compiled: &Compiled| compiled.plan.totals().received().0;
    assert_eq!(received(&scattered) * 2, received(&whole));
}

/// The result of one collective on given pieces, one per device, computed by its lowered operations.
fn reduced(pieces: &[&[i64]], operator: Operator, scatter: bool) -> Vec<Vec<f64>> {
    let (devices, n) = (pieces.len() as u64, pieces[0].len() as u64);
    let mesh = Mesh::of(&[("X", u32::try_from(devices).expect("small"))]);
    let topology = Topology::new(mesh.clone(), Hardware::named("tpu_v5e").expect("a profile")).expect("a machine");
    let axis = AxisId::new(0);
    let mut schedule = Schedule::new(mesh);
    let part = if scatter { n / devices } else { n };
    for (name, length) in [("P", n), ("Out", part)] {
        let (dims, extents) = (vec!["R".to_owned(), "I".to_owned()], vec![devices, length]);
        let (dtype, valid, definition) = (DType::F32, extents.clone(), Dense::INPUT);
        schedule.arrays.push(Array { name: name.into(), dtype, dims, extents, valid, definition });
    }
    let rows = Sharding { dims: vec![Axes::one(axis), Axes::NONE], ..Sharding::default() };
    let mut dims = Dims::default();
    let dims = vec![dims.add(None, 1), dims.add(Some("I".into()), n)];
    let open = Sharding { open: AxisSet::one(axis), operator, ..Sharding::replicated(2) };
    let from = Layout { dtype: DType::F32, dims, sharding: open, used: None };
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let value = builder.input(ArrayId(0), rows.clone());
    let collective = if scatter {
        Collective::reduce_scatter(Axes::one(axis), 1, 2)
    } else {
        Collective::AllReduce { axes: AxisSet::one(axis) }
    };
    let chosen = Tuner::new(Cow::Borrowed(&topology), Lowering::default()).choose(&collective, &from, None);
    let value = chosen.expect("a recipe").recipe.emit(&mut builder, value);
    schedule.outputs.push(Output { value, array: ArrayId(u32::from(scatter)), sharding: rows });
    let elements = pieces.concat();
    let inputs = [(ArrayId(0), Tensor::from_integers(DType::F32, &[devices, n], &elements).expect("small"))].into();
    let run = values::run(&schedule, &inputs).expect("small");
    run.blocks(0).iter().map(|block| block.as_ref().expect("on every device").to_f64s()).collect()
}

/// The tail of a dim that does not divide is padded with zeros.
#[test]
fn g31_a_reduce_scatter_with_a_tail() {
    let scattered = reduced(&[&[1, 2, 3, 0], &[10, 20, 30, 0]], Operator::Sum, true);
    assert_eq!(scattered, [[11.0, 22.0], [33.0, 0.0]]);
}

#[test]
fn g32_every_operator_on_two_replicas() {
    let of = |operator| {
        let replicas = reduced(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], operator, false);
        assert_eq!(replicas[0], replicas[1]);
        let scattered = reduced(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], operator, true);
        assert_eq!(scattered.concat(), replicas[0]);
        replicas[0].clone()
    };
    assert_eq!(of(Operator::Sum), [6.0, 8.0, 10.0, 12.0]);
    assert_eq!(of(Operator::Mean), [3.0, 4.0, 5.0, 6.0]);
    assert_eq!(of(Operator::Mul), [5.0, 12.0, 21.0, 32.0]);
    assert_eq!(of(Operator::Min), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(of(Operator::Max), [5.0, 6.0, 7.0, 8.0]);
    assert_eq!(of(Operator::SquareAdd), [26.0, 40.0, 58.0, 80.0]);
    // Each element is squared once, with any method: repeated squaring would give 34.
    assert_eq!(reduced(&[&[1], &[2], &[3]], Operator::SquareAdd, false)[0], [14.0]);
}

/// A plan of the search has no recipes for its collectives yet.
#[test]
fn a_plan_without_recipes_is_not_lowered() {
    let source = "mesh {X: 4 ring}\ndims {I: 8, J: 4}\nA: bf16[I_X, J]\nB[I, J] = A\n";
    let program = shardc::compiler::check(source).0.expect("a program");
    let topology = shardc::compiler::machine(&program, &shardc::compiler::Options::default()).expect("a machine");
    let lowering = shardc::recipe::Lowering::default();
    let costs = shardc::costs::CostModel::Book.on(&topology, lowering);
    let plan = shardc::plan::plan(&program, costs.as_ref()).expect("a plan");
    let error = shardc::lower::lower(&plan).expect_err("nothing is chosen");
    assert!(matches!(error, shardc::lower::LowerError::NoRecipe { kind: "AllGather", .. }), "{error}");
    let tuner = shardc::recipe::Tuner::new(std::borrow::Cow::Borrowed(&topology), lowering);
    assert!(shardc::lower::lower(&plan.with_recipes(&tuner, true)).is_ok());
}
