//! Checks the moves again, device by device: the data that each lacks, and the members of its group that have it.

use super::layout::Layout;
use super::moves::{Family, Kind, Move, moves};
use super::price::{Model, Price};
use itertools::{Itertools, iproduct};
use std::collections::BTreeSet;

/// Coordinates of a device, or of a summand of an open sum, where the coordinate of closed axes is 0.
type Point = Vec<u64>;
/// An element and one of its summands.
type Piece = (Vec<u64>, Point);

fn points(sizes: &[u64]) -> impl Iterator<Item = Point> + use<> {
    sizes.iter().map(|size| 0..*size).collect::<Vec<_>>().into_iter().multi_cartesian_product()
}

/// The pieces of an array, initially open over `summed`, that a device holds in a layout.
fn held(layout: &Layout, summed: &[usize], device: &Point, sizes: &[u64], mesh: &[u64]) -> BTreeSet<Piece> {
    let rank = |axes: &[usize]| axes.iter().fold(0, |rank, axis| rank * mesh[*axis] + device[*axis]);
    let in_block = |element: &Vec<u64>| {
        let pieces = layout.pieces(mesh);
        (0..sizes.len()).all(|dim| element[dim] / (sizes[dim] / pieces[dim]) == rank(&layout.dims[dim]))
    };
    let summands: Vec<u64> = (0..mesh.len()).map(|axis| if summed.contains(&axis) { mesh[axis] } else { 1 }).collect();
    let own = |summand: &Point| layout.open.iter().all(|axis| summand[*axis] == device[*axis]);
    let elements = points(sizes).filter(in_block);
    elements.flat_map(|element| points(&summands).filter(own).map(move |summand| (element.clone(), summand))).collect()
}

/// Bytes that the busiest device must receive in a move without additions along the way.
fn received(step: &Move, from: &Layout, to: &Layout, sizes: &[u64], mesh: &[u64]) -> usize {
    let devices: Vec<Point> = points(mesh).collect();
    let holds = |layout: &Layout, device: &Point| held(layout, &from.open, device, sizes, mesh);
    let before: Vec<BTreeSet<Piece>> = devices.iter().map(|device| holds(from, device)).collect();
    let mut most = 0;
    for (device, had) in devices.iter().zip(&before) {
        let lacks: BTreeSet<Piece> = holds(to, device).difference(had).cloned().collect();
        most = most.max(lacks.len());
        let in_group =
            |other: &Point| (0..mesh.len()).all(|axis| step.axes.contains(&axis) || other[axis] == device[axis]);
        let others = devices.iter().zip(&before).filter(|(other, _)| in_group(other) && *other != device);
        let offers: Vec<BTreeSet<&Piece>> = others.map(|(_, has)| lacks.intersection(has).collect()).collect();
        let all: BTreeSet<&Piece> = offers.iter().flatten().copied().collect();
        assert_eq!(all.len(), lacks.len(), "{step:?} {from:?} {to:?}: the group has it all");
        if matches!(step.kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
            // Every member of the group sends the same share, which no other member has.
            assert!(offers.iter().all(|offer| offer.len() * offers.len() == lacks.len()), "{step:?} {from:?} {to:?}");
        }
    }
    most
}

#[test]
fn every_move_is_one_exchange_in_its_group_and_brings_what_it_is_priced_by() {
    let mut counts = [0; 2];
    for (mesh, sizes) in [(vec![2, 2, 2], vec![8, 8]), (vec![4, 2], vec![8, 8]), (vec![2, 2], vec![4, 4, 4])] {
        let layouts = Layout::all(sizes.len(), mesh.len());
        for (from, to) in iproduct!(&layouts, &layouts) {
            let written = moves(from, to, &mesh, Family::Written);
            for step in moves(from, to, &mesh, Family::All) {
                counts[usize::from(written.contains(&step))] += 1;
                let local = 2 * from.elements(&sizes, &mesh);
                let Price(priced, _) = Model::Bytes.of_move(&step, local, &mesh);
                let bytes = 2 * received(&step, from, to, &sizes, &mesh) as u128;
                match step.kind {
                    Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Permute | Kind::Slice => {
                        assert_eq!(priced, bytes, "{step:?} {from:?} {to:?}");
                    }
                    // Additions along the way save traffic: each part is reduced once and gathered.
                    Kind::AllReduce => {
                        let n: u64 = step.axes.iter().map(|axis| mesh[*axis]).product();
                        assert_eq!(bytes, u128::from(local * (n - 1)));
                        assert_eq!(priced, u128::from(2 * local / n * (n - 1)));
                    }
                }
            }
        }
    }
    assert_eq!(counts, [24, 1549], "moves that cannot be written, and those that can");
}
