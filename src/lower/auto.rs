//! Which method: the one whose operations take the least simulated time on the axis by itself.

use crate::dtype::DType;
use crate::layout::Sharding;
use crate::schedule::methods::Method;
use crate::schedule::{Array, ArrayId, Builder, Dense, OpId, Schedule};
use crate::sim::clock;
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;

/// The simulated time of some operations on a value of these extents that all devices have.
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
