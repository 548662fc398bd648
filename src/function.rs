//! Elementwise functions, and the few others that need no communication of their own.

use crate::dtype::DType;
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
    /// The least number of the dtype, minus infinity of a float, for what looks for the largest.
    Least,
}

impl Filler {
    /// `zero` or `least`
    pub fn word(self) -> &'static str {
        match self {
            Filler::Zero => "zero",
            Filler::Least => "least",
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
            Function::Softmax { .. } => "softmax",
            Function::Fill { .. } => "fill",
            Function::Cast(_) => "cast",
        }
    }

    /// How many operands it takes.
    pub fn arity(self) -> usize {
        match self {
            Function::Add | Function::Sub | Function::Div => 2,
            Function::Identity
            | Function::Neg
            | Function::Scale(_)
            | Function::Shift(_)
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => 1,
        }
    }

    /// Whether it may be applied to the pieces of an open sum before they are added: `f(a + b) = f(a) + f(b)`.
    ///
    /// Of two operands both must be open over the same axes.
    pub fn is_linear(self) -> bool {
        match self {
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Neg
            | Function::Scale(_)
            | Function::Fill { with: Filler::Zero, .. } => true,
            Function::Fill { with: Filler::Least, .. }
            | Function::Div
            | Function::Shift(_)
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh
            | Function::Softmax { .. }
            | Function::Cast(_) => false,
        }
    }

    /// Whether it has no meaning on integers.
    pub fn needs_float(self) -> bool {
        match self {
            Function::Gelu | Function::Exp | Function::Tanh | Function::Softmax { .. } | Function::Div => true,
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Neg
            | Function::Scale(_)
            | Function::Shift(_)
            | Function::Relu
            | Function::Fill { .. }
            | Function::Cast(_) => false,
        }
    }
}

impl fmt::Display for Function {
    /// One word, with its number or dim: `relu`, `scale(0.5)`, `softmax(1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Function::Scale(Scalar(c)) | Function::Shift(Scalar(c)) => write!(f, "{}({c})", self.word()),
            Function::Softmax { dim } => write!(f, "softmax({dim})"),
            Function::Fill { dim, valid, with } => write!(f, "fill({dim}, {valid}, {})", with.word()),
            Function::Cast(dtype) => write!(f, "cast({dtype})"),
            Function::Identity
            | Function::Add
            | Function::Sub
            | Function::Div
            | Function::Neg
            | Function::Relu
            | Function::Gelu
            | Function::Exp
            | Function::Tanh => f.write_str(self.word()),
        }
    }
}
