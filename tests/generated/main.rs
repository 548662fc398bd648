//! Random legal programs, through every stage.
//!
//! Some hundred take part in every test run, always the same. `SHARDC_PROGRAMS=1000000 cargo test --release --test
//! generated -- --nocapture` goes on with as many others, and `SHARDC_SEED=42` begins with another one. What fails is
//! shrunk to a small program that fails in the same way, and printed with its seed and its command line.
//!
//! It is a test and no module of the library, since it needs nothing but what the library shows to everybody; a fuzz
//! target can have it by its path, as bytes are choices as well.
#![expect(clippy::print_stderr, reason = "the program that fails is what one needs to see")]

mod choices;
mod expressions;
mod known;
mod machine;
mod model;
mod modes;
mod program;
mod properties;
mod shrink;
mod watch;

use choices::Choices;
use program::Case;
use properties::{Failure, Outcome};
use std::collections::BTreeMap;
use watch::watched;

/// Programs in every test run.
const FIXED: u64 = 250;

/// The program of a seed, and what it is made of.
fn of_seed(seed: u64) -> (Case, shrink::Made) {
    let mut choices = Choices::random(seed);
    let case = program::case(&mut choices);
    (case, choices.into_made())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// The failure with the smallest program that was found for it.
fn report(seed: u64, case: &Case, made: shrink::Made, failure: &Failure) -> String {
    let (small, failure) = shrink::shrunk(made, failure).unwrap_or_else(|| (case.clone(), failure.clone()));
    let command = ["shardc run t.shard".to_owned()].into_iter().chain(small.modes.words()).collect::<Vec<_>>().join(" ");
    format!("== {}\nseed {seed}: {command}\n{}{}\n", failure.class, small.source, failure.detail)
}

#[test]
fn legal_programs_go_through_every_stage() {
    let first = number("SHARDC_SEED").unwrap_or(0);
    let count = number("SHARDC_PROGRAMS").unwrap_or(FIXED);
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    for seed in first..first + count {
        watch::stage("make");
        let (case, made) = of_seed(seed);
        let outcome = match watched(&case) {
            Ok(Outcome::Complete) => "complete".to_owned(),
            Ok(Outcome::Refused(code)) => format!("refused: {code}"),
            Err(failure) => match known::defect(&case, &failure) {
                Some(defect) => format!("known: {defect}"),
                None => {
                    let class = failure.class.clone();
                    if !failures.contains_key(&class) {
                        let report = report(seed, &case, made, &failure);
                        eprintln!("{report}");
                        failures.insert(class.clone(), report);
                    }
                    format!("FAILED: {class}")
                }
            },
        };
        *outcomes.entry(outcome).or_default() += 1;
        if seed % 1000 == 999 && count > FIXED {
            eprintln!("{} programs: {outcomes:#?}", seed + 1 - first);
        }
    }
    eprintln!("{count} programs: {outcomes:#?}");
    eprintln!("time in each stage: {:?}", watch::spent());
    assert!(failures.is_empty(), "{} kinds of failures, shown above", failures.len());
    let complete = outcomes.get("complete").copied().unwrap_or_default();
    assert!(complete as u64 > count / 2, "most programs are to come through every stage: {outcomes:#?}");
}
