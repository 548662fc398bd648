//! Reports for people.

use super::findings::Findings;
use super::run::Makespan;
use crate::method::Method;
use crate::plan::StepOp;
use crate::sim::clock::Timing;
use crate::topology::{AxisLinks, Topology};
use crate::units::{Bytes, Time};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use itertools::Itertools;
use std::cmp::Reverse;
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
pub fn plan(findings: &Findings<'_>) -> String {
    let plan = findings.plan;
    let mut text = format!("{}\n{}", steps(findings), findings.totals_text());
    for id in &plan.filled {
        let name = plan.program.name(plan.step(*id).value);
        writeln!(text, "the input `{name}` comes as `{}`", plan.array(*id)).expect("a string");
    }
    for product in findings.products.iter().filter(|product| product.ways.len() > 1 || product.pin.is_some()) {
        text.push('\n');
        text.push_str(&product.alternatives());
    }
    text
}

/// What moves, step by step.
pub fn steps(findings: &Findings<'_>) -> String {
    let mut steps = table(["step", "layouts", "received", "time", "bound by", "method"]);
    for step in &findings.steps {
        let case = step.case.map(|case| format!("case {case}"));
        let how = case.iter().chain(Some(&step.how).filter(|how| !how.is_empty())).join(", ");
        let (time, limit) = (step.time_s.to_string(), step.limit.to_owned());
        steps.add_row([step.name.clone(), step.layouts.clone(), step.received(), time, limit, how]);
    }
    lines(steps)
}

/// The runs that are done in pieces. Of identical ones, such as those of equal layers, only the first is listed.
pub fn pieces(findings: &Findings<'_>) -> String {
    let plan = findings.plan;
    // Of computations the products.
    let counts = |at: &usize| {
        let step = findings.steps[*at].id;
        plan.communicates(step) || matches!(plan.step(step).op, StepOp::Product { .. })
    };
    let alike = |(dim, pieces, steps): &(String, u64, Vec<usize>)| {
        let names = steps.iter().copied().filter(counts).map(|at| findings.steps[at].name.as_str());
        (dim.clone(), *pieces, names.collect_vec())
    };
    let pipelines = findings.pipelines();
    let mut told: Vec<(_, usize, usize)> = Vec::new();
    for (at, pipeline) in pipelines.iter().enumerate() {
        let shape = alike(pipeline);
        match told.iter_mut().find(|(known, ..)| *known == shape) {
            Some((_, _, count)) => *count += 1,
            None => told.push((shape, at, 1)),
        }
    }
    let mut text = String::new();
    for (_, at, count) in told {
        let (dim, pieces, steps) = &pipelines[at];
        let name = |at: usize| {
            let step = &findings.steps[at];
            format!("{} {}", step.name, plan.program.name(plan.step(step.id).value))
        };
        let steps = steps.iter().copied().filter(counts).map(name).join(", ");
        let more = match count {
            1 => String::new(),
            _ => format!("; {} more like it", count - 1),
        };
        writeln!(text, "pieces   {pieces} along {dim}, so that links and devices work at once: {steps}{more}")
            .expect("a string");
    }
    text
}

/// A table without lines; its third and fourth columns are figures.
pub(super) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The lines of a table.
pub(super) fn lines(table: Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// For each collective the methods that could do it, with their times by themselves and as multiples of the bound.
pub fn methods(findings: &Findings<'_>) -> String {
    let mut text = String::new();
    for step in &findings.steps {
        let Some(methods) = &step.methods else { continue };
        let name = findings.plan.op_name(step.id);
        writeln!(text, "\n{name} {}, bound {}", step.layouts, step.bound_s).expect("a string");
        for method in methods {
            let on_request = Method::from_name(&method.name).is_some_and(Method::is_on_request);
            let sign = if method.chosen { "chosen" } else { "instead" };
            let note = if on_request && !method.chosen { " (only if asked for)" } else { "" };
            let (time, ratio, name) = (method.time_s, method.ratio, &method.name);
            writeln!(text, "  {sign:<7} {time:>9} {ratio:>6.2}x  {name}{note}").expect("a string");
        }
    }
    text
}

/// The simulated time against its bound.
pub fn timing(findings: &Findings<'_>, timing: &Timing) -> String {
    let time = Makespan::new(timing, findings.bound.time, findings.topology);
    let (makespan, ratio, bound) = (time.makespan_s, time.ratio, time.bound_s);
    let mut text = format!("time     {makespan} on the simulated links, {ratio:.2}x the bound of {bound}\n");
    if let Some(links) = findings.bound_links {
        let links = links.name(findings.topology);
        writeln!(text, "         however the steps overlap, the {links} carry all they move in no less")
            .expect("a string");
        return text + &time.link() + &time.service();
    }
    let slowest = findings.steps.iter().max_by_key(|step| (step.bound_s.time, Reverse(step.id)));
    if let Some(step) = slowest.filter(|step| step.bound_s.time > Time::ZERO) {
        let why = step.bound_reason.as_deref().unwrap_or("operations and memory, not links, take the time");
        writeln!(text, "         the longest step is {}; at best {why}", step.name).expect("a string");
    }
    text + &time.link() + &time.service()
}
