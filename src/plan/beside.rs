//! What a device holds beside the step that it does.

use super::StepOp;
use crate::program::{Definition, Program, ValueId, Wanted};
use crate::supply::Supply;

/// Bytes of a device that it holds at the least while something else is done: inputs that are not donated, which are there
/// from the start to the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    /// While a value is moved, for itself or for one of its users.
    pub(super) moves: u64,
    /// While a value is computed.
    pub(super) making: u64,
}

impl Beside {
    pub(super) fn of(self, op: &StepOp) -> u64 {
        match op {
            StepOp::Collective(_) => self.moves,
            StepOp::Input | StepOp::Carry | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => {
                self.making
            }
        }
    }
}

/// What is there beside the steps of each value: all such inputs but those that the step itself counts.
///
/// - `cautious`: a value is computed as if its operands were there as they came, too; that may be more than is held.
pub(super) fn beside(program: &Program, cautious: bool) -> Vec<Beside> {
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
        Beside { moves: all_but(&[id]), making: if cautious { all_but(&[]) } else { all_but(operands) } }
    };
    program.value_ids().map(of).collect()
}
