//! Determines which puts must wait until their destination is free.
//!
//! A plan is launched repeatedly, and ranks do not synchronize between launches. A rank that puts into the output of
//! another rank must know that the other has begun this launch: only then has its caller read the output of the
//! previous one. For a scratch buffer it is sufficient that its last use in the previous launch is over. A rank
//! learns the progress of others from the messages of this launch and the previous one. Where that is not sufficient,
//! the owner of the buffer signals when it begins, once for each pair of ranks.

use crate::export::ranks::machine::{Turn, in_turns};
use crate::export::ranks::order::{Clock, merge};
use crate::export::ranks::{Action, Algorithm, Buffer, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;

/// The signals by which ranks announce that they have begun.
pub(super) struct Handshakes {
    /// By rank: the ranks that it signals when it begins.
    pub(super) greets: Vec<BTreeSet<u32>>,
    /// By rank: the sends that wait for such a signal, as indices into its actions.
    pub(super) awaits: Vec<BTreeSet<usize>>,
}

impl Handshakes {
    pub(super) fn of(algorithm: &Algorithm) -> Handshakes {
        let n = algorithm.ranks.len();
        let mut walk = Walk {
            algorithm,
            frees: frees(algorithm),
            known: (0..n).map(|_| Rc::new(vec![0; n])).collect(),
            begun: vec![0; n],
            found: Handshakes { greets: vec![BTreeSet::new(); n], awaits: vec![BTreeSet::new(); n] },
        };
        walk.launch(false);
        walk.launch(true);
        walk.found
    }
}

/// By sender and receiver, for each message in order: the number of the receiver's actions after which the
/// destination is free again; `u32::MAX` if its caller reads the destination.
fn frees(algorithm: &Algorithm) -> BTreeMap<(usize, usize), VecDeque<u32>> {
    let mut frees: BTreeMap<(usize, usize), VecDeque<u32>> = BTreeMap::new();
    for (rank, actions) in algorithm.ranks.iter().map(|rank| &rank.actions).enumerate() {
        let mut last: BTreeMap<(Buffer, u64), u32> = BTreeMap::new();
        for (action, time) in actions.iter().zip(1..) {
            let used = action.reads().chain(action.writes()).flat_map(Span::chunks);
            last.extend(used.map(|chunk| (chunk, time)));
        }
        for (action, time) in actions.iter().zip(1..) {
            let (from, free) = match action {
                Action::Receive { from, into } if into.buffer == Buffer::Scratch => {
                    (from, into.chunks().filter_map(|chunk| last.get(&chunk)).max().copied().unwrap_or(time))
                }
                Action::Receive { from, .. } => (from, u32::MAX),
                // The data arrives in a separate destination and is added at once.
                Action::ReceiveAdd { from, .. } => (from, time),
                Action::Send { .. } | Action::Copy { .. } | Action::Add { .. } => continue,
            };
            frees.entry((*from as usize, rank)).or_default().push_back(free);
        }
    }
    frees
}

/// The sender's clock, and its own progress.
type Message = (Rc<Clock>, u32);

/// Walks through the actions of all ranks, launch by launch.
struct Walk<'a> {
    algorithm: &'a Algorithm,
    frees: BTreeMap<(usize, usize), VecDeque<u32>>,
    /// By rank: the number of actions of each rank known to be done, over all launches. Beginning a launch counts as
    /// an action.
    known: Vec<Rc<Clock>>,
    /// By rank: the number of its actions before this launch.
    begun: Vec<u32>,
    found: Handshakes,
}

impl Walk<'_> {
    /// - `again`: whether this is a repeated launch, in which destinations are not free initially.
    fn launch(&mut self, again: bool) {
        let ranks = &self.algorithm.ranks;
        let mut wires: BTreeMap<(usize, usize), VecDeque<Message>> = BTreeMap::new();
        let mut next = vec![0; ranks.len()];
        // A missing message is reported by the proof.
        let Ok(_) = in_turns(ranks.len(), |rank| -> Result<Turn, Infallible> {
            let before = next[rank];
            while let Some(action) = ranks[rank].actions.get(next[rank]) {
                match *action {
                    Action::Send { to, .. } => {
                        if again {
                            self.put(rank, to as usize, next[rank]);
                        }
                        // Includes the beginning and the send itself, which has read its source.
                        let done = self.begun[rank] + count(next[rank]) + 2;
                        wires.entry((rank, to as usize)).or_default().push_back((Rc::clone(&self.known[rank]), done));
                    }
                    Action::Receive { from, .. } | Action::ReceiveAdd { from, .. } => {
                        let from = from as usize;
                        let Some((heard, done)) = wires.entry((from, rank)).or_default().pop_front() else { break };
                        let known = Rc::make_mut(&mut self.known[rank]);
                        merge(known, &heard);
                        known[from] = known[from].max(done);
                    }
                    Action::Copy { .. } | Action::Add { .. } => {}
                }
                next[rank] += 1;
            }
            Ok(Turn { moved: next[rank] > before, waits: next[rank] < ranks[rank].actions.len() })
        });
        for (begun, rank) in self.begun.iter_mut().zip(ranks) {
            *begun += count(rank.actions.len()) + 1;
        }
    }

    /// Adds a wait for the owner's signal to a put whose destination is not known to be free.
    fn put(&mut self, from: usize, to: usize, place: usize) {
        let free = self.frees.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap_or(u32::MAX);
        // Refers to the previous launch, which was the first one.
        let free = free.saturating_add(1).min(self.begun[to] + 1);
        if self.known[from][to] < free && self.found.greets[to].insert(count(from)) {
            self.found.awaits[from].insert(place);
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
