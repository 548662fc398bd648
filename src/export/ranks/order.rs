//! Happens-before order: vector clocks, and the accesses to a chunk that must be ordered by them.

use super::{Buffer, Span};
use std::collections::BTreeMap;

/// By agent: the number of its events that are done.
pub(in crate::export) type Clock = Vec<u32>;

/// Merges another clock into a clock.
pub(in crate::export) fn merge(clock: &mut [u32], other: &[u32]) {
    clock.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// The last write to a chunk, and the reads since.
///
/// A later access must be ordered only after these: all earlier accesses precede the last write.
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
    /// The accesses that conflict with the next one: the last write, and for a write also the reads since.
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

/// The accesses to the chunks of a rank, in program order.
pub(in crate::export) struct History<T>(BTreeMap<(Buffer, u64), Accesses<T>>);

impl<T> Default for History<T> {
    fn default() -> Self {
        History(BTreeMap::new())
    }
}

impl<T: Copy> History<T> {
    /// The actions that must be done before an action with these reads and writes.
    pub(in crate::export) fn before(&self, reads: &[Span], writes: Option<Span>) -> impl Iterator<Item = T> {
        touched(reads, writes)
            .filter_map(|(chunk, writes)| Some((self.0.get(&chunk)?, writes)))
            .flat_map(|(accesses, writes)| accesses.conflicting(writes).copied())
    }

    /// Adds an action with these reads and writes.
    pub(in crate::export) fn push(&mut self, next: T, reads: &[Span], writes: Option<Span>) {
        for (chunk, writes) in touched(reads, writes) {
            self.0.entry(chunk).or_default().push(next, writes);
        }
    }
}

/// The chunks read, then the chunks written.
fn touched(reads: &[Span], writes: Option<Span>) -> impl Iterator<Item = ((Buffer, u64), bool)> {
    let reads = reads.iter().flat_map(|span| span.chunks()).map(|chunk| (chunk, false));
    reads.chain(writes.into_iter().flat_map(Span::chunks).map(|chunk| (chunk, true)))
}
