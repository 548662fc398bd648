//! What a collective is, said element by element.

use super::interpreter::{Block, combine, run};
use super::*;
use crate::mesh::Axes;
use crate::schedule::methods::{self, Destination};
use itertools::{Itertools, iproduct};
use proptest::prelude::*;

/// Numbers without pattern, for each device its own.
fn data(mesh: &Mesh, elements: u64, seed: u64) -> Vec<Block> {
    let mut random = fastrand::Rng::with_seed(seed);
    mesh.devices().map(|_| Some((0..elements).map(|_| random.i64(-1000..1000)).collect())).collect()
}

/// An element of a row-major block by its indices.
fn element(block: &[i64], extents: &[u64], indices: &[u64]) -> i64 {
    block[indices.iter().zip(extents).fold(0, |flat, (index, extent)| flat * extent + index) as usize]
}

fn all_indices(extents: &[u64]) -> Vec<Vec<u64>> {
    extents.iter().fold(vec![Vec::new()], |all, extent| {
        all.iter().flat_map(|prefix| (0..*extent).map(move |index| [prefix.as_slice(), &[index]].concat())).collect()
    })
}

/// The blocks that a collective over `axes`, major first, must leave; an exchange puts them down in the `order`.
fn defined(
    mesh: &Mesh,
    (axes, order): (&[AxisId], &[AxisId]),
    extents: &[u64],
    task: Task,
    data: &[Block],
) -> (Vec<u64>, Vec<Vec<i64>>) {
    let n = mesh.group_size(axes.iter().copied());
    let mut result = extents.to_vec();
    match task {
        Task::Gather { dim } => result[dim] *= n,
        Task::Scatter { dim, .. } => result[dim] /= n,
        Task::Reduce { .. } => {}
        Task::Exchange { from, to } => {
            result[from] *= n;
            result[to] /= n;
        }
    }
    let blocks = mesh.devices().map(|device| {
        let own = mesh.rank(device, axes.iter().copied());
        let read = |rank: u64, indices: &[u64]| {
            let member = mesh.with_rank(device, axes.iter().copied(), rank);
            element(data[member.index()].as_ref().unwrap(), extents, indices)
        };
        let sum = |operator, indices: &[u64]| {
            (0..n).map(|rank| read(rank, indices)).reduce(|left, right| combine(operator, left, right)).unwrap()
        };
        let at = |mut indices: Vec<u64>| match task {
            Task::Gather { dim } => {
                let rank = indices[dim] / extents[dim];
                indices[dim] %= extents[dim];
                read(rank, &indices)
            }
            Task::Scatter { dim, operator } => {
                indices[dim] += own * result[dim];
                sum(operator, &indices)
            }
            Task::Reduce { operator } => sum(operator, &indices),
            Task::Exchange { from, to } => {
                let rank = indices[from] / extents[from];
                indices[from] %= extents[from];
                indices[to] += mesh.rank(device, order.iter().copied()) * result[to];
                read(rank, &indices)
            }
        };
        all_indices(&result).into_iter().map(at).collect()
    });
    (result.clone(), blocks.collect())
}

/// The naive run of the schedule gives what the collective is defined to give.
pub(super) fn agrees(schedule: &Schedule, value: OpId, axes: &[AxisId], extents: &[u64], task: Task) {
    agrees_in(axes, schedule, value, axes, extents, task);
}

/// The same of an exchange that puts the axes down in another order.
pub(super) fn agrees_in(
    order: &[AxisId],
    schedule: &Schedule,
    value: OpId,
    axes: &[AxisId],
    extents: &[u64],
    task: Task,
) {
    verify(schedule).unwrap();
    let given = data(&schedule.mesh, extents.iter().product(), 7);
    let (wanted_extents, wanted) = defined(&schedule.mesh, (axes, order), extents, task, &given);
    assert_eq!(schedule.operation(value).extents, wanted_extents);
    let found = &run(schedule, &[given])[value.index()];
    for (device, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert_eq!(found.as_ref(), Some(&wanted), "d{device} of {}", schedule.mesh);
    }
}

fn judge(mesh: &Mesh, extents: &[u64], task: Task, method: Method) {
    let (schedule, value) = build(mesh, extents, task, method);
    agrees(&schedule, value, &[AxisId::new(0)], extents, task);
}

#[test]
fn every_method_of_every_collective() {
    let operator = Operator::Sum;
    for n in SIZES {
        let e = u64::from(n);
        for mesh in meshes(n) {
            for method in Method::ALL {
                for extents in [vec![3, 2], vec![1], vec![2, 1, 3]] {
                    judge(&mesh, &extents, Task::Gather { dim: extents.len() - 1 }, method);
                    judge(&mesh, &extents, Task::Gather { dim: 0 }, method);
                    judge(&mesh, &extents, Task::Reduce { operator }, method);
                }
                for extents in [vec![e, 2], vec![2, 3 * e], vec![1, e]] {
                    let dim = extents.iter().position(|extent| extent.is_multiple_of(e)).unwrap();
                    judge(&mesh, &extents, Task::Scatter { dim, operator }, method);
                    judge(&mesh, &extents, Task::Reduce { operator: Operator::Max }, method);
                    judge(&mesh, &extents, Task::Exchange { from: 1 - dim, to: dim }, method);
                }
            }
        }
    }
}

#[test]
fn gathers_over_two_axes_are_row_major() {
    let mesh = Mesh::of(&[("X", 3), ("Y", 4)]);
    let axes = [0, 1].map(AxisId::new);
    let (mut schedule, _) = build(&mesh, &[2, 2], Task::Gather { dim: 1 }, Method::OneHop);
    let input = schedule.ids().next().unwrap();
    let mut builder = Builder::new(&mut schedule, 1, Span::default());
    let minor = methods::all_gather(&mut builder, Method::MeetInMiddleRing, axes[1], input, 1);
    let both = methods::all_gather(&mut builder, Method::Line, axes[0], minor, 1);
    let kept = builder.all_gather_kept(axes.to_vec(), input, 1);
    agrees(&schedule, both, &axes, &[2, 2], Task::Gather { dim: 1 });
    agrees(&schedule, kept, &axes, &[2, 2], Task::Gather { dim: 1 });
}

#[test]
fn an_exchange_over_several_axes_puts_them_down_in_any_order() {
    let mesh = Mesh::of(&[("X", 3), ("Y", 4), ("Z", 2)]);
    let axes = [0, 1, 2].map(AxisId::new);
    for (extents, order) in iproduct!([[2, 48], [48, 2]], axes.into_iter().permutations(3)) {
        let (from, to) = if extents[0] == 2 { (0, 1) } else { (1, 0) };
        let (mut schedule, _) = build(&mesh, &extents, Task::Reduce { operator: Operator::Min }, Method::Line);
        let input = schedule.ids().next().unwrap();
        let mut builder = Builder::new(&mut schedule, 1, Span::default());
        let methods = [Method::Direct, Method::Bundled, Method::Line];
        let stages: Vec<(Axes, Method)> = axes.map(Axes::one).into_iter().zip(methods).collect();
        let there = Destination { dim: to, order: order.iter().copied().collect() };
        let value = methods::all_to_all_over(&mut builder, &stages, input, from, there);
        agrees_in(&order, &schedule, value, &axes, &extents, Task::Exchange { from, to });
    }
}

#[test]
fn a_permutation_of_ranks() {
    let mesh = Mesh::of(&[("X", 2), ("Y", 3)]);
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    let (mut schedule, _) = build(&mesh, &[2], Task::Gather { dim: 0 }, Method::Line);
    let input = schedule.ids().next().unwrap();
    let sources = [Some(5), None, Some(0), Some(1), Some(2), Some(4)];
    let mut builder = Builder::new(&mut schedule, 1, Span::default());
    let value = methods::permute(&mut builder, axes, input, sources.to_vec());
    verify(&schedule).unwrap();
    let given = data(&mesh, 2, 1);
    let found = &run(&schedule, std::slice::from_ref(&given))[value.index()];
    for (device, source) in sources.into_iter().enumerate() {
        assert_eq!(found[device], source.and_then(|source| given[source as usize].clone()));
    }
}

proptest! {
    #[test]
    fn random_meshes_and_extents(
        sizes in prop::collection::vec(1u32..6, 1..4),
        mut extents in prop::collection::vec(1u64..5, 1..4),
        pick in 0..Method::ALL.len(),
        which in 0..4,
        place in 0usize..3,
        operator in prop::sample::select(vec![Operator::Sum, Operator::Max, Operator::Min]),
    ) {
        let axes: Vec<(&str, u32)> = ["X", "Y", "Z"].into_iter().zip(sizes).collect();
        let mesh = Mesh::of(&axes);
        let n = u64::from(axes[0].1);
        let dim = place % extents.len();
        let task = match which {
            0 => Task::Gather { dim },
            1 => Task::Reduce { operator },
            2 => Task::Scatter { dim, operator },
            _ => Task::Exchange { from: (dim + 1) % extents.len(), to: dim },
        };
        prop_assume!(extents.len() > 1 || which < 3);
        if which > 1 {
            extents[dim] *= n;
        }
        judge(&mesh, &extents, task, Method::ALL[pick]);
    }
}
