//! Which puts have to wait until their target is free.
//!
//! A plan is launched again and again, and ranks do not wait for each other between launches. A rank that puts into the
//! buffers of another one must know that the other has begun this launch: then it is done with the last one, and its
//! caller has read the output. What a rank hears from others tells it who has begun; where nothing did, the owner of
//! the buffer signals when it begins, once for each pair of ranks.

use crate::export::ranks::{Action, Algorithm};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The signals that tell that a rank has begun.
pub(super) struct Handshakes {
    /// By rank: the ranks to which it signals as it begins.
    pub(super) greets: Vec<BTreeSet<u32>>,
    /// By rank: the sends, by their place among its actions, that wait for such a signal.
    pub(super) awaits: Vec<BTreeSet<usize>>,
}

impl Handshakes {
    pub(super) fn of(algorithm: &Algorithm) -> Handshakes {
        let n = algorithm.ranks.len();
        let mut all = Handshakes { greets: vec![BTreeSet::new(); n], awaits: vec![BTreeSet::new(); n] };
        let mut known: Vec<Begun> = (0..n).map(|rank| Begun::only(rank, n)).collect();
        let mut wires: BTreeMap<(usize, usize), VecDeque<Begun>> = BTreeMap::new();
        let mut next = vec![0; n];
        let mut waiting: VecDeque<usize> = (0..n).collect();
        let mut idle = 0;
        // A message that never comes is found by the proof.
        while let Some(rank) = waiting.pop_front().filter(|_| idle <= n) {
            let before = next[rank];
            while let Some(action) = algorithm.ranks[rank].actions.get(next[rank]) {
                match *action {
                    Action::Send { to, .. } => {
                        let to = to as usize;
                        if !known[rank].has(to) {
                            all.awaits[rank].insert(next[rank]);
                            all.greets[to].insert(u32::try_from(rank).unwrap_or(u32::MAX));
                            known[rank].add(&Begun::only(to, n));
                        }
                        wires.entry((rank, to)).or_default().push_back(known[rank].clone());
                    }
                    Action::Receive { from, .. } | Action::ReceiveAdd { from, .. } => {
                        let wire = wires.entry((from as usize, rank)).or_default();
                        let Some(heard) = wire.pop_front() else { break };
                        known[rank].add(&heard);
                    }
                    Action::Copy { .. } | Action::Add { .. } => {}
                }
                next[rank] += 1;
            }
            idle = if next[rank] > before { 0 } else { idle + 1 };
            if next[rank] < algorithm.ranks[rank].actions.len() {
                waiting.push_back(rank);
            }
        }
        all
    }
}

/// A set of ranks.
#[derive(Clone)]
struct Begun(Vec<u64>);

impl Begun {
    fn only(rank: usize, ranks: usize) -> Begun {
        let mut words = vec![0; ranks.div_ceil(64)];
        words[rank / 64] |= 1 << (rank % 64);
        Begun(words)
    }

    fn has(&self, rank: usize) -> bool {
        self.0[rank / 64] >> (rank % 64) & 1 == 1
    }

    fn add(&mut self, more: &Begun) {
        self.0.iter_mut().zip(&more.0).for_each(|(own, more)| *own |= more);
    }
}
