//! Simulated times: each collective costs the simulated time of its recipe.

use super::{Known, limited, roofline, traffic};
use crate::bounds::Bounds;
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::method::Method;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::{Lowering, Tuner};
use crate::topology::Topology;
use itertools::Itertools;
use std::borrow::Cow;

/// The time on the simulated links of one machine.
pub(super) struct Exact<'a> {
    tuner: Tuner<'a>,
    /// Methods that a statement may request, and that the library of the machine does not use by itself.
    requested: Vec<Method>,
    bounds: Bounds<'a>,
    known: Known,
}

impl<'a> Exact<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> Exact<'a> {
        let tuner = Tuner::new(Cow::Borrowed(topology), lowering);
        Exact { tuner, requested: Vec::new(), bounds: Bounds::new(topology), known: Known::default() }
    }

    /// As if every statement could request these methods. No plan of a program in which some do takes less.
    pub(super) fn with_methods(self, requested: impl Iterator<Item = Method>) -> Exact<'a> {
        // All others choose the best method, which is no slower than a requested one.
        let has_library = self.tuner.topology().hardware.networks().any(|network| !network.methods.is_empty());
        Exact { requested: requested.filter(|_| has_library).unique().collect(), ..self }
    }
}

impl Costs for Exact<'_> {
    fn tuner(&self) -> Option<&Tuner<'_>> {
        Some(&self.tuner)
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        self.known.or_computed(collective, from, || {
            let bound = self.bounds.collective(collective, from);
            let methods = self.requested.iter().copied().map(Some).chain([None]);
            let times = methods.filter_map(|method| self.tuner.choose(collective, from, method).ok()?.time);
            // A collective that is too large to simulate costs its lower bound.
            let time = times.min().unwrap_or_else(|| bound.time());
            let limit = if bound.latency > bound.bandwidth { Limit::Latency } else { Limit::Bandwidth };
            Cost { received: collective.bytes_received(from, &self.tuner.topology().mesh), ..limited(time, limit) }
        })
    }

    fn product(&self, work: &LocalWork) -> Cost {
        roofline(work, self.tuner.topology())
    }

    fn map(&self, work: &LocalWork) -> Cost {
        traffic(work, self.tuner.topology())
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        let is_slice = matches!(collective, Collective::Slice { .. });
        if is_slice || self.known.get(collective, from).is_some() {
            return None;
        }
        let received = collective.bytes_received(from, &self.tuner.topology().mesh);
        Some(Cost { received, ..limited(self.bounds.collective(collective, from).time(), Limit::Bandwidth) })
    }

    fn is_by_clock(&self) -> bool {
        true
    }

    fn fusion(&self) -> Fusion {
        self.tuner.topology().hardware.fusion
    }

    fn name(&self) -> &'static str {
        "exact"
    }
}
