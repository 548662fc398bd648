//! Costs that are partly known as lower bounds only, until they are computed.

use super::{Cost, Costs, Limit, LocalWork, Objective};
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::recipe::Tuner;
use crate::units::{Bytes, Time};
use std::rc::Rc;

/// Longer than any plan; a few of these can be added without overflow.
const NEVER: Cost =
    Cost { time: Time::from_ticks(u128::MAX / 1024), received: Bytes(u64::MAX / 1024), limit: Limit::Bandwidth };

/// Costs that are partly known as lower bounds only. A cost that was computed once, even for another program, is known.
#[derive(Clone, Copy)]
pub(super) struct Prices<'a> {
    costs: &'a dyn Costs,
    /// Whether every price is computed immediately.
    is_eager: bool,
    /// Whether unknown prices are treated as infinite.
    only_known: bool,
}

impl<'a> Prices<'a> {
    /// - `is_eager`: whether every price is computed immediately.
    pub(super) fn new(costs: &'a dyn Costs, is_eager: bool) -> Prices<'a> {
        Prices { costs, is_eager, only_known: false }
    }

    /// A variant in which unknown prices are infinite.
    pub(super) fn only_known(&self) -> Prices<'a> {
        Prices { only_known: true, ..*self }
    }

    /// Computes the price of a collective.
    pub(super) fn learn(&self, collective: &Collective, from: &Layout) -> Cost {
        self.costs.collective(collective, from)
    }
}

impl Costs for Prices<'_> {
    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        match self.at_least(collective, from) {
            Some(_) if self.only_known => NEVER,
            Some(bound) => bound,
            None => self.costs.collective(collective, from),
        }
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        self.costs.at_least(collective, from).filter(|_| !self.is_eager)
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

    fn seen_as(&self, mesh: &Mesh) -> Option<Rc<dyn Costs + '_>> {
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
