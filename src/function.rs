//! Elementwise functions, and the few others that need no communication of their own.

use crate::dtype::DType;
use crate::operator::Operator;
use std::fmt;

/// A number written in a program; floats are compared and hashed by their bits.
#[derive(Clone, Copy, Debug)]
pub struct Scalar(pub f64);

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// What stands in lanes that are padding, so that what comes next passes over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filler {
    /// 0, for sums.
    Zero,
    /// 1, for products.
    One,
    /// The least number of the dtype, minus infinity of a float, for what looks for the largest.
    Least,
    /// The greatest number of the dtype, infinity of a float and true of a bool, for what looks for the smallest.
    Greatest,
}

impl Filler {
    /// All of them.
    pub const ALL: [Filler; 4] = [Filler::Zero, Filler::One, Filler::Least, Filler::Greatest];

    /// `zero`, `one`, `least` or `greatest`
    pub fn word(self) -> &'static str {
        match self {
            Filler::Zero => "zero",
            Filler::One => "one",
            Filler::Least => "least",
            Filler::Greatest => "greatest",
        }
    }

    /// What a reduction by this operator passes over; of a mean and a sum of squares, what is added passes.
    pub fn neutral(operator: Operator) -> Filler {
        match operator {
            Operator::Sum | Operator::Mean | Operator::SquareAdd | Operator::Or | Operator::Root => Filler::Zero,
            Operator::Mul => Filler::One,
            Operator::Max => Filler::Least,
            Operator::Min | Operator::And => Filler::Greatest,
        }
    }
}

/// What a `Map` computes from elements that line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The operand itself: transposes where the indices say so.
    Identity,
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a / b`
    Div,
    /// `-a`
    Neg,
    /// `c * a`
    Scale(Scalar),
    /// `a + c`
    Shift(Scalar),
    /// `max(a, 0)`
    Relu,
    /// `a * Phi(a)`, by the usual tanh formula
    Gelu,
    /// `e^a`
    Exp,
    /// `tanh(a)`
    Tanh,
    /// `1 / (1 + e^-a)`
    Sigmoid,
    /// `a / (1 + e^-a)`
    Silu,
    /// The square root
    Sqrt,
    /// `1 / sqrt(a)`
    Rsqrt,
    /// `|a|`; of integers it wraps
    Abs,
    /// The natural logarithm
    Log,
    /// `a * a`; integers wrap
    Square,
    /// `1 / a`
    Recip,
    /// Of a bool, the other one
    Not,
    /// `a / n`, the end of a mean over n devices
    Over(u64),
    /// The larger of two
    Larger,
    /// The smaller of two
    Smaller,
    /// `max(a, c)`
    AtLeast(Scalar),
    /// `min(a, c)`
    AtMost(Scalar),
    /// Of a bool and two others: the second where it is true, the third where it is not
    Where,
    /// Of a bool and another: the other where it is true, a number where it is not
    Masked(Scalar),
    /// `exp(a - max) / sum(exp(a - max))` over one dim of the result, by its place there
    Softmax {
        /// Place of the dim.
        dim: u8,
    },
    /// The operand, but a filler in the lanes of one dim that are padding.
    Fill {
        /// Place of the dim in the result.
        dim: u8,
        /// The lanes before this one are kept.
        valid: u64,
        /// What the others become.
        with: Filler,
    },
    /// Another element type; floats round to nearest even, integers wrap, float to integer saturates.
    Cast(DType),
}

impl Function {
    /// Its name alone: `softmax`.
    pub fn word(self) -> &'static str {
        match self {
            Function::Identity => "identity",
            Function::Add => "add",
            Function::Sub => "sub",
            Function::Div => "div",
            Function::Neg => "neg",
            Function::Scale(_) => "scale",
            Function::Shift(_) => "shift",
            Function::Relu => "relu",
            Function::Gelu => "gelu",
            Function::Exp => "exp",
            Function::Tanh => "tanh",
            Function::Sigmoid => "sigmoid",
            Function::Silu => "silu",
            Function::Sqrt => "sqrt",
            Function::Rsqrt => "rsqrt",
            Function::Abs => "abs",
            Function::Log => "log",
            Function::Square => "square",
            Function::Recip => "recip",
            Function::Not => "not",
            Function::Over(_) => "over",
            Function::Larger => "larger",
            Function::Smaller => "smaller",
            Function::AtLeast(_) => "at_least",
            Function::AtMost(_) => "at_most",
            Function::Where => "where",
            Function::Masked(_) => "masked",
            Function::Softmax { .. } => "softmax",
            Function::Fill { .. } => "fill",
            Function::Cast(_) => "cast",
        }
    }

    /// How many operands it takes.
    pub fn arity(self) -> usize {
        match self {
            Function::Where => 3,
            Function::Add
            | Function::Sub
            | Function::Div
            | Function::Larger
            | Function::Smaller
            | Function::Masked(_) => 2,
            Function::Identity
            | Function::Neg
            | Function::Scale(_)
            | Function::Shift(_)
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Sigmoid
            | Function::Silu
            | Function::Sqrt
            | Function::Rsqrt
            | Function::Abs
            | Function::Log
            | Function::Square
            | Function::Recip
            | Function::Not
            | Function::Over(_)
            | Function::AtLeast(_)
            | Function::AtMost(_)
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => 1,
        }
    }

    /// Whether it has no meaning on integers.
    pub fn needs_float(self) -> bool {
        match self {
            Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Sigmoid
            | Function::Silu
            | Function::Sqrt
            | Function::Rsqrt
            | Function::Log
            | Function::Recip
            | Function::Over(_)
            | Function::Softmax { .. }
            | Function::Div => true,
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Neg
            | Function::Scale(_)
            | Function::Shift(_)
            | Function::Relu
            | Function::Fill { .. }
            | Function::Abs
            | Function::Square
            | Function::Not
            | Function::Larger
            | Function::Smaller
            | Function::AtLeast(_)
            | Function::AtMost(_)
            | Function::Where
            | Function::Masked(_)
            | Function::Cast(_) => false,
        }
    }

    /// Those that have neither a number nor a dim nor a dtype.
    pub const PLAIN: [Function; 21] = [
        Function::Identity,
        Function::Add,
        Function::Sub,
        Function::Div,
        Function::Neg,
        Function::Relu,
        Function::Gelu,
        Function::Exp,
        Function::Tanh,
        Function::Sigmoid,
        Function::Silu,
        Function::Sqrt,
        Function::Rsqrt,
        Function::Abs,
        Function::Log,
        Function::Square,
        Function::Recip,
        Function::Not,
        Function::Larger,
        Function::Smaller,
        Function::Where,
    ];
}

impl fmt::Display for Function {
    /// One word, with its number or dim: `relu`, `scale(0.5)`, `softmax(1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Function::Scale(Scalar(c))
            | Function::Shift(Scalar(c))
            | Function::AtLeast(Scalar(c))
            | Function::AtMost(Scalar(c))
            | Function::Masked(Scalar(c)) => write!(f, "{}({c})", self.word()),
            Function::Softmax { dim } => write!(f, "softmax({dim})"),
            Function::Fill { dim, valid, with } => write!(f, "fill({dim}, {valid}, {})", with.word()),
            Function::Cast(dtype) => write!(f, "cast({dtype})"),
            Function::Over(n) => write!(f, "over({n})"),
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Div
            | Function::Neg
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Sigmoid
            | Function::Silu
            | Function::Sqrt
            | Function::Rsqrt
            | Function::Abs
            | Function::Log
            | Function::Square
            | Function::Recip
            | Function::Not
            | Function::Larger
            | Function::Smaller
            | Function::Where => f.write_str(self.word()),
        }
    }
}
