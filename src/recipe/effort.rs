//! Lower bounds on the operations of a method, computed before it is built: on very long axes most methods have too
//! many operations to prove, and building them would take gigabytes.

use super::trial::MOST_WORK;
use crate::collective::CollectiveKind;
use crate::mesh::{Axes, Wiring};
use crate::method::{Family, Method};
use crate::topology::Topology;

/// Most operations of one stage, even with symmetry.
const MOST_OPERATIONS: u64 = 1 << 19;

/// At least this many operations and operands of a sum per level of a tree: a slice, an addition and a shuffle up, a shuffle
/// and an assembly down.
const LEAST_PER_LEVEL: u64 = 8;

/// Whether a stage with this method is too large to prove on the whole mesh.
pub(super) fn is_too_large(topology: &Topology, kind: CollectiveKind, run: Axes, method: Method) -> bool {
    let n = run.group_size(&topology.mesh);
    // Levels of a tree, which has a device per level along links.
    let levels = match topology.links(run).wiring {
        Wiring::Switch | Wiring::Full | Wiring::Fabric => u64::from(n.ilog2()),
        wiring @ (Wiring::Ring | Wiring::Line) => wiring.diameter(n),
    };
    let operations = match (method.family(), kind) {
        (_, CollectiveKind::Broadcast) => levels,
        (Family::Trees(_), _) => levels * LEAST_PER_LEVEL,
        // A result of n blocks, or a sum of n terms, has n operands.
        _ => n - 1,
    };
    // Trees are not symmetric over devices.
    let rooted = matches!(method.family(), Family::Trees(_)) || kind == CollectiveKind::Broadcast;
    let followed = topology.mesh.axis_ids().fold(1u64, |followed, axis| {
        let size = topology.mesh.size(axis);
        let alone = Axes::one(axis);
        let turns = size > 2
            && topology.mesh.siblings(axis) == alone
            && topology.links(alone).wiring != Wiring::Line
            && !(rooted && run.contains(axis));
        followed.saturating_mul(if turns { 1 } else { size })
    });
    operations > MOST_OPERATIONS || operations.saturating_mul(followed) > MOST_WORK as u64
}

/// Whether trees over this number of devices, with this depth, are too large to prove.
pub(super) fn is_too_deep(devices: u64, depth: u64) -> bool {
    devices.saturating_mul(depth) > MOST_WORK as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{Axis, AxisId, Mesh};
    use crate::topology::Hardware;

    fn gather(axes: &[(u32, Wiring)]) -> bool {
        let axis = |(name, (size, wiring)): (&str, &(u32, Wiring))| Axis {
            name: name.to_owned(),
            size: *size,
            wiring: Some(*wiring),
            over: None,
        };
        let mesh = Mesh::new(["X", "Y", "Z"].into_iter().zip(axes).map(axis).collect()).expect("small");
        let hardware = Hardware::named(Hardware::DEFAULT).expect("shipped");
        let topology = Topology::new(mesh, hardware).expect("wired");
        is_too_large(&topology, CollectiveKind::AllGather, Axes::one(AxisId::new(0)), Method::OneHop)
    }

    #[test]
    fn lines_are_followed_device_by_device() {
        use Wiring::{Line, Ring, Switch};
        assert!(!gather(&[(1 << 12, Line)]) && gather(&[(1 << 13, Line)]));
        assert!(!gather(&[(1 << 19, Switch)]) && gather(&[(1 << 20, Switch)]));
        assert!(!gather(&[(1 << 12, Ring), (1 << 8, Ring)]) && !gather(&[(1 << 10, Ring), (1 << 9, Line), (2, Line)]));
    }
}
