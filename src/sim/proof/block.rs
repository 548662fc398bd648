//! Blocks: the array elements that a device holds of a value, as a list of pieces.
//!
//! Each piece is a box. The boxes lie in a *view* of the block, in which some dims are split into two or more. A range
//! in the middle of a dim repeats at equal steps: that is one box in a suitable view, but many boxes in the dim itself.

use super::boxes::{self, Cuboid, Interval};
use super::parts::Parts;
use super::terms::{Slot, TermId, Terms};
use crate::schedule::view::groups;
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of pieces per block. Regular schedules have a few per chunk.
const MOST_PIECES: usize = 1 << 16;

/// A block has more than [`MOST_PIECES`] pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyPieces;

/// The elements that a device holds of a value. The pieces are disjoint and fill the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Extents of the block.
    pub(super) extents: Vec<u64>,
    /// The extents, split as far as the pieces require. Contains no dim of length 1.
    pub(super) view: Vec<u64>,
    /// Sorted by their boxes in the view.
    pub(super) pieces: Vec<Piece>,
}

/// A box of a block and the elements in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Position in the view of the block.
    pub(super) at: Cuboid,
    /// The elements in the box.
    pub(super) holds: Holding,
}

/// Elements of a term: `offset` from the box's first corner holds the element with row-major number `base +
/// sum(stride * offset)` over the term's extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    /// The array that the elements belong to.
    pub(super) term: TermId,
    /// Element number at the first corner.
    pub(super) base: i64,
    /// Change of the element number per step in each dim; 0 for dims of length 1.
    pub(super) strides: Vec<i64>,
    /// The contributions held of each element.
    pub(super) parts: Rc<Parts>,
}

/// Converts an element count to `i64`. Verified schedules and terms stay far below its limit.
pub(super) fn signed(elements: u64) -> i64 {
    i64::try_from(elements).expect("arrays and blocks have at most 2^61 elements")
}

/// Row-major strides of these extents.
pub(super) fn row_major(extents: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; extents.len()];
    for dim in (1..extents.len()).rev() {
        strides[dim - 1] = strides[dim] * extents[dim];
    }
    strides
}

impl Holding {
    /// Holding of a region of a term, with dims in the term's order.
    pub(super) fn region(term: TermId, region: &[Interval], parts: Rc<Parts>, terms: &Terms) -> Holding {
        let strides = row_major(terms.extents(term));
        let base = region.iter().zip(&strides).map(|(range, stride)| signed(range.start * stride)).sum();
        let strides =
            region.iter().zip(&strides).map(|(range, stride)| if range.len() > 1 { signed(*stride) } else { 0 });
        Holding { term, base, strides: strides.collect(), parts }
    }

    /// Whether both hold the same elements; contributions are not compared.
    pub(super) fn same_place(&self, other: &Holding) -> bool {
        self.term == other.term && self.base == other.base && self.strides == other.strides
    }
}

impl Piece {
    /// The part of the holding inside `at`, a box within its own.
    pub(super) fn cut(&self, at: &[Interval]) -> Piece {
        let mut holds = self.holds.clone();
        for (dim, (old, new)) in self.at.iter().zip(at).enumerate() {
            holds.base += holds.strides[dim] * signed(new.start - old.start);
            if new.len() == 1 {
                holds.strides[dim] = 0;
            }
        }
        Piece { at: at.to_vec(), holds }
    }

    /// The held elements as a `Slot` for messages: the bounding box from the first element to the last.
    pub(super) fn slot(&self, terms: &Terms) -> Slot {
        let extents = terms.extents(self.holds.term);
        let reach: i64 =
            self.at.iter().zip(&self.holds.strides).map(|(range, stride)| stride * signed(range.len() - 1)).sum();
        let (first, last) = (unravel(self.holds.base, extents), unravel(self.holds.base + reach, extents));
        let region: Cuboid = first
            .iter()
            .zip(&last)
            .map(|(first, last)| Interval { start: *first.min(last), end: first.max(last) + 1 })
            .collect();
        terms.slot(self.holds.term, &region)
    }
}

/// The index in each dim of a row-major element number.
pub(super) fn unravel(element: i64, extents: &[u64]) -> Vec<u64> {
    let mut rest = u64::try_from(element).unwrap_or(0);
    let mut places: Vec<u64> = extents
        .iter()
        .rev()
        .map(|extent| {
            let place = rest % extent;
            rest /= extent;
            place
        })
        .collect();
    places.reverse();
    places
}

impl Block {
    /// A block with a single piece. `holds` has one stride per dim.
    pub(super) fn new(extents: &[u64], mut holds: Holding) -> Block {
        let mut dims = extents.iter();
        holds.strides.retain(|_| dims.next() != Some(&1));
        let view = without_ones(extents);
        Block { extents: extents.to_vec(), pieces: vec![Piece { at: boxes::whole(&view), holds }], view }
    }

    /// The same block with its pieces expressed in a finer view.
    ///
    /// # Panics
    /// If `view` does not refine the block's view.
    pub(super) fn within(&self, view: &[u64]) -> Block {
        if view == self.view {
            return self.clone();
        }
        let groups = groups(view, &self.view).expect("a refinement");
        let pieces = self.pieces.iter().flat_map(|piece| refine(piece, view, &groups)).collect();
        Block { extents: self.extents.clone(), view: view.to_vec(), pieces }
    }

    /// The same block with its pieces expressed in the extents, without splits.
    pub(super) fn flat(&self) -> Result<Block, TooManyPieces> {
        let view = without_ones(&self.extents);
        let groups = groups(&self.view, &view).expect("views refine the extents");
        let mut pieces = self.pieces.clone();
        // Last group first, so that positions of earlier dims stay valid.
        for dims in groups.into_iter().rev() {
            for minor in (dims.start + 1..dims.end).rev() {
                let extent = self.view[minor..dims.end].iter().product();
                let joined: usize = pieces.iter().map(|piece| joined_pieces(piece, minor, extent)).sum();
                if joined > MOST_PIECES {
                    return Err(TooManyPieces);
                }
                pieces = merge(pieces.iter().flat_map(|piece| join_dims(piece, minor, extent)).collect());
            }
        }
        Ok(Block { extents: self.extents.clone(), view, pieces })
    }

    /// Builds a block from pieces in `view` (without dims of length 1). Merges adjacent pieces that continue each
    /// other, and joins view dims that all pieces cross in the same way.
    ///
    /// # Panics
    /// If the view does not refine the extents.
    pub(super) fn fitted(extents: Vec<u64>, mut view: Vec<u64>, pieces: Vec<Piece>) -> Result<Block, TooManyPieces> {
        let mut pieces = merge(pieces);
        if pieces.len() > MOST_PIECES {
            return Err(TooManyPieces);
        }
        loop {
            let groups = groups(&view, &without_ones(&extents)).expect("views refine the extents");
            let minors = groups.into_iter().flat_map(|dims| dims.start + 1..dims.end);
            let joined = minors.rev().find(|minor| pieces.iter().all(|piece| joins(piece, *minor, view[*minor])));
            let Some(minor) = joined else { return Ok(Block { extents, view, pieces }) };
            let extent = view.remove(minor);
            view[minor - 1] *= extent;
            pieces = merge(pieces.iter().flat_map(|piece| join_dims(piece, minor, extent)).collect());
        }
    }

    /// The same elements in row-major order, in a block of other extents.
    pub(super) fn reshaped(&self, extents: &[u64]) -> Result<Block, TooManyPieces> {
        let wanted = without_ones(extents);
        let own = match common_view(&self.view, &wanted) {
            Some(view) => self.within(&view),
            // Both are views of all elements in one dim.
            None => {
                let elements = extents.iter().product();
                Block { extents: vec![elements], ..self.clone() }.flat()?.within(&wanted)
            }
        };
        Block::fitted(extents.to_vec(), own.view, own.pieces)
    }

    /// The piece at the block's first corner.
    pub(super) fn first(&self) -> &Piece {
        let corner = |piece: &&Piece| piece.at.iter().all(|range| range.start == 0);
        self.pieces.iter().find(corner).unwrap_or(&self.pieces[0])
    }
}

/// The extents, or a view, without dims of length 1.
pub(super) fn without_ones(extents: &[u64]) -> Vec<u64> {
    extents.iter().copied().filter(|extent| *extent > 1).collect()
}

/// The coarsest view that refines both views of the same block, or `None` if there is none. Contains no dim of length
/// 1.
pub(super) fn common_view(left: &[u64], right: &[u64]) -> Option<Vec<u64>> {
    if left == right && !left.contains(&1) {
        return Some(left.to_vec());
    }
    let mut common = Vec::new();
    let [mut left, mut right] = [left, right].map(|view| view.iter().copied().filter(|extent| *extent > 1));
    let (mut one, mut other) = (left.next(), right.next());
    while let (Some(long), Some(short)) = (one, other) {
        let part = long.min(short);
        if !long.is_multiple_of(part) || !short.is_multiple_of(part) {
            return None;
        }
        common.push(part);
        one = if long == part { left.next() } else { Some(long / part) };
        other = if short == part { right.next() } else { Some(short / part) };
    }
    (one.is_none() && other.is_none()).then_some(common)
}

/// Merges adjacent pieces whose elements continue each other.
fn merge(pieces: Vec<Piece>) -> Vec<Piece> {
    let boxes = pieces.into_iter().map(|piece| (piece.at, piece.holds)).collect();
    let merged = boxes::merge(boxes, |(left_at, left), (right_at, right), dim| {
        let (before, after) = (left_at[dim].len(), right_at[dim].len());
        let step = right.base - left.base;
        // A dim of length 1 is compatible with any stride.
        let stride = if before > 1 { left.strides[dim] } else { step };
        let fits = left.term == right.term
            && step == stride.checked_mul(signed(before))?
            && (after == 1 || right.strides[dim] == stride)
            && left.strides[..dim] == right.strides[..dim]
            && left.strides[dim + 1..] == right.strides[dim + 1..]
            && left.parts == right.parts;
        let mut joined = fits.then(|| left.clone())?;
        joined.strides[dim] = stride;
        Some(joined)
    });
    merged.into_iter().map(|(at, holds)| Piece { at, holds }).collect()
}

/// Expresses a piece in a refined view.
fn refine(piece: &Piece, view: &[u64], groups: &[Range<usize>]) -> Vec<Piece> {
    let mut refined = vec![Piece {
        at: Vec::with_capacity(view.len()),
        holds: Holding { strides: Vec::with_capacity(view.len()), ..piece.holds.clone() },
    }];
    for (dim, dims) in groups.iter().enumerate() {
        let (range, stride) = (piece.at[dim], piece.holds.strides[dim]);
        let weights = row_major(&view[dims.clone()]);
        let ranges = split(range, &view[dims.clone()]);
        refined = refined
            .iter()
            .flat_map(|piece| ranges.iter().map(move |ranges| (piece, ranges)))
            .map(|(piece, ranges)| {
                let mut piece = piece.clone();
                let first: u64 = ranges.iter().zip(&weights).map(|(range, weight)| range.start * weight).sum();
                piece.holds.base += stride * signed(first - range.start);
                let strides = ranges.iter().zip(&weights);
                piece
                    .holds
                    .strides
                    .extend(strides.map(|(range, weight)| if range.len() > 1 { stride * signed(*weight) } else { 0 }));
                piece.at.extend(ranges);
                piece
            })
            .collect();
    }
    refined
}

/// Splits a range of a dim into boxes of the dims that it is split into: a head, full rows, a tail.
fn split(range: Interval, extents: &[u64]) -> Vec<Cuboid> {
    match extents {
        [] => vec![Vec::new()],
        [_] => vec![vec![range]],
        [_, minor @ ..] => {
            let row: u64 = minor.iter().product();
            let within = |start: u64, end: u64| {
                let at = start / row;
                let columns = Interval { start: start - at * row, end: end - at * row };
                split(columns, minor).into_iter().map(move |rest| {
                    let mut cuboid = vec![Interval { start: at, end: at + 1 }];
                    cuboid.extend(rest);
                    cuboid
                })
            };
            let (full_start, full_end) = (range.start.div_ceil(row), range.end / row);
            if full_start > full_end {
                return within(range.start, range.end).collect();
            }
            let mut parts = Vec::new();
            if range.start < full_start * row {
                parts.extend(within(range.start, full_start * row));
            }
            if full_start < full_end {
                let mut cuboid = vec![Interval { start: full_start, end: full_end }];
                cuboid.extend(boxes::whole(minor));
                parts.push(cuboid);
            }
            if full_end * row < range.end {
                parts.extend(within(full_end * row, range.end));
            }
            parts
        }
    }
}

/// Whether dims `minor - 1` and `minor` (of length `extent`) can be joined without splitting the piece.
fn joins(piece: &Piece, minor: usize, extent: u64) -> bool {
    let (rows, columns) = (piece.at[minor - 1], piece.at[minor]);
    let (row, column) = (piece.holds.strides[minor - 1], piece.holds.strides[minor]);
    let continues = extent == 1 || column.checked_mul(signed(extent)) == Some(row);
    rows.len() == 1 || columns.len() == extent && continues
}

/// Number of pieces that [`join_dims`] returns.
fn joined_pieces(piece: &Piece, minor: usize, extent: u64) -> usize {
    let rows = piece.at[minor - 1].len();
    if joins(piece, minor, extent) { 1 } else { usize::try_from(rows).unwrap_or(usize::MAX).min(MOST_PIECES + 1) }
}

/// Joins dims `minor - 1` and `minor` of a piece. Returns one piece per row if the rows do not continue each other.
fn join_dims(piece: &Piece, minor: usize, extent: u64) -> Vec<Piece> {
    let rows = piece.at[minor - 1];
    if !joins(piece, minor, extent) {
        let row = |start: u64| {
            let mut at = piece.at.clone();
            at[minor - 1] = Interval { start, end: start + 1 };
            join_dims(&piece.cut(&at), minor, extent)
        };
        return (rows.start..rows.end).flat_map(row).collect();
    }
    let mut joined = piece.clone();
    let columns = joined.at.remove(minor);
    let stride = joined.holds.strides.remove(minor);
    joined.at[minor - 1] =
        Interval { start: rows.start * extent + columns.start, end: (rows.end - 1) * extent + columns.end };
    if extent > 1 {
        joined.holds.strides[minor - 1] = stride;
    }
    vec![joined]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::schedule::{Array, Dense};

    /// The element at each position of a block, in row-major order.
    fn elements(pieces: &[Piece], extents: &[u64]) -> Vec<i64> {
        let total: u64 = extents.iter().product();
        (0..total)
            .map(|place| {
                let at = unravel(signed(place), extents);
                let has =
                    |piece: &&Piece| piece.at.iter().zip(&at).all(|(range, at)| (range.start..range.end).contains(at));
                let found: Vec<&Piece> = pieces.iter().filter(has).collect();
                assert_eq!(found.len(), 1, "each place is in one piece");
                let offsets = found[0].at.iter().zip(&at).zip(&found[0].holds.strides);
                found[0].holds.base
                    + offsets.map(|((range, at), stride)| stride * signed(at - range.start)).sum::<i64>()
            })
            .collect()
    }

    fn input(extents: &[u64]) -> (Terms, TermId) {
        let mut terms = Terms::default();
        let dims = extents.iter().map(u64::to_string).collect();
        let array = Array {
            name: "A".into(),
            dtype: DType::I64,
            dims,
            extents: extents.to_vec(),
            valid: extents.to_vec(),
            definition: Dense::INPUT,
        };
        let term = terms.declare(0, &array, &[]).expect("small");
        (terms, term)
    }

    /// Splitting a block into chunks in any order and view, and converting back, preserves the elements.
    #[test]
    fn views_keep_the_elements() {
        let views: [&[u64]; 7] = [&[24], &[4, 6], &[2, 3, 4], &[6, 4], &[3, 8], &[2, 2, 2, 3], &[2, 2, 6]];
        let (terms, term) = input(&[24]);
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..400 {
            let from = views[random.usize(0..views.len())];
            let mut order: Vec<u64> = (0..from[0]).collect();
            random.shuffle(&mut order);
            let row: u64 = from[1..].iter().product();
            let whole = Holding::region(term, &[Interval::whole(24)], Rc::new(Parts::closed()), &terms);
            let whole = Block::new(&[24], whole);
            let mut pieces = Vec::new();
            for piece in whole.within(from).pieces {
                for (start, source) in (0..).zip(&order) {
                    let mut at = piece.at.clone();
                    at[0] = Interval { start: *source, end: source + 1 };
                    let mut moved = piece.cut(&at);
                    moved.at[0] = Interval { start, end: start + 1 };
                    pieces.push(moved);
                }
            }
            let expected: Vec<i64> =
                order.iter().flat_map(|source| signed(source * row)..signed((source + 1) * row)).collect();
            assert_eq!(elements(&pieces, from), expected);
            let fitted = Block::fitted(vec![24], from.to_vec(), pieces).expect("few pieces");
            assert_eq!(elements(&fitted.pieces, &fitted.view), expected);
            let flat = fitted.flat().expect("few pieces");
            assert_eq!(elements(&flat.pieces, &[24]), expected);
            let to = views[random.usize(0..views.len())];
            let refined = flat.within(to);
            assert_eq!(elements(&refined.pieces, to), expected);
            let again = Block::fitted(vec![24], to.to_vec(), refined.pieces).expect("few pieces");
            assert_eq!(elements(&again.flat().expect("few pieces").pieces, &[24]), expected);
            if let Some(common) = common_view(&fitted.view, to) {
                let both = fitted.within(&common);
                assert_eq!(elements(&both.pieces, &common), expected);
                assert!(groups(&common, to).is_some() && groups(&common, &fitted.view).is_some());
            }
        }
    }

    #[test]
    fn strided_boxes_become_one_piece() {
        // Pairs of columns of a [4, 6] array, concatenated in order.
        let (terms, term) = input(&[4, 6]);
        let closed = Rc::new(Parts::closed());
        let pieces = (0..3).map(|chunk| {
            let region = [Interval::whole(4), Interval { start: 2 * chunk, end: 2 * chunk + 2 }];
            let one = Interval { start: chunk, end: chunk + 1 };
            let mut holds = Holding::region(term, &region, closed.clone(), &terms);
            holds.strides.insert(1, 0);
            Piece { at: vec![Interval::whole(4), one, Interval::whole(2)], holds }
        });
        let block = Block::fitted(vec![4, 6], vec![4, 3, 2], pieces.collect()).expect("few pieces");
        assert_eq!(block.pieces.len(), 1);
        assert_eq!(block.view, [4, 6]);
        assert_eq!(elements(&block.pieces, &[4, 6]), (0..24).collect::<Vec<i64>>());
    }

    #[test]
    fn views_that_refine_two() {
        assert_eq!(common_view(&[320, 8], &[16, 20, 1, 8]), Some(vec![16, 20, 8]));
        assert_eq!(common_view(&[2, 12], &[6, 4]), Some(vec![2, 3, 4]));
        assert_eq!(common_view(&[4, 6], &[6, 4]), None);
        assert_eq!(common_view(&[1, 1], &[]), Some(vec![]));
    }
}
