//! Export of schedules to other formats, and back: `cargo bench --bench export`.

use divan::Bencher;
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::export::{msccl, mscclpp, ranks};
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::Schedule;

#[path = "../tests/common/single.rs"]
mod single;

/// The allocator of the `shardc` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const CASES: [&str; 5] = [
    "AllReduce, ring of 32",
    "AllReduce, ring of 64",
    "AllReduce, ring of 128",
    "AllToAll of 64",
    "AllReduce, torus of 16 x 16",
];

fn schedule(case: &str) -> Schedule {
    let ring = |n: u32| {
        let extents = [u64::from(n), 64];
        single::one_axis(
            CollectiveKind::AllReduce,
            Method::ClockwiseRing,
            single::axis(Wiring::Ring, n),
            extents,
            DType::F32,
            1,
        )
    };
    match case {
        "AllReduce, ring of 32" => ring(32),
        "AllReduce, ring of 64" => ring(64),
        "AllReduce, ring of 128" => ring(128),
        "AllReduce, torus of 16 x 16" => {
            let source = "mesh {X: 16 ring, Y: 16 ring} on tpu_v5e\nA: f32[16384, 8192]{U_XY}\n\
                          AllReduce_XY(A[16384, 8192]{U_XY}) -> B[16384, 8192]\n";
            let program = compiler::check(source).0.expect("a right program");
            compiler::compile(&program, &Options::default()).expect("a plan").schedule
        }
        _ => {
            let mesh = single::axis(Wiring::Switch, 64);
            single::one_axis(CollectiveKind::AllToAll, Method::OneHop, mesh, [64, 64], DType::F32, 1)
        }
    }
}

fn program(schedule: &Schedule) -> msccl::Program {
    let algorithm = ranks::algorithm(schedule).expect("a collective");
    msccl::build(&algorithm, "it", &msccl::Options::default()).expect("within the limits")
}

/// From a schedule to MSCCL text.
#[divan::bench(args = CASES)]
fn write_msccl(bencher: Bencher<'_, '_>, case: &str) {
    let schedule = schedule(case);
    bencher.bench(|| msccl::write(&program(&schedule), &msccl::Options::default()));
}

/// From MSCCL text to the proof.
#[divan::bench(args = CASES)]
fn prove_msccl(bencher: Bencher<'_, '_>, case: &str) {
    let text = msccl::write(&program(&schedule(case)), &msccl::Options::default());
    bencher.bench(|| {
        let program = msccl::read(&text).expect("a file").program;
        msccl::prove(&program, None, msccl::Room::of(program.dialect)).expect("right")
    });
}

/// From a schedule to MSCCL++ text.
#[divan::bench(args = CASES)]
fn write_mscclpp(bencher: Bencher<'_, '_>, case: &str) {
    let schedule = schedule(case);
    let plan = |schedule| mscclpp::build(&ranks::algorithm(schedule).expect("a collective"), "it").expect("a plan");
    bencher.bench(|| mscclpp::write(&plan(&schedule)));
}

/// From MSCCL++ text to the proof.
#[divan::bench(args = CASES)]
fn prove_mscclpp(bencher: Bencher<'_, '_>, case: &str) {
    let algorithm = ranks::algorithm(&schedule(case)).expect("a collective");
    let text = mscclpp::write(&mscclpp::build(&algorithm, "it").expect("a plan"));
    bencher.bench(|| mscclpp::prove(&mscclpp::read(&text).expect("a file"), None).expect("right"));
}
