//! Meshes that no slice of a machine has the links for.
//!
//! A slice is a grid of chips with links along [`Network::torus`](super::Network::torus) sides. The axes of a mesh need not
//! be the sides: a ring of 8 is also a cycle through a grid of 2x4. A mesh is reported only if its links are not among those
//! of any slice; a profile without `torus` reports none.
//!
//! The reasons, for sides that are even if they wrap around:
//!
//! - Such a grid is bipartite, so it has no odd cycle.
//! - A chip has two links along each side, so a device has at most twice as many neighbours as there are sides.
//! - Without wraparound a corner has one link along each side, so some device has at most as many neighbours as sides.
//! - In a grid of two sides without sides of 4 that wrap around, each cycle of 4 links is a unit square. Beside another axis, the
//!   links along an axis and their neighbours are such squares, so the axis cannot turn: it is a row of the grid, and a third
//!   axis has no links.
//!
//! The third reason assumes that the mesh is the whole slice, which wraps around only if it consists of whole cubes.

use super::{Topology, WiringRule};
use crate::mesh::{AxisId, Wiring};

/// A part of a mesh that no slice has links for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlinked {
    /// A ring of an odd number of devices.
    Odd(AxisId),
    /// A ring beside other axes, which would need a wraparound.
    Wraparound(AxisId),
    /// All axes together: there are more than the slice has sides.
    Axes,
}

impl Topology {
    /// Parts of the mesh, on the first network of the machine, that no slice has links for.
    pub fn unlinked(&self) -> Vec<Unlinked> {
        let network = &self.hardware.network;
        let Some(sides) = network.torus else { return Vec::new() };
        let on_it = |axis: &AxisId| self.axes[axis.index()].network == 0 && self.machine.size(*axis) > 1;
        let axes: Vec<AxisId> = self.machine.axis_ids().filter(on_it).collect();
        let wiring = |axis: AxisId| self.axes[axis.index()].wiring;
        // A switch or a full mesh is another machine, which is meant.
        if axes.iter().any(|axis| wiring(*axis).is_one_hop()) {
            return Vec::new();
        }
        let size = |axis: AxisId| self.machine.size(axis);
        let rings = || axes.iter().copied().filter(|axis| wiring(*axis) == Wiring::Ring);
        let odd: Vec<Unlinked> = rings().filter(|axis| size(*axis) % 2 == 1).map(Unlinked::Odd).collect();
        let sides = u64::from(sides.get());
        let least: u64 = axes.iter().map(|axis| wiring(*axis).fewest_links(size(*axis))).sum();
        let most: u64 = axes.iter().map(|axis| wiring(*axis).most_links(size(*axis))).sum();
        let devices = self.machine.group_size(axes.iter().copied());
        let is_flat = |axis: AxisId, side: u32| size(axis) != u64::from(side);
        match network.wiring {
            WiringRule::RingOfSize(side) if side % 2 == 0 && side > 4 && sides == 2 => match axes.len() {
                0 | 1 => odd,
                2 => rings().filter(|axis| is_flat(*axis, side)).map(Unlinked::Wraparound).collect(),
                _ => vec![Unlinked::Axes],
            },
            WiringRule::RingsOfMultiple(side) if side % 2 == 0 => {
                let side = u64::from(side);
                let is_whole = axes.iter().all(|axis| size(*axis).is_multiple_of(side))
                    || u32::try_from(sides)
                        .ok()
                        .and_then(|sides| side.checked_pow(sides))
                        .is_some_and(|cube| devices.is_multiple_of(cube));
                match () {
                    () if most > 2 * sides => vec![Unlinked::Axes],
                    () if !odd.is_empty() => odd,
                    () if least <= sides || is_whole => Vec::new(),
                    () if rings().next().is_none() => vec![Unlinked::Axes],
                    () => rings().map(Unlinked::Wraparound).collect(),
                }
            }
            WiringRule::Always(_) | WiringRule::RingOfSize(_) | WiringRule::RingsOfMultiple(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{Axis, Mesh};
    use crate::topology::Hardware;

    type Graph = Vec<Vec<usize>>;

    /// The product of lines and rings; `true` for a ring.
    fn product(axes: &[(usize, bool)]) -> Graph {
        let count: usize = axes.iter().map(|(size, _)| size).product();
        let mut graph = vec![Vec::new(); count];
        for from in 0..count {
            let mut stride = 1;
            for (size, is_ring) in axes {
                let at = from / stride % size;
                if at + 1 < *size || *is_ring && *size > 2 {
                    let to = from - at * stride + (at + 1) % size * stride;
                    graph[from].push(to);
                    graph[to].push(from);
                }
                stride *= size;
            }
        }
        graph
    }

    /// Whether the devices can be placed on different chips so that neighbours are linked, the first on one of `starts`.
    fn fits(mesh: &Graph, grid: &Graph, starts: usize) -> bool {
        fn place(mesh: &Graph, grid: &Graph, at: &mut Vec<usize>, used: &mut [bool]) -> bool {
            let device = at.len();
            if device == mesh.len() {
                return true;
            }
            // A device after the first has a neighbour with a lower number.
            let before: Vec<usize> = mesh[device].iter().copied().filter(|other| *other < device).collect();
            for &chip in &grid[at[before[0]]] {
                if !used[chip] && before.iter().all(|other| grid[at[*other]].contains(&chip)) {
                    used[chip] = true;
                    at.push(chip);
                    if place(mesh, grid, at, used) {
                        return true;
                    }
                    at.pop();
                    used[chip] = false;
                }
            }
            false
        }
        (0..starts).any(|start| {
            let mut used = vec![false; grid.len()];
            used[start] = true;
            place(mesh, grid, &mut vec![start], &mut used)
        })
    }

    /// All meshes of at most three axes and of four axes of 2, with at most `most` devices.
    fn meshes(most: usize, longest: usize) -> Vec<Vec<(usize, bool)>> {
        let axes =
            || (2..=longest).flat_map(|size| [(size, false), (size, true)]).filter(|(size, ring)| *size > 2 || !ring);
        let mut found = vec![vec![(2, false); 4]];
        for first in axes() {
            found.push(vec![first]);
            for second in axes() {
                found.push(vec![first, second]);
                found.extend(axes().map(|third| vec![first, second, third]));
            }
        }
        let count = |mesh: &[(usize, bool)]| mesh.iter().map(|(size, _)| size).product::<usize>();
        found.retain(|mesh| count(mesh) <= most && mesh.is_sorted());
        found
    }

    fn unlinked(wiring: WiringRule, sides: u32, axes: &[(usize, bool)]) -> Vec<Unlinked> {
        let mut hardware = Hardware::named("tpu_v5e").expect("shipped");
        hardware.network.wiring = wiring;
        hardware.network.torus = std::num::NonZeroU32::new(sides);
        let axis = |(name, (size, ring)): (&str, &(usize, bool))| Axis {
            name: name.to_owned(),
            size: u32::try_from(*size).expect("small"),
            wiring: Some(if *ring { Wiring::Ring } else { Wiring::Line }),
            over: None,
        };
        let mesh = Mesh::new(["W", "X", "Y", "Z"].into_iter().zip(axes).map(axis).collect()).expect("a mesh");
        Topology::new(mesh, hardware).expect("a machine").unlinked()
    }

    /// A pod of 6x6 whose full sides wrap around, in place of 16x16: a mesh is reported if and only if it is in no part of it.
    #[test]
    fn of_two_sides_what_is_reported_is_what_no_slice_has() {
        let pod = product(&[(6, true), (6, true)]);
        for axes in meshes(18, 6) {
            let found = unlinked(WiringRule::RingOfSize(6), 2, &axes);
            assert_eq!(found.is_empty(), fits(&product(&axes), &pod, 1), "{axes:?}: {found:?}");
        }
    }

    /// Of cubes of 4, slices below a cube have no wraparound; a mesh of multiples of 4 may be a part of a larger slice.
    #[test]
    fn of_three_sides_what_is_reported_is_what_no_slice_has() {
        for axes in meshes(18, 9) {
            let count: usize = axes.iter().map(|(size, _)| size).product();
            let found = unlinked(WiringRule::RingsOfMultiple(4), 3, &axes);
            let divisors = |of: usize| (1..=of).filter(move |side| of.is_multiple_of(*side));
            let slices = divisors(count).flat_map(|first| divisors(count / first).map(move |second| (first, second)));
            let fits = slices.filter(|(first, second)| first <= second).any(|(first, second)| {
                let slice = product(&[(first, false), (second, false), (count / first / second, false)]);
                fits(&product(&axes), &slice, count)
            });
            let is_plane = axes.iter().all(|(size, _)| size % 4 == 0);
            assert!(found.is_empty() == fits || is_plane && found.is_empty(), "{axes:?}: {found:?}, {fits}");
        }
    }

    /// The machines of the book: the rule of each, and meshes that look like mistakes but are none.
    #[test]
    fn of_the_book_s_machines() {
        let on = |name: &str, axes: &[(&str, u32, Option<Wiring>)]| {
            let axis = |(name, size, wiring): &(&str, u32, Option<Wiring>)| Axis {
                name: (*name).to_owned(),
                size: *size,
                wiring: *wiring,
                over: name.starts_with('D').then(|| "dcn".to_owned()),
            };
            let mesh = Mesh::new(axes.iter().map(axis).collect()).expect("a mesh");
            let hardware = Hardware::named(name).expect("shipped");
            Topology::new(mesh, hardware).expect("a machine").unlinked()
        };
        let ring = Some(Wiring::Ring);
        let [x, y] = [0, 1].map(AxisId::new);
        for name in ["tpu_v5e", "tpu_v6e"] {
            // 8x16: only the side of 16 wraps around.
            assert_eq!(on(name, &[("X", 8, ring), ("Y", 16, ring)]), [Unlinked::Wraparound(x)]);
            assert_eq!(on(name, &[("X", 8, None), ("Y", 4, ring)]), [Unlinked::Wraparound(y)]);
            assert_eq!(on(name, &[("X", 2, None), ("Y", 2, None), ("Z", 2, None)]), [Unlinked::Axes]);
            for axes in [
                [("X", 8, None), ("Y", 16, ring), ("Z", 1, None)],
                [("X", 8, None), ("Y", 4, None), ("D", 2, None)],
                [("X", 8, ring), ("Y", 1, None), ("D", 2, None)],
                [("X", 8, ring), ("Y", 4, None), ("Z", 2, Some(Wiring::Switch))],
                [("X", 2, ring), ("Y", 2, ring), ("Z", 1, None)],
            ] {
                assert_eq!(on(name, &axes), [], "{axes:?}");
            }
        }
        for name in ["tpu_v4p", "tpu_v5p"] {
            let flat = [("X", 4, ring), ("Y", 4, ring), ("Z", 2, None)];
            assert_eq!(on(name, &flat), [Unlinked::Wraparound(x), Unlinked::Wraparound(y)]);
            assert_eq!(on(name, &[("X", 3, ring), ("Y", 4, None)]), [Unlinked::Odd(x)]);
            assert_eq!(on(name, &[("W", 4, None), ("X", 4, None), ("Y", 4, None), ("Z", 4, None)]), [Unlinked::Axes]);
            for axes in [
                [("X", 4, ring), ("Y", 2, ring), ("Z", 1, None)],
                [("X", 8, ring), ("Y", 3, None), ("Z", 1, None)],
                [("X", 4, ring), ("Y", 4, ring), ("Z", 1, None)],
                [("X", 8, ring), ("Y", 4, None), ("Z", 2, None)],
                [("X", 16, ring), ("Y", 20, ring), ("Z", 28, ring)],
            ] {
                assert_eq!(on(name, &axes), [], "{axes:?}");
            }
        }
        for name in ["tpu_v3", "tpu7x", "h100"] {
            assert_eq!(on(name, &[("X", 8, ring), ("Y", 4, ring), ("Z", 3, ring)]), [], "{name}: no rule");
        }
    }
}
