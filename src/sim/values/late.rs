//! Operations with deferred operands, which are computed device by device, directly onto the sum or into their place
//! in the assembly.

use super::combine::{add, in_a_row};
use super::defer::Part;
use super::element::Element;
use super::error::RunError;
use super::gemm::Gemm;
use super::parallel::{Here, on_devices};
use super::step::{Blocks, put_together};
use super::tensor::Tensor;
use super::view::{View, region_at, sizes};
use crate::dtype::DType;
use crate::mesh::DeviceId;
use crate::operator::Operator;
use crate::schedule::{OpId, OpKind, Schedule};

/// An operand on all devices.
pub(super) enum Late {
    /// Already computed.
    Blocks(Blocks),
    /// Computed when a device needs it.
    Part(Part),
}

/// An operand on one device.
enum Operand<'a> {
    Block(Tensor),
    Part(&'a Part),
}

impl Operand<'_> {
    fn block(self, schedule: &Schedule, device: DeviceId) -> Option<Tensor> {
        match self {
            Operand::Block(block) => Some(block),
            Operand::Part(part) => part.block(schedule, device),
        }
    }
}

/// The blocks after an addition or an assembly.
pub(super) fn step_late(
    schedule: &Schedule,
    here: Here,
    id: OpId,
    mut operands: Vec<Late>,
) -> Result<Blocks, RunError> {
    let operation = schedule.operation(id);
    // Each device takes its own blocks; deferred operands are shared.
    let mut taken: Vec<Vec<Option<Tensor>>> = schedule.mesh.devices().map(|_| Vec::new()).collect();
    for operand in &mut operands {
        if let Late::Blocks(blocks) = operand {
            taken.iter_mut().zip(blocks).for_each(|(taken, block)| taken.push(block.take()));
        }
    }
    let on_device = |device: DeviceId, own: Vec<Option<Tensor>>| {
        let mut own = own.into_iter();
        let operands = operands.iter().map(|operand| match operand {
            Late::Blocks(_) => own.next().flatten().map(Operand::Block),
            Late::Part(part) => Some(Operand::Part(part)),
        });
        match &operation.kind {
            OpKind::Add { operator } => Ok(sum(schedule, id, *operator, device, operands.flatten().collect())),
            OpKind::Assemble { .. } => assembled(schedule, id, device, operands.collect()),
            _ => unreachable!("parts wait for additions and assemblies"),
        }
    };
    on_devices(here, taken, u64::MAX, on_device).into_iter().collect()
}

/// Adds the operands in order; each deferred product is accumulated onto the sum so far.
fn sum(
    schedule: &Schedule,
    id: OpId,
    operator: Operator,
    device: DeviceId,
    mut operands: Vec<Operand<'_>>,
) -> Option<Tensor> {
    // Sums of narrow floats are accumulated in f32 and rounded once all blocks are present.
    let narrow = schedule.operation(id).dtype.is_narrow_float();
    if operator != Operator::Sum || narrow {
        return add(operator, operands.into_iter().filter_map(|operand| operand.block(schedule, device)).collect());
    }
    // Addition of two is commutative, and a product can be accumulated onto a block.
    if let [Operand::Part(_), Operand::Block(_), ..] = operands[..] {
        operands.swap(0, 1);
    }
    let mut sum = None;
    for operand in operands {
        sum = match (sum, operand) {
            (None, operand) => operand.block(schedule, device),
            (Some(sum), Operand::Block(block)) => add(Operator::Sum, vec![sum, block]),
            (Some(sum), Operand::Part(part)) => Some(part.onto(schedule, device, sum)),
        };
    }
    sum
}

/// Assembles the operands in their places.
fn assembled(
    schedule: &Schedule,
    id: OpId,
    device: DeviceId,
    operands: Vec<Option<Operand<'_>>>,
) -> Result<Option<Tensor>, RunError> {
    let operation = schedule.operation(id);
    let (view, places) = operation.kind.properties().regions;
    let whole = View::row_major(&sizes(view));
    let boxes = places.iter().map(|place| Some(whole.cut(&region_at(place, view, &schedule.mesh, device)?)));
    let boxes: Option<Vec<View>> = boxes.collect();
    if boxes.is_some_and(|boxes| in_a_row(&boxes)) && operands.iter().all(Option::is_some) {
        let operands: Vec<&Operand<'_>> = operands.iter().flatten().collect();
        let block = match operation.dtype {
            DType::F32 => row::<f32>(schedule, id, device, &operands),
            DType::F64 => row::<f64>(schedule, id, device, &operands),
            _ => None,
        };
        if block.is_some() {
            return Ok(block);
        }
    }
    let blocks = operands.into_iter().map(|operand| operand?.block(schedule, device));
    put_together(schedule, id, device, blocks.collect())
}

/// Concatenates the operands; `None` if one is absent, or a product cannot be computed in place.
fn row<C: Gemm + Element>(
    schedule: &Schedule,
    id: OpId,
    device: DeviceId,
    operands: &[&Operand<'_>],
) -> Option<Tensor> {
    let extents = sizes(&schedule.operation(id).extents);
    let total = extents.iter().product();
    let mut block: Vec<C> = Vec::with_capacity(total);
    for operand in operands {
        match operand {
            Operand::Block(own) => own.append_to(&mut block),
            Operand::Part(part) if !part.append_to(schedule, device, &mut block) => return None,
            Operand::Part(_) => {}
        }
    }
    (block.len() == total).then(|| Tensor::owned(&extents, block))
}
