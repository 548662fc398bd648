//! Routed moves between any two shardings: each piece goes from a device that has it to all that need it, along its own
//! tree.
//!
//! Both shardings split the array, and the *cells* are the common refinement: each lies in one block before the move and
//! in one after it ([`Cells`]). Cells are split into chunks, chunks go from neighbour to neighbour, and hops that start at
//! the same time in the same direction form one message per device. Routes are chosen elsewhere.

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
    /// Number of chunks per cell, if its longest dim divides by it.
    pub chunks: u64,
    /// The devices by rank, and the links between them.
    pub network: Arc<Network>,
    /// The hops of all chunks: chunk `c` of cell `n` has the number `chunks * n + c`.
    pub rounds: Arc<Vec<Round>>,
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

    /// A view of blocks of cells: along each dim the cell, its chunk where split, and the rest.
    fn view(&self, blocks: &Blocks) -> Vec<u64> {
        let mut view = Vec::new();
        for (dim, (count, extent)) in blocks.cells.iter().zip(&self.cell).enumerate() {
            view.push(*count);
            match dim == self.cut {
                true => view.extend([self.routed.chunks, extent / self.routed.chunks]),
                false => view.push(*extent),
            }
        }
        view
    }

    /// The chunk of each device in such a view, or all chunks of a cell.
    fn region(&self, blocks: &Blocks, chunks: &[Option<Chunk>], whole: bool) -> Region {
        let count = usize::try_from(self.routed.chunks).expect("few chunks");
        let place = |(device, chunk): (usize, &Option<Chunk>)| {
            let number = (*chunk)? / count;
            blocks.place(device, &self.cells.cell(number as u64))
        };
        let places: Vec<Option<Vec<u64>>> = chunks.iter().enumerate().map(place).collect();
        let map = |entries: Vec<Option<u64>>| Cut::At(CoordMap::Table { axes: self.axes.clone(), entries });
        let mut region = Vec::new();
        for dim in 0..self.cell.len() {
            region.push(map(places.iter().map(|place| Some(place.as_ref()?[dim])).collect()));
            if dim == self.cut {
                let chunk = |chunk: &Option<Chunk>| chunk.map(|chunk| (chunk % count) as u64);
                region.push(if whole { Cut::Whole } else { map(chunks.iter().map(chunk).collect()) });
            }
            region.push(Cut::Whole);
        }
        region
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
            let (view, region) = (self.view(&self.cells.before), self.region(&self.cells.before, &own, false));
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
        let chunks = usize::try_from(self.routed.chunks).expect("few chunks");
        let kept = |device: usize| -> Vec<Chunk> {
            let cells = (0..self.cells.count()).filter(|number| {
                let cell = self.cells.cell(*number);
                self.cells.before.has(device, &cell) && after.has(device, &cell)
            });
            cells.map(|number| usize::try_from(number).expect("few cells") * chunks).collect()
        };
        let kept: Vec<Vec<Chunk>> = (0..self.got.len()).map(kept).collect();
        for place in 0..kept.iter().map(Vec::len).max().unwrap_or(0) {
            let cells: Vec<Option<Chunk>> = kept.iter().map(|kept| kept.get(place).copied()).collect();
            let (view, region) = (self.view(&self.cells.before), self.region(&self.cells.before, &cells, true));
            let cell = self.builder.slice(self.block, view, region);
            pieces.push((cell, self.region(after, &cells, true)));
        }
        for (value, chunks) in &self.arrived {
            let region = self.region(after, chunks, false);
            // Some are only passed on.
            let is_wanted = |device: usize, chunk: &Option<Chunk>| {
                chunk.is_some_and(|chunk| {
                    let number = chunk / usize::try_from(self.routed.chunks).expect("few chunks");
                    after.has(device, &self.cells.cell(number as u64))
                })
            };
            if chunks.iter().enumerate().any(|(device, chunk)| is_wanted(device, chunk)) {
                pieces.push((*value, region));
            }
        }
        let extents = after.cells.iter().zip(&self.cell).map(|(count, extent)| count * extent).collect();
        let view = self.view(after);
        self.builder.assemble(extents, view, pieces)
    }
}

/// The dim of a cell that is split into chunks, the last of equals.
pub(crate) fn longest(cell: &[u64]) -> usize {
    cell.iter().enumerate().max_by_key(|(_, extent)| **extent).map_or(0, |(dim, _)| dim)
}
