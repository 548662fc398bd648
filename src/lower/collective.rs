//! One collective as operations: stage by stage over its axes, each stage by a method on one axis or on neighbouring
//! parts of one.

use super::Lowering;
use super::auto::{along, fastest, simulate_below};
use super::broadcast::{self, Broadcast};
use super::effort;
use super::idle;
use super::permute;
use super::several::{Moved, Several, Way};
use super::uneven::Uneven;
use crate::collective::{Collective, CollectiveKind};
use crate::dtype::DType;
use crate::function::{Function, Unary};
use crate::layout::Layout;
use crate::mesh::{Axes, AxisId, Wiring};
use crate::operator::Operator;
use crate::schedule::methods::{self, Destination, Method, Packed};
use crate::schedule::{Builder, CoordMap, OpId};
use crate::topology::Topology;
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::HashMap;

/// What decides the method of a stage: its kind, the run of axes, the block it starts from, and what can be chosen from.
type Stage = (CollectiveKind, Axes, DType, Vec<u64>, Vec<Method>);

/// What was found out about one machine; it stays true for whoever lowers on that machine next.
#[derive(Debug, Default)]
pub struct Memory {
    chosen: HashMap<Stage, (Method, u64)>,
    /// The best way over all axes of a collective.
    pub(super) several: HashMap<Several, Way>,
    /// How broadcasts are done.
    pub(super) broadcasts: HashMap<Broadcast, broadcast::Way>,
    /// Whether a sum that cannot be scattered evenly is done in two parts.
    pub(super) uneven: HashMap<Uneven, bool>,
    /// The trees of a collective, whatever it moves; none where they cannot be packed.
    pub(super) trees: HashMap<Moved, Option<Packed>>,
}

/// Lowers collectives and remembers which method was best for which stage.
#[derive(Debug)]
pub struct Lowerer<'a> {
    pub(super) topology: &'a Topology,
    pub(super) lowering: Lowering,
    pub(super) memory: Memory,
    /// Whether neither several axes at once nor chunks are to be tried, unless asked for.
    pub(super) frugal: bool,
    /// The first stage that could not be done.
    pub(super) flaw: Option<StageFlaw>,
}

/// Why a stage cannot be done.
#[derive(Clone, Debug)]
pub(super) enum StageFlaw {
    /// Not by the method asked for.
    Method(MethodFlaw),
    /// Every method has more operations than can be proven.
    TooLarge { kind: CollectiveKind, axis: String, size: u64 },
}

/// A stage that cannot be done by the method asked for.
#[derive(Clone, Debug)]
pub(super) struct MethodFlaw {
    pub(super) method: Method,
    pub(super) kind: CollectiveKind,
    pub(super) axis: String,
    pub(super) wiring: Wiring,
    pub(super) size: u64,
    pub(super) candidates: Vec<Method>,
}

impl<'a> Lowerer<'a> {
    /// A lowerer for this machine.
    pub fn new(topology: &'a Topology, lowering: Lowering) -> Lowerer<'a> {
        Lowerer::with(topology, lowering, Memory::default())
    }

    /// One that goes on from what another found out, on the same machine and with the same options.
    pub fn with(topology: &'a Topology, lowering: Lowering, memory: Memory) -> Lowerer<'a> {
        Lowerer { topology, lowering, memory, frugal: false, flaw: None }
    }

    /// What was found out.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// One that makes few operations.
    pub(super) fn frugal(topology: &'a Topology, lowering: Lowering) -> Lowerer<'a> {
        Lowerer { frugal: true, ..Lowerer::new(topology, lowering) }
    }

    /// Whether every stage so far could be done, by the method that was asked for if one was.
    pub fn applies(&self) -> bool {
        self.flaw.is_none()
    }

    /// Whether a stage so far has more operations than can be proven, by every method.
    pub fn is_too_large(&self) -> bool {
        matches!(self.flaw, Some(StageFlaw::TooLarge { .. }))
    }

    /// Adds the operations that turn a value of layout `from` into the collective's result.
    ///
    /// With a `method` every stage that it can do is done by it; else each takes the one that is simulated fastest.
    pub fn collective(
        &mut self,
        builder: &mut Builder<'_>,
        collective: &Collective,
        from: &Layout,
        value: OpId,
        method: Option<Method>,
    ) -> OpId {
        let builder = &mut builder.with_equal_copies(self.lowering.bitwise);
        let operator = from.sharding.operator;
        let reduced = match collective {
            Collective::AllReduce { axes } => Some(axes.group_size(builder.mesh())),
            Collective::ReduceScatter { .. } => {
                Some(collective.axes(&from.sharding, builder.mesh()).group_size(builder.mesh()))
            }
            Collective::AllGather { .. }
            | Collective::AllToAll { .. }
            | Collective::Permute { .. }
            | Collective::Broadcast { .. }
            | Collective::Slice { .. }
            | Collective::Open { .. } => None,
        };
        let value = match reduced {
            Some(_) if operator == Operator::SquareAdd => builder.map_each(Function::Unary(Unary::Square), value),
            Some(_) | None => value,
        };
        let value = self.moved(builder, collective, from, value, method);
        match reduced {
            Some(group) if operator == Operator::Mean && group > 1 => builder.map_each(Function::Over(group), value),
            Some(_) | None => value,
        }
    }

    /// The same between the map before and the finish after.
    fn moved(
        &mut self,
        builder: &mut Builder<'_>,
        collective: &Collective,
        from: &Layout,
        value: OpId,
        method: Option<Method>,
    ) -> OpId {
        let operator = from.sharding.operator.combiner();
        let mut stages = Stages { lowerer: self, builder, method, operator };
        match collective {
            Collective::AllGather { axes } => {
                let gathered = |on: &Axes| -> Axes { on.iter().filter(|axis| axes.contains(*axis)).collect() };
                let dims = from.sharding.dims.iter().map(gathered).collect();
                let idle = match method {
                    Some(Method::IdleAxis) => idle::fastest(stages.lowerer.topology, &from.sharding),
                    Some(_) | None => None,
                };
                let moved = Moved { kind: CollectiveKind::AllGather, dims, to: None, idle };
                if stages.lowerer.lowering.keep_all_gather {
                    return stages.staged(&moved, value);
                }
                stages.over_axes(&moved, value)
            }
            Collective::ReduceScatter { dims } => {
                let moved = Moved { kind: CollectiveKind::ReduceScatter, dims: dims.clone(), to: None, idle: None };
                stages.over_axes(&moved, value)
            }
            Collective::AllReduce { axes } => stages.all_reduce(value, axes.in_order()),
            Collective::AllToAll { axes, from: source, to } => {
                let leaving = from.sharding.dims[*source].iter().filter(|axis| axes.contains(*axis)).collect();
                let to = Some(Destination { dim: *to, order: *axes });
                let moved = Moved { kind: CollectiveKind::AllToAll, dims: on_dim(leaving, *source), to, idle: None };
                stages.over_axes(&moved, value)
            }
            Collective::Permute { to } => {
                let axes: Vec<AxisId> = collective.axes(&from.sharding, stages.builder.mesh()).iter().collect();
                let sources = permute::sources(&from.sharding, to, &axes, stages.builder.mesh());
                methods::permute(stages.builder, axes, value, sources)
            }
            Collective::Broadcast { axes } => stages.broadcast(value, axes.in_order()),
            Collective::Open { axes } => stages.builder.mask(value, axes.iter().collect()),
            Collective::Slice { axes, dim } => {
                let axes: Vec<AxisId> = axes.iter().collect();
                let mesh = stages.builder.mesh();
                let (count, rank) = (mesh.group_size(axes.iter().copied()), CoordMap::rank(mesh, &axes));
                stages.builder.slice_block(value, *dim, count, rank)
            }
        }
    }
}

pub(super) struct Stages<'l, 'a, 'b, 's> {
    pub(super) lowerer: &'l mut Lowerer<'a>,
    pub(super) builder: &'b mut Builder<'s>,
    pub(super) method: Option<Method>,
    pub(super) operator: Operator,
}

impl Stages<'_, '_, '_, '_> {
    /// Stage by stage over the axes of each dim.
    pub(super) fn staged(&mut self, moved: &Moved, value: OpId) -> OpId {
        moved.on().fold(value, |value, (dim, axes)| match moved.kind {
            CollectiveKind::AllGather => self.gather_dim(value, axes, dim),
            CollectiveKind::ReduceScatter => self.staged_scatter(value, axes, dim),
            CollectiveKind::AllReduce => self.staged_reduce(value, axes, dim),
            CollectiveKind::AllToAll => match moved.to {
                Some(to) => self.staged_exchange(value, axes, dim, to),
                None => value,
            },
            CollectiveKind::Permute | CollectiveKind::Broadcast | CollectiveKind::Slice | CollectiveKind::Open => value,
        })
    }

    /// Minor run first: then each stage concatenates what lies side by side.
    fn gather_dim(&mut self, value: OpId, axes: Axes, dim: usize) -> OpId {
        // A gather kept as one takes the time of a closed form, which knows only links that are alike.
        let alike = !self.lowerer.topology.is_degraded();
        if self.lowerer.lowering.keep_all_gather && alike && !axes.is_empty() {
            return self.builder.all_gather_kept(axes.iter().collect(), value, dim);
        }
        self.runs(axes).into_iter().rev().fold(value, |value, run| {
            let method = self.method(CollectiveKind::AllGather, run, value, |builder, method, run, value| {
                methods::all_gather(builder, method, run, value, dim)
            });
            method.map_or(value, |method| methods::all_gather(self.builder, method, run, value, dim))
        })
    }

    /// Major run first, the reverse of the gather.
    fn staged_scatter(&mut self, value: OpId, axes: Axes, dim: usize) -> OpId {
        let operator = self.operator;
        self.runs(axes).into_iter().fold(value, |value, run| {
            let method = self.method(CollectiveKind::ReduceScatter, run, value, |builder, method, run, value| {
                methods::reduce_scatter(builder, method, run, value, dim, operator)
            });
            method.map_or(value, |method| methods::reduce_scatter(self.builder, method, run, value, dim, operator))
        })
    }

    /// Over all axes at once, or over one after the other; scattered along a dim that divides, if there is one.
    pub(super) fn evenly(&mut self, value: OpId, axes: Axes) -> OpId {
        // In any order the gather undoes the scatter: what is left for slow links should be little.
        let topology = self.lowerer.topology;
        let runs = self.runs(axes).into_iter().sorted_by_key(|run| Reverse(idle::into(topology, *run)));
        let axes: Axes = runs.flat_map(|run| run.iter()).collect();
        let n = axes.group_size(self.builder.mesh());
        let dim = self.builder.extents(value).iter().position(|extent| extent.is_multiple_of(n)).unwrap_or(0);
        let moved = |kind| Moved { kind, dims: on_dim(axes, dim), to: None, idle: None };
        if self.lowerer.lowering.keep_all_gather && self.scatters(value, axes, dim) {
            let part = self.over_axes(&moved(CollectiveKind::ReduceScatter), value);
            return self.gather_dim(part, axes, dim);
        }
        self.over_axes(&moved(CollectiveKind::AllReduce), value)
    }

    /// Whether a sum over these axes can be scattered along a dim, and there is more than one stage to it.
    fn scatters(&self, value: OpId, axes: Axes, dim: usize) -> bool {
        let n = axes.group_size(self.builder.mesh());
        self.builder.extents(value).get(dim).is_some_and(|extent| extent.is_multiple_of(n)) && self.runs(axes).len() > 1
    }

    /// A scatter over all axes, then a gather; where that cannot be, one axis after the other.
    fn staged_reduce(&mut self, value: OpId, axes: Axes, dim: usize) -> OpId {
        if !self.scatters(value, axes, dim) {
            return self.in_turn(value, axes);
        }
        let part = self.staged_scatter(value, axes, dim);
        self.gather_dim(part, axes, dim)
    }

    /// A whole sum over each run.
    pub(super) fn in_turn(&mut self, value: OpId, axes: Axes) -> OpId {
        let operator = self.operator;
        self.runs(axes).into_iter().fold(value, |value, run| {
            let build = |builder: &mut Builder<'_>, (method, chunks), run: Axes, value| {
                methods::all_reduce_in_chunks(builder, method, run, value, operator, chunks)
            };
            let way = self.way(CollectiveKind::AllReduce, run, value, build);
            way.map_or(value, |way| build(self.builder, way, run, value))
        })
    }

    /// Run by run, the minor one first.
    fn staged_exchange(&mut self, value: OpId, axes: Axes, from: usize, to: Destination) -> OpId {
        let stages: Vec<(Axes, Method)> = to
            .runs(self.builder.mesh(), axes)
            .into_iter()
            .filter_map(|run| {
                let method = self.method(CollectiveKind::AllToAll, run, value, |builder, method, run, value| {
                    methods::all_to_all(builder, method, run, value, from, to.dim)
                });
                method.map(|method| (run, method))
            })
            .collect();
        methods::all_to_all_over(self.builder, &stages, value, from, to)
    }

    /// Lists of axes go by runs: neighbouring parts of an axis are one ring or line again.
    pub(super) fn runs(&self, axes: Axes) -> Vec<Axes> {
        self.builder.mesh().runs(axes)
    }

    /// The method of one stage; none on an axis of one device.
    fn method(
        &mut self,
        kind: CollectiveKind,
        run: Axes,
        value: OpId,
        build: impl Fn(&mut Builder<'_>, Method, Axes, OpId) -> OpId,
    ) -> Option<Method> {
        let way = self.way(kind, run, value, |builder, (method, _), run, value| build(builder, method, run, value));
        way.map(|(method, _)| method)
    }

    /// The method of one stage and its number of chunks.
    fn way(
        &mut self,
        kind: CollectiveKind,
        run: Axes,
        value: OpId,
        build: impl Fn(&mut Builder<'_>, (Method, u64), Axes, OpId) -> OpId,
    ) -> Option<(Method, u64)> {
        let topology = self.lowerer.topology;
        let (wiring, size) = (topology.links(run).wiring, run.group_size(&topology.mesh));
        let mut candidates = methods::candidates(kind, wiring, size);
        // What a group has together may be too much for each device to send all it has to all others.
        let elements = self.builder.extents(value).iter().fold(size, |all, extent| all.saturating_mul(*extent));
        let bytes = elements.saturating_mul(self.builder.dtype(value).size());
        if topology.hardware.broadcast_limit.is_some_and(|limit| bytes > limit.0) {
            candidates.retain(|method| !matches!(method, Method::Broadcast | Method::LineBroadcast));
        }
        if let Some(method) = self.method {
            if candidates.contains(&method) {
                candidates = vec![method];
            } else {
                let axis = run.names(&topology.mesh);
                let flaw = MethodFlaw { method, kind, axis, wiring, size, candidates: candidates.clone() };
                self.lowerer.flaw.get_or_insert(StageFlaw::Method(flaw));
            }
        }
        if !candidates.is_empty() {
            candidates.retain(|method| !effort::is_too_large(topology, kind, run, *method));
            if candidates.is_empty() {
                let flaw = StageFlaw::TooLarge { kind, axis: run.names(&topology.mesh), size };
                self.lowerer.flaw.get_or_insert(flaw);
                return None;
            }
        }
        if self.method.is_none() {
            candidates.retain(|method| !(self.lowerer.frugal && method.in_chunks()));
        }
        let (dtype, extents) = (self.builder.dtype(value), self.builder.extents(value).to_vec());
        let stage = (kind, run, dtype, extents, candidates);
        if let Some(known) = self.lowerer.memory.chosen.get(&stage) {
            return Some(*known);
        }
        let (part, runs) = along(topology, &[run]);
        let bitwise = self.lowerer.lowering.bitwise;
        let time = |method, chunks, limit| {
            simulate_below(&part, dtype, &stage.3, limit, |builder, input| {
                build(&mut builder.with_equal_copies(bitwise), (method, chunks), runs[0], input);
            })
        };
        // Where none can be tried on the clock, the usual one.
        let best = fastest(&stage.4, &stage.3, time).or_else(|| Some((*stage.4.first()?, 1)))?;
        self.lowerer.memory.chosen.insert(stage, best);
        Some(best)
    }
}

/// These axes on this dim, and none before.
fn on_dim(axes: Axes, dim: usize) -> Vec<Axes> {
    let mut dims = vec![Axes::NONE; dim + 1];
    dims[dim] = axes;
    dims
}
