//! What no schedule can beat: lower bounds from the layouts and the links alone.
//!
//! Nothing here knows a method. One definition stands behind all: the bytes that a set of devices needs and nobody in
//! it holds, all groups at once, over the capacity of the links into the set ([`demand`]). To it come the 2(p-1)
//! sends of an AllReduce between p parts of a group ([`partitions`]), and the bytes times the hops of what is moved
//! ([`metric`]). Each latency bound counts hops.
//!
//! Links of an idle axis, one that neither shards the array nor holds open sums, could help and are counted; links of
//! an axis that shards another dim carry as much for their own groups and cannot.
//!
//! The parts of an axis share its links, which count once; in the bounds of one part the others may lie as they help
//! most ([`parts`]).
//!
//! A mesh that is a product of rings, lines and switches has closed forms ([`regular`]), which take no time on any
//! number of devices; on other graphs least cuts are searched ([`irregular`]). The tests hold both against all sets and
//! all partitions of small graphs.
//!
//! Source: cuts of the mesh; ForestColl (arXiv 2402.06787) for gathers; Patarasuk and Yuan (2009) for the sends of an
//! AllReduce.

mod cuts;
pub mod demand;
mod flow;
pub mod graph;
pub mod irregular;
mod load;
mod metric;
mod partitions;
mod parts;
mod reason;
mod regular;

pub use reason::{Reason, Region};

use crate::collective::Collective;
use crate::layout::Layout;
use crate::topology::Topology;
use crate::units::Time;

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

/// A bound with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The bound.
    pub bound: Bound,
    /// What it counts.
    pub reason: Reason,
    /// Whether no set of devices and no partition gives more; otherwise it is a bound, and there may be a higher one.
    pub largest: bool,
}

/// The bound of one collective.
pub fn collective(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    if topology.mesh.views().next().is_some() {
        return parts::bound(collective, from, topology);
    }
    let regular = regular::bound(collective, from, topology);
    match on_graph(collective, from, topology) {
        Some(Certificate { bound: Bound { latency, bandwidth }, .. }) => {
            Bound { latency: latency.max(regular.latency), bandwidth: bandwidth.max(regular.bandwidth) }
        }
        None => regular,
    }
}

/// With more devices than this the degraded links of a machine are not looked at: the bound is that of a whole one.
const MOST_ON_GRAPH: usize = 64;

/// The bound on the links that are there, if some are not as they should be.
fn on_graph(collective: &Collective, from: &Layout, topology: &Topology) -> Option<Certificate> {
    let asked = topology.is_degraded() && topology.mesh.device_count() <= MOST_ON_GRAPH;
    asked.then(|| {
        let demand = demand::Demand::new(collective, from, &topology.mesh);
        irregular::certificate(&graph::Graph::of(topology), &demand, &topology.mesh, topology.scale)
    })
}

/// The bound of one collective, and what it counts.
pub fn certificate(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    if topology.mesh.views().next().is_some() {
        let bound = parts::bound(collective, from, topology);
        let reason = match bound.time() {
            Time::ZERO => Reason::Nothing,
            _ if bound.latency > bound.bandwidth => Reason::Hops,
            _ => Reason::Shared,
        };
        return Certificate { bound, reason, largest: bound.time() == Time::ZERO };
    }
    let regular = regular::certificate(collective, from, topology);
    match on_graph(collective, from, topology) {
        Some(found) if found.bound.time() >= regular.bound.time() => found,
        Some(_) | None => regular,
    }
}
