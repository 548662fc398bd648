//! Positions of a block's elements in a buffer, and iteration over several blocks at once.

use crate::mesh::{DeviceId, Mesh};
use crate::schedule::{Region, view};
use std::ops::Range;

/// A strided box in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// Place of the first element.
    pub(super) offset: usize,
    /// Length of each dim.
    pub(super) extents: Vec<usize>,
    /// Distance between neighbours along each dim; 0 repeats an element.
    pub(super) strides: Vec<usize>,
}

impl View {
    /// A whole buffer in row-major order.
    pub(super) fn row_major(extents: &[usize]) -> View {
        View { offset: 0, extents: extents.to_vec(), strides: row_major(extents) }
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> usize {
        self.extents.iter().product()
    }

    /// Whether its elements are contiguous in row-major order.
    pub(super) fn is_contiguous(&self) -> bool {
        let dims = self.extents.iter().zip(&self.strides).zip(row_major(&self.extents));
        dims.into_iter().all(|((extent, stride), wanted)| *extent == 1 || *stride == wanted)
    }

    /// The same elements in the same order with other extents; `None` if strides cannot express them.
    pub(super) fn reshaped(&self, extents: &[usize]) -> Option<View> {
        if extents.iter().product::<usize>() != self.elements() {
            return None;
        }
        let mut runs = merged(&self.extents, [&self.strides]).into_iter();
        let (mut left, mut stride) = (1, 1);
        let mut strides = vec![1; extents.len()];
        for (place, extent) in extents.iter().enumerate().rev() {
            if *extent == 1 {
                continue;
            }
            if left == 1 {
                (left, [stride]) = runs.next()?;
            }
            if left % extent != 0 {
                return None;
            }
            strides[place] = stride;
            stride *= extent;
            left /= extent;
        }
        Some(View { offset: self.offset, extents: extents.to_vec(), strides })
    }

    /// A box of the view. The ranges must lie within it.
    pub(super) fn cut(&self, ranges: &[Range<usize>]) -> View {
        let steps = ranges.iter().zip(&self.strides);
        View {
            offset: self.offset + steps.map(|(range, stride)| range.start * stride).sum::<usize>(),
            extents: ranges.iter().map(ExactSizeIterator::len).collect(),
            strides: self.strides.clone(),
        }
    }
}

/// Row-major strides of a contiguous block.
pub(super) fn row_major(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for place in (1..extents.len()).rev() {
        strides[place - 1] = strides[place] * extents[place];
    }
    strides
}

/// Merges the dims of several blocks of one shape as far as their strides allow. Returns lengths above 1, minor first.
pub(super) fn merged<const N: usize>(extents: &[usize], strides: [&[usize]; N]) -> Vec<(usize, [usize; N])> {
    let mut dims: Vec<(usize, [usize; N])> = Vec::with_capacity(extents.len());
    for place in (0..extents.len()).rev().filter(|place| extents[*place] != 1) {
        let outer = strides.map(|strides| strides[place]);
        match dims.last_mut() {
            Some((length, inner)) if (0..N).all(|n| outer[n] == inner[n] * *length) => *length *= extents[place],
            _ => dims.push((extents[place], outer)),
        }
    }
    dims
}

/// A line of equally spaced elements in each of `N` buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<const N: usize> {
    /// Position of the first element in each buffer.
    pub(super) starts: [usize; N],
    /// Distance between elements in each buffer.
    pub(super) steps: [usize; N],
    /// Number of elements.
    pub(super) length: usize,
}

/// Visits the elements of `N` blocks of one shape in row-major order, line by line.
pub(super) fn walk<const N: usize>(
    extents: &[usize],
    offsets: [usize; N],
    strides: [&[usize]; N],
    mut visit: impl FnMut(Line<N>),
) {
    if extents.contains(&0) {
        return;
    }
    let mut dims = merged(extents, strides).into_iter();
    let (length, steps) = dims.next().unwrap_or((1, [1; N]));
    let outer: Vec<(usize, [usize; N])> = dims.collect();
    let mut counters = vec![0; outer.len()];
    let mut starts = offsets;
    loop {
        visit(Line { starts, steps, length });
        let mut level = 0;
        loop {
            let Some((length, steps)) = outer.get(level) else { return };
            counters[level] += 1;
            for n in 0..N {
                starts[n] += steps[n];
            }
            if counters[level] < *length {
                break;
            }
            counters[level] = 0;
            for n in 0..N {
                starts[n] -= steps[n] * length;
            }
            level += 1;
        }
    }
}

/// The sizes as `usize`; `None` if one of them, or their product, is not addressable.
pub(super) fn addressable(extents: &[u64]) -> Option<Vec<usize>> {
    let extents: Vec<usize> = extents.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<_>>()?;
    extents.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
    Some(extents)
}

/// The sizes as `usize`, for blocks that are already held.
pub(super) fn sizes(extents: &[u64]) -> Vec<usize> {
    addressable(extents).expect("what fits into memory is addressable")
}

/// A position as `usize`, for blocks that are already held.
pub(super) fn index(at: u64) -> usize {
    usize::try_from(at).expect("what fits into memory is addressable")
}

/// The box that a region of a view covers on one device; `None` if it is empty.
pub(super) fn region_at(region: &Region, view: &[u64], mesh: &Mesh, device: DeviceId) -> Option<Vec<Range<usize>>> {
    let ranges = view::region_at(mesh, view, region, device)?.into_iter();
    Some(ranges.map(|range| index(range.start)..index(range.end)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;

    #[test]
    fn every_reshape_of_every_cut_keeps_the_order() {
        let buffer = View::row_major(&[4, 6]);
        let places = |view: &View| {
            let mut places = Vec::new();
            walk(&view.extents, [view.offset], [&view.strides], |line| {
                places.extend((0..line.length).map(|i| line.starts[0] + i * line.steps[0]));
            });
            places
        };
        for (rows, columns) in (0..4).cartesian_product(1..=4).cartesian_product((0..6).cartesian_product(1..=6)) {
            let rows = rows.0..(rows.0 + rows.1).min(4);
            let columns = columns.0..(columns.0 + columns.1).min(6);
            let view = buffer.cut(&[rows.clone(), columns.clone()]);
            let expected: Vec<usize> = rows.cartesian_product(columns).map(|(row, column)| row * 6 + column).collect();
            assert_eq!(places(&view), expected);
            for (a, b, c) in (1..=12).cartesian_product(1..=12).cartesian_product(1..=12).map(|((a, b), c)| (a, b, c)) {
                if let Some(reshaped) = view.reshaped(&[a, b, c]) {
                    assert_eq!(places(&reshaped), expected);
                } else if view.is_contiguous() {
                    assert_ne!(a * b * c, expected.len());
                }
            }
        }
    }
}
