//! What a text copied from a page leaves out: sizes and the mesh.
//!
//! ```text
//! A[I_X, J] * B[J, K] -> C[I_X, K]     mesh {X: 4} on tpu_v5e
//!                                      dims {I: 1024, J: 1024, K: 1024}
//! ```

use super::{
    Ast, AxisDecl, Brackets, CollectiveName, DimDecl, DimName, DimSize, Expr, ExprKind, Name, SizeExpr, SizeKind,
    Statement, StatementKind, Subscript,
};
use crate::span::{Span, Spanned};

/// The size of each axis that is assumed.
const AXIS: u64 = 4;
/// The size of each dim that is assumed: a multiple of that of several axes.
const DIM: u64 = 1024;
/// Axes that may stand without `_` behind a dim, as in `A[IX, J]`.
const LETTERS: [&str; 4] = ["X", "Y", "Z", "W"];
/// The most axes that are assumed.
const MOST_AXES: usize = 4;

/// The declarations that a program lacks, each with the line: the mesh, then the dims.
pub(super) fn declarations(ast: &Ast) -> Vec<Statement> {
    let has = |is: fn(&StatementKind) -> bool, words: &[&str]| {
        ast.statements.iter().any(|statement| is(&statement.kind)) || words.iter().any(|word| ast.lost.contains(*word))
    };
    let has_mesh = has(|kind| matches!(kind, StatementKind::Mesh { .. }), &["mesh", "Mesh", "make_mesh"]);
    let has_dims = has(|kind| matches!(kind, StatementKind::Dims(_)), &["dims"]);
    let mut names = Names { dims: Vec::new(), axes: Vec::new(), may_cut: !has_mesh && !has_dims };
    names.statements(&ast.statements);
    let Some(first) = ast.statements.first().filter(|_| !names.dims.is_empty()) else { return Vec::new() };
    let at = Span { end: first.span.start, ..first.span };
    let named = |name: String| Spanned { node: name, span: at };
    let size = |size: u64| SizeExpr { kind: SizeKind::Number(size), span: at };
    let mut found = Vec::new();
    if names.axes.is_empty() {
        names.axes.push(LETTERS[0].to_owned());
    }
    if !has_mesh && names.axes.len() <= MOST_AXES {
        let axis = |name| AxisDecl { name: named(name), size: size(AXIS), more: Vec::new(), wiring: None, over: None };
        let axes = names.axes.into_iter().map(axis).collect();
        found.push(StatementKind::Mesh { axes, hardware: Some(named("tpu_v5e".to_owned())) });
    }
    if !has_dims {
        let dim = |name| DimDecl { name: named(name), size: DimSize::Is(size(DIM)) };
        found.push(StatementKind::Dims(names.dims.into_iter().map(dim).collect()));
    }
    found.into_iter().map(|kind| Statement { kind, span: at }).collect()
}

/// The axes that a program without a mesh uses, in the order of the text.
pub(crate) fn axes_of(ast: &Ast) -> Vec<String> {
    let mut names = Names { dims: Vec::new(), axes: Vec::new(), may_cut: false };
    names.statements(&ast.statements);
    names.axes
}

/// The dims and axes in the order of the text.
struct Names {
    dims: Vec<String>,
    axes: Vec<String>,
    /// Whether `IX` may be `I_X`.
    may_cut: bool,
}

impl Names {
    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            // The dims of parameters are those of the arguments.
            if let StatementKind::Def { .. } | StatementKind::Kernel(_) = &statement.kind {
                continue;
            }
            if let StatementKind::Input { brackets, .. } = &statement.kind {
                self.brackets(brackets);
            }
            statement.kind.expressions().for_each(|expr| self.expr(expr));
            if let StatementKind::Assign { target, .. } = &statement.kind {
                target.brackets.iter().for_each(|brackets| self.brackets(brackets));
            }
            self.statements(statement.kind.body());
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Array(array) => {
                let lost = array.name.as_ref().and_then(|name| CollectiveName::begins(&name.node));
                lost.iter().for_each(|(_, axes)| self.lost(axes));
                array.brackets.iter().for_each(|brackets| self.brackets(brackets));
            }
            ExprKind::Call { function, .. } => {
                if let Some((_, axes)) = CollectiveName::begins(&function.node) {
                    self.lost(axes);
                }
            }
            _ => {}
        }
        expr.operands().for_each(|operand| self.expr(operand));
    }

    fn brackets(&mut self, brackets: &Brackets) {
        for item in &brackets.dims {
            let DimName::Named(name) = &item.dim else { continue };
            match &item.subscript {
                Some(Subscript::Axes(words)) => self.words(words),
                Some(Subscript::Hole(_)) => {}
                None => {
                    let dim = name.trim_end_matches(|c: char| LETTERS.iter().any(|letter| letter.starts_with(c)));
                    if self.may_cut && !dim.is_empty() && dim.len() < name.len() {
                        self.lost(&name[dim.len()..]);
                        insert(&mut self.dims, dim);
                        continue;
                    }
                }
            }
            insert(&mut self.dims, name);
        }
        if let Some(open) = &brackets.open {
            self.words(&open.axes);
        }
    }

    fn words(&mut self, words: &[Name]) {
        for word in words {
            // `XY` is a run of axes, `data` is one.
            if word.node.chars().all(|c| c.is_ascii_uppercase()) {
                word.node.chars().for_each(|letter| insert(&mut self.axes, letter.encode_utf8(&mut [0; 4])));
            } else {
                insert(&mut self.axes, &word.node);
            }
        }
    }

    /// The axes of a word that lost its `_`.
    fn lost(&mut self, axes: &str) {
        if self.may_cut && axes.chars().all(|c| LETTERS.iter().any(|letter| letter.starts_with(c))) {
            axes.chars().for_each(|letter| insert(&mut self.axes, letter.encode_utf8(&mut [0; 4])));
        }
    }
}

fn insert(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}
