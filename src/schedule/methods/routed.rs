//! Routed moves between any two shardings: each piece goes from a device that has it to all that need it, along its own
//! tree.
//!
//! Both shardings split the array, and the *cells* are the common refinement: each lies in one block before the move and
//! in one after it ([`Cells`]). Cells are split into chunks, chunks go from neighbour to neighbour, and hops that start at
//! the same time in the same direction form one message per device. Routes are chosen elsewhere.
//!
//! Of an array that is partly used, only pieces with used elements are sent ([`Slots`]); the others are 0.

use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::Method;
use crate::cells::{Blocks, Cells};
use crate::mesh::{Axes, AxisId};
use crate::routing::{Network, Round};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A move along trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The axes that span groups; devices are numbered by rank, major first.
    pub axes: Axes,
    /// The axes of the group on each dim before the move.
    pub before: Vec<Axes>,
    /// The axes of the group on each dim after the move.
    pub after: Vec<Axes>,
    /// What is sent of each cell.
    pub pieces: Pieces,
    /// The devices by rank, and the links between them.
    pub network: Arc<Network>,
    /// The hops of all pieces.
    pub rounds: Arc<Vec<Round>>,
}

/// What is sent of the cells of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// This number of chunks of each, if its longest dim divides by it: chunk `c` of cell `n` has the number `chunks * n + c`.
    Chunks(u64),
    /// The used slots.
    Slots(Arc<Slots>),
}

/// Pieces of the used slots of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The dim along which the array is partly used; it is whole on each device.
    pub along: usize,
    /// The other dims of which a piece has one index.
    pub over: Vec<usize>,
    /// Sizes of pieces along the dim, each a divisor of the one before, and the first one of the dim.
    pub sizes: Vec<u64>,
    /// The pieces in the order of their numbers.
    pub pieces: Vec<Slot>,
}

/// A piece of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The number of the cell.
    pub cell: u64,
    /// Its index in the cell along each of the other dims.
    pub row: Vec<u64>,
    /// The first index along the dim, a multiple of the size.
    pub first: u64,
    /// The size.
    pub size: u64,
}

impl Routed {
    /// The block after the move.
    pub fn emit(&self, builder: &mut Builder<'_>, block: OpId) -> OpId {
        let builder = &mut builder.by(Method::Routed.name());
        let mut flight = Flight::new(self, builder, block);
        for round in self.rounds.iter() {
            flight.fly(round);
        }
        flight.land()
    }
}

/// A chunk, by number.
type Chunk = usize;

/// The chunks in flight.
struct Flight<'f, 'b> {
    routed: &'f Routed,
    cells: Cells,
    builder: &'f mut Builder<'b>,
    block: OpId,
    axes: Vec<AxisId>,
    /// Extents of a cell.
    cell: Vec<u64>,
    /// The dim that is split into chunks.
    cut: usize,
    /// For each device, the value that holds each received chunk.
    got: Vec<BTreeMap<Chunk, usize>>,
    /// Received values, with the chunk of each device.
    arrived: Vec<(OpId, Vec<Option<Chunk>>)>,
}

impl<'f, 'b> Flight<'f, 'b> {
    fn new(routed: &'f Routed, builder: &'f mut Builder<'b>, block: OpId) -> Flight<'f, 'b> {
        let cells = Cells::new(builder.mesh(), routed.axes, &routed.before, &routed.after);
        let cell: Vec<u64> = builder.extents(block).iter().zip(&cells.before.cells).map(|(e, n)| e / n).collect();
        let cut = longest(&cell);
        let got = vec![BTreeMap::new(); routed.network.devices()];
        let axes = routed.axes.iter().collect();
        Flight { routed, cells, builder, block, axes, cell, cut, got, arrived: Vec::new() }
    }

    /// The number of the cell of a chunk.
    fn cell_of(&self, chunk: Chunk) -> u64 {
        match &self.routed.pieces {
            Pieces::Chunks(count) => chunk as u64 / count,
            Pieces::Slots(slots) => slots.pieces[chunk].cell,
        }
    }

    /// A view of blocks of cells: along each dim the cell, its pieces where split, and the rest.
    fn view(&self, blocks: &Blocks) -> Vec<u64> {
        let mut view = Vec::new();
        for (dim, (count, extent)) in blocks.cells.iter().zip(&self.cell).enumerate() {
            match &self.routed.pieces {
                Pieces::Chunks(chunks) if dim == self.cut => view.extend([*count, *chunks, extent / chunks]),
                Pieces::Slots(slots) if dim == slots.along => {
                    view.extend(
                        [*extent].iter().chain(&slots.sizes).zip(&slots.sizes).map(|(whole, size)| whole / size),
                    );
                    view.extend(slots.sizes.last());
                }
                Pieces::Chunks(_) | Pieces::Slots(_) => view.extend([*count, *extent]),
            }
        }
        view
    }

    /// The piece of each device in such a view.
    fn region(&self, blocks: &Blocks, chunks: &[Option<Chunk>]) -> Region {
        let cells: Vec<Option<u64>> = chunks.iter().map(|chunk| chunk.map(|chunk| self.cell_of(chunk))).collect();
        let map = |entry: &dyn Fn(Chunk) -> u64| {
            let entries = chunks.iter().map(|chunk| chunk.map(entry)).collect();
            Cut::At(CoordMap::Table { axes: self.axes.clone(), entries })
        };
        let mut region = Vec::new();
        for (dim, cell) in self.cells_at(blocks, &cells).into_iter().enumerate() {
            match &self.routed.pieces {
                Pieces::Chunks(count) if dim == self.cut => {
                    region.extend([cell, map(&|chunk| chunk as u64 % count), Cut::Whole]);
                }
                Pieces::Chunks(_) => region.extend([cell, Cut::Whole]),
                Pieces::Slots(slots) if dim == slots.along => {
                    // The pieces of a message have one size.
                    let size = chunks.iter().flatten().next().map_or(1, |chunk| slots.pieces[*chunk].size);
                    let larger = slots.sizes.iter().take_while(|own| **own >= size);
                    let index = |own: u64, whole: u64| map(&move |chunk| slots.pieces[chunk].first % whole / own);
                    let wholes = [self.cell[dim]].into_iter().chain(slots.sizes.iter().copied());
                    region.extend(larger.zip(wholes).map(|(own, whole)| index(*own, whole)));
                    let smaller = slots.sizes.iter().filter(|own| **own < size).count();
                    region.extend(vec![Cut::Whole; smaller + 1]);
                }
                Pieces::Slots(slots) => match slots.over.iter().position(|over| *over == dim) {
                    Some(place) => region.extend([cell, map(&|chunk| slots.pieces[chunk].row[place])]),
                    None => region.extend([cell, Cut::Whole]),
                },
            }
        }
        region
    }

    /// The whole cell of each device in such a view.
    fn whole(&self, blocks: &Blocks, cells: &[Option<u64>]) -> Region {
        let mut region = Vec::new();
        for (dim, cell) in self.cells_at(blocks, cells).into_iter().enumerate() {
            match &self.routed.pieces {
                Pieces::Chunks(_) if dim == self.cut => region.extend([cell, Cut::Whole, Cut::Whole]),
                Pieces::Slots(slots) if dim == slots.along => region.extend(vec![Cut::Whole; slots.sizes.len() + 1]),
                Pieces::Chunks(_) | Pieces::Slots(_) => region.extend([cell, Cut::Whole]),
            }
        }
        region
    }

    /// The index of the cell of each device in its block, by dim.
    fn cells_at(&self, blocks: &Blocks, cells: &[Option<u64>]) -> Vec<Cut> {
        let place = |(device, cell): (usize, &Option<u64>)| blocks.place(device, &self.cells.cell((*cell)?));
        let places: Vec<Option<Vec<u64>>> = cells.iter().enumerate().map(place).collect();
        let along = |dim: usize| {
            let entries = places.iter().map(|place| Some(place.as_ref()?[dim])).collect();
            Cut::At(CoordMap::Table { axes: self.axes.clone(), entries })
        };
        (0..self.cell.len()).map(along).collect()
    }

    /// Sends all hops that start together.
    fn fly(&mut self, round: &Round) {
        let network = &self.routed.network;
        let devices = network.devices();
        let mut own: Vec<Option<Chunk>> = vec![None; devices];
        let mut passed: BTreeMap<usize, Vec<Option<u64>>> = BTreeMap::new();
        let mut entries: Vec<Option<u32>> = vec![None; devices];
        let mut arriving: Vec<Option<Chunk>> = vec![None; devices];
        for (chunk, hop) in &round.hops {
            let hop = &network.hops[*hop];
            match self.got[hop.from].get(chunk) {
                Some(value) => passed.entry(*value).or_insert_with(|| vec![None; devices])[hop.from] = Some(0),
                None => own[hop.from] = Some(*chunk),
            }
            entries[hop.to] = Some(u32::try_from(hop.from).expect("a device of the mesh"));
            arriving[hop.to] = Some(*chunk);
        }
        let mut sent = Vec::new();
        if own.iter().any(Option::is_some) {
            let (view, region) = (self.view(&self.cells.before), self.region(&self.cells.before, &own));
            sent.push(self.builder.slice(self.block, view, region));
        }
        let alone = sent.is_empty() && passed.len() == 1;
        for (value, kept) in passed {
            let value = self.arrived[value].0;
            let kept = CoordMap::Table { axes: self.axes.clone(), entries: kept };
            sent.push(if alone { value } else { self.builder.slice_block(value, 0, 1, kept) });
        }
        let sent = self.builder.either(sent);
        let sources = Sources::Table { axes: self.axes.clone(), entries };
        let value = self.builder.shuffle(sent, sources, Route::Shortest);
        for (device, chunk) in arriving.iter().enumerate() {
            if let Some(chunk) = chunk {
                self.got[device].insert(*chunk, self.arrived.len());
            }
        }
        self.arrived.push((value, arriving));
    }

    /// The block after the move: received and local pieces.
    fn land(self) -> OpId {
        let after = &self.cells.after;
        let mut pieces: Vec<(OpId, Region)> = Vec::new();
        // The cells that a device keeps, the first of each, the second of each, and so on.
        let kept = |device: usize| -> Vec<u64> {
            let cells = (0..self.cells.count()).filter(|number| {
                let cell = self.cells.cell(*number);
                self.cells.before.has(device, &cell) && after.has(device, &cell)
            });
            cells.collect()
        };
        let kept: Vec<Vec<u64>> = (0..self.got.len()).map(kept).collect();
        for place in 0..kept.iter().map(Vec::len).max().unwrap_or(0) {
            let cells: Vec<Option<u64>> = kept.iter().map(|kept| kept.get(place).copied()).collect();
            let (view, region) = (self.view(&self.cells.before), self.whole(&self.cells.before, &cells));
            let cell = self.builder.slice(self.block, view, region);
            pieces.push((cell, self.whole(after, &cells)));
        }
        for (value, chunks) in &self.arrived {
            let region = self.region(after, chunks);
            // Some are only passed on.
            let is_wanted = |device: usize, chunk: &Option<Chunk>| {
                chunk.is_some_and(|chunk| after.has(device, &self.cells.cell(self.cell_of(chunk))))
            };
            if chunks.iter().enumerate().any(|(device, chunk)| is_wanted(device, chunk)) {
                pieces.push((*value, region));
            }
        }
        let extents = after.cells.iter().zip(&self.cell).map(|(count, extent)| count * extent).collect();
        let view = self.view(after);
        match &self.routed.pieces {
            Pieces::Chunks(_) => self.builder.assemble(extents, view, pieces),
            Pieces::Slots(_) => self.builder.assemble_on_zeros(extents, view, pieces),
        }
    }
}

/// The dim of a cell that is split into chunks, the last of equals.
pub(crate) fn longest(cell: &[u64]) -> usize {
    cell.iter().enumerate().max_by_key(|(_, extent)| **extent).map_or(0, |(dim, _)| dim)
}
