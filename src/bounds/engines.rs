//! Lower bounds from the engines that send messages.
//!
//! A message occupies the engine of its sender while it leaves, on any link. All engines together are therefore busy
//! for the minimum number of sends over the fastest links, and one of them for at least the mean. Data that is only
//! moved takes one send for each device that needs it and lacks it. A sum of n contributions takes n - 1 sends until
//! the first device has it, and one for each other device that needs it.

use super::demand::Roles;
use super::load::{Load, Units};
use super::{Bound, Certificate, Reason};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::topology::{Topology, Work};
use crate::units::{Bytes, Time, gcd};

/// The mean bytes per sending engine, and their time; `None` where messages occupy no engine.
fn mean(collective: &Collective, from: &Layout, topology: &Topology) -> Option<(Time, Bytes)> {
    topology.hardware.engines.of(Work::Shuffle)?;
    let mesh = &topology.mesh;
    let roles = Roles::new(collective, from, mesh);
    let [n, replicas] = [roles.group, roles.idle].map(|axes| u128::from(axes.group_size(mesh)));
    if n < 2 {
        return None;
    }
    // Number of sends of equal parts of a device's block, and the number of parts.
    let (sends, parts) = match collective {
        Collective::AllGather { .. } => (n * replicas * (n - 1), 1),
        Collective::ReduceScatter { .. } => (n * (n + replicas - 2), n),
        Collective::AllReduce { .. } => (n + n * replicas - 2, 1),
        // Of an array that is partly used, less is sent.
        Collective::AllToAll { .. } if from.loads().is_some() => return None,
        Collective::AllToAll { .. } => (n * replicas * (n - 1), n),
        Collective::Broadcast { .. } => (replicas * (n - 1), 1),
        Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => return None,
        Collective::Slice { .. } | Collective::Open { .. } => return None,
    };
    let long = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).map(|axis| mesh.physical(axis));
    let rate = long.map(|axis| u128::from(topology.axes[axis.index()].one_way.per_second())).max()?;
    let units = Units { bytes: u128::from(from.least_bytes(mesh).0), divisor: parts, rate };
    let divisor = gcd(sends, n * replicas);
    let load = Load::new(sends / divisor, n * replicas / divisor);
    let bytes = load.pieces.saturating_mul(units.bytes) / load.capacity.saturating_mul(parts).max(1);
    Some((load.time(units, topology.scale), Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))))
}

/// The bound raised by the engines.
pub(super) fn bound(bound: Bound, collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    match mean(collective, from, topology) {
        Some((time, _)) => Bound { bandwidth: bound.bandwidth.max(time), ..bound },
        None => bound,
    }
}

/// The bound with its reason. The distribution of sends over engines is not searched, so a higher bound may exist.
pub(super) fn certificate(
    links: Certificate,
    collective: &Collective,
    from: &Layout,
    topology: &Topology,
) -> Certificate {
    match mean(collective, from, topology) {
        Some((time, each)) if time > links.bound.bandwidth => {
            let bound = Bound { bandwidth: time, ..links.bound };
            let reason = if bound.latency > bound.bandwidth { links.reason } else { Reason::Engines { each } };
            Certificate { bound, reason, largest: false }
        }
        Some(_) | None => links,
    }
}
