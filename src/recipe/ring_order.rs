//! An order of the devices of a fabric in which few messages around the ring share a link.
//!
//! Each device sends to the next one. In the order of the mesh, these messages may cross the same links between switches:
//! where a group of a dragonfly has its links to the next group at its first router and those from the last group at its
//! last one, all groups are to be passed in reverse.

use crate::mesh::{Axes, DeviceId};
use crate::route::Route;
use crate::topology::{LinkId, Topology};
use crate::units::Rate;
use itertools::Itertools;

/// Most devices for which an order is searched.
const MOST_DEVICES: u64 = 128;

/// Time of a byte on the fastest link, as an integer.
const UNIT: u128 = 1 << 16;

/// The order around the ring of all devices, by their rank along these axes, from rank 0 on.
///
/// `None` if there are too many devices, they are not all of the fabric, or no order is better than that of the ranks.
pub(super) fn ring_order(topology: &Topology, axes: Axes) -> Option<Vec<usize>> {
    let mesh = &topology.mesh;
    let count = axes.group_size(mesh);
    topology.fabric()?;
    if !(3..=MOST_DEVICES).contains(&count) || count != mesh.device_count() as u64 {
        return None;
    }
    let devices = (0..count).map(|rank| mesh.with_rank(DeviceId(0), axes.iter(), rank)).collect_vec();
    let links = (0..topology.link_count()).map(LinkId::at);
    let rates = links.map(|id| u128::from(topology.rate(id).map_or(1, Rate::per_second)).max(1)).collect_vec();
    let fastest = rates.iter().copied().max()?;
    let weights = rates.into_iter().map(|rate| UNIT * fastest / rate).collect_vec();
    // The links of the route between each two devices.
    let links_between = |from: DeviceId, to: DeviceId| -> Option<Vec<usize>> {
        let route = topology.route(from, to, Route::Shortest).ok()?;
        Some(route.iter().flat_map(|hop| hop.links().map(LinkId::index).collect_vec()).collect())
    };
    let routes =
        devices.iter().map(|from| devices.iter().map(|to| links_between(*from, *to)).collect::<Option<Vec<_>>>());
    let ring = Ring { routes: routes.collect::<Option<Vec<_>>>()?, weights };
    let mut order = (0..devices.len()).collect_vec();
    let first = ring.loads(&order);
    let (mut least, floor) = (first, ring.floor());
    while least.0 > floor {
        let before = least;
        for [from, to] in (1..order.len()).array_combinations() {
            order[from..=to].reverse();
            let loads = ring.loads(&order);
            if loads < least {
                least = loads;
            } else {
                order[from..=to].reverse();
            }
        }
        if least == before {
            break;
        }
    }
    (least.0 < first.0).then_some(order)
}

/// The routes between the devices of a ring.
struct Ring {
    /// By sender and receiver.
    routes: Vec<Vec<Vec<usize>>>,
    /// The time of a byte on each link.
    weights: Vec<u128>,
}

impl Ring {
    /// The load of a link that no order avoids: each device receives over some links.
    fn floor(&self) -> u128 {
        let heaviest = |links: &Vec<usize>| links.iter().map(|link| self.weights[*link]).max();
        let into = |to: usize| self.routes.iter().filter_map(|routes| heaviest(&routes[to])).min();
        (0..self.routes.len()).filter_map(into).max().unwrap_or_default()
    }

    /// The load of the most loaded link when each device sends to the next one, and the sum of all squared loads.
    fn loads(&self, order: &[usize]) -> (u128, u128) {
        let mut loads = vec![0u128; self.weights.len()];
        for (from, to) in order.iter().circular_tuple_windows() {
            self.routes[*from][*to].iter().for_each(|link| loads[*link] += self.weights[*link]);
        }
        (loads.iter().copied().max().unwrap_or_default(), loads.iter().map(|load| load * load).sum())
    }
}
