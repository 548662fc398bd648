//! Arrays of which only a part differs from 0: along one dim, the elements before a number that other dims determine.
//!
//! The slots of experts are such arrays: of the `C` slots that a group has for an expert, as many are used as the expert
//! has tokens.

use super::Dim;
use crate::supply::Table;

/// The part of an array that may differ from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Used {
    /// The dim whose last elements are 0, with its size.
    pub along: Dim,
    /// The dims of the table, in order, with their sizes.
    pub over: Vec<Dim>,
    /// Number of elements along the dim that may differ from 0, less `plus`; negative ones are none.
    pub table: Table,
    /// Added to each element of the table.
    pub plus: i64,
}

impl Used {
    /// Whether an array with these dims has all dims of the table, in full.
    pub fn fits(&self, dims: &[Dim]) -> bool {
        dims.contains(&self.along) && self.over.iter().all(|dim| dims.contains(dim))
    }

    /// The number of elements that may differ from 0.
    ///
    /// - `row`: the index along each dim of the table.
    pub fn at(&self, row: &[u64]) -> u64 {
        let number = row.iter().zip(&self.over).fold(0, |number, (at, dim)| number * dim.size + at);
        let stated = usize::try_from(number).ok().and_then(|number| self.table.elements().get(number));
        let count = stated.map_or(self.along.size, |count| u64::try_from(i64::from(*count) + self.plus).unwrap_or(0));
        count.min(self.along.size)
    }
}
