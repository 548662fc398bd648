//! Overhead of the numeric simulation: `A[I, J_X] * B[J_X, K] -> C[I, K_X]` on eight devices, compared with a single
//! product of the whole matrices, in f32 and with the same number of threads. Inputs are prepared before; results are
//! not compared.
//!
//! The first lines of output alternate between the two, so that both run under the same conditions. Divan's table
//! follows.

use shardc::compiler::{self, Options};
use shardc::schedule::{ArrayId, Schedule};
use shardc::sim::values::{Inputs, inputs, run};
use std::hint::black_box;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

/// The allocator of the `shardc` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZE: usize = 2048;
const DEVICES: u32 = 8;
const ROUNDS: usize = 15;

const PROGRAM: &str = "\
mesh {X: 8 ring} on tpu_v5e
dims {I: 2048, J: 2048, K: 2048}
A: f32[I, J_X]
B: f32[J_X, K]
A * B -> C[I, K_X]";

/// The compiled schedule, with the default method or another one.
fn schedule(using: &str) -> Schedule {
    let program = compiler::check(&format!("{PROGRAM}{using}\n")).0.expect("a right program");
    compiler::compile(&program, &Options::default()).expect("it compiles").schedule
}

/// One product of the whole matrices; each thread computes a share of the rows.
fn dense(a: &[f32], b: &[f32], c: &mut [f32]) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = SIZE.div_ceil(threads) * SIZE;
    thread::scope(|scope| {
        for (a, c) in a.chunks(share).zip(c.chunks_mut(share)) {
            scope.spawn(move || rows(a, b, c));
        }
    });
}

/// Computes some rows of the product.
#[expect(unsafe_code, reason = "the reference is the library itself")]
fn rows(a: &[f32], b: &[f32], c: &mut [f32]) {
    let row = isize::try_from(SIZE).expect("small");
    assert!(a.len() == c.len() && a.len().is_multiple_of(SIZE) && b.len() == SIZE * SIZE);
    let m = a.len() / SIZE;
    // SAFETY: a and c have m rows of SIZE elements, b has SIZE rows, and c is borrowed exclusively.
    unsafe {
        matrixmultiply::sgemm(m, SIZE, SIZE, 1.0, a.as_ptr(), row, 1, b.as_ptr(), row, 1, 0.0, c.as_mut_ptr(), row, 1);
    }
}

/// The schedule, its inputs, and the two factors as plain vectors.
fn setup(using: &str) -> (Schedule, Inputs, [Vec<f32>; 2]) {
    let schedule = schedule(using);
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
fn compare(using: &str) {
    let (schedule, inputs, [a, b]) = setup(using);
    let mut c = vec![0.0; a.len()];
    let (mut simulated, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        whole.push(time(|| dense(&a, &b, black_box(&mut c))));
        simulated.push(time(|| drop(black_box(run(&schedule, &inputs).expect("it runs")))));
    }
    // The first round is a warm-up.
    let [whole, simulated] = [whole, simulated].map(|times| median(times[1..].to_vec()));
    let ratio = simulated.as_secs_f64() / whole.as_secs_f64();
    let method = if using.is_empty() { "by default" } else { using.trim() };
    println!("dense {whole:.1?}, simulated on {DEVICES} devices {method} {simulated:.1?}, ratio {ratio:.3}");
}

#[divan::bench]
fn dense_product(bencher: divan::Bencher<'_, '_>) {
    let (_, _, [a, b]) = setup("");
    let mut c = vec![0.0; a.len()];
    bencher.bench_local(|| dense(&a, &b, black_box(&mut c)));
}

#[divan::bench]
fn simulated_ring(bencher: divan::Bencher<'_, '_>) {
    let (schedule, inputs, _) = setup("");
    bencher.bench_local(|| run(&schedule, &inputs));
}

fn main() {
    for using in ["", " using meet_in_middle_ring", " using clockwise_ring", " using furiosa_diagonal"] {
        compare(using);
    }
    divan::main();
}
