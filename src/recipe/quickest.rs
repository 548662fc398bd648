//! Axis orders of a gather over several axes whose parts are short messages: by their latencies, too.
//!
//! [`axis_orders`](super::axis_orders) balances the load of all links, which is best for long messages in many chunks. In few
//! chunks a part waits in each step for its slowest axis, so other orders and shares may be faster. All sets of up to three
//! orders are tried with shares on a grid, on a simplified clock: an axis serves one part at a time.

use crate::mesh::{Axes, Wiring};
use crate::schedule::methods::AxisOrder;
use crate::topology::{HopRule, Topology};
use crate::units::Time;
use itertools::Itertools;

/// Shares are multiples of one in this number.
const GRID: u64 = 8;

/// Numbers of chunks that are tried.
const CHUNKS: [u64; 2] = [1, 2];

/// Most axes: their orders are tried all.
const MOST_AXES: usize = 3;

/// Long messages take at least this number of times their latencies; then the load of links alone counts.
const LONG: u64 = 64;

/// An axis order with its share.
type Part<'a> = (&'a [usize], u64);

/// Least relative saving on the simplified clock that is worth a trial.
const LEAST_SAVING: u128 = 50;

/// The axis orders with the least time for a gather of shards of this size, by the simplified clock.
///
/// `None` for long messages and for more axes, and if these orders take no less time there.
///
/// - `balanced`: the orders that balance the load of all links.
pub(super) fn quickest(
    topology: &Topology,
    axes: &[Axes],
    bytes: u64,
    balanced: &[AxisOrder],
) -> Option<Vec<AxisOrder>> {
    if axes.len() > MOST_AXES {
        return None;
    }
    let stages: Vec<Stage> = axes.iter().map(|run| Stage::new(topology, *run)).collect();
    let hops: Time = axes.iter().map(|run| topology.links(*run).reach(run.group_size(&topology.mesh), None)).sum();
    let whole = stages.iter().fold(u128::from(bytes), |bytes, stage| bytes.saturating_mul(stage.devices));
    let fastest = axes.iter().map(|run| topology.links(*run).one_way).max()?;
    if topology.scale.at_rate(whole, fastest) > hops * LONG {
        return None;
    }
    let time = |parts: &[Part<'_>]| CHUNKS.into_iter().map(|chunks| time(&stages, parts, bytes, chunks)).min();
    let known: Vec<Part<'_>> = balanced.iter().map(|part| (&part.order[..], part.weight)).collect();
    let known = time(&known)?;
    let orders: Vec<Vec<usize>> = (0..axes.len()).permutations(axes.len()).collect();
    let mut best: Option<(u128, Vec<Part<'_>>)> = None;
    for count in 1..=axes.len() {
        for (shares, chosen) in shares(count).iter().cartesian_product(orders.iter().combinations(count)) {
            let parts: Vec<Part<'_>> = chosen.iter().zip(shares).map(|(order, weight)| (&order[..], *weight)).collect();
            let time = time(&parts)?;
            if best.as_ref().is_none_or(|(least, _)| time < *least) {
                best = Some((time, parts));
            }
        }
    }
    let (_, parts) = best.filter(|(least, _)| known - known / LEAST_SAVING > *least)?;
    Some(parts.into_iter().map(|(order, weight)| AxisOrder { order: order.to_vec(), weight }).collect())
}

/// The ways to divide the grid into this number of shares.
fn shares(count: usize) -> Vec<Vec<u64>> {
    let all = (0..count).map(|_| 1..=GRID).multi_cartesian_product();
    all.filter(|shares| shares.iter().sum::<u64>() == GRID).collect()
}

/// One axis, in ticks.
struct Stage {
    wiring: Wiring,
    devices: u128,
    /// Time of 2^20 bytes.
    slope: u128,
    latency: u128,
    rule: HopRule,
}

impl Stage {
    fn new(topology: &Topology, run: Axes) -> Stage {
        let links = topology.links(run);
        Stage {
            wiring: links.wiring,
            devices: u128::from(run.group_size(&topology.mesh)),
            slope: topology.scale.at_rate(u128::from(links.apart) << 20, links.one_way).ticks(),
            latency: links.hop_latency.ticks(),
            rule: topology.hardware.hop_rule,
        }
    }

    /// For how long a message occupies a link, and its time; see [`AxisLinks::hop`](crate::topology::AxisLinks::hop).
    fn hop(&self, bytes: u128) -> [u128; 2] {
        let bandwidth = (bytes * self.slope) >> 20;
        match self.rule {
            HopRule::Sum => [bandwidth, bandwidth + self.latency],
            HopRule::Larger if self.wiring == Wiring::Switch => [bandwidth, bandwidth.max(self.latency)],
            HopRule::Larger => [bandwidth.max(self.latency); 2],
        }
    }

    /// For how long a gather of blocks occupies the links of the axis, and its time.
    fn gather(&self, block: u128) -> [u128; 2] {
        let others = self.devices - 1;
        let [busy, transit] = self.hop(block);
        match self.wiring {
            // The shard of the antipode comes in halves.
            Wiring::Ring if others % 2 == 1 => {
                let [last, end] = self.hop(block / 2);
                [others / 2 * busy + last, others / 2 * transit + end]
            }
            Wiring::Ring => [others / 2 * busy, others / 2 * transit],
            Wiring::Line => [others * busy, others * transit],
            Wiring::Full => [busy, transit],
            Wiring::Switch | Wiring::Fabric => [others * busy, (others - 1) * busy + transit],
        }
    }
}

/// The time of a gather if an axis serves one part at a time, in the order of the list.
fn time(stages: &[Stage], parts: &[Part<'_>], bytes: u64, chunks: u64) -> u128 {
    let total: u64 = parts.iter().map(|(_, weight)| weight).sum();
    let of = |weight: u64| u128::from(bytes) * u128::from(weight) / (u128::from(total) * u128::from(chunks));
    // When each chunk of each part is ready, and its block.
    let chunks = (0..chunks).flat_map(|_| parts);
    let mut portions: Vec<(&[usize], u128, u128)> = chunks.map(|(order, weight)| (*order, 0, of(*weight))).collect();
    let mut free = vec![0; stages.len()];
    for step in 0..stages.len() {
        for (order, ready, block) in &mut portions {
            let stage = order[step];
            let [busy, whole] = stages[stage].gather(*block);
            let start = free[stage].max(*ready);
            (free[stage], *ready) = (start + busy, start + whole);
            *block *= stages[stage].devices;
        }
    }
    portions.into_iter().map(|(_, ready, _)| ready).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::CollectiveKind;
    use crate::dtype::DType;
    use crate::method::Method;
    use crate::operator::Operator;
    use crate::recipe::axis_orders::axis_orders;
    use crate::recipe::{Recipe, Stage as Step, trial};
    use crate::schedule::methods::{self, Multiport};
    use crate::topology::tests::topology;
    use itertools::iproduct;

    fn found(axes: &[(&str, u32)], wiring: Wiring, bytes: u64) -> Option<Vec<(Vec<usize>, u64)>> {
        let topology = topology("tpu_v5p", axes, Some(wiring));
        let ids: Vec<Axes> = topology.mesh.axis_ids().map(Axes::one).collect();
        let found = quickest(&topology, &ids, bytes, &axis_orders(&topology, &ids));
        found.map(|orders| orders.into_iter().map(|part| (part.order, part.weight)).collect())
    }

    /// Long messages balance the load, and the shortest take the same hops in any order.
    #[test]
    fn long_messages_are_left_to_the_load() {
        assert_eq!(found(&[("X", 4), ("Y", 8)], Wiring::Ring, 1 << 30), None);
        assert_eq!(found(&[("X", 2), ("Y", 2), ("Z", 2)], Wiring::Ring, 1), None);
    }

    /// The time on the clock of a gather of shards of this size along ring or line axes, in the better number of chunks.
    fn clocked(topology: &Topology, axes: &[Axes], bytes: u64, orders: &[AxisOrder]) -> Time {
        let method = |run: &Axes| match topology.links(*run).wiring {
            Wiring::Ring => Method::BalancedMeetInMiddleRing,
            _ => Method::Line,
        };
        let stages = axes.iter().map(|run| methods::Stage { axes: *run, dim: 0, method: method(run) }).collect();
        let all = Multiport { stages, axis_orders: orders.to_vec(), chunks: 1 };
        let times = CHUNKS.into_iter().filter_map(|chunks| {
            let all = Multiport { chunks, ..all.clone() };
            let stages = vec![Step::Multiport { kind: CollectiveKind::AllGather, all, to: None }];
            let recipe = Recipe { operator: Operator::Sum, equal_copies: false, stages };
            let schedule = trial::of_block(topology, DType::I8, &[bytes], |builder, input| recipe.emit(builder, input));
            trial::timed(&schedule, topology, Time::MAX).map(|trial| trial.time)
        });
        times.min().expect("a small gather")
    }

    /// Orders are proposed that take less time on the clock as well; hardly any takes more.
    #[test]
    fn proposed_orders_are_fast_on_the_clock() {
        let meshes: [&[(&str, u32)]; 5] = [
            &[("X", 4), ("Y", 4)],
            &[("X", 3), ("Y", 8)],
            &[("X", 2), ("Y", 5)],
            &[("X", 4), ("Y", 4), ("Z", 4)],
            &[("X", 2), ("Y", 3), ("Z", 4)],
        ];
        let sizes = [1 << 12, 3 << 14, 1 << 17, 1 << 19];
        let (mut proposed, mut faster, mut slower) = (0, 0, 0);
        for (axes, wiring, bytes) in iproduct!(meshes, [Wiring::Ring, Wiring::Line], sizes) {
            let topology = topology("tpu_v5p", axes, Some(wiring));
            let ids: Vec<Axes> = topology.mesh.axis_ids().map(Axes::one).collect();
            let balanced = axis_orders(&topology, &ids);
            let Some(orders) = quickest(&topology, &ids, bytes, &balanced) else { continue };
            let [orders, balanced] = [&orders, &balanced].map(|orders| clocked(&topology, &ids, bytes, orders));
            proposed += 1;
            faster += usize::from(orders < balanced);
            slower += usize::from(orders > balanced);
        }
        assert!(proposed >= 10 && faster * 4 >= proposed * 3 && slower * 8 <= proposed, "{proposed} {faster} {slower}");
    }
}
