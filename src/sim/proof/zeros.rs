//! Elements that are 0 by definition: those of `where(iota_C < load, x, 0)` from the position in the table `load` on.
//!
//! Functions of one operand that map 0 to 0 keep them.

use super::block::{Block, Holding, Piece, row_major, signed, unravel};
use super::boxes::{self, Cuboid, Interval};
use super::cut;
use super::flaw::Flaw;
use super::run::{Run, too_many};
use super::terms::TermId;
use crate::einsum::{Einsum, Index};
use crate::function::{Filler, Function, Relation, Scalar};
use crate::schedule::{Array, ArrayId, Dense, Schedule};
use crate::supply::{Supply, Table};
use itertools::Itertools;
use std::rc::Rc;

/// The zeros of an array: along one dim, all from a position on that a table has for the other dims.
pub(super) struct Zeros<'a> {
    /// The dim.
    along: usize,
    /// The dims of the table, as dims of the array.
    over: Vec<usize>,
    /// Extents of the table.
    extents: &'a [u64],
    table: &'a Table,
    /// Added to each element of the table.
    plus: i64,
    /// The arrays from whose definitions this follows.
    pub(super) follows_from: Vec<ArrayId>,
}

impl<'a> Zeros<'a> {
    /// The zeros of an array; `None` if none are known.
    pub(super) fn of(schedule: &'a Schedule, id: ArrayId) -> Option<Zeros<'a>> {
        let Dense::Map { function, operands, einsum } = &schedule.array(id).definition else { return None };
        let mut zeros = match (*function, operands.as_slice()) {
            (Function::Masked(Scalar(0.0)), [mask, _]) => Zeros::masked(schedule, *mask, einsum)?,
            (function, [only]) if keeps_zeros(function) => {
                let inner = Zeros::of(schedule, *only)?;
                let moved = |dim: usize| place(&einsum.result, *einsum.operands[0].get(dim)?);
                let over = inner.over.iter().map(|dim| moved(*dim)).collect::<Option<_>>()?;
                Zeros { along: moved(inner.along)?, over, ..inner }
            }
            _ => return None,
        };
        zeros.follows_from.push(id);
        Some(zeros)
    }

    /// The zeros of a mask, which compares positions with a table.
    ///
    /// - `outer`: the alignment of the mask with the result.
    fn masked(schedule: &'a Schedule, mask: ArrayId, outer: &Einsum) -> Option<Zeros<'a>> {
        let mut follows_from = Vec::new();
        let mut meant = |id: ArrayId| named(schedule, id, &mut follows_from);
        let Dense::Map { function: Function::Is(relation), operands, einsum } = &schedule.array(meant(mask)).definition
        else {
            return None;
        };
        let [left, right] = operands[..] else { return None };
        let [left, right] = [left, right].map(meant);
        let [is_left, is_right] = [left, right].map(|id| schedule.array(id).definition == COUNTED);
        let (relation, [counted, table], [counts, rows]) = match (is_left, is_right) {
            (true, false) => (*relation, [left, right], [0, 1]),
            (false, true) => (relation.turned(), [right, left], [1, 0]),
            (true, true) | (false, false) => return None,
        };
        let plus = match relation {
            Relation::Less => 0,
            Relation::LessOrEqual => 1,
            _ => return None,
        };
        let Dense::Input { supply: Supply::Table(numbers) } = &schedule.array(table).definition else { return None };
        // Positions in padding are 0.
        if [counted, table].iter().any(|id| is_padded(schedule.array(*id))) {
            return None;
        }
        let placed = |index: Index| {
            let dim = place(&einsum.result, index)?;
            place(&outer.result, *outer.operands[0].get(dim)?)
        };
        let along = placed(*einsum.operands[counts].first()?)?;
        let over = einsum.operands[rows].iter().map(|index| placed(*index)).collect::<Option<_>>()?;
        let extents = &schedule.array(table).extents;
        Some(Zeros { along, over, extents, table: numbers, plus, follows_from })
    }

    /// Whether a dim is neither that of the zeros nor one of the table.
    fn says_nothing(&self, dim: usize) -> bool {
        dim != self.along && !self.over.contains(&dim)
    }

    /// The number of elements of a region that may differ from 0.
    pub(super) fn others(&self, region: &[Interval]) -> u128 {
        let rest = region.iter().enumerate().filter(|(dim, _)| self.says_nothing(*dim));
        let each: u128 = rest.map(|(_, range)| u128::from(range.len())).product();
        let along = region[self.along];
        let mut row: Vec<u64> = self.over.iter().map(|dim| region[*dim].start).collect();
        let mut sum = 0u128;
        loop {
            let number = row.iter().zip(self.extents).fold(0u64, |number, (at, extent)| number * extent + at);
            let from = i64::from(self.table.elements()[usize::try_from(number).expect("a table fits into memory")]);
            let end = u64::try_from(from + self.plus).unwrap_or(0).min(along.end);
            sum += u128::from(end.saturating_sub(along.start));
            let Some(dim) = (0..row.len()).rev().find(|dim| row[*dim] + 1 < region[self.over[*dim]].end) else { break };
            row[dim] += 1;
            (dim + 1..row.len()).for_each(|later| row[later] = region[self.over[later]].start);
        }
        sum * each
    }
}

/// Most tiles of a block.
const MOST_TILES: usize = 1 << 12;

impl Run<'_> {
    /// The block that some pieces and zeros make, if the pieces are parts of an array that is 0 elsewhere.
    ///
    /// The block may have several shards of the array side by side, along dims that say nothing about zeros. It is cut into
    /// *tiles* at all ends of pieces along these dims, and each tile must be a region of the array.
    pub(super) fn on_zeros(
        &self,
        extents: &[u64],
        view: &[u64],
        parts: &[(&Rc<Block>, Cuboid)],
    ) -> Result<Option<Rc<Block>>, Flaw> {
        let block = cut::assemble(extents, view, parts).and_then(|block| block.flat()).map_err(too_many)?;
        let Some(term) = block.pieces.first().map(|piece| piece.holds.term) else { return Ok(None) };
        let arrays = (0..).map(ArrayId).zip(&self.arrays).filter(|(_, own)| **own == term);
        let known = |(id, _): (ArrayId, &TermId)| Zeros::of(self.schedule.schedule(), id);
        let Some(zeros) = arrays.filter_map(known).next() else { return Ok(None) };
        if self.terms.extents(term).len() != extents.len() {
            return Ok(None);
        }
        // The dims of the array that the dims of the pieces are.
        let dims: Vec<usize> = (0..extents.len()).filter(|dim| extents[*dim] > 1).collect();
        let ranges = |(place, dim): (usize, &usize)| -> Vec<Interval> {
            let mut ends = vec![0, extents[*dim]];
            if zeros.says_nothing(*dim) {
                ends.extend(block.pieces.iter().flat_map(|piece| [piece.at[place].start, piece.at[place].end]));
            }
            let ends = ends.into_iter().sorted_unstable().dedup();
            ends.tuple_windows().map(|(start, end)| Interval { start, end }).collect()
        };
        let ranges: Vec<Vec<Interval>> = dims.iter().enumerate().map(ranges).collect();
        if ranges.iter().map(Vec::len).product::<usize>() > MOST_TILES {
            return Ok(None);
        }
        let tiles: Vec<Cuboid> = match ranges.is_empty() {
            true => vec![Cuboid::new()],
            false => ranges.into_iter().multi_cartesian_product().collect(),
        };
        let whole = |at: Cuboid| {
            let inside = |piece: &Piece| Some(piece.cut(&boxes::intersect(&piece.at, &at)?));
            let pieces: Vec<Piece> = block.pieces.iter().filter_map(inside).collect();
            let holds = self.region_of((term, &zeros), &dims, &at, &pieces)?;
            Some(Piece { at, holds })
        };
        let Some(pieces) = tiles.into_iter().map(whole).collect::<Option<Vec<Piece>>>() else { return Ok(None) };
        Ok(Some(Rc::new(Block::fitted(extents.to_vec(), block.view, pieces).map_err(too_many)?)))
    }

    /// The region of a term that a tile holds, if all of its pieces are in their places and have all elements that may
    /// differ from 0.
    fn region_of(
        &self,
        (term, zeros): (TermId, &Zeros<'_>),
        dims: &[usize],
        tile: &[Interval],
        pieces: &[Piece],
    ) -> Option<Holding> {
        let whole = self.terms.extents(term);
        let strides: Vec<i64> = row_major(whole).into_iter().map(signed).collect();
        // The number of the element at the first corner of the tile, if a piece is in its place.
        let corner = |piece: &Piece| {
            let runs = |(place, dim): (usize, &usize)| {
                piece.at[place].len() == 1 || piece.holds.strides[place] == strides[*dim]
            };
            let is_of_term = piece.holds.term == term && piece.holds.parts == self.closed;
            let before =
                |(place, dim): (usize, &usize)| strides[*dim] * signed(piece.at[place].start - tile[place].start);
            let number = piece.holds.base - dims.iter().enumerate().map(before).sum::<i64>();
            (is_of_term && dims.iter().enumerate().all(runs)).then_some(number)
        };
        let first = corner(pieces.first()?).filter(|first| *first >= 0)?;
        let mut region: Cuboid =
            unravel(first, whole).into_iter().map(|start| Interval { start, end: start + 1 }).collect();
        let start = region.clone();
        for (range, dim) in tile.iter().zip(dims) {
            region[*dim].end = region[*dim].start + range.len();
        }
        let is_inside = region.iter().zip(whole).all(|(range, extent)| range.end <= *extent);
        if !is_inside || pieces.iter().any(|piece| corner(piece) != Some(first)) {
            return None;
        }
        let of_piece = |piece: &Piece| {
            let mut part = start.clone();
            for ((range, tile), dim) in piece.at.iter().zip(tile).zip(dims) {
                part[*dim] = range.relative_to(tile.start).moved(start[*dim].start);
            }
            part
        };
        // The pieces do not overlap.
        let held: u128 = pieces.iter().map(|piece| zeros.others(&of_piece(piece))).sum();
        if held != zeros.others(&region) {
            return None;
        }
        let mut holds = Holding::region(term, &region, self.closed.clone(), &self.terms);
        let mut place = 0..;
        holds.strides.retain(|_| place.next().is_some_and(|dim| dims.contains(&dim)));
        Some(holds)
    }
}

const COUNTED: Dense = Dense::Input { supply: Supply::Counted };

fn place(of: &[Index], index: Index) -> Option<usize> {
    of.iter().position(|own| *own == index)
}

fn is_padded(array: &Array) -> bool {
    array.valid != array.extents
}

/// The array that another one is under another name, such as after a move.
///
/// - `on_the_way`: where all of these arrays are added.
fn named(schedule: &Schedule, mut id: ArrayId, on_the_way: &mut Vec<ArrayId>) -> ArrayId {
    loop {
        on_the_way.push(id);
        match &schedule.array(id).definition {
            Dense::Map { function: Function::Identity, operands, einsum }
                if einsum.operands[0] == einsum.result
                    && schedule.array(operands[0]).dtype == schedule.array(id).dtype =>
            {
                id = operands[0];
            }
            _ => return id,
        }
    }
}

/// Whether a function of one operand maps 0 to 0, in place.
fn keeps_zeros(function: Function) -> bool {
    match function {
        Function::Fill { with, .. } => with == Filler::Zero,
        Function::Identity
        | Function::Unary(_)
        | Function::ByNumber(..)
        | Function::Over(_)
        | Function::Cast(_)
        | Function::Binary(_)
        | Function::Is(_)
        | Function::IsNumber(..)
        | Function::Where
        | Function::Masked(_) => function.facts().keeps_zero,
        Function::Softmax { .. } | Function::Shift(_) => false,
    }
}
