//! Composed functions over dims: logsumexp, log_softmax, variance.
//!
//! They are expanded into reductions and elementwise functions, so over a sharded dim only small arrays are combined.

use super::ValueId;
use super::checker::Checker;
use super::error::Checked;
use super::layouts::RequestedDim;
use crate::function::{Binary, Function, Unary};
use crate::layout::Dim;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::{Expr, Name};

impl Checker {
    /// Expands `logsumexp_V(x)`, `log_softmax_V(x)`, `var_D(x)`.
    pub(super) fn composed(
        &mut self,
        function: &Name,
        subscript: &[Name],
        argument: &Expr,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let along: Vec<Dim> = subscript.iter().map(|dim| self.dim(&dim.node, dim.span)).collect::<Checked<_>>()?;
        let id = self.array_expr(argument, None)?;
        if !self.value(id).dtype.is_float() {
            let at = self.use_place(id);
            return Err(self.no_float(id, format!("`{}`", function.node), at));
        }
        let subtract = Function::Binary(Binary::Sub);
        match function.node.as_str() {
            "var" => {
                let mean = self.mean(id, subscript, &along, None, span)?;
                let apart = self.map(subtract, &[id, mean], None, span)?;
                let square = self.map(Function::Unary(Unary::Square), &[apart], None, span)?;
                self.mean(square, subscript, &along, requested, span)
            }
            "logsumexp" => self.log_sum_exp(id, subscript, &along, requested, span),
            _ => {
                let whole = self.log_sum_exp(id, subscript, &along, None, span)?;
                self.map(subtract, &[id, whole], requested, span)
            }
        }
    }

    /// Shifts by the largest element to avoid overflow.
    fn log_sum_exp(
        &mut self,
        id: ValueId,
        subscript: &[Name],
        along: &[Dim],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let largest = self.reduce(Operator::Max, id, subscript, along, None, span)?;
        let shifted = self.map(Function::Binary(Binary::Sub), &[id, largest], None, span)?;
        let powers = self.map(Function::Unary(Unary::Exp), &[shifted], None, span)?;
        let sum = self.reduce(Operator::Sum, powers, subscript, along, None, span)?;
        let log = self.map(Function::Unary(Unary::Log), &[sum], None, span)?;
        self.map(Function::Binary(Binary::Add), &[log, largest], requested, span)
    }
}
