//! A softmax over a sharded dim: split where that is cheaper, otherwise whole, and never more expensive than a
//! written solution.

use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::plan::Plan;

fn plan(source: &str) -> Plan {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
    // Pipelined steps may use other methods, so overlap is disabled.
    let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    let topology = compiler::machine(&program, &options).expect("it has rates");
    compiler::plan(&program, &topology, &options).expect("a plan")
}

/// Decoding with a cache that is sharded along its length takes a small fraction of the time of gathering it.
#[test]
fn decoding_plans_itself_in_parts() {
    let source = |softmax: &str| {
        format!(
            "mesh {{X: 8 ring}} on tpu_v5p\ndims {{B: 16, N: 64, H: 128, T: 32768}}\nq: bf16[B, N, H]\nK: bf16[B, T_X, H]\n\
             V: bf16[B, T_X, H]\nS[B, N, T]_? = q * K\n{softmax}\nout[B, N, H] = P * V"
        )
    };
    let free = plan(&source("P = softmax_T(S)"));
    assert_eq!(free.split, ["P"]);
    let [free, moved] = [free, plan(&source("S2[B_X, N, T] = S\nP[B_X, N, T] = softmax_T(S2)"))];
    assert!(moved.split.is_empty(), "nothing is gained where the dim is whole");
    let [free_time, moved_time] = [&free, &moved].map(|plan| plan.totals().time());
    assert!(free_time * 4 < moved_time, "{free_time:?} {moved_time:?}");
    let scores = 16 * 64 * (32768 / 8) * 2;
    assert!(free.usage().received.most < scores / 8, "the scores are not moved");
    for by_hand in [
        "m = max_T(S)\ne = exp(f32(S) - m)\nP = bf16(e / sum_T(e))",
        "m = max_T(S)\nP = bf16(exp(f32(S) - m) / sum_T(exp(f32(S) - m)))",
    ] {
        assert!(free_time <= plan(&source(by_hand)).totals().time(), "{by_hand}");
    }
}

/// A loss over a sharded vocabulary does not send logits.
#[test]
fn a_vocabulary_stays_sharded() {
    let plan = plan(
        "mesh {X: 8 ring} on tpu_v5p\ndims {B: 1024, D: 4096, V: 128000}\nx: bf16[B, D]\nW: bf16[D, V_X]\n\
         logits = x * W\nP[B, V_X] = softmax_V(logits)",
    );
    assert_eq!(plan.split, ["P"]);
    assert!(plan.usage().received.most < 100_000, "{:?}", plan.usage());
}

/// No layout of the softmax's operand is cheaper than the plan with a free one.
#[test]
fn no_written_layouts_take_less() {
    for (rows, columns) in [(64, 64), (4096, 4096), (16, 1 << 20)] {
        for input in ["B, T_X", "B, T_XY", "B_X, T_Y", "B_Y, T"] {
            for result in ["B, T", "B_X, T", "B, T_X", "B_Y, T_X"] {
                let source = |middle: &str| {
                    format!(
                        "mesh {{X: 4 ring, Y: 2 ring}} on tpu_v5e\ndims {{B: {rows}, T: {columns}}}\nA: bf16[{input}]\n\
                         S{middle} = relu(A)\nP[{result}] = softmax_T(S)"
                    )
                };
                let free = plan(&source("")).totals().time();
                for middle in ["[B, T]", "[B_X, T]", "[B_XY, T]", "[B, T_X]", "[B, T_XY]", "[B_X, T_Y]", "[B_Y, T_X]"] {
                    assert!(free <= plan(&source(middle)).totals().time(), "{}", source(middle));
                }
            }
        }
    }
}
