//! What devices hold on the way through a schedule, in the elements of the arrays: for those who want to see it.

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

/// The most boxes that one piece is told in, and the most of a value on one device.
const MOST_BOXES: usize = 1 << 12;

/// A box of an array that a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The name of the array.
    pub array: Rc<str>,
    /// Of the whole array, padding included.
    pub extents: Rc<[u64]>,
    /// The box: first and one past the last, of each dim.
    pub region: Vec<Range<u64>>,
    /// What of its sum it has.
    pub contributions: Rc<Contributions>,
}

/// A set of contributions to a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contributions {
    /// The ways in which the sum is taken apart, each with its length; none where all of it is there.
    space: Vec<(CoordinateId, u64)>,
    /// In the order of these.
    boxes: Vec<Cuboid>,
}

impl Contributions {
    /// Whether nothing is missing.
    pub fn is_all(&self) -> bool {
        self.space.is_empty()
    }

    /// How many contributions to one sum these sets have together, and how many there are; what two have counts once.
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

/// What each of some devices holds of some values; `None` where it has no block, or one in too many boxes.
pub type Holdings = BTreeMap<OpId, Vec<Option<Vec<Held>>>>;

/// What devices hold of the results of some operations, as the proof follows them.
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
                held.push(block.and_then(|block| boxes_of(&block.pieces, &run.terms)));
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

/// The pieces of a block as boxes of arrays.
fn boxes_of(pieces: &[Piece], terms: &Terms) -> Option<Vec<Held>> {
    let mut held = Vec::new();
    for piece in pieces {
        let extents: Rc<[u64]> = terms.extents(piece.holds.term).into();
        let array: Rc<str> = terms.name(piece.holds.term).into();
        let (space, parts) = piece.holds.parts.told(terms);
        let contributions = Rc::new(Contributions { space, boxes: parts });
        let dims = piece.at.iter().map(|range| range.len()).zip(piece.holds.strides.iter().copied());
        let dims = dims.filter(|(length, _)| *length > 1).collect();
        for region in regions(piece.holds.base, dims, &extents)? {
            let (array, extents) = (Rc::clone(&array), Rc::clone(&extents));
            held.push(Held { array, extents, region, contributions: Rc::clone(&contributions) });
        }
        if held.len() > MOST_BOXES {
            return None;
        }
    }
    Some(held)
}

/// The elements `base + sum of stride * offset` of an array as boxes; `None` if these are too many.
///
/// - `dims`: lengths, each at least 2, and strides.
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
            // Of dims of length 1 the first of equal weight is passed over.
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
            // It runs on into the next rows: whole ones are a box of one dim more.
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

    /// Random sets of parts of a sum over two axes, told in one axis or in both: what they have together is counted.
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
                    Contributions { space, boxes: vec![limits] }
                })
                .collect();
            let (held, all) = Contributions::share(&sets.iter().collect::<Vec<_>>());
            assert_eq!(held * 12, points.len() as u128 * all, "{sets:?}");
        }
        let all = Contributions { space: Vec::new(), boxes: vec![Vec::new()] };
        assert_eq!(Contributions::share(&[&all]), (1, 1));
    }

    /// Strides of all kinds over a small array: the boxes have each element as often as the strides reach it.
    #[test]
    fn boxes_have_the_elements_that_strides_reach() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut told = 0;
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
            told += 1;
        }
        assert!(told > 1000, "{told}");
    }
}
