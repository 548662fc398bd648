//! Schedules in formats of other tools: exported files can be read, and do the same as the schedule.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use crate::common::collectives::schedules;
use crate::common::process::fed;
use crate::common::single::{axis, one_axis};
use crate::common::tools::there;
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::export::messages::{self, Messages, Sending, What};
use shardc::export::msccl::{self, Dialect, Room};
use shardc::export::ranks::{self, Action, Algorithm, Buffer, Kind, Rank, Shape, Span};
use shardc::export::{chakra, goal, mscclpp};
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::plan::StepOp;
use shardc::recipe::Lowering;
use shardc::schedule::{Schedule, from_text, verify};
use shardc::sim;
use shardc::topology::LocalMoves;
use std::process::Command;

#[test]
fn msccl_comes_back_and_is_proven() {
    let mut proven = 0;
    for n in 2..=16 {
        schedules(n, |name, _, method, schedule| {
            let algorithm = ranks::algorithm(schedule).unwrap_or_else(|refused| panic!("{name}: {refused}"));
            for dialect in [Dialect::Msccl, Dialect::Azure] {
                let options = msccl::Options { dialect, ..msccl::Options::default() };
                let program =
                    msccl::build(&algorithm, "it", &options).unwrap_or_else(|unsaid| panic!("{name}: {unsaid}"));
                let text = msccl::write(&program, &options);
                let back = msccl::read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                assert_eq!(back.program, program, "{name}");
                let proof = msccl::prove(&back.program, None, Room::of(back.program.dialect))
                    .unwrap_or_else(|flaw| panic!("{name}: {flaw}\n{text}"));
                assert_eq!(proof.kind, algorithm.kind, "{name}");
                // Bundles on a line carry blocks that only other devices need.
                assert_eq!(proof.unused.is_some(), method == Method::LineBundled, "{name}\n{text}");
                let again = proof.schedule(schedule.mesh.clone(), DType::F32, 3);
                verify(&again).unwrap_or_else(|malformed| panic!("{name}: {malformed}"));
                sim::proof::prove(&again).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                proven += 1;
            }
        });
    }
    assert!(proven > 1000, "{proven}");
}

#[test]
fn mscclpp_comes_back_and_is_proven() {
    let mut proven = 0;
    for n in 2..=16 {
        schedules(n, |name, _, _, schedule| {
            let algorithm = ranks::algorithm(schedule).unwrap_or_else(|refused| panic!("{name}: {refused}"));
            let plan = mscclpp::build(&algorithm, "it").unwrap_or_else(|unsaid| panic!("{name}: {unsaid}"));
            let text = mscclpp::write(&plan);
            assert!(mscclpp::is_mscclpp(&text));
            let back = mscclpp::read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            assert_eq!(back, plan, "{name}");
            let proof = mscclpp::prove(&back, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}\n{text}"));
            assert_eq!(proof.kind, algorithm.kind, "{name}");
            assert!(proof.unused.is_none() || name.contains("line_bundled"), "{name}\n{text}");
            let again = proof.schedule(schedule.mesh.clone(), DType::F32, 3);
            verify(&again).unwrap_or_else(|malformed| panic!("{name}: {malformed}"));
            sim::proof::prove(&again).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            proven += 1;
        });
    }
    assert!(proven > 500, "{proven}");
}

/// Runs the command in the folder of this file's tests.
fn shardc(arguments: &[&str]) -> (Option<i32>, String) {
    let folder = std::env::temp_dir().join(format!("shardc-export-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/");
    let arguments = arguments.iter().map(|word| word.replace("examples/", root));
    let output =
        Command::new(env!("CARGO_BIN_EXE_shardc")).args(arguments).current_dir(folder).output().expect("the command");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The examples in docs/formats.md.
#[test]
fn commands_of_the_document() {
    let document = include_str!("../../docs/formats.md");
    let commands = document.lines().filter_map(|line| line.strip_prefix("$ shardc "));
    for command in commands {
        let quoted: Vec<&str> = command.split('"').collect();
        let words = quoted.iter().enumerate().flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![*part],
        });
        let (code, text) = shardc(&words.collect::<Vec<_>>());
        assert_eq!(code, Some(0), "{command}\n{text}");
    }
    // A sum that loses a contribution.
    let path = std::env::temp_dir().join(format!("shardc-export-{}", std::process::id())).join("attention.xml");
    let right = std::fs::read_to_string(&path).expect("written above");
    std::fs::write(&path, right.replacen("type=\"rrc\"", "type=\"r\"", 1)).expect("a folder");
    let (code, text) = shardc(&["prove", "attention.xml"]);
    assert!(code == Some(1) && text.contains("algorithm-wrong") && text.contains("lacks"), "{text}");
    let (code, text) = shardc(&["export", "examples/fsdp_mlp.shard", "--to", "msccl"]);
    assert!(code == Some(2) && text.contains("--step"), "{text}");
    std::fs::remove_dir_all(path.parent().expect("the folder")).expect("the folder goes away");
}

/// An unused copy and an overwritten copy are correct, but reported.
#[test]
fn unused_steps_are_reported() {
    let mesh = axis(Wiring::Ring, 4);
    let schedule = one_axis(CollectiveKind::AllGather, Method::ClockwiseRing, mesh, [8, 4], DType::F32, 1);
    let algorithm = ranks::algorithm(&schedule).expect("an algorithm");
    let mut plan = mscclpp::build(&algorithm, "it").expect("a plan");
    assert_eq!(mscclpp::prove(&plan, None).expect("right").unused, None);
    let chunk = |kind: &str, index| mscclpp::Chunks { kind: Some(kind.to_owned()), buffer_id: None, index, size: 1 };
    let copy = |to: mscclpp::Chunks| mscclpp::Operation {
        name: "copy".to_owned(),
        src_buff: vec![chunk("i", 0)],
        dst_buff: vec![to],
        ..mscclpp::Operation::default()
    };
    let room = plan.gpus[2].scratch_chunks;
    plan.gpus[2].scratch_chunks += 1;
    let nop = mscclpp::Operation { name: "nop".to_owned(), ..mscclpp::Operation::default() };
    let ops = [copy(chunk("s", room)), nop, copy(chunk("s", room))];
    plan.gpus[2].threadblocks[0].ops.splice(0..0, ops);
    let (first, count) = mscclpp::prove(&plan, None).expect("right").unused.expect("unused steps");
    assert_eq!((first.rank, first.block, first.step, count), (2, 0, 0, 2));
}

/// A file for calls in place and out of place is right only if it is right for both.
#[test]
fn files_for_both_calls_are_right_for_both() {
    // A gather on two ranks; in place, each rank has its own chunk in its output already.
    let file = |calls: &str, copies: bool| {
        let copy = "<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\"><step s=\"0\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" \
                    dstbuf=\"o\" dstoff=\"RANK\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/></tb>";
        let gpu = |rank: usize| {
            let (other, step) = (1 - rank, |s: u32, kind: &str, source: &str, target: usize| {
                format!(
                    "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{source}\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"{target}\" cnt=\"1\" \
                     depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
                )
            });
            format!(
                "<gpu id=\"{rank}\" i_chunks=\"1\" o_chunks=\"2\" s_chunks=\"0\"><tb id=\"0\" send=\"{other}\" recv=\"{other}\" \
                 chan=\"0\">{}{}</tb>{}</gpu>",
                step(0, "s", "i", rank),
                step(1, "r", "i", other),
                if copies { copy.replace("RANK", &rank.to_string()) } else { String::new() }
            )
        };
        let header =
            "<algo name=\"a\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" coll=\"allgather\"";
        format!("{header} {calls} minBytes=\"0\" maxBytes=\"1024\">{}{}</algo>", gpu(0), gpu(1))
    };
    let (inside, outside) = ("inplace=\"1\" outofplace=\"0\"", "inplace=\"0\" outofplace=\"1\"");
    let both = "inplace=\"1\" outofplace=\"1\"";
    for (calls, copies, right) in [
        (inside, false, true),
        (outside, false, false),
        (both, false, false),
        (inside, true, true),
        (outside, true, true),
        (both, true, true),
    ] {
        let written = msccl::read(&file(calls, copies)).unwrap_or_else(|flaw| panic!("{flaw}"));
        let proof = msccl::prove(&written.program, None, Room::of(Dialect::Azure));
        assert_eq!(proof.is_ok(), right, "{calls} {copies}: {:?}", proof.err().map(|flaw| flaw.to_string()));
        let options = msccl::Options { dialect: Dialect::Azure, ..msccl::Options::default() };
        assert!(msccl::write(&written.program, &options).contains(calls));
    }
    let neither = file("inplace=\"0\" outofplace=\"0\"", true);
    assert!(msccl::read(&neither).is_err_and(|flaw| flaw.to_string().contains("both 0")));
}

/// Entities, deep nesting, huge numbers and long lines are refused quickly.
#[test]
fn hostile_files_are_refused_quickly() {
    let algo = |body: &str| {
        format!(
            "<algo name=\"a\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"1\" coll=\"allreduce\" inplace=\"0\">{body}</algo>"
        )
    };
    let gpu = |i: &str| format!("<gpu id=\"0\" i_chunks=\"{i}\" o_chunks=\"1\" s_chunks=\"0\"></gpu>");
    let hostile = [
        "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><algo>&b;</algo>".to_owned(),
        "<algo>".repeat(1 << 20),
        algo(&gpu("99999999999999999999")),
        algo(&gpu("4000000000")),
        algo("").replace("ngpus=\"1\"", "ngpus=\"1000000000\""),
        algo("").replace("ngpus=\"1\"", "ngpus=\"0\""),
        algo(&" ".repeat(32 << 20)),
        format!("<algo name=\"{}\"/>", "a".repeat(32 << 20)),
        String::new(),
        "<".to_owned(),
        algo(&gpu("1")).replace("proto=\"Simple\"", ""),
    ];
    for text in &hostile {
        let refused = match msccl::read(text) {
            Ok(written) => msccl::prove(&written.program, None, Room::of(Dialect::Msccl)).is_err(),
            Err(_) => true,
        };
        assert!(refused, "{}", &text[..text.len().min(200)]);
    }
}

/// The messages of a schedule whose local moves take time.
fn sent(schedule: &Schedule) -> Messages {
    let schedule = verify(schedule).expect("sound");
    messages::messages(schedule, LocalMoves::Memory, Sending::Parts { least: 0 }).expect("a collective").1
}

/// For every method, messages are matched, there is no deadlock, and traces contain the same messages.
#[test]
fn messages_come_back_from_traces() {
    for n in 2..=16 {
        schedules(n, |name, _, _, schedule| {
            let schedule = verify(schedule).expect("sound");
            let (kind, sent) =
                messages::messages(schedule, LocalMoves::Memory, Sending::Parts { least: 0 }).expect("a collective");
            messages::check(&sent, Some(kind)).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            let traces = chakra::write(&sent, |bytes| bytes);
            let back = chakra::read(&traces.files).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(back, sent, "{name}");
            let text = goal::write(&sent, |bytes| bytes);
            let count = |word: &str| text.matches(word).count();
            assert_eq!(count("send "), count("recv "), "{name}");
            assert_eq!(count("rank "), n as usize, "{name}");
        });
    }
}

/// Messages that are missing, duplicated, misdirected, of the wrong length or in cyclic dependency are refused, and
/// so are damaged files.
#[test]
fn wrong_messages_are_refused() {
    let mut random = fastrand::Rng::with_seed(3);
    schedules(4, |name, _, _, schedule| {
        let right = sent(schedule);
        let is_message = |node: &messages::Node| !matches!(node.what, What::Compute { .. });
        for _ in 0..20 {
            let mut wrong = right.clone();
            let rank = random.usize(..4);
            let nodes = &mut wrong.ranks[rank];
            let Some(at) = (0..nodes.len()).rfind(|at| is_message(&nodes[*at])) else {
                continue;
            };
            match (random.u8(..4), &mut nodes[at].what) {
                (0, What::Send { bytes, .. } | What::Receive { bytes, .. }) => *bytes += 1,
                (1, What::Send { tag, .. } | What::Receive { tag, .. }) => *tag += 1000,
                (2, What::Send { to: peer, .. } | What::Receive { from: peer, .. }) => *peer = 4,
                (_, what) => *what = What::Compute { bytes: 1 },
            }
            assert!(messages::check(&wrong, None).is_err(), "{name}: {:?}", wrong.ranks[rank][at]);
        }
        let mut circle = right.clone();
        let nodes = &mut circle.ranks[0];
        if nodes.len() > 1 {
            let last = nodes.len() - 1;
            nodes[0].after.push(last);
            nodes[last].after.push(0);
            assert!(messages::check(&circle, None).is_err(), "{name}");
        }
        // The length prefix of a truncated file does not fit.
        let files = chakra::write(&right, |bytes| bytes).files;
        for file in files.iter().filter(|file| !file.is_empty()) {
            let cut = vec![file[..file.len() - 1].to_vec()];
            assert!(file.len() < 12 || chakra::read(&cut).is_err(), "{name}");
        }
    });
    let hostile: [&[u8]; 5] = [&[], &[0], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x7f, 1, 2]];
    for file in hostile {
        assert!(chakra::read(&[file.to_vec()]).is_err(), "{file:?}");
    }
}

/// Decodes a message with the standard protobuf compiler.
fn decoded(kind: &str, message: &[u8]) -> String {
    let mut protoc = Command::new("protoc");
    protoc.args([&format!("--decode=ChakraProtoMsg.{kind}"), "--proto_path=tests/chakra", "et.proto"]);
    let output = fed(protoc.current_dir(env!("CARGO_MANIFEST_DIR")), message);
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

/// Each message conforms to the hand-typed description, with all fields that a feeder requires.
#[test]
fn the_stock_compiler_reads_traces() {
    if !there("protoc", "--version") {
        return;
    }
    let ring =
        one_axis(CollectiveKind::AllReduce, Method::ClockwiseRing, axis(Wiring::Ring, 3), [3, 1 << 20], DType::F32, 1);
    let sent = sent(&ring);
    let file = chakra::write(&sent, |bytes| bytes / 100).files.remove(0);
    let (mut rest, mut messages) = (file.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let (byte, after) = rest.split_first().expect("a length");
            rest = after;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (message, after) = rest.split_at(length);
        messages.push(message);
        rest = after;
    }
    assert_eq!(messages.len(), 1 + sent.ranks[0].len());
    assert!(decoded("GlobalMetadata", messages[0]).contains("version: \""));
    for (message, node) in messages[1..].iter().zip(&sent.ranks[0]) {
        let text = decoded("Node", message);
        let (kind, names) = match node.what {
            What::Send { .. } => ("COMM_SEND_NODE", &["comm_size", "comm_src", "comm_dst", "comm_tag"][..]),
            What::Receive { .. } => ("COMM_RECV_NODE", &["comm_size", "comm_src", "comm_dst", "comm_tag"][..]),
            What::Compute { .. } => ("COMP_NODE", &["num_ops", "tensor_size", "is_cpu_op"][..]),
        };
        assert!(text.contains(&format!("type: {kind}")), "{text}");
        assert!(names.iter().all(|name| text.contains(&format!("name: \"{name}\""))), "{text}");
        // Fields missing in the description would be printed as numbers.
        let known = |line: &str| line.trim().starts_with(|c: char| c.is_ascii_alphabetic() || c == '}');
        assert!(text.lines().all(known), "{text}");
        let size = |bytes: u64| format!("int64_val: {bytes}");
        match node.what {
            What::Send { bytes, .. } | What::Receive { bytes, .. } => assert!(text.contains(&size(bytes)), "{text}"),
            What::Compute { .. } => assert!(text.contains("duration_micros: "), "{text}"),
        }
    }
}

/// Each collective of the small examples, if the formats support it.
#[test]
#[expect(clippy::print_stdout, reason = "how many are refused is worth reading")]
fn collectives_of_examples_come_back() {
    let (mut proven, mut refused) = (0, 0);
    for path in crate::common::small_examples() {
        let source = std::fs::read_to_string(&path).expect("an example");
        let name = crate::common::short_name(&path);
        let compiled = crate::common::compile(&source);
        let plan = &compiled.plan;
        for id in plan.ids() {
            let StepOp::Collective(collective) = &plan.step(id).op else { continue };
            let from = &plan.step(plan.operands(id)[0]).layout;
            let dims = from.dims.iter().map(|dim| plan.program.dims.name(dim.id)).collect();
            let method = plan.program.value(plan.step(id).user).using.method;
            let lowering = Lowering::default();
            let alone = shardc::recipe::alone(&compiled.topology, lowering, (collective, from), ("A", dims), method);
            let (schedule, _) = alone.expect("a collective of the plan");
            match ranks::algorithm(&schedule) {
                Err(_) => refused += 1,
                Ok(algorithm) => {
                    let options = msccl::Options::default();
                    let program = msccl::build(&algorithm, "it", &options).expect("within the limits");
                    let back = msccl::read(&msccl::write(&program, &options)).expect("a file");
                    msccl::prove(&back.program, None, Room::of(back.program.dialect))
                        .unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                    let plan = mscclpp::build(&algorithm, "it").expect("a plan");
                    mscclpp::prove(&plan, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                    proven += 1;
                }
            }
        }
    }
    println!("{proven} collectives of examples are written and proven, {refused} have no word");
    assert!(proven >= 30 && refused < proven, "{proven} {refused}");
    for name in ["furiosa_reduce_scatter", "ring_all_gather"] {
        let path = format!("{}/examples/schedules/{name}.schedule", env!("CARGO_MANIFEST_DIR"));
        let written = from_text(&std::fs::read_to_string(path).expect("a schedule")).expect("it is read");
        let algorithm = ranks::algorithm(&written.schedule).unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let program = msccl::build(&algorithm, name, &msccl::Options::default()).expect("within the limits");
        msccl::prove(&program, None, Room::of(program.dialect)).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        let plan = mscclpp::build(&algorithm, name).expect("a plan");
        mscclpp::prove(&plan, None).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
    }
}

/// Random damage to files of each format: they are read or refused, and files that are read are proven or refused.
#[test]
fn damage_brings_no_panic() {
    let mut random = fastrand::Rng::with_seed(4);
    let ring = |n| {
        let mesh = axis(Wiring::Ring, n);
        one_axis(CollectiveKind::AllReduce, Method::ClockwiseRing, mesh, [u64::from(n), 4], DType::F32, 1)
    };
    let algorithm = ranks::algorithm(&ring(3)).expect("a collective");
    let options = msccl::Options::default();
    let xml = msccl::write(&msccl::build(&algorithm, "it", &options).expect("a file"), &options).into_bytes();
    let json = mscclpp::write(&mscclpp::build(&algorithm, "it").expect("a file")).into_bytes();
    let traces = chakra::write(&sent(&ring(3)), |bytes| bytes).files;
    for _ in 0..3000 {
        damaged(&xml, &mut random, crate::common::formats::read_text);
        damaged(&json, &mut random, crate::common::formats::read_text);
        let mut files = traces.clone();
        let place = random.usize(..files.len());
        damaged(&traces[place], &mut random, |file| {
            files[place] = file.to_vec();
            crate::common::formats::read_traces(&files);
        });
    }
}

/// A file with a few bytes changed, duplicated or removed.
fn damaged(file: &[u8], random: &mut fastrand::Rng, read: impl FnOnce(&[u8])) {
    let mut file = file.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..file.len());
        match random.u8(..4) {
            0 => file[at] = random.u8(..),
            1 => file[at] = *random.choice(b"0123456789\"<>{}[],-").expect("some"),
            2 => drop(file.remove(at)),
            _ => {
                let end = (at + random.usize(..64)).min(file.len());
                let part = file[at..end].to_vec();
                file.splice(at..at, part);
            }
        }
    }
    read(&file);
}

/// The JSON reports of `prove` conform to their schema, and changed reports do not.
#[test]
fn reports_are_what_their_schema_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/algorithm.schema.json");
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("a schema");
    let schema = jsonschema::draft202012::new(&schema).expect("a schema");
    let folder = format!("schemas-{}", std::process::id());
    for (to, out) in [("msccl", "a.xml"), ("mscclpp", "a.json"), ("chakra", "a")] {
        let file = std::env::temp_dir().join(format!("{folder}-{out}"));
        let file = file.to_string_lossy();
        let (code, text) = shardc(&["export", "examples/attention.shard", "--to", to, "-o", &file]);
        assert_eq!(code, Some(0), "{text}");
        let (code, text) = shardc(&["prove", &file, "--format", "json"]);
        assert_eq!(code, Some(0), "{text}");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(schema.is_valid(&document), "{document}");
        for key in document.as_object().expect("an object").keys() {
            let mut less = document.clone();
            less.as_object_mut().expect("an object").remove(key);
            assert!(!schema.is_valid(&less), "without {key}");
            let mut wrong = document.clone();
            wrong[key] = serde_json::json!([]);
            assert!(!schema.is_valid(&wrong), "{key} is a list");
        }
        if to == "chakra" { std::fs::remove_dir_all(&*file) } else { std::fs::remove_file(&*file) }
            .expect("it goes away");
    }
}

/// Offsets of MSCCL's steps are stored in 16 signed bits.
#[test]
fn offsets_fit_the_runtime() {
    let span = |buffer| Span { buffer, start: 0, count: 40_000 };
    let copied = Action::Copy { from: span(Buffer::Input), into: span(Buffer::Output) };
    let sent = Action::Send { to: 1, from: span(Buffer::Input) };
    let received = Action::Receive { from: 0, into: span(Buffer::Output) };
    let rank = |actions: Vec<Action>| Rank { scratch: 0, actions };
    let algorithm = Algorithm {
        kind: Kind::Broadcast,
        shape: Shape { ranks: 2, input: 40_000, output: 40_000 },
        ranks: vec![rank(vec![sent, copied]), rank(vec![received])],
        exact: true,
        contiguous: true,
    };
    let unsaid = msccl::build(&algorithm, "it", &msccl::Options::default()).expect_err("offsets of 17 bits");
    assert!(matches!(unsaid, msccl::Unsaid::Offset { rank: 0, offset: 32_768.. }), "{unsaid}");

    let mesh = axis(Wiring::Ring, 4);
    let schedule = one_axis(CollectiveKind::AllGather, Method::ClockwiseRing, mesh, [8, 4], DType::F32, 1);
    let small = ranks::algorithm(&schedule).expect("an algorithm");
    let mut program = msccl::build(&small, "it", &msccl::Options::default()).expect("a file");
    let mut steps = program.gpus[1].blocks.iter_mut().flat_map(|block| &mut block.steps);
    let step = steps.find(|step| step.op == msccl::Op::Copy).expect("its own shard");
    step.target = msccl::Place { buffer: Buffer::Scratch, chunk: 32_768 };
    program.gpus[1].chunks[2] = 40_000;
    let flaw = msccl::prove(&program, None, Room::of(Dialect::Msccl)).expect_err("an offset of 17 bits");
    assert!(flaw.to_string().contains("offset 32768 in the scratch"), "{flaw}");
}

/// Offsets of MSCCL++'s operations are bytes in 32 bits, and so are the sizes: larger messages are not accepted.
#[test]
fn byte_offsets_fit_the_executor() {
    for n in [2, 5, 8] {
        schedules(n, |name, _, _, schedule| {
            let algorithm = ranks::algorithm(schedule).expect("an algorithm");
            let plan = mscclpp::build(&algorithm, "it").expect("a plan");
            let message = algorithm.shape.input.max(algorithm.shape.output);
            let most = u128::from(plan.max_message_size.div_ceil(message));
            let lists = plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).flat_map(|block| &block.ops);
            let chunks = lists.flat_map(|operation| operation.src_buff.iter().chain(&operation.dst_buff));
            for chunk in chunks {
                let end = u128::from(chunk.index + chunk.size) * most;
                assert!(end <= u128::from(u32::MAX), "{name}: {chunk:?}");
            }
            assert!(plan.max_message_size > 1 << 20, "{name}");
        });
    }
}
