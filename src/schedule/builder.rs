//! Construction of schedules; extents and dtypes of results follow from the operands.

use super::detours::{Detours, WeakLink};
use super::view::region_extents;
use super::{ArrayId, CoordMap, Cut, OpId, OpKind, Operation, Region, Route, Schedule, Sources};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Filler, Function};
use crate::kernel::Kernel;
use crate::layout::{DimId, Sharding};
use crate::mesh::{AxisId, Mesh};
use crate::operator::Operator;
use crate::shift::Shift;
use crate::span::Span;
use std::ops::Range;
use std::sync::Arc;

/// Adds operations of one step of a plan to a schedule.
///
/// Extents and dtypes follow from the operands, which must exist and match. Other errors are found by
/// [`verify`](super::verify).
///
/// # Panics
/// All methods, if an operand does not exist or lacks a dim.
#[derive(Debug)]
pub struct Builder<'a> {
    schedule: &'a mut Schedule,
    step: u32,
    method: Option<&'static str>,
    span: Span,
    equal_copies: bool,
    detours: Option<&'a Detours>,
}

impl<'a> Builder<'a> {
    /// Appends to `schedule`.
    pub fn new(schedule: &'a mut Schedule, step: u32, span: Span) -> Builder<'a> {
        Builder { schedule, step, method: None, span, equal_copies: false, detours: None }
    }

    /// Marks the following operations with a method.
    pub fn by(&mut self, method: &'static str) -> Builder<'_> {
        Builder { schedule: self.schedule, method: Some(method), ..*self }
    }

    /// For sums of floats whose replicas must be bitwise equal.
    pub fn with_equal_copies(&mut self, equal_copies: bool) -> Builder<'_> {
        Builder { schedule: self.schedule, equal_copies, ..*self }
    }

    /// For machines with weak links: messages of one hop over them are split among the paths around them.
    pub fn around<'b>(&'b mut self, detours: &'b Detours) -> Builder<'b> {
        Builder { schedule: self.schedule, detours: Some(detours), ..*self }
    }

    /// Whether terms of this value must be added in the same order on every device.
    pub fn keeps_order(&self, value: OpId) -> bool {
        self.equal_copies && self.dtype(value).is_float()
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.schedule.mesh
    }

    /// The methods of the operations so far.
    pub fn methods(&self) -> Vec<&'static str> {
        self.schedule.operations.node_weights().filter_map(|operation| operation.method).collect()
    }

    /// Local extents of a value.
    pub fn extents(&self, value: OpId) -> &[u64] {
        &self.schedule.operation(value).extents
    }

    /// Dtype of a value.
    pub fn dtype(&self, value: OpId) -> DType {
        self.schedule.operation(value).dtype
    }

    /// Adds the shard of an input.
    ///
    /// # Panics
    /// If the schedule has no such array, or its mesh lacks an axis of the sharding.
    pub fn input(&mut self, array: ArrayId, sharding: Sharding) -> OpId {
        let Schedule { mesh, arrays, .. } = &*self.schedule;
        let dense = &arrays[array.index()];
        let extents = dense.extents.iter().zip(&sharding.dims).map(|(size, axes)| size / axes.group_size(mesh));
        let (dtype, extents) = (dense.dtype, extents.collect());
        self.push(OpKind::Input { array, sharding }, dtype, extents, &[])
    }

    /// Adds a slice: a region of a view of the block.
    ///
    /// # Panics
    /// If the view does not refine the block, or the region does not have one valid cut per dim.
    pub fn slice(&mut self, value: OpId, view: Vec<u64>, region: Region) -> OpId {
        let extents = region_extents(self.extents(value), &view, &region).expect("the view refines the block");
        self.push_like(value, OpKind::Slice { view, region }, extents)
    }

    /// Adds a slice that keeps one of `count` blocks of a dim: `[.., e, ..] -> [.., e / count, ..]`.
    ///
    /// # Panics
    /// If the dim does not divide evenly.
    pub fn slice_block(&mut self, value: OpId, dim: usize, count: u64, block: CoordMap) -> OpId {
        let view = split(self.extents(value), dim, count);
        let mut region = vec![Cut::Whole; view.len()];
        region[dim] = Cut::At(block);
        self.slice(value, view, region)
    }

    /// Adds a slice that keeps the same range of a dim on every device.
    ///
    /// # Panics
    /// If the range exceeds the dim.
    pub fn slice_range(&mut self, value: OpId, dim: usize, range: Range<u64>) -> OpId {
        let view = self.extents(value).to_vec();
        let mut region = vec![Cut::Whole; view.len()];
        region[dim] = Cut::Range { start: range.start, end: range.end };
        self.slice(value, view, region)
    }

    /// Adds a shuffle of whole blocks, or several if messages of one hop cross [weak links](Builder::around).
    pub fn shuffle(&mut self, value: OpId, sources: Sources, route: Route) -> OpId {
        let Some(detours) = self.detours.filter(|_| matches!(route, Route::Hops(1 | -1))) else {
            return self.shuffle_directly(value, sources, route);
        };
        let mut entries = detours.entries(self.mesh(), &sources);
        let is_crossed = |link: &&WeakLink| entries[link.to as usize] == Some(link.from);
        let crossed: Vec<&WeakLink> = detours.links.iter().filter(is_crossed).collect();
        if crossed.is_empty() {
            return self.shuffle_directly(value, sources, route);
        }
        crossed.iter().for_each(|link| entries[link.to as usize] = None);
        let mut values = Vec::new();
        if entries.iter().any(Option::is_some) {
            let sources = Sources::Table { axes: detours.axes.iter().collect(), entries };
            values.push(self.shuffle_directly(value, sources, Route::Shortest));
        }
        for link in crossed {
            let moved = self.detoured(value, detours, link);
            values.push(moved);
        }
        self.either(values)
    }

    fn shuffle_directly(&mut self, value: OpId, sources: Sources, route: Route) -> OpId {
        let extents = self.extents(value).to_vec();
        self.push_like(value, OpKind::Shuffle { sources, route }, extents)
    }

    /// A block sent along all paths of a link: each takes a range of the longest dim.
    fn detoured(&mut self, value: OpId, detours: &Detours, link: &WeakLink) -> OpId {
        let extents = self.extents(value).to_vec();
        let longest = extents.iter().enumerate().max_by_key(|(_, extent)| **extent).map(|(dim, extent)| (dim, *extent));
        let (dim, length) = longest.unwrap_or((0, 1));
        let total: u64 = link.paths.iter().map(|path| path.weight).sum();
        let mut pieces = Vec::new();
        let (mut weight, mut start) = (0, 0);
        for path in &link.paths {
            weight += path.weight;
            // The nearest whole element.
            let end = (2 * u128::from(length) * u128::from(weight) + u128::from(total)) / (2 * u128::from(total));
            let end = u64::try_from(end).expect("at most the length");
            if start == end {
                continue;
            }
            let mut part = if extents.is_empty() { value } else { self.slice_range(value, dim, start..end) };
            let mut at = link.from;
            for stop in &path.stops {
                let mut entries =
                    vec![None; usize::try_from(detours.axes.group_size(self.mesh())).expect("devices of the mesh")];
                entries[*stop as usize] = Some(at);
                let sources = Sources::Table { axes: detours.axes.iter().collect(), entries };
                part = self.shuffle_directly(part, sources, Route::Shortest);
                at = *stop;
            }
            let mut region = vec![Cut::Whole; extents.len()];
            region.iter_mut().skip(dim).take(1).for_each(|cut| *cut = Cut::Range { start, end });
            pieces.push((part, region));
            start = end;
        }
        self.assemble(extents.clone(), extents, pieces)
    }

    /// Merges values of which no device has more than one.
    pub(super) fn either(&mut self, values: Vec<OpId>) -> OpId {
        if let [only] = values[..] {
            return only;
        }
        let extents = self.extents(values[0]).to_vec();
        let whole = vec![Cut::Whole; extents.len()];
        self.assemble(extents.clone(), extents, values.into_iter().map(|value| (value, whole.clone())).collect())
    }

    /// Number of operations so far.
    pub fn count(&self) -> usize {
        self.schedule.operations.node_count()
    }

    /// Lists the operations from `first` on by the time at which each could start if links were idle. Links serve messages
    /// in list order, so a message that is listed before earlier ones delays them. Messages around a weak
    /// link count half: one after another, they should not delay the next exchange.
    ///
    /// - `values`: those that are still to be used; they get their new ids.
    pub fn list_by_start<'v>(&mut self, first: usize, values: impl IntoIterator<Item = &'v mut OpId>) {
        let tail: Vec<OpId> = (first..self.count()).map(OpId::new).collect();
        let operands: Vec<Vec<OpId>> = tail.iter().map(|id| self.schedule.operands(*id)).collect();
        let mut starts: Vec<u64> = Vec::with_capacity(tail.len());
        let mut ends: Vec<u64> = Vec::with_capacity(tail.len());
        for (id, operands) in tail.iter().zip(&operands) {
            let before = operands.iter().filter_map(|operand| operand.index().checked_sub(first));
            let start = before.map(|place| ends[place]).max().unwrap_or(0);
            starts.push(start);
            ends.push(start + self.duration(*id));
        }
        let mut removed: Vec<Option<Operation>> =
            tail.iter().rev().map(|id| self.schedule.operations.remove_node(*id)).collect();
        removed.reverse();
        let mut order: Vec<usize> = (0..tail.len()).collect();
        order.sort_by_key(|place| starts[*place]);
        let mut renamed: Vec<OpId> = tail.clone();
        for place in order {
            let new = |id: &OpId| id.index().checked_sub(first).map_or(*id, |place| renamed[place]);
            let operands: Vec<OpId> = operands[place].iter().map(new).collect();
            let operation = removed[place].take().expect("each is listed once");
            renamed[place] = self.schedule.push(operation, &operands);
        }
        for value in values {
            *value = value.index().checked_sub(first).map_or(*value, |place| renamed[place]);
        }
    }

    /// The bytes of each message of a shuffle, half of those of a single message; 0 for other operations.
    fn duration(&self, id: OpId) -> u64 {
        let operation = self.schedule.operation(id);
        match &operation.kind {
            OpKind::Shuffle { sources: Sources::Table { entries, .. }, .. }
                if entries.iter().flatten().count() == 1 =>
            {
                operation.bytes() / 2
            }
            OpKind::Shuffle { .. } => operation.bytes(),
            _ => 0,
        }
    }

    /// Adds an elementwise combination; a single value is returned unchanged.
    ///
    /// # Panics
    /// If there are no values.
    pub fn add(&mut self, values: &[OpId], operator: Operator) -> OpId {
        if let [only] = values {
            return *only;
        }
        let extents = self.extents(values[0]).to_vec();
        let dtype = self.dtype(values[0]);
        self.push(OpKind::Add { operator }, dtype, extents, values)
    }

    /// Adds an assembly of pieces into a block of these extents, each at its region of the view.
    ///
    /// # Panics
    /// If there are no pieces.
    pub fn assemble(&mut self, extents: Vec<u64>, view: Vec<u64>, pieces: Vec<(OpId, Region)>) -> OpId {
        self.assemble_on(false, extents, view, pieces)
    }

    /// As [`Builder::assemble`], with zeros where there is no piece.
    ///
    /// # Panics
    /// If there are no pieces.
    pub fn assemble_on_zeros(&mut self, extents: Vec<u64>, view: Vec<u64>, pieces: Vec<(OpId, Region)>) -> OpId {
        self.assemble_on(true, extents, view, pieces)
    }

    fn assemble_on(&mut self, zeros: bool, extents: Vec<u64>, view: Vec<u64>, pieces: Vec<(OpId, Region)>) -> OpId {
        let (values, places): (Vec<OpId>, Vec<Region>) = pieces.into_iter().unzip();
        let dtype = self.dtype(values[0]);
        self.push(OpKind::Assemble { view, places, zeros }, dtype, extents, &values)
    }

    /// Adds an AllGather along a dim in rank order, as one operation.
    pub fn all_gather_kept(&mut self, axes: Vec<AxisId>, value: OpId, dim: usize) -> OpId {
        let mut extents = self.extents(value).to_vec();
        extents[dim] *= self.mesh().group_size(axes.iter().copied());
        self.push_like(value, OpKind::AllGather { axes, dim }, extents)
    }

    /// Adds an in-switch sum of the blocks of a replica group.
    pub fn switch_sum(&mut self, axes: Vec<AxisId>, value: OpId, operator: Operator) -> OpId {
        let extents = self.extents(value).to_vec();
        self.push_like(value, OpKind::SwitchSum { axes, operator }, extents)
    }

    /// Adds a local product with results of type `dtype`.
    ///
    /// # Panics
    /// If the extents of the operands do not match the einsum.
    pub fn mat_mul(&mut self, operands: [OpId; 2], einsum: Einsum, dtype: DType) -> OpId {
        let extents = self.result_extents(&operands, &einsum);
        self.push(OpKind::MatMul { einsum }, dtype, extents, &operands)
    }

    /// Adds a local reduction over the contracted dims of the einsum.
    ///
    /// # Panics
    /// If the einsum does not match the block.
    pub fn reduce(&mut self, operator: Operator, operand: OpId, einsum: Einsum) -> OpId {
        let extents = self.result_extents(&[operand], &einsum);
        let dtype = operator.reduced(self.dtype(operand));
        self.push(OpKind::Reduce { operator, einsum }, dtype, extents, &[operand])
    }

    /// Adds a declared kernel with results of type `dtype`.
    ///
    /// # Panics
    /// If the blocks do not match the kernel.
    pub fn kernel(&mut self, operands: &[OpId], kernel: Arc<Kernel>, dtype: DType) -> OpId {
        let extents: Vec<Vec<u64>> = operands.iter().map(|operand| self.extents(*operand).to_vec()).collect();
        let lengths = kernel.block(&extents).expect("the planner keeps whole dims whole");
        let extents = kernel.result(&lengths);
        self.push(OpKind::Kernel(kernel), dtype, extents, operands)
    }

    /// Adds a unary function.
    ///
    /// # Panics
    /// If the function is not unary or does not support the dtype.
    pub fn map_each(&mut self, function: Function, operand: OpId) -> OpId {
        let dims: Vec<DimId> = (0..).map(DimId).take(self.extents(operand).len()).collect();
        self.map(function, &[operand], Einsum::new(std::slice::from_ref(&dims), &dims))
    }

    /// Adds an elementwise function.
    ///
    /// # Panics
    /// If the extents or dtypes of the operands do not match.
    pub fn map(&mut self, function: Function, operands: &[OpId], einsum: Einsum) -> OpId {
        let extents = self.result_extents(operands, &einsum);
        let dtypes: Vec<DType> = operands.iter().map(|operand| self.dtype(*operand)).collect();
        let dtype = function.dtype(&dtypes).expect("the checker has seen the dtypes");
        self.push(OpKind::Map { function, einsum }, dtype, extents, operands)
    }

    /// Adds a fill of the lanes of a dim from `valid` on, for an array whose dim is sharded by `axes`.
    pub fn fill(&mut self, value: OpId, dim: usize, valid: u64, with: Filler, axes: &[AxisId]) -> OpId {
        let block = CoordMap::rank(self.mesh(), axes);
        let extents = self.extents(value).to_vec();
        self.push_like(value, OpKind::Fill { dim, valid, with, block }, extents)
    }

    /// Adds the last step of a shift along a dim of this length, sharded by `axes`: the block holds the elements that come from
    /// the distance before, and becomes 0 where there are none.
    pub fn shift(&mut self, value: OpId, shift: Shift, length: u64, axes: &[AxisId]) -> OpId {
        let block = CoordMap::rank(self.mesh(), axes);
        let extents = self.extents(value).to_vec();
        self.push_like(value, OpKind::Shift { shift, length, block }, extents)
    }

    /// Adds a mask: the first device along the axes keeps its block, the others get zeros.
    pub fn mask(&mut self, value: OpId, axes: Vec<AxisId>) -> OpId {
        let extents = self.extents(value).to_vec();
        self.push_like(value, OpKind::Mask { axes }, extents)
    }

    /// Adds a reshape: the same elements in row-major order, in a block of other extents.
    pub fn reshape(&mut self, value: OpId, extents: Vec<u64>) -> OpId {
        if self.extents(value) == extents { value } else { self.push_like(value, OpKind::Reshape, extents) }
    }

    fn result_extents(&self, operands: &[OpId], einsum: &Einsum) -> Vec<u64> {
        let extents: Vec<Vec<u64>> = operands.iter().map(|operand| self.extents(*operand).to_vec()).collect();
        let lengths = einsum.lengths(&extents).expect("blocks that meet have equal extents");
        einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect()
    }

    fn push_like(&mut self, value: OpId, kind: OpKind, extents: Vec<u64>) -> OpId {
        self.push(kind, self.dtype(value), extents, &[value])
    }

    fn push(&mut self, kind: OpKind, dtype: DType, extents: Vec<u64>, operands: &[OpId]) -> OpId {
        let operation = Operation { kind, dtype, extents, step: self.step, method: self.method, span: self.span };
        self.schedule.push(operation, operands)
    }
}

/// Extents with one dim split into `count` blocks: `[.., e, ..] -> [.., count, e / count, ..]`. A scalar is one block:
/// `[] -> [1]`.
pub(super) fn split(extents: &[u64], dim: usize, count: u64) -> Vec<u64> {
    let mut view = extents.to_vec();
    match view.get_mut(dim) {
        Some(extent) => *extent /= count,
        None => assert_eq!((dim, count), (0, 1), "a scalar is cut in one block"),
    }
    view.insert(dim, count);
    view
}
