//! Orders messages of unequal sizes, such as the exchanges of experts that are unequally popular.
//!
//! Direct messages are ordered as those of equal size ([`super::exchange`]): whenever links become free, the message whose
//! most loaded link has most left to carry goes first, and of those of a pair the largest. Others travel along trees.
//! Messages are cut into pieces of few sizes. Pieces of one size that share no link form a round, as far as each link
//! keeps its order.

use super::{Network, Round, Tree, Want, order, ways};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Most pieces of all messages.
const MOST_PIECES: usize = 1 << 14;

/// Up to this number of pieces, all sizes are tried.
const FEW_PIECES: usize = 1 << 9;

/// Part of the load of the busiest link that rounding may add: 1/128.
const MOST_WASTE: u64 = 128;

/// No smaller pieces are tried once the last arrival is within 1/128 of the load of the busiest link.
const NEARLY_LEAST: u64 = 128;

/// A piece of a message: `size` units from the unit `first` on. `first` is a multiple of `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The message, by its place in the list.
    pub message: usize,
    /// The first unit.
    pub first: u64,
    /// Number of units.
    pub size: u64,
}

/// The pieces of messages in rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ragged {
    /// The pieces.
    pub pieces: Vec<Piece>,
    /// The rounds in order, with pieces as chunks. All pieces of a round have one size.
    pub rounds: Vec<Round>,
    /// The time of the last arrival if hops have no latency, in units of [`Network::busy`].
    pub end: u64,
}

/// Cuts messages into pieces, and orders these; a busy time of the network is that of one unit of size. `None` if a taker
/// is unreachable, or there are too many messages.
///
/// A message is rounded up to a multiple of the smallest pieces, which are as large as the waste permits. The largest ones
/// are as large as the order permits: a link may wait for one that has begun.
///
/// - `wants`: the messages with their sizes.
/// - `most`: most units of a message. Sizes of pieces divide it.
///
/// # Panics
/// If a want names a device that is not in the network.
pub fn ragged(network: &Network, wants: &[Want], most: u64) -> Option<Ragged> {
    let direct: BTreeMap<(usize, usize), usize> =
        network.hops.iter().enumerate().map(|(number, hop)| ((hop.from, hop.to), number)).collect();
    let hop = |want: &Want| match (&want.holders[..], &want.takers[..]) {
        ([from], [to]) => direct.get(&(*from, *to)).copied(),
        _ => None,
    };
    let trees: Vec<Tree> = match wants.iter().map(hop).collect::<Option<Vec<usize>>>() {
        Some(hops) => hops.into_iter().map(|hop| vec![hop]).collect(),
        None => ways(network, wants)?,
    };
    let is_direct = trees.iter().all(|tree| tree.len() == 1);
    let sizes = sizes(most);
    let busiest = |grain: u64| {
        let mut carried = vec![0u64; network.busy.len()];
        for (want, tree) in wants.iter().zip(&trees) {
            for link in tree.iter().flat_map(|hop| &network.hops[*hop].links) {
                carried[*link] += network.busy[*link] * want.size.div_ceil(grain) * grain;
            }
        }
        carried.into_iter().max().unwrap_or(0)
    };
    let least = busiest(1);
    let is_small = |cap: u64, grain: u64| {
        let pieces = |want: &Want| cut(want.size, cap, grain, &sizes).count();
        wants.iter().map(pieces).sum::<usize>() <= MOST_PIECES
    };
    let wastes_little = |grain: &u64| busiest(*grain) <= least + least / MOST_WASTE;
    let grain = sizes.iter().copied().find(wastes_little).unwrap_or(1);
    // With a smaller grain there are more pieces.
    let grain = sizes.iter().rev().copied().find(|size| *size >= grain && is_small(most, *size))?;
    let mut best: Option<Ragged> = None;
    let mut idle = 0;
    for cap in sizes.iter().copied().filter(|size| *size >= grain) {
        let is_enough = |best: &Ragged| idle >= 2 && best.pieces.len() > FEW_PIECES;
        if best.as_ref().is_some_and(is_enough) || !is_small(cap, grain) {
            break;
        }
        let pieces: Vec<Piece> = (0..wants.len())
            .flat_map(|message| {
                let parts = cut(wants[message].size, cap, grain, &sizes);
                parts.map(move |(first, size)| Piece { message, first, size })
            })
            .collect();
        let starts = match is_direct {
            true => listed(network, &pieces, &trees),
            false => {
                let trees: Vec<Tree> = pieces.iter().map(|piece| trees[piece.message].clone()).collect();
                order::starts(network, &trees, &|piece| pieces[piece].size)
            }
        };
        let busy = |chunk: usize, hop: usize| {
            let times = network.hops[hop].links.iter().map(|link| network.busy[*link]);
            times.max().unwrap_or(0) * pieces[chunk].size
        };
        let end = starts.iter().map(|(start, chunk, hop)| start + busy(*chunk, *hop)).max().unwrap_or(0);
        let saves = best.as_ref().is_none_or(|best| end < best.end - best.end / NEARLY_LEAST);
        idle = if saves { 0 } else { idle + 1 };
        if saves {
            let kinds: Vec<u64> = pieces.iter().map(|piece| piece.size).collect();
            best = Some(Ragged { rounds: merged(network, starts, &kinds), pieces, end });
        }
        if end <= least + least / NEARLY_LEAST {
            break;
        }
    }
    best
}

/// Sizes of pieces, each a divisor of the one before, from the whole to 1.
fn sizes(most: u64) -> Vec<u64> {
    let mut sizes = vec![most.max(1)];
    while let Some(last) = sizes.last().copied().filter(|last| *last > 1) {
        let factor = (2..).take_while(|factor| factor * factor <= last).find(|factor| last % factor == 0);
        sizes.push(last / factor.unwrap_or(last));
    }
    sizes
}

/// The pieces of a message, the largest first: first unit and size.
fn cut(size: u64, cap: u64, grain: u64, sizes: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut left = size.div_ceil(grain) * grain;
    let mut first = 0;
    let mut allowed = sizes.iter().copied().filter(move |size| (grain..=cap).contains(size)).peekable();
    std::iter::from_fn(move || {
        while allowed.peek().is_some_and(|size| *size > left) {
            allowed.next();
        }
        let size = allowed.peek().copied().filter(|_| left > 0)?;
        let piece = (first, size);
        (first, left) = (first + size, left - size);
        Some(piece)
    })
}

/// The start of each piece of direct messages, with its number and hop.
///
/// - `trees`: the one hop of each message.
fn listed(network: &Network, pieces: &[Piece], trees: &[Tree]) -> Vec<(u64, usize, usize)> {
    let mut left = vec![0u64; network.busy.len()];
    // The pieces of each hop, the smallest first.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); network.hops.len()];
    let mut by_size: Vec<usize> = (0..pieces.len()).collect();
    by_size.sort_by_key(|piece| (pieces[*piece].size, Reverse(*piece)));
    for piece in by_size {
        let hop = trees[pieces[piece].message][0];
        waiting[hop].push(piece);
        for link in &network.hops[hop].links {
            left[*link] += network.busy[*link] * pieces[piece].size;
        }
    }
    // For each link its hops with messages, each with another link of it, if there is one.
    let mut over: Vec<Vec<(usize, usize)>> = vec![Vec::new(); network.busy.len()];
    for hop in (0..network.hops.len()).filter(|hop| !waiting[*hop].is_empty()) {
        let links = &network.hops[hop].links;
        for link in links {
            over[*link].push((hop, links.iter().copied().find(|other| other != link).unwrap_or(*link)));
        }
    }
    let devices = network.devices();
    let distance = |hop: usize| (network.hops[hop].to + devices - network.hops[hop].from) % devices;
    let mut free = vec![0u64; network.busy.len()];
    let mut starts = Vec::with_capacity(pieces.len());
    // The links that become free, by time.
    let mut events: BinaryHeap<Reverse<(u64, usize)>> = (0..free.len()).map(|link| Reverse((0, link))).collect();
    while let Some(Reverse((now, first))) = events.pop() {
        let mut freed = vec![first];
        while let Some(Reverse((_, link))) = events.peek().copied().filter(|Reverse((time, _))| *time == now) {
            events.pop();
            freed.push(link);
        }
        // The most loaded link chooses first.
        freed.sort_by_key(|link| (Reverse(left[*link]), *link));
        for link in freed {
            if free[link] > now {
                continue;
            }
            // Most hops have two links.
            let ready = over[link].iter().filter(|(hop, other)| {
                let links = &network.hops[*hop].links;
                free[*other] <= now && (links.len() <= 2 || links.iter().all(|link| free[*link] <= now))
            });
            let most = |(hop, other): &(usize, usize)| {
                let links = &network.hops[*hop].links;
                match links.len() {
                    ..=2 => left[*other],
                    _ => links.iter().filter(|own| **own != link).map(|own| left[*own]).max().unwrap_or(0),
                }
            };
            let best = ready.max_by_key(|(hop, other)| (most(&(*hop, *other)), Reverse(distance(*hop))));
            let Some((hop, _)) = best.copied() else { continue };
            let Some(piece) = waiting[hop].pop() else { continue };
            for link in &network.hops[hop].links {
                let busy = network.busy[*link] * pieces[piece].size;
                free[*link] = now + busy;
                left[*link] -= busy;
                events.push(Reverse((free[*link], *link)));
                if waiting[hop].is_empty() {
                    over[*link].retain(|(other, _)| *other != hop);
                }
            }
            starts.push((now, piece, hop));
        }
    }
    starts
}

/// Forms rounds of messages of one kind and direction. A round may begin with a message that starts late if none of its
/// links has another one before.
///
/// - `starts`: start, message and hop of each, in an order in which a message is at the start of its hop.
fn merged(network: &Network, mut starts: Vec<(u64, usize, usize)>, kinds: &[u64]) -> Vec<Round> {
    starts.sort_by_key(|(start, message, _)| (*start, kinds[*message]));
    let mut rounds: Vec<Round> = Vec::new();
    // For each link the first round that it may be in next; for each message and device the first that it may leave in.
    let mut after = vec![0usize; network.busy.len()];
    let mut there: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    let mut of_kind: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    // The devices that send and that receive in each round.
    let mut ends: Vec<[Vec<bool>; 2]> = Vec::new();
    for (start, message, number) in starts {
        let hop = &network.hops[number];
        let first = hop.links.iter().map(|link| after[*link]).max().unwrap_or(0);
        let first = first.max(there.get(&(message, hop.from)).copied().unwrap_or(0));
        let known = of_kind.entry((kinds[message], hop.direction)).or_default();
        let later = &known[known.partition_point(|round| *round < first)..];
        let is_free = |round: &&usize| !ends[**round][0][hop.from] && !ends[**round][1][hop.to];
        let round = later.iter().find(is_free).copied().unwrap_or_else(|| {
            known.push(rounds.len());
            rounds.push(Round { start, direction: hop.direction, hops: Vec::new() });
            ends.push([vec![false; network.devices()], vec![false; network.devices()]]);
            rounds.len() - 1
        });
        ends[round][0][hop.from] = true;
        ends[round][1][hop.to] = true;
        rounds[round].hops.push((message, number));
        hop.links.iter().for_each(|link| after[*link] = round + 1);
        there.insert((message, hop.to), round + 1);
    }
    rounds
}
