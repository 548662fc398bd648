//! Legal expressions, with the known properties of their values.

use super::model::{DTYPES, Open, Range, Sharding, Type, integers, is_unsigned, room, subscript};
use super::program::Writer;
use shardc::dtype::DType;
use shardc::operator::Operator;

/// An expression as text.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) text: String,
    pub(crate) kind: Type,
    /// Whether it needs no brackets beside an operator.
    pub(crate) atom: bool,
    /// Sums that a written result may leave open.
    pub(crate) may_open: Vec<Open>,
    /// Whether its layout is fixed, so that a result in brackets must name it.
    pub(crate) by_hand: bool,
    /// The collective that it consists of, as `expect collectives` names it.
    pub(crate) moves: Option<String>,
}

impl Expression {
    pub(crate) fn atom(text: String, kind: Type) -> Expression {
        Expression { text, kind, atom: true, may_open: Vec::new(), by_hand: false, moves: None }
    }

    pub(crate) fn inner(&self) -> String {
        if self.atom { self.text.clone() } else { format!("({})", self.text) }
    }

    /// Whether it has a local product, whose contracted dim is a batch dim if the result has it.
    pub(crate) fn is_local(&self) -> bool {
        self.text.contains("_LOCAL")
    }

    /// The same, but in brackets beside an operator.
    pub(crate) fn beside(self) -> Expression {
        Expression { atom: false, ..self }
    }

    /// The result of a function; the compiler chooses its layout.
    pub(crate) fn becomes(&self, text: String, most: f64, exact: bool) -> Expression {
        let range = Range { most, exact: exact && most <= integers(self.kind.dtype) };
        Expression::atom(text, Type { layout: None, range, ..self.kind.clone() })
    }
}

fn operator(open: &Open) -> Option<Operator> {
    open.as_ref().map(|(operator, _)| *operator)
}

const DEEPEST: usize = 3;

impl Writer<'_> {
    /// A use of a value, or of an input declared in place.
    fn used_value(&mut self) -> Expression {
        if self.values.is_empty() || self.choices.chance(1, 12) {
            let (text, kind) = self.input();
            return Expression::atom(text, kind);
        }
        let place = self.pick(|_| true).expect("there are some");
        let text = self.used(place);
        Expression::atom(text, self.values[place].kind.clone())
    }

    /// A random expression.
    pub(crate) fn expression(&mut self, depth: usize) -> Expression {
        let open = self.choices.open();
        let made = if depth >= DEEPEST { self.used_value() } else { self.made(depth) };
        self.choices.close(open);
        made
    }

    fn made(&mut self, depth: usize) -> Expression {
        let kind = self.choices.below(24);
        if kind == 0 && depth > 0 {
            return self.used_value();
        }
        if kind == 1
            && let Some(expression) = self.collective()
        {
            return expression;
        }
        let operand = self.expression(depth + 1);
        let made = match kind {
            2..=4 => self.function(&operand),
            5..=6 => self.with_number(&operand),
            7..=9 => self.with_other(&operand, depth),
            10..=11 => self.reduction(&operand),
            12 => self.cast(&operand),
            13 => self.renamed(&operand),
            14 => self.chosen(&operand, depth),
            15 => self.along(&operand),
            16..=19 => self.by_position(&operand),
            20 => self.composed(&operand),
            21 => self.power(&operand),
            _ => self.call(&operand),
        };
        match made {
            Some(made) if made.kind.range.most <= room(made.kind.dtype) => made,
            _ => operand,
        }
    }

    /// A function of one element, or a sign.
    fn function(&mut self, operand: &Expression) -> Option<Expression> {
        let text = &operand.text;
        let most = operand.kind.range.most;
        let exact = operand.kind.range.exact;
        let open = operator(&operand.kind.open);
        if operand.kind.dtype == DType::Bool {
            let swapped = match open {
                Some(Operator::And) => Some(Operator::Or),
                Some(Operator::Or) => Some(Operator::And),
                other => other,
            };
            let mut made = operand.becomes(format!("not({text})"), 1.0, exact);
            made.kind.open = operand.kind.open.clone().and_then(|(_, axes)| Some((swapped?, axes)));
            return Some(made);
        }
        let float = operand.kind.dtype.is_float();
        if is_unsigned(operand.kind.dtype) {
            // A negative number would wrap to one that is larger than any range here.
            let name = self.choices.one(&["relu", "abs"]);
            return matches!(open, None | Some(Operator::Root(_)))
                .then(|| operand.becomes(format!("{name}({text})"), most, exact));
        }
        // Integers wrap, and the least one has no negative, so order is not preserved.
        let order = matches!(open, Some(Operator::Max | Operator::Min));
        let negation = |writer: &mut Self| {
            let space = writer.choices.one(&["", " "]);
            let mut made = operand.becomes(format!("-{space}{}", operand.inner()), most, exact);
            made.atom = false;
            made.kind.open = operand.kind.open.clone().map(|(operator, axes)| {
                let swapped = match operator {
                    Operator::Max => Operator::Min,
                    Operator::Min => Operator::Max,
                    other => other,
                };
                (swapped, axes)
            });
            made
        };
        let simple = |name: &str, most: f64, exact: bool| Some(operand.becomes(format!("{name}({text})"), most, exact));
        let exponent = most.min(50.0).exp();
        match open {
            Some(Operator::Sum | Operator::Mean) => Some(negation(self)),
            Some(Operator::SquareAdd | Operator::And | Operator::Or) => None,
            // Integers wrap, so the signs of the pieces are not those of the result.
            Some(Operator::Mul) if float => simple("abs", most, exact),
            Some(Operator::Mul) => None,
            Some(Operator::Max | Operator::Min) => match self.choices.below(5) {
                0 => simple("relu", most, exact),
                1 if float || !order => Some(negation(self)),
                2 if operand.kind.dtype.format().is_some_and(|format| format.has_infinity) => {
                    simple("exp", exponent, false)
                }
                3 if float => simple("tanh", 1.0, false),
                4 if float => simple("sigmoid", 1.0, false),
                _ => None,
            },
            None | Some(Operator::Root(_)) => match self.choices.below(if float { 18 } else { 4 }) {
                0 => simple("relu", most, exact),
                1 => Some(negation(self)),
                2 => simple("abs", most, exact),
                3 => simple("square", most * most, exact),
                4 => simple("tanh", 1.0, false),
                5 => simple("exp", exponent, false),
                6 => simple("gelu", most, false),
                7 => simple("silu", most, false),
                8 => simple("sigmoid", 1.0, false),
                9 => Some(operand.becomes(format!("sqrt(square({text}))"), most * most, false)),
                10 => Some(operand.becomes(format!("rsqrt(square({text}) + 1)"), most * most + 1.0, false)),
                11 => Some(operand.becomes(format!("recip(1 + square({text}))"), most * most + 1.0, false)),
                12 => Some(operand.becomes(format!("log(1 + square({text}))"), most * most + 1.0, false)),
                13 => {
                    let text = format!("1 / (2 + square({text}))");
                    Some(not_atom(operand.becomes(text, most * most + 2.0, false)))
                }
                14 => simple("sin", 1.0, false),
                15 => simple("cos", 1.0, false),
                _ => simple("relu", most, exact),
            },
        }
    }

    /// A positive number, which may have a name: its text and its value.
    fn scale(&mut self, float: bool, fraction: bool) -> (String, f64) {
        let fits = |number: &&(String, f64)| float || number.1.fract() == 0.0;
        let named: Vec<(String, f64)> = self.numbers.iter().filter(fits).cloned().collect();
        if !named.is_empty() && self.choices.chance(1, 3) {
            let place = self.choices.below(named.len());
            return named[place].clone();
        }
        let text = if fraction { self.choices.one(&["0.5", "4", "1e-2"]) } else { self.choices.one(&["2", "3", "1"]) };
        (text.to_owned(), text.parse().expect("a number"))
    }

    /// A binary operation with a number on either side.
    fn with_number(&mut self, operand: &Expression) -> Option<Expression> {
        if operand.kind.dtype == DType::Bool {
            return None;
        }
        let text = operand.inner();
        let (most, exact) = (operand.kind.range.most, operand.kind.range.exact);
        let float = operand.kind.dtype.is_float();
        let open = operator(&operand.kind.open);
        let way = self.choices.below(8);
        let (scale, factor) = self.scale(float, float && way > 3);
        let scaled = |text: String, most: f64| not_atom(operand.becomes(text, most, exact && factor >= 1.0));
        let divided = |text: String| not_atom(operand.becomes(text, most / factor.min(1.0), false));
        let shifted = |text: String| not_atom(operand.becomes(text, most + factor, exact && factor >= 1.0));
        // Integers wrap, so order is not preserved.
        let ordered = matches!(open, Some(Operator::Max | Operator::Min));
        if !float && ordered {
            return None;
        }
        // Where there are no infinities, a result that overflows is a NaN.
        let overflows = operand.kind.dtype.format().is_some_and(|format| !format.has_infinity);
        let linear = matches!(open, None | Some(Operator::Sum | Operator::Mean | Operator::Root(_)))
            || ordered && (factor <= 1.0 || !overflows);
        let adds = matches!(open, None | Some(Operator::Mean | Operator::Root(_))) || ordered && !overflows;
        // Applying the operation to an extreme and to all elements requires only that order is preserved; division is
        // not listed there.
        let divides = float && matches!(open, None | Some(Operator::Sum | Operator::Mean | Operator::Root(_)));
        match way {
            0 | 4 if linear => Some(scaled(format!("{scale} * {text}"), most * factor.max(1.0))),
            1 | 5 if linear => Some(scaled(format!("{text} * {scale}"), most * factor.max(1.0))),
            2 | 6 if adds => Some(shifted(format!("{text} + {scale}"))),
            3 if adds && !is_unsigned(operand.kind.dtype) => Some(shifted(format!("{text} - {scale}"))),
            7 if divides => Some(divided(format!("{text} / {scale}"))),
            _ if open.is_none() && self.choices.chance(1, 3) => {
                let (sign, number) =
                    (self.choices.one(&["<", "<=", ">", ">=", "==", "!="]), self.choices.one(&["0", "1", "-2"]));
                let mut compared = operand.becomes(format!("({text} {sign} {number})"), 1.0, true);
                compared.kind.dtype = DType::Bool;
                Some(compared)
            }
            _ if matches!(open, None | Some(Operator::Root(_))) => {
                let name = self.choices.one(&["max", "min"]);
                let number = self.choices.one(&["0", "-2", "3"]);
                let text = match self.choices.chance(1, 2) {
                    true => format!("{name}({number}, {})", operand.text),
                    false => format!("{name}({}, {number})", operand.text),
                };
                Some(operand.becomes(text, most.max(3.0), exact))
            }
            _ => None,
        }
    }

    /// A binary operation with another array.
    fn with_other(&mut self, operand: &Expression, depth: usize) -> Option<Expression> {
        let other = self.expression(depth + 1);
        let (left, right) = (&operand.kind, &other.kind);
        let (one, two) = (operator(&left.open), operator(&right.open));
        let logic = left.dtype == DType::Bool || right.dtype == DType::Bool;
        let dtype = left.dtype.elementwise(right.dtype)?;
        let exact = left.range.exact && right.range.exact;
        let same_dims = {
            let mut dims = [left.dims.clone(), right.dims.clone()];
            dims.iter_mut().for_each(|dims| dims.sort_unstable());
            dims[0] == dims[1]
        };
        let mut dims = left.dims.clone();
        dims.extend(right.dims.iter().filter(|dim| !left.dims.contains(dim)));
        let elements: u64 = dims.iter().map(|dim| self.dims.list[*dim].size).product();
        if elements > 8192 || !same_dims && (operand.is_local() || other.is_local()) {
            return None;
        }
        let made = |text: String, dtype: DType, open: Open, most: f64, exact: bool, atom: bool| {
            let range = Range { most, exact: exact && most <= integers(dtype) };
            let kind = Type { dtype, dims: dims.clone(), layout: None, open, range };
            Some(Expression { text, kind, atom, may_open: Vec::new(), by_hand: false, moves: None })
        };
        if logic {
            if one.is_some() || two.is_some() {
                return None;
            }
            let name = self.choices.one(&["and", "or"]);
            return made(format!("{name}({}, {})", operand.text, other.text), DType::Bool, None, 1.0, true, true);
        }
        let sum = left.range.most + right.range.most;
        let product = left.range.most * right.range.most;
        match (one, two) {
            (None, None) => match self.choices.below(9) {
                7 => {
                    let sign = self.choices.one(&["<", "<=", ">", ">=", "==", "!="]);
                    let text = format!("({} {sign} {})", operand.inner(), other.inner());
                    made(text, DType::Bool, None, 1.0, true, true)
                }
                8 => {
                    // The position of an element in a dim.
                    let dim = *left.dims.first()?;
                    let places = format!("iota_{}", self.dims.list[dim].name);
                    left.dtype.elementwise(DType::I32)?;
                    let sign = self.choices.one(&["<", ">=", "=="]);
                    let range = Range { most: 1.0, exact: true };
                    let kind = Type { dtype: DType::Bool, dims: left.dims.clone(), layout: None, open: None, range };
                    let text = format!("({places} {sign} {})", operand.inner());
                    Some(Expression { text, kind, atom: true, may_open: Vec::new(), by_hand: false, moves: None })
                }
                0 | 1 => made(format!("{} + {}", operand.inner(), other.inner()), dtype, None, sum, exact, false),
                2 if !is_unsigned(dtype) => {
                    made(format!("{} - {}", operand.inner(), other.inner()), dtype, None, sum, exact, false)
                }
                3 => {
                    let name = self.choices.one(&["max", "min"]);
                    made(format!("{name}({}, {})", operand.text, other.text), dtype, None, sum, exact, true)
                }
                4 => made(format!("{} .* {}", operand.inner(), other.inner()), dtype, None, product, exact, false),
                5 if dtype.is_float() && right.dtype.is_float() => {
                    let text = format!("{} / (square({}) + 1)", operand.inner(), other.text);
                    let most = left.range.most + right.range.most * right.range.most;
                    made(text, dtype, None, most, false, false)
                }
                _ => {
                    // A product inside an expression names its contracted dims.
                    let shared: Vec<usize> = left.dims.iter().copied().filter(|dim| right.dims.contains(dim)).collect();
                    let dtype = left.dtype.product(right.dtype)?;
                    if shared.is_empty() {
                        return None;
                    }
                    let all = self.choices.chance(1, 3);
                    let kept = self.choices.below(shared.len());
                    let contracted: Vec<usize> = if all { shared.clone() } else { vec![shared[kept]] };
                    let own = left.dims.len() > 1 && right.dims.len() > 1;
                    let plain = shared.len() == 1 && own && self.choices.chance(1, 2);
                    let names: Vec<&str> = contracted.iter().map(|dim| self.dims.list[*dim].name.as_str()).collect();
                    let sign = match (plain, names.as_slice()) {
                        (true, _) => "*".to_owned(),
                        (false, [only]) => format!("*_{only}"),
                        (false, names) => format!("*_{{{}}}", names.join(",")),
                    };
                    let size: u64 = contracted.iter().map(|dim| self.dims.list[*dim].size).product();
                    #[expect(clippy::cast_precision_loss, reason = "small")]
                    let most = product * size as f64;
                    let dims = dims.iter().copied().filter(|dim| !contracted.contains(dim)).collect();
                    let range = Range { most, exact: exact && most <= integers(dtype) };
                    let kind = Type { dtype, dims, layout: None, open: None, range };
                    let text = format!("{} {sign} {}", operand.inner(), other.inner());
                    Some(Expression { text, kind, atom: false, may_open: Vec::new(), by_hand: false, moves: None })
                }
            },
            // Both operands are open in the same way.
            (Some(Operator::Sum | Operator::Mean | Operator::Root(_)), _)
                if same_open(&left.open, &right.open) && same_dims =>
            {
                // Sums of integers that change dtype have to be closed first.
                let widens = |kind: &Type| kind.dtype != dtype && !kind.dtype.is_float();
                if one == Some(Operator::Sum) && (widens(left) || widens(right)) {
                    return None;
                }
                let sign = if is_unsigned(dtype) { "+" } else { self.choices.one(&["+", "-"]) };
                made(
                    format!("{} {sign} {}", operand.inner(), other.inner()),
                    dtype,
                    left.open.clone(),
                    sum,
                    exact,
                    false,
                )
            }
            // A value held by the first device, combined with one that all devices hold.
            (Some(Operator::Root(_)), None) => {
                made(format!("{} + {}", operand.inner(), other.inner()), dtype, left.open.clone(), sum, exact, false)
            }
            (None, Some(Operator::Root(_))) if !is_unsigned(dtype) => {
                made(format!("{} - {}", operand.inner(), other.inner()), dtype, right.open.clone(), sum, exact, false)
            }
            (Some(Operator::Sum), None) if dtype == left.dtype => {
                let text = format!("{} .* {}", operand.inner(), other.inner());
                made(text, dtype, left.open.clone(), product, exact, false)
            }
            (Some(Operator::Mean), None) if same_dims => {
                made(format!("{} + {}", operand.inner(), other.inner()), dtype, left.open.clone(), sum, exact, false)
            }
            _ => None,
        }
    }

    /// A reduction over dims.
    fn reduction(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if kind.dtype == DType::Bool || kind.dims.is_empty() {
            return None;
        }
        let float = kind.dtype.is_float();
        let name = match operator(&kind.open) {
            None => self.choices.one(if float { &["sum", "max", "min", "mean"] } else { &["sum", "max", "min"] }),
            Some(Operator::Sum) => "sum",
            Some(Operator::Max) => "max",
            Some(Operator::Min) => "min",
            Some(Operator::Root(_)) => self.choices.one(&["sum", "max"]),
            Some(_) => return None,
        };
        // Sums of 8-bit numbers have a wider type.
        let dtype = match kind.dtype {
            DType::I4 | DType::I8 if name == "sum" => DType::I32,
            DType::U4 | DType::U8 if name == "sum" => DType::U32,
            DType::F8E4M3 | DType::F8E5M2 if name == "sum" || name == "mean" => DType::F32,
            dtype => dtype,
        };
        if dtype != kind.dtype && kind.open.is_some() {
            return None;
        }
        let first = self.choices.below(kind.dims.len());
        let mut over = vec![first];
        if kind.dims.len() > 1 && self.choices.chance(1, 3) {
            let second = self.choices.below(kind.dims.len());
            if second != first {
                over.push(second);
            }
        }
        let names: Vec<&str> = over.iter().map(|place| self.dims.list[kind.dims[*place]].name.as_str()).collect();
        let size: u64 = over.iter().map(|place| self.dims.list[kind.dims[*place]].size).product();
        let script = match names.as_slice() {
            [only] => format!("_{only}"),
            names => format!("_{{{}}}", names.join(",")),
        };
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let most = if name == "sum" { kind.range.most * size as f64 } else { kind.range.most };
        let mut may_open = Vec::new();
        if kind.open.is_none()
            && let Some(layout) = &kind.layout
        {
            let axes: Vec<usize> = over.iter().flat_map(|place| layout.axes[*place].clone()).collect();
            let sum = match name {
                "sum" => Operator::Sum,
                "max" => Operator::Max,
                "min" => Operator::Min,
                _ => Operator::Mean,
            };
            if !axes.is_empty() && sum != Operator::Mean {
                may_open.push(Some((sum, axes)));
            }
        }
        let mut made =
            operand.becomes(format!("{name}{script}({})", operand.text), most, kind.range.exact && name != "mean");
        made.kind.dims =
            (0..kind.dims.len()).filter(|place| !over.contains(place)).map(|place| kind.dims[place]).collect();
        made.kind.dtype = dtype;
        made.may_open = may_open;
        Some(made)
    }

    fn cast(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if !matches!(operator(&kind.open), None | Some(Operator::Root(_))) {
            return None;
        }
        let to = self.choices.one(&DTYPES);
        if is_unsigned(to) && !kind.dtype.is_float() && kind.dtype != DType::Bool && !is_unsigned(kind.dtype) {
            // A negative number would wrap.
            return None;
        }
        // Rounding may move a value across an integer.
        if kind.dtype.is_float() && !to.is_float() && !kind.range.exact {
            return None;
        }
        let most = if to == DType::Bool { 1.0 } else { kind.range.most };
        let mut made = operand.becomes(format!("{to}({})", operand.text), most, kind.range.exact);
        made.kind.dtype = to;
        made.kind.range.exact &= most <= integers(to);
        Some(made)
    }

    fn renamed(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        let pairs: Vec<(usize, usize)> = (0..kind.dims.len())
            .flat_map(|place| (0..self.dims.list.len()).map(move |dim| (place, dim)))
            .filter(|(place, dim)| {
                let (old, new) = (&self.dims.list[kind.dims[*place]], &self.dims.list[*dim]);
                !kind.dims.contains(dim) && old.size == new.size && !old.settable && !new.settable
            })
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let (place, dim) = self.choices.one(&pairs);
        let (old, new) = (self.dims.list[kind.dims[place]].name.clone(), self.dims.list[dim].name.clone());
        let mut made =
            operand.becomes(format!("rename_{{{old}->{new}}}({})", operand.text), kind.range.most, kind.range.exact);
        made.kind.dims[place] = dim;
        Some(made)
    }

    /// A `where` expression.
    fn chosen(&mut self, operand: &Expression, depth: usize) -> Option<Expression> {
        let kind = &operand.kind;
        let mask = self.expression(depth + 1);
        if kind.dtype == DType::Bool
            || mask.kind.dtype != DType::Bool
            || kind.open.is_some()
            || mask.kind.open.is_some()
        {
            return None;
        }
        let number = self.choices.one(&["0", "-2", "3"]);
        let text = match self.choices.chance(1, 2) {
            true => format!("where({}, {}, {number})", mask.text, operand.text),
            false => format!("where({}, {number}, {})", mask.text, operand.text),
        };
        let mut made = operand.becomes(text, kind.range.most.max(3.0), kind.range.exact);
        let mut dims = mask.kind.dims.clone();
        dims.extend(kind.dims.iter().filter(|dim| !mask.kind.dims.contains(dim)));
        let elements: u64 = dims.iter().map(|dim| self.dims.list[*dim].size).product();
        made.kind.dims = dims;
        let new = made.kind.dims.len() > kind.dims.len().min(mask.kind.dims.len());
        (elements <= 8192 && !(new && (operand.is_local() || mask.is_local()))).then_some(made)
    }

    /// A `softmax` expression.
    fn along(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if !kind.dtype.is_float() || kind.dims.is_empty() || kind.open.is_some() {
            return None;
        }
        let dim = self.choices.one(&kind.dims);
        let name = self.dims.list[dim].name.clone();
        Some(operand.becomes(format!("softmax_{name}({})", operand.text), kind.range.most.max(1.0), false))
    }

    /// A collective written by hand, a local product, or `open_X`, of values with written layouts.
    pub(crate) fn collective(&mut self) -> Option<Expression> {
        let place = self.pick(|kind| kind.layout.is_some())?;
        let kind = self.values[place].kind.clone();
        let layout = kind.layout.clone()?;
        let argument = self.used(place);
        // Along axes of size 1 nothing is sent.
        let sends = self.machine.leaves.iter().all(|leaf| leaf.size > 1);
        let spelled = |script: String, name: &str| (format!("{name}{script}({argument})"), format!("{name}{script}"));
        let made = |(text, moves): (String, String), layout: Sharding, range: Range| {
            let kind = Type { open: layout.open.clone(), layout: Some(layout), range, ..kind.clone() };
            let moves = Some(moves).filter(|moves| sends && moves.contains('_') && !moves.starts_with("open"));
            Some(Expression { by_hand: true, moves, ..Expression::atom(text, kind) })
        };
        let range = kind.range;
        let inexact = Range { most: range.most, exact: range.exact && !kind.dtype.is_float() };
        let sharded: Vec<usize> = (0..kind.dims.len()).filter(|place| !layout.axes[*place].is_empty()).collect();
        match (self.choices.below(6), &layout.open) {
            (0 | 1, _) if !sharded.is_empty() => {
                let dim = self.choices.one(&sharded);
                let count = 1 + self.choices.below(layout.axes[dim].len());
                let mut after = layout.clone();
                let kept = after.axes[dim].len() - count;
                let gone = after.axes[dim].split_off(kept);
                let script = if sharded.len() == 1 && layout.axes[dim].len() == 1 && self.choices.chance(1, 4) {
                    String::new()
                } else {
                    subscript(self.choices, &self.machine, &gone)
                };
                made(spelled(script, "AllGather"), after, range)
            }
            (2, _) if !sharded.is_empty() && kind.dims.len() > 1 => {
                let from = self.choices.one(&sharded);
                let others: Vec<usize> = (0..kind.dims.len()).filter(|place| *place != from).collect();
                let to = self.choices.one(&others);
                let count = 1 + self.choices.below(layout.axes[from].len());
                let mut after = layout.clone();
                let kept = after.axes[from].len() - count;
                let moved = after.axes[from].split_off(kept);
                after.axes[to].extend(&moved);
                let name = self.dims.list[kind.dims[to]].name.clone();
                let script = self.with_dim(&moved, &name);
                made(spelled(script, "AllToAll"), after, range)
            }
            (3, None) => {
                let free: Vec<usize> =
                    (0..self.machine.leaves.len()).filter(|axis| !layout.spent().contains(axis)).collect();
                if free.is_empty() || kind.dtype == DType::Bool {
                    return None;
                }
                let axis = self.choices.one(&free);
                let script = subscript(self.choices, &self.machine, &[axis]);
                let after = Sharding { open: Some((Operator::Sum, vec![axis])), ..layout };
                made(spelled(script, "open"), after, range)
            }
            (4, None) => self.local_product(place),
            (_, Some((Operator::Root(_), axes))) => {
                let script = subscript(self.choices, &self.machine, axes);
                made(spelled(script, "Broadcast"), Sharding { open: None, ..layout.clone() }, range)
            }
            (3 | 4, Some((_, axes))) => {
                let part = axes.len() > 1 && self.choices.chance(1, 3);
                let (gone, kept) = if part { axes.split_at(1) } else { (axes.as_slice(), [].as_slice()) };
                let rest = match operator(&layout.open)? {
                    Operator::SquareAdd => Operator::Sum,
                    other => other,
                };
                let open = (!kept.is_empty()).then(|| (rest, kept.to_vec()));
                let script = subscript(self.choices, &self.machine, gone);
                made(spelled(script, "AllReduce"), Sharding { open, ..layout.clone() }, inexact)
            }
            (_, Some((_, axes))) if !kind.dims.is_empty() => {
                let mut after = Sharding { open: None, ..layout.clone() };
                let to = self.choices.below(kind.dims.len());
                after.axes[to].extend(axes);
                let name = self.dims.list[kind.dims[to]].name.clone();
                let script = self.with_dim(axes, &name);
                made(spelled(script, "ReduceScatter"), after, inexact)
            }
            _ => None,
        }
    }

    /// A subscript with a dim: `_{XY,K}` or `_{XY->K}`.
    fn with_dim(&mut self, axes: &[usize], dim: &str) -> String {
        let text = subscript(self.choices, &self.machine, axes);
        let inner = text.trim_start_matches('_').trim_start_matches('{').trim_end_matches('}');
        let comma = self.choices.one(&[",", "->"]);
        format!("_{{{inner}{comma}{dim}}}")
    }

    /// A local product of the devices' blocks.
    fn local_product(&mut self, place: usize) -> Option<Expression> {
        let left = self.values[place].kind.clone();
        let layout = left.layout.clone()?;
        if left.dtype == DType::Bool || left.open.is_some() || left.dims.is_empty() {
            return None;
        }
        // One shared dim is contracted, and each factor has another one.
        let shared = self.choices.below(left.dims.len());
        let others: Vec<usize> = (0..self.dims.list.len()).filter(|dim| !left.dims.contains(dim)).collect();
        if others.is_empty() || left.dims.len() < 2 {
            return None;
        }
        let other = self.choices.one(&others);
        let free = self.sharding(&[other], &layout.spent());
        let dims = vec![left.dims[shared], other];
        let right = Sharding { axes: vec![layout.axes[shared].clone(), free[0].clone()], open: None };
        let kind = Type { dims, layout: Some(right), ..left.clone() };
        let text = format!("{}{}", left.dtype, self.brackets_of(&kind).unwrap_or_default());
        let dtype = left.dtype.product(left.dtype)?;
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let most = left.range.most * 4.0 * self.dims.list[left.dims[shared]].size as f64;
        if most > room(dtype) {
            return None;
        }
        let open = layout.axes[shared].clone();
        let (mut dims, mut axes) = (left.dims.clone(), layout.axes.clone());
        dims.remove(shared);
        axes.remove(shared);
        dims.push(other);
        axes.push(free[0].clone());
        let open = (!open.is_empty()).then_some((Operator::Sum, open));
        let range = Range { most, exact: left.range.exact && most <= integers(dtype) };
        let layout = Sharding { axes, open: open.clone() };
        let sign = self.choices.one(&["*_LOCAL", "*_LOCAL", "·_LOCAL"]);
        let name = self.used(place);
        let kind = Type { dtype, dims, layout: Some(layout), open, range };
        Some(Expression {
            text: format!("{name} {sign} {text}"),
            kind,
            atom: false,
            may_open: Vec::new(),
            by_hand: true,
            moves: None,
        })
    }

    /// An expression with the dims and dtype of a carried value, and no larger.
    pub(crate) fn expression_of(&mut self, kind: &Type) -> String {
        let base = self
            .pick(|other| other.dims == kind.dims && other.dtype == kind.dtype && other.open.is_none())
            .expect("the value itself");
        let base = self.values[base].name.clone();
        // An array without some of the dims can be added.
        let fits = |other: &Type| {
            other.open.is_none() && other.dtype == kind.dtype && other.dims.iter().all(|dim| kind.dims.contains(dim))
        };
        let other = self.pick(fits).expect("the value itself");
        let other = self.values[other].name.clone();
        match self.choices.below(6) {
            0 => format!("tanh({base})"),
            // The last iteration's value, often that of an input of the body.
            4 => base,
            5 => format!("0.5 * {base} + 0.5 * tanh({other})"),
            1 => format!("tanh({base} + {other})"),
            2 => format!("0.5 * tanh({base}) - 0.5 * tanh({other})"),
            _ => format!("min(max({base} - {other}, -1), 1)"),
        }
    }
}

fn not_atom(expression: Expression) -> Expression {
    Expression { atom: false, ..expression }
}

fn same_open(one: &Open, two: &Open) -> bool {
    match (one, two) {
        (Some((a, x)), Some((b, y))) => {
            let (mut x, mut y) = (x.clone(), y.clone());
            x.sort_unstable();
            y.sort_unstable();
            a == b && x == y
        }
        _ => false,
    }
}
