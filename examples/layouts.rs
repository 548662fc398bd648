//! Compares layouts of one product: the time of each, and the bytes that a device receives.
//!
//! `cargo run --example layouts`
#![expect(clippy::print_stdout, reason = "examples print what they find")]

use shardc::compiler::{self, Options};
use shardc::plan::Plan;
use shardc::topology::Topology;
use std::error::Error;

/// Layouts of `A` and `W` on mesh axis X, and their name in the book.
const LAYOUTS: [[&str; 3]; 2] = [["B_X, D", "D, F", "data parallel"], ["B, D", "D, F_X", "tensor parallel"]];

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>6}  {:<16} {:>10} {:>10}  collectives", "B", "layout", "time", "received");
    for batch in [16, 256, 4096] {
        for [a, w, name] in LAYOUTS {
            let (topology, plan) = planned(&product(batch, a, w))?;
            let totals = plan.totals();
            let (time, received) = (topology.scale.show(totals.time()), totals.received().to_string());
            // With few rows, the weights dominate the time: it is faster to move A, too, so that each device reads a
            // part of W.
            let moves: Vec<String> =
                plan.ids().filter(|id| plan.communicates(*id)).map(|id| plan.op_name(id)).collect();
            println!("{batch:>6}  {name:<16} {time:>10} {received:>10}  {}", moves.join(", "));
        }
    }
    Ok(())
}

/// `C = A * W` with its operands in these layouts, and the result replicated on all devices.
fn product(batch: u64, a: &str, w: &str) -> String {
    format!(
        "mesh {{X: 4 ring}} on tpu_v5e
         dims {{B: {batch}, D: 2048, F: 2048}}
         A: bf16[{a}]
         W: bf16[{w}]
         C[B, F] = A * W"
    )
}

/// The machine of a program and its plan, which suffice for a comparison. `compiler::compile` also creates and proves
/// the schedule.
fn planned(source: &str) -> Result<(Topology, Plan), Box<dyn Error>> {
    let (program, diagnostics) = compiler::check(source);
    let program = program.ok_or(diagnostics)?;
    let options = Options::default();
    let topology = compiler::machine(&program, &options)?;
    let plan = compiler::plan(&program, &topology, &options)?;
    Ok((topology, plan))
}
