//! Which puts have to wait until their target is free.
//!
//! A plan is launched again and again, and ranks do not wait for each other between launches. A rank that puts into
//! the output of another one must know that the other has begun this launch: only then has its caller read the output
//! of the last one. Of a scratch it is enough to know that its last use in the launch before is over. What a rank has
//! heard from others, in this launch and the last, tells it how far they are. Where that is not enough, the owner of
//! the buffer signals when it begins, once for each pair of ranks.

use crate::export::ranks::machine::{Turn, in_turns};
use crate::export::ranks::order::{Clock, merge};
use crate::export::ranks::{Action, Algorithm, Buffer, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;

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

/// By sender and receiver, for each message in order: how much of a launch the receiver has done when the place is free
/// again. Where its caller reads it, that is more than all.
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
                // It arrives in a place of its own, and is added at once.
                Action::ReceiveAdd { from, .. } => (from, time),
                Action::Send { .. } | Action::Copy { .. } | Action::Add { .. } => continue,
            };
            frees.entry((*from as usize, rank)).or_default().push_back(free);
        }
    }
    frees
}

/// What a sender knows of the others, and how far it is itself.
type Message = (Rc<Clock>, u32);

/// All ranks, launch by launch.
struct Walk<'a> {
    algorithm: &'a Algorithm,
    frees: BTreeMap<(usize, usize), VecDeque<u32>>,
    /// By rank: how many actions of each rank are known to be done, in all launches. To begin one is an action.
    known: Vec<Rc<Clock>>,
    /// By rank: its actions before this launch.
    begun: Vec<u32>,
    found: Handshakes,
}

impl Walk<'_> {
    /// - `again`: whether it comes after another one, so that places are not free as such.
    fn launch(&mut self, again: bool) {
        let ranks = &self.algorithm.ranks;
        let mut wires: BTreeMap<(usize, usize), VecDeque<Message>> = BTreeMap::new();
        let mut next = vec![0; ranks.len()];
        // A message that never comes is found by the proof.
        let Ok(_) = in_turns(ranks.len(), |rank| -> Result<Turn, Infallible> {
            let before = next[rank];
            while let Some(action) = ranks[rank].actions.get(next[rank]) {
                match *action {
                    Action::Send { to, .. } => {
                        if again {
                            self.put(rank, to as usize, next[rank]);
                        }
                        // With the beginning, and the send itself: it has read what it sends.
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

    /// Whether the target of a put is known to be free; otherwise the put waits for the signal that its owner has begun.
    fn put(&mut self, from: usize, to: usize, place: usize) {
        let free = self.frees.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap_or(u32::MAX);
        // In the launch before, which was the first.
        let free = free.saturating_add(1).min(self.begun[to] + 1);
        if self.known[from][to] < free && self.found.greets[to].insert(count(from)) {
            self.found.awaits[from].insert(place);
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
