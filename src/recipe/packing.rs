//! Packed trees for a collective on the available links.

use super::problem::Problem;
use crate::collective::CollectiveKind;
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use crate::packing::{self, Branching, Link, Network, Packing, Translations};
use crate::topology::{LinkSide, Topology};
use crate::units::gcd;
use std::collections::BTreeMap;

/// Most devices for tree packing.
const MOST_DEVICES: u64 = 64;

/// Most devices for the trees of a sum, which are few for any number of devices.
const MOST_DEVICES_OF_SUM: u64 = 256;

/// The trees of a sum over many devices have a rate at least this close to the best one: 1 in 128 may be lost.
const MOST_LOST: u64 = 128;

/// Most rings that one axis may number.
const MOST_FACTORS: usize = 4;

/// Most chunks.
pub(super) const MOST_CHUNKS: u64 = 1 << 12;

/// The trees of a collective over these axes.
///
/// `None` if there are too many devices, devices are linked to others than their neighbours, or the links within a
/// group do not connect it.
pub(super) fn trees(topology: &Topology, kind: CollectiveKind, axes: Axes) -> Option<Vec<Branching>> {
    let nodes = axes.group_size(&topology.mesh);
    let most = if kind == CollectiveKind::AllReduce { MOST_DEVICES_OF_SUM } else { MOST_DEVICES };
    if !(2..=most).contains(&nodes) {
        return None;
    }
    let network = network(topology, axes)?;
    let each = || (0..network.nodes).map(|node| vec![node]).collect::<Vec<_>>();
    let Packing { trees, .. } = match kind {
        CollectiveKind::AllGather => packing::gather(&network, &each())?,
        CollectiveKind::ReduceScatter => packing::gather(&network.reversed(), &each())?,
        CollectiveKind::AllReduce if nodes > MOST_DEVICES => packing::spanning_with_few(&network, MOST_LOST)?,
        CollectiveKind::AllReduce => packing::spanning(&network)?,
        CollectiveKind::AllToAll
        | CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Broadcast
        | CollectiveKind::Slice
        | CollectiveKind::Open => return None,
    };
    Some(trees)
}

/// The translations of a fabric without switches, along these axes. One axis may number the devices of several rings.
pub(super) fn translations(topology: &Topology, axes: Axes) -> Option<Translations> {
    topology.fabric()?;
    let network = network(topology, axes)?;
    let sizes: Vec<usize> =
        axes.iter().map(|axis| usize::try_from(topology.mesh.size(axis)).ok()).collect::<Option<_>>()?;
    match sizes[..] {
        [size] => factorisations(size, MOST_FACTORS).find_map(|sizes| Translations::of(&network, &sizes)),
        _ => Translations::of(&network, &sizes),
    }
}

/// The products of this number of factors at most that are this size, in any order.
fn factorisations(size: usize, most: usize) -> Box<dyn Iterator<Item = Vec<usize>>> {
    let whole = std::iter::once(vec![size]);
    if most < 2 {
        return Box::new(whole);
    }
    let first = (2..size).filter(move |factor| size.is_multiple_of(*factor));
    let more = first
        .flat_map(move |first| factorisations(size / first, most - 1).map(move |rest| [vec![first], rest].concat()));
    Box::new(whole.chain(more))
}

/// The trees of a broadcast from the device of each group with this rank, with weights; devices are numbered by rank.
pub(super) fn from_root(topology: &Topology, axes: Axes, root: u64) -> Option<Vec<(Vec<Option<usize>>, u64)>> {
    if !(2..=MOST_DEVICES).contains(&axes.group_size(&topology.mesh)) {
        return None;
    }
    let Packing { trees, .. } = packing::gather(&network(topology, axes)?, &[vec![usize::try_from(root).ok()?]])?;
    Some(trees.into_iter().map(|tree| (tree.parents, tree.weight)).collect())
}

/// Length of the dim that is split into chunks.
pub(super) fn longest(mesh: &Mesh, problem: &Problem) -> u64 {
    let scattered = problem.kind == CollectiveKind::ReduceScatter;
    let parts = |dim: usize| problem.dims.get(dim).filter(|_| scattered).map_or(1, |axes| axes.group_size(mesh));
    problem.extents.iter().enumerate().map(|(dim, extent)| extent / parts(dim)).max().unwrap_or(1)
}

/// The links between the devices of a group. If groups differ, the weakest links count.
pub(super) fn network(topology: &Topology, axes: Axes) -> Option<Network> {
    let mesh = &topology.mesh;
    let others: AxisSet = mesh.axis_ids().filter(|axis| !axes.contains(*axis)).collect();
    let group = |device: DeviceId| mesh.rank(device, others.iter());
    let node = |device: DeviceId| usize::try_from(mesh.rank(device, axes.iter())).ok();
    let mut rates: BTreeMap<(usize, usize), BTreeMap<u64, u64>> = BTreeMap::new();
    for id in topology.all_links() {
        let link = topology.link(id);
        // Ports, and links to switches, are shared by all paths of a device.
        if matches!(link.side, LinkSide::Out | LinkSide::In)
            || topology.is_shared(link.axis)
            || topology.end(link) == link.device
        {
            return None;
        }
        let (device, other) = (link.device, topology.end(link));
        if group(device) == group(other) {
            let rate = topology.rate(id)?.per_second();
            *rates.entry((node(device)?, node(other)?)).or_default().entry(group(device)).or_default() += rate;
        }
    }
    let groups = others.group_size(mesh);
    let weakest = |rates: &BTreeMap<u64, u64>| {
        let all = rates.len() as u64 == groups;
        rates.values().copied().min().filter(|_| all)
    };
    let links: Vec<((usize, usize), u64)> =
        rates.iter().filter_map(|(ends, rates)| Some((*ends, weakest(rates)?))).collect();
    let unit = links.iter().map(|(_, rate)| *rate).reduce(gcd)?;
    let links = links.into_iter().map(|((from, to), rate)| Link { from, to, capacity: rate / unit });
    Some(Network { nodes: usize::try_from(axes.group_size(mesh)).ok()?, links: links.collect() })
}
