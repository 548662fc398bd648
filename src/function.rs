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

/// The elements that a function has a meaning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Integers and floats.
    Numbers,
    /// Floats alone.
    Floats,
    /// Bools alone.
    Bools,
}

/// Whether a function of larger elements is never smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// It never falls.
    Rises,
    /// It never rises.
    Falls,
    /// Neither, or it has no value for some numbers.
    Neither,
}

/// What is to be known of a function without computing it. Arithmetic counts as exact.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its name: `relu`.
    pub word: &'static str,
    /// Of which elements it is.
    pub domain: Domain,
    /// Whether it makes 0 of nothing but 0.
    pub keeps_zero: bool,
    /// Of floats; integers wrap.
    pub trend: Trend,
    /// Whether it has no value, or an infinite one, for some numbers.
    pub is_partial: bool,
    /// Whether the result is an operand, or one with another sign: nothing is rounded.
    pub selects: bool,
}

const fn of_numbers(word: &'static str) -> Facts {
    let (domain, trend) = (Domain::Numbers, Trend::Neither);
    Facts { word, domain, keeps_zero: false, trend, is_partial: false, selects: false }
}

const fn of_floats(word: &'static str) -> Facts {
    Facts { domain: Domain::Floats, ..of_numbers(word) }
}

impl Facts {
    const fn keeps_zero(self) -> Facts {
        Facts { keeps_zero: true, ..self }
    }

    const fn rises(self) -> Facts {
        Facts { trend: Trend::Rises, ..self }
    }

    const fn falls(self) -> Facts {
        Facts { trend: Trend::Falls, ..self }
    }

    const fn partial(self) -> Facts {
        Facts { is_partial: true, ..self }
    }

    const fn selects(self) -> Facts {
        Facts { selects: true, ..self }
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

    /// A row for each.
    pub const fn facts(self) -> Facts {
        match self {
            Unary::Neg => of_numbers("neg").keeps_zero().falls().selects(),
            Unary::Relu => of_numbers("relu").keeps_zero().rises().selects(),
            Unary::Gelu => of_floats("gelu").keeps_zero(),
            Unary::Exp => of_floats("exp").rises(),
            Unary::Tanh => of_floats("tanh").keeps_zero().rises(),
            Unary::Sigmoid => of_floats("sigmoid").rises(),
            Unary::Silu => of_floats("silu").keeps_zero(),
            Unary::Sqrt => of_floats("sqrt").keeps_zero().partial(),
            Unary::Rsqrt => of_floats("rsqrt").partial(),
            Unary::Abs => of_numbers("abs").keeps_zero().selects(),
            Unary::Log => of_floats("log").partial(),
            Unary::Square => of_numbers("square").keeps_zero(),
            Unary::Recip => of_floats("recip").partial(),
            Unary::Not => Facts { domain: Domain::Bools, ..of_numbers("not") },
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
    /// `a * b`; of integers it wraps
    Mul,
    /// `a / b`
    Div,
    /// The larger of two
    Larger,
    /// The smaller of two
    Smaller,
}

impl Binary {
    /// All of them.
    pub const ALL: [Binary; 6] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Larger, Binary::Smaller];

    /// A row for each.
    pub const fn facts(self) -> Facts {
        match self {
            Binary::Add => of_numbers("add").keeps_zero(),
            Binary::Sub => of_numbers("sub").keeps_zero(),
            Binary::Mul => of_numbers("mul").keeps_zero(),
            Binary::Div => of_floats("div").partial(),
            Binary::Larger => of_numbers("larger").keeps_zero().rises().selects(),
            Binary::Smaller => of_numbers("smaller").keeps_zero().rises().selects(),
        }
    }
}

/// How two elements compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
}

impl Relation {
    /// All of them.
    pub const ALL: [Relation; 6] = [
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
        Relation::Equal,
        Relation::Unequal,
    ];

    /// Its name: `less`.
    pub const fn word(self) -> &'static str {
        match self {
            Relation::Less => "less",
            Relation::LessOrEqual => "less_or_equal",
            Relation::Greater => "greater",
            Relation::GreaterOrEqual => "greater_or_equal",
            Relation::Equal => "equal",
            Relation::Unequal => "unequal",
        }
    }

    /// `<`, `<=`, `>`, `>=`, `==` or `!=`
    pub const fn sign(self) -> &'static str {
        match self {
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
            Relation::Equal => "==",
            Relation::Unequal => "!=",
        }
    }

    /// The one with this sign.
    pub fn from_sign(sign: &str) -> Option<Relation> {
        let sign = match sign {
            "≤" => "<=",
            "≥" => ">=",
            "≠" => "!=",
            plain => plain,
        };
        Relation::ALL.into_iter().find(|relation| relation.sign() == sign)
    }

    /// The same with the sides exchanged: `a < b` is `b > a`.
    #[must_use]
    pub const fn turned(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            Relation::Equal => Relation::Equal,
            Relation::Unequal => Relation::Unequal,
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
    /// Whether two elements compare like this, a bool
    Is(Relation),
    /// Whether an element and a number do
    IsNumber(Relation, Scalar),
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
    /// What is to be known of it.
    pub fn facts(self) -> Facts {
        match self {
            Function::Identity => of_numbers("identity").keeps_zero().rises().selects(),
            Function::Unary(unary) => unary.facts(),
            Function::Binary(binary) => binary.facts(),
            Function::ByNumber(by, Scalar(c)) => {
                let (keeps_zero, trend) = match by {
                    ByNumber::Scale => (c.is_finite(), if c >= 0.0 { Trend::Rises } else { Trend::Neither }),
                    ByNumber::Shift => (c == 0.0, Trend::Rises),
                    ByNumber::AtLeast => (c <= 0.0, Trend::Rises),
                    ByNumber::AtMost => (c >= 0.0, Trend::Rises),
                };
                Facts { keeps_zero, trend, ..of_numbers(by.word()) }
            }
            Function::Over(_) => of_floats("over").keeps_zero(),
            Function::Is(relation) | Function::IsNumber(relation, _) => of_numbers(relation.word()),
            Function::Where => of_numbers("where").keeps_zero(),
            Function::Masked(Scalar(c)) => Facts { keeps_zero: c == 0.0, ..of_numbers("masked") },
            Function::Softmax { .. } => of_floats("softmax"),
            Function::Fill { .. } => of_numbers("fill").selects(),
            Function::Cast(_) => of_numbers("cast").keeps_zero().selects(),
        }
    }

    /// Its name alone: `softmax`.
    pub fn word(self) -> &'static str {
        self.facts().word
    }

    /// How many operands it takes.
    pub fn arity(self) -> usize {
        match self {
            Function::Where => 3,
            Function::Binary(_) | Function::Is(_) | Function::Masked(_) => 2,
            Function::Identity
            | Function::Unary(_)
            | Function::ByNumber(..)
            | Function::Over(_)
            | Function::IsNumber(..)
            | Function::Softmax { .. }
            | Function::Fill { .. }
            | Function::Cast(_) => 1,
        }
    }

    /// The element type that it gives; `None` where it has no meaning on these.
    pub fn dtype(self, operands: &[DType]) -> Option<DType> {
        let dtype = match (self, operands) {
            (Function::Cast(dtype), [_]) => dtype,
            (Function::Masked(_), [DType::Bool, only]) => *only,
            (Function::Where, [DType::Bool, left, right]) => left.elementwise(*right)?,
            (Function::Masked(_) | Function::Where, _) => return None,
            (_, [only]) => *only,
            (_, [left, right]) => left.elementwise(*right)?,
            _ => return None,
        };
        let has_meaning = match self.facts().domain {
            Domain::Numbers => true,
            Domain::Floats => dtype.is_float(),
            Domain::Bools => dtype == DType::Bool,
        };
        let made = if self.is_truth() { DType::Bool } else { dtype };
        (has_meaning && !(self.is_truth() && dtype == DType::Bool)).then_some(made)
    }

    /// Whether it makes a bool of numbers.
    pub fn is_truth(self) -> bool {
        matches!(self, Function::Is(_) | Function::IsNumber(..))
    }

    /// Whether it has no meaning on integers.
    pub fn needs_float(self) -> bool {
        self.facts().domain == Domain::Floats
    }

    /// The number of the program that it computes with.
    pub fn number(self) -> Option<f64> {
        match self {
            Function::ByNumber(_, Scalar(c)) | Function::Masked(Scalar(c)) | Function::IsNumber(_, Scalar(c)) => {
                Some(c)
            }
            Function::Identity
            | Function::Unary(_)
            | Function::Binary(_)
            | Function::Is(_)
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
        let relations = Relation::ALL.into_iter().map(Function::Is);
        unary.chain(binary).chain(relations).chain([Function::Identity, Function::Where])
    }
}

impl fmt::Display for Function {
    /// One word, with its number or dim: `relu`, `scale(0.5)`, `softmax(1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Function::ByNumber(_, Scalar(c)) | Function::Masked(Scalar(c)) | Function::IsNumber(_, Scalar(c)) => {
                write!(f, "{}({c})", self.word())
            }
            Function::Softmax { dim } => write!(f, "softmax({dim})"),
            Function::Fill { dim, valid, with } => write!(f, "fill({dim}, {valid}, {})", with.word()),
            Function::Cast(dtype) => write!(f, "cast({dtype})"),
            Function::Over(n) => write!(f, "over({n})"),
            Function::Identity | Function::Unary(_) | Function::Binary(_) | Function::Is(_) | Function::Where => {
                f.write_str(self.word())
            }
        }
    }
}
