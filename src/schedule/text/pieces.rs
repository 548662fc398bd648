//! Splitting of the text into statements.

use crate::span::Span;

/// Keywords of statements; other statements begin with a value: `%left = `.
const WORDS: [&str; 6] = ["mesh", "array", "step", "kernel", "output", "assert"];

/// The statements in order, trimmed. A statement extends to the start of the next one.
pub(super) fn pieces(source: &str) -> Vec<Span> {
    let mut pieces: Vec<Span> = Vec::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let text = line.trim();
        let from = start + line.len() - line.trim_start().len();
        start += line.len();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let span = Span::new(from, from + text.len());
        match pieces.last_mut() {
            Some(last) if !begins(text) => last.end = span.end,
            Some(_) | None => pieces.push(span),
        }
    }
    pieces
}

/// Whether a line begins a statement.
fn begins(line: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let word = |text: &str| text.find(|letter: char| !is_letter(letter)).unwrap_or(text.len());
    match line.strip_prefix('%') {
        Some(name) => name[word(name)..].trim_start().starts_with('='),
        None => WORDS.contains(&&line[..word(line)]),
    }
}
