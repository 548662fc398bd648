//! The layout of a local product: computed from local shards without communication.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::infer::one_step;
use super::product::Local;
use super::{Definition, Value, ValueId, Wanted};
use crate::diag::{Edit, Fix};
use crate::layout::{Dim, Sharding};
use crate::mesh::{Axes, AxisSet};
use crate::operator::Operator;

impl Checker {
    /// The sharding of a result with these dims.
    ///
    /// # Errors
    /// An operand of free layout; shared dims on different axes; an axis that would be used twice.
    pub(super) fn local_sharding(&self, local: &Local<'_>, dims: &[Dim]) -> Checked<Sharding> {
        for id in local.operands {
            if self.exact(id).is_none() {
                let array = self.show(id);
                let what = "`_LOCAL`".to_owned();
                let help = "write the layout in brackets on the use".to_owned();
                let (at, from) = (self.use_place(id), self.place(id));
                return Err(CheckError::LayoutUnknown { array, what, at, from, help }.into());
            }
        }
        let mut open = AxisSet::NONE;
        let operators = local.operands.iter().filter_map(|id| self.exact(*id).filter(|has| !has.open.is_empty()));
        if let Some(other) = operators.map(|has| has.operator).find(|operator| *operator != Operator::Sum) {
            let why = format!("the product is a sum, but an operand is an open {other}");
            let labels = self.operand_labels(local);
            return Err(self.local_layout(local, why, "close it first".to_owned(), Vec::new(), labels));
        }
        for id in local.operands {
            open = open.union(self.exact(id).map_or(AxisSet::NONE, |sharding| sharding.open));
        }
        let summed_from = open;
        for dim in local.contracted {
            let axes = self.meeting_axes(local, *dim)?;
            open = self.spend(local, open, axes)?;
        }
        let mut spent = open;
        let mut sharding = Sharding { dims: Vec::new(), open, operator: Operator::Sum };
        for dim in dims {
            let axes = self.meeting_axes(local, *dim)?;
            spent = self.spend(local, spent, axes)?;
            sharding.dims.push(axes);
        }
        debug_assert!(summed_from.is_subset(sharding.open), "open operands stay open");
        Ok(sharding)
    }

    /// The axes on a dim, equal in every operand that has it.
    fn meeting_axes(&self, local: &Local<'_>, dim: Dim) -> Checked<Axes> {
        let [left, right] = local.operands;
        match (self.axes_on(left, dim), self.axes_on(right, dim)) {
            (Some(one), Some(other)) if one == other => Ok(one),
            (Some(one), Some(other)) => {
                let name = self.dims.name(dim.id);
                let short = |id: ValueId| self.value(id).name.clone().unwrap_or_else(|| self.show(id));
                let text = |axes: Axes, id: ValueId| match axes.is_empty() {
                    true => format!("not in `{}`", short(id)),
                    false => format!("over `{}` in `{}`", axes.names(&self.mesh), short(id)),
                };
                let [first, second] = match one.is_empty() {
                    true => [text(other, right), text(one, left)],
                    false => [text(one, left), text(other, right)],
                };
                let why = format!("`{name}` is sharded {first} and {second}");
                let help = format!("shard `{name}` alike in both operands, or write `*` and let the compiler reshard");
                let mut fixes = self.sharded_alike(left, dim, other);
                fixes.extend(self.sharded_alike(right, dim, one));
                let labels = [one, other].map(|axes| format!("`{name}{}`", axes.subscript(&self.mesh)));
                Err(self.local_layout(local, why, help, fixes, labels))
            }
            (Some(axes), None) | (None, Some(axes)) => Ok(axes),
            (None, None) => Ok(Axes::NONE),
        }
    }

    fn axes_on(&self, id: ValueId, dim: Dim) -> Option<Axes> {
        let place = self.value(id).dims.iter().position(|own| *own == dim)?;
        self.exact(id).map(|sharding| sharding.dims[place])
    }

    fn spend(&self, local: &Local<'_>, spent: AxisSet, axes: Axes) -> Checked<AxisSet> {
        let Some(axis) = spent.intersection(axes.set()).iter().next() else {
            return Ok(spent.union(axes.set()));
        };
        let name = &self.mesh.axis(axis).name;
        let why = format!("`{name}` would shard two dims of the result");
        let [left, right] = local.operands.map(|id| self.show(id));
        let help = format!("gather one of `{left}` and `{right}` over `{name}` first, or write `*`");
        let labels = self.operand_labels(local);
        Err(self.local_layout(local, why, help, Vec::new(), labels))
    }

    /// The layouts of the operands.
    fn operand_labels(&self, local: &Local<'_>) -> [String; 2] {
        local.operands.map(|id| format!("`{}`", self.show(id)))
    }

    /// - `more`: changes beside those that communicate.
    /// - `labels`: what is wrong with the operands.
    fn local_layout(
        &self,
        local: &Local<'_>,
        why: String,
        help: String,
        more: Vec<Fix>,
        labels: [String; 2],
    ) -> Failure {
        let [left, right] = local.operands.map(|id| self.use_place(id));
        let [left_has, right_has] = labels;
        let mut fixes = more;
        fixes.extend(local.operands.iter().flat_map(|id| self.gathered(*id)));
        fixes.push(Fix::new(Edit::Replace(local.sign), "*".to_owned()));
        CheckError::LocalLayout { fixes, why, at: local.sign, left_has, left, right_has, right, help }.into()
    }

    /// The declaration of an input with these axes on a dim.
    fn sharded_alike(&self, id: ValueId, dim: Dim, axes: Axes) -> Vec<Fix> {
        let value = self.value(id);
        let (Some(from), Some(name), Definition::Input { .. }) = (self.exact(id), &value.name, &value.definition)
        else {
            return Vec::new();
        };
        let Some(place) = value.dims.iter().position(|own| *own == dim) else { return Vec::new() };
        let mut to = from.clone();
        to.dims[place] = axes;
        let to = Value { wanted: Wanted::Exact(to), ..value.clone() };
        let brackets = to.brackets(&self.mesh, &self.dims);
        let said = format!("`{name}: {}{brackets}` where it is declared", value.dtype);
        vec![Fix { said: Some(said), ..Fix::new(Edit::Replace(self.place(id)), brackets) }]
    }

    /// The text of an operand with one dim unsharded.
    fn gathered(&self, id: ValueId) -> Vec<Fix> {
        let Some(from) = self.exact(id) else { return Vec::new() };
        let dim_name = |dim: usize| self.dims.name(self.value(id).dims[dim].id);
        let sharded = (0..from.dims.len()).filter(|dim| !from.dims[*dim].is_empty());
        let whole = sharded.filter_map(|dim| {
            let mut to = from.clone();
            to.dims[dim] = Axes::NONE;
            let collective = one_step(from, &to, &self.mesh)?.name(from, &self.mesh, dim_name);
            Some(Fix::new(Edit::Replace(self.use_place(id)), format!("{collective}({})", self.show(id))))
        });
        whole.collect()
    }
}
