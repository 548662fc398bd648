//! Bounds on large graphs, where a search for the heaviest set takes too long: from single devices, and from devices that
//! are near each other.
//!
//! The sets are each device, all devices but one, the devices of each position in the group, and those within each
//! distance of a switch, such as a node or a pod, with what remains. Sets of one distance and size that make up all
//! devices are partitions for the bound of an AllReduce. Switches are on the side where they cost less, one by one: any
//! side gives a bound.

use super::demand::{Demand, Piece};
use super::graph::{Graph, Length};
use super::load::{Cut, Load};
use super::partitions::Parts;
use crate::units::Time;
use itertools::Itertools;
use std::collections::BTreeSet;

/// Most passes over the switches.
const PASSES: usize = 8;

/// The heaviest of the sets.
pub(super) fn heaviest(graph: &Graph, demand: &Demand) -> Option<Cut> {
    let (into, out_of) = of_single_devices(graph.devices(), demand);
    let single = |device: usize| (0..graph.devices()).map(move |other| other == device);
    let alone = (0..graph.devices()).flat_map(|device| {
        let inside = with_switches(graph, nodes(graph, single(device).collect()));
        let outside = with_switches(graph, nodes(graph, single(device).map(|is_it| !is_it).collect()));
        [cut(graph, inside, into[device]), cut(graph, outside, out_of[device])]
    });
    let sets = sets(graph, demand).into_iter().map(|set| {
        let inside = with_switches(graph, set);
        let pieces = demand.entering(&inside);
        cut(graph, inside, pieces)
    });
    // Of equal ones the first.
    alone.chain(sets).reduce(|best, next| if next.load > best.load { next } else { best })
}

fn cut(graph: &Graph, inside: Vec<bool>, pieces: u128) -> Cut {
    let load = Load::new(pieces, graph.capacity_into(&inside));
    Cut { inside, load }
}

/// For each device, the pieces that must enter it, and those that must enter the rest.
fn of_single_devices(devices: usize, demand: &Demand) -> (Vec<u128>, Vec<u128>) {
    let (mut into, mut out_of) = (vec![0; devices], vec![0; devices]);
    for piece in &demand.pieces {
        for device in &piece.needers {
            let lacks = piece.contributions.iter().any(|holders| !holders.contains(device));
            into[*device] += u128::from(lacks) * u128::from(piece.weight);
        }
        let only: BTreeSet<usize> =
            piece.contributions.iter().filter(|holders| holders.len() == 1).flatten().copied().collect();
        for device in only {
            let leaves = piece.needers.iter().any(|needer| *needer != device);
            out_of[device] += u128::from(leaves) * u128::from(piece.weight);
        }
    }
    (into, out_of)
}

/// Sets of several devices and switches, each with its complement; one entry per node.
fn sets(graph: &Graph, demand: &Demand) -> BTreeSet<Vec<bool>> {
    let of =
        |devices: &Vec<usize>| nodes(graph, (0..graph.devices()).map(|device| devices.contains(&device)).collect());
    let by_position = demand.places.iter().chain(&demand.ranks).map(of);
    let all = balls(graph).into_iter().map(|(_, ball)| ball).chain(by_position);
    let both = all.flat_map(|set: Vec<bool>| [set.iter().map(|inside| !inside).collect(), set]);
    both.filter(|set| (2..graph.devices()).contains(&size(graph, set))).collect()
}

/// The capacity of the links into some devices, with the switches that cost less beside them.
pub(super) fn capacity_into(graph: &Graph, devices: Vec<bool>) -> u128 {
    graph.capacity_into(&with_switches(graph, nodes(graph, devices)))
}

/// Number of devices in a set.
fn size(graph: &Graph, set: &[bool]) -> usize {
    set[..graph.devices()].iter().filter(|inside| **inside).count()
}

/// Some devices, and all switches if these are most devices.
fn nodes(graph: &Graph, devices: Vec<bool>) -> Vec<bool> {
    let mut set = devices;
    let most = 2 * size(graph, &set) > graph.devices();
    set.resize(graph.nodes(), most);
    set
}

/// The devices within each distance of each switch, by latency and in links, and the switches that are nearer; with the
/// distance.
fn balls(graph: &Graph) -> BTreeSet<(Time, Vec<bool>)> {
    let around = |(switch, length): (usize, Length)| {
        let far = graph.distances(&[switch], length).iter().map(|far| far.unwrap_or(Time::MAX)).collect_vec();
        let radii: BTreeSet<Time> = far[..graph.devices()].iter().copied().collect();
        let is_device = |node: usize| node < graph.devices();
        let ball = move |radius: Time| {
            let inside = |(node, far): (usize, &Time)| *far < radius || is_device(node) && *far == radius;
            (radius, far.iter().enumerate().map(inside).collect())
        };
        radii.into_iter().map(ball)
    };
    let switches = graph.devices()..graph.nodes();
    switches.cartesian_product([Length::Latency, Length::Links(None)]).flat_map(around).collect()
}

/// The same devices with the switches that cost less inside than outside.
fn with_switches(graph: &Graph, set: Vec<bool>) -> Vec<bool> {
    let mut inside = set;
    for _ in 0..PASSES {
        let mut changed = false;
        for switch in graph.devices()..graph.nodes() {
            let [out, into] = [false, true].map(|to_inside| graph.capacity_through(switch, &inside, to_inside));
            let is_inside = out < into || out == into && inside[switch];
            changed |= std::mem::replace(&mut inside[switch], is_inside) != is_inside;
        }
        if !changed {
            break;
        }
    }
    inside
}

/// The heaviest partition of the devices into single ones, or into sets that are near each other.
pub(super) fn heaviest_parts(graph: &Graph, demand: &Demand) -> Option<Parts> {
    let single = (0..graph.devices()).collect_vec();
    let found = partitions(graph).into_iter().chain([single]).map(|part| parts(graph, demand, part));
    found.reduce(|best, next| if next.load > best.load { next } else { best })
}

/// Partitions into sets within one distance of switches, of one size; the part of each device.
fn partitions(graph: &Graph) -> Vec<Vec<usize>> {
    let balls = balls(graph).into_iter().map(|(radius, ball)| ((radius, size(graph, &ball)), ball)).into_group_map();
    let partition = |balls: Vec<Vec<bool>>| {
        let mut part = vec![None; graph.devices()];
        for (number, ball) in balls.iter().enumerate() {
            let own = || (0..graph.devices()).filter(|device| ball[*device]);
            if own().all(|device| part[device].is_none()) {
                own().for_each(|device| part[device] = Some(number));
            }
        }
        part.into_iter().collect::<Option<Vec<usize>>>()
    };
    balls
        .into_iter()
        .sorted()
        .filter_map(|(_, balls)| partition(balls))
        .filter(|part| !part.iter().all_equal())
        .collect()
}

/// The sends between these parts, over the capacity that leaves them.
///
/// Contributions in `p` parts take `p - 1` sends until one part has their sum, and one for each other part that needs it.
fn parts(graph: &Graph, demand: &Demand, part: Vec<usize>) -> Parts {
    let sends = |piece: &Piece| {
        let alone = piece.contributions.iter().filter(|holders| holders.iter().map(|device| part[*device]).all_equal());
        let contributed = alone.filter_map(|holders| Some(part[*holders.first()?])).unique().count();
        let needed = piece.needers.iter().map(|device| part[*device]).unique().count();
        (contributed.saturating_sub(1) + needed.saturating_sub(1)) as u128
    };
    let numbers: BTreeSet<usize> = part.iter().copied().collect();
    let leaving = |number: &usize| capacity_into(graph, part.iter().map(|own| own != number).collect());
    let load = Load::new(demand.pieces.iter().map(sends).sum(), numbers.iter().map(leaving).sum());
    Parts { count: numbers.len(), part, load }
}
