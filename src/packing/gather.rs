//! Trees from the holders of data to all other nodes.

use super::branchings::{Root, grow};
use super::{Link, Network, Packing, UNLIMITED};
use crate::flow::Flow;
use crate::units::gcd;

/// Packs trees of equal weight for each source, with maximum total weight. A source is a set of nodes that hold the
/// same data. Each node must get the data that it does not hold.
///
/// `None` if a node is unreachable, nothing is to be sent, or the numbers are too large.
pub fn gather(network: &Network, sources: &[Vec<usize>]) -> Option<Packing> {
    if !network.is_small() {
        return None;
    }
    let (weight, scale) = rate(network, sources)?;
    let scaled = network.links.iter().map(|link| Link { capacity: link.capacity * scale, ..*link }).collect();
    let scaled = Network { nodes: network.nodes, links: scaled };
    let root = |(source, nodes): (usize, &Vec<usize>)| Root { nodes: nodes.clone(), weight, source };
    let trees = grow(&scaled, sources.iter().enumerate().map(root).collect())?;
    Some(Packing { trees, scale })
}

/// The maximum rate at which all sources can send to all nodes, as a fraction in lowest terms.
///
/// It is the minimum over all sets of nodes of the capacity into the set, divided by the number of sources without a
/// holder in the set. A cut that is too small for the current guess gives the next guess, until there is none.
fn rate(network: &Network, sources: &[Vec<usize>]) -> Option<(u64, u64)> {
    let of = |inside: &[bool]| {
        let missing = sources.iter().filter(|nodes| !nodes.iter().any(|node| inside[*node])).count() as u64;
        (network.capacity_into(inside), missing)
    };
    let alone = (0..network.nodes).map(|node| of(&(0..network.nodes).map(|other| other == node).collect::<Vec<_>>()));
    let mut least = alone.filter(|(_, missing)| *missing > 0).min_by(|left, right| {
        let product = |left: u64, right: u64| u128::from(left) * u128::from(right);
        product(left.0, right.1).cmp(&product(right.0, left.1))
    })?;
    loop {
        let common = gcd(least.0, least.1);
        let (weight, scale) = (least.0 / common, least.1 / common);
        if weight == 0 {
            return None;
        }
        match (0..network.nodes).find_map(|node| too_small(network, sources, (weight, scale), node)) {
            None => return Some((weight, scale)),
            Some(inside) => least = of(&inside[..network.nodes]),
        }
    }
}

/// A set around a node with too little capacity for this rate.
fn too_small(network: &Network, sources: &[Vec<usize>], (weight, scale): (u64, u64), node: usize) -> Option<Vec<bool>> {
    let mut flow = Flow::new(network.nodes);
    let start = flow.add_node();
    for link in &network.links {
        flow.add(link.from, link.to, link.capacity * scale);
    }
    for nodes in sources {
        let source = flow.add_node();
        flow.add(start, source, weight);
        nodes.iter().for_each(|holder| {
            flow.add(source, *holder, UNLIMITED);
        });
    }
    let wanted = weight * sources.len() as u64;
    (flow.send(start, node, wanted) < wanted).then(|| flow.sink_side(node))
}
