//! Converts a proven file to a schedule, which can be timed, run and drawn on any mesh.
//!
//! Waits between thread blocks are dropped: only data dependencies remain.

use super::machine::{Proven, Slot, slot};
use super::{Buffer, Kind};
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Cut, Dense, OpId, OpKind, Operation, Output, Route, Schedule, Sources};
use crate::span::Span;
use std::collections::BTreeMap;

impl Proven {
    /// The schedule of the file on a mesh with one device per rank, numbered alike.
    ///
    /// Chunks that a step sends, puts or fetches at once form one message.
    ///
    /// - `elements`: elements per chunk.
    ///
    /// # Panics
    /// If the number of devices is not the number of ranks.
    pub fn schedule(&self, mesh: Mesh, dtype: DType, elements: u64) -> Schedule {
        let mut replay = Replay::new(self, mesh, dtype, elements);
        for step in &self.moves {
            let mut read: Vec<Vec<Chunk>> =
                step.sources.iter().map(|slots| replay.brought(slots, step.at.rank)).collect();
            if step.reduces {
                let sum = read.into_iter().reduce(|left, right| replay.sum(&left, &right)).unwrap_or_default();
                read = vec![sum; step.targets.len()];
            }
            for (slots, chunks) in step.targets.iter().zip(read) {
                let there = slots.first().map_or(step.at.rank, |slot| slot.rank());
                let chunks = if there == step.at.rank { chunks } else { replay.message(&chunks, step.at.rank, there) };
                replay.chunks.extend(slots.iter().copied().zip(chunks));
            }
        }
        replay.finish()
    }
}

/// A chunk of a value.
type Chunk = (OpId, u64);

/// The buffers of all ranks; each chunk is a part of a value of the schedule.
struct Replay<'p> {
    proof: &'p Proven,
    schedule: Schedule,
    dtype: DType,
    elements: u64,
    chunks: BTreeMap<Slot, Chunk>,
    step: u32,
}

impl<'p> Replay<'p> {
    /// The initial state: the inputs.
    fn new(proof: &'p Proven, mesh: Mesh, dtype: DType, elements: u64) -> Replay<'p> {
        let Proven { kind, shape, .. } = *proof;
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
        let mut replay = Replay { proof, schedule, dtype, elements, chunks: BTreeMap::new(), step: 0 };
        let input = replay.push(OpKind::Input { array: ArrayId(0), sharding }, block, &[]);
        for rank in 0..replay.ranks() {
            // Each value is on one device only, so assembling parts of several values produces a block on that device
            // only.
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

    fn slot(&self, rank: usize, buffer: Buffer, chunk: u64) -> Slot {
        slot((self.proof.kind, self.proof.in_place), self.proof.shape, (rank, buffer, chunk))
    }

    fn push(&mut self, kind: OpKind, extents: Vec<u64>, operands: &[OpId]) -> OpId {
        let (dtype, step, method) = (self.dtype, self.step, Some(self.proof.format.name()));
        self.schedule.push(Operation { kind, dtype, extents, step, method, span: Span::default() }, operands)
    }

    /// The contents of some locations.
    fn read(&self, slots: &[Slot]) -> Vec<Chunk> {
        slots.iter().filter_map(|slot| self.chunks.get(slot).copied()).collect()
    }

    /// The contents of some locations of one rank, transferred to the reading rank.
    fn brought(&mut self, slots: &[Slot], reader: usize) -> Vec<Chunk> {
        let chunks = self.read(slots);
        match slots.first() {
            Some(slot) if slot.rank() != reader => self.message(&chunks, slot.rank(), reader),
            Some(_) | None => chunks,
        }
    }

    /// Assembles chunks into one value.
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
        self.push(OpKind::Assemble { view: vec![1, whole], places, zeros: false }, vec![1, whole], &parts)
    }

    /// Sends chunks to another rank.
    fn message(&mut self, chunks: &[Chunk], from: usize, to: usize) -> Vec<Chunk> {
        let block = self.block(chunks);
        let received = self.only(block, from, to);
        (0..chunks.len() as u64).map(|chunk| (received, chunk)).collect()
    }

    /// Moves a value of one device to another one, or restricts it to its own device.
    fn only(&mut self, value: OpId, from: usize, to: usize) -> OpId {
        self.step += 1;
        let axes: Vec<AxisId> = self.schedule.mesh.axis_ids().collect();
        let mut entries = vec![None; self.ranks()];
        entries[to] = u32::try_from(from).ok();
        let extents = self.schedule.operation(value).extents.clone();
        let kind = OpKind::Shuffle { sources: Sources::Table { axes, entries }, route: Route::Shortest };
        self.push(kind, extents, &[value])
    }

    /// Adds two lists of chunks of equal length.
    fn sum(&mut self, left: &[Chunk], right: &[Chunk]) -> Vec<Chunk> {
        let operands = [self.block(left), self.block(right)];
        let extents = self.schedule.operation(operands[0]).extents.clone();
        let sum = self.push(OpKind::Add { operator: Operator::Sum }, extents, &operands);
        (0..left.len() as u64).map(|chunk| (sum, chunk)).collect()
    }

    /// Assembles the outputs of all ranks.
    fn finish(mut self) -> Schedule {
        let Proven { kind, shape, .. } = *self.proof;
        let axes: Axes = self.schedule.mesh.axis_ids().collect();
        // In an exchange, each row comes from another rank.
        let row = match kind {
            Kind::AllToAll => shape.output / shape.ranks,
            Kind::AllGather | Kind::ReduceScatter | Kind::AllReduce | Kind::Broadcast => shape.output,
        };
        let view = vec![shape.output / row, row * self.elements];
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        for rank in 0..self.ranks() {
            for line in 0..shape.output / row {
                let slots: Vec<Slot> =
                    (line * row..(line + 1) * row).map(|chunk| self.slot(rank, Buffer::Output, chunk)).collect();
                let chunks = self.read(&slots);
                parts.push(self.block(&chunks));
                places.push(vec![Cut::Range { start: line, end: line + 1 }, Cut::Whole]);
            }
        }
        let value = self.push(OpKind::Assemble { view: view.clone(), places, zeros: false }, view, &parts);
        let sharding = layouts(kind, axes)[1].clone();
        self.schedule.outputs.push(Output { value, array: ArrayId(0), sharding });
        self.schedule
    }
}

/// Input and output layouts, for a two-dim array.
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
        Kind::Broadcast => [sum(Operator::Root(DeviceId(0))), whole],
    }
}
