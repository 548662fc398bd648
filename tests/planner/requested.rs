//! Numbers of pieces that a statement requests: they are taken, in the way that is fastest, and compute the same.

use crate::common::{apart, compile};
use crate::overlap::{all_runs, is_right, scheduled};
use shardc::compiler::{self, Compiled, Options, Overlapping};
use shardc::plan::{Division, Order, Overlap, Pipeline, StepOp};
use shardc::recipe::{Lowering, Tuner};
use shardc::sim::clock;
use shardc::span::Span;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A gather, a product and a scatter; then a gather of weights.
fn layer(size: u64, using: [&str; 2]) -> String {
    format!(
        "mesh {{X: 4 ring}} on tpu_v5e\ndims {{B: {size}, D: {size}, F: {size}}}\nx: bf16[B_X, D]\nW: bf16[D, F_X]\n\
         V: bf16[F_X, D]\nh[B, F_X] = relu(x * W){}\ny[B_X, D] = h * V{}\noutput y\n",
        using[0], using[1]
    )
}

/// The code with which a program is refused.
fn refusal(source: &str) -> (String, String) {
    let program = compiler::check(source).0.expect("a right program");
    let found = compiler::compile(&program, &Options::default()).expect_err("refused");
    let found = found.iter().next().expect("a reason");
    (found.code.clone(), format!("{} {}", found.message, found.help.clone().unwrap_or_default()))
}

/// Numbers of pieces of the runs with a collective of this name.
fn pieces(compiled: &Compiled, name: &str) -> Vec<u64> {
    let plan = &compiled.plan;
    let moves = |pipeline: &&Pipeline| pipeline.steps.keys().any(|id| plan.op_name(*id).starts_with(name));
    plan.overlap.pipelines.iter().filter(moves).map(|pipeline| pipeline.division.count()).collect()
}

/// Numbers of pieces of the collectives of each statement with a request, by call: the most if some stay whole.
fn by_call(compiled: &Compiled) -> BTreeMap<Option<Span>, u64> {
    let plan = &compiled.plan;
    let mut found = BTreeMap::new();
    for id in plan.ids().filter(|id| plan.communicates(*id)) {
        let value = plan.program.value(plan.step(id).user);
        if value.using.pieces.is_some() {
            let pieces = plan.overlap.pipeline(id).map_or(1, |pipeline| pipeline.division.count());
            let most: &mut u64 = found.entry(value.call).or_default();
            *most = pieces.max(*most);
        }
    }
    found
}

/// Each of 1 to 8 pieces of either statement, of small and of large arrays, for which that is faster or slower.
#[test]
fn pieces_are_those_of_the_statement() {
    for size in [64, 4096] {
        for count in [1, 2, 4, 8] {
            let using = format!(" using pipeline({count})");
            for (at, name) in ["AllGather", "ReduceScatter"].into_iter().enumerate() {
                let mut both = ["", ""];
                both[at] = &using;
                let compiled = compile(&layer(size, both));
                let expected: &[u64] = if count == 1 { &[] } else { &[count] };
                assert_eq!(pieces(&compiled, name), expected, "{size} {count} {name}");
                if size == 64 {
                    is_right(&scheduled(&compiled, &compiled.plan.overlap), &using);
                }
            }
        }
    }
    // Two statements, each with its own number.
    let compiled = compile(&layer(4096, [" using pipeline(2)", " using pipeline(8)"]));
    assert_eq!((pieces(&compiled, "AllGather"), pieces(&compiled, "ReduceScatter")), (vec![2], vec![8]));
    // Pieces of nearly equal length.
    let compiled = compile(&layer(4096, [" using pipeline(3)", ""]));
    assert_eq!(pieces(&compiled, "AllGather"), [3]);
    // With a method.
    let compiled = compile(&layer(4096, [" using meet_in_middle_ring, pipeline(2)", ""]));
    assert_eq!(pieces(&compiled, "AllGather"), [2]);
    let gather = compiled.plan.ids().find(|id| matches!(compiled.plan.step(*id).op, StepOp::Collective(_)));
    assert_eq!(compiled.plan.how(gather.expect("a gather")), "meet_in_middle_ring");
}

/// No run that could be split instead is faster.
#[test]
fn the_fastest_run_is_split() {
    for size in [256, 2048, 8192] {
        for count in [2, 8] {
            let using = format!(" using pipeline({count})");
            let requested = compile(&layer(size, [&using, ""]));
            let plain = apart(&layer(size, ["", ""]));
            let tuner = Tuner::new(Cow::Borrowed(&plain.topology), Lowering::default()).repeated(count);
            let gathers = |id| plain.plan.op_name(id).starts_with("AllGather");
            for run in all_runs(&plain).into_iter().filter(|run| run.steps().any(gathers)) {
                let Some(pipeline) = run.in_pieces(&plain.plan, Division::even(count), &tuner) else { continue };
                let overlap = Overlap { pipelines: vec![pipeline], order: Order::Ready, ..Overlap::default() };
                let time = clock::run(&scheduled(&plain, &overlap), &plain.topology).expect("a time").makespan;
                assert!(requested.plan.time() <= time, "{size} {count} {:?} {time:?}", requested.plan.time());
            }
        }
    }
}

/// Statements of functions and of bodies, and those that move nothing.
#[test]
fn each_call_and_each_iteration_is_split() {
    let ground = "mesh {X: 4 ring} on tpu_v5e\ndims {B: 4096, D: 4096, F: 4096}\nx: bf16[B_X, D]\nW: bf16[D, F_X]\n\
                  V: bf16[F_X, D]\n";
    let body = "h[B, F_X] = relu(x * W) using pipeline(4)\n";
    let called = format!(
        "{ground}def layer(x[B, D], W[D, F], V[F, D]) {{\n{body}return h * V\n}}\n\
         y[B_X, D] = layer(x, W, V)\nz[B_X, D] = layer(y, W, V)\noutput z\n"
    );
    let found = by_call(&compile(&called));
    assert_eq!((found.len(), found.into_values().all(|pieces| pieces == 4)), (2, true));
    let repeated = format!("{ground}repeat 3 {{\n{body}x[B_X, D] = h * V\n}}\noutput x\n");
    assert_eq!(pieces(&compile(&repeated), "AllGather"), [4]);
    let local =
        format!("{ground}h[B_X, F] = x * W by gather(W) using pipeline(4)\nz[B_X, F] = relu(h) using pipeline(8)\n");
    assert_eq!(pieces(&compile(&local), "AllGather"), [4]);
    // A program that is too long for each run to be tried within the whole.
    let long: String = (0..40).map(|_| format!("{body}x[B_X, D] = h * V\n")).collect();
    let compiled = compile(&format!("{ground}{long}output x\n"));
    let runs = &compiled.plan.overlap.pipelines;
    assert!(runs.len() > 10 && runs.iter().all(|run| run.division.equal() == 4), "{}", runs.len());
}

/// What cannot be split is refused with a reason, unless all steps stay whole.
#[test]
fn what_cannot_be_split_is_refused() {
    let source = layer(64, [" using pipeline(32)", ""]);
    let (code, said) = refusal(&source);
    assert_eq!(code, "pipeline-impossible");
    assert!(said.contains("divide its shards: 2, 3, 4, 8, 16"), "{said}");
    let program = compiler::check(&source).0.expect("a right program");
    let whole = Options { overlap: Overlapping::None, ..Options::default() };
    compiler::compile(&program, &whole).expect("whole steps");
    let ground = "mesh {X: 4 ring} on tpu_v5e\nA: bf16[1024_X, 1024]\n";
    let (code, said) = refusal(&format!("{ground}C[1024, 1024] = A using pipeline(2)\n"));
    assert_eq!(code, "pipeline-impossible");
    assert!(said.contains("as no product and no other collective"), "{said}");
    // The pieces of a contracted dim are added, which takes a second array of the size of the result.
    let ground = "mesh {X: 4 ring} on tpu_v5e\ndims {B: 4096, D: 512, F: 4096}\nx: bf16[B, D]\nW: bf16[D_X, F]\n";
    let limited =
        |pieces| format!("{ground}y[B, F] = x * W by gather(W) using pipeline({pieces})\nlimit memory 45MB\n");
    assert!(pieces(&compile(&limited(1)), "AllGather").is_empty());
    let (code, said) = refusal(&limited(2));
    assert_eq!((code.as_str(), said.contains("limits of the program")), ("pipeline-impossible", true), "{said}");
}

/// What a padded dim is filled for is of the statement: its collectives are done as requested, or refused.
#[test]
fn collectives_before_a_filler_are_of_the_statement() {
    let ground = "mesh {X: 4 ring} on tpu_v5e\ndims {F: 6, B: 64}\nx: bf16[B, F_X]\n";
    let softmax = |using: &str| format!("{ground}p[B, F] = softmax_F(x) using {using}\n");
    let exchange = |using: &str| {
        let ground = "mesh {X: 4 ring} on tpu_v5e\ndims {F: 6, B: 6}\nx: bf16[B_X, F]\n";
        format!("{ground}p[F_X] = max_B(x) using {using}\n")
    };
    assert_eq!(refusal(&softmax("line")).0, "method-not-applicable");
    assert_eq!(refusal(&softmax("pipeline(7)")).0, "pipeline-impossible");
    assert_eq!(refusal(&exchange("line")).0, "method-not-applicable");
    let compiled = compile(&softmax("clockwise_ring"));
    let gather = compiled.plan.ids().find(|id| compiled.plan.op_name(*id).starts_with("AllGather"));
    assert_eq!(compiled.plan.how(gather.expect("a gather")), "clockwise_ring");
    // In a function, too.
    let body = "p[B, F] = softmax_F(x) using pipeline(7)\nreturn p";
    let called = format!("{ground}def f(x[B, F]) {{\n{body}\n}}\ny[B, F] = f(x)\noutput y\n");
    assert_eq!(refusal(&called).0, "pipeline-impossible");
}

/// An array that an iteration only takes apart and puts together again is moved as its statement requests.
#[test]
fn what_an_iteration_hands_on_unchanged_is_moved_as_requested() {
    let repeated = |using: &str| {
        format!(
            "mesh {{X: 4 ring}} on tpu_v5e\ndims {{B: 128, D: 8}}\na: bf16[B, D]\nrepeat 2 {{\nv[B, D_X] = a\n\
             a[B, D] = v using {using}\n}}\noutput a\n"
        )
    };
    assert_eq!(refusal(&repeated("line")).0, "method-not-applicable");
    assert_eq!(refusal(&repeated("pipeline(7)")).0, "pipeline-impossible");
    let compiled = compile(&repeated("clockwise_ring"));
    let gather = compiled.plan.ids().find(|id| compiled.plan.op_name(*id).starts_with("AllGather"));
    assert_eq!(compiled.plan.how(gather.expect("a gather")), "clockwise_ring");
}

/// Whole collectives are those that a plan without a request has, also moves in one routing.
#[test]
fn whole_collectives_may_be_routed() {
    let programs = [
        "mesh {X: 8} on h100\ndims {D: 4096, F: 4096}\nW: bf16[D_X, F]\nA[D, F_X] = W",
        "mesh {X: 4, Y: 4, Z: 4} on tpu_v5p\ndims {I: 65536, J: 8192}\nA: bf16[I_XY, J]\nC[I_Y, J] = A",
    ];
    for source in programs {
        let (free, whole) = (compile(source), compile(&format!("{source} using pipeline(1)")));
        let reshards = free.plan.ids().filter(|id| free.plan.op_name(*id).starts_with("Reshard")).count();
        assert_eq!((reshards, free.plan.time()), (1, whole.plan.time()), "{source}");
    }
}

/// Where a method does not apply, that is the reason, and not the number of pieces.
#[test]
fn a_method_that_does_not_apply_is_refused_first() {
    for count in [1, 2, 7] {
        let source = layer(64, [&format!(" using line, pipeline({count})"), ""]);
        assert_eq!(refusal(&source).0, "method-not-applicable", "{count}");
    }
}
