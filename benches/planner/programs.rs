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

/// Layers of two products each, forward and backward, unrolled.
pub fn training(count: usize) -> String {
    let mut text =
        "mesh {X: 8 ring, Y: 8 ring} on tpu_v5p\ndims {B: 65536, D: 8192, F: 28672}\nx0: bf16[B_X, D_Y]\n".to_owned();
    for layer in 0..count {
        let next = layer + 1;
        write!(
            text,
            "V{layer}: bf16[D_X, F_Y]\nW{layer}: bf16[F_Y, D_X]\nh{layer} = x{layer} * V{layer}\na{layer} = gelu(h{layer})\n\
             x{next} = a{layer} * W{layer}\n"
        )
        .expect("text grows");
    }
    writeln!(text, "g{count} = 2 * x{count}").expect("text grows");
    for layer in (0..count).rev() {
        let next = layer + 1;
        write!(
            text,
            "dW{layer}[F_Y, D_X] = a{layer} * g{next}\nda{layer} = g{next} * W{layer}\n\
             dh{layer} = da{layer} .* gelu(h{layer})\ndV{layer}[D_X, F_Y] = x{layer} * dh{layer}\n"
        )
        .expect("text grows");
        if layer > 0 {
            writeln!(text, "g{layer} = dh{layer} * V{layer}").expect("text grows");
        }
    }
    let gradients: Vec<String> = (0..count).map(|layer| format!("dW{layer}, dV{layer}")).collect();
    writeln!(text, "output {}", gradients.join(", ")).expect("text grows");
    text
}

/// All layers of LLaMA-3 70B with open layouts within a memory limit.
pub fn llama() -> String {
    include_str!("llama70b.shard").to_owned()
}

/// Two products on a mesh with this number of axes of size 2, halves of which shard the dims.
pub fn mlp(axes: usize) -> String {
    const NAMES: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];
    let mesh: Vec<String> = NAMES[..axes].iter().map(|axis| format!("{axis}: 2 ring")).collect();
    let (first, second) = NAMES[..axes].split_at(axes / 2);
    let (first, second) = (first.join(","), second.join(","));
    format!(
        "mesh {{{}}} on tpu_v5p\ndims {{T: 65536, M: 8192, N: 32768}}\nx: bf16[T_{{{first}}}, M_{{{second}}}]\n\
         W1: bf16[M_{{{first}}}, N_{{{second}}}]\nW2: bf16[N_{{{second}}}, M_{{{first}}}]\n\
         h = relu(x * W1)\nz[T_{{{first}}}, M_{{{second}}}] = h * W2\n",
        mesh.join(", ")
    )
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
