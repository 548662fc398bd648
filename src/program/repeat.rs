//! `repeat N { .. }`: a body that is checked and planned once, and run N times.
//!
//! A block inside a body is unrolled, so the body is planned with all of its iterations.
//!
//! Names that exist before and are assigned inside are carried between iterations. Each stands for two values of the
//! body: the first, at its head, is the iteration's start value; the last, at its end, is handed on in the layout of the
//! first. All other names of the body are local.
//!
//! ```text
//! x: bf16[B_X, D]                          %0 x = input
//! repeat 4 {                               repeat 4 {
//!   W: bf16[D, F]                            %1 x = move %0       # what an iteration begins with
//!   V: bf16[F, D]                            %2 W = input         # another one in each iteration
//!   x[B_X, D] = relu(x * W) * V              ..
//! }                                          %7 x = move %6       # what it hands on
//! output x                                 }
//! ```

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::rewrite::Draft;
use super::{Alias, Definition, Program, Using, Value, ValueId, Wanted};
use crate::layout::Sharding;
use crate::mesh::AxisSet;
use crate::span::Span;
use crate::syntax::{SizeExpr, Statement, StatementKind};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A `repeat` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The values of the body.
    pub body: Range<usize>,
    /// The number of iterations, at least one.
    pub times: u64,
    /// The carried names.
    pub carried: Vec<Carried>,
    /// The outermost blocks inside the body, which are unrolled.
    pub blocks: Vec<Span>,
    /// The statement.
    pub span: Span,
}

/// A carried name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The start value of the first iteration, computed before the body.
    pub entry: ValueId,
    /// The start value of each iteration, in the body.
    pub first: ValueId,
    /// The value each iteration hands on, in the body; after the repeat, the name means that of the last iteration.
    pub last: ValueId,
}

impl Program {
    /// The values that are read: by a computation, as an output, or to hand on a name that is read.
    ///
    /// A name that iterations only hand on, or set without reading it, is read if it is after the repeat.
    pub(crate) fn read(&self) -> BTreeSet<ValueId> {
        let moves: BTreeSet<ValueId> = self.carried().flat_map(|carried| [carried.first, carried.last]).collect();
        let computed = self.value_ids().filter(|id| !moves.contains(id));
        let operands = |id: ValueId| self.value(id).definition.operands().iter().copied();
        let mut read: BTreeSet<ValueId> = computed.flat_map(operands).chain(self.outputs.iter().copied()).collect();
        loop {
            let before = read.len();
            for Carried { first, last, .. } in self.carried() {
                if read.contains(first) && self.times(*first) > 1 {
                    read.insert(*last);
                }
                let handed: Vec<ValueId> = [*first, *last].into_iter().filter(|id| read.contains(id)).collect();
                read.extend(handed.into_iter().flat_map(operands));
            }
            if read.len() == before {
                return read;
            }
        }
    }

    /// The program without the carried names that nothing reads, and without repeats that do nothing else.
    pub(super) fn without_unread(self) -> Program {
        let read = self.read();
        let is_read = |carried: &Carried| read.contains(&carried.first) || read.contains(&carried.last);
        if self.carried().all(is_read) {
            return self;
        }
        let unread: Vec<Carried> = self.carried().filter(|carried| !is_read(carried)).copied().collect();
        let mut draft = Draft::new(&self);
        let moves = unread.iter().flat_map(|carried| [carried.first, carried.last]).sorted();
        for id in moves {
            let operand = self.value(id).definition.operands().first().map(|operand| draft.taken(*operand));
            draft.replace(id, operand.unwrap_or(id));
        }
        let mut program = draft.finish();
        for (repeat, before) in program.repeats.iter_mut().zip(&self.repeats) {
            let mut kept = before.carried.iter().map(is_read);
            repeat.carried.retain(|_| kept.next().unwrap_or(true));
        }
        let empty: Vec<Span> =
            program.repeats.extract_if(.., |repeat| repeat.body.is_empty()).map(|repeat| repeat.span).collect();
        let is_inside =
            |alias: &Alias| empty.iter().any(|span| span.start <= alias.span.start && alias.span.end <= span.end);
        program.aliases.retain(|alias| !is_inside(alias));
        program
    }

    /// Whether a later iteration reads what a name hands on.
    ///
    /// - `first`: as [`Carried::first`].
    /// - `read`: as [`Program::read`].
    pub(crate) fn is_handed_on(&self, first: ValueId, read: &BTreeSet<ValueId>) -> bool {
        read.contains(&first) && self.times(first) > 1
    }
}

/// Limit on statements unrolled from blocks inside bodies, in total.
const MOST_WRITTEN_OUT: usize = 1024;

/// A carried name during checking.
struct Open {
    name: String,
    entry: ValueId,
    first: ValueId,
}

impl Checker {
    /// Checks a block; its body once.
    pub(super) fn repeat(&mut self, count: &SizeExpr, body: &[Statement], span: Span) -> Checked<()> {
        let times = self.times(count);
        let (start, errors) = (self.values.len(), self.diagnostics.count(crate::diag::Severity::Error));
        let names = self.aliases.len();
        let opened = self.open_body(body)?;
        let outside: BTreeSet<String> = self.scope.keys().cloned().collect();
        self.bodies += 1;
        for statement in body {
            self.body_statement(statement);
        }
        self.bodies -= 1;
        let fine = self.diagnostics.count(crate::diag::Severity::Error) == errors;
        let carried = if fine { self.close_body(&opened)? } else { Vec::new() };
        self.forget_locals(&outside);
        for (open, carried) in opened.iter().zip(&carried) {
            self.bind(Some(&open.name), Some(carried.last), self.place(carried.last), false);
            self.bindings[self.scope[&open.name]].carried = true;
        }
        let is_block = |statement: &&Statement| matches!(statement.kind, StatementKind::Repeat { .. });
        let blocks = body.iter().filter(is_block).map(|statement| statement.span).collect();
        let (body, times) = (start..self.values.len(), times?);
        if body.is_empty() {
            // Names that a block gives are unknown after it.
            self.aliases.truncate(names);
        } else {
            self.repeats.push(Repeat { body, times, carried, blocks, span });
        }
        Ok(())
    }

    fn times(&mut self, count: &SizeExpr) -> Checked<u64> {
        let mut sizes = BTreeMap::new();
        for name in count.names() {
            sizes.insert(name, self.dim(name, count.span)?.size);
        }
        match count.value(&mut |name| sizes.get(name.node.as_str()).copied()) {
            Ok(0) => Err(CheckError::SizeZero { what: "`repeat`".to_owned(), at: count.span }.into()),
            Ok(times) => Ok(times),
            Err(flaw) => Err(CheckError::size(flaw, "a count is a number or an expression of dim sizes").into()),
        }
    }

    /// Opens the carried names: assigned in the body and defined before it.
    fn open_body(&mut self, body: &[Statement]) -> Checked<Vec<Open>> {
        let mut names: Vec<Assigned<'_>> = Vec::new();
        assigned(body, &mut names);
        let mut opened = Vec::new();
        for Assigned { name, is_laid_out } in names {
            let Some(entry) = self.scope.get(name).and_then(|place| self.bindings[*place].value) else { continue };
            self.bindings[self.scope[name]].used = true;
            let value = self.value(entry);
            let (dtype, dims) = (value.dtype, value.dims.clone());
            // What comes in one layout is brought into another one before the body, unless that ends in a written one.
            let wanted = match &value.wanted {
                Wanted::Exact(sharding) if is_laid_out => Wanted::Exact(sharding.clone()),
                Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free => Wanted::Free,
            };
            let (definition, place, span) =
                (Definition::Move { operand: entry, written: false }, self.place(entry), value.span);
            let first = self.add_value(Value {
                name: Some(name.to_owned()),
                dtype,
                dims,
                definition,
                wanted,
                using: Using::default(),
                pin: None,
                span,
                call: None,
            })?;
            // A free value is closed when it is carried.
            self.sums[first.index()] = BTreeMap::new();
            self.places[first.index()] = place;
            self.bind(Some(name), Some(first), place, false);
            self.bindings[self.scope[name]].used = true;
            opened.push(Open { name: name.to_owned(), entry, first });
        }
        Ok(opened)
    }

    pub(super) fn body_statement(&mut self, statement: &Statement) {
        let what = match &statement.kind {
            StatementKind::Input { .. } | StatementKind::Assign { .. } => return self.statement(statement),
            StatementKind::Repeat { count, body } => {
                if let Err(failure) = self.write_out(count, body, statement.span) {
                    self.tell(failure);
                }
                return;
            }
            other => other.keyword(),
        };
        self.diagnostics.push(&CheckError::NotInRepeat { what, at: statement.span });
    }

    /// Checks a block inside a body, unrolled.
    fn write_out(&mut self, count: &SizeExpr, body: &[Statement], at: Span) -> Checked<()> {
        let times = self.times(count);
        let errors = self.diagnostics.count(crate::diag::Severity::Error);
        let outside: BTreeSet<String> = self.scope.keys().cloned().collect();
        for iteration in 1..=times.as_ref().copied().unwrap_or(1) {
            self.written_out += body.len().max(1);
            if self.written_out > MOST_WRITTEN_OUT {
                return Err(CheckError::WrittenOutTooLong { most: MOST_WRITTEN_OUT, at }.into());
            }
            let start = self.values.len();
            for statement in body {
                self.body_statement(statement);
            }
            for value in self.values[start..].iter_mut().filter(|value| value.definition.is_input()) {
                value.name = value.name.as_ref().map(|name| format!("{name}.{iteration}"));
            }
            self.forget_locals(&outside);
            if self.diagnostics.count(crate::diag::Severity::Error) > errors {
                break;
            }
        }
        times.map(|_| ())
    }

    /// The outputs; those handed on by a repeat are moved out of its body, where they may be open sums.
    pub(super) fn bring_out(&mut self) -> Checked<()> {
        for place in 0..self.outputs.len() {
            let id = self.outputs[place];
            let is_handed_on = self.repeats.iter().flat_map(|repeat| &repeat.carried).any(|carried| carried.last == id);
            let value = self.value(id).clone();
            if is_handed_on && value.wanted.is_open() {
                let definition = Definition::Move { operand: id, written: false };
                self.outputs[place] = self.add_value(Value { definition, ..value })?;
                self.places[self.outputs[place].index()] = self.place(id);
            }
        }
        Ok(())
    }

    /// Hands each carried name on, in its layout at the head.
    fn close_body(&mut self, opened: &[Open]) -> Checked<Vec<Carried>> {
        let mut carried = Vec::new();
        for Open { name, entry, first } in opened {
            let Some(end) = self.scope.get(name).and_then(|place| self.bindings[*place].value) else { continue };
            self.bindings[self.scope[name]].used = true;
            let wanted = self.handed_on(name, *entry, *first, end)?;
            let head = self.value(*first);
            let (dtype, dims, name) = (head.dtype, head.dims.clone(), Some(name.clone()));
            let (definition, span) = (Definition::Move { operand: end, written: false }, self.value(end).span);
            let last = self.add_value(Value {
                name,
                dtype,
                dims,
                definition,
                wanted,
                using: Using::default(),
                pin: None,
                span,
                call: None,
            })?;
            self.places[last.index()] = self.place(end);
            self.sums[last.index()] = BTreeMap::new();
            carried.push(Carried { entry: *entry, first: *first, last });
        }
        Ok(carried)
    }

    /// The layout of a carried name: that of the head, unless only the end has a written one, or the body does not read
    /// the name before it assigns it.
    fn handed_on(&mut self, name: &str, entry: ValueId, first: ValueId, end: ValueId) -> Checked<Wanted> {
        let said = self.exact(end).map(|sharding| self.in_order_of(first, end, sharding));
        let units: AxisSet = self.mesh.axis_ids().filter(|axis| self.mesh.size(*axis) == 1).collect();
        let reads = |value: &Value| value.definition.operands().contains(&first);
        if let Some(said) = &said
            && end != first
            && !self.values[first.index()..].iter().any(reads)
        {
            // What the body does not read may come in any layout.
            let wanted = Wanted::Exact(said.clone());
            self.values[first.index()].wanted = wanted.clone();
            return Ok(wanted);
        }
        // Dims may differ in axes of size 1, which shard nothing.
        let differ = |head: &Sharding, said: &Sharding| {
            head.without(units) != said.without(units) || (head.open, head.operator) != (said.open, said.operator)
        };
        match (self.exact(first).cloned(), said) {
            (Some(head), Some(said)) if differ(&head, &said) => {
                let (has, ends) = (self.show_as(first, name), self.show_as(end, name));
                let (at, from) = (self.place(end), self.place(first));
                let help = format!("write `{ends} -> {has}` as the last line of the body");
                Err(CheckError::RepeatLayout { name: name.to_owned(), has, ends, at, from, help }.into())
            }
            (Some(head), _) => {
                self.values[entry.index()].wanted = Wanted::Exact(head.clone());
                Ok(Wanted::Exact(head))
            }
            (None, Some(said)) => {
                // What an earlier repeat hands on keeps the layout of its head.
                let is_handed_on =
                    self.repeats.iter().flat_map(|repeat| &repeat.carried).any(|carried| carried.last == entry);
                let before = &mut self.values[entry.index()].wanted;
                if !is_handed_on && before.allows(&said) {
                    *before = Wanted::Exact(said.clone());
                }
                let wanted = Wanted::Exact(said);
                self.values[first.index()].wanted = wanted.clone();
                Ok(wanted)
            }
            (None, None) => Ok(Wanted::Free),
        }
    }

    /// A sharding of `end` with its dims in the order of those of `first`.
    fn in_order_of(&self, first: ValueId, end: ValueId, sharding: &Sharding) -> Sharding {
        let dims = &self.value(end).dims;
        let place = |dim| dims.iter().position(|own| own == dim);
        let axes = self.value(first).dims.iter().filter_map(place).map(|place| sharding.dims[place]).collect();
        Sharding { dims: axes, ..sharding.clone() }
    }

    /// Removes the body's own names, which are unknown after it and not outputs of the program.
    fn forget_locals(&mut self, outside: &BTreeSet<String>) {
        let locals: Vec<String> = self.scope.keys().filter(|name| !outside.contains(*name)).cloned().collect();
        for name in locals {
            let place = self.scope[&name];
            // A reported name stays known, so it is reported once.
            if self.bindings[place].value.is_some() {
                (self.bindings[place].shadowed, self.bindings[place].local) = (true, true);
                self.scope.remove(&name);
            }
        }
    }
}

/// An assigned name.
struct Assigned<'a> {
    name: &'a str,
    /// Whether the last assignment writes its layout.
    is_laid_out: bool,
}

/// The names that statements assign, each once.
fn assigned<'a>(body: &'a [Statement], names: &mut Vec<Assigned<'a>>) {
    for statement in body {
        if let StatementKind::Assign { target, .. } = &statement.kind
            && let Some(name) = target.name.as_ref().map(|name| name.node.as_str())
        {
            let is_laid_out = target.brackets.is_some();
            match names.iter_mut().find(|known| known.name == name) {
                Some(known) => known.is_laid_out = is_laid_out,
                None => names.push(Assigned { name, is_laid_out }),
            }
        }
        assigned(statement.kind.body(), names);
    }
}

#[cfg(test)]
mod tests {
    use crate::diag::Severity;
    use crate::program::testing::{check_text, codes};

    const GROUND: &str = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {B: 16, D: 32, F: 64, L: 3}\nx: bf16[B_X, D]\n";

    #[test]
    fn names_are_carried_or_local() {
        let body = "repeat L {\nW: bf16[D, F]\nh = relu(x * W)\nx[B_X, D] = h * V[F, D]\n}\noutput x";
        let (program, diagnostics) = check_text(&format!("{GROUND}{body}"));
        let program = program.unwrap_or_else(|| panic!("{diagnostics:?}"));
        let repeat = &program.repeats[0];
        assert_eq!((repeat.times, repeat.carried.len()), (3, 1));
        assert_eq!(program.outputs, [repeat.carried[0].last]);
    }

    #[test]
    fn what_a_body_may_not_do() {
        for (body, code) in [
            ("repeat 2 { x[B, D_X] = relu(x) }\noutput x", "repeat-layout"),
            ("repeat 2 { h = relu(x)\n x = h + x }\ny = relu(h)", "unknown-array"),
            ("repeat 0 { x = relu(x) }\noutput x", "size-zero"),
            ("repeat Q { x = relu(x) }\noutput x", "unknown-dim"),
            ("repeat 2 { repeat 2 { x = relu(x)\n output x } }\noutput x", "not-in-repeat"),
            ("repeat 2 { repeat 0 { x = relu(x) } }\noutput x", "size-zero"),
            ("repeat 2 { repeat 9 { h = relu(x) }\n x = h }\noutput x", "unknown-array"),
            ("repeat 2 { repeat 9 { x = relu(z) } }\noutput x", "unknown-array"),
            ("repeat 2 { repeat 3 { x[B, D_X] = relu(x) } }\noutput x", "repeat-layout"),
            ("repeat 2 { repeat 1000000000 { repeat 1000000000 { } } }\noutput x", "repeat-too-long"),
            ("repeat 2 { repeat 600 { h = relu(x)\n x = h } }\noutput x", "repeat-too-long"),
            ("repeat 2 { x = relu(x)\n output x }\noutput x", "not-in-repeat"),
            ("repeat 2 { x[D, B] = q }\noutput x", "unknown-array"),
            ("repeat 2 { x[B] = A[B] }\noutput x", "rebind-mismatch"),
        ] {
            let (_, diagnostics) = check_text(&format!("{GROUND}{body}"));
            assert_eq!(codes(&diagnostics, Severity::Error), [code], "{body}: {diagnostics:?}");
        }
    }

    #[test]
    fn layouts_may_differ_in_axes_of_size_1() {
        let ground = GROUND.replace("Y: 2", "Y: 1");
        for (end, errors) in [("x[B_XY, D]", &[][..]), ("x[B_X, D_Y]", &[]), ("x[B_Y, D]", &["repeat-layout"])] {
            let source = format!("{ground}repeat 2 {{ {end} = relu(x) }}\noutput x");
            assert_eq!(codes(&check_text(&source).1, Severity::Error), errors, "{source}");
        }
    }

    /// A name that the body assigns before it reads it may come in another layout.
    #[test]
    fn what_is_not_read_comes_in_any_layout() {
        for (body, errors) in [
            ("x[B, D_X] = relu(y)", &[][..]),
            ("x[B, D_X] = relu(y)\nz = relu(x)", &[]),
            ("z = relu(x)\nx[B, D_X] = relu(y)", &["repeat-layout"]),
            ("x[B, D_X] = relu(y)\nx[B, D_X] = relu(x)", &[]),
        ] {
            let source = format!("{GROUND}y: bf16[B, D_X]\nrepeat 2 {{\n{body}\n}}\noutput x");
            let (program, diagnostics) = check_text(&source);
            assert_eq!(codes(&diagnostics, Severity::Error), errors, "{body}: {diagnostics:?}");
            let carried = program.map(|program| (program.repeats[0].carried[0], program));
            let Some((carried, program)) = carried else { continue };
            let [entry, first] = [carried.entry, carried.first].map(|id| &program.value(id).wanted);
            assert_ne!(entry, first, "{source}");
        }
    }

    /// The help of a layout that differs at the end is a line that fixes the program.
    #[test]
    fn the_help_makes_it_right() {
        let text = |line: &str| format!("{GROUND}repeat 2 {{\nx[B, D_X] = relu(x)\n{line}\n}}\noutput x");
        let (_, diagnostics) = check_text(&text(""));
        let help = diagnostics.iter().find_map(|found| found.help.clone()).expect("a help");
        let line = help.split('`').nth(1).expect("a line to write");
        assert!(check_text(&text(line)).0.is_some(), "{line}");
    }
}
