//! Bounds on a mesh whose axes are parts of machine axes and share their links.

use super::load::{self, Units};
use super::{Bound, Certificate, Reason, is_by_cells};
use crate::collective::Collective;
use crate::collective::Loads;
use crate::layout::Layout;
use crate::mesh::{Axes, AxisId, AxisSet, Wiring};
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::collections::BTreeMap;

/// A number of bytes, as a fraction, over a rate in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Load {
    bytes: u128,
    divisor: u128,
    capacity: u128,
}

/// The bound of one collective, and what it counts.
pub(super) fn certificate(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    // Of an array that is partly used, less is sent.
    if Loads::of(collective, from, &topology.mesh).is_some() {
        return Certificate { bound: Bound::default(), reason: Reason::Nothing, largest: false };
    }
    let (bound, load) = bound_and_load(collective, from, topology);
    let reason = match load {
        _ if bound.latency > bound.bandwidth => Reason::Hops,
        Some(Load { bytes, divisor, .. }) if is_by_cells(collective, from) => {
            Reason::Device { bytes: Bytes(u64::try_from(bytes / divisor).unwrap_or(u64::MAX)) }
        }
        Some(Load { bytes, divisor, capacity }) => Reason::Shared {
            bytes: Bytes(u64::try_from(bytes / divisor).unwrap_or(u64::MAX)),
            capacity: Bytes(u64::try_from(capacity).unwrap_or(u64::MAX)),
        },
        None => Reason::Nothing,
    };
    Certificate { bound, reason, largest: false }
}

/// The bound of one collective.
pub(super) fn bound(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    if Loads::of(collective, from, &topology.mesh).is_some() {
        return Bound::default();
    }
    bound_and_load(collective, from, topology).0
}

fn bound_and_load(collective: &Collective, from: &Layout, topology: &Topology) -> (Bound, Option<Load>) {
    let mesh = &topology.mesh;
    let axes: AxisSet = collective.axes(&from.sharding, mesh).iter().filter(|axis| mesh.size(*axis) > 1).collect();
    if axes.is_empty() || !collective.kind().sends() {
        return (Bound::default(), None);
    }
    let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
    let idle = all.without(from.sharding.used()).without(axes);
    let n = u128::from(axes.group_size(mesh));
    let replicas = u128::from(idle.group_size(mesh));
    let local = u128::from(from.least_bytes(mesh).0);
    let load = |bytes, divisor, capacity| Some(Load { bytes, divisor, capacity });
    let heaviest = match collective {
        // The weakest device needs all shards except its own, over its own links.
        Collective::AllGather { .. } => {
            load((n - 1) * local, 1, weakest_device(topology, wired(topology, axes.union(idle))))
        }
        // A device with all its replicas must send its part of every block except its own.
        Collective::ReduceScatter { .. } => load((n - 1) * local, n, leaving_a_device(topology, axes, idle) * replicas),
        // 2(n-1) sends of every element, over all links between the devices of a group and its replicas. If an axis
        // is split into parts, over the links of all groups that share them.
        Collective::AllReduce { .. } => {
            let sharing = mesh.with_siblings(axes).without(axes);
            let groups = u128::from(sharing.without(idle).group_size(mesh));
            let outside = u128::from(idle.without(sharing).group_size(mesh));
            let capacity = leaving(topology, wired(topology, axes)) * outside;
            load(2 * (n - 1) * local * groups, 1, capacity)
        }
        Collective::AllToAll { .. } => {
            let runs = mesh.runs(axes.in_order()).into_iter();
            let per_run = runs.map(|run| all_to_all(topology, run, local, replicas, idle));
            per_run.max_by_key(|load| load.time(topology))
        }
        // Some device receives a whole shard over its own links.
        Collective::Permute { .. } => load(local, 1, strongest_device(topology, wired(topology, all))),
        // The weakest device needs everything, over its own links.
        Collective::Broadcast { .. } => load(local, 1, weakest_device(topology, wired(topology, axes.union(idle)))),
        // Some device lacks this much of its block.
        Collective::Reshard { .. } | Collective::Shift(_) => {
            let missing = u128::from(collective.bytes_received(from, mesh).0);
            load(missing, 1, strongest_device(topology, wired(topology, all)))
        }
        Collective::Slice { .. } | Collective::Open { .. } => None,
    };
    let bandwidth = heaviest.map_or(Time::ZERO, |load: Load| load.time(topology));
    let latency = match collective {
        Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => {
            axes.iter().map(|axis| topology.links(axis).hop_latency).min().unwrap_or_default()
        }
        Collective::AllGather { .. }
        | Collective::ReduceScatter { .. }
        | Collective::AllReduce { .. }
        | Collective::AllToAll { .. }
        | Collective::Broadcast { .. }
        | Collective::Slice { .. }
        | Collective::Open { .. } => {
            // Parts of one axis use the same links, and axes on one switch the same ports.
            let mut longest: BTreeMap<AxisId, Time> = BTreeMap::new();
            for run in mesh.runs(axes.in_order()) {
                let known = longest.entry(topology.links(run).port).or_default();
                *known = reach(topology, run, idle, from.sharding.root_along(run, mesh)).max(*known);
            }
            longest.into_values().sum()
        }
    };
    (Bound { latency, bandwidth, ..Bound::default() }, heaviest)
}

impl Load {
    /// `bytes / (divisor * capacity)`, rounded down to stay a lower bound.
    fn time(self, topology: &Topology) -> Time {
        let units = Units { bytes: 1, divisor: self.divisor, rate: 1 };
        load::Load::new(self.bytes, self.capacity).time(units, topology.scale)
    }
}

/// The machine axes under mesh axes.
fn wired(topology: &Topology, axes: AxisSet) -> AxisSet {
    axes.iter().map(|axis| topology.mesh.physical(axis)).collect()
}

/// Rate into (or out of) the device with the fewest links on these axes, in bytes per second.
fn weakest_device(topology: &Topology, wired: AxisSet) -> u128 {
    carried(topology, wired, Wiring::fewest_links)
}

/// Rate out of the device with the fewest links; along an axis that holds replicas in its other parts, out of the one
/// with the most.
fn leaving_a_device(topology: &Topology, axes: AxisSet, idle: AxisSet) -> u128 {
    let (wired, replicated) = (wired(topology, axes), wired(topology, idle));
    weakest_device(topology, wired.without(replicated)) + strongest_device(topology, wired.intersection(replicated))
}

/// Rate into the device with the most links on these axes, in bytes per second.
fn strongest_device(topology: &Topology, wired: AxisSet) -> u128 {
    carried(topology, wired, Wiring::most_links)
}

/// Combined rate out of all devices of one group of the machine, along its axes, in bytes per second.
fn leaving(topology: &Topology, wired: AxisSet) -> u128 {
    let n = wired.group_size(&topology.machine);
    carried(topology, wired, |wiring, size| wiring.all_links(size) * (n / size))
}

/// Combined rate of a number of links along each axis, by its wiring and size. Ports shared by several axes count once.
fn carried(topology: &Topology, wired: AxisSet, count: impl Fn(Wiring, u64) -> u64) -> u128 {
    if let Some(fabric) = topology.fabric() {
        return fabric.cables().iter().map(|cable| u128::from(cable.rate.per_second())).sum();
    }
    let ports = wired.iter().unique_by(|axis| topology.axes[axis.index()].port);
    let along = |axis: AxisId| {
        let links = topology.axes[axis.index()];
        u128::from(count(links.wiring, topology.machine.size(axis))) * u128::from(links.one_way.per_second())
    };
    ports.map(along).sum()
}

/// The middle links of one axis, or of a run of parts, in an AllToAll with `local` bytes per device; replicas share the
/// work.
fn all_to_all(topology: &Topology, run: Axes, local: u128, replicas: u128, idle: AxisSet) -> Load {
    let (links, size) = (topology.links(run), run.group_size(&topology.mesh));
    let one_way = u128::from(links.one_way.per_second()) * replicas;
    let whole = topology.axes[physical(topology, run).index()].wiring;
    // Devices c ranks apart are c times the neighbour distance apart, in at least one direction. With replicas along
    // the other parts, at least c links.
    let (ring, apart) = match others(topology, run) {
        _ if whole == Wiring::Full => {
            // Devices of other groups may forward, so all links of the axis count.
            let links = whole.fewest_links(topology.machine.size(physical(topology, run)));
            return Load {
                bytes: local * u128::from(size - 1),
                divisor: u128::from(size),
                capacity: one_way * u128::from(links),
            };
        }
        _ if links.wiring == Wiring::Switch => (false, 1),
        Some(others) if !others.intersection(idle).is_empty() => (true, 1),
        Some(_) => (whole == Wiring::Ring, u128::from(links.apart)),
        None => (links.wiring == Wiring::Ring, 1),
    };
    let wiring = match links.wiring {
        Wiring::Ring | Wiring::Line if ring => Wiring::Ring,
        Wiring::Ring | Wiring::Line => Wiring::Line,
        Wiring::Switch | Wiring::Full | Wiring::Fabric => links.wiring,
    };
    let (share, of) = wiring.exchange_share(size);
    Load { bytes: local * apart * u128::from(share), divisor: u128::from(of), capacity: one_way }
}

/// The machine axis of a run.
fn physical(topology: &Topology, run: Axes) -> AxisId {
    topology.mesh.physical(run.last().expect("a run has an axis"))
}

/// The other mesh axes with more than one device on the same machine axis.
fn others(topology: &Topology, run: Axes) -> Option<AxisSet> {
    let mesh = &topology.mesh;
    let others = mesh.with_siblings(run.set()).without(run.set());
    let others: AxisSet = others.iter().filter(|axis| mesh.size(*axis) > 1).collect();
    (!others.is_empty()).then_some(others)
}

/// The time of an empty message between the most distant devices along the axis, or along a run of parts.
fn reach(topology: &Topology, run: Axes, idle: AxisSet, root: Option<u64>) -> Time {
    let (links, size) = (topology.links(run), run.group_size(&topology.mesh));
    // Replicas along another part may be nearer, but at most the distance around the ring of this part.
    let nearer = || others(topology, run).is_some_and(|others| !others.intersection(idle).is_empty());
    let whole = topology.axes[physical(topology, run).index()].wiring;
    match links.wiring {
        _ if whole.is_one_hop() => links.hop_latency,
        Wiring::Ring | Wiring::Line if nearer() => links.hop_latency * Wiring::Ring.diameter(size),
        Wiring::Ring | Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => links.reach(size, root),
    }
}
