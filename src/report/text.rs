//! Text reports.

use super::findings::Findings;
use super::fold;
use super::run::Makespan;
use super::step::Step;
use super::table;
use crate::method::Method;
use crate::plan::{Division, StepOp};
use crate::sim::clock::Timing;
use crate::topology::{AxisLinks, Topology};
use crate::units::{Bytes, Time, bytes_or_dash, counted};
use itertools::Itertools;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Describes the machine in one line: `8 devices, mesh {X: 8} on tpu_v5e; X is a ring of 8 links of 45.0 GB/s each way`.
pub fn machine(topology: &Topology, assumed: bool) -> String {
    let mesh = &topology.mesh;
    let axis = |(axis, links): (&crate::mesh::Axis, &AxisLinks)| {
        let rate = Bytes(links.one_way.per_second());
        let parts = mesh.views().find(|(whole, _)| whole.name == axis.name).map(|(_, parts)| parts);
        let part = |id| format!("{}", mesh.axis(id));
        let parts = parts.map_or_else(String::new, |parts| format!(" = {{{}}}", parts.iter().map(part).join(", ")));
        let over = axis.over.iter().map(|network| format!(" over {network}")).join("");
        format!("{}{parts} is a {} of {}{over} ({rate}/s each way)", axis.name, links.wiring.noun(), axis.size)
    };
    let (alone, axes): (Vec<_>, Vec<_>) =
        topology.machine.axes().iter().zip(&topology.axes).partition(|(axis, _)| axis.size == 1);
    let alone = alone.into_iter().map(|(axis, _)| format!("{} has size 1", axis.name));
    let axes = axes.into_iter().map(axis).chain(alone.filter(|_| mesh.device_count() > 1)).join(", ");
    let axes = match topology.fabric() {
        Some(fabric) => {
            let (links, switches) = (fabric.cables().len() as u64, fabric.switches() as u64);
            let joined = match switches {
                0 => String::new(),
                1 => " and 1 switch".to_owned(),
                _ => format!(" and {switches} switches"),
            };
            format!(": a fabric of {}{joined}", counted(links, "one-way link"))
        }
        None if axes.is_empty() => axes,
        None => format!(": {axes}"),
    };
    let degraded = topology.degraded().map(|(link, state)| format!("{} {state}", topology.show_link(link))).join(", ");
    let degraded = if degraded.is_empty() { degraded } else { format!("degraded links: {degraded}\n") };
    let assumed = if assumed { " (assumed)" } else { "" };
    let devices = counted(mesh.device_count() as u64, "device");
    format!("{devices} on {}{assumed}{axes}\n{degraded}", topology.hardware.name)
}

/// The rows of a table of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All steps.
    All,
    /// Steps that communicate.
    Moves,
}

/// Formats the steps, the totals, and the alternatives of each product, with all details.
///
/// - `width`: see [`steps`].
pub fn plan(findings: &Findings<'_>, width: Option<usize>) -> String {
    plan_of(findings, width, Rows::All)
}

/// Formats a plan as [`plan`] does, with some rows of its table.
pub fn plan_of(findings: &Findings<'_>, width: Option<usize>, rows: Rows) -> String {
    let mut text = totalled(findings, width, rows);
    for line in findings.advice() {
        writeln!(text, "{line}").expect("a string");
    }
    for product in findings.products.iter().filter(|product| product.ways.len() > 1 || product.pin.is_some()) {
        text.push('\n');
        text.push_str(&product.alternatives());
    }
    text
}

/// Formats the steps, the totals, and at most three lines of advice: chosen layouts, rewritings, pins.
///
/// - `hint`: a further line, printed if there are fewer than three.
pub fn brief(findings: &Findings<'_>, width: Option<usize>, rows: Rows, hint: Option<&str>) -> String {
    const MOST: usize = 3;
    let advice = findings.brief_advice().into_iter().chain(hint.map(str::to_owned)).take(MOST);
    let advice: String = advice.map(|line| format!("{line}\n")).collect();
    let gap = if advice.is_empty() { "" } else { "\n" };
    totalled(findings, width, rows) + gap + &advice
}

fn totalled(findings: &Findings<'_>, width: Option<usize>, rows: Rows) -> String {
    let table = match rows {
        Rows::All => steps(findings, width),
        Rows::Moves => moves(findings, width),
    };
    format!("{table}\n{}", findings.totals_text())
}

/// Formats the table of steps.
///
/// - `width`: the width of a terminal. With it, equal layers are folded, and layouts that do not fit beside the figures
///   stand below them.
pub fn steps(findings: &Findings<'_>, width: Option<usize>) -> String {
    let rows = findings.steps.iter().map(row).collect_vec();
    if rows.is_empty() {
        return "no steps: nothing is computed or communicated\n".to_owned();
    }
    let Some(width) = width else { return whole(&rows) };
    let named = |[name, layouts, rest @ ..]: &[String; 6]| (format!("{name} {layouts}"), rest.clone());
    let runs = fold::runs(&rows.iter().map(named).collect_vec());
    let folded = runs.iter().flat_map(|run| {
        let again = (run.times > 1).then(|| repeated(findings, run));
        rows[run.rows.clone()].iter().cloned().chain(again)
    });
    let folded = folded.collect_vec();
    let text = whole(&folded);
    if text.lines().all(|line| line.chars().count() <= width) { text } else { narrow(&folded, width) }
}

/// Formats the table of the steps that communicate.
fn moves(findings: &Findings<'_>, width: Option<usize>) -> String {
    let moves = findings.steps.iter().filter(|step| findings.plan.communicates(step.id));
    let rows = moves.map(row).collect_vec();
    if rows.is_empty() {
        return "no communication\n".to_owned();
    }
    let text = whole(&rows);
    match width {
        Some(width) if text.lines().any(|line| line.chars().count() > width) => narrow(&rows, width),
        Some(_) | None => text,
    }
}

fn row(step: &Step) -> [String; 6] {
    let case = step.case.map(|case| format!("case {case}"));
    let how = case.iter().chain(Some(&step.how).filter(|how| !how.is_empty())).join(", ");
    let (time, limit) = (step.time_s.to_string(), step.limit.to_owned());
    [step.name.clone(), step.layouts.clone(), step.received(), time, limit, how]
}

/// The table of steps with all columns.
fn whole(rows: &[[String; 6]]) -> String {
    let mut steps = table::new(["step", "layouts", "received", "time", "bound by", "method"], [2, 3]);
    steps.add_rows(rows);
    table::lines(&steps)
}

/// The table of steps with layouts and methods below the figures.
fn narrow(rows: &[[String; 6]], width: usize) -> String {
    const HARD: &str = "\u{a0}";
    let mut figures = table::new(["step", "bound by", "received", "time"], [2, 3]);
    figures.add_rows(rows.iter().map(|[step, _, received, time, limit, _]| [step, limit, received, time]));
    let figures = table::lines(&figures);
    let mut lines = figures.split_inclusive('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for (line, [_, layouts, .., method]) in lines.zip(rows) {
        text.push_str(line);
        // A method stays on one line.
        let method = method.replace(' ', HARD);
        let below = [layouts, &method].into_iter().filter(|words| !words.is_empty()).join("; ");
        for (place, part) in wrapped(&below, width.saturating_sub(6)).iter().enumerate() {
            let indent = if place == 0 { 3 } else { 5 };
            writeln!(text, "{:indent$}{}", "", part.replace(HARD, " ")).expect("a string");
        }
    }
    text
}

/// Breaks lines that are wider than the terminal at spaces outside brackets, and indents the rest of them.
pub fn fit(text: &str, width: Option<usize>) -> String {
    const DEEPER: usize = 4;
    let Some(width) = width else { return text.to_owned() };
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.trim_end_matches('\n').chars().count() <= width {
            fitted.push_str(line);
            continue;
        }
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let parts = wrapped(words.trim_end(), width.saturating_sub(indent + DEEPER));
        for (place, part) in parts.iter().enumerate() {
            let indent = if place == 0 { indent } else { indent + DEEPER };
            writeln!(fitted, "{:indent$}{}", "", part.trim_end()).expect("a string");
        }
    }
    fitted
}

/// Breaks a line at spaces outside brackets.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut depth = 0usize;
    let words = text.split(|c: char| {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ' ' && depth == 0
    });
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The row that stands for the repetitions of a run.
fn repeated(findings: &Findings<'_>, run: &fold::Run) -> [String; 6] {
    let (count, again) = (run.rows.len(), run.times - 1);
    let steps = &findings.steps[run.rows.end..run.rows.end + count * again];
    let last = steps.last().map_or("", |step| step.layouts.rsplit(" -> ").next().unwrap_or_default());
    let received: u64 = steps.iter().map(|step| step.bytes_received().0).sum();
    let time: Time = steps.iter().map(|step| step.time_s.time).sum();
    let what = match count {
        1 => format!("the same {again} times more, to {last}"),
        _ => format!("the same {count} steps {again} times more, to {last}"),
    };
    let received = bytes_or_dash(Bytes(received));
    ["...".to_owned(), what, received, findings.seconds(time).to_string(), String::new(), String::new()]
}

/// Formats the runs of steps that are split into pieces. Of identical runs, as in equal layers, only the first is listed.
pub fn pieces(findings: &Findings<'_>) -> String {
    let plan = findings.plan;
    // Of computations the products.
    let counts = |at: &usize| {
        let step = findings.steps[*at].id;
        plan.communicates(step) || matches!(plan.step(step).op, StepOp::Product { .. })
    };
    let alike = |(dim, division, steps): &(String, Division, Vec<usize>)| {
        let names = steps.iter().copied().filter(counts).map(|at| findings.steps[at].name.as_str());
        (dim.clone(), *division, names.collect_vec())
    };
    let pipelines = findings.pipelines();
    let mut shown: Vec<(_, usize, usize)> = Vec::new();
    for (at, pipeline) in pipelines.iter().enumerate() {
        let shape = alike(pipeline);
        match shown.iter_mut().find(|(known, ..)| *known == shape) {
            Some((_, _, count)) => *count += 1,
            None => shown.push((shape, at, 1)),
        }
    }
    let mut text = String::new();
    for (_, at, count) in shown {
        let (dim, division, steps) = &pipelines[at];
        let name = |at: usize| {
            let step = &findings.steps[at];
            format!("{} {}", step.name, plan.program.label(plan.step(step.id).value))
        };
        let steps = steps.iter().copied().filter(counts).map(name).join(", ");
        let more = match count {
            1 => String::new(),
            _ => format!(" ({} more such runs)", count - 1),
        };
        let pieces = division.count();
        writeln!(text, "overlap  {pieces} pieces along {dim}{}: {steps}{more}", shorter(*division)).expect("a string");
    }
    text
}

/// Which pieces are shorter than the others.
fn shorter(division: Division) -> &'static str {
    match division.halvings() {
        (0, 0) => "",
        (_, 0) => ", shorter ones first",
        (0, _) => ", shorter ones last",
        (_, _) => ", shorter ones first and last",
    }
}

/// Formats the collectives that are done as one. Of bundles that look the same, as in equal layers, only the first is listed.
pub fn bundles(findings: &Findings<'_>) -> String {
    const MOST_NAMES: usize = 4;
    let plan = findings.plan;
    let line = |steps: &Vec<usize>| {
        let steps = || steps.iter().map(|at| &findings.steps[*at]);
        let what = steps().next().map_or("", |step| step.name.as_str());
        let names = steps().map(|step| plan.program.label(plan.step(step.id).value)).collect_vec();
        let (names, more) = match names.len() {
            count if count > MOST_NAMES + 1 => (&names[..MOST_NAMES], format!(" and {} more", count - MOST_NAMES)),
            _ => (&names[..], String::new()),
        };
        let names = names.join(", ");
        format!("bundle   {what} of {names}{more} as one collective")
    };
    let lines = findings.bundles().iter().map(line).collect_vec();
    let counted = lines.iter().counts();
    let mut text = String::new();
    for line in lines.iter().unique() {
        let again = match counted[line] {
            1 => String::new(),
            count => format!(" ({} more such bundles)", count - 1),
        };
        writeln!(text, "{line}{again}").expect("a string");
    }
    text
}

/// Lists the methods of each collective, with their times and their ratios to the bound.
pub fn methods(findings: &Findings<'_>) -> String {
    let mut text = String::new();
    for step in &findings.steps {
        let Some(methods) = &step.methods else { continue };
        let name = findings.plan.op_name(step.id);
        writeln!(text, "\n{name} {}, lower bound {}", step.layouts, step.bound_s).expect("a string");
        for method in methods {
            let on_request = Method::from_name(&method.name).is_some_and(Method::is_on_request);
            let sign = if method.chosen { "chosen" } else { "other" };
            let networks = || findings.topology.hardware.networks().map(|network| &network.methods);
            let is_listed =
                Method::from_name(&method.name).is_none_or(|method| networks().any(|own| own.contains(&method)));
            let note = match method.chosen {
                true => "",
                false if on_request => " (only with `using`)",
                false if networks().all(|own| !own.is_empty()) && !is_listed => {
                    " (not in the library of this machine; only with `using`)"
                }
                false => "",
            };
            let (time, ratio, name) = (method.time_s, method.ratio, &method.name);
            writeln!(text, "  {sign:<7} {time:>9} {ratio:>6.2}x  {name}{note}").expect("a string");
        }
    }
    text
}

/// Formats the simulated time, its lower bound, and the bottleneck.
pub fn timing(findings: &Findings<'_>, timing: &Timing) -> String {
    let time = Makespan::new(timing, findings.bound.time, findings.topology);
    let (makespan, ratio, bound) = (time.makespan_s, time.ratio, time.bound_s);
    if makespan.is_negligible() {
        return "time     none: no step takes time\n".to_owned();
    }
    let against = match bound.is_negligible() {
        true => String::new(),
        false => format!(", {ratio:.2}x the lower bound {bound} of this plan"),
    };
    let mut text = format!("time     {makespan} simulated{against}\n");
    if let Some(limit) = limit(findings) {
        writeln!(text, "         {limit}").expect("a string");
    }
    let by_the_clock = findings.by_the_clock();
    if !by_the_clock.is_empty() {
        let book = findings.seconds(findings.totals.time());
        write!(text, "         {book} by the book, steps in sequence; {by_the_clock}").expect("a string");
    }
    text + &time.link() + &time.service()
}

/// The resource that limits the time of a plan, in a sentence.
pub fn limit(findings: &Findings<'_>) -> Option<String> {
    if let Some(links) = findings.bound_links {
        let bound = findings.seconds(findings.bound.time);
        return Some(format!("the {} are busy for {bound} in any order of the steps", links.name(findings.topology)));
    }
    let slowest = findings.steps.iter().max_by_key(|step| (step.bound_s.time, Reverse(step.id)));
    let step = slowest.filter(|step| step.bound_s.time > Time::ZERO)?;
    let name = findings.plan.program.label(findings.plan.step(step.id).value);
    let limit = step.bound_reason.clone().unwrap_or_else(|| format!("{}-bound", step.limit));
    Some(format!("longest step {} of `{name}`: {limit}", step.name))
}
