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

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-a`
    Neg,
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
}

impl Unary {
    /// All of them.
    pub const ALL: [Unary; 14] = [
        Unary::Neg,
        Unary::Relu,
        Unary::Gelu,
        Unary::Exp,
        Unary::Tanh,
        Unary::Sigmoid,
        Unary::Silu,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Abs,
        Unary::Log,
        Unary::Square,
        Unary::Recip,
        Unary::Not,
    ];

    /// Its name: `relu`.
    pub fn word(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Relu => "relu",
            Unary::Gelu => "gelu",
            Unary::Exp => "exp",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Silu => "silu",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Abs => "abs",
            Unary::Log => "log",
            Unary::Square => "square",
            Unary::Recip => "recip",
            Unary::Not => "not",
        }
    }
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a / b`
    Div,
    /// The larger of two
    Larger,
    /// The smaller of two
    Smaller,
}

impl Binary {
    /// All of them.
    pub const ALL: [Binary; 5] = [Binary::Add, Binary::Sub, Binary::Div, Binary::Larger, Binary::Smaller];

    /// Its name: `larger`.
    pub fn word(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Div => "div",
            Binary::Larger => "larger",
            Binary::Smaller => "smaller",
        }
    }
}

/// A function of an element and a number of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByNumber {
    /// `c * a`
    Scale,
    /// `a + c`
    Shift,
    /// `max(a, c)`
    AtLeast,
    /// `min(a, c)`
    AtMost,
}

impl ByNumber {
    /// All of them.
    pub const ALL: [ByNumber; 4] = [ByNumber::Scale, ByNumber::Shift, ByNumber::AtLeast, ByNumber::AtMost];

    /// Its name: `scale`.
    pub fn word(self) -> &'static str {
        match self {
            ByNumber::Scale => "scale",
            ByNumber::Shift => "shift",
            ByNumber::AtLeast => "at_least",
            ByNumber::AtMost => "at_most",
        }
    }
}

/// What a `Map` computes from elements that line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The operand itself: transposes where the indices say so.
    Identity,
    /// Of one element.
    Unary(Unary),
    /// Of two elements.
    Binary(Binary),
    /// Of an element and a number.
    ByNumber(ByNumber, Scalar),
    /// `a / n`, the end of a mean over n devices
    Over(u64),
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
            Function::Unary(unary) => unary.word(),
            Function::Binary(binary) => binary.word(),
            Function::ByNumber(by, _) => by.word(),
            Function::Over(_) => "over",
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
            Function::Binary(_) | Function::Masked(_) => 2,
            Function::Identity
            | Function::Unary(_)
            | Function::ByNumber(..)
            | Function::Over(_)
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => 1,
        }
    }

    /// The element type that it gives; `None` where it has no meaning on these.
    pub fn dtype(self, operands: &[DType]) -> Option<DType> {
        let dtype = match (self, operands) {
            (Function::Cast(dtype), [_]) => dtype,
            (Function::Unary(Unary::Not), [only]) => (*only == DType::Bool).then_some(*only)?,
            (Function::Masked(_), [DType::Bool, only]) => *only,
            (Function::Where, [DType::Bool, left, right]) => left.elementwise(*right)?,
            (Function::Masked(_) | Function::Where, _) => return None,
            (_, [only]) => *only,
            (_, [left, right]) => left.elementwise(*right)?,
            _ => return None,
        };
        (dtype.is_float() || !self.needs_float()).then_some(dtype)
    }

    /// Whether it has no meaning on integers.
    pub fn needs_float(self) -> bool {
        match self {
            Function::Unary(unary) => match unary {
                Unary::Gelu
                | Unary::Exp
                | Unary::Tanh
                | Unary::Sigmoid
                | Unary::Silu
                | Unary::Sqrt
                | Unary::Rsqrt
                | Unary::Log
                | Unary::Recip => true,
                Unary::Neg | Unary::Relu | Unary::Abs | Unary::Square | Unary::Not => false,
            },
            Function::Binary(binary) => binary == Binary::Div,
            Function::Over(_) | Function::Softmax { .. } => true,
            Function::Identity
            | Function::ByNumber(..)
            | Function::Fill { .. }
            | Function::Where
            | Function::Masked(_)
            | Function::Cast(_) => false,
        }
    }

    /// The number of the program that it computes with.
    pub fn number(self) -> Option<f64> {
        match self {
            Function::ByNumber(_, Scalar(c)) | Function::Masked(Scalar(c)) => Some(c),
            Function::Identity
            | Function::Unary(_)
            | Function::Binary(_)
            | Function::Over(_)
            | Function::Where
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => None,
        }
    }

    /// Those that have neither a number nor a dim nor a dtype.
    pub fn plain() -> impl Iterator<Item = Function> {
        let unary = Unary::ALL.into_iter().map(Function::Unary);
        let binary = Binary::ALL.into_iter().map(Function::Binary);
        unary.chain(binary).chain([Function::Identity, Function::Where])
    }
}

impl fmt::Display for Function {
    /// One word, with its number or dim: `relu`, `scale(0.5)`, `softmax(1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Function::ByNumber(_, Scalar(c)) | Function::Masked(Scalar(c)) => write!(f, "{}({c})", self.word()),
            Function::Softmax { dim } => write!(f, "softmax({dim})"),
            Function::Fill { dim, valid, with } => write!(f, "fill({dim}, {valid}, {})", with.word()),
            Function::Cast(dtype) => write!(f, "cast({dtype})"),
            Function::Over(n) => write!(f, "over({n})"),
            Function::Identity | Function::Unary(_) | Function::Binary(_) | Function::Where => f.write_str(self.word()),
        }
    }
}
