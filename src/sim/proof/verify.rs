//! The shape of a schedule, before it is run on anything.
//!
//! - Arrays: operands are declared before; einsum, extents and number of operands agree; no extent is 0, and no
//!   array has more than 2^61 elements.
//! - Operations: operands stand earlier in the list, at the places 0, 1, ..; extents and dtype follow from those of
//!   the operands; axes are those of the mesh, each once in a list; tables have an entry for each rank.
//! - Slices and assemblies: the view refines the block, the cuts lie in it, and what is cut refines the other side.
//! - Shuffles: no two devices receive from one; a route by hops ends where the shift says.
//! - Outputs: the value has the dtype and the extents of the array's shard.
//!
//! After this nothing in [`run`](super::run) can index past an end or overflow.

use super::block::group;
use super::flaw::Flaw;
use super::terms::MOST_ELEMENTS;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use crate::schedule::{ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Region, Route, Schedule, Sources};
use itertools::Itertools;
use petgraph::Direction;
use petgraph::visit::EdgeRef;

/// What is wrong, in words.
type Check = Result<(), String>;

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Checks everything that can be checked without looking at what values hold.
///
/// # Errors
/// The malformed flaws, for the first array, operation or output that breaks a rule of this file.
pub(super) fn verify(schedule: &Schedule) -> Result<(), Flaw> {
    for (place, array) in schedule.arrays.iter().enumerate() {
        check_array(schedule, place).map_err(|what| Flaw::MalformedArray { array: array.name.clone(), what })?;
    }
    for id in schedule.ids() {
        check_operation(schedule, id).map_err(|what| Flaw::Malformed { operation: id, what })?;
    }
    for place in 0..schedule.outputs.len() {
        check_output(schedule, place)?;
    }
    Ok(())
}

fn check_extents(extents: &[u64]) -> Check {
    let elements = extents.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
    require(!extents.contains(&0), || "an extent is 0".to_owned())?;
    require(elements.is_some_and(|elements| elements <= MOST_ELEMENTS), || "it has too many elements".to_owned())
}

fn check_array(schedule: &Schedule, place: usize) -> Check {
    let array = &schedule.arrays[place];
    check_extents(&array.extents)?;
    require(array.dims.len() == array.extents.len(), || "it has another number of names than of extents".to_owned())?;
    let valid = array.valid.iter().zip(&array.extents);
    require(array.valid.len() == array.extents.len(), || "its padding has another number of dims".to_owned())?;
    require(valid.into_iter().all(|(valid, extent)| (1..=*extent).contains(valid)), || {
        "it has more than its extents, or nothing that is not padding".to_owned()
    })?;
    let operands = array.definition.operands();
    require(operands.iter().all(|operand| operand.index() < place), || "it stands before an operand".to_owned())?;
    let extents: Vec<Vec<u64>> = operands.iter().map(|operand| schedule.array(*operand).extents.clone()).collect();
    let dtypes: Vec<DType> = operands.iter().map(|operand| schedule.array(*operand).dtype).collect();
    match &array.definition {
        Dense::Input => Ok(()),
        Dense::Product { einsum, .. } => check_einsum(einsum, &extents, &array.extents),
        Dense::Reduce { operator, einsum, .. } => {
            check_folds(*operator)?;
            check_einsum(einsum, &extents, &array.extents)
        }
        Dense::Map { function, einsum, .. } => {
            check_map(*function, einsum, &dtypes, array.dtype)?;
            check_einsum(einsum, &extents, &array.extents)
        }
    }
}

/// Each index once in an operand and in the result, from an operand, with one length.
fn check_einsum(einsum: &Einsum, operands: &[Vec<u64>], result: &[u64]) -> Check {
    require(einsum.operands.len() == operands.len(), || format!("`{einsum}` has another number of operands"))?;
    let once = einsum.operands.iter().chain([&einsum.result]).all(|indices| indices.iter().all_unique());
    require(once, || format!("`{einsum}` has an index twice in one place"))?;
    let known = einsum.result.iter().all(|index| einsum.operands.iter().flatten().contains(index));
    require(known, || format!("`{einsum}` has an index of the result that no operand has"))?;
    let lengths = einsum.lengths(operands).ok_or_else(|| format!("extents do not fit `{einsum}`"))?;
    let fits = einsum.result.len() == result.len()
        && einsum.result.iter().zip(result).all(|(index, extent)| lengths[usize::from(*index)] == *extent);
    require(fits, || format!("the result's extents do not follow from `{einsum}`"))
}

/// Pairs can be combined in any order.
fn check_folds(operator: Operator) -> Check {
    require(operator.folds(), || format!("`{operator}` does not combine two at a time"))
}

/// Arity, dtype and the dims that are left, for a function.
fn check_map(function: Function, einsum: &Einsum, operands: &[DType], result: DType) -> Check {
    require(operands.len() == function.arity(), || format!("`{function}` takes {} operands", function.arity()))?;
    require(einsum.contracted().is_empty(), || format!("`{einsum}` contracts, which a function does not"))?;
    let choice = || require(operands[0] == DType::Bool, || format!("`{function}` chooses by {}", operands[0]));
    match function {
        Function::Identity => require(operands == [result], || "the identity changes the dtype".to_owned()),
        Function::Cast(dtype) => require(dtype == result, || format!("`{function}` has dtype {result}")),
        Function::Fill { dim, valid, .. } => {
            require(usize::from(dim) < einsum.result.len(), || format!("`{function}` has no such dim"))?;
            require(valid > 0, || "a filler leaves nothing".to_owned())
        }
        Function::Softmax { dim } => {
            require(usize::from(dim) < einsum.result.len(), || format!("`{function}` has no such dim"))
        }
        Function::Over(n) => require(n > 0, || "a mean of nothing".to_owned()),
        Function::Where => choice(),
        Function::Masked(Scalar(other)) => {
            require(!other.is_nan(), || format!("`{function}` is by no number"))?;
            choice()
        }
        Function::ByNumber(ByNumber::Scale, Scalar(factor))
        | Function::ByNumber(ByNumber::Shift, Scalar(factor))
        | Function::ByNumber(ByNumber::AtLeast, Scalar(factor))
        | Function::ByNumber(ByNumber::AtMost, Scalar(factor)) => {
            require(!factor.is_nan(), || format!("`{function}` is by no number"))
        }
        Function::Binary(Binary::Add)
        | Function::Binary(Binary::Sub)
        | Function::Binary(Binary::Div)
        | Function::Unary(Unary::Neg)
        | Function::Unary(Unary::Relu)
        | Function::Unary(Unary::Gelu)
        | Function::Unary(Unary::Exp)
        | Function::Unary(Unary::Tanh)
        | Function::Unary(Unary::Sigmoid)
        | Function::Unary(Unary::Silu)
        | Function::Unary(Unary::Sqrt)
        | Function::Unary(Unary::Rsqrt)
        | Function::Unary(Unary::Abs)
        | Function::Unary(Unary::Log)
        | Function::Unary(Unary::Square)
        | Function::Unary(Unary::Recip)
        | Function::Unary(Unary::Not)
        | Function::Binary(Binary::Larger)
        | Function::Binary(Binary::Smaller) => Ok(()),
    }
}

fn check_operation(schedule: &Schedule, id: OpId) -> Check {
    let operation = schedule.operation(id);
    check_extents(&operation.extents)?;
    let edges = schedule.operations.edges_directed(id, Direction::Incoming);
    let mut places: Vec<(u32, OpId)> = edges.map(|edge| (*edge.weight(), edge.source())).collect();
    places.sort_unstable();
    let in_order = (0..).zip(&places).all(|(place, (weight, _))| place == *weight);
    require(in_order, || "its operands are not at the places 0, 1, ..".to_owned())?;
    require(places.iter().all(|(_, operand)| *operand < id), || "it stands before an operand".to_owned())?;
    let operands: Vec<&Operation> = places.iter().map(|(_, operand)| schedule.operation(*operand)).collect();
    check_kind(schedule, operation, &operands)
}

fn check_kind(schedule: &Schedule, operation: &Operation, operands: &[&Operation]) -> Check {
    let mesh = &schedule.mesh;
    let extents = || operands.iter().map(|operand| operand.extents.clone()).collect::<Vec<_>>();
    let dtypes: Vec<DType> = operands.iter().map(|operand| operand.dtype).collect();
    let moves = || require(dtypes.iter().all(|dtype| *dtype == operation.dtype), || "the dtype changes".to_owned());
    let same_extents =
        || require(extents().iter().all(|extents| *extents == operation.extents), || "the extents change".to_owned());
    let count = |wanted: usize| {
        require(operands.len() == wanted, || format!("it has {} operands instead of {wanted}", operands.len()))
    };
    match &operation.kind {
        OpKind::Input { array, sharding } => {
            count(0)?;
            let declared = schedule.arrays.get(array.index()).map(|array| &array.definition);
            require(declared == Some(&Dense::Input), || "it gives an array that is not an input".to_owned())?;
            check_shard(schedule, *array, sharding, operation)
        }
        OpKind::Slice { view, region } => {
            count(1)?;
            moves()?;
            check_region(mesh, view, region, &operands[0].extents, &operation.extents)
        }
        OpKind::Shuffle { sources, route } => {
            count(1)?;
            moves()?;
            same_extents()?;
            check_sources(mesh, sources)?;
            check_route(mesh, sources, *route)
        }
        OpKind::Add { operator } => {
            check_folds(*operator)?;
            require(!operands.is_empty(), || "it has no operands".to_owned())?;
            moves()?;
            same_extents()
        }
        OpKind::Assemble { view, places } => {
            require(!operands.is_empty(), || "it has no operands".to_owned())?;
            count(places.len())?;
            moves()?;
            let mut pieces = places.iter().zip(operands);
            pieces.try_for_each(|(place, piece)| check_region(mesh, view, place, &operation.extents, &piece.extents))
        }
        OpKind::AllGather { axes, dim } => {
            count(1)?;
            moves()?;
            check_axes(mesh, axes)?;
            let mut wanted = operands[0].extents.clone();
            let gathered = wanted.get_mut(*dim).ok_or("it gathers along a dim that the block lacks")?;
            *gathered = gathered.checked_mul(mesh.group_size(axes.iter().copied())).ok_or("the block is too long")?;
            require(wanted == operation.extents, || "the extents are not those of the gathered block".to_owned())
        }
        OpKind::MatMul { einsum } => {
            count(2)?;
            check_einsum(einsum, &extents(), &operation.extents)
        }
        OpKind::Fill { dim, valid, with: _, block } => {
            count(1)?;
            moves()?;
            same_extents()?;
            require(*dim < operation.extents.len(), || "it fills a dim that the block lacks".to_owned())?;
            require(u8::try_from(*dim).is_ok(), || "the block has too many dims".to_owned())?;
            require(*valid > 0, || "a filler leaves nothing".to_owned())?;
            check_map_of_coordinates(mesh, block)
        }
        OpKind::Mask { axes } => {
            count(1)?;
            moves()?;
            same_extents()?;
            require(operation.dtype != DType::Bool, || "it masks truth values".to_owned())?;
            check_axes(mesh, axes)
        }
        OpKind::Reduce { operator, einsum } => {
            count(1)?;
            check_folds(*operator)?;
            check_einsum(einsum, &extents(), &operation.extents)
        }
        OpKind::Map { function, einsum } => {
            // Which lanes are padding depends on the device.
            let is_filler = matches!(function, Function::Fill { .. });
            require(!is_filler, || "a filler is an operation of its own".to_owned())?;
            check_map(*function, einsum, &dtypes, operation.dtype)?;
            check_einsum(einsum, &extents(), &operation.extents)
        }
    }
}

fn check_axes(mesh: &Mesh, axes: &[AxisId]) -> Check {
    let known = axes.iter().all(|axis| axis.index() < mesh.axes().len());
    require(known, || "it names an axis that the mesh lacks".to_owned())?;
    require(axes.iter().all_unique(), || "it names an axis twice".to_owned())
}

/// A sharding fits an array, and an operation is its shard.
fn check_shard(schedule: &Schedule, array: ArrayId, sharding: &Sharding, operation: &Operation) -> Check {
    let mesh = &schedule.mesh;
    let array = schedule.arrays.get(array.index()).ok_or("there is no such array")?;
    require(sharding.used().is_subset(mesh.axis_ids().collect::<AxisSet>()), || {
        "the sharding names an axis that the mesh lacks".to_owned()
    })?;
    let spent = sharding.dims.iter().map(|axes| axes.len()).sum::<usize>() + sharding.open.len();
    require(spent == sharding.used().len(), || "the sharding spends an axis twice".to_owned())?;
    require(sharding.dims.len() == array.extents.len(), || "the sharding has another number of dims".to_owned())?;
    let sizes = sharding.dims.iter().map(|axes| axes.group_size(mesh));
    let divides = array.extents.iter().zip(sizes.clone()).all(|(extent, size)| extent.is_multiple_of(size));
    require(divides, || "the axes do not divide the array".to_owned())?;
    let shard: Vec<u64> = array.extents.iter().zip(sizes).map(|(extent, size)| extent / size).collect();
    require(operation.extents == shard, || "the extents are not those of the array's shard".to_owned())?;
    require(operation.dtype == array.dtype, || "the dtype is not that of the array".to_owned())
}

/// The view refines the block, the cuts lie in the view, and what is cut refines the piece.
fn check_region(mesh: &Mesh, view: &[u64], region: &Region, block: &[u64], piece: &[u64]) -> Check {
    require(!view.contains(&0) && group(view, block).is_some(), || "the view does not refine the block".to_owned())?;
    require(region.len() == view.len(), || "there is not one cut for each dim of the view".to_owned())?;
    for (cut, extent) in region.iter().zip(view) {
        match cut {
            Cut::Whole => {}
            Cut::Range { start, end } => {
                require(start < end && end <= extent, || format!("range {start}..{end} is not in 0..{extent}"))?;
            }
            Cut::At(map) => check_map_of_coordinates(mesh, map)?,
        }
    }
    require(group(&cut_extents(view, region), piece).is_some(), || "the cuts do not make the piece".to_owned())
}

/// How much each cut takes of its dim.
pub(super) fn cut_extents(view: &[u64], region: &Region) -> Vec<u64> {
    let lengths = region.iter().zip(view).map(|(cut, extent)| match cut {
        Cut::Whole => *extent,
        Cut::Range { start, end } => end - start,
        Cut::At(_) => 1,
    });
    lengths.collect()
}

fn check_map_of_coordinates(mesh: &Mesh, map: &CoordMap) -> Check {
    match map {
        CoordMap::Affine { terms, modulo, .. } => {
            let axes: Vec<AxisId> = terms.iter().map(|(axis, _)| *axis).collect();
            check_axes(mesh, &axes)?;
            let fits = modulo.is_none_or(|modulo| modulo >= 1 && i64::try_from(modulo).is_ok());
            require(fits, || "a map has an impossible modulus".to_owned())
        }
        CoordMap::Table { axes, entries } => {
            check_axes(mesh, axes)?;
            let members = mesh.group_size(axes.iter().copied());
            require(entries.len() as u64 == members, || format!("a table has not {members} entries"))
        }
    }
}

/// No two devices receive from one.
fn check_sources(mesh: &Mesh, sources: &Sources) -> Check {
    match sources {
        Sources::Shift { axes, .. } => {
            require(!axes.is_empty(), || "a shift names no axis".to_owned())?;
            check_axes(mesh, &axes.iter().collect::<Vec<_>>())
        }
        Sources::Table { axes, entries } => {
            check_axes(mesh, axes)?;
            let members = mesh.group_size(axes.iter().copied());
            require(entries.len() as u64 == members, || format!("the table has not {members} entries"))?;
            let known = entries.iter().flatten().all(|source| u64::from(*source) < members);
            require(known, || "the table names a rank that the group lacks".to_owned())?;
            require(entries.iter().flatten().all_unique(), || "two devices receive from one".to_owned())
        }
    }
}

/// The source at c + by moves by that many hops to arrive at c, perhaps round the ring.
fn check_route(mesh: &Mesh, sources: &Sources, route: Route) -> Check {
    let Route::Hops(hops) = route else { return Ok(()) };
    match sources {
        Sources::Table { axes, entries } => {
            require(axes.len() == 1, || "a route by hops goes along one axis".to_owned())?;
            let n = i64::try_from(entries.len()).map_err(|_| "the table is too long".to_owned())?;
            let arrives = |(to, from): (i64, &Option<u32>)| match from {
                Some(from) => (i64::from(*from) + hops - to).rem_euclid(n) == 0,
                None => true,
            };
            let arrives = hops.unsigned_abs() < n.unsigned_abs() && (0..).zip(entries).all(arrives);
            require(arrives, || format!("{hops} hops do not lead from the sources"))
        }
        Sources::Shift { axes, by, wrap } => {
            let ends = by.checked_add(hops).ok_or("the route is too long")?;
            let arrives = ends == 0 || *wrap && i64::try_from(axes.group_size(mesh)).is_ok_and(|n| ends % n == 0);
            require(arrives, || format!("{hops} hops do not lead from the source, {by} away"))
        }
    }
}

fn check_output(schedule: &Schedule, place: usize) -> Result<(), Flaw> {
    let output = &schedule.outputs[place];
    let name = schedule.arrays.get(output.array.index()).map_or_else(|| place.to_string(), |array| array.name.clone());
    let value = schedule.operations.node_weight(output.value).ok_or_else(|| "there is no such value".to_owned());
    value
        .and_then(|value| check_shard(schedule, output.array, &output.sharding, value))
        .map_err(|what| Flaw::MalformedOutput { array: name, what })
}
