//! The paths around the weak links of a group of devices, for schedules that split their messages among them.
//!
//! A message over a link that is down takes a detour. If all take the same one, a link beside the weak one carries twice
//! its load; split among the neighbours on both sides, it carries one and a half times its load. A slow link keeps the
//! share that takes as long as the rest on the paths around it.

use super::packing;
use crate::mesh::{Axes, Mesh, Wiring};
use crate::schedule::{Detours, Path, WeakLink};
use crate::topology::Topology;
use std::collections::BTreeMap;

/// Most weak links: each adds operations to every exchange that crosses it.
const MOST_LINKS: usize = 16;

/// The weak links of the groups of these axes, with the paths around them: the parallel links of the neighbours along
/// other axes of the group. `None` if there are no weak links, too many, or one without such a path.
pub(super) fn detours(topology: &Topology, axes: Axes) -> Option<Detours> {
    let group = Group::new(topology, axes)?;
    let mut links = Vec::new();
    for (from, to, place) in group.neighbours() {
        let rate = group.rate(from, to);
        if rate == group.full[place] {
            continue;
        }
        let around = group.around(from, to, place);
        let others = around.len() as u64;
        if others == 0 || links.len() == MOST_LINKS {
            return None;
        }
        let mut paths: Vec<Path> =
            around.into_iter().map(|stops| Path { stops, weight: group.full[place] - rate }).collect();
        if rate > 0 {
            paths.push(Path { stops: vec![to], weight: rate * (others + 1) });
        }
        links.push(WeakLink { from, to, paths });
    }
    (!links.is_empty()).then_some(Detours { axes, links })
}

/// The links within a group; where groups differ, the weakest count.
struct Group<'t> {
    topology: &'t Topology,
    axes: Axes,
    rates: BTreeMap<(u32, u32), u64>,
    /// The rate of a healthy link along each axis of the group.
    full: Vec<u64>,
}

impl<'t> Group<'t> {
    fn new(topology: &'t Topology, axes: Axes) -> Option<Group<'t>> {
        let mesh = &topology.mesh;
        // The two links between a pair of devices count as one, and a part of an axis has no links of its own.
        let is_plain = |axis| mesh.size(axis) != 2 && !topology.links(axis).wiring.is_one_hop();
        if mesh.views().next().is_some() || !axes.iter().all(is_plain) {
            return None;
        }
        let number = |node: usize| u32::try_from(node).ok();
        let rate = |link: crate::packing::Link| Some(((number(link.from)?, number(link.to)?), link.capacity));
        let rates = packing::network(topology, axes)?.links.into_iter().map(rate).collect::<Option<_>>()?;
        let mut group = Group { topology, axes, rates, full: vec![0; axes.len()] };
        for (from, to, place) in group.neighbours() {
            group.full[place] = group.full[place].max(group.rate(from, to));
        }
        Some(group)
    }

    fn mesh(&self) -> &'t Mesh {
        &self.topology.mesh
    }

    /// Bytes per second of a link in some unit, 0 if it is down.
    fn rate(&self, from: u32, to: u32) -> u64 {
        self.rates.get(&(from, to)).copied().unwrap_or(0)
    }

    /// The device next to another one, up or down an axis.
    fn beside(&self, rank: u32, place: usize, up: bool) -> Option<u32> {
        let minor = self.axes.iter().skip(place + 1).map(|axis| self.mesh().axis(axis).size).product::<u32>();
        let axis = self.axes.iter().nth(place)?;
        let size = self.mesh().axis(axis).size;
        let here = rank / minor % size;
        let wraps = self.topology.links(axis).wiring == Wiring::Ring;
        let there = match up {
            true if here + 1 < size => here + 1,
            false if here > 0 => here - 1,
            _ if !wraps || size == 1 => return None,
            true => 0,
            false => size - 1,
        };
        Some(rank - here * minor + there * minor)
    }

    /// All pairs of neighbours, with the index of their axis.
    fn neighbours(&self) -> Vec<(u32, u32, usize)> {
        let n = u32::try_from(self.axes.group_size(self.mesh())).unwrap_or(0);
        let of = |from: u32| {
            let sides = (0..self.axes.len()).flat_map(|place| [(place, true), (place, false)]);
            sides.filter_map(move |(place, up)| Some((from, self.beside(from, place, up)?, place)))
        };
        (0..n).flat_map(of).collect()
    }

    /// The paths of three healthy links around a link.
    fn around(&self, from: u32, to: u32, along: usize) -> Vec<Vec<u32>> {
        let sides =
            (0..self.axes.len()).filter(|place| *place != along).flat_map(|place| [(place, true), (place, false)]);
        let path = |(place, up): (usize, bool)| {
            let stops = [self.beside(from, place, up)?, self.beside(to, place, up)?, to];
            let places = [place, along, place];
            let starts = [from, stops[0], stops[1]];
            let hops = starts.iter().zip(&stops).zip(places);
            let is_healthy = hops.into_iter().all(|((from, to), place)| self.rate(*from, *to) == self.full[place]);
            is_healthy.then(|| stops.to_vec())
        };
        sides.filter_map(path).collect()
    }
}
