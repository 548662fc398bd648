//! Helpers shared by several integration tests.
#![allow(clippy::print_stdout, dead_code, missing_docs, unreachable_pub)]

pub mod collectives;
pub mod cpu_time;
pub mod formats;
pub mod frontend;
pub mod mutants;
pub mod numeric;
pub mod page;
pub mod process;
pub mod schedules;
pub mod sets;
pub mod shifted;
pub mod single;
pub mod timed;
pub mod tools;
pub mod usage;

use itertools::Itertools;
use shardc::compiler::{self, Compiled, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::diag::Diagnostics;
use shardc::plan::{StepId, StepOp};
use shardc::recipe::Lowering;
use shardc::schedule::Schedule;
use std::path::{Path, PathBuf};

/// As in the command; without it tests spend a fifth of their time in the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compiles a correct program.
pub fn compile(source: &str) -> Compiled {
    compile_with(source, CostModel::default())
}

/// Compiles a correct program, planned with these costs.
pub fn compile_with(source: &str, costs: CostModel) -> Compiled {
    compile_by(source, &Options { costs, alternatives: true, ..Options::default() })
}

/// Compiles a correct program with these lowering options.
pub fn compile_lowered(source: &str, lowering: Lowering) -> Compiled {
    compile_by(source, &Options { lowering, alternatives: true, ..Options::default() })
}

/// Compiles a correct program without overlap: whole steps in program order.
pub fn apart(source: &str) -> Compiled {
    compile_by(source, &Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() })
}

/// Compiles a correct program with these options.
pub fn compile_by(source: &str, options: &Options) -> Compiled {
    let (program, diagnostics) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{}\n{source}", codes(&diagnostics).join(", ")));
    compiler::compile(&program, options).unwrap_or_else(|found| panic!("{found:?}\n{source}"))
}

/// The codes of all errors of a program.
pub fn errors(source: &str) -> Vec<String> {
    let (_, diagnostics) = compiler::check(source);
    let errors = diagnostics.iter().filter(|found| found.severity == shardc::diag::Severity::Error);
    errors.map(|found| found.code.clone()).collect()
}

fn codes(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.iter().map(|found| format!("{}: {}", found.code, found.message)).collect()
}

/// The collectives of a plan in the book's terms, without free slices.
pub fn collectives(compiled: &Compiled) -> Vec<String> {
    let plan = &compiled.plan;
    let moved = plan
        .ids()
        .filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)) && plan.step(*id).usage.received().0 > 0);
    moved.map(|id| format!("{} -> {}", plan.op_name(id), plan.array(id))).collect()
}

/// The first step that is a collective.
pub fn first_collective(compiled: &Compiled) -> StepId {
    let plan = &compiled.plan;
    plan.ids().find(|id| matches!(plan.step(*id).op, StepOp::Collective(_))).expect("a collective")
}

/// All `.shard` files in a folder of the repository, sorted.
pub fn programs(folder: &str) -> Vec<PathBuf> {
    files_of(folder, "shard")
}

/// All files with an extension in a folder of the repository, sorted.
pub fn files_of(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), ending, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{ending} files in {folder}");
    found
}

/// The examples with dims small enough to compute; models, questions and rivals have real sizes.
pub fn small_examples() -> impl Iterator<Item = PathBuf> {
    let is_large =
        |path: &PathBuf| ["models", "questions", "rivals"].iter().any(|part| path.iter().any(|p| p == *part));
    programs("examples").into_iter().filter(move |path| !is_large(path))
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            walk(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

/// The path relative to the repository, with `/` and without extension: `examples/book/case1`.
pub fn short_name(path: &Path) -> String {
    let below = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("below the repository").with_extension("");
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The methods of a step's operations, in order: `meet_in_middle_ring`.
pub fn step_methods(schedule: &Schedule, step: StepId) -> String {
    let operations = schedule.ids().map(|id| schedule.operation(id));
    let of_step = operations.filter(|operation| operation.step as usize == step.index());
    of_step.filter_map(|operation| operation.method).unique().join(" + ")
}
