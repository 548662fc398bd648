//! The layouts that an input may come in.

use crate::layout::{Dim, Sharding};
use crate::mesh::{Axes, Mesh};

/// So many layouts of one input are thought of.
const MOST_LAYOUTS: usize = 1 << 12;

/// Every closed layout whose shards are equal, the smallest shards first; `None` if there are too many.
pub(super) fn layouts(dims: &[Dim], mesh: &Mesh) -> Option<Vec<Sharding>> {
    let mut found = vec![Sharding::replicated(dims.len())];
    for axis in mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1) {
        let mut grown = found.clone();
        for sharding in &found {
            for (place, list) in sharding.dims.iter().enumerate() {
                for at in 0..=list.len() {
                    let mut next = sharding.clone();
                    next.dims[place] = list.iter().take(at).chain([axis]).chain(list.iter().skip(at)).collect::<Axes>();
                    if next.divides(dims, mesh) {
                        grown.push(next);
                    }
                }
            }
            if grown.len() > MOST_LAYOUTS {
                return None;
            }
        }
        found = grown;
    }
    found.sort_by_key(|sharding| std::cmp::Reverse(sharding.dim_axes().group_size(mesh)));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;
    use itertools::Itertools;

    /// Two axes on two dims: each idle or on a dim is 9, and the pairs on one dim come in two orders.
    #[test]
    fn all_layouts_are_there_once() {
        let mut dims = Dims::default();
        let two = [dims.add(Some("I".into()), 8), dims.add(Some("J".into()), 8)];
        let mesh = Mesh::of(&[("X", 2), ("Y", 2), ("Z", 1)]);
        let found = layouts(&two, &mesh).expect("few");
        assert_eq!(found.len(), 11);
        assert!(found.iter().all_unique());
        // A dim of 6 takes one axis of 2 and none of 4.
        let six = [dims.add(Some("K".into()), 6)];
        assert_eq!(layouts(&six, &Mesh::of(&[("X", 2), ("Y", 4)])).expect("few").len(), 2);
        let many = [two[0], two[1], six[0]].map(|dim| Dim { size: 1 << 30, ..dim });
        let names = ["A", "B", "C", "D", "E", "F", "G", "H"].map(|name| (name, 2));
        assert_eq!(layouts(&many, &Mesh::of(&names)), None);
    }
}
