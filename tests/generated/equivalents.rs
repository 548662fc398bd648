//! Programs that compute the same, written in another way: no plan of one is below the lower bound of the other.
//!
//! A plan that is proven optimal has its own time as its lower bound. So two programs with the same plans, such as one with
//! other names, take the same time wherever both are proven, and never less than the bound of the other where they are not.
//! A program whose layouts are written is one plan of the program that leaves them open.

use super::choices::Choices;
use super::machine::{Names, Size};
use super::program::{Case, case_with};
use super::properties::{Failure, Outcome};
use fastrand::Rng;
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs;
use shardc::diag::Diagnostics;
use shardc::plan::{Plan, StepOp};
use shardc::program::Program;
use shardc::topology::{Hardware, Topology};
use shardc::units::{Rate, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// What is known of the plans of a program.
struct Planned {
    plan: Plan,
    topology: Topology,
    /// Seconds of all steps in sequence, and no plan takes less.
    time: f64,
    least: f64,
    /// Seconds for which some links or engines are busy in any plan.
    floor: f64,
    /// Bytes received, and no plan receives less.
    received: u64,
    least_received: u64,
}

/// How the plans of another program relate to those of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The same plans.
    Same,
    /// Some of its plans; there may be none.
    Some,
    /// Its plans and others.
    More,
    /// The same plans, each at most twice as fast.
    Twice,
}

/// Another program.
struct Other {
    kind: &'static str,
    case: Case,
    options: Options,
    relation: Relation,
}

/// Times of equal ticks differ by rounding only.
const ROUNDING: f64 = 1.0 + 1e-12;

fn checked(case: &Case, source: &str) -> Option<Program> {
    compiler::check_with(source, &case.modes.sizes(), case.modes.spelling(), None).ok()?.0
}

/// Why there is no plan.
enum Refused {
    ByChecker,
    ByPlanner(String),
}

fn planned(case: &Case, source: &str, options: &Options) -> Result<Planned, Refused> {
    let program = checked(case, source).ok_or(Refused::ByChecker)?;
    let refused = |found: Diagnostics| Refused::ByPlanner(found.iter().map(|found| found.code.to_string()).join(" "));
    let topology = compiler::machine(&program, options).map_err(refused)?;
    let plan = compiler::plan(&program, &topology, options).map_err(refused)?;
    let seconds = |time: Time| topology.scale.seconds(time);
    let (totals, bound) = (plan.totals(), plan.lower_bound);
    let floor = costs::floor(&plan, &topology).map_or(0.0, |floor| seconds(floor.time));
    Ok(Planned {
        time: seconds(totals.time()),
        least: seconds(bound.time),
        floor,
        received: plan.received().0,
        least_received: bound.received.0,
        plan,
        topology,
    })
}

/// The options under which plans are compared: steps in sequence, as the program says.
fn options(case: &Case) -> Options {
    Options { overlap: Overlapping::None, reshard: Resharding::Chains, as_written: true, ..case.modes.options() }
}

/// Words of a line, without its comment.
fn words(line: &str) -> BTreeSet<&str> {
    let text = line.split('#').next().unwrap_or_default();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '\'';
    text.split(|letter| !is_part(letter)).filter(|word| !word.is_empty()).collect()
}

/// The name that a line binds: the one behind an arrow outside of brackets, or the first one.
fn bound(line: &str) -> Option<String> {
    let text = line.split('#').next().unwrap_or_default().replace("->", "→").replace("\\to", "→");
    let mut depth = 0;
    let arrow = text.char_indices().rev().find(|(_, letter)| {
        depth += i32::from("])}".contains(*letter)) - i32::from("[({".contains(*letter));
        *letter == '→' && depth == 0
    });
    // The text after an arrow has no other one, so that it ends the line as it is written.
    let head = match arrow {
        Some((at, arrow)) => &text[at + arrow.len_utf8()..],
        None if text.contains([':', '=']) => text.as_str(),
        None => return None,
    };
    let name =
        head.trim().split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '\'')).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The lines of declarations, and the statements after them, each with its block.
fn statements(source: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let (mut ground, mut all): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for line in source.lines() {
        let declares = ["mesh", "axis", "link", "dims", "def ", "kernel "].iter().any(|word| line.starts_with(word));
        if depth == 0 && all.is_empty() && declares || all.is_empty() && depth > 0 {
            ground.push(line.to_owned());
        } else if depth > 0 {
            all.last_mut().expect("the beginning of a block").push(line.to_owned());
        } else {
            all.push(vec![line.to_owned()]);
        }
        let text = line.split('#').next().unwrap_or_default().trim_end();
        let opens = ["repeat", "def"].iter().any(|word| text.trim_start().starts_with(word)) && text.ends_with('{');
        depth += usize::from(opens);
        depth -= usize::from(text.trim() == "}");
    }
    (ground, all)
}

fn joined(ground: &[String], statements: &[Vec<String>]) -> String {
    ground.iter().chain(statements.iter().flatten()).map(|line| format!("{line}\n")).collect()
}

/// Whether two statements may change places.
fn are_independent(one: &[String], two: &[String]) -> bool {
    let all = |lines: &[String]| -> BTreeSet<String> {
        lines.iter().flat_map(|line| words(line)).map(str::to_owned).collect()
    };
    let binds = |lines: &[String]| -> BTreeSet<String> { lines.iter().filter_map(|line| bound(line)).collect() };
    binds(one).is_disjoint(&all(two)) && binds(two).is_disjoint(&all(one))
}

/// The statements in another order.
fn reordered(source: &str, random: &mut Rng) -> String {
    let (ground, mut all) = statements(source);
    for _ in 0..2 * all.len() {
        let place = random.usize(..all.len().max(1));
        // What comes last is said of all before. No kernel spans a block, so nothing crosses one.
        let is_last = |lines: &[String]| ["output", "expect", "limit"].iter().any(|word| lines[0].starts_with(word));
        let may_swap = |one: &[String], two: &[String]| {
            are_independent(one, two) && !is_last(two) && one.len() == 1 && two.len() == 1
        };
        if place + 1 < all.len() && may_swap(&all[place], &all[place + 1]) {
            all.swap(place, place + 1);
        }
    }
    joined(&ground, &all)
}

/// The axes of a mesh line: `X: 4 ring`.
fn axes(source: &str) -> Option<(String, Vec<String>, String)> {
    let line = source.lines().next()?;
    let (head, rest) = line.strip_prefix("mesh {")?.split_once('}')?;
    let axes = head.split(", ").map(str::to_owned).collect();
    Some(("mesh {".to_owned(), axes, format!("}}{rest}")))
}

fn with_first_line(source: &str, line: &str) -> String {
    let rest = source.split_once('\n').map_or("", |(_, rest)| rest);
    format!("{line}\n{rest}")
}

/// A layout of these dims, perhaps with an open sum.
fn some_layout(dims: &[&str], axes: &[String], random: &mut Rng) -> String {
    let mut of_dim: Vec<Vec<&str>> = vec![Vec::new(); dims.len()];
    let mut open: Vec<&str> = Vec::new();
    let mut axes: Vec<&String> = axes.iter().collect();
    random.shuffle(&mut axes);
    for axis in axes {
        let place = random.usize(..=dims.len());
        match of_dim.get_mut(place) {
            Some(of_dim) => of_dim.push(axis),
            None if random.u8(..4) == 0 => open.push(axis),
            None => {}
        }
    }
    let dims = dims.iter().zip(of_dim).map(|(dim, axes)| match axes.is_empty() {
        true => (*dim).to_owned(),
        false => format!("{dim}_{{{}}}", axes.join(",")),
    });
    let open = if open.is_empty() { String::new() } else { format!("{{U_{{{}}}}}", open.join(",")) };
    format!("[{}]{open}", dims.collect::<Vec<_>>().join(", "))
}

/// A layout without its open sum.
fn closed_part(layout: &str) -> &str {
    layout.rfind(']').map_or(layout, |at| &layout[..=at])
}

/// The source in which a term of an addition is opened; `None` without one that is a name.
fn with_opened_term(source: &str, axes: &[String], random: &mut Rng) -> Option<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '\'';
    let terms = source.match_indices(" + ").map(|(at, sign)| at + sign.len());
    let terms: Vec<(usize, &str)> = terms
        .map(|at| (at, source[at..].split(|letter| !is_part(letter)).next().unwrap_or_default()))
        .filter(|(at, name)| !name.is_empty() && !source[at + name.len()..].starts_with(['(', '_', '[']))
        .collect();
    if terms.is_empty() || axes.is_empty() {
        return None;
    }
    let (at, name) = terms[random.usize(..terms.len())];
    let axis = &axes[random.usize(..axes.len())];
    Some(format!("{}open_{{{axis}}}({name}){}", &source[..at], &source[at + name.len()..]))
}

/// The brackets in the text of an array: `A[I_X, J]{U_Y}`.
fn brackets(array: &str) -> &str {
    array.find('[').map_or("", |at| &array[at..])
}

fn dims_of(brackets: &str) -> Vec<&str> {
    let inside = brackets.trim_start_matches('[').split(']').next().unwrap_or_default();
    let mut depth = 0;
    let parts = inside.split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let names = parts.map(|part| part.trim().split('_').next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).collect()
}

/// The source in which each name that is bound without a layout has the given one.
fn with_layouts(source: &str, layouts: &BTreeMap<&str, String>) -> Option<String> {
    let (ground, mut all) = statements(source);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let lines = || all.iter().flatten();
    lines().filter_map(|line| bound(line)).for_each(|name| *counts.entry(name).or_default() += 1);
    let mut written = false;
    for line in all.iter_mut().filter(|lines| lines.len() == 1).map(|lines| &mut lines[0]) {
        let Some((name, rest)) = line.split_once(" = ") else { continue };
        // A name that is bound again, and what has brackets or a dtype, stays.
        let Some(layout) = layouts.get(name).filter(|_| counts.get(name) == Some(&1)) else { continue };
        *line = format!("{name}{layout} = {rest}");
        written = true;
    }
    written.then(|| joined(&ground, &all))
}

/// A machine whose links, memory and arithmetic are twice as fast; `None` for measured machines.
fn twice_as_fast(hardware: &Hardware) -> Option<Hardware> {
    let mut faster = hardware.clone();
    let twice = |rate: &mut Rate| *rate = Rate::new(2 * rate.per_second()).expect("not 0");
    for network in std::iter::once(&mut faster.network).chain(&mut faster.beyond) {
        if !network.measured.is_empty() || !network.links.is_empty() {
            return None;
        }
        twice(&mut network.one_way);
    }
    twice(&mut faster.hbm_bandwidth);
    twice(&mut faster.bf16_flops);
    twice(&mut faster.int8_flops);
    faster.dtype_flops.values_mut().for_each(twice);
    let is_known = faster.products == Default::default() && faster.engines == Default::default();
    is_known.then_some(faster)
}

/// Other programs for the same results.
fn others(case: &Case, made: &[u32], most: Size, first: &Planned, random: &mut Rng) -> Vec<Other> {
    let (source, options) = (&case.source, options(case));
    let mut all: Vec<Other> = Vec::new();
    if !made.is_empty() {
        let case = case_with(&mut Choices::given(made), most, &Names::SWAPPED);
        all.push(Other { kind: "names", case, options: options.clone(), relation: Relation::Same });
    }
    let mut add = |kind, source: String, relation| {
        let case = Case { source, ..case.clone() };
        all.push(Other { kind, case, options: options.clone(), relation });
    };
    add("order of statements", reordered(source, random), Relation::Same);
    if let Some((head, axes, tail)) = axes(source) {
        let more = axes.iter().cloned().chain(["u1: 1".to_owned()]).join(", ");
        // A message along several axes crosses them in mesh order, on two networks at other rates.
        if !case.degraded && !axes.iter().any(|axis| axis.contains(" over ")) {
            let mut other = axes.clone();
            random.shuffle(&mut other);
            add("order of axes", with_first_line(source, &format!("{head}{}{tail}", other.join(", "))), Relation::Same);
        }
        if !case.degraded {
            add("an axis of 1", with_first_line(source, &format!("{head}{more}{tail}")), Relation::Same);
        }
        for axis in &axes {
            let Some((name, size)) = axis.split_once(": ") else { continue };
            let is_split = source.lines().any(|line| line.starts_with(&format!("axis {name} ")));
            let size: Option<u64> = size.split(' ').next().and_then(|size| size.parse().ok());
            let parts =
                size.and_then(|size| (2..size).find(|part| size.is_multiple_of(*part)).map(|part| (part, size / part)));
            if let (false, false, Some((one, two))) = (is_split, axis.contains(" x "), parts) {
                let line = source.lines().next().unwrap_or_default();
                let line = format!("{line}\naxis {name} = {{h1: {one}, h2: {two}}}");
                add("an axis in parts", with_first_line(source, &line), Relation::More);
            }
        }
    }
    let holes = |line: &str| -> Option<String> {
        let (head, tail) = line.split_once(": ")?;
        let (dtype, layout) = tail.split_once('[')?;
        let is_input = !dtype.contains(' ') && !tail.contains(['=', '?']) && !head.contains(' ');
        let (inside, rest) = layout.split_once(']')?;
        if !is_input || rest.starts_with('{') || dims_of(&format!("[{inside}]")).is_empty() {
            return None;
        }
        let dims = dims_of(&format!("[{inside}]")).into_iter().map(|dim| format!("{dim}_?")).join(", ");
        Some(format!("{head}: {dtype}[{dims}]{rest}"))
    };
    let (ground, statements) = statements(source);
    let inputs: Vec<usize> =
        (0..statements.len()).filter(|at| statements[*at].len() == 1 && holes(&statements[*at][0]).is_some()).collect();
    if let Some(at) = (!inputs.is_empty()).then(|| inputs[random.usize(..inputs.len())]) {
        let mut open = statements.clone();
        open[at][0] = holes(&open[at][0]).unwrap_or_default();
        add("a layout left open", joined(&ground, &open), Relation::More);
    }
    let plan = &first.plan;
    let arrays: BTreeMap<&str, String> = plan
        .own_layouts()
        .into_iter()
        .filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry))
        .map(|id| {
            (
                plan.program.value(plan.step(id).value).name.as_deref().unwrap_or_default(),
                brackets(&plan.array(id)).to_owned(),
            )
        })
        .collect();
    let program = &plan.program;
    let is_output = |name: &str| program.outputs.iter().any(|id| program.value(*id).name.as_deref() == Some(name));
    let names: Vec<String> = plan.program.mesh.axes().iter().map(|axis| axis.name.clone()).collect();
    if let Some(text) = with_layouts(source, &arrays) {
        add("the layouts of the plan", text, Relation::Some);
        for _ in 0..6 {
            let mut some: BTreeMap<&str, String> = BTreeMap::new();
            for (name, layout) in &arrays {
                if random.bool() {
                    // Outputs are closed, unless their open sum is written.
                    let layout = some_layout(&dims_of(layout), &names, random);
                    some.insert(name, if is_output(name) { closed_part(&layout).to_owned() } else { layout });
                }
            }
            if let Some(text) = with_layouts(source, &some) {
                add("some layouts", text, Relation::Some);
            }
        }
    }
    for _ in 0..2 {
        if let Some(text) = with_opened_term(source, &names, random) {
            add("a term opened", text, Relation::Some);
        }
    }
    let peak = plan.totals().peak().0;
    if !source.contains("limit ") && peak > 0 {
        add("a limit that is kept", format!("{source}limit memory {peak}B\n"), Relation::Same);
        add("a limit", format!("{source}limit memory {}B\n", peak - 1), Relation::Some);
    }
    if let Some(faster) = twice_as_fast(&first.topology.hardware) {
        let options = Options { hardware: Some(faster), ..options.clone() };
        all.push(Other { kind: "twice as fast", case: case.clone(), options, relation: Relation::Twice });
    }
    all
}

/// Whether a plan has a layout that pads. Such layouts are used only where they are written.
fn pads(plan: &Plan) -> bool {
    let mesh = &plan.program.mesh;
    plan.ids().any(|id| {
        let layout = &plan.step(id).layout;
        let parts = layout.sharding.dims.iter().map(|axes| axes.group_size(mesh));
        layout.dims.iter().zip(parts).any(|(dim, parts)| !plan.program.dims.size(dim.id).is_multiple_of(parts))
    })
}

/// How a plan contradicts the bounds of another program.
fn contradiction(of: &Planned, bounds: &Planned, factor: f64) -> Option<String> {
    let (time, least, floor) = (of.time * factor, bounds.least, bounds.floor);
    let show = |seconds: f64| format!("{:.5} ns", seconds * 1e9);
    if time * ROUNDING < least {
        return Some(format!("{} of one is below the bound {} of the other", show(time), show(least)));
    }
    if time * ROUNDING < floor {
        return Some(format!("{} of one is below the floor {} of the other", show(time), show(floor)));
    }
    if of.received < bounds.least_received {
        return Some(format!("{} B of one are below {} B of the other", of.received, bounds.least_received));
    }
    None
}

/// Why a program may have no plan if a layout is left open: the layout is chosen for the costs alone.
const MAY_REFUSE: [&str; 2] = ["input-hole", "pin-impossible"];

/// Number of comparisons of each kind.
pub(crate) static COMPARED: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Whether a program computes what no output needs. It is computed and costs time, but its layouts matter to nothing.
fn has_unused(program: &Program) -> bool {
    let carried = program.carried().flat_map(|carried| [carried.first, carried.last]);
    let mut needed: BTreeSet<_> = program.outputs.iter().copied().chain(carried).collect();
    let mut ids: Vec<_> = program.value_ids().collect();
    ids.reverse();
    ids.into_iter().any(|id| {
        let definition = &program.value(id).definition;
        let is_needed = needed.contains(&id);
        needed.extend(definition.operands().iter().copied().filter(|_| is_needed));
        !is_needed && !definition.operands().is_empty()
    })
}

/// Compares a program with others for the same results.
///
/// - `made`: the choices from which it was generated; none if it was not.
pub(crate) fn compared(case: &Case, made: &[u32], most: Size) -> Result<Outcome, Failure> {
    if case.modes.limit.is_some() {
        return Ok(Outcome::Refused("limited search"));
    }
    let Ok(first) = planned(case, &case.source, &options(case)) else { return Ok(Outcome::Refused("no plan")) };
    if has_unused(&first.plan.program) {
        return Ok(Outcome::Refused("unused results"));
    }
    let is_padded = pads(&first.plan);
    for other in others(case, made, most, &first, &mut Rng::with_seed(0)) {
        let Other { kind, case, options, relation } = other;
        if relation == Relation::More && is_padded {
            continue;
        }
        let wrong = |text: String| {
            let detail = format!("{text}\n== other program\n{}\n== plan\n{}", case.source, first.plan);
            Err(Failure { class: format!("equivalents: {kind}"), detail })
        };
        let second = match planned(&case, &case.source, &options) {
            Ok(second) => second,
            Err(_) if relation == Relation::Some => continue,
            // What is written of a layout may be what an open sum needs, or a pin.
            Err(Refused::ByChecker) if relation == Relation::More => continue,
            Err(Refused::ByPlanner(codes)) if relation == Relation::More && MAY_REFUSE.contains(&&*codes) => continue,
            Err(Refused::ByChecker) => {
                let found = compiler::check_with(&case.source, &case.modes.sizes(), case.modes.spelling(), None);
                return wrong(format!("refused: {found:?}"));
            }
            Err(Refused::ByPlanner(codes)) => return wrong(format!("no plan: {codes}")),
        };
        // What saves less than a hundredth is not split.
        if second.plan.split != first.plan.split {
            continue;
        }
        *COMPARED.lock().expect("an unpoisoned lock").entry(kind).or_default() += 1;
        let (forward, backward) = match relation {
            Relation::Same => (Some(1.0), Some(1.0)),
            Relation::Some => (Some(1.0).filter(|_| !pads(&second.plan)), None),
            Relation::More => (None, Some(1.0)),
            Relation::Twice => (Some(2.0), Some(1.0)),
        };
        let wrong = |text| wrong(format!("{text}\n== other plan\n{}", second.plan));
        if let Some(text) = forward.and_then(|factor| contradiction(&second, &first, factor)) {
            return wrong(text);
        }
        if let Some(text) = backward.and_then(|factor| contradiction(&first, &second, factor)) {
            return wrong(text);
        }
    }
    Ok(Outcome::Complete)
}
