//! Slices, pads, concatenations, gathers and scatters: products with one-hot arrays, and choices by place.
//!
//! A product with `iota_N == i` reads the rows that it names and multiplies nothing, so a slice costs what it reads.
//! Parts of one size, such as the halves of a rotary embedding, become a dim of their own: `N = R*P`.

use super::ImportError;
use super::module::{Operation, number, places};
use super::operation::{attribute, call, choose, ranges};
use super::output::{Expr, Statement};
use super::translate::{Translator, cast, fold, infix};
use super::value::{self, Factor, Position, Value};
use crate::dtype::DType;
use std::rc::Rc;

#[expect(clippy::cast_precision_loss, reason = "sizes of tensors are far below 2^53")]
fn count(number: u64) -> Rc<Expr> {
    Rc::new(Expr::Number(number as f64))
}

/// The indices of a gather or scatter without the dim of their vectors, which has one element.
fn rows_of(operation: &Operation<'_>, mut indices: Value) -> Value {
    if let Some(vector) = number(&operation.trees, "index_vector_dim").and_then(|at| usize::try_from(at).ok())
        && vector < indices.shape.len()
    {
        indices.shape.remove(vector);
    }
    indices
}

impl<'m, 'a> Translator<'m, 'a> {
    /// The elements of `value` at `places`, along one dim: `sum_N((places == iota_N) * value)`. Where a place is not one
    /// of the dim, the result is 0. `places` has all positions, that at `at` with the dim of the result.
    fn at_places(
        &mut self,
        value: Value,
        at: usize,
        places: Value,
        operation: &Operation<'a>,
    ) -> Result<Value, ImportError> {
        let position = value::leaves(&mut self.dims, &value.shape[at]);
        if position.iter().all(|factor| !factor.is_present) {
            let shape = value.shape.iter().enumerate();
            let shape = shape
                .map(|(place, position)| if place == at { value::absent(&places.shape[at]) } else { position.clone() });
            return Ok(Value { shape: shape.collect(), ..value });
        }
        // The dim that is read is the last position of both, and the place in the result stays where it was.
        let full = self.apart(&position, &places.shape);
        let mut hot = places.clone();
        hot.shape.push(full.clone());
        let row = self.iota(&full, DType::I32);
        let is_bool = value.dtype == DType::Bool;
        let dtype = if is_bool { DType::F32 } else { value.dtype };
        let (one, other) = if matches!(*hot.expr, Expr::Number(_)) { (row, hot.expr) } else { (hot.expr, row) };
        hot.expr = cast(infix("==", one, other), DType::Bool, dtype);
        hot.dtype = dtype;
        let mut table = value;
        table.shape[at] = value::absent(&places.shape[at]);
        table.shape.push(position);
        table.expr = cast(table.expr, table.dtype, dtype);
        let last = table.shape.len() - 1;
        let found = self.product(hot, table, &[last], dtype, operation)?;
        let expr = if is_bool { infix("!=", found.expr, count(0)) } else { cast(found.expr, dtype.widened(), dtype) };
        Ok(Value { expr, dtype: if is_bool { DType::Bool } else { dtype }, shape: found.shape })
    }

    /// The dims of a position, all of them present, with others in place of those that stand in `shape`: places that are
    /// computed from an array may have the dim that they name.
    fn apart(&mut self, position: &[Factor], shape: &[Position]) -> Position {
        let mut taken = value::present(&mut self.dims, shape);
        let mut full = Position::new();
        for factor in position {
            let is_taken = taken.contains(&factor.dim);
            let dim = if is_taken { self.dims.twin(factor.dim, &taken) } else { factor.dim };
            taken.push(dim);
            full.push(Factor { dim, is_present: true });
        }
        full
    }

    /// A number for each place along one position of a tensor, all others absent.
    fn along(&mut self, shape: &[Position], at: usize, position: Position, expr: Rc<Expr>) -> Value {
        let mut places: Vec<Position> = shape.iter().map(|position| value::absent(position)).collect();
        places[at] = position;
        Value { expr, dtype: DType::I32, shape: places }
    }

    /// `start + stride * i` for each `i` of a new dim of this size.
    fn spaced(&mut self, shape: &[Position], at: usize, size: u64, start: Rc<Expr>, stride: u64) -> Value {
        let position = value::fresh(&mut self.dims, size, true);
        let place = if position.is_empty() { count(0) } else { self.iota(&position, DType::I32) };
        let expr = fold("+", fold(".*", place, count(stride)), start);
        self.along(shape, at, position, expr)
    }

    pub(super) fn slice(&mut self, operation: &Operation<'a>, value: Value) -> Result<Value, ImportError> {
        let ranges = ranges(operation).filter(|ranges| ranges.len() == value.shape.len());
        let ranges = ranges.ok_or_else(|| self.refused(operation, "its ranges do not match its operand"))?;
        let mut value = value;
        for (at, [start, end, stride]) in ranges.into_iter().enumerate() {
            let size = value::size(&mut self.dims, &value.shape[at]);
            if start >= end || end > size {
                return Err(self.refused(operation, "its ranges do not match its operand"));
            }
            let taken = (end - start).div_ceil(stride);
            if taken == size {
                continue;
            }
            value = if stride == 1 && size.is_multiple_of(taken) && start.is_multiple_of(taken) {
                self.part(value, at, size / taken, start / taken, operation)?
            } else {
                let places = self.spaced(&value.shape.clone(), at, taken, count(start), stride);
                self.at_places(value, at, places, operation)?
            };
        }
        Ok(value)
    }

    /// One of `parts` equal parts along a dim.
    fn part(
        &mut self,
        value: Value,
        at: usize,
        parts: u64,
        part: u64,
        operation: &Operation<'a>,
    ) -> Result<Value, ImportError> {
        let size = value::size(&mut self.dims, &value.shape[at]);
        let Some(mut split) = value::reshape(&mut self.dims, &value.shape[at..=at], &[parts, size / parts]) else {
            let places = self.spaced(&value.shape.clone(), at, size / parts, count(part * (size / parts)), 1);
            return self.at_places(value, at, places, operation);
        };
        let minor = split.pop().unwrap_or_default();
        let major = split.pop().unwrap_or_default();
        let mut value = value;
        value.shape[at] = major;
        value.shape.insert(at + 1, minor);
        let places = self.along(&value.shape.clone(), at, Vec::new(), count(part));
        let mut value = self.at_places(value, at, places, operation)?;
        value.shape.remove(at);
        Ok(value)
    }

    pub(super) fn reverse(&mut self, operation: &Operation<'a>, value: Value) -> Result<Value, ImportError> {
        let mut value = value;
        for at in attribute(operation, &["dims", "dimensions"]) {
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < value.shape.len()) else { continue };
            let size = value::size(&mut self.dims, &value.shape[at]);
            if size > 1 {
                let position = value::fresh(&mut self.dims, size, true);
                let expr = infix("-", count(size - 1), self.iota(&position, DType::I32));
                let places = self.along(&value.shape.clone(), at, position, expr);
                value = self.at_places(value, at, places, operation)?;
            }
        }
        Ok(value)
    }

    pub(super) fn concatenate(
        &mut self,
        operation: &Operation<'a>,
        operands: Vec<Value>,
    ) -> Result<Value, ImportError> {
        let at = number(&operation.trees, "dim").or(number(&operation.trees, "dimension")).unwrap_or(0);
        let rank = operands[0].shape.len();
        let at = usize::try_from(at)
            .ok()
            .filter(|at| *at < rank)
            .ok_or_else(|| self.refused(operation, "it has no such dim"))?;
        if operands.iter().any(|operand| operand.shape.len() != rank) {
            return Err(self.refused(operation, "its operands have different numbers of dims"));
        }
        let mut sizes = Vec::new();
        for operand in &operands {
            sizes.push(value::size(&mut self.dims, &operand.shape[at]));
        }
        let dtype = operands[0].dtype;
        if operands.len() == 1 {
            return Ok(operands.into_iter().next().unwrap_or_else(|| unreachable!("there is one")));
        }
        if sizes.iter().all(|size| *size == sizes[0]) {
            // Equal parts: a dim for which part it is, major.
            let parts = value::fresh(&mut self.dims, operands.len() as u64, true);
            let which = self.iota(&parts, DType::I32);
            let mut values = operands;
            for value in &mut values {
                value.shape.insert(at, value::absent(&parts));
            }
            let mut rest = values.into_iter().rev();
            let mut joined = rest.next().unwrap_or_else(|| unreachable!("there are two"));
            for (number, value) in (0..).zip(rest.rev().collect::<Vec<_>>()).collect::<Vec<_>>().into_iter().rev() {
                let here = infix("==", which.clone(), count(number));
                let mask = self.along(&joined.shape.clone(), at, parts.clone(), here);
                let mask = Value { dtype: DType::Bool, ..mask };
                joined = self.map(vec![mask, value, joined], dtype, operation, |parts| choose(parts, dtype))?;
            }
            let minor = joined.shape.remove(at + 1);
            joined.shape[at].extend(minor);
            return Ok(joined);
        }
        // Each where it begins, zeros elsewhere; the sum is all of them.
        let total = sizes.iter().fold(0, |total: u64, size| total.saturating_add(*size));
        let target = value::fresh(&mut self.dims, total, true);
        let mut joined: Option<Value> = None;
        let mut start = 0;
        for (operand, size) in operands.into_iter().zip(sizes) {
            let placed = self.placed(operand, at, &target, start, 1, operation)?;
            start = u64::saturating_add(start, size);
            joined = Some(match joined {
                None => placed,
                Some(before) if dtype == DType::Bool => {
                    self.map(vec![before, placed], dtype, operation, |parts| call("or", parts))?
                }
                Some(before) => self.map(vec![before, placed], dtype, operation, |parts| {
                    fold("+", parts[0].clone(), parts[1].clone())
                })?,
            });
        }
        joined.ok_or_else(|| self.refused(operation, "it has no operands"))
    }

    /// The elements along a dim of a larger one: element `i` at `start + stride * i`, zeros elsewhere.
    fn placed(
        &mut self,
        value: Value,
        at: usize,
        target: &[Factor],
        start: u64,
        stride: u64,
        operation: &Operation<'a>,
    ) -> Result<Value, ImportError> {
        let mut value = value;
        let size = value::size(&mut self.dims, &value.shape[at]);
        let place = self.iota(target, DType::I32);
        if value.shape[at].is_empty()
            || value::leaves(&mut self.dims, &value.shape[at]).iter().all(|factor| !factor.is_present)
        {
            // The same in all these places.
            if stride != 1 {
                return Err(self.refused(operation, "a constant is spread out with gaps"));
            }
            let first = infix(">=", place.clone(), count(start));
            let inside = call("and", &[first, infix("<", place, count(start.saturating_add(size)))]);
            let mask = self.along(&value.shape.clone(), at, target.to_vec(), inside);
            let mask = Value { dtype: DType::Bool, ..mask };
            value.shape[at] = value::absent(target);
            let zero = Value { expr: count(0), ..value.clone() };
            let dtype = value.dtype;
            return self.map(vec![mask, value, zero], dtype, operation, |parts| choose(parts, dtype));
        }
        // The row of each place, which is none outside.
        let row = fold("-", place, count(start));
        let (row, value) = if stride == 1 {
            (row, value)
        } else {
            // `row == stride * i`: the rows are counted in strides.
            return self.spread(value, at, target, row, stride, operation);
        };
        let places = self.along(&value.shape.clone(), at, target.to_vec(), row);
        self.at_places(value, at, places, operation)
    }

    /// Element `i` of a dim where `row == stride * i`.
    fn spread(
        &mut self,
        value: Value,
        at: usize,
        target: &[Factor],
        row: Rc<Expr>,
        stride: u64,
        operation: &Operation<'a>,
    ) -> Result<Value, ImportError> {
        let position = value::leaves(&mut self.dims, &value.shape[at]);
        let inner = fold(".*", self.iota(&position, DType::I32), count(stride));
        let dtype = value.dtype;
        let mut hot =
            self.along(&value.shape.clone(), at, target.to_vec(), cast(infix("==", row, inner), DType::Bool, dtype));
        hot.dtype = dtype;
        hot.shape.push(position.clone());
        let mut table = value;
        table.shape[at] = value::absent(target);
        table.shape.push(position);
        let last = table.shape.len() - 1;
        self.product(hot, table, &[last], dtype, operation)
    }

    /// `pad %a, %b, low = [0, 1], high = [0, 0], interior = [0, 0]`
    pub(super) fn pad(&mut self, operation: &Operation<'a>, operands: Vec<Value>) -> Result<Value, ImportError> {
        let [value, filler] =
            <[Value; 2]>::try_from(operands).map_err(|_| self.refused(operation, "it has other than two operands"))?;
        let low = attribute(operation, &["low", "edge_padding_low"]);
        let high = attribute(operation, &["high", "edge_padding_high"]);
        let interior = attribute(operation, &["interior", "interior_padding"]);
        let is_zero = filler.number() == Some(0.0);
        let rank = value.shape.len();
        let lengths =
            [low.len(), high.len(), interior.len(), operation.types[0].shape.len(), filler.shape.len() + rank];
        if lengths != [rank; 5] {
            return Err(self.refused(operation, "its padding does not match its operand"));
        }
        let mut value = value;
        let dtype = value.dtype;
        for (at, (((low, high), interior), wanted)) in
            low.iter().zip(&high).zip(&interior).zip(&operation.types[0].shape).enumerate()
        {
            if (*low, *high, *interior) == (0, 0, 0) {
                continue;
            }
            let size = value::size(&mut self.dims, &value.shape[at]);
            let stride = u64::try_from(*interior).unwrap_or(0) + 1;
            if *low < 0 || *high < 0 {
                if stride != 1 {
                    return Err(self.refused(operation, "it cuts off and spreads out at once"));
                }
                // Cut first: what is kept of the operand, and where it begins.
                let (cut_low, cut_high) = (low.min(&0).unsigned_abs(), high.min(&0).unsigned_abs());
                let kept = size.checked_sub(cut_low.saturating_add(cut_high)).filter(|kept| *kept > 0);
                let kept = kept.ok_or_else(|| self.refused(operation, "nothing is left of its operand"))?;
                let places = self.spaced(&value.shape.clone(), at, kept, count(cut_low), 1);
                value = self.at_places(value, at, places, operation)?;
            }
            let (low, high) = (u64::try_from(*low).unwrap_or(0), u64::try_from(*high).unwrap_or(0));
            if low == 0 && high == 0 && stride == 1 {
                continue;
            }
            let target = value::fresh(&mut self.dims, *wanted, true);
            let placed = self.placed(value, at, &target, low, stride, operation)?;
            value = if is_zero {
                placed
            } else {
                if stride != 1 {
                    return Err(self.refused(operation, "it fills gaps with another number than 0"));
                }
                let place = self.iota(&target, DType::I32);
                let inside = call(
                    "and",
                    &[infix(">=", place.clone(), count(low)), infix("<", place, count(wanted.saturating_sub(high)))],
                );
                let mask = self.along(&placed.shape.clone(), at, target.clone(), inside);
                let mask = Value { dtype: DType::Bool, ..mask };
                let shape = placed.shape.iter().map(|position| value::absent(position)).collect();
                let outside = Value { shape, ..filler.clone() };
                self.map(vec![mask, placed, outside], dtype, operation, |parts| choose(parts, dtype))?
            };
        }
        Ok(value)
    }

    /// `dynamic_slice %a, %i, %j, sizes = [1, 64]`
    pub(super) fn dynamic_slice(
        &mut self,
        operation: &Operation<'a>,
        operands: Vec<Value>,
    ) -> Result<Value, ImportError> {
        let sizes = attribute(operation, &["sizes", "slice_sizes"]);
        let mut starts = operands.into_iter();
        let value = starts.next().ok_or_else(|| self.refused(operation, "it has no operand"))?;
        let starts: Vec<Value> = starts.collect();
        if starts.len() != value.shape.len() || sizes.len() != starts.len() {
            return Err(self.refused(operation, "its ranges do not match its operand"));
        }
        if let Some(layer) = self.layer(operation, &value, &starts, &sizes)? {
            return Ok(layer);
        }
        let mut value = value;
        for (at, (start, taken)) in starts.into_iter().zip(sizes).enumerate() {
            let size = value::size(&mut self.dims, &value.shape[at]);
            let taken = u64::try_from(taken).unwrap_or(0);
            if taken == size || taken == 0 {
                continue;
            }
            let start = cast(start.expr, start.dtype, DType::I32);
            let places = self.spaced(&value.shape.clone(), at, taken, start, 1);
            value = self.at_places(value, at, places, operation)?;
        }
        Ok(value)
    }

    /// The weights of one iteration: row `i` of an input that holds those of all, where `i` counts the iterations.
    fn layer(
        &mut self,
        operation: &Operation<'a>,
        value: &Value,
        starts: &[Value],
        sizes: &[i64],
    ) -> Result<Option<Value>, ImportError> {
        let Some(&(counter, iterations)) = self.counters.last() else { return Ok(None) };
        let (Some(stack), [first, rest @ ..], [1, others @ ..]) = (value.array(), starts, sizes) else {
            return Ok(None);
        };
        let mut whole = value::size(&mut self.dims, &value.shape[0]) == iterations && first.array() == Some(counter);
        for ((start, taken), position) in rest.iter().zip(others).zip(value.shape.iter().skip(1)) {
            whole &= start.number() == Some(0.0) && i64::try_from(value::size(&mut self.dims, position)) == Ok(*taken);
        }
        let is_input = |statement: &Statement| matches!(statement, Statement::Input { array, .. } if *array == stack);
        if !whole || !self.statements.first().is_some_and(|statements| statements.iter().any(is_input)) {
            return Ok(None);
        }
        let places = self.along(&value.shape.clone(), 0, Vec::new(), first.expr.clone());
        let row = self.at_places(value.clone(), 0, places, operation)?;
        let hint = self.arrays[stack.0].hint.clone();
        let array = self.array(hint, row.dtype, row.shape.clone());
        self.push(Statement::Layer { array, stack, expr: row.expr });
        Ok(Some(Value { expr: Rc::new(Expr::Array(array)), dtype: row.dtype, shape: row.shape }))
    }

    /// `dynamic_update_slice %a, %update, %i, %j`
    pub(super) fn dynamic_update_slice(
        &mut self,
        operation: &Operation<'a>,
        operands: Vec<Value>,
    ) -> Result<Value, ImportError> {
        let mut operands = operands.into_iter();
        let (Some(value), Some(update)) = (operands.next(), operands.next()) else {
            return Err(self.refused(operation, "it has no update"));
        };
        if update.shape.len() != value.shape.len() {
            return Err(self.refused(operation, "its update has a different number of dims"));
        }
        let mut update = update;
        let mut masks: Vec<Value> = Vec::new();
        for (at, start) in operands.enumerate().take(value.shape.len()) {
            let size = value::size(&mut self.dims, &value.shape[at]);
            let taken = value::size(&mut self.dims, &update.shape[at]);
            if size == taken {
                continue;
            }
            let start = cast(start.expr, start.dtype, DType::I32);
            let target = value::fresh(&mut self.dims, size, true);
            let place = self.iota(&target, DType::I32);
            let inside = if taken == 1 {
                update.shape[at] = value::absent(&target);
                infix("==", place, start)
            } else {
                let places =
                    self.along(&update.shape.clone(), at, target.clone(), fold("-", place.clone(), start.clone()));
                update = self.at_places(update, at, places, operation)?;
                let end = fold("+", start.clone(), count(taken));
                call("and", &[infix(">=", place.clone(), start), infix("<", place, end)])
            };
            let mask = self.along(&value.shape.clone(), at, target, inside);
            masks.push(Value { dtype: DType::Bool, ..mask });
        }
        let dtype = value.dtype;
        let mut masks = masks.into_iter();
        let Some(mut mask) = masks.next() else { return Ok(update) };
        for other in masks {
            mask = self.map(vec![mask, other], DType::Bool, operation, |parts| call("and", parts))?;
        }
        // The dims of the array that is updated stay.
        let (values, shape) = self.combine(vec![value, mask, update], operation)?;
        let parts: Vec<Rc<Expr>> = [1, 2, 0].map(|at: usize| values[at].expr.clone()).to_vec();
        Ok(self.made(Rc::unwrap_or_clone(choose(&parts, dtype)), dtype, shape))
    }

    /// Rows of an array by their numbers, `x[ids]` and `take_along_axis`.
    pub(super) fn gather(
        &mut self,
        operation: &Operation<'a>,
        operands: Vec<Value>,
        dtype: DType,
    ) -> Result<Value, ImportError> {
        let [table, ids] =
            <[Value; 2]>::try_from(operands).map_err(|_| self.refused(operation, "it has other than two operands"))?;
        let of = |key: &str| places(&operation.trees, key);
        let (offsets, collapsed, map) = (of("offset_dims"), of("collapsed_slice_dims"), of("start_index_map"));
        let (batch, batch_ids) = (of("operand_batching_dims"), of("start_indices_batching_dims"));
        let sizes = of("slice_sizes");
        let [row] = map[..] else {
            return Err(self.refused(operation, "rows are named by several indices at once"));
        };
        let places = rows_of(operation, ids);
        let rank = table.shape.len();
        let is_whole = |at: usize, dims: &mut super::dims::Dims| {
            sizes.get(at).copied() == usize::try_from(value::size(dims, &table.shape[at])).ok()
        };
        let taken = sizes.get(row).copied();
        let mut fits = row < rank && taken == Some(1) && sizes.len() == rank;
        for at in (0..rank).filter(|at| *at != row && !batch.contains(at)) {
            fits &= is_whole(at, &mut self.dims) && !collapsed.contains(&at);
        }
        if !fits {
            return Err(self.refused(operation, "it takes more than one row for each index"));
        }
        // Positions of both: those of the indices, the dims of a row, and the dim that is looked up.
        let kept: Vec<usize> = (0..rank).filter(|at| *at != row && !batch.contains(at)).collect();
        let mut of_table: Vec<Position> = places.shape.iter().map(|position| value::absent(position)).collect();
        for (of_operand, of_ids) in batch.iter().zip(&batch_ids) {
            if let (Some(slot), Some(position)) = (of_table.get_mut(*of_ids), table.shape.get(*of_operand)) {
                slot.clone_from(position);
            }
        }
        let in_ids = of_table.len();
        let mut of_places = places.shape.clone();
        for at in &kept {
            of_places.push(value::absent(&table.shape[*at]));
            of_table.push(table.shape[*at].clone());
        }
        let has_row_left = !collapsed.contains(&row);
        of_places.push(value::absent(&table.shape[row]));
        of_table.push(table.shape[row].clone());
        let at = of_table.len() - 1;
        let expr = cast(places.expr.clone(), places.dtype, DType::I32);
        let mut places = Value { expr, dtype: DType::I32, shape: of_places };
        places.shape[at] = Vec::new();
        let mut found = self.at_places(Value { shape: of_table, ..table }, at, places, operation)?;
        found.shape.pop();
        // The result: dims of rows where `offset_dims` says, those of the indices in the other places.
        let (of_ids, of_rows) = found.shape.split_at(in_ids);
        let (mut of_ids, mut of_rows) = (of_ids.iter(), of_rows.iter());
        let mut order: Vec<usize> = kept.clone();
        if has_row_left {
            order.push(row);
            order.sort_unstable();
        }
        let mut order = order.into_iter();
        let mut shape = Vec::new();
        for place in 0..operation.types[0].shape.len() {
            let position = if offsets.contains(&place) {
                match order.next() {
                    Some(at) if at == row => Some(Vec::new()),
                    _ => of_rows.next().cloned(),
                }
            } else {
                of_ids.next().cloned()
            };
            shape.push(position.ok_or_else(|| self.refused(operation, "its dim numbers do not match its operands"))?);
        }
        let (hint, place) = (self.hint(operation), self.place(operation));
        let value = Value { expr: found.expr, dtype, shape };
        Ok(self.once(value, hint, place))
    }

    /// Updates added to the rows that their numbers name: the gradient of a gather.
    pub(super) fn scatter(&mut self, operation: &Operation<'a>, operands: Vec<Value>) -> Result<Value, ImportError> {
        let [table, ids, updates] = <[Value; 3]>::try_from(operands)
            .map_err(|_| self.refused(operation, "it scatters into several arrays at once"))?;
        let adds = match &operation.regions[..] {
            [region] => {
                region.operations.len() == 2
                    && region.operations.first().is_some_and(|inner| inner.name == "stablehlo.add")
            }
            _ => false,
        };
        if !adds {
            return Err(self.refused(operation, "only updates that are added are in the language"));
        }
        let of = |key: &str| places(&operation.trees, key);
        let (windows, inserted, map) =
            (of("update_window_dims"), of("inserted_window_dims"), of("scatter_dims_to_operand_dims"));
        let (batch, batch_ids) = (of("input_batching_dims"), of("scatter_indices_batching_dims"));
        let rank = table.shape.len();
        let [row] = map[..] else {
            return Err(self.refused(operation, "rows are named by several indices at once"));
        };
        let places = rows_of(operation, ids);
        // Updates: dims of the indices, then those of a row, a row of size 1 left out.
        let mut of_rows: Vec<Position> = Vec::new();
        let mut of_updates: Vec<Position> = Vec::new();
        let kept: Vec<usize> = (0..rank).filter(|at| !inserted.contains(at) && !batch.contains(at)).collect();
        for (at, position) in updates.shape.iter().enumerate() {
            if windows.contains(&at) { of_rows.push(position.clone()) } else { of_updates.push(position.clone()) }
        }
        let is_inserted = inserted.contains(&row);
        let at_row = kept.iter().position(|at| *at == row);
        let row_fits = is_inserted || at_row.and_then(|at| of_rows.get(at)).is_some_and(Vec::is_empty);
        if row >= rank || of_rows.len() != kept.len() || of_updates.len() != places.shape.len() || !row_fits {
            return Err(self.refused(operation, "its updates are more than one row for each index"));
        }
        if let Some(at) = at_row {
            of_rows.remove(at);
        }
        let target = value::leaves(&mut self.dims, &table.shape[row]);
        let full = self.apart(&target, &places.shape);
        let dtype = table.dtype;
        let numbers = cast(places.expr.clone(), places.dtype, DType::I32);
        let line = self.iota(&full, DType::I32);
        let expr = cast(infix("==", numbers, line), DType::Bool, dtype);
        let empty = of_rows.iter().map(|position| value::absent(position));
        let hot = [places.shape.clone(), empty.collect(), vec![full.clone()]].concat();
        let moved = [of_updates, of_rows, vec![value::absent(&full)]].concat();
        let over: Vec<usize> = (0..places.shape.len()).filter(|at| !batch_ids.contains(at)).collect();
        let hot = Value { expr, dtype, shape: hot };
        let added = self.product(hot, Value { shape: moved, ..updates }, &over, dtype, operation)?;
        // Back into the order of the array: batch dims, dims of a row, the row itself.
        let mut shape: Vec<Position> = Vec::new();
        let mut positions = added.shape.into_iter();
        let batched: Vec<(usize, Position)> = {
            let mut order: Vec<(usize, usize)> = batch_ids.iter().copied().zip(batch.iter().copied()).collect();
            order.sort_unstable();
            order.into_iter().filter_map(|(_, at)| Some((at, positions.next()?))).collect()
        };
        let rows: Vec<Position> = positions.collect();
        let (line, rows) = rows.split_last().ok_or_else(|| self.refused(operation, "it has no rows"))?;
        let mut rows = rows.iter();
        for at in 0..rank {
            let position = if at == row {
                Some(line.clone())
            } else if let Some((_, position)) = batched.iter().find(|(place, _)| *place == at) {
                Some(position.clone())
            } else {
                rows.next().cloned()
            };
            shape.push(position.ok_or_else(|| self.refused(operation, "its dim numbers do not match its operands"))?);
        }
        let (hint, place) = (self.hint(operation), self.place(operation));
        let added = self.named(Value { expr: added.expr, dtype, shape }, hint, None, place);
        self.map(vec![table, added], dtype, operation, |parts| fold("+", parts[0].clone(), parts[1].clone()))
    }
}
