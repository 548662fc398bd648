//! Tree packing: trees that share the links of a network within their capacities.
//!
//! A gather runs along trees from the holders of a shard, a sum along trees to a root and back. On networks that are
//! not products of rings and lines, these trees are *packed*: each tree carries data in proportion to its weight, and
//! the weights of the trees over a link do not exceed its capacity. Both packings are optimal, not heuristic: the
//! rate of a gather is limited by a cut, that of a sum by a partition, and the trees reach these limits.
//!
//! This module uses numbered nodes and integer capacities. It does not depend on meshes or schedules.
//!
//! Sources: Edmonds, "Edge-disjoint branchings" (1973), and Bérczi and Frank, "Packing arborescences" (2009), for trees
//! with weights; Tutte and Nash-Williams (1961) for undirected trees; ForestColl (arXiv 2402.06787) for gathers.

mod branchings;
mod gather;
mod spanning;
#[cfg(test)]
mod tests;
mod translated;

pub use gather::gather;
pub use spanning::{spanning, spanning_with_few};
pub use translated::{Branch, Translations};

/// Infinite capacity: above every finite one, and small enough that a sum over all nodes does not overflow.
const UNLIMITED: u64 = 1 << 52;

/// Nodes, numbered from 0, and one-way links between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Number of nodes.
    pub nodes: usize,
    /// The links.
    pub links: Vec<Link>,
}

/// A one-way link between different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Start node.
    pub from: usize,
    /// End node.
    pub to: usize,
    /// Capacity, in any unit.
    pub capacity: u64,
}

/// Packed trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The trees.
    pub trees: Vec<Branching>,
    /// The total weight over a link is at most its capacity times this factor.
    pub scale: u64,
}

/// A tree over all nodes, or a forest with one tree per start node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branching {
    /// Parent of each node; `None` at start nodes.
    pub parents: Vec<Option<usize>>,
    /// Amount of data along it.
    pub weight: u64,
    /// For a gather the index of its source, for a sum 0.
    pub source: usize,
}

impl Network {
    /// The network with all links reversed.
    pub fn reversed(&self) -> Network {
        let turned = |link: &Link| Link { from: link.to, to: link.from, ..*link };
        Network { nodes: self.nodes, links: self.links.iter().map(turned).collect() }
    }

    /// Whether the computation cannot overflow: a few hundred nodes, and capacities of up to 2^32 in total.
    fn is_small(&self) -> bool {
        let total = self.links.iter().try_fold(0u64, |total, link| total.checked_add(link.capacity));
        self.nodes <= 1 << 9 && total.is_some_and(|total| total < 1 << 32)
    }

    /// Total capacity of the links into a set of nodes.
    fn capacity_into(&self, inside: &[bool]) -> u64 {
        let enters = |link: &&Link| inside[link.to] && !inside[link.from];
        self.links.iter().filter(enters).map(|link| link.capacity).sum()
    }
}
