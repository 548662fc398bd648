//! Construction of the plan from the search: the steps on the chosen paths, each once.

use super::alternatives::alternatives;
use super::assignments::Assignment;
use super::case::case;
use super::fused;
use super::prices::Prices;
use super::reshard::{Back, Distances, Node, Score};
use super::search::{FREE, Origin, Search, Take, shift};
use super::{
    Budget, Choice, Cost, LocalWork, LowerBound, Objective, Overlap, Plan, Step, StepId, StepOp, Stop, local_cost,
    usage,
};
use crate::collective::Collective;
use crate::function::Function;
use crate::fusion::Access;
use crate::layout::{Layout, Sharding};
use crate::mesh::AxisSet;
use crate::program::{Definition, Program, ValueId};
use crate::sim::usage::StepUsage;
use petgraph::Direction;
use petgraph::graph::DiGraph;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Follows the chosen paths back from the outputs. [`Built::finish`] adds the alternatives.
pub(super) fn build(search: Search<'_>) -> Built<'_> {
    let program = search.program.clone();
    let takes = search.taken().takes;
    let mut builder = Builder {
        search,
        takes,
        program,
        steps: DiGraph::new(),
        made: FxHashMap::default(),
        chosen: Vec::new(),
        prices: Budget::MOST_PRICES,
    };
    let mut outputs = Vec::new();
    // Values in program order, so that steps follow the program. Unused values are planned, too.
    for id in builder.program.value_ids() {
        for last in handed_from_outside(&builder.program, id) {
            builder.settled(last);
        }
        if let Some(settled) = builder.search.found[id.index()].settled {
            builder.make(id, settled, id);
        }
    }
    for id in builder.program.outputs.clone() {
        let output = builder.search.found[id.index()].output;
        outputs.push(builder.make(id, output.expect("outputs leave the program somewhere"), id));
    }
    let carried: Vec<_> = builder.program.carried().copied().collect();
    let carried =
        carried.iter().map(|carried| (builder.settled(carried.first), builder.settled(carried.last))).collect();
    let mut built = Built { builder, outputs, carried, kernels: Vec::new() };
    built.fuse();
    built
}

/// The carried values of the repeat that begins at a value which are computed outside of its body: each iteration hands
/// on the same array, so its steps come before the body.
fn handed_from_outside(program: &Program, begin: ValueId) -> Vec<ValueId> {
    let Some(repeat) = program.repeats.iter().find(|repeat| repeat.body.start == begin.index()) else {
        return Vec::new();
    };
    let is_outside = |last: &ValueId| {
        let mut id = *last;
        while let Definition::Move { operand, .. } | Definition::Rename { operand } = program.value(id).definition {
            id = operand;
            if id.index() < repeat.body.start {
                return true;
            }
        }
        false
    };
    repeat.carried.iter().map(|carried| carried.last).filter(is_outside).collect()
}

/// The steps of a plan, and the search that found them.
pub(super) struct Built<'a> {
    builder: Builder<'a>,
    outputs: Vec<StepId>,
    carried: Vec<(StepId, StepId)>,
    kernels: Vec<Vec<StepId>>,
}

impl<'a> Built<'a> {
    /// Adds the kernels and the costs of their steps.
    fn fuse(&mut self) {
        let Built { builder, outputs, carried, .. } = &mut *self;
        let (structure, costs) = (builder.search.structure(), builder.search.costs);
        let mark = |id: ValueId| structure.kernel(id);
        let (kernels, access) =
            fused::kernels(&builder.steps, (outputs, carried), mark, costs.fusion(), &builder.program);
        for id in kernels.iter().flatten() {
            let access = &access[id.index()];
            let cost = builder.local_cost(*id, access);
            let step = &mut builder.steps[*id];
            step.cost = cost;
            step.usage = usage::expected(step, None, access.is_inside, &builder.program.mesh);
        }
        self.kernels = kernels;
    }

    /// Returns the search for reuse.
    pub(super) fn into_search(self) -> Search<'a> {
        self.builder.search
    }

    /// The score of the plan; unlike in the search, a step with several users counts once.
    pub(super) fn score(&self) -> Score {
        let objective = self.builder.search.costs.objective();
        let score = |step: &Step| {
            let times = step.times(&self.builder.program);
            let rent = match step.op {
                StepOp::Input => self.builder.search.rent(step.value, &step.layout.sharding),
                _ => 0,
            };
            Score::new(objective, step.cost, step.flops).times(times).with_penalty(rent)
        };
        self.builder.steps.node_weights().map(score).fold(Score::default(), |sum, score| sum + score)
    }

    /// The collectives, each with its operand layout, in the dims of the value that is moved: its operand may be an array
    /// that is only renamed.
    pub(super) fn moves(&self) -> impl Iterator<Item = (Collective, Layout)> {
        let steps = &self.builder.steps;
        steps.node_indices().filter_map(|id| {
            let StepOp::Collective(collective) = &steps[id].op else { return None };
            let operand = steps.neighbors_directed(id, Direction::Incoming).next()?;
            let Layout { dims, used, .. } = steps[id].layout.clone();
            Some((collective.clone(), Layout { dims, used, ..steps[operand].layout.clone() }))
        })
    }

    /// Updates the costs of the steps.
    pub(super) fn repriced(mut self) -> Self {
        let costs: Vec<Cost> =
            self.moves().map(|(collective, from)| self.builder.search.costs.collective(&collective, &from)).collect();
        let moves = self.builder.steps.node_weights_mut().filter(|step| matches!(step.op, StepOp::Collective(_)));
        moves.zip(costs).for_each(|(step, cost)| step.cost = cost);
        self
    }

    /// Returns the plan, with alternatives.
    ///
    /// - `least`: lower bound on the objective.
    /// - `stop`: why it may be below the plan.
    /// - `known_prices`: the prices that the plan is based on.
    pub(super) fn finish(self, least: u128, stop: Stop, known_prices: &Prices<'_>) -> Plan {
        let score = self.score();
        let Built { mut builder, outputs, carried, kernels } = self;
        let chosen = std::mem::take(&mut builder.chosen);
        let choices = chosen.into_iter().map(|(id, node)| builder.choice(id, node, known_prices)).collect();
        let costs = builder.search.costs;
        let computing = builder.program.value_ids().map(|id| builder.search.least_product(id).1).sum();
        // If not all moves were examined, the result is a plan, but not a bound.
        let (met, budget) = (builder.search.budget.met(), builder.search.options.budget);
        // A kernel may take less time than the search has counted. Then the search gives no lower bound.
        let is_bound = costs.objective() == Objective::Bytes || least <= score.first();
        let searched = if met.is_none() && is_bound { least } else { 0 };
        let computing = LowerBound { time: computing, ..LowerBound::default() };
        let lower_bound = LowerBound::of(costs.objective(), searched).better(computing);
        let stop = match met {
            Some(limit) => limit,
            None if !is_bound => Stop::Gap,
            None if least >= score.first() => Stop::Optimal,
            None => stop,
        };
        Plan {
            program: builder.program,
            steps: builder.steps,
            outputs,
            choices,
            kernels,
            carried,
            origins: Vec::new(),
            overlap: Overlap::default(),
            filled: Vec::new(),
            split: Vec::new(),
            rewritten: Vec::new(),
            instead: None,
            costs: costs.name(),
            stop,
            in_parts: false,
            lower_bound,
            with_split_axes: None,
            budget: if met.is_some() { budget.spent() } else { budget },
        }
    }
}

struct Builder<'a> {
    search: Search<'a>,
    program: Program,
    steps: DiGraph<Step, u32>,
    /// The step for a value in a sharding; each is built once.
    made: FxHashMap<(ValueId, Node), StepId>,
    /// The products, with the sharding in which each leaves its statement.
    chosen: Vec<(ValueId, Node)>,
    /// How each value is taken by its user.
    takes: Vec<Take>,
    /// Number of prices that may still be computed for alternatives.
    prices: usize,
}

impl Builder<'_> {
    /// The step of a decided value.
    fn settled(&mut self, id: ValueId) -> StepId {
        let settled = self.search.found[id.index()].settled;
        self.make(id, settled.expect("what is carried is settled"), id)
    }

    /// The step for a value in a sharding, built on demand for `user`.
    fn make(&mut self, id: ValueId, node: Node, user: ValueId) -> StepId {
        if let Some(step) = self.made.get(&(id, node)) {
            return *step;
        }
        let found = Rc::clone(&self.search.found[id.index()]);
        let take = self.takes[id.index()];
        let inside = found.fresh(node, take).filter(|_| found.settled.is_none_or(|at| at == node));
        let is_made = found.is_made(node) || inside.is_some();
        let shared = || found.shared.iter().find(|(shared, _)| *shared == node).map(|(_, ways)| ways);
        let step = match inside {
            Some(origin) => self.make_source(id, node, origin),
            None if is_made => {
                // Whoever needs it first, a decided value is brought into its layout for its own statement.
                let user = if found.settled.is_some() { id } else { user };
                self.make_along(id, node, user, found.made_for(take), true)
            }
            None => self.make_along(id, node, user, shared().unwrap_or(found.offered()), false),
        };
        self.made.insert((id, node), step);
        if is_made && matches!(self.program.value(id).definition, Definition::Product { .. }) {
            self.chosen.push((id, node));
        }
        step
    }

    /// Follows a path to a value back to its start: its computation, or an existing step.
    fn make_along(&mut self, id: ValueId, node: Node, user: ValueId, ways: &Distances<Origin>, making: bool) -> StepId {
        if let Some(step) = self.made.get(&(id, node)).filter(|_| !making) {
            return *step;
        }
        let (_, back) = ways.get(node).expect("asked for only where it was reached").clone();
        let step = match back {
            Back::Move(from, place) => {
                let (collective, _) = self.search.space(id).edge(from, place).expect("it was walked on from there");
                let collective = Rc::unwrap_or_clone(collective);
                let operand = self.make_along(id, from, user, ways, making);
                self.push_collective(id, collective, operand, user)
            }
            Back::Source(origin) if making => self.make_source(id, node, &origin),
            Back::Source(_) => self.make(id, node, user),
        };
        if !making {
            self.made.insert((id, node), step);
        }
        step
    }

    fn make_source(&mut self, id: ValueId, node: Node, origin: &Origin) -> StepId {
        let value = self.program.value(id).clone();
        let operands: Vec<StepId> = value
            .definition
            .operands()
            .iter()
            .zip(origin.nodes())
            .map(|(operand, node)| self.make(*operand, node, id))
            .collect();
        let layout = self.search.space(id).layout(node);
        let operands = self.with_opened(id, operands, &layout.sharding);
        if let Some(shift) = shift(&value.definition, &layout, &self.program.mesh) {
            return self.push_collective(id, shift, operands[0], id);
        }
        let einsum = match &value.definition {
            Definition::Input { .. } => None,
            _ => Some(self.program.einsum(id)),
        };
        let op = match (&value.definition, einsum) {
            (Definition::Collective { collective, .. }, _) => {
                return self.push_collective(id, collective.clone(), operands[0], id);
            }
            (Definition::Product { .. }, Some(einsum)) => StepOp::Product { einsum },
            (Definition::Kernel { kernel, .. }, _) => StepOp::Kernel(kernel.clone()),
            (Definition::Reduce { operator, .. }, Some(einsum)) => StepOp::Reduce { operator: *operator, einsum },
            (Definition::Map { function, .. }, Some(einsum)) => StepOp::Map { function: *function, einsum },
            // Renaming dims needs no step; reordering them does.
            (Definition::Move { .. } | Definition::Rename { .. }, Some(einsum)) => {
                if self.program.carried().any(|carried| carried.first == id) {
                    // An accumulator may be opened once, before the loop.
                    let axes = layout.sharding.open.without(self.steps[operands[0]].layout.sharding.open);
                    let entry = value.definition.operands()[0];
                    // After another loop, it is not a step of that loop.
                    let user = if self.program.body_of(entry).is_some() { id } else { entry };
                    let before = match axes.is_empty() {
                        true => operands[0],
                        false => self.push_collective(entry, Collective::Open { axes }, operands[0], user),
                    };
                    return self.push_local(id, StepOp::Carry, layout, &[before]);
                }
                if einsum.operands[0] == einsum.result {
                    return operands[0];
                }
                StepOp::Map { function: Function::Identity, einsum }
            }
            (_, _) => StepOp::Input,
        };
        self.push_local(id, op, layout, &operands)
    }

    /// The operands of a step, with closed terms next to an open sum opened.
    fn with_opened(&mut self, id: ValueId, operands: Vec<StepId>, result: &Sharding) -> Vec<StepId> {
        let sharding = |step: &StepId| self.steps[*step].layout.sharding.clone();
        let assignment = Assignment { operands: operands.iter().map(sharding).collect(), result: result.clone() };
        let opened = self.search.opened(id, &assignment);
        let values = self.program.value(id).definition.operands().to_vec();
        let parts = operands.into_iter().zip(values).zip(opened);
        let part = |((step, value), axes): ((StepId, ValueId), AxisSet)| match axes.is_empty() {
            true => step,
            false => self.push_collective(value, Collective::Open { axes }, step, id),
        };
        parts.map(part).collect()
    }

    fn push_local(&mut self, id: ValueId, op: StepOp, layout: Layout, operands: &[StepId]) -> StepId {
        let mesh = &self.program.mesh;
        let layouts: Vec<Layout> = operands.iter().map(|step| self.steps[*step].layout.clone()).collect();
        let costs = self.search.costs;
        let (cost, flops) = match &op {
            StepOp::Input | StepOp::Carry | StepOp::Collective(_) => (FREE, 0),
            StepOp::Product { einsum } => {
                let work = LocalWork::new(einsum, &layouts, &layout, mesh);
                (costs.product(&work), work.flops)
            }
            StepOp::Kernel(kernel) => {
                let work = LocalWork::declared(kernel, &layouts, &layout, mesh);
                (costs.product(&work), work.flops)
            }
            StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
                (costs.map(&LocalWork::new(einsum, &layouts, &layout, mesh)), 0)
            }
        };
        self.push(
            Step { op, value: id, user: id, layout, cost, usage: StepUsage::none(), flops, recipe: None },
            operands,
        )
    }

    /// The cost of a step in a kernel.
    fn local_cost(&self, id: StepId, access: &Access) -> Cost {
        let cost = local_cost(&self.steps, id, access, self.search.costs, &self.program.mesh);
        cost.unwrap_or(self.steps[id].cost)
    }

    fn push_collective(&mut self, id: ValueId, collective: Collective, operand: StepId, user: ValueId) -> StepId {
        // A renamed or moved value keeps the layout of its first step; the dims are those of the value.
        let from = self.program.layout(id, self.steps[operand].layout.sharding.clone());
        let to = collective.apply(&from.sharding, &self.program.mesh).expect("an edge of the graph");
        let cost = self.search.costs.collective(&collective, &from);
        let layout = Layout { sharding: to, ..from };
        let op = StepOp::Collective(collective);
        self.push(
            Step { op, value: id, user, layout, cost, usage: StepUsage::none(), flops: 0, recipe: None },
            &[operand],
        )
    }

    fn push(&mut self, step: Step, operands: &[StepId]) -> StepId {
        let operand = operands.first().map(|operand| &self.steps[*operand].layout);
        let usage = usage::expected(&step, operand, false, &self.program.mesh);
        let step = Step { usage, ..step };
        let id = self.steps.add_node(step);
        for (place, operand) in (0..).zip(operands) {
            self.steps.add_edge(*operand, id, place);
        }
        id
    }

    /// The choice for a product, with its alternatives.
    fn choice(&mut self, id: ValueId, target: Node, known_prices: &Prices<'_>) -> Choice {
        let (alternatives, pinned) = alternatives(&mut self.search, (id, target), known_prices, &mut self.prices);
        let operands = self.program.value(id).definition.operands();
        let given = |place: usize| self.given(operands[place]).sharding;
        let case = case(&self.program.einsum(id), [&given(0), &given(1)]);
        Choice { value: id, case, alternatives, pinned }
    }

    /// The layout of an operand before any moves for the product.
    fn given(&self, operand: ValueId) -> Layout {
        let settled = self.search.found[operand.index()].settled;
        let step = settled.and_then(|node| self.made.get(&(operand, node)));
        let taken = || self.made.iter().filter(|((id, _), _)| *id == operand).map(|(_, step)| *step).min();
        let step = step.copied().or_else(taken).expect("an operand has been made");
        self.steps[step].layout.clone()
    }
}
