//! The text form of a plan: `%2 A[I, J] = AllGather_X %0 : A[I, J_X] -> A[I, J]`.

use super::{Plan, StepId, StepOp};
use crate::collective::Collective;
use crate::function::Function;
use crate::layout::{Dims, Layout};
use crate::mesh::Mesh;
use crate::program::Definition;
use itertools::Itertools;
use std::fmt;

/// Formats a collective as in the book: `AllGather_X`, `ReduceScatter_{X,K}`.
pub fn collective_name(collective: &Collective, from: &Layout, mesh: &Mesh, dims: &Dims) -> String {
    collective.name(&from.sharding, mesh, |dim| dims.name(from.dims[dim].id))
}

impl Plan {
    /// Formats the array of a step with its layout: `A[I_X, J]`.
    pub fn array(&self, id: StepId) -> String {
        let step = self.step(id);
        let program = &self.program;
        format!("{}{}", program.name(step.value), step.layout.brackets(&program.mesh, &program.dims))
    }

    /// The array of a step as in messages and tables: [`Program::label`](crate::program::Program::label) with the layout.
    pub fn array_label(&self, id: StepId) -> String {
        let step = self.step(id);
        let program = &self.program;
        format!("{}{}", program.label(step.value), step.layout.brackets(&program.mesh, &program.dims))
    }

    /// An operand of a step: its array as in [`Plan::array_label`], by its new name if it was renamed on the way.
    pub fn operand_label(&self, id: StepId, place: usize) -> String {
        let operand = self.operands(id)[place];
        let (step, program) = (self.step(operand), &self.program);
        let named = program.value(self.step(id).value).definition.operands().get(place).copied();
        let renamed = named.filter(|named| {
            let value = program.value(*named);
            let is_of_step = matches!(&value.definition, Definition::Rename { operand } if *operand == step.value);
            is_of_step && value.name.is_some() && value.dims.len() == step.layout.dims.len()
        });
        match renamed {
            Some(named) => {
                let layout = program.layout(named, step.layout.sharding.clone());
                format!("{}{}", program.label(named), layout.brackets(&program.mesh, &program.dims))
            }
            None => self.array_label(operand),
        }
    }

    /// The operation of a step as in tables: `AllGather_X`, `product`, `sum_{I,J}`, `relu`.
    pub fn op_label(&self, id: StepId) -> String {
        match &self.step(id).op {
            StepOp::Input | StepOp::Carry | StepOp::Collective(_) | StepOp::Kernel(_) => self.op_name(id),
            StepOp::Product { .. } => "product".to_owned(),
            StepOp::Map { function: Function::Softmax { dim }, .. } => {
                let dims = &self.step(id).layout.dims;
                format!("softmax_{}", self.program.dims.name(dims[usize::from(*dim)].id))
            }
            StepOp::Map { function: Function::Shift(shift), .. } => {
                let dims = &self.step(id).layout.dims;
                format!("{}_{}", shift.word(), self.program.dims.name(dims[shift.dim()].id))
            }
            // Its number may be the lowest of a dtype.
            StepOp::Map { function: Function::Masked(_), .. } => "where".to_owned(),
            StepOp::Map { function, .. } => function.shown(self.step(id).layout.dtype),
            StepOp::Reduce { operator, .. } => {
                let kept = &self.step(id).layout.dims;
                let summed = self.step(self.operands(id)[0]).layout.dims.iter().filter(|dim| !kept.contains(dim));
                let names: Vec<String> = summed.map(|dim| self.program.dims.name(dim.id)).collect();
                match names.as_slice() {
                    [name] => format!("{operator}_{name}"),
                    names => format!("{operator}_{{{}}}", names.join(",")),
                }
            }
        }
    }

    /// The methods of a collective, such as `meet_in_middle_ring`; `fused` for a step in the kernel of an earlier
    /// one; empty for other steps.
    pub fn how(&self, id: StepId) -> &str {
        match &self.step(id).recipe {
            Some(Ok(chosen)) => &chosen.methods,
            Some(Err(_)) => "",
            None if self.kernel(id).is_some_and(|first| first != id) => "fused",
            None => "",
        }
    }

    /// The operation of a step: `AllGather_X`, `product ab,bc->ac`, `relu`.
    pub fn op_name(&self, id: StepId) -> String {
        match &self.step(id).op {
            StepOp::Input => "input".to_owned(),
            StepOp::Carry => "carry".to_owned(),
            StepOp::Collective(collective) => {
                // By the dims of the result: the operand may have been renamed on the way.
                let (from, to) = (&self.step(self.operands(id)[0]).layout, &self.step(id).layout);
                collective.name(&from.sharding, &self.program.mesh, |dim| self.program.dims.name(to.dims[dim].id))
            }
            StepOp::Product { einsum } => format!("product {einsum}"),
            StepOp::Reduce { operator, einsum } => format!("{operator} {einsum}"),
            StepOp::Kernel(kernel) => kernel.name.clone(),
            StepOp::Map { function, einsum } if einsum.operands.iter().all(|operand| *operand == einsum.result) => {
                function.to_string()
            }
            StepOp::Map { function, einsum } => format!("{function} {einsum}"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan on mesh {}, costs {}", self.program.mesh, self.costs)?;
        for id in self.ids() {
            let step = self.step(id);
            let operands = self.operands(id).iter().map(|operand| format!(" %{}", operand.index())).join("");
            let array = self.array(id);
            write!(f, "%{} {array}: {} = {}{operands}", id.index(), step.layout.dtype, self.op_name(id))?;
            if let (StepOp::Product { .. }, Some(choice)) = (&step.op, self.choice(step.value)) {
                write!(f, "  # case {}", choice.case)?;
                choice.pinned.iter().try_for_each(|pinned| write!(f, ", {}", pinned.text))?;
            }
            match self.times(id) {
                1 => writeln!(f)?,
                times => writeln!(f, "  # x {times}")?,
            }
        }
        for (output, value) in self.outputs.iter().zip(&self.program.outputs) {
            let name = self.program.name(*value);
            writeln!(f, "output {name} = %{}", output.index())?;
        }
        Ok(())
    }
}
