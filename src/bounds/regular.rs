//! Closed forms for meshes that are products of rings, lines, switches and full meshes with uniform links.
//!
//! The sets of devices tried are boxes: whole along some axes, and one coordinate, at an end of a line, along the
//! others. Along the axes of other groups a box is always whole.

mod together;

use super::demand::Roles;
use super::load::{Load, Units};
use super::reason::{Reason, Region};
use super::{Bound, Certificate};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::mesh::{AxisId, AxisSet, DeviceId, Wiring};
use crate::topology::Topology;
use crate::units::{Bytes, Time, gcd};
use itertools::Itertools;

/// Limit on axes; above it only the simplest boxes are tried.
const MANY: usize = 6;

/// The quantity of the heaviest load.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Nothing,
    /// Traffic into the box that is whole along these axes.
    Into(AxisSet),
    /// Traffic out of the box that is whole along these axes.
    OutOf(AxisSet),
    /// Traffic into all places but those of the box that is whole along these axes.
    AllBut(AxisSet),
    /// Traffic between all boxes that are whole along these axes.
    Between(AxisSet),
    /// Traffic on all links along the axis.
    Along(AxisId),
    /// Traffic into a device with the most links.
    Shard,
}

/// One collective on a regular mesh.
struct Regular<'a> {
    topology: &'a Topology,
    roles: Roles,
    /// The size of a group.
    n: u128,
    /// Number of copies of each group.
    replicas: u128,
    /// The common divisor of the rates of all axes.
    rate: u128,
    /// Pieces of the full array in one group.
    full: u128,
    /// The device of a group that holds everything, which is in no box.
    root: Option<DeviceId>,
}

/// The bound without its reason.
pub(super) fn bound(collective: &Collective, from: &Layout, topology: &Topology) -> Bound {
    match Regular::new(collective, from, topology) {
        Some(regular) => regular.bound(collective, from).0,
        None => Bound::default(),
    }
}

/// The bound and its reason.
pub(super) fn certificate(collective: &Collective, from: &Layout, topology: &Topology) -> Certificate {
    let Some(regular) = Regular::new(collective, from, topology) else {
        return Certificate { bound: Bound::default(), reason: Reason::Nothing, largest: true };
    };
    let (bound, counted, load) = regular.bound(collective, from);
    let reason =
        if bound.latency > bound.bandwidth { Reason::Hops } else { regular.reason(counted, load, regular.units(from)) };
    Certificate { bound, reason, largest: regular.largest(collective) }
}

/// The certificate, raised to the bounds that count hops and bytes together.
pub(super) fn raised(
    certificate: Certificate,
    collective: &Collective,
    from: &Layout,
    topology: &Topology,
) -> Certificate {
    match Regular::new(collective, from, topology) {
        Some(regular) => regular.raised(certificate, collective, from),
        None => certificate,
    }
}

impl<'a> Regular<'a> {
    /// The setup of one collective; `None` where nothing moves.
    fn new(collective: &Collective, from: &Layout, topology: &'a Topology) -> Option<Regular<'a>> {
        let mesh = &topology.mesh;
        let roles = Roles::new(collective, from, mesh);
        if roles.group.is_empty() || !collective.kind().sends() {
            return None;
        }
        let n = u128::from(roles.group.group_size(mesh));
        let replicas = u128::from(roles.idle.group_size(mesh));
        let rates = topology.axes.iter().map(|links| u128::from(links.one_way.per_second()));
        let full = match collective {
            Collective::AllGather { .. } | Collective::AllToAll { .. } | Collective::Permute { .. } => n * n,
            Collective::Reshard { .. }
            | Collective::Shift(_)
            | Collective::ReduceScatter { .. }
            | Collective::AllReduce { .. }
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => n,
        };
        let others = from.sharding.open.without(roles.group);
        let from_root = matches!(collective, Collective::Broadcast { .. });
        let root = from_root.then(|| mesh.with_rank(from.sharding.holder(), others.iter(), 0));
        Some(Regular { topology, roles, n, replicas, rate: rates.fold(0, gcd).max(1), full, root })
    }

    /// Splits each device's data into n pieces.
    fn units(&self, from: &Layout) -> Units {
        Units { bytes: u128::from(from.least_bytes(&self.topology.mesh).0), divisor: self.n, rate: self.rate }
    }

    fn bound(&self, collective: &Collective, from: &Layout) -> (Bound, Counted, Load) {
        let loads = self.loads(collective);
        // The first of several equal ones, which is the simplest.
        let heaviest = loads.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (load, counted) = heaviest.unwrap_or((Load::NONE, Counted::Nothing));
        let bandwidth = load.time(self.units(from), self.topology.scale);
        (Bound { latency: self.latency(collective), bandwidth, ..Bound::default() }, counted, load)
    }

    fn loads(&self, collective: &Collective) -> Vec<(Load, Counted)> {
        let boxes = || self.boxes().into_iter().filter(|whole| self.is_part(*whole));
        match collective {
            Collective::AllGather { .. } => boxes().map(|whole| self.gathered(whole)).collect(),
            Collective::ReduceScatter { .. } => {
                let out = boxes().filter(|whole| self.roles.idle.is_subset(*whole)).map(|whole| self.scattered(whole));
                let summed = boxes().map(|whole| self.summed(whole, self.places(whole)));
                out.chain(summed).chain(boxes().map(|whole| self.rest(whole))).collect()
            }
            Collective::AllReduce { .. } => {
                let parts = boxes().filter(|whole| self.roles.idle.is_subset(*whole)).map(|whole| self.sends(whole));
                parts.chain(boxes().map(|whole| self.summed(whole, self.n))).collect()
            }
            Collective::AllToAll { .. } => {
                let along = self.roles.group.iter().map(|axis| self.exchanged(axis));
                along.chain(boxes().map(|whole| self.taken(whole))).collect()
            }
            // Some device receives a whole shard.
            Collective::Permute { .. } => {
                let axes = self.roles.group.union(self.roles.idle).union(self.roles.other);
                let most = self.apart(axes).map(|axis| self.capacity_into_one(axis, true)).sum();
                vec![(Load::new(self.n, most), Counted::Shard)]
            }
            // A box without the root needs everything.
            Collective::Broadcast { .. } => boxes().map(|whole| self.summed(whole, self.n)).collect(),
            // See `parts.rs`.
            Collective::Reshard { .. } | Collective::Shift(_) => Vec::new(),
            Collective::Slice { .. } | Collective::Open { .. } => Vec::new(),
        }
    }

    /// The axis sets along which a box can be whole; the empty set first.
    fn boxes(&self) -> Vec<AxisSet> {
        let axes = self.roles.group.union(self.roles.idle);
        if axes.len() > MANY {
            return vec![AxisSet::NONE, self.roles.idle];
        }
        let mut boxes: Vec<AxisSet> = axes.subsets().chain([AxisSet::NONE]).collect();
        boxes.reverse();
        boxes
    }

    /// Whether the heaviest set is known to be a box: in an exchange copies could use odd halves.
    fn largest(&self, collective: &Collective) -> bool {
        // Replicas on the switch of the group change its boxes.
        let mixed = self.roles.group.union(self.roles.idle);
        let ports = |axes: AxisSet| self.apart(axes).count();
        let mixed = ports(mixed) < ports(self.roles.group) + ports(self.roles.idle);
        let few = self.roles.group.union(self.roles.idle).len() <= MANY && !mixed;
        match collective {
            Collective::AllGather { .. } | Collective::ReduceScatter { .. } => few,
            // Partitions that separate replicas may need more.
            Collective::AllReduce { .. } | Collective::AllToAll { .. } => few && self.roles.idle.is_empty(),
            Collective::Broadcast { .. } => few,
            Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => false,
            Collective::Slice { .. } | Collective::Open { .. } => true,
        }
    }

    /// Whether a box is smaller than its group.
    fn is_part(&self, whole: AxisSet) -> bool {
        !self.roles.group.is_subset(whole)
    }

    /// Places of the group in a box.
    fn places(&self, whole: AxisSet) -> u128 {
        u128::from(whole.intersection(self.roles.group).group_size(&self.topology.mesh))
    }

    /// Devices of one group in a box.
    fn devices(&self, whole: AxisSet) -> u128 {
        u128::from(whole.group_size(&self.topology.mesh))
    }

    /// A box needs all shards but its own.
    fn gathered(&self, whole: AxisSet) -> (Load, Counted) {
        let pieces = (self.n - self.places(whole)) * self.n;
        (Load::new(pieces, self.border(whole)), Counted::Into(whole))
    }

    /// A box with all replicas must send its part of every block but its own.
    fn scattered(&self, whole: AxisSet) -> (Load, Counted) {
        (Load::new(self.n - self.places(whole), self.border(whole)), Counted::OutOf(whole))
    }

    /// A box needs the other contributions to its blocks, reduced or not.
    fn summed(&self, whole: AxisSet, blocks: u128) -> (Load, Counted) {
        (Load::new(blocks, self.border(whole)), Counted::Into(whole))
    }

    /// All places but those of a box need its contributions to their blocks; of replicas only as many as in the box.
    fn rest(&self, whole: AxisSet) -> (Load, Counted) {
        let (places, replicas) = (self.places(whole), self.devices(whole) / self.places(whole));
        let one = |axes: AxisSet| {
            self.apart(axes.without(whole)).map(|axis| self.capacity_into_one(axis, false)).sum::<u128>()
        };
        let border = one(self.roles.group) * places + one(self.roles.idle) * (self.n - places);
        (Load::new(self.n - places, border * replicas), Counted::AllBut(whole))
    }

    /// 2(p-1) sends of every element between the p boxes of a group.
    fn sends(&self, whole: AxisSet) -> (Load, Counted) {
        let parts = self.n / self.places(whole);
        let cut = self.roles.group.without(whole);
        let capacity = self.apart(cut).map(|axis| self.total(axis) * self.n / self.size(axis) * self.replicas).sum();
        (Load::new(2 * (parts - 1) * self.n, capacity), Counted::Between(whole))
    }

    /// A box needs its part of every shard outside.
    fn taken(&self, whole: AxisSet) -> (Load, Counted) {
        let places = self.places(whole);
        (Load::new(places * (self.n - places), self.border(whole)), Counted::Into(whole))
    }

    /// The mean distance times the bytes over the links of the axis; replicas share the work.
    fn exchanged(&self, axis: AxisId) -> (Load, Counted) {
        let (share, of) = self.topology.links(axis).wiring.exchange_share(self.topology.mesh.size(axis));
        let capacity = u128::from(of) * self.one_way(axis) * self.replicas;
        (Load::new(self.n * u128::from(share), capacity), Counted::Along(axis))
    }

    /// The capacity into, or out of, a box, along the axes of the group and of its replicas.
    fn border(&self, whole: AxisSet) -> u128 {
        let axes = self.roles.group.union(self.roles.idle).without(whole);
        self.apart(axes).map(|axis| self.capacity_into_one(axis, false)).sum::<u128>() * self.devices(whole)
    }

    /// One of these axes per link kind: axes on one switch share its ports, which count once.
    fn apart(&self, axes: AxisSet) -> impl Iterator<Item = AxisId> + '_ {
        let port = |axis: AxisId| self.topology.links(axis).port;
        let is_first =
            move |axis: AxisId| axes.iter().take_while(|other| *other != axis).all(|other| port(other) != port(axis));
        axes.iter().filter(move |axis| is_first(*axis))
    }

    fn size(&self, axis: AxisId) -> u128 {
        u128::from(self.topology.mesh.size(axis))
    }

    fn one_way(&self, axis: AxisId) -> u128 {
        u128::from(self.topology.links(axis).one_way.per_second()) / self.rate
    }

    /// Links into one device along the axis: on a line, at an end or in the middle.
    fn links_into_one(&self, axis: AxisId, middle: bool) -> u64 {
        let (wiring, size) = (self.topology.links(axis).wiring, self.topology.mesh.size(axis));
        if middle { wiring.most_links(size) } else { wiring.fewest_links(size) }
    }

    fn capacity_into_one(&self, axis: AxisId, middle: bool) -> u128 {
        u128::from(self.links_into_one(axis, middle)) * self.one_way(axis)
    }

    /// Links of one ring, line or switch; of a switch the ports out.
    fn links_along(&self, axis: AxisId) -> u64 {
        self.topology.links(axis).wiring.all_links(self.topology.mesh.size(axis))
    }

    fn total(&self, axis: AxisId) -> u128 {
        u128::from(self.links_along(axis)) * self.one_way(axis)
    }

    fn latency(&self, collective: &Collective) -> Time {
        let axes = self.roles.group.iter();
        match collective {
            Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => {
                axes.map(|axis| self.topology.links(axis).hop_latency).min().unwrap_or_default()
            }
            Collective::AllGather { .. }
            | Collective::ReduceScatter { .. }
            | Collective::AllReduce { .. }
            | Collective::AllToAll { .. }
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => self.apart(self.roles.group).map(|axis| self.reach(axis)).sum(),
        }
    }

    /// The time of an empty message between the most distant devices along the axis, or from the root.
    fn reach(&self, axis: AxisId) -> Time {
        let mesh = &self.topology.mesh;
        let from = self.root.map(|root| u64::from(mesh.coordinate(root, axis)));
        self.topology.links(axis).reach(mesh.size(axis), from)
    }

    fn reason(&self, counted: Counted, load: Load, units: Units) -> Reason {
        let mesh = &self.topology.mesh;
        let both = self.roles.group.union(self.roles.idle);
        match counted {
            Counted::Nothing => Reason::Nothing,
            Counted::Into(whole) => Reason::Into(self.region(whole, load, units)),
            Counted::OutOf(whole) => Reason::OutOf(self.region(whole, load, units)),
            Counted::AllBut(whole) => Reason::Into(self.region_without(whole, load, units)),
            Counted::Between(whole) => {
                let parts = u64::try_from(self.n / self.places(whole)).unwrap_or(u64::MAX);
                let outside = |axis: AxisId| both.group_size(mesh) / mesh.size(axis);
                let links = self.apart(self.roles.group.without(whole));
                let links = links.map(|axis| self.links_along(axis) * outside(axis)).sum();
                Reason::Between { sends: 2 * (parts - 1), parts, single: self.devices(whole) == 1, links }
            }
            Counted::Along(axis) => {
                let each = Load { pieces: load.pieces.saturating_mul(self.one_way(axis)), ..load };
                let name = &mesh.axis(axis).name;
                Reason::Along { links: format!("the links along {name}"), each: bytes(each, units) }
            }
            Counted::Shard => {
                let links = self.apart(both.union(self.roles.other)).map(|axis| self.links_into_one(axis, true)).sum();
                let bytes = bytes(Load::new(self.n, 1), units);
                let devices = "some device".to_owned();
                Reason::Into(Region { devices, single: true, bytes, share: None, links })
            }
        }
    }

    /// The box that is whole along these axes.
    fn region(&self, whole: AxisSet, load: Load, units: Units) -> Region {
        let mesh = &self.topology.mesh;
        let fixed = self.roles.group.union(self.roles.idle).without(whole);
        let ends = fixed.iter().any(|axis| self.topology.links(axis).wiring == Wiring::Line && mesh.size(axis) > 2);
        let (place, devices) = (self.place(fixed), self.devices(whole));
        let name = match (devices, self.root) {
            (1, Some(DeviceId(0))) if !ends => "each device but the first".to_owned(),
            (1, Some(root)) if !ends => {
                format!("each device but that at {}", self.at(fixed, |axis| mesh.coordinate(root, axis)))
            }
            (1, None) if !ends => "each device".to_owned(),
            (1, _) => format!("the device at {place}"),
            _ => format!("the {devices} devices at {place}"),
        };
        let links = self.apart(fixed).map(|axis| self.links_into_one(axis, false)).sum::<u64>();
        self.with_share(name, devices, u128::from(links) * devices, load, units)
    }

    /// All places but the box that is whole along these axes, with the replicas of the box.
    fn region_without(&self, whole: AxisSet, load: Load, units: Units) -> Region {
        let (places, replicas) = (self.places(whole), self.devices(whole) / self.places(whole));
        let [group, idle] = [self.roles.group, self.roles.idle].map(|axes| axes.without(whole));
        let devices = (self.n - places) * replicas;
        let but = self.place(group);
        let name = match idle.is_empty() {
            true => format!("the {devices} devices not at {but}"),
            false => format!("the {devices} devices at {} but not at {but}", self.place(idle)),
        };
        let links =
            |axes: AxisSet| self.apart(axes).map(|axis| u128::from(self.links_into_one(axis, false))).sum::<u128>();
        let border = links(group) * places + links(idle) * (self.n - places);
        self.with_share(name, devices, border * replicas, load, units)
    }

    /// Formats `X=0, Y=0`.
    fn place(&self, axes: AxisSet) -> String {
        let mesh = &self.topology.mesh;
        let last = |axis: AxisId| mesh.axis(axis).size - 1;
        // The other end, if the root is at one.
        self.at(axes, |axis| match self.root {
            Some(root) if mesh.coordinate(root, axis) < last(axis) => last(axis),
            Some(_) | None => 0,
        })
    }

    fn at(&self, axes: AxisSet, coordinate: impl Fn(AxisId) -> u32) -> String {
        let name = |axis: AxisId| &self.topology.mesh.axis(axis).name;
        axes.iter().map(|axis| format!("{}={}", name(axis), coordinate(axis))).join(", ")
    }

    fn with_share(&self, name: String, devices: u128, links: u128, load: Load, units: Units) -> Region {
        let divisor = gcd(load.pieces, self.full).max(1);
        Region {
            devices: name,
            single: devices == 1,
            bytes: bytes(Load { capacity: 1, ..load }, units),
            share: Some((load.pieces / divisor, self.full / divisor)),
            links: u64::try_from(links).unwrap_or(u64::MAX),
        }
    }
}

/// Pieces over capacity as bytes, rounded down.
fn bytes(load: Load, units: Units) -> Bytes {
    let above = load.pieces.saturating_mul(units.bytes);
    let below = load.capacity.saturating_mul(units.divisor).max(1);
    Bytes(u64::try_from(above / below).unwrap_or(u64::MAX))
}
