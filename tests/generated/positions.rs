//! Legal expressions that pick elements by their position: rows, slices, joined arrays, the largest elements.

use super::expressions::Expression;
use super::model::{DTYPES, Open, Range, Sharding, Type, integers, is_unsigned};
use super::program::Writer;
use shardc::dtype::DType;
use shardc::operator::Operator;

/// Maximum number of elements of a result and of the array that it is computed from.
const MOST: u64 = 8192;
/// Maximum number of elements that `top` takes.
const TOP: u64 = 4;

impl Writer<'_> {
    fn size(&self, dim: usize) -> u64 {
        self.dims.list[dim].size
    }

    fn word(&self, dim: usize) -> String {
        self.dims.list[dim].name.clone()
    }

    pub(crate) fn elements(&self, dims: &[usize]) -> u64 {
        dims.iter().map(|dim| self.size(*dim)).product()
    }

    /// A dim that is not among these and fits; its size is the same with and without `--set`.
    fn other_dim(&mut self, dims: &[usize], fits: impl Fn(u64) -> bool) -> Option<usize> {
        let all = 0..self.dims.list.len();
        let list: Vec<usize> = all.filter(|dim| !dims.contains(dim) && fits(self.size(*dim))).collect();
        (!list.is_empty()).then(|| self.choices.one(&list))
    }

    /// A small whole number, positive or 0.
    fn up_to(&mut self, most: u64) -> u64 {
        self.choices.below(usize::try_from(most + 1).expect("small")) as u64
    }

    /// An input declared in place.
    pub(crate) fn fresh(&mut self, dtype: DType, dims: &[usize]) -> (String, Type) {
        let axes = self.sharding(dims, &[]);
        let layout = Sharding { axes, open: None };
        let range = Range { most: if dtype == DType::Bool { 1.0 } else { 4.0 }, exact: true };
        let kind = Type { dtype, dims: dims.to_vec(), layout: Some(layout), open: None, range };
        (format!("{dtype}{}", self.brackets_of(&kind).unwrap_or_default()), kind)
    }

    /// Positions: an array of integers without this dim.
    fn positions(&mut self, without: usize) -> (String, Vec<usize>) {
        let fits = |kind: &Type| kind.dtype == DType::I32 && kind.open.is_none() && !kind.dims.contains(&without);
        if self.choices.chance(1, 2)
            && let Some(place) = self.pick(fits)
        {
            return (self.used(place), self.values[place].kind.dims.clone());
        }
        let mut dims = self.some_dims(0);
        dims.retain(|dim| *dim != without);
        dims.truncate(2);
        let (text, kind) = self.fresh(DType::I32, &dims);
        (text, kind.dims)
    }

    /// A second array for `concat` and `stack`.
    fn partner(&mut self, operand: &Expression, dims: &[usize]) -> (String, Range) {
        let kind = &operand.kind;
        if dims == kind.dims && self.choices.chance(1, 3) {
            return (operand.text.clone(), kind.range);
        }
        let fits = |other: &Type| other.dtype == kind.dtype && other.open.is_none() && other.dims == dims;
        if self.choices.chance(1, 2)
            && let Some(place) = self.pick(fits)
        {
            return (self.used(place), self.values[place].kind.range);
        }
        let (text, kind) = self.fresh(kind.dtype, dims);
        (text, kind.range)
    }

    /// A function of positions along a dim.
    pub(crate) fn by_position(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = operand.kind.clone();
        let way = self.choices.below(14);
        let text = &operand.text;
        let closed = matches!(kind.open, None | Some((Operator::Root(_), _)));
        let integer = !kind.dtype.is_float() && kind.dtype != DType::Bool;
        if way == 13 {
            // `u64` cannot be compared with a signed integer.
            if !closed || !integer || kind.dtype == DType::U64 {
                return None;
            }
            let dim = self.other_dim(&kind.dims, |_| true)?;
            let dims = [kind.dims.clone(), vec![dim]].concat();
            let text = format!("onehot_{}({text})", self.word(dim));
            return self.picked(operand, text, dims, DType::Bool, Range { most: 1.0, exact: kind.range.exact });
        }
        if kind.dims.is_empty() {
            return None;
        }
        let place = self.choices.below(kind.dims.len());
        let (dim, range) = (kind.dims[place], kind.range);
        let (name, size) = (self.word(dim), self.size(dim));
        let without: Vec<usize> = kind.dims.iter().copied().filter(|other| *other != dim).collect();
        let with = |to: usize| -> Vec<usize> {
            kind.dims.iter().map(|other| if *other == dim { to } else { *other }).collect()
        };
        // Products with one-hot arrays are linear; those of small integers have a wider type before they are cast.
        let wide = kind.dtype.is_float() && kind.dtype.product(kind.dtype) == Some(kind.dtype);
        let linear = closed || wide && matches!(kind.open, Some((Operator::Sum, _)));
        if !linear {
            return None;
        }
        let scalar = |writer: &mut Self, most: u64| match writer.choices.chance(1, 6) {
            true => writer.fresh(DType::I32, &[]).0,
            false => writer.up_to(most).to_string(),
        };
        let mut made = match way {
            0 => {
                let at = self.up_to(size - 1);
                self.picked(operand, format!("take_{name}({text}, {at})"), without, kind.dtype, range)
            }
            1 | 2 => {
                let (ids, mut dims) = self.positions(dim);
                dims.extend(without.iter().filter(|other| !dims.contains(other)).copied().collect::<Vec<_>>());
                if self.elements(&dims) * size > 4 * MOST {
                    return None;
                }
                self.picked(operand, format!("take_{name}({text}, {ids})"), dims, kind.dtype, range)
            }
            3 => {
                let to = self.other_dim(&kind.dims, |other| other <= size)?;
                let at = scalar(self, size - self.size(to));
                let text = format!("slice_{{{name}->{}}}({text}, {at})", self.word(to));
                self.picked(operand, text, with(to), kind.dtype, range)
            }
            4 => {
                let to = self.other_dim(&kind.dims, |other| other >= size)?;
                let most = self.size(to) - size;
                let at = self.up_to(most);
                let text = format!("pad_{{{name}->{}}}({text}, {at})", self.word(to));
                self.picked(operand, text, with(to), kind.dtype, range)
            }
            5 | 6 => {
                if kind.open.is_some() {
                    return None;
                }
                // All pairs of a second dim, or the same one, and a dim of the size of both.
                let all = 0..self.dims.list.len();
                let pairs: Vec<(usize, usize)> = all
                    .clone()
                    .flat_map(|second| all.clone().map(move |to| (second, to)))
                    .filter(|(second, to)| {
                        (*second == dim || !kind.dims.contains(second))
                            && !kind.dims.contains(to)
                            && second != to
                            && self.size(dim) + self.size(*second) == self.size(*to)
                    })
                    .collect();
                if pairs.is_empty() {
                    return None;
                }
                let (second, to) = self.choices.one(&pairs);
                let (other, other_range) = self.partner(operand, &with(second));
                let from = match second == dim && self.choices.chance(1, 2) {
                    true => name,
                    false => format!("{name},{}", self.word(second)),
                };
                let text = format!("concat_{{{from}->{}}}({text}, {other})", self.word(to));
                let (most, exact) = (range.most.max(other_range.most), range.exact && other_range.exact);
                return self.picked(operand, text, with(to), kind.dtype, Range { most, exact });
            }
            7 => {
                if kind.open.is_some() {
                    return None;
                }
                let new = self.other_dim(&kind.dims, |other| other == 2 || other == 3)?;
                let (mut all, mut range) = (vec![text.clone()], range);
                for _ in 1..self.size(new) {
                    let (other, other_range) = self.partner(operand, &kind.dims);
                    all.push(other);
                    range.most = range.most.max(other_range.most);
                    range.exact &= other_range.exact;
                }
                let text = format!("stack_{}({})", self.word(new), all.join(", "));
                let dims = [vec![new], kind.dims.clone()].concat();
                return self.picked(operand, text, dims, kind.dtype, range);
            }
            8 => {
                let sign = self.choices.one(&["", "-"]);
                let by = self.up_to(size);
                self.picked(operand, format!("shift_{name}({text}, {sign}{by})"), kind.dims.clone(), kind.dtype, range)
            }
            9 => self.picked(operand, format!("reverse_{name}({text})"), kind.dims.clone(), kind.dtype, range),
            10 => {
                if kind.dtype == DType::Bool {
                    return None;
                }
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let most = range.most * size as f64;
                let range = Range { most, ..range };
                self.picked(operand, format!("cumsum_{name}({text})"), kind.dims.clone(), kind.dtype, range)
            }
            _ => {
                if kind.dtype == DType::Bool || !closed {
                    return None;
                }
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let places = Range { most: size as f64, exact: range.exact };
                if way == 11 {
                    let word = self.choices.one(&["argmax", "argmin"]);
                    return self.picked(operand, format!("{word}_{name}({text})"), without, DType::I32, places);
                }
                let to = self.other_dim(&kind.dims, |other| other <= size && other <= TOP)?;
                let word = self.choices.one(&["top", "argtop"]);
                let text = format!("{word}_{{{name}->{}}}({text})", self.word(to));
                let (dtype, range) = if word == "top" { (kind.dtype, range) } else { (DType::I32, places) };
                return self.picked(operand, text, with(to), dtype, range);
            }
        }?;
        // A shift by a number is not a product.
        if wide
            && way != 8
            && kind.open.is_none()
            && let Some(layout) = &kind.layout
            && !layout.axes[place].is_empty()
        {
            made.may_open.push(Some((Operator::Sum, layout.axes[place].clone())));
        }
        made.kind.open = kind.open;
        Some(made)
    }

    /// The result of a function of positions.
    fn picked(
        &mut self,
        operand: &Expression,
        text: String,
        dims: Vec<usize>,
        dtype: DType,
        range: Range,
    ) -> Option<Expression> {
        let new = dims.iter().any(|dim| !operand.kind.dims.contains(dim));
        if self.elements(&dims) > MOST || new && operand.is_local() {
            return None;
        }
        let range = Range { exact: range.exact && range.most <= integers(dtype), ..range };
        let open = operand.kind.open.clone();
        Some(Expression::atom(text, Type { dtype, dims, layout: None, open, range }))
    }

    /// A power, written with `**`.
    pub(crate) fn power(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if kind.dtype == DType::Bool || !matches!(kind.open, None | Some((Operator::Root(_), _))) {
            return None;
        }
        let (text, most, exact) = (operand.inner(), kind.range.most, kind.range.exact);
        let made = |text: String, most: f64, exact: bool| Some(operand.becomes(text, most, exact).beside());
        match self.choices.below(if kind.dtype.is_float() { 6 } else { 3 }) {
            0 => made(format!("{text} ** 2"), most * most, exact),
            1 => made(format!("{text} ** 3"), most.powi(3).max(most), exact),
            2 => made(format!("{text} ** 4"), most.powi(4).max(most), exact),
            3 => made(format!("({text} ** 2) ** 0.5"), most * most, false),
            4 => made(format!("(1 + {text} ** 2) ** -0.5"), most * most + 1.0, false),
            _ => made(format!("({text} ** 2 + 2) ** -1"), most * most + 2.0, false),
        }
    }

    /// A reduction of booleans, or one that is composed of several.
    pub(crate) fn composed(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if kind.dims.is_empty() {
            return None;
        }
        let first = self.choices.below(kind.dims.len());
        let second = self.choices.below(kind.dims.len());
        let both = second != first && self.choices.chance(1, 3);
        let over = if both { vec![first, second] } else { vec![first] };
        let names: Vec<String> = over.iter().map(|place| self.word(kind.dims[*place])).collect();
        let script = if both { format!("{{{}}}", names.join(",")) } else { names.concat() };
        let left: Vec<usize> =
            (0..kind.dims.len()).filter(|place| !over.contains(place)).map(|place| kind.dims[place]).collect();
        let operator = kind.open.as_ref().map(|(operator, _)| *operator);
        if kind.dtype == DType::Bool {
            let (word, result) = match operator {
                Some(Operator::Or) => ("any", Operator::Or),
                Some(Operator::And) => ("all", Operator::And),
                _ => self.choices.one(&[("any", Operator::Or), ("all", Operator::And)]),
            };
            let mut made = operand.becomes(format!("{word}_{script}({})", operand.text), 1.0, kind.range.exact);
            made.kind.dims = left;
            if let (None, Some(layout)) = (&kind.open, &kind.layout) {
                let axes: Vec<usize> = over.iter().flat_map(|place| layout.axes[*place].clone()).collect();
                let open: Open = (!axes.is_empty()).then_some((result, axes));
                made.may_open.extend(open.map(Some));
            }
            return Some(made);
        }
        if !kind.dtype.is_float() || kind.open.is_some() {
            return None;
        }
        // Sums of 8-bit numbers have a wider type.
        let dtype = if matches!(kind.dtype, DType::F8E4M3 | DType::F8E5M2) { DType::F32 } else { kind.dtype };
        let whole: u64 = over.iter().map(|place| self.size(kind.dims[*place])).product();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let log = (whole as f64).ln();
        let most = kind.range.most;
        let mut made = match self.choices.below(3) {
            0 => operand.becomes(format!("var_{script}({})", operand.text), 4.0 * most * most, false),
            1 => operand.becomes(format!("logsumexp_{script}({})", operand.text), most + log, false),
            _ => {
                let text = format!("log_softmax_{}({})", names[0], operand.text);
                let mut made = operand.becomes(text, 2.0 * most + log, false);
                made.kind.dtype = dtype;
                return Some(made);
            }
        };
        made.kind.dims = left;
        made.kind.dtype = dtype;
        Some(made)
    }

    /// `n: i32[] = 0`: an array of one number, computed by each device.
    pub(crate) fn statement_filled(&mut self) {
        let dtype = match self.choices.one(&DTYPES) {
            DType::Bool => DType::F32,
            dtype => dtype,
        };
        let dims = self.some_dims(0);
        let dims = if self.choices.chance(1, 4) { Vec::new() } else { dims };
        let axes = self.sharding(&dims, &[]);
        let layout = Sharding { axes, open: None };
        let numbers: &[(&str, f64)] = match dtype {
            dtype if dtype.is_float() => &[("0", 0.0), ("0.5", 0.5), ("-1", -1.0), ("3", 3.0)],
            dtype if is_unsigned(dtype) => &[("0", 0.0), ("3", 3.0)],
            _ => &[("0", 0.0), ("-1", -1.0), ("3", 3.0)],
        };
        let (text, number) = self.choices.one(numbers);
        let range = Range { most: number.abs(), exact: number.fract() == 0.0 };
        let kind = Type { dtype, dims, layout: Some(layout), open: None, range };
        let brackets = self.brackets_of(&kind).unwrap_or_default();
        // Brackets without axes leave the layout open.
        let fixed = kind.layout.as_ref().is_some_and(|layout| layout.axes.iter().any(|axes| !axes.is_empty()));
        let layout = kind.layout.clone().filter(|_| fixed);
        let name = self.bind_new(Type { layout, ..kind }, true);
        self.line(&format!("{name}: {dtype}{brackets} = {text}"));
    }
}
