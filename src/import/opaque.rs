//! Operations that the language cannot say as calls of declared kernels.
//!
//! A kernel has one result, so an operation with several results is a call for each. Complex numbers are arrays with a
//! last dim of size 2, which only kernels read.

use super::module::{Block, Operation, Type};
use super::operation::{is_sharding, scalar};
use super::output::{Expr, Kernel};
use super::rules::{self, Flops, Index, Reading, Shape, Why};
use super::translate::{Translator, cast, fold, infix};
use super::trees::{Kind, Tree};
use super::value::{self, Factor, Position, Value};
use crate::dtype::DType;
use crate::kernel::MOST_OPERANDS;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

impl<'m, 'a> Translator<'m, 'a> {
    /// The results of an operation as those of kernels.
    pub(super) fn opaque(&mut self, operation: &'m Operation<'a>) -> Result<Vec<Value>, Why> {
        let mut dtypes = Vec::new();
        let mut results = Vec::new();
        for result in &operation.types {
            let is_complex = result.parts().is_some();
            dtypes.push(result.parts().or_else(|| result.element.clone().ok()).ok_or(None)?);
            results.push(Shape { sizes: result.shape.clone(), is_complex });
        }
        if operation.regions.iter().any(|region| reads_outside(region, &mut HashSet::new())) {
            return Err(Some("its region reads values from outside"));
        }
        let values = self.operands(operation).map_err(|_| None)?;
        let shapes: Vec<Shape> = values.iter().map(|value| self.shape(value)).collect();
        let rule = rules::rule(operation, &shapes, &results)?;
        // Numbers are facts of the kernel, unless it reads a dim of them.
        let is_fact = |(at, value): (usize, &Value)| {
            let mut readings = rule.operands[at].iter().map(|index| rule.indices[*index].reading);
            value.number().filter(|_| readings.all(|reading| reading == Reading::Alone))
        };
        let facts: Vec<Option<f64>> = values.iter().enumerate().map(is_fact).collect();
        let mut kept: Vec<usize> = (0..values.len()).filter(|at| facts[*at].is_none()).collect();
        if kept.is_empty() {
            kept.push(0);
        }
        if kept.len() > MOST_OPERANDS {
            return Err(Some("a kernel has at most 4 operands"));
        }
        let mut identity = self.identity(operation, &values);
        let mut notes = Vec::new();
        for (at, fact) in facts.iter().enumerate().filter(|(at, _)| !kept.contains(at)) {
            if let Some(fact) = fact {
                let _ = write!(identity, " {at} is {fact}");
                notes.push(format!("operand {} is {fact}", at + 1));
            }
        }
        let (operands, mut shape) = self.arranged(operation, values, &kept, &rule)?;
        let mut all = value::present(&mut self.dims, &shape);
        // Dims that only results have: the same ones for all calls, as far as operands leave them free.
        let of_operands: HashSet<usize> = kept.iter().flat_map(|at| &rule.operands[*at]).copied().collect();
        for index in (0..rule.indices.len()).filter(|index| !of_operands.contains(index)) {
            let Index { size, reading } = rule.indices[index];
            let key = (identity.clone(), index);
            shape[index] = if rule.parts == Some(index) {
                self.parts()
            } else if reading != Reading::Whole {
                value::fresh(&mut self.dims, size, false)
            } else if let Some(known) = self.kernels.made.get(&key).cloned()
                && value::leaves(&mut self.dims, &known).iter().all(|factor| !all.contains(&factor.dim))
            {
                known
            } else {
                value::fresh(&mut self.dims, size, true)
            };
            all.extend(value::present(&mut self.dims, &shape[index..=index]));
            self.kernels.made.insert(key, shape[index].clone());
        }
        // No two of them may turn out to be the same dim.
        self.dims.together(&all);
        let sharded = rule.indices.iter().zip(&shape).filter(|(index, _)| index.reading != Reading::Whole);
        let sharded: Vec<Position> = sharded.map(|(_, position)| position.clone()).collect();
        let (factor, counted) = match &rule.flops {
            Flops::Unknown => {
                notes.push("flops unknown, counted as 0".to_owned());
                (0, Vec::new())
            }
            Flops::Product(factor, indices) => {
                (*factor, indices.iter().map(|index| shape[*index].clone()).collect::<Vec<_>>())
            }
        };
        if rule.parts.is_some() {
            notes.push("complex numbers as a dim of two parts".to_owned());
        }
        let (hint, place) = (self.hint_of(operation, &rule.word, "out"), self.place(operation));
        let mut made = Vec::new();
        for (number, (indices, dtype)) in rule.results.iter().zip(dtypes).enumerate() {
            let mut notes = notes.clone();
            if let several @ 2.. = rule.results.len() {
                notes.insert(0, format!("result {} of {several}, at the cost of the whole operation", number + 1));
            }
            let result: Vec<Position> = indices.iter().map(|index| shape[*index].clone()).collect();
            let kernel = Kernel {
                word: rule.word.clone(),
                identity: format!("{identity} result {number}"),
                notes,
                parameters: operands.iter().map(|value| value::present(&mut self.dims, &value.shape)).collect(),
                result: value::present(&mut self.dims, &result),
                dtype,
                sharded: value::present(&mut self.dims, &sharded),
                factor,
                counted: value::present(&mut self.dims, &counted),
            };
            let exprs = operands.iter().map(|value| value.expr.clone()).collect();
            let value = Value { expr: Rc::new(Expr::Kernel(Rc::new(kernel), exprs)), dtype, shape: result };
            made.push(self.named(value, &hint, None, place.clone()));
        }
        Ok(made)
    }

    /// What an operand or a result of a kernel would be called: by the scope that it was traced in, or by the kernel.
    fn hint_of(&self, operation: &Operation<'a>, word: &str, side: &str) -> String {
        let hint = self.hint(operation);
        let is_plain = operation.name.rsplit('.').next() == Some(hint);
        if is_plain { format!("{word}_{side}") } else { hint.to_owned() }
    }

    /// The operands of a kernel with the dims of its indices, as arrays whose dims are in the order of the operation, and
    /// the dims of all indices.
    fn arranged(
        &mut self,
        operation: &Operation<'a>,
        values: Vec<Value>,
        kept: &[usize],
        rule: &rules::Rule,
    ) -> Result<(Vec<Value>, Vec<Position>), Why> {
        let (hint, place) = (self.hint_of(operation, &rule.word, "in"), self.place(operation));
        let mut named = Vec::new();
        for (at, value) in values.into_iter().enumerate().filter(|(at, _)| kept.contains(at)) {
            let indices = &rule.operands[at];
            let is_read = |place: usize| rule.indices[indices[place]].reading != Reading::Alone;
            let value = self.filled_where(value, is_read);
            let value = if value.number().is_some() { self.materialize(value) } else { value };
            let order = self.order(&value.expr);
            let own = value::present(&mut self.dims, &value.shape);
            let is_ordered = order.is_some_and(|order| order == own);
            named.push(if is_ordered { value } else { self.named(value, &hint, None, place.clone()) });
        }
        let mut spread = Vec::new();
        for (value, at) in named.iter().zip(kept) {
            let own = &rule.operands[*at];
            let of = |index: usize| {
                if let Some(place) = own.iter().position(|own| *own == index) {
                    return value.shape[place].clone();
                }
                let others = named.iter().zip(kept).find_map(|(value, at)| {
                    let place = rule.operands[*at].iter().position(|own| *own == index)?;
                    Some(value::absent(&value.shape[place]))
                });
                others.unwrap_or_default()
            };
            spread.push(Value { shape: (0..rule.indices.len()).map(of).collect(), ..value.clone() });
        }
        let (combined, shape) = value::combine(&mut self.dims, spread)
            .ok_or(Some("its operands come from reshapes that cut one dim at different places"))?;
        let operands = combined.into_iter().zip(kept).map(|(value, at)| {
            let shape = rule.operands[*at].iter().map(|index| value.shape[*index].clone()).collect();
            Value { shape, ..value }
        });
        Ok((operands.collect(), shape))
    }

    /// The dims of an expression in the order that it has in the program, if that is known.
    fn order(&mut self, expr: &Expr) -> Option<Vec<super::dims::Dim>> {
        match expr {
            Expr::Array(array) => {
                let dims: Vec<_> = self.arrays[array.0].shape.iter().flatten().copied().collect();
                Some(dims.into_iter().flat_map(|dim| self.dims.leaves(dim)).collect())
            }
            Expr::Iota(dim) => Some(self.dims.leaves(*dim)),
            Expr::Call(_, operands) => match &operands[..] {
                [iota] if matches!(**iota, Expr::Iota(_)) => self.order(iota),
                _ => None,
            },
            _ => None,
        }
    }

    /// Dims of a tensor, those of complex numbers without the last one.
    fn shape(&mut self, value: &Value) -> Shape {
        let is_complex = self.is_complex(value);
        let kept = value.shape.len() - usize::from(is_complex);
        let sizes = value.shape[..kept].iter().map(|position| value::size(&mut self.dims, position)).collect();
        Shape { sizes, is_complex }
    }

    /// Whether a tensor has complex numbers.
    fn is_complex(&mut self, value: &Value) -> bool {
        let Some(parts) = self.kernels.parts else { return false };
        let parts = self.dims.leaves(parts);
        let last = value.shape.last().map(|last| value::leaves(&mut self.dims, last));
        last.is_some_and(|last| last.iter().map(|factor| factor.dim).eq(parts))
    }

    /// The dim of real and imaginary parts.
    fn parts(&mut self) -> Position {
        let dims = &mut self.dims;
        let dim = *self.kernels.parts.get_or_insert_with(|| dims.fresh(2));
        vec![Factor { dim, is_present: true }]
    }

    /// An operation on complex numbers: dims are moved as those of other tensors are, and everything else is a kernel.
    pub(super) fn of_complex(&mut self, operation: &'m Operation<'a>) -> Option<Result<Vec<Value>, Why>> {
        let parts = operation.types.iter().find_map(Type::parts);
        let short = operation.name.rsplit('.').next().unwrap_or_default();
        if let (Some(dtype), "constant") = (parts, short) {
            return Some(self.complex_constant(operation, dtype).map(|value| vec![value]).ok_or(None));
        }
        let operands = self.operands(operation).ok()?;
        let has_complex = operands.iter().any(|operand| self.is_complex(operand));
        let is_passed = matches!(short, "call" | "composite" | "while" | "optimization_barrier" | "get_tuple_element");
        let is_passed = is_passed || is_sharding(operation);
        if is_passed || !has_complex && parts.is_none() {
            return None;
        }
        if let (Some(dtype), "broadcast_in_dim" | "reshape" | "transpose", [operand]) = (parts, short, &operands[..]) {
            let mut real = operand.clone();
            real.shape.pop();
            let moved = self.computed(operation, short, vec![real], dtype).map_err(|_| None);
            return Some(moved.map(|mut moved| {
                moved.shape.extend(operand.shape.last().cloned());
                vec![moved]
            }));
        }
        if let (Some(dtype), "sharding_constraint") = (parts, short) {
            return Some(self.computed(operation, short, operands, dtype).map(|value| vec![value]).map_err(|_| None));
        }
        Some(self.opaque(operation))
    }

    /// `dense<(1.0, 0.0)>`: one complex number everywhere.
    fn complex_constant(&mut self, operation: &Operation<'a>, dtype: DType) -> Option<Value> {
        let text = operation.trees.iter().find_map(|tree| match tree.kind {
            Kind::Dense(text) => text.trim().strip_prefix('(')?.strip_suffix(')'),
            _ => None,
        })?;
        let numbers: Vec<f64> = text
            .split(',')
            .map(|word| scalar(word.trim(), dtype))
            .collect::<Option<_>>()
            .filter(|all: &Vec<f64>| all.len() == 2)?;
        let sizes = operation.types.first()?.shape.clone();
        let position = self.parts();
        let part = self.iota(&position, DType::I32);
        let chosen = |at: f64, number: f64| {
            let here = cast(infix("==", part.clone(), Rc::new(Expr::Number(at))), DType::Bool, dtype);
            fold(".*", here, Rc::new(Expr::Number(number)))
        };
        let terms = [0.0, 1.0].into_iter().zip(&numbers).filter(|(_, number)| **number != 0.0);
        let sum = terms.map(|(at, number)| chosen(at, *number)).reduce(|sum, term| fold("+", sum, term));
        let expr = sum.unwrap_or_else(|| chosen(0.0, 0.0));
        let mut shape: Vec<Position> = sizes.iter().map(|size| value::fresh(&mut self.dims, *size, false)).collect();
        shape.push(position);
        Some(Value { expr, dtype, shape })
    }

    /// What operations have in common that are calls of one kernel: name, attributes, regions, types and shapes.
    fn identity(&mut self, operation: &Operation<'a>, operands: &[Value]) -> String {
        // An operation is called many times where it is in a function, and may have long attributes.
        let number = self.kernels.alike.get(&operation.span).copied().unwrap_or_else(|| {
            let next = self.kernels.written.len();
            let number = *self.kernels.written.entry(written(operation)).or_insert(next);
            self.kernels.alike.insert(operation.span, number);
            number
        });
        let mut text = number.to_string();
        // Two draws are two results.
        if operation.name == "stablehlo.rng" {
            let _ = write!(text, " drawn {}", self.operations);
        }
        for operand in operands {
            let sizes = self.shape(operand).sizes;
            let _ = write!(text, " {sizes:?}{}", operand.dtype);
        }
        text
    }
}

/// An operation without the names of its values, and without its place.
fn written(operation: &Operation<'_>) -> String {
    let mut text = operation.name.to_owned();
    for tree in &operation.trees {
        spell(tree, &mut None, &mut text);
    }
    let mut names = HashMap::new();
    for region in &operation.regions {
        spell_region(region, &mut names, &mut text);
    }
    for result in &operation.types {
        let _ = write!(text, " {result:?}");
    }
    text
}

/// Adds a token or group; values by the order in which they appear, or all alike.
fn spell<'a>(tree: &Tree<'a>, names: &mut Option<&mut HashMap<&'a str, usize>>, text: &mut String) {
    text.push(' ');
    match &tree.kind {
        Kind::Word(word) | Kind::Sign(word) => text.push_str(word),
        Kind::Text(quoted) | Kind::Dense(quoted) => {
            let _ = write!(text, "{quoted:?}");
        }
        Kind::Value(name) => {
            let number = names.as_mut().map_or(0, |names| {
                let next = names.len();
                *names.entry(name).or_insert(next)
            });
            let _ = write!(text, "%{number}");
        }
        Kind::Group(bracket, inside) => {
            let _ = write!(text, "{bracket:?}(");
            for tree in inside {
                spell(tree, names, text);
            }
            text.push(')');
        }
    }
}

fn spell_region<'a>(region: &Block<'a>, names: &mut HashMap<&'a str, usize>, text: &mut String) {
    let number = |names: &mut HashMap<&'a str, usize>, name: &'a str| {
        let next = names.len();
        *names.entry(name).or_insert(next)
    };
    text.push_str(" {");
    for argument in &region.arguments {
        let _ = write!(text, " %{}", number(names, argument));
    }
    for operation in &region.operations {
        text.push(';');
        for (result, count) in &operation.results {
            let _ = write!(text, " %{}:{count}", number(names, result));
        }
        let _ = write!(text, " {}", operation.name);
        for tree in &operation.trees {
            spell(tree, &mut Some(&mut *names), text);
        }
        let _ = write!(text, " {:?}", operation.types);
        for region in &operation.regions {
            spell_region(region, names, text);
        }
    }
    text.push('}');
}

/// Whether a region reads values that are defined outside of it.
fn reads_outside<'a>(region: &Block<'a>, defined: &mut HashSet<&'a str>) -> bool {
    defined.extend(&region.arguments);
    for operation in &region.operations {
        let base = |name: &'a str| name.split('#').next().unwrap_or(name);
        if operation.operands.iter().any(|name| !defined.contains(base(name)))
            || operation.regions.iter().any(|region| reads_outside(region, defined))
        {
            return true;
        }
        defined.extend(operation.results.iter().map(|(name, _)| *name));
    }
    false
}
