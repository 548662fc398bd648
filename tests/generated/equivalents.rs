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
use shardc::program::{Definition, Program};
use shardc::topology::{Hardware, Topology};
use shardc::units::{Rate, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

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

/// Layouts of the results of a program that are tried if there are too many for all.
const SOME_LAYOUTS: usize = 6;

/// Time for the comparisons of one program; the others are left out.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most combinations of layouts of which all are tried.
fn most_layouts() -> usize {
    super::number("SHARDC_LAYOUTS").map_or(16, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// The kinds of other programs that are compared: those that a word of `SHARDC_KINDS` names, or all.
fn is_wanted(kind: &str) -> bool {
    static WORDS: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("SHARDC_KINDS").ok());
    WORDS.as_ref().is_none_or(|words| words.split(',').any(|word| kind.contains(word)))
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

/// Whether a letter may be in a name.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '\''
}

/// Words of a line, without its comment.
fn words(line: &str) -> BTreeSet<&str> {
    let text = line.split('#').next().unwrap_or_default();
    text.split(|letter| !is_of_name(letter)).filter(|word| !word.is_empty()).collect()
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
    let name = head.trim().split(|letter| !is_of_name(letter)).next()?;
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

/// All layouts of these dims, with open sums if `may_open`.
fn all_layouts(dims: &[&str], axes: &[String], may_open: bool) -> Vec<String> {
    let places = dims.len() + 1 + usize::from(may_open);
    let mut all: BTreeSet<String> = BTreeSet::new();
    for order in axes.iter().permutations(axes.len()) {
        for choice in (0..axes.len()).map(|_| 0..places).multi_cartesian_product() {
            let at =
                |place: usize| order.iter().zip(&choice).filter(move |(_, own)| **own == place).map(|(axis, _)| *axis);
            let of_dim = |(place, dim): (usize, &&str)| match at(place).join(",") {
                axes if axes.is_empty() => (*dim).to_owned(),
                axes => format!("{dim}_{{{axes}}}"),
            };
            let open = if may_open { at(dims.len() + 1).sorted().join(",") } else { String::new() };
            let open = if open.is_empty() { open } else { format!("{{U_{{{open}}}}}") };
            all.insert(format!("[{}]{open}", dims.iter().enumerate().map(of_dim).join(", ")));
        }
    }
    all.into_iter().collect()
}

/// The sources in which a term of an addition is opened along an axis; the term is a name.
fn with_opened_terms(source: &str, axes: &[String]) -> Vec<String> {
    let terms = source.match_indices(" + ").map(|(at, sign)| at + sign.len());
    let terms = terms
        .map(|at| (at, source[at..].split(|letter| !is_of_name(letter)).next().unwrap_or_default()))
        .filter(|(at, name)| !name.is_empty() && !source[at + name.len()..].starts_with(['(', '_', '[']));
    let opened = |(at, name): (usize, &str), axis: &String| {
        format!("{}open_{{{axis}}}({name}){}", &source[..at], &source[at + name.len()..])
    };
    terms.flat_map(|term| axes.iter().map(move |axis| opened(term, axis))).collect()
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

/// The declaration of an input with its layout left open; `None` for other lines, and for open sums.
fn with_holes(line: &str) -> Option<String> {
    let (head, tail) = line.split_once(": ")?;
    let (dtype, layout) = tail.split_once('[')?;
    let (inside, rest) = layout.split_once(']')?;
    let is_input = !dtype.contains(' ') && !tail.contains(['=', '?']) && !head.contains(' ') && !rest.starts_with('{');
    let dims = format!("[{inside}]");
    let dims = dims_of(&dims).into_iter().map(|dim| format!("{dim}_?")).join(", ");
    (is_input && !dims.is_empty()).then(|| format!("{head}: {dtype}[{dims}]{rest}"))
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

/// Programs for the same results, which are added one by one.
struct Others<'a> {
    case: &'a Case,
    options: Options,
    random: Rng,
    all: Vec<Other>,
}

impl Others<'_> {
    fn add(&mut self, kind: &'static str, source: String, relation: Relation) {
        let case = Case { source, ..self.case.clone() };
        self.push(Other { kind, case, options: self.options.clone(), relation });
    }

    fn push(&mut self, other: Other) {
        if is_wanted(other.kind) {
            self.all.push(other);
        }
    }

    /// The same program on the same machine, with its axes in another order, with another one, and with one in parts.
    fn meshes(&mut self) {
        let source = &self.case.source;
        let Some((head, axes, tail)) = axes(source) else { return };
        let on = |axes: &[String]| with_first_line(source, &format!("{head}{}{tail}", axes.join(", ")));
        if !self.case.degraded {
            let mut other = axes.clone();
            self.random.shuffle(&mut other);
            if other == axes {
                other.reverse();
            }
            self.add("order of axes", on(&other), Relation::Same);
            let more: Vec<String> = axes.iter().cloned().chain(["u1: 1".to_owned()]).collect();
            self.add("an axis of 1", on(&more), Relation::Same);
        }
        for (name, size) in axes.iter().filter_map(|axis| axis.split_once(": ")) {
            let is_split = size.contains(" x ") || source.contains(&format!("\naxis {name} "));
            let size: Option<u64> = size.split(' ').next().and_then(|size| size.parse().ok());
            let part = |size: u64| (2..size).find(|part| size.is_multiple_of(*part));
            let parts = size.and_then(|size| part(size).map(|part| (part, size / part)));
            if let (false, Some((one, two))) = (is_split, parts) {
                let line = source.lines().next().unwrap_or_default();
                let text = with_first_line(source, &format!("{line}\naxis {name} = {{h1: {one}, h2: {two}}}"));
                self.add("an axis in parts", text, Relation::More);
            }
        }
    }

    /// The program with the layout of one input left open.
    fn holes(&mut self) {
        let (ground, statements) = statements(&self.case.source);
        let opened = |lines: &Vec<String>| if lines.len() == 1 { with_holes(&lines[0]) } else { None };
        let inputs: Vec<(usize, String)> =
            statements.iter().enumerate().filter_map(|(at, lines)| Some((at, opened(lines)?))).collect();
        if let Some((at, line)) = self.random.choice(inputs) {
            let mut open = statements;
            open[at][0] = line;
            self.add("a layout left open", joined(&ground, &open), Relation::More);
        }
    }

    /// The program with a term of an addition opened along an axis.
    fn opened_terms(&mut self) {
        let source = &self.case.source;
        let Some(program) = checked(self.case, source) else { return };
        let axes: Vec<String> = program.mesh.axes().iter().map(|axis| axis.name.clone()).collect();
        for text in with_opened_terms(source, &axes) {
            self.add("a term opened", text, Relation::Some);
        }
    }

    /// The program with written layouts: those of its plan, and others.
    fn layouts(&mut self, plan: &Plan) {
        let source = &self.case.source;
        let name = |id| plan.program.value(id).name.as_deref().unwrap_or_default();
        let computed =
            plan.own_layouts().into_iter().filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry));
        let arrays: BTreeMap<&str, String> =
            computed.map(|id| (name(plan.step(id).value), brackets(&plan.array(id)).to_owned())).collect();
        let is_output = |array: &str| plan.program.outputs.iter().any(|id| name(*id) == array);
        let axes: Vec<String> = plan.program.mesh.axes().iter().map(|axis| axis.name.clone()).collect();
        self.add_if_any("the layouts of the plan", with_layouts(source, &arrays), Relation::Some);
        // Outputs are closed, unless their open sum is written.
        let layouts: Vec<(&str, Vec<String>)> = arrays
            .iter()
            .map(|(array, layout)| (*array, all_layouts(&dims_of(layout), &axes, !is_output(array))))
            .collect();
        let count = layouts.iter().fold(1, |count: usize, (_, list)| count.saturating_mul(list.len()));
        let written = |chosen: Vec<&String>| {
            let chosen = arrays.keys().copied().zip(chosen.into_iter().cloned()).collect();
            with_layouts(source, &chosen)
        };
        if count <= most_layouts() {
            let choices = layouts.iter().map(|(_, list)| list).multi_cartesian_product();
            choices.for_each(|chosen| self.add_if_any("all layouts", written(chosen), Relation::Some));
        } else {
            for _ in 0..SOME_LAYOUTS {
                let random = &mut self.random;
                let chosen = layouts.iter().map(|(_, list)| &list[random.usize(..list.len())]).collect();
                self.add_if_any("some layouts", written(chosen), Relation::Some);
            }
        }
    }

    fn add_if_any(&mut self, kind: &'static str, source: Option<String>, relation: Relation) {
        if let Some(source) = source {
            self.add(kind, source, relation);
        }
    }

    /// The program with a limit on memory that its plan keeps, and one that it exceeds.
    fn limits(&mut self, plan: &Plan) {
        let (source, peak) = (&self.case.source, plan.totals().peak().0);
        if !source.contains("limit ") && peak > 0 {
            self.add("a limit that is kept", format!("{source}limit memory {peak}B\n"), Relation::Same);
            self.add("a limit", format!("{source}limit memory {}B\n", peak - 1), Relation::Some);
        }
    }
}

/// Other programs for the same results, that do not depend on a plan.
///
/// - `made`: as for [`compared`].
fn others<'a>(case: &'a Case, made: &[u32], most: Size) -> Others<'a> {
    let (options, random) = (options(case), Rng::with_seed(0));
    let mut others = Others { case, options, random, all: Vec::new() };
    if !made.is_empty() {
        let case = case_with(&mut Choices::given(made), most, &Names::SWAPPED);
        others.push(Other { kind: "names", case, options: others.options.clone(), relation: Relation::Same });
    }
    let text = reordered(&case.source, &mut others.random);
    others.add("order of statements", text, Relation::Same);
    others.meshes();
    others.holes();
    others.opened_terms();
    others
}

/// All of [`others`], with those that depend on the plan.
fn others_of(mut others: Others<'_>, first: &Planned) -> Vec<Other> {
    others.layouts(&first.plan);
    others.limits(&first.plan);
    if let Some(faster) = twice_as_fast(&first.topology.hardware) {
        let options = Options { hardware: Some(faster), ..others.options.clone() };
        others.push(Other { kind: "twice as fast", case: others.case.clone(), options, relation: Relation::Twice });
    }
    others.all
}

/// The kinds that depend on the plan.
const PLAN_KINDS: [&str; 6] =
    ["the layouts of the plan", "all layouts", "some layouts", "a limit that is kept", "a limit", "twice as fast"];

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

/// How often programs were compared with others of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    /// Programs with another one of this kind.
    programs: u64,
    pub(crate) comparisons: u64,
}

pub(crate) static COMPARED: Mutex<BTreeMap<&str, Count>> = Mutex::new(BTreeMap::new());

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

/// The dims that each product contracts, sorted.
fn contracted(program: &Program) -> Vec<Vec<String>> {
    let of = |id| {
        let Definition::Product { operands, .. } = &program.value(id).definition else { return None };
        let dims = |id| program.value(id).dims.iter().map(|dim| dim.id).collect::<BTreeSet<_>>();
        let shared = dims(operands[0]).intersection(&dims(operands[1])).copied().collect::<BTreeSet<_>>();
        Some(shared.difference(&dims(id)).map(|dim| program.dims.name(*dim)).sorted().collect())
    };
    program.value_ids().filter_map(of).sorted().collect()
}

/// Compares a program with others for the same results.
///
/// - `made`: the choices from which it was generated; none if it was not.
pub(crate) fn compared(case: &Case, made: &[u32], most: Size) -> Result<Outcome, Failure> {
    if case.modes.limit.is_some() {
        return Ok(Outcome::Refused("limited search"));
    }
    let others = others(case, made, most);
    if others.all.is_empty() && !PLAN_KINDS.iter().any(|kind| is_wanted(kind)) {
        return Ok(Outcome::Refused("none of these kinds"));
    }
    let Ok(first) = planned(case, &case.source, &options(case)) else { return Ok(Outcome::Refused("no plan")) };
    if has_unused(&first.plan.program) {
        return Ok(Outcome::Refused("unused results"));
    }
    let is_padded = pads(&first.plan);
    let (start, mut kinds) = (Instant::now(), BTreeSet::new());
    for other in others_of(others, &first) {
        let Other { kind, case, options, relation } = other;
        if start.elapsed() > PATIENCE {
            break;
        }
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
        // Without brackets a product contracts what its factors share; brackets may keep it.
        if relation == Relation::Some && contracted(&second.plan.program) != contracted(&first.plan.program) {
            continue;
        }
        // What saves less than a hundredth is not split.
        if second.plan.split != first.plan.split {
            continue;
        }
        {
            let mut counts = COMPARED.lock().expect("an unpoisoned lock");
            let count = counts.entry(kind).or_default();
            count.programs += u64::from(kinds.insert(kind));
            count.comparisons += 1;
        }
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
