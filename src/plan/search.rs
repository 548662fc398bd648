//! The search over layouts: for every value, the cheapest way to have it in each sharding.
//!
//! Values are taken in program order. A value that is used once and whose layout is free keeps all its shardings
//! with their least scores, so that its consumer chooses (exact on trees); every other value is settled in one.

use super::assignments::{Assignment, OpenWay, assignments};
use super::holes;
use super::reshard::{Distances, Node, Pricing, Score, Space};
use super::{Allowed, Cost, Costs, LocalWork, PlanError};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::layout::{Layout, Sharding};
use crate::mesh::AxisSet;
use crate::operator::Operator;
use crate::passes;
use crate::program::{Definition, Program, ValueId, Wanted};
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The shardings in which the operands of a local computation are taken, a node in the space of each.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) operands: Vec<Node>,
}

/// What the search knows of a value.
pub(super) struct Found {
    /// The ways to make it.
    pub(super) made: Distances<Origin>,
    /// The one sharding it is made in, if that is settled.
    pub(super) settled: Option<Node>,
    /// The ways on from there, once a consumer asked.
    pub(super) onward: Option<Distances<Origin>>,
}

impl Found {
    /// What a consumer chooses from.
    pub(super) fn offered(&self) -> &Distances<Origin> {
        self.onward.as_ref().unwrap_or(&self.made)
    }
}

/// Shardings that are tried for values of a free layout.
pub(super) type Settled = BTreeMap<ValueId, Sharding>;

/// The state of the search, and its result.
pub(super) struct Search<'a> {
    pub(super) program: &'a Program,
    pub(super) costs: &'a dyn Costs,
    /// One for each array type.
    pub(super) spaces: Vec<Space>,
    /// The space of each value.
    space_of: Vec<usize>,
    /// How the operands of each value meet, once that was asked.
    einsums: Vec<OnceCell<Rc<Einsum>>>,
    /// As far as the search has come.
    pub(super) found: Vec<Found>,
    /// Whether the program is a tree, so that the least score is found.
    pub(super) exact: bool,
    /// What may be done where no move is written.
    allowed: Allowed,
}

impl<'a> Search<'a> {
    /// Searches the whole program.
    ///
    /// - `settled`: where values of a free layout are settled; the others are where they are made most cheaply.
    pub(super) fn run(
        program: &'a Program,
        costs: &'a dyn Costs,
        allowed: Allowed,
        settled: &Settled,
    ) -> Result<Search<'a>, PlanError> {
        let mut spaces = Vec::new();
        let mut types = Vec::new();
        let mut space_of = Vec::new();
        for value in &program.values {
            let kind = (value.dtype, &value.dims);
            let place = types.iter().position(|known| *known == kind).unwrap_or_else(|| {
                types.push(kind);
                spaces.push(Space::new(value.dtype, value.dims.clone()));
                types.len() - 1
            });
            space_of.push(place);
        }
        let uses = count_uses(program);
        let tree = uses.iter().all(|uses| *uses <= 1) && program.repeats.is_empty();
        let pinned = program.values.iter().any(|value| value.pin.is_some());
        let exact = tree && allowed == Allowed::Moves && !pinned;
        let mut search = Search {
            program,
            costs,
            spaces,
            space_of,
            einsums: vec![OnceCell::new(); program.values.len()],
            found: Vec::new(),
            exact,
            allowed,
        };
        for id in program.value_ids() {
            let found = search.find(id, uses[id.index()], settled.get(&id))?;
            search.found.push(found);
        }
        Ok(search)
    }

    /// How the operands of a value meet.
    fn einsum(&self, id: ValueId) -> Rc<Einsum> {
        let einsum = self.einsums[id.index()].get_or_init(|| Rc::new(self.program.einsum(id)));
        Rc::clone(einsum)
    }

    /// The space of a value's shardings.
    pub(super) fn space(&self, value: ValueId) -> &Space {
        &self.spaces[self.space_of[value.index()]]
    }

    pub(super) fn space_mut(&mut self, value: ValueId) -> &mut Space {
        &mut self.spaces[self.space_of[value.index()]]
    }

    /// The ways to make one value, settled where that is due.
    fn find(&mut self, id: ValueId, uses: usize, pinned: Option<&Sharding>) -> Result<Found, PlanError> {
        for operand in self.program.value(id).definition.operands() {
            self.walk_on(*operand);
        }
        let sources = self.sources(id);
        if let (Some(pin), true) = (&self.program.value(id).pin, sources.is_empty()) {
            return Err(self.impossible(id, pin));
        }
        let (program, costs) = (self.program, self.costs);
        let value = program.value(id);
        let is_output = program.outputs.contains(&id);
        // What is carried is settled and closed before the body, and handed on as it was.
        let carried = program.carried().any(|carried| carried.entry == id || carried.first == id);
        let head = program.carried().find(|carried| carried.last == id).map(|carried| self.head(carried.first));
        let target = match (&value.wanted, head.flatten()) {
            (Wanted::Exact(sharding), _) => Some(self.space_mut(id).node(sharding)),
            (Wanted::Free, Some(sharding)) => Some(self.space_mut(id).node(&sharding)),
            (Wanted::Free, None) => None,
        };
        let pricing = Pricing { times: program.times(id), allowed: self.allowed(id), mesh: &program.mesh, costs };
        let made = self.space_mut(id).distances(sources, target, &pricing);
        let settled = match target {
            Some(target) => made.get(target).map(|_| target),
            None if uses == 1 && !is_output && !carried => return Ok(Found { made, settled: None, onward: None }),
            None => match pinned {
                Some(sharding) => self.space(id).known(sharding).filter(|node| made.get(*node).is_some()),
                None => self.cheapest(id, &made, is_output || carried, uses > 0),
            },
        };
        if settled.is_none() {
            return Err(self.unreachable(id));
        }
        Ok(Found { made, settled, onward: None })
    }

    /// The sharding in which an iteration begins with a value.
    fn head(&self, first: ValueId) -> Option<Sharding> {
        let settled = self.found[first.index()].settled?;
        Some(self.space(first).sharding(settled).clone())
    }

    /// What may be done to a value to bring it into the layout that is asked for.
    pub(super) fn allowed(&self, id: ValueId) -> Allowed {
        if self.program.value(id).definition.is_written_move() { Allowed::Moves } else { self.allowed }
    }

    /// The cheapest sharding of a value; an output is closed.
    ///
    /// Where consumers can only slice, they start from as few axes as can be.
    fn cheapest(&self, id: ValueId, made: &Distances<Origin>, closed: bool, used: bool) -> Option<Node> {
        let space = self.space(id);
        let fits = |node: Node| !closed || space.sharding(node).open.is_empty();
        let axes = |node: Node| match self.allowed {
            Allowed::Moves => 0,
            Allowed::Slices if used => space.sharding(node).dim_axes().len(),
            Allowed::Slices => 0,
        };
        let fitting = made.iter().filter(|(node, _)| fits(*node));
        fitting.min_by_key(|(node, score)| (axes(*node), *score, *node)).map(|(node, _)| node)
    }

    /// For a settled value, finds the ways from its sharding to all others.
    fn walk_on(&mut self, id: ValueId) {
        let found = &self.found[id.index()];
        let Some(settled) = found.settled.filter(|_| found.onward.is_none()) else { return };
        let (program, costs) = (self.program, self.costs);
        let start = (settled, Score::default(), Origin { operands: Vec::new() });
        // What a body hands on is moved behind it, once.
        let times = if program.carried().any(|carried| carried.last == id) { 1 } else { program.times(id) };
        let pricing = Pricing { times, allowed: self.allowed, mesh: &program.mesh, costs };
        let onward = self.space_mut(id).distances([start], None, &pricing);
        self.found[id.index()].onward = Some(onward);
    }

    /// The shardings in which a value can be made without a move after it.
    fn sources(&mut self, id: ValueId) -> Vec<(Node, Score, Origin)> {
        let program = self.program;
        let value = program.value(id);
        match &value.definition {
            Definition::Input => {
                let layouts = match &value.wanted {
                    Wanted::Exact(sharding) => vec![sharding.clone()],
                    Wanted::Free => holes::layouts(&value.dims, &program.mesh).unwrap_or_default(),
                };
                let source = |sharding: &Sharding| {
                    (self.space_mut(id).node(sharding), Score::default(), Origin { operands: Vec::new() })
                };
                layouts.iter().map(source).collect()
            }
            Definition::Move { operand, .. } | Definition::Rename { operand } => self.relabelled(id, *operand),
            Definition::Collective { collective, from, operand } => {
                let Some(source) = self.space(*operand).known(from) else { return Vec::new() };
                let Some((score, _)) = self.found[operand.index()].offered().get(source) else { return Vec::new() };
                let (score, layout) = (*score, self.space(*operand).layout(source));
                let Some(to) = collective.apply(from, &program.mesh) else { return Vec::new() };
                let cost = self.costs.collective(collective, &layout);
                let received = collective.bytes_received(&layout, &program.mesh);
                let own = Score::new(self.costs.objective(), cost, received, 0).times(program.times(id));
                vec![(self.space_mut(id).node(&to), score + own, Origin { operands: vec![source] })]
            }
            Definition::Product { .. } | Definition::Reduce { .. } | Definition::Map { .. } => {
                let assignments = self.assignments(id);
                let obeying = assignments.iter().filter(|assignment| self.obeys(id, assignment)).collect::<Vec<_>>();
                obeying.into_iter().filter_map(|assignment| self.source(id, assignment)).collect()
            }
        }
    }

    /// The same blocks under another order or other names of the dims; moves come after, as moves of the new value.
    fn relabelled(&mut self, id: ValueId, operand: ValueId) -> Vec<(Node, Score, Origin)> {
        let einsum = self.einsum(id);
        let offered: Vec<(Node, Score)> = self.found[operand.index()].offered().sources().collect();
        let mut sources = Vec::new();
        for (node, score) in offered {
            let from = self.space(operand).sharding(node);
            let place = |index| einsum.operands[0].iter().position(|other| other == index);
            let dims = einsum.result.iter().filter_map(place).map(|dim| from.dims[dim]).collect();
            let sharding = Sharding { dims, open: from.open, operator: from.operator };
            sources.push((self.space_mut(id).node(&sharding), score, Origin { operands: vec![node] }));
        }
        sources
    }

    /// What the mesh axes can do in a product or an elementwise function.
    pub(super) fn assignments(&self, id: ValueId) -> Vec<Assignment> {
        let program = self.program;
        let value = program.value(id);
        let operands = value.definition.operands();
        let einsum = self.einsum(id);
        let extents: Vec<Vec<u64>> =
            operands.iter().map(|id| program.value(*id).dims.iter().map(|dim| dim.size).collect()).collect();
        let lengths = einsum.lengths(&extents).unwrap_or_default();
        let whole = match &value.definition {
            Definition::Product { local: true, .. } => return self.local_product(id).into_iter().collect(),
            Definition::Product { .. } | Definition::Reduce { .. } => None,
            Definition::Map { function, .. } => softmax_dim(*function),
            Definition::Input | Definition::Move { .. } | Definition::Collective { .. } | Definition::Rename { .. } => {
                return Vec::new();
            }
        };
        let sums = match &value.definition {
            Definition::Reduce { operator, .. } => *operator,
            Definition::Product { .. }
            | Definition::Map { .. }
            | Definition::Input
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => Operator::Sum,
        };
        let ways: Vec<OpenWay> = Operator::ALL.iter().flat_map(|operator| self.open_ways(id, *operator)).collect();
        let mut assignments = assignments(&einsum, &lengths, &ways, sums, &program.mesh);
        if let Some(dim) = whole {
            assignments.retain(|assignment| assignment.result.dims[dim].is_empty());
        }
        assignments
    }

    /// The ways in which open sums under an operator pass through the computation of a value.
    fn open_ways(&self, id: ValueId, operator: Operator) -> Vec<OpenWay> {
        let value = self.program.value(id);
        let operands = value.definition.operands();
        let from: Vec<DType> = operands.iter().map(|id| self.program.value(*id).dtype).collect();
        let passage = match &value.definition {
            Definition::Product { .. } => {
                let contracts = !self.einsum(id).contracted().is_empty();
                passes::product(operator, &from, value.dtype, contracts)
            }
            Definition::Map { function, .. } => passes::map(*function, operator, &from, value.dtype),
            Definition::Reduce { operator: own, .. } => passes::reduce(*own, operator, from[0], value.dtype),
            Definition::Input | Definition::Move { .. } | Definition::Collective { .. } | Definition::Rename { .. } => {
                None
            }
        };
        let Some(passage) = passage else { return Vec::new() };
        let axes = |place: &usize| self.open_axes(operands[*place], operator);
        let way = |choice: &&[usize]| OpenWay {
            operands: choice.to_vec(),
            axes: choice.iter().map(axes).reduce(AxisSet::intersection).unwrap_or_default(),
            operator,
            result: passage.result,
        };
        passage.operands.iter().map(way).filter(|way| !way.axes.is_empty()).collect()
    }

    /// The axes over which a value can be had open under an operator.
    fn open_axes(&self, id: ValueId, operator: Operator) -> AxisSet {
        let space = self.space(id);
        let sharding = self.found[id.index()].offered().iter().map(|(node, _)| space.sharding(node));
        sharding.filter(|sharding| sharding.operator == operator).fold(AxisSet::NONE, |set, s| set.union(s.open))
    }

    /// `_LOCAL`: the operands as they are.
    fn local_product(&self, id: ValueId) -> Option<Assignment> {
        let value = self.program.value(id);
        let exact = |id: ValueId| match &self.program.value(id).wanted {
            Wanted::Exact(sharding) => Some(sharding.clone()),
            Wanted::Free => None,
        };
        let operands: Option<Vec<Sharding>> = value.definition.operands().iter().map(|id| exact(*id)).collect();
        Some(Assignment { operands: operands?, result: exact(id)? })
    }

    /// One assignment as a source of the value, if its operands can be had like that.
    pub(super) fn source(&mut self, id: ValueId, assignment: &Assignment) -> Option<(Node, Score, Origin)> {
        let program = self.program;
        let operands = program.value(id).definition.operands();
        let mut nodes = Vec::with_capacity(operands.len());
        let mut score = Score::default();
        for (operand, sharding) in operands.iter().zip(&assignment.operands) {
            let node = self.space(*operand).known(sharding)?;
            let (through, _) = self.found[operand.index()].offered().get(node)?;
            score = score + *through;
            nodes.push(node);
        }
        let (cost, flops) = self.compute_cost(id, assignment);
        let own = Score::new(self.costs.objective(), cost, Bytes(0), flops);
        let score = score + own.times(program.times(id));
        Some((self.space_mut(id).node(&assignment.result), score, Origin { operands: nodes }))
    }

    /// Time and operations of the local computation under an assignment.
    pub(super) fn compute_cost(&self, id: ValueId, assignment: &Assignment) -> (Cost, u128) {
        let program = self.program;
        let operands = program.value(id).definition.operands().iter().zip(&assignment.operands);
        let layouts: Vec<Layout> = operands.map(|(id, sharding)| program.layout(*id, sharding.clone())).collect();
        let result = program.layout(id, assignment.result.clone());
        let work = LocalWork::new(&self.einsum(id), &layouts, &result, &program.mesh);
        match &program.value(id).definition {
            Definition::Product { .. } => (self.costs.product(&work), work.flops),
            Definition::Input
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => (self.costs.map(&work), 0),
        }
    }

    fn unreachable(&self, id: ValueId) -> PlanError {
        let value = self.program.value(id);
        let layout = match &value.wanted {
            Wanted::Exact(sharding) => {
                self.program.layout(id, sharding.clone()).brackets(&self.program.mesh, &self.program.dims)
            }
            Wanted::Free => "any".to_owned(),
        };
        let name = value.name.clone().unwrap_or_else(|| "the unnamed array".to_owned());
        PlanError::Unreachable { name, layout, span: value.span.into() }
    }
}

/// No time at all.
pub(super) const FREE: Cost = Cost { time: Time::ZERO, limit: super::Limit::Free };

fn softmax_dim(function: Function) -> Option<usize> {
    match function {
        Function::Softmax { dim } => Some(usize::from(dim)),
        Function::Identity
        | Function::Unary(_)
        | Function::Binary(_)
        | Function::ByNumber(..)
        | Function::Over(_)
        | Function::Where
        | Function::Masked(_)
        | Function::Fill { .. }
        | Function::Cast(_) => None,
    }
}

/// How often each value is an operand.
fn count_uses(program: &Program) -> Vec<usize> {
    let mut uses = vec![0; program.values.len()];
    for operand in program.values.iter().flat_map(|value| value.definition.operands().iter().unique()) {
        uses[operand.index()] += 1;
    }
    uses
}
