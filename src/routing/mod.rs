//! Ways for what many devices want from others, over links that all of them share.
//!
//! What is wanted comes in chunks of equal size. Each chunk goes along a tree, from a device that holds it to all that
//! want it; the trees are chosen so that no link has much more to carry than the others ([`ways`]), and then the hops of
//! all trees are put in an order in which links wait as little as they can ([`rounds`]).
//!
//! This module knows numbered devices, links and hops, and nothing of meshes or schedules.
//!
//! Source: trees grow by the nearest device that still wants the chunk, as in Takahashi and Matsuyama (1980); a hop
//! costs what it adds to the sum of the sixteenth powers of what links carry, which is close to the largest of them.

mod order;
#[cfg(test)]
mod tests;
mod trees;

pub use order::{Round, rounds};
pub use trees::ways;

/// Devices, numbered from 0, and the hops between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The hops that there are.
    pub hops: Vec<Hop>,
    /// For how long each link is busy with a chunk, in any unit; at least 1.
    pub busy: Vec<u64>,
    /// For each device the hops that leave it.
    leaving: Vec<Vec<usize>>,
}

/// A way from one device to another with no device between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// The links that it keeps busy at once: one, or the ports at both ends of a switch.
    pub links: Vec<usize>,
    /// Hops of one direction that begin together can be one message of each device.
    pub direction: usize,
}

/// A chunk that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Who holds it, each as good as the others; one at least.
    pub holders: Vec<usize>,
    /// Who is to have it, and does not hold it.
    pub takers: Vec<usize>,
}

/// The hops of one chunk, each after the one that brings it to where it begins.
pub type Tree = Vec<usize>;

impl Network {
    /// Of this number of devices, with these hops; `busy` has an entry for each link.
    pub fn new(devices: usize, hops: Vec<Hop>, busy: Vec<u64>) -> Network {
        let mut leaving = vec![Vec::new(); devices];
        for (index, hop) in hops.iter().enumerate() {
            leaving[hop.from].push(index);
        }
        Network { hops, busy, leaving }
    }

    /// Whether there is a way from each device to each other one.
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

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.leaving.len()
    }
}
