//! The key of a recipe: a collective on one block, independent of the array and of the rest of the mesh.

use crate::collective::{Collective, CollectiveKind};
use crate::dtype::DType;
use crate::layout::{Layout, Sharding};
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use crate::method::Method;
use crate::operator::Operator;
use crate::schedule::methods::Destination;

/// A collective on a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) kind: CollectiveKind,
    /// The axes of each dim: the source of a gather, the target of a scatter and an exchange. A sum over several axes is
    /// scattered along a dim that divides, if there is one.
    pub(super) dims: Vec<Axes>,
    /// The target of an exchange.
    pub(super) to: Option<Destination>,
    /// Axes of replicas that it may use: the run that a gather uses on request, or those of faster networks.
    pub(super) idle: Option<Axes>,
    pub(super) dtype: DType,
    /// The device that has the operand of a broadcast, by its coordinates along the axes; 0 otherwise.
    pub(super) root: DeviceId,
    /// Extents of the operand block.
    pub(super) extents: Vec<u64>,
    /// The requested method.
    pub(super) asked: Option<Method>,
    /// Whether switches support the operator: sum, minimum or maximum.
    pub(super) in_switch: bool,
}

impl Problem {
    /// The problem of a collective on an array with this layout; `None` if there is nothing to choose.
    ///
    /// - `idle`: the run of replicas that a gather uses on request.
    pub(super) fn new(
        collective: &Collective,
        from: &Layout,
        asked: Option<Method>,
        mesh: &Mesh,
        idle: impl Fn(&Sharding) -> Option<Axes>,
    ) -> Option<Problem> {
        let of = |kind, dims, to| Problem {
            kind,
            dims,
            to,
            idle: None,
            dtype: from.dtype,
            root: DeviceId(0),
            extents: from.local_extents(mesh),
            asked,
            in_switch: matches!(from.sharding.operator.combiner(), Operator::Sum | Operator::Max | Operator::Min),
        };
        let moved = |on: Axes, axes: AxisSet| -> Axes { on.iter().filter(|axis| axes.contains(*axis)).collect() };
        Some(match collective {
            Collective::AllGather { axes } => {
                let dims = from.sharding.dims.iter().map(|on| moved(*on, *axes)).collect();
                let idle = if asked == Some(Method::IdleAxis) { idle(&from.sharding) } else { None };
                Problem { idle, ..of(CollectiveKind::AllGather, dims, None) }
            }
            Collective::ReduceScatter { dims } => of(CollectiveKind::ReduceScatter, dims.clone(), None),
            Collective::AllReduce { axes } => of(CollectiveKind::AllReduce, vec![axes.in_order()], None),
            Collective::AllToAll { axes, from: source, to } => {
                let leaving = moved(from.sharding.dims[*source], axes.set());
                let to = Some(Destination { dim: *to, order: *axes });
                of(CollectiveKind::AllToAll, on_dim(leaving, *source), to)
            }
            Collective::Broadcast { axes } => {
                let root = mesh.with_rank(from.sharding.holder(), from.sharding.open.without(*axes).iter(), 0);
                Problem { root, ..of(CollectiveKind::Broadcast, vec![axes.in_order()], None) }
            }
            Collective::Reshard { .. } | Collective::Shift(_) => return None,
            Collective::Permute { .. } | Collective::Slice { .. } | Collective::Open { .. } => return None,
        })
    }

    /// The problem over one run, for a block of these extents.
    pub(super) fn along(&self, kind: CollectiveKind, run: Axes, dim: usize, extents: &[u64]) -> Problem {
        let to = self.to.map(|to| Destination { order: run, ..to });
        Problem { kind, dims: on_dim(run, dim), to, idle: None, extents: extents.to_vec(), ..*self }
    }

    /// The rank of the root of a broadcast along some of the axes.
    pub(super) fn root_along(&self, axes: Axes, mesh: &Mesh) -> u64 {
        mesh.rank(self.root, axes.iter())
    }

    /// All axes, dim by dim.
    pub(super) fn axes(&self) -> Axes {
        self.dims.iter().fold(Axes::NONE, |all, axes| all.then(*axes))
    }

    /// The axes that take part.
    pub(super) fn busy(&self) -> AxisSet {
        self.axes().set().union(self.idle.unwrap_or(Axes::NONE).set())
    }

    /// The dims with axes.
    pub(super) fn on(&self) -> impl Iterator<Item = (usize, Axes)> + '_ {
        self.dims.iter().copied().enumerate().filter(|(_, axes)| !axes.is_empty())
    }

    /// The runs of size two or more, with their dims; major first on each.
    pub(super) fn runs(&self, mesh: &Mesh) -> Vec<(Axes, usize)> {
        let runs = |on: Axes| self.to.map_or_else(|| mesh.runs(on), |to| to.runs(mesh, on));
        let on_dims = self.dims.iter().zip(0..).flat_map(|(on, dim)| runs(*on).into_iter().map(move |run| (run, dim)));
        on_dims.filter(|(run, _)| run.group_size(mesh) > 1).collect()
    }

    /// The runs, minor first on each dim.
    pub(super) fn runs_minor_first(&self, mesh: &Mesh) -> Vec<(Axes, usize)> {
        let mut runs = self.runs(mesh);
        runs.reverse();
        runs.sort_by_key(|(_, dim)| *dim);
        runs
    }

    /// Whether all scattered blocks are equal.
    pub(super) fn divides(&self, mesh: &Mesh) -> bool {
        let scattered = matches!(self.kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
        let fits = |(dim, axes): (usize, Axes)| {
            self.extents.get(dim).is_some_and(|extent| extent.is_multiple_of(axes.group_size(mesh)))
        };
        !scattered || self.on().all(fits)
    }
}

/// These axes on this dim, and none on the others.
pub(super) fn on_dim(axes: Axes, dim: usize) -> Vec<Axes> {
    let mut dims = vec![Axes::NONE; dim + 1];
    dims[dim] = axes;
    dims
}
