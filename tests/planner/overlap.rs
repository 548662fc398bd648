//! Pipelined steps: any split schedule is proven and computes the same; the chosen split is not slower than any other
//! single split, or than none.

use crate::common::{apart, compile, programs, sets, short_name, usage};
use shardc::compiler::{self, Compiled, Options};
use shardc::lower;
use shardc::plan::{Division, Listing, Order, Overlap, Pipeline, Run, unroll, windows};
use shardc::program::{Definition, Pin, ValueId};
use shardc::recipe::{Lowering, Tuner};
use shardc::schedule::{Schedule, verify};
use shardc::sim::{clock, proof, values};
use shardc::units::Time;
use std::borrow::Cow;
use std::collections::BTreeSet;

pub(super) fn scheduled(compiled: &Compiled, overlap: &Overlap) -> Schedule {
    let unrolled = unroll::unroll(&compiled.plan).expect("short enough");
    let listing = Listing::overlapped(&unrolled, overlap, &compiled.topology);
    lower::listed(&unrolled, &listing).expect("pieces have recipes")
}

/// All runs, and all sections of them.
pub(super) fn all_runs(compiled: &Compiled) -> BTreeSet<Run> {
    windows(&compiled.plan)
}

pub(super) fn is_right(schedule: &Schedule, what: &str) {
    verify(schedule).unwrap_or_else(|flaw| panic!("{what}: {flaw}\n{schedule}"));
    proof::prove(schedule).unwrap_or_else(|flaw| panic!("{what}: {flaw}\n{schedule}"));
    let inputs = values::inputs(schedule, 1).expect("small");
    let dense = values::dense(schedule, &inputs).expect("small");
    let run = values::run(schedule, &inputs).expect("small");
    let numerics = values::compare(schedule, &inputs, &dense, &run).expect("comparable");
    assert!(numerics.within, "{what}: {numerics:?}\n{schedule}");
}

/// Every run of every small program, in two and in four pieces, in both orders, and every pair that splits different
/// dims.
#[test]
fn whatever_is_cut_computes_the_same() {
    let (mut single, mut double) = (0, 0);
    let sources = programs("tests/corpus/small").into_iter().chain(programs("examples").into_iter().filter(|path| {
        ["attention", "fsdp_mlp", "lora", "vocab_parallel_loss", "padded_attention", "layers"]
            .contains(&short_name(path).trim_end_matches(".shard"))
    }));
    // Every fourth one unless the run is full.
    for path in sources.step_by(if sets::are_full() { 1 } else { 4 }) {
        let compiled = apart(&std::fs::read_to_string(&path).expect("a program"));
        let tuner = Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default());
        let cut = |run: &Run, division| run.in_pieces(&compiled.plan, division, &tuner);
        let what = |pipelines: &[Pipeline]| format!("{}: {pipelines:?}", short_name(&path));
        let mut halves: Vec<(Run, Pipeline)> = Vec::new();
        for run in all_runs(&compiled) {
            let [two, four] = [2, 4].map(Division::even);
            let uneven = [two.with_shorter_last(), four.with_shorter_first().and_then(Division::with_shorter_last)];
            let uneven = uneven.into_iter().flatten().map(|division| (division, Order::Ready));
            let even = [(two, Order::Ready), (two, Order::Program), (four, Order::Ready)];
            for (division, order) in even.into_iter().chain(uneven) {
                let Some(pipeline) = cut(&run, division) else { continue };
                single += 1;
                let overlap = Overlap { pipelines: vec![pipeline], order, ..Overlap::default() };
                is_right(&scheduled(&compiled, &overlap), &what(&overlap.pipelines));
            }
            halves.extend(cut(&run, two).map(|pipeline| (run, pipeline)));
        }
        for (at, (_, first)) in halves.iter().enumerate() {
            let shares = |run: &Run| run.steps().any(|id| first.steps.contains_key(&id));
            let others =
                halves[at + 1..].iter().filter(|(run, _)| run.fits(std::slice::from_ref(first)) && shares(run));
            for (_, second) in others.take(4) {
                double += 1;
                let pipelines = vec![first.clone(), second.clone()];
                let overlap = Overlap { pipelines, order: Order::Ready, ..Overlap::default() };
                is_right(&scheduled(&compiled, &overlap), &what(&overlap.pipelines));
            }
        }
    }
    assert!(single > 150 && double > 10, "{single} {double}");
}

/// Programs at real sizes: bytes and memory equal those of the schedule, and no other single split is faster, for
/// every third program or all.
#[test]
fn the_best_run_is_taken() {
    let (mut logs, mut count, mut tried) = (0.0, 0u32, 0);
    for (at, path) in programs("tests/corpus/scale").into_iter().enumerate() {
        let source = std::fs::read_to_string(&path).expect("a program");
        let (before, after) = (apart(&source), compile(&source));
        let time = |compiled: &Compiled| clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
        let (whole, chosen) = (time(&before), time(&after));
        assert!(chosen <= whole, "{}: {chosen:?} instead of {whole:?}", short_name(&path));
        assert_eq!(usage::disagreement(&after), None, "{}", short_name(&path));
        assert!(after.plan.overlap.whole.is_none_or(|told| told.time == chosen), "{}", short_name(&path));
        if whole > Time::ZERO {
            logs += chosen.ratio(whole).ln();
            count += 1;
        }
        if !sets::are_full() && at % 10 > 0 {
            continue;
        }
        let tuner = Tuner::new(Cow::Borrowed(&before.topology), Lowering::default());
        for run in all_runs(&before) {
            for pieces in [2, 4, 8, 16] {
                let Some(pipeline) = run.in_pieces(&before.plan, Division::even(pieces), &tuner) else { continue };
                let overlap = Overlap { pipelines: vec![pipeline], order: Order::Ready, ..Overlap::default() };
                let schedule = scheduled(&before, &overlap);
                if schedule.operations.node_count() > 2000 {
                    continue;
                }
                tried += 1;
                let other = clock::run(&schedule, &before.topology).expect("a time").makespan;
                let ratio = other.ratio(chosen);
                let steps = overlap.pipelines[0].steps.keys();
                assert!(ratio > 0.97, "{}: {ratio} by {pieces} of {steps:?}", short_name(&path));
            }
        }
    }
    let mean = (logs / f64::from(count)).exp();
    assert!(mean < 0.82 && tried > 100, "{mean} {tried}");
}

/// Repeats that are too long to unroll are timed and reported as sequential steps.
#[test]
fn what_cannot_be_spelled_out_does_not_overlap() {
    let source = |times: u64| {
        format!(
            "mesh {{X: 8 ring}} on tpu_v5e\ndims {{B: 8192, D: 4096, F: 16384}}\nx: bf16[B_X, D]\nrepeat {times} {{\n\
             W: bf16[D, F_X]\nV: bf16[F_X, D]\nh = x * W\nx[B_X, D] = h * V\n}}"
        )
    };
    let plan = |times: u64| {
        let (program, found) = compiler::check(&source(times));
        let options = Options::default();
        let program = program.unwrap_or_else(|| panic!("{found:?}"));
        let topology = compiler::machine(&program, &options).expect("a machine");
        compiler::plan(&program, &topology, &options).expect("a plan")
    };
    assert!(plan(4).overlap.whole.is_some());
    let long = plan(100_000);
    assert!(long.overlap.is_none());
    // Each iteration has its own weights.
    assert!(long.totals().peak().0 > 100_000 * 2 * 4096 * 16384 / 8 * 2);
}

/// The example in `docs/planning.md` shows real output.
#[test]
fn the_example_of_the_docs_is_real() {
    let docs = std::fs::read_to_string("docs/planning.md").expect("docs");
    let (_, section) = docs.split_once("## Overlap").expect("a section");
    let block = |language: &str| {
        let (_, rest) = section.split_once(&format!("```{language}\n")).expect("a block");
        rest.split_once("```").expect("its end").0
    };
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shardc"));
    let path = std::env::temp_dir().join(format!("overlap-{}.shard", std::process::id()));
    std::fs::write(&path, block("shard")).expect("a file");
    let output = command.arg("time").arg(&path).output().expect("it runs");
    std::fs::remove_file(&path).expect("it is there");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(block("text").lines().all(|line| told.contains(line)), "{told}");
    let whole = apart(block("shard"));
    let time = clock::run(&whole.schedule, &whole.topology).expect("a time").makespan;
    assert!(section.contains(&format!("takes {}.", whole.topology.scale.show(time))), "{time:?}");
}

/// A gather and a product: after the first piece of the gather, the product hides the others.
#[test]
fn a_gather_hides_behind_its_product() {
    let source = "mesh {X: 8 ring} on tpu_v5e\ndims {I: 65536, J: 8192, K: 65536}\nA: bf16[I_X, J]\nB: bf16[J, K_X]\nC[I, K_X] = A * B\n";
    let compiled = apart(source);
    let tuner = Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default());
    let product = compiled.plan.ids().last().expect("a product");
    let run = windows(&compiled.plan).into_iter().find(|run| run.steps().count() == 2).expect("both steps");
    for pieces in [2, 4, 8, 16] {
        let pipeline = run.in_pieces(&compiled.plan, Division::even(pieces), &tuner).expect("even pieces");
        let gather = pipeline.steps.values().find_map(|piece| piece.moved.get(&1)).expect("a gather");
        let first = gather.chosen.time.expect("it was tried");
        let overlap = Overlap { pipelines: vec![pipeline], order: Order::Ready, ..Overlap::default() };
        let time = clock::run(&scheduled(&compiled, &overlap), &compiled.topology).expect("a time").makespan;
        assert_eq!(time, first + compiled.plan.step(product).cost.time, "{pieces}");
    }
}

/// Two layers of weights that are sharded on both axes: the number of rows determines whether weights or activations
/// are gathered. No layouts that a person would write for all layers are faster. Every second number unless the run is
/// full.
#[test]
fn the_fastest_whole_is_taken() {
    let source = |rows: u64, x: &str, h: &str| {
        let layer = |l: u64| {
            format!(
                "W{l}: bf16[D_X, F_Y]\nV{l}: bf16[F_Y, D_X]\nh{l}{h} = relu(x{l} * W{l})\nx{}{x} = h{l} * V{l}\n",
                l + 1
            )
        };
        format!(
            "mesh {{X: 4 ring, Y: 4 ring}} on tpu_v5p\ndims {{B: {rows}, D: 4096, F: 16384}}\nx0: bf16[B_XY, D]\n{}{}\
             output x2\n",
            layer(0),
            layer(1)
        )
    };
    let time = |source: &str| {
        let program = compiler::check(source).0.expect("a right program");
        compiler::compile(&program, &Options::default()).ok().map(|compiled| compiled.plan.time())
    };
    let mut instead = 0;
    let each = if sets::are_full() { 1 } else { 3 };
    for rows in [256, 1024, 2048, 4096, 8192, 16384, 32768, 131_072].into_iter().step_by(each) {
        let plan = compile(&source(rows, "", "")).plan;
        instead += usize::from(plan.instead.is_some());
        for (x, h) in itertools::iproduct!(["", "[B_XY, D]", "[B, D_X]"], ["", "[B_XY, F]", "[B_X, F_Y]", "[B, F_Y]"]) {
            let written = source(rows, x, h);
            if let Some(time) = time(&written) {
                assert!(plan.time().ratio(time) < 1.05, "{:?} {time:?}\n{written}", plan.time());
            }
        }
    }
    assert!(instead * each > 1, "{instead}");
}

/// A product that is pinned makes no program of the corpus more than 5 % faster as a whole. Every fifth program unless the
/// run is full.
#[test]
fn no_pin_makes_the_whole_much_faster() {
    let each = if sets::are_full() { 1 } else { 5 };
    let (mut tried, mut instead) = (0, 0);
    for path in programs("tests/corpus/small").into_iter().step_by(each) {
        let source = std::fs::read_to_string(&path).expect("a program");
        let program = compiler::check(&source).0.expect("a right program");
        let options = Options::default();
        let topology = compiler::machine(&program, &options).expect("a machine");
        let free = compiler::plan(&program, &topology, &options).expect("a plan");
        instead += usize::from(free.instead.is_some());
        let is_product = |id: &ValueId| matches!(program.value(*id).definition, Definition::Product { .. });
        for (product, pin) in itertools::iproduct!(program.value_ids().filter(is_product), Pin::all()) {
            let mut pinned = program.clone();
            pinned.values[product.index()].pin = Some(pin);
            if let Ok(plan) = compiler::plan(&pinned, &topology, &options) {
                assert!(
                    free.time().ratio(plan.time()) < 1.05,
                    "{}: {:?} {:?}",
                    path.display(),
                    free.time(),
                    plan.time()
                );
                tried += 1;
            }
        }
    }
    assert!(tried * each > 300 && instead > 0, "{tried} {instead}");
}
