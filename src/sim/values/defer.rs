//! Products that are computed slice by slice.
//!
//! ```text
//! before  %2 = matmul %0 %1      a whole block on each device
//!         %3 = slice %2 ..       some of its columns
//!         %4 = slice %2 ..       the others
//! after   %3 = matmul of %0 and the columns of %1 that %3 keeps
//!         %4 = matmul of %0 and the columns of %1 that %4 keeps
//! ```
//!
//! The numbers are the same, the whole block is never in memory, and a slice is still warm when it is added.

use super::error::RunError;
use super::parallel::on_devices;
use super::product::{product, result_extents};
use super::step::Blocks;
use super::tensor::Tensor;
use super::view::{View, addressable, fits, refines, region_at};
use crate::einsum::{Einsum, Index};
use crate::mesh::DeviceId;
use crate::schedule::{Cut, OpId, OpKind, Operation, Schedule};
use petgraph::Direction;
use std::ops::Range;

/// Rows and columns that a slice must keep, so that its own product runs at full speed.
const LEAST: u64 = 128;

/// A product whose operands wait for the slices of its result.
#[derive(Clone, Debug)]
pub(super) struct Deferred {
    operands: [Blocks; 2],
}

/// Whether the value is a product of which only slices are used, and these compute nothing twice.
pub(super) fn is_deferred(schedule: &Schedule, id: OpId) -> bool {
    let operation = schedule.operation(id);
    let OpKind::MatMul { einsum } = &operation.kind else { return false };
    let users: Vec<OpId> = schedule.operations.neighbors_directed(id, Direction::Outgoing).collect();
    let kept = users.iter().map(|user| schedule.operation(*user).elements()).fold(0, u64::saturating_add);
    !users.is_empty()
        && kept <= operation.elements()
        && schedule.outputs.iter().all(|output| output.value != id)
        && users.iter().all(|user| is_worth_it(einsum, operation, schedule.operation(*user)))
}

/// Whether the operation keeps a box of the product, with rows and columns enough.
fn is_worth_it(einsum: &Einsum, product: &Operation, user: &Operation) -> bool {
    let OpKind::Slice { view, region } = &user.kind else { return false };
    let (Some(view), Some(extents)) = (addressable(view), addressable(&product.extents)) else { return false };
    if !refines(&view, &extents) || !fits(region, &view) || einsum.operands.len() != 2 || user.dtype != product.dtype {
        return false;
    }
    // One index or another makes no difference to the shape of the box.
    let any = |(cut, extent): (&Cut, &usize)| match cut {
        Cut::Whole => Some(0..*extent),
        Cut::Range { start, end } => Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?),
        Cut::At(_) => Some(0..1),
    };
    let ranges: Option<Vec<Range<usize>>> = region.iter().zip(&view).map(any).collect();
    let Some(dims) = ranges.and_then(|ranges| joined(&ranges, &view, &extents)) else { return false };
    let count = |operand: usize| -> u64 {
        let own = einsum.result.iter().zip(&dims).filter(|(index, _)| !einsum.operands[1 - operand].contains(index));
        own.map(|(_, range)| range.len() as u64).product()
    };
    count(0) >= LEAST && count(1) >= LEAST
}

/// A box in a refined view as a box in the block itself; `None` where it is not one range of each dim.
fn joined(ranges: &[Range<usize>], view: &[usize], extents: &[usize]) -> Option<Vec<Range<usize>>> {
    let mut parts = ranges.iter().zip(view);
    let mut dims = Vec::with_capacity(extents.len());
    for extent in extents {
        let (mut range, mut product) = (0..1, 1);
        while product < *extent || range == (0..1) && product == 1 && *extent == 1 {
            let (part, length) = parts.next()?;
            product *= length;
            range = match (range.len(), part.len() == *length) {
                (1, _) => range.start * length + part.start..range.start * length + part.end,
                (_, true) => range.start * length..range.end * length,
                (_, false) => return None,
            };
            if *extent == 1 {
                break;
            }
        }
        dims.push(range);
    }
    Some(dims)
}

/// The product, not computed yet.
pub(super) fn defer(schedule: &Schedule, id: OpId, operands: Vec<Blocks>) -> Result<Deferred, RunError> {
    let operation = schedule.operation(id);
    let wrong = |problem: String| RunError::operation(id, problem);
    let operands: [Blocks; 2] =
        operands.try_into().map_err(|operands: Vec<Blocks>| wrong(format!("it has {} operands", operands.len())))?;
    let OpKind::MatMul { einsum } = &operation.kind else { return Err(wrong("it is no product".into())) };
    for (a, b) in operands[0].iter().zip(&operands[1]) {
        if let (Some(a), Some(b)) = (a, b) {
            let (_, extents) = result_extents(einsum, &[&a.view().extents, &b.view().extents]).map_err(wrong)?;
            if addressable(&operation.extents).as_ref() != Some(&extents) {
                return Err(wrong(format!("it says {:?}, it makes {extents:?}", operation.extents)));
            }
        }
    }
    Ok(Deferred { operands })
}

/// A slice of a product that was not computed.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The slice.
    pub(super) slice: OpId,
    /// The product.
    pub(super) of: OpId,
    /// Its operands.
    pub(super) deferred: Deferred,
}

impl Part {
    /// Whether only an addition wants it: that computes it device by device, so that no two of them take memory.
    pub(super) fn can_wait(&self, schedule: &Schedule) -> bool {
        let users: Vec<OpId> = schedule.operations.neighbors_directed(self.slice, Direction::Outgoing).collect();
        let adds = matches!(users[..], [user] if matches!(schedule.operation(user).kind, OpKind::Add { .. }));
        adds && schedule.outputs.iter().all(|output| output.value != self.slice)
    }

    /// Its blocks.
    pub(super) fn blocks(&self, schedule: &Schedule) -> Result<Blocks, RunError> {
        let devices = vec![(); schedule.mesh.device_count()];
        on_devices(devices, u64::MAX, |device, ()| self.block(schedule, device)).into_iter().collect()
    }

    /// The product of what the slice needs of the operands.
    pub(super) fn block(&self, schedule: &Schedule, device: DeviceId) -> Result<Option<Tensor>, RunError> {
        let (operation, whole) = (schedule.operation(self.slice), schedule.operation(self.of));
        let wrong = |problem: &str| RunError::operation(self.slice, problem);
        let (OpKind::Slice { view, region }, OpKind::MatMul { einsum }) = (&operation.kind, &whole.kind) else {
            return Err(wrong("it is no slice of a product"));
        };
        let sizes = addressable(view).zip(addressable(&whole.extents)).zip(addressable(&operation.extents));
        let ((view, extents), kept) = sizes.ok_or_else(|| wrong("it is not addressable"))?;
        let [Some(a), Some(b)] = self.deferred.operands.each_ref().map(|blocks| blocks[device.index()].as_ref()) else {
            return Ok(None);
        };
        let ranges = region_at(region, &view, &schedule.mesh, device);
        let Some(dims) = ranges.and_then(|ranges| joined(&ranges, &view, &extents)) else { return Ok(None) };
        let [a, b] = [(0, a), (1, b)].map(|(place, tensor)| narrowed(einsum, place, tensor, &dims));
        let part = product(einsum, &a, &b, whole.dtype).map_err(|problem| RunError::operation(self.of, problem))?;
        if part.view().elements() != kept.iter().product::<usize>() {
            return Err(wrong("its region has another number of elements"));
        }
        Ok(Some(part.reshaped(&kept)))
    }
}

/// What an operand contributes to a box of the result.
fn narrowed(einsum: &Einsum, place: usize, operand: &Tensor, dims: &[Range<usize>]) -> Tensor {
    let range = |(index, extent): (&Index, &usize)| {
        let dim = einsum.result.iter().position(|other| other == index);
        dim.map_or(0..*extent, |dim| dims[dim].clone())
    };
    let ranges: Vec<Range<usize>> = einsum.operands[place].iter().zip(&operand.view().extents).map(range).collect();
    let view: View = operand.view().cut(&ranges);
    operand.with_view(view)
}
