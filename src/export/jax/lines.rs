//! Lines of a Python function, each group under the statement that it comes from.

use crate::escape;
use crate::export::told;
use crate::span::Span;

/// Lines so far.
pub(super) struct Lines<'a> {
    source: &'a str,
    text: String,
    depth: usize,
    /// Where the statement of the last line stands.
    last: Option<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(source: &'a str, depth: usize) -> Lines<'a> {
        Lines { source, text: String::new(), depth, last: None }
    }

    /// A line of its own.
    pub(super) fn add(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A line of a statement, which is told once for all its lines; `note` stands behind it as a comment.
    pub(super) fn add_of(&mut self, statement: Span, line: &str, note: &str) {
        let (number, text) = told::line(self.source, statement);
        if self.last != Some(number) {
            self.last = Some(number);
            self.add(&format!("# {number}: {}", escape::line(text)));
        }
        match note {
            "" => self.add(line),
            note => self.add(&format!("{line}  # {}", escape::line(note))),
        }
    }

    /// What follows stands in a block.
    pub(super) fn open(&mut self, head: &str) {
        self.add(head);
        self.depth += 1;
        self.last = None;
    }

    pub(super) fn close(&mut self) {
        self.depth -= 1;
        self.last = None;
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
