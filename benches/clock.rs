//! Messages per second of the timing simulator: `cargo bench --bench clock`.

use divan::counter::ItemsCount;
use shardc::dtype::DType;
use shardc::layout::Sharding;
use shardc::mesh::{Axis, AxisId, Mesh, Wiring};
use shardc::schedule::{Array, ArrayId, Dense, OpId, OpKind, Operation, Route, Schedule, Sources};
use shardc::sim::clock;
use shardc::span::Span;
use shardc::topology::{Hardware, Topology};

fn main() {
    divan::main();
}

/// Adds an operation on blocks of a megabyte.
fn push(schedule: &mut Schedule, kind: OpKind, operands: &[OpId]) -> OpId {
    let extents = vec![1 << 20];
    schedule.push(Operation { kind, dtype: DType::I8, extents, step: 0, method: None, span: Span::default() }, operands)
}

/// A bidirectional ring AllGather of whole shards, one hop per message.
fn ring_gather(mesh: &Mesh) -> Schedule {
    let mut schedule = Schedule::new(mesh.clone());
    schedule.arrays.push(Array {
        name: "A".to_owned(),
        dtype: DType::I8,
        dims: vec!["I".to_owned()],
        extents: vec![1 << 20],
        valid: vec![1 << 20],
        definition: Dense::INPUT,
    });
    let input = OpKind::Input { array: ArrayId(0), sharding: Sharding::replicated(1) };
    let input = push(&mut schedule, input, &[]);
    let size = mesh.size(AxisId::new(0));
    for (by, steps) in [(-1, size / 2), (1, (size - 1) / 2)] {
        let mut last = input;
        for _ in 0..steps {
            let sources = Sources::Shift { axes: AxisId::new(0).into(), by, wrap: true };
            last = push(&mut schedule, OpKind::Shuffle { sources, route: Route::Hops(-by) }, &[last]);
        }
    }
    schedule
}

/// The schedule, its machine, and the number of messages.
fn ring(devices: u32) -> (Schedule, Topology, u64) {
    let axis = Axis { name: "X".to_owned(), size: devices, wiring: Some(Wiring::Ring), over: None };
    let mesh = Mesh::new(vec![axis]).expect("a small mesh");
    let schedule = ring_gather(&mesh);
    let topology = Topology::new(mesh, Hardware::named(Hardware::DEFAULT).expect("shipped")).expect("a common tick");
    (schedule, topology, u64::from(devices) * (u64::from(devices) - 1))
}

/// Simulates every message, with the load of every link.
#[divan::bench(args = [8, 64, 512])]
fn message_by_message(bencher: divan::Bencher<'_, '_>, devices: u32) {
    let (schedule, topology, messages) = ring(devices);
    let run = || clock::run_uncollapsed(&schedule, &topology).expect("a sound schedule");
    bencher.counter(ItemsCount::new(messages)).bench(run);
}

/// Simulates the same messages with one device representing all.
#[divan::bench(args = [8, 64, 512])]
fn one_device_for_all(bencher: divan::Bencher<'_, '_>, devices: u32) {
    let (schedule, topology, messages) = ring(devices);
    bencher.counter(ItemsCount::new(messages)).bench(|| clock::run(&schedule, &topology).expect("a sound schedule"));
}
