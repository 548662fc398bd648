//! The set of devices with the highest required traffic per capacity of the links into it.
//!
//! For one guess of the ratio the best set is a minimum cut, provided that some devices are known to be inside or
//! outside (an [`Anchor`]): then whether a piece must enter is monotone in the set. The ratio of the set found is the
//! next guess, until no set is better (Newton's method for fractional programs; the result is exact). Source:
//! ForestColl (arXiv 2402.06787) for gathers.

use super::demand::{Demand, Piece};
use super::graph::{Graph, UNLIMITED};
use super::load::{Cut, Load};
use super::{nearby, sets};

/// The devices fixed inside or outside before the search.
#[derive(Clone, Debug, Default)]
struct Anchor {
    inside: Vec<usize>,
    outside: Vec<usize>,
}

/// Handling of cases in which minimum cuts may miss the heaviest set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Take the heaviest set found; used by the planner, which asks for bounds of thousands of moves.
    LeastCuts,
    /// Try all sets, if the graph is small.
    AllSets,
    /// Take the heaviest of the sets that are near each other: for large graphs.
    Nearby,
}

/// The heaviest set found, and whether it is proven heaviest.
pub(super) fn heaviest(graph: &Graph, demand: &Demand, effort: Effort) -> (Option<Cut>, bool) {
    if effort == Effort::Nearby {
        return (nearby::heaviest(graph, demand), false);
    }
    let mut best: Option<Cut> = None;
    for device in 0..graph.devices() {
        for inside in [true, false] {
            keep(&mut best, cut_of(graph, demand, &|other| (other == device) == inside));
        }
    }
    for places in demand.places.iter().chain(&demand.ranks) {
        keep(&mut best, cut_of(graph, demand, &|other| places.contains(&other)));
    }
    let all_found = least_cuts_find_all(demand);
    if !all_found
        && effort == Effort::AllSets
        && let Some(set) = sets::heaviest(graph, demand)
    {
        keep(&mut best, cut_of(graph, demand, &|device| set >> device & 1 == 1));
        return (best, true);
    }
    if !all_found && graph.nodes() > graph.devices() {
        // Least cuts from a single device stop at small sets; those around a switch are often heavier.
        nearby::heaviest(graph, demand).into_iter().for_each(|cut| keep(&mut best, cut));
    }
    for anchor in anchors(demand) {
        improve(graph, demand, &anchor, &mut best);
    }
    (best, all_found)
}

fn keep(best: &mut Option<Cut>, cut: Cut) {
    if best.as_ref().is_none_or(|best| cut.load > best.load) {
        *best = Some(cut);
    }
}

/// The set of these devices, with the switches that minimise its capacity.
fn cut_of(graph: &Graph, demand: &Demand, chosen: &dyn Fn(usize) -> bool) -> Cut {
    let mut inside: Vec<bool> = (0..graph.nodes()).map(|id| id < graph.devices() && chosen(id)).collect();
    let pieces = demand.entering(&inside);
    if pieces == 0 {
        return Cut { inside, load: Load::NONE };
    }
    if graph.links().any(|link| link.from.min(link.to) >= graph.devices()) {
        inside = with_switches(graph, &inside);
    } else {
        // Switches that are not linked to each other: each is placed independently where it costs less.
        for switch in graph.devices()..graph.nodes() {
            inside[switch] =
                graph.capacity_through(switch, &inside, false) < graph.capacity_through(switch, &inside, true);
        }
    }
    let load = Load::new(pieces, graph.capacity_into(&inside));
    Cut { inside, load }
}

/// The same devices with the switches of the minimum cut.
fn with_switches(graph: &Graph, devices: &[bool]) -> Vec<bool> {
    let mut flow = graph.flow(1);
    let (source, sink) = (flow.add_node(), flow.add_node());
    for (device, inside) in devices.iter().enumerate().take(graph.devices()) {
        if *inside {
            flow.add(device, sink, UNLIMITED);
        } else {
            flow.add(source, device, UNLIMITED);
        }
    }
    flow.send(source, sink, u128::MAX);
    flow.sink_side(sink)[..graph.nodes()].to_vec()
}

/// Whether [`anchors`] always lead to the heaviest set: moved data is held and needed by devices of one group only, and
/// reduced data has no replicas.
fn least_cuts_find_all(demand: &Demand) -> bool {
    let one_place_each = demand.places.iter().all(|devices| devices.len() == 1);
    let gathered = demand.pieces.iter().all(|piece| piece.contributions.len() == 1)
        && demand
            .pieces
            .windows(2)
            .all(|pair| (&pair[0].needers, pair[0].weight) == (&pair[1].needers, pair[1].weight));
    demand.groups == 1
        && (gathered || demand.pieces.iter().all(|piece| piece.contributions.len() > 1) && one_place_each)
}

/// Starting anchors of the search; at least one piece must enter or leave each of them.
fn anchors(demand: &Demand) -> Vec<Anchor> {
    let moved = demand.pieces.iter().all(|piece| piece.contributions.len() == 1);
    let inside = |devices: &[usize]| Anchor { inside: devices.to_vec(), outside: Vec::new() };
    let outside = |devices: &[usize]| Anchor { inside: Vec::new(), outside: devices.to_vec() };
    if moved {
        let alone = demand.ranks.iter().filter(|_| demand.groups > 1).flatten().map(|device| inside(&[*device]));
        return demand.ranks.iter().map(|devices| inside(devices)).chain(alone).collect();
    }
    if !demand.reduces_to_all {
        let alone = demand.pieces.iter().filter(|_| demand.groups > 1).map(|piece| outside(&piece.needers));
        return demand.places.iter().map(|devices| outside(devices)).chain(alone).collect();
    }
    // Any set with a device of one place and no device of another. Each place is completely inside or outside.
    let Some((first, rest)) = demand.places.split_first() else {
        return Vec::new();
    };
    let into_first = demand.ranks.iter().filter(|devices| first.contains(&devices[0]));
    let into_first = into_first
        .flat_map(|devices| rest.iter().map(|place| Anchor { inside: devices.clone(), outside: place.clone() }));
    let into_rest = demand.ranks.iter().filter(|devices| !first.contains(&devices[0]));
    let into_rest = into_rest.map(|devices| Anchor { inside: devices.clone(), outside: first.clone() });
    into_first.chain(into_rest).collect()
}

/// Whether a piece must enter a set under an anchor.
enum Entering<'a> {
    /// It must enter.
    Surely,
    /// It must enter unless a device inside holds it.
    UnlessHeld(&'a [usize]),
    /// It must enter if all devices that need it are inside.
    IfAllNeed(&'a [usize]),
    /// It may or may not enter.
    Unknown,
}

fn entering<'a>(piece: &'a Piece, anchor: &Anchor) -> Entering<'a> {
    let needed = piece.needers.iter().any(|device| anchor.inside.contains(device));
    let missing = piece.contributions.iter().any(|holders| holders.iter().all(|h| anchor.outside.contains(h)));
    match (needed, missing, &piece.contributions[..]) {
        (true, true, _) => Entering::Surely,
        (true, false, [holders]) => Entering::UnlessHeld(holders),
        (false, true, _) => Entering::IfAllNeed(&piece.needers),
        (true | false, false, _) => Entering::Unknown,
    }
}

/// Searches for heavier sets with this anchor until there is none.
fn improve(graph: &Graph, demand: &Demand, anchor: &Anchor, best: &mut Option<Cut>) {
    loop {
        let guess = best.as_ref().map_or(Load::NONE, |best| best.load);
        let (cut, could_be) = least_cut(graph, demand, anchor, guess);
        let better = cut.filter(|_| could_be).filter(|cut| cut.load > guess);
        match better {
            Some(cut) => *best = Some(cut),
            None => return,
        }
    }
}

/// The set with the most pieces above the guess, if any.
fn least_cut(graph: &Graph, demand: &Demand, anchor: &Anchor, guess: Load) -> (Option<Cut>, bool) {
    let mut flow = graph.flow(guess.pieces);
    let (source, sink) = (flow.add_node(), flow.add_node());
    for device in &anchor.inside {
        flow.add(*device, sink, UNLIMITED);
    }
    for device in &anchor.outside {
        flow.add(source, *device, UNLIMITED);
    }
    let mut wanted = 0u128;
    for piece in &demand.pieces {
        let weight = u128::from(piece.weight);
        match entering(piece, anchor) {
            Entering::Surely => wanted += weight,
            // If a holder is inside, the piece need not enter, and its cost is cut.
            Entering::UnlessHeld(holders) => {
                wanted += weight;
                let node = flow.add_node();
                flow.add(source, node, weight.saturating_mul(guess.capacity));
                for device in holders {
                    flow.add(node, *device, UNLIMITED);
                }
            }
            // If a device that needs the piece is outside, its cost is cut.
            Entering::IfAllNeed(needers) => {
                wanted += weight;
                let node = flow.add_node();
                flow.add(node, sink, weight.saturating_mul(guess.capacity));
                for device in needers {
                    flow.add(*device, node, UNLIMITED);
                }
            }
            Entering::Unknown => {}
        }
    }
    let better = flow.send(source, sink, u128::MAX) < wanted.saturating_mul(guess.capacity);
    if !better {
        return (None, false);
    }
    let inside = flow.sink_side(sink)[..graph.nodes()].to_vec();
    let load = Load::new(demand.entering(&inside), graph.capacity_into(&inside));
    (Some(Cut { inside, load }), true)
}
