//! Costs by received bytes: each collective uses the recipe that sends least; operations break ties.

use super::{Known, limited, roofline, traffic};
use crate::collective::Collective;
use crate::fusion::Fusion;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::{Lowering, Objective, Tuner};
use crate::topology::Topology;
use crate::units::Time;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes received by the device that receives most. Times are simulated.
pub(super) struct ReceivedBytes<'a> {
    tuner: Tuner<'a>,
    known: Known,
    /// The same costs on meshes of parts of axes, which remember what they computed, too.
    in_parts: RefCell<Vec<Rc<ReceivedBytes<'static>>>>,
}

impl<'a> ReceivedBytes<'a> {
    pub(super) fn new(topology: Cow<'a, Topology>, lowering: Lowering) -> ReceivedBytes<'a> {
        let tuner = Tuner::new(topology, lowering).by(Objective::Bytes);
        ReceivedBytes { tuner, known: Known::default(), in_parts: RefCell::default() }
    }
}

impl Costs for ReceivedBytes<'_> {
    fn tuner(&self) -> Option<&Tuner<'_>> {
        Some(&self.tuner)
    }

    fn collective(&self, collective: &Collective, from: &Layout) -> Cost {
        self.known.or_computed(collective, from, || {
            let mesh = &self.tuner.topology().mesh;
            let chosen = self.tuner.choose(collective, from, None).ok();
            let timed = chosen.and_then(|chosen| chosen.time.map(|time| (chosen, time)));
            let Some((chosen, time)) = timed else {
                return Cost { received: collective.bytes_received(from, mesh), ..limited(Time::ZERO, Limit::Free) };
            };
            let received = self.tuner.usage(collective, from, None, &chosen).received();
            Cost { received, ..limited(time, Limit::Bandwidth) }
        })
    }

    fn at_least(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        if !collective.kind().sends() || self.known.get(collective, from).is_some() {
            return None;
        }
        let received = collective.bytes_received(from, &self.tuner.topology().mesh);
        Some(Cost { received, ..limited(Time::ZERO, Limit::Free) })
    }

    fn product(&self, work: &LocalWork) -> Cost {
        roofline(work, self.tuner.topology())
    }

    fn map(&self, work: &LocalWork) -> Cost {
        traffic(work, self.tuner.topology())
    }

    fn objective(&self) -> Objective {
        Objective::Bytes
    }

    fn is_by_clock(&self) -> bool {
        true
    }

    fn seen_as(&self, mesh: &Mesh) -> Option<Rc<dyn Costs + '_>> {
        let mut in_parts = self.in_parts.borrow_mut();
        let known = in_parts.iter().find(|costs| costs.tuner.topology().mesh == *mesh).map(Rc::clone);
        Some(known.unwrap_or_else(|| {
            let topology = self.tuner.topology().seen_as(mesh);
            let costs = Rc::new(ReceivedBytes::new(Cow::Owned(topology), self.tuner.lowering()));
            in_parts.push(Rc::clone(&costs));
            costs
        }))
    }

    fn fusion(&self) -> Fusion {
        self.tuner.topology().hardware.fusion
    }

    fn name(&self) -> &'static str {
        "bytes"
    }
}
