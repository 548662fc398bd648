//! Pipelines, bundles and switches take exactly the time of the published formulas under the sum rule: a message of m
//! bytes occupies its link for m/w and arrives after α + a + m/w.

use super::*;
use crate::topology::{HopRule, SwitchKind};

/// Runs `check(topology, n, bytes)` for every overhead, size and message length.
fn cases(wiring: Wiring, check: impl Fn(&Topology, u64, u64)) {
    for overhead in [0, 300_000] {
        for size in 2..=9u32 {
            for bytes in [1_440, 1_440_000] {
                let mut hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("tpu_v5e").expect("shipped") };
                hardware.network.message_overhead = overhead;
                check(&wired(hardware, &[size], Some(wiring)), u64::from(size), bytes);
            }
        }
    }
}

/// α + a.
fn latency(topology: &Topology) -> Time {
    topology.scale.picoseconds(topology.hardware.network.message_overhead + topology.hardware.network.hop_latency)
}

/// α, during which the link is busy as well.
fn overhead(topology: &Topology) -> Time {
    topology.scale.picoseconds(topology.hardware.network.message_overhead)
}

/// Time of a pipelined chain of hops: `hops (α + a + m/w)` for the first chunk, `α + m/w` for each after it.
fn pipeline(topology: &Topology, hops: u64, chunks: u64, chunk: u64) -> Time {
    let each = at_link(topology, chunk);
    (latency(topology) + each) * hops + (overhead(topology) + each) * (chunks - 1)
}

#[test]
fn a_ring_in_chunks() {
    cases(Wiring::Ring, |topology, n, shard| {
        for chunks in [1, 2, 3, 4] {
            let mut builder = Builder::new(topology);
            let input = builder.input(&[shard]);
            let mut parts: Vec<OpId> = (0..chunks).map(|chunk| builder.part(input, chunks, constant(chunk))).collect();
            for _ in 1..n {
                parts.iter_mut().for_each(|part| *part = builder.up(*part, X, true));
            }
            // Either the link is busy from the start, or each chunk waits for its previous hop.
            let busy = (overhead(topology) + at_link(topology, shard / chunks)) * ((n - 1) * chunks);
            let last = latency(topology) - overhead(topology);
            let expected = (busy + last).max(pipeline(topology, n - 1, chunks, shard / chunks));
            assert_eq!(builder.time(topology).makespan, expected, "{n} devices, {chunks} chunks of {shard}");
        }
    });
}

/// Bundles that lose a block at each hop, in both directions: `⌊N/2⌋ (α + a) + (N² - 1)/8 b/w` on odd rings.
#[test]
fn an_exchange_in_shrinking_bundles() {
    cases(Wiring::Ring, |topology, n, block| {
        if n % 2 == 0 {
            return;
        }
        let mut builder = Builder::new(topology);
        let input = builder.input(&[n / 2 * block]);
        let (mut up, mut down) = (input, input);
        for blocks in (1..=n / 2).rev() {
            let kept = Some(blocks * block);
            (up, down) = (hop(&mut builder, up, 1, kept), hop(&mut builder, down, -1, kept));
        }
        let bytes = at_link(topology, block) * ((n * n - 1) / 8);
        assert_eq!(builder.time(topology).makespan, latency(topology) * (n / 2) + bytes);
    });
}

/// One hop of all devices in one direction, with the first `bytes` bytes of their blocks.
fn hop(builder: &mut Builder, operand: OpId, hops: i64, bytes: Option<u64>) -> OpId {
    let view = builder.bytes(operand);
    let extents = bytes.map_or_else(|| view.clone(), |bytes| vec![bytes]);
    let region = vec![Cut::Range { start: 0, end: extents[0] }];
    let operand = builder.push(OpKind::Slice { view, region }, &extents, &[operand]);
    let sources = Sources::Shift { axes: crate::mesh::Axes::one(AxisId::new(X)), by: -hops, wrap: true };
    builder.push(OpKind::Shuffle { sources, route: Route::Hops(hops) }, &extents, &[operand])
}

/// Half of the array all the way around in each direction, in chunks: `(N-1)(α + a + V/2cw) + (c-1)(α + V/2cw)`. On a
/// line, the whole array in one direction.
#[test]
fn a_broadcast_from_one_root() {
    for (wiring, ways) in [(Wiring::Ring, 2), (Wiring::Line, 1)] {
        cases(wiring, |topology, n, array| {
            for chunks in [1, 2, 3] {
                let mut builder = Builder::new(topology);
                let input = builder.input(&[array]);
                let bytes = array / (ways * chunks);
                for chunk in 0..ways * chunks {
                    // On a ring of two, both halves use the same cable.
                    let up = wiring == Wiring::Line || chunk % 2 == 0 || n == 2;
                    let mut part = builder.part(input, ways * chunks, constant(chunk));
                    for step in 1..n {
                        part = one_message(&mut builder, part, n, step, up);
                    }
                }
                let chunks = if n == 2 { ways * chunks } else { chunks };
                assert_eq!(builder.time(topology).makespan, pipeline(topology, n - 1, chunks, bytes));
            }
        });
    }
}

/// Step `step` of a chain that starts at device 0 and runs one way.
fn one_message(builder: &mut Builder, operand: OpId, n: u64, step: u64, up: bool) -> OpId {
    let place = |step: u64| if up { step } else { (n - step) % n };
    let mut entries = vec![None; usize::try_from(n).expect("small")];
    entries[usize::try_from(place(step)).expect("small")] = Some(u32::try_from(place(step - 1)).expect("small"));
    let extents = builder.bytes(operand);
    let sources = Sources::Table { axes: vec![AxisId::new(X)], entries };
    builder.push(OpKind::Shuffle { sources, route: Route::Hops(if up { 1 } else { -1 }) }, &extents, &[operand])
}

/// All devices send to all: `a + (N-1)(α + s/w)` on a cut-through switch, and one more hop on a store-and-forward
/// switch.
#[test]
fn one_shot_through_both_kinds_of_switch() {
    for rule in [HopRule::Larger, HopRule::Sum] {
        for kind in [SwitchKind::CutThrough, SwitchKind::StoreAndForward] {
            cases(Wiring::Switch, |topology, n, shard| {
                let mut hardware = Hardware { hop_rule: rule, ..topology.hardware.clone() };
                hardware.network.switch = kind;
                let topology = &Topology::new(topology.mesh.clone(), hardware).expect("a common tick");
                let mut builder = Builder::new(topology);
                let input = builder.input(&[shard]);
                for by in 1..n {
                    builder.shift(input, X, i64::try_from(by).expect("small"), true, Route::Shortest);
                }
                let (a, bytes) = (us(topology, 1), at_link(topology, shard));
                let (busy, takes) = match rule {
                    HopRule::Larger => (bytes, a.max(bytes)),
                    HopRule::Sum => (bytes, a + bytes),
                };
                let out = (overhead(topology) + busy) * (n - 2) + overhead(topology) + takes;
                let expected = match kind {
                    SwitchKind::CutThrough => out,
                    SwitchKind::StoreAndForward => out + takes,
                };
                assert_eq!(builder.time(topology).makespan, expected);
            });
        }
    }
}

/// All devices send to all over links of their own: `α + a + s/w`, whatever the number of devices.
#[test]
fn one_shot_in_a_full_mesh() {
    cases(Wiring::Full, |topology, n, shard| {
        let mut builder = Builder::new(topology);
        let input = builder.input(&[shard]);
        for by in 1..n {
            builder.shift(input, X, i64::try_from(by).expect("small"), true, Route::Shortest);
        }
        assert_eq!(builder.time(topology).makespan, latency(topology) + at_link(topology, shard));
    });
}

/// A single message takes `2(a + m/w)` through a store-and-forward switch, as in simulators that model both of its
/// links.
#[test]
fn a_message_through_a_switch_that_stores() {
    let mut hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("h100_book").expect("shipped") };
    hardware.network.switch = SwitchKind::StoreAndForward;
    let topology = wired(hardware, &[8], None);
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[1_000_000]);
    builder.shift(input, X, 3, true, Route::Shortest);
    assert_eq!(builder.time(&topology).makespan, (us(&topology, 1) + at_link(&topology, 1_000_000)) * 2);
}

fn constant(index: u64) -> CoordMap {
    CoordMap::constant(i64::try_from(index).expect("small"))
}
