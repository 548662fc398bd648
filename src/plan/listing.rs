//! In which order steps, and pieces of steps, are lowered.
//!
//! A plan is a graph of steps; a listing has an item for each step, or one for each piece of it, with what cuts arrays into
//! pieces and puts them together again. Links and engines serve in its order.

use super::pipeline::{Cut, Order, Overlap, Piece, Pipeline, adds_by};
use super::{Plan, StepId, StepOp};
use crate::function::Function;
use crate::operator::Operator;
use crate::recipe::Chosen;
use crate::topology::{Topology, Work};
use crate::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// What is lowered, in order.
#[derive(Debug)]
pub struct Listing<'a> {
    /// Operands come first.
    pub items: Vec<Item<'a>>,
    /// The item that makes each output of the program.
    pub outputs: Vec<usize>,
    /// The items that run as one kernel, each in order.
    pub kernels: Vec<Vec<usize>>,
}

/// One item.
#[derive(Debug)]
pub struct Item<'a> {
    /// The step that it belongs to.
    pub step: StepId,
    /// What is done.
    pub part: Part<'a>,
    /// The items that it reads.
    pub operands: Vec<usize>,
}

/// What an item does of its step.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Nothing: its array is there from the start.
    Given,
    /// All of it.
    Whole,
    /// A piece of it.
    Piece {
        /// How a collective becomes operations.
        recipe: Option<&'a Chosen>,
        /// The number of pieces of the step.
        of: u64,
        /// How much of its run comes before it, in parts of 2^20.
        wave: u64,
    },
    /// Cuts a piece out of an array.
    Cut {
        /// The dim that is cut, and into how many pieces.
        pieces: Pieces,
        /// Which one.
        at: u64,
    },
    /// Puts an array together from its pieces.
    Join(Pieces),
    /// Adds a piece to those before it.
    Add(Operator),
}

/// What [`Part::Piece`] would have as its wave at the end of a run.
const WAVES: u64 = 1 << 20;

/// How an array is cut: a dim of its block is seen as `[shards, pieces, rest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pieces {
    /// The dim.
    pub dim: usize,
    /// How many shards, each cut alike, a device has.
    pub shards: u64,
    /// In how many pieces each of them is.
    pub count: u64,
}

impl<'a> Listing<'a> {
    /// Each step as a whole, in the order of the plan.
    ///
    /// - `plan`: with its repeats spelled out.
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

    /// Some of the steps, each as a whole; what they read is given, and what others read comes out.
    ///
    /// - `plan`: with its bodies done once.
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

    /// In pieces, and in the order that lets them overlap.
    ///
    /// - `plan`: with its repeats spelled out.
    /// - `overlap`: of the plan with its bodies done once.
    /// - `topology`: on which steps compete for links and engines.
    pub fn overlapped(plan: &'a Plan, overlap: &'a Overlap, topology: &Topology) -> Listing<'a> {
        Listing::of(plan).overlapping(plan, overlap, topology)
    }

    /// The same items in pieces, and in the order that lets them overlap.
    pub fn overlapping(self, plan: &'a Plan, overlap: &'a Overlap, topology: &Topology) -> Listing<'a> {
        let iterations = iterations(plan);
        let cut = |listing: Listing<'a>, pipeline| Cutter::new(plan, &iterations, pipeline).cut(listing);
        let listing = overlap.pipelines.iter().fold(self, cut);
        match overlap.order {
            Order::Program => listing,
            Order::Ready => listing.by_readiness(plan, overlap, topology),
        }
    }

    /// The same items in the order in which they would begin if links and engines took what is ready, and of that what
    /// the longest way to the end follows.
    fn by_readiness(self, plan: &Plan, overlap: &Overlap, topology: &Topology) -> Listing<'a> {
        let tasks: Vec<Task> = self.items.iter().map(|item| Task::of(item, plan, overlap, topology)).collect();
        let order = order(&self.items, &tasks, window(plan));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, item)| place[*item] = at);
        let mut items: Vec<Option<Item<'a>>> = self.items.into_iter().map(Some).collect();
        let moved = |item: usize| {
            let mut item = items[item].take().expect("each item is listed once");
            item.operands.iter_mut().for_each(|operand| *operand = place[*operand]);
            item
        };
        let sorted = |kernel: Vec<usize>| {
            let mut kernel: Vec<usize> = kernel.into_iter().map(|item| place[item]).collect();
            kernel.sort_unstable();
            kernel
        };
        Listing {
            items: order.iter().copied().map(moved).collect(),
            outputs: self.outputs.into_iter().map(|item| place[item]).collect(),
            kernels: self.kernels.into_iter().map(sorted).collect(),
        }
    }
}

/// In which iteration of its body each step is done.
fn iterations(plan: &Plan) -> Vec<u64> {
    let mut seen: HashMap<StepId, u64> = HashMap::new();
    let next = |id: StepId| {
        let iteration = seen.entry(plan.origin(id)).or_default();
        *iteration += 1;
        *iteration
    };
    plan.ids().map(next).collect()
}

/// Cuts the items of one run into pieces. Others may have been cut before, along other dims.
struct Cutter<'a, 'l> {
    plan: &'a Plan,
    iterations: &'l [u64],
    pipeline: &'a Pipeline,
    items: Vec<Item<'a>>,
    /// For each item before: the one that has all of it.
    whole: Vec<Option<usize>>,
    /// For each item before that is cut: those that have its pieces, and how the array is cut.
    pieces: Vec<Option<(Vec<usize>, Option<Pieces>)>>,
    /// The step of each item before.
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
                Some((cut, recipe)) => self.add_pieces(&item, &cut, recipe),
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

    /// Where an item is cut, and how a piece of its collective is done; `None` where it stays as it is.
    fn cut_of(&self, item: &Item<'a>) -> Option<(Cut, Option<&'a Chosen>)> {
        let piece: &'a Piece = self.pipeline.steps.get(&self.plan.origin(item.step))?;
        let along = |dim| Cut { operands: vec![Some(dim); item.operands.len()], result: Some(dim) };
        match item.part {
            Part::Whole | Part::Piece { .. } => {
                Some((piece.cut.clone(), piece.moved.as_ref().map(|(chosen, _)| chosen.as_ref())))
            }
            // Element by element.
            Part::Join(_) | Part::Add(_) => piece.cut.result.map(|dim| (along(dim), None)),
            Part::Given | Part::Cut { .. } => None,
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

    fn add_pieces(&mut self, item: &Item<'a>, cut: &Cut, recipe: Option<&'a Chosen>) {
        let operands = item.operands.iter().zip(&cut.operands);
        let operands: Vec<Vec<usize>> =
            operands.map(|(operand, dim)| self.operand(item.step, *operand, *dim)).collect();
        let count = self.pipeline.pieces;
        let part = |at: usize| {
            let own = at as u64 * WAVES / count;
            match item.part {
                Part::Whole => Part::Piece { recipe, of: count, wave: own },
                Part::Piece { recipe: before, of, wave } => {
                    Part::Piece { recipe: recipe.or(before), of: of * count, wave: wave.max(own) }
                }
                Part::Given | Part::Cut { .. } | Part::Join(_) | Part::Add(_) => item.part,
            }
        };
        let mut made = Vec::new();
        let mut sum: Option<usize> = None;
        for at in 0..usize::try_from(count).unwrap_or(usize::MAX) {
            let read = operands.iter().map(|items| items[at.min(items.len() - 1)]).collect();
            let piece = self.push(item.step, part(at), read);
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

    /// An operand for each piece, or for all.
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
            (0..pieces.count).map(|at| self.push(user, Part::Cut { pieces, at }, vec![whole])).collect();
        self.cuts.insert((whole, pieces), cuts.clone());
        cuts
    }

    /// The step whose array an item before has, or a piece of it.
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
        Pieces { dim, shards, count: self.pipeline.pieces }
    }

    /// The item that holds the whole array of an earlier one, whose pieces are joined when it is first asked for.
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

/// So many steps ahead of what is computed may be sent: an iteration of a body.
fn window(plan: &Plan) -> usize {
    let mut often: HashMap<StepId, usize> = HashMap::new();
    plan.ids().for_each(|id| *often.entry(plan.origin(id)).or_default() += 1);
    let repeated = often.values().filter(|count| **count > 1).count();
    if repeated == 0 { usize::MAX } else { repeated }
}

/// What an item keeps busy, and for how long.
struct Task {
    /// From its start to its end.
    time: Time,
    /// Engines and axes by number, and how long it keeps them busy.
    busy: Vec<(usize, Time)>,
    /// Whether it computes.
    computes: bool,
}

impl Task {
    fn of(item: &Item<'_>, plan: &Plan, overlap: &Overlap, topology: &Topology) -> Task {
        let step = plan.step(item.step);
        let engines = &topology.hardware.engines;
        let free = Task { time: Time::ZERO, busy: Vec::new(), computes: false };
        let (recipe, of) = match item.part {
            Part::Whole => (None, 1),
            Part::Piece { recipe, of, .. } => (recipe, of),
            Part::Given | Part::Cut { .. } | Part::Join(_) | Part::Add(_) => return free,
        };
        let share = Time::from_ticks(step.cost.time.ticks().div_ceil(u128::from(of)));
        let time = recipe.and_then(|chosen| chosen.time).unwrap_or(share);
        let work = match &step.op {
            StepOp::Input | StepOp::Carry => return free,
            StepOp::Product { .. } => Work::MatMul,
            StepOp::Reduce { .. } => Work::Reduce,
            StepOp::Map { function: Function::Fill { .. }, .. } => Work::Fill,
            StepOp::Map { .. } => Work::Map,
            StepOp::Collective(_) => Work::Shuffle,
        };
        let engine = engines.of(work).map(|engine| engine.index());
        let StepOp::Collective(_) = &step.op else {
            return Task { time, busy: engine.into_iter().map(|engine| (engine, time)).collect(), computes: true };
        };
        let origin = plan.origin(item.step);
        let pieces =
            recipe.and_then(|_| overlap.pipeline(origin)).and_then(|pipeline| pipeline.steps[&origin].moved.as_ref());
        let usage = pieces.map_or(&step.usage, |(_, usage)| usage);
        let first_axis = engines.names().len();
        let mut busy: Vec<(usize, Time)> =
            usage.links.iter().map(|load| (first_axis + load.axis.index(), load.busy)).collect();
        let longest = busy.iter().map(|(_, time)| *time).max().unwrap_or_default();
        busy.extend(engine.map(|engine| (engine, longest)));
        Task { time, busy, computes: false }
    }
}

/// How long it takes at the least from the start of each item to the end. The pieces of a step go one after the other.
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

/// The order in which items begin if whatever is ready, and has what it needs, begins; of several that on which the longest
/// way depends, then the first.
///
/// - `window`: nothing is sent for a step that is so far behind the first one that has not computed.
fn order(items: &[Item<'_>], tasks: &[Task], window: usize) -> Vec<usize> {
    let mut users = vec![Vec::new(); items.len()];
    let mut missing: Vec<usize> = items.iter().map(|item| item.operands.len()).collect();
    for (at, item) in items.iter().enumerate() {
        item.operands.iter().for_each(|operand| users[*operand].push(at));
    }
    let tail = tails(items, tasks, &users);
    let resources = tasks.iter().flat_map(|task| &task.busy).map(|(resource, _)| resource + 1).max().unwrap_or(0);
    let mut free = vec![Time::ZERO; resources];
    // What is ready, by what it needs; of each kind the most urgent is looked at.
    let mut ready: BTreeMap<Vec<usize>, BTreeSet<(Reverse<Time>, usize)>> = BTreeMap::new();
    // What is too far ahead.
    let mut ahead: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut computing: BTreeSet<usize> =
        (0..items.len()).filter(|at| tasks[*at].computes).map(|at| items[at].step.index()).collect();
    let mut left: HashMap<usize, usize> = HashMap::new();
    for at in (0..items.len()).filter(|at| tasks[*at].computes) {
        *left.entry(items[at].step.index()).or_default() += 1;
    }
    // When what becomes ready, and when something is free again.
    let mut events: BinaryHeap<Reverse<(Time, Option<usize>)>> = BinaryHeap::new();
    (0..items.len()).filter(|at| missing[*at] == 0).for_each(|at| events.push(Reverse((Time::ZERO, Some(at)))));
    let mut order = Vec::with_capacity(items.len());
    while let Some(Reverse((now, _))) = events.peek().copied() {
        while let Some(Reverse((_, item))) = events.peek().copied().filter(|Reverse((time, _))| *time == now) {
            events.pop();
            ahead.extend(item.map(|at| (items[at].step.index(), at)));
        }
        loop {
            let reach = computing.first().map_or(usize::MAX, |first| first.saturating_add(window));
            while let Some((step, at)) =
                ahead.first().copied().filter(|(step, at)| *step <= reach || tasks[*at].computes)
            {
                ahead.remove(&(step, at));
                let needs = tasks[at].busy.iter().map(|(resource, _)| *resource).collect();
                ready.entry(needs).or_default().insert((Reverse(tail[at]), at));
            }
            let startable = ready.iter().filter(|(needs, _)| needs.iter().all(|resource| free[*resource] <= now));
            // What needs nothing comes first: sums give up what they add.
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
            // What takes no time makes others ready at once.
            while let Some(Reverse((_, item))) = events.peek().copied().filter(|Reverse((time, _))| *time == now) {
                events.pop();
                ahead.extend(item.map(|at| (items[at].step.index(), at)));
            }
        }
    }
    assert_eq!(order.len(), items.len(), "every item begins");
    order
}
