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
use super::factor::rows_side_by_side;
use super::gemm::{Before, Gemm};
use super::parallel::{Here, on_devices};
use super::product::{product, product_into, product_onto, result_extents};
use super::step::Blocks;
use super::tensor::Tensor;
use super::view::{View, addressable, fits, refines, region_at};
use crate::einsum::{Einsum, Index};
use crate::mesh::DeviceId;
use crate::schedule::{Cut, OpId, OpKind, Operation, Schedule};
use petgraph::Direction;
use std::ops::Range;

/// Rows and columns that a slice must keep, so that its own product runs at full speed.
const LEAST: usize = 128;

/// A product whose operands wait for the slices of its result.
#[derive(Clone, Debug)]
pub(super) struct Deferred {
    operands: [Blocks; 2],
}

/// Whether the value is a product of which only slices are used, and these compute nothing twice.
pub(super) fn is_deferred(schedule: &Schedule, id: OpId) -> bool {
    let operation = schedule.operation(id);
    let OpKind::MatMul { einsum } = &operation.kind else { return false };
    einsum.operands.len() == 2 && only_sliced(schedule, id, einsum)
}

/// Whether all users of a product, or of a box of it, are slices that are worth a product of their own and have, all
/// together, no more elements than it.
fn only_sliced(schedule: &Schedule, id: OpId, einsum: &Einsum) -> bool {
    let operation = schedule.operation(id);
    let users = users(schedule, id);
    let kept = users.iter().map(|user| schedule.operation(*user).elements()).fold(0, u64::saturating_add);
    !users.is_empty()
        && kept <= operation.elements()
        && schedule.outputs.iter().all(|output| output.value != id)
        && users.iter().all(|user| is_worth_it(einsum, operation, schedule.operation(*user)))
}

fn users(schedule: &Schedule, id: OpId) -> Vec<OpId> {
    schedule.operations.neighbors_directed(id, Direction::Outgoing).collect()
}

/// Whether the operation keeps a box of the block, with rows and columns enough.
fn is_worth_it(einsum: &Einsum, block: &Operation, user: &Operation) -> bool {
    let Some(lengths) = box_lengths(block, user) else { return false };
    let count = |operand: usize| -> usize {
        let own = einsum.result.iter().zip(&lengths).filter(|(index, _)| !einsum.operands[1 - operand].contains(index));
        own.map(|(_, length)| length).product()
    };
    count(0) >= LEAST && count(1) >= LEAST
}

/// The lengths of the box that a slice keeps of a block, in the dims of the block.
fn box_lengths(block: &Operation, slice: &Operation) -> Option<Vec<usize>> {
    let OpKind::Slice { view, region } = &slice.kind else { return None };
    let (view, extents) = (addressable(view)?, addressable(&block.extents)?);
    if !refines(&view, &extents) || !fits(region, &view) || slice.dtype != block.dtype {
        return None;
    }
    // One index or another makes no difference to the shape of the box.
    let any = |(cut, extent): (&Cut, &usize)| match cut {
        Cut::Whole => Some(0..*extent),
        Cut::Range { start, end } => Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?),
        Cut::At(_) => Some(0..1),
    };
    let ranges: Option<Vec<Range<usize>>> = region.iter().zip(&view).map(any).collect();
    let dims = joined(&ranges?, &view, &extents)?;
    let lengths: Vec<usize> = dims.into_iter().map(|range| range.len()).collect();
    (Some(lengths.iter().product()) == addressable(&slice.extents).map(|kept| kept.iter().product::<usize>()))
        .then_some(lengths)
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
pub(super) fn defer(schedule: &Schedule, here: Here, id: OpId, operands: Vec<Blocks>) -> Result<Deferred, RunError> {
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
    let [first, second] = operands;
    let pairs = first.into_iter().zip(&second).collect();
    let laid_out = |_, (a, b): (Option<Tensor>, &Option<Tensor>)| {
        let extents = &b.as_ref()?.view().extents;
        Some(rows_side_by_side(einsum, &a?, extents, operation.dtype))
    };
    Ok(Deferred { operands: [on_devices(here, pairs, u64::MAX, laid_out), second] })
}

/// A box of a product that was not computed: a slice of it, or a slice of such a slice.
#[derive(Clone, Debug)]
pub(super) struct Part {
    of: OpId,
    /// From the product inwards; the last one is the value itself.
    slices: Vec<OpId>,
    deferred: Deferred,
}

impl Part {
    /// A slice of a product.
    pub(super) fn new(of: OpId, deferred: Deferred, slice: OpId) -> Part {
        Part { of, slices: vec![slice], deferred }
    }

    /// A slice of this part.
    pub(super) fn sliced(mut self, slice: OpId) -> Part {
        self.slices.push(slice);
        self
    }

    fn einsum<'a>(&self, schedule: &'a Schedule) -> Result<&'a Einsum, RunError> {
        let OpKind::MatMul { einsum } = &schedule.operation(self.of).kind else {
            return Err(RunError::operation(self.of, "it is no product"));
        };
        Ok(einsum)
    }

    fn value(&self) -> OpId {
        *self.slices.last().expect("a part has a slice")
    }

    /// Whether only one addition or assembly wants it, which computes it device by device where it belongs, or only
    /// slices that are worth a product of their own.
    pub(super) fn can_wait(&self, schedule: &Schedule) -> bool {
        let joins = |user| matches!(schedule.operation(user).kind, OpKind::Add { .. } | OpKind::Assemble { .. });
        let joined = matches!(users(schedule, self.value())[..], [user] if joins(user));
        joined && schedule.outputs.iter().all(|output| output.value != self.value()) || self.is_only_sliced(schedule)
    }

    fn is_only_sliced(&self, schedule: &Schedule) -> bool {
        let from = self.slices.len().checked_sub(2).map_or(self.of, |last| self.slices[last]);
        let own = schedule.operation(self.value());
        let lengths = box_lengths(schedule.operation(from), own);
        let keeps_its_dims = lengths.is_some() && lengths == addressable(&own.extents);
        keeps_its_dims && self.einsum(schedule).is_ok_and(|einsum| only_sliced(schedule, self.value(), einsum))
    }

    /// Its blocks.
    pub(super) fn blocks(&self, schedule: &Schedule, here: Here) -> Result<Blocks, RunError> {
        let devices = vec![(); schedule.mesh.device_count()];
        on_devices(here, devices, u64::MAX, |device, ()| self.block(schedule, device)).into_iter().collect()
    }

    /// The product of what the box needs of the operands.
    pub(super) fn block(&self, schedule: &Schedule, device: DeviceId) -> Result<Option<Tensor>, RunError> {
        let Some([a, b]) = self.factors(schedule, device)? else { return Ok(None) };
        let (einsum, operation) = (self.einsum(schedule)?, schedule.operation(self.value()));
        let part = product(einsum, &a, &b, operation.dtype).map_err(|problem| RunError::operation(self.of, problem))?;
        Ok(Some(part.reshaped(&self.kept(schedule)?)))
    }

    /// The product added to a block of its extents; the block as it is where the box is absent.
    pub(super) fn onto(&self, schedule: &Schedule, device: DeviceId, sums: Tensor) -> Result<Tensor, RunError> {
        let Some([a, b]) = self.factors(schedule, device)? else { return Ok(sums) };
        if sums.view().extents != self.kept(schedule)? || sums.dtype() != schedule.operation(self.value()).dtype {
            return Err(RunError::operation(self.value(), "it is added to a block of another shape"));
        }
        product_onto(sums, self.einsum(schedule)?, &a, &b).map_err(|problem| RunError::operation(self.of, problem))
    }

    /// The product after what is there; `false` where the box is absent, or no product can be computed in its place.
    pub(super) fn append_to<C: Gemm>(
        &self,
        schedule: &Schedule,
        device: DeviceId,
        block: &mut Vec<C>,
    ) -> Result<bool, RunError> {
        let Some([a, b]) = self.factors(schedule, device)? else { return Ok(false) };
        let start = block.len();
        block.resize(start + self.kept(schedule)?.iter().product::<usize>(), C::default());
        product_into(&mut block[start..], self.einsum(schedule)?, &a, &b, Before::Replaced)
            .map_err(|problem| RunError::operation(self.of, problem))
    }

    fn kept(&self, schedule: &Schedule) -> Result<Vec<usize>, RunError> {
        let kept = addressable(&schedule.operation(self.value()).extents);
        kept.ok_or_else(|| RunError::operation(self.value(), "it is not addressable"))
    }

    /// What of the operands the box needs; `None` where an operand or the box is absent.
    fn factors(&self, schedule: &Schedule, device: DeviceId) -> Result<Option<[Tensor; 2]>, RunError> {
        let einsum = self.einsum(schedule)?;
        let [Some(a), Some(b)] = self.deferred.operands.each_ref().map(|blocks| blocks[device.index()].as_ref()) else {
            return Ok(None);
        };
        let mut from = schedule.operation(self.of);
        let mut dims: Option<Vec<Range<usize>>> = None;
        for id in &self.slices {
            let slice = schedule.operation(*id);
            let wrong = |problem: &str| RunError::operation(*id, problem);
            let OpKind::Slice { view, region } = &slice.kind else { return Err(wrong("it is no slice")) };
            let sizes = addressable(view).zip(addressable(&from.extents));
            let (view, extents) = sizes.ok_or_else(|| wrong("it is not addressable"))?;
            let Some(ranges) = region_at(region, &view, &schedule.mesh, device) else { return Ok(None) };
            let inner = joined(&ranges, &view, &extents).ok_or_else(|| wrong("its region is no box"))?;
            if inner.iter().map(ExactSizeIterator::len).product::<usize>() as u64 != slice.elements() {
                return Err(wrong("its region has another number of elements"));
            }
            dims = Some(match dims {
                None => inner,
                Some(outer) => within(&outer, &inner),
            });
            from = slice;
        }
        let dims = dims.expect("a part has a slice");
        Ok(Some([(0, a), (1, b)].map(|(place, tensor)| narrowed(einsum, place, tensor, &dims))))
    }
}

/// Whether a slice of a product would itself wait for its slices.
#[cfg(test)]
pub(super) fn is_only_sliced(schedule: &Schedule, product: OpId, slice: OpId) -> bool {
    let deferred = Deferred { operands: [Vec::new(), Vec::new()] };
    Part::new(product, deferred, slice).is_only_sliced(schedule)
}

/// A box of a box.
fn within(outer: &[Range<usize>], inner: &[Range<usize>]) -> Vec<Range<usize>> {
    let shift = |(outer, inner): (&Range<usize>, &Range<usize>)| outer.start + inner.start..outer.start + inner.end;
    outer.iter().zip(inner).map(shift).collect()
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
