//! Grouping of messages into kernels: which message starts one, and which kernels are exchanges.
//!
//! A schedule has no collectives, but each operation belongs to a step of its plan. The grouping follows from the
//! step's slices, messages, sums and concatenations, so it works for every schedule. A message whose block arrived
//! through moves of the same step continues that step's kernel; any other message starts a kernel. An exchange
//! delivers a different part to each device, and that part is neither forwarded nor added within the step.

use crate::schedule::{Cut, OpId, OpKind, Verified};
use crate::topology::{Topology, Traffic};

/// Kernel membership of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Whether a kernel starts before it is sent.
    pub(super) starts: bool,
    /// The kind of kernel.
    pub(super) traffic: Traffic,
}

/// The kernel of each operation's messages; empty if the profile has no measured kernels.
pub(super) fn parts(schedule: Verified<'_>, topology: &Topology) -> Vec<Part> {
    if topology.hardware.networks().all(|network| network.measured.is_empty()) {
        return Vec::new();
    }
    let count = schedule.operations.node_count();
    let kind = |id: OpId| &schedule.operation(id).kind;
    let step = |id: OpId| schedule.operation(id).step;
    let before = |id: OpId| schedule.operands(id).into_iter().filter(move |operand| step(*operand) == step(id));
    // Whether its block has arrived by a message, and whether it is a different part on each device.
    let (mut has_come, mut is_slice) = (vec![false; count], vec![false; count]);
    for id in schedule.ids().filter(|id| is_move(kind(*id))) {
        has_come[id.index()] = is_sent(kind(id)) || before(id).any(|operand| has_come[operand.index()]);
        is_slice[id.index()] = is_own_part(kind(id)) || before(id).any(|operand| is_slice[operand.index()]);
    }
    // Whether it is forwarded or added.
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
        let is_exchange = starts && any(&is_slice) && !goes_on[id.index()];
        Part { starts, traffic: if is_exchange { Traffic::Exchange } else { Traffic::Collective } }
    };
    schedule.ids().map(part).collect()
}

fn is_sent(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Shuffle { .. } | OpKind::AllGather { .. } | OpKind::SwitchSum { .. })
}

/// Whether an operation only moves blocks or adds them.
fn is_move(kind: &OpKind) -> bool {
    match kind {
        OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::Add { .. }
        | OpKind::Assemble { .. }
        | OpKind::AllGather { .. }
        | OpKind::SwitchSum { .. }
        | OpKind::Shift { .. }
        | OpKind::Mask { .. }
        | OpKind::Reshape => true,
        OpKind::Input { .. }
        | OpKind::MatMul { .. }
        | OpKind::Reduce { .. }
        | OpKind::Map { .. }
        | OpKind::Kernel(_)
        | OpKind::Fill { .. } => false,
    }
}

/// Whether an operation is a slice whose offset depends on the device.
fn is_own_part(kind: &OpKind) -> bool {
    match kind {
        OpKind::Slice { region, .. } => region.iter().any(|cut| matches!(cut, Cut::At(_))),
        _ => false,
    }
}
