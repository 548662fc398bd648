//! Happens-before: vector clocks, and the accesses to a chunk that must be ordered by them.

use super::{Buffer, Span};
use std::collections::BTreeMap;

/// By agent: how much of its work is done.
pub(in crate::export) type Clock = Vec<u32>;

/// Makes a clock know what another one knows.
pub(in crate::export) fn merge(clock: &mut [u32], other: &[u32]) {
    clock.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// The last write to a chunk, and the reads since.
///
/// These are all that a later access has to come after: what was before the last write is before it already.
#[derive(Clone, Debug)]
pub(in crate::export) struct Accesses<T> {
    writer: Option<T>,
    readers: Vec<T>,
}

impl<T> Default for Accesses<T> {
    fn default() -> Self {
        Accesses { writer: None, readers: Vec::new() }
    }
}

impl<T: Copy> Accesses<T> {
    /// The accesses that conflict with the next one: a read with the last write, a write with the reads since as well.
    pub(in crate::export) fn conflicting(&self, writes: bool) -> impl Iterator<Item = &T> {
        self.writer.iter().chain(self.readers.iter().filter(move |_| writes))
    }

    /// Adds an access.
    pub(in crate::export) fn push(&mut self, access: T, writes: bool) {
        if writes {
            *self = Accesses { writer: Some(access), readers: Vec::new() };
        } else {
            self.readers.push(access);
        }
    }
}

/// The accesses to the chunks of a rank, in the order in which it does what it does.
pub(in crate::export) struct History<T>(BTreeMap<(Buffer, u64), Accesses<T>>);

impl<T> Default for History<T> {
    fn default() -> Self {
        History(BTreeMap::new())
    }
}

impl<T: Copy> History<T> {
    /// What has to be done before something that reads and writes these chunks.
    pub(in crate::export) fn before(&self, reads: &[Span], writes: Option<Span>) -> impl Iterator<Item = T> {
        touched(reads, writes)
            .filter_map(|(chunk, writes)| Some((self.0.get(&chunk)?, writes)))
            .flat_map(|(accesses, writes)| accesses.conflicting(writes).copied())
    }

    /// Adds what reads and writes these chunks.
    pub(in crate::export) fn push(&mut self, next: T, reads: &[Span], writes: Option<Span>) {
        for (chunk, writes) in touched(reads, writes) {
            self.0.entry(chunk).or_default().push(next, writes);
        }
    }
}

/// Chunks that are read, then those that are written.
fn touched(reads: &[Span], writes: Option<Span>) -> impl Iterator<Item = ((Buffer, u64), bool)> {
    let reads = reads.iter().flat_map(|span| span.chunks()).map(|chunk| (chunk, false));
    reads.chain(writes.into_iter().flat_map(Span::chunks).map(|chunk| (chunk, true)))
}
