//! The stages wired together.

use crate::advice;
use crate::costs::{Balance, CostModel};
use crate::diag::Diagnostics;
use crate::expect;
use crate::link::{DegradedLink, LinkState};
use crate::lower;
use crate::overlap;
use crate::plan::{self, Budget, Listing, Plan, Request, unroll};
use crate::program::{self, Program};
use crate::recipe::{self, Lowering, Tuner};
use crate::schedule::Schedule;
use crate::sim::proof::{self, Flaw, Proof};
use crate::span::Span;
use crate::syntax::{self, Ast, SetError};
use crate::topology::{Hardware, Topology, TopologyError};
use crate::units::Time;
use miette::SourceSpan;
use std::borrow::Cow;
use thiserror::Error;

/// What a compilation can be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of what the program names.
    pub hardware: Option<Hardware>,
    /// In picoseconds, instead of the least time of a hop of all networks; messages have no overhead then.
    pub latency: Option<u64>,
    /// What moves cost while planning.
    pub costs: CostModel,
    /// How collectives become operations.
    pub lowering: Lowering,
    /// Only collectives and moves that are written may communicate.
    pub strict: bool,
    /// Whether steps may be done in pieces and in another order, so that they overlap.
    pub overlap: Overlapping,
    /// Whether chains of moves may be done as one.
    pub reshard: Resharding,
    /// Whether products are computed in the order, as often and where they are written.
    pub as_written: bool,
    /// For each product the ways in which it could have been done are told too; that takes time.
    pub alternatives: bool,
    /// How much the planner may look at.
    pub budget: Budget,
}

impl Options {
    /// Whether a program names no hardware, so that the default is assumed.
    pub fn assumes_hardware(&self, program: &Program) -> bool {
        program.hardware.is_none() && self.hardware.is_none()
    }
}

/// How a value goes from one layout to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Resharding {
    /// By collectives, one after the other
    Chains,
    /// At once by the best ways on the links, where that is faster
    #[default]
    Auto,
}

/// Whether the steps of a plan overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Overlapping {
    /// Program order, each step as a whole
    None,
    /// In pieces and in another order, where that is faster on the simulated links
    #[default]
    Auto,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// As the grammar says.
    #[default]
    Exact,
    /// LaTeX and lost `_` as well; what is read so is told.
    Lenient,
}

/// A program with all that follows from it.
#[derive(Debug)]
pub struct Compiled {
    /// The machine.
    pub topology: Topology,
    /// What moves, and why.
    pub plan: Plan,
    /// What each device does.
    pub schedule: Schedule,
    /// That this is right.
    pub proof: Proof,
}

/// Text to program: everything that is wrong at once, notes and warnings on success.
pub fn check(source: &str) -> (Option<Program>, Diagnostics) {
    let (ast, diagnostics) = syntax::parse(source);
    check_parsed(Some(source), &ast, diagnostics)
}

/// The same with sizes of dims given from outside, and another reading.
///
/// # Errors
/// If the program has no such dim, or it is made of others.
pub fn check_with(
    source: &str,
    sizes: &[(String, u64)],
    spelling: Spelling,
) -> Result<(Option<Program>, Diagnostics), SetError> {
    let (mut ast, diagnostics) = match spelling {
        Spelling::Exact => syntax::parse(source),
        Spelling::Lenient => syntax::parse_lenient(source),
    };
    sizes.iter().try_for_each(|(name, size)| ast.set(name, *size))?;
    // Fixes are tried on the text, which would have other sizes, or is not read as it stands.
    let same = sizes.is_empty() && spelling == Spelling::Exact;
    Ok(check_parsed(Some(source).filter(|_| same), &ast, diagnostics))
}

fn check_parsed(source: Option<&str>, ast: &Ast, mut diagnostics: Diagnostics) -> (Option<Program>, Diagnostics) {
    let (program, more) = program::check(ast);
    diagnostics.extend(more);
    if let Some(program) = &program {
        match hardware(program) {
            Err(unknown) => diagnostics.push(&unknown),
            // Where the hardware is not named it may still be given from outside.
            Ok(hardware) if program.hardware.is_some() => {
                wired(program, hardware)
                    .err()
                    .filter(TopologyError::is_written)
                    .iter()
                    .for_each(|error| diagnostics.push(error));
            }
            Ok(_) => {}
        }
    }
    diagnostics.sort();
    match source {
        Some(source) => advice::try_fixes(source, ast, &mut diagnostics),
        None => diagnostics.iter_mut().for_each(|found| found.fixes.clear()),
    }
    (program.filter(|_| !diagnostics.has_errors()), diagnostics)
}

/// The machine of a program: what it names, unless the caller knows better.
///
/// # Errors
/// If the program names hardware that has no profile, or its rates have no common tick.
pub fn machine(program: &Program, options: &Options) -> Result<Topology, Diagnostics> {
    let hardware = match &options.hardware {
        Some(hardware) => hardware.clone(),
        None => hardware(program).map_err(|unknown| Diagnostics::of(&unknown))?,
    };
    wired(program, hardware.with_latency(options.latency)).map_err(|error| Diagnostics::of(&error))
}

/// The machine of a schedule that is given.
///
/// # Errors
/// If its mesh asks for what the hardware has not, or the rates have no common tick.
pub fn machine_of(schedule: &Schedule, options: &Options) -> Result<Topology, TopologyError> {
    let default = || Hardware::named(Hardware::DEFAULT).expect("the default is shipped");
    let hardware = options.hardware.clone().unwrap_or_else(default);
    Topology::new(schedule.mesh.clone(), hardware.with_latency(options.latency))
}

/// Proves a schedule that is given, and that each of its messages has a way on the machine.
///
/// # Errors
/// The first flaw.
///
/// # Panics
/// If the topology has another mesh: [`machine_of`] makes that of a schedule.
pub fn prove(schedule: &Schedule, topology: &Topology) -> Result<Proof, Flaw> {
    let proof = proof::prove(schedule)?;
    proof::ways(schedule, topology)?;
    Ok(proof)
}

/// The mesh on its hardware, with the links that the program says are degraded.
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
            TopologyError::NoCommonTick { .. } | TopologyError::TooManyLinks { .. } => None,
        };
        error.set_place(place.map(SourceSpan::from));
        error
    })
}

/// The program runs on hardware that nobody has described.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("no hardware is called `{name}`")]
#[diagnostic(code("unknown-hardware"), help("{help}"))]
struct UnknownHardware {
    name: String,
    help: String,
    #[label("not a profile")]
    span: SourceSpan,
}

/// The hardware that the program names.
fn hardware(program: &Program) -> Result<Hardware, UnknownHardware> {
    let (name, span) = match &program.hardware {
        Some(name) => (name.node.as_str(), name.span),
        None => (Hardware::DEFAULT, Span::default()),
    };
    let unknown = || UnknownHardware { name: name.to_owned(), help: Hardware::unknown(name), span: span.into() };
    Hardware::named(name).ok_or_else(unknown)
}

/// Plans a program in which only what is written may communicate, for the lines that it lacks; these are tried.
///
/// - `sizes`, `spelling`: as for [`check_with`].
///
/// # Errors
/// Whatever the planner finds; statements that need more than is written.
pub fn check_strict(
    source: &str,
    sizes: &[(String, u64)],
    spelling: Spelling,
    program: &Program,
    options: &Options,
) -> Result<(), Diagnostics> {
    // What is written are products and collectives, one after the other.
    let (reshard, overlap) = (Resharding::Chains, Overlapping::None);
    let options = &Options { reshard, overlap, as_written: true, ..options.clone() };
    let strict = Options { strict: true, ..options.clone() };
    let planned = |program: &Program, options: &Options| plan(program, &machine(program, options)?, options);
    let Err(mut found) = planned(program, &strict) else { return Ok(()) };
    let received = planned(program, options).map(|plan| plan.totals().received()).ok();
    let is_right = |found: &Diagnostics| {
        let changed = advice::apply_all(source, found);
        let clean = check_with(&changed, sizes, spelling).ok().and_then(|(program, _)| program);
        let plan = clean.and_then(|program| planned(&program, &strict).ok());
        plan.is_some_and(|plan| Some(plan.totals().received()) == received)
    };
    let is_unwritten = found.iter().any(|found| found.code == "unwritten-communication");
    if is_unwritten
        && !is_right(&found)
        && let Ok(plan) = planned(program, options)
    {
        found = advice::spelled_out(&plan);
        if !is_right(&found) {
            found.iter_mut().for_each(|found| found.fixes.clear());
        }
    }
    found.iter_mut().for_each(|found| advice::word(found, source));
    Err(found)
}

/// Program to plan.
///
/// # Errors
/// If some layout cannot be reached, or the plan exceeds a limit.
///
/// # Panics
/// If the topology has another mesh: [`machine`] makes that of a program.
pub fn plan(program: &Program, topology: &Topology, options: &Options) -> Result<Plan, Diagnostics> {
    let costs = options.costs.on(topology, options.lowering);
    let request = Request {
        written: false,
        // What is to be written for a program is said of its own steps.
        rewrites: !options.as_written && !options.strict,
        alternatives: options.alternatives,
        budget: options.budget,
    };
    let ordinary = || plan::plan_as(program, costs.as_ref(), request).map_err(|error| Diagnostics::of(&error));
    let plan = match options.strict {
        false => ordinary()?,
        true => match plan::plan_as(program, costs.as_ref(), Request { written: true, ..request }) {
            Ok(plan) => plan,
            Err(_) => return Err(advice::unwritten(&ordinary()?)),
        },
    };
    let plan = as_a_whole(plan, topology, options, costs.as_ref(), EFFORT)?;
    if options.strict || options.overlap == Overlapping::None || !is_by_time(costs.as_ref()) {
        return Ok(plan);
    }
    let others = spread(topology, costs.as_ref(), &plan, request);
    let wholes =
        others.into_iter().filter_map(|other| as_a_whole(other, topology, options, costs.as_ref(), EFFORT).ok());
    let wholes: Vec<Plan> = wholes.collect();
    Ok(plan.unless_faster(wholes))
}

/// Operations, times devices, that are tried for the cheapest plan step by step: about a fifth of a second.
const EFFORT: usize = 2_000_000;
/// How often the weights of units are shifted to those that are busy longest.
const SHIFTS: usize = 6;
/// The most moves that a search by weights keeps: on meshes of many axes plans are spread over them by some moves alone.
const MOST_MOVES: usize = 50_000;
/// The most steps of a plan beside which others are tried: of longer ones each takes seconds.
const MOST_STEPS: usize = 500;
/// The most plans that are tried as a whole beside the cheapest step by step.
const MOST_WHOLE: usize = 2;

/// Plans that keep no unit busy for as long as a plan takes as a whole, those first whose busiest unit is busy for the least
/// time.
fn spread(topology: &Topology, costs: &dyn plan::Costs, whole: &Plan, request: Request) -> Vec<Plan> {
    let totals = whole.totals();
    // To try layouts under a limit on memory takes long enough.
    let is_tried = whole.has_tried_layouts();
    let is_mixed = totals.compute > Time::ZERO && totals.communication > Time::ZERO;
    let is_long = whole.steps.node_count() > MOST_STEPS;
    if !is_mixed || is_long || is_tried || whole.program.expects_collectives() || whole.program.mesh != topology.mesh {
        return Vec::new();
    }
    // What saves a hundredth.
    let most = Time::from_ticks(whole.time().ticks() - whole.time().ticks() / 100);
    let (program, mut balance) = (whole.unfilled(), Balance::new(topology));
    let budget = request.budget.within_moves(MOST_MOVES);
    let request = Request { alternatives: false, rewrites: false, budget, ..request };
    let mut found: Vec<(Time, Plan)> = Vec::new();
    for _ in 0..SHIFTS {
        let Ok(plan) = plan::plan_as(&program, &balance, request) else { break };
        if balance.bound(&plan) >= most {
            break;
        }
        let busiest = balance.of(&plan).into_iter().max().unwrap_or_default();
        if busiest < most && !plan.is_alike(whole) && !found.iter().any(|(_, known)| known.is_alike(&plan)) {
            found.push((busiest, plan.clone()));
        }
        balance = balance.shifted(&plan);
    }
    found.sort_by_key(|(busiest, _)| *busiest);
    found.into_iter().take(MOST_WHOLE).map(|(_, plan)| plan.priced_by(costs)).collect()
}

/// A plan as it is on the clock, by its recipes and with its steps overlapping.
///
/// - `effort`: as for [`overlap::overlapped`].
fn as_a_whole(
    plan: Plan,
    topology: &Topology,
    options: &Options,
    costs: &dyn plan::Costs,
    effort: usize,
) -> Result<Plan, Diagnostics> {
    let machine = machine_as_planned(&plan, topology);
    let by_clock = costs.is_by_clock();
    let tuner = || Tuner::new(Cow::Borrowed(&machine), options.lowering).by(costs.objective());
    let fastest = match costs.tuner() {
        Some(tuner) if machine.mesh == topology.mesh => plan.with_recipes(tuner, by_clock),
        Some(_) | None => plan.with_recipes(&tuner(), by_clock),
    };
    let plan = match is_larger_than_proven(&fastest) {
        false => fastest,
        true => fastest.with_recipes(&tuner().fewest_operations(), by_clock),
    };
    expect::within_limits(&plan, topology).map_err(|breach| Diagnostics::of(&breach))?;
    let first = tuner();
    let overlapped = |plan: Plan| match options.overlap {
        Overlapping::None => plan,
        Overlapping::Auto => {
            overlap::overlapped(plan, |pieces| tuner().sharing(&first).repeated(pieces), &machine, effort)
        }
    };
    let resharded = match options.reshard {
        Resharding::Auto if is_by_time(costs) && !options.strict => plan.with_reshards(&first),
        Resharding::Auto | Resharding::Chains => None,
    };
    let resharded = resharded.filter(|plan| expect::within_limits(plan, topology).is_ok()).map(overlapped);
    let plan = overlapped(plan);
    Ok(resharded.filter(|other| other.time() < plan.time()).unwrap_or(plan))
}

/// Whether plans are chosen by their time on the clock.
fn is_by_time(costs: &dyn plan::Costs) -> bool {
    costs.is_by_clock() && costs.objective() == plan::Objective::Time
}

/// Whether the operations of a plan together are more than the proof takes. They are put together only where it may be so.
fn is_larger_than_proven(plan: &Plan) -> bool {
    let work = |id| match &plan.step(id).recipe {
        Some(Ok(chosen)) => u64::try_from(chosen.work).unwrap_or(u64::MAX).saturating_mul(plan.times(id)),
        Some(Err(_)) | None => 0,
    };
    let work = plan.ids().map(work).fold(0u64, u64::saturating_add);
    let devices = plan.program.mesh.device_count() as u64;
    if work.saturating_mul(devices) <= recipe::MOST_WORK as u64 {
        return false;
    }
    let unrolled = unroll::unroll(plan).unwrap_or_else(|_| unroll::once(plan));
    lower::lower(&unrolled).is_ok_and(|schedule| recipe::is_larger_than_proven(&schedule))
}

/// Plan to schedule, proven. No schedule leaves the compiler unproven.
///
/// # Errors
/// If a method that is asked for does not apply, there are too many steps, or the proof finds a flaw, which would be ours.
///
/// # Panics
/// If the topology is not the machine that the plan is for.
pub fn schedule(plan: &Plan, topology: &Topology) -> Result<(Schedule, Proof), Diagnostics> {
    let unrolled = unroll::unroll(plan).map_err(|error| Diagnostics::of(&error))?;
    spelled_out(&unrolled, topology)
}

/// The machine as a plan speaks of it: the plan may have cut axes in parts.
///
/// # Panics
/// If the topology is not the machine that the plan is for.
pub fn machine_as_planned(plan: &Plan, topology: &Topology) -> Topology {
    topology.seen_as(&plan.program.mesh)
}

fn spelled_out(plan: &Plan, topology: &Topology) -> Result<(Schedule, Proof), Diagnostics> {
    let topology = &machine_as_planned(plan, topology);
    let listing = Listing::overlapped(plan, &plan.overlap, topology);
    let schedule = lower::listed(plan, &listing).map_err(|error| Diagnostics::of(&error))?;
    let proof = prove(&schedule, topology).map_err(|flaw| Diagnostics::of(&flaw))?;
    Ok((schedule, proof))
}

/// All stages after `check`, for a look at the plan: what repeats too often to be spelled out is done once.
///
/// # Errors
/// Whatever one of the stages finds.
pub fn preview(program: &Program, options: &Options) -> Result<Compiled, Diagnostics> {
    let topology = machine(program, options)?;
    let plan = plan(program, &topology, options)?;
    let unrolled = unroll::unroll(&plan).unwrap_or_else(|_| unroll::once(&plan));
    let (schedule, proof) = spelled_out(&unrolled, &topology)?;
    let topology = machine_as_planned(&plan, &topology);
    Ok(Compiled { topology, plan, schedule, proof })
}

/// All stages after `check`.
///
/// # Errors
/// Whatever one of the stages finds.
pub fn compile(program: &Program, options: &Options) -> Result<Compiled, Diagnostics> {
    let topology = machine(program, options)?;
    let plan = plan(program, &topology, options)?;
    let (schedule, proof) = schedule(&plan, &topology)?;
    let topology = machine_as_planned(&plan, &topology);
    Ok(Compiled { topology, plan, schedule, proof })
}
