//! Permitted characters of programs, schedules and hardware profiles.
//!
//! Control characters are invisible, and bidirectional marks make a line misleading. A lone carriage return ends a line in
//! some editors but not in this language, so a comment would swallow the next line. All of these are rejected.

use crate::escape::{is_bidirectional, is_steering};
use crate::span::Span;
use miette::{Diagnostic, SourceSpan};
use thiserror::Error;

/// A character that is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[error("unexpected {what}")]
#[diagnostic(code("control-character"))]
pub struct ControlCharacter {
    /// Kind and code of the character: `control character U+001B`.
    pub what: String,
    /// Its location.
    #[label(primary, "this character")]
    pub at: SourceSpan,
    /// Suggestion.
    #[help]
    pub help: &'static str,
}

/// Finds the first character that is not permitted. Tabs, line feeds and `CRLF` are.
///
/// # Errors
/// If there is one.
pub fn check(text: &str) -> Result<(), ControlCharacter> {
    let is_wrong = |(at, c): &(usize, char)| match c {
        '\t' | '\n' => false,
        '\r' => !matches!(text.as_bytes().get(at + 1), None | Some(b'\n')),
        c => is_steering(*c),
    };
    let Some((at, c)) = text.char_indices().find(is_wrong) else { return Ok(()) };
    let code = format!("U+{:04X}", u32::from(c));
    let (what, help) = match c {
        '\r' => ("carriage return without a line feed".to_owned(), "end lines with LF or CRLF"),
        '\u{2028}' | '\u{2029}' => (format!("line separator {code}"), "end lines with LF or CRLF"),
        c if is_bidirectional(c) => {
            (format!("bidirectional mark {code}"), "remove it; it can make the surrounding text misleading")
        }
        _ => (format!("control character {code}"), "remove it; only tabs and line ends are allowed"),
    };
    Err(ControlCharacter { what, at: Span::new(at, at + c.len_utf8()).into(), help })
}

/// Whether a name is a letter followed by letters, digits and `_`, as required for axes and networks.
pub(crate) fn is_word(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, usize)> {
        check(text).err().map(|error| (error.to_string(), error.at.offset()))
    }

    #[test]
    fn the_first_character_that_cannot_stand_here() {
        for right in ["", "a\tb\nc\r\n", "a\r", "# é 漢字 \u{A0}\u{FEFF}", "# שלום"] {
            assert_eq!(found(right), None, "{right:?}");
        }
        for (wrong, at, message) in [
            ("a\0", 1, "unexpected control character U+0000"),
            ("é\u{1b}[31m", 2, "unexpected control character U+001B"),
            ("\u{9b}31m", 0, "unexpected control character U+009B"),
            ("a\u{c}", 1, "unexpected control character U+000C"),
            ("a\rb\r\n", 1, "unexpected carriage return without a line feed"),
            ("# \u{202e}x", 2, "unexpected bidirectional mark U+202E"),
            ("# \u{2066}x", 2, "unexpected bidirectional mark U+2066"),
            ("# \u{2028}x", 2, "unexpected line separator U+2028"),
        ] {
            assert_eq!(found(wrong), Some((message.to_owned(), at)), "{wrong:?}");
        }
    }
}
