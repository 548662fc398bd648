//! What the devices arrived at, held against the dense computation.

use super::element::{Element, with_dtype};
use super::error::RunError;
use super::run::{Run, Shard};
use super::tensor::Tensor;
use super::view::{Line, walk};
use crate::dtype::DType;
use crate::function::{Function, Scalar};
use crate::schedule::{ArrayId, Dense, OpKind, Schedule};

/// How close the outputs are to the dense computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numerics {
    /// Whether every element of every shard is the same number; a NaN is equal to a NaN.
    pub equal: bool,
    /// The largest difference; infinite where only one side is a number.
    pub max_abs_error: f64,
    /// The largest difference over the magnitude of the element, or of the array's largest where the element is 0.
    pub max_rel_error: f64,
    /// How many elements the outputs have; a replica is compared but not counted.
    pub elements: u64,
    /// Whether every difference is within the tolerance of its output. Of integers from integers, that is equality.
    pub within: bool,
    /// The tolerance of the output that comes closest to its own, or breaks it furthest.
    pub tolerance: f64,
}

/// Holds every replica of every output against the dense arrays.
///
/// # The tolerance
/// An order of additions other than the dense one rounds differently. With `u` the unit roundoff (2^-8 for bf16,
/// 2^-11 for f16, 2^-24 and 2^-53 for f32 and f64), an array may be off by
///
/// - nothing, for an input; `2 n u` times its largest magnitude if it comes as an open sum of n parts;
/// - for a product over K terms on n devices, `(K u_acc + (min(K, n) + 1) u) S` and what the operands are off by,
///   times the other's root mean square times 2 root K. Each of K additions in the accumulator, and each of at most
///   min(K, n) partial results on the way, is rounded once, relative to a partial sum. `S` is the larger of the largest
///   magnitude of the result and root K times the operands' root mean squares, the size of a sum of K products of
///   either sign: a partial sum has no reason to be larger;
/// - for a function, what its operands are off by times its slope, and 4 u of its largest magnitude.
///
/// The tolerance of an output is twice that for the two sides of the comparison. A contribution left out or counted
/// twice is off by a share of about 1 / root n of the result itself, which is far more.
///
/// # Errors
/// A device without its shard, or a dense array for each of the schedule's is missing.
pub fn compare(schedule: &Schedule, dense: &[Tensor], run: &Run) -> Result<Numerics, RunError> {
    let slack = slack(schedule, dense);
    let mut numerics =
        Numerics { equal: true, max_abs_error: 0.0, max_rel_error: 0.0, elements: 0, within: true, tolerance: 0.0 };
    let mut closest = -1.0;
    for (place, output) in schedule.outputs.iter().enumerate() {
        let (Some(whole), Some(slack)) = (dense.get(output.array.index()), slack.get(output.array.index())) else {
            return Err(RunError::array(&schedule.array(output.array).name, "there is no dense result"));
        };
        let largest = magnitude(whole).largest;
        let tolerance = 2.0 * slack;
        let mut error: f64 = 0.0;
        for Shard { ranges, block, .. } in run.closed(place)? {
            let expected = whole.slice(&ranges).filter(|part| part.dtype() == block.dtype());
            let expected = expected
                .ok_or_else(|| RunError::array(&schedule.array(output.array).name, "its dense result is another"))?;
            let (absolute, relative) = largest_difference(&expected, &block);
            error = error.max(absolute);
            // An element that should be 0 has no magnitude of its own.
            let relative = if relative.is_infinite() && absolute.is_finite() { absolute / largest } else { relative };
            numerics.max_rel_error = numerics.max_rel_error.max(relative);
        }
        numerics.equal &= error == 0.0;
        numerics.within &= error <= tolerance;
        numerics.max_abs_error = numerics.max_abs_error.max(error);
        numerics.elements += whole.elements();
        let share = if error == 0.0 { 0.0 } else { error / tolerance };
        if share > closest {
            (closest, numerics.tolerance) = (share, tolerance);
        }
    }
    Ok(numerics)
}

/// The largest difference of two blocks of one shape and dtype, and the largest relative to the element of the first.
pub(super) fn largest_difference(expected: &Tensor, found: &Tensor) -> (f64, f64) {
    let (mut absolute, mut relative): (f64, f64) = (0.0, 0.0);
    let (a, b) = (expected.view(), found.view());
    with_dtype!(expected.dtype(), T => {
        let (left, right) = (expected.buffer::<T>(), found.buffer::<T>());
        walk(&a.extents, [a.offset, b.offset], [&a.strides, &b.strides], |Line { starts: [i, j], steps, length }| {
            for n in 0..length {
                let (x, y) = (left[i + n * steps[0]], right[j + n * steps[1]]);
                if x != y {
                    let error = difference(x, y);
                    absolute = absolute.max(error);
                    relative = relative.max(if error == 0.0 { 0.0 } else { error / Element::to_f64(x).abs() });
                }
            }
        });
    });
    (absolute, relative)
}

/// How far two different elements are apart; 0 for two NaNs, infinite where only one side is finite.
fn difference<T: Element>(x: T, y: T) -> f64 {
    if !T::DTYPE.is_float() {
        // Beyond 2^53 the difference of two i64 may be lost in an f64, but not that there is one.
        return x.to_i64().abs_diff(y.to_i64()) as f64;
    }
    let (x, y) = (x.to_f64(), y.to_f64());
    match (x.is_nan(), y.is_nan()) {
        (true, true) => 0.0,
        (false, false) if x.is_finite() && y.is_finite() => (x - y).abs(),
        _ => f64::INFINITY,
    }
}

/// How large the elements of an array are.
#[derive(Clone, Copy, Debug, Default)]
struct Magnitude {
    largest: f64,
    /// Root mean square.
    typical: f64,
    smallest: f64,
}

fn magnitude(tensor: &Tensor) -> Magnitude {
    let (mut largest, mut smallest, mut squares): (f64, f64, f64) = (0.0, f64::INFINITY, 0.0);
    with_dtype!(tensor.dtype(), T => tensor.visit(|element: T| {
        let size = Element::to_f64(element).abs();
        if size.is_finite() {
            largest = largest.max(size);
            smallest = smallest.min(size);
            squares += size * size;
        }
    }));
    Magnitude { largest, typical: (squares / tensor.elements().max(1) as f64).sqrt(), smallest }
}

/// Half a unit in the last place, relative; 0 for integers.
fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::Bool | DType::I8 | DType::I32 | DType::I64 => 0.0,
        DType::Bf16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        DType::F32 => 2f64.powi(-24),
        DType::F64 => 2f64.powi(-53),
    }
}

/// By how much each array may be off on one side of the comparison.
fn slack(schedule: &Schedule, dense: &[Tensor]) -> Vec<f64> {
    let sizes: Vec<Magnitude> = dense.iter().map(magnitude).collect();
    let mut slack: Vec<f64> = Vec::with_capacity(dense.len());
    for ((id, array), tensor) in (0..).map(ArrayId).zip(&schedule.arrays).zip(dense) {
        let size = sizes[id.index()];
        let own = match &array.definition {
            Dense::Input => 2.0 * open_parts(schedule, id) * roundoff(array.dtype) * size.largest,
            Dense::Product { operands: [a, b], einsum } => {
                let extents = [a, b].map(|operand| dense[operand.index()].extents());
                let inner = einsum.lengths(&extents).map_or(1.0, |lengths| {
                    einsum.contracted().iter().map(|index| lengths[usize::from(*index)] as f64).product()
                });
                let [(a, off_a), (b, off_b)] = [a, b].map(|id| (sizes[id.index()], slack[id.index()]));
                let scale = size.largest.max(inner.sqrt() * a.typical * b.typical);
                let partials = inner.min(schedule.mesh.device_count() as f64);
                let accumulator = roundoff(if array.dtype == DType::F64 { DType::F64 } else { DType::F32 });
                let accumulator = if array.dtype.is_float() { accumulator } else { 0.0 };
                let carried = 2.0 * inner.sqrt() * (off_a * b.typical + a.typical * off_b);
                carried + scale * (inner * accumulator + (partials + 1.0) * roundoff(array.dtype))
            }
            Dense::Map { function, operands, .. } => {
                let operands: Vec<(Magnitude, f64)> =
                    operands.iter().map(|operand| (sizes[operand.index()], slack[operand.index()])).collect();
                let carried = carried(*function, &operands, size, tensor.dtype());
                carried + 4.0 * roundoff(array.dtype) * size.largest
            }
        };
        slack.push(own);
    }
    slack
}

/// The most parts in which an input comes as an open sum; 0 if it comes whole.
fn open_parts(schedule: &Schedule, id: ArrayId) -> f64 {
    let parts = schedule.ids().map(|op| match &schedule.operation(op).kind {
        OpKind::Input { array, sharding } if *array == id && !sharding.open.is_empty() => {
            sharding.open.group_size(&schedule.mesh)
        }
        OpKind::Input { .. }
        | OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::Add { .. }
        | OpKind::Assemble { .. }
        | OpKind::AllGather { .. }
        | OpKind::MatMul { .. }
        | OpKind::Map { .. } => 0,
    });
    parts.max().unwrap_or(0) as f64
}

/// By how much a function is off because its operands are.
fn carried(function: Function, operands: &[(Magnitude, f64)], result: Magnitude, dtype: DType) -> f64 {
    let all: f64 = operands.iter().map(|(_, off)| off).sum();
    if all == 0.0 {
        return 0.0;
    }
    match function {
        Function::Identity
        | Function::Neg
        | Function::Relu
        | Function::Shift(_)
        | Function::Add
        | Function::Sub
        | Function::Tanh
        | Function::Softmax { .. } => all,
        // The steepest place of gelu has slope 1.13.
        Function::Gelu => 1.13 * all,
        Function::Scale(Scalar(c)) => c.abs() * all,
        Function::Exp => result.largest * all,
        Function::Div => match operands {
            [(_, a), (divisor, b)] => (a + result.largest * b) / divisor.smallest,
            _ => all,
        },
        Function::Cast(_) if dtype.is_float() => all,
        // Two floats on either side of a whole number are cut to neighbours.
        Function::Cast(_) => all + 1.0,
    }
}
