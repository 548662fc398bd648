//! Random legal programs, through every stage.
//!
//! The same 600 programs are part of every test run. `SHARDC_PROGRAMS=1000000 cargo test --release --test
//! generated -- --nocapture` continues with as many others, and `SHARDC_SEED=42` starts with another one. A failing
//! program is shrunk to a small one that fails in the same way, and printed with its seed and its command line.
//!
//! This is a test and not a module of the library, since it needs only the public interface. A fuzz target can
//! include it by path, as bytes are choices, too.
#![expect(clippy::print_stderr, reason = "the program that fails is what one needs to see")]

mod choices;
mod command;
#[path = "../common/cpu_time.rs"]
#[allow(missing_docs, unreachable_pub)]
mod cpu_time;
mod equivalents;
mod expressions;
mod found;
mod functions;
mod machine;
mod model;
mod modes;
mod positions;
mod program;
mod properties;
mod shrink;
mod tables;
#[path = "../common/usage.rs"]
#[allow(missing_docs, unreachable_pub)]
mod usage;
mod watch;

use choices::Choices;
use machine::Size;
use program::Case;
use properties::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use watch::{Check, EVERY_STAGE, watched};

/// As in the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Programs in every test run.
const FIXED: u64 = 600;
/// Programs that are compared with others in every test run.
const FIXED_EQUIVALENTS: u64 = 200;
/// Number of programs tested concurrently.
const WORKERS: usize = 2;

/// The program of a seed, and its choices.
fn of_seed(seed: u64, most: Size) -> (Case, shrink::Draws) {
    let mut choices = Choices::random(seed);
    let case = program::case(&mut choices, most);
    (case, choices.into_made())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Results so far.
#[derive(Debug, Default)]
struct Found {
    outcomes: BTreeMap<String, usize>,
    failures: BTreeSet<String>,
    programs: u64,
}

/// Checks the program of a seed, and shrinks it if it is the first with its failure.
fn look(check: Check, seed: u64, most: Size, found: &Mutex<Found>) {
    let (case, made) = of_seed(seed, most);
    let result = watched(check, &case, &made.0, most);
    let outcome = match &result {
        Ok(Outcome::Complete) => "complete".to_owned(),
        Ok(Outcome::Refused(code)) => format!("refused: {code}"),
        Err(failure) => format!("FAILED: {}", failure.class),
    };
    let fails = outcome.starts_with("FAILED");
    if fails {
        eprintln!("seed {seed}: {outcome}");
    }
    let first = {
        let mut found = found.lock().expect("an unpoisoned lock");
        *found.outcomes.entry(outcome.clone()).or_default() += 1;
        found.programs += 1;
        if found.programs.is_multiple_of(1000) {
            eprintln!("{} programs: {:#?}", found.programs, found.outcomes);
        }
        fails && found.failures.insert(outcome)
    };
    let Err(failure) = result else { return };
    if first {
        let (small, failure) = shrink::shrunk(check, most, made, &failure).unwrap_or((case, failure));
        let words = ["shardc run t.shard".to_owned()].into_iter().chain(small.modes.words());
        let command = words.collect::<Vec<_>>().join(" ");
        eprintln!("== {}\nseed {seed}: {command}\n{}{}\n", failure.class, small.source, failure.detail);
    }
}

/// Checks the programs of `count` seeds, and returns how many had each outcome.
///
/// # Panics
/// If a program fails.
fn looked(check: Check, seeds: Range<u64>, most: impl Fn(u64) -> Size + Sync) -> BTreeMap<String, usize> {
    let (found, next) = (Mutex::new(Found::default()), AtomicU64::new(seeds.start));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            return;
        }
        look(check, seed, most(seed), &found);
    };
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    let Found { outcomes, failures, .. } = found.into_inner().expect("an unpoisoned lock");
    eprintln!("{} programs: {outcomes:#?}", seeds.end - seeds.start);
    assert!(failures.is_empty(), "{} kinds of failures, shown above", failures.len());
    outcomes
}

#[test]
fn legal_programs_go_through_every_stage() {
    let first = number("SHARDC_SEED").unwrap_or(0);
    let long = number("SHARDC_PROGRAMS");
    let count = long.unwrap_or(FIXED);
    // Small programs are faster, large ones cover more.
    let most = |seed: u64| if long.is_some() && seed.is_multiple_of(32) { Size::LARGE } else { Size::SMALL };
    let outcomes = looked(EVERY_STAGE, first..first + count, most);
    let complete = outcomes.get("complete").copied().unwrap_or_default();
    assert!(complete as u64 * 2 >= count, "most programs are to come through every stage: {outcomes:#?}");
}

#[test]
fn no_plan_is_below_the_bounds_of_an_equivalent_program() {
    let first = number("SHARDC_SEED").unwrap_or(0);
    let count = number("SHARDC_EQUIVALENTS").unwrap_or(FIXED_EQUIVALENTS);
    looked(equivalents::compared, first..first + count, |_| Size::SMALL);
    let compared = equivalents::COMPARED.lock().expect("an unpoisoned lock");
    eprintln!("{compared:#?}");
    let is_every_kind = std::env::var_os("SHARDC_KINDS").is_none();
    assert!(
        compared.len() >= if is_every_kind { 10 } else { 1 } && compared.values().all(|count| count.comparisons > 5),
        "{compared:#?}"
    );
}
