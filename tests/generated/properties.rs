//! Properties of every legal program.

use super::program::Case;
use super::usage;
use super::watch::stage;
use shardc::advice;
use shardc::collective::Collective;
use shardc::compiler::{self, Compiled, Options};
use shardc::costs;
use shardc::diag::Diagnostics;
use shardc::expect;
use shardc::export::{chakra, goal, jax, messages, msccl, mscclpp, ranks, stablehlo};
use shardc::layout::Sharding;
use shardc::mesh::{Axes, AxisSet};
use shardc::picture::graph::Graph;
use shardc::picture::svg::{self, Named};
use shardc::picture::timeline::{Scope, Timeline, step_names};
use shardc::picture::trace;
use shardc::plan::{Plan, StepId, StepOp, unroll};
use shardc::program::{Program, Wanted};
use shardc::recipe::Lowering;
use shardc::report::{self, Findings};
use shardc::schedule::{Schedule, from_json, from_text, to_json, verify};
use shardc::sim::clock::{self, ClockError, Order};
use shardc::sim::values::{self, Run};
use shardc::syntax;
use shardc::topology::Topology;

/// A violated property of a program.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The kind of failure: the stage, and the code or the place in the source.
    pub(crate) class: String,
    pub(crate) detail: String,
}

/// The last stage that a program reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Through every stage.
    Complete,
    /// Refused in a way that the documentation allows.
    Refused(&'static str),
}

type Checked<T = ()> = Result<T, Failure>;

fn failure<T>(class: impl Into<String>, detail: impl Into<String>) -> Checked<T> {
    Err(Failure { class: class.into(), detail: detail.into() })
}

/// Allowed refusals for such small programs: a method, a number of pieces or a pin that does not apply to its statement;
/// layouts of inputs under a limit.
const REFUSALS: [&str; 4] = ["method-not-applicable", "pipeline-impossible", "pin-impossible", "input-hole"];

fn refused(stage: &str, found: &Diagnostics) -> Checked<Outcome> {
    let codes: Vec<&str> = found.iter().map(|found| found.code.as_str()).collect();
    match REFUSALS.into_iter().find(|code| codes.contains(code)) {
        Some(code) => Ok(Outcome::Refused(code)),
        None => failure(format!("{stage}: {}", codes.join(" ")), told(found)),
    }
}

fn told(found: &Diagnostics) -> String {
    let line = |found: &shardc::diag::Diagnostic| {
        format!("{}: {} ({})", found.code, found.message, found.help.as_deref().unwrap_or("no help"))
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn checked(stage: &str, case: &Case, source: &str) -> Checked<Program> {
    let read = compiler::check_with(source, &case.modes.sizes(), case.modes.spelling(), None);
    let (program, found) = read.or_else(|error| failure(format!("{stage}: --set"), error.to_string()))?;
    match program {
        Some(program) => Ok(program),
        None => {
            let codes: Vec<&str> = found
                .iter()
                .filter(|found| found.severity == shardc::diag::Severity::Error)
                .map(|found| found.code.as_str())
                .collect();
            failure(format!("{stage}: {}", codes.join(" ")), told(&found))
        }
    }
}

/// Checks all properties of a legal program.
pub(crate) fn hold(case: &Case) -> Checked<Outcome> {
    stage("check");
    let program = match checked("check", case, &case.source) {
        // Whether a dim that a kernel needs whole is padded depends on the layouts of all arrays.
        Err(Failure { class, .. }) if class == "check: kernel-padded" => return Ok(Outcome::Refused("kernel-padded")),
        checked => checked?,
    };
    let options = case.modes.options();
    stage("plan, lower, prove");
    let compiled = match compiler::compile(&program, &options) {
        Ok(compiled) => compiled,
        // Within a very small limit, not all written layouts are reached.
        Err(found) if case.modes.is_restricted() && found.iter().any(|found| found.code == "plan-too-large") => {
            return Ok(Outcome::Refused("plan-too-large"));
        }
        Err(found) => return refused("compile", &found),
    };
    stage("plan");
    planned(&program, &compiled.plan)?;
    stage("fmt and plan");
    formatted(case, &program, &compiled, &options)?;
    stage("run");
    let numbers = numbers("run", &compiled.schedule)?;
    stage("time");
    let findings = Findings::new(&compiled.plan, &compiled.topology);
    clocks(case, &compiled, &findings)?;
    stage("figures");
    if let Some(wrong) = usage::disagreement(&compiled) {
        return failure("figures: another count", wrong);
    }
    if let Some(wrong) = usage::other_time(&compiled) {
        return failure("figures: another time", wrong);
    }
    if let Some(wrong) = usage::other_links(&compiled) {
        return failure("figures: other links", wrong);
    }
    if let Some(wrong) = usage::other_document(&findings) {
        return failure("figures: another document", wrong);
    }
    stage("read back");
    read_back(case, &compiled, &numbers)?;
    stage("reports");
    reports(case, &compiled, findings)?;
    stage("exports");
    exports(case, &compiled)?;
    stage("strict");
    strictly(case, &program, &compiled, &options)?;
    Ok(Outcome::Complete)
}

/// The plan is not below its own bound, and inputs and outputs have the layouts that are written for them.
fn planned(program: &Program, plan: &Plan) -> Checked {
    let (bound, time, received) = (plan.lower_bound, plan.totals().time(), plan.received());
    if bound.time > time || bound.received > received {
        return failure("plan: below its bound", format!("{bound:?} > {time:?}, {received:?}\n{plan}"));
    }
    // Axes in parts have other names.
    if plan.program.mesh != program.mesh {
        return Ok(());
    }
    let value = |id: StepId| plan.program.value(plan.step(id).value);
    let inputs = plan.ids().filter(|id| plan.step(*id).op == StepOp::Input).filter_map(|id| {
        let written = program.values.iter().find(|other| other.definition.is_input() && other.span == value(id).span);
        written.map(|written| (id, &written.wanted))
    });
    let outputs = program.outputs.iter().map(|id| &program.value(*id).wanted);
    // Axes of one device shard nothing.
    let units: AxisSet = program.mesh.axis_ids().filter(|axis| program.mesh.size(*axis) == 1).collect();
    let allows = |wanted: &Wanted, sharding: &Sharding| {
        let asked: Vec<Option<&Axes>> = match wanted {
            Wanted::Exact(exact) if exact.open.without(units) != sharding.open.without(units) => return false,
            Wanted::Exact(exact) => exact.dims.iter().map(Some).collect(),
            Wanted::Partly(dims) => dims.iter().map(Option::as_ref).collect(),
            Wanted::Free => return true,
        };
        let is_kept = |asked: &Axes, axes: &Axes| asked.without(units) == axes.without(units);
        asked.iter().zip(&sharding.dims).all(|(asked, axes)| asked.is_none_or(|asked| is_kept(asked, axes)))
    };
    for (id, wanted) in inputs.chain(plan.outputs.iter().copied().zip(outputs)) {
        if !allows(wanted, &plan.step(id).layout.sharding) {
            return failure("plan: another layout", format!("{} for {wanted:?}\n{plan}", plan.array(id)));
        }
    }
    Ok(())
}

/// Formatting preserves the meaning and is idempotent.
fn formatted(case: &Case, meant: &Program, compiled: &Compiled, options: &Options) -> Checked {
    let Ok(text) = syntax::format(&case.source) else { return failure("fmt: refused", "") };
    if syntax::format(&text).as_ref() != Ok(&text) {
        return failure("fmt: twice", text);
    }
    let program = checked("fmt", case, &text)?;
    if program.to_string() != meant.to_string() {
        return failure("fmt: another program", format!("{text}\n{program}\n{meant}"));
    }
    // A limit on time ends the search at another place each time.
    if !case.thorough || case.modes.is_restricted() {
        return Ok(());
    }
    let topology = compiler::machine(&program, options).or_else(|found| failure("fmt: machine", told(&found)))?;
    let plan = compiler::plan(&program, &topology, options).or_else(|found| failure("fmt: plan", told(&found)))?;
    if plan.to_string() != compiled.plan.to_string() {
        return failure("fmt: another plan", format!("{text}\n{plan}\n{}", compiled.plan));
    }
    Ok(())
}

fn cannot_run(stage: &str) -> impl Fn(values::RunError) -> Failure {
    move |error| Failure { class: format!("{stage}: cannot run"), detail: error.to_string() }
}

/// The results on the simulated mesh.
fn simulated(stage: &str, schedule: &Schedule) -> Checked<Run> {
    let inputs = values::inputs(schedule, 1).map_err(cannot_run(stage))?;
    values::run(schedule, &inputs).map_err(cannot_run(stage))
}

/// The results equal the dense ones.
fn numbers(stage: &str, schedule: &Schedule) -> Checked<Run> {
    let wrong = cannot_run(stage);
    let inputs = values::inputs(schedule, 1).map_err(&wrong)?;
    let dense = values::dense(schedule, &inputs).map_err(&wrong)?;
    let run = values::run(schedule, &inputs).map_err(&wrong)?;
    let numerics = values::compare(schedule, &inputs, &dense, &run).map_err(&wrong)?;
    if !numerics.equal && !numerics.within {
        return failure(format!("{stage}: numbers differ"), format!("{numerics:?}"));
    }
    Ok(run)
}

/// Both service orders have a time, not below the bound, and expectations hold.
fn clocks(case: &Case, compiled: &Compiled, findings: &Findings<'_>) -> Checked {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let timing = clock::run(schedule, topology).or_else(|error| failure("time", error.to_string()))?;
    let bound = findings.bound.time;
    if timing.makespan < bound {
        return failure("time: below the bound", format!("{:?} < {bound:?}", timing.makespan));
    }
    match clock::run_in(schedule, topology, Order::Arrival) {
        Ok(_) => {}
        Err(ClockError::KeptByArrival { .. }) if case.modes.keep_allgather => {}
        Err(error) => return failure("time: by arrival", error.to_string()),
    }
    let breaches = expect::judge(plan, topology, Some(timing.makespan));
    if breaches.has_errors() {
        return failure("expect", told(&breaches));
    }
    Ok(())
}

/// Text and JSON represent the same schedule.
fn read_back(case: &Case, compiled: &Compiled, numbers: &Run) -> Checked {
    let text = compiled.schedule.to_string();
    let json = to_json(&compiled.schedule);
    let from_text = from_text(&text).map(|written| written.schedule);
    let from_text = from_text.or_else(|error| failure("text: cannot be read", format!("{error:?}\n{text}")))?;
    let from_json = from_json(&json).or_else(|error| failure("json: cannot be read", format!("{error}\n{json}")))?;
    for (form, again) in [("text", from_text), ("json", from_json)] {
        // Text may use a table instead of a formula; the second text equals the first.
        if again.to_string() != text || form == "json" && to_json(&again) != json {
            return failure(format!("{form}: another schedule"), format!("{text}\n{again}"));
        }
        let hardware = Some(compiled.topology.hardware.clone());
        let options = Options { hardware, ..Options::default() };
        let topology = compiler::machine_of(&again, &options)
            .or_else(|error| failure(format!("{form}: machine"), error.to_string()))?;
        // Schedules do not record degraded links.
        if !case.degraded {
            compiler::prove(&again, &topology).or_else(|flaw| failure(format!("{form}: proof"), flaw.to_string()))?;
            let (one, two) = (clock::run(&again, &topology), clock::run(&compiled.schedule, &compiled.topology));
            if one.as_ref().map(|timing| timing.makespan) != two.as_ref().map(|timing| timing.makespan) {
                return failure(format!("{form}: another time"), text);
            }
        }
        let run = simulated(form, &again)?;
        for output in 0..again.outputs.len() {
            let bytes = |run: &Run| -> Vec<_> {
                run.blocks(output).iter().map(|block| block.as_ref().map(values::Tensor::to_le_bytes)).collect()
            };
            if bytes(&run) != bytes(numbers) {
                return failure(format!("{form}: other numbers"), text);
            }
        }
    }
    Ok(())
}

/// Reports are created without a panic.
fn reports(case: &Case, compiled: &Compiled, findings: Findings<'_>) -> Checked {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let timing = clock::run(schedule, topology).or_else(|error| failure("time", error.to_string()))?;
    let texts = [
        report::text::machine(topology, false),
        report::text::steps(&findings, None),
        report::run::proof(&compiled.proof, &topology.mesh),
        report::text::timing(&findings, &timing),
        plan.to_string(),
        plan.program.to_string(),
    ];
    if let Some(place) = texts.iter().position(String::is_empty) {
        return failure("report: nothing", format!("{place}"));
    }
    let document = report::document::plan("t.shard", &case.source, &findings, &Diagnostics::default());
    let document = document.timed(&findings, &timing, &compiled.proof);
    serde_json::to_string(&document).or_else(|error| failure("plan: json", error.to_string()))?;
    if case.thorough {
        let findings = findings.with_methods(case.modes.options().lowering);
        let _ = report::text::methods(&findings);
        let _ = costs::floor(plan, topology);
    }
    Ok(())
}

/// Exports do not panic. Files that can be read back are proven.
fn exports(case: &Case, compiled: &Compiled) -> Checked {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let steps = step_names(plan);
    let (timing, record) =
        clock::run_recorded(schedule, topology).or_else(|error| failure("trace", error.to_string()))?;
    let timeline = Timeline::new(schedule, topology, (&timing, &record), Some(plan), Scope::Kinds);
    let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
    let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
    let arrays: Vec<Named<'_>> = names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
    let mut texts = vec![
        Graph::of_plan(plan).dot(),
        Graph::of_plan(plan).mermaid(),
        Graph::of_schedule(schedule, Some(plan)).dot(),
        Graph::of_schedule(schedule, Some(plan)).mermaid(),
        svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims),
        svg::timeline(&timeline, topology.scale),
        trace::trace(schedule, topology, &record, &steps),
        jax::module(plan, "t.shard", &case.source, jax::Options { main: true }),
        jax::constraints(plan, "t.shard", &case.source),
    ];
    let unrolled = unroll::unroll(plan).or_else(|error| failure("stablehlo: repeat", error.to_string()))?;
    for manual in [false, true] {
        texts.push(stablehlo::module(&unrolled, &case.source, stablehlo::Options { manual }));
    }
    if let Some(place) = texts.iter().position(String::is_empty) {
        return failure("export: nothing", format!("{place}"));
    }
    for (id, collective) in collectives(plan).into_iter().take(3) {
        of_runtimes(case, plan, topology, id, collective)?;
    }
    Ok(())
}

fn collectives(plan: &Plan) -> Vec<(StepId, &Collective)> {
    let of = |id| match &plan.step(id).op {
        StepOp::Collective(collective) if plan.communicates(id) => Some((id, collective)),
        _ => None,
    };
    plan.ids().filter_map(of).collect()
}

/// The files of one collective for runtimes and simulators: those that are not refused are correct.
fn of_runtimes(case: &Case, plan: &Plan, topology: &Topology, id: StepId, collective: &Collective) -> Checked {
    let from = &plan.step(plan.operands(id)[0]).layout;
    let name = plan.program.name(plan.step(id).value);
    let dims = from.dims.iter().map(|dim| plan.program.dims.name(dim.id)).collect();
    let lowering = Lowering { keep_all_gather: false, bitwise: case.modes.bitwise };
    let method = plan.program.value(plan.step(id).user).using.method;
    let Some((schedule, _)) = shardc::recipe::alone(topology, lowering, (collective, from), (&name, dims), method)
    else {
        return failure("export: alone", plan.op_name(id));
    };
    let Ok(algorithm) = ranks::algorithm(&schedule) else { return Ok(()) };
    let (dialect, protocol) = (msccl::Dialect::default(), msccl::Protocol::default());
    let options = msccl::Options { dialect, protocol, sizes: None, steps: None };
    if let Ok(program) = msccl::build(&algorithm, &name, &options) {
        let text = msccl::write(&program, &options);
        let back = msccl::read(&text).or_else(|error| failure("msccl: cannot be read", format!("{error}\n{text}")))?;
        msccl::prove(&back.program, None, msccl::Room::of(dialect))
            .or_else(|flaw| failure("msccl: proof", format!("{flaw}\n{text}")))?;
    }
    if let Ok(plan) = mscclpp::build(&algorithm, &name) {
        let text = mscclpp::write(&plan);
        let back =
            mscclpp::read(&text).or_else(|error| failure("mscclpp: cannot be read", format!("{error}\n{text}")))?;
        mscclpp::prove(&back, None).or_else(|flaw| failure("mscclpp: proof", format!("{flaw}\n{text}")))?;
    }
    let verified = verify(&schedule).or_else(|flaw| failure("messages", flaw.to_string()))?;
    let sent = messages::messages(verified, topology.hardware.local_moves, messages::Sending::parts(topology));
    let (kind, messages) = sent.or_else(|refused| failure("messages", refused.to_string()))?;
    messages::check(&messages, Some(kind)).or_else(|flaw| failure("messages", flaw.to_string()))?;
    let _ = goal::write(&messages, |bytes| bytes);
    let traces = chakra::write(&messages, |bytes| bytes);
    match chakra::read(&traces.files) {
        Ok(back) if back == messages => Ok(()),
        other => failure("chakra", format!("{:?}", other.is_ok())),
    }
}

/// With the suggested lines, a program contains all of its communication.
fn strictly(case: &Case, program: &Program, compiled: &Compiled, options: &Options) -> Checked {
    if !case.modes.strict || case.modes.is_restricted() {
        return Ok(());
    }
    let (sizes, spelling) = (case.modes.sizes(), case.modes.spelling());
    let Err(found) = compiler::check_strict(&case.source, &sizes, spelling, program, options) else { return Ok(()) };
    let other: Vec<&str> =
        found.iter().map(|found| found.code.as_str()).filter(|code| *code != "unwritten-communication").collect();
    if !other.is_empty() {
        return failure(format!("strict: {}", other.join(" ")), told(&found));
    }
    // No lines are printed in functions, and for sums that a repeat leaves open.
    let is_open = |id: &StepId| !compiled.plan.step(*id).layout.sharding.open.is_empty();
    let carries_sum = compiled.plan.carried.iter().any(|(carry, _)| is_open(carry));
    let is_left_out = case.source.contains("\ndef ") || has_running_sum(&case.source) || carries_sum;
    if is_left_out && found.iter().any(|found| found.fixes.is_empty()) {
        return Ok(());
    }
    let again = advice::apply_all(&case.source, &advice::unwritten(&compiled.plan));
    if found.iter().any(|found| found.fixes.is_empty()) {
        let problem = checked("strict: offered", case, &again)
            .err()
            .map_or_else(String::new, |failure| failure.class + &failure.detail);
        return failure("strict: no lines", format!("{}\n{again}\n{problem}", told(&found)));
    }
    let changed = advice::apply_all(&case.source, &found);
    let program = checked("strict: offered", case, &changed)?;
    compiler::check_strict(&changed, &sizes, spelling, &program, options)
        .or_else(|found| failure("strict: still not", format!("{}\n{changed}", told(&found))))
}

/// Whether a line adds to an array, as `acc = acc + x * y` in a repeat.
fn has_running_sum(source: &str) -> bool {
    source.lines().any(|line| {
        let Some((name, sum)) = line.trim().split_once(" = ") else { return false };
        let name = name.split('[').next().unwrap_or_default();
        sum.starts_with(&format!("{name} + "))
    })
}
