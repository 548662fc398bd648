//! Lenient parsing (`--lenient`): LaTeX, and subscripts that lost their `_`. Each lenient reading is reported with its
//! strict spelling.
//!
//! `A[IX, J]` is `A[I_X, J]` where `I` is a dim, `IX` is not, and `X` is an axis; `AllGatherY(A)` is `AllGather_Y(A)`,
//! `ReduceScatter_X,K(C)` is `ReduceScatter_{X,K}(C)`. Missing declarations are assumed (`assumed.rs`), and
//! alternatives get names of their own (`alternatives.rs`).

use super::alternatives::{Alternatives, Composed};
use super::assumed::declarations;
use super::build_expr::cut_operator;
use super::latex::unwrapped;
use super::parse::parse_as;
use super::{
    Ast, Brackets, CollectiveName, DimName, Expr, ExprKind, Name, OpenRef, Statement, StatementKind, Subscript,
};
use crate::diag::{Diagnostics, Edit, Fix};
use crate::span::{Span, Spanned};
use std::collections::BTreeSet;
use std::ops::Range;
use thiserror::Error;

/// A lenient reading.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("read as `{strict}`")]
#[diagnostic(code("lenient-reading"), severity(warning), help("write `{strict}`"))]
struct Reading {
    strict: String,
    #[label("read leniently")]
    at: miette::SourceSpan,
}

/// A declaration that is assumed.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("no {what}; assumed `{line}`")]
#[diagnostic(code("lenient-reading"), severity(warning), help("write `{line}`"))]
struct Assumed {
    what: &'static str,
    line: String,
    #[label("first line without it")]
    at: miette::SourceSpan,
}

/// Parses a program leniently: see [`parse`](super::parse). Spans refer to the original source.
pub fn parse_lenient(source: &str) -> (Ast, Diagnostics) {
    let text = unwrapped(source);
    let (mut ast, mut diagnostics) = parse_as(&text, true);
    let assumed = declarations(&ast);
    for statement in &assumed {
        let first = lines(source, statement.span).start;
        let what = if matches!(statement.kind, StatementKind::Dims(_)) { "sizes of dims" } else { "mesh" };
        let (line, at) = (statement.to_string().trim_end().to_owned(), Span::new(first, first + 1));
        let fix = Fix::new(Edit::Before, line.clone());
        diagnostics.push_with_fixes(&Assumed { what, line, at: at.into() }, vec![fix]);
    }
    ast.statements.splice(0..0, assumed.iter().cloned());
    let mut reader = Reader::default();
    ast.statements.iter().for_each(|statement| reader.know(statement));
    ast.statements.iter_mut().for_each(|statement| reader.statement(statement));
    for (strict, at) in reader.found {
        note(strict, at, at, &mut diagnostics);
    }
    note_latex(&ast.statements[assumed.len()..], source, &text, &mut diagnostics);
    diagnostics.sort();
    (ast, diagnostics)
}

/// Reports a reading, with the strict spelling of `whole` as its fix.
fn note(strict: String, at: Span, whole: Span, diagnostics: &mut Diagnostics) {
    let fix = Fix::new(Edit::Replace(whole), strict.clone());
    diagnostics.push_with_fixes(&Reading { strict, at: at.into() }, vec![fix]);
}

/// Reports the unwrapped statements; the first one on a line replaces the line by all of them.
fn note_latex(statements: &[Statement], source: &str, text: &str, diagnostics: &mut Diagnostics) {
    for together in statements.chunk_by(|one, next| lines(source, one.span) == lines(source, next.span)) {
        let first = &together[0];
        if let StatementKind::Repeat { body, .. } | StatementKind::Def { body, .. } = &first.kind {
            note_latex(body, source, text, diagnostics);
        } else if source[lines(source, first.span)] != text[lines(text, first.span)] {
            let strict: Vec<String> = together.iter().map(|one| one.to_string().trim_end().to_owned()).collect();
            let lines = lines(source, first.span);
            let mut whole = Some(Fix::new(Edit::Replace(Span::new(lines.start, lines.end)), strict.join("\n")));
            for (strict, statement) in strict.into_iter().zip(together) {
                let at = statement.span.into();
                diagnostics.push_with_fixes(&Reading { strict, at }, whole.take().into_iter().collect());
            }
        }
    }
}

/// The lines of a statement, including `$` and `\[` around it.
fn lines(text: &str, span: Span) -> Range<usize> {
    let range = span.range();
    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |newline| range.end + newline);
    start..end
}

#[derive(Default)]
struct Reader {
    dims: BTreeSet<String>,
    axes: BTreeSet<String>,
    composed: Composed,
    alternatives: Alternatives,
    /// The strict spelling and its span.
    found: Vec<(String, Span)>,
}

impl Reader {
    /// The names that a statement declares.
    fn know(&mut self, statement: &Statement) {
        self.composed.know(statement);
        match &statement.kind {
            StatementKind::Mesh { axes, .. } => self.axes.extend(axes.iter().map(|axis| axis.name.node.clone())),
            StatementKind::View { parts, .. } => self.axes.extend(parts.iter().map(|part| part.name.node.clone())),
            StatementKind::Dims(dims) => self.dims.extend(dims.iter().map(|dim| dim.name.node.clone())),
            _ => {}
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        match &mut statement.kind {
            StatementKind::Input { name, brackets, .. } => {
                self.brackets(brackets);
                self.alternatives.declare(name);
            }
            StatementKind::Assign { target, value, .. } => {
                target.brackets.iter_mut().for_each(|brackets| self.brackets(brackets));
                self.expr(value);
                if let Some(name) = &mut target.name
                    && self.alternatives.result(name, target.brackets.as_ref(), &self.composed)
                {
                    self.found.push((target.to_string(), target.span));
                }
            }
            StatementKind::Repeat { body, .. } => {
                let inside = self.alternatives.in_body();
                let mut outside = std::mem::replace(&mut self.alternatives, inside);
                body.iter_mut().for_each(|statement| self.statement(statement));
                outside.leave(&self.alternatives);
                self.alternatives = outside;
            }
            StatementKind::Def { parameters, body, .. } => {
                // Its names are its own.
                let outside = std::mem::take(&mut self.alternatives);
                let brackets = parameters.iter_mut().filter_map(|parameter| parameter.brackets.as_mut());
                brackets.for_each(|brackets| self.brackets(brackets));
                body.iter_mut().for_each(|statement| self.statement(statement));
                self.alternatives = outside;
            }
            StatementKind::Return(value) => self.expr(value),
            StatementKind::Kernel(kernel) => {
                let all = kernel.parameters.iter_mut().chain([&mut kernel.result]);
                all.filter_map(|target| target.brackets.as_mut()).for_each(|brackets| self.brackets(brackets));
                kernel.reference.iter_mut().for_each(|formula| self.expr(formula));
            }
            StatementKind::Mesh { .. }
            | StatementKind::View { .. }
            | StatementKind::Dims(_)
            | StatementKind::Output(_)
            | StatementKind::Expect(_)
            | StatementKind::Limit { .. }
            | StatementKind::Link(_) => {}
        }
    }

    /// Rewrites an expression; recursion is bounded by the parser's height limit.
    fn expr(&mut self, expr: &mut Expr) {
        if let Some(collective) = self.collective(expr) {
            expr.kind = collective;
        } else if let ExprKind::Collective { kind, subscript, .. } = &expr.kind {
            self.lost_braces(kind, subscript);
        }
        match &mut expr.kind {
            ExprKind::Array(array) => {
                array.brackets.iter_mut().for_each(|brackets| self.brackets(brackets));
                if let Some(other) = self.alternatives.using(array, &self.composed) {
                    self.found.push((other, array.span));
                }
            }
            ExprKind::Number(_) => {}
            ExprKind::Product { factors, .. } => factors.iter_mut().for_each(|factor| self.expr(factor)),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Call { arguments, .. } => arguments.iter_mut().for_each(|argument| self.expr(argument)),
            ExprKind::Neg(argument) | ExprKind::Collective { argument, .. } => self.expr(argument),
        }
    }

    /// `AllGatherY(A)` and `AllGatherY[I_Y]`, where `Y` is an axis.
    fn collective(&mut self, expr: &Expr) -> Option<ExprKind> {
        let (name, argument) = match &expr.kind {
            ExprKind::Call { function, subscript, arguments } => match (subscript.as_slice(), arguments.as_slice()) {
                ([], [argument]) => (function, argument.clone()),
                (_, _) => return None,
            },
            ExprKind::Array(array) if array.brackets.is_some() => {
                let unnamed = super::ArrayRef { name: None, ..array.clone() };
                (array.name.as_ref()?, Expr { kind: ExprKind::Array(unnamed), span: expr.span })
            }
            ExprKind::Array(_)
            | ExprKind::Number(_)
            | ExprKind::Product { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Neg(_)
            | ExprKind::Collective { .. } => return None,
        };
        let (kind, axes) = CollectiveName::begins(&name.node)?;
        let word = kind.to_string();
        if !self.are_axes(axes) {
            return None;
        }
        let cut = name.span.start + u32::try_from(word.len()).ok()?;
        let subscript = Spanned { node: axes.to_owned(), span: Span { start: cut, ..name.span } };
        self.found.push((format!("{word}_{}", axes), name.span));
        let kind = Spanned { node: kind, span: name.span };
        Some(ExprKind::Collective { kind, subscript: vec![subscript], argument: Box::new(argument) })
    }

    /// `ReduceScatter_X,K`: several items without braces, which are two signs shorter.
    fn lost_braces(&mut self, kind: &Spanned<CollectiveName>, subscript: &[Name]) {
        let items: Vec<&str> = subscript.iter().map(|item| item.node.as_str()).collect();
        let items = items.join(",");
        let bare = kind.node.word().len() + 1 + items.len();
        if subscript.len() > 1 && kind.span.range().len() == bare {
            self.found.push((format!("{}_{{{items}}}", kind.node), kind.span));
        }
    }

    fn brackets(&mut self, brackets: &mut Brackets) {
        if let Some(open) = brackets.open.as_mut().filter(|open| open.axes.is_empty()) {
            self.open_sum(open);
        }
        for item in &mut brackets.dims {
            let (DimName::Named(name), None) = (&item.dim, &item.subscript) else { continue };
            if self.dims.contains(name) {
                continue;
            }
            let cuts = (1..name.len()).rev().filter(|cut| name.is_char_boundary(*cut));
            let cut =
                cuts.map(|cut| name.split_at(cut)).find(|(dim, axes)| self.dims.contains(*dim) && self.are_axes(axes));
            let Some((dim, axes)) = cut else { continue };
            let start = item.span.start + u32::try_from(dim.len()).unwrap_or_default();
            let axes = Name { node: axes.to_owned(), span: Span { start, ..item.span } };
            self.found.push((format!("{dim}_{}", axes.node), item.span));
            item.dim = DimName::Named(dim.to_owned());
            item.subscript = Some(Subscript::Axes(vec![axes]));
        }
    }

    /// An open sum `{UX}`.
    fn open_sum(&mut self, open: &mut OpenRef) {
        let word = open.operator.clone();
        let Some((operator, axes)) = cut_operator(&word.node) else { return };
        self.found.push((format!("{{{operator}_{axes}}}"), open.span));
        let cut = word.span.start + u32::try_from(operator.len()).unwrap_or_default();
        open.axes = vec![Name { node: axes.to_owned(), span: Span { start: cut, ..word.span } }];
        open.operator = Name { node: operator.to_owned(), span: Span { end: cut, ..word.span } };
    }

    /// One axis, or a run of single-letter axes.
    fn are_axes(&self, text: &str) -> bool {
        let run = || text.chars().all(|letter| self.axes.contains(&letter.to_string()));
        !text.is_empty() && (self.axes.contains(text) || run())
    }
}
