//! Counts the points of boxes with big integers: a sum of many open sums has more than 2^128 contributions.

use super::boxes::{Cuboid, Interval, volume};

/// Whether disjoint boxes inside `whole` together contain exactly one `n`-th of its points.
pub(super) fn is_share(whole: &[Interval], boxes: &[Cuboid], n: u64) -> bool {
    // No box is larger than the whole, so `u128` nearly always suffices.
    let small = || {
        let held = boxes.iter().try_fold(0u128, |held, cuboid| held.checked_add(volume(cuboid)?))?;
        Some(held.checked_mul(u128::from(n))? == volume(whole)?)
    };
    small().unwrap_or_else(|| {
        let mut held = Count::default();
        boxes.iter().for_each(|cuboid| held.add(&Count::of(cuboid)));
        held.times(n);
        held == Count::of(whole)
    })
}

/// A natural number of any size: 64-bit digits, least significant first, without trailing zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Count(Vec<u64>);

impl Count {
    /// Number of points of a box.
    fn of(cuboid: &[Interval]) -> Count {
        let mut count = Count(vec![1]);
        cuboid.iter().for_each(|interval| count.times(interval.len()));
        count
    }

    fn times(&mut self, factor: u64) {
        let mut carry = 0u128;
        for digit in &mut self.0 {
            carry += u128::from(*digit) * u128::from(factor);
            (*digit, carry) = split(carry);
        }
        self.push(carry);
    }

    fn add(&mut self, other: &Count) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        let mut carry = 0u128;
        for (place, digit) in self.0.iter_mut().enumerate() {
            carry += u128::from(*digit) + u128::from(other.0.get(place).copied().unwrap_or(0));
            (*digit, carry) = split(carry);
        }
        self.push(carry);
    }

    /// Appends the final carry, which fits into one digit.
    fn push(&mut self, carry: u128) {
        self.0.push(split(carry).0);
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

/// The lower 64 bits and the rest.
#[allow(clippy::cast_possible_truncation, reason = "the mask leaves 64 bits")]
fn split(number: u128) -> (u64, u128) {
    ((number & u128::from(u64::MAX)) as u64, number >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuboid(lengths: &[u64]) -> Cuboid {
        lengths.iter().map(|length| Interval::whole(*length)).collect()
    }

    #[test]
    fn counts_are_those_of_u128_where_these_do() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let (a, b, c, d) = (random.u64(..), random.u64(1..), random.u64(1..1 << 60), random.u64(1..1 << 60));
            let mut sum = Count::of(&cuboid(&[b, c]));
            sum.add(&Count::of(&cuboid(&[d, 1 << 60])));
            let expected = u128::from(b) * u128::from(c) + (u128::from(d) << 60);
            assert_eq!(sum.0, [split(expected).0, split(split(expected).1).0]);
            sum.times(a);
            // Compare with schoolbook arithmetic: the low digit wraps, the digit sum modulo 2^64 - 1 is preserved.
            let modulo = u128::from(u64::MAX);
            let digits = sum.0.iter().map(|digit| u128::from(*digit)).sum::<u128>() % modulo;
            assert_eq!(digits, (expected % modulo) * u128::from(a) % modulo);
        }
    }

    /// Sums above 2^128 - 1, the maximum of `u128`, are counted correctly.
    #[test]
    fn sums_around_the_largest_number() {
        for (lengths, n) in [(vec![1 << 63, 1 << 63], 4), (vec![1 << 63, 1 << 63, 2], 2), (vec![1 << 62; 4], 8)] {
            let part = cuboid(&lengths);
            let mut whole = part.clone();
            whole[0].end += whole[0].end - 1;
            let mut boxes = vec![part.clone(), part.clone()];
            assert!(!is_share(&whole, &boxes, 1));
            boxes[1][0].end -= 1;
            assert!(is_share(&whole, &boxes, 1));
            let mut many = part.clone();
            many.push(Interval::whole(n));
            assert!(is_share(&many, &[part], n));
        }
    }

    /// Splits a cube of many dims into halves, quarters and so on: all parts fill the whole, and one point less does
    /// not.
    #[test]
    fn parts_make_the_whole_at_any_size() {
        for rank in 1..40 {
            let whole = cuboid(&vec![1 << 20; rank]);
            let mut rest = whole.clone();
            let mut parts = Vec::new();
            for dim in 0..rank {
                let mut part = rest.clone();
                part[dim].end -= 1;
                rest[dim].start = rest[dim].end - 1;
                parts.push(part);
            }
            assert!(!is_share(&whole, &parts, 1), "one point is missing");
            parts.push(rest);
            assert!(is_share(&whole, &parts, 1));
            assert!(!is_share(&whole, &parts, 2));
            let mut quarter = whole.clone();
            quarter[rank - 1].end >>= 2;
            assert!(is_share(&whole, &[quarter.clone()], 4));
            assert!(!is_share(&whole, &[quarter], 2));
        }
    }
}
