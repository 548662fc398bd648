//! How long a device computes.

use crate::fusion::Access;
use crate::schedule::{OpId, OpKind, Operation, Reach, Schedule};
use crate::topology::{LocalMoves, Topology};
use crate::units::Time;

/// The time of the computing that an operation does on a device.
///
/// - `(read, written)`: bytes of operands that are there and come from memory, and of the result that go there.
///
/// A product takes the longer of its operations and its memory traffic; an elementwise function its memory traffic.
pub(super) fn compute_time(
    topology: &Topology,
    operation: &Operation,
    operands: &[&Operation],
    (read, written): (u128, u128),
) -> Time {
    let memory = |bytes: u128| topology.scale.at_rate(bytes, topology.hardware.hbm_bandwidth);
    let traffic = memory(read.saturating_add(written));
    let moved = |time: Time| match topology.hardware.local_moves {
        LocalMoves::Free => Time::ZERO,
        LocalMoves::Memory => time,
    };
    match &operation.kind {
        kind if kind.properties().reach != Reach::Own => Time::ZERO,
        OpKind::MatMul { einsum } => {
            let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.extents.clone()).collect();
            let rate = topology.hardware.flops(operation.dtype);
            topology.scale.at_rate(einsum.flops(&extents), rate).max(traffic)
        }
        // Of the operand only what is kept is read.
        OpKind::Slice { .. } => moved(memory(written.saturating_mul(2))),
        OpKind::Add { .. } | OpKind::Assemble { .. } | OpKind::Mask { .. } => moved(traffic),
        _ => traffic,
    }
}

/// The bytes of the result of an operation that go to memory.
pub(super) fn written(schedule: &Schedule, operation: &Operation, access: &Access) -> u64 {
    access.writes.of(operation.bytes(), |product| schedule.operation(OpId::new(product)).bytes())
}
