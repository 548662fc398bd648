//! Trees that share the links of a network, none of which carries more than it can.
//!
//! A gather goes along trees that lead away from who holds a shard, a sum along trees to a root and back. On a network
//! that is no product of rings and lines these trees are *packed*: as much goes along each as its weight says, and the
//! weights of the trees over a link are at most its capacity. Both packings are optimal, not searched for: what a
//! gather brings is limited by some cut, and what a sum brings by some partition, and there are trees that reach it.
//!
//! This module knows numbered nodes and whole capacities, and nothing of meshes or schedules.
//!
//! Source: Edmonds, "Edge-disjoint branchings" (1973), and Bérczi and Frank, "Packing arborescences" (2009), for trees
//! with weights; Tutte and Nash-Williams (1961) for undirected trees; ForestColl (arXiv 2402.06787) for gathers.

mod branchings;
mod gather;
mod spanning;
#[cfg(test)]
mod tests;

pub use gather::gather;
pub use spanning::spanning;

/// Above every capacity, and as many of them as there are nodes still fit.
const UNLIMITED: u64 = 1 << 52;

/// Nodes, numbered from 0, and one-way links between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// How many nodes there are.
    pub nodes: usize,
    /// The links.
    pub links: Vec<Link>,
}

/// A one-way link between different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// What it carries, in any unit.
    pub capacity: u64,
}

/// Trees that are packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The trees.
    pub trees: Vec<Branching>,
    /// The weights over a link are at most its capacity times this.
    pub scale: u64,
}

/// A tree over all nodes, or some of them, one from each node that it begins at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branching {
    /// The node before each; none where it begins.
    pub parents: Vec<Option<usize>>,
    /// How much goes along it.
    pub weight: u64,
    /// What goes along it: of a gather the place of its source in the list, of a sum 0.
    pub source: usize,
}

impl Network {
    /// The same with all links turned round.
    pub fn reversed(&self) -> Network {
        let turned = |link: &Link| Link { from: link.to, to: link.from, ..*link };
        Network { nodes: self.nodes, links: self.links.iter().map(turned).collect() }
    }

    /// Whether all that is counted of it fits: a few hundred nodes, and capacities up to 2^32 in all.
    fn is_small(&self) -> bool {
        let total = self.links.iter().try_fold(0u64, |total, link| total.checked_add(link.capacity));
        self.nodes <= 1 << 9 && total.is_some_and(|total| total < 1 << 32)
    }

    /// What all links into a set of nodes carry.
    fn capacity_into(&self, inside: &[bool]) -> u64 {
        let enters = |link: &&Link| inside[link.to] && !inside[link.from];
        self.links.iter().filter(enters).map(|link| link.capacity).sum()
    }
}
