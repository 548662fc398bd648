//! Split axes, `axis R = {Q: 4, P: 4}`: every split of small axes and every collective, on numbers, on links and
//! under the book's formulas.
#![allow(missing_docs)]

use crate::common::{compile, compile_with, first_collective, programs, small_examples};
use itertools::{Itertools, iproduct};
use shardc::compiler::{self, Compiled, Options};
use shardc::costs::CostModel;
use shardc::dtype::DType;
use shardc::mesh::{AxisId, Wiring};
use shardc::report::step_bound;
use shardc::schedule::{from_json, from_text, to_json};
use shardc::sim::{clock, proof, values};
use shardc::topology::LinkSide;
use shardc::units::Time;
use std::collections::BTreeMap;

const KINDS: [&str; 4] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"];

/// A collective over some axes, of an array whose K is sharded or whole.
fn statement(kind: &str, axes: &str, k: &str) -> String {
    let (from, to) = match kind {
        "AllGather" => (format!("A[I_{axes}, J, K{k}]"), format!("B[I, J, K{k}]")),
        "ReduceScatter" => (format!("A[I, J, K{k}]{{U_{axes}}}"), format!("B[I_{axes}, J, K{k}]")),
        "AllReduce" => (format!("A[I, J, K{k}]{{U_{axes}}}"), format!("B[I, J, K{k}]")),
        _ => (format!("A[I_{axes}, J, K{k}]"), format!("B[I, J_{axes}, K{k}]")),
    };
    let subscript = match kind {
        "ReduceScatter" => format!("_{{{axes},I}}"),
        "AllToAll" => format!("_{{{axes},J}}"),
        _ => format!("_{axes}"),
    };
    let input = from.replace('A', "A: i32");
    format!("{input}\n{kind}{subscript}({from}) -> {to}")
}

/// A program in which R has q * p devices; without `view` it is whole.
fn program(wiring: &str, [q, p]: [u64; 2], view: bool, size: u64, statement: &str) -> String {
    let n = q * p;
    let view = if view { format!("axis R = {{Q: {q}, P: {p}}}\n") } else { String::new() };
    let dims = format!("dims {{I: {size}*{n}, J: {size}*{n}, K: {n}}}");
    format!("mesh {{R: {n} {wiring}}} on tpu_v5e\n{view}{dims}\n{statement}\n")
}

fn splits(most: u64) -> impl Iterator<Item = [u64; 2]> {
    (1..=most).flat_map(move |q| (1..=most).map(move |p| [q, p])).filter(|[q, p]| (2..=16).contains(&(q * p)))
}

fn equals_the_dense_result(source: &str, compiled: &Compiled) {
    let inputs = values::inputs(&compiled.schedule, 1).expect("small");
    let dense = values::dense(&compiled.schedule, &inputs).expect("small");
    let run = values::run(&compiled.schedule, &inputs).expect("small");
    let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
    assert!(numerics.equal && numerics.elements > 0, "{source}");
}

/// Results are correct and not faster than the bound, with the other part idle or sharding another dim.
#[test]
fn every_collective_over_a_part_is_right_and_does_not_beat_its_bound() {
    for wiring in ["ring", "line", "switch", "full"] {
        for split in splits(4) {
            for (axes, others) in [("Q", ["", "_P"]), ("P", ["", "_Q"]), ("R", ["", ""]), ("PQ", ["", ""])] {
                for (kind, k) in KINDS.into_iter().flat_map(|kind| others.map(|k| (kind, k))) {
                    let source = program(wiring, split, true, 1, &statement(kind, axes, k));
                    let compiled = compile(&source);
                    equals_the_dense_result(&source, &compiled);
                    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
                    // A part of size 1 has no peers to send to.
                    if (axes, split[0]) == ("Q", 1) || (axes, split[1]) == ("P", 1) {
                        assert_eq!(timing.makespan, Time::ZERO, "{source}");
                        continue;
                    }
                    let bound =
                        step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
                    assert!(timing.makespan >= bound, "beats its bound: {source}");
                }
            }
        }
    }
}

/// The same with arrays so large that latency is negligible.
#[test]
fn no_large_collective_over_a_part_beats_its_bound() {
    for wiring in ["ring", "line", "switch", "full"] {
        for split in [[2, 2], [3, 2], [2, 4]] {
            for (axes, others) in [("Q", ["", "_P"]), ("P", ["", "_Q"]), ("R", ["", ""]), ("PQ", ["", ""])] {
                for (kind, k) in KINDS.into_iter().flat_map(|kind| others.map(|k| (kind, k))) {
                    let source = program(wiring, split, true, 128, &statement(kind, axes, k));
                    let compiled = compile(&source);
                    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
                    let bound =
                        step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
                    assert!(timing.makespan >= bound, "beats its bound: {source}");
                }
            }
        }
    }
}

/// An exchange over parts and another axis may place them in any order, even if that splits a run.
#[test]
fn exchanges_put_parts_down_in_any_order() {
    let orders = || ["Q", "P", "X"].into_iter().permutations(3).map(|order| order.concat());
    for (wiring, [q, p]) in [("ring", [2, 3]), ("line", [4, 2]), ("switch", [2, 2]), ("full", [3, 2])] {
        for (before, after) in iproduct!(orders(), orders()) {
            let head = format!("mesh {{R: {} {wiring}, X: 3 {wiring}}} on tpu_v5e\naxis R = {{Q: {q}, P: {p}}}", q * p);
            let dims = format!("dims {{I: {0}, J: {0}}}", 3 * q * p);
            let statement = format!("AllToAll_{{{after},J}}(A[I_{before}, J]) -> B[I, J_{after}]");
            let source = format!("{head}\n{dims}\nA: i32[I_{before}, J]\n{statement}\n");
            let compiled = compile(&source);
            equals_the_dense_result(&source, &compiled);
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
            assert!(timing.makespan >= bound, "beats its bound: {source}");
            assert_eq!(crate::common::collectives(&compiled).len(), 1, "{source}");
        }
    }
}

/// `R` equals `QP`: operations over the whole axis take the same time as without parts.
#[test]
fn parts_that_are_not_used_cost_nothing() {
    for wiring in ["ring", "line", "switch", "full"] {
        for split in [[1, 4], [2, 2], [3, 2]] {
            for kind in KINDS {
                for size in [1, 64] {
                    let [with, without] = [true, false].map(|view| {
                        let source = program(wiring, split, view, size, &statement(kind, "R", ""));
                        let compiled = compile_with(&source, CostModel::Exact);
                        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
                        let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound;
                        let seconds = |time| compiled.topology.scale.seconds(time);
                        let cost = compiled.plan.step(first_collective(&compiled)).cost.time;
                        ([timing.makespan, cost].map(seconds), seconds(bound.time()))
                    });
                    assert_eq!(with.0, without.0, "{kind} on a {wiring}, {split:?}, {size}");
                    // With parts, the bound may be lower than possible.
                    assert!(with.1 <= without.1, "{kind} on a {wiring}, {split:?}, {size}");
                }
            }
        }
    }
}

/// Bytes over each link, counted independently. Keys are the position on the line or ring of R, and whether the link
/// leads upwards.
type Loads = BTreeMap<(u64, bool), u64>;

/// Adds a message that travels this number of links along the ring.
fn walk(loads: &mut Loads, n: u64, from: u64, links: u64, up: bool, bytes: u64) {
    for step in 0..links {
        let place = if up { (from + step) % n } else { (from + n - step % n) % n };
        *loads.entry((place, up)).or_default() += bytes;
    }
}

/// The groups of a part: the positions of their members on R.
fn groups([q, p]: [u64; 2], axes: &str) -> Vec<Vec<u64>> {
    match axes {
        "Q" => (0..p).map(|b| (0..q).map(|a| a * p + b).collect()).collect(),
        _ => (0..q).map(|a| (0..p).map(|b| a * p + b).collect()).collect(),
    }
}

/// The loads counted by the simulator.
fn clocked(compiled: &Compiled) -> Loads {
    let (topology, timing) = (&compiled.topology, clock::run(&compiled.schedule, &compiled.topology).expect("a time"));
    let mut loads = Loads::new();
    for id in topology.all_links() {
        let (link, bytes) = (topology.link(id), timing.link(id).bytes.0);
        if bytes > 0 {
            *loads.entry((u64::from(link.device.0), link.side == LinkSide::Up)).or_default() += bytes;
        }
    }
    loads
}

/// All groups at once on the real links: the busiest link determines the time, and messages of a major part cross
/// many links. A reduction is the reverse.
#[test]
fn gathers_along_a_part_take_the_time_of_their_fullest_link() {
    for (wiring, split) in [Wiring::Ring, Wiring::Line].into_iter().flat_map(|w| splits(6).map(move |s| (w, s))) {
        let ([q, p], n) = (split, split[0] * split[1]);
        for (axes, size, apart, goes_round) in [("Q", q, p, true), ("P", p, 1, q == 1)] {
            let ring = wiring == Wiring::Ring && goes_round && size > 2;
            let method = if ring { "clockwise_ring" } else { "line" };
            for kind in ["AllGather", "ReduceScatter"].into_iter().filter(|_| size > 1) {
                let line = format!("{} using {method}", statement(kind, axes, if axes == "Q" { "_P" } else { "_Q" }));
                let source = program(&wiring.to_string(), split, true, 64, &line);
                let compiled = compile(&source);
                let shard = (64 * n / size) * (64 * n) * (n / (n / size)) * 4;
                let mut loads = Loads::new();
                for group in groups(split, axes) {
                    for (rank, place) in (0..).zip(&group) {
                        let up = if ring { size - 1 } else { size - 1 - rank };
                        let down = if ring { 0 } else { rank };
                        walk(&mut loads, n, *place, up * apart, true, shard);
                        walk(&mut loads, n, *place, down * apart, false, shard);
                    }
                }
                let fullest = loads.values().copied().max().expect("something moves");
                let topology = &compiled.topology;
                let time = topology.scale.at_rate(u128::from(fullest), topology.hardware.network.one_way);
                let timing = clock::run(&compiled.schedule, topology).expect("a time");
                assert_eq!(timing.makespan, time, "{source}");
                assert_eq!(timing.busiest_link_time(), time, "{source}");
                if kind == "AllGather" {
                    assert_eq!(clocked(&compiled), loads, "{source}");
                }
            }
        }
    }
}

/// Direct messages along the shorter direction load the links in between.
#[test]
fn exchanges_along_a_part_load_the_links_between() {
    for (wiring, split) in [Wiring::Ring, Wiring::Line].into_iter().flat_map(|w| splits(6).map(move |s| (w, s))) {
        let n = split[0] * split[1];
        for (axes, size) in [("Q", split[0]), ("P", split[1])].into_iter().filter(|(_, size)| *size > 1) {
            let line = format!("{} using direct", statement("AllToAll", axes, ""));
            let source = program(&wiring.to_string(), split, true, 8, &line);
            let compiled = compile(&source);
            let block = (8 * n / size) * (8 * n / size) * n * 4;
            let mut loads = Loads::new();
            for group in groups(split, axes) {
                for (from, to) in group.iter().flat_map(|from| group.iter().map(move |to| (*from, *to))) {
                    let up = (to + n - from) % n;
                    let round = wiring == Wiring::Ring && n > 2;
                    let goes_up = if round { up <= n - up } else { to > from };
                    let links = if goes_up { up } else { n - up };
                    walk(&mut loads, n, from, if from == to { 0 } else { links }, goes_up, block);
                }
            }
            assert_eq!(clocked(&compiled), loads, "{source}");
        }
    }
}

/// The book's formulas treat a part as a ring of its size, independent of the rest of the axis.
#[test]
fn the_book_takes_a_part_for_a_ring_of_its_size() {
    let time = |source: &str| {
        let compiled = compile_with(source, CostModel::Book);
        let cost = compiled.plan.step(first_collective(&compiled)).cost.time;
        compiled.topology.scale.seconds(cost)
    };
    for [q, p] in splits(4) {
        let n = q * p;
        for kind in KINDS {
            let dims = format!("dims {{I: 64*{n}, J: 64*{n}, K: {n}}}");
            for (axes, size) in [("Q", q), ("P", p)].into_iter().filter(|(_, size)| *size > 1) {
                let part = time(&program("ring", [q, p], true, 64, &statement(kind, axes, "")));
                let own = format!("mesh {{{axes}: {size} ring}} on tpu_v5e\n{dims}\n{}\n", statement(kind, axes, ""));
                assert_eq!(part, time(&own), "{kind} over {axes} of {q}, {p}");
            }
        }
    }
}

/// If the compiler splits axes itself, the text of the schedule declares the parts.
#[test]
fn schedules_with_axes_that_the_compiler_cut_read_back() {
    let mut cut = 0;
    let source = "mesh {Z: 8, W: 2 ring} on b200\ndims {K: 8, I: 8}\nW1: i8[K_Z]\nT2 = rename_{K->I}(W1)\n\
                  x3: i8[K_W, I_Z]\nx4[I_Z] = W1 * x3\n";
    let files = programs("tests/corpus/small").into_iter().chain(small_examples());
    let texts = files.map(|file| std::fs::read_to_string(file).expect("a program"));
    for source in texts.chain([source.to_owned()]) {
        // Expectations apply to plans by time.
        let source = source.lines().filter(|line| !line.starts_with("expect ")).join("\n");
        let schedule = compile_with(&(source.clone() + "\n"), CostModel::Bytes).schedule;
        cut += usize::from(schedule.mesh.views().next().is_some() && !source.contains("\naxis "));
        let text = from_text(&schedule.to_string()).unwrap_or_else(|unread| panic!("{unread:?}\n{schedule}"));
        let json = from_json(&to_json(&schedule)).unwrap_or_else(|error| panic!("{error}\n{schedule}"));
        for again in [text.schedule, json] {
            assert_eq!(again.to_string(), schedule.to_string());
            proof::prove(&again).unwrap_or_else(|flaw| panic!("{flaw}\n{schedule}"));
        }
    }
    assert!(cut > 5, "{cut} of them");
}

/// An axis in parts leaves the networks of the axes after it as they are.
#[test]
fn parts_of_an_axis_leave_the_networks_of_others() {
    let machine = |parts: &str| {
        let source = format!("mesh {{X: 4 over ib, Y: 8}} on h100\n{parts}A: f32[]\noutput A\n");
        let program = compiler::check(&source).0.expect("a legal program");
        compiler::machine(&program, &Options::default()).expect("a machine")
    };
    for (parts, inner) in [("", 1), ("axis X = {P: 2, Q: 2}\n", 2)] {
        let (topology, inner) = (machine(parts), AxisId::new(inner));
        assert_eq!(topology.network(inner).name, "nvlink");
        assert!(topology.switch_sum([inner], DType::Bf16).is_some(), "{parts}");
    }
}
