//! Time of planning, lowering, proof and simulation for growing numbers of devices, as tables: `cargo bench --bench growth`.
#![allow(clippy::print_stdout)]

mod common;
#[path = "../tests/common/fabrics.rs"]
mod fabrics;

use common::{lowered, planned, posed};
use fabrics::{Machine, fat_tree, hardware, rails, twisted};
use itertools::Itertools;
use shardc::compiler::{self, Options};
use shardc::schedule::Schedule;
use shardc::sim::{clock, proof};
use shardc::topology::Topology;
use shardc::units::show_seconds;
use std::time::Instant;

/// The allocator of the `shardc` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Runs first, because the memory figure is the peak of the process so far.
    limits();
    for (title, wiring, kind, sizes) in FAMILIES {
        family(title, wiring, kind, sizes);
    }
    on_fabrics();
}

/// A heading, a wiring, a collective, and machines of increasing size.
type Family = (&'static str, &'static str, &'static str, &'static [&'static [u64]]);

const LENGTHS: &[&[u64]] = &[&[16], &[32], &[64], &[128], &[256], &[512], &[1024]];
const SQUARES: &[&[u64]] = &[&[4, 4], &[8, 8], &[16, 16], &[32, 32]];

const KINDS: [&str; 4] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"];

const FAMILIES: [Family; 5] = [
    ("AllReduce on rings", "ring", "AllReduce", LENGTHS),
    ("AllGather on lines", "line", "AllGather", LENGTHS),
    ("AllGather on square tori", "ring", "AllGather", SQUARES),
    ("AllReduce on square tori", "ring", "AllReduce", SQUARES),
    ("AllToAll on square tori", "ring", "AllToAll", SQUARES),
];

/// Runs up to five times. Returns the result and the minimum time in seconds. Long runs are done once.
fn least<T>(run: impl Fn() -> T) -> (T, f64) {
    let mut best: Option<(T, f64)> = None;
    for _ in 0..5 {
        let start = Instant::now();
        let result = run();
        let seconds = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(_, least)| seconds < *least) {
            best = Some((result, seconds));
        }
        if seconds > 1.0 {
            break;
        }
    }
    best.expect("it ran")
}

/// Prints the limits and the measured values.
fn limits() {
    println!("## Limits\n\n| task | limit | measured |\n| --- | ---: | ---: |");
    let whole = |sizes: &[u64], kind: &str| {
        let posed = posed(sizes, "ring", kind);
        least(|| {
            let (schedule, _) = compiler::schedule(&planned(&posed), &posed.1).expect("proven");
            clock::run(&schedule, &posed.1).expect("a time")
        })
        .1
    };
    let seconds = whole(&[16, 20, 28], "AllReduce");
    println!("| AllReduce on 16x20x28: chosen, proven and timed | 1 s | {} |", show_seconds(seconds));
    println!("| its memory | 500 MB | {} |", most_memory().unwrap_or_else(|| "not known here".to_owned()));
    println!("| AllGather on 32x32: the same | 1 s | {} |", show_seconds(whole(&[32, 32], "AllGather")));
    let posed = posed(&[128], "ring", "AllReduce");
    let seconds = least(|| compiler::schedule(&planned(&posed), &posed.1).expect("proven")).1;
    println!("| AllReduce on a ring of 128: chosen and proven | 10 ms | {} |", show_seconds(seconds));
}

/// Peak memory of the process so far, if the system reports it.
fn most_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{} MB", kib * 1024 / 1_000_000))
}

/// Prints operations, followed devices, and the time of each stage; `x` is the growth of the total over the previous
/// row.
fn family(title: &str, wiring: &str, kind: &str, machines: &[&[u64]]) {
    println!("\n## {title}\n\n| devices | operations | followed | planned | lowered | proven | timed | all | x |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut before: Option<f64> = None;
    for sizes in machines {
        let posed = posed(sizes, wiring, kind);
        let (plan, planning) = least(|| planned(&posed));
        let (schedule, lowering): (Schedule, f64) = least(|| lowered(&plan));
        let topology: &Topology = &posed.1;
        let (proof, proving) = least(|| proof::prove(&schedule).expect("proven"));
        let timing = least(|| clock::run(&schedule, topology).expect("a time")).1;
        let all = planning + lowering + proving + timing;
        let (operations, followed) = (schedule.operations.node_count(), proof.followed);
        let growth = before.map_or(String::new(), |before| format!("{:.1}", all / before));
        let figures = [planning, lowering, proving, timing, all].map(show_seconds).iter().join(" | ");
        let devices: u64 = sizes.iter().product();
        println!("| {devices} | {operations} | {followed} | {figures} | {growth} |");
        before = Some(all);
    }
}

/// Prints the time to plan and prove a collective over all devices of a fabric, and to time its schedule.
fn on_fabrics() {
    println!("\n## Fabrics\n\n| machine | mesh | collective | operations | planned and proven | timed | all |");
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: |");
    let machines: [(&str, Machine, [&str; 2]); 3] = [
        ("32 nodes of 8 on rails", rails(32, 8), ["D: 32, X: 8", "X: 256"]),
        ("twisted torus of 4x4x8", twisted([4, 4, 8]), ["X: 4, Y: 4, Z: 8", "X: 128"]),
        ("fat tree of 128 hosts, 2:1", fat_tree(16, 4), ["L: 16, X: 8", "X: 128"]),
    ];
    for (name, machine, meshes) in machines {
        let options = Options { hardware: Some(hardware(machine)), ..Options::default() };
        for (mesh, kind) in meshes.into_iter().flat_map(|mesh| KINDS.map(|kind| (mesh, kind))) {
            let axes: String = mesh.split(", ").map(|axis| &axis[..1]).collect();
            let statements = common::collective(kind, &axes);
            let source = format!("mesh {{{mesh}}}\ndims {{I: 3840, J: 65280}}\n{statements}\n");
            let program = compiler::check(&source).0.expect("a right program");
            let (compiled, planning) = least(|| compiler::compile(&program, &options).expect("proven"));
            let timing = least(|| clock::run(&compiled.schedule, &compiled.topology).expect("a time")).1;
            let operations = compiled.schedule.operations.node_count();
            let [planning, timing, all] = [planning, timing, planning + timing].map(show_seconds);
            println!("| {name} | `{mesh}` | {kind} | {operations} | {planning} | {timing} | {all} |");
        }
    }
}
