//! What the engines by which messages leave cannot do sooner.
//!
//! A message has one sender and one receiver, and while it leaves, the engine of its sender is busy, whichever link it
//! takes. So all engines together are busy for the least number of sends, over the fastest links, and one of them for the
//! mean. What is only moved takes a send for each device that needs it and does not have it. A sum of n contributions
//! takes n - 1 sends until the first device has all of it, and one for each other device that needs it.

use super::demand::Roles;
use super::load::{Load, Units};
use super::{Bound, Certificate, Reason};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::topology::{Topology, Work};
use crate::units::{Bytes, Time, gcd};

/// The mean of what each engine must send, and how long that takes; `None` where messages leave without an engine.
fn mean(collective: &Collective, from: &Layout, topology: &Topology) -> Option<(Time, Bytes)> {
    topology.hardware.engines.of(Work::Shuffle)?;
    let mesh = &topology.mesh;
    let roles = Roles::new(collective, from, mesh);
    let [n, replicas] = [roles.group, roles.idle].map(|axes| u128::from(axes.group_size(mesh)));
    if n < 2 {
        return None;
    }
    // Sends of parts of what a device has, and how many parts that are.
    let (sends, parts) = match collective {
        Collective::AllGather { .. } => (n * replicas * (n - 1), 1),
        Collective::ReduceScatter { .. } => (n * (n + replicas - 2), n),
        Collective::AllReduce { .. } => (n + n * replicas - 2, 1),
        Collective::AllToAll { .. } => (n * replicas * (n - 1), n),
        Collective::Broadcast { .. } => (replicas * (n - 1), 1),
        Collective::Permute { .. } | Collective::Reshard { .. } => return None,
        Collective::Slice { .. } | Collective::Open { .. } => return None,
    };
    let long = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).map(|axis| mesh.physical(axis));
    let rate = long.map(|axis| u128::from(topology.axes[axis.index()].one_way.per_second())).max()?;
    let units = Units { bytes: u128::from(from.local_bytes(mesh).0), divisor: parts, rate };
    let divisor = gcd(sends, n * replicas);
    let load = Load::new(sends / divisor, n * replicas / divisor);
    let bytes = load.pieces.saturating_mul(units.bytes) / load.capacity.saturating_mul(parts).max(1);
    Some((load.time(units, topology.scale), Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))))
}

/// The bound with what engines add to it.
pub(super) fn bound(bound: Bound, collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    match mean(collective, from, topology) {
        Some((time, _)) => Bound { bandwidth: bound.bandwidth.max(time), ..bound },
        None => bound,
    }
}

/// The same, with its reason. Which engines send what is not searched for, so that there may be a higher bound.
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
