//! Views of blocks (extents with some dims split, major first), and their regions.
//!
//! Dims of length 1 are ignored in refinement.

use super::{Cut, Region};
use crate::mesh::{DeviceId, Mesh};
use std::ops::Range;

/// The dims of a view, from `next` on, that form a dim of this extent.
fn group(view: &[u64], next: &mut usize, extent: u64) -> Option<Range<usize>> {
    let start = *next;
    let mut product = 1u64;
    while product < extent {
        product = product.checked_mul(*view.get(*next)?)?;
        *next += 1;
    }
    (product == extent).then_some(start..*next)
}

/// The dims of a view that form each dim; `None` if the view does not refine the extents. Trailing dims have length 1 and
/// belong to the last dim; a scalar has none.
pub fn groups(view: &[u64], extents: &[u64]) -> Option<Vec<Range<usize>>> {
    let mut next = 0;
    let groups = extents.iter().map(|extent| group(view, &mut next, *extent));
    let mut groups: Vec<Range<usize>> = groups.collect::<Option<_>>()?;
    let rest_is_trivial = view[next..].iter().all(|extent| *extent == 1);
    if let Some(last) = groups.last_mut() {
        last.end = view.len();
    }
    rest_is_trivial.then_some(groups)
}

/// Length of a cut in a dim.
fn length(extent: u64, cut: &Cut) -> u64 {
    match cut {
        Cut::Whole => extent,
        Cut::Range { start, end } => end - start,
        Cut::At(_) => 1,
    }
}

/// Lengths of the cuts of a region.
pub fn lengths(view: &[u64], region: &Region) -> Vec<u64> {
    view.iter().zip(region).map(|(extent, cut)| length(*extent, cut)).collect()
}

/// The box of a region on one device; `None` if a cut exceeds its dim or has no index.
pub fn region_at(mesh: &Mesh, view: &[u64], region: &Region, device: DeviceId) -> Option<Vec<Range<u64>>> {
    let range = |(extent, cut): (&u64, &Cut)| match cut {
        Cut::Whole => Some(0..*extent),
        Cut::Range { start, end } => Some(*start..*end),
        Cut::At(map) => map.at(mesh, device).filter(|index| index < extent).map(|index| index..index + 1),
    };
    view.iter().zip(region).map(range).collect()
}

/// Extents of a region of a block; `None` if the view does not refine the block.
pub fn region_extents(extents: &[u64], view: &[u64], region: &Region) -> Option<Vec<u64>> {
    let mut next = 0;
    let lengths = extents.iter().map(|extent| {
        let dims = group(view, &mut next, *extent)?;
        Some(dims.map(|dim| length(view[dim], &region[dim])).product())
    });
    let lengths = lengths.collect::<Option<Vec<u64>>>()?;
    view[next..].iter().all(|extent| *extent == 1).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_grouped_with_their_ones() {
        assert_eq!(groups(&[4, 1, 2], &[4, 2]), Some(vec![0..1, 1..3]));
        assert_eq!(groups(&[4, 2], &[8, 1]), Some(vec![0..2, 2..2]));
        assert_eq!(groups(&[2, 1, 8, 1], &[2, 8]), Some(vec![0..1, 1..4]));
        assert_eq!(groups(&[3, 2], &[8]), None);
        assert_eq!(groups(&[4, 4], &[8]), None);
        assert_eq!(groups(&[], &[]), Some(vec![]));
        assert_eq!(groups(&[1, 1], &[]), Some(vec![]));
        assert_eq!(groups(&[2], &[]), None);
        assert_eq!(groups(&[1], &[1, 1]), Some(vec![0..0, 0..1]));
    }
}
