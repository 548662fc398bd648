//! Compares the proof with a naive interpreter: correct schedules are proven, and no wrong one is.
#![allow(clippy::print_stdout, missing_docs)]

use crate::common::{mutants::mutants, numeric::computes, schedules};
use shardc::sim::proof::{Flaw, prove};

#[test]
fn hand_written_schedules_are_proven() {
    for (name, schedule) in schedules::all() {
        assert!((0..3).all(|seed| computes(&schedule, seed)), "{name}");
        let proof = prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        assert_eq!(proof.operations, schedule.operations.node_count());
    }
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
