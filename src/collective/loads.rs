//! How much of each cell of a move may differ from 0.
//!
//! An exchange of the slots of experts moves only the used ones, where the program states how many these are ([`Used`]).

use super::Collective;
use crate::cells::Cells;
use crate::layout::Used;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};

/// Most cells.
const MOST_CELLS: u64 = 1 << 14;

/// The used part of the cells of a move. A *slot* is one index of the dim along which an array is partly used, for one
/// index of each dim of its table; all slots of an array have the same number of elements.
#[derive(Clone, Debug)]
pub struct Loads {
    /// The cells, in the groups of the move.
    pub cells: Cells,
    /// The dim along which the array is partly used.
    pub along: usize,
    /// The dims of the table, as dims of the array.
    pub over: Vec<usize>,
    /// Extents of a cell.
    pub extents: Vec<u64>,
    used: Used,
    /// The axes outside of the group that shard each dim of the table; they are major.
    others: Vec<Axes>,
    /// Extent of each dim of the table in a group.
    lengths: Vec<u64>,
}

impl Loads {
    /// The loads of a move in the groups of its axes; `None` if the array is not known to be partly used or is an open sum,
    /// or the move is of another kind or too large.
    pub fn of(collective: &Collective, from: &Layout, mesh: &Mesh) -> Option<Loads> {
        from.loads()?;
        if !matches!(collective, Collective::AllToAll { .. } | Collective::Reshard { .. }) {
            return None;
        }
        let to = collective.apply(&from.sharding, mesh)?;
        Loads::between(from, &to, collective.axes(&from.sharding, mesh), mesh)
    }

    /// As [`Loads::of`], in the groups of these axes.
    pub fn between(from: &Layout, to: &Sharding, group: AxisSet, mesh: &Mesh) -> Option<Loads> {
        // The contributions to a sum are not arrays of the program.
        let used = from.loads().filter(|_| from.sharding.open.is_empty())?;
        let place = |id| from.dims.iter().position(|dim| dim.id == id);
        let along = place(used.along.id)?;
        let over: Vec<usize> = used.over.iter().map(|dim| place(dim.id)).collect::<Option<_>>()?;
        if !from.sharding.dims[along].is_empty() || !to.dims[along].is_empty() {
            return None;
        }
        let major = |axes: Axes| axes.without(group);
        let stay = over.iter().all(|dim| {
            let (before, after) = (from.sharding.dims[*dim], to.dims[*dim]);
            let is_split = |axes: Axes| axes == major(axes).then(axes.within(group));
            major(before) == major(after) && is_split(before) && is_split(after)
        });
        let devices = group.group_size(mesh);
        if !stay || devices.checked_mul(devices)? > MOST_CELLS {
            return None;
        }
        let on = |sharding: &Sharding| -> Vec<Axes> { sharding.dims.iter().map(|dim| dim.within(group)).collect() };
        let cells = Cells::new(mesh, group.in_order(), &on(&from.sharding), &on(to));
        let local = from.sharding.dims.iter().zip(&from.dims).map(|(axes, dim)| dim.size / axes.group_size(mesh));
        let extents: Vec<u64> = local.zip(&cells.before.cells).map(|(extent, count)| extent / count).collect();
        let others: Vec<Axes> = over.iter().map(|dim| major(from.sharding.dims[*dim])).collect();
        let lengths =
            over.iter().zip(&others).map(|(dim, axes)| from.dims[*dim].size / axes.group_size(mesh)).collect();
        let is_small = cells.count() <= MOST_CELLS && cells.count() > 0;
        is_small.then(|| Loads { cells, along, over, extents, used: used.clone(), others, lengths })
    }

    /// Elements of a slot in a cell.
    pub fn slot(&self) -> u64 {
        let rest = self.extents.iter().enumerate().filter(|(dim, _)| *dim != self.along && !self.over.contains(dim));
        rest.map(|(_, extent)| extent).product()
    }

    /// The used slots at an index of each dim of the table in the group of a device.
    pub fn on(&self, device: DeviceId, row: &[u64], mesh: &Mesh) -> u64 {
        let first = self.others.iter().map(|axes| mesh.rank(device, axes.iter()));
        self.at(&first.collect::<Vec<_>>(), row)
    }

    /// The most used slots at an index of each dim of the table, of all groups.
    pub fn most(&self, row: &[u64], mesh: &Mesh) -> u64 {
        let counts: Vec<u64> = self.others.iter().map(|axes| axes.group_size(mesh)).collect();
        each(&counts).map(|first| self.at(&first, row)).max().unwrap_or(0)
    }

    fn at(&self, first: &[u64], row: &[u64]) -> u64 {
        let index = first.iter().zip(row).zip(&self.lengths).map(|((first, at), length)| first * length + at);
        self.used.at(&index.collect::<Vec<_>>())
    }

    /// The indices of the dims of the table in a cell, each as an index in the group.
    pub fn rows(&self, cell: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
        let counts: Vec<u64> = self.over.iter().map(|dim| self.extents[*dim]).collect();
        let first: Vec<u64> = self.over.iter().map(|dim| cell[*dim] * self.extents[*dim]).collect();
        each(&counts).map(move |row| row.iter().zip(&first).map(|(at, first)| first + at).collect())
    }

    /// The used slots of a cell in the group of a device.
    pub fn in_cell(&self, device: DeviceId, cell: &[u64], mesh: &Mesh) -> u64 {
        self.rows(cell).map(|row| self.on(device, &row, mesh)).sum()
    }

    /// The most slots that a device receives, counting for each the most used of all groups.
    pub fn received(&self, mesh: &Mesh) -> u64 {
        let mut slots = vec![0u64; self.cells.devices()];
        for number in 0..self.cells.count() {
            let cell = self.cells.cell(number);
            let count: u64 = self.rows(&cell).map(|row| self.most(&row, mesh)).sum();
            for (device, slots) in slots.iter_mut().enumerate() {
                if self.cells.after.has(device, &cell) && !self.cells.before.has(device, &cell) {
                    *slots += count;
                }
            }
        }
        slots.into_iter().max().unwrap_or(0)
    }
}

/// All indices below these counts, the last one fastest.
fn each(counts: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
    let counts = counts.to_vec();
    (0..counts.iter().product()).map(move |number: u64| {
        let mut rest = number;
        let mut index: Vec<u64> = counts.iter().rev().map(|count| (rest % count, rest /= count).0).collect();
        index.reverse();
        index
    })
}
