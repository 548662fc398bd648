//! A file that is proven as a schedule of ours: its steps done again in the order of the proof, on values.

use super::{At, Op, Place, Program, Proven};
use crate::dtype::DType;
use crate::export::ranks::replay::{Chunk, Replay};
use crate::mesh::Mesh;
use crate::schedule::Schedule;
use std::collections::BTreeMap;

/// The schedule of a proven file on a mesh with as many devices as it has ranks, which are numbered alike.
///
/// - `elements`: of each chunk.
///
/// # Panics
/// If the mesh has another number of devices.
pub fn schedule(program: &Program, proof: &Proven, mesh: Mesh, dtype: DType, elements: u64) -> Schedule {
    let what = (proof.kind, proof.shape);
    let mut replay = Replay::new(program.in_place, what, mesh, (dtype, elements), "msccl");
    let mut on_the_way: BTreeMap<At, Vec<Chunk>> = BTreeMap::new();
    for (at, sender) in &proof.order {
        let Some(step) = program.gpus[at.rank].blocks[at.block].steps.get(at.step).copied() else { continue };
        let received =
            sender.as_ref().and_then(|sender| Some(replay.message(&on_the_way.remove(sender)?, sender.rank, at.rank)));
        let source = if step.op.reads_source() { read(&replay, at.rank, step.source, step.count) } else { Vec::new() };
        let received = received.unwrap_or_default();
        let result = match step.op {
            Op::Nop => continue,
            Op::Send | Op::Copy => source,
            Op::Receive | Op::ReceiveCopySend => received,
            Op::ReceiveReduceSend | Op::ReceiveReduceCopy | Op::ReceiveReduceCopySend => replay.sum(&received, &source),
            Op::Reduce => {
                let target = read(&replay, at.rank, step.target, step.count);
                replay.sum(&target, &source)
            }
        };
        if step.op.writes_target() {
            let slots = replay.slots(at.rank, (step.target.buffer, step.target.chunk), step.count);
            replay.write(&slots, &result);
        }
        if step.op.sends() {
            on_the_way.insert(*at, result);
        }
    }
    replay.finish()
}

fn read(replay: &Replay, rank: usize, place: Place, count: u64) -> Vec<Chunk> {
    replay.read(&replay.slots(rank, (place.buffer, place.chunk), count))
}
