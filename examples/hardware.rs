//! Changes the bandwidth of a hardware profile, and plots the time of an AllReduce against its size.
//!
//! `cargo run --example hardware`
#![expect(clippy::print_stdout, reason = "examples print what they find")]

use shardc::compiler::{self, Options};
use shardc::topology::Hardware;
use shardc::units::{Bytes, Rate};
use std::error::Error;
use std::iter::successors;

/// The profile of a small machine. Figures without a unit are in base units: seconds, bytes, operations.
const PROFILE: &str = r#"
name = "bench"
bf16_flops = 100e12
int8_flops = 200e12
hbm_bytes = "16GB"
hbm_bandwidth = 800e9

[network]
name = "links"
one_way = 20e9
hop_latency = "1us"
wiring = "ring"
"#;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let slow = Hardware::from_toml(PROFILE)?;
    let mut fast = slow.clone();
    fast.network.one_way = Rate::new(4 * slow.network.one_way.per_second()).ok_or("a rate is not 0")?;

    println!("{:>10} {:>11} {:>11}   each # is a doubling of the time over 1 us", "size", "links", "4x faster");
    for rows in (0..=16).step_by(2).map(|power| 1u64 << power) {
        let [before, after] = [time(&slow, rows)?, time(&fast, rows)?];
        let doublings = successors(Some(2e-6), |time| Some(2.0 * time)).take_while(|time| *time <= before);
        let bar: String = doublings.map(|_| '#').collect();
        println!("{:>10} {:>8.1} us {:>8.1} us   {bar}", Bytes(rows * ROW).to_string(), before * 1e6, after * 1e6);
        // Small arrays are latency-bound, large ones bandwidth-bound.
        assert!(after <= before && before <= 4.0 * after);
    }
    Ok(())
}

/// Bytes of a row: 512 elements of two bytes.
const ROW: u64 = 1024;

/// Seconds for an AllReduce of an array with this many rows over eight devices.
fn time(hardware: &Hardware, rows: u64) -> Result<f64, Box<dyn Error>> {
    let source = format!(
        "mesh {{X: 8 ring}}
         A: bf16[{rows}, 512]{{U_X}}
         B[{rows}, 512] = A"
    );
    let (program, diagnostics) = compiler::check(&source);
    let program = program.ok_or(diagnostics)?;

    // The program names no hardware, so the options provide it.
    let options = Options { hardware: Some(hardware.clone()), ..Options::default() };
    let topology = compiler::machine(&program, &options)?;
    let plan = compiler::plan(&program, &topology, &options)?;
    Ok(topology.scale.seconds(plan.totals().communication))
}
