//! Emits the steps of a plan, for the shards of each device.

use super::emit::Tensor;
use super::{Module, collective, math};
use crate::escape;
use crate::export::words::{Vocabulary, filled, pieces, words};
use crate::plan::{StepId, StepOp};
use std::collections::HashMap;

impl Module<'_> {
    /// Emits the steps. Returns the output shards for the given input shards.
    pub(super) fn device(&mut self, shards: &[Tensor]) -> Vec<Tensor> {
        let plan = self.plan;
        let mut made: HashMap<StepId, Tensor> = HashMap::new();
        for (id, shard) in self.inputs().into_iter().zip(shards) {
            // A device holds one piece of an open sum.
            let shape = plan.step(id).layout.local_extents(&plan.program.mesh);
            let shard = self.emit.reshape(shard, &shape);
            made.insert(id, shard);
        }
        for id in plan.ids() {
            let operands: Vec<Tensor> = plan.operands(id).iter().map(|operand| made[operand].clone()).collect();
            if let Some(tensor) = self.step(id, &operands) {
                made.insert(id, tensor);
            }
        }
        let outputs = plan.outputs.iter().map(|id| {
            let tensor = made[id].clone();
            match pieces(&plan.step(*id).layout) {
                None => tensor,
                Some(_) => {
                    let shape: Vec<u64> = std::iter::once(1).chain(tensor.shape.iter().copied()).collect();
                    self.emit.reshape(&tensor, &shape)
                }
            }
        });
        outputs.collect()
    }

    fn step(&mut self, id: StepId, operands: &[Tensor]) -> Option<Tensor> {
        let plan = self.plan;
        let step = plan.step(id);
        match &step.op {
            StepOp::Input => {
                let generated = self.generated(step.value)?;
                return Some(self.pad(&generated, &step.layout));
            }
            // Repeats are unrolled, so nothing is carried.
            StepOp::Carry => return operands.first().cloned(),
            StepOp::Collective(_)
            | StepOp::Product { .. }
            | StepOp::Reduce { .. }
            | StepOp::Map { .. }
            | StepOp::Kernel(_) => {}
        }
        self.tell(plan.span(id));
        let mesh = &plan.program.mesh;
        if let StepOp::Collective(collective) = &step.op {
            let from = plan.operands(id)[0];
            let note = format!("// {}: {} -> {}", plan.op_name(id), plan.array(from), plan.array(id));
            self.emit.line(&escape::line(&note));
            let words = words(collective, &plan.step(from).layout, mesh, Vocabulary::StableHlo);
            let start = operands[0].clone();
            return Some(words.iter().fold(start, |x, word| collective::word(&mut self.emit, word, &x, mesh)));
        }
        let start = filled(plan, id).map(|(axes, length)| collective::start(&mut self.emit, axes, length, mesh));
        math::value(&mut self.emit, &step.op, operands, step.layout.dtype, start.as_ref())
    }
}
