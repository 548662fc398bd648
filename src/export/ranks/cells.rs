//! The cells of a schedule: the pieces of its array that none of its operations splits.
//!
//! Cells may differ in size: a torus of unequal sides divides an array unevenly. The same schedule on an array with one
//! element per cell moves cells as the original moves elements.
//!
//! Where an operation cuts a block, the blocks that it comes from and that are made from it are cut, too. A dim of a
//! view divides its dim into equal parts, which are all cut alike: the *pattern* of the view's innermost dim.

use super::refused::{MOST_CHUNKS, Refused};
use crate::layout::Sharding;
use crate::schedule::view::groups;
use crate::schedule::{Cut, OpId, OpKind, Region, Schedule};

/// A schedule with cells as elements.
pub(in crate::export) struct Cells {
    /// The schedule.
    pub(in crate::export) schedule: Schedule,
    /// Elements of each cell of the array, in row-major order.
    pub(in crate::export) sizes: Vec<u64>,
}

/// Cuts along a dim: sorted positions between its ends.
type Cuts = Vec<u64>;

/// The schedule of one collective with cells as elements.
///
/// # Errors
/// If there are too many cells.
pub(in crate::export) fn in_cells(schedule: &Schedule) -> Result<Cells, Refused> {
    let mut cutting = Cutting::new(schedule);
    while cutting.pass()? {}
    Ok(cutting.cells())
}

/// The cuts found so far.
struct Cutting<'s> {
    schedule: &'s Schedule,
    /// Cuts of the array, by dim.
    array: Vec<Cuts>,
    /// Cuts of the block of each operation, by dim.
    blocks: Vec<Vec<Cuts>>,
}

/// The innermost dim longer than 1 of a part of a view, and what a region keeps of it.
#[derive(Clone, Copy)]
struct Inner {
    length: u64,
    start: u64,
    end: u64,
    /// Whether the region is a single element that differs between devices.
    is_one: bool,
}

impl Inner {
    fn whole(length: u64) -> Inner {
        Inner { length, start: 0, end: length, is_one: false }
    }

    fn of(length: u64, cut: &Cut) -> Inner {
        match *cut {
            Cut::Whole => Inner::whole(length),
            Cut::Range { start, end } => Inner { length, start, end, is_one: false },
            Cut::At(_) => Inner { length, start: 0, end: 1, is_one: true },
        }
    }
}

impl<'s> Cutting<'s> {
    fn new(schedule: &'s Schedule) -> Cutting<'s> {
        let none = |dims: usize| vec![Cuts::new(); dims];
        let blocks = schedule.ids().map(|id| none(schedule.operation(id).extents.len())).collect();
        Cutting { schedule, array: none(schedule.arrays[0].extents.len()), blocks }
    }

    /// Passes cuts on from operands to results and back; false if there was nothing to pass on.
    fn pass(&mut self) -> Result<bool, Refused> {
        let forward: Vec<OpId> = self.schedule.ids().collect();
        let back = forward.iter().rev().copied();
        let mut changed = false;
        for id in forward.iter().copied().chain(back) {
            changed |= self.operation(id);
        }
        let output = &self.schedule.outputs[0];
        changed |= self.share(&output.sharding, output.value);
        let count = |cuts: &Vec<Cuts>| cuts.iter().map(|cuts| cuts.len() as u64 + 1).fold(1, u64::saturating_mul);
        let most = self.blocks.iter().chain([&self.array]).map(count).max();
        if most.is_some_and(|most| most > MOST_CHUNKS) { Err(Refused::TooLarge) } else { Ok(changed) }
    }

    fn operation(&mut self, id: OpId) -> bool {
        let operands = self.schedule.operands(id);
        match &self.schedule.operation(id).kind {
            OpKind::Input { sharding, .. } => self.share(sharding, id),
            OpKind::Slice { view, region } => self.views(operands[0], view, &[(id, region)]),
            OpKind::Assemble { view, places, .. } => {
                let parts: Vec<(OpId, &Region)> = operands.iter().copied().zip(places).collect();
                self.views(id, view, &parts)
            }
            _ => operands.into_iter().fold(false, |changed, operand| changed | self.alike(operand, id)),
        }
    }

    /// A shard of the array: all shards are cut alike.
    fn share(&mut self, sharding: &Sharding, id: OpId) -> bool {
        let (mesh, extents) = (&self.schedule.mesh, &self.schedule.arrays[0].extents);
        let mut changed = false;
        for (dim, extent) in extents.iter().enumerate() {
            let inner = Inner::whole(extent / sharding.dims[dim].group_size(mesh));
            let part = (inner.length, &mut self.blocks[id.index()][dim]);
            changed |= relate((*extent, &mut self.array[dim]), inner, part);
        }
        changed
    }

    /// Regions of a view of a block, and the values that are there.
    fn views(&mut self, whole: OpId, view: &[u64], parts: &[(OpId, &Region)]) -> bool {
        let extents = &self.schedule.operation(whole).extents;
        let mut changed = false;
        for (dim, place) in innermost(extents, view).into_iter().enumerate() {
            let Some(place) = place else { continue };
            let mut cuts = std::mem::take(&mut self.blocks[whole.index()][dim]);
            for (part, region) in parts {
                let inner = Inner::of(view[place], &region[place]);
                let extent = self.schedule.operation(*part).extents[dim];
                changed |= relate((extents[dim], &mut cuts), inner, (extent, &mut self.blocks[part.index()][dim]));
            }
            self.blocks[whole.index()][dim] = cuts;
        }
        changed
    }

    /// Two blocks of equal extents.
    fn alike(&mut self, one: OpId, other: OpId) -> bool {
        let mut changed = false;
        for dim in 0..self.blocks[other.index()].len() {
            let mut cuts = std::mem::take(&mut self.blocks[one.index()][dim]);
            let extent = self.schedule.operation(other).extents[dim];
            let other = (extent, &mut self.blocks[other.index()][dim]);
            changed |= relate((extent, &mut cuts), Inner::whole(extent), other);
            self.blocks[one.index()][dim] = cuts;
        }
        changed
    }

    fn cells(self) -> Cells {
        let mut small = self.schedule.clone();
        let count = |cuts: &Cuts| cuts.len() as u64 + 1;
        small.arrays[0].extents = self.array.iter().map(count).collect();
        small.arrays[0].valid = small.arrays[0].extents.clone();
        for id in self.schedule.ids() {
            let whole = match &self.schedule.operation(id).kind {
                OpKind::Slice { .. } => self.schedule.operands(id)[0],
                _ => id,
            };
            let shrink = |view: &mut [u64], regions: &mut [Region]| {
                let extents = &self.schedule.operation(whole).extents;
                for (dim, place) in innermost(extents, view).into_iter().enumerate() {
                    let Some(place) = place else { continue };
                    let length = view[place];
                    let below = |end: u64| self.blocks[whole.index()][dim].partition_point(|cut| *cut < end) as u64;
                    // The number of cells before a position of the first part.
                    let cell = |at: u64| if at == 0 { 0 } else { below(at) + 1 };
                    for region in &mut *regions {
                        if let Cut::Range { start, end } = &mut region[place] {
                            (*start, *end) = (cell(*start), cell(*end));
                        }
                    }
                    view[place] = cell(length);
                }
            };
            let operation = &mut small.operations[id];
            match &mut operation.kind {
                OpKind::Slice { view, region } => shrink(view, std::slice::from_mut(region)),
                OpKind::Assemble { view, places, .. } => shrink(view, places),
                _ => {}
            }
            operation.extents = self.blocks[id.index()].iter().map(count).collect();
        }
        let lengths = |(cuts, extent): (&Cuts, &u64)| {
            let ends = cuts.iter().copied().chain([*extent]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            ends.zip(starts).map(|(end, start)| end - start).collect::<Vec<u64>>()
        };
        let dims = self.array.iter().zip(&self.schedule.arrays[0].extents).map(lengths);
        let sizes = dims.fold(vec![1], |sizes: Vec<u64>, lengths| {
            sizes.iter().flat_map(|size| lengths.iter().map(move |length| size * length)).collect()
        });
        Cells { schedule: small, sizes }
    }
}

/// Makes the cuts along a dim of a block, and of a part that a view takes of it, agree; true if any is new.
///
/// - `whole`, `part`: the length of the dim, and its cuts.
fn relate(whole: (u64, &mut Cuts), inner: Inner, part: (u64, &mut Cuts)) -> bool {
    let Inner { length, start, end, is_one } = inner;
    let (before, kept) = ([whole.1.len(), part.1.len()], end - start);
    let mut pattern: Cuts = whole.1.iter().map(|cut| cut % length).collect();
    pattern.extend(part.1.iter().map(|cut| start + cut % kept));
    pattern.extend([start, end]);
    if is_one {
        pattern.extend(0..length);
    }
    pattern.retain(|cut| *cut > 0 && *cut < length);
    pattern.sort_unstable();
    pattern.dedup();
    *whole.1 = repeated(whole.0, length, &pattern);
    let inside: Cuts = pattern.iter().filter(|cut| start < **cut && **cut < end).map(|cut| cut - start).collect();
    *part.1 = repeated(part.0, kept, &inside);
    before != [whole.1.len(), part.1.len()]
}

/// The cuts of a dim that consists of parts of one length, all cut by one pattern.
fn repeated(extent: u64, length: u64, pattern: &[u64]) -> Cuts {
    let starts = (0..extent / length).map(|number| number * length);
    let all = starts.flat_map(|start| [start].into_iter().chain(pattern.iter().map(move |cut| start + cut)));
    all.filter(|cut| *cut > 0).collect()
}

/// For each dim, the position of the innermost view dim that is longer than 1.
fn innermost(extents: &[u64], view: &[u64]) -> Vec<Option<usize>> {
    let dims = groups(view, extents).expect("the view refines the extents").into_iter();
    dims.map(|dims| dims.rev().find(|place| view[*place] > 1)).collect()
}
