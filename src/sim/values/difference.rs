//! Differences of blocks.

use super::element::{Element, with_dtype};
use super::tensor::Tensor;
use super::view::{Line, walk};

/// The largest difference of two blocks of one shape and dtype.
pub(super) fn largest_difference(expected: &Tensor, found: &Tensor) -> f64 {
    let mut largest: f64 = 0.0;
    let (a, b) = (expected.view(), found.view());
    with_dtype!(expected.dtype(), T => {
        let (left, right) = (expected.buffer::<T>(), found.buffer::<T>());
        walk(&a.extents, [a.offset, b.offset], [&a.strides, &b.strides], |Line { starts: [i, j], steps, length }| {
            for n in 0..length {
                let (x, y) = (left[i + n * steps[0]], right[j + n * steps[1]]);
                if x != y {
                    largest = largest.max(difference(x, y));
                }
            }
        });
    });
    largest
}

/// The distance of two different elements; 0 for two NaNs, infinite if only one side is finite.
pub(super) fn difference<T: Element>(x: T, y: T) -> f64 {
    if !T::DTYPE.is_float() {
        // Above 2^53 the difference of two integers may be rounded to f64, but it does not become 0.
        let (signed, unsigned) = (x.to_i64().abs_diff(y.to_i64()), x.to_u64().abs_diff(y.to_u64()));
        return if T::DTYPE.is_unsigned() { unsigned } else { signed } as f64;
    }
    let (x, y) = (x.to_f64(), y.to_f64());
    match (x.is_nan(), y.is_nan()) {
        (true, true) => 0.0,
        (false, false) if x.is_finite() && y.is_finite() => (x - y).abs(),
        _ => f64::INFINITY,
    }
}
