//! Declared kernels: local computations that are known by their dims and costs, such as sorting, convolutions, or
//! attention written by hand. A reference formula says what they compute.

use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::function::Function;
use crate::operator::Operator;

/// Most operands of a kernel.
pub const MOST_OPERANDS: usize = 4;

/// A declared kernel with the dims that it is called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The name in the program.
    pub name: String,
    /// The indices of operands and result; an index that only the result has is new.
    pub einsum: Einsum,
    /// The size of each index in whole arrays, including padding.
    pub lengths: Vec<u64>,
    /// Whether each index may be sharded. A sharded index that the result lacks leaves a sum open.
    pub sharded: Vec<bool>,
    /// Operations on whole arrays.
    pub flops: u64,
    /// Bytes that it reads and writes on whole arrays; `None` if it reads each operand and writes the result once.
    pub bytes: Option<u64>,
    /// What it computes, for numbers, and for the time of attention where it was measured; proofs ignore it.
    pub formula: Option<Formula>,
}

/// A computation on the operands of a kernel: values are numbered, the operands first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Formula {
    /// The operations in order; each adds a value.
    pub steps: Vec<FormulaStep>,
    /// The value of the kernel.
    pub result: usize,
}

/// An operation of a formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormulaStep {
    /// The operation.
    pub op: Local,
    /// The values that it computes with.
    pub operands: Vec<usize>,
    /// Element type of the result.
    pub dtype: DType,
}

/// A local operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Local {
    /// A product.
    Product(Einsum),
    /// A reduction, by an operator that folds.
    Reduce(Operator, Einsum),
    /// An elementwise function or a softmax.
    Map(Function, Einsum),
}

impl Local {
    /// The indices of its operands and result.
    pub fn einsum(&self) -> &Einsum {
        match self {
            Local::Product(einsum) | Local::Reduce(_, einsum) | Local::Map(_, einsum) => einsum,
        }
    }
}

impl Formula {
    /// Computes all values with `of`, and returns the one of the kernel.
    ///
    /// # Panics
    /// If a step uses a later value.
    pub fn evaluate<T: Clone>(&self, operands: Vec<T>, mut of: impl FnMut(&FormulaStep, &[&T]) -> T) -> T {
        let mut values = operands;
        for step in &self.steps {
            let value = of(step, &step.operands.iter().map(|operand| &values[*operand]).collect::<Vec<_>>());
            values.push(value);
        }
        values[self.result].clone()
    }

    /// Operations of its products, and elements of all its values, on operands of these extents.
    pub fn work(&self, operands: Vec<Vec<u64>>) -> (u128, u128) {
        let (mut flops, mut elements) = (0u128, 0u128);
        let mut count = |extents: &[u64]| {
            let size = extents.iter().fold(1u128, |size, extent| size.saturating_mul(u128::from(*extent)));
            elements = elements.saturating_add(size);
        };
        operands.iter().for_each(|extents| count(extents));
        self.evaluate(operands, |step, operands| {
            let (einsum, extents) =
                (step.op.einsum(), operands.iter().map(|extents| (*extents).clone()).collect::<Vec<_>>());
            if let Local::Product(einsum) = &step.op {
                flops = flops.saturating_add(einsum.flops(&extents));
            }
            let lengths = einsum.lengths(&extents).unwrap_or_default();
            let result: Vec<u64> =
                einsum.result.iter().filter_map(|index| lengths.get(usize::from(*index)).copied()).collect();
            count(&result);
            result
        });
        (flops, elements)
    }
}

impl Kernel {
    /// The length of each index on blocks of these extents; `None` if blocks do not fit together, are uneven, or lack a
    /// part of an index that must be whole.
    pub fn block(&self, operands: &[Vec<u64>]) -> Option<Vec<u64>> {
        let fits = operands.len() == self.einsum.operands.len();
        let mut lengths: Vec<Option<u64>> = vec![None; self.lengths.len()];
        for (indices, extents) in self.einsum.operands.iter().zip(operands).filter(|_| fits) {
            if indices.len() != extents.len() {
                return None;
            }
            for (index, extent) in indices.iter().zip(extents) {
                if lengths.get_mut(usize::from(*index))?.get_or_insert(*extent) != extent {
                    return None;
                }
            }
        }
        let whole = self.lengths.iter().zip(&self.sharded);
        let length = |(own, (whole, sharded)): (Option<u64>, (&u64, &bool))| {
            let own = own.unwrap_or(*whole);
            (own == *whole || *sharded && own > 0 && whole.is_multiple_of(own)).then_some(own)
        };
        fits.then(|| lengths.into_iter().zip(whole).map(length).collect()).flatten()
    }

    /// The extents of the result on blocks with these index lengths.
    pub fn result(&self, lengths: &[u64]) -> Vec<u64> {
        self.einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect()
    }

    /// The indices of which an operation needs all elements.
    pub fn whole(&self) -> impl Iterator<Item = Index> + '_ {
        (0..).zip(&self.sharded).filter(|(_, sharded)| !**sharded).map(|(index, _)| index)
    }

    /// Operations on blocks with these index lengths: in proportion to the sharded indices, rounded up.
    pub fn flops(&self, lengths: &[u64]) -> u128 {
        self.share(self.flops, lengths)
    }

    /// Declared bytes on blocks with these index lengths, in the same proportion.
    pub fn bytes(&self, lengths: &[u64]) -> Option<u128> {
        self.bytes.map(|bytes| self.share(bytes, lengths))
    }

    fn share(&self, amount: u64, lengths: &[u64]) -> u128 {
        let shards = self.lengths.iter().zip(lengths).map(|(whole, own)| u128::from(whole / own.max(&1)));
        let shards = shards.fold(1u128, u128::saturating_mul);
        u128::from(amount).div_ceil(shards.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `f(x[B, D], w[D, K]) -> [B, K, N]` with B and D sharded.
    fn kernel() -> Kernel {
        Kernel {
            name: "f".to_owned(),
            einsum: Einsum { operands: vec![vec![0, 1], vec![1, 2]], result: vec![0, 2, 3] },
            lengths: vec![8, 6, 4, 5],
            sharded: vec![true, true, false, false],
            flops: 100,
            bytes: Some(50),
            formula: None,
        }
    }

    #[test]
    fn blocks_keep_whole_indices() {
        let kernel = kernel();
        assert_eq!(kernel.block(&[vec![2, 3], vec![3, 4]]), Some(vec![2, 3, 4, 5]));
        assert_eq!(kernel.result(&[2, 3, 4, 5]), [2, 4, 5]);
        let misfits = [[vec![2, 3], vec![3, 2]], [vec![2, 3], vec![6, 4]], [vec![3, 6], vec![6, 4]]];
        assert!(
            misfits.iter().all(|extents| kernel.block(extents).is_none()),
            "uneven, or only a part of a whole index"
        );
        assert_eq!(kernel.block(&[vec![8, 6]]), None);
    }

    #[test]
    fn costs_follow_the_sharded_indices() {
        let kernel = kernel();
        assert_eq!((kernel.flops(&[8, 6, 4, 5]), kernel.bytes(&[8, 6, 4, 5])), (100, Some(50)));
        assert_eq!((kernel.flops(&[2, 2, 4, 5]), kernel.bytes(&[2, 2, 4, 5])), (9, Some(5)), "a twelfth, rounded up");
    }
}
