//! Every method of every collective along one axis.

use crate::common::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::Schedule;
use shardc::schedule::methods::{broadcasts_in_chunks, candidates};

/// All kinds that have methods.
pub(crate) const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];
/// All wirings of one axis.
pub(crate) const WIRINGS: [Wiring; 4] = Wiring::ALL;

/// Calls `with` for every method of every collective on this number of devices.
pub(crate) fn schedules(n: u32, mut with: impl FnMut(&str, CollectiveKind, Method, &Schedule)) {
    for (kind, wiring) in KINDS.into_iter().flat_map(|kind| WIRINGS.map(|wiring| (kind, wiring))) {
        for method in candidates(kind, wiring, u64::from(n)) {
            let in_chunks = match kind {
                CollectiveKind::Broadcast => broadcasts_in_chunks(method),
                _ => method.in_chunks(),
            };
            for chunks in if in_chunks { vec![1, 2, 5] } else { vec![1] } {
                let extents = [u64::from(n), if in_chunks { 10 } else { 2 * u64::from(n) }];
                let schedule = one_axis(kind, method, axis(wiring, n), extents, DType::F32, chunks);
                let name = format!("{} by {} on a {wiring} of {n}, {chunks} chunks", kind.name(), method.name());
                with(&name, kind, method, &schedule);
            }
        }
    }
}
