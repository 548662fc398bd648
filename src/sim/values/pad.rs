//! Padding: added when an input is distributed, filled before it would be read, removed from results. Zeros beside what is
//! shifted.

use super::element::{Element, with_dtype};
use super::tensor::Tensor;
use super::view::{Line, row_major, walk};
use crate::function::Filler;
use crate::shift::Shift;
use std::ops::Range;

/// Pads the array with zeros at the end of each dim. Returned unchanged if nothing is padded.
pub(super) fn padded(whole: &Tensor, extents: &[usize]) -> Tensor {
    if whole.view().extents == extents {
        return whole.clone();
    }
    let (view, strides) = (whole.view(), row_major(extents));
    with_dtype!(whole.dtype(), T => {
        let buffer = whole.buffer::<T>();
        let mut elements = vec![<T as Default>::default(); extents.iter().product()];
        walk(&view.extents, [0, view.offset], [&strides, &view.strides], |Line { starts: [i, j], steps, length }| {
            (0..length).for_each(|n| elements[i + n * steps[0]] = buffer[j + n * steps[1]]);
        });
        Tensor::owned(extents, elements)
    })
}

/// The block with a filler in the lanes of `dim` from `kept` on. Returned unchanged if it has no such lanes.
pub(super) fn filled(block: &Tensor, dim: usize, kept: u64, with: Filler) -> Tensor {
    let extents = block.view().extents.clone();
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    if kept >= extents[dim] {
        return block.clone();
    }
    let (step, length) = (row_major(&extents)[dim], extents[dim]);
    with_dtype!(block.dtype(), T => {
        let filler = filler::<T>(with);
        let mut elements: Vec<T> = block.collect(|element: T| element);
        for (place, element) in elements.iter_mut().enumerate() {
            if place / step % length >= kept {
                *element = filler;
            }
        }
        Tensor::owned(&extents, elements)
    })
}

/// The elements of a whole array, moved along a dim.
pub(super) fn shifted(whole: &Tensor, shift: Shift) -> Tensor {
    let extents = whole.view().extents.clone();
    let (step, length) = (row_major(&extents)[shift.dim()], extents[shift.dim()]);
    let from = |place: usize| {
        let row = place / step % length;
        // Each element is a block.
        let from = shift.source(row as u64, shift.by.unsigned_abs(), length as u64)?;
        Some(place - row * step + usize::try_from(from).ok()? * step)
    };
    with_dtype!(whole.dtype(), T => {
        let elements: Vec<T> = whole.collect(|element: T| element);
        let moved = (0..elements.len()).map(|place| from(place).map_or_else(T::default, |from| elements[from]));
        let moved = moved.collect();
        Tensor::owned(&extents, moved)
    })
}

/// The block with zeros outside of these positions of a dim.
pub(super) fn zeroed_but(block: &Tensor, dim: usize, kept: &Range<u64>) -> Tensor {
    let extents = block.view().extents.clone();
    let (step, length) = (row_major(&extents)[dim], extents[dim]);
    if *kept == (0..length as u64) {
        return block.clone();
    }
    with_dtype!(block.dtype(), T => {
        let mut elements: Vec<T> = block.collect(|element: T| element);
        for (place, element) in elements.iter_mut().enumerate() {
            if !kept.contains(&((place / step % length) as u64)) {
                *element = T::default();
            }
        }
        Tensor::owned(&extents, elements)
    })
}

/// A block of zeros with the same shape and dtype.
pub(super) fn zeros(block: &Tensor) -> Tensor {
    let extents = block.view().extents.clone();
    let count = extents.iter().product();
    with_dtype!(block.dtype(), T => Tensor::owned(&extents, vec![T::default(); count]))
}

fn filler<T: Element>(with: Filler) -> T {
    match with {
        Filler::Zero => T::default(),
        Filler::One => T::from_f64(1.0),
        // The ends of 64-bit integers saturate.
        Filler::Least => T::from_f64(T::DTYPE.ends()[0]),
        Filler::Greatest => T::from_f64(T::DTYPE.ends()[1]),
    }
}

/// A range of each dim.
type Ranges = Vec<Range<u64>>;

/// The part of a box that is not padding, in the array and in the block that fills the box; `None` if it is empty.
pub(super) fn valid_part(ranges: &[Range<u64>], valid: &[u64]) -> Option<(Ranges, Ranges)> {
    let kept: Vec<Range<u64>> =
        ranges.iter().zip(valid).map(|(range, valid)| range.start..range.end.min(*valid)).collect();
    let own = ranges.iter().zip(&kept).map(|(range, kept)| 0..kept.end.saturating_sub(range.start)).collect();
    kept.iter().all(|range| range.start < range.end).then_some((kept, own))
}
