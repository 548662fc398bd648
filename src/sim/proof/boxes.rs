//! Integer boxes: the shape of a piece of a block and of a set of contributions.
//!
//! No operation costs more for larger boxes.

use std::cmp::Ordering;

/// The non-empty range `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Interval {
    /// First number.
    pub(super) start: u64,
    /// One past the last number.
    pub(super) end: u64,
}

impl Interval {
    /// The range `0..length`.
    pub(super) fn whole(length: u64) -> Interval {
        Interval { start: 0, end: length }
    }

    /// Number of integers in the range.
    pub(super) fn len(self) -> u64 {
        self.end - self.start
    }

    /// The intersection, or `None` if it is empty.
    pub(super) fn intersect(self, other: Interval) -> Option<Interval> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Interval { start, end })
    }

    /// The range with `origin` subtracted. `origin` must not exceed `start`.
    pub(super) fn relative_to(self, origin: u64) -> Interval {
        Interval { start: self.start - origin, end: self.end - origin }
    }

    /// The range with `by` added.
    pub(super) fn moved(self, by: u64) -> Interval {
        Interval { start: self.start + by, end: self.end + by }
    }
}

/// One interval per dim.
pub(super) type Cuboid = Vec<Interval>;

/// The box of these extents at the origin.
pub(super) fn whole(extents: &[u64]) -> Cuboid {
    extents.iter().map(|extent| Interval::whole(*extent)).collect()
}

/// The intersection, or `None` if it is empty.
pub(super) fn intersect(left: &[Interval], right: &[Interval]) -> Option<Cuboid> {
    left.iter().zip(right).map(|(left, right)| left.intersect(*right)).collect()
}

/// Number of points; `None` above 2^128.
pub(super) fn volume(cuboid: &[Interval]) -> Option<u128> {
    cuboid.iter().try_fold(1u128, |product, interval| product.checked_mul(u128::from(interval.len())))
}

/// Indices of two boxes that overlap, if any.
pub(super) fn first_overlap(boxes: &[&[Interval]]) -> Option<(usize, usize)> {
    overlap_from(boxes, &mut (0..boxes.len()).collect::<Vec<_>>(), 0)
}

/// Searches for an overlap among boxes that are equal in all dims before `dim`.
fn overlap_from(boxes: &[&[Interval]], chosen: &mut [usize], dim: usize) -> Option<(usize, usize)> {
    let [first, second, ..] = *chosen else { return None };
    if dim == boxes[first].len() {
        return Some((first.min(second), first.max(second)));
    }
    chosen.sort_by_key(|index| boxes[*index][dim]);
    // Boxes in different clusters do not overlap in this dim.
    let mut rest = chosen;
    while !rest.is_empty() {
        let mut reach = boxes[rest[0]][dim].end;
        let mut length = 1;
        while length < rest.len() && boxes[rest[length]][dim].start < reach {
            reach = reach.max(boxes[rest[length]][dim].end);
            length += 1;
        }
        let (cluster, others) = rest.split_at_mut(length);
        let alike = cluster.iter().all(|index| boxes[*index][dim] == boxes[cluster[0]][dim]);
        let found = if alike { overlap_from(boxes, cluster, dim + 1) } else { overlap_of_pairs(boxes, cluster) };
        if found.is_some() {
            return found;
        }
        rest = others;
    }
    None
}

/// Searches for an overlap by comparing all pairs.
fn overlap_of_pairs(boxes: &[&[Interval]], chosen: &[usize]) -> Option<(usize, usize)> {
    chosen.iter().enumerate().find_map(|(place, left)| {
        let right = chosen[place + 1..].iter().find(|right| intersect(boxes[*left], boxes[**right]).is_some())?;
        Some((*left.min(right), *left.max(right)))
    })
}

/// The points of `from` outside `cut`, as disjoint boxes.
fn subtract(from: &[Interval], cut: &[Interval]) -> Vec<Cuboid> {
    let Some(common) = intersect(from, cut) else { return vec![from.to_vec()] };
    let mut rest = from.to_vec();
    let mut left = Vec::new();
    for (dim, common) in common.iter().enumerate() {
        let Interval { start, end } = rest[dim];
        for side in [Interval { start, end: common.start }, Interval { start: common.end, end }] {
            if side.start < side.end {
                let mut outside = rest.clone();
                outside[dim] = side;
                left.push(outside);
            }
        }
        rest[dim] = *common;
    }
    left
}

/// The points of `from` outside all `boxes`, as disjoint boxes.
pub(super) fn outside(from: &[Interval], boxes: &[&[Interval]]) -> Vec<Cuboid> {
    boxes.iter().fold(vec![from.to_vec()], |left, cut| left.iter().flat_map(|from| subtract(from, cut)).collect())
}

/// The first box of points of `whole` that no box covers.
pub(super) fn first_gap(whole: &[Interval], boxes: &[&[Interval]]) -> Option<Cuboid> {
    outside(whole, boxes).into_iter().min_by(|left, right| {
        let starts = |cuboid: &Cuboid| cuboid.iter().map(|interval| interval.start).collect::<Vec<_>>();
        starts(left).cmp(&starts(right))
    })
}

/// Merges adjacent disjoint boxes while `join` allows it.
///
/// `join(left, right, dim)` returns the merged content if `right` follows `left` along `dim`.
pub(super) fn merge<T>(
    mut boxes: Vec<(Cuboid, T)>,
    join: impl Fn(&(Cuboid, T), &(Cuboid, T), usize) -> Option<T>,
) -> Vec<(Cuboid, T)> {
    let rank = boxes.first().map_or(0, |(cuboid, _)| cuboid.len());
    loop {
        let before = boxes.len();
        for dim in (0..rank).rev() {
            if boxes.len() < 2 {
                return boxes;
            }
            boxes = merge_along(boxes, dim, &join);
        }
        if boxes.len() == before {
            boxes.sort_by(|(left, _), (right, _)| left.cmp(right));
            return boxes;
        }
    }
}

fn merge_along<T>(
    mut boxes: Vec<(Cuboid, T)>,
    dim: usize,
    join: impl Fn(&(Cuboid, T), &(Cuboid, T), usize) -> Option<T>,
) -> Vec<(Cuboid, T)> {
    boxes.sort_by(|(left, _), (right, _)| across(left, right, dim).then(left[dim].cmp(&right[dim])));
    let mut merged: Vec<(Cuboid, T)> = Vec::with_capacity(boxes.len());
    for next in boxes {
        let last = merged
            .last_mut()
            .filter(|(last, _)| across(last, &next.0, dim) == Ordering::Equal && last[dim].end == next.0[dim].start);
        match last.and_then(|last| join(last, &next, dim).map(|held| (last, held))) {
            Some((last, held)) => {
                last.0[dim].end = next.0[dim].end;
                last.1 = held;
            }
            None => merged.push(next),
        }
    }
    merged
}

/// Compares boxes by all dims except `dim`.
fn across(left: &[Interval], right: &[Interval], dim: usize) -> Ordering {
    left[..dim].cmp(&right[..dim]).then_with(|| left[dim + 1..].cmp(&right[dim + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;

    fn random_box(random: &mut fastrand::Rng) -> Cuboid {
        let mut interval = || {
            let start = random.u64(0..4);
            Interval { start, end: random.u64(start + 1..=4) }
        };
        vec![interval(), interval(), interval()]
    }

    fn has(cuboid: &[Interval], point: &[u64]) -> bool {
        cuboid.iter().zip(point).all(|(interval, at)| (interval.start..interval.end).contains(at))
    }

    #[test]
    fn boxes_agree_with_their_points() {
        let mut random = fastrand::Rng::with_seed(1);
        let points: Vec<Vec<u64>> = (0..3).map(|_| 0..4u64).multi_cartesian_product().collect();
        for _ in 0..3000 {
            let boxes: Vec<Cuboid> = (0..random.usize(0..6)).map(|_| random_box(&mut random)).collect();
            let views: Vec<&[Interval]> = boxes.iter().map(Vec::as_slice).collect();
            let twice = points.iter().any(|point| views.iter().filter(|view| has(view, point)).count() > 1);
            assert_eq!(first_overlap(&views).is_some(), twice, "{boxes:?}");
            let gap = first_gap(&whole(&[4, 4, 4]), &views);
            let missing = points.iter().find(|point| !views.iter().any(|view| has(view, point)));
            let start: Option<Vec<u64>> = gap.map(|gap| gap.iter().map(|interval| interval.start).collect());
            assert_eq!(start.as_ref(), missing, "{boxes:?}");
        }
    }

    #[test]
    fn merging_keeps_the_points() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..1000 {
            // A random partition: cut the whole repeatedly.
            let mut parts = vec![whole(&[4, 4, 4])];
            for _ in 0..3 {
                let cut = random_box(&mut random);
                parts = parts
                    .iter()
                    .flat_map(|part| subtract(part, &cut).into_iter().chain(intersect(part, &cut)))
                    .collect();
            }
            let merged = merge(parts.into_iter().map(|part| (part, ())).collect(), |_, _, _| Some(()));
            let views: Vec<&[Interval]> = merged.iter().map(|(cuboid, ())| cuboid.as_slice()).collect();
            assert_eq!(first_overlap(&views), None);
            assert_eq!(first_gap(&whole(&[4, 4, 4]), &views), None);
        }
    }
}
