//! Compares the proof with a naive interpreter: correct schedules are proven, and no wrong one is.
#![allow(clippy::print_stdout, missing_docs)]

use crate::common::shifted::shifted;
use crate::common::{mutants::mutants, numeric::computes, schedules};
use itertools::iproduct;
use shardc::mesh::{Axes, AxisId, Mesh};
use shardc::schedule::Schedule;
use shardc::shift::Shift;
use shardc::sim::proof::{Flaw, prove};

#[test]
fn hand_written_schedules_are_proven() {
    for (name, schedule) in schedules::all() {
        assert!((0..3).all(|seed| computes(&schedule, seed)), "{name}");
        let proof = prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        assert_eq!(proof.operations, schedule.operations.node_count());
    }
}

/// Shifts and rolls by less than a block and by more, with open and closed ends, on one and two axes.
fn shifts() -> impl Iterator<Item = (String, Schedule)> {
    let axes = |count: usize| (0..count).map(AxisId::new).collect::<Axes>();
    let meshes = [(Mesh::of(&[("X", 3)]), axes(1)), (Mesh::of(&[("X", 2), ("Y", 2)]), axes(2))];
    iproduct!(meshes, [1, -2, 4, 7, -9], [false, true], [false, true]).map(|((mesh, axes), by, wraps, closed)| {
        let shift = Shift { dim: 0, by, wraps };
        let name = format!("{shift} on {mesh}, closed: {closed}");
        (name, shifted(mesh, [axes, Axes::NONE], shift, closed))
    })
}

#[test]
fn no_mutant_that_computes_something_else_is_proven() {
    let [mut all, mut refused, mut malformed, mut alarms] = [0; 4];
    for (name, schedule) in schedules::all() {
        for (change, mutant) in mutants(&schedule) {
            all += 1;
            match prove(&mutant) {
                Err(Flaw::Malformed(_) | Flaw::MalformedArray { .. }) => {
                    malformed += 1;
                }
                Err(flaw) => {
                    refused += 1;
                    if (0..3).all(|seed| computes(&mutant, seed)) {
                        alarms += 1;
                        println!("false alarm: {name}, {change}: {flaw}");
                    }
                }
                Ok(_) => assert!((0..3).all(|seed| computes(&mutant, seed)), "{name}, {change} is proven and wrong"),
            }
        }
    }
    println!("{all} mutants: {malformed} malformed, {refused} refused, of these {alarms} false alarms");
    assert!(alarms * 50 <= refused, "{alarms} of {refused} refusals are false alarms");
}

/// A shift declares its distance and its block. A wrong declaration is refused even if nothing else is computed, so false alarms
/// are not counted.
#[test]
fn no_mutant_of_a_shift_that_computes_something_else_is_proven() {
    let (mut all, mut proven) = (0, 0);
    for (name, schedule) in shifts() {
        prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        for (change, mutant) in mutants(&schedule) {
            all += 1;
            if prove(&mutant).is_ok() {
                proven += 1;
                assert!((0..3).all(|seed| computes(&mutant, seed)), "{name}, {change} is proven and wrong");
            }
        }
    }
    println!("{all} mutants of shifts, {proven} proven");
    assert!(all > 3000 && proven < all / 5, "{proven} of {all} are proven");
}
