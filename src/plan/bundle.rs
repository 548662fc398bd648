//! Bundles: collectives on small arrays that are done as one.
//!
//! A small collective takes its latency, whatever its size. Collectives of one kind over the same axes that do not depend on
//! each other are therefore also tried as one, on an array that holds all of their blocks one after the other:
//!
//! ```text
//! AllReduce_X g, AllReduce_X h      assemble g, h; AllReduce_X; slice g, h
//! ```
//!
//! What is gathered has a part with such blocks for each rank of the group, and so has what is scattered.

use super::{Budget, Plan, StepId, StepOp};
use crate::collective::Collective;
use crate::layout::{Dim, DimId, Layout, Sharding};
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::program::Using;
use crate::recipe::{Chosen, Tuner};
use crate::sim::usage::StepUsage;
use crate::units::Time;
use itertools::Itertools;
use petgraph::algo::is_cyclic_directed;
use petgraph::graph::DiGraph;
use petgraph::visit::EdgeRef;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Collectives that are done as one.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Its collectives, in the order of the plan.
    pub members: Vec<Member>,
    /// The parts of the operand, and those of the result: one for each rank where they are scattered or gathered.
    pub parts: [u64; 2],
    /// The recipe of the one collective.
    pub recipe: Arc<Chosen>,
    /// What it comes to.
    pub usage: StepUsage,
}

/// A collective of a bundle.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its step, in the plan with bodies done once.
    pub step: StepId,
    /// Its elements in each part of the bundle.
    pub elements: Range<u64>,
    /// The dim of its array that is gathered or scattered.
    pub dim: usize,
}

impl Bundle {
    /// Its steps, in the plan with bodies done once.
    pub fn steps(&self) -> impl Iterator<Item = StepId> + '_ {
        self.members.iter().map(|member| member.step)
    }

    /// Elements of a part.
    pub fn elements(&self) -> u64 {
        self.members.last().map_or(0, |member| member.elements.end)
    }
}

/// The collectives that a bundle may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Sum(AxisSet),
    Gather(Axes),
    Scatter(Axes),
}

impl Kind {
    /// The kind of a collective of one dim, and that dim.
    fn of(collective: &Collective, from: &Sharding) -> Option<(Kind, usize)> {
        match collective {
            Collective::AllReduce { axes } => Some((Kind::Sum(*axes), 0)),
            Collective::AllGather { axes } => {
                let gathered = |own: &Axes| own.iter().filter(|axis| axes.contains(*axis)).collect::<Axes>();
                let one = from.dims.iter().map(gathered).enumerate().filter(|(_, gathered)| !gathered.is_empty());
                one.exactly_one().ok().map(|(dim, gathered)| (Kind::Gather(gathered), dim))
            }
            Collective::ReduceScatter { dims } => {
                let one = dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty()).exactly_one();
                one.ok().map(|(dim, axes)| (Kind::Scatter(*axes), dim))
            }
            Collective::AllToAll { .. }
            | Collective::Permute { .. }
            | Collective::Reshard { .. }
            | Collective::Shift(_)
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => None,
        }
    }

    /// The parts of its operand and of its result; see [`Bundle::parts`].
    fn parts(self, mesh: &Mesh) -> [u64; 2] {
        match self {
            Kind::Sum(_) => [1, 1],
            Kind::Gather(axes) => [1, axes.group_size(mesh)],
            Kind::Scatter(axes) => [axes.group_size(mesh), 1],
        }
    }

    /// The collective on an array of one dim.
    fn collective(self) -> Collective {
        match self {
            Kind::Sum(axes) => Collective::AllReduce { axes },
            Kind::Gather(axes) => Collective::AllGather { axes: axes.set() },
            Kind::Scatter(axes) => Collective::ReduceScatter { dims: vec![axes] },
        }
    }
}

/// Collectives of which any may be bundled: of one kind, and none depends on another one.
#[derive(Clone, Debug)]
pub struct Alike {
    kind: Kind,
    /// Those of the smallest blocks come first, each with its dim.
    steps: Vec<(StepId, usize)>,
}

/// The groups of steps that may be bundled.
///
/// - `plan`: with bodies done once.
pub fn alike(plan: &Plan) -> Vec<Alike> {
    let mesh = &plan.program.mesh;
    let levels = levels(plan);
    let mut groups: BTreeMap<_, Alike> = BTreeMap::new();
    for id in plan.ids().filter(|id| plan.communicates(*id)) {
        let step = plan.step(id);
        let StepOp::Collective(collective) = &step.op else { continue };
        let from = &plan.step(plan.operands(id)[0]).layout;
        let Some((kind, dim)) = Kind::of(collective, &from.sharding) else { continue };
        // Functions before or after a combination, such as the division of a mean, apply to one array.
        let operator = from.sharding.operator;
        let is_plain = matches!(kind, Kind::Gather(_)) || operator.combiner() == operator;
        if !is_plain || operator.is_root() || plan.program.value(step.user).using != Using::default() {
            continue;
        }
        let adds = (from.sharding.open, format!("{operator:?} {:?}", from.dtype));
        let key = (levels[id.index()], plan.body(id), kind, adds);
        groups.entry(key).or_insert_with(|| Alike { kind, steps: Vec::new() }).steps.push((id, dim));
    }
    let mut groups: Vec<Alike> = groups.into_values().filter(|group| group.steps.len() > 1).collect();
    for group in &mut groups {
        group.steps.sort_by_key(|(id, _)| (plan.step(*id).layout.local_bytes(mesh), *id));
        group.steps.truncate(Budget::MOST_BUNDLED);
    }
    groups
}

/// The number of collectives on the longest path behind each step. Collectives of one level do not depend on each other, and
/// neither do bundles of one level.
fn levels(plan: &Plan) -> Vec<usize> {
    let mut levels = vec![0; plan.steps.node_count()];
    for id in plan.ids().collect::<Vec<_>>().into_iter().rev() {
        let behind = plan.steps.neighbors(id).map(|user| levels[user.index()] + usize::from(plan.communicates(user)));
        levels[id.index()] = behind.max().unwrap_or(0);
    }
    levels
}

/// Whether each bundle and each kernel can be done at once: none of them waits for itself by way of others.
pub fn are_apart(plan: &Plan, bundles: &[Bundle]) -> bool {
    let mut units: Vec<u32> = (0..).take(plan.steps.node_count()).collect();
    let bundled = bundles.iter().map(|bundle| bundle.steps().collect_vec());
    for steps in plan.kernels.iter().cloned().chain(bundled) {
        let unit = units[steps[0].index()];
        steps.into_iter().for_each(|id| units[id.index()] = unit);
    }
    let edges = plan.steps.edge_references();
    let edges = edges.map(|edge| (units[edge.source().index()], units[edge.target().index()]));
    !is_cyclic_directed(&DiGraph::<(), ()>::from_edges(edges.filter(|(from, to)| from != to)))
}

impl Alike {
    /// Its steps; those of the smallest blocks come first.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = StepId> + '_ {
        self.steps.iter().map(|(step, _)| *step)
    }

    /// Those of its steps of which this is not true.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(StepId) -> bool) -> Alike {
        Alike { kind: self.kind, steps: self.steps.iter().copied().filter(|(id, _)| !is_left_out(*id)).collect() }
    }

    /// The steps with the smallest blocks whose bundle saves the most time if steps are done one after the other, and that
    /// time; `None` if none saves any.
    pub fn best(&self, plan: &Plan, tuner: &Tuner<'_>) -> Option<(Time, Vec<StepId>)> {
        let all = self.steps.len();
        let doubled = std::iter::successors(Some(2), |count| Some(count * 2)).take_while(|count| *count < all);
        let counts = doubled.chain([all]).filter(|count| *count > 1);
        let saved = |count: usize| {
            let steps = &self.steps[..count];
            let (members, from) = self.laid_out(plan, steps)?;
            let time = tuner.choose(&self.kind.collective(), &from, None).ok()?.time?;
            let apart: Time = members.iter().map(|member| plan.step(member.step).cost.time).sum();
            let saved = apart.ticks().checked_sub(time.ticks()).filter(|ticks| *ticks > 0)?;
            Some((Time::from_ticks(saved), members.iter().map(|member| member.step).collect()))
        };
        counts.filter_map(saved).max_by_key(|(saved, _)| *saved)
    }

    /// The bundles of these steps in this number of parts, in the order of the plan.
    pub fn in_parts(&self, plan: &Plan, tuner: &Tuner<'_>, steps: &[StepId], parts: usize) -> Vec<Bundle> {
        let own = self.steps.iter().copied().filter(|(id, _)| steps.contains(id)).sorted().collect_vec();
        let parts = own.chunks(own.len().div_ceil(parts).max(1)).filter(|part| part.len() > 1);
        parts.filter_map(|part| self.of(plan, tuner, part)).collect()
    }

    fn of(&self, plan: &Plan, tuner: &Tuner<'_>, steps: &[(StepId, usize)]) -> Option<Bundle> {
        let (members, from) = self.laid_out(plan, steps)?;
        let collective = self.kind.collective();
        let recipe = tuner.choose(&collective, &from, None).ok()?;
        let usage = tuner.usage(&collective, &from, None, &recipe);
        Some(Bundle { members, parts: self.kind.parts(&plan.program.mesh), recipe, usage })
    }

    /// The members of the bundle of some steps, and the layout of its operand.
    fn laid_out(&self, plan: &Plan, steps: &[(StepId, usize)]) -> Option<(Vec<Member>, Layout)> {
        let mesh = &plan.program.mesh;
        let mut end = 0u64;
        let mut members = Vec::with_capacity(steps.len());
        let operand = |id: StepId| &plan.step(plan.operands(id)[0]).layout;
        for (step, dim) in steps.iter().copied().sorted() {
            // Of what is gathered the operand, and of what is scattered the result, is one part.
            let [before, after] = [operand(step), &plan.step(step).layout].map(|layout| layout.local_extents(mesh));
            let part = if matches!(self.kind, Kind::Scatter(_)) { after } else { before };
            let start = end;
            end = end.checked_add(part.iter().product())?;
            members.push(Member { step, elements: start..end, dim });
        }
        // Along axes of which another array is sharded, devices hold other blocks.
        let sharded = members.iter().map(|member| operand(member.step).sharding.dim_axes());
        let sharded = sharded.fold(AxisSet::NONE, AxisSet::union);
        let [parts, _] = self.kind.parts(mesh);
        let moved = match self.kind {
            Kind::Sum(_) => Axes::NONE,
            Kind::Gather(axes) | Kind::Scatter(axes) => axes,
        };
        let others = sharded.without(moved.set()).in_order();
        let here = if let Kind::Gather(_) = self.kind { others.iter().chain(moved.iter()).collect() } else { others };
        let dim = Dim { id: DimId(0), size: end.checked_mul(parts)?.checked_mul(here.group_size(mesh))? };
        let first = operand(members.first()?.step);
        let sharding = Sharding { dims: vec![here], ..first.sharding.clone() };
        Some((members, Layout { dtype: first.dtype, dims: vec![dim], sharding, used: None }))
    }
}
