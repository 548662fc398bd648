//! Assigns the actions of ranks to thread blocks.
//!
//! A rank executes its actions in order. When a thread block is full, the next block continues after a semaphore. A
//! message is a put into the receiver's destination, followed by a signal. Each destination is written once per
//! launch; [`Handshakes`] ensures that it is free again in the next launch.
//!
//! The threads of a block synchronize at a `nop`. One is inserted where an operation needs data that operations since
//! the last `nop` have written or waited for, and before a signal that follows a put.

use super::handshake::Handshakes;
use super::{
    Block, ChannelRefs, Channels, Chunks, Gpu, MOST_AT_ONCE, MOST_CHANNELS, MOST_OPERATIONS, Operation, Plan,
    RemoteBuffer, RemoteRefs, Semaphore,
};
use crate::export::ranks::{Action, Algorithm, Buffer, Span};
use itertools::Itertools;
use std::collections::{BTreeSet, VecDeque};
use thiserror::Error;

/// An algorithm that the format cannot express.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("not-exported"))]
pub enum Unsaid {
    /// A message has no receiver. Algorithms built here always have one.
    #[error("a message from rank {from} to rank {to} is never received")]
    Unreceived {
        /// The sender.
        from: usize,
        /// The receiver.
        to: u32,
    },
}

/// The only channel type used.
const MEMORY: &str = "memory";
/// Operations reserved for the end of a thread block: a `nop` and a semaphore.
const END: usize = 2;

/// The file of an algorithm.
///
/// # Errors
/// If a message is not received.
pub fn build(algorithm: &Algorithm, name: &str) -> Result<Plan, Unsaid> {
    let n = algorithm.ranks.len();
    // The destinations of the messages between two ranks, in order. A sum on arrival needs a separate one.
    let mut scratch: Vec<u64> = algorithm.ranks.iter().map(|rank| rank.scratch).collect();
    let mut targets: Vec<Vec<VecDeque<Span>>> = vec![vec![VecDeque::new(); n]; n];
    for (rank, actions) in algorithm.ranks.iter().enumerate() {
        for action in &actions.actions {
            match *action {
                Action::Receive { from, into } => targets[from as usize][rank].push_back(into),
                Action::ReceiveAdd { from, into, .. } => {
                    let start = scratch[rank];
                    scratch[rank] += into.count;
                    targets[from as usize][rank].push_back(Span { buffer: Buffer::Scratch, start, count: into.count });
                }
                Action::Send { .. } | Action::Copy { .. } | Action::Add { .. } => {}
            }
        }
    }
    let arrived = targets.clone();
    let handshakes = Handshakes::of(algorithm);
    let mut gpus = Vec::with_capacity(n);
    for rank in 0..n {
        let mut writer = Writer { steps: Vec::new() };
        let mut inbox: Vec<VecDeque<Span>> = (0..n).map(|from| arrived[from][rank].clone()).collect();
        for (place, action) in algorithm.ranks[rank].actions.iter().enumerate() {
            if let (Action::Send { to, .. }, true) = (action, handshakes.awaits[rank].contains(&place)) {
                writer.wait(*to);
            }
            writer.action(action, (rank, &mut targets[rank], &mut inbox))?;
        }
        let blocks = writer.blocks(&handshakes.greets[rank]);
        let peers = blocks.iter().flat_map(|block| &block.peers).copied().sorted().dedup().collect_vec();
        let remotes = blocks.iter().flat_map(|block| &block.remotes).copied().sorted().dedup().collect_vec();
        let count = blocks.len();
        gpus.push(Gpu {
            id: u32::try_from(rank).unwrap_or(u32::MAX),
            input_chunks: algorithm.shape.input,
            output_chunks: algorithm.shape.output,
            scratch_chunks: scratch[rank],
            threadblocks: blocks
                .into_iter()
                .enumerate()
                .map(|(number, block)| block.finish((number, count), &peers, &remotes))
                .collect(),
            channels: vec![Channels { channel_type: MEMORY.to_owned(), connected_to: peers }],
            remote_buffers: remotes
                .iter()
                .map(|(rank, buffer)| RemoteBuffer {
                    rank: *rank,
                    kind: buffer.letter().to_owned(),
                    access_channel_types: vec![MEMORY.to_owned()],
                })
                .collect(),
            semaphores: vec![Semaphore { init_value: 0 }; count.saturating_sub(1)],
        });
    }
    Ok(Plan {
        name: name.to_owned(),
        collective: algorithm.kind.word().to_owned(),
        protocol: "Simple".to_owned(),
        inplace: false,
        reuse_resources: false,
        gpus,
        num_threads_per_block: 1024,
        use_double_scratch_buffer: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: most_bytes(algorithm, scratch.iter().copied().max().unwrap_or(0)),
    })
}

/// The largest message for which every offset in bytes fits into the 32 bits that the executor has for it.
fn most_bytes(algorithm: &Algorithm, scratch: u64) -> u64 {
    let message = algorithm.shape.input.max(algorithm.shape.output);
    u64::from(u32::MAX) / message.max(scratch) * message
}

/// An operation, and the rank that it communicates with.
#[derive(Default)]
struct Step {
    name: &'static str,
    sources: Vec<Span>,
    /// Chunks written, on this rank (`None`) or on another rank.
    target: Option<(Option<u32>, Span)>,
    peer: Option<u32>,
}

struct Writer {
    steps: Vec<Step>,
}

impl Writer {
    fn wait(&mut self, from: u32) {
        self.steps.push(Step { name: "wait", peer: Some(from), ..Step::default() });
    }

    fn local(&mut self, name: &'static str, sources: Vec<Span>, target: Span) {
        self.steps.push(Step { name, sources, target: Some((None, target)), peer: None });
    }

    fn action(
        &mut self,
        action: &Action,
        (rank, outbox, inbox): (usize, &mut [VecDeque<Span>], &mut [VecDeque<Span>]),
    ) -> Result<(), Unsaid> {
        match *action {
            Action::Send { to, from } => {
                let target = outbox[to as usize].pop_front().ok_or(Unsaid::Unreceived { from: rank, to })?;
                let put = Step { name: "put", sources: vec![from], target: Some((Some(to), target)), peer: Some(to) };
                self.steps.push(put);
                self.steps.push(Step { name: "signal", peer: Some(to), ..Step::default() });
            }
            Action::Receive { from, .. } => {
                inbox[from as usize].pop_front();
                self.wait(from);
            }
            Action::ReceiveAdd { from, with, into } => {
                self.wait(from);
                if let Some(arrived) = inbox[from as usize].pop_front() {
                    self.local("re", vec![with, arrived], into);
                }
            }
            Action::Copy { from, into } => self.local("copy", vec![from], into),
            Action::Add { from, into } => self.local("re", vec![into, from], into),
        }
        Ok(())
    }

    /// Distributes the steps over thread blocks, filling each block.
    ///
    /// A block begins with the signals that its rank has begun, sent to the ranks that it is the first block to work
    /// with. These signals wait for nothing and come first on their channels.
    fn blocks(self, greets: &BTreeSet<u32>) -> Vec<Draft> {
        let mut blocks = vec![Draft::default()];
        let mut greeted: BTreeSet<u32> = BTreeSet::new();
        for step in self.steps {
            let greet = step.peer.filter(|peer| greets.contains(peer) && !greeted.contains(peer));
            if blocks.last().is_some_and(|block| !block.has_room(&step, greet.is_some())) {
                blocks.push(Draft { has_waited: true, acquires: 1, ..Draft::default() });
            }
            greeted.extend(greet);
            let block = blocks.last_mut().expect("never empty");
            block.greets.extend(greet);
            block.push(step);
        }
        blocks
    }
}

/// A thread block, before the lists of its rank are known.
#[derive(Default)]
struct Draft {
    steps: Vec<Step>,
    greets: BTreeSet<u32>,
    acquires: usize,
    peers: BTreeSet<u32>,
    remotes: BTreeSet<(u32, Buffer)>,
    /// Chunks read and written since the last `nop`, on this rank or on another one.
    reads: Vec<(Option<u32>, Span)>,
    writes: Vec<(Option<u32>, Span)>,
    /// Whether the block has waited since the last `nop`.
    has_waited: bool,
}

impl Draft {
    fn has_room(&self, step: &Step, greets: bool) -> bool {
        let greets = (self.greets.len() + usize::from(greets)).div_ceil(MOST_AT_ONCE);
        let length = greets + self.acquires + self.steps.len() + usize::from(self.needs_sync(step)) + 1 + END;
        let more = |fits: bool| usize::from(!fits);
        let peers = self.peers.len() + step.peer.map_or(0, |peer| more(self.peers.contains(&peer)));
        let remote = step.target.and_then(|(rank, span)| Some((rank?, span.buffer)));
        let remotes = self.remotes.len() + remote.map_or(0, |remote| more(self.remotes.contains(&remote)));
        length <= MOST_OPERATIONS && peers <= MOST_CHANNELS && remotes <= MOST_CHANNELS
    }

    /// Whether the threads must synchronize before a step.
    fn needs_sync(&self, step: &Step) -> bool {
        let overlap = |one: (Option<u32>, Span), two: &(Option<u32>, Span)| {
            let ends = |span: Span| span.start + span.count;
            let same = (one.0, one.1.buffer) == (two.0, two.1.buffer);
            same && one.1.start < ends(two.1) && two.1.start < ends(one.1)
        };
        let Some(target) = step.target else {
            // A signal completes the puts to its rank.
            return step.name == "signal" && self.writes.iter().any(|(rank, _)| *rank == step.peer);
        };
        let reads_fresh =
            step.sources.iter().any(|source| self.writes.iter().any(|other| overlap((None, *source), other)));
        let overwrites = self.reads.iter().chain(&self.writes).any(|other| overlap(target, other));
        self.has_waited || reads_fresh || overwrites
    }

    fn push(&mut self, step: Step) {
        if self.needs_sync(&step) {
            self.steps.push(Step { name: "nop", ..Step::default() });
            (self.reads, self.writes, self.has_waited) = (Vec::new(), Vec::new(), false);
        }
        self.has_waited |= step.name == "wait";
        self.peers.extend(step.peer);
        self.reads.extend(step.sources.iter().map(|span| (None, *span)));
        self.writes.extend(step.target);
        if let Some((Some(rank), span)) = step.target {
            self.remotes.insert((rank, span.buffer));
        }
        self.steps.push(step);
    }

    fn finish(self, (number, count): (usize, usize), peers: &[u32], remotes: &[(u32, Buffer)]) -> Block {
        let own_peers: Vec<u32> = self.peers.into_iter().collect();
        let own_remotes: Vec<(u32, Buffer)> = self.remotes.into_iter().collect();
        let local = |span: &Span| Chunks {
            kind: Some(span.buffer.letter().to_owned()),
            buffer_id: None,
            index: span.start,
            size: span.count,
        };
        let semaphore = |name: &str, id: usize| Operation {
            name: name.to_owned(),
            semaphore_ids: vec![id],
            ..Operation::default()
        };
        let channel = |peer: &u32| own_peers.iter().position(|known| known == peer);
        let greets: Vec<usize> = self.greets.iter().filter_map(channel).collect();
        let mut ops: Vec<Operation> = Vec::new();
        ops.extend(greets.chunks(MOST_AT_ONCE).map(|channels| Operation {
            name: "signal".to_owned(),
            channel_ids: channels.to_vec(),
            channel_type: Some(MEMORY.to_owned()),
            ..Operation::default()
        }));
        if number > 0 {
            ops.push(semaphore("sem_acquire", number - 1));
        }
        for step in &self.steps {
            let target = step.target.map(|(rank, span)| match rank {
                None => local(&span),
                Some(rank) => Chunks {
                    kind: None,
                    buffer_id: own_remotes.iter().position(|known| *known == (rank, span.buffer)),
                    index: span.start,
                    size: span.count,
                },
            });
            ops.push(Operation {
                name: step.name.to_owned(),
                src_buff: step.sources.iter().map(local).collect(),
                dst_buff: target.into_iter().collect(),
                channel_ids: step.peer.as_ref().and_then(channel).into_iter().collect(),
                channel_type: step.peer.map(|_| MEMORY.to_owned()),
                reduce_op: (step.name == "re").then(|| "sum".to_owned()),
                ..Operation::default()
            });
        }
        if number + 1 < count {
            ops.push(Operation { name: "nop".to_owned(), ..Operation::default() });
            ops.push(semaphore("sem_release", number));
        }
        let place = |peer: &u32| peers.iter().position(|known| known == peer);
        let remote = |own: &(u32, Buffer)| remotes.iter().position(|known| known == own);
        Block {
            id: u32::try_from(number).unwrap_or(u32::MAX),
            ops,
            channels: vec![ChannelRefs {
                channel_type: MEMORY.to_owned(),
                channel_ids: own_peers.iter().filter_map(place).collect(),
            }],
            remote_buffer_refs: vec![RemoteRefs {
                access_channel_type: MEMORY.to_owned(),
                remote_buffer_ids: own_remotes.iter().filter_map(remote).collect(),
            }],
        }
    }
}
