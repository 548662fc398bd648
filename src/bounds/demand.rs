//! The data a collective must deliver: the definition from which all bounds on sets of devices follow.

use crate::collective::{Collective, Loads};
use crate::layout::Layout;
use crate::mesh::{AxisSet, DeviceId, Mesh};
use crate::shift::{self, Shift};
use itertools::Itertools;
use std::collections::BTreeMap;

/// A piece of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The holders of each contribution. Data that is only moved has one contribution.
    pub contributions: Vec<Vec<usize>>,
    /// The devices that need it.
    pub needers: Vec<usize>,
    /// Its size, as a multiple of the size of all pieces of a demand; at least 1.
    pub weight: u64,
}

impl Piece {
    /// Whether the piece must enter a set: a device in it needs the piece, and some contribution has no holder in it.
    pub fn must_enter(&self, inside: &[bool]) -> bool {
        self.needers.iter().any(|device| inside[*device])
            && self.contributions.iter().any(|holders| !holders.iter().any(|device| inside[*device]))
    }
}

/// All pieces of a collective in all its groups, of equal size up to their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Numerator of the piece size: a piece has `bytes / divisor` bytes.
    pub bytes: u128,
    /// Denominator of the piece size.
    pub divisor: u128,
    /// The pieces.
    pub pieces: Vec<Piece>,
    /// Devices by position in the group: one set per position, over all groups and replicas.
    pub places: Vec<Vec<usize>>,
    /// Devices by position in the group, replicas apart.
    pub ranks: Vec<Vec<usize>>,
    /// Number of groups.
    pub groups: usize,
    /// Whether every device needs the whole sum: then each piece takes 2(p-1) sends between p parts of a group.
    pub reduces_to_all: bool,
    /// Bytes of the full array in one group: the result of a gather, the input of a reduction.
    pub full: u128,
}

/// The mesh axes by their role in a collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roles {
    /// Axes of the collective.
    pub(super) group: AxisSet,
    /// Replicated axes.
    pub(super) idle: AxisSet,
    /// Axes of other groups, with other data.
    pub(super) other: AxisSet,
}

impl Roles {
    pub(super) fn new(collective: &Collective, from: &Layout, mesh: &Mesh) -> Roles {
        let long = |set: AxisSet| -> AxisSet { set.iter().filter(|axis| mesh.size(*axis) > 1).collect() };
        let group = long(collective.axes(&from.sharding, mesh));
        let all = long(mesh.axis_ids().collect());
        let idle = all.without(from.sharding.used()).without(group);
        Roles { group, idle, other: all.without(idle).without(group) }
    }
}

/// The extent of a block that is shifted, and a number of rows that are counted together, so that there are few pieces. Rows
/// beyond whole pieces are not counted.
fn in_units(from: &Layout, mesh: &Mesh, shift: Shift) -> (u64, u64) {
    let extent = from.local_extents(mesh).get(shift.dim()).copied().unwrap_or(1).max(1);
    let sent: Vec<u64> =
        shift.parts(extent).filter(|part| part.blocks > 0).map(|part| part.from.end - part.from.start).collect();
    let unit = match sent[..] {
        [only] => only,
        _ => extent / MOST_PIECES,
    };
    (extent, unit.max(1))
}

/// Most pieces of a shifted block.
const MOST_PIECES: u64 = 16;

impl Demand {
    /// The demand of a collective on an array of layout `from`.
    pub fn new(collective: &Collective, from: &Layout, mesh: &Mesh) -> Demand {
        let roles = Roles::new(collective, from, mesh);
        let n = roles.group.group_size(mesh);
        let local = u128::from(from.least_bytes(mesh).0);
        // The blocks of a shifted dim are in the order of its axes.
        let order = match collective {
            Collective::Shift(shift) => from.sharding.dims[shift.dim()],
            _ => roles.group.in_order(),
        };
        let rank = |device: DeviceId| mesh.rank(device, order.iter());
        let other = |device: DeviceId| mesh.rank(device, roles.other.iter());
        let mut by_place: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut by_rank: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        let mut by_group: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for device in mesh.devices() {
            by_place.entry((other(device), rank(device))).or_default().push(device.index());
            places.entry(rank(device)).or_default().push(device.index());
            by_rank.entry((rank(device), mesh.rank(device, roles.idle.iter()))).or_default().push(device.index());
            by_group.entry(other(device)).or_default().push(device.index());
        }
        let at = |group: u64, rank: u64| by_place[&(group, rank)].clone();
        let everyone = |group: u64| -> Vec<Vec<usize>> { (0..n).map(|rank| at(group, rank)).collect() };
        // Of the array of a root, groups without it have nothing.
        let has = |device: &usize| u32::try_from(*device).is_ok_and(|at| from.sharding.is_on(DeviceId(at), mesh));
        let groups = by_group.iter().filter(|(_, devices)| devices.iter().any(has)).map(|(group, _)| *group);
        let weighted =
            |holders: Vec<usize>, needers: Vec<usize>, weight| Piece { contributions: vec![holders], needers, weight };
        let moved = |holders: Vec<usize>, needers: Vec<usize>| weighted(holders, needers, 1);
        let loads = Loads::of(collective, from, mesh);
        let pairs = || groups.clone().flat_map(|group| (0..n).map(move |rank| (group, rank)));
        let pieces: Vec<Piece> = match collective {
            Collective::AllGather { .. } => {
                pairs().map(|(group, rank)| moved(at(group, rank), by_group[&group].clone())).collect()
            }
            Collective::ReduceScatter { .. } => pairs()
                .map(|(group, rank)| Piece { contributions: everyone(group), needers: at(group, rank), weight: 1 })
                .collect(),
            Collective::AllReduce { .. } => groups
                .clone()
                .map(|group| Piece { contributions: everyone(group), needers: by_group[&group].clone(), weight: 1 })
                .collect(),
            Collective::AllToAll { .. } if loads.is_none() => pairs()
                .flat_map(|(group, source)| (0..n).map(move |to| (group, source, to)))
                .filter(|(_, source, to)| source != to)
                .map(|(group, source, to)| moved(at(group, source), at(group, to)))
                .collect(),
            Collective::Permute { to } => {
                let shard = |sharding: &crate::layout::Sharding, device: DeviceId| -> Vec<u64> {
                    let open = mesh.rank(device, sharding.open.iter());
                    sharding.dims.iter().map(|axes| mesh.rank(device, axes.iter())).chain([open]).collect()
                };
                let mut shards: BTreeMap<Vec<u64>, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
                for device in mesh.devices().filter(|device| from.sharding.is_on(*device, mesh)) {
                    shards.entry(shard(&from.sharding, device)).or_default().0.push(device.index());
                    shards.entry(shard(to, device)).or_default().1.push(device.index());
                }
                shards.into_values().map(|(holders, needers)| moved(holders, needers)).collect()
            }
            Collective::AllToAll { .. } | Collective::Reshard { .. } => {
                let to = collective.apply(&from.sharding, mesh).unwrap_or_default();
                let cells = collective.cells(&from.sharding, &to, mesh);
                let those = |group: u64, has: &dyn Fn(usize) -> bool| -> Vec<usize> {
                    let ranks = (0..n).filter(|rank| has(usize::try_from(*rank).expect("a rank")));
                    ranks.flat_map(|rank| at(group, rank)).collect()
                };
                let of = |(group, number): (u64, u64)| {
                    let cell = cells.cell(number);
                    let holders = those(group, &|rank| cells.before.has(rank, &cell));
                    let needers = those(group, &|rank| cells.after.has(rank, &cell));
                    let first = holders.first().and_then(|device| u32::try_from(*device).ok()).unwrap_or_default();
                    let weight = loads.as_ref().map_or(1, |loads| loads.in_cell(DeviceId(first), &cell, mesh));
                    weighted(holders, needers, weight)
                };
                let numbers = |group| (0..cells.count()).map(move |number| (group, number));
                let pieces = groups.clone().flat_map(numbers).map(of);
                let is_sent = |piece: &Piece| {
                    piece.weight > 0 && piece.needers.iter().any(|at| !piece.contributions[0].contains(at))
                };
                pieces.filter(is_sent).collect()
            }
            Collective::Broadcast { .. } => {
                let root = from.sharding.root_along(roles.group.in_order(), mesh).unwrap_or_default();
                groups.clone().map(|group| moved(at(group, root), by_group[&group].clone())).collect()
            }
            Collective::Shift(shift) => {
                let (extent, unit) = in_units(from, mesh, *shift);
                let sent = |(group, part): (u64, shift::Part)| {
                    let count = (part.from.end - part.from.start) / unit;
                    let pairs = shift.pairs(part.blocks, n).into_iter();
                    pairs.flat_map(move |(from, to)| (0..count).map(move |_| (group, from, to)))
                };
                let parts = groups.clone().cartesian_product(shift.parts(extent).collect::<Vec<_>>()).flat_map(sent);
                parts.map(|(group, from, to)| moved(at(group, from), at(group, to))).collect()
            }
            Collective::Slice { .. } | Collective::Open { .. } => Vec::new(),
        };
        let slots = loads.map(|loads| from.local_elements(mesh) / loads.slot().max(1));
        let (divisor, full) = match collective {
            Collective::AllToAll { .. } | Collective::Reshard { .. } if slots.is_some() => {
                (u128::from(slots.unwrap_or(1)), local.saturating_mul(u128::from(n)))
            }
            Collective::ReduceScatter { .. } => (u128::from(n), local),
            Collective::Reshard { to, .. } => {
                let in_block = collective.cells(&from.sharding, to, mesh).in_block();
                (u128::from(in_block), local.saturating_mul(u128::from(n)))
            }
            Collective::AllToAll { .. } => (u128::from(n), local.saturating_mul(u128::from(n))),
            Collective::AllGather { .. } | Collective::Permute { .. } => (1, local.saturating_mul(u128::from(n))),
            Collective::Shift(shift) => {
                (u128::from(in_units(from, mesh, *shift).0), local.saturating_mul(u128::from(n)))
            }
            Collective::AllReduce { .. }
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => (1, local),
        };
        let unit = match collective {
            Collective::Shift(shift) => in_units(from, mesh, *shift).1,
            _ => 1,
        };
        Demand {
            bytes: local.saturating_mul(u128::from(unit)),
            divisor,
            pieces,
            places: places.into_values().collect(),
            ranks: by_rank.into_values().collect(),
            groups: by_group.len(),
            reduces_to_all: matches!(collective, Collective::AllReduce { .. }),
            full,
        }
    }

    /// The demand of a broadcast: one device has `bytes` bytes, and all `devices` devices need them.
    pub fn broadcast(devices: usize, root: usize, bytes: u128) -> Demand {
        let needers: Vec<usize> = (0..devices).collect();
        Demand {
            bytes,
            divisor: 1,
            pieces: vec![Piece { contributions: vec![vec![root]], needers: needers.clone(), weight: 1 }],
            places: needers.iter().map(|device| vec![*device]).collect(),
            ranks: needers.iter().map(|device| vec![*device]).collect(),
            groups: 1,
            reduces_to_all: false,
            full: bytes,
        }
    }

    /// Weight of the pieces that must enter a set of devices.
    pub fn entering(&self, inside: &[bool]) -> u128 {
        self.pieces.iter().filter(|piece| piece.must_enter(inside)).map(|piece| u128::from(piece.weight)).sum()
    }
}
