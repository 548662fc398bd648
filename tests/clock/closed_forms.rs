//! Every method with a closed form takes exactly its time in the simulator, on up to 17 devices.

use crate::common::timed::Case;
use shardc::collective::CollectiveKind;
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::units::Time;

const SHARDS: [u64; 2] = [64, 1_000_000];

/// Gathers and scatters, which take the same time.
fn both(method: Method, wiring: Wiring, n: u32, check: impl Fn(Case)) {
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        for shard in SHARDS {
            check(Case::new(kind, method, wiring, n, shard, 1));
        }
    }
}

/// In round k every message travels 2^k links, or the rest of the ring, with as many blocks.
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

/// (N² - 1) / 3 shards over the busiest link if the farthest are sent last, N log2(N) / 2 if they are sent first.
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

/// Whole values: ⌊N/2⌋ hops by forwarding, N - 1 by exchanges, log2 N over a switch. A ReduceScatter that keeps a block of
/// them takes as long.
#[test]
fn whole_values() {
    let all_reduce =
        |method, wiring, n| SHARDS.map(|shard| Case::new(CollectiveKind::AllReduce, method, wiring, n, shard, 1));
    for n in 3..=17 {
        for case in all_reduce(Method::Broadcast, Wiring::Ring, n) {
            case.takes(case.n / 2, case.n / 2 * case.n);
        }
        for shard in SHARDS {
            let scatter = |method, wiring| Case::new(CollectiveKind::ReduceScatter, method, wiring, n, shard, 1);
            let ring = scatter(Method::Broadcast, Wiring::Ring);
            ring.takes(ring.n / 2, ring.n / 2 * ring.n);
            let line = scatter(Method::LineBroadcast, Wiring::Line);
            line.takes(line.n - 1, (line.n - 1) * line.n);
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

/// With many chunks, a binary tree takes 3 V/w over a switch, and two take 2 V/w: no device is an inner node of both.
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

/// ⌊N/2⌋ hops, and N²/8 blocks over each link, (N² - 1)/8 if N is odd; N blocks are a shard.
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

/// N - 1 hops along a line with N - 1, N - 2, .. blocks: (N - 1)/2 shards.
#[test]
fn bundles_on_lines() {
    for n in 3..=17u64 {
        for shard in [2 * n, 1000 * n] {
            let length = u32::try_from(n).expect("short");
            let case = Case::new(CollectiveKind::AllToAll, Method::LineBundled, Wiring::Line, length, shard, 1);
            let bytes = Time::from_ticks(case.bandwidth.ticks() * u128::from(n - 1) / 2);
            assert_eq!(case.timing.makespan, case.latency * (n - 1) + bytes, "{n} devices");
        }
    }
}

/// In round k, the blocks whose distance has bit k. If no block has both of the two highest bits, the last round does
/// not wait for the previous one.
#[test]
fn exchanges_in_rounds() {
    for n in 4..=17u64 {
        for shard in [2 * n, 1000 * n] {
            let length = u32::try_from(n).expect("short");
            let case = Case::new(CollectiveKind::AllToAll, Method::Bruck, Wiring::Switch, length, shard, 1);
            let blocks: u32 = (1..n).map(u64::count_ones).sum();
            let bytes = Time::from_ticks(case.bandwidth.ticks() * u128::from(blocks) / u128::from(n));
            let highest = (n - 1).ilog2();
            let hops = u64::from(highest) + u64::from(n > 3 << (highest - 1));
            assert_eq!(case.timing.makespan, case.latency * hops + bytes, "{n} devices");
        }
    }
}

/// N²/8 blocks over each link. Only every other device sends to its antipode in this direction, so links wait for N/4
/// blocks in total, unlike with halves.
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

/// Direct messages to all devices: ⌊N/2⌋(⌊N/2⌋ + 1) / 2 shards over each link up.
#[test]
fn broadcast_gathers() {
    for n in 3..=17 {
        let case = Case::new(CollectiveKind::AllGather, Method::Broadcast, Wiring::Ring, n, 1000, 1);
        let half = case.n / 2;
        assert_eq!(case.timing.busiest_link_time(), case.bandwidth * (half * (half + 1) / 2));
    }
}

/// Broadcasts: c chunks in a pipeline over N - 1 or ⌊N/2⌋ hops; two halves in opposite directions take half the time.
#[test]
fn broadcasts_follow_each_other() {
    let kind = CollectiveKind::Broadcast;
    for (n, chunks) in (2..=17).flat_map(|n| [1, 2, 4, 8].map(|chunks| (n, chunks))) {
        for shard in [4096, 1 << 20] {
            let case = |method, wiring| Case::new(kind, method, wiring, n, shard, chunks);
            let (hops, parts) = (u64::from(n) - 1, u64::from(n) * 2);
            // The last chunk leaves after all others, and travels as far as the first.
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

/// The closed form of a gather: its number of hops, and of half shards over a link.
fn flow(method: Method, n: u64) -> Option<(Wiring, u64, u64)> {
    Some(match method {
        Method::ClockwiseRing | Method::AnticlockwiseRing => (Wiring::Ring, n - 1, 2 * (n - 1)),
        Method::BidirectionalRingPair => (Wiring::Ring, n - 1, n - 1),
        Method::MeetInMiddleRing => (Wiring::Ring, n / 2, n / 2 * 2),
        Method::BalancedMeetInMiddleRing if n.is_multiple_of(2) => (Wiring::Ring, n / 2, n - 1),
        Method::Line => (Wiring::Line, n - 1, 2 * (n - 1)),
        Method::OneHop => (Wiring::Switch, 1, 2 * (n - 1)),
        _ => return None,
    })
}

/// (N-1)(a + s/w) in one direction and on a line, (N-1)(a + s/2w) by halves, ⌊N/2⌋(a + s/w) meeting in the middle,
/// and ⌊N/2⌋a + (N-1) s/2w with the antipode's shard in halves; a + (N-1) s/w over a switch. An AllReduce takes twice
/// as long.
#[test]
fn gathers_scatters_and_both() {
    let mut tried = 0;
    for (n, method) in (3..=17u32).flat_map(|n| Method::ALL.map(|method| (n, method))) {
        let Some((wiring, hops, halves)) = flow(method, u64::from(n)) else { continue };
        for (kind, ways) in
            [(CollectiveKind::AllGather, 1), (CollectiveKind::ReduceScatter, 1), (CollectiveKind::AllReduce, 2)]
        {
            for shard in SHARDS {
                let case = Case::new(kind, method, wiring, n, shard, 1);
                let half = Time::from_ticks(case.bandwidth.ticks() / 2);
                let expected = (case.latency * hops + half * halves) * ways;
                assert_eq!(case.timing.makespan, expected, "{} by {} on {n}", kind.name(), method.name());
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 6 * (15 * 6 + 7));
}

/// Over a switch, each slice is sent directly to its owner: a + (N-1) s/w; whole values: a + (N-1) V/w.
#[test]
fn shuffles_over_a_switch() {
    for (n, shard) in (3..=17).flat_map(|n| SHARDS.map(|shard| (n, shard))) {
        let case = |kind, method| Case::new(kind, method, Wiring::Switch, n, shard, 1);
        let scatter = case(CollectiveKind::ReduceScatter, Method::FuriosaDiagonal);
        scatter.takes(1, scatter.n - 1);
        let rotation = case(CollectiveKind::AllReduce, Method::FuriosaRotation);
        rotation.takes(1, rotation.n * (rotation.n - 1));
    }
}

/// The loads of the links of a ring, in blocks: what is sent whole to the antipode goes one way, so that way has
/// h(h + 1)/2 with h = N/2; in halves both ways have N²/8. The other links wait for all but one hop of each message, as
/// in an exchange by halves. Of a sum of whole values, a block is a value.
#[test]
fn rotations_of_large_arrays() {
    for n in (4..=16u64).step_by(2) {
        let (length, half) = (u32::try_from(n).expect("short"), n / 2);
        for (kind, plain, balanced, shards) in [
            (CollectiveKind::ReduceScatter, Method::FuriosaDiagonal, Method::BalancedFuriosaDiagonal, 1),
            (CollectiveKind::AllReduce, Method::FuriosaRotation, Method::BalancedFuriosaRotation, n),
        ] {
            let case = |method| Case::new(kind, method, Wiring::Ring, length, 8_000_000, 1);
            let (plain, balanced) = (case(plain), case(balanced));
            let block = balanced.bandwidth * shards;
            assert_eq!(plain.timing.busiest_link_time(), block * (half * (half + 1) / 2), "{n} devices");
            let share = Time::from_ticks(block.ticks() * u128::from(n * n) / 8);
            assert!(balanced.timing.links.iter().all(|link| link.busy == share), "{n} devices");
            let latency = balanced.latency * (half * (half - 1) / 2 + 1);
            assert_eq!(balanced.timing.makespan, latency + share, "{} on {n} devices", kind.name());
            assert!(balanced.timing.makespan < plain.timing.makespan, "{n} devices");
        }
        // A scatter and a gather.
        let both =
            Case::new(CollectiveKind::AllReduce, Method::BalancedFuriosaDiagonal, Wiring::Ring, length, 8_000_000, 1);
        let share = Time::from_ticks(both.bandwidth.ticks() * u128::from(n * n) / 4);
        assert!(both.timing.links.iter().all(|link| link.busy == share), "{n} devices");
    }
}

/// Large exchanges: the blocks over the busiest link are N²/8 on a ring, (N²-1)/8 if N is odd, ⌊N/2⌋⌈N/2⌉ over the
/// middle of a line, N-1 through a port.
///
/// Link by link, one hop latency is visible, on a line two: there the last block of the farthest device must not be
/// the last over the middle. With messages that are forwarded, all hops of a message precede the next message in the
/// list, so links wait for all but one hop of each: h(h-1)/2 + 1 with h = ⌊N/2⌋.
#[test]
fn exchanges_of_large_arrays() {
    for n in 4..=17u64 {
        let (direct, half) = (if n.is_multiple_of(2) { Method::DirectHalves } else { Method::Direct }, n / 2);
        let rows = [
            (Wiring::Ring, Method::LinkByLink, 1, n * n - n % 2, 8),
            (Wiring::Ring, direct, half * (half - 1) / 2 + 1, n * n - n % 2, 8),
            (Wiring::Line, Method::Line, 2, n / 2 * n.div_ceil(2), 1),
            (Wiring::Switch, Method::Direct, 1, n - 1, 1),
        ];
        for (wiring, method, hops, blocks, of) in rows {
            let length = u32::try_from(n).expect("short");
            let case = Case::new(CollectiveKind::AllToAll, method, wiring, length, 8_000_000 * n, 1);
            let block = case.bandwidth.ticks() / u128::from(n);
            let bytes = Time::from_ticks(block * u128::from(blocks) / of);
            assert_eq!(case.timing.makespan, case.latency * hops + bytes, "{n} devices by {}", method.name());
        }
    }
}
