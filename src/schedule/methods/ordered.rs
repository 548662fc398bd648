//! Sums of whole values that every device computes itself.
//!
//! Devices receive the terms in different orders, and a sum of floats depends on the order: copies of the result may
//! differ in their last bits. Where they must be identical, terms are added by rank on every device.

use super::super::{Builder, CoordMap, Cut, OpId, Region};
use super::place::length;
use crate::mesh::Axes;
use crate::operator::Operator;

/// A value received from the device this many ranks further up.
pub(super) struct Term {
    pub(super) value: OpId,
    /// Rank distance.
    pub(super) from: i64,
    /// Whether ranks wrap; without, devices near an end receive nothing.
    pub(super) wrap: bool,
}

impl Term {
    /// The source rank of each rank.
    fn source(&self, at: i64, n: i64) -> Option<i64> {
        let from = at + self.from;
        if self.wrap { Some(from.rem_euclid(n)) } else { Some(from).filter(|from| (0..n).contains(from)) }
    }
}

/// Limit on ordered terms; more are combined along a tree, as ordering takes n positions for each of n terms.
pub(super) const MOST_TERMS: u64 = 64;

/// Combines one term from each device of a group, in rank order if requested.
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
