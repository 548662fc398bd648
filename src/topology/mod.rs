//! The mesh as a machine: its links, and the rates of its devices.
//!
//! A link is the only thing between devices that is ever busy: one-way, between neighbours, exclusive. On a ring or a
//! line each device has one link up and one link down; on a switch each device has one port out and one port in.

pub mod closed_form;
pub mod hardware;
mod profile;
mod quantity;
pub mod routes;

pub use closed_form::{ClosedForm, Limit};
pub use hardware::{Hardware, HopRule, LocalMoves, WiringRule};
pub use profile::ProfileError;
pub use routes::{Hop, Link, LinkId, LinkSide, RouteError};

use crate::mesh::{Axes, AxisId, AxisSet, Mesh, Wiring};
use crate::units::{Rate, Time, TimeScale};
use miette::Diagnostic;
use thiserror::Error;

/// A mesh on a certain hardware.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The devices.
    pub mesh: Mesh,
    /// The machine they are.
    pub hardware: Hardware,
    /// The same devices along the axes that are wired: no axis is in parts.
    pub machine: Mesh,
    /// The wiring and the links of each of those, in the order of that mesh.
    pub axes: Vec<AxisLinks>,
    /// The tick in which all times are counted.
    pub scale: TimeScale,
}

/// The links along one axis, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLinks {
    /// How the axis is wired. An axis of two devices is a line: one cable, one link each way.
    pub wiring: Wiring,
    /// What the program or the hardware's rule says, before that of two devices; the book's formulas go by it.
    pub declared: Wiring,
    /// Bytes per second of a link, one way.
    pub one_way: Rate,
    /// Least time of a hop.
    pub hop_latency: Time,
    /// Added to every message once.
    pub message_overhead: Time,
    /// How many links lie between neighbours: 1, or more on a major part of an axis, where so many groups share each
    /// link.
    pub apart: u32,
}

/// A mesh that cannot be timed on a hardware.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum TopologyError {
    /// No tick divides the time of a byte on each link and of each operation.
    #[error("the rates of `{hardware}` have no common tick, so times cannot be exact")]
    #[diagnostic(code("no-common-tick"), help("give the rates of the profile with fewer digits, two or three each"))]
    NoCommonTick {
        /// The name of the profile.
        hardware: String,
    },
    /// The tables of links would not fit.
    #[error("the mesh has {links} links, the most is {most}", most = Topology::MOST_LINKS)]
    #[diagnostic(code("mesh-too-large"), help("use a smaller mesh, or fewer axes"))]
    TooManyLinks {
        /// As many as it would have.
        links: u64,
    },
}

impl Topology {
    /// The most links a mesh can have; a mesh of a million devices on four axes has eight million.
    pub const MOST_LINKS: u64 = 1 << 23;

    /// Wires a mesh as the program asks for, or else by the rule of the hardware.
    ///
    /// # Errors
    /// If the rates of the hardware have no common tick ([`TimeScale::for_rates`]), or there are more than
    /// [`Topology::MOST_LINKS`] links.
    pub fn new(mesh: Mesh, hardware: Hardware) -> Result<Topology, TopologyError> {
        let machine = mesh.machine();
        let links = 2 * machine.axes().len() as u64 * mesh.device_count() as u64;
        if links > Self::MOST_LINKS {
            return Err(TopologyError::TooManyLinks { links });
        }
        let rates = [hardware.one_way, hardware.hbm_bandwidth, hardware.bf16_flops, hardware.int8_flops];
        let scale =
            TimeScale::for_rates(rates).map_err(|_| TopologyError::NoCommonTick { hardware: hardware.name.clone() })?;
        let axes = machine
            .axes()
            .iter()
            .map(|axis| {
                let declared = axis.wiring.unwrap_or_else(|| hardware.wiring.of(&machine, axis.size));
                AxisLinks {
                    wiring: physical(declared, axis.size),
                    declared,
                    one_way: hardware.one_way,
                    hop_latency: scale.picoseconds(hardware.hop_latency),
                    message_overhead: scale.picoseconds(hardware.message_overhead),
                    apart: 1,
                }
            })
            .collect();
        Ok(Topology { mesh, hardware, machine, axes, scale })
    }

    /// The links along one axis, or along a [run](Mesh::runs) of parts.
    ///
    /// Along minor parts of a ring the devices of a group are neighbours on a line; the major-most part goes all the
    /// way round.
    ///
    /// # Panics
    /// If there is no axis in the run.
    pub fn links(&self, run: impl Into<Axes>) -> AxisLinks {
        let run = run.into();
        let last = run.last().expect("a run has an axis");
        let physical = self.mesh.physical(last);
        let links = self.axes[physical.index()];
        let (apart, size) = (self.mesh.links_apart(last), run.group_size(&self.mesh));
        let goes_round = u64::from(apart) * size == self.machine.size(physical);
        let wiring = match links.wiring {
            Wiring::Ring if !goes_round || size <= 2 => Wiring::Line,
            Wiring::Ring | Wiring::Line | Wiring::Switch => links.wiring,
        };
        AxisLinks { wiring, apart, ..links }
    }

    /// The part of the machine along these axes, of an axis in parts all of it, and the axes in the order of their
    /// new ids: along all other axes it looks alike.
    pub fn only(&self, axes: AxisSet) -> (Topology, Vec<AxisId>) {
        let (mesh, kept) = self.mesh.only(axes);
        let wired: AxisSet = kept.iter().map(|axis| self.mesh.physical(*axis)).collect();
        let links = wired.iter().map(|axis| self.axes[axis.index()]).collect();
        (Topology { machine: mesh.machine(), mesh, axes: links, ..self.clone() }, kept)
    }
}

/// Two devices side by side have one cable between them, and both ways round are the same way.
fn physical(declared: Wiring, size: u32) -> Wiring {
    match declared {
        Wiring::Ring if size <= 2 => Wiring::Line,
        Wiring::Ring | Wiring::Line | Wiring::Switch => declared,
    }
}

impl WiringRule {
    /// How an axis of `size` devices is wired in this mesh. Axes of one device have no links and do not count.
    fn of(self, mesh: &Mesh, size: u32) -> Wiring {
        let ring = match self {
            WiringRule::Always(wiring) => return wiring,
            WiringRule::RingOfSize(full) => size == full,
            WiringRule::RingsOfMultiple(cube) => {
                mesh.axes().iter().all(|axis| axis.size == 1 || axis.size.is_multiple_of(cube))
            }
        };
        if ring { Wiring::Ring } else { Wiring::Line }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mesh::Axis;

    /// A mesh with all axes wired alike.
    pub(crate) fn topology(hardware: &str, axes: &[(&str, u32)], wiring: Option<Wiring>) -> Topology {
        let axes = axes.iter().map(|(name, size)| Axis { name: (*name).to_owned(), size: *size, wiring });
        let mesh = Mesh::new(axes.collect()).expect("a small mesh");
        Topology::new(mesh, Hardware::named(hardware).expect("a shipped profile")).expect("a common tick")
    }

    fn wirings(hardware: &str, axes: &[(&str, u32)]) -> Vec<Wiring> {
        topology(hardware, axes, None).axes.iter().map(|links| links.wiring).collect()
    }

    #[test]
    fn the_rule_of_the_hardware_wires_the_axes() {
        use Wiring::{Line, Ring, Switch};
        assert_eq!(wirings("tpu_v5e", &[("X", 8), ("Y", 16)]), [Line, Ring]);
        assert_eq!(wirings("tpu_v4p", &[("X", 4), ("Y", 4), ("Z", 8)]), [Ring, Ring, Ring]);
        assert_eq!(wirings("tpu_v5p", &[("X", 2), ("Y", 2), ("Z", 4)]), [Line, Line, Line]);
        assert_eq!(wirings("h100", &[("D", 8), ("X", 2)]), [Switch, Switch]);
    }

    #[test]
    fn two_devices_have_one_cable() {
        let two = topology("tpu_v5e", &[("X", 2)], Some(Wiring::Ring)).links(AxisId::new(0));
        assert_eq!((two.wiring, two.declared), (Wiring::Line, Wiring::Ring));
    }

    #[test]
    fn rates_that_do_not_fit_are_refused() {
        let text = Hardware::named("tpu_v5e").expect("shipped").to_toml();
        let text = text.replace("4.5e10", "999999999989").replace("8.1e11", "999999999961");
        let error = Topology::new(Mesh::of(&[("X", 2)]), Hardware::from_toml(&text).expect("a profile")).map(|_| ());
        assert_eq!(error, Err(TopologyError::NoCommonTick { hardware: "tpu_v5e".to_owned() }));
    }
}
