//! The search over layouts: for every value, its minimum cost in each sharding.
//!
//! Values are processed in program order. A free value with a single user keeps all its shardings with their lowest
//! scores, and its user chooses. Every other value is *materialised* in one or more shardings, from which each of its
//! users continues; `branch.rs` decides which.
//!
//! A *relaxed* search leaves this decision open: each user chooses independently and pays its share. Its cost is a
//! lower bound for all decisions.

use super::assignments::{Assignment, Listed, OpenWay, assignments, listed};
use super::budget::MoveBudget;
use super::fused::Structure;
use super::kinds::kinds;
use super::layouts::layouts;
use super::reshard::{Distances, Node, Pricing, Score, SearchOptions, Space, are_slices_free};
use super::resident::{Resident, resident};
use super::{Allowed, Budget, Cost, Costs, LocalWork, Objective, PlanError, layouts};
use crate::collective::Collective;
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::fusion::Access;
use crate::kernel::MOST_OPERANDS;
use crate::layout::{Layout, Sharding};
use crate::mesh::{AxisSet, Mesh};
use crate::operator::Operator;
use crate::passes;
use crate::program::{Carried, Definition, Program, ValueId, Wanted};
use crate::topology::Form;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a user takes an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Take {
    /// Fused into its kernel, even if it is available more cheaply.
    Inside,
    /// As [`Take::Inside`], but the comparison with indices that makes it one-hot is outside of the kernel: a product with
    /// it is dense and looks up no row.
    Dense,
    /// From outside of its kernel.
    #[default]
    Apart,
}

/// The shardings of the operands of a local computation, one node in the space of each.
///
/// There are many of these, so they are stored inline: no computation has more than four operands, and no space has
/// 2^32 nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    operands: [u32; MOST_OPERANDS],
    takes: [Take; MOST_OPERANDS],
    count: u8,
}

impl Origin {
    /// A computation without operands.
    pub(super) fn none() -> Origin {
        Origin::default()
    }

    /// A moved value.
    fn of(node: Node) -> Origin {
        let mut origin = Origin::none();
        origin.push(node, Take::Apart);
        origin
    }

    fn push(&mut self, node: Node, take: Take) {
        self.operands[usize::from(self.count)] = u32::try_from(node).expect("a space has fewer nodes");
        self.takes[usize::from(self.count)] = take;
        self.count += 1;
    }

    /// The nodes of the operands.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.operands[..usize::from(self.count)].iter().map(|node| *node as Node)
    }

    /// The nodes of the operands, and how each is taken.
    fn operands(&self) -> impl Iterator<Item = (Node, Take)> + '_ {
        self.nodes().zip(self.takes)
    }
}

/// The result of the search for a value.
pub(super) struct Found {
    /// Ways to compute it.
    pub(super) made: Distances<Origin>,
    /// Ways to compute it for a user outside of its kernel, if that adds the cost of writing it.
    written: Option<Distances<Origin>>,
    /// The sharding in which it is computed, if decided.
    pub(super) settled: Option<Node>,
    /// Further shardings in which it is materialised, each with the ways from the previous ones.
    pub(super) shared: Vec<(Node, Distances<Origin>)>,
    /// The sharding in which it leaves the program.
    pub(super) output: Option<Node>,
    /// Number of users that share the cost of their choice; 1 if each pays for itself.
    parts: u32,
    /// Ways to other shardings, once a user asked.
    onward: OnceCell<Distances<Origin>>,
    /// The shardings in which it is computed, for users that fuse it.
    fresh: Fresh,
}

/// The shardings in which a value is computed, if it can be fused, by how it is taken then.
#[derive(Default)]
struct Fresh {
    inside: BTreeMap<Node, (Score, Origin)>,
    dense: BTreeMap<Node, (Score, Origin)>,
}

impl Fresh {
    fn get(&self, node: Node, take: Take) -> Option<&(Score, Origin)> {
        match take {
            Take::Inside => self.inside.get(&node),
            Take::Dense => self.dense.get(&node),
            Take::Apart => None,
        }
    }
}

impl Found {
    /// The ways that a user chooses from.
    pub(super) fn offered(&self) -> &Distances<Origin> {
        self.onward.get().unwrap_or(&self.made)
    }

    /// Whether it is available in a sharding without a move.
    pub(super) fn is_made(&self, node: Node) -> bool {
        match self.settled {
            Some(settled) => settled == node,
            None => self.onward.get().is_none_or(|ways| ways.start(node) == Some(node)),
        }
    }

    /// Ways to compute it for a user that takes it in this way.
    pub(super) fn made_for(&self, take: Take) -> &Distances<Origin> {
        match take {
            Take::Apart => self.written.as_ref().unwrap_or(&self.made),
            Take::Inside | Take::Dense => &self.made,
        }
    }

    /// How it is computed in a sharding for a user that takes it in this way; `None` if from outside of its kernel.
    pub(super) fn fresh(&self, node: Node, take: Take) -> Option<&Origin> {
        self.fresh.get(node, take).map(|(_, origin)| origin)
    }

    /// The shardings in which it is materialised.
    pub(super) fn had(&self) -> impl Iterator<Item = Node> + '_ {
        self.settled.into_iter().chain(self.shared.iter().map(|(node, _)| *node))
    }

    /// Whether its cost depends on the choices of its users.
    pub(super) fn is_open(&self) -> bool {
        self.parts > 1
    }
}

/// The shardings in which a value with several users is materialised.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    /// In order; for a free value, the first one is where it is computed.
    pub(super) shardings: Vec<Sharding>,
    /// Whether the list is complete.
    pub(super) complete: bool,
}

/// Decisions for the values with several users.
pub(super) type Settled = BTreeMap<ValueId, Places>;

/// The results of a search under some decisions; of the first values only, if it failed.
#[derive(Default)]
pub(super) struct Basis {
    settled: Settled,
    found: Vec<Rc<Found>>,
}

impl Basis {
    /// The result of a value.
    pub(super) fn of(&self, id: ValueId) -> &Rc<Found> {
        &self.found[id.index()]
    }
}

/// A local computation as an edge from the shardings of its operands to that of its result.
pub(super) struct Way {
    pub(super) operands: Vec<Node>,
    pub(super) result: Node,
    /// Cost of the computation itself.
    pub(super) own: Score,
    /// Cost of a lookup whose one-hot factor is not computed in its kernel.
    apart: Score,
    /// Bytes of the operands and of the result on a device.
    pub(super) held: u64,
    flops: u128,
    /// Whether each operand is opened before the computation, so that it counts once in the sum.
    opened: [bool; MOST_OPERANDS],
}

/// The costs for a user to take an operand in a sharding, if possible.
#[derive(Clone, Copy, Debug, Default)]
struct Taking {
    inside: Option<Score>,
    dense: Option<Score>,
    apart: Option<Score>,
}

impl Taking {
    /// The possible costs, each with how the operand is taken.
    fn each(self) -> impl Iterator<Item = (Score, Take)> + Clone {
        let all = [(self.inside, Take::Inside), (self.dense, Take::Dense), (self.apart, Take::Apart)];
        all.into_iter().filter_map(|(score, take)| Some((score?, take)))
    }

    /// The cost of taking it in one way only.
    fn only(self, take: Take) -> Taking {
        match take {
            Take::Inside => Taking { inside: self.inside, ..Taking::default() },
            Take::Dense => Taking { dense: self.dense, ..Taking::default() },
            Take::Apart => Taking { apart: self.apart, ..Taking::default() },
        }
    }

    /// The lowest cost; fused in case of a tie.
    fn cheapest(self) -> Option<(Score, Take)> {
        self.each().min()
    }
}

/// The ways to compute a value, and the conditions they were computed for.
struct Ways {
    open: Vec<OpenWay>,
    list: Rc<Vec<(Way, Assignment)>>,
}

/// The search and its results.
pub(super) struct Search<'a> {
    pub(super) program: &'a Program,
    pub(super) costs: &'a dyn Costs,
    pub(super) options: SearchOptions,
    /// The axes that layouts may have.
    axes: AxisSet,
    /// Whether pins are respected.
    pub(super) heeds_pins: bool,
    /// One space per array type.
    pub(super) spaces: Vec<Space>,
    /// The space of each value.
    space_of: Vec<usize>,
    /// The einsum of each value, computed on demand.
    einsums: Vec<OnceCell<Rc<Einsum>>>,
    /// For each value the first one that is computed alike.
    kinds: Vec<usize>,
    /// The ways to compute values of each kind, computed on demand: the latest for different open sums.
    ways: Vec<Vec<Ways>>,
    /// The users of each value, with the operand index.
    users: Vec<Vec<(ValueId, usize)>>,
    /// See [`Search::use_count`].
    use_counts: Vec<usize>,
    /// Moves generated so far, and their limit.
    pub(super) budget: MoveBudget,
    /// Lower bound on the operations of the products that a value does not need, if useful.
    others: Vec<u128>,
    /// Memory of inputs that stay resident during the steps of each value, if memory is limited.
    resident: Vec<Resident>,
    /// Kernels if nothing were communicated.
    structure: Structure,
    /// Carried values that are added to, which may begin as open sums.
    accumulators: Vec<ValueId>,
    /// Results so far.
    pub(super) found: Vec<Rc<Found>>,
}

impl<'a> Search<'a> {
    /// Creates a search.
    pub(super) fn new(program: &'a Program, costs: &'a dyn Costs, options: SearchOptions) -> Search<'a> {
        let axes = layouts::placed(program);
        let (mut spaces, budget): (Vec<Space>, MoveBudget) = (Vec::new(), MoveBudget::new(options.budget));
        let mut types = Vec::new();
        let mut space_of = Vec::new();
        for (id, value) in (0..).zip(&program.values) {
            let kind = (value.dtype, value.dims.clone(), program.used(ValueId(id)));
            let place = types.iter().position(|known| *known == kind).unwrap_or_else(|| {
                spaces.push(Space::new(kind.clone(), axes, budget.clone()));
                types.push(kind);
                types.len() - 1
            });
            if let Wanted::Exact(sharding) = &value.wanted {
                spaces[place].write(sharding);
            }
            space_of.push(place);
        }
        let count = program.values.len();
        let mut users = vec![Vec::new(); count];
        let unread = program.unread_names();
        for id in program.value_ids().filter(|id| !unread[id.index()]) {
            for (place, operand) in program.value(id).definition.operands().iter().enumerate() {
                users[operand.index()].push((id, place));
            }
        }
        let mut use_counts: Vec<usize> = users.iter().map(Vec::len).collect();
        for id in program.outputs.iter().unique().filter(|id| program.value(**id).wanted.is_open()) {
            use_counts[id.index()] += 1;
        }
        let (einsums, ways) = (vec![OnceCell::new(); count], (0..count).map(|_| Vec::new()).collect());
        let (others, accumulators, found) = (Vec::new(), Vec::new(), Vec::new());
        let heeds_pins = true;
        let resident = if options.memory_limit < u64::MAX { resident(program, options.cautious) } else { Vec::new() };
        let structure = Structure::new(program, costs.fusion());
        #[rustfmt::skip]
        let mut search = Search {
            program, costs, options, axes, heeds_pins, spaces, space_of, einsums, kinds: Vec::new(), ways, users, use_counts, budget, others, resident, structure,
            accumulators, found,
        };
        search.kinds = kinds(program, &search.structure, |id| search.einsum(id), &search.space_of);
        search.others = search.least_of_others();
        let carried = program.carried().filter(|carried| search.accumulates(carried));
        search.accumulators = carried.map(|carried| carried.first).collect();
        // If there are too many ways to compute a value to list them, the budget counts as exhausted at once.
        let most = search.budget.listed();
        if program.value_ids().any(|id| listed(search.index_count(id), &[], axes, most) == Listed::Nothing) {
            search.budget.exhaust();
        }
        search
    }

    /// The dims of all operands of a local computation.
    fn index_count(&self, id: ValueId) -> usize {
        let operands = match &self.program.value(id).definition {
            Definition::Product { local: false, .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. } => self.program.value(id).definition.operands(),
            Definition::Product { local: true, .. }
            | Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => return 0,
        };
        operands.iter().flat_map(|id| &self.program.value(*id).dims).map(|dim| dim.id).unique().count()
    }

    /// Searches the whole program.
    ///
    /// - `settled`: decisions. Other values with several users are materialised where they are computed most cheaply;
    ///   in a relaxed search they stay open.
    /// - `basis`: an earlier search of the same kind, relaxed or not; what no other decision reaches is kept of it.
    ///
    /// # Errors
    /// If a value cannot be computed under the options.
    pub(super) fn run(&mut self, settled: &Settled, relaxed: bool, basis: Option<&Basis>) -> Result<(), PlanError> {
        self.found = Vec::with_capacity(self.program.values.len());
        for id in self.program.value_ids() {
            let found = match basis.and_then(|basis| self.kept(id, settled, basis)) {
                Some(kept) => kept,
                None => Rc::new(self.find(id, settled.get(&id), relaxed)?),
            };
            self.found.push(found);
        }
        Ok(())
    }

    /// The earlier result of a value, if what it depends on is the same: its decision, its operands, and for what an
    /// iteration leaves to the next one, the value that the iteration begins with.
    fn kept(&self, id: ValueId, settled: &Settled, basis: &Basis) -> Option<Rc<Found>> {
        let is_kept = |other: &ValueId| {
            let earlier = basis.found.get(other.index());
            earlier.is_some_and(|earlier| Rc::ptr_eq(earlier, &self.found[other.index()]))
        };
        let found = basis.found.get(id.index())?;
        let mut heads = self.program.carried().filter(|carried| carried.last == id).map(|carried| carried.first);
        let is_same = settled.get(&id) == basis.settled.get(&id)
            && self.program.value(id).definition.operands().iter().all(is_kept)
            && heads.all(|first| is_kept(&first));
        is_same.then(|| Rc::clone(found))
    }

    /// The results, as a basis for a search with other decisions.
    ///
    /// - `settled`: their decisions.
    pub(super) fn basis(&self, settled: &Settled) -> Basis {
        Basis { settled: settled.clone(), found: self.found.clone() }
    }

    /// Cost of the plan; in a relaxed search, a lower bound over all plans.
    pub(super) fn total(&self) -> Score {
        let mut total = Score::default();
        for (id, found) in self.program.value_ids().zip(&self.found) {
            if let Some((score, _)) = found.settled.and_then(|node| found.made.get(node)) {
                total = total + *score;
            }
            for (node, ways) in &found.shared {
                total = ways.get(*node).map_or(total, |(score, _)| total + *score);
            }
            // An output without other users is materialised in its output layout.
            let users = self.users[id.index()].len();
            let leaving = found.output.filter(|_| found.settled.is_none() || users > 0);
            if let Some((score, _)) = leaving.and_then(|node| found.offered().get(node)) {
                total = total + self.part(id, *score, users);
            }
        }
        total
    }

    /// The moves along the same axes as this one, of blocks of the same size.
    pub(super) fn alike(&self, collective: &Collective, from: &Layout) -> Vec<(Collective, Layout)> {
        self.spaces.iter().flat_map(|space| space.alike(collective, from, &self.program.mesh)).collect()
    }

    /// Updates the price of a move.
    pub(super) fn reprice(&mut self, collective: &Collective, from: &Layout) {
        let costs = self.costs;
        self.spaces.iter_mut().for_each(|space| space.reprice(collective, from, costs));
        if matches!(collective, Collective::Shift(_)) {
            let is_shift = |id: &ValueId| {
                matches!(self.program.value(*id).definition, Definition::Map { function: Function::Shift(_), .. })
            };
            let kinds = self.program.value_ids().filter(is_shift).map(|id| self.kinds[id.index()]);
            kinds.for_each(|kind| self.ways[kind].clear());
        }
    }

    /// Number of moves and ways generated.
    pub(super) fn work(&self) -> u64 {
        self.spaces.iter().map(|space| space.work).sum()
    }

    /// The einsum of a value.
    pub(super) fn einsum(&self, id: ValueId) -> Rc<Einsum> {
        let einsum = self.einsums[id.index()].get_or_init(|| Rc::new(self.program.einsum(id)));
        Rc::clone(einsum)
    }

    /// The space of a value's shardings.
    pub(super) fn space(&self, value: ValueId) -> &Space {
        &self.spaces[self.space_of[value.index()]]
    }

    /// The kernels if nothing were communicated.
    pub(super) fn structure(&self) -> &Structure {
        &self.structure
    }

    pub(super) fn space_mut(&mut self, value: ValueId) -> &mut Space {
        &mut self.spaces[self.space_of[value.index()]]
    }

    /// The users of a value; leaving the program in a free layout counts as one.
    pub(super) fn use_count(&self, id: ValueId) -> usize {
        self.use_counts[id.index()]
    }

    /// Whether an iteration of a repeat begins with it.
    pub(super) fn is_carried(&self, id: ValueId) -> bool {
        self.program.carried().any(|carried| carried.first == id)
    }

    /// The cost of moves of a value for its users.
    fn pricing(&self, id: ValueId, times: u64, allowed: Allowed, others: u128) -> Pricing<'a> {
        let most = self.options.most.saturating_sub(others);
        let resident = self.resident.get(id.index()).map_or(0, |resident| resident.moves);
        let options = SearchOptions {
            allowed,
            most,
            memory_limit: self.options.memory_limit.saturating_sub(resident),
            ..self.options
        };
        Pricing { times, options, mesh: &self.program.mesh, costs: self.costs }
    }

    /// Computes the result for one value.
    fn find(&mut self, id: ValueId, places: Option<&Places>, relaxed: bool) -> Result<Found, PlanError> {
        for operand in self.program.value(id).definition.operands() {
            self.walk_on(*operand);
        }
        let sources = self.sources(id);
        if let (Some(pin), true) = (&self.program.value(id).pin, sources.is_empty()) {
            return Err(self.impossible(id, pin));
        }
        let program = self.program;
        let value = program.value(id);
        let (uses, is_carried) = (self.use_count(id), self.is_carried(id));
        let leaves = program.outputs.contains(&id);
        let head = program.carried().find(|carried| carried.last == id).map(|carried| self.head(carried.first));
        let target = match (&value.wanted, head.flatten()) {
            (Wanted::Exact(sharding), _) => Some(self.space_mut(id).node(sharding)),
            (Wanted::Partly(_) | Wanted::Free, Some(sharding)) => Some(self.space_mut(id).node(&sharding)),
            (Wanted::Partly(_) | Wanted::Free, None) => None,
        };
        let pricing = self.pricing(id, program.times(id), self.allowed(id), self.others(id));
        let fresh = self.fresh(id, &sources);
        let asked = target.or_else(|| places.map(|places| self.space_mut(id).node(&places.shardings[0])));
        let written = |asked: Option<Node>| -> Vec<(Node, Score, Origin)> {
            let written = |(node, score, origin): &(Node, Score, Origin)| {
                (*node, *score + self.writing(id, *node, asked, relaxed), *origin)
            };
            sources.iter().map(written).collect()
        };
        let (begun, all_written) = (written(asked), target.filter(|_| self.may_be_written(id)).map(|_| written(None)));
        let made = self.space_mut(id).distances(begun, target, &pricing);
        // It is written where it is computed, or elsewhere and moved from there.
        let written = match (target, all_written) {
            (Some(target), Some(all)) if made.starts_at(target, target) => {
                Some(self.space_mut(id).distances(all, Some(target), &pricing))
            }
            _ => None,
        };
        // What is too expensive to be written may still be passed on inside its kernel.
        let mut computed = fresh.inside.values().chain(fresh.dense.values());
        let may_fuse = target.is_none() && computed.any(|(score, _)| score.first() <= pricing.options.most);
        if made.is_empty() && !may_fuse {
            return Err(self.unreachable(id));
        }
        let onward = OnceCell::new();
        if matches!(value.wanted, Wanted::Partly(_)) {
            // A value with layout holes is materialised in an allowed layout, and its users continue from there.
            let starts = made.iter().filter(|(node, _)| self.fits(id, *node));
            let starts: Vec<_> = starts.map(|(node, score)| (node, score, Origin::none())).collect();
            let pricing = self.pricing(id, self.onward_times(id), self.options.allowed, self.others(id));
            let ways = self.space_mut(id).distances(starts, None, &pricing);
            if ways.is_empty() {
                return Err(self.unreachable(id));
            }
            let _ = onward.set(ways);
        }
        let mut further: Vec<Sharding> = places.map(|places| places.shardings.clone()).unwrap_or_default();
        let one_user = uses == 1 && !leaves && !is_carried;
        let settled = match target {
            Some(target) => made.get(target).map(|_| target),
            None if one_user || relaxed && (uses > 1 || is_carried) && further.is_empty() => {
                let parts = if uses > 1 { u32::try_from(uses).unwrap_or(u32::MAX) } else { 1 };
                let output = if leaves { self.cheapest(id, &made, true, true) } else { None };
                if leaves && output.is_none() {
                    return Err(self.unreachable(id));
                }
                if relaxed && self.onward_times(id) < program.times(id) && onward.get().is_none() {
                    // What the last iteration leaves may be moved once, after the body.
                    let starts: Vec<_> = made.iter().map(|(node, score)| (node, score, Origin::none())).collect();
                    let pricing = self.pricing(id, self.onward_times(id), self.options.allowed, self.others(id));
                    let _ = onward.set(self.space_mut(id).distances(starts, None, &pricing));
                }
                return Ok(Found { made, written, settled: None, shared: Vec::new(), output, parts, onward, fresh });
            }
            None if further.is_empty() => self.cheapest(id, &made, leaves || is_carried, uses > 0),
            None => {
                let node = self.space_mut(id).node(&further[0]);
                if self.fits(id, node) {
                    further.remove(0);
                    made.get(node).map(|_| node)
                } else {
                    // It is materialised where this path begins.
                    onward.get().and_then(|ways| ways.start(node))
                }
            }
        };
        let Some(settled) = settled else { return Err(self.unreachable(id)) };
        let (shared, onward) = (Vec::new(), OnceCell::new());
        let mut found = Found { made, written, settled: Some(settled), shared, output: None, parts: 1, onward, fresh };
        for sharding in &further {
            self.share(id, sharding, &mut found)?;
        }
        // A device makes its own elements of an `iota` or a table in every layout, so its users have nothing to share,
        // where slices take no time.
        let is_counted = matches!(&value.definition, Definition::Input { supply } if !supply.is_given())
            && are_slices_free(self.costs);
        if relaxed && places.is_none_or(|places| !places.complete) && self.is_shared(id) && !is_counted {
            // The paths of users branch at each sharding in which the value is materialised, except possibly at the
            // one of a written layout or a layout with holes.
            let parted = match &value.wanted {
                Wanted::Partly(_) => further.len(),
                Wanted::Exact(_) | Wanted::Free => places.map_or(0, |places| places.shardings.len()),
            };
            found.parts = u32::try_from(uses.saturating_sub(parted)).unwrap_or(u32::MAX).max(1);
        }
        if leaves {
            found.output = match target {
                Some(target) => Some(target),
                None => {
                    let ways = self.onward(id, &found);
                    let _ = found.onward.set(ways);
                    self.cheapest(id, found.offered(), true, false)
                }
            };
            if found.output.is_none() {
                return Err(self.unreachable(id));
            }
        }
        Ok(found)
    }

    /// Lower bound on the operations of the products that a value does not need.
    pub(super) fn others(&self, id: ValueId) -> u128 {
        self.others[id.index()]
    }

    /// Whether a value has several users.
    pub(super) fn is_shared(&self, id: ValueId) -> bool {
        self.use_count(id) > 1
    }

    /// Materialises a decided value in a further sharding.
    fn share(&mut self, id: ValueId, sharding: &Sharding, found: &mut Found) -> Result<(), PlanError> {
        let node = self.space_mut(id).node(sharding);
        if found.had().any(|had| had == node) {
            return Ok(());
        }
        let pricing = self.pricing(id, self.onward_times(id), self.options.allowed, self.others(id));
        let starts: Vec<_> = found.had().map(start).collect();
        let ways = self.space_mut(id).distances(starts, Some(node), &pricing);
        if ways.get(node).is_none() {
            return Err(self.unreachable(id));
        }
        found.shared.push((node, ways));
        Ok(())
    }

    /// Repetitions of the moves of a value for its users; a carried value is moved once, after the body.
    fn onward_times(&self, id: ValueId) -> u64 {
        if self.program.carried().any(|carried| carried.last == id) { 1 } else { self.program.times(id) }
    }

    /// The sharding of a value at the start of an iteration.
    fn head(&self, first: ValueId) -> Option<Sharding> {
        let settled = self.found[first.index()].settled?;
        Some(self.space(first).sharding(settled).clone())
    }

    /// The moves allowed to bring a value into its requested layout.
    pub(super) fn allowed(&self, id: ValueId) -> Allowed {
        if self.program.value(id).definition.is_written_move() { Allowed::Moves } else { self.options.allowed }
    }

    /// Whether a value may be materialised in a sharding.
    pub(super) fn fits(&self, id: ValueId, node: Node) -> bool {
        self.program.value(id).wanted.allows(self.space(id).sharding(node))
    }

    /// The cheapest sharding of a value; outputs are closed.
    ///
    /// If users can only slice, sharding starts with as few axes as possible.
    fn cheapest(&self, id: ValueId, made: &Distances<Origin>, closed: bool, used: bool) -> Option<Node> {
        let space = self.space(id);
        let fits = |node: Node| self.fits(id, node) && (!closed || space.sharding(node).open.is_empty());
        let axes = |node: Node| match self.options.allowed {
            Allowed::Moves => 0,
            Allowed::Slices if used => space.sharding(node).dim_axes().len(),
            Allowed::Slices => 0,
        };
        let fitting = made.iter().filter(|(node, _)| fits(*node));
        fitting.min_by_key(|(node, score)| (axes(*node), *score, *node)).map(|(node, _)| node)
    }

    /// Finds the ways from a decided value to all other shardings.
    fn walk_on(&mut self, id: ValueId) {
        let found = Rc::clone(&self.found[id.index()]);
        if found.settled.is_none() || found.onward.get().is_some() {
            return;
        }
        let ways = self.onward(id, &found);
        let _ = found.onward.set(ways);
    }

    fn onward(&mut self, id: ValueId, found: &Found) -> Distances<Origin> {
        let pricing = self.pricing(id, self.onward_times(id), self.options.allowed, 0);
        let starts: Vec<_> = found.had().map(start).collect();
        self.space_mut(id).distances(starts, None, &pricing)
    }

    /// The shardings that users choose for each value, and the values that are fused.
    pub(super) fn taken(&self) -> Taken {
        let count = self.found.len();
        let mut taken = Taken { nodes: vec![Vec::new(); count], takes: vec![Take::Apart; count] };
        for id in self.program.value_ids().collect::<Vec<_>>().into_iter().rev() {
            let found = &self.found[id.index()];
            taken.nodes[id.index()].extend(found.output);
            let Some(node) = found.settled.or_else(|| most_taken(&taken.nodes[id.index()])) else { continue };
            let made = if found.settled.is_none() { found.offered().start(node) } else { Some(node) };
            let take = taken.takes[id.index()];
            let origin = found.fresh(node, take).or_else(|| found.made_for(take).origin(made?));
            let Some(origin) = origin else { continue };
            let operands = self.program.value(id).definition.operands().iter();
            for (operand, (node, take)) in operands.zip(origin.operands()) {
                taken.nodes[operand.index()].push(node);
                if self.structure.is_used_once(*operand) {
                    taken.takes[operand.index()] = take;
                }
            }
        }
        taken
    }

    /// The costs for a user to take an operand in a sharding.
    ///
    /// - `may_fuse`: whether fusion is possible.
    fn through(&self, operand: ValueId, node: Node, user: (ValueId, usize), may_fuse: bool) -> Taking {
        let found = &self.found[operand.index()];
        let place = self.users[operand.index()].iter().position(|other| *other == user).unwrap_or_default();
        let offered = found.offered().get(node).map(|(score, _)| self.part(operand, *score, place));
        if !self.structure.is_passed_on(operand, user.0) {
            return Taking { apart: offered, ..Taking::default() };
        }
        // What a user reads twice is read once.
        let is_read_before =
            self.program.value(user.0).definition.operands().iter().take(user.1).any(|other| *other == operand);
        let apart = if is_read_before { Some(Score::default()) } else { self.apart(operand, node, user.0) };
        let inside = |take: Take| {
            let (fresh, _) = found.fresh.get(node, take).filter(|_| may_fuse)?;
            match found.settled {
                None => Some(self.part(operand, *fresh, place)),
                Some(settled) if node != settled => None,
                // Moving it to this sharding may be cheaper than computing it there.
                Some(_) => found.made.get(node).map(|(made, _)| {
                    let users = u32::try_from(self.use_count(operand)).unwrap_or(u32::MAX);
                    offered.unwrap_or_default() + fresh.beyond(*made).part(users, 0)
                }),
            }
        };
        Taking {
            inside: inside(Take::Inside),
            dense: inside(Take::Dense),
            apart: offered.zip(apart).map(|(score, apart)| score + apart),
        }
    }

    /// The shardings in which a value is computed, if it can be fused.
    fn fresh(&self, id: ValueId, sources: &[(Node, Score, Origin)]) -> Fresh {
        let mut fresh = Fresh::default();
        if self.structure.kernel(id).is_none() {
            return fresh;
        }
        // A user that looks up rows needs the whole one-hot operand in its kernel.
        let hot = self.structure.hot_operand(id).filter(|_| self.structure.access(id).lookup.is_none());
        let is_whole = |origin: &Origin| {
            hot.is_none_or(|hot| origin.operands().nth(hot).is_some_and(|(_, take)| take == Take::Inside))
        };
        for (node, score, origin) in sources {
            let computed = if is_whole(origin) { &mut fresh.inside } else { &mut fresh.dense };
            if computed.get(node).is_none_or(|(known, _)| score < known) {
                computed.insert(*node, (*score, *origin));
            }
        }
        fresh
    }

    /// Whether a value that is not the result of a product is written only if it leaves its kernel.
    fn stays_in_its_kernel(&self, id: ValueId) -> bool {
        let is_product = matches!(self.program.value(id).definition, Definition::Product { .. });
        self.structure.is_never_written(id) && !is_product
    }

    /// Whether the user of a value decides if it is written.
    fn may_be_written(&self, id: ValueId) -> bool {
        self.stays_in_its_kernel(id) && self.structure.is_used_once(id)
    }

    /// The cost of writing a value that would stay in its kernel if it were not moved.
    ///
    /// - `asked`: the sharding in which it is materialised, if decided.
    fn writing(&self, id: ValueId, node: Node, asked: Option<Node>, relaxed: bool) -> Score {
        // With several users, it is not known in advance whether all of them use it where it is computed.
        let is_uncertain = !self.structure.is_used_once(id) && asked.is_none() && !relaxed;
        if !self.stays_in_its_kernel(id) || asked == Some(node) || is_uncertain {
            return Score::default();
        }
        self.passing(id, self.space(id).bytes(node, &self.program.mesh), false)
    }

    /// The cost of breaking a kernel at an operand: a read, the write at the end of the kernel, and another kernel
    /// launch. Uncertain parts count as zero. `None` if it would be too expensive to write it.
    fn apart(&self, operand: ValueId, node: Node, user: ValueId) -> Option<Score> {
        let bytes = |node: Node| self.space(operand).bytes(node, &self.program.mesh);
        // A product may hide the time of reading it.
        let is_product = |id: ValueId| matches!(self.program.value(id).definition, Definition::Product { .. });
        let is_paid = !is_product(user) && self.structure.pays_for_reading(operand, user);
        let read = if is_paid { bytes(node) } else { 0 };
        let found = &self.found[operand.index()];
        let by_product = match is_product(operand) && self.structure.is_used_once(operand) {
            true => self.structure.written_apart(operand, bytes(node)),
            false => 0,
        };
        let starts = self.structure.is_split_between(operand, user);
        let passing = self.passing(operand, read.saturating_add(by_product), starts);
        match (&found.written, found.settled) {
            (Some(written), Some(settled)) => {
                let ((written, _), (made, _)) = (written.get(settled)?, found.made.get(settled)?);
                Some(passing + written.beyond(*made))
            }
            _ => Some(passing),
        }
    }

    /// The cost of reading or writing bytes of a value that leaves its kernel, with a kernel launch if `starts`.
    fn passing(&self, id: ValueId, bytes: u64, starts: bool) -> Score {
        // Collectives over axes of size 1 leave the block in place, so that values may stay in their kernel.
        if self.axes.iter().any(|axis| self.program.mesh.size(axis) == 1) {
            return Score::default();
        }
        let dtype = self.program.value(id).dtype;
        let work = LocalWork { dtype, flops: 0, traffic: Bytes(bytes), form: Form::Other, starts };
        Score::new(self.costs.objective(), self.costs.map(&work), 0).times(self.program.times(id)).of_no_step()
    }

    /// The share of a score that one user pays. The shares of all users add up to it.
    fn part(&self, id: ValueId, score: Score, place: usize) -> Score {
        let parts = self.found[id.index()].parts;
        let all = usize::try_from(parts).is_ok_and(|parts| parts == self.use_count(id));
        score.part(parts, if all { place } else { 0 })
    }

    /// The shardings in which a value can be computed without a later move.
    fn sources(&mut self, id: ValueId) -> Vec<(Node, Score, Origin)> {
        let program = self.program;
        let value = program.value(id);
        match &value.definition {
            Definition::Input { .. } => {
                let layouts = match &value.wanted {
                    Wanted::Exact(sharding) => vec![sharding.clone()],
                    wanted @ (Wanted::Partly(_) | Wanted::Free) => {
                        let layouts = layouts(&value.dims, wanted, &program.mesh);
                        if layouts.as_ref().is_none_or(|layouts| !layouts.are_all) {
                            self.budget.restrict();
                        }
                        layouts.map(|layouts| layouts.list).unwrap_or_default()
                    }
                };
                let fits = |sharding: &&Sharding| {
                    program.layout(id, (*sharding).clone()).local_bytes(&program.mesh).0 <= self.options.memory_limit
                };
                let layouts: Vec<Sharding> = layouts.iter().filter(fits).cloned().collect();
                let source = |sharding: &Sharding| {
                    let rent = Score::default().with_penalty(self.rent(id, sharding));
                    (self.space_mut(id).node(sharding), rent, Origin::none())
                };
                layouts.iter().map(source).collect()
            }
            Definition::Move { operand, .. } | Definition::Rename { operand } => self.relabelled(id, *operand),
            Definition::Collective { collective, from, operand } => {
                let Some(source) = self.space(*operand).known(from) else { return Vec::new() };
                let Some(score) = self.through(*operand, source, (id, 0), false).apart else { return Vec::new() };
                let layout = self.space(*operand).layout(source);
                let Some(to) = collective.apply(from, &program.mesh) else { return Vec::new() };
                let cost = self.costs.collective(collective, &layout);
                let own = Score::new(self.costs.objective(), cost, 0).times(program.times(id));
                vec![(self.space_mut(id).node(&to), score + own, Origin::of(source))]
            }
            Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. } => {
                let ways = self.ways(id);
                let pinned = value.pin.is_some() && self.heeds_pins;
                let obeys = |assignment: &Assignment| !pinned || self.obeys(id, assignment);
                ways.iter()
                    .filter(|(_, assignment)| obeys(assignment))
                    .flat_map(|(way, _)| self.source(id, way).into_iter().flatten())
                    .collect()
            }
        }
    }

    /// The memory price of an input whose layout is a hole.
    pub(super) fn rent(&self, id: ValueId, sharding: &Sharding) -> u128 {
        let (rent, of) = self.options.rent;
        if rent == 0 || !self.program.value(id).wanted.is_open() {
            return 0;
        }
        let bytes = self.program.layout(id, sharding.clone()).local_bytes(&self.program.mesh).0;
        u128::from(bytes.saturating_mul(self.program.times(id))).saturating_mul(rent) / of
    }

    /// Renamed dims keep their blocks; transposed dims are rewritten.
    ///
    /// Renamed blocks are moved as blocks of the new value.
    fn relabelled(&mut self, id: ValueId, operand: ValueId) -> Vec<(Node, Score, Origin)> {
        let einsum = self.einsum(id);
        let found = &self.found[operand.index()];
        let is_written = einsum.operands[0] != einsum.result && !self.is_carried(id);
        // Moves before the transposition are used where they are cheaper than moves after it.
        // What an iteration begins with is moved once, before the first one.
        let is_elsewhere = self.is_carried(id) || self.program.times(id) != self.program.times(operand);
        let before = is_written || found.is_open() || is_elsewhere;
        let offered: Vec<(Node, bool)> = match before {
            true => found.offered().iter().map(|(node, _)| (node, false)).collect(),
            false => found.offered().sources().collect(),
        };
        let mut sources = Vec::new();
        for (node, is_moved) in offered {
            let Some(score) = self.through(operand, node, (id, 0), false).apart else { continue };
            // The same move is preferred after the renaming, but its price may be known there alone.
            let score = if is_moved { score.with_step() } else { score };
            let from = self.space(operand).layout(node);
            let place = |index| einsum.operands[0].iter().position(|other| other == index);
            let dims = einsum.result.iter().filter_map(place).map(|dim| from.sharding.dims[dim]).collect();
            let sharding = Sharding { dims, open: from.sharding.open, operator: from.sharding.operator };
            let made = self.program.layout(id, sharding.clone());
            let own = if is_written {
                let work = LocalWork::new(&einsum, &[from], &made, &self.program.mesh);
                Score::new(self.costs.objective(), self.costs.map(&work), 0).times(self.program.times(id))
            } else {
                Score::default()
            };
            sources.push((self.space_mut(id).node(&sharding), score + own, Origin::of(node)));
            for open in self.opened_before(id, &sharding) {
                sources.push((self.space_mut(id).node(&open), score + own, Origin::of(node)));
            }
        }
        sources
    }

    /// The open sums in which an accumulator may begin: opened once before the loop, it need not be closed in each
    /// iteration.
    fn opened_before(&self, id: ValueId, closed: &Sharding) -> Vec<Sharding> {
        if !closed.open.is_empty() || !self.is_accumulator(id) {
            return Vec::new();
        }
        let mesh = &self.program.mesh;
        let taken = closed.dims.iter().fold(AxisSet::NONE, |taken, axes| taken.union(axes.set()));
        let free = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).map(AxisSet::one);
        let free = free.fold(AxisSet::NONE, AxisSet::union).without(taken);
        let open = |open| Sharding { dims: closed.dims.clone(), open, operator: Operator::Sum };
        free.subsets().filter(|axes| !axes.is_empty()).map(open).collect()
    }

    /// Whether it is a carried value that is added to.
    pub(super) fn is_accumulator(&self, id: ValueId) -> bool {
        self.accumulators.contains(&id)
    }

    /// Whether a carried value is added to: `g = g + h`, also along a chain of sums.
    fn accumulates(&self, carried: &Carried) -> bool {
        let (id, mut last) = (carried.first, vec![carried.last]);
        while let Some(value) = last.pop() {
            if value == id {
                return true;
            }
            let summands = self.summands(value);
            // Values computed before the loop are not part of the chain.
            last.extend(summands.into_iter().filter(|summand| *summand >= id));
        }
        false
    }

    /// The operands of which some may be closed while the others are open sums.
    fn summands(&self, id: ValueId) -> Vec<ValueId> {
        match &self.program.value(id).definition {
            Definition::Map { operands, .. } => self.open_together(id).iter().map(|place| operands[*place]).collect(),
            Definition::Move { operand, .. } => vec![*operand],
            _ => Vec::new(),
        }
    }

    /// The operands of an elementwise function that are open sums together; none for other values.
    fn open_together(&self, id: ValueId) -> &'static [usize] {
        let value = self.program.value(id);
        let Definition::Map { function, operands } = &value.definition else { return &[] };
        let from: Vec<DType> = operands.iter().map(|id| self.program.value(*id).dtype).collect();
        let passage = passes::map(*function, Operator::Sum, &from, value.dtype);
        passage.and_then(|passage| passage.operands.iter().copied().find(|choice| choice.len() > 1)).unwrap_or_default()
    }

    /// A way to compute a value, with its score, if its operands are available under the options. If rows may be looked
    /// up, once for each way to take the one-hot operand.
    pub(super) fn source(&self, id: ValueId, way: &Way) -> [Option<(Node, Score, Origin)>; 3] {
        match self.structure.hot_operand(id) {
            Some(hot) => {
                [Take::Inside, Take::Dense, Take::Apart].map(|take| self.source_with(id, way, Some((hot, take))))
            }
            None => [self.source_with(id, way, None), None, None],
        }
    }

    /// - `asked`: an operand, and how it is taken.
    fn source_with(&self, id: ValueId, way: &Way, asked: Option<(usize, Take)>) -> Option<(Node, Score, Origin)> {
        let program = self.program;
        let operands = program.value(id).definition.operands();
        let mut ways = [Taking::default(); MOST_OPERANDS];
        let ways = &mut ways[..operands.len()];
        for (place, taking) in ways.iter_mut().enumerate() {
            *taking = self.through(operands[place], way.operands[place], (id, place), !way.opened[place]);
        }
        if let Some((hot, take)) = asked {
            ways[hot] = ways[hot].only(take);
        }
        let parts = self.together(operands, ways)?;
        let (mut score, mut origin) = (Score::default(), Origin::none());
        for (node, (part, take)) in way.operands.iter().zip(&parts) {
            score = score + *part;
            origin.push(*node, *take);
        }
        let times = u128::from(program.times(id));
        let resident = self.resident.get(id.index()).map_or(0, |resident| resident.making);
        if way.held.saturating_add(resident) > self.options.memory_limit
            || way.flops.saturating_mul(times) > self.most_flops(id)
        {
            return None;
        }
        let (penalty, of) = self.options.penalty;
        let is_apart = self.structure.access(id).lookup.is_some_and(|lookup| parts[lookup.factor].1 != Take::Inside);
        let own = if is_apart { way.apart } else { way.own };
        let own = own.with_penalty(way.flops.saturating_mul(penalty) / of).times(program.times(id));
        Some((way.result, score + own, origin))
    }

    /// The cheapest ways to take all operands of a value. If an operand leaves the kernel, the operands that it is
    /// computed from have left it, too.
    fn together(&self, operands: &[ValueId], ways: &[Taking]) -> Option<[(Score, Take); MOST_OPERANDS]> {
        let is_possible = |parts: &[(Score, Take)]| {
            let is_apart = |place: usize| parts[place].1 == Take::Apart;
            let has_left = |place: usize| {
                let later =
                    |other: usize| is_apart(other) && self.structure.is_before(operands[place], operands[other]);
                (0..operands.len()).any(later)
            };
            (0..operands.len()).all(|place| is_apart(place) || !has_left(place))
        };
        let all = |parts: &[(Score, Take)]| {
            let mut all = [(Score::default(), Take::Apart); MOST_OPERANDS];
            all[..parts.len()].copy_from_slice(parts);
            all
        };
        let mut each = [(Score::default(), Take::Apart); MOST_OPERANDS];
        for (part, taking) in each.iter_mut().zip(ways) {
            *part = taking.cheapest()?;
        }
        if is_possible(&each[..operands.len()]) {
            return Some(each);
        }
        let combined = ways.iter().map(|taking| taking.each().collect::<Vec<_>>()).multi_cartesian_product();
        let possible = combined.filter(|parts| is_possible(parts));
        let cost = |parts: &Vec<(Score, Take)>| {
            let score = parts.iter().fold(Score::default(), |score, (part, _)| score + *part);
            (score, parts.iter().filter(|(_, take)| *take == Take::Apart).count())
        };
        possible.min_by_key(cost).map(|parts| all(&parts))
    }

    /// The ways to compute a value, which depend on the possible open sums of its operands.
    pub(super) fn ways(&mut self, id: ValueId) -> Rc<Vec<(Way, Assignment)>> {
        let program = self.program;
        let operands = program.value(id).definition.operands();
        let sums = operands.iter().flat_map(|id| self.sums(*id)).map(|sharding| (sharding.operator, sharding.open));
        let operators = Operator::of_sums(sums, &program.mesh);
        let open: Vec<OpenWay> = operators.iter().flat_map(|operator| self.open_ways(id, *operator)).collect();
        let kind = self.kinds[id.index()];
        if let Some(known) = self.ways[kind].iter().find(|known| known.open == open) {
            return Rc::clone(&known.list);
        }
        let mut list = Vec::new();
        for assignment in self.assignments(id, &open) {
            let nodes = operands
                .iter()
                .zip(&assignment.operands)
                .map(|(operand, sharding)| self.space_mut(*operand).node(sharding));
            let nodes = nodes.collect();
            let result = self.space_mut(id).node(&assignment.result);
            let (cost, flops) = self.compute_cost(id, &assignment);
            let own = Score::new(self.costs.objective(), cost, flops);
            let apart = match self.structure.access(id).lookup {
                Some(_) => {
                    let access = Access { lookup: None, ..self.structure.access(id).clone() };
                    let (cost, flops) = self.cost_with(id, &assignment, &access);
                    Score::new(self.costs.objective(), cost, flops)
                }
                None => own,
            };
            let layouts = operands.iter().zip(&assignment.operands).map(|(id, sharding)| (*id, sharding));
            let layouts = layouts.chain([(id, &assignment.result)]);
            let bytes = |(id, sharding): (ValueId, &Sharding)| {
                program.layout(id, sharding.clone()).local_bytes(&program.mesh).0
            };
            let held = layouts.map(bytes).fold(0, u64::saturating_add);
            let mut opened = [false; MOST_OPERANDS];
            let missing = self.opened(id, &assignment);
            opened.iter_mut().zip(missing).for_each(|(opened, axes)| *opened = !axes.is_empty());
            list.push((Way { operands: nodes, result, own, apart, held, flops, opened }, assignment));
        }
        let list = Rc::new(list);
        let known = &mut self.ways[kind];
        known.truncate(Budget::MOST_LISTS - 1);
        known.insert(0, Ways { open, list: Rc::clone(&list) });
        list
    }

    /// Operations that remain for a product if all others take their minimum.
    fn most_flops(&self, id: ValueId) -> u128 {
        if self.options.flops == u128::MAX {
            return u128::MAX;
        }
        let others = self.program.value_ids().filter(|other| *other != id).map(|other| self.least_product(other).0);
        self.options.flops.saturating_sub(others.fold(0, u128::saturating_add))
    }

    /// Operations and time of a product that is spread evenly over all devices; in a repeat, of all iterations.
    pub(super) fn least_product(&self, id: ValueId) -> (u128, Time) {
        let program = self.program;
        if !matches!(program.value(id).definition, Definition::Product { .. }) {
            return (0, Time::ZERO);
        }
        let devices = program.mesh.device_count() as u128;
        let whole = |id: ValueId| program.layout(id, Sharding::replicated(program.value(id).dims.len()));
        let layouts: Vec<Layout> = program.value(id).definition.operands().iter().map(|id| whole(*id)).collect();
        // A lookup counts as a lookup if it is one in some plan.
        let access = Access { lookup: self.structure.access(id).lookup, ..Access::alone(2) };
        let work = LocalWork::in_kernel(&self.einsum(id), &layouts, &whole(id), &program.mesh, &access, |_| 0);
        let share =
            LocalWork { flops: work.flops / devices, traffic: Bytes(0), form: Form::Other, starts: false, ..work };
        (share.flops * u128::from(program.times(id)), self.costs.product(&share).time * program.times(id))
    }

    /// For each value, the lower bound on the operations of the products that it does not need.
    fn least_of_others(&self) -> Vec<u128> {
        let count = self.program.values.len();
        if count > Budget::MOST_LOOKED_BACK || self.costs.objective() != Objective::Time {
            return vec![0; count];
        }
        let least: Vec<u128> = self.program.value_ids().map(|id| self.least_product(id).1.ticks()).collect();
        let mut needed: Vec<Vec<bool>> = Vec::with_capacity(count);
        for id in self.program.value_ids() {
            let mut before = vec![false; count];
            before[id.index()] = true;
            for operand in self.program.value(id).definition.operands() {
                before.iter_mut().zip(&needed[operand.index()]).for_each(|(all, one)| *all |= one);
            }
            needed.push(before);
        }
        let others = |needed: Vec<bool>| {
            let rest = least.iter().zip(needed).filter(|(_, needed)| !needed);
            rest.map(|(least, _)| least).fold(0, |sum: u128, least| sum.saturating_add(*least))
        };
        needed.into_iter().map(others).collect()
    }

    /// The possible roles of the mesh axes in a product or an elementwise function.
    fn assignments(&self, id: ValueId, open: &[OpenWay]) -> Vec<Assignment> {
        let program = self.program;
        let value = program.value(id);
        let operands = value.definition.operands();
        let einsum = self.einsum(id);
        let extents: Vec<Vec<u64>> =
            operands.iter().map(|id| program.value(*id).dims.iter().map(|dim| dim.size).collect()).collect();
        let lengths = match &value.definition {
            // An index of one element cannot be split.
            Definition::Kernel { kernel, .. } => {
                let all = kernel.lengths.iter().zip(&kernel.sharded);
                all.map(|(length, sharded)| if *sharded { *length } else { 1 }).collect()
            }
            _ => einsum.lengths(&extents).unwrap_or_default(),
        };
        let whole = match &value.definition {
            Definition::Product { local: true, .. } => return self.local_product(id).into_iter().collect(),
            Definition::Product { .. } | Definition::Reduce { .. } | Definition::Kernel { .. } => None,
            Definition::Map { function, .. } => softmax_dim(*function),
            Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => {
                return Vec::new();
            }
        };
        let sums = match &value.definition {
            Definition::Reduce { operator, .. } => *operator,
            Definition::Product { .. }
            | Definition::Kernel { .. }
            | Definition::Map { .. }
            | Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => Operator::Sum,
        };
        let listed = listed(lengths.len(), open, self.axes, self.budget.listed());
        match listed {
            Listed::All => {}
            Listed::InOrder => self.budget.restrict(),
            Listed::Nothing => self.budget.exhaust(),
        }
        let mut assignments = assignments(&einsum, &lengths, open, sums, (&program.mesh, self.axes), listed);
        if let Some(dim) = whole {
            assignments.retain(|assignment| assignment.result.dims[dim].is_empty());
        }
        if matches!(value.definition, Definition::Map { .. }) {
            // Means over different axes are shares of different sizes.
            let is_one = |assignment: &Assignment| {
                let means = assignment.operands.iter().filter(|operand| operand.operator == Operator::Mean);
                means.map(|operand| operand.open).filter(|open| !open.is_empty()).all_equal()
            };
            assignments.retain(is_one);
        }
        assignments
    }

    /// How open sums with an operator pass through the computation of a value.
    fn open_ways(&self, id: ValueId, operator: Operator) -> Vec<OpenWay> {
        let value = self.program.value(id);
        let operands = value.definition.operands();
        let from: Vec<DType> = operands.iter().map(|id| self.program.value(*id).dtype).collect();
        let passage = match &value.definition {
            Definition::Product { operands, .. } => {
                let contracts = !self.einsum(id).contracted().is_empty();
                let from = operands.map(|id| self.program.value(id).dtype);
                passes::product(operator, from, value.dtype, contracts)
            }
            Definition::Map { function, .. } => passes::map(*function, operator, &from, value.dtype),
            Definition::Reduce { operator: own, .. } => passes::reduce(*own, operator, from[0], value.dtype),
            Definition::Kernel { .. }
            | Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => None,
        };
        let Some(passage) = passage else { return Vec::new() };
        let axes = |place: &usize| self.open_axes(operands[*place], operator);
        let way = |choice: Vec<usize>| OpenWay {
            axes: choice.iter().map(axes).reduce(AxisSet::intersection).unwrap_or_default(),
            operands: choice,
            operator,
            result: passage.result,
        };
        // In a sum, some terms may be closed; they are opened for the addition.
        let opens = operator == Operator::Sum && (self.options.opens_all || self.may_stay_open(id));
        let least = |choice: &[usize]| if opens { 1 } else { choice.len() };
        let choices = passage.operands.iter().flat_map(|choice| {
            let sizes = least(choice)..=choice.len();
            sizes.rev().flat_map(|size| choice.iter().copied().combinations(size)).collect::<Vec<_>>()
        });
        choices.map(way).filter(|way| !way.axes.is_empty()).collect()
    }

    /// Whether closing a sum later can save anything: a single user continues with the partial results.
    fn may_stay_open(&self, id: ValueId) -> bool {
        let [(user, _)] = self.users[id.index()][..] else { return false };
        let value = self.program.value(user);
        match &value.definition {
            Definition::Map { function, operands } => {
                let from: Vec<DType> = operands.iter().map(|id| self.program.value(*id).dtype).collect();
                passes::map(*function, Operator::Sum, &from, value.dtype).is_some()
            }
            Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => true,
            Definition::Input { .. } | Definition::Kernel { .. } => false,
        }
    }

    /// The axes over which each operand is opened, because the others are open over them.
    pub(super) fn opened(&self, id: ValueId, assignment: &Assignment) -> Vec<AxisSet> {
        let mut opened = vec![AxisSet::NONE; assignment.operands.len()];
        if assignment.result.operator != Operator::Sum {
            return opened;
        }
        for place in self.open_together(id) {
            opened[*place] = assignment.result.open.without(assignment.operands[*place].open);
        }
        opened
    }

    /// The axes over which a value can be open with an operator.
    fn open_axes(&self, id: ValueId, operator: Operator) -> AxisSet {
        let axes = |sum: &Sharding| operator.common(sum.operator, sum.open, &self.program.mesh);
        self.sums(id).map(axes).fold(AxisSet::NONE, AxisSet::union)
    }

    /// The layouts of a value with an open sum.
    fn sums(&self, id: ValueId) -> impl Iterator<Item = &Sharding> {
        let space = self.space(id);
        let layouts = self.found[id.index()].offered().iter().map(|(node, _)| space.sharding(node));
        layouts.filter(|layout| !layout.open.is_empty())
    }

    /// `_LOCAL`: the operands in their layouts.
    fn local_product(&self, id: ValueId) -> Option<Assignment> {
        let value = self.program.value(id);
        let exact = |id: ValueId| match &self.program.value(id).wanted {
            Wanted::Exact(sharding) => Some(sharding.clone()),
            Wanted::Partly(_) | Wanted::Free => None,
        };
        let operands: Option<Vec<Sharding>> = value.definition.operands().iter().map(|id| exact(*id)).collect();
        Some(Assignment { operands: operands?, result: exact(id)? })
    }

    /// Time and operations of the local computation under an assignment.
    pub(super) fn compute_cost(&self, id: ValueId, assignment: &Assignment) -> (Cost, u128) {
        self.cost_with(id, assignment, self.structure.access(id))
    }

    fn cost_with(&self, id: ValueId, assignment: &Assignment, access: &Access) -> (Cost, u128) {
        let program = self.program;
        let operands = program.value(id).definition.operands().iter().zip(&assignment.operands);
        let layouts: Vec<Layout> = operands.map(|(id, sharding)| program.layout(*id, sharding.clone())).collect();
        let result = program.layout(id, assignment.result.clone());
        let (elements, bytes) = (result.local_elements(&program.mesh), result.local_bytes(&program.mesh).0);
        let paid = |product: usize| self.structure.paid(product, elements, bytes);
        if let Some(shift) = shift(&program.value(id).definition, &result, &program.mesh) {
            return (self.costs.collective(&shift, &layouts[0]), 0);
        }
        if let Definition::Kernel { kernel, .. } = &program.value(id).definition {
            let work = LocalWork::declared(kernel, &layouts, &result, &program.mesh);
            return (self.costs.product(&work), work.flops);
        }
        let work = LocalWork::in_kernel(&self.einsum(id), &layouts, &result, &program.mesh, access, paid);
        match &program.value(id).definition {
            Definition::Product { .. } => (self.costs.product(&work), work.flops),
            Definition::Input { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => (self.costs.map(&work), 0),
        }
    }

    /// Lower bound over the plans that this search leaves out, given that over those that it has not looked into yet.
    pub(super) fn left_out(&self, waiting: Option<u128>) -> Option<u128> {
        if self.budget.is_restricted() { Some(0) } else { waiting }
    }

    pub(super) fn unreachable(&self, id: ValueId) -> PlanError {
        let value = self.program.value(id);
        if self.budget.is_exhausted() {
            return PlanError::TooLarge { name: self.program.label(id), span: value.span.into() };
        }
        let layout = match &value.wanted {
            Wanted::Exact(_) | Wanted::Partly(_) => value.brackets(&self.program.mesh, &self.program.dims),
            Wanted::Free => "any".to_owned(),
        };
        let name = value.name.clone().unwrap_or_else(|| "the unnamed array".to_owned());
        PlanError::Unreachable { name, layout, span: value.span.into() }
    }
}

/// The shardings that users take.
pub(super) struct Taken {
    /// By value and user.
    pub(super) nodes: Vec<Vec<Node>>,
    /// How each value with one user is taken; others are [`Take::Apart`].
    pub(super) takes: Vec<Take>,
}

/// The most frequent element, the first in case of a tie.
pub(super) fn most_taken(taken: &[Node]) -> Option<Node> {
    let count = |node: &Node| taken.iter().filter(|other| *other == node).count();
    taken.iter().copied().max_by_key(|node| (count(node), Reverse(*node)))
}

/// A sharding in which a value is available at no cost.
fn start(node: Node) -> (Node, Score, Origin) {
    (node, Score::default(), Origin::none())
}

/// A score of zero.
pub(super) const FREE: Cost = Cost { time: Time::ZERO, received: Bytes(0), limit: super::Limit::Free };

/// A shift along a dim that is sharded, which needs other devices.
pub(super) fn shift(definition: &Definition, result: &Layout, mesh: &Mesh) -> Option<Collective> {
    let Definition::Map { function: Function::Shift(shift), .. } = definition else { return None };
    let is_sharded = result.sharding.dims[shift.dim()].group_size(mesh) > 1;
    is_sharded.then_some(Collective::Shift(*shift))
}

fn softmax_dim(function: Function) -> Option<usize> {
    match function {
        Function::Softmax { dim } => Some(usize::from(dim)),
        Function::Identity
        | Function::Unary(_)
        | Function::Binary(_)
        | Function::ByNumber(..)
        | Function::Over(_)
        | Function::Is(_)
        | Function::IsNumber(..)
        | Function::Where
        | Function::Masked(_)
        | Function::Fill { .. }
        | Function::Shift(_)
        | Function::Cast(_) => None,
    }
}
