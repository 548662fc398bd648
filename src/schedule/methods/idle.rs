//! Gathers that also use the links of an idle axis, along which the array is replicated.
//!
//! Part of each shard is split over the devices of the idle axis. Each gathers its piece, and the pieces are then gathered
//! along the idle axis; the device's own shard is already local and is left out. The rest is gathered as usual. Chunks
//! keep both axes busy at the same time, so a device receives over all of its links.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Region};
use super::place::{Part, Place, range_region, region};
use super::{Method, gather_stage};
use crate::mesh::Axes;

/// A gather along one run that borrows an idle one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrowed {
    /// The run of the gather, and its method.
    pub run: (Axes, Method),
    /// The idle run, and its method.
    pub idle: (Axes, Method),
    /// The share of received data that comes along the idle run, as numerator and denominator.
    pub share: (u64, u64),
    /// Number of chunks, at least 1.
    pub chunks: u64,
}

impl Borrowed {
    /// The shards of the run, concatenated along `dim`: `[.., e, ..] -> [.., n·e, ..]`.
    pub fn all_gather(&self, builder: &mut Builder<'_>, shard: OpId, dim: usize) -> OpId {
        let builder = &mut builder.by(Method::IdleAxis.name());
        let extents = builder.extents(shard).to_vec();
        let Some((cut, length)) = extents.iter().copied().enumerate().rev().max_by_key(|(_, extent)| *extent) else {
            return shard;
        };
        let borrowed = self.borrowed(builder, length);
        let part = |range| Part { dim: cut, range };
        let chunk = borrowed / self.chunks;
        let mut gathered: Vec<(Part, OpId)> = Vec::new();
        for start in (0..self.chunks).map(|place| place * chunk).filter(|_| chunk > 0) {
            let own = self.own_piece(builder, shard, &part(start..start + chunk));
            gathered.push((
                part(start..start + chunk),
                gather_stage(builder, self.run.1, Place::new(self.run.0, dim), own),
            ));
        }
        let mut pieces: Vec<(OpId, Region)> = Vec::new();
        let slot = |builder: &Builder<'_>, shift| CoordMap::along(builder.mesh(), self.run.0, shift, true);
        if borrowed > 0 {
            let own = builder.slice_range(shard, cut, 0..borrowed);
            pieces.push((own, region(extents.len(), dim, slot(builder, 0), Some(&part(0..borrowed)))));
        }
        if borrowed < length {
            let rest = part(borrowed..length);
            let own = builder.slice(shard, extents.clone(), range_region(extents.len(), &rest));
            let all = gather_stage(builder, self.run.1, Place::new(self.run.0, dim), own);
            let mut everywhere = region(extents.len(), dim, slot(builder, 0), Some(&rest));
            everywhere[dim] = Cut::Whole;
            pieces.push((all, everywhere));
        }
        for (chunk, value) in gathered {
            for (shift, block) in (1..).zip(self.spread(builder, value, dim, cut)) {
                pieces.push((block, region(extents.len(), dim, slot(builder, shift), Some(&chunk))));
            }
        }
        let n = self.run.0.group_size(builder.mesh());
        let mut whole = extents;
        whole[dim] *= n;
        let view = split(&whole, dim, n);
        builder.assemble(whole, view, pieces)
    }

    /// The length of a dim to split over the idle run, of which all but one piece comes along it. A whole number of pieces in
    /// each chunk.
    fn borrowed(&self, builder: &Builder<'_>, length: u64) -> u64 {
        let (part, of) = self.share;
        let m = self.idle.0.group_size(builder.mesh());
        let unit = u128::from(m) * u128::from(self.chunks);
        let (wanted, scale) =
            (u128::from(length) * u128::from(part) * u128::from(m), u128::from(of) * u128::from(m - 1));
        let units = (wanted / (scale * unit)).min(u128::from(length) / unit);
        u64::try_from(units * unit).unwrap_or(0)
    }

    /// The piece of a shard's part that belongs to this device of the idle run.
    fn own_piece(&self, builder: &mut Builder<'_>, shard: OpId, part: &Part) -> OpId {
        let chunk = builder.slice_range(shard, part.dim, part.range.clone());
        let m = self.idle.0.group_size(builder.mesh());
        let rank = CoordMap::along(builder.mesh(), self.idle.0, 0, false);
        builder.slice_block(chunk, part.dim, m, rank)
    }

    /// The other devices' pieces along the idle run, each a whole chunk of pieces gathered along the run.
    fn spread(&self, builder: &mut Builder<'_>, value: OpId, dim: usize, cut: usize) -> Vec<OpId> {
        let n = self.run.0.group_size(builder.mesh());
        let others: Vec<OpId> = (1..n)
            .map(|shift| {
                let shift = i64::try_from(shift).expect("fewer than 2^20 devices");
                let slot = CoordMap::along(builder.mesh(), self.run.0, shift, true);
                builder.slice_block(value, dim, n, slot)
            })
            .collect();
        let mut extents = builder.extents(others[0]).to_vec();
        extents[cut] *= n - 1;
        let view = split(&extents, cut, n - 1);
        let at = |place: i64| region(extents.len(), cut, CoordMap::constant(place), None);
        let tied = (0..).zip(&others).map(|(place, block)| (*block, at(place))).collect();
        let tied = builder.assemble(extents.clone(), view, tied);
        let all = gather_stage(builder, self.idle.1, Place { axes: self.idle.0, dim: cut, major: n - 1 }, tied);
        (0..n - 1)
            .map(|place| {
                let place = i64::try_from(place).expect("fewer than 2^20 devices");
                builder.slice_block(all, cut, n - 1, CoordMap::constant(place))
            })
            .collect()
    }
}
