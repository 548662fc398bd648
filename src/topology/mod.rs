//! Topology: links between devices and rates of devices.
//!
//! Links are unidirectional, connect neighbours, and carry one message at a time. On a ring or a line each device has one link
//! up and one link down; on a switch each device has one output port and one input port; in a full mesh each device has one
//! link to each other device.

mod attention;
pub mod closed_form;
mod detour;
pub mod engines;
mod experts;
pub mod fabric;
mod hardware;
mod hop;
pub mod listed;
mod measured;
mod products;
mod profile;
mod quantity;
pub mod routes;
mod slices;
mod turns;
mod work;

pub use attention::{Attention, Heads, QueryTile};
pub use closed_form::{ClosedForm, Limit};
pub use engines::{EngineId, Engines, EnginesError, Work};
pub use experts::{Experts, Rows, Tokens};
pub use fabric::{CableTimes, Fabric};
pub use hardware::{
    Attachment, Hardware, HopRule, LocalMoves, MeasuredProducts, Network, SwitchKind, Unit, WiringRule,
};
pub use hop::{Also, Hop, Link, LinkId, LinkSide};
pub use measured::{Measured, Messages, Protocol, Traffic};
pub use products::{Products, Shape, Tile};
pub use profile::{ProfileDocument, ProfileError};
pub use routes::RouteError;
pub use slices::Unlinked;
pub use turns::LinkClasses;
pub use work::{Form, ProductWork, WorkTime};

use crate::dtype::DType;
use crate::link::{DegradedLink, LinkState};
use crate::mesh::{Axes, Axis, AxisId, AxisSet, DeviceId, Mesh, Wiring};
use crate::units::{Bytes, Rate, Time, TimeScale, counted};
use detour::Detours;
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;
use turns::Turns;

/// A mesh on a hardware profile.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The mesh.
    pub mesh: Mesh,
    /// The hardware.
    pub hardware: Hardware,
    /// The mesh of wired axes, without split axes.
    pub machine: Mesh,
    /// Wiring and links of these axes, in mesh order.
    pub axes: Vec<AxisLinks>,
    /// The axes of the machine in the order in which messages cross them.
    crossed: Vec<AxisId>,
    /// The tick of all times.
    pub scale: TimeScale,
    /// Degraded links.
    degraded: BTreeMap<LinkId, LinkState>,
    /// Routes around failed links.
    detours: Detours,
    /// The links of a fabric, which wires all axes.
    fabric: Option<Arc<Fabric>>,
    /// The translations under which the fabric looks the same.
    turns: Arc<Turns>,
}

/// The links along one axis, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisLinks {
    /// Wiring of the axis. An axis of size 2 is a line: one cable, one link in each direction.
    pub wiring: Wiring,
    /// Declared wiring, ignoring the rule for size 2; used by the book's closed forms.
    pub declared: Wiring,
    /// Network of the axis, as an index into [`Hardware::networks`].
    pub network: usize,
    /// Mode of the switch, if wired by one.
    pub switch: SwitchKind,
    /// The axis whose ports it uses: a device has one port into a switch, for all axes of the network.
    pub port: AxisId,
    /// The first of its rows of links; a row has one link per device.
    first_row: u32,
    /// Number of its rows of links.
    rows: u32,
    /// Whether the devices of a node share its links.
    per_node: bool,
    /// In a submesh: number of symmetric devices that share a link, of which the submesh has one.
    pub sharers: u64,
    /// Bytes per second of a link, in one direction.
    pub one_way: Rate,
    /// Latency of a hop.
    pub hop_latency: Time,
    /// Overhead of a message.
    pub message_overhead: Time,
    /// Index of the measured figures of the network.
    measured: Option<usize>,
    /// Number of links between neighbours: 1, or more on a major part of an axis, where as many groups share each link.
    pub apart: u32,
}

impl AxisLinks {
    /// Latency between the most distant of this number of devices, or from the device with a rank to the most distant one.
    pub(crate) fn reach(&self, size: u64, from: Option<u64>) -> Time {
        let apart = u64::from(self.apart);
        self.hop_latency
            * match (self.wiring, from) {
                (Wiring::Line, Some(rank)) => apart * rank.max(size - 1 - rank),
                (Wiring::Ring | Wiring::Line, _) => apart * self.wiring.diameter(size),
                (Wiring::Switch, _) => self.switch.hops(),
                (Wiring::Full | Wiring::Fabric, _) => 1,
            }
    }

    /// Whether messages take measured times.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    /// Busy time of a link for a message of this time at its rate, and the time of the hop. A link between devices is
    /// busy for the latency too if the rule says so; the port of a switch takes the next message as soon as it has sent
    /// the last one.
    pub fn hop(&self, rule: HopRule, bandwidth: Time) -> [Time; 2] {
        match rule {
            HopRule::Larger => {
                let transit = bandwidth.max(self.hop_latency);
                [if self.wiring == Wiring::Switch { bandwidth } else { transit }, transit]
            }
            HopRule::Sum => [bandwidth, self.hop_latency + bandwidth],
        }
    }
}

/// A switch that adds.
#[derive(Clone, Debug)]
pub struct SwitchSum {
    /// Its input ports.
    links: AxisLinks,
    /// Measured figures.
    measured: Option<Messages>,
}

impl SwitchSum {
    /// The latency before sending, the busy time of the ports, and the latency of the sum.
    pub fn times(&self, topology: &Topology, bytes: Bytes) -> [Time; 3] {
        let (scale, links) = (topology.scale, self.links);
        let amount = u128::from(bytes.0);
        let [start, busy, transit] = match &self.measured {
            Some(sums) => {
                let busy = scale.at_rate(amount, sums.one_way());
                [scale.picoseconds(sums.start), busy, busy.max(sums.transit(scale, bytes.0))]
            }
            None => {
                let [busy, transit] = links.hop(topology.hardware.hop_rule, scale.at_rate(amount, links.one_way));
                [links.message_overhead, busy, transit * links.switch.hops()]
            }
        };
        [start, busy * links.sharers, busy * (links.sharers - 1) + transit]
    }
}

/// A mesh that the hardware cannot support.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
pub enum TopologyError {
    /// No tick divides the time of a byte on each link and of each operation.
    #[error("the rates of `{hardware}` have no common tick for exact times")]
    #[diagnostic(code("no-common-tick"), help("write the rates of the profile with two or three digits"))]
    NoCommonTick {
        /// The name of the profile.
        hardware: String,
    },
    /// The hardware lacks the network of an axis.
    #[error("unknown network `{network}` of `{hardware}` for axis `{axis}`")]
    #[diagnostic(code("unknown-network"), help("networks of `{hardware}` are {known}"))]
    UnknownNetwork {
        /// The requested network.
        network: String,
        /// The axis.
        axis: String,
        /// The name of the profile.
        hardware: String,
        /// The networks of the profile.
        known: String,
        /// Source location.
        #[label("unknown network")]
        at: Option<SourceSpan>,
    },
    /// A degraded link does not exist.
    #[error("no link from {from} to {to}: {why}")]
    #[diagnostic(
        code("no-link"),
        help("a link connects neighbours along a ring or a line, or any two devices of a full mesh")
    )]
    NoLink {
        /// Coordinates of the sender.
        from: String,
        /// Coordinates of the receiver.
        to: String,
        /// The reason.
        why: String,
        /// The two devices.
        link: (DeviceId, DeviceId),
        /// Source location.
        #[label("no such link")]
        at: Option<SourceSpan>,
    },
    /// Failed links disconnect the mesh.
    #[error("failed links disconnect {from} from {to}")]
    #[diagnostic(code("mesh-cut"), help("the mesh must stay connected; restore a link, or use a smaller mesh"))]
    CutOff {
        /// The coordinates of a device.
        from: String,
        /// Coordinates of an unreachable one.
        to: String,
        /// Location of the last link.
        #[label("disconnects the mesh")]
        at: Option<SourceSpan>,
    },
    /// The fabric of the hardware has a different number of devices.
    #[error("the mesh has {}, the fabric of `{hardware}` has {devices}", counted(*mesh, "device"))]
    #[diagnostic(
        code("fabric-size"),
        help("use a mesh of {devices} devices, which may have several axes, or another profile")
    )]
    FabricSize {
        /// The name of the profile.
        hardware: String,
        /// Number of devices of the fabric.
        devices: usize,
        /// Number of devices of the mesh.
        mesh: u64,
        /// Source location of the mesh.
        #[label("a different number of devices")]
        at: Option<SourceSpan>,
    },
    /// An axis on a fabric has a wiring or a network of its own.
    #[error("axis `{axis}` cannot have a {what} of its own on `{hardware}`, whose fabric wires all axes")]
    #[diagnostic(code("fabric-axis"), help("remove the {what}; messages take the links that the profile lists"))]
    FabricAxis {
        /// The axis.
        axis: String,
        /// `wiring` or `network`.
        what: &'static str,
        /// The name of the profile.
        hardware: String,
        /// Source location of the mesh.
        #[label("an axis with a {what}")]
        at: Option<SourceSpan>,
    },
    /// The fabric is invalid, on hardware that was not read from a profile.
    #[error("fabric of `{hardware}`: {message}")]
    #[diagnostic(code("hardware-profile"), help("correct the links of the network"))]
    BadFabric {
        /// The name of the hardware.
        hardware: String,
        /// The error.
        message: String,
    },
    /// There are too many links.
    #[error("the mesh has {links} links; the limit is {most}", most = Topology::MOST_LINKS)]
    #[diagnostic(code("mesh-too-large"), help("use a smaller mesh, or fewer axes"))]
    TooManyLinks {
        /// Their number.
        links: u64,
    },
}

impl TopologyError {
    /// Whether the program causes the error.
    pub fn is_written(&self) -> bool {
        match self {
            TopologyError::UnknownNetwork { .. }
            | TopologyError::NoLink { .. }
            | TopologyError::CutOff { .. }
            | TopologyError::FabricSize { .. }
            | TopologyError::FabricAxis { .. } => true,
            TopologyError::NoCommonTick { .. }
            | TopologyError::BadFabric { .. }
            | TopologyError::TooManyLinks { .. } => false,
        }
    }

    /// Sets the source location.
    pub fn set_place(&mut self, place: Option<SourceSpan>) {
        match self {
            TopologyError::UnknownNetwork { at, .. }
            | TopologyError::NoLink { at, .. }
            | TopologyError::CutOff { at, .. }
            | TopologyError::FabricSize { at, .. }
            | TopologyError::FabricAxis { at, .. } => *at = place,
            TopologyError::NoCommonTick { .. }
            | TopologyError::BadFabric { .. }
            | TopologyError::TooManyLinks { .. } => {}
        }
    }
}

impl Topology {
    /// Most links of a mesh; a mesh of a million devices on four axes has eight million.
    pub const MOST_LINKS: u64 = 1 << 23;

    /// Wires a mesh as declared, or else by the rule of the hardware.
    ///
    /// # Errors
    /// If the rates of the hardware have no common tick ([`TimeScale::for_rates`]), or there are more than
    /// [`Topology::MOST_LINKS`] links.
    pub fn new(mesh: Mesh, hardware: Hardware) -> Result<Topology, TopologyError> {
        Topology::with_degraded(mesh, hardware, &[])
    }

    /// Wires a mesh with degraded links; if a link is listed twice, the worse state counts.
    ///
    /// # Errors
    /// As [`Topology::new`], or if a link does not exist, or failed links disconnect the mesh.
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

    /// Wires a mesh with healthy links, but a tick that also suits the degraded ones.
    fn wire(mesh: Mesh, hardware: Hardware, degraded: &[DegradedLink]) -> Result<Topology, TopologyError> {
        let machine = mesh.machine();
        let fabric = fabric_of(&machine, &hardware)?;
        let networks = machine.axes().iter().map(|axis| network_of(axis, &hardware)).collect::<Result<Vec<_>, _>>()?;
        // For each network, the number of devices of the mesh on it, and the measurements for that number.
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
        let cables: Vec<Rate> = fabric.iter().flat_map(|fabric| fabric.cables()).map(|cable| cable.rate).collect();
        let scale = TimeScale::for_rates(hardware.rates().chain(slower).chain(protocols).chain(cables))
            .map_err(|_| TopologyError::NoCommonTick { hardware: hardware.name.clone() })?;
        let axes: Vec<AxisLinks> = machine
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
                let latency = fabric.as_ref().map_or(latency, |fabric| fabric.least_latency());
                let overhead = figures.map_or(network.message_overhead, |_| 0);
                let wiring = physical(declared, axis.size);
                // The links of a fabric are counted at the first axis.
                let of_fabric = fabric.as_ref().filter(|_| id.index() == 0).map(|fabric| fabric.cables().len());
                let of_fabric = of_fabric.map(|count| u32::try_from(count).expect("few links"));
                AxisLinks {
                    wiring,
                    declared,
                    network: *place,
                    switch: network.switch,
                    port: id,
                    first_row: 0,
                    rows: of_fabric.unwrap_or_else(|| wiring.rows(axis.size)),
                    per_node: network.attached == Attachment::Node,
                    sharers: 1,
                    one_way: fabric.as_ref().map_or(rates[*place], |fabric| fabric.fastest()),
                    hop_latency: scale.picoseconds(latency),
                    message_overhead: scale.picoseconds(overhead),
                    measured: measured[*place],
                    apart: 1,
                }
            })
            .collect();
        let rows = axes.iter().map(|links| u64::from(links.rows)).sum::<u64>();
        let devices = if fabric.is_some() { 1 } else { mesh.device_count() as u64 };
        let links = rows.saturating_mul(devices);
        if links > Self::MOST_LINKS {
            return Err(TopologyError::TooManyLinks { links });
        }
        Ok(Topology {
            crossed: crossed(&machine, &axes),
            mesh,
            axes: with_ports(axes),
            hardware,
            scale,
            degraded: BTreeMap::new(),
            detours: Detours::default(),
            turns: Arc::new(fabric.as_ref().map(|fabric| Turns::new(fabric, &machine)).unwrap_or_default()),
            machine,
            fabric,
        })
    }

    /// Whether links of one axis may differ: some are degraded, or a fabric wires the devices.
    pub fn is_irregular(&self) -> bool {
        !self.degraded.is_empty() || self.fabric.is_some()
    }

    /// The links of a fabric, if one wires the devices.
    pub fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.fabric.as_ref()
    }

    /// The times of messages of one size over the links of a fabric, if one wires the devices.
    pub fn cable_times(&self, bytes: u64) -> Option<CableTimes<'_>> {
        Some(self.fabric.as_ref()?.times(self.scale, self.hardware.hop_rule, bytes))
    }

    /// The degraded links, in the order of their indices.
    pub fn degraded(&self) -> impl Iterator<Item = (LinkId, LinkState)> + '_ {
        self.degraded.iter().map(|(link, state)| (*link, *state))
    }

    /// Bytes per second of a link, in one direction; `None` if it is down.
    pub fn rate(&self, id: LinkId) -> Option<Rate> {
        if let Some(fabric) = &self.fabric {
            return Some(fabric.cables()[id.index()].rate);
        }
        let one_way = self.axes[self.link(id).axis.index()].one_way;
        self.degraded.get(&id).map_or(Some(one_way), |state| part_of(one_way, *state))
    }

    /// Whether the link is down.
    fn is_down(&self, link: Link) -> bool {
        self.degraded.get(&self.link_id(link)) == Some(&LinkState::Down)
    }

    /// The link between two neighbours.
    fn link_between(&self, from: DeviceId, to: DeviceId) -> Result<LinkId, TopologyError> {
        let mesh = &self.machine;
        let no_link = |why: &str| TopologyError::NoLink {
            from: mesh.place(from),
            to: mesh.place(to),
            why: why.to_owned(),
            link: (from, to),
            at: None,
        };
        if self.fabric.is_some() {
            return Err(no_link("the profile lists the links of a fabric, with their rates; change them there"));
        }
        let differs = |axis: &AxisId| mesh.coordinate(from, *axis) != mesh.coordinate(to, *axis);
        let (axis, size) = match mesh.axis_ids().filter(differs).exactly_one() {
            Ok(axis) => (axis, mesh.axis(axis).size),
            Err(_) => return Err(no_link("they do not differ in exactly one coordinate")),
        };
        let (here, there) = (mesh.coordinate(from, axis), mesh.coordinate(to, axis));
        let name = &mesh.axis(axis).name;
        let wiring = self.axes[axis.index()].wiring;
        if wiring == Wiring::Switch {
            return Err(no_link(&format!("`{name}` is a switch; its devices have ports instead of direct links")));
        }
        let ahead = Link { axis, side: LinkSide::Ahead((there + size - here) % size), device: from };
        if self.exists(ahead) {
            return Ok(self.link_id(ahead));
        }
        let up = Link { axis, side: LinkSide::Up, device: from };
        let down = Link { axis, side: LinkSide::Down, device: from };
        match (here + 1) % size == there && self.exists(up) {
            true => Ok(self.link_id(up)),
            false if (there + 1) % size == here && self.exists(down) => Ok(self.link_id(down)),
            false => Err(no_link(&format!("they are not neighbours along `{name}`, a {} of {size}", wiring.noun()))),
        }
    }

    fn cut_off(&self, from: DeviceId, to: DeviceId) -> TopologyError {
        TopologyError::CutOff { from: self.machine.place(from), to: self.machine.place(to), at: None }
    }

    /// The network of an axis of the mesh.
    pub fn network(&self, axis: AxisId) -> &Network {
        self.network_with(self.links(axis))
    }

    fn network_with(&self, links: AxisLinks) -> &Network {
        self.hardware.networks().nth(links.network).expect("looked up when the topology was made")
    }

    /// Measured messages for an axis of [`Topology::machine`], if any.
    pub fn measured(&self, axis: AxisId) -> Option<&Measured> {
        let links = self.axes[axis.index()];
        let network = self.hardware.networks().nth(links.network)?;
        network.measured.get(links.measured?)
    }

    /// Launch time of the kernel whose first message goes along an axis of [`Topology::machine`], in picoseconds.
    ///
    /// On a network without measurements, kernels take as long to launch as on the fully used network inside a node: a
    /// launch is work of the device and its library. 0 if the profile has no measurements.
    pub fn kernel_start(&self, axis: AxisId, traffic: Traffic) -> u64 {
        let inside = || self.hardware.network.measured.iter().max_by_key(|measured| measured.devices);
        self.measured(axis).or_else(inside).map_or(0, |measured| measured.messages(traffic).start)
    }

    /// The switch that joins the groups of some axes of the mesh and adds their elements; `None` if there is none.
    pub fn switch_sum(&self, axes: impl IntoIterator<Item = AxisId>, dtype: DType) -> Option<SwitchSum> {
        let axes: Vec<AxisId> = axes.into_iter().map(|axis| self.mesh.physical(axis)).unique().collect();
        let (first, links) = axes.first().map(|axis| (*axis, self.axes[axis.index()]))?;
        let on_it = |axis: &AxisId| {
            let other = self.axes[axis.index()];
            other.wiring == Wiring::Switch && other.network == links.network
        };
        if self.is_irregular()
            || !axes.iter().all(on_it)
            || !self.network_with(links).adds.contains(&dtype)
            || links.per_node
        {
            return None;
        }
        let measured = match self.measured(first) {
            Some(measured) => Some(measured.sums.clone()?),
            None => None,
        };
        Some(SwitchSum { links, measured })
    }

    /// Number of devices of a node that share a link of this axis, if all use it.
    pub fn sharers(&self, axis: AxisId) -> u64 {
        let links = self.links(axis);
        if links.per_node { links.sharers * self.machine.group_size(self.inside()) } else { links.sharers }
    }

    /// In a submachine: number of symmetric devices that share a link of this axis of [`Topology::machine`]. 1 in a whole
    /// machine.
    pub fn sharers_left_out(&self, axis: AxisId) -> u64 {
        self.axes[axis.index()].sharers
    }

    /// The axes of the machine on the network inside a node.
    pub(super) fn inside(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.machine.axis_ids().filter(|axis| self.axes[axis.index()].network == 0)
    }

    /// Whether the machine is invariant under translation along an axis of the mesh.
    ///
    /// Rings, switches and full meshes are, except for an axis of size 2, whose cable has a different side at each end, and for devices of a
    /// node that share links, which are counted at the first device.
    pub fn turns(&self, axis: AxisId) -> bool {
        let physical = self.mesh.physical(axis);
        if self.fabric.is_some() {
            return self.turns.axes.contains(physical) && self.mesh.size(axis) == self.machine.size(physical);
        }
        let links = self.axes[physical.index()];
        let shared = self.inside().any(|inside| inside == physical) && self.axes.iter().any(|links| links.per_node);
        let goes_round = match links.wiring {
            Wiring::Ring | Wiring::Switch | Wiring::Full | Wiring::Fabric => true,
            Wiring::Line => false,
        };
        goes_round && !shared && !self.is_irregular() && self.mesh.size(axis) == self.machine.size(physical)
    }

    /// The links of a fabric, by what represents them if one device along each of these axes represents all; `None`
    /// without a fabric.
    ///
    /// - `axes`: axes that [turn](Topology::turns).
    pub fn link_classes(&self, axes: AxisSet) -> Option<LinkClasses> {
        let physical = axes.iter().map(|axis| self.mesh.physical(axis)).collect();
        self.fabric.as_ref().map(|fabric| self.turns.classes(fabric.cables().len(), physical))
    }

    /// The links along one axis, or along a [run](Mesh::runs) of parts.
    ///
    /// Along minor parts of a ring the devices of a group are neighbours on a line; the major-most part wraps around. Every part
    /// of a full mesh is a full mesh, with links of its own.
    ///
    /// # Panics
    /// If the run is empty.
    pub fn links(&self, run: impl Into<Axes>) -> AxisLinks {
        let run = run.into();
        let last = run.last().expect("a run has an axis");
        let physical = self.mesh.physical(last);
        let links = self.axes[physical.index()];
        let (apart, size) = (self.mesh.links_apart(last), run.group_size(&self.mesh));
        let goes_round = u64::from(apart) * size == self.machine.size(physical);
        let wiring = match links.wiring {
            Wiring::Ring if !goes_round || size <= 2 => Wiring::Line,
            Wiring::Full if size <= 2 => Wiring::Line,
            Wiring::Ring | Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => links.wiring,
        };
        let apart = if matches!(links.wiring, Wiring::Full | Wiring::Fabric) { 1 } else { apart };
        AxisLinks { wiring, apart, ..links }
    }

    /// The same machine with another mesh that splits its axes differently.
    ///
    /// # Panics
    /// If the mesh belongs to another machine.
    pub fn seen_as(&self, mesh: &Mesh) -> Topology {
        assert!(mesh.machine() == self.machine, "the same machine");
        Topology { mesh: mesh.clone(), ..self.clone() }
    }

    /// The submachine along these axes, including all parts of a split axis, and the axes in the order of their new ids. All
    /// other axes are symmetric, and devices that share its links are assumed to do the same.
    ///
    /// An irregular machine has no symmetry, so its submachine is the whole machine.
    pub fn only(&self, axes: AxisSet) -> (Topology, Vec<AxisId>) {
        if self.is_irregular() {
            return (self.clone(), self.mesh.axis_ids().collect());
        }
        let (mesh, kept) = self.mesh.only(axes);
        let wired: AxisSet = kept.iter().map(|axis| self.mesh.physical(*axis)).collect();
        let alike = self.machine.group_size(self.inside().filter(|axis| !wired.contains(*axis)));
        let links = wired.iter().map(|axis| {
            let links = self.axes[axis.index()];
            AxisLinks { sharers: if links.per_node { links.sharers * alike } else { links.sharers }, ..links }
        });
        let (machine, axes) = (mesh.machine(), with_ports(links.collect()));
        (Topology { crossed: crossed(&machine, &axes), machine, mesh, axes, ..self.clone() }, kept)
    }
}

/// The fabric of the hardware, if it has one, for a mesh with as many devices.
fn fabric_of(machine: &Mesh, hardware: &Hardware) -> Result<Option<Arc<Fabric>>, TopologyError> {
    if hardware.network.wiring != WiringRule::Always(Wiring::Fabric) {
        return Ok(None);
    }
    let bad = |message| TopologyError::BadFabric { hardware: hardware.name.clone(), message };
    let fabric = Fabric::new(&hardware.network).map_err(bad)?;
    let (hardware, devices) = (hardware.name.clone(), fabric.devices());
    let own = |axis: &Axis| match (&axis.wiring, &axis.over) {
        (Some(_), _) => Some((axis.name.clone(), "wiring")),
        (None, Some(_)) => Some((axis.name.clone(), "network")),
        (None, None) => None,
    };
    if let Some((axis, what)) = machine.axes().iter().find_map(own) {
        return Err(TopologyError::FabricAxis { axis, what, hardware, at: None });
    }
    match machine.device_count() {
        count if count == devices => Ok(Some(Arc::new(fabric))),
        count => Err(TopologyError::FabricSize { hardware, devices, mesh: count as u64, at: None }),
    }
}

/// The network of an axis, and its index in the hardware.
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

/// The order in which messages cross axes: outer networks first, then by declared wiring, then short axes. It does not
/// depend on the order of the mesh unless axes are alike.
fn crossed(machine: &Mesh, axes: &[AxisLinks]) -> Vec<AxisId> {
    let of = |axis: &AxisId| {
        let links = axes[axis.index()];
        (Reverse(links.network), links.declared, machine.size(*axis))
    };
    machine.axis_ids().sorted_by_key(of).collect()
}

/// Axes of one network that are wired by a switch share the ports of the first of them. Rows of links are numbered.
fn with_ports(mut axes: Vec<AxisLinks>) -> Vec<AxisLinks> {
    let mut row = 0;
    for place in 0..axes.len() {
        axes[place].first_row = row;
        row += axes[place].rows;
        let AxisLinks { wiring, network, .. } = axes[place];
        let is_shared = matches!(wiring, Wiring::Switch | Wiring::Fabric);
        let on_same = |other: &AxisLinks| is_shared && (other.wiring, other.network) == (wiring, network);
        let first = axes[..place].iter().position(on_same);
        axes[place].port = AxisId::new(first.unwrap_or(place));
    }
    axes
}

/// Rate of a link in this state, at least one byte per second; `None` if it is down.
fn part_of(one_way: Rate, state: LinkState) -> Option<Rate> {
    match state {
        LinkState::Down => None,
        LinkState::Percent(percent) => {
            let rate = u128::from(one_way.per_second()) * u128::from(percent) / 100;
            Rate::new(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
        }
    }
}

/// Two adjacent devices have one cable between them, and both directions around are the same.
fn physical(declared: Wiring, size: u32) -> Wiring {
    match declared {
        Wiring::Ring | Wiring::Full if size <= 2 => Wiring::Line,
        Wiring::Ring | Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => declared,
    }
}

impl WiringRule {
    /// Wiring of an axis of this size, among the axes of its network. Axes of size 1 have no links and are ignored.
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
        use Wiring::{Full, Line, Ring, Switch};
        assert_eq!(wirings("tpu_v5e", &[("X", 8), ("Y", 16)]), [Line, Ring]);
        assert_eq!(wirings("tpu_v4p", &[("X", 4), ("Y", 4), ("Z", 8)]), [Ring, Ring, Ring]);
        assert_eq!(wirings("tpu_v5p", &[("X", 2), ("Y", 2), ("Z", 4)]), [Line, Line, Line]);
        assert_eq!(wirings("h100", &[("D", 8), ("X", 2)]), [Switch, Switch]);
        assert_eq!(wirings("mi300x", &[("X", 8)]), [Full]);
        assert_eq!(wirings("trn2", &[("X", 4), ("Y", 4), ("Z", 2)]), [Ring, Ring, Line]);
    }

    #[test]
    fn two_devices_have_one_cable() {
        let two = topology("tpu_v5e", &[("X", 2)], Some(Wiring::Ring)).links(AxisId::new(0));
        assert_eq!((two.wiring, two.declared), (Wiring::Line, Wiring::Ring));
    }

    #[test]
    fn links_of_a_full_mesh_join_every_two_devices() {
        let mesh = topology("tpu_v5e", &[("X", 3), ("Y", 5)], Some(Wiring::Full));
        assert_eq!(mesh.all_links().count(), 15 * (2 + 4));
        let alone = topology("tpu_v5e", &[("X", 1), ("Y", 2)], Some(Wiring::Full));
        assert_eq!(alone.all_links().count(), 2);
        for (from, to) in mesh.mesh.devices().flat_map(|from| mesh.mesh.devices().map(move |to| (from, to))) {
            let apart = mesh
                .mesh
                .axis_ids()
                .filter(|axis| mesh.mesh.coordinate(from, *axis) != mesh.mesh.coordinate(to, *axis));
            match mesh.link_between(from, to) {
                Ok(id) => assert_eq!((apart.count(), mesh.link(id).device, mesh.end(mesh.link(id))), (1, from, to)),
                Err(_) => assert_ne!(apart.count(), 1),
            }
        }
        let many = Topology::new(
            Mesh::new(vec![Axis { name: "X".into(), size: 1 << 12, wiring: Some(Wiring::Full), over: None }]).unwrap(),
            Hardware::named("tpu_v5e").unwrap(),
        );
        assert!(matches!(many, Err(TopologyError::TooManyLinks { .. })));
    }

    #[test]
    fn rates_that_do_not_fit_are_refused() {
        let text = Hardware::named("tpu_v5e").expect("shipped").to_toml();
        let text = text.replace("4.5e10", "999999999989").replace("8.1e11", "999999999961");
        let error = Topology::new(Mesh::of(&[("X", 2)]), Hardware::from_toml(&text).expect("a profile")).map(|_| ());
        assert_eq!(error, Err(TopologyError::NoCommonTick { hardware: "tpu_v5e".to_owned() }));
    }
}
