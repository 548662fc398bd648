//! One collective as operations: stage by stage over its axes, each stage by a method on one axis.

use super::Lowering;
use super::auto::{fastest, simulate};
use super::permute;
use crate::collective::{Collective, CollectiveKind};
use crate::dtype::DType;
use crate::function::Function;
use crate::layout::Layout;
use crate::mesh::{Axes, AxisId, Wiring};
use crate::operator::Operator;
use crate::schedule::methods::{self, Method};
use crate::schedule::{Builder, CoordMap, OpId};
use crate::topology::Topology;
use std::collections::HashMap;

/// What decides the method of a stage: its kind, the axis, and the block it starts from.
type Stage = (CollectiveKind, AxisId, DType, Vec<u64>);

/// Lowers collectives and remembers which method was best for which stage.
#[derive(Debug)]
pub struct Lowerer<'a> {
    topology: &'a Topology,
    lowering: Lowering,
    chosen: HashMap<Stage, Method>,
    /// The first stage that could not be done by the method asked for.
    pub(super) flaw: Option<MethodFlaw>,
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
        Lowerer { topology, lowering, chosen: HashMap::new(), flaw: None }
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
        let operator = from.sharding.operator;
        let reduced = match collective {
            Collective::AllReduce { axes } => Some(axes.group_size(builder.mesh())),
            Collective::ReduceScatter { axes, .. } => Some(axes.group_size(builder.mesh())),
            Collective::AllGather { .. }
            | Collective::AllToAll { .. }
            | Collective::Permute { .. }
            | Collective::Slice { .. } => None,
        };
        let value = match reduced {
            Some(_) if operator == Operator::SquareAdd => builder.map_each(Function::Square, value),
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
                let dims = from.sharding.dims.iter().map(gathered).enumerate();
                dims.fold(value, |value, (dim, axes)| stages.all_gather(value, axes, dim))
            }
            Collective::ReduceScatter { axes, dim } => stages.reduce_scatter(value, *axes, *dim),
            Collective::AllReduce { axes } => stages.all_reduce(value, axes.in_order()),
            Collective::AllToAll { axes, from, to } => stages.all_to_all(value, *axes, *from, *to),
            Collective::Permute { to } => {
                let axes: Vec<AxisId> = collective.axes(&from.sharding).iter().collect();
                let sources = permute::sources(&from.sharding, to, &axes, stages.builder.mesh());
                methods::permute(stages.builder, axes, value, sources)
            }
            Collective::Slice { axes, dim } => {
                let axes: Vec<AxisId> = axes.iter().collect();
                let mesh = stages.builder.mesh();
                let (count, rank) = (mesh.group_size(axes.iter().copied()), CoordMap::rank(mesh, &axes));
                stages.builder.slice_block(value, *dim, count, rank)
            }
        }
    }
}

struct Stages<'l, 'a, 'b, 's> {
    lowerer: &'l mut Lowerer<'a>,
    builder: &'b mut Builder<'s>,
    method: Option<Method>,
    operator: Operator,
}

impl Stages<'_, '_, '_, '_> {
    /// Minor axis first: then each stage concatenates what lies side by side.
    fn all_gather(&mut self, value: OpId, axes: Axes, dim: usize) -> OpId {
        // A gather kept as one takes the time of a closed form, which knows only links that are alike.
        let alike = !self.lowerer.topology.is_degraded();
        if self.lowerer.lowering.keep_all_gather && alike && !axes.is_empty() {
            return self.builder.all_gather_kept(axes.iter().collect(), value, dim);
        }
        axes.iter().rev().fold(value, |value, axis| {
            let method = self.method(CollectiveKind::AllGather, axis, value, |builder, method, axis, value| {
                methods::all_gather(builder, method, axis, value, dim)
            });
            method.map_or(value, |method| methods::all_gather(self.builder, method, axis, value, dim))
        })
    }

    /// Major axis first, the reverse of the gather.
    fn reduce_scatter(&mut self, value: OpId, axes: Axes, dim: usize) -> OpId {
        let operator = self.operator;
        axes.iter().fold(value, |value, axis| {
            let method = self.method(CollectiveKind::ReduceScatter, axis, value, |builder, method, axis, value| {
                methods::reduce_scatter(builder, method, axis, value, dim, operator)
            });
            method.map_or(value, |method| methods::reduce_scatter(self.builder, method, axis, value, dim, operator))
        })
    }

    /// Over several axes: scatter over all, then gather, if some dim divides; else axis by axis.
    fn all_reduce(&mut self, value: OpId, axes: Axes) -> OpId {
        let n = axes.group_size(self.builder.mesh());
        let dim = self.builder.extents(value).iter().position(|extent| extent.is_multiple_of(n));
        if let (Some(dim), true) = (dim, axes.len() > 1) {
            let part = self.reduce_scatter(value, axes, dim);
            return self.all_gather(part, axes, dim);
        }
        let operator = self.operator;
        axes.iter().fold(value, |value, axis| {
            let method = self.method(CollectiveKind::AllReduce, axis, value, |builder, method, axis, value| {
                methods::all_reduce(builder, method, axis, value, operator)
            });
            method.map_or(value, |method| methods::all_reduce(self.builder, method, axis, value, operator))
        })
    }

    fn all_to_all(&mut self, value: OpId, axes: Axes, from: usize, to: usize) -> OpId {
        let stages: Vec<(AxisId, Method)> = axes
            .iter()
            .filter_map(|axis| {
                let method = self.method(CollectiveKind::AllToAll, axis, value, |builder, method, axis, value| {
                    methods::all_to_all(builder, method, axis, value, from, to)
                });
                method.map(|method| (axis, method))
            })
            .collect();
        methods::all_to_all_over(self.builder, &stages, value, from, to)
    }

    /// The method of one stage; none on an axis of one device.
    fn method(
        &mut self,
        kind: CollectiveKind,
        axis: AxisId,
        value: OpId,
        build: impl Fn(&mut Builder<'_>, Method, AxisId, OpId) -> OpId,
    ) -> Option<Method> {
        let topology = self.lowerer.topology;
        let candidates = methods::candidates(kind, topology.links(axis).wiring, topology.mesh.size(axis));
        if let Some(method) = self.method {
            if candidates.contains(&method) {
                return Some(method);
            }
            let (wiring, size) = (topology.links(axis).wiring, topology.mesh.size(axis));
            let axis = topology.mesh.axis(axis).name.clone();
            let flaw = MethodFlaw { method, kind, axis, wiring, size, candidates: candidates.clone() };
            self.lowerer.flaw.get_or_insert(flaw);
        }
        let (dtype, extents) = (self.builder.dtype(value), self.builder.extents(value).to_vec());
        let stage = (kind, axis, dtype, extents);
        if let Some(known) = self.lowerer.chosen.get(&stage) {
            return Some(*known);
        }
        let part = topology.part(&[axis]);
        let on = part.axis(axis)?;
        let best = fastest(candidates, |method| {
            simulate(&part.topology, dtype, &stage.3, |builder, input| {
                build(builder, method, on, input);
            })
        })?;
        self.lowerer.chosen.insert(stage, best);
        Some(best)
    }
}
