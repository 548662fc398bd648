//! Overlap of the steps of a plan: the runs to split into pieces, and the order of all steps.
//!
//! Costs of steps add up, but their times overlap. Therefore whole schedules are timed on the clock, and the fastest is
//! chosen. All of them compute the same result, which the proof checks for the chosen one.

mod requested;

use crate::lower;
use crate::plan::{self, unroll};
use crate::plan::{Division, Listing, Order, Overlap, Pipeline, Plan, Run, StepId, StepOp, Whole, windows};
use crate::program::PieceCount;
use crate::recipe::{self, Tuner};
use crate::schedule::{Schedule, Verified};
use crate::sim::usage::StepUsage;
use crate::sim::{clock, usage};
use crate::syntax::Measure;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use requested::Request;
pub use requested::unmet;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Number of pieces tried first; then twice and half as many, as long as that is faster.
const FIRST_PIECES: [u64; 3] = [2, 4, 16];

/// Numbers of pieces from which local search starts.
const FEW_PIECES: [u64; 2] = [2, 4];

/// Divisions near one, by the length of a shard: other numbers of pieces, and shorter pieces at the ends, where they are
/// exposed.
const NEAR: [fn(Division, u64) -> Option<Division>; 8] = [
    |division, length| Division::nearly_even(division.equal() * 3 / 2, length),
    |division, length| Division::nearly_even(division.equal() * 3 / 4, length),
    |division, length| Division::nearly_even(division.equal() * 5 / 4, length),
    |division, length| Division::nearly_even(division.equal() * 2, length),
    |division, length| Division::nearly_even(division.equal() / 2, length),
    |division, _| division.with_shorter_first()?.with_shorter_last(),
    |division, _| division.with_shorter_last(),
    |division, _| division.with_shorter_first(),
];

/// Groups of collectives that are bundled.
const MOST_GROUPS: usize = 16;

/// Numbers of parts in which a group is bundled: 1, 2, 4 and 8.
const MOST_PARTS: usize = 4;

/// Iterations of a body that show how it overlaps with itself.
const ITERATIONS: u64 = 3;

/// Smallest relative saving that justifies more operations.
const LEAST_SAVING: u128 = 100;

/// Smallest relative saving of a change that others may follow, if it needs more operations.
const LEAST_SAVING_OF_CHANGE: u128 = 200;

/// Smallest relative saving that justifies another order of as many operations.
const LEAST_SAVING_OF_ORDER: u128 = 1000;

/// Cost of lowering an operation, as the number of devices the clock could follow in the same time.
const LOWERING: usize = 8;

/// Effort for each operation of a long program: a few schedules in pieces.
const EFFORT_OF_AN_OPERATION: usize = 16 * LOWERING;

/// Limit on runs or steps times operations up to which each is tried within the whole schedule; above it, runs are timed
/// separately.
const MOST_AT_ONCE: usize = 20_000;

/// Finds the fastest overlap of a plan, and the time of the plan with it.
///
/// A program with too many repetitions to unroll is returned unchanged.
///
/// - `in_sequence`: the schedule of the unrolled plan without overlap, if it is known and not too large to prove.
/// - `tuner`: finds recipes of collectives that are repeated this many times in sequence; on the mesh of the plan.
/// - `topology`: the topology that the plan refers to.
/// - `effort`: limit on operations times followed devices, over all schedules tried; more for long programs.
pub fn overlapped<'a>(
    plan: Plan,
    in_sequence: Option<&Schedule>,
    tuner: impl Fn(u64) -> Tuner<'a>,
    topology: &Topology,
    effort: usize,
) -> Plan {
    let Ok(unrolled) = unroll::unroll(&plan) else { return plan };
    let tuners = tuners(tuner);
    let in_sequence = in_sequence.filter(|_| plan.program.repeats.is_empty());
    let chosen = Search::new(&plan, in_sequence, &tuners, topology, effort).and_then(Search::best);
    let in_order = || match in_sequence {
        Some(schedule) => timed(&plan, schedule, Overlap::default(), topology),
        None => lowered(&plan, &unrolled, Overlap::default(), topology),
    };
    match chosen.and_then(|overlap| lowered(&plan, &unrolled, overlap, topology)).or_else(in_order) {
        Some(overlap) => with_overlap(plan, overlap),
        None => plan,
    }
}

/// Improves the overlap of a plan by local search, if it is a short one.
///
/// The arguments are those of [`overlapped`].
pub fn improved<'a>(plan: Plan, tuner: impl Fn(u64) -> Tuner<'a>, topology: &Topology, effort: usize) -> Plan {
    let apart = without_overlap(plan.clone());
    let Ok(unrolled) = unroll::unroll(&apart) else { return plan };
    let tuners = tuners(tuner);
    let search = Search::new(&apart, None, &tuners, topology, effort);
    let found = search.and_then(|search| search.improved(&plan.overlap));
    match found.and_then(|overlap| lowered(&apart, &unrolled, overlap, topology)) {
        Some(overlap) if overlap.whole.map(|whole| whole.time) < Some(plan.time()) => with_overlap(apart, overlap),
        Some(_) | None => plan,
    }
}

/// The tuners by number of pieces.
fn tuners<'a>(tuner: impl Fn(u64) -> Tuner<'a>) -> BTreeMap<u64, Tuner<'a>> {
    let counts = (0..=PieceCount::MOST.ilog2()).map(|step| 1 << step);
    counts.map(|pieces| (pieces, tuner(pieces))).collect()
}

/// As [`timed`], for the schedule that is lowered.
fn lowered(plan: &Plan, unrolled: &Plan, overlap: Overlap, topology: &Topology) -> Option<Overlap> {
    let schedule = lower::listed(unrolled, &Listing::overlapped(unrolled, &overlap, topology)).ok()?;
    timed(plan, &schedule, overlap, topology)
}

/// An overlap with the figures of the whole plan; `None` if that takes no less time than its steps in sequence and is not
/// requested, needs more memory than the limit, or is too large to be proven. Steps in program order overlap, too: links
/// work while devices compute.
///
/// - `schedule`: of the plan with this overlap and with its repeats unrolled.
fn timed(plan: &Plan, schedule: &Schedule, overlap: Overlap, topology: &Topology) -> Option<Overlap> {
    if recipe::is_too_large(schedule) {
        return None;
    }
    let schedule = Verified::emitted(schedule);
    let is_requested = !overlap.is_none() && !requested::requests(plan).is_empty();
    let most = if is_requested { Time::MAX } else { plan.totals().time() };
    let time = clock::run_below(schedule, topology, most).ok()??.makespan;
    // What overlaps in a few iterations may be too much to be held in all of them.
    let peak = usage::of(schedule).peak;
    let whole = Some(Whole { time, peak });
    memory(plan).is_none_or(|most| peak <= most).then_some(Overlap { whole, ..overlap })
}

/// The plan with this overlap and the traffic of its steps.
fn with_overlap(mut plan: Plan, mut overlap: Overlap) -> Plan {
    let mut changed: BTreeMap<StepId, StepUsage> = BTreeMap::new();
    for pipeline in &overlap.pipelines {
        let moved = pipeline.steps.keys().filter_map(|id| Some((*id, pipeline.moved(*id, &plan.program.mesh)?)));
        changed.extend(moved);
    }
    // The first step of a bundle is the collective; the others send nothing.
    for bundle in &overlap.bundles {
        let own = |place: usize| if place == 0 { bundle.usage.clone() } else { StepUsage::none() };
        changed.extend(bundle.steps().enumerate().map(|(place, id)| (id, own(place))));
    }
    for (id, new) in changed {
        let usage = &mut plan.steps[id].usage;
        overlap.before.insert(id, usage.clone());
        (usage.traffic, usage.links) = (new.traffic, new.links);
    }
    Plan { overlap, ..plan }
}

/// The plan with its steps one after the other.
fn without_overlap(mut plan: Plan) -> Plan {
    for (id, usage) in std::mem::take(&mut plan.overlap).before {
        plan.steps[id].usage = usage;
    }
    plan
}

/// The memory limit of the program.
fn memory(plan: &Plan) -> Option<Bytes> {
    let limits = plan.program.limits.iter().filter(|limit| limit.measure == Measure::Memory);
    limits.filter_map(|limit| u64::try_from(limit.amount.value).ok()).min().map(Bytes)
}

/// An overlap of the whole plan, with its time and its operations.
#[derive(Clone)]
struct Found {
    overlap: Overlap,
    time: Time,
    made: usize,
}

/// Runs of equal shape.
struct Shape<'r> {
    /// Time saved by one of them when run separately, and its division.
    saved: Option<(u128, Division)>,
    runs: Vec<&'r Run>,
}

struct Search<'a> {
    plan: &'a Plan,
    /// The plan with few iterations of each body.
    short: Plan,
    /// Tuners by number of pieces.
    tuners: &'a BTreeMap<u64, Tuner<'a>>,
    topology: &'a Topology,
    /// The memory limit of the program.
    memory: Option<Bytes>,
    /// The pieces that statements request.
    requests: Vec<Request>,
    /// Operations of the whole plan without overlap.
    operations: usize,
    /// Devices that the clock follows.
    followed: usize,
    /// Remaining effort, in operations times followed devices.
    left: usize,
    /// Smallest relative saving that justifies more operations.
    least_saving: u128,
    /// The best overlap so far, its time and its operations.
    best: Overlap,
    time: Time,
    made: usize,
}

impl<'a> Search<'a> {
    /// `None` if nothing can overlap: the busiest link and engine are always busy.
    ///
    /// - `in_sequence`: the schedule without overlap, if it is known.
    fn new(
        plan: &'a Plan,
        in_sequence: Option<&Schedule>,
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
            requests: requested::requests(plan),
            operations: 0,
            followed: 1,
            left: effort,
            least_saving: LEAST_SAVING,
            best: Overlap::default(),
            time: Time::MAX,
            made: 0,
        };
        let schedule = match in_sequence {
            Some(schedule) => Cow::Borrowed(schedule),
            None => Cow::Owned(search.schedule(&Overlap::default())?),
        };
        let verified = Verified::emitted(&schedule);
        let collapsed = clock::collapsed(verified, topology).group_size(&schedule.mesh);
        search.followed = schedule.mesh.device_count() / usize::try_from(collapsed).unwrap_or(1).max(1);
        if search.spend(&schedule).is_none() && search.requests.is_empty() {
            return None;
        }
        let timing = clock::run_below(verified, topology, Time::MAX).ok()??;
        (search.time, search.operations) = (timing.makespan, schedule.operations.node_count());
        search.made = search.operations;
        search.left = search.left.max(search.operations.saturating_mul(EFFORT_OF_AN_OPERATION));
        let engines = timing.engines.iter().copied().max().unwrap_or_default();
        let busy = engines.max(timing.busiest_link_time());
        // One message takes less time than several small ones, also on links that are always busy.
        let may_save = search.is_saved(busy, usize::MAX) || !plan::alike(plan).is_empty();
        (may_save || !search.requests.is_empty()).then_some(search)
    }

    /// Counts a trial; `None` once the effort is spent.
    fn spend(&mut self, schedule: &Schedule) -> Option<()> {
        let work = schedule.operations.node_count().saturating_mul(LOWERING + self.followed);
        let left = self.left.checked_sub(work);
        self.left = left.unwrap_or_default();
        left.map(drop)
    }

    /// The run split into pieces; `None` if it cannot be split, or a statement requests other pieces.
    fn cut(&self, run: &Run, division: Division) -> Option<Pipeline> {
        if !self.requests.iter().all(|request| request.permits(run, division)) {
            return None;
        }
        let (_, tuner) = self.tuners.range(..=division.equal()).next_back()?;
        run.in_pieces(self.plan, division, tuner)
    }

    /// Whether a time justifies a schedule of this many operations.
    fn is_saved(&self, time: Time, operations: usize) -> bool {
        let least = if operations > self.made { self.least_saving } else { LEAST_SAVING_OF_ORDER };
        time.ticks() < self.time.ticks() - self.time.ticks() / least
    }

    fn schedule(&self, overlap: &Overlap) -> Option<Schedule> {
        let listing = Listing::overlapped(&self.short, overlap, self.topology);
        let schedule = lower::listed(&self.short, &listing).ok()?;
        (!recipe::is_larger_than_proven(&schedule)).then_some(schedule)
    }

    /// The time and the operations of a schedule if it beats the best so far.
    fn faster(&mut self, overlap: &Overlap) -> Option<(Time, usize)> {
        if self.left == 0 {
            return None;
        }
        let schedule = self.schedule(overlap)?;
        self.spend(&schedule)?;
        let (time, made) = self.figures(&schedule, self.time)?;
        self.is_saved(time, made).then_some((time, made))
    }

    /// The time and the operations of a schedule; `None` if it takes longer than a time or needs more memory than the limit.
    fn figures(&self, schedule: &Schedule, most: Time) -> Option<(Time, usize)> {
        let verified = Verified::emitted(schedule);
        let time = clock::run_below(verified, self.topology, most).ok()??.makespan;
        let fits = self.memory.is_none_or(|most| usage::of(verified).peak <= most);
        fits.then_some((time, schedule.operations.node_count()))
    }

    /// Keeps an overlap if it is faster.
    fn take(&mut self, overlap: Overlap) -> bool {
        let faster = self.faster(&overlap);
        if let Some((time, made)) = faster {
            (self.best, self.time, self.made) = (overlap, time, made);
        }
        faster.is_some()
    }

    /// An overlap with its figures, whatever the best so far and the effort.
    fn known(&mut self, overlap: Overlap) -> Option<Found> {
        let schedule = self.schedule(&overlap)?;
        let _ = self.spend(&schedule);
        let (time, made) = self.figures(&schedule, Time::MAX)?;
        Some(Found { overlap, time, made })
    }

    /// The best so far.
    fn found(&self) -> Found {
        Found { overlap: self.best.clone(), time: self.time, made: self.made }
    }

    /// Goes back, or on, to what was found.
    fn resume(&mut self, found: Found) {
        (self.best, self.time, self.made) = (found.overlap, found.time, found.made);
    }

    /// The best overlap found; `None` if none is faster.
    fn best(mut self) -> Option<Overlap> {
        let effort = self.left;
        self.split_requested();
        self.take(Overlap { order: Order::Ready, ..self.best.clone() });
        let windows = self.windows();
        let start = self.found();
        self.split(&windows);
        self.bundle();
        let found = self.found();
        self.resume(start);
        // What is bundled first is in no run that is split.
        self.bundle();
        if !self.best.bundles.is_empty() {
            let apart = self.without_bundled(&windows);
            self.split(&apart);
        }
        if found.time <= self.time {
            self.resume(found);
        }
        // What was found is not given up for a lack of effort.
        self.left = self.left.max(effort / 2);
        self.divide_nearby();
        (!self.best.is_none()).then_some(self.best)
    }

    /// What is faster than a known overlap of a short program; `None` if nothing is found.
    fn improved(mut self, known: &Overlap) -> Option<Overlap> {
        let windows = self.windows();
        if windows.len() * self.operations > MOST_AT_ONCE {
            return None;
        }
        let requested = known.pipelines.iter().filter(|pipeline| self.is_requested(pipeline)).cloned().collect_vec();
        let is_free = requested.is_empty();
        if !is_free {
            let found = self.known(Overlap { pipelines: requested, order: Order::Ready, ..Overlap::default() })?;
            self.resume(found);
        }
        let start = self.found();
        let known = Overlap { whole: None, before: BTreeMap::new(), ..known.clone() };
        if !is_free {
            let found = self.known(known)?;
            self.resume(found);
        } else if !known.is_none() && !self.take(known) {
            return None;
        }
        let before = self.time;
        self.improve(&windows, &start);
        (self.time < before).then_some(self.best)
    }

    /// The runs that may be split. What may save most comes first: the rest is soon seen to save less.
    fn windows(&self) -> Vec<Run> {
        let windows =
            windows(self.plan).into_iter().filter(|run| !self.requests.iter().any(|request| request.keeps_whole(run)));
        windows.sorted_by_key(|run| Reverse(self.hidden(run))).collect()
    }

    /// Whether a statement requests this pipeline.
    fn is_requested(&self, pipeline: &Pipeline) -> bool {
        self.requests.iter().any(|request| request.is_met_by(pipeline))
    }

    /// Splits the runs that statements request, each in the fastest way, even if it takes longer than whole steps.
    fn split_requested(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let windows = self.windows();
        for request in self.requests.clone() {
            let before = self.best.pipelines.clone();
            if before.iter().any(|pipeline| request.is_met_by(pipeline)) {
                continue;
            }
            let mut fastest: Option<Found> = None;
            for run in windows.iter().filter(|run| request.allows(run) && run.fits(&before)) {
                let division = request.division(run, self.plan);
                let Some(pipeline) = division.and_then(|division| self.cut(run, division)) else { continue };
                let pipelines = before.iter().cloned().chain([pipeline]).collect();
                let found = self.known(Overlap { pipelines, order: Order::Ready, ..Overlap::default() });
                let found = found.filter(|found| fastest.as_ref().is_none_or(|fastest| found.time < fastest.time));
                fastest = found.or(fastest);
                if self.left == 0 && fastest.is_some() {
                    break;
                }
            }
            if let Some(found) = fastest {
                self.resume(found);
            }
        }
    }

    /// The runs without steps of the bundles of the best overlap.
    fn without_bundled(&self, windows: &[Run]) -> Vec<Run> {
        let is_bundled = |id: StepId| self.best.bundles.iter().any(|bundle| bundle.steps().contains(&id));
        windows.iter().filter(|run| !run.steps().any(is_bundled)).cloned().collect()
    }

    /// Splits the runs that save most.
    ///
    /// - `windows`: the runs, with what may save most first.
    fn split(&mut self, windows: &[Run]) {
        if windows.len() * self.operations > MOST_AT_ONCE {
            return self.one_by_one(windows);
        }
        // What saves most first may stand in the way of what saves more.
        let start = self.found();
        let mut found = start.clone();
        for first in FIRST_PIECES {
            self.resume(start.clone());
            self.best.order = Order::Ready;
            self.add(windows, first);
            if self.time < found.time {
                found = self.found();
            }
        }
        self.resume(found);
    }

    /// Splits the runs that save most, one after the other.
    fn add(&mut self, windows: &[Run], first: u64) {
        while let Some(run) = self.longer(windows, first) {
            self.in_more_or_fewer(run);
        }
    }

    /// Local search from several starts: changes an overlap in one place after the other, as long as that is faster. Only the
    /// result has to justify its operations.
    ///
    /// - `start`: without runs that are split.
    fn improve(&mut self, windows: &[Run], start: &Found) {
        let known = self.found();
        self.least_saving = LEAST_SAVING_OF_CHANGE;
        self.change(windows);
        let mut found = self.found();
        for first in FEW_PIECES {
            self.resume(start.clone());
            self.best.order = Order::Program;
            while self.longer(windows, first).is_some() {}
            self.change(windows);
            if self.time < found.time {
                found = self.found();
            }
        }
        self.least_saving = LEAST_SAVING;
        self.resume(known);
        if self.is_saved(found.time, found.made) {
            self.resume(found);
        }
    }

    /// Changes the best overlap in one place after the other, as long as that is faster.
    fn change(&mut self, windows: &[Run]) {
        let windows = &self.without_bundled(windows);
        loop {
            let before = self.time;
            self.divide_nearby();
            self.exchange(windows);
            self.add(windows, FEW_PIECES[0]);
            self.reorder();
            if self.time == before {
                return;
            }
        }
    }

    /// Splits another run instead of one of those that are split, as long as that is faster: runs were chosen one after
    /// the other.
    fn exchange(&mut self, windows: &[Run]) {
        for at in 0..self.best.pipelines.len() {
            let mut others = self.best.pipelines.clone();
            if at >= others.len() {
                break;
            }
            if self.is_requested(&others[at]) {
                continue;
            }
            let own = others.remove(at).run();
            for run in windows.iter().filter(|run| run.fits(&others) && **run != own) {
                for pieces in FEW_PIECES {
                    if let Some(pipeline) = self.cut(run, Division::even(pieces)) {
                        self.take_with(&others, vec![pipeline]);
                    }
                }
            }
        }
    }

    /// Lists other steps first than those on the longest path, as long as that is faster.
    fn reorder(&mut self) {
        let plan = self.plan;
        let busy = plan.ids().filter(|id| plan.step(*id).cost.time > Time::ZERO).collect_vec();
        if busy.len() * self.operations > MOST_AT_ONCE {
            return;
        }
        for id in busy {
            let mut overlap = self.best.clone();
            overlap.order = Order::Ready;
            if !overlap.urgent.remove(&id) {
                overlap.urgent.insert(id);
            }
            self.take(overlap);
        }
        if self.best.order == Order::Ready && self.best.bundles.is_empty() {
            self.take(Overlap { order: Order::Program, ..self.best.clone() });
        }
    }

    /// Divides the runs of the best overlap in other ways, as long as that is faster: those of one shape alike.
    fn divide_nearby(&mut self) {
        let shape = |at: &usize| self.best.pipelines[*at].run().shape(self.plan);
        let is_free = |at: &usize| !self.is_requested(&self.best.pipelines[*at]);
        let alike = (0..self.best.pipelines.len()).filter(is_free).into_group_map_by(shape).into_values().sorted();
        for (group, near) in alike.cartesian_product(NEAR) {
            while let Some(overlap) = self.divided(&group, near)
                && self.take(overlap)
            {}
        }
    }

    /// The best overlap with some of its runs divided in another way; `None` if one cannot be.
    fn divided(&self, places: &[usize], near: fn(Division, u64) -> Option<Division>) -> Option<Overlap> {
        let mut overlap = self.best.clone();
        for at in places {
            let (run, division) = (self.best.pipelines[*at].run(), self.best.pipelines[*at].division);
            let (length, _) = run.shards(self.plan)?;
            let other = near(division, length).filter(|other| (2..=PieceCount::MOST).contains(&other.equal()))?;
            overlap.pipelines[*at] = self.cut(&run, other)?;
        }
        Some(overlap)
    }

    /// Bundles the collectives that save time when they are done as one and are in no run that is split: of each group all
    /// that save most, in the number of parts that is fastest.
    fn bundle(&mut self) {
        let Some(tuner) = self.tuners.get(&1) else { return };
        let plan = self.plan;
        let pipelines = self.best.pipelines.clone();
        let is_split = |id: StepId| pipelines.iter().any(|pipeline| pipeline.steps.contains_key(&id));
        let best = |group: plan::Alike| {
            let group = group.without(is_split);
            group.best(plan, tuner).map(|(saved, steps)| (saved, group, steps))
        };
        let groups = plan::alike(plan).into_iter().filter_map(best);
        for (_, group, steps) in groups.sorted_by_key(|(saved, ..)| Reverse(*saved)).take(MOST_GROUPS) {
            let before = self.best.bundles.clone();
            let counts = (0..).map(|step| 1usize << step).take_while(|parts| 2 * parts <= steps.len());
            for parts in counts.take(MOST_PARTS) {
                let more = group.in_parts(plan, tuner, &steps, parts);
                let bundles = before.iter().cloned().chain(more).collect_vec();
                if plan::are_apart(plan, &bundles) {
                    self.take(Overlap {
                        pipelines: pipelines.clone(),
                        bundles,
                        order: Order::Ready,
                        ..Overlap::default()
                    });
                }
            }
        }
    }

    /// Upper bound on the time that a run can save: its time except for its busiest unit.
    fn hidden(&self, run: &Run) -> u128 {
        let time = |id: StepId| (self.plan.step(id).cost.time * self.plan.times(id)).ticks();
        let (moves, computing): (Vec<StepId>, Vec<StepId>) = run.steps().partition(|id| self.plan.communicates(*id));
        let [moving, computing] = [&moves, &computing].map(|steps| steps.iter().map(|id| time(*id)).sum::<u128>());
        let longest = moves.into_iter().map(time).max().unwrap_or_default();
        (moving + computing).saturating_sub(longest.max(computing))
    }

    /// Splits the runs that save most when timed separately, if there are too many to try each in the whole schedule: the
    /// best ones together, or one shape after the other, as in repeated layers.
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
        let start = self.found();
        let mut found = start.clone();
        for split in [Search::shape_by_shape, Search::all_at_once] {
            self.resume(start.clone());
            self.best.order = Order::Ready;
            split(self, &shapes);
            if self.time < found.time {
                found = self.found();
            }
        }
        self.resume(found);
    }

    /// Splits all runs of a shape or none.
    fn shape_by_shape(&mut self, shapes: &[Shape<'_>]) {
        let mut pipelines = self.best.pipelines.clone();
        for shape in shapes {
            let Some((_, division)) = shape.saved else { continue };
            let mut more = pipelines.clone();
            for run in &shape.runs {
                if run.fits(&more) {
                    more.extend(self.cut(run, division));
                }
            }
            if more.len() > pipelines.len() && self.take_with(&[], more.clone()) {
                pipelines = more;
            }
        }
    }

    /// The runs that save most, without overlapping steps.
    fn all_at_once(&mut self, shapes: &[Shape<'_>]) {
        let mut saving: Vec<(u128, Division, &Run)> = Vec::new();
        for shape in shapes {
            saving.extend(
                shape.saved.iter().flat_map(|(ticks, division)| shape.runs.iter().map(|run| (*ticks, *division, *run))),
            );
        }
        saving.sort_by_key(|(ticks, _, run)| (Reverse(*ticks), *run));
        let mut pipelines = self.best.pipelines.clone();
        let requested = pipelines.len();
        let mut taken: BTreeSet<StepId> =
            pipelines.iter().flat_map(|pipeline| pipeline.steps.keys().copied()).collect();
        for (_, division, run) in saving {
            if run.steps().all(|id| !taken.contains(&id)) {
                taken.extend(run.steps());
                pipelines.extend(self.cut(run, division));
            }
        }
        // Together they may be too many operations, or slower: then only those that save most.
        while pipelines.len() > requested && !self.take_with(&[], pipelines.clone()) {
            pipelines.truncate(requested + (pipelines.len() - requested) / 2);
        }
    }

    /// Time saved by splitting a run, and the best division.
    fn saved_alone(&mut self, run: &Run) -> Option<(u128, Division)> {
        let steps: BTreeSet<StepId> = run.steps().collect();
        let whole = self.time_alone(&steps, &Overlap::default())?;
        let mut best: Option<(u128, Division)> = None;
        let mut pieces = 2;
        while pieces <= PieceCount::MOST {
            let Some(pipeline) = self.cut(run, Division::even(pieces)) else { break };
            let overlap = Overlap { pipelines: vec![pipeline], order: Order::Ready, ..Overlap::default() };
            let now = self.time_alone(&steps, &overlap)?;
            let saved = whole.saturating_sub(now);
            if saved <= best.map_or(0, |(saved, _)| saved) + whole / LEAST_SAVING {
                break;
            }
            best = Some((saved, Division::even(pieces)));
            pieces *= 2;
        }
        best
    }

    /// The time of some steps when run separately.
    fn time_alone(&mut self, steps: &BTreeSet<StepId>, overlap: &Overlap) -> Option<u128> {
        if self.left == 0 {
            return None;
        }
        let listing = Listing::alone(self.plan, steps).overlapping(self.plan, overlap, self.topology);
        let schedule = lower::listed(self.plan, &listing).ok()?;
        self.spend(&schedule)?;
        Some(clock::run_below(Verified::emitted(&schedule), self.topology, Time::MAX).ok()??.makespan.ticks())
    }

    /// Splits one more run, the one that saves most; `None` if none saves time.
    ///
    /// - `first`: the number of pieces to try first.
    fn longer<'r>(&mut self, windows: &'r [Run], first: u64) -> Option<&'r Run> {
        let before = self.best.pipelines.clone();
        let tried = windows.iter().filter(|run| run.fits(&before));
        let fewer = |step: u32| Some(first >> step).filter(|pieces| *pieces >= 2);
        let saves = |run: &&Run| {
            let counts = (0..).map_while(fewer);
            let pipeline = counts.filter_map(|pieces| self.cut(run, Division::even(pieces))).next();
            pipeline.is_some_and(|pipeline| self.take_with(&before, vec![pipeline]))
        };
        tried.filter(saves).last()
    }

    /// Increases or decreases the number of pieces of the last run, as long as that is faster.
    fn in_more_or_fewer(&mut self, run: &Run) {
        let Some((last, before)) = self.best.pipelines.split_last() else { return };
        let (first, before) = (last.division.equal(), before.to_vec());
        let mut take = |pieces: u64| {
            let pipeline = self.cut(run, Division::even(pieces));
            pipeline.is_some_and(|pipeline| self.take_with(&before, vec![pipeline]))
        };
        let doubled = (1..).map(|step| first << step).take_while(|pieces| *pieces <= PieceCount::MOST);
        let more = doubled.take_while(|pieces| take(*pieces)).count();
        let halved = (1..).map(|step| first >> step).take_while(|pieces| more == 0 && *pieces >= 2);
        let _ = halved.take_while(|pieces| take(*pieces)).count();
    }

    fn take_with(&mut self, before: &[Pipeline], more: Vec<Pipeline>) -> bool {
        let pipelines = before.iter().cloned().chain(more).collect();
        let (bundles, urgent) = (self.best.bundles.clone(), self.best.urgent.clone());
        self.take(Overlap { pipelines, bundles, order: self.best.order, urgent, ..Overlap::default() })
    }
}
