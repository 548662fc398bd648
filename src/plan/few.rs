//! What is looked at of a graph of layouts that is too large to be walked.
//!
//! With many axes and many dims an array has so many layouts that they can be neither listed nor priced. Once so many
//! moves have been made, each further layout is left by a few only: one axis at a time, or all at once, to layouts whose
//! lists of axes are in the order of the mesh or lead to one that is written. A plan is found among these, but that no
//! other is cheaper is not known then.

use crate::collective::Collective;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::operator::Operator;
use itertools::Itertools;
use std::cell::Cell;
use std::rc::Rc;

/// So many moves are made before they become few; each takes some hundred bytes.
const MOST_MOVES: usize = 1_000_000;
/// So many moves are made in all.
const MOST_FEW: usize = 2_500_000;

/// How many moves have been made for all arrays of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Made(Rc<Cell<usize>>);

impl Made {
    pub(super) fn add(&self, count: usize) {
        self.0.set(self.0.get().saturating_add(count));
    }

    /// From now on moves are few.
    pub(super) fn cut(&self) {
        self.0.set(self.0.get().max(MOST_MOVES + 1));
    }

    /// From now on none are made.
    pub(super) fn fill(&self) {
        self.0.set(MOST_FEW + 1);
    }

    /// Whether only few moves are made from now on.
    pub(super) fn is_cut(&self) -> bool {
        self.0.get() > MOST_MOVES
    }

    /// Whether none are made any more.
    pub(super) fn is_full(&self) -> bool {
        self.0.get() > MOST_FEW
    }
}

/// One axis at a time, or all of them; and straight to a layout that is written.
pub(super) fn moves(from: &Sharding, mesh: &Mesh, written: &[Sharding]) -> Vec<Collective> {
    let rank = from.dims.len();
    let one = |set: AxisSet| set.iter().map(AxisSet::one);
    let last = |axes: &Axes| axes.iter().last();
    let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
    let on_dims = from.dim_axes();
    let minor = from.dims.iter().filter_map(last).map(AxisSet::one);
    let gathered = minor.chain(from.dims.iter().map(|axes| axes.set())).chain([on_dims]);
    let mut moves: Vec<Collective> = gathered.map(|axes| Collective::AllGather { axes }).collect();
    let closed = one(from.open).chain([from.open]);
    if from.operator == Operator::Root {
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

/// Whether a layout is one of those that are looked at: its lists are in the order of the mesh, or each begins one of a
/// layout that is written.
pub(super) fn is_plain(sharding: &Sharding, written: &[Sharding]) -> bool {
    let in_order = |axes: &Axes| *axes == axes.set().in_order();
    let begins =
        |axes: &Axes, whole: &Axes| axes.iter().zip(whole.iter()).all(|(a, b)| a == b) && axes.len() <= whole.len();
    sharding.dims.iter().all(in_order)
        || written.iter().any(|wanted| sharding.dims.iter().zip(&wanted.dims).all(|(axes, whole)| begins(axes, whole)))
}
