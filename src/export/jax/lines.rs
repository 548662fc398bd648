//! Lines of a Python function, grouped by the statement that they come from.

use crate::escape;
use crate::export::source;
use crate::span::Span;

/// A repeat as a `lax.scan`.
pub(super) struct Loop {
    pub(super) times: u64,
    /// The carried arrays, as the body names them.
    pub(super) carried: Vec<String>,
    /// The inputs of the body: stacks outside of it, one array of each inside.
    pub(super) stacked: Vec<String>,
}

/// Arrays as one: `()`, `x`, `(x, y)`.
fn packed(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    }
}

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

    /// Opens the function of an iteration; its caller adds the lines of the body.
    pub(super) fn open_loop(&mut self, scan: &Loop) {
        let parameter = |names: &[String], packed: &str| match names {
            [one] => one.clone(),
            _ => packed.to_owned(),
        };
        let (carry, xs) = (parameter(&scan.carried, "carry"), parameter(&scan.stacked, "per_layer"));
        self.text.push('\n');
        self.open(&format!("def layer({carry}, {xs}):"));
        for (names, packed) in [(&scan.carried, "carry"), (&scan.stacked, "per_layer")] {
            if names.len() > 1 {
                self.add(&format!("{} = {packed}", names.join(", ")));
            }
        }
    }

    /// Closes the function, which hands on `ends`, and calls it for each iteration, the first time with `entries`.
    pub(super) fn close_loop(&mut self, scan: &Loop, entries: &[String], ends: &[String]) {
        self.add(&format!("return {}, None", packed(ends)));
        self.close();
        self.text.push('\n');
        let over = match scan.stacked.as_slice() {
            [] => format!("length={}", scan.times),
            stacked => packed(stacked),
        };
        let call = format!("lax.scan(layer, {}, {over})", packed(entries));
        match scan.carried.as_slice() {
            [] => self.add(&call),
            carried => self.add(&format!("{}, _ = {call}", packed(carried))),
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
