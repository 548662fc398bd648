//! Permutations of whole shards.

use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use itertools::Itertools;
use std::collections::BTreeMap;

/// The shuffle that turns shards of `from` into shards of `to`: a permutation of each group of the axes.
///
/// If replicas leave a choice, a device that already holds its shard keeps it.
pub(crate) fn sources(from: &Sharding, to: &Sharding, axes: &[AxisId], mesh: &Mesh) -> Vec<Option<u32>> {
    let origin = DeviceId(0);
    let members = mesh.group_size(axes.iter().copied());
    // The other axes stay at 0, because every group does the same.
    let block = |sharding: &Sharding, rank: u64| -> Vec<u64> {
        let device = mesh.with_rank(origin, axes.iter().copied(), rank);
        sharding.dims.iter().map(|on: &Axes| mesh.rank(device, on.iter())).collect()
    };
    let mut holders: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
    for rank in (0..members).rev() {
        holders.entry(block(from, rank)).or_default().push(rank);
    }
    let mut entries: Vec<Option<u32>> = vec![None; usize::try_from(members).expect("fewer than 2^20 devices")];
    let number = |rank: u64| u32::try_from(rank).expect("fewer than 2^20 devices");
    for (entry, rank) in entries.iter_mut().zip_eq(0..members) {
        let holding = holders.get_mut(&block(to, rank)).expect("every block is somewhere");
        if let Some(place) = holding.iter().position(|holder| *holder == rank) {
            holding.remove(place);
            *entry = Some(number(rank));
        }
    }
    for (entry, rank) in entries.iter_mut().zip_eq(0..members).filter(|(entry, _)| entry.is_none()) {
        let holder = holders.get_mut(&block(to, rank)).and_then(Vec::pop).expect("as many holders as takers");
        *entry = Some(number(holder));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden case: I_XY to I_YX on 2 x 3 moves 0>0 1>3 2>1 3>4 4>2 5>5.
    #[test]
    fn two_by_three() {
        let mesh = Mesh::of(&[("X", 2), ("Y", 3)]);
        let [x, y] = [0, 1].map(AxisId::new);
        let on = |axes: [AxisId; 2]| Sharding { dims: vec![axes.into_iter().collect()], ..Sharding::default() };
        let sources = sources(&on([x, y]), &on([y, x]), &[x, y], &mesh);
        assert_eq!(sources, [0, 2, 4, 1, 3, 5].map(Some));
    }

    /// I_X to I_Y with replicas: a device that holds its shard keeps it.
    #[test]
    fn replicas_stay_where_they_are() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 3)]);
        let [x, y] = [0, 1].map(AxisId::new);
        let on = |axis| Sharding { dims: vec![Axes::one(axis)], ..Sharding::default() };
        let sources = sources(&on(x), &on(y), &[x, y], &mesh);
        let kept = sources.iter().zip(0..).filter(|(source, rank)| **source == Some(*rank)).count();
        assert_eq!(kept, 3);
    }
}
