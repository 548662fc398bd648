//! Resharding as a shortest path: shardings of one array are nodes, collectives and free slices are edges.
//!
//! The graph of an array type is generated lazily and kept, so each move is priced once.

use super::budget::{Budget, MoveBudget};
use super::few;
use super::{Allowed, Cost, Costs, Objective};
use crate::collective::Collective;
use crate::dtype::DType;
use crate::layout::{Dim, Layout, Sharding, Used};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::topology::LocalMoves;
use crate::units::Time;
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::ops::Add;
use std::rc::Rc;

/// The order of plans: by the objective, then by its tie breaker, then by the number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    first: u128,
    second: u128,
    steps: u32,
}

impl Score {
    pub(super) fn new(objective: Objective, cost: Cost, flops: u128) -> Score {
        let (time, bytes) = (cost.time.ticks(), u128::from(cost.received.0));
        match objective {
            Objective::Time => Score { first: time, second: bytes, steps: 1 },
            Objective::Bytes => Score { first: bytes, second: flops, steps: 1 },
        }
    }
}

impl Score {
    /// The objective.
    pub(super) fn first(self) -> u128 {
        self.first
    }

    /// Adds a penalty to the objective.
    pub(super) fn with_penalty(self, penalty: u128) -> Score {
        Score { first: self.first.saturating_add(penalty), ..self }
    }

    /// The same score with one more step.
    pub(super) fn with_step(self) -> Score {
        Score { steps: self.steps.saturating_add(1), ..self }
    }

    /// The same score without its step count.
    pub(super) fn of_no_step(self) -> Score {
        Score { steps: 0, ..self }
    }

    /// Difference of scores.
    pub(super) fn beyond(self, other: Score) -> Score {
        Score {
            first: self.first.saturating_sub(other.first),
            second: self.second.saturating_sub(other.second),
            steps: self.steps.saturating_sub(other.steps),
        }
    }

    /// Score of a repeated step.
    pub(super) fn times(self, times: u64) -> Score {
        if times == 1 {
            return self;
        }
        let times = u128::from(times);
        Score { first: self.first.saturating_mul(times), second: self.second.saturating_mul(times), ..self }
    }

    /// One share of `n`; the shares add up to the whole, and a larger score has no smaller shares.
    pub(super) fn part(self, parts: u32, place: usize) -> Score {
        if parts <= 1 {
            return self;
        }
        let of = u128::from(parts);
        let part = |whole: u128| whole.saturating_add(place as u128 % of) / of;
        Score { first: part(self.first), second: part(self.second), ..self }
    }
}

impl Add for Score {
    type Output = Score;
    fn add(self, other: Score) -> Score {
        Score {
            first: self.first.saturating_add(other.first),
            second: self.second.saturating_add(other.second),
            steps: self.steps.saturating_add(other.steps),
        }
    }
}

/// A node of a [`Space`].
pub(super) type Node = usize;

/// A move between two shardings. There are many of these, so they are small: no space has 2^32 nodes or prices.
#[derive(Clone, Debug)]
struct Edge {
    to: u32,
    /// The place of its price in [`Space::prices`], once a path may use it.
    price: Option<NonZeroU32>,
    /// `None` for a permute, of which the target says all.
    other: Option<Rc<Collective>>,
}

impl Edge {
    fn to(&self) -> Node {
        self.to as Node
    }

    /// - `shardings`: those of its space.
    fn collective(&self, shardings: &[Sharding]) -> Rc<Collective> {
        let permute = || Rc::new(Collective::Permute { to: shardings[self.to()].clone() });
        self.other.as_ref().map_or_else(permute, Rc::clone)
    }
}

/// What a move costs.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    score: Score,
    time: Time,
    /// Bytes of a device before and after it, together.
    held: u64,
}

/// Options of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchOptions {
    /// Moves that are allowed where no move is written.
    pub(super) allowed: Allowed,
    /// Whether closed terms of open sums are opened wherever it is possible, and not only where a single user goes on with
    /// the partial results.
    pub(super) opens_all: bool,
    /// Whether the limits of the program are ignored.
    pub(super) ignores_limits: bool,
    /// Limit on the objective; plans above it are discarded.
    pub(super) most: u128,
    /// Limit on the memory of a device for one step: operands and result.
    pub(super) memory_limit: u64,
    /// Whether the memory of a step is overestimated, so that plans fit sooner.
    pub(super) cautious: bool,
    /// Limit on the operations of a device in the whole program.
    pub(super) flops: u128,
    /// Whether the alternatives of products are kept.
    pub(super) alternatives: bool,
    /// Limits on the effort.
    pub(super) budget: Budget,
    /// Penalty per number of operations, added to the objective.
    pub(super) penalty: (u128, u128),
    /// Price of a byte of an input with layout holes, as a fraction, added to the objective.
    pub(super) rent: (u128, u128),
}

impl SearchOptions {
    /// Options that allow these moves and limit nothing else.
    pub(super) fn new(allowed: Allowed) -> SearchOptions {
        let (most, memory_limit, flops) = (u128::MAX, u64::MAX, u128::MAX);
        SearchOptions {
            allowed,
            opens_all: false,
            ignores_limits: false,
            most,
            memory_limit,
            cautious: false,
            flops,
            alternatives: false,
            budget: Budget::default(),
            penalty: (0, 1),
            rent: (0, 1),
        }
    }

    /// These options for a plan that may exceed the limits of the program.
    pub(super) fn without_limits(self) -> SearchOptions {
        SearchOptions { ignores_limits: true, ..self }
    }
}

/// Allowed moves and their prices.
pub(super) struct Pricing<'a> {
    /// Number of repetitions.
    pub(super) times: u64,
    pub(super) options: SearchOptions,
    pub(super) mesh: &'a Mesh,
    pub(super) costs: &'a dyn Costs,
}

impl Pricing<'_> {
    fn allows(&self, edge: &Edge) -> bool {
        match self.options.allowed {
            Allowed::Moves => true,
            Allowed::Slices => edge.other.as_ref().is_some_and(|other| !other.kind().sends()),
        }
    }
}

/// The generated shardings of one array type, and the moves between them.
pub(super) struct Space {
    dtype: DType,
    dims: Vec<Dim>,
    /// The part that may differ from 0, if it is known.
    used: Option<Used>,
    /// The axes that its layouts may have.
    axes: AxisSet,
    shardings: Vec<Sharding>,
    nodes: FxHashMap<Sharding, Node>,
    edges: Vec<Option<Vec<Edge>>>,
    /// Prices of moves; the first one is of none.
    prices: Vec<Price>,
    /// Layouts written for arrays of this type.
    written: Vec<Sharding>,
    /// Counters shared by all array types.
    budget: MoveBudget,
    /// Number of moves examined in all searches.
    pub(super) work: u64,
}

/// The cheapest path to each node, from some sources.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances<Origin> {
    /// By node; `None` if unreachable.
    reached: Vec<Option<(Score, Back<Origin>)>>,
    /// All sources, in order.
    begun: Vec<Node>,
}

/// How a node is reached.
#[derive(Clone, Debug)]
pub(super) enum Back<Origin> {
    /// It is a source.
    Source(Origin),
    /// By the move with this index out of another node.
    Move(Node, usize),
}

impl<Origin> Distances<Origin> {
    /// The lowest score of a node, and how it is reached.
    pub(super) fn get(&self, node: Node) -> Option<&(Score, Back<Origin>)> {
        self.reached.get(node)?.as_ref()
    }

    /// Whether no node is reachable.
    pub(super) fn is_empty(&self) -> bool {
        self.reached().next().is_none()
    }

    /// The sources, and whether each is reached more cheaply by a move.
    pub(super) fn sources(&self) -> impl Iterator<Item = (Node, bool)> {
        let reached = self.begun.iter().filter_map(|node| Some((*node, self.get(*node)?)));
        reached.map(|(node, (_, back))| (node, matches!(back, Back::Move(..))))
    }

    /// All nodes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, Score)> {
        self.reached().map(|(node, (score, _))| (node, *score))
    }

    /// Whether a node is reached from this source.
    pub(super) fn starts_at(&self, node: Node, source: Node) -> bool {
        self.start(node) == Some(source)
    }

    /// The source from which a node is reached, as a node.
    pub(super) fn start(&self, mut node: Node) -> Option<Node> {
        loop {
            match &self.get(node)?.1 {
                Back::Source(_) => return Some(node),
                Back::Move(from, _) => node = *from,
            }
        }
    }

    /// The source from which a node is reached.
    pub(super) fn origin(&self, mut node: Node) -> Option<&Origin> {
        loop {
            match &self.get(node)?.1 {
                Back::Source(origin) => return Some(origin),
                Back::Move(from, _) => node = *from,
            }
        }
    }

    fn reached(&self) -> impl Iterator<Item = (Node, &(Score, Back<Origin>))> {
        self.reached.iter().enumerate().filter_map(|(node, reached)| Some((node, reached.as_ref()?)))
    }
}

impl Space {
    /// The layouts of arrays of one type.
    ///
    /// - `used`: the part of an array that may differ from 0, if it is known.
    pub(super) fn new(
        (dtype, dims, used): (DType, Vec<Dim>, Option<Used>),
        axes: AxisSet,
        budget: MoveBudget,
    ) -> Space {
        let (shardings, nodes, edges, written) = (Vec::new(), FxHashMap::default(), Vec::new(), Vec::new());
        let prices = vec![Price::default()];
        Space { dtype, dims, used, axes, shardings, nodes, edges, prices, written, budget, work: 0 }
    }

    /// Registers a written layout.
    pub(super) fn write(&mut self, sharding: &Sharding) {
        self.written.push(sharding.clone());
    }

    /// The node of a sharding, created if necessary.
    pub(super) fn node(&mut self, sharding: &Sharding) -> Node {
        if let Some(node) = self.nodes.get(sharding) {
            return *node;
        }
        let node = self.shardings.len();
        self.shardings.push(sharding.clone());
        self.nodes.insert(sharding.clone(), node);
        self.edges.push(None);
        node
    }

    /// The node of a known sharding.
    pub(super) fn known(&self, sharding: &Sharding) -> Option<Node> {
        self.nodes.get(sharding).copied()
    }

    pub(super) fn sharding(&self, node: Node) -> &Sharding {
        &self.shardings[node]
    }

    fn layout_of(&self, sharding: &Sharding) -> Layout {
        let (dims, used) = (self.dims.clone(), self.used.clone());
        Layout { dtype: self.dtype, dims, sharding: sharding.clone(), used }
    }

    pub(super) fn layout(&self, node: Node) -> Layout {
        self.layout_of(&self.shardings[node])
    }

    /// Bytes of one shard.
    pub(super) fn bytes(&self, node: Node, mesh: &Mesh) -> u64 {
        self.shardings[node].local_bytes(self.dtype, &self.dims, mesh).0
    }

    /// The move with an index out of an expanded node, and its time.
    pub(super) fn edge(&self, from: Node, place: usize) -> Option<(Rc<Collective>, Time)> {
        let edge = self.edges[from].as_ref()?.get(place)?;
        Some((edge.collective(&self.shardings), self.prices[edge.price?.get() as usize].time))
    }

    /// The moves from a source to a node, in order, each with its start and its time.
    pub(super) fn way<Origin>(
        &self,
        ways: &Distances<Origin>,
        target: Node,
    ) -> Option<Vec<(Node, Rc<Collective>, Time)>> {
        let mut moves = Vec::new();
        let mut node = target;
        while let Back::Move(from, place) = ways.get(node)?.1 {
            let (collective, time) = self.edge(from, place)?;
            moves.push((from, collective, time));
            node = from;
        }
        moves.reverse();
        Some(moves)
    }

    /// Shortest paths from the sources to every sharding; with a target, only until it is reached.
    pub(super) fn distances<Origin: Clone>(
        &mut self,
        sources: impl IntoIterator<Item = (Node, Score, Origin)>,
        target: Option<Node>,
        pricing: &Pricing<'_>,
    ) -> Distances<Origin> {
        let mut reached: Vec<Option<(Score, Back<Origin>)>> = vec![None; self.shardings.len()];
        let mut heap = BinaryHeap::new();
        let mut begun = Vec::new();
        for (node, score, origin) in sources {
            begun.push(node);
            if reached[node].as_ref().is_none_or(|(known, _)| score < *known) {
                reached[node] = Some((score, Back::Source(origin)));
                heap.push(Reverse((score, node)));
            }
        }
        let mut settled = vec![false; self.shardings.len()];
        while let Some(Reverse((score, node))) = heap.pop() {
            if score.first > pricing.options.most {
                break;
            }
            if std::mem::replace(&mut settled[node], true) {
                continue;
            }
            if target == Some(node) {
                break;
            }
            self.expand(node, pricing);
            settled.resize(self.shardings.len(), false);
            reached.resize(self.shardings.len(), None);
            let from = Prices {
                layout: OnceCell::new(),
                space: (self.dtype, &self.dims, &self.used),
                from: &self.shardings[node],
            };
            let edges = self.edges[node].as_deref_mut().unwrap_or_default();
            self.work += edges.len() as u64;
            for (place, edge) in edges.iter_mut().enumerate() {
                let to = edge.to();
                // Most moves lead to what is reached more cheaply, whatever they cost.
                let is_reached = reached[to].as_ref().is_some_and(|(known, _)| *known <= score);
                if is_reached || !pricing.allows(edge) {
                    continue;
                }
                let number = edge.price.unwrap_or_else(|| {
                    let collective = edge.collective(&self.shardings);
                    self.prices.push(from.of(&collective, &self.shardings[to], pricing));
                    let number = u32::try_from(self.prices.len() - 1).ok().and_then(NonZeroU32::new);
                    number.expect("a space has fewer prices")
                });
                edge.price = Some(number);
                let price = &self.prices[number.get() as usize];
                let through = score + price.score.times(pricing.times);
                if price.held <= pricing.options.memory_limit
                    && reached[to].as_ref().is_none_or(|(known, _)| through < *known)
                {
                    reached[to] = Some((through, Back::Move(node, place)));
                    heap.push(Reverse((through, to)));
                }
            }
        }
        let within = |(score, _): &(Score, _)| score.first <= pricing.options.most;
        reached.iter_mut().for_each(|entry| *entry = entry.take().filter(within));
        begun.sort_unstable();
        begun.dedup();
        Distances { reached, begun }
    }

    /// Finds the moves out of a node, once.
    fn expand(&mut self, node: Node, pricing: &Pricing<'_>) {
        if self.edges[node].is_some() {
            return;
        }
        let (from, mesh) = (self.shardings[node].clone(), pricing.mesh);
        let all = match self.budget.is_restricted() {
            true => None,
            false => moves(&from, &self.dims, self.axes, mesh),
        };
        let all = all.map(|mut all| {
            if !are_slices_free(pricing.costs) {
                all.extend(slices_over_several(self.axes.without(from.used()), self.dims.len()));
            }
            all
        });
        let edges = all.and_then(|moves| self.edges_of(moves, &from, false, mesh));
        let edges = edges.unwrap_or_else(|| {
            self.budget.restrict();
            let moves = match self.budget.is_exhausted() {
                true => few::last(&from, &self.written),
                false => few::moves(&from, self.axes, &self.written),
            };
            self.edges_of(moves, &from, true, mesh).unwrap_or_default()
        });
        self.budget.add(edges.len());
        self.edges[node] = Some(edges);
    }

    /// The applicable moves; `None` if the time limit passes.
    fn edges_of(
        &mut self,
        moves: Vec<Collective>,
        from: &Sharding,
        is_restricted: bool,
        mesh: &Mesh,
    ) -> Option<Vec<Edge>> {
        let mut edges = Vec::with_capacity(moves.len());
        for collective in moves {
            let Some(to) = collective.apply(from, mesh) else { continue };
            if !to.divides(&self.dims, mesh) || is_restricted && !few::is_plain(&to, &self.written) {
                continue;
            }
            if !is_restricted && edges.len() % MOVES_PER_LOOK == MOVES_PER_LOOK - 1 && self.budget.is_restricted() {
                return None;
            }
            let other = match collective {
                Collective::Permute { .. } => None,
                other => Some(Rc::new(other)),
            };
            let to = u32::try_from(self.node(&to)).expect("a space has fewer nodes");
            edges.push(Edge { to, price: None, other });
        }
        Some(edges)
    }

    /// The known moves along the same axes as another, of blocks of the same size, but other dims or shardings.
    pub(super) fn alike(&self, collective: &Collective, from: &Layout, mesh: &Mesh) -> Vec<(Collective, Layout)> {
        let bytes = from.local_bytes(mesh);
        let key = (collective.kind(), collective.axes(&from.sharding, mesh));
        let nodes =
            self.edges.iter().zip(&self.shardings).filter_map(|(edges, sharding)| Some((edges.as_ref()?, sharding)));
        let nodes = nodes.filter(|(_, sharding)| sharding.local_bytes(self.dtype, &self.dims, mesh) == bytes);
        let alike = nodes.flat_map(|(edges, sharding)| {
            let edges = edges.iter().map(|edge| edge.collective(&self.shardings));
            edges
                .filter(move |other| (other.kind(), other.axes(sharding, mesh)) == key)
                .map(move |other| (other, sharding))
        });
        alike.map(|(other, sharding)| (Rc::unwrap_or_clone(other), self.layout_of(sharding))).collect()
    }

    /// Updates the price of a move, if it belongs to this array type.
    pub(super) fn reprice(&mut self, collective: &Collective, from: &Layout, costs: &dyn Costs) {
        if (self.dtype, &self.dims, &self.used) != (from.dtype, &from.dims, &from.used) {
            return;
        }
        let Some(edges) = self.known(&from.sharding).and_then(|node| self.edges[node].as_ref()) else { return };
        let is_it = |edge: &&Edge| match (&edge.other, collective) {
            (Some(other), _) => **other == *collective,
            (None, Collective::Permute { to }) => self.shardings[edge.to()] == *to,
            (None, _) => false,
        };
        for number in edges.iter().filter(is_it).filter_map(|edge| edge.price) {
            let price = &mut self.prices[number.get() as usize];
            (price.time, price.score) = priced(collective, from, costs);
        }
    }
}

/// The prices of the moves out of a sharding.
struct Prices<'a> {
    space: (DType, &'a [Dim], &'a Option<Used>),
    from: &'a Sharding,
    /// Its layout, once a price needs it.
    layout: OnceCell<Layout>,
}

impl Prices<'_> {
    fn of(&self, collective: &Collective, to: &Sharding, pricing: &Pricing<'_>) -> Price {
        let ((dtype, dims, used), Pricing { mesh, costs, .. }) = (self.space, pricing);
        let whole = || Layout { dtype, dims: dims.to_vec(), sharding: self.from.clone(), used: used.clone() };
        let from = self.layout.get_or_init(whole);
        let (time, score) = priced(collective, from, *costs);
        let before = from.local_bytes(mesh).0;
        // A slice shares the memory of its operand.
        let made = if collective.kind().sends() { to.local_bytes(dtype, dims, mesh).0 } else { 0 };
        // Includes the memory of messages, if it has been counted.
        let known = costs.tuner().and_then(|tuner| tuner.known_working(collective, from));
        let held = known.map_or(before.saturating_add(made), |working| working.with_operands(before));
        Price { score, time, held }
    }
}

fn priced(collective: &Collective, from: &Layout, costs: &dyn Costs) -> (Time, Score) {
    let cost = costs.collective(collective, from);
    (cost.time, Score::new(costs.objective(), cost, 0))
}

/// Whether slices take no time, so that those over several axes are as good one by one.
pub(super) fn are_slices_free(costs: &dyn Costs) -> bool {
    costs.tuner().is_none_or(|tuner| tuner.topology().hardware.local_moves == LocalMoves::Free)
}

/// The slices of one dim along several axes at once.
fn slices_over_several(free: AxisSet, rank: usize) -> impl Iterator<Item = Collective> {
    let lists = free.subsets().filter(|axes| axes.len() > 1).flat_map(|axes| orders(axes.in_order()));
    lists.flat_map(move |axes| (0..rank).map(move |dim| Collective::Slice { axes, dim }))
}

/// Number of moves between checks of the time limit.
const MOVES_PER_LOOK: usize = 64;

/// The moves out of a sharding; `None` if there are too many. Some do not apply; the caller uses [`Collective::apply`].
fn moves(from: &Sharding, dims: &[Dim], all: AxisSet, mesh: &Mesh) -> Option<Vec<Collective>> {
    let mut moves = Vec::new();
    moves.extend(permutes(from, all, mesh)?.map(|to| Collective::Permute { to }));
    moves.extend(from.dim_axes().subsets().map(|axes| Collective::AllGather { axes }));
    if from.operator.is_root() {
        moves.extend(from.open.subsets().map(|axes| Collective::Broadcast { axes }));
    }
    for axes in from.open.subsets().filter(|_| !from.operator.is_root()) {
        moves.push(Collective::AllReduce { axes });
        moves.extend(spreads(axes, dims.len()).into_iter().map(|dims| Collective::ReduceScatter { dims }));
    }
    for (source, axes) in from.dims.iter().enumerate() {
        for axes in suffixes(*axes).flat_map(orders) {
            let targets = (0..dims.len()).filter(|target| *target != source);
            moves.extend(targets.map(|to| Collective::AllToAll { axes, from: source, to }));
        }
    }
    for axis in all.without(from.used()).iter() {
        moves.extend((0..dims.len()).map(|dim| Collective::Slice { axes: Axes::one(axis), dim }));
    }
    Some(moves)
}

/// The orders in which some axes can be appended to a dim.
fn orders(axes: Axes) -> Vec<Axes> {
    if axes.len() == 1 {
        return vec![axes];
    }
    if axes.len() > Budget::MOST_ORDERED {
        return vec![axes, axes.set().in_order()];
    }
    axes.iter().permutations(axes.len()).map(|order| order.into_iter().collect()).collect()
}

/// The ways to append some axes to the dims of an array of this rank, in all orders.
fn spreads(axes: AxisSet, rank: usize) -> Vec<Vec<Axes>> {
    let count = (rank..rank + axes.len()).try_fold(1usize, |count, places| count.checked_mul(places));
    if count.is_none_or(|count| count > Budget::MOST_SPREAD) {
        let onto = |dim| move |axes: Axes| (0..rank).map(|at| if at == dim { axes } else { Axes::NONE }).collect();
        return (0..rank).flat_map(|dim| orders(axes.in_order()).into_iter().map(onto(dim))).collect();
    }
    let mut found = vec![vec![Axes::NONE; rank]];
    for axis in axes.iter() {
        let places = |dims: &Vec<Axes>| {
            let at = |(dim, list): (usize, &Axes)| (0..=list.len()).map(move |place| (dim, place));
            dims.iter().enumerate().flat_map(at).collect::<Vec<_>>()
        };
        let grow = |dims: &Vec<Axes>| {
            let grown = places(dims).into_iter().map(|(dim, place)| {
                let mut grown = dims.clone();
                grown[dim] = dims[dim].iter().take(place).chain([axis]).chain(dims[dim].iter().skip(place)).collect();
                grown
            });
            grown.collect::<Vec<_>>()
        };
        found = found.iter().flat_map(grow).collect();
    }
    found
}

/// The non-empty suffixes of a list.
fn suffixes(axes: Axes) -> impl Iterator<Item = Axes> {
    let list: Vec<AxisId> = axes.iter().collect();
    (0..list.len()).map(move |start| list[start..].iter().copied().collect())
}

/// The shardings with the same local extents: axes of the dims are exchanged with each other or with axes of replicas.
/// `None` if there are too many.
fn permutes(from: &Sharding, all: AxisSet, mesh: &Mesh) -> Option<impl Iterator<Item = Sharding>> {
    let free = all.without(from.open);
    let sizes: Vec<u64> = from.dims.iter().map(|axes| axes.group_size(mesh)).collect();
    let mut found = vec![(Vec::new(), AxisSet::NONE)];
    for size in sizes {
        let mut longer = Vec::new();
        for (dims, used) in &found {
            for axes in lists_of_size(free.without(*used), size, mesh)? {
                let mut dims: Vec<Axes> = dims.clone();
                dims.push(axes);
                longer.push((dims, used.union(axes.set())));
            }
            if longer.len() > Budget::MOST_PERMUTES {
                return None;
            }
        }
        found = longer;
    }
    let (open, operator) = (from.open, from.operator);
    Some(found.into_iter().map(move |(dims, _)| Sharding { dims, open, operator }))
}

/// The ordered lists of axes whose sizes multiply to `size`; `None` if there are too many.
fn lists_of_size(axes: AxisSet, size: u64, mesh: &Mesh) -> Option<Vec<Axes>> {
    if size == 1 {
        return Some(vec![Axes::NONE]);
    }
    let mut lists = Vec::new();
    for axis in axes.iter().filter(|axis| size.is_multiple_of(mesh.size(*axis))) {
        let rest = lists_of_size(axes.without(AxisSet::one(axis)), size / mesh.size(axis), mesh)?;
        lists.extend(rest.into_iter().map(|rest| Axes::one(axis).then(rest)));
        if lists.len() > Budget::MOST_PERMUTES {
            return None;
        }
    }
    Some(lists)
}
