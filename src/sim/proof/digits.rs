//! What a step along an axis does to a dim: one digit of its index grows by one.
//!
//! With an axis of n devices the index of a dim, written as `(major * n + digit) * weight + minor`, becomes that of
//! the next digit, and of digit 0 from n - 1. A cut takes such a digit along, or has it as the index that it takes.

use crate::mesh::{AxisId, Mesh};
use crate::schedule::view::{groups, lengths};
use crate::schedule::{Cut, Region, Turn};
use std::ops::Range;

/// A digit of a dim that turns with an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Digit {
    /// The dim.
    pub(super) dim: usize,
    /// How far one step of the digit is.
    pub(super) weight: u64,
}

/// The digits that turn together, in order.
pub(super) type Digits = Vec<Digit>;

/// Adds digits that are not there yet; whether there were some.
pub(super) fn unite(digits: &mut Digits, more: impl IntoIterator<Item = Digit>) -> bool {
    let before = digits.len();
    digits.extend(more);
    digits.sort_unstable();
    digits.dedup();
    digits.len() > before
}

/// Whether turning these digits is a permutation in which the order plays no role: each fits its dim, and two of one
/// dim are the same or lie apart. Each comes with the length of its axis.
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

/// A region of a view of a block, as a step along an axis turns it.
pub(super) struct Cutting<'a> {
    n: u64,
    view: &'a [u64],
    /// What is taken of each dim of the view.
    lengths: Vec<u64>,
    /// Of each dim of the view, the weight of the digit if it is taken at one index that turns; `None` at one that
    /// stays. Empty where it is not taken at an index.
    taken: Vec<Option<Option<u64>>>,
    /// The dims of the view that each dim of the block, and of the piece, consists of.
    whole: Vec<Range<usize>>,
    piece: Vec<Range<usize>>,
}

impl<'a> Cutting<'a> {
    /// `None` where the region does not turn.
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

    /// The digits of the block by which the region is taken.
    pub(super) fn indices(&self) -> Digits {
        let mut indices = Digits::new();
        for (place, taken) in self.taken.iter().enumerate() {
            if let Some(Some(weight)) = taken {
                unite(&mut indices, raised(&self.whole, self.view, place, *weight));
            }
        }
        indices
    }

    /// What the digits of a block must be for the region to turn with them: those by which it is taken, and of the
    /// others those that it does not cut.
    pub(super) fn kept(&self, digits: &[Digit]) -> Digits {
        let mut kept = self.indices();
        unite(&mut kept, digits.iter().copied().filter(|digit| self.passing(*digit).is_some()));
        kept
    }

    /// The digits of the piece, of those of the block.
    pub(super) fn down(&self, digits: &[Digit]) -> Digits {
        let mut down = Digits::new();
        for (place, weight) in digits.iter().filter_map(|digit| self.passing(*digit)) {
            unite(&mut down, raised(&self.piece, &self.lengths, place, weight));
        }
        down
    }

    /// The digits of the block, of those of the piece.
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

    /// The dim of the view in which a digit of the block lies, if all of it is taken.
    fn passing(&self, digit: Digit) -> Option<(usize, u64)> {
        located(digit, self.n, self.view, &self.whole).filter(|(place, _)| self.is_whole(*place))
    }
}

/// The dim of a view in which a digit lies, and its weight there.
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

/// A digit of one dim of a view as one of the dim that it is a part of.
fn raised(groups: &[Range<usize>], view: &[u64], place: usize, weight: u64) -> Option<Digit> {
    let dim = groups.iter().position(|dims| dims.contains(&place))?;
    let inner: u64 = view[place + 1..groups[dim].end].iter().product();
    Some(Digit { dim, weight: weight * inner })
}
