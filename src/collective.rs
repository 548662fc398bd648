//! Moves between layouts: their effect on a sharding, and the bytes they bring to a device.

use crate::cells::Cells;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use crate::shift::Shift;
use crate::units::Bytes;

mod loads;

pub use loads::Loads;

/// A collective over the whole mesh, or a free local slice: an edge between two shardings of one array.
///
/// `dim` is an index into the dims of the array. Gathers remove suffixes of the axes of a dim, and new axes become its
/// minor-most ones, so shards stay contiguous.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Removes axes from their dims: `A[I_X, J] -> A[I, J]`.
    AllGather {
        /// The axes; a suffix of every dim that they shard.
        axes: AxisSet,
    },
    /// Combines partial results and keeps one shard: `C[I, K]{U_X} -> C[I_X, K]`, or with several axes and dims,
    /// `C[I, K]{U_XY} -> C[I_X, K_Y]`.
    ReduceScatter {
        /// The axes appended to each dim, in order.
        dims: Vec<Axes>,
    },
    /// Combines partial results: `C[I, K]{U_X} -> C[I, K]`.
    AllReduce {
        /// The axes removed from the open sum.
        axes: AxisSet,
    },
    /// Moves axes from one dim to another: `A[I_X, J] -> A[I, J_X]`. Axes of two dims need two of these.
    AllToAll {
        /// The axes, a suffix of the axes on `from`, in the order in which they are appended to `to`.
        axes: Axes,
        /// The source dim.
        from: usize,
        /// The target dim.
        to: usize,
    },
    /// Moves whole shards between devices: `A[I_XY] -> A[I_YX]`, `A[I_X] -> A[I_Y]`. Local extents stay the same.
    Permute {
        /// The resulting sharding, with the same open sum.
        to: Sharding,
    },
    /// Sends every block to the devices that need it, along routes chosen for the links:
    /// `A[I_X, J_Y] -> A[I_Y, J_X]`. Replaces a chain of other moves with the same open sum.
    Reshard {
        /// The resulting sharding, with the same open sum.
        to: Sharding,
        /// An equivalent chain of other moves, for exports.
        by: Vec<Collective>,
    },
    /// Moves elements along a dim. The sharding stays; the result is another array: `shift_S(x, 1)`.
    Shift(Shift),
    /// Sends the block of the only device along the axes that has it to the others: `A[I]{ROOT_X} -> A[I]`.
    Broadcast {
        /// The axes removed from the open `Root`.
        axes: AxisSet,
    },
    /// Keeps a part of a dim on each device: `A[I, J] -> A[I_X, J]`. No communication.
    Slice {
        /// The axes, in the order in which they are appended to the dim.
        axes: Axes,
        /// The dim to shard.
        dim: usize,
    },
    /// Keeps the block on the first device along the axes, with zeros on the others: `A[I] -> A[I]{U_X}`. No communication.
    Open {
        /// The axes added to the open sum.
        axes: AxisSet,
    },
}

/// The kind of a collective, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// See [`Collective::AllGather`].
    AllGather,
    /// See [`Collective::ReduceScatter`].
    ReduceScatter,
    /// See [`Collective::AllReduce`].
    AllReduce,
    /// See [`Collective::AllToAll`].
    AllToAll,
    /// See [`Collective::Permute`].
    Permute,
    /// See [`Collective::Reshard`].
    Reshard,
    /// See [`Collective::Shift`].
    Shift,
    /// See [`Collective::Broadcast`].
    Broadcast,
    /// See [`Collective::Slice`].
    Slice,
    /// See [`Collective::Open`].
    Open,
}

impl CollectiveKind {
    /// The book's name.
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "AllGather",
            CollectiveKind::ReduceScatter => "ReduceScatter",
            CollectiveKind::AllReduce => "AllReduce",
            CollectiveKind::AllToAll => "AllToAll",
            CollectiveKind::Permute => "Permute",
            CollectiveKind::Reshard => "Reshard",
            CollectiveKind::Shift => "Shift",
            CollectiveKind::Broadcast => "Broadcast",
            CollectiveKind::Slice => "Slice",
            CollectiveKind::Open => "Open",
        }
    }

    /// Whether devices send messages; slices and opened sums are local.
    pub fn sends(self) -> bool {
        match self {
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllReduce
            | CollectiveKind::AllToAll
            | CollectiveKind::Permute
            | CollectiveKind::Reshard
            | CollectiveKind::Shift
            | CollectiveKind::Broadcast => true,
            CollectiveKind::Slice | CollectiveKind::Open => false,
        }
    }
}

/// The union of the axes of some lists.
fn all_of(dims: &[Axes]) -> AxisSet {
    dims.iter().fold(AxisSet::NONE, |all, axes| all.union(axes.set()))
}

/// Axes as items of a longer subscript.
fn items(axes: Axes, mesh: &Mesh) -> String {
    axes.names(mesh).trim_matches(['{', '}']).to_owned()
}

impl Collective {
    /// A ReduceScatter onto one dim of an array with this rank: `axes` are appended to `dim`.
    pub fn reduce_scatter(axes: Axes, dim: usize, rank: usize) -> Collective {
        let on = |place| if place == dim { axes } else { Axes::NONE };
        Collective::ReduceScatter { dims: (0..rank).map(on).collect() }
    }

    /// The kind.
    pub fn kind(&self) -> CollectiveKind {
        match self {
            Collective::AllGather { .. } => CollectiveKind::AllGather,
            Collective::ReduceScatter { .. } => CollectiveKind::ReduceScatter,
            Collective::AllReduce { .. } => CollectiveKind::AllReduce,
            Collective::AllToAll { .. } => CollectiveKind::AllToAll,
            Collective::Permute { .. } => CollectiveKind::Permute,
            Collective::Reshard { .. } => CollectiveKind::Reshard,
            Collective::Shift(_) => CollectiveKind::Shift,
            Collective::Broadcast { .. } => CollectiveKind::Broadcast,
            Collective::Slice { .. } => CollectiveKind::Slice,
            Collective::Open { .. } => CollectiveKind::Open,
        }
    }

    /// The axes along which devices exchange data; for a permute of `from`, those whose position changes.
    ///
    /// A dim that keeps an axis with the same number of shards between neighbours keeps the coordinate along it.
    pub fn axes(&self, from: &Sharding, mesh: &Mesh) -> AxisSet {
        match self {
            Collective::AllGather { axes }
            | Collective::AllReduce { axes }
            | Collective::Broadcast { axes }
            | Collective::Open { axes } => *axes,
            Collective::ReduceScatter { dims } => all_of(dims),
            Collective::AllToAll { axes, .. } | Collective::Slice { axes, .. } => axes.set(),
            Collective::Shift(shift) => from.dims.get(shift.dim()).map(|axes| axes.set()).unwrap_or_default(),
            Collective::Permute { to } => {
                let mut kept = AxisSet::NONE;
                for (before, after) in from.dims.iter().zip(&to.dims) {
                    let stays = |own: &(AxisId, u64)| after.strides(mesh).any(|other| other == *own);
                    let same = before.strides(mesh).filter(|own| before == after || stays(own));
                    kept = kept.union(same.map(|(axis, _)| axis).collect());
                }
                from.dim_axes().union(to.dim_axes()).without(kept)
            }
            Collective::Reshard { to, .. } => {
                let cut = from.dim_axes().union(to.dim_axes());
                cut.iter().filter(|axis| from.block_of(*axis, mesh) != to.block_of(*axis, mesh)).collect()
            }
        }
    }

    /// Whether blocks cross links: it is of a kind that sends, along axes that are not all of size 1.
    ///
    /// - `from`: the layout of the operand.
    pub fn communicates(&self, from: &Sharding, mesh: &Mesh) -> bool {
        self.kind().sends() && self.axes(from, mesh).iter().any(|axis| mesh.size(axis) > 1)
    }

    /// Whether it leaves each block as and where it is, as all of its axes have size 1. A slice is an operation even
    /// then, and contributions to a sum of squares are squared.
    ///
    /// - `from`: the layout of the operand.
    pub fn is_idle(&self, from: &Sharding, mesh: &Mesh) -> bool {
        let sums = matches!(self, Collective::AllReduce { .. } | Collective::ReduceScatter { .. });
        let squares = sums && from.operator == Operator::SquareAdd;
        self.kind().sends() && !self.communicates(from, mesh) && !squares
    }

    /// The collective on other axes, such as the parts of its own.
    ///
    /// - `list`: the axes in place of some, in order.
    /// - `sharding`: the sharding in place of one.
    #[must_use]
    pub(crate) fn mapped(&self, list: &dyn Fn(Axes) -> Axes, sharding: &dyn Fn(&Sharding) -> Sharding) -> Collective {
        let set = |axes: AxisSet| list(axes.in_order()).set();
        match self {
            Collective::AllGather { axes } => Collective::AllGather { axes: set(*axes) },
            Collective::AllReduce { axes } => Collective::AllReduce { axes: set(*axes) },
            Collective::Broadcast { axes } => Collective::Broadcast { axes: set(*axes) },
            Collective::Open { axes } => Collective::Open { axes: set(*axes) },
            Collective::ReduceScatter { dims } => {
                Collective::ReduceScatter { dims: dims.iter().map(|axes| list(*axes)).collect() }
            }
            Collective::AllToAll { axes, from, to } => Collective::AllToAll { axes: list(*axes), from: *from, to: *to },
            Collective::Slice { axes, dim } => Collective::Slice { axes: list(*axes), dim: *dim },
            Collective::Shift(shift) => Collective::Shift(*shift),
            Collective::Permute { to } => Collective::Permute { to: sharding(to) },
            Collective::Reshard { to, by } => {
                let by = by.iter().map(|step| step.mapped(list, sharding)).collect();
                Collective::Reshard { to: sharding(to), by }
            }
        }
    }

    /// Whether it names no axes; a shift and a move to a sharding name none, but have some.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Collective::AllGather { axes }
            | Collective::AllReduce { axes }
            | Collective::Broadcast { axes }
            | Collective::Open { axes } => axes.is_empty(),
            Collective::ReduceScatter { dims } => all_of(dims).is_empty(),
            Collective::AllToAll { axes, .. } | Collective::Slice { axes, .. } => axes.is_empty(),
            Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => false,
        }
    }

    /// The resulting sharding; `None` if the collective does not apply to `from`.
    pub fn apply(&self, from: &Sharding, mesh: &Mesh) -> Option<Sharding> {
        let mut to = from.clone();
        match self {
            Collective::AllGather { axes } => {
                if axes.is_empty() || !axes.is_subset(from.dim_axes()) {
                    return None;
                }
                for dim in &mut to.dims {
                    let gathered: Axes = dim.iter().filter(|axis| axes.contains(*axis)).collect();
                    *dim = dim.strip_suffix(gathered)?;
                }
            }
            Collective::ReduceScatter { dims } => {
                let axes = all_of(dims);
                let of_this_rank = dims.len() == from.dims.len();
                if axes.is_empty() || !axes.is_subset(from.open) || !of_this_rank || from.operator.is_root() {
                    return None;
                }
                to.reduce(axes, mesh);
                for (place, new) in to.dims.iter_mut().zip(dims) {
                    *place = place.then(*new);
                }
            }
            Collective::AllReduce { axes } => {
                if axes.is_empty() || !axes.is_subset(from.open) || from.operator.is_root() {
                    return None;
                }
                to.reduce(*axes, mesh);
            }
            Collective::Broadcast { axes } => {
                if axes.is_empty() || !axes.is_subset(from.open) || !from.operator.is_root() {
                    return None;
                }
                to.reduce(*axes, mesh);
            }
            Collective::Open { axes } => {
                if axes.is_empty() || !axes.intersection(from.used()).is_empty() || from.operator != Operator::Sum {
                    return None;
                }
                to.open = to.open.union(*axes);
            }
            Collective::AllToAll { axes, from: source, to: target } => {
                if axes.is_empty() || source == target || *target >= to.dims.len() {
                    return None;
                }
                let place = to.dims.get_mut(*source)?;
                let leaving: Axes = place.iter().filter(|axis| axes.contains(*axis)).collect();
                if leaving.set() != axes.set() {
                    return None;
                }
                *place = place.strip_suffix(leaving)?;
                to.dims[*target] = to.dims[*target].then(*axes);
            }
            Collective::Permute { to: wanted } => {
                let same_extents = from.dims.len() == wanted.dims.len()
                    && from.dims.iter().zip(&wanted.dims).all(|(a, b)| a.group_size(mesh) == b.group_size(mesh));
                let same_sum = from.open == wanted.open && from.operator == wanted.operator;
                let known = mesh.axis_ids().collect();
                if !same_extents || !same_sum || from == wanted || !wanted.used().is_subset(known) {
                    return None;
                }
                to = wanted.clone();
            }
            Collective::Reshard { to: wanted, .. } => {
                let same_sum = from.open == wanted.open && from.operator == wanted.operator;
                let known = mesh.axis_ids().collect();
                let same_rank = from.dims.len() == wanted.dims.len();
                if !same_rank || !same_sum || from == wanted || !wanted.used().is_subset(known) {
                    return None;
                }
                to = wanted.clone();
            }
            Collective::Shift(shift) => {
                if shift.by == 0 || from.dims.get(shift.dim())?.is_empty() {
                    return None;
                }
            }
            Collective::Slice { axes, dim } => {
                if axes.is_empty() || !axes.set().intersection(from.used()).is_empty() {
                    return None;
                }
                let place = to.dims.get_mut(*dim)?;
                *place = place.then(*axes);
            }
        }
        // An axis is spent once; the dims' lists are checked by counting.
        let spent: usize = to.dims.iter().map(|axes| axes.len()).sum::<usize>() + to.open.len();
        (spent == to.used().len()).then_some(to)
    }

    /// Bytes received by the device that receives the most, under the ideal collective.
    ///
    /// With n devices per group and V the bytes of the full array on one device (the result of a gather, the operand of a
    /// reduction, n times the shard of an AllToAll): (n-1)/n·V for AllGather and ReduceScatter, twice that for AllReduce,
    /// (n-1)/n of the shard for AllToAll, the shard for a permute and a broadcast, and for a Reshard the part of the new
    /// block that the device lacks. Rounded up to whole bytes.
    pub fn bytes_received(&self, from: &Layout, mesh: &Mesh) -> Bytes {
        let n = || self.axes(&from.sharding, mesh).group_size(mesh);
        let others = |n: u64| u128::from(n - 1);
        // Elements of 4 bits are sent in pairs.
        let (local, byte) = (u128::from(from.local_elements(mesh)) * u128::from(from.dtype.bits()), 8);
        let shares = |count: u128| {
            let n = n();
            (count * local * others(n)).div_ceil(u128::from(n) * byte)
        };
        let slots = |loads: Loads| u128::from(loads.received(mesh)) * u128::from(loads.slot());
        if let Some(elements) = Loads::of(self, from, mesh).map(slots) {
            let bytes = (elements * u128::from(from.dtype.bits())).div_ceil(byte);
            return Bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
        let bytes = match self {
            Collective::AllGather { .. } => (local * others(n())).div_ceil(byte),
            Collective::ReduceScatter { .. } | Collective::AllToAll { .. } => shares(1),
            Collective::AllReduce { .. } => shares(2),
            Collective::Permute { .. } => local.div_ceil(byte),
            Collective::Reshard { to, .. } => {
                let cells = self.cells(&from.sharding, to, mesh);
                let most = (0..cells.devices()).map(|device| cells.missing(device)).max().unwrap_or(0);
                local * u128::from(most) / (u128::from(cells.in_block()) * byte)
            }
            Collective::Shift(shift) => {
                let extent = from.local_extents(mesh).get(shift.dim()).copied().unwrap_or(1).max(1);
                local * u128::from(shift.received(extent, n())) / (u128::from(extent) * byte)
            }
            // A group of one device sends nothing.
            Collective::Broadcast { .. } => local.div_ceil(byte) * u128::from(n() > 1),
            Collective::Slice { .. } | Collective::Open { .. } => 0,
        };
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The cells of a move from one sharding to another, in the groups in which it takes place.
    pub fn cells(&self, from: &Sharding, to: &Sharding, mesh: &Mesh) -> Cells {
        let axes = self.axes(from, mesh);
        let on = |sharding: &Sharding| -> Vec<Axes> { sharding.dims.iter().map(|dim| dim.within(axes)).collect() };
        Cells::new(mesh, axes.in_order(), &on(from), &on(to))
    }

    /// Formats the name as in the book: `AllGather_X`, `ReduceScatter_{X,K}`. `dim_name` names a dim of the array.
    pub fn name(&self, from: &Sharding, mesh: &Mesh, dim_name: impl Fn(usize) -> String) -> String {
        let kind = self.kind().name();
        match self {
            Collective::AllGather { axes } | Collective::AllReduce { axes } | Collective::Broadcast { axes } => {
                format!("{kind}_{}", axes.names(mesh))
            }
            // Written as a function.
            Collective::Open { axes } => format!("open_{}", axes.names(mesh)),
            Collective::ReduceScatter { dims } => {
                let gaining = dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
                let items: Vec<String> =
                    gaining.map(|(dim, axes)| format!("{},{}", items(*axes, mesh), dim_name(dim))).collect();
                format!("{kind}_{{{}}}", items.join(","))
            }
            Collective::AllToAll { axes, to, .. } => {
                format!("{kind}_{{{},{}}}", items(*axes, mesh), dim_name(*to))
            }
            Collective::Slice { axes, .. } => format!("{kind}_{}", axes.names(mesh)),
            Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Shift(_) => {
                format!("{kind}_{}", self.axes(from, mesh).names(mesh))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Dims;
    use crate::mesh::AxisId;

    #[test]
    fn the_types_of_the_book() {
        let mesh = Mesh::of(&[("X", 4), ("Y", 2)]);
        let [x, y] = [0, 1].map(AxisId::new);
        let mut dims = Dims::default();
        let (i, k) = (dims.add(Some("I".into()), 8), dims.add(Some("K".into()), 16));
        let layout = |i_axes: &[AxisId], k_axes: &[AxisId], open: AxisSet| Layout {
            dtype: DType::Bf16,
            dims: vec![i, k],
            sharding: Sharding {
                dims: vec![i_axes.iter().copied().collect(), k_axes.iter().copied().collect()],
                open,
                ..Sharding::default()
            },
            used: None,
        };
        let none = AxisSet::NONE;
        let scatter = Collective::reduce_scatter(Axes::one(x), 1, 2);
        let open = layout(&[], &[y], AxisSet::one(x));
        assert_eq!(scatter.apply(&open.sharding, &mesh), Some(layout(&[], &[y, x], none).sharding));
        assert_eq!(scatter.bytes_received(&open, &mesh), Bytes(8 * 8 * 2 * 3 / 4));
        assert_eq!(scatter.name(&open.sharding, &mesh, |dim| ["I", "K"][dim].into()), "ReduceScatter_{X,K}");
        // Both axes of a sum at once, each onto a dim of its own, or both onto one.
        let sum = layout(&[], &[], [x, y].into_iter().collect());
        let name = |dim: usize| ["I", "K"][dim].to_owned();
        for (dims, to, text) in [
            ([Axes::one(x), Axes::one(y)], layout(&[x], &[y], none), "ReduceScatter_{X,I,Y,K}"),
            ([Axes::one(y), Axes::one(x)], layout(&[y], &[x], none), "ReduceScatter_{Y,I,X,K}"),
            ([Axes::NONE, Axes::one(y).with(x)], layout(&[], &[y, x], none), "ReduceScatter_{YX,K}"),
            ([Axes::one(x), Axes::NONE], layout(&[x], &[], AxisSet::one(y)), "ReduceScatter_{X,I}"),
        ] {
            let both = Collective::ReduceScatter { dims: dims.to_vec() };
            assert_eq!(both.apply(&sum.sharding, &mesh), Some(to.sharding));
            assert_eq!(both.name(&sum.sharding, &mesh, name), text);
            let n: u64 = both.axes(&sum.sharding, &mesh).group_size(&mesh);
            assert_eq!(both.bytes_received(&sum, &mesh), Bytes(8 * 16 * 2 * (n - 1) / n));
        }
        // An axis is spent once, and there is a list for each dim.
        for dims in [vec![Axes::one(x), Axes::one(x)], vec![Axes::one(x)], vec![Axes::NONE; 2]] {
            assert_eq!(Collective::ReduceScatter { dims }.apply(&sum.sharding, &mesh), None);
        }
        // Only the minor-most axis can be gathered as it stands.
        let both = layout(&[x, y], &[], none);
        let gather = |axes| Collective::AllGather { axes };
        assert_eq!(gather(AxisSet::one(x)).apply(&both.sharding, &mesh), None);
        assert_eq!(gather(AxisSet::one(y)).apply(&both.sharding, &mesh), Some(layout(&[x], &[], none).sharding));
        assert_eq!(gather(both.sharding.used()).apply(&both.sharding, &mesh), Some(layout(&[], &[], none).sharding));
        assert_eq!(gather(both.sharding.used()).bytes_received(&both, &mesh), Bytes(8 * 16 * 2 * 7 / 8));
        let slice = Collective::Slice { axes: Axes::one(x), dim: 0 };
        assert_eq!(slice.apply(&open.sharding, &mesh), None);
        let swap = Collective::Permute { to: layout(&[y, x], &[], none).sharding };
        assert!(swap.apply(&both.sharding, &mesh).is_some());
        assert_eq!(swap.axes(&both.sharding, &mesh), both.sharding.used());
    }

    #[test]
    fn a_permute_is_along_the_axes_that_change_places() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 4), ("Z", 2), ("T", 4)]);
        let [x, y, z, t] = [0, 1, 2, 3].map(AxisId::new);
        let on = |axes: &[AxisId]| Sharding { dims: vec![axes.iter().copied().collect()], ..Sharding::default() };
        for (from, to, along) in [
            (&[x, y, z][..], &[x, z, y][..], &[y, z][..]),
            (&[x, y, z], &[y, x, z], &[x, y]),
            // In the middle, and cut by as many on either side; or by others.
            (&[x, y, z], &[z, y, x], &[x, z]),
            (&[x, y, z, t], &[x, z, t, y], &[y, z, t]),
            (&[x, t], &[x, y], &[y, t]),
        ] {
            let permute = Collective::Permute { to: on(to) };
            assert!(permute.apply(&on(from), &mesh).is_some());
            assert_eq!(permute.axes(&on(from), &mesh), along.iter().copied().collect(), "{from:?} -> {to:?}");
        }
    }
}
