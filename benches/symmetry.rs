//! Large meshes, where one device represents all: `cargo bench --bench symmetry`.
//!
//! Each benchmark lowers, proves and times one collective from its plan, and counts memory. The simulator alone is
//! also compared with the run over all devices. Ring sizes double from row to row.

mod common;

use common::{lowered, planned, posed};
use divan::{AllocProfiler, Bencher};
use shardc::compiler;
use shardc::sim::{clock, proof};

#[global_allocator]
static MEMORY: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// A mesh of rings, and a collective over all of its axes.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    axes: &'static [u64],
    kind: &'static str,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name)
    }
}

const CASES: [Case; 5] = [
    Case { name: "AllReduce, ring of 128", axes: &[128], kind: "AllReduce" },
    Case { name: "AllGather, 32x32", axes: &[32, 32], kind: "AllGather" },
    Case { name: "AllGather, 16x20x28", axes: &[16, 20, 28], kind: "AllGather" },
    Case { name: "AllReduce, 16x20x28", axes: &[16, 20, 28], kind: "AllReduce" },
    Case { name: "AllToAll, 16x20x28", axes: &[16, 20, 28], kind: "AllToAll" },
];

#[divan::bench(args = CASES, sample_count = 5, sample_size = 1)]
fn planned_proven_and_timed(bencher: Bencher<'_, '_>, case: Case) {
    let posed = posed(case.axes, "ring", case.kind);
    bencher.bench_local(|| {
        let (schedule, _) = compiler::schedule(&planned(&posed), &posed.1).expect("proven");
        clock::run(&schedule, &posed.1).expect("a time")
    });
}

#[divan::bench(args = CASES, sample_count = 5, sample_size = 1)]
fn proven(bencher: Bencher<'_, '_>, case: Case) {
    let schedule = lowered(&planned(&posed(case.axes, "ring", case.kind)));
    bencher.bench_local(|| proof::prove(&schedule).expect("proven"));
}

#[divan::bench(args = CASES, sample_count = 5, sample_size = 1)]
fn timed(bencher: Bencher<'_, '_>, case: Case) {
    let posed = posed(case.axes, "ring", case.kind);
    let schedule = lowered(&planned(&posed));
    bencher.bench_local(|| clock::run(&schedule, &posed.1).expect("a time"));
}

/// The benefit of symmetry: the same schedule proven and timed on all devices.
#[divan::bench(args = [8, 16, 32, 64], sample_count = 5, sample_size = 1)]
fn all_reduce_on_all_devices(bencher: Bencher<'_, '_>, devices: u64) {
    let posed = posed(&[devices], "ring", "AllReduce");
    let schedule = lowered(&planned(&posed));
    bencher.bench_local(|| {
        proof::prove_uncollapsed(&schedule).expect("proven");
        clock::run_uncollapsed(&schedule, &posed.1).expect("a time")
    });
}

#[divan::bench(args = [8, 16, 32, 64, 128, 256, 512, 1024], sample_count = 5, sample_size = 1)]
fn all_reduce_on_one_device(bencher: Bencher<'_, '_>, devices: u64) {
    let posed = posed(&[devices], "ring", "AllReduce");
    let schedule = lowered(&planned(&posed));
    bencher.bench_local(|| {
        proof::prove(&schedule).expect("proven");
        clock::run(&schedule, &posed.1).expect("a time")
    });
}
