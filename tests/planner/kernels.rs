//! Declared kernels against what the language can say itself: a kernel declared as a product has the plans of the
//! product, one that needs a dim whole those of a softmax, over all layouts of one and two axes.

use crate::common::{apart, compile};
use itertools::Itertools;
use shardc::compiler::Compiled;
use shardc::plan::StepOp;
use shardc::sim::{clock, values};

const GROUND: &str = "mesh {X: 2, Y: 2} on tpu_v5p\ndims {B: 8, D: 16, K: 32}\n";

/// The layouts of an array with two dims: each axis is on one of them, or on none, in both orders.
fn layouts(dims: [&str; 2]) -> Vec<String> {
    let axes = ["", "_X", "_Y", "_XY", "_YX"];
    let pairs = axes.into_iter().cartesian_product(axes);
    let apart = pairs.filter(|(left, right)| !left.chars().any(|axis| axis != '_' && right.contains(axis)));
    apart.map(|(left, right)| format!("[{}{left}, {}{right}]", dims[0], dims[1])).collect()
}

fn collectives(compiled: &Compiled) -> Vec<String> {
    let plan = &compiled.plan;
    let moves = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
    moves.map(|id| plan.op_name(id)).sorted().collect()
}

/// Without overlap: other ways are tried for products only.
#[track_caller]
fn plans_alike(kernel: &str, other: &str) {
    let [kernel, other] = [kernel, other].map(|text| apart(&format!("{GROUND}{text}")));
    let figures = |compiled: &Compiled| (compiled.plan.totals().time(), compiled.plan.totals().flops);
    assert_eq!(figures(&kernel), figures(&other), "{}\n{}", kernel.plan, other.plan);
    let time = |compiled: &Compiled| clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
    assert_eq!(time(&kernel), time(&other));
}

/// Contracted, kept and batched dims, with all layouts of the operands and free or fixed results.
#[test]
fn a_kernel_that_is_a_product_plans_like_one() {
    let declared = "kernel mm(x[B, D], w[D, K]) -> [B, K], shard B, D, K, flops 2*B*D*K, reference x * w\n";
    let each = layouts(["B", "D"]).into_iter().cartesian_product(layouts(["D", "K"]));
    for (place, (left, right)) in each.enumerate() {
        let inputs = format!("x: bf16{left}\nw: bf16{right}\n");
        for result in ["", "[B, K]", "[B_X, K_Y]"].into_iter().skip(place % 3).step_by(3) {
            plans_alike(&format!("{declared}{inputs}y{result} = mm(x, w)"), &format!("{inputs}y{result} = x * w"));
        }
    }
}

/// What may not be sharded is gathered, as for a softmax.
#[test]
fn a_kernel_gathers_the_dims_that_it_needs_whole() {
    let declared = "kernel sort(x[B, D]) -> [B, D], shard B\n";
    for (from, to) in layouts(["B", "D"]).into_iter().cartesian_product(["[B, D]", "[B_X, D]", "[B_XY, D]", "[B, D_Y]"])
    {
        let whole =
            |text: &str| compile(&format!("{GROUND}{declared}x: f32{from}\ny{to} = {text}\nz = sort(x)\noutput y"));
        let kernel = compile(&format!("{GROUND}{declared}x: f32{from}\ny{to} = sort(x)"));
        let softmax = compile(&format!("{GROUND}x: f32{from}\ny{to} = softmax_D(x)"));
        // A softmax may be split into a maximum, a sum and a quotient; a kernel may not.
        if softmax.plan.split.is_empty() {
            assert_eq!(collectives(&kernel), collectives(&softmax), "{from} {to}\n{}", whole("x").plan);
        }
    }
}

/// A device does its share of the operations and bytes of the dims that are sharded; new dims are whole.
#[test]
fn costs_are_shared_along_sharded_dims() {
    let of = |layout: &str, result: &str, bytes: &str| {
        let text = format!(
            "{GROUND}dims {{P: 4}}\nkernel f(x[B, D]) -> f32[B, P], shard B, flops 1M*B*D{bytes}\nx: f32{layout}\ny{result} = f(x)"
        );
        let compiled = compile(&text);
        let id =
            compiled.plan.ids().find(|id| matches!(compiled.plan.step(*id).op, StepOp::Kernel(_))).expect("a kernel");
        (compiled.plan.step(id).flops, compiled.plan.step(id).cost.time)
    };
    let whole = of("[B, D]", "[B, P]", "");
    assert_eq!(whole.0, (1 << 20) * 8 * 16);
    assert_eq!(of("[B_X, D]", "[B_X, P]", "").0, whole.0 / 2);
    assert_eq!(of("[B_XY, D]", "[B_XY, P]", "").0, whole.0 / 4);
    // Bytes decide once they take longer than the operations.
    assert!(of("[B, D]", "[B, P]", ", bytes 1M*1M").1 > whole.1);
}

/// A wrong sharding rule is found by the numbers of its reference.
#[test]
fn numbers_show_a_wrong_rule() {
    let run = |shard: &str| {
        let text = format!(
            "{GROUND}kernel shares(x[B, D]) -> [B, D], shard {shard}, reference x / (1 + sum_D(x .* x))\n\
             x: f32[B_X, D_Y]\ny[B_X, D_Y] = shares(x)"
        );
        let compiled = compile(&text);
        let inputs = values::inputs(&compiled.schedule, 7).expect("inputs");
        let dense = values::dense(&compiled.schedule, &inputs).expect("a reference");
        let run = values::run(&compiled.schedule, &inputs).expect("a run");
        values::compare(&compiled.schedule, &inputs, &dense, &run).expect("shards").within
    };
    assert!(run("B"));
    assert!(!run("B, D"), "each device has its own sum");
}
