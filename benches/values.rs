//! What simulating costs beside the arithmetic itself: `A[I, J_X] * B[J_X, K] -> C[I, K_X]` on eight devices, a product
//! and a ring, against one product of the whole matrices. One thread, f32.
//!
//! The first lines compare the two in turns, so that both see the same machine; divan's table follows.

use shardc::dtype::DType;
use shardc::einsum::Einsum;
use shardc::layout::Sharding;
use shardc::mesh::{Axes, AxisId, Mesh};
use shardc::operator::Operator;
use shardc::schedule::{
    Array, ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Output, Route, Schedule, Sources,
};
use shardc::sim::values::{Inputs, inputs, run};
use shardc::span::Span;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SIZE: u64 = 2048;
const DEVICES: u32 = 8;
const ROUNDS: usize = 15;

fn push(schedule: &mut Schedule, kind: OpKind, extents: &[u64], operands: &[OpId]) -> OpId {
    let extents = extents.to_vec();
    let operation = Operation { kind, dtype: DType::F32, extents, step: 0, method: None, span: Span::default() };
    schedule.push(operation, operands)
}

fn declare(schedule: &mut Schedule, name: &str, definition: Dense) -> ArrayId {
    let id = ArrayId(u32::try_from(schedule.arrays.len()).expect("a few arrays"));
    let (dims, extents) = (vec!["rows".into(), "columns".into()], vec![SIZE, SIZE]);
    schedule.arrays.push(Array {
        name: name.into(),
        dtype: DType::F32,
        dims,
        valid: extents.clone(),
        extents,
        definition,
    });
    id
}

/// A product on each device, then a clockwise ring of chunks.
fn schedule() -> Schedule {
    let (x, n) = (AxisId::new(0), u64::from(DEVICES));
    let on = |dim: usize| {
        let mut sharding = Sharding::replicated(2);
        sharding.dims[dim] = Axes::one(x);
        sharding
    };
    let mut schedule = Schedule::new(Mesh::of(&[("X", DEVICES)]));
    let einsum = Einsum { operands: vec![vec![0, 1], vec![1, 2]], result: vec![0, 2] };
    let a = declare(&mut schedule, "A", Dense::Input);
    let b = declare(&mut schedule, "B", Dense::Input);
    let c = declare(&mut schedule, "C", Dense::Product { operands: [a, b], einsum: einsum.clone() });
    let left = push(&mut schedule, OpKind::Input { array: a, sharding: on(1) }, &[SIZE, SIZE / n], &[]);
    let right = push(&mut schedule, OpKind::Input { array: b, sharding: on(0) }, &[SIZE / n, SIZE], &[]);
    let sum = push(&mut schedule, OpKind::MatMul { einsum }, &[SIZE, SIZE], &[left, right]);
    let chunk = [SIZE, SIZE / n];
    let part = |schedule: &mut Schedule, shift: i64| {
        let region = vec![Cut::Whole, Cut::At(CoordMap::rotated(x, shift, n)), Cut::Whole];
        push(schedule, OpKind::Slice { view: vec![SIZE, n, SIZE / n], region }, &chunk, &[sum])
    };
    let mut value = part(&mut schedule, -1);
    for step in 1..i64::from(DEVICES) {
        let sources = Sources::Shift { axis: x, by: -1, wrap: true };
        let received = push(&mut schedule, OpKind::Shuffle { sources, route: Route::Hops(1) }, &chunk, &[value]);
        let own = part(&mut schedule, -1 - step);
        value = push(&mut schedule, OpKind::Add { operator: Operator::Sum }, &chunk, &[received, own]);
    }
    schedule.outputs.push(Output { value, array: c, sharding: on(1) });
    schedule
}

/// One product of the whole matrices.
#[expect(unsafe_code, reason = "the reference is the library itself")]
fn dense(a: &[f32], b: &[f32], c: &mut [f32]) {
    let n = usize::try_from(SIZE).expect("small");
    let row = isize::try_from(SIZE).expect("small");
    assert!([a.len(), b.len(), c.len()].iter().all(|length| *length == n * n));
    // SAFETY: all three are square matrices of n rows, and c is borrowed alone.
    unsafe {
        matrixmultiply::sgemm(n, n, n, 1.0, a.as_ptr(), row, 1, b.as_ptr(), row, 1, 0.0, c.as_mut_ptr(), row, 1);
    }
}

/// Schedule, inputs, and the two factors as plain lists.
fn setup() -> (Schedule, Inputs, [Vec<f32>; 2]) {
    let schedule = schedule();
    let inputs = inputs(&schedule, 0).expect("it fits");
    let factors = [0, 1].map(|id| inputs[&ArrayId(id)].to_vec::<f32>().expect("f32"));
    (schedule, inputs, factors)
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "the figures are what a bench is for")]
fn compare() {
    let (schedule, inputs, [a, b]) = setup();
    let mut c = vec![0.0; a.len()];
    let (mut simulated, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        whole.push(time(|| dense(&a, &b, black_box(&mut c))));
        simulated.push(time(|| drop(black_box(run(&schedule, &inputs).expect("it runs")))));
    }
    // The first round warms up.
    let [whole, simulated] = [whole, simulated].map(|times| median(times[1..].to_vec()));
    let ratio = simulated.as_secs_f64() / whole.as_secs_f64();
    println!("dense {whole:.1?}, simulated on {DEVICES} devices {simulated:.1?}, ratio {ratio:.3}");
}

#[divan::bench]
fn dense_product(bencher: divan::Bencher<'_, '_>) {
    let (_, _, [a, b]) = setup();
    let mut c = vec![0.0; a.len()];
    bencher.bench_local(|| dense(&a, &b, black_box(&mut c)));
}

#[divan::bench]
fn simulated_ring(bencher: divan::Bencher<'_, '_>) {
    let (schedule, inputs, _) = setup();
    bencher.bench_local(|| run(&schedule, &inputs));
}

fn main() {
    compare();
    divan::main();
}
