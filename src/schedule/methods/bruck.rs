//! Bruck's exchange: an AllToAll over a switch in about log2 n rounds.
//!
//! A device numbers its blocks by the distance up to their destination. In round k it sends all blocks whose number has
//! bit k, in one message, to the device 2^k further up, and receives as many in their places. At the end each block has
//! travelled its number. This takes few messages, and about log2(n) / 2 times the bytes.
//!
//! Source: J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems"
//! (1997).

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::exchange::Exchange;
use super::place::length;

/// Limit on the run length; longer ones need too many operations, n log2(n).
pub(super) const LONGEST: u64 = 128;

impl Exchange {
    /// The received blocks and their places in the result.
    pub(super) fn in_rounds(&self, builder: &mut Builder<'_>, value: OpId, extents: &[u64]) -> Vec<(OpId, Region)> {
        let axes = self.from.axes;
        let n = length(builder, axes);
        let slot = |builder: &Builder<'_>, shift| CoordMap::along(builder.mesh(), axes, shift, true);
        let mut blocks: Vec<OpId> = Vec::new();
        for distance in 0..n {
            let there = slot(builder, distance);
            blocks.push(self.to.slot(builder, value, there, None));
        }
        for round in (0..).take_while(|round| 1 << round < n) {
            let far: i64 = 1 << round;
            let sent: Vec<usize> = (0..blocks.len()).filter(|distance| distance >> round & 1 == 1).collect();
            let count = sent.len() as u64;
            let mut tied = builder.extents(blocks[0]).to_vec();
            tied[self.from.dim] *= count;
            let view = split(&tied, self.from.dim, count);
            let place = |at| self.at(view.len(), Cut::At(CoordMap::constant(at)));
            let pieces = (0..).zip(&sent).map(|(at, distance)| (blocks[*distance], place(at))).collect();
            let bundle = builder.assemble(tied, view.clone(), pieces);
            let arrived = builder.shuffle(bundle, Sources::Shift { axes, by: -far, wrap: true }, Route::Shortest);
            for (at, distance) in (0..).zip(sent) {
                blocks[distance] = builder.slice(arrived, view.clone(), place(at));
            }
        }
        let arrived = (0..n).zip(blocks).skip(1);
        arrived.map(|(distance, block)| (block, self.from.region(extents, slot(builder, -distance), None))).collect()
    }
}
