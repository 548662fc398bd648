//! A gather that borrows the links of an axis that holds copies: which axis, and how much goes along it.

use super::auto::{Trial, along, more_chunks, simulate};
use super::collective::Stages;
use crate::collective::CollectiveKind;
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, Mesh, Wiring};
use crate::schedule::OpId;
use crate::schedule::methods::{self, Borrowed, Method};
use crate::topology::Topology;

/// More chunks are not tried.
const MOST_CHUNKS: u64 = 64;

/// What is saved by more chunks should be 1 part in so many.
const LEAST_SAVING: u128 = 512;

/// The runs of axes along which all devices hold the same.
pub(crate) fn idle_runs(mesh: &Mesh, sharding: &Sharding) -> Vec<Axes> {
    let busy = |axis: AxisId| sharding.open.contains(axis) || sharding.dims.iter().any(|axes| axes.contains(axis));
    let idle: Axes = mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1 && !busy(*axis)).collect();
    mesh.runs(idle)
}

impl Stages<'_, '_, '_, '_> {
    /// The gather along one run with the help of an idle one; `None` where there is none.
    pub(super) fn borrowed(&mut self, value: OpId, (run, dim): (Axes, usize), idle: &[Axes]) -> Option<OpId> {
        let topology = self.lowerer.topology;
        let way = best(topology, run, idle)?;
        let (dtype, extents) = (self.builder.dtype(value), self.builder.extents(value).to_vec());
        let longest = extents.iter().copied().max()?;
        let (part, numbered) = along(topology, &[run, way.idle.0]);
        let there = |chunks| Borrowed { run: (numbered[0], way.run.1), idle: (numbered[1], way.idle.1), chunks, ..way };
        let trial = |chunks: u64| -> Option<Trial> {
            simulate(&part, dtype, &extents, |builder, input| {
                there(chunks).all_gather(builder, input, dim);
            })
        };
        let next = |chunks: u64| (chunks <= MOST_CHUNKS.min(longest)).then_some(chunks);
        let chunks =
            more_chunks(LEAST_SAVING, next, |chunks| Some(trial(chunks)?.time)).map_or(1, |(_, chunks)| chunks);
        Some(Borrowed { chunks, ..way }.all_gather(self.builder, value, dim))
    }
}

/// By the fastest idle run, with as much along it as makes both equally busy.
fn best(topology: &Topology, run: Axes, idle: &[Axes]) -> Option<Borrowed> {
    let into = |run: &Axes| {
        let links = topology.links(*run);
        let ways = if links.wiring == Wiring::Ring && run.group_size(&topology.mesh) > 2 { 2 } else { 1 };
        links.one_way.per_second() * ways / u64::from(links.apart.max(1))
    };
    let usual = |run: &Axes| {
        let (wiring, size) = (topology.links(*run).wiring, run.group_size(&topology.mesh));
        methods::candidates(CollectiveKind::AllGather, wiring, size).into_iter().next()
    };
    let borrowed = idle.iter().copied().rev().max_by_key(into)?;
    let (own, other) = (into(&run), into(&borrowed));
    let way: (Method, Method) = (usual(&run)?, usual(&borrowed)?);
    Some(Borrowed { run: (run, way.0), idle: (borrowed, way.1), share: (other, own.checked_add(other)?), chunks: 1 })
}
