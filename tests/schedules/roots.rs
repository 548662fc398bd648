//! Broadcasts from any device of a group.

use crate::common::numeric::computes;
use crate::common::single::{self, axis};
use itertools::{Itertools, iproduct};
use shardc::bounds;
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::mesh::{Axis, AxisId, Mesh, Wiring};
use shardc::schedule::methods;
use shardc::schedule::{Builder, OpId, Schedule, from_json, from_text, to_json};
use shardc::sim::{clock, proof};
use shardc::topology::{Hardware, Topology};
use shardc::units::Time;

const WIRINGS: [Wiring; 4] = [Wiring::Ring, Wiring::Line, Wiring::Switch, Wiring::Full];

/// A broadcast along all axes of an array that the device of this rank has.
fn broadcast(mesh: &Mesh, root: u64, build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId) -> Schedule {
    single::from_root(mesh.clone(), (CollectiveKind::Broadcast, root), [60, 4], DType::I64, build)
}

/// Proven, with and without symmetry, and equal on numbers; returns the time on a machine of its links.
fn time_of(schedule: &Schedule, name: &str) -> u128 {
    proof::prove(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}\n{schedule}"));
    proof::prove_uncollapsed(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    assert!(computes(schedule, 3), "{name}\n{schedule}");
    let document = to_json(schedule);
    assert_eq!(to_json(&from_json(&document).expect("its own document")), document, "{name}");
    let text = from_text(&schedule.to_string()).expect("its own text").schedule;
    assert_eq!(text.to_string(), schedule.to_string(), "{name}");
    assert!(computes(&text, 3), "{name}");
    let topology = Topology::new(schedule.mesh.clone(), Hardware::named("tpu_v5e").expect("shipped"));
    clock::run(schedule, &topology.expect("a common tick")).expect("a time").makespan.ticks()
}

/// All devices of rings, switches and full meshes are alike, so every root takes the same time; on a line the ends take
/// longest.
#[test]
fn every_method_from_every_root() {
    let mut count = 0;
    for (wiring, n, chunks) in iproduct!(WIRINGS, [2, 3, 4, 5, 8], [1, 3]) {
        let mesh = axis(wiring, n);
        for method in methods::candidates(CollectiveKind::Broadcast, wiring, u64::from(n)) {
            let time = |root: u64| {
                let run = (AxisId::new(0).into(), wiring);
                let schedule = broadcast(&mesh, root, |builder, given| {
                    methods::broadcast(builder, method, run, root, given, chunks)
                });
                time_of(&schedule, &format!("{method:?} on a {wiring} of {n} from {root}, {chunks} chunks"))
            };
            let times: Vec<u128> = (0..u64::from(n)).map(time).collect();
            count += times.len();
            if wiring == Wiring::Line {
                assert!(times.iter().all(|time| *time <= times[0]), "{method:?} on a line of {n}: {times:?}");
            } else {
                assert!(times.iter().all_equal(), "{method:?} on a {wiring} of {n}: {times:?}");
            }
        }
    }
    assert!(count > 250, "{count} broadcasts");
}

/// Over two axes at once, and over nodes of devices on a switch.
#[test]
fn several_axes_from_every_root() {
    for (first, second, sizes) in iproduct!(WIRINGS, WIRINGS, [[2, 3], [3, 4]]) {
        let [x, y] = [AxisId::new(0), AxisId::new(1)];
        let axes = [("X", sizes[0], first), ("Y", sizes[1], second)];
        let axes =
            axes.map(|(name, size, wiring)| Axis { name: name.to_owned(), size, wiring: Some(wiring), over: None });
        let mesh = Mesh::new(axes.to_vec()).expect("a small mesh");
        let runs = [(x.into(), first), (y.into(), second)];
        for root in 0..mesh.device_count() as u64 {
            let name = format!("{first} {second} of {sizes:?} from {root}");
            let together =
                broadcast(&mesh, root, |builder, given| methods::broadcast_over(builder, &runs, root, given, 2));
            time_of(&together, &name);
            if second == Wiring::Switch {
                let nodes = broadcast(&mesh, root, |builder, given| {
                    methods::broadcast_over_nodes(builder, &runs[..1], y.into(), root, given, 2)
                });
                time_of(&nodes, &format!("{name}, nodes"));
            }
        }
    }
}

/// What the compiler chooses, along a part of the axes or all of them, on healthy links and others: never faster than the
/// bound.
#[test]
fn chosen_broadcasts_from_every_root() {
    let links = ["", "link (0,0)->(1,0) down\n", "link (1,1)<->(2,1) at 50%\n"];
    let meshes = ["{X: 4 ring, Y: 3 ring}", "{X: 4 line, Y: 2}", "{X: 4 switch, Y: 2 line}", "{X: 3 full, Y: 2}"];
    let mut count = 0;
    for ((mesh, link), collective) in
        iproduct!(iproduct!(meshes, links), ["Broadcast_X", "Broadcast_Y", "Broadcast_XY"])
    {
        let (sizes, wires_links) = match mesh {
            "{X: 4 ring, Y: 3 ring}" => ([4, 3], true),
            "{X: 4 line, Y: 2}" => ([4, 2], true),
            "{X: 4 switch, Y: 2 line}" => ([4, 2], false),
            _ => ([3, 2], false),
        };
        // Broadcasts on degraded links have many candidates.
        if !link.is_empty() && (!wires_links || collective == "Broadcast_Y") {
            continue;
        }
        for root in (0..sizes[0] * sizes[1]).step_by(if link.is_empty() { 1 } else { 5 }) {
            let after = match collective {
                "Broadcast_X" => format!("[I, J]{{ROOT_Y={}}}", root % sizes[1]),
                "Broadcast_Y" => format!("[I, J]{{ROOT_X={}}}", root / sizes[1]),
                _ => "[I, J]".to_owned(),
            };
            let source = format!(
                "mesh {mesh} on tpu_v5e\n{link}dims {{I: 24, J: 4}}\nA: bf16[I, J]{{ROOT_XY={root}}}\n\
                 {collective}(A) -> B{after}\noutput B\n"
            );
            let (program, found) = compiler::check(&source);
            let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
            let options = Options::default();
            let compiled = compiler::compile(&program, &options).unwrap_or_else(|error| panic!("{source}\n{error:?}"));
            let topology = compiler::machine(&program, &options).expect("a machine");
            let timing = clock::run(&compiled.schedule, &topology).expect("a time");
            let plan = &compiled.plan;
            let moves = plan.ids().filter_map(|id| Some((plan.step(id).op.collective()?, plan.operands(id)[0])));
            let bound = |(collective, from)| bounds::collective(collective, &plan.step(from).layout, &topology).time();
            let bound: Time = moves.map(bound).sum();
            assert!(bound > Time::ZERO && timing.makespan >= bound, "{source}{bound:?} {:?}", timing.makespan);
            proof::prove_uncollapsed(&compiled.schedule).unwrap_or_else(|flaw| panic!("{source}{flaw}"));
            assert!(computes(&compiled.schedule, 5), "{source}");
            count += 1;
        }
    }
    assert!(count > 90, "{count} programs");
}
