//! Bounds on any graph: minimum cuts, partitions of a group, and mean distances.

use super::cuts::Effort;
use super::demand::Demand;
use super::graph::Graph;
use super::load::{Cut, Load, Units};
use super::metric::Measure;
use super::reason::{Reason, Region, name_devices};
use super::{Bound, Certificate, cuts, metric, nearby, partitions};
use crate::mesh::{DeviceId, Mesh};
use crate::units::{Bytes, TimeScale, gcd};

/// Limit on devices for minimum cuts.
pub const MOST_DEVICES: usize = 64;

/// The quantity a load counts.
enum Counted {
    Cut(Cut),
    Parts(partitions::Parts),
    Measure(Measure),
}

/// The bound of a demand on a graph; `mesh` names the devices.
///
/// Infinite if some piece has no path.
pub fn certificate(graph: &Graph, demand: &Demand, mesh: &Mesh, scale: TimeScale) -> Certificate {
    if demand.pieces.is_empty() || demand.bytes == 0 {
        return Certificate { bound: Bound::default(), reason: Reason::Nothing, largest: true };
    }
    let units = Units { bytes: demand.bytes, divisor: demand.divisor, rate: graph.rate() };
    let effort = if is_large(graph) { Effort::Nearby } else { Effort::AllSets };
    let (load, counted, largest) = heaviest(graph, demand, effort);
    let bound =
        Bound { latency: metric::latency(graph, demand), bandwidth: load.time(units, scale), ..Bound::default() };
    let reason = match counted {
        _ if bound.latency > bound.bandwidth => Reason::Hops,
        None => Reason::Nothing,
        Some(Counted::Cut(cut)) => Reason::Into(region(graph, demand, &cut, mesh, units)),
        Some(Counted::Parts(parts)) => {
            let between = graph.links().filter(|link| parts.part.get(link.from) != parts.part.get(link.to));
            let parts_of = parts.count as u64;
            let single = parts.count == graph.devices();
            Reason::Between { sends: 2 * (parts_of - 1), parts: parts_of, single, links: between.count() as u64 }
        }
        Some(Counted::Measure(measure)) => {
            let (links, rate) = match measure {
                Measure::Axis(axis) => {
                    (format!("the links along {}", mesh.axis(axis).name), mean_rate(graph, Some(axis)))
                }
                Measure::All => ("all links".to_owned(), mean_rate(graph, None)),
            };
            Reason::Along { links, each: bytes(load.pieces.saturating_mul(rate), load.capacity, units) }
        }
    };
    Certificate { bound, reason, largest }
}

/// A faster bound without a reason; it may be lower where all sets would have to be tried.
pub(super) fn bound(graph: &Graph, demand: &Demand, scale: TimeScale) -> Bound {
    bound_by(if is_large(graph) { Effort::Nearby } else { Effort::LeastCuts }, graph, demand, scale)
}

/// The bound that large graphs have, from devices that are near each other: at most that of all sets.
pub fn nearby(graph: &Graph, demand: &Demand, scale: TimeScale) -> Bound {
    bound_by(Effort::Nearby, graph, demand, scale)
}

/// Whether minimum cuts take too long.
fn is_large(graph: &Graph) -> bool {
    graph.devices() > MOST_DEVICES
}

fn bound_by(effort: Effort, graph: &Graph, demand: &Demand, scale: TimeScale) -> Bound {
    if demand.pieces.is_empty() || demand.bytes == 0 {
        return Bound::default();
    }
    let units = Units { bytes: demand.bytes, divisor: demand.divisor, rate: graph.rate() };
    let (load, _, _) = heaviest(graph, demand, effort);
    Bound { latency: metric::latency(graph, demand), bandwidth: load.time(units, scale), ..Bound::default() }
}

/// The heaviest load, its kind, and whether it is proven heaviest.
fn heaviest(graph: &Graph, demand: &Demand, effort: Effort) -> (Load, Option<Counted>, bool) {
    let mut best = (Load::NONE, None);
    let mut keep = |load: Load, counted: Counted| {
        if load > best.0 {
            best = (load, Some(counted));
        }
    };
    let parts = || match effort {
        Effort::Nearby => nearby::heaviest_parts(graph, demand),
        Effort::LeastCuts | Effort::AllSets => partitions::heaviest(graph, demand),
    };
    if demand.reduces_to_all
        && let Some(parts) = parts()
    {
        keep(parts.load, Counted::Parts(parts));
    }
    let (cut, largest) = cuts::heaviest(graph, demand, effort);
    let largest = largest && !(demand.reduces_to_all && partitions::may_miss(graph, demand));
    if let Some(cut) = cut {
        keep(cut.load, Counted::Cut(cut));
    }
    if let Some((measure, load)) = metric::heaviest(graph, demand) {
        keep(load, Counted::Measure(measure));
    }
    (best.0, best.1, largest)
}

/// The mean capacity of the links along an axis, or of all, in units; rounded down, for display.
fn mean_rate(graph: &Graph, axis: Option<crate::mesh::AxisId>) -> u128 {
    let links = graph.links().filter(|link| axis.is_none() || link.axis == axis);
    let (count, sum) = links.fold((0u128, 0u128), |(count, sum), link| (count + 1, sum + graph.capacity(link)));
    sum / count.max(1)
}

fn region(graph: &Graph, demand: &Demand, cut: &Cut, mesh: &Mesh, units: Units) -> Region {
    let inside: Vec<DeviceId> = mesh.devices().filter(|device| cut.inside[device.index()]).collect();
    let links = graph.links().filter(|link| cut.inside[link.to] && !cut.inside[link.from]).count();
    let pieces = cut.load.pieces;
    // V in pieces: full / (bytes / divisor).
    let (above, below) = (pieces.saturating_mul(demand.bytes), demand.full.saturating_mul(demand.divisor));
    let divisor = gcd(above, below).max(1);
    Region {
        devices: name_devices(mesh, &inside),
        single: inside.len() == 1,
        bytes: bytes(pieces, 1, units),
        share: (demand.groups == 1).then_some((above / divisor, below / divisor)),
        links: links as u64,
    }
}

/// Pieces as bytes, rounded down.
fn bytes(pieces: u128, divisor: u128, units: Units) -> Bytes {
    let below = units.divisor.saturating_mul(divisor).max(1);
    Bytes(u64::try_from(pieces.saturating_mul(units.bytes) / below).unwrap_or(u64::MAX))
}
