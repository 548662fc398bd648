//! Deferred products, which are computed slice by slice.
//!
//! ```text
//! before  %2 = matmul %0 %1   a whole block on each device
//!         %3 = slice %2 ..    some of its columns
//!         %4 = slice %2 ..    the others
//! after   %3 = matmul of %0 and the columns of %1 that %3 keeps
//!         %4 = matmul of %0 and the columns of %1 that %4 keeps
//! ```
//!
//! The results are the same, the whole block is never in memory, and a slice is still in the cache when it is added.

use super::factor::rows_side_by_side;
use super::gemm::{Before, Gemm};
use super::parallel::{Here, on_devices};
use super::product::{product, product_into, product_onto};
use super::step::Blocks;
use super::tensor::Tensor;
use super::view::{View, index, region_at, sizes};
use crate::einsum::{Einsum, Index};
use crate::mesh::DeviceId;
use crate::schedule::view::groups;
use crate::schedule::{Cut, OpId, OpKind, Operation, Schedule};
use petgraph::Direction;
use std::ops::Range;

/// Minimum number of rows and columns of a slice, so that its own product runs at full speed.
const LEAST: usize = 128;

/// A product that is computed only when slices of its result are needed.
#[derive(Clone, Debug)]
pub(super) struct Deferred {
    operands: [Blocks; 2],
}

/// Whether the value is a product of which only slices are used, without computing any element twice.
pub(super) fn is_deferred(schedule: &Schedule, id: OpId) -> bool {
    let operation = schedule.operation(id);
    let OpKind::MatMul { einsum } = &operation.kind else { return false };
    only_sliced(schedule, id, einsum)
}

/// Whether all users of a product, or of a box of it, are slices that are large enough for their own product, and
/// that together have no more elements than it.
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

/// Whether the operation keeps a box of the block with enough rows and columns.
fn is_worth_it(einsum: &Einsum, block: &Operation, user: &Operation) -> bool {
    let Some(lengths) = box_lengths(block, user) else { return false };
    let count = |operand: usize| -> usize {
        let own = einsum.result.iter().zip(&lengths).filter(|(index, _)| !einsum.operands[1 - operand].contains(index));
        own.map(|(_, length)| length).product()
    };
    count(0) >= LEAST && count(1) >= LEAST
}

/// Lengths of the box that a slice keeps, in the dims of the block.
fn box_lengths(block: &Operation, slice: &Operation) -> Option<Vec<usize>> {
    let OpKind::Slice { view, region } = &slice.kind else { return None };
    // The shape of the box does not depend on the index.
    let any = |(cut, extent): (&Cut, &u64)| match cut {
        Cut::Whole => 0..*extent,
        Cut::Range { start, end } => *start..*end,
        Cut::At(_) => 0..1,
    };
    let ranges: Vec<Range<usize>> =
        region.iter().zip(view).map(any).map(|range| index(range.start)..index(range.end)).collect();
    Some(joined(&ranges, view, &block.extents)?.into_iter().map(|range| range.len()).collect())
}

/// A box in a refined view as a box in the block itself; `None` if it is not one range per dim.
fn joined(ranges: &[Range<usize>], view: &[u64], extents: &[u64]) -> Option<Vec<Range<usize>>> {
    let dims = groups(view, extents).expect("the view refines the block").into_iter();
    let join = |dims: Range<usize>| {
        dims.into_iter().try_fold(0..1, |range: Range<usize>, place| {
            let (part, length) = (&ranges[place], index(view[place]));
            match (range.len(), part.len() == length) {
                (1, _) => Some(range.start * length + part.start..range.start * length + part.end),
                (_, true) => Some(range.start * length..range.end * length),
                (_, false) => None,
            }
        })
    };
    dims.map(join).collect()
}

/// The deferred product.
pub(super) fn defer(schedule: &Schedule, here: Here, id: OpId, operands: Vec<Blocks>) -> Deferred {
    let operation = schedule.operation(id);
    let OpKind::MatMul { einsum } = &operation.kind else { unreachable!("only products are deferred") };
    let [first, second] = <[Blocks; 2]>::try_from(operands).expect("a product has two operands");
    let pairs = first.into_iter().zip(&second).collect();
    let laid_out = |_, (a, b): (Option<Tensor>, &Option<Tensor>)| {
        let extents = &b.as_ref()?.view().extents;
        Some(rows_side_by_side(einsum, &a?, extents, operation.dtype))
    };
    Deferred { operands: [on_devices(here, pairs, u64::MAX, laid_out), second] }
}

/// A box of a deferred product: a slice of it, or a slice of such a slice.
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

    fn einsum<'a>(&self, schedule: &'a Schedule) -> &'a Einsum {
        let OpKind::MatMul { einsum } = &schedule.operation(self.of).kind else { unreachable!("it is of a product") };
        einsum
    }

    fn value(&self) -> OpId {
        *self.slices.last().expect("a part has a slice")
    }

    /// Whether the value can be deferred: either a single addition or assembly uses it and computes it in place,
    /// device by device, or only slices use it that are large enough for their own product.
    pub(super) fn can_wait(&self, schedule: &Schedule) -> bool {
        let joins = |user| matches!(schedule.operation(user).kind, OpKind::Add { .. } | OpKind::Assemble { .. });
        let joined = matches!(users(schedule, self.value())[..], [user] if joins(user));
        joined && schedule.outputs.iter().all(|output| output.value != self.value()) || self.is_only_sliced(schedule)
    }

    fn is_only_sliced(&self, schedule: &Schedule) -> bool {
        let from = self.slices.len().checked_sub(2).map_or(self.of, |last| self.slices[last]);
        let own = schedule.operation(self.value());
        let lengths = box_lengths(schedule.operation(from), own);
        let keeps_its_dims = lengths.is_some_and(|lengths| lengths == sizes(&own.extents));
        keeps_its_dims && only_sliced(schedule, self.value(), self.einsum(schedule))
    }

    /// Computes its blocks.
    pub(super) fn blocks(&self, schedule: &Schedule, here: Here) -> Blocks {
        let devices = vec![(); schedule.mesh.device_count()];
        on_devices(here, devices, u64::MAX, |device, ()| self.block(schedule, device))
    }

    /// The product of the operand parts that the box needs.
    pub(super) fn block(&self, schedule: &Schedule, device: DeviceId) -> Option<Tensor> {
        let [a, b] = self.factors(schedule, device)?;
        let part = product(self.einsum(schedule), &a, &b, schedule.operation(self.value()).dtype);
        Some(part.reshaped(&self.kept(schedule)))
    }

    /// The product added to a block of the same extents. Returns the block unchanged where the box is absent.
    pub(super) fn onto(&self, schedule: &Schedule, device: DeviceId, sums: Tensor) -> Tensor {
        match self.factors(schedule, device) {
            Some([a, b]) => product_onto(sums, self.einsum(schedule), &a, &b),
            None => sums,
        }
    }

    /// Appends the product to the buffer; `false` if the box is absent, or the product cannot be computed in place.
    pub(super) fn append_to<C: Gemm>(&self, schedule: &Schedule, device: DeviceId, block: &mut Vec<C>) -> bool {
        let Some([a, b]) = self.factors(schedule, device) else { return false };
        let start = block.len();
        block.resize(start + self.kept(schedule).iter().product::<usize>(), C::default());
        product_into(&mut block[start..], self.einsum(schedule), &a, &b, Before::Replaced)
    }

    fn kept(&self, schedule: &Schedule) -> Vec<usize> {
        sizes(&schedule.operation(self.value()).extents)
    }

    /// The operand parts that the box needs; `None` if an operand or the box is absent.
    fn factors(&self, schedule: &Schedule, device: DeviceId) -> Option<[Tensor; 2]> {
        let einsum = self.einsum(schedule);
        let [a, b] = self.deferred.operands.each_ref().map(|blocks| blocks[device.index()].as_ref());
        let (a, b) = (a?, b?);
        let mut from = schedule.operation(self.of);
        let mut dims: Option<Vec<Range<usize>>> = None;
        for id in &self.slices {
            let slice = schedule.operation(*id);
            let (view, regions) = slice.kind.properties().regions;
            let ranges = region_at(&regions[0], view, &schedule.mesh, device)?;
            let inner = joined(&ranges, view, &from.extents).expect("the slice of a product is a box of it");
            dims = Some(match dims {
                None => inner,
                Some(outer) => within(&outer, &inner),
            });
            from = slice;
        }
        let dims = dims.expect("a part has a slice");
        Some([(0, a), (1, b)].map(|(place, tensor)| narrowed(einsum, place, tensor, &dims)))
    }
}

/// Whether a slice of a product is itself deferred.
#[cfg(test)]
pub(super) fn is_only_sliced(schedule: &Schedule, product: OpId, slice: OpId) -> bool {
    let deferred = Deferred { operands: [Vec::new(), Vec::new()] };
    Part::new(product, deferred, slice).is_only_sliced(schedule)
}

/// A box inside a box.
fn within(outer: &[Range<usize>], inner: &[Range<usize>]) -> Vec<Range<usize>> {
    let shift = |(outer, inner): (&Range<usize>, &Range<usize>)| outer.start + inner.start..outer.start + inner.end;
    outer.iter().zip(inner).map(shift).collect()
}

/// The part of an operand that contributes to a box of the result.
fn narrowed(einsum: &Einsum, place: usize, operand: &Tensor, dims: &[Range<usize>]) -> Tensor {
    let range = |(index, extent): (&Index, &usize)| {
        let dim = einsum.result.iter().position(|other| other == index);
        dim.map_or(0..*extent, |dim| dims[dim].clone())
    };
    let ranges: Vec<Range<usize>> = einsum.operands[place].iter().zip(&operand.view().extents).map(range).collect();
    let view: View = operand.view().cut(&ranges);
    operand.with_view(view)
}
