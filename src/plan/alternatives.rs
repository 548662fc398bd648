//! The ways in which a product could have been done, the cheapest first.
//!
//! A way is known by what it costs to have the operands as it takes them, and the product itself; what it costs to
//! bring its result to where it is wanted is found for the ways that can be among the cheapest.

use super::assignments::Assignment;
use super::prices::Prices;
use super::reshard::{Distances, Node, Pricing, Score, SearchOptions};
use super::search::{Origin, Search, Way};
use super::{Alternative, Costs as _, Pinned, collective_name};
use crate::collective::{Collective, CollectiveKind};
use crate::mesh::Axes;
use crate::program::ValueId;
use crate::units::Bytes;
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

/// How many ways to do a product are kept.
const MOST_ALTERNATIVES: usize = 8;

/// Moves, each with the array and where it starts.
type Path = Vec<(ValueId, Node, Rc<Collective>)>;

/// What some moves cost, and how many they are.
type Moved = (Score, usize);

/// The ways of a product to leave its statement in a sharding: the one that was chosen, then the others, if they are to
/// be told; and the cheapest of all, if the statement asks for another.
///
/// - `prices`: how many prices that take long to find may still be found.
pub(super) fn alternatives(
    search: &mut Search<'_>,
    (id, target): (ValueId, Node),
    known_prices: &Prices<'_>,
    prices: &mut usize,
) -> (Vec<Alternative>, Option<Pinned>) {
    let most = if search.terms.alternatives && !search.budget.is_restricted() { MOST_ALTERNATIVES } else { 1 };
    let ways = search.ways(id);
    let (onward, before) = (FxHashMap::default(), FxHashMap::default());
    let mut ranking = Ranking { search, id, target, known_prices, ways, waiting: BinaryHeap::new(), onward, before };
    let chosen = ranking.chosen();
    ranking.begin();
    let mut kept: Vec<(Score, Alternative)> = Vec::new();
    let mut told = BTreeSet::new();
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
        if kept.len() < most && told.insert(ranking.up_to_order(&path)) {
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

/// The ways by their costs.
struct Ranking<'s, 'a> {
    search: &'s mut Search<'a>,
    id: ValueId,
    /// Where the product leaves its statement.
    target: Node,
    known_prices: &'s Prices<'s>,
    ways: Rc<Vec<(Way, Assignment)>>,
    /// Ways by what they cost, and whether what comes after the product is in that.
    waiting: BinaryHeap<Reverse<(Moved, usize, bool)>>,
    /// From the sharding in which a product is made, what leads to the target.
    onward: FxHashMap<Node, (Distances<Origin>, Option<Moved>)>,
    /// What it costs to have an operand in a sharding.
    before: FxHashMap<(usize, Node), Option<(Moved, bool)>>,
}

impl Ranking<'_, '_> {
    /// The way that the plan goes.
    fn chosen(&self) -> Option<usize> {
        let made = &self.search.found[self.id.index()].made;
        let origin = made.origin(self.target)?;
        let is_chosen =
            |way: &Way| way.operands.iter().copied().eq(origin.nodes()) && made.starts_at(self.target, way.result);
        self.ways.iter().position(|(way, _)| is_chosen(way))
    }

    /// Lists the ways for which the operands can be had, by what they cost so far. What is not [plain](is_plain) is of
    /// use only where the cheapest of all is told.
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

    /// What it costs to have an operand in a sharding, and whether the moves are plain.
    fn before(&mut self, (place, node): (usize, &Node)) -> Option<(Moved, bool)> {
        if let Some(known) = self.before.get(&(place, *node)) {
            return *known;
        }
        let path = self.path_before(place, *node);
        let cost = path.map(|path| (self.cost(&path), is_plain(&path)));
        self.before.insert((place, *node), cost);
        cost
    }

    /// What it costs to bring the result from where it is made to where it is wanted.
    fn after(&mut self, result: Node) -> Option<Moved> {
        if let Some((_, known)) = self.onward.get(&result) {
            return *known;
        }
        let (mesh, costs) = (&self.search.program.mesh, self.search.costs);
        let start = (result, Score::default(), Origin::none());
        let pricing = Pricing { times: 1, terms: SearchOptions::new(self.search.allowed(self.id)), mesh, costs };
        let ways = self.search.space_mut(self.id).distances([start], Some(self.target), &pricing);
        let path = self.path_after(&ways);
        let cost = path.map(|path| self.cost(&path));
        self.onward.insert(result, (ways, cost));
        cost
    }

    fn path_before(&self, place: usize, node: Node) -> Option<Path> {
        let operand = self.operand(place);
        let moves = self.search.space(operand).way(self.search.found[operand.index()].offered(), node)?;
        Some(moves.into_iter().map(|(from, collective, _)| (operand, from, collective)).collect())
    }

    fn path_after(&self, ways: &Distances<Origin>) -> Option<Path> {
        let moves = self.search.space(self.id).way(ways, self.target)?;
        Some(moves.into_iter().map(|(from, collective, _)| (self.id, from, collective)).collect())
    }

    /// All moves of a way; those that lead on are looked for where that was not done yet.
    fn path(&mut self, place: usize) -> Path {
        let ways = Rc::clone(&self.ways);
        let way = &ways[place].0;
        self.after(way.result);
        let before = way.operands.iter().enumerate().filter_map(|(place, node)| self.path_before(place, *node));
        let after = self.onward.get(&way.result).and_then(|(ways, _)| self.path_after(ways));
        before.chain(after).flatten().collect()
    }

    /// What some moves cost, as far as that is known.
    fn cost(&self, path: &Path) -> Moved {
        let moves = path.iter().map(|(id, from, collective)| {
            let from = self.search.space(*id).layout(*from);
            Score::new(self.known_prices.objective(), self.known_prices.collective(collective, &from), 0)
        });
        (moves.fold(Score::default(), |sum, score| sum + score), path.len())
    }

    /// Finds the prices of the moves of a way, if they are few.
    fn find_prices(&self, path: &Path, prices: &mut usize) {
        for (id, from, collective) in path {
            let from = self.search.space(*id).layout(*from);
            if *prices > 0 && self.known_prices.at_least(collective, &from).is_some() {
                *prices -= 1;
                self.known_prices.learn(collective, &from);
            }
        }
    }

    /// Moves as the book writes them.
    fn names(&self, path: &Path) -> Vec<String> {
        let program = self.search.program;
        let (mesh, dims) = (&program.mesh, &program.dims);
        let name = |(id, from, collective): &(ValueId, Node, Rc<Collective>)| {
            let from = self.search.space(*id).layout(*from);
            let (move_name, brackets) = (collective_name(collective, &from, mesh, dims), from.brackets(mesh, dims));
            format!("{move_name}({}{brackets})", program.name(*id))
        };
        path.iter().map(name).collect()
    }

    /// Moves as they are told once, in whichever order axes stand on a dim: the text with axes in the order of the mesh.
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

/// Whether a way is one that is written: each array is moved once, and before or after it may be cut.
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
