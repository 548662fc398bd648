//! One device for all of its images under translations along the axes of the mesh.
//!
//! The run over all devices does not change under a translation if the machine does not, and no operation does:
//! whether a slice misses does not depend on the place along the axis, and the source of the next device is the next
//! device of the source. All that is left is the order of the destinations, in which the messages of one hop are
//! served: it plays a role only where two of them meet on a link. Messages of devices that differ along no collapsed
//! axis meet alike in all images. Where others meet, which is looked for while it runs, nothing is collapsed.
//!
//! The links of an image are the images of the links, so that there is one clock for each class of links.

use super::LinkLoad;
use crate::mesh::{AxisId, AxisSet, DeviceId, Orbits};
use crate::operator::Operator;
use crate::schedule::{Cut, OpId, Operation, Reach, Schedule, Sources, Verified};
use crate::topology::{LinkId, Topology};

/// The axes along which nothing in the machine and in the schedule tells devices apart.
pub(super) fn axes(schedule: Verified<'_>, topology: &Topology) -> AxisSet {
    alike(&schedule, topology.mesh.axis_ids().filter(|axis| topology.turns(*axis)).collect())
}

/// Those of some axes along which nothing in the schedule tells devices apart.
pub(in crate::sim) fn alike(schedule: &Schedule, axes: AxisSet) -> AxisSet {
    schedule.operations.node_weights().fold(axes, |axes, operation| {
        if axes.is_empty() { axes } else { axes.iter().filter(|axis| is_alike(schedule, operation, *axis)).collect() }
    })
}

/// Whether an operation is the same for all devices along an axis, as far as it takes time.
fn is_alike(schedule: &Schedule, operation: &Operation, axis: AxisId) -> bool {
    let mesh = &schedule.mesh;
    let kind = operation.kind.properties();
    let (view, regions) = kind.regions;
    let mut cuts = regions.iter().flat_map(|region| view.iter().zip(region));
    let cuts_are_alike = cuts.all(|(length, cut)| match cut {
        Cut::Whole | Cut::Range { .. } => true,
        Cut::At(map) => map.turn(mesh, axis, *length).is_some() || map.is_total(mesh, *length),
    });
    let reach_is_alike = match kind.reach {
        Reach::Sent(sources, _) => sources.commutes(mesh, axis),
        // What only the first device has is not on the next one.
        Reach::Given(sharding) => sharding.operator != Operator::Root || !sharding.open.contains(axis),
        Reach::Gathered(_) | Reach::Own => true,
    };
    cuts_are_alike && reach_is_alike
}

/// The collapsed axes that are left after messages of an operation have met: those that it has nothing to do with.
pub(super) fn without(schedule: Verified<'_>, id: OpId, axes: AxisSet) -> AxisSet {
    let own: AxisSet = match schedule.operation(id).kind.properties().reach {
        Reach::Sent(Sources::Shift { axes, .. }, _) => axes.set(),
        Reach::Sent(Sources::Table { axes, .. }, _) => axes.iter().copied().collect(),
        Reach::Gathered(axes) => axes.iter().copied().collect(),
        Reach::Given(_) | Reach::Own => AxisSet::NONE,
    };
    let left = axes.without(own);
    if left == axes { AxisSet::NONE } else { left }
}

/// Which devices and links are timed as one.
pub(super) struct Classes {
    orbits: Orbits,
    /// The devices of the mesh.
    all: usize,
    /// The rows of links: two for each axis of the machine.
    rows: usize,
    /// Of each class of links, which of them was used last and in which round. Empty where each stands for itself.
    used: Vec<(u64, Option<LinkId>)>,
    round: u64,
    collided: bool,
}

impl Classes {
    /// The devices of a machine up to these translations.
    pub(super) fn new(topology: &Topology, orbits: Orbits) -> Classes {
        let (all, rows) = (topology.mesh.device_count(), topology.link_count() / topology.mesh.device_count());
        let collapses = !orbits.axes().is_empty();
        let used = if collapses { vec![(0, None); rows * orbits.representatives().len()] } else { Vec::new() };
        Classes { orbits, all, rows, used, round: 0, collided: false }
    }

    /// The devices that stand for their classes.
    pub(super) fn devices(&self) -> &[DeviceId] {
        self.orbits.representatives()
    }

    /// How many classes of links there are.
    pub(super) fn links(&self) -> usize {
        self.rows * self.devices().len()
    }

    /// The class of a device.
    pub(super) fn device(&self, device: DeviceId) -> usize {
        self.orbits.class(device)
    }

    /// The class of a link: its row and the class of the device that it is counted at.
    pub(super) fn link(&self, link: LinkId) -> usize {
        if self.used.is_empty() {
            return link.index();
        }
        let (row, device) = (link.index() / self.all, link.index() % self.all);
        let device = DeviceId(u32::try_from(device).expect("a device of the mesh"));
        row * self.devices().len() + self.orbits.class(device)
    }

    /// The link that stands for a class.
    pub(super) fn representative(&self, class: usize) -> LinkId {
        let (row, place) = (class / self.devices().len(), class % self.devices().len());
        LinkId::at(row * self.all + self.devices()[place].index())
    }

    /// The axes along which one device stands for all.
    pub(super) fn axes(&self) -> AxisSet {
        self.orbits.axes()
    }

    /// What is sent from now on meets nothing that was sent before.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// A link is used by `by` in this round: two that use one class of links must be the same.
    pub(super) fn meet(&mut self, link: LinkId, by: LinkId) {
        if self.used.is_empty() {
            return;
        }
        let place = self.link(link);
        let (round, last) = self.used[place];
        self.collided |= round == self.round && last != Some(by);
        self.used[place] = (self.round, Some(by));
    }

    /// Whether two messages have met whose images meet in another order.
    pub(super) fn collided(&self) -> bool {
        self.collided
    }

    /// What each link carries, from what each class does.
    pub(super) fn spread(&self, topology: &Topology, loads: Vec<LinkLoad>) -> Vec<LinkLoad> {
        if self.used.is_empty() {
            return loads;
        }
        let rows = loads.chunks(self.devices().len().max(1));
        rows.flat_map(|row| topology.mesh.devices().map(|device| row[self.orbits.class(device)])).collect()
    }
}
