//! How the steps of a plan overlap: which runs are done in pieces, and in which order all is listed.
//!
//! The costs of steps add up, their times on the machine do not: so whole schedules are tried on the clock, and the fastest
//! is taken. Every one of them computes the same, which the proof shows of the one that is taken.

use crate::lower;
use crate::plan::unroll;
use crate::plan::{Listing, Order, Overlap, Pipeline, Plan, Run, StepId, StepOp, Whole, runs};
use crate::recipe::{self, Tuner};
use crate::schedule::{Schedule, Verified};
use crate::sim::{clock, usage};
use crate::syntax::Measure;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// In how many pieces runs are tried first; from there on in twice and half as many, as long as that is faster.
const FIRST_PIECES: [u64; 3] = [2, 4, 16];

/// The most pieces of a run.
const MOST_PIECES: u64 = 64;

/// So many iterations of a body tell how it overlaps with itself.
const ITERATIONS: u64 = 3;

/// What saves less than this part of the time is not worth more operations.
const LEAST_SAVING: u128 = 100;

/// Lowering an operation takes the time in which the clock follows it on this many devices.
const LOWERING: usize = 8;

/// Runs times operations of the schedule up to which each run is tried within the whole schedule; above it, by itself.
const MOST_AT_ONCE: usize = 20_000;

/// The same plan with the fastest overlap that was found.
///
/// A program that repeats too often to be spelled out stays as it is: what it comes to could not be counted.
///
/// - `tuner`: for a number of pieces, finds recipes of collectives that are done this often one after the other; on the
///   mesh of the plan.
/// - `topology`: the machine, as the plan speaks of it.
/// - `effort`: the most operations of all schedules that are tried, times the devices that are followed.
pub fn overlapped<'a>(plan: Plan, tuner: impl Fn(u64) -> Tuner<'a>, topology: &Topology, effort: usize) -> Plan {
    let Ok(unrolled) = unroll::unroll(&plan) else { return plan };
    let counts = (1..=MOST_PIECES.ilog2()).map(|step| 1 << step);
    let tuners: BTreeMap<u64, Tuner<'_>> = counts.map(|pieces| (pieces, tuner(pieces))).collect();
    let chosen = Search::new(&plan, &tuners, topology, effort).and_then(Search::best);
    match chosen {
        Some(overlap) => with_overlap(plan, &unrolled, overlap, topology),
        None => plan,
    }
}

/// The plan with what its steps and its whole come to when they overlap.
///
/// - `unrolled`: the same plan with its repeats spelled out.
fn with_overlap(mut plan: Plan, unrolled: &Plan, mut overlap: Overlap, topology: &Topology) -> Plan {
    let listed = lower::listed(unrolled, &Listing::overlapped(unrolled, &overlap, topology));
    overlap.whole = listed.ok().filter(|schedule| !recipe::is_larger_than_proven(schedule)).and_then(|schedule| {
        let schedule = Verified::emitted(&schedule);
        let time = clock::run_below(schedule, topology, Time::MAX).ok()??.makespan;
        Some(Whole { time, peak: usage::of(schedule).peak })
    });
    // What overlaps in a few iterations may be too much to be proven in all of them, or to be held.
    let most = memory(&plan);
    if overlap.whole.is_none_or(|whole| most.is_some_and(|most| whole.peak > most)) {
        return plan;
    }
    for pipeline in &overlap.pipelines {
        for (id, piece) in &pipeline.steps {
            if let Some((_, usage)) = &piece.moved {
                let of_pieces = &mut plan.steps[*id].usage;
                of_pieces.traffic = usage.traffic.map(|traffic| traffic.times(pipeline.pieces));
                of_pieces.links = usage.links.iter().map(|load| load.times(pipeline.pieces)).collect();
            }
        }
    }
    plan.overlap = overlap;
    plan
}

/// The most memory that the program allows a device.
fn memory(plan: &Plan) -> Option<Bytes> {
    let limits = plan.program.limits.iter().filter(|limit| limit.measure == Measure::Memory);
    limits.filter_map(|limit| u64::try_from(limit.amount.value).ok()).min().map(Bytes)
}

/// Runs on which all is alike but the steps.
struct Shape<'r> {
    /// What one of them saves by itself, and in how many pieces.
    saved: Option<(u128, u64)>,
    runs: Vec<&'r Run>,
}

struct Search<'a> {
    plan: &'a Plan,
    /// With few iterations of each body.
    short: Plan,
    /// By the number of pieces.
    tuners: &'a BTreeMap<u64, Tuner<'a>>,
    topology: &'a Topology,
    /// The most memory that the program allows.
    memory: Option<Bytes>,
    /// Operations of the whole if nothing overlaps.
    operations: usize,
    /// Devices that the clock follows.
    followed: usize,
    /// How many operations, times the devices that are followed, may still be tried.
    left: usize,
    time: Time,
    best: Overlap,
}

impl<'a> Search<'a> {
    /// `None` where nothing could overlap: the links and the engine that are busy longest are so all the time.
    fn new(
        plan: &'a Plan,
        tuners: &'a BTreeMap<u64, Tuner<'a>>,
        topology: &'a Topology,
        effort: usize,
    ) -> Option<Search<'a>> {
        let sends = plan.ids().filter(|id| plan.communicates(*id)).count();
        let others = plan.ids().filter(|id| !matches!(plan.step(*id).op, StepOp::Input | StepOp::Carry)).count();
        if sends == 0 || others < 2 {
            return None;
        }
        let short = unroll::at_most(plan, ITERATIONS);
        let mut search = Search {
            plan,
            short,
            tuners,
            topology,
            memory: memory(plan),
            operations: 0,
            followed: 1,
            left: effort,
            time: Time::MAX,
            best: Overlap::default(),
        };
        let schedule = search.schedule(&Overlap::default())?;
        let verified = Verified::emitted(&schedule);
        let collapsed = clock::collapsed(verified, topology).group_size(&schedule.mesh);
        search.followed = schedule.mesh.device_count() / usize::try_from(collapsed).unwrap_or(1).max(1);
        search.spend(&schedule)?;
        let timing = clock::run_below(verified, topology, Time::MAX).ok()??;
        (search.time, search.operations) = (timing.makespan, schedule.operations.node_count());
        let engines = timing.engines.iter().copied().max().unwrap_or_default();
        let busy = engines.max(timing.busiest_link_time());
        search.is_saved(busy).then_some(search)
    }

    /// Counts what is tried; `None` where it is enough, and from then on.
    fn spend(&mut self, schedule: &Schedule) -> Option<()> {
        let work = schedule.operations.node_count().saturating_mul(LOWERING + self.followed);
        let left = self.left.checked_sub(work);
        self.left = left.unwrap_or_default();
        left.map(drop)
    }

    /// The run cut into this number of pieces; `None` if it cannot be.
    fn cut(&self, run: &Run, pieces: u64) -> Option<Pipeline> {
        run.in_pieces(self.plan, pieces, self.tuners.get(&pieces)?)
    }

    /// Whether a time is worth more operations.
    fn is_saved(&self, time: Time) -> bool {
        time.ticks() < self.time.ticks() - self.time.ticks() / LEAST_SAVING
    }

    fn schedule(&self, overlap: &Overlap) -> Option<Schedule> {
        let listing = Listing::overlapped(&self.short, overlap, self.topology);
        let schedule = lower::listed(&self.short, &listing).ok()?;
        (!recipe::is_larger_than_proven(&schedule)).then_some(schedule)
    }

    /// The time of a schedule that is faster than the best so far.
    fn faster(&mut self, overlap: &Overlap) -> Option<Time> {
        if self.left == 0 {
            return None;
        }
        let schedule = self.schedule(overlap)?;
        self.spend(&schedule)?;
        let verified = Verified::emitted(&schedule);
        let time = clock::run_below(verified, self.topology, self.time).ok()??.makespan;
        let fits = self.memory.is_none_or(|most| usage::of(verified).peak <= most);
        (self.is_saved(time) && fits).then_some(time)
    }

    /// Takes an overlap if it is faster.
    fn take(&mut self, overlap: Overlap) -> bool {
        let time = self.faster(&overlap);
        if let Some(time) = time {
            (self.time, self.best) = (time, overlap);
        }
        time.is_some()
    }

    /// The best that was found; `None` where it is faster if nothing overlaps.
    fn best(mut self) -> Option<Overlap> {
        self.take(Overlap { order: Order::Ready, ..Overlap::default() });
        let windows: BTreeSet<Run> = runs(self.plan).iter().flat_map(|run| run.windows(self.plan)).collect();
        // What may save most comes first: the rest is soon seen to save less.
        let windows: Vec<Run> = windows.into_iter().sorted_by_key(|run| Reverse(self.hidden(run))).collect();
        if windows.len() * self.operations > MOST_AT_ONCE {
            self.one_by_one(&windows);
        } else {
            // What saves most first may stand in the way of what saves more.
            let start = (self.time, self.best.clone());
            let mut found = start.clone();
            for first in FIRST_PIECES {
                (self.time, self.best) = start.clone();
                while let Some(run) = self.longer(&windows, first) {
                    self.in_more_or_fewer(run);
                }
                if self.time < found.0 {
                    found = (self.time, self.best.clone());
                }
            }
            (self.time, self.best) = found;
        }
        (!self.best.is_none()).then_some(self.best)
    }

    /// The most time that a run could save: all of it but what its busiest part takes.
    fn hidden(&self, run: &Run) -> u128 {
        let time = |id: StepId| (self.plan.step(id).cost.time * self.plan.times(id)).ticks();
        let (moves, computing): (Vec<StepId>, Vec<StepId>) = run.steps().partition(|id| self.plan.communicates(*id));
        let [moving, computing] = [&moves, &computing].map(|steps| steps.iter().map(|id| time(*id)).sum::<u128>());
        let longest = moves.into_iter().map(time).max().unwrap_or_default();
        (moving + computing).saturating_sub(longest.max(computing))
    }

    /// Does runs in pieces that save most by themselves, where there are too many to try each of them in the whole: those
    /// that save most all at once, or those of one shape after those of another, as layers have them.
    fn one_by_one(&mut self, windows: &[Run]) {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut shapes: Vec<Shape<'_>> = Vec::new();
        // Half of the effort is for the whole. Short runs are tried sooner than long ones that hide as much for each step.
        let half = self.left / 2;
        let by_step = |run: &&Run| Reverse(self.hidden(run) / run.steps().count().max(1) as u128);
        for run in windows.iter().sorted_by_key(by_step) {
            let shape = run.shape(self.plan);
            let place = match places.get(&shape) {
                Some(place) => *place,
                None if self.left < half => continue,
                None => {
                    places.insert(shape, shapes.len());
                    shapes.push(Shape { saved: self.saved_alone(run), runs: Vec::new() });
                    shapes.len() - 1
                }
            };
            shapes[place].runs.push(run);
        }
        shapes.retain(|shape| shape.saved.is_some());
        shapes.sort_by_key(|shape| (Reverse(shape.saved), shape.runs[0]));
        let start = (self.time, self.best.clone());
        self.shape_by_shape(&shapes);
        let found = (self.time, std::mem::replace(&mut self.best, start.1));
        self.time = start.0;
        self.all_at_once(&shapes);
        if found.0 < self.time {
            (self.time, self.best) = found;
        }
    }

    /// All runs of a shape are in pieces, or none.
    fn shape_by_shape(&mut self, shapes: &[Shape<'_>]) {
        let mut pipelines: Vec<Pipeline> = Vec::new();
        for shape in shapes {
            let Some((_, pieces)) = shape.saved else { continue };
            let mut more = pipelines.clone();
            for run in &shape.runs {
                if run.fits(&more) {
                    more.extend(self.cut(run, pieces));
                }
            }
            if more.len() > pipelines.len() && self.take_with(&[], more.clone()) {
                pipelines = more;
            }
        }
    }

    /// Those that save most, and no step in two of them.
    fn all_at_once(&mut self, shapes: &[Shape<'_>]) {
        let mut saving: Vec<(u128, u64, &Run)> = Vec::new();
        for shape in shapes {
            saving.extend(
                shape.saved.iter().flat_map(|(ticks, pieces)| shape.runs.iter().map(|run| (*ticks, *pieces, *run))),
            );
        }
        saving.sort_by_key(|(ticks, _, run)| (Reverse(*ticks), *run));
        let mut pipelines: Vec<Pipeline> = Vec::new();
        let mut taken: BTreeSet<StepId> = BTreeSet::new();
        for (_, pieces, run) in saving {
            if run.steps().all(|id| !taken.contains(&id)) {
                taken.extend(run.steps());
                pipelines.extend(self.cut(run, pieces));
            }
        }
        // Together they may be too many operations, or slower: then only those that save most.
        while !pipelines.is_empty() && !self.take_with(&[], pipelines.clone()) {
            pipelines.truncate(pipelines.len() / 2);
        }
    }

    /// What a run by itself saves if it is done in pieces, and in how many it saves most.
    fn saved_alone(&mut self, run: &Run) -> Option<(u128, u64)> {
        let steps: BTreeSet<StepId> = run.steps().collect();
        let whole = self.time_alone(&steps, &Overlap::default())?;
        let mut best: Option<(u128, u64)> = None;
        let mut pieces = 2;
        while pieces <= MOST_PIECES {
            let Some(pipeline) = self.cut(run, pieces) else { break };
            let overlap = Overlap { pipelines: vec![pipeline], order: Order::Ready, whole: None };
            let now = self.time_alone(&steps, &overlap)?;
            let saved = whole.saturating_sub(now);
            if saved <= best.map_or(0, |(saved, _)| saved) + whole / LEAST_SAVING {
                break;
            }
            best = Some((saved, pieces));
            pieces *= 2;
        }
        best
    }

    /// The time of some steps by themselves.
    fn time_alone(&mut self, steps: &BTreeSet<StepId>, overlap: &Overlap) -> Option<u128> {
        if self.left == 0 {
            return None;
        }
        let listing = Listing::alone(self.plan, steps).overlapping(self.plan, overlap, self.topology);
        let schedule = lower::listed(self.plan, &listing).ok()?;
        self.spend(&schedule)?;
        Some(clock::run_below(Verified::emitted(&schedule), self.topology, Time::MAX).ok()??.makespan.ticks())
    }

    /// Does one more run in pieces, that which saves most; `None` if none saves anything.
    ///
    /// - `first`: in how many pieces, if there can be as many.
    fn longer<'r>(&mut self, windows: &'r [Run], first: u64) -> Option<&'r Run> {
        let before = self.best.pipelines.clone();
        let tried = windows.iter().filter(|run| run.fits(&before));
        let fewer = |step: u32| Some(first >> step).filter(|pieces| *pieces >= 2);
        let saves = |run: &&Run| {
            let counts = (0..).map_while(fewer);
            let pipeline = counts.filter_map(|pieces| self.cut(run, pieces)).next();
            pipeline.is_some_and(|pipeline| self.take_with(&before, vec![pipeline]))
        };
        tried.filter(saves).last()
    }

    /// Takes the run that was added last in more pieces, or in fewer, as long as that is faster.
    fn in_more_or_fewer(&mut self, run: &Run) {
        let Some((last, before)) = self.best.pipelines.split_last() else { return };
        let (first, before) = (last.pieces, before.to_vec());
        let mut take = |pieces: u64| {
            let pipeline = self.cut(run, pieces);
            pipeline.is_some_and(|pipeline| self.take_with(&before, vec![pipeline]))
        };
        let doubled = (1..).map(|step| first << step).take_while(|pieces| *pieces <= MOST_PIECES);
        let more = doubled.take_while(|pieces| take(*pieces)).count();
        let halved = (1..).map(|step| first >> step).take_while(|pieces| more == 0 && *pieces >= 2);
        let _ = halved.take_while(|pieces| take(*pieces)).count();
    }

    fn take_with(&mut self, before: &[Pipeline], more: Vec<Pipeline>) -> bool {
        let pipelines = before.iter().cloned().chain(more).collect();
        self.take(Overlap { pipelines, order: Order::Ready, whole: None })
    }
}
