//! The programs of the tables, and the description of their plans.
#![allow(unreachable_pub)]

use shardc::plan::Plan;
use shardc::units::Time;
use std::fmt::Write;

/// Whether a plan is optimal, or else its distance from the lower bound.
pub fn proven(plan: &Plan) -> String {
    if plan.is_optimal() {
        return "proven".to_owned();
    }
    if plan.lower_bound.time == Time::ZERO {
        return "no bound".to_owned();
    }
    let gap = plan.totals().time().ratio(plan.lower_bound.time);
    format!("within {gap:.2}x")
}

/// All layers of GPT-3.
pub fn gpt3() -> String {
    include_str!("../../examples/models/gpt3_layers.shard").replace("LAYERS: 2", "LAYERS: 96")
}

/// Layers of two products each, unrolled. With residuals, every input of a layer has two users.
pub fn layers(count: usize, residual: bool) -> String {
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

const AXES: [&str; 6] = ["X", "Y", "Z", "S", "T", "R"];

/// A product of two matrices on this number of axes of size 2, or of two arrays with eight dims.
pub fn product(axes: usize, large: bool) -> String {
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
