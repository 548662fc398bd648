//! Laws for every collective on every wiring: no schedule is faster than its bound, and some reach it.

use crate::common::{compile, compile_by, compile_with, first_collective, programs};
use itertools::iproduct;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::recipe::Lowering;
use shardc::report::{Findings, step_bound};
use shardc::sim::clock;
use shardc::topology::Hardware;
use shardc::units::{Rate, Time};
use std::collections::BTreeMap;

/// A collective along one axis, written by hand, with `V` bytes in full form on each device.
fn statement(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "AllGather" => ("A: i8[I_X, J]", "AllGather_X(A[I_X, J]) -> B[I, J]"),
        "ReduceScatter" => ("A: i8[I, J]{U_X}", "ReduceScatter_{X,I}(A[I, J]{U_X}) -> B[I_X, J]"),
        "AllReduce" => ("A: i8[I, J]{U_X}", "AllReduce_X(A[I, J]{U_X}) -> B[I, J]"),
        _ => ("A: i8[I_X, J]", "AllToAll_{X,J}(A[I_X, J]) -> B[I, J_X]"),
    }
}

const KINDS: [&str; 4] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"];

/// Simulated time over bound, for `rows` rows of 64·n bytes.
fn ratio(kind: &str, wiring: &str, n: u64, rows: u64) -> f64 {
    let (input, line) = statement(kind);
    let (i, j) = (rows * n, 64 * n);
    let source = format!("mesh {{X: {n} {wiring}}} on tpu_v5e\ndims {{I: {i}, J: {j}}}\n{input}\n{line}");
    let compiled = compile(&source);
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
    assert!(timing.makespan >= bound, "{kind} on a {wiring} of {n} beats its bound");
    timing.makespan.ratio(bound)
}

/// Large arrays: all collectives reach the bound on rings, switches and full meshes of any length, gathers and scatters on lines
/// too.
#[test]
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn no_collective_beats_its_bound_and_rings_reach_it() {
    let mut worst: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for wiring in ["ring", "line", "switch", "full"] {
        for kind in KINDS {
            for n in [2, 3, 4, 5, 6, 7, 8, 9, 16] {
                let ratio = ratio(kind, wiring, n, 4096);
                let entry = worst.entry((wiring, kind)).or_insert(1.0);
                *entry = entry.max(ratio);
            }
        }
    }
    for ((wiring, kind), ratio) in &worst {
        println!("{wiring:<7} {kind:<14} at most {ratio:.3} of the bound");
    }
    for ((wiring, kind), ratio) in &worst {
        let most = match (*wiring, *kind) {
            // A chain takes a few hops in addition to its chunks.
            ("line", "AllReduce") => 1.05,
            _ => 1.000_001,
        };
        assert!(*ratio < most, "{kind} on a {wiring}: {ratio}");
    }
}

/// The input and the statement of a collective over all axes of a mesh.
pub(crate) fn collective_over(kind: &str, mesh: &str) -> String {
    let axes: String = mesh.split(", ").map(|axis| &axis[..1]).collect();
    let (input, line) = match kind {
        "AllGather" => (format!("A: i8[I_{axes}, J]"), format!("AllGather_{axes}(A[I_{axes}, J]) -> B[I, J]")),
        "ReduceScatter" => {
            let line = format!("ReduceScatter_{{{axes},I}}(A[I, J]{{U_{axes}}}) -> B[I_{axes}, J]");
            (format!("A: i8[I, J]{{U_{axes}}}"), line)
        }
        "AllToAll" => {
            let line = format!("AllToAll_{{{axes},J}}(A[I_{axes}, J]) -> B[I, J_{axes}]");
            (format!("A: i8[I_{axes}, J]"), line)
        }
        _ => (format!("A: i8[I, J]{{U_{axes}}}"), format!("AllReduce_{axes}(A[I, J]{{U_{axes}}}) -> B[I, J]")),
    };
    format!("{input}\n{line}\n")
}

/// A collective over all axes of a mesh, with `V` bytes in full form on each device.
fn ratio_over_several(kind: &str, mesh: &str, rows: u64) -> f64 {
    let statements = collective_over(kind, mesh);
    let j = if rows.is_multiple_of(15) { 15 << 16 } else { 1 << 20 };
    let source = format!("mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {j}}}\n{statements}");
    let compiled = compile(&source);
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let bound = step_bound(&compiled.plan, first_collective(&compiled), &compiled.topology).bound.time();
    assert!(timing.makespan >= bound, "{kind} on {mesh} beats its bound");
    timing.makespan.ratio(bound)
}

/// Over several axes at once, all links are equally busy, even if axes differ, on rings and lines.
#[test]
#[expect(clippy::print_stdout, reason = "the ratios are worth reading")]
fn collectives_over_several_axes_reach_their_bound() {
    let tori = [
        ("X: 4 ring, Y: 4 ring", 16 * 16),
        ("X: 4 ring, Y: 8 ring", 32 * 16),
        ("X: 3 ring, Y: 5 ring", 15 * 32),
        ("X: 2, Y: 8 ring", 16 * 16),
        ("X: 3 ring, Y: 4 ring, Z: 5 ring", 60 * 8),
        ("X: 4 line, Y: 4 line", 16 * 16),
        ("X: 4 line, Y: 8 ring", 32 * 16),
        ("X: 4 switch, Y: 4 ring", 16 * 16),
    ];
    for (mesh, rows) in tori {
        for kind in KINDS {
            let ratio = ratio_over_several(kind, mesh, rows);
            println!("{mesh:<32} {kind:<14} {ratio:.4} of the bound");
            // A scatter followed by a gather leaves the inner links of a line idle in turn.
            let most = if kind == "AllReduce" && mesh.contains("line") { 1.51 } else { 1.01 };
            assert!(ratio < most, "{kind} on {mesh}: {ratio}");
        }
    }
}

/// Small arrays are latency-bound.
#[test]
fn no_small_collective_beats_its_bound() {
    for wiring in ["ring", "line", "switch", "full"] {
        for kind in KINDS {
            for n in [2, 3, 4, 5, 8, 16] {
                ratio(kind, wiring, n, 1);
            }
        }
    }
}

/// Every byte sent is received: the bytes over all links of a collective are those of its messages.
#[test]
fn link_bytes_are_what_the_plan_counts_on_a_switch() {
    for kind in KINDS {
        let (input, line) = statement(kind);
        let source = format!("mesh {{X: 4 switch}} on h100_book\ndims {{I: 4096, J: 4096}}\n{input}\n{line}");
        let compiled = compile(&source);
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
        let received = compiled.plan.step(first_collective(&compiled)).usage.received().0;
        let devices = compiled.topology.mesh.device_count() as u64;
        // Every message leaves through one port and enters through another.
        let over_links: u64 = timing.links.iter().map(|link| link.bytes.0).sum();
        assert_eq!(over_links, 2 * received * devices, "{kind}");
    }
}

/// The slices of a chip share its port: it is busy for the bytes of all of them.
#[test]
fn slices_of_a_chip_share_its_port() {
    let path = format!("{}/examples/models/furiosa_slices.shard", env!("CARGO_MANIFEST_DIR"));
    let compiled = compile(&std::fs::read_to_string(path).expect("an example"));
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let rate = Rate::new(64_000_000_000).expect("a rate");
    assert_eq!(timing.busiest_link_time(), compiled.topology.scale.at_rate(65536 * 3 / 4, rate));
}

/// Over nodes and inside them, large arrays take the time of the slower network, as the book's forms say, and little more.
#[test]
fn levels_are_crossed_at_once() {
    let ground = "mesh {N: 4 over ib, X: 8} on h100_book\ndims {I: 65536, J: 8192}\n";
    for kind in KINDS {
        let (input, line) = statement(kind);
        let both = |text: &str| text.replace("_X", "_NX").replace("{X,", "{NX,");
        let source = format!("{ground}{}\n{}", both(input), both(line));
        let time = |costs| {
            let compiled = compile_with(&source, costs);
            compiled.topology.scale.seconds(compiled.plan.step(first_collective(&compiled)).cost.time)
        };
        let (book, simulated) = (time(CostModel::Book), time(CostModel::Exact));
        assert!((0.999..1.03).contains(&(simulated / book)), "{kind}: {book} by the book, {simulated} simulated");
    }
}

/// With engines, no collective is faster than its bound, and no engine is busy for longer than the run.
#[test]
fn engines_keep_to_the_bounds() {
    let options = Options { hardware: Hardware::named("furiosa"), ..Options::default() };
    let ground = "dims {I: 4096, J: 512}";
    let mut sources: Vec<String> = iproduct!(KINDS, ["ring", "line", "switch", "full"], [2, 3, 8])
        .map(|(kind, wiring, n)| {
            let (input, line) = statement(kind);
            format!("mesh {{X: {n} {wiring}}}\ndims {{I: {}, J: {}}}\n{input}\n{line}", 512 * n, 64 * n)
        })
        .collect();
    // Over one of two axes, with replicas along the other one, and over both.
    for (kind, y) in iproduct!(KINDS, ["2", "4 ring", "3 switch"]) {
        let (input, line) = statement(kind);
        let both = |text: &str| text.replace("_X", "_XY").replace("{X,", "{XY,");
        let mesh = format!("mesh {{X: 4 ring, Y: {y}}}\ndims {{I: 3072, J: 1536}}");
        sources.push(format!("{mesh}\n{input}\n{line}"));
        sources.push(format!("{mesh}\n{}\n{}", both(input), both(line)));
    }
    sources.push(format!("mesh {{X: 4}}\n{ground}\nA: bf16[I, J_X]\nB[I, J] = exp(relu(A) + A)"));
    sources.extend(programs("examples/book").iter().map(|path| std::fs::read_to_string(path).expect("an example")));
    for source in sources {
        let (program, _) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{source}"));
        for keep_all_gather in [false, true] {
            let lowering = Lowering { keep_all_gather, ..Lowering::default() };
            let options = Options { lowering, ..options.clone() };
            let compiled = compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            assert!(timing.makespan >= Findings::new(&compiled.plan, &compiled.topology).bound.time, "{source}");
            assert_eq!(timing.engines.len(), compiled.topology.hardware.engines.names().len());
            assert!(timing.makespan >= timing.busiest_engine_time(), "{source}");
            for step in compiled.plan.ids() {
                let bound = step_bound(&compiled.plan, step, &compiled.topology).bound;
                assert!(timing.makespan >= bound.time(), "{source}\n{keep_all_gather}");
            }
        }
    }
}

/// A message crosses a switch once for all axes on it. On many devices, with an axis in parts, the bounds of whole axes
/// do not apply.
#[test]
fn axes_on_one_switch_are_one_crossing() {
    for (switch, line) in iproduct!(
        ["cut_through", "store_and_forward"],
        [
            "A: bf16[I_PB, J]\nC = AllGather_{P,B}(A)",
            "A: bf16[I, J]{U_PB}\nC = AllReduce_{P,B}(A)",
            "A: bf16[I, J]{U_PB}\nC = ReduceScatter_{PB,I}(A)",
            "A: bf16[I_PB, J]\nC = AllToAll_{PB,J}(A)",
        ]
    ) {
        let toml = Hardware::named("h100_book").expect("shipped").to_toml();
        let hardware = Hardware::from_toml(&toml.replace("cut_through", switch)).expect("a profile");
        for (size, costs) in iproduct!([512, 65536], [CostModel::Exact, CostModel::Bytes]) {
            let source = format!(
                "mesh {{A: 16 over ib, B: 8 over ib}}\naxis A = {{Q: 4, P: 4}}\ndims {{I: {size}, J: 128}}\n{line}"
            );
            let program = compiler::check(&source).0.unwrap_or_else(|| panic!("{source}"));
            let options = Options { hardware: Some(hardware.clone()), costs, ..Options::default() };
            let compiled = compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            let bound = Findings::new(&compiled.plan, &compiled.topology).bound.time;
            assert!(bound > Time::ZERO && timing.makespan >= bound, "{:?} {bound:?}\n{source}", timing.makespan);
        }
    }
}

/// A gather over two networks is no faster than its part on one of them, also where only one of them was measured.
#[test]
fn no_gather_over_more_axes_is_faster() {
    for hardware in ["a100", "h100", "b200", "tpu_v5p"] {
        for rows in [4, 4096] {
            let time = |line: &str| {
                let over = if hardware == "tpu_v5p" { "dcn" } else { "ib" };
                let source = format!(
                    "mesh {{D: 4 over {over}, X: 8}} on {hardware}\ndims {{R: {rows}, F: 64}}\nA: bf16[R, F_X]\n\
                     B: bf16[R, F_{{D,X}}]\n{line}"
                );
                compile(&source).plan.totals().time()
            };
            let (part, whole) = (time("AllGather_X(A) -> a[R, F]"), time("AllGather_{D,X}(B) -> b[R, F]"));
            assert!(part < whole, "{hardware}: {part:?} over X, {whole:?} over both");
        }
    }
}

/// Between nodes of measured machines, an axis moves one chunk while another axis moves the next one: a large collective is
/// faster than its stages one after the other, and a small one no slower.
#[test]
fn axes_of_measured_machines_move_chunks_at_the_same_time() {
    let (open, sharded) = ("A: bf16[I, J]{U_XN}", "A: bf16[I_XN, J]");
    let scatter = "ReduceScatter_{X,I}(A) -> a[I_X, J]{U_N}\n";
    let collectives = [
        (open, "C[I, J] = A", format!("{scatter}AllReduce_N(a) -> b[I_X, J]\nAllGather_X(b) -> C[I, J]")),
        (open, "C = ReduceScatter_{XN,I}(A)", format!("{scatter}ReduceScatter_{{N,I}}(a) -> C[I_XN, J]")),
        (sharded, "C = AllGather_{XN}(A)", "AllGather_N(A) -> a[I_X, J]\nAllGather_X(a) -> C[I, J]".to_owned()),
        (
            sharded,
            "C = AllToAll_{XN,J}(A)",
            "AllToAll_{N,J}(A) -> a[I_X, J_N]\nAllToAll_{X,J}(a) -> C[I, J_NX]".to_owned(),
        ),
    ];
    let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    for (hardware, (operand, whole, stages), rows) in iproduct!(["a100", "h100", "b200"], &collectives, [64, 4096]) {
        let times = |lines: &str| {
            let mesh = format!("mesh {{N: 4 over ib, X: 8}} on {hardware}");
            let plan = compile_by(&format!("{mesh}\ndims {{I: {rows}, J: 8192}}\n{operand}\n{lines}\n"), &options).plan;
            plan.ids().map(|id| plan.step(id).cost.time).collect::<Vec<Time>>()
        };
        let (time, stages) = (times(whole).into_iter().sum::<Time>(), times(stages));
        let sum = stages.iter().copied().sum::<Time>();
        let context = format!("{hardware}, {whole}, {rows} rows: {time:?} {stages:?}");
        assert!(time <= sum && (rows < 4096 || time.ratio(sum) < 0.99), "{context}");
    }
}
