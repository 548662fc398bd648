//! Reports for people.

use crate::compiler::Compiled;
use crate::costs::{self, Unit};
use crate::mesh::Mesh;
use crate::method::Method;
use crate::plan::{Alternative, Choice, Plan, StepId, StepOp};
use crate::recipe::Lowering;
use crate::report::{plan_bound, step_bound, step_method_times, step_reason};
use crate::sim::clock::{Order, Timing};
use crate::sim::proof::Proof;
use crate::sim::usage::Usage;
use crate::sim::values::Numerics;
use crate::topology::{AxisLinks, Topology};
use crate::units::{Bytes, Time};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use itertools::Itertools;
use std::fmt::Write as _;

/// The machine in a line: `8 devices, mesh {X: 8} on tpu_v5e; X is a ring of 8 links of 45.0 GB/s each way`.
pub fn machine(topology: &Topology, assumed: bool) -> String {
    let mesh = &topology.mesh;
    let axis = |(axis, links): (&crate::mesh::Axis, &AxisLinks)| {
        let rate = Bytes(links.one_way.per_second());
        let parts = mesh.views().find(|(whole, _)| whole.name == axis.name).map(|(_, parts)| parts);
        let part = |id| format!("{}", mesh.axis(id));
        let parts = parts.map_or_else(String::new, |parts| format!(" = {{{}}}", parts.iter().map(part).join(", ")));
        let over = axis.over.iter().map(|network| format!(" over {network}")).join("");
        format!("{}{parts} is a {} of {}{over} ({rate}/s each way)", axis.name, links.wiring, axis.size)
    };
    let degraded = topology.degraded().map(|(link, state)| format!("{} {state}", topology.show_link(link))).join(", ");
    let degraded = if degraded.is_empty() { degraded } else { format!("degraded links: {degraded}\n") };
    let axes = topology.machine.axes().iter().zip(&topology.axes).map(axis).join(", ");
    let assumed = if assumed { " (assumed)" } else { "" };
    format!("{} devices on {}{assumed}: {axes}\n{degraded}", mesh.device_count(), topology.hardware.name)
}

/// What moves and what it costs, step by step; then the totals and, for each product, what was not chosen.
pub fn plan(plan: &Plan, topology: &Topology) -> String {
    let mut text = steps(plan, topology);
    text.push('\n');
    text.push_str(&totals(plan, topology));
    for id in &plan.filled {
        writeln!(text, "the input `{}` comes as `{}`", plan.program.name(plan.step(*id).value), plan.array(*id))
            .expect("a string");
    }
    for choice in plan.choices.iter().filter(|choice| choice.alternatives.len() > 1 || choice.pinned.is_some()) {
        text.push('\n');
        text.push_str(&alternatives(plan, choice, topology));
    }
    text
}

/// What moves, step by step.
pub fn steps(plan: &Plan, topology: &Topology) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["step", "layouts", "received", "time", "bound by", "method"]);
    for id in plan.ids().filter(|id| plan.is_done(*id)) {
        let step = plan.step(id);
        let case = plan.case(id).map(|case| format!("case {case}"));
        let how = case.iter().map(String::as_str).chain([plan.how(id)]).filter(|how| !how.is_empty()).join(", ");
        table.add_row([
            step_name(plan, id),
            step_layouts(plan, id),
            if step.usage.received().0 == 0 { "-".to_owned() } else { step.usage.received().to_string() },
            topology.scale.show(step.cost.time),
            step.cost.limit.name().to_owned(),
            how,
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// For each collective the methods that could do it, with their times by themselves and as multiples of the bound.
pub fn methods(plan: &Plan, topology: &Topology, lowering: Lowering) -> String {
    let mut text = String::new();
    for id in plan.ids().filter(|id| plan.is_done(*id)) {
        let Some(times) = step_method_times(plan, id, topology, lowering) else { continue };
        let bound = step_bound(plan, id, topology).time();
        let show = |time| topology.scale.show(time);
        writeln!(text, "\n{} {}, bound {}", plan.op_name(id), step_layouts(plan, id), show(bound)).expect("a string");
        let chosen = [("chosen ", &times.chosen)];
        for (sign, way) in chosen.into_iter().chain(times.others.iter().map(|other| ("instead", other))) {
            let (time, ratio) = (show(way.time), way.time.ratio(bound));
            let on_request = Method::from_name(&way.name).is_some_and(Method::is_on_request);
            let note = if on_request && sign == "instead" { " (only if asked for)" } else { "" };
            writeln!(text, "  {sign} {time:>9} {ratio:>6.2}x  {}{note}", way.name).expect("a string");
        }
    }
    text
}

pub(super) fn step_name(plan: &Plan, id: StepId) -> String {
    let name = match &plan.step(id).op {
        StepOp::Product { .. } => "product".to_owned(),
        StepOp::Input | StepOp::Carry | StepOp::Collective(_) | StepOp::Reduce { .. } | StepOp::Map { .. } => {
            plan.op_name(id)
        }
    };
    match plan.times(id) {
        1 => name,
        times => format!("{name} x {times}"),
    }
}

/// `A[I, J] * B[J, K_X] -> C[I, K_X]`
pub(super) fn step_layouts(plan: &Plan, id: StepId) -> String {
    let sign = match plan.step(id).op {
        StepOp::Product { .. } => " * ",
        StepOp::Input | StepOp::Carry | StepOp::Collective(_) | StepOp::Reduce { .. } | StepOp::Map { .. } => ", ",
    };
    let operands = plan.operands(id).into_iter().map(|operand| plan.array(operand)).join(sign);
    format!("{operands} -> {}", plan.array(id))
}

pub(super) fn totals(plan: &Plan, topology: &Topology) -> String {
    let totals = plan.totals();
    let show = |time| topology.scale.show(time);
    let mut text = format!(
        "total {}: communication {} + compute {}, one step after the other ({} costs)\n",
        show(totals.time()),
        show(totals.communication),
        show(totals.compute),
        plan.costs
    );
    text.push_str(&by_the_clock(plan, topology));
    writeln!(text, "{}", usage(&totals.usage)).expect("a string");
    let optimal = if plan.exact {
        let axes = if plan.in_parts { "axes in parts included" } else { "on whole axes" };
        match plan.costs {
            "bytes" => format!("no plan of these moves, {axes}, receives fewer bytes"),
            "book" => format!("no plan of these moves, {axes}, is faster by the book's formulas"),
            _ => format!("no plan of these moves, {axes}, takes less simulated time step by step"),
        }
    } else {
        let pinned = plan.choices.iter().any(|choice| choice.pinned.is_some());
        let why = match pinned {
            true => "products were done as they were pinned",
            false if plan.is_slowed() => "collectives are done by the methods that are asked for",
            false => "the search for a cheaper one was given up",
        };
        let bound = match plan.lower_bound {
            bound if is_next_to_nothing(bound, topology) => "no lower bound is known".to_owned(),
            bound => {
                let ratio = totals.time().ratio(bound);
                format!("no plan takes less than {}, this one {ratio:.2}x of that", show(bound))
            }
        };
        format!("{bound}; {why}")
    };
    writeln!(text, "{optimal}").expect("a string");
    if let Some(floor) = costs::floor(plan, topology).filter(|floor| !is_next_to_nothing(floor.time, topology)) {
        let busy = match floor.unit {
            Unit::Engine(_) if topology.hardware.engines.names().len() == 1 => "each device computes for".to_owned(),
            Unit::Engine(_) => format!("the engine `{}` of each device is busy for", floor.unit.name(topology)),
            Unit::Links(_) => format!("the {} are busy for", floor.unit.name(topology)),
        };
        let (time, ratio) = (show(floor.time), totals.time().ratio(floor.time));
        writeln!(text, "whatever the plan, {busy} {time}; the total is {ratio:.2}x of that").expect("a string");
    }
    text
}

/// What a device sends, receives and holds, in a line.
pub(super) fn usage(usage: &Usage) -> String {
    let peak = usage.peak;
    if usage.received.most == 0 {
        return format!("each device holds at most {peak} and receives nothing");
    }
    let (received, sent) = (Bytes(usage.received.most), Bytes(usage.sent.most));
    let messages = match usage.messages.most {
        1 => "1 message".to_owned(),
        messages => format!("{messages} messages"),
    };
    format!("each device receives at most {received} in {messages}, sends at most {sent} and holds at most {peak}")
}

/// Where the simulated times of steps differ from those that they were planned with: by how much, and which step most.
fn by_the_clock(plan: &Plan, topology: &Topology) -> String {
    let show = |time| topology.scale.show(time);
    let simulated = |id: StepId| match &plan.step(id).recipe {
        Some(Ok(chosen)) => chosen.time.unwrap_or(plan.step(id).cost.time),
        Some(Err(_)) | None => plan.step(id).cost.time,
    };
    let off =
        |id: &StepId| simulated(*id).ticks().abs_diff(plan.step(*id).cost.time.ticks()) * u128::from(plan.times(*id));
    let Some(id) = plan.ids().filter(|id| off(id) > 0).max_by_key(|id| (off(id), std::cmp::Reverse(*id))) else {
        return String::new();
    };
    let collectives = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Collective(_)));
    let together: Time = collectives.map(|id| simulated(id) * plan.times(id)).sum();
    format!(
        "simulated, communication takes {}: {} takes {} by the book, {} on these links; by the book memory is free\n",
        show(together),
        step_name(plan, id),
        show(plan.step(id).cost.time),
        show(simulated(id)),
    )
}

/// Whether a time would be shown as `0.00 ns`: to be so many times of it says nothing.
fn is_next_to_nothing(time: Time, topology: &Topology) -> bool {
    const LEAST_SHOWN: f64 = 0.005e-9;
    topology.scale.seconds(time) < LEAST_SHOWN
}

fn alternatives(plan: &Plan, choice: &Choice, topology: &Topology) -> String {
    let name = plan.program.name(choice.value);
    let mut text = format!("{name} is case {}: {}\n", choice.case, CASES[usize::from(choice.case - 1)]);
    for (place, alternative) in choice.alternatives.iter().enumerate() {
        let sign = if place == 0 { "chosen " } else { "instead" };
        let moves = if alternative.moves.is_empty() { "no move".to_owned() } else { alternative.moves.join(", ") };
        let bound = if alternative.is_bound { ">= " } else { "" };
        let time = format!("{bound}{}", topology.scale.show(alternative.time));
        writeln!(text, "  {sign} {time:>9}  {moves}").expect("a string");
    }
    if let (Some(pinned), Some(chosen)) = (&choice.pinned, choice.alternatives.first()) {
        writeln!(text, "  pinned {}: {}", pinned.text, beside(chosen, &pinned.best, topology)).expect("a string");
    }
    text
}

/// What a pin costs: `1.9x of the best, which is 4.00 us with AllGather_X(B[J_X, K])`.
fn beside(chosen: &Alternative, best: &Alternative, topology: &Topology) -> String {
    if chosen.time <= best.time {
        return "no other way is faster".to_owned();
    }
    let moves = if best.moves.is_empty() { "no move".to_owned() } else { best.moves.join(", ") };
    let factor = match best.time {
        time if is_next_to_nothing(time, topology) => return format!("the best takes no time, with {moves}"),
        time => format!("{:.2}x", chosen.time.ratio(time)),
    };
    format!("{factor} of the best, which is {} with {moves}", topology.scale.show(best.time))
}

/// The book's cases in a line each.
const CASES: [&str; 4] = [
    "local blocks can be multiplied as they are",
    "a dim on which the operands meet is sharded in one of them only",
    "a contracted dim is sharded alike in both",
    "an axis shards different dims of the result in both operands",
];

/// What was proven, in a line.
pub fn proof(compiled: &Compiled) -> String {
    proven(&compiled.proof, &compiled.topology.mesh)
}

/// On larger meshes it is said on how many devices a proof has followed the schedule.
const MANY_DEVICES: usize = 64;

/// The size of a proof, in a line; on large meshes with a second one.
pub(super) fn proven(proof: &Proof, mesh: &Mesh) -> String {
    let (devices, followed) = (proof.devices, proof.followed);
    let mut text =
        format!("proven   {} operations on {devices} devices give the right result for all data\n", proof.operations);
    if devices > MANY_DEVICES {
        let how = match proof.collapsed.is_empty() {
            true => format!("not collapsed: followed on all {devices} devices"),
            false => {
                let axes = proof.collapsed.iter().map(|axis| mesh.axis(axis).name.as_str()).join(", ");
                format!(
                    "followed on {followed} of {devices} devices; the others are images under translation along {axes}"
                )
            }
        };
        writeln!(text, "         {how}").expect("a string");
    }
    text
}

/// The comparison with the dense result, a line for all outputs together, and one for what it says nothing about.
pub fn numerics(numerics: &Numerics) -> String {
    let Numerics { elements, not_compared, max_abs_error: error, tolerance, .. } = numerics;
    let compared = elements - not_compared;
    let line = if numerics.equal {
        format!("equal    all {elements} elements equal the dense result\n")
    } else if !numerics.within {
        format!("WRONG    {compared} elements, off by {error:.3e} where rounding may cost {tolerance:.3e}\n")
    } else if *error > 0.0 {
        format!("close    {compared} elements, off by at most {error:.3e} where rounding may cost {tolerance:.3e}\n")
    } else {
        format!("equal    {compared} of {elements} elements equal the dense result\n")
    };
    if *not_compared == 0 {
        return line;
    }
    line + &format!("         {not_compared} of {elements} elements could overflow or cancel; not compared\n")
}

/// The simulated time against its bound.
pub fn timing(compiled: &Compiled, timing: &Timing) -> String {
    let show = |time| compiled.topology.scale.show(time);
    let bound = plan_bound(&compiled.plan, &compiled.topology);
    let mut text = format!(
        "time     {} on the simulated links, {:.2}x the bound of {}\n",
        show(timing.makespan),
        timing.makespan.ratio(bound),
        show(bound)
    );
    let slowest = compiled.plan.ids().map(|id| (step_bound(&compiled.plan, id, &compiled.topology).time(), id));
    if let Some((_, id)) = slowest.max_by_key(|(bound, id)| (*bound, std::cmp::Reverse(*id))) {
        let why = step_reason(&compiled.plan, id, &compiled.topology)
            .unwrap_or_else(|| "operations and memory, not links, take the time".to_owned());
        writeln!(text, "         the longest step is {}; at best {why}", step_name(&compiled.plan, id))
            .expect("a string");
    }
    if let Some(link) = timing.busiest {
        let (name, busy) = (compiled.topology.show_link(link), show(timing.busiest_link_time()));
        writeln!(text, "         the busiest link is {name}, for {busy}").expect("a string");
    }
    text + order(timing) + &engines(timing, &compiled.topology)
}

/// In which order links and engines serve, where that is not as listed.
pub(super) fn order(timing: &Timing) -> &'static str {
    match timing.order {
        Order::Listed => "",
        Order::Arrival => "         links and engines serve first come, first served\n",
    }
}

/// How busy the engines are, each on the device where it is busy longest; nothing where a device has only one.
pub(super) fn engines(timing: &Timing, topology: &Topology) -> String {
    let names = topology.hardware.engines.names();
    if names.len() < 2 {
        return String::new();
    }
    let engine = |(name, busy): (&String, &Time)| {
        let part = if *busy == Time::ZERO { 0.0 } else { 100.0 * busy.ratio(timing.makespan) };
        format!("{name} {} ({part:.0} %)", topology.scale.show(*busy))
    };
    let engines = names.iter().zip(&timing.engines).map(engine).join(", ");
    format!("         engines are busy for at most: {engines}\n")
}

#[cfg(test)]
mod tests {
    use super::totals;
    use crate::compiler::{self, Options};
    use crate::costs::CostModel;
    use crate::units::Time;

    /// By the book an AllReduce of little is eight hops; the fastest method takes four. The default says nothing of it.
    #[test]
    fn another_time_than_the_books_is_reported() {
        let source = "mesh {Y: 8 ring} on tpu_v5e\nA: f32[64]{U_Y}\nC[64] = A\n";
        let program = compiler::check(source).0.expect("a right program");
        for (costs, reported) in [(CostModel::Book, true), (CostModel::Exact, false), (CostModel::Bytes, false)] {
            let options = Options { costs, ..Options::default() };
            let compiled = compiler::preview(&program, &options).expect("a plan");
            let text = totals(&compiled.plan, &compiled.topology);
            let line = "AllReduce_Y takes 8.00 us by the book, 4.00 us on these links";
            assert_eq!(text.contains(line), reported, "{text}");
            assert_eq!(text.contains("by the book"), reported, "{text}");
        }
    }

    #[test]
    fn a_bound_of_next_to_nothing_is_not_told() {
        let (program, found) = compiler::check("mesh {X: 2} on tpu_v5e\nA: f32[4_X]\nC = AllGather_X(A)\n");
        let program = program.unwrap_or_else(|| panic!("{found:?}"));
        let mut compiled = compiler::preview(&program, &Options::default()).expect("a plan");
        compiled.plan.exact = false;
        // A tick of the machine is far below what is shown.
        for bound in [Time::ZERO, Time::from_ticks(1)] {
            compiled.plan.lower_bound = bound;
            let text = totals(&compiled.plan, &compiled.topology);
            let line = "no lower bound is known; the search for a cheaper one was given up\n";
            assert!(text.contains(line) && !text.contains("0.00 ns"), "{text}");
        }
        compiled.plan.lower_bound = compiled.plan.totals().time();
        let text = totals(&compiled.plan, &compiled.topology);
        assert!(text.contains("this one 1.00x of that; the search"), "{text}");
    }
}
