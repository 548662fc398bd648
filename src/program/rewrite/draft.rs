//! A program being rewritten: values are added, dropped and replaced, and renumbered at the end.

use super::super::{Program, Value, ValueId};
use std::ops::Range;

/// A program with additional values.
pub(in crate::program) struct Draft<'a> {
    program: &'a Program,
    /// The original values, then new ones.
    pub(super) values: Vec<Value>,
    /// The repeat whose body has each value.
    bodies: Vec<Option<usize>>,
    /// The computed values in topological order.
    pub(super) order: Vec<ValueId>,
    /// The replacement of each value; itself by default.
    instead: Vec<ValueId>,
}

impl<'a> Draft<'a> {
    pub(in crate::program) fn new(program: &'a Program) -> Draft<'a> {
        let order: Vec<ValueId> = program.value_ids().collect();
        let bodies = order.iter().map(|id| program.body_of(*id)).collect();
        Draft { program, values: program.values.clone(), bodies, instead: order.clone(), order }
    }

    /// Adds a value to a body, without a position in the order.
    pub(super) fn add(&mut self, value: Value, body: Option<usize>) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a few values for each byte of source"));
        self.values.push(value);
        self.bodies.push(body);
        self.instead.push(id);
        id
    }

    /// The replacement of a value.
    pub(in crate::program) fn taken(&self, id: ValueId) -> ValueId {
        self.instead[id.index()]
    }

    /// Replaces a value that is no longer computed.
    pub(in crate::program) fn replace(&mut self, id: ValueId, by: ValueId) {
        self.instead[id.index()] = by;
        self.order.retain(|other| *other != id);
    }

    /// Computes several values in place of one, and replaces it by the last of them.
    pub(super) fn replace_by(&mut self, id: ValueId, new: &[ValueId]) {
        let place = self.order.iter().position(|other| *other == id).expect("it is made");
        self.order.splice(place..=place, new.iter().copied());
        self.instead[id.index()] = new.last().copied().unwrap_or(id);
    }

    /// Computes a value before another one.
    pub(super) fn insert_before(&mut self, place: ValueId, new: ValueId) {
        let place = self.order.iter().position(|other| *other == place).expect("it is made");
        self.order.insert(place, new);
    }

    /// Computes a value before the body that contains it.
    pub(super) fn bring_out(&mut self, id: ValueId) {
        let body = self.bodies[id.index()].take();
        self.order.retain(|other| *other != id);
        let first = self.order.iter().position(|other| self.bodies[other.index()] == body);
        self.order.insert(first.expect("something is left of the body"), id);
    }

    /// The finished program.
    pub(in crate::program) fn finish(self) -> Program {
        let mut numbers = vec![ValueId(u32::MAX); self.values.len()];
        for (number, id) in (0..).zip(&self.order) {
            numbers[id.index()] = ValueId(number);
        }
        let renumbered: Vec<ValueId> = self.instead.iter().map(|id| numbers[id.index()]).collect();
        let mut values = Vec::with_capacity(self.order.len());
        for id in &self.order {
            let mut value = self.values[id.index()].clone();
            value.definition.operands_mut().iter_mut().for_each(|operand| *operand = renumbered[operand.index()]);
            values.push(value);
        }
        let range = |body: usize| -> Range<usize> {
            let is_in = |id: &ValueId| self.bodies[id.index()] == Some(body);
            let start = self.order.iter().position(is_in).unwrap_or_default();
            start..start + self.order.iter().filter(|id| is_in(id)).count()
        };
        let bodies: Vec<Range<usize>> = (0..self.program.repeats.len()).map(range).collect();
        self.program.clone().with_values(values, &renumbered, &bodies)
    }
}
