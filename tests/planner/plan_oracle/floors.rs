//! The minimum load of a unit of the machine, by trying all paths of every piece of an array.
//!
//! It is sufficient to consider one element of each block of the layouts. Devices that have equal coordinates on the
//! counted axes form a place. A piece crosses at least as many links between places as the smallest connected set of
//! places needs that contains all of its contributions and all places that need it.

use super::layout::{Layout, mesh_text};
use super::moves::{Family, Kind, Move};
use super::planner::Machine;
use super::price::{Model, Price, TICKS};
use super::tree::World;
use crate::common::sets;
use itertools::{Itertools, iproduct};
use shardc::costs::Unit;
use shardc::mesh::{AxisId, AxisSet};
use std::cell::RefCell;
use std::collections::HashMap;

/// A set of places, as bits.
type Set = u32;

/// The places of a mesh with respect to the counted axes.
struct Places {
    mesh: Vec<u64>,
    counted: Vec<usize>,
    /// The neighbours of each place.
    near: Vec<Set>,
    /// Cache of smallest connected sets.
    known: RefCell<HashMap<(Vec<Set>, Set), u32>>,
    /// Whether shards that move between places count by distance, or once per receiver.
    by_distance: bool,
}

fn points(sizes: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
    sizes.iter().map(|size| 0..*size).collect::<Vec<_>>().into_iter().multi_cartesian_product()
}

impl Places {
    fn new(mesh: &[u64], counted: &[usize], by_distance: bool) -> Places {
        let sizes: Vec<u64> = counted.iter().map(|axis| mesh[*axis]).collect();
        let all: Vec<Vec<u64>> = points(&sizes).collect();
        let is_near = |a: &Vec<u64>, b: &Vec<u64>| {
            let steps = a.iter().zip(b).zip(&sizes).map(|((a, b), n)| (a.abs_diff(*b)).min(n - a.abs_diff(*b)));
            steps.sum::<u64>() == 1
        };
        let near = all.iter().map(|a| bits(all.iter().map(|b| is_near(a, b)))).collect();
        Places { mesh: mesh.to_vec(), counted: counted.to_vec(), near, known: RefCell::default(), by_distance }
    }

    /// The places with a device for which `is` holds.
    fn of(&self, is: impl Fn(&[u64]) -> bool) -> Set {
        let mut set = 0;
        for device in points(&self.mesh).filter(|device| is(device)) {
            let place = self.counted.iter().fold(0, |place, axis| place * self.mesh[*axis] + device[*axis]);
            set |= 1 << place;
        }
        set
    }

    fn is_connected(&self, set: Set) -> bool {
        let mut reached = set & set.wrapping_neg();
        loop {
            let next = (0..self.near.len()).filter(|place| reached >> place & 1 == 1);
            let next = next.fold(reached, |all, place| all | self.near[place] & set);
            if next == reached {
                return reached == set;
            }
            reached = next;
        }
    }

    /// Size of the smallest connected set that contains one place of each set in `one_of`, and all of `all_of`.
    fn smallest(&self, one_of: &[Set], all_of: Set) -> u32 {
        let key = (one_of.to_vec(), all_of);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let sets = (1..1u32 << self.near.len()).filter(|set| set & all_of == all_of);
        let sets = sets.filter(|set| one_of.iter().all(|some| some & set != 0) && self.is_connected(*set));
        let least = sets.map(Set::count_ones).min().expect("all places");
        self.known.borrow_mut().insert(key, least);
        least
    }

    /// The number of links that the pieces of one element cross.
    ///
    /// - `parts`: for each required sum, the holders of each of its summands, and the places that need it.
    fn crossed(&self, kind: Kind, made_of: &[Set], wanted: Set) -> u32 {
        match kind {
            // Each place gets it from any holder: a forest rooted at the holders.
            Kind::AllGather | Kind::AllToAll | Kind::Permute => {
                let lacking = bits((0..self.near.len()).map(|place| wanted & !made_of[0] & 1 << place != 0));
                match kind {
                    _ if lacking == 0 => 0,
                    Kind::Permute if !self.by_distance => lacking.count_ones(),
                    _ => self.forest(made_of[0], lacking),
                }
            }
            Kind::ReduceScatter => {
                let one_each =
                    |place: usize| if wanted >> place & 1 == 1 { self.smallest(made_of, 1 << place) - 1 } else { 0 };
                let apart: u32 = (0..self.near.len()).map(one_each).sum();
                apart.min(self.smallest(made_of, wanted) - 1)
            }
            // Sends until the first place has the sum, and then one into each of the others.
            Kind::AllReduce if made_of.iter().all(|has| has & wanted == wanted) => 0,
            Kind::AllReduce => self.smallest(made_of, 0) - 1 + wanted.count_ones() - 1,
            Kind::Slice => 0,
        }
    }

    /// Minimum number of links that connect all places that lack something to the holders.
    fn forest(&self, has: Set, lacking: Set) -> u32 {
        let reaches = |more: Set| {
            let mut reached = has;
            loop {
                let next = (0..self.near.len()).filter(|place| reached >> place & 1 == 1);
                let next = next.fold(reached, |all, place| all | self.near[place] & more);
                if next == reached {
                    return reached & lacking == lacking;
                }
                reached = next;
            }
        };
        let sets = (1..1u32 << self.near.len()).filter(|set| set & lacking == lacking && set & has == 0);
        sets.filter(|set| reaches(*set)).map(Set::count_ones).min().expect("all places")
    }

    /// Bytes over counted links in a move of a bf16 array.
    fn load(&self, sizes: &[u64], step: &Move, from: &Layout, to: &Layout) -> u128 {
        let mesh = &self.mesh;
        let devices: u64 = mesh.iter().product();
        let tiny: Vec<u64> = sizes.iter().map(|size| devices.min(*size)).collect();
        let scale = 2 * u128::from(sizes.iter().product::<u64>() / tiny.iter().product::<u64>());
        let holds = |layout: &Layout, device: &[u64], element: &[u64]| {
            let rank = |axes: &[usize]| axes.iter().fold(0, |rank, axis| rank * mesh[*axis] + device[*axis]);
            let pieces = layout.pieces(mesh);
            (0..tiny.len()).all(|dim| element[dim] / (tiny[dim] / pieces[dim]) == rank(&layout.dims[dim]))
        };
        let sums = |open: &[usize]| {
            let sizes: Vec<u64> =
                (0..mesh.len()).map(|axis| if open.contains(&axis) { mesh[axis] } else { 1 }).collect();
            points(&sizes).collect::<Vec<_>>()
        };
        let is_of = |open: &[usize], device: &[u64], sum: &[u64]| open.iter().all(|axis| device[*axis] == sum[*axis]);
        let closed: Vec<usize> = from.open.iter().copied().filter(|axis| !to.open.contains(axis)).collect();
        let mut links = 0;
        for (element, sum) in iproduct!(points(&tiny), sums(&to.open)) {
            let wanted = self.of(|device| holds(to, device, &element) && is_of(&to.open, device, &sum));
            let has = |part: &Vec<u64>| {
                self.of(|device| {
                    holds(from, device, &element) && is_of(&to.open, device, &sum) && is_of(&closed, device, part)
                })
            };
            let made_of: Vec<Set> = sums(&closed).iter().map(has).unique().collect();
            links += u128::from(self.crossed(step.kind, &made_of, wanted));
        }
        links * scale
    }
}

fn bits(all: impl Iterator<Item = bool>) -> Set {
    all.enumerate().fold(0, |set, (place, is)| set | u32::from(is) << place)
}

fn source(mesh: &[u64], sizes: [u64; 3], [a, b, c]: [&Layout; 3]) -> String {
    let [i, j, k] = sizes;
    let (a, b, c) = (a.text(&["I", "J"]), b.text(&["J", "K"]), c.text(&["I", "K"]));
    format!("{}\ndims {{I: {i}, J: {j}, K: {k}}}\nA: bf16{a}\nB: bf16{b}\nC{c} = A * B\n", mesh_text(mesh))
}

/// Compares the library's minimum load with the true one for all layouts of a product. Returns the number of
/// programs, of equal loads, and of nonzero loads.
fn compare(
    mesh: &[u64],
    sizes: [u64; 3],
    counted: Option<&[usize]>,
    by_distance: bool,
    each: usize,
) -> (usize, usize, usize) {
    let machine = Machine::new(&mesh_text(mesh));
    let planner = machine.planner(Model::Book);
    let family = Family::Written;
    let (world, unit) = match counted {
        None => {
            let of_product = |flops| Model::Book.of_product(flops);
            let free = |_: &[u64], _: &Move, _: &Layout, _: &Layout| Price::default();
            let engine = shardc::topology::Engines::default().ids().next().expect("an engine");
            (World::priced(&sizes, mesh, Box::new(free), Box::new(of_product), family), Unit::Engine(engine))
        }
        Some(counted) => {
            let places = Places::new(mesh, counted, by_distance);
            let devices: u64 = mesh.iter().product();
            // In the book, a ring of two has two cables.
            let capacity = u128::from(2 * devices * counted.len() as u64) * 45_000_000_000;
            let of_move = move |sizes: &[u64], step: &Move, from: &Layout, to: &Layout| {
                let bytes = places.load(sizes, step, from, to);
                assert_eq!(bytes * TICKS % capacity, 0, "whole ticks");
                Price(bytes * TICKS / capacity, 0)
            };
            let along: AxisSet = counted.iter().map(|axis| AxisId::new(*axis)).collect();
            (World::priced(&sizes, mesh, Box::new(of_move), Box::new(|_| Price::default()), family), Unit::Links(along))
        }
    };
    let (mut count, mut equal, mut some) = (0, 0, 0);
    let layouts = || Layout::closed(2, mesh.len());
    for (a, b) in iproduct!(layouts(), layouts()).step_by(each) {
        let made = world.product(&world.input(&[0, 1], &a), &world.input(&[1, 2], &b), &[0, 2]);
        for c in layouts() {
            let least = made.price(&c).expect("a way").0;
            let source = source(mesh, sizes, [&a, &b, &c]);
            let said = planner.least_load(&source, unit);
            assert!(said <= least, "{unit:?}: {said} > {least}\n{source}");
            count += 1;
            equal += usize::from(said == least);
            some += usize::from(least > 0);
        }
    }
    (count, equal, some)
}

/// On one axis, the library's load is exact for all 27 layouts.
#[test]
fn the_least_load_on_one_axis() {
    for (axis, sizes) in iproduct!([2, 4, 8], [[64, 128, 256], [4096, 64, 8192], [512, 8192, 4096]]) {
        let (count, equal, some) = compare(&[axis], sizes, Some(&[0]), true, 1);
        assert_eq!((count, equal), (27, 27), "{axis} {sizes:?}");
        assert!(some >= 6, "{axis} {sizes:?}: {some}");
        assert_eq!(compare(&[axis], sizes, None, true, 1), (27, 27, 27));
    }
}

/// On two axes it never exceeds the true load; the same if the distance of moving shards is not counted.
#[test]
fn the_least_load_on_two_axes() {
    let each = if sets::are_full() { 1 } else { 5 };
    for (mesh, sizes) in [([2, 2], [1024, 4096, 2048]), ([4, 2], [1024, 4096, 512])] {
        for counted in [vec![0], vec![1], vec![0, 1]] {
            let (count, equal, some) = compare(&mesh, sizes, Some(&counted), true, each);
            assert!(2 * equal >= count && 5 * some >= count, "{mesh:?} {counted:?}: {equal} {some} {count}");
            let (count, equal, _) = compare(&mesh, sizes, Some(&counted), false, each);
            assert_eq!(equal, count, "{mesh:?} {counted:?}");
        }
        let (count, equal, some) = compare(&mesh, sizes, None, true, each);
        assert_eq!((equal, some), (count, count));
    }
}
