//! Converts a schedule of one collective to an [`Algorithm`]: every value of every device is assigned positions in a
//! buffer.
//!
//! A position is written once, so nothing waits for it to become free. Values that are complete on arrival and belong
//! to the output go there directly; all others go to scratch. Slices and assemblies only select and combine lists of
//! positions. A message whose only use is an addition is received by that addition, but sent in the order of the
//! schedule. Messages between two ranks are received in the order in which they are sent.

use super::cells::{Cells, in_cells};
use super::chunks::in_chunks;
use super::collective::Collective;
use super::refused::{MOST_CHUNKS, Refused};
use super::{Action, Algorithm, Buffer, Rank, Shape, Span};
use crate::layout::Sharding;
use crate::mesh::{DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Cut, OpId, OpKind, Region, Schedule};
use petgraph::Direction;
use std::collections::{BTreeMap, VecDeque};

/// The actions of the ranks, chunk by chunk.
///
/// # Errors
/// If the schedule is not a single collective, or one that the formats do not support.
pub fn algorithm(schedule: &Schedule) -> Result<Algorithm, Refused> {
    let collective = Collective::of(schedule)?;
    let Cells { schedule: small, sizes } = in_cells(schedule)?;
    let (chunks, exact) = in_chunks(&sizes);
    let mut placing = Placing::new(&small, collective, chunks)?;
    for id in small.ids() {
        placing.operation(id)?;
    }
    placing.finish(small.outputs[0].value);
    let Placing { collective, scratch, actions, shape, .. } = placing;
    let in_order = |mut actions: Vec<(usize, Action)>| {
        actions.sort_by_key(|(turn, _)| *turn);
        actions.into_iter().map(|(_, action)| action).collect()
    };
    let ranks = scratch.into_iter().zip(actions);
    let ranks = ranks.map(|(scratch, actions)| Rank { scratch, actions: in_order(actions) }).collect();
    let contiguous = collective.contiguous(&small.arrays[0].extents);
    Ok(Algorithm { kind: collective.kind, shape, ranks, exact, contiguous })
}

/// A cell of a value of a device.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Its buffer.
    buffer: Buffer,
    /// Its first chunk, and the number of its chunks.
    start: u64,
    count: u64,
    /// The element of the array of cells.
    element: u64,
    /// Number of pieces of a sum that it contains; all pieces if it is not part of a sum.
    pieces: u64,
}

/// A value of a device.
#[derive(Clone, Debug)]
enum Value {
    Absent,
    /// Held, in row-major order.
    Held(Vec<Cell>),
    /// In flight: the cells of the sending device.
    Arriving(DeviceId, Vec<Cell>),
}

struct Placing<'s> {
    schedule: &'s Schedule,
    collective: Collective,
    /// Chunks of each cell of the array.
    chunks: Vec<u64>,
    shape: Shape,
    /// Values by operation, then by device; empty after their last use.
    values: Vec<Vec<Value>>,
    /// Outstanding uses of each operation.
    uses: Vec<usize>,
    /// By rank: the chunks of scratch so far.
    scratch: Vec<u64>,
    /// By rank: the actions, with the operation that they belong to. A message is sent with its shuffle.
    actions: Vec<Vec<(usize, Action)>>,
    /// By source and destination: the shuffles whose messages are in flight.
    in_flight: BTreeMap<(DeviceId, DeviceId), VecDeque<OpId>>,
    /// By rank: the elements of the output that have not been written, and their first chunks.
    unwritten: Vec<BTreeMap<u64, u64>>,
    /// Remainder of [`MOST_CHUNKS`].
    left: u64,
}

impl<'s> Placing<'s> {
    fn new(schedule: &'s Schedule, collective: Collective, chunks: Vec<u64>) -> Result<Placing<'s>, Refused> {
        let n = schedule.mesh.device_count();
        let [inputs, outputs] = [&collective.from, &collective.to].map(|sharding| {
            let held = elements(&schedule.arrays[0].extents, sharding, &schedule.mesh, DeviceId(0)).into_iter();
            held.map(|element| count(&chunks, element)).sum::<u64>()
        });
        let shape = Shape { ranks: n as u64, input: inputs, output: outputs };
        if outputs.max(inputs).saturating_mul(shape.ranks) > MOST_CHUNKS {
            return Err(Refused::TooLarge);
        }
        let is_output = |id: OpId| schedule.outputs.iter().any(|output| output.value == id);
        let uses = |id| schedule.operations.neighbors(id).count() + usize::from(is_output(id));
        let mut placing = Placing {
            schedule,
            chunks,
            shape,
            values: Vec::new(),
            uses: schedule.ids().map(uses).collect(),
            scratch: vec![0; n],
            actions: vec![Vec::new(); n],
            in_flight: BTreeMap::new(),
            unwritten: vec![BTreeMap::new(); n],
            left: MOST_CHUNKS,
            collective,
        };
        for device in schedule.mesh.devices() {
            let rank = placing.rank(device);
            placing.unwritten[rank] = placing.positions(&placing.collective.to, placing.collective.parted[1], device);
        }
        Ok(placing)
    }

    fn mesh(&self) -> &'s Mesh {
        &self.schedule.mesh
    }

    fn rank(&self, device: DeviceId) -> usize {
        self.collective.rank(self.mesh(), device)
    }

    /// The current operation.
    fn turn(&self) -> usize {
        self.values.len()
    }

    fn operation(&mut self, id: OpId) -> Result<(), Refused> {
        let operation = self.schedule.operation(id);
        let operands = self.schedule.operands(id);
        let devices: Vec<DeviceId> = self.mesh().devices().collect();
        let mut values = Vec::with_capacity(devices.len());
        for device in devices {
            let value = match &operation.kind {
                OpKind::Input { .. } => self.input(device),
                OpKind::Slice { view, region } => {
                    let extents = &self.schedule.operation(operands[0]).extents;
                    let value = self.held(operands[0], device);
                    let places = places(self.mesh(), device, view, region);
                    match (value, places) {
                        (Some(cells), Some(places)) if cells.len() as u64 == extents.iter().product::<u64>() => {
                            Value::Held(places.into_iter().filter_map(|place| cells.get(place).copied()).collect())
                        }
                        _ => Value::Absent,
                    }
                }
                OpKind::Shuffle { sources, .. } => match sources.of(self.mesh(), device) {
                    None => Value::Absent,
                    Some(source) => match self.held(operands[0], source) {
                        None => Value::Absent,
                        Some(cells) if source == device => Value::Held(cells),
                        Some(cells) if self.is_added_only(id) => {
                            self.in_flight.entry((source, device)).or_default().push_back(id);
                            Value::Arriving(source, cells)
                        }
                        Some(cells) => Value::Held(self.receive(id, device, source, &cells)),
                    },
                },
                OpKind::Add { operator } => {
                    if *operator != Operator::Sum {
                        return Err(Refused::Operator(*operator));
                    }
                    self.sum(&operands, device)
                }
                OpKind::Assemble { view, places: regions, .. } => {
                    let size = usize::try_from(operation.elements()).unwrap_or(usize::MAX);
                    let mut all: Vec<Option<Cell>> = vec![None; size];
                    for (operand, region) in operands.iter().zip(regions) {
                        let Some(cells) = self.held(*operand, device) else { continue };
                        let Some(places) = places(self.mesh(), device, view, region) else { continue };
                        for (place, cell) in places.into_iter().zip(cells) {
                            all[place] = Some(cell);
                        }
                    }
                    all.into_iter().collect::<Option<Vec<Cell>>>().map_or(Value::Absent, Value::Held)
                }
                kind => return Err(Refused::Operation { id, what: kind.properties().noun }),
            };
            if let Value::Held(cells) | Value::Arriving(_, cells) = &value {
                self.left = self.left.checked_sub(cells.len() as u64).ok_or(Refused::TooLarge)?;
            }
            values.push(value);
        }
        self.values.push(values);
        for operand in operands {
            self.uses[operand.index()] -= 1;
            if self.uses[operand.index()] == 0 {
                self.values[operand.index()] = Vec::new();
            }
        }
        Ok(())
    }

    /// The cells of a value; receives it if it is in flight.
    fn held(&mut self, id: OpId, device: DeviceId) -> Option<Vec<Cell>> {
        match self.values[id.index()][device.index()].clone() {
            Value::Absent => None,
            Value::Held(cells) => Some(cells),
            Value::Arriving(source, cells) => {
                let cells = self.receive(id, device, source, &cells);
                self.values[id.index()][device.index()] = Value::Held(cells.clone());
                Some(cells)
            }
        }
    }

    /// Whether an addition is the only use of a value.
    fn is_added_only(&self, id: OpId) -> bool {
        let mut users = self.schedule.operations.neighbors_directed(id, Direction::Outgoing);
        let (user, more) = (users.next(), users.next());
        let is_output = self.schedule.outputs.iter().any(|output| output.value == id);
        let adds = |user: OpId| matches!(self.schedule.operation(user).kind, OpKind::Add { .. });
        !is_output && more.is_none() && user.is_some_and(adds)
    }

    fn input(&self, device: DeviceId) -> Value {
        let from = &self.collective.from;
        if !from.is_on(device, self.mesh()) {
            return Value::Absent;
        }
        let pieces = if from.open.is_empty() || from.operator.is_root() { self.shape.ranks } else { 1 };
        let starts = self.positions(from, self.collective.parted[0], device).into_iter();
        let cell = |(element, start)| Cell {
            buffer: Buffer::Input,
            start,
            count: count(&self.chunks, element),
            element,
            pieces,
        };
        Value::Held(starts.map(cell).collect())
    }

    /// The first chunks of the elements in a buffer of the device: parts in rank order, each in row-major order.
    fn positions(&self, sharding: &Sharding, parted: Option<usize>, device: DeviceId) -> BTreeMap<u64, u64> {
        let (mesh, extents) = (self.mesh(), &self.schedule.arrays[0].extents);
        let mut held = elements(extents, sharding, mesh, device);
        if let Some(dim) = parted {
            let range = sharding.local_range(dim, extents[dim], mesh, device);
            let (stride, length): (u64, u64) = (extents[dim + 1..].iter().product(), range.end - range.start);
            held.sort_by_key(|element| (element / stride % extents[dim] - range.start) / (length / self.shape.ranks));
        }
        let mut next = 0;
        let start = |element: u64| {
            let start = next;
            next += count(&self.chunks, element);
            (element, start)
        };
        held.into_iter().map(start).collect()
    }

    /// Destination of a cell on a device: the output, if the cell is complete, belongs there and is not there yet.
    fn target(&mut self, device: DeviceId, element: u64, pieces: u64) -> Cell {
        let (rank, count) = (self.rank(device), count(&self.chunks, element));
        let is_complete = pieces == self.shape.ranks;
        let output = if is_complete { self.unwritten[rank].remove(&element) } else { None };
        let (buffer, start) = match output {
            Some(start) => (Buffer::Output, start),
            None => {
                self.scratch[rank] += count;
                (Buffer::Scratch, self.scratch[rank] - count)
            }
        };
        Cell { buffer, start, count, element, pieces }
    }

    /// Receives the message of a shuffle.
    fn receive(&mut self, id: OpId, device: DeviceId, source: DeviceId, cells: &[Cell]) -> Vec<Cell> {
        self.receive_earlier(id, device, source);
        let into: Vec<Cell> = cells.iter().map(|cell| self.target(device, cell.element, cell.pieces)).collect();
        for [from, into] in runs([cells, &into]) {
            self.message(id, [source, device], from, |from| Action::Receive { from, into });
        }
        into
    }

    /// Receives all messages between two devices that were sent before this one.
    fn receive_earlier(&mut self, id: OpId, device: DeviceId, source: DeviceId) {
        while let Some(earlier) = self.in_flight.get_mut(&(source, device)).and_then(VecDeque::pop_front) {
            if earlier == id {
                break;
            }
            // Its order is right already, so it is received without looking for earlier ones.
            if let Value::Arriving(_, cells) = self.values[earlier.index()][device.index()].clone() {
                let into: Vec<Cell> = cells.iter().map(|cell| self.target(device, cell.element, cell.pieces)).collect();
                for [from, into] in runs([&cells, &into]) {
                    self.message(earlier, [source, device], from, |from| Action::Receive { from, into });
                }
                self.values[earlier.index()][device.index()] = Value::Held(into);
            }
        }
    }

    fn message(&mut self, id: OpId, [source, device]: [DeviceId; 2], from: Span, receive: impl FnOnce(u32) -> Action) {
        let (sender, receiver, turn) = (self.rank(source), self.rank(device), self.turn());
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        self.actions[sender].push((id.index(), Action::Send { to: number(receiver), from }));
        self.actions[receiver].push((turn, receive(number(sender))));
    }

    /// Adds actions on a device's own buffers.
    fn local(&mut self, device: DeviceId, actions: impl Iterator<Item = Action>) {
        let (rank, turn) = (self.rank(device), self.turn());
        self.actions[rank].extend(actions.map(|action| (turn, action)));
    }

    /// The sum of a device's blocks of some values.
    fn sum(&mut self, operands: &[OpId], device: DeviceId) -> Value {
        let value = |placing: &Self, id: OpId| placing.values[id.index()][device.index()].clone();
        let is_absent = |id: &OpId| matches!(self.values[id.index()][device.index()], Value::Absent);
        let present: Vec<OpId> = operands.iter().copied().filter(|id| !is_absent(id)).collect();
        if let [only] = present.as_slice() {
            return self.held(*only, device).map_or(Value::Absent, Value::Held);
        }
        let Some(first) = present.first() else { return Value::Absent };
        let cells = |placing: &Self, id: OpId| match value(placing, id) {
            Value::Absent => Vec::new(),
            Value::Held(cells) | Value::Arriving(_, cells) => cells,
        };
        let mut sums: Vec<(u64, u64)> = cells(self, *first).iter().map(|cell| (cell.element, 0)).collect();
        for id in &present {
            sums.iter_mut().zip(cells(self, *id)).for_each(|(sum, cell)| sum.1 += cell.pieces);
        }
        let into: Vec<Cell> = sums.into_iter().map(|(element, pieces)| self.target(device, element, pieces)).collect();
        let is_held = |id: &OpId| matches!(self.values[id.index()][device.index()], Value::Held(_));
        let (held, arriving): (Vec<OpId>, Vec<OpId>) = present.iter().partition(|id| is_held(id));
        let mut added: Option<Vec<Cell>> = held.first().map(|id| cells(self, *id));
        let mut more: Vec<Vec<Cell>> = held.iter().skip(1).map(|id| cells(self, *id)).collect();
        for id in arriving {
            match (value(self, id), &added) {
                (Value::Arriving(source, cells), Some(with)) => {
                    self.receive_earlier(id, device, source);
                    for [cells, with, into] in runs([&cells, with, &into]) {
                        self.message(id, [source, device], cells, |from| Action::ReceiveAdd { from, with, into });
                    }
                    added = Some(into.clone());
                }
                (Value::Arriving(source, cells), None) => {
                    self.receive_earlier(id, device, source);
                    for [from, into] in runs([&cells, &into]) {
                        self.message(id, [source, device], from, |from| Action::Receive { from, into });
                    }
                    added = Some(into.clone());
                }
                // Received meanwhile, before another message of the same source.
                (Value::Held(cells), None) => added = Some(cells),
                (Value::Held(cells), Some(_)) => more.push(cells),
                (Value::Absent, _) => {}
            }
        }
        let is_there = |cells: &[Cell]| {
            cells.iter().zip(&into).all(|(one, two)| one.buffer == two.buffer && one.start == two.start)
        };
        if let Some(first) = added.filter(|added| !is_there(added)) {
            let copies = runs([&first, &into]).into_iter().map(|[from, into]| Action::Copy { from, into });
            self.local(device, copies);
        }
        for more in &more {
            let adds = runs([more, &into]).into_iter().map(|[from, into]| Action::Add { from, into });
            self.local(device, adds);
        }
        Value::Held(into)
    }

    /// Copies missing cells to the output.
    fn finish(&mut self, output: OpId) {
        for device in self.mesh().devices() {
            let Some(cells) = self.held(output, device) else { continue };
            let rank = self.rank(device);
            let mut moves: Vec<(u64, Cell)> = Vec::new();
            for cell in cells {
                moves.extend(self.unwritten[rank].remove(&cell.element).map(|start| (start, cell)));
            }
            moves.sort_by_key(|(start, _)| *start);
            let from: Vec<Cell> = moves.iter().map(|(_, cell)| *cell).collect();
            let into: Vec<Cell> =
                moves.iter().map(|(start, cell)| Cell { buffer: Buffer::Output, start: *start, ..*cell }).collect();
            self.local(device, runs([&from, &into]).into_iter().map(|[from, into]| Action::Copy { from, into }));
        }
    }
}

/// The chunks of an element of the array of cells.
fn count(chunks: &[u64], element: u64) -> u64 {
    usize::try_from(element).ok().and_then(|element| chunks.get(element).copied()).unwrap_or(0)
}

/// Splits parallel lists of cells into spans that are contiguous in all of them.
fn runs<const N: usize>(lists: [&[Cell]; N]) -> Vec<[Span; N]> {
    let mut runs: Vec<[Span; N]> = Vec::new();
    for at in 0..lists[0].len() {
        let cells = lists.map(|list| list[at]);
        let follows =
            |(span, cell): (&Span, &Cell)| span.buffer == cell.buffer && span.start + span.count == cell.start;
        match runs.last_mut() {
            Some(last) if last.iter().zip(&cells).all(follows) => {
                last.iter_mut().zip(&cells).for_each(|(span, cell)| span.count += cell.count);
            }
            _ => runs.push(cells.map(|cell| Span { buffer: cell.buffer, start: cell.start, count: cell.count })),
        }
    }
    runs
}

/// The elements of an array that a device holds, in row-major order.
pub(in crate::export) fn elements(extents: &[u64], sharding: &Sharding, mesh: &Mesh, device: DeviceId) -> Vec<u64> {
    let mut found = vec![0];
    for (dim, extent) in extents.iter().enumerate() {
        let range = sharding.local_range(dim, *extent, mesh, device);
        found = found.iter().flat_map(|index| range.clone().map(move |at| index * extent + at)).collect();
    }
    found
}

/// The positions of a region in the block that the view refines, in row-major order; `None` if it is absent.
pub(in crate::export) fn places(mesh: &Mesh, device: DeviceId, view: &[u64], region: &Region) -> Option<Vec<usize>> {
    let mut found = vec![0u64];
    for (extent, cut) in view.iter().zip(region) {
        let range = match cut {
            Cut::Whole => 0..*extent,
            Cut::Range { start, end } => *start..*end,
            Cut::At(map) => {
                let at = map.at(mesh, device).filter(|at| at < extent)?;
                at..at + 1
            }
        };
        found = found.iter().flat_map(|index| range.clone().map(move |at| index * extent + at)).collect();
    }
    found.into_iter().map(|place| usize::try_from(place).ok()).collect()
}
