//! `iota_S`: the places along a dim, an array that each device counts by itself.
//!
//! It is declared before the first statement, so that statements in a `repeat` share it.

use super::checker::{Binding, Checker};
use super::error::{Checked, Failure};
use super::{Definition, Value, ValueId, Wanted};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar};
use crate::layout::{Dim, Sharding};
use crate::span::Span;
use crate::supply::Supply;
use crate::syntax::{Ast, Expr, ExprKind, Name, Statement, StatementKind};
use std::collections::{BTreeMap, BTreeSet};

/// What its name begins with.
pub(super) const PREFIX: &str = "iota_";

/// The names that statements use and those that they declare.
#[derive(Default)]
struct Names<'a> {
    used: BTreeMap<&'a str, Span>,
    declared: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn statements(&mut self, statements: &'a [Statement]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Input { name, .. } => drop(self.declared.insert(&name.node)),
                StatementKind::Assign { target, value, .. } => {
                    self.declared.extend(target.name.as_ref().map(|name| name.node.as_str()));
                    self.expr(value);
                }
                StatementKind::Repeat { body, .. } | StatementKind::Def { body, .. } => self.statements(body),
                StatementKind::Return(value) => self.expr(value),
                StatementKind::Mesh { .. }
                | StatementKind::View { .. }
                | StatementKind::Dims(_)
                | StatementKind::Output(_)
                | StatementKind::Expect(_)
                | StatementKind::Link(_)
                | StatementKind::Limit { .. } => {}
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Array(array) => {
                if let Some(Name { node, span }) = array.name.as_ref().filter(|name| name.node.starts_with(PREFIX)) {
                    self.used.entry(node).or_insert(*span);
                }
            }
            ExprKind::Number(_) => {}
            ExprKind::Product { factors, .. } => factors.iter().for_each(|factor| self.expr(factor)),
            ExprKind::Binary { left, right, .. } => [left, right].into_iter().for_each(|side| self.expr(side)),
            ExprKind::Neg(inner) => self.expr(inner),
            ExprKind::Call { arguments, .. } => arguments.iter().for_each(|argument| self.expr(argument)),
            ExprKind::Collective { argument, .. } => self.expr(argument),
        }
    }
}

impl Checker {
    /// Declares the places along each dim of which a statement asks.
    pub(super) fn declare_iotas(&mut self, ast: &Ast) {
        let mut names = Names::default();
        names.statements(&ast.statements);
        for (name, span) in names.used.into_iter().filter(|(name, _)| !names.declared.contains(name)) {
            let dim = &name[PREFIX.len()..];
            if let Some(Some(dim)) = self.named_dims.get(dim).copied() {
                self.count(name, dim, span).ok();
            } else if let Some(parts) = self.parts.get(dim).cloned() {
                let counted = self.count_parts(&parts, span);
                self.bind_places(name, counted, span);
            }
        }
    }

    /// The same of the dims of a function's parameters, which have names of their own.
    ///
    /// - `dims`: these names.
    pub(super) fn declare_iotas_of(&mut self, body: &[Statement], result: &Expr, dims: &[String]) {
        let mut names = Names::default();
        names.statements(body);
        names.expr(result);
        for (name, span) in names.used.into_iter().filter(|(name, _)| !names.declared.contains(name)) {
            let dim = dims.iter().find(|dim| **dim == name[PREFIX.len()..]);
            if let Some(Some(Some(dim))) = dim.map(|dim| self.named_dims.get(dim).copied()) {
                self.count(name, dim, span).ok();
            }
        }
    }

    /// The places along one dim, an array of this name.
    fn count(&mut self, name: &str, dim: Dim, span: Span) -> Checked<ValueId> {
        let dtype = if i32::try_from(dim.size).is_ok() { DType::I32 } else { DType::I64 };
        let id = self.add_value(Value {
            name: Some(name.to_owned()),
            dtype,
            dims: vec![dim],
            definition: Definition::Input { supply: Supply::Counted },
            wanted: Wanted::Exact(Sharding::replicated(1)),
            method: None,
            pin: None,
            span,
        })?;
        self.places[id.index()] = span;
        self.bind_places(name, Ok(id), span);
        Ok(id)
    }

    /// The places along a dim that is made of others, an array of these: the last one varies fastest.
    fn count_parts(&mut self, parts: &[Dim], span: Span) -> Checked<ValueId> {
        let mut places: Option<ValueId> = None;
        for dim in parts {
            let name = format!("{PREFIX}{}", self.dims.name(dim.id));
            let known = self.binding(&name).and_then(|binding| binding.value);
            let own = match known {
                Some(id) => id,
                None => self.count(&name, *dim, span)?,
            };
            places = Some(match places {
                None => own,
                Some(major) => {
                    #[expect(
                        clippy::cast_precision_loss,
                        reason = "arrays have fewer elements than 2^60, and are counted in i32"
                    )]
                    let step = Function::ByNumber(ByNumber::Scale, Scalar(dim.size as f64));
                    let major = self.map(step, &[major], None, span)?;
                    self.map(Function::Binary(Binary::Add), &[major, own], None, span)?
                }
            });
        }
        places.ok_or(Failure::Told)
    }

    fn bind_places(&mut self, name: &str, counted: Checked<ValueId>, span: Span) {
        if let Ok(id) = counted {
            self.bind(Some(name), Some(id), span, true);
            if let Some(Binding { used, .. }) = self.bindings.last_mut() {
                *used = true;
            }
        }
    }
}
