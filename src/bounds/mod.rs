//! What no schedule can beat: lower bounds from the layouts and the links alone.
//!
//! Nothing here knows a method. Each bandwidth bound counts the bytes that must cross into (or out of) some set of
//! devices, all groups at once, over the links that could carry them; each latency bound counts hops. Links of an
//! idle axis, one that neither shards the array nor holds open sums, could help and are counted; links of an axis
//! that shards another dim carry as much for their own groups and cannot.
//!
//! Source: cuts of the mesh; for AllReduce the 2(n-1) sends of each element of Patarasuk and Yuan (2009).

use crate::collective::Collective;
use crate::layout::Layout;
use crate::mesh::{AxisId, AxisSet, Wiring};
use crate::topology::{AxisLinks, Topology};
use crate::units::{Rate, Time};

/// The least time of a collective on the array of layout `from`, and of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Hops that cannot be avoided.
    pub latency: Time,
    /// Bytes over links that cannot be avoided.
    pub bandwidth: Time,
}

impl Bound {
    /// The larger of the two.
    pub fn time(self) -> Time {
        self.latency.max(self.bandwidth)
    }
}

/// The bound of one collective.
pub fn collective(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    let mesh = &topology.mesh;
    let axes: AxisSet = collective.axes(&from.sharding).iter().filter(|axis| mesh.size(*axis) > 1).collect();
    if axes.is_empty() || matches!(collective, Collective::Slice { .. }) {
        return Bound::default();
    }
    let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
    let idle = all.without(from.sharding.used()).without(axes);
    let n = u128::from(axes.group_size(mesh));
    let replicas = u128::from(idle.group_size(mesh));
    let local = u128::from(from.local_bytes(mesh).0);
    let bandwidth = match collective {
        // The weakest device needs all shards but its own, over its own links.
        Collective::AllGather { .. } => load(topology, (n - 1) * local, 1, weakest_device(topology, axes.union(idle))),
        // A device with all its replicas must send out its part of every block but its own.
        Collective::ReduceScatter { .. } => {
            load(topology, (n - 1) * local, n, weakest_device(topology, axes) * replicas)
        }
        // 2(n-1) sends of every element, over all links between the devices of a group and its replicas.
        Collective::AllReduce { .. } => load(topology, 2 * (n - 1) * local, 1, leaving(topology, axes) * replicas),
        Collective::AllToAll { .. } => {
            let per_axis = axes.iter().map(|axis| all_to_all(topology, axis, local, replicas));
            per_axis.max().unwrap_or_default()
        }
        // Somebody receives a whole shard, over its own links.
        Collective::Permute { .. } => load(topology, local, 1, strongest_device(topology, all)),
        Collective::Slice { .. } => Time::ZERO,
    };
    let latency = match collective {
        Collective::Permute { .. } => {
            axes.iter().map(|axis| topology.links(axis).hop_latency).min().unwrap_or_default()
        }
        Collective::AllGather { .. }
        | Collective::ReduceScatter { .. }
        | Collective::AllReduce { .. }
        | Collective::AllToAll { .. }
        | Collective::Slice { .. } => axes.iter().map(|axis| diameter(topology, axis)).sum(),
    };
    Bound { latency, bandwidth }
}

/// `bytes / (divisor * capacity)`, rounded down: a bound must not be above the truth.
fn load(topology: &Topology, bytes: u128, divisor: u128, capacity: u128) -> Time {
    let second = topology.scale.at_rate(1, Rate::new(1).expect("one")).ticks();
    // A product beyond 128 bits saturates, which makes the bound lower and keeps it true.
    Time::from_ticks(bytes.saturating_mul(second) / (divisor * capacity).max(1))
}

/// Bytes a second into (or out of) the device with the fewest links on these axes.
fn weakest_device(topology: &Topology, axes: AxisSet) -> u128 {
    axes.iter().map(|axis| links_of_a_device(topology.links(axis), false)).sum()
}

/// Bytes a second into the device with the most links on these axes.
fn strongest_device(topology: &Topology, axes: AxisSet) -> u128 {
    let links = |axis: AxisId| links_of_a_device(topology.links(axis), topology.mesh.size(axis) > 2);
    axes.iter().map(links).sum()
}

fn links_of_a_device(links: AxisLinks, inner: bool) -> u128 {
    let one_way = u128::from(links.one_way.per_second());
    match links.wiring {
        Wiring::Ring => 2 * one_way,
        Wiring::Line if inner => 2 * one_way,
        Wiring::Line | Wiring::Switch => one_way,
    }
}

/// Bytes a second out of all devices of one group together, along its axes.
fn leaving(topology: &Topology, axes: AxisSet) -> u128 {
    let n = u128::from(axes.group_size(&topology.mesh));
    let along = |axis: AxisId| {
        let (links, size) = (topology.links(axis), u128::from(topology.mesh.size(axis)));
        let one_way = u128::from(links.one_way.per_second());
        let line = match links.wiring {
            Wiring::Ring => 2 * size,
            Wiring::Line => 2 * (size - 1),
            Wiring::Switch => size,
        };
        line * one_way * (n / size)
    };
    axes.iter().map(along).sum()
}

/// The middle links of one axis in an AllToAll; `local` bytes a device, replicas share the work.
fn all_to_all(topology: &Topology, axis: AxisId, local: u128, replicas: u128) -> Time {
    let (links, size) = (topology.links(axis), u128::from(topology.mesh.size(axis)));
    let one_way = u128::from(links.one_way.per_second()) * replicas;
    match links.wiring {
        // Mean distance times bytes over the links of the ring: (n² - n mod 2) / 4n of the shard, two ways.
        Wiring::Ring => load(topology, local * (size * size - size % 2), 8 * size, one_way),
        Wiring::Line => load(topology, local * (size / 2) * size.div_ceil(2), size, one_way),
        Wiring::Switch => load(topology, local * (size - 1), size, one_way),
    }
}

/// The time of an empty message between the devices that are farthest apart along the axis.
fn diameter(topology: &Topology, axis: AxisId) -> Time {
    let (links, size) = (topology.links(axis), topology.mesh.size(axis));
    let hops = match links.wiring {
        Wiring::Ring => size / 2,
        Wiring::Line => size - 1,
        Wiring::Switch => 1,
    };
    links.hop_latency * hops
}
