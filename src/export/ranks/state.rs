//! What the buffers of ranks hold while a file is proven, on symbols: what the provers of all formats share.

use super::{Buffer, Kind, Shape};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What is in a chunk: the input chunks that were added up, by rank and place, in order.
pub(in crate::export) type Content = Rc<[(u32, u64)]>;

/// A chunk of a rank.
pub(in crate::export) type Slot = (usize, Buffer, u64);

/// The shape that a file has, if it is one of its collective.
///
/// - `chunks`: of the input and the output of each rank. In place one of the two buffers may say it for both.
///
/// # Errors
/// The largest input and output, where they do not fit the collective.
pub(in crate::export) fn shape(
    kind: Kind,
    in_place: bool,
    chunks: impl ExactSizeIterator<Item = [u64; 2]>,
) -> Result<Shape, Shape> {
    let ranks = chunks.len() as u64;
    let largest = |most: [u64; 2], next: [u64; 2]| [most[0].max(next[0]), most[1].max(next[1])];
    let [mut input, mut output] = chunks.fold([0, 0], largest);
    if in_place {
        match kind {
            Kind::AllGather if output == 0 => output = input * ranks,
            Kind::AllGather => input = output / ranks.max(1),
            Kind::ReduceScatter if input == 0 => input = output * ranks,
            Kind::ReduceScatter => output = input / ranks.max(1),
            Kind::AllReduce | Kind::AllToAll | Kind::Broadcast => {
                (input, output) = (input.max(output), input.max(output))
            }
        }
    }
    let shape = Shape { ranks, input, output };
    let fits = ranks > 0 && input > 0 && output > 0 && kind.wanted(shape, 0, 0).is_some();
    if fits { Ok(shape) } else { Err(shape) }
}

/// The chunk that a chunk is: in place input and output are one buffer, of which one may be a part.
pub(in crate::export) fn slot(in_place: bool, kind: Kind, shape: Shape, (rank, buffer, chunk): Slot) -> Slot {
    if !in_place {
        return (rank, buffer, chunk);
    }
    let offset = |each: u64| rank as u64 * each;
    match (buffer, kind) {
        (Buffer::Input, Kind::AllGather) => (rank, Buffer::Output, offset(shape.input) + chunk),
        (Buffer::Output, Kind::ReduceScatter) => (rank, Buffer::Output, offset(shape.output) + chunk),
        (Buffer::Input | Buffer::Output, _) => (rank, Buffer::Output, chunk),
        (Buffer::Scratch, _) => (rank, Buffer::Scratch, chunk),
    }
}

/// In words, how an output chunk differs from what the collective wants there; `None` if it does not.
pub(in crate::export) fn wrong(
    kind: Kind,
    shape: Shape,
    (rank, chunk): (usize, u64),
    found: Option<&Content>,
) -> Option<String> {
    let found: BTreeSet<(u64, u64)> =
        found.iter().flat_map(|content| content.iter()).map(|(rank, at)| (u64::from(*rank), *at)).collect();
    let wanted: BTreeSet<(u64, u64)> = kind.wanted(shape, rank as u64, chunk).unwrap_or_default().into_iter().collect();
    let of = |(rank, at): &(u64, u64)| format!("chunk {at} of rank {rank}");
    if found.is_empty() {
        return Some("is never written".to_owned());
    }
    let missing = wanted.difference(&found).next().map(|missing| format!("lacks {}", of(missing)));
    missing.or_else(|| {
        let more = found.difference(&wanted).next();
        more.map(|more| format!("has {}, which does not belong there", of(more)))
    })
}

/// What is in any of the parts.
///
/// # Errors
/// The input chunk that is in two of them, as a rank and a place.
pub(in crate::export) fn sum<'c>(parts: impl Iterator<Item = &'c Content>) -> Result<Content, (u32, u64)> {
    let mut all: Vec<(u32, u64)> = parts.flat_map(|content| content.iter().copied()).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(pair[0]),
        None => Ok(Rc::from(all)),
    }
}

/// A buffer in words.
pub(in crate::export) fn name(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "the input",
        Buffer::Output => "the output",
        Buffer::Scratch => "the scratch",
    }
}
