//! The product of two blocks under an einsum, as a batch of matrix products.

use super::combine::add;
use super::element::{Arithmetic, Computation, Element, with_dtype};
use super::factor::{Stack, index_strides, stack};
use super::gemm::{Before, Gemm, Matrix};
use super::roles::{Roles, result_extents};
use super::tensor::Tensor;
use super::view::{Line, row_major, walk};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::operator::Operator;

/// The product of two blocks with result type `dtype`.
///
/// Narrow floats are widened to f32, accumulated there and rounded once. Integers are exact and wrap at the end: they
/// are computed in f64 if no sum exceeds its 53 bits, otherwise in i64.
pub(super) fn product(einsum: &Einsum, a: &Tensor, b: &Tensor, dtype: DType) -> Tensor {
    let (lengths, extents) = result_extents(einsum, &[&a.view().extents, &b.view().extents]);
    let roles = Roles::new(einsum, lengths);
    match Computation::of(dtype) {
        Computation::F32 => through::<f32>(einsum, &roles, a, b, dtype, &extents),
        Computation::F64 => through::<f64>(einsum, &roles, a, b, dtype, &extents),
        Computation::I64 | Computation::U64 if exact_in_f64(&roles, a, b) => {
            let exact = through::<f64>(einsum, &roles, a, b, DType::F64, &extents);
            #[expect(clippy::cast_possible_truncation, reason = "the sum is a whole number below 2^53")]
            let wrap = |sum: f64| sum as i64;
            with_dtype!(dtype, T => Tensor::owned(&extents, exact.collect(|sum: f64| T::from_i64(wrap(sum)))))
        }
        // Products wrap alike with and without a sign.
        Computation::I64 | Computation::U64 => through::<i64>(einsum, &roles, a, b, dtype, &extents),
    }
}

/// The product added to a block, in its buffer if it is not shared.
///
/// f32 and f64 accumulate onto the block, in the order of the library. Types that are rounded or widened are
/// multiplied first and then added.
pub(super) fn product_onto(sums: Tensor, einsum: &Einsum, a: &Tensor, b: &Tensor) -> Tensor {
    let dtype = sums.dtype();
    match Computation::of(dtype) {
        Computation::F32 if !dtype.is_narrow_float() => onto::<f32>(sums, einsum, a, b),
        Computation::F64 => onto::<f64>(sums, einsum, a, b),
        Computation::F32 | Computation::I64 | Computation::U64 => {
            let part = product(einsum, a, b, dtype).reshaped(&sums.view().extents);
            add(Operator::Sum, vec![sums, part]).expect("two blocks")
        }
    }
}

fn onto<C: Gemm>(sums: Tensor, einsum: &Einsum, a: &Tensor, b: &Tensor) -> Tensor {
    let kept = sums.view().extents.clone();
    let mut sums = sums.into_buffer::<C>().unwrap_or_else(|shared| shared.collect(|element: C| element));
    if !product_into(&mut sums, einsum, a, b, Before::Added) {
        let part = product(einsum, a, b, C::DTYPE).reshaped(&kept);
        return add(Operator::Sum, vec![Tensor::owned(&kept, sums), part]).expect("two blocks");
    }
    Tensor::owned(&kept, sums)
}

/// Writes the product in row-major order into a buffer of its length. Returns `false`, with the buffer unchanged, if
/// strides cannot express its matrices.
pub(super) fn product_into<C: Gemm>(sums: &mut [C], einsum: &Einsum, a: &Tensor, b: &Tensor, before: Before) -> bool {
    let (lengths, extents) = result_extents(einsum, &[&a.view().extents, &b.view().extents]);
    let roles = Roles::new(einsum, lengths);
    let strides = index_strides(&einsum.result, &row_major(&extents), roles.lengths.len());
    let direct = [&roles.rows, &roles.columns].map(|indices| roles.stride(indices, &strides));
    let [Some(rows), Some(columns)] = direct else { return false };
    let left = stack::<C>(a, &einsum.operands[0], &roles, [&roles.rows, &roles.inner]);
    let right = stack::<C>(b, &einsum.operands[1], &roles, [&roles.inner, &roles.columns]);
    let batch = roles.batch.iter().map(|index| strides[usize::from(*index)]).collect();
    multiply(&roles, &left, &right, sums, batch, [rows, columns], before);
    true
}

/// Whether all sums of products of these integers stay below 2^53.
fn exact_in_f64(roles: &Roles, a: &Tensor, b: &Tensor) -> bool {
    let [a, b] = [a, b].map(largest_integer);
    let terms = roles.count(&roles.inner) as u128;
    u128::from(a)
        .checked_mul(u128::from(b))
        .and_then(|product| product.checked_mul(terms))
        .is_some_and(|sum| sum < 1 << 53)
}

/// The largest magnitude in a block of integers, or an upper bound.
fn largest_integer(tensor: &Tensor) -> u64 {
    let dtype = tensor.dtype();
    if dtype.bits() <= 8 {
        return 256;
    }
    let mut largest = 0;
    with_dtype!(dtype, T => tensor.visit(|element: T| {
        let magnitude = if T::DTYPE.is_unsigned() { element.to_u64() } else { element.to_i64().unsigned_abs() };
        largest = largest.max(magnitude);
    }));
    largest
}

/// The product in one arithmetic.
fn through<C: Gemm>(einsum: &Einsum, roles: &Roles, a: &Tensor, b: &Tensor, dtype: DType, extents: &[usize]) -> Tensor {
    let left = stack::<C>(a, &einsum.operands[0], roles, [&roles.rows, &roles.inner]);
    let right = stack::<C>(b, &einsum.operands[1], roles, [&roles.inner, &roles.columns]);
    let strides = index_strides(&einsum.result, &row_major(extents), roles.lengths.len());
    let direct = [&roles.rows, &roles.columns].map(|indices| roles.stride(indices, &strides));
    let mut sums = vec![C::default(); extents.iter().product()];
    if let [Some(rows), Some(columns)] = direct {
        let batch = roles.batch.iter().map(|index| strides[usize::from(*index)]).collect();
        multiply(roles, &left, &right, &mut sums, batch, [rows, columns], Before::Replaced);
        return rounded::<C>(Tensor::owned(extents, sums), dtype);
    }
    let order = [&roles.batch[..], &roles.rows, &roles.columns].concat();
    let lengths = roles.lengths_of(&order);
    let batch = row_major(&lengths)[..roles.batch.len()].to_vec();
    multiply(roles, &left, &right, &mut sums, batch, [roles.count(&roles.columns), 1], Before::Replaced);
    let strides = index_strides(&order, &row_major(&lengths), roles.lengths.len());
    let strides = einsum.result.iter().map(|index| strides[usize::from(*index)]).collect();
    let sums = Tensor::owned(&lengths, sums);
    let in_order = sums.with_view(super::view::View { offset: 0, extents: extents.to_vec(), strides });
    with_dtype!(dtype, T => Tensor::owned(extents, in_order.collect(|sum: C| sum.write::<T>())))
}

/// Converts the sums to the dtype of the result.
fn rounded<C: Arithmetic>(sums: Tensor, dtype: DType) -> Tensor {
    if sums.dtype() == dtype {
        return sums;
    }
    let extents = sums.view().extents.clone();
    with_dtype!(dtype, T => Tensor::owned(&extents, sums.collect(|sum: C| sum.write::<T>())))
}

/// Multiplies a batch of matrices.
fn multiply<C: Gemm>(
    roles: &Roles,
    a: &Stack<'_, C>,
    b: &Stack<'_, C>,
    c: &mut [C],
    batch: Vec<usize>,
    matrix: [usize; 2],
    before: Before,
) {
    let [rows, inner, columns] = [&roles.rows, &roles.inner, &roles.columns].map(|indices| roles.count(indices));
    let lengths = roles.lengths_of(&roles.batch);
    walk(&lengths, [a.offset, b.offset, 0], [&a.batch, &b.batch, &batch], |Line { starts, steps, length }| {
        for i in 0..length {
            let at = |operand: usize| starts[operand] + i * steps[operand];
            let left = Matrix { data: &a.data[at(0)..], size: [rows, inner], strides: a.matrix };
            let right = Matrix { data: &b.data[at(1)..], size: [inner, columns], strides: b.matrix };
            C::multiply(left, right, &mut c[at(2)..], matrix, before);
        }
    });
}
