//! The alternatives of a product, ordered by cost.
//!
//! An alternative is first priced by the moves of its operands and the product itself; the moves of its result are
//! priced for those that can be among the cheapest.

use super::assignments::Assignment;
use super::prices::Prices;
use super::reshard::{Distances, Node, Pricing, Score, SearchOptions};
use super::search::{Origin, Search, Way};
use super::{Alternative, Budget, Costs as _, Pinned, collective_name};
use crate::collective::{Collective, CollectiveKind};
use crate::mesh::Axes;
use crate::program::ValueId;
use crate::units::Bytes;
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

/// Moves, each with the array and its starting layout.
type Path = Vec<(ValueId, Node, Rc<Collective>)>;

/// Cost and number of some moves.
type PathCost = (Score, usize);

/// The ways to compute a product and to leave its statement in a sharding: the chosen one, then the others, if
/// requested; and the cheapest of all, if the product is pinned.
///
/// - `prices`: number of expensive prices that may still be computed.
pub(super) fn alternatives(
    search: &mut Search<'_>,
    (id, target): (ValueId, Node),
    known_prices: &Prices<'_>,
    prices: &mut usize,
) -> (Vec<Alternative>, Option<Pinned>) {
    let most =
        if search.options.alternatives && !search.budget.is_restricted() { Budget::MOST_ALTERNATIVES } else { 1 };
    let ways = search.ways(id);
    let (onward, before) = (FxHashMap::default(), FxHashMap::default());
    let mut ranking = Ranking { search, id, target, known_prices, ways, waiting: BinaryHeap::new(), onward, before };
    let chosen = ranking.chosen();
    ranking.begin();
    let mut kept: Vec<(Score, Alternative)> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pinned = None;
    let mut next = chosen;
    while let Some(place) = next.or_else(|| ranking.next()) {
        let is_chosen = next.take().is_some();
        let program = ranking.search.program;
        if let (None, false, Some(pin)) = (&pinned, is_chosen, &program.value(id).pin) {
            let path = ranking.path(place);
            let best = ranking.alternative(place, &path, ranking.names(&path));
            pinned = Some(Pinned { text: program.pin_text(id, pin), best });
        }
        if !is_chosen && chosen == Some(place) || !ranking.search.obeys(id, &ranking.ways[place].1) {
            continue;
        }
        let path = ranking.path(place);
        if !is_chosen && !is_plain(&path) {
            continue;
        }
        let moves = ranking.names(&path);
        if kept.len() < most && seen.insert(ranking.up_to_order(&path)) {
            ranking.find_prices(&path, prices);
            let score = ranking.cost(&path).0 + ranking.ways[place].0.own;
            kept.push((score, ranking.alternative(place, &path, moves)));
        }
        if kept.len() == most && (pinned.is_some() || program.value(id).pin.is_none()) {
            break;
        }
    }
    let others = kept.get_mut(1..).unwrap_or_default();
    others.sort_by(|(a, one), (b, two)| (a, one.moves.len(), &one.moves).cmp(&(b, two.moves.len(), &two.moves)));
    (kept.into_iter().map(|(_, alternative)| alternative).collect(), pinned)
}

/// Ranks the ways by cost.
struct Ranking<'s, 'a> {
    search: &'s mut Search<'a>,
    id: ValueId,
    /// The sharding in which the product leaves its statement.
    target: Node,
    known_prices: &'s Prices<'s>,
    ways: Rc<Vec<(Way, Assignment)>>,
    /// Ways by cost, with a flag whether the moves of the result are included.
    waiting: BinaryHeap<Reverse<(PathCost, usize, bool)>>,
    /// Moves from the sharding of the product to the target.
    onward: FxHashMap<Node, (Distances<Origin>, Option<PathCost>)>,
    /// Cost of an operand in a sharding.
    before: FxHashMap<(usize, Node), Option<(PathCost, bool)>>,
}

impl Ranking<'_, '_> {
    /// The way of the plan.
    fn chosen(&self) -> Option<usize> {
        let made = &self.search.found[self.id.index()].made;
        let origin = made.origin(self.target)?;
        let is_chosen =
            |way: &Way| way.operands.iter().copied().eq(origin.nodes()) && made.starts_at(self.target, way.result);
        self.ways.iter().position(|(way, _)| is_chosen(way))
    }

    /// Lists the ways whose operands are available, by their cost so far. Ways that are not [plain](is_plain) matter
    /// only for the cheapest of all.
    fn begin(&mut self) {
        let ways = Rc::clone(&self.ways);
        let all = self.search.program.value(self.id).pin.is_some();
        for (place, (way, _)) in ways.iter().enumerate() {
            let parts: Option<Vec<_>> = way.operands.iter().enumerate().map(|part| self.before(part)).collect();
            if let Some(parts) = parts.filter(|parts| all || parts.iter().all(|(_, plain)| *plain)) {
                let sum = |(score, moves), (more, count)| (score + more, moves + count);
                let so_far = parts.into_iter().map(|(moved, _)| moved).fold((way.own, 0), sum);
                self.waiting.push(Reverse((so_far, place, false)));
            }
        }
    }

    /// The next way.
    fn next(&mut self) -> Option<usize> {
        while let Some(Reverse(((score, moves), place, is_whole))) = self.waiting.pop() {
            if is_whole {
                return Some(place);
            }
            if let Some((more, count)) = self.after(self.ways[place].0.result) {
                self.waiting.push(Reverse(((score + more, moves + count), place, true)));
            }
        }
        None
    }

    fn operand(&self, place: usize) -> ValueId {
        self.search.program.value(self.id).definition.operands()[place]
    }

    /// Cost of an operand in a sharding, and whether its moves are plain.
    fn before(&mut self, (place, node): (usize, &Node)) -> Option<(PathCost, bool)> {
        if let Some(known) = self.before.get(&(place, *node)) {
            return *known;
        }
        let path = self.path_before(place, *node);
        let cost = path.map(|path| (self.cost(&path), is_plain(&path)));
        self.before.insert((place, *node), cost);
        cost
    }

    /// Cost of moving the result to its target.
    fn after(&mut self, result: Node) -> Option<PathCost> {
        if let Some((_, known)) = self.onward.get(&result) {
            return *known;
        }
        let (mesh, costs) = (&self.search.program.mesh, self.search.costs);
        let start = (result, Score::default(), Origin::none());
        let pricing = Pricing { times: 1, options: SearchOptions::new(self.search.allowed(self.id)), mesh, costs };
        let ways = self.search.space_mut(self.id).distances([start], Some(self.target), &pricing);
        let path = self.path_after(&ways);
        let cost = path.map(|path| self.cost(&path));
        self.onward.insert(result, (ways, cost));
        cost
    }

    fn path_before(&self, place: usize, node: Node) -> Option<Path> {
        let operand = self.operand(place);
        let moves = self.search.space(operand).way(self.search.found[operand.index()].offered(), node)?;
        let read = self.search.program.operand_as_read(self.id, place);
        Some(moves.into_iter().map(|(from, collective, _)| (read, from, collective)).collect())
    }

    fn path_after(&self, ways: &Distances<Origin>) -> Option<Path> {
        let moves = self.search.space(self.id).way(ways, self.target)?;
        Some(moves.into_iter().map(|(from, collective, _)| (self.id, from, collective)).collect())
    }

    /// All moves of a way; those of the result are computed on demand.
    fn path(&mut self, place: usize) -> Path {
        let ways = Rc::clone(&self.ways);
        let way = &ways[place].0;
        self.after(way.result);
        let before = way.operands.iter().enumerate().filter_map(|(place, node)| self.path_before(place, *node));
        let after = self.onward.get(&way.result).and_then(|(ways, _)| self.path_after(ways));
        before.chain(after).flatten().collect()
    }

    /// Cost of some moves, as far as known.
    fn cost(&self, path: &Path) -> PathCost {
        let moves = path.iter().map(|(id, from, collective)| {
            let from = self.search.space(*id).layout(*from);
            Score::new(self.known_prices.objective(), self.known_prices.collective(collective, &from), 0)
        });
        (moves.fold(Score::default(), |sum, score| sum + score), path.len())
    }

    /// Computes the prices of the moves of a way, if there are few.
    fn find_prices(&self, path: &Path, prices: &mut usize) {
        for (id, from, collective) in path {
            let from = self.search.space(*id).layout(*from);
            if *prices > 0 && self.known_prices.at_least(collective, &from).is_some() {
                *prices -= 1;
                self.known_prices.learn(collective, &from);
            }
        }
    }

    /// Formats moves as in the book.
    fn names(&self, path: &Path) -> Vec<String> {
        let program = self.search.program;
        let (mesh, dims) = (&program.mesh, &program.dims);
        let name = |(id, from, collective): &(ValueId, Node, Rc<Collective>)| {
            let from = self.search.space(*id).layout(*from);
            let (move_name, brackets) = (collective_name(collective, &from, mesh, dims), from.brackets(mesh, dims));
            format!("{move_name}({}{brackets})", program.label(*id))
        };
        path.iter().map(name).collect()
    }

    /// Formats moves up to the order of axes on a dim: with axes in mesh order.
    fn up_to_order(&self, path: &Path) -> Vec<String> {
        let (mesh, dims) = (&self.search.program.mesh, &self.search.program.dims);
        let in_order = |axes: &Axes| axes.set().in_order();
        let text = |(id, from, collective): &(ValueId, Node, Rc<Collective>)| {
            let mut from = self.search.space(*id).layout(*from);
            let gains = collective.apply(&from.sharding, mesh).unwrap_or_default();
            let kind = collective.kind().name();
            from.sharding.dims.iter_mut().for_each(|axes| *axes = in_order(axes));
            let to: Vec<Axes> = gains.dims.iter().map(in_order).collect();
            format!("{id:?} {kind} {} {to:?} {:?}", from.brackets(mesh, dims), gains.open)
        };
        path.iter().map(text).collect()
    }

    fn alternative(&self, place: usize, path: &Path, moves: Vec<String>) -> Alternative {
        let mesh = &self.search.program.mesh;
        let (way, assignment) = &self.ways[place];
        let (compute, flops) = self.search.compute_cost(self.id, assignment);
        let (mut received, mut held, mut is_bound) = (Bytes(0), way.held, false);
        let mut costs = Vec::new();
        for (id, node, collective) in path {
            let from = self.search.space(*id).layout(*node);
            let to = collective.apply(&from.sharding, mesh);
            let after = to.map_or(0, |to| to.local_bytes(from.dtype, &from.dims, mesh).0);
            held = held.max(from.local_bytes(mesh).0.saturating_add(after));
            is_bound |= self.known_prices.at_least(collective, &from).is_some();
            let cost = self.known_prices.collective(collective, &from);
            received = Bytes(received.0.saturating_add(cost.received.0));
            costs.push(cost);
        }
        let communication = costs.iter().map(|cost| cost.time).sum();
        let time = communication + compute.time;
        let held = Bytes(held);
        Alternative { moves, costs, time, communication, received, flops, held, is_bound }
    }
}

/// Whether a way is plain: each array is moved once, possibly with a slice before or after.
fn is_plain(path: &Path) -> bool {
    let ids = path.iter().map(|(id, _, _)| *id).unique();
    let slices = |(_, _, moved): &&(ValueId, Node, Rc<Collective>)| moved.kind() == CollectiveKind::Slice;
    ids.into_iter().all(|id| {
        let of_array = || path.iter().filter(move |(other, _, _)| *other == id);
        let count = of_array().count();
        let cuts = of_array().filter(slices).count();
        cuts <= 1 && count - cuts <= 1
    })
}
