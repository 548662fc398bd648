//! Einsums without names: `ab,bc->ac`.

use crate::layout::DimId;
use itertools::Itertools;
use std::fmt;

/// An index of an einsum, numbered by first appearance, so equal computations compare equal.
pub type Index = u8;

/// The indices of the operands and of the result of a local computation.
///
/// An index that is not in the result is contracted. For elementwise functions the indices define alignment: a missing
/// index broadcasts, another order transposes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Einsum {
    /// The indices of each operand.
    pub operands: Vec<Vec<Index>>,
    /// The indices of the result.
    pub result: Vec<Index>,
}

impl Einsum {
    /// Numbers the dims of the operands by first appearance.
    ///
    /// # Panics
    /// If the result has a dim that no operand has, or there are more than 256 dims.
    pub fn new(operands: &[Vec<DimId>], result: &[DimId]) -> Einsum {
        let einsum = Einsum::with_new_dims(operands, result);
        assert!(
            einsum.result.iter().all(|index| einsum.operands.iter().flatten().contains(index)),
            "each dim of the result has a source"
        );
        einsum
    }

    /// As [`Einsum::new`], for a declared kernel, whose result may have new dims.
    ///
    /// # Panics
    /// If there are more than 256 dims.
    pub fn with_new_dims(operands: &[Vec<DimId>], result: &[DimId]) -> Einsum {
        let mut seen: Vec<DimId> = Vec::new();
        let mut number = |dim: DimId| -> Index {
            let place = seen.iter().position(|known| *known == dim).unwrap_or_else(|| {
                seen.push(dim);
                seen.len() - 1
            });
            Index::try_from(place).expect("an einsum has at most 256 dims")
        };
        let operands: Vec<Vec<Index>> =
            operands.iter().map(|dims| dims.iter().map(|dim| number(*dim)).collect()).collect();
        let result: Vec<Index> = result.iter().map(|dim| number(*dim)).collect();
        Einsum { operands, result }
    }

    /// Number of distinct indices.
    pub fn index_count(&self) -> usize {
        self.operands.iter().flatten().chain(&self.result).max().map_or(0, |most| usize::from(*most) + 1)
    }

    /// The contracted indices, in order.
    pub fn contracted(&self) -> Vec<Index> {
        (0..self.index_count())
            .filter_map(|index| Index::try_from(index).ok())
            .filter(|index| !self.result.contains(index))
            .collect()
    }

    /// Of a reduction: the dims of the operand that the result lacks, and the indices of the others, in order.
    pub fn reduced(&self) -> (Vec<usize>, Vec<Index>) {
        let indices = self.operands.iter().flatten();
        let dims = indices.clone().enumerate().filter(|(_, index)| !self.result.contains(index)).map(|(dim, _)| dim);
        (dims.collect(), indices.copied().filter(|index| self.result.contains(index)).collect())
    }

    /// Length of each index, from the extents of the operands; `None` if two disagree.
    pub fn lengths(&self, extents: &[Vec<u64>]) -> Option<Vec<u64>> {
        let mut lengths: Vec<Option<u64>> = vec![None; self.index_count()];
        for (indices, extents) in self.operands.iter().zip(extents) {
            if indices.len() != extents.len() {
                return None;
            }
            for (index, extent) in indices.iter().zip(extents) {
                let length = lengths[usize::from(*index)].get_or_insert(*extent);
                if length != extent {
                    return None;
                }
            }
        }
        lengths.into_iter().collect()
    }

    /// Floating-point operations of a product with these operand extents: two per point of the iteration space.
    pub fn flops(&self, extents: &[Vec<u64>]) -> u128 {
        let lengths = self.lengths(extents).unwrap_or_default();
        lengths.iter().fold(2u128, |product, length| product.saturating_mul(u128::from(*length)))
    }
}

impl fmt::Display for Einsum {
    /// Formats `ab,bc->ac`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled(letter))
    }
}

impl Einsum {
    /// Formats `bd,df->bf`, with a letter for each index.
    pub fn spelled(&self, letter: impl Fn(Index) -> char) -> String {
        let word = |indices: &Vec<Index>| -> String { indices.iter().map(|index| letter(*index)).collect() };
        let operands: Vec<String> = self.operands.iter().map(word).collect();
        format!("{}->{}", operands.join(","), word(&self.result))
    }
}

/// One character per index: `a` to `z`, then `A` to `Z`, then Greek and on.
pub fn letter(index: Index) -> char {
    match index {
        0..26 => char::from(b'a' + index),
        26..52 => char::from(b'A' + index - 26),
        _ => char::from_u32(0x3B1 + u32::from(index) - 52).unwrap_or('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matmul() {
        let [i, j, k] = [7, 3, 5].map(DimId);
        let einsum = Einsum::new(&[vec![i, j], vec![j, k]], &[i, k]);
        assert_eq!(einsum.to_string(), "ab,bc->ac");
        assert_eq!(einsum.contracted(), [1]);
        assert_eq!(einsum.flops(&[vec![2, 3], vec![3, 4]]), 48);
        assert_eq!(einsum.lengths(&[vec![2, 3], vec![4, 4]]), None);
    }
}
