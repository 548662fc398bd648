//! Values with several users: in which shardings they are had.
//!
//! Branch and bound. A relaxed search lets each user choose for itself, at its part of the cost, and so tells what no
//! plan is below. If the users of each value choose alike, that is a plan, and the best one. Otherwise one of the values
//! on which they differ is decided. The ways to `k` users part at `k - 1` shardings at most; those are decided one
//! after the other. What is decided is looked into as long as its bound is below the best plan.

use super::build::{Built, build};
use super::reshard::{Node, Score};
use super::search::{Found, Places, Search, Settled, most_taken};
use super::{PlanError, Stop};
use crate::layout::Sharding;
use crate::program::ValueId;
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// The cheapest plan that was found, and what no plan is below.
pub(super) struct Solved<'a> {
    pub(super) built: Built<'a>,
    /// By the figure that plans are chosen by; that of the plan itself if none is cheaper.
    pub(super) least: u128,
    /// Why it may not be the cheapest.
    pub(super) stop: Stop,
    /// How many moves the search has looked at by now, in all that it was used for.
    pub(super) work: u64,
}

/// Solves the program of a search.
///
/// # Errors
/// If there is no plan on its terms, or none was found.
pub(super) fn solve(search: Search<'_>) -> Result<Solved<'_>, PlanError> {
    let (program, most) = (search.program, search.terms.most);
    let mut tree = Tree {
        most_work: search.work().saturating_add(search.terms.budget.most_work()),
        search,
        best: None,
        waiting: BinaryHeap::new(),
        branches: Vec::new(),
        unsolved: None,
        stop: Stop::Gap,
        failure: None,
    };
    let mut least = tree.grow()?;
    let Tree { mut search, best, mut stop, failure, .. } = tree;
    let Some(Best { settled, found, .. }) = best else {
        let error = failure.or_else(|| program.value_ids().last().map(|id| search.unreachable(id)));
        return Err(error.expect("a program has a value"));
    };
    search.terms.most = most;
    if program.values.iter().any(|value| value.pin.is_some()) {
        // What a pin asks for is seen on the ways that are found, so the bound is that of any way.
        stop = Stop::Pins;
        search.heeds_pins = false;
        search.run(&Settled::new(), true, &[])?;
        least = search.total().first();
        search.heeds_pins = true;
    }
    match found {
        Some(found) => search.found = found,
        None => search.run(&settled, false, &[])?,
    }
    let work = search.work();
    Ok(Solved { built: build(search), least, stop, work })
}

/// Decisions that are still to be looked into.
struct Branch {
    settled: Settled,
    /// The values before the last decision, as they were found before it.
    kept: Rc<Vec<Rc<Found>>>,
    from: usize,
    bound: Score,
}

/// The best plan so far.
struct Best {
    score: Score,
    /// What is decided in it.
    settled: Settled,
    /// What was found then, if nothing was left out because a plan was known already.
    found: Option<Vec<Rc<Found>>>,
}

struct Tree<'a> {
    search: Search<'a>,
    /// When the search has done so much, it gives up.
    most_work: u64,
    best: Option<Best>,
    /// The branches by their bounds; of equal ones the last.
    waiting: BinaryHeap<Reverse<(Score, Reverse<usize>)>>,
    branches: Vec<Option<Branch>>,
    /// The least bound of what was not looked into.
    unsolved: Option<Score>,
    /// Why something may be left.
    stop: Stop,
    failure: Option<PlanError>,
}

impl Tree<'_> {
    /// Looks for the best plan, and tells what none is below.
    fn grow(&mut self) -> Result<u128, PlanError> {
        self.push(Branch { settled: Settled::new(), kept: Rc::new(Vec::new()), from: 0, bound: Score::default() });
        while let Some(Reverse((bound, Reverse(place)))) = self.waiting.pop() {
            let Some(branch) = self.branches[place].take().filter(|_| self.may_be_best(bound)) else { break };
            let may_stop = self.best.is_some() || self.search.terms.most < u128::MAX;
            if (self.search.work() > self.most_work || self.search.budget.is_over()) && may_stop {
                self.unsolved = self.unsolved.into_iter().chain([bound]).min();
                self.stop = Stop::Work;
                break;
            }
            if let Err(error) = self.look_into(branch) {
                if place == 0 {
                    return Err(error);
                }
                self.failure = Some(error);
            }
        }
        let best = self.best.as_ref().map(|best| best.score);
        Ok(best.into_iter().chain(self.unsolved).min().unwrap_or_default().first())
    }

    fn push(&mut self, branch: Branch) {
        self.waiting.push(Reverse((branch.bound, Reverse(self.branches.len()))));
        self.branches.push(Some(branch));
    }

    fn may_be_best(&self, bound: Score) -> bool {
        self.best.as_ref().is_none_or(|best| bound < best.score)
    }

    /// Makes a plan of what is decided, and decides the next value.
    fn look_into(&mut self, branch: Branch) -> Result<(), PlanError> {
        let Branch { settled, kept, from, bound } = branch;
        self.search.run(&settled, true, &kept[..from])?;
        let bound = bound.max(self.search.total());
        if !self.may_be_best(bound) {
            return Ok(());
        }
        if self.is_plan() {
            self.keep(self.search.total(), settled);
            return Ok(());
        }
        let taken = self.search.taken().nodes;
        let relaxed = Rc::new(self.search.found.clone());
        let differs = self.search.program.value_ids().find(|id| self.differ(*id, &taken[id.index()]));
        let rounded = self.rounded(&settled, &taken);
        match self.search.run(&rounded, false, &[]) {
            Ok(()) => {
                let total = self.search.total();
                if self.may_be_best(total) {
                    self.keep(total, rounded);
                }
                if differs.is_none() && bound < total {
                    self.unsolved = self.unsolved.into_iter().chain([bound]).min();
                }
            }
            Err(error) => self.failure = Some(error),
        }
        if let Some(id) = differs {
            self.decide(id, &settled, bound, relaxed);
        }
        Ok(())
    }

    /// Whether the relaxed search has left nothing open.
    fn is_plan(&self) -> bool {
        let mut found = self.search.program.value_ids().zip(&self.search.found);
        found.all(|(id, found)| !found.is_open() && (found.settled.is_some() || !self.search.is_carried(id)))
    }

    /// Keeps what the search has found as the best plan.
    fn keep(&mut self, score: Score, settled: Settled) {
        let found = self.best.is_none().then(|| self.search.found.clone());
        self.search.terms.most = score.first();
        self.best = Some(Best { score, settled, found });
    }

    /// Whether the users of a value have chosen what no plan has.
    fn differ(&self, id: ValueId, taken: &[Node]) -> bool {
        let found = &self.search.found[id.index()];
        match found.settled {
            None => self.search.is_carried(id) || found.is_open() && !taken.iter().all_equal(),
            Some(_) => found.is_open() && taken.iter().any(|node| found.had().all(|had| had != *node)),
        }
    }

    /// A decision of all that is open, by what most users have chosen.
    fn rounded(&self, settled: &Settled, taken: &[Vec<Node>]) -> Settled {
        let mut rounded = settled.clone();
        for (id, found) in self.search.program.value_ids().zip(&self.search.found) {
            let (space, is_carried) = (self.search.space(id), self.search.is_carried(id));
            if !found.is_open() && !is_carried || is_carried && found.settled.is_some() {
                continue;
            }
            let elsewhere = |node: &&Node| found.had().all(|had| had != **node);
            let taken: Vec<Node> = taken[id.index()].iter().filter(elsewhere).copied().collect();
            // One user alone goes its own way.
            let wanted = most_taken(&taken)
                .filter(|node| found.settled.is_none() || taken.iter().filter(|other| *other == node).count() > 1);
            let places = rounded.entry(id).or_default();
            places.shardings.extend(wanted.map(|node| space.sharding(node).clone()));
            places.complete = true;
        }
        rounded.retain(|_, places| !places.shardings.is_empty());
        rounded
    }

    /// Branches on the next sharding in which a value is had.
    fn decide(&mut self, id: ValueId, settled: &Settled, bound: Score, relaxed: Rc<Vec<Rc<Found>>>) {
        let found = Rc::clone(&relaxed[id.index()]);
        let space = self.search.space(id);
        let fits = |node: Node| found.settled.is_some() || self.search.fits(id, node);
        let offered = found.offered().iter().filter(|(node, _)| fits(*node) && found.had().all(|had| had != *node));
        let offered: Vec<(Score, Sharding)> =
            offered.map(|(node, score)| (score, space.sharding(node).clone())).sorted().rev().collect();
        let others = self.search.others(id);
        let before = settled.get(&id).cloned().unwrap_or_default();
        let mut branches = Vec::new();
        for (score, sharding) in offered {
            let mut places = before.clone();
            places.shardings.push(sharding);
            let alone = if found.settled.is_none() { score.with_toll(others) } else { Score::default() };
            branches.push((bound.max(alone), places));
        }
        if found.settled.is_some() {
            branches.push((bound, Places { complete: true, ..before }));
        }
        for (bound, places) in branches {
            if self.may_be_best(bound) {
                let mut settled = settled.clone();
                settled.insert(id, places);
                self.push(Branch { settled, kept: Rc::clone(&relaxed), from: id.index(), bound });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compiler::{self, Options};
    use crate::costs::CostModel;
    use crate::units::Time;

    /// The time of the plan of a program, which may have no plan.
    fn time(source: &str, costs: CostModel) -> Option<Time> {
        let options = Options { costs, ..Options::default() };
        let program = compiler::check(source).0?;
        let topology = compiler::machine(&program, &options).ok()?;
        let plan = compiler::plan(&program, &topology, &options).ok()?;
        Some(plan.totals().time())
    }

    /// With each layout of the shared value written out, no plan is cheaper than with none written.
    #[test]
    fn no_written_layout_of_a_shared_value_is_cheaper() {
        let loss = "x: bf16[B, D]\nW: bf16[D, V_Y]\nlogits[B, V_Y] = x * W\n\
                    m@ = max_V(logits)\nz = sum_V(exp(logits - m))\nloss[B] = log(z) + m";
        let twice = "A: bf16[B, D_Y]\nW: bf16[D_Y, V]\nm@ = A * W\nC[B_Y, V] = relu(m)\nE[B_Y, V] = exp(m)";
        let apart = "A: bf16[B, D_Y]\nW: bf16[D_Y, V]\nm@ = A * W\nC[B_Y, V] = relu(m)\nE[B, V_Y] = exp(m)";
        let slices = ["[B]", "[B_Y]"].as_slice();
        let blocks = ["[B, V]", "[B_Y, V]", "[B, V_Y]"].as_slice();
        for (body, layouts) in [(loss, slices), (twice, blocks), (apart, blocks)] {
            for (rows, costs) in [(8, CostModel::Book), (8, CostModel::Exact), (65536, CostModel::Book)] {
                let ground = format!("mesh {{Y: 8 ring}} on tpu_v5p\ndims {{B: {rows}, D: 4096, V: 8192}}\n");
                let source = |layout: &str| format!("{ground}{}", body.replace('@', layout));
                let free = time(&source(""), costs).expect("a plan");
                let written: Vec<Time> = layouts.iter().filter_map(|layout| time(&source(layout), costs)).collect();
                assert_eq!(Some(&free), written.iter().min(), "{costs:?}\n{}", source(""));
            }
        }
    }
}
