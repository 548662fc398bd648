//! The algebra of open sums: operations that may be applied to partial results.
//!
//! An operation passes an open sum if applying it to the partial results and then combining gives the same value as
//! combining first. Floats are treated as exact; integers wrap.
//!
//! | open | operations |
//! | --- | --- |
//! | `U` | neg, scale, sum or difference of two, quotient or product (also elementwise) with a closed operand, closed `where` of two or of one and 0 |
//! | `MEAN` | the same, and adding a closed value or a number |
//! | `MAX`, `MIN` | monotonic functions: relu, exp, tanh, sigmoid, + c, × c > 0, widening casts, max (min) of two, max or min of one and a closed operand, bounds, closed `where`; neg swaps them |
//! | `MUL` | products of two, abs, closed `where` of two |
//! | `AND`, `OR` | and (or) of two, and or or of one and a closed operand, closed `where`; not swaps them |
//! | `SQUARE_ADD` | closed `where` of two |
//! | `ROOT` | all, with closed operands and with operands that are open by `ROOT` |
//!
//! A constant is to be finite in the dtype of the result, as an infinity times a partial 0 is a NaN. Partial maxima and
//! minima may be infinite, or the largest number of a dtype without infinities: there the functions that can overflow,
//! exp, + c and × c > 1, do not pass.
//!
//! A fill passes if combining the filler with itself gives the filler.
//!
//! A transposition and a shift pass every open sum.

use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Filler, Function, Scalar, Trend, Unary};
use crate::operator::Operator;

/// How an operation passes an open sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The sets of operands that may be open together; all other operands are closed.
    pub operands: &'static [&'static [usize]],
    /// The operator of the result.
    pub result: Operator,
}

const ONE: &[&[usize]] = &[&[0]];
const BOTH: &[&[usize]] = &[&[0, 1]];
const EITHER: &[&[usize]] = &[&[0], &[1]];
const ANY: &[&[usize]] = &[&[0, 1], &[0], &[1]];
/// The second operand of a masked choice.
const CHOICES: &[&[usize]] = &[&[1, 2]];
const ANY_CHOICE: &[&[usize]] = &[&[1, 2], &[1], &[2]];
const SECOND: &[&[usize]] = &[&[1]];
const ANY_OF_THREE: &[&[usize]] = &[&[0, 1, 2], &[0, 1], &[0, 2], &[1, 2], &[0], &[1], &[2]];

/// How an elementwise function from dtypes `from` to dtype `to` passes an operator.
pub fn map(function: Function, operator: Operator, from: &[DType], to: DType) -> Option<Passage> {
    let exact = from.iter().all(|from| is_exact(*from, to));
    let passage = |operands, result| Some(Passage { operands, result });
    match (operator, function) {
        // Only the root keeps a value.
        (Operator::Root(_), _) => passage(any(from.len()), operator),
        // Partial zeros combine to 0, with any operator.
        (_, Function::Identity | Function::Shift(_)) => passage(ONE, operator),
        (_, Function::Fill { with, .. }) => {
            stays(with, operator).then_some(Passage { operands: ONE, result: operator })
        }
        (Operator::Sum | Operator::Mean, Function::Unary(Unary::Neg) | Function::Over(_)) => passage(ONE, operator),
        (Operator::Sum | Operator::Mean, Function::ByNumber(ByNumber::Scale, Scalar(c))) => {
            let passes = if to.is_float() { is_finite(c, to) } else { c.fract() == 0.0 };
            passes.then_some(Passage { operands: ONE, result: operator })
        }
        (Operator::Sum | Operator::Mean, Function::Binary(Binary::Div)) if is_exact(from[0], to) => {
            passage(ONE, operator)
        }
        (_, Function::Binary(Binary::Mul)) if !matches!(operator, Operator::Max | Operator::Min) => {
            product(operator, [from[0], from[1]], to, false)
        }
        (Operator::Sum, Function::Binary(Binary::Add | Binary::Sub)) if exact => passage(BOTH, operator),
        (Operator::Mean, Function::Binary(Binary::Add | Binary::Sub)) => passage(ANY, operator),
        (Operator::Mean, Function::ByNumber(ByNumber::Shift, Scalar(c))) if is_finite(c, to) => passage(ONE, operator),
        (_, Function::Where) => chosen(operator, &from[1..], to),
        (_, Function::Masked(Scalar(c))) => {
            keeps(c, operator).then_some(Passage { operands: SECOND, result: operator })
        }
        (Operator::And, Function::Binary(Binary::Smaller)) | (Operator::Or, Function::Binary(Binary::Larger)) => {
            passage(ANY, operator)
        }
        (Operator::And, Function::Binary(Binary::Larger)) | (Operator::Or, Function::Binary(Binary::Smaller)) => {
            passage(EITHER, operator)
        }
        (Operator::Max | Operator::Min, function) => extreme(function, operator, from, to),
        (Operator::Mul, Function::Unary(Unary::Abs)) if to.is_float() => passage(ONE, operator),
        (Operator::And, Function::Unary(Unary::Not)) => passage(ONE, Operator::Or),
        (Operator::Or, Function::Unary(Unary::Not)) => passage(ONE, Operator::And),
        (Operator::Sum | Operator::Mean | Operator::Mul | Operator::And | Operator::Or | Operator::SquareAdd, _) => {
            None
        }
    }
}

/// Whether a cast commutes with combining: integers that wrap in their own type do not wrap in a wider one.
fn is_exact(from: DType, to: DType) -> bool {
    from == to || from.is_float()
}

/// Each operand by itself, for this number of operands.
fn any(operands: usize) -> &'static [&'static [usize]] {
    match operands {
        1 => ONE,
        2 => ANY,
        _ => ANY_OF_THREE,
    }
}

/// Passages of maxima and minima: nondecreasing and nonincreasing functions.
///
/// For integers that wrap, adding a number and negation are neither.
fn extreme(function: Function, operator: Operator, from: &[DType], to: DType) -> Option<Passage> {
    let (float, rises) = (to.is_float(), function.facts().trend == Trend::Rises);
    // A result that overflows is a NaN where there are no infinities.
    let is_ordered = to.format().is_some_and(|format| format.has_infinity);
    let swapped = if operator == Operator::Max { Operator::Min } else { Operator::Max };
    let (passes, operands, result) = match function {
        Function::Identity | Function::Shift(_) => (true, ONE, operator),
        Function::Cast(dtype) => (from.iter().all(|from| from.widens(dtype)), ONE, operator),
        // A closed operand may be met on every device.
        Function::Binary(Binary::Larger) => (true, if operator == Operator::Max { ANY } else { EITHER }, operator),
        Function::Binary(Binary::Smaller) => (true, if operator == Operator::Min { ANY } else { EITHER }, operator),
        Function::ByNumber(ByNumber::Shift, Scalar(c)) => (is_ordered && is_finite(c, to), ONE, operator),
        // 0 times an infinity is a NaN, and a device may take a number below the least normal one as 0.
        Function::ByNumber(ByNumber::Scale, Scalar(c)) => {
            let least = to.format().filter(|format| format.has_infinity).map_or(0.0, |format| format.least_normal());
            let is_positive = to.is_float() && c > 0.0 && c >= least;
            (is_positive && is_finite(c, to) && (c <= 1.0 || is_ordered), ONE, operator)
        }
        Function::Unary(Unary::Exp) => (is_ordered, ONE, operator),
        Function::Unary(_) if function.facts().trend == Trend::Falls => (float, ONE, swapped),
        Function::Unary(_) | Function::ByNumber(..) => (rises, ONE, operator),
        Function::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
        | Function::Over(_)
        | Function::Fill { .. }
        | Function::Is(_)
        | Function::IsNumber(..)
        | Function::Where
        | Function::Masked(_)
        | Function::Softmax { .. } => (false, ONE, operator),
    };
    passes.then_some(Passage { operands, result })
}

/// Whether a constant is finite in a float dtype.
fn is_finite(c: f64, to: DType) -> bool {
    c.abs() <= to.finite_ends()[1]
}

/// Passages of a closed mask: both operands open, or one closed with a value that is idempotent.
fn chosen(operator: Operator, from: &[DType], to: DType) -> Option<Passage> {
    let exact = from.iter().all(|from| is_exact(*from, to));
    let operands = match operator {
        Operator::Max | Operator::Min | Operator::And | Operator::Or => ANY_CHOICE,
        Operator::Sum | Operator::Mean | Operator::Mul | Operator::SquareAdd if exact => CHOICES,
        Operator::Root(_) => ANY_OF_THREE,
        Operator::Sum | Operator::Mean | Operator::Mul | Operator::SquareAdd => return None,
    };
    Some(Passage { operands, result: operator })
}

/// Whether combining a number with itself gives that number.
fn keeps(c: f64, operator: Operator) -> bool {
    match operator {
        Operator::Sum => c == 0.0,
        Operator::Mul => c == 0.0 || c == 1.0,
        Operator::Mean | Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root(_) => true,
        Operator::SquareAdd => false,
    }
}

/// Whether combining a filler with itself gives that filler.
fn stays(filler: Filler, operator: Operator) -> bool {
    match operator {
        Operator::Sum | Operator::Mean | Operator::SquareAdd => filler == Filler::Zero,
        Operator::Mul => matches!(filler, Filler::Zero | Filler::One),
        Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root(_) => true,
    }
}

/// How a product passes an operator; `contracts` if an index is summed.
///
/// - `from`: dtypes of the two factors.
pub fn product(operator: Operator, from: [DType; 2], to: DType, contracts: bool) -> Option<Passage> {
    let [left, right] = from.map(|from| is_exact(from, to));
    let operands = match operator {
        // The partner is closed: its type does not matter.
        Operator::Sum if left && right => EITHER,
        Operator::Sum if left => ONE,
        Operator::Sum if right => SECOND,
        Operator::Mean => EITHER,
        Operator::Mul if left && right && !contracts => BOTH,
        Operator::Root(_) => ANY,
        Operator::Sum
        | Operator::Mul
        | Operator::Max
        | Operator::Min
        | Operator::And
        | Operator::Or
        | Operator::SquareAdd => return None,
    };
    Some(Passage { operands, result: operator })
}

/// How a reduction over dims passes an operator: its own operator, and `ROOT`.
pub fn reduce(reduction: Operator, operator: Operator, from: DType, to: DType) -> Option<Passage> {
    (reduction == operator && from == to || operator.is_root()).then_some(Passage { operands: ONE, result: operator })
}
