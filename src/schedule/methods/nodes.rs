//! Broadcast trees over nodes of devices on a switch, from the first device of the first node.
//!
//! One tree per device of a node: from the root to that device, along a tree over the nodes through the devices in its
//! position, and from these to all others of their nodes. Each port between nodes has the same load.
//!
//! The tree of the root itself would make it send to all devices of its node. It sends to one other device instead, which
//! forwards; as that device has a tree of its own, several take turns.

use super::spanning::Parents;

/// Weighted trees, for each tree over nodes and each of this many devices of a node; devices are numbered row-major.
pub(super) fn trees(outer: &[Parents], devices: usize) -> Vec<(Parents, u64)> {
    let helpers = devices.saturating_sub(2).div_ceil(2).max(1);
    let mut trees = Vec::new();
    for nodes in outer {
        for place in 1..devices {
            trees.push((tree(nodes, devices, place, place), helpers as u64));
        }
        trees.extend((1..=helpers).map(|helper| (tree(nodes, devices, 0, helper), 1)));
    }
    trees
}

/// The tree through the devices in one position of each node; in the first node `first` receives from the root, and the
/// others from `first`.
fn tree(nodes: &[Option<usize>], devices: usize, place: usize, first: usize) -> Parents {
    let parent = |(node, before): (usize, &Option<usize>), at: usize| match before {
        Some(before) if at == place => Some(before * devices + place),
        Some(_) => Some(node * devices + place),
        None if at == 0 => None,
        None if at == first => Some(0),
        None => Some(first),
    };
    nodes.iter().enumerate().flat_map(|node| (0..devices).map(move |at| parent(node, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::spanning::{self, Side};
    use super::*;
    use std::collections::BTreeMap;

    /// Every tree reaches all devices, no port of a device in a node carries more than the whole value, and each port between
    /// nodes carries exactly its part.
    #[test]
    fn no_port_carries_more_than_the_value() {
        for (nodes, devices) in (2..=5).flat_map(|nodes| (2..=9).map(move |devices| (nodes, devices))) {
            for ring in [false, true] {
                let outer = spanning::trees(&[Side { size: nodes, ring }]);
                let trees = trees(&outer, devices);
                let total: u64 = trees.iter().map(|(_, weight)| weight).sum();
                let (mut inside, mut between) = (BTreeMap::new(), BTreeMap::new());
                for (parents, weight) in &trees {
                    assert_eq!(parents.len(), nodes * devices);
                    for (at, parent) in parents.iter().enumerate() {
                        let up = std::iter::successors(Some(at), |at| parents[*at]).take(parents.len() + 1);
                        assert_eq!(up.last(), Some(0));
                        let Some(parent) = parent else { continue };
                        let ports = if at / devices == parent / devices { &mut inside } else { &mut between };
                        *ports.entry((*parent, "out")).or_insert(0) += weight;
                        *ports.entry((at, "in")).or_insert(0) += weight;
                        assert!(at / devices == parent / devices || at % devices == parent % devices);
                    }
                }
                assert!(inside.values().all(|carried| *carried <= total), "{nodes} of {devices}: {inside:?}");
                assert!(between.values().all(|carried| carried * (devices as u64) <= total), "{nodes} of {devices}");
            }
        }
    }
}
