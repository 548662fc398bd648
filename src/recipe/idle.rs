//! Idle axes: the one of a gather with the share of the data that is sent along it, and those of faster networks, over
//! which a collective may be split.

use crate::collective::CollectiveKind;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, Mesh};
use crate::schedule::methods::{self, Borrowed};
use crate::topology::Topology;

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
    let network = |run: Axes| topology.links(run).network;
    let is_faster =
        |run: &Axes| network(*run) != network(slowest) && into(topology, *run) / 2 >= into(topology, slowest);
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
    let links = topology.links(run);
    let ways = links.wiring.fewest_links(run.group_size(&topology.mesh));
    links.one_way.per_second() * ways / u64::from(links.apart.max(1)) / links.sharers.max(1)
}
