//! Routes data of many devices over shared links.
//!
//! Data comes in chunks of equal size. Each chunk travels along a tree from a device that holds it to all that need
//! it. The trees are chosen to balance the load of the links ([`ways`]). Then the hops of all trees are ordered to
//! minimise waiting for links ([`rounds`]). Messages of one hop each are ordered by the load of their links
//! ([`exchange`]). Messages may also be of unequal size ([`ragged`](fn@ragged)).
//!
//! This module uses numbered devices, links and hops. It does not depend on meshes or schedules.
//!
//! Source: trees grow by the nearest device that still needs the chunk, as in Takahashi and Matsuyama (1980). The
//! cost of a hop is its increase of the sum of the sixteenth powers of the link loads, which approximates minimising
//! the largest load.

mod exchange;
mod order;
mod ragged;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::BTreeMap;

pub use exchange::exchange;
pub use order::{Round, rounds};
pub use ragged::{Piece, Ragged, ragged};
pub use trees::ways;

/// Devices, numbered from 0, and the hops between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Network {
    /// All hops.
    pub hops: Vec<Hop>,
    /// Busy time of each link per chunk, in any unit; at least 1.
    pub busy: Vec<u64>,
    /// The hops that leave each device.
    leaving: Vec<Vec<usize>>,
    /// The hops that occupy each link.
    over: Vec<Vec<usize>>,
}

/// A direct path between two devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Sending device.
    pub from: usize,
    /// Receiving device.
    pub to: usize,
    /// The links that it occupies at once: one, or the ports at both ends of a switch.
    pub links: Vec<usize>,
    /// Hops with the same direction that start together can form messages of one operation.
    pub direction: usize,
}

/// A chunk to be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// Devices that hold it, in no order of preference; at least one.
    pub holders: Vec<usize>,
    /// Devices that need it and do not hold it.
    pub takers: Vec<usize>,
    /// Its size, as a multiple of that for which [`Network::busy`] states times; 1 if all have one size.
    pub size: u64,
}

/// The hops of one chunk, each after the hop that brings the chunk to its start.
pub type Tree = Vec<usize>;

impl Network {
    /// A network with this number of devices and these hops. `busy` has one entry per link.
    pub fn new(devices: usize, hops: Vec<Hop>, busy: Vec<u64>) -> Network {
        let (mut leaving, mut over) = (vec![Vec::new(); devices], vec![Vec::new(); busy.len()]);
        for (index, hop) in hops.iter().enumerate() {
            leaving[hop.from].push(index);
            hop.links.iter().for_each(|link| over[*link].push(index));
        }
        Network { hops, busy, leaving, over }
    }

    /// Whether every device can reach every other one.
    pub fn is_joined(&self) -> bool {
        let reached = |back: bool| {
            let mut seen = vec![false; self.devices()];
            let mut left = vec![0];
            while let Some(device) = left.pop().filter(|device| *device < seen.len()) {
                if !std::mem::replace(&mut seen[device], true) {
                    let ends = self.hops.iter().map(|hop| if back { (hop.to, hop.from) } else { (hop.from, hop.to) });
                    left.extend(ends.filter(|(from, _)| *from == device).map(|(_, to)| to));
                }
            }
            seen.into_iter().all(|seen| seen)
        };
        reached(false) && reached(true)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.leaving.len()
    }

    /// Forms rounds of hops of one direction that start together. Where links of one direction leave a device at once, the
    /// hops are several rounds with the same start.
    ///
    /// - `started`: start time, chunk and hop of each.
    fn in_rounds(&self, started: impl IntoIterator<Item = (u64, usize, usize)>) -> Vec<Round> {
        let mut together: BTreeMap<(u64, usize), Vec<Round>> = BTreeMap::new();
        for (start, chunk, hop) in started {
            let Hop { from, to, direction, .. } = self.hops[hop];
            let rounds = together.entry((start, direction)).or_default();
            let is_used = |(_, other): &(usize, usize)| self.hops[*other].from == from || self.hops[*other].to == to;
            match rounds.iter_mut().find(|round| !round.hops.iter().any(is_used)) {
                Some(round) => round.hops.push((chunk, hop)),
                None => rounds.push(Round { start, direction, hops: vec![(chunk, hop)] }),
            }
        }
        together.into_values().flatten().collect()
    }
}
