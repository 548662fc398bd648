//! Resharding as a shortest path: shardings of one array are nodes, collectives and free slices are edges.
//!
//! The graph of an array type is discovered while it is walked and kept, so that a move is priced once.

use super::{Allowed, Cost, Costs, Objective};
use crate::collective::{Collective, CollectiveKind};
use crate::dtype::DType;
use crate::layout::{Dim, Layout, Sharding};
use crate::mesh::{Axes, AxisId, AxisSet, Mesh};
use crate::units::{Bytes, Time};
use itertools::Itertools;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Add;
use std::rc::Rc;

/// What plans are compared by: first by the objective, then by its tie breaker, then by the number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    first: u128,
    second: u128,
    steps: u32,
}

impl Score {
    pub(super) fn new(objective: Objective, cost: Cost, received: Bytes, flops: u128) -> Score {
        let (time, bytes) = (cost.time.ticks(), u128::from(received.0));
        match objective {
            Objective::Time => Score { first: time, second: bytes, steps: 1 },
            Objective::Bytes => Score { first: bytes, second: flops, steps: 1 },
        }
    }
}

impl Score {
    /// Of something that is done several times.
    pub(super) fn times(self, times: u64) -> Score {
        let times = u128::from(times);
        Score { first: self.first.saturating_mul(times), second: self.second.saturating_mul(times), ..self }
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

/// A move between two shardings.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) to: Node,
    pub(super) collective: Rc<Collective>,
    pub(super) score: Score,
    pub(super) time: Time,
}

/// Which moves there are, and what they cost.
pub(super) struct Pricing<'a> {
    /// How often each is done.
    pub(super) times: u64,
    pub(super) allowed: Allowed,
    pub(super) mesh: &'a Mesh,
    pub(super) costs: &'a dyn Costs,
}

impl Pricing<'_> {
    fn allows(&self, collective: &Collective) -> bool {
        match self.allowed {
            Allowed::Moves => true,
            Allowed::Slices => collective.kind() == CollectiveKind::Slice,
        }
    }
}

/// The shardings of one array type that have been met, and the moves between them.
pub(super) struct Space {
    dtype: DType,
    dims: Vec<Dim>,
    shardings: Vec<Sharding>,
    nodes: FxHashMap<Sharding, Node>,
    edges: Vec<Option<Vec<Edge>>>,
}

/// The cheapest way to each node, from some sources.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances<Origin> {
    /// By node; none where it was not reached.
    reached: Vec<Option<(Score, Back<Origin>)>>,
}

/// How a node was reached.
#[derive(Clone, Debug)]
pub(super) enum Back<Origin> {
    /// It was a source.
    Source(Origin),
    /// By a move from another node, in so much time.
    Move(Node, Rc<Collective>, Time),
}

impl<Origin> Distances<Origin> {
    /// The least score of a node and how it is reached.
    pub(super) fn get(&self, node: Node) -> Option<&(Score, Back<Origin>)> {
        self.reached.get(node)?.as_ref()
    }

    /// The nodes that were sources and are reached no better.
    pub(super) fn sources(&self) -> impl Iterator<Item = (Node, Score)> {
        let sources = self.reached().filter(|(_, (_, back))| matches!(back, Back::Source(_)));
        sources.map(|(node, (score, _))| (node, *score))
    }

    /// All nodes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, Score)> {
        self.reached().map(|(node, (score, _))| (node, *score))
    }

    /// The moves from a source to a node, in order, each with where it starts and its time.
    pub(super) fn way(&self, target: Node) -> Option<Vec<(Node, Rc<Collective>, Time)>> {
        let mut moves = Vec::new();
        let mut node = target;
        loop {
            match &self.get(node)?.1 {
                Back::Source(_) => break,
                Back::Move(from, collective, time) => {
                    moves.push((*from, Rc::clone(collective), *time));
                    node = *from;
                }
            }
        }
        moves.reverse();
        Some(moves)
    }

    fn reached(&self) -> impl Iterator<Item = (Node, &(Score, Back<Origin>))> {
        self.reached.iter().enumerate().filter_map(|(node, reached)| Some((node, reached.as_ref()?)))
    }
}

impl Space {
    pub(super) fn new(dtype: DType, dims: Vec<Dim>) -> Space {
        Space { dtype, dims, shardings: Vec::new(), nodes: FxHashMap::default(), edges: Vec::new() }
    }

    /// The node of a sharding.
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

    /// The node of a sharding that has been met.
    pub(super) fn known(&self, sharding: &Sharding) -> Option<Node> {
        self.nodes.get(sharding).copied()
    }

    pub(super) fn sharding(&self, node: Node) -> &Sharding {
        &self.shardings[node]
    }

    pub(super) fn layout(&self, node: Node) -> Layout {
        Layout { dtype: self.dtype, dims: self.dims.clone(), sharding: self.shardings[node].clone() }
    }

    /// The cheapest way from any of the sources to every sharding; with a target, only until that is settled.
    pub(super) fn distances<Origin: Clone>(
        &mut self,
        sources: impl IntoIterator<Item = (Node, Score, Origin)>,
        target: Option<Node>,
        pricing: &Pricing<'_>,
    ) -> Distances<Origin> {
        let mut reached: Vec<Option<(Score, Back<Origin>)>> = vec![None; self.shardings.len()];
        let mut heap = BinaryHeap::new();
        for (node, score, origin) in sources {
            if reached[node].as_ref().is_none_or(|(known, _)| score < *known) {
                reached[node] = Some((score, Back::Source(origin)));
                heap.push(Reverse((score, node)));
            }
        }
        let mut settled = vec![false; self.shardings.len()];
        while let Some(Reverse((score, node))) = heap.pop() {
            if std::mem::replace(&mut settled[node], true) {
                continue;
            }
            if target == Some(node) {
                break;
            }
            self.expand(node, pricing.mesh, pricing.costs);
            settled.resize(self.shardings.len(), false);
            reached.resize(self.shardings.len(), None);
            for edge in self.edges[node].iter().flatten().filter(|edge| pricing.allows(&edge.collective)) {
                let through = score + edge.score.times(pricing.times);
                if !settled[edge.to] && reached[edge.to].as_ref().is_none_or(|(known, _)| through < *known) {
                    let back = Back::Move(node, Rc::clone(&edge.collective), edge.time);
                    reached[edge.to] = Some((through, back));
                    heap.push(Reverse((through, edge.to)));
                }
            }
        }
        Distances { reached }
    }

    /// Finds and prices the moves out of a node, once.
    fn expand(&mut self, node: Node, mesh: &Mesh, costs: &dyn Costs) {
        if self.edges[node].is_some() {
            return;
        }
        let from = self.layout(node);
        let mut edges = Vec::new();
        for collective in moves(&from.sharding, &self.dims, mesh) {
            let Some(to) = collective.apply(&from.sharding, mesh) else { continue };
            if !to.divides(&self.dims, mesh) {
                continue;
            }
            let cost = costs.collective(&collective, &from);
            let score = Score::new(costs.objective(), cost, collective.bytes_received(&from, mesh), 0);
            edges.push(Edge { to: self.node(&to), collective: Rc::new(collective), score, time: cost.time });
        }
        self.edges[node] = Some(edges);
    }
}

/// Above this many axes in an open sum, a reduce-scatter is tried in the order of the mesh only.
const MOST_ORDERED: usize = 3;

/// The moves out of a sharding. Some of them cannot be applied; the caller asks [`Collective::apply`].
fn moves(from: &Sharding, dims: &[Dim], mesh: &Mesh) -> Vec<Collective> {
    let mut moves = Vec::new();
    let all: AxisSet = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1).collect();
    moves.extend(from.dim_axes().subsets().map(|axes| Collective::AllGather { axes }));
    for axes in from.open.subsets() {
        moves.push(Collective::AllReduce { axes });
        for dim in 0..dims.len() {
            moves.extend(orders(axes).into_iter().map(|axes| Collective::ReduceScatter { axes, dim }));
        }
    }
    for (source, target) in (0..dims.len()).cartesian_product(0..dims.len()) {
        let lists = suffixes(from.dims[source]).flat_map(|axes| orders(axes.set()));
        moves.extend(lists.map(|axes| Collective::AllToAll { axes, from: source, to: target }));
    }
    for axis in all.without(from.used()).iter() {
        moves.extend((0..dims.len()).map(|dim| Collective::Slice { axes: Axes::one(axis), dim }));
    }
    moves.extend(permutes(from, all, mesh).map(|to| Collective::Permute { to }));
    moves
}

/// The lists in which the axes of a set can be appended to a dim.
fn orders(axes: AxisSet) -> Vec<Axes> {
    if axes.len() > MOST_ORDERED {
        return vec![axes.in_order()];
    }
    axes.iter().permutations(axes.len()).map(|order| order.into_iter().collect()).collect()
}

/// The non-empty suffixes of a list.
fn suffixes(axes: Axes) -> impl Iterator<Item = Axes> {
    let list: Vec<AxisId> = axes.iter().collect();
    (0..list.len()).map(move |start| list[start..].iter().copied().collect())
}

/// The shardings with the same extents on every device: the axes of the dims change places, with each other or with
/// axes that hold replicas.
fn permutes(from: &Sharding, all: AxisSet, mesh: &Mesh) -> impl Iterator<Item = Sharding> {
    let free = all.without(from.open);
    let sizes: Vec<u64> = from.dims.iter().map(|axes| axes.group_size(mesh)).collect();
    let mut found = vec![(Vec::new(), AxisSet::NONE)];
    for size in sizes {
        let mut longer = Vec::new();
        for (dims, used) in &found {
            for axes in lists_of_size(free.without(*used), size, mesh) {
                let mut dims: Vec<Axes> = dims.clone();
                dims.push(axes);
                longer.push((dims, used.union(axes.set())));
            }
        }
        found = longer;
    }
    let (open, operator) = (from.open, from.operator);
    found.into_iter().map(move |(dims, _)| Sharding { dims, open, operator })
}

/// The ordered lists of axes whose sizes multiply to `size`; axes of size 1 never help.
fn lists_of_size(axes: AxisSet, size: u64, mesh: &Mesh) -> Vec<Axes> {
    if size == 1 {
        return vec![Axes::NONE];
    }
    let mut lists = Vec::new();
    for axis in axes.iter().filter(|axis| size.is_multiple_of(mesh.size(*axis))) {
        let rest = lists_of_size(axes.without(AxisSet::one(axis)), size / mesh.size(axis), mesh);
        lists.extend(rest.into_iter().map(|rest| Axes::one(axis).then(rest)));
    }
    lists
}
