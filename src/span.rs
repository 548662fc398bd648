//! Locations in a source text.

use std::ops::Range;

/// A range of bytes of the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    ///
    /// # Panics
    /// If a position does not fit into 32 bits; sources are limited to far less.
    pub fn new(start: usize, end: usize) -> Span {
        let narrow = |at: usize| u32::try_from(at).expect("sources are capped below 4 GiB");
        Span { start: narrow(start), end: narrow(end) }
    }

    /// The smallest span that holds both.
    pub fn join(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The text of the span; empty if the span is outside of the source.
    pub fn text(self, source: &str) -> &str {
        source.get(self.range()).unwrap_or_default()
    }

    /// The span as a range of indices.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl From<Span> for miette::SourceSpan {
    fn from(span: Span) -> Self {
        let length = span.end.saturating_sub(span.start) as usize;
        (span.start as usize, length).into()
    }
}

/// A syntax node with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The node.
    pub node: T,
    /// Its location.
    pub span: Span,
}

/// Lines and columns of byte offsets; built once per source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    /// Finds the starts of the lines of `source`.
    pub fn new(source: &str) -> LineIndex {
        let ends = source.bytes().zip(1u32..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        LineIndex { starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Line of a byte offset, from 1.
    pub fn line(&self, offset: u32) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1)
    }

    /// Line and column of a byte offset, from 1; the column counts characters.
    pub fn line_column(&self, source: &str, offset: u32) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.starts[line - 1] as usize;
        let before = source.as_bytes().get(start..offset as usize).unwrap_or_default();
        let column = before.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = "A\n·· B";
        let index = LineIndex::new(source);
        assert_eq!(index.line_column(source, 0), (1, 1));
        assert_eq!(index.line_column(source, 2), (2, 1));
        assert_eq!(index.line_column(source, 7), (2, 4));
    }
}
