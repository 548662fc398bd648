//! Compute time of a device.

use crate::dtype::DType;
use crate::fusion::{Access, Lookup};
use crate::schedule::{OpId, OpKind, Operation, Reach, Schedule};
use crate::topology::{Form, Heads, LocalMoves, ProductWork, Shape, Topology};
use crate::units::Time;

/// The compute time of an operation on one device.
///
/// - `(read, written)`: operand bytes read from memory, and result bytes written to it.
///
/// A product takes the longer of its arithmetic and its memory traffic; an elementwise function takes its memory
/// traffic. The first operation of a kernel adds the kernel's start-up time.
pub(super) fn compute_time(
    topology: &Topology,
    operation: &Operation,
    operands: &[&Operation],
    access: &Access,
    (read, written): (u128, u128),
) -> Time {
    let traffic = read.saturating_add(written);
    let memory = |bytes: u128| topology.memory_time(bytes, false).time();
    let moved = |bytes: u128| match topology.hardware.local_moves {
        LocalMoves::Free => Time::ZERO,
        LocalMoves::Memory => memory(bytes),
    };
    match &operation.kind {
        kind if kind.properties().reach != Reach::Own => Time::ZERO,
        OpKind::MatMul { einsum } => {
            let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.extents.clone()).collect();
            let (flops, form) = match access.lookup {
                Some(lookup) => (lookup.flops(einsum, &extents), Form::Other),
                None => (einsum.flops(&extents), Shape::of(einsum, &extents).map_or(Form::Other, Form::Product)),
            };
            let unit = DType::computing(operands.iter().map(|operand| operand.dtype));
            let (dtype, starts) = (unit.unwrap_or(operation.dtype), access.starts);
            topology.product_time(ProductWork { dtype, flops, form, traffic, starts }).time()
        }
        OpKind::Kernel(kernel) => {
            let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.extents.clone()).collect();
            let lengths = kernel.block(&extents).unwrap_or_default();
            let (flops, traffic) = (kernel.flops(&lengths), kernel.bytes(&lengths).unwrap_or(traffic));
            let unit = DType::computing(operands.iter().map(|operand| operand.dtype));
            let dtype = unit.unwrap_or(operation.dtype);
            let form = Heads::of(kernel, &lengths).map_or(Form::Other, Form::Attention);
            topology.product_time(ProductWork { dtype, flops, form, traffic, starts: true }).time()
        }
        // A slice reads only the part of the operand that it keeps.
        OpKind::Slice { .. } => moved(written.saturating_mul(2)),
        OpKind::Reshape => Time::ZERO,
        // What comes round is in its place.
        OpKind::Shift { shift, .. } if shift.wraps => Time::ZERO,
        OpKind::Add { .. } | OpKind::Assemble { .. } | OpKind::Shift { .. } | OpKind::Mask { .. } => moved(traffic),
        _ => topology.memory_time(traffic, access.starts).time(),
    }
}

/// The bytes of each operand read from memory.
pub(super) fn bytes_of(operation: &Operation, operands: &[&Operation], lookup: Option<Lookup>) -> Vec<u128> {
    let all = || operands.iter().map(|operand| u128::from(operand.bytes())).collect();
    let (Some(lookup), OpKind::MatMul { einsum }) = (lookup, &operation.kind) else { return all() };
    let extents: Vec<Vec<u64>> = operands.iter().map(|operand| operand.extents.clone()).collect();
    let elements = |place: usize| u64::try_from(lookup.reads(einsum, &extents, place)).unwrap_or(u64::MAX);
    (0..operands.len()).map(|place| u128::from(operands[place].dtype.bytes(elements(place)))).collect()
}

/// The bytes of the result written to memory.
pub(super) fn written(schedule: &Schedule, operation: &Operation, access: &Access) -> u64 {
    access.writes.of(operation.bytes(), |product| schedule.operation(OpId::new(product)).bytes())
}
