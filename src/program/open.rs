//! The algebra of open sums: which operations are valid on unreduced parts.
//!
//! Only written layouts are checked. The planner reduces a free intermediate where needed.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::infer::one_step;
use super::pad::least_common_multiple;
use super::{Definition, Value, ValueId, Wanted};
use crate::diag::{Edit, Fix};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function};
use crate::layout::{Dim, DimId, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::operator::Operator;
use crate::passes;
use crate::span::Span;
use std::collections::BTreeMap;

impl Checker {
    /// The written open sum of a value. Along axes of one device there is nothing to combine, but a square to be taken.
    fn open(&self, id: ValueId) -> (AxisSet, Operator) {
        let Some(Sharding { open, operator, .. }) = self.exact(id) else { return (AxisSet::NONE, Operator::Sum) };
        let combines = |axis: &AxisId| *operator == Operator::SquareAdd || self.mesh.size(*axis) > 1;
        (open.iter().filter(combines).collect(), *operator)
    }

    fn misuse(&self, id: ValueId, reason: String) -> Failure {
        self.misuse_beside(id, None, reason)
    }

    /// The written open sum of a value, where a closed partner could be opened as well.
    fn misuse_beside(&self, id: ValueId, partner: Option<ValueId>, reason: String) -> Failure {
        let (value, sharding) = (self.value(id), self.exact(id).cloned().unwrap_or_default());
        let (axes, has) = (sharding.open.names(&self.mesh), self.show(id));
        let group = sharding.open.group_size(&self.mesh);
        let fits = |(dim, axes): &(&Dim, &Axes)| self.padded(dim).is_multiple_of(axes.group_size(&self.mesh) * group);
        let scatter = value.dims.iter().zip(&sharding.dims).find(fits).map(|(dim, _)| self.dims.name(dim.id));
        let closed = Value { wanted: Wanted::Exact(sharding.closed()), ..value.clone() };
        let closed = closed.brackets(&self.mesh, &self.dims);
        let name = value.name.as_deref().unwrap_or_default();
        let all = format!("close it first: `AllReduce_{axes}({has}) -> {name}{closed}`");
        let help = match scatter {
            Some(dim) => {
                let run = axes.trim_matches(['{', '}']);
                format!("{all}, or `ReduceScatter_{{{run},{dim}}}({has})` for a shard")
            }
            None => all,
        };
        let opened = partner.map(|partner| {
            Fix::new(Edit::Replace(self.use_place(partner)), format!("open_{axes}({})", self.show(partner)))
        });
        let fixes = opened.into_iter().chain(self.closing(id)).collect();
        let (label, at) = match partner {
            Some(partner) => ("not open", self.use_place(partner)),
            None => ("used here", self.use_place(id)),
        };
        CheckError::OpenSumMisuse { fixes, axes, reason, label, at, from: self.place(id), help }.into()
    }

    /// Lines before a use that reduce its sum, or the reduction in the use itself.
    fn closing(&self, id: ValueId) -> Vec<Fix> {
        let value = self.value(id);
        let Some(from) = self.exact(id) else { return Vec::new() };
        let (name, has) = (value.name.as_deref().unwrap_or_default(), self.show(id));
        let mut after = vec![from.clone().closed()];
        after.extend((0..from.dims.len()).map(|dim| {
            let mut to = from.clone().closed();
            to.dims[dim] = to.dims[dim].then(from.open.in_order());
            to
        }));
        let dim_name = |dim: usize| self.dims.name(value.dims[dim].id);
        let dims: Vec<Dim> = value.dims.iter().map(|dim| Dim { size: self.padded(dim), ..*dim }).collect();
        let steps = after.iter().filter(|to| to.divides(&dims, &self.mesh)).filter_map(|to| {
            let step = one_step(from, to, &self.mesh)?.name(from, &self.mesh, dim_name);
            let closed = Value { wanted: Wanted::Exact(to.clone()), ..value.clone() };
            Some((format!("{step}({has})"), closed.brackets(&self.mesh, &self.dims)))
        });
        let steps: Vec<(String, String)> = steps.collect();
        let before = steps.iter().filter(|_| !name.is_empty());
        let before = before.map(|(step, to)| Fix::new(Edit::Before, format!("{step} -> {name}{to}")));
        let edit = Edit::Replace(self.use_place(id));
        before.chain(steps.iter().map(|(step, _)| Fix::new(edit, step.clone()))).collect()
    }

    /// Whether a function of this result dtype applies to operands as written.
    pub(super) fn check_map_open(&self, function: Function, operands: &[ValueId], dtype: DType) -> Checked<()> {
        let Some((first, operator)) = self.one_operator(operands)? else { return Ok(()) };
        let Some(passage) = passes::map(function, operator, &self.dtypes(operands), dtype) else {
            let widens = passes::map(function, operator, &vec![dtype; operands.len()], dtype).is_some();
            let is_wrapped = |id: &&ValueId| !self.value(**id).dtype.is_float() && self.value(**id).dtype != dtype;
            return Err(match operands.iter().find(is_wrapped).filter(|_| widens) {
                Some(id) => self.misuse(*id, "integers wrap in partial sums but not in the wider result".to_owned()),
                None => self.misuse(first, why_not(function, operator)),
            });
        };
        for axis in self.mesh.axis_ids().map(AxisSet::one) {
            let written = |place: &usize| !self.open(operands[*place]).0.intersection(axis).is_empty();
            let open: Vec<usize> = (0..operands.len()).filter(written).collect();
            let fits = |choice: &&[usize]| {
                open.iter().all(|place| choice.contains(place))
                    && choice.iter().all(|place| self.can_open(operands[*place], axis, operator))
            };
            if let (Some(place), false) = (open.first(), passage.operands.iter().any(fits)) {
                let summed =
                    matches!(function, Function::Binary(Binary::Add | Binary::Sub)) && operator == Operator::Sum;
                let whole = |id: &&ValueId| self.exact(**id).is_some_and(|has| has.open.is_empty());
                let partner = operands.iter().find(whole).copied().filter(|_| summed);
                if let (true, [left, right]) = (summed && partner.is_none(), operands)
                    && let Some(failure) = self.open_apart(*left, *right, operands[*place])
                {
                    return Err(failure);
                }
                let reason = match (function, open.as_slice()) {
                    (Function::Binary(Binary::Mul), [_, _, ..]) if operator == Operator::Sum => format!(
                        "both factors are open over `{}`, and (a + b) .* (c + d) is not a .* c + b .* d",
                        axis.names(&self.mesh)
                    ),
                    _ => self.partner_is_whole(function, axis, partner),
                };
                return Err(self.misuse_beside(operands[*place], partner, reason));
            }
        }
        // Each device has a share of a mean, and shares of different sizes do not add up.
        let axes =
            |id: ValueId| -> AxisSet { self.open(id).0.iter().filter(|axis| self.mesh.size(*axis) > 1).collect() };
        let other = operands.iter().find(|id| !axes(**id).is_empty() && axes(**id) != axes(first));
        match other.filter(|_| operator == Operator::Mean && !axes(first).is_empty()) {
            Some(other) => {
                let [own, others] = [first, *other].map(|id| axes(id).names(&self.mesh).to_string());
                Err(self.misuse(first, format!("it is a mean over `{own}`, the other operand one over `{others}`")))
            }
            None => Ok(()),
        }
    }

    /// Fixes for a sum of two values open over different axes: each opened over the other's axes.
    fn open_apart(&self, left: ValueId, right: ValueId, at: ValueId) -> Option<Failure> {
        let axes = |id| self.exact(id).filter(|has| !has.open.is_empty()).map(|has| has.open);
        let (of_left, of_right) = (axes(left)?, axes(right)?);
        let opened = |id, axes: AxisSet| format!("`open_{}({})`", axes.names(&self.mesh), self.show(id));
        let (to_left, to_right) = (of_right.without(of_left), of_left.without(of_right));
        let fixes: Vec<String> = [(left, to_left), (right, to_right)]
            .into_iter()
            .filter(|(_, axes)| !axes.is_empty())
            .map(|(id, axes)| opened(id, axes))
            .collect();
        let spent = |id: ValueId, more: AxisSet| {
            self.exact(id).is_some_and(|has| !has.dim_axes().intersection(more).is_empty())
        };
        if fixes.is_empty() || spent(left, to_left) || spent(right, to_right) {
            return None;
        }
        let (axes, from) = (axes(at)?, self.place(at));
        let partner = if at == left { of_right } else { of_left };
        let reason = format!("the other operand is open over `{}`", partner.names(&self.mesh));
        let help = format!("open both over the same axes, {}, or close both first", fixes.join(" and "));
        let axes = axes.names(&self.mesh);
        let (label, at) = ("used here", self.use_place(at));
        Some(CheckError::OpenSumMisuse { fixes: Vec::new(), axes, reason, label, at, from, help }.into())
    }

    /// Why operands with different open sums do not combine.
    fn partner_is_whole(&self, function: Function, axis: AxisSet, partner: Option<ValueId>) -> String {
        if function == Function::Binary(Binary::Div) {
            return "c / (a + b) is not c / a + c / b".to_owned();
        }
        let verb = match function {
            Function::Binary(Binary::Sub) => "subtracted",
            _ => "added",
        };
        let (name, size) = (axis.names(&self.mesh), axis.group_size(&self.mesh));
        let other = partner.and_then(|partner| self.value(partner).name.as_ref());
        let other = other.map_or_else(|| "the other operand".to_owned(), |other| format!("`{other}`"));
        format!("{other} is not open over `{name}` and would be {verb} {size} times, once per device")
    }

    /// The first operand written open, with its operator; all open operands have the same.
    fn one_operator(&self, operands: &[ValueId]) -> Checked<Option<(ValueId, Operator)>> {
        let mut open = operands.iter().copied().filter(|id| !self.open(*id).0.is_empty());
        let Some(first) = open.next() else { return Ok(None) };
        let operator = self.open(first).1;
        let sum = |id: ValueId| {
            let (axes, operator) = self.open(id);
            (operator, axes)
        };
        if let [one] =
            Operator::of_sums(operands.iter().map(|id| sum(*id)).filter(|(_, axes)| !axes.is_empty()), &self.mesh)[..]
        {
            return Ok(Some((first, one)));
        }
        let other = open.find(|id| Operator::of_sums([sum(first), sum(*id)], &self.mesh).len() > 1).unwrap_or(first);
        let reason = match self.open(other).1 {
            Operator::Root(_) if operator.is_root() => "the operands are on different devices".to_owned(),
            other => format!("one operand is an open {operator}, the other an open {other}"),
        };
        Err(self.misuse(other, reason))
    }

    fn dtypes(&self, operands: &[ValueId]) -> Vec<DType> {
        operands.iter().map(|id| self.value(*id).dtype).collect()
    }

    /// Factors are open over different axes, or over the same ones if the open sums are products.
    pub(super) fn check_product_open(&self, factors: &[ValueId], contracts: bool) -> Checked<()> {
        let Some((first, operator)) = self.one_operator(factors)? else { return Ok(()) };
        // Of more than two factors the intermediate types follow from the same rules.
        let dtypes = self.dtypes(factors);
        let product = dtypes[1..].iter().try_fold(dtypes[0], |left, right| left.product(*right));
        let product = product.unwrap_or(dtypes[0]);
        let passage = |id: ValueId| passes::product(operator, [self.value(id).dtype; 2], product, contracts);
        // Products that are open have to be open in all factors, sums in one of them.
        let has_to_be_open = |id: &ValueId| operator == Operator::Mul || !self.open(*id).0.is_empty();
        let refused = factors.iter().copied().filter(has_to_be_open).find(|id| passage(*id).is_none());
        let Some(passage) = refused.map_or_else(|| passage(first), |_| None) else {
            let reason = match operator {
                Operator::Sum => "small integers wrap in partial sums but not in the wider product".to_owned(),
                Operator::Mul if contracts => "a * b + c * d is not (a + c) * (b + d)".to_owned(),
                _ => format!("a product does not distribute over an open {operator}"),
            };
            let open = refused.filter(|id| !self.open(*id).0.is_empty()).unwrap_or(first);
            return Err(self.misuse(open, reason));
        };
        if passage.operands.iter().any(|choice| choice.len() == 1)
            && passage.operands.iter().any(|choice| choice.len() > 1)
        {
            // Whatever is open, alone or together.
            return Ok(());
        }
        let together = passage.operands.iter().any(|choice| choice.len() > 1);
        let mut spent = AxisSet::NONE;
        for id in factors {
            let open = self.open(*id).0;
            if together {
                let other = self.open(first).0;
                if !self.can_open(*id, other, operator) || !open.is_subset(other) {
                    let reason =
                        "(a * b) * c is not (a * c) * (b * c): all factors must be open over the same axes".to_owned();
                    return Err(self.misuse(first, reason));
                }
            } else if let Some(axis) = open.intersection(spent).iter().next() {
                let name = &self.mesh.axis(axis).name;
                let reason = format!("two factors are open over `{name}`, and (a + b) * (c + d) is not a * c + b * d");
                return Err(self.misuse(*id, reason));
            }
            spent = spent.union(open);
        }
        Ok(())
    }

    /// A declared kernel accepts no open sums.
    pub(super) fn check_closed(&self, operands: &[ValueId], kernel: &str) -> Checked<()> {
        match operands.iter().find(|id| !self.open(**id).0.is_empty()) {
            Some(id) => Err(self.misuse(*id, format!("{kernel}(a + b) may differ from {kernel}(a) + {kernel}(b)"))),
            None => Ok(()),
        }
    }

    /// A reduction over dims accepts open sums of its own operator only.
    pub(super) fn check_reduce_open(&self, reduction: Operator, id: ValueId, dtype: DType) -> Checked<()> {
        let (open, operator) = self.open(id);
        if open.is_empty() || passes::reduce(reduction, operator, self.value(id).dtype, dtype).is_some() {
            return Ok(());
        }
        let reason = if reduction == operator {
            format!(
                "partial results are {} and wrap, but the {reduction} is {dtype} and does not",
                self.value(id).dtype
            )
        } else {
            format!("the {reduction} of an open {operator} is not the {operator} of the {reduction}s")
        };
        Err(self.misuse(id, reason))
    }

    /// Whether a value can have this open sum: written, or left by a product and the linear operations after it.
    pub(super) fn can_open(&self, id: ValueId, axes: AxisSet, operator: Operator) -> bool {
        axes.is_subset(self.known_sums(id, operator))
    }

    /// The axes over which a value is open, or can be.
    fn known_sums(&self, id: ValueId, operator: Operator) -> AxisSet {
        match self.exact(id) {
            Some(has) => operator.common(has.operator, has.open, &self.mesh),
            None => {
                let value = self.value(id);
                let spent = (0..value.dims.len()).filter_map(|dim| value.wanted.axes(dim)).map(Axes::set);
                let sums = self.sums[id.index()].iter().map(|(own, axes)| operator.common(*own, *axes, &self.mesh));
                spent.fold(sums.fold(AxisSet::NONE, AxisSet::union), AxisSet::without)
            }
        }
    }

    /// The axes over which a value of free layout can be open, by operator: axes that can split a contracted dim, and axes
    /// passed on by operands.
    pub(super) fn possible_sums(&self, value: &Value) -> BTreeMap<Operator, AxisSet> {
        let of = |id: &ValueId| match self.exact(*id) {
            Some(has) => vec![(has.operator, has.open)],
            None => self.sums[id.index()].iter().map(|(operator, axes)| (*operator, *axes)).collect(),
        };
        let passed = value.definition.operands().iter().flat_map(of);
        // Operands without open sums may leave one, too.
        let made = Operator::ALL.into_iter().filter(|operator| !operator.is_root());
        let operators = Operator::of_sums(passed.chain(made.map(|operator| (operator, AxisSet::NONE))), &self.mesh);
        let sums = operators.into_iter().flat_map(|operator| self.passed_sums(value, operator));
        let mut possible: BTreeMap<Operator, AxisSet> = BTreeMap::new();
        for (operator, axes) in sums.filter(|(_, axes)| !axes.is_empty()) {
            let known = possible.entry(operator).or_default();
            *known = known.union(axes);
        }
        possible
    }

    /// The open sum of a result, from the operands' open sums and from splitting contracted dims.
    fn passed_sums(&self, value: &Value, operator: Operator) -> Option<(Operator, AxisSet)> {
        let operands = value.definition.operands();
        let dims = operands.iter().flat_map(|id| &self.value(*id).dims);
        let may_split = |dim: &&Dim| match &value.definition {
            Definition::Kernel { kernel, operands } => {
                let place = |id: &ValueId| self.value(*id).dims.iter().position(|own| own == *dim);
                let mut indices = operands.iter().zip(&kernel.einsum.operands);
                indices.any(|(id, own)| place(id).is_some_and(|place| kernel.sharded[usize::from(own[place])]))
            }
            _ => true,
        };
        let gone: Vec<&Dim> = dims.filter(|dim| !value.dims.contains(dim)).filter(may_split).collect();
        let cuts = |axis: &AxisId| gone.iter().any(|dim| self.padded(dim).is_multiple_of(self.mesh.size(*axis)));
        let made = |own: Operator| -> AxisSet {
            if own == operator { self.mesh.axis_ids().filter(cuts).collect() } else { AxisSet::NONE }
        };
        let from = self.dtypes(operands);
        let (passage, made) = match &value.definition {
            Definition::Product { operands, .. } => {
                let from = operands.map(|id| self.value(id).dtype);
                (passes::product(operator, from, value.dtype, !gone.is_empty()), made(Operator::Sum))
            }
            Definition::Reduce { operator: own, .. } => {
                (passes::reduce(*own, operator, from[0], value.dtype), made(*own))
            }
            Definition::Map { function, .. } => (passes::map(*function, operator, &from, value.dtype), AxisSet::NONE),
            Definition::Kernel { .. } => (None, made(Operator::Sum)),
            Definition::Rename { operand } | Definition::Move { operand, .. } => {
                return Some((operator, self.known_sums(*operand, operator)));
            }
            Definition::Input { .. } | Definition::Collective { .. } => return None,
        };
        let Some(passage) = passage else { return Some((operator, made)) };
        let known = |place: &usize| self.known_sums(operands[*place], operator);
        let choice = |choice: &&[usize]| choice.iter().map(known).reduce(AxisSet::intersection).unwrap_or_default();
        Some((passage.result, passage.operands.iter().map(choice).fold(made, AxisSet::union)))
    }

    /// The size of a dim, padded for the layouts so far.
    fn padded(&self, dim: &Dim) -> u64 {
        let split = self.splits.get(&dim.id).copied().unwrap_or(1);
        dim.size.checked_next_multiple_of(split).unwrap_or(dim.size)
    }

    /// Pads two dims alike; one is a rename of the other.
    pub(super) fn share_splits(&mut self, one: DimId, other: DimId) {
        let of = |dim| self.splits.get(&dim).copied().unwrap_or(1);
        let both = least_common_multiple(of(one), of(other));
        self.splits.extend([(one, both), (other, both)]);
    }

    /// Checks that a value has or can have the requested open sum.
    pub(super) fn check_open(&self, id: ValueId, asked: &Sharding, at: Span) -> Checked<()> {
        let one = |axis| !self.can_open(id, AxisSet::one(axis), asked.operator);
        // Once a part of the axes is reduced, what is left may have another operator.
        let left = self.exact(id).filter(|has| asked.open != has.open && asked.open.is_subset(has.open));
        let invented: AxisSet = match left {
            Some(has) if has.operator.after_part().within(asked.open, &self.mesh) == asked.operator => AxisSet::NONE,
            Some(_) => asked.open,
            None => asked.open.iter().filter(|axis| one(*axis)).collect(),
        };
        // On one device there is nothing to add, but a square root to be taken.
        let is_whole = |axis: &AxisId| asked.operator != Operator::SquareAdd && self.mesh.size(*axis) == 1;
        let invented: AxisSet = invented.iter().filter(|axis| !is_whole(axis)).collect();
        if invented.is_empty() {
            return Ok(());
        }
        let axes = invented.names(&self.mesh);
        let help = match self.exact(id) {
            Some(_) => format!("its layout is `{}`", self.show(id)),
            None if asked.operator.is_root() => {
                "only inputs and arrays computed from them can be on one device only; remove the braces".to_owned()
            }
            None => "only a product with a sharded contracted dim leaves a sum open; remove the braces".to_owned(),
        };
        Err(CheckError::OpenSumInvented { axes, at, from: self.value(id).span, help }.into())
    }
}

/// Why a function does not apply to unreduced parts.
fn why_not(function: Function, operator: Operator) -> String {
    if operator != Operator::Sum {
        return format!("`{}` does not distribute over an open {operator}", function.word());
    }
    match function {
        Function::Binary(Binary::Larger) | Function::ByNumber(ByNumber::AtLeast, _) => {
            "max(a + b, c) is not max(a, c) + max(b, c)".to_owned()
        }
        Function::Binary(Binary::Smaller) | Function::ByNumber(ByNumber::AtMost, _) => {
            "min(a + b, c) is not min(a, c) + min(b, c)".to_owned()
        }
        Function::ByNumber(ByNumber::Shift, _) | Function::Masked(_) => {
            "the number would be added once per device".to_owned()
        }
        Function::Softmax { .. } => "softmax(a + b) is not softmax(a) + softmax(b)".to_owned(),
        Function::Cast(dtype) => {
            format!("{dtype}(a + b) is not {dtype}(a) + {dtype}(b), because each partial sum would be rounded")
        }
        function => format!("{function}(a + b) != {function}(a) + {function}(b)"),
    }
}
