//! Combines blocks: addition, assembly, concatenation.

use super::element::{Computation, Element, with_dtype};
use super::map::map;
use super::tensor::Tensor;
use super::view::{Line, View, row_major, walk};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::{Function, Unary};
use crate::operator::Operator;
use std::ops::Range;

/// Combines all pieces of an open sum, or the one of a root, with the operator's function before and after.
pub(super) fn close(operator: Operator, blocks: Vec<Tensor>) -> Tensor {
    let count = blocks.len() as u64;
    let each = |function: Function, block: &Tensor| {
        let indices: Vec<u8> = (0..).take(block.view().extents.len()).collect();
        map(function, &Einsum { operands: vec![indices.clone()], result: indices }, &[block], block.dtype())
    };
    let sum = |operator, blocks| add(operator, blocks).expect("a group has members");
    match operator {
        Operator::SquareAdd => {
            sum(Operator::Sum, blocks.iter().map(|block| each(Function::Unary(Unary::Square), block)).collect())
        }
        Operator::Mean => each(Function::Over(count), &sum(Operator::Sum, blocks)),
        Operator::Root(_) => blocks.into_iter().next().expect("the root has it"),
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::And | Operator::Or => {
            sum(operator, blocks)
        }
    }
}

/// `a * b`, rounded once; integers wrap.
pub(super) fn times<T: Element>(a: T, b: T) -> T {
    match Computation::of(T::DTYPE) {
        Computation::F64 => T::from_f64(a.to_f64() * b.to_f64()),
        Computation::F32 => T::from_f32(a.to_f32() * b.to_f32()),
        Computation::I64 | Computation::U64 => T::from_i64(a.to_i64().wrapping_mul(b.to_i64())),
    }
}

/// Combines blocks of one shape and dtype element by element, in order. `operator` must be a fold. `None` if there
/// are no blocks.
///
/// Narrow floats are combined in f32 and rounded once. A first block that is not shared is overwritten; of two blocks,
/// an unshared second one is overwritten, too.
pub(super) fn add(operator: Operator, mut blocks: Vec<Tensor>) -> Option<Tensor> {
    let dtype = blocks.first()?.dtype();
    if blocks.len() == 1 {
        return blocks.pop();
    }
    if dtype.is_narrow_float() && blocks.len() > 2 && operator == Operator::Sum {
        return Some(with_dtype!(dtype, T => add_wide::<T>(&blocks)));
    }
    Some(with_dtype!(dtype, T => match operator {
        Operator::Sum => fold(blocks, <T as Element>::sum),
        Operator::Max | Operator::Or => fold(blocks, <T as Element>::largest),
        Operator::Min | Operator::And => fold(blocks, <T as Element>::smallest),
        Operator::Mul => fold(blocks, times::<T>),
        Operator::Mean | Operator::SquareAdd | Operator::Root(_) => unreachable!("it does not fold"),
    }))
}

/// Many blocks of a narrow float: the sum is accumulated in f32.
fn add_wide<T: Element>(blocks: &[Tensor]) -> Tensor {
    let extents = blocks[0].view().extents.clone();
    let mut sums: Vec<f32> = blocks[0].collect(|element: T| element.to_f32());
    for block in &blocks[1..] {
        zip_into(&mut sums, block, |sum, element: T| sum + element.to_f32());
    }
    Tensor::owned(&extents, sums.into_iter().map(T::from_f32).collect())
}

fn fold<T: Element>(blocks: Vec<Tensor>, combine: impl Fn(T, T) -> T + Copy) -> Tensor {
    let extents = blocks[0].view().extents.clone();
    let pair = blocks.len() == 2;
    let mut blocks = blocks.into_iter();
    let (first, second) = (blocks.next().expect("two or more"), blocks.next().expect("two or more"));
    let mut sums = match (first.into_buffer::<T>(), second) {
        (Ok(mut sums), second) => {
            zip_into(&mut sums, &second, combine);
            sums
        }
        (Err(first), second) => match if pair { second.into_buffer::<T>() } else { Err(second) } {
            Ok(mut sums) => {
                zip_into(&mut sums, &first, |sum, element| combine(element, sum));
                sums
            }
            Err(second) => zip(&first, &second, combine),
        },
    };
    for block in blocks {
        zip_into(&mut sums, &block, combine);
    }
    Tensor::owned(&extents, sums)
}

/// A new buffer with the combination of two blocks.
fn zip<T: Element>(a: &Tensor, b: &Tensor, combine: impl Fn(T, T) -> T) -> Vec<T> {
    let (left, right) = (a.buffer::<T>(), b.buffer::<T>());
    let mut sums = Vec::with_capacity(a.view().elements());
    let (offsets, strides) = ([a.view().offset, b.view().offset], [&a.view().strides[..], &b.view().strides[..]]);
    walk(&a.view().extents, offsets, strides, |Line { starts: [i, j], steps, length }| {
        if steps == [1, 1] {
            let pairs = left[i..i + length].iter().zip(&right[j..j + length]);
            sums.extend(pairs.map(|(x, y)| combine(*x, *y)));
        } else {
            sums.extend((0..length).map(|n| combine(left[i + n * steps[0]], right[j + n * steps[1]])));
        }
    });
    sums
}

/// Combines a block into a contiguous buffer of its shape.
fn zip_into<S: Copy, T: Element>(sums: &mut [S], block: &Tensor, combine: impl Fn(S, T) -> S) {
    let (view, buffer) = (block.view(), block.buffer::<T>());
    let own = row_major(&view.extents);
    walk(&view.extents, [0, view.offset], [&own, &view.strides], |Line { starts: [i, j], steps, length }| {
        // The lines of a contiguous buffer are adjacent.
        let sums = &mut sums[i..i + length];
        if steps[1] == 1 {
            let pairs = sums.iter_mut().zip(&buffer[j..j + length]);
            pairs.for_each(|(sum, element)| *sum = combine(*sum, *element));
        } else {
            let pairs = sums.iter_mut().enumerate();
            pairs.for_each(|(n, sum)| *sum = combine(*sum, buffer[j + n * steps[1]]));
        }
    });
}

/// A block with extents `view`, assembled from pieces in their boxes; `None` if the boxes leave a gap and it is not `zeros`.
///
/// Each piece has as many elements as its box. Where boxes overlap, the later piece wins.
pub(super) fn assemble(
    dtype: DType,
    view: &[usize],
    pieces: &[(Vec<Range<usize>>, Tensor)],
    zeros: bool,
) -> Option<Tensor> {
    let whole = View::row_major(view);
    let boxes: Vec<View> = pieces.iter().map(|(ranges, _)| whole.cut(ranges)).collect();
    let covers = covers(&whole, pieces, &boxes);
    if !covers && !zeros {
        return None;
    }
    Some(with_dtype!(dtype, T => {
        if covers && in_a_row(&boxes) {
            let mut block: Vec<T> = Vec::with_capacity(whole.elements());
            pieces.iter().for_each(|(_, piece)| piece.append_to(&mut block));
            return Some(Tensor::owned(view, block));
        }
        let mut block = vec![T::default(); whole.elements()];
        for (target, (_, piece)) in boxes.iter().zip(pieces) {
            copy_into::<T>(&mut block, target, &piece.reshaped(&target.extents));
        }
        Tensor::owned(view, block)
    }))
}

/// Whether the boxes, in order, cover the buffer contiguously from start to end.
pub(super) fn in_a_row(boxes: &[View]) -> bool {
    let mut end = 0;
    boxes.iter().all(|part| {
        let follows = part.is_contiguous() && part.offset == end;
        end += part.elements();
        follows
    })
}

fn copy_into<T: Element>(block: &mut [T], target: &View, piece: &Tensor) {
    let (view, buffer) = (piece.view(), piece.buffer::<T>());
    let strides = [&target.strides[..], &view.strides[..]];
    walk(&target.extents, [target.offset, view.offset], strides, |Line { starts: [i, j], steps, length }| {
        if steps == [1, 1] {
            block[i..i + length].copy_from_slice(&buffer[j..j + length]);
        } else {
            (0..length).for_each(|n| block[i + n * steps[0]] = buffer[j + n * steps[1]]);
        }
    });
}

/// Whether the boxes leave no gap.
fn covers(whole: &View, pieces: &[(Vec<Range<usize>>, Tensor)], boxes: &[View]) -> bool {
    let volume: usize = boxes.iter().fold(0, |sum, part| sum.saturating_add(part.elements()));
    let meet =
        |a: &[Range<usize>], b: &[Range<usize>]| a.iter().zip(b).all(|(a, b)| a.start < b.end && b.start < a.end);
    let disjoint = || (1..pieces.len()).all(|i| (0..i).all(|j| !meet(&pieces[i].0, &pieces[j].0)));
    if volume < whole.elements() {
        return false;
    }
    if volume == whole.elements() && disjoint() {
        return true;
    }
    let mut covered = vec![false; whole.elements()];
    for part in boxes {
        walk(&part.extents, [part.offset], [&part.strides], |Line { starts, steps, length }| {
            (0..length).for_each(|n| covered[starts[0] + n * steps[0]] = true);
        });
    }
    covered.into_iter().all(|element| element)
}

/// Concatenates the blocks along one dim.
pub(super) fn concatenate(blocks: &[Tensor], dim: usize) -> Tensor {
    let mut extents = blocks[0].view().extents.clone();
    let length = extents[dim];
    extents[dim] = length * blocks.len();
    let place = |rank: usize| -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = extents.iter().map(|extent| 0..*extent).collect();
        ranges[dim] = rank * length..(rank + 1) * length;
        ranges
    };
    let pieces: Vec<_> = blocks.iter().enumerate().map(|(rank, block)| (place(rank), block.clone())).collect();
    assemble(blocks[0].dtype(), &extents, &pieces, false).expect("side by side they leave no gap")
}
