//! A file, from anybody: what it says, as far as a parser of the runtimes would take it.

use super::write::word;
use super::{
    Block, Dialect, Gpu, MOST_BLOCKS, MOST_COUNT, MOST_ON_CHANNEL, MOST_RANKS, MOST_STEPS, Op, Place, Program,
    Protocol, Step,
};
use crate::export::ranks::{At, Buffer, Kind};
use miette::SourceSpan;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use std::ops::Range;
use thiserror::Error;

/// So many nodes and attributes are read.
const MOST_NODES: u32 = 1 << 24;
/// The most chunks of a buffer.
const MOST_CHUNKS: u64 = 1 << 24;

/// Why a text is no file of MSCCL.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-unreadable"))]
#[error("{message}")]
pub struct Unreadable {
    message: String,
    #[label("here")]
    place: SourceSpan,
}

impl Unreadable {
    fn at(node: Node<'_, '_>, message: impl Into<String>) -> Unreadable {
        let range = node.range();
        // A whole rank would hide the place: the tag is enough.
        let length = range.len().min(node.tag_name().name().len() + 1);
        Unreadable { message: message.into(), place: (range.start, length).into() }
    }
}

/// A file, and where its steps stand in the text.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it says.
    pub program: Program,
    /// By rank, thread block and step.
    places: Vec<Vec<Vec<Range<usize>>>>,
}

impl Written {
    /// Where a step stands.
    pub fn place(&self, at: At) -> Option<Range<usize>> {
        self.places.get(at.rank)?.get(at.block)?.get(at.step).cloned()
    }
}

/// Whether a text is to be read as such a file.
pub fn is_msccl(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<algo") || text.starts_with("<?xml") || text.starts_with("<!DOCTYPE")
}

/// Reads a file.
///
/// # Errors
/// The first thing that a runtime would refuse, or would not understand as it stands.
pub fn read(text: &str) -> Result<Written, Unreadable> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        let line: usize = text.split_inclusive('\n').take(at.row.saturating_sub(1) as usize).map(str::len).sum();
        let start = (line + at.col.saturating_sub(1) as usize).min(text.len());
        Unreadable { message: format!("this is no XML: {error}"), place: (start, 0).into() }
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "algo" {
        return Err(Unreadable::at(root, "a file of MSCCL is an `algo`"));
    }
    let kind = kind(root)?;
    let ranks = count(root, "ngpus", MOST_RANKS as u64)?;
    let protocol = text_of(root, "proto")?;
    let protocol = Protocol::ALL.into_iter().find(|known| known.name() == protocol);
    let protocol = protocol.ok_or_else(|| Unreadable::at(root, "`proto` is `Simple`, `LL` or `LL128`"))?;
    let channels = count(root, "nchannels", 64)?;
    let gpus =
        numbered(root, "gpu", ranks)?.into_iter().map(|node| gpu(node, ranks, channels)).collect::<Result<_, _>>()?;
    let sizes = match (root.has_attribute("minBytes"), root.has_attribute("maxBytes")) {
        (false, false) => None,
        _ => Some((count(root, "minBytes", u64::MAX)?, count(root, "maxBytes", u64::MAX)?)),
    };
    let program = Program {
        name: root.attribute("name").unwrap_or_default().to_owned(),
        kind,
        dialect: if root.has_attribute("outofplace") { Dialect::Azure } else { Dialect::Msccl },
        protocol,
        channels: u32::try_from(channels).unwrap_or(u32::MAX),
        chunks_per_loop: count(root, "nchunksperloop", MOST_CHUNKS)?,
        in_place: flag(root, "inplace")?,
        sizes,
        gpus,
    };
    fits(&program, root)?;
    let elements =
        |node: Node<'_, '_>| node.children().filter(Node::is_element).map(|node| node.id()).collect::<Vec<_>>();
    let inside = |id| document.get_node(id).map(elements).unwrap_or_default();
    let place = |id| document.get_node(id).map_or(0..0, |node| node.range());
    let steps = |block| inside(block).into_iter().map(place).collect();
    let blocks = |gpu| inside(gpu).into_iter().map(steps).collect();
    Ok(Written { program, places: elements(root).into_iter().map(blocks).collect() })
}

/// The collective, under the name that one of the dialects gives it.
fn kind(root: Node<'_, '_>) -> Result<Option<Kind>, Unreadable> {
    let name = text_of(root, "coll")?;
    let dialects = [Dialect::Msccl, Dialect::Azure];
    let is_named = |kind: &Kind| dialects.iter().any(|dialect| word(*kind, *dialect) == name);
    match Kind::ALL.into_iter().find(is_named) {
        Some(kind) => Ok(Some(kind)),
        None if name == "custom" => Ok(None),
        None => Err(Unreadable::at(root, format!("`{name}` is no collective that can be proven"))),
    }
}

/// That the buffers are as large as the collective wants them, and both ends of each connection exist.
fn fits(program: &Program, root: Node<'_, '_>) -> Result<(), Unreadable> {
    let n = program.gpus.len() as u64;
    if let Some(kind) = program.kind.filter(|_| program.chunks_per_loop > 0) {
        let (input, output) = match kind {
            Kind::AllGather => (n, 1),
            Kind::ReduceScatter => (1, n),
            Kind::AllReduce | Kind::AllToAll | Kind::Broadcast => (1, 1),
        };
        for (rank, gpu) in program.gpus.iter().enumerate() {
            let [i, o, _] = gpu.chunks;
            // In place one of the buffers stands for both.
            let alone = program.in_place && (i == 0 || o == 0);
            let is = |chunks: u64, factor: u64| chunks.checked_mul(factor) == Some(program.chunks_per_loop);
            let good = if alone { is(i, input) || is(o, output) } else { is(i, input) && is(o, output) };
            if !good {
                let message = format!(
                    "rank {rank} has {i} input and {o} output chunks, which are not the {} of `nchunksperloop`",
                    program.chunks_per_loop
                );
                return Err(Unreadable::at(root, message));
            }
        }
    }
    Ok(())
}

fn gpu(node: Node<'_, '_>, ranks: u64, channels: u64) -> Result<Gpu, Unreadable> {
    let rank = count(node, "id", ranks)?;
    let chunks = [
        count(node, "i_chunks", MOST_CHUNKS)?,
        count(node, "o_chunks", MOST_CHUNKS)?,
        count(node, "s_chunks", MOST_CHUNKS)?,
    ];
    let blocks = numbered(node, "tb", u64::MAX)?;
    if blocks.len() > MOST_BLOCKS {
        return Err(Unreadable::at(node, format!("{} thread blocks; at most {MOST_BLOCKS} are taken", blocks.len())));
    }
    let mut gpu = Gpu { chunks, blocks: Vec::with_capacity(blocks.len()) };
    let mut users: BTreeMap<(bool, u64, Option<u32>), usize> = BTreeMap::new();
    let nodes: Vec<Node<'_, '_>> = blocks;
    for block in &nodes {
        let peer = |name| -> Result<Option<u32>, Unreadable> {
            match signed(*block, name)? {
                -1 => Ok(None),
                peer => match u64::try_from(peer).ok().filter(|peer| *peer < ranks && *peer != rank) {
                    Some(peer) => Ok(u32::try_from(peer).ok()),
                    None => Err(Unreadable::at(*block, format!("`{name}` is `{peer}`, which is no other rank"))),
                },
            }
        };
        let (send, receive) = (peer("send")?, peer("recv")?);
        let channel = count(*block, "chan", channels.saturating_sub(1))?;
        for (sends, peer) in [(true, send), (false, receive)] {
            let known = users.entry((sends, channel, peer)).or_default();
            *known += 1;
            if peer.is_some() && *known > 1 {
                let what = if sends { "send to" } else { "receive from" };
                let peer = peer.unwrap_or_default();
                return Err(Unreadable::at(
                    *block,
                    format!("two thread blocks {what} rank {peer} on channel {channel}"),
                ));
            }
        }
        let steps = numbered(*block, "step", u64::MAX)?;
        if steps.len() > MOST_STEPS {
            return Err(Unreadable::at(*block, format!("{} steps; at most {MOST_STEPS} are taken", steps.len())));
        }
        let steps = steps.into_iter().map(|node| step(node, &gpu, send, receive)).collect::<Result<_, _>>()?;
        let channel = u32::try_from(channel).unwrap_or(u32::MAX);
        gpu.blocks.push(Block { send, receive, channel, steps });
    }
    for sends in [true, false] {
        let of_channel =
            |channel: u64| users.keys().filter(|(s, c, p)| (*s, *c) == (sends, channel) && p.is_some()).count();
        if (0..channels).any(|channel| of_channel(channel) > MOST_ON_CHANNEL) {
            return Err(Unreadable::at(node, format!("more than {MOST_ON_CHANNEL} connections on one channel")));
        }
    }
    for (block, steps) in nodes.iter().zip(&gpu.blocks) {
        for (node, step) in block.children().filter(Node::is_element).zip(&steps.steps) {
            if let Some((other, place)) = step.after {
                let known = gpu.blocks.get(other).and_then(|block| block.steps.get(place));
                let awaited = known.ok_or_else(|| {
                    Unreadable::at(
                        node,
                        format!("it waits for step {place} of thread block {other}, which is not there"),
                    )
                })?;
                if !awaited.awaited {
                    let message = format!("it waits for step {place} of thread block {other}, whose `hasdep` is 0");
                    return Err(Unreadable::at(node, message));
                }
            }
        }
    }
    Ok(gpu)
}

fn step(node: Node<'_, '_>, gpu: &Gpu, send: Option<u32>, receive: Option<u32>) -> Result<Step, Unreadable> {
    let name = text_of(node, "type")?;
    let op = Op::ALL.into_iter().find(|op| op.word() == name);
    let op = op.ok_or_else(|| Unreadable::at(node, format!("`{name}` is no type of a step")))?;
    if op.sends() && send.is_none() {
        return Err(Unreadable::at(node, format!("`{name}` sends, and its thread block has nobody to send to")));
    }
    if op.receives() && receive.is_none() {
        return Err(Unreadable::at(
            node,
            format!("`{name}` receives, and its thread block has nobody to receive from"),
        ));
    }
    let length = count(node, "cnt", MOST_COUNT)?;
    let place = |buffer, offset, used: bool| -> Result<Place, Unreadable> {
        let letter = text_of(node, buffer)?;
        let none = || Unreadable::at(node, format!("`{letter}` is no buffer; they are `i`, `o` and `s`"));
        let buffer = Buffer::of(letter).ok_or_else(none)?;
        // What is not used may be anything.
        let chunk =
            if used { count(node, offset, MOST_CHUNKS)? } else { u64::try_from(signed(node, offset)?).unwrap_or(0) };
        if used && chunk.checked_add(length).is_none_or(|end| end > gpu.size(buffer)) {
            let message =
                format!("chunks {chunk} to {} are not in buffer `{letter}` of {}", chunk + length, gpu.size(buffer));
            return Err(Unreadable::at(node, message));
        }
        Ok(Place { buffer, chunk })
    };
    if op != Op::Nop && length == 0 {
        return Err(Unreadable::at(node, "a step of no chunks"));
    }
    let (source, target) =
        (place("srcbuf", "srcoff", op.reads_source())?, place("dstbuf", "dstoff", op.writes_target())?);
    let after = match (signed(node, "depid")?, signed(node, "deps")?) {
        (-1, _) => None,
        (block, step) => match (usize::try_from(block), usize::try_from(step)) {
            (Ok(block), Ok(step)) => Some((block, step)),
            _ => return Err(Unreadable::at(node, "`depid` and `deps` are a thread block and a step of it")),
        },
    };
    Ok(Step { op, source, target, count: length, after, awaited: flag(node, "hasdep")? })
}

/// The children of this name, whose ids count from 0; all of them, if it is known how many.
fn numbered<'a, 'input>(node: Node<'a, 'input>, name: &str, wanted: u64) -> Result<Vec<Node<'a, 'input>>, Unreadable> {
    let mut found = Vec::new();
    for child in node.children().filter(Node::is_element) {
        if child.tag_name().name() != name {
            return Err(Unreadable::at(child, format!("`{}` where a `{name}` stands", child.tag_name().name())));
        }
        let id = count(child, if name == "step" { "s" } else { "id" }, u64::MAX)?;
        if id != found.len() as u64 {
            return Err(Unreadable::at(child, format!("`{name}` {id} where number {} stands", found.len())));
        }
        found.push(child);
    }
    if wanted != u64::MAX && found.len() as u64 != wanted {
        return Err(Unreadable::at(node, format!("{} of `{name}`, and there should be {wanted}", found.len())));
    }
    Ok(found)
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, Unreadable> {
    let missing = || Unreadable::at(node, format!("`{}` has no `{name}`", node.tag_name().name()));
    node.attribute(name).ok_or_else(missing)
}

fn signed(node: Node<'_, '_>, name: &str) -> Result<i64, Unreadable> {
    let text = text_of(node, name)?;
    text.parse().map_err(|_| Unreadable::at(node, format!("`{name}` is `{text}`, which is no number")))
}

fn count(node: Node<'_, '_>, name: &str, most: u64) -> Result<u64, Unreadable> {
    let text = text_of(node, name)?;
    let number = text.parse::<u64>().ok();
    let number = number.ok_or_else(|| Unreadable::at(node, format!("`{name}` is `{text}`, which is no count")))?;
    if number > most {
        return Err(Unreadable::at(node, format!("`{name}` is {number}; at most {most} are taken")));
    }
    Ok(number)
}

fn flag(node: Node<'_, '_>, name: &str) -> Result<bool, Unreadable> {
    match text_of(node, name)? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(Unreadable::at(node, format!("`{name}` is `{other}`, where 0 or 1 stands"))),
    }
}
