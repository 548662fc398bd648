//! Simulated times: each collective costs the simulated time of its recipe.

use super::{Known, limited, roofline, traffic};
use crate::bounds::Bounds;
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::{Lowering, Tuner};
use crate::topology::Topology;
use std::borrow::Cow;

/// The time on the simulated links of one machine.
pub(super) struct Exact<'a> {
    tuner: Tuner<'a>,
    bounds: Bounds<'a>,
    known: Known,
}

impl<'a> Exact<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> Exact<'a> {
        let tuner = Tuner::new(Cow::Borrowed(topology), lowering);
        Exact { tuner, bounds: Bounds::new(topology), known: Known::default() }
    }
}

impl Costs for Exact<'_> {
    fn tuner(&self) -> Option<&Tuner<'_>> {
        Some(&self.tuner)
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        self.known.or_computed(collective, from, || {
            let bound = self.bounds.collective(collective, from);
            let chosen = self.tuner.choose(collective, from, None);
            // A collective that is too large to simulate costs its lower bound.
            let time = chosen.ok().and_then(|chosen| chosen.time).unwrap_or_else(|| bound.time());
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
