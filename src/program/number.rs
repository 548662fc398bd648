//! Constant numbers, evaluated during checking: `scores / sqrt(H)` and `2 ** -0.5`.

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::expr::Operand;
use crate::function::{Binary, Function, Scalar, Unary};
use crate::span::Span;
use crate::syntax::{BinaryOp, Expr, ExprKind, Name};

impl Checker {
    /// The value of an expression of numbers, dim sizes and functions of them.
    pub(super) fn number(&self, expr: &Expr, depth: usize) -> Option<f64> {
        if depth > Checker::MOST_DEPTH {
            return None;
        }
        let number = |expr: &Expr| self.number(expr, depth + 1);
        match &expr.kind {
            ExprKind::Number(Scalar(number)) => Some(*number),
            ExprKind::Neg(inner) => Some(-number(inner)?),
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (number(left)?, number(right)?);
                Some(match op {
                    BinaryOp::Add => left + right,
                    BinaryOp::Sub => left - right,
                    BinaryOp::Mul => left * right,
                    BinaryOp::Div => left / right,
                    BinaryOp::Power => left.powf(right),
                    BinaryOp::Is(_) => return None,
                })
            }
            ExprKind::Product { factors, .. } => factors.iter().map(number).product(),
            ExprKind::Array(array) if array.brackets.is_none() => array.name.as_ref().and_then(|name| self.size(name)),
            ExprKind::Call { function, subscript, arguments } => match (subscript.as_slice(), arguments.as_slice()) {
                ([], [argument]) => of_number(&function.node, number(argument)?),
                _ => None,
            },
            ExprKind::Array(_) | ExprKind::Collective { .. } => None,
        }
    }

    /// The named number, or the size of a dim whose name no array has.
    pub(super) fn size(&self, name: &Name) -> Option<f64> {
        if let Some(number) = self.constants.get(&name.node) {
            return Some(*number);
        }
        if self.binding(&name.node).is_some() {
            return None;
        }
        let size = match (self.named_dims.get(&name.node), self.parts.get(&name.node)) {
            (Some(Some(dim)), _) => dim.size,
            (_, Some(parts)) if !parts.is_empty() => parts.iter().map(|dim| dim.size).product(),
            (Some(None) | None, _) => return None,
        };
        #[expect(clippy::cast_precision_loss, reason = "a size beside elements is one of their numbers")]
        Some(size as f64)
    }

    /// Checks that a number can be used with elements.
    pub(super) fn finite(&self, number: f64, at: Span) -> Checked<Operand> {
        if number.is_finite() { Ok(Operand::Number(number)) } else { Err(CheckError::NumberWithoutValue { at }.into()) }
    }

    /// `A ** c`: the supported powers.
    pub(super) fn power(&self, exponent: f64, at: Span) -> Checked<&'static [Function]> {
        const SQUARE: Function = Function::Unary(Unary::Square);
        Ok(match exponent {
            1.0 => &[],
            2.0 => &[SQUARE],
            3.0 => &[SQUARE, Function::Binary(Binary::Mul)],
            4.0 => &[SQUARE, SQUARE],
            0.5 => &[Function::Unary(Unary::Sqrt)],
            -0.5 => &[Function::Unary(Unary::Rsqrt)],
            -1.0 => &[Function::Unary(Unary::Recip)],
            _ => return Err(CheckError::UnknownPower { at }.into()),
        })
    }
}

/// A function of a number, by name.
fn of_number(name: &str, number: f64) -> Option<f64> {
    Some(match name {
        "sqrt" => number.sqrt(),
        "rsqrt" => 1.0 / number.sqrt(),
        "recip" => 1.0 / number,
        "exp" => number.exp(),
        "log" => number.ln(),
        "tanh" => number.tanh(),
        "sin" => number.sin(),
        "cos" => number.cos(),
        "abs" => number.abs(),
        "square" => number * number,
        _ => return None,
    })
}
