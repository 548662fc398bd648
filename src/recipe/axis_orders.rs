//! Shares of the axis orders of a collective over several axes, minimising the load of the busiest link.
//!
//! Each part of the array gathers the axes in one order. A stage over an axis of n devices sends n - 1 blocks to each
//! device, and a block contains everything that earlier stages have gathered. The shares are the optimum of a small
//! linear program, found exactly by enumerating its corners.

use super::idle;
use crate::mesh::{Axes, Wiring};
use crate::schedule::methods::AxisOrder;
use crate::topology::Topology;
use crate::units::{Rate, gcd};
use itertools::Itertools;

/// With more axes only the rotations of their order are tried.
const MOST_AXES_PERMUTED: usize = 3;

/// The axis orders with their shares, for a gather over these axes.
pub(super) fn axis_orders(topology: &Topology, axes: &[Axes]) -> Vec<AxisOrder> {
    let orders: Vec<Vec<usize>> = if axes.len() <= MOST_AXES_PERMUTED {
        (0..axes.len()).permutations(axes.len()).collect()
    } else {
        turns(axes.len()).into_iter().map(|axis_order| axis_order.order).collect()
    };
    let loads: Vec<Vec<i128>> = orders.iter().map(|order| loads(topology, axes, order)).collect();
    let shares = least(&loads, &orders, axes.len()).unwrap_or_default();
    let axis_order = |(axis_order, weight): (usize, u64)| AxisOrder { order: orders[axis_order].clone(), weight };
    shares.into_iter().map(axis_order).collect()
}

/// Equal shares of the rotations: for an exchange, whose load along an axis is the same in any order.
pub(super) fn turns(axes: usize) -> Vec<AxisOrder> {
    let order = |first: usize| (0..axes).map(|step| (first + step) % axes).collect();
    (0..axes).map(|first| AxisOrder { order: order(first), weight: 1 }).collect()
}

/// Busy time of the busiest link of each axis if everything goes in this order, up to a common factor.
fn loads(topology: &Topology, axes: &[Axes], order: &[usize]) -> Vec<i128> {
    let mut loads = vec![0; axes.len()];
    let mut block = 1;
    for stage in order {
        let (links, n) = (topology.links(axes[*stage]), i128::from(axes[*stage].group_size(&topology.mesh)));
        // Half blocks: on a ring, both directions share the blocks. At the end of a line, and at a switch port, all blocks
        // use one direction. In a full mesh each has its own link.
        let halves = match links.wiring {
            Wiring::Ring => n - 1,
            Wiring::Line | Wiring::Switch | Wiring::Fabric => 2 * (n - 1),
            Wiring::Full => 2,
        };
        // Interleaved groups share their links.
        let groups = i128::from(links.apart);
        // The axes of a fabric share links of different rates.
        let of_fabric = topology.fabric().and_then(|_| Rate::new(idle::into(topology, axes[*stage])));
        loads[*stage] = halves * block * groups * ticks(topology, of_fabric.unwrap_or(links.one_way));
        block *= n;
    }
    loads
}

/// Time of a byte, relative to the fastest axis if that divides.
fn ticks(topology: &Topology, rate: Rate) -> i128 {
    let ticks = |rate| i128::try_from(topology.scale.at_rate(1, rate).ticks()).unwrap_or(i128::MAX);
    let common = topology.axes.iter().map(|links| ticks(links.one_way)).reduce(gcd).unwrap_or(1);
    ticks(rate) / common.max(1)
}

/// The corner with the lowest load of the busiest axis: axis orders with weights, as few as possible. Of those with equal loads,
/// the one that sends the least, and then the one whose orders use different axes at the same time.
fn least(loads: &[Vec<i128>], orders: &[Vec<usize>], axes: usize) -> Option<Vec<(usize, u64)>> {
    let mut best: Option<Corner> = None;
    for count in 1..=axes {
        for axis_orders in (0..loads.len()).combinations(count) {
            for tight in (0..axes).combinations(count) {
                let Some(corner) = Corner::new(loads, &axis_orders, &tight, axes) else { continue };
                if best.as_ref().is_none_or(|best| corner.is_better_than(best, orders)) {
                    best = Some(corner);
                }
            }
        }
    }
    best.map(|corner| corner.weights)
}

/// A corner of the linear program: shares with equal loads on some axes and no higher loads on the others.
struct Corner {
    weights: Vec<(usize, u64)>,
    /// The load, multiplied by `scale`.
    load: i128,
    /// The sum of the loads of all axes, multiplied by `scale`.
    total: i128,
    scale: i128,
}

impl Corner {
    /// `None` if there is no such corner, or its numbers overflow.
    fn new(loads: &[Vec<i128>], axis_orders: &[usize], tight: &[usize], axes: usize) -> Option<Corner> {
        // The unknowns are the shares and the load: equal loads on the tight axes, and shares that sum to 1.
        let mut matrix: Vec<Vec<i128>> = Vec::new();
        for axis in tight {
            let shares = axis_orders.iter().map(|axis_order| loads[*axis_order][*axis]);
            matrix.push(shares.chain([-1]).collect());
        }
        matrix.push(axis_orders.iter().map(|_| 1).chain([0]).collect());
        let scale = determinant(&matrix)?;
        // Cramer's rule: the right-hand side is 1 in the last row and 0 elsewhere.
        let unknown = |column: usize| -> Option<i128> {
            let mut replaced = matrix.clone();
            let last = replaced.len() - 1;
            replaced.iter_mut().enumerate().for_each(|(row, entries)| entries[column] = i128::from(row == last));
            Some(determinant(&replaced)? * scale.signum())
        };
        let shares = (0..axis_orders.len()).map(unknown).collect::<Option<Vec<i128>>>()?;
        let (load, scale) = (unknown(axis_orders.len())?, scale.abs());
        let within = |axis: usize| {
            let sum = axis_orders.iter().zip(&shares).try_fold(0i128, |sum, (axis_order, share)| {
                share.checked_mul(loads[*axis_order][axis]).and_then(|part| sum.checked_add(part))
            });
            sum.is_some_and(|sum| sum <= load)
        };
        if scale == 0 || shares.iter().any(|share| *share < 0) || !(0..axes).all(within) {
            return None;
        }
        let common = shares.iter().map(|share| share.abs()).fold(0, gcd).max(1);
        let weights = axis_orders
            .iter()
            .zip(&shares)
            .map(|(axis_order, share)| Some((*axis_order, (share / common).try_into().ok()?)));
        let weights = weights.collect::<Option<Vec<(usize, u64)>>>()?.into_iter().filter(|(_, weight)| *weight > 0);
        let total = axis_orders.iter().zip(&shares).try_fold(0i128, |sum, (axis_order, share)| {
            share.checked_mul(loads[*axis_order].iter().sum()).and_then(|part| sum.checked_add(part))
        })?;
        let common = gcd(gcd(load.abs(), total.abs()), scale.abs());
        Some(Corner { weights: weights.collect(), load: load / common, total: total / common, scale: scale / common })
    }

    /// Number of pairs of its axis orders that use the same axis in the same step.
    fn meetings(&self, orders: &[Vec<usize>]) -> usize {
        let meet = |one: usize, other: usize| {
            orders[one].iter().zip(&orders[other]).filter(|(one, other)| one == other).count()
        };
        let pairs = self.weights.iter().array_combinations();
        pairs.map(|[(one, _), (other, _)]| meet(*one, *other)).sum()
    }

    /// Whether it has a lower load, or an equal one with less in total or fewer [meetings](Corner::meetings); `false` if
    /// that does not fit in 128 bits.
    fn is_better_than(&self, other: &Corner, orders: &[Vec<usize>]) -> bool {
        let scaled = |own: i128, scale: i128| own.checked_mul(scale);
        let (Some(load), Some(other_load)) = (scaled(self.load, other.scale), scaled(other.load, self.scale)) else {
            return false;
        };
        let totals = (scaled(self.total, other.scale), scaled(other.total, self.scale));
        let (Some(total), Some(other_total)) = totals else { return load < other_load };
        // More orders would be more messages.
        let is_shorter = self.weights.len() <= other.weights.len();
        let key = (load, total, self.meetings(orders));
        let other_key = (other_load, other_total, other.meetings(orders));
        load < other_load || is_shorter && key < other_key
    }
}

/// `None` if the result exceeds 128 bits.
fn determinant(matrix: &[Vec<i128>]) -> Option<i128> {
    // Bareiss algorithm: all divisions are exact, so no fractions appear.
    let mut rows = matrix.to_vec();
    let (mut sign, mut previous) = (1, 1);
    for step in 0..rows.len() {
        let Some(pivot) = (step..rows.len()).find(|row| rows[*row][step] != 0) else { return Some(0) };
        if pivot != step {
            rows.swap(pivot, step);
            sign = -sign;
        }
        for row in step + 1..rows.len() {
            for column in step + 1..rows.len() {
                let kept = rows[row][column].checked_mul(rows[step][step])?;
                let taken = rows[row][step].checked_mul(rows[step][column])?;
                rows[row][column] = kept.checked_sub(taken)? / previous;
            }
        }
        previous = rows[step][step];
    }
    Some(sign * previous)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::topology;

    fn weights(sizes: &[u32], wiring: Wiring) -> Vec<(Vec<usize>, u64)> {
        let axes: Vec<(&str, u32)> = ["X", "Y", "Z", "U"].into_iter().zip(sizes.iter().copied()).collect();
        let topology = topology("tpu_v5p", &axes, Some(wiring));
        let ids: Vec<Axes> = topology.mesh.axis_ids().map(Axes::one).collect();
        axis_orders(&topology, &ids).into_iter().map(|axis_order| (axis_order.order, axis_order.weight)).collect()
    }

    /// The share that gathers X last is (XY - 2X + 1) / 2(X - 1)(Y - 1) on rings.
    #[test]
    fn two_rings() {
        for (x, y) in (3..9u32).cartesian_product(3..9u32) {
            let found = weights(&[x, y], Wiring::Ring);
            let last = u64::from(x * y - 2 * x + 1);
            let all = 2 * u64::from((x - 1) * (y - 1));
            let share = |order: [usize; 2]| found.iter().find(|(found, _)| *found == order).map_or(0, |(_, w)| *w);
            let sum: u64 = found.iter().map(|(_, weight)| weight).sum();
            assert_eq!((share([1, 0]) * all, share([0, 1]) * all), (last * sum, (all - last) * sum), "{x}x{y}");
        }
        assert_eq!(weights(&[4, 8], Wiring::Ring), [(vec![0, 1], 17), (vec![1, 0], 25)]);
        assert_eq!(weights(&[3, 5], Wiring::Ring), [(vec![0, 1], 3), (vec![1, 0], 5)]);
    }

    /// An axis of two is one cable: of 2 x 8, four sevenths gather over it last.
    #[test]
    fn one_cable() {
        assert_eq!(weights(&[2, 8], Wiring::Ring), [(vec![0, 1], 3), (vec![1, 0], 4)]);
    }

    /// The loads of all axes are equal, and their sum is all that arrives: (N - 1) / 2k.
    #[test]
    fn all_links_of_a_torus_are_equally_busy() {
        for sizes in [vec![16, 20, 28], vec![4, 4, 4], vec![3, 5, 7], vec![3, 4, 5, 6]] {
            let axes: Vec<(&str, u32)> = ["X", "Y", "Z", "U"].into_iter().zip(sizes.iter().copied()).collect();
            let topology = topology("tpu_v5p", &axes, Some(Wiring::Ring));
            let ids: Vec<Axes> = topology.mesh.axis_ids().map(Axes::one).collect();
            let found = axis_orders(&topology, &ids);
            let total: i128 = found.iter().map(|axis_order| i128::from(axis_order.weight)).sum();
            let devices: i128 = sizes.iter().map(|size| i128::from(*size)).product();
            for axis in 0..sizes.len() {
                let load: i128 = found
                    .iter()
                    .map(|axis_order| i128::from(axis_order.weight) * loads(&topology, &ids, &axis_order.order)[axis])
                    .sum();
                assert_eq!(load * sizes.len() as i128, (devices - 1) * total, "{sizes:?}");
            }
        }
    }

    /// Of the orders with equal loads those are taken whose parts never use the same axis in the same step.
    #[test]
    fn parts_of_a_torus_begin_along_different_axes() {
        let orders = weights(&[4, 4, 4], Wiring::Ring);
        for step in 0..3 {
            assert!(orders.iter().map(|(order, _)| order[step]).all_unique(), "{orders:?}");
        }
        assert_eq!(orders.len(), 3);
    }

    #[test]
    fn determinants() {
        assert_eq!(determinant(&[vec![0, 2], vec![3, 4]]), Some(-6));
        assert_eq!(determinant(&[vec![2, 0, 1], vec![1, 3, 2], vec![1, 1, 1]]), Some(0));
        assert_eq!(determinant(&[vec![2, 0, 1], vec![1, 3, 2], vec![1, 1, 2]]), Some(6));
    }
}
