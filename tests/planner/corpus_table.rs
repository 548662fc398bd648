//! The seventy programs against the best plans that a brute-force search found: `tests/corpus/table.json`.
//!
//! Times are those of the book's formulas in microseconds, bytes what a device receives under ideal collectives, of
//! the plan with the fewest bytes and of that with no more operations than XLA's plan.
//!
//! `SHARDC_CORPUS=write cargo test --test planner corpus_table` writes `docs/corpus.md`.

use serde::Deserialize;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::Plan;
use shardc::report::Findings;
use shardc::sim::clock;
use shardc::units::{Bytes, show_seconds};
use std::fmt::Write as _;
use std::path::Path;

#[derive(Deserialize)]
struct Row {
    program: String,
    small: Best,
    scale: Best,
}

#[derive(Deserialize)]
struct Best {
    time_us: f64,
    bytes: u64,
    xla_time_us: f64,
    xla_bytes: u64,
    xla_flops: u128,
    bytes_at_xla_flops: u64,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("../corpus/table.json")).expect("a table")
}

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(path).with_extension("shard");
    std::fs::read_to_string(path).expect("a program")
}

fn planned(path: &str, more: &str, costs: CostModel) -> Result<(Plan, f64), String> {
    let source = source(path) + more;
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{found:?}"));
    let options = Options { costs, overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let topology = compiler::machine(&program, &options).expect("a machine");
    let plan = compiler::plan(&program, &topology, &options).map_err(|found| format!("{found:?}\n{source}"))?;
    let time = topology.scale.seconds(plan.totals().time()) * 1e6;
    Ok((plan, time))
}

/// What the plans of a program have more than the best that is known.
fn worse(path: &str, best: &Best) -> Vec<String> {
    excess(path, best).unwrap_or_else(|failure| vec![failure])
}

fn excess(path: &str, best: &Best) -> Result<Vec<String>, String> {
    let mut worse = Vec::new();
    let (plan, time) = planned(path, "", CostModel::Book)?;
    // The table has two decimals.
    if time > best.time_us + 0.006 {
        worse.push(format!("{path}: {time} us, {} is possible\n{plan}", best.time_us));
    }
    let (plan, _) = planned(path, "", CostModel::Bytes)?;
    let bytes = plan.totals().received().0;
    if bytes > best.bytes {
        worse.push(format!("{path}: {bytes} bytes, {} is possible\n{plan}", best.bytes));
    }
    if best.xla_flops > 0 {
        let limit = format!("\nlimit flops {}\n", best.xla_flops);
        let (plan, _) = planned(path, &limit, CostModel::Bytes)?;
        let bytes = plan.totals().received().0;
        assert!(plan.totals().flops <= best.xla_flops, "{path}");
        if bytes > best.bytes_at_xla_flops {
            worse.push(format!(
                "{path}: {bytes} bytes, {} is possible with as few operations\n{plan}",
                best.bytes_at_xla_flops
            ));
        }
    }
    Ok(worse)
}

#[test]
fn no_plan_at_scale_is_worse_than_the_best_known() {
    let worse: Vec<String> =
        rows().iter().flat_map(|row| worse(&format!("scale/{}", row.program), &row.scale)).collect();
    assert!(worse.is_empty(), "{} worse\n{}", worse.len(), worse.join("\n"));
}

#[test]
fn no_small_plan_is_worse_than_the_best_known() {
    let worse: Vec<String> =
        rows().iter().flat_map(|row| worse(&format!("small/{}", row.program), &row.small)).collect();
    assert!(worse.is_empty(), "{} worse\n{}", worse.len(), worse.join("\n"));
}

const HEAD: &str = "\
# Plans of seventy programs

The programs of `tests/corpus/scale`, one line of a model each: what XLA's partitioner makes of them (JAX 0.10.2 with
Shardy, on forced host devices) and what `shardc` does. Made by `SHARDC_CORPUS=write cargo test --test planner
corpus_table`, which compares them in every run.

**By the book's formulas**, on TPU v5e, communication and compute one after the other: the time of XLA's plan, of ours
(`--costs book`), and what no plan of whole axes takes less than, which is proven by the search. **Bytes** are what a
device receives, of XLA's plan and of ours (`--costs bytes`, axes in parts). **Simulated**: the plan with the least
simulated time (the default), its steps one after the other and all of it on the links, where steps overlap; and what
no schedule of its steps can beat.
";

/// A row of the document, and how much longer XLA's plan takes.
fn row(row: &Row) -> (String, f64) {
    let path = format!("scale/{}", row.program);
    let (book, time) = planned(&path, "", CostModel::Book).expect("a plan");
    let (fewest, _) = planned(&path, "", CostModel::Bytes).expect("a plan");
    let (program, _) = compiler::check(&source(&path));
    let options = Options::default();
    let exact = compiler::preview(&program.expect("a program"), &options).expect("a schedule");
    let scale = exact.topology.scale;
    let makespan = clock::run(&exact.schedule, &exact.topology).expect("a time").makespan;
    let bytes = |count: u64| if count == 0 { "0".to_owned() } else { Bytes(count).to_string() };
    let ratio = if time == 0.0 { 1.0 } else { row.scale.xla_time_us / time };
    let text = format!(
        "| {} | {} | {} | {ratio:.2} | {} | {} | {} | {} | {} | {} |",
        row.program,
        show_seconds(row.scale.xla_time_us * 1e-6),
        show_seconds(time * 1e-6),
        scale_of(&book).show(book.lower_bound),
        bytes(row.scale.xla_bytes),
        bytes(fewest.totals().received().0),
        scale.show(exact.plan.totals().time()),
        scale.show(makespan),
        Findings::new(&exact.plan, &exact.topology).bound,
    );
    (text, ratio)
}

/// The unit in which the times of a plan are counted.
fn scale_of(plan: &Plan) -> shardc::units::TimeScale {
    compiler::machine(&plan.program, &Options::default()).expect("a machine").scale
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| program | XLA | ours | XLA / ours | no plan below | bytes of XLA | our bytes ");
    text.push_str("| simulated steps | together | bound |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    let mut ratios = Vec::new();
    for program in rows() {
        let (line, ratio) = row(&program);
        writeln!(text, "{line}").expect("a string");
        ratios.push(ratio);
    }
    let longer = ratios.iter().filter(|ratio| **ratio > 1.05).count();
    let most = ratios.iter().copied().fold(1.0, f64::max);
    let least = ratios.iter().copied().fold(1.0, f64::min);
    let sum = format!(
        "\nXLA's plan takes over 5 % longer in {longer} of {} programs, at most {most:.1} times as long; at best \
         {least:.2} times as long.\n",
        ratios.len()
    );
    text + &sum
}

#[test]
fn the_document_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/corpus.md");
    let text = document();
    if std::env::var("SHARDC_CORPUS").is_ok() {
        std::fs::write(path, &text).expect("a writable tree");
    }
    let written = std::fs::read_to_string(path).expect("docs/corpus.md");
    assert!(written == text, "write docs/corpus.md anew: it would be\n{text}");
}
