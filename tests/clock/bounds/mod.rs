//! Compares the lower bounds with all sets of devices and all partitions of small networks.

mod loads;
mod net;
mod together;

use itertools::Itertools;
use net::{Fraction, Net};
use shardc::bounds::demand::{Demand, Piece};
use shardc::bounds::graph::{Graph, Link};
use shardc::bounds::{self, Certificate, irregular};
use shardc::collective::Collective;
use shardc::dtype::DType;
use shardc::layout::{Dims, Layout, Sharding};
use shardc::mesh::{Axes, Axis, AxisId, AxisSet, DeviceId, Mesh, Wiring};
use shardc::operator::Operator;
use shardc::topology::listed::{End, Links};
use shardc::topology::{Hardware, Topology, WiringRule};
use shardc::units::{Rate, Time, TimeScale};
use std::collections::BTreeSet;

/// V in bytes. It has many divisors, so that its parts are whole bytes.
const FULL: u64 = 720_720 * 720_720;
/// Bytes per second of a link of capacity 1.
const RATE: u64 = 1_000_000_000;

const KINDS: [&str; 4] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll"];

fn graph(net: &Net) -> Graph {
    let links = net.links.iter().map(|(from, to, capacity)| Link {
        from: *from,
        to: *to,
        rate: capacity * RATE,
        latency: Time::from_ticks(1),
        axis: None,
    });
    Graph::new(net.devices, links)
}

/// A collective over some axes of a mesh, and its operand, which is also sharded over `other`.
fn collective(kind: &str, mesh: &Mesh, group: AxisSet, other: AxisSet) -> (Collective, Layout) {
    let mut dims = Dims::default();
    let n = group.group_size(mesh);
    let whole = [other.group_size(mesh), FULL / n, n].map(|size| dims.add(None, size));
    let axes: Axes = group.in_order();
    let mut sharding = Sharding { dims: vec![other.in_order(), Axes::NONE, Axes::NONE], ..Sharding::default() };
    let collective = match kind {
        "AllGather" => Collective::AllGather { axes: group },
        "AllToAll" => Collective::AllToAll { axes, from: 1, to: 2 },
        "ReduceScatter" => Collective::reduce_scatter(axes, 1, 3),
        "Broadcast" | "Broadcast from the middle" => Collective::Broadcast { axes: group },
        _ => Collective::AllReduce { axes: group },
    };
    match collective {
        Collective::AllGather { .. } | Collective::AllToAll { .. } => sharding.dims[1] = axes,
        Collective::Broadcast { .. } => {
            let middle = |device, axis| mesh.with_coordinate(device, axis, mesh.axis(axis).size / 2);
            let root = if kind == "Broadcast" { DeviceId(0) } else { group.iter().fold(DeviceId(0), middle) };
            (sharding.open, sharding.operator) = (group, Operator::Root(root));
        }
        _ => sharding.set_open(group),
    }
    (collective, Layout { dtype: DType::I8, dims: whole.to_vec(), sharding, used: None })
}

fn scale() -> TimeScale {
    TimeScale::for_rates([Rate::new(RATE).unwrap()]).unwrap()
}

/// Time of this fraction of V over a link of capacity 1.
fn time(part: Fraction) -> Time {
    let ticks = scale().at_rate(u128::from(FULL), Rate::new(RATE).unwrap()).ticks();
    Time::from_ticks(part.0 * ticks / part.1)
}

/// The bound on a network of a collective of all its devices.
fn on_net(kind: &str, net: &Net) -> Certificate {
    let mesh = Mesh::of(&[("X", u32::try_from(net.devices).unwrap())]);
    let (collective, from) = collective(kind, &mesh, AxisSet::one(AxisId::new(0)), AxisSet::NONE);
    irregular::certificate(&graph(net), &Demand::new(&collective, &from, &mesh), &mesh, scale())
}

fn broadcast(net: &Net, root: usize) -> Certificate {
    let mesh = Mesh::of(&[("X", u32::try_from(net.devices).unwrap())]);
    irregular::certificate(&graph(net), &Demand::broadcast(net.devices, root, u128::from(FULL)), &mesh, scale())
}

/// Rings, lines, tori, meshes, switches and two-level networks of at most 16 devices, two of them with degraded links.
fn nets() -> Vec<(String, Net)> {
    let named = |name: &str, net| (name.to_owned(), net);
    let mut nets = vec![
        named("torus 3x3", Net::grid(&[(3, true, 1), (3, true, 1)])),
        named("torus 3x5", Net::grid(&[(3, true, 1), (5, true, 1)])),
        named("torus 4x4", Net::grid(&[(4, true, 1), (4, true, 1)])),
        named("torus 2x4", Net::grid(&[(2, true, 1), (4, true, 1)])),
        named("torus 2x8", Net::grid(&[(2, true, 1), (8, true, 1)])),
        named("mesh 4x4", Net::grid(&[(4, false, 1), (4, false, 1)])),
        named("mesh 2x3", Net::grid(&[(2, false, 1), (3, false, 1)])),
        named("4x4, one axis wraps", Net::grid(&[(4, true, 1), (4, false, 1)])),
        named("torus 3x3, one axis faster", Net::grid(&[(3, true, 5), (3, true, 1)])),
        named("2x2x3", Net::grid(&[(2, false, 2), (2, false, 1), (3, true, 1)])),
        named("torus 4x4 less a cable", Net::grid(&[(4, true, 1), (4, true, 1)]).without_cable(5, 6)),
        named("torus 4x4 less a link", Net::grid(&[(4, true, 1), (4, true, 1)]).without(5, 6)),
        named("torus 3x3 less a cable", Net::grid(&[(3, true, 1), (3, true, 1)]).without_cable(0, 3)),
        named("two machines of 4", Net::two_level(2, 4, 8, 1)),
        named("four machines of 2", Net::two_level(4, 2, 8, 1)),
        named("three machines of 2, fast between", Net::two_level(3, 2, 1, 3)),
    ];
    for size in 2..=9 {
        nets.push((format!("ring of {size}"), Net::ring(size)));
        nets.push((format!("line of {size}"), Net::line(size)));
        nets.push((format!("switch of {size}"), Net::switch(size)));
        if size > 2 {
            nets.push((format!("ring of {size} less a link"), Net::ring(size).without(0, 1)));
        }
    }
    for size in 10..=16 {
        nets.push((format!("ring of {size}"), Net::ring(size)));
        nets.push((format!("line of {size}"), Net::line(size)));
    }
    nets.push(named("switch of 16", Net::switch(16)));
    nets.push(named("2x2x4", Net::grid(&[(2, false, 1), (2, false, 1), (4, true, 1)])));
    nets.push(named("four machines of 4", Net::two_level(4, 4, 8, 1)));
    let mut random = fastrand::Rng::with_seed(13);
    for number in 0..120 {
        let devices = random.usize(2..8);
        nets.push((format!("random {number}"), Net::random(&mut random, devices)));
    }
    nets
}

#[test]
fn gathers_and_scatters_are_bound_by_the_heaviest_of_all_sets() {
    for (name, net) in nets() {
        let gather = on_net("AllGather", &net);
        assert_eq!(gather.bound.bandwidth, time(net.all_gather()), "AllGather on {name}");
        let scatter = on_net("ReduceScatter", &net);
        assert_eq!(scatter.bound.bandwidth, time(net.reduce_scatter()), "ReduceScatter on {name}");
        assert!(gather.largest && scatter.largest);
    }
}

#[test]
fn broadcasts_are_bound_by_the_least_cut_from_the_root() {
    for (name, net) in nets() {
        for root in [0, net.devices / 2, net.devices - 1] {
            assert_eq!(broadcast(&net, root).bound.bandwidth, time(net.broadcast(root)), "{root} of {name}");
        }
        assert_eq!(on_net("Broadcast", &net).bound.bandwidth, time(net.broadcast(0)), "{name}");
    }
}

#[test]
fn all_reduces_are_bound_by_the_heaviest_of_all_partitions() {
    for (name, net) in nets().into_iter().filter(|(_, net)| net.devices <= 9) {
        let certificate = on_net("AllReduce", &net);
        assert_eq!(certificate.bound.bandwidth, time(net.all_reduce()), "AllReduce on {name}");
        // Parts may share the links between switches, which each of them counts.
        assert_eq!(certificate.largest, net.nodes <= net.devices + 1, "{name}");
    }
}

/// For up to 16 devices there are too many partitions to try. Those into two parts, and into single devices, are not
/// heavier than the bound.
#[test]
fn all_reduces_are_bound_by_all_bipartitions_at_least() {
    for (name, net) in nets().into_iter().filter(|(_, net)| net.devices > 9) {
        let bound = on_net("AllReduce", &net).bound.bandwidth;
        assert!(bound >= time(net.all_reduce_in_two_or_all()), "AllReduce on {name}");
    }
}

/// The bound is the heavier of two loads: over all sets of devices, and bytes times hops over all links.
#[test]
fn exchanges_are_bound_by_the_heaviest_of_all_sets_or_by_hops() {
    for (name, net) in nets() {
        let certificate = on_net("AllToAll", &net);
        let truth = net::larger(net.all_to_all(), net.all_to_all_by_hops());
        assert_eq!(certificate.bound.bandwidth, time(truth), "AllToAll on {name}");
        assert!(certificate.largest, "{name}");
    }
}

/// On large fabrics only devices that are near each other are tried. On small networks that bound is at most the one of all
/// sets and partitions, and the same where devices, or machines, are alike.
#[test]
fn sets_near_each_other_are_at_most_as_heavy_as_all_sets() {
    let mut equal = 0;
    for ((name, net), kind) in nets().iter().cartesian_product(KINDS.into_iter().chain(["Broadcast"])) {
        let mesh = Mesh::of(&[("X", u32::try_from(net.devices).unwrap())]);
        let (collective, from) = collective(kind, &mesh, AxisSet::one(AxisId::new(0)), AxisSet::NONE);
        let graph = graph(net);
        let near = irregular::nearby(&graph, &Demand::new(&collective, &from, &mesh), scale());
        let all = on_net(kind, net).bound;
        assert!(near.bandwidth <= all.bandwidth, "{kind} on {name}");
        assert_eq!(near.latency, all.latency, "{kind} on {name}");
        let is_equal = near.bandwidth == all.bandwidth;
        equal += usize::from(is_equal);
        let are_alike =
            ["switch", "ring", "torus 4x4", "four machines of 4"].iter().any(|alike| name.starts_with(alike));
        if are_alike && !name.contains("less") && !name.contains("faster") {
            assert!(is_equal, "{kind} on {name}: {:?} of {:?}", near.bandwidth, all.bandwidth);
        }
    }
    assert!(equal > 700, "{equal}");
}

/// Figures from papers and other simulators, in units of V over the capacity of a link.
#[test]
fn known_figures() {
    let torus = || Net::grid(&[(4, true, 1), (4, true, 1)]);
    let gathers = [
        (Net::ring(8), (7, 16)),
        (Net::line(8), (7, 8)),
        (torus(), (15, 64)),
        (Net::grid(&[(4, false, 1), (4, false, 1)]), (15, 32)),
        (Net::grid(&[(4, true, 1), (4, false, 1)]), (5, 16)),
        (torus().without_cable(0, 1), (5, 16)),
        (torus().without(0, 1), (5, 16)),
        (Net::ring(8).without(0, 1), (7, 8)),
        (Net::grid(&[(2, true, 1), (8, true, 1)]), (15, 48)),
        (Net::switch(8), (7, 8)),
    ];
    for (net, part) in gathers {
        assert_eq!(on_net("AllGather", &net).bound.bandwidth, time(part), "{net:?}");
    }
    let reductions = [
        (Net::ring(8), (7, 8)),
        (Net::line(8), (1, 1)),
        (Net::grid(&[(4, false, 1), (4, false, 1)]), (5, 8)),
        (torus(), (15, 32)),
        (Net::switch(8), (7, 4)),
        (Net::two_level(4, 8, 100, 1), (3, 2)),
    ];
    for (net, part) in reductions {
        assert_eq!(on_net("AllReduce", &net).bound.bandwidth, time(part), "{net:?}");
    }
    for size in [4, 6, 8, 10] {
        assert_eq!(on_net("AllToAll", &Net::ring(size)).bound.bandwidth, time((1, 8)));
        assert_eq!(on_net("AllToAll", &Net::line(size)).bound.bandwidth, time((1, 4)));
    }
    for (net, part) in [(Net::ring(8), (1, 2)), (Net::line(8), (1, 1)), (torus(), (1, 4)), (Net::switch(8), (1, 1))] {
        assert_eq!(broadcast(&net, 0).bound.bandwidth, time(part), "{net:?}");
    }
}

/// The closed forms of an exchange equal the heaviest of all sets: the middle of the longest axis.
#[test]
fn exchanges_on_products_are_bound_by_the_heaviest_of_all_sets() {
    let (ring, line) = ([Wiring::Ring, Wiring::Ring], [Wiring::Line, Wiring::Line]);
    for sizes in [&[2][..], &[3], &[5], &[8], &[9], &[15], &[3, 3], &[3, 5], &[2, 7], &[4, 4], &[2, 8]] {
        for wirings in [ring, line, [Wiring::Ring, Wiring::Line]] {
            let axes: Vec<_> = sizes.iter().zip(wirings).map(|(size, wiring)| (*size, wiring, 1)).collect();
            let topology = product(&axes);
            let (collective, from) =
                collective("AllToAll", &topology.mesh, topology.mesh.axis_ids().collect(), AxisSet::NONE);
            let grid: Vec<_> = axes.iter().map(|axis| (axis.0 as usize, axis.1 == Wiring::Ring, 1)).collect();
            let bound = bounds::collective(&collective, &from, &topology);
            assert_eq!(bound.bandwidth, time(Net::grid(&grid).all_to_all()), "{axes:?}");
        }
    }
}

/// On full meshes, alone and beside another axis, the closed forms equal the heaviest of all sets and partitions.
#[test]
fn full_meshes_are_bound_by_the_heaviest_of_all_sets() {
    use Wiring::{Full, Line, Ring, Switch};
    let mut tried = 0;
    let machines: [&[(u32, Wiring, u64)]; 14] = [
        &[(3, Full, 1)],
        &[(4, Full, 1)],
        &[(7, Full, 1)],
        &[(9, Full, 2)],
        &[(12, Full, 1)],
        &[(3, Full, 1), (3, Full, 1)],
        &[(3, Full, 1), (4, Full, 3)],
        &[(2, Line, 1), (4, Full, 5)],
        &[(2, Line, 5), (6, Full, 1)],
        &[(3, Line, 1), (3, Full, 1)],
        &[(3, Ring, 2), (4, Full, 1)],
        &[(4, Ring, 1), (3, Full, 1)],
        &[(2, Switch, 1), (4, Full, 2)],
        &[(3, Switch, 4), (3, Full, 1)],
    ];
    for axes in machines {
        let topology = product(axes);
        let net = axes.iter().fold(Net { devices: 1, nodes: 1, links: Vec::new() }, |net, (size, wiring, capacity)| {
            let size = *size as usize;
            match wiring {
                Ring => net.times(&Net::ring(size), *capacity),
                Line => net.times(&Net::line(size), *capacity),
                Switch => net.times(&Net::switch(size), *capacity),
                Full => net.times(&Net::full(size), *capacity),
                Wiring::Fabric => unreachable!("no axis of a program"),
            }
        });
        assert_eq!(net.devices, topology.mesh.device_count());
        let all: AxisSet = topology.mesh.axis_ids().collect();
        for kind in KINDS.into_iter().chain(["Broadcast"]) {
            let (collective, from) = collective(kind, &topology.mesh, all, AxisSet::NONE);
            let truth = match kind {
                "AllGather" => net.all_gather(),
                "ReduceScatter" => net.reduce_scatter(),
                "AllReduce" if net.devices > 9 => net.all_reduce_in_two_or_all(),
                "AllReduce" => net.all_reduce(),
                "AllToAll" => net.all_to_all(),
                _ => net.broadcast(0),
            };
            let found = bounds::certificate(&collective, &from, &topology);
            assert_eq!(found.bound.bandwidth, time(truth), "{kind} on {axes:?}: {}", found.reason);
            tried += 1;
        }
    }
    assert_eq!(tried, 70);
}

/// SCCL's solver finds a gather on a ring of 8 in 7 rounds of half shards and refutes 6; for an exchange, 8 and 7.
#[test]
fn rounds_that_a_solver_refutes() {
    let rounds = |kind, chunks| {
        let bound = on_net(kind, &Net::ring(8)).bound.bandwidth;
        bound.ticks().div_ceil(time((1, chunks)).ticks())
    };
    assert_eq!(rounds("AllGather", 16), 7);
    assert_eq!(rounds("AllToAll", 64), 8);
}

/// Fabrics that list the links of small networks have the bounds of all sets and partitions of these.
#[test]
fn fabrics_are_bound_by_the_heaviest_of_all_sets() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut small = vec![Net::ring(5), Net::line(4), Net::full(4), Net::switch(4), Net::two_level(2, 3, 4, 3)];
    small.extend((3..=7).map(|devices| Net::random(&mut random, devices)));
    for net in small {
        let topology = listed(&net);
        let all: AxisSet = topology.mesh.axis_ids().collect();
        for kind in KINDS.into_iter().chain(["Broadcast"]) {
            let (collective, from) = collective(kind, &topology.mesh, all, AxisSet::NONE);
            let found = bounds::certificate(&collective, &from, &topology);
            let ticks = on_net(kind, &net).bound.bandwidth.ticks() * full(&topology).ticks() / time((1, 1)).ticks();
            assert_eq!(found.bound.bandwidth, Time::from_ticks(ticks), "{kind} on {net:?}: {}", found.reason);
            let sets = match kind {
                "AllGather" => net.all_gather(),
                "ReduceScatter" => net.reduce_scatter(),
                "Broadcast" => net.broadcast(0),
                _ => continue,
            };
            let ticks = sets.0 * full(&topology).ticks() / sets.1;
            assert_eq!(found.bound.bandwidth, Time::from_ticks(ticks), "{kind} on {net:?}");
        }
    }
}

/// The time of a full array at the rate of one unit of capacity.
fn full(topology: &Topology) -> Time {
    topology.scale.at_rate(u128::from(FULL), Rate::new(RATE).unwrap())
}

/// A network as a fabric.
fn listed(net: &Net) -> Topology {
    let end = |node: usize| match node.checked_sub(net.devices) {
        Some(switch) => End::Switch(format!("s{switch}")),
        None => End::Device(u32::try_from(node).unwrap()),
    };
    let links = net.links.iter().map(|(from, to, capacity)| Links {
        between: Vec::new(),
        from_to: vec![[end(*from), end(*to)]],
        one_way: Rate::new(capacity * RATE),
        hop_latency: Some(0),
    });
    let mut hardware = Hardware::named("tpu_v5e").expect("shipped");
    hardware.network.wiring = WiringRule::Always(Wiring::Fabric);
    hardware.network.switches = (0..net.nodes - net.devices).map(|switch| format!("s{switch}")).collect();
    hardware.network.links = links.collect();
    hardware.beyond.clear();
    Topology::new(Mesh::of(&[("X", u32::try_from(net.devices).unwrap())]), hardware).expect("a common tick")
}

/// A mesh of these axes, with link capacities along each.
fn product(axes: &[(u32, Wiring, u64)]) -> Topology {
    let named = ["X", "Y", "Z"].iter().zip(axes);
    let named =
        named.map(|(name, axis)| Axis { name: (*name).to_owned(), size: axis.0, wiring: Some(axis.1), over: None });
    let mesh = Mesh::new(named.collect()).expect("a small mesh");
    let mut topology = Topology::new(mesh, Hardware::named("tpu_v5e").expect("shipped")).expect("a common tick");
    for (links, axis) in topology.axes.iter_mut().zip(axes) {
        // Axes on one switch share its ports.
        let rate = if links.wiring == Wiring::Switch { axes[links.port.index()].2 } else { axis.2 };
        links.one_way = Rate::new(rate * RATE).expect("not zero");
    }
    topology.scale = scale();
    topology
}

/// All lists of this length with numbers below `most`.
fn below(most: usize, length: usize) -> impl Iterator<Item = Vec<usize>> {
    itertools::repeat_n(0..most, length).multi_cartesian_product()
}

/// All lists of this length with numbers below 3.
fn ternary(length: usize) -> impl Iterator<Item = Vec<usize>> {
    below(3, length)
}

fn both_bounds(kind: &str, topology: &Topology, group: AxisSet, other: AxisSet) -> (Certificate, Certificate) {
    let (collective, from) = collective(kind, &topology.mesh, group, other);
    let demand = Demand::new(&collective, &from, &topology.mesh);
    let found = irregular::certificate(&Graph::of(topology), &demand, &topology.mesh, topology.scale);
    let closed = bounds::certificate(&collective, &from, topology);
    assert_eq!(
        bounds::by_hops_or_bytes(&collective, &from, topology).bound,
        bounds::collective(&collective, &from, topology)
    );
    (closed, found)
}

/// Compares closed forms and search for all products of up to 9 devices, many wirings, and all roles of the axes.
#[test]
fn closed_forms_are_what_the_search_finds() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut tried, mut largest) = (0, 0);
    for sizes in [&[2][..], &[3], &[4], &[5], &[6], &[2, 2], &[2, 3], &[2, 4], &[3, 3], &[2, 2, 2]] {
        for wirings in below(Wiring::ALL.len(), sizes.len()) {
            for roles in ternary(sizes.len()) {
                let with = |role: usize| -> AxisSet {
                    (0..sizes.len()).filter(|axis| roles[*axis] == role).map(AxisId::new).collect()
                };
                if with(0).is_empty() || random.bool() {
                    continue;
                }
                let axes: Vec<(u32, Wiring, u64)> = sizes
                    .iter()
                    .enumerate()
                    .map(|(axis, size)| {
                        let wiring = Wiring::ALL[wirings[axis]];
                        (*size, wiring, if random.bool() { 1 } else { random.u64(1..6) })
                    })
                    .collect();
                // Axes on one switch have the same ports.
                let ports = axes.iter().find(|axis| axis.1 == Wiring::Switch).map_or(1, |axis| axis.2);
                let same = |(size, wiring, rate)| (size, wiring, if wiring == Wiring::Switch { ports } else { rate });
                let axes: Vec<(u32, Wiring, u64)> = axes.into_iter().map(same).collect();
                let topology = product(&axes);
                for kind in KINDS.into_iter().chain(["Broadcast", "Broadcast from the middle"]) {
                    let (closed, found) = both_bounds(kind, &topology, with(0), with(2));
                    let case = format!("{kind} {axes:?} group {:?} other {:?}: {}", with(0), with(2), found.reason);
                    // Messages are routed axis by axis, even if all axes are on one switch.
                    let on_one_switch = axes.iter().filter(|axis| axis.1 == Wiring::Switch).count() > 1;
                    assert!(closed.bound.latency >= found.bound.latency, "{case}");
                    assert!(on_one_switch || closed.bound.latency == found.bound.latency, "{case}");
                    assert!(closed.bound.bandwidth <= found.bound.bandwidth, "above the truth: {case}");
                    if closed.largest {
                        assert_eq!(closed.bound.bandwidth, found.bound.bandwidth, "{case}");
                        largest += 1;
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 1000 && largest > 900, "{tried} {largest}");
}

/// Bounds for all roles of the axes (participating, replicas, other groups), compared with all sets and partitions,
/// on rings and lines whose axes may be split into parts.
#[test]
fn groups_and_replicas_are_counted_together() {
    let mut random = fastrand::Rng::with_seed(29);
    // The axes of the machine, each given by the sizes of its parts.
    let machines: [&[&[u32]]; 15] = [
        &[&[4]],
        &[&[2, 2]],
        &[&[2, 3]],
        &[&[3, 2]],
        &[&[2, 4]],
        &[&[4, 2]],
        &[&[2, 2, 2]],
        &[&[3, 3]],
        &[&[2, 2], &[2]],
        &[&[2], &[2, 2]],
        &[&[3], &[3]],
        &[&[2], &[4]],
        &[&[2, 2], &[4]],
        &[&[4, 4]],
        &[&[2, 7]],
    ];
    let (mut in_parts, mut largest) = (0, 0);
    for machine in machines {
        let count: usize = machine.iter().map(|parts| parts.len()).sum();
        for roles in ternary(count) {
            let role = |axis: usize| roles[axis];
            let with = |wanted: usize| -> AxisSet {
                (0..count).filter(|axis| role(*axis) == wanted).map(AxisId::new).collect()
            };
            // Trying all sets of 16 devices takes a while.
            let many = machine.iter().copied().flatten().product::<u32>() > 9;
            if with(0).is_empty() || many && random.u8(0..3) > 0 {
                continue;
            }
            let axes: Vec<(u32, Wiring, u64)> = machine
                .iter()
                .map(|parts| {
                    (parts.iter().product(), if random.bool() { Wiring::Ring } else { Wiring::Line }, random.u64(1..4))
                })
                .collect();
            let mut topology = product(&axes);
            for parts in machine.iter().rev().filter(|parts| parts.len() > 1) {
                let whole = machine.iter().position(|other| other == parts).map(AxisId::new).unwrap();
                let names = parts.iter().zip(["A", "B", "C"]).map(|(size, name)| (name.to_owned(), *size));
                topology.mesh = topology.mesh.split(whole, &names.collect::<Vec<_>>()).expect("parts of the axis");
            }
            let mesh = &topology.mesh;
            let sizes: Vec<usize> = machine.iter().copied().flatten().map(|size| *size as usize).collect();
            let devices: usize = sizes.iter().product();
            let rank = |device: usize, wanted: usize| {
                let mut stride = devices;
                sizes.iter().enumerate().fold(0, |rank, (axis, size)| {
                    stride /= size;
                    if role(axis) == wanted { rank * size + device / stride % size } else { rank }
                })
            };
            let who = net::Roles {
                group: (0..devices).map(|device| rank(device, 2)).collect(),
                place: (0..devices).map(|device| rank(device, 0)).collect(),
            };
            let grid: Vec<_> = axes.iter().map(|axis| (axis.0 as usize, axis.1 == Wiring::Ring, axis.2)).collect();
            let net = Net::grid(&grid);
            // There are too many partitions of more than 9 places.
            let few = with(0).group_size(mesh) <= 9;
            for kind in KINDS.into_iter().filter(|kind| few || *kind != "AllReduce") {
                let (collective, from) = collective(kind, mesh, with(0), with(2));
                let certificate = bounds::certificate(&collective, &from, &topology);
                let case = format!(
                    "{kind} on {machine:?} {axes:?}, group {:?} other {:?}: {}",
                    with(0),
                    with(2),
                    certificate.reason
                );
                let truth = time(net.with_roles(kind, &who));
                assert!(
                    bounds::collective(&collective, &from, &topology).bandwidth <= certificate.bound.bandwidth,
                    "{case}"
                );
                // An exchange may take longer than the load of any set.
                if certificate.largest && kind != "AllToAll" {
                    assert_eq!(certificate.bound.bandwidth, truth, "{case}");
                    largest += 1;
                } else if certificate.largest {
                    assert!(certificate.bound.bandwidth >= truth, "{case}");
                }
                in_parts += usize::from(mesh.views().next().is_some());
            }
        }
    }
    assert!(in_parts > 300 && largest > 250, "{in_parts} {largest}");
}

/// The minimum number of sends until all needers have the sum of all contributions, by exhaustive search: a device
/// may add any of its values, and sends one sum at a time.
fn fewest_sends(devices: usize, piece: &Piece) -> u128 {
    let all = (1u8 << piece.contributions.len()) - 1;
    let holds = |device: usize| {
        let held = piece.contributions.iter().zip(0..).filter(|(holders, _)| holders.contains(&device));
        closed(held.map(|(_, place)| 1u8 << place).collect())
    };
    let mut states: BTreeSet<Vec<BTreeSet<u8>>> = [(0..devices).map(holds).collect()].into();
    for sends in 0.. {
        let done = |state: &Vec<BTreeSet<u8>>| piece.needers.iter().all(|device| state[*device].contains(&all));
        if states.iter().any(done) {
            return sends;
        }
        let mut next = BTreeSet::new();
        for state in &states {
            for (from, to) in (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))) {
                for sum in state[from].difference(&state[to]) {
                    let mut after = state.clone();
                    after[to].insert(*sum);
                    after[to] = closed(std::mem::take(&mut after[to]));
                    next.insert(after);
                }
            }
        }
        states = next;
    }
    unreachable!("something is sent in each round")
}

/// Adds the sums of disjoint contributions.
fn closed(mut sums: BTreeSet<u8>) -> BTreeSet<u8> {
    loop {
        let more: Vec<u8> =
            sums.iter().flat_map(|a| sums.iter().filter(move |b| *a & **b == 0).map(move |b| a | b)).collect();
        let before = sums.len();
        sums.extend(more);
        if sums.len() == before {
            return sums;
        }
    }
}

fn with_engines(axes: &[(u32, Wiring)]) -> Topology {
    let named = ["X", "Y"].iter().zip(axes);
    let named =
        named.map(|(name, axis)| Axis { name: (*name).to_owned(), size: axis.0, wiring: Some(axis.1), over: None });
    let mesh = Mesh::new(named.collect()).expect("a small mesh");
    Topology::new(mesh, Hardware::named("furiosa").expect("shipped")).expect("a common tick")
}

/// On machines whose messages need engines, the bound counts the minimum number of sends, and is not below the bound
/// of the links.
#[test]
fn engines_are_busy_for_the_fewest_sends() {
    let one = |size| vec![(size, Wiring::Ring)];
    let two = |x, y| vec![(x, Wiring::Ring), (y, Wiring::Ring)];
    let machines = [one(2), one(3), one(4), two(2, 2), two(2, 1), two(3, 2), two(2, 3)];
    let mut tried = 0;
    for machine in &machines {
        let topology = with_engines(machine);
        let mesh = &topology.mesh;
        let long = |axis: &AxisId| mesh.size(*axis) > 1;
        let first = AxisSet::one(AxisId::new(0));
        let all: AxisSet = mesh.axis_ids().collect();
        for (group, other) in [(first, AxisSet::NONE), (first, all.without(first)), (all, AxisSet::NONE)] {
            for kind in KINDS.into_iter().chain(["Broadcast", "Broadcast from the middle"]) {
                let (collective, from) = collective(kind, mesh, group, other);
                let demand = Demand::new(&collective, &from, mesh);
                // With more devices there are too many states.
                let states = |piece: &Piece| mesh.device_count() * piece.contributions.len();
                if demand.pieces.iter().any(|piece| piece.contributions.len() > 1 && states(piece) > 9) {
                    continue;
                }
                let sends: u128 = demand.pieces.iter().map(|piece| fewest_sends(mesh.device_count(), piece)).sum();
                let rate = mesh.axis_ids().filter(long).map(|axis| topology.axes[axis.index()].one_way).max();
                let rate = rate.expect("links");
                let below = demand.divisor * mesh.device_count() as u128;
                let mean = topology.scale.at_rate(sends * demand.bytes, rate).ticks() / below;
                let links = irregular::certificate(&Graph::of(&topology), &demand, mesh, topology.scale).bound;
                let found = bounds::by_hops_or_bytes(&collective, &from, &topology);
                assert_eq!(found.bound.bandwidth.ticks(), mean.max(links.bandwidth.ticks()), "{kind} on {machine:?}");
                assert_eq!(found.bound, bounds::collective(&collective, &from, &topology), "{kind} on {machine:?}");
                let by_engine = found.reason.to_string().contains("through its engine");
                assert_eq!(by_engine, mean > links.bandwidth.ticks().max(links.latency.ticks()), "{}", found.reason);
                tried += 1;
            }
        }
    }
    assert!(tried > 70, "{tried}");
}
