//! First come, first served: links and engines serve whatever is ready first, regardless of list order.
//!
//! This models machines that do not see a global operation list, and schedules imported from other tools. Ties are
//! broken by list position, then hop, then destination. A job that needs several resources at once, such as a port out
//! and a port in, starts when all of them are idle; until then they serve other jobs.
//!
//! Every block on every device is simulated: the cost grows with operations times devices.

use super::clocks::HopTime;
use super::cost::{bytes_of, compute_time, written};
use super::messages::{self, Part};
use super::record::{MOST_USES, Record, Resource, Use};
use super::run::links_of;
use super::{ClockError, Interval, LinkLoad, Order, Timing};
use crate::fusion::Access;
use crate::mesh::{AxisId, DeviceId};
use crate::schedule::presence::presence;
use crate::schedule::{OpId, OpKind, Operation, Reach, Route, Verified};
use crate::topology::routes::Walk;
use crate::topology::{EngineId, Hop, LinkId, Topology};
use crate::units::{Bytes, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Limit on operations times devices.
const MOST_BLOCKS: usize = 1 << 26;

/// Service priority: ready time, list position, hop, destination.
type Turn = (Time, usize, u32, DeviceId);

/// One hop of a message, or one computation on a device.
struct Job {
    turn: Turn,
    /// The remaining route of a message, and its current hop.
    message: Option<(Walk, Hop)>,
    /// The resources, each with the time that it is occupied.
    needs: Vec<(Resource, Time)>,
    bytes: Bytes,
    /// Time from start to end.
    takes: Time,
}

/// Simulation events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A resource becomes idle.
    Idle(usize),
    /// A job ends.
    Ends(usize),
    /// The kernel of a message has started.
    Starts(usize),
}

/// A link or an engine.
#[derive(Default)]
struct Server {
    is_busy: bool,
    /// Jobs waiting for this resource.
    waiting: BTreeMap<Turn, usize>,
}

/// State of one operation's blocks.
struct Blocks {
    bytes: Bytes,
    /// Whether each device holds a block after the operation.
    there: Vec<bool>,
    /// Number of outstanding operands per device.
    missing: Vec<u32>,
    /// Source and destination pairs of a shuffle, indexed by sender.
    sent: Vec<(DeviceId, DeviceId)>,
    interval: Option<Interval>,
}

/// A schedule being timed.
pub(super) struct Arrival<'a> {
    schedule: Verified<'a>,
    /// Members of kernels.
    access: BTreeMap<OpId, Access>,
    /// Kernel of each operation's messages; empty where it makes no difference.
    parts: Vec<Part>,
    topology: &'a Topology,
    blocks: Vec<Blocks>,
    jobs: Vec<Option<Job>>,
    /// Places of finished jobs, free for reuse.
    free: Vec<usize>,
    servers: Vec<Server>,
    /// Jobs that may start at the current time.
    candidates: BTreeMap<Turn, usize>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    links: Vec<LinkLoad>,
    engines: Vec<Time>,
    record: Record,
}

impl<'a> Arrival<'a> {
    /// The initial state.
    pub(super) fn new(schedule: Verified<'a>, topology: &'a Topology) -> Result<Self, ClockError> {
        let devices = topology.machine.device_count();
        if schedule.operations.node_count().saturating_mul(devices) > MOST_BLOCKS {
            return Err(ClockError::ManyBlocks);
        }
        let mut arrival = Arrival {
            schedule,
            access: schedule.accesses(),
            parts: messages::parts(schedule, topology),
            topology,
            blocks: Vec::new(),
            jobs: Vec::new(),
            free: Vec::new(),
            servers: Vec::new(),
            candidates: BTreeMap::new(),
            events: BinaryHeap::new(),
            links: vec![LinkLoad::default(); topology.link_count()],
            engines: vec![Time::ZERO; topology.hardware.engines.names().len() * devices],
            record: Record::default(),
        };
        let servers = arrival.links.len() + arrival.engines.len();
        arrival.servers.resize_with(servers, Server::default);
        for (id, there) in schedule.ids().zip(presence(schedule)) {
            let blocks = arrival.blocks_of(id, there)?;
            arrival.blocks.push(blocks);
        }
        Ok(arrival)
    }

    /// The dependencies of each device that will hold a block of an operation.
    fn blocks_of(&self, id: OpId, there: Vec<bool>) -> Result<Blocks, ClockError> {
        let (operation, operands) = (self.schedule.operation(id), self.schedule.operands(id));
        let mesh = &self.schedule.mesh;
        let mut missing: Vec<u32> = vec![0; mesh.device_count()];
        let mut sent = Vec::new();
        match operation.kind.properties().reach {
            Reach::Given(_) => {}
            // Of a group its first member waits for all.
            Reach::Gathered(axes) if matches!(operation.kind, OpKind::SwitchSum { .. }) => {
                for device in mesh.devices().filter(|device| there[device.index()]) {
                    missing[mesh.with_rank(device, axes.iter().copied(), 0).index()] += 1;
                }
            }
            Reach::Gathered(_) => return Err(ClockError::KeptByArrival { operation: id }),
            Reach::Sent(sources, _) => {
                let received = mesh.devices().filter(|device| there[device.index()]);
                sent.extend(received.filter_map(|device| Some((sources.of(mesh, device)?, device))));
                sent.sort_unstable();
            }
            Reach::Own => {
                for operand in operands {
                    let held = &self.blocks[operand.index()].there;
                    missing.iter_mut().zip(held).for_each(|(missing, held)| *missing += u32::from(*held));
                }
            }
        }
        Ok(Blocks { bytes: Bytes(operation.bytes()), there, missing, sent, interval: None })
    }

    /// Runs all events.
    pub(super) fn run(mut self) -> Result<(Timing, Record), ClockError> {
        for id in self.schedule.ids() {
            if matches!(self.schedule.operation(id).kind, OpKind::Input { .. }) {
                self.blocks[id.index()].interval = Some(Interval::default());
                for device in self.schedule.mesh.devices() {
                    if self.blocks[id.index()].there[device.index()] {
                        self.is_there(id, device, Time::ZERO)?;
                    }
                }
            }
        }
        self.serve(Time::ZERO);
        while let Some(Reverse((now, _))) = self.events.peek() {
            let now = *now;
            while let Some(Reverse((_, event))) = self.events.peek().copied().filter(|Reverse((time, _))| *time == now)
            {
                self.events.pop();
                match event {
                    Event::Idle(server) => {
                        self.servers[server].is_busy = false;
                        self.call(server);
                    }
                    Event::Ends(job) => self.ends(job, now)?,
                    Event::Starts(job) => {
                        let turn = self.jobs[job].as_ref().expect("a job that starts has not ended").turn;
                        self.candidates.insert(turn, job);
                    }
                }
            }
            self.serve(now);
        }
        let used = self.topology.all_links().filter(|id| self.links[id.index()].busy > Time::ZERO);
        let busiest = used.max_by_key(|id| (self.links[id.index()].busy, Reverse(*id)));
        let operations: Vec<Interval> = self.blocks.iter().map(|blocks| blocks.interval.unwrap_or_default()).collect();
        let count = self.topology.hardware.engines.names().len();
        let longest = |engine| self.engines.iter().skip(engine).step_by(count.max(1)).copied().max();
        let timing = Timing {
            order: Order::Arrival,
            makespan: operations.iter().map(|operation| operation.finish).max().unwrap_or_default(),
            operations,
            engines: (0..count).map(|engine| longest(engine).unwrap_or_default()).collect(),
            links: self.links,
            busiest,
        };
        Ok((timing, self.record))
    }

    /// Records that a device has its block of an operation, and releases the dependents.
    fn is_there(&mut self, id: OpId, device: DeviceId, now: Time) -> Result<(), ClockError> {
        let mut there = vec![(id, device)];
        while let Some((id, device)) = there.pop() {
            if now == Time::MAX {
                return Err(ClockError::TooLong { operation: id });
            }
            let users: Vec<OpId> = self.schedule.operations.neighbors(id).collect();
            for user in users {
                let operation = self.schedule.schedule().operation(user);
                if let OpKind::Shuffle { sources, route } = &operation.kind {
                    let route = self.topology.in_links(sources, *route);
                    let sent = &self.blocks[user.index()].sent;
                    let first = sent.partition_point(|(source, _)| *source < device);
                    let own = sent[first..].iter().take_while(|(source, _)| *source == device);
                    for destination in own.map(|(_, destination)| *destination).collect::<Vec<_>>() {
                        if self.leaves(user, device, destination, route, now)? {
                            there.push((user, destination));
                        }
                    }
                } else if let OpKind::SwitchSum { axes, .. } = &operation.kind {
                    let first = self.schedule.mesh.with_rank(device, axes.iter().copied(), 0);
                    if self.has_all(user, first) && self.joins(user, axes, first, now)? {
                        there.extend(self.schedule.mesh.group(first, axes).map(|member| (user, member)));
                    }
                } else if self.has_all(user, device) && self.computes(user, operation, device, now) {
                    there.push((user, device));
                }
            }
        }
        Ok(())
    }

    /// Counts one more operand as available; true if it was the last.
    fn has_all(&mut self, id: OpId, device: DeviceId) -> bool {
        let blocks = &mut self.blocks[id.index()];
        let missing = &mut blocks.missing[device.index()];
        *missing -= 1;
        *missing == 0 && blocks.there[device.index()]
    }

    /// Starts sending a message; true if it has already arrived.
    fn leaves(
        &mut self,
        id: OpId,
        source: DeviceId,
        destination: DeviceId,
        route: Route,
        now: Time,
    ) -> Result<bool, ClockError> {
        if source == destination {
            self.spans(id, now, now);
            return Ok(true);
        }
        let way = self.topology.start(source, destination, route);
        let walk = way.map_err(|route| ClockError::Route { operation: id, route })?;
        Ok(!self.hops(walk, (now, id.index(), 0, destination), Some(source)))
    }

    /// Queues a message for the next link of its route; false at the destination. `sender` is set before the first hop.
    fn hops(&mut self, mut walk: Walk, turn: Turn, sender: Option<DeviceId>) -> bool {
        let Some(hop) = self.topology.step(&mut walk) else { return false };
        let (topology, bytes) = (self.topology, self.blocks[turn.1].bytes);
        let links = topology.axes[topology.link(hop.link).axis.index()];
        let rate = topology.rate(hop.link).unwrap_or(links.one_way);
        let part = self.parts.get(turn.1).copied();
        let time = HopTime::new(topology, topology.link(hop.link).axis, rate, bytes, part);
        let cables = topology.cable_times(bytes.0);
        let time = time.over(cables.as_ref(), &hop);
        let is_first = sender.is_some();
        let on = |link| (Resource::Link(link), time.busy_on(cables.as_ref(), &hop, link, is_first));
        let mut needs: Vec<_> = hop.links().map(on).collect();
        let engine = self.engine(OpId::new(turn.1));
        let sending = sender.zip(engine).map(|(sender, engine)| Resource::Engine(sender, engine));
        needs.extend(sending.map(|engine| (engine, time.busy(is_first))));
        let takes = time.transit(is_first);
        let start = if is_first { time.start() } else { Time::ZERO };
        let turn = (turn.0 + start, turn.1, turn.2, turn.3);
        let place = self.job(Job { turn, message: Some((walk, hop)), needs, bytes, takes });
        self.starts(start, turn, place);
        true
    }

    /// Queues an in-switch reduction whose members are all ready; true if it takes no time. It needs the ports and
    /// engines of all members at once.
    fn joins(&mut self, id: OpId, axes: &[AxisId], first: DeviceId, now: Time) -> Result<bool, ClockError> {
        let (topology, operation) = (self.topology, self.schedule.schedule().operation(id));
        let sum = topology.switch_sum(axes.iter().copied(), operation.dtype).ok_or_else(|| ClockError::SwitchSum {
            operation: id,
            hardware: topology.hardware.name.clone(),
            dtype: operation.dtype,
        })?;
        let bytes = Bytes(operation.bytes());
        let [start, busy, takes] = sum.times(topology, bytes);
        if takes == Time::ZERO {
            self.spans(id, now, now);
            return Ok(true);
        }
        let wired: BTreeSet<AxisId> = axes.iter().map(|axis| topology.mesh.physical(*axis)).collect();
        let members: Vec<DeviceId> = self.schedule.mesh.group(first, axes).collect();
        let links = members.iter().flat_map(|device| wired.iter().flat_map(|axis| links_of(topology, *axis, *device)));
        let links: BTreeSet<LinkId> = links.collect();
        let engines = members.iter().filter_map(|member| Some(Resource::Engine(*member, self.engine(id)?)));
        let needs = engines.chain(links.into_iter().map(Resource::Link)).map(|resource| (resource, busy)).collect();
        let start = if self.parts.get(id.index()).is_none_or(|part| part.starts) { start } else { Time::ZERO };
        let turn = (now + start, id.index(), 0, first);
        let place = self.job(Job { turn, message: None, needs, bytes, takes });
        self.starts(start, turn, place);
        Ok(false)
    }

    /// Makes a job a candidate once its kernel has started.
    fn starts(&mut self, start: Time, turn: Turn, place: usize) {
        match start == Time::ZERO {
            true => drop(self.candidates.insert(turn, place)),
            false => self.events.push(Reverse((turn.0, Event::Starts(place)))),
        }
    }

    /// Queues a computation whose operands are all available; true if it takes no time.
    fn computes(&mut self, id: OpId, operation: &Operation, device: DeviceId, now: Time) -> bool {
        let operands = self.schedule.operands(id);
        let access = self.access.get(&id).cloned().unwrap_or_else(|| Access::alone(operands.len()));
        let blocks: Vec<&Operation> = operands.iter().map(|operand| self.schedule.operation(*operand)).collect();
        let bytes = bytes_of(operation, &blocks, access.lookup);
        let read = operands.iter().zip(bytes).zip(&access.reads).filter(|(_, is_read)| **is_read);
        let there = read.filter(|((operand, _), _)| self.blocks[operand.index()].there[device.index()]);
        let read = there.fold(0u128, |read, ((_, bytes), _)| read.saturating_add(bytes));
        let written = u128::from(written(&self.schedule, operation, &access));
        let cost = compute_time(self.topology, operation, &blocks, &access, (read, written));
        if cost == Time::ZERO {
            self.spans(id, now, now);
            return true;
        }
        let needs = self.engine(id).map(|engine| (Resource::Engine(device, engine), cost)).into_iter().collect();
        let turn = (now, id.index(), 0, device);
        let place = self.job(Job { turn, message: None, needs, bytes: Bytes(0), takes: cost });
        self.candidates.insert(turn, place);
        false
    }

    fn engine(&self, id: OpId) -> Option<EngineId> {
        self.schedule.operation(id).kind.properties().work.and_then(|work| self.topology.hardware.engines.of(work))
    }

    /// Allocates the place of a new job.
    fn job(&mut self, job: Job) -> usize {
        let place = self.free.pop().unwrap_or(self.jobs.len());
        if place == self.jobs.len() {
            self.jobs.push(Some(job));
        } else {
            self.jobs[place] = Some(job);
        }
        place
    }

    /// Makes the first job waiting for a resource a candidate.
    fn call(&mut self, server: usize) {
        if let Some((turn, job)) = self.servers[server].waiting.pop_first() {
            self.candidates.insert(turn, job);
        }
    }

    /// Starts all candidates that can start, in priority order.
    fn serve(&mut self, now: Time) {
        while let Some((turn, place)) = self.candidates.pop_first() {
            let job = self.jobs[place].as_ref().expect("a job that waits has not ended");
            let needs: Vec<usize> = job.needs.iter().map(|(resource, _)| self.server(*resource)).collect();
            match needs.iter().copied().find(|server| self.servers[*server].is_busy) {
                None => self.begins(place, now),
                Some(busy) => {
                    self.servers[busy].waiting.insert(turn, place);
                    // Resources that this job does not occupy call their next job.
                    for server in needs {
                        if !self.servers[server].is_busy {
                            self.call(server);
                        }
                    }
                }
            }
        }
    }

    fn server(&self, resource: Resource) -> usize {
        match resource {
            Resource::Link(link) => link.index(),
            Resource::Engine(device, engine) => self.links.len() + self.engine_of(device, engine),
        }
    }

    fn engine_of(&self, device: DeviceId, engine: EngineId) -> usize {
        device.index() * self.topology.hardware.engines.names().len() + engine.index()
    }

    fn begins(&mut self, place: usize, now: Time) {
        let job = self.jobs[place].as_ref().expect("a job that waits has not ended");
        let (operation, takes, bytes) = (OpId::new(job.turn.1), job.takes, job.bytes);
        for (resource, busy) in job.needs.clone() {
            match resource {
                Resource::Link(link) => {
                    let is_message = matches!(self.schedule.operation(operation).kind, OpKind::Shuffle { .. });
                    self.links[link.index()].add(busy, bytes, u64::from(is_message));
                }
                Resource::Engine(device, engine) => {
                    let engine = self.engine_of(device, engine);
                    self.engines[engine] += busy;
                }
            }
            match self.record.uses.len() < MOST_USES {
                true => self.record.uses.push(Use { resource, operation, start: now, finish: now + busy }),
                false => self.record.cut = true,
            }
            let server = self.server(resource);
            self.servers[server].is_busy = true;
            self.events.push(Reverse((now + busy, Event::Idle(server))));
        }
        self.spans(operation, now, now + takes);
        self.events.push(Reverse((now + takes, Event::Ends(place))));
    }

    fn ends(&mut self, place: usize, now: Time) -> Result<(), ClockError> {
        let Some(job) = self.jobs[place].take() else { return Ok(()) };
        self.free.push(place);
        let (_, operation, hop, destination) = job.turn;
        let goes_on = match job.message {
            Some((walk, at)) if at.to != Some(destination) => {
                self.hops(walk, (now, operation, hop + 1, destination), None)
            }
            Some(_) | None => false,
        };
        let id = OpId::new(operation);
        match &self.schedule.schedule().operation(id).kind {
            _ if goes_on => Ok(()),
            OpKind::SwitchSum { axes, .. } => {
                let members: Vec<DeviceId> = self.schedule.mesh.group(destination, axes).collect();
                members.into_iter().try_for_each(|member| self.is_there(id, member, now))
            }
            _ => self.is_there(id, destination, now),
        }
    }

    /// Extends an operation's interval.
    fn spans(&mut self, id: OpId, start: Time, finish: Time) {
        let all = self.blocks[id.index()].interval.get_or_insert(Interval { start, finish });
        (all.start, all.finish) = (all.start.min(start), all.finish.max(finish));
    }
}
