//! Whether a collective over several axes is done on all of them at once, and in how many chunks.

use super::auto::{along, more_chunks, simulate};
use super::collective::{Lowerer, Stages};
use super::colours::{colours, turns};
use crate::collective::CollectiveKind;
use crate::dtype::DType;
use crate::mesh::{Axes, Mesh, Wiring};
use crate::operator::Operator;
use crate::schedule::methods::{Destination, Method, Multiport, Stage};
use crate::schedule::{Builder, OpId};
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;

/// What decides: the kind, the axes on each dim, where an exchange moves them, and the block it starts from.
pub(super) type Several = (CollectiveKind, Vec<Axes>, Option<Destination>, DType, Vec<u64>);

/// More chunks are not tried.
const MOST_CHUNKS: u64 = 16;

impl Stages<'_, '_, '_, '_> {
    /// All axes at once, if there are several and that is faster than stage by stage, or asked for.
    pub(super) fn several(
        &mut self,
        kind: CollectiveKind,
        dims: &[Axes],
        to: Option<Destination>,
        value: OpId,
    ) -> Option<Multiport> {
        let runs = runs(&self.lowerer.topology.mesh, dims, to);
        if runs.len() < 2 || self.method.is_some_and(|method| method != Method::Multiport) {
            return None;
        }
        if self.lowerer.frugal && self.method.is_none() {
            return None;
        }
        let key = (kind, dims.to_vec(), to, self.builder.dtype(value), self.builder.extents(value).to_vec());
        if let Some(known) = self.lowerer.several.get(&key) {
            return known.clone();
        }
        let asked = self.method.is_some();
        let found = Contest::new(self.lowerer, &key, self.operator).winner(asked);
        self.lowerer.several.insert(key, found.clone());
        found
    }
}

/// One collective by all its ways, on the axes that take part.
struct Contest<'k> {
    part: Topology,
    lowerer: &'k Lowerer<'k>,
    kind: CollectiveKind,
    /// The runs as they are numbered in the part.
    numbered: Vec<Axes>,
    /// The axes on each dim as they are numbered in the part.
    dims: Vec<Axes>,
    /// Where an exchange moves them, with the axes as they are numbered in the part.
    to: Option<Destination>,
    dtype: DType,
    extents: &'k [u64],
    operator: Operator,
    multiport: Multiport,
}

impl<'k> Contest<'k> {
    fn new(lowerer: &'k Lowerer<'_>, key: &'k Several, operator: Operator) -> Contest<'k> {
        let (kind, dims, to, dtype, extents) = key;
        let topology = lowerer.topology;
        let runs = runs(&topology.mesh, dims, *to);
        let axes: Vec<Axes> = runs.iter().map(|(run, _)| *run).collect();
        let (part, numbered) = along(topology, &axes);
        let stage =
            |(run, dim): &(Axes, usize)| Stage { axes: *run, dim: *dim, method: stage_method(topology, *kind, *run) };
        let stages = runs.iter().map(stage).collect();
        let exchange = *kind == CollectiveKind::AllToAll;
        let colours = if exchange { turns(runs.len()) } else { colours(topology, &axes) };
        let multiport = Multiport { stages, colours, chunks: 1 };
        let on_dim = |dim: usize| runs.iter().zip(&numbered).filter(move |((_, on), _)| *on == dim);
        let there = |dim: usize| on_dim(dim).flat_map(|(_, run)| run.iter()).collect::<Axes>();
        let dims = (0..dims.len()).map(there).collect();
        let to = to.map(|to| {
            let moved = runs.iter().zip(&numbered).sorted_by_key(|((run, _), _)| to.rank(*run));
            Destination { dim: to.dim, order: moved.flat_map(|(_, run)| run.iter()).collect() }
        });
        Contest { lowerer, kind: *kind, dims, to, dtype: *dtype, extents, operator, multiport, part, numbered }
    }

    fn winner(self, asked: bool) -> Option<Multiport> {
        let best = more_chunks(|chunks| (chunks <= MOST_CHUNKS).then_some(chunks), |chunks| self.at_once(chunks));
        let staged = if asked { None } else { self.staged() };
        let (time, chunks) = best.or_else(|| asked.then_some((Time::ZERO, 1)))?;
        staged.is_none_or(|staged| time < staged).then_some(Multiport { chunks, ..self.multiport })
    }

    fn at_once(&self, chunks: u64) -> Option<Time> {
        let mut multiport = Multiport { chunks, ..self.multiport.clone() };
        multiport.stages.iter_mut().zip(&self.numbered).for_each(|(stage, run)| stage.axes = *run);
        self.simulated(|builder, input| match (self.kind, self.to) {
            (CollectiveKind::AllGather, _) => multiport.all_gather(builder, input),
            (CollectiveKind::ReduceScatter, _) => multiport.reduce_scatter(builder, input, self.operator),
            (CollectiveKind::AllReduce, _) => multiport.all_reduce(builder, input, self.operator),
            (CollectiveKind::AllToAll, Some(to)) => multiport.all_to_all(builder, input, to),
            (CollectiveKind::AllToAll | CollectiveKind::Permute | CollectiveKind::Slice, _) => input,
        })
    }

    fn staged(&self) -> Option<Time> {
        let mut lowerer = Lowerer::new(&self.part, self.lowerer.lowering);
        self.simulated(|builder, input| {
            let mut stages = Stages { lowerer: &mut lowerer, builder, method: None, operator: self.operator };
            let on = |dims: &[Axes]| dims.iter().position(|axes| !axes.is_empty()).map(|dim| (dims[dim], dim));
            match (self.kind, on(&self.dims), self.to) {
                (CollectiveKind::AllGather, _, _) => stages.staged_gather(input, &self.dims),
                (CollectiveKind::ReduceScatter, Some((axes, dim)), _) => stages.staged_scatter(input, axes, dim),
                (CollectiveKind::AllReduce, Some((axes, dim)), _) => stages.staged_reduce(input, axes, dim),
                (CollectiveKind::AllToAll, Some((axes, from)), Some(to)) => {
                    stages.staged_exchange(input, axes, from, to)
                }
                (
                    CollectiveKind::ReduceScatter
                    | CollectiveKind::AllReduce
                    | CollectiveKind::AllToAll
                    | CollectiveKind::Permute
                    | CollectiveKind::Slice,
                    _,
                    _,
                ) => input,
            }
        })
    }

    fn simulated(&self, build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId) -> Option<Time> {
        let trial = simulate(&self.part, self.dtype, self.extents, |builder, input| {
            build(builder, input);
        });
        trial.map(|trial| trial.time)
    }
}

/// The runs of two devices or more, with their dims; major first on each.
fn runs(mesh: &Mesh, dims: &[Axes], to: Option<Destination>) -> Vec<(Axes, usize)> {
    let runs = |on: Axes| to.map_or_else(|| mesh.runs(on), |to| to.runs(mesh, on));
    let on_dims = dims.iter().zip(0..).flat_map(|(on, dim)| runs(*on).into_iter().map(move |run| (run, dim)));
    on_dims.filter(|(run, _)| run.group_size(mesh) > 1).collect()
}

/// The method of one stage: on each wiring the one that keeps all links equally busy.
fn stage_method(topology: &Topology, kind: CollectiveKind, run: Axes) -> Method {
    match (topology.links(run).wiring, kind) {
        (Wiring::Ring, CollectiveKind::AllToAll) => Method::DirectHalves,
        (Wiring::Switch, CollectiveKind::AllToAll) => Method::Direct,
        (Wiring::Ring, _) => Method::BalancedMeetInMiddleRing,
        (Wiring::Line, _) => Method::Line,
        (Wiring::Switch, _) => Method::OneHop,
    }
}
