//! Memory of inputs that stay resident during other steps.

use super::StepOp;
use crate::program::{Definition, Program, ValueId, Wanted};
use crate::supply::Supply;

/// Bytes that a device holds in addition to the current step: inputs that are not donated, which are live from start to
/// end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resident {
    /// During moves of a value, for itself or for its users.
    pub(super) moves: u64,
    /// During the computation of a value.
    pub(super) making: u64,
}

impl Resident {
    pub(super) fn of(self, op: &StepOp) -> u64 {
        match op {
            StepOp::Collective(_) => self.moves,
            StepOp::Input
            | StepOp::Carry
            | StepOp::Product { .. }
            | StepOp::Reduce { .. }
            | StepOp::Map { .. }
            | StepOp::Kernel(_) => self.making,
        }
    }
}

/// Resident bytes during the steps of each value, without the inputs that the step itself counts.
///
/// - `cautious`: counts the operands of a computation in their original layouts too, which may overestimate.
pub(super) fn resident(program: &Program, cautious: bool) -> Vec<Resident> {
    let bytes = |id: ValueId| match &program.value(id).wanted {
        Wanted::Exact(sharding) if program.value(id).definition == Definition::Input { supply: Supply::Held } => {
            let bytes = program.layout(id, sharding.clone()).local_bytes(&program.mesh).0;
            bytes.saturating_mul(program.times(id))
        }
        Wanted::Exact(_) | Wanted::Partly(_) | Wanted::Free => 0,
    };
    let inputs: Vec<(ValueId, u64)> = program.value_ids().map(|id| (id, bytes(id))).collect();
    let all_but = |own: &[ValueId]| {
        let others = inputs.iter().filter(|(id, _)| !own.contains(id));
        others.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    };
    let of = |id: ValueId| {
        let operands = program.value(id).definition.operands();
        Resident { moves: all_but(&[id]), making: if cautious { all_but(&[]) } else { all_but(operands) } }
    };
    program.value_ids().map(of).collect()
}
