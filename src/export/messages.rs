//! The messages between ranks and their dependencies: the input of network simulators.
//!
//! There are no buffers, so the correctness of the data cannot be checked. The checks are: every message is sent and
//! received once with one length, there is no deadlock, and each rank hears, directly or indirectly, from all ranks
//! that contribute to its result.

use super::ranks::cells::{Cells, in_cells};
use super::ranks::collective::Collective;
use super::ranks::machine::{Turn, in_turns};
use super::ranks::place::{elements, places};
use super::ranks::{Kind, Refused};
use crate::mesh::DeviceId;
use crate::schedule::presence::Presence;
use crate::schedule::{OpId, OpKind, Region, Verified};
use crate::topology::{LocalMoves, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
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
        /// Bytes read from memory and written to it.
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

/// Largest tag: Chakra stores it in 32 signed bits, as it does ranks.
const MOST_TAG: u32 = i32::MAX.cast_unsigned();

/// Largest length of a message: Chakra stores it in 64 signed bits.
const MOST_BYTES: u64 = i64::MAX.cast_unsigned();

/// The most nodes that each user of a value waits for one by one; with more, they wait for a node that joins them.
const MOST_AWAITED: usize = 16;

/// How blocks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// A block is one message, and an operation waits for the whole blocks of its operands, as the clock has it.
    Whole,
    /// The parts of a block that arrive with different messages are sent one by one; small ones are joined.
    ///
    /// Simulators serve messages in the order in which they are ready, not in that of the schedule. Where a schedule
    /// relies on its order, as on tori of unequal sides, parts that leave as soon as they are there keep the links busy.
    Parts {
        /// The least bytes of a part, except of a smaller block. A link that carries this many in one latency loses nothing
        /// by the parts.
        least: u64,
    },
}

impl Sending {
    /// Parts that take the links of a machine at least as long as a hop's latency.
    pub fn parts(topology: &Topology) -> Sending {
        let of_links = topology.axes.iter().map(|links| {
            let latency = topology.scale.whole_picoseconds(links.hop_latency);
            latency.saturating_mul(u128::from(links.one_way.per_second())) / 1_000_000_000_000
        });
        Sending::Parts { least: u64::try_from(of_links.max().unwrap_or(0)).unwrap_or(u64::MAX) }
    }
}

/// The messages of a schedule of one collective, in the order of the schedule.
///
/// A message is one send and one receive, whatever its strides. Slices, assemblies and additions are nodes only if the
/// profile says that they take time.
///
/// # Errors
/// If the schedule is not a single collective, or has too many cells.
pub fn messages(
    schedule: Verified<'_>,
    local_moves: LocalMoves,
    sending: Sending,
) -> Result<(Kind, Messages), Refused> {
    let collective = Collective::of(&schedule)?;
    let cells = in_cells(&schedule)?;
    let mesh = &schedule.schedule().mesh;
    let numbers = mesh.devices().map(|device| collective.rank(mesh, device)).collect();
    let mut list = Listing {
        schedule,
        cells: &cells,
        local_moves,
        sending,
        numbers,
        ranks: vec![Vec::new(); mesh.device_count()],
        blocks: Vec::new(),
        sent: BTreeMap::new(),
    };
    schedule.ids().for_each(|id| list.operation(id));
    Ok((collective.kind, Messages { ranks: list.ranks }))
}

/// Nodes of a rank.
type Nodes = Rc<[usize]>;

/// A cell of a device's block: its element of the array of cells, and the nodes after which it is there.
type Cell = (usize, Nodes);

/// The nodes of all ranks under construction.
struct Listing<'s> {
    schedule: Verified<'s>,
    cells: &'s Cells,
    local_moves: LocalMoves,
    sending: Sending,
    /// Rank of each device.
    numbers: Vec<usize>,
    ranks: Vec<Vec<Node>>,
    /// By operation and device: the cells of the block; `None` if it is never there.
    blocks: Vec<Vec<Option<Rc<[Cell]>>>>,
    /// Number of messages between two ranks so far.
    sent: BTreeMap<(usize, usize), u32>,
}

impl Listing<'_> {
    fn operation(&mut self, id: OpId) {
        let schedule = self.schedule.schedule();
        let (small, operands) = (self.cells.schedule.operation(id), schedule.operands(id));
        let presence = Presence::of(self.schedule, id);
        let has = |place: usize, device: DeviceId| {
            let operand: OpId = operands[place];
            self.blocks[operand.index()][device.index()].is_some()
        };
        let there: Vec<bool> = schedule.mesh.devices().map(|device| presence.at(device, has)).collect();
        let mut blocks = vec![None; there.len()];
        for device in schedule.mesh.devices().filter(|device| there[device.index()]) {
            blocks[device.index()] = Some(match &small.kind {
                OpKind::Input { sharding, .. } => {
                    let none: Nodes = Rc::new([]);
                    let extents = &self.cells.schedule.arrays[0].extents;
                    let elements = elements(extents, sharding, &schedule.mesh, device).into_iter();
                    elements.map(|element| (usize::try_from(element).unwrap_or(usize::MAX), none.clone())).collect()
                }
                OpKind::Shuffle { sources, .. } => {
                    self.messages(operands[0], sources.of(&schedule.mesh, device).unwrap_or(device), device)
                }
                _ => self.local(id, &operands, device),
            });
        }
        self.blocks.push(blocks);
    }

    /// Sends a block to another device, in one message for all cells that are there after the same nodes.
    fn messages(&mut self, operand: OpId, source: DeviceId, device: DeviceId) -> Rc<[Cell]> {
        let block = self.block(operand, source).unwrap_or_default();
        if source == device {
            return block;
        }
        let dtype = self.schedule.schedule().operation(operand).dtype;
        let mut parts: Vec<(Nodes, u64)> = Vec::new();
        let mut part_of: BTreeMap<Nodes, usize> = BTreeMap::new();
        for (cell, after) in block.iter() {
            let part = *part_of.entry(after.clone()).or_insert_with(|| {
                parts.push((after.clone(), 0));
                parts.len() - 1
            });
            parts[part].1 += self.cells.sizes[*cell];
        }
        parts.iter_mut().for_each(|(_, size)| *size = dtype.bytes(*size));
        if let Sending::Parts { least } = self.sending
            && parts.iter().any(|(_, bytes)| *bytes < least)
        {
            let places = join(&mut parts, least);
            part_of.values_mut().for_each(|part| *part = places[*part]);
        }
        let [from, to] = [source, device].map(|device| self.numbers[device.index()]);
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        let mut received: Vec<Nodes> = Vec::new();
        for (after, bytes) in parts {
            let next = self.sent.entry((from, to)).or_default();
            let tag = *next;
            *next += 1;
            self.push(from, What::Send { to: number(to), tag, bytes }, &after);
            received.push(Rc::new([self.push(to, What::Receive { from: number(from), tag, bytes }, &[])]));
        }
        block.iter().map(|(cell, after)| (*cell, received[part_of[after]].clone())).collect()
    }

    /// The block that a device computes of those of the operands that are there.
    fn local(&mut self, id: OpId, operands: &[OpId], device: DeviceId) -> Rc<[Cell]> {
        let schedule = self.schedule.schedule();
        let blocks: Vec<Option<Rc<[Cell]>>> = operands.iter().map(|operand| self.block(*operand, device)).collect();
        let mut cells = self.combined(id, &blocks, device);
        let written = schedule.operation(id).bytes();
        let present = operands.iter().zip(&blocks).filter(|(_, block)| block.is_some());
        let read: u64 = present.map(|(operand, _)| schedule.operation(*operand).bytes()).sum();
        let bytes = match (&schedule.operation(id).kind, self.local_moves) {
            (_, LocalMoves::Free) => 0,
            // A slice reads only the part of the operand that it keeps.
            (OpKind::Slice { .. }, LocalMoves::Memory) => 2 * written,
            (_, LocalMoves::Memory) => read + written,
        };
        let rank = self.numbers[device.index()];
        if bytes > 0 {
            let node: Nodes = Rc::new([self.push(rank, What::Compute { bytes }, &merged(&cells))]);
            cells.iter_mut().for_each(|(_, after)| *after = node.clone());
        } else if self.sending == Sending::Whole {
            let all = merged(&cells);
            cells.iter_mut().for_each(|(_, after)| *after = all.clone());
        }
        if schedule.operations.neighbors(id).count() > 1 {
            let mut joined: BTreeMap<Nodes, Nodes> = BTreeMap::new();
            for (_, after) in cells.iter_mut().filter(|(_, after)| after.len() > MOST_AWAITED) {
                let join = || -> Nodes { Rc::new([self.push(rank, What::Compute { bytes: 0 }, after)]) };
                *after = joined.entry(after.clone()).or_insert_with(join).clone();
            }
        }
        cells.into()
    }

    /// The cells of a slice, an assembly or a sum.
    fn combined(&self, id: OpId, blocks: &[Option<Rc<[Cell]>>], device: DeviceId) -> Vec<Cell> {
        let (small, mesh) = (self.cells.schedule.operation(id), &self.cells.schedule.mesh);
        let placed = |view: &[u64], region: &Region| places(mesh, device, view, region).unwrap_or_default();
        match &small.kind {
            OpKind::Slice { view, region } => {
                let block = blocks[0].as_deref().unwrap_or_default();
                placed(view, region).into_iter().map(|place| block[place].clone()).collect()
            }
            OpKind::Assemble { view, places, .. } => {
                let there = blocks.iter().zip(places).filter_map(|(block, region)| Some((block.as_ref()?, region)));
                let cells = there.flat_map(|(block, region)| placed(view, region).into_iter().zip(block.iter()));
                let by_place: BTreeMap<usize, &Cell> = cells.collect();
                by_place.into_values().cloned().collect()
            }
            _ => {
                let mut there = blocks.iter().flatten();
                let first = there.next().map(|block| block.to_vec()).unwrap_or_default();
                there.fold(first, |sums, block| {
                    let both = sums.into_iter().zip(block.iter());
                    both.map(|((cell, one), (_, other))| (cell, union(&one, other))).collect()
                })
            }
        }
    }

    fn block(&self, id: OpId, device: DeviceId) -> Option<Rc<[Cell]>> {
        self.blocks[id.index()][device.index()].clone()
    }

    fn push(&mut self, rank: usize, what: What, after: &[usize]) -> usize {
        let nodes = &mut self.ranks[rank];
        nodes.push(Node { what, after: after.to_vec() });
        nodes.len() - 1
    }
}

/// Joins parts of a block, in the order in which they are there, until each has at least this many bytes. Returns the new
/// place of each part.
fn join(parts: &mut Vec<(Nodes, u64)>, least: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|part| parts[*part].0.last().copied());
    let mut places = vec![0; parts.len()];
    let mut joined: Vec<(Nodes, u64)> = Vec::new();
    // A part is closed once the rest suffices for another one.
    let mut rest: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    for part in order {
        let (after, bytes) = &parts[part];
        match joined.last_mut().filter(|(_, size)| *size < least || rest < least) {
            Some((all, size)) => (*all, *size) = (union(all, after), *size + bytes),
            None => joined.push((after.clone(), *bytes)),
        }
        rest -= bytes;
        places[part] = joined.len() - 1;
    }
    *parts = joined;
    places
}

/// The nodes after which all cells are there.
fn merged(cells: &[Cell]) -> Nodes {
    let all: BTreeSet<usize> = cells.iter().flat_map(|(_, after)| after.iter().copied()).collect();
    all.into_iter().collect()
}

fn union(one: &Nodes, other: &Nodes) -> Nodes {
    let all: BTreeSet<usize> = one.iter().chain(other.iter()).copied().collect();
    all.into_iter().collect()
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
            let (other, tag, bytes) = match node.what {
                What::Send { to, tag, bytes } => (Some(to as usize), tag, bytes),
                What::Receive { from, tag, bytes } => (Some(from as usize), tag, bytes),
                What::Compute { bytes } => (None, 0, bytes),
            };
            if tag > MOST_TAG {
                return wrong(rank, number, &format!("its tag is {tag}; the limit is {MOST_TAG}"));
            }
            if bytes > MOST_BYTES {
                return wrong(rank, number, &format!("it has {bytes} bytes; the limit is {MOST_BYTES}"));
            }
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
    let mut heard: Vec<Vec<Option<Ranks>>> = messages.ranks.iter().map(|nodes| vec![None; nodes.len()]).collect();
    let of_rank = |(rank, nodes): (usize, &Vec<Node>)| (0..nodes.len()).map(move |node| (rank, node));
    let all: Vec<(usize, usize)> = messages.ranks.iter().enumerate().flat_map(of_rank).collect();
    let waiting = in_turns(all.len(), |place| {
        let (rank, number) = all[place];
        let node = &messages.ranks[rank][number];
        let mut known = Ranks::one(rank, n);
        let mut is_ready = true;
        let mut hear = |from: &Option<Ranks>| match from {
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
        let mut all = Ranks::one(rank, n);
        heard.iter().flatten().for_each(|known| all.extend(known));
        let wanted = match kind {
            Kind::Broadcast => 0..1.min(n),
            Kind::AllGather | Kind::ReduceScatter | Kind::AllReduce | Kind::AllToAll => 0..n,
        };
        if let Some(of) = wanted.into_iter().find(|of| !all.contains(*of)) {
            return Err(Flaw::Unheard { rank, of });
        }
    }
    Ok(())
}

/// A set of ranks, one bit each.
#[derive(Clone)]
struct Ranks(Vec<u64>);

impl Ranks {
    /// One of `n` ranks.
    fn one(rank: usize, n: usize) -> Ranks {
        let mut ranks = Ranks(vec![0; n.div_ceil(64)]);
        ranks.0[rank / 64] |= 1 << (rank % 64);
        ranks
    }

    fn extend(&mut self, more: &Ranks) {
        self.0.iter_mut().zip(&more.0).for_each(|(own, more)| *own |= more);
    }

    fn contains(&self, rank: usize) -> bool {
        self.0[rank / 64] >> (rank % 64) & 1 == 1
    }
}
