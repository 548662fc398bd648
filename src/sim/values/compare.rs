//! Compares the outputs on the devices with the dense computation.

use super::difference::{difference, largest_difference};
use super::element::{Element, with_dtype};
use super::enclose;
use super::error::RunError;
use super::input::Inputs;
use super::pad::valid_part;
use super::run::{Run, Shard};
use super::tensor::Tensor;
use super::view::{Line, walk};
use crate::schedule::{ArrayId, Schedule, verify};
use std::collections::BTreeMap;
use std::ops::Range;

/// Agreement of the outputs with the dense computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numerics {
    /// Whether all elements of all shards are equal; NaNs are equal to each other.
    pub equal: bool,
    /// The largest difference of comparable elements; infinite where only one side is a number.
    pub max_abs_error: f64,
    /// The largest relative difference; where the element is 0, relative to the array's largest element.
    pub max_rel_error: f64,
    /// Number of output elements. Replicas are compared but not counted.
    pub elements: u64,
    /// Number of differing elements for which a comparison is inconclusive: they may overflow, or their rounding
    /// error may reach the array's largest element.
    pub not_compared: u64,
    /// Whether all other differences are within the element's tolerance. For integers computed from integers, the
    /// tolerance is 0.
    pub within: bool,
    /// The tolerance of the element with the largest error, or of the one that exceeds its tolerance most.
    pub tolerance: f64,
}

/// Compares every replica of every output with the dense arrays, excluding padding.
///
/// # The tolerance
/// Another order of additions rounds differently. A running error analysis bounds this effect for each element, on
/// both sides: each number is accompanied by a bound on its distance from the exact value. For a sum of n numbers
/// this is `gamma_(n-1)` times the sum of their magnitudes, in any order, plus the bounds of the numbers. Products
/// and functions propagate the bounds. The tolerance of an element is the sum of its bounds in the dense computation
/// and in the schedule. So a proven schedule is never reported as wrong. If the bound is as large as the largest
/// number of the array, or infinite because an intermediate result may overflow, the comparison is inconclusive and
/// [counted](Numerics::not_compared). Integers must be equal, unless they are cast from floats.
///
/// # Errors
/// If the schedule is malformed, or a device lacks its shard.
///
/// # Panics
/// If the dense arrays or the run belong to another schedule.
pub fn compare(schedule: &Schedule, inputs: &Inputs, dense: &[Tensor], run: &Run) -> Result<Numerics, RunError> {
    let schedule = verify(schedule)?;
    let mut outputs = Vec::with_capacity(schedule.outputs.len());
    for place in 0..schedule.outputs.len() {
        outputs.push(pairs(&schedule, dense, run, place)?);
    }
    let elements = schedule.outputs.iter().map(|output| dense[output.array.index()].elements()).sum();
    let equal = outputs.iter().flatten().all(|pair| pair.is_equal());
    let mut numerics = Numerics {
        equal,
        max_abs_error: 0.0,
        max_rel_error: 0.0,
        elements,
        not_compared: 0,
        within: true,
        tolerance: 0.0,
    };
    if equal {
        return Ok(numerics);
    }
    let of_dense = enclose::of_dense(&schedule, dense);
    let of_run = enclose::of_run(schedule, inputs)?;
    let mut furthest: f64 = 1.0;
    for (place, (output, pairs)) in schedule.outputs.iter().zip(&outputs).enumerate() {
        let (whole, bound) = (&dense[output.array.index()], &of_dense[output.array.index()]);
        let largest = largest(whole);
        // Keyed by box: an element that is inconclusive in one replica may be conclusive in another.
        let mut unclear: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
        for pair in pairs {
            let expected = bound.slice(&pair.ranges).expect("there is a bound for each element");
            let found = match &of_run {
                Some(bounds) => bounds[place][pair.shard].slice(&pair.own).expect("there is a bound for each element"),
                None => unbounded(whole.dtype().is_float(), &pair.own),
            };
            let mut count = 0;
            pair.differences([&expected, &found], |Difference { error, magnitude, tolerance }| {
                if error <= tolerance && tolerance >= largest {
                    count += 1;
                    return;
                }
                let relative = error / if magnitude > 0.0 { magnitude } else { largest };
                numerics.max_rel_error = numerics.max_rel_error.max(relative);
                if error > numerics.max_abs_error {
                    numerics.max_abs_error = error;
                    if numerics.within {
                        numerics.tolerance = tolerance;
                    }
                }
                if error > tolerance && (numerics.within || error / tolerance > furthest) {
                    (numerics.within, numerics.tolerance, furthest) = (false, tolerance, error / tolerance);
                }
            });
            let known = unclear.entry(pair.ranges.iter().map(|range| range.start).collect()).or_default();
            *known = count.max(*known);
        }
        numerics.not_compared += unclear.values().sum::<u64>();
    }
    Ok(numerics)
}

/// A shard without its padding, and the corresponding part of the dense array.
struct Pair {
    /// Index among the shards of its output.
    shard: usize,
    /// The box in the array, and in the block.
    ranges: Vec<Range<u64>>,
    own: Vec<Range<u64>>,
    expected: Tensor,
    found: Tensor,
}

/// Two elements that differ.
struct Difference {
    error: f64,
    /// Magnitude of the dense element.
    magnitude: f64,
    tolerance: f64,
}

/// The shards of an output.
fn pairs(schedule: &Schedule, dense: &[Tensor], run: &Run, place: usize) -> Result<Vec<Pair>, RunError> {
    let id: ArrayId = schedule.outputs[place].array;
    let array = schedule.array(id);
    let whole = &dense[id.index()];
    let mut pairs = Vec::new();
    for (shard, Shard { ranges, block, .. }) in run.closed(place)?.into_iter().enumerate() {
        let Some((ranges, own)) = valid_part(&ranges, &array.valid) else { continue };
        let found = block.slice(&own).expect("a part of the block");
        let expected = whole.slice(&ranges).expect("the dense array is that of the schedule");
        assert_eq!(expected.dtype(), found.dtype(), "the dense array is that of the schedule");
        pairs.push(Pair { shard, ranges, own, expected, found });
    }
    Ok(pairs)
}

impl Pair {
    fn is_equal(&self) -> bool {
        largest_difference(&self.expected, &self.found) == 0.0
    }

    /// Visits each pair of differing elements. The tolerance is the sum of the two bounds.
    fn differences(&self, [first, second]: [&Tensor; 2], mut see: impl FnMut(Difference)) {
        let tensors = [&self.expected, &self.found, first, second];
        let (offsets, strides) =
            (tensors.map(|tensor| tensor.view().offset), tensors.map(|tensor| &tensor.view().strides[..]));
        let bounds = [first.buffer::<f64>(), second.buffer::<f64>()];
        with_dtype!(self.expected.dtype(), T => {
            let (left, right) = (self.expected.buffer::<T>(), self.found.buffer::<T>());
            walk(&self.expected.view().extents, offsets, strides, |Line { starts: [i, j, k, l], steps, length }| {
                for n in 0..length {
                    let (x, y) = (left[i + n * steps[0]], right[j + n * steps[1]]);
                    let error = if x == y { 0.0 } else { difference(x, y) };
                    if error > 0.0 {
                        let tolerance = bounds[0][k + n * steps[2]] + bounds[1][l + n * steps[3]];
                        see(Difference { error, magnitude: Element::to_f64(x).abs(), tolerance });
                    }
                }
            });
        });
    }
}

/// Bounds if there is no memory for an analysis: infinite for floats.
fn unbounded(is_float: bool, own: &[Range<u64>]) -> Tensor {
    let extents: Vec<u64> = own.iter().map(|range| range.end - range.start).collect();
    let count = extents.iter().product::<u64>();
    let bound = if is_float { f64::INFINITY } else { 0.0 };
    let bounds = vec![bound; usize::try_from(count).unwrap_or(0)];
    Tensor::from_vec(&extents, bounds).expect("as many as the box has")
}

/// The largest finite magnitude of an array.
fn largest(tensor: &Tensor) -> f64 {
    tensor.to_f64s().into_iter().map(f64::abs).filter(|size| size.is_finite()).fold(0.0, f64::max)
}
