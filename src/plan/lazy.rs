//! Prices that take long to find, such as those of a simulation, are asked for only where a plan wants them.
//!
//! A program is planned with bounds in the place of prices. If the plan has a move of which only the bound is known, its
//! price is found, and the program is planned again. A plan all of whose prices are known is the cheapest: every other
//! costs no less than by bounds.

use super::reshard::SearchOptions;
use super::search::Search;
use super::{Cost, Costs, Limit, LocalWork, Objective, Plan, PlanError, branch};
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::program::Program;
use crate::recipe::Tuner;
use crate::units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// So many times a program is planned; then the plan is the best of moves whose prices are known, and the bound stays
/// below it.
const MOST_ROUNDS: usize = 96;

/// The cheapest plan on some terms.
///
/// # Errors
/// If there is none.
pub(super) fn solve(program: &Program, costs: &dyn Costs, terms: SearchOptions) -> Result<Plan, PlanError> {
    // What a pin asks for is seen on the cheapest ways, which are those by price.
    let is_eager = program.values.iter().any(|value| value.pin.is_some());
    let lazy = Lazy { costs, is_eager, only_known: false, learned: RefCell::default() };
    let mut search = Search::new(program, &lazy, terms);
    let mut round = 0;
    loop {
        round += 1;
        let branch::Solved { built, least } = branch::solve(search)?;
        let wanted: Vec<_> = built.moves().filter(|(moved, from)| lazy.at_least(moved, from).is_some()).collect();
        if wanted.is_empty() {
            return Ok(built.finish(least, &lazy));
        }
        wanted.iter().for_each(|(moved, from)| {
            lazy.learn(moved, from);
        });
        if round == MOST_ROUNDS || terms.budget.is_over() {
            let learned = RefCell::new(lazy.learned.borrow().clone());
            let known = Lazy { only_known: true, learned, ..lazy };
            let last = built.repriced();
            let again = || branch::solve(Search::new(program, &known, terms)).ok();
            let best = if terms.budget.is_over() { None } else { again() };
            return Ok(match best.map(|solved| solved.built).filter(|best| best.score() < last.score()) {
                Some(best) => best.finish(least, &lazy),
                None => last.finish(least, &lazy),
            });
        }
        search = built.into_search();
        wanted.iter().for_each(|(moved, from)| search.reprice(moved, from));
    }
}

/// Longer than any plan; a few of them can still be added.
const NEVER: Cost =
    Cost { time: Time::from_ticks(u128::MAX / 1024), received: Bytes(u64::MAX / 1024), limit: Limit::Bandwidth };

/// Costs of which some are only known as bounds.
pub(super) struct Lazy<'a> {
    costs: &'a dyn Costs,
    /// Whether every price is found at once.
    is_eager: bool,
    /// Whether what is not known takes longer than anything.
    only_known: bool,
    /// By the layout before it: what has been found.
    learned: RefCell<FxHashMap<Layout, FxHashMap<Collective, Cost>>>,
}

impl Lazy<'_> {
    /// Finds what a collective costs.
    pub(super) fn learn(&self, collective: &Collective, from: &Layout) -> Cost {
        let cost = self.costs.collective(collective, from);
        self.learned.borrow_mut().entry(from.clone()).or_default().insert(collective.clone(), cost);
        cost
    }

    fn learned(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        self.learned.borrow().get(from)?.get(collective).copied()
    }
}

impl Costs for Lazy<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        if let Some(cost) = self.learned(collective, from) {
            return cost;
        }
        match self.costs.at_least(collective, from).filter(|_| !self.is_eager) {
            Some(_) if self.only_known => NEVER,
            Some(bound) => bound,
            None => self.costs.collective(collective, from),
        }
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        let bound = self.costs.at_least(collective, from).filter(|_| !self.is_eager)?;
        self.learned(collective, from).is_none().then_some(bound)
    }

    fn product(&self, work: &LocalWork) -> Cost {
        self.costs.product(work)
    }

    fn map(&self, work: &LocalWork) -> Cost {
        self.costs.map(work)
    }

    fn fusion(&self) -> Fusion {
        self.costs.fusion()
    }

    fn seen_as(&self, mesh: &Mesh) -> Option<Box<dyn Costs + '_>> {
        self.costs.seen_as(mesh)
    }

    fn objective(&self) -> Objective {
        self.costs.objective()
    }

    fn tuner(&self) -> Option<&Tuner<'_>> {
        self.costs.tuner()
    }

    fn is_by_clock(&self) -> bool {
        self.costs.is_by_clock()
    }

    fn name(&self) -> &'static str {
        self.costs.name()
    }
}
