//! From the text of a program to a plan, a proven schedule, and its time.
//!
//! `cargo run --example plan`
#![expect(clippy::print_stdout, reason = "examples print what they find")]

use shardc::compiler::{self, Options};
use shardc::sim::clock;
use std::error::Error;

/// A tensor-parallel MLP. `Win` is sharded by columns and `Wout` by rows, so that only the partial sums of the last
/// product must be combined.
const SOURCE: &str = "
mesh {Y: 8 ring} on tpu_v5e
dims {B: 1024, D: 4096, F: 16384}

In:   bf16[B, D]
Win:  bf16[D, F_Y]
Wout: bf16[F_Y, D]

T = In * Win
Out[B, D] = relu(T) * Wout
";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // All errors are reported at once. The program is `None` if there are any.
    let (program, diagnostics) = compiler::check(SOURCE);
    let program = program.ok_or(diagnostics)?;

    // The plan lists the communication. The schedule lists the operations of each device; it is proven to compute the
    // program.
    let compiled = compiler::compile(&program, &Options::default())?;
    let (plan, scale) = (&compiled.plan, compiled.topology.scale);
    assert_eq!(compiled.proof.devices, 8);

    println!("{:<28} {:<16} {:>10} {:>10}", "step", "result", "time", "received");
    for id in plan.ids().filter(|id| plan.is_done(*id)) {
        let step = plan.step(id);
        let (time, received) = (scale.show(step.cost.time), step.usage.received());
        println!("{:<28} {:<16} {time:>10} {received:>10}", plan.op_name(id), plan.array(id));
    }

    // The plan adds up the times of its steps. The simulator runs the whole schedule on the links, where steps may
    // overlap.
    let timing = clock::run(&compiled.schedule, &compiled.topology)?;
    println!("\nsteps one by one {}, schedule {}", scale.show(plan.totals().time()), scale.show(timing.makespan));
    Ok(())
}
