//! Trees for sums that are reduced and then broadcast, using each cable in both directions.

use super::branchings::{Root, grow};
use super::{Branching, Link, Network, Packing, UNLIMITED};
use crate::flow::Flow;
use crate::units::gcd;
use std::cmp::Reverse;

/// A cable with equal capacity in both directions, that of its weaker link.
#[derive(Clone, Copy, Debug)]
struct Cable {
    ends: [usize; 2],
    capacity: u64,
}

/// Packs trees over all nodes, with maximum total weight, where each tree uses its links in both directions.
///
/// Each tree is rooted at a central node. `None` if a node is not reachable in both directions, or the numbers are
/// too large.
pub fn spanning(network: &Network) -> Option<Packing> {
    packed(network, cables(network), |rate| rate)
}

/// Packs few trees, as [`spanning`] does, with at least `1 - 1 / most_lost` of the maximum total weight. Large networks
/// have a maximum with a large denominator, which takes as many trees.
pub fn spanning_with_few(network: &Network, most_lost: u64) -> Option<Packing> {
    // What the strongest cables suffice for takes fewer trees.
    let mut cables = cables(network);
    cables.sort_by_key(|cable| Reverse(cable.capacity));
    packed(network, cables, |(weight, scale)| {
        let less = (1..scale).map(|less| (weight * less / scale, less));
        let is_close =
            |(part, less): &(u64, u64)| *part > 0 && (weight * less - part * scale) * most_lost <= weight * less;
        less.into_iter().find(is_close).unwrap_or((weight, scale))
    })
}

/// Packs trees with a total weight that may be less than the maximum, both as fractions.
fn packed(network: &Network, cables: Vec<Cable>, less: impl Fn((u64, u64)) -> (u64, u64)) -> Option<Packing> {
    if !network.is_small() || network.nodes < 2 {
        return None;
    }
    let (weight, scale) = less(rate(network.nodes, &cables)?);
    let (kept, _) = keep(network.nodes, &cables, weight, scale);
    let common = kept.iter().map(|cable| cable.capacity).fold(gcd(weight, scale), gcd);
    let kept: Vec<Cable> = kept.iter().map(|cable| Cable { capacity: cable.capacity / common, ..*cable }).collect();
    let (links, beginnings) = oriented(network.nodes, &kept, weight / common);
    let root = |(node, weight): (usize, u64)| Root { nodes: vec![node], weight, source: 0 };
    let roots = beginnings.into_iter().enumerate().map(root).collect();
    let trees = grow(&Network { nodes: network.nodes, links }, roots)?;
    Some(Packing { trees: trees.into_iter().map(Branching::begun_in_its_middle).collect(), scale: scale / common })
}

/// Pairs of nodes that are linked in both directions.
fn cables(network: &Network) -> Vec<Cable> {
    let between = |from: usize, to: usize| -> u64 {
        network.links.iter().filter(|link| (link.from, link.to) == (from, to)).map(|link| link.capacity).sum()
    };
    let pairs = (0..network.nodes).flat_map(|left| (left + 1..network.nodes).map(move |right| [left, right]));
    let cable = |ends: [usize; 2]| Cable { ends, capacity: between(ends[0], ends[1]).min(between(ends[1], ends[0])) };
    pairs.map(cable).filter(|cable| cable.capacity > 0).collect()
}

/// The maximum total weight of all trees, as a fraction in lowest terms: a weight and the scale of the capacities.
///
/// The weight is the minimum over all partitions into p parts of the capacity of the cables between the parts,
/// divided by p - 1. A partition that is too small for the current guess gives the next guess, until there is none.
fn rate(nodes: usize, cables: &[Cable]) -> Option<(u64, u64)> {
    let parts = nodes as u64 - 1;
    let mut least = (cables.iter().map(|cable| cable.capacity).sum::<u64>(), parts);
    loop {
        let common = gcd(least.0, least.1);
        let (weight, scale) = (least.0 / common, least.1 / common);
        if weight == 0 {
            return None;
        }
        let (kept, part) = keep(nodes, cables, weight, scale);
        if kept.iter().map(|cable| cable.capacity).sum::<u64>() == weight * parts {
            return Some((weight, scale));
        }
        let across = cables.iter().filter(|cable| part[cable.ends[0]] != part[cable.ends[1]]);
        let count = (0..nodes).filter(|node| part[*node] == *node).count() as u64;
        least = (across.map(|cable| cable.capacity).sum(), count.checked_sub(1)?);
    }
}

/// Keeps as much of each cable as trees of this weight can use: within a set of n nodes, n - 1 times the weight.
/// Taking as much as possible cable by cable gives the maximum total. Also returns the saturated parts, by the first
/// node of each.
fn keep(nodes: usize, cables: &[Cable], weight: u64, scale: u64) -> (Vec<Cable>, Vec<usize>) {
    let mut part: Vec<usize> = (0..nodes).collect();
    let mut kept: Vec<Cable> = Vec::new();
    for cable in cables {
        let wanted = cable.capacity * scale;
        let (room, full) = room(nodes, &kept, cable.ends, weight);
        if room < wanted {
            let joined: Vec<usize> = (0..nodes).filter(|node| full[*node]).map(|node| part[node]).collect();
            let first = joined.iter().copied().min().unwrap_or_default();
            part.iter_mut().filter(|part| joined.contains(part)).for_each(|part| *part = first);
        }
        kept.push(Cable { capacity: wanted.min(room), ..*cable });
    }
    (kept, part)
}

/// The remaining capacity within the sets that contain both ends, and the set that has the least.
fn room(nodes: usize, kept: &[Cable], ends: [usize; 2], weight: u64) -> (u64, Vec<bool>) {
    // Twice the capacity kept within a set is the capacity kept at its nodes, minus that leaving the set. So twice
    // the room plus the weight is a minimum cut, in which each node inside costs twice the weight minus the capacity
    // kept at it.
    let mut flow = Flow::new(nodes);
    let (source, sink) = (flow.add_node(), flow.add_node());
    let mut at = vec![0; nodes];
    for cable in kept {
        flow.add_both_ways(cable.ends[0], cable.ends[1], cable.capacity, cable.capacity);
        cable.ends.into_iter().for_each(|end| at[end] += cable.capacity);
    }
    let mut gained = 0;
    for (node, at) in at.into_iter().enumerate() {
        flow.add(node, sink, (2 * weight).saturating_sub(at));
        flow.add(source, node, at.saturating_sub(2 * weight));
        gained += at.saturating_sub(2 * weight);
    }
    for end in ends {
        flow.add(source, end, UNLIMITED);
    }
    let cut = flow.send(source, sink, UNLIMITED);
    let room = (cut.saturating_sub(gained) / 2).saturating_sub(weight);
    (room, flow.source_side(source)[..nodes].to_vec())
}

/// Orients each part of each cable such that no node receives more than the weight; the difference is the weight of
/// the trees rooted there. The remaining capacity within each set guarantees that the trees can be grown.
fn oriented(nodes: usize, cables: &[Cable], weight: u64) -> (Vec<Link>, Vec<u64>) {
    let mut flow = Flow::new(nodes);
    let (source, sink) = (flow.add_node(), flow.add_node());
    let mut into = Vec::new();
    for cable in cables {
        let node = flow.add_node();
        flow.add(source, node, cable.capacity);
        into.push(cable.ends.map(|end| flow.add(node, end, cable.capacity)));
    }
    let beginnings: Vec<usize> = (0..nodes).map(|node| flow.add(node, sink, weight)).collect();
    flow.send(source, sink, UNLIMITED);
    let mut links = Vec::new();
    for (cable, into) in cables.iter().zip(into) {
        let [left, right] = cable.ends;
        for (from, to, edge) in [(right, left, into[0]), (left, right, into[1])] {
            links.push(Link { from, to, capacity: cable.capacity - flow.left(edge) });
        }
    }
    (links, beginnings.into_iter().map(|edge| flow.left(edge)).collect())
}

impl Branching {
    /// The same tree, rooted at a node that minimises its depth.
    fn begun_in_its_middle(self) -> Branching {
        let begun = (0..self.parents.len()).map(|root| self.begun_at(root));
        let parents = begun.min_by_key(|(depth, _)| *depth).map(|(_, parents)| parents).unwrap_or_default();
        Branching { parents, ..self }
    }

    /// The depth from a root, and the parent of each node.
    fn begun_at(&self, root: usize) -> (usize, Vec<Option<usize>>) {
        let mut parents = vec![None; self.parents.len()];
        let (mut level, mut depth) = (vec![root], 0);
        loop {
            let mut next = Vec::new();
            for node in level {
                let children = (0..self.parents.len()).filter(|child| self.parents[*child] == Some(node));
                let before = parents[node];
                for other in children.chain(self.parents[node]).filter(|other| before != Some(*other)) {
                    parents[other] = Some(node);
                    next.push(other);
                }
            }
            if next.is_empty() {
                return (depth, parents);
            }
            (level, depth) = (next, depth + 1);
        }
    }
}
