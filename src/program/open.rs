//! The algebra of open sums: which operations are right on pieces that are still to be combined.
//!
//! Only written layouts are judged. A free intermediate is closed by the planner where that is needed.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::{Definition, Value, ValueId, Wanted};
use crate::function::Function;
use crate::layout::{Dim, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::operator::Operator;
use crate::span::Span;

impl Checker {
    /// The written open sum of a value.
    fn open(&self, id: ValueId) -> (AxisSet, Operator) {
        self.exact(id).map_or((AxisSet::NONE, Operator::Sum), |sharding| (sharding.open, sharding.operator))
    }

    fn misuse(&self, id: ValueId, reason: String) -> Failure {
        let (value, sharding) = (self.value(id), self.exact(id).cloned().unwrap_or_default());
        let (axes, has) = (sharding.open.names(&self.mesh), self.show(id));
        let group = sharding.open.group_size(&self.mesh);
        let fits = |(dim, axes): &(&Dim, &Axes)| dim.size.is_multiple_of(axes.group_size(&self.mesh) * group);
        let scatter = value.dims.iter().zip(&sharding.dims).find(fits).map(|(dim, _)| self.dims.name(dim.id));
        let closed = Value { wanted: Wanted::Exact(sharding.closed()), ..value.clone() };
        let closed = closed.brackets(&self.mesh, &self.dims);
        let name = value.name.as_deref().unwrap_or_default();
        let all = format!("close it first: `AllReduce_{axes}({has}) -> {name}{closed}`");
        let help = match scatter {
            Some(dim) => {
                let run = axes.trim_matches(['{', '}']);
                format!("{all}, or `ReduceScatter_{{{run},{dim}}}({has})` for a shard of it")
            }
            None => all,
        };
        CheckError::OpenSumMisuse { axes, reason, at: self.use_place(id), from: self.place(id), help }.into()
    }

    /// Nothing but moves and collectives may touch an open maximum or minimum.
    pub(super) fn check_operator_moves(&self, id: ValueId) -> Checked<()> {
        let (open, operator) = self.open(id);
        if open.is_empty() || operator == Operator::Sum {
            return Ok(());
        }
        Err(self.misuse(id, format!("only moves and collectives pass an open {operator}")))
    }

    /// Whether a function may be applied to operands as they are written.
    pub(super) fn check_map_open(&self, function: Function, operands: &[ValueId]) -> Checked<()> {
        for id in operands {
            self.check_operator_moves(*id)?;
        }
        match (function, operands) {
            (Function::Add | Function::Sub, [left, right]) => self.check_added(function, *left, *right),
            (Function::Div, [_, divisor]) if !self.open(*divisor).0.is_empty() => {
                Err(self.misuse(*divisor, "c / (a + b) is not c / a + c / b".to_owned()))
            }
            // A quotient by a closed value is linear in the dividend.
            (Function::Div, _) => Ok(()),
            (function, operands) if !function.is_linear() => {
                match operands.iter().find(|id| !self.open(**id).0.is_empty()) {
                    Some(open) => Err(self.misuse(*open, nonlinear(function))),
                    None => Ok(()),
                }
            }
            (_, _) => Ok(()),
        }
    }

    /// Of a sum both are open over the same axes, or none is.
    fn check_added(&self, function: Function, left: ValueId, right: ValueId) -> Checked<()> {
        for (one, other) in [(left, right), (right, left)] {
            let open = self.open(one).0;
            let whole = open.iter().find(|axis| !self.can_open(other, AxisSet::one(*axis), Operator::Sum));
            if let Some(axis) = whole {
                let verb = if function == Function::Add { "added" } else { "subtracted" };
                let name = &self.mesh.axis(axis).name;
                let reason = format!(
                    "the other operand is whole over `{name}`, and would be {verb} once for each of its {} devices",
                    self.mesh.size(axis)
                );
                return Err(self.misuse(one, reason));
            }
        }
        Ok(())
    }

    /// Factors are open over different axes.
    pub(super) fn check_product_open(&self, factors: &[ValueId]) -> Checked<()> {
        let mut spent = AxisSet::NONE;
        for id in factors {
            self.check_operator_moves(*id)?;
            let open = self.open(*id).0;
            if let Some(axis) = open.intersection(spent).iter().next() {
                let name = &self.mesh.axis(axis).name;
                let reason = format!("two factors are open over `{name}`, and (a + b) * (c + d) is not a * c + b * d");
                return Err(self.misuse(*id, reason));
            }
            spent = spent.union(open);
        }
        Ok(())
    }

    /// Whether the value can have this open sum: written, or left by a product and what is linear after it.
    pub(super) fn can_open(&self, id: ValueId, axes: AxisSet, operator: Operator) -> bool {
        let can = match self.exact(id) {
            Some(has) => has.open,
            None => self.sums[id.index()],
        };
        let own = self.exact(id).map_or(Operator::Sum, |has| has.operator);
        axes.is_subset(can) && own == operator
    }

    /// The axes over which a value of free layout can be an open sum: those that can cut a contracted dim, and what
    /// linear functions pass on.
    pub(super) fn possible_sums(&self, value: &Value) -> AxisSet {
        let known = |id: &ValueId| self.exact(*id).map_or(self.sums[id.index()], |sharding| sharding.open);
        match &value.definition {
            Definition::Product { operands, .. } => {
                let dims = operands.iter().flat_map(|id| &self.value(*id).dims);
                let contracted: Vec<&Dim> = dims.filter(|dim| !value.dims.contains(dim)).collect();
                let cuts =
                    |axis: &AxisId| contracted.iter().any(|dim| self.padded(dim).is_multiple_of(self.mesh.size(*axis)));
                let made: AxisSet = self.mesh.axis_ids().filter(cuts).collect();
                operands.iter().fold(made, |sums, id| sums.union(known(id)))
            }
            Definition::Map { function, operands } if function.is_linear() => {
                let all: AxisSet = self.mesh.axis_ids().collect();
                operands.iter().fold(all, |sums, id| sums.intersection(known(id)))
            }
            Definition::Rename { operand } | Definition::Move { operand } => known(operand),
            Definition::Map { .. } | Definition::Input | Definition::Collective { .. } => AxisSet::NONE,
        }
    }

    /// The size of a dim, padded for the layouts so far.
    fn padded(&self, dim: &Dim) -> u64 {
        let split = self.splits.get(&dim.id).copied().unwrap_or(1);
        dim.size.checked_next_multiple_of(split).unwrap_or(dim.size)
    }

    /// An open sum that is asked for is one that the value has or can have.
    pub(super) fn check_open(&self, id: ValueId, asked: &Sharding, at: Span) -> Checked<()> {
        let one = |axis| !self.can_open(id, AxisSet::one(axis), asked.operator);
        let invented: AxisSet = asked.open.iter().filter(|axis| one(*axis)).collect();
        if invented.is_empty() {
            return Ok(());
        }
        let axes = invented.names(&self.mesh);
        let help = match self.exact(id) {
            Some(_) => format!("its layout is `{}`", self.show(id)),
            None => "a sum is left open by a product whose contracted dim is sharded; drop the braces".to_owned(),
        };
        Err(CheckError::OpenSumInvented { axes, at, from: self.value(id).span, help }.into())
    }
}

/// Why a function may not be applied to pieces.
fn nonlinear(function: Function) -> String {
    match function {
        Function::Shift(_) => "the number would be added once for each device of the sum".to_owned(),
        Function::Fill { .. } => "a filler would be added once for each device of the sum".to_owned(),
        Function::Softmax { .. } => "softmax(a + b) is not softmax(a) + softmax(b)".to_owned(),
        Function::Cast(dtype) => format!("{dtype}(a + b) is not {dtype}(a) + {dtype}(b): each piece would be rounded"),
        Function::Identity
        | Function::Add
        | Function::Sub
        | Function::Div
        | Function::Neg
        | Function::Scale(_)
        | Function::Relu
        | Function::Gelu
        | Function::Exp
        | Function::Tanh => format!("{function}(a + b) != {function}(a) + {function}(b)"),
    }
}
