//! The partition bound: an AllReduce takes 2(p-1) sends of every element between any p parts of a group.
//!
//! For one guess of capacity per send, the best partition is a Dilworth truncation of the capacity leaving a set, found
//! by one minimum cut per device (Cunningham; Barahona); the partition found gives the next guess. Source of the bound:
//! Patarasuk and Yuan (2009).

use super::demand::Demand;
use super::graph::{Graph, UNLIMITED};
use super::load::Load;

/// A partition of the groups and its sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The part of each device.
    pub part: Vec<usize>,
    /// Number of parts.
    pub count: usize,
    /// Sends over the capacity that leaves the parts.
    pub load: Load,
}

/// The heaviest partition; `None` if there is one place.
///
/// A part has the devices of the same places of all groups, with their replicas.
pub(super) fn heaviest(graph: &Graph, demand: &Demand) -> Option<Parts> {
    let places = &demand.places;
    if places.len() < 2 {
        return None;
    }
    let mut best = parts(graph, demand, (0..places.len()).map(|place| vec![place]).collect());
    loop {
        let found = truncation(graph, places, leaving(graph, places, &best), best.count as u128 - 1);
        if found.len() < 2 {
            return Some(best);
        }
        let found = parts(graph, demand, found);
        if found.load <= best.load {
            return Some(best);
        }
        best = found;
    }
}

/// Whether other partitions may be heavier: those that separate copies or share switch links.
pub(super) fn may_miss(graph: &Graph, demand: &Demand) -> bool {
    let copies = demand.places.iter().any(|devices| devices.len() > demand.groups);
    let joined_switches = graph.links().any(|link| link.from.min(link.to) >= graph.devices());
    copies || joined_switches
}

fn parts(graph: &Graph, demand: &Demand, of: Vec<Vec<usize>>) -> Parts {
    let mut part = vec![0; graph.devices()];
    for (number, places) in of.iter().enumerate() {
        places.iter().flat_map(|place| &demand.places[*place]).for_each(|device| part[*device] = number);
    }
    let sends = 2 * (of.len() as u128 - 1) * demand.pieces.len() as u128;
    let mut parts = Parts { part, count: of.len(), load: Load::NONE };
    parts.load = Load::new(sends, leaving(graph, &demand.places, &parts));
    parts
}

/// The capacity leaving the parts, each by its minimum cut from the others: switches belong to no part.
fn leaving(graph: &Graph, places: &[Vec<usize>], parts: &Parts) -> u128 {
    let devices = || places.iter().flatten();
    if graph.nodes() == graph.devices() {
        let between = graph.links().filter(|link| parts.part[link.from] != parts.part[link.to]);
        return between.map(|link| graph.capacity(link)).sum();
    }
    let out_of = |part: usize| {
        let mut flow = graph.flow(1);
        let (source, sink) = (flow.add_node(), flow.add_node());
        for device in devices() {
            if parts.part[*device] == part {
                flow.add(source, *device, UNLIMITED);
            } else {
                flow.add(*device, sink, UNLIMITED);
            }
        }
        flow.send(source, sink, u128::MAX)
    };
    (0..parts.count).map(out_of).sum()
}

/// The partition of the places with the smallest sum of `sends * leaving(part) - capacity`.
fn truncation(graph: &Graph, places: &[Vec<usize>], capacity: u128, sends: u128) -> Vec<Vec<usize>> {
    // Increment of each place to the minimum sum so far: (gain, loss), one of them zero.
    let mut added: Vec<(u128, u128)> = Vec::new();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for (place, devices) in places.iter().enumerate() {
        let mut flow = graph.flow(sends);
        let (source, sink) = (flow.add_node(), flow.add_node());
        for device in devices {
            flow.add(source, *device, UNLIMITED);
        }
        for (earlier, (gain, loss)) in added.iter().enumerate() {
            // The devices of one place are on the same side.
            let first = places[earlier][0];
            for device in &places[earlier][1..] {
                flow.add_both_ways(first, *device, UNLIMITED, UNLIMITED);
            }
            flow.add(source, first, (*gain).min(UNLIMITED));
            flow.add(first, sink, (*loss).min(UNLIMITED));
        }
        for later in places[place + 1..].iter().flatten() {
            flow.add(*later, sink, UNLIMITED);
        }
        let above = flow.send(source, sink, u128::MAX);
        let source_side = flow.source_side(source);
        let gains: u128 = added.iter().map(|(gain, _)| gain).sum();
        // The cut counts all gains that are not taken; the truncated value is cut - gains - capacity.
        let below = gains.saturating_add(capacity);
        added.push((above.saturating_sub(below), below.saturating_sub(above)));
        let joined = |part: &Vec<usize>| part.iter().any(|place| source_side[places[*place][0]]);
        let (mut with, apart): (Vec<Vec<usize>>, Vec<Vec<usize>>) = parts.into_iter().partition(joined);
        with.push(vec![place]);
        parts = apart;
        parts.push(with.concat());
    }
    parts
}
