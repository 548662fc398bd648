//! Traffic that must cross the links along some axes under any schedule: loads that add up over the steps of a program.
//!
//! Devices that differ only along other axes form one *place*, within which communication is free. A place that lacks
//! bytes it needs receives them over links along the counted axes, so these links together carry the bytes that all
//! places lack. The loads of several collectives on the same links add up. The bounds of single collectives, each by
//! its own worst cut, do not.
//!
//! With `g` places in a group and `r` copies of each along idle axes, a byte of the result is
//! - gathered or broadcast: received by the `g - 1` places that lack it, in each copy;
//! - reduced to one place: a connected set holds all `g` contributions and the `r` places that need it, so `g + r - 2`
//!   times;
//! - reduced to all: `g - 1` times until the first place has it, and once more into each other one of the `g·r`;
//! - exchanged: over its distance `d`, and once more for each further copy; without copies, on a fabric of which all links are
//!   counted, over the fewest hops from device to device.

use super::demand::Roles;
use super::graph::Graph;
use super::load::{Load, Units};
use super::nearby;
use crate::collective::{Collective, Loads};
use crate::layout::{Layout, Sharding};
use crate::mesh::{AxisId, AxisSet, DeviceId};
use crate::topology::fabric::Cable;
use crate::topology::{Fabric, Topology};
use crate::units::Time;
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

/// Limit on the blocks of a dim split by a list of axes; above it, staying blocks are not counted.
const MOST_BLOCKS: u64 = 1 << 16;

/// Limit on pairs of devices whose hops over a fabric are counted.
const MOST_PAIRS: u128 = 1 << 16;

/// Limit on cells times devices.
const MOST_LOOKED_AT: u128 = 1 << 18;

/// Time that the links along some machine axes must be busy with a collective, assuming all of them are always busy.
///
/// The sum over several collectives bounds every schedule of them from below.
///
/// - `along`: axes of [`Topology::machine`].
pub fn crossing(collective: &Collective, from: &Layout, topology: &Topology, along: AxisSet) -> Time {
    let links = Links::along(topology, along);
    Crossing::of(collective, from, topology).map_or(Time::ZERO, |crossing| crossing.time(links))
}

/// The links along some machine axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    /// The mesh axes on these machine axes.
    counted: AxisSet,
    /// Combined rate of the links that are not degraded, in bytes per second.
    capacity: u128,
}

impl Links {
    /// - `along`: axes of [`Topology::machine`].
    pub(crate) fn along(topology: &Topology, along: AxisSet) -> Links {
        let mesh = &topology.mesh;
        let is_counted = |axis: &AxisId| along.contains(mesh.physical(*axis)) && mesh.size(*axis) > 1;
        Links { counted: mesh.axis_ids().filter(is_counted).collect(), capacity: capacity(topology, along) }
    }
}

/// Combined rate of all links along some machine axes without degraded links, in bytes per second. A port shared by
/// several axes counts once.
fn capacity(topology: &Topology, along: AxisSet) -> u128 {
    let devices = topology.machine.device_count() as u128;
    if let Some(fabric) = topology.fabric() {
        // Every message leaves a device, along whichever axis, and enters a place.
        let out = rate_of(fabric, |cable| (cable.from as u128) < devices);
        return into_places(topology, fabric, along).map_or(out, |into| into.min(out));
    }
    let ports = along.iter().unique_by(|axis| topology.axes[axis.index()].port);
    let of_axis = |axis: AxisId| {
        let links = topology.axes[axis.index()];
        let size = topology.machine.size(axis);
        let count = devices / u128::from(size) * u128::from(links.wiring.all_links(size));
        (count * u128::from(links.one_way.per_second())).div_ceil(u128::from(topology.sharers(axis)))
    };
    ports.map(of_axis).sum()
}

/// Combined rate of some links of a fabric, in bytes per second.
fn rate_of(fabric: &Fabric, counts: impl Fn(&Cable) -> bool) -> u128 {
    fabric.cables().iter().filter(|cable| counts(cable)).map(|cable| u128::from(cable.rate.per_second())).sum()
}

/// Combined rate of the links of a fabric into its places, in bytes per second; `None` if there is one place, or if finding
/// it takes too long.
fn into_places(topology: &Topology, fabric: &Fabric, along: AxisSet) -> Option<u128> {
    let machine = &topology.machine;
    let counted: AxisSet = along.iter().filter(|axis| machine.size(*axis) > 1).collect();
    if machine.group_size(counted.iter()) == machine.device_count() as u64 {
        return Some(rate_of(fabric, |cable| cable.to < machine.device_count()));
    }
    let graph = Graph::of(topology);
    let places = machine.group_size(counted.iter());
    let effort = u128::from(places).saturating_mul(graph.links().count() as u128);
    if places == 1 || effort > MOST_LOOKED_AT {
        return None;
    }
    let members = machine.devices().into_group_map_by(|device| machine.rank(*device, counted.iter()));
    let into = |members: Vec<DeviceId>| {
        let mut inside = vec![false; graph.devices()];
        members.into_iter().for_each(|device| inside[device.index()] = true);
        nearby::capacity_into(&graph, inside)
    };
    Some(members.into_values().map(into).sum::<u128>().saturating_mul(graph.rate()))
}

/// A collective, whose traffic is counted over several sets of links.
pub(crate) struct Crossing<'a> {
    topology: &'a Topology,
    collective: &'a Collective,
    from: &'a Layout,
    to: Sharding,
    /// The axes along which devices exchange data.
    group: AxisSet,
}

impl<'a> Crossing<'a> {
    /// `None` if the collective does not apply.
    pub(crate) fn of(collective: &'a Collective, from: &'a Layout, topology: &'a Topology) -> Option<Crossing<'a>> {
        let to = collective.apply(&from.sharding, &topology.mesh)?;
        let group = collective.axes(&from.sharding, &topology.mesh);
        Some(Crossing { topology, collective, from, to, group })
    }

    /// Time that these links must be busy, as [`crossing`].
    pub(crate) fn time(&self, links: Links) -> Time {
        let places = Places { topology: self.topology, counted: links.counted };
        let bytes = places.bytes(self);
        Load::new(bytes, links.capacity).time(Units { bytes: 1, divisor: 1, rate: 1 }, self.topology.scale)
    }
}

/// The mesh restricted to the axes whose links are counted.
struct Places<'a> {
    topology: &'a Topology,
    counted: AxisSet,
}

impl Places<'_> {
    fn size(&self, axes: AxisSet) -> u128 {
        u128::from(axes.intersection(self.counted).group_size(&self.topology.mesh))
    }

    /// Number of copies of an array with this sharding.
    fn copies(&self, sharding: &Sharding) -> u128 {
        self.size(self.counted.without(sharding.used()))
    }

    /// Bytes that must cross counted links, over all groups.
    fn bytes(&self, crossing: &Crossing<'_>) -> u128 {
        let Crossing { collective, from, to, group, .. } = crossing;
        let (mesh, group) = (&self.topology.mesh, *group);
        let places = self.size(group);
        if places == 1 {
            return 0;
        }
        // The distinct bytes of the array, each counted once.
        let whole = |sharding: &Sharding| {
            let local = from.dtype.least_bytes(sharding.local_elements(&from.dims, mesh));
            u128::from(local).saturating_mul(u128::from(sharding.used().group_size(mesh)))
        };
        let copies = self.copies(&from.sharding);
        match collective {
            Collective::AllGather { .. } => whole(&from.sharding).saturating_mul((places - 1) * copies),
            Collective::Broadcast { .. } => whole(to).saturating_mul((places - 1) * copies),
            Collective::ReduceScatter { .. } => whole(to).saturating_mul(places + copies - 2),
            Collective::AllReduce { .. } => {
                let all = whole(to).saturating_mul(places * copies + places - 2);
                if super::adds(collective, from, self.topology) { all / 2 } else { all }
            }
            Collective::AllToAll { .. } | Collective::Reshard { .. } if from.loads().is_some() => {
                Loads::of(collective, from, mesh).map_or(0, |loads| self.loaded(collective, from, &loads))
            }
            Collective::AllToAll { .. } => self.exchanged(whole(&from.sharding), group, copies),
            Collective::Permute { .. } => self.moved(whole(&from.sharding), &from.sharding, to),
            Collective::Reshard { .. } => self.resharded(collective, from, to),
            // A weaker bound, of the bytes that a device receives, is in `parts.rs`.
            Collective::Shift(_) | Collective::Slice { .. } | Collective::Open { .. } => 0,
        }
    }

    /// The used bytes that places lack; each of them crosses at least one link.
    fn loaded(&self, collective: &Collective, from: &Layout, loads: &Loads) -> u128 {
        let mesh = &self.topology.mesh;
        let Loads { cells, .. } = loads;
        if u128::from(cells.count()) * (mesh.device_count() as u128) > MOST_LOOKED_AT {
            return 0;
        }
        let Roles { group, other, .. } = Roles::new(collective, from, mesh);
        // A cell in a place, of the groups that have other data.
        let mut there: BTreeSet<(u64, u64, u64)> = BTreeSet::new();
        let mut needed: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
        for device in mesh.devices() {
            let of = |axes: AxisSet| mesh.rank(device, axes.iter());
            let (data, place) = (of(other), of(self.counted));
            let rank = usize::try_from(of(group)).expect("a rank");
            for number in 0..cells.count() {
                let cell = cells.cell(number);
                if cells.before.has(rank, &cell) {
                    there.insert((data, place, number));
                } else if cells.after.has(rank, &cell) {
                    needed.entry((data, place, number)).or_insert_with(|| loads.in_cell(device, &cell, mesh));
                }
            }
        }
        let lacking = needed.into_iter().filter(|(key, _)| !there.contains(key));
        let slots: u128 = lacking.map(|(_, slots)| u128::from(slots)).sum();
        slots * u128::from(from.dtype.least_bytes(loads.slot()))
    }

    /// Bytes times links between places, where each place of a group sends each other one an equal part.
    fn exchanged(&self, whole: u128, group: AxisSet, copies: u128) -> u128 {
        let (topology, mesh) = (self.topology, &self.topology.mesh);
        let is_place = |axis: AxisId| mesh.size(axis) == 1 || self.counted.contains(axis);
        if let Some(fabric) = topology.fabric()
            && copies == 1
            && mesh.axis_ids().all(is_place)
            && mesh.device_count() as u128 * u128::from(mesh.group_size(group.iter())) <= MOST_PAIRS
        {
            // Each hop from device to device is counted at its sender.
            let to_others = |from: DeviceId| {
                let others =
                    (0..mesh.group_size(group.iter())).map(move |rank| mesh.with_rank(from, group.iter(), rank));
                others.map(move |to| u128::from(fabric.hops(from, to)))
            };
            let hops: u128 = mesh.devices().flat_map(to_others).sum();
            let shares = mesh.device_count() as u128 * u128::from(mesh.group_size(group.iter()));
            return whole.saturating_mul(hops) / shares;
        }
        let group = group.intersection(self.counted);
        // Parts of an axis have no distance of their own, and a switch is one hop for all of its axes, like a full mesh.
        let is_distance = |axis: &AxisId| {
            let physical = mesh.physical(*axis);
            mesh.size(*axis) == topology.machine.size(physical) && !topology.axes[physical.index()].wiring.is_one_hop()
        };
        let along = group.iter().filter(is_distance).map(|axis| {
            let n = mesh.size(axis);
            let (distances, of) = topology.axes[mesh.physical(axis).index()].wiring.distances(n);
            whole * u128::from(distances) / u128::from(of * n)
        });
        let others = group.iter().filter(|axis| !is_distance(axis));
        let ports = others.into_group_map_by(|axis| topology.axes[mesh.physical(*axis).index()].port);
        let through = ports.into_values().map(|axes| {
            let n = u128::from(mesh.group_size(axes));
            whole / n * (n - 1)
        });
        let distance: u128 = along.chain(through.sorted()).sum();
        let n = self.size(group);
        distance.saturating_add((whole / n * (n - 1)).saturating_mul(copies - 1))
    }

    /// Cells that a place needs and none of its devices has; 0 (a valid, weaker bound) if too many to count.
    fn resharded(&self, collective: &Collective, from: &Layout, to: &Sharding) -> u128 {
        let mesh = &self.topology.mesh;
        let axes = collective.axes(&from.sharding, mesh);
        let cells = collective.cells(&from.sharding, to, mesh);
        if u128::from(cells.count()) * cells.devices() as u128 > MOST_LOOKED_AT {
            return 0;
        }
        let device = |rank: usize| mesh.with_rank(DeviceId(0), axes.iter(), rank as u64);
        let place = |rank: usize| mesh.rank(device(rank), axes.intersection(self.counted).iter());
        let members = (0..cells.devices()).map(|rank| (place(rank), rank)).into_group_map();
        let lacking = members.values().map(|ranks| {
            let lacks = |number: &u64| {
                let cell = cells.cell(*number);
                ranks.iter().any(|rank| cells.after.has(*rank, &cell))
                    && !ranks.iter().any(|rank| cells.before.has(*rank, &cell))
            };
            (0..cells.count()).filter(lacks).count() as u128
        });
        let lacking: u128 = lacking.sum();
        // The other groups have their own data, or replicas.
        let others = mesh.axis_ids().filter(|axis| !axes.contains(*axis));
        let is_apart = |axis: &AxisId| self.counted.contains(*axis) || from.sharding.used().contains(*axis);
        let groups = u128::from(mesh.group_size(others.filter(is_apart)));
        let local = u128::from(from.least_bytes(mesh).0);
        local * lacking * groups / u128::from(cells.in_block())
    }

    /// Whole shards that move: what a place needs and did not have.
    fn moved(&self, whole: u128, from: &Sharding, to: &Sharding) -> u128 {
        let mesh = &self.topology.mesh;
        let needed = whole.saturating_mul(self.copies(to));
        let kept = |axis: AxisId| {
            let n = u128::from(mesh.size(axis));
            match (from.stride(axis, mesh), to.stride(axis, mesh)) {
                (before, after) if before == after => needed,
                // A replicated place already holds whatever it needs.
                (None, _) => needed,
                (Some((dim, before)), Some((other, after))) if dim == other => {
                    let blocks = from.dims[dim].group_size(mesh);
                    if blocks > MOST_BLOCKS {
                        return needed;
                    }
                    let n = mesh.size(axis);
                    let stays = (0..blocks).filter(|block| block / before % n == block / after % n).count();
                    needed.saturating_mul(stays as u128).div_ceil(u128::from(blocks))
                }
                (Some(_), _) => needed.div_ceil(n),
            }
        };
        let least = self.counted.iter().map(kept).min();
        needed - least.unwrap_or(needed).min(needed)
    }
}
