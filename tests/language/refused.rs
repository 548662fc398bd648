//! What planning and lowering refuse in every plan, `check` reports as well.

use shardc::compiler::{self, Options};
use shardc::{program, syntax};

const GROUND: &str = "mesh {X: 4 ring, Y: 2} on tpu_v5p\ndims {I: 64, J: 64, K: 64}\n";

/// The codes of `check` for a program that has no errors otherwise.
fn errors(source: &str) -> Vec<String> {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
    compiler::refused(&program).iter().map(|found| found.code.clone()).collect()
}

/// The codes of planning and lowering.
fn refused(source: &str) -> Vec<String> {
    let (program, found) = program::check(&syntax::parse(source).0);
    let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
    let found = compiler::compile(&program, &Options::default()).err().unwrap_or_default();
    found.iter().map(|found| found.code.clone()).collect()
}

#[test]
fn what_planning_refuses_is_checked() {
    for (lines, code) in [
        ("A: bf16[I_X, J]\nAllGather_X(A) -> C[I, J] using switch_sum", "method-not-applicable"),
        ("A: bf16[I_Y, J]\nAllGather_Y(A) -> C[I, J] using bidirectional_ring_pair", "method-not-applicable"),
        ("A: bf16[I, J]{U_X}\nC = AllReduce_X(A) using direct", "method-not-applicable"),
        ("A: bf16[I_X, J]\nC = AllToAll_{X,J}(A) using tree", "method-not-applicable"),
        ("A: bf16[I_X, J]\nrepeat 2 {\nC = AllGather_X(A) using switch_sum\n}\noutput A", "method-not-applicable"),
        ("A: bf16[I, J_X]\nB: bf16[J, K]\nC[I, K] = A * B by gather(B)", "pin-impossible"),
        ("A: bf16[I_X, J]\nC[I_X, J] = relu(A)\nlimit memory 1kB", "limit-exceeded"),
        ("A: bf16[I_X, J] donated\nC[I_X, J] = relu(A)\nlimit memory 2000B", "limit-exceeded"),
        ("A: bf16[I_X, J]\nB: bf16[J, K]\nC[I_X, J] = relu(A)\nlimit memory 4096B", "limit-exceeded"),
        ("A: bf16[I_?, J_?]\nC[I_X, J] = relu(A)\nlimit memory 1000B", "limit-exceeded"),
    ] {
        let source = format!("{GROUND}{lines}\n");
        let found = errors(&source);
        assert_eq!(found, [code], "{lines}");
        // The loop above computes nothing that is an output.
        assert!(lines.starts_with("A: bf16[I_X, J]\nrepeat") || refused(&source).contains(&found[0]), "{lines}");
    }
}

/// What a plan can do is not refused.
#[test]
fn what_a_plan_can_do_is_not_refused() {
    for lines in [
        "A: bf16[I_X, J]\nAllGather_X(A) -> C[I, J] using bruck",
        "A: bf16[I, J]{U_X}\nC = AllReduce_X(A) using broadcast",
        "A: bf16[I, J_X]\nB: bf16[J, K]\nC[I, K] = A * B by gather(A)",
        "A: bf16[I, J_X]\nB: bf16[J, K]\nC[I, K] = A * B by reduce",
        "A: bf16[I_X, J]\nC[I_X, J] = relu(A)\nlimit memory 4096B",
        "A: bf16[I_?, J_?]\nC[I_XY, J] = relu(A)\nlimit memory 2048B",
    ] {
        let source = format!("{GROUND}{lines}\n");
        assert!(refused(&source).is_empty() && errors(&source).is_empty(), "{lines}: {:?}", errors(&source));
    }
}
