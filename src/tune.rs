//! The best mesh, machine and layouts for a program on a number of devices.
//!
//! ```text
//! devices ─► meshes ─► a lower bound of each ─► plans, the most promising first ─► the fastest, and what is not dominated
//! ```
//!
//! A mesh whose lower bound is not below the fastest plan found for as many devices is not planned.

mod maps;

use crate::compiler::{self, Options, Spelling};
use crate::costs;
use crate::diag::Severity;
use crate::parallel::{in_parallel, workers};
use crate::program::{Definition, Program};
use crate::span::{Span, Spanned};
use crate::sweep::{self, Figures, Point};
use crate::syntax::{self, Brackets, Extent, SetError, Statement, StatementKind};
use crate::topology::Hardware;
use std::time::{Duration, Instant};

pub use maps::{PhysicalAxis, machine, maps};

/// What became of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It was planned.
    Planned(Figures),
    /// Its lower bound is not below the fastest plan of as many devices.
    Slower,
    /// It was not planned within the time.
    Untried,
    /// There is no plan, and why.
    Impossible(String),
}

/// A mesh and a machine that were tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Sizes and hardware.
    pub point: Point,
    /// Number of devices.
    pub devices: u64,
    /// Lower bound on the time of its plans, in seconds.
    pub bound: f64,
    /// What became of it.
    pub fate: Fate,
    /// Whether no other plan is at once as fast, as small and on as few devices.
    pub is_on_frontier: bool,
}

impl Tried {
    /// The figures of its plan.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.fate {
            Fate::Planned(figures) => Some(figures),
            Fate::Slower | Fate::Untried | Fate::Impossible(_) => None,
        }
    }
}

/// All meshes of a number of devices: a size for each axis.
pub fn meshes(axes: &[String], devices: u64) -> Vec<Vec<(String, u64)>> {
    let Some((first, rest)) = axes.split_first() else {
        return if devices == 1 { vec![Vec::new()] } else { Vec::new() };
    };
    let sizes = (1..=devices).filter(|size| devices.is_multiple_of(*size));
    let with = |size: u64| {
        let others = if rest.is_empty() && size != devices { Vec::new() } else { meshes(rest, devices / size) };
        others.into_iter().map(move |others| [(first.clone(), size)].into_iter().chain(others).collect())
    };
    sizes.flat_map(with).collect()
}

/// Plans a program on meshes and machines.
///
/// - `every`: whether meshes that cannot be the fastest are planned, too, as they may take less memory.
/// - `limit`: the time for all meshes together; the best plans so far are returned then, or when the budget is
///   interrupted.
/// - `done`: called after each mesh.
///
/// # Errors
/// If a name of a point is neither a dim nor an axis.
pub fn tune(
    source: &str,
    spelling: Spelling,
    options: &Options,
    points: Vec<Point>,
    every: bool,
    limit: Option<Duration>,
    done: impl Fn() + Sync,
) -> Result<Vec<Tried>, SetError> {
    let begin = Instant::now();
    let left = |share: u32| limit.map(|limit| (limit / share).saturating_sub(begin.elapsed()));
    let within = |time: Option<Duration>| match time {
        Some(time) => Options { budget: options.budget.within_time(time), ..options.clone() },
        None => options.clone(),
    };
    let is_over = || options.budget.is_interrupted() || left(1).is_some_and(|left| left.is_zero());
    let bounded = in_parallel(points, |point| match left(BOUNDING) {
        Some(left) if left.is_zero() => bounded(source, spelling, options, point, false),
        left => bounded(source, spelling, &within(left), point, !options.budget.is_interrupted()),
    });
    let mut tried = bounded.into_iter().collect::<Result<Vec<Tried>, SetError>>()?;
    // The lowest bound first; of equal ones those with the fewest axes in use, which take the least time to plan.
    let in_use = |tried: &Tried| tried.point.sizes.iter().filter(|(_, extent)| extent.size() > 1).count();
    let mut order: Vec<usize> = (0..tried.len()).collect();
    order.sort_by(|a, b| {
        let [a, b] = [&tried[*a], &tried[*b]];
        a.bound.total_cmp(&b.bound).then(in_use(a).cmp(&in_use(b)))
    });
    order.retain(|place| tried[*place].fate == Fate::Untried);
    let mut waiting = order.into_iter().peekable();
    while waiting.peek().is_some() {
        let mut next = Vec::new();
        while next.len() < workers() {
            let Some(place) = waiting.next() else { break };
            let own = tried[place].bound;
            let fastest = fastest(&tried, tried[place].devices);
            if every || fastest.is_none_or(|fastest| own < fastest.time) {
                next.push(place);
            } else {
                tried[place].fate = Fate::Slower;
                done();
            }
        }
        if is_over() {
            break;
        }
        let points = next.iter().map(|place| tried[*place].point.clone()).collect();
        let plan = |point: Point| {
            let outcome = sweep::sweep(source, spelling, &within(left(1)), std::slice::from_ref(&point), || {});
            done();
            outcome.map(|mut outcomes| outcomes.pop())
        };
        for (place, outcome) in next.into_iter().zip(in_parallel(points, plan)) {
            tried[place].fate = match outcome? {
                Some(Ok(figures)) => Fate::Planned(figures),
                Some(Err(why)) => Fate::Impossible(why),
                None => continue,
            };
        }
    }
    mark(&mut tried);
    Ok(tried)
}

/// The bounds of all meshes take at most this share of the time limit; meshes without a bound are planned first.
const BOUNDING: u32 = 4;

/// The fastest plan on a number of devices.
fn fastest(tried: &[Tried], devices: u64) -> Option<&Figures> {
    let planned = tried.iter().filter(|tried| tried.devices == devices).filter_map(Tried::figures);
    planned.min_by(|a, b| a.time.total_cmp(&b.time))
}

/// A mesh with the lower bound on its plans.
///
/// - `has_time`: whether the bound is searched for; otherwise it is 0.
fn bounded(
    source: &str,
    spelling: Spelling,
    options: &Options,
    point: Point,
    has_time: bool,
) -> Result<Tried, SetError> {
    let (program, found) =
        compiler::check_with(source, &point.sizes, spelling, point.hardware.as_ref().or(options.hardware.as_ref()))?;
    let of = |program: &Program| {
        let options = point.options(options);
        let topology = compiler::machine(program, &options).ok()?;
        let floor = costs::floor_of(program, &topology, options.costs, true, options.budget)?;
        Some(topology.scale.seconds(floor.time))
    };
    let devices = program.as_ref().map_or(0, |program| program.mesh.device_count() as u64);
    let why = || {
        let worst = found.iter().find(|found| found.severity == Severity::Error);
        worst.map_or_else(String::new, |found| format!("{}: {}", found.code, found.message))
    };
    let (fate, bound) = match &program {
        Some(program) => (Fate::Untried, if has_time { of(program).unwrap_or_default() } else { 0.0 }),
        None => (Fate::Impossible(why()), f64::INFINITY),
    };
    Ok(Tried { point, devices, bound, fate, is_on_frontier: false })
}

/// Marks the plans that no other one dominates in devices, time and memory; of equal ones the first.
fn mark(tried: &mut [Tried]) {
    let rank = |tried: &Tried| tried.figures().map(|figures| (tried.devices, figures.time, figures.held.0));
    let ranks: Vec<_> = tried.iter().map(rank).collect();
    for (place, own) in ranks.iter().enumerate() {
        let Some((devices, time, held)) = *own else { continue };
        let dominates = |(other, rank): (usize, &Option<(u64, f64, u64)>)| {
            rank.is_some_and(|rank| {
                let is_no_worse = rank.0 <= devices && rank.1 <= time && rank.2 <= held;
                is_no_worse && (rank != (devices, time, held) || other < place)
            })
        };
        tried[place].is_on_frontier = !ranks.iter().enumerate().any(dominates);
    }
}

/// A program with the layouts of all inputs left to the plan.
pub fn opened(source: &str, program: &Program) -> String {
    rewritten(source, |name, _| {
        let input = |value: &&crate::program::Value| {
            matches!(&value.definition, Definition::Input { supply } if supply.is_given())
                && value.name.as_deref() == Some(name)
        };
        let value = program.values.iter().find(input)?;
        let dims: Vec<String> = value.dims.iter().map(|dim| program.dims.name(dim.id)).collect();
        Some(format!("[{}]_?", dims.join(", ")))
    })
}

/// A program with the sizes, hardware and layouts of a plan.
///
/// - `point`: hardware that is not shipped has a file, whose name the program does not know; it is not written.
/// - `filled`: arrays with layouts: `A[I_X, J]`.
pub fn written(source: &str, point: &Point, filled: &[String]) -> String {
    let text = rewritten(source, |name, brackets| {
        let is_open = brackets.free.is_some() || brackets.dims.iter().any(|dim| brackets.hole(dim).is_some());
        let layout = filled.iter().find_map(|array| array.strip_prefix(name).filter(|rest| rest.starts_with('[')));
        layout.filter(|_| is_open).map(str::to_owned)
    });
    let (mut ast, _) = syntax::parse(&text);
    let shipped = point.hardware.as_ref().filter(|own| Hardware::named(&own.name).as_ref() == Some(*own));
    let mut edits = Vec::new();
    for statement in &mut ast.statements {
        if let StatementKind::Mesh { axes, hardware } = &mut statement.kind {
            for axis in axes {
                let size = point.sizes.iter().find(|(name, _)| *name == axis.name.node);
                edits.extend(size.map(|(_, extent)| (axis.size.span, extent.to_string())));
            }
            let end = Span { start: statement.span.end, end: statement.span.end };
            let at = hardware.as_ref().map_or(end, |name| name.span);
            edits.extend(shipped.map(|own| match hardware {
                Some(_) => (at, own.name.clone()),
                None => (at, format!(" on {}", own.name)),
            }));
            if let Some(own) = shipped {
                *hardware = Some(Spanned { node: own.name.clone(), span: at });
            }
        }
    }
    if !point.sizes.iter().any(|(_, extent)| matches!(extent, Extent::Axis(_))) {
        return edited(text, edits);
    }
    // Wiring and network change, too: the whole statement is written again.
    for (name, extent) in &point.sizes {
        ast.set(name, extent).ok();
    }
    let meshes = ast.statements.iter().filter(|statement| matches!(statement.kind, StatementKind::Mesh { .. }));
    let edits = meshes.map(|mesh| (mesh.span, mesh.to_string())).collect();
    edited(text, edits)
}

/// Replaces the brackets of inputs, by their names.
fn rewritten(source: &str, brackets: impl Fn(&str, &Brackets) -> Option<String>) -> String {
    fn inputs<'a>(statements: &'a [Statement], found: &mut Vec<(&'a str, &'a Brackets)>) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Input { name, brackets, .. } => found.push((&name.node, brackets)),
                StatementKind::Repeat { body, .. } => inputs(body, found),
                _ => {}
            }
        }
    }
    let (ast, _) = syntax::parse(source);
    let mut found = Vec::new();
    inputs(&ast.statements, &mut found);
    let edit = |(name, own): (&str, &Brackets)| {
        let end = own.free.map_or(own.span.end, |free| free.end.max(own.span.end));
        Some((Span { start: own.span.start, end }, brackets(name, own)?))
    };
    let edits = found.into_iter().filter_map(edit).collect();
    edited(source.to_owned(), edits)
}

fn edited(mut text: String, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| span.start);
    for (span, new) in edits.into_iter().rev() {
        text.replace_range(span.range(), &new);
    }
    text
}
