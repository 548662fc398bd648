//! Prices that take long to find, such as those of a simulation, are asked for only where a plan wants them.
//!
//! A program is planned with bounds in the place of prices. If the plan has a move of which only the bound is known, its
//! price is found, and the program is planned again. A plan all of whose prices are known is the cheapest: every other
//! costs no less than by bounds.

use super::reshard::Terms;
use super::{Cost, Costs, Limit, LocalWork, Objective, Plan, PlanError, branch};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::program::Program;
use crate::units::Time;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// So many times a program is planned; then the bound stays below the plan.
const MOST_ROUNDS: usize = 48;

/// The cheapest plan on some terms.
///
/// # Errors
/// If there is none.
pub(super) fn solve(program: &Program, costs: &dyn Costs, terms: Terms) -> Result<Plan, PlanError> {
    let lazy = Lazy { costs, known: RefCell::default() };
    let mut round = 0;
    loop {
        round += 1;
        let branch::Solved { built, least } = branch::solve(program, &lazy, terms)?;
        let wanted: Vec<_> = built.moves().filter(|(moved, from)| lazy.at_least(moved, from).is_some()).collect();
        if wanted.is_empty() {
            return Ok(built.finish(least, &lazy));
        }
        wanted.iter().for_each(|(moved, from)| {
            lazy.learn(moved, from);
        });
        if round == MOST_ROUNDS {
            return Ok(built.repriced().finish(least, &lazy));
        }
    }
}

/// A time, and whether the collective may take longer.
#[derive(Clone, Copy)]
struct Known {
    cost: Cost,
    is_bound: bool,
}

/// Costs of which some are only known as bounds.
pub(super) struct Lazy<'a> {
    costs: &'a dyn Costs,
    known: RefCell<FxHashMap<(Collective, Layout), Known>>,
}

impl Lazy<'_> {
    /// Finds what a collective costs.
    pub(super) fn learn(&self, collective: &Collective, from: &Layout) -> Cost {
        let cost = self.costs.collective(collective, from);
        let known = Known { cost, is_bound: false };
        self.known.borrow_mut().insert((collective.clone(), from.clone()), known);
        cost
    }

    fn known(&self, collective: &Collective, from: &Layout) -> Known {
        let key = (collective.clone(), from.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let known = match self.costs.at_least(collective, from) {
            Some(time) => Known { cost: Cost { time, limit: Limit::Bandwidth }, is_bound: true },
            None => Known { cost: self.costs.collective(collective, from), is_bound: false },
        };
        self.known.borrow_mut().insert(key, known);
        known
    }
}

impl Costs for Lazy<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        self.known(collective, from).cost
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Time> {
        let known = self.known(collective, from);
        known.is_bound.then_some(known.cost.time)
    }

    fn product(&self, work: &LocalWork) -> Cost {
        self.costs.product(work)
    }

    fn map(&self, work: &LocalWork) -> Cost {
        self.costs.map(work)
    }

    fn seen_as(&self, mesh: &Mesh) -> Option<Box<dyn Costs + '_>> {
        self.costs.seen_as(mesh)
    }

    fn objective(&self) -> Objective {
        self.costs.objective()
    }

    fn name(&self) -> &'static str {
        self.costs.name()
    }
}
