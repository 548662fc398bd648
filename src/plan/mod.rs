//! Planning: the local computation of each device and the collectives in between.
//!
//! Each mesh axis has a role in the iteration space of a product; resharding is a shortest path between shardings. The
//! trait [`Costs`] defines the price of a step.

mod alternatives;
mod assignments;
mod branch;
mod budget;
mod build;
mod bundle;
mod case;
mod division;
mod few;
mod floor;
mod fused;
mod goal;
mod holes;
mod kinds;
mod layouts;
mod lazy;
mod limits;
mod listing;
mod names;
mod openings;
mod parts;
mod pins;
mod pipeline;
mod prices;
mod print;
mod problem;
mod reshard;
mod reshards;
mod resident;
mod rewrites;
mod score;
mod search;
mod splits;
mod stages;
mod stop;
mod unit_axes;
pub mod unroll;
mod usage;
mod written;

pub use crate::recipe::Objective;
pub use budget::Budget;
pub use bundle::{Alike, Bundle, Member, alike, are_apart};
pub use division::Division;
pub use floor::{Least, least};
pub use listing::{Item, Listing, Part, Pieces};
pub use pipeline::{Cut, Order, Overlap, Piece, PieceMove, Pipeline, Run, Whole, windows};
pub use print::collective_name;
pub use rewrites::Rewriting;
pub use stop::Stop;

use crate::collective::Collective;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::fusion::{Access, Fusion};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::operator::Operator;
use crate::program::{Program, ValueId, Wanted};
use crate::recipe::{Chosen, Flaw, Tuner};
use crate::sim::usage::{StepUsage, Usage};
use crate::span::Span;
use crate::topology::{Form, Heads, Shape, Work};
use crate::units::{Bytes, Time};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use problem::Problem;
use reshard::SearchOptions;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use thiserror::Error;

/// A cost model. Times are isolated: nothing else runs concurrently.
pub trait Costs {
    /// Cost of one collective.
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost;

    /// Lower bound on the cost of a collective, if the cost itself is expensive to compute and was not computed before.
    fn at_least(&self, _collective: &Collective, _from: &Layout) -> Option<Cost> {
        None
    }

    /// Whether times are simulated times of recipes.
    fn is_by_clock(&self) -> bool {
        false
    }

    /// Time of a local product.
    fn product(&self, work: &LocalWork) -> Cost;

    /// Time of an elementwise function.
    fn map(&self, work: &LocalWork) -> Cost;

    /// The fusion of local computations.
    fn fusion(&self) -> Fusion {
        Fusion::None
    }

    /// The same cost model for other parts of axes; `None` if plans with these costs should not split axes.
    fn seen_as(&self, _mesh: &Mesh) -> Option<Rc<dyn Costs + '_>> {
        None
    }

    /// The objective of the planner.
    fn objective(&self) -> Objective {
        Objective::Time
    }

    /// The tuner that lowers collectives, if costs are simulated.
    fn tuner(&self) -> Option<&Tuner<'_>> {
        None
    }

    /// Its name on the command line.
    fn name(&self) -> &'static str;
}

/// Work of one device in a local computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWork {
    /// The dtype that selects the arithmetic unit; see [`DType::computing`].
    pub dtype: DType,
    /// Floating-point operations.
    pub flops: u128,
    /// Bytes read and written, as determined by [`Access`].
    pub traffic: Bytes,
    /// What is computed, for measured times.
    pub form: Form,
    /// Whether it launches a kernel.
    pub starts: bool,
}

impl LocalWork {
    /// Work of one device on blocks of these layouts, all of which are read and written.
    pub fn new(einsum: &Einsum, operands: &[Layout], result: &Layout, mesh: &Mesh) -> LocalWork {
        LocalWork::in_kernel(einsum, operands, result, mesh, &Access::alone(operands.len()), |_| 0)
    }

    /// Work of one device inside a kernel.
    ///
    /// - `paid`: bytes that a product has written in place of a later result.
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
                let elements = lookup.reads(einsum, &extents, place);
                Bytes(layout.dtype.bytes(u64::try_from(elements).unwrap_or(u64::MAX)))
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
        let unit = DType::computing(operands.iter().map(|layout| layout.dtype));
        let shape = Shape::of(einsum, &extents).filter(|_| access.lookup.is_none());
        let form = shape.map_or(Form::Other, Form::Product);
        LocalWork { dtype: unit.unwrap_or(result.dtype), flops, traffic, form, starts: access.starts }
    }

    /// Work of one device for a declared kernel.
    pub fn declared(kernel: &Kernel, operands: &[Layout], result: &Layout, mesh: &Mesh) -> LocalWork {
        let extents: Vec<Vec<u64>> = operands.iter().map(|layout| layout.local_extents(mesh)).collect();
        let lengths = kernel.block(&extents).unwrap_or_else(|| kernel.lengths.clone());
        let blocks = operands.iter().chain([result]).map(|layout| layout.local_bytes(mesh).0);
        let traffic = kernel.bytes(&lengths).map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        let traffic = Bytes(traffic.unwrap_or_else(|| blocks.fold(0, u64::saturating_add)));
        let unit = DType::computing(operands.iter().map(|layout| layout.dtype));
        let flops = kernel.flops(&lengths);
        let form = Heads::of(kernel, &lengths).map_or(Form::Other, Form::Attention);
        LocalWork { dtype: unit.unwrap_or(result.dtype), flops, traffic, form, starts: true }
    }
}

/// The cost of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The time.
    pub time: Time,
    /// Lower bound on the bytes that a device receives; the exact number if plans are chosen by bytes.
    pub received: Bytes,
    /// The resource that limits the time.
    pub limit: Limit,
}

/// The resource that limits a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// None: it takes no time.
    Free,
    /// Latency of hops.
    Latency,
    /// Bandwidth of links.
    Bandwidth,
    /// Floating-point operations.
    Compute,
    /// Memory bandwidth.
    Memory,
}

impl Limit {
    /// Its name, for text and JSON.
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

/// Options of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Whether only written collectives and moves communicate; slices are always allowed.
    pub written: bool,
    /// Whether equivalent programs are tried, where any move is allowed.
    pub rewrites: bool,
    /// Whether the alternatives of each product are kept; pricing them takes as long as planning.
    pub alternatives: bool,
    /// Limits on the effort.
    pub budget: Budget,
}

/// Chooses the layouts of all values and the moves between them, minimising the sum of the isolated times of the steps.
///
/// The search ends when the plan is optimal or the budget is spent; then the plan carries a lower bound. Equal moves of
/// one value are done once.
///
/// # Errors
/// If a value cannot be brought into its layout; this does not happen for a checked program.
///
/// # Panics
/// If `costs` belong to a mesh other than the program's.
pub fn plan(program: &Program, costs: &dyn Costs) -> Result<Plan, PlanError> {
    plan_as(program, costs, Request::default())
}

/// Plans a program with options.
///
/// # Errors
/// As for [`plan`]; in strict mode also if no such plan is found. [`Plan::is_unwritten`] then finds the steps of an
/// ordinary plan that no statement writes.
///
/// # Panics
/// As for [`plan`].
pub fn plan_as(program: &Program, costs: &dyn Costs, request: Request) -> Result<Plan, PlanError> {
    let Request { alternatives, budget, .. } = request;
    let options = SearchOptions { alternatives, budget, ..SearchOptions::new(Allowed::Moves) };
    stages::solve(&stages::of(request), Problem { program, costs, options }).map_err(|unplanned| *unplanned.error)
}

/// Plans a program without splitting axes.
///
/// # Errors
/// As for [`plan`].
///
/// # Panics
/// As for [`plan`].
pub fn plan_on_whole_axes(program: &Program, costs: &dyn Costs) -> Result<Plan, PlanError> {
    let options = SearchOptions::new(Allowed::Moves);
    stages::solve(&stages::ON_WHOLE_AXES, Problem { program, costs, options }).map_err(|unplanned| *unplanned.error)
}

/// Moves that are allowed where no statement writes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// All moves.
    Moves,
    /// Moves that do not communicate.
    Slices,
}

/// The reason why planning failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
pub enum PlanError {
    /// No sequence of moves leads to a requested layout.
    #[error("no plan for `{name}` in layout `{layout}`")]
    #[diagnostic(code("no-plan"), help("write another layout, or remove the layout of the result"))]
    Unreachable {
        /// The array.
        name: String,
        /// The requested layout.
        layout: String,
        /// The statement.
        #[label("requested here")]
        span: miette::SourceSpan,
    },
    /// There are too many layouts to plan.
    #[error("too many layouts to plan `{name}`")]
    #[diagnostic(
        code("plan-too-large"),
        help("use a mesh with fewer axes, for example by merging neighbouring axes, or split the statement")
    )]
    TooLarge {
        /// The array.
        name: String,
        /// The statement.
        #[label("too many layouts")]
        span: miette::SourceSpan,
    },
    /// A pinned strategy is impossible.
    #[error("`{name}` cannot be computed {pin}")]
    #[diagnostic(code("pin-impossible"))]
    Pin {
        /// The array.
        name: String,
        /// The strategy: `by gather(A)`.
        pin: String,
        /// The possible strategies.
        #[help]
        help: String,
        /// The statement.
        #[label("requested here")]
        span: miette::SourceSpan,
    },
    /// No plan with a pinned strategy was found within the work limit.
    #[error("no plan was found in which `{name}` is computed {pin}")]
    #[diagnostic(code("pin-impossible"))]
    PinNotFound {
        /// The array.
        name: String,
        /// The strategy: `by gather(A)`.
        pin: String,
        /// The strategies that are possible for other layouts.
        #[help]
        help: String,
        /// The statement.
        #[label("requested here; the search was cut short")]
        span: miette::SourceSpan,
    },
    /// An input has too many possible layouts.
    #[error("too many possible layouts of input `{name}`")]
    #[diagnostic(
        code("input-hole"),
        help("write its layout or that of some of its dims, or use a mesh with fewer axes")
    )]
    Holes {
        /// The input.
        name: String,
        /// Its declaration.
        #[label("layout chosen by the compiler")]
        span: miette::SourceSpan,
    },
}

/// A lower bound over plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowerBound {
    /// Time of all steps in sequence: that of the plan if it is optimal by time; the compute time if plans are chosen by
    /// bytes or not all layouts were searched.
    pub time: Time,
    /// Bytes that a device receives, summed over the steps; 0 if plans are not chosen by bytes or not all layouts were
    /// searched.
    pub received: Bytes,
}

impl LowerBound {
    /// The bound that is given by a lower bound on an objective.
    fn of(objective: Objective, least: u128) -> LowerBound {
        match objective {
            Objective::Time => LowerBound { time: Time::from_ticks(least), ..LowerBound::default() },
            Objective::Bytes => {
                LowerBound { received: Bytes(u64::try_from(least).unwrap_or(u64::MAX)), ..LowerBound::default() }
            }
        }
    }

    /// The bound over two sets of plans together.
    fn of_both(self, other: LowerBound) -> LowerBound {
        LowerBound { time: self.time.min(other.time), received: self.received.min(other.received) }
    }

    /// The better one of two bounds over the same plans.
    fn better(self, other: LowerBound) -> LowerBound {
        LowerBound { time: self.time.max(other.time), received: self.received.max(other.received) }
    }

    /// The bound that is lower by an amount of the objective.
    fn without(self, objective: Objective, paid: u128) -> LowerBound {
        let paid = LowerBound::of(objective, paid);
        LowerBound {
            time: self.time.saturating_sub(paid.time),
            received: Bytes(self.received.0.saturating_sub(paid.received.0)),
        }
    }
}

/// A step of a plan; ids are in the order of the steps.
pub type StepId = NodeIndex<u32>;

/// A plan: the steps and their order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// The steps; node order is program order. An edge runs from an operand to its user and carries the operand's
    /// index.
    pub steps: DiGraph<Step, u32>,
    /// The steps of the outputs, in the order of [`Program::outputs`].
    pub outputs: Vec<StepId>,
    /// The choice for each product, with its alternatives.
    pub choices: Vec<Choice>,
    /// Kernels of local steps, each with at least two, in order.
    pub kernels: Vec<Vec<StepId>>,
    /// For each name carried by a repeat: the step at the start of an iteration, and the one at its end.
    pub carried: Vec<(StepId, StepId)>,
    /// For an unrolled plan: the step of the plan with bodies done once, for each step.
    pub origins: Vec<StepId>,
    /// Overlap of its steps.
    pub overlap: Overlap,
    /// The inputs whose layouts the planner chose.
    pub filled: Vec<Filled>,
    /// Names of the softmaxes that are split: `P`.
    pub split: Vec<String>,
    /// If a plan that is faster with overlap replaced the cheapest plan in sequence: the time of the latter in
    /// sequence, and with overlap.
    pub instead: Option<(Time, Time)>,
    /// Rewrites of the program, in the order of application.
    pub rewritten: Vec<Rewriting>,
    /// Name of the cost model.
    pub costs: &'static str,
    /// The reason why the search ended. If more than six axes move to one dim at once, only two of their orders are
    /// searched.
    pub stop: Stop,
    /// Whether plans with split axes were searched; [`Plan::stop`] then includes them.
    pub in_parts: bool,
    /// Lower bound over all plans of collectives under the cost model, on the axes that were searched to the end, with
    /// layouts that divide evenly.
    pub lower_bound: LowerBound,
    /// Lower bound over plans with whole or split axes, if the search of the latter was not completed.
    pub with_split_axes: Option<LowerBound>,
    /// The effort for bounds over all plans; spent if the search could not list all moves.
    pub budget: Budget,
}

impl Plan {
    /// The statement that needs a step.
    pub fn span(&self, id: StepId) -> Span {
        self.program.value(self.step(id).user).span
    }

    /// The repeat whose body contains a step.
    pub fn body(&self, id: StepId) -> Option<usize> {
        self.step(id).body(&self.program)
    }

    /// Number of repetitions of a step.
    pub fn times(&self, id: StepId) -> u64 {
        self.step(id).times(&self.program)
    }

    /// The corresponding step in the plan with bodies done once.
    pub fn origin(&self, id: StepId) -> StepId {
        self.origins.get(id.index()).copied().unwrap_or(id)
    }

    /// Whether a step is executed; inputs and carried values are not.
    pub fn is_done(&self, id: StepId) -> bool {
        self.step(id).op.work().is_some()
    }

    /// Whether a step communicates; slices and groups of one device do not.
    pub fn communicates(&self, id: StepId) -> bool {
        let (mesh, op) = (&self.program.mesh, &self.step(id).op);
        op.collective().is_some_and(|collective| {
            let from = &self.step(self.operands(id)[0]).layout.sharding;
            collective.communicates(from, mesh)
        })
    }

    /// Whether a step communicates without being written as a collective or a move.
    pub fn is_unwritten(&self, id: StepId) -> bool {
        self.communicates(id) && !self.program.value(self.step(id).user).definition.is_written_move()
    }

    /// The step with this id.
    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id]
    }

    /// All steps in program order.
    pub fn ids(&self) -> impl Iterator<Item = StepId> + use<> {
        self.steps.node_indices()
    }

    /// The operands of a step, by index.
    pub fn operands(&self, id: StepId) -> Vec<StepId> {
        operands(&self.steps, id)
    }

    /// For each named array, the step that produces the layout in which its statement leaves it.
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

    /// The cost of each step under a cost model.
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

    /// The plan with the costs of another cost model.
    #[must_use]
    pub(crate) fn priced_by(mut self, costs: &dyn Costs) -> Plan {
        let priced = self.costs_by(costs);
        self.steps.node_weights_mut().zip(priced).for_each(|(step, cost)| step.cost = cost);
        self.choices.iter_mut().for_each(|choice| choice.alternatives.clear());
        Plan { costs: costs.name(), ..self }
    }

    /// The plan without the pin of a product, as for the program that does not have it.
    pub(crate) fn unpinned(mut self, product: ValueId) -> Plan {
        self.program.values[product.index()].pin = None;
        for choice in self.choices.iter_mut().filter(|choice| choice.value == product) {
            choice.pinned = None;
        }
        self
    }

    /// Whether two plans have the same steps in the same layouts.
    pub(crate) fn is_alike(&self, other: &Plan) -> bool {
        let steps = |plan: &Plan| {
            plan.steps.node_weights().map(|step| (step.op.clone(), step.layout.clone())).collect::<Vec<_>>()
        };
        steps(self) == steps(other)
    }

    /// The fastest of other plans if it saves at least 1/`least_saving` of the time with overlap, else this one.
    pub(crate) fn unless_faster(self, others: Vec<Plan>, least_saving: u128) -> Plan {
        let most = self.time().ticks() - self.time().ticks() / least_saving;
        let fastest = others.into_iter().filter(|other| other.time().ticks() < most).min_by_key(Plan::time);
        match fastest {
            Some(fastest) => {
                let (lower_bound, with_split_axes) = self.bounds_on(&fastest);
                let instead = self.instead.or_else(|| Some((self.totals().time(), self.time())));
                let (rewritten, budget) = (self.rewritten, self.budget);
                let split = self.split.into_iter().chain(fastest.split).collect();
                Plan { lower_bound, with_split_axes, budget, stop: Stop::Whole, instead, rewritten, split, ..fastest }
            }
            None => self,
        }
    }

    /// The lower bounds on another plan, made from the program of this one: [`Plan::lower_bound`] and
    /// [`Plan::with_split_axes`]. They cover chains of collectives on the axes that were searched, and no further split
    /// softmaxes.
    fn bounds_on(&self, other: &Plan) -> (LowerBound, Option<LowerBound>) {
        if other.stop == Stop::Reshards || !other.split.is_empty() {
            (LowerBound::default(), None)
        } else if other.program.mesh == self.program.mesh || self.in_parts {
            (self.lower_bound, self.with_split_axes)
        } else {
            (self.with_split_axes.unwrap_or_default(), None)
        }
    }

    /// The choice for a product.
    pub fn choice(&self, value: ValueId) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.value == value)
    }

    /// The book's case of a product step.
    pub fn case(&self, id: StepId) -> Option<u8> {
        let step = self.step(id);
        let is_product = matches!(step.op, StepOp::Product { .. });
        is_product.then(|| self.choice(step.value).map(|choice| choice.case)).flatten()
    }

    /// Adds the recipes of collectives, and the usage of the steps under them.
    ///
    /// - `tuner`: on the mesh of the plan.
    /// - `by_clock`: whether collectives take the time of their recipes. If a requested method makes them slower than
    ///   planned, the plan is no longer optimal.
    ///
    /// # Panics
    /// If the tuner belongs to another mesh.
    pub fn with_recipes(mut self, tuner: &Tuner<'_>, by_clock: bool) -> Plan {
        let access = self.accesses();
        for id in self.ids() {
            let (step, is_inside) = (self.step(id), access[id.index()].is_inside);
            let expected = usage::expected(step, self.operand(id), is_inside, &self.program.mesh);
            let mut next = Step { usage: expected, ..step.clone() };
            if let (StepOp::Collective(collective), Some(from)) = (&step.op, self.operand(id)) {
                let asked = self.program.value(step.user).using.method;
                let recipe = tuner.choose(collective, from, asked);
                // A collective that is too large to time is not lowered, so it is not counted either.
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
                let is_asked = self.program.value(next.user).using.method.is_some();
                self.stop = self.stop.unless_optimal(if is_asked { Stop::Methods } else { Stop::Operations });
            }
            // A requested method may even be faster than planned.
            let saved = (before.saturating_sub(time) * self.times(id)).ticks();
            self.lower_bound = self.lower_bound.without(Objective::Time, saved);
            self.with_split_axes = self.with_split_axes.map(|bound| bound.without(Objective::Time, saved));
            self.steps[id] = next;
        }
        self
    }

    /// The plan reduced to these steps, in this order.
    ///
    /// - `step`: returns the new step and its operands, which precede it.
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
        let filled = self.filled.iter_mut().map(|filled| &mut filled.input);
        self.outputs.iter_mut().chain(filled).chain(self.kernels.iter_mut().flatten()).for_each(new);
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

    /// Whether separate plans were made for layouts of inputs, as under a memory limit.
    pub(crate) fn has_tried_layouts(&self) -> bool {
        !self.filled.is_empty() && !self.program.limits.is_empty()
    }

    /// Time of the whole schedule with overlap if known, else of the steps in sequence.
    pub fn time(&self) -> Time {
        self.overlap.whole.map_or_else(|| self.totals().time(), |whole| whole.time)
    }

    /// Bytes that a device receives under the cost model, summed over the steps; see [`LowerBound::received`].
    pub fn received(&self) -> Bytes {
        let of = |id| self.step(id).cost.received.0.saturating_mul(self.times(id));
        Bytes(self.ids().map(of).fold(0, u64::saturating_add))
    }

    /// Totals over all steps.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { usage: self.usage(), ..Totals::default() };
        for id in self.ids() {
            let (step, times) = (self.step(id), self.times(id));
            totals.flops = totals.flops.saturating_add(step.flops.saturating_mul(u128::from(times)));
            match step.op {
                StepOp::Input | StepOp::Carry => {}
                StepOp::Collective(_) => totals.communication += step.cost.time * times,
                StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) => {
                    totals.compute += step.cost.time * times
                }
            }
        }
        totals
    }
}

/// The cost of a local computation in its kernel; `None` for other steps.
fn local_cost(steps: &DiGraph<Step, u32>, id: StepId, access: &Access, costs: &dyn Costs, mesh: &Mesh) -> Option<Cost> {
    let step = &steps[id];
    let layouts: Vec<Layout> = operands(steps, id).into_iter().map(|operand| steps[operand].layout.clone()).collect();
    let paid = |product: usize| steps[StepId::new(product)].layout.local_bytes(mesh).0;
    let work = |einsum| LocalWork::in_kernel(einsum, &layouts, &step.layout, mesh, access, paid);
    match &step.op {
        StepOp::Product { einsum } => Some(costs.product(&work(einsum))),
        StepOp::Kernel(kernel) => Some(costs.product(&LocalWork::declared(kernel, &layouts, &step.layout, mesh))),
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

/// Totals over the steps of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time of the collectives.
    pub communication: Time,
    /// Time of products and elementwise functions.
    pub compute: Time,
    /// Traffic and memory.
    pub usage: Usage,
    /// Operations of one device.
    pub flops: u128,
}

impl Totals {
    /// Bytes received by the device that receives the most.
    pub fn received(&self) -> Bytes {
        Bytes(self.usage.received.most)
    }

    /// Peak memory of a device.
    pub fn peak(&self) -> Bytes {
        self.usage.peak
    }

    /// Time of all steps in sequence.
    pub fn time(&self) -> Time {
        self.communication + self.compute
    }
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its operation.
    pub op: StepOp,
    /// The value of the program that it computes or moves.
    pub value: ValueId,
    /// The value whose statement needs the step; it determines the method and the source location.
    pub user: ValueId,
    /// Layout of the result.
    pub layout: Layout,
    /// Its isolated time.
    pub cost: Cost,
    /// Traffic and memory; lower bounds before [`Plan::with_recipes`].
    pub usage: StepUsage,
    /// Floating-point operations of one device.
    pub flops: u128,
    /// Recipe of a collective; `None` before [`Plan::with_recipes`].
    pub recipe: Option<Result<Arc<Chosen>, Flaw>>,
}

impl Step {
    /// The repeat whose body contains it: both its value and its user are in the body.
    fn body(&self, program: &Program) -> Option<usize> {
        program.body_of(self.value).filter(|body| program.body_of(self.user) == Some(*body))
    }

    /// Number of repetitions.
    fn times(&self, program: &Program) -> u64 {
        self.body(program).map_or(1, |body| program.repeats[body].times)
    }
}

/// An input whose layout the planner chose.
#[derive(Clone, Debug)]
pub struct Filled {
    /// Its step, in the chosen layout.
    pub input: StepId,
    /// What the program asks of its layout.
    pub asked: Wanted,
}

/// The operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOp {
    /// An input.
    Input,
    /// The value at the start of an iteration: from outside, or from the previous iteration.
    Carry,
    /// A move between layouts.
    Collective(Collective),
    /// A local product.
    Product {
        /// Its einsum on local blocks.
        einsum: Einsum,
    },
    /// A local reduction along some dims.
    Reduce {
        /// Its operator.
        operator: Operator,
        /// The remaining dims.
        einsum: Einsum,
    },
    /// A declared kernel.
    Kernel(Arc<Kernel>),
    /// An elementwise function, a transposition or a renaming.
    Map {
        /// The function.
        function: Function,
        /// Alignment of the local blocks.
        einsum: Einsum,
    },
}

impl StepOp {
    /// The collective, if it is one.
    pub fn collective(&self) -> Option<&Collective> {
        match self {
            StepOp::Collective(collective) => Some(collective),
            StepOp::Input
            | StepOp::Carry
            | StepOp::Product { .. }
            | StepOp::Reduce { .. }
            | StepOp::Kernel(_)
            | StepOp::Map { .. } => None,
        }
    }

    /// The kind of work for engines; `None` for what is not done.
    pub fn work(&self) -> Option<Work> {
        match self {
            StepOp::Input | StepOp::Carry => None,
            StepOp::Collective(_) => Some(Work::Shuffle),
            StepOp::Product { .. } | StepOp::Kernel(_) => Some(Work::MatMul),
            StepOp::Reduce { .. } => Some(Work::Reduce),
            StepOp::Map { function: Function::Fill { .. }, .. } => Some(Work::Fill),
            StepOp::Map { .. } => Some(Work::Map),
        }
    }
}

/// The choice for one product, with its alternatives.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The product.
    pub value: ValueId,
    /// The book's case, 1 to 4, by the layouts of the operands.
    pub case: u8,
    /// The chosen alternative, then the others by cost; of a pinned product only those that satisfy the pin. In a
    /// larger program one of them may be cheaper by itself. Without [`Request::alternatives`] only the chosen one.
    pub alternatives: Vec<Alternative>,
    /// The pin of the statement, if any.
    pub pinned: Option<Pinned>,
}

/// A pin and its cost.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The pin as text: `by gather(A)`.
    pub text: String,
    /// The cheapest alternative without the pin.
    pub best: Alternative,
}

/// An alternative for a product.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The moves in order, named as in the book.
    pub moves: Vec<String>,
    /// Their isolated costs.
    pub costs: Vec<Cost>,
    /// Total isolated time.
    pub time: Time,
    /// Communication time.
    pub communication: Time,
    /// Bytes received by the device that receives the most.
    pub received: Bytes,
    /// Floating-point operations of one device.
    pub flops: u128,
    /// Most memory of a device for one of its steps: operands and result.
    pub held: Bytes,
    /// Whether the times are lower bounds, because the alternative lost without being simulated.
    pub is_bound: bool,
}
