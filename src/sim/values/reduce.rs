//! Reductions of blocks along some dims.

use super::combine::times;
use super::element::{Arithmetic, Element, with_arithmetic, with_dtype};
use super::roles::result_extents;
use super::tensor::Tensor;
use super::view::View;
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::operator::Operator;

/// Reduces a block over the indices that the einsum contracts.
///
/// Sums and products of narrow floats are accumulated in f32 and rounded once; integers wrap at the end.
pub(super) fn reduce(operator: Operator, einsum: &Einsum, a: &Tensor, dtype: DType) -> Tensor {
    let (lengths, extents) = result_extents(einsum, &[&a.view().extents]);
    // Kept indices come first, so that the reduced elements are contiguous.
    let order: Vec<Index> = einsum.result.iter().copied().chain(einsum.contracted()).collect();
    let stride = |index: &Index| -> usize {
        let places = einsum.operands[0].iter().zip(&a.view().strides);
        places.filter(|(other, _)| *other == index).map(|(_, stride)| stride).sum()
    };
    let strides = order.iter().map(stride).collect();
    let all: Vec<usize> = order.iter().map(|index| lengths[usize::from(*index)]).collect();
    let run = all[extents.len()..].iter().product();
    let lined_up = a.with_view(View { offset: a.view().offset, extents: all, strides });
    with_arithmetic!(dtype, C => through::<C>(operator, &lined_up, &extents, run, dtype))
}

/// The reduction in one arithmetic: each contiguous run of elements becomes one.
fn through<C: Arithmetic>(operator: Operator, a: &Tensor, extents: &[usize], run: usize, dtype: DType) -> Tensor {
    let elements: Vec<C> = with_dtype!(a.dtype(), S => a.collect(|element: S| C::read(element)));
    let combine: fn(C, C) -> C = match operator {
        Operator::Sum | Operator::Mean | Operator::SquareAdd | Operator::Root(_) => Element::sum,
        Operator::Max | Operator::Or => Element::largest,
        Operator::Min | Operator::And => Element::smallest,
        Operator::Mul => times,
    };
    let folded = elements.chunks(run.max(1)).filter_map(|run| run.iter().copied().reduce(combine));
    with_dtype!(dtype, T => Tensor::owned(extents, folded.map(C::write::<T>).collect()))
}
