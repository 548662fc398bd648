//! The timing simulator: computes when each operation starts and ends.
//!
//! A link is unidirectional and exclusive, and serves messages in list order. Within an operation all first hops
//! precede the second hops, and within a hop messages are ordered by destination. Routing is store-and-forward. An
//! engine of a device runs one piece of work at a time, in list order; the engines of a device run concurrently. The
//! profile assigns work to engines. Most profiles have one engine, for computing, and send concurrently with it. If
//! messages need an engine, the sender's engine is busy as long as the first link. There are no other waits, so a
//! time is a longest path and runs are deterministic.
//!
//! The simulator uses only the sizes of blocks and the devices that hold them, not their data.
//!
//! The other [`Order`] is first come, first served (`arrival.rs`).
//!
//! If the schedule and the machine are symmetric along an axis, one device represents all (`orbit.rs`). The result is
//! exactly that of the run over all devices.
//!
//! Not modelled: memory traffic of messages, congestion within a switch, and limits of a device's network interface.
//! All links of a device can be busy at once.

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

/// The timing of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The service order of links and engines.
    pub order: Order,
    /// Time at which the last device has its last block.
    pub makespan: Time,
    /// From the earliest start to the latest end over all devices, for each operation in list order.
    pub operations: Vec<Interval>,
    /// Load of each link, by [`LinkId`].
    pub links: Vec<LinkLoad>,
    /// The busiest link (the first of several); `None` if nothing is sent.
    pub busiest: Option<LinkId>,
    /// Busy time of each engine on its busiest device, in profile order.
    pub engines: Vec<Time>,
}

impl Timing {
    /// Start and end of an operation.
    pub fn operation(&self, id: OpId) -> Interval {
        self.operations[id.index()]
    }

    /// Load of a link.
    pub fn link(&self, id: LinkId) -> LinkLoad {
        self.links[id.index()]
    }

    /// Link loads along each machine axis that carries traffic.
    ///
    /// - `topology`: the machine that was timed.
    pub fn axis_loads(&self, topology: &Topology) -> Vec<AxisLoad> {
        let devices = topology.machine.device_count() as u64;
        let none = |axis| AxisLoad { axis, links: 0, devices, most: Bytes(0), total: 0, hops: 0, busy: Time::ZERO };
        let mut loads: Vec<AxisLoad> = topology.machine.axis_ids().map(none).collect();
        for id in topology.all_links() {
            let (link, of) = (topology.link(id), self.link(id));
            // Only one of the symmetric devices that share this link was simulated; all of them send the same amount.
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

    /// Busy time of the busiest engine.
    pub fn busiest_engine_time(&self) -> Time {
        self.engines.iter().copied().max().unwrap_or_default()
    }

    /// Busy time of the busiest link.
    pub fn busiest_link_time(&self) -> Time {
        self.busiest.map_or(Time::ZERO, |id| self.link(id).busy)
    }
}

/// An interval; both ends are zero for an operation without participants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The earliest start.
    pub start: Time,
    /// The latest end.
    pub finish: Time,
}

/// The total load of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// Busy time.
    pub busy: Time,
    /// Bytes carried. For a kept AllGather, an equal share of the bytes its group receives.
    pub bytes: Bytes,
    /// Messages carried; zero for a kept AllGather, which has no messages.
    pub messages: u64,
}

impl LinkLoad {
    /// Adds a message, or a share of a kept AllGather.
    fn add(&mut self, busy: Time, bytes: Bytes, messages: u64) {
        self.busy += busy;
        self.bytes.0 = self.bytes.0.saturating_add(bytes.0);
        self.messages = self.messages.saturating_add(messages);
    }
}

/// The load of the links along one machine axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLoad {
    /// The axis of [`Topology::machine`].
    pub axis: AxisId,
    /// Number of links; of a switch, its ports.
    pub links: u64,
    /// Number of devices of the machine.
    pub devices: u64,
    /// Bytes on the most loaded link.
    pub most: Bytes,
    /// Bytes on all links together.
    pub total: u128,
    /// Link traversals, summed over messages; a switch counts once.
    pub hops: u128,
    /// Busy time of the busiest link.
    pub busy: Time,
}

impl AxisLoad {
    /// The load of this many such collectives in sequence.
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

    /// The load of this collective and then another one along the same axis.
    #[must_use]
    pub fn then(&self, other: &AxisLoad) -> AxisLoad {
        // Loads are of a part of the machine, which others repeat.
        let (links, devices) = (self.links.max(other.links), self.devices.max(other.devices));
        let repeated = |count: u128, whole: u64, part: u64| count.saturating_mul(u128::from(whole / part.max(1)));
        AxisLoad {
            axis: self.axis,
            links,
            devices,
            most: Bytes(self.most.0.saturating_add(other.most.0)),
            total: repeated(self.total, links, self.links).saturating_add(repeated(other.total, links, other.links)),
            hops: repeated(self.hops, devices, self.devices).saturating_add(repeated(
                other.hops,
                devices,
                other.devices,
            )),
            busy: self.busy + other.busy,
        }
    }

    /// Mean bytes per link.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn mean(&self) -> f64 {
        self.total as f64 / self.links.max(1) as f64
    }

    /// Mean message hops per device.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.devices.max(1) as f64
    }
}

/// The service order of links and engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Order {
    /// In list order
    ///
    /// A time is a longest path.
    #[default]
    Listed,
    /// First come, first served
    ///
    /// Simultaneous requests are served in list order.
    Arrival,
}

/// Why a schedule cannot be timed on a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum ClockError {
    /// The schedule is for another mesh.
    #[error("the schedule needs mesh {schedule}, the topology has {topology}")]
    #[diagnostic(code("schedule-other-mesh"))]
    OtherMesh {
        /// The mesh of the schedule.
        schedule: String,
        /// The mesh of the topology.
        topology: String,
    },
    /// A message has no route.
    #[error("%{}: {route}", operation.index())]
    #[diagnostic(
        code("schedule-route"),
        help("use the wiring that the schedule expects, or write the schedule for this wiring")
    )]
    Route {
        /// The shuffle.
        operation: OpId,
        /// The routing error.
        route: RouteError,
    },
    /// The schedule is malformed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Malformed(#[from] Malformed),
    /// The closed form of a gather does not cover links of unequal speed.
    #[error("%{} is a single AllGather operation, which degraded links do not support", operation.index())]
    #[diagnostic(code("schedule-kept-gather"), help("expand it into slices and shuffles"))]
    KeptGather {
        /// The gather.
        operation: OpId,
    },
    /// No reducing switch joins the group.
    #[error("%{} is an in-switch sum, but the switches of `{hardware}` for its group do not add {dtype}", operation.index())]
    #[diagnostic(
        code("schedule-switch-sum"),
        help(
            "expand it into shuffles and additions, or list the dtypes that the switches add in the profile: `adds = [\"bf16\"]`"
        )
    )]
    SwitchSum {
        /// The sum.
        operation: OpId,
        /// The profile's name.
        hardware: String,
        /// The element type.
        dtype: DType,
    },
    /// A group operation's links cannot be served first come, first served.
    #[error("%{} is a group operation, which first-come, first-served order does not support", operation.index())]
    #[diagnostic(code("schedule-kept-gather"), help("expand it into slices and shuffles"))]
    KeptByArrival {
        /// The gather.
        operation: OpId,
    },
    /// Too many blocks for first come, first served.
    #[error("too many operations and devices for first-come, first-served order")]
    #[diagnostic(code("schedule-too-large"), help("use list order, which supports any size"))]
    ManyBlocks,
    /// Byte counts or ticks overflow.
    #[error("%{}: its size or its time overflows", operation.index())]
    #[diagnostic(code("schedule-too-long"))]
    TooLong {
        /// The operation.
        operation: OpId,
    },
}

impl ClockError {
    /// The operation the error is about.
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
/// Costs a few dozen instructions per device of each operation and per hop, independent of sizes. Symmetric devices
/// count once.
///
/// # Errors
/// If the meshes differ, the schedule is malformed, a message has no route ([`Topology::route`]), or times overflow.
pub fn run(schedule: &Schedule, topology: &Topology) -> Result<Timing, ClockError> {
    let timing = run_below(verified(schedule, topology)?, topology, Time::MAX)?;
    Ok(timing.expect("no operation ends at the end of time"))
}

/// Times a schedule on the mesh of the topology. Returns `None` as soon as an operation is known to end at the limit
/// or later.
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

/// As [`run`], and records every use of each link and engine.
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

/// As [`run`], over all devices, without using symmetry.
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

/// As [`run`], in this service order. First come, first served takes time and memory for each block of each device.
///
/// # Errors
/// As [`run`]; first come, first served also for kept gathers and for too many blocks.
pub fn run_in(schedule: &Schedule, topology: &Topology, order: Order) -> Result<Timing, ClockError> {
    match order {
        Order::Listed => run(schedule, topology),
        Order::Arrival => Ok(run_recorded_in(schedule, topology, order)?.0),
    }
}

/// As [`run_recorded`], in this service order.
///
/// # Errors
/// As [`run_in`].
pub fn run_recorded_in(schedule: &Schedule, topology: &Topology, order: Order) -> Result<(Timing, Record), ClockError> {
    match order {
        Order::Listed => run_recorded(schedule, topology),
        Order::Arrival => Arrival::new(verified(schedule, topology)?, topology)?.run(),
    }
}

/// The symmetric axes, along which one device represents all.
pub fn collapsed(schedule: Verified<'_>, topology: &Topology) -> AxisSet {
    orbit::axes(schedule, topology)
}

/// Checks that a schedule is for the mesh of the topology.
fn verified<'a>(schedule: &'a Schedule, topology: &Topology) -> Result<Verified<'a>, ClockError> {
    let sizes = |mesh: &Mesh| mesh.axes().iter().map(|axis| axis.size).collect::<Vec<_>>();
    if sizes(&schedule.mesh) != sizes(&topology.mesh) {
        let (schedule, topology) = (schedule.mesh.to_string(), topology.mesh.to_string());
        return Err(ClockError::OtherMesh { schedule, topology });
    }
    Ok(verify(schedule)?)
}
