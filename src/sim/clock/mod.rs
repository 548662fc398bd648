//! When each operation starts and ends.
//!
//! A link is one-way and exclusive, and serves messages in the order of the schedule's list; within an operation all
//! first hops come before the second hops, and within a hop the destinations are in order. A message goes on only
//! when it has arrived whole. An engine of a device does one thing at a time, in list order, and the engines of a device
//! work side by side; what runs on which is said by the profile. Most have one, which computes, and send meanwhile;
//! where messages leave by an engine, it is busy on their sender for as long as their first link. Nothing waits for
//! anything else, so a time is the longest path of such waits and a run repeats to the last digit.
//!
//! The clock moves no data. Of a block it knows its size and on which devices it is there.
//!
//! First come, first served is the other [`Order`] (`arrival.rs`).
//!
//! Where the schedule and the machine look alike to all devices along an axis, one of them stands for all
//! (`orbit.rs`): the result is that of the run over all devices, to the last digit.
//!
//! What it leaves out: reading and writing memory for messages, congestion within a switch, and the slots of a
//! device's own network interface; all links of a device can be busy at once.

mod arrival;
mod clocks;
mod cost;
mod messages;
mod orbit;
mod record;
mod run;
#[cfg(test)]
mod tests;

pub(super) use orbit::alike;
pub use record::{MOST_USES, Record, Resource, Use};

use crate::dtype::DType;
use crate::mesh::{AxisId, AxisSet, Mesh};
use crate::schedule::{Malformed, OpId, Schedule, Verified, verify};
use crate::topology::{LinkId, LinkSide, RouteError, Topology};
use crate::units::{Bytes, Time};
use arrival::Arrival;
use miette::Diagnostic;
use run::{Run, Stop};
use thiserror::Error;

/// When everything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// In which order links and engines served.
    pub order: Order,
    /// When the last device has its last block.
    pub makespan: Time,
    /// From the earliest start on any device to the latest end, for each operation in list order.
    pub operations: Vec<Interval>,
    /// What each link carries, by [`LinkId`].
    pub links: Vec<LinkLoad>,
    /// The link that is busy for longest, the first of several; none if nothing is sent.
    pub busiest: Option<LinkId>,
    /// How long each engine is busy on the device where it is busy longest, as the profile lists them.
    pub engines: Vec<Time>,
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

    /// What the links along each axis carry, of those that carry anything.
    ///
    /// - `topology`: the machine that was timed.
    pub fn axis_loads(&self, topology: &Topology) -> Vec<AxisLoad> {
        let devices = topology.machine.device_count() as u64;
        let none = |axis| AxisLoad { axis, links: 0, devices, most: Bytes(0), total: 0, hops: 0, busy: Time::ZERO };
        let mut loads: Vec<AxisLoad> = topology.machine.axis_ids().map(none).collect();
        for id in topology.all_links() {
            let (link, of) = (topology.link(id), self.link(id));
            // Devices that share a link and are alike all send as much.
            let bytes = of.bytes.0.saturating_mul(topology.sharers_left_out(link.axis));
            let load = &mut loads[link.axis.index()];
            load.links += 1;
            load.most = load.most.max(Bytes(bytes));
            load.total += u128::from(bytes);
            load.busy = load.busy.max(of.busy);
            load.hops += if link.side == LinkSide::In { 0 } else { u128::from(of.messages) };
        }
        loads.retain(|load| load.total > 0);
        loads
    }

    /// How long the busiest engine is busy.
    pub fn busiest_engine_time(&self) -> Time {
        self.engines.iter().copied().max().unwrap_or_default()
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
    /// Messages that pass it; of a kept AllGather none, as it has no messages.
    pub messages: u64,
}

impl LinkLoad {
    /// Adds a message, or a share of a kept gather.
    fn add(&mut self, busy: Time, bytes: Bytes, messages: u64) {
        self.busy += busy;
        self.bytes.0 = self.bytes.0.saturating_add(bytes.0);
        self.messages = self.messages.saturating_add(messages);
    }
}

/// What the links along one axis of a machine carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLoad {
    /// The axis of [`Topology::machine`].
    pub axis: AxisId,
    /// How many links there are; of a switch, its ports.
    pub links: u64,
    /// Devices of the machine.
    pub devices: u64,
    /// Bytes on the link that carries most.
    pub most: Bytes,
    /// Bytes on all links together.
    pub total: u128,
    /// Links that messages pass, each counted for each message; a switch is passed once.
    pub hops: u128,
    /// How long the link is busy that is busy longest.
    pub busy: Time,
}

impl AxisLoad {
    /// The load of this many such collectives, one after the other.
    #[must_use]
    pub fn times(&self, count: u64) -> AxisLoad {
        AxisLoad {
            most: Bytes(self.most.0.saturating_mul(count)),
            total: self.total.saturating_mul(u128::from(count)),
            hops: self.hops.saturating_mul(u128::from(count)),
            busy: self.busy * count,
            ..*self
        }
    }

    /// Bytes on a link, on average.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn mean(&self) -> f64 {
        self.total as f64 / self.links.max(1) as f64
    }

    /// Hops of the messages of a device, on average.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.devices.max(1) as f64
    }
}

/// In which order links and engines serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Order {
    /// As the schedule lists what they do
    ///
    /// A time is a longest path.
    #[default]
    Listed,
    /// First come, first served
    ///
    /// Of what comes at the same time, first what is listed first.
    Arrival,
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
    /// The schedule is none.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// The closed form of a gather says nothing of links that are slower than others.
    #[error("%{} is a gather kept as one, and links of this machine are degraded", operation.index())]
    #[diagnostic(code("schedule-kept-gather"), help("write it out in slices and shuffles"))]
    KeptGather {
        /// The gather.
        operation: OpId,
    },
    /// No switch that adds joins the group.
    #[error("%{} is a sum in a switch, and no switch of `{hardware}` that joins its group adds {dtype}", operation.index())]
    #[diagnostic(
        code("schedule-switch-sum"),
        help(
            "write it out in shuffles and additions, or say in the profile what its switches add: `adds = [\"bf16\"]`"
        )
    )]
    SwitchSum {
        /// The sum.
        operation: OpId,
        /// The name of the profile.
        hardware: String,
        /// Of its elements.
        dtype: DType,
    },
    /// The links of an operation of a whole group do not serve one by one.
    #[error("%{} is one operation of a whole group, and links serve first come, first served", operation.index())]
    #[diagnostic(code("schedule-kept-gather"), help("write it out in slices and shuffles"))]
    KeptByArrival {
        /// The gather.
        operation: OpId,
    },
    /// First come, first served follows every block of every device.
    #[error("too many operations on too many devices to follow each of them first come, first served")]
    #[diagnostic(code("schedule-too-large"), help("serve in the order of the list: its time is found for any size"))]
    ManyBlocks,
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
            ClockError::Malformed(malformed) => malformed.operation(),
            ClockError::OtherMesh { .. } | ClockError::ManyBlocks => None,
            ClockError::Route { operation, .. }
            | ClockError::KeptByArrival { operation }
            | ClockError::KeptGather { operation }
            | ClockError::SwitchSum { operation, .. }
            | ClockError::TooLong { operation } => Some(*operation),
        }
    }
}

/// Times a schedule.
///
/// The cost is a few dozen instructions for each device of each operation and for each hop, whatever the sizes; along
/// axes where all devices do alike, for one of them.
///
/// # Errors
/// If the meshes differ, the schedule is malformed, a message has no way ([`Topology::route`]), or times are beyond
/// counting.
pub fn run(schedule: &Schedule, topology: &Topology) -> Result<Timing, ClockError> {
    let timing = run_below(verified(schedule, topology)?, topology, Time::MAX)?;
    Ok(timing.expect("no operation ends at the end of time"))
}

/// The same for a schedule on the mesh of the topology; none if something ends at the limit or after it, as soon as
/// that is known.
///
/// # Errors
/// As [`run`], before the limit.
pub fn run_below(schedule: Verified<'_>, topology: &Topology, limit: Time) -> Result<Option<Timing>, ClockError> {
    let mut symmetric = orbit::axes(schedule, topology);
    loop {
        match Run::new(schedule, topology, symmetric).run(limit) {
            Ok(timing) => return Ok(Some(timing)),
            Err(Stop::Late) => return Ok(None),
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Collision(id)) => symmetric = orbit::without(schedule, id, symmetric),
        }
    }
}

/// The same as [`run`], with what each link and each engine does one after the other.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(schedule: &Schedule, topology: &Topology) -> Result<(Timing, Record), ClockError> {
    let schedule = verified(schedule, topology)?;
    let mut symmetric = orbit::axes(schedule, topology);
    loop {
        match Run::new(schedule, topology, symmetric).recorded() {
            Ok(recorded) => return Ok(recorded),
            Err(Stop::Late) => unreachable!("no operation ends at the end of time"),
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Collision(id)) => symmetric = orbit::without(schedule, id, symmetric),
        }
    }
}

/// The same as [`run`] over all devices, whatever looks alike.
///
/// # Errors
/// As [`run`].
pub fn run_uncollapsed(schedule: &Schedule, topology: &Topology) -> Result<Timing, ClockError> {
    let schedule = verified(schedule, topology)?;
    match Run::new(schedule, topology, AxisSet::NONE).run(Time::MAX) {
        Ok(timing) => Ok(timing),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Late | Stop::Collision(_)) => unreachable!("no limit, and every device stands for itself"),
    }
}

/// The same as [`run`], with links and engines that serve in this order. First come, first served takes time and memory
/// for each block of each device.
///
/// # Errors
/// As [`run`]; first come, first served also for gathers kept as one, and for too many blocks.
pub fn run_in(schedule: &Schedule, topology: &Topology, order: Order) -> Result<Timing, ClockError> {
    match order {
        Order::Listed => run(schedule, topology),
        Order::Arrival => Ok(run_recorded_in(schedule, topology, order)?.0),
    }
}

/// The same as [`run_recorded`] in this order.
///
/// # Errors
/// As [`run_in`].
pub fn run_recorded_in(schedule: &Schedule, topology: &Topology, order: Order) -> Result<(Timing, Record), ClockError> {
    match order {
        Order::Listed => run_recorded(schedule, topology),
        Order::Arrival => Arrival::new(verified(schedule, topology)?, topology)?.run(),
    }
}

/// The axes along which one device stands for all when a schedule is timed.
pub fn collapsed(schedule: Verified<'_>, topology: &Topology) -> AxisSet {
    orbit::axes(schedule, topology)
}

/// A schedule for the mesh of the topology.
fn verified<'a>(schedule: &'a Schedule, topology: &Topology) -> Result<Verified<'a>, ClockError> {
    let sizes = |mesh: &Mesh| mesh.axes().iter().map(|axis| axis.size).collect::<Vec<_>>();
    if sizes(&schedule.mesh) != sizes(&topology.mesh) {
        let (schedule, topology) = (schedule.mesh.to_string(), topology.mesh.to_string());
        return Err(ClockError::OtherMesh { schedule, topology });
    }
    Ok(verify(schedule)?)
}
