//! Links that are down or slow: messages are rerouted, and bounds and times account for them.

use super::oracle::{makespan, random_schedule, random_topology};
use super::*;
use crate::bounds;
use crate::collective::Collective;
use crate::dtype::DType;
use crate::layout::{Dim, DimId, Layout};
use crate::link::{DegradedLink, LinkState};
use crate::mesh::{Axes, AxisSet, DeviceId};
use crate::topology::{Link, LinkSide, RouteError, TopologyError};

/// A mesh of TPU v5e with these links degraded, by device numbers.
fn degraded(sizes: &[u32], wiring: Wiring, links: &[(u32, u32, LinkState)]) -> Result<Topology, TopologyError> {
    let axis =
        |(name, size): (&str, &u32)| Axis { name: name.to_owned(), size: *size, wiring: Some(wiring), over: None };
    let mesh = Mesh::new(["X", "Y", "Z"].into_iter().zip(sizes).map(axis).collect()).expect("a small mesh");
    let link = |(from, to, state): &(u32, u32, LinkState)| DegradedLink {
        from: DeviceId(*from),
        to: DeviceId(*to),
        state: *state,
    };
    let links: Vec<DegradedLink> = links.iter().map(link).collect();
    Topology::with_degraded(mesh, Hardware::named("tpu_v5e").expect("shipped"), &links)
}

/// The devices on a message's route, by number.
fn way(topology: &Topology, from: u32, to: u32, route: Route) -> Vec<u32> {
    let hops = topology.route(DeviceId(from), DeviceId(to), route).expect("a way");
    hops.into_iter().filter_map(|hop| hop.to).map(|device| device.0).collect()
}

#[test]
fn messages_go_around_a_link_that_is_down() {
    let down = LinkState::Down;
    let ring = degraded(&[8], Wiring::Ring, &[(0, 1, down)]).expect("in one piece");
    assert_eq!(way(&ring, 0, 1, Route::Shortest), [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(way(&ring, 7, 1, Route::Hops(2)), [6, 5, 4, 3, 2, 1]);
    assert_eq!(way(&ring, 1, 0, Route::Shortest), [0]);
    // On a torus, the first of the shortest routes is taken: ordered by axis, up before down.
    let torus = degraded(&[4, 4], Wiring::Ring, &[(0, 1, down), (1, 0, down)]).expect("in one piece");
    assert_eq!(way(&torus, 0, 1, Route::Hops(1)), [4, 5, 1]);
    assert_eq!(way(&torus, 1, 0, Route::Shortest), [5, 4, 0]);
    assert_eq!(way(&torus, 0, 2, Route::Shortest), [3, 2]);
    assert_eq!(torus.all_links().count(), 62);
}

#[test]
fn a_mesh_that_falls_apart_is_refused() {
    let down = LinkState::Down;
    let apart = |links: &[(u32, u32, LinkState)]| match degraded(&[4], Wiring::Line, links) {
        Err(TopologyError::CutOff { from, to, .. }) => (from, to),
        other => panic!("{other:?}"),
    };
    assert_eq!(apart(&[(1, 2, down)]), ("(0)".to_owned(), "(2)".to_owned()));
    assert_eq!(apart(&[(2, 1, down)]), ("(2)".to_owned(), "(0)".to_owned()));
    for (from, to) in [(0, 2), (3, 0), (1, 1)] {
        assert!(matches!(degraded(&[4], Wiring::Line, &[(from, to, down)]), Err(TopologyError::NoLink { .. })));
    }
    assert!(matches!(degraded(&[4], Wiring::Switch, &[(0, 1, down)]), Err(TopologyError::NoLink { .. })));
}

/// The worse of two states applies, whatever their order.
#[test]
fn a_link_that_is_down_is_down() {
    let (slow, down) = (LinkState::Percent(50), LinkState::Down);
    for links in [[(0, 1, slow), (0, 1, down)], [(0, 1, down), (0, 1, slow)]] {
        let ring = degraded(&[4], Wiring::Ring, &links).expect("in one piece");
        assert_eq!(way(&ring, 0, 1, Route::Shortest), [3, 2, 1]);
    }
}

/// A hop over a link at a quarter of its rate takes four times as long; other hops are unaffected.
#[test]
fn a_slow_link_serves_slower() {
    let ring = degraded(&[4], Wiring::Ring, &[(0, 1, LinkState::Percent(25))]).expect("a machine");
    let mut builder = Builder::new(&ring);
    let input = builder.input(&[1_000_000]);
    builder.up(input, X, true);
    let timing = builder.time(&ring);
    assert_eq!(timing.makespan, at_link(&ring, 4_000_000));
    let busy = |device| {
        let link = Link { axis: AxisId::new(0), side: LinkSide::Up, device: DeviceId(device) };
        timing.link(ring.link_id(link)).busy
    };
    assert_eq!((busy(0), busy(1)), (at_link(&ring, 4_000_000), at_link(&ring, 1_000_000)));
}

/// Routes, times and records of random schedules on random machines with randomly degraded links, compared with the
/// oracle.
#[test]
fn random_schedules_on_degraded_machines() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut around, mut cut) = (0, 0);
    for case in 0..800 {
        let whole = random_topology(&mut random);
        let cables: Vec<(DeviceId, DeviceId)> = whole
            .all_links()
            .filter(|id| matches!(whole.link(*id).side, LinkSide::Up | LinkSide::Down))
            .map(|id| {
                let link = whole.link(id);
                let size = whole.mesh.axis(link.axis).size;
                let by = if link.side == LinkSide::Up { 1 } else { size - 1 };
                let to = (whole.mesh.coordinate(link.device, link.axis) + by) % size;
                (link.device, whole.mesh.with_coordinate(link.device, link.axis, to))
            })
            .collect();
        if cables.is_empty() {
            continue;
        }
        let states = [LinkState::Down, LinkState::Down, LinkState::Percent(50), LinkState::Percent(20)];
        let links: Vec<DegradedLink> = (0..random.usize(1..4))
            .map(|_| {
                let (from, to) = *random.choice(&cables).unwrap();
                DegradedLink { from, to, state: *random.choice(&states).unwrap() }
            })
            .collect();
        let topology = match Topology::with_degraded(whole.mesh.clone(), whole.hardware.clone(), &links) {
            Ok(topology) => topology,
            Err(TopologyError::CutOff { .. }) => {
                cut += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let schedule = random_schedule(&mut random, &topology);
        let timing = run(&schedule, &topology).expect("a sound schedule");
        assert_eq!(timing.makespan.ticks(), makespan(&schedule, &topology), "case {case} with {links:?}");
        around += usize::from(timing.makespan != run(&schedule, &whole).expect("sound").makespan);
    }
    assert!(around > 100 && cut > 20, "{around} cases changed, {cut} machines were cut");
}

/// The lower bound of a gather over all axes, in units of V/w.
fn gather_bound(topology: &Topology) -> f64 {
    let devices = topology.mesh.device_count() as u64;
    let bytes = 720_720 * 16 * devices;
    let axes: Axes = topology.mesh.axis_ids().collect();
    let layout = Layout {
        dtype: DType::I8,
        dims: vec![Dim { id: DimId(0), size: bytes }],
        sharding: Sharding { dims: vec![axes], ..Sharding::default() },
        used: None,
    };
    let all: AxisSet = axes.set();
    let bound = bounds::collective(&Collective::AllGather { axes: all }, &layout, topology);
    bound.bandwidth.ratio(at_link(topology, bytes))
}

/// 7/16 on a ring of 8, 7/8 with one link down in one direction; 15/64 on a 4x4 torus, 5/16 with a cable or one
/// direction of it down.
#[test]
fn bounds_of_gathers_with_links_down() {
    let down = LinkState::Down;
    let bound = |sizes: &[u32], links: &[(u32, u32, LinkState)]| {
        gather_bound(&degraded(sizes, Wiring::Ring, links).expect("in one piece"))
    };
    assert_eq!(bound(&[8], &[]), 7.0 / 16.0);
    assert_eq!(bound(&[8], &[(3, 4, down)]), 7.0 / 8.0);
    // Seven shards over 1.5 w.
    assert!((bound(&[8], &[(3, 4, LinkState::Percent(50))]) - 7.0 / 12.0).abs() < 1e-9);
    assert_eq!(bound(&[4, 4], &[]), 15.0 / 64.0);
    assert_eq!(bound(&[4, 4], &[(0, 1, down), (1, 0, down)]), 5.0 / 16.0);
    assert_eq!(bound(&[4, 4], &[(0, 1, down)]), 5.0 / 16.0);
}

#[test]
fn a_kept_gather_has_no_time_on_a_degraded_machine() {
    let ring = degraded(&[4], Wiring::Ring, &[(0, 1, LinkState::Percent(50))]).expect("a machine");
    let mut builder = Builder::new(&ring);
    let input = builder.input(&[1_000]);
    builder.push(OpKind::AllGather { axes: vec![AxisId::new(0)], dim: 0 }, &[4_000], &[input]);
    assert!(matches!(run(&builder.schedule, &ring), Err(super::super::ClockError::KeptGather { .. })));
    // The error for a missing route differs from the error for a route past the end of a line.
    let line = wired(Hardware::named("tpu_v5e").expect("shipped"), &[4], Some(Wiring::Line));
    assert!(matches!(line.route(DeviceId(0), DeviceId(3), Route::Hops(-1)), Err(RouteError::OffTheEnd { .. })));
}
