//! Products with a one-hot factor: their times follow a closed form, and no written layouts are faster.

use crate::common::compile;
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::plan::StepOp;
use shardc::topology::Hardware;
use shardc::units::Time;

/// The time of the product of a program, and of one pass over memory.
fn product(source: &str) -> (Time, Time) {
    let compiled = compile(source);
    let plan = &compiled.plan;
    let id = plan.ids().find(|id| matches!(plan.step(*id).op, StepOp::Product { .. })).expect("a product");
    // Bytes per second of the memory, in the units of the topology.
    let pass =
        |bytes: u64| compiled.topology.scale.at_rate(u128::from(bytes), compiled.topology.hardware.hbm_bandwidth);
    let written = plan.step(id).layout.local_bytes(&plan.program.mesh).0;
    (plan.step(id).cost.time, pass(2 * written))
}

/// Rows are read and written once, for any length and sharding of the table.
#[test]
fn a_lookup_reads_and_writes_rows() {
    for (table, rows) in [("V, D", 1 << 15), ("V_X, D", 1 << 15), ("V_X, D", 1 << 20), ("V_X, D", 50257)] {
        let source = format!(
            "mesh {{X: 4 ring}} on tpu_v5p\ndims {{B: 512, V: {rows}, D: 4096}}\nids: i32[B]\nE: bf16[{table}]\n\
             x = bf16(ids == iota_V) * E\ny[B, D] = x"
        );
        let (time, pass) = product(&source);
        assert_eq!(time, pass, "{source}");
    }
    // A table with fewer rows than are looked up is read once.
    let (time, pass) = product(
        "mesh {X: 4 ring} on tpu_v5p\ndims {B: 4096, V: 16, D: 4096}\nids: i32[B]\nE: f32[V, D]\n\
         x[B, D] = f32(ids == iota_V) * E",
    );
    assert!(time < pass && time + time > pass, "{time:?} {pass:?}");
}

/// A row that a number names takes the same time as one that an array names.
#[test]
fn a_number_looks_up_like_an_array() {
    for hardware in ["tpu_v5p", "h100"] {
        let ground = format!(
            "mesh {{X: 4}} on {hardware}\ndims {{L: 8, D: 4096, F: 4096, M: 1}}\nW: bf16[L, D, F_X]\ni: i32[]\n"
        );
        let time = |line: &str| product(&format!("{ground}{line}\noutput a")).0;
        let by_array = time("a = take_L(W, i)");
        for line in ["a = take_L(W, 0)", "a = take_L(W, 7)", "a = slice_{L->M}(W, 3)", "a = bf16(iota_L == 5) *_L W"] {
            assert_eq!(time(line), by_array, "{line} on {hardware}");
        }
    }
}

/// A device computes only those elements of an array of one number that it uses.
#[test]
fn an_array_of_one_number_is_computed_where_it_is_used() {
    let time = |layout: &str, line: &str| {
        let source = format!(
            "mesh {{X: 8 ring}} on tpu_v5p\ndims {{B: 8192, D: 8192}}\nx: f32[B_X, D]\nacc: f32[{layout}] = 0\n\
             repeat 4 {{ {line} }}\noutput acc"
        );
        compile(&source).plan.totals().time()
    };
    assert_eq!(time("B, D", "acc = acc .* 0.5 + x"), time("B_X, D", "acc = acc .* 0.5 + x"));
    // The body writes the layout, and the declaration need not.
    assert_eq!(time("B, D", "acc[B_X, D] = acc .* 0.5 + x"), time("B_X, D", "acc[B_X, D] = acc .* 0.5 + x"));
}

/// A product is a lookup only if the one-hot array is computed in its kernel.
#[test]
fn others_multiply() {
    let ground = "mesh {X: 4 ring} on tpu_v5p\ndims {B: 512, V: 32k, D: 4096}\nids: i32[B]\nE: bf16[V, D]\n";
    let lookup = product(&format!("{ground}x[B, D] = bf16(ids == iota_V) * E")).0;
    for other in [
        "x[B, D] = bf16(ids <= iota_V) * E",
        "n: i32[V]\nx[B, D] = bf16(ids == n) * E",
        "m: i32[B, V]\nx[B, D] = bf16(m == iota_V) * E",
        "hot = bf16(ids == iota_V)\nx[B, D] = hot * E\noutput x, hot",
    ] {
        let time = product(&format!("{ground}{other}")).0;
        let is_kept = other.contains("output");
        assert!(if is_kept { time >= lookup } else { time > lookup + lookup }, "{other}: {time:?} {lookup:?}");
    }
    // Without fusion, the array is in memory and the product multiplies.
    let program = compiler::check(&format!("{ground}x[B, D] = bf16(ids == iota_V) * E")).0.expect("a right program");
    let hardware = Hardware { fusion: shardc::fusion::Fusion::None, ..Hardware::named("tpu_v5p").expect("shipped") };
    let options = Options {
        hardware: Some(hardware),
        overlap: Overlapping::None,
        reshard: Resharding::Chains,
        ..Options::default()
    };
    let topology = compiler::machine(&program, &options).expect("it has rates");
    let plan = compiler::plan(&program, &topology, &options).expect("a plan");
    assert!(plan.totals().time() > lookup + lookup);
}

/// Forward and backward: no written layouts are cheaper than the plan with free ones.
#[test]
fn no_written_layouts_take_less() {
    let time = |source: &str| -> Option<Time> {
        let program = compiler::check(source).0.unwrap_or_else(|| panic!("{source}"));
        let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
        let topology = compiler::machine(&program, &options).expect("it has rates");
        compiler::plan(&program, &topology, &options).ok().map(|plan| plan.totals().time())
    };
    let layouts = |dims: [&str; 2]| {
        let axes = ["", "_X", "_Y"];
        let all = axes.iter().cartesian_product(axes).filter(|(a, b)| **a != *b || a.is_empty());
        all.map(|(a, b)| format!("[{}{a}, {}{b}]", dims[0], dims[1])).collect_vec()
    };
    for (rows, table) in [(256, "V_Y, D"), (65536, "V_Y, D"), (4096, "V, D_Y"), (4096, "V_XY, D")] {
        let source = |x: &str, d: &str| {
            format!(
                "mesh {{X: 4 ring, Y: 2 ring}} on tpu_v5p\ndims {{B: {rows}, V: 32k, D: 1k}}\nids: i32[B_X]\nE: bf16[{table}]\n\
                 x{x} = bf16(ids == iota_V) * E\ny = gelu(x)\ng{d} = bf16(ids == iota_V) *_B y\nh[V_Y, D] = g"
            )
        };
        let free = time(&source("[B, D]_?", "[V, D]_?")).expect("a plan");
        for (x, d) in layouts(["B", "D"]).iter().cartesian_product(layouts(["V", "D"])) {
            let written = time(&source(x, &d));
            assert!(written.is_none_or(|written| free <= written), "{}", source(x, &d));
        }
    }
}
