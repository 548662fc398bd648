//! Routes of a move between any two shardings.

use super::Stage;
use super::candidates::Candidate;
use super::problem::Problem;
use super::tuner::Tuner;
use crate::cells::Cells;
use crate::collective::CollectiveKind;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, DeviceId};
use crate::route::Route;
use crate::routing::{self, Hop, Network, Want};
use crate::schedule::methods::{Pieces, Routed, longest};
use crate::topology::{self, LinkId, Topology};
use crate::units::gcd;
use itertools::Itertools;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Most devices for routing.
const MOST_DEVICES: u64 = 64;

/// Most devices if no more cells than devices move, as when shards are permuted.
const MOST_DEVICES_OF_FEW: u64 = 256;

/// Most devices for an exchange in rounds.
const MOST_DEVICES_OF_EXCHANGE: u64 = 128;

/// Most chunks of all cells together.
const MOST_PIECES: u64 = 1 << 10;

/// Most chunks of a cell.
const MOST_CHUNKS: u64 = 128;

/// Chunks add many operations, so they must save at least 1/64 of the time.
const LEAST_SAVING: u128 = 64;

impl Tuner<'_> {
    /// Routes a move in the groups of these axes, in chunks; `None` if there are too many devices or cells, or other
    /// groups share the links.
    pub(super) fn routed(&self, from: &Layout, to: &Sharding, group: AxisSet) -> Option<Candidate<'static>> {
        let mesh = &self.topology.mesh;
        let devices = group.group_size(mesh);
        if devices > MOST_DEVICES_OF_FEW {
            return None;
        }
        // Groups along a part of an axis share their links with other groups.
        let part = self.part(group);
        if part.topology.mesh.device_count() as u64 != devices {
            return None;
        }
        let axes = group.in_order();
        let on = |sharding: &Sharding| -> Vec<Axes> { sharding.dims.iter().map(|dim| dim.within(group)).collect() };
        let (before, after) = (on(&from.sharding), on(to));
        let cells = Cells::new(mesh, axes, &before, &after);
        if devices > MOST_DEVICES && cells.count() > devices {
            return None;
        }
        let extents: Vec<u64> =
            from.local_extents(mesh).iter().zip(&cells.before.cells).map(|(extent, count)| extent / count).collect();
        let most = (MOST_PIECES / cells.count()).min(MOST_CHUNKS);
        let cut = *extents.get(longest(&extents))?;
        let counts: Vec<u64> = (1..=most).filter(|chunks| cut.is_multiple_of(*chunks)).collect();
        if counts.is_empty() {
            return None;
        }
        let bytes = from.dtype.bytes(extents.iter().product());
        let network = Arc::new(network(&part.topology, bytes)?);
        let wants = Rc::new(wants(&cells));
        // Reachability does not depend on chunks.
        if !network.is_joined() {
            return None;
        }
        let known = Rc::clone(&self.ways);
        let stage = move |chunks: u64| {
            let (before, after) = (before.clone(), after.clone());
            let key = (Arc::clone(&network), Rc::clone(&wants), chunks);
            let found = || {
                let each = usize::try_from(chunks).expect("few chunks");
                let wants: Vec<Want> = wants.iter().flat_map(|want| vec![want.clone(); each]).collect();
                let trees = routing::ways(&network, &wants).expect("there are ways");
                Arc::new(routing::rounds(&network, &trees))
            };
            let rounds = Arc::clone(known.borrow_mut().entry(key).or_insert_with(found));
            let (network, pieces) = (Arc::clone(&network), Pieces::Chunks(chunks));
            Stage::Routed(Routed { axes, before, after, pieces, network, rounds })
        };
        Some(Candidate::new(stage, counts, LEAST_SAVING))
    }

    /// An exchange or a gather over a fabric by direct messages in rounds, which share no links; `None` if there are too
    /// many devices, or a device forwards messages. Groups that share links are ordered together.
    pub(super) fn in_rounds(&self, problem: &Problem) -> Option<Candidate<'static>> {
        let mesh = &self.topology.mesh;
        let axes = problem.axes();
        if self.topology.fabric().is_none() || axes.is_empty() {
            return None;
        }
        let part = self.part(axes.set());
        let devices = part.topology.mesh.device_count() as u64;
        if devices > MOST_DEVICES_OF_EXCHANGE {
            return None;
        }
        let dims = 0..problem.extents.len();
        let before: Vec<Axes> = dims.clone().map(|dim| problem.dims.get(dim).copied().unwrap_or(Axes::NONE)).collect();
        let mut after = vec![Axes::NONE; dims.len()];
        match (problem.kind, problem.to) {
            (CollectiveKind::AllGather, None) => {}
            (CollectiveKind::AllToAll, Some(to)) => after[to.dim] = to.order,
            _ => return None,
        }
        let (own, axes) = (part.axes(axes), part.all());
        let cells = Cells::new(mesh, axes, &before, &after);
        let elements: u64 =
            problem.extents.iter().zip(&cells.before.cells).map(|(extent, count)| extent / count).product();
        let network = network(&part.topology, problem.dtype.bytes(elements))?;
        let hops: BTreeMap<(usize, usize), usize> =
            network.hops.iter().enumerate().map(|(number, hop)| ((hop.from, hop.to), number)).collect();
        // Devices of other groups have other elements of the same cell.
        let first = |device: usize| {
            let device = DeviceId(u32::try_from(device).expect("few devices"));
            part.topology.mesh.with_rank(device, own.iter(), 0)
        };
        let mut sent = Vec::new();
        for (cell, want) in wants(&cells).into_iter().enumerate() {
            // Cells that stay have no message.
            for (from, to) in want.holders.into_iter().cartesian_product(&want.takers) {
                if first(from) == first(*to) {
                    sent.push((cell, *hops.get(&(from, *to))?));
                }
            }
        }
        let (cells, messages): (Vec<usize>, Vec<usize>) = sent.into_iter().unzip();
        let mut rounds = routing::exchange(&network, &messages);
        rounds.iter_mut().flat_map(|round| &mut round.hops).for_each(|(cell, _)| *cell = cells[*cell]);
        let (network, rounds, pieces) = (Arc::new(network), Arc::new(rounds), Pieces::Chunks(1));
        Some(Candidate::once(vec![Stage::Routed(Routed { axes, before, after, pieces, network, rounds })]))
    }
}

/// The holders of each cell before a move, and the devices that lack it.
fn wants(cells: &Cells) -> Vec<Want> {
    let want = |number: u64| {
        let cell = cells.cell(number);
        let holders: Vec<usize> = (0..cells.devices()).filter(|device| cells.before.has(*device, &cell)).collect();
        let lacks = |device: &usize| cells.after.has(*device, &cell) && !cells.before.has(*device, &cell);
        Want { takers: (0..cells.devices()).filter(lacks).collect(), holders, size: 1 }
    };
    (0..cells.count()).map(want).collect()
}

/// The hops between devices, and the busy time of each link per message; `None` if a time exceeds 64 bits, or a link is
/// down.
///
/// - `bytes`: size of a message.
pub(super) fn network(topology: &Topology, bytes: u64) -> Option<Network> {
    let (mesh, is_fabric) = (&topology.mesh, topology.fabric().is_some());
    let mut links: BTreeMap<LinkId, usize> = BTreeMap::new();
    let mut busy: Vec<u64> = Vec::new();
    let mut hops = Vec::new();
    for from in mesh.devices() {
        for to in mesh.devices().filter(|to| *to != from) {
            let Ok(way) = topology.route(from, to, Route::Shortest) else { continue };
            // Only direct links between devices are used.
            if way.iter().filter(|hop| hop.to.is_some()).count() != 1 {
                continue;
            }
            let mut used = Vec::new();
            for link in way.iter().flat_map(topology::Hop::links) {
                let number = links.len();
                if let std::collections::btree_map::Entry::Vacant(new) = links.entry(link) {
                    new.insert(number);
                    busy.push(time_of(topology, &way[0], link, bytes)?);
                }
                used.push(links[&link]);
            }
            // Messages of a fabric need no direction.
            let direction = if is_fabric { 0 } else { topology.row(way[0].link) as usize };
            hops.push(Hop { from: from.index(), to: to.index(), links: used, direction });
        }
    }
    let unit = busy.iter().copied().fold(0, gcd).max(1);
    busy.iter_mut().for_each(|busy| *busy /= unit);
    Some(Network::new(mesh.device_count(), hops, busy))
}

/// Busy time of a link for a message.
fn time_of(topology: &Topology, hop: &topology::Hop, link: LinkId, bytes: u64) -> Option<u64> {
    if let Some(cables) = topology.cable_times(bytes) {
        return u64::try_from(cables.busy(hop, link).ticks()).ok().map(|ticks| ticks.max(1));
    }
    let links = topology.axes[topology.link(link).axis.index()];
    let bandwidth = topology.scale.at_rate(u128::from(bytes), topology.rate(link)?);
    let [busy, _] = links.hop(topology.hardware.hop_rule, bandwidth);
    u64::try_from((busy * links.sharers).ticks()).ok().map(|ticks| ticks.max(1))
}
