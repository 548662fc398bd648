//! Checks that every message can be routed on existing links, around those that are down.

use super::flaw::{Flaw, Site};
use crate::mesh::{AxisId, AxisSet, Orbits};
use crate::schedule::{OpKind, Schedule};
use crate::topology::Topology;

/// Checks that each message of a proven schedule can take its prescribed route.
///
/// # Errors
/// The first message in list order that would leave the mesh, arrive elsewhere, or has no link left.
///
/// # Panics
/// If the topology has a different mesh.
pub fn ways(schedule: &Schedule, topology: &Topology) -> Result<(), Flaw> {
    let mut orbits = Orbits::new(&schedule.mesh, AxisSet::NONE);
    for id in schedule.ids() {
        let OpKind::Shuffle { sources, route } = &schedule.operation(id).kind else { continue };
        let route = topology.in_links(sources, *route);
        // Symmetric devices have symmetric routes; the first of them has coordinate 0.
        let alike = |axis: &AxisId| topology.turns(*axis) && sources.commutes(&schedule.mesh, *axis);
        let alike: AxisSet = schedule.mesh.axis_ids().filter(alike).collect();
        if orbits.axes() != alike {
            orbits = Orbits::new(&schedule.mesh, alike);
        }
        for device in orbits.representatives().iter().copied() {
            let Some(source) = sources.of(&schedule.mesh, device) else { continue };
            topology.start(source, device, route).map_err(|route| {
                let site = Site::new(&schedule.mesh, id, device);
                Flaw::NoWay { site, why: route.to_string() }
            })?;
        }
    }
    Ok(())
}
