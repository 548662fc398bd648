//! Which contributions of a sum a value holds.
//!
//! A closed value holds the whole sum. A local product holds the part of it that belongs to a range of each
//! contracted index; a device's piece of an open input holds one part in as many as the group has members. Each way
//! in which a sum can be taken apart is a [`Coordinate`](super::terms::Coordinate), and what is held is a set of
//! disjoint boxes in the space of these coordinates.

use super::boxes::{self, Cuboid, Interval};
use super::terms::{CoordinateId, Terms};
use super::volume;
use crate::operator::Operator;
use itertools::Itertools;
use std::collections::BTreeSet;

/// A set of contributions: what is not mentioned by `coordinates` is held in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// How the contributions combine; `Sum` where all are there.
    operator: Operator,
    /// In ascending order; empty if and only if the sum is closed.
    coordinates: Vec<CoordinateId>,
    /// Disjoint, in order; each has an interval for each coordinate.
    boxes: Vec<Cuboid>,
}

/// Why values cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// Two of the operands, by their place, hold the same contribution.
    Twice(usize, usize),
    /// The parts are to be combined by this operator, not by the one that was used.
    Operator(Operator),
}

impl Parts {
    /// The whole sum.
    pub(super) fn closed() -> Parts {
        Parts { operator: Operator::Sum, coordinates: Vec::new(), boxes: vec![Vec::new()] }
    }

    /// One box, given by its limits; coordinates that are not named are held in full.
    pub(super) fn limited(operator: Operator, limits: &[(CoordinateId, Interval)], terms: &Terms) -> Parts {
        let (coordinates, limits) = limits.iter().copied().unzip();
        Parts::new(operator, coordinates, vec![limits], terms)
    }

    /// Brings coordinates into order, and drops those that are held in full by all boxes.
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

    /// Whether nothing is missing.
    pub(super) fn is_closed(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// The same contributions, to be combined by another operator.
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

    /// What is held, with the length of each coordinate, so that it can be told without the terms.
    pub(super) fn told(&self, terms: &Terms) -> (Vec<(CoordinateId, u64)>, Vec<Cuboid>) {
        let lengths = self.coordinates.iter().map(|id| (*id, terms.coordinate_length(*id)));
        (lengths.collect(), self.boxes.clone())
    }

    /// The same contributions under other coordinates.
    pub(super) fn renamed(
        &self,
        terms: &mut Terms,
        mut rename: impl FnMut(&mut Terms, CoordinateId) -> CoordinateId,
    ) -> Parts {
        let coordinates = self.coordinates.iter().map(|id| rename(terms, *id)).collect();
        Parts::new(self.operator, coordinates, self.boxes.clone(), terms)
    }

    /// In which ways the sum is taken apart.
    pub(super) fn coordinates(&self) -> &[CoordinateId] {
        &self.coordinates
    }

    /// The contributions in other places: `turn` says where a range of a coordinate, given by its column, comes to lie.
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

    /// How what is missing is to be combined with this.
    pub(super) fn operator(&self) -> Operator {
        self.operator
    }

    /// How many boxes it takes to say what is held.
    pub(super) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// The boxes with an interval for each of these coordinates, a superset of its own.
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

    /// What all operands hold together, closed where they cover the whole space.
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
            // Disjoint boxes fill the space where they have as many points.
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

    /// The contributions to a product or a reduction: `limits` on the contracted indices, disjoint ranges of each, times
    /// what the operands hold.
    ///
    /// `rename(place, id)` is the coordinate that the product has for one of its operand. Two operands may be open
    /// over the same coordinate, as in `A * A`, and the product of their sums has a term for each pair.
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

    /// The contributions to a sum of two values that may be open: those of each, told apart by `side`. The same for
    /// the other operators.
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

    /// The first contribution that is missing: limits on the coordinates that matter.
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
        // Every subset of the nine parts, added in two groups, closes the sum exactly if it has all of them.
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
