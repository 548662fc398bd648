//! Busy times of links and engines.

use super::messages::Part;
use super::orbit::Classes;
use super::record::{Log, Record};
use super::{Interval, LinkLoad, Order, Timing};
use crate::mesh::{AxisId, DeviceId};
use crate::topology::{CableTimes, EngineId, Hop, LinkId, Topology};
use crate::units::{Bytes, Rate, Time};

/// Hop times of a message of one size over links of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopTime {
    /// From the block being ready until the first hop can start: kernel start-up.
    start: Time,
    /// Link occupancy.
    busy: Time,
    /// From the start until the whole message has arrived.
    transit: Time,
    /// Extra occupancy and latency of the first hop: the sender prepares the message.
    overhead: Time,
}

impl HopTime {
    /// Times for messages of `bytes` over links of this rate along a machine axis. Shared links carry their messages one
    /// after the other.
    ///
    /// - `part`: the kernel they belong to, where it makes a difference.
    pub(super) fn new(topology: &Topology, axis: AxisId, rate: Rate, bytes: Bytes, part: Option<Part>) -> HopTime {
        let (scale, links) = (topology.scale, &topology.axes[axis.index()]);
        let bandwidth = scale.at_rate(u128::from(bytes.0), rate);
        let measured = topology.measured(axis).zip(part).map(|(of, part)| of.messages(part.traffic));
        let start = part.filter(|part| part.starts).map_or(0, |part| topology.kernel_start(axis, part.traffic));
        let [busy, transit] = match measured {
            Some(messages) => {
                let busy = bandwidth.max(scale.at_rate(u128::from(bytes.0), messages.one_way()));
                [busy, busy.max(messages.transit(scale, bytes.0))]
            }
            None => links.hop(topology.hardware.hop_rule, bandwidth),
        };
        let others = links.sharers - 1;
        let overhead = links.message_overhead * links.sharers;
        let start = scale.picoseconds(start);
        HopTime { start, busy: busy * links.sharers, transit: busy * others + transit, overhead }
    }

    /// The times of a hop over a fabric, if one is given.
    pub(super) fn over(self, cables: Option<&CableTimes<'_>>, hop: &Hop) -> HopTime {
        let over =
            |cables: &CableTimes| HopTime { busy: cables.busy(hop, hop.link), transit: cables.transit(hop), ..self };
        cables.map_or(self, over)
    }

    /// Occupancy of one of the links of a hop, which differ in a fabric.
    pub(super) fn busy_on(self, cables: Option<&CableTimes<'_>>, hop: &Hop, link: LinkId, is_first: bool) -> Time {
        HopTime { busy: cables.map_or(self.busy, |cables| cables.busy(hop, link)), ..self }.busy(is_first)
    }

    /// From the block being ready until the message can leave its sender.
    pub(super) fn start(self) -> Time {
        self.start
    }

    /// Link occupancy; `first` adds the sender's preparation.
    pub(super) fn busy(self, is_first: bool) -> Time {
        if is_first { self.overhead + self.busy } else { self.busy }
    }

    /// From the start until the whole message has arrived.
    pub(super) fn transit(self, is_first: bool) -> Time {
        if is_first { self.overhead + self.transit } else { self.transit }
    }
}

/// An engine of a device class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Engine {
    class: usize,
    id: EngineId,
}

/// Free times and total busy times of all engines, per device class.
struct EngineClocks {
    /// Engines per device.
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

    /// Busy time of each engine on its busiest device.
    fn longest(&self) -> Vec<Time> {
        let of = |engine: usize| self.busy.iter().skip(engine).step_by(self.count.max(1)).copied().max();
        (0..self.count).map(|engine| of(engine).unwrap_or_default()).collect()
    }
}

/// Position of a message before a hop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves {
    /// At the sender, which may need an engine to send it.
    Sender(Option<Engine>),
    /// At an intermediate device.
    Between,
}

/// Free times and loads of all links and engines.
pub(super) struct Clocks {
    /// Which links and devices are timed together.
    pub(super) classes: Classes,
    link_free: Vec<Time>,
    links: Vec<LinkLoad>,
    engines: EngineClocks,
    /// The recorded uses, if recording.
    pub(super) log: Option<Log>,
}

impl Clocks {
    /// All resources idle at time zero.
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

    /// Sends a message that is ready at `ready` over one hop, which may be one of a fabric. The first hop may occupy a
    /// sending engine.
    pub(super) fn send(
        &mut self,
        cables: Option<&CableTimes<'_>>,
        hop: &Hop,
        time: HopTime,
        leaves: Leaves,
        (bytes, ready): (Bytes, Time),
    ) -> Interval {
        let (is_first, engine) = match leaves {
            Leaves::Sender(engine) => (true, engine),
            Leaves::Between => (false, None),
        };
        let links = || hop.links();
        let free =
            engine.map_or(self.link_free(hop.link), |engine| self.link_free(hop.link).max(self.engines.free(engine)));
        let free = hop.also.iter().fold(free, |free, link| free.max(self.link_free(link)));
        links().for_each(|link| self.classes.meet(link, link));
        let ready = if is_first { ready + time.start() } else { ready };
        let start = ready.max(free);
        for link in links() {
            let busy = time.busy_on(cables, hop, link, is_first);
            self.occupy(link, start, busy, bytes, 1);
        }
        if let Some(engine) = engine {
            self.occupy_engine(engine, start, time.busy(is_first));
        }
        Interval { start, finish: start + time.transit(is_first) }
    }

    /// Occupies a link.
    ///
    /// - `messages`: number of messages that pass it.
    pub(super) fn occupy(&mut self, link: LinkId, start: Time, busy: Time, bytes: Bytes, messages: u64) {
        let place = self.classes.link(link);
        self.link_free[place] = start + busy;
        self.links[place].add(busy, bytes, messages);
        if let Some(log) = &mut self.log {
            log.link(place, start, busy);
        }
    }

    /// When a link becomes free.
    pub(super) fn link_free(&self, link: LinkId) -> Time {
        self.link_free[self.classes.link(link)]
    }

    /// Computes on an engine. Zero-cost work waits only for its operands.
    pub(super) fn compute(&mut self, engine: Engine, cost: Time, ready: Time) -> Interval {
        if cost == Time::ZERO {
            return Interval { start: ready, finish: ready };
        }
        let start = ready.max(self.engines.free(engine));
        self.occupy_engine(engine, start, cost);
        Interval { start, finish: start + cost }
    }

    /// When an engine becomes free.
    pub(super) fn engine_free(&self, engine: Engine) -> Time {
        self.engines.free(engine)
    }

    /// Occupies an engine.
    pub(super) fn occupy_engine(&mut self, engine: Engine, start: Time, busy: Time) {
        self.engines.occupy(engine, start, busy);
        if let Some(log) = &mut self.log {
            log.engine(engine.class, engine.id, start, busy);
        }
    }

    /// The recorded uses.
    pub(super) fn record(&mut self) -> Option<Record> {
        Some(self.log.take()?.record(&self.classes))
    }

    /// The timing of a run of these operations.
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
