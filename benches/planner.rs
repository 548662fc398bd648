//! How long plans take: the corpus, a model of 96 layers, and what statements and mesh axes cost, as tables:
//! `cargo bench --bench planner`.
#![allow(clippy::print_stdout)]

use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::plan::Plan;
use shardc::program::Program;
use shardc::units::show_seconds;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MODELS: [CostModel; 2] = [CostModel::Book, CostModel::Exact];

fn main() {
    corpus();
    repeated();
    statements();
    axes();
}

/// A plan, and the least of up to three times that it takes to make it, in seconds. A plan that takes long is made once.
fn planned(source: &str, costs: CostModel) -> (Plan, f64) {
    let (program, found) = compiler::check(source);
    let program: Program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let options = Options { costs, ..Options::default() };
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

/// What a plan says of itself: that it is the best, or how far the best could be below it.
fn proven(plan: &Plan) -> String {
    if plan.exact {
        return "proven".to_owned();
    }
    let gap = plan.totals().time().ratio(plan.lower_bound);
    format!("within {gap:.2}x")
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
        println!("| {costs:?} | {count} | {} | {} | {of} |", show_seconds(median), show_seconds(*worst));
    }
}

fn repeated() {
    println!("\n## GPT-3, 96 layers\n\n| costs | time | |\n| --- | ---: | --- |");
    for costs in MODELS {
        let two = include_str!("../examples/models/gpt3_layers.shard");
        let (plan, seconds) = planned(&two.replace("LAYERS: 2", "LAYERS: 96"), costs);
        println!("| {costs:?} | {} | {} |", show_seconds(seconds), proven(&plan));
    }
}

/// Layers of two products each, written one after the other; with residuals every input of a layer has two users.
fn layers(count: usize, residual: bool) -> String {
    let mut text = "mesh {X: 4, Y: 2} on tpu_v5p\ndims {B: 4096, D: 8192, F: 32768}\nx0: bf16[B_X, D_Y]\n".to_owned();
    for layer in 0..count {
        let next = layer + 1;
        let rest = if residual { format!(" + x{layer}") } else { String::new() };
        let asked = if next == count { "[B_X, D_Y]" } else { "" };
        write!(
            text,
            "V{layer}: bf16[D_X, F_Y]\nW{layer}: bf16[F_Y, D_X]\n\
             h{layer} = gelu(x{layer} * V{layer})\nx{next}{asked} = h{layer} * W{layer}{rest}\n"
        )
        .expect("text grows");
    }
    text
}

fn statements() {
    println!("\n## Statements\n\n| layers | statements | residuals | book | | exact | |");
    println!("| ---: | ---: | --- | ---: | --- | ---: | --- |");
    for residual in [false, true] {
        for count in [1, 4, 16, 64, 256] {
            let source = layers(count, residual);
            let cells = MODELS.map(|costs| {
                let (plan, seconds) = planned(&source, costs);
                format!("{} | {}", show_seconds(seconds), proven(&plan))
            });
            let residuals = if residual { "yes" } else { "no" };
            println!("| {count} | {} | {residuals} | {} |", 4 * count + 1, cells.join(" | "));
        }
    }
}

const AXES: [&str; 6] = ["X", "Y", "Z", "S", "T", "R"];

/// A product of two matrices on so many axes of 2, or one of eight dims.
fn product(axes: usize, large: bool) -> String {
    let mesh: Vec<String> = AXES[..axes].iter().map(|axis| format!("{axis}: 2")).collect();
    let all = AXES[..axes].concat();
    let mut text = format!("mesh {{{}}} on tpu_v5p\n", mesh.join(", "));
    let (head, body) = match large {
        false => ("dims {I: 8192, J: 8192, K: 8192}", format!("P[I_{all}, J] * Q[J, K_{all}] -> C[I, K]")),
        true => (
            "dims {A: 64, B: 64, C: 64, D: 64, E: 64, F: 64, G: 64, H: 64}",
            format!("P[A, B_{all}, C, D, E] * Q[A, E, F, G, H_{all}] -> R[B, C_{all}, D, F, G, H]"),
        ),
    };
    writeln!(text, "{head}\n{body}").expect("text grows");
    text
}

fn axes() {
    println!("\n## Mesh axes\n\n| axes of 2 | product | book | | exact | |");
    println!("| ---: | --- | ---: | --- | ---: | --- |");
    for (large, name, most) in [(false, "of matrices", 6), (true, "of 8 dims", 5)] {
        for count in 1..=most {
            let source = product(count, large);
            let cells = MODELS.map(|costs| {
                let (plan, seconds) = planned(&source, costs);
                format!("{} | {}", show_seconds(seconds), proven(&plan))
            });
            println!("| {count} | {name} | {} |", cells.join(" | "));
        }
    }
}
