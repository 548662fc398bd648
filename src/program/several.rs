//! Functions of several arguments: `max(A, B)`, `where(M, A, B)`, also with a number among them.

use super::ValueId;
use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::expr::{ARITIES, Operand};
use super::layouts::RequestedDim;
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::span::Span;
use crate::syntax::{ArrayRef, Expr, ExprKind, Name};

impl Checker {
    /// `max`, `min`, `and` and `or` of two, `where` of three.
    pub(super) fn several(
        &mut self,
        function: &Name,
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let name = function.node.as_str();
        let (takes, count) = if name == "where" { (3, "three arguments") } else { (2, "two arguments") };
        if arguments.len() != takes {
            self.exist(&[], arguments)?;
            let (name, count, takes) = (name.to_owned(), arguments.len(), count.to_owned());
            return Err(
                CheckError::Arguments { name, takes, count, at: function.span, help: ARITIES.to_owned() }.into()
            );
        }
        let mut operands = Vec::new();
        for argument in arguments {
            operands.push(self.expr(argument, requested)?);
        }
        if let (&[Operand::Array(id), Operand::Number(size)], [_, dim]) = (operands.as_slice(), arguments) {
            self.note_dim(function, id, dim, size);
        }
        match (name, operands.as_slice()) {
            ("where", [mask, yes, no]) => self.choice(*mask, [*yes, *no], requested, [function.span, span]),
            (_, [left, right]) => self.bound(name, [*left, *right], requested, [function.span, span]),
            (_, _) => unreachable!("the arguments are counted"),
        }
    }

    /// A note on `max(x, D)`, if `D` is a dim of `x`: it looks like a reduction.
    fn note_dim(&mut self, function: &Name, operand: ValueId, dim: &Expr, size: f64) {
        let ExprKind::Array(ArrayRef { name: Some(name), brackets: None, .. }) = &dim.kind else { return };
        if !self.value(operand).dims.iter().any(|dim| self.dims.name(dim.id) == name.node) {
            return;
        }
        let help = format!("to reduce `{}` write `{}_{}(..)`", name.node, function.node, name.node);
        self.diagnostics.push(&CheckError::SizeAsNumber { help, name: name.node.clone(), size, at: dim.span });
    }

    /// Help for a function that gets a dim, or its position, as an argument: `softmax(h, F)`, `sum(x, 1)`.
    pub(super) fn reduced(&self, name: &str, subscript: &[Name], arguments: &[Expr]) -> Option<String> {
        const REDUCING: [&str; 11] =
            ["sum", "prod", "mean", "max", "min", "any", "all", "var", "softmax", "logsumexp", "log_softmax"];
        let ([], [_, dim], true) = (subscript, arguments, REDUCING.contains(&name)) else { return None };
        let dim = match &dim.kind {
            ExprKind::Array(ArrayRef { name: Some(dim), brackets: None, .. }) if self.binding(&dim.node).is_some() => {
                let sum = format!("write `A + {}` to add two arrays, ", dim.node);
                let sum = if name == "sum" { sum.as_str() } else { "" };
                return Some(format!("{sum}`{name}_J(A)` to reduce a dim"));
            }
            ExprKind::Array(ArrayRef { name: Some(dim), brackets: None, .. }) => dim.node.as_str(),
            _ => "J",
        };
        Some(format!("dims are written after `_`: `{name}_{dim}(..)`"))
    }

    /// The larger or the smaller of two; of bools, `or` or `and`.
    fn bound(
        &mut self,
        name: &str,
        operands: [Operand; 2],
        requested: Option<&[RequestedDim]>,
        [at, span]: [Span; 2],
    ) -> Checked<ValueId> {
        let larger = matches!(name, "max" | "or");
        let truths = matches!(name, "and" | "or");
        for operand in operands {
            let Operand::Array(id) = operand else { continue };
            let (dtype, operation, at) = (self.value(id).dtype, format!("`{name}`"), self.use_place(id));
            match (truths, dtype == DType::Bool) {
                (true, false) => return Err(CheckError::NeedsBool { operation, dtype, at }.into()),
                (false, true) => return Err(CheckError::NeedsNumber { operation, dtype, at }.into()),
                (true, true) | (false, false) => {}
            }
        }
        match operands {
            [Operand::Array(a), Operand::Array(b)] => self.map(
                if larger { Function::Binary(Binary::Larger) } else { Function::Binary(Binary::Smaller) },
                &[a, b],
                requested,
                span,
            ),
            [Operand::Array(a), Operand::Number(c)] | [Operand::Number(c), Operand::Array(a)] => {
                let c = Scalar(c);
                self.map(
                    if larger {
                        Function::ByNumber(ByNumber::AtLeast, c)
                    } else {
                        Function::ByNumber(ByNumber::AtMost, c)
                    },
                    &[a],
                    requested,
                    span,
                )
            }
            [Operand::Number(_), Operand::Number(_)] => Err(CheckError::NumberResult { at }.into()),
        }
    }

    /// A selection by a mask.
    fn choice(
        &mut self,
        mask: Operand,
        from: [Operand; 2],
        requested: Option<&[RequestedDim]>,
        [at, span]: [Span; 2],
    ) -> Checked<ValueId> {
        let Operand::Array(mask) = mask else { return Err(CheckError::NumberResult { at }.into()) };
        let dtype = self.value(mask).dtype;
        if dtype != DType::Bool {
            let operation = "the first argument of `where`".to_owned();
            return Err(CheckError::NeedsBool { operation, dtype, at: self.use_place(mask) }.into());
        }
        match from {
            [Operand::Array(yes), Operand::Array(no)] => self.map(Function::Where, &[mask, yes, no], requested, span),
            [Operand::Array(yes), Operand::Number(c)] => {
                self.map(Function::Masked(Scalar(c)), &[mask, yes], requested, span)
            }
            [Operand::Number(c), Operand::Array(no)] => {
                let other = self.map(Function::Unary(Unary::Not), &[mask], None, span)?;
                self.map(Function::Masked(Scalar(c)), &[other, no], requested, span)
            }
            [Operand::Number(_), Operand::Number(_)] => Err(CheckError::NumberResult { at }.into()),
        }
    }
}
