//! Two-level networks: axes over the network between nodes, and ports shared by a node.

use super::*;
use crate::topology::{Attachment, HopRule, Network};
use crate::units::Bytes;

/// `{D: nodes over ib, X: size}` on H100s.
pub(super) fn cluster(nodes: u32, size: u32, attached: Attachment, hop_rule: HopRule) -> Topology {
    let mut hardware = Hardware { hop_rule, ..Hardware::named("h100_book").expect("shipped") };
    hardware.beyond = vec![Network { attached, ..hardware.beyond[0].clone() }];
    let axis = |name: &str, size, over: Option<&str>| Axis {
        name: name.to_owned(),
        size,
        wiring: None,
        over: over.map(str::to_owned),
    };
    let mesh = Mesh::new(vec![axis("D", nodes, Some("ib")), axis("X", size, None)]).expect("a small mesh");
    Topology::new(mesh, hardware).expect("a common tick")
}

/// All devices send to all along D: `a + (N-1) s/w`; if a node of n devices shares one port, the bytes are multiplied
/// by n.
#[test]
fn one_shot_between_nodes() {
    for (attached, share) in [(Attachment::Device, 1), (Attachment::Node, 8)] {
        let topology = cluster(4, 8, attached, HopRule::Sum);
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[1_000_000]);
        for by in 1..4 {
            builder.shift(input, 0, by, true, Route::Shortest);
        }
        let network = topology.network(AxisId::new(0));
        assert_eq!((network.name.as_str(), topology.sharers(AxisId::new(0))), ("ib", share));
        let bytes = topology.scale.at_rate(u128::from(3_000_000 * share), network.one_way);
        let expected = topology.scale.picoseconds(network.hop_latency) + bytes;
        assert_eq!(builder.time(&topology).makespan, expected);
        // The restriction to D represents all devices that share a port with it.
        let part = topology.only([AxisId::new(0)].into_iter().collect()).0;
        let mut builder = Builder::new(&part);
        let input = builder.input(&[1_000_000]);
        for by in 1..4 {
            builder.shift(input, 0, by, true, Route::Shortest);
        }
        assert_eq!(builder.time(&part).makespan, expected);
    }
}

/// Uses the links of both networks at once: neither waits for the other.
#[test]
fn networks_do_not_share_links() {
    let topology = cluster(2, 4, Attachment::Device, HopRule::Sum);
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[1_000_000]);
    let far = builder.shift(input, 0, 1, true, Route::Shortest);
    let near = builder.shift(input, 1, 1, true, Route::Shortest);
    let timing = builder.time(&topology);
    assert_eq!(timing.operation(near).start, Time::ZERO);
    assert_eq!(timing.makespan, timing.operation(far).finish);
    assert_eq!(timing.operation(near).finish, us(&topology, 1) + at_link(&topology, 1_000_000));
}

/// Two axes on one switch connect the same devices: each device has one port for both axes.
#[test]
fn axes_of_one_switch_share_the_ports() {
    let hardware = Hardware { hop_rule: HopRule::Sum, ..Hardware::named("h100_book").expect("shipped") };
    let topology = wired(hardware, &[2, 4], None);
    let mut builder = Builder::new(&topology);
    let input = builder.input(&[1_000_000]);
    builder.shift(input, 0, 1, true, Route::Shortest);
    let second = builder.shift(input, 1, 1, true, Route::Shortest);
    let timing = builder.time(&topology);
    assert_eq!(timing.operation(second).start, at_link(&topology, 1_000_000));
    assert_eq!(topology.all_links().count(), 16);
    assert!(topology.all_links().all(|link| timing.link(link).bytes == Bytes(2_000_000)));
}

/// A gather kept as one operation takes the formula's time also if nodes share ports; groups run one after the other.
#[test]
fn a_kept_gather_between_nodes() {
    for (attached, groups) in [(Attachment::Device, 1), (Attachment::Node, 4)] {
        let topology = cluster(8, 4, attached, HopRule::Larger);
        let d = AxisId::new(0);
        let full = Bytes(64_000_000);
        let mut builder = Builder::new(&topology);
        let input = builder.input(&[full.0 / 8]);
        builder.push(OpKind::AllGather { axes: vec![d], dim: 0 }, &[full.0], &[input]);
        let bytes = topology.scale.at_rate(u128::from(full.0) * 7 / 8 * groups, topology.network(d).one_way);
        assert_eq!(builder.time(&topology).makespan, bytes);
        assert_eq!(topology.all_gather([d], full).time, bytes);
    }
}
