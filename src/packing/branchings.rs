//! Grows trees link by link, such that the remaining capacities always suffice for the remaining growth.
//!
//! A tree starts as the nodes that hold its source. The invariant is: for each set of nodes, the trees that have not
//! reached it need no more than the remaining capacity into the set. While it holds, some tree can take some link. It
//! is preserved by taking no more of a link than is left over in the sets that the tree has already reached
//! elsewhere. If that is less than the weight of the tree, the tree is split in two.

use super::{Branching, Link, Network, UNLIMITED};
use crate::flow::Flow;

/// The start of some trees.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) nodes: Vec<usize>,
    /// Total weight of its trees.
    pub(super) weight: u64,
    pub(super) source: usize,
}

/// A tree during growth.
#[derive(Clone, Debug)]
struct Growing {
    branching: Branching,
    /// Depth of each node that it has reached.
    depths: Vec<Option<usize>>,
    /// Upper bound of what it can take of each link. It never increases.
    most: Vec<u64>,
}

impl Growing {
    fn new(root: &Root, network: &Network) -> Growing {
        let mut depths = vec![None; network.nodes];
        root.nodes.iter().for_each(|node| depths[*node] = Some(0));
        let branching = Branching { parents: vec![None; network.nodes], weight: root.weight, source: root.source };
        Growing { branching, depths, most: network.links.iter().map(|link| link.capacity).collect() }
    }

    fn is_complete(&self) -> bool {
        self.depths.iter().all(Option::is_some)
    }

    /// Whether a link leads from a reached node to an unreached one.
    fn leaves_by(&self, link: Link) -> bool {
        self.depths[link.from].is_some() && self.depths[link.to].is_none()
    }

    fn take(&mut self, link: Link) {
        self.branching.parents[link.to] = Some(link.from);
        self.depths[link.to] = self.depths[link.from].map(|depth| depth + 1);
    }
}

/// The trees, and the remaining capacities.
struct Wood {
    nodes: usize,
    /// Links with their remaining capacities.
    links: Vec<Link>,
    trees: Vec<Growing>,
}

/// Trees over all nodes, with the weights of the roots; `None` if the capacities do not suffice.
pub(super) fn grow(network: &Network, roots: Vec<Root>) -> Option<Vec<Branching>> {
    let trees = roots.iter().filter(|root| root.weight > 0).map(|root| Growing::new(root, network)).collect();
    let mut wood = Wood { nodes: network.nodes, links: network.links.clone(), trees };
    while wood.trees.iter().any(|tree| !tree.is_complete()) {
        if !wood.extend() && !wood.split() {
            return None;
        }
    }
    Some(wood.trees.into_iter().map(|tree| tree.branching).collect())
}

impl Wood {
    /// Extends whole trees, starting with the nodes nearest to their roots. Returns whether any tree grew.
    fn extend(&mut self) -> bool {
        let mut grown = false;
        for depth in 0..self.nodes {
            // One link per tree and turn, so that no tree takes the short paths of the others.
            while (0..self.trees.len()).filter(|tree| self.extend_at(*tree, depth)).count() > 0 {
                grown = true;
            }
        }
        grown
    }

    /// Extends a tree by one link from a node at this depth, preferring the least used link.
    fn extend_at(&mut self, tree: usize, depth: usize) -> bool {
        let growing = &self.trees[tree];
        let weight = growing.branching.weight;
        let fits = |place: &usize| {
            let link = self.links[*place];
            let from_here = growing.depths[link.from] == Some(depth) && growing.leaves_by(link);
            from_here && link.capacity.min(growing.most[*place]) >= weight
        };
        let mut places: Vec<usize> = (0..self.links.len()).filter(fits).collect();
        places.sort_by_key(|place| std::cmp::Reverse(self.links[*place].capacity));
        for place in places {
            let room = self.room(tree, place);
            self.trees[tree].most[place] = room;
            if room == weight {
                self.take(tree, place, weight);
                return true;
            }
        }
        false
    }

    /// Splits the tree with the largest part that can grow. Returns whether there is one.
    fn split(&mut self) -> bool {
        let mut best: Option<(u64, usize, usize)> = None;
        for tree in 0..self.trees.len() {
            for place in 0..self.links.len() {
                let growing = &self.trees[tree];
                let most = self.links[place].capacity.min(growing.most[place]);
                if !growing.leaves_by(self.links[place]) || best.is_some_and(|(least, ..)| most <= least) || most == 0 {
                    continue;
                }
                let room = self.room(tree, place);
                self.trees[tree].most[place] = room;
                if room > best.map_or(0, |(room, ..)| room) {
                    best = Some((room, tree, place));
                }
            }
        }
        let Some((room, tree, place)) = best else { return false };
        let mut rest = self.trees[tree].clone();
        rest.branching.weight -= room;
        self.trees[tree].branching.weight = room;
        self.take(tree, place, room);
        self.trees.push(rest);
        true
    }

    fn take(&mut self, tree: usize, place: usize, weight: u64) {
        self.trees[tree].take(self.links[place]);
        self.links[place].capacity -= weight;
    }

    /// How much of a link a tree can take, up to its weight.
    ///
    /// Only sets matter that contain the link's end but not its start, and that the tree has reached elsewhere. The
    /// capacity into such a set, minus the weights of the trees that have not reached it, is the residue of a flow
    /// that brings all other trees to the end of the link. A set that this tree has not reached leaves at least the
    /// weight of the tree, so it is irrelevant.
    fn room(&self, tree: usize, place: usize) -> u64 {
        let Link { from, to, capacity } = self.links[place];
        let wanted = capacity.min(self.trees[tree].branching.weight);
        let mut flow = Flow::new(self.nodes);
        let start = flow.add_node();
        for link in self.links.iter().filter(|link| link.capacity > 0) {
            flow.add(link.from, link.to, link.capacity);
        }
        let mut others = 0;
        for (other, growing) in self.trees.iter().enumerate() {
            if other == tree || growing.depths[to].is_some() {
                continue;
            }
            others += growing.branching.weight;
            let source = flow.add_node();
            flow.add(start, source, growing.branching.weight);
            for (node, _) in growing.depths.iter().enumerate().filter(|(_, depth)| depth.is_some()) {
                flow.add(source, node, UNLIMITED);
            }
        }
        flow.add(start, from, UNLIMITED);
        flow.send(start, to, others + wanted).saturating_sub(others)
    }
}
