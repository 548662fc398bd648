//! Moves of arrays that are partly used: only what may differ from 0 is sent.

use super::Stage;
use super::routed::network;
use super::tuner::Tuner;
use crate::collective::Loads;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::routing::{self, Want};
use crate::schedule::methods::{Pieces, Routed, Slot, Slots};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most devices.
const MOST_DEVICES: u64 = 128;

/// Most indices of the dims of the table, over all cells.
const MOST_ROWS: u64 = 1 << 14;

impl Tuner<'_> {
    /// A move in the groups of these axes of only the used slots; `None` if the array is not partly used, there are too
    /// many devices or rows, other groups share the links, or some device keeps nothing.
    pub(super) fn ragged(&self, from: &Layout, to: &Sharding, group: AxisSet) -> Option<Stage> {
        let mesh = &self.topology.mesh;
        let devices = group.group_size(mesh);
        from.loads()?;
        if devices > MOST_DEVICES {
            return None;
        }
        let part = self.part(group);
        if part.topology.mesh.device_count() as u64 != devices {
            return None;
        }
        let loads = Loads::between(from, to, group, mesh)?;
        let cells = &loads.cells;
        let rows: u64 = loads.over.iter().map(|dim| loads.extents[*dim]).product();
        if rows.checked_mul(cells.count())? > MOST_ROWS {
            return None;
        }
        let (mut wants, mut found) = (Vec::new(), Vec::new());
        let anchors = anchors(&loads, mesh)?;
        for number in 0..cells.count() {
            let cell = cells.cell(number);
            let has = |device: &usize| cells.before.has(*device, &cell);
            let holders: Vec<usize> = (0..cells.devices()).filter(has).collect();
            let takes = |device: &usize| cells.after.has(*device, &cell) && !has(device);
            let takers: Vec<usize> = (0..cells.devices()).filter(takes).collect();
            if takers.is_empty() {
                continue;
            }
            for (place, row) in loads.rows(&cell).enumerate() {
                let least = u64::from(place == 0 && anchors.contains(&number));
                let size = loads.most(&row, mesh).max(least);
                if size > 0 {
                    let first = loads.over.iter().map(|dim| cell[*dim] * loads.extents[*dim]);
                    found.push((number, row.iter().zip(first).map(|(at, first)| at - first).collect::<Vec<u64>>()));
                    wants.push(Want { holders: holders.clone(), takers: takers.clone(), size });
                }
            }
        }
        let network = network(&part.topology, from.dtype.bytes(loads.slot()))?;
        if !network.is_joined() {
            return None;
        }
        let length = loads.extents[loads.along];
        let ragged = routing::ragged(&network, &wants, length)?;
        let mut sizes: Vec<u64> = ragged.pieces.iter().map(|piece| piece.size).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        if sizes.is_empty() {
            sizes.push(length);
        }
        let slot = |piece: &routing::Piece| {
            let (cell, row) = found[piece.message].clone();
            Slot { cell, row, first: piece.first, size: piece.size }
        };
        let pieces = ragged.pieces.iter().map(slot).collect();
        let slots = Slots { along: loads.along, over: loads.over.clone(), sizes, pieces };
        let on = |sharding: &Sharding| -> Vec<Axes> { sharding.dims.iter().map(|dim| dim.within(group)).collect() };
        Some(Stage::Routed(Routed {
            axes: group.in_order(),
            before: on(&from.sharding),
            after: on(to),
            pieces: Pieces::Slots(Arc::new(slots)),
            network: Arc::new(network),
            rounds: Arc::new(ragged.rounds),
        }))
    }
}

/// The numbers of the cells that have no used slots, and of which one slot is sent all the same; `None` if some device keeps
/// no cell.
///
/// The proof derives the zeros of a block for each *region* of it, which is all cells at one place along the dims that are not
/// of the table, and finds the region of the array from a piece in it. A region without pieces gets such a slot.
fn anchors(loads: &Loads, mesh: &Mesh) -> Option<BTreeSet<u64>> {
    let cells = &loads.cells;
    let is_quiet = |dim: &usize| *dim != loads.along && !loads.over.contains(dim);
    // For each region of each device the first cell, and whether the device has a piece of it.
    let mut regions: Vec<BTreeMap<Vec<u64>, (u64, bool)>> = vec![BTreeMap::new(); cells.devices()];
    let mut keeps = vec![false; cells.devices()];
    for number in 0..cells.count() {
        let cell = cells.cell(number);
        let is_used = loads.rows(&cell).any(|row| loads.most(&row, mesh) > 0);
        let region: Vec<u64> = (0..cell.len()).filter(is_quiet).map(|dim| cell[dim]).collect();
        for device in (0..cells.devices()).filter(|device| cells.after.has(*device, &cell)) {
            let is_kept = cells.before.has(device, &cell);
            keeps[device] |= is_kept;
            regions[device].entry(region.clone()).or_insert((number, false)).1 |= is_kept || is_used;
        }
    }
    let all = regions.into_iter().flat_map(BTreeMap::into_values);
    let empty = all.filter(|(_, is_there)| !is_there).map(|(number, _)| number);
    keeps.iter().all(|keeps| *keeps).then(|| empty.collect())
}
