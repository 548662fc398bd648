//! Compares the provers of thread blocks with independent simulators.
//!
//! MSCCL programs and MSCCL++ plans are mutated at random. The simulators run them on numbers, in all or many orders,
//! for several consecutive launches. No proven file may ever fail, and no exported file may be refused.
//!
//! `SHARDC_TESTS=full cargo test --release --test exports thread_blocks -- --nocapture` tries 100,000 mutants.

mod file;
mod known;
mod mutants;
mod plan;
mod world;

use crate::common::collectives::schedules;
use crate::common::sets;
use file::FileWorld;
use plan::PlanWorld;
use shardc::export::msccl::{self, Program, Room};
use shardc::export::mscclpp::{self, Plan};
use shardc::export::ranks::{self, Algorithm, Kind};
use std::collections::BTreeMap;
use std::rc::Rc;
use world::{all_runs, one_run};

/// Every method of every collective on these numbers of devices.
fn algorithms(devices: &[u32]) -> Vec<(String, Algorithm)> {
    let mut all = Vec::new();
    for n in devices {
        schedules(*n, |name, _, _, schedule| {
            all.push((name.to_owned(), ranks::algorithm(schedule).expect("a collective")));
        });
    }
    all
}

/// The error of the first failing run, if any.
fn goes_wrong(runs: usize, mut run: impl FnMut() -> Result<(), String>) -> Option<String> {
    (0..runs).find_map(|_| run().err())
}

/// Results of mutants.
#[derive(Default)]
struct Counts {
    unreadable: usize,
    refused: usize,
    right: usize,
    explored: usize,
    /// Mutants that are refused but passed all runs, by kind of flaw.
    careful: BTreeMap<String, usize>,
}

impl Counts {
    #[expect(clippy::print_stdout, reason = "how many mutants were caught is worth reading")]
    fn told(&self, what: &str) {
        let careful: usize = self.careful.values().sum();
        let all = self.unreadable + self.refused + self.right + careful;
        println!(
            "{what}: {all} mutants, of which {} are unreadable, {} wrong and refused, {} proven and right ({} of them in \
             all orders), {careful} right in the runs tried and refused: {:?}",
            self.unreadable, self.refused, self.right, self.explored, self.careful
        );
    }
}

/// The name of a flaw's variant.
fn variant(flaw: &impl std::fmt::Debug) -> String {
    format!("{flaw:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

fn plan_runs(plan: &Plan, kind: Kind, runs: usize, random: &mut fastrand::Rng) -> Option<String> {
    goes_wrong(runs, || {
        let world = PlanWorld::new(plan, kind, random).ok_or("an operation cannot be done")?;
        one_run(world, random)
    })
}

/// Number of messages that a connection can hold: eight slots, of which the Simple protocol takes four per message.
const ROOM: usize = 2;

fn file_runs(program: &Rc<Program>, kind: Kind, runs: usize, random: &mut fastrand::Rng) -> Option<String> {
    goes_wrong(runs, || {
        let together = random.choice([1, 2, usize::MAX]).unwrap_or(1);
        let world = FileWorld::new(program, kind, ROOM, together).ok_or("the buffers do not fit")?;
        one_run(world, random)
    })
}

fn devices() -> &'static [u32] {
    if sets::are_full() { &[2, 3, 4, 5, 6, 7, 8] } else { &[2, 3, 4] }
}

/// Exports are proven, and correct in all runs.
#[test]
fn exports_are_right() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut explored = 0;
    for (name, algorithm) in algorithms(devices()) {
        let kind = algorithm.kind;
        let plan = mscclpp::build(&algorithm, "it").expect("a plan");
        mscclpp::prove(&plan, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        let wrong = plan_runs(&plan, kind, 6, &mut random);
        assert_eq!(wrong, None, "{name}:\n{}", mscclpp::write(&plan));
        let program = Rc::new(msccl::build(&algorithm, "it", &msccl::Options::default()).expect("a file"));
        // One message per connection is sufficient.
        for slots in [4, 8] {
            let room = Room { slots, ..Room::of(program.dialect) };
            msccl::prove(&program, None, room).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        }
        assert_eq!(file_runs(&program, kind, 6, &mut random), None, "{name}");
        if program.gpus.len() == 2 {
            let world = FileWorld::new(&program, kind, 1, 1).expect("a file");
            explored += usize::from(all_runs(&world, 20_000).unwrap_or_else(|wrong| panic!("{name}: {wrong}")));
            let world = PlanWorld::new(&plan, kind, &mut random).expect("a plan");
            explored += usize::from(all_runs(&world, 20_000).unwrap_or_else(|wrong| panic!("{name}: {wrong}")));
        }
    }
    assert!(explored >= 10, "{explored}");
}

/// Number of mutants per program.
fn each(programs: usize) -> usize {
    if sets::are_full() { 50_000usize.div_ceil(programs) } else { 6 }
}

#[test]
fn no_wrong_plan_is_proven() {
    let all = algorithms(devices());
    let each = each(all.len());
    let mut random = fastrand::Rng::with_seed(2);
    let mut counts = Counts::default();
    for (name, algorithm) in all {
        let right = mscclpp::build(&algorithm, "it").expect("a plan");
        for _ in 0..each {
            let plan = mutants::of_plan(&right, &mut random);
            let proof = mscclpp::prove(&plan, None);
            let text = || mscclpp::write(&plan);
            match proof {
                Ok(_) => {
                    let wrong = plan_runs(&plan, algorithm.kind, 10, &mut random);
                    assert_eq!(wrong, None, "{name}: proven, and wrong:\n{}", text());
                    counts.right += 1;
                    if plan.gpus.len() == 2 {
                        let world = PlanWorld::new(&plan, algorithm.kind, &mut random).expect("it ran");
                        let ended =
                            all_runs(&world, 2_000).unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{}", text()));
                        counts.explored += usize::from(ended);
                    }
                }
                Err(flaw) => match plan_runs(&plan, algorithm.kind, 40, &mut random) {
                    Some(_) => counts.refused += 1,
                    None => *counts.careful.entry(variant(&flaw)).or_default() += 1,
                },
            }
        }
    }
    counts.told("MSCCL++");
    assert!(counts.refused > 300 && counts.right > 50);
    assert!(counts.careful.values().sum::<usize>() * 5 < counts.refused, "{:?}", counts.careful);
}

#[test]
fn no_wrong_file_is_proven() {
    let all = algorithms(devices());
    let each = each(all.len());
    let mut random = fastrand::Rng::with_seed(3);
    let mut counts = Counts::default();
    for (name, algorithm) in all {
        let options = msccl::Options::default();
        let right = msccl::build(&algorithm, "it", &options).expect("a file");
        for _ in 0..each {
            let text = msccl::write(&mutants::of_file(&right, &mut random), &options);
            let Ok(written) = msccl::read(&text) else {
                counts.unreadable += 1;
                continue;
            };
            let program = Rc::new(written.program);
            match msccl::prove(&program, None, Room::of(program.dialect)) {
                Ok(_) => {
                    let wrong = file_runs(&program, algorithm.kind, 10, &mut random);
                    assert_eq!(wrong, None, "{name}: proven, and wrong:\n{text}");
                    counts.right += 1;
                    if program.gpus.len() == 2 {
                        let world = FileWorld::new(&program, algorithm.kind, ROOM, 1).expect("it ran");
                        let ended = all_runs(&world, 2_000).unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{text}"));
                        counts.explored += usize::from(ended);
                    }
                }
                Err(flaw) => match file_runs(&program, algorithm.kind, 40, &mut random) {
                    Some(_) => counts.refused += 1,
                    None => *counts.careful.entry(variant(&flaw)).or_default() += 1,
                },
            }
        }
    }
    counts.told("MSCCL");
    assert!(counts.refused > 300 && counts.right > 50);
    assert!(counts.careful.values().sum::<usize>() * 5 < counts.refused, "{:?}", counts.careful);
}
