//! Reductions over dims: `sum_J(A)`, `max_{J,K}(A)`, `prod_J(A)`.

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::layouts::RequestedDim;
use super::{Definition, ValueId};
use crate::dtype::DType;
use crate::function::{ByNumber, Function, Scalar};
use crate::layout::Dim;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::{Expr, Name};

impl Checker {
    /// A reduction; a mean is a scaled sum.
    pub(super) fn reduction(
        &mut self,
        function: &Name,
        subscript: &[Name],
        argument: &Expr,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let along: Vec<Dim> = subscript.iter().map(|dim| self.dim(&dim.node, dim.span)).collect::<Checked<_>>()?;
        let operand = self.array_expr(argument, None)?;
        let name = format!("`{}`", function.node);
        let operator = match function.node.as_str() {
            "max" => Operator::Max,
            "prod" => Operator::Mul,
            "min" => Operator::Min,
            "any" => Operator::Or,
            "all" => Operator::And,
            _ => Operator::Sum,
        };
        let (dtype, at) = (self.value(operand).dtype, self.use_place(operand));
        if !operator.takes(dtype) && matches!(operator, Operator::Or | Operator::And) {
            return Err(CheckError::NeedsBool { operation: name, dtype, at }.into());
        }
        if !operator.takes(dtype) {
            return Err(CheckError::NeedsNumber { operation: name, dtype, at }.into());
        }
        let mean = function.node == "mean";
        if mean && !dtype.is_float() {
            return Err(self.no_float(operand, name, at));
        }
        if mean {
            return self.mean(operand, subscript, &along, requested, span);
        }
        self.reduce(operator, operand, subscript, &along, requested, span)
    }

    /// The sum over dims, divided by the number of elements.
    pub(super) fn mean(
        &mut self,
        operand: ValueId,
        subscript: &[Name],
        along: &[Dim],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.reduce(Operator::Sum, operand, subscript, along, requested, span)?;
        let count: u64 = along.iter().map(|dim| dim.size).product();
        self.map(Function::ByNumber(ByNumber::Scale, Scalar(1.0 / count as f64)), &[id], requested, span)
    }

    pub(super) fn reduce(
        &mut self,
        operator: Operator,
        operand: ValueId,
        subscript: &[Name],
        along: &[Dim],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let own = self.value(operand).dims.clone();
        for (place, (dim, word)) in along.iter().zip(subscript).enumerate() {
            let twice = along[..place].contains(dim);
            if twice || !own.contains(dim) {
                let help = if twice {
                    format!("`{}` occurs twice; remove one", word.node)
                } else {
                    format!("the operand is `{}`", self.show(operand))
                };
                let name = format!("{operator}_{}", word.node);
                return Err(CheckError::FunctionSubscript { name, at: word.span, help }.into());
            }
        }
        let kept: Vec<Dim> = own.into_iter().filter(|dim| !along.contains(dim)).collect();
        let dims = requested.map_or(kept.clone(), |requested| self.matched(requested, &kept));
        if let Some(lost) = kept.iter().find(|dim| !dims.contains(dim)) {
            return Err(self.dim_lost(*lost, operand));
        }
        let dtype: DType = operator.reduced(self.value(operand).dtype);
        self.check_reduce_open(operator, operand, dtype)?;
        self.add(dtype, dims, Definition::Reduce { operator, operand }, span)
    }
}
