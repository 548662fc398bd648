//! The machine as a graph: devices, switches, and one-way links with capacities.

use crate::flow::Flow;
use crate::mesh::{AxisId, DeviceId};
use crate::topology::{self, LinkSide, Topology};
use crate::units::{Rate, Time, gcd};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// Infinite capacity: above any sum of capacities.
pub(super) const UNLIMITED: u128 = 1 << 96;

/// A one-way link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The sending node.
    pub from: usize,
    /// The receiving node.
    pub to: usize,
    /// Rate in bytes per second.
    pub rate: u64,
    /// Minimum latency of a message; a path through a switch counts it once.
    pub latency: Time,
    /// The axis, if links belong to axes.
    pub axis: Option<AxisId>,
}

/// The length of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// Its latency.
    Latency,
    /// One for the links of an axis, or for all links, and nothing for the others.
    Links(Option<AxisId>),
}

impl Length {
    fn of(self, link: &Link) -> Time {
        match self {
            Length::Latency => link.latency,
            Length::Links(axis) => Time::from_ticks(u128::from(axis.is_none() || link.axis == axis)),
        }
    }
}

/// Devices, numbered from 0, then switches, which hold nothing and forward everything; and the links between them.
#[derive(Clone, Debug)]
pub struct Graph {
    devices: usize,
    rate: u128,
    links: DiGraph<(), Link, u32>,
    /// The distances found so far, by their sources.
    known: RefCell<FxHashMap<(Length, Vec<usize>), Distances>>,
}

/// The distance of each node; `None` if unreachable.
pub type Distances = Rc<[Option<Time>]>;

impl Graph {
    /// Creates a graph; nodes from `devices` on are switches.
    pub fn new(devices: usize, links: impl IntoIterator<Item = Link>) -> Graph {
        let links: Vec<Link> = links.into_iter().filter(|link| link.rate > 0 && link.from != link.to).collect();
        let last = links.iter().map(|link| link.from.max(link.to) + 1).max().unwrap_or_default();
        let rate = links.iter().fold(0, |rate, link| gcd(rate, u128::from(link.rate))).max(1);
        let mut graph = DiGraph::with_capacity(last.max(devices), links.len());
        (0..last.max(devices)).for_each(|_| {
            graph.add_node(());
        });
        for link in links {
            graph.add_edge(node(link.from), node(link.to), link);
        }
        Graph { devices, rate, links: graph, known: RefCell::default() }
    }

    /// The links of a machine that are up. A switch is an extra node between its devices; where a node shares its
    /// links, two extra nodes, one per direction, stand between its devices and them.
    pub fn of(topology: &Topology) -> Graph {
        let machine = &topology.machine;
        let (devices, axes) = (machine.device_count(), machine.axes().len());
        if let Some(fabric) = topology.fabric() {
            let link = |cable: &topology::fabric::Cable| Link {
                from: cable.from,
                to: cable.to,
                rate: cable.rate.per_second(),
                latency: topology.scale.picoseconds(cable.latency),
                axis: None,
            };
            return Graph::new(devices, fabric.cables().iter().map(link));
        }
        // Nodes beyond the devices are keyed by kind, axis, and first device.
        let number =
            |kind: usize, axis: AxisId, first: DeviceId| devices * (1 + kind * axes + axis.index()) + first.index();
        let end = |kind: usize, link: topology::Link, device: DeviceId| match topology.is_shared(link.axis) {
            true => number(kind, link.axis, topology.node_of(device)),
            false => device.index(),
        };
        let mut links: Vec<Link> = Vec::new();
        for id in topology.all_links() {
            let link = topology.link(id);
            let axis = topology.axes[link.axis.index()];
            let (one_way, hop_latency) = (axis.one_way, axis.hop_latency);
            let rate = topology.rate(id).map_or(0, Rate::per_second);
            let switch = number(0, link.axis, topology.switch_of(link));
            let (own_out, own_in) = (end(1, link, link.device), end(2, link, link.device));
            let (from, to, latency) = match link.side {
                LinkSide::Up | LinkSide::Down | LinkSide::Ahead(_) | LinkSide::Cable(_) => {
                    (own_out, end(2, link, topology.end(link)), hop_latency)
                }
                LinkSide::Out => (own_out, switch, hop_latency),
                LinkSide::In => (switch, own_in, hop_latency * (axis.switch.hops() - 1)),
            };
            let axis = Some(link.axis);
            links.push(Link { from, to, rate, latency, axis });
            // No device can send faster than its shared link.
            let rate = one_way.per_second();
            let inside = machine.devices().filter(|device| topology.node_of(*device) == topology.node_of(link.device));
            for device in inside.filter(|_| topology.is_shared(link.axis)).map(DeviceId::index) {
                links.push(Link { from: device, to: own_out, rate, latency: Time::ZERO, axis });
                links.push(Link { from: own_in, to: device, rate, latency: Time::ZERO, axis });
            }
        }
        Graph::new(devices, links).compact()
    }

    /// Renumbers the nodes that links use.
    fn compact(self) -> Graph {
        let mut number: Vec<Option<usize>> = (0..self.nodes()).map(|id| (id < self.devices).then_some(id)).collect();
        let mut next = self.devices;
        let mut renumber = |id: usize| {
            *number[id].get_or_insert_with(|| {
                next += 1;
                next - 1
            })
        };
        let links: Vec<Link> =
            self.links().map(|link| Link { from: renumber(link.from), to: renumber(link.to), ..link }).collect();
        Graph::new(self.devices, links)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Number of devices and switches.
    pub fn nodes(&self) -> usize {
        self.links.node_count()
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.links.edge_weights().copied()
    }

    /// Bytes per second of one capacity unit; all links have whole multiples of it.
    pub fn rate(&self) -> u128 {
        self.rate
    }

    /// The capacity of a link in units.
    pub fn capacity(&self, link: Link) -> u128 {
        u128::from(link.rate) / self.rate
    }

    /// The capacity of all links into a set of nodes.
    pub fn capacity_into(&self, inside: &[bool]) -> u128 {
        self.links().filter(|link| inside[link.to] && !inside[link.from]).map(|link| self.capacity(link)).sum()
    }

    /// The capacity from a switch to devices inside, or to it from devices outside.
    pub(super) fn capacity_through(&self, switch: usize, inside: &[bool], to_inside: bool) -> u128 {
        let direction = if to_inside { petgraph::Outgoing } else { petgraph::Incoming };
        let edges = self.links.edges_directed(node(switch), direction);
        let other = |link: &Link| if to_inside { inside[link.to] } else { !inside[link.from] };
        edges.map(|edge| *edge.weight()).filter(other).map(|link| self.capacity(link)).sum()
    }

    /// The links as a flow network, capacities multiplied by this factor.
    pub(super) fn flow(&self, times: u128) -> Flow<u128> {
        let mut flow = Flow::new(self.nodes());
        for link in self.links() {
            flow.add(link.from, link.to, self.capacity(link).saturating_mul(times).min(UNLIMITED));
        }
        flow
    }

    /// Distance of each node from the nearest of `sources`. It is found once.
    pub fn distances(&self, sources: &[usize], length: Length) -> Distances {
        let key = (length, sources.to_vec());
        let known = self.known.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let found: Distances = self.found(sources, length).into();
            self.known.borrow_mut().insert(key, Rc::clone(&found));
            found
        })
    }

    fn found(&self, sources: &[usize], length: Length) -> Vec<Option<Time>> {
        let mut distances = vec![None; self.nodes()];
        let mut queue: BinaryHeap<Reverse<(Time, usize)>> =
            sources.iter().map(|id| Reverse((Time::ZERO, *id))).collect();
        while let Some(Reverse((distance, at))) = queue.pop() {
            if distances[at].is_some() {
                continue;
            }
            distances[at] = Some(distance);
            for edge in self.links.edges(node(at)).filter(|edge| distances[edge.target().index()].is_none()) {
                queue.push(Reverse((distance + length.of(edge.weight()), edge.target().index())));
            }
        }
        distances
    }
}

fn node(id: usize) -> NodeIndex<u32> {
    NodeIndex::new(id)
}
