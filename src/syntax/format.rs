//! The formatter: canonical style, with all comments kept.
//!
//! `format_tokens.rs` turns the grammar's matches into tokens, `format_lines.rs` sets them on lines, and this module joins
//! statements and the comments between them. The author's line breaks are kept.

use super::format_lines::{Comment, INDENT, Set, set, set_comment, set_on_one_line};
use super::format_tokens::tokens;
use super::parse::{matched, parse};
use super::split::{Piece, pieces};
use crate::diag::Diagnostics;
use crate::span::Span;

/// Longer names are ignored when dtypes are aligned.
const WIDEST_NAME: usize = 32;

/// Prints a program in canonical style, with the same meaning and all comments.
///
/// - Signs are ASCII, `*` and `->`; a result stays on the side of the statement where it was written.
/// - One statement a line, one space after `:` and `,`, none inside brackets; `I_{X}` is `I_X`.
/// - Consecutive inputs have their dtypes aligned.
/// - Blank lines are collapsed to one. A multi-line statement keeps its lines, and a multi-line `mesh` or `dims` has its
///   braces on lines of their own.
///
/// # Errors
/// If the source has syntax errors: a text that cannot be read is not touched.
pub fn format(source: &str) -> Result<String, Diagnostics> {
    let (_, diagnostics) = parse(source);
    if diagnostics.has_errors() { Err(diagnostics) } else { Ok(File::read(source).to_text()) }
}

/// Number of statements left unformatted because their canonical text would not parse back; expected to be 0.
#[cfg(test)]
pub(super) fn left_alone(source: &str) -> usize {
    pieces(source).filter(|piece| formatted(source, *piece).is_none()).count()
}

/// A source being printed.
#[derive(Default)]
struct File {
    entries: Vec<Entry>,
    /// Number of open blocks.
    depth: usize,
}

/// A statement, or a comment on a line of its own.
struct Entry {
    /// Whether a blank line precedes it.
    apart: bool,
    /// The lines of the statement without its trailing comment; or the comment.
    text: String,
    /// The trailing comment.
    trailing: Option<String>,
    /// Its role for neighbouring entries.
    role: Role,
    /// Its block depth.
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Comment,
    /// A one-line input, and the number of characters up to its `:`.
    Input(usize),
    Other,
}

impl File {
    fn read(source: &str) -> File {
        let mut file = File::default();
        let mut at = 0;
        for piece in pieces(source) {
            let newlines = file.between(&source[at..piece.span.start as usize]);
            file.statement(source, piece, newlines > 1);
            at = piece.span.end as usize;
        }
        file.between(&source[at..]);
        file
    }

    /// Collects the comments between two statements; returns the newlines after the last of them.
    fn between(&mut self, gap: &str) -> usize {
        let mut newlines = 0;
        let mut rest = gap;
        while let Some(c) = rest.chars().next() {
            if c == '#' {
                let end = rest.find('\n').unwrap_or(rest.len());
                self.comment(&rest[..end], newlines);
                newlines = 0;
                rest = &rest[end..];
            } else {
                newlines += usize::from(c == '\n');
                rest = &rest[c.len_utf8()..];
            }
        }
        newlines
    }

    fn comment(&mut self, text: &str, newlines: usize) {
        let text = set_comment(text);
        match self.entries.last_mut() {
            Some(last) if newlines == 0 && last.trailing.is_none() && last.role != Role::Comment => {
                last.trailing = Some(text);
            }
            _ => self.push(Entry { apart: newlines > 1, text, trailing: None, role: Role::Comment, depth: self.depth }),
        }
    }

    fn statement(&mut self, source: &str, piece: Piece, apart: bool) {
        // What does not read back stays as it is: better odd than wrong.
        let verbatim = || Set { text: piece.span.text(source).to_owned(), behind: Vec::new(), name: None };
        let Set { text, behind, name } = formatted(source, piece).unwrap_or_else(verbatim);
        let role = match name {
            Some(name) if !text.contains('\n') => Role::Input(name),
            _ => Role::Other,
        };
        self.depth -= usize::from(text == "}" && self.depth > 0);
        let opens = opens(&text);
        self.push(Entry { apart, text, trailing: None, role, depth: self.depth });
        self.depth += usize::from(opens);
        for Comment { text, newlines } in behind {
            self.comment(&text, newlines);
        }
    }

    fn push(&mut self, entry: Entry) {
        let first = self.entries.is_empty();
        self.entries.push(Entry { apart: entry.apart && !first, ..entry });
    }

    fn to_text(&self) -> String {
        let mut out = String::new();
        let mut rest = self.entries.as_slice();
        while let Some(first) = rest.first() {
            let run = 1 + rest[1..].iter().take_while(|entry| in_one_run(first, entry)).count();
            let widths = rest[..run].iter().filter_map(Entry::width);
            let widest = widths.max().unwrap_or(0);
            rest[..run].iter().for_each(|entry| entry.write(widest, &mut out));
            rest = &rest[run..];
        }
        out
    }
}

/// Whether the dtypes of two inputs are aligned if nothing separates them; comments do not.
fn in_one_run(first: &Entry, next: &Entry) -> bool {
    first.role != Role::Other && !next.apart && next.role != Role::Other
}

impl Entry {
    /// The width of a name that takes part in alignment.
    fn width(&self) -> Option<usize> {
        match self.role {
            Role::Input(name) => (name <= WIDEST_NAME).then_some(name),
            Role::Comment | Role::Other => None,
        }
    }

    fn write(&self, widest: usize, out: &mut String) {
        if self.apart {
            out.push('\n');
        }
        let (name, rest) = self.text.split_at(self.width().unwrap_or(0));
        let indent = " ".repeat(INDENT * self.depth);
        out.push_str(&indent);
        out.push_str(name);
        out.extend(std::iter::repeat_n(' ', if name.is_empty() { 0 } else { widest - name.len() }));
        for (place, line) in rest.split('\n').enumerate() {
            if place > 0 {
                out.push('\n');
                out.push_str(if line.is_empty() { "" } else { &indent });
            }
            out.push_str(line);
        }
        if let Some(comment) = &self.trailing {
            out.push_str("  ");
            out.push_str(comment);
        }
        out.push('\n');
    }
}

/// The canonical lines of a statement, if they parse back to the same statement.
fn formatted(source: &str, piece: Piece) -> Option<Set> {
    let text = piece.span.text(source);
    if opens(text) || text == "}" {
        return block_edge(text);
    }
    let whole = Piece { span: Span::new(0, text.len()), trouble: None };
    let (tokens, last) = tokens(matched(text, whole).ok()?, text);
    let meant = parse(text).0.to_string();
    let reads_back = |set: &Set| {
        let (after, diagnostics) = parse(&set.text);
        diagnostics.is_empty() && meant == after.to_string()
    };
    let on_lines = Some(set(tokens.clone(), last.clone())).filter(reads_back);
    // A line that happens to begin like a statement of its own has to follow the one before.
    on_lines.or_else(|| Some(set_on_one_line(tokens, last)).filter(reads_back))
}

/// Whether a statement opens a block.
fn opens(text: &str) -> bool {
    text.ends_with('{')
}

/// The head or the end of a block. A head is one line, without comments inside.
fn block_edge(text: &str) -> Option<Set> {
    if text == "}" {
        return Some(Set { text: text.to_owned(), behind: Vec::new(), name: None });
    }
    let (ast, diagnostics) = parse(&format!("{text}\n}}"));
    let head = ast.to_string().lines().next().map(str::to_owned);
    let text = head.filter(|_| diagnostics.is_empty())?;
    Some(Set { text, behind: Vec::new(), name: None })
}
