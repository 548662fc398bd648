//! Blocks that are assembled on zeros: proven only where the table of the schedule makes the array 0.

use crate::common::apart;
use crate::common::numeric::computes;
use shardc::schedule::{Dense, OpKind, Schedule, from_text};
use shardc::sim::proof::{Flaw, prove};
use shardc::supply::{Supply, Table};

const SOURCE: &str = "mesh {X: 3 switch} on tpu_v5p\n\
    dims {G: 3, E: 3, C: 4, M: 2}\n\
    x: i32[G_X, E, C, M]\n\
    load[G, E] = table(4, 1, 0, 2, 3, 1, 0, 2, 4)\n\
    slots[G_X, E, C, M] = where(iota_C < load, x, 0)\n\
    y[G, E_X, C, M] = slots using routed\n";

/// The schedule with another number in its table.
fn with(schedule: &Schedule, place: usize, number: i32) -> Schedule {
    let mut changed = schedule.clone();
    for array in &mut changed.arrays {
        if let Dense::Input { supply: Supply::Table(table) } = &mut array.definition {
            let mut elements = table.elements().to_vec();
            elements[place] = number;
            *table = Table::new(elements);
        }
    }
    changed
}

/// With any other number in the table, the schedule is proven if and only if it computes the array, which has other zeros.
#[test]
fn every_other_table() {
    let schedule = apart(SOURCE).schedule;
    assert!(prove(&schedule).is_ok() && computes(&schedule, 1));
    let mut counts = [0, 0];
    for place in 0..9 {
        for number in -1..=6 {
            let changed = with(&schedule, place, number);
            let is_proven = prove(&changed).is_ok();
            let is_right = (0..4).all(|seed| computes(&changed, seed));
            assert_eq!(is_proven, is_right, "element {place} is {number}");
            counts[usize::from(is_proven)] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

/// Without the mask, or with one of other positions, nothing is known to be 0.
#[test]
fn only_by_the_definition_of_the_array() {
    let schedule = apart(SOURCE).schedule;
    let text = schedule.to_string();
    let read = |text: &str| from_text(text).map(|written| written.schedule).expect("a schedule");
    assert!(prove(&read(&text)).is_ok());
    for (old, new) in [
        ("less iota_C", "greater iota_C"),
        ("masked(0)", "masked(1)"),
        ("= table 4 1 0 2 3 1 0 2 4", "= input"),
        ("= iota", "= input"),
    ] {
        let changed =
            text.replace(old, new).replace("map less", if old.contains("less") { "map greater" } else { "map less" });
        assert_ne!(changed, text, "{old}");
        assert!(matches!(prove(&read(&changed)), Err(Flaw::Unfilled { .. })), "{old} -> {new}\n{changed}");
    }
    let mut full = schedule;
    for operation in full.operations.node_weights_mut() {
        if let OpKind::Assemble { zeros, .. } = &mut operation.kind {
            *zeros = false;
        }
    }
    assert!(matches!(prove(&full), Err(Flaw::Unfilled { .. })));
}
