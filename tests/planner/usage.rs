//! Bytes, messages, memory and times of a plan are those of its schedule: counted anew on its JSON, and timed step by
//! step. Random programs are held to the same in `tests/generated`.

use crate::common::usage::{disagreement, other_time};
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
        if compiled.schedule.mesh.device_count() * compiled.schedule.operations.node_count() < 1 << 19 {
            assert_eq!(disagreement(&compiled), None, "{}", short_name(path));
            checked += 1;
        }
    }
    assert!(checked > 90, "{checked}");
}
