//! Programs with what the checker says of them: one idea each.

use super::testing::{check_text, codes};
use super::{Definition, Program, Wanted};
use crate::diag::Severity;

/// What stands before each case.
pub(super) const GROUND: &str = "mesh {X: 4, Y: 2, Z: 2} on tpu_v5e\ndims {I: 16, J: 32, K: 64, L: 8, J2: 32, B: 2}\n";

/// Programs with an error, behind [`GROUND`], and its code.
const WRONG: &[(&str, &str)] = &[
    // Names.
    ("C = A", "unknown-array"),
    ("A: bf16[I_Q]\noutput A", "unknown-axis"),
    ("A: bf16[I_x]\noutput A", "unknown-axis"),
    ("A: bf16[Q_X]\noutput A", "unknown-dim"),
    ("A: bf16[I_X]\nA: bf16[I_Y]\noutput A", "array-redeclared"),
    ("A: bf16[I]\nA[J] = relu(B[J])", "rebind-mismatch"),
    ("A: bf16[I]\nA[I] = f32(A)", "rebind-mismatch"),
    ("output D", "unknown-array"),
    ("C = relax(A[I])", "unknown-function"),
    ("C = sum(A[I, J])", "function-subscript"),
    ("C = sum_K(A[I, J])", "function-subscript"),
    ("C = sum_{J,J}(A[I, J])", "function-subscript"),
    ("C[I] = A[I, J]", "dim-lost"),
    ("C = sum_J(bool[I, J])", "needs-number"),
    ("C = mean_J(i8[I, J])", "needs-float"),
    ("C = not(A[I, J])", "needs-bool"),
    ("C = sqrt(i8[I, J])", "needs-float"),
    ("C = abs(bool[I, J])", "needs-number"),
    ("C = relu_J(A[I, J])", "function-subscript"),
    ("C = softmax(A[I, J])", "function-subscript"),
    ("C = softmax_K(A[I, J])", "function-subscript"),
    // Declarations.
    ("dims {I: 4}\nA: bf16[I]\noutput A", "dim-redeclared"),
    ("dims {Q: 0}\nA: bf16[Q]\noutput A", "size-zero"),
    ("mesh {W: 2}\nA: bf16[I]\noutput A", "mesh-repeated"),
    ("A: bf16[0, I]\noutput A", "size-zero"),
    ("A: bool[I]{U_X}\noutput A", "operator-dtype"),
    ("A: i8[I]{MEAN_X}\noutput A", "operator-dtype"),
    ("A: f32[I]{AND_X}\noutput A", "operator-dtype"),
    ("A: bool[I]{SQUARE_ADD_X}\noutput A", "operator-dtype"),
    ("A: bf16[I]{FOO_X}\noutput A", "unknown-operator"),
    ("dims {P: 1000000000000, Q: 1000000000000}\nA: bf16[P, Q]\noutput A", "array-too-large"),
    ("dims {P: 1073741824, Q: 1073741824}\nC[P, Q] = a[P] * b[Q]", "array-too-large"),
    // Layouts.
    ("A: bf16[I_X, J_X]\noutput A", "axis-reused"),
    ("A: bf16[I_XX]\noutput A", "axis-reused"),
    ("A: bf16[I_X]{U_X}\noutput A", "axis-reused"),
    ("A: bf16[I]{U_XX}\noutput A", "axis-reused"),
    ("A: bf16[I, I]\noutput A", "dim-repeated"),
    ("C[I_X, K_?]{U_Y} = A[I, J] * B[J, K]", "partial-hole"),
    ("A: bf16[I_X, J]\nC = relu(A[I, J])", "layout-mismatch"),
    ("A: bf16[I_X, J]\nC = relu(A[J, I_X])", "layout-mismatch"),
    ("A: bf16[I_X, J]\nC = relu(A[I_X])", "layout-mismatch"),
    ("A: bf16[I_XY, J]\nC = relu(A[I_YX, J])", "layout-mismatch"),
    // Products.
    ("C[I_X, K_X] = A[I_X, J] * B[J, K_X]", "axis-reused"),
    ("C[I] = A[I, J] * B[J, K]", "dim-lost"),
    ("C[I, J] = A[I, J, K] + B[I, J]", "dim-lost"),
    ("C[I, L] = A[I, J] * B[J, K] * D[K]", "dim-missing"),
    ("C = A[I, J, L] * B[J, L, K]", "contraction-unclear"),
    ("C = A[I] * B[K]", "contraction-unclear"),
    ("C = A[I, J] * B[J]", "contraction-unclear"),
    ("C = A[I, J] *_L B[J, K]", "dim-not-shared"),
    ("C[I, 32] = A[I, 64] * B[64, 32]", "literal-contracted"),
    ("C[I, L] = A[I, K] *_K B[J, K, L]", "dim-lost"),
    ("C[I, K]{U_X} = A[I, J_X] *_LOCAL B[J, K]", "local-layout"),
    ("C[I_X, K]{U_X} = A[I_X, J] *_LOCAL B[J, K]", "axis-reused"),
    ("C[I, K] = A[I_X, J] *_LOCAL B[J, K_X]", "local-layout"),
    ("C[I, K] = A[I, J_X] *_LOCAL B[J_X, K]", "local-result"),
    ("C[I, K]{U_X} = A[I, J] *_LOCAL B[J, K]", "local-result"),
    ("D = A[I, L] * B[L, J]\nC[I, K] = D *_LOCAL E[J, K]", "layout-unknown"),
    // Element types.
    ("C[I, K] = f16[I, J] * B[J, K]", "dtype-mismatch"),
    ("A: bool[I, J]\nC[I, K] = A * B[J, K]", "dtype-mismatch"),
    ("A: i8[I, J]\nC = A + A * 0.5", "needs-float"),
    ("A: i8[I]\nC = exp(A)", "needs-float"),
    ("A: i8[I]\nC = A / 2", "needs-float"),
    ("A: i8[I]\nC = 0.5 * A", "needs-float"),
    ("A: bool[I]\nC = -A", "needs-number"),
    ("C = A[I] / 0", "bad-division"),
    ("C = 2 * 3", "number-result"),
    // Open sums.
    ("C = relu(A[I]{U_X})", "open-sum-misuse"),
    ("C = A[I]{U_X} + B[I]", "open-sum-misuse"),
    ("C = A[I]{U_X} + D[I]{U_Y}", "open-sum-misuse"),
    ("C[I, K] = A[I, J]{U_X} * D[J, K]{U_X}", "open-sum-misuse"),
    ("C = A[I]{U_X} + 1", "open-sum-misuse"),
    ("C = D[I] / A[I]{U_X}", "open-sum-misuse"),
    ("C = f32(A[I]{U_X})", "open-sum-misuse"),
    ("C = square(A[I]{MAX_X})", "open-sum-misuse"),
    ("C = gelu(A[I]{MAX_X})", "open-sum-misuse"),
    ("C = -i8[I]{MAX_X}", "open-sum-misuse"),
    ("C = max_J(A[I, J]{U_X})", "open-sum-misuse"),
    ("C = sum_J(A[I, J]{MAX_X})", "open-sum-misuse"),
    ("C = sum_J(i8[I, J]{U_X})", "open-sum-misuse"),
    ("C = A[I]{MAX_X} + B[I]{U_X}", "open-sum-misuse"),
    ("C = A[I]{MEAN_X} + B[I]{U_X}", "open-sum-misuse"),
    ("C = A[I]{SQUARE_ADD_X} + B[I]{SQUARE_ADD_X}", "open-sum-misuse"),
    ("C = 2 * A[I]{SQUARE_ADD_X}", "open-sum-misuse"),
    ("C[I, K] = A[I, J]{MUL_X} * B[J, K]{MUL_X}", "open-sum-misuse"),
    ("C[I, J] = A[I, J]{MUL_X} * B[I, J]", "open-sum-misuse"),
    ("C[I, K] = i8[I, J]{U_X} * i8[J, K]", "open-sum-misuse"),
    ("C[I, J] = A[I, J]{MAX_X} *_LOCAL B[I, J]", "open-sum-misuse"),
    ("C[I, J] = A[I, J]{MEAN_X} *_LOCAL B[I, J]", "local-layout"),
    ("A[I]{SQUARE_ADD_XY} -> A[I]{SQUARE_ADD_Y}", "open-sum-invented"),
    ("C[I]{U_X} = max_J(A[I, J_X])", "open-sum-invented"),
    ("C[I, J]{U_X} = relu(A[I, J])", "open-sum-invented"),
    ("C[I, J]{U_X} = A[J, I]", "open-sum-invented"),
    ("C[I]{U_Y} = A[I]{U_X}", "open-sum-invented"),
    // Renames.
    ("C = rename_{J->I}(A[I, J])", "rename-dims"),
    ("C = rename_{J->K}(A[I, J])", "rename-dims"),
    ("C = rename_{K->L}(A[I, J])", "rename-dims"),
    // Collectives.
    ("AllGather_X(A[I_XY, J]) -> A[I_Y, J]", "gather-major"),
    ("AllGather_Z(A[I_X]{U_Z}) -> A[I_X]", "collective-axis"),
    ("AllGather_Y(A[I_X]) -> A[I]", "collective-axis"),
    ("AllReduce_X(A[I_X]) -> A[I]", "collective-axis"),
    ("AllReduce_X(A[I]) -> A[I]", "collective-axis"),
    ("ReduceScatter_{X,J}(A[I, J_X]) -> A[I, J]", "collective-axis"),
    ("AllToAll_{X,I}(A[I_X, J]) -> A[I_X, J]", "collective-axis"),
    ("AllToAll_{X,J}(A[I_XY, J]) -> A[I_Y, J_X]", "collective-axis"),
    ("AllToAll_{Z,J}(A[I_XY, J]) -> A[I_Y, J_X]", "collective-axis"),
    ("C = ReduceScatter_X(A[I, J]{U_X})", "collective-dim"),
    ("C = ReduceScatter_{X,K}(A[I, J]{U_X})", "collective-dim"),
    ("C = ReduceScatter_{X,I,X,J}(A[I, J]{U_X})", "collective-axis"),
    ("C = ReduceScatter_{X,I,Y,K}(A[I, J]{U_XY})", "collective-dim"),
    ("C = ReduceScatter_{X,K,Y,J}(A[I, J]{U_XY})", "unknown-axis"),
    ("C = ReduceScatter_{X,I,J}(A[I, J]{U_X})", "unknown-axis"),
    ("C = ReduceScatter_{X,I,Y,J}(A[I, J]{U_X})", "collective-axis"),
    ("ReduceScatter_{X,I,Y,J}(A[I, J]{U_XY}) -> A[I_Y, J_X]", "collective-result"),
    ("AllGather_X(A[I_X, J_Y]) -> A[I, J]", "collective-result"),
    ("C = AllGather_X(relu(A[I_X, J]))", "layout-unknown"),
];

/// Whole programs with an error and its code.
const WRONG_GROUND: &[(&str, &str)] = &[
    ("dims {I: 4}\nA: bf16[I]\noutput A", "no-mesh"),
    ("mesh {X: 4, X: 2}\ndims {I: 4}\nA: bf16[I]\noutput A", "axis-repeated"),
    ("mesh {X: 0}\ndims {I: 4}\nA: bf16[I_X]\noutput A", "size-zero"),
    ("mesh {X: 1048576, Y: 2}\ndims {I: 4}\nA: bf16[I_X]\noutput A", "mesh-too-large"),
    (
        "mesh {X: 99999999999999, Y: 9999999999999999, Z: 999999999999999}\ndims {I: 4}\nA: bf16[I_X]\noutput A",
        "mesh-too-large",
    ),
    (
        "mesh {A: 1, B: 1, C: 1, D: 1, E: 1, F: 1, G: 1, H: 1, I: 1, J: 1, K: 1, L: 1, M: 1, N: 1, O: 1, P: 1}\n",
        "mesh-too-large",
    ),
    ("dims {I: 4}\nA: bf16[I]\nmesh {X: 4}\noutput A", "mesh-late"),
    ("mesh {X: 4, Y: 2, XY: 2}\ndims {I: 64}\nA: bf16[I_XY]\noutput A", "ambiguous-axis"),
    ("mesh {X: 4}\ndims {I: 4}\nA: bf16[I_X]", "no-result"),
];

/// Programs without an error, behind [`GROUND`].
const RIGHT: &[&str] = &[
    "A: bf16[I_X, J]\nB: bf16[J, K_Y]\nC[I_X, K_Y] = A * B",
    "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]",
    "A[I, J_X] * B[J, K] -> C[I, K]",
    "C[I] = sum_J(A[I, J_X])",
    "C[I]{MAX_X} = max_J(A[I, J_X])",
    "C[K, I] = sum_J(A[I, J_X, K])",
    "C = min_{I,J}(A[I, J_X])",
    "C = mean_J(A[I, J_X])",
    "C = sum_J(A[I, J]{U_X})",
    "C = -A[I]{MAX_X}",
    "C = relu(A[I]{MAX_X})",
    "C = A[I]{MEAN_X} + 1",
    "C = A[I]{MEAN_X} - B[I]",
    "C = abs(A[I]{MUL_X})",
    "C[I, J] = A[I, J]{MUL_X} * B[I, J]{MUL_X}",
    "C = not(bool[I]{LOGICAL_AND_X})",
    "A[I]{SQUARE_ADD_XY} -> A[I]{U_Y}",
    "AllReduce_X(A[I]{SQUARE_ADD_XY}) -> A[I]{U_Y}",
    "C = 1 / A[I]",
    "C = 2 - log(sqrt(square(A[I])))",
    "A[I, J_X] * B[J_X, K] -> C[I, K]",
    "A[I_X, J] * B[J, K_X] -> C[I_X, K]",
    "A[I_X, J] * B[J, K_X] -> C[I, K_X]",
    "C[I, K]{U_X} = A[I, J_X] *_LOCAL B[J_X, K]\nAllReduce_X(C[I, K]{U_X}) -> C[I, K]",
    "C = A[I, J_X] *_LOCAL B[J_X, K]\nReduceScatter_{X,K}(C[I, K]{U_X}) -> C[I, K_X]",
    "AllGather_Y(A[I_XY, J]) -> A[I_X, J]",
    "AllGather_{XY}(A[I_XY, J]) -> A[I, J]",
    "AllGather_{XY}([I_X, J_Y]) -> [I, J]",
    "A[I_XY, J] -> A[I_Y, J]",
    "AllToAll_{X,J}(A[I_X, J]) -> A[I, J_X]",
    "AllToAll_{X->J}(A[I_X, J]) -> A[I, J_X]",
    "C[I, K] = AllReduce(C[I, K]{U_X})",
    "A[I_X] -> C[I_X]\nC = AllGather(C[I_X])",
    "ReduceScatter_X(C[I, K]{U_X}) -> C[I, K_X]",
    "ReduceScatter_{X,I,Y,K}(C[I, K]{U_XY}) -> C[I_X, K_Y]",
    "ReduceScatter_{XY}(C[I, K]{U_XY}) -> C[I_Y, K_X]",
    "C[I_Z, K_XY] = ReduceScatter(C[I, K]{U_XYZ})",
    "ReduceScatter_{Z,I,XY,K}(C[I, K]{U_XYZ}) -> C[I_Z, K_XY]",
    "C = A[I, J] * B[J, K]\nD = relu(C)\nE[I_X, L] = D * F[K, L]",
    "C = A[I, J] * B[J, K]\nD = relu(C[I_X, K_Y])",
    "C[I_?, K_?] = A[I, J] * B[J, K]",
    "C[I, K]{U_X} = A[I, J] * B[J, K]",
    "C[I, L] = A[I, J] * B[J, K] * D[K, L]",
    "C = A[I, J] *_J B[J, K] *_K D[K, L]",
    "C[I, K] = A[I, J] * B[J, K] + bias[K]",
    "C = 2 * A[I] / 4 - 1",
    "C: f32[I, K] = A[I, J] * B[J, K]",
    "C: f32[I] = relu(A[I])",
    "C[J, I] = A[I, J]",
    "C[J_?, I_?] = A[I_X, J]",
    "C[I, J] = a[I] * b[J]",
    "C[I] = a[I] * b[I]",
    "Q: bf16[I_Y, K, J]\nV: bf16[I_Y, L, J]\nC[I_Y, K, L] = Q *_J V",
    "D = rename_{J->J2}(A[I, J])\nC[I, J, J2] = A * D",
    "S = A[I, J] * B[J, K]\nP = softmax_K(S)\noutput P, S",
    "C = -A[I]{U_X} + B[I]{U_X}",
    "C[I, K]{U_XY} = A[I, J]{U_X} * D[J, K]{U_Y}",
    "A: int8[16_X, 2048]\nC[16_X, 2048_Y] = relu(A[16_X, 2048])",
    "C = A[I]{MAX_X}\nAllReduce_X(C[I]{MAX_X}) -> C[I]",
    "A: bf16[I_X]\noutput A",
    "A: bf16[I_X]\nC = A\noutput C",
    "W_in: bf16[J, K]\nC[I, K] = X[I, J] * W_in",
    "C[I, K] = AllReduce_X(A[I, J_X] *_LOCAL B[J_X, K])",
    "C[I, J] = A[I, J] - relu(B[J] * 2)",
    "A: i8[I]\nC = 2 * A + 1",
    "C[I] = A[I, J] * B[J] * D[I]",
    "C[I, K_X] = A[I, J] * B[J, K]\nC[I, K] = C[I, K_X]\noutput C",
];

pub(super) fn explain(source: &str) -> String {
    let (program, diagnostics) = check_text(source);
    let found: Vec<String> = diagnostics.iter().map(|found| format!("{}: {found}", found.code)).collect();
    format!("{source}\n{}\n{}", found.join("\n"), program.map(|program| program.to_string()).unwrap_or_default())
}

fn right(body: &str) -> Program {
    let source = format!("{GROUND}{body}");
    let (program, diagnostics) = check_text(&source);
    assert!(!diagnostics.has_errors(), "{}", explain(&source));
    program.expect("a program, since there are no errors")
}

#[test]
fn wrong_programs_have_one_error() {
    let ground = WRONG.iter().map(|(body, code)| (format!("{GROUND}{body}"), *code));
    let whole = WRONG_GROUND.iter().map(|(source, code)| ((*source).to_owned(), *code));
    let mut failures = Vec::new();
    for (source, code) in ground.chain(whole) {
        let (program, diagnostics) = check_text(&source);
        if codes(&diagnostics, Severity::Error) != [code] || program.is_some() {
            failures.push(format!("expected {code}:\n{}", explain(&source)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_error_has_a_place_and_help() {
    for (source, code) in WRONG.iter().map(|(body, code)| (format!("{GROUND}{body}"), code)) {
        let (_, diagnostics) = check_text(&source);
        for found in diagnostics.iter() {
            assert!(found.severity == Severity::Note || found.help.is_some(), "{code}\n{source}");
            assert!(!found.labels.is_empty(), "{code}\n{source}");
            assert_eq!(found.labels.iter().filter(|label| label.primary).count(), 1, "{code}\n{source}");
            assert!(found.labels.iter().all(|label| label.span.range().end <= source.len()), "{code}");
        }
    }
}

#[test]
fn right_programs_are_invariant() {
    let mut failures = Vec::new();
    for body in RIGHT {
        let source = format!("{GROUND}{body}");
        match check_text(&source) {
            (Some(program), diagnostics) if !diagnostics.has_errors() => verify(&program),
            (_, _) => failures.push(explain(&source)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What no later stage has to ask again.
pub(super) fn verify(program: &Program) {
    assert!(!program.outputs.is_empty());
    for id in program.value_ids() {
        let value = program.value(id);
        assert!(value.definition.operands().iter().all(|operand| *operand < id), "operands come first");
        match &value.wanted {
            Wanted::Exact(sharding) => {
                assert_eq!(sharding.dims.len(), value.dims.len());
                assert!(sharding.divides(&value.dims, &program.mesh));
                let spent: usize = sharding.dims.iter().map(|axes| axes.len()).sum::<usize>() + sharding.open.len();
                assert_eq!(spent, sharding.used().len(), "an axis is spent once");
            }
            Wanted::Partly(dims) => {
                assert_eq!(dims.len(), value.dims.len());
                assert!(dims.iter().any(Option::is_some) && dims.iter().any(Option::is_none));
                let written = dims.iter().flatten();
                let used = written.clone().fold(crate::mesh::AxisSet::NONE, |used, axes| used.union(axes.set()));
                assert_eq!(written.map(|axes| axes.len()).sum::<usize>(), used.len(), "an axis is spent once");
            }
            Wanted::Free => assert!(!matches!(value.definition, Definition::Move { .. })),
        }
        match &value.definition {
            Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Rename { .. } => {
                let einsum = program.einsum(id);
                let sums = matches!(value.definition, Definition::Product { .. } | Definition::Reduce { .. });
                assert!(sums || einsum.contracted().is_empty());
            }
            Definition::Collective { collective, from, operand } => {
                assert_eq!(program.value(*operand).wanted, Wanted::Exact(from.clone()));
                let to = collective.apply(from, &program.mesh).expect("it fits");
                assert_eq!(value.wanted, Wanted::Exact(to));
            }
            Definition::Input { .. } | Definition::Move { .. } => {}
        }
    }
}

#[test]
fn all_errors_come_at_once_and_none_because_of_another() {
    let source = "A: bf16[I_X, J_X]\nB: bf16[J, Q]\nC = A * B\nD = relu(C)\nE[I] = F[I_W] + G[I]\nH = exp(G)\nM = N";
    let (program, diagnostics) = check_text(&format!("{GROUND}{source}"));
    assert!(program.is_none());
    let expected = ["axis-reused", "unknown-dim", "unknown-axis", "unknown-array"];
    assert_eq!(codes(&diagnostics, Severity::Error), expected);
}

#[test]
fn warnings_and_notes() {
    let found = |body: &str, severity| {
        let (program, diagnostics) = check_text(&format!("{GROUND}{body}"));
        assert!(program.is_some(), "{}", explain(body));
        codes(&diagnostics, severity).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found("A: bf16[I]\nB: bf16[I]\nC = relu(A)", Severity::Warning), ["unused-array"]);
    assert_eq!(found("A: bf16[B_X]\nC = relu(A)", Severity::Warning), ["padded"]);
    assert_eq!(found("A: bf16[L_{X,Y,Z}]\nC = relu(A)", Severity::Warning), ["padded"]);
    assert_eq!(found("ReduceScatter_{X,B}(A[I, B]{U_X}) -> A[I, B_X]", Severity::Warning), ["padded"]);
    assert_eq!(found("C = relu(A[I])", Severity::Note), ["implicit-input"]);
    assert_eq!(found("W_in: bf16[I]\nC = relu(W_in) + W_im[I]", Severity::Warning), ["near-name"]);
    let (_, diagnostics) = check_text("mesh {X: 2}\ndims {I: 4}\nA: bf16[I]\nC = relu(A)");
    assert_eq!(codes(&diagnostics, Severity::Note), ["default-hardware"]);
}

#[test]
fn outputs_are_the_results_that_nothing_uses() {
    let names = |body: &str| {
        let program = right(body);
        let name = |id: &super::ValueId| program.value(*id).name.clone().unwrap_or_default();
        program.outputs.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("A: bf16[I]\nC = relu(A)\nD = exp(C)\nE = tanh(C)"), "D E");
    assert_eq!(names("A: bf16[I]\nC = relu(A)\nD = exp(C)\noutput C\noutput D"), "C D");
    assert_eq!(names("A[I_X, J] -> A[I, J]"), "A");
    assert_eq!(names("A: bf16[I]\nC = relu(A)\nC = exp(C)"), "C");
}

#[test]
fn a_chain_becomes_binary_products() {
    let program = right("C[I, L] = A[I, J] * B[J, K] * D[K, L]");
    let expected = "mesh {X: 4, Y: 2, Z: 2} on tpu_v5e\n%0 A: bf16[I, J] = input\n%1 B: bf16[J, K] = input\n\
                    %2 D: bf16[K, L] = input\n%3: bf16[I_?, K_?] = product ab,bc->ac %0 %1\n\
                    %4 C: bf16[I, L] = product ab,bc->ac %3 %2\noutput %4\n";
    assert_eq!(program.to_string(), expected);
    // J meets three times: it stays until the last factor that has it.
    let program = right("C[I, K] = A[I, J] * B[J] * D[J, K]");
    assert!(program.to_string().contains("%3: bf16[I_?, J_?] = product ab,b->ab %0 %1"), "{program}");
}

#[test]
fn local_products_leave_the_sum_open() {
    let program = right("C = A[I_Y, J_X] *_LOCAL B[J_X, K]");
    assert!(program.to_string().contains("C: bf16[I_Y, K]{U_X} = local product ab,bc->ac %0 %1"), "{program}");
}

#[test]
fn pinned_layouts() {
    let program = right("C = A[I, J] * B[J, K]\nD = relu(C[I_X, K])");
    assert!(program.to_string().contains("%2 C: bf16[I_X, K] = product"), "{program}");
}

#[test]
fn golden_layouts() {
    let local = |source: &str| {
        let (program, diagnostics) = check_text(source);
        assert!(!diagnostics.has_errors(), "{}", explain(source));
        let program = program.expect("no errors");
        let Wanted::Exact(sharding) = program.value(super::ValueId(0)).wanted.clone() else { panic!("an input") };
        let layout = program.layout(super::ValueId(0), sharding);
        (layout.local_extents(&program.mesh), layout.local_bytes(&program.mesh).0)
    };
    // G1 to G4.
    assert_eq!(local("mesh {X: 2, Y: 2}\ndims {I: 4, J: 128}\nA: bf16[I_X, J_Y]\noutput A").0, [2, 64]);
    let quiz = "mesh {X: 2, Y: 8, Z: 2}\nA: int8[128_{XY}, 2048]\noutput A";
    assert_eq!(local(quiz), (vec![8, 2048], 16384));
    assert_eq!(local("mesh {X: 4, Y: 2}\nA: bf16[8_X, 2048_Y]\noutput A").0, [2, 1024]);
    assert_eq!(local("mesh {X: 2, Y: 2}\nA: bf16[8_X, 2048_Y]\noutput A").0, [4, 1024]);
    assert_eq!(local("mesh {X: 4, Y: 2}\nB: bf16[2048, 8192_Y]\noutput B").0, [2048, 4096]);
}

/// Help is what to write next: the exact fragment.
#[test]
fn help_shows_legal_fragments() {
    let cases = [
        ("C[I_X, K_X] = A[I_X, J] * B[J, K_X]", "write `C[I, K_X]` or `C[I_X, K]`"),
        ("A: bf16[I_X, J]\nC = relu(A[I, J])", "write `AllGather_X(A[I_X, J]) -> A[I, J]` first"),
        ("A: bf16[I, J]{U_X}\nC = relu(A[I, J])", "write `AllReduce_X(A[I, J]{U_X}) -> A[I, J]` first"),
        ("A: bf16[I, J]{U_X}\nC = -A[I, J_X]", "write `ReduceScatter_{X,J}(A[I, J]{U_X}) -> A[I, J_X]` first"),
        ("A: bf16[I_X, J]\nC = -A[I, J_X]", "write `AllToAll_{X,J}(A[I_X, J]) -> A[I, J_X]` first"),
        ("A: bf16[I_X, J]\nC = -A[I, J_Y]", "write `A[I_X, J] -> A[I, J_Y]` first"),
        ("A: bf16[I_X, J]\nC = -A[J, I_X]", "write `A[I_X, J] -> A[J, I_X]` first"),
        ("AllGather_X(A[I_XY, J]) -> A[I_Y, J]", "`A[I_XY, J] -> A[I_Y, J]`"),
        ("AllGather_Z(A[I_X]{U_Z}) -> A[I_X]", "`AllReduce_Z` closes it, `ReduceScatter_{Z,I}` shards `I` as well"),
        (
            "C = relu(A[I]{U_X})",
            "close it first: `AllReduce_X(A[I]{U_X}) -> A[I]`, or `ReduceScatter_{X,I}(A[I]{U_X})`",
        ),
        ("C[I, K] = A[I, J_X] *_LOCAL B[J_X, K]", "write `C[I, K]{U_X}`"),
        ("W_in: bf16[I]\nC = W_inn", "did you mean `W_in`?"),
        ("A: bf16[I_x]\noutput A", "did you mean `X`?"),
    ];
    for (body, help) in cases {
        let (_, diagnostics) = check_text(&format!("{GROUND}{body}"));
        let found = diagnostics.iter().find(|found| found.severity == Severity::Error).expect("a wrong program");
        let text = found.help.clone().unwrap_or_default();
        assert!(text.contains(help), "{body}\n{text}\ninstead of\n{help}");
    }
}
