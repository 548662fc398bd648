//! Functions over dims that are made of others: log-sum-exp, its softmax, variance.
//!
//! They are reductions and functions from the start, so that over a sharded dim only small arrays are combined.

use super::ValueId;
use super::checker::Checker;
use super::error::Checked;
use super::layouts::Wish;
use crate::function::{Binary, Function, Unary};
use crate::layout::Dim;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::{Expr, Name};

impl Checker {
    /// `logsumexp_V(x)`, `log_softmax_V(x)`, `var_D(x)`
    pub(super) fn composed(
        &mut self,
        function: &Name,
        subscript: &[Name],
        argument: &Expr,
        wishes: Option<&[Wish]>,
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
                self.mean(square, subscript, &along, wishes, span)
            }
            "logsumexp" => self.log_sum_exp(id, subscript, &along, wishes, span),
            _ => {
                let whole = self.log_sum_exp(id, subscript, &along, None, span)?;
                self.map(subtract, &[id, whole], wishes, span)
            }
        }
    }

    /// Shifted by the largest element, so that no power overflows.
    fn log_sum_exp(
        &mut self,
        id: ValueId,
        subscript: &[Name],
        along: &[Dim],
        wishes: Option<&[Wish]>,
        span: Span,
    ) -> Checked<ValueId> {
        let largest = self.reduce(Operator::Max, id, subscript, along, None, span)?;
        let shifted = self.map(Function::Binary(Binary::Sub), &[id, largest], None, span)?;
        let powers = self.map(Function::Unary(Unary::Exp), &[shifted], None, span)?;
        let sum = self.reduce(Operator::Sum, powers, subscript, along, None, span)?;
        let log = self.map(Function::Unary(Unary::Log), &[sum], None, span)?;
        self.map(Function::Binary(Binary::Add), &[log, largest], wishes, span)
    }
}
