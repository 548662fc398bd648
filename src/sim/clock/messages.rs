//! What each message is part of: where the kernel of a collective starts, and whether it is an exchange.
//!
//! A schedule has no collectives, but each operation belongs to a step of its plan. The rest follows from its moves
//! (slices, messages, sums, pieces put together), so it holds for every schedule. A message whose block has come by
//! another one of the same step, through moves only, goes on in the same kernel; any other one is its first. An exchange
//! brings another part to each device, which is then neither passed on nor added up in that step.

use crate::schedule::{Cut, OpId, OpKind, Verified};
use crate::topology::{Topology, Traffic};

/// Of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Whether a kernel has to start before it leaves.
    pub(super) starts: bool,
    /// What its kernel does.
    pub(super) traffic: Traffic,
}

/// What the messages of each operation are part of; empty where nothing was measured, and it makes no difference.
pub(super) fn parts(schedule: Verified<'_>, topology: &Topology) -> Vec<Part> {
    if !topology.machine.axis_ids().any(|axis| topology.measured(axis).is_some()) {
        return Vec::new();
    }
    let count = schedule.operations.node_count();
    let kind = |id: OpId| &schedule.operation(id).kind;
    let step = |id: OpId| schedule.operation(id).step;
    let before = |id: OpId| schedule.operands(id).into_iter().filter(move |operand| step(*operand) == step(id));
    // Whether its block has come by a message, and whether it is another part on each device.
    let (mut has_come, mut is_cut) = (vec![false; count], vec![false; count]);
    for id in schedule.ids().filter(|id| is_move(kind(*id))) {
        has_come[id.index()] = is_sent(kind(id)) || before(id).any(|operand| has_come[operand.index()]);
        is_cut[id.index()] = is_own_part(kind(id)) || before(id).any(|operand| is_cut[operand.index()]);
    }
    // Whether it is passed on or added up.
    let mut goes_on = vec![false; count];
    for id in schedule.ids().collect::<Vec<_>>().into_iter().rev() {
        let after = |user: OpId| {
            let kind = kind(user);
            let folds = is_sent(kind) || matches!(kind, OpKind::Add { .. });
            folds || is_move(kind) && goes_on[user.index()]
        };
        let mut users = schedule.operations.neighbors(id).filter(|user| step(*user) == step(id));
        goes_on[id.index()] = users.any(after);
    }
    let part = |id: OpId| {
        let any = |of: &[bool]| before(id).any(|operand| of[operand.index()]);
        let starts = !any(&has_come);
        let is_exchange = starts && any(&is_cut) && !goes_on[id.index()];
        Part { starts, traffic: if is_exchange { Traffic::Exchange } else { Traffic::Collective } }
    };
    schedule.ids().map(part).collect()
}

fn is_sent(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Shuffle { .. } | OpKind::AllGather { .. } | OpKind::SwitchSum { .. })
}

/// What does nothing but bring blocks from place to place, and add them up.
fn is_move(kind: &OpKind) -> bool {
    match kind {
        OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::Add { .. }
        | OpKind::Assemble { .. }
        | OpKind::AllGather { .. }
        | OpKind::SwitchSum { .. }
        | OpKind::Mask { .. } => true,
        OpKind::Input { .. }
        | OpKind::MatMul { .. }
        | OpKind::Reduce { .. }
        | OpKind::Map { .. }
        | OpKind::Fill { .. } => false,
    }
}

/// A slice at a place that depends on the device.
fn is_own_part(kind: &OpKind) -> bool {
    match kind {
        OpKind::Slice { region, .. } => region.iter().any(|cut| matches!(cut, Cut::At(_))),
        _ => false,
    }
}
