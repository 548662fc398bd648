//! Verification of operations.

use super::arrays::{check_kernel, check_product, check_reduce, map_extents, result_extents};
use super::{Flaw, check_axes, check_extents, check_map, check_region, ensure, equal_extents, local_extents, operands};
use crate::dtype::DType;
use crate::function::Function;
use crate::layout::Sharding;
use crate::mesh::Mesh;
use crate::schedule::{Arity, ArrayId, OpId, OpKind, Operation, Route, Schedule, Sources};
use std::borrow::Cow;

pub(super) fn check(schedule: &Schedule, id: OpId) -> Result<(), Flaw> {
    let operation = schedule.operation(id);
    check_extents(&operation.extents)?;
    let ids = operands(schedule, id)?;
    // Every schedule that is tried is verified: what only a few kinds need is listed for them alone.
    let operands = || ids.iter().map(|operand| schedule.operation(*operand));
    let all_extents = || -> Vec<&[u64]> { operands().map(|operand| operand.extents.as_slice()).collect() };
    let all_dtypes = || -> Vec<DType> { operands().map(|operand| operand.dtype).collect() };
    let (mesh, found) = (&schedule.mesh, ids.len());
    match operation.kind.properties().arity {
        Arity::Exactly(wanted) => ensure(found == wanted, Flaw::OperandCount { wanted, found })?,
        Arity::AtLeastOne => ensure(found > 0, Flaw::OperandCount { wanted: 1, found })?,
    }
    let first: &[u64] = ids.first().map_or(&[], |operand| &schedule.operation(*operand).extents);
    let result = match &operation.kind {
        OpKind::Input { array, sharding } => return check_input(schedule, operation, *array, sharding),
        OpKind::MatMul { einsum } => {
            check_product(&all_dtypes(), operation.dtype)?;
            return equal_extents(&result_extents(einsum, &all_extents())?, &operation.extents);
        }
        OpKind::Reduce { operator, einsum } => {
            check_reduce(*operator, &all_dtypes(), operation.dtype)?;
            return equal_extents(&result_extents(einsum, &all_extents())?, &operation.extents);
        }
        OpKind::Kernel(kernel) => {
            let lengths = check_kernel(kernel, &all_extents(), &all_dtypes(), operation.dtype)?;
            return equal_extents(&kernel.result(&lengths), &operation.extents);
        }
        OpKind::Map { function, einsum } => {
            let wanted = map_extents(*function, einsum, &all_extents())?;
            // Which lanes are padding depends on the device: a filler is an operation of its own.
            ensure(!matches!(function, Function::Fill { .. }), Flaw::Padding)?;
            ensure(function.dtype(&all_dtypes()) == Some(operation.dtype), Flaw::WrongDType)?;
            return equal_extents(&wanted, &operation.extents);
        }
        OpKind::Fill { dim, valid, with: _, block } => {
            ensure(*dim < first.len(), Flaw::UnknownDim(*dim))?;
            ensure(*valid > 0, Flaw::Padding)?;
            check_map(mesh, block)?;
            Cow::Borrowed(first)
        }
        OpKind::Shift { shift, length, block } => {
            ensure(shift.dim() < first.len(), Flaw::UnknownDim(shift.dim()))?;
            ensure((1..=*length).contains(&shift.by.unsigned_abs()), Flaw::Shift)?;
            check_map(mesh, block)?;
            Cow::Borrowed(first)
        }
        OpKind::Mask { axes } => {
            ensure(operation.dtype != DType::Bool, Flaw::WrongDType)?;
            check_axes(mesh, axes.iter().copied())?;
            Cow::Borrowed(first)
        }
        OpKind::Reshape => {
            let elements = |extents: &[u64]| extents.iter().product::<u64>();
            ensure(
                elements(first) == elements(&operation.extents),
                Flaw::Reshape { from: first.to_vec(), to: operation.extents.clone() },
            )?;
            Cow::Borrowed(operation.extents.as_slice())
        }
        OpKind::Slice { view, region } => Cow::Owned(check_region(mesh, first, view, region)?),
        OpKind::Shuffle { sources, route } => {
            check_shuffle(mesh, sources, *route)?;
            Cow::Borrowed(first)
        }
        OpKind::AllGather { axes, dim } => {
            check_axes(mesh, axes.iter().copied())?;
            Cow::Owned(gathered(first, *dim, mesh.group_size(axes.iter().copied()))?)
        }
        OpKind::SwitchSum { axes, operator } => {
            check_axes(mesh, axes.iter().copied())?;
            ensure(operator.folds(), Flaw::Operator(*operator))?;
            ensure(operator.takes(operation.dtype), Flaw::WrongDType)?;
            Cow::Borrowed(first)
        }
        OpKind::Add { operator } => {
            ensure(operator.folds(), Flaw::Operator(*operator))?;
            ensure(operator.takes(operation.dtype), Flaw::WrongDType)?;
            operands().try_for_each(|other| equal_extents(first, &other.extents))?;
            Cow::Borrowed(first)
        }
        OpKind::Assemble { view, places, .. } => {
            for (place, piece) in places.iter().zip(operands()) {
                equal_extents(&check_region(mesh, &operation.extents, view, place)?, &piece.extents)?;
            }
            Cow::Borrowed(operation.extents.as_slice())
        }
    };
    ensure(operands().all(|operand| operand.dtype == operation.dtype), Flaw::WrongDType)?;
    equal_extents(&result, &operation.extents)
}

fn check_input(schedule: &Schedule, operation: &Operation, array: ArrayId, sharding: &Sharding) -> Result<(), Flaw> {
    let shard = local_extents(schedule, array, sharding)?;
    let dense = schedule.array(array);
    ensure(dense.definition.is_input(), Flaw::NotAnInput)?;
    ensure(dense.dtype == operation.dtype, Flaw::WrongDType)?;
    equal_extents(&shard, &operation.extents)
}

fn gathered(extents: &[u64], dim: usize, count: u64) -> Result<Vec<u64>, Flaw> {
    let mut extents = extents.to_vec();
    let extent = extents.get_mut(dim).ok_or(Flaw::UnknownDim(dim))?;
    let longer = extent.checked_mul(count);
    *extent = longer.ok_or_else(|| Flaw::Extents(vec![*extent, count]))?;
    Ok(extents)
}

fn check_shuffle(mesh: &Mesh, sources: &Sources, route: Route) -> Result<(), Flaw> {
    match sources {
        Sources::Shift { axes, by, wrap } => {
            check_axes(mesh, axes.iter())?;
            ensure(!axes.is_empty(), Flaw::Sources)?;
            let n = i64::try_from(axes.group_size(mesh)).map_err(|_| Flaw::Sources)?;
            ensure((1 - n..n).contains(by), Flaw::Sources)?;
            match route {
                Route::Shortest => Ok(()),
                Route::Hops(hops) => {
                    let leads = if *wrap { hops.checked_add(*by).is_some_and(|sum| sum % n == 0) } else { hops == -by };
                    ensure(leads && (1 - n..n).contains(&hops), Flaw::Route { hops })
                }
            }
        }
        Sources::Table { axes, entries } => {
            check_axes(mesh, axes.iter().copied())?;
            check_permutation(entries, mesh.group_size(axes.iter().copied()))?;
            match route {
                Route::Shortest => Ok(()),
                // Along one axis, and as far for all.
                Route::Hops(hops) => {
                    let n = i64::try_from(entries.len()).map_err(|_| Flaw::Sources)?;
                    let leads = |(to, from): (i64, &Option<u32>)| {
                        from.is_none_or(|from| (to - i64::from(from) - hops) % n == 0)
                    };
                    let leads = axes.len() == 1 && (1 - n..n).contains(&hops) && (0..).zip(entries).all(leads);
                    ensure(leads, Flaw::Route { hops })
                }
            }
        }
    }
}

/// Checks for one entry per rank, each below `n` and used once.
fn check_permutation(entries: &[Option<u32>], n: u64) -> Result<(), Flaw> {
    ensure(entries.len() as u64 == n, Flaw::Sources)?;
    let mut used = vec![false; entries.len()];
    for source in entries.iter().flatten() {
        match used.get_mut(*source as usize) {
            Some(used) if !*used => *used = true,
            Some(_) | None => return Err(Flaw::Sources),
        }
    }
    Ok(())
}
