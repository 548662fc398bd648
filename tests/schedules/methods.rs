//! Every method on several axes is proven, and correct on numbers.

use crate::common::collectives::schedules;
use crate::common::compile;
use crate::common::numeric::computes;
use crate::common::single::schedule;
use itertools::{Itertools, iproduct};
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::mesh::{Axes, Axis, AxisId, Mesh, Wiring};
use shardc::method::Method;
use shardc::operator::Operator;
use shardc::schedule::methods::{self, AxisOrder, Multiport, Stage};
use shardc::sim::clock;
use shardc::sim::proof::prove;
use shardc::sim::values;
use shardc::topology::{Hardware, Topology};
use shardc::units::Bytes;

#[test]
fn every_method_is_proven_on_two_to_seventeen_devices_and_more() {
    let mut proven = 0;
    for n in (2..=17).chain([32, 64]) {
        schedules(n, |name, _, _, schedule| {
            prove(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            assert!(n > 9 || computes(schedule, u64::from(n)), "{name}: wrong numbers");
            proven += 1;
        });
    }
    assert!(proven > 1000, "{proven}");
}

/// Trees without common links: the busiest link carries its part of the value and no more.
#[test]
fn broadcasts_over_several_axes_use_all_links_of_the_first_device() {
    let wirings = [Wiring::Ring, Wiring::Line];
    for sizes in [vec![2, 2], vec![2, 3], vec![3, 3], vec![4, 4], vec![2, 5], vec![3, 2, 2], vec![3, 3, 3]] {
        for wired in sizes.iter().map(|_| wirings).multi_cartesian_product() {
            let axes = sizes.iter().zip(&wired).zip(["X", "Y", "Z"]);
            let axes = axes.map(|((size, wiring), name)| Axis {
                name: name.into(),
                size: *size,
                wiring: Some(*wiring),
                over: None,
            });
            let mesh = Mesh::new(axes.collect()).expect("a small mesh");
            let links: u64 = sizes
                .iter()
                .zip(&wired)
                .map(|(size, wiring)| if *size > 2 && *wiring == Wiring::Ring { 2 } else { 1 })
                .sum();
            let runs: Vec<(Axes, Wiring)> =
                mesh.axis_ids().zip(&wired).map(|(axis, wiring)| (axis.into(), *wiring)).collect();
            for chunks in [1, 2, 3] {
                let extents = [60, 6];
                let schedule =
                    schedule(mesh.clone(), CollectiveKind::Broadcast, extents, DType::I64, |builder, given| {
                        methods::broadcast_over(builder, &runs, 0, given, chunks)
                    });
                let name = format!("{sizes:?} {wired:?}, {chunks} chunks");
                prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                assert!(computes(&schedule, 7), "{name}: wrong numbers");
                let hardware = Hardware::named("tpu_v5e").expect("shipped");
                let topology = Topology::new(mesh.clone(), hardware).expect("a common tick");
                let timing = clock::run(&schedule, &topology).expect("a time");
                let fullest = timing.links.iter().map(|link| link.bytes.0).max().unwrap_or_default();
                // Parts consist of whole chunks.
                let row = 6 * 8;
                assert!(fullest <= (60 * row / links).next_multiple_of(row * chunks), "{name}: {fullest} bytes");
            }
        }
    }
}

/// Also for nodes of devices on a switch: every device of the first node sends a part to the other nodes, and the
/// ports between nodes carry only that part.
#[test]
fn broadcasts_over_nodes_use_all_ports_between_them() {
    let axis = |name: &str, size: u32, over: Option<&str>| Axis {
        name: name.into(),
        size,
        wiring: Some(Wiring::Switch),
        over: over.map(Into::into),
    };
    for (nodes, devices, chunks) in iproduct!(2..=4u32, 2..=5u32, 1..=3u64) {
        let mesh = Mesh::new(vec![axis("X", nodes, Some("ib")), axis("Y", devices, None)]).expect("a small mesh");
        let [x, y] = [0, 1].map(AxisId::new);
        let rows = 60 * u64::from(devices) * chunks;
        let schedule = schedule(mesh.clone(), CollectiveKind::Broadcast, [rows, 2], DType::I64, |builder, given| {
            methods::broadcast_over_nodes(builder, &[(x.into(), Wiring::Switch)], y.into(), 0, given, chunks)
        });
        let name = format!("{nodes} nodes of {devices}, {chunks} chunks");
        prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        assert!(computes(&schedule, 7), "{name}: wrong numbers");
        let topology = Topology::new(mesh, Hardware::named("h100_book").expect("shipped")).expect("a common tick");
        let timing = clock::run(&schedule, &topology).expect("a time");
        let between = topology.all_links().filter(|id| topology.link(*id).axis == x);
        let fullest = between.map(|id| timing.links[id.index()].bytes.0).max().unwrap_or_default();
        assert_eq!(fullest, rows * 16 / u64::from(devices), "{name}");
    }
}

/// Scattered from the first device over all axes at once and gathered again, on rings, lines and switches.
#[test]
fn broadcasts_over_several_axes_scatter_and_gather() {
    let stages = [
        (Wiring::Ring, Method::BalancedMeetInMiddleRing),
        (Wiring::Line, Method::Line),
        (Wiring::Switch, Method::OneHop),
    ];
    for (sizes, (wiring, method)) in iproduct!([vec![2, 3], vec![4, 3], vec![4, 4], vec![3, 2, 2]], stages) {
        let axes = sizes.iter().zip(["X", "Y", "Z"]);
        let axes = axes.map(|(size, name)| Axis { name: name.into(), size: *size, wiring: Some(wiring), over: None });
        let mesh = Mesh::new(axes.collect()).expect("a small mesh");
        let n: u64 = sizes.iter().map(|size| u64::from(*size)).product();
        let count = sizes.len();
        for (chunks, share) in iproduct!([1, 2], [[1, 1], [1, 7], [8, 4]]) {
            let stages = mesh.axis_ids().map(|axis| Stage { axes: axis.into(), dim: 0, method }).collect();
            let order = |first: usize| (0..count).map(|step| (first + step) % count).collect();
            let axis_orders =
                (0..count).map(|first| AxisOrder { order: order(first), weight: 1 + first as u64 }).collect();
            let all = Multiport { stages, axis_orders, chunks };
            let extents = [share[0] * n, share[1]];
            let schedule = schedule(mesh.clone(), CollectiveKind::Broadcast, extents, DType::I64, |builder, given| {
                all.broadcast(builder, &vec![0; count], given)
            });
            let name = format!("{sizes:?} {wiring}, {chunks} chunks of {extents:?}");
            prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            assert!(computes(&schedule, 3), "{name}: wrong numbers");
        }
    }
}

/// Large arrays on a torus: the first device sends the array once, and each device receives it once, over all links;
/// this takes about twice the bound.
#[test]
fn scattered_broadcasts_take_about_twice_the_bound() {
    for sizes in [[8, 8], [12, 8]] {
        let ring = |(name, size): (&str, u32)| Axis { name: name.into(), size, wiring: Some(Wiring::Ring), over: None };
        let mesh = Mesh::new([("X", sizes[0]), ("Y", sizes[1])].map(ring).to_vec()).expect("a small mesh");
        let stage = |axis: AxisId| Stage { axes: axis.into(), dim: 0, method: Method::BalancedMeetInMiddleRing };
        let axis_orders = [vec![0, 1], vec![1, 0]].map(|order| AxisOrder { order, weight: 1 }).to_vec();
        let all = Multiport { stages: mesh.axis_ids().map(stage).collect(), axis_orders, chunks: 4 };
        let extents = [mesh.device_count() as u64, 1 << 26];
        let schedule = schedule(mesh.clone(), CollectiveKind::Broadcast, extents, DType::I8, |builder, given| {
            all.broadcast(builder, &[0, 0], given)
        });
        let topology = Topology::new(mesh, Hardware::named("tpu_v5p").expect("shipped")).expect("a common tick");
        let bound = topology.scale.at_rate(u128::from(extents[0] * extents[1]) / 4, topology.axes[0].one_way);
        let ratio = clock::run(&schedule, &topology).expect("a time").makespan.ratio(bound);
        assert!((1.9..2.4).contains(&ratio), "{sizes:?}: {ratio}");
    }
}

/// A plan counts the requested methods as the simulator does.
#[test]
fn plans_count_the_methods_that_are_asked_for() {
    let lines = [
        ("A: i8[I_X, J]", "AllGather_X(A[I_X, J]) -> C[I, J]", "clockwise_ring bidirectional_ring_pair bruck swing"),
        ("A: i8[I, J]{U_X}", "AllReduce_X(A[I, J]{U_X}) -> C[I, J]", "tree anticlockwise_ring broadcast auto"),
        ("A: i8[I_X, J]", "AllToAll_{X,J}(A[I_X, J]) -> C[I, J_X]", "direct bundled link_by_link direct_halves"),
    ];
    for (input, line, methods) in lines {
        for method in methods.split(' ') {
            let head = "mesh {X: 8 ring} on tpu_v5e\ndims {I: 8192, J: 8192}";
            let compiled = compile(&format!("{head}\n{input}\n{line} using {method}\n"));
            let makespan = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
            assert_eq!(compiled.plan.totals().time(), makespan, "{method}");
            assert!(compiled.plan.lower_bound.time <= makespan, "{method}");
            let usual = compile(&format!("{head}\n{input}\n{line}\n")).plan.totals().time();
            assert_eq!(compiled.plan.is_optimal(), makespan <= usual, "{method}");
        }
    }
}

/// By GCL's rule, a group with more than 2048 bytes in total does not send everything to all devices.
#[test]
fn broadcasts_have_a_limit() {
    let limited = Hardware { broadcast_limit: Some(Bytes(2048)), ..Hardware::named("tpu_v5e").expect("shipped") };
    assert_eq!(Hardware::from_toml(&limited.to_toml()), Ok(limited.clone()));
    let lines = |rows: u64| {
        let reduce = format!("A: i8[{rows}]{{U_X}}\nAllReduce_X(A) -> B[{rows}]");
        let scatter = format!("dims {{I: {rows}}}\nA: i8[I]{{U_X}}\nReduceScatter_{{X,I}}(A) -> B[I_X]");
        [reduce, scatter]
    };
    for (rows, is_allowed) in [(256, true), (264, false)] {
        for line in lines(rows) {
            let source = format!("mesh {{X: 8 ring}}\n{line} using broadcast\n");
            let program = compiler::check(&source).0.expect("right");
            let compiled = |hardware: &Hardware| {
                compiler::compile(&program, &Options { hardware: Some(hardware.clone()), ..Options::default() })
            };
            assert_eq!(compiled(&limited).is_ok(), is_allowed, "{line}");
            assert!(compiled(&Hardware::named("tpu_v5e").expect("shipped")).is_ok());
        }
    }
}

/// Everything to everybody, and the own block of the combination: for every operator, as dense numbers have it.
#[test]
fn a_scatter_by_broadcast_is_proven_for_every_operator() {
    for (operator, wiring) in iproduct!(Operator::ALL, ["ring", "line"]) {
        if operator.is_root() {
            continue;
        }
        let dtype = match operator {
            Operator::And | Operator::Or => "bool",
            Operator::Mean => "f32",
            _ => "i32",
        };
        let method = if wiring == "ring" { "broadcast" } else { "line_broadcast" };
        for n in 3..=6 {
            let source = format!(
                "mesh {{X: {n} {wiring}}}\ndims {{I: {}, J: 3}}\nA: {dtype}[I, J]{{{}_X}}\n\
                 ReduceScatter_{{X,I}}(A) -> B[I_X, J] using {method}\noutput B\n",
                2 * n,
                operator.word()
            );
            let compiled = compile(&source);
            prove(&compiled.schedule).unwrap_or_else(|flaw| panic!("{source}{flaw}"));
            let inputs = values::inputs(&compiled.schedule, 7).expect("small");
            let dense = values::dense(&compiled.schedule, &inputs).expect("small");
            let run = values::run(&compiled.schedule, &inputs).expect("small");
            let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
            assert!(numerics.equal, "{source}{numerics:?}");
        }
    }
}
