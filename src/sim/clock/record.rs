//! Recorded uses of links and engines.

use super::orbit::Classes;
use crate::mesh::{AxisSet, DeviceId};
use crate::schedule::OpId;
use crate::topology::{EngineId, LinkId};
use crate::units::Time;

/// Limit on recorded uses; later ones are dropped, and the record says so.
pub const MOST_USES: usize = 1 << 22;

/// A resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// An engine of a device.
    Engine(DeviceId, EngineId),
    /// A link.
    Link(LinkId),
}

/// One use of a resource by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The resource.
    pub resource: Resource,
    /// The operation.
    pub operation: OpId,
    /// Start time.
    pub start: Time,
    /// End time.
    pub finish: Time,
}

/// All uses, in simulation order. Those of one resource are in order and do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Uses of resources; each resource represents its symmetric images.
    pub uses: Vec<Use>,
    /// The axes along which one device, and its links, represent all.
    pub collapsed: AxisSet,
    /// Whether uses beyond [`MOST_USES`] were dropped.
    pub cut: bool,
}

/// A record under construction, in classes of links and devices.
#[derive(Default)]
pub(super) struct Log {
    operation: OpId,
    uses: Vec<(Class, OpId, Time, Time)>,
    cut: bool,
}

/// The class of a resource.
enum Class {
    Link(usize),
    Engine(usize, EngineId),
}

impl Log {
    /// Sets the current operation.
    pub(super) fn begin(&mut self, operation: OpId) {
        self.operation = operation;
    }

    /// Records a use of a link class.
    pub(super) fn link(&mut self, class: usize, start: Time, busy: Time) {
        self.put(Class::Link(class), start, busy);
    }

    /// Records a use of an engine of a device class.
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

    /// The record, with a representative link or device for each class.
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
