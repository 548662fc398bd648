//! Idle axes: the one of a gather with the share of the data that is sent along it, and those of faster networks, over
//! which a collective may be split.

use crate::collective::CollectiveKind;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, Mesh};
use crate::route::Route;
use crate::schedule::methods::{self, Borrowed};
use crate::topology::{LinkId, Topology};
use crate::units::Rate;

/// The runs of axes along which the array is replicated.
pub(crate) fn idle_runs(mesh: &Mesh, sharding: &Sharding) -> Vec<Axes> {
    let busy = |axis: AxisId| sharding.open.contains(axis) || sharding.dims.iter().any(|axes| axes.contains(axis));
    let idle: Axes = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1 && !busy(*axis)).collect();
    mesh.runs(idle)
}

/// The run of replicas with the fastest links, if any.
pub(super) fn fastest(topology: &Topology, sharding: &Sharding) -> Option<Axes> {
    idle_runs(&topology.mesh, sharding).into_iter().rev().max_by_key(|run| into(topology, *run))
}

/// The axes of replicas on networks that are at least twice as fast as the slowest one of a collective over these runs:
/// each replica can move a part over the slow network, and gather the rest over the fast one.
pub(super) fn faster(topology: &Topology, sharding: &Sharding, runs: impl Iterator<Item = Axes>) -> Option<Axes> {
    let slowest = runs.min_by_key(|run| into(topology, *run))?;
    let differs =
        |run: Axes| topology.fabric().is_some() || topology.links(run).network != topology.links(slowest).network;
    let is_faster = |run: &Axes| differs(*run) && into(topology, *run) / 2 >= into(topology, slowest);
    let faster = idle_runs(&topology.mesh, sharding).into_iter().filter(is_faster).fold(Axes::NONE, Axes::then);
    Some(faster).filter(|axes| !axes.is_empty())
}

/// The share that balances both runs; in one chunk.
pub(super) fn borrowed(topology: &Topology, run: Axes, idle: Axes) -> Option<Borrowed> {
    let usual = |run: Axes| {
        let (wiring, size) = (topology.links(run).wiring, run.group_size(&topology.mesh));
        methods::candidates(CollectiveKind::AllGather, wiring, size).into_iter().next()
    };
    let (own, other) = (into(topology, run), into(topology, idle));
    let share = (other, own.checked_add(other)?);
    Some(Borrowed { run: (run, usual(run)?), idle: (idle, usual(idle)?), share, chunks: 1 })
}

/// Bytes per second into a device along a run, if all devices of a node use it.
pub(super) fn into(topology: &Topology, run: impl Into<Axes>) -> u64 {
    let run = run.into();
    if topology.fabric().is_some() {
        return over_fabric(topology, run);
    }
    let links = topology.links(run);
    let ways = links.wiring.fewest_links(run.group_size(&topology.mesh));
    links.one_way.per_second() * ways / u64::from(links.apart.max(1)) / links.sharers.max(1)
}

/// Bytes per second into each device of a fabric when all devices of each group along a run send to each other: that of the
/// link which is busy for longest.
fn over_fabric(topology: &Topology, run: Axes) -> u64 {
    let mesh = &topology.mesh;
    let axes: Vec<AxisId> = run.iter().collect();
    let mut messages = vec![0u64; topology.link_count()];
    for from in mesh.devices() {
        for to in mesh.group(from, &axes).filter(|to| *to != from) {
            for hop in topology.route(from, to, Route::Shortest).unwrap_or_default() {
                hop.links().for_each(|id| messages[id.index()] += 1);
            }
        }
    }
    let received = u128::from(run.group_size(mesh) - 1);
    let rate = |(id, count): (LinkId, &u64)| {
        let rate = u128::from(topology.rate(id).map_or(0, Rate::per_second));
        Some(u64::try_from((rate * received).checked_div(u128::from(*count))?).unwrap_or(u64::MAX))
    };
    (0..messages.len()).map(LinkId::at).zip(&messages).filter_map(rate).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Hardware;

    /// Each GPU has a port of 450 GB/s in its node and one of 50 GB/s on its rail.
    #[test]
    fn axes_of_rails() {
        let hardware = Hardware::from_toml(include_str!("../../examples/machines/rails.toml")).expect("a profile");
        let topology = Topology::new(Mesh::of(&[("D", 2), ("X", 4)]), hardware).expect("eight devices");
        let [nodes, gpus] = [0, 1].map(|axis| Axes::one(AxisId::new(axis)));
        assert_eq!(into(&topology, nodes), 50_000_000_000);
        assert_eq!(into(&topology, gpus), 450_000_000_000);
    }
}
