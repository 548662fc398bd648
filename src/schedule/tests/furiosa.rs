//! The vectors of Furiosa's algorithms, as they are printed in their description.

use super::*;
use crate::schedule::{Cut, OpKind, Route};

/// The vectors of the slices and of the shuffles, in list order.
fn vectors(schedule: &Schedule) -> (Vec<Vec<u64>>, Vec<Vec<u32>>) {
    let mesh = &schedule.mesh;
    let (mut slices, mut shuffles) = (Vec::new(), Vec::new());
    for id in schedule.ids() {
        match &schedule.operation(id).kind {
            OpKind::Slice { region, .. } => {
                let [Cut::At(map), Cut::Whole] = region.as_slice() else { panic!("one cut") };
                slices.push(mesh.devices().map(|device| map.at(mesh, device).unwrap()).collect());
            }
            OpKind::Shuffle { sources, .. } => {
                shuffles.push(mesh.devices().map(|device| sources.of(mesh, device).unwrap().0).collect());
            }
            _ => {}
        }
    }
    (slices, shuffles)
}

fn scatter(n: u32) -> (Schedule, OpId) {
    let task = Task::Scatter { dim: 0, operator: Operator::Sum };
    build(&meshes(n)[0], &[u64::from(n)], task, Method::FuriosaDiagonal)
}

/// The terms of the one sum, as pairs (row, column) on each chip.
fn terms(schedule: &Schedule, sum: OpId) -> Vec<Vec<(i64, i64)>> {
    let n = schedule.mesh.device_count() as i64;
    let rows = (0..n).map(|row| Some((0..n).map(|column| 100 * row + column).collect())).collect();
    let values = interpreter::run(schedule, &[rows]);
    let pair = |block: &interpreter::Block| {
        let number = block.as_ref().unwrap()[0];
        (number / 100, number % 100)
    };
    schedule.operands(sum).iter().map(|term| values[term.index()].iter().map(pair).collect()).collect()
}

#[test]
fn g29_reduce_scatter_on_four_chips() {
    let (schedule, sum) = scatter(4);
    let (slices, shuffles) = vectors(&schedule);
    assert_eq!(slices, [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]]);
    assert_eq!(shuffles, [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]);
    let wanted: Vec<Vec<(i64, i64)>> = (0..4).map(|k| (0..4).map(|d| ((d + k) % 4, d)).collect()).collect();
    assert_eq!(terms(&schedule, sum), wanted);
}

#[test]
fn g30_reduce_scatter_on_three_chips() {
    let (slices, shuffles) = vectors(&scatter(3).0);
    assert_eq!(slices, [[0, 1, 2], [2, 0, 1], [1, 2, 0]]);
    assert_eq!(shuffles, [[1, 2, 0], [2, 0, 1]]);
}

#[test]
fn all_reduce_by_rotation_shifts_the_original() {
    let task = Task::Reduce { operator: Operator::Sum };
    let (schedule, sum) = build(&meshes(4)[0], &[4], task, Method::FuriosaRotation);
    let (slices, shuffles) = vectors(&schedule);
    assert!(slices.is_empty());
    assert_eq!(shuffles, [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]);
    let input = schedule.ids().next().unwrap();
    let terms = schedule.operands(sum);
    assert_eq!((terms.len(), terms[0]), (4, input));
    assert!(terms[1..].iter().all(|term| schedule.operands(*term) == [input]));
}

/// Step 2 of four in two halves, which arrive from both sides; all other vectors are the plain ones.
#[test]
fn the_antipode_of_the_balanced_methods() {
    for (task, method) in [
        (Task::Scatter { dim: 0, operator: Operator::Sum }, Method::BalancedFuriosaDiagonal),
        (Task::Reduce { operator: Operator::Sum }, Method::BalancedFuriosaRotation),
    ] {
        let (schedule, sum) = build(&meshes(4)[0], &[4, 2], task, method);
        let mut shuffles = Vec::new();
        for id in schedule.ids() {
            if let OpKind::Shuffle { sources, route } = &schedule.operation(id).kind {
                let sources: Vec<u32> =
                    schedule.mesh.devices().map(|device| sources.of(&schedule.mesh, device).unwrap().0).collect();
                shuffles.push((sources, *route));
            }
        }
        let [across, one, three] = [vec![2, 3, 0, 1], vec![1, 2, 3, 0], vec![3, 0, 1, 2]];
        let expected = [
            (across.clone(), Route::Hops(2)),
            (across, Route::Hops(-2)),
            (one, Route::Shortest),
            (three, Route::Shortest),
        ];
        assert_eq!(shuffles, expected);
        assert_eq!(schedule.operands(sum).len(), 4);
    }
}
