//! A plan that is proven as a schedule of ours: what it moves, in the order of the proof, on values.

use super::{Plan, Proven};
use crate::dtype::DType;
use crate::export::ranks::replay::{Chunk, Replay};
use crate::export::ranks::state::Slot;
use crate::mesh::Mesh;
use crate::schedule::Schedule;

/// The schedule of a proven plan on a mesh with as many devices as it has ranks, which are numbered alike.
///
/// What a rank fetches or puts is one message for each buffer of another rank.
///
/// - `elements`: of each chunk.
///
/// # Panics
/// If the mesh has another number of devices.
pub fn schedule(plan: &Plan, proof: &Proven, mesh: Mesh, dtype: DType, elements: u64) -> Schedule {
    let mut replay = Replay::new(plan.inplace, (proof.kind, proof.shape), mesh, (dtype, elements), "mscclpp");
    for step in &proof.moves {
        let mut read: Vec<Vec<Chunk>> =
            step.sources.iter().map(|slots| brought(&mut replay, slots, step.rank)).collect();
        if step.reduces {
            let sum = read.into_iter().reduce(|left, right| replay.sum(&left, &right)).unwrap_or_default();
            read = vec![sum; step.targets.len()];
        }
        for (slots, chunks) in step.targets.iter().zip(read) {
            let there = slots.first().map_or(step.rank, |(rank, _, _)| *rank);
            let chunks = if there == step.rank { chunks } else { replay.message(&chunks, step.rank, there) };
            replay.write(slots, &chunks);
        }
    }
    replay.finish()
}

/// Chunks of one rank, on the one that reads them.
fn brought(replay: &mut Replay, slots: &[Slot], reader: usize) -> Vec<Chunk> {
    let chunks = replay.read(slots);
    match slots.first() {
        Some((rank, _, _)) if *rank != reader => replay.message(&chunks, *rank, reader),
        Some(_) | None => chunks,
    }
}
