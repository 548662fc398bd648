//! Integer fields: a number beyond the width that a runtime or simulator has for it is refused with its place, not
//! truncated.

use crate::common::single::{axis, one_axis};
use miette::Diagnostic;
use shardc::collective::CollectiveKind;
use shardc::dtype::DType;
use shardc::export::messages::{self, Messages, Node, Sending, What};
use shardc::export::msccl::{self, Dialect, Room};
use shardc::export::ranks::{self, Algorithm};
use shardc::export::{chakra, mscclpp};
use shardc::mesh::Wiring;
use shardc::method::Method;
use shardc::schedule::{Schedule, verify};
use shardc::topology::LocalMoves;
use std::collections::BTreeMap;

fn schedule() -> Schedule {
    let mesh = axis(Wiring::Ring, 4);
    one_axis(CollectiveKind::AllReduce, Method::BidirectionalRingPair, mesh, [16, 4], DType::F32, 1)
}

fn algorithm() -> Algorithm {
    ranks::algorithm(&schedule()).expect("a collective")
}

/// The bits that MSCCL's runtimes have for an attribute.
fn bits(attribute: &str) -> u32 {
    match attribute {
        "cnt" | "chan" | "depid" | "hasdep" | "inplace" | "outofplace" => 8,
        "srcoff" | "dstoff" | "deps" | "send" | "recv" => 16,
        "minBytes" | "maxBytes" => 64,
        _ => 32,
    }
}

/// Each attribute of an MSCCL file, of each kind of element and step, that is a number: its place in the text.
fn attributes(text: &str) -> BTreeMap<(String, String), (usize, i128)> {
    let mut found = BTreeMap::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let element = line.trim_start().split(' ').next().unwrap_or_default();
        let mut rest = line;
        while let Some(quote) = rest.find("=\"") {
            let name = rest[..quote].rsplit(' ').next().unwrap_or_default();
            let value = rest[quote + 2..].split('"').next().unwrap_or_default();
            let kind = line.split("type=\"").nth(1).and_then(|after| after.split('"').next()).unwrap_or_default();
            if let Ok(number) = value.parse() {
                let place = at + line.len() - rest.len() + quote + 2;
                found.entry((format!("{element} {kind}"), name.to_owned())).or_insert((place, number));
            }
            rest = &rest[quote + 2 + value.len()..];
        }
        at += line.len();
    }
    found
}

#[test]
fn attributes_of_msccl() {
    for dialect in [Dialect::Msccl, Dialect::Azure] {
        let options = msccl::Options { dialect, sizes: Some((0, 1 << 27)), ..msccl::Options::default() };
        let program = msccl::build(&algorithm(), "it", &options).expect("within the limits");
        let text = msccl::write(&program, &options);
        // The flaw, and whether it has a place.
        let proven = |text: &str| -> Result<(), (String, bool)> {
            let file = msccl::read(text).map_err(|error| (error.to_string(), error.labels().is_some()))?;
            let proof = msccl::prove(&file.program, None, Room::of(dialect));
            proof.map(|_| ()).map_err(|flaw| (flaw.to_string(), flaw.to_string().contains("rank ")))
        };
        proven(&text).expect("right");
        let all = attributes(&text);
        assert!(all.len() >= 35, "{all:?}");
        for ((element, name), (place, number)) in all {
            // Truncated, both are the number itself.
            for beyond in [number + (1i128 << bits(&name)), number + (1i128 << 64)] {
                let digits = number.to_string().len();
                let wrong = format!("{}{beyond}{}", &text[..place], &text[place + digits..]);
                let (refused, has_place) = proven(&wrong).expect_err(&format!("{element} {name}=\"{beyond}\""));
                assert!(has_place, "{element} {name}: {refused}");
            }
        }
    }
}

/// The first number of each field in a document, as a pointer, by the names of the fields around it.
fn numbers(value: &serde_json::Value, names: &str, pointer: &str, found: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Number(_) => {
            found.entry(names.to_owned()).or_insert_with(|| pointer.to_owned());
        }
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| numbers(item, names, &format!("{pointer}/{at}"), found));
        }
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                numbers(field, &format!("{names}.{name}"), &format!("{pointer}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn fields_of_mscclpp() {
    let plan = mscclpp::build(&algorithm(), "it").expect("a plan");
    let document: serde_json::Value = serde_json::from_str(&mscclpp::write(&plan)).expect("JSON");
    let mut found = BTreeMap::new();
    numbers(&document, "", "", &mut found);
    assert!(found.len() >= 15, "{found:?}");
    let proven = |text: &str| -> Result<(), String> {
        let plan = mscclpp::read(text).map_err(|error| error.to_string())?;
        mscclpp::prove(&plan, None).map(|_| ()).map_err(|flaw| flaw.to_string())
    };
    for (path, pointer) in found {
        let number = document.pointer(&pointer).and_then(serde_json::Value::as_u64).expect("a count");
        // Sizes of messages have 64 bits in the executor, all other numbers 32 bits or less.
        let width = if path.ends_with("_message_size") { 64 } else { 32 };
        for beyond in [u128::from(number) + (1 << width), u128::from(number) + (1 << 64)] {
            let mut wrong = document.clone();
            *wrong.pointer_mut(&pointer).expect("as found") = "beyond".into();
            let text = serde_json::to_string(&wrong).expect("JSON").replace("\"beyond\"", &beyond.to_string());
            let refused = proven(&text).expect_err(&format!("{path} is {beyond}"));
            assert!(refused.contains("line ") || refused.contains("rank "), "{path}: {refused}");
        }
    }
}

fn sent() -> Messages {
    let schedule = schedule();
    let schedule = verify(&schedule).expect("sound");
    messages::messages(schedule, LocalMoves::Memory, Sending::Whole).expect("a collective").1
}

/// Both simulators' formats are written from messages that have been checked.
#[test]
fn tags_and_lengths_of_messages() {
    let right = sent();
    messages::check(&right, None).expect("right");
    let rank = 2;
    let place = right.ranks[rank].iter().position(|node| matches!(node.what, What::Send { .. })).expect("it sends");
    let changes: [fn(&mut What); 2] = [
        |what| {
            if let What::Send { tag, .. } = what {
                *tag = 1 << 31
            }
        },
        |what| {
            if let What::Send { bytes, .. } = what {
                *bytes = 1 << 63
            }
        },
    ];
    for (change, number) in changes.into_iter().zip(["2147483648", "9223372036854775808"]) {
        let mut wrong = right.clone();
        change(&mut wrong.ranks[rank][place].what);
        let flaw = messages::check(&wrong, None).expect_err("beyond the width").to_string();
        assert!(flaw.contains("rank 2") && flaw.contains(number), "{flaw}");
        // If a caller writes them without the check, they are refused when they are read.
        assert!(chakra::read(&chakra::write(&wrong, |bytes| bytes).files).is_err(), "{flaw}");
    }
    let huge = Messages { ranks: vec![vec![Node { what: What::Compute { bytes: u64::MAX }, after: Vec::new() }]] };
    assert!(messages::check(&huge, None).is_err());
}

fn varint(mut number: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits");
        number >>= 7;
        bytes.push(if number > 0 { low | 0x80 } else { low });
        if number == 0 {
            return bytes;
        }
    }
}

fn field(number: u128, value: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(value.len() as u128), value.to_vec()].concat()
}

fn number(field: u128, value: u128) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A trace of two ranks and one message, with one number replaced: id, type, dependency, peer, tag or length.
fn traces(changed: &str, value: u128) -> Vec<Vec<u8>> {
    let is = |name: &str, usual: u128| if name == changed { value } else { usual };
    let attribute =
        |name: &str, kind: u128, value: u128| field(10, &[field(1, name.as_bytes()), number(kind, value)].concat());
    let node = |id: u128, kind: u128, deps: Vec<u8>, peers: [u128; 2]| {
        let attributes = [
            attribute("comm_size", 9, is("comm_size", 8)),
            attribute("comm_src", 7, peers[0]),
            attribute("comm_dst", 7, peers[1]),
            attribute("comm_tag", 7, is("comm_tag", 3)),
        ];
        let node = [number(1, id), number(3, kind), deps, attributes.concat()].concat();
        [varint(node.len() as u128), node].concat()
    };
    let metadata = field(1, b"0.0.4");
    let metadata = [varint(metadata.len() as u128), metadata].concat();
    let sends = node(is("id", 0), is("type", 5), Vec::new(), [0, is("comm_dst", 1)]);
    let receives = node(0, 6, Vec::new(), [is("comm_src", 0), 1]);
    let again = node(1, 5, number(4, is("ctrl_deps", 0)), [1, 0]);
    let last = node(1, 6, number(5, is("data_deps", 0)), [1, 0]);
    vec![[metadata.clone(), sends, last].concat(), [metadata, receives, again].concat()]
}

#[test]
fn fields_of_chakra() {
    chakra::read(&traces("", 0)).expect("right");
    let fields: [(&str, u128, &[u32]); 8] = [
        ("id", 0, &[64]),
        ("type", 5, &[31, 32, 64]),
        ("ctrl_deps", 0, &[64]),
        ("data_deps", 0, &[64]),
        ("comm_size", 8, &[63, 64]),
        ("comm_src", 0, &[31, 32, 64]),
        ("comm_dst", 1, &[31, 32, 64]),
        ("comm_tag", 3, &[31, 32, 64]),
    ];
    for (name, usual, widths) in fields {
        for width in widths {
            let beyond = usual + (1 << width);
            let error = chakra::read(&traces(name, beyond)).expect_err(&format!("{name} is {beyond}"));
            assert!(error.to_string().contains("rank "), "{name}: {error}");
        }
    }
}
