//! Positions in a dim at equal steps, such as the second half of every shard.

use super::boxes::Interval;
use itertools::Itertools;

/// Maximum number of ranges that [`Strided::ranges`] returns.
const MOST_RANGES: u64 = 1 << 16;

/// The positions `start + sum(index * step)`, in index order. A range has a single step of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    pub(super) start: u64,
    /// Count and distance of each step, longest first; empty for a single position. Each step exceeds the total
    /// length of all later ones, and no two steps can be merged.
    pub(super) steps: Vec<(u64, u64)>,
}

/// How a set of positions relates to a digit of the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    /// The set contains all values of the digit, each with the same other digits. The field is the digit's weight in
    /// the index among the positions.
    Inside(u64),
    /// The set has a single value of the digit.
    Beside,
    /// Neither case.
    Across,
}

impl Strided {
    /// Returns `None` if the steps do not nest, or the positions are too large.
    ///
    /// - `steps`: count and distance of each step, major first.
    pub(super) fn new(start: u64, steps: impl IntoIterator<Item = (u64, u64)>) -> Option<Strided> {
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (count, step) in steps {
            match kept.last_mut() {
                _ if count == 1 => {}
                Some(last) if count.checked_mul(step)? == last.1 => *last = (last.0.checked_mul(count)?, step),
                _ => kept.push((count, step)),
            }
        }
        let mut reach = 0u64;
        for (count, step) in kept.iter().rev() {
            if *step <= reach {
                return None;
            }
            reach = step.checked_mul(count.checked_sub(1)?)?.checked_add(reach)?;
        }
        start.checked_add(reach)?;
        Some(Strided { start, steps: kept })
    }

    /// All positions of a range.
    pub(super) fn range(range: Interval) -> Strided {
        let steps = if range.len() > 1 { vec![(range.len(), 1)] } else { Vec::new() };
        Strided { start: range.start, steps }
    }

    /// The range from the first position to the last.
    pub(super) fn hull(&self) -> Interval {
        let reach: u64 = self.steps.iter().map(|(count, step)| (count - 1) * step).sum();
        Interval { start: self.start, end: self.start + reach + 1 }
    }

    /// The positions as one range, if they are contiguous.
    pub(super) fn as_range(&self) -> Option<Interval> {
        let is_range = matches!(self.steps.as_slice(), [] | [(_, 1)]);
        is_range.then(|| self.hull())
    }

    /// The positions as ranges; `None` if there are too many.
    pub(super) fn ranges(&self) -> Option<Vec<Interval>> {
        let (row, major) = match self.steps.split_last() {
            Some(((count, 1), major)) => (*count, major),
            _ => (1, self.steps.as_slice()),
        };
        let count = major.iter().try_fold(1u64, |product, (count, _)| product.checked_mul(*count))?;
        if count > MOST_RANGES {
            return None;
        }
        let starts = major.iter().map(|(count, step)| (0..*count).map(move |index| index * step));
        let starts = starts.multi_cartesian_product().map(|offsets| self.start + offsets.into_iter().sum::<u64>());
        Some(starts.map(|start| Interval { start, end: start + row }).collect())
    }

    /// How the positions relate to the digit `position / weight mod n`.
    pub(super) fn to_digit(&self, weight: u64, n: u64) -> Lies {
        let period = weight * n;
        // Extent and number of positions of the steps after the current one.
        let (mut reach, mut places) = (0u64, 1u64);
        let mut beside = true;
        for (at, (count, step)) in self.steps.iter().enumerate().rev() {
            let covers = weight.is_multiple_of(*step) && (count * step).is_multiple_of(period);
            let from_zero = (self.start % period) < *step && self.start % step + reach < *step;
            let apart = self.steps[..at].iter().all(|(_, step)| step.is_multiple_of(period));
            if covers && from_zero && apart {
                return Lies::Inside(weight / step * places);
            }
            if !step.is_multiple_of(period) {
                reach += (count - 1) * step;
                beside = beside && self.start % weight + reach < weight;
            }
            places *= count;
        }
        if beside { Lies::Beside } else { Lies::Across }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All step combinations of small sets, compared with enumeration.
    #[test]
    fn places_are_what_counting_says() {
        let mut inside = 0;
        for (start, one, two) in (0..6)
            .cartesian_product((1..5).cartesian_product(1..13))
            .flat_map(|(start, one)| (1..4).cartesian_product(1..5).map(move |two| (start, one, two)))
        {
            let Some(strided) = Strided::new(start, [one, two]) else { continue };
            let indices = (0..one.0).cartesian_product(0..two.0);
            let places: Vec<u64> = indices.map(|(i, j)| start + i * one.1 + j * two.1).collect();
            let ranges = strided.ranges().expect("few");
            assert_eq!(ranges.iter().flat_map(|range| range.start..range.end).collect::<Vec<_>>(), places);
            assert_eq!(strided.hull(), Interval { start, end: places[places.len() - 1] + 1 });
            let is_range = places.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert_eq!(strided.as_range().is_some(), is_range, "{strided:?}");
            for (weight, n) in (1..9).cartesian_product(2..5) {
                let digit = |place: u64| place / weight % n;
                let turned = |place: u64| if digit(place) + 1 < n { place + weight } else { place - (n - 1) * weight };
                match strided.to_digit(weight, n) {
                    Lies::Inside(own) => {
                        inside += 1;
                        // Rotating the positions is the same as rotating their indices.
                        let turned_index = |index: u64| {
                            if index / own % n + 1 < n { index + own } else { index - (n - 1) * own }
                        };
                        for (index, place) in (0..).zip(&places) {
                            let there = usize::try_from(turned_index(index)).expect("small");
                            assert_eq!(places.get(there), Some(&turned(*place)), "{strided:?} {weight} {n}");
                        }
                    }
                    Lies::Beside => assert!(places.iter().map(|place| digit(*place)).all_equal()),
                    Lies::Across => {}
                }
            }
        }
        assert!(inside > 100);
    }
}
