//! Exchanges of arrays that are partly used: the bound is the heaviest of all sets of devices, counting used slots only.

use super::net::larger;
use super::{graph, nets, scale, time};
use shardc::bounds::demand::Demand;
use shardc::bounds::irregular;
use shardc::collective::Collective;
use shardc::dtype::DType;
use shardc::layout::Used;
use shardc::layout::{Dims, Layout, Sharding};
use shardc::mesh::{Axes, AxisId, Mesh};
use shardc::supply::Table;
use shardc::units::Bytes;

/// Bytes of a slot.
const SLOT: u64 = 720_720;
/// Slots of each pair.
const SLOTS: u64 = 16;

/// An exchange between the devices of a mesh of one axis, with this number of used slots of each pair.
fn exchange(devices: u64, used: &[i32]) -> (Mesh, Collective, Layout) {
    let mesh = Mesh::of(&[("X", u32::try_from(devices).unwrap())]);
    let mut dims = Dims::default();
    let named = |(name, size): (&str, u64)| dims.add(Some(name.to_owned()), size);
    let all = [("G", devices), ("E", devices), ("C", SLOTS), ("M", SLOT)].map(named);
    let axes = Axes::one(AxisId::new(0));
    let sharding = Sharding { dims: vec![axes, Axes::NONE, Axes::NONE, Axes::NONE], ..Sharding::default() };
    let table = Table::new(used.to_vec());
    let used = Some(Used { along: all[2], over: all[..2].to_vec(), table, plus: 0 });
    let layout = Layout { dtype: DType::I8, dims: all.to_vec(), sharding, used };
    (mesh, Collective::AllToAll { axes, from: 0, to: 1 }, layout)
}

#[test]
fn the_heaviest_of_all_sets() {
    let mut random = fastrand::Rng::with_seed(3);
    let small = nets().into_iter().filter(|(_, net)| net.devices <= 9);
    for (name, net) in small {
        let n = net.devices;
        let most = [1, 3, 16][random.usize(..3)];
        let used: Vec<i32> = (0..n * n).map(|_| random.i32(0..=most)).collect();
        let (mesh, collective, from) = exchange(n as u64, &used);
        let demand = Demand::new(&collective, &from, &mesh);
        let found = irregular::certificate(&graph(&net), &demand, &mesh, scale());
        let load = |from: usize, to: usize| if from == to { 0 } else { u128::from(used[from * n + to].unsigned_abs()) };
        let pairs = || (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        let is_in = |set: u32, device: usize| set >> device & 1 == 1;
        let into = |set: u32| {
            let entering = pairs().filter(|(from, to)| !is_in(set, *from) && is_in(set, *to));
            entering.map(|(from, to)| load(from, to)).sum::<u128>() * u128::from(SLOT)
        };
        let hops = net.distances();
        let crossed: u128 = pairs().map(|(from, to)| load(from, to) * hops[from][to] * u128::from(SLOT)).sum();
        let capacity: u128 = net.links.iter().map(|link| u128::from(link.2)).sum();
        let of_bytes = |(bytes, capacity): (u128, u128)| (bytes, capacity * u128::from(super::FULL));
        let wanted = larger(of_bytes(net.over_all_sets(into)), of_bytes((crossed, capacity)));
        assert_eq!(found.bound.bandwidth, time(wanted), "{name}: {used:?}");
        // What a device receives is counted alike.
        let column = |to: usize| (0..n).map(|from| load(from, to)).sum::<u128>() * u128::from(SLOT);
        let most = u64::try_from((0..n).map(column).max().unwrap_or(0)).unwrap();
        assert_eq!(collective.bytes_received(&from, &mesh), Bytes(most), "{name}");
    }
}

#[test]
fn nothing_is_needed_of_slots_that_are_not_used() {
    let (mesh, collective, from) = exchange(4, &[5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0, 0, 0, -1, 5]);
    assert!(Demand::new(&collective, &from, &mesh).pieces.is_empty());
    assert_eq!(collective.bytes_received(&from, &mesh), Bytes(0));
    let full = Layout { used: None, ..from };
    let demand = Demand::new(&collective, &full, &mesh);
    assert_eq!(demand.pieces.len(), 12);
    assert!(demand.pieces.iter().all(|piece| piece.weight == 1));
}
