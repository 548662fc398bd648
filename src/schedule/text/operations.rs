//! Parsing of operations.

use super::arrays::{DTYPES, EINSUMS, OPERATORS, kernel};
use super::grammar::Rule;
use super::{OperationPlace, Part, Read, Reader, Told, parts};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::method::Method;
use crate::operator::Operator;
use crate::schedule::{Cut, OpId, OpKind, Operation, Region, words};
use crate::shift::Shift;
use crate::span::Span;
use pest::iterators::Pair;

/// Parses the kind and the operands of an operation.
type Kind = (OpKind, Vec<OpId>);

impl<'a> Reader<'a> {
    pub(super) fn operation(&mut self, pair: Pair<'a, Rule>, span: Span) -> Told<()> {
        let mut inner = parts(pair, span.start);
        let (Some(value), Some(kind)) = (inner.next(), inner.next()) else { return Ok(()) };
        let name = value.text();
        let (mut dtype, mut extents, mut method) = (DType::Bf16, Vec::new(), None);
        for part in inner {
            match part.rule() {
                Rule::dtype => dtype = part.known(DTYPES, part.text().parse().ok())?,
                Rule::extents => extents = part.extents()?,
                _ => method = part.find(Rule::method).map(|word| method_named(&word)).transpose()?,
            }
        }
        let (op, operands) = self.kind(&kind, &extents)?;
        let places = values(&kind).map(|value| value.span()).collect();
        let method = method.map(Method::name);
        let operation = Operation { kind: op, dtype, extents, step: self.step, method, span: Span::default() };
        let id = self.schedule.push(operation, &operands);
        self.values.insert(name, Some(id));
        self.places.operations.push(OperationPlace { name: name.to_owned(), span, operands: places });
        Ok(())
    }

    fn kind(&self, kind: &Part<'a>, extents: &[u64]) -> Told<Kind> {
        let operands: Vec<OpId> = values(kind).map(|value| self.value(&value)).collect::<Told<_>>()?;
        let number = || kind.find(Rule::number).map(|number| number.number()).transpose();
        let op = match kind.rule() {
            Rule::input => {
                let array = kind.find(Rule::array_name).map(|name| self.array_named(&name)).transpose()?;
                let array = array.unwrap_or(crate::schedule::ArrayId(0));
                let layout = kind.find(Rule::layout).map(|layout| self.sharding(array, &layout)).transpose()?;
                let sharding = layout.unwrap_or_else(|| crate::layout::Sharding::replicated(0));
                OpKind::Input { array, sharding }
            }
            Rule::slice => {
                let block = operands.first().map(|operand| self.schedule.operation(*operand).extents.clone());
                self.slice(kind, block.unwrap_or_default())?
            }
            Rule::shuffle => {
                let (sources, route) = self.shuffle(kind)?;
                OpKind::Shuffle { sources, route }
            }
            Rule::add => OpKind::Add { operator: operator(kind)? },
            Rule::assemble => {
                let regions = kind.all(Rule::piece).filter_map(|piece| piece.find(Rule::region));
                let places: Vec<Region> = regions.map(|region| self.region(&region)).collect::<Read<_>>()?;
                let zeros = kind.find(Rule::zeros).is_some();
                OpKind::Assemble { view: view(kind)?.unwrap_or_else(|| extents.to_vec()), places, zeros }
            }
            Rule::all_gather => {
                let axes = kind.find(Rule::axes).map(|axes| self.axes(&axes)).transpose()?;
                OpKind::AllGather { axes: axes.unwrap_or_default(), dim: number()?.unwrap_or_default() }
            }
            Rule::switch_sum => {
                let axes = kind.find(Rule::axes).map(|axes| self.axes(&axes)).transpose()?;
                OpKind::SwitchSum { axes: axes.unwrap_or_default(), operator: operator(kind)? }
            }
            Rule::mask => {
                let axes = kind.find(Rule::axes).map(|axes| self.axes(&axes)).transpose()?;
                OpKind::Mask { axes: axes.unwrap_or_default() }
            }
            Rule::reshape => OpKind::Reshape,
            Rule::mat_mul => OpKind::MatMul { einsum: einsum(kind)? },
            Rule::reduce => OpKind::Reduce { operator: operator(kind)?, einsum: einsum(kind)? },
            Rule::map => OpKind::Map { function: function(kind)?, einsum: einsum(kind)? },
            Rule::call => OpKind::Kernel(kernel(kind)?),
            Rule::shift => self.shift(kind)?,
            _ => self.fill(kind)?,
        };
        Ok((op, operands))
    }

    /// Parses `(0,1,2,3) dim 0 of [4, 1, 2]`, or a whole region.
    fn slice(&self, kind: &Part<'a>, block: Vec<u64>) -> Read<OpKind> {
        let view = view(kind)?.unwrap_or(block);
        let one = kind.find(Rule::one_cut);
        let region = match (&one, kind.find(Rule::region)) {
            (Some(one), _) => {
                let mut region = vec![Cut::Whole; view.len()];
                let place = one.find(Rule::number);
                let dim: Option<usize> = place.as_ref().map(|number| number.number()).transpose()?;
                let cut = one.find(Rule::coordinate_map).map(|map| self.map(&map)).transpose()?;
                match (dim.and_then(|dim| region.get_mut(dim)), cut) {
                    (Some(slot), Some(cut)) => *slot = Cut::At(cut),
                    _ => return place.as_ref().unwrap_or(one).known("a dim of the operand, from 0", None),
                }
                region
            }
            (None, Some(region)) => self.region(&region)?,
            (None, None) => Vec::new(),
        };
        Ok(OpKind::Slice { view, region })
    }

    /// Parses `least dim 1 from 6 on, block (0,1) over X`.
    fn fill(&self, kind: &Part<'a>) -> Read<OpKind> {
        let word = kind.find(Rule::filler);
        let word = word.as_ref().unwrap_or(kind);
        let with: Filler = word.known("`zero`, `one`, `least` or `greatest`", words::filler(word.text()))?;
        let mut numbers = kind.all(Rule::number);
        let dim = numbers.next().map(|number| number.number()).transpose()?.unwrap_or_default();
        let valid = numbers.next().map(|number| number.number()).transpose()?.unwrap_or_default();
        let block = kind.find(Rule::coordinate_map).map(|map| self.map(&map)).transpose()?;
        Ok(OpKind::Fill { dim, valid, with, block: block.unwrap_or(crate::schedule::CoordMap::constant(0)) })
    }

    /// Parses `shift dim 0 by -3 of 16, block x`.
    fn shift(&self, kind: &Part<'a>) -> Read<OpKind> {
        let mut numbers = kind.all(Rule::number);
        let dim = numbers.next();
        let dim = dim.map(|dim| dim.known("a dim of the operand, from 0", dim.text().parse().ok())).transpose()?;
        let length = numbers.next().map(|number| number.number()).transpose()?.unwrap_or_default();
        let by = kind.find(Rule::distance);
        let by = by.map(|by| by.known("a distance of at most 2^63", by.text().parse().ok())).transpose()?;
        let wraps = kind.find(Rule::shift_word).is_some_and(|word| word.text() == "roll");
        let shift = Shift { dim: dim.unwrap_or_default(), by: by.unwrap_or_default(), wraps };
        let block = kind.find(Rule::coordinate_map).map(|map| self.map(&map)).transpose()?;
        Ok(OpKind::Shift { shift, length, block: block.unwrap_or(crate::schedule::CoordMap::constant(0)) })
    }
}

/// Parses the operands.
fn values<'a>(kind: &Part<'a>) -> impl Iterator<Item = Part<'a>> + use<'a> {
    kind.inner().flat_map(|part| match part.rule() {
        Rule::value => vec![part],
        Rule::values | Rule::piece => part.all(Rule::value).collect(),
        _ => Vec::new(),
    })
}

fn view(kind: &Part<'_>) -> Read<Option<Vec<u64>>> {
    let extents = kind.find(Rule::view).and_then(|view| view.find(Rule::extents));
    extents.map(|extents| extents.extents()).transpose()
}

fn method_named(word: &Part<'_>) -> Read<Method> {
    word.known("a method", Method::from_name(word.text()))
}

fn operator(kind: &Part<'_>) -> Read<Operator> {
    let word = kind.find(Rule::operator);
    let word = word.as_ref().unwrap_or(kind);
    word.known(OPERATORS, words::operator(word.text()))
}

fn function(kind: &Part<'_>) -> Read<Function> {
    let word = kind.find(Rule::function);
    let word = word.as_ref().unwrap_or(kind);
    word.known("a function such as `relu`", words::function(word.text()))
}

fn einsum(kind: &Part<'_>) -> Read<Einsum> {
    let word = kind.find(Rule::einsum);
    let word = word.as_ref().unwrap_or(kind);
    word.known(EINSUMS, words::einsum(word.text()))
}
