//! What no schedule can beat: lower bounds from the layouts and the links alone.
//!
//! Nothing here knows a method. One definition stands behind all: the bytes that a set of devices needs and nobody in
//! it holds, all groups at once, over the capacity of the links into the set ([`demand`]). To it come the 2(p-1)
//! sends of an AllReduce between p parts of a group (`partitions.rs`), and the bytes times the hops of what is moved
//! (`metric.rs`). Where messages leave by engines, these are busy for all sends together (`engines.rs`). Each latency bound
//! counts hops.
//!
//! Links of an idle axis, one that neither shards the array nor holds open sums, could help and are counted; links of
//! an axis that shards another dim carry as much for their own groups and cannot.
//!
//! Loads that add up over several collectives are in [`crossing`].
//!
//! A mesh that is a product of rings, lines and switches has closed forms (`regular.rs`), which take no time on any
//! number of devices; on other graphs of up to [`irregular::MOST_DEVICES`] least cuts are searched, and up to 16, where
//! these may miss the heaviest set, all sets are tried (`sets.rs`). The tests hold both
//! against all sets and all partitions of small graphs. Where axes are parts of longer ones and there are too many
//! devices for a search, the bound is lower than it could be (`parts.rs`), and says so.
//!
//! Source: cuts of the mesh; ForestColl (arXiv 2402.06787) for gathers; Patarasuk and Yuan (2009) for the sends of an
//! AllReduce.

pub mod crossing;
mod cuts;
pub mod demand;
mod engines;
pub mod graph;
pub mod irregular;
mod load;
mod metric;
mod partitions;
mod parts;
mod reason;
mod regular;
mod sets;

pub use reason::{Reason, Region};

use crate::collective::{Collective, CollectiveKind};
use crate::layout::Layout;
use crate::mesh::AxisSet;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use demand::{Demand, Roles};
use graph::Graph;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

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

impl Certificate {
    /// What the bound counts, for people; none where nothing is sent. A bound that may not be the highest says so.
    pub fn words(&self) -> Option<String> {
        match &self.reason {
            Reason::Nothing => None,
            reason if self.largest => Some(reason.to_string()),
            reason => Some(format!("{reason}; the bound could be higher")),
        }
    }
}

/// The bound of one collective in little time: by closed forms, or where links are degraded or shared by least cuts. It
/// may be below that of [`certificate`] there, and where axes are parts of the axes of the machine.
pub fn collective(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    let links = match Shape::of(topology) {
        _ if matches!(collective, Collective::Reshard { .. }) => by_cells(collective, from, topology).bound,
        Shape::Regular => regular::bound(collective, from, topology),
        Shape::Degraded | Shape::Shared => {
            let demand = Demand::new(collective, from, &topology.mesh);
            irregular::bound(&Graph::of(topology), &demand, topology.scale)
        }
        Shape::Graph | Shape::Rest => parts::bound(collective, from, topology),
    };
    let bound = engines::bound(links, collective, from, topology);
    if adds(collective, from, topology) { halved(bound) } else { bound }
}

/// Whether a switch may add what an AllReduce adds. Then what each device sends need not come back from each, and half of
/// the bound is left: devices have to hear of each other's blocks.
fn adds(collective: &Collective, from: &Layout, topology: &Topology) -> bool {
    let Collective::AllReduce { axes } = collective else { return false };
    let wide = axes.iter().filter(|axis| topology.mesh.size(*axis) > 1);
    wide.into_iter().any(|axis| topology.switch_sum([axis], from.dtype).is_some())
}

fn halved(bound: Bound) -> Bound {
    let half = |time: Time| Time::from_ticks(time.ticks() / 2);
    Bound { latency: half(bound.latency), bandwidth: half(bound.bandwidth) }
}

/// The bounds of many collectives on one machine, as [`collective`] has them; of those that are alike it is found once.
#[derive(Debug)]
pub struct Bounds<'a> {
    topology: &'a Topology,
    /// Whether what moves does not matter, but which axes take part.
    regular: bool,
    known: RefCell<FxHashMap<Alike, Bound>>,
}

/// What bounds depend on: the kind, the axes that take part and those that could help, the bytes of a device, and whether
/// a switch may add them.
type Alike = (CollectiveKind, AxisSet, AxisSet, Bytes, bool);

impl<'a> Bounds<'a> {
    /// Of this machine.
    pub fn new(topology: &'a Topology) -> Bounds<'a> {
        let regular = matches!(Shape::of(topology), Shape::Regular);
        Bounds { topology, regular, known: RefCell::default() }
    }

    /// See [`collective`].
    pub fn collective(&self, collective: &Collective, from: &Layout) -> Bound {
        // Where links differ it counts who sends to whom.
        let by_whom = matches!(collective, Collective::Permute { .. }) && !self.regular;
        if by_whom || matches!(collective, Collective::Reshard { .. }) {
            return self::collective(collective, from, self.topology);
        }
        let mesh = &self.topology.mesh;
        let Roles { group, idle, .. } = Roles::new(collective, from, mesh);
        let adds = adds(collective, from, self.topology);
        let key = (collective.kind(), group, idle, from.local_bytes(mesh), adds);
        let found = || self::collective(collective, from, self.topology);
        *self.known.borrow_mut().entry(key).or_insert_with(found)
    }
}

/// The bound of one collective, and what it counts.
pub fn certificate(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    let certificate = engines::certificate(by_links(collective, from, topology), collective, from, topology);
    match adds(collective, from, topology) {
        true => Certificate { bound: halved(certificate.bound), reason: Reason::Added, largest: false },
        false => certificate,
    }
}

/// What the links allow.
fn by_links(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    match Shape::of(topology) {
        _ if matches!(collective, Collective::Reshard { .. }) => by_cells(collective, from, topology),
        Shape::Regular => {
            let certificate = regular::certificate(collective, from, topology);
            Certificate { largest: certificate.largest && !(topology.is_degraded() || shares(topology)), ..certificate }
        }
        Shape::Graph | Shape::Degraded | Shape::Shared => {
            let demand = Demand::new(collective, from, &topology.mesh);
            irregular::certificate(&Graph::of(topology), &demand, &topology.machine, topology.scale)
        }
        Shape::Rest => parts::certificate(collective, from, topology),
    }
}

/// The bound of a move from any sharding to any other: by the cells that go, where these and the devices are few.
fn by_cells(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    let mesh = &topology.mesh;
    let whole = topology.axes.iter().all(|links| links.apart == 1);
    let Collective::Reshard { to, .. } = collective else { return parts::certificate(collective, from, topology) };
    let cells = collective.cells(&from.sharding, to, mesh).count();
    if !whole || mesh.device_count() > irregular::MOST_DEVICES || cells > MOST_CELLS {
        return parts::certificate(collective, from, topology);
    }
    let demand = Demand::new(collective, from, mesh);
    irregular::certificate(&Graph::of(topology), &demand, &topology.machine, topology.scale)
}

/// More cells than these are not looked at one by one.
const MOST_CELLS: u64 = 1 << 12;

/// How the bounds of a machine are found.
enum Shape {
    /// No axis is in parts.
    Regular,
    /// Some links of a small machine are down or slow. Of a large one they are not looked at: its bound is that of the
    /// whole machine.
    Degraded,
    /// The devices of a node share links, and the machine is small; in a large one each counts as if it had its own.
    Shared,
    /// Anything else of which all links are known and few.
    Graph,
    /// What is left.
    Rest,
}

impl Shape {
    fn of(topology: &Topology) -> Shape {
        let whole = topology.axes.iter().all(|links| links.apart == 1);
        if whole && topology.is_degraded() && topology.machine.device_count() <= irregular::MOST_DEVICES {
            Shape::Degraded
        } else if whole && shares(topology) && topology.machine.device_count() <= irregular::MOST_DEVICES {
            Shape::Shared
        } else if whole && topology.mesh.views().next().is_none() {
            Shape::Regular
        } else if whole && topology.machine.device_count() <= irregular::MOST_DEVICES {
            Shape::Graph
        } else {
            Shape::Rest
        }
    }
}

/// Whether devices of a node share links.
fn shares(topology: &Topology) -> bool {
    topology.machine.axis_ids().any(|axis| topology.is_shared(axis))
}
