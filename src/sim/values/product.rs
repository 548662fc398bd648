//! The product of two blocks under an einsum, as a batch of matrix products.

use super::combine::add;
use super::element::{Element, with_dtype};
use super::factor::{Stack, index_strides, stack};
use super::gemm::{Before, Gemm, Matrix};
use super::tensor::Tensor;
use super::view::{Line, merged, row_major, walk};
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::operator::Operator;

/// What each index does in a product.
///
/// Indices of one operand alone that the result lacks are summed with the contracted ones: the other operand repeats
/// along them.
pub(super) struct Roles {
    /// In both operands and in the result, in its order.
    pub(super) batch: Vec<Index>,
    /// In the first operand and in the result.
    pub(super) rows: Vec<Index>,
    /// In the second operand and in the result.
    pub(super) columns: Vec<Index>,
    /// Not in the result.
    pub(super) inner: Vec<Index>,
    /// The length of each index.
    pub(super) lengths: Vec<usize>,
}

/// The lengths of the indices and of the result.
///
/// # Errors
/// What is wrong, in words: the operands do not fit the einsum, or the result has an index twice or out of nowhere.
pub(super) fn result_extents(einsum: &Einsum, operands: &[&[usize]]) -> Result<(Vec<usize>, Vec<usize>), String> {
    if einsum.operands.len() != operands.len() {
        return Err(format!("`{einsum}` takes {} operands, there are {}", einsum.operands.len(), operands.len()));
    }
    let known = |index: &Index| einsum.operands.iter().flatten().any(|other| other == index);
    let once = |index: &Index| einsum.result.iter().filter(|other| *other == index).count() == 1;
    if !einsum.result.iter().all(|index| known(index) && once(index)) {
        return Err(format!("the result of `{einsum}` has an index twice or out of nowhere"));
    }
    let mut lengths: Vec<Option<usize>> = vec![None; einsum.index_count()];
    for (indices, extents) in einsum.operands.iter().zip(operands) {
        let fits = indices.len() == extents.len()
            && indices
                .iter()
                .zip(*extents)
                .all(|(index, extent)| *lengths[usize::from(*index)].get_or_insert(*extent) == *extent);
        if !fits {
            return Err(format!("the extents {operands:?} do not fit `{einsum}`"));
        }
    }
    // A gap in the numbering has no length; 1 leaves all products as they are.
    let lengths: Vec<usize> = lengths.into_iter().map(|length| length.unwrap_or(1)).collect();
    let result = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
    Ok((lengths, result))
}

impl Roles {
    pub(super) fn new(einsum: &Einsum, lengths: Vec<usize>) -> Roles {
        let has = |operand: usize, index: &Index| einsum.operands[operand].contains(index);
        let (mut batch, mut rows, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for index in &einsum.result {
            match (has(0, index), has(1, index)) {
                (true, true) => batch.push(*index),
                (true, false) => rows.push(*index),
                (false, _) => columns.push(*index),
            }
        }
        Roles { batch, rows, columns, inner: einsum.contracted(), lengths }
    }

    pub(super) fn lengths_of(&self, indices: &[Index]) -> Vec<usize> {
        indices.iter().map(|index| self.lengths[usize::from(*index)]).collect()
    }

    pub(super) fn count(&self, indices: &[Index]) -> usize {
        self.lengths_of(indices).iter().product()
    }

    /// The stride of several indices taken as one; `None` where they are not one.
    pub(super) fn stride(&self, indices: &[Index], strides: &[usize]) -> Option<usize> {
        let own: Vec<usize> = indices.iter().map(|index| strides[usize::from(*index)]).collect();
        match merged(&self.lengths_of(indices), [&own])[..] {
            [] => Some(1),
            [(_, [stride])] => Some(stride),
            _ => None,
        }
    }
}

/// The product of two blocks: `einsum` says which indices meet, `dtype` what comes out.
///
/// bf16 and f16 are widened to f32, accumulate there and are rounded once. Integers are exact and wrap at the end:
/// they go through f64 where no sum can leave its 53 bits, else through i64.
///
/// # Errors
/// What is wrong, in words: extents that do not fit, or a dtype without products.
pub(super) fn product(einsum: &Einsum, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor, String> {
    let (lengths, extents) = result_extents(einsum, &[&a.view().extents, &b.view().extents])?;
    let roles = Roles::new(einsum, lengths);
    match dtype {
        DType::Bool => Err("bool has no products".to_owned()),
        DType::Bf16 | DType::F16 | DType::F32 => Ok(through::<f32>(einsum, &roles, a, b, dtype, &extents)),
        DType::F64 => Ok(through::<f64>(einsum, &roles, a, b, dtype, &extents)),
        DType::I8 | DType::I32 | DType::I64 if a.dtype().is_float() || b.dtype().is_float() => {
            Err(format!("a product of floats is not {dtype}"))
        }
        DType::I8 | DType::I32 | DType::I64 if exact_in_f64(&roles, a, b) => {
            let exact = through::<f64>(einsum, &roles, a, b, DType::F64, &extents);
            #[expect(clippy::cast_possible_truncation, reason = "the sum is a whole number below 2^53")]
            let wrap = |sum: f64| sum as i64;
            Ok(with_dtype!(dtype, T => Tensor::owned(&extents, exact.collect(|sum: f64| T::from_i64(wrap(sum))))))
        }
        DType::I8 | DType::I32 | DType::I64 => Ok(through::<i64>(einsum, &roles, a, b, dtype, &extents)),
    }
}

/// The product added to a block of its elements in their order, on the block's own buffer where nobody else holds it.
///
/// f32 and f64 accumulate onto the block, in the order of the library; what rounds or widens is computed first and added.
///
/// # Errors
/// As [`product`].
pub(super) fn product_onto(sums: Tensor, einsum: &Einsum, a: &Tensor, b: &Tensor) -> Result<Tensor, String> {
    let dtype = sums.dtype();
    match dtype {
        DType::F32 => onto::<f32>(sums, einsum, a, b),
        DType::F64 => onto::<f64>(sums, einsum, a, b),
        DType::Bool | DType::I8 | DType::I32 | DType::I64 | DType::Bf16 | DType::F16 => {
            let part = product(einsum, a, b, dtype)?.reshaped(&sums.view().extents);
            add(Operator::Sum, vec![sums, part]).ok_or_else(|| "nothing is added".to_owned())
        }
    }
}

fn onto<C: Gemm>(sums: Tensor, einsum: &Einsum, a: &Tensor, b: &Tensor) -> Result<Tensor, String> {
    let kept = sums.view().extents.clone();
    let mut sums = sums.into_buffer::<C>().unwrap_or_else(|shared| shared.collect(|element: C| element));
    if !product_into(&mut sums, einsum, a, b, Before::Added)? {
        let part = product(einsum, a, b, C::DTYPE)?.reshaped(&kept);
        return add(Operator::Sum, vec![Tensor::owned(&kept, sums), part]).ok_or_else(|| "nothing is added".to_owned());
    }
    Ok(Tensor::owned(&kept, sums))
}

/// The product in row-major order in a buffer of its length; `false`, and the buffer as it was, where strides cannot
/// say its matrices.
///
/// # Errors
/// Extents that do not fit.
pub(super) fn product_into<C: Gemm>(
    sums: &mut [C],
    einsum: &Einsum,
    a: &Tensor,
    b: &Tensor,
    before: Before,
) -> Result<bool, String> {
    let (lengths, extents) = result_extents(einsum, &[&a.view().extents, &b.view().extents])?;
    let roles = Roles::new(einsum, lengths);
    let strides = index_strides(&einsum.result, &row_major(&extents), roles.lengths.len());
    let direct = [&roles.rows, &roles.columns].map(|indices| roles.stride(indices, &strides));
    let [Some(rows), Some(columns)] = direct else { return Ok(false) };
    let left = stack::<C>(a, &einsum.operands[0], &roles, [&roles.rows, &roles.inner]);
    let right = stack::<C>(b, &einsum.operands[1], &roles, [&roles.inner, &roles.columns]);
    let batch = roles.batch.iter().map(|index| strides[usize::from(*index)]).collect();
    multiply(&roles, &left, &right, sums, batch, [rows, columns], before);
    Ok(true)
}

/// Whether no sum of products of these integers reaches 2^53.
fn exact_in_f64(roles: &Roles, a: &Tensor, b: &Tensor) -> bool {
    let [a, b] = [a, b].map(largest_integer);
    let terms = roles.count(&roles.inner) as u128;
    u128::from(a)
        .checked_mul(u128::from(b))
        .and_then(|product| product.checked_mul(terms))
        .is_some_and(|sum| sum < 1 << 53)
}

/// The largest magnitude that stands in a block of integers, or could.
fn largest_integer(tensor: &Tensor) -> u64 {
    match tensor.dtype() {
        DType::I8 => 128,
        DType::Bool | DType::I32 | DType::I64 | DType::Bf16 | DType::F16 | DType::F32 | DType::F64 => {
            let mut largest = 0;
            with_dtype!(tensor.dtype(), T => tensor.visit(|element: T| largest = largest.max(element.to_i64().unsigned_abs())));
            largest
        }
    }
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
        return rounded(Tensor::owned(extents, sums), dtype);
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

/// The sums in the dtype of the result: as they are, or rounded.
fn rounded(sums: Tensor, dtype: DType) -> Tensor {
    if sums.dtype() == dtype {
        return sums;
    }
    let extents = sums.view().extents.clone();
    with_dtype!(sums.dtype(), C => with_dtype!(dtype, T => {
        Tensor::owned(&extents, sums.collect(|sum: C| convert::<C, T>(sum)))
    }))
}

/// From an arithmetic to an element type.
fn convert<C: Element, T: Element>(value: C) -> T {
    if C::DTYPE.is_float() {
        if C::DTYPE == DType::F64 { T::from_f64(value.to_f64()) } else { T::from_f32(value.to_f32()) }
    } else {
        T::from_i64(value.to_i64())
    }
}

/// Multiplies matrix after matrix.
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
