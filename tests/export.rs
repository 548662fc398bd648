//! Schedules in the formats of other tools: what is written is read back, and does what the schedule did.

mod common;

use common::single::{axis, one_axis};
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::export::msccl::{self, Dialect, Protocol};
use shardc::export::ranks::{self, Kind, Shape};
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::methods::{broadcasts_in_chunks, candidates};
use shardc::schedule::{Schedule, verify};
use shardc::sim;
use std::collections::{HashMap, VecDeque};

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
                assert_eq!(back.program, program, "{name}");
                let proof = msccl::prove(&back.program, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}\n{text}"));
                assert_eq!(proof.kind, algorithm.kind, "{name}");
                assert_eq!(proof.unused, None, "{name}\n{text}");
                let again = msccl::schedule(&back.program, &proof, schedule.mesh.clone(), DType::F32, 3);
                verify(&again).unwrap_or_else(|malformed| panic!("{name}: {malformed}"));
                sim::proof::prove(&again).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                proven += 1;
            }
        });
    }
    assert!(proven > 1000, "{proven}");
}

/// Runs a file on numbers, the thread blocks in some order: whether all outputs are right. An own interpreter, which
/// knows of no order but that of the blocks, of what waits, and of messages.
fn computes(program: &msccl::Program, kind: Kind, random: &mut fastrand::Rng) -> bool {
    let n = program.gpus.len();
    let (i, o) = (program.gpus[0].chunks[0], program.gpus[0].chunks[1]);
    if program.gpus.iter().any(|gpu| gpu.chunks[0] != i || gpu.chunks[1] != o) {
        return false;
    }
    let mut garbage = || random.i64(1 << 40..1 << 50);
    let mut buffers: Vec<[Vec<i64>; 3]> =
        program.gpus.iter().map(|gpu| gpu.chunks.map(|chunks| (0..chunks).map(|_| garbage()).collect())).collect();
    let inputs: Vec<Vec<i64>> = buffers.iter().map(|buffers| buffers[0].clone()).collect();
    let mut next: Vec<Vec<usize>> = program.gpus.iter().map(|gpu| vec![0; gpu.blocks.len()]).collect();
    let mut wires: HashMap<(usize, usize, u32), VecDeque<Vec<i64>>> = HashMap::new();
    let ready = |rank: usize, block: usize, next: &[Vec<usize>], wires: &HashMap<_, VecDeque<Vec<i64>>>| {
        let gpu = &program.gpus[rank];
        let step = gpu.blocks[block].steps.get(next[rank][block])?;
        let waits = step.after.is_some_and(|(block, place)| next[rank][block] <= place);
        let wire = gpu.blocks[block].receive.map(|from| (from as usize, rank, gpu.blocks[block].channel));
        let empty = step.op.receives() && wires.get(&wire?).is_none_or(VecDeque::is_empty);
        (!waits && !empty).then_some(*step)
    };
    loop {
        let can: Vec<(usize, usize)> = (0..n)
            .flat_map(|rank| (0..next[rank].len()).map(move |block| (rank, block)))
            .filter(|(rank, block)| ready(*rank, *block, &next, &wires).is_some())
            .collect();
        let Some((rank, block)) = random.choice(&can).copied() else { break };
        let step = ready(rank, block, &next, &wires).expect("it was");
        next[rank][block] += 1;
        let gpu = &program.gpus[rank];
        let (channel, count) = (gpu.blocks[block].channel, step.count as usize);
        let at = |place: msccl::Place| (place.buffer as usize, place.chunk as usize);
        let received = gpu.blocks[block].receive.filter(|_| step.op.receives()).map(|from| {
            let wire = wires.get_mut(&(from as usize, rank, channel)).expect("it is not empty");
            wire.pop_front().expect("it is not empty")
        });
        if received.as_ref().is_some_and(|received| received.len() != count) {
            return false;
        }
        let get = |place: msccl::Place| {
            let (buffer, chunk) = at(place);
            buffers[rank][buffer][chunk..chunk + count].to_vec()
        };
        let source = if step.op.reads_source() { get(step.source) } else { vec![0; count] };
        let mut result = source;
        for (value, more) in result.iter_mut().zip(received.into_iter().flatten()) {
            *value = value.wrapping_add(more);
        }
        if step.op == msccl::Op::Reduce {
            result.iter_mut().zip(get(step.target)).for_each(|(value, more)| *value = value.wrapping_add(more));
        }
        if step.op.writes_target() {
            let (buffer, chunk) = at(step.target);
            buffers[rank][buffer][chunk..chunk + count].copy_from_slice(&result);
        }
        if let Some(to) = gpu.blocks[block].send.filter(|_| step.op.sends()) {
            wires.entry((rank, to as usize, channel)).or_default().push_back(result);
        }
    }
    let finished = (0..n).all(|rank| {
        let done = next[rank].iter().zip(&program.gpus[rank].blocks);
        done.into_iter().all(|(next, block)| *next == block.steps.len())
    });
    let shape = Shape { ranks: n as u64, input: i, output: o };
    let right = (0..n).all(|rank| {
        (0..o).all(|chunk| {
            let wanted = kind.wanted(shape, rank as u64, chunk).unwrap_or_default();
            let sum =
                wanted.iter().fold(0i64, |sum, (rank, at)| sum.wrapping_add(inputs[*rank as usize][*at as usize]));
            !wanted.is_empty() && buffers[rank][1][chunk as usize] == sum
        })
    });
    finished && right && wires.values().all(VecDeque::is_empty)
}

/// A change of one attribute, or a step less.
fn mutant(text: &str, random: &mut fastrand::Rng) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let place = random.usize(1..lines.len() - 1);
    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
    if random.u8(..5) == 0 && lines[place].contains("<step") {
        lines.remove(place);
        let mut number = 0;
        for line in &mut lines {
            number = if line.contains("<tb") { 0 } else { number };
            if let Some((before, rest)) = line.split_once("<step s=\"") {
                let (_, after) = rest.split_once('"').expect("a closing quote");
                *line = format!("{before}<step s=\"{number}\"{after}");
                number += 1;
            }
        }
        return lines.join("\n");
    }
    let line = &lines[place];
    let quotes: Vec<usize> = line.match_indices('"').map(|(at, _)| at).collect();
    if quotes.len() < 2 {
        return text.to_owned();
    }
    let pair = random.usize(..quotes.len() / 2) * 2;
    let (start, end) = (quotes[pair] + 1, quotes[pair + 1]);
    let value = &line[start..end];
    let other = match value.parse::<i64>() {
        Ok(number) => (number + random.choice([-1, 1, 2]).unwrap_or(1)).to_string(),
        Err(_) if ["i", "o", "s"].contains(&value) && line[..start].ends_with("buf=\"") => {
            random.choice(["i", "o", "s"]).unwrap_or("i").to_owned()
        }
        Err(_) => random.choice(msccl::Op::ALL).map_or("s", msccl::Op::word).to_owned(),
    };
    lines[place] = format!("{}{other}{}", &line[..start], &line[end..]);
    lines.join("\n")
}

#[test]
#[expect(clippy::print_stdout, reason = "how many mutants were caught is worth reading")]
fn wrong_files_are_refused() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut unreadable, mut refused, mut same, mut careful) = (0, 0, 0, 0);
    for n in [2, 3, 4, 5] {
        schedules(n, |name, _, _, schedule| {
            let algorithm = ranks::algorithm(schedule).expect("a collective");
            let options = msccl::Options::default();
            let text = msccl::write(&msccl::build(&algorithm, "it", &options).expect("a file"), &options);
            for _ in 0..12 {
                let mutant = mutant(&text, &mut random);
                let Ok(written) = msccl::read(&mutant) else {
                    unreadable += 1;
                    continue;
                };
                let right = (0..6).all(|_| computes(&written.program, algorithm.kind, &mut random));
                match (msccl::prove(&written.program, Some(algorithm.kind)), right) {
                    (Ok(_), true) => same += 1,
                    (Ok(_), false) => panic!("{name}: proven, and wrong:\n{mutant}"),
                    (Err(_), false) => refused += 1,
                    // A race that did not show, or what nobody receives.
                    (Err(_), true) => careful += 1,
                }
            }
        });
    }
    println!(
        "{unreadable} unreadable, {refused} wrong and refused, {same} as right as before, {careful} refused by care"
    );
    assert!(refused > 300 && same > 50, "{refused} {same}");
    assert!(careful * 10 < refused, "{careful}");
}
