//! Small networks: all data arrives, no link carries two chunks at once, and loads are near the minimum.

use super::*;
use std::collections::BTreeMap;

/// A ring or line of devices with one link in each direction.
fn along(devices: usize, is_ring: bool) -> Network {
    let mut hops = Vec::new();
    for at in 0..devices {
        for (direction, to) in [(0, at + 1), (1, at + devices - 1)] {
            let wraps = if direction == 0 { to >= devices } else { to < devices };
            if !wraps || is_ring {
                hops.push(Hop { from: at, to: to % devices, links: vec![hops.len()], direction });
            }
        }
    }
    let busy = vec![1; hops.len()];
    Network::new(devices, hops, busy)
}

/// A switch with an outgoing and an incoming port per device.
fn switch(devices: usize) -> Network {
    let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let hop = |(from, to)| Hop { from, to, links: vec![from, devices + to], direction: 0 };
    Network::new(devices, pairs.map(hop).collect(), vec![1; 2 * devices])
}

/// Executes the rounds step by step. Returns the time of the last arrival.
///
/// # Panics
/// If a device sends a chunk that it does not have, a link carries two at once, or a device sends or receives two in
/// a round.
fn replayed(network: &Network, wants: &[Want], rounds: &[Round]) -> u64 {
    let mut there: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (chunk, want) in wants.iter().enumerate() {
        want.holders.iter().for_each(|device| {
            there.insert((chunk, *device), 0);
        });
    }
    let mut free = vec![0; network.busy.len()];
    let mut end = 0;
    for round in rounds {
        let (mut senders, mut receivers) = (vec![false; network.devices()], vec![false; network.devices()]);
        for (chunk, hop) in &round.hops {
            let Hop { from, to, links, direction } = &network.hops[*hop];
            assert_eq!(*direction, round.direction);
            assert!(there.get(&(*chunk, *from)).is_some_and(|arrived| *arrived <= round.start), "it is not there yet");
            assert!(!std::mem::replace(&mut senders[*from], true) && !std::mem::replace(&mut receivers[*to], true));
            let busy = links.iter().map(|link| network.busy[*link]).max().unwrap_or(0);
            for link in links {
                assert!(free[*link] <= round.start, "a link has two chunks at once");
                free[*link] = round.start + busy;
            }
            assert!(there.insert((*chunk, *to), round.start + busy).is_none(), "it is there already");
            end = end.max(round.start + busy);
        }
    }
    for (chunk, want) in wants.iter().enumerate() {
        assert!(want.takers.iter().all(|device| there.contains_key(&(chunk, *device))), "chunk {chunk} is lacking");
    }
    end
}

fn time(network: &Network, wants: &[Want]) -> u64 {
    let trees = ways(network, wants).expect("all are joined");
    replayed(network, wants, &rounds(network, &trees))
}

fn times(want: &Want, chunks: usize) -> Vec<Want> {
    vec![want.clone(); chunks]
}

#[test]
fn everything_arrives_and_nothing_collides() {
    for network in [along(2, false), along(5, false), along(6, true), switch(5)] {
        let devices = network.devices();
        // From one to all, from all to one, from each to the opposite one, from replicas.
        let others = |one: usize| (0..devices).filter(move |device| *device != one).collect::<Vec<_>>();
        let to_all = Want { holders: vec![0], takers: others(0), size: 1 };
        let to_one = (1..devices).map(|from| Want { holders: vec![from], takers: vec![0], size: 1 });
        let across = (0..devices).map(|from| Want {
            holders: vec![from],
            takers: vec![(from + devices / 2) % devices],
            size: 1,
        });
        let copies = Want { holders: vec![0, devices - 1], takers: (1..devices - 1).collect(), size: 1 };
        for wants in [times(&to_all, 4), to_one.collect(), across.collect(), times(&copies, 3)] {
            time(&network, &wants);
        }
    }
}

/// Closed forms: in a gather, an exchange of opposite devices and a broadcast, the busiest links are always busy.
#[test]
fn what_is_best_is_found_where_it_is_known() {
    let ring = along(6, true);
    // Each shard travels half the ring in both directions: five arrivals over two links into a device, in two chunks.
    let gather = (0..6).flat_map(|from| {
        let takers = (0..6).filter(|device| *device != from).collect();
        times(&Want { holders: vec![from], takers, size: 1 }, 2)
    });
    assert_eq!(time(&ring, &gather.collect::<Vec<_>>()), 5);
    // Three hops, with half of each block in each direction: each link carries three halves.
    let across = (0..6).flat_map(|from| times(&Want { holders: vec![from], takers: vec![(from + 3) % 6], size: 1 }, 2));
    assert_eq!(time(&ring, &across.collect::<Vec<_>>()), 3);
    // All chunks leave by one port, one after the other.
    let takers = (1..5).map(|to| Want { holders: vec![0], takers: vec![to], size: 1 });
    assert_eq!(time(&switch(5), &takers.collect::<Vec<_>>()), 4);
    // On a line, all chunks for the last device use the last link.
    let last = (0..4).map(|from| Want { holders: vec![from], takers: vec![4], size: 1 });
    assert_eq!(time(&along(5, false), &last.collect::<Vec<_>>()), 4);
}

/// A slow link is avoided if there are alternatives.
#[test]
fn slow_links_carry_less() {
    let mut ring = along(4, true);
    ring.busy[0] = 10;
    let wants: Vec<Want> = times(&Want { holders: vec![0], takers: vec![1], size: 1 }, 4);
    // Three sequential hops in the other direction: 4 + 2.
    assert_eq!(time(&ring, &wants), 6);
}

#[test]
fn there_may_be_no_way() {
    let apart = Network::new(2, Vec::new(), Vec::new());
    assert_eq!(ways(&apart, &[Want { holders: vec![0], takers: vec![1], size: 1 }]), None);
}

/// Prices of hops differ by more digits than a number has, so that a cheap hop after a dear one adds nothing. Paths still
/// begin at a device that has the chunk.
#[test]
fn ways_begin_at_holders_where_loads_differ_widely() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let devices = random.usize(4..12);
        let mut hops: Vec<Hop> = Vec::new();
        for at in 0..devices {
            for to in [(at + 1) % devices, random.usize(0..devices), random.usize(0..devices)] {
                for (from, to) in [(at, to), (to, at)].into_iter().filter(|(from, to)| from != to) {
                    hops.push(Hop { from, to, links: vec![hops.len()], direction: 0 });
                }
            }
        }
        let busy = hops.iter().map(|_| [1, 10, 100][random.usize(0..3)]).collect();
        let network = Network::new(devices, hops, busy);
        let wants: Vec<Want> = (0..40)
            .map(|_| {
                let holder = random.usize(0..devices);
                let takers = (0..devices).filter(|device| *device != holder && random.bool()).collect();
                Want { holders: vec![holder], takers, size: 1 }
            })
            .collect();
        let trees = ways(&network, &wants).expect("all are joined");
        replayed_in_order(&network, &wants, &trees);
    }
}

/// Checks that each tree brings its chunk to all takers.
fn replayed_in_order(network: &Network, wants: &[Want], trees: &[Tree]) {
    for (want, tree) in wants.iter().zip(trees) {
        let mut there = want.holders.clone();
        for hop in tree {
            assert!(there.contains(&network.hops[*hop].from), "it is not there yet");
            there.push(network.hops[*hop].to);
        }
        assert!(want.takers.iter().all(|taker| there.contains(taker)), "a taker is lacking");
    }
}

/// All ordered pairs of a switch take one round less than there are devices; over links that some of them share, an exchange
/// takes little more than its busiest link.
#[test]
fn exchanges_keep_the_busiest_link_busy() {
    for devices in 2..=16 {
        let network = switch(devices);
        let messages: Vec<usize> = (0..network.hops.len()).collect();
        let rounds = exchange(&network, &messages);
        assert_eq!(rounds.len(), devices - 1);
        assert_eq!(end_of(&network, &messages, &rounds), devices as u64 - 1);
    }
    let mut random = fastrand::Rng::with_seed(17);
    for case in 0..60 {
        // Leaves with as many devices each, and fewer links up and down than devices.
        let (leaves, each) = (random.usize(2..=6), random.usize(2..=6));
        let (devices, spines) = (leaves * each, random.usize(1..=each));
        let up = |leaf: usize, spine: usize| 2 * devices + leaf * spines + spine;
        let down = |leaf: usize, spine: usize| 2 * devices + leaves * spines + leaf * spines + spine;
        let pairs =
            (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let hops = pairs.map(|(from, to)| {
            let (ports, spine) = (vec![from, devices + to], to % spines);
            let between = [up(from / each, spine), down(to / each, spine)];
            let links = if from / each == to / each { ports } else { [ports, between.to_vec()].concat() };
            Hop { from, to, links, direction: 0 }
        });
        let busy = (0..2 * devices + 2 * leaves * spines).map(|_| if case % 2 == 0 { 1 } else { random.u64(1..=3) });
        let network = Network::new(devices, hops.collect(), busy.collect());
        let messages: Vec<usize> = (0..network.hops.len()).collect();
        let rounds = exchange(&network, &messages);
        let load = |link: usize| {
            network.busy[link] * network.hops.iter().filter(|hop| hop.links.contains(&link)).count() as u64
        };
        let least = (0..network.busy.len()).map(load).max().unwrap_or(0);
        let end = end_of(&network, &messages, &rounds);
        assert!(
            least <= end && end <= least + least / 5 + 4,
            "{leaves} leaves of {each}, {spines} spines: {end} of {least}"
        );
    }
}

/// The end of an exchange whose links are each busy for their own time.
///
/// # Panics
/// If a message is sent twice or never, a link carries two at once, or a device sends or receives two in a round.
fn end_of(network: &Network, messages: &[usize], rounds: &[Round]) -> u64 {
    let (mut sent, mut free, mut end) = (vec![false; messages.len()], vec![0; network.busy.len()], 0);
    for round in rounds {
        let (mut senders, mut receivers) = (vec![false; network.devices()], vec![false; network.devices()]);
        for (message, hop) in &round.hops {
            assert_eq!(messages[*message], *hop);
            let Hop { from, to, links, .. } = &network.hops[*hop];
            assert!(!std::mem::replace(&mut sent[*message], true));
            assert!(!std::mem::replace(&mut senders[*from], true) && !std::mem::replace(&mut receivers[*to], true));
            for link in links {
                assert!(free[*link] <= round.start, "a link has two messages at once");
                free[*link] = round.start + network.busy[*link];
                end = end.max(free[*link]);
            }
        }
    }
    assert!(sent.into_iter().all(|sent| sent));
    end
}

/// The busiest port's time, if it is never idle.
fn of_busiest_port(devices: usize, load: &dyn Fn(usize, usize) -> u64) -> u64 {
    let others = |at: usize| (0..devices).filter(move |other| *other != at);
    let out = (0..devices).map(|from| others(from).map(|to| load(from, to)).sum::<u64>());
    let into = (0..devices).map(|to| others(to).map(|from| load(from, to)).sum::<u64>());
    out.chain(into).max().unwrap_or(0)
}

/// The slots that each device has for each other one, of five kinds: even, popular experts, few large ones, long tails, and
/// those of a few senders.
fn random_loads(random: &mut fastrand::Rng, devices: usize, most: u64, kind: usize) -> Vec<Vec<u64>> {
    let mut popular: Vec<u64> = (0..devices as u64).collect();
    random.shuffle(&mut popular);
    let mut load = |from: usize, to: usize| match kind {
        0 => random.u64(0..=most),
        1 => (most / (popular[to] + 1) + random.u64(0..8)).min(most),
        2 => {
            if random.u8(..) < 40 {
                most
            } else {
                random.u64(0..=most / 16)
            }
        }
        3 => most * random.u64(0..=16).pow(4) / (1 << 16),
        _ => {
            if popular[from] < 2 {
                random.u64(0..=most)
            } else {
                random.u64(0..=2)
            }
        }
    };
    (0..devices).map(|from| (0..devices).map(|to| load(from, to)).collect()).collect()
}

/// Exchanges of random loads over a switch: all data arrives once, no port carries two pieces at once, and the last piece
/// arrives at most 2 % after the time for which the busiest port is busy.
#[test]
fn unequal_messages_take_the_time_of_the_busiest_port() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut worst: f64 = 0.0;
    for number in 0..1000 {
        let devices = [4, 8, 16, 32, 64][if number % 50 == 0 { 4 } else { number % 4 }];
        let most = [512, 1024, 384, 2048][number / 4 % 4];
        let loads = random_loads(&mut random, devices, most, number % 5);
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from != to && loads[*from][*to] > 0);
        let want = |(from, to): (usize, usize)| Want { holders: vec![from], takers: vec![to], size: loads[from][to] };
        let wants: Vec<Want> = pairs.map(want).collect();
        let network = switch(devices);
        let found = ragged(&network, &wants, most).expect("all are linked");
        let end = replayed_ragged(&network, &wants, &found);
        let least = of_busiest_port(devices, &|from, to| loads[from][to]);
        assert!(end <= found.end && found.end >= least, "{number}: {end} of {}, at least {least}", found.end);
        let ratio = end as f64 / least.max(1) as f64;
        worst = worst.max(ratio);
    }
    assert!(worst <= 1.02, "{worst}");
}

/// The time of the last arrival if each port serves pieces in the order of the rounds.
///
/// # Panics
/// If a piece is lacking, sent twice, or not where it is sent from, or if a round has pieces of two sizes.
fn replayed_ragged(network: &Network, wants: &[Want], found: &Ragged) -> u64 {
    let mut there: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (chunk, piece) in found.pieces.iter().enumerate() {
        assert_eq!(piece.first % piece.size, 0);
        there.extend(wants[piece.message].holders.iter().map(|device| ((chunk, *device), 0)));
    }
    let mut free = vec![0; network.busy.len()];
    for round in &found.rounds {
        let (mut senders, mut receivers) = (vec![false; network.devices()], vec![false; network.devices()]);
        for (chunk, hop) in &round.hops {
            let Hop { from, to, links, .. } = &network.hops[*hop];
            assert_eq!(found.pieces[*chunk].size, found.pieces[round.hops[0].0].size);
            assert!(!std::mem::replace(&mut senders[*from], true) && !std::mem::replace(&mut receivers[*to], true));
            let start = links.iter().map(|link| free[*link]).max().unwrap_or(0).max(there[&(*chunk, *from)]);
            let busy = links.iter().map(|link| network.busy[*link]).max().unwrap_or(0) * found.pieces[*chunk].size;
            links.iter().for_each(|link| free[*link] = start + busy);
            assert!(there.insert((*chunk, *to), start + busy).is_none(), "it is there already");
        }
    }
    let mut got = vec![0; wants.len()];
    for (chunk, piece) in found.pieces.iter().enumerate() {
        assert!(wants[piece.message].takers.iter().all(|device| there.contains_key(&(chunk, *device))));
        assert_eq!(piece.first, got[piece.message], "pieces follow each other");
        got[piece.message] += piece.size;
    }
    assert!(got.iter().zip(wants).all(|(got, want)| *got >= want.size), "all units are in pieces");
    there.into_values().max().unwrap_or(0)
}
