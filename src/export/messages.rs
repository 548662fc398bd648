//! The messages between ranks and their dependencies: the input of network simulators.
//!
//! There are no buffers, so the correctness of the data cannot be checked. The checks are: every message is sent and
//! received once with one length, there is no deadlock, and each rank hears, directly or indirectly, from all ranks
//! that contribute to its result.

use super::ranks::machine::{Turn, in_turns};
use super::ranks::order::History;
use super::ranks::{Action, Algorithm, Kind, Span};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The messages and computations of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Nodes of each rank.
    pub ranks: Vec<Vec<Node>>,
}

/// An action of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The action.
    pub what: What,
    /// Nodes of the same rank that must be done before.
    pub after: Vec<usize>,
}

/// The kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Sends to another rank.
    Send {
        /// Receiver.
        to: u32,
        /// Tag that distinguishes the messages between two ranks.
        tag: u32,
        /// Size in bytes.
        bytes: u64,
    },
    /// Receives from another rank.
    Receive {
        /// Sender.
        from: u32,
        /// See [`What::Send`].
        tag: u32,
        /// Size in bytes.
        bytes: u64,
    },
    /// Computes locally.
    Compute {
        /// Bytes written.
        bytes: u64,
    },
}

/// An error in messages.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-wrong"))]
pub enum Flaw {
    /// A node refers to a rank or a node that does not exist.
    #[error("rank {rank}, node {node}: {what}")]
    Node {
        /// The rank.
        rank: usize,
        /// The node.
        node: usize,
        /// Description.
        what: String,
    },
    /// Some nodes wait for each other, or for a message that is never sent.
    #[error("deadlock: node {node} of rank {rank} and {more} other nodes wait")]
    Deadlock {
        /// Rank of the first waiting node.
        rank: usize,
        /// The node.
        node: usize,
        /// Number of other waiting nodes.
        more: usize,
    },
    /// A rank cannot have the right result.
    #[error("rank {rank} needs the input of rank {of} but never receives data from it")]
    Unheard {
        /// The rank.
        rank: usize,
        /// The rank whose input does not reach it.
        of: usize,
    },
}

/// The messages of an algorithm.
///
/// - `chunk`: size of a chunk in bytes.
pub fn messages(algorithm: &Algorithm, chunk: u64) -> Messages {
    let n = algorithm.ranks.len();
    let mut sent = vec![vec![0u32; n]; n];
    let mut received = vec![vec![0u32; n]; n];
    let number = |counts: &mut Vec<Vec<u32>>, from: usize, to: usize| {
        counts[from][to] += 1;
        counts[from][to] - 1
    };
    let mut all = Messages::default();
    for (rank, actions) in algorithm.ranks.iter().enumerate() {
        let mut list = List::default();
        for action in &actions.actions {
            let bytes = |span: Span| span.count.saturating_mul(chunk);
            match *action {
                Action::Send { to, from } => {
                    let tag = number(&mut sent, rank, to as usize);
                    list.push(What::Send { to, tag, bytes: bytes(from) }, &[from], None, None);
                }
                Action::Receive { from, into } => {
                    let tag = number(&mut received, from as usize, rank);
                    list.push(What::Receive { from, tag, bytes: bytes(into) }, &[], Some(into), None);
                }
                Action::ReceiveAdd { from, with, into } => {
                    let tag = number(&mut received, from as usize, rank);
                    let node = list.push(What::Receive { from, tag, bytes: bytes(into) }, &[], None, None);
                    list.push(What::Compute { bytes: bytes(into) }, &[with], Some(into), Some(node));
                }
                Action::Copy { from, into } => {
                    list.push(What::Compute { bytes: bytes(into) }, &[from], Some(into), None);
                }
                Action::Add { from, into } => {
                    list.push(What::Compute { bytes: bytes(into) }, &[from, into], Some(into), None);
                }
            }
        }
        all.ranks.push(list.nodes);
    }
    all
}

/// The nodes of a rank under construction.
#[derive(Default)]
struct List {
    nodes: Vec<Node>,
    history: History<usize>,
}

impl List {
    fn push(&mut self, what: What, reads: &[Span], writes: Option<Span>, more: Option<usize>) -> usize {
        let after: BTreeSet<usize> = self.history.before(reads, writes).chain(more).collect();
        let node = self.nodes.len();
        self.nodes.push(Node { what, after: after.into_iter().collect() });
        self.history.push(node, reads, writes);
        node
    }
}

/// Checks that all messages are matched, that there is no deadlock, and that each rank hears from all contributing
/// ranks.
///
/// # Errors
/// The first flaw.
pub fn check(messages: &Messages, kind: Option<Kind>) -> Result<(), Flaw> {
    let n = messages.ranks.len();
    let flaw = |rank, node, what: &str| Flaw::Node { rank, node, what: what.to_owned() };
    let wrong = |rank, node, what: &str| Err(flaw(rank, node, what));
    let mut senders: BTreeMap<(usize, usize, u32), (usize, u64)> = BTreeMap::new();
    for (rank, nodes) in messages.ranks.iter().enumerate() {
        for (number, node) in nodes.iter().enumerate() {
            let other = match node.what {
                What::Send { to, .. } => Some(to as usize),
                What::Receive { from, .. } => Some(from as usize),
                What::Compute { .. } => None,
            };
            if other.is_some_and(|other| other >= n || other == rank) {
                return wrong(rank, number, "its peer is not another rank");
            }
            if node.after.iter().any(|before| *before >= nodes.len() || *before == number) {
                return wrong(rank, number, "it waits for a missing node");
            }
            if let What::Send { to, tag, bytes } = node.what
                && senders.insert((rank, to as usize, tag), (number, bytes)).is_some()
            {
                return wrong(rank, number, "another message between these ranks has the same tag");
            }
        }
    }
    let mut heard: Vec<Vec<Option<BTreeSet<usize>>>> =
        messages.ranks.iter().map(|nodes| vec![None; nodes.len()]).collect();
    let of_rank = |(rank, nodes): (usize, &Vec<Node>)| (0..nodes.len()).map(move |node| (rank, node));
    let all: Vec<(usize, usize)> = messages.ranks.iter().enumerate().flat_map(of_rank).collect();
    let waiting = in_turns(all.len(), |place| {
        let (rank, number) = all[place];
        let node = &messages.ranks[rank][number];
        let mut known: BTreeSet<usize> = [rank].into_iter().collect();
        let mut is_ready = true;
        let mut hear = |from: &Option<BTreeSet<usize>>| match from {
            Some(more) => known.extend(more),
            None => is_ready = false,
        };
        node.after.iter().for_each(|before| hear(&heard[rank][*before]));
        if let What::Receive { from, tag, bytes } = node.what {
            let from = from as usize;
            match senders.get(&(from, rank, tag)) {
                Some((sender, sent)) if *sent != bytes && heard[from][*sender].is_some() => {
                    return Err(flaw(rank, number, "the received length differs from the sent length"));
                }
                Some((sender, _)) => hear(&heard[from][*sender]),
                None => return Err(flaw(rank, number, "its message is never sent")),
            }
        }
        heard[rank][number] = is_ready.then_some(known);
        Ok(Turn { moved: is_ready, waits: !is_ready })
    })?;
    if let Some(first) = waiting.iter().min() {
        let (rank, node) = all[*first];
        return Err(Flaw::Deadlock { rank, node, more: waiting.len() - 1 });
    }
    for (rank, nodes) in messages.ranks.iter().enumerate() {
        for (number, node) in nodes.iter().enumerate() {
            if let What::Receive { from, tag, .. } = node.what
                && senders.remove(&(from as usize, rank, tag)).is_none()
            {
                return wrong(rank, number, "its message is also received by another node");
            }
        }
    }
    if let Some((rank, _, _)) = senders.keys().next() {
        let node = senders.values().next().map_or(0, |(node, _)| *node);
        return wrong(*rank, node, "its message is never received");
    }
    let Some(kind) = kind else { return Ok(()) };
    for (rank, heard) in heard.iter().enumerate() {
        let all: BTreeSet<usize> = heard.iter().flatten().flatten().copied().chain([rank]).collect();
        let wanted = match kind {
            Kind::Broadcast => 0..1.min(n),
            Kind::AllGather | Kind::ReduceScatter | Kind::AllReduce | Kind::AllToAll => 0..n,
        };
        if let Some(of) = wanted.into_iter().find(|of| !all.contains(of)) {
            return Err(Flaw::Unheard { rank, of });
        }
    }
    Ok(())
}
