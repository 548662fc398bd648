//! The layout of a local product: computed from local shards without communication.

use super::ValueId;
use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::infer::one_step;
use super::product::Local;
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
            return Err(self.local_layout(local, why, "close it first".to_owned()));
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
                let text = |axes: Axes| format!("`{name}{}`", axes.subscript(&self.mesh));
                let why = format!("{} and {} differ", text(one), text(other));
                let help = format!("shard `{name}` alike in both operands, or write `*` and let the compiler reshard");
                Err(self.local_layout(local, why, help))
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
        Err(self.local_layout(local, why, help))
    }

    fn local_layout(&self, local: &Local<'_>, why: String, help: String) -> Failure {
        let [left, right] = local.operands.map(|id| self.use_place(id));
        let mut fixes: Vec<Fix> = local.operands.iter().flat_map(|id| self.gathered(*id)).collect();
        fixes.push(Fix::new(Edit::Replace(local.sign), "*".to_owned()));
        CheckError::LocalLayout { fixes, why, at: local.sign, left, right, help }.into()
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
