//! `--strict`: only collectives and moves that are written communicate, and the lines that are lacking are told.

mod common;

use common::{programs, short_name};
use shardc::advice;
use shardc::compiler::{self, Options};
use shardc::plan::Plan;
use shardc::program::Program;

fn checked(source: &str) -> Program {
    let (program, diagnostics) = compiler::check(source);
    program.unwrap_or_else(|| panic!("{source}\n{diagnostics:?}"))
}

fn planned(program: &Program, strict: bool) -> Result<Plan, shardc::diag::Diagnostics> {
    let options = Options { strict, ..Options::default() };
    let topology = compiler::machine(program, &options)?;
    compiler::plan(program, &topology, &options)
}

/// The collectives of a plan by name, with how often and what the fullest device receives.
fn communication(plan: &Plan) -> Vec<(String, u64, u64)> {
    let moves = plan.ids().filter(|id| plan.communicates(*id));
    let mut moves: Vec<_> = moves.map(|id| (plan.op_name(id), plan.times(id), plan.step(id).received.0)).collect();
    moves.sort();
    moves
}

/// With the lines that the findings offer, each program says all that it communicates, and communicates the same.
#[test]
fn the_lines_that_are_offered_make_programs_strict() {
    let mut offered = 0;
    let mut failures = Vec::new();
    let wrong = programs("tests/cases/wrong").into_iter().filter(|path| short_name(path).contains("/strict_"));
    let folders = ["examples", "tests/corpus/small", "tests/corpus/scale"];
    for path in folders.into_iter().flat_map(programs).chain(wrong) {
        let source = std::fs::read_to_string(&path).expect("a program");
        let program = checked(&source);
        let plan = planned(&program, false).expect("a plan");
        let unwritten = plan.ids().any(|id| plan.is_unwritten(id));
        let found = match compiler::check_strict(&source, &[], &program, &Options::default()) {
            Ok(()) => continue,
            Err(found) => found,
        };
        assert!(unwritten, "{}", short_name(&path));
        if found.iter().any(|found| found.fixes.is_empty()) {
            let changed = advice::apply_all(&source, &advice::unwritten(&plan));
            failures.push(format!("{}\n{changed}\n{:?}", short_name(&path), compiler::check(&changed).1));
            continue;
        }
        let changed = advice::apply_all(&source, &found);
        let strict = planned(&checked(&changed), true).expect("a strict plan");
        if communication(&strict) != communication(&plan) {
            let (a, b) = (communication(&strict), communication(&plan));
            failures.push(format!("{}\n{changed}\n{a:?}\n{b:?}", short_name(&path)));
        }
        for found in found.iter() {
            let help = found.help.as_deref().unwrap_or_default();
            assert!(help.contains("write"), "{help}");
            offered += found.fixes.len();
        }
    }
    assert!(failures.is_empty(), "{} {}", failures.len(), failures.join("\n\n"));
    assert!(offered >= 50, "{offered} changes");
}
