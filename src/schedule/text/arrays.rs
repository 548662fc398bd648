//! Parsing of the mesh, arrays and shardings.

use super::error::TextError;
use super::grammar::Rule;
use super::{Part, Read, Reader, Told, names, parts};
use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::layout::Sharding;
use crate::mesh::{Axes, Axis, AxisId, AxisSet, Mesh, Wiring};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Dense, Output, words};
use crate::span::Span;
use crate::supply::{Supply, Table};
use pest::iterators::Pair;
use std::sync::Arc;

/// Expected word: a dtype.
pub(super) const DTYPES: &str = "an element type such as `bf16`";
/// Expected word: an operator.
pub(super) const OPERATORS: &str = "an operator such as `sum` or `max`";
/// Expected word: an einsum.
pub(super) const EINSUMS: &str = "an einsum such as `ab,bc->ac`";

/// Parses `{X: 4, R: 16 ring = {Q: 4, P: 4}}`.
pub(super) fn mesh(pair: &Pair<'_, Rule>, span: Span) -> Read<Mesh> {
    let mut axes = Vec::new();
    let mut views = Vec::new();
    for written in parts(pair.clone(), span.start) {
        let mut found = written.all(Rule::part).map(|part| axis(&part)).collect::<Read<Vec<Axis>>>()?.into_iter();
        let whole = found.next();
        let place = axes.len();
        if found.len() == 0 {
            axes.extend(whole);
        } else {
            axes.extend(found);
            views.extend(whole.map(|whole| (whole, place..axes.len())));
        }
    }
    let refused = || TextError::Mesh { at: span.into() };
    let mesh = Mesh::new(axes).ok_or_else(refused)?;
    views.into_iter().try_fold(mesh, |mesh, (whole, places)| {
        mesh.joined(&places.map(AxisId::new).collect::<Vec<_>>(), whole).ok_or_else(refused)
    })
}

fn axis(part: &Part<'_>) -> Read<Axis> {
    let name = part.find(Rule::axis_name).map(|name| name.text().to_owned()).unwrap_or_default();
    let size = part.find(Rule::number).map(|number| number.number()).transpose()?.unwrap_or_default();
    let wiring = part.find(Rule::wiring).and_then(|wiring| Wiring::from_word(wiring.text()));
    let over = part.find(Rule::over_network).and_then(|over| over.find(Rule::axis_name));
    Ok(Axis { name, size, wiring, over: over.map(|name| name.text().to_owned()) })
}

/// The label of an array in the text form.
pub(super) fn label(part: &Part<'_>) -> Read<String> {
    let number = part.find(Rule::number).map(|number| number.number()).transpose()?;
    Ok(names::label(&name(part), number.unwrap_or(1)))
}

/// Removes the quotes of a name.
fn name(part: &Part<'_>) -> String {
    let inside = part.find(Rule::quoted).and_then(|quoted| quoted.find(Rule::inside));
    let plain = || part.inner().next().map(|word| word.text().to_owned()).unwrap_or_default();
    inside.map_or_else(plain, |inside| names::unquoted(inside.text()))
}

impl<'a> Reader<'a> {
    pub(super) fn array(&mut self, pair: Pair<'a, Rule>, span: Span) -> Told<()> {
        let mut inner = parts(pair, span.start);
        let (Some(called), Some(dtype)) = (inner.next(), inner.next()) else { return Ok(()) };
        let (name, label) = (name(&called), label(&called)?);
        if let Some(first) = self.arrays.get(&label) {
            let help = format!("name the second one `{}`", names::label(&name, 2));
            let first = self.places.arrays[first.index()].into();
            return Err(TextError::Twice { name: label, help, first, second: called.span().into() }.into());
        }
        // The second array of a name is called so.
        let before = self.namesakes.get(&name).copied().unwrap_or_default();
        if label != names::label(&name, before + 1) {
            let what = "the expected label of this array";
            return Err(TextError::word(called.text(), what, called.span()).into());
        }
        let dtype = dtype.known(DTYPES, dtype.text().parse::<DType>().ok())?;
        let (mut dims, mut valid, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        let mut definition = Dense::INPUT;
        for part in inner {
            if part.rule() == Rule::dim {
                let (name, size, extent) = dim(&part)?;
                dims.push(name);
                valid.push(size);
                extents.push(extent);
            } else {
                definition = self.definition(&part)?;
            }
        }
        self.arrays.insert(label, ArrayId(u32::try_from(self.schedule.arrays.len()).unwrap_or(u32::MAX)));
        self.namesakes.insert(name.clone(), before + 1);
        self.places.arrays.push(span);
        self.schedule.arrays.push(Array { name, dtype, dims, extents, valid, definition });
        Ok(())
    }

    fn definition(&self, part: &Part<'a>) -> Told<Dense> {
        let operands: Vec<ArrayId> =
            part.all(Rule::array_name).map(|name| self.array_named(&name)).collect::<Told<_>>()?;
        let einsum = |part: &Part<'a>| match part.find(Rule::einsum) {
            Some(word) => word.known(EINSUMS, words::einsum(word.text())),
            None => part.known(EINSUMS, None),
        };
        match (part.rule(), operands.as_slice()) {
            (Rule::product, [left, right]) => Ok(Dense::Product { operands: [*left, *right], einsum: einsum(part)? }),
            (Rule::reduction, [operand]) => {
                let operator = match part.find(Rule::operator) {
                    Some(word) => word.known(OPERATORS, words::operator(word.text()))?,
                    None => Operator::Sum,
                };
                Ok(Dense::Reduce { operator, operand: *operand, einsum: einsum(part)? })
            }
            (Rule::mapped, _) => {
                let function = part.find(Rule::function);
                let word = function.as_ref().unwrap_or(part);
                let function = word.known("a function such as `relu`", words::function(word.text()))?;
                Ok(Dense::Map { function, operands, einsum: einsum(part)? })
            }
            (Rule::called, _) => Ok(Dense::Kernel { kernel: kernel(part)?, operands }),
            (Rule::counted, _) => Ok(Dense::Input { supply: Supply::Counted }),
            (Rule::tabled, _) => {
                let element = |word: Part<'a>| word.known("a whole number of 32 bits", word.text().parse::<i32>().ok());
                let elements: Vec<i32> = part.all(Rule::element).map(element).collect::<Read<_>>()?;
                Ok(Dense::Input { supply: Supply::Table(Table::new(elements)) })
            }
            _ if part.find(Rule::donated).is_some() => Ok(Dense::Input { supply: Supply::Donated }),
            _ => Ok(Dense::INPUT),
        }
    }

    /// Parses the value, the array and the layout of an output or an assertion.
    pub(super) fn output(&self, pair: Pair<'a, Rule>, span: Span) -> Told<Output> {
        let mut inner = parts(pair, span.start);
        let (Some(value), Some(array), Some(layout)) = (inner.next(), inner.next(), inner.next()) else {
            return Err(None);
        };
        let (value, array) = (self.value(&value)?, self.array_named(&array)?);
        let sharding = self.sharding(array, &layout)?;
        Ok(Output { value, array, sharding })
    }

    /// Parses `[I_X, J]{U_Y}` for an array with these dims.
    pub(super) fn sharding(&self, array: ArrayId, layout: &Part<'a>) -> Read<Sharding> {
        let mut dims = Vec::new();
        let mut written = Vec::new();
        for shard in layout.all(Rule::shard) {
            written.extend(shard.find(Rule::dim_name).map(|dim| name(&dim)));
            dims.push(self.distinct(shard.find(Rule::axes))?);
        }
        let array = self.schedule.array(array);
        if written != array.dims {
            let dims =
                format!("`[{}]`", array.dims.iter().map(|dim| names::dim_text(dim)).collect::<Vec<_>>().join(", "));
            return Err(TextError::Dims { array: array.name.clone(), dims, at: layout.span().into() });
        }
        let mut sharding = Sharding { dims, open: AxisSet::NONE, operator: Operator::Sum };
        if let Some(open) = layout.find(Rule::open_sum) {
            if let Some(word) = open.find(Rule::operator_word) {
                sharding.operator = word.known("an open sum such as `U` or `MAX`", Operator::from_word(word.text()))?;
            }
            let axes = self.distinct(open.find(Rule::axes))?;
            if let Some(root) = open.find(Rule::number) {
                let rooted = sharding.operator.with_root(root.number()?, axes, &self.schedule.mesh);
                sharding.operator = root.known("the rank of a `ROOT` along its axes", rooted)?;
            }
            sharding.set_open(axes.set());
        }
        Ok(sharding)
    }

    /// Parses distinct axes.
    fn distinct(&self, part: Option<Part<'a>>) -> Read<Axes> {
        let Some(part) = part else { return Ok(Axes::NONE) };
        let axes = self.axes(&part)?;
        let set: AxisSet = axes.iter().copied().collect();
        if set.len() < axes.len() {
            return Err(TextError::word(part.text(), "a list of different axes", part.span()));
        }
        Ok(axes.into_iter().collect())
    }
}

/// Parses `I 16`, `K 6 of 8`, `16`: name, size, and padded size.
fn dim(part: &Part<'_>) -> Read<(String, u64, u64)> {
    let name = part.find(Rule::dim_name).map(|dim| name(&dim)).unwrap_or_default();
    let numbers = part.extents()?;
    let padded = part.pair.clone().into_inner().any(|pair| pair.as_rule() == Rule::of_word);
    let literal = || name.parse().map_err(|_| TextError::word(part.text(), "a dim with its size: `I 16`", part.span()));
    let (size, extent) = match (numbers.as_slice(), padded) {
        ([size, extent, ..], _) => (*size, *extent),
        ([extent], true) => (literal()?, *extent),
        ([size], false) => (*size, *size),
        ([], _) => {
            let size = literal()?;
            (size, size)
        }
    };
    Ok((name, size, extent))
}

/// Parses a declared kernel.
pub(super) fn kernel(part: &Part<'_>) -> Read<Arc<Kernel>> {
    let word = part.find(Rule::kernel_text);
    let word = word.as_ref().unwrap_or(part);
    word.known(words::KERNELS, words::kernel(word.text()).map(Arc::new))
}
