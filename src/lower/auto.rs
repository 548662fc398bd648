//! Which method: the one whose operations take the least simulated time on the axis by itself.

use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{AxisId, Mesh};
use crate::schedule::methods::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, OpId, Schedule};
use crate::sim::clock;
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;

/// The part of the machine along some axes: every group of theirs looks like it. Its axes are numbered as they are given.
pub(super) fn along(topology: &Topology, axes: &[AxisId]) -> Topology {
    let mesh = Mesh::new(axes.iter().map(|axis| topology.mesh.axis(*axis).clone()).collect());
    let mesh = mesh.expect("a part of a mesh is a mesh");
    Topology { mesh, axes: axes.iter().map(|axis| topology.links(*axis)).collect(), ..topology.clone() }
}

/// Operations of one collective times devices: what is larger is too much to be tried on the clock.
const MOST_WORK: usize = 1 << 24;

/// The simulated time of some operations on a value of these extents that all devices have; `None` if there are too
/// many, or a message has no way.
pub fn simulate(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    build: impl FnOnce(&mut Builder<'_>, OpId),
) -> Option<Time> {
    let mut schedule = Schedule::new(topology.mesh.clone());
    schedule.arrays.push(Array {
        name: String::new(),
        dtype,
        dims: vec![String::new(); extents.len()],
        extents: extents.to_vec(),
        valid: extents.to_vec(),
        definition: Dense::Input,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), Sharding::replicated(extents.len()));
    build(&mut builder, input);
    if schedule.operations.node_count().saturating_mul(topology.mesh.device_count()) > MOST_WORK {
        return None;
    }
    clock::run(&schedule, topology).ok().map(|timing| timing.makespan)
}

/// The fastest of the candidates; the first of equals.
pub(super) fn fastest(candidates: Vec<Method>, mut time: impl FnMut(Method) -> Option<Time>) -> Option<Method> {
    if let [only] = candidates[..] {
        return Some(only);
    }
    let timed = candidates.into_iter().filter_map(|method| Some((time(method)?, method)));
    timed.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, method)| method)
}
