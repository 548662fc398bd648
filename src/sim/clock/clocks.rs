//! The links and the compute units: until when each is busy.

use super::orbit::Classes;
use super::{Interval, LinkLoad, Timing};
use crate::mesh::DeviceId;
use crate::topology::{AxisLinks, Hop, HopRule, LinkId, Topology};
use crate::units::{Bytes, Rate, Time, TimeScale};

/// How long the hops of a message of a certain size take over some links that are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopTime {
    /// For how long the link is busy.
    busy: Time,
    /// From the start until the whole message is there.
    transit: Time,
    /// More of both for the first hop of a message: the sender prepares it.
    overhead: Time,
}

impl HopTime {
    /// For messages of `bytes` over links of this rate along an axis; where links are shared, for as many messages one after the other.
    pub(super) fn new(rule: HopRule, scale: TimeScale, links: &AxisLinks, rate: Rate, bytes: Bytes) -> HopTime {
        let bandwidth = scale.at_rate(u128::from(bytes.0), rate);
        let (busy, transit) = match rule {
            HopRule::Larger => (bandwidth.max(links.hop_latency), bandwidth.max(links.hop_latency)),
            HopRule::Sum => (bandwidth, links.hop_latency + bandwidth),
        };
        let others = links.sharers - 1;
        let overhead = links.message_overhead * links.sharers;
        HopTime { busy: busy * links.sharers, transit: busy * others + transit, overhead }
    }
}

/// Until when each link and each compute unit is busy, and what they did so far.
pub(super) struct Clocks {
    /// Which links and devices are timed as one.
    pub(super) classes: Classes,
    link_free: Vec<Time>,
    links: Vec<LinkLoad>,
    compute_free: Vec<Time>,
    compute: Vec<Time>,
}

impl Clocks {
    /// Everything idle at time zero.
    pub(super) fn new(classes: Classes) -> Clocks {
        let (links, devices) = (classes.links(), classes.devices().len());
        Clocks {
            classes,
            link_free: vec![Time::ZERO; links],
            links: vec![LinkLoad::default(); links],
            compute_free: vec![Time::ZERO; devices],
            compute: vec![Time::ZERO; devices],
        }
    }

    /// Sends a message that is ready at `ready` over one hop.
    pub(super) fn send(&mut self, hop: &Hop, time: HopTime, first: bool, bytes: Bytes, ready: Time) -> Interval {
        let overhead = if first { time.overhead } else { Time::ZERO };
        let free = self.link_free(hop.link);
        let free = hop.port_in.map_or(free, |port| free.max(self.link_free(port)));
        self.classes.meet(hop.link, hop.link);
        hop.port_in.into_iter().for_each(|port| self.classes.meet(port, port));
        let start = ready.max(free);
        self.occupy(hop.link, start, overhead + time.busy, bytes);
        if let Some(port) = hop.port_in {
            self.occupy(port, start, overhead + time.busy, bytes);
        }
        Interval { start, finish: start + overhead + time.transit }
    }

    /// Keeps a link busy.
    pub(super) fn occupy(&mut self, link: LinkId, start: Time, busy: Time, bytes: Bytes) {
        let place = self.classes.link(link);
        self.link_free[place] = start + busy;
        let load = &mut self.links[place];
        load.busy += busy;
        load.bytes.0 = load.bytes.0.saturating_add(bytes.0);
    }

    /// Until when a link is busy.
    pub(super) fn link_free(&self, link: LinkId) -> Time {
        self.link_free[self.classes.link(link)]
    }

    /// Computes on a device. What costs nothing waits for nothing but its operands.
    pub(super) fn compute(&mut self, device: DeviceId, cost: Time, ready: Time) -> Interval {
        if cost == Time::ZERO {
            return Interval { start: ready, finish: ready };
        }
        let place = self.classes.device(device);
        let start = ready.max(self.compute_free[place]);
        self.compute_free[place] = start + cost;
        self.compute[place] += cost;
        Interval { start, finish: start + cost }
    }

    /// The result of a run with these operations.
    pub(super) fn timing(self, topology: &Topology, operations: Vec<Interval>) -> Timing {
        let Clocks { classes, links, compute, .. } = self;
        let links = classes.spread(topology, links);
        let used = topology.all_links().filter(|id| links[id.index()].busy > Time::ZERO);
        let busiest = used.max_by_key(|id| (links[id.index()].busy, std::cmp::Reverse(*id)));
        Timing {
            makespan: operations.iter().map(|operation| operation.finish).max().unwrap_or_default(),
            operations,
            links,
            busiest,
            compute: compute.into_iter().max().unwrap_or_default(),
        }
    }
}
