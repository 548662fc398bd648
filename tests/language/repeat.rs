//! A program with `repeat` equals the same program with its body unrolled.

use shardc::compiler::{self, Compiled, Options, Overlapping};
use shardc::costs::CostModel;
use shardc::export::jax;
use shardc::fusion::Fusion;
use shardc::plan::StepId;
use shardc::plan::unroll::unroll;
use shardc::sim::clock;
use shardc::sim::values;
use shardc::topology::Hardware;

const GROUND: &str = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {B: 8, D: 8, F: 16}\n";

/// Bodies with the layouts of the carried names. `#` in a name stands for the number of the iteration.
const BODIES: &[(&str, &str)] = &[
    // Separate weights in each layer.
    ("x: bf16[B_X, D]", "W#: bf16[D, F_Y]\nV#: bf16[F_Y, D]\nh# = relu(x * W#)\nx[B_X, D] = h# * V#"),
    // Gathered in each layer.
    (
        "x: bf16[B_X, D_Y]",
        "W#: bf16[D_X, F_Y]\nV#: bf16[F_Y, D_X]\nh#[B_X, F_Y] = relu(x * W#)\nx[B_X, D_Y] = h# * V# + x",
    ),
    // One weight for all layers.
    ("x: bf16[B_X, D]\nW: bf16[D_Y, F_X]\nV: bf16[F, D]", "x[B_X, D] = (x * W) * V"),
    // Two names that are swapped, in the same layout.
    ("a: bf16[B_X, D]\nb: bf16[B_X, D]", "t#[B_X, D] = a\na[B_X, D] = b\nb[B_X, D] = relu(t#)"),
    // Carried as an open sum.
    ("x: bf16[B, D]{U_Y}", "x[B, D]{U_Y} = -x"),
];

fn compiled(source: &str, costs: CostModel) -> Compiled {
    let (program, diagnostics) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{source}\n{diagnostics:?}"));
    // Unrolled iterations would share kernels, and be bundled.
    let named = program.hardware.as_ref().map_or(Hardware::DEFAULT, |name| name.node.as_str());
    let hardware = Hardware { fusion: Fusion::None, ..Hardware::named(named).expect("a shipped profile") };
    let options = Options { costs, hardware: Some(hardware), overlap: Overlapping::None, ..Options::default() };
    compiler::compile(&program, &options).unwrap_or_else(|found| panic!("{source}\n{found:?}"))
}

#[test]
fn a_repeat_is_its_body_written_out() {
    for (head, body) in BODIES {
        let names: Vec<&str> = head.lines().filter_map(|line| line.split(':').next()).collect();
        let outputs = format!("output {}\n", names.join(", "));
        for (times, costs) in [(1, CostModel::Book), (3, CostModel::Book), (3, CostModel::Exact)] {
            let inside = body.replace('#', "");
            let repeated = format!("{GROUND}{head}\nrepeat {times} {{\n{inside}\n}}\n{outputs}");
            let written: Vec<String> = (1..=times).map(|n| body.replace('#', &n.to_string())).collect();
            let written = format!("{GROUND}{head}\n{}\n{outputs}", written.join("\n"));
            let (one, other) = (compiled(&repeated, costs), compiled(&written, costs));
            // A weight for all layers is moved once, which the cost accounts for; unrolled, it may be moved several
            // times.
            let shared = head.contains("W:");
            let (planned, expected) = (one.plan.totals(), other.plan.totals());
            equal_outputs(&one, &other, &repeated);
            assert!(planned.time() <= expected.time(), "{repeated}\n{}\n{}", one.plan, other.plan);
            if shared {
                continue;
            }
            assert_eq!(planned.time(), expected.time(), "{repeated}\n{}\n{}", one.plan, other.plan);
            assert_eq!((planned.received(), planned.flops), (expected.received(), expected.flops), "{repeated}");
            let time = |it: &Compiled| clock::run(&it.schedule, &it.topology).expect("timed").makespan;
            assert_eq!(time(&one), time(&other), "{repeated}");
            let shape = |it: &Compiled| it.schedule.ids().count();
            assert_eq!(shape(&one), shape(&other), "{repeated}");
        }
    }
}

/// A sum over iterations is closed once, after the last one, unless the body uses it closed.
#[test]
fn what_is_added_up_is_closed_once() {
    let head = "A0: bf16[B_X, D]\nC0: bf16[B_X, F]\ng = A0 * C0\n";
    let body = "A: bf16[B_X, D]\nC: bf16[B_X, F]\n";
    for (add, behind, linear) in [
        ("g = g + A * C", "h[D_X, F] = g", true),
        ("g = A * C - 2 * g", "h[D, F] = relu(g)", true),
        ("g = relu(g + A * C)", "h[D_X, F] = g", false),
    ] {
        for times in 1..4 {
            let source = format!("{GROUND}{head}repeat {times} {{\n{body}{add}\n}}\n{behind}\n");
            let compiled = compiled(&source, CostModel::Book);
            equal_outputs(&compiled, &compiled, &source);
            let plan = &compiled.plan;
            let moved = |id: StepId| plan.step(id).usage.received().0 > 0 && plan.body(id).is_some();
            assert_eq!(plan.ids().any(moved), !linear, "{source}\n{plan}");
        }
    }
}

/// A carried value may be an open sum; an output is closed once.
#[test]
fn an_output_that_is_handed_on_is_closed() {
    let head = "A0: bf16[B_X, D]\nC0: bf16[B_X, F]\ng = A0 * C0\n";
    let body = "A: bf16[B_X, D]\nC: bf16[B_X, F]\ng = g + A * C\n";
    for (repeats, outputs) in [
        (format!("repeat 3 {{\n{body}}}"), "g"),
        (format!("repeat 2 {{\n{body}}}\nrepeat 3 {{\n{body}}}"), "g"),
        (format!("h = 2 * g\nrepeat 3 {{\n{body}}}"), "g, h"),
        (format!("repeat 2 {{ repeat 2 {{\n{body}}}\n}}"), "g"),
    ] {
        let source = format!("{GROUND}{head}{repeats}\noutput {outputs}\n");
        let compiled = compiled(&source, CostModel::Book);
        equal_outputs(&compiled, &compiled, &source);
        let plan = &compiled.plan;
        assert!(plan.outputs.iter().all(|id| plan.step(*id).layout.sharding.open.is_empty()), "{source}\n{plan}");
        let moved = |id: &StepId| plan.step(*id).usage.received().0 > 0;
        assert!(plan.ids().filter(moved).all(|id| plan.body(id).is_none()), "{source}\n{plan}");
        assert_eq!(plan.ids().filter(moved).count(), outputs.split(',').count(), "{source}\n{plan}");
    }
}

/// The steps of a body are contiguous, including the slice of an output along an axis of size 1.
#[test]
fn the_steps_of_a_body_stand_together() {
    let source = "mesh {X: 1} on tpu_v5e\ndims {I: 4}\nA: f32[I]\nB[I_X] = A * A\nrepeat 2 {\nB = tanh(A)\n}\n\
                  C[] = B * B\noutput B, C\n";
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}"));
    let compiled = compiler::compile(&program, &Options::default()).expect("it compiles");
    let bodies: Vec<Option<usize>> = compiled.plan.ids().map(|id| compiled.plan.body(id)).collect();
    let runs = bodies.chunk_by(|one, next| one == next).filter(|run| run[0].is_some()).count();
    assert_eq!(runs, 1, "{bodies:?}");
    // The result of an iteration has a name where later code reads it.
    let text = jax::module(&compiled.plan, "body.shard", source, jax::Options { main: false });
    assert!(text.contains("lax.scan(layer, B, length=2)"), "{text}");
}

/// A slice by an axis of size 1 separates its operand from its reader, so these form no kernel.
#[test]
fn a_slice_by_an_axis_of_one_device_is_between_kernels() {
    let source = "mesh {X: 1, Y: 2, Z: 4} on tpu7x\ndims {I: 8, T: 16, H: 16}\nE: f32[I]{SQUARE_ADD_X}\n\
                  B: i8[I, H_Z, T]\nC[I, T_YX]{U_Z} = B @ B\nD[T_Y] = -sum_I(C)\noutput D\n";
    compiled(source, CostModel::Bytes);
}

/// `s` depends on `f` from the second iteration on, which the values of one body do not show.
#[test]
fn no_kernel_reaches_across_a_loop() {
    let source = "mesh {X: 2} on tpu_v5p\ndims {I: 8}\na: f32[I_X]\ne = exp(a)\nf = e + tanh(e)\nx = 0 * a\ns = 0 * a\n\
                  repeat 3 {\nn = s + x\nx = x + f\ns = n\n}\nz = e .* s\noutput z";
    compiled(source, CostModel::Exact);
}

#[test]
fn a_repeat_in_a_repeat_is_written_out() {
    for (head, nested, flat) in [
        (
            "x: bf16[B_X, D]",
            "repeat 3 {\nrepeat 2 {\nW: bf16[D, F_Y]\nV: bf16[F_Y, D]\nx = relu(x * W) * V\n}\n}",
            "repeat 6 {\nW: bf16[D, F_Y]\nV: bf16[F_Y, D]\nx = relu(x * W) * V\n}",
        ),
        (
            "x: bf16[B_X, D]\nW: bf16[D, F_Y]\nV: bf16[F_Y, D]",
            "repeat 2 {\nh = x\nrepeat 3 { h = relu(h * W) * V }\nx[B_X, D] = h + x\n}",
            "repeat 2 {\nh = x\na = relu(h * W) * V\nb = relu(a * W) * V\nc = relu(b * W) * V\nx[B_X, D] = c + x\n}",
        ),
        (
            "x: bf16[B_X, D]\ny: bf16[B_X, D]",
            "repeat 2 {\nrepeat 2 {\nrepeat 2 { y = y + x }\nx = relu(y)\n}\n}",
            "repeat 4 {\ny = y + x\ny = y + x\nx = relu(y)\n}",
        ),
    ] {
        let names: Vec<&str> = head.lines().filter_map(|line| line.split(':').next()).collect();
        let outputs = if head.contains("W:") { "x".to_owned() } else { names.join(", ") };
        let whole = |body: &str| format!("{GROUND}{head}\n{body}\noutput {outputs}\n");
        let (one, other) = (compiled(&whole(nested), CostModel::Book), compiled(&whole(flat), CostModel::Book));
        equal_outputs(&one, &other, nested);
        let (found, expected) = (one.plan.totals(), other.plan.totals());
        assert_eq!((found.time(), found.flops), (expected.time(), expected.flops), "{nested}\n{}", one.plan);
        // Each of the inputs has its own name.
        let names = |it: &Compiled| it.schedule.arrays.iter().map(|array| array.name.clone()).collect::<Vec<_>>();
        let inputs: Vec<String> = names(&one).into_iter().filter(|name| name.starts_with('W')).collect();
        assert_eq!(inputs.iter().collect::<std::collections::BTreeSet<_>>().len(), inputs.len(), "{inputs:?}");
    }
}

/// Both schedules have the same inputs in the same order, so the same seed gives the same numbers.
fn equal_outputs(one: &Compiled, other: &Compiled, what: &str) {
    let dense = |it: &Compiled| {
        let inputs = values::inputs(&it.schedule, 1).expect("small inputs");
        let run = values::run(&it.schedule, &inputs).expect("a small run");
        let dense = values::dense(&it.schedule, &inputs).expect("small arrays");
        let numerics = values::compare(&it.schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal || numerics.within, "{what}");
        numerics.elements
    };
    assert_eq!(dense(one), dense(other), "{what}");
}

/// A thousand layers are planned quickly, but are too many to unroll.
#[test]
fn many_layers_are_planned() {
    let source = format!("{GROUND}{}\nrepeat 100000 {{\n{}\n}}\noutput x", BODIES[1].0, BODIES[1].1.replace('#', ""));
    let (program, _) = compiler::check(&source);
    let program = program.expect("a program");
    let preview = compiler::preview(&program, &Options::default()).expect("a plan");
    assert!(preview.plan.totals().flops > 100_000);
    let found = compiler::compile(&program, &Options::default()).expect_err("too many steps");
    let found = found.iter().find(|found| found.code == "repeat-too-long").expect("the reason");
    // The count given in the help can be run, and no larger one.
    let help = found.help.clone().expect("a way out");
    let most: u64 =
        help.split("`repeat ").nth(1).and_then(|rest| rest.split('`').next()?.parse().ok()).expect("a count");
    let with = |times: u64| compiler::check(&source.replace("100000", &times.to_string())).0.expect("a program");
    let options = Options::default();
    let plan = |times| {
        let program = with(times);
        let topology = compiler::machine(&program, &options).expect("a machine");
        compiler::plan(&program, &topology, &options).expect("a plan")
    };
    assert!(unroll(&plan(most)).is_ok() && unroll(&plan(most + 1)).is_err(), "{help}");
}
