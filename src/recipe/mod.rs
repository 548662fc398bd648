//! How one collective becomes operations: every choice made, and nothing left to decide.
//!
//! A [`Recipe`] is made once, by a [`Tuner`], which tries the candidates on the clock. Whoever prices the
//! collective takes the figures of its recipe, and lowering only emits it.

mod alone;
mod axis_orders;
mod candidates;
mod effort;
mod idle;
mod packing;
mod part;
mod permute;
mod problem;
mod routed;
mod trial;
mod tuner;
mod uneven;

pub use alone::{MethodTime, MethodTimes, alone, method_times};
pub(crate) use permute::sources;
pub use trial::{MOST_WORK, is_larger_than_proven};
pub use tuner::{Chosen, Flaw, Tuner};

use crate::collective::CollectiveKind;
use crate::function::Function;
use crate::mesh::{Axes, AxisId, AxisSet, Wiring};
use crate::operator::Operator;
use crate::schedule::methods::{self, Borrowed, Destination, Method, Multiport, Packed, Quad, Routed};
use crate::schedule::{Builder, CoordMap, Cut, OpId};

/// What the best is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Time; received bytes break ties.
    Time,
    /// The bytes that a device receives, of the one that receives most; what is computed, and of recipes their time,
    /// breaks ties.
    Bytes,
}

/// How collectives become operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// Leave an AllGather one operation.
    pub keep_all_gather: bool,
    /// Copies of a sum of floats are equal to the last bit: every device adds in the same order.
    pub bitwise: bool,
}

/// One collective, stage after stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// By which values of an open sum are combined.
    pub operator: Operator,
    /// Whether copies of a sum of floats are to be equal to the last bit.
    pub equal_copies: bool,
    /// What is done one after the other.
    pub stages: Vec<Stage>,
}

/// A stage of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Every element by itself: what stands before or after a combination.
    Map(Function),
    /// Shards are concatenated along one run.
    AllGather {
        /// The run.
        run: Axes,
        /// The dim on which it is.
        dim: usize,
        /// The method.
        method: Method,
    },
    /// The same as one operation.
    KeptGather {
        /// All axes of the dim that are gathered.
        axes: Axes,
        /// The dim on which they are.
        dim: usize,
    },
    /// Values are combined along one run, and each device keeps its block.
    ReduceScatter {
        /// The run.
        run: Axes,
        /// The dim that is scattered.
        dim: usize,
        /// The method.
        method: Method,
    },
    /// Values are combined along one run.
    AllReduce {
        /// The run.
        run: Axes,
        /// The method.
        method: Method,
        /// Number of chunks, for methods that pipeline them.
        chunks: u64,
    },
    /// Axes leave one dim for another.
    AllToAll {
        /// The runs as they stand before, each with its method.
        runs: Vec<(Axes, Method)>,
        /// The dim that they leave.
        from: usize,
        /// The dim that receives them, and their order there.
        to: Destination,
    },
    /// Axes leave one dim for another, all at once.
    AllToAllAtOnce {
        /// The axes as they stand before.
        axes: Axes,
        /// The dim that they leave.
        from: usize,
        /// The dim that receives them, and their order there.
        to: Destination,
    },
    /// The first device along one run gives what it has to the others.
    Broadcast {
        /// The run.
        run: Axes,
        /// How it is wired.
        wiring: Wiring,
        /// The method.
        method: Method,
        /// Number of chunks, for methods that pipeline them.
        chunks: u64,
    },
    /// All axes of a gather, a reduction or an exchange at once.
    Multiport {
        /// The collective.
        kind: CollectiveKind,
        /// Stages, axis orders and chunks.
        all: Multiport,
        /// Destination of an exchange; none for other collectives.
        to: Option<Destination>,
    },
    /// Around the rings through all devices of two axes.
    Quad {
        /// A gather or a reduction.
        kind: CollectiveKind,
        /// The two axes and the cycles through them.
        rings: Quad,
    },
    /// A gather along one run and one that holds copies.
    Borrowed {
        /// Both runs, their methods and the share of the borrowed one.
        both: Borrowed,
        /// The dim that is gathered.
        dim: usize,
    },
    /// A gather or a reduction along packed trees.
    Packed {
        /// The collective.
        kind: CollectiveKind,
        /// The trees, with their axes and chunks.
        trees: Packed,
    },
    /// A broadcast down packed trees.
    BroadcastPacked {
        /// All axes.
        axes: Axes,
        /// The parent of each device, and the weight of the tree.
        trees: Vec<(Vec<Option<usize>>, u64)>,
        /// How many chunks.
        chunks: u64,
    },
    /// A broadcast along several runs at once.
    BroadcastAtOnce {
        /// The runs, and which of them are rings; where devices share a node, those between nodes.
        runs: Vec<(Axes, bool)>,
        /// The run within a node.
        node: Option<Axes>,
        /// How many chunks.
        chunks: u64,
    },
    /// A combination in two parts: what can be scattered evenly, and what is left over.
    Split {
        /// The dim that is cut.
        dim: usize,
        /// So much of it is even.
        at: u64,
        /// Of the even part.
        even: Vec<Stage>,
        /// Of the rest.
        rest: Vec<Stage>,
    },
    /// Each piece goes along a tree of its own.
    Routed(Routed),
    /// Whole shards change places.
    Permute {
        /// The axes that span a group.
        axes: Vec<AxisId>,
        /// From which rank each rank receives.
        sources: Vec<Option<u32>>,
    },
    /// The first devices along these axes keep what they have, the others get zeros.
    Mask {
        /// The axes.
        axes: Vec<AxisId>,
    },
    /// Each device keeps its block.
    Slice {
        /// The axes that the dim gets.
        axes: Vec<AxisId>,
        /// The dim.
        dim: usize,
    },
}

impl Recipe {
    /// Adds the operations that turn a value into the result.
    pub fn emit(&self, builder: &mut Builder<'_>, value: OpId) -> OpId {
        emit(&self.stages, self.operator, &mut builder.with_equal_copies(self.equal_copies), value)
    }

    /// The axes that its stages may borrow since they hold copies, and perhaps others that take part.
    pub fn borrowed(&self) -> AxisSet {
        let of = |stage: &Stage| match stage {
            Stage::Borrowed { both, .. } => both.idle.0.set(),
            Stage::Routed(routed) => routed.axes.set(),
            _ => AxisSet::NONE,
        };
        self.stages.iter().map(of).fold(AxisSet::NONE, AxisSet::union)
    }

    /// The same where axes have other numbers.
    pub fn renumbered(&self, axis: &dyn Fn(AxisId) -> AxisId) -> Recipe {
        Recipe { stages: renumbered(&self.stages, axis), ..*self }
    }
}

fn emit(stages: &[Stage], operator: Operator, builder: &mut Builder<'_>, value: OpId) -> OpId {
    stages.iter().fold(value, |value, stage| stage.emit(operator, builder, value))
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
            Stage::Broadcast { run, wiring, method, chunks } => {
                methods::broadcast(builder, *method, *run, *wiring, value, *chunks)
            }
            Stage::Multiport { kind, all, to } => match (kind, to) {
                (CollectiveKind::AllGather, _) => all.all_gather(builder, value),
                (CollectiveKind::ReduceScatter, _) => all.reduce_scatter(builder, value, operator),
                (CollectiveKind::AllReduce, _) => all.all_reduce(builder, value, operator),
                (CollectiveKind::Broadcast, _) => all.broadcast(builder, value),
                (_, Some(to)) => all.all_to_all(builder, value, *to),
                (_, None) => value,
            },
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
            Stage::BroadcastPacked { axes, trees, chunks } => {
                methods::broadcast_packed(builder, *axes, trees, value, *chunks)
            }
            Stage::BroadcastAtOnce { runs, node: Some(node), chunks } => {
                methods::broadcast_over_nodes(builder, runs, *node, value, *chunks)
            }
            Stage::BroadcastAtOnce { runs, node: None, chunks } => {
                methods::broadcast_over(builder, runs, value, *chunks)
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
            Stage::Quad { rings, .. } => *rings = rings.renumbered(axis),
            Stage::Borrowed { both, .. } => {
                both.run.0 = run(&both.run.0);
                both.idle.0 = run(&both.idle.0);
            }
            Stage::Packed { trees, .. } => {
                trees.axes = run(&trees.axes);
                trees.dims.iter_mut().for_each(|axes| *axes = run(axes));
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
            Stage::Permute { axes, .. } | Stage::Mask { axes } | Stage::Slice { axes, .. } => *axes = list(axes),
        }
        stage
    }
}
