//! The machine as a plain graph: devices, switches, and one-way links with capacities.

use crate::flow::Flow;
use crate::mesh::{AxisId, DeviceId};
use crate::topology::{self, LinkSide, Topology};
use crate::units::{Rate, Time, gcd};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// Above every capacity, and as many of them as there are nodes and pieces still fit.
pub(super) const UNLIMITED: u128 = 1 << 96;

/// A one-way link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// Bytes a second.
    pub rate: u64,
    /// Least time of a message; the way through a switch counts it once.
    pub latency: Time,
    /// The axis that it belongs to, where links are of axes.
    pub axis: Option<AxisId>,
}

/// Devices, numbered from 0, then switches, which hold nothing and pass everything on; and the links between them.
#[derive(Clone, Debug)]
pub struct Graph {
    devices: usize,
    rate: u128,
    links: DiGraph<(), Link, u32>,
}

impl Graph {
    /// A graph of these links; the nodes from `devices` on are switches.
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
        Graph { devices, rate, links: graph }
    }

    /// The links of a machine that are not down. A switch is a node more in the midst of its devices; where a node
    /// shares its links, two nodes more stand between its devices and them, one each way.
    pub fn of(topology: &Topology) -> Graph {
        let machine = &topology.machine;
        let (devices, axes) = (machine.device_count(), machine.axes().len());
        // Beyond the devices a number is made of what it is, of an axis, and of the first device there.
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
            let (size, coordinate) = (machine.axis(link.axis).size, machine.coordinate(link.device, link.axis));
            let beside = |coordinate: u32| machine.with_coordinate(link.device, link.axis, coordinate % size);
            let switch = number(0, link.axis, topology.switch_of(link));
            let (own_out, own_in) = (end(1, link, link.device), end(2, link, link.device));
            let (from, to, latency) = match link.side {
                LinkSide::Up => (own_out, end(2, link, beside(coordinate + 1)), hop_latency),
                LinkSide::Down => (own_out, end(2, link, beside(coordinate + size - 1)), hop_latency),
                LinkSide::Out => (own_out, switch, hop_latency),
                LinkSide::In => (switch, own_in, hop_latency * (axis.switch.hops() - 1)),
            };
            let axis = Some(link.axis);
            links.push(Link { from, to, rate, latency, axis });
            // No device can send faster than the link that it shares.
            let rate = one_way.per_second();
            let inside = machine.devices().filter(|device| topology.node_of(*device) == topology.node_of(link.device));
            for device in inside.filter(|_| topology.is_shared(link.axis)).map(DeviceId::index) {
                links.push(Link { from: device, to: own_out, rate, latency: Time::ZERO, axis });
                links.push(Link { from: own_in, to: device, rate, latency: Time::ZERO, axis });
            }
        }
        Graph::new(devices, links).compact()
    }

    /// The same without the numbers that no link uses.
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

    /// How many devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// How many devices and switches.
    pub fn nodes(&self) -> usize {
        self.links.node_count()
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.links.edge_weights().copied()
    }

    /// Bytes a second of one unit of capacity: all links have whole numbers of them.
    pub fn rate(&self) -> u128 {
        self.rate
    }

    /// The capacity of a link in units of rate.
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

    /// Its links as a network, with so many times their capacity.
    pub(super) fn flow(&self, times: u128) -> Flow<u128> {
        let mut flow = Flow::new(self.nodes());
        for link in self.links() {
            flow.add(link.from, link.to, self.capacity(link).saturating_mul(times).min(UNLIMITED));
        }
        flow
    }

    /// How far each node is from the nearest of `sources`; `None` where no way leads.
    pub fn distances(&self, sources: &[usize], length: impl Fn(&Link) -> Time) -> Vec<Option<Time>> {
        let mut distances = vec![None; self.nodes()];
        let mut queue: std::collections::BTreeSet<(Time, usize)> = sources.iter().map(|id| (Time::ZERO, *id)).collect();
        while let Some((distance, at)) = queue.pop_first() {
            if distances[at].is_some() {
                continue;
            }
            distances[at] = Some(distance);
            for edge in self.links.edges(node(at)).filter(|edge| distances[edge.target().index()].is_none()) {
                queue.insert((distance + length(edge.weight()), edge.target().index()));
            }
        }
        distances
    }
}

fn node(id: usize) -> NodeIndex<u32> {
    NodeIndex::new(id)
}
