//! The mesh as a machine: its links, and the rates of its devices.
//!
//! A link is the only thing between devices that is ever busy: one-way, between neighbours, exclusive. On a ring or a
//! line each device has one link up and one link down; on a switch each device has one port out and one port in.

pub mod hardware;
pub mod routes;

pub use hardware::{Hardware, HopRule};

use crate::mesh::{AxisId, Mesh, Wiring};
use crate::units::{Rate, Time, TimeScale};

/// A mesh on a certain hardware.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The devices.
    pub mesh: Mesh,
    /// The machine they are.
    pub hardware: Hardware,
    /// The wiring and the links of each axis, in the order of the mesh.
    pub axes: Vec<AxisLinks>,
    /// The tick in which all times are counted.
    pub scale: TimeScale,
}

/// The links of one axis, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLinks {
    /// How the axis is wired. An axis of two devices is a line: one cable, one link each way.
    pub wiring: Wiring,
    /// Bytes per second of a link, one way.
    pub one_way: Rate,
    /// Least time of a hop.
    pub hop_latency: Time,
    /// Added to every message once.
    pub message_overhead: Time,
}

impl Topology {
    /// The links of one axis.
    pub fn links(&self, axis: AxisId) -> AxisLinks {
        self.axes[axis.index()]
    }
}
