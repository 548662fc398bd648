//! Exchanges around a ring from neighbour to neighbour, in bundles.
//!
//! A device makes one bundle per direction, of all blocks that go this way, the nearest first. A bundle travels one link
//! per step; at each device its first blocks have arrived, and the rest continues. So ⌊n/2⌋ messages per direction are
//! enough, and no link carries more than with separate blocks.
//!
//! Around an even ring the antipodal block goes in two halves, one per direction; then all blocks are halved, so the parts
//! of a bundle are equal. A block without equal halves goes up as a whole.
//!
//! On a line the bundles of devices differ, but a schedule has one block shape for all. A device therefore sends the
//! blocks of all devices up to the end that could still need one: after s links that is n - s of them, whatever the
//! sender. So n - 1 messages per direction are enough. A link in the middle carries twice the necessary bytes, which is
//! negligible when latency-bound.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Region, Route, Sources};
use super::exchange::Exchange;
use super::place::{Part, halves, length};

/// A part of a bundle: the distance of its destination, and the half of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    distance: i64,
    half: Option<usize>,
}

/// The parts that travel in one direction.
struct Bundle {
    /// 1 for up, -1 for down.
    sign: i64,
    /// The parts, nearest first.
    units: Vec<Unit>,
    value: OpId,
}

impl Exchange {
    /// The received blocks and their places in the result; at least 4 devices.
    pub(super) fn bundled(&self, builder: &mut Builder<'_>, value: OpId, extents: &[u64]) -> Vec<(OpId, Region)> {
        let n = length(builder, self.from.axes);
        let parts = halves(&self.from.shard_view(extents)).filter(|[first, second]| {
            n % 2 == 0 && first.range.end - first.range.start == second.range.end - second.range.start
        });
        let mut bundles: Vec<Bundle> = Vec::new();
        for sign in [1, -1] {
            let units = units(n, sign, parts.is_some());
            let value = self.tied(builder, value, sign, &units, parts.as_ref());
            bundles.push(Bundle { sign, units, value });
        }
        let mut pieces = Vec::new();
        for step in 1..=n / 2 {
            for bundle in &mut bundles {
                self.advance(builder, bundle, step, extents, parts.as_ref(), &mut pieces);
            }
        }
        pieces
    }

    /// An exchange along a line, both ways to its ends.
    pub(super) fn bundled_on_line(
        &self,
        builder: &mut Builder<'_>,
        value: OpId,
        extents: &[u64],
    ) -> Vec<(OpId, Region)> {
        let axes = self.from.axes;
        let n = length(builder, axes);
        let mut moving = [(1, value), (-1, value)];
        let mut pieces = Vec::new();
        for step in 1..n {
            for (sign, bundle) in &mut moving {
                // No block is needed `step` links beyond its origin.
                let count = (n - step).unsigned_abs();
                let start = u64::from(*sign > 0);
                *bundle = self.blocks(builder, *bundle, count + 1, Cut::Range { start, end: start + count });
                let sources = Sources::Shift { axes, by: -*sign, wrap: false };
                *bundle = builder.shuffle(*bundle, sources, Route::Hops(*sign));
                let first = if *sign > 0 { step } else { 0 };
                let own = CoordMap::along(builder.mesh(), axes, -first, false);
                let block = self.blocks(builder, *bundle, count, Cut::At(own));
                let slot = CoordMap::along(builder.mesh(), axes, -*sign * step, false);
                pieces.push((block, self.from.region(extents, slot, None)));
            }
        }
        pieces
    }

    /// Blocks that are adjacent at the sender.
    fn blocks(&self, builder: &mut Builder<'_>, value: OpId, count: u64, cut: Cut) -> OpId {
        let view = self.to.view(builder.extents(value), count);
        let mut region = vec![Cut::Whole; view.len()];
        region[self.to.slot_dim()] = cut;
        builder.slice(value, view, region)
    }

    /// The blocks of a bundle, concatenated along the destination dim.
    fn tied(
        &self,
        builder: &mut Builder<'_>,
        value: OpId,
        sign: i64,
        units: &[Unit],
        parts: Option<&[Part; 2]>,
    ) -> OpId {
        let mut tied: Vec<OpId> = Vec::new();
        for unit in units {
            let slot = CoordMap::along(builder.mesh(), self.from.axes, sign * unit.distance, true);
            let block = self.to.slot(builder, value, slot, None);
            tied.push(self.from.cut(builder, block, part(*unit, parts)));
        }
        let mut extents = builder.extents(tied[0]).to_vec();
        extents[self.from.dim] *= units.len() as u64;
        let view = split(&extents, self.from.dim, units.len() as u64);
        let places =
            (0..).zip(&tied).map(|(place, unit)| (*unit, self.at(view.len(), Cut::At(CoordMap::constant(place)))));
        let places = places.collect();
        builder.assemble(extents, view, places)
    }

    /// Sends a bundle over one link; arrived blocks become pieces.
    fn advance(
        &self,
        builder: &mut Builder<'_>,
        bundle: &mut Bundle,
        step: i64,
        extents: &[u64],
        parts: Option<&[Part; 2]>,
        pieces: &mut Vec<(OpId, Region)>,
    ) {
        if bundle.units.is_empty() {
            return;
        }
        let axes = self.from.axes;
        let sources = Sources::Shift { axes, by: -bundle.sign, wrap: true };
        let arrived = builder.shuffle(bundle.value, sources, Route::Hops(bundle.sign));
        let view = split(builder.extents(arrived), self.from.dim, bundle.units.len() as u64);
        let home = bundle.units.iter().take_while(|unit| unit.distance == step).count();
        for (place, unit) in (0..).zip(&bundle.units[..home]) {
            let block = builder.slice(arrived, view.clone(), self.at(view.len(), Cut::At(CoordMap::constant(place))));
            let slot = CoordMap::along(builder.mesh(), axes, -bundle.sign * step, true);
            pieces.push((block, self.from.region(extents, slot, part(*unit, parts))));
        }
        let rest = Cut::Range { start: home as u64, end: bundle.units.len() as u64 };
        bundle.units.drain(..home);
        if !bundle.units.is_empty() {
            bundle.value = builder.slice(arrived, view.clone(), self.at(view.len(), rest));
        }
    }

    /// Splits the dim along which the blocks of a bundle are concatenated.
    pub(super) fn at(&self, rank: usize, cut: Cut) -> Region {
        let mut region = vec![Cut::Whole; rank];
        region[self.from.dim] = cut;
        region
    }
}

fn part(unit: Unit, parts: Option<&[Part; 2]>) -> Option<&Part> {
    unit.half.zip(parts).map(|(half, parts)| &parts[half])
}

/// The parts that go up or down around a ring of n.
fn units(n: i64, sign: i64, halved: bool) -> Vec<Unit> {
    let both = if halved { vec![Some(0), Some(1)] } else { vec![None] };
    let antipode = match (n % 2 == 0, halved, sign > 0) {
        (true, true, up) => vec![Some(usize::from(!up))],
        (true, false, true) => vec![None],
        (true, false, false) | (false, ..) => Vec::new(),
    };
    let of = |distance, halves: Vec<Option<usize>>| halves.into_iter().map(move |half| Unit { distance, half });
    (1..=(n - 1) / 2).flat_map(|distance| of(distance, both.clone())).chain(of(n / 2, antipode)).collect()
}
