//! Sums of whole values that every device adds up for itself.
//!
//! Each device gets the terms in another order, and a sum of floats depends on it: copies of the result would differ in
//! their last bits. So floats are added by rank, the same order on every device.

use super::super::{Builder, CoordMap, Cut, OpId, Region};
use crate::mesh::Axes;
use crate::operator::Operator;

/// A value that a device got from the one so many ranks further up.
pub(super) struct Term {
    pub(super) value: OpId,
    /// Ranks; modulo the length of the group.
    pub(super) from: i64,
}

/// More terms are better combined along a tree: their order takes as many places as there are terms, for each of them.
pub(super) const MOST_TERMS: u64 = 64;

/// Combines one term from each device of a group; of floats in the order of their ranks.
pub(super) fn combine(builder: &mut Builder<'_>, axes: Axes, terms: &[Term], operator: Operator) -> OpId {
    let values: Vec<OpId> = terms.iter().map(|term| term.value).collect();
    // Two terms give the same in both orders.
    if !builder.dtype(values[0]).is_float() || terms.len() <= 2 {
        return builder.add(&values, operator);
    }
    let ranks = 0..terms.len();
    let by_rank: Vec<OpId> = ranks.map(|rank| of_rank(builder, axes, terms, rank)).collect();
    builder.add(&by_rank, operator)
}

/// The term of one rank, the same on every device of the group.
fn of_rank(builder: &mut Builder<'_>, axes: Axes, terms: &[Term], rank: usize) -> OpId {
    let n = i64::try_from(terms.len()).expect("fewer than 2^20 devices");
    let rank = i64::try_from(rank).expect("fewer than 2^20 devices");
    let extents = builder.extents(terms[0].value).to_vec();
    let view = [&[1], &extents[..]].concat();
    let piece = |term: &Term| {
        // Exactly one device of the group has it in this term.
        let here = |at: i64| ((at + term.from).rem_euclid(n) == rank).then_some(0);
        let map = CoordMap::Table { axes: axes.iter().collect(), entries: (0..n).map(here).collect() };
        let region: Region = std::iter::once(Cut::At(map)).chain(extents.iter().map(|_| Cut::Whole)).collect();
        (term.value, region)
    };
    let pieces = terms.iter().map(piece).collect();
    builder.assemble(extents.clone(), view, pieces)
}
