//! Asts built by hand, for tests that do without a grammar.

use super::{Program, check};
use crate::diag::{Diagnostics, Severity};
use crate::span::{Span, Spanned};
use crate::syntax::{ArrayRef, Contraction, Expr, ExprKind, Target};
use crate::syntax::{Ast, AxisDecl, Brackets, DimDecl, DimName, DimRef, DimSize, Name, SizeExpr};
use crate::syntax::{Statement, StatementKind, Subscript};

/// Parses and checks a text; what the parser finds comes first.
pub(super) fn check_text(source: &str) -> (Option<Program>, Diagnostics) {
    let (ast, mut diagnostics) = crate::syntax::parse(source);
    let (program, found) = check(&ast);
    diagnostics.extend(found);
    (program, diagnostics)
}

/// The codes of all findings of this severity.
pub(super) fn codes(diagnostics: &Diagnostics, severity: Severity) -> Vec<&str> {
    diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code.as_str()).collect()
}

fn name(text: &str) -> Name {
    Spanned { node: text.to_owned(), span: Span::default() }
}

/// `I_X` as `("I", "X")`; no subscript as `""`.
fn brackets(dims: &[(&str, &str)]) -> Brackets {
    let dim = |(dim, axes): &(&str, &str)| DimRef {
        dim: DimName::Named((*dim).to_owned()),
        subscript: (!axes.is_empty()).then(|| Subscript::Axes(vec![name(axes)])),
        span: Span::default(),
    };
    Brackets { dims: dims.iter().map(dim).collect(), rest: None, open: None, span: Span::default() }
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
    let (program, diagnostics) = check(&ast);
    assert_eq!(codes(&diagnostics, Severity::Note), ["default-hardware", "implicit-input", "implicit-input"]);
    let expected = "mesh {X: 4, Y: 2}\n%0 A: bf16[I_X, J] = input\n%1 B: bf16[J, K_Y] = input\n\
                    %2 C: bf16[I_X, K_Y] = product ab,bc->ac %0 %1\noutput %2\n";
    assert_eq!(program.expect("no errors").to_string(), expected);
}
