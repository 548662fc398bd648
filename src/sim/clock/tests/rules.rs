//! The timing rules one by one: absence, order, overhead, computation.

use super::*;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::mesh::DeviceId;
use crate::schedule::MOST_ELEMENTS;
use crate::sim::clock::ClockError;
use crate::topology::{HopRule, LocalMoves};
use crate::units::{Bytes, Rate};

fn v5e() -> Hardware {
    Hardware::named("tpu_v5e").expect("shipped")
}

#[test]
fn absent_blocks_send_nothing() {
    let topology = wired(v5e(), &[4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[4_000]);
    // Device c keeps part c - 2, so devices 0 and 1 keep none.
    let kept = builder.part(input, 4, CoordMap::shifted(AxisId::new(0), -2));
    let sent = builder.up(kept, X, true);
    builder.add(&[sent, kept]);
    let timing = builder.time(&topology);
    let loads: Vec<u64> = (0..4).map(|device| timing.links[device].bytes.0).collect();
    assert_eq!(loads, [0, 0, 1_000, 1_000]);
    assert_eq!(topology.show_link(timing.busiest.unwrap()).to_string(), "X: (2)->(3)");
}

/// Assembling a piece at an index outside a device's block produces no block there.
#[test]
fn an_assembly_without_a_piece_sends_nothing() {
    let topology = wired(v5e(), &[4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[4_000]);
    let places = vec![vec![Cut::At(CoordMap::shifted(AxisId::new(0), -2)), Cut::Whole]];
    let put = builder.push(OpKind::Assemble { view: vec![1, 4_000], places, zeros: false }, &[4_000], &[input]);
    builder.up(put, X, true);
    let timing = builder.time(&topology);
    let loads: Vec<u64> = (0..4).map(|device| timing.links[device].bytes.0).collect();
    assert_eq!(loads, [0, 0, 4_000, 0]);
}

#[test]
fn a_message_to_oneself_takes_no_time() {
    let topology = wired(v5e(), &[4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[1_000]);
    builder.shift(input, X, 0, true, Route::Shortest);
    let timing = builder.time(&topology);
    assert_eq!((timing.makespan, timing.busiest), (Time::ZERO, None));
}

/// Two messages share a link, one of them with two hops: its second hop waits for the message that is earlier in the
/// list.
#[test]
fn a_link_serves_in_the_order_of_the_list() {
    let hardware = Hardware { hop_rule: HopRule::Sum, ..v5e() };
    let topology = wired(hardware, &[4], Some(Wiring::Line));
    let mut builder = Builder::new(&topology);
    let large = builder.input(&[1_000_000]);
    let far = builder.shift(large, X, -2, false, Route::Hops(2));
    let near = builder.shift(large, X, -1, false, Route::Hops(1));
    let timing = builder.time(&topology);
    let each = at_link(&topology, 1_000_000);
    // The first hops leave 0 and 1 at once; the second hop over 1 -> 2 starts one latency later; then follow the near
    // ones.
    assert_eq!(timing.operation(far).finish, (us(&topology, 1) + each) * 2);
    assert_eq!(timing.operation(near).start, each);
    assert_eq!(timing.operation(near).finish, us(&topology, 2) + each * 3);
}

#[test]
fn overhead_counts_once_for_a_message() {
    for rule in [HopRule::Larger, HopRule::Sum] {
        let mut hardware = Hardware { hop_rule: rule, ..v5e() };
        hardware.network.message_overhead = 5_000_000;
        let topology = wired(hardware, &[6], Some(Wiring::Ring));
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[1]);
        builder.shift(input, X, -3, true, Route::Shortest);
        let timing = builder.time(&topology);
        let hop = match rule {
            HopRule::Larger => us(&topology, 1),
            HopRule::Sum => us(&topology, 1) + at_link(&topology, 1),
        };
        assert_eq!(timing.makespan, us(&topology, 5) + hop * 3);
    }
}

fn product(builder: &mut Builder, a: OpId, b: OpId, extents: &[u64]) -> OpId {
    let einsum = Einsum { operands: vec![vec![0, 1], vec![1, 2]], result: vec![0, 2] };
    builder.push(OpKind::MatMul { einsum }, extents, &[a, b])
}

#[test]
fn products_take_the_longer_of_operations_and_memory() {
    let topology = wired(v5e(), &[2], None);
    let mut builder = Builder::new(&topology);
    let [a, b] = [builder.input(&[1024, 2048]), builder.input(&[2048, 4096])];
    let long = product(&mut builder, a, b, &[1024, 4096]);
    let [row, column] = [builder.input(&[1, 2048]), builder.input(&[2048, 4096])];
    let thin = product(&mut builder, row, column, &[1, 4096]);
    let timing = builder.time(&topology);
    let flops = topology.scale.at_rate(2 * 1024 * 2048 * 4096, topology.hardware.int8_flops);
    let memory = topology.scale.at_rate(2048 + 2048 * 4096 + 4096, topology.hardware.hbm_bandwidth);
    assert_eq!(timing.operation(long).finish, flops);
    // A device computes one thing at a time.
    assert_eq!((timing.operation(thin).start, timing.operation(thin).finish), (flops, flops + memory));
    assert_eq!(timing.busiest_engine_time(), flops + memory);
}

#[test]
fn computing_and_sending_overlap() {
    let topology = wired(v5e(), &[4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let [a, b] = [builder.input(&[1024, 1024]), builder.input(&[1024, 1024])];
    let c = product(&mut builder, a, b, &[1024, 1024]);
    builder.up(b, X, true);
    let timing = builder.time(&topology);
    assert_eq!(timing.makespan, timing.operation(c).finish.max(at_link(&topology, 1 << 20)));
}

#[test]
fn maps_take_memory_and_local_moves_only_if_the_profile_says() {
    for (local_moves, moved) in [(LocalMoves::Free, 0), (LocalMoves::Memory, 3 * 900 + 2 * 300)] {
        let topology = wired(Hardware { local_moves, ..v5e() }, &[4], None);
        let mut builder = Builder::new(&topology);
        let [a, b] = [builder.input(&[900]), builder.input(&[900])];
        let einsum = Einsum { operands: vec![vec![0]], result: vec![0] };
        let map = builder.push(OpKind::Map { function: Function::Identity, einsum }, &[900], &[a]);
        let sum = builder.add(&[map, b]);
        builder.part(sum, 3, CoordMap::constant(1));
        let memory = topology.scale.at_rate(1_800 + moved, topology.hardware.hbm_bandwidth);
        assert_eq!(builder.time(&topology).makespan, memory);
    }
}

#[test]
fn what_cannot_be_timed_is_an_error() {
    let topology = wired(v5e(), &[4], Some(Wiring::Line));
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[8]);
    builder.up(input, X, true);
    assert!(matches!(run(&builder.schedule, &topology), Err(ClockError::Route { .. })));

    let other = wired(v5e(), &[5], None);
    assert!(matches!(run(&builder.schedule, &other), Err(ClockError::OtherMesh { .. })));

    let mut builder = Builder::new(&topology);
    builder.input(&[u64::MAX, 2]);
    assert!(matches!(run(&builder.schedule, &topology), Err(ClockError::Malformed(_))));

    let slow = Rate::new(1_000).expect("not zero");
    let mut hardware = v5e();
    hardware.network.one_way = slow;
    let topology = wired(hardware, &[4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let mut last = builder.input(&[MOST_ELEMENTS]);
    last = builder.up(last, X, true);
    builder.up(last, X, true);
    assert!(run(&builder.schedule, &topology).is_ok());

    let mut builder = Builder::new(&topology);
    builder.push(OpKind::Add { operator: Operator::Sum }, &[1], &[]);
    assert!(matches!(run(&builder.schedule, &topology), Err(ClockError::Malformed(_))));
}

#[test]
fn a_group_gathers_only_if_all_its_members_have_something() {
    let topology = wired(v5e(), &[2, 4], Some(Wiring::Ring));
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[4_000]);
    let kept = builder.part(input, 4, CoordMap::shifted(AxisId::new(0), -1));
    let gathered = builder.push(OpKind::AllGather { axes: vec![AxisId::new(1)], dim: 0 }, &[4_000], &[kept]);
    builder.up(gathered, 1, true);
    let timing = builder.time(&topology);
    let busy: Vec<bool> = topology.all_links().map(|id| timing.link(id).bytes > Bytes(0)).collect();
    let expected: Vec<bool> = topology
        .all_links()
        .map(|id| topology.link(id).axis == AxisId::new(1) && topology.link(id).device >= DeviceId(4))
        .collect();
    assert_eq!(busy, expected);
}
