//! Timing in list order, in one pass.

use super::clocks::{Clocks, Engine, HopTime, Leaves};
use super::cost::{bytes_of, compute_time, written};
use super::messages::{self, Part};
use super::orbit::Classes;
use super::record::{Log, Record};
use super::{ClockError, Interval, Timing};
use crate::fusion::Access;
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, DeviceId, Orbits};
use crate::schedule::presence::Presence;
use crate::schedule::{OpId, OpKind, Operation, Reach, Route, Sources, Verified};
use crate::topology::closed_form::By;
use crate::topology::routes::Walk;
use crate::topology::{EngineId, Link, LinkId, LinkSide, Topology, Traffic};
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::collections::BTreeMap;

/// The arrival time of a block that never exists on a device.
const ABSENT: Time = Time::MAX;

/// A message in flight.
struct Message {
    walk: Walk,
    destination: DeviceId,
    class: usize,
    /// The engine that sends it.
    engine: Option<Engine>,
    ready: Time,
}

/// A schedule being timed.
pub(super) struct Run<'a> {
    schedule: Verified<'a>,
    topology: &'a Topology,
    clocks: Clocks,
    /// Arrival times per device of each operation that still has users.
    ready: Vec<Option<Vec<Time>>>,
    /// Members of kernels.
    access: BTreeMap<OpId, Access>,
    /// Kernel of each operation's messages; empty where it makes no difference.
    parts: Vec<Part>,
    /// Outstanding uses of each operation; its times are freed after the last.
    uses: Vec<usize>,
    /// Time lists free for reuse.
    spare: Vec<Vec<Time>>,
    /// Messages of the current operation, kept for their allocation.
    messages: Vec<Message>,
}

/// Why a run ends without a timing.
pub(super) enum Stop {
    /// The schedule cannot be timed.
    Error(ClockError),
    /// Symmetry is broken from this operation on.
    Collision(OpId),
    /// Something ends at the limit or later.
    Late,
}

impl From<ClockError> for Stop {
    fn from(error: ClockError) -> Stop {
        Stop::Error(error)
    }
}

/// The times of one operation under construction.
struct Times {
    /// Arrival time per device class.
    ready: Vec<Time>,
    /// `None` until a device takes part.
    interval: Option<Interval>,
    /// Whether a time overflowed.
    too_long: bool,
}

impl Times {
    /// Sets the arrival at a device class to the end of the interval.
    fn set(&mut self, class: usize, interval: Interval) {
        self.start(interval.start);
        self.arrive(class, interval.finish);
    }

    /// Extends the interval to a start time.
    fn start(&mut self, start: Time) {
        let all = self.interval.get_or_insert(Interval { start, finish: start });
        all.start = all.start.min(start);
    }

    /// Sets the arrival at a device class.
    fn arrive(&mut self, class: usize, finish: Time) {
        self.ready[class] = finish;
        self.too_long |= finish == ABSENT;
        if let Some(all) = &mut self.interval {
            all.finish = all.finish.max(finish);
        }
    }
}

impl<'a> Run<'a> {
    /// The initial state; along symmetric axes one device represents all.
    pub(super) fn new(schedule: Verified<'a>, topology: &'a Topology, symmetric: AxisSet) -> Run<'a> {
        let uses = schedule.ids().map(|id| schedule.operations.neighbors(id).count()).collect();
        let classes = Classes::new(topology, Orbits::new(&topology.mesh, symmetric));
        Run {
            schedule,
            topology,
            clocks: Clocks::new(topology, classes),
            ready: Vec::new(),
            access: schedule.accesses(),
            parts: messages::parts(schedule, topology),
            uses,
            spare: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Times all operations, or stops when one ends at the limit.
    pub(super) fn run(mut self, limit: Time) -> Result<Timing, Stop> {
        let intervals = self.all(limit)?;
        Ok(self.clocks.timing(self.topology, intervals))
    }

    /// Times all operations and records the uses of links and engines.
    pub(super) fn recorded(mut self) -> Result<(Timing, Record), Stop> {
        self.clocks.log = Some(Log::default());
        let intervals = self.all(Time::MAX)?;
        let record = self.clocks.record().unwrap_or_default();
        Ok((self.clocks.timing(self.topology, intervals), record))
    }

    /// The interval of each operation.
    fn all(&mut self, limit: Time) -> Result<Vec<Interval>, Stop> {
        let mut intervals = Vec::with_capacity(self.uses.len());
        for id in self.schedule.ids() {
            let operands = self.schedule.operands(id);
            if let Some(log) = &mut self.clocks.log {
                log.begin(id);
            }
            let times = self.operation(id, &operands)?;
            if self.clocks.classes.collided() {
                return Err(Stop::Collision(id));
            }
            if times.too_long {
                return Err(ClockError::TooLong { operation: id }.into());
            }
            let interval = times.interval.unwrap_or_default();
            if interval.finish >= limit {
                return Err(Stop::Late);
            }
            intervals.push(interval);
            self.ready.push(Some(times.ready));
            self.forget(id);
            operands.into_iter().for_each(|operand| self.used(operand));
        }
        Ok(intervals)
    }

    /// Counts down the outstanding uses of an operation.
    fn used(&mut self, id: OpId) {
        self.uses[id.index()] -= 1;
        self.forget(id);
    }

    /// Frees the times of operations without outstanding uses.
    fn forget(&mut self, id: OpId) {
        if self.uses[id.index()] == 0 {
            self.spare.extend(self.ready[id.index()].take());
        }
    }

    /// A time list with every entry [`ABSENT`].
    fn nowhere(&mut self) -> Times {
        let mut ready = self.spare.pop().unwrap_or_default();
        ready.clear();
        ready.resize(self.clocks.classes.devices().len(), ABSENT);
        Times { ready, interval: None, too_long: false }
    }

    /// Arrival of an operation's block at a device class, or [`ABSENT`].
    fn ready(&self, id: OpId, class: usize) -> Time {
        self.ready[id.index()].as_ref().map_or(ABSENT, |times| times[class])
    }

    /// The representative device of a class.
    fn device(&self, class: usize) -> DeviceId {
        self.clocks.classes.devices()[class]
    }

    /// The engine of an operation, if it needs one.
    fn engine(&self, operation: &Operation) -> Option<EngineId> {
        operation.kind.properties().work.and_then(|work| self.topology.hardware.engines.of(work))
    }

    /// Times one operation.
    fn operation(&mut self, id: OpId, operands: &[OpId]) -> Result<Times, ClockError> {
        let schedule = self.schedule;
        let operation = schedule.operation(id);
        let bytes = Bytes(operation.bytes());
        let engine = self.engine(operation);
        match operation.kind.properties().reach {
            Reach::Given(sharding) => Ok(self.input(sharding)),
            Reach::Own => Ok(self.each_device(id, operands)),
            Reach::Sent(sources, route) => {
                let route_error = |route| ClockError::Route { operation: id, route };
                let part = self.parts.get(id.index()).copied();
                self.shuffle(operands[0], (sources, route), engine, bytes, part).map_err(route_error)
            }
            Reach::Gathered(_) if self.topology.is_irregular() => Err(ClockError::KeptGather { operation: id }),
            Reach::Gathered(axes) => {
                let part = self.parts.get(id.index()).copied();
                match operation.kind {
                    OpKind::SwitchSum { .. } => {
                        let sum = self.topology.switch_sum(axes.iter().copied(), operation.dtype);
                        let hardware = || self.topology.hardware.name.clone();
                        let dtype = operation.dtype;
                        let sum =
                            sum.ok_or_else(|| ClockError::SwitchSum { operation: id, hardware: hardware(), dtype })?;
                        let [start, busy, transit] = sum.times(self.topology, bytes);
                        // Without measured kernels, each message starts its own.
                        let start = if part.is_none_or(|part| part.starts) { start } else { Time::ZERO };
                        let members = self.topology.mesh.group_size(axes.iter().copied());
                        let all = Bytes(bytes.0.saturating_mul(members));
                        Ok(self.whole_group(operands[0], axes, engine, [start, busy, transit], all))
                    }
                    _ => Ok(self.all_gather(operands[0], axes, engine, bytes, part)),
                }
            }
        }
    }

    /// Makes inputs available at time zero on every device that holds a part.
    fn input(&mut self, sharding: &Sharding) -> Times {
        let mut times = self.nowhere();
        for class in 0..times.ready.len() {
            if sharding.is_on(self.device(class), &self.schedule.mesh) {
                times.ready[class] = Time::ZERO;
            }
        }
        times.interval = Some(Interval::default());
        times
    }

    /// Times a device-local operation.
    fn each_device(&mut self, id: OpId, operands: &[OpId]) -> Times {
        let mut times = self.nowhere();
        let schedule = self.schedule.schedule();
        let (operation, presence) = (schedule.operation(id), Presence::of(self.schedule, id));
        let engine = self.engine(operation);
        let blocks: Vec<&Operation> = operands.iter().map(|id| schedule.operation(*id)).collect();
        let access = self.access.get(&id).cloned().unwrap_or_else(|| Access::alone(operands.len()));
        let bytes = bytes_of(operation, &blocks, access.lookup);
        let written = u128::from(written(schedule, operation, &access));
        // Most devices read the same number of bytes, and the cost depends only on that number.
        let mut known: Option<(u128, Time)> = None;
        for class in 0..times.ready.len() {
            let device = self.device(class);
            if !presence.at(device, |place, _| self.ready(operands[place], class) != ABSENT) {
                continue;
            }
            let (mut ready, mut read) = (Time::ZERO, 0u128);
            for ((operand, bytes), is_read) in operands.iter().zip(&bytes).zip(&access.reads) {
                let there = self.ready(*operand, class);
                if there != ABSENT {
                    ready = ready.max(there);
                    read = read.saturating_add(if *is_read { *bytes } else { 0 });
                }
            }
            let cost = known.filter(|(bytes, _)| *bytes == read).map_or_else(
                || compute_time(self.topology, operation, &blocks, &access, (read, written)),
                |(_, cost)| cost,
            );
            known = Some((read, cost));
            let interval = match engine {
                Some(engine) => self.clocks.compute(self.clocks.engine(device, engine), cost, ready),
                None => Interval { start: ready, finish: ready + cost },
            };
            times.set(class, interval);
        }
        times
    }

    /// Starts a message to each device that has a source.
    fn shuffle(
        &mut self,
        operand: OpId,
        (sources, route): (&Sources, Route),
        engine: Option<EngineId>,
        bytes: Bytes,
        part: Option<Part>,
    ) -> Result<Times, crate::topology::RouteError> {
        let mut times = self.nowhere();
        let mut messages = std::mem::take(&mut self.messages);
        let route = self.topology.in_links(sources, route);
        for class in 0..times.ready.len() {
            let destination = self.device(class);
            let Some(source) = sources.of(&self.schedule.mesh, destination) else { continue };
            let ready = self.ready(operand, self.clocks.classes.device(source));
            if ready == ABSENT {
                continue;
            }
            if source == destination {
                times.set(class, Interval { start: ready, finish: ready });
                continue;
            }
            messages.push(Message {
                walk: self.topology.start(source, destination, route)?,
                destination,
                class,
                engine: engine.map(|engine| self.clocks.engine(source, engine)),
                ready,
            });
        }
        self.deliver(&mut messages, bytes, part, &mut times);
        self.messages = messages;
        Ok(times)
    }

    /// Routes all messages hop by hop to their destinations.
    fn deliver(&mut self, messages: &mut Vec<Message>, bytes: Bytes, part: Option<Part>, times: &mut Times) {
        let (topology, clocks) = (self.topology, &mut self.clocks);
        let hop_time = |axis: AxisId, rate| HopTime::new(topology, axis, rate, bytes, part);
        let all = topology.machine.axis_ids().zip(&topology.axes);
        let hop_times: Vec<HopTime> = all.map(|(axis, links)| hop_time(axis, links.one_way)).collect();
        let slower: BTreeMap<LinkId, HopTime> = topology
            .degraded()
            .filter_map(|(link, _)| Some((link, hop_time(topology.link(link).axis, topology.rate(link)?))))
            .collect();
        let cables = topology.cable_times(bytes.0);
        let mut first = true;
        while !messages.is_empty() {
            clocks.classes.next_round();
            messages.retain_mut(|message| {
                let Some(hop) = topology.step(&mut message.walk) else { return false };
                let time = if slower.is_empty() { None } else { slower.get(&hop.link) };
                let time = *time.unwrap_or(&hop_times[hop.axis.index()]);
                let time = time.over(cables.as_ref(), &hop);
                let leaves = if first { Leaves::Sender(message.engine) } else { Leaves::Between };
                let interval = clocks.send(cables.as_ref(), &hop, time, leaves, (bytes, message.ready));
                times.start(interval.start);
                message.ready = interval.finish;
                if hop.to == Some(message.destination) {
                    times.arrive(message.class, interval.finish);
                    return false;
                }
                true
            });
            first = false;
        }
    }

    /// Times a kept AllGather. Each group waits for its members and links. It occupies the links exclusively for the
    /// closed form on the real wiring, or for the time that a device's engine needs to send its part if that is longer.
    fn all_gather(
        &mut self,
        operand: OpId,
        axes: &[AxisId],
        engine: Option<EngineId>,
        full: Bytes,
        part: Option<Part>,
    ) -> Times {
        let topology = self.topology;
        let mesh = &topology.mesh;
        let form = topology.gather_over(axes.iter().copied(), full, By::Links);
        let members = mesh.group_size(axes.iter().copied());
        // A device sends its messages through its engine one after the other.
        let rate = axes.iter().map(|axis| topology.links(*axis).one_way).max();
        let sent = u128::from(full.0) * u128::from(members.saturating_sub(1)) / u128::from(members.max(1));
        let leaving = engine.and(rate).map_or(Time::ZERO, |rate| topology.scale.at_rate(sent, rate));
        let time = form.time.max(leaving);
        let starts = |axis: &AxisId| topology.kernel_start(topology.mesh.physical(*axis), Traffic::Collective);
        let starts = part.filter(|part| part.starts).and_then(|_| axes.iter().map(starts).max());
        let starts = topology.scale.picoseconds(starts.unwrap_or(0));
        let received = u128::from(full.0) * (u128::from(members) - 1);
        let received = Bytes(u64::try_from(received).unwrap_or(u64::MAX));
        self.whole_group(operand, axes, engine, [starts, time, time], received)
    }

    /// Times a group operation: each group waits for its members, starts, and occupies its links exclusively.
    ///
    /// - `[start, busy, transit]`: start-up before the links are busy, link occupancy, and time until the result has
    ///   arrived.
    /// - `all`: bytes that all members together receive.
    fn whole_group(
        &mut self,
        operand: OpId,
        axes: &[AxisId],
        engine: Option<EngineId>,
        [starts, time, transit]: [Time; 3],
        all: Bytes,
    ) -> Times {
        let mut times = self.nowhere();
        let mesh = &self.topology.mesh;
        self.clocks.classes.next_round();
        for class in 0..times.ready.len() {
            let leader = self.device(class);
            if mesh.rank(leader, axes.iter().copied()) != 0 {
                continue;
            }
            let group: Vec<DeviceId> = mesh.group(leader, axes).collect();
            let classes: Vec<usize> = group.iter().map(|device| self.clocks.classes.device(*device)).collect();
            let ready = classes.iter().map(|class| self.ready(operand, *class)).max().unwrap_or(ABSENT);
            if ready == ABSENT {
                continue;
            }
            let ready = ready + starts;
            let start =
                if time == Time::ZERO { ready } else { self.occupy_group(&group, axes, engine, ready, time, all) };
            for class in classes {
                times.set(class, Interval { start, finish: start + transit });
            }
        }
        times
    }

    /// Occupies all links of a group and its sending engines at once; returns the start.
    fn occupy_group(
        &mut self,
        group: &[DeviceId],
        axes: &[AxisId],
        engine: Option<EngineId>,
        ready: Time,
        busy: Time,
        received: Bytes,
    ) -> Time {
        let topology = self.topology;
        // If an axis is split into parts, the links of the whole axis are used: all groups run side by side, each on
        // the links into which its devices send.
        let wired: AxisSet = axes.iter().map(|axis| topology.mesh.physical(*axis)).collect();
        let links = group.iter().flat_map(|device| wired.iter().flat_map(|axis| links_of(topology, axis, *device)));
        let links: Vec<LinkId> = links.unique().collect();
        let start = links.iter().map(|link| self.clocks.link_free(*link)).fold(ready, Time::max);
        let engines = group.iter().filter_map(|device| Some(self.clocks.engine(*device, engine?)));
        let engines: Vec<Engine> = engines.unique().collect();
        let start = engines.iter().map(|engine| self.clocks.engine_free(*engine)).fold(start, Time::max);
        engines.into_iter().for_each(|engine| self.clocks.occupy_engine(engine, start, busy));
        // The bytes received by the whole group, spread over its links. On a switch they pass an outgoing and an
        // incoming port.
        let received = u128::from(received.0);
        let paths = links.iter().filter(|link| topology.link(**link).side != LinkSide::In).count() as u128;
        let share = received.div_ceil(paths.max(1));
        let share = Bytes(u64::try_from(share).unwrap_or(u64::MAX));
        let own = links.iter().copied().min();
        for link in links.into_iter().unique_by(|link| self.clocks.classes.link(*link)).collect::<Vec<_>>() {
            self.clocks.classes.meet(link, own.unwrap_or(link));
            self.clocks.occupy(link, start, busy, share, 0);
        }
        start
    }
}

/// The links of a device along a machine axis.
pub(super) fn links_of(topology: &Topology, axis: AxisId, device: DeviceId) -> impl Iterator<Item = LinkId> + '_ {
    let links = topology.sides(axis).map(move |side| Link { axis, side, device });
    links.filter(|link| topology.exists(*link)).map(|link| topology.link_id(link))
}
