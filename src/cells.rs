//! What two shardings of an array cut it into together, and which device has which of these cells.
//!
//! Both cut each dim evenly, so cells of equal size are enough: along each dim the least number that both numbers of blocks divide. Each cell lies in one
//! block before a move and in one after it.

use crate::mesh::{Axes, DeviceId, Mesh};
use crate::units::gcd;
use std::ops::Range;

/// Which cells the blocks of each device of a group consist of, before a move and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// How many there are along each dim, over all devices of a group.
    pub along: Vec<u64>,
    /// Those of the blocks before the move.
    pub before: Blocks,
    /// Those of the blocks after it.
    pub after: Blocks,
}

/// The cells of the blocks of a sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// How many of them a block has along each dim.
    pub cells: Vec<u64>,
    /// For each device by rank, which cell is the first of its block along each dim.
    first: Vec<Vec<u64>>,
}

impl Blocks {
    fn new(mesh: &Mesh, axes: Axes, dims: &[Axes], along: &[u64]) -> Blocks {
        let cells: Vec<u64> = dims.iter().zip(along).map(|(on, count)| count / on.group_size(mesh)).collect();
        let first = |rank: u64| {
            let device = mesh.with_rank(DeviceId(0), axes.iter(), rank);
            dims.iter().zip(&cells).map(|(on, count)| mesh.rank(device, on.iter()) * count).collect()
        };
        Blocks { first: (0..axes.group_size(mesh)).map(first).collect(), cells }
    }

    /// Which cells of a dim the block of a device has.
    fn range(&self, device: usize, dim: usize) -> Range<u64> {
        let first = self.first[device][dim];
        first..first + self.cells[dim]
    }

    /// The place of a cell in the block of a device; `None` where it is not in it.
    pub fn place(&self, device: usize, cell: &[u64]) -> Option<Vec<u64>> {
        let within = cell.iter().zip(&self.first[device]).zip(&self.cells);
        within.map(|((at, first), count)| at.checked_sub(*first).filter(|place| place < count)).collect()
    }

    /// Whether a cell is in the block of a device.
    pub fn has(&self, device: usize, cell: &[u64]) -> bool {
        self.place(device, cell).is_some()
    }
}

impl Cells {
    /// Of a move from the axes on each dim before it to those after it, in groups that `axes` span, numbered by rank.
    pub fn new(mesh: &Mesh, axes: Axes, before: &[Axes], after: &[Axes]) -> Cells {
        let common = |(before, after): (&Axes, &Axes)| {
            let [before, after] = [before, after].map(|axes| axes.group_size(mesh));
            before / gcd(before, after) * after
        };
        let along: Vec<u64> = before.iter().zip(after).map(common).collect();
        let blocks = |dims| Blocks::new(mesh, axes, dims, &along);
        Cells { before: blocks(before), after: blocks(after), along }
    }

    /// How many devices a group has.
    pub fn devices(&self) -> usize {
        self.before.first.len()
    }

    /// How many cells there are.
    pub fn count(&self) -> u64 {
        self.along.iter().product()
    }

    /// Into how many of them the block of a device is cut before the move.
    pub fn in_block(&self) -> u64 {
        self.before.cells.iter().product()
    }

    /// How many cells a device lacks of its block after the move.
    pub fn missing(&self, device: usize) -> u64 {
        let kept = (0..self.along.len()).map(|dim| {
            let [before, after] = [&self.before, &self.after].map(|blocks| blocks.range(device, dim));
            before.end.min(after.end).saturating_sub(before.start.max(after.start))
        });
        self.after.cells.iter().product::<u64>() - kept.product::<u64>()
    }

    /// Where a cell is along each dim, by its number.
    pub fn cell(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        let mut cell: Vec<u64> = self.along.iter().rev().map(|count| (rest % count, rest /= count).0).collect();
        cell.reverse();
        cell
    }
}
