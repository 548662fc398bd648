//! Sizes that do not divide: padded once for the whole program, with fillers where padding would be read.
//!
//! ```text
//! before  dims {J: 6}, X of 4:  E = exp(A[I, J_X])   C[I, K] = E * B[J, K]
//! after   dims {J: 8}:          E = exp(A[I, J_X])   F = fill(J from 6 on, zero) E   C[I, K] = F * B[J, K]
//! ```
//!
//! Inputs are padded with 0. For every value the checker tracks the dims whose padding may be non-zero, so a product of
//! inputs, or of values that keep 0, needs no filler. Sums, other reductions and softmax read their dim's padding; other
//! operations keep lanes apart. The first value of a repeat's iteration may have non-zero padding if the previous
//! iteration may hand it on. Values outside the padding are assumed finite.

use super::checker::{Checker, quoted};
use super::error::CheckError;
use super::iota::PREFIX;
use super::{Carried, Definition, Program, Using, Value, ValueId, Wanted};
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::function::{Filler, Function, Relation, Scalar};
use crate::kernel::Kernel;
use crate::layout::{Dim, DimId, Sharding};
use crate::mesh::Mesh;
use crate::shift::Shift;
use crate::span::Span;
use crate::supply::Supply;
use crate::units::gcd;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Pads the dims of a program so that all written layouts divide; `places` are those of the values' layouts.
pub(super) fn pad(program: Program, places: &[Span], diagnostics: &mut Diagnostics) -> Program {
    let padded = padded_sizes(&program);
    if padded.is_empty() {
        return program;
    }
    if let Some(error) = read_by_kernel(&program, &padded) {
        diagnostics.push(&error);
        return program;
    }
    for (dim, size) in &padded {
        let (logical, place) = (program.dims.size(*dim), place(&program, *dim, places));
        // In tenths of a percent, rounded down.
        let waste = u128::from(size - logical) * 1000 / u128::from(*size);
        let waste = format!("{}.{}", waste / 10, waste % 10);
        let split = split_of(&program, *dim);
        let even = match size - split {
            0 => format!("size {size} needs"),
            lower => format!("sizes {lower} and {size} need"),
        };
        let dim = program.dims.name(*dim);
        diagnostics.push(&CheckError::Padded { dim, size: logical, split, padded: *size, even, waste, at: place });
    }
    let too_large = |value: &&Value| {
        let dims = value.dims.iter().map(|dim| padded.get(&dim.id).copied().unwrap_or(dim.size));
        dims.into_iter().try_fold(1u64, u64::checked_mul).is_none_or(|elements| elements >= Checker::ELEMENTS)
    };
    if let Some(value) = program.values.iter().find(too_large) {
        let array = quoted(value.name.as_deref().unwrap_or_default());
        let elements = "2^60 or more padded".to_owned();
        diagnostics.push(&CheckError::ArrayTooLarge { array, elements, at: value.span });
        return program;
    }
    Padder::new(program, padded).run()
}

/// A kernel that would read padding: of a dim that it needs whole or sums over.
fn read_by_kernel(program: &Program, padded: &BTreeMap<DimId, u64>) -> Option<CheckError> {
    (0..program.values.len()).find_map(|index| {
        let Definition::Kernel { kernel, .. } = &program.values[index].definition else { return None };
        let is_kept =
            |index: usize| kernel.sharded[index] && kernel.einsum.result.iter().any(|kept| usize::from(*kept) == index);
        let mut read = kernel_dims(program, index).into_iter().enumerate().filter(|(index, _)| !is_kept(*index));
        let (_, dim) = read.find(|(_, dim)| padded.contains_key(dim))?;
        let (name, padded) = (kernel.name.clone(), padded[&dim]);
        let (size, dim) = (program.dims.size(dim), program.dims.name(dim));
        Some(CheckError::KernelPadded { name, dim, size, padded, at: program.values[index].span })
    })
}

/// The dim of each index of a kernel.
fn kernel_dims(program: &Program, index: usize) -> Vec<DimId> {
    let value = &program.values[index];
    let of_operands = value.definition.operands().iter().flat_map(|id| &program.value(*id).dims);
    let all = of_operands.chain(&value.dims).map(|dim| dim.id);
    all.fold(Vec::new(), |mut seen, dim| {
        if !seen.contains(&dim) {
            seen.push(dim);
        }
        seen
    })
}

/// The new sizes of padded dims.
fn padded_sizes(program: &Program) -> BTreeMap<DimId, u64> {
    let mut splits: BTreeMap<DimId, u64> = BTreeMap::new();
    for value in &program.values {
        for (dim, group) in written(value, &program.mesh) {
            let split = splits.entry(dim.id).or_insert(1);
            *split = least_common_multiple(*split, group);
        }
    }
    // Dims that are renamed to each other are padded alike.
    while share_splits(program, &mut splits) {}
    let grown = splits.into_iter().filter_map(|(dim, split)| {
        let size = program.dims.size(dim);
        // Beyond 64 bits it is too large in any case.
        let padded = size.checked_next_multiple_of(split).unwrap_or(u64::MAX);
        (padded != size).then_some((dim, padded))
    });
    grown.collect()
}

/// The dims of a value and the shard count of each in its layout.
fn written<'a>(value: &'a Value, mesh: &'a Mesh) -> impl Iterator<Item = (Dim, u64)> + 'a {
    let dims = value.dims.iter().copied().enumerate();
    dims.filter_map(|(place, dim)| Some((dim, value.wanted.axes(place)?.group_size(mesh))))
}

/// Propagates splits across renames, both ways; whether anything changed.
fn share_splits(program: &Program, splits: &mut BTreeMap<DimId, u64>) -> bool {
    let mut changed = false;
    for value in program.values.iter().chain(program.values.iter().rev()) {
        let Definition::Rename { operand } = value.definition else { continue };
        for (new, old) in value.dims.iter().zip(&program.value(operand).dims) {
            let of = |dim: &Dim| splits.get(&dim.id).copied().unwrap_or(1);
            let both = least_common_multiple(of(new), of(old));
            for dim in [new, old] {
                changed |= splits.insert(dim.id, both).unwrap_or(1) != both;
            }
        }
    }
    changed
}

/// Least common multiple of shard counts; all divide the number of devices, and so does the result.
pub(super) fn least_common_multiple(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}

/// The number of shards that divides the padded size of a dim.
fn split_of(program: &Program, dim: DimId) -> u64 {
    let splits = program.values.iter().flat_map(|value| written(value, &program.mesh));
    splits.filter(|(own, _)| own.id == dim).fold(1, |split, (_, group)| least_common_multiple(split, group))
}

/// The first layout whose shards do not divide the dim.
fn place(program: &Program, dim: DimId, places: &[Span]) -> Span {
    let size = program.dims.size(dim);
    let cuts =
        |value: &Value| written(value, &program.mesh).any(|(own, group)| own.id == dim && !size.is_multiple_of(group));
    let has = |value: &Value| value.dims.iter().any(|own| own.id == dim);
    let found = program.values.iter().position(cuts).or_else(|| program.values.iter().position(has));
    found.and_then(|index| places.get(index)).copied().unwrap_or_default()
}

/// The statement of a value.
#[derive(Clone, Copy)]
struct Statement {
    using: Using,
    span: Span,
    call: Option<Span>,
}

/// A program being padded: values are copied in order, with fillers between.
struct Padder {
    old: Program,
    padded: BTreeMap<DimId, u64>,
    values: Vec<Value>,
    /// The new id of each old value.
    renumbered: Vec<ValueId>,
    /// For each new value the dims with possibly non-zero padding.
    dirty: Vec<BTreeSet<DimId>>,
    fillers: BTreeMap<(ValueId, DimId, &'static str, bool, Using), ValueId>,
    /// The bodies of the repeats so far, in new ids.
    bodies: Vec<Range<usize>>,
    /// For each carried old value the dims with non-zero padding from the previous iteration.
    handed_on: BTreeMap<ValueId, BTreeSet<DimId>>,
}

impl Padder {
    fn new(old: Program, padded: BTreeMap<DimId, u64>) -> Padder {
        let (values, renumbered, dirty, bodies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (fillers, handed_on) = (BTreeMap::new(), BTreeMap::new());
        Padder { old, padded, values, renumbered, dirty, fillers, bodies, handed_on }
    }

    fn run(mut self) -> Program {
        while self.copy() {}
        self.old.with_values(self.values, &self.renumbered, &self.bodies)
    }

    /// Copies all values; true if a repeat hands on padding that its first iteration lacks, so the copy must be repeated.
    fn copy(&mut self) -> bool {
        (self.values, self.renumbered, self.dirty) = (Vec::new(), Vec::new(), Vec::new());
        self.fillers = BTreeMap::new();
        self.bodies = Vec::new();
        for index in 0..self.old.values.len() {
            let start = self.values.len();
            if self.old.repeats.iter().any(|repeat| repeat.body.start == index) {
                self.bodies.push(start..start);
            }
            self.copy_value(index);
            if self.old.repeats.iter().any(|repeat| repeat.body.end == index + 1)
                && let Some(body) = self.bodies.last_mut()
            {
                body.end = self.values.len();
                // What a body makes is not known behind it.
                self.fillers.retain(|_, filler| filler.index() < body.start);
            }
        }
        let mut grown = false;
        for Carried { first, last, .. } in self.old.carried() {
            let begins = &self.dirty[self.renumbered[first.index()].index()];
            let more: Vec<DimId> =
                self.dirty[self.renumbered[last.index()].index()].difference(begins).copied().collect();
            grown |= !more.is_empty();
            self.handed_on.entry(*first).or_default().extend(more);
        }
        grown
    }

    fn copy_value(&mut self, index: usize) {
        let mut value = self.old.values[index].clone();
        for dim in &mut value.dims {
            dim.size = self.padded.get(&dim.id).copied().unwrap_or(dim.size);
        }
        for operand in value.definition.operands_mut() {
            *operand = self.renumbered[operand.index()];
        }
        if let Definition::Kernel { kernel, .. } = &mut value.definition {
            let dims = kernel_dims(&self.old, index);
            let size = |(dim, length): (DimId, u64)| self.padded.get(&dim).copied().unwrap_or(length);
            let lengths = dims.into_iter().zip(kernel.lengths.clone()).map(size).collect();
            *kernel = Arc::new(Kernel { lengths, ..kernel.as_ref().clone() });
        }
        self.unroll(&mut value);
        self.fill_operands(&mut value);
        let mut dirty = self.dirty_dims(&value);
        let old = ValueId(u32::try_from(index).expect("fewer values than bytes of source"));
        dirty.extend(self.handed_on.get(&old).into_iter().flatten());
        let id = self.push(value, dirty);
        self.renumbered.push(id);
    }

    /// A roll of a padded dim as a choice of two shifts: the first rows enter from the other end. A choice passes every
    /// open sum that a roll passes, and a sum of both would not.
    fn unroll(&mut self, value: &mut Value) {
        let Definition::Map { function: Function::Shift(shift), operands } = &value.definition else { return };
        let dim = value.dims[shift.dim()];
        if !shift.wraps || !self.padded.contains_key(&dim.id) {
            return;
        }
        let length = i64::try_from(self.old.dims.size(dim.id)).unwrap_or(i64::MAX);
        let up = shift.by.rem_euclid(length);
        let part = |by| (Function::Shift(Shift { by, wraps: false, ..*shift }), operands.clone());
        let (stays, enters) = (part(up), part(up - length));
        let like = Value { name: None, wanted: Wanted::Free, using: Using::default(), pin: None, ..value.clone() };
        let [stays, enters] = [stays, enters].map(|(function, operands)| {
            self.computed(Value { definition: Definition::Map { function, operands }, ..like.clone() })
        });
        let rows = Value {
            name: Some(format!("{PREFIX}{}", self.old.dims.name(dim.id))),
            dtype: if i32::try_from(dim.size).is_ok() { DType::I32 } else { DType::I64 },
            dims: vec![dim],
            definition: Definition::Input { supply: Supply::Counted },
            wanted: Wanted::Exact(Sharding::replicated(1)),
            ..like.clone()
        };
        let rows = self.computed(rows);
        #[expect(clippy::cast_precision_loss, reason = "arrays have fewer elements than 2^60, and are counted in i32")]
        let first = Function::IsNumber(Relation::Less, Scalar(up as f64));
        let definition = Definition::Map { function: first, operands: vec![rows] };
        let first = self.computed(Value { dtype: DType::Bool, dims: vec![dim], definition, ..like });
        value.definition = Definition::Map { function: Function::Where, operands: vec![first, enters, stays] };
    }

    fn computed(&mut self, mut value: Value) -> ValueId {
        self.fill_operands(&mut value);
        let dirty = self.dirty_dims(&value);
        self.push(value, dirty)
    }

    fn push(&mut self, value: Value, dirty: BTreeSet<DimId>) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a filler for each dim of an operand at most"));
        self.values.push(value);
        self.dirty.push(dirty);
        id
    }

    /// The padded dims of a value.
    fn padded_dims(&self, dims: &[Dim]) -> BTreeSet<DimId> {
        dims.iter().map(|dim| dim.id).filter(|dim| self.padded.contains_key(dim)).collect()
    }

    /// Inserts fillers before operations that read the padding of their operands.
    fn fill_operands(&mut self, value: &mut Value) {
        let (user, dims) = (Statement { using: value.using, span: value.span, call: value.call }, value.dims.clone());
        match &mut value.definition {
            Definition::Product { operands, local } => {
                for operand in operands {
                    let summed = |dim: &DimId| dims.iter().all(|kept| kept.id != *dim);
                    let dirty: Vec<DimId> = self.dirty[operand.index()].iter().copied().filter(summed).collect();
                    for dim in dirty {
                        *operand = self.filled(*operand, dim, Filler::Zero, *local, user);
                    }
                }
            }
            Definition::Reduce { operator, operand } => {
                let with = Filler::neutral(*operator);
                let own = &self.values[operand.index()].dims;
                let gone = own.iter().map(|dim| dim.id).filter(|dim| dims.iter().all(|kept| kept.id != *dim));
                let gone: Vec<DimId> = gone.filter(|dim| self.padded.contains_key(dim)).collect();
                for dim in gone {
                    if with != Filler::Zero || self.dirty[operand.index()].contains(&dim) {
                        *operand = self.filled(*operand, dim, with, false, user);
                    }
                }
            }
            Definition::Map { function: Function::Softmax { dim }, operands } => {
                let dim = dims[usize::from(*dim)].id;
                if self.padded.contains_key(&dim) {
                    operands[0] = self.filled(operands[0], dim, Filler::Least, false, user);
                }
            }
            // Downwards, what follows the last element moves into the array.
            Definition::Map { function: Function::Shift(shift), operands } if shift.by < 0 => {
                let dim = dims[shift.dim()].id;
                if self.padded.contains_key(&dim) && self.dirty[operands[0].index()].contains(&dim) {
                    operands[0] = self.filled(operands[0], dim, Filler::Zero, false, user);
                }
            }
            Definition::Map { .. }
            | Definition::Kernel { .. }
            | Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => {}
        }
    }

    /// The value with filled padding in a dim; in the value's own layout if it has to `stay`.
    ///
    /// - `user`: the statement that reads it; the collectives before the filler are its own.
    fn filled(&mut self, id: ValueId, dim: DimId, with: Filler, stay: bool, user: Statement) -> ValueId {
        let Statement { using, span, call } = user;
        let key = (id, dim, with.word(), stay, using);
        if let Some(known) = self.fillers.get(&key) {
            return *known;
        }
        let of = &self.values[id.index()];
        let place = of.dims.iter().position(|own| own.id == dim).expect("the value has the dim");
        let place = u8::try_from(place).expect("arrays have few dims");
        let function = Function::Fill { dim: place, valid: self.old.dims.size(dim), with };
        let filler = Value {
            name: None,
            dtype: of.dtype,
            dims: of.dims.clone(),
            definition: Definition::Map { function, operands: vec![id] },
            wanted: if stay { of.wanted.clone() } else { Wanted::Free },
            using,
            pin: None,
            span,
            call,
        };
        let dirty = self.dirty_dims(&filler);
        let filler = self.push(filler, dirty);
        self.fillers.insert(key, filler);
        filler
    }

    /// The dims whose padding may be non-zero.
    fn dirty_dims(&self, value: &Value) -> BTreeSet<DimId> {
        let all = self.padded_dims(&value.dims);
        let dirty = |id: &ValueId| &self.dirty[id.index()];
        let clean_in = |id: &ValueId, dim: &DimId| {
            self.values[id.index()].dims.iter().any(|own| own.id == *dim) && !dirty(id).contains(dim)
        };
        match &value.definition {
            Definition::Input { .. } => BTreeSet::new(),
            Definition::Move { operand, .. } | Definition::Collective { operand, .. } => dirty(operand).clone(),
            Definition::Rename { operand } => {
                let old = &self.values[operand.index()].dims;
                let pairs = value.dims.iter().zip(old).filter(|(_, old)| dirty(operand).contains(&old.id));
                pairs.map(|(new, _)| new.id).collect()
            }
            // 0 times what may be infinite is not 0.
            Definition::Product { operands, .. } => {
                all.into_iter().filter(|dim| operands.iter().any(|id| dirty(id).contains(dim))).collect()
            }
            // Of 0 every reduction makes 0.
            Definition::Reduce { operand, .. } => all.into_iter().filter(|dim| dirty(operand).contains(dim)).collect(),
            // It may make anything of 0.
            Definition::Kernel { .. } => all,
            Definition::Map { function, operands } => match function {
                // Of minus infinity a softmax makes 0.
                Function::Softmax { dim } => without(all, value.dims[usize::from(*dim)].id),
                Function::Fill { dim, with: Filler::Zero, .. } => {
                    without(dirty(&operands[0]).clone(), value.dims[usize::from(*dim)].id)
                }
                Function::Fill { with: Filler::One | Filler::Least | Filler::Greatest, .. } => all,
                // Upwards, the last elements move into the padding.
                Function::Shift(shift) => {
                    let along = value.dims[shift.dim()].id;
                    let moved = shift.by > 0 && self.padded.contains_key(&along);
                    all.into_iter().filter(|dim| moved && *dim == along || !clean_in(&operands[0], dim)).collect()
                }
                function if function.facts().keeps_zero => {
                    all.into_iter().filter(|dim| !operands.iter().all(|id| clean_in(id, dim))).collect()
                }
                _ => all,
            },
        }
    }
}

fn without(mut dims: BTreeSet<DimId>, dim: DimId) -> BTreeSet<DimId> {
    dims.remove(&dim);
    dims
}
