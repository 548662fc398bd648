//! The mesh as a machine: its links, and the rates of its devices.
//!
//! A link is the only thing between devices that is ever busy: one-way, between neighbours, exclusive. On a ring or a
//! line each device has one link up and one link down; on a switch each device has one port out and one port in.

pub mod closed_form;
mod detour;
pub mod engines;
mod hardware;
mod measured;
mod products;
mod profile;
mod quantity;
pub mod routes;

pub use closed_form::{ClosedForm, Limit};
pub use engines::{EngineId, Engines, EnginesError, Work};
pub use hardware::{Attachment, Hardware, HopRule, LocalMoves, MeasuredProducts, Network, SwitchKind, WiringRule};
pub use measured::{Measured, Messages, Protocol, Traffic};
pub use products::{ProductWork, Products, Shape, Tile, WorkTime};
pub use profile::{ProfileDocument, ProfileError};
pub use routes::{Hop, Link, LinkId, LinkSide, RouteError};

use crate::dtype::DType;
use crate::link::{DegradedLink, LinkState};
use crate::mesh::{Axes, Axis, AxisId, AxisSet, DeviceId, Mesh, Wiring};
use crate::units::{Bytes, Rate, Time, TimeScale};
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use std::collections::{BTreeMap, BTreeSet};
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
    /// The links that are not as they should be.
    degraded: BTreeMap<LinkId, LinkState>,
}

/// The links along one axis, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLinks {
    /// How the axis is wired. An axis of two devices is a line: one cable, one link each way.
    pub wiring: Wiring,
    /// What the program or the hardware's rule says, before that of two devices; the book's formulas go by it.
    pub declared: Wiring,
    /// The network it lies over, by its place in [`Hardware::networks`].
    pub network: usize,
    /// What its switch does, if it is wired by one.
    pub switch: SwitchKind,
    /// The axis whose ports it uses: a device has one port into a switch, for all axes of the network.
    pub port: AxisId,
    /// Whether the devices of a node share its links.
    per_node: bool,
    /// In a part of a mesh: how many devices share a link and are alike, of which the part has one.
    pub sharers: u64,
    /// Bytes per second of a link, one way.
    pub one_way: Rate,
    /// Least time of a hop.
    pub hop_latency: Time,
    /// Added to every message once.
    pub message_overhead: Time,
    /// The place of the measured figures that hold, among those of the network.
    measured: Option<usize>,
    /// How many links lie between neighbours: 1, or more on a major part of an axis, where so many groups share each
    /// link.
    pub apart: u32,
}

/// A switch that adds.
#[derive(Clone, Debug)]
pub struct SwitchSum {
    /// The ports into it.
    links: AxisLinks,
    /// What was measured.
    measured: Option<Messages>,
}

impl SwitchSum {
    /// From when the blocks are there until they leave, for how long they keep the ports busy, and from when they leave
    /// until the sum is there.
    pub fn times(&self, topology: &Topology, bytes: Bytes) -> [Time; 3] {
        let (scale, links) = (topology.scale, self.links);
        let amount = u128::from(bytes.0);
        let [start, busy, transit] = match &self.measured {
            Some(sums) => {
                let busy = scale.at_rate(amount, sums.one_way());
                [scale.picoseconds(sums.start), busy, busy.max(sums.transit(scale, bytes.0))]
            }
            None => {
                let (busy, hops) = (scale.at_rate(amount, links.one_way), links.switch.hops());
                match topology.hardware.hop_rule {
                    HopRule::Larger => {
                        let hop = busy.max(links.hop_latency);
                        [links.message_overhead, hop, hop * hops]
                    }
                    HopRule::Sum => [links.message_overhead, busy, (links.hop_latency + busy) * hops],
                }
            }
        };
        [start, busy * links.sharers, busy * (links.sharers - 1) + transit]
    }
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
    /// An axis lies over a network that the hardware has not.
    #[error("`{hardware}` has no network `{network}` for the axis `{axis}`")]
    #[diagnostic(code("unknown-network"), help("the networks of `{hardware}` are {known}"))]
    UnknownNetwork {
        /// The network that is asked for.
        network: String,
        /// The axis that asks for it.
        axis: String,
        /// The name of the profile.
        hardware: String,
        /// The networks that it has.
        known: String,
        /// Where it is written.
        #[label("not a network of `{hardware}`")]
        at: Option<SourceSpan>,
    },
    /// A link is said to be degraded that is not there.
    #[error("there is no link from {from} to {to}: {why}")]
    #[diagnostic(code("no-link"), help("a link leads from a device to its neighbour along a ring or a line"))]
    NoLink {
        /// The coordinates of the device that would send.
        from: String,
        /// The coordinates of the other.
        to: String,
        /// What is missing.
        why: String,
        /// The two devices.
        link: (DeviceId, DeviceId),
        /// Where it is written.
        #[label("no such link")]
        at: Option<SourceSpan>,
    },
    /// The links that are down leave the mesh in two pieces.
    #[error("the links that are down leave no way from {from} to {to}")]
    #[diagnostic(code("mesh-cut"), help("a mesh is in one piece: leave a link, or take a smaller mesh"))]
    CutOff {
        /// The coordinates of a device.
        from: String,
        /// Those of one that it cannot reach.
        to: String,
        /// Where the last link is written.
        #[label("nothing is left after this")]
        at: Option<SourceSpan>,
    },
    /// The tables of links would not fit.
    #[error("the mesh has {links} links, the most is {most}", most = Topology::MOST_LINKS)]
    #[diagnostic(code("mesh-too-large"), help("use a smaller mesh, or fewer axes"))]
    TooManyLinks {
        /// As many as it would have.
        links: u64,
    },
}

impl TopologyError {
    /// Whether it is the program that asks for what is not there.
    pub fn is_written(&self) -> bool {
        match self {
            TopologyError::UnknownNetwork { .. } | TopologyError::NoLink { .. } | TopologyError::CutOff { .. } => true,
            TopologyError::NoCommonTick { .. } | TopologyError::TooManyLinks { .. } => false,
        }
    }

    /// Says where it is written.
    pub fn set_place(&mut self, place: Option<SourceSpan>) {
        match self {
            TopologyError::UnknownNetwork { at, .. }
            | TopologyError::NoLink { at, .. }
            | TopologyError::CutOff { at, .. } => *at = place,
            TopologyError::NoCommonTick { .. } | TopologyError::TooManyLinks { .. } => {}
        }
    }
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
        Topology::with_degraded(mesh, hardware, &[])
    }

    /// The same with some links down or slower; of two things said of a link the worse holds.
    ///
    /// # Errors
    /// As [`Topology::new`], or if there is no such link, or the links that are down cut the mesh in two.
    pub fn with_degraded(mesh: Mesh, hardware: Hardware, degraded: &[DegradedLink]) -> Result<Topology, TopologyError> {
        let mut topology = Topology::wire(mesh, hardware, degraded)?;
        for link in degraded {
            let id = topology.link_between(link.from, link.to)?;
            let state = topology.degraded.entry(id).or_insert(link.state);
            *state = link.state.min(*state);
        }
        let is_down = |state: &LinkState| *state == LinkState::Down;
        match topology.degraded.values().any(is_down).then(|| topology.cut()).flatten() {
            Some((from, to)) => Err(topology.cut_off(from, to)),
            None => Ok(topology),
        }
    }

    /// All links as they should be; but the tick is made for the slower ones as well.
    fn wire(mesh: Mesh, hardware: Hardware, degraded: &[DegradedLink]) -> Result<Topology, TopologyError> {
        let machine = mesh.machine();
        let links = 2 * machine.axes().len() as u64 * mesh.device_count() as u64;
        if links > Self::MOST_LINKS {
            return Err(TopologyError::TooManyLinks { links });
        }
        let networks = machine.axes().iter().map(|axis| network_of(axis, &hardware)).collect::<Result<Vec<_>, _>>()?;
        // Of each network, how many devices of the mesh are joined by it, and what was measured for so many.
        let measured: Vec<Option<usize>> = hardware
            .networks()
            .enumerate()
            .map(|(place, network)| {
                let own = machine.axes().iter().zip(&networks).filter(|(_, (other, _))| *other == place);
                let devices = own.map(|(axis, _)| u64::from(axis.size)).product();
                let of = Measured::of(&network.measured, devices)?;
                network.measured.iter().position(|entry| entry == of)
            })
            .collect();
        let entry = |network: &Network, place: usize| measured[place].map(|entry| network.measured[entry].clone());
        let states: BTreeSet<LinkState> = degraded.iter().map(|link| link.state).collect();
        let rates: Vec<Rate> = hardware
            .networks()
            .enumerate()
            .map(|(place, network)| entry(network, place).map_or(network.one_way, |measured| measured.one_way()))
            .collect();
        let slower = rates.iter().cartesian_product(&states).filter_map(|(rate, state)| part_of(*rate, *state));
        let protocols = hardware.networks().enumerate().filter_map(|(place, network)| entry(network, place));
        let protocols = protocols.flat_map(|measured| measured.rates().collect::<Vec<_>>());
        let scale = TimeScale::for_rates(hardware.rates().chain(slower).chain(protocols))
            .map_err(|_| TopologyError::NoCommonTick { hardware: hardware.name.clone() })?;
        let axes = machine
            .axes()
            .iter()
            .zip(machine.axis_ids())
            .zip(&networks)
            .map(|((axis, id), (place, network))| {
                let beside = machine.axes().iter().zip(&networks).filter(|(_, (other, _))| other == place);
                let sizes: Vec<u32> = beside.map(|(axis, _)| axis.size).collect();
                let declared = axis.wiring.unwrap_or_else(|| network.wiring.of(&sizes, axis.size));
                let figures = entry(network, *place);
                let figures = figures.as_ref();
                let latency = figures.map_or(network.hop_latency, Measured::least_latency);
                let overhead = figures.map_or(network.message_overhead, |_| 0);
                AxisLinks {
                    wiring: physical(declared, axis.size),
                    declared,
                    network: *place,
                    switch: network.switch,
                    port: id,
                    per_node: network.attached == Attachment::Node,
                    sharers: 1,
                    one_way: rates[*place],
                    hop_latency: scale.picoseconds(latency),
                    message_overhead: scale.picoseconds(overhead),
                    measured: measured[*place],
                    apart: 1,
                }
            })
            .collect();
        Ok(Topology { mesh, machine, axes: with_ports(axes), hardware, scale, degraded: BTreeMap::new() })
    }

    /// Whether some link is down or slower than it should be.
    pub fn is_degraded(&self) -> bool {
        !self.degraded.is_empty()
    }

    /// The links that are down or slower, in the order of their indices.
    pub fn degraded(&self) -> impl Iterator<Item = (LinkId, LinkState)> + '_ {
        self.degraded.iter().map(|(link, state)| (*link, *state))
    }

    /// Bytes a second of a link that is there, one way; none if it is down.
    pub fn rate(&self, id: LinkId) -> Option<Rate> {
        let one_way = self.axes[self.link(id).axis.index()].one_way;
        self.degraded.get(&id).map_or(Some(one_way), |state| part_of(one_way, *state))
    }

    /// Whether the link is down.
    fn is_down(&self, link: Link) -> bool {
        self.degraded.get(&self.link_id(link)) == Some(&LinkState::Down)
    }

    /// The link from one device to the next.
    fn link_between(&self, from: DeviceId, to: DeviceId) -> Result<LinkId, TopologyError> {
        let mesh = &self.machine;
        let no_link = |why: &str| TopologyError::NoLink {
            from: mesh.place(from),
            to: mesh.place(to),
            why: why.to_owned(),
            link: (from, to),
            at: None,
        };
        let differs = |axis: &AxisId| mesh.coordinate(from, *axis) != mesh.coordinate(to, *axis);
        let (axis, size) = match mesh.axis_ids().filter(differs).exactly_one() {
            Ok(axis) => (axis, mesh.axis(axis).size),
            Err(_) => return Err(no_link("they do not differ in exactly one coordinate")),
        };
        let (here, there) = (mesh.coordinate(from, axis), mesh.coordinate(to, axis));
        let name = &mesh.axis(axis).name;
        let wiring = self.axes[axis.index()].wiring;
        if wiring == Wiring::Switch {
            return Err(no_link(&format!("`{name}` is a switch, whose devices have ports and no links between them")));
        }
        let up = Link { axis, side: LinkSide::Up, device: from };
        let down = Link { axis, side: LinkSide::Down, device: from };
        match (here + 1) % size == there && self.exists(up) {
            true => Ok(self.link_id(up)),
            false if (there + 1) % size == here && self.exists(down) => Ok(self.link_id(down)),
            false => Err(no_link(&format!("they are no neighbours along `{name}`, a {wiring} of {size}"))),
        }
    }

    fn cut_off(&self, from: DeviceId, to: DeviceId) -> TopologyError {
        TopologyError::CutOff { from: self.machine.place(from), to: self.machine.place(to), at: None }
    }

    /// The network that an axis lies over.
    pub fn network(&self, axis: AxisId) -> &Network {
        self.hardware.networks().nth(self.links(axis).network).expect("looked up when the topology was made")
    }

    /// What was measured of messages over the links of an axis of [`Topology::machine`], if that was.
    pub fn measured(&self, axis: AxisId) -> Option<&Measured> {
        let links = self.axes[axis.index()];
        let network = self.hardware.networks().nth(links.network)?;
        network.measured.get(links.measured?)
    }

    /// What it takes that the switch which joins the groups of some axes of the mesh adds their blocks; none if it does not
    /// add such elements, or they do not lie on one switch.
    pub fn switch_sum(&self, axes: impl IntoIterator<Item = AxisId>, dtype: DType) -> Option<SwitchSum> {
        let axes: Vec<AxisId> = axes.into_iter().map(|axis| self.mesh.physical(axis)).unique().collect();
        let (first, links) = axes.first().map(|axis| (*axis, self.axes[axis.index()]))?;
        let on_it = |axis: &AxisId| {
            let other = self.axes[axis.index()];
            other.wiring == Wiring::Switch && other.network == links.network
        };
        if self.is_degraded() || !axes.iter().all(on_it) || !self.network(first).adds.contains(&dtype) || links.per_node
        {
            return None;
        }
        let measured = match self.measured(first) {
            Some(measured) => Some(measured.sums.clone()?),
            None => None,
        };
        Some(SwitchSum { links, measured })
    }

    /// How many devices of a node share a link of this axis, if all of them use it.
    pub fn sharers(&self, axis: AxisId) -> u64 {
        let links = self.links(axis);
        if links.per_node { links.sharers * self.machine.group_size(self.inside()) } else { links.sharers }
    }

    /// In a part of a machine: how many devices share a link of this axis of [`Topology::machine`] and do alike, of which
    /// the part has one. In a whole machine 1.
    pub fn sharers_left_out(&self, axis: AxisId) -> u64 {
        self.axes[axis.index()].sharers
    }

    /// The axes of the machine over the network inside a node: the devices of a node differ along them only.
    pub(super) fn inside(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.machine.axis_ids().filter(|axis| self.axes[axis.index()].network == 0)
    }

    /// Whether the machine looks alike to everybody after a step along an axis of the mesh, from its end to its start.
    ///
    /// A ring or a switch does, but not one axis of two, whose cable has another side at each end; the devices of a
    /// node that share links do not, as the links are counted at the first of them.
    pub fn turns(&self, axis: AxisId) -> bool {
        let physical = self.mesh.physical(axis);
        let links = self.axes[physical.index()];
        let shared = self.inside().any(|inside| inside == physical) && self.axes.iter().any(|links| links.per_node);
        let goes_round = match links.wiring {
            Wiring::Ring | Wiring::Switch => true,
            Wiring::Line => false,
        };
        goes_round && !shared && !self.is_degraded() && self.mesh.size(axis) == self.machine.size(physical)
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

    /// The same machine, spoken of by another mesh: with axes in other parts.
    ///
    /// # Panics
    /// If the mesh is one of another machine.
    pub fn seen_as(&self, mesh: &Mesh) -> Topology {
        assert!(mesh.machine() == self.machine, "the same machine");
        Topology { mesh: mesh.clone(), ..self.clone() }
    }

    /// The part of the machine along these axes, of an axis in parts all of it, and the axes in the order of their
    /// new ids: along all other axes it looks alike, and what shares links with it is taken to do the same.
    ///
    /// Where links are degraded nothing looks alike, and the part is all of the machine.
    pub fn only(&self, axes: AxisSet) -> (Topology, Vec<AxisId>) {
        if self.is_degraded() {
            return (self.clone(), self.mesh.axis_ids().collect());
        }
        let (mesh, kept) = self.mesh.only(axes);
        let wired: AxisSet = kept.iter().map(|axis| self.mesh.physical(*axis)).collect();
        let alike = self.machine.group_size(self.inside().filter(|axis| !wired.contains(*axis)));
        let links = wired.iter().map(|axis| {
            let links = self.axes[axis.index()];
            AxisLinks { sharers: if links.per_node { links.sharers * alike } else { links.sharers }, ..links }
        });
        (Topology { machine: mesh.machine(), mesh, axes: with_ports(links.collect()), ..self.clone() }, kept)
    }
}

/// The network that an axis lies over, and its place among those of the hardware.
fn network_of<'h>(axis: &Axis, hardware: &'h Hardware) -> Result<(usize, &'h Network), TopologyError> {
    let Some(over) = &axis.over else { return Ok((0, &hardware.network)) };
    let known = || hardware.networks().map(|network| format!("`{}`", network.name)).join(", ");
    let found = hardware.networks().enumerate().find(|(_, network)| network.name == *over);
    found.ok_or_else(|| TopologyError::UnknownNetwork {
        network: over.clone(),
        axis: axis.name.clone(),
        hardware: hardware.name.clone(),
        known: known(),
        at: None,
    })
}

/// The axes of one network that are wired by a switch share the ports of the first of them.
fn with_ports(mut axes: Vec<AxisLinks>) -> Vec<AxisLinks> {
    for place in 0..axes.len() {
        let on_same_switch = |other: &AxisLinks| other.wiring == Wiring::Switch && other.network == axes[place].network;
        let first = axes[..place].iter().position(on_same_switch).filter(|_| axes[place].wiring == Wiring::Switch);
        axes[place].port = AxisId::new(first.unwrap_or(place));
    }
    axes
}

/// What a link in this state carries, at least a byte a second; none if it is down.
fn part_of(one_way: Rate, state: LinkState) -> Option<Rate> {
    match state {
        LinkState::Down => None,
        LinkState::Percent(percent) => {
            let rate = u128::from(one_way.per_second()) * u128::from(percent) / 100;
            Rate::new(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
        }
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
    /// How an axis of `size` devices is wired, among the axes of its network. Axes of one device have no links and do
    /// not count.
    fn of(self, sizes: &[u32], size: u32) -> Wiring {
        let ring = match self {
            WiringRule::Always(wiring) => return wiring,
            WiringRule::RingOfSize(full) => size == full,
            WiringRule::RingsOfMultiple(cube) => sizes.iter().all(|size| *size == 1 || size.is_multiple_of(cube)),
        };
        if ring { Wiring::Ring } else { Wiring::Line }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A mesh with all axes wired alike.
    pub(crate) fn topology(hardware: &str, axes: &[(&str, u32)], wiring: Option<Wiring>) -> Topology {
        let axes = axes.iter().map(|(name, size)| Axis { name: (*name).to_owned(), size: *size, wiring, over: None });
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
