//! The heaviest of all sets of devices, by exhaustive search.
//!
//! Sets are enumerated in Gray-code order, one node at a time, so a set costs the changes of its last node,
//! independent of the size of the graph.

use super::demand::Demand;
use super::graph::{Graph, Link};
use super::load::Load;
use std::collections::BTreeSet;

/// Limit on devices for exhaustive search.
const MOST_DEVICES: usize = 16;

/// Limit on devices and enumerated switches.
const MOST_NODES: usize = 20;

/// The heaviest set, the first of equals; `None` if there are too many sets.
pub(super) fn heaviest(graph: &Graph, demand: &Demand) -> Option<u32> {
    if graph.devices() > MOST_DEVICES {
        return None;
    }
    let tried: Vec<usize> = between(graph).into_iter().chain(0..graph.devices()).collect();
    if tried.len() > MOST_NODES {
        return None;
    }
    let mut walk = Walk::new(graph, demand, &tried);
    let mut best = (Load::NONE, 0);
    for step in 1u32..1 << tried.len() {
        walk.flip(tried[step.trailing_zeros() as usize]);
        let (load, devices) = (Load::new(walk.entering, walk.border), walk.devices);
        if load > best.0 || load == best.0 && devices < best.1 {
            best = (load, devices);
        }
    }
    Some(best.1)
}

/// Switches whose removal leaves no two switches joined: each of the others then goes to the cheaper side
/// independently.
fn between(graph: &Graph) -> Vec<usize> {
    let mut joints: Vec<(usize, usize)> = graph.links().map(|link| (link.from, link.to)).collect();
    joints.retain(|(from, to)| *from.min(to) >= graph.devices());
    let mut chosen = Vec::new();
    loop {
        let joined = |switch: usize| joints.iter().filter(|(from, to)| *from == switch || *to == switch).count();
        // The switch with the most links to other switches, the first of equals.
        let most = (graph.devices()..graph.nodes()).rev().max_by_key(|switch| joined(*switch));
        match most {
            Some(switch) if joined(switch) > 0 => {
                joints.retain(|(from, to)| *from != switch && *to != switch);
                chosen.push(switch);
            }
            Some(_) | None => return chosen,
        }
    }
}

/// A set of nodes under enumeration.
struct Walk {
    /// Members, as bits.
    devices: u32,
    /// Weight of the pieces that must enter.
    entering: u128,
    /// The least capacity into it, with free switches on the cheaper side.
    border: u128,
    inside: Vec<bool>,
    is_tried: Vec<bool>,
    links_of: Vec<Vec<(Link, u128)>>,
    /// For each node the adjacent free switches.
    switches_of: Vec<BTreeSet<usize>>,
    /// For each device the pieces it needs or contributes to.
    touches: Vec<BTreeSet<usize>>,
    /// For each device the pieces it needs.
    needs: Vec<Vec<usize>>,
    /// For each device its contributions, as a piece and a place in `held`.
    holds: Vec<Vec<(usize, usize)>>,
    /// How many devices inside hold each contribution of a piece.
    held: Vec<usize>,
    pieces: Vec<State>,
}

/// What is inside of a piece.
#[derive(Clone, Copy)]
struct State {
    /// Devices that need it.
    needers: usize,
    /// Contributions that no device inside holds.
    missing: usize,
    /// Its weight.
    weight: u64,
}

impl State {
    fn must_enter(self) -> bool {
        self.needers > 0 && self.missing > 0
    }
}

impl Walk {
    /// Starts with the empty set.
    fn new(graph: &Graph, demand: &Demand, tried: &[usize]) -> Walk {
        let nodes = graph.nodes();
        let mut walk = Walk {
            devices: 0,
            entering: 0,
            border: 0,
            inside: vec![false; nodes],
            is_tried: vec![false; nodes],
            links_of: vec![Vec::new(); nodes],
            switches_of: vec![BTreeSet::new(); nodes],
            touches: vec![BTreeSet::new(); graph.devices()],
            needs: vec![Vec::new(); graph.devices()],
            holds: vec![Vec::new(); graph.devices()],
            held: Vec::new(),
            pieces: Vec::with_capacity(demand.pieces.len()),
        };
        tried.iter().for_each(|node| walk.is_tried[*node] = true);
        for link in graph.links() {
            let capacity = graph.capacity(link);
            walk.links_of[link.from].push((link, capacity));
            walk.links_of[link.to].push((link, capacity));
            for (node, other) in [(link.from, link.to), (link.to, link.from)] {
                if !walk.is_tried[other] {
                    walk.switches_of[node].insert(other);
                }
            }
        }
        for (number, piece) in demand.pieces.iter().enumerate() {
            piece.needers.iter().for_each(|device| walk.needs[*device].push(number));
            for holders in &piece.contributions {
                holders.iter().for_each(|device| walk.holds[*device].push((number, walk.held.len())));
                walk.held.push(0);
            }
            for device in piece.needers.iter().chain(piece.contributions.iter().flatten()) {
                walk.touches[*device].insert(number);
            }
            walk.pieces.push(State { needers: 0, missing: piece.contributions.len(), weight: piece.weight });
        }
        walk
    }

    /// A node moves in, or out.
    fn flip(&mut self, node: usize) {
        self.border -= self.border_beside(node);
        self.inside[node] ^= true;
        self.border += self.border_beside(node);
        if node >= self.needs.len() {
            return;
        }
        self.devices ^= 1 << node;
        self.entering -= self.entering_beside(node);
        let now_inside = self.inside[node];
        let count = |count: usize, up: bool| if up { count + 1 } else { count - 1 };
        for piece in &self.needs[node] {
            let state = &mut self.pieces[*piece];
            state.needers = count(state.needers, now_inside);
        }
        for (piece, contribution) in &self.holds[node] {
            let (held, state) = (&mut self.held[*contribution], &mut self.pieces[*piece]);
            let before = *held;
            *held = count(before, now_inside);
            if before == 0 || *held == 0 {
                state.missing = count(state.missing, !now_inside);
            }
        }
        self.entering += self.entering_beside(node);
    }

    /// Weight of the pieces that must enter and of which this device needs or holds something.
    fn entering_beside(&self, device: usize) -> u128 {
        let pieces = self.touches[device].iter().map(|piece| self.pieces[*piece]);
        pieces.filter(|piece| piece.must_enter()).map(|piece| u128::from(piece.weight)).sum()
    }

    /// The capacity into the set over the links of this node, and through the switches next to it.
    fn border_beside(&self, node: usize) -> u128 {
        let links = self.links_of[node].iter();
        let into = links.filter(|(link, _)| self.inside[link.to] && !self.inside[link.from]);
        let tried = into.filter(|(link, _)| self.is_tried[link.from] && self.is_tried[link.to]);
        let through = self.switches_of[node].iter().map(|switch| self.through(*switch));
        tried.map(|(_, capacity)| *capacity).chain(through).sum()
    }

    /// The capacity through a switch from outside to inside.
    fn through(&self, switch: usize) -> u128 {
        let (mut from_outside, mut to_inside) = (0, 0);
        for (link, capacity) in &self.links_of[switch] {
            if link.to == switch && !self.inside[link.from] {
                from_outside += capacity;
            } else if link.from == switch && self.inside[link.to] {
                to_inside += capacity;
            }
        }
        u128::min(from_outside, to_inside)
    }
}
