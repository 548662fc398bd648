//! Layouts: dtype, dims with sizes, and sharding.

use crate::dtype::DType;
use crate::mesh::{Axes, AxisId, AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::units::Bytes;
use std::fmt::Write as _;
use std::ops::Range;

mod used;

pub use used::Used;

/// A dim of the program, as an index into [`Dims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(pub u32);

/// A dim of an array with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// Arrays with the same id share the dim, which products contract or batch.
    pub id: DimId,
    /// Global size, at least 1, including padding in a checked program.
    pub size: u64,
}

/// The names of the dims; each literal size is a separate unnamed dim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims {
    table: Vec<(Option<String>, u64)>,
}

impl Dims {
    /// Adds a dim; `None` for a literal size.
    pub fn add(&mut self, name: Option<String>, size: u64) -> Dim {
        let id = DimId(u32::try_from(self.table.len()).expect("fewer dims than bytes of source"));
        self.table.push((name, size));
        Dim { id, size }
    }

    /// Finds a dim by name.
    pub fn named(&self, name: &str) -> Option<Dim> {
        let index = self.table.iter().position(|(known, _)| known.as_deref() == Some(name))?;
        Some(Dim { id: DimId(u32::try_from(index).ok()?), size: self.table[index].1 })
    }

    /// All named dims in order of declaration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.iter().filter_map(|(name, _)| name.as_deref())
    }

    /// The name of a dim, or its size if unnamed.
    pub fn name(&self, dim: DimId) -> String {
        let (name, size) = &self.table[dim.0 as usize];
        name.clone().unwrap_or_else(|| size.to_string())
    }

    /// The declared size, without padding.
    pub fn size(&self, dim: DimId) -> u64 {
        self.table[dim.0 as usize].1
    }

    /// Whether the dim is a literal size, which matches no other dim.
    pub fn is_literal(&self, dim: DimId) -> bool {
        self.table[dim.0 as usize].0.is_none()
    }
}

/// The sharding of an array: the axes of its layout.
///
/// An axis occurs at most once, on a dim or in the open sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sharding {
    /// The axes of each dim, major first.
    pub dims: Vec<Axes>,
    /// The axes of the open sum.
    pub open: AxisSet,
    /// The operator of the open sum; [`Operator::Sum`] if there is none.
    pub operator: Operator,
}

impl Sharding {
    /// The fully replicated sharding.
    pub fn replicated(rank: usize) -> Sharding {
        Sharding { dims: vec![Axes::NONE; rank], open: AxisSet::NONE, operator: Operator::Sum }
    }

    /// The axes that shard a dim.
    pub fn dim_axes(&self) -> AxisSet {
        self.dims.iter().fold(AxisSet::NONE, |set, axes| set.union(axes.set()))
    }

    /// The axes that shard a dim or are in the open sum.
    pub fn used(&self) -> AxisSet {
        self.dim_axes().union(self.open)
    }

    /// The dim that an axis shards.
    pub fn dim_of(&self, axis: AxisId) -> Option<usize> {
        self.dims.iter().position(|axes| axes.contains(axis))
    }

    /// The dim that an axis shards, and the number of shards between neighbours along the axis.
    pub fn stride(&self, axis: AxisId, mesh: &Mesh) -> Option<(usize, u64)> {
        let dim = self.dim_of(axis)?;
        let minor = self.dims[dim].iter().rev().take_while(|other| *other != axis);
        Some((dim, mesh.group_size(minor)))
    }

    /// The dim that an axis shards, and the number of parts before the axis splits it.
    pub fn block_of(&self, axis: AxisId, mesh: &Mesh) -> Option<(usize, u64)> {
        let dim = self.dim_of(axis)?;
        let major = self.dims[dim].iter().take_while(|other| *other != axis);
        Some((dim, mesh.group_size(major)))
    }

    /// The same sharding without some axes.
    pub(crate) fn without(&self, axes: AxisSet) -> Sharding {
        let dims = self.dims.iter().map(|dim| dim.without(axes)).collect();
        let mut left = Sharding { dims, ..self.clone() };
        left.set_open(self.open.without(axes));
        left
    }

    /// The same sharding without the open sum.
    pub fn closed(mut self) -> Sharding {
        self.set_open(AxisSet::NONE);
        self
    }

    /// Sets the axes of the open sum. An empty set has the operator [`Operator::Sum`], so equal shardings compare equal.
    pub fn set_open(&mut self, open: AxisSet) {
        self.open = open;
        if open.is_empty() {
            self.operator = Operator::Sum;
        }
    }

    /// Reduces some axes of the open sum; the remaining ones may have another operator.
    pub fn reduce(&mut self, axes: AxisSet, mesh: &Mesh) {
        let open = self.open.without(axes);
        self.operator = self.operator.after_part().within(open, mesh);
        self.set_open(open);
    }

    /// Formats the open sum: `{U_X}`, `{ROOT_XY=5}`; empty if there is none.
    pub fn open_sum(&self, mesh: &Mesh) -> String {
        if self.open.is_empty() {
            return String::new();
        }
        let root = self.root(mesh).filter(|root| *root > 0).map(|root| format!("={root}")).unwrap_or_default();
        format!("{{{}_{}{root}}}", self.operator.word(), self.open.names(mesh))
    }

    /// Whether each dim divides evenly by its axes.
    pub fn divides(&self, dims: &[Dim], mesh: &Mesh) -> bool {
        self.dims.iter().zip(dims).all(|(axes, dim)| dim.size.is_multiple_of(axes.group_size(mesh)))
    }

    /// Bytes of one shard of an array with these dims.
    pub fn local_bytes(&self, dtype: DType, dims: &[Dim], mesh: &Mesh) -> Bytes {
        Bytes(dtype.bytes(self.local_elements(dims, mesh)))
    }

    /// Elements of one shard of an array with these dims.
    pub fn local_elements(&self, dims: &[Dim], mesh: &Mesh) -> u64 {
        dims.iter().zip(&self.dims).map(|(dim, axes)| dim.size / axes.group_size(mesh)).product()
    }

    /// Whether the device holds a block: an array open by [`Operator::Root`] is on one device of each group only.
    pub fn is_on(&self, device: DeviceId, mesh: &Mesh) -> bool {
        self.root(mesh).is_none_or(|root| mesh.rank(device, self.open.iter()) == root)
    }

    /// A device that holds a block: the root, or the first device.
    pub fn holder(&self) -> DeviceId {
        match self.operator {
            Operator::Root(root) => root,
            _ => DeviceId(0),
        }
    }

    /// The rank of the only device that holds a block, along the axes of the open sum.
    pub fn root(&self, mesh: &Mesh) -> Option<u64> {
        self.root_along(self.open.in_order(), mesh)
    }

    /// The rank of the only device that holds a block, along some of the axes of the open sum.
    pub fn root_along(&self, axes: Axes, mesh: &Mesh) -> Option<u64> {
        self.operator.is_root().then(|| mesh.rank(self.holder(), axes.iter()))
    }

    /// The index of the shard of a dim that the device holds.
    pub fn local_range(&self, dim: usize, size: u64, mesh: &Mesh, device: DeviceId) -> Range<u64> {
        let axes = self.dims[dim];
        let length = size / axes.group_size(mesh);
        let start = mesh.rank(device, axes.iter()) * length;
        start..start + length
    }
}

/// The layout of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Element type.
    pub dtype: DType,
    /// Dims with sizes.
    pub dims: Vec<Dim>,
    /// Sharding, with one entry per dim.
    pub sharding: Sharding,
    /// The part that may differ from 0, if it is known. It is of the whole array: see [`Layout::loads`].
    pub used: Option<Used>,
}

impl Layout {
    /// The part that may differ from 0, if it is known of an array with these dims. A part of the array has other ones.
    pub fn loads(&self) -> Option<&Used> {
        self.used.as_ref().filter(|used| used.fits(&self.dims))
    }

    /// Extents of one shard.
    pub fn local_extents(&self, mesh: &Mesh) -> Vec<u64> {
        self.dims.iter().zip(&self.sharding.dims).map(|(dim, axes)| dim.size / axes.group_size(mesh)).collect()
    }

    /// Bytes of the whole array.
    pub fn global_bytes(&self) -> Bytes {
        Bytes(self.dtype.bytes(self.dims.iter().map(|dim| dim.size).product()))
    }

    /// Bytes of one shard.
    pub fn local_bytes(&self, mesh: &Mesh) -> Bytes {
        self.sharding.local_bytes(self.dtype, &self.dims, mesh)
    }

    /// Elements of one shard.
    pub fn local_elements(&self, mesh: &Mesh) -> u64 {
        self.sharding.local_elements(&self.dims, mesh)
    }

    /// Bytes of one shard for lower bounds: 4-bit elements of several shards may share a byte, so half a byte is none.
    pub(crate) fn least_bytes(&self, mesh: &Mesh) -> Bytes {
        Bytes(self.dtype.least_bytes(self.local_elements(mesh)))
    }

    /// Formats `[I_X, J]{U_Y}`, without name and dtype.
    pub fn brackets(&self, mesh: &Mesh, dims: &Dims) -> String {
        let mut text = String::from("[");
        for (index, (dim, axes)) in self.dims.iter().zip(&self.sharding.dims).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(text, "{comma}{}{}", dims.name(dim.id), axes.subscript(mesh)).expect("a string takes all");
        }
        text.push(']');
        text + &self.sharding.open_sum(mesh)
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
        let layout = Layout { dtype: DType::I8, dims: vec![i], sharding, used: None };
        assert_eq!(layout.brackets(&mesh, &dims), "[I_XY]");
        assert_eq!(layout.local_extents(&mesh), [2]);
        assert_eq!(layout.sharding.local_range(0, 12, &mesh, DeviceId(4)), 8..10);
    }
}
