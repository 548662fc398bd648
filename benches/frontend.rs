//! Statements parsed and checked per second, adversarial inputs, and the compilation of small programs: `cargo bench
//! --bench frontend`.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::lower;
use shardc::syntax;
use std::fmt::Write;

/// The allocator of the `shardc` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// A program with this number of statements: inputs, products, sums and moves that depend on each other.
fn program(statements: usize) -> String {
    let mut text = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\n".to_owned();
    for n in 0..statements.saturating_sub(2) / 5 {
        let last = n.saturating_sub(1);
        let from = if n == 0 { "A0".to_owned() } else { format!("E{last}") };
        write!(
            text,
            "A{n}: f32[I_X, J]\nB{n}: f32[J, K_Y]\nC{n}[I_X, K_Y] = {from} * B{n}  # {n}\n\
             D{n} = 2 * relu(C{n}) + C{n}\nA{n} * rename_{{K->J}}(D{n}) -> E{n}[I_X, J]\n",
        )
        .expect("text grows");
    }
    text
}

/// A chain of elementwise statements, each using the previous one.
fn chain(statements: usize) -> String {
    let mut text = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {I: 64, J: 64}\nA0: f32[I_X, J]\n".to_owned();
    for n in 1..statements.saturating_sub(2) {
        writeln!(text, "A{n}[I_X, J] = relu(A{last}) + A{last}", last = n - 1).expect("text grows");
    }
    text
}

#[divan::bench(args = [1_000, 10_000, 100_000], max_time = 10)]
fn parse(bencher: Bencher<'_, '_>, statements: usize) {
    let text = chain(statements);
    assert!(!syntax::parse(&text).1.has_errors());
    bencher.counter(ItemsCount::new(statements)).bench(|| syntax::parse(&text));
}

#[divan::bench(args = [1_000, 10_000, 100_000], max_time = 10)]
fn parse_and_check(bencher: Bencher<'_, '_>, statements: usize) {
    let text = chain(statements);
    let (program, diagnostics) = compiler::check(&text);
    assert!(program.is_some(), "{:?}", diagnostics.iter().next());
    bencher.counter(ItemsCount::new(statements)).bench(|| compiler::check(&text));
}

#[divan::bench(args = [1_000, 10_000, 100_000], max_time = 10)]
fn parse_and_check_products(bencher: Bencher<'_, '_>, statements: usize) {
    let text = program(statements);
    let (program, diagnostics) = compiler::check(&text);
    assert!(
        program.is_some(),
        "{:?}",
        diagnostics.iter().find(|found| found.severity == shardc::diag::Severity::Error)
    );
    bencher.counter(ItemsCount::new(statements)).bench(|| compiler::check(&text));
}

#[divan::bench(args = [1_000, 10_000, 100_000], max_time = 10)]
fn format(bencher: Bencher<'_, '_>, statements: usize) {
    let text = chain(statements);
    bencher.counter(ItemsCount::new(statements)).bench(|| syntax::format(&text));
}

/// Adversarial inputs. Each is refused or parsed in time proportional to its length.
const HOSTILE: [&str; 8] =
    ["nested", "unclosed", "minus signs", "long line", "long sum", "open lines", "comments", "one name"];

fn hostile(kind: &str) -> String {
    let half = 1 << 19;
    match kind {
        "nested" => format!("A = {}B{}", "(".repeat(half), ")".repeat(half)),
        "unclosed" => "A = (\n".repeat(1 << 17),
        "minus signs" => format!("A = {}B", "-".repeat(2 * half)),
        "long line" => format!("A = {}B", "B * ".repeat(half / 2)),
        "long sum" => format!("A = {}B", "B + ".repeat(half / 2)),
        "open lines" => format!("A = (B\n{}", "\n# c\n".repeat(1 << 17)),
        "comments" => format!("A = B *{}", " # c\n".repeat(1 << 17)),
        _ => "A".repeat(2 * half),
    }
}

#[divan::bench(args = HOSTILE)]
fn hostile_texts(bencher: Bencher<'_, '_>, kind: &str) {
    let text = hostile(kind);
    bencher.counter(BytesCount::new(text.len())).bench(|| compiler::check(&text));
}

/// Parses, checks, plans and lowers a program, without the proof.
#[divan::bench(args = ["megatron_mlp", "attention"])]
fn to_schedule(bencher: Bencher<'_, '_>, example: &str) {
    lowered(bencher, example, CostModel::Exact);
}

/// The same with the book's closed forms as cost model.
#[divan::bench(args = ["megatron_mlp", "attention"])]
fn to_schedule_by_the_book(bencher: Bencher<'_, '_>, example: &str) {
    lowered(bencher, example, CostModel::Book);
}

fn lowered(bencher: Bencher<'_, '_>, example: &str, costs: CostModel) {
    let text = match example {
        "megatron_mlp" => include_str!("../examples/megatron_mlp.shard"),
        _ => include_str!("../examples/attention.shard"),
    };
    let options = Options { costs, ..Options::default() };
    bencher.bench(|| {
        let program = compiler::check(text).0.expect("a sound example");
        let topology = compiler::machine(&program, &options).expect("shipped hardware");
        let plan = compiler::plan(&program, &topology, &options).expect("a plan");
        lower::lower(&plan).expect("a schedule")
    });
}
