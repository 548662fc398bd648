//! The seventy programs against the best plans that a brute-force search found: `tests/corpus/table.json`.
//!
//! Times are those of the book's formulas in microseconds, bytes what a device receives under ideal collectives, of
//! the plan with the fewest bytes and of that with no more operations than XLA's plan.

use serde::Deserialize;
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::plan::Plan;
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
    xla_flops: u128,
    bytes_at_xla_flops: u64,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("corpus/table.json")).expect("a table")
}

fn planned(path: &str, more: &str, costs: CostModel) -> Result<(Plan, f64), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(path).with_extension("shard");
    let source = std::fs::read_to_string(path).expect("a program") + more;
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{found:?}"));
    let options = Options { costs, ..Options::default() };
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
    let bytes = plan.totals().received.0;
    if bytes > best.bytes {
        worse.push(format!("{path}: {bytes} bytes, {} is possible\n{plan}", best.bytes));
    }
    if best.xla_flops > 0 {
        let limit = format!("\nlimit flops {}\n", best.xla_flops);
        let (plan, _) = planned(path, &limit, CostModel::Bytes)?;
        let bytes = plan.totals().received.0;
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
