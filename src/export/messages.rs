//! Only who sends what to whom, and what waits for what: all that simulators of networks read.
//!
//! There are no buffers, so it cannot be shown that the right data is sent. What can be shown is that every message is
//! sent and received once, with one length, that nothing waits for ever, and that word of all ranks that matter comes to
//! each rank: without that no result can be right.

use super::ranks::machine::{Turn, in_turns};
use super::ranks::order::History;
use super::ranks::{Action, Algorithm, Kind, Span};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What all ranks do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// By rank.
    pub ranks: Vec<Vec<Node>>,
}

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub what: What,
    /// The nodes of the same rank that are done before.
    pub after: Vec<usize>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// To another rank.
    Send {
        /// To whom.
        to: u32,
        /// Told apart by this number from others between the two ranks.
        tag: u32,
        /// How much.
        bytes: u64,
    },
    /// From another rank.
    Receive {
        /// From whom.
        from: u32,
        /// See [`What::Send`].
        tag: u32,
        /// How much.
        bytes: u64,
    },
    /// By itself.
    Compute {
        /// What is written.
        bytes: u64,
    },
}

/// What is wrong with messages.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-wrong"))]
pub enum Flaw {
    /// Nobody is there, or what is waited for is not.
    #[error("rank {rank}, node {node}: {what}")]
    Node {
        /// The rank.
        rank: usize,
        /// The node of it.
        node: usize,
        /// In words.
        what: String,
    },
    /// Some nodes wait for each other, or for a message that nobody sends.
    #[error("deadlock: node {node} of rank {rank} waits, and so do {more} more")]
    Deadlock {
        /// The first of them.
        rank: usize,
        /// The node.
        node: usize,
        /// How many more.
        more: usize,
    },
    /// A rank cannot have the right result.
    #[error("rank {rank} never hears of rank {of}, whose input it needs")]
    Unheard {
        /// Who needs it.
        rank: usize,
        /// Whose.
        of: usize,
    },
}

/// The messages of an algorithm.
///
/// - `chunk`: bytes of a chunk.
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

/// The nodes of a rank so far.
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

/// Checks messages: all are matched, nothing waits for ever, and word comes to whom it must.
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
                return wrong(rank, number, "its peer is no other rank");
            }
            if node.after.iter().any(|before| *before >= nodes.len() || *before == number) {
                return wrong(rank, number, "it waits for what is not there");
            }
            if let What::Send { to, tag, bytes } = node.what
                && senders.insert((rank, to as usize, tag), (number, bytes)).is_some()
            {
                return wrong(rank, number, "a message between the same ranks has the same tag");
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
                    return Err(flaw(rank, number, "it receives another length than was sent"));
                }
                Some((sender, _)) => hear(&heard[from][*sender]),
                None => return Err(flaw(rank, number, "nobody sends what it receives")),
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
                return wrong(rank, number, "it receives what another node has received");
            }
        }
    }
    if let Some((rank, _, _)) = senders.keys().next() {
        let node = senders.values().next().map_or(0, |(node, _)| *node);
        return wrong(*rank, node, "nobody receives what it sends");
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
