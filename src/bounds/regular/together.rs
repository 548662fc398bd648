//! Bounds that count hops and bytes together: data from far away arrives late, and then needs the links.
//!
//! Nothing of the devices at a distance of at least `r` from a device can be on the links into it before the latency of
//! `r`, less that of the last hop. From then on their data takes its bytes over the capacity of these links. The largest
//! time over all distances is a bound. The device is at the end of all lines, where distances are largest and links fewest.
//!
//! The same holds for what a device sends to the owners of the blocks of a ReduceScatter, backwards in time.
//!
//! Where all devices are one hop apart, data either takes two hops in sequence, or a message from each device to each
//! other one; the last message of a link takes the latency, whatever its bytes.

use super::Regular;
use crate::bounds::load::Load;
use crate::bounds::reason::Reason;
use crate::bounds::{Bound, Certificate};
use crate::collective::Collective;
use crate::layout::Layout;
use crate::mesh::{AxisId, AxisSet, Wiring};
use crate::topology::HopRule;
use crate::units::{Time, show_seconds};
use itertools::Itertools;

/// Most distances along an axis, and of all axes together; others count as the next smaller one.
const MOST_DISTANCES: u64 = 64;

/// A bound that is higher by less than one part in this number is not worth its longer reason.
const WORTH: u128 = 128;

/// A bound that counts hops and bytes.
#[derive(Clone, Debug)]
struct Together {
    time: Time,
    reason: Reason,
}

/// The data of a collective, as pieces of the units of its bound.
#[derive(Clone, Copy, Debug)]
struct Data {
    /// Pieces that a device needs from each other one.
    each: u128,
    /// Most pieces that it needs from all of them, if they are combined on the way.
    most: u128,
}

impl Regular<'_> {
    /// The certificate, raised to the bounds by hops and bytes if they are higher.
    pub(super) fn raised(&self, certificate: Certificate, collective: &Collective, from: &Layout) -> Certificate {
        let found = self.data(collective).and_then(|data| {
            let is_sent = matches!(collective, Collective::ReduceScatter { .. });
            let bounds = self.by_distance(data, is_sent, from).into_iter().chain(self.in_one_round(data, from));
            bounds.max_by_key(|found| found.time)
        });
        let simple = certificate.bound.time();
        match found.filter(|found| found.time > simple + Time::from_ticks(simple.ticks() / WORTH)) {
            Some(Together { time, reason }) => {
                Certificate { bound: Bound { together: time, ..certificate.bound }, reason, ..certificate }
            }
            None => certificate,
        }
    }

    /// What a device receives, or sends in a ReduceScatter. `None` for collectives in which devices do different things,
    /// and for measured messages, whose times are other ones.
    fn data(&self, collective: &Collective) -> Option<Data> {
        let data = match collective {
            Collective::AllGather { .. } => Data { each: self.n, most: u128::MAX },
            Collective::AllToAll { .. } => Data { each: 1, most: u128::MAX },
            Collective::AllReduce { .. } => Data { each: self.n, most: self.n },
            // Replicas share what is sent.
            Collective::ReduceScatter { .. } if self.roles.idle.is_empty() => Data { each: 1, most: u128::MAX },
            Collective::ReduceScatter { .. }
            | Collective::Broadcast { .. }
            | Collective::Permute { .. }
            | Collective::Reshard { .. }
            | Collective::Shift(_)
            | Collective::Slice { .. }
            | Collective::Open { .. } => return None,
        };
        self.used().all(|axis| !self.topology.links(axis).is_measured()).then_some(data)
    }

    /// The axes whose links may carry the data, one for each kind of link.
    fn used(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.apart(self.roles.group.union(self.roles.idle))
    }

    /// The latencies of a hop along the axes whose links may carry the data: the least and the largest.
    fn hops(&self) -> Option<(Time, Time)> {
        self.used().map(|axis| self.topology.links(axis).reach(2, None)).minmax().into_option()
    }

    /// The highest bound over all distances.
    fn by_distance(&self, Data { each, most }: Data, is_sent: bool, from: &Layout) -> Option<Together> {
        let (scale, units) = (self.topology.scale, self.units(from));
        // A hop takes the larger of its latency and its bytes, or one after the other.
        let last = match self.topology.hardware.hop_rule {
            HopRule::Larger => self.hops()?.1,
            HopRule::Sum => Time::ZERO,
        };
        let capacity = self.border(AxisSet::NONE);
        let mut devices = 0;
        let at = |(away, more): (Time, u128)| {
            devices += more;
            let load = Load::new(each.saturating_mul(devices).min(most), capacity);
            (away.saturating_sub(last) + load.time(units, scale), away, load)
        };
        let farthest_first = self.distances().into_iter().rev().filter(|(away, _)| *away > Time::ZERO);
        let (time, away, load) = farthest_first.map(at).max_by_key(|(time, ..)| *time)?;
        let region = self.region(AxisSet::NONE, load, units);
        Some(Together { time, reason: Reason::Far { region, away: show_seconds(scale.seconds(away)), is_sent } })
    }

    /// The bound where all devices of a group are one hop apart: a message from each to each, or two hops in sequence.
    fn in_one_round(&self, Data { each, .. }: Data, from: &Layout) -> Option<Together> {
        // The device itself, and all others.
        let [_, (away, _)] = self.distances()[..] else { return None };
        let axis = self.apart(self.roles.group).exactly_one().ok()?;
        let (least, _) = self.hops().filter(|_| away == self.topology.links(axis).reach(2, None))?;
        // The last message of each link takes the latency.
        let ends: u128 = match self.topology.hardware.hop_rule {
            HopRule::Larger => self.used().map(|axis| u128::from(self.links_into_one(axis, false))).sum(),
            HopRule::Sum => 0,
        };
        let pieces = each.saturating_mul((self.n - 1).saturating_sub(ends));
        let load = Load::new(pieces, self.border(AxisSet::NONE)).time(self.units(from), self.topology.scale);
        Some(Together { time: (least + load).min(least * 2), reason: Reason::Rounds })
    }

    /// The devices of a group by their distance from one at the end of all lines, in ascending order.
    fn distances(&self) -> Vec<(Time, u128)> {
        let along = self.apart(self.roles.group).map(|axis| {
            let links = self.topology.links(axis);
            let same = self.roles.group.iter().filter(|other| self.topology.links(*other).port == links.port);
            let size: u64 = same.map(|axis| self.topology.mesh.size(axis)).product();
            let hops = match links.wiring {
                Wiring::Line => size - 1,
                Wiring::Ring => size / 2,
                Wiring::Switch | Wiring::Full | Wiring::Fabric => 1,
            };
            // Devices nearer than this number of hops.
            let nearer = |hops: u64| match (links.wiring, hops) {
                (_, 0) => 0,
                (Wiring::Line, _) => hops.min(size),
                (Wiring::Ring, _) => (2 * hops - 1).min(size),
                (Wiring::Switch | Wiring::Full | Wiring::Fabric, 1) => 1,
                (Wiring::Switch | Wiring::Full | Wiring::Fabric, _) => size,
            };
            let step = hops.div_ceil(MOST_DISTANCES).max(1);
            let of = |least: u64| {
                let away = if least == 0 { Time::ZERO } else { links.reach(2, None) * least };
                let last = if least == 0 { 1 } else { least + step };
                (away, u128::from(nearer(last.min(hops + 1)) - nearer(least)))
            };
            let others = (0..).map(|place| 1 + place * step).take_while(|least| *least <= hops);
            std::iter::once(0).chain(others).map(of).collect_vec()
        });
        along.fold(vec![(Time::ZERO, 1)], |all, along| {
            let both = all.into_iter().cartesian_product(along);
            let sums = both.map(|((away, devices), (more, others))| (away + more, devices * others));
            let sums: Vec<(Time, u128)> = sums
                .sorted()
                .chunk_by(|(away, _)| *away)
                .into_iter()
                .map(|(away, alike)| (away, alike.map(|(_, devices)| devices).sum()))
                .collect();
            let few = sums.len().div_ceil(usize::try_from(MOST_DISTANCES).unwrap_or(usize::MAX)).max(1);
            sums.chunks(few).map(|near| (near[0].0, near.iter().map(|(_, devices)| devices).sum())).collect()
        })
    }
}
