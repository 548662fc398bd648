//! What each device sends, receives and holds: a fourth interpreter of a schedule, which counts.
//!
//! A message is a block that a shuffle brings from another device; what a device has already is not sent. Of a gather
//! kept as one operation each device receives the blocks of all others.
//!
//! Memory is counted along the list. A block is there from the operation that makes it to the last one that reads it;
//! outputs stay to the end. A message is there from its shuffle on, where the receive is posted. Slices, and blocks that
//! a device takes over from itself, are views: they keep the block that they are of. Inputs are there from the start;
//! those that are donated to their last use, the others to the end.
//!
//! What is passed on inside a kernel takes no memory, and a kernel reads its operands until its last operation.
//!
//! Where devices are alike along an axis, one stands for all.

use super::clock::{self, AxisLoad};
use crate::mesh::{Axes, AxisId, AxisSet, DeviceId, Mesh, Orbits};
use crate::schedule::presence::Presence;
use crate::schedule::{Dense, OpId, OpKind, Operation, Schedule, Verified};
use crate::units::Bytes;
use std::ops::AddAssign;

/// What one device sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that leave it.
    pub sent: u64,
    /// Bytes that arrive.
    pub received: u64,
    /// Messages that arrive.
    pub messages: u64,
}

impl Traffic {
    /// The same several times.
    pub fn times(self, times: u64) -> Traffic {
        let of = |amount: u64| amount.saturating_mul(times);
        Traffic { sent: of(self.sent), received: of(self.received), messages: of(self.messages) }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.messages = self.messages.saturating_add(other.messages);
    }
}

/// What one step of a plan does to the memory of a device, in addition to its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Working {
    /// The most bytes that it holds of its own, its result among them, as long as it reads its operand.
    pub reading: u64,
    /// The same from then on.
    pub after: u64,
    /// The bytes of its own in which its result lies.
    pub result: u64,
    /// Whether the result lies in the operand.
    pub is_view: bool,
}

impl Working {
    /// The most bytes held for the step, its operands of `bytes` among them.
    pub fn with_operands(&self, bytes: u64) -> u64 {
        bytes.saturating_add(self.reading).max(self.after)
    }
}

/// Something of each device. Devices that differ only along other axes have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerDevice<T> {
    /// The axes along which devices may differ.
    pub axes: Axes,
    /// By rank along these axes.
    pub each: Vec<T>,
}

impl<T: Copy> PerDevice<T> {
    /// The same on all devices.
    pub fn all(value: T) -> PerDevice<T> {
        PerDevice { axes: Axes::NONE, each: vec![value] }
    }

    /// That of one device.
    pub fn of(&self, mesh: &Mesh, device: DeviceId) -> T {
        let rank = if self.each.len() == 1 { 0 } else { mesh.rank(device, self.axes.iter()) };
        self.each[usize::try_from(rank).expect("fewer than 2^20 devices")]
    }

    /// The same where axes have other numbers.
    pub fn renumbered(self, axis: impl Fn(AxisId) -> AxisId) -> PerDevice<T> {
        PerDevice { axes: self.axes.iter().map(axis).collect(), each: self.each }
    }

    /// Combined with something of the same devices.
    pub fn with(&self, other: &PerDevice<T>, mesh: &Mesh, both: impl Fn(T, T) -> T) -> PerDevice<T> {
        if self.axes == other.axes && self.each.len() == other.each.len() {
            let each = self.each.iter().zip(&other.each).map(|(one, other)| both(*one, *other)).collect();
            return PerDevice { axes: self.axes, each };
        }
        let axes = self.axes.set().union(other.axes.set()).in_order();
        let device = |rank| mesh.with_rank(DeviceId(0), axes.iter(), rank);
        let each = (0..axes.group_size(mesh)).map(device);
        PerDevice { axes, each: each.map(|device| both(self.of(mesh, device), other.of(mesh, device))).collect() }
    }

    /// With something else of each device.
    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> PerDevice<U> {
        PerDevice { axes: self.axes, each: self.each.iter().map(of).collect() }
    }
}

/// An amount that devices may have different ones of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Of the device that has most.
    pub most: u64,
    /// Of all devices together.
    pub total: u128,
    /// How many devices there are.
    pub devices: u64,
}

impl Spread {
    /// Of amounts that as many devices each have.
    pub fn new(amounts: impl Iterator<Item = u64>, devices: u64) -> Spread {
        let (mut most, mut total, mut count) = (0, 0u128, 0u64);
        for amount in amounts {
            (most, total, count) = (amount.max(most), total + u128::from(amount), count + 1);
        }
        Spread { most, total: total * u128::from(devices / count.max(1)), devices }
    }

    /// The mean over all devices.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn mean(self) -> f64 {
        self.total as f64 / self.devices.max(1) as f64
    }
}

/// What a whole schedule comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that devices send.
    pub sent: Spread,
    /// Bytes that devices receive.
    pub received: Spread,
    /// Messages that devices receive.
    pub messages: Spread,
    /// The most bytes that one device holds at once.
    pub peak: Bytes,
}

impl Usage {
    /// Of the traffic of each device, and of what it holds.
    pub fn new(traffic: &PerDevice<Traffic>, peak: u64, mesh: &Mesh) -> Usage {
        let devices = mesh.device_count() as u64;
        let spread = |of: fn(&Traffic) -> u64| Spread::new(traffic.each.iter().map(of), devices);
        Usage {
            sent: spread(|traffic| traffic.sent),
            received: spread(|traffic| traffic.received),
            messages: spread(|traffic| traffic.messages),
            peak: Bytes(peak),
        }
    }
}

/// Counts a schedule.
pub fn of(schedule: Verified<'_>) -> Usage {
    let count = Count::new(schedule);
    let outputs: Vec<OpId> = schedule.outputs.iter().map(|output| output.value).collect();
    let classes = if count.is_uniform() { 0..1 } else { 0..count.devices().len() };
    let peak = classes.map(|class| count.memory(class, &outputs).peak()).max();
    Usage::new(&count.traffic(), peak.unwrap_or_default(), &schedule.mesh)
}

/// What one step of a plan comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepUsage {
    /// What each device sends and receives.
    pub traffic: PerDevice<Traffic>,
    /// What each device holds.
    pub working: PerDevice<Working>,
    /// What the links of each axis of the machine carry; nothing where that has not been simulated.
    pub links: Vec<AxisLoad>,
}

impl StepUsage {
    /// Counts a schedule that is one step: what comes after its first operation, an input, up to its result.
    pub fn of(schedule: Verified<'_>, result: OpId) -> StepUsage {
        let count = Count::new(schedule);
        let of = |class| count.memory(class, &[result]).working(result);
        let working = match count.is_uniform() {
            true => PerDevice::all(of(0)),
            false => PerDevice { axes: count.apart(), each: (0..count.devices().len()).map(of).collect() },
        };
        StepUsage { traffic: count.traffic(), working, links: Vec::new() }
    }

    /// Traffic and links of this and then another use of the machine, with the memory of the first.
    #[must_use]
    pub fn then(&self, other: &StepUsage, mesh: &Mesh) -> StepUsage {
        let both = |mut one: Traffic, other: Traffic| {
            one += other;
            one
        };
        let mut links = self.links.clone();
        for load in &other.links {
            match links.iter_mut().find(|known| known.axis == load.axis) {
                Some(known) => *known = known.then(load),
                None => links.push(*load),
            }
        }
        links.sort_by_key(|load| load.axis);
        StepUsage { traffic: self.traffic.with(&other.traffic, mesh, both), working: self.working.clone(), links }
    }

    /// Of a step that does nothing.
    pub fn none() -> StepUsage {
        StepUsage::local(PerDevice::all(0))
    }

    /// Usage of a step that sends nothing and allocates this number of bytes on each device.
    pub fn local(bytes: PerDevice<u64>) -> StepUsage {
        let working = bytes.map(|bytes| Working { reading: *bytes, after: 0, result: *bytes, is_view: false });
        StepUsage { traffic: PerDevice::all(Traffic::default()), working, links: Vec::new() }
    }

    /// On all devices together; the peak is that of its own bytes.
    pub fn whole(&self, mesh: &Mesh) -> Usage {
        let peak = self.working.each.iter().map(|working| working.reading.max(working.after)).max();
        Usage::new(&self.traffic, peak.unwrap_or_default(), mesh)
    }

    /// The bytes that a device receives, of the one that receives most.
    pub fn received(&self) -> Bytes {
        Bytes(self.traffic.each.iter().map(|traffic| traffic.received).max().unwrap_or_default())
    }

    /// The same where axes have other numbers.
    pub fn renumbered(self, axis: &dyn Fn(AxisId) -> AxisId) -> StepUsage {
        StepUsage { traffic: self.traffic.renumbered(axis), working: self.working.renumbered(axis), ..self }
    }
}

/// On which devices each operation of a schedule has a result.
struct Count<'a> {
    schedule: Verified<'a>,
    orbits: Orbits,
    operands: Vec<Vec<OpId>>,
    /// For each operation.
    present: Vec<Where>,
    /// Bytes of the block of each operation; none where it stays inside a kernel.
    bytes: Vec<u64>,
    /// The last operation of the kernel of each.
    ends: Vec<OpId>,
}

/// On which devices there is a block.
enum Where {
    /// On all.
    Everywhere,
    /// By class of devices.
    Some(Vec<bool>),
}

impl Where {
    fn at(&self, class: usize) -> bool {
        match self {
            Where::Everywhere => true,
            Where::Some(classes) => classes[class],
        }
    }
}

impl<'a> Count<'a> {
    fn new(schedule: Verified<'a>) -> Count<'a> {
        let mesh = &schedule.mesh;
        let axes: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
        let orbits = Orbits::new(mesh, clock::alike(&schedule, axes));
        let operands = schedule.ids().map(|id| schedule.operands(id)).collect();
        let mut bytes: Vec<u64> = schedule.ids().map(|id| block_bytes(schedule.operation(id))).collect();
        let inside = schedule.accesses().into_iter().filter(|(_, access)| access.is_inside);
        inside.for_each(|(id, _)| bytes[id.index()] = 0);
        let mut ends: Vec<OpId> = schedule.ids().collect();
        for kernel in &schedule.kernels {
            let last = kernel.iter().max();
            kernel.iter().for_each(|id| ends[id.index()] = *last.unwrap_or(id));
        }
        let mut count = Count { schedule, orbits, operands, present: Vec::new(), bytes, ends };
        for id in schedule.ids() {
            let present = count.presence(id);
            count.present.push(present);
        }
        count
    }

    fn devices(&self) -> &[DeviceId] {
        self.orbits.representatives()
    }

    /// Whether all devices have all blocks, and none takes over its own.
    fn is_uniform(&self) -> bool {
        let mesh = &self.schedule.mesh;
        let sends = |id: OpId| match &self.schedule.operation(id).kind {
            OpKind::Shuffle { sources, .. } => {
                self.devices().iter().all(|device| sources.of(mesh, *device) != Some(*device))
            }
            _ => true,
        };
        let everywhere = |place: &Where| matches!(place, Where::Everywhere);
        self.present.iter().all(everywhere) && self.schedule.ids().all(sends)
    }

    /// The axes along which devices differ.
    fn apart(&self) -> Axes {
        let axes = self.schedule.mesh.axis_ids().filter(|axis| !self.orbits.axes().contains(*axis));
        axes.collect()
    }

    fn is_present(&self, id: OpId, device: DeviceId) -> bool {
        self.present[id.index()].at(self.orbits.class(device))
    }

    fn presence(&self, id: OpId) -> Where {
        if self.follows_operands(id) {
            return Where::Everywhere;
        }
        let classes = self.classes_of(id);
        if classes.iter().all(|there| *there) { Where::Everywhere } else { Where::Some(classes) }
    }

    /// Whether an operation has a result wherever its operands are, and these are everywhere.
    fn follows_operands(&self, id: OpId) -> bool {
        let operands = &self.operands[id.index()];
        let are_everywhere = operands.iter().all(|operand| matches!(self.present[operand.index()], Where::Everywhere));
        let kind = &self.schedule.operation(id).kind;
        are_everywhere
            && !operands.is_empty()
            && !matches!(kind, OpKind::Shuffle { .. } | OpKind::Slice { .. } | OpKind::Assemble { .. })
    }

    fn classes_of(&self, id: OpId) -> Vec<bool> {
        let (operands, presence) = (&self.operands[id.index()], Presence::of(self.schedule, id));
        let has = |place: usize, device: DeviceId| self.is_present(operands[place], device);
        self.devices().iter().map(|device| presence.at(*device, has)).collect()
    }

    /// What each class of devices sends and receives: of all images of a message each has one.
    fn traffic(&self) -> PerDevice<Traffic> {
        let mesh = &self.schedule.mesh;
        let mut each = vec![Traffic::default(); self.devices().len()];
        for id in self.schedule.ids() {
            let operation = self.schedule.operation(id);
            let bytes = block_bytes(operation);
            let has = (0..each.len()).filter(|class| bytes > 0 && self.present[id.index()].at(*class));
            match &operation.kind {
                OpKind::Shuffle { sources, .. } => {
                    for class in has {
                        let device = self.devices()[class];
                        if let Some(source) = sources.of(mesh, device).filter(|source| *source != device) {
                            each[class] += Traffic { sent: 0, received: bytes, messages: 1 };
                            each[self.orbits.class(source)] += Traffic { sent: bytes, received: 0, messages: 0 };
                        }
                    }
                }
                OpKind::AllGather { axes, .. } => {
                    let n = mesh.group_size(axes.iter().copied());
                    // Shards of 4-bit elements end in a whole byte each.
                    let shard =
                        self.operands[id.index()].first().map_or(0, |id| block_bytes(self.schedule.operation(*id)));
                    let others = shard.saturating_mul(n - 1);
                    has.for_each(|class| {
                        each[class] += Traffic { sent: others, received: others, messages: n - 1 };
                    });
                }
                OpKind::SwitchSum { .. } => {
                    has.for_each(|class| each[class] += Traffic { sent: bytes, received: bytes, messages: 1 });
                }
                _ => {}
            }
        }
        PerDevice { axes: self.apart(), each }
    }

    /// What a device holds along the list.
    fn memory(&self, class: usize, outputs: &[OpId]) -> Memory<'_> {
        let (mesh, device) = (&self.schedule.mesh, self.devices()[class]);
        let mut blocks: Vec<Option<OpId>> = Vec::with_capacity(self.operands.len());
        let mut last: Vec<OpId> = self.schedule.ids().collect();
        for id in self.schedule.ids() {
            let operands = &self.operands[id.index()];
            let is_view = match &self.schedule.operation(id).kind {
                OpKind::Slice { .. } | OpKind::Reshape => true,
                OpKind::Shuffle { sources, .. } => sources.of(mesh, device) == Some(device),
                _ => false,
            };
            let read = operands.iter().filter_map(|operand| blocks[operand.index()]);
            read.for_each(|block| last[block.index()] = last[block.index()].max(self.ends[id.index()]));
            let own = self.present[id.index()].at(class).then_some(id);
            blocks.push(own.and_then(|id| if is_view { blocks[operands[0].index()] } else { Some(id) }));
        }
        let end = OpId::end();
        for block in outputs.iter().filter_map(|output| blocks[output.index()]) {
            last[block.index()] = end;
        }
        Memory { schedule: self.schedule.schedule(), bytes: &self.bytes, blocks, last }
    }
}

/// The blocks of one device.
struct Memory<'a> {
    schedule: &'a Schedule,
    /// Of the block of each operation.
    bytes: &'a [u64],
    /// In which block each value lies, named by the operation that made it; none where the value is absent.
    blocks: Vec<Option<OpId>>,
    /// Of each block, the last operation that reads it.
    last: Vec<OpId>,
}

impl Memory<'_> {
    /// Whether a block is that of an input, and if so, whether it is donated.
    fn donated(&self, id: OpId) -> Option<bool> {
        let OpKind::Input { array, .. } = &self.schedule.operation(id).kind else { return None };
        let Dense::Input { supply } = &self.schedule.array(*array).definition else { return None };
        Some(supply.is_given_up())
    }

    /// Bytes of the inputs, of those that are donated or of the others.
    fn inputs(&self, donated: bool) -> u64 {
        let blocks = self.schedule.ids().filter(|id| self.blocks[id.index()] == Some(*id));
        let inputs = blocks.filter(|id| self.donated(*id) == Some(donated));
        inputs.map(|id| self.bytes[id.index()]).fold(0, u64::saturating_add)
    }

    /// What is held while each operation is done, in addition to inputs that stay to the end.
    fn held(&self) -> Vec<u64> {
        let mut dying = vec![0u64; self.blocks.len()];
        let mut live = self.inputs(true);
        let mut held = Vec::with_capacity(self.blocks.len());
        for id in self.schedule.ids() {
            let donated = self.donated(id);
            if self.blocks[id.index()] == Some(id) && donated != Some(false) {
                let bytes = self.bytes[id.index()];
                live = if donated.is_none() { live.saturating_add(bytes) } else { live };
                if let Some(dying) = dying.get_mut(self.last[id.index()].index()) {
                    *dying = dying.saturating_add(bytes);
                }
            }
            held.push(live);
            live = live.saturating_sub(dying[id.index()]);
        }
        held
    }

    /// The most of all together.
    fn peak(&self) -> u64 {
        self.held().into_iter().max().unwrap_or_default().saturating_add(self.inputs(false))
    }

    /// Of a schedule whose first operation is the operand.
    fn working(&self, result: OpId) -> Working {
        let held = self.held();
        let operand = OpId::new(0);
        let read = self.last[0].index().saturating_add(1).min(held.len());
        let most = |held: &[u64]| held.iter().copied().max().unwrap_or_default();
        let block = self.blocks[result.index()];
        Working {
            reading: most(&held[..read]),
            after: most(&held[read..]),
            result: block.filter(|block| *block != operand).map_or(0, |id| self.bytes[id.index()]),
            is_view: block == Some(operand),
        }
    }
}

/// Bytes of the block of one device.
fn block_bytes(operation: &Operation) -> u64 {
    operation.dtype.bytes(operation.extents.iter().fold(1, |elements: u64, extent| elements.saturating_mul(*extent)))
}
