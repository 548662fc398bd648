//! Broadcast trees from any device of a group, made from those of the first one.
//!
//! The devices along a ring or a switch are alike, so trees are rotated. Along a line they are not: the links between the
//! root and the first device are passed in the other direction.

use super::spanning::Parents;
use crate::mesh::Wiring;

/// The trees of the first device, from the device with rank `root` over sides of these lengths, the first of them major.
pub(super) fn rooted(trees: Vec<Parents>, sides: &[(usize, Wiring)], root: u64) -> Vec<Parents> {
    if root == 0 {
        return trees;
    }
    let root = usize::try_from(root).expect("axes are shorter");
    let moved: Vec<usize> =
        (0..sides.iter().map(|(size, _)| size).product()).map(|at| rotated(at, sides, root)).collect();
    let tree = |parents: Parents| {
        let mut tree = vec![None; parents.len()];
        for (at, parent) in parents.into_iter().enumerate() {
            tree[moved[at]] = parent.map(|parent| moved[parent]);
        }
        turned(tree, root)
    };
    trees.into_iter().map(tree).collect()
}

/// The place of a device after rotating each side but the lines, so that the first device is where the root is.
fn rotated(mut at: usize, sides: &[(usize, Wiring)], mut root: usize) -> usize {
    let (mut place, mut stride) = (0, 1);
    for (size, wiring) in sides.iter().rev() {
        let by = if *wiring == Wiring::Line { 0 } else { root % size };
        place += (at % size + by) % size * stride;
        stride *= size;
        at /= size;
        root /= size;
    }
    place
}

/// The same tree from another root.
fn turned(mut tree: Parents, root: usize) -> Parents {
    let (mut at, mut parent) = (root, None);
    while let Some(next) = std::mem::replace(&mut tree[at], parent) {
        (parent, at) = (Some(at), next);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::super::spanning::{Side, trees};
    use super::*;

    #[test]
    fn trees_reach_all_devices_from_any_root_over_the_same_links() {
        let wirings = [Wiring::Ring, Wiring::Line];
        for (first, second) in itertools::iproduct!(wirings, wirings) {
            for (m, n) in itertools::iproduct!(2..=5, 2..=4) {
                let sides = [(m, first), (n, second)];
                let side = |(size, wiring): (usize, Wiring)| Side { size, ring: wiring == Wiring::Ring };
                let original = trees(&sides.map(side));
                for root in 0..m * n {
                    for tree in rooted(original.clone(), &sides, root as u64) {
                        for at in 0..m * n {
                            let up = std::iter::successors(Some(at), |at| tree[*at]).take(m * n + 1);
                            assert_eq!(up.last(), Some(root), "{sides:?}: {tree:?}");
                            let Some(parent) = tree[at] else { continue };
                            let apart = |side: usize, (from, to): (usize, usize)| {
                                let (size, wiring) = sides[side];
                                let apart = from.abs_diff(to);
                                if wiring == Wiring::Ring { apart.min(size - apart) } else { apart }
                            };
                            let hops = apart(0, (at / n, parent / n)) + apart(1, (at % n, parent % n));
                            assert_eq!(hops, 1, "{sides:?}: {tree:?}");
                        }
                    }
                }
            }
        }
    }
}
