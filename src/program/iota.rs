//! `iota_S`: the positions along a dim, an array that each device computes locally.
//!
//! It is declared before the first statement, so that statements in a `repeat` share it.

use super::checker::{Binding, Checker};
use super::error::{Checked, Failure};
use super::pick::Pick;
use super::{Definition, Using, Value, ValueId, Wanted};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar};
use crate::layout::{Dim, Sharding};
use crate::span::Span;
use crate::supply::Supply;
use crate::syntax::{Ast, DimName, Expr, ExprKind, Name, Statement, StatementKind};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of its name.
pub(super) const PREFIX: &str = "iota_";

/// Ends the name of positions along a second dim of the same size. No name of a program contains it.
pub(super) const TWIN: char = '~';

/// Names used and names declared by statements.
#[derive(Default)]
struct Names<'a> {
    used: BTreeMap<Cow<'a, str>, Span>,
    declared: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn statements(&mut self, statements: &'a [Statement]) {
        for statement in statements {
            if let StatementKind::Input { name, .. } = &statement.kind {
                self.declared.insert(&name.node);
            }
            if let StatementKind::Assign { target, value, .. } = &statement.kind {
                self.declared.extend(target.name.as_ref().map(|name| name.node.as_str()));
                // An array of one number counts along each of its dims.
                let is_filled = matches!(value.kind, ExprKind::Number(_) | ExprKind::Neg(_)) && target.dtype.is_some();
                for item in target.brackets.iter().filter(|_| is_filled).flat_map(|brackets| &brackets.dims) {
                    if let DimName::Named(name) = &item.dim {
                        self.used.entry(Cow::Owned(format!("{PREFIX}{name}"))).or_insert(item.span);
                    }
                }
            }
            statement.kind.expressions().for_each(|expr| self.expr(expr));
            self.statements(statement.kind.body());
        }
    }

    /// The positions that a function compares with.
    fn picked(&mut self, pick: Pick, subscript: &[Name]) {
        for Name { node, span } in subscript {
            self.used.entry(Cow::Owned(format!("{PREFIX}{node}"))).or_insert(*span);
            if pick.is_along() {
                self.used.entry(Cow::Owned(format!("{PREFIX}{node}{TWIN}"))).or_insert(*span);
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Array(array) => {
                if let Some(Name { node, span }) = array.name.as_ref().filter(|name| name.node.starts_with(PREFIX)) {
                    self.used.entry(Cow::Borrowed(node)).or_insert(*span);
                }
            }
            ExprKind::Call { function, subscript, arguments, .. } => {
                let is_number = |expr: &Expr| match &expr.kind {
                    ExprKind::Number(_) => true,
                    ExprKind::Neg(of) => matches!(of.kind, ExprKind::Number(_)),
                    _ => false,
                };
                match Pick::named(&function.node) {
                    // It needs no positions.
                    Some(Pick::Shift) if arguments.get(1).is_some_and(is_number) => {}
                    Some(Pick::Roll) => {}
                    Some(pick) => self.picked(pick, subscript),
                    None => {}
                }
            }
            _ => {}
        }
        expr.operands().for_each(|operand| self.expr(operand));
    }
}

/// The dim that a name of positions counts along.
fn dim_of(name: &str) -> &str {
    name[PREFIX.len()..].trim_end_matches(TWIN)
}

/// Whether it counts along a second dim of the same size.
fn is_twin(name: &str) -> bool {
    name.ends_with(TWIN)
}

impl Checker {
    /// Declares the positions along each dim that a statement requests.
    pub(super) fn declare_iotas(&mut self, ast: &Ast) {
        let mut names = Names::default();
        names.statements(&ast.statements);
        for (name, span) in names.used.iter().filter(|(name, _)| !names.declared.contains(name.as_ref())) {
            let (dim, is_twin, span) = (dim_of(name), is_twin(name), *span);
            if let Some(Some(dim)) = self.named_dims.get(dim).copied() {
                let dim = if is_twin { self.twin(dim) } else { dim };
                self.count(name, dim, span).ok();
            } else if let Some(parts) = self.parts.get(dim).cloned() {
                let counted = self.count_parts(&parts, span);
                self.bind_places(name, counted, span);
            }
        }
    }

    /// Declares the positions along dims of a function's parameters, which have their own names.
    ///
    /// - `dims`: these names.
    pub(super) fn declare_iotas_of(&mut self, body: &[Statement], result: &Expr, dims: &[String]) {
        let mut names = Names::default();
        names.statements(body);
        names.expr(result);
        for (name, span) in names.used.iter().filter(|(name, _)| !names.declared.contains(name.as_ref())) {
            let dim = dims.iter().find(|dim| *dim == dim_of(name));
            if let Some(Some(Some(dim))) = dim.map(|dim| self.named_dims.get(dim).copied()) {
                let dim = if is_twin(name) { self.twin(dim) } else { dim };
                self.count(name, dim, *span).ok();
            }
        }
    }

    /// The positions along one dim, as an array of this name.
    pub(super) fn count(&mut self, name: &str, dim: Dim, span: Span) -> Checked<ValueId> {
        let dtype = if i32::try_from(dim.size).is_ok() { DType::I32 } else { DType::I64 };
        // A program may have another dim of the name that the second one would have.
        let own = if is_twin(name) { format!("{PREFIX}{}", self.dims.name(dim.id)) } else { name.to_owned() };
        let id = self.add_value(Value {
            name: Some(own),
            dtype,
            dims: vec![dim],
            definition: Definition::Input { supply: Supply::Counted },
            wanted: Wanted::Exact(Sharding::replicated(1)),
            using: Using::default(),
            pin: None,
            span,
            call: None,
        })?;
        self.places[id.index()] = span;
        self.bind_places(name, Ok(id), span);
        Ok(id)
    }

    /// The positions along a composed dim, from its factors: the last one varies fastest.
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
        places.ok_or(Failure::Reported)
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
