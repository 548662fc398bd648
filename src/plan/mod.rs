//! Program to [`Plan`]: which local computation each device does, and which collectives stand between.
//!
//! A product is a choice of what each mesh axis does in its iteration space; resharding is a shortest path between
//! shardings. What a move costs is asked through one trait, [`Costs`].

mod alternatives;
mod assignments;
mod beside;
mod branch;
mod budget;
mod build;
mod case;
mod few;
mod floor;
mod fused;
mod holes;
mod layouts;
mod lazy;
mod limits;
mod listing;
mod parts;
mod pins;
mod pipeline;
mod prices;
mod print;
mod reshard;
mod reshards;
mod rewrites;
mod score;
mod search;
mod splits;
mod stop;
mod unit_axes;
pub mod unroll;
mod usage;

pub use crate::recipe::Objective;
pub use budget::Budget;
pub use floor::{Least, least};
pub use listing::{Item, Listing, Part, Pieces};
pub use pipeline::{Cut, Order, Overlap, Piece, Pipeline, Run, Whole, runs};
pub use print::collective_name;
pub use rewrites::Rewriting;
pub use stop::Stop;

use crate::collective::Collective;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::fusion::{Access, Fusion};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::operator::Operator;
use crate::program::{Program, ValueId};
use crate::recipe::{Chosen, Flaw, Tuner};
use crate::sim::usage::{StepUsage, Usage};
use crate::span::Span;
use crate::topology::Shape;
use crate::units::{Bytes, Time};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use reshard::SearchOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// What a plan asks of a cost model. Times are isolated: nothing else runs meanwhile.
pub trait Costs {
    /// The time of one collective, and what limits it.
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost;

    /// A cost that the collective is not below, where the cost itself takes long to find.
    fn at_least(&self, _collective: &Collective, _from: &Layout) -> Option<Cost> {
        None
    }

    /// Whether times are those of recipes on the clock.
    fn is_by_clock(&self) -> bool {
        false
    }

    /// The time of a local product.
    fn product(&self, work: &LocalWork) -> Cost;

    /// The time of an elementwise function.
    fn map(&self, work: &LocalWork) -> Cost;

    /// Which local computations run as one kernel.
    fn fusion(&self) -> Fusion {
        Fusion::None
    }

    /// The same costs where axes are in other parts; `None` if plans by these costs are not to cut axes.
    fn seen_as(&self, _mesh: &Mesh) -> Option<Box<dyn Costs + '_>> {
        None
    }

    /// What a plan is chosen by.
    fn objective(&self) -> Objective {
        Objective::Time
    }

    /// Who finds the operations that collectives become, where these costs are of such.
    fn tuner(&self) -> Option<&Tuner<'_>> {
        None
    }

    /// The name it has on the command line.
    fn name(&self) -> &'static str;
}

/// What one device has to do in a local computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWork {
    /// The dtype that picks the arithmetic unit: a float if any operand is one.
    pub dtype: DType,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes read and written, as [`Access`] has it.
    pub traffic: Bytes,
    /// The extents of a product; none where rows are looked up, and of what is no product.
    pub shape: Option<Shape>,
    /// Whether a kernel starts with it.
    pub starts: bool,
}

impl LocalWork {
    /// The work of one device on blocks of these layouts, which are all read and written.
    pub fn new(einsum: &Einsum, operands: &[Layout], result: &Layout, mesh: &Mesh) -> LocalWork {
        LocalWork::in_kernel(einsum, operands, result, mesh, &Access::alone(operands.len()), |_| 0)
    }

    /// The same in a kernel.
    ///
    /// - `paid`: the bytes that a product has written in place of a result behind it.
    pub fn in_kernel(
        einsum: &Einsum,
        operands: &[Layout],
        result: &Layout,
        mesh: &Mesh,
        access: &Access,
        paid: impl FnOnce(usize) -> u64,
    ) -> LocalWork {
        let extents: Vec<Vec<u64>> = operands.iter().map(|layout| layout.local_extents(mesh)).collect();
        let bytes = |(place, layout): (usize, &Layout)| match access.lookup {
            Some(lookup) => {
                let bytes = lookup.reads(einsum, &extents, place).saturating_mul(u128::from(layout.dtype.size()));
                Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
            None => layout.local_bytes(mesh),
        };
        let read = operands.iter().enumerate().zip(&access.reads).filter(|(_, is_read)| **is_read);
        let read = read.map(|(operand, _)| bytes(operand));
        let traffic = read.chain([Bytes(access.writes.of(result.local_bytes(mesh).0, paid))]).sum();
        let flops = match access.lookup {
            Some(lookup) => lookup.flops(einsum, &extents),
            None => einsum.flops(&extents),
        };
        // Integers take the integer unit only among themselves.
        let unit = operands.iter().map(|layout| layout.dtype).max_by_key(|dtype| (dtype.is_float(), dtype.size()));
        let shape = if access.lookup.is_some() { None } else { Shape::of(einsum, &extents) };
        LocalWork { dtype: unit.unwrap_or(result.dtype), flops, traffic, shape, starts: access.starts }
    }
}

/// A time and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The time.
    pub time: Time,
    /// The bytes that a device receives at the least; where plans are chosen by bytes, those that it does receive.
    pub received: Bytes,
    /// What would have to be faster for it to take less time.
    pub limit: Limit,
}

/// What limits a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: it takes no time.
    Free,
    /// Hops that take their least time.
    Latency,
    /// Bytes over links.
    Bandwidth,
    /// Floating-point operations.
    Compute,
    /// Bytes from and to memory.
    Memory,
}

impl Limit {
    /// For people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Free => "free",
            Limit::Latency => "latency",
            Limit::Bandwidth => "bandwidth",
            Limit::Compute => "compute",
            Limit::Memory => "memory",
        }
    }
}

/// What is asked of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Only collectives and moves that are written communicate; slices are free to all.
    pub written: bool,
    /// Programs that compute the same are looked at, too, where any move may be made.
    pub rewrites: bool,
    /// The ways in which each product could have been done are kept; to price them takes as long again.
    pub alternatives: bool,
    /// How much may be looked at.
    pub budget: Budget,
}

/// Chooses the layouts of all values and the moves between them, by the sum of the isolated times of the steps.
///
/// The search goes on until no plan can be cheaper, or it takes too long; then the plan carries what none is below.
/// Equal moves of one value are done once.
///
/// # Errors
/// If a value cannot be brought into the layout that is asked for; a checked program has no such value.
///
/// # Panics
/// If `costs` are those of a machine with another mesh than the program's.
pub fn plan(program: &Program, costs: &dyn Costs) -> Result<Plan, PlanError> {
    plan_as(program, costs, Request::default())
}

/// The same, as it is asked for.
///
/// # Errors
/// As for [`plan`]; if only what is written may communicate, also if no such plan is found. Then [`Plan::is_unwritten`]
/// finds the steps of an ordinary plan that no statement writes.
///
/// # Panics
/// As for [`plan`].
pub fn plan_as(program: &Program, costs: &dyn Costs, request: Request) -> Result<Plan, PlanError> {
    let Request { written, rewrites, alternatives, budget } = request;
    let options = SearchOptions { alternatives, budget, ..SearchOptions::new(Allowed::Moves) };
    let whole = |program: &Program, options| {
        unit_axes::plan_without(program, |program| {
            let plan = parts::plan(program, costs, options)?;
            if !written || plan.ids().all(|id| !plan.is_unwritten(id)) {
                return Ok(plan);
            }
            holes::plan(program, costs, SearchOptions { allowed: Allowed::Slices, ..options })
        })
    };
    match written {
        // What a softmax in parts combines is written nowhere.
        true => whole(program, options),
        false => {
            let objective = costs.objective();
            let solve = |program: &Program, options| splits::plan(program, objective, options, whole);
            match rewrites {
                true => rewrites::plan(program, objective, options, solve),
                false => solve(program, options),
            }
        }
    }
}

/// The same with no axis cut in parts.
///
/// # Errors
/// As for [`plan`].
///
/// # Panics
/// As for [`plan`].
pub fn plan_on_whole_axes(program: &Program, costs: &dyn Costs) -> Result<Plan, PlanError> {
    let options = SearchOptions::new(Allowed::Moves);
    unit_axes::plan_without(program, |program| holes::plan(program, costs, options))
}

/// What may be done to a value for the sake of its layout where no statement says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// All moves.
    Moves,
    /// Those in which nothing is sent.
    Slices,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
pub enum PlanError {
    /// No chain of moves leads to a layout that is asked for.
    #[error("no plan brings `{name}` into the layout `{layout}`")]
    #[diagnostic(code("no-plan"), help("ask for another layout, or leave the result's layout out"))]
    Unreachable {
        /// The array.
        name: String,
        /// The layout that is asked for.
        layout: String,
        /// The statement.
        #[label("asked for here")]
        span: miette::SourceSpan,
    },
    /// The layouts are too many to look for a plan.
    #[error("there are too many layouts and ways to compute `{name}` to look for a plan")]
    #[diagnostic(
        code("plan-too-large"),
        help("a mesh with fewer axes has fewer layouts: neighbouring axes can be one; or split the statement")
    )]
    TooLarge {
        /// The array.
        name: String,
        /// The statement.
        #[label("too many for this")]
        span: miette::SourceSpan,
    },
    /// No way to do a product is what its statement asks for.
    #[error("no way to compute `{name}` goes {pin}")]
    #[diagnostic(code("pin-impossible"))]
    Pin {
        /// The array.
        name: String,
        /// What is asked for: `by gather(A)`.
        pin: String,
        /// What would be possible.
        #[help]
        help: String,
        /// The statement.
        #[label("asked for here")]
        span: miette::SourceSpan,
    },
    /// The layouts of an input that are left to the compiler are too many.
    #[error("there are too many layouts that `{name}` could come in")]
    #[diagnostic(
        code("input-hole"),
        help("write its layout, or that of some of its dims; or give the mesh fewer axes")
    )]
    Holes {
        /// The input.
        name: String,
        /// Its declaration.
        #[label("left to the compiler")]
        span: miette::SourceSpan,
    },
}

/// A step of a plan and the value it makes; the order of the ids is the order of the steps.
pub type StepId = NodeIndex<u32>;

/// What is done, in which order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program it is for.
    pub program: Program,
    /// Steps; node order is program order. An edge runs from an operand to its user and carries the operand's place.
    pub steps: DiGraph<Step, u32>,
    /// The step that makes each output of the program, in the order of [`Program::outputs`].
    pub outputs: Vec<StepId>,
    /// What was chosen for each product, and instead of what.
    pub choices: Vec<Choice>,
    /// The local steps that run as one kernel: those of each with at least two, in order.
    pub kernels: Vec<Vec<StepId>>,
    /// For each name that a repeat carries: the step that an iteration begins with, and the one that it hands on.
    pub carried: Vec<(StepId, StepId)>,
    /// Where repeats are spelled out: the step of the plan with its bodies done once, for each step.
    pub origins: Vec<StepId>,
    /// How its steps overlap.
    pub overlap: Overlap,
    /// The inputs whose layouts the plan chose.
    pub filled: Vec<StepId>,
    /// The names of the softmaxes that the plan computes in parts: `P`.
    pub split: Vec<String>,
    /// Of the plan that is the cheapest step by step, if another one is faster as a whole: the sum of its steps, and its time
    /// as a whole.
    pub instead: Option<(Time, Time)>,
    /// What is computed otherwise than it is written, in the order in which that was found.
    pub rewritten: Vec<Rewriting>,
    /// The name of the cost model.
    pub costs: &'static str,
    /// Whether the plan is optimal, else why the search ended without saying so. Of more than six axes that go to one
    /// dim at once only two orders are moves here.
    pub stop: Stop,
    /// Whether plans were looked at in which axes are cut in parts; [`Plan::stop`] speaks of them, too.
    pub in_parts: bool,
    /// A time that no plan takes less than under the cost model. Where a plan is chosen by its time and is exact, its
    /// own; where it is chosen by bytes, or not all layouts were looked at, that of the computation.
    pub lower_bound: Time,
    /// What the search was allowed.
    pub budget: Budget,
}

impl Plan {
    /// The statement that needs a step.
    pub fn span(&self, id: StepId) -> Span {
        self.program.value(self.step(id).user).span
    }

    /// The repeat in whose body a step is.
    pub fn body(&self, id: StepId) -> Option<usize> {
        self.step(id).body(&self.program)
    }

    /// How often a step is done.
    pub fn times(&self, id: StepId) -> u64 {
        self.step(id).times(&self.program)
    }

    /// The step that it is in the plan with its bodies done once.
    pub fn origin(&self, id: StepId) -> StepId {
        self.origins.get(id.index()).copied().unwrap_or(id)
    }

    /// Whether a step is one for the reader: inputs and what is carried are there without being done.
    pub fn is_done(&self, id: StepId) -> bool {
        match self.step(id).op {
            StepOp::Input | StepOp::Carry => false,
            StepOp::Collective(_) | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => true,
        }
    }

    /// Whether a step sends anything: a slice does not, nor does a group of one device.
    pub fn communicates(&self, id: StepId) -> bool {
        match &self.step(id).op {
            StepOp::Collective(collective) => {
                let from = &self.step(self.operands(id)[0]).layout.sharding;
                let mesh = &self.program.mesh;
                collective.kind().sends() && collective.axes(from, mesh).group_size(mesh) > 1
            }
            StepOp::Input | StepOp::Carry | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => {
                false
            }
        }
    }

    /// Whether a step sends anything and no collective or move is written for it.
    pub fn is_unwritten(&self, id: StepId) -> bool {
        self.communicates(id) && !self.program.value(self.step(id).user).definition.is_written_move()
    }

    /// One step.
    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id]
    }

    /// All steps in program order.
    pub fn ids(&self) -> impl Iterator<Item = StepId> + use<> {
        self.steps.node_indices()
    }

    /// The operands of a step, by their place.
    pub fn operands(&self, id: StepId) -> Vec<StepId> {
        operands(&self.steps, id)
    }

    /// The layout of each named array that its own statement leaves it in: the step that makes it.
    pub fn own_layouts(&self) -> Vec<StepId> {
        let named = |id: &StepId| {
            let step = self.step(*id);
            step.user == step.value && self.program.value(step.value).name.is_some()
        };
        let last: BTreeMap<ValueId, StepId> = self.ids().filter(named).map(|id| (self.step(id).value, id)).collect();
        let mut ids: Vec<StepId> = last.into_values().collect();
        ids.sort_unstable();
        ids
    }

    /// What each step costs by a cost model.
    pub(crate) fn costs_by(&self, costs: &dyn Costs) -> Vec<Cost> {
        let access = self.accesses();
        self.ids().map(|id| self.cost_with(id, &access[id.index()], costs)).collect()
    }

    fn cost_with(&self, id: StepId, access: &Access, costs: &dyn Costs) -> Cost {
        match (&self.step(id).op, self.operand(id)) {
            (StepOp::Collective(collective), Some(from)) => costs.collective(collective, from),
            _ => local_cost(&self.steps, id, access, costs, &self.program.mesh).unwrap_or(search::FREE),
        }
    }

    /// The same plan with its steps at what they cost by a cost model.
    #[must_use]
    pub(crate) fn priced_by(mut self, costs: &dyn Costs) -> Plan {
        let priced = self.costs_by(costs);
        self.steps.node_weights_mut().zip(priced).for_each(|(step, cost)| step.cost = cost);
        self.choices.iter_mut().for_each(|choice| choice.alternatives.clear());
        Plan { costs: costs.name(), ..self }
    }

    /// Whether two plans have the same steps in the same layouts.
    pub(crate) fn is_alike(&self, other: &Plan) -> bool {
        let steps = |plan: &Plan| {
            plan.steps.node_weights().map(|step| (step.op.clone(), step.layout.clone())).collect::<Vec<_>>()
        };
        steps(self) == steps(other)
    }

    /// The fastest of other plans if it takes a hundredth less as a whole, or else this one, the cheapest step by step.
    pub(crate) fn unless_faster(self, others: Vec<Plan>) -> Plan {
        let most = self.time().ticks() - self.time().ticks() / 100;
        let fastest = others.into_iter().filter(|other| other.time().ticks() < most).min_by_key(Plan::time);
        match fastest {
            // What bounds the sum of the steps of any plan is known of the first one.
            Some(fastest) => {
                let instead = Some((self.totals().time(), self.time()));
                let (rewritten, split) = (self.rewritten, self.split);
                Plan { lower_bound: self.lower_bound, stop: Stop::Whole, instead, rewritten, split, ..fastest }
            }
            None => self,
        }
    }

    /// The choice that was made for a product.
    pub fn choice(&self, value: ValueId) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.value == value)
    }

    /// The book's case of a product step.
    pub fn case(&self, id: StepId) -> Option<u8> {
        let step = self.step(id);
        let is_product = matches!(step.op, StepOp::Product { .. });
        is_product.then(|| self.choice(step.value).map(|choice| choice.case)).flatten()
    }

    /// The same plan with the recipes of its collectives, and what its steps come to by these.
    ///
    /// - `tuner`: on the mesh of the plan.
    /// - `by_clock`: whether collectives take what their recipes take. Where that is more than they were planned with,
    ///   since a method is asked for, the plan is no more the best there is.
    ///
    /// # Panics
    /// If the tuner has another mesh.
    pub fn with_recipes(mut self, tuner: &Tuner<'_>, by_clock: bool) -> Plan {
        let access = self.accesses();
        for id in self.ids() {
            let (step, is_inside) = (self.step(id), access[id.index()].is_inside);
            let expected = usage::expected(step, self.operand(id), is_inside, &self.program.mesh);
            let mut next = Step { usage: expected, ..step.clone() };
            if let (StepOp::Collective(collective), Some(from)) = (&step.op, self.operand(id)) {
                let asked = self.program.value(step.user).method;
                let recipe = tuner.choose(collective, from, asked);
                // What is too large to be timed is too large to be counted; it is not lowered either.
                if let Ok(chosen) = &recipe
                    && let Some(time) = chosen.time
                {
                    next.usage = tuner.usage(collective, from, asked, chosen);
                    next.cost.time = if by_clock { time } else { step.cost.time };
                }
                next.recipe = Some(recipe);
            }
            let (before, time) = (step.cost.time, next.cost.time);
            if time > before {
                self.stop = self.stop.unless_optimal(Stop::Methods);
            }
            // What is asked for may even be faster.
            self.lower_bound = self.lower_bound.saturating_sub(before.saturating_sub(time) * self.times(id));
            self.steps[id] = next;
        }
        self
    }

    /// The plan with these steps alone, in this order.
    ///
    /// - `step`: what one of them is then, and its operands, which come before it.
    fn rearranged(mut self, order: &[StepId], step: impl Fn(&Plan, StepId) -> (Step, Vec<StepId>)) -> Plan {
        let mut steps = DiGraph::new();
        let mut place = vec![StepId::end(); self.steps.node_count()];
        for id in order {
            let (step, operands) = step(&self, *id);
            place[id.index()] = steps.add_node(step);
            for (at, operand) in (0..).zip(operands) {
                steps.add_edge(place[operand.index()], place[id.index()], at);
            }
        }
        let new = |id: &mut StepId| *id = place[id.index()];
        self.steps = steps;
        self.outputs.iter_mut().chain(&mut self.filled).chain(self.kernels.iter_mut().flatten()).for_each(new);
        self.carried.iter_mut().for_each(|(first, last)| {
            new(first);
            new(last);
        });
        self
    }

    /// The layout of the first operand of a step.
    fn operand(&self, id: StepId) -> Option<&Layout> {
        self.operands(id).first().map(|operand| &self.step(*operand).layout)
    }

    /// Whether no plan of its axes and moves is better under the cost model.
    pub fn is_optimal(&self) -> bool {
        self.stop == Stop::Optimal
    }

    /// Whether layouts of inputs were tried with plans of their own, as under a limit on memory.
    pub(crate) fn has_tried_layouts(&self) -> bool {
        !self.filled.is_empty() && !self.program.limits.is_empty()
    }

    /// The time of the whole schedule, where that is known, else that of the steps one after the other.
    pub fn time(&self) -> Time {
        self.overlap.whole.map_or_else(|| self.totals().time(), |whole| whole.time)
    }

    /// The sums over all steps.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { usage: self.usage(), ..Totals::default() };
        for id in self.ids() {
            let (step, times) = (self.step(id), self.times(id));
            totals.flops = totals.flops.saturating_add(step.flops.saturating_mul(u128::from(times)));
            match step.op {
                StepOp::Input | StepOp::Carry => {}
                StepOp::Collective(_) => totals.communication += step.cost.time * times,
                StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => {
                    totals.compute += step.cost.time * times
                }
            }
        }
        totals
    }
}

/// The operands of a step, by their place.
/// What a local computation costs in its kernel; `None` of other steps.
fn local_cost(steps: &DiGraph<Step, u32>, id: StepId, access: &Access, costs: &dyn Costs, mesh: &Mesh) -> Option<Cost> {
    let step = &steps[id];
    let layouts: Vec<Layout> = operands(steps, id).into_iter().map(|operand| steps[operand].layout.clone()).collect();
    let paid = |product: usize| steps[StepId::new(product)].layout.local_bytes(mesh).0;
    let work = |einsum| LocalWork::in_kernel(einsum, &layouts, &step.layout, mesh, access, paid);
    match &step.op {
        StepOp::Product { einsum } => Some(costs.product(&work(einsum))),
        StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => Some(costs.map(&work(einsum))),
        StepOp::Input | StepOp::Carry | StepOp::Collective(_) => None,
    }
}

fn operands(steps: &DiGraph<Step, u32>, id: StepId) -> Vec<StepId> {
    let edges = steps.edges_directed(id, Direction::Incoming);
    let mut operands: Vec<(u32, StepId)> = edges.map(|edge| (*edge.weight(), edge.source())).collect();
    operands.sort_unstable();
    operands.into_iter().map(|(_, operand)| operand).collect()
}

/// The sums over the steps of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of the collectives.
    pub communication: Time,
    /// Of products and elementwise functions.
    pub compute: Time,
    /// What is sent, received and held.
    pub usage: Usage,
    /// Of one device.
    pub flops: u128,
}

impl Totals {
    /// The bytes that a device receives, of the one that receives most.
    pub fn received(&self) -> Bytes {
        Bytes(self.usage.received.most)
    }

    /// The most bytes that one device holds at once.
    pub fn peak(&self) -> Bytes {
        self.usage.peak
    }

    /// All steps one after the other.
    pub fn time(&self) -> Time {
        self.communication + self.compute
    }
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub op: StepOp,
    /// The value of the program that it makes or moves.
    pub value: ValueId,
    /// The value whose statement needs the step: its method is asked for, its place is told.
    pub user: ValueId,
    /// The layout of the result.
    pub layout: Layout,
    /// Its isolated time.
    pub cost: Cost,
    /// What is sent, received and held; before [`Plan::with_recipes`] what is so at the least.
    pub usage: StepUsage,
    /// Floating-point operations of one device.
    pub flops: u128,
    /// The operations of a collective; none before [`Plan::with_recipes`].
    pub recipe: Option<Result<Arc<Chosen>, Flaw>>,
}

impl Step {
    /// The repeat in whose body it is: its value is of the body, and the body needs it.
    fn body(&self, program: &Program) -> Option<usize> {
        program.body_of(self.value).filter(|body| program.body_of(self.user) == Some(*body))
    }

    /// How often it is done.
    fn times(&self, program: &Program) -> u64 {
        self.body(program).map_or(1, |body| program.repeats[body].times)
    }
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOp {
    /// An array given from outside.
    Input,
    /// What an iteration begins with: what was there before, or what the one before hands on.
    Carry,
    /// A move between layouts.
    Collective(Collective),
    /// A local product.
    Product {
        /// How the local blocks meet.
        einsum: Einsum,
    },
    /// All elements of a block along some dims, combined.
    Reduce {
        /// By this operator.
        operator: Operator,
        /// Which dims are left.
        einsum: Einsum,
    },
    /// An elementwise function, a transposition or a new name.
    Map {
        /// Which.
        function: Function,
        /// How the local blocks line up.
        einsum: Einsum,
    },
}

/// What was chosen for one product, and instead of what.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The product.
    pub value: ValueId,
    /// The book's case, 1 to 4, from the layouts that the operands had.
    pub case: u8,
    /// The ways to do it, of a pinned one those that it may be done in: the one that was chosen, then the others, the
    /// cheapest first. In a larger program one of them may be cheaper by itself. Without [`Request::alternatives`] only
    /// the one that was chosen.
    pub alternatives: Vec<Alternative>,
    /// What the statement asks for, if it does.
    pub pinned: Option<Pinned>,
}

/// What a statement asks for, and what that costs.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// `by gather(A)`
    pub text: String,
    /// The cheapest way that there would be.
    pub best: Alternative,
}

/// One way to do a product.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The moves in order, as the book writes them.
    pub moves: Vec<String>,
    /// What each of them costs by itself.
    pub costs: Vec<Cost>,
    /// Isolated time of all of it.
    pub time: Time,
    /// Of that, the communication.
    pub communication: Time,
    /// What the fullest device receives.
    pub received: Bytes,
    /// Floating-point operations of one device.
    pub flops: u128,
    /// The most that one device holds for one step of it: what it takes and what it makes.
    pub held: Bytes,
    /// Whether the times are bounds: what lost already is not simulated.
    pub is_bound: bool,
}
