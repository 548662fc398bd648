//! The largest flow between two nodes, up to a limit.

use std::collections::VecDeque;

/// Above every capacity, and as many of them as there are nodes still fit.
pub(super) const UNLIMITED: u64 = 1 << 52;

/// A network in which capacities are used up.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The edges that leave each node.
    leaving: Vec<Vec<usize>>,
    /// Where each edge leads; the next one, or the one before, is its way back.
    to: Vec<usize>,
    left: Vec<u64>,
}

impl Flow {
    pub(super) fn new(nodes: usize) -> Flow {
        Flow { leaving: vec![Vec::new(); nodes], to: Vec::new(), left: Vec::new() }
    }

    pub(super) fn add_node(&mut self) -> usize {
        self.leaving.push(Vec::new());
        self.leaving.len() - 1
    }

    /// An edge that carries `there` one way and `back` the other; its number.
    pub(super) fn add(&mut self, from: usize, to: usize, there: u64, back: u64) -> usize {
        let edge = self.to.len();
        for (from, to, capacity) in [(from, to, there), (to, from, back)] {
            self.leaving[from].push(self.to.len());
            self.to.push(to);
            self.left.push(capacity);
        }
        edge
    }

    /// What an edge still carries.
    pub(super) fn left(&self, edge: usize) -> u64 {
        self.left[edge]
    }

    /// Sends as much as there is room for, but no more than `limit`, and says how much. Dinic's algorithm.
    pub(super) fn send(&mut self, source: usize, sink: usize, limit: u64) -> u64 {
        let mut sent = 0;
        while sent < limit {
            let levels = self.levels(source);
            if levels[sink] == usize::MAX {
                break;
            }
            let mut next = vec![0; self.leaving.len()];
            sent += self.push(source, sink, limit - sent, &levels, &mut next);
        }
        sent
    }

    /// How many edges each node is away from the source.
    fn levels(&self, source: usize) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.leaving.len()];
        let mut open = VecDeque::from([source]);
        levels[source] = 0;
        while let Some(at) = open.pop_front() {
            for edge in &self.leaving[at] {
                let to = self.to[*edge];
                if self.left[*edge] > 0 && levels[to] == usize::MAX {
                    levels[to] = levels[at] + 1;
                    open.push_back(to);
                }
            }
        }
        levels
    }

    /// Sends up to `limit` from a node along edges that lead one level on.
    fn push(&mut self, at: usize, sink: usize, limit: u64, levels: &[usize], next: &mut [usize]) -> u64 {
        if at == sink {
            return limit;
        }
        let mut sent = 0;
        while sent < limit
            && let Some(edge) = self.leaving[at].get(next[at]).copied()
        {
            let to = self.to[edge];
            let room = self.left[edge].min(limit - sent);
            let pushed =
                if room > 0 && levels[to] == levels[at] + 1 { self.push(to, sink, room, levels, next) } else { 0 };
            self.left[edge] -= pushed;
            self.left[edge ^ 1] += pushed;
            sent += pushed;
            // The edge is done unless there was no more to send.
            if sent < limit {
                next[at] += 1;
            }
        }
        sent
    }

    /// The nodes from which something more could reach the sink.
    pub(super) fn sink_side(&self, sink: usize) -> Vec<bool> {
        self.reach(sink, |edge| self.left[edge ^ 1])
    }

    /// The nodes that something more could reach from the source.
    pub(super) fn source_side(&self, source: usize) -> Vec<bool> {
        self.reach(source, |edge| self.left[edge])
    }

    fn reach(&self, start: usize, room: impl Fn(usize) -> u64) -> Vec<bool> {
        let mut reached = vec![false; self.leaving.len()];
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                let edges = self.leaving[at].iter().filter(|edge| room(**edge) > 0);
                open.extend(edges.map(|edge| self.to[*edge]).filter(|to| !reached[*to]));
            }
        }
        reached
    }
}
