//! From the search to the plan: the steps on the chosen ways, each once.

use super::case::case;
use super::lazy::Lazy;
use super::reshard::{Back, Distances, Node, Pricing, Score, Terms};
use super::search::{FREE, Origin, Search};
use super::{
    Alternative, Choice, Cost, Costs as _, LocalWork, Objective, Pinned, Plan, Step, StepId, StepOp, collective_name,
};
use crate::collective::{Collective, CollectiveKind};
use crate::function::Function;
use crate::layout::Layout;
use crate::program::{Definition, Program, ValueId};
use crate::units::{Bytes, Time};
use itertools::Itertools;
use petgraph::Direction;
use petgraph::graph::DiGraph;
use std::collections::HashMap;
use std::rc::Rc;

/// How many ways to do a product are kept.
const MOST_ALTERNATIVES: usize = 8;

/// So many prices that take long to find are found for them.
const MOST_PRICES: usize = 24;

/// Follows the ways back from the outputs; the choices between ways are told by [`Built::finish`].
pub(super) fn build(search: Search<'_>) -> Built<'_> {
    let program = search.program.clone();
    let mut builder = Builder {
        search,
        program,
        steps: DiGraph::new(),
        made: HashMap::new(),
        chosen: Vec::new(),
        prices: MOST_PRICES,
    };
    let mut outputs = Vec::new();
    // Values in program order, so that steps read as the program does; an unused one is planned all the same.
    for id in builder.program.value_ids() {
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
    Built { builder, outputs, carried }
}

/// The steps of a plan, and the search that found them.
pub(super) struct Built<'a> {
    builder: Builder<'a>,
    outputs: Vec<StepId>,
    carried: Vec<(StepId, StepId)>,
}

impl Built<'_> {
    /// What plans for one program are compared by: unlike the search, it counts a step with several users once.
    pub(super) fn score(&self) -> Score {
        let objective = self.builder.search.costs.objective();
        let score = |step: &Step| {
            let times = step.times(&self.builder.program);
            Score::new(objective, step.cost.time, step.received, step.flops).times(times)
        };
        self.builder.steps.node_weights().map(score).fold(Score::default(), |sum, score| sum + score)
    }

    /// The collectives, each with the layout that it is applied to.
    pub(super) fn moves(&self) -> impl Iterator<Item = (Collective, Layout)> {
        let steps = &self.builder.steps;
        steps.node_indices().filter_map(|id| {
            let StepOp::Collective(collective) = &steps[id].op else { return None };
            let operand = steps.neighbors_directed(id, Direction::Incoming).next()?;
            Some((collective.clone(), steps[operand].layout.clone()))
        })
    }

    /// The same steps at what they cost by now.
    pub(super) fn repriced(mut self) -> Self {
        let costs: Vec<Cost> =
            self.moves().map(|(collective, from)| self.builder.search.costs.collective(&collective, &from)).collect();
        let moves = self.builder.steps.node_weights_mut().filter(|step| matches!(step.op, StepOp::Collective(_)));
        moves.zip(costs).for_each(|(step, cost)| step.cost = cost);
        self
    }

    /// The plan, with what was not chosen.
    ///
    /// - `least`: what no plan is below, by the figure that plans are chosen by.
    /// - `lazy`: the prices that the plan was made by.
    pub(super) fn finish(self, least: u128, lazy: &Lazy<'_>) -> Plan {
        let score = self.score();
        let Built { mut builder, outputs, carried } = self;
        let chosen = std::mem::take(&mut builder.chosen);
        let choices = chosen.into_iter().map(|(id, node)| builder.choice(id, node, lazy)).collect();
        let costs = builder.search.costs;
        let computing = builder.program.value_ids().map(|id| builder.search.least_product(id).1).sum();
        let lower_bound = match costs.objective() {
            Objective::Time => Time::from_ticks(least).max(computing),
            Objective::Bytes => computing,
        };
        Plan {
            program: builder.program,
            steps: builder.steps,
            outputs,
            choices,
            carried,
            origins: Vec::new(),
            filled: Vec::new(),
            costs: costs.name(),
            exact: least >= score.first(),
            lower_bound,
        }
    }
}

struct Builder<'a> {
    search: Search<'a>,
    program: Program,
    steps: DiGraph<Step, u32>,
    /// The step that has a value in a sharding: what is asked for twice is done once.
    made: HashMap<(ValueId, Node), StepId>,
    /// The products, with the sharding in which each leaves its statement.
    chosen: Vec<(ValueId, Node)>,
    /// How many prices may still be found for what was not chosen.
    prices: usize,
}

impl Builder<'_> {
    /// The step of a settled value.
    fn settled(&mut self, id: ValueId) -> StepId {
        let settled = self.search.found[id.index()].settled;
        self.make(id, settled.expect("what is carried is settled"), id)
    }

    /// The step that has the value in this sharding, made if it is not there yet, because `user` needs it.
    fn make(&mut self, id: ValueId, node: Node, user: ValueId) -> StepId {
        if let Some(step) = self.made.get(&(id, node)) {
            return *step;
        }
        let found = Rc::clone(&self.search.found[id.index()]);
        let is_made = found.is_made(node);
        let shared = || found.shared.iter().find(|(shared, _)| *shared == node).map(|(_, ways)| ways);
        let step = match is_made {
            true => self.make_along(id, node, user, &found.made, true),
            false => self.make_along(id, node, user, shared().unwrap_or(found.offered()), false),
        };
        self.made.insert((id, node), step);
        if is_made && matches!(self.program.value(id).definition, Definition::Product { .. }) {
            self.chosen.push((id, node));
        }
        step
    }

    /// Follows some ways to a value back to where they start: where it is made, or where it is had already.
    fn make_along(&mut self, id: ValueId, node: Node, user: ValueId, ways: &Distances<Origin>, making: bool) -> StepId {
        if let Some(step) = self.made.get(&(id, node)).filter(|_| !making) {
            return *step;
        }
        let (_, back) = ways.get(node).expect("asked for only where it was reached").clone();
        let step = match back {
            Back::Move(from, collective, _) => {
                let operand = self.make_along(id, from, user, ways, making);
                self.push_collective(id, (*collective).clone(), operand, user)
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
            .zip(&origin.operands)
            .map(|(operand, node)| self.make(*operand, *node, id))
            .collect();
        let layout = self.search.space(id).layout(node);
        let einsum = match &value.definition {
            Definition::Input => None,
            _ => Some(self.program.einsum(id)),
        };
        let op = match (&value.definition, einsum) {
            (Definition::Collective { collective, .. }, _) => {
                return self.push_collective(id, collective.clone(), operands[0], id);
            }
            (Definition::Product { .. }, Some(einsum)) => StepOp::Product { einsum },
            (Definition::Reduce { operator, .. }, Some(einsum)) => StepOp::Reduce { operator: *operator, einsum },
            (Definition::Map { function, .. }, Some(einsum)) => StepOp::Map { function: *function, einsum },
            // A new name for the same blocks is no step; another order of the dims is.
            (Definition::Move { .. } | Definition::Rename { .. }, Some(einsum)) => {
                if self.program.carried().any(|carried| carried.first == id) {
                    return self.push_local(id, StepOp::Carry, layout, &operands);
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
            StepOp::Reduce { einsum, .. } | StepOp::Map { einsum, .. } => {
                (costs.map(&LocalWork::new(einsum, &layouts, &layout, mesh)), 0)
            }
        };
        self.push(Step { op, value: id, user: id, layout, cost, received: Bytes(0), flops }, operands)
    }

    fn push_collective(&mut self, id: ValueId, collective: Collective, operand: StepId, user: ValueId) -> StepId {
        let from = self.steps[operand].layout.clone();
        let mesh = &self.program.mesh;
        let to = collective.apply(&from.sharding, mesh).expect("an edge of the graph");
        // A renamed or moved value still goes by the layout of its first step; the dims are those of the value.
        let dims = self.program.value(id).dims.clone();
        let layout = Layout { dtype: from.dtype, dims, sharding: to };
        let cost = self.search.costs.collective(&collective, &from);
        let received = collective.bytes_received(&from, mesh);
        let op = StepOp::Collective(collective);
        self.push(Step { op, value: id, user, layout, cost, received, flops: 0 }, &[operand])
    }

    fn push(&mut self, step: Step, operands: &[StepId]) -> StepId {
        let id = self.steps.add_node(step);
        for (place, operand) in (0..).zip(operands) {
            self.steps.add_edge(*operand, id, place);
        }
        id
    }

    /// The ways in which the product could have been done: the one that was chosen, then the others, cheapest first.
    fn choice(&mut self, id: ValueId, target: Node, lazy: &Lazy<'_>) -> Choice {
        let operands = self.program.value(id).definition.operands().to_vec();
        let origin = self.search.found[id.index()].made.origin(target).cloned();
        let mut found: Vec<Way> = Vec::new();
        let mut onward: HashMap<Node, Distances<Origin>> = HashMap::new();
        for (local, assignment) in self.search.ways(id).iter() {
            let (program, costs, allowed) = (self.search.program, self.search.costs, self.search.allowed(id));
            let node = local.result;
            let ways = onward.entry(node).or_insert_with(|| {
                let start = (node, Score::default(), Origin { operands: Vec::new() });
                let pricing = Pricing { times: 1, terms: Terms::new(allowed), mesh: &program.mesh, costs };
                self.search.space_mut(id).distances([start], Some(target), &pricing)
            });
            let mut path = Vec::new();
            let mut reachable = true;
            for (operand, node) in operands.iter().zip(&local.operands) {
                let moves = self.search.found[operand.index()].offered().way(*node);
                reachable &= moves.is_some();
                path.extend(moves.into_iter().flatten().map(|(from, collective, _)| (*operand, from, collective)));
            }
            let Some(after) = ways.way(target).filter(|_| reachable) else { continue };
            path.extend(after.into_iter().map(|(from, collective, _)| (id, from, collective)));
            let (compute, flops) = self.search.compute_cost(id, assignment);
            let is_chosen = origin.as_ref().is_some_and(|origin| origin.operands == local.operands)
                && self.search.found[id.index()].made.starts_at(target, node);
            let obeys = self.search.obeys(id, assignment);
            let held = local.held;
            found
                .push(self.priced(Way { score: Score::default(), compute, flops, path, obeys, is_chosen, held }, lazy));
        }
        // Names are made, and prices found, for the few that are kept.
        found.sort_by_key(|way| (way.score, way.path.len()));
        let pin = self.program.value(id).pin.clone();
        if pin.is_some() {
            found.iter().for_each(|way| self.find_prices(way, lazy));
            found = found.into_iter().map(|way| self.priced(way, lazy)).collect();
            found.sort_by_key(|way| (way.score, way.path.len()));
        }
        let pinned = pin
            .zip(found.first())
            .map(|(pin, best)| Pinned { text: self.program.pin_text(id, &pin), best: self.alternative(best, lazy) });
        found.retain(|way| way.obeys && (way.is_chosen || is_plain(way)));
        found.sort_by_key(|way| !way.is_chosen);
        let mut kept: Vec<(Score, Alternative)> = Vec::new();
        for way in found {
            let moves = self.moves(&way);
            if kept.iter().all(|(_, known)| known.moves != moves) {
                self.find_prices(&way, lazy);
                let way = self.priced(way, lazy);
                kept.push((way.score, self.alternative(&way, lazy)));
            }
            if kept.len() == MOST_ALTERNATIVES {
                break;
            }
        }
        let others = kept.get_mut(1..).unwrap_or_default();
        others.sort_by(|(a, one), (b, two)| (a, one.moves.len(), &one.moves).cmp(&(b, two.moves.len(), &two.moves)));
        let alternatives = kept.into_iter().map(|(_, alternative)| alternative).collect();
        let einsum = self.program.einsum(id);
        let given = |place: usize| self.given(operands[place]);
        let (left, right) = (given(0), given(1));
        Choice { value: id, case: case(&einsum, [&left.sharding, &right.sharding]), alternatives, pinned }
    }

    /// A way with what it costs, as far as that is known.
    fn priced(&self, way: Way, lazy: &Lazy<'_>) -> Way {
        let objective = lazy.objective();
        let own = Score::new(objective, way.compute.time, Bytes(0), way.flops);
        let moves = way.path.iter().map(|(id, from, collective)| {
            let from = self.search.space(*id).layout(*from);
            let received = collective.bytes_received(&from, &self.program.mesh);
            Score::new(objective, lazy.collective(collective, &from).time, received, 0)
        });
        let score = moves.fold(own, |sum, score| sum + score);
        Way { score, ..way }
    }

    /// Finds the prices of the moves of a way, if they are few.
    fn find_prices(&mut self, way: &Way, lazy: &Lazy<'_>) {
        for (id, from, collective) in &way.path {
            let from = self.search.space(*id).layout(*from);
            if self.prices > 0 && lazy.at_least(collective, &from).is_some() {
                self.prices -= 1;
                lazy.learn(collective, &from);
            }
        }
    }

    /// The layout that an operand has before anything is done for the product.
    fn given(&self, operand: ValueId) -> Layout {
        let settled = self.search.found[operand.index()].settled;
        let step = settled.and_then(|node| self.made.get(&(operand, node)));
        let taken = || self.made.iter().filter(|((id, _), _)| *id == operand).map(|(_, step)| *step).min();
        let step = step.copied().or_else(taken).expect("an operand has been made");
        self.steps[step].layout.clone()
    }

    /// The moves of a way, as the book writes them.
    fn moves(&self, way: &Way) -> Vec<String> {
        let (mesh, dims) = (&self.program.mesh, &self.program.dims);
        let name = |(id, from, collective): &(ValueId, Node, Rc<Collective>)| {
            let from = self.search.space(*id).layout(*from);
            let (move_name, brackets) = (collective_name(collective, &from, mesh, dims), from.brackets(mesh, dims));
            format!("{move_name}({}{brackets})", self.program.name(*id))
        };
        way.path.iter().map(name).collect()
    }

    fn alternative(&self, way: &Way, lazy: &Lazy<'_>) -> Alternative {
        let mesh = &self.program.mesh;
        let (mut received, mut held, mut is_bound) = (Bytes(0), way.held, false);
        let mut costs = Vec::new();
        for (id, node, collective) in &way.path {
            let from = self.search.space(*id).layout(*node);
            received = Bytes(received.0.saturating_add(collective.bytes_received(&from, mesh).0));
            let to = collective.apply(&from.sharding, mesh).map(|sharding| Layout { sharding, ..from.clone() });
            let after = to.map_or(0, |to| to.local_bytes(mesh).0);
            held = held.max(from.local_bytes(mesh).0.saturating_add(after));
            is_bound |= lazy.at_least(collective, &from).is_some();
            costs.push(lazy.collective(collective, &from));
        }
        let communication = costs.iter().map(|cost| cost.time).sum();
        let time = communication + way.compute.time;
        let (flops, held) = (way.flops, Bytes(held));
        Alternative { moves: self.moves(way), costs, time, communication, received, flops, held, is_bound }
    }
}

/// Whether a way is one that is written: each array is moved once, and before or after it may be cut.
fn is_plain(way: &Way) -> bool {
    let ids = way.path.iter().map(|(id, _, _)| *id).unique();
    let slices = |(_, _, moved): &&(ValueId, Node, Rc<Collective>)| moved.kind() == CollectiveKind::Slice;
    ids.into_iter().all(|id| {
        let of_array = || way.path.iter().filter(move |(other, _, _)| *other == id);
        let count = of_array().count();
        let cuts = of_array().filter(slices).count();
        cuts <= 1 && count - cuts <= 1
    })
}

/// One way to do a product: its moves, each with the array and where it starts.
struct Way {
    score: Score,
    compute: Cost,
    flops: u128,
    path: Vec<(ValueId, Node, Rc<Collective>)>,
    /// Whether it is what the statement asks for.
    obeys: bool,
    is_chosen: bool,
    /// Bytes of the operands and of the result on a device.
    held: u64,
}
