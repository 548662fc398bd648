//! Candidate recipes of a collective: each method along one run, stage by stage over several runs, all axes at once, or
//! packed trees.

use super::axis_orders::{axis_orders, turns};
use super::problem::{Problem, on_dim};
use super::quickest::quickest;
use super::ring_order::ring_order;
use super::tuner::{Flaw, Tuner};
use super::uneven::CutAt;
use super::{Objective, Stage, around, effort, idle, packing};
use crate::collective::CollectiveKind;
use crate::mesh::{Axes, Wiring};
use crate::method::{Family, Method};
use crate::packing::Translations;
use crate::schedule::methods::{self, AxisOrder, Borrowed, Destination, Multiport, Quad};
use crate::topology::Topology;
use itertools::Itertools;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most chunks for several axes at once.
const MOST_CHUNKS: u64 = 64;

/// Most devices for direct messages over several axes.
const MOST_AT_ONCE: u64 = 64;

/// Most devices for direct messages over a switch that has several axes.
const MOST_OVER_A_SWITCH: u64 = 512;

/// Most trees for the parts of a shard.
const MOST_TREES: usize = 16;

/// Chunks along trees add many operations, so they must save at least 1/128 of the time.
const LEAST_SAVING: u128 = 128;

/// Most runs of a sum between a scatter and a gather: each order in which they are scattered is tried.
const MOST_RUNS_OUTSIDE: usize = 4;

/// Chunks over several axes add few operations, so they must save at least 1/512 of the time.
const LEAST_SAVING_AT_ONCE: u128 = 512;

/// Chunks from one axis to the next add messages, which libraries keep long, so they must save at least 1/32 of the time.
const LEAST_SAVING_OF_A_LIBRARY: u128 = 32;

/// A candidate, with possible numbers of chunks.
pub(super) struct Candidate<'c> {
    build: Box<dyn Fn(u64) -> Vec<Stage> + 'c>,
    /// The possible numbers of chunks in ascending order; at least one.
    pub(super) counts: Vec<u64>,
    /// More chunks must save at least 1/`least_saving` of the time.
    pub(super) least_saving: u128,
}

impl<'c> Candidate<'c> {
    /// A candidate without chunks.
    pub(super) fn once(stages: Vec<Stage>) -> Candidate<'c> {
        Candidate { build: Box::new(move |_| stages.clone()), counts: vec![1], least_saving: LEAST_SAVING }
    }

    pub(super) fn new(stage: impl Fn(u64) -> Stage + 'c, counts: Vec<u64>, least_saving: u128) -> Candidate<'c> {
        Candidate { build: Box::new(move |chunks| vec![stage(chunks)]), counts, least_saving }
    }

    /// The stages for this number of chunks.
    pub(super) fn stages(&self, chunks: u64) -> Vec<Stage> {
        (self.build)(chunks)
    }
}

/// Whether libraries have a method for it that is independent of the machine's links.
fn in_libraries(kind: CollectiveKind) -> bool {
    match kind {
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllReduce
        | CollectiveKind::AllToAll => true,
        CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Broadcast
        | CollectiveKind::Slice
        | CollectiveKind::Open => false,
    }
}

/// The methods of the machine's library for a collective along a run; empty for all methods.
fn library(topology: &Topology, kind: CollectiveKind, run: Axes) -> Vec<Method> {
    let (Some(axis), true) = (run.last(), in_libraries(kind)) else { return Vec::new() };
    let (wiring, size) = (topology.links(run).wiring, run.group_size(&topology.mesh));
    let usual = methods::candidates(kind, wiring, size);
    let own = &topology.network(axis).methods;
    let takes = |method: &Method| usual.contains(method) || methods::takes(*method, kind, wiring, size);
    match own.iter().copied().filter(takes).collect::<Vec<_>>() {
        // On two devices, all methods of a library are equal, so one is sufficient.
        own if !own.is_empty() && size == 2 => usual.into_iter().take(1).collect(),
        own => own,
    }
}

impl Tuner<'_> {
    /// All candidates, the simplest first.
    pub(super) fn candidates<'p>(&self, problem: &'p Problem) -> Result<Vec<Candidate<'p>>, Flaw> {
        let runs = problem.runs(&self.topology.mesh);
        let asked = problem.asked.filter(|method| method.family() == Family::Several);
        let asked = asked.map_or_else(Vec::new, |method| self.over_axes(problem, method, &runs));
        if !asked.is_empty() {
            return Ok(asked);
        }
        let kept = self.lowering.keep_all_gather && !self.topology.is_irregular();
        if kept && let Some(stages) = self.kept(problem)? {
            return Ok(vec![Candidate::once(stages)]);
        }
        let all = match &runs[..] {
            [] => Ok(vec![Candidate::once(Vec::new())]),
            [(run, dim)] => self.along(problem, *run, *dim),
            _ => self.staged(problem).map(|stages| vec![Candidate::once(stages)]),
        };
        let mut all = all.map_err(|flaw| self.with_all_methods(flaw, problem))?;
        // The devices of a fabric or of a switch along several axes are like those along one.
        if let ([_, _, ..], Some((dim, axes)), None) = (&runs[..], self.joined(problem), problem.asked) {
            all.extend(self.along(problem, axes, dim).unwrap_or_default());
        }
        // Libraries have methods along one axis, and direct messages over any number of axes.
        let library = runs.iter().flat_map(|(run, _)| library(&self.topology, problem.kind, *run)).collect::<Vec<_>>();
        if problem.asked.is_none() && !runs.is_empty() {
            all.extend(self.over_axes(problem, Method::SwitchSum, &runs));
            all.extend(self.over_replicas(problem)?);
        }
        if problem.asked.is_none() && library.contains(&Method::Direct) && !self.fewest_operations {
            all.extend(self.exchanged_at_once(problem, &runs));
        }
        if problem.asked.is_none() && !library.is_empty() && !self.fewest_operations {
            all.extend(self.slowest_first(problem, &runs, true)?);
            all.extend(self.exchanged_in_chunks(problem, &runs)?);
        }
        if problem.asked.is_none() && library.is_empty() && !self.fewest_operations && !runs.is_empty() {
            if self.scatters(problem, &runs) {
                all.push(Candidate::once(self.in_turn(problem)?));
            }
            all.extend(self.over_axes(problem, Method::Multiport, &runs));
            all.extend(self.sums_inside(problem, &runs)?);
            all.extend(self.quickest(problem, &runs));
            all.extend(self.around(problem, &runs));
            all.extend(self.slowest_first(problem, &runs, false)?);
            all.extend(self.scattered(problem, &runs));
            all.extend(self.exchanged_at_once(problem, &runs));
            all.extend(self.in_rounds(problem));
            all.extend(self.translated(problem));
            if self.packing_pays(problem, &runs) {
                all.extend(self.over_axes(problem, Method::TreePacking, &runs));
            }
        }
        Ok(all)
    }

    /// The candidate with gathers kept as one operation; `None` without gathers.
    fn kept(&self, problem: &Problem) -> Result<Option<Vec<Stage>>, Flaw> {
        // Axes of size 1 gather nothing, also inside of a kernel.
        let on = || problem.on().filter(|(_, axes)| axes.group_size(&self.topology.mesh) > 1);
        let gathers = || on().map(|(dim, axes)| Stage::KeptGather { axes, dim });
        Ok(match problem.kind {
            CollectiveKind::AllGather => Some(gathers().collect()),
            CollectiveKind::AllReduce if self.scatters(problem, &problem.runs(&self.topology.mesh)) => {
                let scatter = Problem { kind: CollectiveKind::ReduceScatter, ..problem.clone() };
                Some(self.best(&scatter)?.stages.iter().cloned().chain(gathers()).collect())
            }
            _ => None,
        })
    }

    /// All axes of a gather or a sum over a fabric or a switch, if they are on one dim.
    fn joined(&self, problem: &Problem) -> Option<(usize, Axes)> {
        let gathers = matches!(
            problem.kind,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce
        );
        let mut on = problem.on().filter(|_| gathers && !self.fewest_operations);
        let (dim, axes) = on.next()?;
        if self.topology.fabric().is_none() && !self.are_on_one_switch(axes) {
            return None;
        }
        // A sum may be taken in any order, that of the mesh has neighbours next to each other.
        let axes = if problem.kind == CollectiveKind::AllReduce { axes.set().in_order() } else { axes };
        on.next().is_none().then_some((dim, axes))
    }

    /// Whether devices along several axes send to each other over one switch.
    fn are_on_one_switch(&self, axes: Axes) -> bool {
        let several = axes.iter().filter(|axis| self.topology.mesh.size(*axis) > 1);
        let port = |axis| {
            let links = self.topology.links(axis);
            (links.wiring == Wiring::Switch).then_some(links.port)
        };
        several.map(port).all_equal_value().is_ok_and(|port| port.is_some())
    }

    /// The runs of a gather or a sum, where adjacent axes over one switch are one.
    fn merged(&self, runs: &[(Axes, usize)]) -> Vec<(Axes, usize)> {
        let merge = |(axes, dim): (Axes, usize), (next, of): (Axes, usize)| {
            let both = axes.then(next);
            if dim == of && self.are_on_one_switch(both) { Ok((both, dim)) } else { Err(((axes, dim), (next, of))) }
        };
        runs.iter().copied().coalesce(merge).collect()
    }

    /// One candidate per method along one run.
    fn along<'p>(&self, problem: &'p Problem, run: Axes, dim: usize) -> Result<Vec<Candidate<'p>>, Flaw> {
        let (topology, kind) = (self.topology.as_ref(), problem.kind);
        let (wiring, size) = (topology.links(run).wiring, run.group_size(&topology.mesh));
        let mut candidates = methods::candidates(kind, wiring, size);
        // The total data of a group may be too large for direct messages from all to all.
        let elements = problem.extents.iter().fold(size, |all, extent| all.saturating_mul(*extent));
        let bytes = problem.dtype.bytes(elements);
        if kind != CollectiveKind::Broadcast && topology.hardware.broadcast_limit.is_some_and(|limit| bytes > limit.0) {
            candidates.retain(|method| !matches!(method, Method::Broadcast | Method::LineBroadcast));
        }
        let library = library(topology, kind, run);
        if let Some(method) = problem.asked {
            if !candidates.contains(&method) && !methods::takes(method, kind, wiring, size) {
                return Err(self.inapplicable(method, kind, run));
            }
            candidates = vec![method];
        } else if !library.is_empty() {
            candidates = library;
        }
        candidates.retain(|method| {
            let depth = match (method, wiring) {
                (Method::Tree | Method::Direct | Method::ScatterGather, _) => u64::from(size.ilog2()),
                (_, Wiring::Ring) => size / 2,
                _ => size - 1,
            };
            let too_deep = kind == CollectiveKind::Broadcast && effort::is_too_deep(size, depth);
            !too_deep && !effort::is_too_large(topology, kind, run, *method)
        });
        let few = self.fewest_operations && problem.asked.is_none();
        let root = problem.root_along(run, &topology.mesh);
        let stage = move |method, chunks| match kind {
            CollectiveKind::AllGather => Stage::AllGather { run, dim, method },
            CollectiveKind::ReduceScatter => Stage::ReduceScatter { run, dim, method },
            CollectiveKind::AllReduce => Stage::AllReduce { run, method, chunks },
            CollectiveKind::Broadcast => Stage::Broadcast { run, wiring, method, root, chunks },
            _ => {
                let to = problem.to.map_or(Destination { dim, order: run }, |to| Destination { order: run, ..to });
                Stage::AllToAll { runs: vec![(run, method)], from: dim, to }
            }
        };
        let in_chunks = |method: Method| match kind {
            CollectiveKind::Broadcast => methods::broadcasts_in_chunks(method),
            _ => method.in_chunks(),
        };
        if few && kind != CollectiveKind::Broadcast {
            candidates.retain(|method| !in_chunks(*method));
        }
        if candidates.is_empty() {
            return Err(Flaw::TooLarge { kind, axis: run.names(&topology.mesh).to_string(), size });
        }
        let candidate = |method: Method| {
            let counts = if in_chunks(method) && !few { divisors(&problem.extents) } else { vec![1] };
            Candidate::new(move |chunks| stage(method, chunks), counts, LEAST_SAVING)
        };
        Ok(candidates.into_iter().map(candidate).collect())
    }

    /// The error that a method is not available along a run, with those that are.
    fn inapplicable(&self, method: Method, kind: CollectiveKind, run: Axes) -> Flaw {
        let mesh = &self.topology.mesh;
        let (wiring, size) = (self.topology.links(run).wiring, run.group_size(mesh));
        let (axis, candidates) = (run.names(mesh).to_string(), methods::candidates(kind, wiring, size));
        Flaw::Method { method, kind, axis, wiring, size, candidates }
    }

    /// The same error with the methods over all axes of a fabric at once, too.
    fn with_all_methods(&self, flaw: Flaw, problem: &Problem) -> Flaw {
        let runs = problem.runs(&self.topology.mesh);
        let applies = |method: &Method| !self.over_axes(problem, *method, &runs).is_empty();
        match flaw {
            Flaw::Method { method, kind, axis, wiring: Wiring::Fabric, size, mut candidates } => {
                let others = [Method::TreePacking, Method::Routed].into_iter().filter(|other| *other != method);
                let new = others.filter(|other| !candidates.contains(other)).filter(applies).collect::<Vec<_>>();
                candidates.extend(new);
                Flaw::Method { method, kind, axis, wiring: Wiring::Fabric, size, candidates }
            }
            flaw => flaw,
        }
    }

    /// Stage by stage over the runs; for a sum a scatter and a gather, if possible.
    fn staged(&self, problem: &Problem) -> Result<Vec<Stage>, Flaw> {
        let mesh = &self.topology.mesh;
        match problem.kind {
            // The minor run first: each stage then concatenates adjacent blocks.
            CollectiveKind::AllGather => self.one_by_one(problem, problem.runs_minor_first(mesh)),
            CollectiveKind::ReduceScatter | CollectiveKind::Broadcast => self.one_by_one(problem, problem.runs(mesh)),
            CollectiveKind::AllReduce if self.scatters(problem, &problem.runs(mesh)) => {
                let scatter = Problem { kind: CollectiveKind::ReduceScatter, ..problem.clone() };
                let mut extents = problem.extents.clone();
                problem.on().for_each(|(dim, axes)| extents[dim] /= axes.group_size(mesh));
                let gather = Problem { kind: CollectiveKind::AllGather, extents, ..problem.clone() };
                Ok([self.staged(&scatter)?, self.staged(&gather)?].concat())
            }
            CollectiveKind::AllReduce => self.in_turn(problem),
            _ => self.exchanged(problem),
        }
    }

    /// A whole sum over each axis, which minimises hops.
    fn in_turn(&self, problem: &Problem) -> Result<Vec<Stage>, Flaw> {
        self.one_by_one(problem, problem.runs(&self.topology.mesh))
    }

    /// A scatter along one run, a sum of what is left along the others, and a gather along the first one. A sum takes as few as
    /// half of the hops of a scatter and a gather. Along the others it may be of this kind, too.
    fn sums_inside<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Result<Vec<Candidate<'p>>, Flaw> {
        let (mesh, runs) = (&self.topology.mesh, self.merged(runs));
        if !self.scatters(problem, &runs) || runs.len() > MOST_RUNS_OUTSIDE {
            return Ok(Vec::new());
        }
        let outside = |place: usize| {
            let (run, dim) = runs[place];
            let mut extents = problem.extents.clone();
            extents[dim] /= run.group_size(mesh);
            let along = |kind, extents: &[u64]| {
                Ok::<_, Flaw>(self.best(&problem.along(kind, run, dim, extents))?.stages.clone())
            };
            let mut dims = vec![Axes::NONE; problem.dims.len()];
            let others = [&runs[..place], &runs[place + 1..]].concat();
            others.iter().for_each(|(run, dim)| dims[*dim] = dims[*dim].then(*run));
            let rest = Problem { dims, idle: None, extents: extents.clone(), ..problem.clone() };
            let [scatter, gather] = [CollectiveKind::ReduceScatter, CollectiveKind::AllGather];
            let stages =
                [along(scatter, &problem.extents)?, self.best(&rest)?.stages.clone(), along(gather, &extents)?];
            Ok(Candidate::once(stages.concat()))
        };
        (0..runs.len()).map(outside).collect()
    }

    /// Each run by its best method.
    fn one_by_one(&self, problem: &Problem, runs: Vec<(Axes, usize)>) -> Result<Vec<Stage>, Flaw> {
        let (kind, mesh) = (problem.kind, &self.topology.mesh);
        let mut extents = problem.extents.clone();
        let mut stages = Vec::new();
        for (run, dim) in runs {
            let one = self.in_order(problem.along(kind, run, dim, &extents));
            stages.extend(self.best(&one)?.stages.iter().cloned());
            match kind {
                CollectiveKind::AllGather => extents[dim] *= run.group_size(mesh),
                CollectiveKind::ReduceScatter => extents[dim] /= run.group_size(mesh),
                _ => {}
            }
        }
        Ok(stages)
    }

    /// Each run by its best method, the minor one first.
    fn exchanged(&self, problem: &Problem) -> Result<Vec<Stage>, Flaw> {
        let mut stages = Vec::new();
        for (dim, axes) in problem.on() {
            let Some(to) = problem.to else { continue };
            let mut runs = Vec::new();
            let mesh = &self.topology.mesh;
            for run in to.runs(mesh, axes).into_iter().filter(|run| run.group_size(mesh) > 1) {
                let one = problem.along(problem.kind, run, dim, &problem.extents);
                match (&self.best(&one)?.stages[..], problem.asked) {
                    ([Stage::AllToAll { runs: one, .. }], _) => runs.extend(one.iter().copied()),
                    // Routes of one run do not combine with others.
                    (_, None) => runs.push((run, Method::Direct)),
                    (_, Some(method)) => return Err(self.inapplicable(method, problem.kind, run)),
                }
            }
            stages.push(Stage::AllToAll { runs, from: dim, to });
        }
        Ok(stages)
    }

    /// Direct messages: fewer bytes than axis by axis, but one message per pair of devices. Useful for bandwidth only, except over
    /// one switch.
    fn exchanged_at_once<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let to = problem.to.filter(|_| runs.len() > 1)?;
        let (from, axes) = problem.on().next()?;
        let most = match (self.are_on_one_switch(axes), self.objective) {
            (true, _) => MOST_OVER_A_SWITCH,
            (false, Objective::Bytes) => MOST_AT_ONCE,
            (false, Objective::Time) => return None,
        };
        let few = axes.group_size(&self.topology.mesh) <= most;
        few.then(|| Candidate::once(vec![Stage::AllToAllAtOnce { axes, from, to }]))
    }

    /// An exchange axis after axis in chunks: an axis moves one chunk while the next axis moves the one before it.
    fn exchanged_in_chunks<'p>(
        &self,
        problem: &Problem,
        runs: &[(Axes, usize)],
    ) -> Result<Option<Candidate<'p>>, Flaw> {
        let several = runs.len() > 1 && problem.divides(&self.topology.mesh);
        let Some(to) = problem.to.filter(|_| several) else { return Ok(None) };
        let mut stages = Vec::new();
        for (run, dim) in runs {
            let best = self.best(&problem.along(problem.kind, *run, *dim, &problem.extents))?;
            let [Stage::AllToAll { runs, .. }] = &best.stages[..] else { return Ok(None) };
            stages.extend(runs.iter().map(|(axes, method)| methods::Stage { axes: *axes, dim: *dim, method: *method }));
        }
        let axis_orders = vec![AxisOrder { order: (0..stages.len()).collect(), weight: 1 }];
        let (kind, all) = (problem.kind, Multiport { stages, axis_orders, chunks: 1 });
        let stage = move |chunks| Stage::Multiport { kind, all: Multiport { chunks, ..all.clone() }, to: Some(to) };
        Ok(Some(Candidate::new(stage, (1..=MOST_CHUNKS).collect(), LEAST_SAVING_OF_A_LIBRARY)))
    }

    /// A sum split into an evenly scattered part with the requested method, and a few remaining rows.
    pub(super) fn split(&self, problem: &Problem, cut: CutAt) -> Result<Vec<Stage>, Flaw> {
        let part = |length: u64, asked: Option<Method>| {
            let mut part = Problem { asked, ..problem.clone() };
            part.extents[cut.dim] = length;
            let part = self.in_order(part);
            Ok(self.best(&part)?.stages.clone())
        };
        let even = part(cut.even, problem.asked)?;
        let rest = part(problem.extents[cut.dim] - cut.even, None)?;
        Ok(vec![Stage::Split { dim: cut.dim, at: cut.even, even, rest }])
    }

    /// Whether a sum can be scattered along its dim in more than one stage.
    fn scatters(&self, problem: &Problem, runs: &[(Axes, usize)]) -> bool {
        problem.kind == CollectiveKind::AllReduce && runs.len() > 1 && problem.divides(&self.topology.mesh)
    }

    /// A method for all axes at once; `None` if it does not apply.
    fn over_axes<'p>(&self, problem: &'p Problem, method: Method, runs: &[(Axes, usize)]) -> Vec<Candidate<'p>> {
        let one = match (method, problem.kind) {
            (Method::Multiport, CollectiveKind::Broadcast) => self.broadcast_at_once(problem, runs),
            (Method::Multiport, _) => self.multiport(problem, runs),
            (Method::QuadDirectionalRing, _) => self.quad(problem, runs),
            (Method::IdleAxis, CollectiveKind::AllGather) => self.borrowed(problem, runs),
            (Method::TreePacking, CollectiveKind::Broadcast) => self.broadcast_packed(problem, runs),
            (Method::TreePacking, _) => self.packed(problem),
            (Method::SwitchSum, CollectiveKind::AllReduce) => self.switch_sum(problem, runs),
            (Method::Routed, _) => self.in_rounds(problem),
            _ => None,
        };
        let exchanges = problem.kind == CollectiveKind::AllToAll;
        let is_translated = method == if exchanges { Method::Routed } else { Method::TreePacking };
        one.into_iter().chain(if is_translated { self.translated(problem) } else { Vec::new() }).collect()
    }

    /// One in-switch sum over all runs, if their switch adds these elements.
    fn switch_sum<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let run: Axes = axes_of(runs).into_iter().flat_map(|axes| axes.iter().collect::<Vec<_>>()).collect();
        self.topology.switch_sum(run.iter(), problem.dtype).filter(|_| problem.in_switch)?;
        Some(Candidate::once(vec![Stage::AllReduce { run, method: Method::SwitchSum, chunks: 1 }]))
    }

    /// Each replica along the idle axes moves a part over the slow links, and the parts are gathered along the idle axes;
    /// `None` if no dim can be split.
    fn over_replicas<'p>(&self, problem: &Problem) -> Result<Option<Candidate<'p>>, Flaw> {
        let (Some(idle), mesh) = (problem.idle, &self.topology.mesh) else { return Ok(None) };
        let n = idle.group_size(mesh);
        // A gather interleaves what it has moved; other blocks must stay together.
        let moved = |dim: usize| match problem.kind {
            CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
                problem.dims.get(dim).is_some_and(|axes| !axes.is_empty()) || problem.to.is_some_and(|to| to.dim == dim)
            }
            _ => false,
        };
        let splits = |dim: &usize| problem.extents[*dim].is_multiple_of(n) && !moved(*dim);
        let Some(dim) = (0..problem.extents.len()).find(splits) else { return Ok(None) };
        let mut extents = problem.extents.clone();
        extents[dim] /= n;
        let slice = Stage::Slice { axes: idle.iter().collect(), dim };
        let own = self.in_order(Problem { idle: None, extents: extents.clone(), ..problem.clone() });
        let of_gather = |dims: Vec<Axes>, extents: Vec<u64>| {
            let gather =
                Problem { kind: CollectiveKind::AllGather, dims, to: None, idle: None, extents, ..problem.clone() };
            Ok(self.best(&gather)?.stages.clone())
        };
        let stages = match problem.kind {
            // Both gathers are one, over the slow links first.
            CollectiveKind::AllGather => {
                let mut dims = problem.dims.clone();
                dims.resize(dims.len().max(dim + 1), Axes::NONE);
                dims[dim] = dims[dim].then(idle);
                of_gather(dims, extents)?
            }
            kind => {
                let stages = self.best(&own)?.stages.clone();
                if kind == CollectiveKind::ReduceScatter {
                    problem.on().for_each(|(dim, axes)| extents[dim] /= axes.group_size(mesh));
                }
                if let (CollectiveKind::AllToAll, Some(to)) = (kind, problem.to) {
                    problem.on().for_each(|(dim, axes)| extents[dim] *= axes.group_size(mesh));
                    extents[to.dim] /= to.order.group_size(mesh);
                }
                [stages, of_gather(on_dim(idle, dim), extents)?].concat()
            }
        };
        Ok(Some(Candidate::once([vec![slice], stages].concat())))
    }

    fn multiport<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let exchange = problem.kind == CollectiveKind::AllToAll;
        let runs = if exchange { runs.to_vec() } else { self.merged(runs) };
        if runs.len() < 2 || !problem.divides(&self.topology.mesh) {
            return None;
        }
        let axis_orders = if exchange { turns(runs.len()) } else { self.axis_orders(&axes_of(&runs)) };
        let stages = runs.iter().map(|(run, dim)| self.stage(problem.kind, *run, *dim)).collect();
        let (kind, to) = (problem.kind, problem.to);
        let all = Multiport { stages, axis_orders, chunks: 1 };
        let stage = move |chunks| Stage::Multiport { kind, all: Multiport { chunks, ..all.clone() }, to };
        Some(Candidate::new(stage, (1..=MOST_CHUNKS).collect(), LEAST_SAVING_AT_ONCE))
    }

    /// The axis orders that balance the load of a gather over these axes.
    fn axis_orders(&self, axes: &[Axes]) -> Vec<AxisOrder> {
        if let Some(known) = self.axis_orders.borrow().get(axes) {
            return known.clone();
        }
        let found = axis_orders(&self.topology, axes);
        self.axis_orders.borrow_mut().insert(axes.to_vec(), found.clone());
        found
    }

    /// All axes at once, in the axis orders for short messages.
    fn quickest<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let kind = problem.kind;
        let gathers =
            matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce);
        let (mesh, runs) = (&self.topology.mesh, self.merged(runs));
        if !gathers || runs.len() < 2 || !problem.divides(mesh) || self.topology.fabric().is_some() {
            return None;
        }
        let devices: u64 = runs.iter().map(|(run, _)| run.group_size(mesh)).product();
        let bytes = problem.dtype.bytes(problem.extents.iter().fold(1, |all, extent| all.saturating_mul(*extent)));
        let shard = if kind == CollectiveKind::AllGather { bytes } else { bytes / devices };
        let axes = axes_of(&runs);
        let axis_orders = quickest(&self.topology, &axes, shard, &self.axis_orders(&axes))?;
        let stages = runs.iter().map(|(run, dim)| self.stage(kind, *run, *dim)).collect();
        let all = Multiport { stages, axis_orders, chunks: 1 };
        let stage = move |chunks| Stage::Multiport { kind, all: Multiport { chunks, ..all.clone() }, to: None };
        Some(Candidate::new(stage, (1..=MOST_CHUNKS).collect(), LEAST_SAVING_AT_ONCE))
    }

    /// All axes at once, with messages over weak links split among the paths around them.
    fn around<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        if !self.topology.is_irregular() || problem.kind == CollectiveKind::Broadcast {
            return None;
        }
        let Candidate { build, counts, least_saving } = self.multiport(problem, runs)?;
        let detours = around::detours(&self.topology, problem.axes())?;
        let stage = move |stage| Stage::Around { detours: detours.clone(), stage: Box::new(stage) };
        let build = Box::new(move |chunks| build(chunks).into_iter().map(&stage).collect());
        Some(Candidate { build, counts, least_saving })
    }

    /// Axis after axis, over the slowest links while the blocks are smallest, whichever axis is minor. In chunks, an axis
    /// moves one chunk while the next axis moves the one before it.
    ///
    /// - `library`: whether this is the only use of several axes at the same time.
    fn slowest_first<'p>(
        &self,
        problem: &Problem,
        runs: &[(Axes, usize)],
        library: bool,
    ) -> Result<Option<Candidate<'p>>, Flaw> {
        let (kind, mesh, runs) = (problem.kind, &self.topology.mesh, self.merged(runs));
        let gathers =
            matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce);
        let is_fabric = self.topology.fabric().is_some();
        let rate = |run: Axes| match is_fabric {
            true => idle::into(&self.topology, run),
            false => self.topology.links(run).one_way.per_second(),
        };
        let same = runs.windows(2).all(|pair| rate(pair[0].0) == rate(pair[1].0));
        if !gathers || runs.len() < 2 || (same && !library) || !problem.divides(mesh) {
            return Ok(None);
        }
        let mut extents = problem.extents.clone();
        if kind != CollectiveKind::AllGather {
            runs.iter().for_each(|(run, dim)| extents[*dim] /= run.group_size(mesh));
        }
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|stage| rate(runs[*stage].0));
        let mut stages: Vec<methods::Stage> =
            runs.iter().map(|(run, dim)| self.stage(CollectiveKind::AllGather, *run, *dim)).collect();
        for stage in &order {
            let (run, dim) = runs[*stage];
            let one = self.in_order(problem.along(CollectiveKind::AllGather, run, dim, &extents));
            let best = self.best(&one)?;
            let [Stage::AllGather { method, .. }] = best.stages[..] else { return Ok(None) };
            stages[*stage].method = method;
            extents[dim] *= run.group_size(mesh);
        }
        let all = Multiport { stages, axis_orders: vec![AxisOrder { order, weight: 1 }], chunks: 1 };
        let stage = move |chunks| Stage::Multiport { kind, all: Multiport { chunks, ..all.clone() }, to: None };
        // Axes of a fabric may use different links at once.
        let counts = if is_fabric || library { (1..=MOST_CHUNKS).collect() } else { vec![1] };
        let least_saving = if library { LEAST_SAVING_OF_A_LIBRARY } else { LEAST_SAVING_AT_ONCE };
        Ok(Some(Candidate::new(stage, counts, least_saving)))
    }

    /// One of several axes for the multiport method.
    fn stage(&self, kind: CollectiveKind, run: Axes, dim: usize) -> methods::Stage {
        let method = match (self.topology.links(run).wiring, kind) {
            (Wiring::Ring, CollectiveKind::AllToAll) => Method::DirectHalves,
            (Wiring::Switch | Wiring::Full | Wiring::Fabric, CollectiveKind::AllToAll) => Method::Direct,
            (Wiring::Ring, _) => Method::BalancedMeetInMiddleRing,
            (Wiring::Line, _) => Method::Line,
            (Wiring::Switch | Wiring::Full | Wiring::Fabric, _) => Method::OneHop,
        };
        methods::Stage { axes: run, dim, method }
    }

    /// A broadcast on all runs at once, if the trees are shallow enough to prove.
    fn broadcast_at_once<'p>(&self, problem: &'p Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let topology = self.topology.as_ref();
        let size = |run: Axes| run.group_size(&topology.mesh);
        let wiring = |run: Axes| topology.links(run).wiring;
        let depth = runs.iter().map(|(run, _)| wiring(*run).diameter(size(*run)));
        if runs.len() < 2 || effort::is_too_deep(runs.iter().map(|(run, _)| size(*run)).product(), depth.sum()) {
            return None;
        }
        let switches = runs.iter().map(|(run, _)| *run).filter(|run| wiring(*run) == Wiring::Switch);
        // The devices of a node are those on the fastest switch.
        let node = switches.max_by_key(|run| topology.links(*run).one_way);
        let outer = runs.iter().map(|(run, _)| *run).filter(|run| Some(*run) != node);
        let runs: Vec<(Axes, Wiring)> = outer.map(|run| (run, wiring(run))).collect();
        let axes = runs.iter().map(|(run, _)| *run).chain(node).fold(Axes::NONE, Axes::then);
        let root = problem.root_along(axes, &topology.mesh);
        let stage = move |chunks| Stage::BroadcastAtOnce { runs: runs.clone(), node, root, chunks };
        Some(Candidate::new(stage, self.tree_chunks(problem), LEAST_SAVING))
    }

    /// A broadcast as a scatter over all runs at once, on the first dim that divides, and a gather.
    fn scattered<'p>(&self, problem: &'p Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        if problem.kind != CollectiveKind::Broadcast || runs.len() < 2 {
            return None;
        }
        let n = problem.axes().group_size(&self.topology.mesh);
        let dim = problem.extents.iter().position(|extent| extent.is_multiple_of(n))?;
        let stages = runs.iter().map(|(run, _)| self.stage(CollectiveKind::AllGather, *run, dim)).collect();
        let all = Multiport { stages, axis_orders: self.axis_orders(&axes_of(runs)), chunks: 1 };
        let root: Vec<u64> = runs.iter().map(|(run, _)| problem.root_along(*run, &self.topology.mesh)).collect();
        let stage = move |chunks| {
            let all = Multiport { chunks, ..all.clone() };
            Stage::BroadcastScattered { all, root: root.clone() }
        };
        Some(Candidate::new(stage, self.tree_chunks(problem), LEAST_SAVING))
    }

    fn tree_chunks(&self, problem: &Problem) -> Vec<u64> {
        if self.fewest_operations { vec![1] } else { divisors(&problem.extents) }
    }

    /// A gather that uses a run of replicas. On request only: JAX and NCCL have no such gather, and another
    /// collective may use the axis.
    fn borrowed<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let [(run, dim)] = *runs else { return None };
        let both = idle::borrowed(&self.topology, run, problem.idle?)?;
        let longest = problem.extents.iter().copied().max()?;
        let counts = (1..=MOST_CHUNKS.min(longest).max(1)).collect();
        let stage = move |chunks| Stage::Borrowed { both: Borrowed { chunks, ..both }, dim };
        Some(Candidate::new(stage, counts, LEAST_SAVING_AT_ONCE))
    }

    /// Four rings over two whole rings. On request only: all axes at once load the links equally in fewer hops.
    fn quad<'p>(&self, problem: &Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let [(first, _), (second, _)] = *runs else { return None };
        let is_whole = |run: Axes| {
            let links = self.topology.links(run);
            links.wiring == Wiring::Ring && links.apart == 1
        };
        let gathers = matches!(
            problem.kind,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce
        );
        if !gathers || !problem.divides(&self.topology.mesh) || !is_whole(first) || !is_whole(second) {
            return None;
        }
        let rings = Quad::new(&self.topology.mesh, [first, second], problem.dims.clone())?;
        Some(Candidate::once(vec![Stage::Quad { kind: problem.kind, rings }]))
    }

    /// Whether packed trees are candidates: on irregular links, for broadcasts in a full mesh, and for sums that would leave
    /// inner links of a line idle in turn.
    fn packing_pays(&self, problem: &Problem, runs: &[(Axes, usize)]) -> bool {
        let is_line = |(run, _): &(Axes, usize)| self.topology.links(*run).wiring == Wiring::Line;
        let idle_in_turns = problem.kind == CollectiveKind::AllReduce && runs.len() > 1 && runs.iter().any(is_line);
        let is_full_mesh = |(run, _): &(Axes, usize)| self.topology.links(*run).wiring == Wiring::Full;
        let spreads = problem.kind == CollectiveKind::Broadcast && runs.iter().any(is_full_mesh);
        self.topology.is_irregular() || idle_in_turns || spreads
    }

    fn packed<'p>(&self, problem: &Problem) -> Option<Candidate<'p>> {
        if problem.extents.is_empty() {
            return None;
        }
        let (axes, dims) = (problem.axes(), problem.dims.clone());
        let key = (problem.kind, axes);
        let known = self.trees.borrow().get(&key).cloned();
        let trees = known.unwrap_or_else(|| {
            let part = self.part(axes.set());
            let found = packing::trees(&part.topology, problem.kind, part.axes(axes));
            self.trees.borrow_mut().insert(key, found.clone());
            found
        })?;
        let trees = methods::Packed { axes, dims, trees, chunks: 1 };
        let longest = packing::longest(&self.topology.mesh, problem);
        let counts = (1..=packing::MOST_CHUNKS.min(longest)).filter(|chunks| longest.is_multiple_of(*chunks)).collect();
        let kind = problem.kind;
        let stage = move |chunks| Stage::Packed { kind, trees: methods::Packed { chunks, ..trees.clone() } };
        Some(Candidate::new(stage, counts, LEAST_SAVING))
    }

    /// Along as many trees and their translations as load all links alike, where devices have links in several directions.
    pub(super) fn along_even_trees(&self, problem: &Problem) -> Option<Vec<Stage>> {
        let even = self.translated(problem).pop().filter(|_| problem.to.is_none())?;
        let branches = self.translations.borrow().get(&problem.axes())?.as_ref()?.1.branches();
        branches.then(|| even.stages(1))
    }

    /// Along paths and their translations, over a fabric that looks the same from every device: a gather or a sum along one
    /// tree, and along as many as load all links alike; an exchange along a path to each device. Over other fabrics, a gather or
    /// a sum around all devices in a better order than that of the mesh.
    fn translated<'p>(&self, problem: &Problem) -> Vec<Candidate<'p>> {
        let (kind, axes) = (problem.kind, problem.axes());
        let is_known = matches!(
            kind,
            CollectiveKind::AllGather
                | CollectiveKind::ReduceScatter
                | CollectiveKind::AllReduce
                | CollectiveKind::AllToAll
        );
        if !is_known || problem.extents.is_empty() || !problem.divides(&self.topology.mesh) {
            return Vec::new();
        }
        let known = self.translations.borrow().get(&axes).cloned();
        let found = known.unwrap_or_else(|| {
            let part = self.part(axes.set());
            let found = packing::translations(&part.topology, part.axes(axes));
            let around = || ring_order(&part.topology, part.axes(axes)).map(|order| Translations::around(&order));
            let found = found.or_else(around);
            // Devices of a group may reach each other through other groups only.
            let found = found.and_then(|found| Some((found.even(MOST_TREES)?, Arc::new(found))));
            self.translations.borrow_mut().insert(axes, found.clone());
            found
        });
        let Some((even, translations)) = found else { return Vec::new() };
        let longest = usize::try_from(packing::longest(&self.topology.mesh, problem)).unwrap_or(MOST_TREES);
        let along = methods::Translated { axes, dims: problem.dims.clone(), translations };
        if let Some(to) = problem.to {
            let paths = along.translations.paths().filter(|_| along.translations.branches()).map(Arc::new);
            let Some(paths) = paths else { return Vec::new() };
            let stage =
                |parts| Stage::TranslatedExchange { along: along.clone(), paths: Arc::clone(&paths), parts, to };
            return [1, 4].map(|parts| Candidate::once(vec![stage(parts)])).into();
        }
        let candidate = |count: usize| {
            let trees = Arc::new(along.translations.trees(count)?);
            Some(Candidate::once(vec![Stage::Translated { kind, along: along.clone(), trees }]))
        };
        [1, even.min(longest)].into_iter().unique().filter_map(candidate).collect()
    }

    fn broadcast_packed<'p>(&self, problem: &'p Problem, runs: &[(Axes, usize)]) -> Option<Candidate<'p>> {
        let axes: Axes = runs.iter().flat_map(|(run, _)| run.iter()).collect();
        let part = self.part(axes.set());
        let root = problem.root_along(axes, &self.topology.mesh);
        let trees = packing::from_root(&part.topology, part.axes(axes), root)?;
        let stage = move |chunks| Stage::BroadcastPacked { axes, trees: trees.clone(), chunks };
        Some(Candidate::new(stage, self.tree_chunks(problem), LEAST_SAVING))
    }
}

fn axes_of(runs: &[(Axes, usize)]) -> Vec<Axes> {
    runs.iter().map(|(run, _)| *run).collect()
}

/// The numbers of chunks up to 2^16 that divide some dim.
fn divisors(extents: &[u64]) -> Vec<u64> {
    let of = |size: u64| (1..=size.min(1 << 16)).filter(move |divisor| size.is_multiple_of(*divisor));
    let counts: BTreeSet<u64> = extents.iter().flat_map(|extent| of(*extent)).chain([1]).collect();
    counts.into_iter().collect()
}
