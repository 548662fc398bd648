//! Fabrics: the wirings that they list, closed forms, and a second simulator with routes by exhaustive search.

use super::super::{Order, run_in};
use super::*;
use crate::mesh::DeviceId;
use crate::topology::listed::{End, Links};
use crate::topology::{HopRule, Network, WiringRule};
use crate::units::Rate;
use std::collections::BTreeMap;

const BOTH: [HopRule; 2] = [HopRule::Larger, HopRule::Sum];

/// Hardware with one network of this wiring: 45 GB/s, 1 us.
fn hardware(hop_rule: HopRule, wiring: Wiring) -> Hardware {
    let hardware = Hardware::named("tpu_v5e").expect("shipped");
    let network = Network { wiring: WiringRule::Always(wiring), ..hardware.network.clone() };
    Hardware { name: "fabric".to_owned(), hop_rule, network, beyond: Vec::new(), ..hardware }
}

/// Hardware with these links of a fabric; a switch has the name `s` and its number.
fn fabric(hop_rule: HopRule, switches: usize, links: Vec<Links>) -> Hardware {
    let mut hardware = hardware(hop_rule, Wiring::Fabric);
    hardware.network.switches = (0..switches).map(switch).collect();
    hardware.network.links = links;
    hardware
}

fn switch(number: usize) -> String {
    format!("s{number}")
}

fn device(number: usize) -> End {
    End::Device(u32::try_from(number).expect("few"))
}

/// Links in both directions, with a rate in GB/s and a latency in ps.
fn links(between: Vec<[End; 2]>, rate: u64, latency: u64) -> Links {
    Links { between, from_to: Vec::new(), one_way: Rate::new(rate * 1_000_000_000), hop_latency: Some(latency) }
}

/// The links of a wiring, listed.
fn listed(hop_rule: HopRule, wiring: Wiring, n: usize) -> Hardware {
    let pairs = |all: Vec<(usize, usize)>| all.into_iter().map(|(a, b)| [device(a), device(b)]).collect();
    match wiring {
        Wiring::Ring => {
            let around = pairs((0..n).map(|at| (at, (at + 1) % n)).collect());
            fabric(hop_rule, 0, vec![links(around, 45, 1_000_000)])
        }
        Wiring::Line => {
            let along = pairs((1..n).map(|at| (at - 1, at)).collect());
            fabric(hop_rule, 0, vec![links(along, 45, 1_000_000)])
        }
        Wiring::Full => {
            let all = pairs((0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect());
            fabric(hop_rule, 0, vec![links(all, 45, 1_000_000)])
        }
        Wiring::Switch | Wiring::Fabric => {
            let ports = (0..n).map(|at| [device(at), End::Switch(switch(0))]).collect();
            fabric(hop_rule, 1, vec![links(ports, 45, 500_000)])
        }
    }
}

/// A fabric that lists the links of a ring, a line, a full mesh or a switch gives the times of these.
#[test]
fn the_links_of_a_wiring_take_its_times() {
    let mut random = fastrand::Rng::with_seed(11);
    for case in 0..200 {
        let wiring = *random.choice(&Wiring::ALL).expect("some");
        let (rule, n) = (*random.choice(&BOTH).expect("some"), random.u32(3..=7));
        let overhead = *random.choice(&[0, 300_000]).expect("some");
        let pair = [hardware(rule, wiring), listed(rule, wiring, n as usize)].map(|mut hardware| {
            hardware.network.message_overhead = overhead;
            wired(hardware, &[n], None)
        });
        let bytes = *random.choice(&[64, 60_000, 1_000_000]).expect("some");
        let mut builder = Builder::new(&pair[0]);
        let mut values = vec![builder.input(&[bytes]), builder.input(&[bytes])];
        for _ in 0..random.usize(1..8) {
            let [one, two] = [0, 1].map(|_| *random.choice(&values).expect("some"));
            let value = match random.u32(0..4) {
                0 => builder.add(&[one, two]),
                1 => {
                    let by = random.i64(1 - i64::from(n)..i64::from(n));
                    builder.shift(one, X, by, random.bool(), Route::Shortest)
                }
                _ => {
                    let sources = oracle::random_sources(&mut random, &pair[0].mesh);
                    builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[bytes], &[one])
                }
            };
            values.push(value);
        }
        for order in [Order::Listed, Order::Arrival] {
            let [regular, listed] =
                [0, 1].map(|which| run_in(&builder.schedule, &pair[which], order).expect("a sound schedule").makespan);
            let ticks = [regular.ticks() * listed_ticks(&pair[1]), listed.ticks() * listed_ticks(&pair[0])];
            assert_eq!(ticks[0], ticks[1], "case {case}: {wiring:?} of {n}, {order:?}");
        }
    }
}

/// Ticks per picosecond.
fn listed_ticks(topology: &Topology) -> u128 {
    topology.scale.picoseconds(1).ticks()
}

/// The time of `bytes` at a rate in GB/s.
fn at(topology: &Topology, bytes: u64, rate: u64) -> Time {
    topology.scale.at_rate(u128::from(bytes), Rate::new(rate * 1_000_000_000).expect("a rate"))
}

/// One message of latency `latency`.
fn message(topology: &Topology, latency: Time, bandwidth: Time) -> Time {
    match topology.hardware.hop_rule {
        HopRule::Larger => latency.max(bandwidth),
        HopRule::Sum => latency + bandwidth,
    }
}

/// Nodes of 4 devices with a switch each, and a switch per rail that joins the devices with the same place in a node.
///
/// A gather along X uses the node switches, one along D the rails: (n-2) messages on a port, and the last one. A message to
/// another node and another rail is forwarded by a device.
#[test]
fn rails() {
    const BYTES: u64 = 1_000_000;
    for (rule, nodes) in BOTH.into_iter().flat_map(|rule| (2..=4).map(move |nodes| (rule, nodes))) {
        let ports = |of: &dyn Fn(usize) -> usize| {
            (0..4 * nodes).map(|at| [device(at), End::Switch(switch(of(at)))]).collect::<Vec<_>>()
        };
        let inside = links(ports(&|at| at / 4), 450, 500_000);
        let rails = links(ports(&|at| nodes + at % 4), 50, 2_500_000);
        let topology =
            wired(fabric(rule, nodes + 4, vec![inside, rails]), &[u32::try_from(nodes).expect("few"), 4], None);
        for (axis, size, rate, latency) in [(0, nodes as u64, 50, 5), (1, 4, 450, 1)] {
            let mut builder = Builder::new(&topology);
            let input = builder.input(&[BYTES]);
            for by in 1..size {
                builder.shift(input, axis, i64::try_from(by).expect("few"), true, Route::Shortest);
            }
            let bandwidth = at(&topology, BYTES, rate);
            let expected = bandwidth * (size - 2) + message(&topology, us(&topology, latency), bandwidth);
            assert_eq!(builder.time(&topology).makespan, expected, "along {axis} of {nodes} nodes");
        }
        // From device 0 to the last one.
        let last = u32::try_from(4 * nodes - 1).expect("few");
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[BYTES]);
        let mut entries = vec![None; 4 * nodes];
        entries[last as usize] = Some(0);
        let sources = Sources::Table { axes: topology.mesh.axis_ids().collect(), entries };
        builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[BYTES], &[input]);
        let hop = |latency, rate| message(&topology, us(&topology, latency), at(&topology, BYTES, rate));
        assert_eq!(builder.time(&topology).makespan, hop(1, 450) + hop(5, 50));
        assert_eq!(topology.route(DeviceId(0), DeviceId(last), Route::Shortest).expect("a route").len(), 2);
    }
}

/// A fat tree of 4 leaves with 4 devices each, and 1, 2 or 4 spines with slower links: all devices of a leaf send to the next
/// leaf, so 4/s messages share a link to a spine.
#[test]
fn two_level_fat_tree() {
    const BYTES: u64 = 1_000_000;
    for (rule, spines) in BOTH.into_iter().flat_map(|rule| [1usize, 2, 4].map(move |spines| (rule, spines))) {
        let down = (0..16).map(|at| [device(at), End::Switch(switch(at / 4))]).collect();
        let up = (0..4 * spines).map(|at| [switch(at / spines), switch(4 + at % spines)].map(End::Switch)).collect();
        let tree = fabric(rule, 4 + spines, vec![links(down, 50, 1_000_000), links(up, 25, 2_000_000)]);
        let topology = wired(tree, &[16], None);
        let time = |by: i64| {
            let mut builder = Builder::new(&topology);
            let input = builder.input(&[BYTES]);
            builder.shift(input, X, by, true, Route::Shortest);
            builder.time(&topology).makespan
        };
        let shared = 4 / spines as u64;
        let slow = at(&topology, BYTES, 25);
        assert_eq!(time(4), slow * (shared - 1) + message(&topology, us(&topology, 6), slow), "{spines} spines");
        // A message inside a leaf takes two links; the one of four that leaves it is alone on its way.
        assert_eq!(time(1), message(&topology, us(&topology, 6), slow));
    }
}

/// A link for the second simulator: ends, GB/s, ps.
type Link = (usize, usize, u64, u64);

/// The simple path with the lowest latency, as places of links, by exhaustive search.
fn lightest(links: &[Link], at: usize, to: usize, seen: &mut Vec<usize>) -> Option<(u64, Vec<usize>)> {
    if at == to {
        return Some((0, Vec::new()));
    }
    seen.push(at);
    let mut best: Option<(u64, Vec<usize>)> = None;
    for (place, (from, next, _, latency)) in links.iter().enumerate() {
        if *from == at
            && !seen.contains(next)
            && let Some((rest, way)) = lightest(links, *next, to, seen)
        {
            let found = (rest + latency, [vec![place], way].concat());
            best = Some(best.filter(|best| best.0 <= found.0).unwrap_or(found));
        }
    }
    seen.pop();
    best
}

/// Sends blocks in list order, hop by hop: a hop between two devices starts when all its links are free.
fn simulated(topology: &Topology, links: &[Link], devices: usize, sends: &[Vec<(usize, usize)>], bytes: u64) -> Time {
    let mut free: BTreeMap<usize, Time> = BTreeMap::new();
    let mut end = Time::ZERO;
    let mut ready = vec![Some(Time::ZERO); devices];
    for shuffle in sends {
        let ways: Vec<(usize, usize, Vec<Vec<usize>>)> = shuffle
            .iter()
            .map(|(from, to)| {
                let (_, way) = lightest(links, *from, *to, &mut Vec::new()).expect("a connected network");
                let mut hops: Vec<Vec<usize>> = vec![Vec::new()];
                for place in way {
                    hops.last_mut().expect("a hop").push(place);
                    if links[place].1 < devices {
                        hops.push(Vec::new());
                    }
                }
                hops.pop();
                (*from, *to, hops)
            })
            .collect();
        let mut now: Vec<Option<Time>> = ways.iter().map(|(from, _, _)| ready[*from]).collect();
        for turn in 0..ways.iter().map(|(_, _, hops)| hops.len()).max().unwrap_or(0) {
            for ((_, _, hops), now) in ways.iter().zip(&mut now) {
                let (Some(hop), Some(time)) = (hops.get(turn), *now) else { continue };
                let bandwidth = |place: &usize| at(topology, bytes, links[*place].2);
                let start = hop.iter().map(|place| free.get(place).copied().unwrap_or_default()).fold(time, Time::max);
                let latency = hop.iter().map(|place| links[*place].3).sum();
                let slowest = hop.iter().map(bandwidth).max().expect("a link");
                let takes = message(topology, topology.scale.picoseconds(latency), slowest);
                for place in hop {
                    let direct = hop.len() == 1 && topology.hardware.hop_rule == HopRule::Larger;
                    free.insert(*place, start + if direct { takes } else { bandwidth(place) });
                }
                *now = Some(start + takes);
                end = end.max(start + takes);
            }
        }
        ready = vec![None; devices];
        ways.iter().zip(now).for_each(|((_, to, _), now)| ready[*to] = now);
    }
    end
}

/// Random networks of devices and switches, with random rates and latencies, take the times of the second simulator.
#[test]
fn random_fabrics_take_the_same_time_on_both_clocks() {
    let mut random = fastrand::Rng::with_seed(23);
    for case in 0..150 {
        let (devices, switches) = (random.usize(2..=4), random.usize(1..=3));
        let nodes = devices + switches;
        let mut pairs: Vec<(usize, usize)> = (0..nodes).map(|at| (at, (at + 1) % nodes)).collect();
        pairs.extend((0..random.usize(0..4)).map(|_| (random.usize(0..nodes), random.usize(0..nodes))));
        let mut all: Vec<Link> = Vec::new();
        for (from, to) in pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            let is_new = from != to && !all.iter().any(|link| (link.0, link.1) == (from, to));
            if is_new {
                all.push((from, to, *random.choice(&[5, 10, 25, 50]).expect("some"), random.u64(1..2_000_000)));
            }
        }
        let end = |node: usize| if node < devices { device(node) } else { End::Switch(switch(node - devices)) };
        let listed = all.iter().map(|(from, to, rate, latency)| Links {
            between: Vec::new(),
            from_to: vec![[end(*from), end(*to)]],
            one_way: Rate::new(rate * 1_000_000_000),
            hop_latency: Some(*latency),
        });
        let rule = *random.choice(&BOTH).expect("some");
        let topology = wired(fabric(rule, switches, listed.collect()), &[u32::try_from(devices).expect("few")], None);
        let bytes = *random.choice(&[64, 20_000, 1_000_000]).expect("some");
        let mut builder = Builder::new(&topology);
        let mut last = builder.input(&[bytes]);
        let mut sends = Vec::new();
        for _ in 0..random.usize(1..4) {
            let mut to: Vec<usize> = (0..devices).collect();
            random.shuffle(&mut to);
            let mut entries = vec![None; devices];
            to.iter().enumerate().for_each(|(from, to)| entries[*to] = u32::try_from(from).ok());
            // In the order of the destinations.
            sends.push((0..devices).map(|to| (entries[to].expect("a source") as usize, to)).collect::<Vec<_>>());
            let sources = Sources::Table { axes: vec![AxisId::new(0)], entries };
            last = builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[bytes], &[last]);
        }
        let expected = simulated(&topology, &all, devices, &sends, bytes);
        assert_eq!(builder.time(&topology).makespan, expected, "case {case}");
    }
}

/// Machines with devices that are alike along axes.
fn alike(rule: HopRule) -> Vec<(Hardware, Vec<u32>)> {
    let ports = |of: &dyn Fn(usize) -> usize, count: usize| {
        (0..count).map(|at| [device(at), End::Switch(switch(of(at)))]).collect::<Vec<_>>()
    };
    let rails = vec![links(ports(&|at| at / 4, 12), 450, 500_000), links(ports(&|at| 3 + at % 4, 12), 50, 2_500_000)];
    let up = (0..6).map(|at| [switch(at / 2), switch(3 + at % 2)].map(End::Switch)).collect();
    let tree = vec![links(ports(&|at| at / 4, 12), 50, 1_000_000), links(up, 25, 2_000_000)];
    let torus =
        (0..15).flat_map(|at| [[at, (at + 5) % 15], [at, at / 5 * 5 + (at + 1) % 5]].map(|pair| pair.map(device)));
    let torus = vec![links(torus.collect(), 45, 1_000_000)];
    vec![
        (fabric(rule, 7, rails), vec![3, 4]),
        (fabric(rule, 5, tree), vec![3, 4]),
        (fabric(rule, 0, torus), vec![3, 5]),
        (listed(rule, Wiring::Ring, 5), vec![5]),
        (listed(rule, Wiring::Switch, 6), vec![2, 3]),
    ]
}

/// A device that represents its images along an axis takes their time, and its links carry their loads.
#[test]
fn a_device_represents_its_images() {
    let mut random = fastrand::Rng::with_seed(31);
    let mut collapsed = 0;
    for case in 0..300 {
        let rule = *random.choice(&BOTH).expect("some");
        let (hardware, sizes) = alike(rule).swap_remove(case % 5);
        let topology = wired(hardware, &sizes, None);
        let bytes = *random.choice(&[64, 60_000, 1_000_000]).expect("some");
        let mut builder = Builder::new(&topology);
        let mut values = vec![builder.input(&[bytes])];
        for _ in 0..random.usize(1..8) {
            let [one, two] = [0, 1].map(|_| *random.choice(&values).expect("some"));
            let axis = random.usize(0..sizes.len());
            let by = random.i64(1..i64::from(sizes[axis]));
            values.push(match random.u32(0..4) {
                0 => builder.add(&[one, two]),
                _ => builder.shift(one, axis, by, true, Route::Shortest),
            });
        }
        let schedule = super::super::verify(&builder.schedule).expect("a sound schedule");
        collapsed += usize::from(!super::super::collapsed(schedule, &topology).is_empty());
        let all = super::super::run_uncollapsed(&builder.schedule, &topology).expect("a time");
        assert_eq!(builder.time(&topology), all, "case {case}");
    }
    assert_eq!(collapsed, 300);
}
