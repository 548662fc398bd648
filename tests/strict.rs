//! `--strict`: only collectives and moves that are written communicate, and the lines that are lacking are told.

mod common;

use common::{programs, short_name};
use shardc::advice;
use shardc::compiler::{self, Options, Spelling};
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
        let found = match compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default()) {
            Ok(()) => continue,
            Err(found) => found,
        };
        assert!(unwritten, "{}", short_name(&path));
        if found.iter().any(|found| found.fixes.is_empty()) {
            let changed = advice::apply_all(&source, &advice::unwritten(&plan, advice::Extent::Needed));
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

/// Functions of several arguments and in every form are spelled as they are read.
#[test]
fn every_form_is_spelled() {
    let ground =
        "mesh {X: 4} on tpu_v5e\ndims {I: 16, J: 32, S: 32}\nA: f32[I_X, J]\nB: f32[I, J_X]\nM: bool[I, J_X]\n";
    for value in [
        "max(A, B)",
        "min(A, -2) + B",
        "max(2, B) - A",
        "where(M, A, B)",
        "where(M, A, 0.5)",
        "where(M, -1, A)",
        "where(or(M, not(M)), A, 1e-9)",
        "2 * A - B",
        "softmax_J(B) / A",
        "1 / (square(A) + 1) + bf16(B)",
        "-A - 3 + B",
        "A + sum_I(B)",
        "max_J(A) + min_J(B)",
        "mean_J(A) - B",
        "rename_{J->S}(A) - B",
        "gelu(A) + rsqrt(square(B) + 1)",
        "A - AllToAll_{X,I}(B) + B",
    ] {
        let source = format!("{ground}R = {value}\nT = relu(R)\noutput T\n");
        let program = checked(&source);
        let Err(found) = compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default()) else {
            panic!("{value} needs no communication")
        };
        assert!(found.iter().all(|found| !found.fixes.is_empty()), "{source}");
        let changed = advice::apply_all(&source, &found);
        let (strict, plan) = (planned(&checked(&changed), true), planned(&program, false));
        assert_eq!(communication(&strict.expect("strict")), communication(&plan.expect("a plan")), "{changed}");
    }
}

#[test]
fn dbg() {
    for path in std::fs::read_dir("/tmp/f").unwrap() {
        let path = path.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let program = checked(&source);
        let plan = planned(&program, false).expect("a plan");
        println!("=== {}\n{}", path.display(), plan.program);
        for id in plan.ids() {
            let s = plan.step(id);
            println!("  {id:?} {} value {} user {} {}", plan.op_name(id), s.value.0, s.user.0, plan.array(id));
        }
        println!("outputs {:?} carried {:?}", plan.outputs, plan.carried);
        let changed = advice::apply_all(&source, &advice::unwritten(&plan, advice::Extent::Needed));
        let found = compiler::check(&changed).1;
        println!("{changed}\n-- all\n{}", advice::apply_all(&source, &advice::unwritten(&plan, advice::Extent::All)));
        for f in found.iter() {
            println!("!! {} {:?}", f.message, f.labels);
        }
        match compiler::check_strict(&source, &[], Spelling::Exact, &program, &Options::default()) {
            Ok(()) => println!("STRICT ALREADY"),
            Err(found) => {
                let ok = found.iter().all(|f| !f.fixes.is_empty());
                println!("OFFERED {ok}");
                for f in found.iter() {
                    println!("{}", f.help.clone().unwrap_or_default());
                }
                if ok {
                    let strict = planned(&checked(&changed), true).expect("a strict plan");
                    let (a, b) = (communication(&strict), communication(&plan));
                    println!("SAME {} {a:?} {b:?}", a == b);
                }
            }
        }
    }
}
