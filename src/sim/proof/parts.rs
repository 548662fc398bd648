//! The contributions of a sum that a value holds.
//!
//! A closed value holds the whole sum. A local product holds the contributions that belong to a range of each
//! contracted index. A device's piece of an open input holds 1/n of the contributions in a group of n members. Each
//! way to decompose a sum is a [`Coordinate`](super::terms::Coordinate). The contributions held are a set of disjoint
//! boxes in the space of these coordinates.

use super::boxes::{self, Cuboid, Interval};
use super::terms::{CoordinateId, Terms};
use super::volume;
use crate::operator::Operator;
use itertools::Itertools;
use std::collections::BTreeSet;

/// A set of contributions. A coordinate that is not listed is held in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Operator that combines the contributions; `Sum` if all are present.
    operator: Operator,
    /// In ascending order; empty if and only if the sum is closed.
    coordinates: Vec<CoordinateId>,
    /// Disjoint and sorted; each box has one interval per coordinate.
    boxes: Vec<Cuboid>,
}

/// The reason why values cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// Two operands, given by position, hold the same contribution.
    Twice(usize, usize),
    /// The parts must be combined with this operator, not with the one used.
    Operator(Operator),
}

impl Parts {
    /// The whole sum.
    pub(super) fn closed() -> Parts {
        Parts { operator: Operator::Sum, coordinates: Vec::new(), boxes: vec![Vec::new()] }
    }

    /// One box with these limits. Coordinates that are not listed are held in full.
    pub(super) fn limited(operator: Operator, limits: &[(CoordinateId, Interval)], terms: &Terms) -> Parts {
        let (coordinates, limits) = limits.iter().copied().unzip();
        Parts::new(operator, coordinates, vec![limits], terms)
    }

    /// Sorts the coordinates and drops those that all boxes hold in full.
    fn new(operator: Operator, coordinates: Vec<CoordinateId>, boxes: Vec<Cuboid>, terms: &Terms) -> Parts {
        let mut columns: Vec<usize> = (0..coordinates.len()).collect();
        columns.retain(|column| {
            let full = Interval::whole(terms.coordinate_length(coordinates[*column]));
            boxes.iter().any(|limits| limits[*column] != full)
        });
        columns.sort_by_key(|column| coordinates[*column]);
        let mut boxes: Vec<Cuboid> =
            boxes.iter().map(|limits| columns.iter().map(|column| limits[*column]).collect()).collect();
        boxes.sort();
        boxes.dedup();
        let coordinates: Vec<CoordinateId> = columns.iter().map(|column| coordinates[*column]).collect();
        let operator = if coordinates.is_empty() { Operator::Sum } else { operator };
        Parts { operator, coordinates, boxes }
    }

    /// Whether all contributions are present.
    pub(super) fn is_closed(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// The same contributions with another operator.
    pub(super) fn under(mut self, operator: Operator) -> Parts {
        if !self.is_closed() {
            self.operator = operator;
        }
        self
    }

    /// Whether this is one of `n` equal shares of all contributions.
    pub(super) fn is_share(&self, n: u64, terms: &Terms) -> bool {
        let lengths: Vec<u64> = self.coordinates.iter().map(|id| terms.coordinate_length(*id)).collect();
        volume::is_share(&boxes::whole(&lengths), &self.boxes, n)
    }

    /// The boxes, and the length of each coordinate, so that they can be displayed without the terms.
    pub(super) fn as_boxes(&self, terms: &Terms) -> (Vec<(CoordinateId, u64)>, Vec<Cuboid>) {
        let lengths = self.coordinates.iter().map(|id| (*id, terms.coordinate_length(*id)));
        (lengths.collect(), self.boxes.clone())
    }

    /// The same contributions with renamed coordinates.
    pub(super) fn renamed(
        &self,
        terms: &mut Terms,
        mut rename: impl FnMut(&mut Terms, CoordinateId) -> CoordinateId,
    ) -> Parts {
        let coordinates = self.coordinates.iter().map(|id| rename(terms, *id)).collect();
        Parts::new(self.operator, coordinates, self.boxes.clone(), terms)
    }

    /// The coordinates along which the sum is decomposed.
    pub(super) fn coordinates(&self) -> &[CoordinateId] {
        &self.coordinates
    }

    /// Moves the contributions: `turn` maps a range of a coordinate, given by its column, to its new ranges.
    pub(super) fn turned(&self, terms: &Terms, turn: impl Fn(usize, Interval) -> Vec<Interval>) -> Parts {
        let boxes = self.boxes.iter().flat_map(|limits| {
            let ranges = limits.iter().enumerate().map(|(column, range)| turn(column, *range));
            ranges.multi_cartesian_product()
        });
        let mut boxes: Vec<Cuboid> = boxes.collect();
        let views: Vec<&[Interval]> = boxes.iter().map(Vec::as_slice).collect();
        if boxes::first_overlap(&views).is_none() {
            let merged = boxes::merge(boxes.into_iter().map(|limits| (limits, ())).collect(), |_, _, _| Some(()));
            boxes = merged.into_iter().map(|(limits, ())| limits).collect();
        }
        Parts::new(self.operator, self.coordinates.clone(), boxes, terms)
    }

    /// The operator that combines these parts with the missing ones.
    pub(super) fn operator(&self) -> Operator {
        self.operator
    }

    /// Number of boxes.
    pub(super) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// The boxes with one interval for each of `coordinates`, a superset of its own coordinates.
    fn spread(&self, coordinates: &[CoordinateId], terms: &Terms) -> impl Iterator<Item = Cuboid> {
        let columns: Vec<Result<usize, Interval>> = coordinates
            .iter()
            .map(|id| self.coordinates.binary_search(id).map_err(|_| Interval::whole(terms.coordinate_length(*id))))
            .collect();
        self.boxes.iter().map(move |limits| {
            columns
                .iter()
                .map(|column| match column {
                    Ok(column) => limits[*column],
                    Err(full) => *full,
                })
                .collect()
        })
    }

    /// The union of what the operands hold; closed if it covers the whole space.
    pub(super) fn combine(operands: &[&Parts], operator: Operator, terms: &Terms) -> Result<Parts, Clash> {
        if let [only] = operands {
            return Ok((*only).clone());
        }
        if let Some(other) = operands.iter().find(|parts| !parts.is_closed() && parts.operator != operator) {
            return Err(Clash::Operator(other.operator));
        }
        let all: BTreeSet<CoordinateId> = operands.iter().flat_map(|parts| &parts.coordinates).copied().collect();
        let coordinates: Vec<CoordinateId> = all.into_iter().collect();
        let mut owners = Vec::new();
        let mut boxes: Vec<Cuboid> = Vec::new();
        for (place, parts) in operands.iter().enumerate() {
            boxes.extend(parts.spread(&coordinates, terms));
            owners.resize(boxes.len(), place);
        }
        let views: Vec<&[Interval]> = boxes.iter().map(Vec::as_slice).collect();
        let overlap = boxes::first_overlap(&views);
        let lengths: Vec<u64> = coordinates.iter().map(|id| terms.coordinate_length(*id)).collect();
        let space = boxes::whole(&lengths);
        let closed = match overlap {
            Some((left, right)) if !operator.is_idempotent() => return Err(Clash::Twice(owners[left], owners[right])),
            Some(_) => boxes::first_gap(&space, &views).is_none(),
            // Disjoint boxes fill the space if and only if they have the same number of points.
            None => volume::is_share(&space, &boxes, 1),
        };
        if closed {
            return Ok(Parts::closed());
        }
        if overlap.is_some() {
            boxes.sort();
            boxes.dedup();
        } else {
            let merged = boxes::merge(boxes.into_iter().map(|limits| (limits, ())).collect(), |_, _, _| Some(()));
            boxes = merged.into_iter().map(|(limits, ())| limits).collect();
        }
        Ok(Parts::new(operator, coordinates, boxes, terms))
    }

    /// The contributions to a product or a reduction: `limits` (disjoint ranges of each contracted index) times the
    /// contributions of the operands.
    ///
    /// `rename(place, id)` returns the product's coordinate for coordinate `id` of operand `place`. Both operands may
    /// be open over the same coordinate, as in `A * A`: the product of their sums has a term for each pair.
    pub(super) fn product(
        operands: &[&Parts],
        limits: &[(CoordinateId, Vec<Interval>)],
        operator: Operator,
        terms: &mut Terms,
        mut rename: impl FnMut(&mut Terms, usize, CoordinateId) -> CoordinateId,
    ) -> Parts {
        let mut coordinates: Vec<CoordinateId> = limits.iter().map(|(id, _)| *id).collect();
        for (place, parts) in operands.iter().enumerate() {
            coordinates.extend(parts.coordinates.iter().map(|id| rename(terms, place, *id)));
        }
        let contracted = limits.iter().map(|(_, ranges)| ranges.iter().copied()).multi_cartesian_product();
        let combinations = operands.iter().map(|parts| parts.boxes.iter()).multi_cartesian_product();
        let held: Vec<Cuboid> = combinations.map(|held| held.into_iter().flatten().copied().collect()).collect();
        let with = |ranges: Cuboid| {
            let ranges = std::rc::Rc::<[Interval]>::from(ranges);
            held.iter().map(move |held| ranges.iter().chain(held).copied().collect())
        };
        let boxes: Vec<Cuboid> = contracted.flat_map(with).collect();
        Parts::new(operator, coordinates, boxes, terms)
    }

    /// The contributions to an elementwise sum (or another operator) of two values that may be open. `side` is the
    /// contributions of the two operands apart.
    pub(super) fn sides(left: &Parts, right: &Parts, side: CoordinateId, operator: Operator, terms: &Terms) -> Parts {
        let all: BTreeSet<CoordinateId> = left.coordinates.iter().chain(&right.coordinates).copied().collect();
        let mut coordinates: Vec<CoordinateId> = all.into_iter().collect();
        let mut boxes = Vec::new();
        for (place, parts) in (0..).zip([left, right]) {
            boxes.extend(parts.spread(&coordinates, terms).map(|mut limits| {
                limits.push(Interval { start: place, end: place + 1 });
                limits
            }));
        }
        coordinates.push(side);
        if left.is_closed() && right.is_closed() {
            return Parts::closed();
        }
        Parts::new(operator, coordinates, boxes, terms)
    }

    /// The first missing contribution, as limits on the relevant coordinates.
    pub(super) fn first_missing(&self, terms: &Terms) -> Option<Vec<(CoordinateId, Interval)>> {
        let lengths: Vec<u64> = self.coordinates.iter().map(|id| terms.coordinate_length(*id)).collect();
        let views: Vec<&[Interval]> = self.boxes.iter().map(Vec::as_slice).collect();
        let gap = boxes::first_gap(&boxes::whole(&lengths), &views)?;
        let limits = self.coordinates.iter().copied().zip(gap);
        Some(limits.filter(|(id, interval)| *interval != Interval::whole(terms.coordinate_length(*id))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{AxisId, Mesh};

    #[test]
    fn parts_of_a_sum_close_it_once_each() {
        let mut terms = Terms::default();
        let mesh = Mesh::of(&[("X", 3), ("Y", 3)]);
        let [x, y] = [0, 1].map(|axis| terms.open_coordinate(7, AxisId::new(axis), &mesh));
        let at = |x_at: u64, y_at: u64, terms: &Terms| {
            let one = |start| Interval { start, end: start + 1 };
            Parts::limited(Operator::Sum, &[(y, one(y_at)), (x, one(x_at))], terms)
        };
        let all: Vec<Parts> = (0..9).map(|place| at(place / 3, place % 3, &terms)).collect();
        // Adding any subset of the nine parts in two groups closes the sum if and only if all nine are present.
        for subset in 1..1usize << 9 {
            let (left, right): (Vec<usize>, Vec<usize>) =
                (0..9).filter(|place| subset >> place & 1 == 1).partition(|place| place % 2 == 0);
            let add = |places: &[usize]| {
                let operands: Vec<&Parts> = places.iter().map(|place| &all[*place]).collect();
                (!operands.is_empty()).then(|| Parts::combine(&operands, Operator::Sum, &terms).expect("disjoint"))
            };
            let sums: Vec<Parts> = [add(&left), add(&right)].into_iter().flatten().collect();
            let total = Parts::combine(&sums.iter().collect::<Vec<_>>(), Operator::Sum, &terms).expect("disjoint");
            assert_eq!(total.is_closed(), subset == (1 << 9) - 1);
            assert_eq!(total.first_missing(&terms).is_none(), total.is_closed());
            let twice = Parts::combine(&[&total, &all[4]], Operator::Sum, &terms);
            assert_eq!(twice.is_err(), subset >> 4 & 1 == 1);
        }
    }

    #[test]
    fn idempotent_operators_may_repeat() {
        let mut terms = Terms::default();
        let x = terms.open_coordinate(1, AxisId::new(0), &Mesh::of(&[("X", 2)]));
        let at = |start| Parts::limited(Operator::Max, &[(x, Interval { start, end: start + 1 })], &terms);
        let (low, high) = (at(0), at(1));
        let combine = |operands: &[&Parts], operator| Parts::combine(operands, operator, &terms);
        assert_eq!(combine(&[&low, &low], Operator::Max), Ok(low.clone()));
        assert_eq!(combine(&[&low, &high, &low], Operator::Max), Ok(Parts::closed()));
        assert_eq!(combine(&[&low, &high], Operator::Sum), Err(Clash::Operator(Operator::Max)));
    }
}
