//! Errors that were once proven by mistake, and limits of runtimes.

use super::file::FileWorld;
use super::world::{all_runs, one_run};
use super::{ROOM, plan_runs};
use crate::common::collectives::schedules;
use crate::common::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::export::msccl::{self, Block, Calls, Dialect, Gpu, Op, Place, Program, Protocol, Room, Step, Unsaid};
use shardc::export::mscclpp::{self, Operation, Plan};
use shardc::export::ranks::{self, Access, Algorithm, Buffer, Flaw, Kind, Wait};
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::methods::candidates;
use std::rc::Rc;

/// A gather of two ranks with one chunk each, with these operations on both.
fn gather_of_two(names: &[&str]) -> Plan {
    let chunk = |kind: &str, index: u64| serde_json::json!([{ "type": kind, "index": index, "size": 1 }]);
    let op = |rank: u64, name: &str| match name {
        "put" => serde_json::json!({
            "name": "put", "src_buff": chunk("i", 0), "dst_buff": [{ "buffer_id": 0, "index": rank, "size": 1 }],
            "channel_ids": [0], "channel_type": "memory"
        }),
        "copy" => serde_json::json!({ "name": "copy", "src_buff": chunk("i", 0), "dst_buff": chunk("o", rank) }),
        "nop" => serde_json::json!({ "name": "nop" }),
        name => serde_json::json!({ "name": name, "channel_ids": [0], "channel_type": "memory" }),
    };
    let gpu = |rank: u64| {
        serde_json::json!({
            "id": rank, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 0,
            "threadblocks": [{
                "id": 0, "ops": names.iter().map(|name| op(rank, name)).collect::<Vec<_>>(),
                "channels": [{ "channel_type": "memory", "channel_ids": [0] }],
                "remote_buffer_refs": [{ "access_channel_type": "memory", "remote_buffer_ids": [0] }]
            }],
            "channels": [{ "channel_type": "memory", "connected_to": [1 - rank] }],
            "remote_buffers": [{ "rank": 1 - rank, "type": "o", "access_channel_types": ["memory"] }]
        })
    };
    let plan = serde_json::json!({
        "name": "it", "collective": "allgather", "protocol": "Simple", "inplace": false, "gpus": [gpu(0), gpu(1)]
    });
    mscclpp::read(&plan.to_string()).expect("a plan")
}

/// Each operation is necessary: the handshake, the signal after the put, the wait for it, and the synchronization of
/// threads.
#[test]
fn a_plan_without_synchronisation_is_refused() {
    let mut random = fastrand::Rng::with_seed(4);
    let right = ["copy", "signal", "wait", "nop", "put", "nop", "signal", "wait"];
    let plan = gather_of_two(&right);
    mscclpp::prove(&plan, None).unwrap_or_else(|flaw| panic!("{flaw}"));
    assert_eq!(plan_runs(&plan, Kind::AllGather, 200, &mut random), None);
    let wrong: [&[&str]; 8] = [
        &["put", "copy"],
        &["copy", "signal", "put", "wait"],
        &["copy", "signal", "wait", "put"],
        &["copy", "put", "nop", "signal", "wait"],
        &["copy", "signal", "wait", "put", "nop", "signal", "wait"],
        &["copy", "signal", "wait", "nop", "put", "signal", "wait"],
        &["copy", "signal", "wait", "nop", "put", "nop", "signal"],
        &["copy", "signal", "wait", "nop", "put"],
    ];
    for names in wrong {
        let plan = gather_of_two(names);
        assert!(mscclpp::prove(&plan, None).is_err(), "{names:?}");
        assert!(plan_runs(&plan, Kind::AllGather, 200, &mut random).is_some(), "{names:?}");
    }
    // The last put happens before the end of all ranks, but not before the end of the rank that owns the output.
    let flaw = mscclpp::prove(&gather_of_two(wrong[0]), None).expect_err("there is no signal");
    let with_caller = |one: Access, two: Access| [one, two].iter().any(|access| matches!(access, Access::Caller(_)));
    assert!(matches!(flaw, Flaw::Race { first, second, .. } if with_caller(first, second)), "{flaw}");
}

/// By rank, the ranks that an exported plan signals at the beginning.
fn handshakes(plan: &Plan) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (rank, gpu) in plan.gpus.iter().enumerate() {
        for (block, ops) in gpu.threadblocks.iter().map(|block| &block.ops).enumerate() {
            for op in ops.iter().take_while(|op| op.name == "signal") {
                all.extend(peers(plan, (rank, block), op).into_iter().map(|to| (rank, to)));
            }
        }
    }
    all
}

fn peers(plan: &Plan, (rank, block): (usize, usize), op: &Operation) -> Vec<usize> {
    let gpu = &plan.gpus[rank];
    let own = &gpu.threadblocks[block].channels[0].channel_ids;
    op.channel_ids.iter().map(|id| gpu.channels[0].connected_to[own[*id]] as usize).collect()
}

/// A plan without some of its handshakes.
fn without(plan: &Plan, some: &[(usize, usize)]) -> Plan {
    let mut less = plan.clone();
    for (from, to) in some {
        // The first signal on the channel, and the first wait for one.
        for (name, rank, other) in [("signal", *from, *to), ("wait", *to, *from)] {
            let blocks = less.gpus[rank].threadblocks.iter_mut().enumerate();
            let found = blocks.into_iter().find_map(|(block, all)| {
                let place = |op: &Operation| peers(plan, (rank, block), op).iter().position(|peer| *peer == other);
                let is_it = |op: &Operation| op.name == name && place(op).is_some();
                let at = all.ops.iter().position(is_it)?;
                let place = place(&all.ops[at])?;
                all.ops[at].channel_ids.remove(place);
                if all.ops[at].channel_ids.is_empty() {
                    all.ops.remove(at);
                }
                Some(())
            });
            assert!(found.is_some(), "no {name} of rank {rank} for {other}");
        }
    }
    less
}

/// Without its handshakes, no plan is correct for a second launch, and almost none of them could be omitted.
#[test]
fn a_plan_is_launched_twice() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut plans, mut wrong, mut all, mut superfluous) = (0, 0, 0, 0);
    for n in 2..=4 {
        schedules(n, |name, _, _, schedule| {
            let algorithm = ranks::algorithm(schedule).expect("a collective");
            let plan = mscclpp::build(&algorithm, "it").expect("a plan");
            let handshakes = handshakes(&plan);
            if handshakes.is_empty() {
                return;
            }
            plans += 1;
            let less = without(&plan, &handshakes);
            let Err(flaw) = mscclpp::prove(&less, None) else {
                panic!("{name}: {handshakes:?}\n{}", mscclpp::write(&plan))
            };
            assert!(matches!(flaw, Flaw::Race { .. }), "{name}: {flaw}");
            wrong += usize::from(plan_runs(&less, algorithm.kind, 60, &mut random).is_some());
            all += handshakes.len();
            for one in handshakes {
                superfluous += usize::from(mscclpp::prove(&without(&plan, &[one]), None).is_ok());
            }
        });
    }
    // A rank does not pass on the knowledge from such a signal.
    assert!(all > 250 && superfluous * 40 < all, "{superfluous} of {all} are superfluous");
    assert!(wrong > 80 && wrong == plans, "{wrong} of {plans}");
}

/// Two ranks that send all their chunks before they receive: correct with sufficient slots, a deadlock with fewer.
fn sends_first(chunks: u64, protocol: Protocol) -> Program {
    let step = |op, source: (Buffer, u64), target: (Buffer, u64)| Step {
        op,
        source: Place { buffer: source.0, chunk: source.1 },
        target: Place { buffer: target.0, chunk: target.1 },
        count: 1,
        after: None,
        awaited: false,
    };
    let gpu = |rank: u64| {
        let (own, other) = ((Buffer::Output, rank * chunks), (1 - rank) * chunks);
        let copy = Step { count: chunks, ..step(Op::Copy, (Buffer::Input, 0), own) };
        let sends = (0..chunks).map(|chunk| step(Op::Send, (Buffer::Input, chunk), (Buffer::Input, chunk)));
        let to = |chunk| (Buffer::Output, other + chunk);
        let receives = (0..chunks).map(|chunk| step(Op::Receive, to(chunk), to(chunk)));
        let peer = u32::try_from(1 - rank).ok();
        let steps = [copy].into_iter().chain(sends).chain(receives).collect();
        Gpu { chunks: [chunks, 2 * chunks, 0], blocks: vec![Block { send: peer, receive: peer, channel: 0, steps }] }
    };
    Program {
        name: "it".to_owned(),
        kind: Some(Kind::AllGather),
        dialect: Dialect::Msccl,
        protocol,
        channels: 1,
        chunks_per_loop: 2 * chunks,
        calls: Calls::OutOfPlace,
        sizes: None,
        gpus: vec![gpu(0), gpu(1)],
    }
}

#[test]
fn connections_have_few_slots() {
    let prove = |program: &Program, slots| msccl::prove(program, None, Room { slots, ..Room::of(Dialect::Msccl) });
    for (protocol, per_chunk) in [(Protocol::Simple, 4), (Protocol::Ll, 1), (Protocol::Ll128, 1)] {
        for chunks in [1, 2, 3, 8, 9, 64] {
            let program = sends_first(u64::from(chunks), protocol);
            for slots in [4, 8, 12, 256] {
                let fits = chunks * per_chunk <= slots;
                let proof = prove(&program, slots);
                assert_eq!(proof.is_ok(), fits, "{chunks} chunks, {slots} slots, {protocol:?}: {proof:?}");
                if !fits {
                    assert!(matches!(proof, Err(Flaw::Deadlock { wait: Some(Wait::Slot(_)), .. })), "{proof:?}");
                }
                if chunks <= 3 && slots <= 8 {
                    let room = (slots / per_chunk) as usize;
                    let world = FileWorld::new(&Rc::new(program.clone()), Kind::AllGather, room, 1).expect("a file");
                    assert_eq!(all_runs(&world, 1 << 20), if fits { Ok(true) } else { Err(stuck()) });
                }
            }
        }
    }
    // A step of several chunks takes as many slots, if a message holds only one.
    let mut long = sends_first(3, Protocol::Simple);
    for gpu in &mut long.gpus {
        let steps = &mut gpu.blocks[0].steps;
        let (send, receive) = (Step { count: 3, ..steps[1] }, Step { count: 3, ..steps[4] });
        *steps = vec![steps[0], send, receive];
    }
    assert!(matches!(prove(&long, 8), Err(Flaw::Deadlock { .. })));
    assert!(prove(&long, 12).is_ok());
    let world = |together| FileWorld::new(&Rc::new(long.clone()), Kind::AllGather, 2, together).expect("a file");
    assert_eq!(one_run(world(1), &mut fastrand::Rng::with_seed(6)), Err(stuck()));
    assert_eq!(one_run(world(3), &mut fastrand::Rng::with_seed(6)), Ok(()));
}

/// The first rank sends its chunks from scratch; the second one keeps them and sends them back, into scratch.
fn there_and_back(chunks: u64, [from, into]: [u64; 2]) -> Program {
    let step = |op, source: (Buffer, u64), target: (Buffer, u64)| Step {
        op,
        source: Place { buffer: source.0, chunk: source.1 },
        target: Place { buffer: target.0, chunk: target.1 },
        count: chunks,
        after: None,
        awaited: false,
    };
    let (input, output) = ((Buffer::Input, 0), (Buffer::Output, 0));
    let (sent, back) = ((Buffer::Scratch, from), (Buffer::Scratch, into));
    let sends = vec![step(Op::Copy, input, output), step(Op::Copy, input, sent), step(Op::Send, sent, sent)];
    let block = |send, receive, steps| Block { send, receive, channel: 0, steps };
    let first = vec![block(Some(1), None, sends), block(None, Some(1), vec![step(Op::Receive, back, back)])];
    let second = vec![block(Some(0), Some(0), vec![step(Op::ReceiveCopySend, output, output)])];
    let gpu = |blocks| Gpu { chunks: [chunks, chunks, 2 * chunks], blocks };
    Program { kind: Some(Kind::Broadcast), gpus: vec![gpu(first), gpu(second)], ..sends_first(1, Protocol::Simple) }
}

/// A chunk may return before the step that sent it has sent its last one.
#[test]
fn a_step_is_not_over_when_its_first_chunk_has_arrived() {
    let room = Room::of(Dialect::Msccl);
    for chunks in 1..=3 {
        for places in (0..=chunks).flat_map(|from| (0..=chunks).map(move |into| [from, into])) {
            let program = Rc::new(there_and_back(chunks, places));
            let proof = msccl::prove(&program, None, room);
            let world = FileWorld::new(&program, Kind::Broadcast, ROOM, 1).expect("a file");
            let runs = all_runs(&world, 1 << 20);
            // Another chunk, which is sent later, is overwritten.
            let [from, into] = places;
            let is_early = into > from && into < from + chunks;
            assert_eq!(runs.is_err(), is_early, "{chunks} chunks, {places:?}: {runs:?}");
            assert_eq!(matches!(proof, Err(Flaw::Race { .. })), is_early, "{chunks} chunks, {places:?}: {proof:?}");
            assert_eq!(proof.is_err(), is_early, "{chunks} chunks, {places:?}: {proof:?}");
        }
    }
}

/// A message may hold one chunk or several, so a step must not read a chunk that it writes as another one.
#[test]
fn a_step_does_not_read_what_it_writes() {
    let moved = Step { after: None, ..there_and_back(2, [0, 1]).gpus[0].blocks[0].steps[1] };
    for (from, into) in (0..=2).flat_map(|from| (0..=2).map(move |into| (from, into))) {
        let mut program = there_and_back(2, [from, from]);
        let place = |chunk| Place { buffer: Buffer::Scratch, chunk };
        program.gpus[0].blocks[0].steps.insert(2, Step { source: place(from), target: place(into), ..moved });
        program.gpus[0].blocks[0].steps[3].source = place(into);
        let proof = msccl::prove(&program, None, Room::of(Dialect::Msccl));
        let program = Rc::new(program);
        let run = |together| {
            let world = FileWorld::new(&program, Kind::Broadcast, ROOM, together).expect("a file");
            all_runs(&world, 1 << 20)
        };
        let overlaps = from != into && from.abs_diff(into) < 2;
        assert_eq!(matches!(proof, Err(Flaw::Step { .. })), overlaps, "{from} to {into}: {proof:?}");
        assert!(overlaps || [run(1), run(2)] == [Ok(true), Ok(true)], "{from} to {into}");
    }
}

fn stuck() -> String {
    "deadlock, or messages left over".to_owned()
}

fn direct(kind: CollectiveKind, n: u32) -> Algorithm {
    let schedule = one_axis(kind, Method::Direct, axis(Wiring::Switch, n), [u64::from(n), u64::from(n)], DType::F32, 1);
    ranks::algorithm(&schedule).expect("a collective")
}

/// `depid` is a signed byte: only the first 128 thread blocks can be waited for.
#[test]
fn thread_blocks_that_are_waited_for_come_first() {
    let options = msccl::Options::default();
    for kind in [CollectiveKind::ReduceScatter, CollectiveKind::AllReduce, CollectiveKind::AllGather] {
        let program = match msccl::build(&direct(kind, 72), "it", &options) {
            Ok(program) => program,
            Err(unsaid) => {
                assert!(matches!(unsaid, Unsaid::Awaited { blocks, .. } if blocks > 128), "{unsaid}");
                continue;
            }
        };
        let largest = program.gpus.iter().map(|gpu| gpu.blocks.len()).max();
        assert!(largest > Some(128), "{largest:?}");
        let proof = msccl::prove(&program, None, Room::of(Dialect::Msccl));
        proof.unwrap_or_else(|flaw| panic!("{}: {flaw}", kind.name()));
        let mut blocks = program.gpus.iter().flat_map(|gpu| &gpu.blocks);
        assert!(blocks.all(|block| block.steps.iter().all(|step| step.after.is_none_or(|(block, _)| block < 128))));
    }
    // With the blocks in reverse order, the numbers are too high.
    let mut program = msccl::build(&direct(CollectiveKind::ReduceScatter, 72), "it", &options).expect("a file");
    for gpu in &mut program.gpus {
        gpu.blocks.reverse();
        let last = gpu.blocks.len() - 1;
        for step in gpu.blocks.iter_mut().flat_map(|block| &mut block.steps) {
            step.after = step.after.map(|(block, step)| (last - block, step));
        }
    }
    let read = msccl::read(&msccl::write(&program, &options)).expect("a file").program;
    let flaw = msccl::prove(&read, None, Room::of(Dialect::Msccl)).expect_err("it waits for blocks beyond 127");
    assert!(matches!(flaw, Flaw::Awaited { block, .. } if block >= 128), "{flaw}");
}

/// Azure's executor and RCCL support 64 steps, and exported thread blocks are not longer.
#[test]
fn thread_blocks_are_as_long_as_the_runtime_takes() {
    let longest = |program: &Program| {
        let blocks = program.gpus.iter().flat_map(|gpu| &gpu.blocks);
        blocks.map(|block| block.steps.len()).max().unwrap_or(0)
    };
    let (usual, azure) = (msccl::Options::default(), Dialect::Azure);
    let short = msccl::Options { dialect: azure, ..msccl::Options::default() };
    let (mut long, mut split, mut refused) = (0, 0, 0);
    let (kind, n) = (CollectiveKind::AllToAll, 48);
    for method in candidates(kind, Wiring::Ring, u64::from(n)) {
        let extents = [u64::from(n), u64::from(n)];
        let schedule = one_axis(kind, method, axis(Wiring::Ring, n), extents, DType::F32, 1);
        let algorithm = ranks::algorithm(&schedule).expect("a collective");
        let name = method.name();
        let Ok(program) = msccl::build(&algorithm, "it", &usual) else { continue };
        if longest(&program) <= 64 {
            continue;
        }
        long += 1;
        let flaw = msccl::prove(&program, None, Room::of(azure)).expect_err(name);
        assert!(matches!(flaw, Flaw::Steps { most: 64, .. }), "{name}: {flaw}");
        match msccl::build(&algorithm, "it", &short) {
            Ok(program) => {
                assert!(longest(&program) <= 64, "{name}");
                let back = msccl::read(&msccl::write(&program, &short)).expect("a file").program;
                assert_eq!(back.dialect, azure);
                msccl::prove(&back, None, Room::of(azure)).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                split += 1;
            }
            Err(unsaid) => {
                assert!(!unsaid.to_string().is_empty(), "{name}");
                refused += 1;
            }
        }
    }
    assert!(long > 0 && split > 0 && refused < long, "{long} {split} {refused}");
}

/// The reader refuses these, but Rust code can still construct them.
#[test]
fn what_is_not_there_is_a_flaw() {
    let right = there_and_back(2, [0, 0]);
    let changed = |change: fn(&mut Program)| {
        let mut program = right.clone();
        change(&mut program);
        msccl::prove(&program, None, Room::of(Dialect::Msccl))
    };
    assert!(changed(|_| ()).is_ok());
    let steps: [fn(&mut Step); 4] = [
        |step| step.after = Some((9, 0)),
        |step| step.after = Some((1, 9)),
        |step| step.target.chunk = u64::MAX,
        |step| step.count = 1 << 40,
    ];
    for change in steps {
        let mut program = right.clone();
        change(&mut program.gpus[0].blocks[0].steps[0]);
        let proof = msccl::prove(&program, None, Room::of(Dialect::Msccl));
        assert!(matches!(proof, Err(Flaw::Step { .. })), "{proof:?}");
    }
    let huge = changed(|program| program.gpus[0].chunks[0] = u64::MAX);
    assert!(matches!(huge, Err(Flaw::Limit { rank: 0, .. })), "{huge:?}");
    let empty = changed(|program| program.gpus.clear());
    assert!(matches!(empty, Err(Flaw::Shape { .. })), "{empty:?}");
}
