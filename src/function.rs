//! Elementwise functions, and other functions without communication of their own.

use crate::dtype::DType;
use crate::operator::Operator;
use crate::shift::Shift;
use std::fmt;

/// A number in a program; floats are compared and hashed by their bits.
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

/// The value written into padding lanes, neutral for the next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filler {
    /// 0, for sums.
    Zero,
    /// 1, for products.
    One,
    /// The lowest number of the dtype (minus infinity of a float), for maxima.
    Least,
    /// The greatest number of the dtype (infinity of a float, true of a bool), for minima.
    Greatest,
}

impl Filler {
    /// All fillers.
    pub const ALL: [Filler; 4] = [Filler::Zero, Filler::One, Filler::Least, Filler::Greatest];

    /// The name: `zero`, `one`, `least` or `greatest`.
    pub fn word(self) -> &'static str {
        match self {
            Filler::Zero => "zero",
            Filler::One => "one",
            Filler::Least => "least",
            Filler::Greatest => "greatest",
        }
    }

    /// The neutral element of a reduction; for a mean and a sum of squares, of the addition.
    pub fn neutral(operator: Operator) -> Filler {
        match operator {
            Operator::Sum | Operator::Mean | Operator::SquareAdd | Operator::Or | Operator::Root(_) => Filler::Zero,
            Operator::Mul => Filler::One,
            Operator::Max => Filler::Least,
            Operator::Min | Operator::And => Filler::Greatest,
        }
    }
}

/// The dtypes that a function supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Integers and floats.
    Numbers,
    /// Floats only.
    Floats,
    /// Booleans only.
    Bools,
}

/// Monotonicity of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// Nondecreasing.
    Rises,
    /// Nonincreasing.
    Falls,
    /// Neither, or undefined for some numbers.
    Neither,
}

/// Properties of a function. Arithmetic is treated as exact.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its name: `relu`.
    pub word: &'static str,
    /// Its dtypes.
    pub domain: Domain,
    /// Whether only 0 is mapped to 0.
    pub keeps_zero: bool,
    /// Monotonicity on floats; integers wrap.
    pub trend: Trend,
    /// Whether it is undefined or infinite for some numbers.
    pub is_partial: bool,
    /// Whether the result is an operand up to its sign, so nothing is rounded.
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

/// A unary function.
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
    /// `sin(a)`, of radians
    Sin,
    /// `cos(a)`, of radians
    Cos,
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
    /// Logical not
    Not,
}

impl Unary {
    /// All unary functions.
    pub const ALL: [Unary; 16] = [
        Unary::Neg,
        Unary::Relu,
        Unary::Gelu,
        Unary::Exp,
        Unary::Tanh,
        Unary::Sin,
        Unary::Cos,
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

    /// Its properties.
    pub const fn facts(self) -> Facts {
        match self {
            Unary::Neg => of_numbers("neg").keeps_zero().falls().selects(),
            Unary::Relu => of_numbers("relu").keeps_zero().rises().selects(),
            Unary::Gelu => of_floats("gelu").keeps_zero(),
            Unary::Exp => of_floats("exp").rises(),
            Unary::Tanh => of_floats("tanh").keeps_zero().rises(),
            Unary::Sin => of_floats("sin").keeps_zero(),
            Unary::Cos => of_floats("cos"),
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

/// A binary function.
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
    /// Maximum
    Larger,
    /// Minimum
    Smaller,
}

impl Binary {
    /// All binary functions.
    pub const ALL: [Binary; 6] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Larger, Binary::Smaller];

    /// Its properties.
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

/// A comparison.
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
    /// All comparisons.
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

    /// The sign: `<`, `<=`, `>`, `>=`, `==` or `!=`.
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

    /// Parses a sign.
    pub fn from_sign(sign: &str) -> Option<Relation> {
        let sign = match sign {
            "≤" => "<=",
            "≥" => ">=",
            "≠" => "!=",
            plain => plain,
        };
        Relation::ALL.into_iter().find(|relation| relation.sign() == sign)
    }

    /// The comparison with exchanged operands: `a < b` is `b > a`.
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

/// A function of an element and a constant.
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
    /// All functions with a constant.
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

/// The function of a `Map`, applied to aligned elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Identity; transposes if the indices differ
    Identity,
    /// Unary
    Unary(Unary),
    /// Binary
    Binary(Binary),
    /// With a constant
    ByNumber(ByNumber, Scalar),
    /// `a / n`, the end of a mean over n devices
    Over(u64),
    /// Comparison of two elements, a bool
    Is(Relation),
    /// Comparison with a constant, a bool
    IsNumber(Relation, Scalar),
    /// `where` of a bool and two operands
    Where,
    /// `where` of a bool, an operand and a constant
    Masked(Scalar),
    /// `exp(a - max) / sum(exp(a - max))` over one dim of the result
    Softmax {
        /// Index of the dim.
        dim: u8,
    },
    /// Fill of the padding lanes of one dim.
    Fill {
        /// Index of the dim in the result.
        dim: u8,
        /// First padding lane.
        valid: u64,
        /// The filler.
        with: Filler,
    },
    /// Elements moved along a dim.
    Shift(Shift),
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
            Function::Shift(shift) => of_numbers(shift.word()).keeps_zero().selects(),
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
            | Function::Shift(_)
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
            | Function::Shift(_)
            | Function::Cast(_) => None,
        }
    }

    /// The same function with a bound that is the nearest element of a dtype, as it is computed: `max(A, 100)` of i4 is
    /// `max(A, 7)`. Another dtype with all of these elements then computes the same.
    #[must_use]
    pub fn bounded(self, dtype: DType) -> Function {
        match self {
            Function::ByNumber(by @ (ByNumber::AtLeast | ByNumber::AtMost), Scalar(number)) => {
                Function::ByNumber(by, Scalar(dtype.saturated(number)))
            }
            other => other,
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

impl Function {
    /// Its word in tables and messages, as in programs: `max` for the larger one, `and` for the smaller of two `bool`s. A
    /// number is added by `add`, as `shift` is a move along a dim.
    pub fn shown_word(&self, result: DType) -> &str {
        match self {
            Function::ByNumber(ByNumber::Shift, _) => "add",
            Function::ByNumber(ByNumber::AtLeast, _) => "max",
            Function::ByNumber(ByNumber::AtMost, _) => "min",
            Function::Binary(Binary::Larger) if result == DType::Bool => "or",
            Function::Binary(Binary::Smaller) if result == DType::Bool => "and",
            Function::Binary(Binary::Larger) => "max",
            Function::Binary(Binary::Smaller) => "min",
            _ => self.word(),
        }
    }

    /// As in tables, with short numbers: `scale(0.0884)`, `add(1e-12)`.
    pub fn shown(&self, result: DType) -> String {
        match self {
            Function::ByNumber(_, Scalar(c)) => format!("{}({})", self.shown_word(result), short(*c)),
            Function::Binary(_) => self.shown_word(result).to_owned(),
            _ => self.to_string(),
        }
    }
}

/// A number with at most four significant digits, unless it is short.
fn short(number: f64) -> String {
    let exact = number.to_string();
    if exact.len() <= 8 {
        return exact;
    }
    let text = format!("{number:.3e}");
    let rounded: f64 = text.parse().unwrap_or(number);
    let plain = rounded.to_string();
    if plain.len() <= 8 { plain } else { format!("{rounded:e}") }
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
            Function::Shift(shift) => write!(f, "{shift}"),
            Function::Cast(dtype) => write!(f, "cast({dtype})"),
            Function::Over(n) => write!(f, "over({n})"),
            Function::Identity | Function::Unary(_) | Function::Binary(_) | Function::Is(_) | Function::Where => {
                f.write_str(self.word())
            }
        }
    }
}
