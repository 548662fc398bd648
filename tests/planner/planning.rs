//! Checks the tables of `docs/planning.md`, except for planning times: the programs, and whether their plans are
//! proven optimal, or their distance from the lower bound. Rows that take long are left to the benchmark.
#![allow(missing_docs)]

#[path = "../../benches/planner/programs.rs"]
mod programs;

use crate::common::programs as files;
use programs::{gpt3, layers, llama, mlp, product, proven, training};
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::{Plan, Stop};
use shardc::units::Time;

const DOCUMENT: &str = include_str!("../../docs/planning.md");

fn planned(source: &str, costs: CostModel) -> Plan {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let (overlap, reshard) = (Overlapping::None, Resharding::Chains);
    let options = Options { costs, overlap, reshard, as_written: true, ..Options::default() };
    let topology = compiler::machine(&program, &options).expect("a machine");
    compiler::plan(&program, &topology, &options).expect("a plan")
}

/// The cells of the rows below a heading, without the table header.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, below) = DOCUMENT.split_once(&format!("## {heading}\n")).expect("the heading");
    let section = below.split("\n## ").next().expect("a section");
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// The two cost models of a row, each with the cell that states the proof.
fn said<'r>(row: &[&'r str]) -> [(CostModel, &'r str); 2] {
    let [.., book, _, exact, _] = row else { panic!("{row:?}") };
    [(CostModel::Book, *book), (CostModel::Exact, *exact)]
}

#[test]
fn the_corpus_is_proven() {
    let count = files("tests/corpus").len();
    for (row, model) in rows("The corpus").iter().zip(["book", "exact", "whole"]) {
        assert_eq!(row[..2], [model.to_owned(), count.to_string()]);
    }
    for path in files("tests/corpus") {
        let source = std::fs::read_to_string(&path).expect("a program");
        let plan = planned(&source, CostModel::Book);
        assert!(plan.is_optimal(), "{}", path.display());
    }
}

#[test]
fn layers_that_are_repeated() {
    let rows = rows("GPT-3, 96 layers");
    assert_eq!(rows.len(), 3);
    assert_eq!(proven(&planned(&gpt3(), CostModel::Book)), rows[0][2]);
}

#[test]
fn statements() {
    let rows = rows("Statements");
    assert_eq!(rows.len(), 10);
    for row in rows {
        let (count, residual) = (row[0].parse::<usize>().expect("a number"), row[2] == "yes");
        assert_eq!(row[1], (4 * count + 1).to_string());
        for (costs, said) in said(&row) {
            if count <= 4 || count <= 16 && (!residual || costs == CostModel::Book) {
                assert_eq!(proven(&planned(&layers(count, residual), costs)), said, "{costs:?} {row:?}");
            }
        }
    }
}

/// The schedule of a long program has few operations, and takes nearly the time of the best plan.
#[test]
fn long_schedules_have_few_chunks() {
    let plan = planned(&layers(160, false), CostModel::Exact);
    assert_eq!(plan.stop, Stop::Operations);
    let (time, least) = (plan.totals().time(), plan.lower_bound.time);
    assert!(least > Time::ZERO && time.ratio(least) < 1.01, "{time:?} {least:?}");
    let most = |plan: &Plan| {
        let messages = |id| plan.step(id).usage.whole(&plan.program.mesh).messages.most;
        plan.ids().map(messages).max()
    };
    assert!(most(&plan) < most(&planned(&layers(16, false), CostModel::Exact)));
}

#[test]
fn mesh_axes() {
    let rows = rows("Mesh axes");
    assert_eq!(rows.len(), 11);
    for row in rows {
        let (count, large) = (row[0].parse::<usize>().expect("a number"), row[1] == "of 8 dims");
        for (costs, said) in said(&row).into_iter().filter(|_| count <= if large { 3 } else { 4 }) {
            assert_eq!(proven(&planned(&product(count, large), costs)), said, "{costs:?} {row:?}");
        }
    }
}

#[test]
fn models() {
    let rows = rows("Models");
    assert_eq!(rows.len(), 7);
    // The benchmark plans them.
    for source in [llama(), training(2), training(32)].into_iter().chain((5..=8).map(mlp)) {
        let (program, found) = compiler::check(&source);
        assert!(program.is_some(), "{found:?}\n{source}");
    }
}
