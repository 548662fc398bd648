//! What links and engines did, one after the other.

use super::orbit::Classes;
use crate::mesh::{AxisSet, DeviceId};
use crate::schedule::OpId;
use crate::topology::{EngineId, LinkId};
use crate::units::Time;

/// The most uses that are written down; what comes later is left out, and the record says so.
pub const MOST_USES: usize = 1 << 22;

/// What can be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// An engine of a device.
    Engine(DeviceId, EngineId),
    /// A link.
    Link(LinkId),
}

/// Something is busy with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// What is busy.
    pub resource: Resource,
    /// With what.
    pub operation: OpId,
    /// From when.
    pub start: Time,
    /// Until when.
    pub finish: Time,
}

/// All uses, in the order in which the clock came upon them: those of one resource do not overlap and are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Of what stands for all that does alike.
    pub uses: Vec<Use>,
    /// The axes along which one device, and its links, stand for all.
    pub collapsed: AxisSet,
    /// Whether there were more than [`MOST_USES`], so that some are left out.
    pub cut: bool,
}

/// A record being written, in classes of links and devices.
#[derive(Default)]
pub(super) struct Log {
    operation: OpId,
    uses: Vec<(Class, OpId, Time, Time)>,
    cut: bool,
}

/// What stands for all that does alike.
enum Class {
    Link(usize),
    Engine(usize, EngineId),
}

impl Log {
    /// What follows is for this operation.
    pub(super) fn begin(&mut self, operation: OpId) {
        self.operation = operation;
    }

    /// A class of links is busy.
    pub(super) fn link(&mut self, class: usize, start: Time, busy: Time) {
        self.put(Class::Link(class), start, busy);
    }

    /// An engine of a class of devices is busy.
    pub(super) fn engine(&mut self, class: usize, engine: EngineId, start: Time, busy: Time) {
        self.put(Class::Engine(class, engine), start, busy);
    }

    fn put(&mut self, class: Class, start: Time, busy: Time) {
        if self.uses.len() < MOST_USES {
            self.uses.push((class, self.operation, start, start + busy));
        } else {
            self.cut = true;
        }
    }

    /// The record, with a link and a device for each class.
    pub(super) fn record(self, classes: &Classes) -> Record {
        let resource = |class| match class {
            Class::Link(class) => Resource::Link(classes.representative(class)),
            Class::Engine(class, engine) => Resource::Engine(classes.devices()[class], engine),
        };
        let uses = self.uses.into_iter().map(|(class, operation, start, finish)| Use {
            resource: resource(class),
            operation,
            start,
            finish,
        });
        Record { uses: uses.collect(), collapsed: classes.axes(), cut: self.cut }
    }
}
