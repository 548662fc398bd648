//! Which recipe: the one whose operations take the least simulated time.

use super::candidates::Candidate;
use super::part::Part;
use super::problem::Problem;
use super::trial::{self, Trial};
use super::uneven::{cut_at, scatters};
use super::{Lowering, Objective, Recipe, Stage, idle, permute};
use crate::collective::{Collective, CollectiveKind};
use crate::dtype::DType;
use crate::function::{Function, Unary};
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, Wiring};
use crate::method::Method;
use crate::operator::Operator;
use crate::packing::Branching;
use crate::routing::Round;
use crate::schedule::{Schedule, Verified};
use crate::sim::clock::AxisLoad;
use crate::sim::usage::{self, StepUsage, Working};
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

/// Why a collective has no recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A stage cannot be done by the method that is asked for.
    Method {
        /// The method.
        method: Method,
        /// What the stage does.
        kind: CollectiveKind,
        /// Along which axes.
        axis: String,
        /// How these are wired.
        wiring: Wiring,
        /// How many devices they have.
        size: u64,
        /// What could be asked for instead.
        candidates: Vec<Method>,
    },
    /// Every method of a stage has more operations than can be proven.
    TooLarge {
        /// What the stage does.
        kind: CollectiveKind,
        /// Along which axes.
        axis: String,
        /// How many devices they have.
        size: u64,
    },
}

/// A recipe, and what its operations by themselves come to.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The recipe, with the axes of the machine.
    pub recipe: Recipe,
    /// The methods of its stages: `balanced_meet_in_middle_ring`, `line + one_hop`.
    pub methods: String,
    /// Its time on the simulated links, nothing else being on them; `None` if it has too many operations to be tried.
    pub time: Option<Time>,
    /// What it puts on the links of each axis if all devices have the operand; nothing either where it cannot be tried.
    links: Vec<AxisLoad>,
    /// Operations and operands.
    pub work: usize,
}

/// Finds the recipes of collectives on one machine, and remembers them.
#[derive(Debug)]
pub struct Tuner<'a> {
    pub(super) topology: Cow<'a, Topology>,
    pub(super) lowering: Lowering,
    /// Whether neither several axes at once nor chunks are tried, unless asked for: there are to be few operations.
    pub(super) fewest_operations: bool,
    pub(super) objective: Objective,
    /// How often each collective is done, one after the other.
    repeats: u64,
    chosen: Memory<Asked, Result<Arc<Chosen>, Flaw>>,
    choices: Memory<Problem, Result<Rc<Choice>, Flaw>>,
    parts: Memory<AxisSet, Rc<Part>>,
    /// What the first device, which has every operand, holds for collectives that have been counted.
    working: Memory<Asked, Working>,
    /// The trees of a collective over these axes, whatever it moves; none where they cannot be packed.
    pub(super) trees: Memory<(CollectiveKind, Axes), Option<Vec<Branching>>>,
    /// The ways of moves from any sharding to any other, whatever they move.
    pub(super) ways: Rc<Memory<Move, Arc<Vec<Round>>>>,
}

/// What a recipe was asked for.
type Asked = (Collective, Layout, Option<Method>);

/// A move: the axes of its groups, those on each dim before it and after it, the chunks of a cell, and for how long each
/// link is busy with one.
pub(super) type Move = (Axes, Vec<Axes>, Vec<Axes>, u64, Vec<u64>);

/// What has been found out.
type Memory<K, V> = RefCell<FxHashMap<K, V>>;

/// The stages that were chosen.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) stages: Vec<Stage>,
    /// None where there was nothing to choose from, or nothing could be tried.
    trial: Option<Trial>,
}

impl<'a> Tuner<'a> {
    /// Of the recipes on this machine.
    pub fn new(topology: Cow<'a, Topology>, lowering: Lowering) -> Tuner<'a> {
        Tuner {
            topology,
            lowering,
            fewest_operations: false,
            objective: Objective::Time,
            repeats: 1,
            chosen: RefCell::default(),
            choices: RefCell::default(),
            parts: RefCell::default(),
            working: RefCell::default(),
            trees: RefCell::default(),
            ways: Rc::default(),
        }
    }

    /// Of those with few operations.
    #[must_use]
    pub fn fewest_operations(self) -> Tuner<'a> {
        Tuner { fewest_operations: true, ..self }
    }

    /// The same of what is best by something else.
    #[must_use]
    pub fn by(self, objective: Objective) -> Tuner<'a> {
        Tuner { objective, ..self }
    }

    /// The same of collectives that are done so often, one after the other: each but the last takes as long as its busiest
    /// link is busy.
    #[must_use]
    pub fn repeated(self, repeats: u64) -> Tuner<'a> {
        Tuner { repeats, ..self }
    }

    /// The same, with the ways that another has found on the same machine.
    #[must_use]
    pub fn sharing(self, other: &Tuner<'_>) -> Tuner<'a> {
        Tuner { ways: Rc::clone(&other.ways), ..self }
    }

    /// The machine.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How its recipes become operations.
    pub fn lowering(&self) -> Lowering {
        self.lowering
    }

    /// The recipe of a collective on an array of this layout.
    ///
    /// # Errors
    /// If a stage cannot be done by the method that is asked for, or not at all.
    pub fn choose(&self, collective: &Collective, from: &Layout, asked: Option<Method>) -> Result<Arc<Chosen>, Flaw> {
        let key = (collective.clone(), from.clone(), asked);
        if let Some(known) = self.chosen.borrow().get(&key) {
            return known.clone();
        }
        let found = self.find(collective, from, asked).map(Arc::new);
        self.chosen.borrow_mut().insert(key, found.clone());
        found
    }

    fn find(&self, collective: &Collective, from: &Layout, asked: Option<Method>) -> Result<Chosen, Flaw> {
        let mesh = &self.topology.mesh;
        let operator = from.sharding.operator;
        let axes = collective.axes(&from.sharding, mesh);
        let idle = |sharding: &_| idle::fastest(&self.topology, sharding);
        let (busy, choice) = match Problem::new(collective, from, asked, mesh, idle) {
            Some(problem) => (problem.busy(), self.best(&self.in_order(problem))?),
            None if collective.kind() == CollectiveKind::Reshard => {
                let size = axes.group_size(mesh);
                let too_large = || Flaw::TooLarge { kind: collective.kind(), axis: axes.names(mesh).to_string(), size };
                let (busy, choice) = self.resharded(collective, from).ok_or_else(too_large)?;
                (busy, Rc::new(choice))
            }
            None => (axes, Rc::new(Choice { stages: self.plain(collective, from), trial: None })),
        };
        let mut stages = choice.stages.clone();
        let mut trial = choice.trial.clone();
        if matches!(collective, Collective::AllReduce { .. } | Collective::ReduceScatter { .. }) {
            let group = axes.group_size(mesh);
            let before = (operator == Operator::SquareAdd).then_some(Function::Unary(Unary::Square));
            let after = (operator == Operator::Mean && group > 1).then_some(Function::Over(group));
            trial = trial.filter(|_| before.is_none() && after.is_none());
            stages.splice(0..0, before.map(Stage::Map));
            stages.extend(after.map(Stage::Map));
        }
        let recipe = Recipe { operator: operator.combiner(), equal_copies: self.lowering.bitwise, stages };
        let part = self.part(busy);
        let there = recipe.renumbered(&|axis| part.axis(axis));
        let mut methods = String::new();
        let extents = from.local_extents(mesh);
        let schedule = trial::of_block(&part.topology, from.dtype, &extents, |builder, input| {
            let value = there.emit(builder, input);
            methods = builder.methods().into_iter().unique().join(" + ");
            value
        });
        let trial = trial.or_else(|| part_trial(&part, &schedule, Time::MAX));
        let (time, links) = trial.map(|trial| (trial.time, trial.links)).unzip();
        Ok(Chosen { recipe, methods, time, links: links.unwrap_or_default(), work: trial::work(&schedule) })
    }

    /// What a recipe comes to, on an array of this layout.
    ///
    /// - `asked`: the method that the recipe was asked for with.
    pub fn usage(&self, collective: &Collective, from: &Layout, asked: Option<Method>, chosen: &Chosen) -> StepUsage {
        let (mesh, recipe) = (&self.topology.mesh, &chosen.recipe);
        // Where only first devices have something, the others neither send nor hold it.
        let absent = if from.sharding.operator == Operator::Root { from.sharding.open } else { AxisSet::NONE };
        let part = self.part(collective.axes(&from.sharding, mesh).union(recipe.borrowed()).union(absent));
        let sharding = Sharding {
            open: part.set(absent),
            operator: from.sharding.operator,
            ..Sharding::replicated(from.dims.len())
        };
        let there = recipe.renumbered(&|axis| part.axis(axis));
        let extents = from.local_extents(mesh);
        let (schedule, result) =
            trial::of_block_on(&part.topology, from.dtype, &extents, sharding, |builder, input| {
                there.emit(builder, input)
            });
        let usage = StepUsage::of(Verified::emitted(&schedule), result).renumbered(&|axis| part.whole(axis));
        // The trial has all devices send.
        let links = match absent.is_empty() {
            true => chosen.links.clone(),
            false => part_trial(&part, &schedule, Time::MAX).map(|trial| trial.links).unwrap_or_default(),
        };
        let usage = StepUsage { links, ..usage };
        self.working.borrow_mut().insert((collective.clone(), from.clone(), asked), usage.of_first());
        usage
    }

    /// What the first device holds for a collective by its usual recipe, beside its operand, if that has been counted.
    pub fn known_working(&self, collective: &Collective, from: &Layout) -> Option<Working> {
        let working = self.working.borrow();
        // Most searches ask for no memory, and count nothing.
        if working.is_empty() { None } else { working.get(&(collective.clone(), from.clone(), None)).copied() }
    }

    /// How many collectives have been counted.
    pub fn counted(&self) -> usize {
        self.working.borrow().len()
    }

    /// What is done in one way only.
    fn plain(&self, collective: &Collective, from: &Layout) -> Vec<Stage> {
        let mesh = &self.topology.mesh;
        match collective {
            Collective::Permute { to } => {
                let axes: Vec<_> = collective.axes(&from.sharding, mesh).iter().collect();
                let sources = permute::sources(&from.sharding, to, &axes, mesh);
                vec![Stage::Permute { axes, sources }]
            }
            Collective::Open { axes } => vec![Stage::Mask { axes: axes.iter().collect() }],
            Collective::Slice { axes, dim } => vec![Stage::Slice { axes: axes.iter().collect(), dim: *dim }],
            Collective::AllGather { .. }
            | Collective::ReduceScatter { .. }
            | Collective::AllReduce { .. }
            | Collective::AllToAll { .. }
            | Collective::Reshard { .. }
            | Collective::Broadcast { .. } => Vec::new(),
        }
    }

    /// A sum in the order of its stages. In any order the gather undoes the scatter: what is left for slow links should
    /// be little.
    pub(super) fn in_order(&self, problem: Problem) -> Problem {
        if problem.kind != CollectiveKind::AllReduce {
            return problem;
        }
        let mesh = &self.topology.mesh;
        let runs = mesh.runs(problem.axes()).into_iter();
        let axes: Axes =
            runs.sorted_by_key(|run| Reverse(idle::into(&self.topology, *run))).flat_map(|run| run.iter()).collect();
        let n = axes.group_size(mesh);
        let dim = problem.extents.iter().position(|extent| extent.is_multiple_of(n)).unwrap_or(0);
        Problem { dims: super::problem::on_dim(axes, dim), ..problem }
    }

    /// The best stages for a problem.
    pub(super) fn best(&self, problem: &Problem) -> Result<Rc<Choice>, Flaw> {
        if let Some(known) = self.choices.borrow().get(problem) {
            return known.clone();
        }
        let found = self.compare(problem).map(Rc::new);
        self.choices.borrow_mut().insert(problem.clone(), found.clone());
        found
    }

    /// Tries the candidates one after the other; the first of equals is the simplest.
    fn compare(&self, problem: &Problem) -> Result<Choice, Flaw> {
        let n = problem.axes().group_size(&self.topology.mesh);
        let cut = cut_at(&problem.extents, n).filter(|_| problem.kind == CollectiveKind::AllReduce);
        if let Some((cut, asked)) = cut.zip(problem.asked)
            && scatters(asked, n)
        {
            return Ok(Choice { stages: self.split(problem, cut)?, trial: None });
        }
        let mut candidates = self.candidates(problem)?;
        if let Some(cut) = cut.filter(|_| problem.asked.is_none() && !self.fewest_operations)
            && let Ok(stages) = self.split(problem, cut)
        {
            candidates.push(Candidate::once(stages));
        }
        if let [only] = &candidates[..]
            && only.counts == [1]
        {
            return Ok(Choice { stages: only.stages(1), trial: None });
        }
        let mut best: Option<Tried> = None;
        for candidate in &candidates {
            // What takes longer may still send less.
            let fastest = best.as_ref().filter(|_| self.objective == Objective::Time && self.repeats == 1);
            let least = fastest.map_or(Time::MAX, |best| best.trial.time);
            let found = match &candidate.counts[..] {
                [chunks] => self.trial(problem, candidate.stages(*chunks), least),
                _ => self.in_chunks(problem, candidate, least),
            };
            let figure = |tried: &Tried| tried.figure(self.repeats);
            let is_better = |found: &Tried| best.as_ref().is_none_or(|best| figure(found) < figure(best));
            best = found.filter(is_better).or(best);
        }
        // Where none can be tried on the clock, the usual one.
        let usual = || candidates.first().map_or_else(Vec::new, |candidate| candidate.stages(candidate.counts[0]));
        Ok(match best {
            Some(Tried { trial, stages, .. }) => Choice { stages, trial: Some(trial) },
            None => Choice { stages: usual(), trial: None },
        })
    }

    /// The candidate in a good number of chunks; `None` where its links alone take as long as the best so far.
    ///
    /// More chunks take less time until their latencies do not hide any more; but each makes operations, so what saves
    /// next to nothing is not worth it. What is too much for a link in one chunk is so in many.
    fn in_chunks(&self, problem: &Problem, candidate: &Candidate<'_>, least: Time) -> Option<Tried> {
        let mut best: Option<Tried> = None;
        // One step may bring nothing, where the next one does.
        let (mut idle, mut from) = (0, 0);
        let mut nearly_always_busy = false;
        while idle < 2
            && !nearly_always_busy
            && let Some(chunks) = candidate.counts.iter().copied().find(|count| *count >= from)
        {
            let Some(tried) = self.trial(problem, candidate.stages(chunks), Time::MAX) else { break };
            if tried.trial.load >= least {
                return best;
            }
            let (time, load) = (tried.trial.time.ticks(), tried.trial.load.ticks());
            let saves = best.as_ref().is_none_or(|best| {
                let known = best.trial.time.ticks();
                time < known - known / candidate.least_saving
            });
            nearly_always_busy = time.saturating_sub(load) <= load / NEARLY_ALL;
            idle = if saves { 0 } else { idle + 1 };
            best = if saves { Some(tried) } else { best };
            from = 2 * chunks;
        }
        best
    }

    /// A move from any sharding to any other, along the axes on which it takes less time: those on which the shardings
    /// differ, or with them those along which both hold copies.
    fn resharded(&self, collective: &Collective, from: &Layout) -> Option<(AxisSet, Choice)> {
        let Collective::Reshard { to, .. } = collective else { return None };
        let mesh = &self.topology.mesh;
        let differ = collective.axes(&from.sharding, mesh);
        let long = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1);
        let copies = long.collect::<AxisSet>().without(from.sharding.used().union(to.used()));
        let groups = [Some(differ), Some(differ.union(copies)).filter(|_| !copies.is_empty())];
        let tried = groups.into_iter().flatten().filter_map(|group| {
            let candidate = self.routed(from, to, group)?;
            let extents = from.local_extents(mesh);
            let mut best: Option<Tried> = None;
            let (mut idle, mut least) = (0, 0);
            // In more chunks links are more equally busy, and wait less for what goes over several of them.
            while idle < 2
                && let Some(chunks) = candidate.counts.iter().copied().find(|count| *count >= least)
                && let Some(tried) = self.trial_on(group, (from.dtype, &extents), candidate.stages(chunks), Time::MAX)
            {
                let saves = best.as_ref().is_none_or(|best| {
                    let known = best.trial.time.ticks();
                    tried.trial.time.ticks() < known - known / candidate.least_saving
                });
                idle = if saves { 0 } else { idle + 1 };
                best = if saves { Some(tried) } else { best };
                least = 2 * chunks;
            }
            Some((group, best?))
        });
        let (group, Tried { trial, stages, .. }) = tried.min_by_key(|(_, tried)| tried.figure(self.repeats))?;
        Some((group, Choice { stages, trial: Some(trial) }))
    }

    /// What the clock says of some stages; `None` as well if they take the time of the limit or more.
    fn trial(&self, problem: &Problem, stages: Vec<Stage>, limit: Time) -> Option<Tried> {
        self.trial_on(problem.busy(), (problem.dtype, &problem.extents), stages, limit)
    }

    /// The same of a block, on the axes that take part.
    fn trial_on(
        &self,
        busy: AxisSet,
        (dtype, extents): (DType, &[u64]),
        stages: Vec<Stage>,
        limit: Time,
    ) -> Option<Tried> {
        let part = self.part(busy);
        let recipe = Recipe { operator: Operator::Sum, equal_copies: self.lowering.bitwise, stages };
        let there = recipe.renumbered(&|axis| part.axis(axis));
        let schedule = trial::of_block(&part.topology, dtype, extents, |builder, input| there.emit(builder, input));
        let trial = part_trial(&part, &schedule, limit)?;
        let received = match self.objective {
            Objective::Time => 0,
            Objective::Bytes => usage::of(Verified::emitted(&schedule)).received.most,
        };
        Some(Tried { received, trial, stages: recipe.stages })
    }

    /// The part of the machine along some axes.
    pub(super) fn part(&self, axes: AxisSet) -> Rc<Part> {
        let mut parts = self.parts.borrow_mut();
        Rc::clone(parts.entry(axes).or_insert_with(|| Rc::new(Part::new(&self.topology, axes))))
    }
}

/// The time of a schedule on a part of the machine; its links are those of the whole.
fn part_trial(part: &Part, schedule: &Schedule, limit: Time) -> Option<Trial> {
    let trial = trial::timed(schedule, &part.topology, limit)?;
    Some(Trial { links: part.on_whole(trial.links), ..trial })
}

/// Stages that have been tried.
struct Tried {
    /// The bytes that a device receives, of the one that receives most; 0 where that plays no role.
    received: u64,
    trial: Trial,
    stages: Vec<Stage>,
}

impl Tried {
    /// What is to be little, if it is done so often.
    fn figure(&self, repeats: u64) -> (u64, Time) {
        (self.received, self.trial.time + self.trial.load * repeats.saturating_sub(1))
    }
}

/// No more chunks are tried once the busiest link is idle for less than 1/200 of its busy time.
const NEARLY_ALL: u128 = 200;
