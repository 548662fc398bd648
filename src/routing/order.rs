//! Orders the hops of all chunks.
//!
//! A link serves the most urgent chunk that is ready. The urgency of a hop is found by scheduling backwards from the
//! end: a hop that is late there can wait. Forward and backward passes alternate as long as the total time decreases.
//!
//! Source: forward-backward improvement of Tormos and Lova (2001) for resource-constrained project scheduling.

use super::{Network, Tree};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Number of forward and backward passes.
const TURNS: usize = 8;

/// Hops of one direction that start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Start time, if hops have no latency.
    pub start: u64,
    /// Direction of the hops.
    pub direction: usize,
    /// Chunk and hop numbers. Each device sends at most one chunk, and receives at most one.
    pub hops: Vec<(usize, usize)>,
}

/// The hops of all trees in a good order. Hops of one direction that start together form a round.
///
/// Each hop starts when its chunk is present and its links are free.
pub fn rounds(network: &Network, trees: &[Tree]) -> Vec<Round> {
    network.in_rounds(Tasks::new(network, trees, &|_| 1).starts())
}

/// The start of each hop of the trees of chunks of unequal size, with the chunk and the hop.
pub(super) fn starts(network: &Network, trees: &[Tree], size: &dyn Fn(usize) -> u64) -> Vec<(u64, usize, usize)> {
    Tasks::new(network, trees, size).starts().collect()
}

/// The hops of all trees, numbered as tasks.
struct Tasks<'a> {
    network: &'a Network,
    /// Chunk and hop of each task.
    hops: Vec<(usize, usize)>,
    /// Time for which each task occupies its links.
    busy: Vec<u64>,
    /// The tasks that continue from each task's end.
    after: Vec<Vec<usize>>,
    /// The task that brings the chunk to each task's start.
    before: Vec<Vec<usize>>,
}

impl<'a> Tasks<'a> {
    /// - `size`: of each chunk, as a multiple of that for which the network states times.
    fn new(network: &'a Network, trees: &[Tree], size: &dyn Fn(usize) -> u64) -> Tasks<'a> {
        let hops: Vec<(usize, usize)> =
            trees.iter().enumerate().flat_map(|(chunk, tree)| tree.iter().map(move |hop| (chunk, *hop))).collect();
        let time = |hop: usize| network.hops[hop].links.iter().map(|link| network.busy[*link]).max().unwrap_or(1);
        let busy = hops.iter().map(|(chunk, hop)| time(*hop) * size(*chunk)).collect();
        let (mut after, mut before) = (vec![Vec::new(); hops.len()], vec![Vec::new(); hops.len()]);
        let mut first = 0;
        for tree in trees {
            let ends: BTreeMap<usize, usize> =
                tree.iter().enumerate().map(|(place, hop)| (network.hops[*hop].to, first + place)).collect();
            for (place, hop) in tree.iter().enumerate() {
                if let Some(parent) = ends.get(&network.hops[*hop].from) {
                    after[*parent].push(first + place);
                    before[first + place].push(*parent);
                }
            }
            first += tree.len();
        }
        Tasks { network, hops, busy, after, before }
    }

    /// The start of each hop in the shortest order found, with its chunk and number.
    fn starts(&self) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
        self.shortest().into_iter().zip(&self.hops).map(|(start, (chunk, hop))| (start, *chunk, *hop))
    }

    /// Start time of each task in the shortest order found.
    fn shortest(&self) -> Vec<u64> {
        // Initially, a task's urgency is the longest path that follows it. Children come after their parents.
        let mut behind = vec![0; self.hops.len()];
        for task in (0..self.hops.len()).rev() {
            let longest = self.after[task].iter().map(|next| behind[*next]).max().unwrap_or(0);
            behind[task] = longest + self.busy[task];
        }
        let urgent: Vec<u64> = behind.iter().map(|behind| u64::MAX - behind).collect();
        let mut best = self.listed(&self.before, &self.after, &urgent);
        let mut now = best.clone();
        for _ in 0..TURNS {
            let end = self.end(&now);
            let late: Vec<u64> = now.iter().zip(&self.busy).map(|(start, busy)| end - start - busy).collect();
            let backwards = self.listed(&self.after, &self.before, &late);
            let end = self.end(&backwards);
            let latest: Vec<u64> = backwards.iter().zip(&self.busy).map(|(start, busy)| end - start - busy).collect();
            now = self.listed(&self.before, &self.after, &latest);
            if self.end(&now) >= self.end(&best) {
                break;
            }
            best.clone_from(&now);
        }
        best
    }

    fn end(&self, starts: &[u64]) -> u64 {
        starts.iter().zip(&self.busy).map(|(start, busy)| start + busy).max().unwrap_or(0)
    }

    /// Start time of each task if links serve ready tasks by lowest number first.
    ///
    /// - `before`: the tasks that must end before each task.
    /// - `after`: the inverse of `before`.
    fn listed(&self, before: &[Vec<usize>], after: &[Vec<usize>], urgent: &[u64]) -> Vec<u64> {
        let network = self.network;
        let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
        // Ready tasks, by hop.
        let mut ready: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); network.hops.len()];
        let mut hops: BTreeSet<usize> = BTreeSet::new();
        for (task, left) in left.iter().enumerate() {
            if *left == 0 {
                ready[self.hops[task].1].insert((urgent[task], task));
                hops.insert(self.hops[task].1);
            }
        }
        let mut free = vec![0u64; network.busy.len()];
        let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut starts = vec![0; self.hops.len()];
        let mut now = 0;
        loop {
            let is_free = |hop: &usize| network.hops[*hop].links.iter().all(|link| free[*link] <= now);
            let most_urgent = |hop: &usize| ready[*hop].first().copied();
            let mut next: Vec<(u64, usize)> = hops.iter().filter(|hop| is_free(hop)).filter_map(most_urgent).collect();
            next.sort_unstable();
            for (number, task) in next {
                let hop = self.hops[task].1;
                let links = &network.hops[hop].links;
                // An earlier task may have taken one of the ports.
                if links.iter().any(|link| free[*link] > now) {
                    continue;
                }
                starts[task] = now;
                ready[hop].remove(&(number, task));
                if ready[hop].is_empty() {
                    hops.remove(&hop);
                }
                let end = now + self.busy[task];
                links.iter().for_each(|link| free[*link] = end);
                ends.push(Reverse((end, task)));
            }
            let Some(Reverse((end, _))) = ends.peek().copied() else { break };
            now = end;
            while let Some(Reverse((_, task))) = ends.peek().copied().filter(|Reverse((end, _))| *end <= now) {
                ends.pop();
                for next in &after[task] {
                    left[*next] -= 1;
                    if left[*next] == 0 {
                        ready[self.hops[*next].1].insert((urgent[*next], *next));
                        hops.insert(self.hops[*next].1);
                    }
                }
            }
        }
        starts
    }
}
