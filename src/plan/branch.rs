//! Values with several users: branch and bound over the shardings in which they are materialised.
//!
//! A relaxed search lets each user choose independently at its share of the cost, which gives a lower bound. If the
//! users of each value agree, the result is an optimal plan. Otherwise one of the values they disagree on is decided.
//! The paths to `k` users branch at no more than `k - 1` shardings, which are decided one after the other. A branch
//! is explored while its bound is below the best plan.

use super::build::{Built, build};
use super::reshard::{Node, Score};
use super::search::{Basis, Found, Places, Search, Settled, most_taken};
use super::{Budget, PlanError, Stop};
use crate::layout::{DimId, Sharding};
use crate::mesh::{Axes, AxisSet};
use crate::program::{Definition, Program, ValueId, Wanted};
use itertools::Itertools;
use petgraph::unionfind::UnionFind;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// The cheapest plan found, and the lower bound.
pub(super) struct Solved<'a> {
    pub(super) built: Built<'a>,
    /// Its decisions.
    pub(super) settled: Settled,
    /// Lower bound on the objective; that of the plan itself if it is optimal.
    pub(super) least: u128,
    /// Why it may not be optimal.
    pub(super) stop: Stop,
    /// Number of moves examined so far by the search.
    pub(super) work: u64,
}

/// How much a search does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A share of the work limit.
    Look,
    /// All that the limit allows; then the plan is improved.
    Full,
}

impl Effort {
    fn most_work(self, budget: Budget) -> u64 {
        match self {
            Effort::Look => budget.most_work() / Budget::SHARE_OF_A_LOOK,
            Effort::Full => budget.most_work(),
        }
    }
}

/// Why there is no plan.
pub(super) struct Unsolved<'a> {
    pub(super) error: Box<PlanError>,
    /// Lower bound over the plans that were left out; `None` if all were excluded.
    pub(super) left_out: Option<u128>,
    /// The search, if it was cut short.
    pub(super) cut_short: Option<Box<Search<'a>>>,
}

/// Solves the program of a search.
///
/// - `known`: decisions of a plan that is known already.
///
/// # Errors
/// If there is no plan under its options, or none was found.
pub(super) fn solve<'a>(
    search: Search<'a>,
    effort: Effort,
    known: Option<&Settled>,
) -> Result<Solved<'a>, Unsolved<'a>> {
    let (program, most) = (search.program, search.options.most);
    let mut tree = Tree {
        start: search.work(),
        most_work: effort.most_work(search.options.budget),
        search,
        best: None,
        evaluated: Basis::default(),
        waiting: BinaryHeap::new(),
        branches: Vec::new(),
        added: Vec::new(),
        unsolved: None,
        stop: Stop::Gap,
        failure: None,
    };
    if let Some(settled) = known
        && tree.search.run(settled, false, None).is_ok()
    {
        tree.keep(tree.search.total(), settled.clone());
    }
    tree.push(Branch { settled: Settled::new(), basis: Rc::default(), bound: Score::default() });
    let mut least = match tree.grow() {
        Ok(least) => least,
        Err(error) => {
            let left_out = tree.search.left_out(None);
            return Err(Unsolved { error: Box::new(error), left_out, cut_short: None });
        }
    };
    if tree.stop == Stop::Work && effort == Effort::Full && !tree.is_close_to(least) {
        tree.propose();
        tree.improve();
    }
    let Tree { mut search, best, mut stop, failure, .. } = tree;
    search.options.most = most;
    let Some(Best { settled, found, .. }) = best else {
        let error = failure.or_else(|| program.value_ids().last().map(|id| search.unreachable(id)));
        let (error, is_cut_short) = (error.expect("a program has a value"), stop == Stop::Work);
        let error = match error {
            PlanError::Pin { name, pin, help, span } if is_cut_short => {
                PlanError::PinNotFound { name, pin, help, span }
            }
            error => error,
        };
        let left_out = search.left_out(is_cut_short.then_some(least));
        return Err(Unsolved { error: Box::new(error), left_out, cut_short: is_cut_short.then(|| Box::new(search)) });
    };
    if program.values.iter().any(|value| value.pin.is_some()) {
        // Pins are checked on the paths found, so the bound ignores them and covers all plans.
        stop = Stop::Pins;
        search.heeds_pins = false;
        run_all(&mut search, &Settled::new(), true)?;
        least = search.total().first();
        search.heeds_pins = true;
    }
    match found {
        Some(found) => search.found = found,
        None => run_all(&mut search, &settled, false)?,
    }
    let work = search.work();
    Ok(Solved { built: build(search), settled, least, stop, work })
}

/// Searches the whole program.
fn run_all<'a>(search: &mut Search<'a>, settled: &Settled, relaxed: bool) -> Result<(), Unsolved<'a>> {
    let result = search.run(settled, relaxed, None);
    result.map_err(|error| Unsolved { error: Box::new(error), left_out: Some(0), cut_short: None })
}

/// Branches explored in order of their bounds before the search dives for a first plan.
const PATIENCE: usize = 8;

/// An open branch.
struct Branch {
    settled: Settled,
    /// The relaxed search without the last decision.
    basis: Rc<Basis>,
    bound: Score,
}

/// The best plan so far.
struct Best {
    score: Score,
    /// Its decisions.
    settled: Settled,
    /// Its results, if nothing was pruned by a known plan.
    found: Option<Vec<Rc<Found>>>,
}

struct Tree<'a> {
    search: Search<'a>,
    /// Work done before this search.
    start: u64,
    /// Work after which it stops.
    most_work: u64,
    best: Option<Best>,
    /// The last evaluation of rounded decisions.
    evaluated: Basis,
    /// Open branches by bound; in case of a tie the last one.
    waiting: BinaryHeap<Reverse<(Score, Reverse<usize>)>>,
    branches: Vec<Option<Branch>>,
    /// The branches from which a dive continues, the last one first; some are explored.
    added: Vec<usize>,
    /// Lowest bound of the pruned branches.
    unsolved: Option<Score>,
    /// Why branches may remain.
    stop: Stop,
    failure: Option<PlanError>,
}

impl Tree<'_> {
    /// Searches for the best plan and the lower bound.
    fn grow(&mut self) -> Result<u128, PlanError> {
        let mut looked_into = 0;
        loop {
            // Until a plan is found, dive: best-first order may never complete one.
            let deepest = if self.best.is_none() && looked_into >= PATIENCE { self.deepest() } else { None };
            let place = match deepest {
                Some(place) => place,
                None => match self.waiting.pop() {
                    Some(Reverse((_, Reverse(place)))) => place,
                    None => break,
                },
            };
            // Explored while diving.
            let Some(branch) = self.branches[place].take() else { continue };
            let bound = branch.bound;
            if !self.may_be_best(bound) {
                break;
            }
            looked_into += 1;
            // The first branch gives the bound.
            let may_stop = looked_into > 1 && (self.best.is_some() || self.search.options.most < u128::MAX);
            let is_done = self.work() > self.most_work || deepest.is_none() && self.is_close_to(bound.first());
            let is_hopeless = self.work() / Budget::TIMES_WITHOUT_A_PLAN > self.most_work && self.is_restricted();
            if (is_done || self.search.budget.is_over()) && may_stop || is_hopeless {
                self.unsolved = self.unsolved.into_iter().chain([bound]).min();
                self.stop = Stop::Work;
                break;
            }
            if let Err(error) = self.look_into(branch) {
                // No plan is better than one that is known.
                if place == 0 && self.best.is_none() {
                    return Err(error);
                }
                self.fail(error);
            }
        }
        let best = self.best.as_ref().map(|best| best.score);
        Ok(best.into_iter().chain(self.unsolved).min().unwrap_or_default().first())
    }

    /// Whether there may be no plan although each value has layouts: because of pins, or of limits.
    fn is_restricted(&self) -> bool {
        let options = &self.search.options;
        matches!(self.failure, Some(PlanError::Pin { .. }))
            || options.memory_limit < u64::MAX
            || options.flops < u128::MAX
    }

    /// The open branch that was added last.
    fn deepest(&mut self) -> Option<usize> {
        while let Some(place) = self.added.pop() {
            if self.branches[place].is_some() {
                return Some(place);
            }
        }
        None
    }

    /// Keeps the error of a branch; that of a pin says the most.
    fn fail(&mut self, error: PlanError) {
        if !matches!(self.failure, Some(PlanError::Pin { .. })) {
            self.failure = Some(error);
        }
    }

    /// Work done by this search.
    fn work(&self) -> u64 {
        self.search.work().saturating_sub(self.start)
    }

    /// Whether the best plan is so close to a bound that the remaining work is not worth it.
    fn is_close_to(&self, bound: u128) -> bool {
        let Some(best) = &self.best else { return false };
        let (score, gap) = (best.score.first(), best.score.first().saturating_sub(bound));
        let most = score.saturating_mul(u128::from(self.work())) / u128::from(self.most_work.max(1));
        self.work() > self.most_work / Budget::FIRST_SHARE && gap.saturating_mul(Budget::LEAST_GAP) < most
    }

    /// Compares the best plan of an unfinished search with those in which each dim has the axes that it has in the
    /// inputs: what people write, and what other compilers propagate.
    fn propose(&mut self) {
        for rules in by_rules(self.search.program) {
            if self.search.run(&rules, false, None).is_ok() && self.may_be_best(self.search.total()) {
                self.keep(self.search.total(), rules);
            }
        }
    }

    /// Improves the best plan of an unfinished search: the decisions of one part of the program are searched again,
    /// while those of the other parts stay. All parts together take about half the work of the search before.
    fn improve(&mut self) {
        let parts = self.parts();
        let shared = |id: &ValueId| self.search.is_shared(*id);
        let decided: Vec<Vec<ValueId>> =
            parts.into_iter().map(|part| part.into_iter().filter(shared).collect()).collect();
        let decided: Vec<Vec<ValueId>> = decided.into_iter().filter(|part| !part.is_empty()).collect();
        if decided.len() < 2 {
            return;
        }
        let (before, most_work) = (self.search.work(), self.search.options.budget.most_work());
        // The results of the best plan, which are kept where the decisions of a part make no difference.
        let mut known: Option<(Score, Rc<Basis>)> = None;
        for part in decided.into_iter().take(Budget::MOST_SEARCHED_AGAIN) {
            let Some(best) = self.best.as_ref().filter(|_| self.search.work() - before < most_work / 2) else { return };
            let (score, mut settled) = (best.score, best.settled.clone());
            for id in self.search.program.value_ids().filter(|id| self.search.is_shared(*id)) {
                if matches!(self.search.program.value(id).wanted, Wanted::Exact(_)) || settled.contains_key(&id) {
                    settled.entry(id).or_default().complete = true;
                }
            }
            if known.as_ref().is_none_or(|(known, _)| *known != score) {
                let result = self.search.run(&settled, true, None);
                known = result.ok().map(|()| (score, Rc::new(self.search.basis(&settled))));
            }
            part.iter().for_each(|id| drop(settled.remove(id)));
            (self.waiting, self.branches, self.added) = (BinaryHeap::new(), Vec::new(), Vec::new());
            (self.start, self.most_work) = (self.search.work(), most_work / Budget::SHARE_OF_A_PART);
            let basis = known.as_ref().map(|(_, basis)| Rc::clone(basis)).unwrap_or_default();
            self.push(Branch { settled, basis, bound: Score::default() });
            // A part without a better plan keeps its decisions.
            drop(self.grow());
            self.stop = Stop::Work;
        }
    }

    /// The values that are connected through free layouts; a written layout separates them.
    fn parts(&self) -> Vec<Vec<ValueId>> {
        let program = self.search.program;
        let mut parts = UnionFind::<usize>::new(program.values.len());
        for id in program.value_ids() {
            for operand in program.value(id).definition.operands() {
                if !matches!(program.value(*operand).wanted, Wanted::Exact(_)) {
                    parts.union(id.index(), operand.index());
                }
            }
        }
        for carried in program.carried() {
            parts.union(carried.first.index(), carried.last.index());
        }
        program.value_ids().into_group_map_by(|id| parts.find(id.index())).into_values().sorted().collect()
    }

    fn push(&mut self, branch: Branch) {
        self.waiting.push(Reverse((branch.bound, Reverse(self.branches.len()))));
        self.added.push(self.branches.len());
        self.branches.push(Some(branch));
    }

    fn may_be_best(&self, bound: Score) -> bool {
        self.best.as_ref().is_none_or(|best| bound < best.score)
    }

    /// Evaluates a branch: records a plan, or decides the next value.
    fn look_into(&mut self, branch: Branch) -> Result<(), PlanError> {
        let Branch { settled, basis, bound } = branch;
        self.search.run(&settled, true, Some(&basis))?;
        let bound = bound.max(self.search.total());
        if !self.may_be_best(bound) {
            return Ok(());
        }
        if self.is_plan() {
            self.keep(self.search.total(), settled);
            return Ok(());
        }
        let taken = self.search.taken().nodes;
        let relaxed = Rc::new(self.search.basis(&settled));
        let differs = self.search.program.value_ids().find(|id| self.differ(*id, &taken[id.index()]));
        let mut rounded = self.rounded(&settled, &taken);
        match self.run_rounded(&mut rounded, &settled) {
            Ok(()) => {
                let total = self.search.total();
                if self.may_be_best(total) {
                    self.keep(total, rounded);
                }
                if differs.is_none() && bound < total {
                    self.unsolved = self.unsolved.into_iter().chain([bound]).min();
                }
            }
            Err(error) => self.fail(error),
        }
        if let Some(id) = differs {
            self.decide(id, &settled, bound, &relaxed);
        }
        Ok(())
    }

    /// Evaluates rounded decisions. One that the others make impossible is taken back: in the relaxed search, the last
    /// value of a body may be an open sum even if the next iteration begins with a closed one.
    fn run_rounded(&mut self, rounded: &mut Settled, settled: &Settled) -> Result<(), PlanError> {
        let mut result = self.run_from_last(rounded);
        // With a plan at hand, most fail because they are worse.
        while result.is_err() && self.best.is_none() {
            let id = self.search.program.value_ids().nth(self.search.found.len()).expect("a value failed");
            if rounded.remove(&id) == settled.get(&id).cloned() {
                break;
            }
            rounded.extend(settled.get(&id).map(|places| (id, places.clone())));
            result = self.run_from_last(rounded);
        }
        result
    }

    /// Evaluates decisions, beginning with what the last evaluation found.
    fn run_from_last(&mut self, settled: &Settled) -> Result<(), PlanError> {
        let result = self.search.run(settled, false, Some(&self.evaluated));
        self.evaluated = self.search.basis(settled);
        result
    }

    /// Whether the relaxed search left no value open.
    fn is_plan(&self) -> bool {
        let mut found = self.search.program.value_ids().zip(&self.search.found);
        found.all(|(id, found)| !found.is_open() && (found.settled.is_some() || !self.search.is_carried(id)))
    }

    /// Records the plan of the search as the best one.
    fn keep(&mut self, score: Score, settled: Settled) {
        let found = self.best.is_none().then(|| self.search.found.clone());
        self.search.options.most = score.first();
        self.best = Some(Best { score, settled, found });
    }

    /// Whether the users of a value disagree.
    fn differ(&self, id: ValueId, taken: &[Node]) -> bool {
        let found = &self.search.found[id.index()];
        match found.settled {
            None => self.search.is_carried(id) || found.is_open() && !taken.iter().all_equal(),
            Some(_) => found.is_open() && taken.iter().any(|node| found.had().all(|had| had != *node)),
        }
    }

    /// Decides all open values by majority.
    fn rounded(&self, settled: &Settled, taken: &[Vec<Node>]) -> Settled {
        let mut rounded = settled.clone();
        for (id, found) in self.search.program.value_ids().zip(&self.search.found) {
            let (space, is_carried) = (self.search.space(id), self.search.is_carried(id));
            if !found.is_open() && !is_carried || is_carried && found.settled.is_some() {
                continue;
            }
            let elsewhere = |node: &&Node| found.had().all(|had| had != **node);
            let taken: Vec<Node> = taken[id.index()].iter().filter(elsewhere).copied().collect();
            // A single user chooses for itself.
            let wanted = most_taken(&taken)
                .filter(|node| found.settled.is_none() || taken.iter().filter(|other| *other == node).count() > 1);
            let places = rounded.entry(id).or_default();
            places.shardings.extend(wanted.map(|node| space.sharding(node).clone()));
            places.complete = true;
        }
        rounded.retain(|_, places| !places.shardings.is_empty());
        rounded
    }

    /// Branches on the next sharding of a value.
    fn decide(&mut self, id: ValueId, settled: &Settled, bound: Score, relaxed: &Rc<Basis>) {
        let found = relaxed.of(id);
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
            let alone = if found.settled.is_none() { score.with_penalty(others) } else { Score::default() };
            branches.push((bound.max(alone), places));
        }
        if found.settled.is_some() {
            branches.push((bound, Places { complete: true, ..before }));
        }
        for (bound, places) in branches {
            if self.may_be_best(bound) {
                let mut settled = settled.clone();
                settled.insert(id, places);
                self.push(Branch { settled, basis: Rc::clone(relaxed), bound });
            }
        }
    }
}

/// Layouts of all values with several users and of carried ones, by the axes of each dim in the inputs: by all mesh axes
/// together, and by each of them alone.
fn by_rules(program: &Program) -> Vec<Settled> {
    let mut rules: BTreeMap<DimId, Axes> = BTreeMap::new();
    let mut all = AxisSet::NONE;
    for value in &program.values {
        let (Definition::Input { .. }, Wanted::Exact(sharding)) = (&value.definition, &value.wanted) else { continue };
        for (dim, axes) in value.dims.iter().zip(&sharding.dims).filter(|(_, axes)| !axes.is_empty()) {
            rules.entry(dim.id).or_insert(*axes);
            all = all.union(axes.set());
        }
    }
    let mut users = vec![0; program.values.len()];
    for value in &program.values {
        value.definition.operands().iter().for_each(|operand| users[operand.index()] += 1);
    }
    let carried: Vec<ValueId> = program.carried().map(|carried| carried.first).collect();
    let of = |id: ValueId, within: AxisSet| {
        let mut taken = AxisSet::NONE;
        let dims = program.value(id).dims.iter().map(|dim| {
            let axes = rules.get(&dim.id).copied().unwrap_or_default();
            let fits = axes.set().intersection(taken).is_empty() && axes.set().is_subset(within);
            taken = taken.union(if fits { axes.set() } else { AxisSet::NONE });
            if fits { axes } else { Axes::default() }
        });
        Sharding { dims: dims.collect(), ..Sharding::default() }
    };
    let mut within = vec![all];
    within.extend(program.mesh.axis_ids().map(AxisSet::one).filter(|axis| axis.is_subset(all) && *axis != all));
    let settled = |within: AxisSet| {
        let decided = program.value_ids().filter(|id| users[id.index()] > 1 || carried.contains(id));
        let free = decided.filter(|id| matches!(program.value(*id).wanted, Wanted::Free));
        free.map(|id| (id, Places { shardings: vec![of(id, within)], complete: true })).collect()
    };
    within.into_iter().map(settled).collect()
}

#[cfg(test)]
mod tests {
    use crate::compiler::{self, Options};
    use crate::costs::CostModel;
    use crate::units::Time;

    /// The time of the plan of a program, if there is one.
    fn time(source: &str, costs: CostModel) -> Option<Time> {
        let options = Options { costs, ..Options::default() };
        let program = compiler::check(source).0?;
        let topology = compiler::machine(&program, &options).ok()?;
        let plan = compiler::plan(&program, &topology, &options).ok()?;
        Some(plan.totals().time())
    }

    /// No written layout for the shared value gives a cheaper plan.
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
