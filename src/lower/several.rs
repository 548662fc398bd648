//! Whether a collective is done stage by stage or over all its axes at once, and in how many chunks.

use super::Lowering;
use super::auto::{LEAST_SAVING, Trial, along, more_chunks, simulate};
use super::collective::{Lowerer, Stages};
use super::colours::{colours, turns};
use super::{idle, packing};
use crate::collective::CollectiveKind;
use crate::dtype::DType;
use crate::mesh::{Axes, Mesh, Wiring};
use crate::method::Family;
use crate::operator::Operator;
use crate::schedule::OpId;
use crate::schedule::methods::{Borrowed, Destination, Method, Multiport, Packed, Quad, Stage};
use crate::topology::Topology;
use crate::units::Time;
use std::cell::Cell;
use std::collections::HashMap;

/// What decides: the collective, the block it starts from, and the method asked for.
pub(super) type Several = (Moved, DType, Vec<u64>, Option<Method>);

/// A collective over the axes of some dims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moved {
    pub(super) kind: CollectiveKind,
    /// The axes on each dim: where a gather finds them, a scatter and an exchange put or find them. A sum over several
    /// axes is scattered along a dim that divides, if there is one.
    pub(super) dims: Vec<Axes>,
    /// Where an exchange puts them.
    pub(super) to: Option<Destination>,
    /// The run of axes that holds copies, whose links a gather borrows, if it is asked to; else none.
    pub(super) idle: Option<Axes>,
}

/// More chunks of all axes at once are not tried.
const MOST_CHUNKS: u64 = 64;

/// Chunks of all axes at once are few, so that even a part in so many is worth them.
const LEAST_SAVING_AT_ONCE: u128 = 512;

/// No more of them are tried once the busiest link is idle for less than 1 part in so many.
const NEARLY_ALL: u128 = 200;

/// How a collective goes over its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Stage by stage; of a sum a scatter and a gather.
    Staged,
    /// A whole sum over each axis, one after the other.
    InTurn,
    /// All axes at once.
    Multiport(Multiport),
    /// Around the rings through all devices of two axes.
    Quad(Quad),
    /// Along one run and one that holds copies.
    Borrowed(Borrowed),
    /// Along packed trees.
    Packed(Packed),
}

impl Stages<'_, '_, '_, '_> {
    /// All axes by the fastest way, or the one that is asked for.
    pub(super) fn over_axes(&mut self, moved: &Moved, value: OpId) -> OpId {
        let way = self.way_over_axes(moved, value);
        self.by_way(moved, &way, value)
    }

    fn way_over_axes(&mut self, moved: &Moved, value: OpId) -> Way {
        let lowerer = &self.lowerer;
        let count = moved.runs(&lowerer.topology.mesh).len();
        let tried = match self.method {
            Some(method) => method.family() == Family::Several,
            None => !lowerer.frugal && (count > 1 || lowerer.topology.is_degraded()),
        };
        if count == 0 || !tried {
            return Way::Staged;
        }
        let key = (moved.clone(), self.builder.dtype(value), self.builder.extents(value).to_vec(), self.method);
        if let Some(known) = lowerer.memory.several.get(&key) {
            return known.clone();
        }
        let way = Contest::new(self.lowerer, &key, self.operator).winner();
        self.lowerer.memory.several.insert(key, way.clone());
        way
    }

    fn by_way(&mut self, moved: &Moved, way: &Way, value: OpId) -> OpId {
        let operator = self.operator;
        match (way, moved.kind) {
            (Way::Staged, _) => self.staged(moved, value),
            (Way::InTurn, _) => self.in_turn(value, moved.axes()),
            (Way::Multiport(all), CollectiveKind::AllGather) => all.all_gather(self.builder, value),
            (Way::Multiport(all), CollectiveKind::ReduceScatter) => all.reduce_scatter(self.builder, value, operator),
            (Way::Multiport(all), CollectiveKind::AllReduce) => all.all_reduce(self.builder, value, operator),
            (Way::Multiport(all), CollectiveKind::AllToAll) => match moved.to {
                Some(to) => all.all_to_all(self.builder, value, to),
                None => value,
            },
            (Way::Quad(rings), CollectiveKind::AllGather) => rings.all_gather(self.builder, value),
            (Way::Quad(rings), CollectiveKind::ReduceScatter) => rings.reduce_scatter(self.builder, value, operator),
            (Way::Quad(rings), CollectiveKind::AllReduce) => rings.all_reduce(self.builder, value, operator),
            (Way::Borrowed(both), CollectiveKind::AllGather) => match moved.on().next() {
                Some((dim, _)) => both.all_gather(self.builder, value, dim),
                None => value,
            },
            (Way::Packed(trees), CollectiveKind::AllGather) => trees.all_gather(self.builder, value),
            (Way::Packed(trees), CollectiveKind::ReduceScatter) => trees.reduce_scatter(self.builder, value, operator),
            (Way::Packed(trees), CollectiveKind::AllReduce) => trees.all_reduce(self.builder, value, operator),
            (
                Way::Multiport(_) | Way::Quad(_) | Way::Packed(_),
                CollectiveKind::Permute | CollectiveKind::Broadcast | CollectiveKind::Slice | CollectiveKind::Open,
            )
            | (Way::Quad(_) | Way::Packed(_), CollectiveKind::AllToAll)
            | (Way::Borrowed(_), _) => value,
        }
    }
}

impl Moved {
    /// All axes, dim after dim.
    pub(super) fn axes(&self) -> Axes {
        self.dims.iter().fold(Axes::NONE, |all, axes| all.then(*axes))
    }

    /// The dims on which there are axes.
    pub(super) fn on(&self) -> impl Iterator<Item = (usize, Axes)> + '_ {
        self.dims.iter().copied().enumerate().filter(|(_, axes)| !axes.is_empty())
    }

    /// The runs of two devices or more, with their dims; major first on each.
    pub(super) fn runs(&self, mesh: &Mesh) -> Vec<(Axes, usize)> {
        let runs = |on: Axes| self.to.map_or_else(|| mesh.runs(on), |to| to.runs(mesh, on));
        let on_dims = self.dims.iter().zip(0..).flat_map(|(on, dim)| runs(*on).into_iter().map(move |run| (run, dim)));
        on_dims.filter(|(run, _)| run.group_size(mesh) > 1).collect()
    }
}

/// One collective by all its ways, on the axes that take part.
struct Contest<'k> {
    part: Topology,
    topology: &'k Topology,
    lowering: Lowering,
    trees: &'k mut HashMap<Moved, Option<Packed>>,
    /// With the axes of the whole machine.
    whole: &'k Moved,
    /// With the axes as they are numbered in the part.
    there: Moved,
    dtype: DType,
    extents: &'k [u64],
    operator: Operator,
    asked: Option<Method>,
}

impl<'k> Contest<'k> {
    fn new(lowerer: &'k mut Lowerer<'_>, key: &'k Several, operator: Operator) -> Contest<'k> {
        let (whole, dtype, extents, asked) = key;
        // The order after an exchange is numbered anew like the dims.
        let order = whole.to.map_or(Axes::NONE, |to| to.order);
        let (part, mut dims) =
            along(lowerer.topology, &[&whole.dims[..], &[order, whole.idle.unwrap_or(Axes::NONE)]].concat());
        let idle = dims.pop().filter(|idle| !idle.is_empty());
        let order = dims.pop().unwrap_or(Axes::NONE);
        let there = Moved { kind: whole.kind, dims, to: whole.to.map(|to| Destination { order, ..to }), idle };
        let Lowerer { topology, lowering, memory, .. } = lowerer;
        let (dtype, asked, trees) = (*dtype, *asked, &mut memory.trees);
        Contest { part, topology, lowering: *lowering, trees, whole, there, dtype, extents, operator, asked }
    }

    fn winner(mut self) -> Way {
        let asked = self.asked;
        if asked == Some(Method::QuadDirectionalRing) {
            return self.quad().map_or(Way::Staged, Way::Quad);
        }
        if asked == Some(Method::IdleAxis) {
            return self.borrowed().map_or(Way::Staged, Way::Borrowed);
        }
        let mut best: Option<(Time, Way)> = None;
        let mut keep = |found: Option<(Time, Way)>| {
            let found = found.filter(|(time, _)| best.as_ref().is_none_or(|(least, _)| time < least));
            best = found.or_else(|| best.take());
            best.as_ref().map(|(least, _)| *least)
        };
        let mut least = None;
        if asked.is_none() {
            keep(self.timed(&Way::Staged));
            least = keep(self.in_turn());
        }
        if asked.is_none_or(|asked| asked == Method::Multiport) {
            least = keep(self.multiport());
        }
        if asked.is_none_or(|asked| asked == Method::TreePacking) {
            keep(self.packed(least));
        }
        best.map_or(Way::Staged, |(_, way)| way)
    }

    /// A whole sum over each axis: where hops take the time, these are as few as can be.
    fn in_turn(&self) -> Option<(Time, Way)> {
        let several = self.there.kind == CollectiveKind::AllReduce && self.runs().len() > 1;
        if several { self.timed(&Way::InTurn) } else { None }
    }

    fn runs(&self) -> Vec<(Axes, usize)> {
        self.whole.runs(&self.topology.mesh)
    }

    /// A gather along one run with the help of one that holds copies. It is not tried unasked: what runs a plan in JAX or
    /// NCCL has no such gather, and the axis may be busy with another collective.
    fn borrowed(&self) -> Option<Borrowed> {
        let ([(run, _)], [(there, _)]) = (&self.runs()[..], &self.there.runs(&self.part.mesh)[..]) else { return None };
        let way = idle::borrowed(self.topology, *run, self.whole.idle?)?;
        let idle = (self.there.idle?, way.idle.1);
        let in_chunks = |chunks| Way::Borrowed(Borrowed { run: (*there, way.run.1), idle, chunks, ..way });
        let longest = self.extents.iter().copied().max()?;
        let next = |chunks: u64| (chunks <= MOST_CHUNKS.min(longest)).then_some(chunks);
        let time = |chunks| Some(self.trial(&in_chunks(chunks))?.time);
        let chunks = more_chunks(LEAST_SAVING_AT_ONCE, next, time).map_or(1, |(_, chunks)| chunks);
        Some(Borrowed { chunks, ..way })
    }

    fn multiport(&self) -> Option<(Time, Way)> {
        let runs = self.runs();
        if runs.len() < 2 || !self.divides() {
            return None;
        }
        let axes: Vec<Axes> = runs.iter().map(|(run, _)| *run).collect();
        let (topology, kind) = (self.topology, self.whole.kind);
        let stage =
            |(run, dim): &(Axes, usize)| Stage { axes: *run, dim: *dim, method: stage_method(topology, kind, *run) };
        let exchange = kind == CollectiveKind::AllToAll;
        let colours = if exchange { turns(runs.len()) } else { colours(topology, &axes) };
        let whole = Multiport { stages: runs.iter().map(stage).collect(), colours, chunks: 1 };
        let numbered = self.there.runs(&self.part.mesh);
        let there = |chunks| {
            let stages = whole.stages.iter().zip(&numbered).map(|(stage, (run, _))| Stage { axes: *run, ..*stage });
            Way::Multiport(Multiport { stages: stages.collect(), chunks, ..whole.clone() })
        };
        // Links that are busy nearly all the time cannot be much busier.
        let done = Cell::new(false);
        let next = |chunks| (chunks <= MOST_CHUNKS && !done.get()).then_some(chunks);
        let time = |chunks| {
            let Trial { time, load } = self.trial(&there(chunks))?;
            done.set(time.ticks().saturating_sub(load.ticks()) <= load.ticks() / NEARLY_ALL);
            Some(time)
        };
        let (time, chunks) = more_chunks(LEAST_SAVING_AT_ONCE, next, time)?;
        Some((time, Way::Multiport(Multiport { chunks, ..whole })))
    }

    /// Around four rings, where there are two whole rings and nothing else. It is not tried unasked: all axes at once keep
    /// the links as busy in fewer hops.
    fn quad(&self) -> Option<Quad> {
        let [(first, _), (second, _)] = self.runs()[..] else { return None };
        let is_whole = |run: Axes| {
            let links = self.topology.links(run);
            links.wiring == Wiring::Ring && links.apart == 1
        };
        let fits = self.whole.kind != CollectiveKind::AllToAll && self.divides();
        (fits && is_whole(first) && is_whole(second))
            .then(|| Quad::new(&self.topology.mesh, [first, second], self.whole.dims.clone()))?
    }

    /// Whether all blocks that are scattered are equal.
    fn divides(&self) -> bool {
        let scattered = matches!(self.there.kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
        let fits = |(dim, axes): (usize, Axes)| {
            self.extents.get(dim).is_some_and(|extent| extent.is_multiple_of(axes.group_size(&self.part.mesh)))
        };
        !scattered || self.there.on().all(fits)
    }

    /// Along packed trees, if that is asked for, or if it can pay: where links are degraded, and for sums where the
    /// inner links of a line would be idle in turns. `least` is what the other ways take.
    fn packed(&mut self, least: Option<Time>) -> Option<(Time, Way)> {
        let runs = self.runs();
        let is_line = |(run, _): &(Axes, usize)| self.topology.links(*run).wiring == Wiring::Line;
        let idle_in_turns = self.there.kind == CollectiveKind::AllReduce && runs.len() > 1 && runs.iter().any(is_line);
        if self.extents.is_empty() || !(self.asked.is_some() || self.part.is_degraded() || idle_in_turns) {
            return None;
        }
        let (part, moved) = (&self.part, &self.there);
        let there = self.trees.entry(self.whole.clone()).or_insert_with(|| packing::packed(part, moved)).clone()?;
        let in_chunks = |chunks| Way::Packed(Packed { chunks, ..there.clone() });
        // What is too much for a link in one chunk is so in many.
        let load = self.trial(&in_chunks(1))?.load;
        if least.is_some_and(|least| load >= least) {
            return None;
        }
        let longest = packing::longest(&self.part.mesh, &self.there, self.extents);
        let next =
            |from: u64| (from..=packing::MOST_CHUNKS.min(longest)).find(|chunks| longest.is_multiple_of(*chunks));
        let (time, chunks) = more_chunks(LEAST_SAVING, next, |chunks| Some(self.timed(&in_chunks(chunks))?.0))?;
        let dims = self.whole.dims.clone();
        Some((time, Way::Packed(Packed { axes: self.whole.axes(), dims, chunks, ..there })))
    }

    fn timed(&self, way: &Way) -> Option<(Time, Way)> {
        Some((self.trial(way)?.time, way.clone()))
    }

    fn trial(&self, way: &Way) -> Option<Trial> {
        let mut lowerer = Lowerer::new(&self.part, self.lowering);
        simulate(&self.part, self.dtype, self.extents, |builder, input| {
            let builder = &mut builder.with_equal_copies(self.lowering.bitwise);
            let mut stages = Stages { lowerer: &mut lowerer, builder, method: None, operator: self.operator };
            stages.by_way(&self.there, way, input);
        })
    }
}

/// The method of one stage: on each wiring the one that keeps all links equally busy.
pub(super) fn stage_method(topology: &Topology, kind: CollectiveKind, run: Axes) -> Method {
    match (topology.links(run).wiring, kind) {
        (Wiring::Ring, CollectiveKind::AllToAll) => Method::DirectHalves,
        (Wiring::Switch, CollectiveKind::AllToAll) => Method::Direct,
        (Wiring::Ring, _) => Method::BalancedMeetInMiddleRing,
        (Wiring::Line, _) => Method::Line,
        (Wiring::Switch, _) => Method::OneHop,
    }
}
