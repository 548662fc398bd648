//! Every message on its own way: AllToAll and permutations.

use super::super::builder::split;
use super::super::{Builder, CoordMap, Cut, OpId, Route, Sources};
use super::Method;
use super::place::{Part, halves, region};
use super::rotations::{length, shift};
use crate::mesh::{Axes, AxisId};

/// Moves a run of axes from dim `from` to dim `to`: local `[F, T] -> [n·F, T/n]`.
///
/// Device d gets block d along `to` from everybody, concatenated along `from` in the order of ranks. The two dims
/// differ and the extent of `to` divides by the length of the run.
pub fn all_to_all(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    value: OpId,
    from: usize,
    to: usize,
) -> OpId {
    all_to_all_over(builder, &[(axes.into(), method)], value, from, to)
}

/// Moves several runs of axes, major first, from dim `from` to dim `to`, the minor one first.
///
/// So that the major run ends up major on `to` as well, the minor one takes blocks out of the middle of the dim.
pub fn all_to_all_over(
    builder: &mut Builder<'_>,
    runs: &[(Axes, Method)],
    value: OpId,
    from: usize,
    to: usize,
) -> OpId {
    let mut value = value;
    for (place, (axes, method)) in runs.iter().enumerate().rev() {
        let major = builder.mesh().group_size(runs[..place].iter().flat_map(|(axes, _)| axes.iter()));
        let exchange = Exchange { axes: *axes, halves: *method == Method::DirectHalves, from, to, major };
        if axes.group_size(builder.mesh()) > 1 {
            value = exchange.build(&mut builder.by(method.name()), value);
        }
    }
    value
}

/// One stage of an AllToAll.
struct Exchange {
    axes: Axes,
    /// Whether messages to the antipode are cut in two.
    halves: bool,
    from: usize,
    to: usize,
    /// Blocks of the more major runs, which still stand before this one on `to`.
    major: u64,
}

impl Exchange {
    fn build(&self, builder: &mut Builder<'_>, value: OpId) -> OpId {
        let n = self.axes.group_size(builder.mesh());
        let mut extents = builder.extents(value).to_vec();
        extents[self.from] *= n;
        extents[self.to] /= n;
        let rank = extents.len();
        let mut pieces = Vec::new();
        for k in 0..length(builder, self.axes) {
            let slot = CoordMap::along(builder.mesh(), self.axes, k, true);
            for (arrived, part) in self.messages(builder, value, k) {
                pieces.push((arrived, region(rank, self.from, slot.clone(), part.as_ref())));
            }
        }
        let view = split(&extents, self.from, n);
        builder.assemble(extents, view, pieces)
    }

    /// What comes from the device k further up, whole or in two halves.
    fn messages(&self, builder: &mut Builder<'_>, value: OpId, k: i64) -> Vec<(OpId, Option<Part>)> {
        let n = length(builder, self.axes);
        let block = self.block(builder, value, k);
        // On an axis of 2 there is only one way.
        let parts = if self.halves && n > 2 && 2 * k == n { halves(builder.extents(block)) } else { None };
        let Some(parts) = parts else { return vec![(shift(builder, self.axes, block, k), None)] };
        let mut messages = Vec::new();
        for (part, hops) in parts.into_iter().zip([k, -k]) {
            let half = builder.slice_range(block, part.dim, part.range.clone());
            // Both halves come from the antipode; the shift says the way round.
            let sources = Sources::Shift { axes: self.axes, by: -hops, wrap: true };
            messages.push((builder.shuffle(half, sources, Route::Hops(hops)), Some(part)));
        }
        messages
    }

    /// The block for the device k further down: block c - k along `to`, out of each of the major blocks.
    fn block(&self, builder: &mut Builder<'_>, value: OpId, k: i64) -> OpId {
        let n = self.axes.group_size(builder.mesh());
        let slot = CoordMap::along(builder.mesh(), self.axes, -k, true);
        if self.major == 1 {
            return builder.slice_block(value, self.to, n, slot);
        }
        let view = split(&split(builder.extents(value), self.to, self.major), self.to + 1, n);
        let mut cuts = vec![Cut::Whole; view.len()];
        cuts[self.to + 1] = Cut::At(slot);
        builder.slice(value, view, cuts)
    }
}

/// In each group that the axes span, major first, rank r gets the whole block of rank `sources[r]`.
pub fn permute(builder: &mut Builder<'_>, axes: Vec<AxisId>, value: OpId, sources: Vec<Option<u32>>) -> OpId {
    let builder = &mut builder.by(Method::Direct.name());
    builder.shuffle(value, Sources::Table { axes, entries: sources }, Route::Shortest)
}
