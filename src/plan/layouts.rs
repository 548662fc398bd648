//! The possible layouts of an input, and the axes that layouts may have.

use super::Budget;
use crate::layout::{Dim, Sharding};
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::operator::Operator;
use crate::program::{Definition, Program, Value, Wanted};

/// The layouts of an input.
pub(super) struct Layouts {
    /// The layouts, smallest shards first.
    pub(super) list: Vec<Sharding>,
    /// Whether the list is complete.
    pub(super) are_all: bool,
}

/// All closed, allowed layouts with equal shards; if there are too many, those with axes in mesh order on each dim.
/// `None` if these are too many as well.
pub(super) fn layouts(dims: &[Dim], wanted: &Wanted, mesh: &Mesh) -> Option<Layouts> {
    let all = grown(dims, wanted, mesh, false);
    let are_all = all.is_some();
    let mut list = all.or_else(|| grown(dims, wanted, mesh, true))?;
    list.retain(|sharding| wanted.allows(sharding));
    list.sort_by_key(|sharding| std::cmp::Reverse(sharding.dim_axes().group_size(mesh)));
    Some(Layouts { list, are_all }).filter(|layouts| !layouts.list.is_empty())
}

/// All layouts, one axis after the other; `None` if there are too many.
fn grown(dims: &[Dim], wanted: &Wanted, mesh: &Mesh, in_order: bool) -> Option<Vec<Sharding>> {
    let mut found = vec![Sharding::replicated(dims.len())];
    // Axes of size 1 shard nothing, so they occur only where they are written.
    let is_written = |axis| (0..dims.len()).any(|dim| wanted.axes(dim).is_some_and(|axes| axes.contains(axis)));
    for axis in mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1 || is_written(*axis)) {
        let mut grown = found.clone();
        for sharding in &found {
            for (place, list) in sharding.dims.iter().enumerate() {
                for at in if in_order { list.len() } else { 0 }..=list.len() {
                    let mut next = sharding.clone();
                    next.dims[place] = list.iter().take(at).chain([axis]).chain(list.iter().skip(at)).collect::<Axes>();
                    if next.divides(dims, mesh) {
                        grown.push(next);
                    }
                }
            }
            if grown.len() > if in_order { Budget::MOST_PLAIN } else { Budget::MOST_LAYOUTS } {
                return None;
            }
        }
        found = grown;
    }
    Some(found)
}

/// The axes of size 1 that can be ignored.
pub(super) fn unit_axes(program: &Program) -> AxisSet {
    let mesh = &program.mesh;
    let squared = program.values.iter().map(squared).fold(AxisSet::NONE, AxisSet::union);
    mesh.axis_ids().filter(|axis| mesh.size(*axis) == 1 && !squared.contains(*axis)).collect()
}

/// The axes that the layouts of a plan may have: axes of several devices, and axes of size 1 that matter.
pub(super) fn placed(program: &Program) -> AxisSet {
    program.mesh.axis_ids().collect::<AxisSet>().without(unit_axes(program))
}

/// The axes over which an array is open by a sum of squares; closing these changes it, even for size 1.
fn squared(value: &Value) -> AxisSet {
    let open = |sharding: &Sharding| match sharding.operator {
        Operator::SquareAdd => sharding.open,
        _ => AxisSet::NONE,
    };
    let wanted = match &value.wanted {
        Wanted::Exact(sharding) => open(sharding),
        Wanted::Partly(_) | Wanted::Free => AxisSet::NONE,
    };
    match &value.definition {
        Definition::Collective { from, .. } => wanted.union(open(from)),
        _ => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;
    use itertools::Itertools;

    /// Two axes on two dims: 9 layouts with each axis idle or on a dim, and the pairs on one dim come in two orders.
    #[test]
    fn all_layouts_are_there_once() {
        let mut dims = Dims::default();
        let two = [dims.add(Some("I".into()), 8), dims.add(Some("J".into()), 8)];
        let mesh = Mesh::of(&[("X", 2), ("Y", 2), ("Z", 1)]);
        let found = layouts(&two, &Wanted::Free, &mesh).expect("few").list;
        assert_eq!(found.len(), 11);
        assert!(found.iter().all_unique());
        // A dim of 6 can be sharded over an axis of 2, but not over one of 4.
        let six = [dims.add(Some("K".into()), 6)];
        assert_eq!(layouts(&six, &Wanted::Free, &Mesh::of(&[("X", 2), ("Y", 4)])).expect("few").list.len(), 2);
        // `[I_?, J_Z]`, where `Z` has one device.
        let written = Wanted::Partly(vec![None, Some(mesh.axis_ids().skip(2).collect())]);
        assert_eq!(layouts(&two, &written, &mesh).expect("few").list.len(), 5);
        // Six axes, each idle or on one of two dims: 3^6 in mesh order. Eight axes on three dims: 4^8, which are too
        // many.
        let many = [two[0], two[1], six[0]].map(|dim| Dim { size: 1 << 30, ..dim });
        let names = ["A", "B", "C", "D", "E", "F", "G", "H"].map(|name| (name, 2));
        let six_axes = layouts(&many[..2], &Wanted::Free, &Mesh::of(&names[..6])).expect("few");
        assert_eq!((six_axes.list.len(), six_axes.are_all), (729, false));
        assert!(layouts(&many, &Wanted::Free, &Mesh::of(&names)).is_none());
    }
}
