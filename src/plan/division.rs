//! How shards are divided into the pieces of a run.
//!
//! What comes before the first piece of a product, or after the last one, overlaps with nothing of the product. Short pieces
//! at the ends expose little; long ones in the middle read the other operand less often.

use itertools::Itertools;
use std::ops::Range;

/// Pieces of the same length, up to a unit, the first and the last of which may be halved, with the outer half halved
/// again, and so on.
///
/// Four pieces with two halvings at the end have the lengths 4, 4, 4, 2, 1, 1; three pieces of eight units 2, 3, 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Division {
    /// Length of a shard before any piece is halved.
    units: u64,
    /// Number of pieces before any is halved.
    equal: u64,
    /// Halvings of the first piece.
    first: u32,
    /// Halvings of the last piece.
    last: u32,
}

impl Division {
    /// Most halvings of a piece: the shortest is 1/8 of the others.
    const MOST_HALVINGS: u32 = 3;

    /// Pieces of nearly equal length are at least this number of units long.
    const LEAST_UNITS: u64 = 4;

    /// Equal pieces.
    pub fn even(pieces: u64) -> Division {
        Division { units: pieces, equal: pieces, first: 0, last: 0 }
    }

    /// Pieces of equal length, or else of nearly equal length; `None` if their lengths would differ by more than a quarter.
    ///
    /// - `length`: elements of a shard.
    pub fn nearly_even(pieces: u64, length: u64) -> Option<Division> {
        if pieces == 0 || length.is_multiple_of(pieces) {
            return Some(Division::even(pieces)).filter(|_| pieces > 0);
        }
        // Finer units would make the lengths more equal, but also the numbers in schedules longer.
        let most = pieces.checked_mul(4 * Self::LEAST_UNITS)?.checked_next_power_of_two()?;
        let units = 1 << length.trailing_zeros().min(most.trailing_zeros());
        (units / pieces >= Self::LEAST_UNITS).then_some(Division { units, ..Division::even(pieces) })
    }

    /// Number of pieces before any is halved.
    pub fn equal(self) -> u64 {
        self.equal
    }

    /// With a shorter first piece; `None` if it is as short as allowed.
    pub fn with_shorter_first(self) -> Option<Division> {
        (self.equal > 1 && self.first < Self::MOST_HALVINGS).then_some(Division { first: self.first + 1, ..self })
    }

    /// With a shorter last piece; `None` if it is as short as allowed.
    pub fn with_shorter_last(self) -> Option<Division> {
        (self.equal > 1 && self.last < Self::MOST_HALVINGS).then_some(Division { last: self.last + 1, ..self })
    }

    /// Number of pieces.
    pub fn count(self) -> u64 {
        self.equal + u64::from(self.first) + u64::from(self.last)
    }

    /// Length of a shard in units that divide all pieces. `None` above 2^64.
    pub fn units(self) -> Option<u64> {
        self.units.checked_mul(self.parts())
    }

    /// Number of parts of a unit.
    fn parts(self) -> u64 {
        1 << self.first.max(self.last)
    }

    /// The start of a piece before any is halved.
    fn start(self, place: u64) -> u64 {
        let units = u128::from(place) * u128::from(self.units) / u128::from(self.equal);
        u64::try_from(units).expect("at most all units") * self.parts()
    }

    /// The pieces, in units.
    pub fn ranges(self) -> impl Iterator<Item = Range<u64>> {
        let [first, end] = [self.start(1), self.start(self.equal)];
        let last = end - self.start(self.equal - 1);
        let before = (1..=self.first).rev().map(move |halvings| first >> halvings);
        let inner = (1..self.equal).map(move |place| self.start(place));
        let after = (1..=self.last).map(move |halvings| end - (last >> halvings));
        let ends = before.chain(inner).chain(after).chain([end]);
        std::iter::once(0).chain(ends).tuple_windows().map(|(start, end)| start..end)
    }

    /// Lengths of the pieces, in units.
    pub fn lengths(self) -> Vec<u64> {
        self.ranges().map(|range| range.end - range.start).collect()
    }

    /// Halvings of the first and of the last piece.
    pub fn halvings(self) -> (u32, u32) {
        (self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_halves_are_halved() {
        let shorter = |times: usize, more: fn(Division) -> Option<Division>, from: Division| {
            (0..times).try_fold(from, |division, _| more(division)).expect("few halvings")
        };
        let last = shorter(2, Division::with_shorter_last, Division::even(4));
        assert_eq!(last.lengths(), [4, 4, 4, 2, 1, 1]);
        let first = shorter(3, Division::with_shorter_first, Division::even(2));
        assert_eq!(first.lengths(), [1, 1, 2, 4, 8]);
        assert_eq!(shorter(1, Division::with_shorter_last, first).lengths(), [1, 1, 2, 4, 4, 4]);
        assert_eq!(Division::even(3).lengths(), [1, 1, 1]);
        assert_eq!(Division::even(1).with_shorter_last(), None);
        let nearly = Division::nearly_even(3, 48 * 64).and_then(Division::with_shorter_last).expect("many units");
        assert_eq!(nearly, Division::even(3).with_shorter_last().expect("few halvings"));
        let nearly = Division::nearly_even(3, 64).expect("many units");
        assert_eq!(nearly.lengths(), [21, 21, 22]);
        assert_eq!(Division::nearly_even(3, 8), None);
        for division in [last, first, Division::even(5), nearly, nearly.with_shorter_last().expect("few halvings")] {
            assert_eq!(division.lengths().len() as u64, division.count());
            assert_eq!(Some(division.lengths().iter().sum::<u64>()), division.units());
            assert!(division.ranges().tuple_windows().all(|(one, next)| one.end == next.start));
        }
    }
}
