//! Views the factors of a product as batches of matrices.

use super::element::{Arithmetic, Computation, Element, with_dtype};
use super::gemm::Gemm;
use super::roles::{Roles, result_extents};
use super::tensor::Tensor;
use super::view::{View, row_major};
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use std::borrow::Cow;

/// One operand, or the result, as a batch of matrices.
pub(super) struct Stack<'a, C: Clone> {
    pub(super) data: Cow<'a, [C]>,
    pub(super) offset: usize,
    /// Extents of the batch indices.
    pub(super) batch: Vec<usize>,
    /// Numbers of rows and columns.
    pub(super) matrix: [usize; 2],
}

/// Strides of each index in a block. A repeated index walks the diagonal, a missing index has stride 0.
pub(super) fn index_strides(indices: &[Index], strides: &[usize], count: usize) -> Vec<usize> {
    let mut sums = vec![0; count];
    for (index, stride) in indices.iter().zip(strides) {
        sums[usize::from(*index)] += stride;
    }
    sums
}

/// An operand as a batch of matrices with the given indices: a view if strides can express it, otherwise a copy.
pub(super) fn stack<'a, C: Gemm>(
    tensor: &'a Tensor,
    indices: &[Index],
    roles: &Roles,
    matrix: [&[Index]; 2],
) -> Stack<'a, C> {
    let strides = index_strides(indices, &tensor.view().strides, roles.lengths.len());
    let batch: Vec<usize> = roles.batch.iter().map(|index| strides[usize::from(*index)]).collect();
    let merged = matrix.map(|indices| roles.stride(indices, &strides));
    if let (Some(data), [Some(rows), Some(columns)]) = (C::try_borrow(tensor), merged) {
        return Stack { data: Cow::Borrowed(data), offset: tensor.view().offset, batch, matrix: [rows, columns] };
    }
    let order: Vec<Index> = [&roles.batch[..], matrix[0], matrix[1]].concat();
    let lengths = roles.lengths_of(&order);
    let own: Vec<usize> = order.iter().map(|index| strides[usize::from(*index)]).collect();
    let view = View { offset: tensor.view().offset, extents: lengths, strides: own };
    let packed = tensor.with_view(view);
    let data = with_dtype!(tensor.dtype(), T => packed.collect(|element: T| C::read(element)));
    let all = row_major(&packed.view().extents);
    let columns = roles.count(matrix[1]);
    Stack { data: Cow::Owned(data), offset: 0, batch: all[..roles.batch.len()].to_vec(), matrix: [columns, 1] }
}

/// Access to the buffer of a block if its elements already have the type.
trait Borrow: Element {
    fn try_borrow(tensor: &Tensor) -> Option<&[Self]> {
        (tensor.dtype() == Self::DTYPE).then(|| tensor.buffer::<Self>())
    }
}
impl<C: Element> Borrow for C {}

/// Tile size of the transposition: a cache line of elements, in as many rows as fit into a cache if they are a power
/// of two apart.
const TILE: [usize; 2] = [8, 16];

/// The first factor as a single matrix with contiguous rows, in the type in which its products are computed. Returned
/// unchanged if it is not a single matrix, or if its products are not computed in floats.
///
/// A product that is computed slice by slice packs its first factor for each slice, which is fastest with this layout.
///
/// - `other`: the extents of the second factor.
pub(super) fn rows_side_by_side(einsum: &Einsum, first: &Tensor, other: &[usize], dtype: DType) -> Tensor {
    let as_matrix = || {
        let (lengths, _) = result_extents(einsum, &[&first.view().extents, other]);
        let roles = Roles::new(einsum, lengths);
        let strides = index_strides(&einsum.operands[0], &first.view().strides, roles.lengths.len());
        let rows = (roles.count(&roles.rows), roles.stride(&roles.rows, &strides)?);
        let inner = (roles.count(&roles.inner), roles.stride(&roles.inner, &strides)?);
        let plain = roles.batch.is_empty() && rows.0 * inner.0 == first.view().elements();
        (plain && (rows.1 != 1 || first.dtype() != dtype)).then_some((roles, rows, inner))
    };
    let Some((roles, rows, inner)) = as_matrix() else { return first.clone() };
    let order: Vec<Index> = [&roles.inner[..], &roles.rows].concat();
    match Computation::of(dtype) {
        Computation::F32 => transposed::<f32>(einsum, first, &roles, &order, [rows, inner]),
        Computation::F64 => transposed::<f64>(einsum, first, &roles, &order, [rows, inner]),
        Computation::I64 | Computation::U64 => first.clone(),
    }
}

/// Copies the matrix to the order of these indices, rows minor-most. Takes lengths and strides of the rows and of the
/// inner indices.
fn transposed<C: Arithmetic>(
    einsum: &Einsum,
    first: &Tensor,
    roles: &Roles,
    order: &[Index],
    [(rows, down), (inner, across)]: [(usize, usize); 2],
) -> Tensor {
    let start = first.view().offset;
    let mut elements = vec![C::default(); rows * inner];
    with_dtype!(first.dtype(), T => {
        let buffer = first.buffer::<T>();
        for (row, column) in itertools::iproduct!((0..rows).step_by(TILE[0]), (0..inner).step_by(TILE[1])) {
            for j in column..inner.min(column + TILE[1]) {
                for i in row..rows.min(row + TILE[0]) {
                    elements[j * rows + i] = C::read(buffer[start + i * down + j * across]);
                }
            }
        }
    });
    let lengths = roles.lengths_of(order);
    let strides = index_strides(order, &row_major(&lengths), roles.lengths.len());
    let strides = einsum.operands[0].iter().map(|index| strides[usize::from(*index)]).collect();
    let extents = first.view().extents.clone();
    Tensor::owned(&lengths, elements).with_view(View { offset: 0, extents, strides })
}
