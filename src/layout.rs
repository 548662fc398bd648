//! The type of an array: its dtype, its dims with sizes, and how it is sharded.

use crate::dtype::DType;
use crate::mesh::{Axes, AxisId, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::units::Bytes;
use std::fmt::Write as _;
use std::ops::Range;

/// A dim of the program, by its place in the table [`Dims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(pub u32);

/// A dim of an array: which one, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// Arrays that share an id share the dim: it is contracted or batched where they meet.
    pub id: DimId,
    /// Global size, at least 1; in a checked program with the padding that its layouts need.
    pub size: u64,
}

/// The names of the dims; a literal size is a dim of its own without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims {
    table: Vec<(Option<String>, u64)>,
}

impl Dims {
    /// Adds a dim; a `None` name is that of a literal.
    pub fn add(&mut self, name: Option<String>, size: u64) -> Dim {
        let id = DimId(u32::try_from(self.table.len()).expect("fewer dims than bytes of source"));
        self.table.push((name, size));
        Dim { id, size }
    }

    /// The dim of that name.
    pub fn named(&self, name: &str) -> Option<Dim> {
        let index = self.table.iter().position(|(known, _)| known.as_deref() == Some(name))?;
        Some(Dim { id: DimId(u32::try_from(index).ok()?), size: self.table[index].1 })
    }

    /// All dims that have a name, in the order of their declaration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.iter().filter_map(|(name, _)| name.as_deref())
    }

    /// The name, or the size of a dim without one.
    pub fn name(&self, dim: DimId) -> String {
        let (name, size) = &self.table[dim.0 as usize];
        name.clone().unwrap_or_else(|| size.to_string())
    }

    /// The size that was declared, without padding.
    pub fn size(&self, dim: DimId) -> u64 {
        self.table[dim.0 as usize].1
    }

    /// Whether the dim is a literal size, which meets no other dim.
    pub fn is_literal(&self, dim: DimId) -> bool {
        self.table[dim.0 as usize].0.is_none()
    }
}

/// How an array is spread over the mesh: the axes part of a layout.
///
/// An axis stands at most once, on a dim or in the open sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sharding {
    /// The axes on each dim, major first.
    pub dims: Vec<Axes>,
    /// The axes over which partial results are still to be combined.
    pub open: AxisSet,
    /// How they are to be combined; [`Operator::Sum`] where nothing is open.
    pub operator: Operator,
}

impl Sharding {
    /// Every device holds the whole array.
    pub fn replicated(rank: usize) -> Sharding {
        Sharding { dims: vec![Axes::NONE; rank], open: AxisSet::NONE, operator: Operator::Sum }
    }

    /// The axes that stand on a dim.
    pub fn dim_axes(&self) -> AxisSet {
        self.dims.iter().fold(AxisSet::NONE, |set, axes| set.union(axes.set()))
    }

    /// The axes that stand on a dim or in the open sum.
    pub fn used(&self) -> AxisSet {
        self.dim_axes().union(self.open)
    }

    /// The dim on which the axis stands.
    pub fn dim_of(&self, axis: AxisId) -> Option<usize> {
        self.dims.iter().position(|axes| axes.contains(axis))
    }

    /// The dim on which the axis stands, and how many pieces of it lie between neighbours along the axis.
    pub fn stride(&self, axis: AxisId, mesh: &Mesh) -> Option<(usize, u64)> {
        let dim = self.dim_of(axis)?;
        let minor = self.dims[dim].iter().rev().take_while(|other| *other != axis);
        Some((dim, mesh.group_size(minor)))
    }

    /// The dim on which the axis stands, and how many pieces it is cut in before that.
    pub fn block_of(&self, axis: AxisId, mesh: &Mesh) -> Option<(usize, u64)> {
        let dim = self.dim_of(axis)?;
        let major = self.dims[dim].iter().take_while(|other| *other != axis);
        Some((dim, mesh.group_size(major)))
    }

    /// The same dims with no open sum.
    pub fn closed(mut self) -> Sharding {
        self.set_open(AxisSet::NONE);
        self
    }

    /// Sets the axes of the open sum; without any, the operator is [`Operator::Sum`] so that equal shardings compare equal.
    pub fn set_open(&mut self, open: AxisSet) {
        self.open = open;
        if open.is_empty() {
            self.operator = Operator::Sum;
        }
    }

    /// Reduces a part of the axes of the open sum; what is left may have another operator.
    pub fn reduce(&mut self, axes: AxisSet) {
        self.operator = self.operator.after_part();
        self.set_open(self.open.without(axes));
    }

    /// Whether each dim divides by the sizes of its axes.
    pub fn divides(&self, dims: &[Dim], mesh: &Mesh) -> bool {
        self.dims.iter().zip(dims).all(|(axes, dim)| dim.size.is_multiple_of(axes.group_size(mesh)))
    }

    /// Bytes of the shard that one device holds of an array of these dims.
    pub fn local_bytes(&self, dtype: DType, dims: &[Dim], mesh: &Mesh) -> Bytes {
        let extents = dims.iter().zip(&self.dims).map(|(dim, axes)| dim.size / axes.group_size(mesh));
        Bytes(extents.product::<u64>() * dtype.size())
    }

    /// Whether the device has something of it: what is open by [`Operator::Root`] is on the first device alone.
    pub fn is_on(&self, device: DeviceId, mesh: &Mesh) -> bool {
        self.operator != Operator::Root || mesh.rank(device, self.open.iter()) == 0
    }

    /// Which part of a dim the device holds.
    pub fn local_range(&self, dim: usize, size: u64, mesh: &Mesh, device: DeviceId) -> Range<u64> {
        let axes = self.dims[dim];
        let length = size / axes.group_size(mesh);
        let start = mesh.rank(device, axes.iter()) * length;
        start..start + length
    }
}

/// The type of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Of its elements.
    pub dtype: DType,
    /// Which dims, and how long.
    pub dims: Vec<Dim>,
    /// How it is spread over the mesh; as many entries as `dims`.
    pub sharding: Sharding,
}

impl Layout {
    /// The extents of the shard that one device holds.
    pub fn local_extents(&self, mesh: &Mesh) -> Vec<u64> {
        self.dims.iter().zip(&self.sharding.dims).map(|(dim, axes)| dim.size / axes.group_size(mesh)).collect()
    }

    /// Bytes of the whole array, once.
    pub fn global_bytes(&self) -> Bytes {
        Bytes(self.dims.iter().map(|dim| dim.size).product::<u64>() * self.dtype.size())
    }

    /// Bytes of the shard that one device holds.
    pub fn local_bytes(&self, mesh: &Mesh) -> Bytes {
        self.sharding.local_bytes(self.dtype, &self.dims, mesh)
    }

    /// As it is written: `[I_X, J]{U_Y}`, without name and dtype.
    pub fn brackets(&self, mesh: &Mesh, dims: &Dims) -> String {
        let mut text = String::from("[");
        for (index, (dim, axes)) in self.dims.iter().zip(&self.sharding.dims).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(text, "{comma}{}{}", dims.name(dim.id), axes.subscript(mesh)).expect("a string takes all");
        }
        text.push(']');
        if !self.sharding.open.is_empty() {
            let (word, axes) = (self.sharding.operator.word(), self.sharding.open.names(mesh));
            write!(text, "{{{word}_{axes}}}").expect("a string takes all");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_two_axes_on_one_dim() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 3)]);
        let [x, y] = [0, 1].map(AxisId::new);
        let mut dims = Dims::default();
        let i = dims.add(Some("I".into()), 12);
        let sharding = Sharding { dims: vec![[x, y].into_iter().collect()], ..Sharding::replicated(1) };
        let layout = Layout { dtype: DType::I8, dims: vec![i], sharding };
        assert_eq!(layout.brackets(&mesh, &dims), "[I_XY]");
        assert_eq!(layout.local_extents(&mesh), [2]);
        assert_eq!(layout.sharding.local_range(0, 12, &mesh, DeviceId(4)), 8..10);
    }
}
