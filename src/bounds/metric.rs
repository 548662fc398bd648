//! Average link traffic: bytes times distance over the capacity of the links, for several distance measures.
//!
//! Given lengths of links, each piece loads links by at least its distance. Length 1 on the links along one axis and 0
//! elsewhere gives the bound of an AllToAll on rings and lines.

use super::demand::Demand;
use super::graph::{Distances, Graph, Length};
use super::load::Load;
use crate::mesh::AxisId;
use crate::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The links that a measure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// All links of one axis.
    Axis(AxisId),
    /// All links.
    All,
}

impl Measure {
    fn axis(self) -> Option<AxisId> {
        match self {
            Measure::Axis(axis) => Some(axis),
            Measure::All => None,
        }
    }
}

/// The measure with the heaviest load, and the capacity it counts.
pub(super) fn heaviest(graph: &Graph, demand: &Demand) -> Option<(Measure, Load)> {
    let measures: BTreeSet<Measure> =
        graph.links().filter_map(|link| link.axis).map(Measure::Axis).chain([Measure::All]).collect();
    let loads = measures.into_iter().map(|measure| (measure, load(graph, demand, measure)));
    loads.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn load(graph: &Graph, demand: &Demand, measure: Measure) -> Load {
    let axis = measure.axis();
    let crossed = farthest(graph, demand, Length::Links(axis))
        .iter()
        .zip(&demand.pieces)
        .map(|(far, piece)| far.map_or(u128::from(u32::MAX), Time::ticks).saturating_mul(u128::from(piece.weight)))
        .sum();
    let counted = graph.links().filter(|link| axis.is_none() || link.axis == axis);
    Load::new(crossed, counted.map(|link| graph.capacity(link)).sum())
}

/// The distance of each piece to its farthest destination; `None` without a path.
fn farthest(graph: &Graph, demand: &Demand, length: Length) -> Vec<Option<Time>> {
    let mut known: BTreeMap<&[usize], Distances> = BTreeMap::new();
    let mut of_pieces = Vec::with_capacity(demand.pieces.len());
    for piece in &demand.pieces {
        let mut far = Some(Time::ZERO);
        for holders in &piece.contributions {
            let from = known.entry(holders).or_insert_with(|| graph.distances(holders, length));
            let ways = piece.needers.iter().map(|device| from[*device]);
            far = ways.fold(far, |far, way| Some(far?.max(way?)));
        }
        of_pieces.push(far);
    }
    of_pieces
}

/// The time of an empty message over the longest required path.
pub(super) fn latency(graph: &Graph, demand: &Demand) -> Time {
    let ways = farthest(graph, demand, Length::Latency);
    ways.into_iter().map(|way| way.unwrap_or(Time::MAX)).max().unwrap_or_default()
}
