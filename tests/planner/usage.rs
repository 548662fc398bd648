//! Bytes, messages, memory and times of a plan equal those of its schedule, counted independently on its JSON and
//! timed step by step. `tests/generated` checks the same for random programs.

use crate::common::sets::are_full;
use crate::common::usage::{disagreement, other_document, other_links, other_time};
use crate::common::{programs, short_name};
use shardc::compiler::{self, Compiled, Options};
use shardc::costs::CostModel;
use shardc::report::Findings;
use shardc::sim::clock;
use std::collections::BTreeMap;

/// The figures of a plan made before costs were read off schedules: bytes that one device receives in the plan by
/// `--costs bytes`, and the simulated time of the default plan, both counted on their schedules.
#[derive(serde::Deserialize)]
struct Before {
    received: u64,
    seconds: f64,
}

/// No plan receives more bytes or takes longer than before.
fn no_worse_than_before(compiled: &Compiled, costs: CostModel, before: &Before, name: &str) {
    if costs == CostModel::Bytes {
        let received = compiled.plan.totals().received().0;
        assert!(received <= before.received, "{name} receives {received}, before {}", before.received);
    }
    if costs == CostModel::Exact {
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("it has a time");
        let seconds = compiled.topology.scale.seconds(timing.makespan);
        assert!(seconds <= before.seconds * (1.0 + 1e-9), "{name} takes {seconds} s, before {} s", before.seconds);
    }
}

/// Every third program by exact costs, and every sixth also by another model; every program by all three if sets are full.
#[test]
fn examples_and_corpus() {
    let (mut checked, mut large) = (0, 0);
    let before = std::fs::read_to_string("tests/corpus/before.json").expect("figures");
    let before: BTreeMap<String, Before> = serde_json::from_str(&before).expect("figures by program");
    let paths = [programs("examples"), programs("tests/corpus")].concat();
    // Every fifth one unless the run is full.
    let paths: Vec<_> = paths.into_iter().step_by(if are_full() { 1 } else { 5 }).collect();
    for (place, path) in paths.iter().enumerate() {
        let source = std::fs::read_to_string(path).expect("a program");
        let program = compiler::check(&source).0.expect("a right program");
        let others = [CostModel::Book, CostModel::Bytes];
        let others = match place % 4 {
            _ if are_full() => &others[..],
            0 => &others[..1],
            2 => &others[1..],
            _ => &[],
        };
        for costs in others.iter().copied().chain([CostModel::Exact]) {
            let name = format!("{} by {costs:?}", short_name(path));
            let compiled = compiler::compile(&program, &Options { costs, ..Options::default() });
            let compiled = compiled.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(other_time(&compiled), None, "{name}");
            // Programs that are newer have no such figures.
            if let Some(before) = before.get(&short_name(path)) {
                no_worse_than_before(&compiled, costs, before, &name);
            }
            // The largest schedules take minutes to count device by device.
            let size = compiled.schedule.mesh.device_count() * compiled.schedule.operations.node_count();
            if size < 1 << 16 || are_full() {
                assert_eq!(disagreement(&compiled), None, "{name}");
                assert_eq!(other_links(&compiled), None, "{name}");
                if costs == CostModel::Exact && place % 4 == 1 || are_full() {
                    let findings = Findings::new(&compiled.plan, &compiled.topology);
                    assert_eq!(other_document(&findings), None, "{name}");
                }
                checked += 1;
            } else {
                large += 1;
            }
        }
    }
    let all = if are_full() { paths.len() * 3 } else { paths.len() + paths.len().div_ceil(2) };
    assert!(checked + large == all && large * 20 < all, "{checked} of {all}, {large} too large");
}

/// Donated inputs are freed after their last use, even if a plan has only a few of many iterations.
#[test]
fn donated_inputs_are_held_to_their_last_use() {
    let peak = |source: &str| {
        let program = compiler::check(source).0.expect("a right program");
        let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
        assert_eq!(disagreement(&compiled), None, "{source}");
        compiled.plan.totals().peak().0
    };
    // Besides two blocks of 4 kB: x and y, and z if x is still live.
    let chain = |donated: &str| {
        peak(&format!(
            "mesh {{X: 2}}
            dims {{I: 64, J: 32, K: 32, L: 32}}
            x: f32[I_X, J]{donated}
            W: f32[J, K]
            V: f32[K, L]
            y = x * W
            z = y * V"
        ))
    };
    assert_eq!((chain(""), chain(" donated")), (5 << 12, 4 << 12));
    let layers = |times: u64, donated: &str| {
        peak(&format!(
            "mesh {{X: 2}}
            dims {{J: 64, K: 64}}
            x: f32[J]{donated}
            repeat {times} {{
                W: f32[J, K_X]{donated}
                b: f32[K_X]{donated}
                y = relu(x *_J W)
                x[J] = rename_{{K->J}}(y + b)
            }}
            y = relu(x)"
        ))
    };
    let peaks: Vec<(u64, u64)> = (1..9).map(|times| (layers(times, ""), layers(times, " donated"))).collect();
    assert!(peaks.iter().skip(1).all(|(held, donated)| donated < held), "{peaks:?}");
}
