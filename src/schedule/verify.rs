//! Whether a schedule is one at all: what every reader of a schedule may rely on.

mod arrays;
mod kernels;
mod operations;

use super::view::region_extents;
use super::{ArrayId, CoordMap, Cut, OpId, Region, Schedule};
use crate::characters::is_word;
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use itertools::Itertools;
use petgraph::Direction;
use petgraph::visit::EdgeRef;
use std::fmt;
use std::ops::Deref;

/// The most dims that an array, a block or a view may have; also the most indices of an einsum.
pub const MOST_DIMS: usize = 64;
/// The most elements that a block or an array may have: its bytes can be counted.
pub const MOST_ELEMENTS: u64 = 1 << 60;
/// The largest constant or factor of a map of coordinates.
const MOST_FACTOR: u64 = 1 << 40;

/// A schedule that has passed [`verify`], or that a recipe has just emitted into an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a>(&'a Schedule);

impl<'a> Verified<'a> {
    /// Operations that a recipe has emitted, while recipes are compared. To verify each of them takes as long as to time
    /// it; the one that is chosen is verified before it leaves the compiler.
    pub(crate) fn emitted(schedule: &'a Schedule) -> Verified<'a> {
        Verified(schedule)
    }

    /// The schedule.
    pub fn schedule(self) -> &'a Schedule {
        self.0
    }
}

impl Deref for Verified<'_> {
    type Target = Schedule;

    fn deref(&self) -> &Schedule {
        self.0
    }
}

/// Where a schedule is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the mesh.
    Mesh,
    /// In an array, by its place in the list.
    Array(usize),
    /// In an operation, by its place in the list.
    Operation(usize),
    /// In a kernel, by its place in the list.
    Kernel(usize),
    /// In an output, by its place in the list.
    Output(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Mesh => f.write_str("mesh"),
            Place::Array(index) => write!(f, "array {index}"),
            Place::Operation(index) => write!(f, "operation %{index}"),
            Place::Kernel(index) => write!(f, "kernel {index}"),
            Place::Output(index) => write!(f, "output {index}"),
        }
    }
}

/// The first thing that is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{place}: {flaw}")]
#[diagnostic(code("schedule-malformed"))]
pub struct Malformed {
    /// Where.
    pub place: Place,
    /// What.
    pub flaw: Flaw,
}

impl Malformed {
    /// The operation that is malformed, if one is.
    pub fn operation(&self) -> Option<OpId> {
        match self.place {
            Place::Operation(index) => Some(OpId::new(index)),
            Place::Mesh | Place::Array(_) | Place::Kernel(_) | Place::Output(_) => None,
        }
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A name is no word of letters, digits and `_`, or stands twice.
    #[error("the name `{0}` of an axis is no word, or stands twice")]
    AxisName(String),
    /// The name of a network is no word of letters, digits and `_`.
    #[error("the name `{0}` of a network is no word")]
    NetworkName(String),
    /// The name of an array or of a dim has a character that cannot be shown: [`is_steering`](crate::escape::is_steering).
    #[error("the name {0:?} has a control character or a bidirectional mark")]
    Name(String),
    /// An axis is not one of the mesh, or stands twice where it may stand once.
    #[error("an axis is unknown or stands twice")]
    Axes,
    /// Too many dims, an extent of 0, or more elements than [`MOST_ELEMENTS`].
    #[error("the extents {0:?} are too many, empty or too large")]
    Extents(Vec<u64>),
    /// The names of the dims are not as many as the extents.
    #[error("{extents} extents have {names} names")]
    Names {
        /// How many names.
        names: usize,
        /// How many extents.
        extents: usize,
    },
    /// An array is not in the list, or comes later.
    #[error("array {0} is not known here")]
    UnknownArray(u32),
    /// A value is not in the list.
    #[error("value %{0} does not exist")]
    UnknownValue(usize),
    /// An operand stands at or after its user.
    #[error("operand %{0} is not made before")]
    LateOperand(usize),
    /// The places of the operands are not 0, 1, 2, ..
    #[error("the operands are not numbered one by one")]
    OperandPlaces,
    /// Another number of operands is needed.
    #[error("{found} operands where {wanted} are needed")]
    OperandCount {
        /// So many are needed.
        wanted: usize,
        /// So many there are.
        found: usize,
    },
    /// An input operation is of an array that is computed.
    #[error("the array is not an input")]
    NotAnInput,
    /// The sharding has another number of dims, or does not divide.
    #[error("the sharding does not fit the extents {0:?}")]
    Sharding(Vec<u64>),
    /// The extents are not those that follow.
    #[error("extents {found:?} where {wanted:?} follow from the operands")]
    WrongExtents {
        /// What follows.
        wanted: Vec<u64>,
        /// What is said.
        found: Vec<u64>,
    },
    /// The element type is not the one that follows.
    #[error("the element types do not fit")]
    WrongDType,
    /// A view does not split the dims of the extents.
    #[error("the view {view:?} does not refine the extents {extents:?}")]
    View {
        /// The view.
        view: Vec<u64>,
        /// What it should refine.
        extents: Vec<u64>,
    },
    /// A region does not lie in its view.
    #[error("a region does not lie in the view {0:?}")]
    Region(Vec<u64>),
    /// The numbers of a map are too large, or its table has another length than the group.
    #[error("a map of coordinates has numbers too large or a table of the wrong length")]
    Map,
    /// A shuffle is no partial permutation.
    #[error("the sources of a shuffle are no partial permutation of the group")]
    Sources,
    /// A route does not lead from the sources.
    #[error("{hops} hops do not lead to the sources of the shuffle")]
    Route {
        /// The hops.
        hops: i64,
    },
    /// What is not padding is empty or longer than the dim, or does not follow from the operands; or a filler is
    /// given in another way than by a map of coordinates.
    #[error("what is padding does not fit")]
    Padding,
    /// A dim does not exist.
    #[error("dim {0} does not exist")]
    UnknownDim(usize),
    /// An operator that does not combine two at a time.
    #[error("`{0}` does not combine two at a time")]
    Operator(Operator),
    /// The members of a kernel are less than two, in another order than that of the list, in another kernel as well, or no
    /// local computations; or an operation between two of them is left out.
    #[error("a kernel is a run of products, functions and reductions within each device")]
    Kernel,
    /// An einsum does not fit its operands.
    #[error("the indices of the einsum do not fit")]
    Einsum,
}

/// Checks the form of a schedule, so that whoever works on it may index and multiply without care.
///
/// - The axes of the mesh have distinct words for names.
/// - Names of arrays and dims can be shown as they are.
/// - Arrays come after their operands; einsums have at most [`MOST_DIMS`] indices, numbered by first appearance, none
///   twice in one operand, all known in the result; extents are positive and at most [`MOST_ELEMENTS`] in all, and follow
///   from the operands'.
/// - Operations come after their operands, whose places count from 0, as many as the kind needs.
/// - Extents and element types of each result follow from its operands. A product may be kept in any type that has
///   products. Functions and operators have a meaning on their element types.
/// - A kernel has at least two local computations, and whatever lies on a way between two of them; no two have the same.
/// - Shardings name known axes once and divide their array. Views refine extents. Ranges lie in their view.
/// - Tables have an entry per rank; a shuffle is a partial permutation; a shift is shorter than its axis; hops lead
///   from the source to the device that receives.
///
/// What is *not* checked is whether the schedule computes what it says: that is the proof's.
///
/// # Errors
/// The first breach in the order mesh, arrays, operations, kernels, outputs.
pub fn verify(schedule: &Schedule) -> Result<Verified<'_>, Malformed> {
    let at = |place: Place| move |flaw: Flaw| Malformed { place, flaw };
    check_mesh(&schedule.mesh).map_err(at(Place::Mesh))?;
    for index in 0..schedule.arrays.len() {
        arrays::check(schedule, index).map_err(at(Place::Array(index)))?;
    }
    for id in schedule.ids() {
        operations::check(schedule, id).map_err(at(Place::Operation(id.index())))?;
    }
    kernels::check(schedule).map_err(|(index, flaw)| Malformed { place: Place::Kernel(index), flaw })?;
    for (index, output) in schedule.outputs.iter().enumerate() {
        let place = at(Place::Output(index));
        let operation = schedule.operations.node_weight(output.value);
        let operation = operation.ok_or(Flaw::UnknownValue(output.value.index())).map_err(place)?;
        let shard = local_extents(schedule, output.array, &output.sharding).map_err(place)?;
        equal_extents(&shard, &operation.extents).map_err(place)?;
        ensure(operation.dtype == schedule.array(output.array).dtype, Flaw::WrongDType).map_err(place)?;
    }
    Ok(Verified(schedule))
}

fn check_mesh(mesh: &Mesh) -> Result<(), Flaw> {
    let whole = mesh.views().map(|(whole, _)| whole);
    for axis in mesh.axes().iter().chain(whole) {
        ensure(is_word(&axis.name), Flaw::AxisName(axis.name.clone()))?;
        let network = axis.over.as_ref().filter(|network| !is_word(network));
        network.map_or(Ok(()), |network| Err(Flaw::NetworkName(network.clone())))?;
    }
    match mesh.axes().iter().map(|axis| &axis.name).duplicates().next() {
        Some(name) => Err(Flaw::AxisName(name.clone())),
        None => Ok(()),
    }
}

fn ensure(condition: bool, flaw: Flaw) -> Result<(), Flaw> {
    if condition { Ok(()) } else { Err(flaw) }
}

fn equal_extents(wanted: &[u64], found: &[u64]) -> Result<(), Flaw> {
    if wanted == found {
        return Ok(());
    }
    Err(Flaw::WrongExtents { wanted: wanted.to_vec(), found: found.to_vec() })
}

/// At most [`MOST_DIMS`] positive extents whose product is at most [`MOST_ELEMENTS`].
fn check_extents(extents: &[u64]) -> Result<(), Flaw> {
    let elements = extents.iter().try_fold(1u64, |elements, extent| elements.checked_mul(*extent));
    let fits = extents.len() <= MOST_DIMS && elements.is_some_and(|elements| (1..=MOST_ELEMENTS).contains(&elements));
    if fits { Ok(()) } else { Err(Flaw::Extents(first(extents))) }
}

/// Enough of a list to be shown.
fn first(extents: &[u64]) -> Vec<u64> {
    extents.iter().copied().take(MOST_DIMS).collect()
}

/// Known axes, each once.
fn check_axes(mesh: &Mesh, axes: impl IntoIterator<Item = AxisId>) -> Result<(), Flaw> {
    let mut seen = AxisSet::NONE;
    for axis in axes {
        ensure(axis.index() < mesh.axes().len() && !seen.contains(axis), Flaw::Axes)?;
        seen = seen.union(AxisSet::one(axis));
    }
    Ok(())
}

/// The extents of a shard of an array, if there is such an array and it can be spread so.
fn local_extents(schedule: &Schedule, array: ArrayId, sharding: &Sharding) -> Result<Vec<u64>, Flaw> {
    let mesh = &schedule.mesh;
    let global = schedule.arrays.get(array.index()).ok_or(Flaw::UnknownArray(array.0))?;
    let spent = sharding.dims.iter().flat_map(|axes| axes.iter());
    check_axes(mesh, spent.chain(sharding.open.iter()))?;
    let combines = sharding.open.is_empty() || sharding.operator.takes(global.dtype);
    ensure(combines, Flaw::WrongDType)?;
    let misfit = || Flaw::Sharding(global.extents.clone());
    if sharding.dims.len() != global.extents.len() {
        return Err(misfit());
    }
    let shard = |(extent, axes): (&u64, &crate::mesh::Axes)| {
        let parts = axes.group_size(mesh);
        extent.is_multiple_of(parts).then(|| extent / parts)
    };
    global.extents.iter().zip(&sharding.dims).map(shard).collect::<Option<Vec<u64>>>().ok_or_else(misfit)
}

/// The operands by their place.
fn operands(schedule: &Schedule, id: OpId) -> Result<Vec<OpId>, Flaw> {
    let edges = schedule.operations.edges_directed(id, Direction::Incoming);
    let mut operands: Vec<(u32, OpId)> = edges.map(|edge| (*edge.weight(), edge.source())).collect();
    operands.sort_unstable();
    for (wanted, (place, operand)) in (0..).zip(&operands) {
        ensure(*place == wanted, Flaw::OperandPlaces)?;
        ensure(operand.index() < id.index(), Flaw::LateOperand(operand.index()))?;
    }
    Ok(operands.into_iter().map(|(_, operand)| operand).collect())
}

/// A region of a view of these extents, and its own.
fn check_region(mesh: &Mesh, extents: &[u64], view: &[u64], region: &Region) -> Result<Vec<u64>, Flaw> {
    if view.len() > 2 * MOST_DIMS || view.contains(&0) {
        return Err(Flaw::Extents(first(view)));
    }
    let is_within = |(cut, extent): (&Cut, &u64)| match cut {
        Cut::Whole | Cut::At(_) => true,
        Cut::Range { start, end } => start < end && end <= extent,
    };
    if view.len() != region.len() || !region.iter().zip(view).all(is_within) {
        return Err(Flaw::Region(view.to_vec()));
    }
    for cut in region {
        if let Cut::At(map) = cut {
            check_map(mesh, map)?;
        }
    }
    region_extents(extents, view, region).ok_or_else(|| Flaw::View { view: view.to_vec(), extents: extents.to_vec() })
}

fn check_map(mesh: &Mesh, map: &CoordMap) -> Result<(), Flaw> {
    match map {
        CoordMap::Affine { terms, constant, modulo } => {
            check_axes(mesh, terms.iter().map(|(axis, _)| *axis))?;
            let factors = terms.iter().map(|(_, factor)| factor.unsigned_abs());
            let small = factors.chain([constant.unsigned_abs()]).all(|number| number <= MOST_FACTOR);
            ensure(small && modulo.is_none_or(|modulo| (1..=MOST_FACTOR).contains(&modulo)), Flaw::Map)
        }
        CoordMap::Table { axes, entries } => {
            check_axes(mesh, axes.iter().copied())?;
            ensure(entries.len() as u64 == mesh.group_size(axes.iter().copied()), Flaw::Map)
        }
    }
}
