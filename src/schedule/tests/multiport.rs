//! Several axes at once: any axis orders, weights and chunks give what the collective is defined to give.

use super::definitions::agrees_in;
use super::*;
use crate::schedule::methods::{AxisOrder, Destination, Multiport, Stage};
use itertools::Itertools;

/// All orders of the axes, with unequal weights.
fn axis_orders(axes: usize) -> Vec<AxisOrder> {
    let orders = (0..axes).permutations(axes).zip(1..);
    orders.map(|(order, weight)| AxisOrder { order, weight }).collect()
}

fn multiport(mesh: &Mesh, method: Method, dim: usize, chunks: u64) -> Multiport {
    let stages: Vec<Stage> = mesh.axis_ids().map(|axis| Stage { axes: axis.into(), dim, method }).collect();
    Multiport { axis_orders: axis_orders(stages.len()), stages, chunks }
}

/// One collective over all axes of the mesh, every device with data of its own.
fn judge(mesh: &Mesh, extents: &[u64], task: Task, multiport: &Multiport) {
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    judge_in(&axes, mesh, extents, task, multiport);
}

/// The same, where an exchange puts the axes down in some order.
fn judge_in(order: &[AxisId], mesh: &Mesh, extents: &[u64], task: Task, multiport: &Multiport) {
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    let mut schedule = Schedule::new(mesh.clone());
    let sharding = private(&axes, extents.len());
    schedule.arrays.push(global(mesh, extents, &sharding));
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let value = builder.input(ArrayId(0), sharding);
    let result = match task {
        Task::Gather { .. } => multiport.all_gather(&mut builder, value),
        Task::Scatter { operator, .. } => multiport.reduce_scatter(&mut builder, value, operator),
        Task::Reduce { operator } => multiport.all_reduce(&mut builder, value, operator),
        Task::Exchange { to, .. } => {
            multiport.all_to_all(&mut builder, value, Destination { dim: to, order: order.iter().copied().collect() })
        }
    };
    agrees_in(order, &schedule, result, &axes, extents, task);
}

#[test]
fn any_axis_orders_and_chunks() {
    let operator = Operator::Sum;
    let meshes: [&[(&str, u32)]; 5] = [
        &[("X", 2), ("Y", 3)],
        &[("X", 4), ("Y", 3)],
        &[("X", 5), ("Y", 4)],
        &[("X", 1), ("Y", 4)],
        &[("X", 2), ("Y", 3), ("Z", 4)],
    ];
    for mesh in meshes.map(Mesh::of) {
        let n = mesh.device_count() as u64;
        for method in [Method::BalancedMeetInMiddleRing, Method::Line, Method::OneHop, Method::BidirectionalRingPair] {
            for (extents, chunks) in [([1, 1], 1), ([3, 2], 1), ([7, 3], 2), ([2, 9], 5)] {
                for dim in [0, 1] {
                    let multiport = multiport(&mesh, method, dim, chunks);
                    judge(&mesh, &extents, Task::Gather { dim }, &multiport);
                    let mut whole = extents;
                    whole[dim] *= n;
                    judge(&mesh, &whole, Task::Scatter { dim, operator }, &multiport);
                    judge(&mesh, &whole, Task::Reduce { operator: Operator::Max }, &multiport);
                }
            }
        }
    }
}

#[test]
fn exchanges_in_any_order() {
    let meshes: [&[(&str, u32)]; 4] =
        [&[("X", 2), ("Y", 3)], &[("X", 4), ("Y", 3)], &[("X", 1), ("Y", 4)], &[("X", 2), ("Y", 3), ("Z", 4)]];
    for mesh in meshes.map(Mesh::of) {
        let n = mesh.device_count() as u64;
        for method in [Method::DirectHalves, Method::DirectParity, Method::Bundled, Method::Line, Method::Direct] {
            for (extents, chunks) in [([1, n], 1), ([3, 2 * n], 2), ([2, 5 * n], 2)] {
                for order in mesh.axis_ids().permutations(mesh.axes().len()) {
                    let there = multiport(&mesh, method, 0, chunks);
                    judge_in(&order, &mesh, &extents, Task::Exchange { from: 0, to: 1 }, &there);
                    let (turned, back) = ([extents[1], extents[0]], multiport(&mesh, method, 1, chunks));
                    judge_in(&order, &mesh, &turned, Task::Exchange { from: 1, to: 0 }, &back);
                }
            }
        }
    }
}

/// Weights of nothing and shards of one element leave axis orders without a part.
#[test]
fn empty_axis_orders() {
    let mesh = Mesh::of(&[("X", 3), ("Y", 3)]);
    let mut multiport = multiport(&mesh, Method::BalancedMeetInMiddleRing, 0, 4);
    multiport.axis_orders[0].weight = 0;
    judge(&mesh, &[1], Task::Gather { dim: 0 }, &multiport);
    judge(&mesh, &[9], Task::Reduce { operator: Operator::Sum }, &multiport);
}
