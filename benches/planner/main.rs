//! Planning times as tables: the corpus, a model of 96 layers, and the effect of statements and mesh axes: `cargo
//! bench --bench planner`.
#![allow(clippy::print_stdout)]

mod programs;

use programs::{gpt3, layers, llama, mlp, product, proven, training};
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::{CostModel, floor};
use shardc::plan::Plan;
use shardc::program::Program;
use shardc::units::show_seconds;
use std::path::Path;
use std::time::Instant;

/// The allocator of the `shardc` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Cost models: closed forms, simulated times of single steps, and simulated times of whole schedules.
const MODELS: [&str; 3] = ["book", "exact", "whole"];

fn options(model: &str) -> Options {
    let costs = if model == "book" { CostModel::Book } else { CostModel::Exact };
    if model == "whole" {
        return Options { costs, ..Options::default() };
    }
    let (overlap, reshard) = (Overlapping::None, Resharding::Chains);
    Options { costs, overlap, reshard, as_written: true, ..Options::default() }
}

fn main() {
    corpus();
    repeated();
    models();
    statements();
    axes();
}

/// Plans up to three times. Returns the plan and the minimum time in seconds. Long runs are done once.
fn planned(source: &str, model: &str) -> (Plan, f64) {
    let (program, found) = compiler::check(source);
    let program: Program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let options = options(model);
    let topology = compiler::machine(&program, &options).expect("shipped hardware");
    let mut best: Option<(Plan, f64)> = None;
    for _ in 0..3 {
        let start = Instant::now();
        let plan = compiler::plan(&program, &topology, &options).expect("a plan");
        let seconds = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(_, least)| seconds < *least) {
            best = Some((plan, seconds));
        }
        if seconds > 1.0 {
            break;
        }
    }
    best.expect("it was made")
}

/// A table cell: the planning time and, for sequential cost models, whether the plan is proven optimal.
fn cell(model: &str, seconds: f64, plan: &Plan) -> String {
    let time = show_seconds(seconds);
    if model == "whole" { time } else { format!("{time} | {}", proven(plan)) }
}

fn corpus() {
    println!("## The corpus\n\n| costs | programs | median | worst | of |\n| --- | ---: | ---: | ---: | --- |");
    for costs in MODELS {
        let mut times: Vec<(f64, String)> = Vec::new();
        for size in ["small", "scale"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(size);
            for entry in std::fs::read_dir(folder).expect("the corpus") {
                let path = entry.expect("a program").path();
                let source = std::fs::read_to_string(&path).expect("a program");
                let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                times.push((planned(&source, costs).1, format!("{size}/{name}")));
            }
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (worst, of) = times.last().expect("programs");
        let median = times[times.len() / 2].0;
        let count = times.len();
        println!("| {costs} | {count} | {} | {} | {of} |", show_seconds(median), show_seconds(*worst));
    }
}

fn repeated() {
    println!("\n## GPT-3, 96 layers\n\n| costs | time | |\n| --- | ---: | --- |");
    for costs in MODELS {
        let (plan, seconds) = planned(&gpt3(), costs);
        println!("| {costs} | {} | {} |", show_seconds(seconds), proven(&plan));
    }
}

fn models() {
    println!(
        "\n## Models\n\n| model | time | steps in sequence | | with overlap | |\n| --- | ---: | ---: | --- | ---: | --- |"
    );
    let open = ("LLaMA-3 70B, 80 layers, all layouts open, 8x8, `limit memory 10GB`".to_owned(), llama());
    let trained = [32, 200].map(|count| (format!("training step of {count} layers, 8x8"), training(count)));
    let products = (5..=8).map(|axes| (format!("MLP, {axes} axes of 2"), mlp(axes)));
    for (name, source) in std::iter::once(open).chain(trained).chain(products) {
        let (program, _) = compiler::check(&source);
        let program = program.expect("a program");
        let options = Options::default();
        let start = Instant::now();
        let compiled = compiler::compile(&program, &options).expect("a proven schedule");
        let (plan, scale) = (&compiled.plan, compiled.topology.scale);
        let (least, whole) = (floor(plan, &compiled.topology), plan.time());
        let seconds = start.elapsed().as_secs_f64();
        let bound = least.map_or("no bound".to_owned(), |least| format!("{:.2}x the bound", whole.ratio(least.time)));
        println!(
            "| {name} | {} | {} | {} | {} | {bound} |",
            show_seconds(seconds),
            scale.show(plan.totals().time()),
            proven(plan),
            scale.show(whole),
        );
    }
}

fn statements() {
    println!("\n## Statements\n\n| layers | statements | residuals | book | | exact | | whole |");
    println!("| ---: | ---: | --- | ---: | --- | ---: | --- | ---: |");
    for residual in [false, true] {
        for count in [1, 4, 16, 64, 256] {
            let source = layers(count, residual);
            let cells = MODELS.map(|model| {
                let (plan, seconds) = planned(&source, model);
                cell(model, seconds, &plan)
            });
            let residuals = if residual { "yes" } else { "no" };
            println!("| {count} | {} | {residuals} | {} |", 4 * count + 1, cells.join(" | "));
        }
    }
}

fn axes() {
    println!("\n## Mesh axes\n\n| axes of 2 | product | book | | exact | | whole |");
    println!("| ---: | --- | ---: | --- | ---: | --- | ---: |");
    for (large, name, most) in [(false, "of matrices", 6), (true, "of 8 dims", 5)] {
        for count in 1..=most {
            let source = product(count, large);
            let cells = MODELS.map(|model| {
                let (plan, seconds) = planned(&source, model);
                cell(model, seconds, &plan)
            });
            println!("| {count} | {name} | {} |", cells.join(" | "));
        }
    }
}
