//! Trees of networks that look the same from every node.
//!
//! In a torus, also in a twisted one, translations send links to links. A tree from node 0 then gives one from every
//! node, and the links of a direction carry as many blocks as the tree has links of this direction. If it has as many of
//! each direction, in proportion to their capacity, no other trees are faster. The nodes form a group: their sum is what
//! the translation to one makes of the other.
//!
//! Source: Cámara et al., "Twisted torus topologies for enhanced interconnection networks" (2010).

use super::Network;
use itertools::Itertools;
use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;

/// The translations of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translations {
    /// The image of each node under the translation to each node.
    images: Vec<Vec<usize>>,
    /// The node that each one cancels.
    negative: Vec<usize>,
    /// The nodes to which node 0 has links, with their capacities.
    steps: Vec<(usize, u64)>,
}

/// A link of a tree: to a node from the one that is a step before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Start node.
    pub parent: usize,
    /// End node.
    pub node: usize,
    /// The node to which node 0 has the corresponding link.
    pub step: usize,
}

impl Translations {
    /// The translations of a network whose nodes are numbered like the devices of a mesh with these sizes. At the end of an
    /// axis, a translation begins again at its start, shifted along other axes.
    ///
    /// `None` if it has none, is too large, or its links differ by direction.
    pub fn of(network: &Network, sizes: &[usize]) -> Option<Translations> {
        let nodes = network.nodes;
        if nodes < 2 || !network.is_small() || sizes.iter().product::<usize>() != nodes {
            return None;
        }
        let mut capacities = vec![vec![0; nodes]; nodes];
        network.links.iter().for_each(|link| capacities[link.from][link.to] += link.capacity);
        let is_kept = |image: &Vec<usize>| {
            let capacity = |from: usize, to: usize| capacities[from][to];
            network.links.iter().all(|link| capacity(image[link.from], image[link.to]) == capacity(link.from, link.to))
        };
        let strides: Vec<usize> = (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product()).collect();
        let composed = |first: &[usize], then: &[usize]| first.iter().map(|node| then[*node]).collect_vec();
        // The translations by one along the axes so far, and the group that they generate.
        let mut units: Vec<Option<Vec<usize>>> = vec![None; sizes.len()];
        let mut known = vec![(0..nodes).collect_vec()];
        while let Some((axis, unit)) = (0..sizes.len()).filter(|axis| units[*axis].is_none()).find_map(|axis| {
            let (stride, size) = (strides[axis], sizes[axis]);
            let unit = |shift: &Vec<usize>| {
                let next = |node: usize| match node / stride % size == size - 1 {
                    true => shift[node + stride - size * stride],
                    false => node + stride,
                };
                (0..nodes).map(next).collect_vec()
            };
            known.iter().map(unit).find(is_kept).map(|unit| (axis, unit))
        }) {
            let mut more = known.clone();
            for _ in 1..sizes[axis] {
                known = known.iter().map(|image| composed(image, &unit)).collect();
                more.extend(known.iter().cloned());
            }
            (known, units[axis]) = (more, Some(unit));
        }
        let units = units.into_iter().collect::<Option<Vec<_>>>()?;
        let commute = |[one, two]: [&Vec<usize>; 2]| composed(one, two) == composed(two, one);
        if !units.iter().array_combinations().all(commute) {
            return None;
        }
        let mut images = vec![Vec::new(); nodes];
        let mut negative = vec![0; nodes];
        for image in known {
            let to = image[0];
            negative[to] = image.iter().position(|node| *node == 0)?;
            images[to] = image;
        }
        let steps = (0..nodes).filter(|node| capacities[0][*node] > 0).map(|node| (node, capacities[0][node]));
        let steps = steps.collect_vec();
        let is_even = steps.iter().all(|(node, capacity)| capacities[0][negative[*node]] == *capacity);
        is_even.then_some(Translations { images, negative, steps })
    }

    /// The translations of a ring in one direction.
    ///
    /// - `order`: its nodes from node 0 on, of which there are at least two.
    pub fn around(order: &[usize]) -> Translations {
        let nodes = order.len();
        let mut place = vec![0; nodes];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        let image = |by: usize| (0..nodes).map(|node| order[(place[node] + place[by]) % nodes]).collect();
        let negative = (0..nodes).map(|node| order[(nodes - place[node]) % nodes]).collect();
        Translations { images: (0..nodes).map(image).collect(), negative, steps: vec![(order[1], 1)] }
    }

    /// Whether node 0 has links in several directions.
    pub fn branches(&self) -> bool {
        self.steps.len() > 1
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.images.len()
    }

    /// What the translation to one node makes of another.
    pub fn sum(&self, one: usize, two: usize) -> usize {
        self.images[one][two]
    }

    /// The node whose sum with the second one is the first.
    pub fn difference(&self, one: usize, two: usize) -> usize {
        self.sum(one, self.negative[two])
    }

    /// The distance of each node from node 0, in links; `None` if one cannot be reached.
    fn distances(&self) -> Option<Vec<usize>> {
        let mut distances = vec![None; self.nodes()];
        distances[0] = Some(0);
        let mut open = VecDeque::from([(0, 0)]);
        while let Some((node, distance)) = open.pop_front() {
            for (step, _) in &self.steps {
                let next = self.sum(node, *step);
                if distances[next].is_none() {
                    distances[next] = Some(distance + 1);
                    open.push_back((next, distance + 1));
                }
            }
        }
        distances.into_iter().collect()
    }

    /// The capacity of each direction.
    fn capacities(&self) -> Vec<u64> {
        self.steps.iter().map(|(_, capacity)| *capacity).collect()
    }

    /// The steps that may come last on a shortest path to a node, by their place.
    fn last(&self, node: usize, distances: &[usize]) -> Vec<usize> {
        let is_last = |step: &usize| distances[self.difference(node, self.steps[*step].0)] < distances[node];
        (0..self.steps.len()).filter(is_last).collect()
    }

    /// The smallest number of trees, up to a limit, that together load the links nearly alike: at most 1/128 more than if each
    /// carried its share.
    ///
    /// `None` if a node cannot be reached.
    pub fn even(&self, most: usize) -> Option<usize> {
        let total: u64 = self.steps.iter().map(|(_, capacity)| capacity).sum();
        // The most loaded direction, by the number of blocks for which its capacity would do.
        let load = |count: usize| {
            let trees = self.trees(count)?;
            let uses = |step: usize| trees.iter().flatten().filter(|branch| branch.step == step).count() as u64;
            self.steps.iter().map(|(step, capacity)| uses(*step) * total / capacity).max()
        };
        let loads = (1..=most).map(load).collect::<Option<Vec<u64>>>()?;
        let share = |count: u64| count * (self.nodes() as u64 - 1);
        let is_even = |(load, count): &(u64, u64)| *load <= share(*count) + share(*count) / 128;
        let all = loads.into_iter().zip(1u64..);
        let best = all
            .clone()
            .find(is_even)
            .or_else(|| all.min_by(|(load, count), (other, more)| (load * more).cmp(&(other * count))));
        best.and_then(|(_, count)| usize::try_from(count).ok())
    }

    /// Trees of shortest paths from node 0 that together have, in proportion to their capacity, as many links of each
    /// direction as possible. The links of each come in the order in which they are used.
    ///
    /// `None` if a node cannot be reached.
    pub fn trees(&self, count: usize) -> Option<Vec<Vec<Branch>>> {
        let distances = self.distances()?;
        // Each link of each tree, with the steps by which its node can be reached.
        let links: Vec<(usize, usize)> = (0..count).cartesian_product(1..self.nodes()).collect();
        let choices = links.iter().map(|(_, node)| self.last(*node, &distances)).collect_vec();
        let chosen = balanced(&choices, &self.capacities());
        let mut trees = vec![Vec::new(); count];
        for ((tree, node), step) in links.into_iter().zip(chosen) {
            let step = self.steps[step].0;
            trees[tree].push(Branch { parent: self.difference(node, step), node, step });
        }
        for tree in &mut trees {
            tree.sort_by_key(|branch| distances[branch.node]);
            let mut below = vec![1usize; self.nodes()];
            tree.iter().rev().for_each(|branch| below[branch.parent] += below[branch.node]);
            tree.sort_by_key(|branch| (distances[branch.node], Reverse(below[branch.node])));
        }
        Some(trees)
    }
}

/// # Exchanges
impl Translations {
    /// A shortest path from node 0 to each node, as steps. Paths of many nodes take different directions, both in total and
    /// in each place: all directions are used alike at any time.
    ///
    /// `None` if a node cannot be reached.
    pub fn paths(&self) -> Option<Vec<Vec<usize>>> {
        let distances = self.distances()?;
        let mut loads = vec![0u64; self.steps.len()];
        let mut paths = vec![Vec::new(); self.nodes()];
        let last = |node: usize| self.last(node, &distances);
        let capacities = self.capacities();
        let far = distances.iter().copied().max().unwrap_or_default();
        let mut places = vec![vec![0u64; self.steps.len()]; far];
        let least = |loads: &[u64], steps: &[usize]| {
            let more = |step: usize| (loads[step] + 1, step);
            steps.iter().copied().min_by(|one, two| compared(&capacities, more(*one), more(*two)))
        };
        // Nodes that are reached in one way only come first.
        for node in (1..self.nodes()).sorted_by_key(|node| (last(*node).len(), distances[*node])) {
            let (mut at, mut steps) = (node, Vec::new());
            while let Some(step) = least(&loads, &last(at)) {
                loads[step] += 1;
                steps.push(step);
                at = self.difference(at, self.steps[step].0);
            }
            for place in &mut places[..steps.len()] {
                let step = least(place, &steps).expect("one for each place");
                place[step] += 1;
                steps.remove(steps.iter().position(|other| *other == step).expect("one of them"));
                paths[node].push(self.steps[step].0);
            }
        }
        Some(paths)
    }
}

/// Compares the loads of two directions, each given with its place, in proportion to their capacities.
fn compared(capacities: &[u64], (load, at): (u64, usize), (other, to): (u64, usize)) -> Ordering {
    let [load, other] = [(load, to), (other, at)].map(|(load, at)| u128::from(load) * u128::from(capacities[at]));
    load.cmp(&other)
}

/// A choice for each item that spreads the items over the choices in proportion to their capacities.
pub(super) fn balanced(items: &[Vec<usize>], capacities: &[u64]) -> Vec<usize> {
    let mut loads = vec![0u64; capacities.len()];
    let compare = |one, two| compared(capacities, one, two);
    let mut chosen = vec![0; items.len()];
    for item in (0..items.len()).sorted_by_key(|item| items[*item].len()) {
        let least =
            items[item].iter().copied().min_by(|one, two| compare((loads[*one] + 1, *one), (loads[*two] + 1, *two)));
        chosen[item] = least.expect("each item has a choice");
        loads[chosen[item]] += 1;
    }
    // Items move from the most loaded choice to others, one after the other, until that lowers no maximum.
    while let Some(most) = (0..loads.len()).max_by(|one, two| compare((loads[*one], *one), (loads[*two], *two))) {
        let mut from: Vec<Option<usize>> = vec![None; loads.len()];
        let mut open = VecDeque::from([most]);
        let mut end = None;
        while let (None, Some(at)) = (end, open.pop_front()) {
            for item in (0..items.len()).filter(|item| chosen[*item] == at) {
                for to in items[item].iter().copied().filter(|to| *to != most) {
                    if from[to].is_none() {
                        from[to] = Some(item);
                        open.push_back(to);
                        if compare((loads[to] + 1, to), (loads[most], most)) == Ordering::Less {
                            end = end.or(Some(to));
                        }
                    }
                }
            }
        }
        let Some(mut to) = end else { break };
        loads[to] += 1;
        loads[most] -= 1;
        while to != most {
            let item = from[to].expect("on the way from the most loaded one");
            (to, chosen[item]) = (chosen[item], to);
        }
    }
    chosen
}
