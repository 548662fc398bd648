//! Well-formedness of schedules, which every reader relies on.

mod arrays;
mod kernels;
mod operations;

use super::view::region_extents;
use super::{ArrayId, CoordMap, Cut, OpId, Output, Region, Schedule};
use crate::characters::is_word;
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use itertools::Itertools;
use petgraph::Direction;
use petgraph::visit::EdgeRef;
use std::fmt;
use std::ops::Deref;

/// Most dims of an array, a block or a view, and most indices of an einsum.
pub const MOST_DIMS: usize = 64;
/// Most elements of a block or an array, so that its bytes can be counted.
pub const MOST_ELEMENTS: u64 = 1 << 60;
/// Largest constant or factor of a coordinate map.
const MOST_FACTOR: u64 = 1 << 40;

/// A schedule that has passed [`verify`], or that a recipe has emitted into an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a>(&'a Schedule);

impl<'a> Verified<'a> {
    /// Wraps operations emitted by a recipe during tuning. Verifying each candidate would take as long as timing it; the
    /// chosen one is verified before it leaves the compiler.
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

/// The malformed part of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The mesh.
    Mesh,
    /// An array, by index.
    Array(usize),
    /// An operation, by index.
    Operation(usize),
    /// A kernel, by index.
    Kernel(usize),
    /// An output, by index.
    Output(usize),
    /// An assertion, by index.
    Assertion(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Mesh => f.write_str("mesh"),
            Place::Array(index) => write!(f, "array {index}"),
            Place::Operation(index) => write!(f, "operation %{index}"),
            Place::Kernel(index) => write!(f, "kernel {index}"),
            Place::Output(index) => write!(f, "output {index}"),
            Place::Assertion(index) => write!(f, "assertion {index}"),
        }
    }
}

/// The first error of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{place}: {flaw}")]
#[diagnostic(code("schedule-malformed"))]
pub struct Malformed {
    /// Location.
    pub place: Place,
    /// The violated rule.
    pub flaw: Flaw,
}

impl Malformed {
    /// The malformed operation, if any.
    pub fn operation(&self) -> Option<OpId> {
        match self.place {
            Place::Operation(index) => Some(OpId::new(index)),
            Place::Mesh | Place::Array(_) | Place::Kernel(_) | Place::Output(_) | Place::Assertion(_) => None,
        }
    }
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// An axis name is not a word of letters, digits and `_`, or is used twice.
    #[error("the axis name `{0}` is not a word or is used twice")]
    AxisName(String),
    /// A network name is not a word of letters, digits and `_`.
    #[error("the network name `{0}` is not a word")]
    NetworkName(String),
    /// An array or dim name has a control character: [`is_steering`](crate::escape::is_steering).
    #[error("the name {0:?} has a control character or a bidirectional mark")]
    Name(String),
    /// An axis is not in the mesh, or is used twice.
    #[error("an axis is unknown or used twice")]
    Axes,
    /// Too many dims, an extent of 0, or more elements than [`MOST_ELEMENTS`].
    #[error("the extents {0:?} are empty, too many or too large")]
    Extents(Vec<u64>),
    /// The numbers of dim names and extents differ.
    #[error("expected {extents} dim names, found {names}")]
    Names {
        /// Number of names.
        names: usize,
        /// Number of extents.
        extents: usize,
    },
    /// An array does not exist, or comes later.
    #[error("unknown array {0}")]
    UnknownArray(u32),
    /// A value does not exist.
    #[error("unknown value %{0}")]
    UnknownValue(usize),
    /// An operand does not precede its user.
    #[error("operand %{0} is not defined before this operation")]
    LateOperand(usize),
    /// The operand indices are not 0, 1, 2, ..
    #[error("the operands are not numbered consecutively")]
    OperandPlaces,
    /// The number of operands is wrong.
    #[error("expected {wanted} operands, found {found}")]
    OperandCount {
        /// Expected number.
        wanted: usize,
        /// Actual number.
        found: usize,
    },
    /// An input operation refers to a computed array.
    #[error("the array is not an input")]
    NotAnInput,
    /// The sharding has the wrong number of dims, or does not divide.
    #[error("the sharding does not match the extents {0:?}")]
    Sharding(Vec<u64>),
    /// The extents do not follow from the operands.
    #[error("expected extents {wanted:?} from the operands, found {found:?}")]
    WrongExtents {
        /// Expected extents.
        wanted: Vec<u64>,
        /// Actual extents.
        found: Vec<u64>,
    },
    /// The dtype does not follow from the operands.
    #[error("the element types do not match")]
    WrongDType,
    /// A view does not refine the extents.
    #[error("the view {view:?} does not refine the extents {extents:?}")]
    View {
        /// The view.
        view: Vec<u64>,
        /// The extents.
        extents: Vec<u64>,
    },
    /// A reshape changes the number of elements.
    #[error("a reshape from {from:?} to {to:?} changes the number of elements")]
    Reshape {
        /// The extents of the operand.
        from: Vec<u64>,
        /// The extents of the result.
        to: Vec<u64>,
    },
    /// A region exceeds its view.
    #[error("a region is outside of the view {0:?}")]
    Region(Vec<u64>),
    /// The numbers of a map are too large, or its table has the wrong length.
    #[error("a coordinate map has too large numbers or a table of the wrong length")]
    Map,
    /// A shuffle is not a partial permutation.
    #[error("the sources of a shuffle are not a partial permutation of the group")]
    Sources,
    /// A route does not lead from the source.
    #[error("{hops} hops do not lead to the sources of the shuffle")]
    Route {
        /// The hops.
        hops: i64,
    },
    /// The unpadded part is empty, too long, or does not follow from the operands; or a fill does not use a coordinate map.
    #[error("the padding does not match")]
    Padding,
    /// A table with more or fewer elements than the array.
    #[error("a table has as many elements as its array")]
    Table,
    /// A shift by nothing, or by more than the whole dim.
    #[error("a shift has a distance from 1 to the length of its dim, in either direction")]
    Shift,
    /// A dim does not exist.
    #[error("unknown dim {0}")]
    UnknownDim(usize),
    /// An operator is not binary.
    #[error("`{0}` is not a binary operator")]
    Operator(Operator),
    /// A kernel has fewer than two members, is out of order, shares a member with another kernel, has a member that is not a
    /// local computation, or is not convex.
    #[error("a kernel must be a run of products, functions and reductions on one device")]
    Kernel,
    /// An einsum does not match its operands.
    #[error("the indices of the einsum do not match")]
    Einsum,
}

/// Checks that a schedule is well-formed, so that readers can index and multiply without further checks.
///
/// - Axis names are distinct words.
/// - Names of arrays and dims have no control characters.
/// - Arrays come after their operands. Einsums have at most [`MOST_DIMS`] indices, numbered by first appearance, distinct
///   within an operand, and all in the result known. Extents are positive, have at most [`MOST_ELEMENTS`] elements, and
///   follow from the operands.
/// - Operations come after their operands, whose indices count from 0, as many as the kind needs.
/// - Extents and dtypes of results follow from the operands. A product may have any dtype that supports products.
///   Functions and operators support their dtypes.
/// - A kernel has at least two local computations and is convex; kernels are disjoint.
/// - Shardings use known axes once and divide their array. Views refine extents. Ranges lie in their view.
/// - Tables have one entry per rank; a shuffle is a partial permutation; a shift is shorter than its axis; hops lead from
///   the source to the receiver.
///
/// Whether the schedule computes what it declares is checked by the proof.
///
/// # Errors
/// The first violation in the order mesh, arrays, operations, kernels, outputs, assertions.
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
        check_output(schedule, output).map_err(at(Place::Output(index)))?;
    }
    for (index, assertion) in schedule.assertions.iter().enumerate() {
        check_output(schedule, assertion).map_err(at(Place::Assertion(index)))?;
    }
    Ok(Verified(schedule))
}

/// Checks that a value can be an array in a sharding.
pub(crate) fn check_output(schedule: &Schedule, output: &Output) -> Result<(), Flaw> {
    let operation = schedule.operations.node_weight(output.value);
    let operation = operation.ok_or(Flaw::UnknownValue(output.value.index()))?;
    let shard = local_extents(schedule, output.array, &output.sharding)?;
    equal_extents(&shard, &operation.extents)?;
    ensure(operation.dtype == schedule.array(output.array).dtype, Flaw::WrongDType)
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

/// Checks for at most [`MOST_DIMS`] positive extents with at most [`MOST_ELEMENTS`] elements.
fn check_extents(extents: &[u64]) -> Result<(), Flaw> {
    let elements = extents.iter().try_fold(1u64, |elements, extent| elements.checked_mul(*extent));
    let fits = extents.len() <= MOST_DIMS && elements.is_some_and(|elements| (1..=MOST_ELEMENTS).contains(&elements));
    if fits { Ok(()) } else { Err(Flaw::Extents(first(extents))) }
}

/// A prefix of a list, for messages.
fn first(extents: &[u64]) -> Vec<u64> {
    extents.iter().copied().take(MOST_DIMS).collect()
}

/// Checks for known, distinct axes.
fn check_axes(mesh: &Mesh, axes: impl IntoIterator<Item = AxisId>) -> Result<(), Flaw> {
    let mut seen = AxisSet::NONE;
    for axis in axes {
        ensure(axis.index() < mesh.axes().len() && !seen.contains(axis), Flaw::Axes)?;
        seen = seen.union(AxisSet::one(axis));
    }
    Ok(())
}

/// The extents of a shard of an array, if the array exists and can be sharded this way.
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

/// The operands by index.
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

/// Checks a region of a view of these extents; returns its extents.
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
