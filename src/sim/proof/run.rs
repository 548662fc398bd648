//! Symbolic execution of a schedule, one operation and device at a time.

use super::Proof;
use super::block::{Block, Holding, Piece, TooManyPieces};
use super::boxes::{self, Cuboid, Interval};
use super::claims::Value;
use super::compute;
use super::cut;
use super::flaw::{Flaw, Site};
use super::parts::{Clash, Parts};
use super::symmetry::{self, Symmetry};
use super::terms::{Pending, TermId, Terms};
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::presence::Presence;
use crate::schedule::view::region_at;
use crate::schedule::{ArrayId, Dense, OpId, OpKind, Operation, Output, Region, Schedule, Verified};
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Maximum of devices times operations and operands. A value on a device takes a few machine words even if it is
/// shared.
pub(super) const MOST_VALUES: usize = 1 << 25;
/// Maximum number of pieces and contribution sets created in total.
pub(super) const MOST_PIECES: usize = 1 << 26;
/// Maximum number of piece pairs compared in one addition of two operands.
const MOST_PAIRS: usize = 1 << 22;

/// The reason why a proof ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The schedule is wrong.
    Flaw(Flaw),
    /// Devices along this axis are not symmetric, so one cannot represent all.
    Asymmetric(AxisId),
}

impl From<Flaw> for Stop {
    fn from(flaw: Flaw) -> Stop {
        Stop::Flaw(flaw)
    }
}

/// The state from which a group operation starts.
enum Group {
    /// The result, if known: the block of the first member, or `None` if no member has a block.
    Block(Option<Rc<Block>>),
    /// The blocks of all members, in rank order.
    Blocks(Vec<Rc<Block>>),
}

/// A proof in progress.
pub(super) struct Run<'a> {
    pub(super) schedule: Verified<'a>,
    pub(super) symmetry: Symmetry,
    pub(super) terms: Terms,
    /// The term of each declared array.
    pub(super) arrays: Vec<TermId>,
    pub(super) closed: Rc<Parts>,
    pieces: usize,
}

/// Runs all operations on one device per orbit, then checks the outputs.
///
/// If a flaw is found, the run is repeated on all devices, unless there are too many, to report the first flaw.
pub(super) fn run(schedule: Verified<'_>) -> Result<Proof, Flaw> {
    let mut axes = symmetry::candidates(schedule);
    loop {
        let symmetry = Symmetry::new(schedule, axes);
        axes = symmetry.orbits.axes();
        match follow(schedule, symmetry) {
            Ok(proof) => return Ok(proof),
            Err(Stop::Asymmetric(axis)) => axes = axes.without(AxisSet::one(axis)),
            Err(Stop::Flaw(flaw)) if axes.is_empty() => return Err(flaw),
            Err(Stop::Flaw(flaw)) => {
                return run_uncollapsed(schedule).map_err(|first| match first {
                    Flaw::TooLarge { .. } => flaw,
                    first => first,
                });
            }
        }
    }
}

/// Runs all operations on all devices.
pub(super) fn run_uncollapsed(schedule: Verified<'_>) -> Result<Proof, Flaw> {
    follow(schedule, Symmetry::new(schedule, AxisSet::NONE)).map_err(|stop| match stop {
        Stop::Flaw(flaw) => flaw,
        Stop::Asymmetric(_) => unreachable!("every device stands for itself"),
    })
}

/// Callback that receives each value of the run.
pub(super) type Seen<'s> = &'s mut dyn FnMut(&mut Run<'_>, OpId, &Value) -> Result<(), Stop>;

fn follow(schedule: Verified<'_>, symmetry: Symmetry) -> Result<Proof, Stop> {
    follow_telling(schedule, symmetry, &mut |_, _, _| Ok(()))
}

/// Runs all operations and passes each value to `seen` before it is dropped.
pub(super) fn follow_telling(schedule: Verified<'_>, symmetry: Symmetry, seen: Seen<'_>) -> Result<Proof, Stop> {
    let (operations, devices) = (schedule.operations.node_count(), schedule.mesh.device_count());
    let (operands, followed) = (schedule.operations.edge_count(), symmetry.orbits.representatives().len());
    if (operations + operands).saturating_mul(followed) > MOST_VALUES {
        let what = format!("{operations} operations with {operands} operands on {followed} devices");
        return Err(Flaw::TooLarge { what }.into());
    }
    let closed = Rc::new(Parts::closed());
    let mut run = Run { schedule, symmetry, terms: Terms::default(), arrays: Vec::new(), closed, pieces: 0 };
    run.declare_arrays()?;
    let mut uses = schedule.uses();
    let mut assertions: FxHashMap<OpId, Vec<&Output>> = FxHashMap::default();
    schedule.schedule().assertions.iter().for_each(|own| assertions.entry(own.value).or_default().push(own));
    let mut values: Vec<Value> = Vec::with_capacity(operations);
    for id in schedule.ids() {
        let operands = schedule.operands(id);
        let given: Vec<&Value> = operands.iter().map(|operand| &values[operand.index()]).collect();
        let value = run.operation(id, &given)?;
        run.spend(value.blocks.iter().flatten().map(|block| block.pieces.len()).sum())?;
        seen(&mut run, id, &value)?;
        for asserted in assertions.get(&id).into_iter().flatten() {
            run.output(asserted, &value)?;
        }
        values.push(value);
        for operand in operands {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                values[operand.index()] = Value::default();
            }
        }
    }
    for output in &schedule.outputs {
        run.output(output, &values[output.value.index()])?;
    }
    let (collapsed, kernels) = (run.symmetry.orbits.axes(), kernels(schedule.schedule()));
    Ok(Proof { operations, devices, followed, collapsed, pieces: run.pieces, segments: 0, kernels })
}

/// Names of the declared kernels that the arrays of a schedule use.
pub(super) fn kernels(schedule: &Schedule) -> Vec<String> {
    let called = schedule.arrays.iter().filter_map(|array| match &array.definition {
        Dense::Kernel { kernel, .. } => Some(kernel.name.clone()),
        Dense::Input { .. } | Dense::Product { .. } | Dense::Reduce { .. } | Dense::Map { .. } => None,
    });
    called.unique().collect()
}

impl Run<'_> {
    fn declare_arrays(&mut self) -> Result<(), Flaw> {
        for (place, array) in self.schedule.arrays.iter().enumerate() {
            let term = self.terms.declare(place, array, &self.arrays).ok_or_else(|| Flaw::MalformedArray {
                array: array.name.clone(),
                what: "its operands are too large".to_owned(),
            })?;
            self.arrays.push(term);
        }
        Ok(())
    }

    /// Adds `pieces` to the total and checks it against the limit.
    pub(super) fn spend(&mut self, pieces: usize) -> Result<(), Flaw> {
        self.pieces = self.pieces.saturating_add(pieces);
        if self.pieces <= MOST_PIECES {
            return Ok(());
        }
        Err(Flaw::TooLarge { what: format!("more than {MOST_PIECES} pieces") })
    }

    pub(super) fn mesh(&self) -> &Mesh {
        &self.schedule.mesh
    }

    pub(super) fn site(&self, id: OpId, device: DeviceId) -> Site {
        Site::new(self.mesh(), id, device)
    }

    fn operation(&mut self, id: OpId, operands: &[&Value]) -> Result<Value, Stop> {
        let blocks = self.blocks(id, operands)?;
        let claims = self.claims(id, operands, &blocks)?;
        Ok(Value { blocks, claims })
    }

    /// The blocks that an operation produces on the representatives.
    fn blocks(&mut self, id: OpId, operands: &[&Value]) -> Result<Vec<Option<Rc<Block>>>, Stop> {
        let schedule = self.schedule.schedule();
        let (operation, presence) = (schedule.operation(id), Presence::of(self.schedule, id));
        let count = self.symmetry.orbits.representatives().len();
        let mut blocks = Vec::with_capacity(count);
        for class in 0..count {
            let device = self.symmetry.orbits.representatives()[class];
            let at =
                || -> Vec<Option<&Rc<Block>>> { operands.iter().map(|value| value.blocks[class].as_ref()).collect() };
            let all = || -> Vec<&Rc<Block>> { at().into_iter().flatten().collect() };
            let orbits = &self.symmetry.orbits;
            let has = |place: usize, device| operands[place].blocks[orbits.class(device)].is_some();
            let block = match &operation.kind {
                // It is an error if only some members of a group have a block.
                OpKind::AllGather { axes, dim } => self.all_gather(id, device, axes, *dim, operands[0], &blocks)?,
                OpKind::SwitchSum { axes, operator } => {
                    self.switch_sum(id, device, (axes, *operator), operands[0], &blocks)?
                }
                _ if !presence.at(device, has) => None,
                OpKind::Input { array, sharding } => Some(self.input(id, *array, sharding, device)),
                OpKind::Slice { view, region } => Some(self.slice(operation, view, region, device, all()[0])?),
                OpKind::Shuffle { sources, .. } => {
                    let source = sources.of(&schedule.mesh, device).expect("it has a result here");
                    self.image(operands[0], source)?
                }
                OpKind::Add { operator } => self.add(id, device, *operator, &at())?,
                OpKind::Assemble { view, places, zeros } => {
                    let regions = (view.as_slice(), places.as_slice());
                    Some(self.assemble(id, device, regions, *zeros, &at())?)
                }
                OpKind::MatMul { einsum } => Some(compute::product(self, id, device, einsum, &all())?),
                OpKind::Fill { dim, valid, with, block } => {
                    Some(compute::fill(self, id, device, (*dim, *valid, *with), block, all()[0])?)
                }
                OpKind::Shift { shift, length, block } => {
                    Some(compute::shift(self, id, device, (*shift, *length, block), all()[0])?)
                }
                OpKind::Reduce { operator, einsum } => {
                    Some(compute::reduce(self, id, device, *operator, einsum, all()[0])?)
                }
                OpKind::Reshape => Some(Rc::new(all()[0].reshaped(&operation.extents).map_err(too_many)?)),
                OpKind::Mask { axes } => Some(compute::mask(self, id, device, axes, all()[0])?),
                OpKind::Kernel(kernel) => Some(compute::kernel(self, id, device, kernel, &all())?),
                OpKind::Map { function, einsum } => Some(compute::map(self, id, device, *function, einsum, &all())?),
            };
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// The region of an array that a sharding assigns to a device.
    pub(super) fn shard(&self, array: ArrayId, sharding: &Sharding, device: DeviceId) -> Cuboid {
        let extents = &self.schedule.array(array).extents;
        let ranges = extents.iter().enumerate().map(|(dim, extent)| {
            let range = sharding.local_range(dim, *extent, self.mesh(), device);
            Interval { start: range.start, end: range.end }
        });
        ranges.collect()
    }

    /// The term that the pieces of an open array belong to, and the operator that combines them.
    pub(super) fn open_term(
        &mut self,
        array: ArrayId,
        operator: Operator,
        group: u64,
        open: bool,
    ) -> (TermId, Operator) {
        let term = self.arrays[array.index()];
        match operator {
            Operator::Mean if open => (self.terms.pending(term, Pending::Over(group)), Operator::Sum),
            Operator::SquareAdd if open => (self.terms.pending(term, Pending::Square), operator),
            Operator::Sum
            | Operator::Max
            | Operator::Min
            | Operator::Mul
            | Operator::And
            | Operator::Or
            | Operator::Mean
            | Operator::SquareAdd
            | Operator::Root(_) => (term, operator),
        }
    }

    fn input(&mut self, id: OpId, array: ArrayId, sharding: &Sharding, device: DeviceId) -> Rc<Block> {
        let group = sharding.open.group_size(self.mesh());
        let (term, operator) = self.open_term(array, sharding.operator, group, !sharding.open.is_empty());
        let mut limits = Vec::new();
        // An array that only one device holds is complete there.
        let open = if operator.is_root() { AxisSet::NONE } else { sharding.open };
        for axis in open.iter() {
            let start = u64::from(self.mesh().coordinate(device, axis));
            let coordinate = self.terms.open_coordinate(id.index(), axis, &self.schedule.mesh);
            limits.push((coordinate, Interval { start, end: start + 1 }));
        }
        let parts = if limits.is_empty() {
            self.closed.clone()
        } else {
            Rc::new(Parts::limited(operator, &limits, &self.terms))
        };
        let region = self.shard(array, sharding, device);
        let holds = Holding::region(term, &region, parts, &self.terms);
        Rc::new(Block::new(&self.schedule.operation(id).extents, holds))
    }

    fn slice(
        &mut self,
        operation: &Operation,
        view: &[u64],
        region: &Region,
        device: DeviceId,
        operand: &Rc<Block>,
    ) -> Result<Rc<Block>, Flaw> {
        let region = resolve(self.mesh(), view, region, device).expect("it has a result here");
        Ok(Rc::new(cut::slice(operand, view, &region, &operation.extents).map_err(too_many)?))
    }

    fn assemble(
        &mut self,
        id: OpId,
        device: DeviceId,
        (view, places): (&[u64], &[Region]),
        zeros: bool,
        operands: &[Option<&Rc<Block>>],
    ) -> Result<Rc<Block>, Flaw> {
        let mut owners = Vec::new();
        let mut parts: Vec<(&Rc<Block>, Cuboid)> = Vec::new();
        for (owner, (place, operand)) in places.iter().zip(operands).enumerate() {
            if let (Some(operand), Some(region)) = (operand, resolve(self.mesh(), view, place, device)) {
                owners.push(owner);
                parts.push((*operand, region));
            }
        }
        let gap = self.first_gap(id, device, view, &parts, &owners)?;
        let extents = &self.schedule.operation(id).extents;
        if let Some(gap) = gap {
            let whole = if zeros { self.on_zeros(extents, view, &parts)? } else { None };
            return whole.ok_or_else(|| Flaw::Unfilled { site: self.site(id, device), gap });
        }
        Ok(Rc::new(cut::assemble(extents, view, &parts).map_err(too_many)?))
    }

    /// Checks that no position of the view is in two regions. Returns positions that are in none.
    fn first_gap(
        &self,
        id: OpId,
        device: DeviceId,
        view: &[u64],
        parts: &[(&Rc<Block>, Cuboid)],
        owners: &[usize],
    ) -> Result<Option<Vec<(u64, u64)>>, Flaw> {
        let regions: Vec<&[Interval]> = parts.iter().map(|(_, region)| region.as_slice()).collect();
        let pairs = |cuboid: Cuboid| cuboid.into_iter().map(|range| (range.start, range.end)).collect();
        if let Some((left, right)) = boxes::first_overlap(&regions) {
            let overlap = pairs(boxes::intersect(regions[left], regions[right]).unwrap_or_default());
            let operands = (owners[left], owners[right]);
            return Err(Flaw::FilledTwice { site: self.site(id, device), overlap, operands });
        }
        // The regions are disjoint parts of a block of at most 2^61 elements, so the sum of their volumes cannot
        // overflow.
        let filled: Option<u128> = regions.iter().map(|region| boxes::volume(region)).sum();
        let whole = boxes::whole(view);
        if filled == boxes::volume(&whole) {
            return Ok(None);
        }
        Ok(Some(pairs(boxes::first_gap(&whole, &regions).unwrap_or_default())))
    }

    /// The sum of a group's blocks in its switch: the same block for all members.
    ///
    /// - `made`: see [`Run::of_group`].
    fn switch_sum(
        &mut self,
        id: OpId,
        device: DeviceId,
        (axes, operator): (&[AxisId], Operator),
        operand: &Value,
        made: &[Option<Rc<Block>>],
    ) -> Result<Option<Rc<Block>>, Stop> {
        match self.of_group(id, device, axes, operand, made)? {
            Group::Block(block) => Ok(block),
            Group::Blocks(blocks) => {
                let blocks: Vec<Option<&Rc<Block>>> = blocks.iter().map(Some).collect();
                Ok(self.add(id, device, operator, &blocks)?)
            }
        }
    }

    /// The concatenated blocks of a group: the same block for all members.
    ///
    /// - `made`: see [`Run::of_group`].
    fn all_gather(
        &mut self,
        id: OpId,
        device: DeviceId,
        axes: &[AxisId],
        dim: usize,
        operand: &Value,
        made: &[Option<Rc<Block>>],
    ) -> Result<Option<Rc<Block>>, Stop> {
        let blocks = match self.of_group(id, device, axes, operand, made)? {
            Group::Block(block) => return Ok(block),
            Group::Blocks(blocks) => blocks,
        };
        let mut view = self.schedule.operation(id).extents.clone();
        view[dim] /= blocks.len() as u64;
        view.insert(dim, blocks.len() as u64);
        let part = |(rank, block)| {
            let mut region = boxes::whole(&view);
            region[dim] = Interval { start: rank, end: rank + 1 };
            (block, region)
        };
        let parts: Vec<(&Rc<Block>, Cuboid)> = (0..).zip(&blocks).map(part).collect();
        let extents = &self.schedule.operation(id).extents;
        Ok(Some(Rc::new(cut::assemble(extents, &view, &parts).map_err(too_many)?)))
    }

    /// The state from which a group operation starts. It is a flaw if only some members of the group have a block.
    ///
    /// - `made`: results of the representatives before this one. Members of a group share the block of their first
    ///   member.
    fn of_group(
        &mut self,
        id: OpId,
        device: DeviceId,
        axes: &[AxisId],
        operand: &Value,
        made: &[Option<Rc<Block>>],
    ) -> Result<Group, Stop> {
        let members: Vec<DeviceId> = self.schedule.schedule().mesh.group(device, axes).collect();
        // The first member has coordinate 0 along all axes of the group, so it is a representative if this device is
        // one.
        if members[0] < device {
            return Ok(Group::Block(made[self.symmetry.orbits.class(members[0])].clone()));
        }
        let blocks: Vec<Option<Rc<Block>>> =
            members.iter().map(|member| self.image(operand, *member)).collect::<Result<_, Stop>>()?;
        if blocks.iter().all(Option::is_none) {
            return Ok(Group::Block(None));
        }
        let there = |(block, missing): (Option<Rc<Block>>, DeviceId)| {
            block.ok_or_else(|| Flaw::ReadAbsent { site: self.site(id, device), missing }.into())
        };
        Ok(Group::Blocks(blocks.into_iter().zip(members).map(there).collect::<Result<_, Stop>>()?))
    }

    /// Combines blocks piece by piece. All blocks must hold the same elements at each position.
    pub(super) fn add(
        &mut self,
        id: OpId,
        device: DeviceId,
        operator: Operator,
        operands: &[Option<&Rc<Block>>],
    ) -> Result<Option<Rc<Block>>, Flaw> {
        let present: Vec<(usize, &Rc<Block>)> =
            operands.iter().enumerate().filter_map(|(place, block)| Some((place, (*block)?))).collect();
        match present.as_slice() {
            [] => Ok(None),
            [(_, only)] => Ok(Some(Rc::clone(only))),
            [(_, first), ..] => {
                let extents = first.extents.clone();
                let present = aligned(present.iter().map(|(place, block)| (*place, block.as_ref())))?;
                let mut combined = Vec::new();
                let cells = common_cells(&present).ok_or_else(|| too_many(TooManyPieces))?;
                self.spend(cells.len().saturating_mul(present.len()))?;
                for cell in cells {
                    combined.push(self.add_cell(id, device, operator, &cell, &present)?);
                }
                let view = present[0].1.view.clone();
                Ok(Some(Rc::new(Block::fitted(extents, view, combined).map_err(too_many)?)))
            }
        }
    }

    /// Combines the operands inside a box that lies within one piece of each.
    fn add_cell(
        &mut self,
        id: OpId,
        device: DeviceId,
        operator: Operator,
        (at, places): &Cell,
        present: &[(usize, Block)],
    ) -> Result<Piece, Flaw> {
        let blocks = present.iter().zip(places);
        let pieces: Vec<Piece> = blocks.map(|((_, block), place)| block.pieces[*place].cut(at)).collect();
        let first = &pieces[0];
        for other in &pieces[1..] {
            if !first.holds.same_place(&other.holds) {
                return Err(self.wrong(self.site(id, device), first, other));
            }
        }
        let parts: Vec<&Parts> = pieces.iter().map(|piece| piece.holds.parts.as_ref()).collect();
        self.spend(parts.iter().map(|parts| parts.len()).sum())?;
        let sum = Parts::combine(&parts, operator, &self.terms);
        let parts =
            sum.map_err(|clash| self.clash(self.site(id, device), first, operator, clash, |index| present[index].0))?;
        let mut piece = first.clone();
        piece.holds.parts = if parts.is_closed() { self.closed.clone() } else { Rc::new(parts) };
        Ok(piece)
    }

    fn clash(&self, site: Site, piece: &Piece, used: Operator, clash: Clash, place: impl Fn(usize) -> usize) -> Flaw {
        let slot = piece.slot(&self.terms);
        match clash {
            Clash::Twice(left, right) => Flaw::CountedTwice { site, slot, operands: (place(left), place(right)) },
            Clash::Operator(needed) => Flaw::WrongOperator { site, slot, used, needed },
        }
    }

    pub(super) fn wrong(&self, site: Site, expected: &Piece, found: &Piece) -> Flaw {
        let same_term = expected.holds.term == found.holds.term;
        let (expected, found) = (expected.slot(&self.terms), found.slot(&self.terms));
        if same_term { Flaw::WrongPlace { site, expected, found } } else { Flaw::WrongArray { site, expected, found } }
    }
}

pub(super) fn too_many(_: TooManyPieces) -> Flaw {
    Flaw::TooLarge { what: "a block of more than 65536 pieces".to_owned() }
}

/// The region on one device; `None` if a cut exceeds its dim or has no index there.
fn resolve(mesh: &Mesh, view: &[u64], region: &Region, device: DeviceId) -> Option<Cuboid> {
    let ranges = region_at(mesh, view, region, device)?.into_iter();
    Some(ranges.map(|range| Interval { start: range.start, end: range.end }).collect())
}

/// Expresses the blocks, with their operand positions, in one common view.
pub(super) fn aligned<'a>(
    blocks: impl Iterator<Item = (usize, &'a Block)> + Clone,
) -> Result<Vec<(usize, Block)>, Flaw> {
    match cut::common_to_all(blocks.clone().map(|(_, block)| block)) {
        Some(view) => Ok(blocks.map(|(place, block)| (place, block.within(&view))).collect()),
        None => blocks.map(|(place, block)| Ok((place, block.flat().map_err(too_many)?))).collect(),
    }
}

/// A box that lies within one piece of each block, and the index of that piece in each block.
pub(super) type Cell = (Cuboid, Vec<usize>);

/// The boxes that lie within one piece of each block; `None` if there are too many to search.
pub(super) fn common_cells(blocks: &[(usize, Block)]) -> Option<Vec<Cell>> {
    let pieces = |block: &Block| block.pieces.iter().map(|piece| piece.at.clone()).enumerate().collect::<Vec<_>>();
    let mut cells: Vec<Cell> = pieces(&blocks[0].1).into_iter().map(|(place, at)| (at, vec![place])).collect();
    for (_, block) in &blocks[1..] {
        let others = pieces(block);
        let aligned = cells.len() == others.len() && cells.iter().zip(&others).all(|((cell, _), (_, at))| cell == at);
        if aligned {
            cells.iter_mut().zip(others).for_each(|((_, places), (place, _))| places.push(place));
            continue;
        }
        if cells.len().saturating_mul(others.len()) > MOST_PAIRS {
            return None;
        }
        let pairs = cells.iter().flat_map(|cell| others.iter().map(move |other| (cell, other)));
        cells = pairs
            .filter_map(|((cell, places), (place, at))| {
                let common = boxes::intersect(cell, at)?;
                Some((common, places.iter().chain([place]).copied().collect()))
            })
            .collect();
    }
    Some(cells)
}

/// Whether two blocks hold the same elements and contributions, however they are split into pieces.
pub(super) fn same(one: &Block, other: &Block) -> Result<bool, Flaw> {
    if one == other {
        return Ok(true);
    }
    let blocks = aligned([(0, one), (1, other)].into_iter())?;
    // With too many pieces to compare, the answer is `false`.
    Ok(common_cells(&blocks).is_some_and(|cells| {
        cells.iter().all(|(at, places)| {
            let mut held = blocks.iter().zip(places).map(|((_, block), place)| block.pieces[*place].cut(at).holds);
            held.next() == held.next()
        })
    }))
}
