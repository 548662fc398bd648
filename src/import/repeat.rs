//! Loops of a known length, such as those of `jax.lax.scan`, to `repeat`.
//!
//! What a body returns as it came in is read from outside. The counter disappears where it only picks the weights of an
//! iteration, which become inputs of the body; where it does more, it is an array that counts.

use super::ImportError;
use super::module::{Block, Operation};
use super::output::{ArrayId, Expr, Statement};
use super::translate::{Translator, infix, spread};
use super::value::{self, Position, Value};
use std::rc::Rc;

/// A loop that counts: which of its values is the counter, and how often the body runs.
struct Counted {
    counter: usize,
    start: f64,
    iterations: u64,
}

impl<'m, 'a> Translator<'m, 'a> {
    /// `stablehlo.while`
    pub(super) fn repeat(&mut self, operation: &'m Operation<'a>) -> Result<Vec<Value>, ImportError> {
        let [condition, body] = &operation.regions[..] else {
            return Err(self.refused(operation, "it has other regions than a condition and a body"));
        };
        let starts = self.operands(operation)?;
        let counted = self.counted(operation, condition, body, &starts)?;
        let returned = body.operations.last().map(|last| &last.operands[..]).unwrap_or_default();
        if returned.len() != starts.len() || body.arguments.len() != starts.len() {
            return Err(self.refused(operation, "its body takes and returns different numbers of values"));
        }
        if counted.iterations == 0 {
            return Ok(starts);
        }
        // Before the loop: what is handed on has a name, and all its dims.
        let counter = self.array("i".to_owned(), starts[counted.counter].dtype, Vec::new());
        let mut arguments = Vec::new();
        let mut carried: Vec<(usize, ArrayId)> = Vec::new();
        for (at, start) in starts.into_iter().enumerate() {
            if at == counted.counter {
                arguments.push(self.read(counter));
            } else if body.arguments[at] == returned[at] {
                arguments.push(self.once(start, "t", None));
            } else {
                let full = self.materialize(start);
                let hint = full.array().map_or_else(|| "carry".to_owned(), |array| self.arrays[array.0].hint.clone());
                let named = self.named(full, &hint, None, None);
                carried.extend(named.array().map(|array| (at, array)));
                arguments.push(named);
            }
        }
        let first = self.zero(counted.start, counted.iterations);
        self.push(Statement::Count { counter, expr: first });

        self.statements.push(Vec::new());
        self.counters.push((counter, counted.iterations));
        let ends = self.region(body, arguments.clone());
        self.counters.pop();
        let ends = ends.and_then(|ends| self.hand_on(operation, &carried, &ends));
        let step = infix("+", Rc::new(Expr::Array(counter)), Rc::new(Expr::Number(1.0)));
        self.push(Statement::Count { counter, expr: step });
        let statements = self.statements.pop().unwrap_or_default();
        ends?;
        self.push(Statement::Repeat { count: counted.iterations, body: statements });

        for (at, array) in carried {
            arguments[at] = self.read(array);
        }
        Ok(arguments)
    }

    /// Assigns what is handed on to the next iteration; all at once, as the body returns it.
    fn hand_on(
        &mut self,
        operation: &Operation<'a>,
        carried: &[(usize, ArrayId)],
        ends: &[Value],
    ) -> Result<(), ImportError> {
        let mut values = Vec::new();
        for &(at, array) in carried {
            let before = self.read(array);
            let end =
                ends.get(at).cloned().ok_or_else(|| self.refused(operation, "its body returns too few values"))?;
            let (combined, _) = self.combine(vec![before, end], operation)?;
            let end = combined
                .into_iter()
                .nth(1)
                .ok_or_else(|| self.refused(operation, "its body returns too few values"))?;
            let end = self.filled(end, array);
            // One that is assigned before reads what it was.
            let reads_another = carried.iter().any(|(_, other)| *other != array && end.expr.reads(*other));
            let end = if reads_another && carried.len() > 1 {
                let hint = format!("{}_next", self.arrays[array.0].hint);
                self.named(end, &hint, None, None)
            } else {
                end
            };
            values.push((array, end));
        }
        for (array, end) in values {
            self.push(Statement::Assign { array, expr: end.expr, sharding: None, place: None });
        }
        Ok(())
    }

    /// The value with all dims of the array present.
    fn filled(&mut self, value: Value, array: ArrayId) -> Value {
        let shape: Vec<Position> = self.read(array).shape;
        let mut expr = value.expr;
        for (have, want) in value.shape.iter().zip(&shape) {
            let have = value::leaves(&mut self.dims, have);
            let want = value::leaves(&mut self.dims, want);
            let absent = have.iter().zip(&want).filter(|(have, _)| !have.is_present);
            for (_, want) in absent {
                expr = spread(expr, Rc::new(Expr::Iota(want.dim)), value.dtype);
            }
        }
        Value { expr, shape, ..value }
    }

    /// An array without dims of this number: the least of 0, 1, 2 and so on, and so much more.
    fn zero(&mut self, start: f64, iterations: u64) -> Rc<Expr> {
        let dim = self.dims.fresh(iterations.max(2));
        let least = Rc::new(Expr::Reduce("min", vec![dim], Rc::new(Expr::Iota(dim))));
        if start == 0.0 { least } else { infix("+", least, Rc::new(Expr::Number(start))) }
    }

    /// `i < n`, with `i + 1` handed on.
    fn counted(
        &mut self,
        operation: &'m Operation<'a>,
        condition: &'m Block<'a>,
        body: &'m Block<'a>,
        starts: &[Value],
    ) -> Result<Counted, ImportError> {
        let why = "only loops with a fixed number of iterations are supported";
        let refused = || ImportError::Operation {
            name: operation.name.to_owned(),
            why: why.to_owned(),
            at: operation.span,
            way_out: None,
        };
        let compares =
            condition.operations.iter().rev().find(|inner| inner.name == "stablehlo.compare").ok_or_else(refused)?;
        let is_less = compares.trees.iter().any(|tree| tree.word() == Some("LT"));
        let [left, right] = compares.operands[..] else { return Err(refused()) };
        let counter =
            condition.arguments.iter().position(|name| *name == left).filter(|_| is_less).ok_or_else(refused)?;
        // The bound: a constant of the condition, or a value from outside.
        let inside = condition.operations.iter().find(|inner| inner.results.iter().any(|(name, _)| *name == right));
        let bound = match inside {
            Some(inside) if inside.operands.is_empty() => self.operation(inside)?.into_iter().next(),
            Some(_) => None,
            None => match condition.arguments.iter().position(|name| *name == right) {
                Some(at) => starts.get(at).cloned(),
                None => Some(self.value(right, operation)?),
            },
        };
        let bound = bound.as_ref().and_then(Value::number).ok_or_else(refused)?;
        let start = starts.get(counter).and_then(Value::number).ok_or_else(refused)?;
        // The step, as it is written in the body.
        let next = body.operations.last().and_then(|last| last.operands.get(counter)).ok_or_else(refused)?;
        let step = body
            .operations
            .iter()
            .find(|inner| inner.results.iter().any(|(name, _)| name == next))
            .ok_or_else(refused)?;
        let ones = step.operands.iter().find(|name| body.arguments.get(counter) != Some(name)).ok_or_else(refused)?;
        let one = body.operations.iter().find(|inner| inner.results.iter().any(|(name, _)| name == ones));
        let one = match one {
            Some(one) if one.operands.is_empty() => self.operation(one)?.into_iter().next(),
            Some(_) => None,
            None => self.value(ones, operation).ok(),
        };
        let counts = step.name == "stablehlo.add"
            && step.operands.len() == 2
            && step.operands.iter().any(|name| body.arguments.get(counter) == Some(name))
            && one.as_ref().and_then(Value::number) == Some(1.0);
        let iterations = bound - start;
        if !counts || !(0.0..=1e6).contains(&iterations) {
            return Err(refused());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and a million")]
        Ok(Counted { counter, start, iterations: iterations as u64 })
    }
}
