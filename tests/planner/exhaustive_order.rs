//! Steps in pieces against an exhaustive scheduler: all runs, all pairs of them, small numbers of pieces, and orders of at
//! most twelve collectives and computations: all, or the first ones where there are very many.

use super::overlap::all_runs;
use crate::common::{apart, compile, sets};
use fastrand::Rng;
use itertools::Itertools;
use shardc::compiler::Compiled;
use shardc::lower;
use shardc::plan::{Division, Item, Listing, Order, Overlap, Part, Pipeline, Plan, unroll};
use shardc::recipe::{Lowering, Tuner};
use shardc::schedule::Schedule;
use shardc::sim::clock;
use shardc::units::Time;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Most collectives and computations, in pieces.
const MOST_BUSY: usize = 12;

/// Most orders of the same pieces that are tried.
fn most_orders() -> usize {
    if sets::are_full() { 1000 } else { 200 }
}

/// Whether an item takes time. What does not is done as soon as it can be.
fn is_busy(item: &Item<'_>, plan: &Plan) -> bool {
    let takes_time = plan.step(item.step).cost.time > Time::ZERO;
    takes_time && matches!(item.part, Part::Whole | Part::Piece { .. })
}

/// A search for the fastest order of a listing.
struct Search<'a, 'p> {
    compiled: &'a Compiled,
    plan: &'p Plan,
    listing: Listing<'p>,
    busy: Vec<bool>,
    best: Time,
    orders: usize,
}

impl Search<'_, '_> {
    /// The items in another order.
    fn scheduled(&self, order: &[usize]) -> Schedule {
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, item)| place[*item] = at);
        let moved = |at: &usize| {
            let Item { step, part, operands } = &self.listing.items[*at];
            Item { step: *step, part: *part, operands: operands.iter().map(|operand| place[*operand]).collect() }
        };
        let places = |items: &Vec<usize>| items.iter().map(|item| place[*item]).collect();
        let listing = Listing {
            items: order.iter().map(moved).collect(),
            outputs: places(&self.listing.outputs),
            kernels: self.listing.kernels.iter().map(places).collect(),
        };
        lower::listed(self.plan, &listing).expect("each piece has a recipe")
    }

    /// Tries the orders that begin with `order`. Pieces of one step are done in order.
    fn extend(&mut self, order: &mut Vec<usize>) {
        let length = order.len();
        // What takes no time is done at once.
        loop {
            let free = (0..self.busy.len()).find(|at| !self.busy[*at] && self.may_follow(*at, order));
            let Some(free) = free else { break };
            order.push(free);
        }
        if order.len() == self.busy.len() {
            self.orders += 1;
            let schedule = self.scheduled(order);
            let timing = clock::run(&schedule, &self.compiled.topology).expect("it has routes");
            self.best = self.best.min(timing.makespan);
        }
        let next: Vec<usize> =
            (0..self.busy.len()).filter(|at| self.busy[*at] && self.may_follow(*at, order)).collect();
        for at in next {
            if self.orders == most_orders() {
                break;
            }
            order.push(at);
            self.extend(order);
            order.pop();
        }
        order.truncate(length);
    }

    fn may_follow(&self, at: usize, order: &[usize]) -> bool {
        let (items, item) = (&self.listing.items, &self.listing.items[at]);
        let before = |other: &usize| items[*other].step == item.step && self.busy[*other] && self.busy[at];
        !order.contains(&at)
            && item.operands.iter().all(|operand| order.contains(operand))
            && (0..at).filter(before).all(|other| order.contains(&other))
    }
}

/// The shortest time of all orders of these pipelines, or a known one, and the number of orders; `None` if there are too
/// many pieces.
fn best_order(compiled: &Compiled, pipelines: Vec<Pipeline>, known: Time) -> Option<(Time, usize)> {
    let plan = unroll::unroll(&compiled.plan).expect("short enough");
    let overlap = Overlap { pipelines, order: Order::Program, ..Overlap::default() };
    let listing = Listing::overlapped(&plan, &overlap, &compiled.topology);
    let busy: Vec<bool> = listing.items.iter().map(|item| is_busy(item, &plan)).collect();
    if busy.iter().filter(|is_busy| **is_busy).count() > MOST_BUSY {
        return None;
    }
    let mut search = Search { compiled, plan: &plan, listing, busy, best: known, orders: 0 };
    search.extend(&mut Vec::new());
    Some((search.best, search.orders))
}

/// The shortest time of all pieces and orders, and the number of orders tried.
fn exhaustive(compiled: &Compiled) -> (Time, usize) {
    let tuner = Tuner::new(Cow::Borrowed(&compiled.topology), Lowering::default());
    let [two, four] = [2, 4].map(Division::even);
    let runs = all_runs(compiled);
    let pieces: Vec<Pipeline> = runs
        .iter()
        .flat_map(|run| {
            let length = run.shards(&compiled.plan).map(|(length, _)| length);
            let three = length.and_then(|length| Division::nearly_even(3, length));
            let all = [Some(two), three, Some(four), two.with_shorter_first(), two.with_shorter_last()];
            all.into_iter()
                .flatten()
                .filter_map(|division| run.in_pieces(&compiled.plan, division, &tuner))
                .collect_vec()
        })
        .collect();
    let (mut best, mut orders) = (Time::MAX, 0);
    let pairs = pieces.iter().array_combinations();
    let pairs = pairs.filter(|[one, other]| other.run().fits(std::slice::from_ref(*one)));
    let pairs = pairs.map(|[one, other]| vec![one.clone(), other.clone()]);
    let chosen = [Vec::new()].into_iter().chain(pieces.iter().map(|one| vec![one.clone()])).chain(pairs);
    for pipelines in chosen {
        if let Some((time, count)) = best_order(compiled, pipelines, best) {
            (best, orders) = (time, orders + count);
        }
    }
    (best, orders)
}

/// What a choice may take more than the best one, but for one program in fifty: local search may end before it.
const USUAL: f64 = 1.01;

/// What any choice may take more. The worst of the 300 takes 1.0312 times the best: two products with gathered weights on a
/// line of two GPUs.
const MOST: f64 = 1.05;

/// A program of a few collectives and products.
fn program(random: &mut Rng) -> String {
    let machine = ["tpu_v5e", "tpu_v5p", "tpu_v6e", "h100"][random.usize(..4)];
    let mesh = ["X: 4 ring", "X: 8 ring", "X: 2 line", "X: 2, Y: 2", "X: 4 ring, Y: 2"][random.usize(..5)];
    let [b, d, f] = [9..14, 9..13, 9..14].map(|powers| 1u64 << random.u32(powers));
    let body = [
        "x: bf16[B_X, D]\nW: bf16[D, F_X]\ny[B, F_X] = x * W\n",
        "x: bf16[B, D_X]\nW: bf16[D_X, F]\ny[B_X, F] = x * W\n",
        "x: bf16[B, D_X]\nW: bf16[D_X, F]\ny[B, F] = x * W\n",
        "x: bf16[B_X, D]\nW: bf16[D, F_X]\ny[B_X, F] = x * W\n",
        "x: bf16[B_X, D]\nW: bf16[D_X, F]\ny[B_X, F] = relu(x * W)\n",
        "x: bf16[B_X, D]\nW: bf16[D, F_X]\nV: bf16[F_X, D]\nh[B, F_X] = x * W\ny[B_X, D] = h * V\n",
        "x: bf16[B, D]\nW: bf16[D, F_X]\nV: bf16[F_X, D]\nh[B, F_X] = gelu(x * W)\ny[B, D] = h * V\n",
        "x: bf16[B_X, D]\nW: bf16[D_X, F]\nV: bf16[F, D_X]\nh[B_X, F] = x * W\ny[B_X, D] = h * V\n",
        "x: bf16[B_X, D]\nW: bf16[D, F]\nV: bf16[D, F]\ny[B_X, F] = x * W\nz[B, F] = x * V\n",
        "x: bf16[B, D_X]\nW: bf16[D_X, F]\nV: bf16[D, F]\ny[B, F_X] = x * W\nz[B, F] = x * V\n",
    ][random.usize(..10)];
    format!("mesh {{{mesh}}} on {machine}\ndims {{B: {b}, D: {d}, F: {f}}}\n{body}")
}

/// What is chosen is close to the best of these pieces and orders, in a tenth of 300 programs or all.
#[test]
fn pieces_and_order_are_close_to_those_of_an_exhaustive_search() {
    let count = if sets::are_full() { 300 } else { 30 };
    let (mut orders, mut split, mut seen, mut worse) = (0, 0, BTreeSet::new(), Vec::new());
    let mut random = Rng::with_seed(1);
    while seen.len() < count {
        let source = program(&mut random);
        if !seen.insert(source.clone()) {
            continue;
        }
        let (best, tried) = exhaustive(&apart(&source));
        let chosen = compile(&source);
        let time = clock::run(&chosen.schedule, &chosen.topology).expect("a time").makespan;
        orders += tried;
        split += usize::from(!chosen.plan.overlap.pipelines.is_empty());
        let ratio = time.ratio(best);
        assert!(ratio <= MOST, "{ratio:.4}: {source}{:?}", chosen.plan.overlap.pipelines);
        if ratio > USUAL {
            worse.push(format!("{ratio:.4}: {source}{:?}", chosen.plan.overlap.pipelines));
        }
    }
    assert!(worse.len() <= (count / 50).max(1), "{} of {count}\n{}", worse.len(), worse.join("\n"));
    assert!(orders > 50 * count && 2 * split > count, "{orders} {split}");
}
