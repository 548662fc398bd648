//! Timing of a recipe on the submesh that takes part.

use crate::dtype::DType;
use crate::layout::Sharding;
use crate::schedule::{Array, ArrayId, Builder, Dense, OpId, Schedule, Verified};
use crate::sim::clock::{self, AxisLoad};
use crate::sim::proof::{self, Flaw, Proof};
use crate::span::Span;
use crate::topology::Topology;
use crate::units::Time;

/// Limit of the proof and the clock: operations and operands times followed devices.
pub const MOST_WORK: usize = 1 << 25;

/// Effort of a simulation that takes about a millisecond.
const SMALL: usize = 1 << 15;

/// Whether a schedule exceeds the limit of the proof. Symmetry and segments are analysed only if they matter.
pub fn is_larger_than_proven(schedule: &Schedule) -> bool {
    is_larger_than_followed(schedule) && {
        let work = proof::work_in_segments(Verified::emitted(schedule));
        work.is_none_or(|work| work > MOST_WORK)
    }
}

/// Whether a schedule exceeds the limit of the proof, or cannot be proven in the segments that bring it below the limit.
pub fn is_too_large(schedule: &Schedule) -> bool {
    proven_if_large(schedule).is_err()
}

/// The proof of a schedule that exceeds the limit of a proof without segments; `None` for a smaller one, which is proven
/// once its plan is taken.
///
/// # Errors
/// If it exceeds the limit in segments, too, or cannot be proven in them.
pub fn proven_if_large(schedule: &Schedule) -> Result<Option<Proof>, Flaw> {
    if is_larger_than_followed(schedule) { proof::prove(schedule).map(Some) } else { Ok(None) }
}

/// Whether a schedule exceeds the limit of a proof without segments.
fn is_larger_than_followed(schedule: &Schedule) -> bool {
    let is_more = |devices: usize| work(schedule).saturating_mul(devices) > MOST_WORK;
    is_more(schedule.mesh.device_count()) && is_more(proof::followed(Verified::emitted(schedule)))
}

/// Number of operations and operands.
pub(super) fn work(schedule: &Schedule) -> usize {
    schedule.operations.node_count() + schedule.operations.edge_count()
}

/// Timing of the operations of one collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    /// Time at which the last device has its value.
    pub(super) time: Time,
    /// Busy time of the busiest link: a lower bound for any number of chunks.
    pub(super) load: Time,
    /// Loads of links, by axis of the machine used.
    pub(super) links: Vec<AxisLoad>,
    /// Effort of the simulation: operations and operands times simulated devices.
    pub(super) work: usize,
}

/// A schedule of one array of these local extents on all devices.
pub(super) fn of_block(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId,
) -> Schedule {
    of_block_on(topology, dtype, extents, Sharding::replicated(extents.len()), build).0
}

/// A schedule of one array that is present on some devices only, and its result.
pub(super) fn of_block_on(
    topology: &Topology,
    dtype: DType,
    extents: &[u64],
    sharding: Sharding,
    build: impl FnOnce(&mut Builder<'_>, OpId) -> OpId,
) -> (Schedule, OpId) {
    let mut schedule = Schedule::new(topology.mesh.clone());
    schedule.arrays.push(Array {
        name: String::new(),
        dtype,
        dims: vec![String::new(); extents.len()],
        extents: extents.to_vec(),
        valid: extents.to_vec(),
        definition: Dense::INPUT,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), sharding);
    let result = build(&mut builder, input);
    (schedule, result)
}

/// The time of a schedule; `None` if it has too many operations, a message has no route, or it reaches the time limit.
pub(super) fn timed(schedule: &Schedule, topology: &Topology, limit: Time) -> Option<Trial> {
    let verified = Verified::emitted(schedule);
    let followed = || {
        let collapsed = clock::collapsed(verified, topology).group_size(&schedule.mesh);
        schedule.mesh.device_count() / usize::try_from(collapsed).unwrap_or(1).max(1)
    };
    let mut work = work(schedule).saturating_mul(schedule.mesh.device_count());
    // Symmetry is analysed only if it matters.
    if work > SMALL {
        work = self::work(schedule).saturating_mul(followed());
    }
    if work > MOST_WORK {
        return None;
    }
    let timing = clock::run_below(verified, topology, limit).ok()??;
    let (time, load) = (timing.makespan, timing.busiest_link_time());
    Some(Trial { time, load, links: timing.axis_loads(topology), work })
}
