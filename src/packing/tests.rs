//! Compares the packings with all cuts and all partitions of small networks.

use super::translated::balanced;
use super::{Branching, Link, Network, Packing, Translations, gather, spanning};
use itertools::Itertools;

/// A random network; some links are missing.
fn random(random: &mut fastrand::Rng, nodes: usize, both_ways: bool) -> Network {
    let mut links = Vec::new();
    for (left, right) in (0..nodes).array_combinations().map(|[left, right]| (left, right)) {
        let mut capacity = || if random.u8(..5) < 2 { 0 } else { random.u64(1..4) };
        let there = capacity();
        let back = if both_ways { there } else { capacity() };
        for (from, to, capacity) in [(left, right, there), (right, left, back)] {
            if capacity > 0 {
                links.push(Link { from, to, capacity });
            }
        }
    }
    Network { nodes, links }
}

/// Whether the tree reaches every node from an allowed start node, over existing links.
fn spans(tree: &Branching, network: &Network, begins: &[usize]) -> bool {
    (0..network.nodes).all(|node| {
        let way: Vec<usize> =
            std::iter::successors(Some(node), |at| tree.parents[*at]).take(network.nodes + 1).collect();
        let linked = |(to, from): (&usize, &usize)| network.links.iter().any(|l| (l.from, l.to) == (*from, *to));
        way.len() <= network.nodes && begins.contains(&way[way.len() - 1]) && way.iter().tuple_windows().all(linked)
    })
}

/// Whether no capacity is exceeded; `both_ways` if each tree uses its links in both directions.
fn fits(packing: &Packing, network: &Network, both_ways: bool) -> bool {
    network.links.iter().all(|link| {
        let uses = |tree: &&Branching| {
            tree.parents[link.to] == Some(link.from) || both_ways && tree.parents[link.from] == Some(link.to)
        };
        let load: u64 = packing.trees.iter().filter(uses).map(|tree| tree.weight).sum();
        load <= link.capacity * packing.scale
    })
}

#[test]
fn gathers_are_limited_by_a_cut_alone() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut packed = 0;
    for round in 0..400 {
        let nodes = 2 + round % 6;
        let network = random(&mut rng, nodes, false);
        // Some sources have several holders; some nodes hold nothing.
        let sources: Vec<Vec<usize>> =
            (0..1 + rng.usize(..nodes)).map(|_| (0..nodes).filter(|_| rng.u8(..3) == 0).collect_vec()).collect();
        if sources.iter().any(Vec::is_empty) {
            continue;
        }
        let sets = (1u32..1 << nodes).map(|set| (0..nodes).map(|node| set >> node & 1 == 1).collect_vec());
        let cuts = sets.map(|inside| {
            let missing = sources.iter().filter(|holders| holders.iter().all(|holder| !inside[*holder])).count() as u64;
            (network.capacity_into(&inside), missing)
        });
        let least = cuts.filter(|cut| cut.1 > 0).min_by(|left, right| (left.0 * right.1).cmp(&(right.0 * left.1)));
        let packing = gather(&network, &sources);
        let Some((capacity, missing)) = least.filter(|cut| cut.0 > 0) else {
            assert_eq!(packing, None);
            continue;
        };
        let packing = packing.expect("every set takes something in");
        assert!(fits(&packing, &network, false), "{network:?}");
        for (source, holders) in sources.iter().enumerate() {
            let trees = packing.trees.iter().filter(|tree| tree.source == source);
            assert!(trees.clone().all(|tree| spans(tree, &network, holders)), "{network:?}");
            let weight: u64 = trees.map(|tree| tree.weight).sum();
            assert_eq!(weight * missing, capacity * packing.scale, "{network:?} {sources:?}");
        }
        packed += 1;
    }
    assert!(packed > 100, "{packed}");
}

/// All partitions of this number of nodes.
fn partitions(nodes: usize) -> Vec<Vec<usize>> {
    (1..nodes).fold(vec![vec![0]], |parted, _| {
        let more = |parts: &Vec<usize>| {
            let next = parts.iter().max().map_or(0, |last| last + 1);
            (0..=next).map(|part| [&parts[..], &[part]].concat()).collect_vec()
        };
        parted.iter().flat_map(more).collect()
    })
}

#[test]
fn sums_are_limited_by_a_partition_alone() {
    let mut rng = fastrand::Rng::with_seed(2);
    let mut packed = 0;
    for round in 0..300 {
        let nodes = 2 + round % 5;
        let network = random(&mut rng, nodes, true);
        let across = |parts: &Vec<usize>| -> (u64, u64) {
            let leaving = network.links.iter().filter(|link| link.from < link.to && parts[link.from] != parts[link.to]);
            (leaving.map(|link| link.capacity).sum(), parts.iter().copied().max().unwrap_or(0) as u64)
        };
        let ratios = partitions(nodes).iter().map(across).filter(|ratio| ratio.1 > 0).collect_vec();
        let least = ratios.iter().min_by(|left, right| (left.0 * right.1).cmp(&(right.0 * left.1))).expect("two parts");
        let packing = spanning(&network);
        if least.0 == 0 {
            assert_eq!(packing, None);
            continue;
        }
        let packing = packing.expect("one piece");
        assert!(fits(&packing, &network, true), "{network:?}");
        let begins = |tree: &Branching| (0..nodes).filter(|node| tree.parents[*node].is_none()).collect_vec();
        assert!(packing.trees.iter().all(|tree| begins(tree).len() == 1 && spans(tree, &network, &begins(tree))));
        let weight: u64 = packing.trees.iter().map(|tree| tree.weight).sum();
        assert_eq!(weight * least.1, least.0 * packing.scale, "{network:?}");
        packed += 1;
    }
    assert!(packed > 100, "{packed}");
}

/// A torus without one cable: a fifth of a link for each shard, 31 cables for the 15 links of a tree.
#[test]
fn a_torus_less_a_cable() {
    let torus = |x: usize, y: usize| {
        let around = (0..x * y).flat_map(move |at| {
            let (i, j) = (at / y, at % y);
            [((i + 1) % x) * y + j, i * y + (j + 1) % y].map(|to| [(at, to), (to, at)]).concat()
        });
        let links = around.filter(|link| ![(0, y), (y, 0)].contains(link));
        Network { nodes: x * y, links: links.map(|(from, to)| Link { from, to, capacity: 1 }).collect() }
    };
    for (x, y) in [(4, 4), (3, 5), (4, 8)] {
        let network = torus(x, y);
        let nodes = (x * y) as u64;
        let alone: Vec<Vec<usize>> = (0..x * y).map(|node| vec![node]).collect();
        let packing = gather(&network, &alone).expect("one piece");
        let weight: u64 = packing.trees.iter().filter(|tree| tree.source == 0).map(|tree| tree.weight).sum();
        assert_eq!(weight * (nodes - 1), 3 * packing.scale);
        assert!(fits(&packing, &network, false));
        let packing = spanning(&network).expect("one piece");
        let weight: u64 = packing.trees.iter().map(|tree| tree.weight).sum();
        assert_eq!(weight * (nodes - 1), (2 * nodes - 1) * packing.scale);
        assert!(fits(&packing, &network, true));
        assert!(packing.trees.len() < 2 * network.nodes, "few trees are parted");
    }
}

/// A torus in which the end of each axis is linked to its start, shifted along the last axis.
fn twisted(sizes: &[usize], shifts: &[usize], capacities: &[u64]) -> Network {
    let nodes = sizes.iter().product();
    let last = sizes.len() - 1;
    let strides: Vec<usize> = (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product()).collect();
    let mut links = Vec::new();
    for (from, axis) in (0..nodes).cartesian_product(0..sizes.len()) {
        let at = |axis: usize| from / strides[axis] % sizes[axis];
        let mut to: Vec<usize> = (0..sizes.len()).map(at).collect();
        to[axis] += 1;
        if to[axis] == sizes[axis] {
            to[axis] = 0;
            to[last] = (to[last] + shifts[axis]) % sizes[last];
        }
        let to = to.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        if from != to {
            let capacity = capacities[axis];
            links.extend([Link { from, to, capacity }, Link { from: to, to: from, capacity }]);
        }
    }
    Network { nodes, links }
}

/// Tori with every shift, their axes in every order: sums of nodes are those of a group of translations, and each tree
/// reaches every node by a shortest path.
#[test]
fn twisted_tori_have_translations() {
    for (sizes, capacities) in [([2, 4], [1, 1]), ([3, 5], [1, 2]), ([4, 8], [3, 1]), ([1, 6], [1, 1])] {
        for shift in 0..sizes[1] {
            let network = twisted(&sizes, &[shift, 0], &capacities);
            let translations = Translations::of(&network, &sizes).expect("a torus");
            let nodes = network.nodes;
            for (one, two) in (0..nodes).cartesian_product(0..nodes) {
                assert_eq!(translations.sum(one, two), translations.sum(two, one));
                assert_eq!(translations.sum(translations.difference(one, two), two), one);
            }
            let is_linked = |from, to| network.links.iter().any(|link| (link.from, link.to) == (from, to));
            for tree in translations.trees(3).expect("connected") {
                let mut reached = vec![None; nodes];
                reached[0] = Some(0);
                for branch in &tree {
                    assert!(is_linked(branch.parent, branch.node));
                    assert_eq!(translations.sum(branch.parent, branch.step), branch.node);
                    assert!(reached[branch.node].is_none());
                    reached[branch.node] = reached[branch.parent].map(|distance: usize| distance + 1);
                }
                let all =
                    reached.into_iter().collect::<Option<Vec<usize>>>().expect("each node has a parent before it");
                // The links of all nodes make no way shorter.
                let is_short = |link: &Link| all[link.to] <= all[link.from] + 1;
                assert!(network.links.iter().all(is_short));
            }
        }
    }
    // Lines and networks with a missing link look different from their ends.
    let ring = twisted(&[6], &[0], &[1]);
    assert!(Translations::of(&ring, &[6]).is_some());
    let line = Network { nodes: 6, links: ring.links[..10].to_vec() };
    assert!(Translations::of(&line, &[6]).is_none());
}

/// The largest load in proportion to the capacity is as small as over all choices.
#[test]
fn choices_are_balanced() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..2000 {
        let capacities: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..4)).collect();
        let choice = |random: &mut fastrand::Rng| {
            let some: Vec<usize> = (0..capacities.len()).filter(|_| random.bool()).collect();
            if some.is_empty() { vec![random.usize(..capacities.len())] } else { some }
        };
        let items: Vec<Vec<usize>> = (0..random.usize(1..7)).map(|_| choice(&mut random)).collect();
        // As a multiple of the time with all capacities together: capacities divide 6.
        let most = |chosen: &[usize]| {
            let load = |at: usize| chosen.iter().filter(|chosen| **chosen == at).count() as u64 * 6 / capacities[at];
            (0..capacities.len()).map(load).max()
        };
        let found = balanced(&items, &capacities);
        assert!(items.iter().zip(&found).all(|(item, chosen)| item.contains(chosen)));
        let best = items.iter().map(|item| item.iter().copied()).multi_cartesian_product().map(|all| most(&all)).min();
        assert_eq!(Some(most(&found)), best, "{items:?} {capacities:?}");
    }
}
