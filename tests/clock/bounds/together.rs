//! Bounds that count hops and bytes: compared with an enumeration of devices and of their distances, and with methods
//! that reach them.

use super::{KINDS, collective};
use itertools::{Itertools, iproduct};
use shardc::bounds::{self, Certificate};
use shardc::compiler::{self, Options, Overlapping};
use shardc::mesh::{Axis, AxisId, AxisSet, Mesh, Wiring};
use shardc::report::step_bound;
use shardc::sim::clock;
use shardc::topology::{Hardware, HopRule, Topology};
use shardc::units::Time;

/// Hops between two coordinates of an axis.
fn hops(wiring: Wiring, size: u32, one: u32, other: u32) -> u32 {
    let apart = one.abs_diff(other);
    match wiring {
        Wiring::Line => apart,
        Wiring::Ring => apart.min(size - apart),
        _ => u32::from(apart > 0),
    }
}

/// Links into a device along an axis.
fn links(wiring: Wiring, size: u32, at: u32) -> u32 {
    match wiring {
        _ if size == 1 => 0,
        Wiring::Line => u32::from(at > 0) + u32::from(at + 1 < size),
        Wiring::Ring if size > 2 => 2,
        Wiring::Full => size - 1,
        _ => 1,
    }
}

/// The highest bound of all devices and distances, in ticks; axes on one switch are one.
///
/// - `shard`: ticks of the data of one device over one link.
fn enumerated(axes: &[(u32, Wiring)], kind: &str, rule: HopRule, hop: u128, shard: u128) -> u128 {
    let places = axes.iter().map(|(size, _)| 0..*size).multi_cartesian_product().collect::<Vec<_>>();
    let count = places.len() as u128;
    let distance = |one: &[u32], other: &[u32]| {
        let along = |switches: bool| {
            let own = axes.iter().enumerate().filter(move |(_, (_, wiring))| (*wiring == Wiring::Switch) == switches);
            own.map(|(axis, (size, wiring))| hops(*wiring, *size, one[axis], other[axis])).sum::<u32>()
        };
        along(false) + along(true).min(1)
    };
    let mut most = 0;
    for device in &places {
        let into = |switches: bool| {
            let own = axes.iter().enumerate().filter(move |(_, (_, wiring))| (*wiring == Wiring::Switch) == switches);
            own.map(|(axis, (size, wiring))| links(*wiring, *size, device[axis])).sum::<u32>()
        };
        let ports = u128::from(into(false) + into(true).min(1));
        let far: Vec<u32> = places.iter().map(|other| distance(device, other)).filter(|far| *far > 0).collect();
        for away in far.iter().copied().unique() {
            let from = far.iter().filter(|far| **far >= away).count() as u128;
            // Over one link, in ticks times the number of devices.
            let data = match kind {
                "AllGather" => from * shard * count,
                "AllReduce" => shard * count,
                _ => from * shard,
            };
            let before = u128::from(away) - u128::from(rule == HopRule::Larger);
            most = most.max(before * hop + data / (ports * count));
        }
        if far.iter().all(|far| *far == 1) {
            // One message from each, of which the last one of each link takes a hop; or two hops.
            let ends = if rule == HopRule::Larger { ports } else { 0 };
            let messages = (count - 1).saturating_sub(ends);
            let each = if matches!(kind, "AllGather" | "AllReduce") { shard * count } else { shard };
            most = most.max((hop + messages * each / (ports * count)).min(2 * hop));
        }
    }
    most
}

/// All products of up to 16 devices, and messages that take less than a hop, about a hop, and many.
#[test]
fn distances_are_those_of_all_devices() {
    let wirings = [Wiring::Ring, Wiring::Line, Wiring::Switch, Wiring::Full];
    let mut raised = 0;
    for sizes in [&[2u32][..], &[3], &[4], &[5], &[6], &[9], &[2, 2], &[2, 3], &[4, 3], &[4, 4], &[2, 5], &[2, 2, 3]] {
        for (wired, rule) in iproduct!(
            itertools::repeat_n(wirings, sizes.len()).multi_cartesian_product(),
            [HopRule::Larger, HopRule::Sum]
        ) {
            let axes: Vec<(u32, Wiring)> = sizes.iter().copied().zip(wired).collect();
            let named = ["X", "Y", "Z"].iter().zip(&axes);
            let named = named.map(|(name, (size, wiring))| Axis {
                name: (*name).to_owned(),
                size: *size,
                wiring: Some(*wiring),
                over: None,
            });
            let mut hardware = Hardware::named("tpu_v5e").expect("shipped");
            hardware.hop_rule = rule;
            let mesh = Mesh::new(named.collect()).expect("a small mesh");
            let mut topology = Topology::new(mesh, hardware).expect("a common tick");
            let group: AxisSet = (0..sizes.len()).map(AxisId::new).collect();
            for (kind, part) in iproduct!(KINDS, [1, 8, 64, 512, 4096u128]) {
                let (collective, from) = collective(kind, &topology.mesh, group, AxisSet::NONE);
                let rate = topology.axes[0].one_way;
                let bytes = from.local_bytes(&topology.mesh).0;
                let shard = topology.scale.at_rate(u128::from(bytes), rate).ticks();
                let hop = shard * part / 256;
                topology.axes.iter_mut().for_each(|links| links.hop_latency = Time::from_ticks(hop));
                let Certificate { bound, .. } = bounds::certificate(&collective, &from, &topology);
                let wanted = enumerated(&axes, kind, rule, hop, shard);
                let others = bound.latency.max(bound.bandwidth).ticks();
                let case = format!("{kind} on {axes:?}, {rule:?}, hop {hop}, shard {shard}");
                // Little more is not worth it.
                let is_raised = wanted > others + others / 128;
                let wanted = if is_raised { wanted } else { others };
                assert!(bound.time().ticks().abs_diff(wanted) <= 1, "{case}: {bound:?} {wanted} {others}");
                raised += u32::from(is_raised);
            }
        }
    }
    assert!(raised > 1000, "{raised}");
}

/// Methods that take as long as the bound, or nearly.
#[test]
fn bounds_by_hops_and_bytes_are_reached() {
    let reached = [
        // A message from each device, in less than two hops.
        ("X: 6 switch", "AllGather", 1 << 17, 1.0),
        ("X: 6 switch", "ReduceScatter", 1 << 17, 1.0),
        ("X: 5 switch", "AllToAll", 1 << 19, 1.0),
        ("X: 5 switch", "AllReduce", 1 << 14, 1.0),
        // Along a line.
        ("X: 8 line", "AllReduce", 1 << 21, 1.25),
    ];
    for (mesh, kind, bytes, most) in reached {
        let source = crate::laws::collective_over(kind, mesh);
        let devices: u64 = mesh.split(' ').nth(1).and_then(|size| size.parse().ok()).expect("a size");
        let rows = devices * devices;
        let source = format!(
            "mesh {{{mesh}}} on tpu_v5p\ndims {{I: {rows}, J: {}}}\n{source}\n",
            (bytes / rows).next_multiple_of(devices)
        );
        let program = compiler::check(&source).0.expect("a program");
        let options = Options { overlap: Overlapping::None, ..Options::default() };
        let compiled = compiler::compile(&program, &options).expect("a schedule");
        let certificate = step_bound(&compiled.plan, crate::common::first_collective(&compiled), &compiled.topology);
        let time = clock::run(&compiled.schedule, &compiled.topology).expect("a time").makespan;
        let ratio = time.ratio(certificate.bound.time());
        assert!((1.0..=most).contains(&ratio), "{kind} on {mesh}: {ratio}, {}", certificate.reason);
        assert!(certificate.bound.together > Time::ZERO, "{kind} on {mesh}: {}", certificate.reason);
    }
}
