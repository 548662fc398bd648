//! Symmetry: one device represents all of its images under translations along mesh axes.
//!
//! A run over all devices is invariant under a translation if the machine and every operation are. For an operation
//! this means that whether a slice is absent does not depend on the coordinate along the axis, and that the source of
//! the next device is the next device of the source. The order of destinations, in which the messages of a hop are
//! served, is not invariant. It matters only if two messages meet on a link. If their devices differ along no
//! collapsed axis, they meet in the same order in all images. Other meetings are detected during the run, which then
//! restarts without collapsing.
//!
//! The links of an image are the images of the links, so one clock serves each class of links.

use super::LinkLoad;
use crate::mesh::{AxisId, AxisSet, DeviceId, Orbits};
use crate::schedule::{Cut, OpId, Operation, Reach, Schedule, Sources, Verified};
use crate::topology::{LinkClasses, LinkId, Topology};

/// The axes along which neither the machine nor the schedule distinguishes devices.
pub(super) fn axes(schedule: Verified<'_>, topology: &Topology) -> AxisSet {
    alike(&schedule, topology.mesh.axis_ids().filter(|axis| topology.turns(*axis)).collect())
}

/// The subset of axes along which the schedule does not distinguish devices.
pub(in crate::sim) fn alike(schedule: &Schedule, axes: AxisSet) -> AxisSet {
    schedule.operations.node_weights().fold(axes, |axes, operation| {
        if axes.is_empty() { axes } else { axes.iter().filter(|axis| is_alike(schedule, operation, *axis)).collect() }
    })
}

/// Whether an operation takes the same time on all devices along an axis.
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
        // An array that only one device along the axis holds is not symmetric.
        Reach::Given(sharding) => !sharding.operator.is_root() || !sharding.open.contains(axis),
        Reach::Gathered(_) | Reach::Own => true,
    };
    cuts_are_alike && reach_is_alike
}

/// The collapsed axes that remain after messages of an operation have met: those the operation does not use.
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

/// Classes of devices and links that are timed together.
pub(super) struct Classes {
    orbits: Orbits,
    /// The devices of the mesh.
    all: usize,
    /// Number of link classes.
    links: usize,
    /// The classes of the links of a fabric, if axes are collapsed.
    of_fabric: Option<LinkClasses>,
    /// For each link class, the last link used and its round; empty without collapsed axes.
    used: Vec<(u64, Option<LinkId>)>,
    round: u64,
    collided: bool,
}

impl Classes {
    /// Classes of a machine's devices under these translations.
    pub(super) fn new(topology: &Topology, orbits: Orbits) -> Classes {
        let (all, rows) = (topology.mesh.device_count(), topology.link_count() / topology.mesh.device_count());
        let collapses = !orbits.axes().is_empty();
        let of_fabric = if collapses { topology.link_classes(orbits.axes()) } else { None };
        let links = match &of_fabric {
            Some(classes) => classes.first.len(),
            None if collapses => rows * orbits.representatives().len(),
            None => topology.link_count(),
        };
        let used = if collapses { vec![(0, None); links] } else { Vec::new() };
        Classes { orbits, all, links, of_fabric, used, round: 0, collided: false }
    }

    /// The representative devices.
    pub(super) fn devices(&self) -> &[DeviceId] {
        self.orbits.representatives()
    }

    /// Number of link classes.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    /// The class of a device.
    pub(super) fn device(&self, device: DeviceId) -> usize {
        self.orbits.class(device)
    }

    /// The class of a link: its row and the class of its device, or that of its images in a fabric.
    pub(super) fn link(&self, link: LinkId) -> usize {
        if self.used.is_empty() {
            return link.index();
        }
        if let Some(classes) = &self.of_fabric {
            return classes.class[link.index()] as usize;
        }
        let (row, device) = (link.index() / self.all, link.index() % self.all);
        let device = DeviceId(u32::try_from(device).expect("a device of the mesh"));
        row * self.devices().len() + self.orbits.class(device)
    }

    /// The representative link of a class.
    pub(super) fn representative(&self, class: usize) -> LinkId {
        if self.used.is_empty() {
            return LinkId::at(class);
        }
        if let Some(classes) = &self.of_fabric {
            return classes.first[class];
        }
        let (row, place) = (class / self.devices().len(), class % self.devices().len());
        LinkId::at(row * self.all + self.devices()[place].index())
    }

    /// The axes along which one device represents all.
    pub(super) fn axes(&self) -> AxisSet {
        self.orbits.axes()
    }

    /// Starts a new round: later messages meet none of the earlier ones.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Records a use of a link by `by` in this round; two users of one class must be the same.
    pub(super) fn meet(&mut self, link: LinkId, by: LinkId) {
        if self.used.is_empty() {
            return;
        }
        let place = self.link(link);
        let (round, last) = self.used[place];
        self.collided |= round == self.round && last != Some(by);
        self.used[place] = (self.round, Some(by));
    }

    /// Whether two messages have met whose images meet in a different order.
    pub(super) fn collided(&self) -> bool {
        self.collided
    }

    /// The load of each link, from the load of each class.
    pub(super) fn spread(&self, topology: &Topology, loads: Vec<LinkLoad>) -> Vec<LinkLoad> {
        if self.used.is_empty() {
            return loads;
        }
        if let Some(classes) = &self.of_fabric {
            return classes.class.iter().map(|class| loads[*class as usize]).collect();
        }
        let rows = loads.chunks(self.devices().len().max(1));
        rows.flat_map(|row| topology.mesh.devices().map(|device| row[self.orbits.class(device)])).collect()
    }
}
