//! Slices and assembles blocks whose pieces lie in different views.
//!
//! A region of a view that takes each dim whole or at one index is a box in any finer view, too. If a region takes a
//! range of a dim whose pieces lie in a finer view, or if views are incompatible, the blocks are flattened first.

use super::block::{Block, Piece, TooManyPieces, common_view, without_ones};
use super::boxes::{self, Cuboid, Interval};
use crate::schedule::view::groups;
use std::borrow::Cow;
use std::rc::Rc;

/// The region of a view of a block, as a block of these extents.
pub(super) fn slice(block: &Block, view: &[u64], region: &[Interval], extents: &[u64]) -> Result<Block, TooManyPieces> {
    let common = common_view(&block.view, view).filter(|common| stays_box(view, common, region));
    let block = match common {
        Some(common) => block.within(&common),
        None => block.flat()?.within(&without_ones(view)),
    };
    let region = spread(view, &block.view, region);
    let mut lengths = region.iter().map(|range| range.len());
    let left: Vec<bool> = lengths.clone().map(|length| length > 1).collect();
    let pieces = block.pieces.iter().filter_map(|piece| {
        let mut kept = piece.cut(&boxes::intersect(&piece.at, &region)?);
        let at = kept.at.iter().zip(&region).map(|(range, cut)| range.relative_to(cut.start));
        kept.at = at.zip(&left).filter_map(|(range, left)| left.then_some(range)).collect();
        let mut dims = left.iter();
        kept.holds.strides.retain(|_| dims.next() == Some(&true));
        Some(kept)
    });
    let pieces = pieces.collect();
    let view = lengths.by_ref().filter(|length| *length > 1).collect();
    Block::fitted(extents.to_vec(), view, pieces)
}

/// A block with these extents, assembled from blocks that each fill a region of the view.
pub(super) fn assemble(extents: &[u64], view: &[u64], parts: &[(&Rc<Block>, Cuboid)]) -> Result<Block, TooManyPieces> {
    let plain = || view.iter().map(|extent| without_ones(&[*extent])).collect::<Vec<_>>();
    let (finer, flat) = finer(view, parts).map_or_else(|| (plain(), true), |finer| (finer, false));
    let mut pieces = Vec::with_capacity(parts.len());
    for (block, region) in parts {
        let block = if flat { Cow::Owned(block.flat()?) } else { Cow::Borrowed(block.as_ref()) };
        let own = region.iter().zip(view).zip(&finer).flat_map(|((range, extent), finer)| match range.len() {
            length if length == *extent => finer.clone(),
            length => without_ones(&[length]),
        });
        let block = block.within(&own.collect::<Vec<u64>>());
        pieces.extend(block.pieces.into_iter().map(|piece| placed(piece, view, &finer, region)));
    }
    Block::fitted(extents.to_vec(), finer.concat(), pieces)
}

/// The blocks' common view, or `None` if they must be flattened.
pub(super) fn common_to_all<'a>(mut blocks: impl Iterator<Item = &'a Block>) -> Option<Vec<u64>> {
    let first = blocks.next().map(|block| block.view.clone()).unwrap_or_default();
    blocks.try_fold(first, |common, block| common_view(&common, &block.view))
}

/// Whether a region of a view is a box in a finer view.
fn stays_box(view: &[u64], finer: &[u64], region: &[Interval]) -> bool {
    let groups = groups(finer, view).expect("a refinement");
    let mut dims = region.iter().zip(view).zip(groups);
    dims.all(|((range, extent), finer)| finer.len() < 2 || range.len() == 1 || range.len() == *extent)
}

/// Expresses a region of a view as a box in a finer view.
fn spread(view: &[u64], finer: &[u64], region: &[Interval]) -> Cuboid {
    let groups = groups(finer, view).expect("a refinement");
    let mut spread = Vec::with_capacity(finer.len());
    for ((range, extent), dims) in region.iter().zip(view).zip(groups) {
        match dims.len() {
            1 => spread.push(*range),
            _ if range.len() == *extent => spread.extend(boxes::whole(&finer[dims])),
            _ => spread.extend(digits(range.start, &finer[dims])),
        }
    }
    spread
}

/// Expresses an index of a dim in its finer dims.
fn digits(index: u64, finer: &[u64]) -> Cuboid {
    let mut rest = index;
    let mut digits: Cuboid = finer
        .iter()
        .rev()
        .map(|extent| {
            let start = rest % extent;
            rest /= extent;
            Interval { start, end: start + 1 }
        })
        .collect();
    digits.reverse();
    digits
}

/// For each dim of the view, the finer dims in which the pieces of all parts lie.
fn finer(view: &[u64], parts: &[(&Rc<Block>, Cuboid)]) -> Option<Vec<Vec<u64>>> {
    let mut finer: Vec<Vec<u64>> = view.iter().map(|extent| without_ones(&[*extent])).collect();
    let mut in_ranges = vec![false; view.len()];
    for (block, region) in parts {
        let lengths: Vec<u64> = region.iter().map(|range| range.len()).collect();
        let common = common_view(&block.view, &lengths)?;
        let groups = groups(&common, &lengths)?;
        for (dim, own) in groups.into_iter().enumerate() {
            if lengths[dim] == view[dim] {
                if finer[dim] != common[own.clone()] {
                    finer[dim] = common_view(&finer[dim], &common[own])?;
                }
            } else if lengths[dim] > 1 {
                in_ranges[dim] = true;
                if own.len() > 1 {
                    return None;
                }
            }
        }
    }
    let boxes = finer.iter().zip(in_ranges).all(|(finer, in_ranges)| !in_ranges || finer.len() == 1);
    boxes.then_some(finer)
}

/// A piece of a part, expressed in the finer dims of the view.
fn placed(piece: Piece, view: &[u64], finer: &[Vec<u64>], region: &[Interval]) -> Piece {
    let Piece { at, mut holds } = piece;
    let mut own = at.into_iter().zip(std::mem::take(&mut holds.strides));
    let mut placed = Piece { at: Vec::new(), holds };
    let mut put = |range, stride| {
        placed.at.push(range);
        placed.holds.strides.push(stride);
    };
    for ((range, extent), finer) in region.iter().zip(view).zip(finer) {
        match range.len() {
            length if length == *extent => own.by_ref().take(finer.len()).for_each(|(at, stride)| put(at, stride)),
            1 => digits(range.start, finer).into_iter().for_each(|at| put(at, 0)),
            _ => own.by_ref().take(1).for_each(|(at, stride)| put(at.moved(range.start), stride)),
        }
    }
    placed
}
