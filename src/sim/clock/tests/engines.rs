//! Machines whose engines overlap, and machines with one engine, compared with closed forms.

use super::*;
use crate::topology::{Engines, HopRule, LocalMoves, Work};

/// Assigns local work to these engines, given by name. Messages leave by `dma` if there is one.
fn engines(list: &[(&str, &[Work])]) -> Engines {
    let engines = list.iter().map(|(name, runs)| ((*name).to_owned(), runs.to_vec()));
    Engines::new(engines.collect()).expect("all work")
}

const MAIN: &[Work] = &[Work::MatMul, Work::Map, Work::Reduce, Work::Fill, Work::Add];
const SUB: &[Work] = &[Work::Slice, Work::Assemble];
const LOCAL: &[Work] = &[Work::MatMul, Work::Map, Work::Reduce, Work::Fill, Work::Add, Work::Slice, Work::Assemble];

fn machine(engines: Engines, size: u32, wiring: Wiring) -> Topology {
    let v5e = Hardware::named("tpu_v5e").expect("shipped");
    wired(Hardware { local_moves: LocalMoves::Memory, engines, ..v5e }, &[size], Some(wiring))
}

fn memory(topology: &Topology, bytes: u64) -> Time {
    topology.scale.at_rate(u128::from(bytes), topology.hardware.hbm_bandwidth)
}

/// Two sums and two independent slices: sequential on one engine, concurrent on two.
#[test]
fn engines_overlap_and_one_engine_does_not() {
    for (list, overlap) in [
        (vec![("main", MAIN), ("sub", SUB)], true),
        (vec![("compute", LOCAL)], false),
        (vec![("all", LOCAL), ("dma", &[Work::Shuffle])], false),
    ] {
        let topology = machine(engines(&list), 2, Wiring::Ring);
        let mut builder = Builder::new(&topology);
        let [a, b] = [builder.input(&[90_000]), builder.input(&[90_000])];
        builder.add(&[a, b]);
        builder.part(a, 3, CoordMap::constant(0));
        builder.add(&[b, a]);
        builder.part(b, 3, CoordMap::constant(1));
        let timing = builder.time(&topology);
        let (sums, slices) = (memory(&topology, 2 * 270_000), memory(&topology, 2 * 60_000));
        assert_eq!(timing.makespan, if overlap { sums.max(slices) } else { sums + slices }, "{list:?}");
        let busy = if overlap { vec![sums, slices] } else { vec![sums + slices] };
        assert_eq!(timing.engines[..busy.len()], busy);
    }
}

/// Without an engine for messages, both directions of a ring are used at once; with one, messages are sent one after
/// the other.
#[test]
fn messages_that_leave_by_an_engine_leave_one_by_one() {
    for rule in [HopRule::Larger, HopRule::Sum] {
        for size in 3..=9 {
            for (list, ways) in [(vec![("main", LOCAL)], 1), (vec![("main", LOCAL), ("dma", &[Work::Shuffle])], 2)] {
                let mut topology = machine(engines(&list), size, Wiring::Ring);
                topology.hardware.hop_rule = rule;
                let mut builder = Builder::new(&topology);
                let input = builder.input(&[1_000_000]);
                builder.up(input, X, true);
                builder.down(input, X, true);
                let timing = builder.time(&topology);
                let (busy, latency) = (at_link(&topology, 1_000_000), us(&topology, 1));
                let expected = match rule {
                    HopRule::Larger => busy * ways,
                    HopRule::Sum => busy * ways + latency,
                };
                assert_eq!(timing.makespan, expected, "{size} {list:?}");
                assert_eq!(timing.engines.get(1).copied(), (ways == 2).then_some(busy * 2));
            }
        }
    }
}

/// Furiosa's ReduceScatter on its own machine: of N slices one stays, and the others are sent one by one while the
/// next is cut. A single sum of N blocks ends it.
#[test]
fn furiosa_reduce_scatter() {
    for size in 2..=8u32 {
        for chunk in [64u64, 1_000_000] {
            let n = u64::from(size);
            let topology = wired(Hardware::named("furiosa").expect("shipped"), &[size], None);
            let mut builder = Builder::new(&topology);
            let input = builder.input(&[n * chunk]);
            let slice = |builder: &mut Builder, k: u64| {
                builder.part(input, n, CoordMap::rotated(AxisId::new(X), -i64::try_from(k).unwrap(), n))
            };
            let mut terms = vec![slice(&mut builder, 0)];
            for k in 1..n {
                let cut = slice(&mut builder, k);
                terms.push(builder.shift(cut, X, i64::try_from(k).unwrap(), true, Route::Shortest));
            }
            builder.add(&terms);
            let timing = builder.time(&topology);
            let (cut, sum) = (memory(&topology, 2 * chunk), memory(&topology, (n + 1) * chunk));
            let (leaves, latency) = (at_link(&topology, chunk), us(&topology, 1));
            assert!(leaves > cut);
            assert_eq!(timing.makespan, cut * 2 + leaves * (n - 1) + latency + sum, "{size} {chunk}");
            assert_eq!(timing.engines, [leaves * (n - 1), sum, cut * n]);
            // If one engine slices, sums and sends, only latency overlaps with other work.
            let one = engines(&[("all", &Work::ALL)]);
            let serial = wired(Hardware { engines: one, ..topology.hardware.clone() }, &[size], None);
            let timing = builder.time(&serial);
            assert_eq!(timing.makespan, cut * n + leaves * (n - 1) + latency + sum, "{size} {chunk}");
        }
    }
}

/// Times are longest paths: waiting for an additional engine never makes a run faster, and separate engines never
/// make it slower.
#[test]
fn waiting_for_an_engine_takes_no_less_and_overlap_no_more() {
    let mut random = fastrand::Rng::with_seed(23);
    let (mut later, mut earlier) = (0, 0);
    for _ in 0..600 {
        let mut topology = oracle::random_topology(&mut random);
        let schedule = oracle::random_schedule(&mut random, &topology);
        let mut time = |list: &[(&str, &[Work])]| {
            topology.hardware.engines = engines(list);
            run(&schedule, &topology).expect("a sound schedule").makespan
        };
        let plain = time(&[("compute", LOCAL)]);
        let sending = time(&[("compute", LOCAL), ("dma", &[Work::Shuffle])]);
        let beside = time(&[("main", MAIN), ("sub", SUB), ("dma", &[Work::Shuffle])]);
        let one = time(&[("all", &Work::ALL)]);
        assert!(plain <= sending && beside <= sending && sending <= one);
        later += usize::from(plain < sending) + usize::from(sending < one);
        earlier += usize::from(beside < sending);
    }
    assert!(later > 50 && earlier > 10, "{later} {earlier}");
}

/// A profile with all local work on one engine, and no engine for messages, equals a profile without engines.
#[test]
fn one_engine_is_what_was_there_before() {
    assert_eq!(engines(&[("compute", LOCAL)]), Engines::default());
    for name in Hardware::names().filter(|name| !name.starts_with("furiosa")) {
        assert_eq!(Hardware::named(name).expect("shipped").engines, Engines::default(), "{name}");
    }
}
