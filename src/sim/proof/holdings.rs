//! The array elements that devices hold at each step of a schedule, for display.

use super::block::{Piece, row_major, unravel};
use super::boxes::{self, Cuboid, Interval};
use super::flaw::Flaw;
use super::run::{Stop, follow_telling};
use super::sound;
use super::symmetry::{self, Symmetry};
use super::terms::{CoordinateId, Terms};
use crate::mesh::{AxisSet, DeviceId};
use crate::schedule::{OpId, Schedule};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of boxes per piece, and per value and device.
const MOST_BOXES: usize = 1 << 12;

/// A box of an array that a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Name of the array.
    pub array: Rc<str>,
    /// Names of its dims.
    pub dims: Rc<[String]>,
    /// Extents of the whole array, including padding.
    pub extents: Rc<[u64]>,
    /// The box: first and one past the last index in each dim.
    pub region: Vec<Range<u64>>,
    /// The contributions to the sum that are held.
    pub contributions: Rc<Contributions>,
}

/// A set of contributions to a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contributions {
    /// The coordinates along which the sum is decomposed, each with its length; empty if the sum is complete.
    space: Vec<(CoordinateId, u64)>,
    /// Names of these coordinates: a contracted dim, `axis X`, or `operand of C`.
    names: Vec<String>,
    /// Boxes in the space of these coordinates.
    boxes: Vec<Cuboid>,
}

impl Contributions {
    /// Whether all contributions are present.
    pub fn is_all(&self) -> bool {
        self.space.is_empty()
    }

    /// Names of the coordinates along which the sum is decomposed: a contracted dim, `axis X`, or `operand of C`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The contributions as boxes: a range of each coordinate.
    pub fn boxes(&self) -> impl Iterator<Item = Vec<Range<u64>>> + '_ {
        self.boxes.iter().map(|limits| limits.iter().map(|range| range.start..range.end).collect())
    }

    /// The number of contributions in the union of these sets, and the total number.
    pub fn share(sets: &[&Contributions]) -> (u128, u128) {
        let space: BTreeMap<CoordinateId, u64> = sets.iter().flat_map(|set| set.space.iter().copied()).collect();
        let whole: Cuboid = space.values().map(|length| Interval::whole(*length)).collect();
        let mut held: Vec<Cuboid> = Vec::new();
        for set in sets {
            let columns: Vec<usize> =
                set.space.iter().filter_map(|(id, _)| space.keys().position(|known| known == id)).collect();
            for limits in &set.boxes {
                let mut spread = whole.clone();
                columns.iter().zip(limits).for_each(|(column, range)| spread[*column] = *range);
                let views: Vec<&[Interval]> = held.iter().map(Vec::as_slice).collect();
                let new = boxes::outside(&spread, &views);
                held.extend(new);
            }
        }
        let volume = |cuboid: &Cuboid| boxes::volume(cuboid).unwrap_or(u128::MAX);
        (held.iter().map(volume).fold(0, u128::saturating_add), volume(&whole))
    }
}

/// What each of the given devices holds of the given values: nothing if it has no block; `None` if the block has too many boxes.
pub type Holdings = BTreeMap<OpId, Vec<Option<Vec<Held>>>>;

/// What the devices hold of the results of some operations, as found by the proof.
///
/// # Errors
/// As [`prove`](super::prove).
pub fn holdings(schedule: &Schedule, wanted: &BTreeSet<OpId>, devices: &[DeviceId]) -> Result<Holdings, Flaw> {
    let schedule = sound(schedule)?;
    let mut axes = symmetry::candidates(schedule);
    loop {
        let symmetry = Symmetry::new(schedule, axes);
        axes = symmetry.orbits.axes();
        let mut found = Holdings::new();
        let done = follow_telling(schedule, symmetry, &mut |run, id, value| {
            if !wanted.contains(&id) {
                return Ok(());
            }
            let mut held = Vec::with_capacity(devices.len());
            for device in devices {
                let block = run.image(value, *device)?;
                held.push(block.map_or_else(|| Some(Vec::new()), |block| boxes_of(&block.pieces, &run.terms)));
            }
            found.insert(id, held);
            Ok(())
        });
        match done {
            Ok(_) => return Ok(found),
            Err(Stop::Asymmetric(axis)) => axes = axes.without(AxisSet::one(axis)),
            Err(Stop::Flaw(flaw)) => return Err(flaw),
        }
    }
}

/// Expresses the pieces of a block as boxes of arrays.
fn boxes_of(pieces: &[Piece], terms: &Terms) -> Option<Vec<Held>> {
    let mut held = Vec::new();
    for piece in pieces {
        let extents: Rc<[u64]> = terms.extents(piece.holds.term).into();
        let array: Rc<str> = terms.name(piece.holds.term).into();
        let (space, parts) = piece.holds.parts.as_boxes(terms);
        let names = space.iter().map(|(id, _)| terms.coordinate_name(*id).to_owned()).collect();
        let contributions = Rc::new(Contributions { space, names, boxes: parts });
        let of: Rc<[String]> = terms.dims(piece.holds.term).into();
        let dims = piece.at.iter().map(|range| range.len()).zip(piece.holds.strides.iter().copied());
        let dims = dims.filter(|(length, _)| *length > 1).collect();
        for region in regions(piece.holds.base, dims, &extents)? {
            let (array, dims, extents) = (Rc::clone(&array), Rc::clone(&of), Rc::clone(&extents));
            held.push(Held { array, dims, extents, region, contributions: Rc::clone(&contributions) });
        }
        if held.len() > MOST_BOXES {
            return None;
        }
    }
    Some(held)
}

/// The elements `base + sum(stride * offset)` of an array as boxes; `None` if there are too many.
///
/// - `dims`: lengths (each at least 2) and strides.
fn regions(base: i64, dims: Vec<(u64, i64)>, extents: &[u64]) -> Option<Vec<Vec<Range<u64>>>> {
    let weights = row_major(extents);
    let mut open = vec![(base, dims)];
    let mut done = Vec::new();
    while let Some((base, mut dims)) = open.pop() {
        if open.len() + done.len() > MOST_BOXES {
            return None;
        }
        let at = unravel(base, extents);
        let mut lengths = vec![1u64; extents.len()];
        let mut trouble = None;
        for (place, (length, stride)) in dims.iter().enumerate() {
            // A dim of length 1 has the same weight as its neighbour and is skipped.
            let fits = (0..extents.len())
                .find(|dim| u64::try_from(*stride) == Ok(weights[*dim]) && extents[*dim] > 1 && lengths[*dim] == 1);
            match fits {
                Some(dim) if at[dim] + length <= extents[dim] => lengths[dim] = *length,
                Some(_) | None => {
                    trouble = Some((place, fits));
                    break;
                }
            }
        }
        let Some((place, dim)) = trouble else {
            done.push(at.iter().zip(&lengths).map(|(start, length)| *start..start + length).collect());
            continue;
        };
        let (length, stride) = dims.remove(place);
        match dim {
            // The range continues into the next rows. If it covers whole rows, it is a box with one more dim.
            Some(dim) if at[dim] == 0 && length.is_multiple_of(extents[dim]) => {
                let row = i64::try_from(extents[dim]).ok()?.checked_mul(stride)?;
                dims.push((extents[dim], stride));
                dims.push((length / extents[dim], row));
                open.push((base, dims));
            }
            _ => {
                for step in 0..length {
                    open.push((base + stride * i64::try_from(step).ok()?, dims.clone()));
                }
            }
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{AxisId, Mesh};
    use itertools::Itertools;

    /// Random sets of parts of a sum over one or two axes: their union is counted correctly.
    #[test]
    fn contributions_count_once() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 4)]);
        let mut terms = Terms::default();
        let [x, y] = [0, 1].map(|axis| terms.open_coordinate(0, AxisId::new(axis), &mesh));
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..500 {
            let mut points = BTreeSet::new();
            let sets: Vec<Contributions> = (0..random.usize(1..4))
                .map(|_| {
                    let mut range = |n: u64| {
                        let start = random.u64(0..n);
                        Interval { start, end: random.u64(start + 1..=n) }
                    };
                    let (rows, columns) = (range(3), range(4));
                    let (space, limits, columns) = match random.bool() {
                        true => (vec![(x, 3), (y, 4)], vec![rows, columns], columns),
                        false => (vec![(x, 3)], vec![rows], Interval::whole(4)),
                    };
                    points.extend((rows.start..rows.end).cartesian_product(columns.start..columns.end));
                    Contributions { space, names: Vec::new(), boxes: vec![limits] }
                })
                .collect();
            let (held, all) = Contributions::share(&sets.iter().collect::<Vec<_>>());
            assert_eq!(held * 12, points.len() as u128 * all, "{sets:?}");
        }
        let all = Contributions { space: Vec::new(), names: Vec::new(), boxes: vec![Vec::new()] };
        assert_eq!(Contributions::share(&[&all]), (1, 1));
    }

    /// All kinds of strides over a small array: the boxes contain each element as often as the strides visit it.
    #[test]
    fn boxes_have_the_elements_that_strides_reach() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut count = 0;
        for _ in 0..4000 {
            let extents: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..5)).collect();
            let total: u64 = extents.iter().product();
            let weights = row_major(&extents);
            let dims: Vec<(u64, i64)> = (0..random.usize(0..3))
                .map(|_| {
                    let stride = match random.bool() {
                        true => weights[random.usize(0..weights.len())],
                        false => random.u64(1..=total),
                    };
                    (random.u64(2..5), i64::try_from(stride).expect("small"))
                })
                .collect();
            let base = random.i64(0..i64::try_from(total).expect("small"));
            let offsets = dims.iter().map(|(length, _)| 0..*length).multi_cartesian_product();
            let element = |at: Vec<u64>| {
                base + at.iter().zip(&dims).map(|(at, (_, stride))| i64::try_from(*at).unwrap() * stride).sum::<i64>()
            };
            let mut reached: Vec<i64> = offsets.map(element).collect();
            reached.sort_unstable();
            if *reached.last().expect("the base") >= i64::try_from(total).expect("small") {
                continue;
            }
            let boxes = regions(base, dims.clone(), &extents).expect("few");
            let points = boxes.iter().flat_map(|region| region.iter().cloned().multi_cartesian_product());
            let number = |at: Vec<u64>| at.iter().zip(&weights).map(|(at, weight)| at * weight).sum::<u64>();
            let mut found: Vec<i64> = points.map(|at| i64::try_from(number(at)).expect("small")).collect();
            found.sort_unstable();
            assert_eq!(found, reached, "{extents:?} {base} {dims:?} {boxes:?}");
            count += 1;
        }
        assert!(count > 1000, "{count}");
    }
}
