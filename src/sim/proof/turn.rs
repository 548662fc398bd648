//! Computes the blocks of devices that are not followed, by rotating those of their representative.
//!
//! Positions in the block, elements and contributions each rotate by digits. A box in which a digit wraps around is
//! split in two.

use super::block::{Block, Piece, common_view, row_major, signed, without_ones};
use super::boxes::Interval;
use super::claims::{Claim, Value};
use super::digits::Digit;
use super::parts::Parts;
use super::run::{Run, Stop, too_many};
use super::terms::{Counted, TermId};
use crate::mesh::DeviceId;
use crate::schedule::view::groups;
use std::rc::Rc;

impl Run<'_> {
    /// The block of a device; `None` if it has none.
    pub(super) fn image(&mut self, value: &Value, device: DeviceId) -> Result<Option<Rc<Block>>, Stop> {
        let Some(block) = &value.blocks[self.symmetry.orbits.class(device)] else { return Ok(None) };
        let mut block = Rc::clone(block);
        for place in 0..self.symmetry.axes.len() {
            let steps = self.mesh().coordinate(device, self.symmetry.axes[place].axis);
            block = self.turned(&block, place, &value.claims[place], u64::from(steps))?;
        }
        Ok(Some(block))
    }

    /// The block of the device `steps` further along a collapsed axis.
    pub(super) fn turned(
        &mut self,
        block: &Rc<Block>,
        place: usize,
        claim: &Claim,
        steps: u64,
    ) -> Result<Rc<Block>, Stop> {
        let n = self.symmetry.axes[place].n;
        if steps.is_multiple_of(n) {
            return Ok(Rc::clone(block));
        }
        let (mut block, dims) = self.with_digits(block, place, claim)?;
        for dim in dims {
            block.pieces = block.pieces.iter().flat_map(|piece| turned_places(piece, dim, n, steps)).collect();
        }
        let mut pieces = Vec::with_capacity(block.pieces.len());
        let mut known: Vec<(Rc<Parts>, Rc<Parts>)> = Vec::new();
        for mut piece in block.pieces {
            let found = known.iter().find(|(parts, _)| Rc::ptr_eq(parts, &piece.holds.parts));
            let parts = match found {
                Some((_, turned)) => Rc::clone(turned),
                None => {
                    let turned = self.turned_parts(&piece.holds.parts, place, steps)?;
                    known.push((Rc::clone(&piece.holds.parts), Rc::clone(&turned)));
                    turned
                }
            };
            piece.holds.parts = parts;
            pieces.extend(self.turned_elements(piece, place, claim, steps)?);
            self.spend(1)?;
        }
        Ok(Rc::new(Block::fitted(block.extents, block.view, pieces).map_err(too_many)?))
    }

    /// The block in a view with a dim per digit, and the positions of these dims.
    fn with_digits(&self, block: &Block, place: usize, claim: &Claim) -> Result<(Block, Vec<usize>), Stop> {
        let (axis, n) = (self.symmetry.axes[place].axis, self.symmetry.axes[place].n);
        let split: Vec<(Vec<u64>, usize)> = claim.digits.iter().map(|digit| apart(&block.extents, *digit, n)).collect();
        let within = |view: &[u64]| {
            let view = split.iter().try_fold(without_ones(view), |view, (split, _)| common_view(&view, split))?;
            let dims = split.iter().map(|(split, dim)| {
                let dims = groups(&view, split)?[*dim].clone();
                (dims.len() == 1).then_some(dims.start)
            });
            let dims = dims.collect::<Option<Vec<usize>>>()?;
            Some((view, dims))
        };
        if let Some((view, dims)) = within(&block.view) {
            return Ok((block.within(&view), dims));
        }
        let (view, dims) = within(&block.extents).ok_or(Stop::Asymmetric(axis))?;
        Ok((block.flat().map_err(too_many)?.within(&view), dims))
    }

    /// The elements of a piece after the rotation, as pieces.
    fn turned_elements(&mut self, piece: Piece, place: usize, claim: &Claim, steps: u64) -> Result<Vec<Piece>, Stop> {
        let (digits, term) = (self.term_digits(place, piece.holds.term)?, piece.holds.term);
        let strides = row_major(self.terms.extents(term));
        let n = signed(self.symmetry.axes[place].n);
        let mut pieces = vec![piece];
        for (digit, _) in digits.iter().zip(0u32..).filter(|(_, bit)| claim.turns(*bit)) {
            let weight = signed(digit.weight * strides[digit.dim]);
            let mut turned = Vec::with_capacity(pieces.len());
            while let Some(piece) = pieces.pop() {
                match turn_by(&piece, weight, n, signed(steps)) {
                    Ok(piece) => turned.push(piece),
                    Err((dim, at)) => {
                        self.spend(1)?;
                        pieces.extend(halved(&piece, dim, at));
                    }
                }
            }
            pieces = turned;
        }
        Ok(pieces)
    }

    /// Digits that rotate in the elements of a term.
    pub(super) fn term_digits(&mut self, place: usize, term: TermId) -> Result<Rc<[Digit]>, Stop> {
        let turning = &mut self.symmetry.axes[place];
        turning.term(&self.terms, term).ok_or(Stop::Asymmetric(turning.axis))
    }

    fn turned_parts(&mut self, parts: &Rc<Parts>, place: usize, steps: u64) -> Result<Rc<Parts>, Stop> {
        let turning = &mut self.symmetry.axes[place];
        let mut weights = Vec::with_capacity(parts.coordinates().len());
        for id in parts.coordinates() {
            weights.push(match self.terms.counted(*id) {
                Counted::Index(term, index) => {
                    turning.contracted(&self.terms, term, index).ok_or(Stop::Asymmetric(turning.axis))?
                }
                Counted::Axis(axis) if axis == turning.axis => vec![1],
                Counted::Axis(_) | Counted::Sides => Vec::new(),
            });
        }
        if weights.iter().all(Vec::is_empty) {
            return Ok(Rc::clone(parts));
        }
        let n = turning.n;
        let turned = parts.turned(&self.terms, |column, range| {
            weights[column].iter().fold(vec![range], |ranges, weight| {
                ranges.into_iter().flat_map(|range| turned_set(range, *weight, n, steps)).collect()
            })
        });
        Ok(Rc::new(turned))
    }
}

/// The extents (without ones) with one dim for this digit of n, and the position of that dim.
fn apart(extents: &[u64], digit: Digit, n: u64) -> (Vec<u64>, usize) {
    let major = extents[digit.dim] / (digit.weight * n).max(1);
    let mut view = without_ones(&extents[..digit.dim]);
    view.extend(without_ones(&[major]));
    let dim = view.len();
    view.push(n);
    view.extend(without_ones(&[digit.weight]));
    view.extend(without_ones(&extents[digit.dim + 1..]));
    (view, dim)
}

/// A piece after rotating the positions of one dim of length n.
fn turned_places(piece: &Piece, dim: usize, n: u64, steps: u64) -> Vec<Piece> {
    let ranges = turned_range(piece.at[dim], 1, n, steps);
    let mut start = piece.at[dim].start;
    let mut pieces = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut at = piece.at.clone();
        at[dim] = Interval { start, end: start + range.len() };
        start += range.len();
        let mut turned = piece.cut(&at);
        turned.at[dim] = range;
        pieces.push(turned);
    }
    pieces
}

/// The range after rotating its digit of this weight, as ranges in the original order.
fn turned_range(range: Interval, weight: u64, n: u64, steps: u64) -> Vec<Interval> {
    let (steps, period) = (steps % n, weight * n);
    let mut ranges: Vec<Interval> = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let first = start - start % period;
        // From here on, the digit wraps around.
        let turn = first + (n - steps) * weight;
        let (end, moved) =
            if start < turn { (turn, start + steps * weight) } else { (first + period, start - (n - steps) * weight) };
        let end = end.min(range.end);
        let turned = Interval { start: moved, end: moved + (end - start) };
        match ranges.last_mut().filter(|last| last.end == turned.start) {
            Some(last) => last.end = turned.end,
            None => ranges.push(turned),
        }
        start = end;
    }
    ranges
}

/// As [`turned_range`], but in any order. Whole periods map to themselves and stay one range. This matters for sums
/// of many products, which have a coordinate each: splitting every range in two would give exponentially many boxes.
fn turned_set(range: Interval, weight: u64, n: u64, steps: u64) -> Vec<Interval> {
    let period = weight * n;
    let (first, last) = (range.start.next_multiple_of(period), range.end - range.end % period);
    if first >= last {
        return turned_range(range, weight, n, steps);
    }
    let whole = Interval { start: first, end: last };
    let head = turned_range(Interval { start: range.start, end: first }, weight, n, steps);
    let tail = turned_range(Interval { start: last, end: range.end }, weight, n, steps);
    head.into_iter().chain([whole]).chain(tail).collect()
}

/// A piece whose elements rotate in a digit by a common distance.
///
/// # Errors
/// If distances differ: the dim in which the piece must be split, and the position of the split.
fn turn_by(piece: &Piece, weight: i64, n: i64, steps: i64) -> Result<Piece, (usize, u64)> {
    let (steps, period) = (steps.rem_euclid(n), weight * n);
    let turn = (n - steps) * weight;
    let base = piece.holds.base.rem_euclid(period);
    let (mut least, mut most) = (base, base);
    let mut widest: Option<(usize, i64)> = None;
    for (dim, (range, stride)) in piece.at.iter().zip(&piece.holds.strides).enumerate() {
        let reach = stride * signed(range.len() - 1);
        if reach != 0 && stride % period != 0 {
            (least, most) = (least + reach.min(0), most + reach.max(0));
            if widest.is_none_or(|(_, known)| stride.abs() > known.abs()) {
                widest = Some((dim, *stride));
            }
        }
    }
    let moved = match (0..turn).contains(&least) && most < turn {
        true => Some(steps * weight),
        false if least >= turn && most < period => Some(-turn),
        false => None,
    };
    let mut turned = piece.clone();
    match (moved, widest) {
        (Some(moved), _) => turned.holds.base += moved,
        // Unreachable with a single element: it has a single distance.
        (None, None) => {}
        (None, Some((dim, stride))) => {
            let next = if base < turn { turn } else { period };
            let last = piece.at[dim].len() - 1;
            let at = if stride > 0 { u64::try_from((next - base) / stride).unwrap_or(0) } else { last.div_ceil(2) };
            return Err((dim, at.clamp(1, last)));
        }
    }
    Ok(turned)
}

/// Splits a piece in two, `at` positions from its start.
fn halved(piece: &Piece, dim: usize, at: u64) -> [Piece; 2] {
    let Interval { start, end } = piece.at[dim];
    [Interval { start, end: start + at }, Interval { start: start + at, end }].map(|range| {
        let mut half = piece.at.clone();
        half[dim] = range;
        piece.cut(&half)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::proof::block::Holding;
    use crate::sim::proof::boxes;
    use crate::sim::proof::terms::TermId;
    use itertools::Itertools;

    fn turned(index: u64, weight: u64, n: u64, steps: u64) -> u64 {
        let digit = index / weight % n;
        index - digit * weight + (digit + steps) % n * weight
    }

    #[test]
    fn ranges_turn_number_by_number() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let (weight, n) = (random.u64(1..4), random.u64(2..5));
            let length = weight * n * random.u64(1..4);
            let start = random.u64(0..length);
            let range = Interval { start, end: random.u64(start + 1..=length) };
            let steps = random.u64(0..n);
            let found: Vec<u64> =
                turned_range(range, weight, n, steps).iter().flat_map(|range| range.start..range.end).collect();
            let expected: Vec<u64> = (range.start..range.end).map(|index| turned(index, weight, n, steps)).collect();
            assert_eq!(found, expected, "{range:?}, {weight} * {n}, {steps} steps");
            let set = turned_set(range, weight, n, steps);
            let numbers = set.iter().flat_map(|range| range.start..range.end);
            assert_eq!(numbers.sorted().collect::<Vec<u64>>(), expected.into_iter().sorted().collect::<Vec<u64>>());
            let whole = Interval::whole(length);
            assert_eq!(turned_set(whole, weight, n, steps), [whole]);
        }
    }

    /// Pieces with any strides: the rotation equals the rotation of each element.
    #[test]
    fn elements_turn_one_by_one() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..3000 {
            let extents: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..5)).collect();
            let strides: Vec<i64> =
                extents.iter().map(|extent| if *extent > 1 { random.i64(-7..13) } else { 0 }).collect();
            let (weight, n) = (random.i64(1..4), random.i64(2..5));
            let reach = extents.iter().zip(&strides).map(|(extent, stride)| stride.min(&0) * (signed(*extent) - 1));
            let base = random.i64(0..20) - reach.sum::<i64>();
            let steps = random.i64(0..n);
            let holds = Holding { term: TermId::new(0), base, strides, parts: Rc::new(Parts::closed()) };
            let whole = Piece { at: boxes::whole(&extents), holds };
            let (mut open, mut done) = (vec![whole.clone()], Vec::new());
            while let Some(piece) = open.pop() {
                match turn_by(&piece, weight, n, steps) {
                    Ok(piece) => done.push(piece),
                    Err((dim, at)) => open.extend(halved(&piece, dim, at)),
                }
            }
            let element = |piece: &Piece, at: &[u64]| {
                let offsets = piece.at.iter().zip(at).zip(&piece.holds.strides);
                piece.holds.base + offsets.map(|((range, at), stride)| stride * signed(at - range.start)).sum::<i64>()
            };
            let places: u64 = extents.iter().product();
            for place in 0..places {
                let at = crate::sim::proof::block::unravel(signed(place), &extents);
                let has =
                    |piece: &&Piece| piece.at.iter().zip(&at).all(|(range, at)| (range.start..range.end).contains(at));
                let found: Vec<&Piece> = done.iter().filter(has).collect();
                assert_eq!(found.len(), 1);
                let [before, weight, n, steps] =
                    [element(&whole, &at), weight, n, steps].map(|number| u64::try_from(number).unwrap());
                assert_eq!(element(found[0], &at), signed(turned(before, weight, n, steps)));
            }
        }
    }
}
