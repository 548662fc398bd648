//! If one device represents all, the run equals the run over all devices exactly.

use super::oracle::{random_schedule, random_topology};
use super::*;
use crate::link::{DegradedLink, LinkState};
use crate::mesh::{AxisSet, DeviceId};
use crate::schedule::verify;
use crate::sim::clock::run_uncollapsed;

/// A permutation of the groups of some axes that mostly commutes with steps along some of them.
fn random_sources(random: &mut fastrand::Rng, topology: &Topology) -> Sources {
    let mesh = &topology.mesh;
    let mut axes: Vec<AxisId> = mesh.axis_ids().filter(|_| random.bool()).collect();
    random.shuffle(&mut axes);
    let shifts: Vec<u64> = axes.iter().map(|axis| random.u64(0..mesh.size(*axis))).collect();
    let mirrored: Vec<bool> = axes.iter().map(|_| random.u8(0..6) == 0).collect();
    let origin = DeviceId(0);
    let entries = (0..mesh.group_size(axes.iter().copied())).map(|rank| {
        let mut device = mesh.with_rank(origin, axes.iter().copied(), rank);
        for ((axis, shift), mirrored) in axes.iter().zip(&shifts).zip(&mirrored) {
            let (at, size) = (u64::from(mesh.coordinate(device, *axis)), mesh.size(*axis));
            let at = if *mirrored { (size - at) % size } else { at };
            device = mesh.with_coordinate(device, *axis, u32::try_from((at + shift) % size).unwrap());
        }
        Some(u32::try_from(mesh.rank(device, axes.iter().copied())).unwrap())
    });
    let mut entries: Vec<Option<u32>> = entries.collect();
    if random.u8(0..12) == 0 {
        let place = random.usize(0..entries.len());
        entries[place] = None;
    }
    Sources::Table { axes, entries }
}

/// A random schedule, mostly symmetric along some axes.
fn symmetric_schedule(random: &mut fastrand::Rng, topology: &Topology) -> Schedule {
    let mut builder = Builder::new(topology);
    let mut values = vec![builder.input(&[60_000]), builder.input(&[60_000])];
    for _ in 0..random.usize(1..14) {
        let [one, two] = [0, 1].map(|_| *random.choice(&values).unwrap());
        let axis = random.usize(0..topology.mesh.axes().len());
        let (size, wiring) = (topology.mesh.axes()[axis].size, topology.axes[axis].wiring);
        let value = match random.u32(0..7) {
            0 | 1 => {
                let sources = random_sources(random, topology);
                builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[60_000], &[one])
            }
            2 => {
                let hops = if size == 1 { 0 } else { random.i64(1..i64::from(size)) };
                let signed = if random.bool() { hops } else { -hops };
                builder.shift(one, axis, -signed, wiring != Wiring::Line, Route::Hops(signed))
            }
            3 => builder.shift(
                one,
                axis,
                random.i64(1 - i64::from(size)..i64::from(size)),
                wiring != Wiring::Line,
                Route::Shortest,
            ),
            4 => builder.add(&[one, two]),
            gathers => {
                let n = if gathers == 5 { u64::from(size) } else { 1 };
                let gather = OpKind::AllGather { axes: vec![AxisId::new(axis)], dim: 0 };
                let whole = if gathers == 5 { builder.push(gather, &[n * 60_000], &[one]) } else { one };
                let map = match random.u8(0..6) {
                    0 => CoordMap::shifted(AxisId::new(axis), -1),
                    _ => CoordMap::rotated(AxisId::new(axis), random.i64(-3..3), n),
                };
                let view = OpKind::Slice { view: vec![n, 60_000], region: vec![Cut::At(map), Cut::Whole] };
                builder.push(view, &[60_000], &[whole])
            }
        };
        values.push(value);
    }
    builder.schedule
}

#[test]
fn one_device_for_all_is_the_run_over_all() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut some, mut sent) = (0, 0);
    for case in 0..6000 {
        let topology = random_topology(&mut random);
        let schedule = if case % 4 == 0 {
            random_schedule(&mut random, &topology)
        } else {
            symmetric_schedule(&mut random, &topology)
        };
        let collapses = !collapsed(&schedule, &topology).is_empty();
        let timing = run(&schedule, &topology);
        assert_eq!(timing, run_uncollapsed(&schedule, &topology), "case {case}: {schedule:#?}");
        some += usize::from(collapses);
        sent += usize::from(collapses && timing.is_ok_and(|timing| timing.busiest.is_some()));
    }
    assert!(some > 1500 && sent > 500, "{some} cases collapse, {sent} of them send");
}

/// The axes along which one device represents all.
fn collapsed(schedule: &Schedule, topology: &Topology) -> AxisSet {
    super::super::collapsed(verify(schedule).expect("a schedule"), topology)
}

/// One slow link prevents any collapsing.
#[test]
fn a_slow_link_is_seen() {
    let sound = wired(Hardware::named("tpu_v5e").expect("shipped"), &[4, 6], Some(Wiring::Ring));
    let mut builder = Builder::new(&sound);
    let input = builder.input(&[60_000]);
    ring_gather(&mut builder, input, X, 2, 1);
    assert_eq!(collapsed(&builder.schedule, &sound).len(), 2);
    let slow = DegradedLink { from: DeviceId(6), to: DeviceId(12), state: LinkState::Percent(50) };
    let slow = Topology::with_degraded(sound.mesh.clone(), sound.hardware.clone(), &[slow]).expect("a link");
    assert!(collapsed(&builder.schedule, &slow).is_empty());
    assert!(builder.time(&slow).makespan > builder.time(&sound).makespan);
    // One device differs along X; Y is still symmetric.
    let entries = vec![Some(1), Some(0), Some(2), Some(3)];
    let sources = Sources::Table { axes: vec![AxisId::new(X)], entries };
    builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[60_000], &[input]);
    assert_eq!(collapsed(&builder.schedule, &sound), AxisSet::one(AxisId::new(1)));
}
