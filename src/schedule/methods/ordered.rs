//! Sums of whole values that every device adds up for itself.
//!
//! Each device gets the terms in another order, and a sum of floats depends on it: copies of the result may differ in
//! their last bits. Where they must not, terms are added by rank, the same order on every device.

use super::super::{Builder, CoordMap, Cut, OpId, Region};
use super::place::length;
use crate::mesh::Axes;
use crate::operator::Operator;

/// A value that a device got from the one so many ranks further up.
pub(super) struct Term {
    pub(super) value: OpId,
    /// Ranks.
    pub(super) from: i64,
    /// Whether ranks wrap; without, devices near an end have none.
    pub(super) wrap: bool,
}

impl Term {
    /// From which rank the device of a rank has it.
    fn source(&self, at: i64, n: i64) -> Option<i64> {
        let from = at + self.from;
        if self.wrap { Some(from.rem_euclid(n)) } else { Some(from).filter(|from| (0..n).contains(from)) }
    }
}

/// More terms are better combined along a tree: their order takes as many places as there are terms, for each of them.
pub(super) const MOST_TERMS: u64 = 64;

/// Combines one term from each device of a group; in the order of their ranks where it is asked for.
pub(super) fn combine(builder: &mut Builder<'_>, axes: Axes, terms: &[Term], operator: Operator) -> OpId {
    let values: Vec<OpId> = terms.iter().map(|term| term.value).collect();
    // Two terms give the same in both orders.
    let n = length(builder, axes);
    if !builder.keeps_order(values[0]) || n <= 2 {
        return builder.add(&values, operator);
    }
    let by_rank: Vec<OpId> = (0..n).map(|rank| of_rank(builder, axes, terms, rank)).collect();
    builder.add(&by_rank, operator)
}

/// The term of one rank, the same on every device of the group.
fn of_rank(builder: &mut Builder<'_>, axes: Axes, terms: &[Term], rank: i64) -> OpId {
    let n = length(builder, axes);
    let extents = builder.extents(terms[0].value).to_vec();
    let view = [&[1], &extents[..]].concat();
    let piece = |term: &Term| {
        // Exactly one device of the group has it in this term; on a line perhaps none.
        let here = |at: i64| (term.source(at, n) == Some(rank)).then_some(0);
        let map = CoordMap::Table { axes: axes.iter().collect(), entries: (0..n).map(here).collect() };
        let region: Region = std::iter::once(Cut::At(map)).chain(extents.iter().map(|_| Cut::Whole)).collect();
        (term.value, region)
    };
    let pieces = terms.iter().map(piece).collect();
    builder.assemble(extents.clone(), view, pieces)
}
