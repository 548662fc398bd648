//! Schedules in the formats of other tools: what is written is read back, and does what the schedule did.

mod common;

use common::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::export::msccl::{self, Dialect, Protocol};
use shardc::export::ranks;
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::Schedule;
use shardc::schedule::methods::{broadcasts_in_chunks, candidates};

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];
const WIRINGS: [Wiring; 3] = [Wiring::Ring, Wiring::Line, Wiring::Switch];

/// Every method of every collective on so many devices.
fn schedules(n: u32, mut with: impl FnMut(&str, CollectiveKind, Method, &Schedule)) {
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

#[test]
fn msccl_comes_back_and_is_proven() {
    let mut proven = 0;
    for n in 2..=16 {
        schedules(n, |name, _, _, schedule| {
            let algorithm = ranks::algorithm(schedule).unwrap_or_else(|refused| panic!("{name}: {refused}"));
            for dialect in [Dialect::Msccl, Dialect::Azure] {
                let options = msccl::Options { dialect, protocol: Protocol::Simple, sizes: None };
                let program =
                    msccl::build(&algorithm, "it", &options).unwrap_or_else(|unsaid| panic!("{name}: {unsaid}"));
                let text = msccl::write(&program, &options);
                let back = msccl::read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                assert_eq!(back.gpus, program.gpus, "{name}");
                let proof = msccl::prove(&back, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}\n{text}"));
                assert_eq!(proof.kind, algorithm.kind, "{name}");
                assert_eq!(proof.unused, None, "{name}\n{text}");
                proven += 1;
            }
        });
    }
    assert!(proven > 1000, "{proven}");
}
