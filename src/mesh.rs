//! Meshes: named grids of devices.

mod orbits;
mod views;
mod wiring;

pub use orbits::Orbits;
use std::fmt;
use std::iter;
use views::{Cut, View};
pub use wiring::Wiring;

/// An axis of the mesh, by its position in the declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisId(u8);

impl AxisId {
    /// The axis declared at position `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Mesh::MOST_AXES`].
    pub fn new(index: usize) -> AxisId {
        assert!(index < Mesh::MOST_AXES, "a mesh has at most {} axes", Mesh::MOST_AXES);
        AxisId(u8::try_from(index).expect("checked above"))
    }

    /// The position in the declaration.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A device, numbered in row-major order: the last axis varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// The device as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

/// An axis of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name, `X` or `data`.
    pub name: String,
    /// Number of devices along it, at least 1.
    pub size: u32,
    /// Wiring that overrides the hardware's rule.
    pub wiring: Option<Wiring>,
    /// Network of the axis; `None` for the network inside a node.
    pub over: Option<String>,
}

/// A named grid of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    axes: Vec<Axis>,
    /// For each axis, the difference of device numbers between neighbours.
    strides: Vec<u32>,
    /// The split machine axes, in order; each part is an axis of the mesh.
    views: Vec<View>,
    /// The axes split by the compiler, in order.
    cut: Vec<Cut>,
}

impl Mesh {
    /// Most axes of a mesh; [`Axes`] packs them into one word.
    pub const MOST_AXES: usize = 15;
    /// Most devices of a mesh.
    pub const MOST_DEVICES: u64 = 1 << 20;

    /// Creates a mesh; `None` if there are too many axes or devices, or an axis is empty.
    pub fn new(axes: Vec<Axis>) -> Option<Mesh> {
        let devices = axes.iter().try_fold(1u64, |n, axis| n.checked_mul(u64::from(axis.size)));
        let fits = axes.len() <= Self::MOST_AXES && devices.is_some_and(|n| (1..=Self::MOST_DEVICES).contains(&n));
        fits.then(|| Mesh::on(axes))
    }

    /// A mesh whose size is checked, with no axis split.
    fn on(axes: Vec<Axis>) -> Mesh {
        Mesh { strides: strides(&axes), axes, views: Vec::new(), cut: Vec::new() }
    }

    /// Creates a mesh from names and sizes with default wiring; for tests and examples.
    ///
    /// # Panics
    /// If [`Mesh::new`] returns `None`.
    pub fn of(axes: &[(&str, u32)]) -> Mesh {
        let axes =
            axes.iter().map(|(name, size)| Axis { name: (*name).to_owned(), size: *size, wiring: None, over: None });
        Mesh::new(axes.collect()).expect("a small mesh")
    }

    /// The axes in order of declaration.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The ids of the axes in order of declaration.
    pub fn axis_ids(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len()).map(AxisId::new)
    }

    /// The axis with this id.
    pub fn axis(&self, axis: AxisId) -> &Axis {
        &self.axes[axis.index()]
    }

    /// Finds an axis by name.
    pub fn axis_named(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().position(|axis| axis.name == name).map(AxisId::new)
    }

    /// Number of devices along the axis.
    pub fn size(&self, axis: AxisId) -> u64 {
        u64::from(self.axis(axis).size)
    }

    /// Size of the replica groups that the axes span: the product of their sizes.
    pub fn group_size(&self, axes: impl IntoIterator<Item = AxisId>) -> u64 {
        axes.into_iter().map(|axis| self.size(axis)).product()
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.axes.iter().map(|axis| axis.size as usize).product()
    }

    /// All devices in order.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + use<> {
        let count = u32::try_from(self.device_count()).expect("checked when the mesh was made");
        (0..count).map(DeviceId)
    }

    /// Difference of device numbers between neighbours along `axis`.
    pub fn stride(&self, axis: AxisId) -> u32 {
        self.strides[axis.index()]
    }

    /// Coordinate of the device along the axis.
    pub fn coordinate(&self, device: DeviceId, axis: AxisId) -> u32 {
        device.0 / self.stride(axis) % self.axis(axis).size
    }

    /// The device at another coordinate of one axis.
    pub fn with_coordinate(&self, device: DeviceId, axis: AxisId, coordinate: u32) -> DeviceId {
        let stride = self.stride(axis);
        DeviceId(device.0 - self.coordinate(device, axis) * stride + coordinate * stride)
    }

    /// Formats the coordinates of a device: `(0,1)`.
    pub fn place(&self, device: DeviceId) -> String {
        let coordinates: Vec<String> = self.axis_ids().map(|axis| self.coordinate(device, axis).to_string()).collect();
        format!("({})", coordinates.join(","))
    }

    /// Rank of the device in the replica group spanned by `axes`, the first of them major.
    pub fn rank(&self, device: DeviceId, axes: impl IntoIterator<Item = AxisId>) -> u64 {
        axes.into_iter().fold(0, |rank, axis| rank * self.size(axis) + u64::from(self.coordinate(device, axis)))
    }

    /// The device of the same group with this rank along `axes`, the first of them major.
    pub fn with_rank<I>(&self, device: DeviceId, axes: I, mut rank: u64) -> DeviceId
    where
        I: IntoIterator<Item = AxisId>,
        I::IntoIter: DoubleEndedIterator,
    {
        let mut device = device;
        for axis in axes.into_iter().rev() {
            let coordinate = u32::try_from(rank % self.size(axis)).expect("below an axis size");
            device = self.with_coordinate(device, axis, coordinate);
            rank /= self.size(axis);
        }
        device
    }

    /// Members of the replica group of a device along `axes`, the first of them major, by rank.
    pub fn group<'a>(&'a self, device: DeviceId, axes: &'a [AxisId]) -> impl Iterator<Item = DeviceId> + 'a {
        let ranks = 0..self.group_size(axes.iter().copied());
        ranks.map(move |rank| self.with_rank(device, axes.iter().copied(), rank))
    }
}

/// For each axis, the number of devices along all axes after it.
fn strides(axes: &[Axis]) -> Vec<u32> {
    let mut strides = vec![1; axes.len()];
    for place in (1..axes.len()).rev() {
        strides[place - 1] = strides[place] * axes[place].size;
    }
    strides
}

/// An ordered list of distinct axes, major first, in one word: the axes of a dim.
///
/// Four bits per axis, the last axis lowest; 0 is the empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Axes(u64);

impl Axes {
    /// The empty list: the dim is not sharded.
    pub const NONE: Axes = Axes(0);

    /// The list of one axis.
    pub fn one(axis: AxisId) -> Axes {
        Axes(axis.index() as u64 + 1)
    }

    /// Appends an axis as the minor-most one.
    pub fn with(self, axis: AxisId) -> Axes {
        Axes(self.0 << 4 | (axis.index() as u64 + 1))
    }

    /// Concatenates two lists.
    pub fn then(self, minor: Axes) -> Axes {
        minor.iter().fold(self, Axes::with)
    }

    /// The list without `suffix`, if it ends with it.
    pub fn strip_suffix(self, suffix: Axes) -> Option<Axes> {
        let bits = 4 * suffix.len();
        let (rest, end) = if bits == 64 { (0, self.0) } else { (self.0 >> bits, self.0 & ((1 << bits) - 1)) };
        (end == suffix.0).then_some(Axes(rest))
    }

    /// The list without `prefix`, if it begins with it.
    pub fn strip_prefix(self, prefix: Axes) -> Option<Axes> {
        let begins = self.len() >= prefix.len() && self.iter().zip(prefix.iter()).all(|(a, b)| a == b);
        begins.then(|| self.iter().skip(prefix.len()).collect())
    }

    /// The axes that are in a set, in order.
    pub fn within(self, axes: AxisSet) -> Axes {
        self.iter().filter(|axis| axes.contains(*axis)).collect()
    }

    /// The axes that are not in a set, in order.
    pub fn without(self, axes: AxisSet) -> Axes {
        self.iter().filter(|axis| !axes.contains(*axis)).collect()
    }

    /// Number of axes.
    pub fn len(self) -> usize {
        (64 - self.0.leading_zeros() as usize).div_ceil(4)
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The axes, major first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = AxisId> + Clone + use<> {
        (0..self.len()).rev().map(move |place| AxisId::new((self.0 >> (4 * place) & 15) as usize - 1))
    }

    /// The minor-most axis.
    pub fn last(self) -> Option<AxisId> {
        self.iter().next_back()
    }

    /// The axes, minor first, each with the number of shards along the axes after it.
    pub fn strides(self, mesh: &Mesh) -> impl Iterator<Item = (AxisId, u64)> {
        self.iter().rev().scan(1, move |shards, axis| {
            let stride = *shards;
            *shards *= mesh.size(axis);
            Some((axis, stride))
        })
    }

    /// Whether the axis is in the list.
    pub fn contains(self, axis: AxisId) -> bool {
        self.iter().any(|other| other == axis)
    }

    /// The axes as a set.
    pub fn set(self) -> AxisSet {
        self.iter().collect()
    }

    /// Product of the sizes of the axes.
    pub fn group_size(self, mesh: &Mesh) -> u64 {
        mesh.group_size(self.iter())
    }

    /// Formats a subscript: empty, `_X`, `_XY` for single letters, `_{data,model}` for longer names.
    pub fn subscript(self, mesh: &Mesh) -> String {
        if self.is_empty() { String::new() } else { format!("_{}", self.names(mesh)) }
    }

    /// Formats the names as after a collective: `X`, `XY`, `{data,model}`.
    pub fn names(self, mesh: &Mesh) -> String {
        join_names(mesh, self.iter())
    }
}

impl From<AxisId> for Axes {
    fn from(axis: AxisId) -> Axes {
        Axes::one(axis)
    }
}

impl FromIterator<AxisId> for Axes {
    fn from_iter<I: IntoIterator<Item = AxisId>>(axes: I) -> Axes {
        axes.into_iter().fold(Axes::NONE, Axes::with)
    }
}

/// A set of axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisSet(u16);

impl AxisSet {
    /// The empty set.
    pub const NONE: AxisSet = AxisSet(0);

    /// The set of one axis.
    pub fn one(axis: AxisId) -> AxisSet {
        AxisSet(1 << axis.index())
    }

    /// Whether the axis is in the set.
    pub fn contains(self, axis: AxisId) -> bool {
        self.0 & AxisSet::one(axis).0 != 0
    }

    /// Union.
    pub fn union(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 | other.0)
    }

    /// Intersection.
    pub fn intersection(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & other.0)
    }

    /// Difference.
    pub fn without(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & !other.0)
    }

    /// Whether this set is a subset of another.
    pub fn is_subset(self, other: AxisSet) -> bool {
        self.without(other).is_empty()
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of axes.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The axes in mesh order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = AxisId> + Clone + use<> {
        let (first, end) = (self.0.trailing_zeros() as usize, (u16::BITS - self.0.leading_zeros()) as usize);
        (first..end).filter(move |index| self.0 >> index & 1 == 1).map(AxisId::new)
    }

    /// The axes as a list in mesh order.
    pub fn in_order(self) -> Axes {
        self.iter().collect()
    }

    /// Product of the sizes of the axes.
    pub fn group_size(self, mesh: &Mesh) -> u64 {
        mesh.group_size(self.iter())
    }

    /// All non-empty subsets.
    pub fn subsets(self) -> impl Iterator<Item = AxisSet> + use<> {
        let mut next = Some(self.0);
        iter::from_fn(move || {
            let subset = next.filter(|bits| *bits != 0)?;
            next = Some((subset - 1) & self.0);
            Some(AxisSet(subset))
        })
    }

    /// Formats the names as after a collective: `X`, `XY`, `{data,model}`.
    pub fn names(self, mesh: &Mesh) -> String {
        join_names(mesh, self.iter())
    }
}

impl FromIterator<AxisId> for AxisSet {
    fn from_iter<I: IntoIterator<Item = AxisId>>(axes: I) -> AxisSet {
        axes.into_iter().fold(AxisSet::NONE, |set, axis| set.union(AxisSet::one(axis)))
    }
}

/// Formats `X`, `XY`, or `{data,model}`; a single long name has no braces, as in `I_data`. If all parts of an axis split
/// by the compiler are listed, the name of the axis is used.
fn join_names(mesh: &Mesh, axes: impl Iterator<Item = AxisId>) -> String {
    let axes: Vec<AxisId> = axes.collect();
    let mut names: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < axes.len() {
        let (name, count) = mesh.whole_at(&axes[at..]).unwrap_or((&mesh.axis(axes[at]).name, 1));
        names.push(name);
        at += count;
    }
    let run: String = names.concat();
    let plain =
        names.len() == 1 || names.iter().all(|name| name.chars().count() == 1) && mesh.axis_named(&run).is_none();
    if plain { run } else { format!("{{{}}}", names.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_row_major() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 3)]);
        let (x, y) = (AxisId::new(0), AxisId::new(1));
        let device = DeviceId(5);
        assert_eq!((mesh.coordinate(device, x), mesh.coordinate(device, y)), (1, 2));
        assert_eq!(mesh.with_coordinate(device, y, 0), DeviceId(3));
        assert_eq!(mesh.rank(DeviceId(1), [y, x]), 2);
        for device in mesh.devices() {
            let rank = mesh.rank(device, [y, x]);
            assert_eq!(mesh.with_rank(DeviceId(0), [y, x], rank), device);
        }
    }

    #[test]
    fn axis_lists_are_words() {
        let [x, y, z] = [0, 1, 2].map(AxisId::new);
        let list: Axes = [x, y, z].into_iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), [x, y, z]);
        assert_eq!(list.strip_suffix(Axes::one(z)), Some([x, y].into_iter().collect()));
        assert_eq!(list.strip_suffix(Axes::one(y)), None);
        assert_eq!(list.last(), Some(z));
        let full: Axes = (0..Mesh::MOST_AXES).map(AxisId::new).collect();
        assert_eq!((full.len(), full.strip_suffix(full)), (15, Some(Axes::NONE)));
        assert_eq!(list.set().subsets().count(), 7);
    }

    #[test]
    fn huge_meshes_are_refused() {
        let axis = |size| Axis { name: "X".into(), size, wiring: None, over: None };
        assert!(Mesh::new(vec![axis(1 << 20)]).is_some());
        assert!(Mesh::new(vec![axis(1 << 20), axis(1 << 20)]).is_none());
        assert!(Mesh::new(vec![axis(0)]).is_none());
    }
}
