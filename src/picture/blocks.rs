//! The blocks of an array under a layout, and the devices that hold each.

use crate::layout::{Dims, Layout};
use crate::mesh::{Axes, Mesh};
use itertools::Itertools;
use serde::Serialize;
use std::fmt;
use std::ops::Range;

/// An array cut into the blocks that devices hold.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The dims of the array.
    pub dims: Vec<Split>,
    /// Size and role of each axis of the mesh.
    axes: Vec<(u64, Role)>,
}

/// A dim and the ranges that it is split into.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its name.
    pub name: String,
    /// Its size, without padding.
    pub size: u64,
    /// Its axes as a subscript, empty if it is not sharded.
    pub subscript: String,
    /// The range of each block along it; elements past the size are padding.
    pub ranges: Vec<Range<u64>>,
}

/// The role of a mesh axis in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Shards a dim: the coordinate is the block's index along that dim, over `minor`, modulo the size of the axis.
    Cuts {
        /// The dim of the array.
        dim: usize,
        /// The number of blocks between neighbours along the axis.
        minor: u64,
    },
    /// Each device along it has a copy of the block.
    Copies,
    /// Each device along it has a partial sum.
    Adds,
}

/// The coordinates of a block's devices along a mesh axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Along {
    /// One coordinate.
    At(u64),
    /// All of them: each has a copy.
    Copies,
    /// All of them: each has a partial sum.
    Parts,
}

impl fmt::Display for Along {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Along::At(coordinate) => write!(f, "{coordinate}"),
            Along::Copies => f.write_str("*"),
            Along::Parts => f.write_str("+"),
        }
    }
}

impl Serialize for Along {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Along::At(coordinate) => serializer.serialize_u64(*coordinate),
            Along::Copies | Along::Parts => serializer.collect_str(self),
        }
    }
}

impl Blocks {
    /// The blocks of a layout.
    pub fn new(layout: &Layout, mesh: &Mesh, dims: &Dims) -> Blocks {
        let split = |(dim, axes): (&crate::layout::Dim, &Axes)| {
            let count = axes.group_size(mesh);
            let length = dim.size / count;
            Split {
                name: dims.name(dim.id),
                size: dims.size(dim.id),
                subscript: axes.subscript(mesh),
                ranges: (0..count).map(|block| block * length..(block + 1) * length).collect(),
            }
        };
        let role = |axis| {
            if layout.sharding.open.contains(axis) {
                return Role::Adds;
            }
            let Some(dim) = layout.sharding.dim_of(axis) else { return Role::Copies };
            let minor = layout.sharding.dims[dim].iter().skip_while(|other| *other != axis).skip(1);
            Role::Cuts { dim, minor: mesh.group_size(minor) }
        };
        Blocks {
            dims: layout.dims.iter().zip(&layout.sharding.dims).map(split).collect(),
            axes: mesh.axis_ids().map(|axis| (mesh.size(axis), role(axis))).collect(),
        }
    }

    /// The role of each mesh axis, in order.
    pub fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.axes.iter().map(|(_, role)| *role)
    }

    /// The number of blocks.
    pub fn count(&self) -> u64 {
        self.dims.iter().map(|dim| dim.ranges.len() as u64).product()
    }

    /// The number of devices that hold each block or a partial sum of it.
    pub fn holders(&self) -> u64 {
        self.axes.iter().filter(|(_, role)| !matches!(role, Role::Cuts { .. })).map(|(size, _)| size).product()
    }

    /// The coordinates of the devices of a block, along each mesh axis.
    ///
    /// - `block`: its index along each dim.
    pub fn devices(&self, block: &[usize]) -> Vec<Along> {
        let along = |(size, role): &(u64, Role)| match role {
            Role::Cuts { dim, minor } => Along::At(block[*dim] as u64 / minor % size),
            // A copy on one device is the block itself.
            Role::Copies | Role::Adds if *size == 1 => Along::At(0),
            Role::Copies => Along::Copies,
            Role::Adds => Along::Parts,
        };
        self.axes.iter().map(along).collect()
    }

    /// The sharded dims as the rows and the column of a drawing.
    pub fn rows_and_column(&self) -> (Vec<usize>, Option<usize>) {
        let mut rows: Vec<usize> = (0..self.dims.len()).filter(|dim| self.dims[*dim].ranges.len() > 1).collect();
        // A first dim that is cut alone is drawn as rows, as matrices are written.
        let is_column = rows.len() > 1 || rows.last().is_some_and(|dim| dim + 1 == self.dims.len());
        let column = if is_column { rows.pop() } else { None };
        (rows, column)
    }

    /// All blocks in row-major order: the index along each dim.
    pub fn all(&self) -> impl Iterator<Item = Vec<usize>> + use<> {
        let counts = self.dims.iter().map(|dim| 0..dim.ranges.len()).collect_vec();
        // The product of no ranges is one empty index: a scalar has one block.
        counts.into_iter().multi_cartesian_product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Sharding;
    use crate::mesh::{AxisId, AxisSet};

    /// Every way to put three axes on two dims, in the open sum or nowhere: a device is listed for a block exactly if
    /// its ranges are those of the block.
    #[test]
    fn blocks_name_the_devices_that_hold_them() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 3), ("Z", 2)]);
        let mut dims = Dims::default();
        let pair = [("I", 12), ("J", 24)].map(|(name, size)| dims.add(Some(name.into()), size));
        for places in (0..3).map(|_| 0..4usize).multi_cartesian_product() {
            for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
                let mut sharding = Sharding::replicated(2);
                for axis in order {
                    match places[axis] {
                        dim @ 0..2 => sharding.dims[dim] = sharding.dims[dim].with(AxisId::new(axis)),
                        2 => sharding.open = sharding.open.union(AxisSet::one(AxisId::new(axis))),
                        _ => {}
                    }
                }
                let layout = Layout { dtype: DType::F32, dims: pair.to_vec(), sharding: sharding.clone(), used: None };
                let blocks = Blocks::new(&layout, &mesh, &dims);
                assert_eq!(blocks.count() * blocks.holders(), 12);
                for (block, device) in itertools::iproduct!(blocks.all().collect_vec(), mesh.devices().collect_vec()) {
                    let named = blocks.devices(&block).iter().zip(mesh.axis_ids()).all(|(along, axis)| match along {
                        Along::At(coordinate) => *coordinate == u64::from(mesh.coordinate(device, axis)),
                        Along::Copies | Along::Parts => true,
                    });
                    let holds = (0..2).all(|dim| {
                        sharding.local_range(dim, pair[dim].size, &mesh, device) == blocks.dims[dim].ranges[block[dim]]
                    });
                    assert_eq!(named, holds, "{sharding:?} {block:?} {device}");
                }
            }
        }
    }
}
