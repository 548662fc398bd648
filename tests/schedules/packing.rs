//! Packed trees on machines with degraded links: proven, correct on numbers, and as fast as the bound allows.
//!
//! A full run (`SHARDC_TESTS=full`) tries five times as many machines.
#![allow(missing_docs)]

use crate::common::{compile_with, first_collective, sets, step_methods};
use itertools::Itertools;
use shardc::bounds::Bound;
use shardc::compiler::{Compiled, Options};
use shardc::costs::CostModel;
use shardc::plan::StepOp;
use shardc::report::step_bound;
use shardc::sim::{clock, proof, values};
use shardc::units::Time;

/// A requested method is used even if an equal collective before it used another one, and vice versa.
#[test]
fn equal_collectives_by_different_methods() {
    let head = "mesh {X: 4 ring, Y: 4 ring} on tpu_v5p\ndims {I: 64, J: 4096}\nA: i8[I, J]{U_XY}\nB: i8[I, J]{U_XY}";
    let of = |array: &str, method: &str| format!("AllReduce_XY({array}[I, J]{{U_XY}}) -> {array}2[I, J]{method}");
    let methods = ["tree_packing", "multiport", ""];
    for pair in methods.into_iter().permutations(2) {
        let [first, second] = [pair[0], pair[1]].map(|method| match method {
            "" => String::new(),
            method => format!(" using {method}"),
        });
        let compiled = compile_with(&format!("{head}\n{}\n{}\n", of("A", &first), of("B", &second)), CostModel::Book);
        let plan = &compiled.plan;
        let steps = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
        for (step, asked) in steps.zip(&pair) {
            let method = step_methods(&compiled.schedule, step);
            assert!(if asked.is_empty() { method != "tree_packing" } else { method == *asked }, "{asked}: {method}");
        }
    }
}

/// A mesh with degraded links.
struct Machine {
    sizes: Vec<u64>,
    wirings: Vec<&'static str>,
    links: Vec<String>,
    /// Whether each cable is equal in both directions.
    both_ways: bool,
}

impl Machine {
    fn random(random: &mut fastrand::Rng) -> Machine {
        let shapes: [&[u64]; 10] =
            [&[4], &[5], &[8], &[3, 3], &[4, 2], &[2, 5], &[3, 4], &[4, 4], &[2, 2, 2], &[3, 2, 2]];
        let sizes = shapes[random.usize(..shapes.len())].to_vec();
        let wirings = sizes.iter().map(|_| ["ring", "line"][random.usize(..2)]).collect_vec();
        let both_ways = random.bool();
        let mut links = Vec::new();
        for _ in 0..1 + random.usize(..3) {
            let from = sizes.iter().map(|size| random.u64(..*size)).collect_vec();
            let axis = random.usize(..sizes.len());
            let mut to = from.clone();
            to[axis] = (to[axis] + 1) % sizes[axis];
            // A line has no link past its end.
            if (to[axis] != 0 || wirings[axis] == "ring" && sizes[axis] > 2) && from != to {
                let state = ["down", "at 50 %", "at 25 %"][random.usize(..3)];
                let arrow = if both_ways { "<->" } else { "->" };
                links.push(format!("link ({}){arrow}({}) {state}", from.iter().join(","), to.iter().join(",")));
            }
        }
        Machine { sizes, wirings, links, both_ways }
    }

    fn devices(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// A collective over all axes, along packed trees.
    fn program(&self, kind: &str, [rows, columns]: [u64; 2]) -> String {
        let axes = &"XYZ"[..self.sizes.len()];
        let declared = self.sizes.iter().zip(&self.wirings).zip(axes.chars());
        let declared = declared.map(|((size, wiring), name)| format!("{name}: {size} {wiring}")).join(", ");
        let (input, line) = match kind {
            "AllGather" => (format!("A: i32[I_{axes}, J]"), format!("AllGather_{axes}(A[I_{axes}, J]) -> B[I, J]")),
            "ReduceScatter" => (
                format!("A: i32[I, J]{{U_{axes}}}"),
                format!("ReduceScatter_{{{axes},I}}(A[I, J]{{U_{axes}}}) -> B[I_{axes}, J]"),
            ),
            _ => (format!("A: i32[I, J]{{U_{axes}}}"), format!("AllReduce_{axes}(A[I, J]{{U_{axes}}}) -> B[I, J]")),
        };
        let links = self.links.join("\n");
        let rows = rows * self.devices();
        format!(
            "mesh {{{declared}}} on tpu_v5p\n{links}\ndims {{I: {rows}, J: {columns}}}\n{input}\n{line} using tree_packing\n"
        )
    }
}

/// The time of a proven program, the busy time of its busiest link, and the bound.
fn timed(source: &str) -> (Time, Time, Bound) {
    // The plan of a single collective has no alternatives.
    let compiled = compile_with(source, CostModel::Book);
    proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound;
    assert!(timing.makespan >= bound.time(), "{source} beats its bound");
    (timing.makespan, timing.busiest_link_time(), bound)
}

fn equals_the_dense_result(source: &str, compiled: &Compiled) {
    let inputs = values::inputs(&compiled.schedule, 1).expect("small");
    let dense = values::dense(&compiled.schedule, &inputs).expect("small");
    let run = values::run(&compiled.schedule, &inputs).expect("small");
    let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
    assert!(numerics.equal && numerics.elements > 0, "{source}");
}

const KINDS: [&str; 3] = ["AllGather", "ReduceScatter", "AllReduce"];

/// If cables are equal in both directions, no link carries more than the bound; otherwise, only sums may exceed it.
#[test]
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn random_machines_with_degraded_links() {
    let mut random = fastrand::Rng::with_seed(7);
    // Some machines are not connected; the others are a few dozen.
    let count = if sets::are_full() { 400 } else { 75 };
    let machines = (0..count).map(|_| Machine::random(&mut random));
    let machines =
        machines.filter(|machine| shardc::compiler::check(&machine.program("AllGather", [1, 1])).0.is_some());
    let (mut loads, mut times) = (Vec::new(), Vec::new());
    for machine in machines {
        for kind in KINDS {
            let small = machine.program(kind, [2, 6]);
            let program = shardc::compiler::check(&small).0.expect("checked");
            let options = Options { costs: CostModel::Book, ..Options::default() };
            let Ok(compiled) = shardc::compiler::compile(&program, &options) else { continue };
            equals_the_dense_result(&small, &compiled);
            let source = machine.program(kind, [1, 16 * 1_000_003]);
            let (time, load, bound) = timed(&source);
            let (load, time) = (load.ratio(bound.bandwidth), time.ratio(bound.time()));
            assert!(load < 1.001 || kind == "AllReduce" && !machine.both_ways, "load {load}, time {time}\n{source}");
            loads.push(load);
            times.push(time);
        }
    }
    for (name, ratios) in [("load", &mut loads), ("time", &mut times)] {
        ratios.sort_by(f64::total_cmp);
        let at = |part: usize| ratios[(ratios.len() - 1) * part / 100];
        println!("{} collectives, {name} over bound:", ratios.len());
        println!("  {:.3} half, {:.3} nine tenths, {:.3} at most", at(50), at(90), at(100));
    }
    assert!(loads.len() > 100, "{}", loads.len());
}

/// Broadcasts on machines with degraded links: correct, and with one cable down as fast as the bound allows.
#[test]
fn broadcasts_on_degraded_machines() {
    let program = |machine: &Machine, [rows, columns]: [u64; 2]| {
        let axes = &"XYZ"[..machine.sizes.len()];
        let declared = machine.sizes.iter().zip(&machine.wirings).zip(axes.chars());
        let declared = declared.map(|((size, wiring), name)| format!("{name}: {size} {wiring}")).join(", ");
        let (input, line) =
            (format!("A: i32[I, J]{{ROOT_{axes}}}"), format!("Broadcast_{axes}(A[I, J]{{ROOT_{axes}}}) -> B[I, J]"));
        let links = machine.links.join("\n");
        format!("mesh {{{declared}}} on tpu_v5p\n{links}\ndims {{I: {rows}, J: {columns}}}\n{input}\n{line}\n")
    };
    let mut random = fastrand::Rng::with_seed(8);
    let mut tried = 0;
    for machine in (0..30).map(|_| Machine::random(&mut random)) {
        let small = program(&machine, [12, 6]);
        let Some(checked) = shardc::compiler::check(&small).0 else { continue };
        let options = Options { costs: CostModel::Book, ..Options::default() };
        let Ok(compiled) = shardc::compiler::compile(&checked, &options) else { continue };
        proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{small}"));
        equals_the_dense_result(&small, &compiled);
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
    let machine = Machine {
        sizes: vec![4, 4],
        wirings: vec!["ring", "ring"],
        links: vec!["link (0,0)<->(1,0) down".to_owned()],
        both_ways: true,
    };
    let (time, _, bound) = timed(&program(&machine, [48, 1 << 20]));
    assert!(time.ratio(bound.time()) < 1.05, "{}", time.ratio(bound.time()));
}
