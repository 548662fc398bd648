//! Happens-before: vector clocks, and the accesses to a chunk that must be ordered by them.

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
