//! What each operation computes, in the language.

use super::ImportError;
use super::module::{self, Operation, lists, numbers, value_of};
use super::output::Expr;
use super::translate::{Translator, cast, element, fold, infix};
use super::trees::{Bracket, Kind, items};
use super::value::{self, Factor, Position, Value};
use crate::dtype::DType;
use std::rc::Rc;

impl<'m, 'a> Translator<'m, 'a> {
    /// The results of an operation: of statements, or of kernels where the language has none.
    pub(super) fn operation(&mut self, operation: &'m Operation<'a>) -> Result<Vec<Value>, ImportError> {
        if self.is_opaque
            && let Some(made) = self.of_complex(operation)
        {
            let refused =
                |why| self.refused(operation, "complex numbers are not in the language").with_kernels(Err(why));
            return made.map_err(refused);
        }
        match self.said(operation) {
            Err(refusal) if refusal.refuses(operation.span) => {
                self.operands(operation)?;
                match self.opaque(operation) {
                    Ok(made) if self.is_opaque => Ok(made),
                    made => Err(refusal.with_kernels(made.map(drop))),
                }
            }
            said => said,
        }
    }

    /// The results of an operation that the language has.
    fn said(&mut self, operation: &'m Operation<'a>) -> Result<Vec<Value>, ImportError> {
        let name = operation.name;
        let (dialect, short) = name.rsplit_once('.').unwrap_or(("", name));
        if !matches!(dialect, "" | "stablehlo" | "chlo" | "mhlo" | "func" | "sdy" | "arith") {
            return Err(self.refused(operation, "the language has no such operation"));
        }
        match short {
            "call" => {
                let function = operation.trees.iter().filter_map(|tree| tree.word()).find(|word| word.starts_with('@'));
                return self.inlined(operation, function.unwrap_or_default());
            }
            "composite" => {
                let function = value_of(&operation.trees, "decomposition").and_then(|value| value.first()?.word());
                return self.inlined(operation, function.unwrap_or_default());
            }
            "while" => return self.repeat(operation),
            "top_k" => return self.top_k(operation),
            "optimization_barrier" => return self.operands(operation),
            "get_tuple_element" => {
                let listed = operation.trees.iter().find_map(|tree| tree.group(Bracket::Square)?.first()?.word());
                let index = listed.and_then(|word| word.parse().ok()).or(module::number(&operation.trees, "index"));
                let (Some(tuple), Some(index)) = (operation.operands.first(), index) else {
                    return Err(self.refused(operation, "it takes no element of a tuple"));
                };
                return Ok(vec![self.value(&format!("{tuple}#{index}"), operation)?]);
            }
            "custom_call" => {
                // Shardings in the older form are left to the plan.
                return if is_sharding(operation) {
                    self.operands(operation)
                } else {
                    Err(self.refused(operation, "the called target is not part of the module"))
                };
            }
            _ => {}
        }
        let [result] = &operation.types[..] else {
            return Err(self.refused(operation, "the language has no such operation"));
        };
        let dtype = element(result, operation.span)?;
        if result.shape.contains(&0) {
            return Err(self.refused(operation, "its result has no elements"));
        }
        let mut value = match short {
            "constant" => self.literal(operation, dtype)?,
            "iota" => {
                let at = module::number(&operation.trees, "dim").or(module::number(&operation.trees, "iota_dimension"));
                let at = at.and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
                let sizes = result.shape.iter().enumerate();
                let shape: Vec<Position> =
                    sizes.map(|(place, size)| value::fresh(&mut self.dims, *size, place == at)).collect();
                let position = shape.get(at).cloned().unwrap_or_default();
                Value { expr: self.iota(&position, dtype), dtype, shape }
            }
            _ => {
                let operands = self.operands(operation)?;
                self.computed(operation, short, operands, dtype)?
            }
        };
        // What is not of the shape that is written would be wrong further on.
        let sizes: Vec<u64> = value.shape.iter().map(|position| value::size(&mut self.dims, position)).collect();
        if sizes != result.shape {
            let why = format!("the operands of `{name}` do not give a result of this shape");
            return Err(ImportError::Unreadable { why, at: operation.span });
        }
        value.dtype = dtype;
        Ok(vec![value])
    }

    pub(super) fn computed(
        &mut self,
        operation: &'m Operation<'a>,
        short: &str,
        mut operands: Vec<Value>,
        dtype: DType,
    ) -> Result<Value, ImportError> {
        let result = &operation.types[0];
        let mut why = "unexpected number of operands";
        let expected = match short {
            "select" | "clamp" => 3,
            "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum" | "and" | "or" | "xor" | "power"
            | "compare" | "dot_general" | "dot" | "pad" | "gather" => 2,
            "reduce" | "reduce_window" | "concatenate" | "dynamic_slice" | "dynamic_update_slice" | "scatter" => {
                operands.len().max(1)
            }
            _ => {
                why = "the language has no such operation";
                1
            }
        };
        if operands.len() != expected {
            return Err(self.refused(operation, why));
        }
        let first = operands[0].clone();
        Ok(match short {
            "broadcast_in_dim" => {
                let places = attribute(operation, &["dims", "broadcast_dimensions"]);
                if places.len() != first.shape.len() {
                    return Err(self.refused(operation, "its dims are not those of its operand"));
                }
                let mut shape: Vec<Position> =
                    result.shape.iter().map(|size| value::fresh(&mut self.dims, *size, false)).collect();
                for (position, place) in first.shape.into_iter().zip(places) {
                    if let Some(slot) = usize::try_from(place).ok().and_then(|place| shape.get_mut(place))
                        && !position.is_empty()
                    {
                        *slot = position;
                    }
                }
                Value { shape, ..first }
            }
            "reshape" => {
                let shape = value::reshape(&mut self.dims, &first.shape, &result.shape);
                let why = "it regroups a dim in parts that are no multiples of each other";
                Value { shape: shape.ok_or_else(|| self.refused(operation, why))?, ..first }
            }
            "transpose" => {
                let order = attribute(operation, &["dims", "permutation"]);
                let position =
                    |place: &i64| usize::try_from(*place).ok().and_then(|place| first.shape.get(place)).cloned();
                let shape = order.iter().map(position).collect::<Option<Vec<_>>>();
                let shape = shape.filter(|shape| shape.len() == first.shape.len());
                Value { shape: shape.ok_or_else(|| self.refused(operation, "its permutation is invalid"))?, ..first }
            }
            "convert" => {
                let expr = match first.number() {
                    Some(number) => Rc::new(Expr::Number(rounded(number, dtype))),
                    None => cast(first.expr, first.dtype, dtype),
                };
                Value { expr, dtype, shape: first.shape }
            }
            "sharding_constraint" => {
                let sharding = module::sharding(&operation.trees)?;
                let sharding =
                    sharding.iter().map(|axes| axes.iter().map(|axis| (*axis).to_owned()).collect()).collect();
                let (hint, place) = (self.hint(operation), self.place(operation));
                let hint = if hint == "sharding_constraint" { "x" } else { hint };
                let full = self.materialize(first);
                self.named(full, hint, Some(sharding), place)
            }
            "dot_general" | "dot" => {
                let second = operands.remove(1);
                self.dot(operation, first, second, dtype)?
            }
            "reduce" => self.reduce(operation, operands, dtype)?,
            "reduce_window" => self.running(operation, operands, dtype)?,
            "slice" => self.slice(operation, first)?,
            "concatenate" => self.concatenate(operation, operands)?,
            "pad" => self.pad(operation, operands)?,
            "reverse" => self.reverse(operation, first)?,
            "dynamic_slice" => self.dynamic_slice(operation, operands)?,
            "dynamic_update_slice" => self.dynamic_update_slice(operation, operands)?,
            "gather" => self.gather(operation, operands, dtype)?,
            "scatter" => self.scatter(operation, operands)?,
            "select" => {
                let [condition, yes, no] = [operands[0].clone(), operands[1].clone(), operands[2].clone()];
                let values = vec![self.widened(condition, &yes), yes, no];
                // Rows that an index does not name are 0 here, where JAX may fill them with NaN.
                let is_nan = |value: &Value| value.number().is_some_and(f64::is_nan);
                match values[0].number() {
                    Some(0.0) => values[2].clone(),
                    Some(_) => values[1].clone(),
                    None if is_nan(&values[1]) => values[2].clone(),
                    None if is_nan(&values[2]) => values[1].clone(),
                    None => self.map(values, dtype, operation, |parts| choose(parts, dtype))?,
                }
            }
            "clamp" => {
                let least = self.widened(operands[0].clone(), &operands[1]);
                let most = self.widened(operands[2].clone(), &operands[1]);
                let value = operands.remove(1);
                self.map(vec![value, least, most], dtype, operation, |parts| {
                    call("min", &[call("max", &[parts[0].clone(), parts[1].clone()]), parts[2].clone()])
                })?
            }
            "compare" => {
                let sign = operation.trees.iter().filter_map(|tree| tree.word()).find_map(comparison);
                let sign = sign.ok_or_else(|| self.refused(operation, "unknown comparison direction"))?;
                let is_bool = first.dtype == DType::Bool;
                if is_bool && !matches!(sign, "==" | "!=") {
                    return Err(self.refused(operation, "truth values have no order in the language"));
                }
                self.map(operands, DType::Bool, operation, |parts| {
                    if is_bool { equal_bools(parts, sign == "==") } else { compared(sign, parts) }
                })?
            }
            "xor" if dtype == DType::Bool => self.map(operands, dtype, operation, |parts| equal_bools(parts, false))?,
            "and" | "or" if dtype == DType::Bool => {
                let word = if short == "and" { "and" } else { "or" };
                let shorted = operands.iter().position(|value| value.number().is_some());
                match shorted {
                    Some(at) => {
                        let is_true = operands[at].number() != Some(0.0);
                        let keeps = is_true == (word == "and");
                        operands.swap_remove(if keeps { 1 - at } else { at })
                    }
                    None => self.map(operands, dtype, operation, |parts| call(word, parts))?,
                }
            }
            "add" | "subtract" | "multiply" | "divide" => {
                let sign = match short {
                    "add" => "+",
                    "subtract" => "-",
                    "multiply" => ".*",
                    _ => "/",
                };
                if dtype == DType::Bool {
                    return Err(self.refused(operation, "arithmetic on truth values is not in the language"));
                }
                let whole = operands.iter().any(|value| value.number().is_none());
                if sign == "/" && !dtype.is_float() && whole {
                    return Err(self.refused(operation, "integers are not divided in the language"));
                }
                let squared =
                    sign == ".*" && operands[0].array().is_some() && operands[0].array() == operands[1].array();
                self.map(operands, dtype, operation, |parts| {
                    if squared { Rc::new(Expr::Power(parts[0].clone(), 2.0)) } else { arithmetic(sign, parts, dtype) }
                })?
            }
            "maximum" | "minimum" => {
                let word = if short == "maximum" { "max" } else { "min" };
                self.map(operands, dtype, operation, |parts| extreme(word, parts))?
            }
            "power" => {
                let exponent = operands[1].number();
                let base = operands[0].number();
                if !dtype.is_float()
                    && (base.is_none() || exponent.is_none())
                    && !exponent.is_some_and(|exponent| [2.0, 3.0, 4.0].contains(&exponent))
                {
                    return Err(self.refused(operation, "integers have no such power in the language"));
                }
                self.map(operands, dtype, operation, |parts| power(parts, base, exponent))?
            }
            _ => {
                let Some(expr) = unary(short, &first) else {
                    return Err(self.refused(operation, "the language has no such operation"));
                };
                self.map(vec![Value { expr, dtype, ..first }], dtype, operation, |parts| parts[0].clone())?
            }
        })
    }

    /// A scalar operand as the tensor that it stands for.
    fn widened(&mut self, value: Value, like: &Value) -> Value {
        if value.shape.len() == like.shape.len() {
            return value;
        }
        let shape = like.shape.iter().map(|position| value::absent(position)).collect();
        Value { shape, ..value }
    }

    /// `dense<1.0>`; the elements of an array are only read where all are alike.
    fn literal(&mut self, operation: &Operation<'a>, dtype: DType) -> Result<Value, ImportError> {
        let text =
            operation.trees.iter().find_map(|tree| if let Kind::Dense(text) = tree.kind { Some(text) } else { None });
        let text = text.unwrap_or_default().trim();
        let sizes = operation.types[0].shape.clone();
        if let Some(number) = scalar(text, dtype) {
            return Ok(self.constant(rounded(number, dtype), dtype, &sizes));
        }
        // A short list is a choice by its place.
        let listed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let numbers: Option<Vec<f64>> =
            listed.and_then(|list| list.split(',').map(|word| scalar(word.trim(), dtype)).collect());
        match (&sizes[..], numbers) {
            ([size], Some(numbers))
                if numbers.len() <= 16 && numbers.len() as u64 == *size && *size > 1 && dtype != DType::Bool =>
            {
                let position = value::fresh(&mut self.dims, *size, true);
                let place = self.iota(&position, DType::I32);
                let mut expr = Rc::new(Expr::Number(0.0));
                #[expect(clippy::cast_precision_loss, reason = "at most 16")]
                for (at, number) in numbers.iter().enumerate() {
                    let here = cast(infix("==", place.clone(), Rc::new(Expr::Number(at as f64))), DType::Bool, dtype);
                    expr = fold("+", expr, fold(".*", here, Rc::new(Expr::Number(*number))));
                }
                Ok(Value { expr, dtype, shape: vec![position] })
            }
            ([1], Some(numbers)) => Ok(self.constant(numbers.first().copied().unwrap_or_default(), dtype, &sizes)),
            _ => Err(self.refused(
                operation,
                "arrays of constants are not in the language; make it an argument of the function",
            )),
        }
    }

    fn dot(&mut self, operation: &Operation<'a>, a: Value, b: Value, dtype: DType) -> Result<Value, ImportError> {
        let pairs = |keys: [&str; 3]| -> [Vec<usize>; 2] {
            let of = |key: &str| module::places(&operation.trees, key);
            match lists(&operation.trees, keys[0]) {
                Some(both) => [0, 1].map(|side| {
                    both.get(side).into_iter().flatten().filter_map(|at| usize::try_from(*at).ok()).collect()
                }),
                None => [of(keys[1]), of(keys[2])],
            }
        };
        let batch = pairs(["batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions"]);
        let mut summed = pairs(["contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions"]);
        if operation.name == "stablehlo.dot" {
            summed = [vec![a.shape.len().saturating_sub(1)], vec![0]];
        }
        let fits = |places: &[Vec<usize>; 2]| {
            places[0].len() == places[1].len()
                && places[0].iter().all(|at| *at < a.shape.len())
                && places[1].iter().all(|at| *at < b.shape.len())
        };
        if !fits(&batch) || !fits(&summed) {
            return Err(self.refused(operation, "its dim numbers do not match its operands"));
        }
        let rest = |side: usize, rank: usize| -> Vec<usize> {
            (0..rank).filter(|at| !batch[side].contains(at) && !summed[side].contains(at)).collect()
        };
        let (of_a, of_b) = (rest(0, a.shape.len()), rest(1, b.shape.len()));
        let all = |value: &Value, places: &[usize]| -> Vec<Position> {
            places.iter().map(|at| value.shape[*at].clone()).collect()
        };
        let gone = |value: &Value, places: &[usize]| -> Vec<Position> {
            places.iter().map(|at| value::absent(&value.shape[*at])).collect()
        };
        // One order for both: batch, kept dims of each, and the contracted ones, which fall away.
        let one = [all(&a, &batch[0]), all(&a, &of_a), gone(&b, &of_b), all(&a, &summed[0])].concat();
        let other = [all(&b, &batch[1]), gone(&a, &of_a), all(&b, &of_b), all(&b, &summed[1])].concat();
        let over: Vec<usize> = (one.len() - summed[0].len()..one.len()).collect();
        let [one, other] = [Value { shape: one, ..a }, Value { shape: other, ..b }];
        let hint = match (&*one.expr, &*other.expr) {
            (_, Expr::Array(array)) | (Expr::Array(array), _) => format!("{}_out", self.arrays[array.0].hint),
            _ => self.hint(operation).to_owned(),
        };
        let value = self.product(one, other, &over, dtype, operation)?;
        let scope = self.hint(operation);
        let hint = if scope == "product" { &hint } else { scope };
        let place = self.place(operation);
        Ok(self.named(value, hint, None, place))
    }

    /// Sums so far, and largest and smallest so far: `reduce_window` with a window over all elements before.
    fn running(&mut self, operation: &Operation<'a>, operands: Vec<Value>, dtype: DType) -> Result<Value, ImportError> {
        let why = "windows other than those of running sums are not in the language";
        let [value, start] = <[Value; 2]>::try_from(operands).map_err(|_| self.refused(operation, why))?;
        let by = match &operation.regions[..] {
            [region] if region.operations.len() == 2 => region.operations.first().map_or("", |inner| inner.name),
            _ => "",
        };
        let window = attribute(operation, &["window_dimensions"]);
        let padding = value_of(&operation.trees, "padding").and_then(|trees| {
            trees.iter().find_map(|tree| if let Kind::Dense(text) = tree.kind { Some(text) } else { None })
        });
        let padding: Vec<i64> = padding
            .unwrap_or_default()
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let at =
            window.iter().position(|size| *size > 1).filter(|at| window.iter().skip(at + 1).all(|size| *size == 1));
        let at = at.filter(|_| window.len() == value.shape.len()).ok_or_else(|| self.refused(operation, why))?;
        let size = value::size(&mut self.dims, &value.shape[at]);
        let all = i64::try_from(size).unwrap_or(0);
        let (low, high) = (padding.get(2 * at).copied(), padding.get(2 * at + 1).copied());
        let relation = match (low, high) {
            (Some(low), Some(0)) if low == all - 1 => "<=",
            (Some(0), Some(high)) if high == all - 1 => ">=",
            _ => return Err(self.refused(operation, why)),
        };
        let is_plain = ["window_strides", "base_dilations", "window_dilations"]
            .iter()
            .all(|key| attribute(operation, &[key]).iter().all(|number| *number == 1));
        if !is_plain || window.get(at) != Some(&all) || padding.len() != 2 * window.len() {
            return Err(self.refused(operation, why));
        }
        let target = value::fresh(&mut self.dims, size, true);
        let source: Position = value::leaves(&mut self.dims, &value.shape[at]);
        let source: Position = source.into_iter().map(|factor| Factor { is_present: true, ..factor }).collect();
        let is_before = infix(relation, self.iota(&source, DType::I32), self.iota(&target, DType::I32));
        // Both have all positions, the elements that are combined last.
        let mut mask: Vec<Position> = value.shape.iter().map(|position| value::absent(position)).collect();
        mask[at].clone_from(&target);
        mask.push(source);
        let mut table = value.clone();
        table.shape[at] = value::absent(&target);
        table.shape.push(value.shape[at].clone());
        let last = mask.len() - 1;
        match by {
            "stablehlo.add" if start.number() == Some(0.0) => {
                let mask = Value { expr: cast(is_before, DType::Bool, dtype), dtype, shape: mask };
                self.product(mask, table, &[last], dtype, operation)
            }
            "stablehlo.maximum" | "stablehlo.minimum" if dtype.is_float() => {
                let word = if by == "stablehlo.maximum" { "max" } else { "min" };
                let mask = Value { expr: is_before, dtype: DType::Bool, shape: mask };
                let neutral = if word == "max" { f64::NEG_INFINITY } else { f64::INFINITY };
                let shape = table.shape.iter().map(|position| value::absent(position)).collect();
                let outside = Value { expr: Rc::new(Expr::Number(neutral)), dtype, shape };
                let chosen = self.map(vec![mask, table, outside], dtype, operation, |parts| choose(parts, dtype))?;
                let over = value::present(&mut self.dims, &chosen.shape[last..]);
                let kept = chosen.shape.into_iter().take(last).collect();
                Ok(self.made(Expr::Reduce(word, over, chosen.expr), dtype, kept))
            }
            _ => Err(self.refused(operation, why)),
        }
    }

    /// The largest elements along the last dim and their places: the largest, the largest of the others, and so on.
    fn top_k(&mut self, operation: &Operation<'a>) -> Result<Vec<Value>, ImportError> {
        let why = "at most 16 largest elements are found one after the other";
        let value = self.operands(operation)?.into_iter().next();
        let (Some(mut value), Some(k)) = (value, module::number(&operation.trees, "k")) else {
            return Err(self.refused(operation, why));
        };
        let k = u32::try_from(k).ok().filter(|k| (1..=16).contains(k)).ok_or_else(|| self.refused(operation, why))?;
        let Some(at) = value.shape.len().checked_sub(1).filter(|_| value.dtype.is_float()) else {
            return Err(self.refused(operation, "only floats along a dim are searched"));
        };
        let dtype = value.dtype;
        let (hint, place) = (self.hint(operation), self.place(operation));
        let which = value::fresh(&mut self.dims, u64::from(k), true);
        let mut found: [Option<Value>; 2] = [None, None];
        for number in 0..k {
            value = self.once(value, hint, place.clone());
            let position = value::leaves(&mut self.dims, &value.shape[at]);
            if position.is_empty() || position.iter().any(|factor| !factor.is_present) {
                return Err(self.refused(operation, "only floats along a dim are searched"));
            }
            let over = value::present(&mut self.dims, &value.shape[at..]);
            let kept: Vec<Position> = value.shape.iter().take(at).cloned().collect();
            let most = self.made(Expr::Reduce("max", over.clone(), value.expr.clone()), dtype, kept.clone());
            let most = self.named(most, "largest", None, place.clone());
            let line = self.iota(&position, DType::I32);
            let size = value::size(&mut self.dims, &position);
            #[expect(clippy::cast_precision_loss, reason = "sizes of tensors are far below 2^53")]
            let beyond = Rc::new(Expr::Number(size as f64));
            let here = infix("==", value.expr.clone(), most.expr.clone());
            let first = Expr::Reduce("min", over, call("where", &[here, line.clone(), beyond]));
            let first = self.made(first, DType::I32, kept);
            let first = self.named(first, "place", None, place.clone());
            // Without the one that was found.
            let taken = infix("==", line, first.expr.clone());
            value.expr = call("where", &[taken, Rc::new(Expr::Number(f64::NEG_INFINITY)), value.expr.clone()]);
            for (found, one) in found.iter_mut().zip([most, first]) {
                let mut one = one;
                one.shape.push(value::absent(&which));
                *found = Some(match found.take() {
                    None => one,
                    Some(before) => {
                        let place = self.iota(&which, DType::I32);
                        let is_this = infix("==", place, Rc::new(Expr::Number(f64::from(number))));
                        let mut shape: Vec<Position> =
                            before.shape.iter().map(|position| value::absent(position)).collect();
                        shape[at].clone_from(&which);
                        let mask = Value { expr: is_this, dtype: DType::Bool, shape };
                        let dtype = one.dtype;
                        self.map(vec![mask, one, before], dtype, operation, |parts| choose(parts, dtype))?
                    }
                });
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// `reduce(%a init: %b) applies stablehlo.add across dimensions = [2]`, or with a region.
    fn reduce(&mut self, operation: &Operation<'a>, operands: Vec<Value>, dtype: DType) -> Result<Value, ImportError> {
        let [value, start] = <[Value; 2]>::try_from(operands)
            .map_err(|_| self.refused(operation, "a reduction of several arrays at once is not in the language"))?;
        let by = operation
            .trees
            .iter()
            .filter_map(|tree| tree.word())
            .find(|word| word.starts_with("stablehlo."))
            .or_else(|| match &operation.regions[..] {
                [region] if region.operations.len() == 2 => region.operations.first().map(|operation| operation.name),
                _ => None,
            });
        let (word, neutral) = match by.unwrap_or_default() {
            "stablehlo.add" => ("sum", 0.0),
            "stablehlo.maximum" => ("max", dtype.ends()[0]),
            "stablehlo.minimum" => ("min", dtype.ends()[1]),
            "stablehlo.or" if dtype == DType::Bool => ("any", 0.0),
            "stablehlo.and" if dtype == DType::Bool => ("all", 1.0),
            _ => return Err(self.refused(operation, "the language reduces by sum, max, min, any and all")),
        };
        let over = attribute(operation, &["dimensions"]);
        let over = |at: usize| over.iter().any(|place| usize::try_from(*place) == Ok(at));
        let mut summed = Vec::new();
        let mut repeats: u64 = 1;
        let mut shape = Vec::new();
        for (at, position) in value.shape.iter().enumerate() {
            if over(at) {
                for factor in value::leaves(&mut self.dims, position) {
                    if factor.is_present {
                        summed.push(factor.dim);
                    } else {
                        repeats = repeats.saturating_mul(self.dims.size(factor.dim));
                    }
                }
            } else {
                shape.push(position.clone());
            }
        }
        let mut expr = value.expr;
        if !summed.is_empty() {
            expr = Rc::new(Expr::Reduce(word, summed, expr));
        }
        #[expect(clippy::cast_precision_loss, reason = "sizes of tensors are far below 2^53")]
        if word == "sum" && repeats > 1 {
            expr = fold(".*", expr, Rc::new(Expr::Number(repeats as f64)));
        }
        let begins = start.number();
        if begins != Some(neutral) {
            let parts = [expr, start.expr];
            expr = match word {
                "sum" => fold("+", parts[0].clone(), parts[1].clone()),
                "any" => call("or", &parts),
                "all" => call("and", &parts),
                _ => extreme(word, &parts),
            };
        }
        Ok(self.made(Rc::unwrap_or_clone(expr), dtype, shape))
    }
}

/// Whether it only says how its operand is sharded, in the older form.
pub(super) fn is_sharding(operation: &Operation<'_>) -> bool {
    let target = operation.trees.iter().filter_map(|tree| tree.word()).find(|word| word.starts_with('@'));
    matches!(target, Some("@Sharding" | "@SPMDFullToShardShape" | "@SPMDShardToFullShape"))
}

/// The list behind the first of these keys that is there.
pub(super) fn attribute(operation: &Operation<'_>, keys: &[&str]) -> Vec<i64> {
    keys.iter().map(|key| numbers(&operation.trees, key)).find(|list| !list.is_empty()).unwrap_or_default()
}

/// `[0:8, 4:16:2]`: where a slice begins and ends, and its strides.
pub(super) fn ranges(operation: &Operation<'_>) -> Option<Vec<[u64; 3]>> {
    let of = |key: &str| -> Vec<u64> {
        numbers(&operation.trees, key).iter().filter_map(|number| u64::try_from(*number).ok()).collect()
    };
    let (starts, ends, strides) = (of("start_indices"), of("limit_indices"), of("strides"));
    if !ends.is_empty() {
        return starts
            .iter()
            .zip(&ends)
            .zip(&strides)
            .map(|((start, end), stride)| Some([*start, *end, *stride]))
            .collect();
    }
    let list = operation.trees.iter().find_map(|tree| tree.group(Bracket::Square))?;
    items(list)
        .map(|item| {
            let numbers: Option<Vec<u64>> =
                item.iter().filter(|tree| !tree.is_sign(":")).map(|tree| tree.word()?.parse().ok()).collect();
            match numbers?[..] {
                [start, end] => Some([start, end, 1]),
                [start, end, stride] if stride > 0 => Some([start, end, stride]),
                _ => None,
            }
        })
        .collect()
}

/// A number as StableHLO writes it: decimal, or the bits of a float.
pub(super) fn scalar(word: &str, dtype: DType) -> Option<f64> {
    match word {
        "true" => return Some(1.0),
        "false" => return Some(0.0),
        _ => {}
    }
    if let Some(bits) = word.strip_prefix("0x") {
        let bits = u64::from_str_radix(bits, 16).ok()?;
        return dtype.format().map(|format| format.decode(bits));
    }
    word.parse().ok()
}

/// The nearest number of the dtype, where that decides how it is written.
pub(super) fn rounded(number: f64, dtype: DType) -> f64 {
    match dtype {
        #[expect(clippy::cast_possible_truncation, reason = "this is what rounding to the dtype means")]
        DType::F32 => f64::from(number as f32),
        DType::Bool => f64::from(u8::from(number != 0.0)),
        dtype if dtype.is_float() => number,
        _ => number.trunc(),
    }
}

pub(super) fn call(word: &'static str, operands: &[Rc<Expr>]) -> Rc<Expr> {
    Rc::new(Expr::Call(word, operands.to_vec()))
}

fn number(expr: &Rc<Expr>) -> Option<f64> {
    if let Expr::Number(number) = **expr { Some(number) } else { None }
}

/// `where(m, a, b)`; of two numbers it has no dtype, so that the truth value is made a number first.
pub(super) fn choose(parts: &[Rc<Expr>], dtype: DType) -> Rc<Expr> {
    match (number(&parts[1]), number(&parts[2])) {
        (Some(yes), Some(no)) if dtype == DType::Bool => match (yes != 0.0, no != 0.0) {
            (true, false) => parts[0].clone(),
            (false, true) => call("not", &parts[..1]),
            _ => parts[1].clone(),
        },
        (Some(yes), Some(no)) => {
            let chosen = cast(parts[0].clone(), DType::Bool, dtype);
            fold("+", fold(".*", chosen, Rc::new(Expr::Number(yes - no))), Rc::new(Expr::Number(no)))
        }
        (Some(yes), None) if dtype == DType::Bool => {
            if yes == 0.0 {
                call("and", &[call("not", &parts[..1]), parts[2].clone()])
            } else {
                call("or", &[parts[0].clone(), parts[2].clone()])
            }
        }
        (None, Some(no)) if dtype == DType::Bool => {
            if no == 0.0 {
                call("and", &parts[..2])
            } else {
                call("or", &[call("not", &parts[..1]), parts[1].clone()])
            }
        }
        (None, None) if dtype == DType::Bool => {
            let yes = call("and", &parts[..2]);
            call("or", &[yes, call("and", &[call("not", &parts[..1]), parts[2].clone()])])
        }
        _ => call("where", parts),
    }
}

fn comparison(word: &str) -> Option<&'static str> {
    Some(match word {
        "LT" => "<",
        "LE" => "<=",
        "GT" => ">",
        "GE" => ">=",
        "EQ" => "==",
        "NE" => "!=",
        _ => return None,
    })
}

/// `a == b` or `a != b` of truth values.
fn equal_bools(parts: &[Rc<Expr>], equal: bool) -> Rc<Expr> {
    let same =
        |expr: &Rc<Expr>, is_kept: bool| if is_kept { expr.clone() } else { call("not", std::slice::from_ref(expr)) };
    match (number(&parts[0]), number(&parts[1])) {
        (Some(a), Some(b)) => return Rc::new(Expr::Number(f64::from(u8::from(((a != 0.0) == (b != 0.0)) == equal)))),
        (Some(a), None) => return same(&parts[1], (a != 0.0) == equal),
        (None, Some(b)) => return same(&parts[0], (b != 0.0) == equal),
        (None, None) => {}
    }
    let both = call("and", parts);
    let neither = call("not", &[call("or", parts)]);
    let same = call("or", &[both, neither]);
    if equal { same } else { call("not", &[same]) }
}

/// `a < b`; a number stands on the right.
fn compared(sign: &'static str, parts: &[Rc<Expr>]) -> Rc<Expr> {
    match (number(&parts[0]), number(&parts[1])) {
        (Some(a), Some(b)) => {
            let holds = match sign {
                "<" => a < b,
                "<=" => a <= b,
                ">" => a > b,
                ">=" => a >= b,
                "==" => (a - b).abs() == 0.0,
                _ => (a - b).abs() != 0.0,
            };
            Rc::new(Expr::Number(f64::from(u8::from(holds))))
        }
        (Some(_), None) => {
            let turned = match sign {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                same => same,
            };
            infix(turned, parts[1].clone(), parts[0].clone())
        }
        _ => infix(sign, parts[0].clone(), parts[1].clone()),
    }
}

fn arithmetic(sign: &'static str, parts: &[Rc<Expr>], dtype: DType) -> Rc<Expr> {
    match (number(&parts[0]), number(&parts[1])) {
        (Some(a), Some(b)) => {
            let exact = match sign {
                "+" => a + b,
                "-" => a - b,
                ".*" => a * b,
                _ => a / b,
            };
            Rc::new(Expr::Number(rounded(exact, dtype)))
        }
        _ => fold(sign, parts[0].clone(), parts[1].clone()),
    }
}

/// `max(a, b)`, without an operand that is below or above all others.
pub(super) fn extreme(word: &'static str, parts: &[Rc<Expr>]) -> Rc<Expr> {
    let beyond = if word == "max" { f64::NEG_INFINITY } else { f64::INFINITY };
    match (number(&parts[0]), number(&parts[1])) {
        (Some(a), Some(b)) => Rc::new(Expr::Number(if word == "max" { a.max(b) } else { a.min(b) })),
        (Some(a), None) if a == beyond => parts[1].clone(),
        (None, Some(b)) if b == beyond => parts[0].clone(),
        (Some(0.0), None) if word == "max" => call("relu", &parts[1..]),
        (None, Some(0.0)) if word == "max" => call("relu", &parts[..1]),
        (Some(_), None) => call(word, &[parts[1].clone(), parts[0].clone()]),
        _ => call(word, parts),
    }
}

/// `a ** b`
fn power(parts: &[Rc<Expr>], base: Option<f64>, exponent: Option<f64>) -> Rc<Expr> {
    match (base, exponent) {
        (Some(base), Some(exponent)) => Rc::new(Expr::Number(base.powf(exponent))),
        (_, Some(exponent)) if [2.0, 3.0, 4.0, 0.5, -0.5, -1.0].contains(&exponent) => {
            Rc::new(Expr::Power(parts[0].clone(), exponent))
        }
        (Some(base), None) if base > 0.0 => {
            call("exp", &[fold(".*", parts[1].clone(), Rc::new(Expr::Number(base.ln())))])
        }
        _ => call("exp", &[fold(".*", parts[1].clone(), call("log", &parts[..1]))]),
    }
}

/// Functions of one operand.
fn unary(name: &str, value: &Value) -> Option<Rc<Expr>> {
    let parts = [value.expr.clone()];
    let one = || Rc::new(Expr::Number(1.0));
    if let Some(number) = value.number() {
        let result = match name {
            "negate" => -number,
            "exponential" => number.exp(),
            "log" => number.ln(),
            "sqrt" => number.sqrt(),
            "rsqrt" => 1.0 / number.sqrt(),
            "tanh" => number.tanh(),
            "abs" => number.abs(),
            "cosine" => number.cos(),
            "sine" => number.sin(),
            "floor" => number.floor(),
            "ceil" => number.ceil(),
            "sign" if number != 0.0 => number.signum(),
            "sign" => number,
            "not" if value.dtype == DType::Bool => f64::from(u8::from(number == 0.0)),
            _ => return None,
        };
        return Some(Rc::new(Expr::Number(rounded(result, value.dtype))));
    }
    Some(match name {
        "negate" => Rc::new(Expr::Negative(value.expr.clone())),
        "exponential" => call("exp", &parts),
        "log" => call("log", &parts),
        "logistic" => call("sigmoid", &parts),
        "tanh" => call("tanh", &parts),
        "sqrt" => call("sqrt", &parts),
        "rsqrt" => call("rsqrt", &parts),
        "abs" => call("abs", &parts),
        "cosine" => call("cos", &parts),
        "sine" => call("sin", &parts),
        "not" if value.dtype == DType::Bool => call("not", &parts),
        // An infinity minus itself is NaN, which equals nothing.
        "is_finite" => infix("==", infix("-", value.expr.clone(), value.expr.clone()), Rc::new(Expr::Number(0.0))),
        "exponential_minus_one" => infix("-", call("exp", &parts), one()),
        "log_plus_one" => call("log", &[infix("+", value.expr.clone(), one())]),
        "sign" => {
            let side =
                |sign| cast(infix(sign, value.expr.clone(), Rc::new(Expr::Number(0.0))), DType::Bool, value.dtype);
            infix("-", side(">"), side("<"))
        }
        _ => return None,
    })
}
