//! Routes of messages over links.

use super::hop::{Hop, Link, LinkId, LinkSide};
use super::{Fabric, SwitchKind, Topology};
use crate::mesh::{AxisId, DeviceId, Mesh, Wiring};
use crate::route::{Route, Sources};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A route that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The devices differ along several axes.
    #[error("{from} and {to} differ in more than one coordinate and need hops along several axes")]
    NotOneAxis {
        /// The source.
        from: DeviceId,
        /// The destination.
        to: DeviceId,
    },
    /// The hops end elsewhere.
    #[error("{hops} hops along `{axis}` do not lead from {from} to {to}")]
    EndsElsewhere {
        /// The source.
        from: DeviceId,
        /// The destination.
        to: DeviceId,
        /// Hops, towards higher coordinates if positive.
        hops: i64,
        /// The name of the axis.
        axis: String,
    },
    /// All routes need failed links.
    #[error("failed links disconnect {from} from {to}")]
    NoWay {
        /// The source.
        from: DeviceId,
        /// The destination.
        to: DeviceId,
    },
    /// The hops need a link that does not exist.
    #[error("{hops} hops from {from} pass the end of line `{axis}`")]
    OffTheEnd {
        /// The source.
        from: DeviceId,
        /// Hops, towards higher coordinates if positive.
        hops: i64,
        /// The name of the axis.
        axis: String,
    },
}

/// The rest of the route along one axis: hops through the same side of each device.
#[derive(Clone, Copy, Debug)]
struct Leg {
    axis: AxisId,
    side: LinkSide,
    hops: u32,
}

/// A message in flight, hop by hop.
#[derive(Clone, Debug)]
pub struct Walk {
    at: DeviceId,
    destination: DeviceId,
    leg: Option<Leg>,
    /// The rest of a detour.
    detour: Option<Detour>,
    /// The input port still to pass, for a message stored in a switch.
    stored: Option<Link>,
}

/// The rest of a route around failed links.
#[derive(Clone, Debug)]
struct Detour {
    hops: Arc<[Hop]>,
    passed: usize,
}

impl Topology {
    /// Number of links, including unused indices of lines and axes of size 1.
    pub fn link_count(&self) -> usize {
        if let Some(fabric) = &self.fabric {
            return fabric.cables().len();
        }
        let rows: u32 = self.axes.iter().map(|links| links.rows).sum();
        rows as usize * self.machine.device_count()
    }

    /// The index of a link.
    pub fn link_id(&self, link: Link) -> LinkId {
        let place = match link.side {
            LinkSide::Up | LinkSide::Out => 0,
            LinkSide::Down | LinkSide::In => 1,
            LinkSide::Ahead(by) => by - 1,
            LinkSide::Cable(number) => return LinkId::at(number as usize),
        };
        let (axis, device) = self.holder(link);
        let row = self.axes[axis.index()].first_row + place;
        let index = row as usize * self.machine.device_count() + device.index();
        LinkId::at(index)
    }

    /// The link under which a shared link is counted: at the first axis and the first device.
    fn holder(&self, link: Link) -> (AxisId, DeviceId) {
        let links = self.axes[link.axis.index()];
        if !links.per_node {
            return (links.port, link.device);
        }
        (links.port, self.node_of(link.device))
    }

    /// Whether the devices of a node share the links along a machine axis.
    pub fn is_shared(&self, axis: AxisId) -> bool {
        self.axes[axis.index()].per_node
    }

    /// The first device of a device's node.
    pub fn node_of(&self, device: DeviceId) -> DeviceId {
        self.inside().fold(device, |device, axis| self.machine.with_coordinate(device, axis, 0))
    }

    /// The first device on the switch of a port.
    pub fn switch_of(&self, port: Link) -> DeviceId {
        let holder = self.axes[port.axis.index()].port;
        let first =
            self.shared_by(holder).fold(port.device, |first, axis| self.machine.with_coordinate(first, axis, 0));
        if self.is_shared(port.axis) { self.node_of(first) } else { first }
    }

    /// The link with an index.
    pub fn link(&self, id: LinkId) -> Link {
        if let Some(fabric) = &self.fabric {
            let number = u32::try_from(id.index()).expect("links are numbered with 32 bits");
            return Link { axis: AxisId::new(0), side: LinkSide::Cable(number), device: fabric.owner(id.index()) };
        }
        let devices = self.machine.device_count();
        let (row, device) = (self.row(id), id.index() % devices);
        let axis = self.axes.partition_point(|links| links.first_row <= row) - 1;
        let links = self.axes[axis];
        let side = side_of(links.wiring, row - links.first_row);
        Link { axis: AxisId::new(axis), side, device: DeviceId(u32::try_from(device).expect("a device of the mesh")) }
    }

    /// The row of a link: all links of one side along one axis. Those of a fabric have no rows.
    pub fn row(&self, id: LinkId) -> u32 {
        u32::try_from(id.index() / self.machine.device_count()).expect("links are numbered with 32 bits")
    }

    /// The sides of a device along a machine axis.
    pub fn sides(&self, axis: AxisId) -> impl Iterator<Item = LinkSide> + use<> {
        let links = self.axes[axis.index()];
        (0..links.rows).map(move |place| side_of(links.wiring, place))
    }

    /// All existing links, in order.
    pub fn all_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        let exists = |id: &LinkId| {
            let link = self.link(*id);
            self.rate(*id).is_some()
                && self.link_id(link) == *id
                && self.shared_by(link.axis).any(|axis| self.exists(Link { axis, ..link }))
        };
        (0..self.link_count()).map(LinkId::at).filter(exists)
    }

    /// The axes that use the ports of this one.
    pub(super) fn shared_by(&self, axis: AxisId) -> impl Iterator<Item = AxisId> + '_ {
        self.machine.axis_ids().filter(move |other| self.axes[other.index()].port == axis)
    }

    /// Whether the wiring has such a link, working or not.
    pub fn exists(&self, link: Link) -> bool {
        let size = self.machine.axis(link.axis).size;
        let coordinate = self.machine.coordinate(link.device, link.axis);
        if let (Some(fabric), LinkSide::Cable(number)) = (&self.fabric, link.side) {
            let number = number as usize;
            return number < fabric.cables().len() && fabric.owner(number) == link.device;
        }
        match (self.axes[link.axis.index()].wiring, link.side) {
            _ if size == 1 => false,
            (Wiring::Line, LinkSide::Up) => coordinate + 1 < size,
            (Wiring::Line, LinkSide::Down) => coordinate > 0,
            (Wiring::Line | Wiring::Fabric, _) => false,
            (Wiring::Ring, side) => matches!(side, LinkSide::Up | LinkSide::Down),
            (Wiring::Switch, side) => matches!(side, LinkSide::Out | LinkSide::In),
            (Wiring::Full, side) => matches!(side, LinkSide::Ahead(by) if (1..size).contains(&by)),
        }
    }

    /// The device at the other end of a link between devices; the device itself for links from or to a switch.
    pub fn end(&self, link: Link) -> DeviceId {
        other_end(&self.machine, self.fabric.as_deref(), link)
    }

    /// Formats a link: `X: (0,1)->(1,1)`, or `X: port out of (0,1)`.
    pub fn show_link(&self, id: LinkId) -> LinkName<'_> {
        LinkName { mesh: &self.machine, fabric: self.fabric.as_deref(), link: self.link(id) }
    }

    /// The hops of a message, none from a device to itself. [`Route::Hops`] counts links here.
    ///
    /// # Errors
    /// If the route does not exist: the hops pass the end of a line, end elsewhere, or use several axes.
    pub fn route(&self, source: DeviceId, destination: DeviceId, route: Route) -> Result<Vec<Hop>, RouteError> {
        let mut walk = self.start(source, destination, route)?;
        let mut hops = Vec::new();
        while let Some(hop) = self.step(&mut walk) {
            hops.push(hop);
        }
        Ok(hops)
    }

    /// The route of a shuffle, converted from ranks to links of the machine.
    pub fn in_links(&self, sources: &Sources, route: Route) -> Route {
        let last = match sources {
            Sources::Shift { axes, .. } => axes.last(),
            Sources::Table { axes, .. } => axes.last().copied(),
        };
        match route {
            Route::Hops(ranks) => {
                let apart = last.map_or(1, |axis| i64::from(self.mesh.links_apart(axis)));
                Route::Hops(ranks.saturating_mul(apart))
            }
            Route::Shortest => Route::Shortest,
        }
    }

    /// A message before its first hop; [`Topology::step`] advances it.
    ///
    /// # Errors
    /// As [`Topology::route`].
    pub fn start(&self, source: DeviceId, destination: DeviceId, route: Route) -> Result<Walk, RouteError> {
        if self.fabric.is_some() {
            return Ok(Walk { at: source, destination, leg: None, detour: None, stored: None });
        }
        let leg = match route {
            Route::Shortest => None,
            Route::Hops(_) if source == destination => None,
            Route::Hops(hops) => Some(self.hops_leg(source, destination, hops)?),
        };
        let mut walk = Walk { at: source, destination, leg, stored: None, detour: None };
        if self.is_irregular() && self.meets_down(walk.clone()) {
            let hops = self.detour(source, destination).ok_or(RouteError::NoWay { from: source, to: destination })?;
            walk.detour = Some(Detour { hops, passed: 0 });
        }
        Ok(walk)
    }

    /// Whether the route uses a failed link.
    fn meets_down(&self, mut walk: Walk) -> bool {
        std::iter::from_fn(|| self.step(&mut walk)).any(|hop| self.rate(hop.link).is_none())
    }

    /// The next hop of a message; `None` once it has arrived.
    pub fn step(&self, walk: &mut Walk) -> Option<Hop> {
        if let Some(fabric) = &self.fabric {
            let hop = fabric.next(walk.at, walk.destination)?;
            walk.at = hop.to.expect("hops of a fabric end at devices");
            return Some(hop);
        }
        if let Some(detour) = &mut walk.detour {
            detour.passed += 1;
            return detour.hops.get(detour.passed - 1).copied();
        }
        if let Some(port) = walk.stored.take() {
            return Some(Hop { axis: port.axis, link: self.link_id(port), also: None.into(), to: Some(port.device) });
        }
        if walk.at == walk.destination {
            return None;
        }
        let leg = walk.leg.filter(|leg| leg.hops > 0).or_else(|| self.shortest_leg(walk.at, walk.destination))?;
        walk.leg = Some(Leg { hops: leg.hops - 1, ..leg });
        let link = self.link_id(Link { axis: leg.axis, side: leg.side, device: walk.at });
        let to = self.neighbour(walk.destination, Link { axis: leg.axis, side: leg.side, device: walk.at });
        walk.at = to;
        let port = Link { axis: leg.axis, side: LinkSide::In, device: to };
        let (also, to) = match (leg.side, self.axes[leg.axis.index()].switch) {
            (LinkSide::Out, SwitchKind::CutThrough) => (Some(self.link_id(port)), Some(to)),
            (LinkSide::Out, SwitchKind::StoreAndForward) => {
                walk.stored = Some(port);
                (None, None)
            }
            (LinkSide::Up | LinkSide::Down | LinkSide::In | LinkSide::Ahead(_) | LinkSide::Cable(_), _) => {
                (None, Some(to))
            }
        };
        Some(Hop { axis: leg.axis, link, also: also.into(), to })
    }

    /// The device after the next hop; a switch leads to the destination's coordinates on all its axes.
    fn neighbour(&self, destination: DeviceId, link: Link) -> DeviceId {
        match link.side {
            LinkSide::Out | LinkSide::In => {
                let port = self.axes[link.axis.index()].port;
                let coordinate = |axis| self.machine.coordinate(destination, axis);
                let there = |at, axis| self.machine.with_coordinate(at, axis, coordinate(axis));
                self.shared_by(port).fold(link.device, there)
            }
            LinkSide::Up | LinkSide::Down | LinkSide::Ahead(_) | LinkSide::Cable(_) => self.end(link),
        }
    }

    /// The route along the first axis on which two devices differ.
    fn shortest_leg(&self, at: DeviceId, destination: DeviceId) -> Option<Leg> {
        let (axis, here, there) = self.crossed.iter().copied().find_map(|axis| {
            let (here, there) = (self.machine.coordinate(at, axis), self.machine.coordinate(destination, axis));
            (here != there).then_some((axis, here, there))
        })?;
        let size = self.machine.axis(axis).size;
        let up = if there > here { there - here } else { size - (here - there) };
        let (side, hops) = match self.axes[axis.index()].wiring {
            Wiring::Switch | Wiring::Fabric => (LinkSide::Out, 1),
            Wiring::Full => (LinkSide::Ahead(up), 1),
            Wiring::Ring if up <= size - up => (LinkSide::Up, up),
            Wiring::Ring => (LinkSide::Down, size - up),
            Wiring::Line if there > here => (LinkSide::Up, up),
            Wiring::Line => (LinkSide::Down, here - there),
        };
        Some(Leg { axis, side, hops })
    }

    /// A route with a number of hops along the axis on which two devices differ.
    fn hops_leg(&self, from: DeviceId, to: DeviceId, hops: i64) -> Result<Leg, RouteError> {
        let differs = |axis: &AxisId| self.machine.coordinate(from, *axis) != self.machine.coordinate(to, *axis);
        let mut axes = self.machine.axis_ids().filter(differs);
        let (Some(axis), None) = (axes.next(), axes.next()) else {
            return Err(RouteError::NotOneAxis { from, to });
        };
        let size = i64::from(self.machine.axis(axis).size);
        let [here, there] = [from, to].map(|device| i64::from(self.machine.coordinate(device, axis)));
        let name = || self.machine.axis(axis).name.clone();
        let elsewhere = || RouteError::EndsElsewhere { from, to, hops, axis: name() };
        // Through a switch or a full mesh all ways are one, also along a part of its axis.
        if self.axes[axis.index()].wiring.is_one_hop() {
            return self.shortest_leg(from, to).ok_or_else(elsewhere);
        }
        if hops.rem_euclid(size) != (there - here).rem_euclid(size) {
            return Err(elsewhere());
        }
        let side = if hops > 0 { LinkSide::Up } else { LinkSide::Down };
        let count = u32::try_from(hops.unsigned_abs()).ok().filter(|hops| i64::from(*hops) < size);
        let count = count.ok_or_else(elsewhere)?;
        let links = self.axes[axis.index()];
        match links.wiring {
            Wiring::Ring | Wiring::Switch | Wiring::Full | Wiring::Fabric => Ok(Leg { axis, side, hops: count }),
            Wiring::Line if hops == there - here => Ok(Leg { axis, side, hops: count }),
            // A program that calls two devices a ring means the cable they have, whichever way it says.
            Wiring::Line if links.declared == Wiring::Ring => {
                Ok(Leg { axis, side: if there > here { LinkSide::Up } else { LinkSide::Down }, hops: 1 })
            }
            Wiring::Line => Err(RouteError::OffTheEnd { from, hops, axis: name() }),
        }
    }
}

/// The side of a row of links along an axis.
fn side_of(wiring: Wiring, place: u32) -> LinkSide {
    match (wiring, place) {
        (Wiring::Ring | Wiring::Line, 0) => LinkSide::Up,
        (Wiring::Ring | Wiring::Line, _) => LinkSide::Down,
        (Wiring::Switch, 0) => LinkSide::Out,
        (Wiring::Switch, _) => LinkSide::In,
        (Wiring::Full, _) => LinkSide::Ahead(place + 1),
        (Wiring::Fabric, _) => LinkSide::Cable(place),
    }
}

/// The device at the other end of a link between devices; the device itself for links from or to a switch.
fn other_end(mesh: &Mesh, fabric: Option<&Fabric>, link: Link) -> DeviceId {
    let (size, coordinate) = (mesh.axis(link.axis).size, mesh.coordinate(link.device, link.axis));
    let by = match link.side {
        LinkSide::Up => 1,
        LinkSide::Down => size - 1,
        LinkSide::Ahead(by) => by,
        LinkSide::Out | LinkSide::In => 0,
        LinkSide::Cable(number) => return fabric.and_then(|fabric| fabric.end(number)).unwrap_or(link.device),
    };
    mesh.with_coordinate(link.device, link.axis, (coordinate + by) % size)
}

/// A link with its mesh, for display.
#[derive(Clone, Copy, Debug)]
pub struct LinkName<'a> {
    mesh: &'a Mesh,
    fabric: Option<&'a Fabric>,
    link: Link,
}

impl fmt::Display for LinkName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Link { axis, side, device } = self.link;
        let (name, place) = (&self.mesh.axis(axis).name, self.place(device));
        match side {
            LinkSide::Up | LinkSide::Down | LinkSide::Ahead(_) => {
                write!(f, "{name}: {place}->{}", self.place(other_end(self.mesh, None, self.link)))
            }
            LinkSide::Cable(number) => match self.fabric {
                Some(fabric) => f.write_str(&fabric.show(number)),
                None => write!(f, "{name}: link {number}"),
            },
            LinkSide::Out => write!(f, "{name}: port out of {place}"),
            LinkSide::In => write!(f, "{name}: port into {place}"),
        }
    }
}

impl LinkName<'_> {
    fn place(&self, device: DeviceId) -> String {
        self.mesh.place(device)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::topology;
    use super::*;

    fn shown(topology: &Topology, from: u32, to: u32, route: Route) -> Result<Vec<String>, RouteError> {
        let hops = topology.route(DeviceId(from), DeviceId(to), route)?;
        let ids = hops.iter().flat_map(Hop::links);
        Ok(ids.map(|id| topology.show_link(id).to_string()).collect())
    }

    #[test]
    fn links_have_names() {
        let torus = topology("tpu_v5e", &[("X", 4), ("Y", 4)], Some(Wiring::Ring));
        assert_eq!(shown(&torus, 0, 12, Route::Hops(-1)).unwrap(), ["X: (0,0)->(3,0)"]);
        assert_eq!(shown(&torus, 0, 15, Route::Shortest).unwrap(), ["X: (0,0)->(3,0)", "Y: (3,0)->(3,3)"]);
        assert_eq!(shown(&torus, 1, 3, Route::Shortest).unwrap(), ["Y: (0,1)->(0,2)", "Y: (0,2)->(0,3)"]);
        let node = topology("h100_book", &[("D", 8)], None);
        assert_eq!(shown(&node, 2, 7, Route::Shortest).unwrap(), ["D: port out of (2)", "D: port into (7)"]);
    }

    #[test]
    fn ways_that_do_not_exist() {
        let line = topology("tpu_v5e", &[("X", 4), ("Y", 2)], Some(Wiring::Line));
        assert!(matches!(shown(&line, 0, 6, Route::Hops(-1)), Err(RouteError::OffTheEnd { .. })));
        assert!(matches!(shown(&line, 0, 4, Route::Hops(1)), Err(RouteError::EndsElsewhere { .. })));
        assert!(matches!(shown(&line, 0, 4, Route::Hops(i64::MIN)), Err(RouteError::EndsElsewhere { .. })));
        assert!(matches!(shown(&line, 0, 4, Route::Hops(6)), Err(RouteError::EndsElsewhere { .. })));
        assert!(matches!(shown(&line, 0, 3, Route::Hops(2)), Err(RouteError::NotOneAxis { .. })));
        assert!(matches!(shown(&line, 0, 1, Route::Hops(-1)), Err(RouteError::OffTheEnd { .. })));
        let pair = topology("tpu_v5e", &[("X", 2)], Some(Wiring::Ring));
        assert_eq!(shown(&pair, 0, 1, Route::Hops(-1)).unwrap(), ["X: (0)->(1)"]);
    }

    #[test]
    fn every_way_uses_links_that_exist_and_is_as_short_as_the_distance() {
        for wiring in Wiring::ALL {
            for sizes in [[1, 5], [2, 3], [4, 4], [3, 1]] {
                let topology = topology("tpu_v5e", &[("X", sizes[0]), ("Y", sizes[1])], Some(wiring));
                let all: Vec<LinkId> = topology.all_links().collect();
                assert!(all.iter().all(|id| topology.link_id(topology.link(*id)) == *id));
                for (from, to) in topology.mesh.devices().flat_map(|d| topology.mesh.devices().map(move |e| (d, e))) {
                    let hops = topology.route(from, to, Route::Shortest).unwrap();
                    let along = topology.mesh.axis_ids().map(|axis| distance(&topology, from, to, axis));
                    // All devices are on one switch, whatever the axes.
                    let distance = if wiring == Wiring::Switch { along.max().unwrap_or(0) } else { along.sum() };
                    assert_eq!(hops.len(), distance as usize);
                    assert_eq!(hops.last().map_or(Some(from), |hop| hop.to), Some(to));
                    assert!(hops.iter().flat_map(Hop::links).all(|id| all.contains(&id)));
                }
            }
        }
    }

    fn distance(topology: &Topology, from: DeviceId, to: DeviceId, axis: AxisId) -> u32 {
        let apart = topology.mesh.coordinate(from, axis).abs_diff(topology.mesh.coordinate(to, axis));
        match topology.links(axis).wiring {
            Wiring::Ring => apart.min(topology.mesh.axis(axis).size - apart),
            Wiring::Line => apart,
            Wiring::Switch | Wiring::Full | Wiring::Fabric => apart.min(1),
        }
    }
}
