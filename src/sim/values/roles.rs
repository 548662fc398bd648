//! Roles and lengths of the indices of a product.

use super::view::merged;
use crate::einsum::{Einsum, Index};

/// The role of each index in a product.
///
/// An index that only one operand has, and the result lacks, is summed with the contracted ones: the other operand
/// repeats along it.
pub(super) struct Roles {
    /// In both operands and the result, in result order.
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

/// The lengths of the indices and of the result, of operands that fit the einsum.
pub(super) fn result_extents(einsum: &Einsum, operands: &[&[usize]]) -> (Vec<usize>, Vec<usize>) {
    // An unused index number has length 1, which leaves all products unchanged.
    let mut lengths = vec![1; einsum.index_count()];
    for (index, extent) in
        einsum.operands.iter().zip(operands).flat_map(|(indices, extents)| indices.iter().zip(*extents))
    {
        lengths[usize::from(*index)] = *extent;
    }
    let result = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
    (lengths, result)
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

    /// The stride of several indices merged into one; `None` if they cannot be merged.
    pub(super) fn stride(&self, indices: &[Index], strides: &[usize]) -> Option<usize> {
        let own: Vec<usize> = indices.iter().map(|index| strides[usize::from(*index)]).collect();
        match merged(&self.lengths_of(indices), [&own])[..] {
            [] => Some(1),
            [(_, [stride])] => Some(stride),
            _ => None,
        }
    }
}
