//! Runs of steps that are split into pieces, so communication of one piece overlaps computation of another.
//!
//! A dim that all steps of a run keep, or that the last one contracts, is split into pieces. For the gather of
//! `A[I_X, J]` and its product with `B[J, K]`, with two pieces per shard of I:
//!
//! ```text
//! gather A        -> links    |gather A.0|gather A.1|
//! product A * B   -> devices             |product 0 |product 1|
//! ```
//!
//! A piece of an array consists of the elements in one part of each shard: an array in the same layout with a shorter
//! dim, to which the same steps apply. Products, functions and reductions along other dims apply to each piece;
//! products and reductions along the split dim add up; moves of shards apply to the pieces of shards.

use super::bundle::Bundle;
use super::division::Division;
use super::{Budget, Plan, Step, StepId, StepOp};
use crate::collective::Collective;
use crate::einsum::Index;
use crate::function::Function;
use crate::layout::{DimId, Layout};
use crate::mesh::Mesh;
use crate::operator::Operator;
use crate::recipe::{Chosen, Tuner};
use crate::sim::usage::StepUsage;
use crate::units::{Bytes, Time, gcd};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Overlap of the steps of a plan.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    /// Split runs in order; each communicating step is in at most one.
    pub pipelines: Vec<Pipeline>,
    /// Collectives that are done as one, none of them in a split run. With bundles, items are in the order [`Order::Ready`].
    pub bundles: Vec<Bundle>,
    /// Order of steps and pieces.
    pub order: Order,
    /// Steps that come before other ready ones in the order [`Order::Ready`], in the plan with bodies done once.
    pub urgent: BTreeSet<StepId>,
    /// Figures of the whole schedule, if they are known.
    pub whole: Option<Whole>,
    /// Usage of the steps that it changes, without it.
    pub before: BTreeMap<StepId, StepUsage>,
}

impl Overlap {
    /// The run of a collective of the plan with bodies done once.
    pub fn pipeline(&self, id: StepId) -> Option<&Pipeline> {
        let moves = |pipeline: &&Pipeline| pipeline.steps.get(&id).is_some_and(|piece| !piece.moved.is_empty());
        self.pipelines.iter().find(moves)
    }

    /// Whether whole steps are executed in program order.
    pub fn is_none(&self) -> bool {
        self.pipelines.is_empty() && self.bundles.is_empty() && self.order == Order::Program
    }
}

/// Figures of overlapping steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Simulated time.
    pub time: Time,
    /// Peak memory of a device.
    pub peak: Bytes,
}

/// Order of steps and pieces, which is the service order of links and engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Plan order, all pieces of a step together.
    #[default]
    Program,
    /// Ready items first, by critical path.
    Ready,
}

/// A split run.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its steps, in the plan with bodies done once.
    pub steps: BTreeMap<StepId, Piece>,
    /// The split dim, as in its first step.
    pub dim: DimId,
    /// How each shard of the dim is divided into pieces.
    pub division: Division,
    /// Largest number of shards of the dim per device.
    shards: u64,
}

impl Pipeline {
    /// Traffic and links of all pieces of a collective; `None` of other steps.
    pub fn moved(&self, id: StepId, mesh: &Mesh) -> Option<StepUsage> {
        let moved = &self.steps.get(&id)?.moved;
        let each = self.division.lengths().into_iter().map(|length| moved.get(&length).map(|moved| &moved.usage));
        let all = each.collect::<Option<Vec<_>>>()?;
        let (first, others) = all.split_first()?;
        Some(others.iter().fold((*first).clone(), |sum, usage| sum.then(usage, mesh)))
    }

    /// Number of shards of the split dim per device, for an array in this layout.
    pub(super) fn shards_of(&self, layout: &Layout, dim: usize, plan: &Plan) -> u64 {
        self.shards / layout.sharding.dims[dim].group_size(&plan.program.mesh)
    }
}

/// A piece of a step.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Splits of its operands and its result.
    pub cut: Cut,
    /// Of a collective: how pieces are moved, by length in units of the division.
    pub moved: BTreeMap<u64, PieceMove>,
}

/// How a piece is moved.
#[derive(Clone, Debug)]
pub struct PieceMove {
    /// Recipe of the collective.
    pub chosen: Arc<Chosen>,
    /// Its traffic, memory and links.
    pub usage: StepUsage,
}

/// The split dim of each array of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// By operand; `None` if each piece reads the whole.
    pub operands: Vec<Option<usize>>,
    /// Of the result; `None` if the pieces add up.
    pub result: Option<usize>,
}

/// Steps that can be split together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The split of each step.
    cuts: BTreeMap<StepId, Cut>,
    dim: DimId,
}

/// The operator that combines the pieces of a step if the split dim is reduced.
pub(super) fn adds_by(step: &Step) -> Option<Operator> {
    match &step.op {
        StepOp::Product { .. } | StepOp::Kernel(_) => Some(Operator::Sum),
        StepOp::Reduce { operator, .. } => Some(operator.combiner()).filter(|operator| operator.folds()),
        StepOp::Input | StepOp::Carry | StepOp::Map { .. } | StepOp::Collective(_) => None,
    }
}

/// The split of a step along one of its indices; the indices of a collective are its dims.
fn cut(step: &Step, operands: usize, index: Index) -> Option<Cut> {
    let place = usize::from(index);
    let found = match &step.op {
        StepOp::Input | StepOp::Carry => return None,
        StepOp::Collective(_) => Cut { operands: vec![Some(place); operands], result: Some(place) },
        StepOp::Product { einsum } | StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
            let at = |indices: &Vec<Index>| indices.iter().position(|known| *known == index);
            Cut { operands: einsum.operands.iter().map(at).collect(), result: at(&einsum.result) }
        }
        StepOp::Kernel(kernel) => {
            if !kernel.sharded[place] {
                return None;
            }
            let at = |indices: &Vec<Index>| indices.iter().position(|known| *known == index);
            Cut { operands: kernel.einsum.operands.iter().map(at).collect(), result: at(&kernel.einsum.result) }
        }
    };
    let is_along = match &step.op {
        StepOp::Map { function: Function::Softmax { dim } | Function::Fill { dim, .. }, .. } => {
            found.result == Some(usize::from(*dim))
        }
        StepOp::Map { function: Function::Shift(shift), .. } | StepOp::Collective(Collective::Shift(shift)) => {
            found.result == Some(shift.dim())
        }
        _ => false,
    };
    let adds_up = found.result.is_some() || adds_by(step).is_some();
    (adds_up && !is_along && found.operands.iter().any(Option::is_some)).then_some(found)
}

/// The index of a step at a dim of its result or of an operand.
fn index_at(step: &Step, operand: Option<usize>, dim: usize) -> Option<Index> {
    match &step.op {
        StepOp::Input | StepOp::Carry => None,
        StepOp::Collective(_) => Index::try_from(dim).ok(),
        StepOp::Product { einsum } | StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
            operand.map_or(&einsum.result, |place| &einsum.operands[place]).get(dim).copied()
        }
        StepOp::Kernel(kernel) => {
            operand.map_or(&kernel.einsum.result, |place| &kernel.einsum.operands[place]).get(dim).copied()
        }
    }
}

/// All indices of a step.
fn indices(step: &Step) -> Vec<Index> {
    let count = match &step.op {
        StepOp::Input | StepOp::Carry => 0,
        StepOp::Collective(_) => step.layout.dims.len(),
        StepOp::Product { einsum } | StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => einsum.index_count(),
        StepOp::Kernel(kernel) => kernel.einsum.index_count(),
    };
    (0..count).filter_map(|index| Index::try_from(index).ok()).collect()
}

/// A step and one of its indices.
type Seed = (StepId, Index);

/// State of growing runs.
struct Grower<'a> {
    plan: &'a Plan,
    operands: Vec<Vec<StepId>>,
    users: Vec<Vec<(StepId, usize)>>,
    /// The other members of the kernel of each step.
    kernel: BTreeMap<StepId, &'a Vec<StepId>>,
}

/// The sections of the maximal runs of a plan that both communicate and compute. No section has more than eight
/// collectives and products after its first.
///
/// - `plan`: with bodies done once.
pub fn windows(plan: &Plan) -> BTreeSet<Run> {
    let grower = Grower::new(plan);
    grower.runs().iter().flat_map(|run| grower.sections(run)).collect()
}

impl<'a> Grower<'a> {
    fn new(plan: &'a Plan) -> Grower<'a> {
        let operands: Vec<Vec<StepId>> = plan.ids().map(|id| plan.operands(id)).collect();
        let mut users = vec![Vec::new(); operands.len()];
        for (id, own) in plan.ids().zip(&operands) {
            own.iter().enumerate().for_each(|(place, operand)| users[operand.index()].push((id, place)));
        }
        let kernel = plan.kernels.iter().flat_map(|kernel| kernel.iter().map(move |id| (*id, kernel))).collect();
        Grower { plan, operands, users, kernel }
    }

    /// All maximal runs that communicate.
    fn runs(&self) -> BTreeSet<Run> {
        let plan = self.plan;
        let is_seed = |id: &StepId| {
            plan.communicates(*id)
                || matches!(plan.step(*id).op, StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Kernel(_))
        };
        let seeds: Vec<Seed> = plan
            .ids()
            .filter(is_seed)
            .flat_map(|id| indices(plan.step(id)).into_iter().map(move |index| (id, index)))
            .collect();
        let mut found: BTreeSet<Run> = BTreeSet::new();
        // A run of a long program is grown once, not from each of its steps.
        let mut known: BTreeSet<(StepId, Cut)> = BTreeSet::new();
        for (id, index) in &seeds {
            let is_known = || Some((*id, cut(plan.step(*id), self.operands[id.index()].len(), *index)?));
            if seeds.len() > Budget::MOST_SEEDS && is_known().is_some_and(|cut| known.contains(&cut)) {
                continue;
            }
            if let Some(run) = self.grow((*id, *index)) {
                known.extend(run.cuts.iter().map(|(id, cut)| (*id, cut.clone())));
                found.insert(run);
            }
        }
        found.retain(|run| run.steps().any(|id| plan.communicates(id)));
        found
    }

    /// The sections of a run that are split by themselves.
    fn sections(&self, run: &Run) -> Vec<Run> {
        let ids: Vec<StepId> = run.steps().collect();
        let is_end = |id: StepId| self.plan.communicates(id) || matches!(self.plan.step(id).op, StepOp::Product { .. });
        let ends: Vec<usize> = (0..ids.len()).filter(|at| is_end(ids[*at])).collect();
        let mut found: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (place, first) in ends.iter().enumerate() {
            let near =
                ends.iter().enumerate().skip(place + 1).take_while(|(_, last)| *last - first <= Budget::MOST_ENDS);
            for (end, last) in near {
                // Functions before the first step and after the last one may be included.
                let from = place.checked_sub(1).map_or(0, |before| ends[before] + 1);
                let to = ends.get(end + 1).copied().unwrap_or(ids.len());
                found.extend([(*first, *last + 1), (from, to)]);
            }
        }
        let sections = found.into_iter().map(|(from, to)| &ids[from..to]).filter(|steps| self.is_whole(run, steps));
        let section = |steps: &[StepId]| steps.iter().map(|id| (*id, run.cuts[id].clone())).collect();
        sections.map(|steps| Run { cuts: section(steps), dim: run.dim }).collect()
    }

    /// Whether a section of a run communicates, contains whole kernels, and is convex.
    ///
    /// - `steps`: its steps in ascending order.
    fn is_whole(&self, run: &Run, steps: &[StepId]) -> bool {
        let has = |id: &StepId| steps.binary_search(id).is_ok();
        let is_split = |id: &StepId| self.kernel.get(id).is_some_and(|kernel| !kernel.iter().all(has));
        if !steps.iter().any(|id| self.plan.communicates(*id)) || steps.iter().any(is_split) {
            return false;
        }
        // Steps are in topological order, so steps before the first or after the last one are on no path within the
        // section.
        let ends = steps.first().zip(steps.last());
        let between = ends.map_or(0..0, |(first, last)| first.index()..last.index() + 1);
        let mut behind: BTreeSet<StepId> = BTreeSet::new();
        for id in between.map(StepId::new) {
            let operands = &self.operands[id.index()];
            let comes_back = operands.iter().any(|operand| behind.contains(operand));
            if has(&id) {
                let complete = operands.iter().any(|operand| has(operand) && run.cuts[operand].result.is_none());
                if comes_back || complete {
                    return false;
                }
            } else if comes_back || operands.iter().any(has) {
                behind.insert(id);
            }
        }
        true
    }

    /// The maximal run that contains the seed.
    fn grow(&self, (id, index): Seed) -> Option<Run> {
        let mut cuts = BTreeMap::new();
        let mut refused: BTreeSet<Seed> = BTreeSet::new();
        let mut frontier = vec![(id, index)];
        while let Some(seed) = frontier.pop() {
            if cuts.contains_key(&seed.0) || refused.contains(&seed) {
                continue;
            }
            let Some(more) = self.joined(&cuts, seed) else {
                refused.insert(seed);
                continue;
            };
            for (id, cut) in more {
                frontier.extend(self.neighbours(id, &cut));
                cuts.insert(id, cut);
            }
        }
        let dim = self.dim(id, cuts.get(&id)?)?;
        Some(Run { cuts, dim })
    }

    /// The dim along which a step is split.
    fn dim(&self, id: StepId, cut: &Cut) -> Option<DimId> {
        let of = |id: StepId, place: usize| self.plan.step(id).layout.dims.get(place).map(|dim| dim.id);
        let operand = cut.operands.iter().zip(&self.operands[id.index()]).find_map(|(place, id)| of(*id, (*place)?));
        operand.or_else(|| of(id, cut.result?))
    }

    /// The splits that a split step implies for its operands and users.
    fn neighbours(&self, id: StepId, cut: &Cut) -> Vec<Seed> {
        let plan = self.plan;
        let operands = self.operands[id.index()].iter().zip(&cut.operands);
        let before =
            operands.filter_map(|(operand, dim)| Some((*operand, index_at(plan.step(*operand), None, (*dim)?)?)));
        let users = self.users[id.index()].iter();
        let after =
            users.filter_map(|(user, place)| Some((*user, index_at(plan.step(*user), Some(*place), cut.result?)?)));
        before.chain(after).collect()
    }

    /// The kernel of a step, all of it split consistently; `None` on conflict.
    fn joined(&self, cuts: &BTreeMap<StepId, Cut>, (id, index): Seed) -> Option<Vec<(StepId, Cut)>> {
        let alone = vec![id];
        let members = self.kernel.get(&id).copied().unwrap_or(&alone);
        let body = self.plan.body(id);
        let mut more: BTreeMap<StepId, Cut> = BTreeMap::new();
        let mut frontier = vec![(id, index)];
        while let Some((id, index)) = frontier.pop() {
            if !members.contains(&id) || more.contains_key(&id) {
                continue;
            }
            let cut = cut(self.plan.step(id), self.operands[id.index()].len(), index)?;
            frontier.extend(self.neighbours(id, &cut));
            more.insert(id, cut);
        }
        let known = |id: &StepId| more.get(id).or_else(|| cuts.get(id));
        let fits = |(id, cut): (&StepId, &Cut)| {
            let operands = self.operands[id.index()].iter().zip(&cut.operands);
            let mut before = operands
                .map(|(operand, dim)| known(operand).is_none_or(|own| own.result.is_some() && own.result == *dim));
            let mut after = self.users[id.index()].iter().map(|(user, place)| {
                known(user).is_none_or(|own| cut.result.is_some() && own.operands[*place] == cut.result)
            });
            self.plan.body(*id) == body && before.all(|fits| fits) && after.all(|fits| fits)
        };
        let all = members.iter().all(|id| more.contains_key(id)) && more.iter().all(fits);
        all.then(|| more.into_iter().collect())
    }
}

impl Pipeline {
    /// The run before it was split.
    pub fn run(&self) -> Run {
        Run { cuts: self.steps.iter().map(|(id, piece)| (*id, piece.cut.clone())).collect(), dim: self.dim }
    }
}

impl Run {
    /// Its steps.
    pub fn steps(&self) -> impl Iterator<Item = StepId> + '_ {
        self.cuts.keys().copied()
    }

    /// A key of everything that determines its time.
    pub fn shape(&self, plan: &Plan) -> String {
        let place = |id: StepId| self.cuts.keys().position(|known| *known == id);
        let of = |(id, cut): (&StepId, &Cut)| {
            let (step, operands) = (plan.step(*id), plan.operands(*id));
            let read = operands.iter().map(|operand| (place(*operand), &plan.step(*operand).layout)).collect_vec();
            let method = plan.program.value(step.user).using.method;
            let kernel = plan.kernel(*id).map(place);
            let leaves = plan.outputs.contains(id) || plan.steps.neighbors(*id).any(|user| place(user).is_none());
            format!("{:?} {read:?} {:?} {cut:?} {method:?} {kernel:?} {leaves} {:?}", step.op, step.layout, step.cost)
        };
        self.cuts.iter().map(of).join("\n")
    }

    /// Whether it can be split in addition to others: shared steps are computations, and each run splits another dim
    /// of them.
    pub fn fits(&self, others: &[Pipeline]) -> bool {
        let both = others
            .iter()
            .flat_map(|other| self.cuts.iter().filter_map(move |(id, cut)| Some((cut, other.steps.get(id)?))));
        both.into_iter().all(|(cut, piece)| {
            let same = |(own, other): (&Option<usize>, &Option<usize>)| own.is_some() && own == other;
            let operands = || cut.operands.iter().zip(&piece.cut.operands);
            piece.moved.is_empty() && !operands().chain([(&cut.result, &piece.cut.result)]).any(same)
        })
    }

    /// Whether shards divide into the pieces of a division.
    pub fn divides(&self, plan: &Plan, division: Division) -> bool {
        let (length, units) = (self.shards(plan).map(|(length, _)| length), division.units());
        length.zip(units).is_some_and(|(length, units)| length.is_multiple_of(units))
    }

    /// Splits the run into pieces; `None` if shards do not divide into them, or a collective has no recipe.
    ///
    /// - `tuner`: on the mesh of the plan.
    pub fn in_pieces(&self, plan: &Plan, division: Division, tuner: &Tuner<'_>) -> Option<Pipeline> {
        let (_, shards) = self.shards(plan)?;
        let units = division.units()?;
        if !self.divides(plan, division) {
            return None;
        }
        let lengths: BTreeSet<u64> = division.lengths().into_iter().collect();
        // Blocks of a declared kernel divide its dims.
        let is_kernel = |id: StepId| matches!(plan.step(id).op, StepOp::Kernel(_));
        if self.steps().any(is_kernel) && !lengths.iter().all(|length| units.is_multiple_of(*length)) {
            return None;
        }
        let piece = |(id, cut): (&StepId, &Cut)| {
            let step = plan.step(*id);
            let moved = match (&step.op, cut.operands.first()) {
                (StepOp::Collective(collective), Some(Some(dim))) => {
                    let moved = |length: &u64| {
                        let mut from = plan.step(plan.operands(*id)[0]).layout.clone();
                        from.dims[*dim].size = from.dims[*dim].size / units * length;
                        let asked = plan.program.value(step.user).using.method;
                        let chosen = tuner.choose(collective, &from, asked).ok()?;
                        chosen.time?;
                        let usage = tuner.usage(collective, &from, asked, &chosen);
                        Some((*length, PieceMove { chosen, usage }))
                    };
                    lengths.iter().map(moved).collect::<Option<_>>()?
                }
                _ => BTreeMap::new(),
            };
            Some((*id, Piece { cut: cut.clone(), moved }))
        };
        let steps = self.cuts.iter().map(piece).collect::<Option<_>>()?;
        Some(Pipeline { steps, dim: self.dim, division, shards })
    }

    /// Length of a shard of the split dim, and the largest number of shards per device; `None` if pieces would differ in
    /// their padding.
    pub fn shards(&self, plan: &Plan) -> Option<(u64, u64)> {
        let mesh = &plan.program.mesh;
        let mut shards = 1u64;
        let mut length = None;
        for (id, cut) in &self.cuts {
            let operands = plan.operands(*id);
            let arrays = operands.iter().copied().zip(cut.operands.iter().copied()).chain([(*id, cut.result)]);
            for (array, dim) in arrays {
                let Some(dim) = dim else { continue };
                let layout = &plan.step(array).layout;
                let of = layout.dims.get(dim)?;
                if plan.program.dims.size(of.id) != of.size || *length.get_or_insert(of.size) != of.size {
                    return None;
                }
                let count = layout.sharding.dims[dim].group_size(mesh);
                shards = (shards / gcd(shards, count)).checked_mul(count)?;
            }
        }
        length?.is_multiple_of(shards).then_some((length? / shards, shards))
    }
}
