//! Bytes over each link, counted from the shuffles alone, against the tables of the methods.

use super::*;
use std::collections::BTreeMap;

/// Bytes over the links that leave device d0's row of axis 0 upwards and downwards, by coordinate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Loads {
    up: Vec<u64>,
    down: Vec<u64>,
    messages: u64,
}

/// Which devices have a block after each operation.
fn present(schedule: &Schedule) -> Vec<Vec<bool>> {
    let mesh = &schedule.mesh;
    let mut present: Vec<Vec<bool>> = Vec::new();
    for id in schedule.ids() {
        let operands = schedule.operands(id);
        let has = |operand: OpId, device: DeviceId| present[operand.index()][device.index()];
        let here = |device: DeviceId| match &schedule.operation(id).kind {
            crate::schedule::OpKind::Slice { view, region } => {
                has(operands[0], device)
                    && view.iter().zip(region).all(|(extent, cut)| match cut {
                        crate::schedule::Cut::At(map) => map.at(mesh, device).is_some_and(|at| at < *extent),
                        _ => true,
                    })
            }
            crate::schedule::OpKind::Shuffle { sources, .. } => {
                sources.of(mesh, device).is_some_and(|source| has(operands[0], source))
            }
            crate::schedule::OpKind::Add { .. } => operands.iter().any(|operand| has(*operand, device)),
            _ => true,
        };
        let row = mesh.devices().map(here).collect();
        present.push(row);
    }
    present
}

/// Sends every message along axis 0 of a mesh of that one axis.
fn loads(schedule: &Schedule) -> Loads {
    let (mesh, axis) = (&schedule.mesh, AxisId::new(0));
    let n = i64::from(mesh.axis(axis).size);
    let present = present(schedule);
    let mut loads = Loads { up: vec![0; n as usize], down: vec![0; n as usize], messages: 0 };
    for id in schedule.ids() {
        let crate::schedule::OpKind::Shuffle { sources, route } = &schedule.operation(id).kind else { continue };
        for device in mesh.devices().filter(|device| present[id.index()][device.index()]) {
            let source = i64::from(sources.of(mesh, device).unwrap().0);
            let hops = match route {
                Route::Hops(hops) => *hops,
                Route::Shortest => {
                    let up = (i64::from(device.0) - source).rem_euclid(n);
                    if 2 * up <= n { up } else { up - n }
                }
            };
            for hop in 0..hops.abs() {
                let at = (source + hop * hops.signum()).rem_euclid(n) as usize;
                let link = if hops > 0 { &mut loads.up } else { &mut loads.down };
                link[at] += schedule.operation(id).bytes();
            }
            loads.messages += 1;
        }
    }
    loads
}

const SHARD: u64 = 2 * 8;

fn gather(n: u32, method: Method) -> Loads {
    loads(&build(&meshes(n)[0], &[1, 2], Task::Gather { dim: 0 }, method).0)
}

fn scatter(n: u32, method: Method) -> Loads {
    let operator = Operator::Sum;
    loads(&build(&meshes(n)[0], &[u64::from(n), 2], Task::Scatter { dim: 0, operator }, method).0)
}

#[test]
fn rings_carry_what_the_table_says() {
    for n in SIZES.into_iter().filter(|n| *n > 2) {
        let e = u64::from(n);
        let even = n.is_multiple_of(2);
        let table = [
            (Method::ClockwiseRing, (e - 1) * SHARD, 0, e * (e - 1)),
            (Method::AnticlockwiseRing, 0, (e - 1) * SHARD, e * (e - 1)),
            (Method::BidirectionalRingPair, (e - 1) * SHARD / 2, (e - 1) * SHARD / 2, 2 * e * (e - 1)),
            (Method::MeetInMiddleRing, e / 2 * SHARD, (e - 1) / 2 * SHARD, e * (e - 1)),
            (
                Method::BalancedMeetInMiddleRing,
                (e - 1) * SHARD / 2,
                (e - 1) * SHARD / 2,
                if even { e * e } else { e * (e - 1) },
            ),
        ];
        for (method, up, down, messages) in table {
            let wanted = Loads { up: vec![up; n as usize], down: vec![down; n as usize], messages };
            assert_eq!(gather(n, method), wanted, "gather by {} over {n}", method.name());
            assert_eq!(scatter(n, method), wanted, "scatter by {} over {n}", method.name());
        }
    }
}

#[test]
fn lines_carry_what_the_table_says() {
    for n in SIZES {
        let (found, reduced) = (gather(n, Method::Line), scatter(n, Method::Line));
        for i in 0..u64::from(n) {
            // Link i -> i + 1 brings the i + 1 shards from below, and takes the sums of the owners above.
            let at = i as usize;
            let (below, above) = (i + 1, u64::from(n) - 1 - i);
            let is_link = above > 0;
            assert_eq!(found.up[at], if is_link { below * SHARD } else { 0 });
            assert_eq!(reduced.up[at], above * SHARD);
            assert_eq!(found.down[at], if i > 0 { (above + 1) * SHARD } else { 0 });
            assert_eq!(reduced.down[at], i * SHARD);
        }
    }
}

/// Bytes over the busiest links of an AllToAll with blocks of two elements.
fn exchange(n: u32, method: Method) -> (u64, u64) {
    let (schedule, _) = build(&meshes(n)[0], &[2, u64::from(n)], Task::Exchange { from: 0, to: 1 }, method);
    let Loads { up, down, .. } = loads(&schedule);
    (up.into_iter().max().unwrap() / 8, down.into_iter().max().unwrap() / 8)
}

#[test]
fn exchanges_carry_what_the_table_says() {
    // Elements, two to a block.
    let shortest = [(4, 3, 1), (5, 3, 3), (6, 6, 3), (8, 10, 6), (9, 10, 10), (16, 36, 28)];
    for (n, up, down) in shortest {
        assert_eq!(exchange(n, Method::Direct), (2 * up, 2 * down), "{n}");
        let n64 = u64::from(n);
        let half = if n.is_multiple_of(2) { n64 * n64 / 4 } else { (n64 * n64 - 1) / 4 };
        assert_eq!(exchange(n, Method::DirectHalves), (half, half), "{n}");
        assert_eq!(exchange(n, Method::Bundled), (half, half), "{n}");
        assert_eq!(exchange(n, Method::LinkByLink), (half, half), "{n}");
    }
}

/// By parity the antipodes' blocks are balanced if n divides by 4; else a link has one block more or less than that.
#[test]
fn exchanges_by_parity() {
    for n in (4..=18u32).step_by(2) {
        let both = |loads: &[u64]| (loads.iter().min().copied(), loads.iter().max().copied());
        let (schedule, _) =
            build(&meshes(n)[0], &[2, u64::from(n)], Task::Exchange { from: 0, to: 1 }, Method::DirectParity);
        let Loads { up, down, .. } = loads(&schedule);
        // Elements, two to a block.
        let (least, most) = match u64::from(n) {
            n if n % 4 == 0 => (n * n / 4, n * n / 4),
            n => ((n * n - 4) / 4, (n * n + 4) / 4),
        };
        for way in [up, down] {
            assert_eq!(both(&way), (Some(least * 8), Some(most * 8)), "{n}");
        }
    }
}

#[test]
fn steps_of_each_ring() {
    let steps = |method| {
        let (schedule, value) = build(&meshes(8)[0], &[2], Task::Gather { dim: 0 }, method);
        let mut depth: BTreeMap<OpId, usize> = BTreeMap::new();
        for id in schedule.ids() {
            let before = schedule.operands(id).iter().map(|operand| depth[operand]).max().unwrap_or(0);
            let moves = matches!(schedule.operation(id).kind, crate::schedule::OpKind::Shuffle { .. });
            depth.insert(id, before + usize::from(moves));
        }
        depth[&value]
    };
    assert_eq!(steps(Method::ClockwiseRing), 7);
    assert_eq!(steps(Method::BidirectionalRingPair), 7);
    assert_eq!(steps(Method::MeetInMiddleRing), 4);
    assert_eq!(steps(Method::BalancedMeetInMiddleRing), 4);
    assert_eq!(steps(Method::OneHop), 1);
}

#[test]
fn schedules_grow_with_the_axis_and_not_with_the_mesh() {
    for method in Method::ALL {
        let task = Task::Reduce { operator: Operator::Sum };
        let count = |mesh: &Mesh| build(mesh, &[16, 2], task, method).0.operations.node_count();
        let row = count(&Mesh::of(&[("X", 16)]));
        assert_eq!(count(&Mesh::of(&[("X", 16), ("Y", 16), ("Z", 16)])), row);
        assert!(row <= 16 * 10, "{} has {row} operations", method.name());
    }
}
