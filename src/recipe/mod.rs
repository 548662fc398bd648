//! Recipes: how a collective is lowered to operations.
//!
//! A [`Recipe`] is created once by a [`Tuner`], which times the candidates on the clock. Costs are taken from the recipe,
//! and lowering emits it.

mod alone;
mod around;
mod axis_orders;
mod candidates;
mod effort;
mod idle;
mod packing;
mod part;
mod permute;
mod problem;
mod quickest;
mod ragged;
mod ring_order;
mod routed;
mod trial;
mod tuner;
mod uneven;

pub use alone::{MethodTime, MethodTimes, alone, method_times};
pub(crate) use permute::sources;
pub use trial::{MOST_WORK, is_larger_than_proven, is_too_large, proven_if_large};
pub use tuner::{Chosen, Flaw, Tuner};

use crate::collective::CollectiveKind;
use crate::function::Function;
use crate::mesh::{Axes, AxisId, AxisSet, Wiring};
use crate::operator::Operator;
use crate::packing::Branch;
use crate::schedule::methods::{self, Borrowed, Destination, Method, Multiport, Packed, Quad, Routed, Translated};
use crate::schedule::{Builder, CoordMap, Cut, Detours, OpId};
use std::sync::Arc;

/// The objective of the tuner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Time; ties are broken by received bytes.
    Time,
    /// Bytes received by the device that receives the most; ties are broken by compute, and for recipes by time.
    Bytes,
}

/// Options of lowering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// Keep each AllGather as one operation.
    pub keep_all_gather: bool,
    /// Make replicas of floating-point sums bitwise equal: every device adds in the same order.
    pub bitwise: bool,
}

/// A lowered collective, stage by stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The operator of the open sum.
    pub operator: Operator,
    /// Whether replicas of floating-point sums must be bitwise equal.
    pub equal_copies: bool,
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// A stage of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An elementwise function before or after a combination.
    Map(Function),
    /// A gather along one run.
    AllGather {
        /// The run.
        run: Axes,
        /// The gathered dim.
        dim: usize,
        /// The method.
        method: Method,
    },
    /// A gather that is kept as one operation.
    KeptGather {
        /// All gathered axes of the dim.
        axes: Axes,
        /// The gathered dim.
        dim: usize,
    },
    /// A reduce-scatter along one run.
    ReduceScatter {
        /// The run.
        run: Axes,
        /// The dim that is scattered.
        dim: usize,
        /// The method.
        method: Method,
    },
    /// An all-reduce along one run.
    AllReduce {
        /// The run.
        run: Axes,
        /// The method.
        method: Method,
        /// Number of chunks, for pipelined methods.
        chunks: u64,
    },
    /// An exchange along several runs, one after the other.
    AllToAll {
        /// The runs in their order before the exchange, each with its method.
        runs: Vec<(Axes, Method)>,
        /// The source dim.
        from: usize,
        /// The target dim and the order of the axes there.
        to: Destination,
    },
    /// A direct exchange over all axes at once.
    AllToAllAtOnce {
        /// The axes in their order before the exchange.
        axes: Axes,
        /// The source dim.
        from: usize,
        /// The target dim and the order of the axes there.
        to: Destination,
    },
    /// A broadcast along one run.
    Broadcast {
        /// The run.
        run: Axes,
        /// Its wiring.
        wiring: Wiring,
        /// The method.
        method: Method,
        /// The rank of the device that has the value.
        root: u64,
        /// Number of chunks, for pipelined methods.
        chunks: u64,
    },
    /// A gather, a reduction or an exchange over all axes at once.
    Multiport {
        /// The collective.
        kind: CollectiveKind,
        /// Stages, axis orders and chunks.
        all: Multiport,
        /// Target of an exchange; `None` for other collectives.
        to: Option<Destination>,
    },
    /// A broadcast as a scatter and a gather over all axes at once.
    BroadcastScattered {
        /// Stages, axis orders and chunks.
        all: Multiport,
        /// The rank of the device that has the value along each stage.
        root: Vec<u64>,
    },
    /// A stage whose messages over weak links are split among the paths around them.
    Around {
        /// The links and their paths.
        detours: Detours,
        /// The stage.
        stage: Box<Stage>,
    },
    /// A collective along the Hamiltonian cycles of two axes.
    Quad {
        /// The kind: a gather or a reduction.
        kind: CollectiveKind,
        /// The axes and the cycles.
        rings: Quad,
    },
    /// A gather along one run and a run of replicas.
    Borrowed {
        /// Both runs, their methods, and the share of the idle one.
        both: Borrowed,
        /// The gathered dim.
        dim: usize,
    },
    /// A gather or a reduction along packed trees.
    Packed {
        /// The collective.
        kind: CollectiveKind,
        /// The trees, with their axes and chunks.
        trees: Packed,
    },
    /// A gather or a reduction along trees and their translations.
    Translated {
        /// The collective.
        kind: CollectiveKind,
        /// The translations and their axes.
        along: Translated,
        /// The tree from node 0 of each part.
        trees: Arc<Vec<Vec<Branch>>>,
    },
    /// An exchange along paths and their translations.
    TranslatedExchange {
        /// The translations and their axes.
        along: Translated,
        /// The path to each node, as steps.
        paths: Arc<Vec<Vec<usize>>>,
        /// Parts of each block.
        parts: u64,
        /// The target dim and the order of the axes there.
        to: Destination,
    },
    /// A broadcast along packed trees.
    BroadcastPacked {
        /// All axes.
        axes: Axes,
        /// The trees, as parents of each device, with weights.
        trees: Vec<(Vec<Option<usize>>, u64)>,
        /// Number of chunks.
        chunks: u64,
    },
    /// A broadcast along several runs at once.
    BroadcastAtOnce {
        /// The runs with their wiring; with nodes, those between nodes.
        runs: Vec<(Axes, Wiring)>,
        /// The run within a node.
        node: Option<Axes>,
        /// The rank of the device that has the value along the runs, and along the run within a node as the minor one.
        root: u64,
        /// Number of chunks.
        chunks: u64,
    },
    /// A sum in two parts: an evenly scattered one, and the remaining rows.
    Split {
        /// The split dim.
        dim: usize,
        /// Size of the even part.
        at: u64,
        /// Stages of the even part.
        even: Vec<Stage>,
        /// Stages of the rest.
        rest: Vec<Stage>,
    },
    /// A routed move: each piece along its own tree.
    Routed(Routed),
    /// A permutation of whole shards.
    Permute {
        /// The axes of a group.
        axes: Vec<AxisId>,
        /// The source of each rank.
        sources: Vec<Option<u32>>,
    },
    /// A shift along a dim, from neighbours.
    Shift(methods::Shifted),
    /// Keeps the blocks of the first devices along the axes, with zeros on the others.
    Mask {
        /// The axes.
        axes: Vec<AxisId>,
    },
    /// Keeps the own part of the block.
    Slice {
        /// The new axes of the dim.
        axes: Vec<AxisId>,
        /// The dim.
        dim: usize,
    },
}

impl Recipe {
    /// Whether a gather is one operation, without messages.
    pub fn keeps_gathers(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::KeptGather { .. }))
    }

    /// Emits the operations that turn a value into the result.
    pub fn emit(&self, builder: &mut Builder<'_>, value: OpId) -> OpId {
        emit(&self.stages, self.operator, &mut builder.with_equal_copies(self.equal_copies), value)
    }

    /// The axes of replicas that its stages may use, and possibly other axes that take part.
    pub fn borrowed(&self) -> AxisSet {
        borrowed(&self.stages)
    }

    /// The recipe with renumbered axes.
    pub fn renumbered(&self, axis: &dyn Fn(AxisId) -> AxisId) -> Recipe {
        Recipe { stages: renumbered(&self.stages, axis), ..*self }
    }
}

fn emit(stages: &[Stage], operator: Operator, builder: &mut Builder<'_>, value: OpId) -> OpId {
    stages.iter().fold(value, |value, stage| stage.emit(operator, builder, value))
}

fn borrowed(stages: &[Stage]) -> AxisSet {
    let of = |stage: &Stage| match stage {
        Stage::Borrowed { both, .. } => both.idle.0.set(),
        Stage::Slice { axes, .. } => axes.iter().copied().collect(),
        Stage::Routed(routed) => routed.axes.set(),
        Stage::Split { even, rest, .. } => borrowed(even).union(borrowed(rest)),
        Stage::Around { stage, .. } => borrowed(std::slice::from_ref(stage)),
        // Without replicas and without stages of their own.
        Stage::Map(_)
        | Stage::AllGather { .. }
        | Stage::KeptGather { .. }
        | Stage::ReduceScatter { .. }
        | Stage::AllReduce { .. }
        | Stage::Broadcast { .. }
        | Stage::BroadcastPacked { .. }
        | Stage::AllToAll { .. }
        | Stage::AllToAllAtOnce { .. }
        | Stage::Multiport { .. }
        | Stage::BroadcastScattered { .. }
        | Stage::Quad { .. }
        | Stage::Packed { .. }
        | Stage::Translated { .. }
        | Stage::TranslatedExchange { .. }
        | Stage::BroadcastAtOnce { .. }
        | Stage::Permute { .. }
        | Stage::Shift(_)
        | Stage::Mask { .. } => AxisSet::NONE,
    };
    stages.iter().map(of).fold(AxisSet::NONE, AxisSet::union)
}

fn renumbered(stages: &[Stage], axis: &dyn Fn(AxisId) -> AxisId) -> Vec<Stage> {
    stages.iter().map(|stage| stage.renumbered(axis)).collect()
}

impl Stage {
    fn emit(&self, operator: Operator, builder: &mut Builder<'_>, value: OpId) -> OpId {
        match self {
            Stage::Map(function) => builder.map_each(*function, value),
            Stage::AllGather { run, dim, method } => methods::all_gather(builder, *method, *run, value, *dim),
            Stage::KeptGather { axes, dim } => builder.all_gather_kept(axes.iter().collect(), value, *dim),
            Stage::ReduceScatter { run, dim, method } => {
                methods::reduce_scatter(builder, *method, *run, value, *dim, operator)
            }
            Stage::AllReduce { run, method, chunks } => {
                methods::all_reduce_in_chunks(builder, *method, *run, value, operator, *chunks)
            }
            Stage::AllToAll { runs, from, to } => methods::all_to_all_over(builder, runs, value, *from, *to),
            Stage::AllToAllAtOnce { axes, from, to } => methods::all_to_all_at_once(builder, *axes, value, *from, *to),
            Stage::Broadcast { run, wiring, method, root, chunks } => {
                methods::broadcast(builder, *method, (*run, *wiring), *root, value, *chunks)
            }
            Stage::Multiport { kind, all, to } => match (kind, to) {
                (CollectiveKind::AllGather, _) => all.all_gather(builder, value),
                (CollectiveKind::ReduceScatter, _) => all.reduce_scatter(builder, value, operator),
                (CollectiveKind::AllReduce, _) => all.all_reduce(builder, value, operator),
                (_, Some(to)) => all.all_to_all(builder, value, *to),
                (_, None) => value,
            },
            Stage::BroadcastScattered { all, root } => all.broadcast(builder, root, value),
            Stage::Around { detours, stage } => {
                let first = builder.count();
                let mut result = stage.emit(operator, &mut builder.around(detours), value);
                builder.list_by_start(first, [&mut result]);
                result
            }
            Stage::Quad { kind, rings } => match kind {
                CollectiveKind::AllGather => rings.all_gather(builder, value),
                CollectiveKind::ReduceScatter => rings.reduce_scatter(builder, value, operator),
                _ => rings.all_reduce(builder, value, operator),
            },
            Stage::Borrowed { both, dim } => both.all_gather(builder, value, *dim),
            Stage::Packed { kind, trees } => match kind {
                CollectiveKind::AllGather => trees.all_gather(builder, value),
                CollectiveKind::ReduceScatter => trees.reduce_scatter(builder, value, operator),
                _ => trees.all_reduce(builder, value, operator),
            },
            Stage::Translated { kind, along, trees } => match kind {
                CollectiveKind::AllGather => along.all_gather(builder, value, trees),
                CollectiveKind::ReduceScatter => along.reduce_scatter(builder, value, operator, trees),
                _ => along.all_reduce(builder, value, operator, trees),
            },
            Stage::TranslatedExchange { along, paths, parts, to } => {
                along.all_to_all(builder, value, (paths, *parts), *to)
            }
            Stage::BroadcastPacked { axes, trees, chunks } => {
                methods::broadcast_packed(builder, *axes, trees, value, *chunks)
            }
            Stage::BroadcastAtOnce { runs, node: Some(node), root, chunks } => {
                methods::broadcast_over_nodes(builder, runs, *node, *root, value, *chunks)
            }
            Stage::BroadcastAtOnce { runs, node: None, root, chunks } => {
                methods::broadcast_over(builder, runs, *root, value, *chunks)
            }
            Stage::Split { dim, at, even, rest } => {
                let extents = builder.extents(value).to_vec();
                let parts = [(0..*at, even), (*at..extents[*dim], rest)].map(|(range, stages)| {
                    let part = builder.slice_range(value, *dim, range.clone());
                    let mut region = vec![Cut::Whole; extents.len()];
                    region[*dim] = Cut::Range { start: range.start, end: range.end };
                    (emit(stages, operator, builder, part), region)
                });
                builder.assemble(extents.clone(), extents, parts.to_vec())
            }
            Stage::Routed(routed) => routed.emit(builder, value),
            Stage::Permute { axes, sources } => methods::permute(builder, axes.clone(), value, sources.clone()),
            Stage::Shift(shifted) => shifted.emit(builder, value),
            Stage::Mask { axes } => builder.mask(value, axes.clone()),
            Stage::Slice { axes, dim } => {
                let mesh = builder.mesh();
                let (count, rank) = (mesh.group_size(axes.iter().copied()), CoordMap::rank(mesh, axes));
                builder.slice_block(value, *dim, count, rank)
            }
        }
    }

    fn renumbered(&self, axis: &dyn Fn(AxisId) -> AxisId) -> Stage {
        let list = |axes: &[AxisId]| axes.iter().map(|id| axis(*id)).collect();
        let run = |run: &Axes| -> Axes { run.iter().map(axis).collect() };
        let goes = |to: &Destination| Destination { order: run(&to.order), ..*to };
        let mut stage = self.clone();
        match &mut stage {
            Stage::Map(_) => {}
            Stage::AllGather { run: axes, .. }
            | Stage::KeptGather { axes, .. }
            | Stage::ReduceScatter { run: axes, .. }
            | Stage::AllReduce { run: axes, .. }
            | Stage::Broadcast { run: axes, .. }
            | Stage::BroadcastPacked { axes, .. } => *axes = run(axes),
            Stage::AllToAll { runs, to, .. } => {
                runs.iter_mut().for_each(|(axes, _)| *axes = run(axes));
                *to = goes(to);
            }
            Stage::AllToAllAtOnce { axes, to, .. } => {
                *axes = run(axes);
                *to = goes(to);
            }
            Stage::Multiport { all, to, .. } => {
                all.stages.iter_mut().for_each(|stage| stage.axes = run(&stage.axes));
                *to = to.as_ref().map(goes);
            }
            Stage::BroadcastScattered { all, .. } => {
                all.stages.iter_mut().for_each(|stage| stage.axes = run(&stage.axes));
            }
            Stage::Around { detours, stage } => {
                *detours = detours.renumbered(axis);
                **stage = stage.renumbered(axis);
            }
            Stage::Quad { rings, .. } => *rings = rings.renumbered(axis),
            Stage::Borrowed { both, .. } => {
                both.run.0 = run(&both.run.0);
                both.idle.0 = run(&both.idle.0);
            }
            Stage::Packed { trees, .. } => {
                trees.axes = run(&trees.axes);
                trees.dims.iter_mut().for_each(|axes| *axes = run(axes));
            }
            Stage::Translated { along, .. } => {
                along.axes = run(&along.axes);
                along.dims.iter_mut().for_each(|axes| *axes = run(axes));
            }
            Stage::TranslatedExchange { along, to, .. } => {
                along.axes = run(&along.axes);
                along.dims.iter_mut().for_each(|axes| *axes = run(axes));
                *to = goes(to);
            }
            Stage::BroadcastAtOnce { runs, node, .. } => {
                runs.iter_mut().for_each(|(axes, _)| *axes = run(axes));
                *node = node.as_ref().map(run);
            }
            Stage::Split { even, rest, .. } => {
                *even = renumbered(even, axis);
                *rest = renumbered(rest, axis);
            }
            Stage::Routed(routed) => {
                routed.axes = run(&routed.axes);
                routed.before.iter_mut().chain(&mut routed.after).for_each(|axes| *axes = run(axes));
            }
            Stage::Shift(shifted) => shifted.axes = run(&shifted.axes),
            Stage::Permute { axes, .. } | Stage::Mask { axes } | Stage::Slice { axes, .. } => *axes = list(axes),
        }
        stage
    }
}
