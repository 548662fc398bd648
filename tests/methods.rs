//! Every method on many axes: proven, and where it has a closed form, taking exactly its time on the clock.

mod common;

use common::numeric::computes;
use common::single::{axis, one_axis, schedule};
use itertools::{Itertools, iproduct};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::mesh::{Axes, Axis, AxisId, Mesh, Wiring};
use shardc::method::Method;
use shardc::schedule::methods::{self, broadcasts_in_chunks, candidates};
use shardc::sim::clock::{self, Timing};
use shardc::sim::proof::prove;
use shardc::topology::{Hardware, HopRule, Topology};
use shardc::units::Time;

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];
const WIRINGS: [Wiring; 3] = [Wiring::Ring, Wiring::Line, Wiring::Switch];

#[test]
fn every_method_is_proven_on_two_to_seventeen_devices_and_more() {
    let mut proven = 0;
    for n in (2..=17).chain([32, 64]) {
        for (kind, wiring) in KINDS.into_iter().flat_map(|kind| WIRINGS.map(|wiring| (kind, wiring))) {
            for method in candidates(kind, wiring, u64::from(n)) {
                let in_chunks = match kind {
                    CollectiveKind::Broadcast => broadcasts_in_chunks(method),
                    _ => method.in_chunks(),
                };
                for chunks in if in_chunks { vec![1, 2, 5] } else { vec![1] } {
                    let extents = [u64::from(n), if in_chunks { 10 } else { u64::from(n) }];
                    let schedule = one_axis(kind, method, axis(wiring, n), extents, DType::I64, chunks);
                    let name = format!("{} by {} on a {wiring} of {n}, {chunks} chunks", kind.name(), method.name());
                    prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                    assert!(n > 9 || computes(&schedule, u64::from(n)), "{name}: wrong numbers");
                    proven += 1;
                }
            }
        }
    }
    assert!(proven > 1000, "{proven}");
}

/// A collective with a time.
struct Case {
    n: u64,
    /// The time of a hop.
    latency: Time,
    /// The time of a shard on a link, or where whole values are combined, of the value.
    bandwidth: Time,
    timing: Timing,
}

impl Case {
    /// `shard` bytes on each device before a gather, or after a scatter; whole values are n times that.
    fn new(kind: CollectiveKind, method: Method, wiring: Wiring, n: u32, shard: u64, chunks: u64) -> Case {
        let hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("tpu_v5e").expect("shipped") };
        let topology = Topology::new(axis(wiring, n), hardware).expect("a common tick");
        let schedule = one_axis(kind, method, axis(wiring, n), [u64::from(n), shard], DType::I8, chunks);
        let links = topology.axes[0];
        Case {
            n: u64::from(n),
            latency: links.hop_latency,
            bandwidth: topology.scale.at_rate(u128::from(shard), links.one_way),
            timing: clock::run(&schedule, &topology).expect("a time"),
        }
    }

    fn takes(&self, hops: u64, shards: u64) {
        assert_eq!(self.timing.makespan, self.latency * hops + self.bandwidth * shards, "{} devices", self.n);
    }
}

const SHARDS: [u64; 2] = [64, 1_000_000];

/// Gathers and scatters; both take the same.
fn both(method: Method, wiring: Wiring, n: u32, check: impl Fn(Case)) {
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        for shard in SHARDS {
            check(Case::new(kind, method, wiring, n, shard, 1));
        }
    }
}

/// In round k every message goes 2^k links, or the rest of the way round, with as many blocks.
#[test]
fn bruck() {
    for n in 3..=17 {
        both(Method::Bruck, Wiring::Ring, n, |case| {
            let rounds = (0..case.n.next_power_of_two().ilog2()).map(|round| (1 << round).min(case.n - (1 << round)));
            let hops = rounds.clone().sum();
            case.takes(hops, rounds.map(|count: u64| count * count).sum());
        });
        both(Method::Bruck, Wiring::Switch, n, |case| {
            case.takes(u64::from(case.n.next_power_of_two().ilog2()), case.n - 1);
        });
    }
}

/// (N² - 1) / 3 shards over the busiest link if the farthest goes last, N log2(N) / 2 if it goes first.
#[test]
fn recursive_doubling_and_halving() {
    for n in [4, 8, 16, 32] {
        for wiring in [Wiring::Ring, Wiring::Line] {
            both(Method::RecursiveDoubling, wiring, n, |case| case.takes(case.n - 1, (case.n * case.n - 1) / 3));
            both(Method::RecursiveHalving, wiring, n, |case| {
                case.takes(case.n - 1, case.n * u64::from(case.n.ilog2()) / 2);
            });
        }
        for method in [Method::RecursiveDoubling, Method::RecursiveHalving] {
            both(method, Wiring::Switch, n, |case| case.takes(u64::from(case.n.ilog2()), case.n - 1));
        }
    }
}

/// 9/2, 23/2 and 135/2 shards over each link of 8, 16 and 64 devices: 1.29, 1.53 and 2.14 times the bound.
#[test]
fn swing_loads_all_links_alike() {
    for (n, halves) in [(4, 3), (8, 9), (16, 23), (32, 57), (64, 135)] {
        both(Method::Swing, Wiring::Ring, n, |case| {
            let busy = case.timing.links.iter().map(|link| link.busy);
            assert!(busy.into_iter().all(|busy| busy * 2 == case.bandwidth * halves), "{n} devices");
            assert!(case.timing.makespan >= case.latency * u64::from(n.ilog2()) + case.timing.busiest_link_time());
        });
    }
}

/// Whole values: ⌊N/2⌋ hops by forwarding, N - 1 by exchanges, log2 N over a switch.
#[test]
fn whole_values() {
    let all_reduce =
        |method, wiring, n| SHARDS.map(|shard| Case::new(CollectiveKind::AllReduce, method, wiring, n, shard, 1));
    for n in 3..=17 {
        for case in all_reduce(Method::Broadcast, Wiring::Ring, n) {
            case.takes(case.n / 2, case.n / 2 * case.n);
        }
    }
    for n in [4, 8, 16] {
        for case in all_reduce(Method::RecursiveDoubling, Wiring::Ring, n) {
            case.takes(case.n - 1, (case.n - 1) * case.n);
        }
        for case in all_reduce(Method::RecursiveDoubling, Wiring::Switch, n) {
            case.takes(u64::from(n.ilog2()), u64::from(n.ilog2()) * case.n);
        }
    }
}

/// 2⌊N/2⌋(a + V/cw) + (c - 1) V/cw with c chunks.
#[test]
fn chains() {
    for n in 3..=17u32 {
        for chunks in [1, 2, 5, 20, 50] {
            for shard in [6400, 1_000_000] {
                let case = Case::new(CollectiveKind::AllReduce, Method::Chain, Wiring::Line, n, shard, chunks);
                let chunk = case.bandwidth.ticks() * u128::from(case.n) / u128::from(chunks);
                let steps = 2 * (case.n / 2) + chunks - 1;
                let expected = case.latency * (2 * (case.n / 2)) + Time::from_ticks(chunk) * steps;
                assert_eq!(case.timing.makespan, expected, "{n} devices, {chunks} chunks");
            }
        }
    }
}

/// With many chunks a binary tree takes 3 V/w over a switch, and two take 2 V/w: no device is in the middle of both.
#[test]
fn trees() {
    for n in 3..=17u32 {
        for (method, most) in [(Method::Tree, 3), (Method::DoubleBinaryTree, 2)] {
            let case = Case::new(CollectiveKind::AllReduce, method, Wiring::Switch, n, 1_000_000, 50);
            let value = case.bandwidth * case.n;
            assert!(case.timing.busiest_link_time() <= value * most, "{n} devices by {}", method.name());
        }
    }
}

/// ⌊N/2⌋ hops, and N²/8 blocks over each link, (N² - 1)/8 where N is odd: N blocks are a shard.
#[test]
fn bundles() {
    for n in 4..=17u64 {
        for shard in [2 * n, 1000 * n] {
            let length = u32::try_from(n).expect("short");
            let case = Case::new(CollectiveKind::AllToAll, Method::Bundled, Wiring::Ring, length, shard, 1);
            let blocks = if n % 2 == 0 { n * n } else { n * n - 1 };
            let bytes = Time::from_ticks(case.bandwidth.ticks() * u128::from(blocks) / u128::from(8 * n));
            assert_eq!(case.timing.makespan, case.latency * (n / 2) + bytes, "{n} devices");
        }
    }
}

/// N²/8 blocks over each link. As only every other device has something for its antipode this way, links wait for N/4
/// blocks in all, unlike with halves.
#[test]
fn exchanges_by_parity() {
    for n in (4..=32u64).step_by(4) {
        let length = u32::try_from(n).expect("short");
        let case = Case::new(CollectiveKind::AllToAll, Method::DirectParity, Wiring::Ring, length, 1_000_000 * n, 1);
        let block = Time::from_ticks(case.bandwidth.ticks() / u128::from(n));
        assert!(case.timing.links.iter().all(|link| link.busy == block * (n * n / 8)), "{n} devices");
        let (quarter, blocks) = (n / 4, n * n / 8 + n / 4);
        let hops = 2 * quarter * quarter - quarter + 1;
        assert_eq!(case.timing.makespan, case.latency * hops + block * blocks, "{n} devices");
    }
}

/// Straight to everybody: ⌊N/2⌋(⌊N/2⌋ + 1) / 2 shards over each link up.
#[test]
fn broadcast_gathers() {
    for n in 3..=17 {
        let case = Case::new(CollectiveKind::AllGather, Method::Broadcast, Wiring::Ring, n, 1000, 1);
        let half = case.n / 2;
        assert_eq!(case.timing.busiest_link_time(), case.bandwidth * (half * (half + 1) / 2));
    }
}

/// Broadcasts: c chunks follow each other, N - 1 or ⌊N/2⌋ hops far; two halves both ways round take half the time.
#[test]
fn broadcasts_follow_each_other() {
    let kind = CollectiveKind::Broadcast;
    for (n, chunks) in (2..=17).flat_map(|n| [1, 2, 4, 8].map(|chunks| (n, chunks))) {
        for shard in [4096, 1 << 20] {
            let case = |method, wiring| Case::new(kind, method, wiring, n, shard, chunks);
            let (hops, parts) = (u64::from(n) - 1, u64::from(n) * 2);
            // The last chunk leaves after all before it, and goes as far as the first.
            let follows = |case: &Case, hops: u64, part: u64| {
                let chunk =
                    Time::from_ticks(case.bandwidth.ticks() * u128::from(parts) / u128::from(2 * part * chunks));
                (case.latency + chunk) * hops + chunk * (chunks - 1)
            };
            for wiring in [Wiring::Line, Wiring::Switch] {
                let case = case(Method::Line, wiring);
                assert_eq!(case.timing.makespan, follows(&case, hops, 1), "{n} {chunks} {wiring}");
            }
            if n > 2 {
                let pair = case(Method::BidirectionalRingPair, Wiring::Ring);
                assert_eq!(pair.timing.makespan, follows(&pair, hops, 2), "{n} {chunks}");
                let middle = case(Method::MeetInMiddleRing, Wiring::Ring);
                assert_eq!(middle.timing.makespan, follows(&middle, u64::from(n) / 2, 1), "{n} {chunks}");
                let direct = case(Method::Direct, Wiring::Switch);
                assert_eq!(direct.timing.makespan, direct.latency + direct.bandwidth * u64::from(n) * hops, "{n}");
            }
        }
    }
}

/// Trees that share no link: the busiest link has its part of the value and no more.
#[test]
fn broadcasts_over_several_axes_use_all_links_of_the_first_device() {
    let wirings = [Wiring::Ring, Wiring::Line];
    for sizes in [vec![2, 2], vec![2, 3], vec![3, 3], vec![4, 4], vec![2, 5], vec![3, 2, 2], vec![3, 3, 3]] {
        for wired in sizes.iter().map(|_| wirings).multi_cartesian_product() {
            let axes = sizes.iter().zip(&wired).zip(["X", "Y", "Z"]);
            let axes = axes.map(|((size, wiring), name)| Axis {
                name: name.into(),
                size: *size,
                wiring: Some(*wiring),
                over: None,
            });
            let mesh = Mesh::new(axes.collect()).expect("a small mesh");
            let links: u64 = sizes
                .iter()
                .zip(&wired)
                .map(|(size, wiring)| if *size > 2 && *wiring == Wiring::Ring { 2 } else { 1 })
                .sum();
            let runs: Vec<(Axes, bool)> =
                mesh.axis_ids().zip(&wired).map(|(axis, wiring)| (axis.into(), *wiring == Wiring::Ring)).collect();
            for chunks in [1, 2, 3] {
                let extents = [60, 6];
                let schedule =
                    schedule(mesh.clone(), CollectiveKind::Broadcast, extents, DType::I64, |builder, given| {
                        methods::broadcast_over(builder, &runs, given, chunks)
                    });
                let name = format!("{sizes:?} {wired:?}, {chunks} chunks");
                prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                assert!(computes(&schedule, 7), "{name}: wrong numbers");
                let hardware = Hardware::named("tpu_v5e").expect("shipped");
                let topology = Topology::new(mesh.clone(), hardware).expect("a common tick");
                let timing = clock::run(&schedule, &topology).expect("a time");
                let fullest = timing.links.iter().map(|link| link.bytes.0).max().unwrap_or_default();
                // Parts have whole chunks.
                let row = 6 * 8;
                assert!(fullest <= (60 * row / links).next_multiple_of(row * chunks), "{name}: {fullest} bytes");
            }
        }
    }
}

/// Over nodes of devices on a switch as well: every device of the first node takes a part to the others, and the ports
/// between nodes carry that part and no more.
#[test]
fn broadcasts_over_nodes_use_all_ports_between_them() {
    let axis = |name: &str, size: u32, over: Option<&str>| Axis {
        name: name.into(),
        size,
        wiring: Some(Wiring::Switch),
        over: over.map(Into::into),
    };
    for (nodes, devices, chunks) in iproduct!(2..=4u32, 2..=5u32, 1..=3u64) {
        let mesh = Mesh::new(vec![axis("X", nodes, Some("ib")), axis("Y", devices, None)]).expect("a small mesh");
        let [x, y] = [0, 1].map(AxisId::new);
        let rows = 60 * u64::from(devices) * chunks;
        let schedule = schedule(mesh.clone(), CollectiveKind::Broadcast, [rows, 2], DType::I64, |builder, given| {
            methods::broadcast_over_nodes(builder, &[(x.into(), false)], y.into(), given, chunks)
        });
        let name = format!("{nodes} nodes of {devices}, {chunks} chunks");
        prove(&schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        assert!(computes(&schedule, 7), "{name}: wrong numbers");
        let topology = Topology::new(mesh, Hardware::named("h100").expect("shipped")).expect("a common tick");
        let timing = clock::run(&schedule, &topology).expect("a time");
        let between = topology.all_links().filter(|id| topology.link(*id).axis == x);
        let fullest = between.map(|id| timing.links[id.index()].bytes.0).max().unwrap_or_default();
        assert_eq!(fullest, rows * 16 / u64::from(devices), "{name}");
    }
}
