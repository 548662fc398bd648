//! First come, first served, compared with closed forms and with list order.

use super::super::{Order, run_in, run_recorded_in};
use super::*;
use crate::schedule::methods::{self, Method};
use crate::topology::HopRule;

/// An exchange along one axis.
fn exchange(topology: &Topology, method: Method, block: u64) -> Schedule {
    let n = u64::from(topology.mesh.axes()[0].size);
    let mut builder = Builder::new(topology);
    let input = builder.input(&[n, block]);
    let mut made = crate::schedule::Builder::new(&mut builder.schedule, 0, Span::default());
    methods::all_to_all(&mut made, method, AxisId::new(X), input, 1, 0);
    builder.schedule
}

fn by_sum(sizes: &[u32], wiring: Wiring) -> Topology {
    let hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("tpu_v5e").expect("shipped") };
    wired(hardware, sizes, Some(wiring))
}

/// Each block in one message, farthest first, with half a block each way to the antipode: one hop latency, and N²/8
/// blocks per link, (N² - 1)/8 if N is odd. In list order, links wait for each hop of a message.
#[test]
fn direct_exchanges_hide_their_hops() {
    for n in 3..=16u32 {
        let topology = by_sum(&[n], Wiring::Ring);
        let method = if n % 2 == 0 { Method::DirectHalves } else { Method::Direct };
        let block = 8_000_000;
        let schedule = exchange(&topology, method, block);
        let (timing, record) = run_recorded_in(&schedule, &topology, Order::Arrival).expect("a time");
        let n = u64::from(n);
        let blocks = if n % 2 == 0 { n * n } else { n * n - 1 };
        assert_eq!(timing.makespan, topology.axes[0].hop_latency + at_link(&topology, block / 8) * blocks, "{n}");
        let listed = run(&schedule, &topology).expect("a time");
        assert_eq!(listed.links, timing.links, "{n}: links carry the same in any order");
        assert!(listed.makespan >= timing.makespan);
        assert!(!record.cut && record.collapsed.is_empty());
    }
}

/// Each link and engine serves one job at a time, in any service order.
#[test]
fn what_serves_serves_one_at_a_time() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..100 {
        let topology = oracle::random_topology(&mut random);
        let schedule = oracle::random_schedule(&mut random, &topology);
        let (timing, record) = run_recorded_in(&schedule, &topology, Order::Arrival).expect("a sound schedule");
        let mut uses = record.uses;
        uses.sort_by_key(|used| (used.resource, used.start, used.finish));
        assert!(uses.is_sorted_by(|one, next| one.resource != next.resource || one.finish <= next.start));
        assert!(timing.makespan >= timing.busiest_link_time().max(timing.busiest_engine_time()));
        let again = run_in(&schedule, &topology, Order::Arrival).expect("a sound schedule");
        assert_eq!(timing, again);
    }
}

/// A gather kept as one operation has no messages to serve separately.
#[test]
fn kept_gathers_are_refused() {
    let topology = by_sum(&[4], Wiring::Ring);
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[4]);
    builder.push(OpKind::AllGather { axes: vec![AxisId::new(X)], dim: 0 }, &[16], &[input]);
    let error = run_in(&builder.schedule, &topology, Order::Arrival).expect_err("refused");
    assert!(error.to_string().contains("first-come, first-served"), "{error}");
}

/// Schedules above the limit are refused before the run.
#[test]
fn many_blocks_are_refused() {
    let topology = by_sum(&[1024, 1024], Wiring::Ring);
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[4]);
    (0..64).for_each(|_| {
        builder.up(input, X, true);
    });
    assert_eq!(run_in(&builder.schedule, &topology, Order::Arrival), Err(super::super::ClockError::ManyBlocks));
}
