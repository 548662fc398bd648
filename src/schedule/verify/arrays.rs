//! Verification of the dense computation.

use super::{Flaw, MOST_DIMS, check_extents, ensure, equal_extents};
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::escape::is_steering;
use crate::function::Function;
use crate::kernel::{Formula, Kernel, Local};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Dense, Schedule};
use crate::supply::Supply;
use itertools::Itertools;

pub(super) fn check(schedule: &Schedule, index: usize) -> Result<(), Flaw> {
    let array = &schedule.arrays[index];
    let wrong = std::iter::once(&array.name).chain(&array.dims).find(|name| name.contains(is_steering));
    wrong.map_or(Ok(()), |name| Err(Flaw::Name(name.clone())))?;
    check_extents(&array.extents)?;
    let (names, extents) = (array.dims.len(), array.extents.len());
    ensure(names == extents, Flaw::Names { names, extents })?;
    let fits = array.valid.len() == extents
        && array.valid.iter().zip(&array.extents).all(|(valid, extent)| (1..=*extent).contains(valid));
    ensure(fits, Flaw::Padding)?;
    let operands = operands(schedule, index, array.definition.operands())?;
    let valid: Vec<&[u64]> = operands.iter().map(|operand| operand.valid.as_slice()).collect();
    let extents: Vec<&[u64]> = operands.iter().map(|operand| operand.extents.as_slice()).collect();
    let dtypes: Vec<DType> = operands.iter().map(|operand| operand.dtype).collect();
    match &array.definition {
        Dense::Input { supply: Supply::Counted } => {
            ensure(matches!(array.dtype, DType::I32 | DType::I64), Flaw::WrongDType)?;
            ensure(names == 1, Flaw::Einsum)
        }
        Dense::Input { supply: Supply::Table(table) } => {
            ensure(array.dtype == DType::I32, Flaw::WrongDType)?;
            let count = array.valid.iter().try_fold(1u64, |count, size| count.checked_mul(*size));
            ensure(count == Some(table.elements().len() as u64), Flaw::Table)
        }
        Dense::Input { .. } => Ok(()),
        Dense::Reduce { operator, einsum, .. } => {
            check_reduce(*operator, &dtypes, array.dtype)?;
            equal_extents(&result_extents(einsum, &extents)?, &array.extents)?;
            ensure(result_extents(einsum, &valid).is_ok_and(|valid| valid == array.valid), Flaw::Padding)
        }
        Dense::Product { einsum, .. } => {
            check_product(&dtypes, array.dtype)?;
            equal_extents(&result_extents(einsum, &extents)?, &array.extents)?;
            ensure(result_extents(einsum, &valid).is_ok_and(|valid| valid == array.valid), Flaw::Padding)
        }
        Dense::Kernel { kernel, .. } => {
            let lengths = check_kernel(kernel, &extents, &dtypes, array.dtype)?;
            ensure(lengths == kernel.lengths, Flaw::Einsum)?;
            equal_extents(&kernel.result(&lengths), &array.extents)?;
            // Only dims that stay sharded element by element may have padding.
            let is_kept = |index: &Index| kernel.sharded[usize::from(*index)] && kernel.einsum.result.contains(index);
            let words = kernel.einsum.operands.iter().zip(&operands).map(|(word, operand)| (word, *operand));
            let all = words.chain([(&kernel.einsum.result, array)]);
            let padded = all.flat_map(|(word, of)| word.iter().zip(of.extents.iter().zip(&of.valid)));
            let mut padded = padded.filter(|(_, (extent, valid))| extent != valid).map(|(index, _)| index);
            ensure(padded.all(is_kept), Flaw::Padding)
        }
        Dense::Map { function, einsum, .. } => {
            let wanted = map_extents(*function, einsum, &extents)?;
            ensure(function.dtype(&dtypes) == Some(array.dtype), Flaw::WrongDType)?;
            equal_extents(&wanted, &array.extents)?;
            ensure(map_extents(*function, einsum, &valid).is_ok_and(|valid| valid == array.valid), Flaw::Padding)
        }
    }
}

fn operands<'a>(schedule: &'a Schedule, index: usize, ids: &[ArrayId]) -> Result<Vec<&'a Array>, Flaw> {
    let known = |id: &ArrayId| schedule.arrays[..index].get(id.index()).ok_or(Flaw::UnknownArray(id.0));
    ids.iter().map(known).collect()
}

/// Checks two factors and the dtype of their product.
pub(super) fn check_product(dtypes: &[DType], result: DType) -> Result<(), Flaw> {
    match dtypes {
        [left, right] => {
            let product = left.product(*right).ok_or(Flaw::WrongDType)?;
            ensure(result != DType::Bool && (result.is_float() || !product.is_float()), Flaw::WrongDType)
        }
        _ => Err(Flaw::OperandCount { wanted: 2, found: dtypes.len() }),
    }
}

/// Checks the operand of a reduction and the dtype of the result.
pub(super) fn check_reduce(operator: Operator, dtypes: &[DType], result: DType) -> Result<(), Flaw> {
    match dtypes {
        [one] => {
            ensure(operator.folds(), Flaw::Operator(operator))?;
            ensure(operator.takes(*one) && operator.reduced(*one) == result, Flaw::WrongDType)
        }
        _ => Err(Flaw::OperandCount { wanted: 1, found: dtypes.len() }),
    }
}

/// Checks a declared kernel and its operands; returns the length of each index on these blocks.
pub(super) fn check_kernel(
    kernel: &Kernel,
    extents: &[&[u64]],
    dtypes: &[DType],
    result: DType,
) -> Result<Vec<u64>, Flaw> {
    let einsum = &kernel.einsum;
    let indices = einsum.index_count();
    let named = kernel.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '\''));
    let fits = named
        && is_numbered(einsum.operands.iter().chain([&einsum.result]))
        && kernel.lengths.len() == indices
        && kernel.sharded.len() == indices
        && !kernel.lengths.contains(&0)
        && einsum.operands.len() == extents.len();
    // New dims of the result are whole.
    let has_source = |index: Index| einsum.operands.iter().flatten().any(|known| *known == index);
    let sharded = (0..).zip(&kernel.sharded).filter(|(_, sharded)| **sharded);
    ensure(fits && sharded.map(|(index, _)| index).all(has_source), Flaw::Einsum)?;
    let extents: Vec<Vec<u64>> = extents.iter().map(|extents| extents.to_vec()).collect();
    let lengths = kernel.block(&extents).ok_or(Flaw::Einsum)?;
    if let Some(formula) = &kernel.formula {
        let (computed, dtype) = check_formula(formula, extents, dtypes)?;
        equal_extents(&kernel.result(&lengths), &computed)?;
        ensure(dtype == result, Flaw::WrongDType)?;
    }
    Ok(lengths)
}

/// Checks a formula on operands of these extents and dtypes; returns those of its result.
fn check_formula(formula: &Formula, extents: Vec<Vec<u64>>, dtypes: &[DType]) -> Result<(Vec<u64>, DType), Flaw> {
    let mut values: Vec<(Vec<u64>, DType)> = extents.into_iter().zip(dtypes.iter().copied()).collect();
    let unknown = |value: usize| Flaw::UnknownValue(value);
    for step in &formula.steps {
        let operands = step.operands.iter().map(|operand| values.get(*operand).ok_or(unknown(*operand)));
        let operands: Vec<&(Vec<u64>, DType)> = operands.collect::<Result<_, _>>()?;
        let extents: Vec<&[u64]> = operands.iter().map(|(extents, _)| extents.as_slice()).collect();
        let dtypes: Vec<DType> = operands.iter().map(|(_, dtype)| *dtype).collect();
        let made = match &step.op {
            Local::Product(einsum) => {
                check_product(&dtypes, step.dtype)?;
                result_extents(einsum, &extents)?
            }
            Local::Reduce(operator, einsum) => {
                check_reduce(*operator, &dtypes, step.dtype)?;
                result_extents(einsum, &extents)?
            }
            Local::Map(function, einsum) => {
                ensure(!matches!(function, Function::Fill { .. }), Flaw::Padding)?;
                ensure(function.dtype(&dtypes) == Some(step.dtype), Flaw::WrongDType)?;
                map_extents(*function, einsum, &extents)?
            }
        };
        check_extents(&made)?;
        values.push((made, step.dtype));
    }
    values.get(formula.result).cloned().ok_or(unknown(formula.result))
}

/// Whether indices are numbered by first appearance and distinct in each word.
fn is_numbered<'a>(mut words: impl Iterator<Item = &'a Vec<Index>>) -> bool {
    let mut known = 0;
    words.all(|word| {
        let once = word.iter().enumerate().all(|(place, index)| !word[..place].contains(index));
        let numbered = word.iter().all(|index| {
            known += usize::from(usize::from(*index) == known);
            usize::from(*index) < known
        });
        once && numbered && word.len() <= MOST_DIMS && known <= MOST_DIMS
    })
}

/// Checks the extents of an elementwise result, which has every index of the operands.
pub(super) fn map_extents(function: Function, einsum: &Einsum, extents: &[&[u64]]) -> Result<Vec<u64>, Flaw> {
    let (wanted, found) = (function.arity(), extents.len());
    ensure(wanted == found, Flaw::OperandCount { wanted, found })?;
    ensure(einsum.operands.iter().flatten().all(|index| einsum.result.contains(index)), Flaw::Einsum)?;
    let result = result_extents(einsum, extents)?;
    match function {
        Function::Softmax { dim } => ensure(usize::from(dim) < result.len(), Flaw::UnknownDim(usize::from(dim)))?,
        Function::Fill { dim, valid, .. } => {
            ensure(usize::from(dim) < result.len(), Flaw::UnknownDim(usize::from(dim)))?;
            ensure(valid > 0, Flaw::Padding)?;
        }
        Function::Shift(shift) => {
            let length = *result.get(shift.dim()).ok_or(Flaw::UnknownDim(shift.dim()))?;
            ensure((1..=length).contains(&shift.by.unsigned_abs()), Flaw::Shift)?;
        }
        Function::Over(n) => ensure(n > 0, Flaw::Einsum)?,
        Function::ByNumber(..) | Function::Masked(_) | Function::IsNumber(..) => {
            ensure(function.number().is_some_and(|c| !c.is_nan()), Flaw::Einsum)?;
        }
        Function::Identity
        | Function::Unary(_)
        | Function::Binary(_)
        | Function::Is(_)
        | Function::Where
        | Function::Cast(_) => {}
    }
    Ok(result)
}

/// Extents of the result of an einsum that matches its operands.
pub(super) fn result_extents(einsum: &Einsum, extents: &[&[u64]]) -> Result<Vec<u64>, Flaw> {
    ensure(einsum.operands.len() == extents.len() && is_canonical(einsum), Flaw::Einsum)?;
    let extents: Vec<Vec<u64>> = extents.iter().map(|extents| extents.to_vec()).collect();
    let lengths = einsum.lengths(&extents).ok_or(Flaw::Einsum)?;
    Ok(einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect())
}

/// Checks that indices are numbered by first appearance, distinct in each word, and known in the result.
fn is_canonical(einsum: &Einsum) -> bool {
    // The result comes last and may not open a new number.
    is_numbered(einsum.operands.iter().chain([&einsum.result]))
        && einsum.result.iter().all(|index| einsum.operands.iter().flatten().contains(index))
}
