//! Selection of recipes by simulated time.

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
use crate::packing::{Branching, Translations};
use crate::routing::{Network, Round, Want};
use crate::schedule::methods::{AxisOrder, Shifted};
use crate::schedule::{OpId, Schedule, Verified};
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
    /// The requested method does not support a stage.
    Method {
        /// The method.
        method: Method,
        /// The kind of the stage.
        kind: CollectiveKind,
        /// Its axes.
        axis: String,
        /// Their wiring.
        wiring: Wiring,
        /// Number of devices.
        size: u64,
        /// Applicable methods.
        candidates: Vec<Method>,
    },
    /// Every method of a stage has too many operations to prove.
    TooLarge {
        /// The kind of the stage.
        kind: CollectiveKind,
        /// Its axes.
        axis: String,
        /// Number of devices.
        size: u64,
    },
}

/// A recipe with its cost.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The recipe, in terms of the machine's axes.
    pub recipe: Recipe,
    /// Methods of its stages: `balanced_meet_in_middle_ring`, `line + one_hop`.
    pub methods: String,
    /// Simulated time on idle links; `None` if it has too many operations.
    pub time: Option<Time>,
    /// Link loads of each axis if all devices hold the operand; empty if it could not be simulated.
    links: Vec<AxisLoad>,
    /// Number of operations and operands.
    pub work: usize,
}

/// Finds and caches the recipes of collectives on one machine.
#[derive(Debug)]
pub struct Tuner<'a> {
    pub(super) topology: Cow<'a, Topology>,
    pub(super) lowering: Lowering,
    /// Whether multiport methods and chunks are tried only on request, to keep the number of operations low.
    pub(super) fewest_operations: bool,
    /// Whether twice as many chunks must save at least 1/32 of the time.
    few_chunks: bool,
    pub(super) objective: Objective,
    /// Number of repetitions of each collective, in sequence.
    repeats: u64,
    chosen: Memory<Asked, Result<Arc<Chosen>, Flaw>>,
    choices: Memory<Problem, Result<Rc<Choice>, Flaw>>,
    parts: Memory<AxisSet, Rc<Part>>,
    /// Memory of a device that holds the operand, for counted collectives.
    working: Memory<Asked, Working>,
    /// Packed trees by axes; `None` if they cannot be packed.
    pub(super) trees: Memory<(CollectiveKind, Axes), Option<Vec<Branching>>>,
    /// Translations of fabrics along axes, with the number of trees that load all links alike.
    pub(super) translations: Memory<Axes, Option<(usize, Arc<Translations>)>>,
    /// Axis orders of gathers over several axes.
    pub(super) axis_orders: Memory<Vec<Axes>, Vec<AxisOrder>>,
    /// Routes of moves.
    pub(super) ways: Rc<Memory<Move, Arc<Vec<Round>>>>,
}

/// The key of a recipe.
type Asked = (Collective, Layout, Option<Method>);

/// The key of routes: the links of the groups, who holds and wants each cell, and the chunks of a cell. Moves of arrays of
/// other ranks have the same routes.
pub(super) type Move = (Arc<Network>, Rc<Vec<Want>>, u64);

/// A cached result.
type Memory<K, V> = RefCell<FxHashMap<K, V>>;

/// The chosen stages.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) stages: Vec<Stage>,
    /// Timing; `None` if there was no choice, or nothing could be simulated.
    trial: Option<Trial>,
}

impl<'a> Tuner<'a> {
    /// A tuner of recipes on this machine.
    pub fn new(topology: Cow<'a, Topology>, lowering: Lowering) -> Tuner<'a> {
        Tuner {
            topology,
            lowering,
            fewest_operations: false,
            few_chunks: false,
            objective: Objective::Time,
            repeats: 1,
            chosen: RefCell::default(),
            choices: RefCell::default(),
            parts: RefCell::default(),
            working: RefCell::default(),
            trees: RefCell::default(),
            translations: RefCell::default(),
            axis_orders: RefCell::default(),
            ways: Rc::default(),
        }
    }

    /// A tuner of recipes with few operations.
    #[must_use]
    pub fn fewest_operations(self) -> Tuner<'a> {
        Tuner { fewest_operations: true, ..self }
    }

    /// A tuner that doubles the chunks of a collective only while that saves at least 1/32 of its time. Routed moves have
    /// their usual chunks.
    #[must_use]
    pub fn few_chunks(self) -> Tuner<'a> {
        Tuner { few_chunks: true, ..self }
    }

    /// A tuner with another objective.
    #[must_use]
    pub fn by(self, objective: Objective) -> Tuner<'a> {
        Tuner { objective, ..self }
    }

    /// A tuner of collectives that are repeated this number of times in sequence; each but the last takes the busy
    /// time of its busiest link.
    #[must_use]
    pub fn repeated(self, repeats: u64) -> Tuner<'a> {
        Tuner { repeats, ..self }
    }

    /// A tuner that shares the routes of another one. They belong to networks, so the machines may differ.
    #[must_use]
    pub fn sharing(self, other: &Tuner<'_>) -> Tuner<'a> {
        Tuner { ways: Rc::clone(&other.ways), ..self }
    }

    /// The machine.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Options of lowering.
    pub fn lowering(&self) -> Lowering {
        self.lowering
    }

    /// The recipe of a collective on an array with this layout.
    ///
    /// # Errors
    /// If a stage does not support the requested method, or is too large.
    pub fn choose(&self, collective: &Collective, from: &Layout, asked: Option<Method>) -> Result<Arc<Chosen>, Flaw> {
        let key = (collective.clone(), from.clone(), asked);
        if let Some(known) = self.chosen.borrow().get(&key) {
            return known.clone();
        }
        let found = self.find(collective, from, asked).map(Arc::new);
        self.chosen.borrow_mut().insert(key, found.clone());
        found
    }

    /// Whether a collective on an array with this layout can be lowered with a method, without timing it.
    ///
    /// # Errors
    /// As [`Tuner::choose`].
    pub fn supports(&self, collective: &Collective, from: &Layout, method: Method) -> Result<(), Flaw> {
        if self.ragged_alone(collective, from, Some(method)).is_some() {
            return Ok(());
        }
        let idle = |sharding: &_| idle::fastest(&self.topology, sharding);
        let problem = Problem::new(collective, from, Some(method), &self.topology.mesh, idle);
        problem.map_or(Ok(()), |problem| self.candidates(&self.in_order(problem)).map(drop))
    }

    fn find(&self, collective: &Collective, from: &Layout, asked: Option<Method>) -> Result<Chosen, Flaw> {
        let mesh = &self.topology.mesh;
        let operator = from.sharding.operator;
        let axes = collective.axes(&from.sharding, mesh);
        let (busy, choice) = self.choice(collective, from, asked)?;
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
        // Groups without a block send nothing, so that links are idle that detours of other groups pass.
        let trial = match absent(from).without(busy).is_empty() {
            true => trial.or_else(|| part_trial(&part, &schedule, Time::MAX)),
            false => {
                let (part, schedule, _) = self.held(axes, from, &recipe);
                part_trial(&part, &schedule, Time::MAX)
            }
        };
        let (time, links) = trial.map(|trial| (trial.time, trial.links)).unzip();
        Ok(Chosen { recipe, methods, time, links: links.unwrap_or_default(), work: trial::work(&schedule) })
    }

    /// The stages of a collective, and the axes that take part.
    fn choice(
        &self,
        collective: &Collective,
        from: &Layout,
        asked: Option<Method>,
    ) -> Result<(AxisSet, Rc<Choice>), Flaw> {
        let Some((group, ragged)) = self.ragged_alone(collective, from, asked) else {
            return self.of_all_elements(collective, from, asked);
        };
        // It sends the fewest bytes.
        if asked.is_some() || self.objective == Objective::Bytes {
            return Ok((group, Rc::new(ragged)));
        }
        let (busy, other) = self.of_all_elements(collective, from, asked)?;
        let block = (from.dtype, from.local_extents(&self.topology.mesh));
        // An only candidate has not been timed.
        let timed = || Some(self.trial_on(busy, (block.0, &block.1), other.stages.clone(), Time::MAX)?.trial.time);
        let time = other.trial.as_ref().map(|trial| trial.time).or_else(timed);
        let is_faster = time.is_none_or(|time| ragged.trial.as_ref().is_some_and(|trial| trial.time < time));
        Ok(if is_faster { (group, Rc::new(ragged)) } else { (busy, other) })
    }

    /// As [`Tuner::choice`], if all elements are sent.
    fn of_all_elements(
        &self,
        collective: &Collective,
        from: &Layout,
        asked: Option<Method>,
    ) -> Result<(AxisSet, Rc<Choice>), Flaw> {
        let mesh = &self.topology.mesh;
        let axes = collective.axes(&from.sharding, mesh);
        let idle = |sharding: &_| idle::fastest(&self.topology, sharding);
        let problem = Problem::new(collective, from, asked, mesh, idle).map(|problem| match asked {
            None => {
                let runs = problem.runs(mesh).into_iter().map(|(run, _)| run);
                Problem { idle: idle::faster(&self.topology, &from.sharding, runs), ..problem }
            }
            Some(_) => problem,
        });
        Ok(match problem {
            Some(problem) => (problem.busy(), self.best(&self.in_order(problem))?),
            None if collective.kind() == CollectiveKind::Reshard => {
                let size = axes.group_size(mesh);
                let too_large = || Flaw::TooLarge { kind: collective.kind(), axis: axes.names(mesh).to_string(), size };
                let (busy, choice) = self.resharded(collective, from).ok_or_else(too_large)?;
                (busy, Rc::new(choice))
            }
            None => (axes, Rc::new(Choice { stages: self.plain(collective, from), trial: None })),
        })
    }

    /// The cost of a recipe on an array with this layout.
    ///
    /// - `asked`: the requested method.
    pub fn usage(&self, collective: &Collective, from: &Layout, asked: Option<Method>, chosen: &Chosen) -> StepUsage {
        let mesh = &self.topology.mesh;
        let (part, schedule, result) = self.held(collective.axes(&from.sharding, mesh), from, &chosen.recipe);
        let usage = StepUsage::of(Verified::emitted(&schedule), result).renumbered(&|axis| part.whole(axis));
        // In the trial, all devices send.
        let links = match absent(from).is_empty() {
            true => chosen.links.clone(),
            false => part_trial(&part, &schedule, Time::MAX).map(|trial| trial.links).unwrap_or_default(),
        };
        let usage = StepUsage { links, ..usage };
        let working = usage.working.of(mesh, from.sharding.holder());
        self.working.borrow_mut().insert((collective.clone(), from.clone(), asked), working);
        usage
    }

    /// The schedule of a recipe over these axes, on the part of the machine on which devices differ, and its result. If
    /// one device of each group holds the operand, the others neither send nor store it.
    fn held(&self, axes: AxisSet, from: &Layout, recipe: &Recipe) -> (Rc<Part>, Schedule, OpId) {
        let absent = absent(from);
        let part = self.part(axes.union(recipe.borrowed()).union(absent));
        let held = if absent.is_empty() { Sharding::default() } else { part.sharding(&from.sharding) };
        let sharding = Sharding { dims: vec![Axes::NONE; from.dims.len()], ..held };
        let there = recipe.renumbered(&|axis| part.axis(axis));
        let extents = from.local_extents(&self.topology.mesh);
        let (schedule, result) =
            trial::of_block_on(&part.topology, from.dtype, &extents, sharding, |builder, input| {
                there.emit(builder, input)
            });
        (part, schedule, result)
    }

    /// Memory of a device that holds the operand for a collective, in addition to it, if counted.
    pub fn known_working(&self, collective: &Collective, from: &Layout) -> Option<Working> {
        let working = self.working.borrow();
        // Most searches have no memory limit, and count nothing.
        if working.is_empty() { None } else { working.get(&(collective.clone(), from.clone(), None)).copied() }
    }

    /// Number of counted collectives.
    pub fn counted(&self) -> usize {
        self.working.borrow().len()
    }

    /// Recipes of collectives without a choice.
    fn plain(&self, collective: &Collective, from: &Layout) -> Vec<Stage> {
        let mesh = &self.topology.mesh;
        match collective {
            // Over axes of size 1, nothing moves.
            Collective::Permute { .. } if !collective.communicates(&from.sharding, mesh) => Vec::new(),
            Collective::Permute { to } => {
                let axes: Vec<_> = collective.axes(&from.sharding, mesh).iter().collect();
                let sources = permute::sources(&from.sharding, to, &axes, mesh);
                vec![Stage::Permute { axes, sources }]
            }
            Collective::Shift(shift) => {
                let axes = from.sharding.dims[shift.dim()];
                let runs = mesh.runs(axes);
                let runs: Vec<_> = runs.iter().filter(|run| run.group_size(mesh) > 1).collect();
                // Wraparound links are idle otherwise, and all devices do the same.
                let is_closed = |run: &Axes| match self.topology.links(*run).wiring {
                    Wiring::Ring | Wiring::Switch | Wiring::Full | Wiring::Fabric => true,
                    Wiring::Line => false,
                };
                let closed = matches!(runs[..], [run] if is_closed(run));
                vec![Stage::Shift(Shifted { axes, shift: *shift, closed })]
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

    /// Orders the stages of a sum so that little remains for slow links, which the gather undoes in any order, and those of
    /// a broadcast so that few devices send over slow links. Long axes come first where links are equal: the order of the
    /// mesh makes no difference.
    pub(super) fn in_order(&self, problem: Problem) -> Problem {
        let mesh = &self.topology.mesh;
        let runs = mesh.runs(problem.axes()).into_iter();
        let rate = |run: &Axes| idle::into(&self.topology, *run);
        let size = |run: &Axes| run.group_size(mesh);
        let runs: Vec<Axes> = match problem.kind {
            CollectiveKind::AllReduce => runs.sorted_by_key(|run| Reverse((rate(run), size(run)))).collect(),
            CollectiveKind::Broadcast => runs.sorted_by_key(|run| (rate(run), Reverse(size(run)))).collect(),
            _ => return problem,
        };
        let axes: Axes = runs.into_iter().flat_map(|run| run.iter()).collect();
        let n = axes.group_size(mesh);
        let scattered = problem.extents.iter().position(|extent| extent.is_multiple_of(n)).unwrap_or(0);
        let dim = if problem.kind == CollectiveKind::AllReduce { scattered } else { 0 };
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

    /// Times the candidates; the first of equal ones is the simplest.
    fn compare(&self, problem: &Problem) -> Result<Choice, Flaw> {
        let n = problem.axes().group_size(&self.topology.mesh);
        let cut = cut_at(&problem.extents, n).filter(|_| problem.kind == CollectiveKind::AllReduce);
        if let Some((cut, asked)) = cut.zip(problem.asked)
            && scatters(asked, n)
        {
            return Ok(Choice { stages: self.split(problem, cut)?, trial: None });
        }
        if let Some(choice) = self.saturating(problem) {
            return Ok(choice);
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
            let mut work = 0;
            // A slower candidate may still send fewer bytes.
            let fastest = best.as_ref().filter(|_| self.objective == Objective::Time && self.repeats == 1);
            let least = fastest.map_or(Time::MAX, |best| best.trial.time);
            let found = match &candidate.counts[..] {
                [chunks] => self.trial(problem, candidate.stages(*chunks), least, &mut work),
                _ => self.in_chunks(problem, candidate, least, &mut work),
            };
            let figure = |tried: &Tried| tried.figure(self.repeats);
            let is_better = |found: &Tried| best.as_ref().is_none_or(|best| figure(found) < figure(best));
            best = found.filter(is_better).or(best);
        }
        // If no candidate can be simulated, the usual one is used.
        let usual = || candidates.first().map_or_else(Vec::new, |candidate| candidate.stages(candidate.counts[0]));
        Ok(match best {
            Some(Tried { trial, stages, .. }) => Choice { stages, trial: Some(trial) },
            None => Choice { stages: usual(), trial: None },
        })
    }

    /// A gather or a sum along trees and their translations, if all links of the fabric carry the same bytes and are busy with
    /// them nearly all the time. As each element takes as few hops as possible, no other candidate saves more than a fiftieth:
    /// none is tried.
    fn saturating(&self, problem: &Problem) -> Option<Choice> {
        let by_time = self.objective == Objective::Time && !self.fewest_operations;
        let fabric = self.topology.fabric().filter(|_| by_time && problem.asked.is_none())?;
        let stages = self.along_even_trees(problem)?;
        let Tried { trial, stages, .. } = self.trial(problem, stages, Time::MAX, &mut 0)?;
        let [load] = &trial.links[..] else { return None };
        let most = u128::from(load.most.0);
        let if_even = most * u128::from(load.links);
        let is_even = if_even - if_even / HUNDREDTH <= load.total;
        let (time, carrying) = (trial.time.ticks(), self.topology.scale.at_rate(most, fabric.fastest()).ticks());
        (is_even && time <= carrying + carrying / HUNDREDTH).then_some(Choice { stages, trial: Some(trial) })
    }

    /// A candidate with a good number of chunks; `None` if its link load alone exceeds the best time.
    ///
    /// More chunks save time until latencies dominate; but each adds operations, so small savings are ignored. A link
    /// load that is too high with one chunk is too high with many.
    ///
    /// - `work`: effort of the trials of this candidate so far.
    fn in_chunks(&self, problem: &Problem, candidate: &Candidate<'_>, least: Time, work: &mut usize) -> Option<Tried> {
        let mut best: Option<Tried> = None;
        // One increase may not help although the next one does.
        let (mut idle, mut from) = (0, 0);
        let mut nearly_always_busy = false;
        let most = if self.few_chunks { LEAST_SAVING_OF_FEW } else { u128::MAX };
        let least_saving = candidate.least_saving.min(most);
        while idle < 2
            && !nearly_always_busy
            && (best.is_none() || *work <= self.most_work())
            && let Some(chunks) = candidate.counts.iter().copied().find(|count| *count >= from)
        {
            let Some(tried) = self.trial(problem, candidate.stages(chunks), Time::MAX, work) else { break };
            if tried.trial.load >= least {
                return best;
            }
            let (time, load) = (tried.trial.time.ticks(), tried.trial.load.ticks());
            let saves = best.as_ref().is_none_or(|best| {
                let known = best.trial.time.ticks();
                time < known - known / least_saving
            });
            nearly_always_busy = time.saturating_sub(load) <= load / NEARLY_ALL;
            idle = if saves { 0 } else { idle + 1 };
            best = if saves { Some(tried) } else { best };
            from = 2 * chunks;
        }
        best
    }

    /// A move between any two shardings, along the axes on which it is fastest: those on which the shardings differ,
    /// with or without those along which both are replicated.
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
            let (mut idle, mut least, mut work) = (0, 0, 0);
            // More chunks balance the links better, and reduce the wait of data that crosses several of them.
            while idle < 2
                && work <= self.most_work()
                && let Some(chunks) = candidate.counts.iter().copied().find(|count| *count >= least)
                && let Some(tried) = self.trial_on(group, (from.dtype, &extents), candidate.stages(chunks), Time::MAX)
            {
                let saves = best.as_ref().is_none_or(|best| {
                    let known = best.trial.time.ticks();
                    tried.trial.time.ticks() < known - known / candidate.least_saving
                });
                idle = if saves { 0 } else { idle + 1 };
                work = work.saturating_add(tried.trial.work);
                best = if saves { Some(tried) } else { best };
                least = 2 * chunks;
            }
            Some((group, best?))
        });
        let (group, Tried { trial, stages, .. }) = tried.min_by_key(|(_, tried)| tried.figure(self.repeats))?;
        Some((group, Choice { stages, trial: Some(trial) }))
    }

    /// A move of only the used part of an array, unless another method is requested.
    fn ragged_alone(&self, collective: &Collective, from: &Layout, asked: Option<Method>) -> Option<(AxisSet, Choice)> {
        let is_exchange = matches!(collective, Collective::AllToAll { .. } | Collective::Reshard { .. });
        if from.loads().is_none() || !is_exchange || asked.is_some_and(|asked| asked != Method::Routed) {
            return None;
        }
        let mesh = &self.topology.mesh;
        let (group, to) = (collective.axes(&from.sharding, mesh), collective.apply(&from.sharding, mesh)?);
        let stages = vec![self.ragged(from, &to, group)?];
        let tried = self.trial_on(group, (from.dtype, &from.local_extents(mesh)), stages, Time::MAX)?;
        Some((group, Choice { stages: tried.stages, trial: Some(tried.trial) }))
    }

    fn most_work(&self) -> usize {
        if self.topology.is_irregular() { MOST_WORK_DEGRADED } else { MOST_WORK }
    }

    /// Times some stages and counts the effort; `None` also if they reach the time limit.
    fn trial(&self, problem: &Problem, stages: Vec<Stage>, limit: Time, work: &mut usize) -> Option<Tried> {
        let tried = self.trial_on(problem.busy(), (problem.dtype, &problem.extents), stages, limit);
        *work = work.saturating_add(tried.as_ref().map_or(0, |tried| tried.trial.work));
        tried
    }

    /// Times some stages on a block, on the axes that take part.
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

    /// The submachine of some axes.
    pub(super) fn part(&self, axes: AxisSet) -> Rc<Part> {
        let mut parts = self.parts.borrow_mut();
        Rc::clone(parts.entry(axes).or_insert_with(|| Rc::new(Part::new(&self.topology, axes))))
    }
}

/// The axes over which one device of each group holds an array.
fn absent(from: &Layout) -> AxisSet {
    if from.sharding.operator.is_root() { from.sharding.open } else { AxisSet::NONE }
}

/// Times a schedule on a submachine, with link loads by axis of the whole machine.
fn part_trial(part: &Part, schedule: &Schedule, limit: Time) -> Option<Trial> {
    let trial = trial::timed(schedule, &part.topology, limit)?;
    Some(Trial { links: part.on_whole(trial.links), ..trial })
}

/// Timed stages.
struct Tried {
    /// Bytes received by the device that receives the most; 0 if irrelevant.
    received: u64,
    trial: Trial,
    stages: Vec<Stage>,
}

impl Tried {
    /// The objective value for this number of repetitions.
    fn figure(&self, repeats: u64) -> (u64, Time) {
        (self.received, self.trial.time + self.trial.load * repeats.saturating_sub(1))
    }
}

/// With few chunks, twice as many must save at least this part of the time: 1/32.
const LEAST_SAVING_OF_FEW: u128 = 32;

/// Effort of the trials of one candidate after which no more chunks are tried: a broadcast over 1024 devices reaches it.
const MOST_WORK: usize = 1 << 26;

/// The same on machines with degraded links, where trials are less alike: 4096 devices with a failed link reach it.
const MOST_WORK_DEGRADED: usize = 1 << 23;

/// A share that is not worth a search.
const HUNDREDTH: u128 = 100;

/// No more chunks are tried once the busiest link is idle for less than 1/200 of its busy time.
const NEARLY_ALL: u128 = 200;
