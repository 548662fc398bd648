//! The primitive moves, as relations between two layouts of one array.

use super::layout::Layout;
use std::collections::BTreeSet;

/// The kind of a collective, over all its axes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    AllGather,
    ReduceScatter,
    AllReduce,
    AllToAll,
    Permute,
    Slice,
}

/// A collective and its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub kind: Kind,
    pub axes: Vec<usize>,
}

/// The change of one dim: it keeps a prefix of its axes, loses the rest, and gets others.
struct Change<'a> {
    lost: &'a [usize],
    gained: &'a [usize],
}

impl Change<'_> {
    fn new<'a>(from: &'a [usize], to: &'a [usize]) -> Change<'a> {
        let kept = from.iter().zip(to).take_while(|(before, after)| before == after).count();
        Change { lost: &from[kept..], gained: &to[kept..] }
    }
}

/// The set of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Moves that can be written: an exchange moves axes from one dim to one other.
    Written,
    /// All moves that are a single exchange within a group, in which each device sends equal shares to all others.
    All,
}

/// The moves from one layout to another in one step. A gather of no axes does not count.
pub fn moves(from: &Layout, to: &Layout, mesh: &[u64], family: Family) -> Vec<Move> {
    if to.open.iter().any(|axis| !from.open.contains(axis)) {
        return Vec::new();
    }
    let changes: Vec<Change> = from.dims.iter().zip(&to.dims).map(|(from, to)| Change::new(from, to)).collect();
    let lost: Vec<usize> = changes.iter().flat_map(|change| change.lost).copied().collect();
    let gained: Vec<usize> = changes.iter().flat_map(|change| change.gained).copied().collect();
    let closed: Vec<usize> = from.open.iter().filter(|axis| !to.open.contains(axis)).copied().collect();
    let set = |axes: &[usize]| axes.iter().copied().collect::<BTreeSet<usize>>();
    let one_way = changes.iter().all(|change| change.lost.is_empty() || change.gained.is_empty());
    let all = family == Family::All;
    let gaining = changes.iter().filter(|change| !change.gained.is_empty()).count();
    let losing = changes.iter().filter(|change| !change.lost.is_empty()).count();
    let mut found = Vec::new();
    let mut push = |kind, axes: &[usize]| found.push(Move { kind, axes: axes.to_vec() });
    match (closed.is_empty(), lost.is_empty(), gained.is_empty()) {
        (true, true, true) => {}
        (true, false, true) => push(Kind::AllGather, &lost),
        (true, true, false) => push(Kind::Slice, &gained),
        (true, false, false) => {
            if one_way && set(&lost) == set(&gained) && (all || gaining == 1 && losing == 1) {
                push(Kind::AllToAll, &lost);
            }
            if from.pieces(mesh) == to.pieces(mesh) {
                let moved = (0..mesh.len()).filter(|axis| stride(from, *axis, mesh) != stride(to, *axis, mesh));
                push(Kind::Permute, &moved.collect::<Vec<_>>());
            }
        }
        (false, true, true) => push(Kind::AllReduce, &closed),
        (false, true, false) if set(&closed) == set(&gained) => push(Kind::ReduceScatter, &closed),
        (false, ..) => {}
    }
    found
}

/// The dim that an axis shards, and the number of pieces between neighbours along the axis.
fn stride(layout: &Layout, axis: usize, mesh: &[u64]) -> Option<(usize, u64)> {
    layout.dims.iter().enumerate().find_map(|(dim, axes)| {
        let place = axes.iter().position(|known| *known == axis)?;
        Some((dim, axes[place + 1..].iter().map(|minor| mesh[*minor]).product()))
    })
}
