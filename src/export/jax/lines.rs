//! Lines of a Python function, grouped by the statement that they come from.

use crate::escape;
use crate::export::source;
use crate::span::Span;

/// Lines so far.
pub(super) struct Lines<'a> {
    source: &'a str,
    text: String,
    depth: usize,
    /// Position of the last line's statement.
    last: Option<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(source: &'a str, depth: usize) -> Lines<'a> {
        Lines { source, text: String::new(), depth, last: None }
    }

    /// Adds a line that belongs to no statement.
    pub(super) fn add(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line of a statement. The statement is printed once, above its first line; `note` is appended as a
    /// comment.
    pub(super) fn add_of(&mut self, statement: Span, line: &str, note: &str) {
        let (number, text) = source::line(self.source, statement);
        if self.last != Some(number) {
            self.last = Some(number);
            self.add(&format!("# {number}: {}", escape::line(text)));
        }
        match note {
            "" => self.add(line),
            note => self.add(&format!("{line}  # {}", escape::line(note))),
        }
    }

    /// Opens an indented block.
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
