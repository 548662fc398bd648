//! Bytes, messages, memory and times of a plan are those of its schedule: counted anew on its JSON, and timed step by
//! step. Random programs are held to the same in `tests/generated`.

use crate::common::usage::{disagreement, other_links, other_time};
use crate::common::{programs, short_name};
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;

#[test]
fn examples_and_corpus() {
    let mut checked = 0;
    for (place, path) in [programs("examples"), programs("tests/corpus")].concat().iter().enumerate() {
        let costs = [CostModel::Exact, CostModel::Book, CostModel::Bytes][place % 3];
        let source = std::fs::read_to_string(path).expect("a program");
        let program = compiler::check(&source).0.expect("a right program");
        let Ok(compiled) = compiler::compile(&program, &Options { costs, ..Options::default() }) else { continue };
        assert_eq!(other_time(&compiled), None, "{}", short_name(path));
        // Counted device by device.
        if compiled.schedule.mesh.device_count() * compiled.schedule.operations.node_count() < 1 << 16 {
            assert_eq!(disagreement(&compiled), None, "{}", short_name(path));
            assert_eq!(other_links(&compiled), None, "{}", short_name(path));
            checked += 1;
        }
    }
    assert!(checked > 90, "{checked}");
}

/// What is given up is counted as it goes, also where a plan has only a few of many iterations.
#[test]
fn donated_inputs_are_held_to_their_last_use() {
    let peak = |source: &str| {
        let program = compiler::check(source).0.expect("a right program");
        let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
        assert_eq!(disagreement(&compiled), None, "{source}");
        compiled.plan.totals().peak().0
    };
    // Beside two blocks of 4 kB: x and y, and z where x is still there.
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
