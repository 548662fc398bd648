//! The order in which steps, and pieces of steps, are lowered.
//!
//! A plan is a graph of steps. A listing has an item for each step or piece, and items that split arrays into pieces
//! and assemble them. Links and engines serve in list order.

use super::bundle::{Bundle, Member};
use super::division::Division;
use super::pipeline::{Cut, Order, Overlap, Piece, PieceMove, Pipeline, adds_by};
use super::{Plan, StepId, StepOp};
use crate::operator::Operator;
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::ops::Range;

/// A list of items to lower.
#[derive(Debug)]
pub struct Listing<'a> {
    /// The items, operands first.
    pub items: Vec<Item<'a>>,
    /// The items of the outputs of the program.
    pub outputs: Vec<usize>,
    /// Kernels of items, each in the order of the plan.
    pub kernels: Vec<Vec<usize>>,
}

/// An item.
#[derive(Debug)]
pub struct Item<'a> {
    /// Its step.
    pub step: StepId,
    /// The part of the step.
    pub part: Part<'a>,
    /// Its operands.
    pub operands: Vec<usize>,
}

/// The part of a step that an item executes.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Nothing: the array is given.
    Given,
    /// The whole step.
    Whole,
    /// A piece of the step.
    Piece {
        /// How a collective moves it.
        moved: Option<&'a PieceMove>,
        /// Length of the piece and of the whole, in the same units.
        length: [u64; 2],
        /// Fraction of its run that precedes it, in units of 2^-20.
        wave: u64,
    },
    /// Cuts a piece out of an array.
    Cut {
        /// The split dim and its division.
        pieces: Pieces,
        /// Index of the piece.
        at: u64,
    },
    /// Assembles an array from its pieces.
    Join(Pieces),
    /// Adds a piece to the sum of the previous ones.
    Add(Operator),
    /// Puts the blocks of a bundle one after the other.
    Pack(&'a Bundle),
    /// The collective of a bundle.
    Bundled(&'a Bundle),
    /// Takes the block of one collective out of a bundle.
    Unpack(&'a Bundle, &'a Member),
}

/// The `wave` of a [`Part::Piece`] at the end of a run.
const WAVES: u64 = 1 << 20;

/// A split of an array: a dim of its block is viewed as `[shards, units, rest]`, and a piece is a range of the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pieces {
    /// The dim.
    pub dim: usize,
    /// Number of shards of the dim per device, each split alike.
    pub shards: u64,
    /// The pieces of each shard.
    pub division: Division,
}

impl<'a> Listing<'a> {
    /// Whole steps in plan order.
    ///
    /// - `plan`: with its repeats unrolled.
    pub fn of(plan: &'a Plan) -> Listing<'a> {
        let items = plan.ids().map(|id| Item {
            step: id,
            part: Part::Whole,
            operands: plan.operands(id).into_iter().map(StepId::index).collect(),
        });
        let places = |kernel: &Vec<StepId>| kernel.iter().map(|id| id.index()).collect();
        Listing {
            items: items.collect(),
            outputs: plan.outputs.iter().map(|id| id.index()).collect(),
            kernels: plan.kernels.iter().map(places).collect(),
        }
    }

    /// Some whole steps; values they read are given, and values that others read are outputs.
    ///
    /// - `plan`: with bodies done once.
    pub fn alone(plan: &'a Plan, steps: &BTreeSet<StepId>) -> Listing<'a> {
        let mut listing = Listing { items: Vec::new(), outputs: Vec::new(), kernels: Vec::new() };
        let mut made: BTreeMap<StepId, usize> = BTreeMap::new();
        for id in steps {
            let operands = plan.operands(*id);
            for given in &operands {
                made.entry(*given).or_insert_with(|| {
                    listing.items.push(Item { step: *given, part: Part::Given, operands: Vec::new() });
                    listing.items.len() - 1
                });
            }
            let operands = operands.iter().map(|operand| made[operand]).collect();
            made.insert(*id, listing.items.len());
            listing.items.push(Item { step: *id, part: Part::Whole, operands });
            if plan.outputs.contains(id) || plan.steps.neighbors(*id).any(|user| !steps.contains(&user)) {
                listing.outputs.push(made[id]);
            }
        }
        let inside = plan.kernels.iter().filter(|kernel| kernel.iter().all(|id| steps.contains(id)));
        listing.kernels = inside.map(|kernel| kernel.iter().map(|id| made[id]).collect()).collect();
        listing
    }

    /// Steps and pieces in overlapped order.
    ///
    /// - `plan`: with its repeats unrolled.
    /// - `overlap`: of the plan with bodies done once.
    /// - `topology`: determines which steps compete for links and engines.
    pub fn overlapped(plan: &'a Plan, overlap: &'a Overlap, topology: &Topology) -> Listing<'a> {
        Listing::of(plan).overlapping(plan, overlap, topology)
    }

    /// Splits items into pieces and reorders them.
    pub fn overlapping(self, plan: &'a Plan, overlap: &'a Overlap, topology: &Topology) -> Listing<'a> {
        let iterations = iterations(plan);
        let cut = |listing: Listing<'a>, pipeline| Cutter::new(plan, &iterations, pipeline).cut(listing);
        let listing = overlap.pipelines.iter().fold(self, cut);
        let listing = listing.bundled(plan, &overlap.bundles, &iterations);
        match overlap.order {
            Order::Program if overlap.bundles.is_empty() => listing,
            Order::Program | Order::Ready => listing.by_readiness(plan, &overlap.urgent, topology),
        }
    }

    /// Does collectives as one where all steps of a bundle are listed whole. Operands may then come after their users.
    ///
    /// - `iterations`: the iteration of its body in which each step is executed.
    fn bundled(mut self, plan: &'a Plan, bundles: &'a [Bundle], iterations: &[u64]) -> Listing<'a> {
        if bundles.is_empty() {
            return self;
        }
        let mut places: HashMap<(StepId, u64), usize> = HashMap::new();
        for (at, item) in self.items.iter().enumerate().filter(|(_, item)| matches!(item.part, Part::Whole)) {
            places.insert((plan.origin(item.step), iterations[item.step.index()]), at);
        }
        let last = iterations.iter().copied().max().unwrap_or(0);
        for (bundle, iteration) in bundles.iter().cartesian_product(1..=last) {
            let members = bundle.steps().map(|id| places.get(&(id, iteration)).copied());
            let Some(members) = members.collect::<Option<Vec<usize>>>() else { continue };
            let step = self.items[members[0]].step;
            let operands = members.iter().map(|at| self.items[*at].operands[0]).collect();
            self.items.push(Item { step, part: Part::Pack(bundle), operands });
            self.items.push(Item { step, part: Part::Bundled(bundle), operands: vec![self.items.len() - 1] });
            let bundled = self.items.len() - 1;
            for (at, member) in members.into_iter().zip(&bundle.members) {
                let item = &mut self.items[at];
                (item.part, item.operands) = (Part::Unpack(bundle, member), vec![bundled]);
            }
        }
        self
    }

    /// Orders the items by list scheduling: links and engines take ready items by critical path, urgent ones first.
    fn by_readiness(self, plan: &Plan, urgent: &BTreeSet<StepId>, topology: &Topology) -> Listing<'a> {
        let task = |item: &Item<'a>| {
            let is_urgent = urgent.contains(&plan.origin(item.step));
            Task { is_urgent, ..Task::of(item, plan, topology) }
        };
        let tasks: Vec<Task> = self.items.iter().map(task).collect();
        let order = order(&self.items, &tasks, window(plan));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, item)| place[*item] = at);
        let mut items: Vec<Option<Item<'a>>> = self.items.into_iter().map(Some).collect();
        let moved = |item: usize| {
            let mut item = items[item].take().expect("each item is listed once");
            item.operands.iter_mut().for_each(|operand| *operand = place[*operand]);
            item
        };
        // The members of a kernel stay in the order of the plan, which decides what each of them reads and writes.
        let members = |kernel: Vec<usize>| kernel.into_iter().map(|item| place[item]).collect();
        Listing {
            items: order.iter().copied().map(moved).collect(),
            outputs: self.outputs.into_iter().map(|item| place[item]).collect(),
            kernels: self.kernels.into_iter().map(members).collect(),
        }
    }
}

/// The iteration of its body in which each step is executed.
fn iterations(plan: &Plan) -> Vec<u64> {
    let mut seen: HashMap<StepId, u64> = HashMap::new();
    let next = |id: StepId| {
        let iteration = seen.entry(plan.origin(id)).or_default();
        *iteration += 1;
        *iteration
    };
    plan.ids().map(next).collect()
}

/// Splits the items of one run into pieces. Other runs may have been split before, along other dims.
struct Cutter<'a, 'l> {
    plan: &'a Plan,
    iterations: &'l [u64],
    pipeline: &'a Pipeline,
    items: Vec<Item<'a>>,
    /// For each previous item: the new item with the whole array.
    whole: Vec<Option<usize>>,
    /// For each previous item that is split: its pieces, and the split of the array.
    pieces: Vec<Option<(Vec<usize>, Option<Pieces>)>>,
    /// The step of each previous item.
    steps: Vec<StepId>,
    cuts: HashMap<(usize, Pieces), Vec<usize>>,
}

impl<'a, 'l> Cutter<'a, 'l> {
    fn new(plan: &'a Plan, iterations: &'l [u64], pipeline: &'a Pipeline) -> Self {
        let (whole, pieces, steps) = (Vec::new(), Vec::new(), Vec::new());
        Cutter { plan, iterations, pipeline, items: Vec::new(), whole, pieces, steps, cuts: HashMap::new() }
    }

    fn cut(mut self, listing: Listing<'a>) -> Listing<'a> {
        for item in listing.items {
            self.steps.push(item.step);
            match self.cut_of(&item) {
                Some((cut, moved)) => self.add_pieces(&item, &cut, moved),
                None => self.add(item),
            }
        }
        let outputs = listing.outputs.into_iter().map(|item| self.whole(item)).collect();
        let mut kernels = Vec::new();
        for kernel in listing.kernels {
            match kernel.first().and_then(|item| self.pieces[*item].as_ref()).map(|(pieces, _)| pieces.len()) {
                None => kernels.push(kernel.into_iter().map(|item| self.whole(item)).collect()),
                Some(count) => {
                    let piece = |item: &usize, at: usize| self.pieces[*item].as_ref().map(|(pieces, _)| pieces[at]);
                    kernels.extend((0..count).map(|at| kernel.iter().filter_map(|item| piece(item, at)).collect()));
                }
            }
        }
        Listing { items: self.items, outputs, kernels }
    }

    /// The split of an item, and how pieces of its collective are moved, by length; `None` if it is not split.
    fn cut_of(&self, item: &Item<'a>) -> Option<(Cut, Option<&'a BTreeMap<u64, PieceMove>>)> {
        let piece: &'a Piece = self.pipeline.steps.get(&self.plan.origin(item.step))?;
        let along = |dim| Cut { operands: vec![Some(dim); item.operands.len()], result: Some(dim) };
        match item.part {
            Part::Whole | Part::Piece { .. } => Some((piece.cut.clone(), Some(&piece.moved))),
            // These are elementwise.
            Part::Join(_) | Part::Add(_) => piece.cut.result.map(|dim| (along(dim), None)),
            Part::Given | Part::Cut { .. } | Part::Pack(_) | Part::Bundled(_) | Part::Unpack(..) => None,
        }
    }

    fn push(&mut self, step: StepId, part: Part<'a>, operands: Vec<usize>) -> usize {
        self.items.push(Item { step, part, operands });
        self.items.len() - 1
    }

    fn add(&mut self, item: Item<'a>) {
        let operands = item.operands.iter().map(|operand| self.whole(*operand)).collect();
        let new = self.push(item.step, item.part, operands);
        self.whole.push(Some(new));
        self.pieces.push(None);
    }

    fn add_pieces(&mut self, item: &Item<'a>, cut: &Cut, moved: Option<&'a BTreeMap<u64, PieceMove>>) {
        let operands = item.operands.iter().zip(&cut.operands);
        let operands: Vec<Vec<usize>> =
            operands.map(|(operand, dim)| self.operand(item.step, *operand, *dim)).collect();
        let division = self.pipeline.division;
        let units = division.units().expect("the division of a pipeline divides its dim");
        let part = |range: &Range<u64>| {
            let (own, length) = (range.start * WAVES / units, range.end - range.start);
            let moved = moved.and_then(|moved| moved.get(&length));
            match item.part {
                Part::Whole => Part::Piece { moved, length: [length, units], wave: own },
                Part::Piece { moved: before, length: [part, whole], wave } => {
                    Part::Piece { moved: moved.or(before), length: [part * length, whole * units], wave: wave.max(own) }
                }
                Part::Given
                | Part::Cut { .. }
                | Part::Join(_)
                | Part::Add(_)
                | Part::Pack(_)
                | Part::Bundled(_)
                | Part::Unpack(..) => item.part,
            }
        };
        let mut made = Vec::new();
        let mut sum: Option<usize> = None;
        for (at, range) in division.ranges().enumerate() {
            let read = operands.iter().map(|items| items[at.min(items.len() - 1)]).collect();
            let piece = self.push(item.step, part(&range), read);
            made.push(piece);
            if cut.result.is_none() {
                let operator = adds_by(self.plan.step(item.step)).expect("what is cut there adds up");
                sum = Some(match sum {
                    None => piece,
                    Some(before) => self.push(item.step, Part::Add(operator), vec![before, piece]),
                });
            }
        }
        let pieces = cut.result.map(|dim| self.pieces_of(item.step, dim));
        self.pieces.push(Some((made, pieces)));
        self.whole.push(sum);
    }

    /// One operand per piece, or one for all.
    fn operand(&mut self, user: StepId, operand: usize, dim: Option<usize>) -> Vec<usize> {
        let Some(dim) = dim else { return vec![self.whole(operand)] };
        let step = self.steps[operand];
        let same = self.iterations[step.index()] == self.iterations[user.index()];
        if let Some((pieces, Some(_))) = self.pieces[operand].as_ref().filter(|_| same) {
            return pieces.clone();
        }
        let whole = self.whole(operand);
        let pieces = self.pieces_of(self.value(operand), dim);
        if let Some(known) = self.cuts.get(&(whole, pieces)) {
            return known.clone();
        }
        let cuts: Vec<usize> =
            (0..pieces.division.count()).map(|at| self.push(user, Part::Cut { pieces, at }, vec![whole])).collect();
        self.cuts.insert((whole, pieces), cuts.clone());
        cuts
    }

    /// The step whose array a previous item holds.
    fn value(&self, item: usize) -> StepId {
        let Some(new) = self.whole[item] else { return self.steps[item] };
        let mut new = new;
        while let Part::Cut { .. } = self.items[new].part {
            new = self.items[new].operands[0];
        }
        self.items[new].step
    }

    fn pieces_of(&self, id: StepId, dim: usize) -> Pieces {
        let shards = self.pipeline.shards_of(&self.plan.step(id).layout, dim, self.plan);
        Pieces { dim, shards, division: self.pipeline.division }
    }

    /// The item with the whole array of a previous one; its pieces are assembled on demand.
    fn whole(&mut self, item: usize) -> usize {
        if let Some(whole) = self.whole[item] {
            return whole;
        }
        let (pieces, how) = self.pieces[item].clone().expect("what is not whole is in pieces");
        let how = how.expect("what adds up is whole");
        let whole = self.push(self.steps[item], Part::Join(how), pieces);
        self.whole[item] = Some(whole);
        whole
    }
}

/// Number of steps by which sends may run ahead of computation, as a multiple of an iteration of a body.
fn window(plan: &Plan) -> usize {
    let mut often: HashMap<StepId, usize> = HashMap::new();
    plan.ids().for_each(|id| *often.entry(plan.origin(id)).or_default() += 1);
    let repeated = often.values().filter(|count| **count > 1).count();
    if repeated == 0 { usize::MAX } else { repeated }
}

/// The units that an item keeps busy, and for how long.
struct Task {
    /// Duration of the item.
    time: Time,
    /// Busy time by engine and axis number.
    busy: Vec<(usize, Time)>,
    /// Whether it computes.
    computes: bool,
    /// Whether it comes before other ready items.
    is_urgent: bool,
}

impl Task {
    fn of(item: &Item<'_>, plan: &Plan, topology: &Topology) -> Task {
        let step = plan.step(item.step);
        let engines = &topology.hardware.engines;
        let free = Task { time: Time::ZERO, busy: Vec::new(), computes: false, is_urgent: false };
        let (own, [part, whole]) = match item.part {
            Part::Whole => (None, [1, 1]),
            Part::Piece { moved, length, .. } => (moved.map(|moved| (moved.chosen.as_ref(), &moved.usage)), length),
            Part::Bundled(bundle) => (Some((bundle.recipe.as_ref(), &bundle.usage)), [1, 1]),
            Part::Given | Part::Cut { .. } | Part::Join(_) | Part::Add(_) | Part::Pack(_) | Part::Unpack(..) => {
                return free;
            }
        };
        let share = (step.cost.time * part).ticks().div_ceil(u128::from(whole));
        let time = own.and_then(|(chosen, _)| chosen.time).unwrap_or(Time::from_ticks(share));
        let Some(work) = step.op.work() else { return free };
        let engine = engines.of(work).map(|engine| engine.index());
        let StepOp::Collective(_) = &step.op else {
            let busy = engine.into_iter().map(|engine| (engine, time)).collect();
            return Task { time, busy, computes: true, is_urgent: false };
        };
        let usage = own.map_or(&step.usage, |(_, usage)| usage);
        let first_axis = engines.names().len();
        let mut busy: Vec<(usize, Time)> =
            usage.links.iter().map(|load| (first_axis + load.axis.index(), load.busy)).collect();
        let longest = busy.iter().map(|(_, time)| *time).max().unwrap_or_default();
        busy.extend(engine.map(|engine| (engine, longest)));
        Task { time, busy, computes: false, is_urgent: false }
    }
}

/// Critical path from the start of each item to the end. The pieces of a step run in order.
fn tails(items: &[Item<'_>], tasks: &[Task], users: &[Vec<usize>]) -> Vec<Time> {
    let mut pieces: BTreeMap<StepId, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Part::Piece { wave, .. } = item.part {
            pieces.entry(item.step).or_default().push((wave, at));
        }
    }
    let mut next: Vec<Option<usize>> = vec![None; items.len()];
    for pieces in pieces.values_mut() {
        pieces.sort_unstable();
        pieces.windows(2).for_each(|pair| next[pair[0].1] = Some(pair[1].1));
    }
    let after = |at: usize| users[at].iter().chain(&next[at]).copied();
    let mut before = vec![Vec::new(); items.len()];
    let mut missing: Vec<usize> = (0..items.len()).map(|at| after(at).count()).collect();
    (0..items.len()).for_each(|at| after(at).for_each(|later| before[later].push(at)));
    let mut tail = vec![Time::ZERO; items.len()];
    let mut done: Vec<usize> = (0..items.len()).filter(|at| missing[*at] == 0).collect();
    while let Some(at) = done.pop() {
        tail[at] = tasks[at].time + after(at).map(|later| tail[later]).max().unwrap_or_default();
        for earlier in &before[at] {
            missing[*earlier] -= 1;
            if missing[*earlier] == 0 {
                done.push(*earlier);
            }
        }
    }
    tail
}

/// The first step that needs each item, by number: that of a bundle comes before the steps of its later members.
fn needed(items: &[Item<'_>], users: &[Vec<usize>]) -> Vec<usize> {
    let mut needed: Vec<usize> = items.iter().map(|item| item.step.index()).collect();
    let mut missing: Vec<usize> = users.iter().map(Vec::len).collect();
    let mut done: Vec<usize> = (0..items.len()).filter(|at| missing[*at] == 0).collect();
    while let Some(at) = done.pop() {
        for operand in &items[at].operands {
            needed[*operand] = needed[*operand].min(needed[at]);
            missing[*operand] -= 1;
            if missing[*operand] == 0 {
                done.push(*operand);
            }
        }
    }
    needed
}

/// Urgent items come first, then those on the longest path to the end.
type Urgency = Reverse<(bool, Time)>;

/// The order in which items start if every ready item starts as soon as its units are free; ties go to urgent items, then
/// to the longest critical path, then to the first item.
///
/// - `window`: sends may run ahead of the first uncomputed step by this number of steps.
fn order(items: &[Item<'_>], tasks: &[Task], window: usize) -> Vec<usize> {
    let mut users = vec![Vec::new(); items.len()];
    let mut missing: Vec<usize> = items.iter().map(|item| item.operands.len()).collect();
    for (at, item) in items.iter().enumerate() {
        item.operands.iter().for_each(|operand| users[*operand].push(at));
    }
    let tail = tails(items, tasks, &users);
    let needed = needed(items, &users);
    let resources = tasks.iter().flat_map(|task| &task.busy).map(|(resource, _)| resource + 1).max().unwrap_or(0);
    let mut free = vec![Time::ZERO; resources];
    // Ready items, by the units that they need; only the most urgent item of each kind is considered.
    let mut ready: BTreeMap<Vec<usize>, BTreeSet<(Urgency, usize)>> = BTreeMap::new();
    // Items outside the window.
    let mut ahead: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut computing: BTreeSet<usize> =
        (0..items.len()).filter(|at| tasks[*at].computes).map(|at| items[at].step.index()).collect();
    let mut left: HashMap<usize, usize> = HashMap::new();
    for at in (0..items.len()).filter(|at| tasks[*at].computes) {
        *left.entry(items[at].step.index()).or_default() += 1;
    }
    // Times at which items become ready, and times at which units become free.
    let mut events: BinaryHeap<Reverse<(Time, Option<usize>)>> = BinaryHeap::new();
    (0..items.len()).filter(|at| missing[*at] == 0).for_each(|at| events.push(Reverse((Time::ZERO, Some(at)))));
    let mut order = Vec::with_capacity(items.len());
    while let Some(Reverse((now, _))) = events.peek().copied() {
        while let Some(Reverse((_, item))) = events.peek().copied().filter(|Reverse((time, _))| *time == now) {
            events.pop();
            ahead.extend(item.map(|at| (needed[at], at)));
        }
        loop {
            let reach = computing.first().map_or(usize::MAX, |first| first.saturating_add(window));
            while let Some((step, at)) =
                ahead.first().copied().filter(|(step, at)| *step <= reach || tasks[*at].computes)
            {
                ahead.remove(&(step, at));
                let needs = tasks[at].busy.iter().map(|(resource, _)| *resource).collect();
                ready.entry(needs).or_default().insert((Reverse((tasks[at].is_urgent, tail[at])), at));
            }
            let startable = ready.iter().filter(|(needs, _)| needs.iter().all(|resource| free[*resource] <= now));
            // Items without units come first: additions release their operands.
            let next =
                startable.filter_map(|(needs, waiting)| Some((!needs.is_empty(), *waiting.first()?, needs))).min();
            let Some((_, (urgency, at), needs)) = next else { break };
            let needs = needs.clone();
            ready.get_mut(&needs).expect("it is there").remove(&(urgency, at));
            order.push(at);
            let task = &tasks[at];
            for (resource, busy) in &task.busy {
                free[*resource] = now + *busy;
                events.push(Reverse((now + *busy, None)));
            }
            if task.computes {
                let step = items[at].step.index();
                let left = left.get_mut(&step).expect("it computes");
                *left -= 1;
                if *left == 0 {
                    computing.remove(&step);
                }
            }
            for user in &users[at] {
                missing[*user] -= 1;
                if missing[*user] == 0 {
                    events.push(Reverse((now + task.time, Some(*user))));
                }
            }
            // Items that take no time release others immediately.
            while let Some(Reverse((_, item))) = events.peek().copied().filter(|Reverse((time, _))| *time == now) {
                events.pop();
                ahead.extend(item.map(|at| (needed[at], at)));
            }
        }
    }
    assert_eq!(order.len(), items.len(), "every item begins");
    order
}
