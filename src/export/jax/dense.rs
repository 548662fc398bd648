//! The values of a program as a Python function of whole arrays, without mesh, layouts or padding.

use super::expression::{self, Called, Lanes, Operand, combined};
use super::lines::{Lines, Loop};
use super::names::Names;
use super::text;
use crate::export::words::{generated, of_whole};
use crate::layout::Sharding;
use crate::program::{Carried, Program, Repeat, Value, ValueId};
use itertools::Itertools;
use std::collections::HashMap;

/// Text appended to the value of a statement, if any: a constraint on its layout.
pub(super) type Constraint<'a> = &'a dyn Fn(ValueId, &str) -> Option<String>;

/// The lines of the function body. `open` holds the layouts of inputs that are given in pieces.
pub(super) fn body(
    program: &Program,
    source: &str,
    parameters: &HashMap<ValueId, String>,
    open: &HashMap<ValueId, Sharding>,
    constraint: Constraint<'_>,
) -> String {
    let (lines, names, called) = (Lines::new(source, 1), Names::new(), HashMap::new());
    let kernels = super::kernels(program);
    let mut dense = Dense { program, lines, names, called, parameters, open, constraint, kernels };
    for (id, parameter) in parameters.iter().sorted() {
        dense.names.give(parameter, *id, |_| false);
    }
    dense.values();
    let called = program.outputs.iter().map(|id| dense.called[id].clone()).join(", ");
    dense.lines.add(&format!("return {called}"));
    dense.lines.finish()
}

struct Dense<'a> {
    program: &'a Program,
    lines: Lines<'a>,
    names: Names<ValueId>,
    called: HashMap<ValueId, String>,
    parameters: &'a HashMap<ValueId, String>,
    open: &'a HashMap<ValueId, Sharding>,
    constraint: Constraint<'a>,
    kernels: Vec<Called>,
}

impl Dense<'_> {
    /// The pieces of an open sum are combined first.
    fn input(&mut self, id: ValueId) {
        if let Some(array) = generated(self.program, id) {
            let text = text::generated(&array, self.program, id);
            let name = self.named(id);
            return self.lines.add(&format!("{name} = {text}"));
        }
        // A body takes its own of a stack, by the same name.
        let given = self.parameters[&id].clone();
        let Some(sharding) = self.open.get(&id) else {
            self.called.insert(id, given);
            return;
        };
        let value = self.program.value(id);
        let closed = combined(sharding.operator, &given, "0", value.dtype);
        let name = self.named(id);
        self.lines.add_of(value.span, &format!("{name} = {closed}"), "");
    }

    /// The value of a statement has the statement's name; subexpressions get names of their own.
    fn named(&mut self, id: ValueId) -> String {
        let name = self.names.give(&self.program.name(id), id, |_| false);
        self.called.insert(id, name.clone());
        name
    }

    /// The name of a carried array: that of the array it starts with, if only it needs that array.
    fn carried(&mut self, repeat: &Repeat, carried: &Carried) -> String {
        let (program, entry) = (self.program, carried.entry);
        let is_alias = self.called.iter().any(|(id, name)| *id != entry && *name == self.called[&entry]);
        let mut later = (repeat.body.start..program.values.len()).map(value_at).filter(|id| *id != carried.first);
        let is_alone = !is_alias
            && !later.any(|id| program.value(id).definition.operands().contains(&entry))
            && !program.outputs.contains(&entry)
            && repeat.carried.iter().filter(|carried| carried.entry == entry).count() == 1;
        let name = self.names.give(&program.name(carried.first), carried.first, |owner| is_alone && *owner == entry);
        self.called.insert(carried.first, name.clone());
        name
    }

    fn values(&mut self) {
        let program = self.program;
        let mut at = 0;
        while at < program.values.len() {
            let Some(repeat) = program.repeats.iter().find(|repeat| repeat.body.start == at && !repeat.body.is_empty())
            else {
                self.value(at);
                at += 1;
                continue;
            };
            let entries: Vec<String> =
                repeat.carried.iter().map(|carried| self.called[&carried.entry].clone()).collect();
            let inputs = repeat.body.clone().filter_map(|at| self.parameters.get(&value_at(at)));
            let scan = Loop {
                times: repeat.times,
                stacked: inputs.cloned().collect(),
                carried: repeat.carried.iter().map(|carried| self.carried(repeat, carried)).collect(),
            };
            self.lines.open_loop(&scan);
            let is_first = |at: usize| repeat.carried.iter().any(|carried| carried.first.index() == at);
            for at in repeat.body.clone().filter(|at| !is_first(*at)) {
                self.value(at);
            }
            let ends: Vec<String> = repeat.carried.iter().map(|carried| self.called[&carried.last].clone()).collect();
            self.lines.close_loop(&scan, &entries, &ends);
            for (carried, name) in repeat.carried.iter().zip(scan.carried) {
                let name = self.names.give(&name, carried.last, |owner| *owner == carried.first);
                self.called.insert(carried.last, name);
            }
            at = repeat.body.end;
        }
    }

    fn value(&mut self, at: usize) {
        let program = self.program;
        let id = value_at(at);
        let Value { dtype, definition, dims, span, .. } = program.value(id);
        let operands: Vec<Operand> = definition
            .operands()
            .iter()
            .map(|operand| (self.called[operand].clone(), program.value(*operand).dtype))
            .collect();
        let lanes = Lanes { start: None, rank: dims.len() };
        let op = of_whole(program, id);
        let of = |id: &ValueId| program.value(*id).dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        let names: Vec<Vec<String>> = definition.operands().iter().map(of).collect();
        let Some(value) = expression::value(&op, &operands, &names, *dtype, &lanes, &self.kernels) else {
            return self.input(id);
        };
        let constrained = (self.constraint)(id, &value);
        if constrained.is_none() && Some(&value) == operands.first().map(|(name, _)| name) {
            self.called.insert(id, value);
            return;
        }
        let value = constrained.unwrap_or(value);
        let name = self.named(id);
        self.lines.add_of(*span, &format!("{name} = {value}"), "");
    }
}

fn value_at(at: usize) -> ValueId {
    ValueId(u32::try_from(at).expect("fewer values than bytes of source"))
}
