//! Times quoted in the sources, reproduced by the simulator.

use super::*;
use crate::topology::{Link, LinkSide};
use crate::units::Bytes;

/// Block size in bytes. A ring of eight devices holds 8 x 8 blocks, eight on each device.
const BLOCK: u64 = 90_000;

fn ring_of_eight() -> Topology {
    wired(Hardware::named("tpu_v5e").expect("shipped"), &[8], Some(Wiring::Ring))
}

/// Blocks carried by a link up and by a link down; all links of a direction carry the same number.
fn blocks(topology: &Topology, timing: &Timing) -> [u64; 2] {
    [LinkSide::Up, LinkSide::Down].map(|side| {
        let on = |device| timing.link(topology.link_id(Link { axis: AxisId::new(0), side, device })).bytes;
        let all: Vec<Bytes> = topology.mesh.devices().map(on).collect();
        assert!(all.iter().all(|bytes| *bytes == all[0]));
        all[0].0 / BLOCK
    })
}

/// `eighths / 8` of V/W, where W is the bandwidth of both directions and V the size of all 64 blocks.
fn of_whole(topology: &Topology, eighths: u64) -> Time {
    at_link(topology, 64 * BLOCK / 2 / 8 * eighths)
}

#[test]
fn g10_whole_shards_both_ways() {
    let topology = ring_of_eight();
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[8 * BLOCK]);
    ring_gather(&mut builder, input, X, 4, 3);
    let timing = builder.time(&topology);
    assert_eq!(blocks(&topology, &timing), [32, 24]);
    assert_eq!(timing.makespan, of_whole(&topology, 8));
    assert_eq!(topology.all_gather([AxisId::new(0)], Bytes(64 * BLOCK)).time, timing.makespan);
    assert_eq!(timing.busiest_link_time(), timing.makespan);
}

#[test]
fn g11_half_shards_both_ways() {
    let topology = ring_of_eight();
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[8 * BLOCK]);
    let [lower, upper] = [0, 1].map(|index| builder.part(input, 2, CoordMap::constant(index)));
    ring_gather(&mut builder, lower, X, 7, 0);
    ring_gather(&mut builder, upper, X, 0, 7);
    let timing = builder.time(&topology);
    assert_eq!(blocks(&topology, &timing), [28, 28]);
    assert_eq!(timing.makespan, of_whole(&topology, 7));
}

#[test]
fn g12_one_direction() {
    let topology = ring_of_eight();
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[8 * BLOCK]);
    ring_gather(&mut builder, input, X, 7, 0);
    let timing = builder.time(&topology);
    assert_eq!(blocks(&topology, &timing), [56, 0]);
    assert_eq!(timing.makespan, of_whole(&topology, 14));
}

/// G13: an exchange of 64 blocks that sends the antipodal block always in the same direction: 10 and 6 blocks per link.
#[test]
fn g13_an_unbalanced_exchange() {
    let topology = ring_of_eight();
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[8 * BLOCK]);
    for by in 1..8 {
        let block = builder.part(input, 8, CoordMap::rotated(AxisId::new(0), by, 8));
        builder.shift(block, X, -by, true, Route::Shortest);
    }
    assert_eq!(blocks(&topology, &builder.time(&topology)), [10, 6]);
}

/// G17: 2048x8192 bf16 over Y = 4 of v5e {X: 8, Y: 4}.
#[test]
fn g17_a_gather_on_a_ring_and_on_a_line() {
    let v5e = || Hardware::named("tpu_v5e").expect("shipped");
    let (full, shard, y) = (2048 * 8192 * 2, 2048 * 8192 / 2, AxisId::new(1));
    let ring = wired(v5e(), &[8, 4], Some(Wiring::Ring));
    let mut builder = Builder::new(&ring);
    let input = builder.input(&[shard]);
    ring_gather(&mut builder, input, 1, 2, 1);
    let timing = builder.time(&ring);
    assert_eq!(timing.makespan, ring.all_gather([y], Bytes(full)).time);
    assert_eq!(ring.scale.show(timing.makespan), "372.8 us");

    let line = wired(v5e(), &[8, 4], None);
    let mut builder = Builder::new(&line);
    let input = builder.input(&[shard]);
    line_gather(&mut builder, input, 1, 4);
    let timing = builder.time(&line);
    assert_eq!(timing.makespan, line.all_gather([y], Bytes(full)).time);
    assert_eq!(line.scale.show(timing.makespan), "559.2 us");
}

/// G18: the same with 256x256.
#[test]
fn g18_a_small_gather_on_a_line() {
    let line = wired(Hardware::named("tpu_v5e").expect("shipped"), &[8, 4], None);
    let mut builder = Builder::new(&line);
    let input = builder.input(&[256 * 256 / 2]);
    line_gather(&mut builder, input, 1, 4);
    assert_eq!(builder.time(&line).makespan, us(&line, 3));
}

/// Gathers along X of a v4p 4x4x4, by whole and by half shards.
fn along_a_cube(shard: u64) -> [Timing; 2] {
    let cube = wired(Hardware::named("tpu_v4p").expect("shipped"), &[4, 4, 4], None);
    let mut whole = Builder::new(&cube);
    let input = whole.input(&[shard]);
    ring_gather(&mut whole, input, X, 2, 1);
    let mut halves = Builder::new(&cube);
    let input = halves.input(&[shard]);
    let [lower, upper] = [0, 1].map(|index| halves.part(input, 2, CoordMap::constant(index)));
    ring_gather(&mut halves, lower, X, 3, 0);
    ring_gather(&mut halves, upper, X, 0, 3);
    [whole.time(&cube), halves.time(&cube)]
}

/// G19: `AllGather_X([B_X, D_Y])`, B = 1024, D = 4096 bf16; G21: `ReduceScatter_Z` of a quarter of that.
#[test]
fn g19_g21_gathers_on_a_cube() {
    let scale = wired(Hardware::named("tpu_v4p").expect("shipped"), &[4, 4, 4], None).scale;
    let array = 1024 * 4096 * 2;
    let shown = |shard: u64| along_a_cube(shard).map(|timing| scale.show(timing.makespan));
    assert_eq!(shown(array / 16), ["23.30 us", "17.48 us"]);
    assert_eq!(shown(array / 64)[0], "5.83 us");
}

/// G21: the same bytes as a ReduceScatter, and twice that as an AllReduce, with the additions free.
#[test]
fn g21_a_reduction_on_a_cube() {
    let cube = wired(Hardware::named("tpu_v4p").expect("shipped"), &[4, 4, 4], None);
    let (array, z) = (1024 * 4096 * 2 / 16, AxisId::new(2));
    let mut builder = Builder::new(&cube);
    let input = builder.input(&[array]);
    // Part c + 2 takes two hops up, parts c + 1 and c - 1 one hop each: the gather in reverse.
    let part = |builder: &mut Builder, by| builder.part(input, 4, CoordMap::rotated(z, by, 4));
    let [own, up, far, down] = [0, 1, 2, 3].map(|by| part(&mut builder, by));
    let far = builder.up(far, 2, true);
    let up = builder.add(&[up, far]);
    let [up, down] = [builder.up(up, 2, true), builder.down(down, 2, true)];
    let scattered = builder.add(&[own, up, down]);
    assert_eq!(cube.scale.show(builder.time(&cube).makespan), "5.83 us");
    ring_gather(&mut builder, scattered, 2, 2, 1);
    let timing = builder.time(&cube);
    assert_eq!(timing.makespan, cube.all_reduce([z], Bytes(array)).time);
    assert_eq!(cube.scale.show(timing.makespan), "11.65 us");
}

/// G22: 128 bf16 over X = 4: two hops of 64 bytes.
#[test]
fn g22_two_hops() {
    let cube = wired(Hardware::named("tpu_v4p").expect("shipped"), &[4, 4, 4], None);
    let [timing, _] = along_a_cube(64);
    assert_eq!(timing.makespan, us(&cube, 2));
    let up = cube.link_id(Link { axis: AxisId::new(0), side: LinkSide::Up, device: crate::mesh::DeviceId(0) });
    assert_eq!(timing.link(up).bytes, Bytes(2 * 64));
}
