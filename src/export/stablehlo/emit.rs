//! StableHLO operations as text with types. Values are numbered in order of creation.

use crate::dtype::{DType, Format, Kind};
use crate::function::Filler;
use crate::operator::Operator;
use crate::shift::Shift;
use crate::supply::Table;
use itertools::Itertools;
use std::ops::Range;

/// A value and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::export) struct Tensor {
    /// SSA name: `%3`, `%3#1`.
    pub(super) name: String,
    /// Extents.
    pub(in crate::export) shape: Vec<u64>,
    /// Dtype of its elements.
    pub(in crate::export) dtype: DType,
}

impl Tensor {
    /// Its type: `tensor<8x16xbf16>`.
    pub(super) fn of(&self) -> String {
        tensor(&self.shape, self.dtype)
    }
}

/// A tensor type: `tensor<8x16xbf16>`.
pub(super) fn tensor(shape: &[u64], dtype: DType) -> String {
    let extents: String = shape.iter().map(|extent| format!("{extent}x")).collect();
    format!("tensor<{extents}{}>", dtype.mlir())
}

/// A list: `[0, 1]`.
pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    format!("[{}]", items.into_iter().map(|item| item.to_string()).join(", "))
}

/// A constant: a number, the least or the greatest value of a dtype.
#[derive(Clone, Copy, Debug)]
pub(in crate::export) enum Number {
    /// Rounded to the dtype; integers wrap.
    Is(f64),
    /// Minus infinity of a float.
    Least,
    /// Infinity of a float, true.
    Greatest,
}

impl Number {
    pub(super) fn of(filler: Filler) -> Number {
        match filler {
            Filler::Zero => Number::Is(0.0),
            Filler::One => Number::Is(1.0),
            Filler::Least => Number::Least,
            Filler::Greatest => Number::Greatest,
        }
    }
}

/// The text under construction.
#[derive(Debug, Default)]
pub(in crate::export) struct Emitter {
    pub(super) text: String,
    next: usize,
    channels: usize,
    depth: usize,
}

impl Emitter {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line and indents the following ones.
    pub(super) fn open(&mut self, line: &str) {
        self.line(line);
        self.depth += 1;
    }

    pub(super) fn close(&mut self, line: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(line);
    }

    /// A new value name.
    pub(super) fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    /// A new channel for a collective.
    pub(super) fn channel(&mut self) -> String {
        self.channels += 1;
        format!("channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>", self.channels)
    }

    /// Emits an operation. Returns its value.
    pub(super) fn made(&mut self, operation: &str, shape: &[u64], dtype: DType) -> Tensor {
        let name = self.fresh();
        self.line(&format!("{name} = {operation}"));
        Tensor { name, shape: shape.to_vec(), dtype }
    }

    /// Emits an operation whose operands and result have one type.
    pub(in crate::export) fn same(&mut self, operation: &str, operands: &[&Tensor]) -> Tensor {
        let first = operands[0];
        let names = operands.iter().map(|operand| operand.name.as_str()).join(", ");
        self.made(&format!("stablehlo.{operation} {names} : {}", first.of()), &first.shape, first.dtype)
    }

    /// Emits an operation whose type lists operands and result.
    pub(super) fn typed(&mut self, operation: &str, operands: &[&Tensor], rest: &str, to: (&[u64], DType)) -> Tensor {
        let names = operands.iter().map(|operand| operand.name.as_str()).join(", ");
        let types = operands.iter().map(|operand| operand.of()).join(", ");
        let rest = if rest.is_empty() { String::new() } else { format!(", {rest}") };
        let text = format!("stablehlo.{operation} {names}{rest} : ({types}) -> {}", tensor(to.0, to.1));
        self.made(&text, to.0, to.1)
    }

    pub(in crate::export) fn constant(&mut self, number: Number, shape: &[u64], dtype: DType) -> Tensor {
        let text = format!("stablehlo.constant dense<{}> : {}", literal(number, dtype), tensor(shape, dtype));
        self.made(&text, shape, dtype)
    }

    /// A table `i32`, with the elements in row-major order.
    pub(super) fn table(&mut self, table: &Table, shape: &[u64]) -> Tensor {
        let elements = table.elements();
        let flat = [elements.len() as u64];
        let list = elements.iter().format(", ");
        let text = format!("stablehlo.constant dense<[{list}]> : {}", tensor(&flat, DType::I32));
        let made = self.made(&text, &flat, DType::I32);
        self.reshape(&made, shape)
    }

    pub(super) fn convert(&mut self, a: &Tensor, to: DType) -> Tensor {
        if a.dtype == to { a.clone() } else { self.typed("convert", &[a], "", (&a.shape, to)) }
    }

    pub(super) fn reshape(&mut self, a: &Tensor, shape: &[u64]) -> Tensor {
        if a.shape == shape { a.clone() } else { self.typed("reshape", &[a], "", (shape, a.dtype)) }
    }

    pub(super) fn transpose(&mut self, a: &Tensor, order: &[usize]) -> Tensor {
        if order.iter().copied().eq(0..order.len()) {
            return a.clone();
        }
        let shape: Vec<u64> = order.iter().map(|place| a.shape[*place]).collect();
        self.typed("transpose", &[a], &format!("dims = {}", list(order)), (&shape, a.dtype))
    }

    /// Emits a broadcast. `places` are the positions of the operand's dims in the result.
    pub(super) fn broadcast(&mut self, a: &Tensor, places: &[usize], shape: &[u64]) -> Tensor {
        if a.shape == shape {
            return a.clone();
        }
        self.typed("broadcast_in_dim", &[a], &format!("dims = {}", list(places)), (shape, a.dtype))
    }

    /// Emits the elements of a whole array, moved along a dim.
    pub(super) fn shifted(&mut self, a: &Tensor, shift: Shift) -> Tensor {
        let (dim, by) = (shift.dim(), shift.by);
        if shift.wraps {
            let rows: Vec<Tensor> = shift
                .parts(a.shape[dim])
                .sorted_by_key(|part| part.to.start)
                .map(|part| self.rows(a, dim, &part.from))
                .collect();
            return self.concatenated(&rows.iter().collect::<Vec<_>>(), dim, &a.shape);
        }
        let zero = self.constant(Number::Is(0.0), &[], a.dtype);
        let edges = |own: i64| list((0..a.shape.len()).map(|place| if place == dim { own } else { 0 }));
        let rest = format!("low = {}, high = {}, interior = {}", edges(by), edges(-by), edges(0));
        self.typed("pad", &[a, &zero], &rest, (&a.shape, a.dtype))
    }

    /// Emits arrays one after the other along a dim.
    pub(super) fn concatenated(&mut self, parts: &[&Tensor], dim: usize, shape: &[u64]) -> Tensor {
        match parts {
            [only] => (*only).clone(),
            _ => self.typed("concatenate", parts, &format!("dim = {dim}"), (shape, parts[0].dtype)),
        }
    }

    /// Emits some rows of a dim.
    pub(super) fn rows(&mut self, a: &Tensor, dim: usize, rows: &Range<u64>) -> Tensor {
        let mut shape = a.shape.clone();
        shape[dim] = rows.end - rows.start;
        if shape == a.shape {
            return a.clone();
        }
        let range = |(place, extent): (usize, &u64)| match place == dim {
            true => format!("{}:{}", rows.start, rows.end),
            false => format!("0:{extent}"),
        };
        let ranges = a.shape.iter().enumerate().map(range).join(", ");
        let text = format!("stablehlo.slice {} [{ranges}] : ({}) -> {}", a.name, a.of(), tensor(&shape, a.dtype));
        self.made(&text, &shape, a.dtype)
    }

    /// Emits a reduction over some dims.
    pub(super) fn reduce(&mut self, operator: Operator, a: &Tensor, dims: &[usize]) -> Tensor {
        if dims.is_empty() {
            return a.clone();
        }
        let start = self.constant(Number::of(Filler::neutral(operator)), &[], a.dtype);
        let shape: Vec<u64> =
            a.shape.iter().enumerate().filter(|(dim, _)| !dims.contains(dim)).map(|(_, extent)| *extent).collect();
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = {} : ({}, {}) -> {}",
            a.name,
            start.name,
            combiner(operator),
            list(dims),
            a.of(),
            start.of(),
            tensor(&shape, a.dtype)
        );
        self.made(&text, &shape, a.dtype)
    }

    /// Emits a comparison: `LT`, `EQ`.
    pub(super) fn compare(&mut self, how: &str, a: &Tensor, b: &Tensor) -> Tensor {
        let kind = match a.dtype.kind() {
            Kind::Float(_) => "FLOAT",
            Kind::Signed => "SIGNED",
            Kind::Unsigned | Kind::Bool => "UNSIGNED",
        };
        let text = format!(
            "stablehlo.compare {how}, {}, {}, {kind} : ({}, {}) -> {}",
            a.name,
            b.name,
            a.of(),
            b.of(),
            tensor(&a.shape, DType::Bool)
        );
        self.made(&text, &a.shape, DType::Bool)
    }

    pub(super) fn select(&mut self, mask: &Tensor, yes: &Tensor, no: &Tensor) -> Tensor {
        let text = format!("stablehlo.select {}, {}, {} : {}, {}", mask.name, yes.name, no.name, mask.of(), yes.of());
        self.made(&text, &yes.shape, yes.dtype)
    }

    /// Emits the position of each element along a dim.
    pub(super) fn iota(&mut self, dim: usize, shape: &[u64]) -> Tensor {
        let text = format!("stablehlo.iota dim = {dim} : {}", tensor(shape, DType::I64));
        self.made(&text, shape, DType::I64)
    }

    /// Emits a collective in generic form, with its region if it reduces.
    pub(super) fn general(
        &mut self,
        name: &str,
        a: &Tensor,
        attributes: &str,
        region: Option<Operator>,
        to: &[u64],
    ) -> Tensor {
        let head = format!("\"stablehlo.{name}\"({}) <{{{attributes}}}>", a.name);
        let types = format!("({}) -> {}", a.of(), tensor(to, a.dtype));
        let value = self.fresh();
        match region {
            None => self.line(&format!("{value} = {head} : {types}")),
            Some(operator) => {
                let scalar = tensor(&[], a.dtype);
                let combine = combiner(operator);
                self.open(&format!("{value} = {head} ({{"));
                self.line(&format!("^bb0(%a: {scalar}, %b: {scalar}):"));
                self.line(&format!("  %c = stablehlo.{combine} %a, %b : {scalar}"));
                self.line(&format!("  stablehlo.return %c : {scalar}"));
                self.close(&format!("}}) : {types}"));
            }
        }
        Tensor { name: value, shape: to.to_vec(), dtype: a.dtype }
    }
}

/// The operation that combines two elements.
pub(super) fn combiner(operator: Operator) -> &'static str {
    match operator.combiner() {
        Operator::Max => "maximum",
        Operator::Min => "minimum",
        Operator::Mul => "multiply",
        Operator::And => "and",
        Operator::Or => "or",
        Operator::Sum | Operator::Mean | Operator::SquareAdd | Operator::Root(_) => "add",
    }
}

/// A literal in MLIR syntax; infinities by their bits.
fn literal(number: Number, dtype: DType) -> String {
    let number = match number {
        Number::Is(number) => number,
        Number::Least => dtype.ends()[0],
        Number::Greatest => dtype.ends()[1],
    };
    match dtype.kind() {
        Kind::Bool => (number != 0.0).to_string(),
        Kind::Signed | Kind::Unsigned => whole(number, dtype).to_string(),
        Kind::Float(format) if number.is_infinite() => infinity(number < 0.0, dtype, format),
        Kind::Float(_) => {
            // Float literals need a decimal point.
            let text = format!("{number:?}");
            if text.contains('.') { text } else { text.replace('e', ".0e") }
        }
    }
}

/// The bits of an infinity, or of the NaN if there is none.
fn infinity(is_negative: bool, dtype: DType, format: Format) -> String {
    let largest = (1_u64 << format.exponent) - 1;
    let magnitude = if format.has_infinity { largest << format.mantissa } else { (1 << (dtype.bits() - 1)) - 1 };
    let bits = magnitude | u64::from(is_negative) << (dtype.bits() - 1);
    format!("{bits:#0width$X}", width = 2 + dtype.bits() as usize / 4)
}

/// An integer of a dtype. Numbers beyond 64 bits saturate, others wrap.
#[expect(clippy::cast_possible_truncation, reason = "integers wrap")]
fn whole(number: f64, dtype: DType) -> i128 {
    let number = match dtype {
        DType::U64 if number >= 0.0 => i128::from(number as u64),
        _ => i128::from(number as i64),
    };
    let unused = i128::BITS - dtype.bits();
    match dtype.kind() {
        Kind::Unsigned => ((number.cast_unsigned() << unused) >> unused).cast_signed(),
        Kind::Bool | Kind::Signed | Kind::Float(_) => (number << unused) >> unused,
    }
}
