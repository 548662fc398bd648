//! Readers for GOAL and Chakra, written from the formats' descriptions.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small")]

use std::collections::BTreeMap;

/// An action of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) what: What,
    /// Actions of the same rank that must be done before.
    pub(super) after: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Send {
        to: usize,
        tag: u64,
        bytes: u64,
    },
    Receive {
        from: usize,
        tag: u64,
        bytes: u64,
    },
    /// Computes for a number of nanoseconds.
    Compute {
        nanoseconds: u64,
    },
}

/// Actions of each rank, in file order.
pub(super) type Trace = Vec<Vec<Action>>;

/// Reads GOAL.
pub(super) fn goal(text: &str) -> Trace {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let number = |word: &str| word.trim_end_matches('b').parse::<u64>().expect("a number");
    let count = lines.next().and_then(|line| line.strip_prefix("num_ranks ")).map(number).expect("a header");
    let mut trace: Trace = Vec::new();
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = trace.last_mut();
        match words.as_slice() {
            ["rank", rank, "{"] => {
                assert_eq!(number(rank), trace.len() as u64, "ranks in order");
                labels.clear();
                trace.push(Vec::new());
            }
            ["}"] => {}
            [label, "requires", before] => {
                own.expect("inside a rank")[labels[*label]].after.push(labels[*before]);
            }
            [label, rest @ ..] => {
                let what = match *rest {
                    ["send", bytes, "to", to, "tag", tag] => {
                        What::Send { to: number(to) as usize, tag: number(tag), bytes: number(bytes) }
                    }
                    ["recv", bytes, "from", from, "tag", tag] => {
                        What::Receive { from: number(from) as usize, tag: number(tag), bytes: number(bytes) }
                    }
                    ["calc", nanoseconds] => What::Compute { nanoseconds: number(nanoseconds) },
                    _ => panic!("unknown action: {line}"),
                };
                let own = own.expect("inside a rank");
                let earlier = labels.insert(label.trim_end_matches(':').to_owned(), own.len());
                assert_eq!(earlier, None, "labels are unique");
                own.push(Action { what, after: Vec::new() });
            }
            [] => {}
        }
    }
    assert_eq!(count, trace.len() as u64);
    trace
}

/// A field of a protobuf message: a number, or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, after) = rest.split_first().expect("a whole number");
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}

fn bytes<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = varint(rest) as usize;
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    bytes
}

fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)),
            2 => Field::Bytes(bytes(&mut rest)),
            wire => panic!("unexpected wire type {wire}"),
        };
        found.push((key >> 3, field));
    }
    found
}

/// Reads the Chakra traces of all ranks.
pub(super) fn chakra(files: &[Vec<u8>]) -> Trace {
    files.iter().map(|file| chakra_rank(file)).collect()
}

fn chakra_rank(mut file: &[u8]) -> Vec<Action> {
    assert!(!bytes(&mut file).is_empty(), "metadata with a version");
    let (mut actions, mut ids, mut waits) = (Vec::new(), BTreeMap::new(), Vec::new());
    while !file.is_empty() {
        let (mut id, mut kind, mut micros) = (0, 0, 0);
        let (mut deps, mut attributes) = (Vec::new(), BTreeMap::new());
        for (number, field) in fields(bytes(&mut file)) {
            match (number, field) {
                (1, Field::Number(number)) => id = number,
                (3, Field::Number(number)) => kind = number,
                (7, Field::Number(number)) => micros = number,
                (4 | 5, Field::Number(number)) => deps.push(number),
                (4 | 5, Field::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        deps.push(varint(&mut packed));
                    }
                }
                (10, Field::Bytes(attribute)) => {
                    let (name, value) = attribute_of(attribute);
                    attributes.insert(name, value);
                }
                _ => {}
            }
        }
        let int64 = |name: &str| match attributes.get(name) {
            Some((9, number)) => *number,
            other => panic!("`{name}` is not an int64: {other:?}"),
        };
        let int32 = |name: &str| match attributes.get(name) {
            Some((7, number)) => i32::try_from(*number).expect("31 bits") as u64,
            other => panic!("`{name}` is not an int32: {other:?}"),
        };
        let what = match kind {
            4 => What::Compute { nanoseconds: micros * 1000 },
            5 => What::Send { to: int32("comm_dst") as usize, tag: int32("comm_tag"), bytes: int64("comm_size") },
            6 => What::Receive { from: int32("comm_src") as usize, tag: int32("comm_tag"), bytes: int64("comm_size") },
            other => panic!("node type {other}"),
        };
        assert_eq!(ids.insert(id, actions.len()), None, "ids are unique");
        waits.push(deps);
        actions.push(Action { what, after: Vec::new() });
    }
    for (action, deps) in actions.iter_mut().zip(waits) {
        action.after = deps.iter().map(|id| ids[id]).collect();
    }
    actions
}

/// The name of an attribute, and the number of its value's field with its value.
fn attribute_of(attribute: &[u8]) -> (String, (u64, u64)) {
    let (mut name, mut value) = (String::new(), (0, 0));
    for (number, field) in fields(attribute) {
        match (number, field) {
            (1, Field::Bytes(text)) => name = String::from_utf8(text.to_vec()).expect("a name"),
            (number, Field::Number(of)) => value = (number, of),
            _ => {}
        }
    }
    (name, value)
}
