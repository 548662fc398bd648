//! The book's closed forms: isolated steps, no overlap; elementwise functions and memory traffic are free.

use super::limited;
use crate::collective::Collective;
use crate::layout::Layout;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::{Lowering, Tuner};
use crate::topology::{self, ClosedForm, Topology};
use crate::units::{Bytes, Time};
use std::borrow::Cow;

/// The book's formulas on one machine.
pub(super) struct Book<'a> {
    tuner: Tuner<'a>,
}

impl<'a> Book<'a> {
    pub(super) fn new(topology: &'a Topology, lowering: Lowering) -> Book<'a> {
        Book { tuner: Tuner::new(Cow::Borrowed(topology), lowering) }
    }
}

impl Costs for Book<'_> {
    fn tuner(&self) -> Option<&Tuner<'_>> {
        Some(&self.tuner)
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        let topology = self.tuner.topology();
        let mesh = &topology.mesh;
        let axes = collective.axes(&from.sharding, mesh);
        let local = from.local_bytes(mesh);
        // The full array of one group member; the checker limits sizes to below 2^60 elements.
        let full = Bytes(local.0.saturating_mul(axes.group_size(mesh)));
        let form = match collective {
            Collective::AllGather { .. } => topology.all_gather(axes.iter(), full),
            Collective::ReduceScatter { .. } => topology.reduce_scatter(axes.iter(), local),
            Collective::AllReduce { .. } => topology.all_reduce(axes.iter(), local),
            Collective::AllToAll { .. } => topology.all_to_all(axes.iter(), full),
            Collective::Permute { .. } | Collective::Reshard { .. } => topology.permute(axes.iter(), local),
            Collective::Shift(_) => topology.permute(axes.iter(), collective.bytes_received(from, mesh)),
            Collective::Broadcast { .. } => topology.broadcast(axes.iter(), local),
            Collective::Slice { .. } | Collective::Open { .. } => return limited(Time::ZERO, Limit::Free),
        };
        Cost { received: collective.bytes_received(from, mesh), ..limited(form.time, limit(&form)) }
    }

    fn product(&self, work: &LocalWork) -> Cost {
        let topology = self.tuner.topology();
        let rate = topology.hardware.flops(work.dtype);
        limited(topology.scale.at_rate(work.flops, rate), Limit::Compute)
    }

    fn map(&self, _: &LocalWork) -> Cost {
        limited(Time::ZERO, Limit::Free)
    }

    fn name(&self) -> &'static str {
        "book"
    }
}

fn limit(form: &ClosedForm) -> Limit {
    match form.limit() {
        topology::Limit::Latency => Limit::Latency,
        topology::Limit::Bandwidth => Limit::Bandwidth,
    }
}
