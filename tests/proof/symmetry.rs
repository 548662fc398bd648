//! Symmetry changes no result: with and without collapsing, the proof and the simulator agree on all examples, all
//! methods, tori, and their mutants.
#![allow(clippy::print_stdout, missing_docs)]

use crate::common::mutants::mutants;
use crate::common::sets;
use crate::common::single::{self, axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::dtype::DType;
use shardc::mesh::{Axes, Axis, AxisId, Mesh, Wiring};
use shardc::operator::Operator;
use shardc::schedule::Schedule;
use shardc::schedule::methods::{AxisOrder, Destination, Method, Multiport, Stage, candidates};
use shardc::sim::clock;
use shardc::sim::proof::{Proof, prove, prove_uncollapsed};
use shardc::topology::{Hardware, Topology};

const KINDS: [CollectiveKind; 4] =
    [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce, CollectiveKind::AllToAll];

/// The proof, checked to be the same without collapsing.
fn proven(name: &str, schedule: &Schedule) -> Proof {
    let proof = prove(schedule).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    let all = prove_uncollapsed(schedule).unwrap_or_else(|flaw| panic!("{name}, all devices: {flaw}"));
    assert_eq!((all.followed, proof.devices), (all.devices, all.devices), "{name}");
    proof
}

/// Asserts that both give the same result for a mutant, with the same message. Returns whether it is refused.
fn agree(name: &str, schedule: &Schedule) -> bool {
    let [one, all] = [prove(schedule), prove_uncollapsed(schedule)].map(|proof| proof.map(|proof| proof.devices));
    assert_eq!(one, all, "{name}");
    one.is_err()
}

fn ring_of_rings(sizes: &[u32]) -> Mesh {
    let axes = ["X", "Y", "Z"].into_iter().zip(sizes);
    let axes = axes.map(|(name, size)| Axis { name: name.into(), size: *size, wiring: Some(Wiring::Ring), over: None });
    Mesh::new(axes.collect()).expect("a small mesh")
}

/// All axes at once, with rotated axis orders.
fn multiport(kind: CollectiveKind, sizes: &[u32], extents: [u64; 2], chunks: u64) -> Schedule {
    let count = sizes.len();
    let method = if kind == CollectiveKind::AllToAll { Method::DirectHalves } else { Method::BalancedMeetInMiddleRing };
    let stage = |place| Stage { axes: Axes::one(AxisId::new(place)), dim: 0, method };
    let axis_order =
        |first: usize| AxisOrder { order: (0..count).map(|step| (first + step) % count).collect(), weight: 1 };
    let multiport = Multiport {
        stages: (0..count).map(stage).collect(),
        axis_orders: (0..count).map(axis_order).collect(),
        chunks,
    };
    single::schedule(ring_of_rings(sizes), kind, extents, DType::I64, |builder, given| match kind {
        CollectiveKind::AllGather => multiport.all_gather(builder, given),
        CollectiveKind::ReduceScatter => multiport.reduce_scatter(builder, given, Operator::Sum),
        CollectiveKind::AllReduce => multiport.all_reduce(builder, given, Operator::Sum),
        CollectiveKind::AllToAll => {
            let order = (0..count).map(AxisId::new).collect();
            multiport.all_to_all(builder, given, Destination { dim: 1, order })
        }
        CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Broadcast
        | CollectiveKind::Slice
        | CollectiveKind::Open => {
            unreachable!("not asked for")
        }
    })
}

fn timed_alike(name: &str, schedule: &Schedule) {
    let topology = Topology::new(schedule.mesh.clone(), Hardware::named("tpu_v5p").expect("shipped")).expect("a tick");
    assert_eq!(clock::run(schedule, &topology), clock::run_uncollapsed(schedule, &topology), "{name}");
}

#[test]
fn all_examples() {
    let (mut all, mut some) = (0, 0);
    for path in crate::common::programs("examples") {
        let source = std::fs::read_to_string(&path).expect("a readable example");
        let Some(program) = compiler::check(&source).0 else { continue };
        let Ok(compiled) = compiler::preview(&program, &Options::default()) else { continue };
        let name = crate::common::short_name(&path);
        let devices = compiled.schedule.mesh.device_count();
        if devices * compiled.schedule.operations.node_count() > 1 << 13 {
            continue;
        }
        let proof = proven(&name, &compiled.schedule);
        let collapsed = clock::run(&compiled.schedule, &compiled.topology);
        assert_eq!(collapsed, clock::run_uncollapsed(&compiled.schedule, &compiled.topology), "{name}");
        all += 1;
        some += usize::from(proof.followed < proof.devices);
        // What the compiler asserts is enough for what follows.
        assert!(compiled.schedule.assertions.is_empty() || proof.segments > 0, "{name} is followed as a whole");
        println!("{name}: {} of {devices}", proof.followed);
    }
    assert!(some * 2 > all, "{some} of {all} collapse");
}

/// Rotations around a ring are followed on one device, except for distance doubling.
#[test]
fn all_methods_on_one_axis() {
    let kinds = [&KINDS[..], &[CollectiveKind::Broadcast]].concat();
    for n in 2..=17 {
        for (kind, wiring) in kinds.iter().flat_map(|kind| Wiring::ALL.map(|wiring| (*kind, wiring))) {
            for method in candidates(kind, wiring, u64::from(n)) {
                let chunks = if method.in_chunks() { 2 } else { 1 };
                for extents in [[u64::from(n), 1], [5 * u64::from(n), 2 * u64::from(n)]] {
                    if kind == CollectiveKind::AllToAll && extents[1] == 1 || n > 9 && extents[1] > 1 {
                        continue;
                    }
                    let schedule = one_axis(kind, method, axis(wiring, n), extents, DType::I64, chunks);
                    let name = format!("{} by {} on a {wiring} of {n}, {extents:?}", kind.name(), method.name());
                    let proof = proven(&name, &schedule);
                    timed_alike(&name, &schedule);
                    let turns = match method {
                        Method::ClockwiseRing
                        | Method::AnticlockwiseRing
                        | Method::BidirectionalRingPair
                        | Method::MeetInMiddleRing
                        | Method::BalancedMeetInMiddleRing => n > 2,
                        // Whole values are added in rank order, which is not symmetric.
                        Method::Broadcast => kind != CollectiveKind::AllReduce,
                        Method::OneHop
                        | Method::FuriosaRotation
                        | Method::FuriosaDiagonal
                        | Method::BalancedFuriosaRotation
                        | Method::BalancedFuriosaDiagonal
                        | Method::Direct
                        | Method::DirectHalves
                        | Method::LinkByLink
                        | Method::SwitchSum
                        | Method::Bundled => true,
                        Method::Line
                        | Method::LineBroadcast
                        | Method::LineBundled
                        | Method::QuadDirectionalRing
                        | Method::IdleAxis
                        | Method::TreePacking
                        | Method::Routed
                        | Method::Bruck
                        | Method::DirectParity
                        | Method::RecursiveDoubling
                        | Method::RecursiveHalving
                        | Method::Swing
                        | Method::Tree
                        | Method::DoubleBinaryTree
                        | Method::Chain
                        | Method::ScatterGather
                        | Method::Multiport => false,
                    };
                    // A device that sends to the others is not symmetric to them.
                    let turns = turns && kind != CollectiveKind::Broadcast;
                    assert!(!turns || proof.followed == 1, "{name} is followed on {} devices", proof.followed);
                }
            }
        }
    }
}

#[test]
fn tori_are_followed_on_one_device() {
    for sizes in [&[3, 4][..], &[4, 4], &[6, 4], &[5, 3], &[3, 4, 3], &[4, 4, 4]] {
        let n: u64 = sizes.iter().map(|size| u64::from(*size)).product();
        for kind in KINDS {
            for extents in [[n, n], [n, 3 * n], [4 * n, n], [n, 8 * n], [12 * n, 2 * n]] {
                for chunks in [1, 2] {
                    let name = format!("{} on {sizes:?} of {extents:?} in {chunks}", kind.name());
                    let schedule = multiport(kind, sizes, extents, chunks);
                    let proof = proven(&name, &schedule);
                    assert_eq!(proof.followed, 1, "{name}");
                    timed_alike(&name, &schedule);
                }
            }
        }
    }
}

/// A change of a table entry, or of one device's part, is refused or followed on more devices.
#[test]
fn mutants_are_refused_alike() {
    let (mut all, mut refused) = (0, 0);
    let mut look = |name: &str, schedule: &Schedule, step: usize| {
        for (change, mutant) in mutants(schedule).step_by(step) {
            all += 1;
            refused += usize::from(agree(&format!("{name}, {change}"), &mutant));
        }
    };
    // Tests a sample, or all in a full run.
    let every = |step| if sets::are_full() { 1 } else { step };
    for (name, schedule) in crate::common::schedules::all() {
        look(name, &schedule, every(2));
    }
    for kind in KINDS {
        for (n, wiring) in [(3, Wiring::Ring), (4, Wiring::Ring), (4, Wiring::Switch)] {
            for method in candidates(kind, wiring, u64::from(n)) {
                let extents = [u64::from(n), 2 * u64::from(n)];
                let schedule = one_axis(kind, method, axis(wiring, n), extents, DType::I64, 1);
                look(&format!("{} by {} on {n}", kind.name(), method.name()), &schedule, every(6));
            }
        }
        look(&format!("{} on a torus", kind.name()), &multiport(kind, &[3, 4], [12, 48], 1), every(20));
    }
    println!("{all} mutants, {refused} refused");
    assert!(all > 1000 && refused * 2 > all, "{all} mutants, {refused} refused");
}
