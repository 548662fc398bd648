//! Emits a program on whole arrays; named values are constrained to the layouts of the plan.

use super::emit::Tensor;
use super::{Module, math};
use crate::export::words::{declared, of_whole, padded, pieces};
use crate::plan::{StepId, StepOp};
use crate::program::{Value, ValueId};
use std::collections::HashMap;

impl Module<'_> {
    /// Emits the program. Returns the outputs for the given inputs.
    pub(super) fn whole(&mut self, arguments: &[Tensor]) -> Vec<Tensor> {
        let (plan, program) = (self.plan, &self.plan.program);
        let own: HashMap<ValueId, StepId> =
            plan.own_layouts().into_iter().map(|id| (plan.step(id).value, id)).collect();
        let mut made: HashMap<ValueId, Tensor> = HashMap::new();
        for (id, argument) in self.inputs().into_iter().zip(arguments) {
            let layout = &plan.step(id).layout;
            // The pieces of an open sum are combined.
            let tensor = match pieces(layout) {
                None => argument.clone(),
                Some(_) => math::combined(&mut self.emit, argument, layout.sharding.operator),
            };
            made.insert(plan.step(id).value, tensor);
        }
        for id in program.value_ids() {
            let operands: Vec<Tensor> =
                program.value(id).definition.operands().iter().map(|operand| made[operand].clone()).collect();
            let Some(tensor) = self.value(id, &operands) else { continue };
            let constrained = match own.get(&id) {
                Some(step) => self.constrained(&tensor, *step),
                None => tensor,
            };
            made.insert(id, constrained);
        }
        program.outputs.iter().map(|id| made[id].clone()).collect()
    }

    fn value(&mut self, id: ValueId, operands: &[Tensor]) -> Option<Tensor> {
        let program = &self.plan.program;
        let Value { dtype, span, .. } = program.value(id);
        let op = of_whole(program, id);
        if let Some(generated) = self.generated(id) {
            return Some(generated);
        }
        if op != StepOp::Input {
            self.tell(*span);
        }
        math::value(&mut self.emit, &op, operands, *dtype, None)
    }

    fn constrained(&mut self, tensor: &Tensor, step: StepId) -> Tensor {
        let layout = &self.plan.step(step).layout;
        if !layout.sharding.open.is_empty() || padded(self.plan, layout) != declared(self.plan, layout) {
            return tensor.clone();
        }
        let text = format!("sdy.sharding_constraint {} {} : {}", tensor.name, self.sharding(layout), tensor.of());
        self.emit.made(&text, &tensor.shape, tensor.dtype)
    }
}
