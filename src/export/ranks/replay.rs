//! A schedule made of what ranks do with chunks, to be timed, run and drawn on any mesh.
//!
//! That thread blocks wait for each other is not kept: what is left is what needs what.

use super::state::{Slot, slot};
use super::{Buffer, Kind, Shape};
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Cut, Dense, OpId, OpKind, Operation, Output, Route, Schedule, Sources};
use crate::span::Span;
use std::collections::BTreeMap;

/// A chunk of a value.
pub(in crate::export) type Chunk = (OpId, u64);

/// The buffers of all ranks, each chunk as a part of a value of the schedule.
pub(in crate::export) struct Replay {
    in_place: bool,
    kind: Kind,
    shape: Shape,
    method: &'static str,
    schedule: Schedule,
    dtype: DType,
    elements: u64,
    chunks: BTreeMap<Slot, Chunk>,
    step: u32,
}

impl Replay {
    /// The inputs on a mesh with as many devices as there are ranks, which are numbered alike.
    ///
    /// - `elements`: of each chunk.
    ///
    /// # Panics
    /// If the mesh has another number of devices.
    pub(in crate::export) fn new(
        in_place: bool,
        (kind, shape): (Kind, Shape),
        mesh: Mesh,
        (dtype, elements): (DType, u64),
        method: &'static str,
    ) -> Replay {
        assert_eq!(mesh.device_count() as u64, shape.ranks, "a device for each rank");
        let (n, axes): (u64, Axes) = (shape.ranks, mesh.axis_ids().collect());
        let extents = match kind {
            Kind::AllGather => vec![1, n * shape.input * elements],
            Kind::ReduceScatter | Kind::AllReduce | Kind::Broadcast => vec![1, shape.input * elements],
            Kind::AllToAll => vec![n, shape.input * elements],
        };
        let mut schedule = Schedule::new(mesh);
        schedule.arrays.push(Array {
            name: "A".to_owned(),
            dtype,
            dims: vec!["I".to_owned(), "J".to_owned()],
            valid: extents.clone(),
            extents,
            definition: Dense::INPUT,
        });
        let sharding = layouts(kind, axes)[0].clone();
        let block = vec![1, shape.input * elements];
        let chunks = BTreeMap::new();
        let mut replay = Replay { in_place, kind, shape, method, schedule, dtype, elements, chunks, step: 0 };
        let input = replay.push(OpKind::Input { array: ArrayId(0), sharding }, block, &[]);
        for rank in 0..replay.ranks() {
            // Each value is on one device, so that parts of several fill a block there and nowhere else.
            let input = replay.only(input, rank, rank);
            for chunk in 0..shape.input {
                let slot = replay.slot(rank, Buffer::Input, chunk);
                replay.chunks.insert(slot, (input, chunk));
            }
        }
        replay
    }

    fn ranks(&self) -> usize {
        self.schedule.mesh.device_count()
    }

    /// Where a chunk is, whatever it is called.
    pub(in crate::export) fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot(self.in_place, self.kind, self.shape, (rank, buffer, chunk))
    }

    fn push(&mut self, kind: OpKind, extents: Vec<u64>, operands: &[OpId]) -> OpId {
        let (dtype, step, span) = (self.dtype, self.step, Span::default());
        self.schedule.push(Operation { kind, dtype, extents, step, method: Some(self.method), span }, operands)
    }

    /// What is in some places.
    pub(in crate::export) fn read(&self, slots: &[Slot]) -> Vec<Chunk> {
        slots.iter().filter_map(|slot| self.chunks.get(slot).copied()).collect()
    }

    /// Neighbouring chunks of a buffer.
    pub(in crate::export) fn slots(&self, rank: usize, (buffer, chunk): (Buffer, u64), count: u64) -> Vec<Slot> {
        (chunk..chunk + count).map(|chunk| self.slot(rank, buffer, chunk)).collect()
    }

    pub(in crate::export) fn write(&mut self, slots: &[Slot], chunks: &[Chunk]) {
        self.chunks.extend(slots.iter().copied().zip(chunks.iter().copied()));
    }

    /// One value of some chunks.
    fn block(&mut self, chunks: &[Chunk]) -> OpId {
        let mut runs: Vec<(OpId, u64, u64)> = Vec::new();
        for (value, chunk) in chunks {
            match runs.last_mut() {
                Some((last, start, count)) if last == value && *start + *count == *chunk => *count += 1,
                _ => runs.push((*value, *chunk, 1)),
            }
        }
        let mut parts = Vec::new();
        for (value, start, count) in &runs {
            let extents = self.schedule.operation(*value).extents.clone();
            let (start, end) = (start * self.elements, (start + count) * self.elements);
            let is_whole = start == 0 && end == extents[1];
            let region = vec![Cut::Whole, Cut::Range { start, end }];
            parts.push(match is_whole {
                true => *value,
                false => self.push(OpKind::Slice { view: extents, region }, vec![1, end - start], &[*value]),
            });
        }
        if let [part] = parts.as_slice() {
            return *part;
        }
        let whole = chunks.len() as u64 * self.elements;
        let mut next = 0;
        let places = runs.iter().map(|(_, _, count)| {
            let start = next;
            next += count * self.elements;
            vec![Cut::Whole, Cut::Range { start, end: next }]
        });
        let places = places.collect();
        self.push(OpKind::Assemble { view: vec![1, whole], places }, vec![1, whole], &parts)
    }

    /// Some chunks on another rank.
    pub(in crate::export) fn message(&mut self, chunks: &[Chunk], from: usize, to: usize) -> Vec<Chunk> {
        let block = self.block(chunks);
        let received = self.only(block, from, to);
        (0..chunks.len() as u64).map(|chunk| (received, chunk)).collect()
    }

    /// What one device has, on another one alone, or on itself.
    fn only(&mut self, value: OpId, from: usize, to: usize) -> OpId {
        self.step += 1;
        let axes: Vec<AxisId> = self.schedule.mesh.axis_ids().collect();
        let mut entries = vec![None; self.ranks()];
        entries[to] = u32::try_from(from).ok();
        let extents = self.schedule.operation(value).extents.clone();
        let kind = OpKind::Shuffle { sources: Sources::Table { axes, entries }, route: Route::Shortest };
        self.push(kind, extents, &[value])
    }

    /// Two times as many chunks, added up.
    pub(in crate::export) fn sum(&mut self, left: &[Chunk], right: &[Chunk]) -> Vec<Chunk> {
        let operands = [self.block(left), self.block(right)];
        let extents = self.schedule.operation(operands[0]).extents.clone();
        let sum = self.push(OpKind::Add { operator: Operator::Sum }, extents, &operands);
        (0..left.len() as u64).map(|chunk| (sum, chunk)).collect()
    }

    /// Puts the outputs of all ranks together.
    pub(in crate::export) fn finish(mut self) -> Schedule {
        let axes: Axes = self.schedule.mesh.axis_ids().collect();
        // Of an exchange each row comes from another rank.
        let row = match self.kind {
            Kind::AllToAll => self.shape.output / self.shape.ranks,
            Kind::AllGather | Kind::ReduceScatter | Kind::AllReduce | Kind::Broadcast => self.shape.output,
        };
        let view = vec![self.shape.output / row, row * self.elements];
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        for rank in 0..self.ranks() {
            for line in 0..self.shape.output / row {
                let chunks = self.read(&self.slots(rank, (Buffer::Output, line * row), row));
                parts.push(self.block(&chunks));
                places.push(vec![Cut::Range { start: line, end: line + 1 }, Cut::Whole]);
            }
        }
        let value = self.push(OpKind::Assemble { view: view.clone(), places }, view, &parts);
        let sharding = layouts(self.kind, axes)[1].clone();
        self.schedule.outputs.push(Output { value, array: ArrayId(0), sharding });
        self.schedule
    }
}

/// The layouts before and after, of an array of two dims.
fn layouts(kind: Kind, axes: Axes) -> [Sharding; 2] {
    let closed = |dims: [Axes; 2]| Sharding { dims: dims.to_vec(), ..Sharding::default() };
    let open: AxisSet = axes.iter().collect();
    let sum = |operator| Sharding { open, operator, ..closed([Axes::NONE; 2]) };
    let (whole, rows, columns) = (closed([Axes::NONE; 2]), closed([axes, Axes::NONE]), closed([Axes::NONE, axes]));
    match kind {
        Kind::AllGather => [columns, whole],
        Kind::ReduceScatter => [sum(Operator::Sum), columns],
        Kind::AllReduce => [sum(Operator::Sum), whole],
        Kind::AllToAll => [rows, columns],
        Kind::Broadcast => [sum(Operator::Root), whole],
    }
}
