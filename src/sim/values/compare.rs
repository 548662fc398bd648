//! What the devices arrived at, held against the dense computation.

use super::element::{Element, with_dtype};
use super::error::RunError;
use super::input::Inputs;
use super::pad::valid_part;
use super::run::{Run, Shard};
use super::tensor::Tensor;
use super::view::{Line, walk};
use crate::dtype::DType;
use crate::function::Function;
use crate::schedule::{ArrayId, Dense, Schedule};

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

/// Holds every replica of every output against the dense arrays, padding left out.
///
/// # The tolerance
/// An order of additions other than the dense one rounds differently. How much that matters is measured: the dense
/// computation is done once more in f64, and what the dtype's own dense result is off by there is what rounding costs
/// (of an f64, what an f32 is off by, times the ratio of the roundoffs, 2^-29). Another order may be off by 16 times as much. Where the dense result happens to be exact, partial sums
/// may still have been rounded: each device of the mesh may add one roundoff of the largest magnitude (u = 2^-8 for
/// bf16, 2^-11 for f16, 2^-24 and 2^-53 for f32 and f64). Integers have to be equal.
///
/// # Errors
/// A device without its shard, or a dense array for each of the schedule's is missing.
pub fn compare(schedule: &Schedule, inputs: &Inputs, dense: &[Tensor], run: &Run) -> Result<Numerics, RunError> {
    let mut numerics =
        Numerics { equal: true, max_abs_error: 0.0, max_rel_error: 0.0, elements: 0, within: true, tolerance: 0.0 };
    let missing = |id: ArrayId| RunError::array(&schedule.array(id).name, "its dense result is another");
    let mut errors = Vec::with_capacity(schedule.outputs.len());
    for (place, output) in schedule.outputs.iter().enumerate() {
        let Some(whole) = dense.get(output.array.index()) else {
            return Err(RunError::array(&schedule.array(output.array).name, "there is no dense result"));
        };
        let mut error: f64 = 0.0;
        for Shard { ranges, block, .. } in run.closed(place)? {
            let Some((ranges, own)) = valid_part(&ranges, &schedule.array(output.array).valid) else { continue };
            let block = block.slice(&own).ok_or_else(|| missing(output.array))?;
            let expected = whole.slice(&ranges).filter(|part| part.dtype() == block.dtype());
            let expected = expected.ok_or_else(|| missing(output.array))?;
            let (absolute, relative) = largest_difference(&expected, &block);
            error = error.max(absolute);
            // An element that should be 0 has no magnitude of its own.
            let relative =
                if relative.is_infinite() && absolute.is_finite() { absolute / largest(whole) } else { relative };
            numerics.max_rel_error = numerics.max_rel_error.max(relative);
        }
        numerics.max_abs_error = numerics.max_abs_error.max(error);
        numerics.elements += whole.elements();
        errors.push((output.array, error));
    }
    numerics.equal = errors.iter().all(|(_, error)| *error == 0.0);
    if !numerics.equal {
        let precise = with_floats(schedule, inputs, DType::F64)?;
        let coarse = with_floats(schedule, inputs, DType::F32)?;
        let mut closest = -1.0;
        for (array, error) in errors {
            let (own, precise) = (&dense[array.index()], &precise[array.index()]);
            let measured = match own.dtype() {
                DType::F64 => distance(&coarse[array.index()], precise) * roundoff(DType::F64) / roundoff(DType::F32),
                DType::F32 | DType::Bf16 | DType::F16 => distance(own, precise),
                DType::Bool | DType::I8 | DType::I32 | DType::I64 => 0.0,
            };
            let partials = (schedule.mesh.device_count() as f64) * roundoff(own.dtype()) * largest(own);
            let tolerance = ROUNDINGS * measured + partials;
            numerics.within &= error <= tolerance;
            let share = if error == 0.0 { 0.0 } else { error / tolerance };
            if share > closest {
                (closest, numerics.tolerance) = (share, tolerance);
            }
        }
    }
    Ok(numerics)
}

/// How often the measured roundoff another order of additions may cost.
const ROUNDINGS: f64 = 16.0;

/// The largest finite difference of two arrays; a NaN or an infinity in a narrow dtype leaves nothing to hold it against.
fn distance(own: &Tensor, precise: &Tensor) -> f64 {
    let differences = own.to_f64s().into_iter().zip(precise.to_f64s()).map(|(own, precise)| (own - precise).abs());
    differences.filter(|difference| difference.is_finite()).fold(0.0, f64::max)
}

/// The dense computation with every float in this dtype.
fn with_floats(schedule: &Schedule, inputs: &Inputs, float: DType) -> Result<Vec<Tensor>, RunError> {
    let cast = |dtype: DType| if dtype.is_float() { float } else { dtype };
    let mut precise = Schedule::new(schedule.mesh.clone());
    precise.arrays = schedule.arrays.clone();
    for array in &mut precise.arrays {
        array.dtype = cast(array.dtype);
        if let Dense::Map { function: Function::Cast(dtype), .. } = &mut array.definition {
            *dtype = cast(*dtype);
        }
    }
    let widened = |(id, tensor): (&ArrayId, &Tensor)| {
        let precise = match cast(tensor.dtype()) {
            dtype if dtype == tensor.dtype() => Some(tensor.clone()),
            dtype => Tensor::from_floats(dtype, &tensor.extents(), &tensor.to_f64s()),
        };
        Some((*id, precise?))
    };
    let inputs: Option<Inputs> = inputs.iter().map(widened).collect();
    super::dense(&precise, &inputs.ok_or_else(|| RunError::array("the inputs", "they are not addressable"))?)
}

/// The largest finite magnitude of an array.
fn largest(tensor: &Tensor) -> f64 {
    tensor.to_f64s().into_iter().map(f64::abs).filter(|size| size.is_finite()).fold(0.0, f64::max)
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
