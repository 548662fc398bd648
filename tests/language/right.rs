//! Correct programs, one idea each, and their checked form.

use shardc::diag::{Diagnostics, Severity};
use shardc::mesh::AxisSet;
use shardc::program::{self, Definition, Program, ValueId, Wanted};
use shardc::span::{Span, Spanned};
use shardc::syntax::{
    ArrayRef, Ast, AxisDecl, Brackets, Contraction, DimDecl, DimName, DimRef, DimSize, Expr, ExprKind, Name, SizeExpr,
    Statement, StatementKind, Subscript, Target, parse,
};

/// Parses and checks a text, without trying fixes. Parser diagnostics come first.
pub(crate) fn check_text(source: &str) -> (Option<Program>, Diagnostics) {
    let (ast, mut diagnostics) = parse(source);
    let (program, found) = program::check(&ast);
    diagnostics.extend(found);
    (program, diagnostics)
}

/// The codes of all diagnostics of this severity.
fn codes(diagnostics: &Diagnostics, severity: Severity) -> Vec<&str> {
    diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code.as_str()).collect()
}

/// The declarations before each case.
pub(crate) const GROUND: &str = "mesh {X: 4, Y: 2, Z: 2} on tpu_v5p\ndims {I: 16, J: 32, K: 64, L: 8, J2: 32, B: 2}\n";

/// Programs without an error, after [`GROUND`].
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

pub(crate) fn explain(source: &str) -> String {
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

/// Asserts the invariants that later stages rely on.
pub(crate) fn verify(program: &Program) {
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
                let used = written.clone().fold(AxisSet::NONE, |used, axes| used.union(axes.set()));
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
            Definition::Kernel { .. } | Definition::Input { .. } | Definition::Move { .. } => {}
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
        let name = |id: &ValueId| program.value(*id).name.clone().unwrap_or_default();
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
    let expected = "mesh {X: 4, Y: 2, Z: 2} on tpu_v5p\n%0 A: bf16[I, J] = input\n%1 B: bf16[J, K] = input\n\
                    %2 D: bf16[K, L] = input\n%3: bf16[I_?, K_?] = product ab,bc->ac %0 %1\n\
                    %4 C: bf16[I, L] = product ab,bc->ac %3 %2\noutput %4\n";
    assert_eq!(program.to_string(), expected);
    // J occurs three times: it stays until the last factor that has it.
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
        let Wanted::Exact(sharding) = program.value(ValueId(0)).wanted.clone() else { panic!("an input") };
        let layout = program.layout(ValueId(0), sharding);
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

fn name(text: &str) -> Name {
    Spanned { node: text.to_owned(), span: Span::default() }
}

/// Brackets from dims and axes: `I_X` is `("I", "X")`, and no subscript is `""`.
fn brackets(dims: &[(&str, &str)]) -> Brackets {
    let dim = |(dim, axes): &(&str, &str)| DimRef {
        dim: DimName::Named((*dim).to_owned()),
        subscript: (!axes.is_empty()).then(|| Subscript::Axes(vec![name(axes)])),
        span: Span::default(),
    };
    Brackets { dims: dims.iter().map(dim).collect(), rest: None, free: None, open: None, span: Span::default() }
}

fn array(text: &str, dims: &[(&str, &str)]) -> Expr {
    let (name, brackets, span) = (Some(name(text)), Some(brackets(dims)), Span::default());
    Expr { kind: ExprKind::Array(ArrayRef { name, dtype: None, brackets, span }), span }
}

#[test]
fn a_product_without_a_parser() {
    let span = Span::default();
    let axis = |text: &str, size| AxisDecl {
        name: name(text),
        size: SizeExpr::number(size, span),
        more: Vec::new(),
        wiring: None,
        over: None,
    };
    let dim = |text: &str, size| DimDecl { name: name(text), size: DimSize::Is(SizeExpr::number(size, span)) };
    let factors = vec![array("A", &[("I", "X"), ("J", "")]), array("B", &[("J", ""), ("K", "Y")])];
    let value = Expr { kind: ExprKind::Product { factors, contraction: Contraction::Implied }, span };
    let asked = Some(brackets(&[("I", "X"), ("K", "Y")]));
    let target = Target { name: Some(name("C")), dtype: None, brackets: asked, span };
    let kinds = [
        StatementKind::Mesh { axes: vec![axis("X", 4), axis("Y", 2)], hardware: None },
        StatementKind::Dims(vec![dim("I", 16), dim("J", 32), dim("K", 64)]),
        StatementKind::Assign { target, value, by: None, using: None },
    ];
    let statements = kinds.into_iter().map(|kind| Statement { kind, span }).collect();
    let ast = Ast { statements, ..Ast::default() };
    let (program, diagnostics) = program::check(&ast);
    assert_eq!(codes(&diagnostics, Severity::Note), ["default-hardware", "implicit-input", "implicit-input"]);
    let expected = "mesh {X: 4, Y: 2}\n%0 A: bf16[I_X, J] = input\n%1 B: bf16[J, K_Y] = input\n\
                    %2 C: bf16[I_X, K_Y] = product ab,bc->ac %0 %1\noutput %2\n";
    assert_eq!(program.expect("no errors").to_string(), expected);
}
