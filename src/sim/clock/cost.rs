//! How long a device computes.

use crate::schedule::{OpKind, Operation, Reach};
use crate::topology::{LocalMoves, Topology};
use crate::units::Time;

/// The time of the computing that an operation does on a device, from the bytes of the operands that are there.
///
/// A product takes the longer of its operations and its memory traffic; an elementwise function its memory traffic.
pub(super) fn compute_time(topology: &Topology, operation: &Operation, operands: &[&Operation], read: u128) -> Time {
    let written = u128::from(operation.bytes());
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
