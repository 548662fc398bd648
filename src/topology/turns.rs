//! Translations under which the links of a fabric look the same.
//!
//! A translation along an axis of the mesh sends the route between any two devices to that between their images. If it
//! sends links to links with the same figures, and no image of a link is the link itself, then one device represents all
//! others along the axis: their messages use other links in the same way.

use super::fabric::Fabric;
use super::hop::LinkId;
use crate::mesh::{AxisId, AxisSet, DeviceId, Mesh};
use itertools::Itertools;
use std::collections::BTreeMap;

/// The translations of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// The axes along which one device represents all, also together.
    pub(super) axes: AxisSet,
    /// For each of these axes, the image of each link under a translation by one; `None` for links without a route.
    images: BTreeMap<AxisId, Vec<Option<u32>>>,
}

/// The links of a fabric by what represents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkClasses {
    /// The class of each link.
    pub class: Vec<u32>,
    /// The first link of each class.
    pub first: Vec<LinkId>,
}

impl Turns {
    /// The translations of a fabric that wires this machine.
    pub(super) fn new(fabric: &Fabric, machine: &Mesh) -> Turns {
        let mut turns = Turns::default();
        for axis in machine.axis_ids().filter(|axis| machine.size(*axis) > 1) {
            let Some(images) = images(fabric, machine, axis) else { continue };
            turns.images.insert(axis, images);
            let axes = turns.axes.union(AxisSet::one(axis));
            if turns.are_free(fabric, axes, axes.group_size(machine)) {
                turns.axes = axes;
            } else {
                turns.images.remove(&axis);
            }
        }
        turns
    }

    /// Whether each link with a route has this number of images.
    fn are_free(&self, fabric: &Fabric, axes: AxisSet, count: u64) -> bool {
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        let classes = self.classes(fabric.cables().len(), axes);
        classes.class.iter().for_each(|class| *sizes.entry(*class).or_default() += 1);
        let is_used = |link: usize| self.images.values().any(|images| images[link].is_some());
        (0..fabric.cables().len()).filter(|link| is_used(*link)).all(|link| sizes[&classes.class[link]] == count)
    }

    /// The links that represent each other under translations along some of the axes.
    pub(super) fn classes(&self, links: usize, axes: AxisSet) -> LinkClasses {
        let mut class: Vec<Option<u32>> = vec![None; links];
        let mut first = Vec::new();
        for link in 0..links {
            let number = u32::try_from(first.len()).expect("links are numbered with 32 bits");
            let mut open = vec![link];
            while let Some(link) = open.pop().filter(|link| class[*link].is_none()) {
                class[link] = Some(number);
                let images = axes.iter().filter_map(|axis| self.images.get(&axis)?[link]);
                open.extend(images.map(|image| image as usize).filter(|image| class[*image].is_none()).unique());
            }
            if class[link] == Some(number) {
                first.push(LinkId::at(link));
            }
        }
        LinkClasses { class: class.into_iter().map(|class| class.expect("each link has one")).collect(), first }
    }
}

/// The image of each link under a translation by one along an axis; `None` if routes do not go to routes.
fn images(fabric: &Fabric, machine: &Mesh, axis: AxisId) -> Option<Vec<Option<u32>>> {
    let size = machine.axis(axis).size;
    let image = |device: DeviceId| machine.with_coordinate(device, axis, (machine.coordinate(device, axis) + 1) % size);
    let moved: Vec<DeviceId> = machine.devices().map(image).collect();
    let mut images: Vec<Option<u32>> = vec![None; fabric.cables().len()];
    for (at, to) in machine.devices().flat_map(|at| machine.devices().map(move |to| (at, to))) {
        let (Some(hop), Some(other)) = (fabric.next(at, to), fabric.next(moved[at.index()], moved[to.index()])) else {
            continue;
        };
        if hop.to.map(|device| moved[device.index()]) != other.to || hop.links().count() != other.links().count() {
            return None;
        }
        for (link, other) in hop.links().zip(other.links()) {
            let [one, two] = [link, other].map(|link| fabric.cables()[link.index()]);
            let other = u32::try_from(other.index()).expect("links are numbered with 32 bits");
            let known = *images[link.index()].get_or_insert(other);
            if known != other || (one.rate, one.latency) != (two.rate, two.latency) {
                return None;
            }
        }
    }
    Some(images)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Hardware, Topology};

    fn axes(links: &str, mesh: &[(&str, u32)]) -> AxisSet {
        let shipped = Hardware::named("tpu_v5e").expect("shipped").to_toml();
        let (machine, _) = shipped.split_once("[network]").expect("a network");
        let network = "[network]\nname = \"f\"\none_way = 5e10\nhop_latency = \"1us\"\nwiring = \"fabric\"\n";
        let hardware = Hardware::from_toml(&format!("{machine}{network}{links}")).expect("a profile");
        let topology = Topology::new(Mesh::of(mesh), hardware).expect("as many devices");
        topology.mesh.axis_ids().filter(|axis| topology.turns(*axis)).collect()
    }

    fn of(places: &[usize]) -> AxisSet {
        places.iter().map(|place| AxisId::new(*place)).collect()
    }

    #[test]
    fn rings_turn_and_lines_do_not() {
        let ring = |last: &str| format!("[[network.links]]\nbetween = [[0, 1], [1, 2], [2, 3], {last}]\n");
        assert_eq!(axes(&ring("[3, 0]"), &[("X", 4)]), of(&[0]));
        assert_eq!(axes(&ring("[3, 4], [0, 4]"), &[("X", 5)]), of(&[0]));
        // Of two ways of equal length, the one that is listed first is taken: down from device 3, up from the others.
        assert_eq!(axes(&ring("[0, 3]"), &[("X", 4)]), of(&[]));
        assert_eq!(axes("[[network.links]]\nbetween = [[0, 1], [1, 2]]\n", &[("X", 3)]), of(&[]));
        let uneven =
            "[[network.links]]\nbetween = [[0, 1], [1, 2]]\n[[network.links]]\nbetween = [[2, 0]]\none_way = 4e10\n";
        assert_eq!(axes(uneven, &[("X", 3)]), of(&[]));
    }

    /// Two leaves with two devices each, and one spine: the devices of a leaf share its links to the spine.
    #[test]
    fn links_that_devices_share_have_no_images() {
        let tree = "switches = [\"a\", \"b\", \"s\"]\n[[network.links]]\n\
                    between = [[0, \"a\"], [1, \"a\"], [2, \"b\"], [3, \"b\"], [\"a\", \"s\"], [\"b\", \"s\"]]\n";
        assert_eq!(axes(tree, &[("L", 2), ("X", 2)]), of(&[0]));
        assert_eq!(axes(tree, &[("X", 4)]), of(&[]));
        let switch =
            "switches = [\"s\"]\n[[network.links]]\nbetween = [[0, \"s\"], [1, \"s\"], [2, \"s\"], [3, \"s\"]]\n";
        assert_eq!(axes(switch, &[("X", 2), ("Y", 2)]), of(&[0, 1]));
    }
}
