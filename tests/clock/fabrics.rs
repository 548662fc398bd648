//! Fabrics by name: rails, fat trees and a dragonfly. Schedules of large arrays are proven, none beats its bound, and how close
//! each comes is a limit that may only get lower.

#[path = "../common/fabrics.rs"]
mod built;

use crate::common::{compile_by, first_collective};
use crate::laws::collective_over;
use built::{Machine, device, fat_tree, hardware, rails, switch, twisted};
use itertools::Itertools;
use shardc::compiler::{self, Options};
use shardc::costs::floor;
use shardc::report::step_bound;
use shardc::sim::{clock, proof};
use shardc::topology::listed::End;
use std::collections::BTreeSet;

/// 5 groups of 4 routers with 2 devices each; routers of a group are linked pairwise, and each has a link to one other group:
/// router r to the group r + 1 after its own, or before it.
fn dragonfly(after: bool) -> Machine {
    let router = |group: usize, router: usize| format!("g{group}r{router}");
    let names = (0..5).cartesian_product(0..4).map(|(group, number)| router(group, number));
    let devices = (0..40).map(|at| [device(at), switch(router(at / 8, at / 2 % 4))]);
    let pairs = (0..4).array_combinations();
    let local = (0..5).cartesian_product(pairs.collect_vec());
    let local = local.map(|(group, [one, two])| [switch(router(group, one)), switch(router(group, two))]);
    let global = (0..5).array_combinations().map(|[one, two]: [usize; 2]| {
        let (near, far) = (two - one - 1, 4 - (two - one));
        let (of_one, of_two) = if after { (near, far) } else { (far, near) };
        [switch(router(one, of_one)), switch(router(two, of_two))]
    });
    (names.collect(), vec![(devices.chain(local).collect(), 50, 500), (global.collect(), 50, 1000)])
}

/// A collective over all axes, 240 MiB in full form.
fn program(kind: &str, mesh: &str) -> String {
    format!("mesh {{{mesh}}}\ndims {{I: 3840, J: 65280}}\n{}", collective_over(kind, mesh))
}

/// Each collective takes at least its bound, and at most these multiples of it.
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn at_most(machine: Machine, mesh: &str, limits: &[(&str, f64)]) {
    let options = Options { hardware: Some(hardware(machine)), ..Options::default() };
    for (kind, most) in limits.iter().copied() {
        let start = std::time::Instant::now();
        let compiled = compile_by(&program(kind, mesh), &options);
        proof::prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{kind}: {flaw}"));
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
        let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
        assert!(timing.makespan >= bound, "{kind} on {mesh} beats its bound");
        let ratio = timing.makespan.ratio(bound);
        let floor = floor(&compiled.plan, &compiled.topology).expect("a load");
        assert!(timing.makespan >= floor.time, "{kind} on {mesh} beats the bound of all plans");
        println!("{mesh:<12} {kind:<14} {ratio:.3} of the bound, {:?}", start.elapsed());
        assert!(ratio < most, "{kind} on {mesh}: {ratio}");
    }
}

#[test]
fn rails_of_eight_nodes() {
    at_most(
        rails(8, 8),
        "D: 8, X: 8",
        &[("AllGather", 1.03), ("ReduceScatter", 1.03), ("AllReduce", 1.03), ("AllToAll", 1.08)],
    );
}

/// An exchange has 8 kB for each pair of devices, of which two latencies are a quarter.
#[test]
fn rails_of_32_nodes() {
    at_most(
        rails(32, 8),
        "D: 32, X: 8",
        &[("AllGather", 1.03), ("ReduceScatter", 1.03), ("AllReduce", 1.03), ("AllToAll", 1.28)],
    );
}

/// A tree and its translations load all links alike, along three axes or one. An exchange has 15 kB for each pair of devices.
#[test]
fn twisted_torus_of_128() {
    let limits = [("AllGather", 1.01), ("ReduceScatter", 1.01), ("AllReduce", 1.01), ("AllToAll", 1.11)];
    at_most(twisted([4, 4, 8]), "X: 4, Y: 4, Z: 8", &limits);
    at_most(twisted([4, 4, 8]), "X: 128", &limits);
}

/// Where devices forward, an exchange loads the links by the hops between its devices: at all links at once, the bound of
/// all plans is near.
#[test]
fn an_exchange_takes_all_hops_between_devices() {
    for (shape, most) in [([2, 2, 4], 1.24), ([3, 3, 4], 1.2), ([4, 4, 8], 1.11)] {
        let (_, groups) = twisted(shape);
        let count: usize = shape.iter().product();
        let ends = groups.iter().flat_map(|(pairs, ..)| pairs).map(|pair| {
            pair.clone().map(|end| match end {
                End::Device(number) => number as usize,
                End::Switch(_) => unreachable!("it has no switches"),
            })
        });
        // All distances, by one more link at a time.
        let mut hops = vec![vec![usize::MAX / 2; count]; count];
        (0..count).for_each(|at| hops[at][at] = 0);
        ends.for_each(|[one, two]| (hops[one][two], hops[two][one]) = (1, 1));
        for (by, from, to) in itertools::iproduct!(0..count, 0..count, 0..count) {
            hops[from][to] = hops[from][to].min(hops[from][by] + hops[by][to]);
        }
        let all: usize = hops.iter().flatten().sum();
        let options = Options { hardware: Some(hardware(twisted(shape))), ..Options::default() };
        let (rows, columns) = (8 * count * count, 1024 * count);
        let source = format!(
            "mesh {{X: {count}}}\ndims {{I: {rows}, J: {columns}}}\nA: i8[I_X, J]\n\
             AllToAll_{{X,J}}(A) -> B[I, J_X]\noutput B\n"
        );
        let compiled = compile_by(&source, &options);
        let found = floor(&compiled.plan, &compiled.topology).expect("a load").time;
        let each = (rows / count * columns / count) as f64;
        let links = compiled.topology.fabric().expect("a fabric").cables().len() as f64;
        let expected = each * all as f64 / (links * 45e9);
        let seconds = compiled.topology.scale.seconds(found);
        assert!((seconds / expected - 1.0).abs() < 1e-6, "{shape:?}: {seconds} s, {expected} s by hops");
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
        assert!(timing.makespan.ratio(found) < most, "{shape:?}: {}", timing.makespan.ratio(found));
    }
}

/// The devices of a leaf have twice the capacity of its links to the spines. A gather goes around all devices; an exchange
/// sends as many messages from each leaf at once as it has links.
#[test]
fn fat_tree_two_to_one() {
    at_most(
        fat_tree(8, 4),
        "L: 8, X: 8",
        &[("AllGather", 1.03), ("ReduceScatter", 1.03), ("AllReduce", 1.03), ("AllToAll", 1.03)],
    );
}

/// One axis over all leaves.
#[test]
fn fat_tree_four_to_one() {
    at_most(
        fat_tree(8, 2),
        "X: 64",
        &[("AllGather", 1.03), ("ReduceScatter", 1.03), ("AllReduce", 1.03), ("AllToAll", 1.02)],
    );
}

/// Messages in rounds may be requested where no device forwards, as between nodes of rails.
#[test]
fn rounds_on_request() {
    let text = |kind: &str, mesh: &str| format!("{} using routed\n", program(kind, mesh).trim_end());
    let options = |machine| Options { hardware: Some(hardware(machine)), ..Options::default() };
    for kind in ["AllGather", "AllToAll"] {
        let schedule = compile_by(&text(kind, "L: 2, X: 8"), &options(fat_tree(2, 4))).schedule;
        proof::prove(&schedule).expect("a correct schedule");
        let methods = schedule.ids().filter_map(|id| schedule.operation(id).method).unique().collect_vec();
        assert_eq!(methods, ["routed"], "{kind}");
    }
    let program = compiler::check(&text("AllToAll", "D: 2, X: 4")).0.expect("a program");
    let found = compiler::compile(&program, &options(rails(2, 4))).expect_err("no direct routes");
    assert!(found.iter().any(|found| found.code == "method-not-applicable"), "{found:?}");
}

/// What is printed as the method may be requested.
#[test]
fn translations_on_request() {
    for shape in [[2, 2, 4], [4, 2, 2]] {
        let options = Options { hardware: Some(hardware(twisted(shape))), ..Options::default() };
        let mesh = format!("X: {}, Y: {}, Z: {}", shape[0], shape[1], shape[2]);
        for (kind, method) in [
            ("AllGather", "tree_packing"),
            ("ReduceScatter", "tree_packing"),
            ("AllReduce", "tree_packing"),
            ("AllToAll", "routed"),
        ] {
            let text = format!("{} using {method}\n", program(kind, &mesh).trim_end());
            let schedule = compile_by(&text, &options).schedule;
            proof::prove(&schedule).unwrap_or_else(|flaw| panic!("{kind} on {mesh}: {flaw}"));
            let methods = schedule.ids().filter_map(|id| schedule.operation(id).method).unique().collect_vec();
            assert_eq!(methods, [method], "{kind} on {mesh}");
        }
    }
}

/// Latencies are a tenth of an exchange, and one in twenty parts of a gather around all devices.
#[test]
fn fat_trees_of_128_hosts() {
    let limits = [("AllGather", 1.06), ("ReduceScatter", 1.06), ("AllReduce", 1.06), ("AllToAll", 1.12)];
    at_most(fat_tree(16, 8), "X: 128", &limits);
    at_most(fat_tree(16, 4), "L: 16, X: 8", &limits);
}

/// With links to the groups after its own, two messages around the ring in the order of the mesh share a link in each group:
/// another order is found.
#[test]
fn dragonfly_of_five_groups() {
    at_most(
        dragonfly(true),
        "X: 40",
        &[("AllGather", 1.02), ("ReduceScatter", 1.02), ("AllReduce", 1.02), ("AllToAll", 1.15)],
    );
    at_most(dragonfly(false), "X: 40", &[("AllGather", 1.02), ("ReduceScatter", 1.02)]);
}

/// A method that does not apply is refused with those that do, also those over all axes at once.
#[test]
fn methods_of_a_fabric_are_listed() {
    for (machine, mesh) in [(twisted([2, 2, 4]), "X: 2, Y: 2, Z: 4"), (fat_tree(2, 4), "L: 2, X: 8")] {
        let options = Options { hardware: Some(hardware(machine)), ..Options::default() };
        let with = |kind: &str, method: &str| {
            let source = format!("{} using {method}\n", program(kind, mesh).trim_end());
            let program = compiler::check(&source).0.expect("a program");
            compiler::compile(&program, &options)
        };
        for kind in ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"] {
            let found = with(kind, "quad_directional_ring").expect_err("no torus of two axes");
            let help = found.iter().find_map(|found| found.help.clone()).expect("a way out");
            let listed =
                help.split('`').skip(3).step_by(2).filter(|method| ["tree_packing", "routed"].contains(method));
            let applies = |method: &&str| with(kind, method).is_ok();
            assert_eq!(listed.collect_vec(), ["tree_packing", "routed"].into_iter().filter(applies).collect_vec());
        }
    }
}

/// Along some axes all groups are ordered together, as they share links.
#[test]
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn groups_share_the_links_of_a_fabric() {
    for (machine, mesh, axes, [gather, exchange]) in [
        (fat_tree(8, 4), "L: 8, X: 8", "L", [1.01, 1.01]),
        (fat_tree(8, 4), "L: 8, X: 8", "X", [1.01, 1.01]),
        (fat_tree(8, 4), "L: 8, X: 4, Y: 2", "LX", [1.01, 1.01]),
        // Two devices of a leaf are one group: its halves send over the spines.
        (fat_tree(8, 4), "L: 8, X: 4, Y: 2", "LY", [1.47, 1.01]),
        (fat_tree(8, 4), "L: 4, M: 2, X: 8", "LX", [1.01, 1.01]),
        (rails(8, 8), "D: 8, X: 8", "D", [1.01, 1.01]),
        (rails(8, 8), "D: 8, X: 8", "X", [1.01, 1.01]),
        // A group of the dragonfly has one link to each other one, for 16 pairs of devices.
        (dragonfly(true), "G: 5, R: 4, D: 2", "G", [1.13, 1.13]),
        (dragonfly(true), "G: 5, R: 4, D: 2", "GR", [1.95, 1.16]),
    ] {
        let names = mesh.split(", ").map(|axis| &axis[..1]);
        let others: String = names.filter(|name| !axes.contains(name)).collect();
        let options = Options { hardware: Some(hardware(machine)), ..Options::default() };
        for (line, most) in [
            (format!("A: i8[I_{axes}, J, K_{others}]\nAllGather_{axes}(A) -> B[I, J, K_{others}]"), gather),
            (
                format!("A: i8[I_{axes}, J, K_{others}]\nAllToAll_{{{axes},J}}(A) -> B[I, J_{axes}, K_{others}]"),
                exchange,
            ),
        ] {
            let source = format!("mesh {{{mesh}}}\ndims {{I: 3840, J: 65280, K: 128}}\n{line}\noutput B\n");
            let compiled = compile_by(&source, &options);
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
            let ratio = timing.makespan.ratio(bound);
            let floor = floor(&compiled.plan, &compiled.topology).expect("a load").time;
            assert!(floor <= timing.makespan, "{source}: below the bound of all plans");
            println!("{mesh:<18} {axes:<3} {ratio:.3} of the bound, {:.3} of all plans", timing.makespan.ratio(floor));
            assert!((1.0..most).contains(&ratio), "{source}: {ratio}");
        }
    }
}

/// Random fabrics of up to eight devices and three switches: no schedule is faster than the bound of its step, nor than that
/// of all plans.
#[test]
fn no_schedule_on_a_random_fabric_is_below_a_bound() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut seen = 0;
    for [x, y] in [[2, 2], [2, 3], [4, 2]].into_iter().cycle().take(60) {
        let (devices, switches) = (x * y, random.usize(0..=3));
        let node = |number: usize| match number.checked_sub(devices) {
            None => device(number),
            Some(own) => switch(format!("s{own}")),
        };
        let nodes = devices + switches;
        // A tree, and some more links.
        let mut pairs: BTreeSet<[usize; 2]> = (1..nodes).map(|to| [random.usize(0..to), to]).collect();
        for _ in 0..random.usize(switches..=nodes) {
            let [one, two] = [random.usize(0..nodes), random.usize(0..nodes)];
            pairs.extend((one != two).then_some([one.min(two), one.max(two)]));
        }
        let degree = |own: usize| pairs.iter().flatten().filter(|end| **end == own).count();
        if (devices..nodes).any(|own| degree(own) < 2) {
            continue;
        }
        let rates = [10, 25, 50];
        let links = pairs.iter().map(|pair| (vec![pair.map(node)], rates[random.usize(0..3)], 500)).collect();
        let names = (0..switches).map(|own| format!("s{own}")).collect();
        let options = Options { hardware: Some(hardware((names, links))), ..Options::default() };
        for (kind, axes) in
            ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"].into_iter().cartesian_product(["X", "Y", "X, Y"])
        {
            let rest = if axes == "X" { "Y" } else { "X" };
            let line = collective_over(kind, axes);
            let line = if axes == "X, Y" { line } else { line.replace("J]", &format!("J, K_{rest}]")) };
            let line = line.replace(&format!("J_{axes}]"), &format!("J_{axes}, K_{rest}]"));
            let source = format!("mesh {{X: {x}, Y: {y}}}\ndims {{I: 240, J: 240, K: 24}}\n{line}output B\n");
            let compiled = compile_by(&source, &options);
            let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
            let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
            let floor = floor(&compiled.plan, &compiled.topology).expect("a load").time;
            assert!(bound <= time && floor <= time, "{pairs:?}\n{source}");
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
}

/// On a torus with slow links along X and fast ones along Y, replicas along Y each move a part over the slow links.
#[test]
fn replicas_share_the_slow_links_of_a_uniform_fabric() {
    let at = |x: usize, y: usize| device(x % 4 * 4 + y % 4);
    let ring = |next: fn(usize, usize) -> [usize; 2]| {
        let all = (0..4).cartesian_product(0..4);
        all.map(|(x, y)| {
            [at(x, y), {
                let [x, y] = next(x, y);
                at(x, y)
            }]
        })
        .collect_vec()
    };
    let slow = (ring(|x, y| [x + 1, y]), 45, 1000);
    let fast = (ring(|x, y| [x, y + 1]), 450, 1000);
    let options = Options { hardware: Some(hardware((Vec::new(), vec![slow, fast]))), ..Options::default() };
    let time = |array: &str, result: &str| {
        let line = format!("A: i8[I_X, J{array}]\nAllGather_X(A) -> B[I, J{result}]\noutput B\n");
        let source = format!("mesh {{X: 4, Y: 4}}\ndims {{I: 3840, J: 65280}}\n{line}");
        let compiled = compile_by(&source, &options);
        let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
        compiled.topology.scale.seconds(time)
    };
    // Each device lacks 188 MB; two slow links bring 90 GB/s.
    let alone = 4.0 * time("_Y", "_Y");
    let shared = time("", "");
    assert!(shared < 0.6 * alone, "{shared} s with replicas, {alone} s without");
}
