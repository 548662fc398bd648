//! Every method against the definition of its collective, and its messages against the known counts.
// The tests count in small numbers; plain casts keep them readable.
#![allow(clippy::cast_possible_truncation)]

mod definitions;
mod furiosa;
mod interpreter;
mod loads;
mod multiport;
mod presence;
mod text;

use super::methods::{Method, candidates};
use super::{Array, ArrayId, Builder, CoordMap, Dense, OpId, Output, Route, Schedule, Sources, verify};
use crate::collective::CollectiveKind;
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{AxisId, DeviceId, Mesh, Wiring};
use crate::operator::Operator;
use crate::span::Span;

/// One collective on axis 0 of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Gather { dim: usize },
    Scatter { dim: usize, operator: Operator },
    Reduce { operator: Operator },
    Exchange { from: usize, to: usize },
}

/// A schedule of one input with these local extents, each device with data of its own, and one collective.
fn build(mesh: &Mesh, extents: &[u64], task: Task, method: Method) -> (Schedule, OpId) {
    let mut schedule = Schedule::new(mesh.clone());
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    let sharding = private(&axes, extents.len());
    schedule.arrays.push(global(mesh, extents, &sharding));
    let mut builder = Builder::new(&mut schedule, 0, Span::new(3, 8));
    let value = builder.input(ArrayId(0), sharding);
    let axis = axes[0];
    let result = match task {
        Task::Gather { dim } => super::methods::all_gather(&mut builder, method, axis, value, dim),
        Task::Scatter { dim, operator } => {
            super::methods::reduce_scatter(&mut builder, method, axis, value, dim, operator)
        }
        Task::Reduce { operator } => super::methods::all_reduce(&mut builder, method, axis, value, operator),
        Task::Exchange { from, to } => super::methods::all_to_all(&mut builder, method, axis, value, from, to),
    };
    (schedule, result)
}

/// All axes on the first dim, so that no two devices hold the same.
fn private(axes: &[AxisId], rank: usize) -> Sharding {
    let mut sharding = Sharding::replicated(rank);
    sharding.dims[0] = axes.iter().copied().collect();
    sharding
}

fn global(mesh: &Mesh, local: &[u64], sharding: &Sharding) -> Array {
    let extents: Vec<u64> =
        local.iter().zip(&sharding.dims).map(|(extent, axes)| extent * axes.group_size(mesh)).collect();
    let dims = (0..local.len()).map(|dim| format!("D{dim}")).collect();
    Array { name: "A".into(), dtype: DType::I64, dims, valid: extents.clone(), extents, definition: Dense::INPUT }
}

/// `{X: n}` and `{X: n, Y: 2}`.
fn meshes(n: u32) -> [Mesh; 2] {
    [Mesh::of(&[("X", n)]), Mesh::of(&[("X", n), ("Y", 2)])]
}

const SIZES: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];

#[test]
fn candidates_fit_the_wiring() {
    let names = |kind, wiring, n| candidates(kind, wiring, n).into_iter().map(Method::name).collect::<Vec<_>>();
    let (ring, line, switch) = (Wiring::Ring, Wiring::Line, Wiring::Switch);
    assert!(names(CollectiveKind::AllGather, ring, 1).is_empty());
    assert_eq!(names(CollectiveKind::AllGather, ring, 2), ["line"]);
    assert_eq!(names(CollectiveKind::AllGather, switch, 2), ["one_hop"]);
    let rings = ["bidirectional_ring_pair", "meet_in_middle_ring", "clockwise_ring", "anticlockwise_ring"];
    assert_eq!(names(CollectiveKind::AllGather, ring, 5), [&rings[..], &["bruck", "broadcast"]].concat());
    assert_eq!(names(CollectiveKind::AllGather, ring, 6)[0], "balanced_meet_in_middle_ring");
    let doublings = ["bruck", "recursive_doubling", "recursive_halving"];
    let diagonal = ["furiosa_diagonal", "line_broadcast"];
    assert_eq!(names(CollectiveKind::ReduceScatter, line, 4), [&["line"], &doublings[..], &diagonal].concat());
    assert_eq!(names(CollectiveKind::ReduceScatter, line, 3), ["line", "bruck", "furiosa_diagonal", "line_broadcast"]);
    let balanced = ["balanced_furiosa_diagonal", "balanced_furiosa_rotation"];
    assert!(names(CollectiveKind::ReduceScatter, ring, 6).ends_with(&["furiosa_diagonal", balanced[0], "broadcast"]));
    assert!(names(CollectiveKind::ReduceScatter, ring, 5).ends_with(&["furiosa_diagonal", "broadcast"]));
    assert!(names(CollectiveKind::AllReduce, ring, 4).ends_with(&balanced));
    for (wiring, n) in [(ring, 2), (ring, 5), (line, 4), (switch, 4)] {
        let all =
            [CollectiveKind::ReduceScatter, CollectiveKind::AllReduce].map(|kind| names(kind, wiring, n)).concat();
        assert!(!all.iter().any(|name| balanced.contains(name)), "{wiring} of {n}");
    }
    assert_eq!(
        names(CollectiveKind::AllReduce, line, 5),
        [
            "line",
            "bruck",
            "chain",
            "tree",
            "double_binary_tree",
            "line_broadcast",
            "furiosa_diagonal",
            "furiosa_rotation"
        ]
    );
    assert_eq!(names(CollectiveKind::AllReduce, switch, 2), ["one_hop", "furiosa_diagonal", "furiosa_rotation"]);
    assert!(names(CollectiveKind::AllReduce, ring, 8).contains(&"swing"));
    assert!(names(CollectiveKind::AllReduce, ring, 6).contains(&"broadcast"));
    assert_eq!(names(CollectiveKind::AllToAll, ring, 6), ["direct_halves", "direct", "bundled", "link_by_link"]);
    assert_eq!(
        names(CollectiveKind::AllToAll, ring, 8),
        ["direct_halves", "direct", "bundled", "link_by_link", "direct_parity"]
    );
    assert_eq!(names(CollectiveKind::AllToAll, ring, 3), ["direct"]);
    assert_eq!(names(CollectiveKind::AllToAll, ring, 5), ["direct", "bundled", "link_by_link"]);
    assert_eq!(names(CollectiveKind::AllToAll, line, 5), ["line", "line_bundled", "direct"]);
    let full = Wiring::Full;
    assert_eq!(names(CollectiveKind::AllGather, full, 2), ["line"]);
    assert_eq!(names(CollectiveKind::AllGather, full, 3), ["one_hop", "bruck"]);
    assert_eq!(names(CollectiveKind::AllToAll, full, 8), ["direct", "bruck"]);
    assert_eq!(names(CollectiveKind::Broadcast, full, 8), ["line", "tree", "scatter_gather", "direct"]);
    assert!(names(CollectiveKind::Slice, ring, 4).is_empty());
}

#[test]
fn names_of_methods() {
    for method in Method::ALL {
        assert_eq!(Method::from_name(method.name()), Some(method));
    }
    assert_eq!(Method::from_name("ring"), None);
}

#[test]
fn maps_and_sources() {
    let mesh = Mesh::of(&[("X", 4), ("Y", 2)]);
    let [x, y] = [0, 1].map(AxisId::new);
    let device = mesh.with_rank(DeviceId(0), [x, y], 7);
    assert_eq!(CoordMap::rotated(x, 2, 4).at(&mesh, device), Some(1));
    assert_eq!(CoordMap::shifted(y, -2).at(&mesh, device), None);
    assert_eq!(CoordMap::rank(&mesh, &[y, x]).at(&mesh, device), Some(7));
    let line = Sources::Shift { axes: x.into(), by: 1, wrap: false };
    assert_eq!(line.of(&mesh, device), None);
    let table = Sources::Table { axes: vec![x], entries: vec![Some(3), None, Some(1), Some(0)] };
    assert_eq!(table.of(&mesh, device), Some(DeviceId(1)));
}
