//! The pipeline of the compiler.

mod whole;

use crate::advice;
use crate::costs::CostModel;
use crate::diag::{Diagnostics, Edit, Fix, Severity};
use crate::expect;
use crate::link::{DegradedLink, LinkState};
use crate::lower;
use crate::mesh::Axis;
use crate::plan::{self, Budget, Listing, Plan, PlanError, Whole, unroll};
use crate::program::{self, Program};
use crate::recipe::Lowering;
use crate::schedule::Schedule;
use crate::sim::clock;
use crate::sim::proof::{self, Flaw, Proof};
use crate::span::{LineIndex, Span};
use crate::syntax::{self, Ast, Extent, SetError, StatementKind};
use crate::topology::{Hardware, Topology, TopologyError};
use itertools::Itertools;
use miette::SourceSpan;
use thiserror::Error;
use whole::{Taken, taken};

/// Options of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Hardware that overrides the program's.
    pub hardware: Option<Hardware>,
    /// Latency of a hop in picoseconds that overrides all networks; messages then have no overhead.
    pub latency: Option<u64>,
    /// Cost model of the planner.
    pub costs: CostModel,
    /// Lowering of collectives.
    pub lowering: Lowering,
    /// Whether only written collectives and moves may communicate.
    pub strict: bool,
    /// Whether steps may be split into pieces and reordered to overlap.
    pub overlap: Overlapping,
    /// Whether chains of moves may be replaced by one move.
    pub reshard: Resharding,
    /// Whether products are computed as written, without rewriting.
    pub as_written: bool,
    /// Whether the alternatives of each product are kept; this takes time.
    pub alternatives: bool,
    /// Limits on the planner's effort.
    pub budget: Budget,
}

impl Options {
    /// Whether a program names no hardware, so the default is assumed.
    pub fn assumes_hardware(&self, program: &Program) -> bool {
        program.hardware.is_none() && self.hardware.is_none()
    }
}

/// How values are resharded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Resharding {
    /// With chains of collectives
    Chains,
    /// With routed moves where they are faster
    #[default]
    Auto,
}

/// Whether the steps of a plan overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Overlapping {
    /// Program order, whole steps
    None,
    /// Split and reordered where that is faster in simulation
    #[default]
    Auto,
}

/// How source text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// By the grammar.
    #[default]
    Exact,
    /// Also LaTeX and subscripts without `_`; each such reading is reported.
    Lenient,
}

/// A compiled program.
#[derive(Debug)]
pub struct Compiled {
    /// The topology.
    pub topology: Topology,
    /// The plan.
    pub plan: Plan,
    /// The schedule.
    pub schedule: Schedule,
    /// The proof of the schedule.
    pub proof: Proof,
}

/// Checks a text; returns the program, if it is valid, and all diagnostics.
pub fn check(source: &str) -> (Option<Program>, Diagnostics) {
    let (ast, diagnostics) = syntax::parse(source);
    with_lines(check_parsed(Some(source), &ast, diagnostics, None), source)
}

/// The program with the lines of its source.
fn with_lines((program, diagnostics): (Option<Program>, Diagnostics), source: &str) -> (Option<Program>, Diagnostics) {
    (program.map(|program| Program { lines: LineIndex::new(source), ..program }), diagnostics)
}

/// Checks a text with overridden sizes, a spelling, and an overriding profile, which need not be the named one.
///
/// # Errors
/// If the program has no such dim, or it is a composite.
pub fn check_with(
    source: &str,
    sizes: &[(String, Extent)],
    spelling: Spelling,
    given: Option<&Hardware>,
) -> Result<(Option<Program>, Diagnostics), SetError> {
    let (mut ast, diagnostics) = match spelling {
        Spelling::Exact => syntax::parse(source),
        Spelling::Lenient => syntax::parse_lenient(source),
    };
    sizes.iter().try_for_each(|(name, extent)| ast.set(name, extent))?;
    // Fixes are tried on the text, which would have other sizes, or is not read as it stands.
    let same = sizes.is_empty() && spelling == Spelling::Exact;
    Ok(with_lines(check_parsed(Some(source).filter(|_| same), &ast, diagnostics, given), source))
}

fn check_parsed(
    source: Option<&str>,
    ast: &Ast,
    mut diagnostics: Diagnostics,
    given: Option<&Hardware>,
) -> (Option<Program>, Diagnostics) {
    let broken = diagnostics.count(Severity::Error);
    let (program, more) = program::check(ast);
    diagnostics.extend(more);
    if let Some(program) = &program {
        // Where the hardware is not named it may still be given from outside.
        let is_known = given.is_some() || program.hardware.is_some();
        match given.cloned().map_or_else(|| hardware(program), Ok) {
            Err(unknown) => unknown.report(mesh_of(ast), source, &mut diagnostics),
            Ok(hardware) if is_known => match wired(program, hardware) {
                Ok(topology) => diagnostics.extend(unlike(ast, &topology)),
                Err(error) if error.is_written() => diagnostics.push(&error),
                Err(_) => {}
            },
            Ok(_) => {}
        }
    }
    diagnostics.sort();
    match source {
        Some(source) => advice::try_fixes(source, ast, broken, &mut diagnostics),
        // A strict spelling needs no trial.
        None => {
            let tried = diagnostics.iter_mut().filter(|found| found.code != "lenient-reading");
            tried.for_each(|found| found.fixes.clear());
        }
    }
    (program.filter(|_| !diagnostics.has_errors()), diagnostics)
}

/// Errors of planning and lowering that are certain without a plan: methods, strategies, limits that the inputs exceed. They
/// hold for the mesh and the hardware that the program names.
pub fn refused(program: &Program) -> Diagnostics {
    let mut found = Diagnostics::default();
    let named = program.hardware.is_some().then(|| machine(program, &Options::default()).ok()).flatten();
    let Some(topology) = &named else { return found };
    for error in lower::unsupported_methods(program, topology) {
        found.push(&error);
    }
    if let Err(breach) = expect::holds_inputs(program) {
        found.push(&breach);
    }
    // A strategy that the book's costs exclude is tried with the usual ones.
    let is_pinned = program.values.iter().any(|value| value.pin.is_some());
    let refusal = |costs: CostModel| {
        let costs = costs.on(topology, Lowering::default());
        plan::plan(program, costs.as_ref()).err().filter(|error| matches!(error, PlanError::Pin { .. }))
    };
    if is_pinned && refusal(CostModel::Book).is_some() {
        refusal(CostModel::default()).iter().for_each(|error| found.push(error));
    }
    found
}

/// The topology of a program, for its hardware or the overriding one.
///
/// # Errors
/// If the hardware has no profile, or its rates have no common tick.
pub fn machine(program: &Program, options: &Options) -> Result<Topology, Diagnostics> {
    let hardware = match &options.hardware {
        Some(hardware) => hardware.clone(),
        None => hardware(program).map_err(|unknown| Diagnostics::of(&unknown))?,
    };
    wired(program, hardware.with_latency(options.latency)).map_err(|error| Diagnostics::of(&error))
}

/// The topology of a given schedule.
///
/// # Errors
/// If the hardware lacks something that the mesh needs, or its rates have no common tick.
pub fn machine_of(schedule: &Schedule, options: &Options) -> Result<Topology, TopologyError> {
    let default = || Hardware::named(Hardware::DEFAULT).expect("the default is shipped");
    let hardware = options.hardware.clone().unwrap_or_else(default);
    Topology::new(schedule.mesh.clone(), hardware.with_latency(options.latency))
}

/// Proves a given schedule, and that each of its messages has a route on the machine.
///
/// # Errors
/// The first flaw.
///
/// # Panics
/// If the topology has another mesh; use [`machine_of`].
pub fn prove(schedule: &Schedule, topology: &Topology) -> Result<Proof, Flaw> {
    let proof = proof::prove(schedule)?;
    proof::ways(schedule, topology)?;
    Ok(proof)
}

/// The mesh on its hardware, with the degraded links of the program.
fn wired(program: &Program, hardware: Hardware) -> Result<Topology, TopologyError> {
    let links: Vec<DegradedLink> = program.links.iter().map(|link| link.node).collect();
    Topology::with_degraded(program.mesh.clone(), hardware, &links).map_err(|mut error| {
        let place = match &error {
            TopologyError::UnknownNetwork { network, .. } => {
                program.networks.iter().find(|name| name.node == *network).map(|name| name.span)
            }
            TopologyError::NoLink { link: (from, to), .. } => {
                let written = program.links.iter().find(|link| (link.node.from, link.node.to) == (*from, *to));
                written.map(|link| link.span)
            }
            TopologyError::CutOff { .. } => {
                program.links.iter().rfind(|link| link.node.state == LinkState::Down).map(|link| link.span)
            }
            TopologyError::FabricSize { .. } | TopologyError::FabricAxis { .. } => Some(program.axes),
            TopologyError::NoCommonTick { .. }
            | TopologyError::BadFabric { .. }
            | TopologyError::TooManyLinks { .. } => None,
        };
        error.set_place(place.map(SourceSpan::from));
        error
    })
}

/// A network connects fewer devices than the mesh has on it.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("{count} devices on `{network}`, which connects {most} on {hardware}")]
#[diagnostic(code("network-too-small"), severity(Warning), help("{help}"))]
struct Oversized {
    count: u64,
    network: String,
    most: u32,
    hardware: String,
    help: String,
    #[label("times are those of a larger `{network}` than there is")]
    at: SourceSpan,
}

/// Warnings about a mesh that the machine does not have.
fn unlike(ast: &Ast, topology: &Topology) -> Diagnostics {
    let mut found = oversized(mesh_of(ast), topology);
    found.extend(advice::unlinked(ast, topology));
    found
}

/// The codes of the warnings about a mesh that the machine does not have.
pub const UNLIKE: [&str; 2] = ["network-too-small", "no-such-slice"];

/// The declaration of the mesh of a program.
fn mesh_of(ast: &Ast) -> Span {
    let mesh = ast.statements.iter().find(|statement| matches!(statement.kind, StatementKind::Mesh { .. }));
    mesh.map_or(Span::default(), |mesh| mesh.span)
}

/// Finds a network on which the mesh has more devices than it connects.
///
/// - `mesh`: the declaration of the mesh.
fn oversized(mesh: Span, topology: &Topology) -> Diagnostics {
    let mut found = Diagnostics::default();
    let hardware = &topology.hardware;
    for (place, network) in hardware.networks().enumerate() {
        let axes = topology.machine.axis_ids().filter(|axis| topology.axes[axis.index()].network == place);
        let axes: Vec<_> = axes.filter(|axis| topology.machine.size(*axis) > 1).collect();
        let count = topology.machine.group_size(axes.iter().copied());
        let Some(most) = network.devices.map(std::num::NonZeroU32::get).filter(|most| count > u64::from(*most)) else {
            continue;
        };
        let beyond = hardware.networks().nth(place + 1).map(|network| network.name.clone());
        // An axis without which the others fit.
        let outer = axes.iter().copied().find(|axis| count / topology.machine.size(*axis) <= u64::from(most));
        let help = match (beyond, outer) {
            (Some(beyond), Some(outer)) => {
                let written = topology.machine.axis_ids().map(|axis| {
                    let Axis { name, size, over, .. } = topology.machine.axis(axis);
                    match over.as_ref().or((axis == outer).then_some(&beyond)) {
                        Some(network) => format!("{name}: {size} over {network}"),
                        None => format!("{name}: {size}"),
                    }
                });
                format!("put an axis on the network between nodes: `mesh {{{}}}`", written.format(", "))
            }
            (Some(beyond), None) => {
                let axis = axes.first().map(|axis| topology.machine.axis(*axis).name.clone()).unwrap_or_default();
                let nodes = count.div_ceil(u64::from(most));
                format!(
                    "add an axis on the network between nodes, such as `mesh {{nodes: {nodes} over {beyond}, {axis}: {most}}}`"
                )
            }
            (None, _) => "add a network between nodes to the profile".to_owned(),
        };
        let at = mesh.into();
        let (network, hardware) = (network.name.clone(), hardware.name.clone());
        found.push(&Oversized { count, network, most, hardware, help, at });
    }
    found
}

/// The hardware of the program has no profile.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("unknown hardware `{name}`")]
#[diagnostic(code("unknown-hardware"), help("{help}"))]
struct UnknownHardware {
    name: String,
    help: String,
    #[label("unknown profile")]
    span: SourceSpan,
}

impl UnknownHardware {
    /// Adds the error, with the line of the mesh on the profile that is meant.
    fn report(mut self, mesh: Span, source: Option<&str>, diagnostics: &mut Diagnostics) {
        let at = Span::new(self.span.offset(), self.span.offset() + self.span.len());
        // Of several profiles the help names two, and none is proposed.
        let near = Hardware::near(&self.name).into_iter().exactly_one().ok();
        let line = near.zip(source).and_then(|(near, source)| {
            let before = source.get(mesh.range().start..at.range().start)?;
            Some(format!("{before}{near}"))
        });
        if let Some(line) = line.filter(|line| !line.contains('\n')) {
            self.help += &format!(" write `{line}`");
        }
        let fix = near.map(|near| Fix::new(Edit::Replace(at), near.to_owned()));
        diagnostics.push_with_fixes(&self, fix.into_iter().collect());
    }
}

/// The hardware of a program.
fn hardware(program: &Program) -> Result<Hardware, UnknownHardware> {
    let (name, span) = match &program.hardware {
        Some(name) => (name.node.as_str(), name.span),
        None => (Hardware::DEFAULT, Span::default()),
    };
    let unknown = || UnknownHardware { name: name.to_owned(), help: Hardware::unknown(name), span: span.into() };
    Hardware::named(name).ok_or_else(unknown)
}

/// Checks that only written collectives and moves communicate; the missing lines are tested.
///
/// - `sizes`, `spelling`: as for [`check_with`].
///
/// # Errors
/// Errors of the planner, and statements with implicit communication.
pub fn check_strict(
    source: &str,
    sizes: &[(String, Extent)],
    spelling: Spelling,
    program: &Program,
    options: &Options,
) -> Result<(), Diagnostics> {
    // What is written are products and collectives, one after the other.
    let (reshard, overlap) = (Resharding::Chains, Overlapping::None);
    let options = &Options { reshard, overlap, strict: false, as_written: true, ..options.clone() };
    let strict = Options { strict: true, ..options.clone() };
    let planned = |program: &Program, options: &Options| plan(program, &machine(program, options)?, options);
    let Err(mut found) = planned(program, &strict) else { return Ok(()) };
    let ordinary = planned(program, options).ok();
    let received = ordinary.as_ref().map(|plan| plan.totals().received());
    let is_right = |found: &Diagnostics| {
        let changed = advice::apply_all(source, found);
        let clean =
            check_with(&changed, sizes, spelling, options.hardware.as_ref()).ok().and_then(|(program, _)| program);
        let plan = clean.and_then(|program| planned(&program, &strict).ok());
        plan.is_some_and(|plan| received.is_some_and(|received| plan.totals().received() <= received))
    };
    let is_whole = |found: &Diagnostics| found.iter().all(|found| !found.fixes.is_empty());
    let is_unwritten = found.iter().any(|found| found.code == "unwritten-communication");
    if let Some(plan) = ordinary.filter(|_| is_unwritten) {
        let others = [advice::spelled_out, advice::spelled_apart].into_iter().map(|spelled| spelled(&plan));
        let mut right = std::iter::once(found.clone()).chain(others).filter(is_right);
        found = match right.next() {
            // In a function, some lines may not be known.
            Some(first) => if is_whole(&first) { None } else { right.find(is_whole) }.unwrap_or(first),
            None => {
                found.iter_mut().for_each(|found| found.fixes.clear());
                found
            }
        };
    }
    found.iter_mut().for_each(|found| advice::word(found, source));
    Err(found)
}

/// Plans a program.
///
/// # Errors
/// If a layout cannot be reached, or the plan exceeds a limit.
///
/// # Panics
/// If the topology has another mesh; use [`machine`].
pub fn plan(program: &Program, topology: &Topology, options: &Options) -> Result<Plan, Diagnostics> {
    taken(program, topology, options).map(|taken| taken.plan)
}

/// Lowers and proves a plan. The compiler emits only proven schedules.
///
/// # Errors
/// If a requested method does not apply, there are too many steps, or the proof finds a flaw (a bug in the compiler).
///
/// # Panics
/// If the topology is not that of the plan.
pub fn schedule(plan: &Plan, topology: &Topology) -> Result<(Schedule, Proof), Diagnostics> {
    let unrolled = unroll::unroll(plan).map_err(|error| Diagnostics::of(&error))?;
    spelled_out(&unrolled, None, topology)
}

/// The topology that a plan refers to; the plan may have split axes.
///
/// # Panics
/// If the topology is not that of the plan.
pub fn machine_as_planned(plan: &Plan, topology: &Topology) -> Topology {
    topology.seen_as(&plan.program.mesh)
}

/// The schedule of a plan, and its proof.
///
/// - `plan`: with its repeats unrolled.
/// - `made`: its schedule, and the proof of it, as far as they are known.
fn spelled_out(
    plan: &Plan,
    made: Option<(Schedule, Option<Proof>)>,
    topology: &Topology,
) -> Result<(Schedule, Proof), Diagnostics> {
    let topology = &machine_as_planned(plan, topology);
    let (schedule, proof) = match made {
        Some(made) => made,
        None => {
            let listing = Listing::overlapped(plan, &plan.overlap, topology);
            (lower::listed(plan, &listing).map_err(|error| Diagnostics::of(&error))?, None)
        }
    };
    let proof = match proof {
        Some(proof) => proof::ways(&schedule, topology).map(|()| proof),
        None => prove(&schedule, topology),
    };
    let proof = proof.map_err(|flaw| Diagnostics::of(&flaw))?;
    Ok((schedule, proof))
}

/// Runs all stages after `check` for display: a `repeat` with too many iterations is run once.
///
/// # Errors
/// Errors of the stages.
pub fn preview(program: &Program, options: &Options) -> Result<Compiled, Diagnostics> {
    let topology = machine(program, options)?;
    let Taken { mut plan, made } = taken(program, &topology, options)?;
    let whole = unroll::unroll(&plan);
    let is_whole = whole.is_ok();
    let (schedule, proof) = spelled_out(&whole.unwrap_or_else(|_| unroll::once(&plan)), made, &topology)?;
    let topology = machine_as_planned(&plan, &topology);
    // Steps in program order overlap, too: links work while devices compute.
    if is_whole && plan.overlap.whole.is_none() {
        let timing = clock::run(&schedule, &topology).ok();
        let faster = timing.map(|timing| timing.makespan).filter(|time| *time < plan.totals().time());
        plan.overlap.whole = faster.map(|time| Whole { time, peak: plan.totals().peak() });
    }
    Ok(Compiled { topology, plan, schedule, proof })
}

/// Runs all stages after `check`.
///
/// # Errors
/// Errors of the stages.
pub fn compile(program: &Program, options: &Options) -> Result<Compiled, Diagnostics> {
    let topology = machine(program, options)?;
    let Taken { plan, made } = taken(program, &topology, options)?;
    let unrolled = unroll::unroll(&plan).map_err(|error| Diagnostics::of(&error))?;
    let (schedule, proof) = spelled_out(&unrolled, made, &topology)?;
    let topology = machine_as_planned(&plan, &topology);
    Ok(Compiled { topology, plan, schedule, proof })
}
