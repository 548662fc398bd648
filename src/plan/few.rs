//! The restricted move set for layout graphs that are too large to search completely.
//!
//! With many axes and dims there are too many layouts to list or price. After a limit on moves, each further layout
//! is left by few moves only: one axis at a time, or all at once, to layouts whose axis lists are in mesh order or
//! lead to a written layout. A plan is found among these, without a proof of optimality.

use crate::collective::Collective;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet};
use crate::operator::Operator;
use itertools::Itertools;

/// Moves of one axis or of all axes, and moves directly to a written layout.
pub(super) fn moves(from: &Sharding, all: AxisSet, written: &[Sharding]) -> Vec<Collective> {
    let rank = from.dims.len();
    let one = |set: AxisSet| set.iter().map(AxisSet::one);
    let last = |axes: &Axes| axes.iter().last();
    let on_dims = from.dim_axes();
    let minor = from.dims.iter().filter_map(last).map(AxisSet::one);
    let gathered = minor.chain(from.dims.iter().map(|axes| axes.set())).chain([on_dims]);
    let mut moves: Vec<Collective> = gathered.map(|axes| Collective::AllGather { axes }).collect();
    let closed = one(from.open).chain([from.open]);
    if from.operator.is_root() {
        moves.extend(closed.map(|axes| Collective::Broadcast { axes }));
    } else {
        moves.extend(closed.clone().map(|axes| Collective::AllReduce { axes }));
        for axes in closed {
            moves.extend((0..rank).map(|dim| Collective::reduce_scatter(axes.in_order(), dim, rank)));
        }
    }
    for (source, on_dim) in from.dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty()) {
        let list: Vec<AxisId> = on_dim.iter().collect();
        let suffixes = (0..list.len()).map(|start| list[start..].iter().copied().collect::<Axes>());
        for axes in suffixes.flat_map(|axes| [axes, axes.set().in_order()]).unique() {
            let targets = (0..rank).filter(|target| *target != source);
            moves.extend(targets.map(|to| Collective::AllToAll { axes, from: source, to }));
        }
    }
    moves.extend(written.iter().unique().map(|to| Collective::Permute { to: to.clone() }));
    for axis in all.without(from.used()).iter() {
        moves.extend((0..rank).map(|dim| Collective::Slice { axes: Axes::one(axis), dim }));
    }
    moves
}

/// Moves towards the written layouts, for an exhausted budget: everything is closed and gathered, and then sliced dim
/// by dim.
pub(super) fn last(from: &Sharding, written: &[Sharding]) -> Vec<Collective> {
    let mut moves = Vec::new();
    let on_dims = from.dim_axes();
    if !from.open.is_empty() {
        moves.push(match from.operator {
            Operator::Root(_) => Collective::Broadcast { axes: from.open },
            _ => Collective::AllReduce { axes: from.open },
        });
    }
    if !on_dims.is_empty() {
        moves.push(Collective::AllGather { axes: on_dims });
    }
    for to in written.iter().unique().filter(|to| to.open == from.open) {
        moves.push(Collective::Permute { to: to.clone() });
        let changed = || (0..from.dims.len()).filter(|dim| from.dims[*dim] != to.dims[*dim]);
        let next = changed().next().filter(|_| changed().all(|dim| from.dims[dim].is_empty()));
        moves.extend(next.map(|dim| Collective::Slice { axes: to.dims[dim], dim }));
        if let [first, second] = changed().collect::<Vec<_>>()[..] {
            let loses = from.dims[first].len() > to.dims[first].len();
            let (source, target) = if loses { (first, second) } else { (second, first) };
            let axes = to.dims[target].strip_prefix(from.dims[target]).unwrap_or_default();
            moves.push(Collective::AllToAll { axes, from: source, to: target });
        }
    }
    moves
}

/// Whether a layout belongs to the restricted set: its axis lists are in mesh order, or each is a prefix of the list
/// of a written layout.
pub(super) fn is_plain(sharding: &Sharding, written: &[Sharding]) -> bool {
    let in_order = |axes: &Axes| *axes == axes.set().in_order();
    let begins =
        |axes: &Axes, whole: &Axes| axes.iter().zip(whole.iter()).all(|(a, b)| a == b) && axes.len() <= whole.len();
    sharding.dims.iter().all(in_order)
        || written.iter().any(|wanted| sharding.dims.iter().zip(&wanted.dims).all(|(axes, whole)| begins(axes, whole)))
}
