//! Digits of an index that rotate with a mesh axis.
//!
//! For an axis of n devices, an index is written as `(major * n + digit) * weight + minor`. A step along the axis
//! increases `digit` by one, with n - 1 wrapping to 0: the digit *turns*. A cut either includes all values of a digit
//! or selects one of them.

use super::block::row_major;
use crate::mesh::{AxisId, Mesh};
use crate::schedule::view::{groups, lengths};
use crate::schedule::{Cut, Region, Turn};
use std::ops::Range;

/// A digit of a dim that rotates with an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Digit {
    /// The dim.
    pub(super) dim: usize,
    /// Index distance of one digit step.
    pub(super) weight: u64,
}

/// Digits that rotate together, sorted.
pub(super) type Digits = Vec<Digit>;

/// Adds missing digits. Returns whether any were missing.
pub(super) fn unite(digits: &mut Digits, more: impl IntoIterator<Item = Digit>) -> bool {
    let before = digits.len();
    digits.extend(more);
    digits.sort_unstable();
    digits.dedup();
    digits.len() > before
}

/// Whether rotating these digits (each with the length of its axis) is a permutation whose steps commute: each digit
/// fits its dim, and two digits of one dim are equal or do not overlap.
pub(super) fn lie_apart(digits: &[(Digit, u64)], extents: &[u64]) -> bool {
    let period = |(digit, n): &(Digit, u64)| digit.weight.checked_mul(*n).filter(|period| *period > 0);
    let fits = |place: &(Digit, u64)| {
        let extent = extents.get(place.0.dim);
        period(place).is_some_and(|period| extent.is_some_and(|extent| extent.is_multiple_of(period)))
    };
    let above = |upper: &(Digit, u64), lower: &(Digit, u64)| {
        period(lower).is_some_and(|period| upper.0.weight.is_multiple_of(period))
    };
    digits.iter().all(fits)
        && digits.iter().enumerate().all(|(place, one)| {
            let mut others = digits[..place].iter().filter(|other| other.0.dim == one.0.dim);
            others.all(|other| one == other || above(one, other) || above(other, one))
        })
}

/// The digits of a block under other extents, in row-major order; `None` for a digit that lies in no single dim of them.
///
/// - `n`: the length of the axis.
pub(super) fn reshaped(digits: &[Digit], n: u64, from: &[u64], to: &[u64]) -> Vec<Option<Digit>> {
    let [from, strides] = [from, to].map(row_major);
    let moved = |digit: &Digit| {
        let weight = from[digit.dim].checked_mul(digit.weight)?;
        let period = weight.checked_mul(n)?;
        let holds = |dim: &usize| {
            let (stride, length) = (strides[*dim], strides[*dim].saturating_mul(to[*dim]));
            weight.is_multiple_of(stride) && length.is_multiple_of(period)
        };
        let dim = (0..to.len()).find(holds)?;
        Some(Digit { dim, weight: weight / strides[dim] })
    };
    digits.iter().map(moved).collect()
}

/// A region of a view of a block, and how a step along an axis rotates it.
pub(super) struct Cutting<'a> {
    n: u64,
    view: &'a [u64],
    /// Length taken of each dim of the view.
    lengths: Vec<u64>,
    /// Per dim of the view: `None` if a range or the whole dim is taken, `Some(None)` if a single fixed index is
    /// taken, `Some(Some(weight))` if a single index is taken that rotates with this weight.
    taken: Vec<Option<Option<u64>>>,
    /// The view dims that make up each dim of the block and of the piece.
    whole: Vec<Range<usize>>,
    piece: Vec<Range<usize>>,
}

impl<'a> Cutting<'a> {
    /// Returns `None` if the region does not rotate.
    pub(super) fn new(
        mesh: &Mesh,
        axis: AxisId,
        (whole, view): (&[u64], &'a [u64]),
        region: &Region,
        piece: &[u64],
    ) -> Option<Cutting<'a>> {
        let taken = region.iter().zip(view).map(|(cut, length)| match cut {
            Cut::Whole | Cut::Range { .. } => Some(None),
            Cut::At(map) => map.turn(mesh, axis, *length).map(|turn| match turn {
                Turn::Fixed => Some(None),
                Turn::Digit(weight) => Some(Some(weight)),
            }),
        });
        let lengths = lengths(view, region);
        let (whole, piece) = (groups(view, whole)?, groups(&lengths, piece)?);
        Some(Cutting { n: mesh.size(axis), view, taken: taken.collect::<Option<_>>()?, lengths, whole, piece })
    }

    /// Digits of the block that select the region.
    pub(super) fn indices(&self) -> Digits {
        let mut indices = Digits::new();
        for (place, taken) in self.taken.iter().enumerate() {
            if let Some(Some(weight)) = taken {
                unite(&mut indices, raised(&self.whole, self.view, place, *weight));
            }
        }
        indices
    }

    /// Digits that a block must have for the region to rotate with it: those that select the region, and those of
    /// `digits` that the region does not cut.
    pub(super) fn kept(&self, digits: &[Digit]) -> Digits {
        let mut kept = self.indices();
        unite(&mut kept, digits.iter().copied().filter(|digit| self.passing(*digit).is_some()));
        kept
    }

    /// Maps digits of the block to digits of the piece.
    pub(super) fn down(&self, digits: &[Digit]) -> Digits {
        let mut down = Digits::new();
        for (place, weight) in digits.iter().filter_map(|digit| self.passing(*digit)) {
            unite(&mut down, raised(&self.piece, &self.lengths, place, weight));
        }
        down
    }

    /// Maps digits of the piece to digits of the block.
    pub(super) fn up(&self, digits: &[Digit]) -> Digits {
        let mut up = Digits::new();
        for digit in digits {
            let found = located(*digit, self.n, &self.lengths, &self.piece);
            if let Some((place, weight)) = found.filter(|(place, _)| self.is_whole(*place)) {
                unite(&mut up, raised(&self.whole, self.view, place, weight));
            }
        }
        up
    }

    fn is_whole(&self, place: usize) -> bool {
        self.lengths[place] == self.view[place]
    }

    /// The view dim that contains a digit of the block, and the digit's weight there, if the whole dim is taken.
    fn passing(&self, digit: Digit) -> Option<(usize, u64)> {
        located(digit, self.n, self.view, &self.whole).filter(|(place, _)| self.is_whole(*place))
    }
}

/// The view dim that contains a digit, and the digit's weight there.
fn located(digit: Digit, n: u64, view: &[u64], groups: &[Range<usize>]) -> Option<(usize, u64)> {
    let period = digit.weight.checked_mul(n)?;
    let mut inner = 1;
    for place in groups.get(digit.dim)?.clone().rev() {
        let outer = inner * view[place];
        let lies = digit.weight.is_multiple_of(inner) && outer.is_multiple_of(period);
        if lies {
            return Some((place, digit.weight / inner));
        }
        inner = outer;
    }
    None
}

/// Maps a digit of a view dim to the dim that it is a part of.
fn raised(groups: &[Range<usize>], view: &[u64], place: usize, weight: u64) -> Option<Digit> {
    let dim = groups.iter().position(|dims| dims.contains(&place))?;
    let inner: u64 = view[place + 1..groups[dim].end].iter().product();
    Some(Digit { dim, weight: weight * inner })
}
