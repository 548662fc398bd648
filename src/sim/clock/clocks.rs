//! The links and the engines of devices: until when each is busy.

use super::messages::Part;
use super::orbit::Classes;
use super::record::{Log, Record};
use super::{Interval, LinkLoad, Order, Timing};
use crate::mesh::{AxisId, DeviceId};
use crate::topology::{EngineId, Hop, HopRule, LinkId, Topology};
use crate::units::{Bytes, Rate, Time};

/// How long the hops of a message of a certain size take over some links that are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopTime {
    /// From when its block is there until its first hop can begin: a kernel starts.
    start: Time,
    /// For how long the link is busy.
    busy: Time,
    /// From the start until the whole message is there.
    transit: Time,
    /// More of both for the first hop of a message: the sender prepares it.
    overhead: Time,
}

impl HopTime {
    /// For messages of `bytes` over links of this rate along an axis of the machine; where links are shared, for as many
    /// messages one after the other.
    ///
    /// - `part`: what they are part of, where that makes a difference.
    pub(super) fn new(topology: &Topology, axis: AxisId, rate: Rate, bytes: Bytes, part: Option<Part>) -> HopTime {
        let (scale, links) = (topology.scale, &topology.axes[axis.index()]);
        let bandwidth = scale.at_rate(u128::from(bytes.0), rate);
        let measured = topology.measured(axis).zip(part).map(|(of, part)| (of.messages(part.traffic), part));
        let start = measured.filter(|(_, part)| part.starts).map_or(0, |(messages, _)| messages.start);
        let (busy, transit) = match (measured, topology.hardware.hop_rule) {
            (Some((messages, _)), _) => {
                let busy = bandwidth.max(scale.at_rate(u128::from(bytes.0), messages.one_way()));
                (busy, busy.max(messages.transit(scale, bytes.0)))
            }
            (None, HopRule::Larger) => (bandwidth.max(links.hop_latency), bandwidth.max(links.hop_latency)),
            (None, HopRule::Sum) => (bandwidth, links.hop_latency + bandwidth),
        };
        let others = links.sharers - 1;
        let overhead = links.message_overhead * links.sharers;
        let start = scale.picoseconds(start);
        HopTime { start, busy: busy * links.sharers, transit: busy * others + transit, overhead }
    }

    /// From when its block is there until a message can leave its sender.
    pub(super) fn start(self) -> Time {
        self.start
    }

    /// For how long the link is busy with a message, which it may be the first one to carry.
    pub(super) fn busy(self, is_first: bool) -> Time {
        if is_first { self.overhead + self.busy } else { self.busy }
    }

    /// From the start until the whole message is there.
    pub(super) fn transit(self, is_first: bool) -> Time {
        if is_first { self.overhead + self.transit } else { self.transit }
    }
}

/// An engine of the devices of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Engine {
    class: usize,
    id: EngineId,
}

/// The engines of all classes of devices: until when each is busy, and for how long it was.
struct EngineClocks {
    /// Of one device.
    count: usize,
    free: Vec<Time>,
    busy: Vec<Time>,
}

impl EngineClocks {
    fn new(count: usize, classes: usize) -> EngineClocks {
        EngineClocks { count, free: vec![Time::ZERO; count * classes], busy: vec![Time::ZERO; count * classes] }
    }

    fn place(&self, engine: Engine) -> usize {
        engine.class * self.count + engine.id.index()
    }

    fn free(&self, engine: Engine) -> Time {
        self.free[self.place(engine)]
    }

    fn occupy(&mut self, engine: Engine, start: Time, busy: Time) {
        let place = self.place(engine);
        self.free[place] = start + busy;
        self.busy[place] += busy;
    }

    /// For how long each engine is busy on the device where it is busy longest.
    fn longest(&self) -> Vec<Time> {
        let of = |engine: usize| self.busy.iter().skip(engine).step_by(self.count.max(1)).copied().max();
        (0..self.count).map(|engine| of(engine).unwrap_or_default()).collect()
    }
}

/// Where a message is before a hop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves {
    /// On its sender, which prepares it, perhaps by an engine.
    Sender(Option<Engine>),
    /// Somewhere between.
    Between,
}

/// Until when each link and each engine is busy, and what they did so far.
pub(super) struct Clocks {
    /// Which links and devices are timed as one.
    pub(super) classes: Classes,
    link_free: Vec<Time>,
    links: Vec<LinkLoad>,
    engines: EngineClocks,
    /// What they do one after the other, where that is asked for.
    pub(super) log: Option<Log>,
}

impl Clocks {
    /// Everything idle at time zero.
    pub(super) fn new(topology: &Topology, classes: Classes) -> Clocks {
        let (links, devices) = (classes.links(), classes.devices().len());
        Clocks {
            classes,
            link_free: vec![Time::ZERO; links],
            links: vec![LinkLoad::default(); links],
            engines: EngineClocks::new(topology.hardware.engines.names().len(), devices),
            log: None,
        }
    }

    /// An engine of a device.
    pub(super) fn engine(&self, device: DeviceId, id: EngineId) -> Engine {
        Engine { class: self.classes.device(device), id }
    }

    /// Sends a message that is ready at `ready` over one hop. Over its first one it may leave by an engine of its sender.
    pub(super) fn send(&mut self, hop: &Hop, time: HopTime, leaves: Leaves, bytes: Bytes, ready: Time) -> Interval {
        let (is_first, engine) = match leaves {
            Leaves::Sender(engine) => (true, engine),
            Leaves::Between => (false, None),
        };
        let busy = time.busy(is_first);
        let free =
            engine.map_or(self.link_free(hop.link), |engine| self.link_free(hop.link).max(self.engines.free(engine)));
        let free = hop.port_in.map_or(free, |port| free.max(self.link_free(port)));
        self.classes.meet(hop.link, hop.link);
        hop.port_in.into_iter().for_each(|port| self.classes.meet(port, port));
        let ready = if is_first { ready + time.start() } else { ready };
        let start = ready.max(free);
        self.occupy(hop.link, start, busy, bytes, 1);
        if let Some(port) = hop.port_in {
            self.occupy(port, start, busy, bytes, 1);
        }
        if let Some(engine) = engine {
            self.occupy_engine(engine, start, busy);
        }
        Interval { start, finish: start + time.transit(is_first) }
    }

    /// Keeps a link busy.
    ///
    /// - `messages`: how many pass it.
    pub(super) fn occupy(&mut self, link: LinkId, start: Time, busy: Time, bytes: Bytes, messages: u64) {
        let place = self.classes.link(link);
        self.link_free[place] = start + busy;
        self.links[place].add(busy, bytes, messages);
        if let Some(log) = &mut self.log {
            log.link(place, start, busy);
        }
    }

    /// Until when a link is busy.
    pub(super) fn link_free(&self, link: LinkId) -> Time {
        self.link_free[self.classes.link(link)]
    }

    /// Computes on an engine. What costs nothing waits for nothing but its operands.
    pub(super) fn compute(&mut self, engine: Engine, cost: Time, ready: Time) -> Interval {
        if cost == Time::ZERO {
            return Interval { start: ready, finish: ready };
        }
        let start = ready.max(self.engines.free(engine));
        self.occupy_engine(engine, start, cost);
        Interval { start, finish: start + cost }
    }

    /// Until when an engine is busy.
    pub(super) fn engine_free(&self, engine: Engine) -> Time {
        self.engines.free(engine)
    }

    /// Keeps an engine busy.
    pub(super) fn occupy_engine(&mut self, engine: Engine, start: Time, busy: Time) {
        self.engines.occupy(engine, start, busy);
        if let Some(log) = &mut self.log {
            log.engine(engine.class, engine.id, start, busy);
        }
    }

    /// What was written down.
    pub(super) fn record(&mut self) -> Option<Record> {
        Some(self.log.take()?.record(&self.classes))
    }

    /// The result of a run with these operations.
    pub(super) fn timing(self, topology: &Topology, operations: Vec<Interval>) -> Timing {
        let Clocks { classes, links, engines, .. } = self;
        let links = classes.spread(topology, links);
        let used = topology.all_links().filter(|id| links[id.index()].busy > Time::ZERO);
        let busiest = used.max_by_key(|id| (links[id.index()].busy, std::cmp::Reverse(*id)));
        Timing {
            order: Order::Listed,
            makespan: operations.iter().map(|operation| operation.finish).max().unwrap_or_default(),
            operations,
            links,
            busiest,
            engines: engines.longest(),
        }
    }
}
