//! Schedules of one collective with one method.
#![allow(unreachable_pub)]

use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::layout::Sharding;
use shardc::mesh::{Axes, Axis, AxisId, AxisSet, DeviceId, Mesh, Wiring};
use shardc::method::Method;
use shardc::operator::Operator;
use shardc::schedule::{Array, ArrayId, Builder, Dense, OpId, Output, Schedule, methods};
use shardc::span::Span;

/// A schedule of an array with these extents over all axes of a mesh. The operations of `build` must produce the
/// collective's result.
///
/// Gathers and exchanges start from rows sharded over all axes, reductions from sums that are open over all axes, and
/// broadcasts from the first device.
pub fn schedule(
    mesh: Mesh,
    kind: CollectiveKind,
    extents: [u64; 2],
    dtype: DType,
    build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId,
) -> Schedule {
    from_root(mesh, (kind, 0), extents, dtype, build)
}

/// As [`schedule`], with a broadcast from the device of this rank.
pub fn from_root(
    mesh: Mesh,
    (kind, root): (CollectiveKind, u64),
    extents: [u64; 2],
    dtype: DType,
    build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId,
) -> Schedule {
    let axes: Axes = mesh.axis_ids().collect();
    let rooted = Operator::Root(DeviceId(0)).with_root(root, axes, &mesh).expect("a rank");
    let mut schedule = Schedule::new(mesh);
    schedule.arrays.push(Array {
        name: "A".into(),
        dtype,
        dims: vec!["I".to_owned(), "J".to_owned()],
        valid: extents.to_vec(),
        extents: extents.to_vec(),
        definition: Dense::INPUT,
    });
    let closed = |on: [Axes; 2]| Sharding { dims: on.to_vec(), ..Sharding::default() };
    let open = Sharding { open: axes.iter().collect::<AxisSet>(), ..closed([Axes::NONE; 2]) };
    let rows = closed([axes, Axes::NONE]);
    let (from, to) = match kind {
        CollectiveKind::AllGather => (rows, closed([Axes::NONE; 2])),
        CollectiveKind::ReduceScatter => (open, rows),
        CollectiveKind::AllReduce => (open, closed([Axes::NONE; 2])),
        CollectiveKind::AllToAll => (rows, closed([Axes::NONE, axes])),
        CollectiveKind::Broadcast => (Sharding { operator: rooted, ..open.clone() }, closed([Axes::NONE; 2])),
        CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Slice
        | CollectiveKind::Open => {
            unreachable!("not asked for")
        }
    };
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let given = builder.input(ArrayId(0), from);
    let value = build(&mut builder, given);
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: to });
    schedule
}

/// A mesh with one axis.
pub fn axis(wiring: Wiring, n: u32) -> Mesh {
    Mesh::new(vec![Axis { name: "X".into(), size: n, wiring: Some(wiring), over: None }]).expect("a small mesh")
}

/// One collective with one method on one axis.
pub fn one_axis(
    kind: CollectiveKind,
    method: Method,
    mesh: Mesh,
    extents: [u64; 2],
    dtype: DType,
    chunks: u64,
) -> Schedule {
    let x = AxisId::new(0);
    schedule(mesh, kind, extents, dtype, |builder, given| match kind {
        CollectiveKind::AllGather => methods::all_gather(builder, method, x, given, 0),
        CollectiveKind::ReduceScatter => methods::reduce_scatter(builder, method, x, given, 0, Operator::Sum),
        CollectiveKind::AllReduce => methods::all_reduce_in_chunks(builder, method, x, given, Operator::Sum, chunks),
        CollectiveKind::AllToAll => methods::all_to_all(builder, method, x, given, 0, 1),
        CollectiveKind::Broadcast => {
            let wiring = builder.mesh().axis(x).wiring.unwrap_or(Wiring::Ring);
            methods::broadcast(builder, method, (x.into(), wiring), 0, given, chunks)
        }
        CollectiveKind::Permute
        | CollectiveKind::Reshard
        | CollectiveKind::Shift
        | CollectiveKind::Slice
        | CollectiveKind::Open => {
            unreachable!("not asked for")
        }
    })
}
