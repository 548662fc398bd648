//! Converts a schedule of one collective to an [`Algorithm`]: every value of every device is assigned positions in a
//! buffer.
//!
//! A position is written once, so nothing waits for it to become free. Values that are complete on arrival and belong
//! to the output go there directly; all others go to scratch. Slices and assemblies only select and combine lists of
//! positions. A message whose only use is an addition is received by that addition.

use super::refused::{MOST_CHUNKS, Refused};
use super::units::in_units;
use super::{Action, Algorithm, Buffer, Kind, Rank, Shape, Span};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Cut, OpId, OpKind, Region, Schedule};
use petgraph::Direction;
use std::collections::BTreeMap;

/// The actions of the ranks, chunk by chunk.
///
/// # Errors
/// If the schedule is not a single collective, or one that the formats do not support.
pub fn algorithm(schedule: &Schedule) -> Result<Algorithm, Refused> {
    let (small, units) = in_units(schedule)?;
    let inputs: Vec<&Sharding> = small
        .ids()
        .filter_map(|id| match &small.operation(id).kind {
            OpKind::Input { sharding, .. } => Some(sharding),
            _ => None,
        })
        .collect();
    let ([from], [output]) = (inputs.as_slice(), small.outputs.as_slice()) else {
        return Err(Refused::NotOneValue { inputs: inputs.len(), outputs: small.outputs.len() });
    };
    let collective = Collective::of(&small, from, &output.sharding)?;
    let value = output.value;
    let mut placing = Placing::new(&small, from, collective)?;
    for id in small.ids() {
        placing.operation(id)?;
    }
    placing.finish(value);
    let Placing { collective, ranks, shape, .. } = placing;
    let extents = &small.arrays[0].extents;
    let contiguous = collective.contiguous(extents);
    Ok(Algorithm { kind: collective.kind, shape, ranks, chunk: units.iter().product(), contiguous })
}

/// The collective, and the order of its ranks.
struct Collective {
    kind: Kind,
    /// Axes in the order in which they number the ranks.
    order: Axes,
    /// The dims of input and output along which the buffers are ordered by rank.
    parted: [Option<usize>; 2],
    from: Sharding,
    to: Sharding,
}

impl Collective {
    fn of(schedule: &Schedule, from: &Sharding, to: &Sharding) -> Result<Collective, Refused> {
        let mesh = &schedule.mesh;
        let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
        let long = |axes: Axes| -> Axes { axes.iter().filter(|axis| all.contains(*axis)).collect() };
        // The dim that all axes cut, if any.
        let whole = |sharding: &Sharding| {
            let dims = sharding.dims.iter().map(|axes| long(*axes));
            dims.enumerate().find(|(_, axes)| axes.set() == all && !all.is_empty())
        };
        let closed = |sharding: &Sharding| sharding.open.intersection(all).is_empty();
        let uncut = |sharding: &Sharding| sharding.dim_axes().intersection(all).is_empty();
        let is_open = |operator: Operator| from.open.intersection(all) == all && from.operator == operator;
        let (kind, order, parted) = match (whole(from), whole(to)) {
            (Some((dim, axes)), None) if closed(from) && closed(to) && uncut(to) => {
                (Kind::AllGather, axes, [None, Some(dim)])
            }
            (Some((dim, axes)), Some((target, after)))
                if closed(from) && closed(to) && axes == after && dim != target =>
            {
                (Kind::AllToAll, axes, [Some(target), Some(dim)])
            }
            (None, Some((dim, axes))) if is_open(Operator::Sum) && closed(to) => {
                (Kind::ReduceScatter, axes, [Some(dim), None])
            }
            (None, None) if is_open(Operator::Sum) && closed(to) && uncut(to) => {
                (Kind::AllReduce, all.in_order(), [None, None])
            }
            (None, None) if is_open(Operator::Root) && closed(to) && uncut(to) => {
                (Kind::Broadcast, all.in_order(), [None, None])
            }
            _ if !closed(from) && !matches!(from.operator, Operator::Sum | Operator::Root) => {
                return Err(Refused::Operator(from.operator));
            }
            _ => {
                let show = |sharding: &Sharding| {
                    let array = &schedule.arrays[0];
                    let dims = array.dims.iter().zip(&sharding.dims);
                    let dims: Vec<String> =
                        dims.map(|(name, axes)| format!("{name}{}", axes.subscript(mesh))).collect();
                    let open = if sharding.open.is_empty() {
                        String::new()
                    } else {
                        format!("{{{}_{}}}", sharding.operator.word(), sharding.open.names(mesh))
                    };
                    format!("[{}]{open}", dims.join(", "))
                };
                return Err(Refused::Layouts { from: show(from), to: show(to) });
            }
        };
        Ok(Collective { kind, order, parted, from: from.clone(), to: to.clone() })
    }

    /// Whether the buffers are in memory order: no dim before the cut one is longer than a chunk.
    fn contiguous(&self, extents: &[u64]) -> bool {
        let first = |dim: &Option<usize>| dim.is_none_or(|dim| extents[..dim].iter().all(|extent| *extent == 1));
        self.parted.iter().all(first)
    }
}

/// A chunk of a value of a device.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Its buffer.
    buffer: Buffer,
    start: u64,
    /// The array element (in units of chunks).
    element: u64,
    /// Number of pieces of a sum that it contains; all pieces if it is not part of a sum.
    pieces: u64,
}

/// A value of a device.
#[derive(Clone, Debug)]
enum Value {
    Absent,
    /// Held, in row-major order.
    Held(Vec<Chunk>),
    /// In flight: the chunks of the sending device.
    Arriving(DeviceId, Vec<Chunk>),
}

struct Placing<'s> {
    schedule: &'s Schedule,
    collective: Collective,
    shape: Shape,
    /// Values by operation, then by device.
    values: Vec<Vec<Value>>,
    /// State of each rank.
    ranks: Vec<Rank>,
    /// The output chunks that have been written, by rank.
    written: Vec<Vec<bool>>,
    /// Remainder of [`MOST_CHUNKS`].
    left: u64,
}

impl<'s> Placing<'s> {
    fn new(schedule: &'s Schedule, from: &Sharding, collective: Collective) -> Result<Placing<'s>, Refused> {
        let mesh = &schedule.mesh;
        let extents = &schedule.arrays[0].extents;
        let local = |sharding: &Sharding| -> u64 {
            extents.iter().zip(&sharding.dims).map(|(extent, axes)| extent / axes.group_size(mesh)).product()
        };
        let n = mesh.device_count();
        let shape = Shape { ranks: n as u64, input: local(from), output: local(&collective.to) };
        if shape.output.max(shape.input).saturating_mul(shape.ranks) > MOST_CHUNKS {
            return Err(Refused::TooLarge);
        }
        let outputs = usize::try_from(shape.output).unwrap_or(usize::MAX);
        Ok(Placing {
            schedule,
            collective,
            shape,
            values: Vec::new(),
            ranks: vec![Rank::default(); n],
            written: vec![vec![false; outputs]; n],
            left: MOST_CHUNKS,
        })
    }

    fn mesh(&self) -> &'s Mesh {
        &self.schedule.mesh
    }

    fn rank(&self, device: DeviceId) -> usize {
        usize::try_from(self.mesh().rank(device, self.collective.order.iter())).unwrap_or(usize::MAX)
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
                        (Some(chunks), Some(places)) if chunks.len() as u64 == extents.iter().product::<u64>() => {
                            Value::Held(places.into_iter().filter_map(|place| chunks.get(place).copied()).collect())
                        }
                        _ => Value::Absent,
                    }
                }
                OpKind::Shuffle { sources, .. } => match sources.of(self.mesh(), device) {
                    None => Value::Absent,
                    Some(source) => match self.held(operands[0], source) {
                        None => Value::Absent,
                        Some(chunks) if source == device => Value::Held(chunks),
                        Some(chunks) if self.is_added_only(id) => Value::Arriving(source, chunks),
                        Some(chunks) => Value::Held(self.receive(device, source, &chunks)),
                    },
                },
                OpKind::Add { operator } => {
                    if *operator != Operator::Sum {
                        return Err(Refused::Operator(*operator));
                    }
                    self.sum(&operands, device)
                }
                OpKind::Assemble { view, places: regions } => {
                    let size = usize::try_from(operation.elements()).unwrap_or(usize::MAX);
                    let mut all: Vec<Option<Chunk>> = vec![None; size];
                    for (operand, region) in operands.iter().zip(regions) {
                        let Some(chunks) = self.held(*operand, device) else { continue };
                        let Some(places) = places(self.mesh(), device, view, region) else { continue };
                        for (place, chunk) in places.into_iter().zip(chunks) {
                            all[place] = Some(chunk);
                        }
                    }
                    all.into_iter().collect::<Option<Vec<Chunk>>>().map_or(Value::Absent, Value::Held)
                }
                kind => return Err(Refused::Operation { id, what: kind.properties().noun }),
            };
            if let Value::Held(chunks) | Value::Arriving(_, chunks) = &value {
                self.left = self.left.checked_sub(chunks.len() as u64).ok_or(Refused::TooLarge)?;
            }
            values.push(value);
        }
        self.values.push(values);
        Ok(())
    }

    /// The chunks of a value; receives it if it is in flight.
    fn held(&mut self, id: OpId, device: DeviceId) -> Option<Vec<Chunk>> {
        match self.values[id.index()][device.index()].clone() {
            Value::Absent => None,
            Value::Held(chunks) => Some(chunks),
            Value::Arriving(source, chunks) => {
                let chunks = self.receive(device, source, &chunks);
                self.values[id.index()][device.index()] = Value::Held(chunks.clone());
                Some(chunks)
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
        let (array, mesh) = (&self.schedule.arrays[0], self.mesh());
        let from = &self.collective.from;
        if !from.is_on(device, mesh) {
            return Value::Absent;
        }
        let pieces = if from.open.is_empty() || from.operator == Operator::Root { self.shape.ranks } else { 1 };
        let chunk = |element: u64| {
            let start = self.place(element, from, self.collective.parted[0], device);
            start.map(|start| Chunk { buffer: Buffer::Input, start, element, pieces })
        };
        Value::Held(elements(&array.extents, from, mesh, device).into_iter().filter_map(chunk).collect())
    }

    /// Position of an element in a buffer of the device: parts in rank order, each in row-major order.
    fn place(&self, element: u64, sharding: &Sharding, parted: Option<usize>, device: DeviceId) -> Option<u64> {
        let mesh = self.mesh();
        let extents = &self.schedule.arrays[0].extents;
        let (mut rest, mut at) = (element, Vec::with_capacity(extents.len()));
        for extent in extents.iter().rev() {
            at.push(rest % extent);
            rest /= extent;
        }
        at.reverse();
        let (mut index, mut part) = (0, 0);
        let mut size = 1;
        for (dim, extent) in extents.iter().enumerate() {
            let range = sharding.local_range(dim, *extent, mesh, device);
            if !range.contains(&at[dim]) {
                return None;
            }
            let (mut place, mut length) = (at[dim] - range.start, range.end - range.start);
            if parted == Some(dim) {
                length /= self.shape.ranks;
                (part, place) = (place / length, place % length);
            }
            index = index * length + place;
            size *= length;
        }
        Some(part * size + index)
    }

    /// Destination of a chunk on a device: the output, if the chunk is complete, belongs there and is not there yet.
    fn target(&mut self, device: DeviceId, element: u64, pieces: u64) -> Chunk {
        let to = self.collective.to.clone();
        let rank = self.rank(device);
        let place = self.place(element, &to, self.collective.parted[1], device);
        let place = place.filter(|_| pieces == self.shape.ranks);
        let slot = place.and_then(|place| self.written[rank].get_mut(usize::try_from(place).ok()?));
        match (place, slot) {
            (Some(start), Some(written)) if !*written => {
                *written = true;
                Chunk { buffer: Buffer::Output, start, element, pieces }
            }
            _ => {
                let start = self.ranks[rank].scratch;
                self.ranks[rank].scratch += 1;
                Chunk { buffer: Buffer::Scratch, start, element, pieces }
            }
        }
    }

    fn receive(&mut self, device: DeviceId, source: DeviceId, chunks: &[Chunk]) -> Vec<Chunk> {
        let into: Vec<Chunk> = chunks.iter().map(|chunk| self.target(device, chunk.element, chunk.pieces)).collect();
        for [from, into] in runs([chunks, &into]) {
            self.message(source, device, from, |from| Action::Receive { from, into });
        }
        into
    }

    fn message(&mut self, source: DeviceId, device: DeviceId, from: Span, receive: impl FnOnce(u32) -> Action) {
        let (sender, receiver) = (self.rank(source), self.rank(device));
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        self.ranks[sender].actions.push(Action::Send { to: number(receiver), from });
        self.ranks[receiver].actions.push(receive(number(sender)));
    }

    /// The sum of a device's blocks of some values.
    fn sum(&mut self, operands: &[OpId], device: DeviceId) -> Value {
        let (mut held, mut arriving) = (Vec::new(), Vec::new());
        for operand in operands {
            match self.values[operand.index()][device.index()].clone() {
                Value::Absent => {}
                Value::Held(chunks) => held.push(chunks),
                Value::Arriving(source, chunks) => arriving.push((source, chunks)),
            }
        }
        match (held.len(), arriving.len()) {
            (0, 0) => return Value::Absent,
            (1, 0) => return held.pop().map_or(Value::Absent, Value::Held),
            (0, 1) => {
                let (source, chunks) = arriving.remove(0);
                return Value::Held(self.receive(device, source, &chunks));
            }
            _ => {}
        }
        let pieces = |at: usize| {
            let all = held.iter().chain(arriving.iter().map(|(_, chunks)| chunks));
            all.map(|chunks| chunks[at].pieces).sum::<u64>()
        };
        let first = held.first().or(arriving.first().map(|(_, chunks)| chunks)).cloned().unwrap_or_default();
        let sums: Vec<(u64, u64)> = first.iter().enumerate().map(|(at, chunk)| (chunk.element, pieces(at))).collect();
        let into: Vec<Chunk> = sums.into_iter().map(|(element, pieces)| self.target(device, element, pieces)).collect();
        let rank = self.rank(device);
        let mut added: Option<Vec<Chunk>> = (!held.is_empty()).then(|| held.remove(0));
        for (source, chunks) in &arriving {
            match &added {
                None => {
                    for [from, into] in runs([chunks, &into]) {
                        self.message(*source, device, from, |from| Action::Receive { from, into });
                    }
                }
                Some(with) => {
                    for [chunks, with, into] in runs([chunks, with, &into]) {
                        self.message(*source, device, chunks, |from| Action::ReceiveAdd { from, with, into });
                    }
                }
            }
            added = Some(into.clone());
        }
        if let (true, Some(first)) = (arriving.is_empty(), &added) {
            let copies = runs([first, &into]).into_iter().map(|[from, into]| Action::Copy { from, into });
            self.ranks[rank].actions.extend(copies);
        }
        for more in &held {
            let adds = runs([more, &into]).into_iter().map(|[from, into]| Action::Add { from, into });
            self.ranks[rank].actions.extend(adds);
        }
        Value::Held(into)
    }

    /// Copies missing chunks to the output.
    fn finish(&mut self, output: OpId) {
        for device in self.mesh().devices() {
            let Some(chunks) = self.held(output, device) else { continue };
            let rank = self.rank(device);
            let mut moves: BTreeMap<u64, Chunk> = BTreeMap::new();
            for chunk in chunks {
                let Some(place) = self.place(chunk.element, &self.collective.to, self.collective.parted[1], device)
                else {
                    continue;
                };
                let slot = usize::try_from(place).ok().and_then(|place| self.written[rank].get_mut(place));
                if slot.is_some_and(|written| !std::mem::replace(written, true)) {
                    moves.insert(place, chunk);
                }
            }
            let from: Vec<Chunk> = moves.values().copied().collect();
            let into: Vec<Chunk> =
                moves.iter().map(|(place, chunk)| Chunk { buffer: Buffer::Output, start: *place, ..*chunk }).collect();
            let copies = runs([&from, &into]).into_iter().map(|[from, into]| Action::Copy { from, into });
            self.ranks[rank].actions.extend(copies);
        }
    }
}

/// Splits parallel lists of chunks into spans that are contiguous in all of them.
fn runs<const N: usize>(lists: [&[Chunk]; N]) -> Vec<[Span; N]> {
    let mut runs: Vec<[Span; N]> = Vec::new();
    for at in 0..lists[0].len() {
        let chunks = lists.map(|list| list[at]);
        let follows =
            |(span, chunk): (&Span, &Chunk)| span.buffer == chunk.buffer && span.start + span.count == chunk.start;
        match runs.last_mut() {
            Some(last) if last.iter().zip(&chunks).all(follows) => last.iter_mut().for_each(|span| span.count += 1),
            _ => runs.push(chunks.map(|chunk| Span { buffer: chunk.buffer, start: chunk.start, count: 1 })),
        }
    }
    runs
}

/// The elements of an array that a device holds, in row-major order.
fn elements(extents: &[u64], sharding: &Sharding, mesh: &Mesh, device: DeviceId) -> Vec<u64> {
    let mut found = vec![0];
    for (dim, extent) in extents.iter().enumerate() {
        let range = sharding.local_range(dim, *extent, mesh, device);
        found = found.iter().flat_map(|index| range.clone().map(move |at| index * extent + at)).collect();
    }
    found
}

/// The positions of a region in the block that the view refines, in row-major order; `None` if it is absent.
fn places(mesh: &Mesh, device: DeviceId, view: &[u64], region: &Region) -> Option<Vec<usize>> {
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
