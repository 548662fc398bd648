//! When each operation starts and ends.
//!
//! A link is one-way and exclusive, and serves messages in the order of the schedule's list; within an operation all
//! first hops come before the second hops, and within a hop the destinations are in order. A message goes on only
//! when it has arrived whole. A device computes one thing at a time, in list order, and sends meanwhile. Nothing
//! waits for anything else, so a time is the longest path of such waits and a run repeats to the last digit.
//!
//! The clock moves no data. Of a block it knows its size and on which devices it is there.
//!
//! What it leaves out: reading and writing memory for messages, congestion within a switch, and the slots of a
//! device's own network interface; all links of a device can be busy at once.

mod clocks;
mod cost;
mod presence;
mod run;
#[cfg(test)]
mod tests;

use crate::schedule::{OpId, Schedule};
use crate::topology::{LinkId, RouteError, Topology};
use crate::units::{Bytes, Time};
use miette::Diagnostic;
use thiserror::Error;

/// When everything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When the last device has its last block.
    pub makespan: Time,
    /// From the earliest start on any device to the latest end, for each operation in list order.
    pub operations: Vec<Interval>,
    /// What each link carries, by [`LinkId`].
    pub links: Vec<LinkLoad>,
    /// The link that is busy for longest, the first of several; none if nothing is sent.
    pub busiest: Option<LinkId>,
    /// How long the device that computes most does so.
    pub compute: Time,
}

impl Timing {
    /// When an operation starts and ends.
    pub fn operation(&self, id: OpId) -> Interval {
        self.operations[id.index()]
    }

    /// What a link carries.
    pub fn link(&self, id: LinkId) -> LinkLoad {
        self.links[id.index()]
    }

    /// How long the busiest link is busy.
    pub fn busiest_link_time(&self) -> Time {
        self.busiest.map_or(Time::ZERO, |id| self.link(id).busy)
    }
}

/// From when to when; both zero for an operation that no device takes part in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The earliest start.
    pub start: Time,
    /// The latest end.
    pub finish: Time,
}

/// What a link carries in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// How long it is busy.
    pub busy: Time,
    /// What passes it. Of a kept AllGather, an equal share of what its group receives.
    pub bytes: Bytes,
}

/// A schedule that has no time on a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum ClockError {
    /// The schedule is for other devices.
    #[error("the schedule is for the mesh {schedule}, the topology has {topology}")]
    #[diagnostic(code("schedule-other-mesh"))]
    OtherMesh {
        /// The mesh of the schedule.
        schedule: String,
        /// The mesh of the topology.
        topology: String,
    },
    /// A message cannot go as it is told to.
    #[error("%{}: {route}", operation.index())]
    #[diagnostic(
        code("schedule-route"),
        help("wire the axis as the schedule expects, or write the schedule for this wiring")
    )]
    Route {
        /// The shuffle.
        operation: OpId,
        /// Why not.
        route: RouteError,
    },
    /// The operands do not fit the operation, or come after it.
    #[error("%{} lacks an operand that stands before it", operation.index())]
    #[diagnostic(code("schedule-operands"))]
    Operands {
        /// The operation.
        operation: OpId,
    },
    /// The closed form of a gather says nothing of links that are slower than others.
    #[error("%{} is a gather kept as one, and links of this machine are degraded", operation.index())]
    #[diagnostic(code("schedule-kept-gather"), help("write it out in slices and shuffles"))]
    KeptGather {
        /// The gather.
        operation: OpId,
    },
    /// More bytes, or more ticks, than can be counted.
    #[error("%{}: its size or its time is beyond what can be counted", operation.index())]
    #[diagnostic(code("schedule-too-long"))]
    TooLong {
        /// The operation.
        operation: OpId,
    },
}

impl ClockError {
    /// The operation that it is about.
    pub fn operation(&self) -> Option<OpId> {
        match self {
            ClockError::OtherMesh { .. } => None,
            ClockError::Route { operation, .. }
            | ClockError::Operands { operation }
            | ClockError::KeptGather { operation }
            | ClockError::TooLong { operation } => Some(*operation),
        }
    }
}

/// Times a schedule. Expects one whose maps and axes belong to its mesh.
///
/// The cost is a few dozen instructions for each device of each operation and for each hop, whatever the sizes.
///
/// # Errors
/// If the meshes differ, a message has no way ([`Topology::route`]), an operation has not its operands before it, or
/// sizes or times are beyond counting.
pub fn run(schedule: &Schedule, topology: &Topology) -> Result<Timing, ClockError> {
    let sizes = |mesh: &crate::mesh::Mesh| mesh.axes().iter().map(|axis| axis.size).collect::<Vec<_>>();
    if sizes(&schedule.mesh) != sizes(&topology.mesh) {
        let (schedule, topology) = (schedule.mesh.to_string(), topology.mesh.to_string());
        return Err(ClockError::OtherMesh { schedule, topology });
    }
    run::Run::new(schedule, topology).run()
}
