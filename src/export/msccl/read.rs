//! Reads MSCCL files from any source, as strictly as the runtimes' parsers.

use super::write::word;
use super::{
    Block, Calls, Dialect, Gpu, MOST_BLOCKS, MOST_CHUNKS, MOST_COUNT, MOST_OFFSET, MOST_ON_CHANNEL, MOST_RANKS,
    MOST_STEPS, Op, Place, Program, Protocol, Step,
};
use crate::export::ranks::{At, Buffer, Kind};
use itertools::Itertools;
use miette::SourceSpan;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeSet;
use std::mem::size_of;
use std::ops::Range;
use thiserror::Error;

/// Maximum number of nodes and attributes read.
const MOST_NODES: u32 = 1 << 24;

/// Largest number of bytes: `minBytes` and `maxBytes` are stored in 64 signed bits.
const MOST_BYTES: u64 = i64::MAX.cast_unsigned();

/// The reason why a text is not an MSCCL file.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[diagnostic(code("algorithm-unreadable"))]
#[error("{message}")]
pub struct Unreadable {
    message: String,
    #[label("here")]
    place: SourceSpan,
}

impl Unreadable {
    /// Returns an error unless the condition holds.
    fn unless(holds: bool, node: Node<'_, '_>, message: impl FnOnce() -> String) -> Result<(), Unreadable> {
        if holds { Ok(()) } else { Err(Unreadable::at(node, message())) }
    }

    fn at(node: Node<'_, '_>, message: impl Into<String>) -> Unreadable {
        let range = node.range();
        // Marks only the tag, as marking a whole rank would be unhelpful.
        let length = range.len().min(node.tag_name().name().len() + 1);
        Unreadable { message: message.into(), place: (range.start, length).into() }
    }
}

/// A file, with the positions of its steps in the text.
#[derive(Clone, Debug)]
pub struct Written {
    /// The parsed file.
    pub program: Program,
    /// Text ranges by rank, thread block and step.
    places: Vec<Vec<Vec<Range<usize>>>>,
}

impl Written {
    /// Text range of a step.
    pub fn place(&self, at: At) -> Option<Range<usize>> {
        self.places.get(at.rank)?.get(at.block)?.get(at.step).cloned()
    }
}

/// Whether a text looks like an MSCCL file.
pub fn is_msccl(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<algo") || text.starts_with("<?xml") || text.starts_with("<!DOCTYPE")
}

/// Reads a file.
///
/// # Errors
/// The first part that a runtime would refuse or misread.
pub fn read(text: &str) -> Result<Written, Unreadable> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        let line: usize = text.split_inclusive('\n').take(at.row.saturating_sub(1) as usize).map(str::len).sum();
        let start = (line + at.col.saturating_sub(1) as usize).min(text.len());
        Unreadable { message: format!("invalid XML: {error}"), place: (start, 0).into() }
    })?;
    let root = document.root_element();
    Unreadable::unless(root.tag_name().name() == "algo", root, || "the root element must be `algo`".to_owned())?;
    let kind = kind(root)?;
    let ranks = count(root, "ngpus", MOST_RANKS as u64)?;
    let protocol = text_of(root, "proto")?;
    let protocol = Protocol::ALL.into_iter().find(|known| known.name() == protocol);
    let protocol = protocol.ok_or_else(|| Unreadable::at(root, "`proto` must be `Simple`, `LL` or `LL128`"))?;
    let channels = count(root, "nchannels", 64)?;
    let gpus =
        numbered(root, "gpu", ranks)?.into_iter().map(|node| gpu(node, ranks, channels)).collect::<Result<_, _>>()?;
    let sizes = match (root.has_attribute("minBytes"), root.has_attribute("maxBytes")) {
        (false, false) => None,
        _ => Some((count(root, "minBytes", MOST_BYTES)?, count(root, "maxBytes", MOST_BYTES)?)),
    };
    let dialect = if root.has_attribute("outofplace") { Dialect::Azure } else { Dialect::Msccl };
    let in_place = flag(root, "inplace")?;
    let out_of_place = if dialect == Dialect::Azure { flag(root, "outofplace")? } else { !in_place };
    let calls = match (in_place, out_of_place) {
        (true, true) => Calls::Both,
        (true, false) => Calls::InPlace,
        (false, true) => Calls::OutOfPlace,
        (false, false) => {
            return Err(Unreadable::at(root, "`inplace` and `outofplace` are both 0, so no call uses the file"));
        }
    };
    let program = Program {
        name: root.attribute("name").unwrap_or_default().to_owned(),
        kind,
        dialect,
        protocol,
        channels: u32::try_from(channels).unwrap_or(u32::MAX),
        chunks_per_loop: count(root, "nchunksperloop", MOST_CHUNKS)?,
        calls,
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

/// The collective, by its name in either dialect.
fn kind(root: Node<'_, '_>) -> Result<Option<Kind>, Unreadable> {
    let name = text_of(root, "coll")?;
    let dialects = [Dialect::Msccl, Dialect::Azure];
    let is_named = |kind: &Kind| dialects.iter().any(|dialect| word(*kind, *dialect) == name);
    match Kind::ALL.into_iter().find(is_named) {
        Some(kind) => Ok(Some(kind)),
        None if name == "custom" => Ok(None),
        None => Err(Unreadable::at(root, format!("unsupported collective `{name}`"))),
    }
}

/// Checks that the buffers have the sizes that the collective requires, and that both ends of each connection exist.
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
            // In-place files may declare only one of the two buffers.
            let alone = program.calls == Calls::InPlace && (i == 0 || o == 0);
            let is = |chunks: u64, factor: u64| chunks.checked_mul(factor) == Some(program.chunks_per_loop);
            let good = if alone { is(i, input) || is(o, output) } else { is(i, input) && is(o, output) };
            Unreadable::unless(good, root, || {
                let all = program.chunks_per_loop;
                format!("rank {rank} has {i} input and {o} output chunks, but `nchunksperloop` is {all}")
            })?;
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
    let nodes = numbered(node, "tb", u64::MAX)?;
    let count_of = |what: &str, most: usize, count: usize| format!("{count} {what}; the limit is {most}");
    Unreadable::unless(nodes.len() <= MOST_BLOCKS, node, || count_of("thread blocks", MOST_BLOCKS, nodes.len()))?;
    let mut gpu = Gpu { chunks, blocks: Vec::with_capacity(nodes.len()) };
    // The peers by direction and channel.
    let mut users: BTreeSet<(bool, u64, u32)> = BTreeSet::new();
    for block in &nodes {
        let peer = |name| -> Result<Option<u32>, Unreadable> {
            match stored::<i16>(*block, name)? {
                -1 => Ok(None),
                peer => match u64::try_from(peer).ok().filter(|peer| *peer < ranks && *peer != rank) {
                    Some(peer) => Ok(u32::try_from(peer).ok()),
                    None => Err(Unreadable::at(*block, format!("`{name}` is `{peer}`, which is not another rank"))),
                },
            }
        };
        let (send, receive) = (peer("send")?, peer("recv")?);
        let channel = count(*block, "chan", channels.saturating_sub(1))?;
        for (sends, what, peer) in [(true, "send to", send), (false, "receive from", receive)] {
            let Some(peer) = peer else { continue };
            let twice = || format!("two thread blocks {what} rank {peer} on channel {channel}");
            Unreadable::unless(users.insert((sends, channel, peer)), *block, twice)?;
        }
        let steps = numbered(*block, "step", u64::MAX)?;
        Unreadable::unless(steps.len() <= MOST_STEPS, *block, || count_of("steps", MOST_STEPS, steps.len()))?;
        let steps = steps.into_iter().map(|node| step(node, &gpu, send, receive)).collect::<Result<_, _>>()?;
        let channel = u32::try_from(channel).unwrap_or(u32::MAX);
        gpu.blocks.push(Block { send, receive, channel, steps });
    }
    for (sends, channel) in [true, false].into_iter().cartesian_product(0..channels) {
        let known = users.iter().filter(|(s, c, _)| (*s, *c) == (sends, channel)).count();
        let many = || format!("more than {MOST_ON_CHANNEL} connections on one channel");
        Unreadable::unless(known <= MOST_ON_CHANNEL, node, many)?;
    }
    for (block, steps) in nodes.iter().zip(&gpu.blocks) {
        for (node, step) in block.children().filter(Node::is_element).zip(&steps.steps) {
            let Some((other, place)) = step.after else { continue };
            let waits = |but: &str| format!("it waits for step {place} of thread block {other}, {but}");
            let known = gpu.blocks.get(other).and_then(|block| block.steps.get(place));
            let awaited = known.ok_or_else(|| Unreadable::at(node, waits("which does not exist")))?;
            Unreadable::unless(awaited.awaited, node, || waits("whose `hasdep` is 0"))?;
        }
    }
    Ok(gpu)
}

fn step(node: Node<'_, '_>, gpu: &Gpu, send: Option<u32>, receive: Option<u32>) -> Result<Step, Unreadable> {
    let name = text_of(node, "type")?;
    let op = Op::ALL.into_iter().find(|op| op.word() == name);
    let op = op.ok_or_else(|| Unreadable::at(node, format!("unknown step type `{name}`")))?;
    let no_peer = |what: &str| format!("`{name}` {what}");
    Unreadable::unless(!op.sends() || send.is_some(), node, || {
        no_peer("sends, but its thread block has no send peer")
    })?;
    Unreadable::unless(!op.receives() || receive.is_some(), node, || {
        no_peer("receives, but its thread block has no receive peer")
    })?;
    let length = count(node, "cnt", MOST_COUNT)?;
    let place = |buffer, offset, used: bool| -> Result<Place, Unreadable> {
        let letter = text_of(node, buffer)?;
        let none = || Unreadable::at(node, format!("unknown buffer `{letter}`; buffers are `i`, `o` and `s`"));
        let buffer = Buffer::of(letter).ok_or_else(none)?;
        // Unused operands may have any value that the runtime can store.
        let chunk = match used {
            true => count(node, offset, MOST_OFFSET)?,
            false => u64::try_from(stored::<i16>(node, offset)?).unwrap_or(0),
        };
        let size = gpu.size(buffer);
        let fits = !used || chunk.checked_add(length).is_some_and(|end| end <= size);
        let beyond = || format!("chunks {chunk} to {} exceed buffer `{letter}` of {size}", chunk + length);
        Unreadable::unless(fits, node, beyond)?;
        Ok(Place { buffer, chunk })
    };
    Unreadable::unless(op == Op::Nop || length > 0, node, || "a step of no chunks".to_owned())?;
    let (source, target) =
        (place("srcbuf", "srcoff", op.reads_source())?, place("dstbuf", "dstoff", op.writes_target())?);
    let after = match (stored::<i16>(node, "depid")?, stored::<i16>(node, "deps")?) {
        (-1, _) => None,
        (block, step) => match (usize::try_from(block), usize::try_from(step)) {
            (Ok(block), Ok(step)) => Some((block, step)),
            _ => return Err(Unreadable::at(node, "`depid` and `deps` must name a thread block and one of its steps")),
        },
    };
    Ok(Step { op, source, target, count: length, after, awaited: flag(node, "hasdep")? })
}

/// The children, which must have this name and ids counted from 0. `wanted` is their required number, or `u64::MAX`
/// for any.
fn numbered<'a, 'input>(node: Node<'a, 'input>, name: &str, wanted: u64) -> Result<Vec<Node<'a, 'input>>, Unreadable> {
    let mut found = Vec::new();
    for child in node.children().filter(Node::is_element) {
        let tag = child.tag_name().name();
        Unreadable::unless(tag == name, child, || format!("expected `{name}`, found `{tag}`"))?;
        let id = count(child, if name == "step" { "s" } else { "id" }, u64::MAX)?;
        let next = found.len();
        Unreadable::unless(id == next as u64, child, || format!("expected `{name}` {next}, found {id}"))?;
        found.push(child);
    }
    let is_all = wanted == u64::MAX || found.len() as u64 == wanted;
    Unreadable::unless(is_all, node, || format!("{} of `{name}`, expected {wanted}", found.len()))?;
    Ok(found)
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, Unreadable> {
    let missing = || Unreadable::at(node, format!("`{}` lacks `{name}`", node.tag_name().name()));
    node.attribute(name).ok_or_else(missing)
}

/// A signed number that fits the runtime's type for it.
fn stored<T: TryFrom<i64> + Into<i64>>(node: Node<'_, '_>, name: &str) -> Result<i64, Unreadable> {
    let text = text_of(node, name)?;
    let number: i64 =
        text.parse().map_err(|_| Unreadable::at(node, format!("`{name}` is `{text}`, expected a number")))?;
    let bits = 8 * size_of::<T>();
    let beyond = || Unreadable::at(node, format!("`{name}` is {number}; runtimes store it in {bits} signed bits"));
    T::try_from(number).map(Into::into).map_err(|_| beyond())
}

fn count(node: Node<'_, '_>, name: &str, most: u64) -> Result<u64, Unreadable> {
    let text = text_of(node, name)?;
    let number = text.parse::<u64>().ok();
    let number = number.ok_or_else(|| Unreadable::at(node, format!("`{name}` is `{text}`, expected a count")))?;
    Unreadable::unless(number <= most, node, || format!("`{name}` is {number}; the limit is {most}"))?;
    Ok(number)
}

fn flag(node: Node<'_, '_>, name: &str) -> Result<bool, Unreadable> {
    match text_of(node, name)? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(Unreadable::at(node, format!("`{name}` is `{other}`, expected 0 or 1"))),
    }
}
