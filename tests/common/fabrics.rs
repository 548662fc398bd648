//! Fabrics that are built by their sizes: rails, fat trees, and twisted tori.

use itertools::Itertools;
use shardc::mesh::Wiring;
use shardc::topology::listed::{End, Links};
use shardc::topology::{Hardware, WiringRule};
use shardc::units::Rate;

/// Links in both directions between these ends, with GB/s and nanoseconds.
pub(crate) type Group = (Vec<[End; 2]>, u64, u64);

/// Switches and links.
pub(crate) type Machine = (Vec<String>, Vec<Group>);

pub(crate) fn device(number: usize) -> End {
    End::Device(u32::try_from(number).expect("few"))
}

pub(crate) fn switch(name: String) -> End {
    End::Switch(name)
}

/// Nodes with a switch of 450 GB/s a port, and a switch of 50 GB/s per rail, which joins devices with the same place in a node.
pub(crate) fn rails(nodes: usize, devices: usize) -> Machine {
    let names = (0..nodes).map(|node| format!("node{node}")).chain((0..devices).map(|rail| format!("rail{rail}")));
    let inside = (0..nodes * devices).map(|at| [device(at), switch(format!("node{}", at / devices))]);
    let rails = (0..nodes * devices).map(|at| [device(at), switch(format!("rail{}", at % devices))]);
    (names.collect(), vec![(inside.collect(), 450, 500), (rails.collect(), 50, 2500)])
}

/// Leaves with 8 devices each, and a link of 50 GB/s from each leaf to each spine.
pub(crate) fn fat_tree(leaves: usize, spines: usize) -> Machine {
    let names = (0..leaves).map(|leaf| format!("leaf{leaf}")).chain((0..spines).map(|spine| format!("spine{spine}")));
    let down = (0..8 * leaves).map(|at| [device(at), switch(format!("leaf{}", at / 8))]);
    let up = (0..leaves).cartesian_product(0..spines);
    let up = up.map(|(leaf, spine)| [switch(format!("leaf{leaf}")), switch(format!("spine{spine}"))]);
    (names.collect(), vec![(down.chain(up).collect(), 50, 1000)])
}

/// A torus whose cables from the ends of the first two axes lead half of the third axis further: from every device the
/// longest ways are shorter than in one that is not twisted.
pub(crate) fn twisted(sizes: [usize; 3]) -> Machine {
    let [x, y, z] = sizes;
    let number = |[a, b, c]: [usize; 3]| device((a * y + b) * z + c % z);
    let next = |axis: usize, at: [usize; 3]| {
        let mut to = at;
        to[axis] += 1;
        if axis < 2 && to[axis] == sizes[axis] {
            (to[axis], to[2]) = (0, to[2] + z / 2);
        }
        [number(at), number(to)]
    };
    let devices = itertools::iproduct!(0..x, 0..y, 0..z).map(|(a, b, c)| [a, b, c]);
    let cables = devices.cartesian_product(0..3).map(|(at, axis)| next(axis, at));
    (Vec::new(), vec![(cables.collect(), 45, 1000)])
}

pub(crate) fn hardware((switches, groups): Machine) -> Hardware {
    let mut hardware = Hardware::named("h100").expect("shipped");
    hardware.name = "fabric".to_owned();
    hardware.beyond.clear();
    hardware.network.measured.clear();
    hardware.network.adds.clear();
    hardware.network.methods.clear();
    hardware.network.wiring = WiringRule::Always(Wiring::Fabric);
    hardware.network.devices = None;
    hardware.network.switches = switches;
    hardware.network.links = groups
        .into_iter()
        .map(|(between, rate, latency)| Links {
            between,
            from_to: Vec::new(),
            one_way: Rate::new(rate * 1_000_000_000),
            hop_latency: Some(latency * 1000),
        })
        .collect();
    hardware
}
