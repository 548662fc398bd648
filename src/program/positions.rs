//! Functions that pick elements by their position: rows, slices, joined arrays, shifts, the largest elements.
//!
//! They are expanded into comparisons with positions (`iota_S`), products with the resulting one-hot arrays, and
//! reductions. So every rule of layouts, open sums and fused lookups holds for them, and a sharded dim needs no rule of
//! its own.

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::expr::Operand;
use super::iota::{PREFIX, TWIN};
use super::layouts::RequestedDim;
use super::pick::Pick;
use super::{Definition, ValueId};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Relation, Scalar, Unary};
use crate::layout::Dim;
use crate::operator::Operator;
use crate::shift::Shift;
use crate::span::Span;
use crate::supply::Supply;
use crate::syntax::{Expr, Name};
use itertools::Itertools;

/// A dim as it is written.
#[derive(Clone, Copy)]
struct Along<'a> {
    dim: Dim,
    name: &'a Name,
}

impl Checker {
    /// Limit on the length of a `top` dim: one maximum for each element.
    const MOST_TOP: u64 = 64;

    /// Expands a function that picks by position.
    pub(super) fn pick(
        &mut self,
        (pick, function): (Pick, &Name),
        subscript: &[Name],
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let (word, form) = pick.facts();
        if !pick.takes(arguments.len()) {
            self.exist(subscript, arguments)?;
            let (name, count) = (word.to_owned(), arguments.len());
            let takes = match pick {
                Pick::Concat | Pick::Stack => "two or more arrays",
                Pick::Take | Pick::Scatter => "an array and positions",
                Pick::Slice | Pick::Pad | Pick::Shift | Pick::Roll => "an array and a number",
                _ => "one array",
            };
            let (takes, help) = (takes.to_owned(), format!("write {form}"));
            return Err(CheckError::Arguments { name, takes, count, at: function.span, help }.into());
        }
        if !pick.takes_dims(subscript.len(), arguments.len()) {
            self.exist(subscript, arguments)?;
            let (name, help) = (word.to_owned(), format!("write {form}"));
            return Err(CheckError::FunctionSubscript { name, at: function.span, help }.into());
        }
        let mut along = Vec::new();
        for name in subscript {
            along.push(Along { dim: self.dim(&name.node, name.span)?, name });
        }
        match pick {
            Pick::OneHot => {
                let at = self.position(word, &arguments[0])?;
                self.is_at(at, along[0], requested, span)
            }
            Pick::Take => self.take(along[0], arguments, requested, span),
            Pick::Scatter => self.scatter(along[0], arguments, requested, span),
            Pick::Slice => self.slice(along[0], along[1], arguments, requested, span),
            Pick::Pad => self.padded_with_zeros(along[0], along[1], arguments, requested, span),
            Pick::Concat => self.concat(&along, arguments, requested, span),
            Pick::Stack => {
                let mut arrays = Vec::new();
                for argument in arguments {
                    arrays.push(self.array_expr(argument, None)?);
                }
                self.stack(along[0], &arrays, requested, span)
            }
            Pick::Shift | Pick::Roll | Pick::Reverse | Pick::CumSum => {
                let number = arguments.get(1).map(|argument| self.position(word, argument)).transpose()?;
                self.along_itself(pick, along[0], (arguments, number), requested, span)
            }
            Pick::ArgMax | Pick::ArgMin => {
                let id = self.array_expr(&arguments[0], None)?;
                let operator = if pick == Pick::ArgMax { Operator::Max } else { Operator::Min };
                self.has(id, along[0])?;
                let best = self.best(operator, id, along[0], span)?;
                self.first_equal(id, best, along[0], requested, span)
            }
            Pick::Top | Pick::ArgTop => self.top(pick, along[0], along[1], &arguments[0], requested, span),
        }
    }

    /// `take_V(E, ids)`: the dims of the positions, then the other dims of the array.
    fn take(
        &mut self,
        along: Along<'_>,
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.array_expr(&arguments[0], None)?;
        self.has(id, along)?;
        let at = self.position("take", &arguments[1])?;
        if let Operand::Array(ids) = at
            && self.value(ids).dims.contains(&along.dim)
        {
            let name = format!("take_{}", along.name.node);
            let help = format!(
                "the positions are `{}`; rename their dim, `rename_{{{}->T}}(..)`",
                self.show(ids),
                along.name.node
            );
            return Err(CheckError::FunctionSubscript { name, at: along.name.span, help }.into());
        }
        let mask = self.is_at(at, along, None, span)?;
        let mut dims: Vec<Dim> = match at {
            Operand::Array(ids) => self.value(ids).dims.clone(),
            Operand::Number(_) => Vec::new(),
        };
        let rest = self.value(id).dims.iter().filter(|dim| **dim != along.dim && !dims.contains(dim)).copied();
        dims.extend(rest.collect_vec());
        self.selected(mask, id, dims, requested, span)
    }

    /// `scatter_V(u, ids)`: the sum of the rows of `u` with each position, as in the gradient of `take_V(E, ids)`.
    fn scatter(
        &mut self,
        along: Along<'_>,
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.array_expr(&arguments[0], None)?;
        let ids = self.array_expr(&arguments[1], None)?;
        let (own, rows) = (self.value(id).dims.clone(), self.value(ids).dims.clone());
        let misfit = |help: String| {
            let name = format!("scatter_{}", along.name.node);
            CheckError::FunctionSubscript { name, at: along.name.span, help }
        };
        if own.contains(&along.dim) || rows.contains(&along.dim) {
            let help = format!("it makes a new dim `{}`, which the operands must not have", along.name.node);
            return Err(misfit(help).into());
        }
        if let Some(missing) = rows.iter().find(|dim| !own.contains(dim)) {
            let (dim, values) = (self.dims.name(missing.id), self.show(id));
            return Err(misfit(format!("the positions have a row for each `{dim}`, which `{values}` lacks")).into());
        }
        let dtype = self.value(id).dtype;
        if dtype == DType::Bool {
            let (operation, at) = ("`scatter`".to_owned(), self.use_place(id));
            return Err(CheckError::NeedsNumber { operation, dtype, at }.into());
        }
        let mask = self.is_at(Operand::Array(ids), along, None, span)?;
        let dims: Vec<Dim> =
            std::iter::once(along.dim).chain(own.into_iter().filter(|dim| !rows.contains(dim))).collect();
        let dims = self.in_order(dims, requested);
        let factor = self.map(Function::Cast(dtype), &[mask], None, span)?;
        let sums = Operator::Sum.reduced(dtype);
        self.add(sums, dims, Definition::Product { operands: [factor, id], local: false }, span)
    }

    /// The dims in the requested order, if it is an order of these dims.
    fn in_order(&self, dims: Vec<Dim>, requested: Option<&[RequestedDim]>) -> Vec<Dim> {
        match requested {
            Some(requested) if requested.len() == dims.len() && self.unmatched(requested, &dims).is_none() => {
                self.matched(requested, &dims)
            }
            Some(_) | None => dims,
        }
    }

    /// `slice_{S->T}(x, 3)`
    fn slice(
        &mut self,
        from: Along<'_>,
        to: Along<'_>,
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.array_expr(&arguments[0], None)?;
        self.has(id, from)?;
        let start = self.offset(arguments.get(1), [to, from], "slice", span)?;
        let rows = self.positions(from, span)?;
        let wanted = self.positions(to, span)?;
        let wanted = self.moved_by(wanted, start, span)?;
        let mask = self.map(Function::Is(Relation::Equal), &[rows, wanted], None, span)?;
        let dims = self.each_of(start, from.dim, self.replaced(id, from.dim, to)?);
        self.selected(mask, id, dims, requested, span)
    }

    /// Where the shorter dim begins in the longer one: 0, if it is not written.
    fn offset(&mut self, at: Option<&Expr>, lengths: [Along<'_>; 2], word: &str, span: Span) -> Checked<Operand> {
        let at = at.map_or(Ok(Operand::Number(0.0)), |at| self.position(word, at))?;
        if let Operand::Number(at) = at {
            self.fits_within(at, lengths, word, span)?;
        }
        Ok(at)
    }

    /// `pad_{S->T}(x, 3)`
    fn padded_with_zeros(
        &mut self,
        from: Along<'_>,
        to: Along<'_>,
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.array_expr(&arguments[0], None)?;
        self.has(id, from)?;
        let before = self.offset(arguments.get(1), [from, to], "pad", span)?;
        self.placed(id, from, to, before, requested, span)
    }

    /// The array at a place of a longer dim, with zeros around it.
    fn placed(
        &mut self,
        id: ValueId,
        from: Along<'_>,
        to: Along<'_>,
        before: Operand,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let rows = self.positions(from, span)?;
        let rows = self.moved_by(rows, before, span)?;
        let wanted = self.positions(to, span)?;
        let mask = self.map(Function::Is(Relation::Equal), &[rows, wanted], None, span)?;
        let dims = self.each_of(before, from.dim, self.replaced(id, from.dim, to)?);
        self.selected(mask, id, dims, requested, span)
    }

    /// `concat_{S,R->T}(a, b)`: a sum of arrays that are zero elsewhere.
    fn concat(
        &mut self,
        along: &[Along<'_>],
        arguments: &[Expr],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let (to, from) = along.split_last().expect("two dims or more");
        let from_of = |place: usize| from[if from.len() == 1 { 0 } else { place }];
        let whole = (0..arguments.len()).map(|place| from_of(place).dim.size).try_fold(0u64, u64::checked_add);
        if whole != Some(to.dim.size) {
            let whole = whole.map_or_else(|| "more than 2^64".to_owned(), |whole| whole.to_string());
            let help = format!("the parts have {whole} elements, `{}` has {}", to.name.node, to.dim.size);
            return Err(CheckError::FunctionSubscript { name: "concat".to_owned(), at: to.name.span, help }.into());
        }
        let (mut joined, mut before) = (None, 0u64);
        for (place, argument) in arguments.iter().enumerate() {
            let id = self.array_expr(argument, None)?;
            let from = from_of(place);
            self.has(id, from)?;
            let part = self.placed(id, from, *to, Operand::Number(float(before)), requested, span)?;
            before += from.dim.size;
            joined = Some(match joined {
                None => part,
                Some(joined) => {
                    let is_bool = self.value(part).dtype == DType::Bool;
                    let both = if is_bool { Binary::Larger } else { Binary::Add };
                    self.map(Function::Binary(both), &[joined, part], requested, span)?
                }
            });
        }
        Ok(joined.expect("two arrays or more"))
    }

    /// `stack_K(a, b)`: the new dim first.
    fn stack(
        &mut self,
        along: Along<'_>,
        arrays: &[ValueId],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let error =
            |help: String| CheckError::FunctionSubscript { name: "stack".to_owned(), at: along.name.span, help };
        if along.dim.size != arrays.len() as u64 {
            let help = format!("`{}` has size {}, for {} arrays", along.name.node, along.dim.size, arrays.len());
            return Err(error(help).into());
        }
        if let Some(id) = arrays.iter().find(|id| self.value(**id).dims.contains(&along.dim)) {
            return Err(error(format!("`{}` already has `{}`", self.show(*id), along.name.node)).into());
        }
        let rows = self.positions(along, span)?;
        let (last, before) = arrays.split_last().expect("two arrays or more");
        let mut stacked = *last;
        for (place, id) in before.iter().enumerate().rev() {
            let here = Function::IsNumber(Relation::Equal, Scalar(float(place as u64)));
            let here = self.map(here, &[rows], None, span)?;
            let requested = if place == 0 { requested } else { None };
            stacked = self.map(Function::Where, &[here, *id, stacked], requested, span)?;
        }
        Ok(stacked)
    }

    /// Functions whose result has the dims of their operand: the operand gets a second dim of the same size.
    fn along_itself(
        &mut self,
        pick: Pick,
        along: Along<'_>,
        (arguments, number): (&[Expr], Option<Operand>),
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let id = self.array_expr(&arguments[0], None)?;
        self.has(id, along)?;
        let dims = self.value(id).dims.clone();
        if let (Pick::Shift | Pick::Roll, Some(Operand::Number(by))) = (pick, number) {
            return self.moved(id, along, (by, pick == Pick::Roll), requested, span);
        }
        if let (Pick::Roll, [of, by]) = (pick, arguments) {
            return Err(roll_by_array(&along.name.node, [of, by], self.value(id).dtype).into());
        }
        let twin = self.twin(along.dim);
        let named = Name { node: format!("{}{TWIN}", along.name.node), span: along.name.span };
        let other = Along { dim: twin, name: &named };
        let there = dims.iter().map(|dim| if *dim == along.dim { twin } else { *dim }).collect();
        self.share_splits(along.dim.id, twin.id);
        let from = self.add(self.value(id).dtype, there, Definition::Rename { operand: id }, span)?;
        let (old, new) = (self.positions(other, span)?, self.positions(along, span)?);
        let (relation, old) = match pick {
            Pick::CumSum => (Relation::LessOrEqual, old),
            Pick::Reverse => {
                let turned = self.map(Function::Unary(Unary::Neg), &[old], None, span)?;
                let last = Operand::Number(float(along.dim.size - 1));
                (Relation::Equal, self.moved_by(turned, last, span)?)
            }
            _ => (Relation::Equal, self.moved_by(old, number.unwrap_or(Operand::Number(0.0)), span)?),
        };
        let mask = self.map(Function::Is(relation), &[old, new], None, span)?;
        let dims = number.map_or(dims.clone(), |by| self.each_of(by, along.dim, dims));
        self.selected(mask, from, dims, requested, span)
    }

    /// `shift_S(x, 1)` and `roll_S(x, 1)`, which move elements to neighbours.
    fn moved(
        &mut self,
        id: ValueId,
        along: Along<'_>,
        (by, wraps): (f64, bool),
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let dims = self.value(id).dims.clone();
        let dim = dims.iter().position(|dim| *dim == along.dim).and_then(|dim| u8::try_from(dim).ok());
        let by = distance(by, along.dim.size, wraps);
        let moved = match dim {
            Some(dim) if by != 0 => self.map(Function::Shift(Shift { dim, by, wraps }), &[id], None, span)?,
            _ => id,
        };
        match moved == id || self.in_order(dims.clone(), requested) != dims {
            true => self.map(Function::Identity, &[moved], requested, span),
            false => Ok(moved),
        }
    }

    /// `top_{E->K}(x)`: the largest, the next one, and so on; of equal ones the first.
    fn top(
        &mut self,
        pick: Pick,
        from: Along<'_>,
        to: Along<'_>,
        argument: &Expr,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let mut id = self.array_expr(argument, None)?;
        self.has(id, from)?;
        let in_place =
            self.value(id).dims.iter().map(|dim| RequestedDim::Dim(if *dim == from.dim { to.dim } else { *dim }));
        let in_place = in_place.collect_vec();
        let requested = Some(requested.unwrap_or(&in_place));
        let count = to.dim.size;
        if count > from.dim.size || count > Self::MOST_TOP || self.value(id).dims.contains(&to.dim) {
            let help = if count > from.dim.size {
                format!("`{}` has only {} elements", from.name.node, from.dim.size)
            } else if count > Self::MOST_TOP {
                format!("at most {} are taken", Self::MOST_TOP)
            } else {
                format!("the operand `{}` already has `{}`", self.show(id), to.name.node)
            };
            let name = pick.facts().0.to_owned();
            return Err(CheckError::FunctionSubscript { name, at: to.name.span, help }.into());
        }
        let mut picked = Vec::new();
        for place in 0..count {
            let best = self.best(Operator::Max, id, from, span)?;
            let is_last = place + 1 == count;
            if is_last && pick == Pick::Top {
                picked.push(best);
                break;
            }
            let at = self.first_equal(id, best, from, None, span)?;
            picked.push(if pick == Pick::Top { best } else { at });
            if !is_last {
                let rows = self.positions(from, span)?;
                let others = self.map(Function::Is(Relation::Unequal), &[rows, at], None, span)?;
                let least = Scalar(least(self.value(id).dtype));
                let dims = self.value(id).dims.iter().map(|dim| RequestedDim::Dim(*dim)).collect_vec();
                id = self.map(Function::Masked(least), &[others, id], Some(&dims), span)?;
            }
        }
        if let [only] = picked[..] {
            // A dim of one element: there is nothing to choose from.
            let rows = self.positions(to, span)?;
            let here = self.map(Function::IsNumber(Relation::Equal, Scalar(0.0)), &[rows], None, span)?;
            return self.map(Function::Masked(Scalar(0.0)), &[here, only], requested, span);
        }
        self.stack(to, &picked, requested, span)
    }

    /// The largest or the smallest element along a dim.
    fn best(&mut self, operator: Operator, id: ValueId, along: Along<'_>, span: Span) -> Checked<ValueId> {
        let dtype = self.value(id).dtype;
        if !operator.takes(dtype) || dtype == DType::Bool {
            let (operation, at) = (format!("`{operator}`"), self.use_place(id));
            return Err(CheckError::NeedsNumber { operation, dtype, at }.into());
        }
        self.reduce(operator, id, std::slice::from_ref(along.name), &[along.dim], None, span)
    }

    /// The first position at which an array equals another one that lacks the dim.
    fn first_equal(
        &mut self,
        id: ValueId,
        best: ValueId,
        along: Along<'_>,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let equal = self.map(Function::Is(Relation::Equal), &[id, best], None, span)?;
        let rows = self.positions(along, span)?;
        let past = Function::Masked(Scalar(float(along.dim.size)));
        let places = self.map(past, &[equal, rows], None, span)?;
        self.reduce(Operator::Min, places, std::slice::from_ref(along.name), &[along.dim], requested, span)
    }

    /// `ids == iota_V`
    fn is_at(
        &mut self,
        at: Operand,
        along: Along<'_>,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let rows = self.positions(along, span)?;
        match at {
            Operand::Array(ids) => {
                if self.value(ids).dtype == DType::Bool {
                    let (operation, at) = ("positions".to_owned(), self.use_place(ids));
                    return Err(CheckError::NeedsNumber { operation, dtype: DType::Bool, at }.into());
                }
                self.map(Function::Is(Relation::Equal), &[ids, rows], requested, span)
            }
            Operand::Number(at) => {
                if at < 0.0 || at >= float(along.dim.size) {
                    let (name, size) = (along.name.node.clone(), along.dim.size);
                    let help = format!("positions along `{name}` are 0 to {}", size - 1);
                    return Err(CheckError::FunctionSubscript { name, at: along.name.span, help }.into());
                }
                self.map(Function::IsNumber(Relation::Equal, Scalar(at)), &[rows], requested, span)
            }
        }
    }

    /// The elements that a mask selects, summed over the dims that the result lacks; a bool stays a bool.
    fn selected(
        &mut self,
        mask: ValueId,
        id: ValueId,
        dims: Vec<Dim>,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let dims = self.in_order(dims, requested);
        let dtype = self.value(id).dtype;
        let held = if dtype == DType::Bool { DType::I8 } else { dtype };
        let factor = self.map(Function::Cast(held), &[mask], None, span)?;
        let id = if held == dtype { id } else { self.map(Function::Cast(held), &[id], None, span)? };
        let sums = held.product(held).unwrap_or(held);
        let product = self.add(sums, dims, Definition::Product { operands: [factor, id], local: false }, span)?;
        match dtype {
            DType::Bool => self.map(Function::IsNumber(Relation::Unequal, Scalar(0.0)), &[product], None, span),
            _ if sums == dtype => Ok(product),
            _ => self.map(Function::Cast(dtype), &[product], None, span),
        }
    }

    /// `acc: f32[D, F] = 0`: an array of one number, which each device writes by itself in any layout. Without dims, a
    /// scalar.
    pub(super) fn filled(
        &mut self,
        number: f64,
        dtype: DType,
        requested: &[RequestedDim],
        span: Span,
    ) -> Checked<ValueId> {
        let mut filled: Option<ValueId> = None;
        for request in requested {
            let RequestedDim::Dim(dim) = *request else { return Err(CheckError::NumberResult { at: span }.into()) };
            let name = Name { node: self.dims.name(dim.id), span };
            let rows = self.positions(Along { dim, name: &name }, span)?;
            let zeros = self.map(Function::ByNumber(ByNumber::Scale, Scalar(0.0)), &[rows], None, span)?;
            filled = Some(match filled {
                None => zeros,
                Some(filled) => self.map(Function::Binary(Binary::Add), &[filled, zeros], None, span)?,
            });
        }
        let zeros = match filled {
            Some(zeros) => zeros,
            None => self.first_position(span)?,
        };
        if dtype == DType::Bool {
            let is_true = if number == 0.0 { Relation::Less } else { Relation::GreaterOrEqual };
            return self.map(Function::IsNumber(is_true, Scalar(0.0)), &[zeros], None, span);
        }
        let zeros = if self.value(zeros).dtype == dtype { zeros } else { self.cast(zeros, dtype, span)? };
        if number == 0.0 {
            return Ok(zeros);
        }
        self.map(Function::ByNumber(ByNumber::Shift, Scalar(number)), &[zeros], None, span)
    }

    /// The scalar 0: the least position along the smallest dim of the program, the one declared first of several.
    fn first_position(&mut self, span: Span) -> Checked<ValueId> {
        let named = self.named_dims.iter().filter_map(|(name, dim)| Some((name, (*dim)?)));
        let Some((name, dim)) = named.min_by_key(|(_, dim)| (dim.size, dim.id)) else {
            return Err(CheckError::NumberResult { at: span }.into());
        };
        let name = Name { node: name.clone(), span };
        let rows = self.positions(Along { dim, name: &name }, span)?;
        self.reduce(Operator::Min, rows, std::slice::from_ref(&name), &[dim], None, span)
    }

    /// The positions along a dim: 0, 1, 2 and so on.
    fn positions(&mut self, along: Along<'_>, span: Span) -> Checked<ValueId> {
        let name = format!("{PREFIX}{}", along.name.node);
        let known = self.binding(&name).and_then(|binding| binding.value).filter(|id| {
            let value = self.value(*id);
            value.definition == (Definition::Input { supply: Supply::Counted }) && value.dims == [along.dim]
        });
        match known {
            Some(id) => Ok(id),
            None => self.count(&name, along.dim, span),
        }
    }

    /// A dim of the same size, of its own.
    pub(super) fn twin(&mut self, dim: Dim) -> Dim {
        let mut name = format!("{}'", self.dims.name(dim.id));
        while self.named_dims.contains_key(&name) {
            name.push('\'');
        }
        let known = self.dims.named(&name).filter(|known| known.size == dim.size);
        known.unwrap_or_else(|| self.dims.add(Some(name), dim.size))
    }

    /// A position or a distance: a whole number, or an array of them.
    ///
    /// - `word`: the function.
    fn position(&mut self, word: &str, argument: &Expr) -> Checked<Operand> {
        let operand = match self.number(argument, 0) {
            Some(number) => self.finite(number, argument.span)?,
            None => self.expr(argument, None)?,
        };
        let span = argument.span;
        let wrong = |what: &str, help: String| {
            let (name, argument, what) = (word.to_owned(), argument.to_string(), what.to_owned());
            CheckError::Argument { help, name, argument, what, at: span }
        };
        match operand {
            Operand::Number(number) if number.abs() > float(Self::ELEMENTS) => {
                Err(wrong("too large", "write a whole number below 2^60".to_owned()).into())
            }
            Operand::Number(number) if number.fract() != 0.0 => {
                let help = format!("write a whole number, `{}` or `{}`", number.floor(), number.ceil() + 0.0);
                Err(wrong("not a whole number", help).into())
            }
            Operand::Array(id) if self.value(id).dtype.is_float() || self.value(id).dtype == DType::Bool => {
                let help = format!("write `i32({argument})`");
                Err(wrong(&format!("`{}`, not of whole numbers", self.value(id).dtype), help).into())
            }
            operand => Ok(operand),
        }
    }

    /// The dims of a result with those of an array of positions first, as in `take_V(E, ids)`, if it lacks them.
    ///
    /// - `along`: the dim that the positions count along.
    fn each_of(&self, positions: Operand, along: Dim, dims: Vec<Dim>) -> Vec<Dim> {
        let Operand::Array(id) = positions else { return dims };
        let lacking = self.value(id).dims.iter().filter(|dim| **dim != along && !dims.contains(dim)).copied();
        lacking.chain(dims.iter().copied()).collect()
    }

    /// Positions plus a distance.
    fn moved_by(&mut self, rows: ValueId, distance: Operand, span: Span) -> Checked<ValueId> {
        match distance {
            Operand::Number(0.0) => Ok(rows),
            Operand::Number(by) => self.map(Function::ByNumber(ByNumber::Shift, Scalar(by)), &[rows], None, span),
            Operand::Array(by) => self.map(Function::Binary(Binary::Add), &[rows, by], None, span),
        }
    }

    /// The dims of a value with one of them replaced.
    fn replaced(&self, id: ValueId, from: Dim, to: Along<'_>) -> Checked<Vec<Dim>> {
        let dims = &self.value(id).dims;
        if dims.contains(&to.dim) {
            let (name, at) = (to.name.node.clone(), to.name.span);
            let help = format!("the operand `{}` already has `{name}`; use another dim", self.show(id));
            return Err(CheckError::FunctionSubscript { name, at, help }.into());
        }
        Ok(dims.iter().map(|dim| if *dim == from { to.dim } else { *dim }).collect())
    }

    /// Checks that an operand has a dim.
    fn has(&self, id: ValueId, along: Along<'_>) -> Checked<()> {
        if self.value(id).dims.contains(&along.dim) {
            return Ok(());
        }
        let (name, at) = (along.name.node.clone(), along.name.span);
        let help = format!("the operand is `{}`", self.show(id));
        Err(CheckError::FunctionSubscript { name, at, help }.into())
    }

    /// Checks that a short dim lies within a long one.
    fn fits_within(&self, start: f64, [short, long]: [Along<'_>; 2], word: &str, span: Span) -> Checked<()> {
        let end = start + float(short.dim.size);
        if start >= 0.0 && end <= float(long.dim.size) {
            return Ok(());
        }
        let help = format!(
            "`{}` has {} elements and `{}` has {}: {start} to {end} is outside",
            long.name.node, long.dim.size, short.name.node, short.dim.size
        );
        Err(CheckError::FunctionSubscript { name: word.to_owned(), at: span, help }.into())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "arrays have fewer elements than 2^60, and positions are exact far beyond"
)]
fn float(count: u64) -> f64 {
    count as f64
}

/// The smallest finite number of a dtype; of wide floats, that of bf16.
fn least(dtype: DType) -> f64 {
    dtype.finite_ends()[0].max(DType::Bf16.finite_ends()[0])
}

/// The error of a roll by an array, which two shifts replace: of what stays, and of what enters at the other end.
///
/// - `dtype`: of the array that is rolled.
fn roll_by_array(dim: &str, [of, by]: [&Expr; 2], dtype: DType) -> CheckError {
    let [stays, enters] = [format!("shift_{dim}({of}, {by})"), format!("shift_{dim}({of}, {by} - {dim})")];
    let both = match dtype {
        DType::Bool => format!("or({stays}, {enters})"),
        _ => format!("{stays} + {enters}"),
    };
    let help = format!("for distances from 0 to {dim}, write `{both}`");
    CheckError::Argument {
        help,
        name: "roll".to_owned(),
        argument: by.to_string(),
        what: "an array".to_owned(),
        at: by.span,
    }
}

/// The distance of a shift; of all distances beyond the array, the length of its dim. That of a roll is the shorter way round.
fn distance(by: f64, length: u64, wraps: bool) -> i64 {
    let most = i64::try_from(length).unwrap_or(i64::MAX);
    #[allow(clippy::cast_possible_truncation, reason = "positions are whole numbers, and the rest is cut off")]
    let by = by as i64;
    match by.rem_euclid(most) {
        _ if !wraps => by.clamp(-most, most),
        up if up > most / 2 => up - most,
        up => up,
    }
}
