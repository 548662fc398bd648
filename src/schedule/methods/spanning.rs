//! Edge-disjoint spanning trees from the first device of a group.
//!
//! Each ring of more than two devices gives two trees. The tree of axis i goes along i first, then along the next axes in
//! turn, upwards; where it has not left the first position of axis i it comes around that ring from its end. Each tree
//! thus enters a device along another axis. The same downwards gives the other trees.
//!
//! A line adds one tree. It goes along the line first and then spreads in each layer, along links that the other trees
//! leave free: a device that some other tree has entered from the previous layer does not need that tree's link within.
use itertools::Itertools;

/// One axis: its length, and whether it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// At least 2.
    pub(super) size: usize,
    /// With two devices a ring is one cable, hence a line.
    pub(super) ring: bool,
}

/// The parent of each device in a tree; `None` at the root.
pub(super) type Parents = Vec<Option<usize>>;

/// As many trees as the first device has links, over a mesh of these sides; devices are numbered row-major.
pub(super) fn trees(sides: &[Side]) -> Vec<Parents> {
    let is_ring = |side: &&Side| side.ring && side.size > 2;
    let rings: Vec<usize> = sides.iter().filter(is_ring).map(|side| side.size).collect();
    let mut trees = on_rings(&rings);
    let mut layer: usize = rings.iter().product();
    for line in sides.iter().filter(|side| !is_ring(side)) {
        trees = with_line(&trees, layer, line.size);
        layer *= line.size;
    }
    // So far the rings come first, and a line is more major than what stood before it.
    let built = built_order(sides);
    let place = |at: usize| place_of(at, sides, &built);
    let renamed = |parents: Parents| -> Parents {
        let mut own = vec![None; parents.len()];
        for (at, parent) in parents.into_iter().enumerate() {
            own[place(at)] = parent.map(place);
        }
        own
    };
    trees.into_iter().map(renamed).collect()
}

/// The sides in construction order, major first.
fn built_order(sides: &[Side]) -> Vec<usize> {
    let (rings, lines): (Vec<usize>, Vec<usize>) =
        (0..sides.len()).partition(|side| sides[*side].ring && sides[*side].size > 2);
    lines.into_iter().rev().chain(rings).collect()
}

/// The number of a device by its own sides, from that in construction order.
fn place_of(at: usize, sides: &[Side], built: &[usize]) -> usize {
    let mut coordinates = vec![0; sides.len()];
    let mut rest = at;
    for side in built.iter().rev() {
        coordinates[*side] = rest % sides[*side].size;
        rest /= sides[*side].size;
    }
    coordinates.iter().zip(sides).fold(0, |place, (coordinate, side)| place * side.size + coordinate)
}

/// Two trees for each ring.
fn on_rings(sizes: &[usize]) -> Vec<Parents> {
    let count: usize = sizes.iter().product();
    let coordinates = |at: usize| -> Vec<usize> {
        let mut rest = at;
        let mut coordinates: Vec<usize> = sizes
            .iter()
            .rev()
            .map(|size| {
                let coordinate = rest % size;
                rest /= size;
                coordinate
            })
            .collect();
        coordinates.reverse();
        coordinates
    };
    let number = |coordinates: &[usize]| coordinates.iter().zip(sizes).fold(0, |at, (place, size)| at * size + place);
    let parent = |first: usize, up: bool, at: usize| {
        let mut place = coordinates(at);
        if place.iter().all(|coordinate| *coordinate == 0) {
            return None;
        }
        let turns = (0..sizes.len()).map(|turn| (first + turn) % sizes.len());
        let left = turns.rev().find(|axis| place[*axis] != 0);
        let along = if place[first] == 0 { first } else { left.unwrap_or(first) };
        let back = if up { sizes[along] - 1 } else { 1 };
        place[along] = (place[along] + back) % sizes[along];
        Some(number(&place))
    };
    let tree = |(first, up)| (0..count).map(|at| parent(first, up, at)).collect();
    (0..sizes.len()).flat_map(|axis| [(axis, true), (axis, false)]).map(tree).collect()
}

/// The trees over `length` layers, each like the mesh of these trees, and one more.
fn with_line(trees: &[Parents], layer: usize, length: usize) -> Vec<Parents> {
    let entered = entered_by(trees, layer);
    let at = |place: usize, height: usize| height * layer + place;
    let into_root = into_root(trees, layer);
    let old = |tree: usize, place: usize, height: usize| match (height, entered[place]) {
        (0, _) => trees[tree][place].map(|parent| at(parent, 0)),
        (_, Some(own)) if own == tree => Some(at(place, height - 1)),
        _ => Some(at(trees[tree][place].unwrap_or(into_root[tree]), height)),
    };
    let new = |place: usize, height: usize| match (entered[place], height) {
        (None, 0) => None,
        (None, _) => Some(at(place, height - 1)),
        (Some(_), 0) => Some(at(place, 1)),
        (Some(tree), _) => trees[tree][place].map(|parent| at(parent, height)),
    };
    let all = || (0..length).flat_map(|height| (0..layer).map(move |place| (place, height)));
    let grown = (0..trees.len()).map(|tree| all().map(|(place, height)| old(tree, place, height)).collect());
    grown.chain([all().map(|(place, height)| new(place, height)).collect()]).collect()
}

/// For each device but the root, the tree of its link in a breadth-first search from the root: these links form a tree.
fn entered_by(trees: &[Parents], layer: usize) -> Vec<Option<usize>> {
    let mut entered = vec![None; layer];
    // Of each tree the children of each place, in order.
    let children: Vec<Vec<Vec<usize>>> = trees.iter().map(children).collect();
    let mut front = vec![0];
    while !front.is_empty() {
        let mut next = Vec::new();
        for (tree, children) in children.iter().enumerate() {
            for place in front.iter().flat_map(|parent| &children[*parent]).sorted_unstable() {
                if entered[*place].is_none() {
                    entered[*place] = Some(tree);
                    next.push(*place);
                }
            }
        }
        front = next;
    }
    entered
}

fn children(parents: &Parents) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); parents.len()];
    for (place, parent) in parents.iter().enumerate() {
        parent.iter().for_each(|parent| children[*parent].push(place));
    }
    children
}

/// For each tree a distinct neighbour of the root, the parent of a later layer's root.
fn into_root(trees: &[Parents], layer: usize) -> Vec<usize> {
    // Links go both ways: who is a child of the root in some tree can send to it.
    let child = |parents: &Parents| (0..layer).find(|place| parents[*place] == Some(0)).unwrap_or(0);
    trees.iter().map(child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn neighbours(sides: &[Side], at: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut stride = 1;
        for side in sides.iter().rev() {
            let place = at / stride % side.size;
            let moved = |to: usize| at - place * stride + to * stride;
            if place + 1 < side.size || side.ring {
                found.insert(moved((place + 1) % side.size));
            }
            if place > 0 || side.ring {
                found.insert(moved((place + side.size - 1) % side.size));
            }
            stride *= side.size;
        }
        found.remove(&at);
        found
    }

    /// Every mesh of up to four sides and 120 devices: the trees span it, use existing links at most once, and are as many as
    /// the root has links.
    #[test]
    fn trees_share_no_link() {
        let sides: Vec<Side> =
            (2..=6).cartesian_product([false, true]).map(|(size, ring)| Side { size, ring }).collect();
        let mut meshes = 0;
        for axes in 1..=4 {
            for mesh in (0..axes).map(|_| sides.iter().copied()).multi_cartesian_product() {
                let count: usize = mesh.iter().map(|side| side.size).product();
                if count > 120 {
                    continue;
                }
                meshes += 1;
                let trees = trees(&mesh);
                assert_eq!(trees.len(), neighbours(&mesh, 0).len(), "{mesh:?}");
                let mut used = BTreeSet::new();
                for parents in &trees {
                    assert_eq!(parents.len(), count);
                    for (at, parent) in parents.iter().enumerate() {
                        let up = std::iter::successors(Some(at), |at| parents[*at]).take(count + 1);
                        assert_eq!(up.last(), Some(0), "{mesh:?} {parents:?}");
                        let Some(parent) = parent else { continue };
                        assert!(neighbours(&mesh, *parent).contains(&at), "{mesh:?}: {parent} to {at}");
                        assert!(used.insert((*parent, at)), "{mesh:?}: {parent} to {at} twice");
                    }
                }
            }
        }
        assert!(meshes > 500, "{meshes}");
    }
}
