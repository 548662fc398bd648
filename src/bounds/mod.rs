//! Lower bounds on communication time, from layouts and links alone.
//!
//! Bounds are independent of methods. All follow from one definition: the bytes that a set of devices needs and no
//! member holds, over all groups at once, divided by the capacity of the links into the set ([`demand`]). Further
//! bounds count the 2(p-1) sends of an AllReduce between p parts of a group (`partitions.rs`), bytes times hops of
//! moved data (`metric.rs`), and the sends of engines (`engines.rs`). Latency bounds count hops,
//! and some bounds hops and bytes together (`regular/together.rs`).
//!
//! Links of an idle axis, which neither shards the array nor holds open sums, count as usable. Links of an axis that
//! shards another dim carry the same load for their own groups and do not.
//!
//! [`crossing`] has the loads that add up over several collectives.
//!
//! A mesh that is a product of rings, lines, switches and full meshes has closed forms (`regular.rs`), which cost nothing at any
//! size. On other graphs of up to [`irregular::MOST_DEVICES`] devices minimum cuts are searched; up to 16 devices,
//! where cuts may miss the heaviest set, all sets are tried (`sets.rs`). On larger fabrics, sets of devices that are near
//! each other are tried (`nearby.rs`). The tests check both against all sets and
//! all partitions of small graphs. Where axes are parts of longer ones and there are too many devices for a search,
//! the bound may be lower than the best one (`parts.rs`), and is marked so.
//!
//! Sources: cuts of the mesh; ForestColl (arXiv 2402.06787) for gathers; Patarasuk and Yuan (2009) for the sends of an
//! AllReduce.

pub mod crossing;
mod cuts;
pub mod demand;
mod engines;
pub mod graph;
pub mod irregular;
mod load;
mod metric;
mod nearby;
mod partitions;
mod parts;
mod reason;
mod regular;
mod sets;

pub use reason::{Reason, Region};

use crate::collective::Loads;
use crate::collective::{Collective, CollectiveKind};
use crate::layout::Layout;
use crate::mesh::{AxisSet, DeviceId};
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use demand::{Demand, Roles};
use graph::Graph;
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};

/// Lower bound on the time of a collective on an array of layout `from`, by component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Time of unavoidable hops.
    pub latency: Time,
    /// Time of unavoidable bytes.
    pub bandwidth: Time,
    /// Time of hops and bytes together; zero where this is not known.
    pub together: Time,
}

impl Bound {
    /// The largest of them.
    pub fn time(self) -> Time {
        self.latency.max(self.bandwidth).max(self.together)
    }
}

/// A bound with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The bound.
    pub bound: Bound,
    /// The quantity it counts.
    pub reason: Reason,
    /// Whether it is proven the highest over all sets and partitions; otherwise a higher bound may exist.
    pub largest: bool,
}

impl Certificate {
    /// Explains the bound and whether a higher one may exist; `None` if nothing is sent.
    pub fn words(&self) -> Option<String> {
        match &self.reason {
            Reason::Nothing => None,
            reason if self.largest => Some(reason.to_string()),
            reason => Some(format!("{reason}; the best bound may be higher")),
        }
    }
}

/// A fast bound of one collective: closed forms, or minimum cuts where links are degraded or shared. It may be below
/// [`certificate`] there, where mesh axes are parts of machine axes, and where hops and bytes take about as long.
pub fn collective(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    bound_on(&OnceCell::new(), collective, from, topology)
}

/// - `graph`: the machine as a graph, if known.
fn bound_on(graph: &OnceCell<Graph>, collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    let graph = || graph.get_or_init(|| Graph::of(topology));
    let links = match Shape::of(topology) {
        _ if is_by_cells(collective, from) => match by_cells(collective, from, topology) {
            Some(demand) => irregular::bound(graph(), &demand, topology.scale),
            None => parts::bound(collective, from, topology),
        },
        Shape::Regular => regular::bound(collective, from, topology),
        Shape::Degraded | Shape::Shared => {
            let demand = Demand::new(collective, from, &topology.mesh);
            irregular::bound(graph(), &demand, topology.scale)
        }
        Shape::Graph | Shape::Rest => parts::bound(collective, from, topology),
    };
    let bound = engines::bound(links, collective, from, topology);
    if adds(collective, from, topology) { halved(bound) } else { bound }
}

/// Whether a switch may reduce an AllReduce. Each device then sends its data once, which halves the bound; devices
/// still need each other's blocks.
fn adds(collective: &Collective, from: &Layout, topology: &Topology) -> bool {
    let Collective::AllReduce { axes } = collective else { return false };
    let wide = axes.iter().filter(|axis| topology.mesh.size(*axis) > 1);
    wide.into_iter().any(|axis| topology.switch_sum([axis], from.dtype).is_some())
}

fn halved(bound: Bound) -> Bound {
    let half = |time: Time| Time::from_ticks(time.ticks() / 2);
    Bound { latency: half(bound.latency), bandwidth: half(bound.bandwidth), ..bound }
}

/// Cached bounds of many collectives on one machine, as [`collective`] computes them.
#[derive(Debug)]
pub struct Bounds<'a> {
    topology: &'a Topology,
    /// Whether the bound depends on the participating axes only.
    regular: bool,
    /// The machine as a graph.
    graph: OnceCell<Graph>,
    known: RefCell<FxHashMap<Alike, Bound>>,
    /// Bounds of moves that depend on more than that.
    moves: RefCell<FxHashMap<(Collective, Layout), Bound>>,
}

/// Cache key: the kind, the participating and idle axes, the device with the array of a root and its axes, the bytes per
/// device, and whether a switch may reduce.
type Alike = (CollectiveKind, AxisSet, AxisSet, Option<(DeviceId, AxisSet)>, Bytes, bool);

impl<'a> Bounds<'a> {
    /// Creates an empty cache for this machine.
    pub fn new(topology: &'a Topology) -> Bounds<'a> {
        let regular = matches!(Shape::of(topology), Shape::Regular);
        Bounds { topology, regular, graph: OnceCell::new(), known: RefCell::default(), moves: RefCell::default() }
    }

    /// See [`collective`].
    pub fn collective(&self, collective: &Collective, from: &Layout) -> Bound {
        // With irregular links, the bound of a permutation depends on its pairs.
        let by_whom = matches!(collective, Collective::Permute { .. }) && !self.regular;
        if by_whom || is_by_cells(collective, from) {
            let key = (collective.clone(), from.clone());
            let found = || bound_on(&self.graph, collective, from, self.topology);
            return *self.moves.borrow_mut().entry(key).or_insert_with(found);
        }
        let mesh = &self.topology.mesh;
        let Roles { group, idle, .. } = Roles::new(collective, from, mesh);
        let adds = adds(collective, from, self.topology);
        let root = from.sharding.operator.is_root().then(|| (from.sharding.holder(), from.sharding.open));
        let key = (collective.kind(), group, idle, root, from.least_bytes(mesh), adds);
        let found = || bound_on(&self.graph, collective, from, self.topology);
        *self.known.borrow_mut().entry(key).or_insert_with(found)
    }
}

/// The bound of one collective, and what it counts.
pub fn certificate(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    let certificate = by_hops_or_bytes(collective, from, topology);
    match Shape::of(topology) {
        Shape::Regular if !is_by_cells(collective, from) && !adds(collective, from, topology) => {
            regular::raised(certificate, collective, from, topology)
        }
        _ => certificate,
    }
}

/// As [`certificate`], but hops and bytes are not counted together: of an AllGather that is one operation, without messages.
pub fn by_hops_or_bytes(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    let certificate = engines::certificate(by_links(collective, from, topology), collective, from, topology);
    match adds(collective, from, topology) {
        true => Certificate { bound: halved(certificate.bound), reason: Reason::Added, largest: false },
        false => certificate,
    }
}

/// The bound from links.
fn by_links(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    match Shape::of(topology) {
        _ if is_by_cells(collective, from) => match by_cells(collective, from, topology) {
            Some(demand) => irregular::certificate(&Graph::of(topology), &demand, &topology.machine, topology.scale),
            None => parts::certificate(collective, from, topology),
        },
        Shape::Regular => {
            let certificate = regular::certificate(collective, from, topology);
            Certificate {
                largest: certificate.largest && !(topology.is_irregular() || shares(topology)),
                ..certificate
            }
        }
        Shape::Graph | Shape::Degraded | Shape::Shared => {
            let demand = Demand::new(collective, from, &topology.mesh);
            irregular::certificate(&Graph::of(topology), &demand, &topology.machine, topology.scale)
        }
        Shape::Rest => parts::certificate(collective, from, topology),
    }
}

/// Whether devices receive unequal parts of blocks.
fn is_by_cells(collective: &Collective, from: &Layout) -> bool {
    let has_loads = || matches!(collective, Collective::AllToAll { .. }) && from.loads().is_some();
    matches!(collective, Collective::Reshard { .. } | Collective::Shift(_)) || has_loads()
}

/// The cells that a move between any two shardings, or along a dim, moves between which devices; `None` if these or the
/// devices are many.
fn by_cells(collective: &Collective, from: &Layout, topology: &Topology) -> Option<Demand> {
    let mesh = &topology.mesh;
    let whole = topology.axes.iter().all(|links| links.apart == 1);
    let cells = || match collective {
        Collective::Reshard { to, .. } => collective.cells(&from.sharding, to, mesh).count(),
        Collective::AllToAll { axes, .. } => axes.group_size(mesh).saturating_pow(2),
        _ => 1,
    };
    if whole && Loads::of(collective, from, mesh).is_some() {
        return Some(Demand::new(collective, from, mesh));
    }
    let is_small = whole && mesh.device_count() <= irregular::MOST_DEVICES && cells() <= MOST_CELLS;
    is_small.then(|| Demand::new(collective, from, mesh))
}

/// Limit on individually counted cells.
const MOST_CELLS: u64 = 1 << 12;

/// How the bounds of a machine are found.
enum Shape {
    /// No axis is in parts.
    Regular,
    /// A fabric wires the machine, or some links of a small one are degraded or down. A large one uses the bound of the
    /// intact machine.
    Degraded,
    /// Devices of a node share links, on a small machine; a large one counts each device's links as its own.
    Shared,
    /// Any other small machine, with all links known.
    Graph,
    /// Axes in parts on a large machine.
    Rest,
}

impl Shape {
    fn of(topology: &Topology) -> Shape {
        let whole = topology.axes.iter().all(|links| links.apart == 1);
        let is_small = topology.machine.device_count() <= irregular::MOST_DEVICES;
        if topology.fabric().is_some() || whole && topology.is_irregular() && is_small {
            Shape::Degraded
        } else if whole && shares(topology) && is_small {
            Shape::Shared
        } else if whole && topology.mesh.views().next().is_none() {
            Shape::Regular
        } else if whole && is_small {
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

#[cfg(test)]
mod tests {
    use super::Bounds;
    use crate::collective::Collective;
    use crate::compiler::{self, Options};
    use crate::mesh::AxisSet;

    /// On a line, a broadcast from the middle has a lower bound than one from an end, in whatever order they are computed.
    #[test]
    fn known_bounds_are_those_of_the_same_root() {
        let source = "mesh {X: 5 line, Y: 2} on tpu_v5e\ndims {I: 8}\nA: bf16[I]{ROOT_X}\nB: bf16[I]{ROOT_X=2}\n\
                      C[I] = A\nD[I] = B\noutput C, D\n";
        let program = compiler::check(source).0.expect("a program");
        let topology = compiler::machine(&program, &Options::default()).expect("a machine");
        let plan = compiler::plan(&program, &topology, &Options::default()).expect("a plan");
        let roots =
            plan.ids().map(|id| plan.step(id).layout.clone()).filter(|layout| layout.sharding.operator.is_root());
        let mut roots: Vec<_> = roots.collect();
        let axis = program.mesh.axis_ids().next().expect("an axis");
        let moved = Collective::Broadcast { axes: AxisSet::one(axis) };
        for _ in 0..2 {
            let bounds = Bounds::new(&topology);
            let known: Vec<_> = roots.iter().map(|from| bounds.collective(&moved, from)).collect();
            let direct: Vec<_> = roots.iter().map(|from| super::collective(&moved, from, &topology)).collect();
            assert_eq!(known, direct);
            assert!(known[0].latency != known[1].latency, "{known:?}");
            roots.reverse();
        }
    }
}
