//! In-switch sums: proven, correct on numbers, read back, and with the time of the profile.

use crate::common::mutants;
use crate::common::numeric::Reference;
use itertools::iproduct;
use shardc::compiler::{self, Options};
use shardc::schedule::{OpKind, Schedule, from_json, from_text, to_json, verify};
use shardc::sim::clock::Order;
use shardc::sim::{clock, proof, values};
use shardc::topology::Hardware;

/// A machine whose switch reduces, according to its data sheet.
fn adding() -> Hardware {
    let text = Hardware::named("h100_book").expect("shipped").to_toml();
    let text = text.replace("# 8 GPUs on a switch", "\nadds = [\"bf16\", \"i32\"]");
    Hardware::from_toml(&text).expect("a profile")
}

fn compiled(source: &str, hardware: Hardware) -> compiler::Compiled {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let options = Options { hardware: Some(hardware), ..Options::default() };
    compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"))
}

fn sums(schedule: &Schedule) -> usize {
    schedule.ids().filter(|id| matches!(schedule.operation(*id).kind, OpKind::SwitchSum { .. })).count()
}

#[test]
fn sums_in_a_switch_are_sums() {
    let meshes = ["X: 2", "X: 3", "X: 8", "X: 2, Y: 4", "Y: 3, X: 2, Z: 2"];
    for (mesh, operator, dtype) in iproduct!(meshes, ["U", "MAX", "MIN"], ["bf16", "i32"]) {
        let axes = if mesh.starts_with("X: 2, Y") { "XY" } else { "X" };
        let source = format!(
            "mesh {{{mesh}}} on h100_book\ndims {{I: 5, J: 6}}\nA: {dtype}[I, J]{{{operator}_{axes}}}\n\
             AllReduce_{axes}(A[I, J]{{{operator}_{axes}}}) -> B[I, J] using switch_sum\noutput B\n"
        );
        let compiled = compiled(&source, adding());
        let schedule = &compiled.schedule;
        assert_eq!(sums(schedule), 1, "{source}");
        proof::prove(schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
        let inputs = values::inputs(schedule, 3).expect("small");
        let dense = values::dense(schedule, &inputs).expect("small");
        let run = values::run(schedule, &inputs).expect("small");
        assert!(values::compare(schedule, &inputs, &dense, &run).expect("comparable").equal, "{source}");
        let timing = clock::run(schedule, &compiled.topology).expect("a time");
        assert_eq!(clock::run_uncollapsed(schedule, &compiled.topology).as_ref(), Ok(&timing));
        let served = clock::run_in(schedule, &compiled.topology, Order::Arrival).expect("a time");
        assert_eq!((served.makespan, &served.links), (timing.makespan, &timing.links), "{source}");
        let text = from_text(&schedule.to_string()).expect("its text");
        assert_eq!(text.schedule.to_string(), schedule.to_string());
        assert_eq!(from_json(&to_json(schedule)).expect("its document").to_string(), schedule.to_string());
    }
}

/// A naive interpreter decides which mutants are wrong.
#[test]
fn no_broken_sum_is_proven() {
    for mesh in ["X: 4", "X: 2, Y: 2"] {
        let source = format!(
            "mesh {{{mesh}}} on h100_book\ndims {{I: 4}}\nA: i32[I]{{U_X}}\nB: i32[I]{{U_X}}\n\
             C[I] = A using switch_sum\nD[I] = B using switch_sum\nE = C + D\noutput E\n"
        );
        let schedule = compiled(&source, adding()).schedule;
        assert_eq!(sums(&schedule), 2, "{source}");
        let references: Vec<Reference> = (0..4).map(|seed| Reference::new(&schedule, seed)).collect();
        let (mut broken, mut refused) = (0, 0);
        for (name, mutant) in mutants::mutants(&schedule) {
            let is_proven = proof::prove(&mutant).is_ok();
            let is_right = verify(&mutant).is_ok() && references.iter().all(|reference| reference.is_met_by(&mutant));
            assert!(!is_proven || is_right, "{name}");
            broken += usize::from(!is_right);
            refused += usize::from(!is_proven);
        }
        assert!(broken > 10 && refused >= broken, "{broken} {refused}");
    }
}

/// Each device sends its block once and receives the sum once.
#[test]
fn a_sum_takes_the_time_of_a_block() {
    for elements in [16u64, 1 << 24] {
        let source = format!(
            "mesh {{X: 8}} on h100_book\ndims {{I: {elements}}}\nA: bf16[I]{{U_X}}\n\
             AllReduce_X(A[I]{{U_X}}) -> B[I] using switch_sum\noutput B\n"
        );
        let compiled = compiled(&source, adding());
        let topology = &compiled.topology;
        let timing = clock::run(&compiled.schedule, topology).expect("a time");
        let network = &topology.hardware.network;
        let bytes = topology.scale.at_rate(u128::from(elements) * 2, network.one_way);
        assert_eq!(timing.makespan, bytes.max(topology.scale.picoseconds(network.hop_latency)));
        assert_eq!(timing.makespan, compiled.plan.totals().time());
    }
}

/// NCCL reduces floats in the switch of eight H100s, and sends integers around a ring.
#[test]
fn sums_are_in_the_switch_where_that_is_faster() {
    let of = |machine: &str, devices: u32, dtype: &str, elements: u64| {
        let source = format!(
            "mesh {{X: {devices}}} on {machine}\ndims {{I: {elements}}}\nA: {dtype}[I]{{U_X}}\n\
             AllReduce_X(A[I]{{U_X}}) -> B[I]\noutput B\n"
        );
        let compiled = compiled(&source, Hardware::named(machine).expect("shipped"));
        (sums(&compiled.schedule), compiled.topology.scale.seconds(compiled.plan.totals().time()) * 1e6)
    };
    let (count, time) = of("h100", 8, "f16", 1 << 28);
    assert!(count == 1 && (time / 2111.1 - 1.0f64).abs() < 0.1, "{time}");
    let (count, time) = of("h100", 8, "i8", 1 << 29);
    assert!(count == 0 && (time / 2677.5 - 1.0f64).abs() < 0.1, "{time}");
    for (machine, devices, dtype) in [("h100", 4, "f16"), ("a100", 8, "f16"), ("h100_book", 8, "f16")] {
        assert_eq!(of(machine, devices, dtype, 1 << 28).0, 0, "{machine}");
    }
}

#[test]
fn what_no_switch_adds_is_refused() {
    let sum = |mesh: &str, dtype: &str| {
        format!(
            "mesh {{{mesh}}} on h100_book\ndims {{I: 8}}\nA: {dtype}[I]{{U_X}}\n\
             AllReduce_X(A[I]{{U_X}}) -> B[I] using switch_sum\noutput B\n"
        )
    };
    for (mesh, dtype) in [("X: 4", "f32"), ("X: 4 ring", "bf16"), ("X: 4 over ib", "bf16")] {
        let source = sum(mesh, dtype);
        let (program, _) = compiler::check(&source);
        let options = Options { hardware: Some(adding()), ..Options::default() };
        let found = compiler::compile(&program.expect("a program"), &options).map(|_| ()).expect_err("no such switch");
        assert!(found.iter().any(|found| found.code == "method-not-applicable"), "{source}: {found:?}");
    }
    // A schedule with an in-switch sum cannot be timed there.
    let schedule = compiled(&sum("X: 4", "bf16"), adding()).schedule;
    let plain =
        compiled(&sum("X: 4", "bf16").replace(" using switch_sum", ""), Hardware::named("h100_book").expect("shipped"));
    let error = clock::run(&schedule, &plain.topology).expect_err("no such switch");
    assert!(error.to_string().contains("the switches of `h100_book`"), "{error}");
}

/// A ring over a switch may use a part of an axis: its ends are not neighbours, which a switch does not require.
#[test]
fn rings_go_along_parts_of_a_switch() {
    for axes in ["Q", "P", "PQ"] {
        let source = format!(
            "mesh {{X: 8}} on h100\naxis X = {{Q: 2, P: 4}}\ndims {{I: 16}}\nA: f32[I_{axes}]\n\
             AllGather_{{{axes}}}(A[I_{axes}]) -> B[I]\noutput B\n"
        );
        let (program, found) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
        let compiled = compiler::compile(&program, &Options::default()).unwrap_or_else(|found| panic!("{found:?}"));
        proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
        clock::run_in(&compiled.schedule, &compiled.topology, Order::Arrival).expect("a time");
    }
}
