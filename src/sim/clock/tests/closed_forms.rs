//! Hand-built methods take exactly the time of their closed forms, under both hop rules.

use super::*;
use crate::topology::HopRule;
use crate::units::{Bytes, Time};

/// `hops` sequential messages of `bytes` each.
fn in_sequence(topology: &Topology, hops: u64, bytes: u64) -> Time {
    let (latency, bandwidth) = (us(topology, 1), at_link(topology, bytes));
    match topology.hardware.hop_rule {
        HopRule::Larger => latency.max(bandwidth) * hops,
        HopRule::Sum => (latency + bandwidth) * hops,
    }
}

/// Both hop rules, messages shorter and longer than the latency, N = 2 to 9.
fn cases(wiring: Wiring, check: impl Fn(&Topology, u64, u64)) {
    for rule in [HopRule::Larger, HopRule::Sum] {
        for size in 2..=9u32 {
            for shard in [64, 1_000_000] {
                let hardware = Hardware { hop_rule: rule, ..Hardware::named("tpu_v5e").expect("shipped") };
                check(&wired(hardware, &[size], Some(wiring)), u64::from(size), shard);
            }
        }
    }
}

#[test]
fn one_direction_ring() {
    cases(Wiring::Ring, |topology, size, shard| {
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        ring_gather(&mut builder, input, X, size - 1, 0);
        assert_eq!(builder.time(topology).makespan, in_sequence(topology, size - 1, shard));
    });
}

#[test]
fn meet_in_the_middle() {
    cases(Wiring::Ring, |topology, size, shard| {
        if size == 2 {
            return;
        }
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        ring_gather(&mut builder, input, X, size / 2, (size - 1) / 2);
        assert_eq!(builder.time(topology).makespan, in_sequence(topology, size / 2, shard));
    });
}

#[test]
fn ring_pair() {
    cases(Wiring::Ring, |topology, size, shard| {
        if size == 2 {
            return;
        }
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        let [lower, upper] = [0, 1].map(|index| builder.part(input, 2, CoordMap::constant(index)));
        ring_gather(&mut builder, lower, X, size - 1, 0);
        ring_gather(&mut builder, upper, X, 0, size - 1);
        let timing = builder.time(topology);
        assert_eq!(timing.makespan, in_sequence(topology, size - 1, shard / 2));
        assert!(timing.links.iter().all(|load| load.bytes == Bytes((size - 1) * shard / 2)));
    });
}

/// ⌊N/2⌋ hops; with even N, half of the last shard from each side: ⌊N/2⌋ a + (N-1) s / 2w under the sum rule.
#[test]
fn balanced_meet_in_the_middle() {
    cases(Wiring::Ring, |topology, size, shard| {
        if size % 2 == 1 || size == 2 || topology.hardware.hop_rule == HopRule::Larger {
            return;
        }
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        let (mut up, mut down) = (input, input);
        for _ in 1..size / 2 {
            (up, down) = (builder.up(up, X, true), builder.down(down, X, true));
        }
        let lower = builder.part(up, 2, CoordMap::constant(0));
        let upper = builder.part(down, 2, CoordMap::constant(1));
        builder.up(lower, X, true);
        builder.down(upper, X, true);
        let bandwidth = at_link(topology, (size - 1) * shard / 2);
        assert_eq!(builder.time(topology).makespan, us(topology, 1) * (size / 2) + bandwidth);
    });
}

#[test]
fn line() {
    cases(Wiring::Line, |topology, size, shard| {
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        line_gather(&mut builder, input, X, size);
        let timing = builder.time(topology);
        assert_eq!(timing.makespan, in_sequence(topology, size - 1, shard));
        for id in topology.all_links() {
            let link = topology.link(id);
            let behind = match link.side {
                crate::topology::LinkSide::Up => u64::from(link.device.0) + 1,
                _ => size - u64::from(link.device.0),
            };
            assert_eq!(timing.link(id).bytes, Bytes(behind * shard));
        }
    });
}

/// All devices send to all at once: the ports are the limit, and only the last message's latency is visible.
#[test]
fn one_shot_through_a_switch() {
    cases(Wiring::Switch, |topology, size, shard| {
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        for by in 1..size {
            builder.shift(input, X, i64::try_from(by).expect("small"), true, Route::Shortest);
        }
        let (latency, bandwidth) = (us(topology, 1), at_link(topology, shard));
        let expected = match topology.hardware.hop_rule {
            HopRule::Larger => bandwidth * (size - 2) + latency.max(bandwidth),
            HopRule::Sum => latency + bandwidth * (size - 1),
        };
        let timing = builder.time(topology);
        assert_eq!(timing.makespan, expected);
        assert!(timing.links.iter().all(|load| load.bytes == Bytes((size - 1) * shard)));
    });
}

/// A gather kept as one operation takes the time of the formula, and so does the hand-built one on even rings and
/// lines.
#[test]
fn a_kept_gather_takes_the_formula() {
    for (wiring, size) in [(Wiring::Ring, 8), (Wiring::Line, 5), (Wiring::Switch, 8), (Wiring::Ring, 2)] {
        let topology = wired(Hardware::named("tpu_v5e").expect("shipped"), &[3, size], Some(wiring));
        let y = AxisId::new(1);
        let full = Bytes(u64::from(size) * 1_000_000);
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[1_000_000]);
        let first = builder.push(OpKind::AllGather { axes: vec![y], dim: 0 }, &[full.0], &[input]);
        builder.push(OpKind::AllGather { axes: vec![y], dim: 0 }, &[full.0], &[input]);
        let timing = builder.time(&topology);
        let form = topology.all_gather([y], full);
        assert_eq!(timing.operation(first).finish, form.time);
        // Both gathers need all links of their group, so they run one after the other.
        assert_eq!(timing.makespan, form.time * 2);
    }
}

/// The links of a kept gather in a group of eight carry seven shards per device, over both directions together.
#[test]
fn bytes_of_a_kept_gather() {
    for (wiring, each) in [(Wiring::Ring, 3_500_000), (Wiring::Switch, 7_000_000)] {
        let topology = wired(Hardware::named("tpu_v5e").expect("shipped"), &[8], Some(wiring));
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[1_000_000]);
        builder.push(OpKind::AllGather { axes: vec![AxisId::new(0)], dim: 0 }, &[8_000_000], &[input]);
        let timing = builder.time(&topology);
        assert!(timing.links.iter().all(|load| load.bytes == Bytes(each)), "{wiring}");
    }
}
