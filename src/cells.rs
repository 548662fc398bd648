//! Cells: the common refinement of two shardings of an array, and the devices that hold each cell.
//!
//! Both shardings split each dim evenly, so cells have equal size: along each dim their number is the least common multiple
//! of the two numbers of shards. Each cell lies in one block before a move and in one after it.

use crate::mesh::{Axes, DeviceId, Mesh};
use crate::units::gcd;
use std::ops::Range;

/// The cells in the blocks of the devices of a group, before and after a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Number of cells along each dim, over all devices of a group.
    pub along: Vec<u64>,
    /// Cells of the blocks before the move.
    pub before: Blocks,
    /// Cells of the blocks after the move.
    pub after: Blocks,
}

/// The cells in the blocks of a sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of cells of a block along each dim.
    pub cells: Vec<u64>,
    /// First cell of the block of each device, by rank, along each dim.
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

    /// The range of cells of a dim in the block of a device.
    fn range(&self, device: usize, dim: usize) -> Range<u64> {
        let first = self.first[device][dim];
        first..first + self.cells[dim]
    }

    /// Position of a cell in the block of a device; `None` if it is not in the block.
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
    /// Cells of a move between the axes of each dim before and after it, in the groups of `axes`, numbered by rank.
    pub fn new(mesh: &Mesh, axes: Axes, before: &[Axes], after: &[Axes]) -> Cells {
        let common = |(before, after): (&Axes, &Axes)| {
            let [before, after] = [before, after].map(|axes| axes.group_size(mesh));
            before / gcd(before, after) * after
        };
        let along: Vec<u64> = before.iter().zip(after).map(common).collect();
        let blocks = |dims| Blocks::new(mesh, axes, dims, &along);
        Cells { before: blocks(before), after: blocks(after), along }
    }

    /// Number of devices of a group.
    pub fn devices(&self) -> usize {
        self.before.first.len()
    }

    /// Number of cells.
    pub fn count(&self) -> u64 {
        self.along.iter().product()
    }

    /// Number of cells in the block of a device before the move.
    pub fn in_block(&self) -> u64 {
        self.before.cells.iter().product()
    }

    /// Number of cells of its new block that a device lacks before the move.
    pub fn missing(&self, device: usize) -> u64 {
        let kept = (0..self.along.len()).map(|dim| {
            let [before, after] = [&self.before, &self.after].map(|blocks| blocks.range(device, dim));
            before.end.min(after.end).saturating_sub(before.start.max(after.start))
        });
        self.after.cells.iter().product::<u64>() - kept.product::<u64>()
    }

    /// Index of a cell along each dim, by its number.
    pub fn cell(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        let mut cell: Vec<u64> = self.along.iter().rev().map(|count| (rest % count, rest /= count).0).collect();
        cell.reverse();
        cell
    }
}
