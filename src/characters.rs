//! Which characters a text may hold that is read: programs, schedules and hardware profiles.
//!
//! A control character cannot be seen, and a bidirectional mark makes a line read differently from what it means. A
//! carriage return alone ends a line in some editors and not here, so that a comment would swallow what seems to be the
//! next line. None of them has a use in such texts.

use crate::escape::{is_bidirectional, is_steering};
use crate::span::Span;
use miette::{Diagnostic, SourceSpan};
use thiserror::Error;

/// A character that cannot stand in a text.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[error("unexpected {what}")]
#[diagnostic(code("control-character"))]
pub struct ControlCharacter {
    /// The kind of character and which one: `control character U+001B`.
    pub what: String,
    /// Its place.
    #[label(primary, "this character")]
    pub at: SourceSpan,
    /// What to do.
    #[help]
    pub help: &'static str,
}

/// Looks for the first character that cannot stand in a text. Tabs, line feeds and `CRLF` can.
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
        c if is_bidirectional(c) => (
            format!("bidirectional mark {code}"),
            "remove it: it can make the text around it read differently from what it means",
        ),
        _ => {
            (format!("control character {code}"), "remove it; a text has no control characters but tabs and line ends")
        }
    };
    Err(ControlCharacter { what, at: Span::new(at, at + c.len_utf8()).into(), help })
}

/// Whether a name is a letter, then letters, digits and `_`, as axes and networks are called.
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
