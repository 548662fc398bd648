//! A broadcast: along one run by the fastest method and number of chunks, along several run by run or on all at once.

use super::auto::{Trial, along, best_chunks, simulate};
use super::collective::{MethodFlaw, StageFlaw, Stages};
use super::colours::colours;
use super::effort;
use super::packing;
use super::several::stage_method;
use crate::collective::CollectiveKind;
use crate::dtype::DType;
use crate::mesh::{Axes, Wiring};
use crate::schedule::methods::{self, Method, Multiport, Stage};
use crate::schedule::{Builder, OpId};
use crate::topology::Topology;
use crate::units::Time;

/// What decides: the runs, the block, and whether chunks are tried.
pub(super) type Broadcast = (Vec<Axes>, DType, Vec<u64>, Option<Method>, bool);

/// How a broadcast is done.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Run by run, each by a method in so many chunks.
    Staged(Vec<(Axes, Method, u64)>),
    /// On all at once, in so many chunks.
    AtOnce(u64),
    /// Scattered on all at once, and gathered.
    Scattered(Multiport),
    /// Down trees for the links there are, with their weights, in so many chunks.
    Packed(Vec<(Vec<Option<usize>>, u64)>, u64),
}

impl Stages<'_, '_, '_, '_> {
    pub(super) fn broadcast(&mut self, value: OpId, axes: Axes) -> OpId {
        let mesh = &self.lowerer.topology.mesh;
        let runs: Vec<Axes> = self.runs(axes).into_iter().filter(|run| run.group_size(mesh) > 1).collect();
        let (dtype, extents) = (self.builder.dtype(value), self.builder.extents(value).to_vec());
        let key = (runs.clone(), dtype, extents, self.method, self.lowerer.frugal);
        let way = match self.lowerer.memory.broadcasts.get(&key) {
            Some(way) => way.clone(),
            None => {
                let way = self.broadcast_way(&key);
                self.lowerer.memory.broadcasts.insert(key, way.clone());
                way
            }
        };
        build(self.builder, self.lowerer.topology, &way, &runs, value)
    }

    fn broadcast_way(&mut self, key: &Broadcast) -> Way {
        let (runs, dtype, extents, method, frugal) = key;
        let topology = self.lowerer.topology;
        let mut stages = Vec::new();
        for run in runs {
            let links = topology.links(*run);
            let size = run.group_size(&topology.mesh);
            let mut candidates = methods::candidates(CollectiveKind::Broadcast, links.wiring, size);
            match method {
                Some(method) if candidates.contains(method) => candidates = vec![*method],
                Some(method) if *method != Method::Multiport || runs.len() < 2 => {
                    let axis = run.names(&topology.mesh);
                    let (kind, wiring, method) = (CollectiveKind::Broadcast, links.wiring, *method);
                    let flaw = MethodFlaw { method, kind, axis, wiring, size, candidates: candidates.clone() };
                    self.lowerer.flaw.get_or_insert(StageFlaw::Method(flaw));
                }
                Some(_) | None => {}
            }
            candidates.retain(|method| {
                let depth = match (method, links.wiring) {
                    (Method::Tree | Method::Direct | Method::ScatterGather, _) => u64::from(size.ilog2()),
                    (_, Wiring::Ring) => size / 2,
                    _ => size - 1,
                };
                let too_large = effort::is_too_large(topology, CollectiveKind::Broadcast, *run, *method);
                !too_large && !effort::is_too_deep(size, depth)
            });
            if candidates.is_empty() {
                let (kind, axis) = (CollectiveKind::Broadcast, run.names(&topology.mesh));
                self.lowerer.flaw.get_or_insert(StageFlaw::TooLarge { kind, axis, size });
                return Way::Staged(Vec::new());
            }
            stages.push(best_method(topology, *run, *dtype, extents, &candidates, *frugal));
        }
        let staged = Way::Staged(stages);
        let (part, numbered) = along(topology, runs);
        let trial = |way: &Way| {
            simulate(&part, *dtype, extents, |builder, input| {
                build(builder, &part, &renumbered(way, &numbered), &numbered, input);
            })
        };
        let best_of = |way: &dyn Fn(u64) -> Way| -> Option<(Time, Way)> {
            let first = trial(&way(1))?.time;
            let time = |chunks| Some(trial(&way(chunks))?.time);
            let (time, chunks) = if *frugal { (first, 1) } else { best_chunks(extents, first, time) };
            Some((time, way(chunks)))
        };
        let several = runs.len() > 1;
        let sizes = || runs.iter().map(|run| run.group_size(&topology.mesh));
        let depth = runs.iter().map(|run| match topology.links(*run).wiring {
            Wiring::Ring => run.group_size(&topology.mesh) / 2,
            Wiring::Line => run.group_size(&topology.mesh) - 1,
            Wiring::Switch => 1,
        });
        let fits = !effort::is_too_deep(sizes().product(), depth.sum());
        match method {
            Some(Method::Multiport) if several && fits => best_of(&Way::AtOnce).map_or(staged, |(_, way)| way),
            Some(_) => staged,
            None => {
                let at_once = if several && fits { best_of(&Way::AtOnce) } else { None };
                let axes: Axes = numbered.iter().flat_map(|run| run.iter()).collect();
                let trees = if part.is_degraded() { packing::from_first(&part, axes) } else { None };
                let packed = trees.and_then(|trees| best_of(&|chunks| Way::Packed(trees.clone(), chunks)));
                // Of many devices the trees are too deep to be tried.
                let scattered = if several && at_once.is_none() { scattered(topology, runs, extents) } else { None };
                let scattered =
                    scattered.and_then(|all| best_of(&|chunks| Way::Scattered(Multiport { chunks, ..all.clone() })));
                // The first of equals is the simplest.
                let others = [at_once, packed, scattered].into_iter().flatten().min_by_key(|(time, _)| *time);
                match others {
                    Some((time, way)) if trial(&staged).is_none_or(|staged| time < staged.time) => way,
                    Some(_) | None => staged,
                }
            }
        }
    }
}

/// All runs at once, on the first dim that can be cut for all of them; `None` where there is none.
fn scattered(topology: &Topology, runs: &[Axes], extents: &[u64]) -> Option<Multiport> {
    let n: u64 = runs.iter().map(|run| run.group_size(&topology.mesh)).product();
    let dim = extents.iter().position(|extent| extent.is_multiple_of(n))?;
    let kind = CollectiveKind::AllGather;
    let stage = |run: &Axes| Stage { axes: *run, dim, method: stage_method(topology, kind, *run) };
    Some(Multiport { stages: runs.iter().map(stage).collect(), colours: colours(topology, runs), chunks: 1 })
}

/// The same way on a part of the machine, where the runs have other axes.
fn renumbered(way: &Way, runs: &[Axes]) -> Way {
    match way {
        Way::Staged(stages) => {
            let stages = stages.iter().zip(runs).map(|((_, method, chunks), run)| (*run, *method, *chunks));
            Way::Staged(stages.collect())
        }
        Way::Scattered(all) => {
            let stages = all.stages.iter().zip(runs).map(|(stage, run)| Stage { axes: *run, ..*stage });
            Way::Scattered(Multiport { stages: stages.collect(), ..all.clone() })
        }
        Way::AtOnce(_) | Way::Packed(..) => way.clone(),
    }
}

fn build(builder: &mut Builder<'_>, topology: &Topology, way: &Way, runs: &[Axes], value: OpId) -> OpId {
    match way {
        Way::Staged(stages) => stages.iter().fold(value, |value, (run, method, chunks)| {
            methods::broadcast(builder, *method, *run, topology.links(*run).wiring, value, *chunks)
        }),
        Way::Packed(trees, chunks) => {
            let axes = runs.iter().flat_map(|run| run.iter()).collect();
            methods::broadcast_packed(builder, axes, trees, value, *chunks)
        }
        Way::Scattered(all) => all.broadcast(builder, value),
        Way::AtOnce(chunks) => {
            let wiring = |run: Axes| topology.links(run).wiring;
            let closes = |run: &Axes| (*run, wiring(*run) == Wiring::Ring);
            let switches = runs.iter().copied().filter(|run| wiring(*run) == Wiring::Switch);
            // Devices of a node are those on the fastest switch.
            match switches.max_by_key(|run| topology.links(*run).one_way) {
                Some(inner) => {
                    let outer: Vec<(Axes, bool)> = runs.iter().filter(|run| **run != inner).map(closes).collect();
                    methods::broadcast_over_nodes(builder, &outer, inner, value, *chunks)
                }
                None => methods::broadcast_over(builder, &runs.iter().map(closes).collect::<Vec<_>>(), value, *chunks),
            }
        }
    }
}

/// The fastest method along one run, and its number of chunks.
fn best_method(
    topology: &Topology,
    run: Axes,
    dtype: DType,
    extents: &[u64],
    candidates: &[Method],
    frugal: bool,
) -> (Axes, Method, u64) {
    let (part, runs) = along(topology, &[run]);
    let wiring = topology.links(run).wiring;
    let trial = |method: Method, chunks: u64| -> Option<Trial> {
        simulate(&part, dtype, extents, |builder, input| {
            methods::broadcast(builder, method, runs[0], wiring, input, chunks);
        })
    };
    let mut best: Option<(Time, Method, u64)> = None;
    for method in candidates {
        let Some(first) = trial(*method, 1) else { continue };
        // What is too much for a link in one chunk is so in many.
        let slower = |time: Time| best.is_some_and(|(least, ..)| time >= least);
        let (time, chunks) = match methods::broadcasts_in_chunks(*method) && !frugal {
            true if slower(first.load) => continue,
            true => best_chunks(extents, first.time, |chunks| Some(trial(*method, chunks)?.time)),
            false => (first.time, 1),
        };
        if !slower(time) {
            best = Some((time, *method, chunks));
        }
    }
    // Where none can be tried on the clock, the usual one.
    best.map_or((run, candidates[0], 1), |(_, method, chunks)| (run, method, chunks))
}
