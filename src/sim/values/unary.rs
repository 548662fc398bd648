//! The unary functions, one by one: their values in each arithmetic, and their rounding bounds.

use super::term::Term;
use crate::function::Unary;

/// The unary functions of an arithmetic.
pub(super) trait Functions: Sized {
    /// A function that is defined for this arithmetic.
    fn unary(function: Unary) -> fn(Self) -> Self;
}

/// Implements f32 and f64 alike.
macro_rules! float {
    ($type:ident) => {
        impl Functions for $type {
            fn unary(function: Unary) -> fn(Self) -> Self {
                match function {
                    Unary::Neg => |a| -a,
                    Unary::Relu => |a| if a < 0.0 { 0.0 } else { a },
                    Unary::Gelu => |a| {
                        let root = (2.0 / std::$type::consts::PI).sqrt();
                        0.5 * a * (1.0 + (root * (a + 0.044715 * a * a * a)).tanh())
                    },
                    Unary::Exp => $type::exp,
                    Unary::Tanh => $type::tanh,
                    Unary::Sin => $type::sin,
                    Unary::Cos => $type::cos,
                    Unary::Sigmoid => |a| 1.0 / (1.0 + (-a).exp()),
                    Unary::Silu => |a| a / (1.0 + (-a).exp()),
                    Unary::Sqrt => $type::sqrt,
                    Unary::Rsqrt => |a| 1.0 / a.sqrt(),
                    Unary::Abs => $type::abs,
                    Unary::Log => $type::ln,
                    Unary::Square => |a| a * a,
                    Unary::Recip => |a| 1.0 / a,
                    Unary::Not => unreachable!("of bools alone"),
                }
            }
        }
    };
}

float!(f32);
float!(f64);

/// Implements i64 and u64 alike.
macro_rules! integer {
    ($type:ident, $abs:expr) => {
        impl Functions for $type {
            fn unary(function: Unary) -> fn($type) -> $type {
                match function {
                    Unary::Neg => $type::wrapping_neg,
                    Unary::Relu => |a| a.max(0),
                    Unary::Abs => $abs,
                    Unary::Square => |a| a.wrapping_mul(a),
                    // The operand is a bool, read as 0 or 1.
                    Unary::Not => |a| $type::from(a == 0),
                    Unary::Gelu
                    | Unary::Exp
                    | Unary::Tanh
                    | Unary::Sin
                    | Unary::Cos
                    | Unary::Sigmoid
                    | Unary::Silu
                    | Unary::Sqrt
                    | Unary::Rsqrt
                    | Unary::Log
                    | Unary::Recip => unreachable!("of floats alone"),
                }
            }
        }
    };
}

integer!(i64, i64::wrapping_abs);
integer!(u64, |a| a);

/// The steepest slope of `gelu` and `silu`.
const SLOPE: f64 = 1.2;

/// The maximum distance of two results whose operands are within the bound, and the magnitude of the intermediate
/// results that the formula rounds.
pub(super) fn spread(function: Unary, of: Term) -> (f64, f64) {
    let over = |function: fn(f64) -> f64| {
        let [low, high] = of.interval().map(function);
        if of.bound == 0.0 { 0.0 } else { (high - low).abs() }
    };
    let away_from_zero = of.value.abs() > 2.0 * of.bound;
    let spread = match function {
        Unary::Neg | Unary::Relu | Unary::Abs => of.bound,
        Unary::Gelu => return (SLOPE * of.bound, of.most()),
        Unary::Silu => SLOPE * of.bound,
        Unary::Exp => over(f64::exp),
        Unary::Tanh => over(f64::tanh),
        Unary::Sin | Unary::Cos => return (of.bound.min(2.0), 1.0),
        Unary::Sigmoid => over(|a| 1.0 / (1.0 + (-a).exp())),
        Unary::Sqrt => over(f64::sqrt),
        Unary::Log => over(f64::ln),
        Unary::Rsqrt if away_from_zero => over(|a| 1.0 / a.sqrt()),
        Unary::Recip if away_from_zero => over(|a| 1.0 / a),
        Unary::Rsqrt | Unary::Recip => f64::INFINITY,
        Unary::Square => 2.0 * of.bound * of.most(),
        Unary::Not => {
            if of.bound == 0.0 {
                0.0
            } else {
                f64::INFINITY
            }
        }
    };
    (spread, 0.0)
}

/// Whether a function divides by its operand.
pub(super) fn divides(function: Unary) -> bool {
    matches!(function, Unary::Recip | Unary::Rsqrt)
}

/// The error where a function underflows: `1 / (1 + e^-a)` is 0 if the power overflows.
///
/// - `most`: the largest number of the arithmetic.
pub(super) fn underflow(function: Unary, of: Term, most: f64) -> f64 {
    match function {
        Unary::Sigmoid | Unary::Silu => 4.0 * (of.most() + 1.0) / most,
        _ => 0.0,
    }
}
